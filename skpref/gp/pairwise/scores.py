"""Comparisons that come from scores: pairs of one row share the noise of its score (docs/maths section 1).

k pairs of a row tell less than k independent comparisons: their outcomes share the noise of one score, so posteriors
that count each of them in full are far too narrow. The likelihood of a pair is therefore weighted by what it is worth
(a composite likelihood with an adjusted magnitude; Varin, Reid and Firth, Statistica Sinica 2011). Pairs whose outcome
is certain are worth nothing either way and do not count. How many are certain depends on the posterior, so a fit is
repeated until the weights stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import numpy as np

from skpref.gp.entities import Items
from skpref.gp.pairwise.fit import PairData, WarmStart, fit_pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.data import Comparisons
    from skpref.gp.pairwise.fit import PairConfig, PairFit
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.likelihoods import Likelihood

__all__ = ["stationary_weights", "uncertainty", "weigh_pairs_of_scores", "worth_of"]

# Comparisons that a score is worth together with the scores it is compared with. If two rows have equal noise, k pairs
# of a row are worth 2 k / (k + 1) independent ones to first order; with 3 intervals cover what they say in simulations
# (benchmarks/coverage.py), since all pairs together show the scores themselves.
_WORTH = 3.0
_MAX_ROUNDS = 6
_STAYS = 0.05  # change of weights that ends the rounds


class Weighable(Protocol):
    """Comparisons of scores with a weight each."""

    def weighed(self, fit: PairFit | None) -> tuple[float, Self]:
        """Return the largest change of a weight given a fit, and the comparisons with the new weights."""


Scores = TypeVar("Scores", bound=Weighable)


def stationary_weights(
    data: Scores,
    fit: Callable[[Scores, PairConfig, WarmStart | None], PairFit],
    config: PairConfig,
    start: WarmStart | None,
) -> Scores:
    """Return comparisons whose weights no longer change from one fit to the next."""
    settings, last = replace(config, schedule=replace(config.schedule, on_iteration=None)), None
    for _ in range(_MAX_ROUNDS):
        change, data = data.weighed(last)
        if change < _STAYS:
            break
        last = fit(data, settings, start)
        # Later rounds keep the kernel of the first.
        settings = replace(settings, learn_length_scales=False, n_restarts=None)
        basis = last.posterior.basis
        start = WarmStart(last.state, last.kernel, None if basis is None else basis.points)
    return data


@dataclass(frozen=True, eq=False)
class _ScoredPairs:
    """Comparisons of scores in memory."""

    data: PairData
    n_scores: Array  # (n_items,): scores of each item
    worth: Array  # (n_pairs,)

    @property
    def pairs(self) -> Comparisons:
        """The comparisons, weighted by their worth (`worth_of`)."""
        pairs = self.data.comparisons
        return replace(pairs, weight=pairs.weight * self.worth)

    def weighed(self, fit: PairFit | None) -> tuple[float, _ScoredPairs]:
        """Return the change of the worth, and the comparisons with it."""
        pairs = self.data.comparisons
        uncertain = np.ones(pairs.n_pairs)
        if fit is not None:
            uncertain = uncertainty(fit.likelihood, fit.posterior, self.data.X, pairs)
        worth = worth_of(pairs, self.n_scores, uncertain)
        return float(np.max(np.abs(worth - self.worth), initial=0.0)), replace(self, worth=worth)


def weigh_pairs_of_scores(
    data: PairData,
    n_scores: Array,
    kernel: Kernel | None,
    config: PairConfig,
    start: WarmStart | None,
    rng: Callable[[], np.random.Generator],
) -> Comparisons:
    """Return the comparisons, weighted by their worth; an item has `n_scores` scores, shape (n_items,)."""

    def fit(scores: _ScoredPairs, settings: PairConfig, start: WarmStart | None) -> PairFit:
        return fit_pairs(PairData(data.X, scores.pairs), kernel, settings, rng(), start)

    return stationary_weights(
        _ScoredPairs(data, n_scores, np.zeros(data.comparisons.n_pairs)), fit, config, start
    ).pairs


def worth_of(pairs: Comparisons, n_scores: Array, uncertain: Array) -> Array:
    """Return min(1, 3 / (1 + k)) with k the uncertain pairs a score of either item has, shape (n_pairs,)."""
    counted = pairs.weight * uncertain
    total = np.bincount(pairs.left, counted, pairs.n_items) + np.bincount(pairs.right, counted, pairs.n_items)
    k = total / n_scores
    return np.minimum(1.0, _WORTH / (1.0 + 0.5 * (k[pairs.left] + k[pairs.right])))


def uncertainty(likelihood: Likelihood, posterior: PairPosterior, X: Features, pairs: Comparisons) -> Array:
    """Return 4 p (1 - p) of each pair: 1 where either item may win, near 0 where the outcome is certain."""
    p = likelihood.predict(*posterior.pairs(Items.new(X), pairs.left, pairs.right))
    return np.asarray(4.0 * p * (1.0 - p))
