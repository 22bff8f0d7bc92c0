"""Passes of the Gibbs sampler of max-margin matrix factorisation over all rows of one side (maths.md section 8).

The augmenting variables lambda are drawn where they are used, for one row at a time, and forgotten: the state of the
chain is factors and thresholds alone. Each row has a random stream of its own, so the bits are the same for any number
of threads and any order of the rows.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np

from skpref._compiled.jit import njit
from skpref._compiled.streams import ZIGGURAT, inverse_gaussian_of, normal, open_stream, uniform
from skpref._compiled.tiles import add_gram, factor, padded, solve_factored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray

_TASKS = 64  # portions of like work that threads take
_BLOCK = 128  # ratings whose rows are gathered at once; with 100 factors they fit the second cache
_SMALL = 1 << 21  # products (about 1 ms) below which waking threads costs more than it saves
_HEAVY = 1e3  # weight from which a rating's share is added in double precision whatever the dtype
FAST = {"contract", "reassoc", "nsz"}  # of sums over ratings and factors


class Portions(NamedTuple):
    """Rows split into portions of about the same work."""

    order: IntArray
    cut: IntArray


class Rows(NamedTuple):
    """Ratings by row: of which columns, on which level, and how dear a violation is."""

    start: IntArray
    column: NDArray[np.int32]
    level: NDArray[np.int16]
    cost: Array  # C times the weight of the rating; one number where all are alike
    portions: Portions


class Thresholds(NamedTuple):
    """Thresholds (n, L - 1), and whose: of the row ("row"), of the column ("column"), or everybody's ("all")."""

    value: Array
    of: str


class Model(NamedTuple):
    """What does not change from sweep to sweep."""

    margin: float
    precision: float  # 1 / sigma^2
    dtype: Any  # of the sums over ratings; the matrices are factored in double precision


class Name(NamedTuple):
    """Of a pass: every row's stream is named by it and by the row's number."""

    seed: int
    sweep: int
    block: int


class Sums(NamedTuple):
    """What the ratings of each row give its thresholds, and the scores of all ratings."""

    precision: Array
    linear: Array
    score: Array


def portions(start: IntArray, width: int) -> Portions:
    """Deal rows out so that all portions are about the same work."""
    length = np.diff(start).astype(np.float64)
    narrow = np.minimum(length, width)
    work = length * narrow * max(width, 1) / 2.0 + narrow**3 / 6.0 + 50.0 * length
    heaviest = np.argsort(-work, kind="stable")
    n_portions = max(1, min(_TASKS, length.size))
    turn = np.arange(length.size) % (2 * n_portions)
    turn = np.where(turn < n_portions, turn, 2 * n_portions - 1 - turn)  # there and back again
    order = heaviest[np.argsort(turn, kind="stable")]
    cut = np.concatenate([[0], np.cumsum(np.bincount(turn, minlength=n_portions))])
    return Portions(order.astype(np.int64), cut.astype(np.int64))


