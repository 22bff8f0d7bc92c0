"""Comparisons in the partitions of collections of Dask: how they are read, and lazy predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from skpref._callbacks import fit_callbacks
from skpref._estimator import unchanged_on_failure
from skpref.dask.base import (
    COLLECTIONS,
    OnCluster,
    aligned_partitions,
    check_collection,
    is_collection,
    partitions,
    submitted,
)
from skpref.dask.shards import OnDask, released_on_failure
from skpref.data.labels import left_column, read_labels
from skpref.data.shards import ShardColumns, located, read_shard, with_shared_ids
from skpref.exceptions import DataError
from skpref.gp.pairwise.columns import refuse_two_weights
from skpref.metrics import pair_accuracy

if TYPE_CHECKING:
    from skpref.data import Comparisons
    from skpref.data.shards import ShardOptions, ShardSummary

__all__ = ["PartitionedComparisons"]


class PartitionedComparisons(OnCluster):
    """An estimator whose rows are comparisons; it comes before the estimator in memory among the parents."""

    classes_: Any
    feature_names_in_: Any
    weight: Any
    # What the estimator in memory has for shards.
    _sides: ClassVar[tuple[str, ...]]
    _shard_columns: Any
    _shard_options: Any
    _fit_shards: Any
    _names_in: Any

    def _fit_collection(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit to the partitions of a collection, each of which is read where it is."""
        plain = self._plain.__name__
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            check_collection(X, "X", plain)
            with COLLECTIONS:
                frame = hasattr(X, "columns")
                names = [str(name) for name in X.columns] if frame else list("012")[: len(self._sides)]
                columns = self._dask_columns(X, y, sample_weight)
                shards, parts = OnDask(self.client), partitions(X, "X")
                y_parts, weights = (
                    aligned_partitions(values, name, parts, plain)
                    for values, name in ((y, "y"), (sample_weight, "sample_weight"))
                )
            numbers = list(range(len(parts)))
            held = submitted(self.client, [parts, y_parts, weights], len(parts))
            ids: dict[Any, Any] = {}
            with released_on_failure([future for column in held for future in column if future is not None]):
                summaries, rows = shards.keep(_read_partition, numbers, *held, shared=(columns, self._shard_options()))
            rows = shards.balanced(rows)
            del held
            summaries = [with_shared_ids(summary, ids) for summary in summaries]
            self._fit_shards(shards, summaries, rows, self._names_in(names, columns))
            if not frame:
                del self.feature_names_in_
        return self

    def _dask_columns(self, X: Any, y: Any, sample_weight: Any) -> ShardColumns:
        """Return the columns of X that parameters name; None for labels and weights that are given apart."""
        refuse_two_weights(self.weight, sample_weight)
        sides = self._sides
        if hasattr(X, "columns"):
            names = [str(name) for name in X.columns]
            default = (*names, *("a column", "a second column", "a third column")[len(names) :])
            chosen: ShardColumns = self._shard_columns(
                names,
                y if isinstance(y, str) else None,
                sample_weight if isinstance(sample_weight, str) else None,
                ids=default[: len(sides)],
            )
            return chosen if y is None or isinstance(y, str) else chosen._replace(y=None)
        self._shard_columns(list(sides), None, None)
        if X.ndim != 2 or X.shape[1] != len(sides):
            raise DataError(f"Expected 2D array of {len(sides)} columns for X, got shape {X.shape} instead")
        return ShardColumns("", "", None, None)

    def predict(self, X: Any) -> Any:
        """Return the preferred side of each comparison.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, n_columns)
            Comparisons, with the columns of `fit`.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            The side as `fit` was given it; of a collection computed when it is asked for.
        """
        parent: Any = super()
        return self._lazily("predict", X) if is_collection(X) else parent.predict(X)

    def predict_proba(self, X: Any, *, ties: bool = False) -> Any:
        """Return the probabilities of the two answers to each comparison.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, n_columns)
            Comparisons, with the columns of `fit`.
        ties : bool, default=False
            Must be False, since likelihoods with ties need all comparisons in memory.

        Returns
        -------
        dask.array.Array or ndarray of shape (n, 2)
            Probabilities in the order of `classes_`; of a collection computed when they are asked for.
        """
        parent: Any = super()
        if not is_collection(X):
            return parent.predict_proba(X, ties=ties)
        if ties:
            raise DataError("ties must be False: likelihoods with ties need all comparisons in memory; got ties=True")
        return self._lazily("predict_proba", X)

    def decision_function(self, X: Any) -> Any:
        """Return the posterior mean of the utility difference, of the second class of `classes_` minus the first.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, n_columns)
            Comparisons, with the columns of `fit`.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            Differences in units of the answer noise; of a collection computed when they are asked for.
        """
        parent: Any = super()
        return self._lazily("decision_function", X) if is_collection(X) else parent.decision_function(X)

    def predict_preference(self, X: Any) -> Any:
        """Return the probability that the left item has the larger utility.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, n_columns)
            Comparisons, with the columns of `fit`.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            P(u_left > u_right); of a collection computed when it is asked for.
        """
        parent: Any = super()
        return self._lazily("predict_preference", X) if is_collection(X) else parent.predict_preference(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy of the predicted sides; ties do not count.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, n_columns)
            Comparisons, with the columns of `fit`.
        y : collection of Dask or array-like of shape (n,), default=None
            Labels as in `fit`. They, their weights and the predictions come to the client.
        sample_weight : collection of Dask or array-like of shape (n,), default=None
            Weights of the comparisons; None: all weights are 1.

        Returns
        -------
        float
            Share of correct predictions, in [0, 1].
        """
        parent: Any = super()
        if not is_collection(X):
            return float(parent.score(X, y, sample_weight))
        y, sample_weight = (self._here(values) for values in (y, sample_weight))
        left = self._here(self.predict_proba(X))[:, left_column(self.classes_)]
        return pair_accuracy(read_labels(y, left.size), left, sample_weight=sample_weight)


def _read_partition(
    number: int, X: Any, y: Any, weight: Any, columns: ShardColumns, options: ShardOptions
) -> tuple[ShardSummary, Comparisons]:
    """Return the summary and the merged comparisons of a partition."""
    if hasattr(X, "columns"):
        frame = dict(zip(map(str, X.columns), (X.iloc[:, k] for k in range(X.shape[1])), strict=True))
        user = None if columns.user is None else frame[columns.user]
        left, right = frame[columns.left], frame[columns.right]
        y = y if columns.y is None else frame[columns.y]
        weight = weight if columns.weight is None else frame[columns.weight]
    else:
        *before, left, right = X.T
        user = before[0] if before else None
    for values, name in ((y, "y"), (weight, "sample_weight")):
        if values is not None and len(values) != len(left):
            raise DataError(f"X has {len(left)} rows and {name} has {len(values)} in partition {number}")
    try:
        return read_shard(left, right, y, weight, options, user)
    except ValueError as error:
        raise located(error, f"partition {number} of X") from error
