"""Gibbs updates of the nonparametric model: users hold features of an Indian buffet process (docs/maths section 8).

A user holds few features, so item factors are drawn from sums over the features of their raters, not from products of
whole rows. Rows of Z are drawn one after the other, each given all others, as in the Indian buffet process; item
factors are drawn in parallel. Each row has its counted random stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from skpref._compiled.jit import njit
from skpref._compiled.m3f import FAST, Sums, augment, run_portions, threshold_sums
from skpref._compiled.streams import ZIGGURAT, normal, open_stream, uniform
from skpref._compiled.tiles import factor, padded, solve_factored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._compiled.m3f import Model, Rows, StreamName, Thresholds
    from skpref._typing import Array, IntArray

_MIN_GROWTH = 64  # columns that are added to full tables of features, at least
_BLOCK = 64  # features whose sums over a user's ratings are computed together
_LARGE = 1e150  # product of determinants beyond which its logarithm is kept


@intrinsic
def _popcount(typingctx, word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    """Return the number of one bits in a word."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), emit


class FeatureLists(NamedTuple):
    """The features that each user holds, in CSR form and as bits."""

    start: IntArray  # (n_users + 1,)
    feature: NDArray[np.int32]
    bits: NDArray[np.uint64]  # (n_users, ceil(K / 64))


class IBPState(NamedTuple):
    """Binary features of the users, and the item factors."""

    users: NDArray[np.uint8]  # (n_users, K): Z
    items: Array  # (n_items, K)
    feature: IntArray  # (K,): numbers of the features, ascending; a feature keeps its number while a user holds it
    born: int  # numbers given so far


@njit()
def _fill_feature_lists(Z, start, feature, bits):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    position = 0
    for i in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            if Z[i, k]:
                feature[position] = k
                position += 1
                bits[i, k >> 6] |= np.uint64(1) << np.uint64(k & 63)
        start[i + 1] = position


