"""Loops over ordered labels: log p of a noisy z between two thresholds, at a point or expected over a Gaussian z.

The formulas are those of `skpref._math.bands`, one number at a time; there they are derived, and there is the plain
twin. Thresholds come as the middle and the half width of every level; the outer levels have one end, in `middle`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from skpref._compiled.jit import njit, run_parts
from skpref._compiled.pairwise import packed_rules
from skpref._math.bands import FALLS, FAR, NARROW, RULES
from skpref._math.quadrature import rule_index

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray

__all__ = ["ENDS", "SCORES", "THRESHOLDS", "VALUES", "expected_levels", "levels_at"]

# What is wanted of every label, and how many numbers that are.
VALUES: Final = 3  # log p and its first two derivatives in z
ENDS: Final = 5  # log p, its slopes at the upper and minus the lower threshold, its cross derivatives in z and each
SCORES: Final = 4  # the derivatives of log p in z, in the upper threshold, in the lower one negated, in log noise
THRESHOLDS: Final = 10  # log p; its slopes in 1/noise, the upper and minus the lower threshold; its second derivatives

_SQRT_HALF: Final = math.sqrt(0.5)
_INVERSE_SQRT_TWO_PI: Final = 1.0 / math.sqrt(2.0 * math.pi)
_SQRT_TWO_OVER_PI: Final = math.sqrt(2.0 / math.pi)
_LOG_SQRT_TWO_PI: Final = 0.5 * math.log(2.0 * math.pi)
_INVERSE_SQRT_PI: Final = 1.0 / math.sqrt(math.pi)
_SERIES_FROM: Final = 8.0  # x from which 14 terms of erfcx's series leave 1e-15; below, exp(x^2) loses 64 eps
_SERIES_TERMS: Final = 14
_FRACTION_BELOW: Final = -12.0
_FRACTION_LEVELS: Final = 12
_SHORT_FALL, _SHORT_NODES, _SHORT_WEIGHTS = RULES[0]
_LONG_NODES, _LONG_WEIGHTS = RULES[1][1:]
_SMALL: Final = 2048  # labels below which waking threads costs more than it saves


@njit()
def _erfcx(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """exp(x^2) erfc(x), x >= 0."""
    if x < _SERIES_FROM:
        return math.exp(x * x) * math.erfc(x)
    s = 0.5 / (x * x)
    total = 1.0
    for k in range(_SERIES_TERMS, 0, -1):
        total = 1.0 - (2 * k - 1) * s * total
    return _INVERSE_SQRT_PI * total / x


@njit()
def _log_cdf_terms(u):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Log Phi(u), r = phi(u)/Phi(u), and u + r."""
    if u < 0.0:
        scaled = _erfcx(-_SQRT_HALF * u)
        value = math.log(0.5 * scaled) - 0.5 * u * u
        ratio = _SQRT_TWO_OVER_PI / scaled
    else:
        tail = 0.5 * math.erfc(_SQRT_HALF * u)
        value = math.log1p(-tail)
        ratio = _INVERSE_SQRT_TWO_PI * math.exp(-0.5 * u * u) / (1.0 - tail)
    if u >= _FRACTION_BELOW:
        return value, ratio, u + ratio
    tail = -u
    for level in range(_FRACTION_LEVELS, 1, -1):
        tail = level / tail - u
    return value, ratio, 1.0 / tail


@njit()
def _integrated(centre, half, x, weight):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    total = 0.0
    first = 0.0
    for j in range(x.shape[0]):
        t = half * x[j]
        mass = weight[j] * math.exp(-centre * (half + t) - 0.5 * t * t)
        total += mass
        first += mass * (half + t)
    to_lower = first / total
    variance = 0.0
    for j in range(x.shape[0]):
        t = half * x[j]
        mass = weight[j] * math.exp(-centre * (half + t) - 0.5 * t * t)
        variance += mass * (half + t - to_lower) ** 2
    value = half * centre - 0.5 * centre * centre - _LOG_SQRT_TWO_PI + math.log(half) + math.log(total)
    at_lower = math.exp(-0.5 * half * half) / (half * total)
    at_upper = at_lower * math.exp(-2.0 * half * centre)
    mean = centre - half + to_lower
    return value, at_upper, at_lower, mean, variance / total - 1.0, 2.0 * half - to_lower, to_lower


@njit()
def _inside(centre, half):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    lower = centre - half
    upper = centre + half
    outside = 0.5 * (math.erfc(_SQRT_HALF * upper) + math.erfc(-_SQRT_HALF * lower))
    p = 1.0 - outside
    at_upper = _INVERSE_SQRT_TWO_PI * math.exp(-0.5 * upper * upper) / p
    at_lower = _INVERSE_SQRT_TWO_PI * math.exp(-0.5 * lower * lower) / p
    mean = at_lower - at_upper
    bend = lower * at_lower - upper * at_upper - mean * mean
    return math.log1p(-outside), at_upper, at_lower, mean, bend, upper - mean, mean - lower


