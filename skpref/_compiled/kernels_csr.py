"""Loops of the per-feature kernels over CSR features, which stay sparse.

A feature where both rows are 0 contributes log g(0) = 0, so a pair (x, z) needs the features of x, those of z, and a
correction where both are stored. With t(r) = log g(r) for a product and g(r) - 1 for a mean (see
`skpref._compiled.kernels` for g and c),

    sum_f t(|x_f - z_f| c_f) = sum_{f in x} t(x_f) + sum_{f in z} t(z_f)
                               + sum_{f in both} [t(x_f - z_f) - t(x_f) - t(z_f)],

whose first two sums are per row and whose last one walks the columns of Z (its CSC form). Gradients use the same
identity with the slope of t in the place of t, and the sums of the weights over rows and over columns.

Large |t| would cancel: two equal rows with r = 1e4 everywhere must give 1, not exp(rounding errors of 1e4). Pairs in
which that could be seen are evaluated anew by merging the two rows. In gradients a one-sided slope with r > 64 belongs
to pairs of weight exp(-64), or to a correction that cancels it: it is left out of both.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from skpref._compiled.jit import njit, run_parts
from skpref._compiled.kernels import FIVE_HALVES, HALF, THREE_HALVES

if TYPE_CHECKING:
    from scipy import sparse

    from skpref._typing import Array, IntArray

__all__ = ["cross", "cross_vjp", "gram", "gram_vjp", "paired", "paired_vjp"]

_FAR: Final = 1e3  # distance r beyond which g(r) = 0, as for dense features
_CANCELS: Final = 64.0  # sums beyond this lose more than 1e-14, and exp(-64) is nothing beside 1
_BLOCKS: Final = 64
_SMALL: Final = 1 << 15  # pairs of rows below which waking the other threads costs more than they bring
_SUMS: Final = 1 << 22  # numbers in the blocks' sums (32 MiB)


@njit(forceinline=True)
def _distance(x: float, z: float, c: float) -> float:
    r = abs(x - z) * c
    return _FAR if r > _FAR else r  # noqa: FURB136 - a select, which keeps NaN


@njit()
def _term(r: float, kind: int, additive: bool) -> float:
    """Return t(r)."""
    if kind == HALF:
        log = -r
    elif kind == THREE_HALVES:
        log = math.log1p(r) - r
    elif kind == FIVE_HALVES:
        log = math.log1p(r * (1.0 + r / 3.0)) - r
    else:
        log = -0.5 * r * r
    return math.expm1(log) if additive else log


@njit()
def _slope(r: float, kind: int, additive: bool) -> float:
    """Return the derivative of t in log l."""
    if kind == HALF:
        slope = r
    elif kind == THREE_HALVES:
        slope = r * r / (1.0 + r)
    elif kind == FIVE_HALVES:
        slope = r * r * (1.0 + r) / (3.0 + r * (3.0 + r))
    else:
        slope = r * r
    return slope * (1.0 + _term(r, kind, True)) if additive else slope


@njit()
def _one_sided(r: float, kind: int, additive: bool, slope: bool) -> float:
    """Return t(r) or, unless it cancels, its slope."""
    if not slope:
        return _term(r, kind, additive)
    return 0.0 if r > _CANCELS else _slope(r, kind, additive)


@njit()
def _stored(indices, data, c, kind, additive, slope):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """One-sided terms (or slopes) of all stored entries."""
    out = np.empty(data.shape[0])
    for p in range(data.shape[0]):
        out[p] = _one_sided(_distance(data[p], 0.0, c[indices[p]]), kind, additive, slope)
    return out


@njit()
def _merge(ix, x, iy, y, c, kind, additive):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return sum_f t over the features of two rows with sorted indices, without cancellation."""
    total = 0.0
    p = q = 0
    while p < ix.shape[0] or q < iy.shape[0]:
        if q == iy.shape[0] or (p < ix.shape[0] and ix[p] < iy[q]):
            total += _term(_distance(x[p], 0.0, c[ix[p]]), kind, additive)
            p += 1
        elif p == ix.shape[0] or iy[q] < ix[p]:
            total += _term(_distance(y[q], 0.0, c[iy[q]]), kind, additive)
            q += 1
        else:
            total += _term(_distance(x[p], y[q], c[ix[p]]), kind, additive)
            p += 1
            q += 1
    return total


