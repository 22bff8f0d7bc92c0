"""Student's t likelihood for regression with outliers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.special import gammaln

from skpref.exceptions import DataError
from skpref.likelihoods.base import Likelihood
from skpref.likelihoods.policy import POLICY

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.likelihoods.base import Triple

__all__ = ["StudentT"]


@dataclass(frozen=True)
class StudentT(Likelihood):
    """p(y | z) = t(y; z, scale, df), a Gaussian whose precision is Gamma distributed.

    Parameters
    ----------
    scale : float, default=1.0
        Scale sigma, in units of y; `learnt` fits it.
    df : float, default=4.0
        Degrees of freedom nu. With 4, outliers have little influence and the variance is finite.
    least : float, default=1e-6
        Least scale that `learnt` returns, in units of y. If y is rounded and repeats, the density at equal values grows
        without limit as the scale vanishes, whatever it is at others: a step h of rounding is noise of h / sqrt(12).

    Raises
    ------
    DataError
        If a parameter is not a positive finite number.

    Notes
    -----
    log p is not concave in z, so sites that match its expectation could have negative precisions. Therefore
    `expectation` returns a lower bound of E[log p], with an optimal Gamma posterior of each precision,
    c - (nu + 1)/2 log(1 + ((y - mu)^2 + v) / (nu sigma^2)), which gives positive site precisions and steps that never
    lower the bound. It equals E[log p] at v = 0. Such sites treat the precisions as if they were known: their own
    precision is 1 / sigma^2 on average, where y has information (nu + 1) / (nu + 3) / sigma^2 on z. Covariances of f
    count this share (5 / 7 for nu = 4).

    Examples
    --------
    >>> from skpref.likelihoods import StudentT
    >>> _, pull, _ = StudentT().expectation([1.0, 100.0], 0.0, 0.0)
    >>> pull.round(2)
    array([1.  , 0.05])
    """

    scale: float = 1.0
    df: float = 4.0
    least: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("scale", "df", "least"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0.0):
                raise DataError(f"{name} must be a positive finite number; got {value!r}")

    @property
    def share_of_information(self) -> float:
        """(nu + 1) / (nu + 3)."""
        return (self.df + 1.0) / (self.df + 3.0)

    @property
    def _log_constant(self) -> float:
        nu = self.df
        return float(gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * np.pi) - np.log(self.scale))

    def _derivatives(self, y: Array, z: Array) -> Triple:
        u = (y - z) / self.scale
        width = self.df + u * u
        value = self._log_constant - 0.5 * (self.df + 1.0) * np.log1p(u * u / self.df)
        first = (self.df + 1.0) * u / width / self.scale
        return value, first, (self.df + 1.0) * (u * u - self.df) / width / width / self.scale**2

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        u = (y - mu) / self.scale
        square = u * u + v / self.scale**2
        value = self._log_constant - 0.5 * (self.df + 1.0) * np.log1p(square / self.df)
        precision = (self.df + 1.0) / (self.df + square) / self.scale**2
        return value, precision * (y - mu), -0.5 * precision

    def _tilted(self, y: Array, mu: Array, v: Array) -> Triple:
        # The quadrature is accurate for widths of about 1, so the scale is divided out.
        at = y / self.scale, mu / self.scale, v / self.scale**2
        log_z, first, second = super(StudentT, replace(self, scale=1.0))._tilted(*at)
        return log_z - np.log(self.scale), first / self.scale, second / self.scale**2

    def _predict(self, mu: Array, v: Array) -> Array:
        del v
        return mu.copy()

    def predictive_variance(self, mu: Array, v: Array) -> Array:
        """Return the variance of a new y whose z ~ N(mu, v); infinite for df <= 2.

        Parameters
        ----------
        mu, v : ndarray of shape (n,)
            Mean and variance of z.

        Returns
        -------
        ndarray of shape (n,)
            v + sigma^2 nu / (nu - 2).
        """
        del mu
        noise = self.scale**2 * self.df / (self.df - 2.0) if self.df > 2.0 else np.inf
        return np.asarray(v + noise)

    def learnt(self, y: Array, mu: Array, v: Array, weight: Array) -> Self:
        """Return the likelihood with the scale that fits q best; no step lowers the bound.

        Parameters
        ----------
        y, mu, v, weight : ndarray of shape (n,)
            Observations, means and variances of z, weights.

        Returns
        -------
        StudentT
            A new object.
        """
        square, scale2, nu = (y - mu) ** 2 + v, self.scale**2, self.df
        for _ in range(POLICY.robust_rounds):
            precision = (nu + 1.0) / (nu + square / scale2)
            scale2 = max(float(weight @ (precision * square)) / float(weight.sum()), self.least**2)
        return replace(self, scale=float(np.sqrt(scale2)))
