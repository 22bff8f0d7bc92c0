"""Comparisons that come from scores: pairs of one row share the noise of its score (docs/maths section 1).

k pairs of a row tell less than k independent comparisons: their outcomes share the noise of one score, so posteriors
that count each of them in full are far too narrow. The likelihood of a pair is therefore weighted by what it is worth
(a composite likelihood with an adjusted magnitude; Varin, Reid and Firth, Statistica Sinica 2011). Pairs whose outcome
is certain are worth nothing either way and do not count. How many are certain depends on the posterior, so a fit is
repeated until the weights stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from skpref.gp.entities import Items
from skpref.gp.pairwise.fit import PairData, WarmStart, fit_pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array
    from skpref.data import Comparisons
    from skpref.gp.pairwise.fit import PairConfig, PairFit

__all__ = ["weigh_pairs_of_scores"]

# Comparisons that a score is worth together with the scores it is compared with. If two rows have equal noise, k pairs
# of a row are worth 2 k / (k + 1) independent ones to first order; with 3 intervals cover what they say in simulations
# (benchmarks/coverage.py), since all pairs together show the scores themselves.
_WORTH = 3.0
_MAX_ROUNDS = 6
_STAYS = 0.05  # change of weights that ends the rounds


def weigh_pairs_of_scores(
    data: PairData,
    n_scores: Array,
    kernel: Kernel | None,
    config: PairConfig,
    start: WarmStart | None,
    rng: Callable[[], np.random.Generator],
) -> Comparisons:
    """Return the comparisons with weights of what they are worth; an item has `n_scores` scores, shape (n_items,)."""
    pairs = data.comparisons
    worth, uncertain = np.zeros(pairs.n_pairs), np.ones(pairs.n_pairs)
    settings = replace(config, schedule=replace(config.schedule, on_iteration=None))
    for _ in range(_MAX_ROUNDS):
        before, worth = worth, _worth(pairs, n_scores, uncertain)
        if np.max(np.abs(worth - before), initial=0.0) < _STAYS:
            break
        fit = fit_pairs(PairData(data.X, _weighted(pairs, worth)), kernel, settings, rng(), start)
        # Later rounds keep the kernel of the first.
        settings = replace(settings, length_scale_factor=None, optimizer=None)
        basis = fit.posterior.basis
        start = WarmStart(fit.state, fit.kernel, None if basis is None else basis.points)
        uncertain = _uncertainty(fit, data, pairs)
    return _weighted(pairs, worth)


def _weighted(pairs: Comparisons, worth: Array) -> Comparisons:
    return replace(pairs, weight=pairs.weight * worth)


def _worth(pairs: Comparisons, n_scores: Array, uncertain: Array) -> Array:
    """Return min(1, 3 / (1 + k)) with k the uncertain pairs a score of either item has, shape (n_pairs,)."""
    counted = pairs.weight * uncertain
    total = np.bincount(pairs.left, counted, pairs.n_items) + np.bincount(pairs.right, counted, pairs.n_items)
    k = total / n_scores
    return np.minimum(1.0, _WORTH / (1.0 + 0.5 * (k[pairs.left] + k[pairs.right])))


def _uncertainty(fit: PairFit, data: PairData, pairs: Comparisons) -> Array:
    """Return 4 p (1 - p) of each pair: 1 where either item may win, near 0 where the outcome is certain."""
    p = fit.likelihood.predict(*fit.posterior.pairs(Items.new(data.X), pairs.left, pairs.right))
    return np.asarray(4.0 * p * (1.0 - p))
