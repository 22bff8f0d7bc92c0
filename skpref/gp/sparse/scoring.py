"""The score of a regressor whose counts have exposures."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from skpref._sources import accept_collections

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skpref._typing import MatrixLike

__all__ = ["ScoredCounts"]


class ScoredCounts(RegressorMixin):
    """A regressor that predicts with exposures."""

    @abstractmethod
    def predict(self, X: MatrixLike, *, exposure: ArrayLike | None = None) -> Any:
        """Predict targets."""

    @accept_collections
    def score(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None, exposure: ArrayLike | None = None
    ) -> float:
        """Return the coefficient of determination, R^2.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows. None: 1.
        exposure : array-like of shape (n,), default=None
            Exposures of the counts. None: 1.

        Returns
        -------
        float
            At most 1, for perfect predictions.
        """
        return float(r2_score(y, self.predict(X, exposure=exposure), sample_weight=sample_weight))
