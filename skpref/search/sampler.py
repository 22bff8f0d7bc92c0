"""Where to try next: settings from a Gaussian process over the trials so far."""

from __future__ import annotations

import datetime as dt
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import qmc

from skpref.search._cube import Cube
from skpref.search._surrogate import Scales, Surrogate, learnt, log_expected_improvement
from skpref.search.pruner import LARGE, against_best, sign_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skpref._typing import Array, BoolArray

ERROR: Final = "skpref:error"  # attribute of a trial that failed by itself
_FINISHED: Final = ("COMPLETE", "PRUNED")
_STARTUP: Final = 8  # trials spread over the space, before there is something to go by
_FEWEST: Final = 2  # trials with a value
_MOST: Final = 200  # trials that the process is of: the better half of them, and others
_MORE: Final = {
    "value": 1.05,
    "seconds": 1.25,
}  # trials, as many times as before, after which they are learnt from anew
_DRAWN: Final = 512  # points at random among which the next is looked for
_PARENTS: Final = 16  # points around which it is looked for, too
_CHILDREN: Final = 16  # neighbours of each
_WIDTHS: Final = (0.2, 0.05, 0.02)  # how far they are: a round each
_SAME: Final = 0.01  # of each range, within which settings count as tried
_ROUNDING: Final = 1e-12  # of the largest value: differences that are no measure of what differs
_TINY: Final = 1e-100  # whose square is still a number
_LEAST: Final = 0.1  # of a difference that remains: what was behind is to count as such
_GONE: Final = 10.0  # times as long as any trial took: what has been on its way for longer was killed
_VAGUE: Final = 100.0  # variance of a logarithm of which nothing is known; more would only upset the arithmetic


class SurrogateSampler:
    """Choose settings by what they can be expected to improve, under a Gaussian process over the trials so far.

    A search of estimators is of tens of trials, of a handful of settings, and of scores that change smoothly with most
    of them: there, a model of all settings together learns more from each trial than one of each setting by itself.
    It is optuna's sampler in all that is asked of one, but not by class, to be pickled without optuna.

    Trials that were given up are values, too: where they would have ended, by their difference to the best trial at the
    same step, and by what became of such differences in trials that came further. Trials that failed in a search of
    ours count as the worst that is known, those on their way in other processes as what is expected of them.

    The same seed and the same trials give the same settings: no state is kept between trials.

    The first eight trials are spread by a scrambled Sobol sequence. Then log(1 + (y - best) / (median - best)) of the
    values y is given to an exact Gaussian process (Matern-5/2, a length-scale a setting, noise; hyper-parameters are
    the mode of their posterior), and the settings of largest expected improvement [1]_ are looked for at random and
    around the best. Noise counts as improvement, since a trial's own score is what is compared. Settings that depend on
    others, which not all trials have, are drawn at random.
    """

    def __init__(self, seed: int | None = None, *, per_second: bool = False) -> None:
        self.per_second = per_second
        self._seed = int(np.random.SeedSequence(seed).generate_state(1)[0])
        self._kept: dict[str, tuple[Any, Scales]] = {}

    def reseed_rng(self) -> None:
        """Take another seed, as for another process."""
        self._seed = int(np.random.SeedSequence().generate_state(1)[0])

    def before_trial(self, study: Any, trial: Any) -> None:
        """Do nothing."""

    def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
        """Do nothing."""

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        """Return the settings that all finished trials have, with the newest range where it was changed."""
        del trial
        spaces = [one.distributions for one in study.get_trials(deepcopy=False) if one.state.name in _FINISHED]
        newest = sorted(spaces[-1].items()) if spaces else ()
        return {
            name: known
            for name, known in newest
            if not known.single() and all(name in one and _alike(one[name], known) for one in spaces)
        }

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        """Draw one setting at random."""
        del study
        rng = np.random.default_rng((self._seed, trial.number, zlib.crc32(param_name.encode())))
        cube = Cube({param_name: param_distribution})
        return cube.params(cube.spread(rng.random((1, 1)))[0])[param_name]

    def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
        """Choose settings."""
        if not search_space:
            return {}
        cube = Cube(search_space)
        seen = _seen(study.get_trials(deepcopy=False), cube, sign_of(study))
        if seen is None:
            sobol = qmc.Sobol(len(search_space), rng=np.random.default_rng(self._seed))
            return cube.params(cube.spread(sobol.fast_forward(trial.number).random(1))[0])
        rng = np.random.default_rng((self._seed, trial.number))
        return cube.params(_best(cube, seen, self._worth(cube, seen), rng))

    def _worth(self, cube: Cube, seen: _Seen) -> Callable[[Array], Array]:
        """What a trial at each of some points is worth: log expected improvement, perhaps by the second."""
        y, variances = _relative(seen)
        model = Surrogate(seen.X, y, variances, cube.choices, self._scales("value", cube, seen), float(np.mean(y)))
        if len(seen.running):
            model = model.believing(seen.running)
        if not self.per_second:
            return lambda X: log_expected_improvement(0.0, *model.predict(X))
        timed = seen.of(seen.seconds > 0.0)
        if len(timed.y) < _FEWEST:  # a clock too coarse, or trials that were brought from elsewhere
            return lambda X: log_expected_improvement(0.0, *model.predict(X))
        logs, scales = np.log(timed.seconds), self._scales("seconds", cube, timed)
        time = Surrogate(timed.X, logs, np.zeros(logs.size), cube.choices, scales, float(np.mean(logs)))
        return lambda X: log_expected_improvement(0.0, *model.predict(X)) - time.predict(X)[0]

    def _scales(self, what: str, cube: Cube, seen: _Seen) -> Scales:
        """Hyper-parameters, as learnt from the first trials; kept, since that takes time."""
        first = seen.of(np.arange(len(seen.y)) < _learnt_from(len(seen.y), _MORE[what]))
        y, variances = _relative(first) if what == "value" else (np.log(first.seconds), np.zeros(len(first.y)))
        key = (first.X.tobytes(), y.tobytes(), variances.tobytes())
        kept = self._kept.get(what)
        if kept is None or kept[0] != key:  # looked up once: another thread may write in between
            kept = self._kept[what] = key, learnt(first.X, y, variances, cube.choices)
        return kept[1]


