"""Passes of the Gibbs sampler of the nonparametric model, where users hold features of an Indian buffet (section 8).

A user holds few of the features: item factors are drawn from sums over what their raters hold, never from products of
whole rows. Rows of Z are drawn one after the other, each given all others, as the exchangeable buffet demands; the
items' factors in parallel. Every row has a random stream of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from skpref._compiled.jit import njit
from skpref._compiled.m3f import FAST, Sums, all_well, augment, threshold_sums
from skpref._compiled.streams import ZIGGURAT, normal, open_stream, uniform
from skpref._compiled.tiles import factor, padded, solve_factored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._compiled.m3f import Model, Name, Rows, Thresholds
    from skpref._typing import Array, IntArray

_ROOM = 64  # columns that tables of features grow by at least
_BLOCK = 64  # features whose sums over a user's ratings are taken together
_LARGE = 1e150


@intrinsic
def _ones(typingctx, word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
    """Number of ones in a word."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, ARG001
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), emit


class Held(NamedTuple):
    """Which features each user holds, as lists behind one another and as bits."""

    start: IntArray
    feature: NDArray[np.int32]
    bits: NDArray[np.uint64]


class Buffet(NamedTuple):
    """Features, and who holds them."""

    users: NDArray[np.uint8]  # (n_users, K): z
    items: Array  # (n_items, K): factors
    feature: IntArray  # (K,): names of the features, ascending: a feature keeps its name while it lives
    born: int  # features named so far


@njit()
def _list_held(Z, start, feature, bits):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    place = 0
    for i in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            if Z[i, k]:
                feature[place] = k
                place += 1
                bits[i, k >> 6] |= np.uint64(1) << np.uint64(k & 63)
        start[i + 1] = place


