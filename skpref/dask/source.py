"""Collections of Dask: rows in their partitions, functions of them on the workers, and lazy predictions."""

from __future__ import annotations

import inspect
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from skpref._sources import SourceRows, call_on_part, is_collection
from skpref._warn import importing
from skpref.dask.shards import OnDask, released_on_failure
from skpref.data.shards import with_shared_ids
from skpref.exceptions import DataError

# Until Python 3.12 a cached_property holds a lock of its class while it is computed, and those of Dask's frames compute
# each other: two threads that read frames may wait for each other for ever (python/cpython#87634).
_COLLECTIONS: Final = threading.RLock()


class DaskSource:
    """A frame or an array of Dask."""

    has_order = True

    def __init__(self, X: Any, y: Any, weight: Any) -> None:
        """Check that X, targets and weights have the same partitions."""
        self._client = _current_client()
        self.y, self.weight = (value if isinstance(value, str) else None for value in (y, weight))
        with _COLLECTIONS:
            if getattr(X, "ndim", 2) != 2:
                raise DataError(f"Expected 2D array, got {X.ndim}D array instead: X must be a table of Dask")
            self.names: list[str] | None = [str(name) for name in X.columns] if hasattr(X, "columns") else None
            self.width, self._meta, self._parts = int(X.shape[1]), getattr(X, "_meta", None), _partitions(X, "X")
            self._given = [_aligned(v, name, self._parts) for v, name in ((y, "y"), (weight, "sample_weight"))]
        self.are_apart = self._given[0] is not None, self._given[1] is not None

    def rows(self, columns: Sequence[str], y: str | None, weight: str | None, group: str | None = None) -> SourceRows:
        """Return the rows with some columns; each partition is a part."""
        del group  # a group that is in two partitions is refused later
        return _DaskRows(self._client, [self._parts, *self._given], (list(columns), y, weight))

    def schema(self, names: Sequence[str]) -> Any:
        """Return the types of columns."""
        import pyarrow as pa

        del names
        return pa.Schema.from_pandas(_with_text_names(self._meta), preserve_index=False)


