"""What a model of ratings recommends to a user: a table of items, best first."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from skpref.data.records import make_frame

if TYPE_CHECKING:
    import numpy.typing as npt

    from skpref._typing import Array

__all__ = ["Recommendations"]


@dataclass(frozen=True, eq=False)
class Recommendations:
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

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name, in order.

        Returns
        -------
        dict of str to ndarray
            What a data frame can be made of.
        """
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: column for name, column in columns.items() if column is not None}

    def to_frame(self) -> Any:
        """Return a data frame of pandas.

        Returns
        -------
        pandas.DataFrame
            One row per item.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        return make_frame(self.columns())

    def __getitem__(self, column: str) -> npt.NDArray[Any]:
        """Return a column."""
        return self.columns()[column]

    def __len__(self) -> int:
        """Number of items."""
        return len(self.item)
