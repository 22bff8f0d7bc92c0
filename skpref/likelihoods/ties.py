"""Ties and grades of preference: the answer says between which thresholds the noisy difference lies.

    p(left | z) = F(z - b),   p(right | z) = F(-z - b),   p(tie | z) = F(b - z) - F(-b - z),   b > 0,

with F = Phi ([GD60]) or F = s, s(z) = 1/(1 + exp(-z)) ([RK67], who write exp(b) for the threshold). Grades, such as
"much better" and "better", have further thresholds, which are the same for both sides: a level between the thresholds
c - h and c + h is a tie of z - c with the threshold h. Without ties, 0 is a threshold, too.

With a tie as half a win each (y = 0.5 of the other likelihoods), all utilities shrink. Here a tie only means a small
difference, and does not affect the other answers.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np
from scipy.special import expit, ndtr

from skpref._compiled.ordinal import THRESHOLDS, VALUES, expected_levels
from skpref._math.bands import band
from skpref._math.quadrature import expectation as gaussian_expectation
from skpref.exceptions import DataError
from skpref.likelihoods.base import Likelihood
from skpref.likelihoods.pairwise import PairwiseLikelihood, PairwiseLogit, PairwiseProbit
from skpref.likelihoods.policy import POLICY

if TYPE_CHECKING:
    from skpref._typing import Array, BoolArray, IntArray
    from skpref.likelihoods.base import Triple

__all__ = ["PairwiseLogitTies", "PairwiseProbitTies", "PairwiseTies"]

_FEWEST_LEVELS: Final = 3


@dataclass(frozen=True)
class PairwiseTies(Likelihood):
    """Base class of the likelihoods with ties or grades; y = 1 left, 0 right, exactly 0.5 a tie.

    Of L levels, level k has y = k / (L - 1). Other labels in [0, 1] are soft: y log p(y=1) + (1 - y) log p(y=0).

    Parameters
    ----------
    threshold : float, default=0.3
        b > 0, the first threshold, in units of z; `learnt` fits it.
    ratios : tuple of float, default=()
        Further thresholds over the first one, ascending from above 1; `learnt` fits them.
    tie : bool, default=True
        Whether there is a level between -b and b, and not one on each side of 0.
    learn : bool, default=True
        Whether a fit learns the thresholds. False: they are known, and the same for all users and groups.

    Raises
    ------
    DataError
        If `threshold` is not positive and finite, `ratios` are not ascending from above 1, or `tie` or `learn` is no
        bool.

    Examples
    --------
    >>> from skpref.likelihoods import PairwiseLogitTies, PairwiseTies
    >>> issubclass(PairwiseLogitTies, PairwiseTies)
    True
    """

    ties_are_answers: ClassVar[bool] = True
    side: ClassVar[PairwiseLikelihood]  # of F: what is left of a tie

    threshold: float = 0.3
    ratios: tuple[float, ...] = ()
    tie: bool = True
    learn: bool = True

    def __post_init__(self) -> None:
        """Check the thresholds."""
        if not (np.isfinite(self.threshold) and self.threshold > 0.0):
            raise DataError(f"threshold must be a positive finite number; got {self.threshold!r}")
        try:
            ratios = tuple(map(float, self.ratios))
        except (TypeError, ValueError):
            ratios = (np.nan,)
        if not (np.diff([1.0, *ratios]) > 0.0).all() or not np.isfinite(ratios).all():
            raise DataError(f"ratios must be finite numbers, ascending from above 1; got {self.ratios!r}")
        object.__setattr__(self, "ratios", ratios)
        for name in ("tie", "learn"):
            if not isinstance(getattr(self, name), bool):
                raise DataError(f"{name} must be True or False; got {getattr(self, name)!r}")

    @property
    def has_parameters(self) -> bool:
        """Whether `learnt` fits the thresholds."""
        return self.learn

    @classmethod
    def from_levels(cls, n_levels: int) -> Self:
        """Return the start of a fit to answers with L levels; if L is odd, one is a tie.

        Parameters
        ----------
        n_levels : int
            Number of levels, at least 3.

        Returns
        -------
        PairwiseTies
            Thresholds at equal distances.

        Raises
        ------
        DataError
            If `n_levels` is below 3.
        """
        if n_levels < _FEWEST_LEVELS:
            raise DataError(f"n_levels must be at least {_FEWEST_LEVELS}; got {n_levels!r}")
        further, tie = (n_levels - 3) // 2, bool(n_levels % 2)
        step = 2.0 if tie else 1.0  # where ties have the width of other levels
        return cls(ratios=tuple(1.0 + step * (k + 1.0) for k in range(further)), tie=tie)

    @property
    def n_levels(self) -> int:
        """Number of levels, L."""
        return 2 * len(self.ratios) + (3 if self.tie else 4)

    @property
    def multiples(self) -> Array:
        """Ends of the levels in units of the threshold, ascending from -inf to inf, shape (L + 1,)."""
        sides = np.array([1.0, *self.ratios, np.inf])
        return np.concatenate([-sides[::-1], [] if self.tie else [0.0], sides])

    def levels_of(self, y: Array) -> IntArray:
        """Return the number of each answer's level, -1 for soft labels.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Labels.

        Returns
        -------
        ndarray of shape (n,), dtype int64
            Numbers from 0, right, to L - 1, left.
        """
        place = y * (self.n_levels - 1.0)
        level = np.rint(place)
        # Distance of a label from a level beyond which it is soft.
        return np.where(np.abs(place - level) < 1e-9, level, -1.0).astype(np.int64)

    def inner_levels(self, y: Array) -> list[tuple[BoolArray, float, float]]:
        """Return the rows of each level between two thresholds, its centre and its half width.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Labels.

        Returns
        -------
        list of (ndarray of shape (n,), float, float)
            Levels that have rows; centre and half width in units of the threshold.
        """
        level, ends = self.levels_of(y), self.multiples
        return [
            (level == k, 0.5 * (ends[k] + ends[k + 1]), 0.5 * (ends[k + 1] - ends[k]))
            for k in np.unique(level).tolist()
            if 0 < k < self.n_levels - 1
        ]

    @abstractmethod
    def _tied(self, z: Array, v: Array | None, b: float) -> Array:
        """Return log p(tie), its first derivative, and its second one (halved under an expectation), stacked."""

    @abstractmethod
    def _tied_by_threshold(self, mu: Array, v: Array, b: float) -> Array:
        """Return E[log p(tie)], its first two derivatives in b, and its mixed one in b and z, stacked."""

    @abstractmethod
    def _tie_probability(self, mu: Array, v: Array, b: float) -> Array:
        """Return E[p(tie)], with its relative precision in the tails."""

    def _derivatives(self, y: Array, z: Array) -> Triple:
        return self._evaluate_answers(y, z, None)

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        return self._evaluate_answers(y, mu, v)

    def _evaluate_answers(self, y: Array, z: Array, v: Array | None) -> Triple:
        """Return values at z (v None) or expectations over N(z, v); the curvature is l'' or dE/dv."""
        out, outer = np.zeros((3, *y.shape)), np.ones(y.shape, dtype=bool)
        for rows, centre, half in self.inner_levels(y):
            at, outer = z[rows] - self.threshold * centre, outer & ~rows
            out[:, rows] = self._tied(at, None if v is None else v[rows], self.threshold * half)
        for side, share in ((1.0, y), (0.0, 1.0 - y)):
            rows = outer & (share > 0.0)
            shifted = z[rows] + (1.0 - 2.0 * side) * self.threshold * self.multiples[-2]
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
        return share_of_left(self.predict_answers(mu, v))

    def predict_answers(self, mu: Array, v: Array) -> Array:
        """Return the probabilities of the answers.

        Parameters
        ----------
        mu, v : ndarray of shape (n,)
            Means and variances (>= 0) of z.

        Returns
        -------
        ndarray of shape (n, L)
            Left, tie, right; of grades, from y = 1 to y = 0. Rows sum to 1.
        """
        b, ends = self.threshold, self.multiples
        left, right = self.side.predict(mu - b * ends[-2], v), self.side.predict(-mu - b * ends[-2], v)
        middle = [
            self._tie_probability(mu - 0.5 * b * (low + high), v, 0.5 * b * (high - low))
            for low, high in pairwise(ends[1:-1].tolist())
        ]
        return np.stack([left, *reversed(middle), right], axis=-1)

    def learnt(self, y: Array, mu: Array, v: Array, weight: Array) -> Self:
        """Return the likelihood after a Newton step in log b and log gaps on sum_i w_i E[log p] over N(mu, v).

        Parameters
        ----------
        y, mu, v, weight : ndarray of shape (n,)
            Labels, means and variances of z, weights.

        Returns
        -------
        PairwiseTies
            The step is halved until the objective does not fall, which is concave in the thresholds: one step
            in each pass of the loop converges to the best thresholds together with q.
        """
        if not self.learn:
            return self
        value, slope, curvature = self._log_threshold_derivatives(y, mu, v, weight)
        bend, axes = np.linalg.eigh(curvature)
        bend = np.abs(bend)
        bend = np.maximum(bend, POLICY.least_curvature * max(bend.max(), 1.0))
        step = np.clip(axes @ (axes.T @ slope / bend), -1.0, 1.0)
        for _ in range(POLICY.halvings if np.abs(step).max() >= POLICY.least_step else 0):
            trial = self
            for gap, part in enumerate(step.tolist()):
                trial = trial.stretched(gap, part)
            if weight @ trial._expectation(y, mu, v)[0] >= value:  # noqa: SLF001 - its own class
                return trial
            step *= 0.5
        return self

    def slopes(self, y: Array, mu: Array, v: Array, weight: Array) -> Array:
        """Return the slopes of sum_i w_i E[log p] over N(mu, v) in what `stretched` changes.

        Parameters
        ----------
        y, mu, v, weight : ndarray of shape (n,)
            Labels, means and variances of z, weights.

        Returns
        -------
        ndarray of shape (1 + n_ratios,)
            In the logarithms of all thresholds, and of each gap.
        """
        return self._log_threshold_derivatives(y, mu, v, weight)[1]

    def stretched(self, gap: int, step: float) -> Self:
        """Return the likelihood with exp(step) times all thresholds, or times one gap.

        Parameters
        ----------
        gap : int
            0: all thresholds; k: the gap before the threshold of `ratios[k - 1]`.
        step : float
            Logarithm of the factor.

        Returns
        -------
        PairwiseTies
            A likelihood of the same class.
        """
        if gap == 0:
            return replace(self, threshold=self.threshold * float(np.exp(step)))
        moved = np.array([1.0, *self.ratios]) + float(np.expm1(step)) * self.direction(gap)[-2 - len(self.ratios) : -1]
        return replace(self, ratios=tuple(moved[1:].tolist()))

    def direction(self, gap: int) -> Array:
        """Return the derivative of `multiples` in the logarithm that `stretched` changes, 0 for infinite ends.

        Parameters
        ----------
        gap : int
            As in `stretched`.

        Returns
        -------
        ndarray of shape (L + 1,)
            In units of the threshold.
        """
        ends = np.where(np.isfinite(self.multiples), self.multiples, 0.0)
        if gap == 0:
            return ends
        sides = np.array([1.0, *self.ratios])
        return np.asarray(np.sign(ends) * (sides[gap] - sides[gap - 1]) * (np.abs(ends) >= sides[gap]))

    def _log_threshold_derivatives(self, y: Array, mu: Array, v: Array, weight: Array) -> tuple[float, Array, Array]:
        """Return the objective of `learnt`, its slopes in what `stretched` changes, (G,), and its Hessian, (G, G)."""
        b, outer = self.threshold, np.ones(y.shape, dtype=bool)
        moved = b * np.array([self.direction(gap) for gap in range(1 + len(self.ratios))])
        total, slope, bend = 0.0, np.zeros(len(moved)), np.zeros((len(moved), len(moved)))
        for rows, centre, half in self.inner_levels(y):
            k, at, outer = int(self.levels_of(y[rows][:1])[0]), mu[rows] - b * centre, outer & ~rows
            to_centre, to_half = 0.5 * (moved[:, k] + moved[:, k + 1]), 0.5 * (moved[:, k + 1] - moved[:, k])
            value, first, second, mixed = self._tied_by_threshold(at, v[rows], b * half) @ weight[rows]
            _, by_z, half_bend = self._tied(at, v[rows], b * half) @ weight[rows]
            cross = np.outer(to_half, to_centre)
            total, slope = total + value, slope + to_half * first - to_centre * by_z
            bend += second * np.outer(to_half, to_half) - mixed * (cross + cross.T)
            bend += 2.0 * half_bend * np.outer(to_centre, to_centre)
        for side, share in ((1.0, y), (0.0, 1.0 - y)):
            rows, sign = outer & (share > 0.0), 1.0 - 2.0 * side
            label = np.full(int(rows.sum()), side)
            parts = self.side.expectation(label, mu[rows] + sign * b * self.multiples[-2], v[rows])
            value, first, half_bend = np.stack(parts) @ (share * weight)[rows]
            total, slope = total + value, slope + sign * moved[:, -2] * first
            bend += 2.0 * half_bend * np.outer(moved[:, -2], moved[:, -2])
        bend += np.diag(slope)  # of the logarithms
        bend[0, 1:] += slope[1:]
        bend[1:, 0] += slope[1:]
        return float(total), slope, bend


@dataclass(frozen=True)
class PairwiseProbitTies(PairwiseTies):
    """Thurstone-Mosteller with ties ([GD60]); y = 1 left, 0 right, exactly 0.5 a tie.

    Parameters
    ----------
    threshold : float, default=0.3
        b > 0, the first threshold, in units of z; `learnt` fits it.
    ratios : tuple of float, default=()
        Further thresholds over the first one, ascending from above 1; `learnt` fits them.
    tie : bool, default=True
        Whether there is a level between -b and b, and not one on each side of 0.
    learn : bool, default=True
        Whether a fit learns the thresholds. False: they are known, and the same for all users and groups.

    Raises
    ------
    DataError
        If `threshold` is not positive and finite, `ratios` are not ascending from above 1, or `tie` or `learn` is no
        bool.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.likelihoods import PairwiseProbitTies
    >>> likelihood = PairwiseProbitTies(0.5)
    >>> float(np.exp(likelihood.log_prob([1.0, 0.5, 0.0], [0.2, 0.2, 0.2])).sum().round(12))
    1.0
    """

    side: ClassVar[PairwiseLikelihood] = PairwiseProbit()

    def _tied(self, z: Array, v: Array | None, b: float) -> Array:
        if v is None:
            terms = band(-z, 2.0 * b)
            return np.stack([terms.value, terms.mean, terms.bend])
        out = expected_levels(VALUES, *_middle_level(z, v, b))
        out[2] *= 0.5
        return out

    def _tied_by_threshold(self, mu: Array, v: Array, b: float) -> Array:
        value, _, upper, lower, *_, by_upper, by_lower, both = expected_levels(THRESHOLDS, *_middle_level(mu, v, b))
        return np.stack([value, upper + lower, -(by_upper + by_lower + 2.0 * both), by_upper - by_lower])

    def _tie_probability(self, mu: Array, v: Array, b: float) -> Array:
        width, distance = np.sqrt(1.0 + v), np.abs(mu)
        return np.asarray(ndtr((b - distance) / width) - ndtr((-b - distance) / width))


@dataclass(frozen=True)
class PairwiseLogitTies(PairwiseTies):
    """Bradley-Terry with ties, after Rao and Kupper ([RK67]); y = 1 left, 0 right, exactly 0.5 a tie.

    Parameters
    ----------
    threshold : float, default=0.3
        b > 0, the first threshold, in units of z; `learnt` fits it.
    ratios : tuple of float, default=()
        Further thresholds over the first one, ascending from above 1; `learnt` fits them.
    tie : bool, default=True
        Whether there is a level between -b and b, and not one on each side of 0.
    learn : bool, default=True
        Whether a fit learns the thresholds. False: they are known, and the same for all users and groups.

    Raises
    ------
    DataError
        If `threshold` is not positive and finite, `ratios` are not ascending from above 1, or `tie` or `learn` is no
        bool.

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

    def _helped_wins(self, z: Array, v: Array | None, b: float) -> Array:
        """Return the terms of both helped wins: value, first and second derivative, stacked, shape (2, 3, n)."""
        shifted = [(np.ones(z.shape), z + b), (np.zeros(z.shape), z - b)]
        if v is None:
            return np.array([self.side.derivatives(label, at) for label, at in shifted])
        return np.array([self.side.expectation(label, at, v) for label, at in shifted])

    def _tied(self, z: Array, v: Array | None, b: float) -> Array:
        out = self._helped_wins(z, v, b).sum(axis=0)
        out[0] += np.log(-np.expm1(-2.0 * b))
        return np.asarray(out)

    def _tied_by_threshold(self, mu: Array, v: Array, b: float) -> Array:
        (value, first, half_second), other = self._helped_wins(mu, v, b)
        rest = -np.expm1(-2.0 * b)  # 1 - exp(-2b)
        ratio = np.exp(-2.0 * b) / rest
        second, mixed = 2.0 * (half_second + other[2]) - 4.0 * ratio / rest, 2.0 * (half_second - other[2])
        return np.stack([value + other[0] + np.log(rest), first - other[1] + 2.0 * ratio, second, mixed])

    def _tie_probability(self, mu: Array, v: Array, b: float) -> Array:
        return gaussian_expectation(lambda z: (expit(z + b) * expit(b - z) * -np.expm1(-2.0 * b),), mu, v)[0]


