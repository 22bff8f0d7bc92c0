"""A sampler for Optuna: the next setting by expected improvement under a Gaussian process over the trials so far.

From top to bottom: the sampler; what it knows of the trials, pruned ones included; the Gaussian process; settings as
points of a unit cube.
"""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import erfcx, ndtr
from scipy.stats import qmc

from skpref._math import linalg
from skpref._math.limits import LARGEST
from skpref._math.special import LOG_TWO_PI
from skpref._typing import Array, BoolArray
from skpref.inference.hyper import maximise
from skpref.search.policy import POLICY
from skpref.search.pruner import compare_with_best, sign_of

ERROR: Final = "skpref:error"  # attribute of a trial whose fit raised
_ENDED: Final = ("COMPLETE", "PRUNED")
_RELEARN: Final = {"value": 1.05, "seconds": 1.25}  # growth of the trials after which hyperparameters are learnt again
_TINY: Final = 1e-100  # number whose square is not yet 0
_ASYMPTOTIC: Final = -1.0  # standard deviations below which an improvement is taken by its asymptotic form


class SurrogateSampler:
    """Choose the settings with the largest expected improvement under a Gaussian process over the trials so far.

    A search of estimators has tens of trials, a handful of settings, and scores that change smoothly with most of them.
    There a joint model of all settings learns more from each trial than one model for each setting. The class has the
    interface of optuna's samplers without deriving from them, so that it can be pickled without optuna.

    The first eight trials are a scrambled Sobol sequence. After that, log(1 + (y - best) / (median - best)) of the
    losses y is modelled by an exact Gaussian process (Matern-5/2, one length-scale per setting, noise; hyperparameters
    at the mode of their posterior). Candidates for the largest expected improvement are random points and neighbours of
    the best. A pruned trial counts with the loss that it would have had at its end, extrapolated from the trials that
    went further; a failed trial counts as the worst loss; a running trial counts with its predicted loss. Settings that
    only some trials have are drawn at random.

    The same seed and the same trials give the same settings. Learnt hyperparameters are cached, and nothing else.
    """

    def __init__(self, seed: int | None = None, *, per_second: bool = False) -> None:
        self.per_second = per_second
        self._seed = int(np.random.SeedSequence(seed).generate_state(1)[0])
        self._learnt_scales: dict[str, tuple[Any, KernelScales]] = {}

    def reseed_rng(self) -> None:
        """Draw a new seed, for another process."""
        self._seed = int(np.random.SeedSequence().generate_state(1)[0])

    def before_trial(self, study: Any, trial: Any) -> None:
        """Do nothing."""

    def after_trial(self, study: Any, trial: Any, state: Any, values: Any) -> None:
        """Do nothing."""

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        """Return the settings that all ended trials have, each with its newest range."""
        del trial
        spaces = [ended.distributions for ended in study.get_trials(deepcopy=False) if ended.state.name in _ENDED]
        newest = sorted(spaces[-1].items()) if spaces else ()
        return {
            name: distribution
            for name, distribution in newest
            if not distribution.single()
            and all(name in space and _comparable(space[name], distribution) for space in spaces)
        }

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        """Draw one setting at random."""
        del study
        rng = np.random.default_rng((self._seed, trial.number, zlib.crc32(param_name.encode())))
        cube = UnitCube({param_name: param_distribution})
        return cube.params(cube.from_uniform(rng.random((1, 1)))[0])[param_name]

    def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
        """Choose settings."""
        if not search_space:
            return {}
        cube = UnitCube(search_space)
        observed = _observe(study.get_trials(deepcopy=False), cube, sign_of(study))
        if observed is None:
            sobol = qmc.Sobol(len(search_space), rng=np.random.default_rng(self._seed))
            return cube.params(cube.from_uniform(sobol.fast_forward(trial.number).random(1))[0])
        rng = np.random.default_rng((self._seed, trial.number))
        return cube.params(_most_promising(cube, observed, self._acquisition(cube, observed), rng))

    def _acquisition(self, cube: UnitCube, observed: _Observed) -> Callable[[Array], Array]:
        """Return the function that scores points: log expected improvement, per second if asked."""
        y, variances = _log_regret(observed)
        model = Surrogate(
            observed.X, y, variances, cube.choices, self._scales("value", cube, observed), float(np.mean(y))
        )
        if len(observed.running):
            model = model.with_expected(observed.running)
        if not self.per_second:
            return lambda X: log_expected_improvement(0.0, *model.predict(X))
        timed = observed.take(observed.seconds > 0.0)
        if len(timed.y) < POLICY.least_values:  # the clock is too coarse, or the trials were copied from another study
            return lambda X: log_expected_improvement(0.0, *model.predict(X))
        logs, scales = np.log(timed.seconds), self._scales("seconds", cube, timed)
        time = Surrogate(timed.X, logs, np.zeros(logs.size), cube.choices, scales, float(np.mean(logs)))
        return lambda X: log_expected_improvement(0.0, *model.predict(X)) - time.predict(X)[0]

    def _scales(self, what: str, cube: UnitCube, observed: _Observed) -> KernelScales:
        """Return hyperparameters learnt from the first trials; they are cached, since learning takes time."""
        first = observed.take(np.arange(len(observed.y)) < _n_learnt_from(len(observed.y), _RELEARN[what]))
        y, variances = _log_regret(first) if what == "value" else (np.log(first.seconds), np.zeros(len(first.y)))
        key = (first.X.tobytes(), y.tobytes(), variances.tobytes())
        cached = self._learnt_scales.get(what)
        if cached is None or cached[0] != key:  # read once: another thread may write in between
            cached = self._learnt_scales[what] = key, learn_scales(first.X, y, variances, cube.choices)
        return cached[1]


