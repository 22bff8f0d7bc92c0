"""Inference at n inputs against the reference posteriors, scikit-learn's Laplace, and the engine's."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skpref import kernels
from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.ep import cavities, ep_gradient, expectation_propagation, variational_bound
from skpref.inference.laplace import laplace, laplace_gradient, mode_adjoint
from skpref.inference.scale import FixedScale
from skpref.inference.sites import LAPLACE
from skpref.inference.terms.pairs import PairTerm
from skpref.likelihoods import OrdinalProbit, PairwiseLogit, PairwiseProbit
from tests.differences import central
from tests.examples import examples

seeds = st.integers(0, 2**32 - 1)
FILES = ("n1_r3", "n2_r3", "n3_r3", "n3_r5_ard", "n30_r5")
# theta of the ordinal probit is (log noise, b_1, log Delta_2, ..), so that -d/db_1 is d/dz.
B_1 = 1


@pytest.fixture(scope="module", params=FILES)
def case(shared, request):
    path = shared / "reference" / "gp_ordinal" / f"{request.param}.json"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    data = json.loads(path.read_text("utf-8"))
    config = data["config"]
    X, X_test = (np.array(config[name], dtype=np.float64) for name in ("X", "X_test"))
    kappa = np.broadcast_to(config["kappa"], X.shape[1:])
    jitter = config.get("jitter", 0.0)

    def k(A, B):
        return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2) @ kappa)

    thresholds = config["b1"] + np.concatenate([[0.0], np.cumsum(config["deltas"])])
    y = np.array(config["y"], dtype=np.float64) - 1.0
    return SimpleNamespace(
        data=data,
        K=k(X, X) + jitter * np.eye(len(X)),
        K_star=k(X_test, X),
        k_diag=np.ones(len(X_test)),
        likelihood=OrdinalProbit(tuple(thresholds), config["sigma"]),
        y=y,
        weight=np.ones_like(y),
    )


def run_ep(case, **changes):
    case = SimpleNamespace(**{**vars(case), **changes})
    return expectation_propagation(case.K, case.likelihood, case.y, case.weight, tol=1e-11, max_iter=2000)


def run_laplace(case, **changes):
    case = SimpleNamespace(**{**vars(case), **changes})
    return laplace(case.K, case.likelihood, case.y, case.weight)


def third(likelihood):
    return lambda y, z: -likelihood.theta_derivatives(y, z)[2][B_1]


def test_ep_ends_at_the_fixed_point_of_the_reference(case):
    q, fixed = run_ep(case), case.data["ep_fixed_point"]
    rtol = 1e-7 if case.y.size == 30 else 1e-8
    assert q.converged
    assert q.n_skipped == 0
    assert_allclose(q.mean, fixed["mean"], rtol=rtol, atol=rtol)
    assert_allclose(q.variance, np.diagonal(fixed["cov"]), rtol=rtol)
    assert_allclose(q.tau, fixed["site_precision"], rtol=rtol)
    assert_allclose(q.nu / q.tau, fixed["site_mean"], rtol=rtol, atol=rtol)
    assert_allclose(q.log_evidence, fixed["log_evidence"], rtol=rtol)
    bound = variational_bound(case.likelihood, case.y, case.weight, q)
    assert_allclose(bound, fixed["variational_bound"], rtol=rtol)
    if "test_mean" in fixed:
        mean, variance = q.predict(case.K_star, case.k_diag)
        assert_allclose(mean, fixed["test_mean"], rtol=rtol, atol=rtol)
        assert_allclose(variance, fixed["test_var"], rtol=rtol)


def test_ep_against_the_truth(case):
    q, data = run_ep(case), case.data
    bound = variational_bound(case.likelihood, case.y, case.weight, q)
    if case.y.size == 30:
        truth = data["box_probability"]
        assert bound <= truth["log"] + 5.0 * truth["se_log"]
        return
    exact = data["exact"]
    assert bound <= exact["log_evidence"]
    gap = 1e-10 if case.y.size == 1 else 3e-4
    assert_allclose(q.log_evidence, exact["log_evidence"], atol=gap, rtol=0.0)
    if case.y.size == 1:
        assert_allclose(q.mean, exact["posterior_mean"], rtol=1e-10)
        assert_allclose(q.variance, exact["posterior_cov"][0], rtol=1e-10)
        assert abs(run_laplace(case).log_evidence - exact["log_evidence"]) > 1e-3
        assert bound < exact["log_evidence"] - 1e-6


def test_laplace_is_that_of_the_reference(case):
    q, numbers = run_laplace(case), case.data["laplace"]
    assert q.converged
    assert_allclose(q.mean, numbers["f_map"], rtol=1e-8, atol=1e-9)
    assert_allclose(q.tau, numbers["Lambda"], rtol=1e-7)
    assert_allclose(q.variance, np.diagonal(numbers["cov"]), rtol=1e-7)
    assert_allclose(q.log_evidence, numbers["log_evidence"], rtol=1e-9)
    if "test_mean" in numbers:
        mean, variance = q.predict(case.K_star, case.k_diag)
        assert_allclose(mean, numbers["test_mean"], rtol=1e-7, atol=1e-9)
        assert_allclose(variance, numbers["test_var"], rtol=1e-8)


def test_gradients_of_ep_in_the_parameters_of_the_likelihood(case):
    q = run_ep(case)
    gradient = case.likelihood.theta_tilted(case.y, *cavities(q)) @ case.weight
    for j, unit in enumerate(np.eye(gradient.size)):
        slope = central(
            lambda t, unit=unit: (
                run_ep(case, likelihood=case.likelihood.with_theta(case.likelihood.theta + t * unit)).log_evidence
            )
        )
        assert_allclose(gradient[j], slope, rtol=1e-6, atol=1e-7)


def test_gradients_of_laplace_in_the_parameters_of_the_likelihood(case):
    q, likelihood = run_laplace(case), case.likelihood
    value, first, second = likelihood.theta_derivatives(case.y, q.mean)
    c = mode_adjoint(case.K, likelihood, case.y, case.weight, q, third(likelihood))
    gradient = (value + first * c + 0.5 * second * q.variance) @ case.weight
    for j, unit in enumerate(np.eye(gradient.size)):
        slope = central(
            lambda t, unit=unit: (
                run_laplace(case, likelihood=likelihood.with_theta(likelihood.theta + t * unit)).log_evidence
            )
        )
        assert_allclose(gradient[j], slope, rtol=1e-6, atol=1e-7)


def test_gradients_in_the_covariance(case):
    rng = np.random.default_rng(0)
    A = rng.normal(size=case.K.shape)
    direction = A @ A.T / len(A)
    slope = central(lambda t: run_ep(case, K=case.K + t * direction).log_evidence)
    assert_allclose(np.sum(ep_gradient(run_ep(case)) * direction), slope, rtol=1e-5, atol=1e-7)
    adjoint = laplace_gradient(case.K, case.likelihood, case.y, case.weight, run_laplace(case), third(case.likelihood))
    slope = central(lambda t: run_laplace(case, K=case.K + t * direction).log_evidence)
    assert_allclose(np.sum(adjoint * direction), slope, rtol=1e-5, atol=1e-7)


@given(seed=seeds)
def test_two_levels_are_the_probit(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    X, y = rng.normal(size=(n, 2)), (rng.random(n) < 0.5).astype(float)
    K, b, noise = RBF(np.exp(rng.normal()))(X) + 1e-3 * np.eye(n), rng.normal(), np.exp(rng.normal())
    ordinal, weight = OrdinalProbit((b,), noise), np.ones(n)
    # Phi((f - b)/noise): g = f/noise has the covariance K/noise^2. Without a threshold it is the probit.
    plain = OrdinalProbit((0.0,), noise)
    for method in (expectation_propagation, laplace):
        two = method(K, plain, y, weight)
        probit = method(K / noise**2, PairwiseProbit(), y, weight)
        assert_allclose(two.log_evidence, probit.log_evidence, rtol=1e-9)
        assert_allclose(two.mean / noise, probit.mean, rtol=1e-6, atol=1e-8)
        assert method(K, ordinal, y, weight).converged


@examples(15)
@given(seed=seeds)
def test_laplace_is_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 30))
    X = rng.normal(size=(n, 3))
    y = (rng.permutation(n) < rng.integers(1, n)).astype(float)
    kernel = ConstantKernel(np.exp(rng.normal())) * RBF(np.exp(rng.normal(size=3)))
    peer = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)
    evidence, slope = peer.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    K, dK = kernel(X, eval_gradient=True)
    q = laplace(K, PairwiseLogit(), y, np.ones(n))
    # Its Newton iterations stop at a gain of 1e-10 nats, an error of 1e-5 standard deviations.
    assert_allclose(q.log_evidence, evidence, rtol=1e-6)
    adjoint = laplace_gradient(
        K, PairwiseLogit(), y, np.ones(n), q, lambda _, z: -expit(z) * expit(-z) * (expit(-z) - expit(z))
    )
    assert_allclose(np.einsum("ij,ijk->k", adjoint, dK), slope, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("likelihood", [PairwiseProbit(), PairwiseLogit()], ids=["probit", "logit"])
@given(seed=seeds)
def test_laplace_is_the_laplace_rule_of_the_engine(likelihood, seed):
    """Differences of two items under the difference kernel: n comparisons, a covariance of less than full rank."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(2, 8)), int(rng.integers(1, 16))
    X, left, scale = rng.normal(size=(n, 2)), rng.integers(0, n, p), np.exp(rng.normal())
    right = (left + rng.integers(1, n, p)) % n
    y, weight = rng.random(p), np.exp(rng.normal(size=p))
    basis = InducingBasis.from_points(kernels.ProductMatern(np.exp(rng.normal(size=2))), X)
    term = PairTerm(basis.rows(X), left, right, n)
    problem = svi.Problem({"f": term}, likelihood, y, weight, LAPLACE)
    start = svi.initial_state(problem, {"f": FixedScale(scale)})
    fit = svi.fit(problem, start, replace(svi.Schedule(), tol=0.0, max_iter=60), rng)
    rows = basis.rows(X)[left] - basis.rows(X)[right]
    q = laplace(rows @ rows.T / scale, likelihood, y, weight)
    mean, precision = fit.state.blocks["f"].mean, fit.state.blocks["f"].precision
    assert_allclose(q.mean, rows @ mean, rtol=1e-6, atol=1e-8)
    assert_allclose(q.variance, np.diagonal(rows @ np.linalg.solve(precision, rows.T)), rtol=1e-6)
    joint = weight @ likelihood.log_prob(y, rows @ mean) - 0.5 * scale * mean @ mean
    assert_allclose(q.log_evidence, joint - 0.5 * np.linalg.slogdet(precision / scale)[1], rtol=1e-8)
