"""The Gibbs chain of max-margin matrix factorization: its start, its sweep, its risk (docs/maths section 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError

from skpref._compiled.m3f import Model, Rows, StreamName, Thresholds, draw_rows, hinge_losses, portions, scores
from skpref._compiled.streams import normal_rows
from skpref._math.limits import BLOCK
from skpref.exceptions import DataError
from skpref.factorization.policy import POLICY
from skpref.inference.gibbs import Info

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from skpref._compiled.m3f import Sums
    from skpref._typing import Array
    from skpref.data.ratings import ByRow, Ratings
    from skpref.inference.gibbs import State, Step

Side = Literal["users", "items"]
# Blocks of the sampler: each random stream is named by seed, sweep, block and row.
ITEMS, USERS, _THRESHOLDS, FIRST_ITEMS, FIRST_USERS, _POPULATION, _USER_MEAN = range(1, 8)


@dataclass(frozen=True, eq=False)
class MarginPrior:
    """Prior of factors and thresholds."""

    sigma: float  # standard deviation of the factors
    rho: Array  # (L - 1,): means of the thresholds
    varsigma: float  # standard deviation of the thresholds
    own: bool  # whether each user has thresholds of their own
    # Whether the users' thresholds are N(m, Sigma) with m and Sigma learnt: Sigma is inverse Wishart with L + 1 degrees
    # of freedom and mean varsigma^2 I, and m ~ N(rho, Sigma). The mean of the users' factors, whose product with those
    # of an item is what all users have in common, is learnt with it (by M3F); its prior is N(0, sigma^2 / 3 I).
    learnt: bool = False

    def threshold_scatter(self, theta: Array) -> Array:
        """Return the scale matrix of the inverse Wishart given thresholds of n users, n + 1 times their covariance."""
        n, centre = len(theta), theta.mean(axis=0)
        deviation, shift = theta - centre, centre - self.rho
        scatter = deviation.T @ deviation + n / (n + 1.0) * np.outer(shift, shift)
        return np.asarray(self.varsigma**2 * np.eye(self.rho.size) + scatter)


class Population(NamedTuple):
    """Normal distribution of the thresholds of users."""

    mean: Array  # (L - 1,)
    precision: Array  # (L - 1, L - 1), or (L - 1,) if they are independent


def threshold_means(means: ArrayLike | str | None, n_levels: int, margin: float) -> Array:
    """Return the prior means of the thresholds, symmetric around 0 unless they are listed, shape (L - 1,)."""
    if means is None or isinstance(means, str):
        return np.asarray(POLICY.threshold_spacing * margin * (np.arange(1.0, n_levels) - n_levels / 2.0))
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

    def draw(
        self,
        side: Side,
        table: Array,
        other: Array,
        thresholds: Thresholds,
        model: Model,
        name: StreamName,
        *,
        with_sums: bool = False,
    ) -> tuple[bool, Sums]:
        """Draw the factors of users or of items given the others, in place."""
        return draw_rows(getattr(self, side), table, other, thresholds, model, name, with_sums=with_sums)

    def losses(self, state: State, score: Any = None) -> Array:
        """Return C times the hinge loss of each user's ratings, of their scores if they are there, shape (n_users,)."""
        if score is None:
            users, items = (np.ascontiguousarray(state[name], np.float64) for name in ("users", "items"))
            score = scores(self.users, users, items)
        return hinge_losses(self.users, score, state["thresholds"], self.margin)


def problem_of(
    ratings: Ratings, cost: float, prior: MarginPrior, n_factors: int, margin: float, dtype: Any
) -> MarginProblem:
    """Return the problem of merged ratings."""
    users, items = (rows_of(view, cost, n_factors) for view in (ratings.by_user(), ratings.by_item()))
    return MarginProblem(users, items, prior, n_factors, margin, np.dtype(dtype))


def rows_of(view: ByRow, cost: float, n_factors: int) -> Rows:
    """Return the ratings of one side in CSR form, split into portions of equal work."""
    weight = view.weight
    costs = cost * (weight[:1] if (weight == weight[:1]).all() else weight)
    costs = costs if costs.size else np.array([cost])
    return Rows(view.start, view.column, view.level, costs, portions(view.start, n_factors))


