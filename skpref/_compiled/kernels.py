"""Loops of the per-feature kernels over dense features: products and means of one-dimensional Matern kernels.

With r_f = |x_f - z_f| c_f, a kernel of feature f is g(r_f), where

=====  ==================  ============================  ======================  =====================
kind   kernel              scale c_f                     g(r)                    -dlog g / dlog c = h(r)
=====  ==================  ============================  ======================  =====================
0      Matern-1/2          1 / l_f                       exp(-r)                 r
1      Matern-3/2          sqrt(3) / l_f                 (1 + r) exp(-r)         r^2 / (1 + r)
2      Matern-5/2          sqrt(5) / l_f                 (1 + r + r^2/3) exp(-r)  r^2 (1 + r) / (3 + 3 r + r^2)
3      squared exponential 1 / l_f                       exp(-r^2 / 2)           r^2
=====  ==================  ============================  ======================  =====================

The product over features is kept as (sum of r_f, product of the polynomials), the latter scaled down whenever it
passes 1e100, so no number of features and no length-scale overflows. r_f is cut off at 1e3: there g is below the
smallest double already, whatever the other features say. Values below 1e-307 become 0: denormal numbers would slow
down every matrix product that follows.

Work is cut into blocks of rows that do not depend on the number of threads and whose results are added in order, so
neither do the bits of a result.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from skpref._compiled.jit import njit, run_parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from skpref._typing import Array

__all__ = [
    "FIVE_HALVES",
    "HALF",
    "KIND_OF_NU",
    "SQUARED",
    "THREE_HALVES",
    "cross",
    "cross_vjp",
    "gram",
    "gram_vjp",
    "paired",
    "paired_vjp",
    "scale_of",
]

HALF: Final = 0
THREE_HALVES: Final = 1
FIVE_HALVES: Final = 2
SQUARED: Final = 3
KIND_OF_NU: Final = {0.5: HALF, 1.5: THREE_HALVES, 2.5: FIVE_HALVES, np.inf: SQUARED}

_FAR: Final = 1e3  # r beyond which g(r) = 0 in double precision
_UNROLL: Final = 4  # features a pass over the columns takes together
_BURST: Final = 16  # features between two looks at the size of the product: 1e100 (1 + _FAR + _FAR^2/3)^16 < 1e190
_LARGE: Final = 1e100
_LOG_LARGE: Final = float(np.log(1e100))
_BLOCKS: Final = 64  # blocks of a gradient, each with its own sums
_SMALL: Final = 1 << 19  # n m d below which waking the other threads costs more than they bring
_TILE: Final = 1 << 15  # numbers of Z worked on together (256 KiB: a core's second-level cache)

# exp(x) = 2^n exp(x - n log 2): log 2 in two parts, and the number whose addition rounds to an integer.
_LOG2E: Final = 1.4426950408889634
_LOG2_HIGH: Final = 6.93145751953125e-1
_LOG2_LOW: Final = 1.42860682030941723212e-6
_ROUND: Final = 6755399441055744.0
_SMALLEST: Final = -708.0

_CONTRACT: Final = {"contract"}  # fused multiply-add; NaN and inf behave
_REDUCE: Final = {"contract", "reassoc", "nsz"}  # the same, and sums in SIMD lanes


@njit(fastmath=_CONTRACT, forceinline=True)
def fast_exp(x: float) -> float:
    """Return exp(x) for x <= 700, to 1 ulp, in a form that SIMD lanes can share; 0 below exp(-708)."""
    y = _SMALLEST if x < _SMALLEST else x  # noqa: FURB136 - a select, which keeps NaN
    shifted = y * _LOG2E + _ROUND
    n = shifted - _ROUND
    t = y - n * _LOG2_HIGH - n * _LOG2_LOW
    p = 1.0 / 6227020800.0
    p = p * t + 1.0 / 479001600.0
    p = p * t + 1.0 / 39916800.0
    p = p * t + 1.0 / 3628800.0
    p = p * t + 1.0 / 362880.0
    p = p * t + 1.0 / 40320.0
    p = p * t + 1.0 / 5040.0
    p = p * t + 1.0 / 720.0
    p = p * t + 1.0 / 120.0
    p = p * t + 1.0 / 24.0
    p = p * t + 1.0 / 6.0
    p = p * t + 0.5
    p = p * t + 1.0
    p = p * t + 1.0
    power = (np.float64(shifted).view(np.int64) + 1023) << 52
    return 0.0 if x < _SMALLEST else p * np.int64(power).view(np.float64)


@njit(fastmath=_CONTRACT, forceinline=True)
def _distance(x: float, z: float, c: float) -> float:
    r = abs(x - z) * c
    return _FAR if r > _FAR else r  # noqa: FURB136 - a select, which keeps NaN


@njit(fastmath=_CONTRACT, forceinline=True)
def _polynomial(r: float, kind: int) -> float:
    if kind == THREE_HALVES:
        return 1.0 + r
    if kind == FIVE_HALVES:
        return 1.0 + r * (1.0 + r * (1.0 / 3.0))
    return 1.0


@njit(fastmath=_CONTRACT, forceinline=True)
def _exponent(r: float, kind: int) -> float:
    return 0.5 * r * r if kind == SQUARED else r


@njit(fastmath=_CONTRACT, forceinline=True)
def _value(r: float, kind: int) -> float:
    """Return g(r)."""
    return _polynomial(r, kind) * fast_exp(-_exponent(r, kind))


@njit(fastmath=_CONTRACT, forceinline=True)
def _slope_parts(r: float, kind: int) -> tuple[float, float]:
    """Return (numerator, denominator) of h(r)."""
    if kind == HALF:
        return r, 1.0
    if kind == THREE_HALVES:
        return r * r, 1.0 + r
    if kind == FIVE_HALVES:
        return r * r * (1.0 + r), 3.0 + r * (3.0 + r)
    return r * r, 1.0


@njit(fastmath=_CONTRACT, forceinline=True)
def _value_slope(r: float, kind: int) -> float:
    """Return g(r) h(r), without a division."""
    decay = fast_exp(-_exponent(r, kind))
    if kind == HALF:
        return r * decay
    if kind == FIVE_HALVES:
        return r * r * (1.0 + r) * (1.0 / 3.0) * decay
    return r * r * decay


@njit(fastmath=_CONTRACT)
def _row_product(x, z, c, start, width, kind, total, product, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Product kernel between one row and `width` columns from `start` on, into out[:width]."""
    polynomial = kind == THREE_HALVES or kind == FIVE_HALVES  # noqa: PLR1714 - folds
    for j in range(width):
        total[j], product[j] = 0.0, 1.0
    for f in range(0, x.shape[0], _UNROLL):
        x0, x1, x2, x3 = x[f], x[f + 1], x[f + 2], x[f + 3]
        c0, c1, c2, c3 = c[f], c[f + 1], c[f + 2], c[f + 3]
        z0, z1 = z[f, start : start + width], z[f + 1, start : start + width]
        z2, z3 = z[f + 2, start : start + width], z[f + 3, start : start + width]
        for j in range(width):
            r0 = _distance(x0, z0[j], c0)
            r1 = _distance(x1, z1[j], c1)
            r2 = _distance(x2, z2[j], c2)
            r3 = _distance(x3, z3[j], c3)
            total[j] += (_exponent(r0, kind) + _exponent(r1, kind)) + (_exponent(r2, kind) + _exponent(r3, kind))
            if polynomial:
                p01 = _polynomial(r0, kind) * _polynomial(r1, kind)
                product[j] *= p01 * (_polynomial(r2, kind) * _polynomial(r3, kind))
        if polynomial and (f + _UNROLL) % _BURST == 0:
            for j in range(width):  # a factor of 1e100 moves from large products into the sum
                large = product[j] > _LARGE
                product[j] *= 1.0 / _LARGE if large else 1.0
                total[j] -= _LOG_LARGE if large else 0.0
    for j in range(width):
        half = fast_exp(-0.5 * total[j])  # twice, since exp(-total) may underflow where times product it does not
        out[j] = product[j] * half * half


