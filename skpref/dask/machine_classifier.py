"""`DaskVariationalFMClassifier`: factorization machines for two classes on a cluster."""

from __future__ import annotations

from typing import Any, Self

from sklearn.metrics import accuracy_score

from skpref._callbacks import fit_callbacks, fit_context
from skpref._estimator import unchanged_on_failure
from skpref.dask.base import is_collection, with_parameters_of
from skpref.dask.machine import FMOnCluster
from skpref.factorization.fm_classifier import VariationalFMClassifier

__all__ = ["DaskVariationalFMClassifier"]


@with_parameters_of(VariationalFMClassifier)
class DaskVariationalFMClassifier(FMOnCluster, VariationalFMClassifier):
    """`VariationalFMClassifier` on frames of Dask.

    Columns are ids and numbers, as in files, and each partition is a shard, as for `DaskVariationalFM`: the same
    partitions give the same bits for any number of workers.

    Attributes
    ----------
    client : distributed.Client
        The client to use; set it before `fit`, or leave it to be the current client.

    See Also
    --------
    VariationalFMClassifier : The same in memory, or with Parquet files on one machine.

    Examples
    --------
    >>> import dask.dataframe
    >>> from distributed import Client
    >>> from skpref.dask import DaskVariationalFMClassifier
    >>> with Client() as client:  # doctest: +SKIP
    ...     rows = dask.dataframe.read_parquet("clicks/")
    ...     model = DaskVariationalFMClassifier().fit(rows, "clicked").to_local()
    """

    _plain = VariationalFMClassifier

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : dask.dataframe.DataFrame of shape (n, n_columns)
            Columns of ids and of numbers. Columns that are named as labels or weights are no features.
        y : dask.dataframe.Series, dask.array.Array or str, default=None
            Labels of two classes, in the partitions of X, or the name of a column of X. None: the column y of X.
        sample_weight : dask.dataframe.Series, dask.array.Array or str, default=None
            Weights of the rows, likewise; None: all weights are 1.

        Returns
        -------
        DaskVariationalFMClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            As in `VariationalFMClassifier`; if there is no client; or if X, y and `sample_weight` differ in their
            partitions.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            return self._fit_partitions(X, y, sample_weight)

    def predict(self, X: Any) -> Any:
        """Predict the more probable class.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or array-like of shape (n, n_columns)
            Rows, with the columns of `fit`.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            Labels, from `classes_`; of a collection computed when they are asked for.
        """
        return self._lazily("predict", X) if is_collection(X) else super().predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, averaged over the posterior.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or array-like of shape (n, n_columns)
            Rows, with the columns of `fit`.

        Returns
        -------
        dask.array.Array or ndarray of shape (n, 2)
            Probabilities, in the order of `classes_`; of a collection computed when they are asked for.
        """
        return self._lazily("predict_proba", X) if is_collection(X) else super().predict_proba(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or array-like of shape (n, n_columns)
            Rows, with the columns of `fit`.
        y : collection of Dask or array-like of shape (n,)
            Labels. They, their weights and the predictions come to the client.
        sample_weight : collection of Dask or array-like of shape (n,), default=None
            Weights of the rows; None: all weights are 1.

        Returns
        -------
        float
            The accuracy, in [0, 1].
        """
        y, predicted, sample_weight = (self._here(values) for values in (y, self.predict(X), sample_weight))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))
