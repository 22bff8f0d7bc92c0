"""Rankings with credible intervals: the tables that leaderboards print."""

from __future__ import annotations

import html
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import ndtri

from skpref._estimator import check_credibility, check_n_samples
from skpref._math.linalg import cholesky, times_lower_t
from skpref._text import printable
from skpref.data.ids import MAX_ID_CHARACTERS, shorten
from skpref.data.records import ColumnRecord, make_frame
from skpref.exceptions import DataError, MissingExtraError
from skpref.gp.pairwise.policy import POLICY
from skpref.inference.basis import chunks

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from skpref._typing import Array, IntArray
    from skpref.data import Comparisons, IdColumn
    from skpref.gp.entities import Items
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.likelihoods import Likelihood

__all__ = ["Ranking", "WinMatrix"]

_ELO: Final = 400.0 / np.log(10.0)  # points in which odds grow by a factor of e
_ELO_MEAN: Final = 1500.0
_LARGEST_ANCHOR = 1e9  # points of an anchor: seven decimals are left


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(ColumnRecord):
    """Items from the best to the worst, one entry each.

    ``ranking[:10]`` are the first ten, ``ranking["id"]`` is a column, ``ranking.to_frame()`` a data frame of pandas.

    Parameters
    ----------
    id : ndarray of shape (n,)
        Ids, or row numbers of items without ids.
    utility : ndarray of shape (n,)
        Posterior means, in units of the answer noise, or in Elo points.
    std : ndarray of shape (n,)
        Posterior standard deviations.
    rank : ndarray of shape (n,)
        1 to n, by posterior mean.
    probability_best : ndarray of shape (n,)
        Posterior probability that the item is the best of the ranked items.
    rank_low : ndarray of shape (n,)
        Lower end of the credible interval of the rank.
    rank_high : ndarray of shape (n,)
        Upper end of the credible interval of the rank.
    tied_rank : ndarray of shape (n,), default=None
        1 + the number of items whose credible interval of the utility is entirely above that of this item. Items that
        the data do not distinguish share a rank, as on leaderboards ("rank, upper bound"). None: not known.
    n_comparisons : ndarray of shape (n,), default=None
        Number (or total weight) of the comparisons of each item. None: not known.
    credibility : float, default=0.9
        Posterior probability of the intervals.
    scale : {"utility", "elo"}, default="utility"
        Unit of `utility` and `std`.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> ranking = GPPLClassifier().fit([["tea", "coffee"], ["coffee", "water"]], [1, 1]).rank()
    >>> ranking.id.tolist(), ranking.rank.tolist(), ranking.tied_rank.tolist()
    (['tea', 'coffee', 'water'], [1, 2, 3], [1, 1, 1])
    >>> ranking.anchored("water", at=0.0)["utility"].round(6).tolist()[-1]
    0.0
    """

    id: npt.NDArray[Any]
    utility: Array
    std: Array
    rank: IntArray
    probability_best: Array
    rank_low: IntArray
    rank_high: IntArray
    tied_rank: IntArray | None = None
    n_comparisons: npt.NDArray[Any] | None = None
    credibility: float = 0.9
    scale: str = "utility"

    @property
    def utility_low(self) -> Array:
        """Lower end of the credible interval of the utility."""
        return self.utility - self._half_width

    @property
    def utility_high(self) -> Array:
        """Upper end of the credible interval of the utility."""
        return self.utility + self._half_width

    @property
    def _half_width(self) -> Array:
        return np.asarray(ndtri(0.5 + 0.5 * self.credibility) * self.std)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name, in order.

        Returns
        -------
        dict of str to ndarray
            What a data frame can be made of.
        """
        names = (
            *("id", "utility", "std", "utility_low", "utility_high", "rank", "probability_best"),
            *("rank_low", "rank_high", "tied_rank", "n_comparisons"),
        )
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def anchored(self, item: Any, at: float = _ELO_MEAN) -> Ranking:
        """Return the ranking with all utilities shifted so that an item has a given one.

        Parameters
        ----------
        item : id
            Item of the ranking.
        at : float, default=1500.0
            Its utility, or its Elo points.

        Returns
        -------
        Ranking
            The same ranking; standard deviations remain those from the average of the compared items.

        Raises
        ------
        DataError
            If the item is not in the ranking, or `at` is no number from -1e9 to 1e9.
        """
        if not (isinstance(at, Real) and abs(at) <= _LARGEST_ANCHOR):
            wanted = f"a number from -{_LARGEST_ANCHOR:g} to {_LARGEST_ANCHOR:g}, the utility or Elo points of the item"
            raise DataError(f"at must be {wanted}, such as {_ELO_MEAN:g}; got {shorten(at)}")
        ids = self.id.tolist()
        if item not in ids:
            raise DataError(f"unknown item {shorten(item)}: it is not in the ranking of {len(self)} items")
        return replace(self, utility=self.utility + (at - self.utility[ids.index(item)]))

    def to_scale(self, scale: str, likelihood: Likelihood) -> Ranking:
        """Return a ranking by utility on another scale.

        Parameters
        ----------
        scale : {"utility", "elo"}
            "elo": the average of the compared items has 1500 points, and 400 points more are odds of 10 to 1. A unit of
            utility gets the points that stand for its probability of winning, a tie being half a win: 173.7 with a
            logit likelihood, which is exact, and 289.8 with a probit one, where probabilities of other differences
            agree to 0.012. With ties as answers it depends on the threshold.
        likelihood : Likelihood
            Of the model.

        Returns
        -------
        Ranking
            The ranking on that scale.

        Raises
        ------
        DataError
            If there is no such scale.
        """
        if scale not in {"utility", "elo"}:
            raise DataError(f"scale must be 'utility' or 'elo'; got {shorten(scale)}")
        if scale == self.scale:
            return self
        p = likelihood.predict(np.ones(1), np.zeros(1))[0]
        points = _ELO * np.log(p / (1.0 - p))
        return replace(self, utility=_ELO_MEAN + points * self.utility, std=points * self.std, scale=scale)

    def __getitem__(self, key: Any) -> Any:
        """Return a column by its name, or the ranking of some rows, with their ranks among all items."""
        if isinstance(key, str):
            return self.columns()[key]
        rows = np.atleast_1d(np.arange(len(self))[key])
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: array[rows] for name, array in arrays.items() if isinstance(array, np.ndarray)})

    def __repr__(self) -> str:
        """Return the top as a table."""
        columns = self._shown(POLICY.shown_items)
        rows = aligned([list(row) for row in zip(*columns, strict=True)])
        more = [f"... {len(self) - POLICY.shown_items} more"] if len(self) > POLICY.shown_items else []
        return "\n".join([self._title, *rows, *more])

    def _repr_html_(self) -> str:
        """Return the table as notebooks show it."""
        columns = [[html.escape(cell) for cell in column] for column in self._shown(5 * POLICY.shown_items)]
        head, *rows = zip(*columns, strict=True)
        body = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows)
        more = len(self) - len(rows)
        note = f"; {more} more" if more else ""
        return (
            f"<table><caption>{self._title}{note}</caption><thead><tr><th>{'</th><th>'.join(head)}</th></tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )

    @property
    def _title(self) -> str:
        return f"Ranking of {len(self)} items" + (", in Elo points" if self.scale == "elo" else "")

    def _shown(self, n: int) -> list[list[str]]:
        """Return the first rows as text, column by column, each with its name."""
        top = self[: min(len(self), n)].columns()
        names = ["rank", "id", *(name for name in top if name not in {"rank", "id"})]
        places = 1 if self.scale == "elo" else 3
        return [
            [name, *(cell(v, 3 if name == "probability_best" else places) for v in top[name].tolist())]
            for name in names
        ]


def cell(value: Any, places: int) -> str:
    """Return a rounded number, without a minus before zero, or an id."""
    if isinstance(value, float):
        return f"{round(value, places) + 0.0:.{places}f}"
    return printable(value)[:MAX_ID_CHARACTERS] if isinstance(value, str) else shorten(value)


def aligned(rows: list[list[str]]) -> list[str]:
    """Return the lines of a table."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.rjust, row, widths)) for row in rows]


