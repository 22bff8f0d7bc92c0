"""Ratings in shards: what is read of each shard where it is, and what all shards must agree on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._checks import is_count, require
from skpref.data.columns import Columns
from skpref.data.ids import shorten
from skpref.data.ratings import encoded_ratings, enough_levels
from skpref.data.stored import check_names
from skpref.data.vocabulary import Vocabulary
from skpref.data.weights import read_weights
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from skpref._typing import Array, IntArray
    from skpref.data.columns import Column
    from skpref.data.ids import IdColumn
    from skpref.data.ratings import Ratings


class RatingColumns(NamedTuple):
    """Names of the columns of ratings; None where there is none."""

    user: Column
    item: Column
    y: str | None = None
    weight: str | None = None


class RatingSummary(NamedTuple):
    """Summary of a shard that is needed before the fit; only rows of positive weight count."""

    users: IdColumn  # distinct ids
    items: IdColumn
    user_counts: NDArray[np.int32]  # number of the rows of each
    item_counts: NDArray[np.int32]
    levels: NDArray[Any]  # distinct ratings, or the levels that the shard or the caller declares
    is_declared: bool

    @property
    def n_rows(self) -> int:
        """Number of rows of positive weight."""
        return int(self.user_counts.sum())


class RatingRows(NamedTuple):
    """The ratings of a shard, by the numbers of its summary, in their order."""

    user: NDArray[np.int32]
    item: NDArray[np.int32]
    level: NDArray[np.int16]
    weight: Array | None  # None: 1 each


@dataclass(frozen=True, eq=False)
class RatingCounts:
    """What is left of ratings that were in shards: how many there were."""

    n_users: int
    n_items: int
    n_levels: int
    size: int

    def validate(self) -> None:
        """Raise DataError unless they are numbers."""
        for name in ("n_users", "n_items", "n_levels", "size"):
            require(is_count(getattr(self, name)), self, name, "must be a whole number >= 0")

    def followed_by(self, other: Ratings) -> RatingCounts:
        """Return these ratings and others, of which they are the first users and items."""
        return RatingCounts(other.n_users, other.n_items, self.n_levels, self.size + other.size)


def read_rating_shard(
    table: Any, y: Any, weight: Any, start: int, sides: tuple[Column, Column], levels: ArrayLike | None
) -> tuple[RatingSummary, RatingRows]:
    """Return the summary of a table of ratings, and the ratings; messages count rows from the first one's number."""
    columns = Columns.of(table, "X", leave_out="")
    users, items = (columns.ids(name, kind) for name, kind in zip(sides, ("user", "item"), strict=True))
    y = y.to_pandas() if hasattr(y, "to_pandas") else y
    if len(y) != len(users):
        raise DataError(f"there are {len(users)} users and items, and {len(y)} ratings")
    number = start + np.arange(len(users))
    if weight is not None:
        weight = read_weights(weight, len(users))
        rows = np.flatnonzero(weight)
        users, items, y, weight, number = users[rows], items[rows], _rows_of(y, rows), weight[rows], number[rows]
    ordered, level, declared = np.zeros(0), np.zeros(0, dtype=np.int64), False
    if len(users):
        ordered, level, declared = encoded_ratings(y, levels, users, items, number)
    if ordered.size > 1:
        enough_levels(ordered)
    (users, user), (items, item) = numbered(users), numbered(items)
    summary = RatingSummary(users, items, _counts(user, users), _counts(item, items), ordered, declared)
    return summary, RatingRows(user, item, level.astype(np.int16), weight)


def _rows_of(y: Any, rows: IntArray) -> Any:  # array-like
    return y.iloc[rows] if hasattr(y, "iloc") else np.asarray(y)[rows]


def numbered(ids: IdColumn) -> tuple[IdColumn, NDArray[np.int32]]:
    """Return the distinct ids of a column, sorted, and the number of each row's."""
    vocabulary = Vocabulary.from_columns(ids)
    return vocabulary.ids, vocabulary.encode(ids).astype(np.int32)


def _counts(rows: NDArray[np.int32], ids: IdColumn) -> NDArray[np.int32]:
    return np.bincount(rows, minlength=ids.size).astype(np.int32)


def levels_of_all(summaries: Sequence[RatingSummary]) -> NDArray[Any]:
    """Return the levels of the ratings of all shards, low to high."""
    with_rows = [summary for summary in summaries if summary.n_rows]
    if not with_rows:
        raise DataError("Found array with 0 sample(s) while a minimum of 1 is required for X: it has no ratings")
    first = with_rows[0]
    if not first.is_declared:
        return enough_levels(np.unique(np.concatenate([summary.levels for summary in with_rows])))
    other = next((s for s in with_rows if s.levels.tolist() != first.levels.tolist()), None)
    if other is not None:
        raise DataError(
            f"y has the categories {shorten(first.levels.tolist())} in one shard and {shorten(other.levels.tolist())} "
            "in another; list all levels in levels, low to high"
        )
    return enough_levels(first.levels)


def rating_columns(names: list[str], columns: RatingColumns) -> RatingColumns:
    """Return columns that a collection has."""
    check_names(names, dict(zip(("user", "item", "y", "sample_weight"), columns, strict=True)))
    named = [name for name in columns if name is not None]
    if len({*named}) < len(named):
        raise DataError(f"user, item, y and sample_weight must be different columns of X; got {', '.join(named)}")
    return columns
