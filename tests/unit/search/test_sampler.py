"""Where a search tries next: the Gaussian process over its trials, what improvement is worth, and what is drawn."""

import datetime as dt
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skpref.search.loop import open_study
from skpref.search.policy import POLICY
from skpref.search.pruner import RacingPruner
from skpref.search.sampler import (
    ERROR,
    Surrogate,
    SurrogateSampler,
    UnitCube,
    _observe,
    learn_scales,
    log_expected_improvement,
    log_posterior,
    squared_differences,
)
from tests.examples import examples

optuna = pytest.importorskip("optuna")
dist = optuna.distributions

# ----------------------------------------------------------------------------------------------------- the surrogate


def tried(seed, n=15, d=3):
    """Settings of which the last is a choice, values, variances, and which are choices."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    X[:, -1] = rng.integers(0, 3, n)
    y = np.sin(3.0 * X[:, 0]) + 0.3 * X[:, -1] + 0.05 * rng.standard_normal(n)
    return X, y, 0.01 * rng.random(n), np.array([False] * (d - 1) + [True])


@given(seed=st.integers(0, 2**31))
@examples(20)
def test_gradient_of_the_log_posterior(seed):
    X, y, variances, choices = tried(seed)
    known = {
        "D": squared_differences(X, X, choices),
        "z": y,
        "variances": variances,
        "centre": np.zeros(5),
        "width": np.ones(5),
    }
    theta = 0.5 * np.random.default_rng(seed).standard_normal(5)
    _, gradient = log_posterior(theta, **known)
    steps = 1e-5 * np.eye(5)
    differences = [(log_posterior(theta + h, **known)[0] - log_posterior(theta - h, **known)[0]) / 2e-5 for h in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-4, atol=1e-4)


def fitted(X, y, variances, choices):
    return Surrogate(X, y, variances, choices, learn_scales(X, y, variances, choices), float(np.mean(y)))


def test_posterior_is_that_of_scikit_learn():
    X, y, variances, choices = tried(0)
    ours = fitted(X, y, variances, choices)
    # Two of three choices are at distance 1, as 0, 1 and 2 in two columns of one-hot code times the root of 1/2 are.
    theirs_of = [
        np.column_stack([at[:, :-1], np.sqrt(0.5) * np.eye(3)[at[:, -1].astype(int)]]) for at in (X, tried(1)[0])
    ]
    scales = 1.0 / np.sqrt(ours.scales.inverse_squares)
    kernel = ConstantKernel(ours.scales.scale) * Matern(np.append(scales[:-1], [scales[-1]] * 3), nu=2.5)
    theirs = GaussianProcessRegressor(kernel, alpha=variances + ours.scales.noise, optimizer=None)
    theirs.fit(theirs_of[0], y - ours.mean)
    mean, variance = ours.predict(tried(1)[0])
    expected, sd = theirs.predict(theirs_of[1], return_std=True)
    np.testing.assert_allclose(mean - ours.mean, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(variance - ours.scales.noise, sd**2, rtol=1e-6, atol=1e-9)


def test_hyper_parameters_are_a_mode_and_follow_units():
    X, y, variances, choices = tried(1)
    one = fitted(X, y, variances, choices)
    other = fitted(X, 1e3 * y + 7.0, 1e6 * variances, choices)
    at = tried(2)[0]
    np.testing.assert_allclose(other.predict(at)[0], 1e3 * one.predict(at)[0] + 7.0, rtol=1e-6)
    np.testing.assert_allclose(other.predict(at)[1], 1e6 * one.predict(at)[1], rtol=1e-6)
    z, unit, d = (y - y.mean()) / y.std(), y.std(), 3
    lengths, rest = one.scales.inverse_squares, np.array([one.scales.scale, one.scales.noise]) / unit**2
    theta = np.append(-0.5 * np.log(lengths), 0.5 * np.log(rest))
    prior = np.transpose([POLICY.length_prior] * d + [POLICY.scale_prior, POLICY.noise_prior])
    prior[0, :d] += 0.5 * np.log(d)
    at_mode = {"D": squared_differences(X, X, choices), "z": z, "variances": variances / unit**2}
    np.testing.assert_allclose(log_posterior(theta, **at_mode, centre=prior[0], width=prior[1])[1], 0.0, atol=0.02)
    # The setting that does nothing has the longest scale.
    assert one.scales.inverse_squares[1] == min(one.scales.inverse_squares)


def test_what_is_believed_is_certain_and_moves_no_mean():
    X, y, variances, choices = tried(3)
    model, at = fitted(X, y, variances, choices), tried(4)[0]
    with_expected = model.with_expected(at[:4])
    np.testing.assert_allclose(with_expected.predict(at)[0], model.predict(at)[0], rtol=1e-6)
    assert (with_expected.predict(at)[1][:4] < model.predict(at)[1][:4]).all()


@given(best=st.floats(-3, 3), mean=st.floats(-3, 3), sd=st.floats(0.3, 3.0))
@examples(50)
def test_expected_improvement_is_the_integral(best, mean, sd):
    value = log_expected_improvement(best, np.array([mean]), np.array([sd**2]))[0]

    def improved(s):  # by s standard deviations
        return s * np.exp(-0.5 * (s + (mean - best) / sd) ** 2)

    wanted = sd / np.sqrt(2.0 * np.pi) * integrate.quad(improved, 0.0, 30.0, epsabs=0.0, epsrel=1e-9, limit=200)[0]
    assert value == pytest.approx(np.log(wanted), abs=1e-6)


def test_expected_improvement_is_finite_however_far():
    means = np.append(np.linspace(-5.0, 50.0, 2001), [1e3, 1e5, 1e8])
    values = log_expected_improvement(0.0, means, np.ones(means.size))
    assert np.isfinite(values).all()
    assert (np.diff(values) < 0.0).all()


# ---------------------------------------------------------------------------------------------------------- the cube

RANGES = {
    "float": dist.FloatDistribution(-2.0, 3.0),
    "log": dist.FloatDistribution(1e-4, 10.0, log=True),
    "stepped": dist.FloatDistribution(0.0, 1.0, step=0.25),
    "int": dist.IntDistribution(-3, 4),
    "even": dist.IntDistribution(0, 10, step=2),
    "log int": dist.IntDistribution(1, 500, log=True),
    "choice": dist.CategoricalDistribution(["a", None, 3, True]),
}


@given(seed=st.integers(0, 2**31))
@examples(50)
def test_points_are_settings_and_settings_points(seed):
    cube, rng = UnitCube(RANGES), np.random.default_rng(seed)
    points = cube.from_uniform(rng.random((5, len(RANGES))))
    points = np.concatenate(
        [points, cube.neighbours(points, 0.3, rng), cube.from_uniform(np.array([[0.0], [1.0]]) * np.ones(7))]
    )
    for point in points:
        params = cube.params(point)
        for name, known in RANGES.items():
            assert known._contains(known.to_internal_repr(params[name])), name
        np.testing.assert_allclose(cube.points([params])[0], point, atol=1e-9)


def test_uniform_numbers_are_uniform_settings():
    cube = UnitCube(RANGES)
    points = cube.from_uniform(np.tile((np.arange(800) + 0.5)[:, None] / 800, len(RANGES)))
    found = [cube.params(point) for point in points]
    for name, n in (("stepped", 5), ("int", 8), ("even", 6), ("choice", 4)):
        counts = np.unique([repr(one[name]) for one in found], return_counts=True)[1]
        assert counts.size == n
        assert counts.max() - counts.min() <= 2
    assert np.median([one["log"] for one in found]) == pytest.approx(np.sqrt(1e-4 * 10.0), rel=1e-2)


# ------------------------------------------------------------------------------------------------------- the sampler


def bowl(trial):
    """The least value is 0, at x = 0.5, n = 7, "b"."""
    x = trial.suggest_float("x", -2.0, 2.0)
    n = trial.suggest_int("n", 1, 100, log=True)
    c = trial.suggest_categorical("c", ["a", "b", "c"])
    return (x - 0.5) ** 2 + 0.1 * np.log(n / 7) ** 2 + {"a": 0.3, "b": 0.0, "c": 0.1}[c]


def searched(seed, n, function=bowl, **options):
    study = open_study(None, seed=seed, **options)
    study.optimize(function, n_trials=n)
    return study


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_finds_more_than_trials_at_random(direction):
    sign = -1.0 if direction == "maximize" else 1.0

    def signed(trial):
        return sign * bowl(trial)

    ours = [sign * searched(seed, 20, signed, direction=direction).best_value for seed in range(3)]
    random = [
        sign * searched(seed, 60, signed, direction=direction, sampler=optuna.samplers.RandomSampler(seed)).best_value
        for seed in range(3)
    ]
    assert max(ours) < 0.02
    assert np.mean(ours) < 0.5 * np.mean(random)


def test_the_same_seed_and_trials_give_the_same_settings():
    whole = [trial.params for trial in searched(5, 14).trials]
    assert [trial.params for trial in searched(5, 14).trials] == whole
    assert [trial.params for trial in searched(6, 14).trials] != whole
    first = searched(5, 10)
    resumed = open_study(None, sampler=pickle.loads(pickle.dumps(SurrogateSampler(5))))
    for trial in first.trials:
        resumed.add_trial(trial)
    resumed.optimize(bowl, n_trials=4)
    assert [trial.params for trial in resumed.trials] == whole


def test_startup_is_spread_over_the_space():
    xs = np.array([trial.params["x"] for trial in searched(0, 8).trials])[1:]
    # Sobol points 1 to 7 of 8: no more than two in a quarter, where seven at random often are.
    assert np.histogram(xs, bins=4, range=(-2.0, 2.0))[0].max() <= 2


def test_a_small_space_is_tried_whole_before_anything_again():
    def function(trial):
        return trial.suggest_int("a", 0, 3) + trial.suggest_categorical("b", [0.0, 0.3, 0.6])

    study = open_study(None, seed=0)
    for a, b in ((0, 0.0), (1, 0.0), (2, 0.3), (3, 0.3), (0, 0.6), (1, 0.6), (2, 0.0), (3, 0.6)):
        study.enqueue_trial({"a": a, "b": b})
    study.optimize(function, n_trials=12)
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 12
    study.optimize(function, n_trials=1)  # there is nothing new; something is tried all the same


def test_what_is_nearly_the_same_is_not_tried_again():
    """The best is a corner, where all steps beyond the ends lead back to."""
    study = searched(0, 25, lambda trial: trial.suggest_float("x", 0.0, 1.0) + trial.suggest_float("y", 0.0, 1.0))
    points = np.array([list(trial.params.values()) for trial in study.trials[8:]])
    gaps = np.abs(points[:, None] - points[None]).max(axis=2)[np.triu_indices(len(points), 1)]
    assert gaps.min() > 0.009
    assert study.best_value < 0.02


def test_trials_on_their_way_are_not_tried_again():
    study = searched(0, 12)
    asked = [study.ask() for _ in range(4)]
    points = [tuple(bowl(one) and one.params.values()) for one in asked]
    assert len(set(points)) == 4


def test_what_a_killed_process_left_behind_is_forgotten():
    study = searched(0, 12)
    left = study.ask()
    bowl(left)
    long = max(trial.duration for trial in study.trials if trial.duration)
    trials = study.get_trials(deepcopy=True)
    cube = UnitCube(trials[0].distributions)
    assert len(_observe(trials, cube, 1.0).running) == 1
    trials[-1].datetime_start -= 11 * max(long, dt.timedelta(seconds=1))
    assert len(_observe(trials, cube, 1.0).running) == 0


def test_where_trials_fail_is_left_alone():
    def half(trial):
        value = bowl(trial)
        if trial.params["x"] > 0.0:
            trial.set_user_attr(ERROR, "too large")
            raise ValueError("too large")
        return value

    study = open_study(None, seed=1)
    study.optimize(half, n_trials=30, catch=(ValueError,))
    late = [trial.state.name for trial in study.trials[15:]]
    assert late.count("FAIL") <= len(late) // 3
    assert study.best_value < 0.5


def test_without_a_value_trials_stay_spread():
    def never(trial):
        bowl(trial)
        trial.set_user_attr(ERROR, "no")
        raise ValueError("no")

    study = open_study(None, seed=1)
    study.optimize(never, n_trials=12, catch=(ValueError,))
    assert len({trial.params.get("x") for trial in study.trials}) == 12


def test_given_up_trials_count_as_what_they_would_have_been():
    def folded(trial):
        value, folds = bowl(trial), 0.5 * np.sin(np.arange(1, 6))  # folds differ by more than most trials do
        means = np.cumsum(value + folds) / np.arange(1, 6)
        for k, mean in enumerate(means[:-1]):
            trial.report(mean, 4 * (k + 1))
            if trial.should_prune():
                raise optuna.TrialPruned
        return float(means[-1])

    study = open_study(None, seed=2, pruner=RacingPruner(4))
    study.optimize(folded, n_trials=25)
    states = [trial.state.name for trial in study.trials]
    assert states.count("PRUNED") >= 8
    assert study.best_value - 0.5 * np.mean(np.sin(np.arange(1, 6))) < 0.02


def test_by_the_second_cheap_trials_are_preferred():
    def drawn(*, per_second):
        study, rng = open_study(None, seed=0, per_second=per_second), np.random.default_rng(0)
        space = {"size": dist.FloatDistribution(0.0, 1.0), "x": dist.FloatDistribution(0.0, 1.0)}
        begin = optuna.trial.create_trial(value=0.0).datetime_start
        for _ in range(15):
            params = {"size": rng.random(), "x": rng.random()}
            trial = optuna.trial.create_trial(params=params, distributions=space, value=np.sin(6.0 * params["x"]))
            trial.datetime_start = begin
            trial.datetime_complete = begin + dt.timedelta(seconds=1.0 + 100.0 * params["size"])
            study.add_trial(trial)
        asked = [study.ask(space) for _ in range(6)]
        return float(np.mean([one.params["size"] for one in asked]))

    assert drawn(per_second=True) < 0.2 < drawn(per_second=False)


def test_settings_that_depend_on_others_are_drawn_within_their_range():
    def nested(trial):
        kind = trial.suggest_categorical("kind", ["plain", "scaled"])
        return 1.0 if kind == "plain" else (trial.suggest_float("scale", 1e-2, 1e2, log=True) - 1.0) ** 2

    study = searched(0, 20, nested)
    scales = [trial.params["scale"] for trial in study.trials if "scale" in trial.params]
    assert len(scales) > 5
    assert len(set(scales)) == len(scales)


def test_many_trials_cost_no_more_than_some():
    study, rng = open_study(None, seed=0), np.random.default_rng(0)
    space = {name: dist.FloatDistribution(0.0, 1.0) for name in ("x", "y")}
    for _ in range(600):
        x, y = rng.random(2)
        value = (x - 0.3) ** 2 + (y - 0.8) ** 2
        study.add_trial(optuna.trial.create_trial(params={"x": x, "y": y}, distributions=space, value=value))
    seen = _observe(study.get_trials(deepcopy=False), UnitCube(space), 1.0)
    assert seen is not None
    assert len(seen.y) == 200
    assert seen.y.min() == study.best_value
    found = study.ask(space).params
    assert np.hypot(found["x"] - 0.3, found["y"] - 0.8) < 0.05


# ------------------------------------------------------------------------------------------- what studies may bring
SPACE = {"x": dist.FloatDistribution(0.0, 1.0), "y": dist.FloatDistribution(0.0, 1.0)}
State = optuna.trial.TrialState


def told(values, looks=None, **options):
    """A study with complete trials, at settings at random."""
    study, rng = open_study(None, seed=0, **options), np.random.default_rng(0)
    for k, value in enumerate(values):
        params = dict(zip(SPACE, rng.random(2), strict=True))
        reports = {} if looks is None else {1: float(looks[k]), 2: float(value)}
        study.add_trial(
            optuna.trial.create_trial(
                params=params, distributions=SPACE, value=float(value), intermediate_values=reports
            )
        )
    return study


INF = float("inf")
TWELVE = np.linspace(1.0, 2.0, 12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("direction", ["minimize", "maximize"])
@pytest.mark.parametrize(
    "values",
    [
        np.ones(12),
        np.where(np.arange(12) == 3, 1e-300, 0.0),
        np.where(np.arange(12) < 9, 5e-324 * np.arange(12), 1.0),
        1e-310 * TWELVE,
        1e300 * TWELVE,
        1.7e308 * (-1.0) ** np.arange(12),
        *(np.where(np.arange(12) < n, odd, TWELVE) for n in (1, 8, 11, 12) for odd in (INF, -INF, 1e300, -1e300)),
    ],
)
def test_no_value_stops_a_search(values, direction):
    study = told(values, direction=direction)
    assert len({tuple(study.ask(SPACE).params.values()) for _ in range(2)}) == 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("look", [float("nan"), INF, -INF, 1e300])
def test_no_look_stops_a_search(look):
    study = told(TWELVE, np.where(np.arange(12) == 4, look, TWELVE))
    for own in (1.5, look):
        given_up = optuna.trial.create_trial(
            state=State.PRUNED, params={"x": 0.5, "y": 0.5}, distributions=SPACE, intermediate_values={1: own}
        )
        study.add_trial(given_up)
    assert len({tuple(study.ask(SPACE).params.values()) for _ in range(2)}) == 2


def test_what_was_given_up_is_never_the_best():
    """Its look is better than that of the best, which began slowly."""
    study = told(TWELVE, np.where(np.arange(12) == 0, 5.0, TWELVE))
    given_up = {"state": State.PRUNED, "params": {"x": 0.5, "y": 0.5}, "distributions": SPACE}
    study.add_trial(optuna.trial.create_trial(**given_up, intermediate_values={1: 4.0}))
    seen = _observe(study.get_trials(deepcopy=False), UnitCube(SPACE), 1.0)
    assert seen is not None
    assert seen.y[-1] == seen.y.min() == 1.0


@pytest.mark.parametrize("reports", [False, True])
def test_where_trials_are_given_up_without_comparison_is_left_alone(*, reports):
    def ruled_out(trial):
        x, y = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("y", 0.0, 1.0)
        if x < 0.5:
            if reports:
                trial.report(9.0, 1)
            raise optuna.TrialPruned
        return x + y

    study = searched(0, 30, ruled_out)
    assert [trial.state.name for trial in study.trials[10:]].count("PRUNED") <= 6
    assert study.best_value < 0.6


def test_a_range_may_change():
    """The best is outside the first range, and trials of the first are known at their places."""
    study = searched(0, 12, lambda trial: (trial.suggest_float("x", 0.0, 1.0) - 1.7) ** 2)
    study.optimize(lambda trial: (trial.suggest_float("x", 0.9, 3.0) - 1.7) ** 2, n_trials=8)
    assert study.best_value < 1e-3
    assert all(0.9 <= trial.params["x"] <= 3.0 for trial in study.trials[12:])


@pytest.mark.parametrize("other", [dist.FloatDistribution(-5.0, 5.0), dist.CategoricalDistribution([-1.0, 2.0])])
def test_failed_trials_of_another_space_do_no_harm(other):
    space = {"x": dist.FloatDistribution(0.1, 10.0, log=True)}
    study = open_study(None, seed=0)
    for x in np.linspace(0.2, 9.0, 10):
        study.add_trial(optuna.trial.create_trial(params={"x": x}, distributions=space, value=x))
    failed = {"state": State.FAIL, "user_attrs": {ERROR: "too small"}}
    study.add_trial(optuna.trial.create_trial(params={"x": -1.0}, distributions={"x": other}, **failed))
    assert 0.1 <= study.ask(space).params["x"] < 0.2


@pytest.mark.filterwarnings("ignore:Fixed parameter")
def test_settings_beyond_the_ends_may_be_enqueued():
    def function(trial):
        return abs(trial.suggest_float("x", 0.0, 1.0) - 0.7) + abs(trial.suggest_int("n", 1, 10) - 4)

    study = open_study(None, seed=0)
    study.enqueue_trial({"x": -5.0, "n": 10**6})
    study.enqueue_trial({"x": 1.01, "n": 4})
    study.optimize(function, n_trials=20)
    assert study.trials[0].params == {"x": -5.0, "n": 10**6}
    assert study.best_value < 0.05


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n_timed", [0, 1, 2])
def test_by_the_second_without_seconds(n_timed):
    study = open_study(None, seed=0, per_second=True)
    for k in range(12):  # trials that are brought from elsewhere end when they begin
        trial = optuna.trial.create_trial(params={"x": k / 12, "y": 0.5}, distributions=SPACE, value=float(k))
        if k >= 12 - n_timed:
            trial.datetime_complete = trial.datetime_start + dt.timedelta(seconds=1.0)
        study.add_trial(trial)
    assert study.ask(SPACE).params["x"] < 0.5


def test_what_is_behind_inside_a_fit_counts_as_much_as_it_came_to_in_others():
    study = open_study(None, direction="maximize")
    space, ends = {"x": dist.FloatDistribution(0.0, 1.0)}, np.linspace(0.0, 0.7, 8)
    for k, end in enumerate(ends):  # looks say thrice what folds do
        values = {1: -0.2 - 3.0 * end, 4: -end, 8: -end}
        whole = k < 3
        study.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState.COMPLETE if whole else optuna.trial.TrialState.PRUNED,
                value=-end if whole else None,
                params={"x": k / 8},
                distributions=space,
                intermediate_values=values if whole else {step: values[step] for step in (1, 4)},
            )
        )
    poor = optuna.trial.create_trial(
        state=optuna.trial.TrialState.PRUNED, params={"x": 1.0}, distributions=space, intermediate_values={1: -5.0}
    )
    study.add_trial(poor)
    seen = _observe(study.get_trials(deepcopy=False), UnitCube(space), -1.0)
    assert seen is not None
    np.testing.assert_allclose(seen.y, [*ends, 4.8 / 3.0], atol=1e-12)
    np.testing.assert_allclose(seen.variances, 0.0, atol=1e-12)
