"""Ordered levels with logistic noise and with levels at random."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from skpref.exceptions import DataError
from skpref.likelihoods import OrdinalLogit, OrdinalProbit, OrdinalRobust
from skpref.testing import check_likelihood
from tests.unit.likelihoods.test_ordinal import in_theta

THRESHOLDS = (-1.0, 0.3, 1.5)
KINDS = [OrdinalLogit, OrdinalRobust]


def observations(seed, n=12):
    """Levels, means and variances."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, n).astype(float), rng.uniform(-3.0, 3.0, n), np.exp(rng.uniform(-3.0, 1.5, n))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_conforms(kind, seed):
    check_likelihood(kind(THRESHOLDS, 0.9), y=np.random.default_rng(seed).integers(0, 4, 16), seed=seed)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_in_theta(kind):
    likelihood, (y, mu, v) = kind(THRESHOLDS, 0.8), observations(0)
    assert_allclose(likelihood.theta_tilted(y, mu, v), in_theta(likelihood, lambda l: l.tilted(y, mu, v)[0]), atol=1e-9)
    wanted = in_theta(likelihood, lambda l: l.expectation(y, mu, v)[0])
    assert_allclose(likelihood.theta_expectation(y, mu, v), wanted, atol=1e-8)
    for k, got in enumerate(likelihood.theta_derivatives(y, mu)):
        assert_allclose(got, in_theta(likelihood, lambda l, k=k: l.derivatives(y, mu)[k]), atol=1e-7)
    ends = [likelihood.derivatives(y, mu + h)[2] for h in (-2e-3, -1e-3, 1e-3, 2e-3)]
    third = (ends[0] - 8.0 * ends[1] + 8.0 * ends[2] - ends[3]) / 12e-3
    assert_allclose(likelihood.third_derivative(y, mu), third, atol=1e-6)


def test_logistic_noise():
    z, ends = np.linspace(-8.0, 8.0, 33), np.array([-np.inf, *THRESHOLDS, np.inf])
    wanted = np.diff(expit((ends - z[:, None]) / 0.7), axis=1)
    likelihood = OrdinalLogit(THRESHOLDS, 0.7)
    assert_allclose(likelihood.probabilities(z, np.zeros(33)), wanted, atol=5e-9)
    for level in range(4):
        assert_allclose(np.exp(likelihood.log_prob(np.full(33, level), z)), wanted[:, level], atol=5e-9)


def test_levels_at_random():
    mu, v = np.array([-40.0, 0.0, 2.0]), np.array([0.1, 1.0, 3.0])
    probit, robust = (kind(THRESHOLDS, 0.5).probabilities(mu, v) for kind in (OrdinalProbit, OrdinalRobust))
    assert_allclose(robust, 0.97 * probit + 0.03 / 4)
    assert_allclose(OrdinalRobust(THRESHOLDS).log_prob(3.0, -40.0), np.log(0.03 / 4))
    assert_allclose(OrdinalRobust(THRESHOLDS).predict(mu, v), OrdinalRobust(THRESHOLDS).probabilities(mu, v) @ range(4))


@pytest.mark.parametrize("kind", KINDS)
def test_start_has_the_frequencies_of_the_levels(kind):
    y = np.repeat([0.0, 1.0, 2.0], [10, 60, 30])
    p = kind.start(y, 3).probabilities(np.zeros(1), np.ones(1))[0]
    assert_allclose(p, [0.1, 0.6, 0.3], atol=0.02)
    assert kind.start(y, 3).learnt(y, y, y, y) == kind.start(y, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_parameters_are_refused(kind):
    with pytest.raises(DataError, match="thresholds must be finite and strictly ascending"):
        kind((1.0, 0.0))
    with pytest.raises(DataError, match="noise must be a positive finite number"):
        kind((0.0,), 0.0)
    with pytest.raises(DataError, match="y must hold numbers of levels"):
        kind(THRESHOLDS).log_prob(4.0, 0.0)
