"""Gram matrices and Cholesky factors of width 10 to 500, in tiles that stay in the processor's registers.

BLAS is slow at this size (a Cholesky factor at width 100 runs at a twentieth of the peak) and its threads and bits are
the environment's. Here a tile of 4 rows by up to 4 vector registers is summed over all terms before it is written. Both
loops are serial and sum in a fixed order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from skpref._compiled._jit import njit

_BYTES = 64  # of a vector; processors with shorter ones split it
_HEIGHT = 4
_CONTRACT = ("contract",)  # may fuse products with sums


def _tile_of(n_vectors: int) -> Any:  # noqa: ANN401 - numba's own kind of function
    """Make the function C[i, :] += s sum_e A[e, a + i] A[e, b:] for i < 4 and `n_vectors` vectors of columns."""

    @intrinsic
    def tile(typingctx, C, c, ldc, A, a, b, lda, n, s):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
        signature = types.void(C, *(types.int64,) * 2, A, *(types.int64,) * 4, C.dtype)
        return signature, _emitter(n_vectors)

    return tile


def _emitter(n_vectors: int) -> Any:  # noqa: ANN401
    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        scalar = context.get_value_type(signature.args[0].dtype)
        size = 8 if isinstance(scalar, ir.DoubleType) else 4
        lanes = _BYTES // size
        vector = ir.VectorType(scalar, lanes)
        into, rows = (context.make_array(signature.args[k])(context, builder, args[k]).data for k in (0, 3))
        _, c, ldc, _, a, b, lda, n, s = args

        def integer(k):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return ir.Constant(ir.IntType(64), k)

        def splat(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            undefined, zero = ir.Constant(vector, ir.Undefined), ir.IntType(32)
            first = builder.insert_element(undefined, x, zero(0))
            return builder.shuffle_vector(first, undefined, ir.VectorType(zero, lanes)([0] * lanes))

        def place(base, offset, v):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return builder.bitcast(builder.gep(base, [builder.add(offset, integer(v * lanes))]), vector.as_pointer())

        def plus_product(x, y, z):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            return builder.fadd(builder.fmul(x, y, flags=_CONTRACT), z, flags=_CONTRACT)

        # Slots of the stack, which LLVM turns into registers.
        nought = ir.Constant(vector, None)
        sums = [[cgutils.alloca_once_value(builder, nought) for _ in range(n_vectors)] for _ in range(_HEIGHT)]
        with cgutils.for_range(builder, n) as loop:
            row = builder.mul(loop.index, lda)
            column, first = builder.add(row, b), builder.add(row, a)
            right = [builder.load(place(rows, column, v), align=size) for v in range(n_vectors)]
            for i in range(_HEIGHT):
                left = splat(builder.load(builder.gep(rows, [builder.add(first, integer(i))])))
                for v in range(n_vectors):
                    builder.store(plus_product(left, right[v], builder.load(sums[i][v])), sums[i][v])
        scale = splat(s)
        for i in range(_HEIGHT):
            offset = builder.add(c, builder.mul(ldc, integer(i)))
            for v in range(n_vectors):
                target = place(into, offset, v)
                total = plus_product(scale, builder.load(sums[i][v]), builder.load(target, align=size))
                builder.store(total, target, align=size)
        return context.get_dummy_value()

    return emit


_tile_1, _tile_2, _tile_3, _tile_4 = (_tile_of(n) for n in (1, 2, 3, 4))


def padded_width(width: int, dtype: Any = np.float64) -> int:  # noqa: ANN401 - anything that names a dtype
    """Return the width of rows that the tiles can work on.

    Parameters
    ----------
    width : int
        Numbers that count.
    dtype : dtype, default=float64
        Their kind.

    Returns
    -------
    int
        The next multiple of a vector's length.
    """
    lanes = _BYTES // int(np.dtype(dtype).itemsize)
    return -(-width // lanes) * lanes


@njit()
def _rows_times(C, a, A, n, s):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """C[a:a+4, b:] += s sum_{e<n} A[e, a:a+4]^T A[e, b:], from the vector in which the diagonal lies."""
    width = C.shape[1]
    lanes = 64 // C.itemsize
    b = a // lanes * lanes
    while b < width:
        left = (width - b) // lanes
        if left >= 4:
            _tile_4(C, a * width + b, width, A, a, b, A.shape[1], n, s)
            b += 4 * lanes
        elif left == 3:
            _tile_3(C, a * width + b, width, A, a, b, A.shape[1], n, s)
            b += 3 * lanes
        elif left == 2:
            _tile_2(C, a * width + b, width, A, a, b, A.shape[1], n, s)
            b += 2 * lanes
        else:
            _tile_1(C, a * width + b, width, A, a, b, A.shape[1], n, s)
            b += lanes


@njit()
def add_gram(C, A, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the Gram matrix of some rows to the upper triangle of C.

    Parameters
    ----------
    C : ndarray of shape (width, width), C-contiguous
        Changed; below the diagonal it holds anything afterwards.
    A : ndarray of shape (at least n, width), C-contiguous
        Rows; `width` comes from `padded_width`.
    n : int
        Rows to sum over.
    """
    one = C.dtype.type(1.0)
    for a in range(0, C.shape[0], 4):
        _rows_times(C, a, A, n, one)


@njit(fastmath={"contract"})
def factor(P, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put R with R^T R = P into the upper triangle of P, and solve R^T Z = B for columns B behind it.

    Parameters
    ----------
    P : ndarray of shape (width, width), C-contiguous
        The upper triangle of its first `n` rows is read; its first `n` columns are the matrix, the others B. Changed.
    n : int
        Rows of the matrix.

    Returns
    -------
    bool
        Whether all pivots were positive and finite.
    """
    width = P.shape[1]
    for a in range(0, n, 4):
        _rows_times(P, a, P, a, -1.0)
        for p in range(a, min(a + 4, n)):
            row = P[p]
            for q in range(a, p):
                above = P[q]
                share = above[p]
                for b in range(p, width):
                    row[b] -= share * above[b]
            pivot = row[p]
            if not 0.0 < pivot < np.inf:
                return False
            scale = 1.0 / np.sqrt(pivot)
            for b in range(p, width):
                row[b] *= scale
    return True


@njit(fastmath={"contract", "reassoc"})
def solve_factored(R, n, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Solve R x = b in place.

    Parameters
    ----------
    R : ndarray of shape (width, width)
        From `factor`.
    n : int
        Rows of the matrix.
    x : ndarray of shape (at least n,)
        b, then the solution.
    """
    for p in range(n - 1, -1, -1):
        row = R[p]
        total = 0.0
        for b in range(p + 1, n):
            total += row[b] * x[b]
        x[p] = (x[p] - total) / row[p]
