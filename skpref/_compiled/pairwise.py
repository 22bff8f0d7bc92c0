"""Expected log-likelihoods of comparisons: one pass over observations, no temporary arrays.

log F and its slope r = (log F)' come from Taylor polynomials about the centres of narrow cells; the second derivative
is an algebraic function of r (probit: -r (r + z), logit: -r (1 - r)). Outside the cells, closed forms. Errors are
below 1e-13 of the value; the twin in numpy is `skpref._math.quadrature.expectation` over `log_ndtr_derivatives` or
`log_expit_derivatives`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from skpref._compiled.jit import njit, run_parts
from skpref._math.quadrature import rule_index, rules
from skpref._math.special import log_expit_derivatives, log_ndtr_derivatives

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray

__all__ = ["MODE_STEPS", "MODE_TOLERANCE", "expected_log_cdf", "packed_rules", "tilted_logit"]

# Cells of width 1/16 on [-32, 8]: at their edges t^10 / 2.8^10 (2.8: distance of the nearest singularity) is 3e-20,
# and the Gaussian fall at z = 8 leaves 3e-13 of a value that is 1e-15 itself.
_LOWER: Final = -32.0
_PER_UNIT: Final = 16.0
_CELLS: Final = 640
_DEGREE: Final = 9
_SQRT_HALF: Final = math.sqrt(0.5)
_INVERSE_SQRT_TWO_PI: Final = 1.0 / math.sqrt(2.0 * math.pi)
_HALF_LOG_TWO_PI: Final = 0.5 * math.log(2.0 * math.pi)
_FRACTION_LEVELS: Final = 6
# The mode of a tilted distribution only centres the quadrature, so a hundredth of a standard deviation is enough.
MODE_STEPS: Final = 60
MODE_TOLERANCE: Final = 1e-2
# The trapezoidal rule of the tilted logit: steps, in standard deviations where these are small, for errors of Z below
# 3e-10; how far it reaches, in standard deviations; most steps in one of these, enough up to v = 1,800.
_STEP: Final = 0.53
_STEP_OF_SD: Final = 0.65
_REACH: Final = 7.2
_MOST_STEPS: Final = 80.0
_LEAST_VARIANCE: Final = 1e-30  # variance that is none
_LARGE: Final = 1e300  # exp(-z) from which on s(-z) is 1
_SMALL: Final = 8192  # observations (about 2 ms) below which waking threads costs more than it saves


@lru_cache(maxsize=2)
def _taylor(probit: bool) -> Array:
    """Coefficients of every cell: of the value, of r, and of the series of the value alone.

    r obeys a Riccati equation, r' = -r (r + z) or r' = -r (1 - r), which gives its Taylor series from r alone.
    """
    centre = _LOWER + (np.arange(_CELLS) + 0.5) / _PER_UNIT
    value, first, _ = (log_ndtr_derivatives if probit else log_expit_derivatives)(centre)
    a = np.zeros((_CELLS, _DEGREE + 1))
    a[:, 0] = first
    for k in range(_DEGREE):
        square = np.sum(a[:, : k + 1] * a[:, k::-1], axis=1)
        if probit:
            before = a[:, k - 1] if k else 0.0
            a[:, k + 1] = -(square + centre * a[:, k] + before) / (k + 1)
        else:
            a[:, k + 1] = (square - a[:, k]) / (k + 1)
    table = np.concatenate([value[:, None], a, a / np.arange(1, _DEGREE + 2)], axis=1)
    table.flags.writeable = False
    return table


@lru_cache(maxsize=1)
def packed_rules() -> tuple[IntArray, Array, Array]:
    """Return all quadrature rules end to end."""
    pairs = rules()[1]
    start = np.concatenate([[0], np.cumsum([x.size for x, _ in pairs])]).astype(np.int64)
    return start, np.concatenate([x for x, _ in pairs]), np.concatenate([w for _, w in pairs])


@njit(error_model="numpy")
def _tail_probit(z):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    if z > 0.0:
        # Phi rounds to 1; the tail by the fifth convergent of Laplace's fraction, 1e-7 of what is itself below 1e-15.
        r = _INVERSE_SQRT_TWO_PI * math.exp(-0.5 * z * z)
        square = z * z
        tail = r * (square * (square + 9.0) + 8.0) / (z * (square * (square + 10.0) + 15.0))
        return -tail, r, -z
    # r = t + 1/(t + 2/(t + ...)), t = -z; r + z would cancel.
    tail = -z
    for level in range(_FRACTION_LEVELS, 1, -1):
        tail = level / tail - z
    gap = 1.0 / tail
    r = gap - z
    return -0.5 * z * z - _HALF_LOG_TWO_PI - math.log(r), r, -gap


@njit(error_model="numpy")
def _tail_logit(z):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    small = math.exp(-abs(z))
    log_larger = -math.log1p(small)
    larger = 1.0 / (1.0 + small)
    if z > 0.0:
        return log_larger, small * larger, -larger
    return z + log_larger, larger, -small * larger


@njit(error_model="numpy", fastmath={"contract"})
def _sum_nodes(mean, sd, nodes, weights, table, probit):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    # log F' ' = r * (p r + q z + s)
    p, q, s = (-1.0, -1.0, 0.0) if probit else (1.0, 0.0, -1.0)
    value = 0.0
    first = 0.0
    second = 0.0
    for j in range(nodes.shape[0]):
        z = mean + sd * nodes[j]
        position = (z - _LOWER) * _PER_UNIT
        if 0.0 <= position < _CELLS:
            cell = np.int64(position)
            t = (position - cell - 0.5) * (1.0 / _PER_UNIT)
            c = table[np.uint64(cell)]
            r = c[_DEGREE + 1]
            rise = c[2 * _DEGREE + 2]
            for k in range(_DEGREE - 1, -1, -1):
                r = r * t + c[k + 1]
                rise = rise * t + c[_DEGREE + 2 + k]
            l = c[0] + t * rise
            factor = p * r + q * z + s
        elif probit:
            l, r, factor = _tail_probit(z)
        else:
            l, r, factor = _tail_logit(z)
        w = weights[j]
        value += w * l
        first += w * r
        second += w * r * factor
    return value, first, second


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _expected_rows(y, mu, sd, rule, start, nodes, weights, table, probit, first_row, last_row, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(first_row, last_row):
        x = nodes[start[rule[i]] : start[rule[i] + 1]]
        w = weights[start[rule[i]] : start[rule[i] + 1]]
        label = y[i]
        value = 0.0
        first = 0.0
        second = 0.0
        if label != 0.0:
            e, d, h = _sum_nodes(mu[i], sd[i], x, w, table, probit)
            value += label * e
            first += label * d
            second += label * h
        if label != 1.0:
            e, d, h = _sum_nodes(-mu[i], sd[i], x, w, table, probit)
            value += (1.0 - label) * e
            first -= (1.0 - label) * d
            second += (1.0 - label) * h
        out[0, i] = value
        out[1, i] = first
        out[2, i] = second


def expected_log_cdf(y: Array, mu: Array, v: Array, *, probit: bool) -> Array:
    """Expect y log F(z) + (1 - y) log F(-z) and its derivatives over z ~ N(mu, v)."""
    out = np.empty((3, y.shape[0]))
    y, mu, sd = (np.ascontiguousarray(a) for a in (y, mu, np.sqrt(v)))
    arguments = y, mu, sd, rule_index(v), *packed_rules(), _taylor(probit), probit
    run_parts(lambda a, b: _expected_rows(*arguments, a, b, out), y.shape[0], large=y.shape[0] >= _SMALL)
    return out


@njit(error_model="numpy")
def _slope_and_curvature(label, z):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    small = math.exp(-abs(z))
    larger = 1.0 / (1.0 + small)
    above = larger if z > 0.0 else small * larger
    return label - above, -small * larger * larger


@njit(error_model="numpy")
def _mode(label, mu, v):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    c = mu
    slope = _slope_and_curvature(label, c)[0]
    low, high = min(mu, mu + v * slope), max(mu, mu + v * slope)
    for _ in range(MODE_STEPS):
        slope, curvature = _slope_and_curvature(label, c)
        excess = c - mu - v * slope
        if abs(excess) <= MODE_TOLERANCE * math.sqrt(v):
            break
        low, high = (c if excess <= 0.0 else low), (c if excess >= 0.0 else high)
        c -= excess / (1.0 - v * curvature)
        # Strictly inside the bracket, since at an end Newton steps may alternate forever.
        if not low < c < high:
            c = 0.5 * (low + high)
    return c


@njit(error_model="numpy", fastmath={"contract"})
def _tilted_rows(y, mu, v, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(y.shape[0]):
        # The side of the mode is turned to be positive, where s(-z) has all its digits.
        variance = max(v[i], _LEAST_VARIANCE)
        c = _mode(y[i], mu[i], variance)
        side = 1.0 if c >= 0.0 else -1.0
        label, mean, c, sd = 0.5 + side * (y[i] - 0.5), side * mu[i], abs(c), math.sqrt(variance)
        h = max(min(_STEP_OF_SD * sd, _STEP), sd / _MOST_STEPS)
        # p(y | z) N(z; mean, v) = s(z) exp(-(1 - y) z - (z - mean)^2 / 2 v). The exponent is quadratic: from node to
        # node the exponential changes by a factor that itself changes by a constant one.
        bend = math.exp(-h * h / variance)
        slope = h * (1.0 - label + (c - mean) / variance)
        at_c = math.exp(-c)
        below_c = at_c / (1.0 + at_c)
        total = first = squared = second = 0.0
        for direction in (-1, 1):
            factor, ratio = 1.0, math.exp(-0.5 * h * h / variance - direction * slope)
            small, shrink = at_c, math.exp(-direction * h)
            for j in range(math.ceil(_REACH * sd / h)):
                if j > 0 or direction > 0:  # the node at c counts once
                    above = 1.0 / (1.0 + small)
                    below = small * above if small < _LARGE else 1.0
                    mass = above * factor
                    total += mass
                    first += mass * (below - below_c)
                    squared += mass * (below - below_c) ** 2
                    second += mass * above * below
                factor *= ratio
                ratio *= bend
                small *= shrink
        rise = first / total
        out[0, i] = math.log(total * h / sd) - _HALF_LOG_TWO_PI - (1.0 - label) * c - 0.5 * (c - mean) ** 2 / variance
        out[1, i] = side * (below_c - (1.0 - label) + rise)
        out[2, i] = squared / total - rise * rise - second / total


def tilted_logit(y: Array, mu: Array, v: Array) -> Array:
    """Return log Z and its derivatives for the logit; `PairwiseLikelihood._tilted` does the same in numpy.

    By the trapezoidal rule, whose error for steps h is exp(-2 pi^2 v / h^2), or exp(pi^2 / 2 v - 2 pi^2 / h) where the
    poles of the logit are nearer.
    """
    out = np.empty((3, y.shape[0]))
    y, mu, v = (np.ascontiguousarray(a, dtype=np.float64) for a in (y, mu, v))
    _tilted_rows(y, mu, v, out)
    return out