@njit(fastmath=FAST)
def _row_scores(rows, row, mine, theirs, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Scores of a row's ratings."""
    start, column = rows[0], rows[1]
    first = start[row]
    for e in range(start[row + 1] - first):
        j = column[first + e]
        total = 0.0
        for k in range(mine.shape[1]):
            total += mine[row, k] * theirs[j, k]
        x[e] = total


@njit(fastmath=FAST)
def augment(rows, row, x, theta, whose, margin, counter, step, ziggurat, q, weight, pull, chance):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw 1/lambda of a row's ratings; note what precision and linear term they give the scores.

    Loop by loop, so that all but the look-up in the ziggurat runs on vectors; `q` goes from |Delta| to C^2/(4 lambda).
    """
    start, column, level, cost = rows[:4]
    first, n, n_thresholds = start[row], start[row + 1] - start[row], theta.shape[1]
    for e in range(n):
        j = column[first + e]
        t = 0 if whose == 0 else (row if whose == 1 else j)
        half = 0.5 * (cost[first + e] if cost.shape[0] > 1 else cost[0])
        for r in range(n_thresholds):
            sign = 1.0 if r >= level[first + e] else -1.0
            q[e * n_thresholds + r] = abs(half * (margin - sign * (theta[t, r] - x[e])))
    for i in range(n * n_thresholds):
        chance[i], counter = normal(counter, step, ziggurat)
    for i in range(n * n_thresholds):
        u, _ = uniform(counter + np.uint64(i) * step, step)
        q[i] = inverse_gaussian_of(q[i], chance[i], u)
    counter += np.uint64(n * n_thresholds) * step
    for e in range(n):
        j = column[first + e]
        t = 0 if whose == 0 else (row if whose == 1 else j)
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


@njit(fastmath=FAST)
def _many_ratings(A, P, column, first, n, weight, pull, theirs, precision):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Precision matrix of a row with many ratings, its linear term behind it as a further row.

    Both are in one Gram matrix, that of the columns (sqrt(w_e) u_e, h_e / sqrt(w_e)).
    """
    (width, behind), single = (theirs.shape[1], P.shape[1]), A.itemsize < 8
    P[:] = 0.0
    filled = 0
    for e in range(n):
        j, w, h = column[first + e], weight[e], pull[e]
        if single and w > _HEAVY:
            for a in range(width):
                for b in range(a + 1):
                    P[a, b] += w * theirs[j, a] * theirs[j, b]
                P[behind, a] += h * theirs[j, a]
            continue
        root = np.sqrt(w)
        for k in range(width):
            A[k, filled] = root * theirs[j, k]
        A[behind, filled] = h / root if root > 0.0 else 0.0
        filled += 1
        if filled == _BLOCK:
            add_gram(P, A, filled)
            filled = 0
    add_gram(P, A, filled)
    for a in range(width):
        P[a, a] += precision


@njit(fastmath=FAST)
def _few_ratings(B, P, column, first, n, weight, pull, theirs, sigma, noise, residual):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """I + B B^T of a row with few ratings, and behind it what it is to be solved for.

    B has the rows sigma sqrt(w_e) u_e. With z ~ N(0, I), d ~ N(0, I) and a_e = h_e / sqrt(w_e), the row
    sigma (z + B^T (I + B B^T)^-1 (a - B z - d)) has the distribution wanted (Bhattacharya et al., 2016).
    """
    P[:] = 0.0
    B[n:] = 0
    for e in range(n):
        j, root = column[first + e], np.sqrt(weight[e])
        total = (pull[e] / root if root > 0.0 else 0.0) - residual[e]
        for k in range(theirs.shape[1]):
            B[e, k] = sigma * root * theirs[j, k]
            total -= B[e, k] * noise[k]
        P[e, e] = 1.0
        P[P.shape[1], e] = total
    add_gram(P[: P.shape[1]], B, theirs.shape[1])


@njit(fastmath=FAST)
def _draw_many(rows, row, theirs, precision, work, mine):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    start, column = rows[0], rows[1]
    A, _, P_flat, weight, pull, noise, _, solved = work
    width, behind = theirs.shape[1], A.shape[0] - 3
    P = P_flat[: (behind + 3) * behind].reshape(behind + 3, behind)
    _many_ratings(A, P, column, start[row], start[row + 1] - start[row], weight, pull, theirs, precision)
    if not factor(P, width):
        return False
    for k in range(width):
        solved[k] = P[behind, k] + noise[k]
    solve_factored(P, width, solved)
    for k in range(width):
        mine[row, k] = solved[k]
    return True


@njit(fastmath=FAST)
def _draw_few(rows, row, theirs, precision, work, mine):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    start, column = rows[0], rows[1]
    _, B, P_flat, weight, pull, noise, residual, solved = work
    width, n, sigma = theirs.shape[1], start[row + 1] - start[row], 1.0 / np.sqrt(precision)
    behind = padded(n)
    P = P_flat[: (behind + 3) * behind].reshape(behind + 3, behind)
    _few_ratings(B[:behind], P, column, start[row], n, weight, pull, theirs, sigma, noise, residual)
    if not factor(P, n):
        return False
    for e in range(n):
        solved[e] = P[behind, e]
    solve_factored(P, n, solved)
    for k in range(width):
        mine[row, k] = sigma * noise[k]
    for e in range(n):
        share = sigma * solved[e]
        for k in range(width):
            mine[row, k] += share * B[e, k]
    return True


@njit(fastmath=FAST)
def threshold_sums(rows, row, x, margin, q, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Note the scores of a row's ratings with its new factors, and what they give its thresholds."""
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
def _task(task, rows, mine, theirs, theta, whose, model, name, ziggurat, like, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw the rows of one portion; tell whether all went well."""
    start, order, cut = rows[0], rows[4], rows[5]
    (margin, precision), (seed, sweep, block) = model, name
    width, longest = mine.shape[1], 0
    few = (4 * width) // 5
    for i in range(cut[task], cut[task + 1]):
        longest = max(longest, start[order[i] + 1] - start[order[i]])
    size = padded(width)
    # Columns of A are written, rows are read: a length of rows that is no power of two keeps both in the first cache.
    A, B = np.zeros((size + 3, _BLOCK + 8), like.dtype), np.empty((size, width), like.dtype)
    P = np.empty((size + 3) * size)
    weight, pull, x = np.empty(longest), np.empty(longest), np.empty(longest)
    q, chance = np.empty(longest * theta.shape[1]), np.empty(longest * theta.shape[1])
    noise, residual, solved = np.empty(width), np.empty(size), np.empty(size)
    for i in range(cut[task], cut[task + 1]):
        row = order[i]
        n = start[row + 1] - start[row]
        counter, step = open_stream(seed, sweep, block, row)
        _row_scores(rows, row, mine, theirs, x)
        counter = augment(rows, row, x, theta, whose, margin, counter, step, ziggurat, q, weight, pull, chance)
        for k in range(width):
            noise[k], counter = normal(counter, step, ziggurat)
        work = A, B, P, weight, pull, noise, residual, solved
        if n > few:
            well = _draw_many(rows, row, theirs, precision, work, mine)
        else:
            for e in range(n):
                residual[e], counter = normal(counter, step, ziggurat)
            well = _draw_few(rows, row, theirs, precision, work, mine)
        if not well:
            return False
        if out[0].shape[0] > 0:
            _row_scores(rows, row, mine, theirs, x)
            threshold_sums(rows, row, x, margin, q, out)
    return True


def all_well(task: Callable[[int], bool], n_tasks: int, work: int) -> bool:
    """Do tasks in as many threads as numba may use.

    Plain threads over one compiled function without the GIL, and no `prange`: the compiler would make two functions of
    a serial and a parallel loop, which round differently; threads of Python may also run in a side thread and after a
    fork, and take the next task when they are done.
    """
    n_threads = min(numba.get_num_threads(), n_tasks)
    if n_threads < 2 or work < _SMALL:
        return all(task(i) for i in range(n_tasks))
    with ThreadPoolExecutor(n_threads) as pool:
        return all(list(pool.map(task, range(n_tasks))))


def draw_rows(
    rows: Rows,
    mine: Array,
    theirs: Array,
    thresholds: Thresholds,
    model: Model,
    name: Name,
    *,
    with_sums: bool = False,
) -> tuple[bool, Sums]:
    """Draw the factors of all rows of a side given those of the other side, in place.

    Each row's lambda are drawn first, given everything else, then its factors given them.
    """
    (n_rows, width), n_thresholds = mine.shape, thresholds.value.shape[1]
    shape = (n_rows if with_sums else 0, n_thresholds)
    sums = Sums(np.empty(shape), np.empty(shape), np.empty(rows.column.size if with_sums else 0))
    plain = (rows.start, rows.column, rows.level, rows.cost, *rows.portions)
    whose = {"all": 0, "row": 1, "column": 2}[thresholds.of]
    numbers = (np.uint64(name.seed), np.int64(name.sweep), np.int64(name.block))
    scales, like = (float(model.margin), float(model.precision)), np.empty(0, model.dtype)

    def portion(task: int) -> bool:
        given = plain, mine, theirs, thresholds.value, whose, scales, numbers, ZIGGURAT, like, tuple(sums)
        return bool(_task(task, *given))

    return all_well(portion, rows.portions.cut.size - 1, rows.column.size * width * width), sums


@contextmanager
def limited_threads(n_threads: int | None) -> Iterator[None]:
    """Run the body with some of the threads that numba may use."""
    before = numba.get_num_threads()
    numba.set_num_threads(before if n_threads is None else max(1, min(n_threads, numba.config.NUMBA_NUM_THREADS)))
    try:
        yield
    finally:
        numba.set_num_threads(before)


@njit(nogil=True, fastmath=FAST)
def _score_rows(first, last, start, column, mine, theirs, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for row in range(first, last):
        for e in range(start[row], start[row + 1]):
            x = 0.0
            for k in range(mine.shape[1]):
                x += mine[row, k] * theirs[column[e], k]
            out[e] = x
    return True


def scores(rows: Rows, mine: Array, theirs: Array) -> Array:
    """Return x_ij of every rating, shape (n_ratings,)."""
    out, n = np.empty(rows.column.size), rows.start.size - 1
    # Parts of like numbers of ratings.
    cut = np.searchsorted(rows.start, np.linspace(0, rows.column.size, _TASKS + 1)[1:-1])
    cut = np.concatenate([[0], cut, [n]])

    def part(task: int) -> bool:
        return bool(_score_rows(cut[task], cut[task + 1], rows.start, rows.column, mine, theirs, out))

    all_well(part, _TASKS, out.size * mine.shape[1])
    return out


@njit(fastmath={"contract", "nsz"})
def _violations(start, level, cost, score, theta, margin, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
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
    _violations(rows.start, rows.level, rows.cost, score, theta, float(margin), out)
    return out
