"""O1 to O7 asked of the estimator, and models that are one model: GPPL, scikit-learn's classifier, VB and exact."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import expit, ndtr
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skpref import SVI, GPOrdinalRegressor
from skpref.gp.posterior import ExactLatent
from skpref.inference import svi
from skpref.inference.ep import cavities, expectation_propagation
from skpref.inference.laplace import laplace
from skpref.inference.scale import FixedScale
from skpref.inference.terms.pairs import PairTerm
from skpref.kernels import Linear
from skpref.likelihoods import OrdinalProbit, PairwiseLogit, PairwiseProbit
from tests.examples import examples

seeds = st.integers(0, 2**32 - 1)
few = examples(8)
TIGHT = {"tol": 1e-13, "max_iter": 5000}


def draw(seed, n=None, r=None):
    """Rows, levels (all of r occur), kernel."""
    rng = np.random.default_rng(seed)
    r = int(rng.integers(2, 5)) if r is None else r
    n = int(rng.integers(r + 2, 16)) if n is None else n
    y = rng.permutation(np.append(np.arange(r), rng.integers(0, r, n - r)))
    return rng, rng.normal(size=(n, 2)), y, RBF(np.exp(0.3 * rng.normal(size=2)))


def fixed(kernel, **options):
    return GPOrdinalRegressor(**{"kernel": kernel, "optimizer": None, "random_state": 0, **options})


# ------------------------------------------------------------------------------------------------------------- O1 to O3
@pytest.fixture(scope="module", params=["n3_r3", "n30_r5"])
def case(shared, request):
    path = shared / "reference" / "gp_ordinal" / f"{request.param}.json"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return json.loads(path.read_text("utf-8"))


@pytest.mark.parametrize("method", ["ep", "laplace"])
def test_the_estimator_at_the_numbers_of_the_reference(case, method):
    config = case["config"]
    X, y = np.array(config["X"], dtype=np.float64), np.array(config["y"])
    kappa = np.broadcast_to(config["kappa"], X.shape[1:])
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2) @ kappa) + config.get("jitter", 0.0) * np.eye(len(X))
    r = len(config["deltas"]) + 2
    model = fixed("precomputed", inference=method, class_order=np.arange(1, r + 1)).fit(K, y)
    theta = np.concatenate([[np.log(config["sigma"]), config["b1"]], np.log(config["deltas"])])
    wanted = case["ep_fixed_point" if method == "ep" else "laplace"]["log_evidence"]
    assert model.log_marginal_likelihood(theta) == pytest.approx(wanted, rel=1e-7)
    bound = fixed("precomputed", evidence="bound", class_order=np.arange(1, r + 1)).fit(K, y)
    if method == "ep":
        assert bound.log_marginal_likelihood(theta) == pytest.approx(case["ep_fixed_point"]["variational_bound"], 1e-6)


@few
@given(seed=seeds)
def test_one_row_is_exact_by_ep(seed):
    rng, X, _, kernel = draw(seed, n=5, r=3)
    # Two rows are needed for two levels: the second is far away, so that each is alone.
    rows = np.vstack([X[:1], X[:1] + 1e6])
    y = rng.permutation([0, 1, 2])[:2]
    model = fixed(kernel, class_order=[0, 1, 2], inference="ep").fit(rows, y)
    b = np.concatenate([[-np.inf], model.thresholds_, [np.inf]])
    width = np.sqrt(1.0 + model.noise_**2)
    p = ndtr(b[y + 1] / width) - ndtr(b[y] / width)
    assert model.log_marginal_likelihood_value_ == pytest.approx(np.log(p).sum(), abs=1e-9)
    for row, level in zip(rows, y, strict=True):

        def joint(f, power, level=level):
            ends = (b[level : level + 2] - f) / model.noise_
            return f**power * norm.pdf(f) * (ndtr(ends[1]) - ndtr(ends[0]))

        z, first, second = (quad(joint, -9.0, 9.0, args=(k,), epsabs=1e-13, limit=200)[0] for k in range(3))
        mean, std = model.predict_latent(row[None], return_std=True)
        assert mean[0] == pytest.approx(first / z, abs=1e-7)
        assert std[0] ** 2 == pytest.approx(second / z - (first / z) ** 2, abs=1e-7)


@examples(5)
@given(seed=seeds)
def test_evidence_of_ep_lies_between_the_bound_and_what_it_is(seed):
    """Three rows: the truth is a sum of probabilities of boxes under a normal distribution."""
    rng, X, _, kernel = draw(seed, n=5, r=3)
    rows, y = X[:3], np.append(0, rng.integers(1, 3, 2))
    model = fixed(kernel, class_order=[0, 1, 2]).fit(rows, y)
    b = np.concatenate([[-50.0], model.thresholds_, [50.0]])
    cov = kernel(rows) + model.noise_**2 * np.eye(3)
    box = multivariate_normal(np.zeros(3), cov, abseps=1e-10, releps=1e-10, maxpts=2_000_000, seed=1)
    truth = np.log(box.cdf(b[y + 1], lower_limit=b[y]))
    assert model.lower_bound_ < truth + 1e-7
    assert model.log_marginal_likelihood_value_ == pytest.approx(truth, abs=2e-2)
    assert model.lower_bound_ < model.log_marginal_likelihood_value_
    sparse = fixed(kernel, class_order=[0, 1, 2], inference="vb", **TIGHT).fit(rows, y)
    # The best Gaussian has the highest bound.
    assert model.lower_bound_ - 1e-7 <= sparse.lower_bound_ < truth + 1e-7


# ------------------------------------------------------------------------------------------ two levels are a classifier
def balanced(seed):
    """Two levels, equally often, so that the start's threshold is 0 and its noise 1: Phi(f)."""
    rng, X, _, kernel = draw(seed, n=12)
    return rng, X, rng.permutation(np.repeat([0, 1], 6)), kernel


