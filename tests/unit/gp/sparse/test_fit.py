"""Which stages a fit of sparse regression has."""

from functools import partial

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, Sum, WhiteKernel
from sklearn.utils._param_validation import InvalidParameterError

from skpref import SVGPClassifier, SVGPRegressor
from skpref.gp.hyperpriors import regression_priors
from skpref.gp.posterior import WarmStart
from skpref.gp.sparse import fit
from skpref.gp.sparse.evidence import GaussianRows
from skpref.gp.sparse.search import SparseConfig, SparseParameters
from skpref.inference.basis import InducingBasis
from skpref.likelihoods import Gaussian
from tests.policies import set_policy


@pytest.mark.parametrize("kind", [SVGPRegressor, SVGPClassifier])
def test_one_inducing_point_is_enough_and_none_is_refused(kind):
    X = np.linspace(-1.0, 1.0, 8)[:, None]
    model = kind(inducing=1, optimizer=None, random_state=0).fit(X, X[:, 0] > 0.0)
    assert np.isfinite(model.lower_bound_)
    with pytest.raises(InvalidParameterError, match="inducing"):
        kind(inducing=0).fit(X, X[:, 0] > 0.0)


X = np.random.default_rng(0).uniform(-2.0, 2.0, (60, 2))
KERNEL = ConstantKernel(2.0, (1e-2, 10.0)) * RBF([1.0, 3.0], (0.5, 100.0)) + WhiteKernel(0.3, "fixed")
ROWS = GaussianRows(X, np.sin(X[:, 0]), np.ones(60))


def config(**options):
    plain = {"optimizer": "l-bfgs-b", "n_inducing": 6, "inducing": "random", "learn_inducing": "auto", "noise": None}
    return SparseConfig(**(plain | {"max_iter": 10, "tol": 1e-4} | options))


class Recorder:
    """A search that writes down what it is asked for, and ends at a noise of the test's choice."""

    end_noise: float | None = None

    height = 0.0

    def __init__(self, config, parameters, scale=None, priors=None):
        self.config, self.parameters, self.start, self.scale = config, parameters, parameters, scale
        self.priors = priors
        self.ascents = []
        self.others = []

    def ascend(self, _objective, **options):
        self.ascents.append(options)
        if self.end_noise is not None:
            self.parameters = SparseParameters(self.start.kernel, self.end_noise, self.start.points)

    def value(self, _objective):
        return self.height

    def compare(self, others, _objective):
        self.others += others


@pytest.mark.parametrize(("kernel", "n_others"), [(None, 1), (KERNEL, 2), (ConstantKernel(2.0) * RBF(1.0, "fixed"), 0)])
def test_starts_with_the_scales_of_the_data_and_shorter_ones_are_tried(monkeypatch, kernel, n_others):
    monkeypatch.setattr(fit, "SparseSearch", Recorder)
    priors = partial(regression_priors, X)
    found = fit._search_subset(ROWS, kernel, config(), np.random.default_rng(0), priors)
    search, cold = found
    assert search.ascents == [{}]
    assert cold is search.start
    assert search.priors is priors
    assert search.start.points is ROWS.X
    assert search.start.noise == 0.1
    usual = search.start if kernel is None else fit.with_usual_scales(search.start)
    starts = [usual, fit.with_shorter_scales(usual)]
    assert [o.kernel for o in search.others] == [start.kernel for start in starts[2 - n_others :]]


@pytest.mark.parametrize(
    ("function", "kind", "is_linear"),
    [
        (lambda x: np.sin(2.0 * x[:, 0]) * np.cos(x[:, 1]), RBF, False),
        (lambda x: np.abs(x[:, 0]) + np.abs(x[:, 1] - 0.5), Matern, False),
        (lambda x: 3.0 * x[:, 0] - 2.0 * x[:, 1] + np.sin(6.0 * x[:, 0]), RBF, True),
    ],
    ids=["smooth", "kinks", "a line and waves"],
)
def test_the_evidence_chooses_the_family_of_the_default_kernel(function, kind, *, is_linear):
    rng = np.random.default_rng(1)
    rows = rng.uniform(-2.0, 2.0, (300, 2))
    y = function(rows) + 0.02 * rng.standard_normal(300)
    model = SVGPRegressor(random_state=0).fit(rows[:200], y[:200])
    assert isinstance(model.kernel_, Sum) == is_linear
    smooth = model.kernel_.k1 if is_linear else model.kernel_
    assert type(smooth.k2) is kind
    mean, std = model.predict(rows[200:], return_std=True)
    assert np.mean(np.abs(y[200:] - mean) < 1.96 * std) > 0.85
    other = SVGPRegressor(ConstantKernel() * (Matern([1.0, 1.0], nu=1.5) if kind is RBF else RBF([1.0, 1.0])))
    assert model.lower_bound_ > other.fit(rows[:200], y[:200]).lower_bound_ + 1.0


