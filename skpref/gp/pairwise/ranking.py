"""Rankings with credible intervals."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._estimator import check_credibility, check_n_samples
from skpref.data.ids import shorten
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from skpref._typing import Array, IntArray
    from skpref.gp.entities import Items
    from skpref.gp.pairwise.posterior import PairPosterior

__all__ = ["Ranking"]

_MAX_SHOWN = 10  # items in the text of a ranking
_MAX_JOINT = 4000  # items whose covariance is factored at once; it takes a few seconds


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """Items from the best to the worst, one entry each.

    Parameters
    ----------
    id : ndarray of shape (n,)
        Ids, or row numbers of items without ids.
    utility : ndarray of shape (n,)
        Posterior means, in units of the answer noise.
    std : ndarray of shape (n,)
        Posterior standard deviations.
    rank : ndarray of shape (n,)
        1 to n, by posterior mean.
    probability_best : ndarray of shape (n,)
        Posterior probability that the item is the best of these.
    rank_low : ndarray of shape (n,)
        Lower end of the credible interval of the rank.
    rank_high : ndarray of shape (n,)
        Upper end of the credible interval of the rank.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> ranking = GPPLClassifier().fit([["tea", "coffee"], ["coffee", "water"]], [1, 1]).rank()
    >>> ranking.id.tolist(), ranking.rank.tolist()
    (['tea', 'coffee', 'water'], [1, 2, 3])
    """

    id: npt.NDArray[Any]
    utility: Array
    std: Array
    rank: IntArray
    probability_best: Array
    rank_low: IntArray
    rank_high: IntArray

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name, in order.

        Returns
        -------
        dict of str to ndarray
            What a data frame can be made of.
        """
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __len__(self) -> int:
        """Number of items."""
        return len(self.rank)

    def __repr__(self) -> str:
        """Return the top as a table."""
        top = slice(min(len(self), _MAX_SHOWN))
        names = ("rank", "id", "utility", "std", "probability_best", "rank_low", "rank_high")
        columns = [[name, *map(_cell, getattr(self, name)[top].tolist())] for name in names]
        widths = [max(map(len, column)) for column in columns]
        rows = ["  ".join(map(str.rjust, row, widths)) for row in zip(*columns, strict=True)]
        more = [f"... {len(self) - _MAX_SHOWN} more"] if len(self) > _MAX_SHOWN else []
        return "\n".join([f"Ranking of {len(self)} items", *rows, *more])


def _cell(value: Any) -> str:
    """Return a number to three places, without a minus before zero, or an id."""
    return f"{round(value, 3) + 0.0:.3f}" if isinstance(value, float) else shorten(value)


def rank_items(
    posterior: PairPosterior, ids: Any, items: Items, credibility: float, n_samples: int, rng: np.random.Generator
) -> Ranking:
    """Rank items of a pairwise posterior."""
    moments = posterior.utility(items, centred=True)
    return rank_draws(ids, moments, credibility, n_samples, lambda: _draws(posterior, items, n_samples, rng))


def rank_draws(
    ids: Any,
    moments: tuple[Array, Array],
    credibility: float,
    n_samples: int,
    draw: Callable[[], Array],
) -> Ranking:
    """Rank items by their posterior means; credible intervals are percentiles of the ranks in the draws."""
    check_credibility(credibility)
    check_n_samples(n_samples)
    mean, variance = moments
    n_distinct = len(set(np.asarray(ids).tolist()))
    if mean.size == 0 or n_distinct < mean.size:
        raise DataError(
            f"items must be distinct, and at least one, to be ranked; got {len(ids)}, {n_distinct} distinct."
        )
    draws = draw()
    # One draw at a time and in 32 bits: the draws of 1e5 items alone take gigabytes.
    ranks = np.empty(draws.shape, dtype=np.int32)
    for rank, utility in zip(ranks, draws, strict=True):
        rank[np.argsort(-utility, kind="stable")] = np.arange(1, mean.size + 1)
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
    """Return draws of utilities, shape (n_samples, n), joint for up to 4,000 items."""
    if items.size <= _MAX_JOINT:
        mean, covariance = posterior.covariance(items, centred=True)
        return rng.multivariate_normal(mean, covariance, n_samples, method="eigh", check_valid="ignore")
    return posterior.sample_residuals_independently(items, n_samples, rng)
