"""`DaskGibbsM3F`: ratings on a cluster."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skpref._callbacks import fit_callbacks, fit_context
from skpref._estimator import unchanged_on_failure
from skpref.dask.base import OnCluster, check_collection, is_collection, refuse_moments, with_parameters_of
from skpref.dask.rows import PartitionRows
from skpref.data.rating_shards import rating_columns, read_rating_shard
from skpref.data.shards import located, with_shared_ids
from skpref.exceptions import DataError
from skpref.factorization.m3f import GibbsM3F

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skpref.data.rating_shards import RatingColumns, RatingRows, RatingSummary

__all__ = ["DaskGibbsM3F"]


@with_parameters_of(GibbsM3F)
class DaskGibbsM3F(OnCluster, GibbsM3F):
    """`GibbsM3F` on collections of Dask.

    Ratings are distributed by user and by item, to as many shards as there are partitions or one for each million, and
    at most 64. A sweep draws the items where their ratings are, then the users: factors and thresholds go there and
    come back to the client. Each item and each user has a random stream of its own, so the result is that of `GibbsM3F`
    on the same ratings, to the bit, for any partitions and any number of workers.

    Attributes
    ----------
    client : distributed.Client
        The client to use; set it before `fit`, or leave it to be the current client.

    See Also
    --------
    GibbsM3F : The same in memory, or with Parquet files on one machine.

    Examples
    --------
    >>> import dask.dataframe
    >>> from distributed import Client
    >>> from skpref.dask import DaskGibbsM3F
    >>> with Client() as client:  # doctest: +SKIP
    ...     rows = dask.dataframe.read_parquet("ratings/")
    ...     model = DaskGibbsM3F().fit(rows[["user", "item"]], rows["y"]).to_local()
    """

    _plain = GibbsM3F

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model: run the Gibbs chains.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or dask.array.Array of shape (n, 2)
            Ids of user and item; of a frame the columns that `user` and `item` name, else the first two that are not
            named as ratings or weights.
        y : dask.dataframe.Series, dask.array.Array or str, default=None
            Ratings, in the partitions of X, or the name of a column of X. None: the column y of X. Ratings that are
            words need `levels`.
        sample_weight : dask.dataframe.Series, dask.array.Array or str, default=None
            Weights of the ratings, likewise; None: all weights are 1.

        Returns
        -------
        DaskGibbsM3F
            The fitted estimator.

        Raises
        ------
        ValueError
            As in `GibbsM3F`; if there is no client; or if X, y and `sample_weight` differ in their partitions.
        """
        with fit_callbacks(self, X, y, sample_weight):
            return self._fit(X, y, sample_weight, self.levels)

    def _fit(self, X: Any, y: Any, sample_weight: Any, levels: Any) -> Self:
        with unchanged_on_failure(self):
            check_collection(X, "X", "GibbsM3F")
            source, columns = PartitionRows(self, X, y, sample_weight), None
            if isinstance(source.feature_names, list):
                columns = rating_columns(source.feature_names, self._id_columns(*source.feature_names[:2]))
            elif source.feature_names != 2:
                raise DataError(f"Expected 2D array of 2 columns for X, got shape {X.shape} instead")
            shards, summaries, rows = source.keep(_read_partition, columns, levels)
            del source
            ids: dict[Any, Any] = {}
            with closing(shards):
                self._fit_shards(shards, [with_shared_ids(summary, ids) for summary in summaries], rows, columns)
        return self

    def predict(self, X: Any) -> Any:
        """Predict ratings.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, 2)
            Ids of user and item, with the columns of `fit`.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            Levels, from `classes_`; of a collection computed when they are asked for.
        """
        return self._lazily("predict", X) if is_collection(X) else super().predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each level.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, 2)
            Ids of user and item, with the columns of `fit`.

        Returns
        -------
        dask.array.Array or ndarray of shape (n, L)
            Probabilities, in the order of `classes_`; of a collection computed when they are asked for.
        """
        if not is_collection(X):
            return super().predict_proba(X)
        return self._lazily("predict_proba", X)

    def predict_score(self, X: Any, *, return_std: bool = False) -> Any:
        """Return the posterior mean of the score x_ij, which the user's thresholds cut into levels.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, 2)
            Ids of user and item, with the columns of `fit`.
        return_std : bool, default=False
            Whether to return standard deviations, too; of rows in memory.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            Scores, in the unit of the margin; of a collection computed when they are asked for.
        """
        if not is_collection(X):
            return super().predict_score(X, return_std=return_std)
        refuse_moments(return_std)
        return self._lazily("predict_score", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the negative mean absolute error, in levels.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, 2)
            Ids of user and item. They, ratings and weights come to the client.
        y : collection of Dask or array-like of shape (n,)
            Ratings.
        sample_weight : collection of Dask or array-like of shape (n,), default=None
            Weights of the ratings.

        Returns
        -------
        float
            At most 0; higher is better.
        """
        X = self.client.compute(X).result() if is_collection(X) else X
        return super().score(X, self._here(y), self._here(sample_weight))


def _read_partition(
    X: Any, y: Any, weight: Any, start: int, columns: RatingColumns | None, levels: ArrayLike | None
) -> tuple[RatingSummary, RatingRows]:
    """Return the summary and the ratings of a partition."""
    if columns is None:
        user, item = np.asarray(X).T
    else:
        sides = dict(zip(map(str, X.columns), (X.iloc[:, k] for k in range(X.shape[1])), strict=True))
        user, item = sides[columns.user], sides[columns.item]
    try:
        return read_rating_shard(user, item, y, weight, levels, start)
    except ValueError as error:
        raise located(error, f"rows {start} to {start + len(X) - 1} of X") from error