@few
@given(seed=seeds)
def test_two_levels_are_gppl(seed):
    rng, X, y, kernel = balanced(seed)
    model = fixed(kernel, inference="vb", **TIGHT).fit(X, y)
    assert_allclose(model.thresholds_, 0.0, atol=1e-15)
    # Every row is compared with an item whose utility is known to be 0.
    basis = model.posterior_.basis
    rows = np.vstack([basis.rows(X), np.zeros(12)])
    term = PairTerm(rows, np.arange(12), np.full(12, 12), 13)
    problem = svi.Problem({"f": term}, PairwiseProbit(), y.astype(float), np.ones(12))
    start = svi.initial_state(problem, {"f": FixedScale(1.0)})
    gppl = svi.fit(problem, start, svi.Schedule(**TIGHT), np.random.default_rng(0))
    new = rng.normal(size=(7, 2))
    mean, std = model.predict_latent(new, return_std=True)
    assert_allclose(mean, basis.rows(new) @ gppl.state.blocks["f"].mean, atol=1e-8)
    assert model.lower_bound_ == pytest.approx(gppl.bounds[-1], rel=1e-8)
    assert_allclose(model.predict_proba(new)[:, 1], PairwiseProbit().predict(mean, std**2), atol=1e-12)


@few
@given(seed=seeds)
def test_two_levels_are_scikit_learns_classifier_up_to_the_link(seed):
    """Phi(x) and the logistic function at 1.702 x differ by 0.0095 at most."""
    rng, X, y, kernel = balanced(seed)
    model = fixed(kernel, inference="laplace").fit(X, y)
    peer = GaussianProcessClassifier(ConstantKernel(1.702**2) * kernel, optimizer=None).fit(X, y)
    new = rng.normal(size=(20, 2))
    assert_allclose(model.predict_proba(new), peer.predict_proba(new), atol=0.03)
    assert model.log_marginal_likelihood_value_ == pytest.approx(peer.log_marginal_likelihood_value_, abs=0.02 * 12)
    # With the link itself the numbers are the same: what `laplace` gives the estimator.
    peer = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)
    q = laplace(kernel(X), PairwiseLogit(), y.astype(float), np.ones(12))
    assert q.log_evidence == pytest.approx(peer.log_marginal_likelihood_value_, rel=1e-6)
    latent = ExactLatent(kernel, X, q.alpha, q.root_w, q.chol)
    mean, _ = latent.latent(new)
    assert_array_equal(expit(mean) > 0.5, peer.predict(new) == 1)


@few
@given(seed=seeds, inference=st.sampled_from(["ep", "laplace", "vb"]))
def test_two_levels_turned_around(seed, inference):
    rng, X, y, kernel = draw(seed, r=2)
    one, other = (fixed(kernel, inference=inference, **TIGHT).fit(X, labels) for labels in (y, 1 - y))
    new = rng.normal(size=(5, 2))
    assert_allclose(one.predict_proba(new), other.predict_proba(new)[:, ::-1], atol=1e-6)


# ----------------------------------------------------------------------------------------------------- sparse and exact
@few
@given(seed=seeds)
def test_vb_through_all_rows_is_the_best_gaussian(seed):
    """At the optimum the mean is K E[l'], and the precision K^-1 - E[l''] (Opper and Archambeau, 2009)."""
    _, X, y, kernel = draw(seed)
    model = fixed(kernel, inference="vb", **TIGHT).fit(X, y)
    mean, std = model.predict_latent(X, return_std=True)
    _, gradient, curvature = model.likelihood_.expectation(y.astype(float), mean, std**2)
    K = kernel(X)
    assert_allclose(K @ gradient, mean, atol=1e-5)
    S = K - K @ np.linalg.solve(K + np.diag(-0.5 / curvature), K)
    assert_allclose(std**2, np.diag(S), atol=1e-5)
    ep = fixed(kernel, inference="ep").fit(X, y)
    assert ep.lower_bound_ <= model.lower_bound_ + 1e-7 <= ep.log_marginal_likelihood_value_ + 1e-2


