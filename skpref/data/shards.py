"""Rows in shards: what is read of each shard where it is, and what all shards must agree on.

A reader takes a table, its targets and weights and the number of its first row. It returns a summary of the shard,
which is brought here, and its rows by the numbers of the summary, which stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpref._checks import check_arrays, check_positive, is_count, require
from skpref._typing import AnyArray, Array, IntArray
from skpref._validation import assert_all_finite, check_numbers
from skpref._warn import warn
from skpref.data.columns import NO_ROWS, Column, Columns
from skpref.data.comparisons import Comparisons, OnSelf, from_labels
from skpref.data.design import ColumnDesign, checked_numbers
from skpref.data.ids import IdColumn, Vocabulary, as_ids, objects, shorten
from skpref.data.labels import classes_of
from skpref.data.levels import check_labels, stated_order
from skpref.data.policy import POLICY
from skpref.data.ratings import Ratings, encoded_ratings, enough_levels
from skpref.data.roles import Roles, context_of
from skpref.data.stored import check_names, column_values
from skpref.data.weights import read_weights
from skpref.exceptions import DataError


# ----------------------------------------------------------------------------------------------------------------- ids
def numbered(ids: IdColumn) -> tuple[IdColumn, NDArray[np.int32]]:
    """Return the distinct ids of a column, sorted, and the number of each row's."""
    vocabulary = Vocabulary.from_columns(ids)
    return vocabulary.ids, vocabulary.encode(ids).astype(np.int32)


def with_shared_ids(summary: Any, ids: dict[Any, Any]) -> Any:  # a summary of a shard
    """Return a summary whose strings are those of `ids`, to which new ones are added: shards share most of them."""
    return type(summary)(*(_shared(value, ids) for value in summary))


def _shared(value: Any, ids: dict[Any, Any]) -> Any:  # a field of a summary
    if isinstance(value, list):
        return [_shared(column, ids) for column in value]
    if not isinstance(value, np.ndarray) or value.dtype != object:
        return value
    return objects([ids.setdefault(one, one) for one in value.tolist()])


def without_repeats(columns: list[IdColumn]) -> list[IdColumn]:
    """Return one column of the distinct ids, where all are objects; shards share most of them."""
    if any(column.dtype != object for column in columns):
        return columns
    return [objects(list(dict.fromkeys(chain.from_iterable(column.tolist() for column in columns))))]


# -------------------------------------------------------------------------------------------------------- comparisons
class ShardOptions(NamedTuple):
    """How the comparisons of a shard are read and merged."""

    on_self: OnSelf
    keep_order: bool
    keep_ties: bool | None


class ShardSummary(NamedTuple):
    """Summary of a shard that is needed before the fit."""

    ids: IdColumn  # distinct ids of its rows
    used: IntArray  # those, by number, that occur in a comparison of positive weight
    component: IntArray  # connected component of each of them
    weight: Array  # total weight of the comparisons of each of them
    n_pairs: int  # merged comparisons
    labels: list[float]  # some distinct labels of positive weight, the least and the greatest among them
    classes: AnyArray | None  # the two sides as the labels write them; None without rows
    users: Any = None  # distinct ids of the users
    pairs_of_user: Any = None  # (n_users,): merged comparisons of each
    groups: Sequence[IdColumn] = ()  # distinct ids of the groups of each kind
    is_dated: bool | None = None  # whether times are dates; None without times or rows


@dataclass(frozen=True, eq=False)
class ComparisonCounts:
    """What is left of comparisons that were in shards: how often each item was compared."""

    weight: Array  # (n_items,): total weights

    def validate(self) -> None:
        """Raise DataError unless there is a weight of each item."""
        check_arrays(self, weight="N")
        check_positive(self, "weight", zero=True)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.weight.size)

    def counts(self) -> Array:
        """Return the total weight of the comparisons of each item, shape (n_items,)."""
        return self.weight


def read_shard(
    table: Any, y: Any, weight: Any, start: int, roles: Roles, options: ShardOptions
) -> tuple[ShardSummary, Comparisons]:
    """Return the summary of a table of a shard and its merged comparisons, by the numbers of `used`."""
    del start
    y = None if y is None else column_values(y)
    columns = Columns.of(table, "X", leave_out="")
    left, right = columns.ids(roles.left), columns.ids(roles.right)
    answering, of_groups, time, is_dated = context_of(columns, roles)
    users, user = (None, None) if answering is None else numbered(answering)
    covariates = [columns.numbers(term, meaning="a covariate") for term in roles.covariates]
    groups = list(map(numbered, of_groups))
    vocabulary = Vocabulary.from_columns(left, right)
    rows = from_labels(
        vocabulary.encode(left),
        vocabulary.encode(right),
        y,
        vocabulary.size,
        sample_weight=weight,
        on_self=options.on_self,
        names=vocabulary.ids,
        user=user,
        n_users=0 if users is None else users.size,
        covariates=np.column_stack(covariates) if covariates else None,
        group=np.column_stack([number for _, number in groups]).astype(np.int64) if groups else None,
        time=time,
    )
    labels = np.unique(rows.y[rows.weight > 0.0])
    merged, used = rows.merged(keep_order=options.keep_order, keep_ties=options.keep_ties).compact()
    summary = ShardSummary(
        vocabulary.ids,
        used,
        merged.components()[1][: used.size],
        merged.counts()[: used.size],
        merged.n_pairs,
        [*labels[:3].tolist(), *labels[-1:].tolist()],  # four tell whether there are others than wins and ties
        classes_of(y) if left.size else None,
        users,
        None if users is None else np.bincount(np.asarray(merged.user), minlength=users.size),
        [ids for ids, _ in groups],
        is_dated if left.size and time is not None else None,
    )
    return summary, merged


