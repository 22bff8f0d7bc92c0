"""Expectations of a squared exponential kernel over Gaussian inputs (the psi statistics), and their adjoints.

With x_n ~ N(mu_n, diag s_n) and k(x, z) = a exp(-1/2 sum_q w_q (x_q - z_q)^2), the expectations

    psi1_nm    = E k(x_n, z_m)              ([TL10] eq. 15),
    psi2_n,ml  = E k(x_n, z_m) k(x_n, z_l)  ([TL10] eq. 16)

are one formula at a point p, for the order r = 1 with p = z_m and for r = 2 with p the middle of z_m and z_l:

    log psi = r log a - 1/2 sum_q log t_q - r/2 sum_q e_q (mu_q - p_q)^2 - 1/4 sum_q w_q (z_mq - z_lq)^2,
    t = r w s + 1,  e = w / t.

It is a polynomial of second degree in p, so that logarithms for many rows and points are a product of two matrices of
width 2 Q + 2, and so are all gradients: a row costs 2 M^2 Q multiplications and M^2/2 exponentials in one direction,
twice as many multiplications in the other, and runs at the speed of BLAS. Rows are split into a fixed number of blocks,
whose sums are added in order: with one thread in BLAS, any number of threads gives the same bits.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from skpref._compiled.jit import n_threads, njit, run_parts
from skpref._compiled.kernels import fast_exp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skpref._typing import Array

__all__ = ["fit_rows", "psi_first", "psi_products", "psi_statistics", "psi_vjp"]

_BLOCKS: Final = 8
_ROWS, _POINTS = 64, 640  # sizes of a tile, which stays in the second cache
_WORTH: Final = 1_000_000  # exponentials from which a second thread gains more than it costs
_FAR: Final = 60.0  # distance beyond the farthest point at which psi is 0; its square is the exponent
_ARMIJO: Final = 1e-4
_HALVINGS: Final = 30


@njit()
def _exponential(tile):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Replace all numbers by their exponentials; a denormal one, which would slow down the products to come, by 0."""
    for i in range(tile.shape[0]):
        for j in range(tile.shape[1]):
            tile[i, j] = fast_exp(tile[i, j])


class _Points(NamedTuple):
    """Points at which psi is computed: centres (P, Q), and the part of -log psi by the distance within a pair (P,)."""

    order: int
    at: Array
    apart: Array

    def right(self) -> Array:
        return np.vstack([self.at.T**2, self.at.T, np.ones(self.apart.size), self.apart])


class _Rows(NamedTuple):
    """Centred means, variances and what follows from them: t, e and the rows' factors of log psi, (n, 2 Q + 2)."""

    mu: Array
    s: Array
    t: Array
    e: Array
    left: Array


def _pairs(Z: Array, w: Array) -> tuple[Any, Any, _Points]:
    """Return indices m >= l of all pairs of inducing inputs, and their middles."""
    row, column = np.tril_indices(Z.shape[0])
    apart = -0.25 * ((Z[row] - Z[column]) ** 2 @ w)
    return row, column, _Points(2, 0.5 * (Z[row] + Z[column]), apart)


def _rows_for(order: int, mu: Array, s: Array, Z: Array, w: Array, a: float) -> _Rows:
    t = order * w * s + 1.0
    e = w / t
    # A row so far from all inducing inputs that psi vanishes is moved to where its square is no infinity.
    limit = np.abs(Z).max(axis=0) + _FAR / np.sqrt(e)
    mu = np.clip(mu, -limit, limit)
    slope = order * e * mu
    constant = order * math.log(a) - 0.5 * np.sum(np.log(t) + slope * mu, axis=1)
    return _Rows(mu, s, t, e, np.column_stack([-0.5 * order * e, slope, constant, np.ones(mu.shape[0])]))


def _tiles(left: Array, right: Array, rows: range) -> Iterator[tuple[slice, slice, Array]]:
    """Values of psi for some of the rows, a tile at a time."""
    work = np.empty(_ROWS * min(_POINTS, right.shape[1]))
    for p in range(0, right.shape[1], _POINTS):
        points = slice(p, min(p + _POINTS, right.shape[1]))
        below = np.ascontiguousarray(right[:, points])
        for i in range(rows.start, rows.stop, _ROWS):
            part = slice(i, min(i + _ROWS, rows.stop))
            shape = (part.stop - i, points.stop - p)
            tile = work[: shape[0] * shape[1]].reshape(shape)
            np.dot(left[part], below, out=tile)
            _exponential(tile)
            yield part, points, tile


