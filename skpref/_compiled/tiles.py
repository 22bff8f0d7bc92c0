"""Gram matrices and Cholesky factors of width 10 to 500, by inner products of two rows with four at a time.

BLAS is slow at this size (its Cholesky factor of width 100 runs at a tenth of the processor's peak), and its threads and
bits are the environment's. Eight inner products at a time stay in registers, whatever the processor: the compiler makes
vectors of them as it does of any sum. Loops are serial and sum in a fixed order.
"""

from __future__ import annotations

import numpy as np

from skpref._compiled._jit import njit

_HEIGHT = 4
_FAST = {"contract", "reassoc", "nsz"}


@njit()
def padded(n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return how many rows a matrix of n rows takes.

    Parameters
    ----------
    n : int
        Number wanted.

    Returns
    -------
    int
        The next multiple of a tile's height.
    """
    return -(-n // _HEIGHT) * _HEIGHT


@njit(fastmath=_FAST)
def _add_products(P, i, j, A, n, sign):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """P[i : i + 2, j : j + 4] += sign A[i : i + 2, :n] A[j : j + 4, :n]^T."""
    zero = A.dtype.type(0)
    p0 = p1 = p2 = p3 = q0 = q1 = q2 = q3 = zero
    p, q, r0, r1, r2, r3 = A[i], A[i + 1], A[j], A[j + 1], A[j + 2], A[j + 3]
    for e in range(n):
        a, b, c0, c1, c2, c3 = p[e], q[e], r0[e], r1[e], r2[e], r3[e]
        p0 += a * c0
        p1 += a * c1
        p2 += a * c2
        p3 += a * c3
        q0 += b * c0
        q1 += b * c1
        q2 += b * c2
        q3 += b * c3
    above, below = P[i], P[i + 1]
    above[j] += sign * p0
    above[j + 1] += sign * p1
    above[j + 2] += sign * p2
    above[j + 3] += sign * p3
    below[j] += sign * q0
    below[j + 1] += sign * q1
    below[j + 2] += sign * q2
    below[j + 3] += sign * q3


@njit(fastmath=_FAST)
def add_gram(P, A, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the inner products of some rows to the lower triangle of P.

    Parameters
    ----------
    P : ndarray of shape (m, width)
        Changed; m is even, `width` from `padded`. Above the diagonal it holds anything afterwards.
    A : ndarray of shape (at least m, at least n)
        Rows, of which the first `width` are the columns of P.
    n : int
        Length of the products.
    """
    for j in range(0, P.shape[1], _HEIGHT):
        for i in range(j, P.shape[0], 2):
            _add_products(P, i, j, A, n, 1.0)


@njit(fastmath=_FAST)
def factor(P, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put L with L L^T = P into the lower triangle of P, and B L^-T into the rows B behind it.

    Parameters
    ----------
    P : ndarray of shape (m, padded(n))
        The lower triangle of its first `n` rows is the matrix, the rows from `padded(n)` on are B; m is even. Changed.
    n : int
        Rows of the matrix.

    Returns
    -------
    bool
        Whether all pivots were positive and finite.
    """
    width = P.shape[1]
    for p in range(n, width):
        P[p] = 0.0
        P[p, p] = 1.0
    for j in range(0, width, _HEIGHT):
        for i in range(j, P.shape[0], 2):
            _add_products(P, i, j, P, j, -1.0)
        for p in range(j, j + _HEIGHT):
            for q in range(j, p + 1):
                total = P[p, q]
                for k in range(j, q):
                    total -= P[p, k] * P[q, k]
                if q == p:
                    if not 0.0 < total < np.inf:
                        return False
                    P[p, p] = np.sqrt(total)
                else:
                    P[p, q] = total / P[q, q]
        s0, s1, s2, s3 = 1.0 / P[j, j], 1.0 / P[j + 1, j + 1], 1.0 / P[j + 2, j + 2], 1.0 / P[j + 3, j + 3]
        l10, l20, l21 = P[j + 1, j], P[j + 2, j], P[j + 2, j + 1]
        l30, l31, l32 = P[j + 3, j], P[j + 3, j + 1], P[j + 3, j + 2]
        for i in range(j + _HEIGHT, P.shape[0]):
            row = P[i]
            a = row[j] * s0
            b = (row[j + 1] - a * l10) * s1
            c = (row[j + 2] - a * l20 - b * l21) * s2
            row[j], row[j + 1], row[j + 2] = a, b, c
            row[j + 3] = (row[j + 3] - a * l30 - b * l31 - c * l32) * s3
    return True


@njit(fastmath=_FAST)
def solve_factored(L, n, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Solve L^T x = b in place.

    Parameters
    ----------
    L : ndarray of shape (at least n, at least n)
        From `factor`.
    n : int
        Rows of the matrix.
    x : ndarray of shape (at least n,)
        b, then the solution.
    """
    for p in range(n - 1, -1, -1):
        row = L[p]
        share = x[p] / row[p]
        x[p] = share
        for q in range(p):
            x[q] -= share * row[q]