class _DaskRows(SourceRows):
    """Rows in the partitions of a collection."""

    def __init__(
        self, client: Any, collections: Sequence[Any], columns: tuple[list[str], str | None, str | None]
    ) -> None:
        self._columns, self._shards = columns, OnDask(client)
        n = len(collections[0])
        self._held = _submitted(client, collections, n)
        with self._released():
            sizes = list(self._shards.collect(_size, list(range(n)), *self._held))
        self._starts = np.cumsum([0, *sizes[:-1]]).tolist()
        self.n_rows = sum(sizes)

    def collect(self, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield the results."""
        sent = [function, *map(self._shards.share, (self._columns, *shared))]
        return self._shards.collect(_on_partition, *self._held, self._starts, shared=sent)

    def keep(self, function: Callable[..., tuple[Any, Any]], *shared: Any) -> tuple[OnDask, list[Any], list[Any]]:
        """Return shards on the workers."""
        sent = [function, *map(self._shards.share, (self._columns, *shared))]
        with self._released():
            first, second = self._shards.keep(_on_partition, *self._held, self._starts, shared=sent)
        ids: dict[Any, Any] = {}
        return self._shards, [with_shared_ids(summary, ids) for summary in first], self._shards.balanced(second)

    def _released(self) -> Any:
        return released_on_failure([future for column in self._held for future in column if future is not None])


def _on_partition(
    X: Any,
    y: Any,
    weight: Any,
    start: int,
    function: Callable[..., Any],
    columns: tuple[list[str], str | None, str | None],
    *shared: Any,
) -> Any:
    """Return a function of the rows, targets and weights of a partition."""
    if hasattr(X, "columns"):
        X = _with_text_names(X)
        y, weight = (v if name is None else X[name] for v, name in zip((y, weight), columns[1:], strict=True))
        X = X[columns[0]]
    return call_on_part(X, y, None if weight is None else np.asarray(weight), start, function, *shared)


def _with_text_names(frame: Any) -> Any:
    """Return a frame whose columns have names that are text."""
    if all(isinstance(name, str) for name in frame.columns):
        return frame
    frame = frame.copy(deep=False)
    frame.columns = list(map(str, frame.columns))
    return frame


def _size(number: int, X: Any, y: Any, weight: Any) -> int:
    """Return the number of rows of a partition."""
    for values, name in ((y, "y"), (weight, "sample_weight")):
        if values is not None and len(values) != len(X):
            raise DataError(f"X has {len(X)} rows and {name} has {len(values)} in partition {number}")
    return len(X)


def _current_client() -> Any:
    with importing("collections of Dask need: pip install 'skpref[dask]'"):
        from distributed import default_client
    try:
        return default_client()
    except ValueError as error:
        raise DataError(
            "X is a collection of Dask, and there is no client of a cluster: start one by `from distributed import "
            "Client; client = Client()`, or pass X.compute() if the rows fit into memory"
        ) from error


def _partitions(values: Any, name: str) -> list[Any]:
    """Return the partitions of a collection, whole rows each."""
    if getattr(values, "ndim", 1) == 2 and hasattr(values, "rechunk"):
        values = values.rechunk({1: -1})
    # Optimised, few columns of Parquet files have fewer partitions than many: X and y would no longer fit together.
    with _COLLECTIONS:
        parts = values.to_delayed(optimize_graph=False)
    parts = list(parts.ravel()) if isinstance(parts, np.ndarray) else list(parts)
    if not parts:
        raise DataError(f"{name} has no partitions")
    return parts


def _aligned(values: Any, name: str, parts: list[Any]) -> list[Any] | None:
    """Return the partitions of targets or weights; None where they are a column of X, or missing."""
    if values is None or isinstance(values, str):
        return None
    if not is_collection(values):
        raise DataError(
            f"X is a collection of Dask, so {name} must be one, too, or the name of a column of X; got "
            f"{type(values).__name__}"
        )
    others = _partitions(values, name)
    if len(others) != len(parts):
        raise DataError(
            f"X has {len(parts)} partitions and {name} has {len(others)}: take both from one frame, or repartition one "
            "of them"
        )
    return others


def _submitted(client: Any, columns: Sequence[Sequence[Any] | None], n: int) -> list[list[Any]]:
    """Return futures of n partitions of each column; None for each where there is no column."""
    from distributed import futures_of

    arrays = client.persist([_carried(column) for column in columns if column is not None])  # shared reads once
    futures = iter([sorted(futures_of(array), key=lambda future: future.key[1]) for array in arrays])
    return [[None] * n if column is None else next(futures) for column in columns]


# ---------------------------------------------------------------------------------------------------------- predictions
def answered_lazily(model: Any, method: str, X: Any, *args: Any, **options: Any) -> Any:
    """Return what a method of a fitted model answers for the partitions of a collection, as an array of Dask."""
    import dask

    asked = inspect.signature(getattr(model, method)).bind(X, *args, **options).arguments
    if asked.get("return_std") or asked.get("return_cov"):
        raise DataError(
            "return_std and return_cov need X in memory; got a collection of Dask. Use "
            "X.map_partitions(lambda part: model.predict(part, return_std=True)[1])"
        )
    classes = getattr(model, "classes_", np.empty(0))  # numbers have none
    width = (classes.size + bool(asked.get("ties")),) if method == "predict_proba" else ()
    empty = np.empty((0, *width), dtype=classes.dtype if method == "predict" else np.float64)
    parts = _partitions(X, "X")
    rows = getattr(X, "chunks", ((np.nan,) * len(parts),))[0]
    answer = partial(_answer, method=method, empty=empty, args=args, options=options)
    return _blocks(answer, _carried(parts), [dask.delayed(model)], (rows, *((n,) for n in width)), empty)


def computed(*values: Any) -> list[Any]:
    """Return values, collections in memory."""
    import dask

    return list(dask.compute(*values, traverse=False))


def _answer(
    model: Any, part: Any, method: str, empty: NDArray[Any], args: tuple[Any, ...], options: dict[str, Any]
) -> NDArray[Any]:
    """Return predictions for a partition, which may be empty."""
    return np.asarray(getattr(model, method)(part, *args, **options)) if len(part) else empty


def _carried(parts: Sequence[Any]) -> Any:
    """Return partitions as an array of Dask, each a block under a key of its own.

    Dask fuses what leads to such a key into one task. So the scheduler does not see the keys of the collection, which
    other computations may have fused in another way: it warns of a key with two graphs.
    """
    return _blocks(_part, parts, [], ((np.nan,) * len(parts),), np.empty(0))


def _part(part: Any) -> Any:
    return part


def _blocks(function: Any, parts: Any, shared: Sequence[Any], chunks: Any, meta: NDArray[Any]) -> Any:
    """Return the array of Dask whose blocks are function(*shared, part), under keys of its own."""
    import dask.array
    from dask.highlevelgraph import HighLevelGraph

    name = f"{getattr(function, 'func', function).__name__.strip('_')}-{uuid.uuid4().hex}"
    before, zeros = [one.key for one in shared], [0] * (len(chunks) - 1)
    is_array = isinstance(parts, dask.array.Array)
    keys = parts.__dask_keys__() if is_array else [part.key for part in parts]
    tasks = {(name, k, *zeros): (function, *before, key) for k, key in enumerate(keys)}
    graph = HighLevelGraph.from_collections(name, tasks, [*shared, *([parts] if is_array else parts)])
    return dask.array.Array(graph, name, chunks, meta=meta)
