"""What a model of ratings recommends to a user: a table of items, best first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skpref.data.records import ColumnRecord

if TYPE_CHECKING:
    import numpy.typing as npt

    from skpref._typing import Array


__all__ = ["Recommendations"]  # the page of results lists it


@dataclass(frozen=True, eq=False)
class Recommendations(ColumnRecord):
    """Items for a user, one entry each, best first.

    ``recommendations["item"]`` is a column, ``recommendations.to_frame()`` a data frame of pandas.

    Parameters
    ----------
    item : ndarray of shape (n,)
        Ids.
    rating : ndarray of shape (n,)
        Predicted ratings, levels of the user's scale.
    expected_rating : ndarray of shape (n,) or None
        Posterior means of the ratings. None if levels are not numbers.
    score : ndarray of shape (n,)
        Posterior means of the scores, which the user's thresholds cut into levels.
    std : ndarray of shape (n,)
        Posterior standard deviations of the scores.

    Examples
    --------
    >>> from skpref import GibbsM3F
    >>> X = [("ann", "Alien"), ("ann", "Brazil"), ("bob", "Alien")]
    >>> model = GibbsM3F(levels=[1, 2, 3, 4, 5], random_state=0).fit(X, [5, 2, 4])
    >>> model.recommend("bob")["item"].tolist()
    ['Brazil']
    """

    item: npt.NDArray[Any]
    rating: npt.NDArray[Any]
    expected_rating: Array | None
    score: Array
    std: Array

    def __getitem__(self, column: str) -> npt.NDArray[Any]:
        """Return a column."""
        return self.columns()[column]