def whole_numbers(values: Array) -> npt.NDArray[Any]:
    """Return integers where all values are whole numbers."""
    return values.astype(np.int64) if np.all(values == np.rint(values)) and values.max(initial=0.0) < 2**53 else values


def rank_items(
    posterior: PairPosterior,
    ids: Any,
    items: Items,
    credibility: float,
    n_samples: int,
    rng: np.random.Generator,
    n_comparisons: npt.NDArray[Any] | None = None,
) -> Ranking:
    """Rank items of a pairwise posterior, given their numbers of comparisons, shape (n,)."""
    moments, draws = posterior.utility(items, centred=True), lambda: _draws(posterior, items, n_samples, rng)
    return rank_draws(ids, moments, credibility, n_samples, draws, n_comparisons)


def rank_draws(
    ids: Any,
    moments: tuple[Array, Array],
    credibility: float,
    n_samples: int,
    draw: Callable[[], Array],
    n_comparisons: npt.NDArray[Any] | None = None,
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
    draws = np.ascontiguousarray(draw())
    # One draw at a time, and ranks in the memory of their draw: the draws of 1e5 items alone take gigabytes.
    ranks, best = draws.view(np.int32)[:, : mean.size], np.zeros(mean.size, dtype=np.int64)
    for rank, utility in zip(ranks, draws, strict=True):
        order = _descending(utility)
        rank[order] = np.arange(1, mean.size + 1)
        best[order[0]] += 1
    tail = 50.0 * (1.0 - credibility)
    places = np.percentile(np.arange(n_samples), [tail, 100.0 - tail], method="closest_observation")
    low, high = np.empty((2, mean.size), dtype=np.int64)
    for part in chunks(mean.size, POLICY.sorted_at_once):
        of_items = np.ascontiguousarray(ranks[:, part].T)
        of_items.sort(axis=1)
        low[part], high[part] = of_items[:, places].T
    order = np.argsort(-mean, kind="stable")
    ranking = Ranking(
        np.asarray(ids)[order],
        mean[order],
        np.sqrt(variance[order]),
        np.arange(1, mean.size + 1),
        best[order] / n_samples,
        low[order],
        high[order],
        n_comparisons=None if n_comparisons is None else n_comparisons[order],
        credibility=credibility,
    )
    above = np.searchsorted(np.sort(ranking.utility_low), ranking.utility_high, side="right")
    return replace(ranking, tied_rank=1 + mean.size - above)


def _descending(utility: Array) -> IntArray:
    """Return the positions of utilities, the largest first; relative differences below 1e-9 may not count."""
    # Sorting integers with the number of the item in the last bits is several times as fast as an argsort.
    keys, mask = np.negative(utility).view(np.int64), (1 << utility.size.bit_length()) - 1
    keys ^= (keys >> 63) & np.iinfo(np.int64).max  # of doubles: now in their order
    keys &= ~mask
    keys |= np.arange(utility.size)
    keys.sort()
    return np.asarray(keys & mask)


def _draws(posterior: PairPosterior, items: Items, n_samples: int, rng: np.random.Generator) -> Array:
    """Return draws of utilities up to a shift of each, shape (n_samples, n); joint for up to 4,000 with features."""
    if posterior.basis is None or items.size > POLICY.most_ranked_jointly:
        return posterior.sample_residuals_independently(items, n_samples, rng, centred=False)
    mean, covariance = posterior.covariance(items)
    return mean + times_lower_t(rng.standard_normal((n_samples, items.size)), cholesky(covariance))


# --------------------------- matrices of wins: how often one item is preferred to another, as predicted and as observed


@dataclass(frozen=True, eq=False, repr=False)
class WinMatrix:
    """Shares of the comparisons of two items that the item in the row wins.

    Parameters
    ----------
    id : ndarray of shape (n,)
        Ids of the items, in rows and columns.
    predicted : ndarray of shape (n, n)
        Probability that the item in the row is preferred to that in the column; NaN on the diagonal.
    observed : ndarray of shape (n, n)
        Share of the comparisons that the item in the row won, with a tie as half a win; NaN if there were none.
    n_comparisons : ndarray of shape (n, n)
        Number (or total weight) of the comparisons.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> wins = GPPLClassifier().fit([["tea", "coffee"], ["coffee", "tea"], ["tea", "coffee"]], [1, 1, 1]).win_matrix()
    >>> wins.id.tolist(), wins.observed.round(2).tolist()
    (['tea', 'coffee'], [[nan, 0.67], [0.33, nan]])
    """

    id: IdColumn
    predicted: Array
    observed: Array
    n_comparisons: Array

    def to_frame(self, which: str = "predicted") -> Any:
        """Return one of the matrices as a data frame of pandas.

        Parameters
        ----------
        which : {"predicted", "observed", "n_comparisons"}, default="predicted"
            Name of the matrix.

        Returns
        -------
        pandas.DataFrame
            With the ids as index and columns.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        return make_frame(getattr(self, which), index=self.id, columns=self.id)

    def __repr__(self) -> str:
        """Return the first predictions as a table."""
        n = min(len(self.id), POLICY.shown_cells)
        names = [cell(item, 2)[: POLICY.id_width] for item in self.id[:n].tolist()]
        shares = self.predicted[:n, :n].tolist()
        rows = [[name, *(cell(p, 2) for p in row)] for name, row in zip(names, shares, strict=True)]
        more = f", of the first {n}" if n < len(self.id) else ""
        title = f"WinMatrix of {len(self.id)} items: predicted P(row wins over column){more}"
        return "\n".join([title, *aligned([["", *names], *rows])])

    def _repr_html_(self) -> str | None:
        """Return the predictions as a table for notebooks; None, and with it the plain text, without pandas."""
        try:
            return str(self.to_frame().round(3).to_html())
        except MissingExtraError:
            return None


def predicted_wins(posterior: PairPosterior, likelihood: Likelihood, items: Items) -> Array:
    """Return the probability that one item is preferred to another, shape (n, n)."""
    mean, covariance = posterior.covariance(items)
    variance = np.diagonal(covariance)
    spread = np.maximum(variance[:, None] + variance - 2.0 * covariance, 0.0)
    return likelihood.predict((mean[:, None] - mean).ravel(), spread.ravel()).reshape(items.size, items.size)


def win_matrix(predicted: Array, ids: IdColumn, items: Items, comparisons: Comparisons) -> WinMatrix:
    """Return the matrix of items, from comparisons by position."""
    n, n_distinct = items.size, len(set(ids.tolist()))
    if not n:
        raise DataError("win_matrix needs at least 1 item; got none")
    if n_distinct < n:
        raise DataError(f"items must be distinct in a win_matrix; got {n}, {n_distinct} distinct")
    np.fill_diagonal(predicted, np.nan)
    place = np.full(comparisons.n_items + 1, -1)
    place[items.position] = np.arange(n)
    place[-1] = -1
    left, right = place[comparisons.left], place[comparisons.right]
    both = (left >= 0) & (right >= 0)
    left, right, y, weight = left[both], right[both], comparisons.y[both], comparisons.weight[both]
    wins, counts = np.zeros((n, n)), np.zeros((n, n))
    for row, column, share in ((left, right, y), (right, left, 1.0 - y)):
        np.add.at(wins, (row, column), weight * share)
        np.add.at(counts, (row, column), weight)
    observed = np.divide(wins, counts, out=np.full((n, n), np.nan), where=counts > 0.0)
    return WinMatrix(ids, predicted, observed, counts)
