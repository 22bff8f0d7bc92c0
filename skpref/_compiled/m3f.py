"""Gibbs updates of the factors in max-margin matrix factorization, row by row (docs/maths section 8).

The augmenting variables lambda are drawn for some rows at a time and not stored: the state of the chain is factors and
thresholds. Each row has its own random stream, so the bits are the same for any number of threads and any order of the
rows. U are the factors of the rows that are drawn, V those of the other side.

A portion of rows goes through several compiled functions, each a loop over its rows: as one function they would take
twice as long to compile.
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

_PORTIONS = 64  # portions of at least 2 ms that the threads share
_WORK = 1 << 24  # products of such a portion
RATINGS = 1 << 14  # ratings of a portion, about, so that its arrays stay in a cache
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

    def rows_of(self, portion: int) -> IntArray:
        """Return the rows of a portion."""
        return self.order[self.cut[portion] : self.cut[portion + 1]]


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


class Augmented(NamedTuple):
    """Variables that augment the ratings of some rows, row after row."""

    share: Array  # (n_ratings (L - 1),): C^2/(4 lambda)
    weight: Array  # (n_ratings,): precision of each score
    pull: Array  # (n_ratings,): linear term of each score
    streams: NDArray[np.uint64]  # (n_rows, 2): counter and step of each row's random stream


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
    n_portions = max(1, min(int(max(min(work.sum() / _WORK, _PORTIONS), length.sum() / RATINGS)), length.size))
    position = np.arange(length.size) % (2 * n_portions)
    portion = np.where(position < n_portions, position, 2 * n_portions - 1 - position)  # forwards, then backwards
    order = heaviest[np.argsort(portion, kind="stable")]
    cut = np.concatenate([[0], np.cumsum(np.bincount(portion, minlength=n_portions))])
    return Portions(order.astype(np.int64), cut.astype(np.int64), int(length.max(initial=0.0)))


@njit(nogil=True, fastmath=FAST)
def _augment(order, start, column, level, cost, score, theta, owner, margin, name, ziggurat, normals, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw 1/lambda of the ratings of some rows, and sum the precision and linear term of each score.

    Separate loops, so that all but the ziggurat runs on vectors; `q` changes from |Delta| to C^2/(4 lambda).
    """
    share, weights, pulls, streams = out
    (seed, sweep, block, first_row), n_thresholds, at = name, theta.shape[1], 0
    for i in range(order.shape[0]):
        row = order[i]
        first, n = start[row], start[row + 1] - start[row]
        counter, step = open_stream(seed, sweep, block, first_row + row)
        q, weight, pull = share[at * n_thresholds :], weights[at:], pulls[at:]
        at += n
        for e in range(n):
            t = 0 if owner == 0 else (row if owner == 1 else column[first + e])
            half = 0.5 * (cost[first + e] if cost.shape[0] > 1 else cost[0])
            for r in range(n_thresholds):
                sign = 1.0 if r >= level[first + e] else -1.0
                q[e * n_thresholds + r] = abs(half * (margin - sign * (theta[t, r] - score[first + e])))
        for j in range(n * n_thresholds):
            normals[j], counter = normal(counter, step, ziggurat)
        for j in range(n * n_thresholds):
            u, _ = uniform(counter + np.uint64(j) * step, step)
            q[j] = inverse_gaussian_of(q[j], normals[j], u)
        streams[i, 0], streams[i, 1] = counter + np.uint64(n * n_thresholds) * step, step
        for e in range(n):
            t = 0 if owner == 0 else (row if owner == 1 else column[first + e])
            half = 0.5 * (cost[first + e] if cost.shape[0] > 1 else cost[0])
            w, h = 0.0, 0.0
            for r in range(n_thresholds):
                sign = 1.0 if r >= level[first + e] else -1.0
                q[e * n_thresholds + r] *= half * half
                w += q[e * n_thresholds + r]
                h -= half * sign + q[e * n_thresholds + r] * (sign * margin - theta[t, r])
            weight[e], pull[e] = w, h


