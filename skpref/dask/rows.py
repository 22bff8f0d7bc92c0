"""Rows in the partitions of a collection of Dask, and functions of them on the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.dask.base import COLLECTIONS, aligned_partitions, partitions, submitted
from skpref.dask.shards import OnDask, released_on_failure
from skpref.data.shards import feature_columns
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["PartitionRows"]


class PartitionRows:
    """Rows of a collection of Dask."""

    def __init__(self, estimator: Any, X: Any, y: Any, weight: Any) -> None:
        client, plain = estimator.client, estimator._plain.__name__  # noqa: SLF001 - of `OnCluster`
        frame = hasattr(X, "columns")
        if not frame and (y is None or isinstance(y, str) or isinstance(weight, str)):
            raise DataError("y and sample_weight must be collections of Dask where X is an array without column names")
        self._columns = tuple(value if isinstance(value, str) else None for value in ("y" if y is None else y, weight))
        with COLLECTIONS:
            parts = partitions(X, "X")
            given = [
                aligned_partitions(values, name, parts, plain) for values, name in ((y, "y"), (weight, "sample_weight"))
            ]
            self.feature_names: list[str] | int = (
                feature_columns([str(name) for name in X.columns], *self._columns) if frame else int(X.shape[1])
            )
        futures = submitted(client, [parts, *given], len(parts))
        self._shards, self._held = OnDask(client), futures
        with released_on_failure([future for column in futures for future in column if future is not None]):
            sizes = list(self._shards.collect(_size, list(range(len(parts))), *futures))
        self._starts = np.cumsum([0, *sizes[:-1]]).tolist()
        self.n_rows = sum(sizes)

    def everything(self) -> tuple[Any, Any, Any]:
        """Return all rows, targets and weights."""
        batches = [batch for batch in self.collect(_same) if len(batch[1])]
        X, y, weight = zip(*batches, strict=True)
        if hasattr(X[0], "columns"):
            import pandas as pd

            rows = pd.concat(X)
        else:
            rows = np.concatenate(X)
        return rows, np.concatenate(y), None if weight[0] is None else np.concatenate(weight)

    def collect(self, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield function(X, y, weight, number of the first row, *shared) of one partition after the other."""
        sent = [function, self._columns, np.asarray, *map(self._shards.share, shared)]
        return self._shards.collect(_on_partition, *self._held, self._starts, shared=sent)

    def keep(
        self, function: Callable[..., tuple[Any, Any]], *shared: Any, read_target: Callable[[Any], Any] = np.asarray
    ) -> tuple[OnDask, list[Any], list[Any]]:
        """Return the shards, the first results of such a function, and futures of its second ones."""
        sent = [function, self._columns, read_target, *map(self._shards.share, shared)]
        first, second = self._shards.keep(_on_partition, *self._held, self._starts, shared=sent)
        return self._shards, first, self._shards.balanced(second)


def _on_partition(
    X: Any,
    y: Any,
    weight: Any,
    start: int,
    function: Callable[..., Any],
    columns: tuple[str | None, ...],
    read_target: Callable[[Any], Any],
    *shared: Any,
) -> Any:
    """Return a function of the rows, targets and weights of a partition."""
    y, weight = (values if name is None else X[name] for name, values in zip(columns, (y, weight), strict=True))
    target = None if y is None else read_target(y)
    weights = None if weight is None else np.asarray(weight)
    if hasattr(X, "columns"):
        X = X.drop(columns=[name for name in columns if name is not None])
    return function(X, target, weights, start, *shared)


def _same(X: Any, y: Any, weight: Any, start: int) -> tuple[Any, Any, Any]:
    del start
    return X, y, weight


def _size(number: int, X: Any, y: Any, weight: Any) -> int:
    """Return the number of rows of a partition."""
    for values, name in ((y, "y"), (weight, "sample_weight")):
        if values is not None and len(values) != len(X):
            raise DataError(f"X has {len(X)} rows and {name} has {len(values)} in partition {number}")
    return len(X)