def start_state(problem: MarginProblem, seed: int, state: State | None = None) -> State:
    """Return a draw from the prior, with the rows of an earlier state put in their places."""
    prior, width = problem.prior, problem.n_factors

    def draw(block: int, n: int, width: int) -> Array:
        return normal_rows(seed, 0, block, np.arange(n), width)

    mean = prior.sigma / np.sqrt(POLICY.mean_users) * draw(_USER_MEAN, 1, width) if prior.learnt else 0.0
    start = {
        "users": mean + prior.sigma * draw(FIRST_USERS, problem.n_users, width),
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
            finite, _ = problem.draw("items", items, users, by_column, model, StreamName(seed, number, ITEMS))
            require_finite(finite, number)
        by_row = Thresholds(theta, "row" if own else "all")
        about = model._replace(mean=user_mean_of(state, prior, number))
        name = StreamName(seed, number, USERS)
        finite, sums = problem.draw("users", users, items, by_row, about, name, with_sums=True)
        require_finite(finite, number)
        if own or not fixed_items:
            precision, linear = (part if own else part.sum(axis=0, keepdims=True) for part in sums[:2])
            population = population_of(state) or draw_population(theta, prior, seed, number)
            theta = draw_thresholds(precision, linear, population, seed, number)
        state = {**state, "users": users, "items": items, "thresholds": theta}
        risk = float(problem.losses(state, sums.score).sum()) + negative_log_prior(state, prior)
        require_finite(np.isfinite(risk), number)
        # The means of the conditionals could be averaged in place of the draws: on MovieLens that gained nothing.
        estimate = {name: state[name] for name in ("users", "items", "thresholds")}
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
        population = expected_population(source["thresholds"], problem.prior)
        if problem.prior.learnt:
            population = {**population, "user_mean": expected_user_mean(source["users"])}
        return {**state, **{name: source[name].astype(np.float64) for name in fixed}, **population}

    return FoldIn(start, step_of(problem, fixed_items=True), lambda old, new: append_users(old, new, own=own))


def append_users(state: State, new: State, *, own: bool) -> State:
    """Return a state with the rows of new users appended."""
    names = ("users", "thresholds") if own else ("users",)
    return {**state, **{name: np.concatenate([state[name], new[name].astype(state[name].dtype)]) for name in names}}


def user_mean_of(state: State, prior: MarginPrior, sweep: int) -> Array | None:
    """Return the mean of the users' factors: fixed by the old users, or drawn given the users if it is learnt."""
    if "user_mean" in state or not prior.learnt:
        return state.get("user_mean")
    n, width = state["users"].shape
    noise = np.random.default_rng([int(state["seed"]), sweep, _USER_MEAN]).standard_normal(width)
    return np.asarray(expected_user_mean(state["users"]) + prior.sigma / np.sqrt(n + POLICY.mean_users) * noise)


def expected_user_mean(users: NDArray[Any]) -> Array:
    """Return the posterior mean of the mean of the users' factors (..., n, K), shape (..., K)."""
    return np.asarray(users.sum(axis=-2, dtype=np.float64) / (users.shape[-2] + POLICY.mean_users))


def draw_population(theta: Array, prior: MarginPrior, seed: int, sweep: int) -> Population:
    """Draw mean and precision of the users' thresholds given these; a prior that is not learnt is returned as it is."""
    n, size = theta.shape
    # At the start all users have the same thresholds, which would tie them there.
    if not (prior.learnt and np.ptp(theta, axis=0).any()):
        return Population(prior.rho, np.full(size, prior.varsigma**-2))
    rng = np.random.default_rng([seed, sweep, _POPULATION])
    scatter, freedom = prior.threshold_scatter(theta), size + 2 + n
    centre, noise = (prior.rho + n * theta.mean(axis=0)) / (n + 1.0), rng.standard_normal(size) / np.sqrt(n + 1.0)
    if size > POLICY.most_joint:
        independent = rng.chisquare(freedom - size + 1, size) / np.diag(scatter)
        return Population(centre + noise / np.sqrt(independent), independent)
    # Bartlett's decomposition of the Wishart distribution of the precision.
    root = np.linalg.inv(np.linalg.cholesky(scatter)).T
    triangle = np.tril(rng.standard_normal((size, size)), -1)
    root = root @ (triangle + np.diag(np.sqrt(rng.chisquare(freedom - np.arange(size)))))
    return Population(centre + np.linalg.solve(root.T, noise), root @ root.T)


def population_of(state: State) -> Population | None:
    """Return the population of the old users, which a state of new users holds."""
    return Population(state["threshold_mean"], state["threshold_precision"]) if "threshold_mean" in state else None


def expected_population(theta: Array, prior: MarginPrior) -> State:
    """Return the arrays of a state of new users: mean and precision of the thresholds of the old users."""
    mean, precision = prior.rho, np.full(prior.rho.size, prior.varsigma**-2)
    if prior.learnt:
        n, scatter = len(theta), prior.threshold_scatter(theta.astype(np.float64))
        mean = (prior.rho + n * theta.mean(axis=0, dtype=np.float64)) / (n + 1.0)
        joint = scatter.shape[0] <= POLICY.most_joint
        precision = (n + 1.0) * (np.linalg.inv(scatter) if joint else 1.0 / np.diag(scatter))
    return {"threshold_mean": mean, "threshold_precision": np.asarray(precision)}


def draw_thresholds(precision: Array, linear: Array, population: Population, seed: int, sweep: int) -> Array:
    """Draw thresholds given everything else, shape (n, L - 1)."""
    n, size = linear.shape
    noise, common = normal_rows(seed, sweep, _THRESHOLDS, np.arange(n), size), population.precision
    if common.ndim == 1:
        variance = 1.0 / (common + precision)
        return np.asarray(variance * (population.mean * common + linear) + np.sqrt(variance) * noise)
    linear, theta = linear + common @ population.mean, np.empty(linear.shape)
    for first in range(0, n, step := max(1, BLOCK // size**2)):
        part = slice(first, first + step)
        theta[part] = _joint_draws(common, precision[part], linear[part], noise[part])
    return theta


def _joint_draws(common: Array, own: Array, linear: Array, noise: Array) -> Array:
    """Draw from N(P^-1 b, P^-1) with P = common + diag(own) for rows of own and b, one operation for all, (n, k)."""
    n, size = linear.shape
    root, x = np.empty((size, size, n)), linear.T.copy()
    for j in range(size):  # Cholesky factor, column by column, and the forward substitution
        column = np.repeat(common[j:, j, None], n, axis=1)
        column[0] += own[:, j]
        column -= np.einsum("ian,an->in", root[j:, :j], root[j, :j])
        column[0] = np.sqrt(column[0])
        column[1:] /= column[0]
        root[j:, j] = column
        x[j] = (x[j] - np.einsum("an,an->n", root[j, :j], x[:j])) / root[j, j]
    x += noise.T
    for j in reversed(range(size)):
        x[j] = (x[j] - np.einsum("an,an->n", root[j + 1 :, j], x[j + 1 :])) / root[j, j]
    return x.T


def threshold_penalty(theta: Array, prior: MarginPrior) -> float:
    """Return minus the log prior of thresholds, mean and covariance of the users integrated out, without constants."""
    if prior.learnt:
        n, scatter = len(theta), prior.threshold_scatter(theta) / prior.varsigma**2
        joint = scatter.shape[0] <= POLICY.most_joint
        log_determinant = np.linalg.slogdet(scatter)[1] if joint else np.log(np.diag(scatter)).sum()
        return 0.5 * (n + (scatter.shape[0] + 2.0 if joint else 3.0)) * float(log_determinant)
    deviation = (theta - prior.rho) / prior.varsigma
    return 0.5 * float(np.vdot(deviation, deviation))


def negative_log_prior(state: State, prior: MarginPrior) -> float:
    """Return minus the log prior of factors and thresholds, the users' mean integrated out, without constants."""
    squares = float(np.vdot(state["users"], state["users"]) + np.vdot(state["items"], state["items"]))
    if prior.learnt:
        squares -= float(np.vdot(state["users"].sum(axis=0), expected_user_mean(state["users"])))
    return 0.5 * squares / prior.sigma**2 + threshold_penalty(state["thresholds"], prior)


def risk_of(problem: MarginProblem, state: State) -> float:
    """Return the regularised risk of a state."""
    return float(problem.losses(state).sum()) + negative_log_prior(state, problem.prior)


def require_finite(finite: Any, sweep: int) -> None:
    """Raise an error after a sweep with numbers that are not finite."""
    if not finite:
        msg = (
            f"sweep {sweep} left the range of floating-point numbers; C, margin, sigma, threshold_scale and "
            "sample_weight set the scale: bring them nearer to 1, or set dtype to float64"
        )
        raise DataError(msg)
