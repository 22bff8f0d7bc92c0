"""The Gibbs chain of max-margin matrix factorization: its start, its sweep, its risk (docs/maths section 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError

from skpref._compiled.m3f import Model, Rows, StreamName, Thresholds, draw_rows, hinge_losses, portions, scores
from skpref._compiled.streams import normal_rows
from skpref.exceptions import DataError
from skpref.inference.gibbs import Info

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from skpref._typing import Array
    from skpref.data.ratings import ByRow, Ratings
    from skpref.inference.gibbs import State, Step

# Blocks of the sampler: each random stream is named by seed, sweep, block and row.
ITEMS, USERS, _THRESHOLDS, FIRST_ITEMS, FIRST_USERS = range(1, 6)
SWEEPS_PER_SAMPLE = 3  # sweeps of new users for each kept sample: they start near the end of the sample before
_SPACING = 3.0  # distance of neighbouring thresholds' prior means, in margins ([XZZ13] section 4)


@dataclass(frozen=True, eq=False)
class MarginPrior:
    """Prior of factors and thresholds."""

    sigma: float  # standard deviation of the factors
    rho: Array  # (L - 1,): means of the thresholds
    varsigma: float  # standard deviation of the thresholds
    own: bool  # whether each user has thresholds of their own


def threshold_means(means: ArrayLike | None, n_levels: int, margin: float) -> Array:
    """Return the prior means of the thresholds, symmetric around 0 by default, shape (L - 1,)."""
    if means is None:
        return np.asarray(_SPACING * margin * (np.arange(1.0, n_levels) - n_levels / 2.0))
    rho = np.asarray(means, dtype=np.float64)
    if rho.shape != (n_levels - 1,) or not np.isfinite(rho).all() or (np.diff(rho) <= 0.0).any():
        msg = f"threshold_means must be {n_levels - 1} ascending numbers, one fewer than levels; got {means!r}."
        raise InvalidParameterError(msg)
    return rho


@dataclass(frozen=True, eq=False)
class MarginProblem:
    """Ratings in both orders, the prior and the loss."""

    users: Rows  # ratings by user
    items: Rows  # ratings by item
    prior: MarginPrior
    n_factors: int
    margin: float  # of the hinge loss
    dtype: Any  # of the sums over ratings

    @property
    def model(self) -> Model:
        """Constants of the compiled sweeps."""
        return Model(self.margin, self.prior.sigma**-2, self.dtype)

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(self.users.start.size) - 1

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.items.start.size) - 1


def problem_of(
    ratings: Ratings, cost: float, prior: MarginPrior, n_factors: int, margin: float, dtype: Any
) -> MarginProblem:
    """Return the problem of merged ratings."""
    users, items = (rows_of(view, cost, n_factors) for view in (ratings.by_user(), ratings.by_item()))
    return MarginProblem(users, items, prior, n_factors, margin, np.dtype(dtype))


def rows_of(view: ByRow, cost: float, n_factors: int) -> Rows:
    """Return the ratings of one side in CSR form, split into portions of equal work."""
    weight = view.weight
    equal = not weight.size or bool((weight == weight[0]).all())
    costs = cost * (weight[:1] if equal and weight.size else weight)
    costs = costs if costs.size else np.array([cost])
    return Rows(view.start, view.column, view.level, costs, portions(view.start, n_factors))


def start_state(problem: MarginProblem, seed: int, state: State | None = None) -> State:
    """Return a draw from the prior, with the rows of an earlier state put in their places."""
    prior, width = problem.prior, problem.n_factors

    def draw(block: int, n: int, width: int) -> Array:
        return normal_rows(seed, 0, block, np.arange(n), width)

    start = {
        "users": prior.sigma * draw(FIRST_USERS, problem.n_users, width),
        "items": prior.sigma * draw(FIRST_ITEMS, problem.n_items, width),
        # At their means: a chain takes some sweeps to put crossed thresholds in order.
        "thresholds": np.tile(prior.rho, (problem.n_users if prior.own else 1, 1)),
    }
    if state is not None:
        for name, table in start.items():
            table[: len(state[name])] = state[name]
    return {**start, "seed": np.array(seed, dtype=np.uint64)}


def step_of(problem: MarginProblem, *, fixed_items: bool = False) -> Step:
    """Return the sweep of a chain."""
    prior, model, own = problem.prior, problem.model, problem.prior.own

    def sweep(state: State, number: int) -> tuple[State, Info]:
        seed = int(state["seed"])
        users, items, theta = state["users"].copy(), state["items"].copy(), state["thresholds"]
        if not fixed_items:
            by_column = Thresholds(theta, "column" if own else "all")
            finite, _ = draw_rows(problem.items, items, users, by_column, model, StreamName(seed, number, ITEMS))
            require_finite(finite, number)
        by_row = Thresholds(theta, "row" if own else "all")
        finite, sums = draw_rows(
            problem.users, users, items, by_row, model, StreamName(seed, number, USERS), with_sums=True
        )
        require_finite(finite, number)
        if own or not fixed_items:
            precision, linear = (part if own else part.sum(axis=0, keepdims=True) for part in sums[:2])
            theta = draw_thresholds(precision, linear, prior, seed, number)
        state = {"users": users, "items": items, "thresholds": theta, "seed": state["seed"]}
        loss = float(hinge_losses(problem.users, sums.score, theta, problem.margin).sum())
        risk = loss + negative_log_prior(state, prior)
        require_finite(np.isfinite(risk), number)
        # The means of the conditionals could be averaged in place of the draws: on MovieLens that gained nothing.
        estimate = {name: table for name, table in state.items() if name != "seed"}
        return state, Info(-risk, {"risk": risk}, estimate)

    return sweep


class FoldIn(NamedTuple):
    """How to sample new users of a chain whose other parameters are fixed."""

    # (state of the fixed parameters, last state of the new users or None) -> state of the new users
    start: Callable[[State, State | None], State]
    step: Step  # sweep of the new users
    join: Callable[[State, State], State]  # (state of the old users, state of the new users) -> state of both


def fold_in_of(problem: MarginProblem, seed: int) -> FoldIn:
    """Return how to sample new users with the items fixed."""
    own = problem.prior.own
    fixed = ("items",) if own else ("items", "thresholds")

    def start(source: State, last: State | None) -> State:
        state = start_state(problem, seed) if last is None else last
        return {**state, **{name: source[name].astype(np.float64) for name in fixed}}

    return FoldIn(start, step_of(problem, fixed_items=True), lambda old, new: with_users(old, new, own=own))


def with_users(state: State, new: State, *, own: bool) -> State:
    """Return a state with the rows of new users appended."""
    names = ("users", "thresholds") if own else ("users",)
    return {**state, **{name: np.concatenate([state[name], new[name].astype(state[name].dtype)]) for name in names}}


def draw_thresholds(precision: Array, linear: Array, prior: MarginPrior, seed: int, sweep: int) -> Array:
    """Draw thresholds given everything else, shape (n, L - 1)."""
    variance = 1.0 / (prior.varsigma**-2 + precision)
    mean = variance * (prior.rho * prior.varsigma**-2 + linear)
    noise = normal_rows(seed, sweep, _THRESHOLDS, np.arange(mean.shape[0]), mean.shape[1])
    return mean + np.sqrt(variance) * noise


def negative_log_prior(state: State, prior: MarginPrior) -> float:
    """Return minus the log prior of factors and thresholds, without constants."""
    squares = float(np.vdot(state["users"], state["users"]) + np.vdot(state["items"], state["items"]))
    deviation = (state["thresholds"] - prior.rho) / prior.varsigma
    return 0.5 * squares / prior.sigma**2 + 0.5 * float(np.vdot(deviation, deviation))


def risk_of(problem: MarginProblem, state: State) -> float:
    """Return the regularised risk of a state."""
    score = scores(problem.users, np.ascontiguousarray(state["users"]), np.ascontiguousarray(state["items"]))
    losses = hinge_losses(problem.users, score, state["thresholds"], problem.margin)
    return float(losses.sum()) + negative_log_prior(state, problem.prior)


def require_finite(finite: Any, sweep: int) -> None:
    """Raise an error after a sweep with numbers that are not finite."""
    if not finite:
        msg = (
            f"sweep {sweep} left the range of floating-point numbers; C, margin, sigma, threshold_scale and "
            "sample_weight set the scale: bring them nearer to 1, or set dtype to float64"
        )
        raise DataError(msg)
