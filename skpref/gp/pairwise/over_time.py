"""Utilities that move in time: dynamics, their choice by evidence, and predictions at any time (docs/maths 12)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._checks import check_arrays, check_positive, check_types, require
from skpref._math.threads import limit_blas_threads
from skpref._warn import warn
from skpref.data.records import make_frame
from skpref.data.stages import sizes_of, starts_of
from skpref.exceptions import DataError, DataWarning
from skpref.gp.pairwise.fit import PairFit, likelihood_of, root_mean_square
from skpref.gp.pairwise.posterior import PairPosterior
from skpref.inference.blocks import DenseBlock, DiagonalBlock
from skpref.inference.chains import (
    LOGS,
    ChainFit,
    ChainGroup,
    ChainProblem,
    Nodes,
    Trajectories,
    fit_chains,
    learn_chains,
    log_posterior,
    trajectories,
)
from skpref.inference.problem import State
from skpref.inference.scale import FixedScale

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray
    from skpref.data import Comparisons
    from skpref.gp.entities import Items
    from skpref.gp.pairwise.fit import PairConfig
    from skpref.inference.scale import Scale
    from skpref.likelihoods import Likelihood

__all__ = ["SkillDynamics", "UtilityCurves"]

# What moves, by name. Form is stationary with a length-scale, drift is a random walk from the start.
KINDS = {
    "constant": ("start",),
    "drift": ("start", "drift"),
    "form": ("start", "form", "length"),
    "drift+form": ("start", "form", "length", "drift"),
}
# Normal priors of logs, mean and standard deviation: of standard deviations in the noise of a logit, of lengths of time
# in spans of the comparisons, and of drifts over a span. So the unit of time changes nothing.
_ITEMS = {"start": (0.0, 1.0), "form": (-0.7, 1.0), "length": (-1.6, 1.5), "drift": (-0.35, 1.5)}
_EFFECTS = {"start": (0.0, 1.0), "drift": (-1.6, 1.0)}
_CAREER = {"drift": (-0.7, 1.0)}  # its effect at age 0 is 0: the start of the items says that
_AGES, _MOST_AGES = 200, 2_000  # ages that are told apart in a span, and at most
_LEAST_SPAN = 1e-100  # time between the first and the last comparison
_MAX_WEIGHT = 1e6  # weight of an answer beyond which rounding loses other answers
# Comparisons, and comparisons for each item, beyond which a random part finds the hyperparameters: it follows the same
# model.
_MANY, _MANY_EACH = 50_000, 10
_SEARCH_ITER = 40  # passes of a fit within the search for hyperparameters
_SEARCH_TOL = 1e-4
DYNAMICS = {"auto", *KINDS, *(f"{kind}+career" for kind in KINDS if kind != "constant")}


@dataclass(frozen=True, eq=False)
class SkillDynamics:
    """How utilities move, in the unit of the times: years where they are dates.

    Parameters
    ----------
    name : str
        "constant", "drift", "form" or "drift+form", with "+career" where there is a career curve.
    start_sd : float
        Standard deviation of utilities at an item's first comparison, without the form, in units of the answer noise.
    drift_sd : float
        Standard deviation of the random walk after one unit of time; it grows with the root of the time.
    form_sd : float
        Standard deviation of the form, which comes and goes.
    form_length : float
        Time in which the correlation of the form falls to 1/e; 0 without a form.
    career_sd : float
        Standard deviation, after one unit of time, of the career curve that all items share; 0 without one.
    effect_start_sd, effect_drift_sd : float
        The same of the effects of covariates and of the left side, as `start_sd` and `drift_sd`.
    log_posteriors : dict of str to float
        What was tried, with the bound on the log evidence plus the log prior of the hyperparameters, in nats.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref import GPPLClassifier
    >>> X = [["x", "y", 1], ["x", "y", 2], ["y", "x", 3], ["y", "x", 4]]
    >>> model = GPPLClassifier(time=2, dynamics="constant").fit(X, [1, 1, 1, 1])
    >>> model.dynamics_.name
    'constant'
    """

    name: str
    start_sd: float
    drift_sd: float
    form_sd: float
    form_length: float
    career_sd: float
    effect_start_sd: float
    effect_drift_sd: float
    log_posteriors: dict[str, float]

    def validate(self) -> None:
        """Raise DataError unless all numbers are at least 0."""
        require(self.name in DYNAMICS - {"auto"}, self, "name", f"must be one of {', '.join(sorted(DYNAMICS))}")
        check_positive(self, *(item.name for item in fields(self)[1:-1]), zero=True)
        check_types(self, log_posteriors=dict)


@dataclass(frozen=True, eq=False)
class MovingPosterior:
    """Posterior of utilities over time, and of effects that drift."""

    items: Trajectories  # with a node at each time of each compared item
    effects: Trajectories | None  # of covariates, in units of `covariate_scale`, then of the left side
    career: Trajectories | None  # over the time since an item's first comparison
    covariate_scale: Array  # (q,)
    has_order: bool
    is_dated: bool  # whether times are years since 1970

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        types = {"effects": Trajectories | None, "career": Trajectories | None, "has_order": bool, "is_dated": bool}
        check_types(self, items=Trajectories, **types)
        check_arrays(self, covariate_scale="q")
        check_positive(self, "covariate_scale")
        require((self.effects is None) == (not self.n_effects), self, "effects", f"must be of {self.n_effects} effects")
        for name, n in (("items", None), ("effects", self.n_effects), ("career", 1)):
            part = getattr(self, name)
            chains = np.zeros(0, dtype=np.int64) if part is None else np.unique(part.chain)
            whole = part is None or np.array_equal(chains, np.arange(n or max(chains.size, 1)))
            require(whole, self, name, "must have nodes of each chain")

    @property
    def n_effects(self) -> int:
        """Number of covariates, and one for the left side."""
        return int(self.covariate_scale.size) + int(self.has_order)

    @property
    def first(self) -> Array:
        """Time of the first comparison of each item, shape (n_items,)."""
        return self.items.first

    @property
    def end(self) -> float:
        """Time of the last comparison."""
        return float(self.items.time.max())

    def utility(self, position: IntArray, time: Array) -> tuple[Array, Array]:
        """Return means and variances of items at times, shape (n,); before its first comparison an item is as there."""
        mean, variance = np.zeros(position.size), np.full(position.size, self.items.prior_variance)
        seen, first = position >= 0, self.first
        item = position[seen]
        at = np.maximum(time[seen], first[item])
        mean[seen], variance[seen] = self.items.moments(item, at)
        if self.career is not None:
            of_age = self.career.moments(np.zeros(item.size, dtype=np.int64), at - first[item])
            mean[seen] += of_age[0]
            variance[seen] += of_age[1]
        return mean, variance

    def pairs(
        self, items: Items, left: IntArray, right: IntArray, time: Array, covariates: Array | None, *, order: bool
    ) -> tuple[Array, Array]:
        """Return posterior means and variances of the projections z of pairs at their times, shape (P,)."""
        n, same = left.size, left == right
        position = items.position[np.concatenate([left, right])]
        u, v = self.utility(position, np.concatenate([time, time]))
        mean, variance = u[:n] - u[n:], v[:n] + v[n:]
        if self.career is not None:  # which both sides share
            variance = np.maximum(variance - 2.0 * self._shared_career(position, time), 0.0)
        variance = np.where(same, 0.0, variance)
        columns = [] if covariates is None else list((covariates / self.covariate_scale).T)
        columns += [np.ones(n)] if order and self.has_order else []
        if self.effects is not None and columns:
            numbers = np.arange(self.n_effects)[-len(columns) :] if covariates is None else np.arange(len(columns))
            effect, spread = self._effects_at(np.repeat(numbers, n), np.tile(time, len(columns)))
            design = np.concatenate(columns)
            mean = mean + (design * effect).reshape(-1, n).sum(axis=0)
            variance = variance + (design**2 * spread).reshape(-1, n).sum(axis=0)
        return mean, variance

    def _effects_at(self, number: IntArray, time: Array) -> tuple[Array, Array]:
        """Return means and variances of effects at times; before the first comparison they are as there."""
        assert self.effects is not None  # noqa: S101 - type narrowing
        return self.effects.moments(number, np.maximum(time, self.effects.first[number]))

    def _shared_career(self, position: IntArray, time: Array) -> Array:
        """Return the covariance of the career curve at the ages of both sides of pairs, shape (P,)."""
        assert self.career is not None  # noqa: S101 - type narrowing
        seen = position >= 0
        first = np.where(seen, self.first[np.maximum(position, 0)], np.inf)
        age = np.where(seen, np.maximum(np.concatenate([time, time]) - first, 0.0), 0.0)
        step = max(float(self.career.time.max(initial=0.0)), np.finfo(float).tiny) / _AGES
        ages, place = np.unique(np.minimum(np.rint(age / step), _MOST_AGES), return_inverse=True)
        left, right = np.split(place, 2)
        return self.career.covariance(ages * step)[left, right]

    def snapshot(self, time: float, scales: dict[str, Scale]) -> PairPosterior:
        """Return the posterior of all items and effects at one time; items are independent given the comparisons."""
        n, numbers = self.items.n_chains, np.arange(self.n_effects)
        mean, variance = self.utility(np.arange(n), np.full(n, time))
        effect, spread = np.zeros(0), np.zeros(0)
        if self.effects is not None:
            effect, spread = self._effects_at(numbers, np.full(numbers.size, time))
        least = np.finfo(float).tiny  # of a variance that rounding may lose
        variance, half = np.maximum(variance, least), np.diag(np.sqrt(np.maximum(spread, least)))
        centre = float(mean.mean()), np.zeros(numbers.size)
        parts = True, self.has_order, scales, *centre, None, self.covariate_scale
        return PairPosterior(None, effect, half, mean, variance, *parts)


@dataclass(frozen=True, eq=False)
class UtilityCurves:
    """Utilities of items over time, one entry for each item and time.

    Parameters
    ----------
    id : ndarray of shape (n,)
        Ids of the items.
    time : ndarray of shape (n,)
        Times, as dates where those of `fit` are dates.
    utility : ndarray of shape (n,)
        Posterior mean, in units of the answer noise; the average over the compared items is 0 at each time.
    std : ndarray of shape (n,)
        Posterior standard deviation of the difference to that average.
    utility_low, utility_high : ndarray of shape (n,)
        Ends of the credible interval.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> X = [["x", "y", 1], ["x", "y", 2], ["y", "x", 3], ["y", "x", 4]]
    >>> model = GPPLClassifier(time=2, dynamics="drift").fit(X, [1, 1, 1, 1])
    >>> len(model.curves(["x"], times=[1, 2, 3, 4, 5]))
    5
    """

    id: Any
    time: Any
    utility: Array
    std: Array
    utility_low: Array
    utility_high: Array

    def to_frame(self) -> Any:
        """Return a data frame of pandas.

        Returns
        -------
        pandas.DataFrame
            One row for each item and time.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        return make_frame({item.name: getattr(self, item.name) for item in fields(self)})

    def __len__(self) -> int:
        """Number of items times the number of times."""
        return len(self.time)


