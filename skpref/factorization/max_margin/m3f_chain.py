"""From ratings to chains of factors and thresholds (docs/maths section 8)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._compiled.m3f import Model, Name, Rows, Thresholds, draw_rows, hinge_losses, portions, scores
from skpref._compiled.streams import normal_rows
from skpref.exceptions import DataError
from skpref.inference.gibbs import Chain, Info, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from skpref._typing import Array
    from skpref.data.ratings import ByRow, Ratings
    from skpref.inference.gibbs import Plan, State, Step

# Kinds of rows, which name their random streams.
ITEMS, USERS, _THRESHOLDS, FIRST_ITEMS, FIRST_USERS = range(1, 6)
FOLLOWING = 3  # sweeps of new users for each sample of the items: their chain starts near its end


@dataclass(frozen=True, eq=False)
class Prior:
    """What is known before any rating."""

    sigma: float  # standard deviation of the factors
    rho: Array  # (L - 1,): means of the thresholds
    varsigma: float  # standard deviation of the thresholds
    own: bool  # whether each user has thresholds of their own


@dataclass(frozen=True, eq=False)
class Problem:
    """Ratings and model."""

    users: Rows  # ratings by user and by item
    items: Rows  # ratings by user and by item
    prior: Prior  # prior
    n_factors: int  # k
    margin: float  # the margin l
    dtype: Any  # of the sums over ratings

    @property
    def model(self) -> Model:
        """What the compiled passes need."""
        return Model(self.margin, self.prior.sigma**-2, self.dtype)

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(self.users.start.size) - 1

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.items.start.size) - 1


def problem_of(ratings: Ratings, cost: float, prior: Prior, n_factors: int, margin: float, dtype: Any) -> Problem:
    """Put merged ratings in the two orders that the passes read."""
    users, items = (rows_of(view, cost, n_factors) for view in (ratings.by_user(), ratings.by_item()))
    return Problem(users, items, prior, n_factors, margin, np.dtype(dtype))


def rows_of(view: ByRow, cost: float, n_factors: int) -> Rows:
    """Put ratings in the form that the passes read."""
    weight = view.weight
    alike = not weight.size or bool((weight == weight[0]).all())
    dear = cost * (weight[:1] if alike and weight.size else weight)
    dear = dear if dear.size else np.array([cost])
    return Rows(view.start, view.column, view.level, dear, portions(view.start, n_factors))


def start_state(problem: Problem, seed: int, state: State | None = None) -> State:
    """Draw from the prior what an earlier state does not say."""
    prior, width = problem.prior, problem.n_factors
    shared = 1 if not prior.own else problem.n_users

    def drawn(kind: int, n: int, width: int) -> Array:
        return normal_rows(seed, 0, kind, np.arange(n), width)

    fresh = {
        "users": prior.sigma * drawn(FIRST_USERS, problem.n_users, width),
        "items": prior.sigma * drawn(FIRST_ITEMS, problem.n_items, width),
        # At their means: crossed thresholds take a chain some sweeps to untangle.
        "thresholds": np.tile(prior.rho, (shared, 1)),
    }
    if state is not None:
        for name, value in fresh.items():
            value[: len(state[name])] = state[name]
    return {**fresh, "seed": np.array(seed, dtype=np.uint64)}


def step_of(problem: Problem, *, fixed_items: bool = False) -> Step:
    """Return the sweep of a chain."""
    prior, model, own = problem.prior, problem.model, problem.prior.own

    def sweep(state: State, number: int) -> tuple[State, Info]:
        seed = int(state["seed"])
        users, items, theta = state["users"].copy(), state["items"].copy(), state["thresholds"]
        if not fixed_items:
            by_column = Thresholds(theta, "column" if own else "all")
            well, _ = draw_rows(problem.items, items, users, by_column, model, Name(seed, number, ITEMS))
            require_finite(well, number)
        by_row = Thresholds(theta, "row" if own else "all")
        well, sums = draw_rows(problem.users, users, items, by_row, model, Name(seed, number, USERS), with_sums=True)
        require_finite(well, number)
        if own or not fixed_items:
            precision, linear = (part if own else part.sum(axis=0, keepdims=True) for part in sums[:2])
            theta = draw_thresholds(precision, linear, prior, seed, number)
        state = {"users": users, "items": items, "thresholds": theta, "seed": state["seed"]}
        loss = float(hinge_losses(problem.users, sums.score, theta, problem.margin).sum())
        risk = loss + penalty(state, prior)
        require_finite(bool(np.isfinite(risk)), number)
        # Means of the conditionals could be averaged in the place of draws: measured on MovieLens, it gains nothing.
        estimate = {name: value for name, value in state.items() if name != "seed"}
        return state, Info(-risk, {"risk": risk}, estimate)

    return sweep


class Folding(NamedTuple):
    """How new users are added to a chain."""

    # (state of all that is fixed, where the new users stood or None) -> their state
    begin: Callable[[State, State | None], State]
    step: Step  # their sweep
    join: Callable[[State, State], State]  # (state of the old users, of the new users) -> of both
    following: int  # sweeps for each sample of what is fixed


def folding_of(problem: Problem, seed: int) -> Folding:
    """Return how new users are added with the items as they are."""
    own = problem.prior.own
    fixed = ("items",) if own else ("items", "thresholds")

    def begin(source: State, before: State | None) -> State:
        state = start_state(problem, seed) if before is None else before
        return {**state, **{name: source[name].astype(np.float64) for name in fixed}}

    return Folding(begin, step_of(problem, fixed_items=True), lambda old, new: with_users(old, new, own=own), FOLLOWING)


def folded(chain: Chain, way: Folding, plan: Plan) -> Chain:
    """Add new users to a chain.

    Their conditionals are sampled with the averages of what is fixed, and then once more along the samples kept.
    """
    assert chain.average is not None  # noqa: S101 - estimators fold into chains that were run
    (end,) = run([Chain(way.begin(chain.average, None), chain.sweep)], lambda _: way.step, plan)
    assert end.average is not None  # noqa: S101 - n_sweeps > burn_in
    state, sweep, followed = end.state, end.sweep, []
    for sample in (*chain.samples, chain.state):
        state = way.begin(sample, state)
        for _ in range(way.following):
            sweep += 1
            state, _ = way.step(state, sweep)
        followed.append(way.join(sample, state))
    average = way.join(chain.average, end.average)
    return replace(chain, state=followed[-1], sweep=sweep, average=average, samples=tuple(followed[:-1]))


def with_users(state: State, new: State, *, own: bool) -> State:
    """Put new users behind those of a state."""
    mine = ("users", "thresholds") if own else ("users",)
    return {**state, **{name: np.concatenate([state[name], new[name].astype(state[name].dtype)]) for name in mine}}


def draw_thresholds(precision: Array, linear: Array, prior: Prior, seed: int, sweep: int) -> Array:
    """Draw thresholds given everything else, shape (n, L - 1)."""
    variance = 1.0 / (prior.varsigma**-2 + precision)
    mean = variance * (prior.rho * prior.varsigma**-2 + linear)
    noise = normal_rows(seed, sweep, _THRESHOLDS, np.arange(mean.shape[0]), mean.shape[1])
    return mean + np.sqrt(variance) * noise


def penalty(state: State, prior: Prior) -> float:
    """Regulariser of factors and thresholds."""
    squares = float(np.vdot(state["users"], state["users"]) + np.vdot(state["items"], state["items"]))
    apart = (state["thresholds"] - prior.rho) / prior.varsigma
    return 0.5 * squares / prior.sigma**2 + 0.5 * float(np.vdot(apart, apart))


def risk_of(problem: Problem, state: State) -> float:
    """Regularised risk of a state."""
    score = scores(problem.users, np.ascontiguousarray(state["users"]), np.ascontiguousarray(state["items"]))
    losses = hinge_losses(problem.users, score, state["thresholds"], problem.margin)
    return float(losses.sum()) + penalty(state, problem.prior)


def require_finite(well: bool, sweep: int) -> None:
    """Refuse a sweep that went out of range."""
    if not well:
        msg = (
            f"sweep {sweep} left the range of floating-point numbers; C, margin, sigma, threshold_scale and "
            "sample_weight set the scale: bring them nearer to 1, or set dtype to float64"
        )
        raise DataError(msg)
