"""The Gibbs chain of the nonparametric model: users hold binary features of an Indian buffet process.

See docs/maths section 8.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from skpref._compiled.ipm3f import IBPState, draw_ibp_rows, draw_items, draw_new_users, draw_users
from skpref._compiled.m3f import StreamName, Thresholds
from skpref._compiled.streams import normal_rows
from skpref.factorization.max_margin.m3f_chain import (
    FIRST_ITEMS,
    FIRST_USERS,
    ITEMS,
    USERS,
    FoldIn,
    MarginProblem,
    append_users,
    draw_population,
    draw_thresholds,
    expected_population,
    population_of,
    require_finite,
    rows_of,
    threshold_penalty,
)
from skpref.factorization.policy import POLICY
from skpref.inference.gibbs import Info

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray
    from skpref.data.ratings import Ratings
    from skpref.factorization.max_margin.m3f_chain import MarginPrior
    from skpref.inference.gibbs import State, Step


@dataclass(frozen=True, eq=False)
class IBPProblem(MarginProblem):
    """Ratings, the prior and the loss, with the Indian buffet process."""

    alpha: float  # rate of the Indian buffet process
    max_new: int  # limit on the features that one user alone holds


def problem_of(
    ratings: Ratings, cost: float, prior: MarginPrior, margin: float, alpha: float, max_new: int
) -> IBPProblem:
    """Return the problem of merged ratings."""
    users, items = (rows_of(view, cost, POLICY.typical_width) for view in (ratings.by_user(), ratings.by_item()))
    return IBPProblem(users, items, prior, 0, margin, np.dtype(np.float64), alpha, max_new)


def start_state(problem: IBPProblem, seed: int, state: State | None = None) -> State:
    """Return a draw from the prior, with the rows and features of an earlier state put in their places."""
    prior = problem.prior
    old_features = np.zeros((0, 0), np.uint8) if state is None else state["users"]
    Z = draw_ibp_rows(seed, FIRST_USERS, old_features, problem.n_users, problem.alpha)
    born = 0 if state is None else int(state["born"])
    n_new = Z.shape[1] - old_features.shape[1]
    # All rows are drawn; those of the earlier state are then put back.
    items = prior.sigma * normal_rows(seed, born, FIRST_ITEMS, np.arange(problem.n_items), Z.shape[1])
    theta = np.tile(prior.rho, (problem.n_users if prior.own else 1, 1))
    feature = np.arange(born, born + n_new)
    if state is not None:
        items[: len(state["items"]), : old_features.shape[1]] = state["items"]
        theta[: len(state["thresholds"])] = state["thresholds"]
        feature = np.concatenate([state["feature"], feature])
    return {
        "users": Z,
        "items": items,
        "thresholds": theta,
        "feature": feature,
        "born": np.array(born + n_new),
        "seed": np.array(seed, dtype=np.uint64),
    }


def step_of(problem: IBPProblem) -> Step:
    """Return the sweep of a chain."""
    prior, model, own = problem.prior, problem.model, problem.prior.own

    def sweep(state: State, number: int) -> tuple[State, Info]:
        seed, items, theta = int(state["seed"]), state["items"].copy(), state["thresholds"]
        by_column = Thresholds(theta, "column" if own else "all")
        finite = draw_items(problem.items, items, state["users"], by_column, model, StreamName(seed, number, ITEMS))
        require_finite(finite, number)
        old = IBPState(state["users"], items, state["feature"], int(state["born"]))
        by_row, name = Thresholds(theta, "row" if own else "all"), StreamName(seed, number, USERS)
        new, sums = draw_users(problem.users, old, by_row, problem.alpha, problem.max_new, model, name)
        precision, linear = (part if own else part.sum(axis=0, keepdims=True) for part in sums[:2])
        theta = draw_thresholds(precision, linear, draw_population(theta, prior, seed, number), seed, number)
        state = {
            "users": new.users,
            "items": new.items,
            "thresholds": theta,
            "feature": new.feature,
            "born": np.array(new.born),
            "seed": state["seed"],
        }
        loss = float(problem.losses(state, sums.score).sum())
        risk = loss + negative_log_prior(state, prior, problem.alpha)
        require_finite(np.isfinite(risk), number)
        estimate = {name: state[name] for name in ("users", "items", "thresholds", "feature")}
        return state, Info(-risk, {"risk": risk, "n_factors": float(new.feature.size)}, estimate)

    return sweep


def log_ibp(Z: Array, alpha: float) -> float:
    """Return the log probability of binary features under the Indian buffet process, in any order of the columns."""
    n, holders = Z.shape[0], Z.sum(axis=0, dtype=np.float64)
    terms = gammaln(n - holders + 1.0) + gammaln(holders) - gammaln(n + 1.0)
    rate = alpha * float((1.0 / np.arange(1.0, n + 1.0)).sum())
    equal_columns = Counter(column.tobytes() for column in np.ascontiguousarray(Z.T)).values()
    repeats = sum(gammaln(c + 1.0) for c in equal_columns if c > 1)
    return float(holders.size * np.log(alpha) - rate + terms.sum() - repeats)


def negative_log_prior(state: State, prior: MarginPrior, alpha: float) -> float:
    """Return minus the log prior of features, item factors and thresholds, without constants of the normal ones."""
    squares = float(np.vdot(state["items"], state["items"])) / prior.sigma**2
    normal = 0.5 * squares + threshold_penalty(state["thresholds"], prior)
    return normal - log_ibp(state["users"], alpha)


def risk_of(problem: IBPProblem, state: State) -> float:
    """Return the regularised risk of a state."""
    return float(problem.losses(state).sum()) + negative_log_prior(state, problem.prior, problem.alpha)


def fold_in_of(problem: IBPProblem, seed: int) -> FoldIn:
    """Return how to sample new users with the items fixed: each may only hold features that old users hold."""
    prior, model, own = problem.prior, problem.model, problem.prior.own

    def start(source: State, last: State | None) -> State:
        old_users, width = source["users"], source["items"].shape[1]
        Z, theta = np.zeros((problem.n_users, width), np.uint8), np.tile(prior.rho, (problem.n_users, 1))
        if last is not None:  # features that are in both samples keep their holders
            _, here, there = np.intersect1d(source["feature"], last["feature"], assume_unique=True, return_indices=True)
            Z[:, here], theta = last["users"][:, there], last["thresholds"]
        return {
            "users": Z,
            "feature": source["feature"],
            "items": source["items"].astype(np.float64),
            "thresholds": theta if own else source["thresholds"].astype(np.float64),
            "holders": old_users.sum(axis=0, dtype=np.float64),
            "n_before": np.array(old_users.shape[0]),
            **expected_population(source["thresholds"], prior),
        }

    def step(state: State, number: int) -> tuple[State, Info]:
        Z, theta = state["users"].copy(), state["thresholds"]
        by_row, name = Thresholds(theta, "row" if own else "all"), StreamName(seed, number, USERS)
        sums = draw_new_users(
            problem.users, Z, state["items"], state["holders"], float(state["n_before"]), by_row, model, name
        )
        if own and (population := population_of(state)):
            theta = draw_thresholds(sums.precision, sums.linear, population, seed, number)
        state = {**state, "users": Z, "thresholds": theta}
        loss = float(problem.losses(state, sums.score).sum())
        require_finite(np.isfinite(loss), number)
        return state, Info(-loss, {"loss": loss}, {"users": Z, "thresholds": theta})

    return FoldIn(start, step, lambda old, new: append_users(old, new, own=own))


def aligned_mean(average: State | None, added: State, n: int) -> State:
    """Return the mean of n states from the mean of the first n - 1; numbers of features match their columns.

    While a feature does not exist, nobody holds it and its factors count as zero. A feature that is gone and had few
    holders on average is dropped: else the average would grow with every feature that one user ever held.
    """
    if average is None:
        return {name: value if name == "feature" else np.array(value, np.float64) for name, value in added.items()}
    alive = np.isin(average["feature"], added["feature"], assume_unique=True)
    kept = alive | (average["users"].sum(axis=0) * (n - 1) / n >= POLICY.least_holders)
    feature = np.union1d(average["feature"][kept], added["feature"])
    mean: dict[str, Any] = {"feature": feature}
    old: IntArray = np.searchsorted(feature, average["feature"][kept])
    new: IntArray = np.searchsorted(feature, added["feature"])
    for name in ("users", "items"):
        mean[name] = np.zeros((len(added[name]), feature.size))
        mean[name][:, old] = average[name][:, kept] * ((n - 1) / n)
        mean[name][:, new] += added[name] / n
    mean["thresholds"] = average["thresholds"] + (added["thresholds"] - average["thresholds"]) / n
    return mean
