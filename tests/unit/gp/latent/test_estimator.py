"""`BayesianGPLVM`: what is learnt, new rows, nasty inputs, the search."""

import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpref import BayesianGPLVM
from skpref.gp.latent.bound import Inputs, LatentHyper
from skpref.gp.latent.estimator import _initial, _Search, _Variables
from skpref.inference.hyper import Optimum

_rng = np.random.default_rng(4)
T = np.sort(_rng.uniform(-1.5, 1.5, 60))
CLEAN = np.column_stack([np.sin(2.0 * T), np.cos(2.0 * T), T, T**2, np.exp(-T)])
X = CLEAN + 0.05 * _rng.standard_normal(CLEAN.shape)


@pytest.fixture(scope="module")
def model():
    return BayesianGPLVM(4, inducing=15, max_iter=400, tol=1e-3, random_state=0).fit(X)


def quick(**options):
    return BayesianGPLVM(
        **{"n_components": 2, "inducing": 8, "max_iter": 300, "tol": 1e-1, "random_state": 0, **options}
    )


def test_one_coordinate_is_found_and_the_others_are_switched_off(model):
    assert abs(np.corrcoef(np.argsort(np.argsort(model.embedding_[:, 0])), np.arange(60))[0, 1]) > 0.98
    assert np.all(np.diff(model.relevance_) <= 0.0)
    assert np.all(model.relevance_[1:] < 0.02 * model.relevance_[0])
    assert np.all(model.embedding_std_[:, -1] > 0.5)  # the posterior of a coordinate that plays no part is the prior
    assert model.noise_ == pytest.approx(0.05, rel=0.3)


def test_reconstruction_and_inverse(model):
    mean, std = model.reconstruct(X, return_std=True)
    assert np.sqrt(np.mean((mean - CLEAN) ** 2)) < 0.05
    assert 0.85 < np.mean(np.abs(X - mean) < 2.0 * std) <= 1.0
    assert_allclose(model.reconstruct(X), mean, atol=1e-12)
    coordinates = model.transform(X)
    there, point_std = model.inverse_transform(coordinates, return_std=True)
    assert np.abs(there - mean).max() < 0.2
    assert np.all(point_std <= 1.05 * std)
    assert np.all(point_std >= model.noise_)


def test_new_rows_land_among_their_like(model):
    between = 0.5 * (T[:-1] + T[1:])
    new = np.column_stack([np.sin(2.0 * between), np.cos(2.0 * between), between, between**2, np.exp(-between)])
    mean, std = model.transform(new, return_std=True)
    assert std.shape == mean.shape == (59, 4)
    order = np.sign(model.embedding_[-1, 0] - model.embedding_[0, 0])
    assert np.mean(order * np.diff(mean[:, 0]) > -2.0 * std[1:, 0]) == 1.0
    odd = np.array([[3.0, -3.0, 3.0, -3.0, 3.0]])
    assert model.score_samples(odd)[0] < model.score_samples(new).min() - 10.0
    assert model.score(new) == pytest.approx(model.score_samples(new).mean())


def test_the_log_density_of_rows_counts_their_units():
    Y = 10.0 * X
    of_units = [quick().fit(rows).score_samples(rows) for rows in (X, Y)]
    assert_allclose(of_units[1], of_units[0] - 5 * np.log(10.0), atol=1e-4)


def test_fit_transform_is_transform_after_fit():
    first, second = quick(), quick()
    assert_array_equal(first.fit_transform(X), second.fit(X).transform(X))
    assert_allclose(first.embedding_, first.transform(X), atol=0.02)  # found from another row's coordinates


def test_units_do_not_matter():
    first, second = quick().fit(X), quick().fit(1e3 * X - 5e4)
    # L-BFGS-B magnifies rounding: the two searches part after some hundred steps.
    assert second.lower_bound_ == pytest.approx(first.lower_bound_ - X.size * np.log(1e3), rel=1e-2)
    assert second.noise_ == pytest.approx(1e3 * first.noise_, rel=0.1)


def test_same_seed_same_bits_and_input_kept():
    before = X.copy()
    first, second = quick().fit(X), clone(quick()).fit(X)
    assert_array_equal(first.embedding_, second.embedding_)
    assert_array_equal(X, before)
    assert_array_equal(pickle.loads(pickle.dumps(first)).transform(X), first.transform(X))


def test_more_dimensions_than_features_or_rows():
    assert quick(n_components=7).fit(X).embedding_.shape == (60, 7)
    assert quick(n_components=None).fit(X).embedding_.shape == (60, 5)
    assert np.all(np.isfinite(quick(n_components=3).fit_transform(X[:2])))


