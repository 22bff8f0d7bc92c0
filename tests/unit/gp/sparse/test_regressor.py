"""`SVGPRegressor`: what is learnt, streams, nasty inputs, failures that leave the earlier fit untouched."""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from skpref import SVGPClassifier, SVGPRegressor
from skpref.exceptions import DataError, DataWarning
from skpref.gp.default_kernels import drop_white_noise
from skpref.gp.sparse import fit as sparse_fit
from skpref.gp.sparse import regressor as sparse_regressor
from skpref.gp.sparse.evidence import GaussianRows
from skpref.gp.sparse.fit import initial_parameters, may_move_points
from skpref.gp.sparse.search import SparseConfig, SparseParameters, SparseSearch, bound_objective, cheapest_objective
from skpref.gp.sparse.targets import distinct_targets, gaussian_rows, target_scale
from skpref.inference import hyper
from tests.examples import examples
from tests.policies import set_policy

RNG = np.random.default_rng(2)
X = RNG.uniform(-3.0, 3.0, (300, 2))
Y = 5.0 + 2.0 * np.sin(1.5 * X[:, 0]) + 0.2 * RNG.standard_normal(300)
KERNEL = ConstantKernel(1.0) * RBF([1.0, 3.0])


def model(**options):
    return SVGPRegressor(**{"inducing": 15, "random_state": 0, **options})


@pytest.fixture(scope="module")
def fitted():
    return model().fit(X, Y)


@pytest.mark.parametrize("kernel", [KERNEL + WhiteKernel(), WhiteKernel(0.1) + (KERNEL + WhiteKernel())])
def test_white_noise_of_the_kernel_is_the_noise(kernel):
    plain, white = (model(kernel=each, max_iter=20).fit(X[:60], Y[:60]) for each in (KERNEL, kernel))
    assert white.kernel_ == plain.kernel_
    assert_allclose(white.predict(X[:5]), plain.predict(X[:5]))
    assert white.kernel == kernel  # as it was given
    for options in ({"noise": 0.5, "max_iter": 2}, {"optimizer": None}):  # where it says what nothing else does
        assert "WhiteKernel" in repr(model(kernel=kernel, **options)._prior_kernel())


def test_white_noise_alone_stays():
    assert drop_white_noise(WhiteKernel(2.0) + WhiteKernel(1.0)) == WhiteKernel(2.0)
    assert drop_white_noise(KERNEL * WhiteKernel()) == KERNEL * WhiteKernel()


def test_noise_relevance_and_function_are_found(fitted):
    assert fitted.noise_ == pytest.approx(0.2, rel=0.15)
    assert fitted.relevance_[1] < 0.02 * fitted.relevance_[0]
    assert_allclose(fitted.feature_importances_, fitted.relevance_)
    inner = np.abs(X).max(axis=1) < 2.5
    assert np.sqrt(np.mean((fitted.predict(X[inner]) - 5.0 - 2.0 * np.sin(1.5 * X[inner, 0])) ** 2)) < 0.1
    assert fitted.inducing_points_.shape == (15, 2)
    assert 1 < fitted.n_iter_ < len(fitted.lower_bounds_)
    with pytest.warns(ConvergenceWarning, match=r"did not converge in 2 iterations \(max_iter=2\)"):
        assert model(max_iter=2, tol=1e-9).fit(X, Y).n_iter_ == 2
    assert fitted.lower_bound_ == max(fitted.lower_bounds_)


def test_moved_points_raise_the_bound_and_stay_when_asked():
    held = model(learn_inducing=False, inducing=5).fit(X, Y)
    moved = model(learn_inducing=True, inducing=5).fit(X, Y)
    assert moved.lower_bound_ > held.lower_bound_ + 2.0
    rows = {tuple(row) for row in X}
    assert all(tuple(point) in rows for point in held.inducing_points_)
    assert not any(tuple(point) in rows for point in moved.inducing_points_)
    points = X[:8]
    assert np.array_equal(np.sort(model(inducing=points).fit(X, Y).inducing_points_, axis=0), np.sort(points, axis=0))


