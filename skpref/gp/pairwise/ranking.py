"""A ranking with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._estimator import check_n_samples
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from skpref._typing import Array, IntArray
    from skpref.gp.entities import Items
    from skpref.gp.pairwise.posterior import PairPosterior

_MAX_JOINT = 4000  # items whose covariance is factored at once: a few seconds


@dataclass(frozen=True, eq=False)
class Ranking:
    """Items from the best to the worst."""

    id: npt.NDArray[Any]  # (n,): ids (or row numbers)
    utility: Array  # (n,): posterior mean and standard deviation
    std: Array  # (n,): posterior mean and standard deviation
    rank: IntArray  # (n,): 1 is the best
    probability_best: Array  # (n,): posterior probability to be the best of these items
    rank_low: IntArray  # (n,): credible interval of the rank
    rank_high: IntArray  # (n,): credible interval of the rank

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name, in order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __len__(self) -> int:
        """Number of items."""
        return len(self.rank)


def rank_items(
    posterior: PairPosterior, ids: Any, items: Items, credibility: float, n_samples: int, rng: np.random.Generator
) -> Ranking:
    """Rank by posterior mean; intervals from joint draws."""
    moments = posterior.utility(items, centred=True)
    return rank_draws(ids, moments, credibility, n_samples, lambda: _draws(posterior, items, n_samples, rng))


def rank_draws(
    ids: Any,
    moments: tuple[Array, Array],
    credibility: float,
    n_samples: int,
    draw: Callable[[], Array],
) -> Ranking:
    """Rank by posterior mean; intervals from draws."""
    if not 0.0 < credibility < 1.0:
        msg = f"credibility must be a probability between 0 and 1, such as 0.9; got {credibility!r}."
        raise DataError(msg)
    check_n_samples(n_samples)
    mean, variance = moments
    if mean.size == 0 or len(set(np.asarray(ids).tolist())) < mean.size:
        raise DataError(f"items must be distinct, and at least one, to be ranked; got {mean.size} with repetitions.")
    draws = draw()
    # Draw by draw and in 32 bits: of 1e5 items the draws alone are gigabytes.
    ranks = np.empty(draws.shape, dtype=np.int32)
    for row, drawn in zip(ranks, draws, strict=True):
        row[np.argsort(-drawn, kind="stable")] = np.arange(1, mean.size + 1)
    del draws
    best = np.mean(ranks == 1, axis=0)
    tail = 50.0 * (1.0 - credibility)
    edges = [tail, 100.0 - tail]
    low, high = np.percentile(ranks, edges, axis=0, method="closest_observation", overwrite_input=True)
    order = np.argsort(-mean, kind="stable")
    return Ranking(
        np.asarray(ids)[order],
        mean[order],
        np.sqrt(variance[order]),
        np.arange(1, mean.size + 1),
        best[order],
        low[order].astype(np.int64),
        high[order].astype(np.int64),
    )


def _draws(posterior: PairPosterior, items: Items, n_samples: int, rng: np.random.Generator) -> Array:
    """Joint draws (n_samples, n); beyond 4,000 items the part outside the dense block is drawn item by item."""
    if items.size <= _MAX_JOINT:
        mean, covariance = posterior.covariance(items, centred=True)
        return rng.multivariate_normal(mean, covariance, n_samples, method="eigh", check_valid="ignore")
    return posterior.sample_independent_rest(items, n_samples, rng)
