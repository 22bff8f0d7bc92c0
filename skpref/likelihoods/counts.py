"""Likelihoods of counts, with a log link: Poisson, and negative binomial for counts that vary more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, logsumexp

from skpref._math.special import log_expit_derivatives
from skpref.exceptions import DataError
from skpref.likelihoods.base import Likelihood
from skpref.likelihoods.pairwise import PairwiseLogit
from skpref.likelihoods.policy import POLICY

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skpref._typing import Array
    from skpref.likelihoods.base import Triple

__all__ = ["NegativeBinomial", "Poisson"]

_LARGEST: Final = 230.0  # limit on exponents: means are at most 1e100, and their cubes finite
_LEAST: Final = 1e-300


@dataclass(frozen=True)
class _Counts(Likelihood):
    """Counts whose mean is a rate times exp(z)."""

    has_level: ClassVar[bool] = True
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.rate) and self.rate > 0.0):
            raise DataError(f"rate must be a positive finite number; got {self.rate!r}. It is the mean count at z = 0")

    def _mean(self, exponent: Array) -> Array:
        return np.asarray(np.exp(np.minimum(exponent + np.log(self.rate), _LARGEST)))

    def _tilted(self, y: Array, mu: Array, v: Array) -> Triple:
        del y, mu, v
        raise DataError("expectation propagation is not available for counts; use another inference, such as 'vb'")

    def _predict(self, mu: Array, v: Array) -> Array:
        return self._mean(mu + 0.5 * v)

    def with_level(self, step: float, y: Array, weight: Array) -> Self:
        """Return the likelihood with a rate exp(step) times this one, within the limits of `learnt`.

        Parameters
        ----------
        step : float
            Change of the log of the rate.
        y, weight : ndarray of shape (n,)
            Counts and their weights.

        Returns
        -------
        Likelihood
            A new object.
        """
        return self._with_log_rate(float(np.log(self.rate)) + step, y, weight)

    def _with_log_rate(self, log_rate: float, y: Array, weight: Array) -> Self:
        """Return the likelihood with a rate within a factor of e^10 of the mean count."""
        log_mean = np.log(max(float(weight @ y), _LEAST)) - np.log(float(weight.sum()))
        return replace(self, rate=float(np.exp(np.clip(log_rate, log_mean - 10.0, log_mean + 10.0))))

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


@dataclass(frozen=True)
class Poisson(_Counts):
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

    def _derivatives(self, y: Array, z: Array) -> Triple:
        mean = self._mean(z)
        return y * (np.log(self.rate) + z) - mean - gammaln(y + 1.0), y - mean, -mean

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        mean = self._mean(mu + 0.5 * v)
        return y * (np.log(self.rate) + mu) - mean - gammaln(y + 1.0), y - mean, -0.5 * mean

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
        return self._with_log_rate(log_rate, y, weight)


@dataclass(frozen=True)
class NegativeBinomial(_Counts):
    """p(y | z) = Poisson(y; g rate exp(z)), averaged over g ~ Gamma of mean 1 and variance `dispersion`.

    Parameters
    ----------
    rate : float, default=1.0
        Mean count at z = 0; `learnt` fits it.
    dispersion : float, default=1.0
        Variance of a count beyond the Poisson's, over the square of its mean m: the variance is m + dispersion m^2.
        `learnt` fits it, between 1e-5 and 1e4.

    Raises
    ------
    DataError
        If a parameter is not a positive finite number.

    Notes
    -----
    With r = 1/dispersion, log p = log C + y z' - (y + r) log(1 + exp(z')), where z' = z + log(rate dispersion) and C
    does not depend on z. The expectation is therefore that of a logistic function.

    Examples
    --------
    >>> from skpref.likelihoods import NegativeBinomial
    >>> NegativeBinomial(2.0, 0.5).predictive_variance([0.0], [0.0])
    array([4.])
    """

    dispersion: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.isfinite(self.dispersion) and self.dispersion > 0.0):
            raise DataError(f"dispersion must be a positive finite number; got {self.dispersion!r}")

    @property
    def _shift(self) -> float:
        return float(np.log(self.rate) + np.log(self.dispersion))

    def _with_logistic(self, y: Array, z: Array, logistic: Triple) -> Triple:
        """Return log p at the log odds z', or its expectation, given -log(1 + exp(z')) with its derivatives."""
        r = 1.0 / self.dispersion
        constant = gammaln(y + r) - gammaln(r) - gammaln(y + 1.0)
        value, first, second = logistic
        return constant + y * (z + self._shift) + (y + r) * value, y + (y + r) * first, (y + r) * second

    def _derivatives(self, y: Array, z: Array) -> Triple:
        value, first, second = log_expit_derivatives(-(z + self._shift))
        return self._with_logistic(y, z, (value, -first, second))

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        return self._with_logistic(y, mu, PairwiseLogit().expectation(np.zeros_like(y), mu + self._shift, v))

    def predictive_variance(self, mu: ArrayLike, v: ArrayLike) -> Array:
        """Return the variance of a new y whose z ~ N(mu, v).

        Parameters
        ----------
        mu, v : array_like of shape (n,)
            Mean and variance of z.

        Returns
        -------
        ndarray of shape (n,)
            m + m^2 ((1 + dispersion) exp(v) - 1), m the mean of y.
        """
        mean = self.predict(mu, v)
        spread = np.expm1(np.minimum(v, _LARGEST))
        return np.asarray(mean + mean**2 * (spread + self.dispersion * (1.0 + spread)))

    def learnt(self, y: Array, mu: Array, v: Array, weight: Array) -> Self:
        """Return the likelihood with the rate and the dispersion that fit q best; no step lowers the bound.

        The rate stays within a factor of e^10 of the mean count. z makes up for the rest, and neither runs away.

        Parameters
        ----------
        y, mu, v, weight : ndarray of shape (n,)
            Observations, means and variances of z, weights.

        Returns
        -------
        NegativeBinomial
            A new object.
        """

        def fit_of(trial: Self) -> float:
            return float(weight @ trial.expectation(y, mu, v)[0])

        best, value = self, fit_of(self)
        for _ in range(POLICY.count_rounds):
            _, first, half = best.expectation(y, mu, v)
            step = float(weight @ first) / max(-2.0 * float(weight @ half), _LEAST)
            rate = best.with_level(float(np.clip(step, -2.0, 2.0)), y, weight).rate
            if fit_of(replace(best, rate=rate)) < value:
                rate = best.rate  # the step went too far; it is another one at another dispersion
            found = minimize_scalar(
                lambda log_dispersion, rate=rate: -fit_of(replace(self, rate=rate, dispersion=np.exp(log_dispersion))),
                bounds=np.log(POLICY.dispersion),
                method="bounded",
                options={"xatol": POLICY.dispersion_tol},
            )
            gain = float(-found.fun) - value
            if gain > 0.0:
                best, value = replace(self, rate=rate, dispersion=float(np.exp(found.x))), value + gain
            if gain < POLICY.count_gain * (1.0 + abs(value)):
                break
        return best
