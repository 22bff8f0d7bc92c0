"""`DaskSVGPRegressor`: numbers on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import _fit_context

from skpref._callbacks import fit_callbacks
from skpref._estimator import unchanged_on_failure, warn_not_converged
from skpref.dask.base import (
    OnCluster,
    aligned_partitions,
    check_collection,
    is_collection,
    partitions,
    with_parameters_of,
)
from skpref.dask.shards import OnDask, released_on_failure
from skpref.data.shards import feature_columns
from skpref.exceptions import DataError
from skpref.gp.sparse import SVGPRegressor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["DaskSVGPRegressor"]


@with_parameters_of(SVGPRegressor)
class DaskSVGPRegressor(OnCluster, SVGPRegressor):
    """`SVGPRegressor` on collections of Dask.

    Kernel and inducing points are learnt in the client from 10,000 rows drawn at random, noise and posterior from sums
    over all rows, which are added in the order of the partitions: the same partitions give the same bits for any number
    of workers. With up to 10,000 rows it is `SVGPRegressor` on all of them.

    Other likelihoods than the Gaussian, ``inference="svi"``, ``optimizer="adam"``, a window and exposures need all rows
    in memory and are refused.

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

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, exposure: Any = None) -> Self:
        """Learn kernel, noise, inducing points and the posterior of f.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or dask.array.Array of shape (n, n_features)
            Rows. Columns of a frame that are named as targets or weights are no features.
        y : dask.dataframe.Series, dask.array.Array or str, default=None
            Targets, in the partitions of X, or the name of a column of X. None: the column y of X.
        sample_weight : dask.dataframe.Series, dask.array.Array or str, default=None
            Weights >= 0, likewise; None weighs each row 1.
        exposure : None
            Counts are fitted in memory only.

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
            self._fit_source(_PartitionRows(self.client, X, y, sample_weight), exposure)
            if not self.converged_:
                warn_not_converged(self, self.n_iter_, 4)
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
            Counts are fitted in memory only.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            Expected targets; of a collection computed when they are asked for.
        """
        if not is_collection(X):
            return super().predict(X, return_std, return_cov, noise=noise, exposure=exposure)
        if return_std or return_cov:
            raise DataError(
                "return_std and return_cov need X in memory; got a collection of Dask. Use "
                "X.map_partitions(lambda part: local.predict(part, return_std=True)[1]) with local = model.to_local()"
            )
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
            Weights of the rows; None weighs all alike.
        exposure : None
            Counts are fitted in memory only.

        Returns
        -------
        float
            At most 1, for perfect predictions.
        """
        if not is_collection(X):
            return super().score(X, y, sample_weight, exposure)
        from sklearn.metrics import r2_score

        return float(r2_score(self._here(y), self._here(self.predict(X)), sample_weight=self._here(sample_weight)))


class _PartitionRows:
    """Rows of a collection of Dask."""

    def __init__(self, client: Any, X: Any, y: Any, weight: Any) -> None:
        frame = hasattr(X, "columns")
        if not frame and (y is None or isinstance(y, str) or isinstance(weight, str)):
            raise DataError("y and sample_weight must be collections of Dask where X is an array without column names")
        self._columns = tuple(value if isinstance(value, str) else None for value in ("y" if y is None else y, weight))
        parts = partitions(X, "X")
        given = [
            aligned_partitions(values, name, parts, "SVGPRegressor")
            for values, name in ((y, "y"), (weight, "sample_weight"))
        ]
        self.feature_names: list[str] | int = (
            feature_columns([str(name) for name in X.columns], *self._columns) if frame else int(X.shape[1])
        )
        futures = [[None] * len(parts) if column is None else client.compute(column) for column in (parts, *given)]
        self._shards, self._held = OnDask(client), futures
        with released_on_failure([future for column in futures for future in column if future is not None]):
            sizes = list(self._shards.collect(_size, list(range(len(parts))), *futures))
        self._starts = np.cumsum([0, *sizes[:-1]]).tolist()
        self.n_rows = sum(sizes)

    def everything(self) -> tuple[Any, Any, Any]:
        """Return all rows, targets and weights."""
        batches = [batch for batch in self.collect(_same) if len(batch[1])]
        X, y, weight = zip(*batches, strict=True)
        if hasattr(X[0], "columns"):
            import pandas as pd

            rows = pd.concat(X)
        else:
            rows = np.concatenate(X)
        return rows, np.concatenate(y), None if weight[0] is None else np.concatenate(weight)

    def collect(self, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield function(X, y, weight, number of the first row, *shared) of one partition after the other."""
        sent = [function, self._columns, *map(self._shards.share, shared)]
        return self._shards.collect(_on_partition, *self._held, self._starts, shared=sent)


def _on_partition(
    X: Any, y: Any, weight: Any, start: int, function: Callable[..., Any], columns: tuple[str | None, ...], *shared: Any
) -> Any:
    """Return a function of the rows, targets and weights of a partition."""
    target, weights = (
        np.asarray(X[name] if name is not None else values) if name is not None or values is not None else None
        for name, values in zip(columns, (y, weight), strict=True)
    )
    if hasattr(X, "columns"):
        X = X.drop(columns=[name for name in columns if name is not None])
    return function(X, target, weights, start, *shared)


def _same(X: Any, y: Any, weight: Any, start: int) -> tuple[Any, Any, Any]:
    del start
    return X, y, weight


def _size(number: int, X: Any, y: Any, weight: Any) -> int:
    """Return the number of rows of a partition."""
    for values, name in ((y, "y"), (weight, "sample_weight")):
        if values is not None and len(values) != len(X):
            raise DataError(f"X has {len(X)} rows and {name} has {len(values)} in partition {number}")
    return len(X)