def test_warm_start_resumes():
    model = quick(max_iter=5, warm_start=True)
    with pytest.warns(ConvergenceWarning, match="max_iter=5"):
        model.fit(X)
    first = model.lower_bound_
    with pytest.warns(ConvergenceWarning):
        model.fit(X)
    assert model.lower_bound_ > first
    with pytest.warns(ConvergenceWarning):
        assert model.fit(X[:30]).embedding_.shape == (30, 2)


def test_names_and_frames():
    frame = pd.DataFrame(X, columns=list("abcde"))
    pipe = make_pipeline(StandardScaler(), quick()).set_output(transform="pandas")
    out = pipe.fit_transform(frame)
    assert list(out.columns) == ["bayesiangplvm0", "bayesiangplvm1"]


def test_frames_for_all_transformers_do_not_reach_the_inside():
    plain = BayesianGPLVM(1, inducing=4, tol=1.0, random_state=0).fit(X[:20]).transform(X[:2])
    with sklearn.config_context(transform_output="pandas"):
        framed = BayesianGPLVM(1, inducing=4, tol=1.0, random_state=0).fit(X[:20]).transform(X[:2])
    assert_array_equal(framed.to_numpy(), plain)


def test_a_line_an_evaluation(capsys):
    quick(verbose=1).fit(X[:10])
    assert "BayesianGPLVM: evaluation 1/" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.ones((5, 2)), "all rows are the same"),
        (np.full((10, 3), 0.1), "all rows are the same"),  # whose mean is not 0.1
        (X[:1], "minimum of 2"),
        (np.where(X > 2.0, np.nan, X), "NaN"),
        (X[:, 0], "2D"),
        (np.array([[1.7e308, 0.0], [-1.7e308, 0.0], [-1.7e308, 0.0]]), "overflow"),
        ([["a", "b"], ["c", "d"]], "convert"),
    ],
)
def test_bad_tables_are_refused_and_the_earlier_fit_stays(table, message):
    model = quick(tol=10.0).fit(X)
    before = model.transform(X)
    with pytest.raises(ValueError, match=message):
        model.fit(table)
    assert_array_equal(model.transform(X), before)


