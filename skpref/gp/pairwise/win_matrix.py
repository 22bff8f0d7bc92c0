"""Matrices of wins: how often one item is preferred to another, as predicted and as observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.data.records import make_frame
from skpref.exceptions import DataError, MissingExtraError
from skpref.gp.pairwise.ranking import aligned, cell

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.data import Comparisons, IdColumn
    from skpref.gp.entities import Items
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.likelihoods import Likelihood

__all__ = ["WinMatrix"]

_MAX_SHOWN = 8  # items in the text of a matrix
_WIDTH = 12  # characters of an id in it


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
        n = min(len(self.id), _MAX_SHOWN)
        names = [cell(item, 2)[:_WIDTH] for item in self.id[:n].tolist()]
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
