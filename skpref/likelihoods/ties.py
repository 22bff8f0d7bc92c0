"""Ties as a third answer: a comparison is a tie if the noisy difference is within a threshold of 0.

    p(left | z) = F(z - b),   p(right | z) = F(-z - b),   p(tie | z) = F(b - z) - F(-b - z),   b > 0,

with F = Phi ([GD60]) or F = s, s(z) = 1/(1 + exp(-z)) ([RK67], who write exp(b) for the threshold).

With a tie as half a win each (y = 0.5 of the other likelihoods), all utilities shrink. Here a tie only means a small
difference, and does not affect the other answers.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np
from scipy.special import expit, ndtr

from skpref._math.bands import band
from skpref._math.quadrature import expectation as gaussian_expectation
from skpref.exceptions import DataError
from skpref.likelihoods.base import Likelihood
from skpref.likelihoods.pairwise import PairwiseLikelihood, PairwiseLogit, PairwiseProbit

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.likelihoods.base import Triple

__all__ = ["PairwiseLogitTies", "PairwiseProbitTies", "PairwiseTies"]

_HALVINGS: Final = 20
_SMALLEST_STEP: Final = 1e-5  # relative step of the threshold below which `learnt` stops


@dataclass(frozen=True)
class PairwiseTies(Likelihood):
    """Base class of the likelihoods with ties; y = 1 left, 0 right, exactly 0.5 a tie.

    Other labels in [0, 1] are soft: y log p(left) + (1 - y) log p(right).

    Parameters
    ----------
    threshold : float, default=0.3
        b > 0, in units of z; `learnt` fits it.

    Raises
    ------
    DataError
        If `threshold` is not positive and finite.

    Examples
    --------
    >>> from skpref.likelihoods import PairwiseLogitTies, PairwiseTies
    >>> issubclass(PairwiseLogitTies, PairwiseTies)
    True
    """

    ties_are_answers: ClassVar[bool] = True
    has_parameters: ClassVar[bool] = True
    side: ClassVar[PairwiseLikelihood]  # of F: what is left of a tie

    threshold: float = 0.3

    def __post_init__(self) -> None:
        """Check the threshold."""
        if not (np.isfinite(self.threshold) and self.threshold > 0.0):
            raise DataError(f"threshold must be a positive finite number; got {self.threshold!r}")

    @abstractmethod
    def _tied(self, z: Array, v: Array | None) -> Array:
        """Return log p(tie), its first derivative, and its second one (halved under an expectation), stacked."""

    @abstractmethod
    def _tied_by_threshold(self, mu: Array, v: Array) -> Array:
        """Return E[log p(tie)] and its first two derivatives in b, stacked."""

    @abstractmethod
    def _tie_probability(self, mu: Array, v: Array) -> Array:
        """Return E[p(tie)], with its relative precision in the tails."""

    def _derivatives(self, y: Array, z: Array) -> Triple:
        return self._evaluate_answers(y, z, None)

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        return self._evaluate_answers(y, mu, v)

    def _evaluate_answers(self, y: Array, z: Array, v: Array | None) -> Triple:
        """Return values at z (v None) or expectations over N(z, v); the curvature is l'' or dE/dv."""
        out = np.zeros((3, *y.shape))
        tie = y == 0.5
        if np.any(tie):
            out[:, tie] = self._tied(z[tie], None if v is None else v[tie])
        for side, share in ((1.0, y), (0.0, 1.0 - y)):
            rows = ~tie & (share > 0.0)
            shifted = z[rows] + (1.0 - 2.0 * side) * self.threshold
            label = np.full(shifted.shape, side)
            parts = (
                self.side.derivatives(label, shifted) if v is None else self.side.expectation(label, shifted, v[rows])
            )
            out[:, rows] += share[rows] * np.asarray(parts)
        return out[0], out[1], out[2]

    def _tilted(self, y: Array, mu: Array, v: Array) -> Triple:
        moments = np.empty((3, y.size))
        for label in np.unique(y):
            rows = np.flatnonzero(y == label)
            moments[:, rows] = gaussian_expectation(partial(self._moments, label), mu[rows], v[rows])
        z0, z1, z2 = moments
        return np.log(z0), z1 / z0, z2 / z0 - (z1 / z0) ** 2

    def _moments(self, label: float, z: Array) -> Triple:
        """Return p, p' and p'' of one label at z."""
        value, first, second = self._derivatives(np.full(z.shape, label), z)
        p = np.exp(value)
        return p, p * first, p * (second + first * first)

    def _predict(self, mu: Array, v: Array) -> Array:
        left, right = self.side.predict(mu - self.threshold, v), self.side.predict(-mu - self.threshold, v)
        total = left + right
        # If both tails underflow, the answer is certain.
        return np.where(total > 0.0, left / np.where(total > 0.0, total, 1.0), np.heaviside(mu, 0.5))

    def predict_answers(self, mu: Array, v: Array) -> Array:
        """Return the probabilities of the three answers.

        Parameters
        ----------
        mu, v : ndarray of shape (n,)
            Means and variances (>= 0) of z.

        Returns
        -------
        ndarray of shape (n, 3)
            Left, tie, right; rows sum to 1.
        """
        left, right = self.side.predict(mu - self.threshold, v), self.side.predict(-mu - self.threshold, v)
        return np.stack([left, self._tie_probability(mu, v), right], axis=-1)

    def learnt(self, y: Array, mu: Array, v: Array, weight: Array) -> Self:
        """Return the likelihood after a Newton step in log b on sum_i w_i E[log p] over N(mu, v).

        Parameters
        ----------
        y, mu, v, weight : ndarray of shape (n,)
            Labels, means and variances of z, weights.

        Returns
        -------
        PairwiseTies
            The step is halved until the objective does not fall. The objective is concave in b, so one step in each
            pass of the loop converges to the best b together with q.
        """
        value, slope, curvature = self._log_threshold_derivatives(y, mu, v, weight)
        step = float(np.clip(slope / abs(curvature) if curvature != 0.0 else np.sign(slope), -1.0, 1.0))
        if abs(step) < _SMALLEST_STEP:
            return self
        for _ in range(_HALVINGS):
            trial = replace(self, threshold=self.threshold * float(np.exp(step)))
            if weight @ trial._expectation(y, mu, v)[0] >= value:  # noqa: SLF001 - its own class
                return trial
            step *= 0.5
        return self

    def _log_threshold_derivatives(self, y: Array, mu: Array, v: Array, weight: Array) -> tuple[float, float, float]:
        """Return the objective of `learnt` and its first two derivatives in log b."""
        b, out = self.threshold, np.zeros((3, *y.shape))
        tie = y == 0.5
        if np.any(tie):
            out[:, tie] = self._tied_by_threshold(mu[tie], v[tie])
        for side, share in ((1.0, y), (0.0, 1.0 - y)):
            rows, sign = ~tie & (share > 0.0), 1.0 - 2.0 * side
            label = np.full(int(rows.sum()), side)
            value, first, half_second = self.side.expectation(label, mu[rows] + sign * b, v[rows])
            out[:, rows] += share[rows] * np.stack([value, sign * first, 2.0 * half_second])
        total, slope, curvature = (float(x) for x in out @ weight)
        return total, b * slope, b * b * curvature + b * slope