@few
@given(seed=seeds)
def test_the_bound_rises_with_the_inducing_points(seed):
    rng, X, y, kernel = draw(seed, n=15)
    options = {"inference": "vb", **TIGHT}
    whole, new = fixed(kernel, **options).fit(X, y), rng.normal(size=(6, 2))
    off, bounds = [], []
    for m in (2, 5, 10, 15):
        model = fixed(kernel, inducing=X[:m], **options).fit(X, y)
        bounds.append(model.lower_bound_)
        off.append(np.abs(model.predict_proba(new) - whole.predict_proba(new)).max())
    assert np.all(np.diff(bounds) > -1e-6)
    assert bounds[-1] == pytest.approx(whole.lower_bound_, abs=1e-5)
    assert off[-1] < 1e-5


@pytest.mark.parametrize("seed", range(2))
def test_mini_batches_come_near_full_passes(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 2))
    y = np.digitize(X[:, 0] + 0.4 * rng.normal(size=120), [-0.5, 0.5])
    vb = fixed(RBF(1.5), inference="vb", inducing=20).fit(X, y)
    batches = fixed(RBF(1.5), inference=SVI(30), inducing=20, tol=1e-5, max_iter=300).fit(X, y)
    assert batches.lower_bound_ == pytest.approx(vb.lower_bound_, abs=0.5)
    assert_allclose(batches.predict_proba(X), vb.predict_proba(X), atol=0.03)


# ---------------------------------------------------------------------------------------------------------- invariances
@few
@given(seed=seeds, inference=st.sampled_from(["ep", "laplace", "vb"]))
def test_names_of_levels_do_not_matter(seed, inference):
    rng, X, y, kernel = draw(seed)
    names = rng.permutation(["low", "mid", "high", "top", "a", "zz"])[: y.max() + 1]
    one = fixed(kernel, inference=inference).fit(X, y)
    other = fixed(kernel, inference=inference, class_order=names).fit(X, names[y])
    assert one.predict_proba(X).tobytes() == other.predict_proba(X).tobytes()
    assert_array_equal(names[one.predict(X)], other.predict(X))
    assert one.score(X, y) == other.score(X, names[y])


@few
@given(seed=seeds, inference=st.sampled_from(["ep", "laplace", "vb"]))
def test_the_other_direction(seed, inference):
    _, X, y, kernel = draw(seed)
    r = y.max() + 1
    one = fixed(kernel, inference=inference, **TIGHT).fit(X, y)
    other = fixed(kernel, inference=inference, **TIGHT, class_order=np.arange(r)[::-1]).fit(X, y)
    assert_allclose(one.predict_proba(X), other.predict_proba(X)[:, ::-1], atol=1e-6)
    assert_allclose(one.thresholds_, -other.thresholds_[::-1], atol=1e-12)
    assert one.log_marginal_likelihood_value_ == pytest.approx(other.log_marginal_likelihood_value_, abs=1e-6)


@few
@given(seed=seeds, shift=st.floats(-3.0, 3.0), scale=st.floats(0.1, 10.0))
def test_moving_and_scaling_features(seed, shift, scale):
    _, X, y, kernel = draw(seed)
    other = RBF(scale * np.asarray(kernel.length_scale))
    for inference in ("ep", "laplace", "vb"):
        one, two = fixed(kernel, inference=inference, **TIGHT), fixed(other, inference=inference, **TIGHT)
        p, q = one.fit(X, y).predict_proba(X), two.fit(scale * X + shift, y).predict_proba(scale * X + shift)
        assert_allclose(p, q, atol=1e-5)


@given(seed=seeds, shift=st.floats(-5.0, 5.0), scale=st.floats(0.1, 10.0))
def test_thresholds_and_f_move_and_scale_together(seed, shift, scale):
    rng = np.random.default_rng(seed)
    b, noise = np.sort(rng.normal(size=4)) + 0.01 * np.arange(4), np.exp(rng.normal())
    mean, v = rng.normal(size=10), rng.exponential(size=10)
    here = OrdinalProbit(tuple(b), noise).probabilities(mean, v)
    there = OrdinalProbit(tuple(scale * (b + shift)), scale * noise)
    assert_allclose(there.probabilities(scale * (mean + shift), scale**2 * v), here, atol=1e-12)


