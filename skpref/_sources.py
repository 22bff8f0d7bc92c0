"""Rows that are not in memory: Parquet files or collections of Dask, which are read part by part.

`as_source` is the one place that knows where rows are. What an estimator does with them are functions of a table, its
targets, its weights and the number of its first row; `SourceRows` runs them where the rows are.
"""

from __future__ import annotations

from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import numpy as np

from skpref.data.columns import NO_ROWS
from skpref.data.shards import with_shared_ids
from skpref.data.stored import (
    check_names,
    column_values,
    is_stored,
    located,
    open_dataset,
    read_tables,
    refuse_too_many,
    shared_schema,
    stored_names,
)
from skpref.exceptions import DataError
from skpref.inference.shards import OnDisk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from skpref._typing import Features
    from skpref.inference.shards import Shards

__all__ = [
    "Source",
    "SourceRows",
    "accept_collections",
    "as_source",
    "become_unfitted",
    "bring_rows",
    "feature_columns",
    "is_collection",
    "is_elsewhere",
    "read_batch",
    "refuse_more_rows",
    "refuse_parameters",
    "set_features",
    "target_column",
]

_Method = TypeVar("_Method", bound="Callable[..., Any]")


def is_collection(X: Any) -> bool:  # anything
    """Tell whether X is a collection of Dask."""
    return hasattr(X, "to_delayed")


def is_elsewhere(X: Any) -> bool:  # anything
    """Tell whether X is not in memory: files, or a collection of Dask."""
    return is_stored(X) or is_collection(X)


class Source(Protocol):
    """A table that is not in memory."""

    names: list[str] | None  # of its columns; None: an array of Dask, which has none
    width: int  # number of its columns
    y: Any  # column of targets, if `fit` was given its name
    weight: Any  # column of weights, likewise
    are_apart: tuple[bool, bool]  # whether `fit` was given targets and weights as collections of their own
    has_order: bool  # whether columns of ids without a name are the first ones, as in memory; else their usual names

    def rows(self, columns: Sequence[str], y: str | None, weight: str | None, group: str | None = None) -> SourceRows:
        """Return the rows with some columns, targets and weights; no part of a file divides a group."""

    def schema(self, names: Sequence[str]) -> Any:
        """Return the types of columns, as a schema of pyarrow."""