@np.errstate(invalid="ignore", over="ignore")  # a posterior that is not finite is refused in words
def fit_over_time(
    c: Comparisons,
    config: PairConfig,
    dynamics: str,
    earlier: tuple[MovingPosterior, SkillDynamics] | None,
    rng: np.random.Generator,
    *,
    is_dated: bool,
) -> tuple[PairFit, MovingPosterior, SkillDynamics]:
    """Choose how utilities move, and infer them; the dynamics of an earlier fit stay."""
    assert c.time is not None  # noqa: S101 - type narrowing
    heaviest = float(c.weight.max(initial=0.0))
    if heaviest > _MAX_WEIGHT:
        raise DataError(
            f"sample_weight: the answers about a pair at one time weigh up to {heaviest:.3g} together, and with time "
            f"at most {_MAX_WEIGHT:.0e}. Divide the weights"
        )
    span = float(c.time.max() - c.time.min())
    if 0.0 < span < _LEAST_SPAN:
        raise DataError(f"the times differ by at most {span:g}: use a smaller unit")
    if span <= 0.0 and dynamics != "constant":
        warn("all comparisons have the same time, so that nothing can move: dynamics='constant' is fitted", DataWarning)
        dynamics = "constant"
    model = _Model(c, config, span if span > 0.0 else 1.0)
    with limit_blas_threads(0):
        schedule = config.schedule
        if earlier is None:
            start, tried = model.choose(dynamics, rng)
        else:
            start, tried = model.again(*earlier), earlier[1].log_posteriors
        choice, problem = start.choice, model.problem(start.choice)
        fit = fit_chains(
            problem,
            start.theta,
            max_iter=schedule.max_iter,
            tol=schedule.tol,
            start=start.fit,
            on_iteration=schedule.on_iteration,
        )
        if not np.isfinite(fit.bound):
            raise DataError("the posterior over time left floating point; use smaller weights")
        moving = model.posterior(choice, problem, fit, is_dated=is_dated)
        record = _record(choice, moving, tried)
        scales: dict[str, Scale] = {"offset": FixedScale(1.0 / moving.items.prior_variance)}
        snapshot = moving.snapshot(moving.end, scales)
    assert snapshot.offset_variance is not None  # noqa: S101 - type narrowing
    blocks: dict[str, Any] = {"offsets": DiagonalBlock.isotropic(1.0 / snapshot.offset_variance, snapshot.offset_mean)}
    if snapshot.mean.size:
        blocks["f"] = DenseBlock.isotropic(1.0 / np.square(np.diag(snapshot.half)), snapshot.mean)
    likelihood = fit.likelihood if c.stage is None else config.likelihood
    parts = likelihood, None, fit.bounds, fit.bound, fit.converged
    return PairFit(snapshot, State(blocks, scales), *parts), moving, record


