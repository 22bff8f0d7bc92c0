"""The interface of likelihoods.

A likelihood is log p(y | z) for one observation y and its projection z (docs/maths section 1). It holds its own
parameters only: no data, no kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias

import numpy as np

from skpref._math.quadrature import expectation as gaussian_expectation
from skpref._typing import Array
from skpref.exceptions import DataError
from skpref.likelihoods.policy import POLICY

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["Likelihood"]

Triple: TypeAlias = tuple[Array, Array, Array]


@dataclass(frozen=True)
class Likelihood(ABC):
    """Base class of the likelihoods p(y | z).

    Notes
    -----
    All methods work elementwise on arguments that broadcast to one shape, and do not change them. A variance of 0 means
    that z is known. A subclass defines `_derivatives` and `_predict`, which take float64 arrays of one shape and return
    new ones. `_expectation` and `_tilted` follow by quadrature, which is accurate where log p bends over a unit of z or
    more; a subclass may replace them by closed forms.

    Examples
    --------
    >>> from skpref.likelihoods import Likelihood, PairwiseProbit
    >>> isinstance(PairwiseProbit(), Likelihood)
    True
    """

    # Whether y = 1/2 is a third answer, a tie; otherwise it counts as half of each of the two answers.
    ties_are_answers: ClassVar[bool] = False
    # Whether a parameter that `learnt` fits is a level, which is added to z.
    has_level: ClassVar[bool] = False
    # Width of z over which log p bends, for expectations by quadrature.
    bends_over: ClassVar[float] = 0.2

    @property
    def has_parameters(self) -> bool:
        """Whether `learnt` fits any parameters: a class that defines it does, unless it says otherwise."""
        return type(self).learnt is not Likelihood.learnt

    @property
    def share_of_information(self) -> float:
        """Expected curvature of log p over a variational site's; below 1 where `expectation` is a lower bound."""
        return 1.0

    def log_prob(self, y: ArrayLike, z: ArrayLike) -> Array:
        """Return log p(y | z).

        Parameters
        ----------
        y : array_like of shape (n,)
            Observations.
        z : array_like of shape (n,)
            Projections.

        Returns
        -------
        ndarray of shape (n,)
            log p(y | z), in nats.
        """
        return self._derivatives(*broadcast(y, z))[0]

    def derivatives(self, y: ArrayLike, z: ArrayLike) -> Triple:
        """Return l = log p(y | z) and its first two derivatives in z (for Laplace).

        Parameters
        ----------
        y : array_like of shape (n,)
            Observations.
        z : array_like of shape (n,)
            Projections.

        Returns
        -------
        value : ndarray of shape (n,)
            l, in nats.
        first : ndarray of shape (n,)
            dl/dz.
        second : ndarray of shape (n,)
            d2l/dz2.
        """
        return self._derivatives(*broadcast(y, z))

    def expectation(self, y: ArrayLike, mu: ArrayLike, v: ArrayLike) -> Triple:
        """Return E = E_{N(z; mu, v)}[log p(y | z)] and its derivatives (for VB and SVI).

        Parameters
        ----------
        y : array_like of shape (n,)
            Observations.
        mu, v : array_like of shape (n,)
            Mean and variance (>= 0) of z.

        Returns
        -------
        value : ndarray of shape (n,)
            E, in nats.
        d_mu : ndarray of shape (n,)
            dE/dmu = E[dl/dz].
        d_v : ndarray of shape (n,)
            dE/dv = E[d2l/dz2] / 2.
        """
        return self._expectation(*broadcast(y, mu, v))

    def tilted(self, y: ArrayLike, mu: ArrayLike, v: ArrayLike) -> Triple:
        """Return log Z, Z = E_{N(z; mu, v)}[p(y | z)], and its derivatives (for EP).

        Parameters
        ----------
        y : array_like of shape (n,)
            Observations.
        mu, v : array_like of shape (n,)
            Mean and variance (>= 0) of the cavity.

        Returns
        -------
        log_z : ndarray of shape (n,)
            log Z, in nats.
        first : ndarray of shape (n,)
            d log Z/dmu.
        second : ndarray of shape (n,)
            d2 log Z/dmu2.
        """
        return self._tilted(*broadcast(y, mu, v))

    def predict(self, mu: ArrayLike, v: ArrayLike) -> Array:
        """Return the mean of a new y whose z ~ N(mu, v).

        Parameters
        ----------
        mu, v : array_like of shape (n,)
            Mean and variance (>= 0) of z.

        Returns
        -------
        ndarray of shape (n,)
            E[y]; for a pair, the probability that the left item is preferred.
        """
        return self._predict(*broadcast(mu, v))

    def linearised(self, y: ArrayLike, mu: ArrayLike, v: ArrayLike, prior_variance: ArrayLike) -> tuple[Array, Array]:
        """Return the site of the linearised rule ([SG20] eqs. 11-14, corrected in docs/maths sections 3 and 12).

        Parameters
        ----------
        y : array_like of shape (n,)
            Observations.
        mu, v : array_like of shape (n,)
            Mean and variance of z under the current q. With v = 0 the likelihood is linearised at the mean, as in
            [SG20] eq. 13.
        prior_variance : array_like of shape (n,)
            Variance of z under the prior.

        Returns
        -------
        weight : ndarray of shape (n,)
            Site precision w >= 0.
        gradient : ndarray of shape (n,)
            w (t - mu), with t the site's pseudo-target.

        Raises
        ------
        DataError
            If the likelihood has no such rule; only the probit has one.
        """
        return self._linearised(*broadcast(y, mu, v, prior_variance))

    def learnt(self, y: Array, mu: Array, v: Array, weight: Array) -> Self:
        """Return the likelihood with its own parameters fitted to q: sum_i w_i E[log p(y_i | z_i)] does not fall.

        Parameters
        ----------
        y, mu, v, weight : ndarray of shape (n,)
            Observations, means and variances of z, weights.

        Returns
        -------
        Likelihood
            A likelihood of the same class; the same object if it has no parameters.
        """
        del y, mu, v, weight
        return self

    def with_level(self, step: float, y: Array, weight: Array) -> Self:
        """Return the likelihood with p(y | z + step) for p(y | z), within its limits, if it `has_level`.

        Parameters
        ----------
        step : float
            Change of z.
        y, weight : ndarray of shape (n,)
            Observations and their weights, which the limits depend on.

        Returns
        -------
        Likelihood
            A likelihood of the same class.
        """
        del step, y, weight
        return self

    def guess(self, y: Array) -> Array | None:
        """Return projections at which the observations are likely, for a start; None: the prior is a good start.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Observations.

        Returns
        -------
        ndarray of shape (n,) or None
            The projections.
        """
        del y
        return None

    @abstractmethod
    def _derivatives(self, y: Array, z: Array) -> Triple:
        """See `derivatives`."""

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        """See `expectation`."""
        value, first, second = gaussian_expectation(
            lambda z, y: self._derivatives(*broadcast(y, z)), mu, v, y, width=self.bends_over
        )
        return value, first, 0.5 * second

    def _tilted(self, y: Array, mu: Array, v: Array) -> Triple:
        """See `tilted`."""
        # The nodes are those of N(z, v) around the mode of p(y | z) N(z; mu, v), which Newton's method finds.
        z, shift = mu, np.zeros_like(mu)  # z = mu + v shift
        for _ in range(POLICY.newton_steps):
            _, first, second = self._derivatives(y, z)
            step = v * (first - shift) / (1.0 + v * np.maximum(-second, 0.0))
            z = z + np.clip(step, -POLICY.longest_step, POLICY.longest_step)
            shift = np.divide(z - mu, v, where=v > 0.0, out=shift)
        peak, _, _ = self._derivatives(y, z)

        def moments(x: Array, *rows: Array) -> Triple:
            y, z, shift, peak, x = broadcast(*rows, x)
            value, first, second = self._derivatives(y, x)
            p = np.exp(value - peak - shift * (x - z))
            return p, p * first, p * (second + first * first)

        total, slope, bend = gaussian_expectation(moments, z, v, y, z, shift, peak, width=self.bends_over)
        first = slope / total
        return np.log(total) + peak - 0.5 * v * shift**2, first, bend / total - first * first

    @abstractmethod
    def _predict(self, mu: Array, v: Array) -> Array:
        """See `predict`."""

    def _linearised(self, y: Array, mu: Array, v: Array, prior_variance: Array) -> tuple[Array, Array]:
        """See `linearised`."""
        del y, mu, v, prior_variance
        raise DataError(
            f"{type(self).__name__} has no linearised rule, which is defined for the probit only; "
            "use likelihood='probit', or another inference, such as 'vb'"
        )


def broadcast(*arrays: ArrayLike) -> tuple[Array, ...]:
    """Return arrays as float64 of one common shape."""
    given = [np.asarray(a, dtype=np.float64) for a in arrays]
    shape = np.broadcast_shapes(*(a.shape for a in given))
    return tuple(a if a.shape == shape else np.broadcast_to(a, shape).copy() for a in given)