@dataclass(frozen=True)
class PairwiseProbitTies(PairwiseTies):
    """Thurstone-Mosteller with ties ([GD60]); y = 1 left, 0 right, exactly 0.5 a tie.

    Parameters
    ----------
    threshold : float, default=0.3
        b > 0, in units of z; `learnt` fits it.

    Raises
    ------
    DataError
        If `threshold` is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.likelihoods import PairwiseProbitTies
    >>> likelihood = PairwiseProbitTies(0.5)
    >>> float(np.exp(likelihood.log_prob([1.0, 0.5, 0.0], [0.2, 0.2, 0.2])).sum().round(12))
    1.0
    """

    side: ClassVar[PairwiseLikelihood] = PairwiseProbit()

    def _tied(self, z: Array, v: Array | None) -> Array:
        if v is None:
            return np.stack(_tie_derivatives(z, self.threshold))
        value, first, second = gaussian_expectation(lambda at: _tie_derivatives(at, self.threshold), z, v)
        return np.stack([value, first, 0.5 * second])

    def _tied_by_threshold(self, mu: Array, v: Array) -> Array:
        return np.stack(gaussian_expectation(lambda at: _threshold_derivatives(at, self.threshold), mu, v))

    def _tie_probability(self, mu: Array, v: Array) -> Array:
        width, distance = np.sqrt(1.0 + v), np.abs(mu)
        return np.asarray(ndtr((self.threshold - distance) / width) - ndtr((-self.threshold - distance) / width))