@njit()
def _tail(centre, half):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    lower = centre - half
    upper = centre + half
    whole, whole_at, whole_to = _log_cdf_terms(-lower)
    fall = math.exp(-2.0 * half * centre)
    ratio = _erfcx(_SQRT_HALF * upper) / _erfcx(_SQRT_HALF * lower) * fall
    at_lower = whole_at / (1.0 - ratio)
    at_upper = at_lower * fall
    excess = whole_to + at_lower * ratio
    to_lower = excess - at_upper
    bend = -at_lower * excess - at_upper * (at_upper + upper - 2.0 * at_lower)
    to_upper = 2.0 * half - to_lower
    return whole + math.log1p(-ratio), at_upper, at_lower, lower + to_lower, bend, to_upper, to_lower


@njit()
def _band(middle, half):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Log p, A, B, m, V - 1, u - m and m - w of the band (middle - half, middle + half)."""
    centre = abs(middle)
    fall = 2.0 * half * centre
    if (half < 0.5 * NARROW or centre > FAR) and fall <= FALLS:
        if fall <= _SHORT_FALL:
            terms = _integrated(centre, half, _SHORT_NODES, _SHORT_WEIGHTS)
        else:
            terms = _integrated(centre, half, _LONG_NODES, _LONG_WEIGHTS)
    elif half >= centre:
        terms = _inside(centre, half)
    else:
        terms = _tail(centre, half)
    value, at_upper, at_lower, mean, bend, to_upper, to_lower = terms
    bend = min(max(bend, -1.0), 0.0)
    if middle < 0.0:
        return value, at_lower, at_upper, -mean, bend, to_lower, to_upper
    return value, at_upper, at_lower, mean, bend, to_upper, to_lower


@njit()
def _level(k, r, middle, half):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The terms of level k of r; `middle` is the end of an outer one."""
    if k == 0:
        value, ratio, distance = _log_cdf_terms(middle)
        return value, ratio, 0.0, -ratio, -ratio * distance, distance, 0.0
    if k == r - 1:
        value, ratio, distance = _log_cdf_terms(-middle)
        return value, 0.0, ratio, ratio, -ratio * distance, 0.0, distance
    return _band(middle, half)


@njit(nogil=True)
def _rows(level, mu, sd, scale, middle, half, rule, start, nodes, weights, first_row, last_row, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    wanted = out.shape[0]
    r = middle.shape[0]
    for i in range(first_row, last_row):
        k = level[i]
        s = scale[i]
        a = half[k] / s
        for c in range(wanted):
            out[c, i] = 0.0
        for j in range(start[rule[i]], start[rule[i] + 1]):
            z = mu[i] + sd[i] * nodes[j]
            value, at_upper, at_lower, mean, bend, to_upper, to_lower = _level(k, r, (middle[k] - z) / s, a)
            w = weights[j]
            if wanted == VALUES:
                out[0, i] += w * value
                out[1, i] += w * mean
                out[2, i] += w * bend
            elif wanted == SCORES:
                out[0, i] += w * mean
                out[1, i] += w * at_upper
                out[2, i] += w * at_lower
                out[3, i] += w * (bend + mean * mean)
            elif wanted == ENDS:
                out[0, i] += w * value
                out[1, i] += w * at_upper
                out[2, i] += w * at_lower
                out[3, i] += w * at_upper * to_upper
                out[4, i] += w * at_lower * to_lower
            else:
                at = z / s
                out[0, i] += w * value
                out[1, i] += w * at * mean
                out[2, i] += w * at_upper
                out[3, i] += w * at_lower
                out[4, i] += w * at * at * bend
                out[5, i] += w * at * at_upper * to_upper
                out[6, i] += w * at * at_lower * to_lower
                out[7, i] += w * at_upper * (at_lower + to_upper)
                out[8, i] += w * at_lower * (at_upper + to_lower)
                out[9, i] += w * at_upper * at_lower


def expected_levels(wanted: int, level: IntArray, mu: Array, v: Array, thresholds: Array, scale: float) -> Array:
    """Return the expectations of the wanted terms of every label over z ~ N(mu, v)."""
    columns = mu, np.sqrt(v), np.full(mu.shape, scale)
    return _run(wanted, level, columns, thresholds, (rule_index(v / scale**2), *packed_rules()))


def levels_at(wanted: int, level: IntArray, z: Array, scale: Array, thresholds: Array) -> Array:
    """Return the wanted terms of every label at known z, shape (wanted, n)."""
    here = np.zeros(level.shape, dtype=np.int64), np.array([0, 1]), np.zeros(1), np.ones(1)
    return _run(wanted, level, (z, np.zeros(z.shape), scale), thresholds, here)


def _run(
    wanted: int,
    level: IntArray,
    columns: tuple[Array, Array, Array],
    thresholds: Array,
    rule: tuple[IntArray, IntArray, Array, Array],
) -> Array:
    b = np.asarray(thresholds)
    # An outer level has one end, and no width that counts.
    middle = np.concatenate([b[:1], 0.5 * b[:-1] + 0.5 * b[1:], b[-1:]])
    half = np.concatenate([[0.0], 0.5 * np.diff(b), [0.0]])
    out = np.empty((wanted, level.shape[0]))
    mu, sd, scale = (np.ascontiguousarray(column) for column in columns)
    arguments = level, mu, sd, scale, middle, half, *rule
    run_parts(lambda a, b: _rows(*arguments, a, b, out), level.shape[0], large=level.shape[0] >= _SMALL)
    return out
