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
def _logit_at(label, z):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    small = math.exp(-abs(z))
    larger = 1.0 / (1.0 + small)
    above, below = (larger, small * larger) if z > 0.0 else (small * larger, larger)  # s(z), s(-z)
    value = label * min(z, 0.0) - (1.0 - label) * max(z, 0.0) - math.log1p(small)
    return value, label * below - (1.0 - label) * above, -above * below


@njit(error_model="numpy")
def _slope_at_mode(label, mu, v):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    c = mu
    slope = _logit_at(label, c)[1]
    low, high = min(mu, mu + v * slope), max(mu, mu + v * slope)
    for _ in range(MODE_STEPS):
        _, slope, curvature = _logit_at(label, c)
        excess = c - mu - v * slope
        if abs(excess) <= MODE_TOLERANCE * math.sqrt(v):
            break
        low, high = (c if excess <= 0.0 else low), (c if excess >= 0.0 else high)
        c -= excess / (1.0 - v * curvature)
        # Strictly inside the bracket, since at an end Newton steps may alternate forever.
        if not low < c < high:
            c = 0.5 * (low + high)
    return slope


@njit(error_model="numpy")
def _tilted_rows(y, mu, v, rule, start, nodes, weights, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(y.shape[0]):
        sd = math.sqrt(v[i])
        slope = _slope_at_mode(y[i], mu[i], v[i])
        centre = mu[i] + v[i] * slope
        top = _logit_at(y[i], centre)[0]
        total = 0.0
        first = 0.0  # sums of differences to the slope at the centre, so that little cancels
        squared = 0.0
        second = 0.0
        for j in range(start[rule[i]], start[rule[i] + 1]):
            step = sd * nodes[j]
            value, d, h = _logit_at(y[i], centre + step)
            mass = weights[j] * math.exp(value - slope * step - top)
            total += mass
            first += mass * (d - slope)
            squared += mass * (d - slope) ** 2
            second += mass * h
        mean = first / total
        out[0, i] = top + math.log(total) - 0.5 * v[i] * slope * slope
        out[1, i] = slope + mean
        out[2, i] = second / total + squared / total - mean * mean


def tilted_logit(y: Array, mu: Array, v: Array) -> Array:
    """Return log Z and its derivatives for the logit; `PairwiseLikelihood._tilted` does the same in numpy."""
    out = np.empty((3, y.shape[0]))
    y, mu, v = (np.ascontiguousarray(a, dtype=np.float64) for a in (y, mu, v))
    _tilted_rows(y, mu, v, rule_index(v), *packed_rules(), out)
    return out
