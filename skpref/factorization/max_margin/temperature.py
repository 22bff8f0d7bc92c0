"""The predictive temperature: how much wider than exp(-C loss) ratings scatter, learnt from ratings held out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize_scalar

from skpref.data.ratings import Ratings
from skpref.factorization.max_margin.chains import pooled
from skpref.factorization.max_margin.posterior import level_probabilities, parts
from skpref.inference.gibbs import Plan, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from skpref._typing import IntArray
    from skpref.factorization.max_margin.chains import ChainModel
    from skpref.factorization.max_margin.m3f_chain import MarginProblem
    from skpref.factorization.max_margin.posterior import Factors
    from skpref.inference.gibbs import Chain

# Compared on simulated ratings and on MovieLens-100k: more of either changed the temperature by less than its error.
N_FORGET = 5  # sweeps in which the chain forgets the ratings held out
N_KEPT = 10  # sweeps after these, all kept
_SHARE = 10  # one in so many ratings is held out,
_MOST = 5_000  # of which the temperature has a standard error of 2 %,
_MOST_PROBABILITIES = 400_000  # and less of many levels
_LOG_RANGE = -1.5, 4.0  # of the temperature


def learnt_temperature(
    model: ChainModel,
    problem_of: Callable[[Ratings], MarginProblem],
    ratings: Ratings,
    chains: list[Chain],
    cost: float,
) -> float:
    """Return the temperature that predicts ratings best that are held out of some more sweeps of the first chain."""
    n_held = min(ratings.size // _SHARE, _MOST, _MOST_PROBABILITIES // ratings.n_levels)
    if not n_held or cost == 0.0:
        return 1.0
    order = np.random.default_rng(int(chains[0].state["seed"])).permutation(ratings.size)
    held, kept = (subset(ratings, np.sort(rows)) for rows in np.split(order, [n_held]))
    problem = problem_of(kept)
    n_samples = sum(len(chain.samples) for chain in chains)
    plan = Plan(N_FORGET + N_KEPT, N_FORGET, min(N_KEPT, n_samples), keep=model.kept, average=model.average)
    step = model.step(problem)
    (chain,) = run(model.warm_starts(problem, chains[:1]), lambda _: step, plan)
    return best_temperature(pooled(chain.samples), held, cost, problem.margin, n_samples)


def subset(ratings: Ratings, rows: IntArray) -> Ratings:
    """Return some of the ratings, with all users and items."""
    sizes = ratings.n_users, ratings.n_items, ratings.n_levels
    return Ratings(ratings.user[rows], ratings.item[rows], ratings.level[rows], ratings.weight[rows], *sizes)


def best_temperature(samples: Factors, held: Ratings, cost: float, margin: float, n_samples: int) -> float:
    """Return the maximum a posteriori temperature given held-out ratings, for predictions from n samples.

    The log of a mean over S samples is too low by v / (2 S), where v is the relative variance: corrected for the
    number of samples that predictions are from. The prior of the log temperature is standard normal.
    """
    slices = parts(held.size, samples)
    score = np.concatenate([samples.scores(held.user[part], held.item[part]) for part in slices], axis=1)
    theta, row = samples.thresholds_of(held.user), np.arange(held.size)
    n = score.shape[0]

    def loss(log_temperature: float) -> float:
        cooled = cost * np.exp(-log_temperature)
        p = level_probabilities(score, theta, cooled, margin)[:, row, held.level]
        mean = np.maximum(p.mean(axis=0), np.finfo(np.float64).tiny)
        variance = (p / mean).var(axis=0, ddof=min(1, n - 1))
        log_p = np.log(mean) + 0.5 * variance * (1.0 / n - 1.0 / n_samples)
        return 0.5 * log_temperature**2 - float(held.weight @ log_p)

    return float(np.exp(minimize_scalar(loss, bounds=_LOG_RANGE, method="bounded").x))
