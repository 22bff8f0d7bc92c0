"""The comparisons of each user in coordinates of the user's own, as few as possible."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from skpref._compiled.users import difference_covariances
from skpref.gp.crowd.policy import POLICY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skpref._typing import Array, BoolArray, IntArray
    from skpref.data import Comparisons


@dataclass(frozen=True, eq=False)
class UserRows:
    """Comparisons sorted by user, and each user's coordinates: the compared pairs, or the items in them."""

    user: IntArray  # (P,)
    left: IntArray  # (P,)
    right: IntArray  # (P,)
    n_items: int  # each slope and each column of `extra` counts as one more item
    starts: IntArray  # (U + 1,): first coordinate of each user
    first: IntArray  # (C,): a coordinate is the row e_first - e_second of the items
    second: IntArray  # (C,): -1 where it is an item
    by_pairs: BoolArray  # (U,): whether the coordinates are pairs
    rows: IntArray  # (U + 1,): first comparison of each user
    a: IntArray  # (P,): z = sign (g_a - g_b) + sign x (their slopes) + extra @ the user's last coordinates
    b: IntArray  # (P,): -1 where the coordinate is a pair
    sign: Array  # (P,)
    extra: Array  # (P, E): covariates, and ones where there is an order effect: its advantage is that of the left side
    item: IntArray | None  # (n_items,): where columns are items in groups, the item of each; -1 for slopes, covariates
    part: IntArray  # (C,): number of a coordinate among the user's own parts, which all groups of an item share
    # (P, K): numbers x of context, by which comparisons see slopes of their items; each pair or item of a user has K
    context: Array

    @classmethod
    def from_comparisons(
        cls,
        user: IntArray,
        left: IntArray,
        right: IntArray,
        extra: Array,
        sizes: tuple[int, int],
        item: IntArray | None = None,
        context: Array | None = None,
    ) -> UserRows:
        """Return the rows of comparisons that are sorted by user; `sizes` are the numbers of users and items."""
        (n_users, n_items), n_extra = sizes, extra.shape[1]
        context = np.zeros((user.size, 0)) if context is None else context
        users = np.arange(n_users + 1)
        if not n_items:  # all that is compared is in `extra`
            at, none = np.zeros(user.size, dtype=np.int64), np.full(n_users * n_extra, -1)
            starts, first = n_extra * users, np.tile(np.arange(n_extra), n_users)
            by_pairs, rows, sign = np.zeros(n_users, dtype=bool), np.searchsorted(user, users), np.zeros(user.size)
            coordinates = starts, first, none, by_pairs, rows, at, at - 1, sign, extra
            return cls(user, left, right, n_extra, *coordinates, None, first, context)
        low, high = np.minimum(left, right), np.maximum(left, right)
        pairs, pair_of = np.unique((user * n_items + low) * n_items + high, return_inverse=True)
        items, item_of = np.unique(
            np.concatenate([user, user]) * n_items + np.concatenate([left, right]), return_inverse=True
        )
        first_pair = np.searchsorted(pairs, users * n_items * n_items)
        first_item = np.searchsorted(items, users * n_items)
        n_pairs, n_own_items = np.diff(first_pair), np.diff(first_item)
        by_pairs = (n_pairs <= n_own_items) & (not n_extra)
        if item is not None and not n_extra:  # what is the user's own counts, too
            sides = item[pairs // n_items % n_items], item[pairs % n_items]
            own_pairs = _count_distinct(pairs // n_items**2, sides, n_users)
            own_items = _count_distinct(items // n_items, (item[items % n_items],), n_users)
            by_pairs = n_pairs**2 * own_pairs <= n_own_items**2 * own_items
        n_core, n_columns = np.where(by_pairs, n_pairs, n_own_items), n_items if item is None else item.size - n_extra
        starts = np.concatenate([[0], np.cumsum((1 + context.shape[1]) * n_core + n_extra)])
        first, second = np.empty(starts[-1], dtype=np.int64), np.full(starts[-1], -1)
        for k in range(n_extra):
            first[starts[1:] - n_extra + k] = n_columns + k
        # Where a user's pairs (or items) go: as many places on as the user's coordinates begin later.
        place_of_pair = np.arange(pairs.size) + np.repeat(starts[:-1] - first_pair[:-1], n_pairs)
        place_of_item = np.arange(items.size) + np.repeat(starts[:-1] - first_item[:-1], n_own_items)
        used = np.repeat(by_pairs, n_pairs)
        first[place_of_pair[used]] = pairs[used] // n_items % n_items
        second[place_of_pair[used]] = pairs[used] % n_items
        used = np.repeat(~by_pairs, n_own_items)
        first[place_of_item[used]] = items[used] % n_items
        for k in range(context.shape[1]):  # slopes stand after what they are slopes of
            core = _ranges(starts[:-1], n_core)
            slope = core + (k + 1) * np.repeat(n_core, n_core)
            for side in (first, second):
                side[slope] = np.where(side[core] < 0, -1, _slopes(side[core], item, (n_items, context.shape[1]), k))
        local_item = place_of_item - np.repeat(starts[:-1], n_own_items)
        local_pair = place_of_pair - np.repeat(starts[:-1], n_pairs)
        pairwise, (at_left, at_right) = by_pairs[user], np.split(local_item[item_of], 2)
        a = np.where(pairwise, local_pair[pair_of], at_left)
        b = np.where(pairwise, -1, at_right)
        sign = np.where(pairwise & (left > right), -1.0, 1.0)
        rows = np.searchsorted(user, users)
        coordinates = starts, first, second, by_pairs, rows, a, b, sign, extra
        parts = _own_parts(starts, first, second, item)
        return cls(user, left, right, n_columns + n_extra, *coordinates, item, parts, context)

    def take(self, rows: BoolArray, users: BoolArray | None = None) -> UserRows:
        """Return some comparisons, of all users or of the chosen ones (U,), who are numbered anew."""
        user, n_users = self.user[rows], self.starts.size - 1
        if users is not None:
            user, n_users = (np.cumsum(users) - 1)[user], int(users.sum())
        columns = self.left[rows], self.right[rows], self.extra[rows]
        return UserRows.from_comparisons(user, *columns, (n_users, self.n_places), self.item, self.context[rows])

    @property
    def n_places(self) -> int:
        """Number of items, in groups, without their slopes."""
        n = self.n_items - self.extra.shape[1]
        return n - int((self.item[:n] < 0).sum()) if self.item is not None else n

    def design(self) -> Array:
        """Return what comparisons see of the items, z = rows @ items, shape (P, n_items)."""
        rows, at = np.zeros((self.left.size, self.n_items)), np.arange(self.left.size)
        for side, sign in ((self.left, 1.0), (self.right, -1.0)):
            rows[at, side] += sign
            for k, x in enumerate(self.context.T):
                rows[at, _slopes(side, self.item, (self.n_places, self.context.shape[1]), k)] += sign * x
        rows[:, self.n_items - self.extra.shape[1] :] = self.extra
        return rows

    @cached_property
    def stacks(self) -> list[Stack]:
        """The users in stacks."""
        return list(iterate_stacks(self))

    @property
    def owner(self) -> IntArray:
        """User of each coordinate, shape (C,)."""
        return np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts))

    def incidence(self, weight: Array) -> sparse.csr_array:
        """Return the rows A of the coordinates, times `weight`, shape (C, n_items)."""
        ends = np.concatenate([[0], np.cumsum(1 + (self.second >= 0))])
        columns, values = np.empty(ends[-1], dtype=np.int64), np.empty(ends[-1])
        # Where a coordinate is an item, its only entry is written last.
        columns[ends[1:] - 1], values[ends[1:] - 1] = self.second, -weight
        columns[ends[:-1]], values[ends[:-1]] = self.first, weight
        return sparse.csr_array((values, columns, ends), shape=(ends.size - 1, self.n_items))

    def map_to_coordinates(self, rows: Array) -> Array:
        """Return A rows, shape (C, p), a row for each coordinate, from rows of the items, shape (n_items, p)."""
        values, paired = rows[self.first], self.second >= 0
        values[paired] -= rows[self.second[paired]]
        return values

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without cached values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def user_rows(self, user: int) -> Array:
        """Return the rows A of one user's coordinates, shape (n, n_items)."""
        own = slice(self.starts[user], self.starts[user + 1])
        first, second = self.first[own], self.second[own]
        rows, paired = np.zeros((first.size, self.n_items)), np.flatnonzero(second >= 0)
        rows[np.arange(first.size), first] = 1.0
        rows[paired, second[paired]] -= 1.0
        return rows

    def seen_rows(self, user: int) -> Array:
        """Return what one user's comparisons see of the coordinates, z = rows @ coordinates, shape (q, n)."""
        own, n = slice(*self.rows[user : user + 2]), int(self.starts[user + 1] - self.starts[user])
        a, b, extra = self.a[own], self.b[own], self.extra[own]
        rows, at, paired = np.zeros((a.size, n)), np.arange(a.size), b >= 0
        for step, by in self.coordinates_seen(own, np.full(a.size, n)):
            rows[at, a + step] = by
            rows[at[paired], (b + step)[paired]] = -by[paired]
        rows[:, n - extra.shape[1] :] += extra
        return rows

    def coordinates_seen(self, rows: Any, n: IntArray) -> Iterator[tuple[IntArray, Array]]:
        """Yield where coordinates and then their slopes stand, from the first, and how comparisons see them, (q,) each.

        `n` has the number of coordinates of the user of each comparison.
        """
        n_core = (n - self.extra.shape[1]) // (1 + self.context.shape[1])
        for k, x in enumerate([1.0, *self.context[rows].T]):
            yield k * n_core, self.sign[rows] * x

    def sum_by_user(self, weight: Array) -> sparse.csr_array:
        """Return the sums of weight times rows over each user's coordinates, A_u^T weight, shape (U, n_items)."""
        n_users, parts = self.starts.size - 1, []
        # Some users at a time: sparse matrices of all coordinates take ten times what their sums do.
        for low in range(0, n_users, POLICY.users_at_once) or [0]:
            starts = self.starts[low : low + POLICY.users_at_once + 1]
            own = slice(starts[0], starts[-1])
            rows = replace(self, first=self.first[own], second=self.second[own]).incidence(weight[own])
            n = rows.shape[0]
            sums = sparse.csr_array((np.ones(n), np.arange(n), starts - starts[0]), shape=(starts.size - 1, n))
            parts.append(sums @ rows)
        return parts[0] if len(parts) == 1 else sparse.vstack(parts, format="csr")


def _slopes(place: IntArray, item: IntArray | None, sizes: tuple[int, int], k: int) -> IntArray:
    """Return the places of slope k of the items at places; `sizes` are the numbers of places and of slopes an item."""
    return np.asarray(sizes[0] + np.asarray(item)[place] * sizes[1] + k)


def _count_distinct(user: IntArray, columns: tuple[IntArray, ...], n_users: int) -> IntArray:
    """Return the number of different rows of each user, shape (n_users,)."""
    rows = np.unique(np.column_stack([user, *columns]), axis=0)
    return np.bincount(rows[:, 0], minlength=n_users)


def _own_parts(starts: IntArray, first: IntArray, second: IntArray, item: IntArray | None) -> IntArray:
    """Return the number of each coordinate among its user's own parts, in the order of the coordinates."""
    local = np.arange(first.size) - np.repeat(starts[:-1], np.diff(starts))
    if item is None:
        return local
    user = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    # What users share alone, covariates and slopes, has no own part: all of it stands for one of variance 0.
    sides = [np.where(item[side] < 0, item.size, item[side]) for side in (first, np.maximum(second, 0))]
    sides[1][second < 0] = -1
    _, index, number = np.unique(np.column_stack([user, *sides]), axis=0, return_index=True, return_inverse=True)
    order = np.argsort(index, kind="stable")  # by the first coordinate of each part
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    before = np.searchsorted(user[index[order]], np.arange(starts.size - 1))
    return np.asarray(rank[number.ravel()] - before[user])


def order_by_user(c: Comparisons) -> IntArray:
    """Return the order of comparisons by user, and then by group and pair."""
    if c.stage is not None:  # pairs of a choice stand together, in their order
        return np.lexsort((c.stage, np.asarray(c.user)))
    time = () if c.time is None else (c.time,)
    return np.lexsort((*time, c.right, c.left, *(() if c.group is None else c.group.T[::-1]), np.asarray(c.user)))


def effect_columns(c: Comparisons, scale: Array, *, order: bool) -> Array:
    """Return what effects multiply: covariates in units of `scale`, and ones for the left side, shape (P, E)."""
    covariates = np.zeros((c.y.size, 0)) if c.covariates is None else c.covariates / scale
    return np.hstack([covariates, np.ones((c.y.size, int(order)))])


# ----------- users with nearly as many coordinates, padded with coordinates that nobody compared: one stack of matrices


class Stack(NamedTuple):
    """Some users, and the places of their comparisons among their coordinates."""

    number: IntArray  # (m, n): number of each coordinate among all, 0 where there is none
    there: BoolArray  # (m, n)
    first: IntArray  # (m, n): its items, the number of items where there is none
    second: IntArray  # (m, n)
    own: tuple[IntArray, IntArray]  # the same of the own parts, shapes (m, r)
    part: IntArray | None  # (m, n): own part of each coordinate; None where these are the same
    paired: bool  # whether a coordinate may be a pair
    single: bool  # whether comparisons see single coordinates
    rows: IntArray  # (q,): the comparisons of these users
    owner: IntArray  # (q,): their users, as rows of this stack
    at: IntArray  # (q, c): the coordinates that each sees
    by: Array  # (q, c): how often it sees each

    def covariance(self, S: Array) -> Array:
        """Return the covariance of the coordinates, shape (m, n, n), from S of the items and none."""
        return np.asarray(difference_covariances(S, self.first, self.second, self.paired))

    def own_covariance(self, S: Array) -> Array:
        """Return the covariance of the own parts, shape (m, r, r)."""
        return np.asarray(difference_covariances(S, *self.own, self.paired))

    def differences(self, values: Array) -> Array:
        """Return A values, shape (m, n), from the values of items and none."""
        return np.asarray(values[self.first] - values[self.second])

    def expanded(self, x: Array) -> Array:
        """Return E x, shape (m, n), of vectors of the own parts."""
        return x if self.part is None else np.take_along_axis(x, self.part, 1)

    def summed(self, x: Array) -> Array:
        """Return E^T x, shape (m, r), of vectors of the coordinates that are zero where there is none."""
        if self.part is None:
            return x
        return sum_at(self.own[0].shape, (np.arange(len(x))[:, None], self.part), x)

    def parts_of(self, at: IntArray) -> IntArray:
        """Return the own parts of coordinates of the comparisons, (q, c)."""
        return at if self.part is None else self.part[self.owner[:, None], at]


def sum_at(shape: tuple[int, ...], at: tuple[IntArray, ...], values: Array) -> Array:
    """Return an array of zeros with values added at indices that may repeat."""
    flat = at[0]
    for size, index in zip(shape[1:], at[1:], strict=True):
        flat = flat * size + index
    sums = np.bincount(flat.ravel(), values.ravel(), minlength=math.prod(shape))
    return np.asarray(sums.reshape(shape), dtype=np.float64)


def split_by_size(sizes: IntArray, by_pairs: BoolArray, *kinds: IntArray) -> Iterator[IntArray]:
    """Yield positions of the same kinds and nearly the same size, or few, so that matrices stay in the cache."""
    of_pairs = by_pairs & (np.sum(sizes**2) > POLICY.least_stack)  # which are faster alone where they are many
    order = np.lexsort((sizes, of_pairs, *kinds))[::-1]
    keys, falling = np.column_stack([of_pairs, *kinds])[order], -sizes[order]
    ends = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
    for same, negative in zip(np.split(order, ends), np.split(falling, ends), strict=True):
        low = 0
        while low < same.size:
            n = max(-int(negative[low]), 1)
            near = int(np.searchsorted(negative[low:], -POLICY.near_size * n, "right"))
            step = min(max(near, POLICY.least_stack // n**2), max(POLICY.stack // n**2, 1))
            yield same[low : low + step]
            low += step


def _ranges(starts: IntArray, sizes: IntArray) -> IntArray:
    """Return starts[k], ..., starts[k] + sizes[k] - 1 for each k, one after the other."""
    before = np.cumsum(sizes) - sizes
    return np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)


def stack_users(users: UserRows, chosen: IntArray) -> Stack:
    """Return the coordinates and comparisons of some users."""
    starts, none = users.starts[chosen], users.n_items
    sizes = users.starts[chosen + 1] - starts
    there = np.arange(sizes.max(initial=0)) < sizes[:, None]
    number = np.where(there, starts[:, None] + np.arange(there.shape[1]), 0)
    paired = bool(users.by_pairs[chosen].any())
    single = bool(users.by_pairs[chosen].all()) and not users.context.shape[1]
    first = np.where(there, users.first[number], none)
    second = np.where(there & (users.second[number] >= 0), users.second[number], none)
    own, part, parts = (first, second), None, np.where(there, users.part[number], -1)
    if not np.array_equal(parts, np.where(there, np.arange(there.shape[1]), -1)):
        part, sides = np.maximum(parts, 0), np.full((2, chosen.size, int(parts.max()) + 2), none)
        for side, items in zip(sides, own, strict=True):
            np.put_along_axis(side, parts, items, 1)  # the last column is of what is not there
        own = sides[0, :, :-1].copy(), sides[1, :, :-1].copy()
    n_rows = users.rows[chosen + 1] - users.rows[chosen]
    rows, owner = _ranges(users.rows[chosen], n_rows), np.repeat(np.arange(chosen.size), n_rows)
    extra = users.extra[rows]
    at_columns: list[IntArray] = []
    by_columns: list[Array] = []
    for step, seen in users.coordinates_seen(rows, sizes[owner]):
        at_columns.append((users.a[rows] + step)[:, None])
        by_columns.append(seen[:, None])
        if not single:
            at_columns.append(np.maximum(users.b[rows] + step, 0)[:, None])
            by_columns.append(np.where(users.b[rows] >= 0, -seen, 0.0)[:, None])
    last = sizes[owner, None] - extra.shape[1] + np.arange(extra.shape[1])
    at, by = np.hstack([*at_columns, last]), np.hstack([*by_columns, extra])
    return Stack(number, there, first, second, own, part, paired, single, rows, owner, at, by)


def iterate_stacks(users: UserRows) -> Iterator[Stack]:
    """Yield the stacks of all users."""
    for chosen in split_by_size(np.diff(users.starts), users.by_pairs):
        yield stack_users(users, chosen)