def test_std_covariance_and_samples_agree(fitted):
    rows = X[:40]
    mean, std = fitted.predict(rows, return_std=True)
    _, covariance = fitted.predict(rows, return_cov=True)
    assert_allclose(np.sqrt(np.diagonal(covariance)), std, rtol=1e-10)
    _, smaller = fitted.predict(rows, return_std=True, noise=False)
    assert_allclose(std**2 - smaller**2, fitted.noise_**2, rtol=1e-6)
    draws = fitted.sample_y(rows, 4000, random_state=1)
    assert draws.shape == (40, 4000)
    # Five standard errors of the largest of 40 standard deviations.
    assert np.max(np.abs(draws.std(axis=1) / std - 1.0)) < 5.0 / np.sqrt(8000)
    assert np.max(np.abs(draws.mean(axis=1) - mean) / std) < 5.0 / np.sqrt(4000)
    quiet = fitted.sample_y(rows, 4000, random_state=1, noise=False)
    assert np.max(np.abs(quiet.std(axis=1) / smaller - 1.0)) < 5.0 / np.sqrt(8000)
    with pytest.raises(DataError, match="cannot both be True"):
        fitted.predict(rows, return_std=True, return_cov=True)
    with pytest.raises(DataError, match="n_samples"):
        fitted.sample_y(rows, 0)
    many = np.zeros((10_002, rows.shape[1]))
    for call in (partial(fitted.sample_y, many), partial(fitted.predict, many, return_cov=True)):
        with pytest.raises(DataError, match="at most 10000 rows for covariances and samples; got 10002"):
            call()


def test_targets_may_be_shifted_and_stretched(fitted):
    other = model().fit(X, 1e12 + 1e9 * Y)
    assert_allclose((other.predict(X) - 1e12) / 1e9, fitted.predict(X), rtol=1e-3)
    assert other.noise_ == pytest.approx(1e9 * fitted.noise_, rel=1e-2)


def test_log_marginal_likelihood_and_its_gradient(fitted):
    assert fitted.log_marginal_likelihood() == fitted.lower_bound_
    theta = np.append(fitted.kernel_.theta, np.log(fitted.noise_)) + 0.1
    value, gradient = fitted.log_marginal_likelihood(theta, eval_gradient=True)
    assert value < fitted.lower_bound_
    for k, step in enumerate(1e-4 * np.eye(theta.size)):
        ends = [fitted.log_marginal_likelihood(theta + s * step) for s in (1.0, -1.0)]
        assert_allclose(gradient[k], (ends[0] - ends[1]) / 2e-4, rtol=1e-4, atol=1e-4)
    with pytest.raises(DataError, match="theta must be"):
        fitted.log_marginal_likelihood([1.0])


def test_nothing_is_learnt_without_an_optimizer():
    still = model(kernel=KERNEL, optimizer=None, noise=0.5).fit(X, Y)
    assert np.array_equal(still.kernel_.theta, KERNEL.theta)
    assert still.noise_ == pytest.approx(0.5)
    assert still.n_iter_ == 1
    assert model(kernel=KERNEL, noise=0.5, tol=1.0).fit(X, Y).noise_ == pytest.approx(0.5)


def test_warm_start_resumes_and_a_failed_fit_leaves_the_earlier_one():
    warm = model(warm_start=True).fit(X, Y)
    before, n_first = warm.predict(X), warm.n_iter_
    warm.fit(X, Y)
    assert warm.n_iter_ < n_first
    state = {name: value for name, value in vars(warm).items() if name.endswith("_")}
    with pytest.raises(ValueError, match="NaN"):
        warm.fit(np.where(X > 2.9, np.nan, X), Y)
    assert all(vars(warm)[name] is value for name, value in state.items())
    assert_allclose(warm.predict(X), before, atol=0.02)


def test_a_sample_of_the_rows_finds_what_all_confirm(monkeypatch):
    set_policy(monkeypatch, "gp.sparse", sample_rows=100)
    large = model().fit(X, Y)
    assert large.noise_ == pytest.approx(0.2, rel=0.15)
    set_policy(monkeypatch, "gp.sparse", all_rows=200)
    larger = model().fit(X, Y)
    assert larger.n_samples_seen_ == 300
    assert larger.lower_bound_ <= large.lower_bound_ + 1.0


