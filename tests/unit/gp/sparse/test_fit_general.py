"""Sparse Gaussian processes on the engine's loop: other likelihoods, mini-batches, Adam, classes."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss

from skpref import SVI, Adam, SVGPClassifier, SVGPRegressor
from skpref.exceptions import DataError, DataWarning
from skpref.gp.hyperpriors import classifier_priors
from skpref.gp.sparse import fit_general as sparse_general
from skpref.gp.sparse.search import SparseConfig, SparseParameters
from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.scale import FixedScale
from skpref.inference.terms.inducing import InducingTerm, inducing_gradient, row_term
from skpref.likelihoods import Gaussian, OrdinalProbit, PairwiseLogit, PairwiseProbit, Poisson, StudentT
from tests.policies import set_policy

RNG = np.random.default_rng(6)
X = RNG.uniform(-3.0, 3.0, (200, 2))
F = np.sin(1.5 * X[:, 0])
Y = F + 0.2 * RNG.standard_normal(200)
COUNTS = RNG.poisson(20.0 * np.exp(F)).astype(float)
KERNEL = ConstantKernel(1.0) * RBF([1.2, 50.0])
SIDE = np.where(F + 0.2 * RNG.standard_normal(200) > 0.0, "up", "down")
W = np.where(X[:, 1] > 0.0, 1.0, 0.5)
THIRDS = np.digitize(X[:, 0], [-1.0, 1.0])


def regressor(**options):
    return SVGPRegressor(**{"kernel": KERNEL, "inducing": 12, "tol": 1e-2, "random_state": 0, **options})


def classifier(**options):
    return SVGPClassifier(**{"kernel": KERNEL, "inducing": 12, "tol": 1e-2, "random_state": 0, **options})


def error(model, wanted, rows=X):
    return float(np.sqrt(np.mean((model.predict(rows) - wanted) ** 2)))


# ------------------------------------------------------------------------------------------------------ one answer
def test_full_passes_end_where_the_collapsed_bound_is():
    options = {"optimizer": None, "noise": 0.2}
    collapsed, passes = regressor(**options).fit(X, Y), regressor(inference="vb", **options).fit(X, Y)
    assert passes.inference_ == "vb"
    assert_allclose(passes.lower_bound_, collapsed.lower_bound_, rtol=1e-10)
    assert_allclose(passes.predict(X), collapsed.predict(X), rtol=1e-8)
    for noise in (True, False):
        got, wanted = (m.predict(X, return_std=True, noise=noise)[1] for m in (passes, collapsed))
        assert_allclose(got, wanted, rtol=1e-7)


def test_mini_batches_come_near_it():
    options = {"optimizer": None, "noise": 0.2}
    collapsed = regressor(**options).fit(X, Y)
    steps = regressor(inference=SVI(40), tol=1e-4, **options).fit(X, Y)
    assert np.max(np.abs(steps.predict(X) - collapsed.predict(X))) < 0.1
    assert steps.n_iter_ == len(steps.lower_bounds_) > 1


@pytest.mark.parametrize("batch_size", [200, 1000])
@pytest.mark.parametrize(
    ("model", "target", "options"),
    [
        (regressor, Y, {"noise": 0.2}),
        (regressor, COUNTS, {"likelihood": "poisson"}),
        (regressor, Y, {"likelihood": "student-t"}),
        (classifier, SIDE, {}),
    ],
)
def test_one_batch_of_all_rows_is_full_data_inference(model, target, options, batch_size):
    options = options | {"optimizer": None, "tol": 1e-6}
    passes, batch = (model(inference=inference, **options).fit(X, target, W) for inference in ("vb", SVI(batch_size)))
    assert (passes.inference_, batch.inference_) == ("vb", "svi")
    assert passes.lower_bounds_ == batch.lower_bounds_
    predictions = [
        m.predict_proba(X) if model is classifier else m.predict(X, return_std=True) for m in (passes, batch)
    ]
    assert np.array_equal(*predictions)


def test_adam_learns_kernel_noise_and_points():
    options = {"inference": SVI(50), "optimizer": Adam(0.05), "tol": 3e-3, "random_state": 0}
    adam = regressor(kernel=ConstantKernel(1.0) * RBF([4.0, 4.0]), **options).fit(X, Y)
    assert adam.noise_ == pytest.approx(0.2, rel=0.35)
    assert adam.kernel_.k2.length_scale[0] < 3.0
    assert error(adam, F) < 0.12
    rows = {tuple(row) for row in X}
    assert not any(tuple(point) in rows for point in adam.inducing_points_)
    held = regressor(noise=0.2, learn_inducing=False, **options).fit(X, Y)
    assert held.noise_ == pytest.approx(0.2)
    assert all(tuple(point) in rows for point in held.inducing_points_)


ADAM = {"optimizer": Adam(0.03), "tol": 1e-3}


def test_the_posterior_of_adam_is_that_of_its_last_kernel_and_comes_near_the_best():
    adam = regressor(**ADAM).fit(X, Y)
    last = {"kernel": adam.kernel_, "inducing": adam.inducing_points_, "noise": adam.noise_}
    optimal = regressor(**last, optimizer=None).fit(X, Y)
    assert_allclose(adam.lower_bound_, optimal.lower_bound_, rtol=1e-6)
    for got, wanted in zip(*(model.predict(X, return_std=True, noise=False) for model in (adam, optimal)), strict=True):
        assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
    assert adam.lower_bound_ > regressor(tol=1e-4).fit(X, Y).lower_bound_ - 0.02 * len(Y)


def test_classes_by_adam_have_the_posterior_of_the_last_kernel():
    adam = classifier(**ADAM).fit(X, SIDE)
    optimal = classifier(kernel=adam.kernel_, inducing=adam.posterior_.basis.points, optimizer=None, tol=1e-4)
    assert_allclose(adam.lower_bound_, optimal.fit(X, SIDE).lower_bound_, atol=0.05)
    assert_allclose(adam.predict_proba(X), optimal.predict_proba(X), atol=0.005)


def test_adam_means_mini_batches():
    passes, batches = (regressor(inference=name, **ADAM | {"tol": 1.0}).fit(X, Y) for name in ("vb", "svi"))
    assert passes.inference_ == "svi"
    assert np.array_equal(passes.kernel_.theta, batches.kernel_.theta)


def test_adam_does_not_depend_on_the_units_of_the_features():
    unit = 2.0**-10
    wide = regressor(**ADAM | {"tol": 1.0}).fit(X, Y)
    kernel = ConstantKernel(1.0) * RBF(unit * np.array([1.2, 50.0]))
    narrow = regressor(kernel=kernel, **ADAM | {"tol": 1.0}).fit(unit * X, Y)
    assert_allclose(narrow.predict(unit * X), wide.predict(X), atol=0.02)  # rounding errors turn some steps


def test_rows_made_on_demand_are_the_same_term():
    basis = InducingBasis.from_points(KERNEL, X[:7])
    on_demand, rows = InducingTerm(basis, X), row_term(basis, X, "f")
    v, g, w = RNG.standard_normal(7), RNG.standard_normal(200), RNG.uniform(0.1, 1.0, 200)
    scales = {"f": 2.5}
    for got, wanted in (
        (on_demand.matvec(v), rows.matvec(v)),
        (on_demand.rmatvec(g), rows.rmatvec(g)),
        (np.tril(on_demand.gram(w)), np.tril(rows.gram(w))),
        (on_demand.gram_diagonal(w), rows.gram_diagonal(w)),
        (on_demand.residual, rows.residual),
        (on_demand.prior_variance(scales), rows.prior_variance(scales)),
        (on_demand.take(np.arange(5)).rows, rows.rows[:5]),
    ):
        assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)
    results = [
        svi.fit(problem, svi.initial_state(problem, {"f": FixedScale(1.0)}), svi.Schedule(), np.random.default_rng(0))
        for problem in (svi.Problem({"f": term}, Poisson(2.0), COUNTS, w) for term in (on_demand, rows))
    ]
    assert_allclose(results[0].bounds, results[1].bounds, rtol=1e-9)


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [(Gaussian(4.0), Y), (StudentT(0.3), Y), (Poisson(5.0), COUNTS), (PairwiseLogit(), (Y > 0).astype(float))],
    ids=lambda part: type(part).__name__,
)
def test_gradient_of_the_bound_is_that_of_differences(likelihood, y):
    few, Z = X[:40], np.column_stack([np.linspace(-2.5, 2.5, 5), np.zeros(5)])
    kernel, weight = ConstantKernel(1.2) * RBF([1.2, 3.0]), RNG.uniform(0.5, 1.5, 40)

    def fitted(theta, points):
        basis = InducingBasis.from_points(kernel.clone_with_theta(theta), points)
        problem = svi.Problem({"f": row_term(basis, few, "f")}, likelihood, y[:40], weight, learns=False)
        start = svi.initial_state(problem, {"f": FixedScale(1.0)})
        result = svi.fit(problem, start, svi.Schedule(500, 1e-13), np.random.default_rng(0))
        return basis, problem, result

    basis, problem, result = fitted(kernel.theta, Z)
    in_theta, in_points = inducing_gradient(basis, few, problem, result.state, result.evaluation)
    along, h = (RNG.standard_normal(3), RNG.standard_normal(Z.shape)), 1e-3
    ends = [fitted(kernel.theta + s * h * along[0], Z + s * h * along[1])[2].evaluation.bound for s in (1.0, -1.0)]
    assert_allclose(in_theta @ along[0] + np.sum(in_points * along[1]), (ends[0] - ends[1]) / (2.0 * h), rtol=1e-3)


# -------------------------------------------------------------------------------------------------- other likelihoods
def test_heavy_tails_have_the_variance_of_their_information():
    # f is a constant: its variance is that of a location parameter, (nu + 3) / (nu + 1) sigma^2 / n.
    n, noise = 4000, np.random.default_rng(0).standard_t(4.0, 4000)
    model = SVGPRegressor(ConstantKernel(1.0) * RBF(1e6), likelihood=StudentT(), optimizer=None, inducing=1)
    _, std = model.fit(np.linspace(0.0, 1.0, n)[:, None], noise).predict_latent([[0.5]], return_std=True)
    assert_allclose(std**2 * n, 7.0 / 5.0, rtol=0.03)


def test_outliers_hardly_move_student_t():
    y = Y.copy()
    y[::20] += 10.0
    plain, robust = regressor().fit(X, y), regressor(likelihood="student-t").fit(X, y)
    assert error(robust, F) < 0.12
    assert error(plain, F) > 0.4
    mean, std = robust.predict(X, return_std=True)
    _, inner = robust.predict(X, return_std=True, noise=False)
    own = robust.likelihood_.scale * np.sqrt(2.0) * robust.y_scale_
    assert_allclose(std**2, inner**2 + own**2, rtol=1e-9)
    assert robust.noise_ == pytest.approx(robust.likelihood_.scale * robust.y_scale_)
    assert robust.sample_y(X[:3], 5, random_state=0).shape == (3, 5)
    assert np.diagonal(robust.predict(X[:3], return_cov=True)[1]) == pytest.approx(std[:3] ** 2)
    assert mean.shape == (200,)


def test_counts():
    model = regressor(likelihood="poisson").fit(X, COUNTS)
    truth = 20.0 * np.exp(F)
    assert error(model, truth) < 0.1 * truth.mean()
    mean, std = model.predict(X, return_std=True)
    assert np.all(std**2 > mean)
    latent, _ = model.predict_latent(X, return_std=True)
    assert np.corrcoef(latent, F)[0, 1] > 0.98
    assert model.noise_ is None
    with pytest.raises(DataError, match="predict_latent"):
        model.sample_y(X)
    with pytest.raises(DataError, match="collapsed"):
        model.log_marginal_likelihood(eval_gradient=True)
    for wrong in (-1.0, 0.5):
        with pytest.raises(DataError, match="must be counts"):
            regressor(likelihood="poisson").fit(X, np.append(COUNTS[1:], wrong))
    none = regressor(likelihood="poisson").fit(X, np.zeros(200))
    assert np.all(none.predict(X) < 0.1)


def test_counts_that_vary_more_than_poisson_are_told_and_learnt():
    truth = 20.0 * np.exp(F)
    counts = np.random.default_rng(5).negative_binomial(4.0, 4.0 / (4.0 + truth)).astype(float)
    with pytest.warns(DataWarning, match=r"counts vary [2-9]\.\d times as much .* likelihood='negative-binomial'"):
        regressor(likelihood="poisson", tol=1e-3).fit(X, counts)
    model = regressor(likelihood="negative-binomial").fit(X, counts)
    assert 0.15 < model.likelihood_.dispersion < 0.4  # 1/4
    mean, std = model.predict(X, return_std=True)
    inside = np.mean(np.abs(counts - mean) < 1.96 * std)
    assert 0.9 < inside < 0.99
    assert error(model, truth) < 0.25 * truth.mean()
    with pytest.raises(DataError, match="must be counts"):
        model.fit(X, counts + 0.5)
    with pytest.raises(DataError, match="exposure needs likelihood='poisson' or 'negative-binomial'"):
        regressor(likelihood="student-t").fit(X, counts, exposure=np.ones(200))
    # Where counts are Poisson, the dispersion is small and predictions are those of the Poisson.
    plain = regressor(likelihood="negative-binomial").fit(X, COUNTS)
    assert plain.likelihood_.dispersion < 0.01
    assert_allclose(plain.predict(X), regressor(likelihood="poisson").fit(X, COUNTS).predict(X), rtol=0.1)


def test_any_likelihood_of_the_package_sees_targets_as_they_are():
    levels = np.digitize(F, [-0.5, 0.5]).astype(float)
    model = regressor(likelihood=OrdinalProbit((-0.5, 0.5), 0.3), optimizer=None).fit(X, levels)
    assert np.corrcoef(model.predict_latent(X), F)[0, 1] > 0.9
    with pytest.raises(DataError, match="no variance of a new y"):
        model.predict(X, return_std=True)


def test_combinations_that_mean_nothing_are_refused():
    for options in ({"likelihood": "poisson"}, {"optimizer": "adam"}):
        with pytest.raises(DataError, match="inference='auto'"):
            regressor(inference="collapsed", **options).fit(X, COUNTS)


def test_streams_of_counts_keep_the_kernel_and_windows_forget():
    stream = regressor(likelihood="poisson").partial_fit(X[:100], COUNTS[:100])
    theta = stream.kernel_.theta
    stream.partial_fit(X[100:], COUNTS[100:])
    assert np.array_equal(stream.kernel_.theta, theta)
    assert stream.n_samples_seen_ == 200
    whole = regressor(likelihood="poisson", kernel=stream.kernel_, inducing=stream.inducing_points_)
    whole.set_params(learn_inducing=False).fit(X, COUNTS)
    assert_allclose(stream.predict(X), whole.predict(X), rtol=0.1)
    short = regressor(likelihood="poisson", window=50).partial_fit(X, COUNTS).partial_fit(X[:20], COUNTS[:20])
    assert short.n_samples_seen_ == 50


def test_rows_that_do_not_fit_in_memory_are_made_on_demand(monkeypatch):
    monkeypatch.setattr(sparse_general, "full_passes_fit", lambda *_: False)
    options = {"likelihood": "poisson", "optimizer": None}
    assert regressor(**options).fit(X, COUNTS).inference_ == "svi"
    assert regressor(inference="vb", **options).fit(X, COUNTS).inference_ == "vb"


# ------------------------------------------------------------------------------------------------------------- classes
@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_two_classes(likelihood):
    model = classifier(likelihood=likelihood).fit(X, SIDE)
    assert model.classes_.tolist() == ["down", "up"]
    assert model.score(X, SIDE) > 0.9
    p = model.predict_proba(X)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    mean, std = model.predict_latent(X, return_std=True)
    rule = {"probit": PairwiseProbit, "logit": PairwiseLogit}[likelihood]()
    assert_allclose(p[:, 1], rule.predict(mean, std**2), rtol=1e-9)
    assert model.relevance_[0] > 10.0 * model.feature_importances_[1]
    assert len(model.kernels_) == 1
    assert model.kernels_[0] is model.kernel_


def test_three_classes_each_against_all_others():
    model = classifier(optimizer=None, multi_class="one_vs_rest").fit(X, THIRDS)
    assert model.score(X, THIRDS) > 0.9
    p = model.predict_proba(X)
    assert p.shape == (200, 3)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    assert len(model.posteriors_) == 3
    assert model.predict_latent(X).shape == (200, 3)


def test_processes_share_the_classes_and_change_nothing():
    model = classifier(optimizer=None, multi_class="one_vs_rest")
    alone = model.fit(X, THIRDS).predict_proba(X)
    with parallel_config(backend="threading"):
        assert np.array_equal(model.set_params(n_jobs=2).fit(X, THIRDS).predict_proba(X), alone)


def test_a_sample_has_as_many_rows_of_the_rare_answer_and_weighs_what_it_tells():
    rng = np.random.default_rng(0)
    y = np.zeros(1000)
    y[rng.choice(1000, 90, replace=False)] = 1.0
    data = sparse_general.Observations(np.arange(1000.0)[:, None], y, np.full(1000, 2.0))
    for size, rare in ((100, 50), (300, 90)):
        drawn = data.sample(size, rng)
        assert (drawn.n, int(drawn.y.sum())) == (size, rare)
        # As many rows, drawn at random, leave the log odds as uncertain.
        equal = (1.0 / rare + 1.0 / (size - rare)) ** -1 / (0.09 * 0.91)
        assert_allclose(
            [drawn.weight[drawn.y == value].sum() / 2.0 for value in (0.0, 1.0)], [0.91 * equal, 0.09 * equal]
        )
        assert np.array_equal(drawn.y, y[drawn.X[:, 0].astype(int)])
        assert np.all(np.diff(drawn.X[:, 0]) > 0.0)
    assert data.sample(1000, rng) is data
    counts = sparse_general.Observations(data.X, np.arange(1000.0) % 3, data.weight).sample(100, rng)
    assert np.all(counts.weight == 2.0)


@pytest.mark.parametrize("y", [Y > 0.0, (Y > 1.0) | (X[:, 1] > 2.5)], ids=["noisy", "rare"])
def test_an_inference_starts_at_the_better_of_two_states(y):
    data = sparse_general.Observations(X, y.astype(float), np.ones(200))
    optimal_bound = sparse_general._OptimalBound(data, PairwiseProbit(), 200)
    for kernel in (KERNEL, ConstantKernel(8.0) * RBF([1.0, 9.0]), ConstantKernel(300.0) * RBF([1.5, 20.0])):
        basis = InducingBasis.from_points(kernel, X[:12])
        problem = svi.Problem({"f": row_term(basis, X, "f")}, PairwiseProbit(), data.y, data.weight)
        start, before = optimal_bound._start(problem), optimal_bound.state
        prior = svi.initial_state(problem, {"f": FixedScale(1.0)})
        best = svi.fit(problem, prior, svi.Schedule(500, 1e-9), np.random.default_rng(0)).bounds[-1]
        first = svi.evaluate(problem, start).bound
        assert first >= svi.evaluate(problem, prior if before is None else before).bound
        value = optimal_bound(SparseParameters(kernel, 1.0, X[:12]))[0].value
        assert first <= value <= best + 1e-6
        assert best - value < 0.1


def test_few_rows_are_searched_from_shorter_length_scales_too():
    rows = np.random.default_rng(0).uniform(-3.0, 3.0, (100, 1))
    y = np.sin(6.0 * rows[:, 0]) > 0.0
    default = ConstantKernel(1.0, (1e-4, 1e4)) * RBF([rows.std()], (1e-2, 1e4))
    given_start, two_starts = (
        SVGPClassifier(kernel, inducing=60, random_state=0).fit(rows, y) for kernel in (default, None)
    )
    assert given_start.score(rows, y) < 0.7
    assert two_starts.score(rows, y) > 0.95
    assert two_starts.lower_bound_ > given_start.lower_bound_ + 20.0


def two_classes(n, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, 6))
    return rows, (np.sin(2.0 * rows).sum(axis=1) + 0.3 * rng.standard_normal(n) > 0.0).astype(float)


def test_where_points_lose_much_two_classes_have_more_of_them(monkeypatch):
    set_policy(monkeypatch, "gp.sparse", ep_rows=400, class_inducing=40)
    rows, side = two_classes(600)
    model = SVGPClassifier(random_state=0).fit(rows, side)
    assert model.posterior_.basis.points.shape == (400, 6)
    new, truth = two_classes(1000, seed=1)
    few = SVGPClassifier(inducing=40, learn_inducing=False, random_state=0).fit(rows, side)
    assert log_loss(truth, model.predict_proba(new)) < 0.95 * log_loss(truth, few.predict_proba(new))
    again = model.set_params(warm_start=True).fit(rows, side)  # from the kernel of before
    assert (again.posterior_.basis.points.shape, again.converged_) == ((400, 6), True)
    # A stream has few points, which makes its updates fast.
    assert SVGPClassifier(random_state=0).partial_fit(rows, side).posterior_.basis.points.shape == (40, 6)


@pytest.mark.parametrize(
    ("change", "has"),
    [
        ({}, True),
        ({"weight": np.full(600, 0.9)}, False),
        ({"y": (np.arange(600) < 59).astype(float)}, False),
        ({"y": (np.arange(600) < 60).astype(float)}, True),
        ({"offset": np.zeros(600)}, False),
        ({"X": sparse.csr_array(np.eye(600, 2))}, False),
    ],
)
def test_the_exact_evidence_needs_whole_weights_and_enough_rows_of_each_class(change, has):
    rows, side = two_classes(600)
    data = sparse_general.Observations(rows, side, np.ones(600))
    config = SparseConfig("l-bfgs-b", 300, "kmeans++", "auto", 1.0, 20, 1e-3, linear_rows=500, most_inducing=1000)
    parameters = SparseParameters(RBF(1.0), 1.0, rows)

    def evidence(config, likelihood=PairwiseProbit(), **change):  # noqa: B008
        return sparse_general._has_exact_evidence(replace(data, **change), likelihood, parameters, config)

    assert evidence(config, **change) is has
    assert not evidence(replace(config, most_inducing=0), **change)
    assert not evidence(replace(config, linear_rows=600), **change)
    assert not evidence(config, Poisson(), **change)


def test_the_gradient_of_the_exact_evidence_is_that_of_differences():
    rows, side = two_classes(40)
    objective = sparse_general._ExactEvidence(sparse_general.Observations(rows, side, np.ones(40)), PairwiseProbit())
    kernel = ConstantKernel(2.0) * RBF(np.linspace(0.5, 3.0, 6))

    def value(theta):
        return objective(SparseParameters(kernel.clone_with_theta(theta), 1.0, rows))[0]

    steps = 1e-3 * np.eye(kernel.theta.size)
    differences = [(value(kernel.theta + h).value - value(kernel.theta - h).value) / 2e-3 for h in steps]
    assert_allclose(value(kernel.theta).theta, differences, atol=2e-2)


def test_classes_in_mini_batches_with_adam():
    model = classifier(inference=SVI(50), optimizer=Adam(0.05)).fit(X, SIDE)
    assert model.inference_ == "svi"
    assert model.score(X, SIDE) > 0.85


@pytest.mark.parametrize("model", [SVGPClassifier(), SVGPRegressor(likelihood="student-t")], ids=repr)
def test_a_stream_may_begin_with_one_row(model):
    side = (SIDE == "up").astype(int)
    model.set_params(kernel=KERNEL, inducing=20, optimizer=None, random_state=0)
    model.partial_fit(X[:1], side[:1], *([[0, 1]] if isinstance(model, SVGPClassifier) else []))
    sizes = []
    for start in range(1, 100, 9):
        model.partial_fit(X[start : start + 9], side[start : start + 9])
        sizes.append(model.posterior_.basis.points.shape[0])
    assert sizes == [10, 10, *[20] * 9]
    assert np.mean((model.predict(X[100:]) > 0.5) == (F[100:] > 0.0)) > 0.85


def test_streams_of_classes():
    stream = classifier().partial_fit(X[:80], SIDE[:80], classes=["down", "up"])
    before = stream.score(X, SIDE)
    stream.partial_fit(X[80:], SIDE[80:])
    assert stream.score(X, SIDE) >= before - 0.05
    assert stream._rows[1].size == 200
    with pytest.raises(DataError, match="first call"):
        stream.partial_fit(X, SIDE, classes=["left", "right"])
    with pytest.raises(DataError, match="lacks"):
        stream.partial_fit(X, np.where(SIDE == "up", "sideways", SIDE))
    short = classifier(window=60).partial_fit(X, SIDE).partial_fit(X[:10], SIDE[:10])
    assert short._rows[1].size == 60


def test_warm_start_resumes_and_sparse_rows_serve():
    warm = classifier(warm_start=True, learn_inducing=False).fit(X, SIDE)
    p = warm.predict_proba(X)
    assert_allclose(warm.fit(X, SIDE).predict_proba(X), p, atol=0.02)
    other = classifier(learn_inducing=False).fit(sparse.csr_array(X), SIDE)
    assert_allclose(other.predict_proba(sparse.csr_array(X)), p, atol=0.02)


def test_lines_are_printed(capsys):
    classifier(verbose=1, tol=1.0).fit(X, SIDE)
    regressor(verbose=1, tol=1.0, likelihood="poisson").fit(X, COUNTS)
    out = capsys.readouterr().out
    assert "SVGPClassifier: evaluation 2/200  bound per row " in out
    assert "SVGPRegressor: pass" in out


@pytest.mark.parametrize(
    ("learn", "lost", "moved"), [(True, 0.0, True), ("auto", 0.0, False), ("auto", 1.0, True), (False, 1.0, False)]
)
def test_points_are_moved_where_they_lose_something_or_when_asked_for(learn, lost, moved):
    X, moves = np.random.default_rng(0).standard_normal((40, 2)), []
    config = SparseConfig("l-bfgs-b", 6, "random", learn, noise=1.0, max_iter=9, tol=1e-4)
    search = SimpleNamespace(
        config=config,
        parameters=SparseParameters(RBF(1.0), 1.0, X[:6]),
        ascend=lambda _, **options: moves.append(options),
    )
    objective = SimpleNamespace(lost=lost, data=SimpleNamespace(weight=np.ones(40)))
    sparse_general._move_points(search, objective, X)
    assert moves == [{"move_points": True}] * moved
    objective.lost = 0.001 * 40.0  # a thousandth of a nat a row is not worth it
    sparse_general._move_points(search, objective, X)
    assert len(moves) == moved + (learn is True)


def test_the_search_of_the_highest_bound_wins(monkeypatch):
    class Search:
        def __init__(self, config, start):
            self.config, self.start, self.height = config, start, -np.inf

        def ascend(self, objective):
            objective.lost = self.start
            self.height = {1.0: -3.0, 2.0: -2.0, 3.0: -np.inf}[self.start]

    monkeypatch.setattr(sparse_general, "SparseSearch", Search)

    class Start(float):
        kernel = None

    objective = sparse_general._OptimalBound(None, None, 1)
    search, best = sparse_general._search(objective, [Start(1.0), Start(2.0), Start(3.0)], None)
    assert (search.start, best.lost, objective.lost) == (2.0, 2.0, 0.0)
    search, best = sparse_general._search(objective, [Start(3.0)], None)
    assert search.start == best.lost == 3.0


@pytest.mark.parametrize(
    ("n", "batch_size", "size", "min_step", "window"),
    [
        (1000, 50, 50, 0.1, 5),  # a hundred steps are five passes
        (1000, 400, 100, 0.1, 10),  # ten batches of a pass at least
        (1001, 400, 101, 0.1, 11),
        (1000, None, 100, 0.1, 10),
        (10_000, 50, 50, 0.05, 1),
    ],
)
def test_steps_of_q_follow_the_kernel_between_adams(n, batch_size, size, min_step, window):
    tuner = sparse_general._AdamTuner(SimpleNamespace(n=n), None, None)
    schedule = tuner.schedule(sparse_general.svi.Schedule(batch_size=batch_size, max_iter=7))
    assert (schedule.batch_size, schedule.window, schedule.max_iter) == (size, window, 7)
    assert schedule.min_step == pytest.approx(min_step)
    assert schedule.tune is tuner


@pytest.mark.parametrize(("noise", "learn"), [(None, True), (None, False), (1.0, True)])
def test_adam_climbs_the_bound_of_a_batch_in_kernel_noise_and_points(monkeypatch, noise, learn):
    sparse_config = SparseConfig("adam", 6, "random", learn, noise=noise, max_iter=9, tol=1e-4)
    config = sparse_general.GeneralConfig(sparse_config, "svi", svi.Schedule(), 0.1, classifier_priors)
    data, start = sparse_general.Observations(X[:60], Y[:60], np.linspace(0.5, 2.0, 60)), Gaussian(4.0)
    basis, index = InducingBasis.from_points(KERNEL, X[:6]), np.arange(5, 45)
    problem = svi.Problem({"f": InducingTerm(basis, data.X)}, start, data.y, data.weight)
    state = sparse_general._initial_state(problem)
    moved = state.blocks["f"].with_mean(0.3 * np.arange(6.0))
    state = replace(state.with_blocks({"f": moved}), step=10)
    gradients = []

    def recorder(shape, rate):
        assert rate == 0.1
        return SimpleNamespace(
            step=lambda gradient: gradients.append(gradient) or 0.01 * np.arange(1.0, shape[0] + 1.0)
        )

    monkeypatch.setattr(sparse_general, "Adam", recorder)
    tuner, batch = sparse_general._AdamTuner(data, basis, config), problem.batch(index)
    assert tuner(problem, batch, index, replace(state, step=9), svi.evaluate(batch, state)) is problem
    after = tuner(problem, batch, index, state, svi.evaluate(batch, state))

    def bound(theta, log_noise, points):
        there = InducingBasis.from_points(KERNEL.clone_with_theta(theta), points)
        likelihood = Gaussian(4.0 * np.exp(-log_noise))
        other = svi.Problem({"f": InducingTerm(there, data.X)}, likelihood, data.y, data.weight)
        return svi.evaluate(other.batch(index), state).bound / data.weight.sum()

    def slope(*directions, h=1e-5):
        ends = [bound(*(x + side * h * d for x, d in zip((KERNEL.theta, 0.0, X[:6]), directions, strict=True)))
                for side in (1.0, -1.0)]  # fmt: skip
        return (ends[0] - ends[1]) / (2.0 * h)

    nothing = np.zeros(3), 0.0, np.zeros((6, 2))
    wanted = [slope(row, *nothing[1:]) for row in np.eye(3)]
    wanted += [slope(nothing[0], 1.0, nothing[2])] if noise is None else []
    scale = np.array([1.2, 50.0])
    if learn:  # in units of the length-scales
        wanted += [slope(nothing[0], 0.0, (row * scale[k % 2]).reshape(6, 2)) for k, row in enumerate(np.eye(12))]
    assert_allclose(gradients[0], wanted, rtol=1e-4, atol=1e-7)
    steps = 0.01 * np.arange(1.0, len(wanted) + 1.0)
    assert_allclose(tuner.basis.kernel.theta, KERNEL.theta + steps[:3])
    assert after.likelihood.precision == pytest.approx(4.0 * np.exp(-0.04) if noise is None else 4.0)
    own = steps[-12:].reshape(6, 2) * scale if learn else 0.0
    assert_allclose(tuner.basis.points, X[:6] + own)
    assert after.terms["f"].basis is tuner.basis


@pytest.mark.parametrize("model", [regressor(likelihood="student-t", max_iter=3), classifier(max_iter=3)], ids=str)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_a_posterior_to_resume_is_of_the_inducing_points(model):
    model = model.fit(X, Y if isinstance(model, SVGPRegressor) else SIDE)
    name, states = ("_state", model._state) if isinstance(model, SVGPRegressor) else ("_states", model._states[0])
    model._check_fitted()
    half = replace(states, blocks={"f": type(states.blocks["f"]).isotropic(np.ones(5), np.zeros(5))})
    for wrong in (half, replace(states, blocks={}), replace(states, scales={}), None):
        setattr(model, name, wrong if name == "_state" else [wrong])
        if wrong is None and name == "_state":
            model._check_fitted()  # the rows are there, so that it need not resume
            continue
        with pytest.raises(DataError, match="_state must have 12 variables under the scale f"):
            model._check_fitted()


@pytest.mark.parametrize(
    ("n_classes", "search_rows", "factor"), [(2, 10_000, 1.0), (3, 6666, 10.0), (6, 3333, 10.0), (7, 3000, 10.0)]
)
def test_searches_of_more_than_two_classes_are_shorter(n_classes, search_rows, factor):
    model = SVGPClassifier(tol=0.01, verbose=1)
    model.classes_ = np.arange(n_classes)
    config = model._config()
    assert config.search_rows == search_rows
    assert config.sparse.tol == pytest.approx(0.01 * factor)
    assert config.priors is classifier_priors
    # Callbacks belong to this process.
    assert config.schedule.on_iteration is not None
    apart = model.set_params(n_jobs=2)._config()
    assert (apart.schedule.on_iteration is None) is (n_classes > 2)
    assert (apart.sparse.on_value is None) is (n_classes > 2)