def test_a_line_in_many_features_is_found_from_few_rows():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 20))
    y = rows @ np.linspace(-1.0, 1.0, 20) + 0.1 * rng.standard_normal(60)
    model = SVGPRegressor(random_state=0).fit(rows[:40], y[:40])
    assert np.sqrt(np.mean((model.predict(rows[40:]) - y[40:]) ** 2)) < 0.4 * np.std(y)
    # The linear part has one prior variance; relevance is by its slopes.
    wanted = (np.linspace(-1.0, 1.0, 20) * rows[:40].std(axis=0) / y[:40].std()) ** 2
    np.testing.assert_allclose(model.relevance_, wanted, atol=0.03)


def test_usual_scales_are_those_of_the_default_kernel_within_their_bounds():
    default = fit._initial_kernel(
        None, X, SparseConfig("l-bfgs-b", 9, "k-means++", False, None, 9, 1e-3)
    ).k2.length_scale
    each = SparseParameters(ConstantKernel(2.0) * RBF([1.0, 1.0], (1e-9, 1e9)), 0.2, X)
    one = SparseParameters(RBF(1.0, (1e-9, 1e9)) ** 2, 0.2, X)
    np.testing.assert_allclose(np.exp(fit.with_usual_scales(each).kernel.theta), [2.0, *default])
    np.testing.assert_allclose(np.exp(fit.with_usual_scales(one).kernel.theta), [np.sqrt(np.prod(default))])
    narrow = SparseParameters(RBF(1.0, (0.9, 1.1)), 0.2, 1e3 * X)
    np.testing.assert_allclose(np.exp(fit.with_usual_scales(narrow).kernel.theta), [1.1])
    assert fit.with_usual_scales(narrow).points is narrow.points