def test_a_subset_of_the_rows_finds_the_scales_by_which_points_are_chosen(monkeypatch):
    set_policy(monkeypatch, "gp.sparse", subset_rows=80, cold_start_rows=100)
    calls, choose = [], sparse_fit.choose_points

    def choosing(rows, kernel, config, rng):
        calls.append((len(rows), config.n_inducing, kernel.k2.length_scale))
        return choose(rows, kernel, config, rng)

    monkeypatch.setattr(sparse_fit, "choose_points", choosing)
    fit = model(learn_inducing=False).fit(X, Y)
    assert [call[:2] for call in calls] == [(300, 15)]
    # The first feature alone matters, as the search on the subset has found.
    assert calls[0][2][1] > 3.0 * calls[0][2][0]
    assert fit.noise_ == pytest.approx(0.2, rel=0.15)
    # A warm start is near its end already; partial_fit searches from there and from scratch.
    monkeypatch.setattr(sparse_fit, "choose_points", choose)
    warm = model(learn_inducing=False, warm_start=True).fit(X, Y)
    theta, evaluations = warm.kernel_.theta, warm.n_iter_
    warm.fit(X, Y)
    assert_allclose(warm.kernel_.theta, theta, atol=0.2)
    assert warm.n_iter_ < evaluations
    stream = model().partial_fit(X[:150], Y[:150]).partial_fit(X[150:], Y[150:])
    assert stream.noise_ == pytest.approx(0.2, rel=0.15)
    assert stream.lower_bound_ > fit.lower_bound_ - 10.0


def test_few_inducing_points_do_not_make_noise_of_what_the_rows_say():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, (2500, 30))
    targets = np.sin(4.0 * rows[:, 3]) * rows[:, 7] + 0.1 * rng.standard_normal(2500)
    fit = model(inducing=20, learn_inducing=False).fit(rows[:2400], targets[:2400])
    assert fit.score(rows[2400:], targets[2400:]) > 0.9
    assert set(np.argsort(fit.relevance_)[-2:]) == {3, 7}
    # From a cold start the search by the bound ends at pure noise.
    unit = (targets[:2400] - targets[:2400].mean()) / targets[:2400].std()
    config = SparseConfig("l-bfgs-b", 20, "kmeans++", learn_inducing=False, noise=None, max_iter=99, tol=1e-4)
    search = SparseSearch(config, initial_parameters(rows[:2400], None, config, np.random.default_rng(0)))
    search.ascend(bound_objective(GaussianRows(rows[:2400], unit, np.ones(2400))))
    assert search.parameters.noise > 0.95


def test_kernels_whose_points_cannot_be_moved_serve_as_well():
    linear = model(kernel=ConstantKernel(0.5) * RBF([1.0, 3.0]) + DotProduct(1.0), learn_inducing=True).fit(X, Y)
    assert linear.score(X, Y) > 0.9


# ------------------------------------------------------------------------------------------------------------- streams
def test_a_stream_ends_where_all_rows_at_once_end(monkeypatch):
    set_policy(monkeypatch, "gp.sparse", sample_rows=120)
    options = {"kernel": KERNEL, "noise": 0.2, "learn_inducing": False, "tol": 1e-2}
    stream = model(**options)
    for part in np.split(np.arange(300), 6):
        stream.partial_fit(X[part], Y[part])
    assert stream.n_samples_seen_ == 300
    assert stream._rows is None  # memory does not grow
    whole = clone(stream).set_params(kernel=stream.kernel_, inducing=stream.inducing_points_, optimizer=None)
    unit = (Y - stream.y_mean_) / stream.y_scale_
    whole.set_params(noise=0.2 / stream.y_scale_).fit(X, unit)
    # Standardised once more, by its own mean and deviation: undone by a kernel in its units.
    whole.set_params(kernel=ConstantKernel(unit.std() ** -2, "fixed") * stream.kernel_).fit(X, unit - unit.mean())
    difference = stream.predict(X) - (stream.y_mean_ + stream.y_scale_ * (whole.predict(X) + unit.mean()))
    assert np.max(np.abs(difference)) < 0.02
    with pytest.raises(DataError, match="needs the training rows"):
        stream.log_marginal_likelihood(eval_gradient=True)
    assert np.isfinite(stream.log_marginal_likelihood())