def check_classes(classes: list[AnyArray], advice: str = "write the labels of all of them in the same way") -> AnyArray:
    """Return the two sides, or the levels, as the labels of all shards write them."""
    first = classes[0]
    other = next((c for c in classes if c.tolist() != first.tolist() or c.dtype.kind != first.dtype.kind), None)
    if other is not None:
        both = f"{shorten(first.tolist())} in one shard and {shorten(other.tolist())} in another"
        raise DataError(f"y holds {both}: {advice}")
    return first


# ------------------------------------------------------------------------------------------------------------ ratings
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
    levels: AnyArray  # distinct ratings, or the levels that the shard or the caller declares
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
        y = y.iloc[rows] if hasattr(y, "iloc") else np.asarray(y)[rows]
        users, items, weight, number = users[rows], items[rows], weight[rows], number[rows]
    ordered, level, declared = np.zeros(0), np.zeros(0, dtype=np.int64), False
    if len(users):
        ordered, level, declared = encoded_ratings(y, levels, users, items, number)
    if ordered.size > 1:
        enough_levels(ordered)
    (users, user), (items, item) = numbered(users), numbered(items)
    summary = RatingSummary(users, items, _counts(user, users), _counts(item, items), ordered, declared)
    return summary, RatingRows(user, item, level.astype(np.int16), weight)


def _counts(rows: NDArray[np.int32], ids: IdColumn) -> NDArray[np.int32]:
    return np.bincount(rows, minlength=ids.size).astype(np.int32)


def levels_of_all(summaries: Sequence[RatingSummary]) -> AnyArray:
    """Return the levels of the ratings of all shards, low to high."""
    with_rows = [summary for summary in summaries if summary.n_rows]
    if not with_rows:
        raise DataError(NO_ROWS.format("X", "ratings"))
    levels = [summary.levels for summary in with_rows]
    if not with_rows[0].is_declared:
        return enough_levels(np.unique(np.concatenate(levels)))
    return enough_levels(check_classes(levels, "list all levels in levels, low to high"))


def rating_columns(names: list[str], columns: RatingColumns) -> RatingColumns:
    """Return columns that a collection has."""
    check_names(names, dict(zip(("user", "item", "y", "sample_weight"), columns, strict=True)))
    named = [name for name in columns if name is not None]
    if len({*named}) < len(named):
        raise DataError(f"user, item, y and sample_weight must be different columns of X; got {', '.join(named)}")
    return columns


# ----------------------------------------------------------------------------------------------------- rows of features
class RowColumns(NamedTuple):
    """Columns of features."""

    names: tuple[str, ...]
    is_id: tuple[bool, ...]  # of each of them
    are_named: bool  # whether the caller has named those of ids


class RowSummary(NamedTuple):
    """Summary of a shard that is needed before the fit; only rows of positive weight count."""

    n_rows: int
    ids: list[IdColumn | None]  # distinct ids of each column, sorted; None: numbers
    labels: AnyArray | None  # distinct targets, of a classifier
    weight: float  # total
    squares: float  # weighted sum of the squares of all features
    largest: float  # size of a target
    label_weights: Array | None = None  # total of each distinct target, of a classifier
    orders: Sequence[AnyArray] = ()  # all categories of targets that are ordered categories, in one order or more


class RowShard(NamedTuple):
    """Rows of a shard, by the numbers of its summary."""

    columns: list[AnyArray]  # places of ids, int32, or numbers
    y: Array  # targets, or places of labels
    weight: Array