@dataclass(frozen=True)
class _Choice:
    """What moves: the kind of the items' dynamics, and whether there is a career curve."""

    kind: str
    career: bool
    effects: bool

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups of chains."""
        return "items", *(["effects"] if self.effects else []), *(["career"] if self.career else [])

    def __str__(self) -> str:
        return self.kind + ("+career" if self.career else "")


class _Learnt(NamedTuple):
    """A choice with its hyperparameters."""

    choice: _Choice
    theta: Array  # their logs
    fit: ChainFit | None
    log_posterior: float


class _Model:
    """Comparisons over time as rows of chains."""

    def __init__(self, c: Comparisons, config: PairConfig, span: float, first: Array | None = None) -> None:
        """Lay out the rows; `first` has the items' first times where these are a part of all rows, shape (n_items,)."""
        assert c.time is not None  # noqa: S101 - type narrowing
        self.c, self.config, self.span = c, config, span
        n, time = c.n_items, c.time
        sides = np.concatenate([c.left, c.right])
        scale = np.ones(0) if c.covariates is None else root_mean_square(c.covariates, c.weight)
        self.covariate_scale = scale
        columns = [] if c.covariates is None else list((c.covariates / scale).T)
        self.columns = [*columns, *([np.ones(c.n_pairs)] if config.order else [])]
        self.nodes: dict[str, tuple[Nodes, list[IntArray]]] = {}
        nodes, place = Nodes.from_times(sides, np.tile(time, 2), n)
        self.nodes["items"] = nodes, np.split(place, 2)
        self.first = nodes.time[nodes.starts[:-1]] if first is None else first
        if self.columns:
            p = len(self.columns)
            nodes, place = Nodes.from_times(np.repeat(np.arange(p), c.n_pairs), np.tile(time, p), p)
            self.nodes["effects"] = nodes, np.split(place, p)
        age = np.rint((np.tile(time, 2) - self.first[sides]) * (_AGES / span)) * (span / _AGES)
        nodes, place = Nodes.from_times(np.zeros(age.size, dtype=np.int64), age, 1)
        self.nodes["career"] = nodes, np.split(place, 2)

    def problem(self, choice: _Choice) -> ChainProblem:
        """Return the rows of a choice."""
        groups, nodes, coefficients, start = [], [], [], 0
        one = np.ones(self.c.n_pairs)
        for name in choice.groups:
            held, places = self.nodes[name]
            groups.append(ChainGroup(held, self._priors(name, choice.kind)))
            nodes += [start + place for place in places]
            if name == "career":  # of equal ages, the curve cancels
                differs = (places[0] != places[1]).astype(np.float64)
                coefficients += [differs, -differs]
            else:
                coefficients += [one, -one] if name == "items" else self.columns
            start += held.size
        matrix = np.ascontiguousarray(np.column_stack(nodes)), np.ascontiguousarray(np.column_stack(coefficients))
        likelihood = likelihood_of(self.config, self.c)
        return ChainProblem(tuple(groups), *matrix, self.c.y, self.c.weight, likelihood, _units(self.c))

    def _priors(self, name: str, kind: str) -> dict[str, tuple[float, float]]:
        """Return the priors of logs in the unit of the times and of the answer noise."""
        table = {"items": _ITEMS, "effects": _EFFECTS, "career": _CAREER}[name]
        # Effects drift wherever utilities move.
        kept = KINDS[kind] if name == "items" or kind == "constant" else table
        used = {key: table[key] for key in kept if key in table}
        unit, span = float(np.log(noise_unit(self.config.likelihood))), float(np.log(self.span))
        shift = {"start": unit, "form": unit, "length": span, "drift": unit - 0.5 * span}
        return {key: (mean + shift[key], deviation) for key, (mean, deviation) in used.items()}

    def again(self, moving: MovingPosterior, record: SkillDynamics) -> _Learnt:
        """Return what moved in an earlier fit, with its hyperparameters."""
        choice, theta = _Choice(record.name.partition("+career")[0], moving.career is not None, bool(self.columns)), []
        for name in choice.groups:
            scales: Array = getattr(moving, name).scales
            kept = [LOGS.index(key) for key in self._priors(name, choice.kind)]
            theta.append(np.log(scales[kept]) / np.array([2.0, 2.0, 1.0, 2.0])[kept])
        return _Learnt(choice, np.concatenate(theta), None, 0.0)

    def choose(self, dynamics: str, rng: np.random.Generator) -> tuple[_Learnt, dict[str, float]]:
        """Return what moves with its hyperparameters, and the log posterior of each choice that was tried."""
        enough = max(_MANY, _MANY_EACH * self.c.n_items)
        if self.c.n_pairs > enough:
            part, items = self.c.sample(enough, rng).compact()
            best, tried = _Model(part, self.config, self.span, self.first[items]).choose(dynamics, rng)
            return best._replace(fit=None), tried
        kind, with_career, _ = dynamics.partition("+career")
        kinds = ("constant", "drift+form") if kind == "auto" else (kind,)
        found = [self._learnt(_Choice(one, bool(with_career), bool(self.columns))) for one in kinds]
        if dynamics == "auto":
            found.append(self._learnt(replace(found[-1].choice, career=True), found[-1].theta))
        best = max(found, key=lambda each: each.log_posterior)
        return best, {str(each.choice): each.log_posterior for each in found}

    def _learnt(self, choice: _Choice, start: Array | None = None) -> _Learnt:
        """Return a choice at its best hyperparameters; `start` has the logs of all groups but the last ones."""
        problem = self.problem(choice)
        theta, fit = problem.priors()[0], None
        if start is not None:
            theta[: start.size] = start
        if self.config.learn_length_scales:
            theta, fit = learn_chains(problem, theta, max_iter=_SEARCH_ITER, tol=_SEARCH_TOL)
        fit = fit_chains(problem, theta, max_iter=_SEARCH_ITER, tol=_SEARCH_TOL, start=fit)
        return _Learnt(choice, theta, fit, log_posterior(problem, fit))

    def posterior(self, choice: _Choice, problem: ChainProblem, fit: ChainFit, *, is_dated: bool) -> MovingPosterior:
        """Return the record for predictions."""
        parts = dict(zip(choice.groups, trajectories(problem, fit), strict=True))
        more = self.covariate_scale, self.config.order, is_dated
        return MovingPosterior(parts["items"], parts.get("effects"), parts.get("career"), *more)


