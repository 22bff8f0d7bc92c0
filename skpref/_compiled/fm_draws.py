"""Draws of a factorization machine's parameters and of its rows' latent values (docs/maths section 9).

The numbers of a set of features are those of `fm_full` without covariances: l, its contribution to y(x), and
Q = sum_k x_k v_k, side by side in a row of a table, shape (n_patterns, 1 + d).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numba
import numpy as np

from skpref._compiled.fm import FAST, Compressed, run_in_threads
from skpref._compiled.fm_full import add_evidence, factor_upper
from skpref._compiled.jit import njit
from skpref._compiled.streams import ZIGGURAT, normal, open_stream, uniform
from skpref._compiled.tiles import add_gram, padded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray

_BLOCK = 128  # rows that are gathered for a product of matrices, and that share a stream of random numbers
_WIDE = 2.5  # width of an interval around 0 above which normal draws are rejected less often than uniform ones


@njit(nogil=True, fastmath=FAST, inline="always")
def _add(z, other, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add x times a feature, or another set, to a set."""
    level = other[0]
    for a in range(1, z.shape[0]):
        level += z[a] * other[a]
        z[a] += x * other[a]
    z[0] += x * level


@njit(nogil=True, fastmath=FAST, inline="always")
def _remove(z, other, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Undo `_add`."""
    level = other[0]
    for a in range(1, z.shape[0]):
        z[a] -= x * other[a]
        level += z[a] * other[a]
    z[0] -= x * level


@njit(nogil=True, fastmath=FAST)
def _pattern_values(first, last, start, index, value, theta, table):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for p in range(first, last):
        table[p] = 0.0
        for e in range(start[p], start[p + 1]):
            _add(table[p], theta[index[e]], value[e])
    return True


def pattern_values(patterns: Compressed, theta: Array, table: Array, first: int, last: int) -> None:
    """Compute the numbers of patterns `first` to `last`, in place."""

    def task(a: int, b: int) -> bool:
        return bool(_pattern_values(a, b, *patterns, theta, table))

    run_in_threads(task, patterns.start, first, last, table.shape[1])


@njit(nogil=True, fastmath=FAST)
def _row_values(first, last, codes, table, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    z = np.empty(table.shape[1])
    for i in range(first, last):
        for a in range(z.shape[0]):  # an assignment of arrays would compile for seconds
            z[a] = table[codes[0, i], a]
        for g in range(1, codes.shape[0]):
            _add(z, table[codes[g, i]], 1.0)
        out[i] = z[0]
    return True


def row_values(codes: NDArray[np.int32], table: Array) -> Array:
    """Return y(x) - w_0 of every row, shape (n,)."""
    n = codes.shape[1]
    out = np.empty(n)

    def task(a: int, b: int) -> bool:
        return bool(_row_values(a, b, codes, table, out))

    run_in_threads(task, np.arange(n + 1), 0, n, table.shape[1])
    return out


@njit(nogil=True)
def _tail(a, b, counter, step):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw a standard normal number between 0 < a < b by rejection (Robert 1995)."""
    root = np.sqrt(a * a + 4.0)
    rate = 0.5 * (a + root)
    flat = b - a < np.exp(0.5 + 0.25 * a * (a - root)) / rate
    while True:
        u, counter = uniform(counter, step)
        v, counter = uniform(counter, step)
        if flat:
            z = a + u * (b - a)
            accepted = 2.0 * np.log(v) <= (a - z) * (a + z)
        else:
            z = a - np.log(u) / rate
            accepted = z < b and 2.0 * np.log(v) <= -((z - rate) ** 2)
        if accepted:
            return z, counter


@njit(nogil=True)
def _draw_between(a, b, counter, step, ziggurat):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw a standard normal number between a and b."""
    if a > 0.0:
        return _tail(a, b, counter, step)
    if b < 0.0:
        z, counter = _tail(-b, -a, counter, step)
        return -z, counter
    while True:
        if b - a > _WIDE:
            z, counter = normal(counter, step, ziggurat)
            accepted = a <= z <= b
        else:
            u, counter = uniform(counter, step)
            v, counter = uniform(counter, step)
            z = a + u * (b - a)
            accepted = 2.0 * np.log(v) <= -z * z
        if accepted:
            return z, counter


@njit(nogil=True)
def _truncated(first, last, mean, low, high, level, name, ziggurat, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    seed, sweep, block = name
    for part in range(first, last):
        counter, step = open_stream(seed, sweep, block, part)
        for i in range(part * _BLOCK, min((part + 1) * _BLOCK, mean.shape[0])):
            a, b = low[level[i]] - mean[i], high[level[i]] - mean[i]
            z, counter = _draw_between(a, b, counter, step, ziggurat)
            out[i] = mean[i] + z
    return True


def truncated_normals(mean: Array, level: IntArray, thresholds: Array, name: tuple[int, int, int]) -> Array:
    """Draw N(mean, 1) between the thresholds of each row's level, shape (n,), from the streams of a name."""
    low, high = np.append(-np.inf, thresholds), np.append(thresholds, np.inf)
    out, n_parts, (seed, sweep, block) = np.empty(mean.size), -(-mean.size // _BLOCK), name

    def task(a: int, b: int) -> bool:
        return bool(_truncated(a, b, mean, low, high, level, (np.uint64(seed), sweep, block), ZIGGURAT, out))

    run_in_threads(task, np.arange(n_parts + 1), 0, n_parts, 20 * _BLOCK)
    return out


@njit(nogil=True, fastmath=FAST)
def _evidence(first, last, f, offset, start, rows, codes, target, table, A, B):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    width = table.shape[1]
    size = padded(width + 1)
    z, columns, gram = np.empty(width), np.zeros((size, _BLOCK)), np.zeros((size, size))
    for p in range(first, last):
        gram[:, :] = 0.0
        filled = 0
        for r in range(start[p], start[p + 1]):
            i = rows[r]
            z[:] = 0.0
            for g in range(codes.shape[0]):
                if g != f:
                    _add(z, table[codes[g, i]], 1.0)
            columns[0, filled] = 1.0
            for a in range(1, width):
                columns[a, filled] = z[a]
            columns[width, filled] = target[i] - z[0]
            filled += 1
            if filled == _BLOCK:
                add_gram(gram, columns, filled)
                filled = 0
        add_gram(gram, columns, filled)
        for a in range(width):
            B[p - offset, a] = gram[width, a]
            for b in range(a + 1):
                A[p - offset, a, b] = A[p - offset, b, a] = gram[a, b]
    return True


def drawn_evidence(
    f: int,
    holders: tuple[IntArray, IntArray],
    codes: NDArray[np.int32],
    offsets: IntArray,
    target: Array,
    table: Array,
) -> tuple[Array, Array]:
    """Return A, B of log N(target; y(x) - w_0, 1) = -1/2 z' A z + B z, z = (l, Q), for each pattern of a field."""
    first, last, width = int(offsets[f]), int(offsets[f + 1]), table.shape[1]
    A, B = np.empty((last - first, width, width)), np.empty((last - first, width))

    def task(a: int, b: int) -> bool:
        return bool(_evidence(a, b, f, first, *holders, codes, target, table, A, B))

    run_in_threads(task, holders[0], first, last, width * width)
    return A, B


@njit(nogil=True, fastmath=FAST, forceinline=True)
def _solve(U, x, old, noise, relaxation):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Replace the linear term x by a draw, correlated with the old one, of a normal distribution of precision U'U."""
    for a in range(x.shape[0]):
        for b in range(a):
            x[a] -= U[b, a] * x[b]
        x[a] /= U[a, a]
    share = np.sqrt(1.0 - relaxation * relaxation)
    for a in range(x.shape[0] - 1, -1, -1):
        before = 0.0
        for b in range(a, x.shape[0]):
            before += U[a, b] * old[b]
        x[a] += relaxation * (before - x[a]) + share * noise[a]
        for b in range(a + 1, x.shape[0]):
            x[a] -= U[a, b] * x[b]
        x[a] /= U[a, a]


@njit(nogil=True, fastmath=FAST)
def _draw(first, last, start, index, value, theta, nu, lam, group, offset, A, B, table, noise, relaxation):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    width = theta.shape[1]
    P, none, draw = np.empty((width, width)), np.zeros((width, width)), np.empty(width)
    for k in range(first, last):
        if start[k] == start[k + 1]:
            continue
        g = group[k]
        P[:, :] = 0.0
        for a in range(width):  # assignments of arrays would compile for seconds
            P[a, a], draw[a] = lam[g, a], lam[g, a] * nu[g, a]
        for e in range(start[k], start[k + 1]):
            p = index[e]
            _remove(table[p], theta[k], value[e])
            add_evidence(table[p], none, A[p - offset], B[p - offset], value[e], P, draw)
        if not factor_upper(P):
            return False
        _solve(P, draw, theta[k], noise[k], relaxation)
        for a in range(width):
            theta[k, a] = draw[a]
        for e in range(start[k], start[k + 1]):
            _add(table[index[e]], theta[k], value[e])
    return True


def draw_features(
    columns: Compressed,
    ranges: IntArray,
    offset: int,
    theta: Array,
    prior: tuple[Array, Array, IntArray],
    evidence: tuple[Array, Array],
    table: Array,
    noise: Array,
    relaxation: float,
) -> bool:
    """Draw the features of a field one after the other given the rest, weight and factors together; return success.

    `relaxation` is the correlation of a draw with the one before it given the rest: -1 to 1, 0 for independent draws.
    `theta` and the field's rows of `table` change; `columns` holds the field's patterns by feature, numbered from
    `offset` in `table`.
    """
    shifted = columns._replace(indices=columns.indices + offset)

    def task(a: int, b: int) -> bool:
        return bool(_draw(a, b, *shifted, theta, *prior, offset, *evidence, table, noise, relaxation))

    width = theta.shape[1]
    ends_of = pairwise(ranges.tolist()) if numba.get_num_threads() > 1 else [(0, columns.start.shape[0] - 1)]
    return all(run_in_threads(task, columns.start, a, b, 4 * width * width) for a, b in ends_of)
