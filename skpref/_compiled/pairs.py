"""Loops over comparisons: sums and differences of the rows of a table of items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skpref._compiled.jit import njit, run_parts

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray

_SMALL = 1 << 21  # element operations (about 1 ms) below which waking threads costs more than it saves


def incidence(item: IntArray, other: IntArray, n_items: int) -> tuple[IntArray, IntArray, IntArray]:
    """List, for every item, its entries and the items it met there (the graph in CSR form)."""
    order = np.argsort(item, kind="stable")
    indptr = np.zeros(n_items + 1, dtype=np.int64)
    np.cumsum(np.bincount(item, minlength=n_items), out=indptr[1:])
    return indptr, order, other[order]


@njit(nogil=True)
def _laplacian_rows(indptr, pair, neighbour, weight, own, rows, first, last, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    total = np.empty(rows.shape[1])  # near, where a row of `out` may share its cache lines with other rows
    for i in range(first, last):
        total[:] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            w = weight[pair[e]]
            row = rows[neighbour[e]]
            for c in range(total.size):
                total[c] -= w * row[c]
        for c in range(total.size):
            out[i, c] = total[c] + own[i] * rows[i, c]


@njit(fastmath={"reassoc", "contract", "nsz"}, nogil=True)
def _squared_rows(rows, left, right, shift, first, last, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for p in range(first, last):
        a = left[p]
        b = right[p]
        total = 0.0
        for c in range(rows.shape[1]):
            d = rows[a, c] - rows[b, c] + shift[c]
            total += d * d
        out[p] = total


@njit()
def _row_differences(rows, left, right, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for p in range(left.shape[0]):
        a = left[p]
        b = right[p]
        for c in range(rows.shape[1]):
            out[p, c] = rows[a, c] - rows[b, c]


def row_differences(rows: Array, left: IntArray, right: IntArray, out: Array) -> None:
    """Write rows[left_p] - rows[right_p] into the first columns of row p of `out`."""
    _row_differences(np.ascontiguousarray(rows), left, right, out)


def laplacian_product(
    indptr: IntArray, pair: IntArray, neighbour: IntArray, weight: Array, own: Array, rows: Array
) -> Array:
    """Return diag(own) rows less the weighted rows that each item met, shape (N, n).

    With all comparisons listed from both sides and the items' total weights it is D^T diag(weight) D rows.
    """
    n_items, width = rows.shape
    out = np.empty((n_items, width))
    weight, own, rows = (np.ascontiguousarray(a) for a in (weight, own, rows))
    arguments = indptr, pair, neighbour, weight, own, rows
    large = pair.size * width >= _SMALL
    run_parts(lambda a, b: _laplacian_rows(*arguments, a, b, out), n_items, large=large)
    return out


def squared_differences(rows: Array, left: IntArray, right: IntArray, shift: Array | None = None) -> Array:
    """Return |rows[left_p] - rows[right_p] + shift|^2 for every comparison p, shape (P,)."""
    out = np.empty(left.shape[0])
    zero = np.zeros(rows.shape[1]) if shift is None else np.ascontiguousarray(shift)
    arguments = np.ascontiguousarray(rows), left, right, zero
    large = left.shape[0] * rows.shape[1] >= _SMALL
    run_parts(lambda a, b: _squared_rows(*arguments, a, b, out), out.shape[0], large=large)
    return out
