"""Gibbs updates of the nonparametric model: users hold features of an Indian buffet process (docs/maths section 8).

A user holds few features, so item factors are drawn from sums over the features of their raters, not from products of
whole rows. Rows of Z are drawn one after the other, each given all others, as in the Indian buffet process; item
factors are drawn in parallel. Each row has its counted random stream.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from skpref._compiled.jit import njit
from skpref._compiled.m3f import FAST, RATINGS, Sums, augment, run_portions, sum_thresholds
from skpref._compiled.streams import ZIGGURAT, normal, open_stream, uniform
from skpref._compiled.tiles import factor, padded, solve_factored

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@njit(nogil=True, fastmath=FAST)
def _score_rows(order, start, column, items, held_start, feature, by_user, score):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put the scores of the ratings of some rows, which are users' or items', into `score`."""
    for row in order:
        for e in range(start[row], start[row + 1]):
            i, j = (row, column[e]) if by_user else (column[e], row)
            total = 0.0
            for s in range(held_start[i], held_start[i + 1]):
                total += items[j, feature[s]]
            score[e] = total


# --------------------------------------------------------------------------
# items


@njit(fastmath=FAST, forceinline=True)
def _fill_primal(column, held_start, feature, position, positions, weight, pull, precision, P):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put the precision matrix of the raters' features into P, and the linear term into the row after it."""
    linear = P[P.shape[1]]
    for e in range(column.shape[0]):
        w, h, n_held = weight[e], pull[e], 0
        for s in range(held_start[column[e]], held_start[column[e] + 1]):
            positions[n_held] = position[feature[s]]
            n_held += 1
        for s in range(n_held):
            row = P[positions[s]]
            for t in range(s + 1):
                row[positions[t]] += w
            linear[positions[s]] += h
    for a in range(P.shape[1]):
        P[a, a] += precision


@njit(fastmath=FAST, forceinline=True)
def _fill_dual(column, held_start, feature, bits, weight, pull, variance, noise, P):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Do the same as `m3f._fill_dual`, with I + B B^T; inner products are numbers of common features."""
    words, n, width, sigma = bits.shape[1], column.shape[0], noise.shape[0] // 2, np.sqrt(variance)
    rater_bits = np.empty((words, n), np.uint64)
    common = np.empty(n, np.int64)
    for e in range(n):
        for word in range(words):
            rater_bits[word, e] = bits[column[e], word]
    for a in range(n):
        root, total = np.sqrt(weight[a]), 0.0
        for b in range(a + 1):
            common[b] = 0
        for word in range(words):
            bits_a, row = rater_bits[word, a], rater_bits[word]
            for b in range(a + 1):
                common[b] += np.int64(_popcount(bits_a & row[b]))
        for b in range(a + 1):
            P[a, b] = variance * root * np.sqrt(weight[b]) * common[b]
        P[a, a] += 1.0
        for s in range(held_start[column[a]], held_start[column[a] + 1]):
            total += noise[feature[s]]
        P[P.shape[1], a] = (pull[a] / root if root > 0.0 else 0.0) - noise[width + a] - sigma * root * total


@njit(fastmath=FAST, forceinline=True)
def _number_features(column, held_start, feature, position):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Number the features of an item's raters, the others -1, and return how many there are."""
    n_active = 0
    for k in range(position.shape[0]):
        position[k] = -1
    for e in range(column.shape[0]):
        for s in range(held_start[column[e]], held_start[column[e] + 1]):
            position[feature[s]] = 0
    for k in range(position.shape[0]):
        if position[k] == 0:
            position[k] = n_active
            n_active += 1
    return n_active


@njit(fastmath=FAST, forceinline=True)
def _add_shares(column, held_start, feature, weight, variance, solved, item):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the raters' shares to the features of an item."""
    for e in range(column.shape[0]):
        share = variance * np.sqrt(weight[e]) * solved[e]
        for s in range(held_start[column[e]], held_start[column[e] + 1]):
            item[feature[s]] += share