@pytest.mark.parametrize(
    "options", [{"n_components": 0}, {"inducing": 0}, {"max_iter": 0}, {"tol": -1.0}, {"random_state": "x"}], ids=str
)
def test_bad_parameters_are_named(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        quick(**options).fit(X)


def test_bad_coordinates_and_unfitted(model):
    with pytest.raises(ValueError, match="4 columns, one per coordinate; got 3"):
        model.inverse_transform(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="NaN"):
        model.inverse_transform(np.full((2, 4), np.nan))
    for method in ("transform", "reconstruct", "inverse_transform", "score_samples"):
        with pytest.raises(NotFittedError):
            getattr(quick(), method)(X)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_tiny_and_huge_numbers(scale):
    model = quick().fit(scale * X)
    assert np.all(np.isfinite(model.transform(scale * X)))
    assert np.all(np.isfinite(model.reconstruct(scale * X)))
    assert np.isfinite(model.lower_bound_)


def test_copies_of_rows_and_constant_columns():
    model = quick().fit(np.hstack([np.repeat(X[:6], 4, axis=0), np.ones((24, 1))]))
    assert np.all(np.isfinite(model.embedding_))
    assert_allclose(model.embedding_[0], model.embedding_[1], atol=0.05)


@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_of_a_round_is_the_slope(seed):
    rng = np.random.default_rng(seed)
    Y = X[:20] - X[:20].mean(axis=0)
    hyper = LatentHyper(rng.normal(size=(5, 2)), rng.normal(size=2), 0.3, 1.2)
    inputs = Inputs(rng.normal(size=(20, 2)), np.exp(rng.normal(-2.0, 1.0, (20, 2))))
    search, variables = _Search(Y, (inputs, hyper), None), _Variables.from_start(inputs, hyper, Y.size)
    theta = variables.packed(Inputs(inputs.mu, np.log(inputs.s)), hyper)
    for unpacked, wanted in zip(variables.unpacked(theta)[0], inputs, strict=True):
        assert_allclose(unpacked, wanted, rtol=1e-12)
    theta += 0.1 * rng.standard_normal(theta.size)  # warps too
    value, gradient = search._objective(theta, variables)
    h = 1e-4
    for group in np.split(np.arange(theta.size), variables.cuts):
        u = np.zeros(theta.size)
        u[group] = rng.standard_normal(group.size)
        f = [search._objective(theta + k * h * u, variables)[0] for k in (-2, -1, 1, 2)]
        slope = (f[0] - 8.0 * f[1] + 8.0 * f[2] - f[3]) / (12.0 * h)
        assert slope == pytest.approx(gradient @ u, rel=1e-5, abs=1e-6 * abs(value))


def test_a_warp_takes_rows_and_inducing_inputs_along_together():
    inputs = Inputs(np.array([[0.0], [1.0], [2.0]]), np.full((3, 1), 0.1))
    variables = _Variables.from_start(inputs, LatentHyper(inputs.mu.copy(), np.zeros(1), 0.0, 0.0), 3)
    theta = np.zeros(variables.cuts[-1] + 3)
    theta[variables.cuts[-1] :] = [0.5, -0.3, 0.2]
    moved, hyper = variables.unpacked(theta)
    assert np.abs(moved.mu).max() > 0.1
    assert_allclose(moved.mu, hyper.Z, atol=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_search_ends_by_itself_at_one_optimum(seed):
    model = BayesianGPLVM(4, inducing=15, random_state=seed).fit(X)
    assert model.n_iter_ < 300
    assert model.lower_bound_ == pytest.approx(140.0, abs=0.5)


def test_a_fit_ends_where_rounding_lets_no_line_search_rise(monkeypatch):
    search = _Search(X, (Inputs(np.zeros((60, 1)), np.ones((60, 1))), LatentHyper(np.zeros((1, 1)), *[0.0] * 3)), None)
    rounds = []

    def nothing(max_iter, tol, *, fixed_noise):
        rounds.append(max_iter)
        return Optimum(np.zeros(1), 0.0, 20, converged=False, cut_short=False, n_iter=0, scale=np.ones(1))

    monkeypatch.setattr(search, "_ascend", nothing)
    search._best = 0.0
    assert search.run(1000, 1e-4, cold=False).converged
    assert rounds == [100]
    assert search.run(1000, 1e-4, cold=True).n_iter == 2
    assert rounds == [100, 30, 30]


def test_other_kinds_of_tables():
    wide = np.hstack([X, X[:, :2], X[:, :1] + 1e12])  # columns that repeat, and one that hardly resolves its numbers
    for table in (X.astype(np.float32), X.astype(np.float32).tolist(), np.asfortranarray(wide), 1e12 * X):
        model = quick(tol=10.0).fit(table)
        assert np.all(np.isfinite(model.transform(table)))
        assert np.isfinite(model.score(table))
    assert_array_equal(
        quick(tol=10.0).fit(X.astype(np.float32)).embedding_,
        quick(tol=10.0).fit(X.astype(np.float32).astype(np.float64)).embedding_,
    )
    with pytest.raises(TypeError, match="dense data is required"):
        quick().fit(sparse.csr_matrix(X))


@pytest.mark.parametrize("far", [1e6, 1e300])
def test_far_from_all_rows_the_functions_are_the_prior(model, far):
    mean, std = model.inverse_transform(np.full((1, 4), far), return_std=True)
    assert_allclose(mean[0], model.mean_, atol=1e-9)
    assert_allclose(std[0], np.hypot(model.amplitude_, model.noise_))


def test_rows_without_noise_end_at_the_limits_of_the_search(monkeypatch):
    """Their variances would become as small as the noise, and the length-scale of a coordinate without use infinite."""
    ends = []
    run = _Search.run
    monkeypatch.setattr(_Search, "run", lambda *args, **options: ends.append(run(*args, **options)) or ends[0])
    line = np.linspace(-1.0, 1.0, 12)[:, None] * np.ones(40)
    model = BayesianGPLVM(2, inducing=6, tol=1e-6, max_iter=300, random_state=0).fit(line)
    assert_allclose(np.log(ends[0].inputs.s).min(axis=0)[0], -15.0, atol=1e-9)
    assert 11.0 < np.log(model.length_scale_[1]) < 12.5 + 1e-9
    assert np.isfinite(model.lower_bound_)
    assert 0.0 < model.noise_ < 1e-2


def test_the_start_correlates_rows_at_the_mean_distance():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((50, 2)) @ np.diag([3.0, 1.0]) @ rng.standard_normal((2, 7))
    inputs, hyper = _initial(Y, 4, 10, rng)
    share = np.linalg.svd(Y - Y.mean(axis=0), compute_uv=False)[:2] ** 2
    # Squared distances are 2 on average in each coordinate; those without variance have a thousandth of the weight.
    assert_allclose(np.exp(hyper.log_w), 0.25 * np.array([*share / share.sum(), 1e-3, 1e-3]), rtol=1e-6)
    assert_allclose(inputs.mu[:, :2].std(axis=0, ddof=1), 1.0, rtol=1e-6)
    assert_allclose(inputs.mu[:, 2:].std(), 0.1, rtol=0.3)
    assert_array_equal(inputs.s, 0.9)
    assert hyper.Z.shape == (10, 4)
    assert_allclose(np.exp(hyper.log_beta), 50.0)


def rounds(monkeypatch, gains, *, cold, **options):
    """The end of a search whose rounds gain so many nats, the length of each round, and whether its noise is fixed."""
    search = _Search(np.zeros((10, 4)), (None, None), None)
    log = []

    def ascend(length, tol, *, fixed_noise):
        log.append((length, fixed_noise))
        search._best = gains[len(log) - 1] + (0.0 if np.isinf(search._best) else search._best)
        done = options.get("iterations", {}).get(len(log), length)
        return SimpleNamespace(n_iter=done, converged=len(log) in options.get("converged", ()))

    monkeypatch.setattr(search, "_ascend", ascend)
    return search.run(options.get("max_iter", 1000), 0.1, cold=cold), log


def test_rounds_of_a_search_grow_and_the_first_of_a_cold_start_keeps_its_noise(monkeypatch):
    # Short ones first, in which rows move far and outdate their units.
    end, log = rounds(monkeypatch, [1e9] * 5, cold=True, max_iter=207)
    assert log == [(30, True), (30, False), (40, False), (100, False), (7, False)]
    assert (end.n_iter, end.converged) == (207, False)
    _, log = rounds(monkeypatch, [1e9] * 2, cold=False, max_iter=200)
    assert log == [(100, False)] * 2
    # A search that has one round only learns the noise in it.
    _, log = rounds(monkeypatch, [1e9], cold=True, max_iter=30)
    assert log == [(30, False)]


def test_a_search_ends_after_a_round_that_converged_and_gained_little(monkeypatch):
    small = 100 * 0.01 * 0.1 * 40  # nats of 100 iterations with tol=.1 on 40 entries
    for gains, converged, iterations, n_rounds in (
        ([5.0, 0.9 * small], {2}, {}, 2),
        ([5.0, 1.1 * small, 0.9 * small], {2, 3}, {}, 3),
        ([5.0, 0.9 * small, 0.0], {3}, {}, 3),
        ([5.0, 0.9 * small], {}, {2: 3}, 2),  # a line search that failed
    ):
        end, log = rounds(monkeypatch, gains, cold=False, converged=converged, iterations=iterations)
        assert (len(log), end.converged) == (n_rounds, True)
    # The first round of a cold start has not learnt the noise yet.
    end, log = rounds(monkeypatch, [5.0, 0.0], cold=True, converged={1, 2}, iterations={1: 0, 2: 0})
    assert (len(log), end.converged, end.n_iter) == (2, True, 2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_warm_start_begins_at_the_embedding_of_the_last_fit(monkeypatch):
    X = np.random.default_rng(0).normal(size=(12, 3))
    model = BayesianGPLVM(2, inducing=5, max_iter=3, tol=1e3, random_state=0, warm_start=True).fit(X)
    mean, std, mapping = model.embedding_, model.embedding_std_, model.mapping_
    starts = []

    def stop(_self, _Y, start, *, cold):
        starts.append((start, cold))
        raise KeyboardInterrupt

    monkeypatch.setattr(BayesianGPLVM, "_full_passes", stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    ((inputs, hyper), cold) = starts[0]
    assert not cold
    assert_array_equal(inputs.mu, mean)
    assert_allclose(inputs.s, std**2)
    assert hyper is mapping.hyper


def test_steps_follow_the_unit_of_each_coordinate():
    """A coordinate c times as large, with length-scale and posterior, is the same model with larger steps."""
    rng, c = np.random.default_rng(0), np.array([0.5, 0.1])
    mu, s, Z = rng.normal(size=(6, 2)), rng.uniform(0.1, 1.0, (6, 2)), rng.normal(size=(3, 2))
    log_w = np.array([0.1, 0.7])  # length-scales below 1, the standard deviation of the prior
    first = _Variables.from_start(Inputs(mu, s), LatentHyper(Z, log_w, 0.3, 1.0), 30)
    other = _Variables.from_start(Inputs(c * mu, c**2 * s), LatentHyper(c * Z, log_w - 2.0 * np.log(c), 0.3, 1.0), 30)
    ratio = np.split(other.unit / first.unit, first.cuts)
    for part in (0, 2, 6):  # means, inducing inputs, warps
        assert_allclose(ratio[part].reshape(-1, 2), np.broadcast_to(c, (ratio[part].size // 2, 2)))
    for part in (1, 3, 4, 5):
        assert_allclose(ratio[part], 1.0)
    assert_allclose(other.rows, first.rows, atol=1e-9)
