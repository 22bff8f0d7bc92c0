"""`DaskGPPLClassifier`: comparisons on a cluster."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from skpref._callbacks import fit_callbacks
from skpref._estimator import unchanged_on_failure
from skpref.dask.shards import OnDask, released_on_failure
from skpref.data.labels import left_column, read_labels
from skpref.data.shards import ShardColumns, located, read_shard, with_shared_ids
from skpref.exceptions import DataError, MissingExtraError
from skpref.gp.pairwise import GPPLClassifier
from skpref.gp.pairwise.columns import refuse_two_weights
from skpref.metrics import pair_accuracy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref.data import Comparisons
    from skpref.data.shards import ShardOptions, ShardSummary

__all__ = ["DaskGPPLClassifier"]

_Model = TypeVar("_Model", bound=GPPLClassifier)


def _with_its_parameters(cls: type[_Model]) -> type[_Model]:
    """Put the parameters and attributes of `GPPLClassifier` into the docstring before those of the class."""
    own, parent = inspect.cleandoc(cls.__doc__ or ""), inspect.cleandoc(GPPLClassifier.__doc__ or "")
    before, _, after = own.partition("Attributes\n----------\n")
    tables = parent[parent.find("Parameters\n----------") : parent.find("See Also\n--------")].rstrip()
    cls.__doc__ = f"{before}{tables}\n{after}"
    return cls


@_with_its_parameters
class DaskGPPLClassifier(GPPLClassifier):
    """`GPPLClassifier` on collections of Dask.

    Each partition is a shard. A pass sends the posterior to the shards, and brings sums back, which are added in the
    order of the partitions: the same partitions give the same bits for any number of workers. The result is that of
    `GPPLClassifier` on the same comparisons, up to rounding. Length-scales are learnt from 50,000 comparisons.

    ``inference="svi"`` and ``"linearised"``, covariates and likelihoods with ties need all comparisons in memory and
    are refused.

    Attributes
    ----------
    client : distributed.Client
        The client to use; set it before `fit`, or leave it to be the current client.

    See Also
    --------
    GPPLClassifier : The same in memory, or with Parquet files on one machine.

    Examples
    --------
    >>> import dask.dataframe
    >>> from distributed import Client
    >>> from skpref.dask import DaskGPPLClassifier
    >>> with Client() as client:  # doctest: +SKIP
    ...     rows = dask.dataframe.read_parquet("comparisons/")
    ...     model = DaskGPPLClassifier().fit(rows[["left", "right"]], rows["y"]).to_local()
    """

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

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the utilities of the items.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or dask.array.Array of shape (n, 2)
            Ids of the left and the right item; of a frame the columns that `left` and `right` name, else the first two.
        y : dask.dataframe.Series, dask.array.Array or str, default=None
            Labels as in `GPPLClassifier`, in the partitions of X; or the name of a column of X. None: the column y of
            X, as in Parquet files; without one, left preferred in every row.
        sample_weight : dask.dataframe.Series, dask.array.Array or str, default=None
            Weights of the comparisons, likewise; None weighs each 1.

        Returns
        -------
        DaskGPPLClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            As in `GPPLClassifier`; if there is no client; if X, y and `sample_weight` differ in their partitions; or
            if a parameter needs all comparisons in memory.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            _check_collection(X, "X")
            frame = hasattr(X, "columns")
            names = [str(name) for name in X.columns] if frame else ["0", "1"]
            columns = self._dask_columns(X, y, sample_weight)
            shards, parts = OnDask(self.client), _partitions(X, "X")
            y_parts, weights = (
                _aligned_partitions(values, name, parts)
                for values, name in ((y, "y"), (sample_weight, "sample_weight"))
            )
            futures = [None if column is None else self.client.compute(column) for column in (parts, y_parts, weights)]
            numbers = list(range(len(parts)))
            held = [[None] * len(parts) if column is None else column for column in futures]
            ids: dict[Any, Any] = {}
            with released_on_failure([future for column in held for future in column if future is not None]):
                summaries, rows = shards.keep(_read_partition, numbers, *held, shared=(columns, self._shard_options()))
            del futures, held
            summaries = [with_shared_ids(summary, ids) for summary in summaries]
            self._fit_shards(shards, summaries, rows, self._names_in(names, columns), frames=4)
            if not frame:
                del self.feature_names_in_
        return self

    def _dask_columns(self, X: Any, y: Any, sample_weight: Any) -> ShardColumns:
        """Return the columns of X that parameters name; None for labels and weights that are given apart."""
        refuse_two_weights(self.weight, sample_weight)
        if hasattr(X, "columns"):
            first, second, *_ = [*map(str, X.columns), "a second column", "a third"]
            chosen = self._shard_columns(
                [str(name) for name in X.columns],
                y if isinstance(y, str) else None,
                sample_weight if isinstance(sample_weight, str) else None,
                first=first,
                second=second,
            )
            return chosen if y is None or isinstance(y, str) else chosen._replace(y=None)
        self._shard_columns(["left", "right"], None, None)
        if X.ndim != 2 or X.shape[1] != 2:
            raise DataError(f"Expected 2D array of 2 columns for X, got shape {X.shape} instead")
        return ShardColumns("", "", None, None)

    def predict(self, X: Any) -> Any:
        """Return the preferred side of each comparison.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, 2)
            Comparisons, with the columns of `fit`.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            The side as `fit` was given it; of a collection computed when it is asked for.
        """
        return self._lazily("predict", X) if _is_collection(X) else super().predict(X)

    def predict_proba(self, X: Any, *, ties: bool = False) -> Any:
        """Return the probabilities of the two answers to each comparison.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, 2)
            Comparisons, with the columns of `fit`.
        ties : bool, default=False
            Must be False, since likelihoods with ties need all comparisons in memory.

        Returns
        -------
        dask.array.Array or ndarray of shape (n, 2)
            Probabilities in the order of `classes_`; of a collection computed when they are asked for.
        """
        if not _is_collection(X):
            return super().predict_proba(X, ties=ties)
        if ties:
            raise DataError("ties must be False: likelihoods with ties need all comparisons in memory; got ties=True")
        return self._lazily("predict_proba", X)

    def decision_function(self, X: Any) -> Any:
        """Return the posterior mean of the utility difference, of the second class of `classes_` minus the first.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, 2)
            Comparisons, with the columns of `fit`.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            Differences in units of the answer noise; of a collection computed when they are asked for.
        """
        return self._lazily("decision_function", X) if _is_collection(X) else super().decision_function(X)

    def predict_preference(self, X: Any) -> Any:
        """Return the probability that the left item has the larger utility.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, 2)
            Ids of the left and the right item.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            P(u_left > u_right); of a collection computed when it is asked for.
        """
        return self._lazily("predict_preference", X) if _is_collection(X) else super().predict_preference(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy of the predicted sides; ties do not count.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, 2)
            Comparisons, with the columns of `fit`.
        y : collection of Dask or array-like of shape (n,), default=None
            Labels as in `fit`. They, their weights and the predictions come to the client.
        sample_weight : collection of Dask or array-like of shape (n,), default=None
            Weights of the comparisons; None weighs all alike.

        Returns
        -------
        float
            Share of correct predictions, in [0, 1].
        """
        if not _is_collection(X):
            return super().score(X, y, sample_weight)
        y, sample_weight = (self._here(values) for values in (y, sample_weight))
        left = self._here(self.predict_proba(X))[:, left_column(self.classes_)]
        return pair_accuracy(read_labels(y, left.size), left, sample_weight=sample_weight)

    def _here(self, values: Any) -> Any:
        """Return a collection as an array in memory; anything else as it is."""
        return np.asarray(self.client.compute(values).result()) if _is_collection(values) else values

    def to_local(self) -> GPPLClassifier:
        """Return the fitted model as a `GPPLClassifier`, which needs no cluster and can be saved.

        Returns
        -------
        GPPLClassifier
            A model with the same parameters and the same posterior.
        """
        check_is_fitted(self)
        local = GPPLClassifier(**self.get_params(deep=False))
        local.__setstate__(self.__getstate__())
        return local

    def _lazily(self, method: str, X: Any) -> Any:
        """Return the predictions for the partitions of a collection as an array of Dask."""
        import dask
        import dask.array

        check_is_fitted(self)
        local = dask.delayed(self.to_local())
        dtype = self.classes_.dtype if method == "predict" else np.dtype(np.float64)
        shape = (np.nan, 2) if method == "predict_proba" else (np.nan,)
        answers = [dask.delayed(_answer)(local, method, part) for part in _partitions(X, "X")]
        meta = np.empty((0,) * len(shape), dtype=dtype)
        return dask.array.concatenate([dask.array.from_delayed(part, shape, meta=meta) for part in answers])


