"""Gibbs updates of the factors in max-margin matrix factorization, row by row (docs/maths section 8).

The augmenting variables lambda are drawn for one row at a time and not stored: the state of the chain is factors and
thresholds. Each row has its own random stream, so the bits are the same for any number of threads and any order of the
rows. U are the factors of the rows that are drawn, V those of the other side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np

from skpref._compiled.jit import njit, run_tasks
from skpref._compiled.streams import ZIGGURAT, inverse_gaussian_of, normal, open_stream, uniform
from skpref._compiled.tiles import add_gram, factor, padded, solve_factored

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray

_TASKS = 64  # portions of equal work for the threads
_BLOCK = 128  # ratings gathered at once; with 100 factors they fit into the second-level cache
# Products (about 8 ms) below which threads cost more than they save: 60 tasks in a pool cost 2 to 4 ms.
_SMALL = 1 << 26
_HEAVY = 1e3  # ratings of larger weight are added in double precision, even for float32
FAST = {"contract", "reassoc", "nsz"}  # flags for sums over ratings and factors


class Portions(NamedTuple):
    """Rows split into portions of about equal work."""

    order: IntArray  # (n_rows,): the rows, portion after portion
    cut: IntArray  # (n_portions + 1,): where each portion begins
    longest: int  # ratings of a row, at most


class Rows(NamedTuple):
    """Ratings of one side in CSR form."""

    start: IntArray
    column: NDArray[np.int32]
    level: NDArray[np.int16]
    cost: Array  # C times the weight of each rating; one number if all are equal
    portions: Portions


class Thresholds(NamedTuple):
    """Thresholds, and the side of the ratings whose entities own them."""

    value: Array  # (n, L - 1)
    owner: str  # "row", "column" or "all"


class Model(NamedTuple):
    """Constants of the chain."""

    margin: float
    precision: float  # 1 / sigma^2
    dtype: Any  # of the sums over ratings; matrices are always factored in float64
    mean: Array | None = None  # (K,): prior mean of the rows; None: 0


class StreamName(NamedTuple):
    """Name of the random streams of an update; each row adds its number."""

    seed: int
    sweep: int
    block: int
    first: int = 0  # number of the first row, where the rows are a part of all


class Sums(NamedTuple):
    """Conditional of the thresholds given the ratings, without the prior, and the scores of all ratings."""

    precision: Array  # (n_rows, L - 1)
    linear: Array  # (n_rows, L - 1): precision times mean
    score: Array  # (n_ratings,)


def portions(start: IntArray, width: int) -> Portions:
    """Split rows into portions of about equal work."""
    length = np.diff(start).astype(np.float64)
    narrow = np.minimum(length, width)
    work = length * narrow * max(width, 1) / 2.0 + narrow**3 / 6.0 + 50.0 * length
    heaviest = np.argsort(-work, kind="stable")
    n_portions = max(1, min(_TASKS, length.size))
    position = np.arange(length.size) % (2 * n_portions)
    portion = np.where(position < n_portions, position, 2 * n_portions - 1 - position)  # forwards, then backwards
    order = heaviest[np.argsort(portion, kind="stable")]
    cut = np.concatenate([[0], np.cumsum(np.bincount(portion, minlength=n_portions))])
    return Portions(order.astype(np.int64), cut.astype(np.int64), int(length.max(initial=0.0)))


@njit(fastmath=FAST, forceinline=True)
def _row_scores(rows, row, U, V, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put the scores of a row's ratings into x."""
    start, column = rows[0], rows[1]
    first = start[row]
    for e in range(start[row + 1] - first):
        j = column[first + e]
        total = 0.0
        for k in range(U.shape[1]):
            total += U[row, k] * V[j, k]
        x[e] = total