def test_a_stream_searches_again_when_its_rows_have_doubled(monkeypatch):
    searches, search = [], sparse_regressor.fit_collapsed
    monkeypatch.setattr(sparse_regressor, "fit_collapsed", lambda rows, *a: searches.append(rows.n) or search(rows, *a))
    stream = model(learn_inducing=False, tol=1e-2)
    for part in np.split(np.arange(300), 10):
        stream.partial_fit(X[part], Y[part])
    assert searches == [30, 60, 120, 240]
    assert stream.n_samples_seen_ == 300
    whole = model(kernel=stream.kernel_, inducing=stream.inducing_points_, optimizer=None, noise=stream.noise_)
    assert_allclose(stream.predict(X), whole.fit(X, Y).predict(X), atol=0.02)
    again = pickle.loads(pickle.dumps(stream)).partial_fit(X[:30], Y[:30])
    assert np.array_equal(again.predict(X), stream.partial_fit(X[:30], Y[:30]).predict(X))


@pytest.mark.filterwarnings("ignore:y. 33% of the targets are -50")
def test_a_window_counts_the_latest_rows_alone():
    stream = model(window=60)
    for part in np.split(np.arange(300), 5):
        stream.partial_fit(X[part], np.where(part < 200, -50.0, Y[part]))
    assert stream.n_samples_seen_ == 60
    assert np.sqrt(np.mean((stream.predict(X[240:]) - Y[240:]) ** 2)) < 0.5


def test_a_long_window_holds_the_kernel(monkeypatch):
    set_policy(monkeypatch, "gp.sparse", sample_rows=50)
    stream = model(window=100).partial_fit(X[:100], Y[:100])
    theta = stream.kernel_.theta
    stream.partial_fit(X[100:150], Y[100:150])
    assert stream.n_samples_seen_ == 100
    assert np.array_equal(stream.kernel_.theta, theta)
    whole = model(kernel=stream.kernel_, inducing=stream.inducing_points_, optimizer=None, noise=stream.noise_)
    assert_allclose(stream.predict(X), whole.fit(X[50:150], Y[50:150]).predict(X), atol=0.1)


# -------------------------------------------------------------------------------------------------------- nasty inputs
CASES = {
    "repeated rows": (np.repeat(X[:30], 5, axis=0), np.repeat(Y[:30], 5)),
    "repeated rows, other targets": (np.repeat(X[:30], 5, axis=0), Y[:150]),
    "one row": (X[:1], Y[:1]),
    "two equal rows": (X[[0, 0]], Y[:2]),
    "equal targets": (X[:50], np.full(50, 3.0)),
    "huge targets": (X[:50], 1e12 * Y[:50]),
    "targets far off": (X[:50], 1e12 + Y[:50]),
    "targets at the end of the range": (X[:50], 1e307 * Y[:50]),
    "tiny targets": (X[:50], 1e-300 * Y[:50]),
    "huge features": (1e100 * X[:50], Y[:50]),
    "tiny features": (1e-100 * X[:50], Y[:50]),
    "nearly equal rows": (X[:50] * 1e-14 + 1.0, Y[:50]),
    "no noise": (X[:80], np.sin(X[:80, 0])),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::skpref.exceptions.DataWarning")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kernel", [None, RBF(1e-5, "fixed"), RBF(1e5, "fixed")], ids=["default", "tiny", "huge"])
def test_nasty_inputs_have_finite_answers(name, kernel):
    rows, targets = CASES[name]
    fit = model(kernel=kernel, max_iter=20).fit(rows, targets)
    mean, std = fit.predict(rows, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(std))
    assert np.isfinite(fit.lower_bound_)
    assert np.all(np.abs(mean - targets) <= 4.0 * np.ptp(targets) + 1e-3 * np.abs(targets))


def test_constant_columns_are_reported_and_ignored():
    constant = np.column_stack([X, np.full(300, 7.0)])
    with pytest.warns(DataWarning, match="constant"):
        fit = model(max_iter=50).fit(constant, Y)
    assert fit.relevance_[2] == 0.0
    assert fit.noise_ == pytest.approx(0.2, rel=0.15)


@pytest.mark.parametrize("kernel", [RBF(np.ones(3)), ConstantKernel() * RBF(np.ones(3))], ids=str)
def test_length_scales_of_another_number_of_features_are_refused(kernel):
    with pytest.raises(
        ValueError, match=r"length_scale: got shape \(3,\) for 2 features, wanted one number or one per"
    ):
        SVGPRegressor(kernel).fit(X, Y)