def row_columns(schema: Any, names: Sequence[str], categorical: Any) -> RowColumns:  # of pyarrow
    """Return the columns of features: ids are those that are named, or else all but floats and booleans."""
    import pyarrow as pa

    kinds = {name: schema.field(name).type for name in names}
    tests = pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal
    if categorical is None:
        is_id = [not any(test(kinds[name]) for test in tests) for name in names]
        return RowColumns(tuple(names), tuple(is_id), are_named=False)
    chosen = [categorical] if isinstance(categorical, str) else list(categorical)
    unknown = [name for name in chosen if name not in names]
    if unknown:
        listed = ", ".join(map(str, names[:20]))
        raise DataError(f"categorical_features names {unknown[0]!r}, which is not one of the features of X: {listed}")
    for name in names:
        if name not in chosen and not any(test(kinds[name]) for test in (*tests, pa.types.is_integer)):
            what = f"column {name!r} of X holds {kinds[name]}, and no numbers"
            raise DataError(f"{what}: name it in categorical_features, or leave it out of the files")
    return RowColumns(tuple(names), tuple(name in chosen for name in names), are_named=True)


def read_rows(
    table: Any, y: Any, weight: Any, start: int, columns: RowColumns, labels: bool
) -> tuple[RowSummary, RowShard]:
    """Return summary and rows of a table of pyarrow or pandas."""
    import pyarrow as pa

    del start
    if not hasattr(table, "to_pandas"):
        try:
            table = pa.Table.from_pandas(table, preserve_index=False)
        except pa.ArrowException as error:
            raise DataError(f"a column of X mixes types: {error}") from error
    weight = read_weights(weight, len(table))
    used: Any = slice(None) if weight.all() else np.flatnonzero(weight)
    weight, orders, distinct, label_weights = weight[used], [], None, None
    is_decimal = isinstance(y, pa.ChunkedArray) and pa.types.is_decimal(y.type)
    target = column_values(y.cast(pa.float64()) if is_decimal else y)
    if labels:
        orders = [order for part in getattr(y, "chunks", [y]) if (order := stated_order(part)[0]) is not None]
        distinct, target = np.unique(np.asarray(check_labels(target))[used], return_inverse=True)
        label_weights = np.bincount(target, weight, distinct.size).astype(np.float64, copy=False)
    else:
        try:
            target = np.asarray(check_numbers(target, "y"), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"y must be numbers: {error}") from error
        assert_all_finite(target, input_name="y")
        target = target[used]
    ids: list[IdColumn | None] = []
    places: list[AnyArray] = []
    total, squares = float(weight.sum()), 0.0
    for name, is_id in zip(columns.names, columns.is_id, strict=True):
        if is_id:
            column = as_ids(table[name], f"column {name!r}", "row", name, leave_out="")
            own, place = numbered(column if weight.size == column.size else column[used])
        else:
            own, place = None, _numbers_of(table[name], name)[used]
        ids.append(own)
        places.append(place)
        squares += total if is_id else float(weight @ place**2)
    largest = float(np.abs(target).max(initial=0.0))
    summary = RowSummary(weight.size, ids, distinct, total, squares, largest, label_weights, orders)
    return summary, RowShard(places, target.astype(np.float64, copy=False), weight)


def _numbers_of(column: Any, name: str) -> Array:  # of pyarrow
    import pyarrow as pa

    if column.null_count:
        row = int(np.argmax(column.combine_chunks().is_null().to_numpy(zero_copy_only=False)))
        raise DataError(f"column {name!r} has no value in row {row}: fill it in, or leave the row out")
    return checked_numbers(column_values(column.cast(pa.float64())), name)


def design_of_shards(
    columns: RowColumns, summaries: Sequence[RowSummary]
) -> tuple[ColumnDesign, list[list[NDArray[np.int32] | None]]]:
    """Return the features of shards with rows, and the place of each shard's distinct ids among those of all."""
    if not summaries:
        raise DataError(NO_ROWS.format("X", "rows, or none of positive sample_weight"))
    vocabularies: list[Vocabulary | None] = []
    for k, is_id in enumerate(columns.is_id):
        own: list[Any] = [summary.ids[k] for summary in summaries]
        vocabularies.append(Vocabulary.from_columns(*without_repeats(own)) if is_id else None)
    if not columns.are_named:
        _warn_of_numbers(columns, vocabularies, sum(summary.n_rows for summary in summaries))
    places = [
        [
            None if all_ids is None or ids is None else all_ids.encode(ids, noun="distinct id").astype(np.int32)
            for all_ids, ids in zip(vocabularies, summary.ids, strict=True)
        ]
        for summary in summaries
    ]
    return ColumnDesign(columns.names, tuple(vocabularies)), places


def _warn_of_numbers(columns: RowColumns, vocabularies: Sequence[Vocabulary | None], n_rows: int) -> None:
    """Warn of a column of integers or dates that was taken for ids, though most rows have one of their own."""
    for name, ids in zip(columns.names, vocabularies, strict=True):
        if ids is not None and max(POLICY.many_ids, n_rows // 2) < ids.size and not isinstance(ids.ids[0], str):
            what = f"column {name!r} has {ids.size} different values in {n_rows} rows, and each is an id with a feature"
            warn(f"{what}. If they are numbers, write floats, or name the columns of ids in categorical_features.")