def _answer(model: GPPLClassifier, method: str, part: Any) -> NDArray[Any]:
    """Return predictions for a partition, which may be empty."""
    if len(part):
        return np.asarray(getattr(model, method)(part))
    dtype = model.classes_.dtype if method == "predict" else np.dtype(np.float64)
    return np.empty((0, 2) if method == "predict_proba" else 0, dtype=dtype)


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


def _is_collection(X: Any) -> bool:
    return hasattr(X, "to_delayed")


def _check_collection(values: Any, name: str) -> None:
    if not _is_collection(values):
        raise DataError(
            f"{name} must be a frame or an array of Dask; got {type(values).__name__}. Data in memory are for "
            "GPPLClassifier; dask.dataframe.from_pandas makes a collection of a frame"
        )


def _partitions(values: Any, name: str) -> list[Any]:
    """Return the partitions of a collection, whole rows each."""
    if getattr(values, "ndim", 1) == 2 and hasattr(values, "rechunk"):
        values = values.rechunk({1: -1})
    parts = values.to_delayed()
    parts = list(parts.ravel()) if isinstance(parts, np.ndarray) else list(parts)
    if not parts:
        raise DataError(f"{name} has no partitions")
    return parts


def _aligned_partitions(values: Any, name: str, parts: list[Any]) -> list[Any] | None:
    """Return the partitions of labels or weights; None where they are a column of X, or missing."""
    if values is None or isinstance(values, str):
        return None
    _check_collection(values, name)
    others = _partitions(values, name)
    if len(others) != len(parts):
        raise DataError(
            f"X has {len(parts)} partitions and {name} has {len(others)}: take both from one frame, or repartition one "
            "of them"
        )
    return others


def _read_partition(
    number: int, X: Any, y: Any, weight: Any, columns: ShardColumns, options: ShardOptions
) -> tuple[ShardSummary, Comparisons]:
    """Return the summary and the merged comparisons of a partition."""
    if hasattr(X, "columns"):
        frame = dict(zip(map(str, X.columns), (X.iloc[:, k] for k in range(X.shape[1])), strict=True))
        left, right = frame[columns.left], frame[columns.right]
        y = y if columns.y is None else frame[columns.y]
        weight = weight if columns.weight is None else frame[columns.weight]
    else:
        left, right = X[:, 0], X[:, 1]
    for values, name in ((y, "y"), (weight, "sample_weight")):
        if values is not None and len(values) != len(left):
            raise DataError(f"X has {len(left)} rows and {name} has {len(values)} in partition {number}")
    try:
        return read_shard(left, right, y, weight, options)
    except ValueError as error:
        raise located(error, f"partition {number} of X") from error