@njit(fastmath=FAST, forceinline=True)
def augment(rows, row, x, theta, owner, margin, counter, step, ziggurat, q, weight, pull, normals):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw 1/lambda of a row's ratings, and sum the precision and linear term of each score.

    Separate loops, so that all but the ziggurat runs on vectors; `q` changes from |Delta| to C^2/(4 lambda).
    """
    start, column, level, cost = rows[:4]
    first, n, n_thresholds = start[row], start[row + 1] - start[row], theta.shape[1]
    for e in range(n):
        j = column[first + e]
        t = 0 if owner == 0 else (row if owner == 1 else j)
        half = 0.5 * (cost[first + e] if cost.shape[0] > 1 else cost[0])
        for r in range(n_thresholds):
            sign = 1.0 if r >= level[first + e] else -1.0
            q[e * n_thresholds + r] = abs(half * (margin - sign * (theta[t, r] - x[e])))
    for i in range(n * n_thresholds):
        normals[i], counter = normal(counter, step, ziggurat)
    for i in range(n * n_thresholds):
        u, _ = uniform(counter + np.uint64(i) * step, step)
        q[i] = inverse_gaussian_of(q[i], normals[i], u)
    counter += np.uint64(n * n_thresholds) * step
    for e in range(n):
        j = column[first + e]
        t = 0 if owner == 0 else (row if owner == 1 else j)
        half = 0.5 * (cost[first + e] if cost.shape[0] > 1 else cost[0])
        w, h = 0.0, 0.0
        for r in range(n_thresholds):
            sign = 1.0 if r >= level[first + e] else -1.0
            share = half * half * q[e * n_thresholds + r]
            q[e * n_thresholds + r] = share
            w += share
            h -= half * sign + share * (sign * margin - theta[t, r])
        weight[e], pull[e] = w, h
    return counter


@njit(fastmath=FAST, forceinline=True)
def _fill_primal(A, P, column, first, n, weight, pull, V, precision, mean):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put the precision matrix of a row with many ratings into P, and the linear term into the row after it.

    Both are parts of one Gram matrix, that of the columns (sqrt(w_e) v_e, h_e / sqrt(w_e)).
    """
    (width, linear_row), single = (V.shape[1], P.shape[1]), A.itemsize < 8
    P[:] = 0.0
    filled = 0
    for e in range(n):
        j, w, h = column[first + e], weight[e], pull[e]
        if single and w > _HEAVY:
            for a in range(width):
                for b in range(a + 1):
                    P[a, b] += w * V[j, a] * V[j, b]
                P[linear_row, a] += h * V[j, a]
            continue
        root = np.sqrt(w)
        for k in range(width):
            A[k, filled] = root * V[j, k]
        A[linear_row, filled] = h / root if root > 0.0 else 0.0
        filled += 1
        if filled == _BLOCK:
            add_gram(P, A, filled)
            filled = 0
    add_gram(P, A, filled)
    for a in range(width):
        P[a, a] += precision
        P[linear_row, a] += precision * mean[a]