@pytest.mark.parametrize(("n", "wanted"), [(30, 30), (1500, 1500), (1501, 500)])
def test_few_rows_are_all_inducing_points_by_default(n, wanted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    fitted = SVGPRegressor(optimizer=None, learn_inducing=False, random_state=0).fit(
        np.vstack([X, X[:5]]), rng.normal(size=n + 5)
    )
    assert fitted.inducing_points_.shape[0] == wanted
    again = SVGPRegressor(inducing=7, optimizer=None, random_state=0).fit(X, X[:, 0])
    assert again.inducing_points_.shape[0] == 7


@examples(10)
@given(seed=st.integers(0, 2**32 - 1), noise=st.floats(-4.0, 1.0), scale=st.floats(-1.0, 1.0))
def test_where_points_are_rows_the_objective_is_the_evidence(seed, noise, scale):
    rng = np.random.default_rng(seed)
    targets = distinct_targets(
        rng.normal(size=(9, 2))[[0, 1, 2, 3, 4, 5, 6, 7, 8, 0]], rng.normal(size=10), rng.exponential(size=10) + 0.1
    )
    rows = gaussian_rows(targets, target_scale(targets))
    parameters = SparseParameters(ConstantKernel(2.0) * RBF([np.exp(scale), 1.0]), float(np.exp(noise)), rows.X)
    by_evidence, weight = cheapest_objective(rows, parameters)(parameters)
    by_bound, same = bound_objective(rows)(parameters)
    assert weight == same
    assert by_evidence.points is None
    assert by_bound.points is not None
    np.testing.assert_allclose(by_evidence.value, by_bound.value, rtol=1e-7)
    np.testing.assert_allclose(
        np.append(by_evidence.theta, by_evidence.log_noise),
        np.append(by_bound.theta, by_bound.log_noise),
        rtol=1e-5,
        atol=1e-6,
    )
    few = replace(parameters, points=rows.X[:4])
    assert cheapest_objective(rows, few)(few)[0].points is not None
    white = replace(parameters, kernel=parameters.kernel + WhiteKernel(0.1))
    assert cheapest_objective(rows, white)(white)[0].value == bound_objective(rows)(white)[0].value


@pytest.mark.parametrize(
    ("n_points", "learn", "inducing", "wanted"),
    [
        (200, "auto", "kmeans++", True),
        (201, "auto", "kmeans++", False),
        (201, True, "kmeans++", True),
        (20, False, "kmeans++", False),
        (20, "auto", X[:20], False),
        (20, True, X[:20], True),
    ],
)
def test_which_points_may_move_points(n_points, learn, inducing, wanted):
    config = SparseConfig("l-bfgs-b", n_points, inducing, learn, noise=None, max_iter=9, tol=1e-4)
    assert may_move_points(X, SparseParameters(KERNEL, 0.1, X[:n_points]), config) is wanted
    assert not may_move_points(sparse.csr_array(X), SparseParameters(KERNEL, 0.1, X[:n_points]), config)


def test_targets_whose_squares_overflow_beside_the_first_ones_are_refused():
    X = np.random.default_rng(0).standard_normal((20, 2))
    model = SVGPRegressor(random_state=0).fit(X, X[:, 0])
    before = model.predict(X)
    with pytest.raises(DataError, match=r"y must be within 1e\+100 standard deviations of the first targets"):
        model.partial_fit(X[:1], [1e299])
    np.testing.assert_array_equal(model.predict(X), before)
    assert np.isfinite(model.partial_fit(X[:1], [1e80]).predict(X)).all()


@pytest.mark.parametrize("make", [SVGPRegressor, partial(SVGPRegressor, likelihood="student-t"), SVGPClassifier])
def test_a_search_that_rounding_stopped_is_not_told_to_iterate_more(make, monkeypatch):
    found = hyper.minimize

    def stopped(*args, **options):
        result = found(*args, **options)
        result.success, result.status = False, 2  # "ABNORMAL"
        return result

    monkeypatch.setattr(hyper, "minimize", stopped)
    y = Y > 5.0 if make is SVGPClassifier else Y
    remedy = r"Increase tol\.$" if make is SVGPClassifier else r"Increase tol, or set noise to about 0.001 \* y.std\(\)"
    with pytest.warns(ConvergenceWarning, match=rf"rounding errors, so more iterations do not help\. .*{remedy}"):
        model = make(random_state=0).fit(X, y)
    assert not model.converged_
