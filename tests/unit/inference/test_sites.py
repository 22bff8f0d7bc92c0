"""Site rules: what each of them takes from the likelihood."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skpref.inference.sites import LAPLACE, LINEARISED, VARIATIONAL
from skpref.likelihoods import Gaussian, PairwiseLogit, PairwiseProbit, StudentT

seeds = st.integers(0, 2**32 - 1)


def draw(seed, n=12):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, rng.integers(0, 2, n), rng.random(n))
    v = np.exp(rng.normal(size=n))
    return y, (3.0 * rng.normal(size=n), v, v + 1.0), rng.exponential(size=n)


@pytest.mark.parametrize("likelihood", [PairwiseProbit(), PairwiseLogit()])
@given(seed=seeds)
def test_rules_follow_the_table_of_the_maths_and_weights_multiply(likelihood, seed):
    y, moments, weight = draw(seed)
    mu, v, _ = moments
    value, first, second = likelihood.expectation(y, mu, v)
    vb = VARIATIONAL(likelihood, y, moments, weight)
    assert_array_equal(vb.value, weight * value)
    assert_array_equal(vb.gradient, weight * first)
    assert_array_equal(vb.weight, weight * (-2.0 * second))
    value, first, second = likelihood.derivatives(y, mu)
    laplace = LAPLACE(likelihood, y, moments, weight)
    assert_array_equal(laplace.value, weight * value)
    assert_array_equal(laplace.gradient, weight * first)
    assert_allclose(laplace.weight, -weight * second, rtol=1e-14, atol=1e-300)
    for sites in (vb, laplace):
        assert (sites.weight >= 0.0).all()
        keep = sites.weight > 0.0
        target = mu + np.divide(sites.gradient, sites.weight, where=keep, out=np.zeros_like(mu))
        assert_allclose(sites.pseudo_linear(mu)[keep], (sites.weight * target)[keep], rtol=1e-9, atol=1e-12)


@given(seed=seeds)
def test_the_linearised_rule_reports_the_exact_expectation(seed):
    y, moments, weight = draw(seed)
    mu, v, prior = moments
    sites = LINEARISED(PairwiseProbit(), y, moments, weight)
    site_weight, gradient = PairwiseProbit().linearised(y, mu, v, prior)
    assert_array_equal(sites.weight, weight * site_weight)
    assert_array_equal(sites.gradient, weight * gradient)
    assert_array_equal(sites.value, weight * PairwiseProbit().expectation(y, mu, v)[0])


def test_a_site_of_a_gaussian_is_the_observation_itself():
    y, mu = np.array([0.3, -1.0]), np.array([5.0, 2.0])
    moments = (mu, np.ones(2), np.ones(2))
    for rule in (VARIATIONAL, LAPLACE):
        sites = rule(Gaussian(precision=4.0), y, moments, np.ones(2))
        assert_allclose(sites.weight, 4.0)
        assert_allclose(sites.pseudo_linear(mu), 4.0 * y)


@pytest.mark.parametrize("rule", [VARIATIONAL, LAPLACE, LINEARISED])
def test_sites_are_finite_far_out(rule):
    mu = np.array([-1e6, -1e3, 0.0, 1e3, 1e6])
    moments = (np.tile(mu, 3), np.ones(15), np.ones(15))
    sites = rule(PairwiseProbit(), np.repeat([0.0, 0.5, 1.0], 5), moments, np.ones(15))
    for part in (sites.value, sites.gradient, sites.weight):
        assert np.isfinite(part).all()


def test_what_the_loop_may_assume():
    assert VARIATIONAL.monotone
    assert VARIATIONAL.integrates
    assert LAPLACE.monotone
    assert not LAPLACE.integrates
    assert not LINEARISED.monotone


def test_laplace_counts_no_curvature_where_the_likelihood_is_not_log_concave():
    y, mu = np.zeros(4), np.array([0.1, 1.0, 3.0, 30.0])
    weight = np.array([1.0, 2.0, 3.0, 4.0])
    value, first, second = StudentT(0.5, 3.0).derivatives(y, mu)
    assert (second < 0.0).tolist() == [True, False, False, False]
    sites = LAPLACE(StudentT(0.5, 3.0), y, (mu, np.ones(4), np.ones(4)), weight)
    assert_array_equal(sites.value, weight * value)
    assert_array_equal(sites.gradient, weight * first)
    assert_array_equal(sites.weight, [-second[0], 0.0, 0.0, 0.0])