@njit()
def _row(i, x, z, columns, c, kind, additive, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Kernel (product) or sum of g - 1 (mean) between row i of x and all rows of z, into out."""
    xp, xi, xd, xt, xs = x
    zp, zi, zd, zs = z
    cp, ci, cd, ct = columns
    for j in range(out.shape[0]):
        out[j] = xs[i] + zs[j]
    for p in range(xp[i], xp[i + 1]):
        f = xi[p]
        for q in range(cp[f], cp[f + 1]):
            r = _distance(xd[p], cd[q], c[f])
            out[ci[q]] += _term(r, kind, additive) - (xt[p] + ct[q])
    if additive:
        return
    for j in range(out.shape[0]):
        if out[j] > -_CANCELS and xs[i] + zs[j] < -_CANCELS:
            a, b, s, t = xp[i], xp[i + 1], zp[j], zp[j + 1]
            out[j] = _merge(xi[a:b], xd[a:b], zi[s:t], zd[s:t], c, kind, False)
        out[j] = math.exp(min(out[j], 0.0))


@njit(nogil=True)
def _cross_rows(x, z, columns, c, kind, additive, first, last, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(first, last):
        _row(i, x, z, columns, c, kind, additive, out[i])


@njit(nogil=True)
def _slopes_rows(x, z, columns, c, kind, additive, G, xh, ch, first, last, sums, column_sums):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the share of some rows to the sums over stored x and over both, and to the weights of the columns."""
    xp, xi, xd = x[0], x[1], x[2]
    cp, ci, cd = columns[0], columns[1], columns[2]
    m = G.shape[1]
    weight = np.empty(m)
    for i in range(first, last):
        if additive:
            for j in range(m):
                weight[j] = G[i, j]
        else:
            _row(i, x, z, columns, c, kind, False, weight)
            for j in range(m):
                weight[j] *= G[i, j]
        row_sum = 0.0
        for j in range(m):
            row_sum += weight[j]
            column_sums[j] += weight[j]
        for p in range(xp[i], xp[i + 1]):
            f = xi[p]
            total = xh[p] * row_sum
            for q in range(cp[f], cp[f + 1]):
                r = _distance(xd[p], cd[q], c[f])
                total += weight[ci[q]] * (_slope(r, kind, additive) - (xh[p] + ch[q]))
            sums[f] += total


@njit()
def _pair(i, x, y, c, kind, additive):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    xp, xi, xd = x
    yp, yi, yd = y
    a, b, s, t = xp[i], xp[i + 1], yp[i], yp[i + 1]
    total = _merge(xi[a:b], xd[a:b], yi[s:t], yd[s:t], c, kind, additive)
    return total if additive else math.exp(total)


@njit()
def _paired(x, y, c, kind, additive, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(out.shape[0]):
        out[i] = _pair(i, x, y, c, kind, additive)


@njit()
def _paired_slopes(x, y, c, kind, additive, g, sums):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    xp, xi, xd = x
    yp, yi, yd = y
    for i in range(g.shape[0]):
        weight = g[i] if additive else g[i] * _pair(i, x, y, c, kind, False)
        p, p_end, q, q_end = xp[i], xp[i + 1], yp[i], yp[i + 1]
        while p < p_end or q < q_end:
            if q == q_end or (p < p_end and xi[p] < yi[q]):
                f, a, b = xi[p], xd[p], 0.0
                p += 1
            elif p == p_end or yi[q] < xi[p]:
                f, a, b = yi[q], 0.0, yd[q]
                q += 1
            else:
                f, a, b = xi[p], xd[p], yd[q]
                p += 1
                q += 1
            sums[f] += weight * _slope(_distance(a, b, c[f]), kind, additive)


_Parts = tuple[Any, ...]


def _parts(X: sparse.csr_array | sparse.csc_array) -> tuple[IntArray, IntArray, Array]:
    """Return (indptr, indices, data) with 64-bit indices, so that one compiled version serves all."""
    return X.indptr.astype(np.int64), X.indices.astype(np.int64), np.ascontiguousarray(X.data, dtype=np.float64)


def _row_sums(indptr: IntArray, values: Array) -> Array:
    """Sum the stored values of every row, each in its own order."""
    rows = np.repeat(np.arange(indptr.shape[0] - 1), np.diff(indptr))
    return np.bincount(rows, weights=values, minlength=indptr.shape[0] - 1).astype(np.float64, copy=False)


def _operands(X: Any, Z: Any, c: Array, kind: int, additive: bool) -> tuple[_Parts, _Parts, _Parts]:  # noqa: ANN401
    """Return the rows of X, the rows of Z and the columns of Z, with their one-sided terms."""
    xp, xi, xd = _parts(X)
    xt = _stored(xi, xd, c, kind, additive, False)
    zp, zi, zd = _parts(Z)
    zs = _row_sums(zp, _stored(zi, zd, c, kind, additive, False))
    cp, ci, cd = _parts(Z.tocsc())
    ct = _stored(_column_of(cp), cd, c, kind, additive, False)
    return (xp, xi, xd, xt, _row_sums(xp, xt)), (zp, zi, zd, zs), (cp, ci, cd, ct)


def _column_of(indptr: IntArray) -> IntArray:
    return np.repeat(np.arange(indptr.shape[0] - 1, dtype=np.int64), np.diff(indptr))


def cross(X: Any, Z: Any, c: Array, kind: int, *, additive: bool = False) -> Array:  # noqa: ANN401 - CSR
    """Kernel between the rows of X and of Z, shape (n, m)."""
    out = np.empty((X.shape[0], Z.shape[0]))
    operands = _operands(X, Z, c, kind, additive)
    large = out.size >= _SMALL
    run_parts(lambda a, b: _cross_rows(*operands, c, kind, additive, a, b, out), out.shape[0], large=large)
    return 1.0 + out / X.shape[1] if additive else out


def gram(Z: Any, c: Array, kind: int, *, additive: bool = False) -> Array:  # noqa: ANN401 - CSR
    """Kernel between the rows of Z, exactly symmetric, shape (m, m)."""
    # Both triangles add the same terms in the same order (features ascend), so they agree to the last bit.
    out = cross(Z, Z, c, kind, additive=additive)
    np.fill_diagonal(out, 1.0)
    return out


def cross_vjp(X: Any, Z: Any, c: Array, kind: int, G: Array, *, additive: bool = False) -> Array:  # noqa: ANN401 - CSR
    """Gradient of sum_ij G_ij k(x_i, z_j) in every log l_f."""
    (n, d), m = X.shape, Z.shape[0]
    x, z, columns = _operands(X, Z, c, kind, additive)
    column_of = _column_of(columns[0])
    xh = _stored(x[1], x[2], c, kind, additive, True)
    ch = _stored(column_of, columns[2], c, kind, additive, True)
    blocks = max(1, min(_BLOCKS, n, _SUMS // max(d, m, 1)))
    sums, column_sums = np.zeros((blocks, d)), np.zeros((blocks, m))
    G = np.ascontiguousarray(G)

    def task(first: int, last: int) -> None:
        for b in range(first, last):
            rows = b * n // blocks, (b + 1) * n // blocks
            _slopes_rows(x, z, columns, c, kind, additive, G, xh, ch, *rows, sums[b], column_sums[b])

    run_parts(task, blocks, large=G.size >= _SMALL)
    weights = np.add.reduce(column_sums, axis=0)
    total = np.add.reduce(sums, axis=0) + np.bincount(column_of, weights=ch * weights[columns[1]], minlength=d)
    return np.asarray(total / d if additive else total)


def gram_vjp(Z: Any, c: Array, kind: int, G: Array, *, additive: bool = False) -> Array:  # noqa: ANN401 - CSR
    """Gradient of sum_ij G_ij k(z_i, z_j) in every log l_f."""
    return cross_vjp(Z, Z, c, kind, G, additive=additive)


def paired(X: Any, Y: Any, c: Array, kind: int, *, additive: bool = False) -> Array:  # noqa: ANN401 - CSR
    """Return k(x_i, y_i) for every i, by merging the two rows."""
    out = np.empty(X.shape[0])
    _paired(_parts(X), _parts(Y), c, kind, additive, out)
    return 1.0 + out / X.shape[1] if additive else out


def paired_vjp(X: Any, Y: Any, c: Array, kind: int, g: Array, *, additive: bool = False) -> Array:  # noqa: ANN401 - CSR
    """Gradient of sum_i g_i k(x_i, y_i) in every log l_f."""
    sums = np.zeros(X.shape[1])
    _paired_slopes(_parts(X), _parts(Y), c, kind, additive, np.ascontiguousarray(g), sums)
    return sums / X.shape[1] if additive else sums
