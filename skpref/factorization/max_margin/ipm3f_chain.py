"""The chain of the nonparametric model: binary user features from an Indian buffet process (docs/maths section 8)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from skpref._compiled.ipm3f import Buffet, draw_followers, draw_items, draw_users, next_customers
from skpref._compiled.m3f import Name, Thresholds, hinge_losses, scores
from skpref._compiled.streams import normal_rows
from skpref.factorization.max_margin.m3f_chain import (
    FIRST_ITEMS,
    FIRST_USERS,
    FOLLOWING,
    ITEMS,
    USERS,
    Folding,
    Problem,
    draw_thresholds,
    require_finite,
    rows_of,
    with_users,
)
from skpref.inference.gibbs import Info

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray
    from skpref.data.ratings import Ratings
    from skpref.factorization.max_margin.m3f_chain import Prior
    from skpref.inference.gibbs import State, Step

_GUESS = 256  # features, when ratings are split over threads
_FADED = 0.5  # holders on average below which an average forgets a feature that is gone


@dataclass(frozen=True, eq=False)
class BuffetProblem(Problem):
    """Ratings and model."""

    alpha: float  # rate of the Indian buffet
    max_new: int  # features at most that a user has to itself


def problem_of(ratings: Ratings, cost: float, prior: Prior, margin: float, alpha: float, max_new: int) -> BuffetProblem:
    """Put merged ratings in the two orders that the passes read."""
    users, items = (rows_of(view, cost, _GUESS) for view in (ratings.by_user(), ratings.by_item()))
    return BuffetProblem(users, items, prior, 0, margin, np.dtype(np.float64), alpha, max_new)


def start_state(problem: BuffetProblem, seed: int, state: State | None = None) -> State:
    """Draw from the prior what an earlier state does not say."""
    prior = problem.prior
    held = np.zeros((0, 0), np.uint8) if state is None else state["users"]
    Z = next_customers(seed, FIRST_USERS, held, problem.n_users, problem.alpha)
    born = 0 if state is None else int(state["born"])
    new = Z.shape[1] - held.shape[1]
    # Items' streams are drawn anew when there are more of them: rows that are known keep what they have.
    items = prior.sigma * normal_rows(seed, born, FIRST_ITEMS, np.arange(problem.n_items), Z.shape[1])
    theta = np.tile(prior.rho, (problem.n_users if prior.own else 1, 1))
    feature = np.arange(born, born + new)
    if state is not None:
        items[: len(state["items"]), : held.shape[1]] = state["items"]
        theta[: len(state["thresholds"])] = state["thresholds"]
        feature = np.concatenate([state["feature"], feature])
    return {
        "users": Z,
        "items": items,
        "thresholds": theta,
        "feature": feature,
        "born": np.array(born + new),
        "seed": np.array(seed, dtype=np.uint64),
    }


def step_of(problem: BuffetProblem) -> Step:
    """Return the sweep of a chain."""
    prior, model, own = problem.prior, problem.model, problem.prior.own

    def sweep(state: State, number: int) -> tuple[State, Info]:
        seed, items, theta = int(state["seed"]), state["items"].copy(), state["thresholds"]
        by_column = Thresholds(theta, "column" if own else "all")
        well = draw_items(problem.items, items, state["users"], by_column, model, Name(seed, number, ITEMS))
        require_finite(well, number)
        before = Buffet(state["users"], items, state["feature"], int(state["born"]))
        by_row, name = Thresholds(theta, "row" if own else "all"), Name(seed, number, USERS)
        buffet, sums = draw_users(problem.users, before, by_row, problem.alpha, problem.max_new, model, name)
        precision, linear = (part if own else part.sum(axis=0, keepdims=True) for part in sums[:2])
        theta = draw_thresholds(precision, linear, prior, seed, number)
        state = {
            "users": buffet.users,
            "items": buffet.items,
            "thresholds": theta,
            "feature": buffet.feature,
            "born": np.array(buffet.born),
            "seed": state["seed"],
        }
        loss = float(hinge_losses(problem.users, sums.score, theta, problem.margin).sum())
        risk = loss + penalty(state, prior, problem.alpha)
        require_finite(bool(np.isfinite(risk)), number)
        estimate = {name: state[name] for name in ("users", "items", "thresholds", "feature")}
        return state, Info(-risk, {"risk": risk, "n_factors": float(buffet.feature.size)}, estimate)

    return sweep


def log_buffet(Z: Array, alpha: float) -> float:
    """Log probability of features under the Indian buffet, whatever their order."""
    n, holders = Z.shape[0], Z.sum(axis=0, dtype=np.float64)
    each = gammaln(n - holders + 1.0) + gammaln(holders) - gammaln(n + 1.0)
    rate = alpha * float((1.0 / np.arange(1.0, n + 1.0)).sum())
    alike = Counter(column.tobytes() for column in np.ascontiguousarray(Z.T)).values()
    return float(holders.size * np.log(alpha) - rate + each.sum() - sum(gammaln(c + 1.0) for c in alike if c > 1))


def penalty(state: State, prior: Prior, alpha: float) -> float:
    """Regulariser of features, factors and thresholds."""
    apart = (state["thresholds"] - prior.rho) / prior.varsigma
    squares = 0.5 * float(np.vdot(state["items"], state["items"])) / prior.sigma**2 + 0.5 * float(np.vdot(apart, apart))
    return squares - log_buffet(state["users"], alpha)


def risk_of(problem: BuffetProblem, state: State) -> float:
    """Regularised risk of a state."""
    users, items = (np.ascontiguousarray(state[name], dtype=np.float64) for name in ("users", "items"))
    losses = hinge_losses(problem.users, scores(problem.users, users, items), state["thresholds"], problem.margin)
    return float(losses.sum()) + penalty(state, problem.prior, problem.alpha)


def folding_of(problem: BuffetProblem, seed: int) -> Folding:
    """Return how new users are added with the items as they are.

    Each is the next customer of the buffet after the old users, of features that are there.
    """
    prior, model, own = problem.prior, problem.model, problem.prior.own

    def begin(source: State, before: State | None) -> State:
        known, width = source["users"], source["items"].shape[1]
        Z = np.zeros((problem.n_users, width), np.uint8)
        if before is not None:  # of features that still live, who held them is a better start than nothing
            _, here, there = np.intersect1d(
                source["feature"], before["feature"], assume_unique=True, return_indices=True
            )
            Z[:, here] = before["users"][:, there]
        return {
            "users": Z,
            "feature": source["feature"],
            "items": source["items"].astype(np.float64),
            "thresholds": (
                source["thresholds"].astype(np.float64)
                if not own
                else np.tile(prior.rho, (problem.n_users, 1))
                if before is None
                else before["thresholds"]
            ),
            "holders": known.sum(axis=0, dtype=np.float64),
            "n_before": np.array(known.shape[0]),
        }

    def step(state: State, number: int) -> tuple[State, Info]:
        Z, theta = state["users"].copy(), state["thresholds"]
        by_row, name = Thresholds(theta, "row" if own else "all"), Name(seed, number, USERS)
        sums = draw_followers(
            problem.users, Z, state["items"], state["holders"], float(state["n_before"]), by_row, model, name
        )
        if own:
            theta = draw_thresholds(sums.precision, sums.linear, prior, seed, number)
        state = {**state, "users": Z, "thresholds": theta}
        loss = float(hinge_losses(problem.users, sums.score, theta, problem.margin).sum())
        require_finite(bool(np.isfinite(loss)), number)
        return state, Info(-loss, {"loss": loss}, {"users": Z, "thresholds": theta})

    return Folding(begin, step, lambda old, new: with_users(old, new, own=own), FOLLOWING)


def aligned_mean(average: State | None, added: State, n: int) -> State:
    """Return the mean of n states from that of the n - 1 before, features aligned by their names.

    A feature counts as held by nobody, its factors as zero, while it does not live. One that is gone and had few
    holders on average is forgotten: else an average would grow with every feature that ever came up for one user.
    """
    if average is None:
        return {name: value if name == "feature" else np.array(value, np.float64) for name, value in added.items()}
    alive = np.isin(average["feature"], added["feature"], assume_unique=True)
    kept = alive | (average["users"].sum(axis=0) * (n - 1) / n >= _FADED)
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
