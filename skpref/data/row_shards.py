"""Rows of ids and numbers in files: their columns as features, and what is read of a million rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from skpref._checks import are_names, require
from skpref._validation import assert_all_finite, check_numbers, column_names
from skpref._warn import warn
from skpref.data.ids import as_ids, shorten
from skpref.data.levels import check_labels, stated_order
from skpref.data.rating_shards import numbered
from skpref.data.shards import without_repeats
from skpref.data.stored import column_values, is_stored
from skpref.data.vocabulary import Vocabulary
from skpref.data.weights import read_weights
from skpref.exceptions import DataError, DataWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray
    from skpref.data.ids import IdColumn

_LARGEST = 1e25  # limit on numbers: their eighth powers must fit into float64
_MANY_IDS = 1000  # distinct numbers up to which a column is taken for ids without a warning


@dataclass(frozen=True, eq=False)
class ColumnDesign:
    """Columns as features: a feature for each id and one for unseen ids, or the number itself."""

    names: tuple[str, ...]
    ids: tuple[Vocabulary | None, ...]  # of each column; None: numbers

    def validate(self) -> None:
        """Raise DataError unless there are ids or numbers of each column."""
        sound = bool(self.names) and are_names(self.names, len(self.ids)) and isinstance(self.ids, tuple)
        require(sound, self, "names", "must be a name of each column")
        require(all(isinstance(ids, Vocabulary | None) for ids in self.ids), self, "ids", "must be ids or None")

    @property
    def widths(self) -> list[int]:
        """Number of the features of each column."""
        return [1 if ids is None else ids.size + 1 for ids in self.ids]

    @property
    def starts(self) -> IntArray:
        """First feature of each column, and their number, shape (n_columns + 1,)."""
        return np.concatenate([[0], np.cumsum(self.widths)]).astype(np.int64)

    @property
    def groups(self) -> IntArray:
        """Column of each feature."""
        return np.repeat(np.arange(len(self.names)), self.widths)

    def same_as(self, other: ColumnDesign | None) -> bool:
        """Tell whether another design has the same features."""
        return (
            other is not None
            and self.names == other.names
            and all(
                a is b or (a is not None and b is not None and np.array_equal(a.ids, b.ids))
                for a, b in zip(self.ids, other.ids, strict=True)
            )
        )

    def matrix(self, columns: Sequence[NDArray[Any] | None]) -> sparse.csr_array:
        """Return the features of rows of numbers and of places of ids; columns that are None have no entries."""
        starts = self.starts
        held = [(k, column) for k, column in enumerate(columns) if column is not None]
        n = held[0][1].size if held else 0
        index, value = np.empty((n, len(held)), dtype=np.int64), np.ones((n, len(held)))
        for entry, (k, column) in enumerate(held):
            index[:, entry] = starts[k]
            if self.ids[k] is None:
                value[:, entry] = column
            else:
                index[:, entry] += column
        index = index.astype(sparse.get_index_dtype(maxval=max(value.size, int(starts[-1]))), copy=False)
        start = np.arange(n + 1, dtype=index.dtype) * index.dtype.type(len(held))
        X = sparse.csr_array((value.ravel(), index.ravel(), start), (n, int(starts[-1])))
        X.eliminate_zeros()
        return X

    def transform(self, X: Any) -> sparse.csr_array:  # any table
        """Return the features of rows in memory: a data frame with these columns, or rows of as many entries."""
        names = column_names(X)
        rows = None if names is not None else _as_rows(X, len(self.names))
        columns: list[NDArray[Any] | None] = []
        for k, (name, ids) in enumerate(zip(self.names, self.ids, strict=True)):
            values = X[name] if rows is None else rows[:, k]
            if ids is None:
                columns.append(_checked_numbers(values, name))
                continue
            place = ids.encode(values, f"column {name!r}", unknown="mark", noun="row", kind=name)
            columns.append(np.where(place < 0, ids.size, place))
        return self.matrix(columns)

    def get_feature_names_out(self) -> NDArray[np.object_]:
        """Return the names of the features: "user_ann", "user (unseen)", "price"."""
        names: list[str] = []
        for name, ids in zip(self.names, self.ids, strict=True):
            names += [name] if ids is None else [*(f"{name}_{one}" for one in ids.ids.tolist()), f"{name} (unseen)"]
        return np.array(names, dtype=object)


def _as_rows(X: Any, width: int) -> NDArray[Any]:  # any table
    if is_stored(X):
        raise DataError(f"X is {shorten(str(X))}; fit takes files, and other methods take rows in memory: read them")
    rows = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise DataError(f"X must have the {width} columns of the files of fit; got the shape {rows.shape}")
    return rows


def _checked_numbers(values: Any, name: str) -> Array:  # array-like
    try:
        numbers = np.asarray(check_numbers(values, "X"), dtype=np.float64)
        assert_all_finite(numbers, input_name="X")
    except (TypeError, ValueError) as error:
        raise DataError(f"column {name!r} holds numbers: {error}") from error
    largest = float(np.abs(numbers).max(initial=0.0))
    if largest > _LARGEST:
        raise DataError(f"overflow in interactions; scale X: column {name!r} holds values up to {largest:g}.")
    return numbers


# ------------------------------------------------------------------------------------------------------------- reading
class RowColumns(NamedTuple):
    """Columns of features."""

    names: tuple[str, ...]
    is_id: tuple[bool, ...]  # of each of them
    are_named: bool  # whether the caller has named those of ids


class RowSummary(NamedTuple):
    """Summary of a shard that is needed before the fit; only rows of positive weight count."""

    n_rows: int
    ids: list[IdColumn | None]  # distinct ids of each column, sorted; None: numbers
    labels: NDArray[Any] | None  # distinct targets, of a classifier
    weight: float  # total
    squares: float  # weighted sum of the squares of all features
    largest: float  # size of a target
    label_weights: Array | None = None  # total of each distinct target, of a classifier
    orders: Sequence[NDArray[Any]] = ()  # all categories of targets that are ordered categories, in one order or more


class RowShard(NamedTuple):
    """Rows of a shard, by the numbers of its summary."""

    columns: list[NDArray[Any]]  # places of ids, int32, or numbers
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
            raise DataError(
                f"column {name!r} of X holds {kinds[name]}, and no numbers: name it in categorical_features, or leave "
                "it out of the files"
            )
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
    summary, rows = _read(table, _target_values(y), weight, columns, labels=labels)
    return summary._replace(orders=_orders(y) if labels else ()), rows


def _target_values(y: Any) -> NDArray[Any]:  # a column
    """Return targets as an array, decimals as floats."""
    import pyarrow as pa

    return column_values(y.cast(pa.float64()) if isinstance(y, pa.ChunkedArray) and pa.types.is_decimal(y.type) else y)


def _orders(y: Any) -> list[NDArray[Any]]:  # a column
    """Return the order of categories, one for each part of a column."""
    stated = (stated_order(part)[0] for part in getattr(y, "chunks", [y]))
    return [order for order in stated if order is not None]


def _read(
    table: Any,  # of pyarrow
    y: NDArray[Any],
    weight: NDArray[Any] | None,
    columns: RowColumns,
    *,
    labels: bool,
) -> tuple[RowSummary, RowShard]:
    weight = read_weights(weight, len(table))
    used: Any = slice(None) if weight.all() else np.flatnonzero(weight)
    weight, distinct, label_weights = weight[used], None, None
    if labels:
        distinct, y = np.unique(np.asarray(check_labels(y))[used], return_inverse=True)
        label_weights = np.bincount(y, weight, distinct.size).astype(np.float64, copy=False)
    else:
        try:
            y = np.asarray(check_numbers(y, "y"), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"y must be numbers: {error}") from error
        assert_all_finite(y, input_name="y")
        y = y[used]
    ids: list[IdColumn | None] = []
    places: list[NDArray[Any]] = []
    squares = 0.0
    for name, is_id in zip(columns.names, columns.is_id, strict=True):
        if is_id:
            column = as_ids(table[name], f"column {name!r}", "row", name, leave_out="")
            own, place = numbered(column if weight.size == column.size else column[used])
            ids.append(own)
            places.append(place)
            squares += float(weight.sum())
        else:
            ids.append(None)
            places.append(_numbers_of(table[name], name)[used])
            squares += float(weight @ places[-1] ** 2)
    largest = float(np.abs(y).max(initial=0.0))
    total = float(weight.sum())
    summary = RowSummary(weight.size, ids, distinct, total, squares, largest, label_weights)
    return summary, RowShard(places, y.astype(np.float64, copy=False), weight)


def _numbers_of(column: Any, name: str) -> Array:  # of pyarrow
    import pyarrow as pa

    if column.null_count:
        row = int(np.argmax(column.combine_chunks().is_null().to_numpy(zero_copy_only=False)))
        raise DataError(f"column {name!r} has no value in row {row}: fill it in, or leave the row out")
    return _checked_numbers(column_values(column.cast(pa.float64())), name)


def design_of_shards(
    columns: RowColumns, summaries: Sequence[RowSummary]
) -> tuple[ColumnDesign, list[list[NDArray[np.int32] | None]]]:
    """Return the features of shards with rows, and the place of each shard's distinct ids among those of all."""
    if not summaries:
        raise DataError(
            "Found array with 0 sample(s) while a minimum of 1 is required for X: it has no rows, or none of positive "
            "sample_weight"
        )
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
        if ids is not None and max(_MANY_IDS, n_rows // 2) < ids.size and not isinstance(ids.ids[0], str):
            warn(
                f"column {name!r} has {ids.size} different values in {n_rows} rows, each of which is an id and a "
                "feature. If they are numbers, such as times, leave the column out, write it as floats, or name the "
                "columns of ids in categorical_features.",
                DataWarning,
            )
