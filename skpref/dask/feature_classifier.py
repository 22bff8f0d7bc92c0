"""`DaskSVGPClassifier`: classes on a cluster."""

from __future__ import annotations

from typing import Any, Self

from sklearn.metrics import accuracy_score

from skpref._callbacks import fit_callbacks, fit_context
from skpref._estimator import unchanged_on_failure, warn_not_converged
from skpref.dask.base import OnCluster, check_collection, is_collection, with_parameters_of
from skpref.dask.rows import PartitionRows
from skpref.gp.sparse import SVGPClassifier

__all__ = ["DaskSVGPClassifier"]


@with_parameters_of(SVGPClassifier)
class DaskSVGPClassifier(OnCluster, SVGPClassifier):
    """`SVGPClassifier` on collections of Dask.

    Kernels and inducing points are learnt in the client from a sample, half of it of the rarer class, or all that there
    is. The posteriors are found in full passes: each sends a posterior to the partitions and brings sums back, which
    are added in the order of the partitions, so that the same partitions give the same bits for any number of workers.
    With up to 10,000 rows it is `SVGPClassifier` on all of them; with more each of several classes has its own model.

    ``multi_class="softmax"``, ``inference="svi"``, ``optimizer="adam"`` and a window need all rows in memory and are
    refused.

    Attributes
    ----------
    client : distributed.Client
        The client to use; set it before `fit`, or leave it to be the current client.

    See Also
    --------
    SVGPClassifier : The same in memory, or with Parquet files on one machine.

    Examples
    --------
    >>> import dask.dataframe
    >>> from distributed import Client
    >>> from skpref.dask import DaskSVGPClassifier
    >>> with Client() as client:  # doctest: +SKIP
    ...     rows = dask.dataframe.read_parquet("clicks/")
    ...     model = DaskSVGPClassifier().fit(rows, "clicked").to_local()
    """

    _plain = SVGPClassifier

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn kernels, inducing points and the posteriors.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or dask.array.Array of shape (n, n_features)
            Rows. Columns of a frame that are named as classes or weights are no features.
        y : dask.dataframe.Series, dask.array.Array or str, default=None
            Classes, in the partitions of X, or the name of a column of X. None: the column y of X.
        sample_weight : dask.dataframe.Series, dask.array.Array or str, default=None
            Weights >= 0, likewise; None: each row has weight 1.

        Returns
        -------
        DaskSVGPClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            As in `SVGPClassifier`; if there is no client; if X, y and `sample_weight` differ in their partitions; or if
            a parameter needs all rows in memory.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            check_collection(X, "X", "SVGPClassifier")
            self._fit_source(PartitionRows(self, X, y, sample_weight))
            if not self.converged_:
                warn_not_converged(self, self.n_iter_, cut_short=self._cut_short)
        return self

    def predict(self, X: Any) -> Any:
        """Predict the most probable class of every row.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, n_features)
            Rows.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            Classes; of a collection computed when they are asked for.
        """
        return self._lazily("predict", X) if is_collection(X) else super().predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of all classes.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, n_features)
            Rows.

        Returns
        -------
        dask.array.Array or ndarray of shape (n, n_classes)
            Probabilities in the order of `classes_`; of a collection computed when they are asked for.
        """
        if not is_collection(X):
            return super().predict_proba(X)
        return self._lazily("predict_proba", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, n_features)
            Rows.
        y : collection of Dask or array-like of shape (n,)
            Classes. They, their weights and the predictions come to the client.
        sample_weight : collection of Dask or array-like of shape (n,), default=None
            Weights of the rows; None: all weights are 1.

        Returns
        -------
        float
            The accuracy, in [0, 1].
        """
        if not is_collection(X):
            return float(super().score(X, y, sample_weight))
        y, predicted, sample_weight = (self._here(values) for values in (y, self.predict(X), sample_weight))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))