@njit(nogil=True, fastmath=FAST)
def _draw_rows(order, start, columns, held, augmented, precision, ziggurat, items):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw the factors of some items; return whether all matrices were positive definite."""
    (held_start, feature, bits), (_, weights, pulls, streams) = held, augmented
    width, variance, at = items.shape[1], 1.0 / precision, 0
    size = padded(width)
    position, positions = np.empty(width, np.int64), np.empty(width, np.int64)
    P_flat, noise, solved = np.empty((size + 3) * size), np.empty(2 * width), np.empty(size)
    for i in range(order.shape[0]):
        row = order[i]
        first, last = start[row], start[row + 1]
        n = last - first
        column, weight, pull = columns[first:last], weights[at : at + n], pulls[at : at + n]
        at += n
        n_active = _number_features(column, held_start, feature, position)
        many = n > (4 * n_active) // 5
        m = n_active if many else n
        counter, step = streams[i, 0], streams[i, 1]
        for k in range(width if many else width + n):
            noise[k], counter = normal(counter, step, ziggurat)
        linear_row = padded(m)
        P = P_flat[: (linear_row + 3) * linear_row].reshape(linear_row + 3, linear_row)
        P[:] = 0.0
        if many:
            _fill_primal(column, held_start, feature, position, positions, weight, pull, precision, P)
        else:
            _fill_dual(column, held_start, feature, bits, weight, pull, variance, noise, P)
        if not factor(P, m):
            return False
        for k in range(m):
            solved[k] = P[linear_row, k]
        for k in range(width if many else 0):
            if position[k] >= 0:
                solved[position[k]] += noise[k]
        solve_factored(P, m, solved)
        for k in range(width):  # features that no rater holds have their prior
            items[row, k] = solved[position[k]] if many and position[k] >= 0 else noise[k] * np.sqrt(variance)
        if not many:
            _add_shares(column, held_start, feature, weight, variance, solved, items[row])
    return True


def draw_items(
    rows: Rows, items: Array, Z: NDArray[np.uint8], thresholds: Thresholds, model: Model, name: StreamName
) -> bool:
    """Draw the factors of all items given the users' features, in place; return whether that succeeded."""
    held, score, arguments = feature_lists(Z), np.empty(rows.column.size), (float(model.precision), ZIGGURAT, items)

    def portion(task: int) -> bool:
        order = rows.portions.rows_of(task)
        _score_rows(order, rows.start, rows.column, items, held.start, held.feature, False, score)
        drawn = augment(rows, order, score, thresholds, model, name)
        return bool(_draw_rows(order, rows.start, rows.column, tuple(held), tuple(drawn), *arguments))

    return run_portions(portion, rows.portions.cut.size - 1, 30 * held.feature.size + 8 * items.size)


# --------------------------------------------------------------------------
# users


@njit(fastmath=FAST, forceinline=True)
def _block_sums(column, items, begin, end, weight, gain, a, b):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put sum v gain of a row's ratings into a, and sum weight v^2 into b; four at once are ten times as fast."""
    n = column.shape[0]
    whole = n - n % 4
    for k in range(begin, end):
        a[k], b[k] = 0.0, 0.0
    for e in range(0, whole, 4):
        v1, v2 = items[column[e]], items[column[e + 1]]
        v3, v4 = items[column[e + 2]], items[column[e + 3]]
        g1, g2, g3, g4 = gain[e], gain[e + 1], gain[e + 2], gain[e + 3]
        w1, w2, w3, w4 = weight[e], weight[e + 1], weight[e + 2], weight[e + 3]
        for k in range(begin, end):
            a[k] += (v1[k] * g1 + v2[k] * g2) + (v3[k] * g3 + v4[k] * g4)
            b[k] += (v1[k] * v1[k] * w1 + v2[k] * v2[k] * w2) + (v3[k] * v3[k] * w3 + v4[k] * v4[k] * w4)
    for e in range(whole, n):
        v, g, w = items[column[e]], gain[e], weight[e]
        for k in range(begin, end):
            a[k] += v[k] * g
            b[k] += v[k] * v[k] * w


@njit(fastmath=FAST, forceinline=True)
def _correct(column, items, begin, end, change, a):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Subtract sum v change of a row's ratings from a."""
    n = column.shape[0]
    whole = n - n % 4
    for e in range(0, whole, 4):
        v1, v2 = items[column[e]], items[column[e + 1]]
        v3, v4 = items[column[e + 2]], items[column[e + 3]]
        c1, c2, c3, c4 = change[e], change[e + 1], change[e + 2], change[e + 3]
        for k in range(begin, end):
            a[k] -= (v1[k] * c1 + v2[k] * c2) + (v3[k] * c3 + v4[k] * c4)
    for e in range(whole, n):
        v, c = items[column[e]], change[e]
        for k in range(begin, end):
            a[k] -= v[k] * c


