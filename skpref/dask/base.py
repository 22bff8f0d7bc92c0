"""What the estimators on collections of Dask share: the client, lazy predictions, partitions."""

from __future__ import annotations

import inspect
import threading
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skpref._doc_link import DocLinkMixin
from skpref.exceptions import DataError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "OnCluster",
    "aligned_partitions",
    "check_collection",
    "is_collection",
    "partitions",
    "refuse_moments",
    "submitted",
    "with_parameters_of",
]

_Class = TypeVar("_Class", bound=type)


def with_parameters_of(parent: type) -> Callable[[_Class], _Class]:
    """Return a decorator that puts the parameters and attributes of a class into a docstring before its own."""

    def decorated(cls: _Class) -> _Class:
        own, inherited = inspect.cleandoc(cls.__doc__ or ""), inspect.cleandoc(parent.__doc__ or "")
        before, _, after = own.partition("Attributes\n----------\n")
        tables = inherited[inherited.find("Parameters\n----------") : inherited.find("See Also\n--------")].rstrip()
        cls.__doc__ = f"{before}{tables}\n{after}"
        return cls

    return decorated


class OnCluster(DocLinkMixin, BaseEstimator):
    """An estimator that is fitted on the workers of a cluster."""

    _plain: ClassVar[type[BaseEstimator]]  # the estimator of the same model in memory
    _takes_collections: ClassVar[bool] = True

    @property
    def client(self) -> Any:
        """The client to use: the one that was set, else the current one."""
        chosen = getattr(self, "_client", None)
        return _current_client() if chosen is None else chosen

    @client.setter
    def client(self, client: Any) -> None:
        self._client = client

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the client, which belongs to a process."""
        return {name: value for name, value in super().__getstate__().items() if name != "_client"}

    def _here(self, values: Any) -> Any:
        """Return a collection as an array in memory; anything else as it is."""
        return np.asarray(self.client.compute(values).result()) if is_collection(values) else values

    def to_local(self) -> Any:
        """Return the fitted model as the estimator for data in memory, which needs no cluster and can be saved.

        Returns
        -------
        BaseEstimator
            A model with the same parameters and the same posterior: a `GPPLClassifier` of a `DaskGPPLClassifier`, and
            so on.
        """
        check_is_fitted(self)
        local: Any = self._plain(**self.get_params(deep=False))
        local.__setstate__(self.__getstate__())
        return local

    def _lazily(self, method: str, X: Any, **options: Any) -> Any:
        """Return the predictions for the partitions of a collection as an array of Dask."""
        import dask

        model, parts = self.to_local(), partitions(X, "X")
        classes = getattr(model, "classes_", np.empty(0))  # numbers have none
        width = (classes.size,) if method == "predict_proba" else ()
        empty = np.empty((0, *width), dtype=classes.dtype if method == "predict" else np.float64)
        rows = getattr(X, "chunks", ((np.nan,) * len(parts),))[0]
        answer = partial(_answer, method=method, empty=empty, options=options)
        chunks = (rows, *((n,) for n in width))
        carried = _carried(parts)
        return _blocks(answer, carried, [dask.delayed(model)], chunks, empty)


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


def _carried(parts: Sequence[Any]) -> Any:
    """Return partitions as an array of Dask, each a block under a key of its own.

    Dask fuses what leads to such a key into one task. So the scheduler does not see the keys of the collection, which
    other computations may have fused in another way: it warns of a key with two graphs.
    """
    return _blocks(_part, parts, [], ((np.nan,) * len(parts),), np.empty(0))


def submitted(client: Any, columns: Sequence[Sequence[Any] | None], n: int) -> list[list[Any]]:
    """Return futures of n partitions of each column; None for each where there is no column."""
    from distributed import futures_of

    arrays = client.persist([_carried(column) for column in columns if column is not None])  # shared reads once
    futures = iter([sorted(futures_of(array), key=lambda future: future.key[1]) for array in arrays])
    return [[None] * n if column is None else next(futures) for column in columns]


def _part(part: Any) -> Any:
    return part


def _answer(model: Any, part: Any, method: str, empty: NDArray[Any], options: dict[str, Any]) -> NDArray[Any]:
    """Return predictions for a partition, which may be empty."""
    return np.asarray(getattr(model, method)(part, **options)) if len(part) else empty


def _current_client() -> Any:
    try:
        from distributed import default_client
    except ImportError as error:
        raise MissingExtraError("skpref.dask needs Dask: pip install 'skpref[dask]'") from error
    try:
        return default_client()
    except ValueError as error:
        raise DataError(
            "there is no client of a Dask cluster: start one by `from distributed import Client; client = Client()`, "
            "or set the attribute `client` of the estimator"
        ) from error


def is_collection(X: Any) -> bool:
    """Tell whether X is a collection of Dask."""
    return hasattr(X, "to_delayed")


def check_collection(values: Any, name: str, plain: str) -> None:
    """Refuse what is no collection of Dask, with the estimator for data in memory."""
    if not is_collection(values):
        raise DataError(
            f"{name} must be a frame or an array of Dask; got {type(values).__name__}. Data in memory are for "
            f"{plain}; dask.dataframe.from_pandas makes a collection of a frame, read_parquet of files"
        )


def refuse_moments(asked: bool) -> None:
    """Refuse to return two arrays for a collection."""
    if asked:
        raise DataError(
            "return_std and return_cov need X in memory; got a collection of Dask. Use "
            "X.map_partitions(lambda part: local.predict(part, return_std=True)[1]) with local = model.to_local()"
        )


# Until Python 3.12 a cached_property holds a lock of its class while it is computed, and those of Dask's frames compute
# each other: two threads that read frames may wait for each other for ever (python/cpython#87634).
COLLECTIONS: Final = threading.RLock()


def partitions(values: Any, name: str) -> list[Any]:
    """Return the partitions of a collection, whole rows each."""
    if getattr(values, "ndim", 1) == 2 and hasattr(values, "rechunk"):
        values = values.rechunk({1: -1})
    # Optimised, few columns of Parquet files have fewer partitions than many: X and y would no longer fit together.
    with COLLECTIONS:
        parts = values.to_delayed(optimize_graph=False)
    parts = list(parts.ravel()) if isinstance(parts, np.ndarray) else list(parts)
    if not parts:
        raise DataError(f"{name} has no partitions")
    return parts


def aligned_partitions(values: Any, name: str, parts: list[Any], plain: str) -> list[Any] | None:
    """Return the partitions of labels or weights; None where they are a column of X, or missing."""
    if values is None or isinstance(values, str):
        return None
    check_collection(values, name, plain)
    others = partitions(values, name)
    if len(others) != len(parts):
        raise DataError(
            f"X has {len(parts)} partitions and {name} has {len(others)}: take both from one frame, or repartition one "
            "of them"
        )
    return others
