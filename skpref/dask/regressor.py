"""`DaskSVGPRegressor`: numbers on a cluster."""

from __future__ import annotations

from typing import Any, Self

from skpref._callbacks import fit_callbacks, fit_context
from skpref._estimator import unchanged_on_failure, warn_not_converged
from skpref.dask.base import OnCluster, check_collection, is_collection, refuse_moments, with_parameters_of
from skpref.dask.rows import PartitionRows
from skpref.gp.sparse import SVGPRegressor

__all__ = ["DaskSVGPRegressor"]


@with_parameters_of(SVGPRegressor)
class DaskSVGPRegressor(OnCluster, SVGPRegressor):
    """`SVGPRegressor` on collections of Dask.

    Kernel and inducing points are learnt in the client from 10,000 rows drawn at random, noise and posterior from sums
    over all rows, which are added in the order of the partitions: the same partitions give the same bits for any number
    of workers. Gaussian noise takes one such pass; other likelihoods take one for each step, and their own parameters
    are those of the sample. With up to 10,000 rows it is `SVGPRegressor` on all of them.

    ``inference="svi"``, ``optimizer="adam"``, a window and exposures need all rows in memory and are refused.

    Attributes
    ----------
    client : distributed.Client
        The client to use; set it before `fit`, or leave it to be the current client.

    See Also
    --------
    SVGPRegressor : The same in memory, or with Parquet files on one machine.

    Examples
    --------
    >>> import dask.dataframe
    >>> from distributed import Client
    >>> from skpref.dask import DaskSVGPRegressor
    >>> with Client() as client:  # doctest: +SKIP
    ...     rows = dask.dataframe.read_parquet("houses/")
    ...     model = DaskSVGPRegressor().fit(rows, "price").to_local()
    """

    _plain = SVGPRegressor

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, exposure: Any = None) -> Self:
        """Learn kernel, noise, inducing points and the posterior of f.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or dask.array.Array of shape (n, n_features)
            Rows. Columns of a frame that are named as targets or weights are no features.
        y : dask.dataframe.Series, dask.array.Array or str, default=None
            Targets, in the partitions of X, or the name of a column of X. None: the column y of X.
        sample_weight : dask.dataframe.Series, dask.array.Array or str, default=None
            Weights >= 0, likewise; None: each row has weight 1.
        exposure : None
            Exposures are for data in memory only.

        Returns
        -------
        DaskSVGPRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            As in `SVGPRegressor`; if there is no client; if X, y and `sample_weight` differ in their partitions; or if
            a parameter needs all rows in memory.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            check_collection(X, "X", "SVGPRegressor")
            self._fit_source(PartitionRows(self, X, y, sample_weight), exposure)
            if not self.converged_:
                warn_not_converged(self, self.n_iter_, cut_short=self._cut_short)
        return self

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, *, noise: bool = True, exposure: Any = None
    ) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Whether to return standard deviations too; of rows in memory.
        return_cov : bool, default=False
            Whether to return the covariance too; of rows in memory.
        noise : bool, default=True
            Whether they are those of a new y.
        exposure : None
            Exposures are for data in memory only.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            Expected targets; of a collection computed when they are asked for.
        """
        if not is_collection(X):
            return super().predict(X, return_std, return_cov, noise=noise, exposure=exposure)
        refuse_moments(return_std or return_cov)
        return self._lazily("predict", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> float:
        """Return the coefficient of determination R^2 of the predictions.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array or array-like of shape (n, n_features)
            Rows.
        y : collection of Dask or array-like of shape (n,)
            Targets. They, their weights and the predictions come to the client.
        sample_weight : collection of Dask or array-like of shape (n,), default=None
            Weights of the rows; None: all weights are 1.
        exposure : None
            Exposures are for data in memory only.

        Returns
        -------
        float
            At most 1, for perfect predictions.
        """
        if not is_collection(X):
            return super().score(X, y, sample_weight, exposure)
        from sklearn.metrics import r2_score

        return float(r2_score(self._here(y), self._here(self.predict(X)), sample_weight=self._here(sample_weight)))
