import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from skpref.exceptions import DataError
from skpref.likelihoods import Gaussian

REAL = st.floats(-100.0, 100.0)
POSITIVE = st.floats(1e-3, 1e3)


@given(y=REAL, z=REAL, beta=POSITIVE)
def test_log_prob_is_the_normal_density(y, z, beta):
    assert_allclose(Gaussian(beta).log_prob(y, z), norm.logpdf(y, z, beta**-0.5), rtol=1e-10, atol=1e-12)


@given(y=REAL, mu=REAL, v=st.floats(0.0, 1e3), beta=POSITIVE)
def test_the_site_of_an_observation_is_the_observation(y, mu, v, beta):
    # docs/maths section 11: w = beta and t = y, whatever q is.
    _, d_mu, d_v = Gaussian(beta).expectation(y, mu, v)
    weight = -2.0 * d_v
    assert_allclose(weight, beta, rtol=1e-15)
    assert_allclose(weight * mu + d_mu, beta * y, rtol=1e-9, atol=1e-9 * beta)


def test_prediction_is_a_copy_of_the_mean():
    mu = np.array([1.0, 2.0])
    predicted = Gaussian().predict(mu, 3.0)
    assert_array_equal(predicted, mu)
    assert not np.shares_memory(predicted, mu)


@pytest.mark.parametrize("precision", [0.0, -1.0, np.nan, np.inf])
def test_precision_must_be_positive_and_finite(precision):
    with pytest.raises(DataError, match="precision must be a positive finite number; got"):
        Gaussian(precision)
