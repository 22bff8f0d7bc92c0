"""The softmax: probabilities that sum to 1, also far from zero."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.special import expit, log_softmax

from skpref.likelihoods import Softmax

F = np.random.default_rng(0).normal(scale=5.0, size=(20, 4))


def test_probabilities_are_those_of_scipy():
    assert_allclose(Softmax().log_prob(F), log_softmax(F, axis=1), rtol=1e-13)
    assert_allclose(Softmax().predict(F).sum(axis=1), 1.0, rtol=1e-14)
    assert_allclose(Softmax().predict([[0.0, 2.0]])[0, 1], expit(2.0), rtol=1e-14)


def test_a_common_shift_and_large_values_do_no_harm():
    assert_allclose(Softmax().log_prob(F + 1e6), Softmax().log_prob(F), atol=1e-8)
    assert np.array_equal(Softmax().log_prob([[-1e300, 0.0, 1e300]]), [[-2e300, -1e300, 0.0]])