@njit(fastmath=FAST, forceinline=True)
def _fill_dual(B, P, column, first, n, weight, pull, V, sigma, noise, residual):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put I + B B^T of a row with few ratings into P, and the right-hand side into the row after it.

    B has the rows sigma sqrt(w_e) v_e. With z ~ N(mean / sigma, I), d ~ N(0, I) and a_e = h_e / sqrt(w_e), the row
    sigma (z + B^T (I + B B^T)^-1 (a - B z - d)) has the conditional distribution (Bhattacharya et al., 2016).
    """
    P[:] = 0.0
    B[n:] = 0
    for e in range(n):
        j, root = column[first + e], np.sqrt(weight[e])
        total = (pull[e] / root if root > 0.0 else 0.0) - residual[e]
        for k in range(V.shape[1]):
            B[e, k] = sigma * root * V[j, k]
            total -= B[e, k] * noise[k]
        P[e, e] = 1.0
        P[P.shape[1], e] = total
    add_gram(P[: P.shape[1]], B, V.shape[1])


@njit(fastmath=FAST, forceinline=True)
def _draw_many(rows, row, V, prior, work, U):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    start, column = rows[0], rows[1]
    precision, mean = prior
    A, _, P_flat, weight, pull, noise, _, solved = work
    width, linear_row = V.shape[1], A.shape[0] - 3
    P = P_flat[: (linear_row + 3) * linear_row].reshape(linear_row + 3, linear_row)
    _fill_primal(A, P, column, start[row], start[row + 1] - start[row], weight, pull, V, precision, mean)
    if not factor(P, width):
        return False
    for k in range(width):
        solved[k] = P[linear_row, k] + noise[k]
    solve_factored(P, width, solved)
    for k in range(width):
        U[row, k] = solved[k]
    return True


@njit(fastmath=FAST, forceinline=True)
def _draw_few(rows, row, V, prior, work, U):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    start, column = rows[0], rows[1]
    precision, mean = prior
    _, B, P_flat, weight, pull, noise, residual, solved = work
    width, n, sigma = V.shape[1], start[row + 1] - start[row], 1.0 / np.sqrt(precision)
    for k in range(width):
        noise[k] += mean[k] / sigma
    linear_row = padded(n)
    P = P_flat[: (linear_row + 3) * linear_row].reshape(linear_row + 3, linear_row)
    _fill_dual(B[:linear_row], P, column, start[row], n, weight, pull, V, sigma, noise, residual)
    if not factor(P, n):
        return False
    for e in range(n):
        solved[e] = P[linear_row, e]
    solve_factored(P, n, solved)
    for k in range(width):
        U[row, k] = sigma * noise[k]
    for e in range(n):
        share = sigma * solved[e]
        for k in range(width):
            U[row, k] += share * B[e, k]
    return True


@njit(fastmath=FAST, forceinline=True)
def threshold_sums(rows, row, x, margin, q, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Store the new scores of a row's ratings, and sum the conditional of its thresholds."""
    start, _, level, cost = rows[:4]
    precision, linear, score = out
    precision[row] = 0.0
    linear[row] = 0.0
    for e in range(start[row + 1] - start[row]):
        place = start[row] + e
        score[place] = x[e]
        half = 0.5 * (cost[place] if cost.shape[0] > 1 else cost[0])
        for r in range(precision.shape[1]):
            sign = 1.0 if r >= level[place] else -1.0
            share = q[e * precision.shape[1] + r]
            precision[row, r] += share
            linear[row, r] += half * sign + share * (sign * margin + x[e])


