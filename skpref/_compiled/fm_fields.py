"""Structure of a sparse matrix: one-hot ranges of columns, and columns that a range determines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skpref._compiled.jit import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._compiled.fm import Compressed
    from skpref._typing import IntArray


@njit(nogil=True)
def _next_columns(start, index, after):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(start.shape[0] - 1):
        for e in range(start[i], start[i + 1] - 1):
            after[index[e]] = min(after[index[e]], index[e + 1])


def one_hot_ranges(rows: Compressed, n_columns: int) -> IntArray:
    """Cut the columns into ranges, as long as possible from the left, in which no row has two entries."""
    after = np.full(n_columns + 1, n_columns, dtype=np.int64)
    # The loop is compiled for one width of integers: patterns, which are few, are copied to that of the columns of X.
    _next_columns(rows.start.astype(np.int64, copy=False), rows.indices.astype(np.int32, copy=False), after)
    # The first column that follows an entry in a column from k on.
    after = np.minimum.accumulate(after[::-1])[::-1]
    bounds = [0]
    while bounds[-1] < n_columns:
        bounds.append(int(after[bounds[-1]]))
    return np.array(bounds)


@njit(nogil=True)
def _codes(start, index, first, last, code):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(start.shape[0] - 1):
        code[i] = 0
        for e in range(start[i], start[i + 1]):
            if first <= index[e] < last:
                code[i] = index[e] - first + 1


def codes_of(rows: Compressed, first: int, last: int) -> NDArray[np.int32]:
    """Return the number of each row's column in a one-hot range, counting only columns with entries, shape (n,)."""
    code = np.empty(rows.start.shape[0] - 1, dtype=np.int32)
    _codes(rows.start, rows.indices, first, last, code)
    number = np.cumsum(np.bincount(code) > 0, dtype=np.int32) - np.int32(1)
    return np.asarray(number[code])


@njit(nogil=True)
def _count_equal(start, index, value, code, example, size, n_entries, n_expected, n_equal):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(start.shape[0] - 1):
        r = example[code[i]]
        o = start[r]
        for e in range(start[i], start[i + 1]):
            k = index[e]
            n_entries[k] += 1
            while o < start[r + 1] and index[o] < k:
                o += 1
            if o < start[r + 1] and index[o] == k and value[o] == value[e]:
                n_equal[k] += 1
    for c in range(example.shape[0]):
        for e in range(start[example[c]], start[example[c] + 1]):
            n_expected[index[e]] += size[c]


def determined_columns(rows: Compressed, code: NDArray[np.int32], n_columns: int) -> tuple[NDArray[np.bool_], IntArray]:
    """Return which columns are equal in all rows with the same code, and one example row of each code."""
    size = np.bincount(code)
    example = np.empty(size.size, dtype=np.int64)
    example[code[::-1]] = np.arange(code.size)[::-1]
    n_entries, n_expected, n_equal = np.zeros((3, n_columns), dtype=np.int64)
    _count_equal(*rows, code, example, size, n_entries, n_expected, n_equal)
    return (n_entries == n_equal) & (n_entries == n_expected), example
