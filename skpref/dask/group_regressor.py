"""`DaskGPPLRegressor`: scores in groups on a cluster."""

from __future__ import annotations

from typing import Any, Self

from skpref._callbacks import fit_callbacks, fit_context
from skpref._estimator import unchanged_on_failure
from skpref.dask.base import OnCluster, check_collection, is_collection, refuse_moments, with_parameters_of
from skpref.dask.rows import PartitionRows
from skpref.gp.pairwise import GPPLRegressor
from skpref.gp.pairwise.scored_groups import check_columns
from skpref.metrics import concordance

__all__ = ["DaskGPPLRegressor"]


@with_parameters_of(GPPLRegressor)
class DaskGPPLRegressor(OnCluster, GPPLRegressor):
    """`GPPLRegressor` on data frames of Dask, for scores within groups.

    Each partition holds whole groups (``X.shuffle("query")`` or ``X.set_index("query")`` brings them together), whose
    comparisons are formed there. Kernel and inducing points are learnt in the client from 50,000 comparisons, the
    posterior in full passes whose sums are added in the order of the partitions: the same partitions give the same bits
    for any number of workers. With up to 10,000 rows it is `GPPLRegressor` on all of them. Equal rows of one partition
    are one item.

    ``inference="svi"`` and ``"linearised"``, likelihoods with ties and a single group need all rows in memory and are
    refused.

    Attributes
    ----------
    client : distributed.Client
        The client to use; set it before `fit`, or leave it to be the current client.

    See Also
    --------
    GPPLRegressor : The same in memory, or with Parquet files on one machine.

    Examples
    --------
    >>> import dask.dataframe
    >>> from distributed import Client
    >>> from skpref.dask import DaskGPPLRegressor
    >>> with Client() as client:  # doctest: +SKIP
    ...     rows = dask.dataframe.read_parquet("results/").shuffle("query")
    ...     model = DaskGPPLRegressor().fit(rows, "grade", qid="query").to_local()
    """

    _plain = GPPLRegressor

    @fit_context
    def fit(
        self, X: Any, y: Any = None, *, comparisons: Any = None, qid: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn the utilities.

        Parameters
        ----------
        X : dask.dataframe.DataFrame of shape (n_items, n_columns)
            Items with their groups. Columns that are named as scores, groups or weights are no features.
        y : dask.dataframe.Series, dask.array.Array or str, default=None
            Scores, grades or ranks, in the partitions of X, or the name of a column of X. None: the column y of X.
        comparisons : None
            Comparisons of rows are for data in memory only.
        qid : str, default=None
            Name of the column of groups, which is required: rows are compared within groups.
        sample_weight : dask.dataframe.Series, dask.array.Array or str, default=None
            Weights of the items >= 0, likewise; None: all weights are 1.

        Returns
        -------
        DaskGPPLRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            As in `GPPLRegressor`; if there is no client; if X, y and `sample_weight` differ in their partitions; if a
            group is in two partitions; or if a parameter needs all rows in memory.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            check_collection(X, "X", "GPPLRegressor")
            check_columns([str(name) for name in getattr(X, "columns", ())], comparisons, qid, (y, sample_weight))
            self._fit_source(PartitionRows(self, X, y, sample_weight), qid)
        return self

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Return the posterior utilities of items.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, n_features)
            Items.
        return_std : bool, default=False
            Whether to return standard deviations, too; of rows in memory.
        return_cov : bool, default=False
            Whether to return the covariance, too; of rows in memory.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            Utilities, in units of the answer noise; of a collection computed when they are asked for.
        """
        if not is_collection(X):
            return super().predict(X, return_std, return_cov)
        refuse_moments(return_std or return_cov)
        return self._lazily("predict", X)

    def score(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> float:
        """Return the concordance of the predicted and the given order.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, n_features)
            Items.
        y : collection of Dask or array-like of shape (n,)
            Scores. They, groups, weights and the predictions come to the client.
        qid : collection of Dask or array-like of shape (n,), default=None
            Groups; only pairs within a group count. None: one group.
        sample_weight : collection of Dask or array-like of shape (n,), default=None
            Weights of the items; None: all weights are 1.

        Returns
        -------
        float
            Share of the pairs with different `y` that are ordered correctly, in [0, 1]; predicted ties count half.
        """
        y, predicted, qid, sample_weight = (self._here(values) for values in (y, self.predict(X), qid, sample_weight))
        return concordance(y, predicted, qid=qid, sample_weight=sample_weight)