@pytest.mark.parametrize("unit", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("kernel", [RBF() ** 2, RBF() * RBF(), (ConstantKernel() * RBF()) ** 2, RBF() ** 0.5], ids=str)
def test_a_kernel_of_the_users_finds_the_function_in_any_unit(kernel, unit):
    rng = np.random.default_rng(0)
    rows = rng.uniform(-3.0, 3.0, (60, 1))
    y = np.sin(2.0 * rows[:, 0]) + 0.3 * rng.standard_normal(60)
    model = SVGPRegressor(kernel, random_state=0).fit(unit * rows, y)
    best = SVGPRegressor(RBF(0.7 * unit, (1e-5, 1e5)), random_state=0).fit(unit * rows, y)
    assert model.lower_bound_ > best.lower_bound_ - 0.1
    assert model.noise_ == pytest.approx(0.3, rel=0.3)


def test_shorter_scales_stay_within_their_bounds_and_fixed_ones_stay():
    start = SparseParameters(KERNEL, 0.2, X)
    shorter = fit.with_shorter_scales(start)
    # 1 times .4 is below the bound .5; the other goes to 1.2, the variance stays.
    np.testing.assert_allclose(np.exp(shorter.kernel.theta), [2.0, 0.5, 1.2])
    assert shorter.points is X
    assert shorter.noise == 0.2
    fixed = SparseParameters(ConstantKernel(2.0) * RBF(1.0, "fixed"), 0.2, X)
    np.testing.assert_allclose(fit.with_shorter_scales(fixed).kernel.theta, np.log([2.0]))


@pytest.mark.parametrize("asked", [None, 1e-4])
def test_the_search_on_a_sample_begins_with_some_noise_and_tries_other_starts(monkeypatch, asked):
    monkeypatch.setattr(fit, "SparseSearch", Recorder)
    monkeypatch.setattr(fit, "cheapest_objective", lambda *_: None)
    other = SparseParameters(KERNEL, 0.7, X)
    for end_noise, wanted in ((1e-4, 0.01 if asked is None else 1e-4), (0.3, 0.3)):
        start = SparseParameters(KERNEL, end_noise, X[:6])
        before = Recorder(config(noise=asked), start, np.ones(3), partial(regression_priors, X))
        search = fit._search_sample(before, ROWS, [other], freely=False)
        assert search.start.noise == wanted
        assert search.start.points is start.points
        assert (search.scale is before.scale, search.priors is before.priors) == (True, True)
        assert (search.ascents, search.others) == ([{}], [other])


@pytest.mark.parametrize(("n_inducing", "n_exact"), [(90, 0), (100, 0), (101, 404), (500, 1500), (5000, 0)])
def test_the_exact_evidence_of_more_rows_is_searched_where_points_are_many_and_fewer_than_rows(
    monkeypatch, n_inducing, n_exact
):
    monkeypatch.setattr(fit, "SparseSearch", Recorder)
    monkeypatch.setattr(fit, "evidence_objective", lambda rows: sizes.append(rows.n))
    many, sizes = np.resize(X, (5000, 2)) + np.arange(5000)[:, None] * 1e-3, list[int]()
    rows = GaussianRows(many, many[:, 0], np.ones(5000))
    for kernel, wanted in ((RBF(0.7), n_exact), (RBF(0.7) + WhiteKernel(0.3), 0)):
        before = Recorder(config(n_inducing=n_inducing), SparseParameters(kernel, 0.1, X))
        search = fit._search_exactly(before, rows, np.random.default_rng(0))
        assert sizes == [wanted] * bool(wanted)
        assert (search is None) is not bool(wanted)
        assert search is None or search.ascents == [{"tol": 1e-3}]
        sizes.clear()


@pytest.mark.parametrize(
    ("learn", "length_scale", "moved"),
    [(True, 30.0, True), ("auto", 30.0, False), (False, 0.7, False), ("auto", 0.7, True)],
)
def test_points_are_moved_where_they_lose_something_or_when_asked_for(monkeypatch, learn, length_scale, *, moved):
    # With long length-scales six points lose nothing.
    monkeypatch.setattr(fit, "bound_objective", lambda rows: rows)
    search = Recorder(config(learn_inducing=learn), SparseParameters(RBF(length_scale), 0.1, X[:6]))
    fit._move_points(search, ROWS)
    assert search.ascents == [{"move_points": True}] * moved


def test_the_loss_by_points_is_counted_by_row():
    basis, weight = InducingBasis.from_points(RBF(0.7), X[:6]), np.linspace(0.5, 2.0, 60)
    rows, parameters = GaussianRows(X, ROWS.y, weight), SparseParameters(RBF(0.7), 0.1, X[:6])
    lost = 0.5 * weight @ (1.0 - np.sum(basis.rows(X) ** 2, axis=1)) / 0.1
    np.testing.assert_allclose(fit._lost(parameters, rows), lost / weight.sum())
    np.testing.assert_allclose(fit._lost(SparseParameters(RBF(0.7), 0.1, X), rows), 0.0, atol=1e-8)


def test_where_points_lose_much_the_noise_is_that_of_the_evidence_and_points_are_more(monkeypatch):
    set_policy(monkeypatch, "gp.sparse", exact_rows=420, inducing=110)
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((2, 600, 4))
    y, truth = (np.sin(2.0 * rows).sum(axis=1) for rows in (X, new))
    y += 0.2 * rng.standard_normal(600)
    model = SVGPRegressor(random_state=0).fit(X, y)
    assert model.inducing_points_.shape == (420, 4)
    assert model.noise_ == pytest.approx(0.2, rel=0.5)
    few = SVGPRegressor(inducing=110, learn_inducing=False, random_state=0).fit(X, y)
    assert np.mean((model.predict(new) - truth) ** 2) < 0.8 * np.mean((few.predict(new) - truth) ** 2)
    # Later rows do not change it.
    noise = model.noise_
    assert model.partial_fit(new[:5], truth[:5]).noise_ == noise
    # Where all is learnt again, points stay many.
    assert model.partial_fit(new, truth).inducing_points_.shape == (420, 4)
    # Kernels that may hold white noise are learnt by the bound.
    other = SVGPRegressor(RBF(1.0) ** 2, random_state=0).fit(X, y)
    assert (other.inducing_points_.shape, len(other.lower_bounds_) > 2) == ((110, 4), True)


@pytest.mark.parametrize(
    ("search", "inducing", "n_points", "chosen"),
    [
        ("compare", "random", 6, False),
        ("compare", "random", 5, True),
        ("resume", "random", 7, True),
        ("compare", X[:6], 6, True),
        ("skip", X[:6], 6, False),
        ("skip", "random", 3, False),
    ],
)
def test_an_earlier_fit_is_resumed_with_its_points_unless_their_number_is_another_or_they_are_given(
    search, inducing, n_points, *, chosen
):
    start = WarmStart(KERNEL, Gaussian(4.0), X[20 : 20 + n_points], search=search)
    resumed = fit.resumed_parameters(X, start, config(inducing=inducing), np.random.default_rng(0))
    assert (resumed.points is start.points) is not chosen
    assert resumed.points.shape == (6 if chosen else n_points, 2)
    assert resumed.kernel == KERNEL
    assert resumed.noise == 0.25
    assert fit.resumed_parameters(X, start, config(noise=0.3), np.random.default_rng(0)).noise == 0.3


def test_noise_is_learnt_again_from_sums_unless_it_is_given_or_nothing_is_learnt():
    start = SparseParameters(RBF(0.7), 0.1, X[:6])
    basis = InducingBasis.from_points(start.kernel, start.points)
    moments = fit.bound(ROWS, basis, 0.1, gradient=False).moments

    def refitted(*, by_evidence=False, **options):
        return fit.refit_from_moments(moments, start, basis, config(**options), by_evidence=by_evidence)

    learnt = refitted(max_iter=50, tol=1e-8)
    best = learnt.parameters.noise
    for noise in (0.9 * best, 1.1 * best):
        assert refitted(noise=noise).bound < learnt.bound
        assert refitted(noise=noise).parameters.noise == noise
    assert learnt.n_iter > 1
    assert learnt.converged
    short = refitted(max_iter=1, tol=1e-9)
    assert (learnt.cut_short, short.converged, short.cut_short) == (False, False, True)
    for kept in (refitted(by_evidence=True), refitted(optimizer=None)):
        assert (kept.parameters.noise, kept.n_iter, kept.converged, kept.bounds) == (0.1, 1, True, [kept.bound])
    np.testing.assert_allclose(kept.bound, fit.bound(ROWS, basis, 0.1, gradient=False).value)
    assert kept.parameters.kernel is start.kernel
