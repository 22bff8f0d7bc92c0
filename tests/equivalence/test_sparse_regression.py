"""The collapsed bound: the reference in 50 digits, the engine, exact regression, differences (S1 of the programme)."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, RationalQuadratic

from skpref import SVGPRegressor
from skpref.gp.sparse import evidence as sparse_collapsed
from skpref.gp.sparse.evidence import GaussianRows, bound, evidence, moments
from skpref.gp.sparse.fit import optimal_latent
from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock
from skpref.inference.scale import FixedScale
from skpref.inference.terms.base import RowTerm, Segment
from skpref.likelihoods import Gaussian
from tests.examples import examples
from tests.policies import set_policy


def one_row_each(X, y, weight=None):
    return GaussianRows(X, y, np.ones(len(y)) if weight is None else weight)


def problem_of(rows, basis, beta):
    phi = basis.rows(rows.X)
    term = RowTerm(phi, (Segment("f", phi.shape[1]),), basis.residual(rows.X, phi))
    return svi.Problem({"f": term}, Gaussian(beta), rows.y, rows.weight)


@pytest.fixture(scope="module")
def reference(shared):
    return json.loads((shared / "reference" / "sparse_gp_regression" / "n10_m4.json").read_text())


@pytest.fixture(scope="module")
def config(reference):
    return {k: np.array(v) if isinstance(v, list) else v for k, v in reference["config"].items()}


@pytest.mark.parametrize(
    ("points", "value", "slopes"), [("Z", "L2", "dL2_dlog_hyper"), ("X", "exact_log_marginal", "dexact_dlog_hyper")]
)
def test_bound_and_gradient_of_the_reference(reference, config, points, value, slopes):
    kernel = ConstantKernel(config["kernel_variance"]) * RBF(config["lengthscales"])
    seen = bound(
        one_row_each(config["X"], config["y"]), InducingBasis.from_points(kernel, config[points]), 1 / config["beta"]
    )
    wanted = reference[slopes]
    assert_allclose(seen.value, reference[value], rtol=1e-12)
    names = ("log_variance", "log_lengthscale_0", "log_lengthscale_1")
    assert_allclose(seen.theta, [wanted[name] for name in names], rtol=1e-8)
    assert_allclose(seen.log_noise, -wanted["log_beta"], rtol=1e-8)


def test_predictions_of_the_reference(reference, config):
    wanted, kernel = reference["predictions"], ConstantKernel(config["kernel_variance"]) * RBF(config["lengthscales"])
    for points, name in (("Z", "sparse_at_optimal_q"), ("X", "exact_gp")):
        basis = InducingBasis.from_points(kernel, config[points])
        seen = bound(one_row_each(config["X"], config["y"]), basis, 1 / config["beta"], gradient=False)
        mean, variance = optimal_latent(basis, seen.collapsed).latent(config["X_test"])
        assert_allclose(mean, wanted[name]["mean"], rtol=1e-8)
        assert_allclose(variance, wanted[name]["var"], rtol=1e-8)


def test_the_estimator_standardises_inside_and_maps_back(config):
    y, scale, shift = config["y"], config["y"].std(), config["y"].mean()
    kernel = ConstantKernel(config["kernel_variance"] / scale**2) * RBF(config["lengthscales"])
    model = SVGPRegressor(kernel, inducing=config["Z"], noise=config["beta"] ** -0.5, optimizer=None)
    model.fit(config["X"], y)
    # The same prior on y itself, about the mean.
    basis = InducingBasis.from_points(
        ConstantKernel(config["kernel_variance"]) * RBF(config["lengthscales"]), config["Z"]
    )
    seen = bound(one_row_each(config["X"], y - shift), basis, 1 / config["beta"], gradient=False)
    mean, variance = optimal_latent(basis, seen.collapsed).latent(config["X_test"])
    assert_allclose(model.lower_bound_, seen.value, rtol=1e-12)
    got = model.predict(config["X_test"], return_std=True)
    assert_allclose(got[0], mean + shift, rtol=1e-9)
    assert_allclose(got[1] ** 2, variance + 1 / config["beta"], rtol=1e-9)
    value, gradient = model.log_marginal_likelihood(eval_gradient=True)
    slopes = bound(one_row_each(config["X"], y - shift), basis, 1 / config["beta"])
    assert_allclose(value, seen.value, rtol=1e-12)
    assert_allclose(gradient, [*slopes.theta, 2.0 * slopes.log_noise], rtol=1e-9)


SEEDS = st.integers(0, 2**32 - 1)


def random_case(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(12, 40)), int(rng.integers(1, 4))
    X, y, Z = rng.standard_normal((n, d)), rng.standard_normal(n), rng.standard_normal((int(rng.integers(2, 7)), d))
    # Apart from each other: of points that coincide a jitter decides, which has no derivative.
    Z[:, 0] = np.linspace(-2.0, 2.0, len(Z)) + 0.1 * Z[:, 0]
    shape = RBF(rng.uniform(0.5, 2.0, d)) if rng.random() < 0.5 else Matern(rng.uniform(0.5, 2.0, d), nu=1.5)
    kernel = ConstantKernel(rng.uniform(0.5, 2.0)) * shape
    return one_row_each(X, y, rng.uniform(0.2, 2.0, n)), kernel, Z, float(rng.uniform(0.05, 1.0)), rng


@given(SEEDS)
@examples(40)
def test_one_full_step_of_the_engine_lands_on_the_bound_from_anywhere(seed):
    rows, kernel, Z, noise, rng = random_case(seed)
    basis = InducingBasis.from_points(kernel, Z)
    problem = problem_of(rows, basis, 1.0 / noise)
    size = Z.shape[0]
    half = rng.standard_normal((size, size))
    block = DenseBlock(half @ half.T + np.eye(size), rng.standard_normal(size))
    anywhere = svi.State({"f": block}, {"f": FixedScale(1.0)})
    state, seen = svi.full_step(problem, anywhere, svi.evaluate(problem, anywhere))
    wanted = bound(rows, basis, noise)
    assert_allclose(seen.bound, wanted.value, rtol=1e-9, atol=1e-9)
    assert_allclose(state.blocks["f"].mean, wanted.collapsed.mean[:, 0], rtol=1e-7, atol=1e-9)


@given(SEEDS)
@examples(25)
def test_gradients_are_those_of_differences(seed):
    rows, kernel, Z, noise, rng = random_case(seed)
    seen = bound(rows, InducingBasis.from_points(kernel, Z), noise)
    along = rng.standard_normal(kernel.theta.size), float(rng.standard_normal()), rng.standard_normal(Z.shape)

    def value(t):
        basis = InducingBasis.from_points(kernel.clone_with_theta(kernel.theta + t * along[0]), Z + t * along[2])
        return bound(rows, basis, noise * np.exp(t * along[1]), gradient=False).value

    h = 1e-3
    slope = (8.0 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12.0 * h)
    wanted = seen.theta @ along[0] + seen.log_noise * along[1] + np.sum(seen.points * along[2])
    size = np.abs(seen.theta).sum() + abs(seen.log_noise) + np.abs(seen.points).sum()
    assert_allclose(wanted, slope, atol=1e-5 * (1.0 + size))


@given(SEEDS)
@examples(25)
def test_the_evidence_of_rows_is_the_bound_of_all_of_them_as_points(seed):
    rows, kernel, _, noise, rng = random_case(seed)
    rows = GaussianRows(rows.X, rows.y, np.ceil(rows.weight), float(rng.uniform(0.0, 3.0)))
    # As far apart as points of other cases are, so that no jitter is needed.
    rows.X[:, 0] = np.linspace(-20.0, 20.0, rows.n)
    seen, wanted = evidence(rows, kernel, noise), bound(rows, InducingBasis.from_points(kernel, rows.X), noise)
    size = np.abs(wanted.theta).sum() + abs(wanted.log_noise)
    assert_allclose(seen[0], wanted.value, rtol=1e-9)
    assert_allclose(seen[1], wanted.theta, rtol=1e-6, atol=1e-7 * size)
    assert_allclose(seen[2], wanted.log_noise, rtol=1e-6, atol=1e-7 * size)


@pytest.mark.parametrize("kernel", [RBF(0.8) + DotProduct(0.5), RationalQuadratic(), ConstantKernel(0.7) * RBF(1.2)])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_the_gradient_of_the_evidence_is_that_of_differences(kernel, form):
    rng = np.random.default_rng(1)
    y, weight = rng.standard_normal(25), rng.uniform(0.5, 3.0, 25)
    rows = GaussianRows(form(rng.standard_normal((25, 2))), y, weight, 1.3)
    value, theta, log_noise = evidence(rows, kernel, 0.3)
    for k, step in enumerate(1e-4 * np.eye(theta.size)):
        ends = [evidence(rows, kernel.clone_with_theta(kernel.theta + s * step), 0.3)[0] for s in (1.0, -1.0)]
        assert_allclose(theta[k], (ends[0] - ends[1]) / 2e-4, rtol=1e-5, atol=1e-6)
    ends = [evidence(rows, kernel, 0.3 * np.exp(s * 1e-4))[0] for s in (1.0, -1.0)]
    assert_allclose(log_noise, (ends[0] - ends[1]) / 2e-4, rtol=1e-6)
    assert np.isfinite(value)


@given(SEEDS)
@examples(30)
def test_more_points_raise_the_bound_up_to_the_evidence(seed):
    rows, kernel, Z, noise, _ = random_case(seed)
    plain = one_row_each(rows.X, rows.y)
    few, more, all_ = (
        bound(plain, InducingBasis.from_points(kernel, points), noise, gradient=False).value
        for points in (Z[:1], Z, plain.X)
    )
    exact = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(plain.X, plain.y)
    slack = 1e-7 * (1.0 + abs(all_))
    assert few <= more + slack
    assert more <= all_ + slack
    # A jitter keeps the bound a bound, and costs a little of it where rows nearly coincide.
    assert_allclose(all_, exact.log_marginal_likelihood_value_, rtol=1e-5, atol=1e-5)


def test_chunks_and_threads_change_no_bit_and_kept_values_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    rows, Z = one_row_each(rng.standard_normal((1000, 3)), rng.standard_normal(1000)), rng.standard_normal((20, 3))
    basis = InducingBasis.from_points(ConstantKernel(1.2) * RBF([1.0, 2.0, 1.5]), Z)
    whole = bound(rows, basis, 0.2)
    set_policy(monkeypatch, "gp.sparse", chunk=20 * 100)
    seen = []
    for threads, kept in ((1, 2**28), (2, 2**28), (2, 0)):
        monkeypatch.setattr(sparse_collapsed, "n_threads", lambda threads=threads: threads)
        set_policy(monkeypatch, "gp.sparse", kept_bytes=kept)
        seen.append(bound(rows, basis, 0.2))
    for other in seen[1:]:
        assert other.value == seen[0].value
        assert np.array_equal(other.theta, seen[0].theta)
        assert np.array_equal(other.points, seen[0].points)
    assert_allclose(seen[0].value, whole.value, rtol=1e-12)
    assert_allclose(seen[0].points, whole.points, rtol=1e-7, atol=1e-9)
    assert_allclose(moments(rows, basis).gram, whole.moments.gram, rtol=1e-12)