class _Seen(NamedTuple):
    """Trials so far, in their order."""

    X: Array  # points
    y: Array  # values, the less the better
    variances: Array  # of what is known of them
    seconds: Array  # that a whole trial takes, or NaN
    running: Array  # points of trials on their way

    def of(self, which: BoolArray) -> _Seen:
        return _Seen(self.X[which], self.y[which], self.variances[which], self.seconds[which], self.running)


def _seen(trials: list[Any], cube: Cube, sign: float) -> _Seen | None:
    """What can be learnt from trials; None where there are too few."""
    trials = [one for one in trials if _belongs(one, cube.space)]
    n_steps = max((one.last_step or 1 for one in trials), default=1)
    steps = {one.last_step for one in trials if one.state.name == "PRUNED"}
    races = {step: _Ending.of(trials, step, sign) for step in steps}
    values = [_value(one, races, sign) for one in trials]
    known = np.array([value for value, _ in values])
    known[np.abs(known) >= LARGE] *= np.inf
    if np.count_nonzero(~np.isnan(known)) < _STARTUP or np.count_nonzero(np.isfinite(known)) < _FEWEST:
        return None
    ends = known[np.isfinite(known)]
    known = np.clip(known, np.min(ends), np.max(ends))
    seconds = [
        one.duration.total_seconds() * n_steps / (one.last_step or n_steps) if one.duration else np.nan
        for one in trials
    ]
    running = _running(trials)
    X, kept = cube.points([one.params for one in trials]), np.flatnonzero(~np.isnan(known))
    if kept.size > _MOST:  # the better half of as many, and others evenly
        order = kept[np.argsort(known[kept], kind="stable")]
        spread = np.linspace(_MOST // 2, kept.size - 1, _MOST // 2).astype(int)
        kept = np.sort(order[np.append(np.arange(_MOST // 2), spread)])
    variances = np.array([variance for _, variance in values])
    return _Seen(X[kept], known[kept], variances[kept], np.array(seconds)[kept], X[running])


def _running(trials: list[Any]) -> BoolArray:
    """Which trials are on their way; a process that was killed leaves one behind that only seems to be."""
    longest = max((one.duration.total_seconds() for one in trials if one.duration), default=np.inf)
    now = dt.datetime.now()  # noqa: DTZ005 - as optuna writes it

    def is_young(trial: Any) -> bool:
        begin = trial.datetime_start
        return begin is None or (now - begin).total_seconds() < _GONE * max(longest, 1.0)

    return np.array([one.state.name == "RUNNING" and is_young(one) for one in trials])


def _alike(one: Any, other: Any) -> bool:
    """Whether values of one range have a place on the scale of another, perhaps beyond its ends."""
    if type(one) is not type(other):
        return False
    if hasattr(one, "choices"):  # optuna's own comparison knows NaN, and takes its time
        return bool(one.choices == other.choices or one == other)
    return bool(one.log == other.log)


def _belongs(trial: Any, space: Mapping[str, Any]) -> bool:
    """Whether a trial has all settings of a space; that failed trials were of the same space is not known before."""
    known = trial.distributions
    return all(name in known and _alike(known[name], wanted) for name, wanted in space.items())


def _value(trial: Any, races: Mapping[int | None, _Ending | None], sign: float) -> tuple[float, float]:
    """What is known of the value of a trial, and the variance of it: infinity where it failed, NaN where nothing is."""
    state = trial.state.name
    if state == "COMPLETE":
        return sign * trial.value, 0.0
    if state == "PRUNED":
        return _where_it_would_end(trial, races[trial.last_step], sign)
    return (np.inf if state == "FAIL" and ERROR in trial.user_attrs else np.nan), 0.0


def _where_it_would_end(trial: Any, ending: _Ending | None, sign: float) -> tuple[float, float]:
    """Mean and variance of the value that a trial would have had, if it had not been given up.

    It is never better than the best, which is to be something that was seen; and as poor as one that failed where there
    is nothing to compare it with, or it would be tried again and again.
    """
    if ending is None:
        return np.inf, 0.0
    behind = sign * trial.intermediate_values[trial.last_step] - ending.here
    if np.isnan(behind):
        return np.inf, 0.0
    return ending.end + ending.slope * max(behind, 0.0), ending.variance


class _Ending(NamedTuple):
    """What differences to the best trial at a step tell of those at the end: a line through the origin.

    Inside a fit, differences are often larger than they will be: the line is that of all trials that came further.
    """

    here: float  # the best at the step
    end: float  # and at its end
    slope: float
    variance: float  # around the line

    @classmethod
    def of(cls, trials: list[Any], step: int, sign: float) -> _Ending | None:
        race = against_best(trials, step, sign)
        if race is None:
            return None
        best = race.best.intermediate_values
        pairs = [
            (one.intermediate_values[step] - best[step], one.intermediate_values[one.last_step] - best[one.last_step])
            for one in trials
            if one.number != race.best.number
            and step in one.intermediate_values
            and one.last_step > step
            and one.last_step in best
        ]
        at, after = sign * np.array(pairs).reshape(-1, 2).T
        known = np.maximum(np.abs(at), np.abs(after)) < LARGE
        at, after = at[known], after[known]
        if np.max(np.abs(at), initial=0.0) < _TINY:
            return cls(race.here, race.end, 1.0, 0.0)
        slope = float(np.clip(at @ after / (at @ at), _LEAST, 1.0))
        return cls(race.here, race.end, slope, float(np.mean(np.square(after - slope * at))))


def _relative(seen: _Seen) -> tuple[Array, Array]:
    """Values and their variances on the scale that is modelled: the best is 0.

    Most of what is poor differs by much, and most of what is good by little; both are to be learnt from.
    """
    behind = seen.y - np.min(seen.y)
    usual = float(np.median(behind))
    if usual <= _ROUNDING * np.max(np.abs(seen.y)):  # most are as good as the best
        usual = float(np.max(behind)) or 1.0
    variances = seen.variances / np.square(np.maximum(usual + behind, _TINY))
    return np.log1p(behind / usual), np.minimum(variances, _VAGUE)


def _learnt_from(n: int, more: float) -> int:
    """How many of n trials hyper-parameters are learnt from: all while they are few, then now and then."""
    known = _STARTUP
    while max(known + 1, int(more * known)) <= n:
        known = max(known + 1, int(more * known))
    return known


def _best(cube: Cube, seen: _Seen, worth: Callable[[Array], Array], rng: np.random.Generator) -> Array:
    """The point that is worth most, of many at random and around the best, and that was not tried yet."""
    # There and back, since what was tried may be beyond the ends: enqueued, or of a range that was changed.
    best = cube.points([cube.params(point) for point in seen.X[np.argsort(seen.y, kind="stable")[:_PARENTS]]])
    X = np.concatenate([cube.spread(rng.random((_DRAWN, len(cube.space)))), best])
    values = worth(X)
    for width in _WIDTHS:
        parents = X[np.argsort(-values, kind="stable")[:_PARENTS]]
        children = cube.around(np.repeat(parents, _CHILDREN, axis=0), width, rng)
        X, values = np.concatenate([X, children]), np.concatenate([values, worth(children)])
    tried = np.concatenate([seen.X, seen.running])
    new = cdist(X, tried, "chebyshev").min(axis=1) > _SAME
    # Where all settings were tried, as in a small space of choices, one of them has to be tried again.
    return X[np.argmax(np.where(new, values, -np.inf) if new.any() else values)]