@njit(fastmath=FAST, forceinline=True)
def _draw_held(row, column, table, counted, total, counter, step, weight, gain, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw, one after the other, whether a row holds each feature that other rows hold.

    `gain` is h - w x, the slope of each rating's log likelihood in its score. With a = sum v gain and b = sum w v^2, a
    feature's log likelihood ratio is a - b/2 if the row does not hold it now, and a + b/2 if it does. The sums of a
    block are computed at once; after a change, those of the block's later features are corrected.
    """
    Z, items, count, _ = table
    n, width = column.shape[0], Z.shape[1]
    a, b, change = np.empty(width), np.empty(width), np.empty(n)
    for begin in range(0, width, _BLOCK):
        end = width if width < begin + _BLOCK else begin + _BLOCK  # noqa: FURB136 - `min` is compiled apart
        _block_sums(column, items, begin, end, weight, gain, a, b)
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
                moved = sign * items[column[e], k]
                x[e] += moved
                change[e] = weight[e] * moved
                gain[e] -= change[e]
            _correct(column, items, k + 1, end, change, a)
    return counter


@njit(fastmath=FAST, forceinline=True)
def _drop_singletons(row, column, table, weight, gain, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Drop the features that only this row holds."""
    Z, items, count, _ = table
    for k in range(Z.shape[1]):
        if Z[row, k] and count[k] < 1.5:
            Z[row, k] = 0
            count[k] = 0.0
            for e in range(column.shape[0]):
                v = items[column[e], k]
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
def _add_features(row, column, columns, table, born, sigma, counter, step, ziggurat, weight, gain, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add new features of a row in free columns, and draw their item factors.

    Given lambda, the likelihood depends only on the sum of an item's new factors: they are drawn from the prior, then
    shifted equally so that their sum is a draw from its conditional.
    """
    Z, items, count, feature = table
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
    for e in range(column.shape[0]):
        j, drawn, grown = column[e], 0.0, 1.0 + wide * weight[e]
        for k in columns:
            drawn += items[j, k]
        z, counter = normal(counter, step, ziggurat)
        wanted = wide * gain[e] / grown + np.sqrt(wide / grown) * z
        for k in columns:
            items[j, k] += (wanted - drawn) / n_new
        x[e] += wanted
    return counter


@njit(fastmath=FAST)
def _draw_users(ends, start, columns, table, born, counted, total, ibp, precision, ziggurat, augmented, score):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw rows of Z from ends[0] on; return the first row that needs more columns, and `born`.

    `ends` are the rows to begin with, and the first and last one of `augmented`. `counted` is 1 if the rows are among
    the counts of holders, and 0 for new users, who get no new features.
    """
    (begin, first, last), (rate, max_new), (_, weights, pulls, streams) = ends, ibp, augmented
    log_p, added, gain = np.empty(max_new + 1), np.empty(max_new, np.int64), np.empty(weights.shape[0])
    for row in range(begin, last):
        n_free = 0
        for k in range(table[2].shape[0]):
            n_free += table[2][k] == 0.0
        if counted > 0.0 and n_free < max_new:
            return row, born
        column, x = columns[start[row] : start[row + 1]], score[start[row] : start[row + 1]]
        n, at = column.shape[0], start[row] - start[first]
        weight, pull = weights[at : at + n], pulls[at : at + n]
        for e in range(n):
            gain[e] = pull[e] - weight[e] * x[e]
        counter, step = streams[row - first, 0], streams[row - first, 1]
        counter = _draw_held(row, column, table, counted, total, counter, step, weight, gain, x)
        if counted > 0.0:
            _drop_singletons(row, column, table, weight, gain, x)
            new_feature_weights(n, rate, 1.0 / precision, weight, gain, log_p)
            u, counter = uniform(counter, step)
            n_new = _categorical(log_p, u)
            if n_new > 0:
                sigma = 1.0 / np.sqrt(precision)
                _add_features(row, column, added[:n_new], table, born, sigma, counter, step, ziggurat, weight, gain, x)
                born += n_new
    return last, born


def _augmented_users(
    rows: Rows, sums: Sums, Z: NDArray[np.uint8], items: Array, thresholds: Thresholds, model: Model, name: StreamName
) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
    """Yield the first and last row of each part with the variables that augment its ratings, in the order of the rows.

    Scores do not wait for the rows before: what a user holds does not change before its turn, nor do the factors.
    """
    held, n, total = feature_lists(Z), Z.shape[0], rows.column.size
    _score_rows(np.arange(n), rows.start, rows.column, items, held.start, held.feature, True, sums.score)
    cut = np.unique([0, *np.searchsorted(rows.start, np.arange(0, total, RATINGS)), n])
    for first, last in pairwise(cut.tolist()):
        order = np.arange(first, last)
        drawn = augment(rows, order, sums.score, thresholds, model, name)
        yield first, last, tuple(drawn)
        sum_thresholds(rows, order, drawn.share, model, sums)


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
    sums, more = _empty_sums(rows, thresholds), max_new + max(_MIN_GROWTH, width // 8)
    table: tuple[Any, ...] = state.users, state.items, state.users.sum(axis=0, dtype=np.float64), state.feature
    arguments = 1.0, float(n_users), (alpha / n_users, np.int64(max_new)), float(model.precision), ZIGGURAT
    begin, born, parts = 0, state.born, _augmented_users(rows, sums, state.users, state.items, thresholds, model, name)
    table = _with_columns(table, more)
    for first, last, drawn in parts:
        while True:
            ends = begin, first, last
            begin, born = _draw_users(ends, rows.start, rows.column, table, born, *arguments, drawn, sums.score)
            if begin == last:
                break
            table = _with_columns(table, more)
    Z, items, count, feature = table
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
    sums = _empty_sums(rows, thresholds)
    table = Z, items, np.asarray(holders, dtype=np.float64), np.zeros(0, np.int64)
    arguments = 0.0, n_before + 1.0, (0.0, np.int64(0)), float(model.precision), ZIGGURAT
    for first, last, drawn in _augmented_users(rows, sums, Z, items, thresholds, model, name):
        ends = first, first, last
        _draw_users(ends, rows.start, rows.column, table, 0, *arguments, drawn, sums.score)
    return sums


def _with_columns(table: tuple[Any, ...], more: int) -> tuple[Any, ...]:
    """Return tables with a number of empty columns added."""
    return tuple(np.pad(part, ((0, 0),) * (part.ndim - 1) + ((0, more),)) for part in table)


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