@njit(nogil=True, fastmath=FAST)
def _draw_portion(task, rows, U, V, theta, owner, margin, prior, name, ziggurat, dtype_like, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw the rows of one portion; return whether all matrices were positive definite."""
    start, order, cut, longest = rows[0], rows[4], rows[5], rows[6]
    seed, sweep, block, first_row = name
    width = U.shape[1]
    few = (4 * width) // 5
    size = padded(width)
    # Columns of A are written and rows are read: rows whose length is no power of two keep both in the first cache.
    A, B = np.zeros((size + 3, _BLOCK + 8), dtype_like.dtype), np.empty((size, width), dtype_like.dtype)
    P = np.empty((size + 3) * size)
    weight, pull, x = np.empty(longest), np.empty(longest), np.empty(longest)
    q, normals = np.empty(longest * theta.shape[1]), np.empty(longest * theta.shape[1])
    noise, residual, solved = np.empty(width), np.empty(size), np.empty(size)
    for i in range(cut[task], cut[task + 1]):
        row = order[i]
        n = start[row + 1] - start[row]
        counter, step = open_stream(seed, sweep, block, first_row + row)
        _row_scores(rows, row, U, V, x)
        counter = augment(rows, row, x, theta, owner, margin, counter, step, ziggurat, q, weight, pull, normals)
        for k in range(width):
            noise[k], counter = normal(counter, step, ziggurat)
        work = A, B, P, weight, pull, noise, residual, solved
        if n > few:
            succeeded = _draw_many(rows, row, V, prior, work, U)
        else:
            for e in range(n):
                residual[e], counter = normal(counter, step, ziggurat)
            succeeded = _draw_few(rows, row, V, prior, work, U)
        if not succeeded:
            return False
        if out[0].shape[0] > 0:
            _row_scores(rows, row, U, V, x)
            threshold_sums(rows, row, x, margin, q, out)
    return True


def run_portions(task: Callable[[int], bool], n_tasks: int, work: int) -> bool:
    """Run tasks in as many threads as numba may use; return whether all succeeded."""
    return all(run_tasks(task, n_tasks, numba.get_num_threads() if work >= _SMALL else 1))


def draw_rows(
    rows: Rows,
    U: Array,
    V: Array,
    thresholds: Thresholds,
    model: Model,
    name: StreamName,
    *,
    with_sums: bool = False,
) -> tuple[bool, Sums]:
    """Draw the factors U of all rows given the other side, in place: each row's lambda, then its factors."""
    (n_rows, width), n_thresholds = U.shape, thresholds.value.shape[1]
    shape = (n_rows if with_sums else 0, n_thresholds)
    sums = Sums(np.empty(shape), np.empty(shape), np.empty(rows.column.size if with_sums else 0))
    csr = (rows.start, rows.column, rows.level, rows.cost, *rows.portions)
    owner = {"all": 0, "row": 1, "column": 2}[thresholds.owner]
    stream = (np.uint64(name.seed), np.int64(name.sweep), np.int64(name.block), np.int64(name.first))
    mean = np.zeros(width) if model.mean is None else np.ascontiguousarray(model.mean)
    margin, prior, dtype_like = float(model.margin), (float(model.precision), mean), np.empty(0, model.dtype)

    def portion(task: int) -> bool:
        arguments = csr, U, V, thresholds.value, owner, margin, prior, stream, ZIGGURAT, dtype_like, tuple(sums)
        return bool(_draw_portion(task, *arguments))

    return run_portions(portion, rows.portions.cut.size - 1, rows.column.size * width * width), sums


@njit(nogil=True, fastmath=FAST)
def _score_rows(first, last, start, column, U, V, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for row in range(first, last):
        for e in range(start[row], start[row + 1]):
            x = 0.0
            for k in range(U.shape[1]):
                x += U[row, k] * V[column[e], k]
            out[e] = x
    return True


def scores(rows: Rows, U: Array, V: Array) -> Array:
    """Return x_ij of every rating, shape (n_ratings,)."""
    out, n = np.empty(rows.column.size), rows.start.size - 1
    # Parts with about equal numbers of ratings.
    cut = np.searchsorted(rows.start, np.linspace(0, rows.column.size, _TASKS + 1)[1:-1])
    cut = np.concatenate([[0], cut, [n]])

    def part(task: int) -> bool:
        return bool(_score_rows(cut[task], cut[task + 1], rows.start, rows.column, U, V, out))

    run_portions(part, _TASKS, out.size * U.shape[1])
    return out


@njit(fastmath={"contract", "nsz"})
def _row_losses(start, level, cost, score, theta, margin, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for row in range(out.shape[0]):
        t = row if theta.shape[0] > 1 else 0
        total = 0.0
        for e in range(start[row], start[row + 1]):
            loss = 0.0
            for r in range(theta.shape[1]):
                sign = 1.0 if r >= level[e] else -1.0
                gap = margin - sign * (theta[t, r] - score[e])
                loss += gap if gap > 0.0 else 0.0
            total += loss * (cost[e] if cost.shape[0] > 1 else cost[0])
        out[row] = total


def hinge_losses(rows: Rows, score: Array, theta: Array, margin: float) -> Array:
    """Return C times the hinge loss of each row's ratings, shape (n_rows,)."""
    out = np.empty(rows.start.size - 1)
    _row_losses(rows.start, rows.level, rows.cost, score, theta, float(margin), out)
    return out
