"""Users with nearly as many coordinates, padded with coordinates that nobody compared: one stack of matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skpref._compiled.users import difference_covariances
from skpref.inference.basis import chunks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skpref._typing import Array, BoolArray, IntArray
    from skpref.gp.crowd.users import UserRows

_STACK = 2**16  # entries of one stack of matrices, which stay in the cache of a processor
_LEAST_STACK = 2**12  # entries of a stack that take as long as calling NumPy does
_MOST_PAIRS = 2**19  # pairs of what comparisons see that are worked on together: covariates make many
_NEAR = 0.8  # size of the smallest user of a stack, as a share of the largest


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

    def pairs(self) -> Iterator[tuple[slice, IntArray, IntArray, Array]]:
        """Yield some comparisons, pairs i <= j of what they see (p,), and how often they see both, halves if i = j."""
        i, j = np.triu_indices(self.at.shape[1])
        half = np.where(i == j, 0.5, 1.0)
        for some in chunks(self.rows.size, max(1, _MOST_PAIRS // i.size)):
            yield some, i, j, self.by[some][:, i] * self.by[some][:, j] * half

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
    of_pairs = by_pairs & (np.sum(sizes**2) > _LEAST_STACK)  # which are faster alone where they are many
    order = np.lexsort((sizes, of_pairs, *kinds))[::-1]
    keys, falling = np.column_stack([of_pairs, *kinds])[order], -sizes[order]
    ends = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
    for same, negative in zip(np.split(order, ends), np.split(falling, ends), strict=True):
        low = 0
        while low < same.size:
            n = max(-int(negative[low]), 1)
            near = int(np.searchsorted(negative[low:], -_NEAR * n, "right"))
            step = min(max(near, _LEAST_STACK // n**2), max(_STACK // n**2, 1))
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
    paired, single = bool(users.by_pairs[chosen].any()), bool(users.by_pairs[chosen].all())
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
    sign, extra = users.sign[rows], users.extra[rows]
    at_columns, by_columns = [users.a[rows, None]], [sign[:, None]]
    if not single:
        at_columns.append(np.maximum(users.b[rows, None], 0))
        by_columns.append(np.where(users.b[rows] >= 0, -sign, 0.0)[:, None])
    last = sizes[owner, None] - extra.shape[1] + np.arange(extra.shape[1])
    at, by = np.hstack([*at_columns, last]), np.hstack([*by_columns, extra])
    return Stack(number, there, first, second, own, part, paired, single, rows, owner, at, by)


def iterate_stacks(users: UserRows) -> Iterator[Stack]:
    """Yield the stacks of all users."""
    for chosen in split_by_size(np.diff(users.starts), users.by_pairs):
        yield stack_users(users, chosen)
