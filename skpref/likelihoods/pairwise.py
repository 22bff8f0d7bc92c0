"""Pairwise likelihoods: which of two items is preferred.

y = 1 means that the left item is preferred, y = 0 the right one, y = 0.5 a tie, and any other value in [0, 1] is a soft
label ([SG20] eq. 3, docs/maths section 1):

    log p(y | z) = y log F(z) + (1 - y) log F(-z),    z = f(left) - f(right),

with F = Phi (Thurstone-Mosteller) or F = s, s(z) = 1/(1 + exp(-z)) (Bradley-Terry).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, ndtr

from skpref._compiled.pairwise import MODE_STEPS, MODE_TOLERANCE, expected_log_cdf, tilted_logit
from skpref._math.quadrature import chunks
from skpref._math.quadrature import expectation as gaussian_expectation
from skpref._math.special import INVERSE_SQRT_TWO_PI, log_expit_derivatives, log_ndtr_derivatives
from skpref.likelihoods.base import Likelihood

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from skpref._math.quadrature import Rule
    from skpref._typing import Array
    from skpref.likelihoods.base import Triple

__all__ = ["Luce", "PairwiseLikelihood", "PairwiseLogit", "PairwiseProbit", "beta_binomial_variance"]


@dataclass(frozen=True)
class PairwiseLikelihood(Likelihood):
    """Base class of the pairwise likelihoods: all that follows from log F with F(z) + F(-z) = 1.

    Notes
    -----
    Expectations are sums over the nodes of `skpref._math.quadrature.rules`: 9 for v <= 0.1, 27 at v = 1, about
    25 sqrt(v) beyond. Measured errors, relative to the value, are below 5e-9 for E, dE/dmu and dE/dv where
    ``|mu|`` <= 3 sqrt(1 + v) and v <= 1024; absolute errors of E stay below 1e-10 up to v = 64. Beyond v = 1024 the
    number of nodes is constant and the error grows, to 2e-6 (E) and 1e-5 (dE/dv) at v = 1e4.

    Examples
    --------
    >>> from skpref.likelihoods import PairwiseLikelihood, PairwiseLogit
    >>> issubclass(PairwiseLogit, PairwiseLikelihood)
    True
    """

    @abstractmethod
    def _log_cdf_derivatives(self, z: Array) -> Triple:
        """Return log F(z) and its first two derivatives."""

    @abstractmethod
    def _lower_tail(self, distance: Array, v: Array) -> Array:
        """Return E[F(z)] for z ~ N(-distance, v)."""

    def _derivatives(self, y: Array, z: Array) -> Triple:
        return _mix_labels(self._log_cdf_derivatives, y, z)

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        value, first, second = _mix_labels(self._expected_log_cdf, y, mu, v)
        return value, first, 0.5 * second

    def _expected_log_cdf(self, mu: Array, v: Array) -> Triple:
        value, first, second = gaussian_expectation(self._log_cdf_derivatives, mu, v)
        return value, first, second

    def _predict(self, mu: Array, v: Array) -> Array:
        # The larger probability is 1 - the smaller one, so that both add up to 1 exactly.
        smaller = self._lower_tail(np.abs(mu), v)
        return np.where(mu > 0.0, 1.0 - smaller, np.where(mu < 0.0, smaller, 0.5))

    def _tilted(self, y: Array, mu: Array, v: Array) -> Triple:
        shape = y.shape
        y, mu, v = np.ravel(y), np.ravel(mu), np.ravel(v)
        slope = self._slope_at_mode(y, mu, v)
        parts = np.empty((3, y.size))
        for rows, rule in chunks(v):
            parts[:, rows] = self._tilted_sums(y[rows], mu[rows], v[rows], slope[rows], rule)
        log_z, first, second = parts.reshape((3, *shape))
        return log_z, first, second

    def _tilted_sums(self, y: Array, mu: Array, v: Array, slope: Array, rule: Rule) -> Triple:
        """Sum p(y | z) N(z; mu, v) over nodes about its mode c = mu + v g, which may lie far from mu.

        At z = c + sqrt(v) x the factor N(z; mu, v)/N(z; c, v) is exp(-g sqrt(v) x - v g^2/2).
        """
        x, w = rule
        scaled = np.sqrt(v)[:, None] * x
        z = (mu + v * slope)[:, None] + scaled
        value, first, second = self._derivatives(np.broadcast_to(y[:, None], z.shape), z)
        log_term = value - slope[:, None] * scaled
        top = log_term.max(axis=1)
        mass = w * np.exp(log_term - top[:, None])
        total = mass.sum(axis=1)
        mass /= total[:, None]
        d_mu = (mass * first).sum(axis=1)
        spread = (mass * (first - d_mu[:, None]) ** 2).sum(axis=1)
        return top + np.log(total) - 0.5 * v * slope * slope, d_mu, (mass * second).sum(axis=1) + spread

    def _slope_at_mode(self, y: Array, mu: Array, v: Array) -> Array:
        """Return g = l'(c) where c = mu + v g, by Newton's method in a bracket (l' falls, so there is one such c)."""
        c, slope = mu, self._derivatives(y, mu)[1]
        low, high = np.minimum(mu, mu + v * slope), np.maximum(mu, mu + v * slope)
        for _ in range(MODE_STEPS):
            _, slope, curvature = self._derivatives(y, c)
            excess = c - mu - v * slope
            # A converged element no longer moves, so its result does not depend on other elements.
            near = np.abs(excess) <= MODE_TOLERANCE * np.sqrt(v)
            if np.all(near):
                break
            low, high = np.where(excess <= 0.0, c, low), np.where(excess >= 0.0, c, high)
            step = c - excess / (1.0 - v * curvature)
            # Strictly inside the bracket, since at an end Newton steps may alternate forever.
            step = np.where((step > low) & (step < high), step, 0.5 * (low + high))
            c = np.where(near, c, step)
        return slope


@dataclass(frozen=True)
class PairwiseProbit(PairwiseLikelihood):
    """Thurstone-Mosteller: p(y = 1 | z) = Phi(z) ([SG20] eq. 3).

    Examples
    --------
    >>> from skpref.likelihoods import PairwiseProbit
    >>> PairwiseProbit().predict([1.0, -1.0], [0.0, 3.0]).round(4)
    array([0.8413, 0.3085])
    """

    def _log_cdf_derivatives(self, z: Array) -> Triple:
        return log_ndtr_derivatives(z)

    def _lower_tail(self, distance: Array, v: Array) -> Array:
        return np.asarray(ndtr(-distance / np.sqrt(1.0 + v)))

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        return _compiled_expectation(y, mu, v, probit=True)

    def _tilted(self, y: Array, mu: Array, v: Array) -> Triple:
        """Use the closed form for labels 0 and 1: log Z = log Phi(mu/sqrt(1 + v)) or log Phi(-mu/sqrt(1 + v))."""
        width = np.sqrt(1.0 + v)
        log_z, first, second = _mix_labels(log_ndtr_derivatives, y, mu / width)
        first, second = np.asarray(first / width), np.asarray(second / (1.0 + v))
        soft = _is_soft(y)
        if np.any(soft):
            log_z[soft], first[soft], second[soft] = super()._tilted(y[soft], mu[soft], v[soft])
        return log_z, first, second

    def _linearised(self, y: Array, mu: Array, v: Array, prior_variance: Array) -> tuple[Array, Array]:
        z_hat = mu / np.sqrt(1.0 + v)
        g = INVERSE_SQRT_TWO_PI * np.exp(-0.5 * z_hat * z_hat)
        scaled = g / beta_binomial_variance(prior_variance)
        return scaled * g, scaled * (y - ndtr(z_hat))


@dataclass(frozen=True)
class PairwiseLogit(PairwiseLikelihood):
    """Bradley-Terry: p(y = 1 | z) = 1/(1 + exp(-z)).

    Examples
    --------
    >>> from skpref.likelihoods import PairwiseLogit
    >>> PairwiseLogit().predict([1.0, -1.0], [0.0, 3.0]).round(4)
    array([0.7311, 0.3404])
    """

    def _log_cdf_derivatives(self, z: Array) -> Triple:
        return log_expit_derivatives(z)

    def _lower_tail(self, distance: Array, v: Array) -> Array:
        return gaussian_expectation(lambda z: (expit(-z),), distance, v)[0]

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        return _compiled_expectation(y, mu, v, probit=False)

    def _tilted(self, y: Array, mu: Array, v: Array) -> Triple:
        log_z, first, second = tilted_logit(np.ravel(y), np.ravel(mu), np.ravel(v)).reshape((3, *y.shape))
        return log_z, first, second


@dataclass(frozen=True)
class Luce(PairwiseLogit):
    """Choice of one among k: p(y | z) = exp(z_y) / sum_j exp(z_j), the multinomial logit.

    Of rankings it is the model of Plackett and Luce: the best is chosen, then the best of the rest. With two
    alternatives it is `PairwiseLogit`, which predictions of pairs use.

    Examples
    --------
    >>> from skpref.likelihoods import Luce
    >>> Luce().predict([1.0], [0.0]).round(4)
    array([0.7311])
    """


def beta_binomial_variance(prior_variance: ArrayLike) -> Array:
    """Return the variance Q of an answer 0 or 1 in the linearised rule ([SG20] eq. 12), shape (n,).

    The factor 2g + 1 is missing in the paper (docs/maths section 13). Q is the same for both answers, so the rule is
    linear in the label, and a soft label stands for a share of wins and one of losses.
    """
    prior_variance = np.asarray(prior_variance, dtype=np.float64)
    spread = np.arcsin(prior_variance / (1.0 + prior_variance)) / (2.0 * np.pi)
    # Q = g / (2 (2g + 1)), where 1/(4 (2g + 1)) = spread.
    return np.asarray(0.25 - spread)


def _compiled_expectation(y: Array, mu: Array, v: Array, *, probit: bool) -> Triple:
    """Return the expectation by compiled loops; `PairwiseLikelihood._expectation` does the same in numpy."""
    sums = expected_log_cdf(np.ravel(y), np.ravel(mu), np.ravel(v), probit=probit)
    value, first, second = sums.reshape((3, *y.shape))
    return value, first, 0.5 * second


def _is_soft(y: Array) -> Array:
    return np.asarray((y != 0.0) & (y != 1.0))


def _mix_labels(rule: Callable[..., Triple], y: Array, mean: Array, *variances: Array) -> Triple:
    """Mix a rule for log F at mean and at -mean by the labels; hard labels need one side only."""
    sign = np.where(y < 0.5, -1.0, 1.0)
    value, first, second = (np.array(part) for part in rule(sign * mean, *variances))
    first *= sign
    soft = _is_soft(y)
    if np.any(soft):
        other = rule(-(sign * mean)[soft], *(a[soft] for a in variances))
        # The side evaluated first has the larger share.
        share = 0.5 + np.abs(y[soft] - 0.5)
        value[soft] = share * value[soft] + (1.0 - share) * other[0]
        first[soft] = share * first[soft] - (1.0 - share) * sign[soft] * other[1]
        second[soft] = share * second[soft] + (1.0 - share) * other[2]
    return value, first, second
