"""Poisson likelihood: counts, with a log link."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np
from scipy.special import gammaln, logsumexp

from skpref.exceptions import DataError
from skpref.likelihoods.base import Likelihood

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.likelihoods.base import Triple

__all__ = ["Poisson"]

_LARGEST: Final = 230.0  # limit on exponents: means are at most 1e100, and their cubes finite
_LEAST: Final = 1e-300
_MOST_OFF: Final = 10.0  # log of the rate over the mean count


@dataclass(frozen=True)
class Poisson(Likelihood):
    """p(y | z) = Poisson(y; rate exp(z)).

    Parameters
    ----------
    rate : float, default=1.0
        Mean count at z = 0, which `learnt` fits, so that z need not model the overall level of the counts.

    Raises
    ------
    DataError
        If `rate` is not a positive finite number.

    Examples
    --------
    >>> from skpref.likelihoods import Poisson
    >>> Poisson(2.0).predict([0.0], [0.0])
    array([2.])
    """

    has_parameters: ClassVar[bool] = True
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.rate) and self.rate > 0.0):
            raise DataError(f"rate must be a positive finite number; got {self.rate!r}. It is the mean count at z = 0")

    def _mean(self, exponent: Array) -> Array:
        return np.asarray(np.exp(np.minimum(exponent + np.log(self.rate), _LARGEST)))

    def _derivatives(self, y: Array, z: Array) -> Triple:
        mean = self._mean(z)
        return y * (np.log(self.rate) + z) - mean - gammaln(y + 1.0), y - mean, -mean

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        mean = self._mean(mu + 0.5 * v)
        return y * (np.log(self.rate) + mu) - mean - gammaln(y + 1.0), y - mean, -0.5 * mean

    def _tilted(self, y: Array, mu: Array, v: Array) -> Triple:
        del y, mu, v
        raise DataError("expectation propagation is not available for Poisson; use another inference, such as 'vb'")

    def _predict(self, mu: Array, v: Array) -> Array:
        return self._mean(mu + 0.5 * v)

    def predictive_variance(self, mu: Array, v: Array) -> Array:
        """Return the variance of a new y whose z ~ N(mu, v).

        Parameters
        ----------
        mu, v : ndarray of shape (n,)
            Mean and variance of z.

        Returns
        -------
        ndarray of shape (n,)
            m + m^2 (exp(v) - 1), m the mean of y.
        """
        mean = self._predict(mu, v)
        return np.asarray(mean + mean**2 * np.expm1(np.minimum(v, _LARGEST)))

    def guess(self, y: Array) -> Array:
        """Return log((y + 1/2) / rate): from the prior, Newton's steps of a huge count overshoot.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Counts.

        Returns
        -------
        ndarray of shape (n,)
            The projections.
        """
        return np.asarray(np.log((y + 0.5) / self.rate))

    def learnt(self, y: Array, mu: Array, v: Array, weight: Array) -> Self:
        """Return the likelihood with the rate that fits q best: total count over total of E[exp(z)].

        The rate stays within a factor of e^10 of the mean count. z makes up for the rest, and neither runs away.

        Parameters
        ----------
        y, mu, v, weight : ndarray of shape (n,)
            Observations, means and variances of z, weights.

        Returns
        -------
        Poisson
            A new object.
        """
        log_total = np.log(max(float(weight @ y), _LEAST))
        log_rate = log_total - float(logsumexp(mu + 0.5 * v, b=weight))  # in logarithms: all means may underflow
        log_mean = log_total - np.log(float(weight.sum()))
        return replace(self, rate=float(np.exp(np.clip(log_rate, log_mean - _MOST_OFF, log_mean + _MOST_OFF))))
