"""`DaskCrowdGPPL`: comparisons by users on a cluster."""

from __future__ import annotations

from typing import Any, Self

from skpref._callbacks import fit_context
from skpref.dask.base import with_parameters_of
from skpref.dask.comparisons import PartitionedComparisons
from skpref.gp.crowd import CrowdGPPL

__all__ = ["DaskCrowdGPPL"]


@with_parameters_of(CrowdGPPL)
class DaskCrowdGPPL(PartitionedComparisons, CrowdGPPL):
    """`CrowdGPPL` on collections of Dask.

    The comparisons of each user are brought together into as many shards as X has partitions with rows. A pass sends
    the covariance of tastes and the consensus to the shards, in two rounds, and brings sums over users back, matrices
    of the size of the items, which are added in the order of the shards: the same partitions give the same bits for any
    number of workers. What belongs to single comparisons stays with the shards until the fit ends. The result is that
    of `CrowdGPPL` on the same comparisons, up to rounding; with up to 10,000 it is fitted in the client. It answers for
    known users, too, and keeps about 150 bytes for each comparison in the client for that.

    ``inference="vb"``, ``"svi"`` and ``"linearised"``, more than 500 items (2,000 with ``inference="ep"``), covariates,
    groups and likelihoods with ties need all comparisons in memory and are refused.

    Attributes
    ----------
    client : distributed.Client
        The client to use; set it before `fit`, or leave it to be the current client.

    See Also
    --------
    CrowdGPPL : The same in memory, or with Parquet files on one machine.

    Examples
    --------
    >>> import dask.dataframe
    >>> from distributed import Client
    >>> from skpref.dask import DaskCrowdGPPL
    >>> with Client() as client:  # doctest: +SKIP
    ...     rows = dask.dataframe.read_parquet("judgements/")
    ...     model = DaskCrowdGPPL().fit(rows[["user", "left", "right"]], rows["y"]).to_local()
    """

    _plain = CrowdGPPL

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the consensus and the personal utilities.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or dask.array.Array of shape (n, 3)
            Ids of the user, the left and the right item; of a frame the columns that `user`, `left` and `right` name,
            else the first three.
        y : dask.dataframe.Series, dask.array.Array or str, default=None
            Labels as in `CrowdGPPL`, in the partitions of X; or the name of a column of X. None: the column y of X, as
            in Parquet files; without one, left preferred in every row.
        sample_weight : dask.dataframe.Series, dask.array.Array or str, default=None
            Weights of the comparisons, likewise; None: all weights are 1.

        Returns
        -------
        DaskCrowdGPPL
            The fitted estimator.

        Raises
        ------
        ValueError
            As in `CrowdGPPL`; if there is no client; if X, y and `sample_weight` differ in their partitions; or if a
            parameter needs all comparisons in memory.
        """
        return self._fit_collection(X, y, sample_weight)