@few
@given(seed=seeds, share=st.floats(0.05, 0.95), inference=st.sampled_from(["ep", "laplace"]))
def test_a_threshold_between_two_empty_levels_says_nothing(seed, share, inference):
    _, X, y, kernel = draw(seed, r=3)
    gapped = np.array([0, 3, 4])[y]
    model = fixed(kernel, inference=inference, class_order=range(5)).fit(X, gapped)
    theta = np.concatenate([model.kernel_.theta, model.likelihood_.theta])
    moved, (one, two) = theta.copy(), np.exp(theta[-3:-1])
    moved[-3:-1] = np.log(share * (one + two)), np.log((1.0 - share) * (one + two))
    value = model.log_marginal_likelihood()
    assert model.log_marginal_likelihood(moved) == pytest.approx(value, abs=1e-7)
    # And so the two are one.
    merged = fixed(kernel, inference=inference, class_order=[0, 1, 3, 4]).fit(X, gapped)
    joined = np.concatenate([theta[:4], [np.log(one + two)], theta[-1:]])
    assert merged.log_marginal_likelihood(joined) == pytest.approx(value, abs=1e-7)


# -------------------------------------------------------------------------------------------------------- probabilities
@given(seed=seeds, v=st.sampled_from([0.0, 1e-6, 1.0, 1e6]))
def test_probabilities_of_latent_values_up_to_a_million(seed, v):
    rng = np.random.default_rng(seed)
    b = np.cumsum(10.0 ** rng.uniform(-4.0, 1.0, int(rng.integers(1, 9)))) - 2.0
    likelihood = OrdinalProbit(tuple(b), 10.0 ** rng.uniform(-3.0, 2.0))
    mean = np.concatenate([-np.logspace(6, -3, 60), [0.0], np.logspace(-3, 6, 60)])
    p = likelihood.probabilities(mean, np.full(mean.shape, v))
    assert np.all((p >= 0.0) & (p <= 1.0))
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert p[0].argmax() == 0
    assert p[-1].argmax() == len(b)
    # Unimodal in the mean, the outer ones monotone; the expected level rises.
    steps = np.where(np.abs(np.diff(p, axis=0)) > 1e-14, np.sign(np.diff(p, axis=0)), 0.0)
    assert np.all(steps[:, 0] <= 0.0)
    assert np.all(steps[:, -1] >= 0.0)
    for column in steps[:, 1:-1].T:
        turns = column[column != 0.0]
        assert np.count_nonzero(np.diff(turns)) <= 1
    assert np.all(np.diff(p @ np.arange(len(b) + 1)) >= -1e-12)


@pytest.mark.parametrize("inference", ["ep", "laplace", "vb"])
def test_probabilities_of_a_linear_model_far_out(inference):
    _, X, y, _ = draw(3, n=14, r=4)
    model = fixed(Linear([1.0, 1.0]), inference=inference).fit(X, y)
    far = 1e6 * np.vstack([X, -X])
    assert np.abs(model.predict_latent(far)).max() > 1e4
    p = model.predict_proba(far)
    assert np.all((p >= 0.0) & np.isfinite(p))
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)


@examples(40)
@given(seed=seeds, log_noise=st.floats(-6.0, 3.0), log_weight=st.floats(0.0, 4.0))
def test_cavities_have_a_variance(seed, log_noise, log_weight):
    rng, X, y, kernel = draw(seed)
    K = np.exp(rng.normal()) * kernel(X) if rng.random() < 0.7 else X @ X.T
    likelihood = OrdinalProbit(tuple(np.cumsum(10.0 ** rng.uniform(-3.0, 0.5, y.max())) - 0.5), np.exp(log_noise))
    weight = 1.0 + np.exp(log_weight) * rng.random(y.size)
    q = expectation_propagation(K, likelihood, y.astype(float), weight)
    _, v = cavities(q)
    assert np.all((v > 0.0) & np.isfinite(v))
    assert np.all(q.tau >= 0.0)
    assert np.isfinite(q.log_evidence)


@examples(60)
@given(seed=seeds, log_noise=st.floats(-6.9, 1.0))
def test_parallel_ep_arrives_where_levels_are_nearly_separated(seed, log_noise):
    """With little noise the steps are damped on the way; they must grow again, or the last digits take 1000 rounds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(int(rng.integers(5, 40)), int(rng.integers(1, 4))))
    K, b = RBF(np.exp(rng.normal()))(X), np.sort(rng.normal(size=4)) + 1e-3 * np.arange(4)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(len(X))) @ rng.normal(size=len(X))
    y = np.digitize(f, b).astype(float)
    q = expectation_propagation(K, OrdinalProbit(tuple(b), np.exp(log_noise)), y, np.ones(len(X)), tol=1e-6)
    assert q.converged
    assert q.n_skipped == 0