@njit(fastmath=_CONTRACT)
def _row_sum(x, z, c, start, width, kind, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Sum over features of the kernels between one row and `width` columns from `start` on, into out[:width]."""
    out[:width] = 0.0
    for f in range(x.shape[0]):
        column = z[f, start : start + width]
        for j in range(width):
            out[j] += _value(_distance(x[f], column[j], c[f]), kind)


@cache
def _cross_loop(kind: int, additive: bool) -> Callable[..., None]:
    """Return the loop over rows for one kernel: code for all four would take three times as long to compile."""

    @njit(fastmath=_CONTRACT, nogil=True)
    def fill(X, z, c, triangular, tile, first, last, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        """Fill rows first..last - 1 of the result (from the diagonal on if `triangular`)."""
        m = out.shape[1]
        total = np.empty(tile)
        product = np.empty(tile)
        # Padding multiplies a product by g(0) = 1; a mean must leave it out.
        x = np.zeros(X.shape[1] if additive else z.shape[0])
        for left in range(0, m, tile):
            right = min(m, left + tile)
            for i in range(first, last):
                start = max(left, i) if triangular else left
                if start < right:
                    for f in range(X.shape[1]):  # an assignment of arrays would compile for seconds
                        x[f] = X[i, f]
                    if additive:
                        _row_sum(x, z, c, start, right - start, kind, out[i, start:right])
                    else:
                        _row_product(x, z, c, start, right - start, kind, total, product, out[i, start:right])

    return fill


@njit(fastmath=_REDUCE, forceinline=True)
def _product_slopes(x, z, c, start, width, kind, weight, sums):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add sum_j weight_j h(r_jf) to sums[f] for all features f."""
    for f in range(0, x.shape[0], _UNROLL):
        x0, x1, x2, x3 = x[f], x[f + 1], x[f + 2], x[f + 3]
        c0, c1, c2, c3 = c[f], c[f + 1], c[f + 2], c[f + 3]
        z0, z1 = z[f, start : start + width], z[f + 1, start : start + width]
        z2, z3 = z[f + 2, start : start + width], z[f + 3, start : start + width]
        s0 = s1 = s2 = s3 = 0.0
        for j in range(width):
            n0, d0 = _slope_parts(_distance(x0, z0[j], c0), kind)
            n1, d1 = _slope_parts(_distance(x1, z1[j], c1), kind)
            n2, d2 = _slope_parts(_distance(x2, z2[j], c2), kind)
            n3, d3 = _slope_parts(_distance(x3, z3[j], c3), kind)
            if kind == HALF or kind == SQUARED:  # noqa: PLR1714, SIM109 - folds
                s0 += weight[j] * n0
                s1 += weight[j] * n1
                s2 += weight[j] * n2
                s3 += weight[j] * n3
            else:
                # One division serves all four: 1/d0 = d1 (d2 d3) / (d0 d1 d2 d3), whose parts are at most 1e24.
                d01 = d0 * d1
                d23 = d2 * d3
                q = weight[j] / (d01 * d23)
                q01 = q * d23
                q23 = q * d01
                s0 += n0 * d1 * q01
                s1 += n1 * d0 * q01
                s2 += n2 * d3 * q23
                s3 += n3 * d2 * q23
        sums[f] += s0
        sums[f + 1] += s1
        sums[f + 2] += s2
        sums[f + 3] += s3


@njit(fastmath=_REDUCE, forceinline=True)
def _sum_slopes(x, z, c, start, width, kind, weight, sums):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for f in range(x.shape[0]):
        column = z[f, start : start + width]
        s = 0.0
        for j in range(width):
            s += weight[j] * _value_slope(_distance(x[f], column[j], c[f]), kind)
        sums[f] += s


@cache
def _slopes_loop(kind: int, additive: bool) -> Callable[..., None]:
    """Return the loop over blocks of rows for the gradient of one kernel."""

    @njit(fastmath=_CONTRACT, nogil=True)
    def add(X, z, c, weighted, triangular, tile, G, first, last, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        """Sums over all pairs of G k h (G h if `weighted`, that is if k is in G already), for blocks of rows."""
        n, m = G.shape
        total = np.empty(tile)
        product = np.empty(tile)
        weight = np.empty(tile)
        # Padding multiplies a product by g(0) = 1; a mean must leave it out.
        x = np.zeros(X.shape[1] if additive else z.shape[0])
        for block in range(first, last):
            for left in range(0, m, tile):
                right = min(m, left + tile)
                for i in range(block * n // out.shape[0], (block + 1) * n // out.shape[0]):
                    start = max(left, i + 1) if triangular else left
                    width = right - start
                    if width <= 0:
                        continue
                    for f in range(X.shape[1]):
                        x[f] = X[i, f]
                    row = G[i, start:right]
                    if additive:
                        _sum_slopes(x, z, c, start, width, kind, row, out[block])
                        continue
                    if not weighted:
                        _row_product(x, z, c, start, width, kind, total, product, weight)
                        for j in range(width):
                            weight[j] *= row[j]
                        row = weight
                    _product_slopes(x, z, c, start, width, kind, row, out[block])

    return add


@njit(fastmath=_CONTRACT)
def _pair(x, y, c, kind, additive):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    d = x.shape[0]
    if additive:
        mean = 0.0
        for f in range(d):
            mean += _value(_distance(x[f], y[f], c[f]), kind)
        return mean
    total = 0.0
    product = 1.0
    for f in range(d):
        r = _distance(x[f], y[f], c[f])
        total += _exponent(r, kind)
        product *= _polynomial(r, kind)
        if product > _LARGE:
            product *= 1.0 / _LARGE
            total -= _LOG_LARGE
    half = fast_exp(-0.5 * total)
    return product * half * half


@cache
def _paired_loop(kind: int, additive: bool) -> Callable[..., None]:
    """Return the loop over pairs of rows for one kernel."""

    @njit(fastmath=_CONTRACT, nogil=True)
    def fill(X, Y, c, first, last, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        for i in range(first, last):
            out[i] = _pair(X[i], Y[i], c, kind, additive)

    return fill


@cache
def _paired_slopes_loop(kind: int, additive: bool) -> Callable[..., None]:
    """Return the loop over blocks of pairs of rows for the gradient of one kernel."""

    @njit(fastmath=_CONTRACT, nogil=True)
    def add(X, Y, c, g, first, last, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        n, d = X.shape
        for block in range(first, last):
            for i in range(block * n // out.shape[0], (block + 1) * n // out.shape[0]):
                weight = g[i] if additive else g[i] * _pair(X[i], Y[i], c, kind, False)
                for f in range(d):
                    r = _distance(X[i, f], Y[i, f], c[f])
                    if additive:
                        out[block, f] += weight * _value_slope(r, kind)
                    else:
                        numerator, denominator = _slope_parts(r, kind)
                        out[block, f] += weight * numerator / denominator

    return add


def scale_of(length_scale: Array | float, kind: int, n_features: int) -> Array:
    """Return c_f, the factor from |x_f - z_f| to r_f, shape (d,)."""
    factor = (1.0, np.sqrt(3.0), np.sqrt(5.0), 1.0)[kind]
    # A copy, since a read-only array would have functions compiled once more.
    return np.array(np.broadcast_to(factor / np.asarray(length_scale, dtype=np.float64), n_features))


def _columns(Z: Array, c: Array) -> tuple[Array, Array, int]:
    """Return Z transposed and c, padded with r = 0 to a multiple of `_UNROLL` features, and the width of a tile."""
    m, d = Z.shape
    padded = -(-d // _UNROLL) * _UNROLL
    z = np.zeros((padded, m))
    z[:d] = Z.T
    scale = np.zeros(padded)
    scale[:d] = c
    tile = max(64, min(512, _TILE // max(padded, 1) // 16 * 16))
    return z, scale, min(tile, max(m, 1))


def _fill(X: Array, z: Array, c: Array, kind: int, additive: bool, triangular: bool, tile: int, out: Array) -> None:
    fill, large = _cross_loop(kind, additive), X.size * z.shape[1] >= _SMALL
    run_parts(lambda a, b: fill(X, z, c, triangular, tile, a, b, out), X.shape[0], large=large)


def cross(X: Array, Z: Array, c: Array, kind: int, *, additive: bool = False) -> Array:
    """Kernel between the rows of X and of Z, shape (n, m)."""
    out = np.empty((X.shape[0], Z.shape[0]))
    z, scale, tile = _columns(Z, c)
    _fill(X, z, scale, kind, additive, False, tile, out)
    if additive:
        out /= X.shape[1]
    return out


def gram(Z: Array, c: Array, kind: int, *, additive: bool = False) -> Array:
    """Kernel between the rows of Z, exactly symmetric, at half the cost of `cross`, shape (m, m)."""
    out = np.zeros((Z.shape[0], Z.shape[0]))
    z, scale, tile = _columns(Z, c)
    _fill(Z, z, scale, kind, additive, True, tile, out)
    out += np.triu(out, 1).T
    if additive:
        out /= Z.shape[1]
    return out


def cross_vjp(
    X: Array, Z: Array, c: Array, kind: int, G: Array, *, additive: bool = False, weighted: bool = False
) -> Array:
    """Gradient of sum_ij G_ij k(x_i, z_j) in every log l_f."""
    return _slopes(X, Z, c, kind, np.ascontiguousarray(G), additive, weighted, False)


def gram_vjp(Z: Array, c: Array, kind: int, G: Array, *, additive: bool = False, weighted: bool = False) -> Array:
    """Gradient of sum_ij G_ij k(z_i, z_j) in every log l_f, at half the cost of `cross_vjp`."""
    return _slopes(Z, Z, c, kind, np.ascontiguousarray(G + G.T), additive, weighted, True)


def _slopes(
    X: Array, Z: Array, c: Array, kind: int, G: Array, additive: bool, weighted: bool, triangular: bool
) -> Array:
    z, scale, tile = _columns(Z, c)
    add, fixed = _slopes_loop(kind, additive), (X, z, scale, weighted, triangular, tile, G)
    total = _blockwise(lambda *part: add(*fixed, *part), X.shape, z.shape[0], X.size * Z.shape[0])
    return total / X.shape[1] if additive else total


def _blockwise(task: Callable[[int, int, Array], None], shape: tuple[int, ...], width: int, work: int) -> Array:
    """Return the sums over blocks of rows of the given shape: blocks of the problem's size only, at most 32 MiB."""
    n, d = shape
    large = work >= _SMALL
    sums = np.zeros((max(1, min(_BLOCKS, n, (1 << 22) // max(d, 1))) if large else 1, width))
    run_parts(lambda a, b: task(a, b, sums), sums.shape[0], large=large)
    total: Array = np.add.reduce(sums, axis=0)[:d]
    return total


def paired(X: Array, Y: Array, c: Array, kind: int, *, additive: bool = False) -> Array:
    """Return k(x_i, y_i) for every i."""
    out = np.empty(X.shape[0])
    fill = _paired_loop(kind, additive)
    run_parts(lambda a, b: fill(X, Y, c, a, b, out), X.shape[0], large=X.size >= _SMALL)
    return out / X.shape[1] if additive else out


def paired_vjp(X: Array, Y: Array, c: Array, kind: int, g: Array, *, additive: bool = False) -> Array:
    """Gradient of sum_i g_i k(x_i, y_i) in every log l_f."""
    add, fixed = _paired_slopes_loop(kind, additive), (X, Y, c, np.ascontiguousarray(g))
    total = _blockwise(lambda *part: add(*fixed, *part), X.shape, X.shape[1], X.size)
    return total / X.shape[1] if additive else total