def augment(
    rows: Rows, order: IntArray, score: Array, thresholds: Thresholds, model: Model, name: StreamName
) -> Augmented:
    """Draw the augmenting variables of some rows given the scores of their ratings."""
    n, n_thresholds = int(np.sum(rows.start[order + 1] - rows.start[order])), thresholds.value.shape[1]
    drawn = Augmented(np.empty(n * n_thresholds), np.empty(n), np.empty(n), np.empty((order.size, 2), np.uint64))
    owner = {"all": 0, "row": 1, "column": 2}[thresholds.owner]
    stream = np.uint64(name.seed), np.int64(name.sweep), np.int64(name.block), np.int64(name.first)
    normals = np.empty(rows.portions.longest * n_thresholds)
    arguments = thresholds.value, owner, float(model.margin), stream, ZIGGURAT, normals, tuple(drawn)
    _augment(order, *rows[:4], score, *arguments)
    return drawn


@njit(nogil=True, fastmath=FAST)
def _sum_thresholds(order, start, level, cost, score, margin, share, precision, linear):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    at = 0
    for row in order:
        for r in range(precision.shape[1]):
            precision[row, r], linear[row, r] = 0.0, 0.0
        for place in range(start[row], start[row + 1]):
            half = 0.5 * (cost[place] if cost.shape[0] > 1 else cost[0])
            for r in range(precision.shape[1]):
                sign = 1.0 if r >= level[place] else -1.0
                precision[row, r] += share[at]
                linear[row, r] += half * sign + share[at] * (sign * margin + score[place])
                at += 1


def sum_thresholds(rows: Rows, order: IntArray, share: Array, model: Model, sums: Sums) -> None:
    """Sum the conditional of the thresholds of some rows, given the new scores of their ratings."""
    arguments = sums.score, float(model.margin), share, sums.precision, sums.linear
    _sum_thresholds(order, rows.start, rows.level, rows.cost, *arguments)


@njit(fastmath=FAST, forceinline=True)
def _fill_primal(A, P, column, begin, weight, pull, V):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put columns for a block of a row's ratings into A, and return their number.

    The precision matrix and, in the row after it, the linear term are parts of one Gram matrix, that of the columns
    (sqrt(w_e) v_e, h_e / sqrt(w_e)).
    """
    (width, linear_row), single, filled = (V.shape[1], P.shape[1]), A.itemsize < 8, 0
    for e in range(begin, min(begin + _BLOCK, column.shape[0])):
        j, w, h = column[e], weight[e], pull[e]
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
    return filled


@njit(fastmath=FAST, forceinline=True)
def _fill_dual(B, P, column, weight, pull, V, sigma, noise):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put I and the right-hand side of a row with few ratings into P, and B with the rows sigma sqrt(w_e) v_e.

    With z ~ N(mean / sigma, I), d ~ N(0, I) and a_e = h_e / sqrt(w_e), the row
    sigma (z + B^T (I + B B^T)^-1 (a - B z - d)) has the conditional distribution (Bhattacharya et al., 2016).
    """
    width, n = V.shape[1], column.shape[0]
    B[n:] = 0
    for e in range(n):
        root = np.sqrt(weight[e])
        total = (pull[e] / root if root > 0.0 else 0.0) - noise[width + e]
        for k in range(width):
            B[e, k] = sigma * root * V[column[e], k]
            total -= B[e, k] * noise[k]
        P[e, e] = 1.0
        P[P.shape[1], e] = total