class _Observed(NamedTuple):
    """Trials so far, in their order."""

    X: Array  # (n, d): points
    y: Array  # (n,): losses
    variances: Array  # (n,): of extrapolated losses; 0 for measured ones
    seconds: Array  # (n,): time of a whole trial, or NaN
    running: Array  # (m, d): points of running trials

    def take(self, rows: BoolArray) -> _Observed:
        """Return some of the trials."""
        return _Observed(self.X[rows], self.y[rows], self.variances[rows], self.seconds[rows], self.running)


def _observe(trials: list[Any], cube: UnitCube, sign: float) -> _Observed | None:
    """Return the losses and times of trials by their settings; None if there are too few."""
    trials = [trial for trial in trials if _has_all(trial, cube.space)]
    n_steps = max((trial.last_step or 1 for trial in trials), default=1)
    pruned_at = {trial.last_step for trial in trials if trial.state.name == "PRUNED"}
    extrapolations = {step: _Extrapolation.from_trials(trials, step, sign) for step in pruned_at}
    losses_and_variances = [_loss(trial, extrapolations, sign) for trial in trials]
    loss = np.array([value for value, _ in losses_and_variances])
    loss[np.abs(loss) >= LARGEST] *= np.inf
    known, is_finite = np.count_nonzero(~np.isnan(loss)), np.isfinite(loss)
    if known < POLICY.startup_trials or np.count_nonzero(is_finite) < POLICY.least_values:
        return None
    finite = loss[is_finite]
    loss = np.clip(loss, np.min(finite), np.max(finite))
    seconds = [
        trial.duration.total_seconds() * n_steps / (trial.last_step or n_steps) if trial.duration else np.nan
        for trial in trials
    ]
    running = _is_running(trials)
    X, used = cube.points([trial.params for trial in trials]), np.flatnonzero(~np.isnan(loss))
    if used.size > POLICY.most_trials:  # the better half of so many, and the others evenly
        order = used[np.argsort(loss[used], kind="stable")]
        evenly = np.linspace(POLICY.most_trials // 2, used.size - 1, POLICY.most_trials // 2).astype(int)
        used = np.sort(order[np.append(np.arange(POLICY.most_trials // 2), evenly)])
    variances = np.array([variance for _, variance in losses_and_variances])
    return _Observed(X[used], loss[used], variances[used], np.array(seconds)[used], X[running])


def _is_running(trials: list[Any]) -> BoolArray:
    """Tell which trials are running; a trial that runs for too long belongs to a killed process."""
    longest = max((trial.duration.total_seconds() for trial in trials if trial.duration), default=np.inf)
    now = dt.datetime.now()  # noqa: DTZ005 - as optuna writes it

    def is_young(trial: Any) -> bool:
        begin = trial.datetime_start
        return begin is None or (now - begin).total_seconds() < POLICY.patience * max(longest, 1.0)

    return np.array([trial.state.name == "RUNNING" and is_young(trial) for trial in trials])


def _comparable(first: Any, second: Any) -> bool:
    """Tell whether values of one range have a place on the scale of another, perhaps beyond its ends."""
    if type(first) is not type(second):
        return False
    if hasattr(first, "choices"):  # optuna's own comparison handles NaN, and is slow
        return bool(first.choices == second.choices or first == second)
    return bool(first.log == second.log)


def _has_all(trial: Any, space: Mapping[str, Any]) -> bool:
    """Tell whether a trial has all settings of a space."""
    ranges = trial.distributions
    return all(name in ranges and _comparable(ranges[name], wanted) for name, wanted in space.items())


def _loss(trial: Any, extrapolations: Mapping[int | None, _Extrapolation | None], sign: float) -> tuple[float, float]:
    """Return the loss of a trial and its variance: infinity if it failed, NaN if it is not known."""
    state = trial.state.name
    if state == "COMPLETE":
        return sign * trial.value, 0.0
    if state == "PRUNED":
        return _extrapolated(trial, extrapolations[trial.last_step], sign)
    return (np.inf if state == "FAIL" and ERROR in trial.user_attrs else np.nan), 0.0


def _extrapolated(trial: Any, extrapolation: _Extrapolation | None, sign: float) -> tuple[float, float]:
    """Return mean and variance of the loss that a pruned trial would have had at its end.

    It is never better than the best trial, whose loss was measured. Where there is nothing to compare it with, it is
    infinite, or the setting would be tried again and again.
    """
    if extrapolation is None:
        return np.inf, 0.0
    gap = sign * trial.intermediate_values[trial.last_step] - extrapolation.here
    if np.isnan(gap):
        return np.inf, 0.0
    return extrapolation.end + extrapolation.slope * max(gap, 0.0), extrapolation.variance


class _Extrapolation(NamedTuple):
    """A line through the origin: from the gap to the best trial at a step to the gap at the end.

    Inside a fit gaps are often larger than at its end, so the slope is learnt from all trials that went further.
    """

    here: float  # loss of the best trial at the step
    end: float  # and at the end
    slope: float
    variance: float  # of the gaps around the line

    @classmethod
    def from_trials(cls, trials: list[Any], step: int, sign: float) -> _Extrapolation | None:
        """Learn the line from trials; None without a trial to compare with."""
        race = compare_with_best(trials, step, sign)
        if race is None:
            return None
        best = race.best.intermediate_values
        pairs = [
            (
                trial.intermediate_values[step] - best[step],
                trial.intermediate_values[trial.last_step] - best[trial.last_step],
            )
            for trial in trials
            if trial.number != race.best.number
            and step in trial.intermediate_values
            and trial.last_step > step
            and trial.last_step in best
        ]
        at, after = sign * np.array(pairs).reshape(-1, 2).T
        usable = np.maximum(np.abs(at), np.abs(after)) < LARGEST
        at, after = at[usable], after[usable]
        if np.max(np.abs(at), initial=0.0) < _TINY:
            return cls(race.here, race.end, 1.0, 0.0)
        slope = float(np.clip(at @ after / (at @ at), POLICY.least_slope, 1.0))
        return cls(race.here, race.end, slope, float(np.mean(np.square(after - slope * at))))


def _log_regret(observed: _Observed) -> tuple[Array, Array]:
    """Return losses and their variances on the modelled scale, on which the best is 0.

    Poor losses differ by much and good ones by little; on this scale the process learns from both.
    """
    gap = observed.y - np.min(observed.y)
    typical = float(np.median(gap))
    if typical <= 1e-12 * np.max(np.abs(observed.y)):  # most are as good as the best
        typical = float(np.max(gap)) or 1.0
    variances = observed.variances / np.square(np.maximum(typical + gap, _TINY))
    return np.log1p(gap / typical), np.minimum(variances, POLICY.vague)


def _n_learnt_from(n: int, growth: float) -> int:
    """Return the number of trials, of n, from which hyperparameters are learnt; it grows in steps."""
    size = POLICY.startup_trials
    while max(size + 1, int(growth * size)) <= n:
        size = max(size + 1, int(growth * size))
    return size


def _most_promising(
    cube: UnitCube, observed: _Observed, acquisition: Callable[[Array], Array], rng: np.random.Generator
) -> Array:
    """Return the new point of largest acquisition among random points and neighbours of the best, shape (d,)."""
    # To settings and back: an enqueued trial, or one of an earlier range, may lie outside the range.
    first = np.argsort(observed.y, kind="stable")[: POLICY.parents]
    best = cube.points([cube.params(point) for point in observed.X[first]])
    X = np.concatenate([cube.from_uniform(rng.random((POLICY.random_points, len(cube.space)))), best])
    values = acquisition(X)
    for width in POLICY.widths:
        parents = X[np.argsort(-values, kind="stable")[: POLICY.parents]]
        children = cube.neighbours(np.repeat(parents, POLICY.children, axis=0), width, rng)
        X, values = np.concatenate([X, children]), np.concatenate([values, acquisition(children)])
    tried = np.concatenate([observed.X, observed.running])
    new = cdist(X, tried, "chebyshev").min(axis=1) > POLICY.same
    # If everything was tried, as in a small space of choices, a setting is tried again.
    return X[np.argmax(np.where(new, values, -np.inf) if new.any() else values)]


# --------------------------------------------------------------------------------------------------- Gaussian process
class KernelScales(NamedTuple):
    """Hyperparameters of the process."""

    inverse_squares: Array  # (d,): 1 / l_j^2, with l_j the length-scale of a setting
    scale: float  # variance of the function
    noise: float  # variance of an observation


def learn_scales(X: Array, y: Array, variances: Array, choices: BoolArray) -> KernelScales:
    """Return the mode of the posterior of the hyperparameters."""
    d = X.shape[1]
    unit = float(np.std(y)) or 1.0
    z, extra, D = (y - np.mean(y)) / unit, variances / unit**2, squared_differences(X, X, choices)
    (length, sd), *others = POLICY.length_prior, POLICY.scale_prior, POLICY.noise_prior
    centre = np.append(np.full(d, length + 0.5 * np.log(d)), [mean for mean, _ in others])
    width = np.append(np.full(d, sd), [other for _, other in others])
    bounds = np.column_stack([centre - POLICY.prior_sds * width, centre + POLICY.prior_sds * width])
    posterior = partial(log_posterior, D=D, z=z, variances=extra, centre=centre, width=width)
    theta = maximise(posterior, centre, bounds, max_iter=30).theta
    s2, noise = unit**2 * np.exp(2.0 * theta[d:])
    return KernelScales(np.exp(-2.0 * theta[:d]), float(s2), float(noise))


@dataclass(frozen=True, eq=False)
class Surrogate:
    """Posterior of a function of settings in the unit cube: a radial Matern-5/2 kernel, noise, and a constant mean."""

    X: Array  # (n, d): tried settings; a number lies between 0 and 1, a choice is its place in the list
    y: Array  # (n,): values
    variances: Array  # (n,): of the values, in addition to the noise
    choices: BoolArray  # which are choices: two of them are equal or at distance 1
    scales: KernelScales  # hyper-parameters
    mean: float  # of the function
    _L: Array = field(init=False)
    _weights: Array = field(init=False)

    def __post_init__(self) -> None:
        L = linalg.cholesky(self._covariance(self.X) + np.diag(self.scales.noise + self.variances))
        object.__setattr__(self, "_L", L)
        object.__setattr__(self, "_weights", cho_solve((L, True), self.y - self.mean))

    def with_expected(self, X: Array) -> Surrogate:
        """Return the posterior with running trials added at their predicted means."""
        return replace(
            self,
            X=np.concatenate([self.X, X]),
            y=np.append(self.y, self.predict(X)[0]),
            variances=np.append(self.variances, np.zeros(len(X))),
        )

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return mean and variance of an observation at other settings, noise included, shapes (m,)."""
        K = self._covariance(X)
        A = solve_triangular(self._L, K, lower=True)
        variance = np.maximum(self.scales.scale - np.einsum("nm,nm->m", A, A), 0.0)
        return self.mean + K.T @ self._weights, variance + self.scales.noise

    def _covariance(self, X: Array) -> Array:
        numbers, by = ~self.choices, self.scales.inverse_squares
        width = np.sqrt(by[numbers])
        r2 = cdist(self.X[:, numbers] * width, X[:, numbers] * width, "sqeuclidean")
        for j in np.flatnonzero(self.choices):
            r2 += by[j] * (self.X[:, j, None] != X[None, :, j])
        return self.scales.scale * _matern(r2)[0]


def log_posterior(
    theta: Array, *, D: Array, z: Array, variances: Array, centre: Array, width: Array
) -> tuple[float, Array]:
    """Return the log posterior of log length-scales, scale and noise, up to a constant, and its gradient."""
    d = len(D)
    K, slope = _matern(np.tensordot(np.exp(-2.0 * theta[:d]), D, 1))
    s2, noise = np.exp(2.0 * theta[d:])
    L = linalg.cholesky(s2 * K + np.diag(noise + variances))
    a = cho_solve((L, True), z)
    W = np.outer(a, a) - cho_solve((L, True), np.eye(len(z)))
    by_length = -s2 * np.exp(-2.0 * theta[:d]) * np.tensordot(D, W * slope, 2)
    gradient = np.append(by_length, [s2 * np.sum(W * K), noise * np.trace(W)])
    off = (theta - centre) / width
    value = -0.5 * float(z @ a) - float(np.sum(np.log(np.diagonal(L)))) - 0.5 * float(off @ off)
    return value, gradient - off / width


def squared_differences(X: Array, Z: Array, choices: BoolArray) -> Array:
    """Return squared differences of points, setting by setting, shape (d, n, m); of choices, 0 or 1."""
    D = np.square(X.T[:, :, None] - Z.T[:, None, :])
    D[choices] = D[choices] > 0.0
    return D


def log_expected_improvement(best: float, mean: Array, variance: Array) -> Array:
    """Return log E max(best - y, 0) of normal y."""
    sd = np.sqrt(variance)
    u = (best - mean) / sd
    near = np.maximum(u, _ASYMPTOTIC)
    far = np.minimum(u, _ASYMPTOTIC)
    # phi(u) + u Phi(u) = phi(u) (1 - |u| m(|u|)) with Mills' ratio m; for large |u| the bracket is 1 / u^2 nearly.
    short = 1.0 + far * np.sqrt(0.5 * np.pi) * erfcx(-far / np.sqrt(2.0))
    bracket = np.where(far > -1e3, short, 1.0 / np.square(far))
    tail = -0.5 * (np.square(far) + LOG_TWO_PI) + np.log(bracket)
    body = np.log(np.exp(-0.5 * (np.square(near) + LOG_TWO_PI)) + near * ndtr(near))
    return np.where(u > _ASYMPTOTIC, body, tail) + np.log(sd)


def _matern(r2: Array) -> tuple[Array, Array]:
    """Matern-5/2 of squared distances over squared length-scales, and its derivative by them."""
    r = np.sqrt(5.0 * r2)
    fall = np.exp(-r)
    return (1.0 + r + r * r / 3.0) * fall, -5.0 / 6.0 * (1.0 + r) * fall


# -------------------------------------------------------------------------------------------------- settings as points
class UnitCube:
    """A space of independent settings as points of a unit cube; the coordinate of a choice is its place in the list."""

    def __init__(self, space: Mapping[str, Any]) -> None:
        self.space = space
        self._sizes = np.array([len(getattr(distribution, "choices", ())) for distribution in space.values()])
        self.choices: BoolArray = self._sizes > 0

    def points(self, settings: Sequence[Mapping[str, Any]]) -> Array:
        """Return settings as points, shape (n, d)."""
        columns = []
        for name, distribution in self.space.items():
            values = [distribution.to_internal_repr(setting[name]) for setting in settings]
            columns.append(_place_of(distribution, np.array(values, dtype=np.float64)))
        return np.stack(columns, axis=1)

    def params(self, point: Array) -> dict[str, Any]:
        """Return a point as settings."""
        pairs = zip(self.space.items(), point, strict=True)
        return {name: own.to_external_repr(_value_at(own, np.array(place)).item()) for (name, own), place in pairs}

    def from_uniform(self, u: Array) -> Array:
        """Return the points of the space for uniform numbers, shape (n, d)."""
        return self._snap(self._spread(u))

    def neighbours(self, points: Array, width: float, rng: np.random.Generator) -> Array:
        """Draw a neighbour of each point, which differs in about half of the settings, shape (n, d)."""
        moved = np.clip(points + width * rng.standard_normal(points.shape), 0.0, 1.0)
        others = self._spread(rng.random(points.shape))
        kept = rng.random(points.shape) < 0.5
        return np.where(kept, points, self._snap(np.where(self.choices, others, moved)))

    def _spread(self, u: Array) -> Array:
        """Return uniform numbers as coordinates, of choices as places, shape (n, d)."""
        return np.where(self.choices, np.floor(u * self._sizes), u)

    def _snap(self, points: Array) -> Array:
        """Return points moved to the nearest values that settings can have, shape (n, d)."""
        columns = zip(self.space.values(), points.T, strict=True)
        return np.stack([_place_of(own, _value_at(own, column)) for own, column in columns], axis=1)


def _ends(distribution: Any) -> tuple[float, float]:
    """Return both ends of a range on its own scale (log or not), half a step beyond for ranges with steps."""
    half = 0.5 * (distribution.step or 0.0)
    # On a log scale optuna's step is 1 for integers and None for floats.
    ends = (distribution.low - half, distribution.high + half)
    return (float(np.log(ends[0])), float(np.log(ends[1]))) if distribution.log else (float(ends[0]), float(ends[1]))


def _place_of(distribution: Any, value: Array) -> Array:
    """Return the coordinates of values in optuna's internal form."""
    if hasattr(distribution, "choices"):
        return value
    low, high = _ends(distribution)
    coordinate = np.log(value) if distribution.log else value
    return np.round((coordinate - low) / (high - low), 12)  # does not depend on how it was computed


def _value_at(distribution: Any, place: Array) -> Array:
    """Return the nearest values to coordinates."""
    if hasattr(distribution, "choices"):
        return np.clip(place, 0, len(distribution.choices) - 1)
    low, high = _ends(distribution)
    coordinate = low + (high - low) * place
    value = np.exp(coordinate) if distribution.log else coordinate
    if distribution.step:
        value = distribution.low + distribution.step * np.round((value - distribution.low) / distribution.step)
    return np.clip(value, distribution.low, distribution.high)
