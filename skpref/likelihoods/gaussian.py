"""Gaussian likelihood for regression, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skpref._math.special import LOG_TWO_PI
from skpref.exceptions import DataError
from skpref.likelihoods.base import Likelihood

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.likelihoods.base import Triple

__all__ = ["Gaussian"]


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """p(y | z) = N(y; z, 1/precision).

    Parameters
    ----------
    precision : float, default=1.0
        Inverse variance beta > 0 of the noise, in 1/(units of y) squared.

    Raises
    ------
    DataError
        If the precision is not a positive finite number.

    Examples
    --------
    >>> from skpref.likelihoods import Gaussian
    >>> value, d_mu, d_v = Gaussian(precision=4.0).expectation([1.0], [0.5], [0.1])
    >>> d_mu, d_v
    (array([2.]), array([-2.]))
    """

    precision: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.precision) and self.precision > 0.0):
            raise DataError(
                f"precision must be a positive finite number; got {self.precision!r}. It is 1/variance of the noise"
            )

    def _derivatives(self, y: Array, z: Array) -> Triple:
        return _log_normal(y - z, np.full(y.shape, self.precision))

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        value, first, second = self._derivatives(y, mu)
        return value - 0.5 * self.precision * v, first, 0.5 * second

    def _tilted(self, y: Array, mu: Array, v: Array) -> Triple:
        return _log_normal(y - mu, 1.0 / (v + 1.0 / self.precision))

    def _predict(self, mu: Array, v: Array) -> Array:
        del v
        return mu.copy()


def _log_normal(residual: Array, precision: Array) -> Triple:
    """Return the log density and its derivatives in the mean."""
    first = precision * residual
    value = 0.5 * (np.log(precision) - LOG_TWO_PI - first * residual)
    return value, first, -precision
