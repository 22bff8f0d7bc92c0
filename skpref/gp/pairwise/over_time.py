"""Utilities that move in time: dynamics, their choice by evidence, and predictions at any time (docs/maths 12)."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref import inducing
from skpref._checks import check_positive, check_types, require
from skpref._estimator import half_of_memory
from skpref._math.limits import LARGEST
from skpref._math.random import as_generator
from skpref._math.threads import limit_blas_threads
from skpref._warn import warn
from skpref.data.comparisons import sizes_of, starts_of
from skpref.data.records import ColumnRecord
from skpref.exceptions import DataError, DataWarning
from skpref.gp.capabilities import Capabilities, check_unchanged
from skpref.gp.pairwise.base import as_likelihood, check_features
from skpref.gp.pairwise.fit import (
    PairFit,
    choose_kernel,
    length_scale,
    likelihood_of,
    pair_model,
    start_kernel,
    typical_size,
)
from skpref.gp.pairwise.moving_posterior import FeaturePosterior, MovingPosterior
from skpref.gp.pairwise.policy import POLICY
from skpref.gp.pairwise.posterior import item_slots, join_equal, weighted_rows
from skpref.gp.pairwise.thresholds import TiesOfGroups
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock, DiagonalBlock
from skpref.inference.chain_groups import Levels
from skpref.inference.chains import (
    LOGS,
    ChainFit,
    ChainGroup,
    ChainProblem,
    Nodes,
    fit_chains,
    learn_chains,
    log_posterior,
)
from skpref.inference.problem import State
from skpref.inference.trajectories import trajectories
from skpref.likelihoods import PairwiseMargin, PairwiseProbit, PairwiseTies

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features, IntArray
    from skpref.data import Comparisons
    from skpref.gp.pairwise.fit import PairConfig, PairData
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.inference.trajectories import Trajectories
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
DYNAMICS = {"auto", *KINDS, *(f"{kind}+career" for kind in KINDS if kind != "constant")}
_MOVES = Capabilities(
    "models with time, groups, context or teams",
    {
        "inference": ("auto", "vb"),
        "optimizer": ("auto", None),
        "item_effects": (True,),
        "warm_start": (False,),
        "scale_prior": (None,),
        "checkpoint": (None,),
    },
    "fit without these",
)
STILL = Capabilities("models without time", {"dynamics": ("auto",)}, "name the column of times by time=")


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
        What was tried, with the bound on the log evidence plus the log prior of the hyperparameters, in nats. Where
        items have features, also without them, such as "drift+form, no features".
    feature_sd : float, default=0.0
        Standard deviation of the function of the items' features, which does not move; 0 without features.

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
    feature_sd: float = 0.0

    def validate(self) -> None:
        """Raise DataError unless all numbers are at least 0."""
        require(self.name in DYNAMICS - {"auto"}, self, "name", f"must be one of {', '.join(sorted(DYNAMICS))}")
        check_positive(self, *(item.name for item in fields(self) if item.name.endswith(("_sd", "_length"))), zero=True)
        check_types(self, log_posteriors=dict)


@dataclass(frozen=True, eq=False)
class UtilityCurves(ColumnRecord):
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


@dataclass(frozen=True)
class Movement:
    """What is to be learnt of how utilities move."""

    dynamics: str  # a name of `DYNAMICS`
    learn: bool  # whether hyperparameters are learnt
    kernel: Kernel | str | None  # of the function of features
    is_dated: bool
    earlier: tuple[MovingPosterior, SkillDynamics] | None  # a fit whose dynamics, hyperparameters and kernel stay
    widths: tuple[int, ...] = ()  # numbers of each kind of context


@np.errstate(invalid="ignore", over="ignore")  # a posterior that is not finite is refused in words
def infer_over_time(
    estimator: Any, data: PairData, config: PairConfig, widths: tuple[int, ...], *, is_dated: bool, resume: bool
) -> PairFit:
    """Fit to comparisons with times, and set the attributes of what moves; with `resume`, hyperparameters stay."""
    _MOVES.check(vars(estimator))
    check_features(estimator, data.X)
    earlier = _earlier(estimator, widths) if resume else None
    # Without a column of times, all comparisons of groups, context or teams have the time 0.
    dynamics = "constant" if estimator.time is None else estimator.dynamics
    movement = Movement(dynamics, estimator.optimizer is not None, estimator.kernel, is_dated, earlier, widths)
    found = fit_over_time(data, config, movement, as_generator(estimator.random_state))
    fit, estimator.moving_posterior_, estimator.dynamics_ = found
    groups = estimator.moving_posterior_.items.groups
    variances = np.zeros(0) if groups is None else groups.variances
    cuts = [variances.size - len(widths)]
    estimator.group_scales_, estimator.context_scales_ = np.split(variances, cuts)
    return fit


def _earlier(estimator: Any, widths: tuple[int, ...]) -> tuple[MovingPosterior, SkillDynamics] | None:
    """Return the fit whose dynamics stay; None where all its comparisons had one time, which says nothing."""
    moving, dynamics = estimator.moving_posterior_, estimator.dynamics_
    held, likelihood = moving.items.groups, estimator.likelihood_
    check_unchanged("context", [*widths], [] if held is None else held.widths.tolist())
    check_unchanged("team", estimator.team, "mean" if moving.team_mean else "sum")
    if estimator.likelihood != "auto":
        check_unchanged("likelihood", type(as_likelihood(estimator.likelihood)), type(likelihood))
    if estimator.dynamics != "auto":
        check_unchanged("dynamics", estimator.dynamics, dynamics.name)
    says_nothing = moving.end <= float(moving.first.min()) and estimator.time is not None
    return None if says_nothing else (moving, dynamics)


def fit_over_time(
    data: PairData, config: PairConfig, movement: Movement, rng: np.random.Generator
) -> tuple[PairFit, MovingPosterior, SkillDynamics]:
    """Choose how utilities move, and infer them; the dynamics of an earlier fit stay."""
    c, dynamics, earlier = data.comparisons, movement.dynamics, movement.earlier
    heaviest = float(c.weight.max(initial=0.0))
    if heaviest > POLICY.most_weight:
        raise DataError(
            f"sample_weight: the answers about a pair at one time weigh up to {heaviest:.3g} together, and with time "
            f"at most {POLICY.most_weight:.0e}. Divide the weights"
        )
    span = float(c.time.max() - c.time.min())
    if 0.0 < span < 1.0 / LARGEST:
        raise DataError(f"the times differ by at most {span:g}: use a smaller unit")
    if span <= 0.0 and dynamics != "constant":
        warn("all comparisons have the same time, so that nothing can move: dynamics='constant' is fitted", DataWarning)
        dynamics = "constant"
    schedule = config.schedule
    with limit_blas_threads(0):
        basis = None if data.X is None else _basis(data, config, movement, rng)
        phi = None if basis is None else basis.rows(data.X)
        config = replace(config, learn_length_scales=movement.learn)  # of the form, too
        model = _Model(c, config, span if span > 0.0 else 1.0, phi, movement.widths)
        if earlier is None:
            start, tried = model.featured(_search_rows(basis, data.X, phi, rng)).choose(dynamics, rng)
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
        moving = model.posterior(choice, problem, fit, basis, is_dated=movement.is_dated)
        record = _record(choice, moving, tried)
    likelihood = fit.likelihood if c.stage is None else config.likelihood
    likelihood = getattr(likelihood, "shared", likelihood)
    parts = likelihood, None if basis is None else basis.kernel, fit.bounds, fit.bound, fit.converged
    snapshot, state = end_posterior(moving)
    return PairFit(snapshot, state, *parts), moving, record


def refuse_earlier(moving: MovingPosterior, c: Comparisons, column: Any) -> None:
    """Refuse comparisons for a filter that are not in the order of time, or too heavy for it."""
    if (np.diff(c.time) < 0.0).any():
        row = int(np.argmax(np.diff(c.time) < 0.0)) + 1
        raise DataError(f"row {row} of X is earlier than the row before; sort X by {column!r}")
    last = np.full(c.n_items, -np.inf)
    last[: moving.items.n_chains] = moving.items.last
    early = c.time < np.where(c.players < 0, -np.inf, last[c.players]).max(axis=1)
    if early.any():
        raise DataError(
            f"row {int(np.argmax(early))} of X is earlier than the last comparison of one of its items, which "
            "update cannot take back; use partial_fit, which refits with all comparisons"
        )
    if c.weight.max(initial=0.0) > POLICY.most_filtered:
        most = f"{POLICY.most_filtered:g}"
        raise DataError(f"sample_weight is at most {most} in update; use partial_fit for heavier answers")


def end_posterior(moving: MovingPosterior) -> tuple[PairPosterior, State]:
    """Return the posterior at the last comparison, and as a state."""
    snapshot = moving.snapshot(moving.end)
    assert snapshot.offset_variance is not None  # noqa: S101 - type narrowing
    blocks: dict[str, Any] = {"offsets": DiagonalBlock.isotropic(1.0 / snapshot.offset_variance, snapshot.offset_mean)}
    if snapshot.mean.size:
        blocks["f"] = DenseBlock.isotropic(1.0 / np.square(np.diag(snapshot.half)), snapshot.mean)
    return snapshot, State(blocks, snapshot.scales)


def _basis(data: PairData, config: PairConfig, movement: Movement, rng: np.random.Generator) -> InducingBasis:
    """Return the basis of the function of features, with the kernel of a model of these data that does not move."""
    if movement.earlier is not None:
        features = movement.earlier[0].features
        assert features is not None  # noqa: S101 - the same items
        return features.basis
    c = data.comparisons
    most = max(POLICY.most_responses // c.n_pairs, POLICY.least_points)
    config = replace(config, n_inducing=min(config.n_inducing, most))
    start = start_kernel(data.X, movement.kernel, rng)
    model = pair_model(data, start, config, rng, None)
    # Pairs that choose a kernel are of single items; of teams, its length-scales are at their medians.
    basis = model.basis(choose_kernel(model, start, rng) if c.left.ndim == 1 else start)
    assert basis is not None  # noqa: S101 - items have features
    return basis


def _search_rows(basis: InducingBasis | None, X: Features, phi: Array | None, rng: np.random.Generator) -> Array | None:
    """Return the rows of a basis of few inducing points, for the search of hyperparameters."""
    if basis is None or basis.chol.shape[0] <= POLICY.moving_points:
        return phi
    points = inducing.choose(basis.points, POLICY.moving_points, "kmeans++", rng, length_scale(basis.kernel))
    return InducingBasis.from_points(basis.kernel, points).rows(X)


@dataclass(frozen=True)
class _Choice:
    """What moves: the kind of the items' dynamics, and whether there is a career curve."""

    kind: str
    career: bool
    effects: bool

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the chains that share hyperparameters."""
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

    def __init__(
        self,
        c: Comparisons,
        config: PairConfig,
        span: float,
        phi: Array | None,
        widths: tuple[int, ...],
        first: Array | None = None,
    ) -> None:
        """Lay out the rows; `first` has the items' first times where these are a part of all rows, shape (n_items,)."""
        self.c, self.config, self.span, self.phi, self.widths = c, config, span, phi, widths
        n, time = c.n_items, c.time
        ends, coefficient = item_slots(c.left, c.right, mean=config.team_mean)
        times = np.repeat(time, ends.shape[1])
        scale = np.ones(0) if c.covariates is None else typical_size(c.covariates, c.weight)
        self.covariate_scale = scale
        columns = [] if c.covariates is None else list((c.covariates / scale).T)
        columns = [*columns, *([np.ones(c.n_pairs)] if config.order else [])]
        self.slots = ends, coefficient
        self.rows: dict[str, tuple[Nodes, IntArray, Array]] = {}  # nodes, those of each row, and coefficients
        level = None if c.levels is None else np.repeat(c.levels, ends.shape[1], axis=0)
        part = None if level is None else np.unique(level, axis=0, return_inverse=True)[1].ravel()
        nodes, place = Nodes.from_times(ends.ravel(), times, n, part)
        self.levels = None
        if level is not None:
            of_node = np.empty((nodes.size, level.shape[1]))
            of_node[place] = level
            sizes = np.zeros(0, dtype=np.int64) if c.group is None else 1 + c.group.max(axis=0)
            _check_size_of_groups(int(sizes.sum()) + sum(widths), nodes.size, n)
            self.levels = Levels(nodes.chain, of_node, sizes, n, np.array(widths, dtype=np.int64))
        self.rows["items"] = nodes, place.reshape(ends.shape), coefficient
        self.first = nodes.time[nodes.starts[:-1]] if first is None else first
        if columns:
            p = len(columns)
            nodes, place = Nodes.from_times(np.tile(np.arange(p), c.n_pairs), np.repeat(time, p), p)
            self.rows["effects"] = nodes, place.reshape(-1, p), np.column_stack(columns)
        self.has_effects = bool(columns)
        age = np.rint((times - self.first[ends.ravel()]) * (POLICY.ages / span)) * (span / POLICY.ages)
        nodes, place = Nodes.from_times(np.zeros(age.size, dtype=np.int64), age, 1)
        place = place.reshape(ends.shape)
        self.rows["career"] = nodes, place, join_equal(place, coefficient)  # of equal ages, the curve cancels

    def featured(self, phi: Array | None) -> _Model:
        """Return the same rows with other features of the items."""
        other = copy(self)
        other.phi = phi
        return other

    def problem(self, choice: _Choice) -> ChainProblem:
        """Return the rows of a choice."""
        groups, nodes, coefficients, start = [], [], [], 0
        for name in choice.parts:
            held, place, coefficient = self.rows[name]
            levels = self.levels if name == "items" else None
            groups.append(ChainGroup(held, self._priors(name, choice.kind), levels))
            nodes.append(start + place)
            coefficients.append(coefficient)
            start += held.size
        matrix = np.ascontiguousarray(np.hstack(nodes)), np.ascontiguousarray(np.hstack(coefficients))
        likelihood: Any = likelihood_of(self.config, self.c)
        learns = isinstance(likelihood, PairwiseTies) and likelihood.learn
        if learns and self.levels is not None and self.c.group is not None:
            likelihood = TiesOfGroups.start(likelihood, self.c.group, self.levels.sizes)
        rows = tuple(groups), *matrix, self.c.y, self.c.weight, likelihood, _units(self.c)
        if self.phi is None:
            return ChainProblem(*rows)
        features = weighted_rows(self.phi, *self.slots)
        return ChainProblem(*rows, features, (float(np.log(noise_unit(self.config.likelihood))), 1.0))

    def _priors(self, name: str, kind: str) -> dict[str, tuple[float, float]]:
        """Return the priors of logs in the unit of the times and of the answer noise."""
        table = {"items": _ITEMS, "effects": _EFFECTS, "career": _CAREER}[name]
        # Effects drift wherever utilities move.
        kept = KINDS[kind] if name == "items" or kind == "constant" else table
        used = {key: table[key] for key in kept if key in table}
        unit, span = float(np.log(noise_unit(self.config.likelihood))), float(np.log(self.span))
        shift = {"start": unit, "form": unit, "length": span, "drift": unit - 0.5 * span}
        found = {key: (mean + shift[key], deviation) for key, (mean, deviation) in used.items()}
        if name == "items" and self.levels is not None:
            kinds = [POLICY.groups_prior] * self.levels.sizes.size
            # A vector of context makes as much difference as a number.
            mean, sd = POLICY.context_prior
            kinds += [(mean - 0.5 * float(np.log(width)), sd) for width in self.widths]
            found |= {f"group {kind}": (mean + unit, deviation) for kind, (mean, deviation) in enumerate(kinds)}
        return found

    def again(self, moving: MovingPosterior, record: SkillDynamics) -> _Learnt:
        """Return what moved in an earlier fit, with its hyperparameters."""
        choice, theta = _Choice(record.name.partition("+career")[0], moving.career is not None, self.has_effects), []
        for name in choice.parts:
            chains: Trajectories = getattr(moving, name)
            kept = [LOGS.index(key) for key in self._priors(name, choice.kind) if key in LOGS]
            theta.append(np.log(chains.scales[kept]) / np.array([2.0, 2.0, 1.0, 2.0])[kept])
            theta += [] if chains.groups is None else [0.5 * np.log(chains.groups.variances)]
        if moving.features is not None:
            theta.append(np.log([moving.features.sd]))
        return _Learnt(choice, np.concatenate(theta), None, 0.0)

    def choose(self, dynamics: str, rng: np.random.Generator) -> tuple[_Learnt, dict[str, float]]:
        """Return what moves with its hyperparameters, and the log posterior of each choice that was tried."""
        enough = POLICY.moving_pairs if self.phi is None else POLICY.moving_pairs // 5
        enough = max(enough, POLICY.moving_pairs_each * self.c.n_items)
        if self.c.n_pairs > enough:
            part, items = self.c.sample(enough, rng).compact()
            phi = None if self.phi is None else self.phi[items]
            few = _Model(part, self.config, self.span, phi, self.widths, self.first[items])
            best, tried = few.choose(dynamics, rng)
            return best._replace(fit=None), tried
        kind, with_career, _ = dynamics.partition("+career")
        kinds = ("constant", "drift+form") if kind == "auto" else (kind,)
        plain = self.featured(None)
        found = [plain.learnt(_Choice(one, bool(with_career), self.has_effects)) for one in kinds]
        if dynamics == "auto":
            found.append(plain.learnt(replace(found[-1].choice, career=True), found[-1].theta))
        tried = {str(each.choice): each.log_posterior for each in found}
        if self.phi is not None:
            without = {f"{name}, no features": value for name, value in tried.items()}
            found = [self.learnt(each.choice, each.theta) for each in found]
            tried = {str(each.choice): each.log_posterior for each in found} | without
        return max(found, key=lambda each: each.log_posterior), tried

    def learnt(self, choice: _Choice, start: Array | None = None) -> _Learnt:
        """Return a choice at its best hyperparameters; `start` has the logs of all groups but the last ones."""
        problem = self.problem(choice)
        theta, fit = problem.priors()[0], None
        if start is not None:
            theta[: start.size] = start
        if self.config.learn_length_scales:
            theta, fit = learn_chains(problem, theta, max_iter=POLICY.search_iterations, tol=POLICY.search_tol)
        fit = fit_chains(problem, theta, max_iter=POLICY.search_iterations, tol=POLICY.search_tol, start=fit)
        return _Learnt(choice, theta, fit, log_posterior(problem, fit))

    def posterior(
        self, choice: _Choice, problem: ChainProblem, fit: ChainFit, basis: InducingBasis | None, *, is_dated: bool
    ) -> MovingPosterior:
        """Return the record for predictions."""
        parts = dict(zip(choice.parts, trajectories(problem, fit), strict=True))
        more = self.covariate_scale, self.config.order, is_dated
        features = None
        if basis is not None and fit.features is not None and self.phi is not None:
            found = fit.features
            sd, average = float(found.precision**-0.5), self.phi.mean(axis=0)
            features = FeaturePosterior(basis, found.mean, np.ascontiguousarray(found.half), sd, average)
        rest = features, self.config.team_mean, getattr(fit.likelihood, "thresholds", None)
        return MovingPosterior(parts["items"], parts.get("effects"), parts.get("career"), *more, *rest)


def _check_size_of_groups(n_groups: int, n_nodes: int, n_items: int) -> None:
    """Refuse so many groups that their differences would not fit into memory, and warn of a long fit."""
    need, limit = 8.0 * n_groups * (6 * n_nodes + 3 * n_items * n_groups), half_of_memory()
    if need > limit:
        raise DataError(
            f"groups, context: {n_groups} groups of {n_items} items need {need / 1e9:.1f} GB, more than the "
            f"{limit / 1e9:.1f} GB allowed; name fewer columns, or columns with fewer groups"
        )
    if n_groups**3 * n_items > POLICY.slow_groups:
        warn(
            f"groups, context: differences between {n_groups} groups of {n_items} items take more than a minute. A "
            "column of many groups, such as prompts, can be `user` of CrowdGPPL."
        )


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
    likelihood = PairwiseProbit() if isinstance(likelihood, PairwiseMargin) else likelihood
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
        feature_sd=0.0 if moving.features is None else moving.features.sd,
        log_posteriors=tried,
    )