def feature_lists(Z: NDArray[np.uint8]) -> FeatureLists:
    """Return the features that each user holds."""
    n, width = Z.shape
    start, bits = np.zeros(n + 1, np.int64), np.zeros((n, -(-width // 64)), np.uint64)
    feature = np.empty(np.count_nonzero(Z), np.int32)
    _fill_feature_lists(Z, start, feature, bits)
    return FeatureLists(start, feature, bits)


# --------------------------------------------------------------------------
# items


@njit(fastmath=FAST, forceinline=True)
def _fill_primal(column, first, n, held, position, n_active, weight, pull, precision, P):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put the precision matrix of the raters' features into P, and the linear term into the row after it."""
    held_start, feature, linear = held[0], held[1], P[P.shape[1]]
    positions = np.empty(n_active, np.int64)
    P[:] = 0.0
    for e in range(n):
        w, h, n_held = weight[e], pull[e], 0
        for s in range(held_start[column[first + e]], held_start[column[first + e] + 1]):
            positions[n_held] = position[feature[s]]
            n_held += 1
        for s in range(n_held):
            row = P[positions[s]]
            for t in range(s + 1):
                row[positions[t]] += w
            linear[positions[s]] += h
    for a in range(n_active):
        P[a, a] += precision


@njit(fastmath=FAST, forceinline=True)
def _fill_dual(column, first, n, held, weight, pull, variance, noise, residual, P):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Do the same as `m3f._fill_dual`; inner products are numbers of common features."""
    held_start, feature, bits = held
    words = bits.shape[1]
    rater_bits = np.empty((words, n), np.uint64)
    common = np.empty(n, np.int64)
    P[:] = 0.0
    for e in range(n):
        for word in range(words):
            rater_bits[word, e] = bits[column[first + e], word]
    for a in range(n):
        i, root = column[first + a], np.sqrt(weight[a])
        common[: a + 1] = 0
        for word in range(words):
            bits_a, row = rater_bits[word, a], rater_bits[word]
            for b in range(a + 1):
                common[b] += np.int64(_popcount(bits_a & row[b]))
        for b in range(a + 1):
            P[a, b] = variance * root * np.sqrt(weight[b]) * common[b]
        P[a, a] += 1.0
        total = 0.0
        for s in range(held_start[i], held_start[i + 1]):
            total += noise[feature[s]]
        P[P.shape[1], a] = (pull[a] / root if root > 0.0 else 0.0) - residual[a] - root * total


@njit(fastmath=FAST, forceinline=True)
def _draw_many(rows, row, held, precision, work, position, n_active, items):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    start, column = rows[0], rows[1]
    P_flat, weight, pull, noise, _, solved = work
    linear_row = padded(n_active)
    P = P_flat[: (linear_row + 3) * linear_row].reshape(linear_row + 3, linear_row)
    _fill_primal(column, start[row], start[row + 1] - start[row], held, position, n_active, weight, pull, precision, P)
    if not factor(P, n_active):
        return False
    for k in range(items.shape[1]):
        if position[k] >= 0:
            solved[position[k]] = P[linear_row, position[k]] + noise[k]
    solve_factored(P, n_active, solved)
    for k in range(items.shape[1]):  # features that no rater holds have their prior
        items[row, k] = solved[position[k]] if position[k] >= 0 else noise[k] / np.sqrt(precision)
    return True


@njit(fastmath=FAST, forceinline=True)
def _draw_few(rows, row, held, precision, work, items):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    start, column = rows[0], rows[1]
    held_start, feature = held[0], held[1]
    P_flat, weight, pull, noise, residual, solved = work
    first, n, variance = start[row], start[row + 1] - start[row], 1.0 / precision
    linear_row = padded(n)
    P = P_flat[: (linear_row + 3) * linear_row].reshape(linear_row + 3, linear_row)
    for k in range(items.shape[1]):
        noise[k] *= np.sqrt(variance)
    _fill_dual(column, first, n, held, weight, pull, variance, noise, residual, P)
    if not factor(P, n):
        return False
    for e in range(n):
        solved[e] = P[linear_row, e]
    solve_factored(P, n, solved)
    for k in range(items.shape[1]):
        items[row, k] = noise[k]
    for e in range(n):
        share = variance * np.sqrt(weight[e]) * solved[e]
        for s in range(held_start[column[first + e]], held_start[column[first + e] + 1]):
            items[row, feature[s]] += share
    return True


@njit(fastmath=FAST, forceinline=True)
def _item_scores(rows, row, held, items, x, position):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put the scores of an item's ratings into x, number its raters' features (others -1), and return how many."""
    start, column = rows[0], rows[1]
    held_start, feature = held[0], held[1]
    position[:] = -1
    for e in range(start[row + 1] - start[row]):
        i, total = column[start[row] + e], 0.0
        for s in range(held_start[i], held_start[i + 1]):
            total += items[row, feature[s]]
            position[feature[s]] = 0
        x[e] = total
    n_active = 0
    for k in range(position.shape[0]):
        if position[k] == 0:
            position[k] = n_active
            n_active += 1
    return n_active


@njit(nogil=True, fastmath=FAST)
def _draw_portion(task, rows, items, held, theta, owner, model, name, ziggurat):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw the items of one portion; return whether all matrices were positive definite."""
    start, order, cut, longest = rows[0], rows[4], rows[5], rows[6]
    (margin, precision), (seed, sweep, block) = model, name
    width = items.shape[1]
    size = padded(width)
    P, position = np.empty((size + 3) * size), np.empty(width, np.int64)
    weight, pull, x = np.empty(longest), np.empty(longest), np.empty(longest)
    q, normals = np.empty(longest * theta.shape[1]), np.empty(longest * theta.shape[1])
    noise, residual, solved = np.empty(width), np.empty(size), np.empty(size)
    work = P, weight, pull, noise, residual, solved
    for i in range(cut[task], cut[task + 1]):
        row = order[i]
        n = start[row + 1] - start[row]
        counter, step = open_stream(seed, sweep, block, row)
        n_active = _item_scores(rows, row, held, items, x, position)
        counter = augment(rows, row, x, theta, owner, margin, counter, step, ziggurat, q, weight, pull, normals)
        for k in range(width):
            noise[k], counter = normal(counter, step, ziggurat)
        if n > (4 * n_active) // 5:
            succeeded = _draw_many(rows, row, held, precision, work, position, n_active, items)
        else:
            for e in range(n):
                residual[e], counter = normal(counter, step, ziggurat)
            succeeded = _draw_few(rows, row, held, precision, work, items)
        if not succeeded:
            return False
    return True


def draw_items(
    rows: Rows, items: Array, Z: NDArray[np.uint8], thresholds: Thresholds, model: Model, name: StreamName
) -> bool:
    """Draw the factors of all items given the users' features, in place; return whether that succeeded."""
    csr, held = (rows.start, rows.column, rows.level, rows.cost, *rows.portions), feature_lists(Z)
    owner = {"all": 0, "row": 1, "column": 2}[thresholds.owner]
    stream = (np.uint64(name.seed), np.int64(name.sweep), np.int64(name.block))
    scales = float(model.margin), float(model.precision)

    def portion(task: int) -> bool:
        return bool(_draw_portion(task, csr, items, tuple(held), thresholds.value, owner, scales, stream, ZIGGURAT))

    return run_portions(portion, rows.portions.cut.size - 1, 30 * held.feature.size + 8 * items.size)


# --------------------------------------------------------------------------
# users


@njit(fastmath=FAST, forceinline=True)
def _block_sums(column, first, n, items, begin, end, weight, gain, a, b):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put sum v gain of a row's ratings into a, and sum weight v^2 into b; four at once are ten times as fast."""
    a[begin:end] = 0.0
    b[begin:end] = 0.0
    whole = n - n % 4
    for e in range(0, whole, 4):
        v1, v2 = items[column[first + e]], items[column[first + e + 1]]
        v3, v4 = items[column[first + e + 2]], items[column[first + e + 3]]
        g1, g2, g3, g4 = gain[e], gain[e + 1], gain[e + 2], gain[e + 3]
        w1, w2, w3, w4 = weight[e], weight[e + 1], weight[e + 2], weight[e + 3]
        for k in range(begin, end):
            a[k] += (v1[k] * g1 + v2[k] * g2) + (v3[k] * g3 + v4[k] * g4)
            b[k] += (v1[k] * v1[k] * w1 + v2[k] * v2[k] * w2) + (v3[k] * v3[k] * w3 + v4[k] * v4[k] * w4)
    for e in range(whole, n):
        v, g, w = items[column[first + e]], gain[e], weight[e]
        for k in range(begin, end):
            a[k] += v[k] * g
            b[k] += v[k] * v[k] * w


@njit(fastmath=FAST, forceinline=True)
def _correct(column, first, n, items, begin, end, change, a):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Subtract sum v change of a row's ratings from a."""
    whole = n - n % 4
    for e in range(0, whole, 4):
        v1, v2 = items[column[first + e]], items[column[first + e + 1]]
        v3, v4 = items[column[first + e + 2]], items[column[first + e + 3]]
        c1, c2, c3, c4 = change[e], change[e + 1], change[e + 2], change[e + 3]
        for k in range(begin, end):
            a[k] -= (v1[k] * c1 + v2[k] * c2) + (v3[k] * c3 + v4[k] * c4)
    for e in range(whole, n):
        v, c = items[column[first + e]], change[e]
        for k in range(begin, end):
            a[k] -= v[k] * c


@njit(fastmath=FAST, forceinline=True)
def _draw_held(rows, row, table, counted, total, counter, step, work):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw, one after the other, whether a row holds each feature that other rows hold.

    `gain` is h - w x, the slope of each rating's log likelihood in its score. With a = sum v gain and b = sum w v^2, a
    feature's log likelihood ratio is a - b/2 if the row does not hold it now, and a + b/2 if it does. The sums of a
    block are computed at once; after a change, those of the block's later features are corrected.
    """
    start, column = rows[0], rows[1]
    (Z, items, count, _), (weight, gain, x) = table, work
    first, n, width = start[row], start[row + 1] - start[row], Z.shape[1]
    a, b, change = np.empty(width), np.empty(width), np.empty(n)
    for begin in range(0, width, _BLOCK):
        end = width if width < begin + _BLOCK else begin + _BLOCK  # noqa: FURB136 - `min` is compiled apart
        _block_sums(column, first, n, items, begin, end, weight, gain, a, b)
        for k in range(begin, end):
            z = Z[row, k]
            others = count[k] - counted * z
            if others <= 0.0:
                continue
            odds = np.log(others / (total - others)) + a[k] + (z - 0.5) * b[k]
            u, counter = uniform(counter, step)
            holds = u * (1.0 + np.exp(-odds)) < 1.0
            if holds == (z != 0):
                continue
            sign = 1.0 if holds else -1.0
            Z[row, k] = 1 if holds else 0
            count[k] += counted * sign
            for e in range(n):
                moved = sign * items[column[first + e], k]
                x[e] += moved
                change[e] = weight[e] * moved
                gain[e] -= change[e]
            _correct(column, first, n, items, k + 1, end, change, a)
    return counter


@njit(fastmath=FAST, forceinline=True)
def _drop_singletons(rows, row, table, work):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Drop the features that only this row holds."""
    start, column = rows[0], rows[1]
    (Z, items, count, _), (weight, gain, x) = table, work
    for k in range(Z.shape[1]):
        if Z[row, k] and count[k] < 1.5:
            Z[row, k] = 0
            count[k] = 0.0
            for e in range(start[row + 1] - start[row]):
                v = items[column[start[row] + e], k]
                x[e] -= v
                gain[e] += weight[e] * v


@njit(fastmath=FAST, forceinline=True)
def new_feature_weights(n, rate, variance, weight, gain, log_p):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put the unnormalised log probabilities of the number of features that only this row holds into log_p.

    Item factors are integrated out. Those of k features enter only by their sum, whose prior is N(0, k sigma^2): each
    rating contributes (1 + k sigma^2 w)^(-1/2) exp(k sigma^2 gain^2 / (2 (1 + k sigma^2 w))), without any matrix.
    """
    log_p[0], prior = 0.0, 0.0
    for k in range(1, log_p.shape[0]):
        prior += np.log(rate / k)
        wide, total, product = k * variance, 0.0, 1.0
        for e in range(n):
            grown = 1.0 + wide * weight[e]
            total += gain[e] * gain[e] * wide / grown
            # One logarithm serves many ratings.
            if grown > _LARGE or product > _LARGE:
                total -= np.log(product) + np.log(grown)
                product = 1.0
            else:
                product *= grown
        log_p[k] = prior + 0.5 * (total - np.log(product))


@njit(fastmath=FAST, forceinline=True)
def _categorical(log_p, u):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    highest, mass, k = log_p[0], 0.0, 0
    for i in range(log_p.shape[0]):
        highest = max(highest, log_p[i])
    for i in range(log_p.shape[0]):
        log_p[i] = np.exp(log_p[i] - highest)
        mass += log_p[i]
    remaining = u * mass
    while k < log_p.shape[0] - 1 and remaining > log_p[k]:
        remaining -= log_p[k]
        k += 1
    return k


@njit(fastmath=FAST, forceinline=True)
def _add_features(rows, row, columns, table, born, sigma, counter, step, ziggurat, work):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add new features of a row in free columns, and draw their item factors.

    Given lambda, the likelihood depends only on the sum of an item's new factors: they are drawn from the prior, then
    shifted equally so that their sum is a draw from its conditional.
    """
    start, column = rows[0], rows[1]
    (Z, items, count, feature), (weight, gain, x) = table, work
    n_new, k = columns.shape[0], 0
    for new in range(n_new):
        while count[k] > 0.0:
            k += 1
        columns[new] = k
        Z[row, k] = 1
        count[k] = 1.0
        feature[k] = born + new
        for j in range(items.shape[0]):
            z, counter = normal(counter, step, ziggurat)
            items[j, k] = sigma * z
    wide = n_new * sigma * sigma
    for e in range(start[row + 1] - start[row]):
        j, drawn, grown = column[start[row] + e], 0.0, 1.0 + wide * weight[e]
        for k in columns:
            drawn += items[j, k]
        z, counter = normal(counter, step, ziggurat)
        wanted = wide * gain[e] / grown + np.sqrt(wide / grown) * z
        for k in columns:
            items[j, k] += (wanted - drawn) / n_new
        x[e] += wanted
    return counter


@njit(fastmath=FAST, forceinline=True)
def _user_scores(rows, row, table, held, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    start, column = rows[0], rows[1]
    Z, items, n_held = table[0], table[1], 0
    for k in range(Z.shape[1]):
        if Z[row, k]:
            held[n_held] = k
            n_held += 1
    for e in range(start[row + 1] - start[row]):
        v, score = items[column[start[row] + e]], 0.0
        for s in range(n_held):
            score += v[held[s]]
        x[e] = score


@njit(fastmath=FAST)
def _users(rows, begin, table, born, counted, total, ibp, theta, owner, model, name, ziggurat, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw rows of Z from `begin` on; return the first row that needs more columns, and `born`.

    `counted` is 1 if the rows are among the counts of holders, and 0 for new users, who get no new features.
    """
    (rate, max_new), (margin, precision), (seed, sweep, block) = ibp, model, name
    start, longest, (n_rows, width) = rows[0], rows[6], table[0].shape
    weight, pull, x, gain = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    q, normals = np.empty(longest * theta.shape[1]), np.empty(longest * theta.shape[1])
    log_p, columns, held = np.empty(max_new + 1), np.empty(max_new, np.int64), np.empty(width, np.int64)
    work = weight, gain, x
    for row in range(begin, n_rows):
        n_free = 0
        for k in range(width):
            n_free += table[2][k] == 0.0
        if counted > 0.0 and n_free < max_new:
            return row, born
        n = start[row + 1] - start[row]
        counter, step = open_stream(seed, sweep, block, row)
        _user_scores(rows, row, table, held, x)
        counter = augment(rows, row, x, theta, owner, margin, counter, step, ziggurat, q, weight, pull, normals)
        for e in range(n):
            gain[e] = pull[e] - weight[e] * x[e]
        counter = _draw_held(rows, row, table, counted, total, counter, step, work)
        if counted > 0.0:
            _drop_singletons(rows, row, table, work)
            new_feature_weights(n, rate, 1.0 / precision, weight, gain, log_p)
            u, counter = uniform(counter, step)
            n_new = _categorical(log_p, u)
            if n_new > 0:
                sigma = 1.0 / np.sqrt(precision)
                counter = _add_features(rows, row, columns[:n_new], table, born, sigma, counter, step, ziggurat, work)
                born += n_new
        threshold_sums(rows, row, x, margin, q, out)
    return n_rows, born


def draw_users(
    rows: Rows,
    state: IBPState,
    thresholds: Thresholds,
    alpha: float,
    max_new: int,
    model: Model,
    name: StreamName,
) -> tuple[IBPState, Sums]:
    """Draw the features of all users, one after the other, and the item factors of new features.

    A row's lambda are drawn first; then each feature that other users hold, by the odds of the Indian buffet process
    times the likelihood ratio; then the features that it alone holds, anew, with their factors integrated out.
    """
    n_users, width = state.users.shape
    csr, owner = (rows.start, rows.column, rows.level, rows.cost, *rows.portions), {"all": 0, "row": 1}[thresholds.owner]
    stream = (np.uint64(name.seed), np.int64(name.sweep), np.int64(name.block))
    scales, prior = (float(model.margin), float(model.precision)), (alpha / n_users, np.int64(max_new))
    sums = _empty_sums(rows, thresholds)
    Z, items, feature = state.users, state.items, state.feature
    count = Z.sum(axis=0, dtype=np.float64)
    begin, born = 0, state.born
    while True:
        more = max_new + max(_MIN_GROWTH, width // 8)
        Z, items = np.pad(Z, ((0, 0), (0, more))), np.pad(items, ((0, 0), (0, more)))
        count, feature = np.pad(count, (0, more)), np.pad(feature, (0, more))
        table = Z, items, count, feature
        arguments = 1.0, float(n_users), prior, thresholds.value, owner, scales, stream, ZIGGURAT, tuple(sums)
        begin, born = _users(csr, begin, table, born, *arguments)
        if begin == n_users:
            break
    alive = np.flatnonzero(count)
    alive = alive[np.argsort(feature[alive])]
    # `take` returns row-major tables, which the loops over ratings read fastest.
    return IBPState(Z.take(alive, axis=1), items.take(alive, axis=1), feature[alive], int(born)), sums


def draw_new_users(
    rows: Rows,
    Z: NDArray[np.uint8],
    items: Array,
    holders: Array,
    n_before: float,
    thresholds: Thresholds,
    model: Model,
    name: StreamName,
) -> Sums:
    """Draw which existing features each new user holds, as the next row of the Indian buffet process, in place."""
    csr, owner = (rows.start, rows.column, rows.level, rows.cost, *rows.portions), {"all": 0, "row": 1}[thresholds.owner]
    stream = (np.uint64(name.seed), np.int64(name.sweep), np.int64(name.block))
    scales, prior = (float(model.margin), float(model.precision)), (0.0, np.int64(0))
    sums, feature = _empty_sums(rows, thresholds), np.zeros(0, np.int64)
    count = np.asarray(holders, dtype=np.float64)
    table = Z, items, count, feature
    arguments = 0.0, n_before + 1.0, prior, thresholds.value, owner, scales, stream, ZIGGURAT, tuple(sums)
    _users(csr, 0, table, 0, *arguments)
    return sums


def _empty_sums(rows: Rows, thresholds: Thresholds) -> Sums:
    shape = rows.start.size - 1, thresholds.value.shape[1]
    return Sums(np.empty(shape), np.empty(shape), np.empty(rows.column.size))


# --------------------------------------------------------------------------
# prior


@njit()
def _fill_new_rows(seed, block, Z, count, n_new, begin, used):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(begin, Z.shape[0]):
        counter, step = open_stream(seed, np.int64(0), block, i)
        for k in range(used):
            u, counter = uniform(counter, step)
            if u * (i + 1.0) < count[k]:
                Z[i, k] = 1
                count[k] += 1.0
        for k in range(used, used + n_new[i - begin]):
            Z[i, k] = 1
            count[k] = 1.0
        used += n_new[i - begin]


def draw_ibp_rows(seed: int, block: int, Z: NDArray[np.uint8], n_users: int, alpha: float) -> NDArray[np.uint8]:
    """Return Z with further rows drawn from the Indian buffet process, shape (n_users, K')."""
    n, width = Z.shape
    rates = alpha / np.arange(n + 1.0, n_users + 1.0)
    n_new = np.random.default_rng([seed, block, n]).poisson(rates)
    grown = np.zeros((n_users, width + int(n_new.sum())), np.uint8)
    grown[:n, :width] = Z
    count = grown.sum(axis=0, dtype=np.float64)
    _fill_new_rows(np.uint64(seed), block, grown, count, n_new, n, width)
    return grown
