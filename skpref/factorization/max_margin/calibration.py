"""Calibration: how much wider than exp(-C loss) ratings scatter, and how frequent levels are, by ratings held out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref.data.ratings import Ratings
from skpref.factorization.max_margin.chains import pool_states
from skpref.factorization.max_margin.posterior import Calibration, level_losses, parts
from skpref.factorization.policy import POLICY
from skpref.inference.gibbs import Plan, run
from skpref.inference.hyper import maximise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray
    from skpref.factorization.max_margin.chains import ChainModel
    from skpref.factorization.max_margin.m3f_chain import MarginProblem
    from skpref.factorization.max_margin.posterior import Factors
    from skpref.factorization.max_margin.sharded import ShardedRatings
    from skpref.inference.gibbs import Chain


def learn_calibration(
    model: ChainModel,
    problem_of: Callable[[Any], MarginProblem],
    ratings: Ratings | ShardedRatings,
    chains: list[Chain],
    cost: float,
) -> Calibration:
    """Return the calibration that predicts ratings best, each held out of more sweeps of the first chain."""
    most = min(POLICY.most_calibration, POLICY.most_probabilities // ratings.n_levels)
    n_held = min(ratings.size // POLICY.calibration_share, most)
    if not n_held or cost == 0.0:
        return Calibration(1.0, np.zeros(ratings.n_levels))
    order = np.arange(ratings.size, dtype=np.int32 if ratings.size < 2**31 else np.int64)  # ratings may be many
    np.random.default_rng(int(chains[0].state["seed"])).shuffle(order)
    n_samples, last = sum(len(chain.samples) for chain in chains), chains[:1]
    forgetting, kept_sweeps = POLICY.forgetting_sweeps, POLICY.calibration_sweeps
    sweeps = forgetting + kept_sweeps, forgetting, min(kept_sweeps, n_samples)
    plan = Plan(*sweeps, keep=model.keep_sample, average=model.average)
    folds = []
    for first in range(0, max(min(POLICY.least_calibration, ratings.size) - n_held, 0) + 1, n_held):
        held, kept = hold_out(ratings, np.roll(order, -first), n_held)
        problem = problem_of(kept)
        last = continue_chains(model, problem, last, plan)
        folds.append(Fold(held, cost * held_losses(pool_states(last[0].samples), held, problem.margin)))
    return best_calibration(folds, n_samples)


def continue_chains(model: ChainModel, problem: MarginProblem, chains: list[Chain], plan: Plan) -> list[Chain]:
    """Return the chains after more sweeps with other ratings."""
    step = model.step(problem)
    return run(model.warm_starts(problem, chains), lambda _: step, plan)


def hold_out(
    ratings: Ratings | ShardedRatings, order: NDArray[Any], n_held: int
) -> tuple[Ratings, Ratings | ShardedRatings]:
    """Return the ratings whose numbers are the first in an order, and the others."""
    if not isinstance(ratings, Ratings):
        return ratings.hold_out(np.sort(order[:n_held]))
    held, kept = (subset(ratings, np.sort(rows)) for rows in np.split(order, [n_held]))
    return held, kept


def subset(ratings: Ratings, rows: IntArray) -> Ratings:
    """Return some of the ratings, with all users and items."""
    sizes = ratings.n_users, ratings.n_items, ratings.n_levels
    return Ratings(ratings.user[rows], ratings.item[rows], ratings.level[rows], ratings.weight[rows], *sizes)


class Fold(NamedTuple):
    """Ratings held out of some sweeps, and C times the losses of their levels in samples of these, (S, n, L)."""

    held: Ratings
    losses: Array


def held_losses(samples: Factors, held: Ratings, margin: float) -> Array:
    """Return the losses of the levels of ratings held out of the samples, shape (S, n, L)."""
    slices = parts(held.size, samples)
    score = np.concatenate([samples.scores(held.user[part], held.item[part]) for part in slices], axis=1)
    return level_losses(score, samples.thresholds_of(held.user), margin)


def best_calibration(folds: Sequence[Fold], n_samples: int) -> Calibration:
    """Return the maximum a posteriori calibration given held-out ratings, for predictions from n samples.

    The log of a mean over S samples is too low by v / (2 S), where v is the relative variance: corrected for the
    number of samples that predictions are from. The priors of the logarithms of temperature and weights are standard
    normal.
    """
    level, weights = (np.concatenate([getattr(fold.held, name) for fold in folds]) for name in ("level", "weight"))
    losses, row = np.concatenate([fold.losses for fold in folds], axis=1), np.arange(level.size)
    n, n_levels = losses.shape[0], losses.shape[2]
    frequency = np.bincount(level, weights, minlength=n_levels)
    correction = (1.0 / n - 1.0 / n_samples) / max(n - 1, 1)

    def objective(parameters: Array) -> tuple[float, Array]:
        inverse = np.exp(-parameters[0])
        log_p = parameters[1:] - inverse * losses
        p = np.exp(log_p - log_p.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        of_held = p[:, row, level]
        mean = np.maximum(of_held.mean(axis=0), np.finfo(np.float64).tiny)
        ratio = of_held / mean
        square = (ratio**2).mean(axis=0)
        value = weights @ (np.log(mean) + 0.5 * correction * n * (square - 1.0))
        # Weights of the samples in the gradient.
        weight = weights * (ratio / n + correction * ratio * (ratio - square))
        heat = inverse * (losses[:, row, level] - (p * losses).sum(axis=-1))
        slope = np.append(np.vdot(weight, heat), frequency - np.einsum("si,sik->k", weight, p))
        return float(value) - 0.5 * float(parameters @ parameters), slope - parameters

    bounds = np.vstack([POLICY.log_temperatures, np.tile([-np.inf, np.inf], (n_levels, 1))])
    found = maximise(objective, np.zeros(1 + n_levels), bounds, max_iter=200, tol=1e-6).theta
    return Calibration(float(np.exp(found[0])), found[1:])
