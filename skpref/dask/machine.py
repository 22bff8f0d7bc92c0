"""`DaskVariationalFM`: factorization machines on a cluster."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from skpref._callbacks import fit_callbacks, fit_context
from skpref._estimator import unchanged_on_failure
from skpref.dask.base import (
    COLLECTIONS,
    OnCluster,
    check_collection,
    is_collection,
    refuse_moments,
    with_parameters_of,
)
from skpref.dask.rows import PartitionRows
from skpref.data.row_shards import OrderedLabels, read_rows, row_columns
from skpref.data.shards import located
from skpref.exceptions import DataError
from skpref.factorization.fm import VariationalFM
from skpref.factorization.machine.files import FMFiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref.data.row_shards import RowColumns, RowShard, RowSummary

__all__ = ["DaskVariationalFM", "FMOnCluster"]


class FMOnCluster(OnCluster, FMFiles):
    """A factorization machine that is fitted to rows of ids and numbers on the workers of a cluster."""

    def _fit_partitions(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit to the partitions of a frame."""
        import pyarrow as pa

        check_collection(X, "X", self._plain.__name__)
        self._check_sums_suffice()
        source = PartitionRows(self, X, y, sample_weight)
        names = source.feature_names
        if isinstance(names, int):
            raise DataError("X must be a frame of Dask, whose columns have names; got an array")
        with COLLECTIONS:
            schema = pa.Schema.from_pandas(X._meta, preserve_index=False)  # noqa: SLF001 - Dask's name for it
        columns = row_columns(schema, names, self.categorical_features)
        labels = not isinstance(self, RegressorMixin)
        shards, summaries, rows = source.keep(
            _read_partition, columns, labels, read_target=_labels if labels else np.asarray
        )
        del source
        read = zip(summaries, rows, strict=True)
        del summaries, rows  # with the handles the memory of the workers goes
        with closing(shards):
            return self._fit_shards(shards, read, columns)


@with_parameters_of(VariationalFM)
class DaskVariationalFM(FMOnCluster, VariationalFM):
    """`VariationalFM` on frames of Dask.

    Columns are ids and numbers, as in files. Each partition is a shard. A pass takes the moments of all ids to the
    workers once for each column, and brings as many sums back from each partition, which are added in the order of the
    partitions: the same partitions give the same bits for any number of workers, and the result is that of
    `VariationalFM` on the same rows up to rounding errors. Few large partitions are best.

    Attributes
    ----------
    client : distributed.Client
        The client to use; set it before `fit`, or leave it to be the current client.

    See Also
    --------
    VariationalFM : The same in memory, or with Parquet files on one machine.

    Examples
    --------
    >>> import dask.dataframe
    >>> from distributed import Client
    >>> from skpref.dask import DaskVariationalFM
    >>> with Client() as client:  # doctest: +SKIP
    ...     rows = dask.dataframe.read_parquet("sales/")
    ...     model = DaskVariationalFM().fit(rows[["user", "item", "price"]], rows["amount"]).to_local()
    """

    _plain = VariationalFM

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : dask.dataframe.DataFrame of shape (n, n_columns)
            Columns of ids and of numbers. Columns that are named as targets or weights are no features.
        y : dask.dataframe.Series, dask.array.Array or str, default=None
            Targets, in the partitions of X, or the name of a column of X. None: the column y of X.
        sample_weight : dask.dataframe.Series, dask.array.Array or str, default=None
            Weights of the rows, likewise; None: all weights are 1.

        Returns
        -------
        DaskVariationalFM
            The fitted estimator.

        Raises
        ------
        ValueError
            As in `VariationalFM`; if there is no client; or if X, y and `sample_weight` differ in their partitions.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            return self._fit_partitions(X, y, sample_weight)

    def predict(self, X: Any, *, return_std: bool = False) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or array-like of shape (n, n_columns)
            Rows, with the columns of `fit`.
        return_std : bool, default=False
            Whether to return standard deviations, too; of rows in memory.

        Returns
        -------
        dask.array.Array or ndarray of shape (n,)
            Predictive means; of a collection computed when they are asked for.
        """
        if not is_collection(X):
            return super().predict(X, return_std=return_std)
        refuse_moments(return_std)
        return self._lazily("predict", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R^2 of the predictions.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or array-like of shape (n, n_columns)
            Rows, with the columns of `fit`.
        y : collection of Dask or array-like of shape (n,)
            Targets. They, their weights and the predictions come to the client.
        sample_weight : collection of Dask or array-like of shape (n,), default=None
            Weights of the rows; None: all weights are 1.

        Returns
        -------
        float
            At most 1, for perfect predictions.
        """
        from sklearn.metrics import r2_score

        predicted = self._here(self.predict(X))
        return float(r2_score(self._here(y), predicted, sample_weight=self._here(sample_weight)))


def _labels(values: Any) -> NDArray[Any] | OrderedLabels:
    """Return labels, and the order of their categories where it is stated."""
    dtype = values.dtype
    if not getattr(dtype, "ordered", False):
        return np.asarray(values)
    return OrderedLabels(np.asarray(values), [np.asarray(dtype.categories)])


def _read_partition(
    X: Any, y: NDArray[Any] | OrderedLabels, weight: Any, start: int, columns: RowColumns, labels: bool
) -> tuple[RowSummary, RowShard]:
    """Return the summary and the rows of a partition."""
    import pyarrow as pa

    try:
        table = pa.Table.from_pandas(X, preserve_index=False)
    except pa.ArrowException as error:
        place = f"rows {start} to {start + len(X) - 1} of X"
        raise located(DataError(f"a column of X mixes types: {error}"), place) from error
    return read_rows(table, y, weight, start, columns, labels=labels)
