"""`DaskGPPLClassifier`: comparisons on a cluster."""

from __future__ import annotations

from typing import Any, Self

from skpref._callbacks import fit_context
from skpref.dask.base import with_parameters_of
from skpref.dask.comparisons import PartitionedComparisons
from skpref.gp.pairwise import GPPLClassifier

__all__ = ["DaskGPPLClassifier"]


@with_parameters_of(GPPLClassifier)
class DaskGPPLClassifier(PartitionedComparisons, GPPLClassifier):
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

    _plain = GPPLClassifier

    @fit_context
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
            Weights of the comparisons, likewise; None: all weights are 1.

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
        return self._fit_collection(X, y, sample_weight)
