"""The inverse scale s of a Gaussian-process prior (maths.md section 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import digamma, gammaln


@dataclass(frozen=True)
class FixedScale:
    """An inverse scale that is known.

    Parameters
    ----------
    mean : float
        The value of s.
    """

    mean: float

    @property
    def mean_log(self) -> float:
        """Log of the value."""
        return float(np.log(self.mean))

    @property
    def kl(self) -> float:
        """No uncertainty, no divergence."""
        return 0.0

    def updated(self, size: float, second_moment: float, pull: float = 0.0) -> FixedScale:
        """Return itself: there is nothing to learn.

        Parameters
        ----------
        size, second_moment, pull : float
            As in `GammaScale.updated`; not used.

        Returns
        -------
        FixedScale
            This object.
        """
        del size, second_moment, pull
        return self

    def moved(self, shift: float) -> FixedScale:
        """Return itself.

        Parameters
        ----------
        shift : float
            Not used.

        Returns
        -------
        FixedScale
            This object.
        """
        del shift
        return self

    def mixed(self, target: Scale, rho: float) -> FixedScale:
        """Return itself.

        Parameters
        ----------
        target : FixedScale or GammaScale
            Not used.
        rho : float
            Not used.

        Returns
        -------
        FixedScale
            This object.
        """
        del target, rho
        return self


@dataclass(frozen=True)
class GammaScale:
    """q(s) = Gamma(shape, rate) under the prior Gamma(shape0, rate0); rates, not scales.

    Parameters
    ----------
    shape0, rate0 : float
        Prior.
    shape, rate : float
        Posterior; the prior when not given.

    Examples
    --------
    >>> from skpref.inference.scale import GammaScale
    >>> prior = GammaScale.prior(2.0, 2.0)
    >>> prior.updated(size=10, second_moment=40.0).mean
    0.3181818181818182
    """

    shape0: float
    rate0: float
    shape: float
    rate: float

    @classmethod
    def prior(cls, shape0: float, rate0: float) -> GammaScale:
        """Start at the prior.

        Parameters
        ----------
        shape0, rate0 : float
            Prior shape and rate.

        Returns
        -------
        GammaScale
            q(s) = p(s).
        """
        return cls(shape0, rate0, shape0, rate0)

    @property
    def mean(self) -> float:
        """E[s] = alpha / beta."""
        return self.shape / self.rate

    @property
    def mean_log(self) -> float:
        """E[log s] = digamma(alpha) - log beta."""
        return float(digamma(self.shape) - np.log(self.rate))

    @property
    def kl(self) -> float:
        """KL(q(s) || p(s)) (maths.md section 5)."""
        a, b, a0, b0 = self.shape, self.rate, self.shape0, self.rate0
        gain = (a - a0) * self.mean_log + (b0 - b) * self.mean
        return float(gain + a * np.log(b) - a0 * np.log(b0) - gammaln(a) + gammaln(a0))

    def updated(self, size: float, second_moment: float, pull: float = 0.0) -> GammaScale:
        """Return the q(s) that is stationary given q(v) (maths.md section 4).

        Parameters
        ----------
        size : float
            Number of whitened variables under this scale, M.
        second_moment : float
            |m|^2 + tr S.
        pull : float, default=0.0
            (c/2) sum_i w_i r_i: how much the bound gains, per unit of 1/E[s], by a smaller residual. Zero where the
            inducing points are the items.

        Returns
        -------
        GammaScale
            Updated posterior.
        """
        alpha = self.shape0 + 0.5 * size
        beta = self.rate0 + 0.5 * second_moment
        g = pull / alpha
        root = float(np.sqrt(alpha**2 + 4.0 * g * alpha * beta))
        return replace(self, shape=alpha, rate=float(2.0 * alpha * beta / (alpha + root)))

    def moved(self, shift: float) -> GammaScale:
        """Shift log E[s], the relative uncertainty kept.

        Parameters
        ----------
        shift : float
            Added to log E[s].

        Returns
        -------
        GammaScale
            The same shape, another rate.
        """
        return replace(self, rate=self.rate * float(np.exp(-shift)))

    def mixed(self, target: Scale, rho: float) -> GammaScale:
        """Move a fraction rho towards `target` in natural parameters.

        Parameters
        ----------
        target : GammaScale
            Where to.
        rho : float
            Step in [0, 1].

        Returns
        -------
        GammaScale
            The mixture of natural parameters.
        """
        if not isinstance(target, GammaScale):
            raise TypeError(f"target must be a GammaScale, as the scale itself; got {type(target).__name__}")
        shape = (1.0 - rho) * self.shape + rho * target.shape
        return replace(self, shape=shape, rate=(1.0 - rho) * self.rate + rho * target.rate)


Scale = FixedScale | GammaScale
