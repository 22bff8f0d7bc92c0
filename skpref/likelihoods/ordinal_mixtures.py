"""Ordered levels with other noise than Gaussian: scale mixtures of it, so that all that EP needs has a closed form.

    p(y | z) = lapse / r + (1 - lapse) sum_k w_k [Phi((b_{y+1} - z)/(noise s_k)) - Phi((b_y - z)/(noise s_k))]

With theta as in `OrdinalProbit`. Derivatives of log p follow from those of the parts by their shares q_k in p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from skpref._compiled.ordinal import VALUES
from skpref._math.quadrature import expectation as gaussian_expectation
from skpref.likelihoods.base import broadcast
from skpref.likelihoods.ordinal import OrdinalProbit, level_numbers
from skpref.likelihoods.policy import POLICY

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from skpref._typing import Array
    from skpref.likelihoods.base import Triple

__all__ = ["OrdinalLogit", "OrdinalRobust"]

# Weights and standard deviations of normal distributions whose mixture is the logistic one, to 2.2e-9 in its
# distribution function ([MS92] table 1, k = 8).
_LOGISTIC: Final = (
    (0.003246343272134, 1.0 / 1.365340806296348),
    (0.051517477033972, 1.0 / 1.059523971016916),
    (0.195077912673858, 1.0 / 0.830791313765644),
    (0.315569823632818, 1.0 / 0.650732166639391),
    (0.274149576158423, 1.0 / 0.508135425366489),
    (0.131076880695470, 1.0 / 0.396313345166341),
    (0.027912418727972, 1.0 / 0.308904252267995),
    (0.001449567805354, 1.0 / 0.238212616409306),
)


class _Parts(NamedTuple):
    """The parts of p: log p, their shares in it, and the derivatives in z of their logs, of shape (n_parts, n)."""

    log_p: Array  # (n,)
    share: Array
    first: Array
    second: Array


@dataclass(frozen=True)
class _OrdinalMixture(OrdinalProbit):
    """Base of the mixtures. Thresholds and noise are learnt by evidence only: `learnt` returns the same object."""

    has_parameters: ClassVar[bool] = False
    components: ClassVar[tuple[tuple[float, float], ...]] = ((1.0, 1.0),)  # weights, standard deviations in the noise
    lapse: ClassVar[float] = 0.0  # share of levels at random

    def probabilities(self, mu: ArrayLike, v: ArrayLike) -> Array:
        mean, variance = broadcast(mu, v)
        parts = [
            weight * OrdinalProbit(self.thresholds, scale * self.noise).probabilities(mean, variance)
            for weight, scale in self.components
        ]
        return np.asarray((1.0 - self.lapse) * sum(parts) + self.lapse / self.n_levels)

    def third_derivative(self, y: ArrayLike, z: ArrayLike) -> Array:
        y, z = broadcast(y, z)
        _, share, first, second = self._parts(y, z)
        third = np.stack([part.third_derivative(y, z) for part in self._probits()])
        p1 = np.sum(share * first, axis=0)  # derivatives of p, over p
        p2 = np.sum(share * (second + first**2), axis=0)
        p3 = np.sum(share * (third + 3.0 * first * second + first**3), axis=0)
        return np.asarray(p3 - 3.0 * p2 * p1 + 2.0 * p1**3)

    def theta_derivatives(self, y: ArrayLike, z: ArrayLike) -> Triple:
        y, z = broadcast(y, z)
        _, share, first, second = self._parts(y, z)
        p1, p2 = np.sum(share * first, axis=0), np.sum(share * (second + first**2), axis=0)  # derivatives of p, over p
        value, slope, bend = (np.zeros((self.n_levels, *y.shape)) for _ in range(3))
        for q, a, b, part in zip(share, first, second, self._probits(), strict=True):
            in_theta, of_first, of_second = part.theta_derivatives(y, z)
            value += q * in_theta
            slope += q * (of_first + in_theta * a)
            bend += q * (of_second + 2.0 * a * of_first + in_theta * (b + a**2))
        slope -= value * p1
        return value, slope, bend - value * p2 - 2.0 * p1 * slope

    def theta_expectation(self, y: ArrayLike, mu: ArrayLike, v: ArrayLike) -> Array:
        return self._expectations(lambda level, z: tuple(self.theta_derivatives(level, z)[0]), *broadcast(y, mu, v))

    def theta_tilted(self, y: ArrayLike, mu: ArrayLike, v: ArrayLike) -> Array:
        y, mu, v = broadcast(y, mu, v)
        share = self._parts(y, mu, v).share
        parts = [q * part.theta_tilted(y, mu, v) for q, part in zip(share, self._probits(), strict=True)]
        return np.asarray(sum(parts))

    def learnt(self, y: Array, mu: Array, v: Array, weight: Array) -> Self:
        del y, mu, v, weight
        return self

    def _derivatives(self, y: Array, z: Array) -> Triple:
        return self._tilted(y, z, np.zeros(z.shape))

    def _tilted(self, y: Array, mu: Array, v: Array) -> Triple:
        log_p, share, first, second = self._parts(y, mu, v)
        slope = np.sum(share * first, axis=0)
        return log_p, slope, np.sum(share * (second + first**2), axis=0) - slope**2

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        value, first, second = self._expectations(self._derivatives, y, mu, v)
        return value, first, 0.5 * second

    def _predict(self, mu: Array, v: Array) -> Array:
        return self.probabilities(mu, v) @ np.arange(self.n_levels)

    def _probits(self) -> list[OrdinalProbit]:
        """Return the likelihoods of the parts."""
        return [OrdinalProbit(self.thresholds, scale * self.noise) for _, scale in self.components]

    def _parts(self, y: Array, mu: Array, v: Array | float = 0.0) -> _Parts:
        """Return the contributions of the parts of p, with z ~ N(mu, v) integrated out."""
        level = level_numbers(y, self.n_levels)
        log_parts, first, second = (np.empty((len(self.components), *y.shape)) for _ in range(3))
        for k, (weight, scale) in enumerate(self.components):
            width = np.sqrt((scale * self.noise) ** 2 + np.broadcast_to(v, y.shape))
            value, slope, bend = self._evaluate(VALUES, level, mu, width)
            log_parts[k] = value + np.log(weight * (1.0 - self.lapse))
            first[k], second[k] = slope / width, bend / width**2
        log_p = np.asarray(logsumexp(log_parts, axis=0))
        if self.lapse > 0.0:
            log_p = np.logaddexp(log_p, np.log(self.lapse / self.n_levels))
        return _Parts(log_p, np.exp(log_parts - log_p), first, second)

    def _expectations(
        self, function: Callable[[Array, Array], tuple[Array, ...]], y: Array, mu: Array, v: Array
    ) -> Array:
        """Stack the expectations of function(y, z) over z ~ N(mu, v)."""
        shape, level = y.shape, level_numbers(y, self.n_levels).ravel()
        unit = self.noise / (POLICY.kink if self.lapse > 0.0 else 1.0)
        mu, v = mu.ravel() / unit, v.ravel() / unit**2
        out = np.empty((len(function(np.empty(0), np.empty(0))), level.size))
        for k in np.unique(level).tolist():
            rows = level == k

            def rescaled(z: Array, k: int = k) -> tuple[Array, ...]:
                # The quadrature is accurate for functions that change over lengths of 1.
                return function(np.full(z.shape, float(k)), z * unit)

            out[:, rows] = gaussian_expectation(rescaled, mu[rows], v[rows])
        return out.reshape((-1, *shape))


@dataclass(frozen=True)
class OrdinalLogit(_OrdinalMixture):
    """Ordinal logit, or proportional odds: `OrdinalProbit` with logistic noise.

    Parameters
    ----------
    thresholds : tuple of float, length r - 1
        b_1 < .. < b_{r-1}, in units of z; level j lies between b_j and b_{j+1}.
    noise : float, default=1.0
        Scale > 0 of the logistic noise added to z; its standard deviation is 1.81 times that.

    Raises
    ------
    DataError
        As `OrdinalProbit`.

    Notes
    -----
    The logistic distribution function is a mixture of 8 normal ones, to 2.2e-9 ([MS92]_ table 1).

    References
    ----------
    .. [MS92] J. Monahan, L. Stefanski: Normal scale mixture approximations to F*(z) and computation of the
       logistic-normal integral. Handbook of the Logistic Distribution, 529-540, 1992.

    Examples
    --------
    >>> from skpref.likelihoods import OrdinalLogit
    >>> OrdinalLogit((-1.0, 0.5)).probabilities([0.0], [0.0]).round(3)
    array([[0.269, 0.354, 0.378]])
    """

    components: ClassVar[tuple[tuple[float, float], ...]] = _LOGISTIC
    width: ClassVar[float] = 1.7


@dataclass(frozen=True)
class OrdinalRobust(_OrdinalMixture):
    """`OrdinalProbit` with labels that are a random level in 3 of 100 cases.

    Parameters
    ----------
    thresholds : tuple of float, length r - 1
        b_1 < .. < b_{r-1}, in units of z; level j lies between b_j and b_{j+1}.
    noise : float, default=1.0
        Standard deviation > 0 of the noise added to z.

    Raises
    ------
    DataError
        As `OrdinalProbit`.

    Notes
    -----
    log p is not concave in z, so expectation propagation may skip updates of sites.

    Examples
    --------
    >>> from skpref.likelihoods import OrdinalRobust
    >>> OrdinalRobust((-1.0, 0.5)).probabilities([9.0], [0.0]).round(3)
    array([[0.01, 0.01, 0.98]])
    """

    lapse: ClassVar[float] = 0.03
