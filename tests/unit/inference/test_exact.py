"""The posterior that is conjugate to sites, against dense algebra."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skpref.exceptions import DataError
from skpref.inference.ep import expectation_propagation
from skpref.inference.exact import check_problem, conjugate, explicit_gradient, factor, inverse_spd, solve_sites
from skpref.inference.laplace import laplace
from skpref.likelihoods import PairwiseProbit

seeds = st.integers(0, 2**32 - 1)


def draw(seed, n=None):
    """A covariance matrix, and sites of which some are absent and some very sharp."""
    rng = np.random.default_rng(seed)
    n = n or int(rng.integers(1, 9))
    X = rng.normal(size=(n, 2))
    K = np.exp(rng.normal()) * np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1)) + 0.1 * np.eye(n)
    tau = np.exp(rng.uniform(-20.0, 8.0, n)) * (rng.random(n) < 0.8)
    return rng, K, tau, tau * rng.normal(size=n) + 0.1 * rng.normal(size=n)


@given(seed=seeds)
def test_conjugate_is_the_dense_algebra(seed):
    _, K, tau, nu = draw(seed)
    state = conjugate(K, tau, nu)
    S = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
    assert_allclose(state.variance, np.diagonal(S), rtol=1e-9)
    assert_allclose(state.mean, S @ nu, rtol=1e-8, atol=1e-9)
    assert_allclose(K @ state.alpha, state.mean, rtol=1e-8, atol=1e-9)
    assert_allclose(state.alpha, nu - tau * state.mean, rtol=1e-8, atol=1e-7)
    assert_allclose(state.retained, 1.0 - tau * np.diagonal(S), atol=1e-9)
    root = np.sqrt(tau)
    assert_allclose(state.chol @ state.chol.T, np.eye(tau.size) + root[:, None] * K * root, rtol=1e-12, atol=1e-12)


@given(seed=seeds)
def test_a_sharp_site_is_a_datum(seed):
    """At tau = 1e12 the textbook's nu - T^1/2 B^-1 T^1/2 K nu has four digits; this has what K allows."""
    rng, K, _, _ = draw(seed)
    target = rng.normal(size=K.shape[0])
    tau = np.full(target.shape, 1e12)
    root, chol = factor(K, tau)
    alpha, mean = solve_sites(K, tau, tau * target, root, chol)
    assert_allclose(alpha, np.linalg.solve(K, target), rtol=1e-7, atol=1e-8)
    assert_allclose(mean, target, rtol=1e-8, atol=1e-9)


@given(seed=seeds)
def test_nothing_depends_on_the_memory_order(seed):
    _, K, tau, nu = draw(seed)
    one, other = conjugate(K, tau, nu), conjugate(np.asfortranarray(K), tau, nu)
    for name in ("alpha", "mean", "variance", "retained", "chol"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-10, atol=1e-10)


@given(seed=seeds)
def test_inverse_from_a_factor(seed):
    _, K, _, _ = draw(seed)
    L = np.linalg.cholesky(K)
    for form in (np.ascontiguousarray, np.asfortranarray):
        inverse = inverse_spd(form(L))
        assert_allclose(inverse, np.linalg.inv(K), rtol=1e-9, atol=1e-10)
        assert_allclose(inverse, inverse.T, rtol=0.0, atol=0.0)
    assert inverse_spd(np.zeros((0, 0))).shape == (0, 0)


def posterior(method, K, y):
    return {"ep": expectation_propagation, "laplace": laplace}[method](K, PairwiseProbit(), y, np.ones_like(y))


@pytest.mark.parametrize("method", ["ep", "laplace"])
@given(seed=seeds)
def test_predictions_are_the_dense_algebra(method, seed):
    rng, full, _, _ = draw(seed, n=9)
    K, y = full[:6, :6], (rng.random(6) < 0.5).astype(float)
    q = posterior(method, K, y)
    mean, variance = q.predict(full[6:, :6], np.diagonal(full)[6:])
    S = np.linalg.inv(np.linalg.inv(K) + np.diag(q.tau))
    project = np.linalg.solve(K, full[:6, 6:]).T
    assert_allclose(mean, project @ q.mean, rtol=1e-9, atol=1e-10)
    assert_allclose(variance, np.diagonal(full[6:, 6:] - project @ (K - S) @ project.T), rtol=1e-8)
    at_inputs = q.predict(K, np.diagonal(K))
    assert_allclose(at_inputs[0], q.mean, rtol=1e-10, atol=1e-12)
    assert_allclose(at_inputs[1], q.variance, rtol=1e-8)


def test_a_predicted_variance_is_at_least_0():
    X = np.linspace(0.0, 1.0, 40)[:, None]
    K = 1e6 * np.exp(-0.5 * (X - X.T) ** 2)
    q = posterior("ep", K, (X[:, 0] > 0.4).astype(float))
    # A prior variance that rounding made too small
    assert np.all(q.predict(K, np.diagonal(K) - 1e6)[1] == 0.0)
    assert np.all(q.predict(K, np.diagonal(K))[1] >= 0.0)


def test_nothing_to_predict():
    q = posterior("ep", np.eye(3), np.ones(3))
    mean, variance = q.predict(np.zeros((0, 3)), np.zeros(0))
    assert mean.shape == variance.shape == (0,)


@pytest.mark.parametrize("method", ["ep", "laplace"])
def test_nothing_seen(method):
    q = posterior(method, np.zeros((0, 0)), np.zeros(0))
    assert q.log_evidence == 0.0
    assert q.converged
    mean, variance = q.predict(np.zeros((2, 0)), np.ones(2))
    assert_allclose(mean, 0.0)
    assert_allclose(variance, 1.0)
    assert explicit_gradient(q).shape == (0, 0)


def test_no_argument_is_changed():
    rng, K, _, _ = draw(3, n=6)
    y, weight = (rng.random(6) < 0.5).astype(float), np.ones(6)
    copies = [a.copy() for a in (K, y, weight)]
    for method in (expectation_propagation, laplace):
        first = method(K, PairwiseProbit(), y, weight)
        sites = first.tau.copy(), first.nu.copy(), first.chol.copy()
        method(1.3 * K, PairwiseProbit(), y, weight, first)
        explicit_gradient(first)
        first.predict(K, np.diagonal(K))
        for before, after in zip(sites, (first.tau, first.nu, first.chol), strict=True):
            assert np.array_equal(before, after)
    for before, after in zip(copies, (K, y, weight), strict=True):
        assert np.array_equal(before, after)


@pytest.mark.parametrize(
    ("shape", "weight", "match"),
    [
        ((3, 2), np.ones(3), r"shape \(3, 3\).*got \(3, 2\)"),
        ((3, 3), np.ones(2), r"got \(3, 3\), \(2,\)"),
        ((3, 3), np.array([1.0, -1.0, 1.0]), "at least 0"),
        ((3, 3), np.array([1.0, np.nan, 1.0]), "finite"),
    ],
)
def test_wrong_input(shape, weight, match):
    with pytest.raises(DataError, match=match):
        check_problem(np.zeros(shape), np.zeros(3), weight)