def _map_blocks(n: int, width: int, work: Callable[[range], Any]) -> Iterator[Any]:
    """Results of `work` for blocks of rows, in their order."""
    blocks = [range(b * n // _BLOCKS, (b + 1) * n // _BLOCKS) for b in range(_BLOCKS)]
    threads = min(n_threads(), _BLOCKS) if n * width >= _WORTH else 1
    if threads < 2:
        yield from map(work, blocks)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, blocks)


def _summed(rows: _Rows, points: _Points) -> Array:
    """Sum of psi over the rows, shape (P,)."""
    right = points.right()

    def work(block: range) -> Array:
        total = np.zeros(right.shape[1])
        for part, at, tile in _tiles(rows.left, right, block):
            total[at] += np.ones(part.stop - part.start) @ tile
        return total

    total = np.zeros(right.shape[1])
    for share in _map_blocks(rows.mu.shape[0], total.size, work):
        total += share
    return total


def _weighted(rows: _Rows, points: _Points, weights: Array) -> Array:
    """Sums of psi over the points with weights (P, k), shape (n, k)."""
    right, out = points.right(), np.zeros((rows.mu.shape[0], weights.shape[1]))

    def work(block: range) -> None:
        for part, at, tile in _tiles(rows.left, right, block):
            out[part] += tile @ weights[at]

    for _ in _map_blocks(out.shape[0], right.shape[1], work):
        pass
    return out


class _Pull(NamedTuple):
    """Gradients of a weighted sum of psi, except through `apart`; `total` is the sum over rows, (P,)."""

    mu: Array
    s: Array
    at: Array
    w: Array
    total: Array


def _pull(rows: _Rows, points: _Points, G: Array) -> _Pull:
    """Pull adjoints back: G is the same for all rows, shape (P,), or has one row each, shape (n, P)."""
    order, Q, right = points.order, rows.mu.shape[1], points.right()
    each = G.ndim == 2
    weights = np.ascontiguousarray(right[:-1].T) * (1.0 if each else G[:, None])
    by_row = np.zeros((rows.mu.shape[0], 2 * Q + 1))
    factors = np.column_stack([rows.e, rows.e * rows.mu, np.ones(rows.mu.shape[0])])

    def work(block: range) -> Array:
        by_point = np.zeros((2 * Q + 1, right.shape[1]))
        for part, at, tile in _tiles(rows.left, right, block):
            adjoint = tile * G[part, at] if each else tile
            by_row[part] += adjoint @ weights[at]
            by_point[:, at] += factors[part].T @ adjoint
        return by_point

    by_point = np.zeros((2 * Q + 1, right.shape[1]))
    for share in _map_blocks(rows.mu.shape[0], right.shape[1], work):
        by_point += share
    if not each:
        by_point *= G
    square, first, total = by_row[:, :Q], by_row[:, Q:-1], by_row[:, -1:]
    mu, s, t, e, _ = rows
    spread = mu * (mu * total - 2.0 * first) + square  # sum of the adjoints times (mu - p)^2
    return _Pull(
        -order * e * (mu * total - first),
        0.5 * order * e * (order * e * spread - total),
        order * (by_point[Q:-1] - points.at.T * by_point[:Q]).T,
        -0.5 * order * np.sum((s * total + spread / t) / t, axis=0),
        by_point[-1],
    )


def psi_statistics(mu: Array, s: Array, Z: Array, w: Array, a: float) -> tuple[Array, Array]:
    """Return the expected kernel rows and the sum of the expected products of kernel rows."""
    middle = Z.mean(axis=0)
    mu, Z = mu - middle, Z - middle
    row, column, points = _pairs(Z, w)
    psi2 = np.empty((Z.shape[0], Z.shape[0]))
    psi2[row, column] = _summed(_rows_for(2, mu, s, Z, w, a), points)
    psi2[column, row] = psi2[row, column]
    return _first_of(mu, s, Z, w, a), psi2


def _first_of(mu: Array, s: Array, Z: Array, w: Array, a: float) -> Array:
    rows, points = _rows_for(1, mu, s, Z, w, a), _Points(1, Z, np.zeros(Z.shape[0]))
    psi1 = rows.left @ points.right()
    _exponential(psi1)
    return psi1


def psi_first(mu: Array, s: Array, Z: Array, w: Array, a: float) -> Array:
    """Return the expected kernel rows alone, shape (n, M)."""
    middle = Z.mean(axis=0)
    return _first_of(mu - middle, s, Z - middle, w, a)


def psi_products(mu: Array, s: Array, Z: Array, w: Array, a: float, H: Array) -> Array:
    """Return expected quadratic forms of the kernel rows, shape (n, k)."""
    middle = Z.mean(axis=0)
    mu, Z = mu - middle, Z - middle
    row, column, points = _pairs(Z, w)
    weights = np.ascontiguousarray((H[:, row, column] * np.where(row == column, 1.0, 2.0)).T)
    return _weighted(_rows_for(2, mu, s, Z, w, a), points, weights)


def psi_vjp(
    mu: Array, s: Array, Z: Array, w: Array, a: float, G1: Array, G2: Array
) -> tuple[Array, Array, Array, Array, float]:
    """Pull adjoints of the psi statistics back to all that they depend on."""
    middle = Z.mean(axis=0)
    mu, Z = mu - middle, Z - middle
    first = _pull(_rows_for(1, mu, s, Z, w, a), _Points(1, Z, np.zeros(Z.shape[0])), G1)
    row, column, points = _pairs(Z, w)
    adjoint = G2[row, column] * np.where(row == column, 1.0, 2.0)
    second = _pull(_rows_for(2, mu, s, Z, w, a), points, adjoint)
    half = np.zeros((*G2.shape, Z.shape[1]))
    half[row, column] = 0.5 * second.at
    # Through the distance within a pair; `sums` has every pair twice, half of it each time.
    sums = np.zeros_like(G2)
    sums[row, column] = 0.5 * second.total
    sums += sums.T
    spread = sums.sum(axis=1)
    gZ = first.at + half.sum(axis=0) + half.sum(axis=1) - w * (spread[:, None] * Z - sums @ Z)
    gw = first.w + second.w - 0.5 * (np.einsum("m,mq->q", spread, Z**2) - np.einsum("mq,mq->q", Z, sums @ Z))
    ga = float(first.total.sum() + 2.0 * second.total.sum())
    return first.mu + second.mu, first.s + second.s, gZ, gw, ga


@njit()
def _first(mu, s, ZT, w, a, D, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Fill psi1 of one input, and the offsets D = mu - Z^T, shape (Q, M)."""
    Q, M = ZT.shape
    scale = 1.0
    out[:] = 0.0
    for q in range(Q):
        stretch = w[q] * s[q] + 1.0
        scale *= stretch
        c, centre = w[q] / stretch, mu[q]
        for m in range(M):
            d = centre - ZT[q, m]
            D[q, m] = d
            out[m] += c * d * d
    scale = a / math.sqrt(scale)
    for m in range(M):
        out[m] = scale * fast_exp(-0.5 * out[m])


@njit()
def _second(s, w, a, apart, D, R, total, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Fill the lower triangle of psi2 of one input; `apart` holds exp(-1/4 sum w (z - z')^2), R and total are work."""
    Q, M = D.shape
    scale = 1.0
    for q in range(Q):
        stretch = 2.0 * w[q] * s[q] + 1.0
        scale *= stretch
        root = 0.5 * math.sqrt(w[q] / stretch)
        for m in range(M):
            R[q, m] = root * D[q, m]
    scale = a * a / math.sqrt(scale)
    for m in range(M):
        total[: m + 1] = 0.0
        for q in range(Q):
            here = R[q, m]
            for l in range(m + 1):
                both = here + R[q, l]
                total[l] += both * both
        for l in range(m + 1):
            out[m, l] = scale * apart[m, l] * fast_exp(-total[l])


@njit()
def _pull_first(s, w, P, D, gmu, gs):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the gradients through psi1 of one input; P holds adjoint times value."""
    Q, M = D.shape
    total = 0.0
    for m in range(M):
        total += P[m]
    for q in range(Q):
        c = w[q] / (w[q] * s[q] + 1.0)
        first = second = 0.0
        for m in range(M):
            pd = P[m] * D[q, m]
            first += pd
            second += pd * D[q, m]
        gmu[q] -= c * first
        gs[q] += 0.5 * c * (c * second - total)


@njit()
def _pull_second(s, w, P, D, row, PD, gmu, gs):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the gradients through psi2 of one input; P holds adjoint times value, full and symmetric."""
    Q, M = D.shape
    row[:] = 0.0
    PD[:] = 0.0
    for l in range(M):
        for m in range(M):
            row[m] += P[l, m]
        for q in range(Q):
            d = D[q, l]
            for m in range(M):
                PD[q, m] += d * P[l, m]
    total = 0.0
    for m in range(M):
        total += row[m]
    for q in range(Q):
        e = w[q] / (2.0 * w[q] * s[q] + 1.0)
        first = second = 0.0
        for m in range(M):
            own = row[m] * D[q, m]
            first += own
            second += D[q, m] * (own + PD[q, m])  # twice the sum of P (mu - (z + z')/2)^2
        gmu[q] -= 2.0 * e * first
        gs[q] += e * (e * second - total)


def _pair_decay(Z: Array, w: Array) -> Array:
    apart: Array = np.exp(-0.25 * np.einsum("mlq,q->ml", (Z[:, None] - Z[None]) ** 2, w))
    return apart


@njit()
def _row_value(mu, s, ZT, w, a, apart, g, W, P1, D, R, work, P2):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """G . psi1 + <W, psi2> - KL(q || N(0, I)) of one input; leaves adjoints times values in P1 and P2."""
    Q, M = ZT.shape
    _first(mu, s, ZT, w, a, D, P1)
    _second(s, w, a, apart, D, R, work, P2)
    value = 0.0
    for m in range(M):
        P1[m] *= g[m]
        value += P1[m]
        for l in range(m):
            P2[m, l] *= W[m, l]
            P2[l, m] = P2[m, l]
            value += 2.0 * P2[m, l]
        P2[m, m] *= W[m, m]
        value += P2[m, m]
    for q in range(Q):
        value -= 0.5 * (mu[q] * mu[q] + s[q] - 1.0 - math.log(s[q]))
    return value


@njit(nogil=True)
def _fit_rows(mu, s, ZT, w, a, apart, G, W, max_iter, tol, first, last, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, C901
    Q, M = ZT.shape
    for i in range(first, last):
        D, R, PD = np.empty((Q, M)), np.empty((Q, M)), np.empty((Q, M))
        work, P1, P2 = np.empty(M), np.empty(M), np.empty((M, M))
        gmu, gs, new_mu, new_s = np.empty(Q), np.empty(Q), np.empty(Q), np.empty(Q)
        here = _row_value(mu[i], s[i], ZT, w, a, apart, G[i], W, P1, D, R, work, P2)
        rho = 1.0
        for _ in range(max_iter):
            gmu[:] = 0.0
            gs[:] = 0.0
            _pull_first(s[i], w, P1, D, gmu, gs)
            _pull_second(s[i], w, P2, D, work, PD, gmu, gs)
            # The natural gradient of a Gaussian with precision 1/s: the prior's precision is 1.
            gain = 0.0
            for q in range(Q):
                slope = gmu[q] - mu[i, q]
                gain += s[i, q] * slope * slope + 2.0 * (s[i, q] * (gs[q] - 0.5) + 0.5) ** 2
            moved = False
            for _ in range(_HALVINGS):
                sound = True
                for q in range(Q):
                    precision = (1.0 - rho) / s[i, q] + rho * (1.0 - 2.0 * gs[q])
                    if precision <= 0.1 / s[i, q]:
                        sound = False
                        break
                    new_s[q] = 1.0 / precision
                    new_mu[q] = mu[i, q] + rho * new_s[q] * (gmu[q] - mu[i, q])
                if sound:
                    there = _row_value(new_mu, new_s, ZT, w, a, apart, G[i], W, P1, D, R, work, P2)
                    if there >= here + _ARMIJO * rho * gain:
                        moved = True
                        break
                rho *= 0.5
            if not moved:
                break
            for q in range(Q):  # an assignment of arrays would compile for seconds
                mu[i, q], s[i, q] = new_mu[q], new_s[q]
            done = there - here <= tol
            here = there
            rho = min(1.0, 2.0 * rho)
            if done:
                break
        value[i] = here


def fit_rows(
    mu: Array,
    s: Array,
    Z: Array,
    w: Array,
    a: float,
    G: Array,
    W: Array,
    *,
    max_iter: int,
    tol: float,
) -> tuple[Array, Array, Array]:
    """Maximise G_n . psi1_n + <W, psi2_n> - KL(q(x_n) || N(0, I)) in every q(x_n), each for itself.

    Natural-gradient steps, halved until the objective rises.
    """
    mu, s, value = np.array(mu), np.array(s), np.empty(mu.shape[0])
    fixed = np.ascontiguousarray(Z.T), w, a, _pair_decay(Z, w), np.ascontiguousarray(G), np.ascontiguousarray(W)
    large = 5 * mu.shape[0] * Z.shape[0] ** 2 >= _WORTH  # about ten steps
    run_parts(lambda i, j: _fit_rows(mu, s, *fixed, max_iter, tol, i, j, value), mu.shape[0], large=large)
    return mu, s, value
