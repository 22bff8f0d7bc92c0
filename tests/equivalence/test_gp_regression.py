"""A Gaussian likelihood: the engine is exact GP regression in one step, and Hensman's bound with inducing points."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import solve_triangular
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skpref import kernels
from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock
from skpref.inference.scale import FixedScale
from skpref.inference.terms.base import RowTerm, Segment
from skpref.likelihoods import Gaussian

ONE = {"f": FixedScale(1.0)}


def rows_problem(basis, X, y, beta):
    rows = basis.rows(X)
    term = RowTerm(rows, (Segment("f", rows.shape[1]),), basis.residual(X, rows))
    return svi.Problem({"f": term}, Gaussian(precision=beta), y, np.ones(y.size))


def draw_state(rng, size):
    A = rng.normal(size=(size, size))
    return svi.State({"f": DenseBlock(A @ A.T + np.eye(size), rng.normal(size=size))}, ONE)


def gradient_in_theta(basis, X, problem, state):
    """docs/maths section 5 with single rows in place of pairs."""
    sites, block, term = svi.evaluate(problem, state).sites, state.blocks["f"], problem.terms["f"]
    d = -0.5 * sites.weight
    adjoint = np.outer(sites.gradient, block.mean) + 2.0 * d[:, None] * (block.solve(term.rows.T.copy()).T - term.rows)
    return basis.rows_gradient(X, term.rows, adjoint) + kernels.diagonal_vjp(basis.kernel, X, d)


@given(seed=st.integers(0, 2**32 - 1), kernel=st.sampled_from([RBF([1.0, 2.0]), 2.0 * Matern(0.7, nu=2.5)]))
def test_one_full_step_is_exact_regression(seed, kernel):
    rng = np.random.default_rng(seed)
    X, y, new, beta = rng.normal(size=(8, 2)), rng.normal(size=8), rng.normal(size=(5, 2)), 4.0
    exact = GaussianProcessRegressor(kernel, alpha=1.0 / beta, optimizer=None).fit(X, y)
    basis = InducingBasis.from_points(kernel, X)
    problem = rows_problem(basis, X, y, beta)
    start = draw_state(rng, 8)
    state, seen = svi.full_step(problem, start, svi.evaluate(problem, start))
    assert_allclose(seen.bound, exact.log_marginal_likelihood_value_, rtol=1e-6)
    rows, block = basis.rows(new), state.blocks["f"]
    mean, covariance = exact.predict(new, return_cov=True)
    rest = kernels.cross(kernel, new, new) - rows @ rows.T
    assert_allclose(rows @ block.mean, mean, atol=1e-7)
    assert_allclose(rows @ block.solve(np.ascontiguousarray(rows.T)) + rest, covariance, atol=1e-7)


def test_one_full_step_is_exact_regression_to_the_last_digits():
    # Well separated inputs, so that the kernel matrix costs no digits.
    X = np.linspace(-6.0, 6.0, 9)[:, None]
    y, new, kernel = np.sin(X[:, 0]), np.linspace(-7.0, 7.0, 13)[:, None], RBF(1.0)
    exact = GaussianProcessRegressor(kernel, alpha=0.25, optimizer=None).fit(X, y)
    basis = InducingBasis.from_points(kernel, X)
    problem = rows_problem(basis, X, y, 4.0)
    start = svi.initial_state(problem, ONE)
    state, seen = svi.full_step(problem, start, svi.evaluate(problem, start))
    assert_allclose(seen.bound, exact.log_marginal_likelihood_value_, rtol=5e-14)
    assert_allclose(basis.rows(new) @ state.blocks["f"].mean, exact.predict(new), atol=5e-14)


@pytest.fixture(scope="module")
def sparse_gp(shared):
    data = json.loads((shared / "reference" / "sparse_gp_regression" / "n10_m4.json").read_text())
    config = {k: np.array(v) if isinstance(v, list) else v for k, v in data["config"].items()}
    kernel = ConstantKernel(config["kernel_variance"]) * RBF(config["lengthscales"])
    basis = InducingBasis.from_points(kernel, config["Z"])
    problem = rows_problem(basis, config["X"], config["y"], config["beta"])
    L = np.tril(basis.chol)
    half = solve_triangular(config["q_chol"], L, lower=True)
    precision = half.T @ half
    given_q = DenseBlock(precision, precision @ solve_triangular(L, config["q_mean"], lower=True))
    return SimpleNamespace(
        data=data, config=config, basis=basis, problem=problem, state=svi.State({"f": given_q}, ONE), L=L, kernel=kernel
    )


def test_bound_and_gradients_at_a_given_q(sparse_gp):
    wanted, block = sparse_gp.data["at_given_q"], sparse_gp.state.blocks["f"]
    seen = svi.evaluate(sparse_gp.problem, sparse_gp.state)
    assert_allclose(seen.bound, wanted["L3"], rtol=1e-10)
    assert_allclose(seen.sites.value, wanted["per_datum_terms"], rtol=1e-10)
    assert_allclose(svi.divergence(sparse_gp.problem, sparse_gp.state), wanted["KL"], rtol=1e-10)
    target = svi.conjugate_blocks(sparse_gp.problem, sparse_gp.state, seen)["f"]
    inverse = np.linalg.inv(sparse_gp.L)
    full = np.tril(target.precision) + np.tril(target.precision, -1).T
    assert_allclose(inverse.T @ (target.linear - full @ block.mean), wanted["dL3_dm"], rtol=1e-8)
    assert_allclose(inverse.T @ (0.5 * (block.precision - full)) @ inverse, wanted["dL3_dS"], rtol=1e-8, atol=1e-9)


def test_optimum_is_one_step_away(sparse_gp, whitened):
    state, seen = svi.full_step(sparse_gp.problem, sparse_gp.state, svi.evaluate(sparse_gp.problem, sparse_gp.state))
    mean, covariance = whitened(sparse_gp.basis, state.blocks["f"])
    assert_allclose(seen.bound, sparse_gp.data["L2"], rtol=1e-10)
    assert_allclose(mean, sparse_gp.data["optimal_q"]["mean"], rtol=1e-8)
    assert_allclose(covariance, sparse_gp.data["optimal_q"]["cov"], rtol=1e-8)
    wanted = sparse_gp.data["dL2_dlog_hyper"]
    # theta = (log variance, log l_0, log l_1); at the optimum the partial derivative is the total one.
    gradient = gradient_in_theta(sparse_gp.basis, sparse_gp.config["X"], sparse_gp.problem, state)
    names = ("log_variance", "log_lengthscale_0", "log_lengthscale_1")
    assert_allclose(gradient, [wanted[name] for name in names], rtol=1e-8)


@pytest.mark.parametrize("part", ["full_batch", "minibatch"])
def test_natural_gradient_step(sparse_gp, whitened, part):
    wanted, problem = sparse_gp.data["natural_gradient_step"], sparse_gp.problem
    index = np.array(wanted[part]["indices"]) if part == "minibatch" else np.arange(problem.n_observations)
    moved, before = svi.minibatch_step(problem.batch(index), sparse_gp.state, wanted["step"])
    mean, covariance = whitened(sparse_gp.basis, moved.blocks["f"])
    assert_allclose(mean, wanted[part]["mean"], rtol=1e-8)
    assert_allclose(covariance, wanted[part]["cov"], rtol=1e-8)
    if part == "minibatch":
        assert_allclose(before.bound, wanted[part]["L3_estimate"], rtol=1e-10)


def test_inducing_points_at_the_inputs_make_it_exact(sparse_gp):
    X = sparse_gp.config["X"]
    basis = InducingBasis.from_points(sparse_gp.kernel, X)
    problem = rows_problem(basis, X, sparse_gp.config["y"], sparse_gp.config["beta"])
    start = svi.initial_state(problem, ONE)
    state, seen = svi.full_step(problem, start, svi.evaluate(problem, start))
    assert_allclose(seen.bound, sparse_gp.data["exact_log_marginal"], rtol=1e-8)
    assert sparse_gp.data["L2"] < sparse_gp.data["exact_log_marginal"]
    wanted = sparse_gp.data["dexact_dlog_hyper"]
    gradient = gradient_in_theta(basis, X, problem, state)
    names = ("log_variance", "log_lengthscale_0", "log_lengthscale_1")
    assert_allclose(gradient, [wanted[name] for name in names], rtol=1e-7)


@given(seed=st.integers(0, 2**32 - 1))
def test_sparse_bounds_never_exceed_the_evidence(seed):
    rng = np.random.default_rng(seed)
    X, y, kernel = rng.normal(size=(7, 2)), 2.0 * rng.normal(size=7), RBF(np.exp(rng.normal(size=2)))
    exact = GaussianProcessRegressor(kernel, alpha=0.3, optimizer=None).fit(X, y).log_marginal_likelihood_value_
    basis = InducingBasis.from_points(kernel, rng.normal(size=(3, 2)))
    problem = rows_problem(basis, X, y, 1.0 / 0.3)
    anywhere = draw_state(rng, 3)
    before = svi.evaluate(problem, anywhere)
    _, best = svi.full_step(problem, anywhere, before)
    assert before.bound <= best.bound + 1e-9 * abs(best.bound)
    assert best.bound <= exact + 1e-7


def test_a_weight_of_two_is_the_observation_twice():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(5, 1)), rng.normal(size=5)
    basis = InducingBasis.from_points(RBF(1.0), X[:3])
    once = rows_problem(basis, X, y, 2.0)
    twice = rows_problem(basis, X[[0, 1, 2, 3, 4, 4]], y[[0, 1, 2, 3, 4, 4]], 2.0)
    heavy = replace(once, weight=np.array([1.0, 1.0, 1.0, 1.0, 2.0]))
    start = svi.initial_state(once, ONE)
    ends = [svi.full_step(p, start, svi.evaluate(p, start))[0].blocks["f"] for p in (heavy, twice)]
    assert_allclose(ends[0].mean, ends[1].mean, rtol=1e-10)
