"""A standard normal variable in a band, for ties and ordinal levels.

For e ~ N(0, 1) and a band (w, u) let p = Phi(u) - Phi(w), A = phi(u)/p, B = phi(w)/p, and let m and V be mean and
variance of e given that it lies in the band. Then, with L = log p,

    dL/du = A,   dL/dw = -B,   m = B - A,   dm/du = A (u - m),   dm/dw = B (m - w),
    dV/du = A ((u - m)^2 - V),   dV/dw = -B ((w - m)^2 - V),   A (u - m) + B (m - w) = 1 - V,

so that all derivatives of log p follow from A, B, m, V - 1 and the distances u - m and m - w. These are computed here
without the cancellation that A and B themselves bring: in a narrow band both are 1/width, and far out both have the
size of m, while V - 1 lies in [-1, 0].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr

from skpref._math.special import LOG_TWO_PI, SQRT_HALF, log_ndtr_derivatives

if TYPE_CHECKING:
    from skpref._typing import Array

__all__ = ["FALLS", "FAR", "NARROW", "RULES", "Band", "band", "mirrored", "tail_band"]

# Narrow or far bands are integrated by Gauss-Legendre as long as the density falls by less than exp(40) across them;
# beyond, the far end counts for nothing. Elsewhere the formulas in A and B lose at most 3 digits.
NARROW: Final = 0.25
FAR: Final = 30.0
FALLS: Final = 40.0
# Largest fall that a rule serves with 15 digits, and its nodes and weights.
RULES: Final = tuple((fall, *np.polynomial.legendre.leggauss(n)) for fall, n in ((8.0, 14), (FALLS, 28)))


class Band(NamedTuple):
    """L = log p, A, B, m, V - 1, the distances u - m and m - w (0 where that end is infinite), and V, each an array."""

    value: Array
    at_upper: Array
    at_lower: Array
    mean: Array
    bend: Array
    to_upper: Array
    to_lower: Array
    variance: Array


def tail_band(upper: Array) -> Band:
    """Return the terms of (-inf, u)."""
    value, ratio, bend = log_ndtr_derivatives(upper)
    near = upper > -1.0
    # u + phi/Phi cancels far to the left, where the ratio is not 0.
    distance = np.where(near, upper + ratio, -bend / np.where(near, 1.0, ratio))
    nothing = np.zeros_like(value)
    return Band(value, ratio, nothing, -ratio, bend, distance, nothing, 1.0 + bend)


def mirrored(terms: Band) -> Band:
    """Return the terms of (-u, -w), given the terms of (w, u)."""
    value, at_upper, at_lower, mean, bend, to_upper, to_lower, variance = terms
    return Band(value, at_lower, at_upper, -mean, bend, to_lower, to_upper, variance)


def band(middle: Array, width: Array | float) -> Band:
    """Return the terms of (middle - width/2, middle + width/2), 0 < width < inf.

    The ends themselves would not do: a narrow band far out has none, in floating point.
    """
    centre = np.abs(middle)
    half = np.broadcast_to(0.5 * np.asarray(width), centre.shape)
    out = np.empty((len(Band._fields), *centre.shape))
    fall = 2.0 * half * centre
    integrated = ((half < 0.5 * NARROW) | (centre > FAR)) & (fall <= FALLS)
    inside = ~integrated & (half >= centre)
    tail = ~integrated & ~inside
    served = -1.0
    for limit, x, weight in RULES:
        rows = integrated & (fall > served) & (fall <= limit)
        if np.any(rows):
            out[:, rows] = _integrated(centre[rows], half[rows], x, weight)
        served = limit
    for rows, rule in ((inside, _inside), (tail, _tail)):
        if np.any(rows):
            out[:, rows] = rule(centre[rows], half[rows])
    # V lies in (0, 1): rounding is all that could take it out.
    np.clip(out[4], -1.0, 0.0, out=out[4])
    np.clip(out[7], 0.0, 1.0, out=out[7])
    # The band was reflected to the right of 0.
    back = middle < 0.0
    out[3] = np.where(back, -out[3], out[3])
    for first, second in ((1, 2), (5, 6)):
        out[first], out[second] = (np.where(back, out[second], out[first]), np.where(back, out[first], out[second]))
    return Band(*out)


def _integrated(centre: Array, half: Array, x: Array, weight: Array) -> tuple[Array, ...]:
    """Sum over nodes at distances s = h (1 + x) from the lower end, in units of the density there."""
    t = half[:, None] * x
    distance = half[:, None] + t
    mass = weight * np.exp(-centre[:, None] * distance - 0.5 * t * t)
    total = mass.sum(axis=1)
    mass /= total[:, None]
    to_lower = (mass * distance).sum(axis=1)
    variance = (mass * (distance - to_lower[:, None]) ** 2).sum(axis=1)
    value = half * centre - 0.5 * centre * centre - 0.5 * LOG_TWO_PI + np.log(half) + np.log(total)
    at_lower = np.exp(-0.5 * half * half) / (half * total)
    at_upper = at_lower * np.exp(-2.0 * half * centre)
    mean = centre - half + to_lower
    return value, at_upper, at_lower, mean, variance - 1.0, 2.0 * half - to_lower, to_lower, variance


def _inside(centre: Array, half: Array) -> tuple[Array, ...]:
    """Bands that hold 0: p = 1 - Phi(-u) - Phi(w), and V - 1 = w B - u A - m^2 has no term above 0."""
    lower, upper = centre - half, centre + half
    outside = ndtr(-upper) + ndtr(lower)
    p = 1.0 - outside
    at_upper, at_lower = (np.exp(-0.5 * end * end - 0.5 * LOG_TWO_PI) / p for end in (upper, lower))
    mean = at_lower - at_upper
    bend = lower * at_lower - upper * at_upper - mean * mean
    return np.log1p(-outside), at_upper, at_lower, mean, bend, upper - mean, mean - lower, 1.0 + bend


def _tail(centre: Array, half: Array) -> tuple[Array, ...]:
    """Bands to the right of 0: p = Phi(-w) (1 - r), r = Phi(-u)/Phi(-w)."""
    lower, upper = centre - half, centre + half
    whole = mirrored(tail_band(-lower))
    fall = np.exp(-2.0 * half * centre)
    ratio = erfcx(SQRT_HALF * upper) / erfcx(SQRT_HALF * lower) * fall
    at_lower = whole.at_lower / (1.0 - ratio)
    at_upper = at_lower * fall
    # B - w, from phi(w)/Phi(-w) - w.
    excess = whole.to_lower + at_lower * ratio
    to_lower = excess - at_upper
    bend = -at_lower * excess - at_upper * (at_upper + upper - 2.0 * at_lower)
    to_upper = 2.0 * half - to_lower
    value = whole.value + np.log1p(-ratio)
    return value, at_upper, at_lower, lower + to_lower, bend, to_upper, to_lower, 1.0 + bend
