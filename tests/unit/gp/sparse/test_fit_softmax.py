"""Many classes by one softmax model: known solutions, weights, streams, what is refused."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skpref import SVGPClassifier, load, save
from skpref.exceptions import DataError
from skpref.gp.default_kernels import feature_scales
from skpref.gp.hyperpriors import length_scale_priors, log_density
from skpref.gp.sparse import fit_softmax as sparse_softmax
from skpref.gp.sparse.fit_softmax import ClassCounts
from skpref.gp.sparse.search import SparseConfig, SparseSearch, evidence_objective
from skpref.kernels import Linear
from skpref.likelihoods import PairwiseProbit, Softmax

RNG = np.random.default_rng(0)
X = RNG.uniform(-3.0, 3.0, (150, 2))
NAMES = np.array(["low", "middle", "high"])
Y = NAMES[np.digitize(np.sin(X[:, 0]) + 0.2 * RNG.standard_normal(150), [-0.5, 0.5])]
KERNEL = ConstantKernel(9.0) * RBF([1.2, 50.0])


def softmax(**options):
    return SVGPClassifier(**{"kernel": KERNEL, "inducing": 30, "optimizer": None, "random_state": 0} | options)


def test_three_classes_by_one_model():
    model = softmax().fit(X, Y)
    assert model.score(X, Y) > 0.85
    assert model.classes_.tolist() == ["high", "low", "middle"]
    assert isinstance(model.likelihood_, Softmax)
    assert (model.inference_, len(model.posteriors_), len(model.kernels_)) == ("map", 1, 1)
    mean, std = model.predict_latent(X, return_std=True)
    assert mean.shape == std.shape == (150, 3)
    assert np.array_equal(model.predict_latent(X), mean)
    assert_allclose(model.predict_proba(X), Softmax().predict(mean), rtol=1e-14)
    assert np.all(std[:, 0] == std[:, 2])
    far_mean, far_std = model.predict_latent([[1e6, 0.0]], return_std=True)
    assert_allclose(far_mean, 0.0, atol=1e-12)
    assert_allclose(far_std, 3.0)
    assert model.relevance_[0] > 10.0 * model.relevance_[1]


def test_a_linear_kernel_gives_the_multinomial_logistic_regression():
    model = softmax(kernel=Linear([0.5, 0.5]), inducing=150, tol=1e-8).fit(X, Y)
    peer = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10).fit(X, Y)
    assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("kernel", [ConstantKernel(1.0) * RBF([30.0, 30.0]), None], ids=["given", "default"])
def test_the_search_finds_kernels_that_predict_rows_left_out(kernel):
    train, test = slice(0, 70), slice(70, 150)
    fixed = softmax(kernel=kernel or ConstantKernel(1.0) * RBF([30.0, 30.0])).fit(X[train], Y[train])
    learnt = softmax(kernel=kernel, optimizer="l-bfgs-b").fit(X[train], Y[train])
    losses = [log_loss(Y[test], model.predict_proba(X[test])) for model in (learnt, fixed)]
    assert losses[0] < 0.65 < losses[1]
    assert learnt.converged_
    part = learnt.kernel_ if kernel else learnt.kernel_.k1  # beside one of warped features
    assert part.k1.constant_value > 1.0
    assert part.k2.length_scale[0] < 5.0
    assert kernel or part.k2.nu == 2.5  # Matern 5/2, as documented


def test_processes_share_the_search_and_change_nothing():
    model = softmax(optimizer="l-bfgs-b")
    alone = model.fit(X[:60], Y[:60]).predict_proba(X)
    with parallel_config(backend="threading"):
        assert np.array_equal(model.set_params(n_jobs=2).fit(X[:60], Y[:60]).predict_proba(X), alone)


def test_weights_count_copies_and_rows_may_be_sparse():
    weight = np.arange(150) % 3
    copies = np.repeat(np.arange(150), weight)
    weighted = softmax().fit(X, Y, sample_weight=weight)
    assert np.array_equal(weighted.predict_proba(X), softmax().fit(X[copies], Y[copies]).predict_proba(X))
    csr = softmax().fit(sparse.csr_array(X), Y)
    assert_allclose(csr.predict_proba(sparse.csr_array(X)), softmax().fit(X, Y).predict_proba(X), atol=1e-6)


def test_one_row_may_have_several_classes():
    rows, y = np.repeat([[0.0], [1.0]], 4, axis=0), np.array([0, 0, 1, 2, 0, 1, 2, 2])
    p = softmax(kernel=ConstantKernel(100.0) * RBF(0.1)).fit(rows, y).predict_proba([[0.0], [1.0]])
    assert_allclose(p, [[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]], atol=0.01)
    indicators = ClassCounts(rows[:2], np.array([[2.0, 1.0, 1.0], [1.0, 1.0, 2.0]])).indicators()
    total = np.sum(indicators.weight[:, None] * indicators.y**2) + indicators.scatter
    assert_allclose(total, indicators.weight.sum() * 3.0)  # variance 1, by counting every label


def test_streams_keep_kernel_and_points_and_start_at_the_last_mode():
    stream = softmax(optimizer="l-bfgs-b").partial_fit(X[:60], Y[:60], classes=[*NAMES, "unseen"])
    assert stream.predict_proba(X).shape == (150, 4)
    kernel, points = stream.kernel_, stream.posterior_.basis.points
    stream.partial_fit(X[60:], Y[60:])
    assert stream.kernel_ is kernel
    assert stream.posterior_.basis.points is points
    assert stream.score(X, Y) > 0.85
    again = softmax(warm_start=True, optimizer="l-bfgs-b").fit(X[:40], Y[:40])
    assert again.fit(X[:60], Y[:60]).score(X, Y) > 0.8


def test_what_it_lacks_is_refused_or_left_to_one_against_the_rest(monkeypatch):
    for options in ({"inference": "vb"}, {"inference": "svi"}, {"optimizer": "adam"}, {"learn_inducing": True}):
        with pytest.raises(DataError, match=r"got \w+=.*one_vs_rest"):
            softmax(multi_class="softmax", **options).fit(X, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = softmax(inducing=5, max_iter=1, **options).fit(X, Y)
        assert (len(model.posteriors_), model.likelihood_) == (3, PairwiseProbit())
    assert softmax(inducing=5).fit(X, Y == "low").likelihood_ == PairwiseProbit()
    monkeypatch.setattr("skpref.gp.sparse.classifier.full_passes_fit", lambda *_: False)
    assert len(softmax(inducing=5).fit(X, Y).posteriors_) == 3


def test_two_classes_have_one_function_which_is_the_difference_of_those_of_the_softmax(tmp_path):
    model = softmax(multi_class="softmax").fit(X, Y == "low")
    assert isinstance(model.likelihood_, Softmax)
    assert model.inference_ == "map"
    mean, std = model.predict_latent(X, return_std=True)
    assert_allclose(model.predict_latent(X), mean)
    assert_allclose(expit(mean), model.predict_proba(X)[:, 1], atol=1e-9)
    # Laplace's approximation of a logistic regression on f with twice the variance, in whitened variables.
    rows = model.posterior_.basis.rows(X) * np.sqrt(2.0)
    p = expit(mean)
    precision = np.eye(rows.shape[1]) + rows.T @ (rows * (p * (1.0 - p))[:, None])
    unexplained = 2.0 * model.kernel_.diag(X) - np.sum(rows**2, axis=1)
    variance = np.sum(rows * np.linalg.solve(precision, rows.T).T, axis=1) + unexplained
    assert_allclose(std**2, variance, rtol=1e-6)
    save(model, tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict_latent(X), mean)
    assert isinstance(model.partial_fit(X[:5], Y[:5] == "low").likelihood_, Softmax)


def test_the_default_kernels_of_both_models_are_matern_kernels_and_few_rows_have_a_linear_part():
    few = {kind: SVGPClassifier(multi_class=kind, inducing=10, optimizer=None) for kind in ("softmax", "one_vs_rest")}
    for model in few.values():
        model.fit(X, Y)
    (of_softmax,) = few["softmax"].kernels_
    plain, warped = of_softmax.k1.k2, of_softmax.k2.k2
    assert {plain.nu, warped.kernel.nu} == {2.5}
    assert warped.columns == [0, 1]
    binary = SVGPClassifier(optimizer=None, multi_class="softmax").fit(X > 0.0, Y)
    assert binary.kernel_.k2.nu == 2.5
    for kernel in few["one_vs_rest"].kernels_:
        assert kernel.k1.k2.nu == 2.5
        assert_allclose(kernel.k2.k2.origin, np.unique(X, axis=0).mean(axis=0))
    rng = np.random.default_rng(0)
    many = SVGPClassifier(inducing=10, optimizer=None).fit(rng.normal(size=(501, 2)), rng.integers(0, 2, 501))
    assert many.kernel_.k2.nu == 2.5


def test_damaged_classes_are_refused(tmp_path):
    model = softmax().fit(X, Y)
    model.classes_ = np.array(["low", "high"])
    with pytest.raises(DataError, match="must have means of shape"):
        save(model, tmp_path / "model")


def test_indicators_are_those_of_single_labels_standardised_together():
    counts = RNG.integers(0, 4, (12, 3)) + np.eye(3)[RNG.integers(0, 3, 12)]
    row, label = np.repeat(np.indices(counts.shape).reshape(2, -1), counts.ravel().astype(int), axis=1)
    labels = np.eye(3)[label] - np.eye(3)[label].mean(axis=0)
    labels /= np.sqrt(np.mean(labels**2))
    means = np.array([labels[row == i].mean(axis=0) for i in range(12)])
    rows = ClassCounts(X[:12], counts).indicators()
    assert_allclose(rows.y, means, atol=1e-12)
    assert_allclose(rows.weight, counts.sum(axis=1))
    assert rows.scatter == pytest.approx(np.sum((labels - means[row]) ** 2))
    of_one_class = ClassCounts(X[:2], np.array([[2.0, 0.0], [1.0, 0.0]])).indicators()
    assert not of_one_class.y.any()
    assert of_one_class.scatter == 0.0


def lowest_of(places):
    return min(places, key=lambda place: place[1])


def test_the_kernel_is_the_mean_of_all_that_were_tried_weighted_by_the_likelihood_of_rows_left_out(monkeypatch):
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0])
    shifts = iter([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [-1.0, 0.0, 0.0]])
    losses = iter([3.0, 3.0 + np.log(2.0), 80.0])
    monkeypatch.setattr(sparse_softmax, "_learn_from_indicators", lambda *_: kernel)
    monkeypatch.setattr(sparse_softmax, "_descend", lambda *_: [(np.array(next(shifts)), next(losses))])
    config = SparseConfig("l-bfgs-b", 10, "kmeans++", False, None, 20, 1e-3)
    data = ClassCounts(X[:30], np.eye(3)[np.arange(30) % 3])
    found = sparse_softmax._search(data, kernel, (), config, np.random.default_rng(0), None)
    assert_allclose(found.theta, [2.0 / 3.0, 0.5 / 3.0, 0.5 / 3.0])


def test_the_descent_ends_at_the_best_half_step_and_visits_no_place_twice(monkeypatch):
    fold = sparse_softmax._Fold(None, None, None, ConstantKernel(1.0) * RBF([1.0, 1.0]))
    visited, last = [], {}

    def left_out(fold, shift, config):
        assert fold.values == last.get(fold.points)  # each fold starts at its own functions of the last place
        last[fold.points] = len(visited)
        visited.append((fold.points, *shift))
        return 50.0 + 10.0 * ((shift[0] / 1.2 - 2.4) ** 2 + (shift[1] / 0.7 + 1.1) ** 2), last[fold.points]

    monkeypatch.setattr(sparse_softmax, "_left_out", left_out)
    shift, lowest = lowest_of(sparse_softmax._descend([fold._replace(points=k) for k in range(2)], None))
    assert_allclose(shift, [3.0, -0.7, -0.7])  # 2.5 steps up, one down
    assert lowest == pytest.approx(100.0 + 20.0 * (0.1**2 + 0.1**2) + (2.5**2 + 1.0) / 8.0)
    assert len(set(visited)) == len(visited)
    monkeypatch.setattr(sparse_softmax, "_left_out", lambda *_: (visited.append(0) or 100.0 - 0.3 * len(visited), 0))
    visited.clear()
    assert {shift.shape for shift, _ in sparse_softmax._descend([fold._replace(kernel=RBF(1.0))], None)} == {(1,)}
    visited.clear()
    monkeypatch.setattr(sparse_softmax, "_left_out", lambda *_: (100.0 - 0.1 * bool(visited.append(0)), 0))
    places = sparse_softmax._descend([fold], None)  # a gain of a thousandth is none, so it stays and looks around
    assert max(np.abs(shift).max() for shift, _ in places) == 1.2
    assert len(visited) == 9


def test_rare_classes_are_spread_over_the_folds():
    counts = np.eye(3)[np.r_[np.zeros(50, int), np.ones(6, int), [2, 2, 2]]]
    number = sparse_softmax._fold_numbers(ClassCounts(np.zeros((59, 1)), counts), np.random.default_rng(0))
    assert sorted(np.bincount(number[50:56], minlength=5)) == [1, 1, 1, 1, 2]
    assert len(set(number[56:])) == 3
    assert np.bincount(number).tolist() == [12, 12, 12, 12, 11]


def search_config(**options):
    settings = {"n_inducing": 20, "inducing": "kmeans++", "learn_inducing": "auto", "noise": None, "max_iter": 50}
    return SparseConfig(**settings | {"optimizer": "l-bfgs-b", "tol": 1e-3} | options)


def test_a_regression_on_the_indicators_tells_features_apart_and_keeps_the_variance():
    data = ClassCounts(X[:60], (Y[:60, None] == NAMES).astype(float))
    start = ConstantKernel(9.0) * RBF([3.0, 3.0])
    learnt = sparse_softmax._learn_from_indicators(data, start, (), search_config())
    halfway = sparse_softmax._interpolate(start, learnt, 0.5)
    scales = learnt.k2.length_scale
    assert scales[1] > 5.0 * scales[0]
    assert_allclose(halfway.k2.length_scale, np.sqrt(3.0 * scales))
    assert halfway.k1.constant_value == pytest.approx(9.0)


def test_the_indicators_of_a_row_count_as_one_label_beside_the_priors(monkeypatch):
    searches = []
    monkeypatch.setattr(SparseSearch, "ascend", lambda self, objective, **_: searches.append((self, objective)))
    data = ClassCounts(X[:40], (Y[:40, None] == NAMES).astype(float))
    priors = length_scale_priors(feature_scales(data.X), 3, first=1)
    sparse_softmax._learn_from_indicators(data, ConstantKernel(2.0) * RBF([1.0, 2.0]), priors, search_config())
    ((search, objective),) = searches
    at, h = search.parameters, 1e-5
    values, alone = objective(at)[0], evidence_objective(data.indicators())(at)[0]
    prior = log_density(priors, at.kernel.theta)[0]
    assert prior != 0.0
    assert values.value == pytest.approx(alone.value / 3.0 + prior)
    for k, step in enumerate(h * np.eye(3)):
        ends = [
            objective(replace(at, kernel=at.kernel.clone_with_theta(at.kernel.theta + s)))[0] for s in (step, -step)
        ]
        assert values.theta[k] == pytest.approx((ends[0].value - ends[1].value) / (2.0 * h), rel=1e-4)
    ends = [objective(replace(at, noise=at.noise * np.exp(s)))[0] for s in (h, -h)]
    assert values.log_noise == pytest.approx((ends[0].value - ends[1].value) / (2.0 * h), rel=1e-4)


def test_shifts_stay_within_bounds_and_leave_fixed_parameters():
    kernel = ConstantKernel(2.0, (1e-1, 10.0)) * RBF([1.0, 2.0], "fixed") + Linear(1.0, (1e-3, 1e3))
    variance, scale = (
        sparse_softmax._step(kernel, "constant_value", "variance"),
        sparse_softmax._step(kernel, "length_scale"),
    )
    assert_allclose(variance, 1.2)
    assert not scale.any()
    shifted = sparse_softmax._shifted(kernel, 3.0 * variance)
    assert_allclose(np.exp(shifted.theta), [10.0, np.exp(3.6)])


def test_a_weak_prior_stops_rows_that_are_all_right_from_making_functions_certain():
    rows = np.repeat([-1.0, 0.0, 1.0], 8)[:, None] + 0.05 * RNG.standard_normal((24, 1))
    kernel = ConstantKernel(10.0, (1e-4, 1e8)) * RBF(1.0, "fixed")
    model = softmax(kernel=kernel, optimizer="l-bfgs-b").fit(rows, np.repeat(NAMES, 8))
    assert 10.0 < model.kernel_.k1.constant_value < 1e5
