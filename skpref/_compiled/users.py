"""Loops over the entries of the matrices of many users: covariances of differences of items, and their sums by item.

A coordinate of a user is the row e_first - e_second of the items, where the item after the last one stands for none.
"""

from __future__ import annotations

import numpy as np

from skpref._compiled.jit import njit


@njit()
def difference_covariances(S, first, second, paired):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return covariances of coordinates (m, n), shape (m, n, n), from S of the items, zero for none."""
    m, n = first.shape
    out = np.empty((m, n, n))
    for u in range(m):
        for x in range(n):
            i, j = first[u, x], second[u, x]
            for y in range(x + 1):
                k, l = first[u, y], second[u, y]
                value = S[i, k]
                if paired:
                    value += S[j, l] - S[j, k] - S[i, l]
                out[u, x, y] = value
                out[u, y, x] = value
    return out


@njit()
def add_by_item(M, first, second, paired, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the sums of A^T M A over users to a matrix of the items and none; M has shape (m, n, n)."""
    m, n = first.shape
    for u in range(m):
        for x in range(n):
            i, j = first[u, x], second[u, x]
            for y in range(n):
                k, l, value = first[u, y], second[u, y], M[u, x, y]
                out[i, k] += value
                if paired:
                    out[j, l] += value
                    out[j, k] -= value
                    out[i, l] -= value


@njit()
def add_products(owner, left, right, by, weight, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add weight by by^T of comparisons (q, c) to the matrices (m, n, r) of their owners, at left (q, c) and right."""
    q, c = by.shape
    for k in range(q):
        u = owner[k]
        for i in range(c):
            x, value = left[k, i], by[k, i]
            for j in range(c):
                out[u, x, right[k, j]] += value * by[k, j] * weight[k]  # symmetric to the last bit


@njit()
def quadratic_forms(owner, left, right, by, C):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return by^T C by of comparisons (q, c), from the matrices (m, n, r) of their owners at left (q, c) and right."""
    q, c = by.shape
    out = np.empty(q)
    for k in range(q):
        u, total = owner[k], 0.0
        for i in range(c):
            x, value = left[k, i], 0.0
            for j in range(c):
                value += by[k, j] * C[u, x, right[k, j]]
            total += by[k, i] * value
        out[k] = total
    return out
