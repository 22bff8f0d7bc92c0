"""The Laplace approximation: at the mode, monotone, with true gradients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skpref.exceptions import SkprefError
from skpref.inference.laplace import laplace, laplace_gradient
from skpref.likelihoods import Gaussian, PairwiseLogit, PairwiseProbit, StudentT

seeds = st.integers(0, 2**32 - 1)


LIKELIHOODS = pytest.mark.parametrize("likelihood", [PairwiseProbit(), PairwiseLogit()], ids=["probit", "logit"])


def draw(seed, n=None):
    rng = np.random.default_rng(seed)
    n = n or int(rng.integers(1, 9))
    X = rng.normal(size=(n, 2))
    K = np.exp(2.0 * rng.normal()) * np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1) / np.exp(rng.normal()))
    return rng, K + 1e-3 * np.eye(n), (rng.random(n) < 0.5).astype(float), np.exp(rng.normal(size=n))


@LIKELIHOODS
@given(seed=seeds)
def test_it_ends_at_the_mode(likelihood, seed):
    _, K, y, weight = draw(seed)
    q = laplace(K, likelihood, y, weight, tol=1e-24)
    _, first, second = likelihood.derivatives(y, q.mean)
    assert q.converged
    assert_allclose(q.alpha, weight * first, rtol=1e-9, atol=1e-10)
    assert_allclose(q.mean, K @ q.alpha, rtol=1e-9, atol=1e-10)
    assert_allclose(q.tau, -weight * second, rtol=1e-9)
    S = np.linalg.inv(np.linalg.inv(K) + np.diag(q.tau))
    assert_allclose(q.variance, np.diagonal(S), rtol=1e-7)
    joint = weight @ likelihood.log_prob(y, q.mean) - 0.5 * q.mean @ np.linalg.solve(K, q.mean)
    log_b = np.linalg.slogdet(np.eye(y.size) + K * q.tau)[1]
    assert_allclose(q.log_evidence, joint - 0.5 * log_b, rtol=1e-9, atol=1e-10)


@LIKELIHOODS
@given(seed=seeds)
def test_no_step_lowers_the_log_joint(likelihood, seed):
    rng, K, y, weight = draw(seed)
    start = laplace(K, likelihood, rng.permutation(y), 50.0 * weight)
    joints = []
    for max_iter in range(12):
        q = laplace(K, likelihood, y, weight, start, max_iter=max_iter)
        joints.append(weight @ likelihood.log_prob(y, q.mean) - 0.5 * q.alpha @ q.mean)
    assert np.all(np.diff(joints) >= -1e-10 * (1.0 + np.abs(joints[-1])))
    assert_allclose(joints[-1], joints[-2], rtol=1e-6, atol=1e-8)


@given(seed=seeds)
def test_gaussian_observations_are_exact(seed):
    rng, K, _, weight = draw(seed)
    y = rng.normal(size=weight.size)
    q = laplace(K, Gaussian(2.0), y, weight)
    C = K + np.diag(1.0 / (2.0 * weight))
    assert q.n_iter <= 2
    assert_allclose(q.mean, K @ np.linalg.solve(C, y), rtol=1e-8, atol=1e-10)
    # The density of a weighted observation is that of one of precision 2 w, up to constants.
    log_z = -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(2.0 * np.pi * C)[1])
    constants = 0.5 * np.sum((weight - 1.0) * np.log(2.0 / (2.0 * np.pi)) - np.log(weight))
    assert_allclose(q.log_evidence, log_z + constants, rtol=1e-9, atol=1e-9)


def test_without_a_third_derivative_there_is_no_gradient():
    q = laplace(np.eye(2), PairwiseProbit(), np.ones(2), np.ones(2))
    with pytest.raises(SkprefError, match="PairwiseProbit has no third derivative"):
        laplace_gradient(np.eye(2), PairwiseProbit(), np.ones(2), np.ones(2), q)


@LIKELIHOODS
@given(seed=seeds)
def test_a_warm_start_changes_the_way_only(likelihood, seed):
    _, K, y, weight = draw(seed)
    cold = laplace(K, likelihood, y, weight, tol=1e-24)
    warm = laplace(K, likelihood, y, weight, laplace(3.0 * K, likelihood, y, weight), tol=1e-24)
    loose = laplace(K, likelihood, y, weight)
    assert_allclose(loose.log_evidence, cold.log_evidence, rtol=1e-7)
    assert_allclose(warm.log_evidence, cold.log_evidence, rtol=1e-9)
    assert laplace(K, likelihood, y, weight, loose).n_iter == 0


@given(seed=seeds)
def test_copies_are_weights(seed):
    rng, K, y, _ = draw(seed, n=4)
    weight = rng.integers(0, 4, 4).astype(float)
    every = np.repeat(np.arange(4), weight.astype(int))
    weighted = laplace(K, PairwiseLogit(), y, weight)
    copied = laplace(K[np.ix_(every, every)], PairwiseLogit(), y[every], np.ones(every.size))
    assert_allclose(weighted.log_evidence, copied.log_evidence, rtol=1e-9)
    assert_allclose(weighted.mean[every], copied.mean, rtol=1e-7, atol=1e-9)


@LIKELIHOODS
@given(seed=seeds)
def test_hard_matrices(likelihood, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    X = rng.normal(size=(n, 2))[rng.integers(0, n, n)]
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1) / np.exp(rng.uniform(-3.0, 8.0)))
    K *= np.exp(rng.uniform(-9.0, 12.0))
    y = np.ones(n) if rng.random() < 0.2 else (rng.random(n) < 0.5).astype(float)
    q = laplace(K, likelihood, y, np.exp(3.0 * rng.normal(size=n)))
    assert q.converged
    assert np.isfinite(q.log_evidence)
    assert np.all((q.variance >= 0.0) & (q.variance <= np.diagonal(K) * (1.0 + 1e-9)))


@LIKELIHOODS
@given(seed=seeds)
def test_it_stops_where_only_rounding_errors_are_left(likelihood, seed):
    # With this tolerance it is the rule for rounding errors that ends the iterations.
    _, K, y, weight = draw(seed)
    q = laplace(1e4 * K, likelihood, y, 1e3 * weight, tol=0.0)
    assert q.converged
    _, first, _ = likelihood.derivatives(y, q.mean)
    assert_allclose(q.alpha, 1e3 * weight * first, rtol=1e-9, atol=1e-9 * weight.max())


@given(seed=seeds)
def test_a_likelihood_that_is_not_log_concave_ends_at_a_mode(seed):
    rng, K, _, weight = draw(seed)
    y = 4.0 * rng.standard_t(1.0, weight.size)
    student = StudentT(0.5, 2.0)
    q = laplace(K, student, y, weight, max_iter=2000)
    _, first, second = student.derivatives(y, q.mean)
    assert q.converged
    # Steps without the negative curvature converge linearly: the log joint is flat to 1e-12, the mode known to 1e-5.
    assert_allclose(q.mean, K @ (weight * first), rtol=1e-3, atol=1e-3)
    assert_allclose(q.tau, weight * np.maximum(-second, 0.0), rtol=1e-9, atol=1e-300)