def held_of(Z: NDArray[np.uint8]) -> Held:
    """List the features that each user holds."""
    n, width = Z.shape
    start, bits = np.zeros(n + 1, np.int64), np.zeros((n, -(-width // 64)), np.uint64)
    feature = np.empty(np.count_nonzero(Z), np.int32)
    _list_held(Z, start, feature, bits)
    return Held(start, feature, bits)


# --------------------------------------------------------------------------
# items


@njit(fastmath=FAST)
def _many_ratings(column, first, n, held, place, n_active, weight, pull, precision, P):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Precision matrix of the features that some rater holds, its linear term behind it as a further row."""
    held_start, feature, linear = held[0], held[1], P[P.shape[1]]
    mine = np.empty(n_active, np.int64)
    P[:] = 0.0
    for e in range(n):
        w, h, n_held = weight[e], pull[e], 0
        for s in range(held_start[column[first + e]], held_start[column[first + e] + 1]):
            mine[n_held] = place[feature[s]]
            n_held += 1
        for s in range(n_held):
            row = P[mine[s]]
            for t in range(s + 1):
                row[mine[t]] += w
            linear[mine[s]] += h
    for a in range(n_active):
        P[a, a] += precision


@njit(fastmath=FAST)
def _few_ratings(column, first, n, held, weight, pull, variance, noise, residual, P):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The same as `m3f._few_ratings`, where inner products are numbers of features in common."""
    held_start, feature, bits = held
    words = bits.shape[1]
    mine = np.empty((words, n), np.uint64)
    common = np.empty(n, np.int64)
    P[:] = 0.0
    for e in range(n):
        for word in range(words):
            mine[word, e] = bits[column[first + e], word]
    for a in range(n):
        i, root = column[first + a], np.sqrt(weight[a])
        common[: a + 1] = 0
        for word in range(words):
            own, row = mine[word, a], mine[word]
            for b in range(a + 1):
                common[b] += np.int64(_ones(own & row[b]))
        for b in range(a + 1):
            P[a, b] = variance * root * np.sqrt(weight[b]) * common[b]
        P[a, a] += 1.0
        total = 0.0
        for s in range(held_start[i], held_start[i + 1]):
            total += noise[feature[s]]
        P[P.shape[1], a] = (pull[a] / root if root > 0.0 else 0.0) - residual[a] - root * total


@njit(fastmath=FAST)
def _draw_many(rows, row, held, precision, work, place, n_active, items):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    start, column = rows[0], rows[1]
    P_flat, weight, pull, noise, _, solved = work
    behind = padded(n_active)
    P = P_flat[: (behind + 3) * behind].reshape(behind + 3, behind)
    _many_ratings(column, start[row], start[row + 1] - start[row], held, place, n_active, weight, pull, precision, P)
    if not factor(P, n_active):
        return False
    for k in range(items.shape[1]):
        if place[k] >= 0:
            solved[place[k]] = P[behind, place[k]] + noise[k]
    solve_factored(P, n_active, solved)
    for k in range(items.shape[1]):  # those that no rater holds have their prior
        items[row, k] = solved[place[k]] if place[k] >= 0 else noise[k] / np.sqrt(precision)
    return True


@njit(fastmath=FAST)
def _draw_few(rows, row, held, precision, work, items):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    start, column = rows[0], rows[1]
    held_start, feature = held[0], held[1]
    P_flat, weight, pull, noise, residual, solved = work
    first, n, variance = start[row], start[row + 1] - start[row], 1.0 / precision
    behind = padded(n)
    P = P_flat[: (behind + 3) * behind].reshape(behind + 3, behind)
    for k in range(items.shape[1]):
        noise[k] *= np.sqrt(variance)
    _few_ratings(column, first, n, held, weight, pull, variance, noise, residual, P)
    if not factor(P, n):
        return False
    for e in range(n):
        solved[e] = P[behind, e]
    solve_factored(P, n, solved)
    for k in range(items.shape[1]):
        items[row, k] = noise[k]
    for e in range(n):
        share = variance * np.sqrt(weight[e]) * solved[e]
        for s in range(held_start[column[first + e]], held_start[column[first + e] + 1]):
            items[row, feature[s]] += share
    return True


@njit(fastmath=FAST)
def _item_scores(rows, row, held, items, x, place):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Scores of an item's ratings; number the features that its raters hold, -1 for others, and tell how many."""
    start, column = rows[0], rows[1]
    held_start, feature = held[0], held[1]
    place[:] = -1
    for e in range(start[row + 1] - start[row]):
        i, total = column[start[row] + e], 0.0
        for s in range(held_start[i], held_start[i + 1]):
            total += items[row, feature[s]]
            place[feature[s]] = 0
        x[e] = total
    n_active = 0
    for k in range(place.shape[0]):
        if place[k] == 0:
            place[k] = n_active
            n_active += 1
    return n_active


@njit(nogil=True, fastmath=FAST)
def _items_task(task, rows, items, held, theta, whose, model, name, ziggurat):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw the items of one portion; tell whether all went well."""
    start, order, cut = rows[0], rows[4], rows[5]
    (margin, precision), (seed, sweep, block) = model, name
    width, longest = items.shape[1], 0
    for i in range(cut[task], cut[task + 1]):
        longest = max(longest, start[order[i] + 1] - start[order[i]])
    size = padded(width)
    P, place = np.empty((size + 3) * size), np.empty(width, np.int64)
    weight, pull, x = np.empty(longest), np.empty(longest), np.empty(longest)
    q, chance = np.empty(longest * theta.shape[1]), np.empty(longest * theta.shape[1])
    noise, residual, solved = np.empty(width), np.empty(size), np.empty(size)
    work = P, weight, pull, noise, residual, solved
    for i in range(cut[task], cut[task + 1]):
        row = order[i]
        n = start[row + 1] - start[row]
        counter, step = open_stream(seed, sweep, block, row)
        n_active = _item_scores(rows, row, held, items, x, place)
        counter = augment(rows, row, x, theta, whose, margin, counter, step, ziggurat, q, weight, pull, chance)
        for k in range(width):
            noise[k], counter = normal(counter, step, ziggurat)
        if n > (4 * n_active) // 5:
            well = _draw_many(rows, row, held, precision, work, place, n_active, items)
        else:
            for e in range(n):
                residual[e], counter = normal(counter, step, ziggurat)
            well = _draw_few(rows, row, held, precision, work, items)
        if not well:
            return False
    return True


def draw_items(
    rows: Rows, items: Array, Z: NDArray[np.uint8], thresholds: Thresholds, model: Model, name: Name
) -> bool:
    """Draw the factors of all items given what users hold, in place."""
    plain, held = (rows.start, rows.column, rows.level, rows.cost, *rows.portions), held_of(Z)
    whose = {"all": 0, "row": 1, "column": 2}[thresholds.of]
    numbers = (np.uint64(name.seed), np.int64(name.sweep), np.int64(name.block))
    scales = float(model.margin), float(model.precision)

    def portion(task: int) -> bool:
        return bool(_items_task(task, plain, items, tuple(held), thresholds.value, whose, scales, numbers, ZIGGURAT))

    return all_well(portion, rows.portions.cut.size - 1, 30 * held.feature.size + 8 * items.size)


# --------------------------------------------------------------------------
# users


@njit(fastmath=FAST)
def _block_sums(column, first, n, items, begin, end, weight, gain, a, b):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put a = sum v gain and b = sum weight v^2 of a row's ratings; four at once, ten times as fast as one by one."""
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


@njit(fastmath=FAST)
def _correct(column, first, n, items, begin, end, change, a):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Take sum v change from a, over a row's ratings."""
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


@njit(fastmath=FAST)
def _draw_held(rows, row, table, own, total, counter, step, work):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw, one after the other, whether a row holds each of the features that others hold.

    `gain` is h - w x, the slope of each rating's log likelihood in its score. With a = sum v gain and b = sum w v^2, a
    feature's log likelihood ratio is a - b/2 where the row does not hold it, and a + b/2 where it does. Sums of a block
    are taken at once; where a feature changes hands, those behind it in the block are corrected.
    """
    start, column = rows[0], rows[1]
    (Z, items, count, _), (weight, gain, x) = table, work
    first, n, width = start[row], start[row + 1] - start[row], Z.shape[1]
    a, b, change = np.empty(width), np.empty(width), np.empty(n)
    for begin in range(0, width, _BLOCK):
        end = min(begin + _BLOCK, width)
        _block_sums(column, first, n, items, begin, end, weight, gain, a, b)
        for k in range(begin, end):
            z = Z[row, k]
            others = count[k] - own * z
            if others <= 0.0:
                continue
            odds = np.log(others / (total - others)) + a[k] + (z - 0.5) * b[k]
            u, counter = uniform(counter, step)
            holds = u * (1.0 + np.exp(-odds)) < 1.0
            if holds == (z != 0):
                continue
            sign = 1.0 if holds else -1.0
            Z[row, k] = 1 if holds else 0
            count[k] += own * sign
            for e in range(n):
                moved = sign * items[column[first + e], k]
                x[e] += moved
                change[e] = weight[e] * moved
                gain[e] -= change[e]
            _correct(column, first, n, items, k + 1, end, change, a)
    return counter


@njit(fastmath=FAST)
def _drop_own(rows, row, table, work):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Drop the features that a row has to itself."""
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


@njit(fastmath=FAST)
def new_feature_weights(n, rate, variance, weight, gain, log_p):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put log probabilities, up to a constant, of the numbers of features that a row has to itself.

    Factors are integrated out. Those of k features enter by their sum alone, which is N(0, k sigma^2) before: instead
    of determinants and inverses of matrices of width k, (1 + k sigma^2 w)^(-1/2) exp(k sigma^2 gain^2 / (2 (1 + k
    sigma^2 w))) is left of each rating.
    """
    log_p[0], prior = 0.0, 0.0
    for k in range(1, log_p.shape[0]):
        prior += np.log(rate / k)
        wide, total, product = k * variance, 0.0, 1.0
        for e in range(n):
            grown = 1.0 + wide * weight[e]
            total += gain[e] * gain[e] * wide / grown
            # One logarithm for many ratings.
            if max(grown, product) > _LARGE:
                total -= np.log(product) + np.log(grown)
                product = 1.0
            else:
                product *= grown
        log_p[k] = prior + 0.5 * (total - np.log(product))


@njit(fastmath=FAST)
def _chosen(log_p, u):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    highest, mass, k = log_p.max(), 0.0, 0
    for i in range(log_p.shape[0]):
        log_p[i] = np.exp(log_p[i] - highest)
        mass += log_p[i]
    left = u * mass
    while k < log_p.shape[0] - 1 and left > log_p[k]:
        left -= log_p[k]
        k += 1
    return k


@njit(fastmath=FAST)
def _add_features(rows, row, room, table, born, sigma, counter, step, ziggurat, work):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Give a row new features in free columns, and draw their factors.

    Given lambda, the ratings say something about the sum of an item's new factors only: they are drawn from the prior
    and then shifted by equal shares to a sum that is drawn from its conditional.
    """
    start, column = rows[0], rows[1]
    (Z, items, count, feature), (weight, gain, x) = table, work
    n_new, k = room.shape[0], 0
    for new in range(n_new):
        while count[k] > 0.0:
            k += 1
        room[new] = k
        Z[row, k] = 1
        count[k] = 1.0
        feature[k] = born + new
        for j in range(items.shape[0]):
            z, counter = normal(counter, step, ziggurat)
            items[j, k] = sigma * z
    wide = n_new * sigma * sigma
    for e in range(start[row + 1] - start[row]):
        j, drawn, grown = column[start[row] + e], 0.0, 1.0 + wide * weight[e]
        for k in room:
            drawn += items[j, k]
        z, counter = normal(counter, step, ziggurat)
        wanted = wide * gain[e] / grown + np.sqrt(wide / grown) * z
        for k in room:
            items[j, k] += (wanted - drawn) / n_new
        x[e] += wanted
    return counter


@njit(fastmath=FAST)
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
def _users(rows, begin, table, born, own, total, buffet, theta, whose, model, name, ziggurat, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw rows of Z from `begin` on; return the row before which more columns are needed, and the features born."""
    (rate, most), (margin, precision), (seed, sweep, block) = buffet, model, name
    start, (n_rows, width) = rows[0], table[0].shape
    longest = np.diff(start).max() if n_rows else 0
    weight, pull, x, gain = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    q, chance = np.empty(longest * theta.shape[1]), np.empty(longest * theta.shape[1])
    log_p, room, held = np.empty(most + 1), np.empty(most, np.int64), np.empty(width, np.int64)
    work = weight, gain, x
    for row in range(begin, n_rows):
        if own > 0.0 and np.count_nonzero(table[2]) + most > width:
            return row, born
        n = start[row + 1] - start[row]
        counter, step = open_stream(seed, sweep, block, row)
        _user_scores(rows, row, table, held, x)
        counter = augment(rows, row, x, theta, whose, margin, counter, step, ziggurat, q, weight, pull, chance)
        for e in range(n):
            gain[e] = pull[e] - weight[e] * x[e]
        counter = _draw_held(rows, row, table, own, total, counter, step, work)
        if own > 0.0:
            _drop_own(rows, row, table, work)
            new_feature_weights(n, rate, 1.0 / precision, weight, gain, log_p)
            u, counter = uniform(counter, step)
            n_new = _chosen(log_p, u)
            if n_new > 0:
                sigma = 1.0 / np.sqrt(precision)
                counter = _add_features(rows, row, room[:n_new], table, born, sigma, counter, step, ziggurat, work)
                born += n_new
        threshold_sums(rows, row, x, margin, q, out)
    return n_rows, born


def draw_users(
    rows: Rows,
    buffet: Buffet,
    thresholds: Thresholds,
    alpha: float,
    max_new: int,
    model: Model,
    name: Name,
) -> tuple[Buffet, Sums]:
    """Draw what all users hold, one after the other, and the factors of features that come up.

    A row's lambda are drawn first; then each feature that others hold, by the odds of the buffet times the ratio of
    likelihoods; then the features that it has to itself, which are dropped and drawn anew, factors integrated out.
    """
    n_users, width = buffet.users.shape
    plain, whose = (rows.start, rows.column, rows.level, rows.cost), {"all": 0, "row": 1}[thresholds.of]
    numbers = (np.uint64(name.seed), np.int64(name.sweep), np.int64(name.block))
    scales, prior = (float(model.margin), float(model.precision)), (alpha / n_users, np.int64(max_new))
    sums = _no_sums(rows, thresholds)
    Z, items, feature = buffet.users, buffet.items, buffet.feature
    count = Z.sum(axis=0, dtype=np.float64)
    begin, born = 0, buffet.born
    while True:
        more = max_new + max(_ROOM, width // 8)
        Z, items = np.pad(Z, ((0, 0), (0, more))), np.pad(items, ((0, 0), (0, more)))
        count, feature = np.pad(count, (0, more)), np.pad(feature, (0, more))
        table = Z, items, count, feature
        given = 1.0, float(n_users), prior, thresholds.value, whose, scales, numbers, ZIGGURAT, tuple(sums)
        begin, born = _users(plain, begin, table, born, *given)
        if begin == n_users:
            break
    alive = np.flatnonzero(count)
    alive = alive[np.argsort(feature[alive])]
    # `take` writes rows behind one another, as the loops over ratings read them.
    return Buffet(Z.take(alive, axis=1), items.take(alive, axis=1), feature[alive], int(born)), sums


def draw_followers(
    rows: Rows,
    Z: NDArray[np.uint8],
    items: Array,
    holders: Array,
    n_before: float,
    thresholds: Thresholds,
    model: Model,
    name: Name,
) -> Sums:
    """Draw what new users hold of features that are there, each as the next customer of the buffet, in place."""
    plain, whose = (rows.start, rows.column, rows.level, rows.cost), {"all": 0, "row": 1}[thresholds.of]
    numbers = (np.uint64(name.seed), np.int64(name.sweep), np.int64(name.block))
    scales, prior = (float(model.margin), float(model.precision)), (0.0, np.int64(0))
    sums, feature = _no_sums(rows, thresholds), np.zeros(0, np.int64)
    count = np.asarray(holders, dtype=np.float64)
    table = Z, items, count, feature
    given = 0.0, n_before + 1.0, prior, thresholds.value, whose, scales, numbers, ZIGGURAT, tuple(sums)
    _users(plain, 0, table, 0, *given)
    return sums


def _no_sums(rows: Rows, thresholds: Thresholds) -> Sums:
    shape = rows.start.size - 1, thresholds.value.shape[1]
    return Sums(np.empty(shape), np.empty(shape), np.empty(rows.column.size))


# --------------------------------------------------------------------------
# the prior


@njit()
def _dine(seed, block, Z, count, n_new, begin, used):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(begin, Z.shape[0]):
        counter, step = open_stream(seed, 0, block, i)
        for k in range(used):
            u, counter = uniform(counter, step)
            if u * (i + 1.0) < count[k]:
                Z[i, k] = 1
                count[k] += 1.0
        for k in range(used, used + n_new[i - begin]):
            Z[i, k] = 1
            count[k] = 1.0
        used += n_new[i - begin]


def next_customers(seed: int, block: int, Z: NDArray[np.uint8], n_users: int, alpha: float) -> NDArray[np.uint8]:
    """Let further users choose from the Indian buffet, shape (n_users, K')."""
    n, width = Z.shape
    rates = alpha / np.arange(n + 1.0, n_users + 1.0)
    n_new = np.random.default_rng([seed, block, n]).poisson(rates)
    grown = np.zeros((n_users, width + int(n_new.sum())), np.uint8)
    grown[:n, :width] = Z
    count = grown.sum(axis=0, dtype=np.float64)
    _dine(np.uint64(seed), block, grown, count, n_new, n, width)
    return grown
