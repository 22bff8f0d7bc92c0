"""What the rows of a sparse matrix have in common: one-hot ranges of columns, and columns that go with their codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skpref._compiled.jit import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._compiled.fm import Lines
    from skpref._typing import IntArray


@njit(nogil=True)
def _followers(start, index, after):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(start.shape[0] - 1):
        for e in range(start[i], start[i + 1] - 1):
            after[index[e]] = min(after[index[e]], index[e + 1])


def one_hot_ranges(rows: Lines, n_columns: int) -> IntArray:
    """Cut the columns into ranges, as long as possible from the left, in which no row has two entries."""
    after = np.full(n_columns + 1, n_columns, dtype=np.int64)
    _followers(rows.start, rows.at, after)
    # The first column that follows one of a range that begins at k.
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


def codes_of(rows: Lines, first: int, last: int) -> NDArray[np.int32]:
    """Number the columns of a one-hot range that rows have, and tell the number of each row, shape (n,)."""
    code = np.empty(rows.start.shape[0] - 1, dtype=np.int32)
    _codes(rows.start, rows.at, first, last, code)
    number = np.cumsum(np.bincount(code) > 0, dtype=np.int32) - np.int32(1)
    return np.asarray(number[code])


@njit(nogil=True)
def _compare(start, index, value, code, example, size, found, wanted, matched):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(start.shape[0] - 1):
        r = example[code[i]]
        o = start[r]
        for e in range(start[i], start[i + 1]):
            k = index[e]
            found[k] += 1
            while o < start[r + 1] and index[o] < k:
                o += 1
            if o < start[r + 1] and index[o] == k and value[o] == value[e]:
                matched[k] += 1
    for c in range(example.shape[0]):
        for e in range(start[example[c]], start[example[c] + 1]):
            wanted[index[e]] += size[c]


def told_by(rows: Lines, code: NDArray[np.int32], n_columns: int) -> tuple[NDArray[np.bool_], IntArray]:
    """Return the columns whose values a code tells: rows with the same code have the same there."""
    size = np.bincount(code)
    example = np.empty(size.size, dtype=np.int64)
    example[code[::-1]] = np.arange(code.size)[::-1]
    found, wanted, matched = np.zeros((3, n_columns), dtype=np.int64)
    _compare(*rows, code, example, size, found, wanted, matched)
    return (found == matched) & (found == wanted), example