@njit(fastmath=FAST, forceinline=True)
def _fill(many, A, B, P, column, weight, pull, V, precision, mean, noise):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put the matrix of a row into P, with the right-hand side in the row after it."""
    width, n, sigma = V.shape[1], column.shape[0], 1.0 / np.sqrt(precision)
    P[:] = 0.0
    for k in range(0 if many else width):
        noise[k] += mean[k] / sigma
    for begin in range(0, n, _BLOCK if many else n + 1):
        if many:
            factors, filled = A, _fill_primal(A, P, column, begin, weight, pull, V)
        else:
            factors, filled = B, width
            _fill_dual(B, P, column, weight, pull, V, sigma, noise)
        add_gram(P, factors, filled)
    for k in range(width if many else 0):
        P[k, k] += precision
        P[P.shape[1], k] += precision * mean[k]


@njit(nogil=True, fastmath=FAST)
def _draw_rows(order, start, columns, V, augmented, precision, mean, ziggurat, dtype_like, U):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw the factors of some rows; return whether all matrices were positive definite."""
    _, weights, pulls, streams = augmented
    width, sigma, at = V.shape[1], 1.0 / np.sqrt(precision), 0
    size = padded(width)
    # Columns of A are written and rows are read: rows whose length is no power of two keep both in the first cache.
    A, B = np.zeros((size + 3, _BLOCK + 8), dtype_like.dtype), np.empty((size, width), dtype_like.dtype)
    P_flat, noise, solved = np.empty((size + 3) * size), np.empty(2 * width), np.empty(size)
    for i in range(order.shape[0]):
        row = order[i]
        first, last = start[row], start[row + 1]
        n = last - first
        column, weight, pull = columns[first:last], weights[at : at + n], pulls[at : at + n]
        at += n
        many = n > (4 * width) // 5
        m = width if many else n
        counter, step = streams[i, 0], streams[i, 1]
        for k in range(width if many else width + n):
            noise[k], counter = normal(counter, step, ziggurat)
        linear_row = padded(m)
        P = P_flat[: (linear_row + 3) * linear_row].reshape(linear_row + 3, linear_row)
        _fill(many, A, B[:linear_row], P, column, weight, pull, V, precision, mean, noise)
        if not factor(P, m):
            return False
        for k in range(m):
            solved[k] = P[linear_row, k] + (noise[k] if many else 0.0)
        solve_factored(P, m, solved)
        for k in range(width):
            U[row, k] = solved[k] if many else sigma * noise[k]
        for e in range(0 if many else n):
            share = sigma * solved[e]
            for k in range(width):
                U[row, k] += share * B[e, k]
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
    sums = Sums(np.empty(shape), np.empty(shape), np.empty(rows.column.size))
    mean = np.zeros(width) if model.mean is None else np.ascontiguousarray(model.mean)
    arguments = float(model.precision), mean, ZIGGURAT, np.empty(0, model.dtype)

    def portion(task: int) -> bool:
        order = rows.portions.rows_of(task)
        _score_rows(order, rows.start, rows.column, U, V, sums.score)
        drawn = augment(rows, order, sums.score, thresholds, model, name)
        succeeded = bool(_draw_rows(order, rows.start, rows.column, V, tuple(drawn), *arguments, U))
        if with_sums:
            _score_rows(order, rows.start, rows.column, U, V, sums.score)
            sum_thresholds(rows, order, drawn.share, model, sums)
        return succeeded

    return run_portions(portion, rows.portions.cut.size - 1, rows.column.size * width * width), sums


@njit(nogil=True, fastmath=FAST)
def _score_rows(order, start, column, U, V, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for row in order:
        for e in range(start[row], start[row + 1]):
            x = 0.0
            for k in range(U.shape[1]):
                x += U[row, k] * V[column[e], k]
            out[e] = x


def scores(rows: Rows, U: Array, V: Array) -> Array:
    """Return x_ij of every rating, shape (n_ratings,)."""
    out = np.empty(rows.column.size)

    def portion(task: int) -> bool:
        _score_rows(rows.portions.rows_of(task), rows.start, rows.column, U, V, out)
        return True

    run_portions(portion, rows.portions.cut.size - 1, out.size * U.shape[1])
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
                loss += max(0.0, margin - sign * (theta[t, r] - score[e]))
            total += loss * (cost[e] if cost.shape[0] > 1 else cost[0])
        out[row] = total


def hinge_losses(rows: Rows, score: Array, theta: Array, margin: float) -> Array:
    """Return C times the hinge loss of each row's ratings, shape (n_rows,)."""
    out = np.empty(rows.start.size - 1)
    _row_losses(rows.start, rows.level, rows.cost, score, theta, float(margin), out)
    return out