class SourceRows(Protocol):
    """Rows that are not in memory; functions take a table, targets, weights, the number of the first row, and more."""

    n_rows: int

    def everything(self) -> tuple[Any, Any, Any]:
        """Return all rows, targets and weights."""
        X, y, weight = zip(*(part for part in self.collect(whole_part) if len(part[0])), strict=True)
        if isinstance(X[0], np.ndarray):
            rows = np.concatenate(X)
        else:
            import pandas as pd

            frames = [part.to_pandas() if hasattr(part, "to_pandas") else part for part in X]
            rows = pd.concat(frames, ignore_index=True)
        return rows, np.concatenate(y), None if weight[0] is None else np.concatenate(weight)

    def collect(self, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield the results of a function of one part of the rows after the other."""

    def keep(self, function: Callable[..., tuple[Any, Any]], *shared: Any) -> tuple[Shards, list[Any], list[Any]]:
        """Return shards of the parts, the first results of a function, and handles on its second ones."""


def as_source(X: Any, y: Any, weight: Any) -> Source:
    """Return files or a collection as a table that is not in memory."""
    if is_stored(X):
        return FileSource(open_dataset(X), y, weight)
    from skpref.dask.source import DaskSource

    return DaskSource(X, y, weight)


class FileSource:
    """A dataset of pyarrow."""

    are_apart, has_order = (False, False), False

    def __init__(self, dataset: Any, y: Any, weight: Any) -> None:
        self._dataset, self.y, self.weight = dataset, y, weight
        self.names: list[str] | None = stored_names(dataset)
        self.width = len(self.names)

    def rows(self, columns: Sequence[str], y: str | None, weight: str | None, group: str | None = None) -> SourceRows:
        """Return the rows with some columns."""
        return _FileRows(self._dataset, list(columns), y, weight, group)

    def schema(self, names: Sequence[str]) -> Any:
        """Return the types of columns."""
        return shared_schema(self._dataset, list(names))


class _FileRows(SourceRows):
    """Rows of a dataset of pyarrow; up to a million are in memory at a time."""

    def __init__(self, dataset: Any, columns: list[str], y: str | None, weight: str | None, group: str | None) -> None:
        self._dataset, self._columns, self._y, self._weight, self._group = dataset, columns, y, weight, group

    @cached_property
    def n_rows(self) -> int:  # type: ignore[override]  # once it is asked for
        """Number of rows."""
        return int(self._dataset.count_rows())

    def collect(self, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield the results."""
        named = [name for name in (*self._columns, self._y, self._weight) if name is not None]
        start = 0
        for table in read_tables(self._dataset, named, self._group):
            y = None if self._y is None else table[self._y]
            weight = None if self._weight is None else column_values(table[self._weight])
            yield call_on_part(table.select(self._columns), y, weight, start, function, *shared)
            start += len(table)

    def keep(self, function: Callable[..., tuple[Any, Any]], *shared: Any) -> tuple[Shards, list[Any], list[Any]]:
        """Return shards on disk."""
        shards, brought, kept = OnDisk(), [], []
        ids: dict[Any, Any] = {}
        try:
            for first, second in self.collect(function, *shared):
                brought.append(with_shared_ids(first, ids))
                kept.append(shards.store(second))
        except BaseException:
            shards.close()  # even where the traceback still refers to the handles
            raise
        return shards, brought, kept


def whole_part(X: Any, y: Any, weight: Any, start: int) -> tuple[Any, Any, Any]:
    """Return the rows, targets and weights of a part as they are."""
    del start
    return X, column_values(y), weight


def call_on_part(X: Any, y: Any, weight: Any, start: int, function: Callable[..., Any], *shared: Any) -> Any:
    """Call a function on a part of the rows; errors say which rows these are."""
    try:
        return function(X, y, weight, start, *shared)
    except ValueError as error:
        raise located(error, f"rows {start} to {start + len(X) - 1} of X") from error


# -------------------------------------------------------------------------------------- what estimators ask of a source
def feature_columns(source: Source, *others: str) -> tuple[SourceRows, list[str] | int]:
    """Return rows of features, targets and weights, and the features: their names, or how many there are."""
    y = target_column(source)
    names: list[str] | int = source.width
    if source.names is not None:
        check_names(source.names, {"y": y, "sample_weight": source.weight})
        names = [name for name in source.names if name not in {y, source.weight}]
        if not set(names) - set(others):
            raise DataError(f"X has no columns of features, only the named ones: {', '.join(source.names[:20])}")
    rows = source.rows([] if isinstance(names, int) else names, y, source.weight, *others)
    if not rows.n_rows:
        raise DataError(NO_ROWS.format("X", "rows"))
    return rows, names


def bring_rows(rows: SourceRows, what: str) -> tuple[Any, Any, Any]:
    """Return all rows, targets and weights for what needs them in memory, unless there are too many."""
    refuse_too_many(rows.n_rows, what)
    return rows.everything()


def target_column(source: Source) -> str | None:
    """Return the name of the column of targets; None if `fit` was given a separate y."""
    if source.names is None and (source.weight is not None or not source.are_apart[0]):
        raise DataError("y and sample_weight must be collections of Dask where X is an array without column names")
    if source.are_apart[0]:
        return None
    return "y" if source.y is None else source.y


def refuse_parameters(reasons: dict[str, bool], instead: str) -> None:
    """Refuse a model that needs all rows in memory, and name the first parameter whose condition is true."""
    for parameter, refused in reasons.items():
        if refused:
            raise DataError(f"{parameter} needs all rows in memory; rows in files or on a cluster are fitted {instead}")


def refuse_more_rows() -> NoReturn:
    """Refuse to add rows to a fit that kept neither its rows nor sums that determine it."""
    raise DataError(
        "partial_fit needs the rows of the fit, and a fit to files or on a cluster keeps none of them: fit again with "
        "all rows in memory"
    )


def become_unfitted(estimator: Any, names: list[str] | int) -> None:
    """Make an estimator forget an earlier fit, and remember the features: their names, or how many there are."""
    private = {"_rows", "_sums", "_state", "_states", "_warm_key"}
    for name in [name for name in vars(estimator) if name.endswith("_") or name in private]:
        delattr(estimator, name)
    set_features(estimator, names)


def set_features(estimator: Any, names: list[str] | int) -> None:
    """Set the number of columns of X, and their names if they have any."""
    vars(estimator).pop("feature_names_in_", None)
    estimator.n_features_in_ = names if isinstance(names, int) else len(names)
    if not isinstance(names, int):
        estimator.feature_names_in_ = np.array(names, dtype=object)


def read_batch(X: Any, y: Any, weight: Any, shell: Any, classes: Any = None) -> tuple[Features, Any, Any] | None:
    """Return rows of positive weight, targets and weights of a part; None if there are none."""
    if not len(X) or (weight is not None and not np.any(weight)):
        return None
    X = X.to_pandas() if hasattr(X, "to_pandas") else X
    # Regressors take no classes, but exposures there.
    return shell._read(X, column_values(y), weight, classes, reset=False)  # noqa: SLF001 - its own


# ------------------------------------------------------------------------------------------- predictions of collections
def accept_collections(method: _Method) -> _Method:
    """Let a method of fitted models take a collection of Dask, too.

    Predictions are lazy, each partition is answered where it is. For a score, rows and targets come to the client.
    """

    @wraps(method)
    def answered(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_collection(X):
            return method(self, X, *args, **options)
        from skpref.dask.source import answered_lazily, computed

        if method.__name__ != "score":
            return answered_lazily(self, method.__name__, X, *args, **options)
        X, *others = computed(X, *args, *options.values())
        return method(self, X, *others[: len(args)], **dict(zip(options, others[len(args) :], strict=True)))

    return answered  # type: ignore[return-value]