@dataclass(frozen=True)
class PairwiseLogitTies(PairwiseTies):
    """Bradley-Terry with ties, after Rao and Kupper ([RK67]); y = 1 left, 0 right, exactly 0.5 a tie.

    Parameters
    ----------
    threshold : float, default=0.3
        b > 0, in units of z; `learnt` fits it.

    Raises
    ------
    DataError
        If `threshold` is not positive and finite.

    Notes
    -----
    A tie is a win of the left side helped by b, and a win of the right side helped by b:
    p(tie | z) = s(z + b) s(b - z) (1 - exp(-2b)), so that its expectations are those of the logit.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.likelihoods import PairwiseLogitTies
    >>> PairwiseLogitTies(np.log(2.0)).predict_answers(np.zeros(1), np.zeros(1)).round(4).tolist()
    [[0.3333, 0.3333, 0.3333]]
    """

    side: ClassVar[PairwiseLikelihood] = PairwiseLogit()

    def _helped_wins(self, z: Array, v: Array | None) -> Array:
        """Return the terms of both helped wins: value, first and second derivative, stacked, shape (2, 3, n)."""
        shifted = [(np.ones(z.shape), z + self.threshold), (np.zeros(z.shape), z - self.threshold)]
        if v is None:
            return np.array([self.side.derivatives(label, at) for label, at in shifted])
        return np.array([self.side.expectation(label, at, v) for label, at in shifted])

    def _tied(self, z: Array, v: Array | None) -> Array:
        out = self._helped_wins(z, v).sum(axis=0)
        out[0] += np.log(-np.expm1(-2.0 * self.threshold))
        return np.asarray(out)

    def _tied_by_threshold(self, mu: Array, v: Array) -> Array:
        (value, first, half_second), other = self._helped_wins(mu, v)
        rest = -np.expm1(-2.0 * self.threshold)  # 1 - exp(-2b)
        ratio = np.exp(-2.0 * self.threshold) / rest
        second = 2.0 * (half_second + other[2]) - 4.0 * ratio / rest
        return np.stack([value + other[0] + np.log(rest), first - other[1] + 2.0 * ratio, second])

    def _tie_probability(self, mu: Array, v: Array) -> Array:
        b = self.threshold
        return gaussian_expectation(lambda z: (expit(z + b) * expit(b - z) * -np.expm1(-2.0 * b),), mu, v)[0]


def _tie_derivatives(z: Array, b: float) -> Triple:
    """Return log p(tie) and its first two derivatives in z."""
    terms = band(-z, 2.0 * b)
    return terms.value, terms.mean, terms.bend


def _threshold_derivatives(z: Array, b: float) -> Triple:
    """Return log p(tie) and its first two derivatives in b."""
    terms = band(z, 2.0 * b)  # which is even in z
    first = terms.at_upper + terms.at_lower
    return terms.value, first, terms.bend - 4.0 * terms.at_upper * terms.at_lower