def sum_of_sides(answers: Array) -> Array:
    """Return the probabilities of left, tie and right, shape (..., 3), given all answers, left first."""
    n = answers.shape[-1] // 2
    sides = answers[..., :n], answers[..., n:-n], answers[..., -n:]
    return np.stack([side.sum(axis=-1) for side in sides], axis=-1)


def share_of_left(answers: Array) -> Array:
    """Return P(left) + P(tie) / 2, given the probabilities of all answers, left first, shape (...)."""
    sides = sum_of_sides(answers)
    left, right = (sides[..., k] + 0.5 * sides[..., 1] for k in (0, 2))
    return left / (left + right)  # exactly 1/2 where both are equal


def left_without_ties(likelihood: Likelihood, z: Array) -> Array:
    """Return P(left | no tie) at differences z, shape (n,); where both sides underflow, the sign of z is certain."""
    model: Any = likelihood
    variance = np.zeros_like(z)
    if not likelihood.ties_are_answers:
        return likelihood.predict(z, variance)
    sides = sum_of_sides(model.predict_answers(z, variance))
    total = sides[..., 0] + sides[..., 2]
    return np.where(total > 0.0, sides[..., 0] / np.where(total > 0.0, total, 1.0), np.heaviside(z, 0.5))


def _middle_level(mu: Array, v: Array, b: float) -> tuple[IntArray, Array, Array, Array, float]:
    """Return ties as the middle one of three levels of z ~ N(mu, v)."""
    return np.ones(mu.size, dtype=np.int64), mu, v, np.array([-b, b]), 1.0
