"""`DaskVariationalFMOrdinal`: factorization machines for ordered levels on a cluster."""

from __future__ import annotations

from typing import Any, Literal, Self

from skpref._callbacks import fit_callbacks, fit_context
from skpref._estimator import unchanged_on_failure
from skpref.dask.base import is_collection, with_parameters_of
from skpref.dask.machine import FMOnCluster
from skpref.factorization.fm_ordinal import VariationalFMOrdinal

__all__ = ["DaskVariationalFMOrdinal"]


@with_parameters_of(VariationalFMOrdinal)
class DaskVariationalFMOrdinal(FMOnCluster, VariationalFMOrdinal):
    """`VariationalFMOrdinal` on frames of Dask.

    Columns are ids and numbers, as in files, and each partition is a shard, as for `DaskVariationalFM`: the same
    partitions give the same bits for any number of workers.

    Attributes
    ----------
    client : distributed.Client
        The client to use; set it before `fit`, or leave it to be the current client.

    See Also
    --------
    VariationalFMOrdinal : The same in memory, or with Parquet files on one machine.

    Examples
    --------
    >>> import dask.dataframe
    >>> from distributed import Client
    >>> from skpref.dask import DaskVariationalFMOrdinal
    >>> with Client() as client:  # doctest: +SKIP
    ...     rows = dask.dataframe.read_parquet("reviews/")
    ...     model = DaskVariationalFMOrdinal().fit(rows, "stars").to_local()
    """

    _plain = VariationalFMOrdinal

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : dask.dataframe.DataFrame of shape (n, n_columns)
            Columns of ids and of numbers. Columns that are named as labels or weights are no features.
        y : dask.dataframe.Series, dask.array.Array or str, default=None
            Ordered labels, in the partitions of X, or the name of a column of X. None: the column y of X.
        sample_weight : dask.dataframe.Series, dask.array.Array or str, default=None
            Weights of the rows, likewise; None: all weights are 1.

        Returns
        -------
        DaskVariationalFMOrdinal
            The fitted estimator.

        Raises
        ------
        ValueError
            As in `VariationalFMOrdinal`; if there is no client; or if X, y and `sample_weight` differ in their
            partitions.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            return self._fit_partitions(X, y, sample_weight)

    def predict(self, X: Any, loss: Literal["zero-one", "absolute"] = "zero-one") -> Any:
        """Predict a level for every row.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or array-like of shape (n, n_columns)
            Rows, with the columns of `fit`.
        loss : {"zero-one", "absolute"}, default="zero-one"
            "zero-one": the most probable level. "absolute": the median level, which minimises the expected distance in
            ranks.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            Labels, from `classes_`; of a collection computed when they are asked for.
        """
        return self._lazily("predict", X, loss=loss) if is_collection(X) else super().predict(X, loss)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each level, averaged over the posterior.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or array-like of shape (n, n_columns)
            Rows, with the columns of `fit`.

        Returns
        -------
        dask.array.Array or ndarray of shape (n, n_classes)
            Probabilities, in the order of `classes_`; of a collection computed when they are asked for.
        """
        return self._lazily("predict_proba", X) if is_collection(X) else super().predict_proba(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return minus the mean absolute error in ranks of the median level.

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
            At most 0, for perfect predictions.
        """
        return self._score_of(*map(self._here, (self.predict(X, loss="absolute"), y, sample_weight)))
