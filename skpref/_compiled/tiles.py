"""Gram matrices and Cholesky factors of width 10 to 500, by inner products of three rows with three at a time.

BLAS is slow at this size (its Cholesky factor of width 100 runs at a tenth of the processor's peak), and its threads
and bits are the environment's. Nine inner products at a time stay in registers, whatever the processor: the compiler
makes vectors of them as it does of any sum. Loops are serial and sum in a fixed order. Vector code laid out by hand was
up to 1.8 times as fast at a Gram matrix, but a sweep of `GibbsM3F` gained a tenth by it and one of `GibbsIPM3F` lost.
"""

from __future__ import annotations

import numpy as np

from skpref._compiled.jit import njit

_FAST = {"contract", "reassoc", "nsz"}


@njit()
def padded(n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return how many rows a matrix of n rows takes."""
    return -(-n // 3) * 3


@njit(fastmath=_FAST, forceinline=True)
def _add_products(P, i, j, A, n, sign):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """P[i : i + 3, j : j + 3] += sign A[i : i + 3, :n] A[j : j + 3, :n]^T."""
    x0, x1, x2, y0, y1, y2 = A[i, :n], A[i + 1, :n], A[i + 2, :n], A[j, :n], A[j + 1, :n], A[j + 2, :n]
    a0 = a1 = a2 = b0 = b1 = b2 = c0 = c1 = c2 = A.dtype.type(0)
    for e in range(n):
        a0 += x0[e] * y0[e]
        a1 += x0[e] * y1[e]
        a2 += x0[e] * y2[e]
        b0 += x1[e] * y0[e]
        b1 += x1[e] * y1[e]
        b2 += x1[e] * y2[e]
        c0 += x2[e] * y0[e]
        c1 += x2[e] * y1[e]
        c2 += x2[e] * y2[e]
    row = P[i, j:]
    row[0], row[1], row[2] = row[0] + sign * a0, row[1] + sign * a1, row[2] + sign * a2
    row = P[i + 1, j:]
    row[0], row[1], row[2] = row[0] + sign * b0, row[1] + sign * b1, row[2] + sign * b2
    row = P[i + 2, j:]
    row[0], row[1], row[2] = row[0] + sign * c0, row[1] + sign * c1, row[2] + sign * c2


@njit(fastmath=_FAST, forceinline=True)
def add_gram(P, A, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the inner products of some rows to the lower triangle of P."""
    for j in range(0, P.shape[1], 3):
        for i in range(j, A.shape[0], 3):
            _add_products(P, i, j, A, n, 1.0)


@njit(fastmath=_FAST, forceinline=True)
def factor(P, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put L with L L^T = P into the lower triangle of P, and B L^-T into the rows B behind it."""
    rows, width = P.shape
    for p in range(n, width):
        P[p] = 0.0
        P[p, p] = 1.0
    for j in range(0, width, 3):
        for i in range(j, rows, 3):
            _add_products(P, i, j, P, j, -1.0)
        for p in range(j, j + 3):
            for q in range(j, p):
                for k in range(j, q):
                    P[p, q] -= P[p, k] * P[q, k]
                P[p, q] /= P[q, q]
                P[p, p] -= P[p, q] * P[p, q]
            if not 0.0 < P[p, p] < np.inf:
                return False
            P[p, p] = np.sqrt(P[p, p])
        s0, s1, s2 = 1.0 / P[j, j], 1.0 / P[j + 1, j + 1], 1.0 / P[j + 2, j + 2]
        l10, l20, l21 = P[j + 1, j], P[j + 2, j], P[j + 2, j + 1]
        for i in range(j + 3, rows):
            row = P[i, j:]
            a = row[0] * s0
            b = (row[1] - a * l10) * s1
            row[0], row[1], row[2] = a, b, (row[2] - a * l20 - b * l21) * s2
    return True


@njit(fastmath=_FAST, forceinline=True)
def solve_factored(L, n, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Solve L^T x = b in place."""
    for p in range(n - 1, -1, -1):
        row = L[p]
        share = x[p] / row[p]
        x[p] = share
        for q in range(p):
            x[q] -= share * row[q]