def _units(c: Comparisons) -> IntArray:
    """Return the first row of each comparison; of choices, of each ranking, whose choices are among the same items."""
    if c.stage is None:
        return np.arange(c.n_pairs + 1)
    starts, found, known, at = starts_of(c.stage), list[int](), set[int](), np.nan
    time, left, right = np.asarray(c.time).tolist(), c.left.tolist(), c.right.tolist()
    for row, k in zip(starts[:-1].tolist(), sizes_of(starts).tolist(), strict=True):
        shown = {left[row], *right[row : row + k - 1]}
        if time[row] != at or not shown <= known:
            found.append(row)
            known, at = shown, time[row]
    return np.array([*found, c.n_pairs])


def noise_unit(likelihood: Likelihood) -> float:
    """Return the answer noise of a logit in units of the likelihood's noise, by slopes of probabilities at 0."""
    slope = float(likelihood.derivatives(np.ones(1), np.zeros(1))[1][0])
    return 0.5 / max(slope, np.finfo(float).tiny)


def _record(choice: _Choice, moving: MovingPosterior, tried: dict[str, float]) -> SkillDynamics:
    """Return what was learnt of the dynamics."""
    c2, g2, length, w2 = moving.items.scales.tolist()
    effects = np.zeros(4) if moving.effects is None else moving.effects.scales
    career = 0.0 if moving.career is None else float(np.sqrt(moving.career.scales[3]))
    return SkillDynamics(
        str(choice),
        start_sd=float(np.sqrt(c2)),
        drift_sd=float(np.sqrt(w2)),
        form_sd=float(np.sqrt(g2)),
        form_length=length if g2 else 0.0,
        career_sd=career,
        effect_start_sd=float(np.sqrt(effects[0])),
        effect_drift_sd=float(np.sqrt(effects[3])),
        log_posteriors=tried,
    )
