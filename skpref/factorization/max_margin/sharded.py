"""Ratings of a Gibbs chain in shards: on disk, or on the workers of a cluster.

A sweep takes items and users in turns. A shard holds all ratings of some items, or of some users, and draws their rows;
factors and thresholds of all are here between the rounds. Random streams are named by the numbers of the rows among
all, so that the chain is, to the bit, that of the same ratings in memory, whatever the shards.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._compiled.jit import limited_threads, n_threads
from skpref._compiled.m3f import Rows, Sums, Thresholds, draw_rows, hinge_losses, portions, scores
from skpref.data.ratings import Ratings, fingerprint
from skpref.data.shards import RatingCounts
from skpref.factorization.max_margin.m3f_chain import MarginProblem, rows_of
from skpref.factorization.policy import POLICY
from skpref.inference.shards import Shards, split_by_shard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skpref._compiled.m3f import Model, StreamName
    from skpref._typing import Array, IntArray
    from skpref.data.ratings import Duplicates
    from skpref.data.shards import RatingRows, RatingSummary
    from skpref.factorization.max_margin.m3f_chain import MarginPrior, Side
    from skpref.factorization.max_margin.posterior import RatingVocabularies
    from skpref.inference.gibbs import State

_NOTHING = np.zeros(0, np.int32), np.zeros(0, np.int16), np.ones(1)
_NO_ROWS = Rows(np.zeros(1, np.int64), *_NOTHING, portions(np.zeros(1, np.int64), 1))


class SideShards(NamedTuple):
    """Shards of the ratings by user, or by item."""

    rows: Sequence[Any]  # handles on the `Rows` of each, with weights as costs
    cuts: IntArray  # (n_shards + 1,): number of the first user or item of each
    sizes: IntArray  # (n_shards,): number of ratings of each

    @property
    def slices(self) -> list[slice]:
        """Users or items of each shard."""
        return [slice(first, last) for first, last in pairwise(self.cuts.tolist())]


@dataclass(frozen=True, eq=False)
class ShardedRatings:
    """Merged ratings in shards; it answers what a fit asks of `Ratings`."""

    shards: Shards
    by_user: SideShards
    by_item: SideShards
    n_levels: int

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(self.by_user.cuts[-1])

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.by_item.cuts[-1])

    @property
    def size(self) -> int:
        """Number of ratings."""
        return int(self.by_user.sizes.sum())

    def merged(self, *_: Any) -> ShardedRatings:
        """Return these ratings, which were merged when they were distributed."""
        return self

    def counts(self) -> RatingCounts:
        """Return what is left of the ratings after a fit."""
        return RatingCounts(self.n_users, self.n_items, self.n_levels, self.size)

    def fingerprint(self) -> NDArray[np.uint64]:
        """Return the numbers that the same ratings have in memory."""
        parts = self.shards.collect(_fingerprint, self.by_user.rows, self.by_user.cuts[:-1].tolist())
        return np.sum(list(parts), axis=0, dtype=np.uint64)

    def hold_out(self, rows: IntArray) -> tuple[Ratings, ShardedRatings]:
        """Bring some ratings here, by their numbers by user and item, ascending; and return the others."""
        parts = split_by_shard(rows, self.by_user.sizes)
        taken = list(self.shards.collect(_take_ratings, self.by_user.rows, self.by_user.cuts[:-1].tolist(), parts))
        user, item, level, weight = (np.concatenate(column) for column in zip(*taken, strict=True))
        held = Ratings(user, item, level, weight, self.n_users, self.n_items, self.n_levels)
        by_user, by_item = self._remove(self.by_user, user, item), self._remove(self.by_item, item, user)
        return held, replace(self, by_user=by_user, by_item=by_item)

    def _remove(self, side: SideShards, row: IntArray, column: IntArray) -> SideShards:
        own = [np.flatnonzero((row >= part.start) & (row < part.stop)) for part in side.slices]
        rows = [row[mine] - part.start for mine, part in zip(own, side.slices, strict=True)]
        _, kept = self.shards.keep(_remove_ratings, side.rows, rows, [column[mine] for mine in own])
        return SideShards(kept, side.cuts, side.sizes - np.array([mine.size for mine in own]))

    def problem(self, cost: float, prior: MarginPrior, n_factors: int, margin: float, dtype: Any) -> ShardedProblem:
        """Return the problem of these ratings."""
        parts = self.shards, self.by_user, self.by_item, cost
        return ShardedProblem(_NO_ROWS, _NO_ROWS, prior, n_factors, margin, np.dtype(dtype), *parts)


def _fingerprint(rows: Rows, first: int) -> NDArray[np.uint64]:
    user = first + np.repeat(np.arange(rows.start.size - 1), np.diff(rows.start))
    return fingerprint(user, rows.column, rows.level, np.ascontiguousarray(np.broadcast_to(rows.cost, user.shape)))


def _take_ratings(rows: Rows, first: int, position: IntArray) -> tuple[IntArray, IntArray, IntArray, Array]:
    """Return user, item, level and weight of some ratings of a shard."""
    user = first + np.searchsorted(rows.start, position, side="right") - 1
    weight = rows.cost[position] if rows.cost.size > 1 else np.full(position.size, rows.cost[0])
    return user, rows.column[position].astype(np.int64), rows.level[position].astype(np.int64), weight


def _remove_ratings(rows: Rows, row: IntArray, column: IntArray) -> tuple[None, Rows]:
    """Return a shard without some ratings."""
    kept, start = np.ones(rows.column.size, dtype=bool), rows.start
    for i, j in zip(row.tolist(), column.tolist(), strict=True):
        kept[start[i] + np.searchsorted(rows.column[start[i] : start[i + 1]], j)] = False
    n_rows = start.size - 1
    left = np.concatenate([[0], np.cumsum(np.diff(start) - np.bincount(row, minlength=n_rows))])
    cost = rows.cost[kept] if rows.cost.size > 1 else rows.cost
    return None, Rows(left, rows.column[kept], rows.level[kept], cost, rows.portions)


# ------------------------------------------------------------------------------------------------------- distribution
class _Merging(NamedTuple):
    """What merging needs beside the ratings."""

    n_others: int
    n_levels: int
    n_factors: int
    duplicates: Duplicates
    others: Any = None  # names for messages; None: numbers
    levels: Any = None


def sharded_ratings(
    shards: Shards,
    summaries: Sequence[RatingSummary],
    rows: Sequence[Any],
    vocabularies: RatingVocabularies,
    duplicates: Duplicates,
    n_factors: int,
    n_shards: int = 1,
) -> ShardedRatings:
    """Distribute the rows of shards, by user and by item, to new ones of about equal numbers of ratings."""
    users, items, levels = vocabularies
    user = [users.encode(s.users, noun="distinct id", kind="user").astype(np.int32) for s in summaries]
    item = [items.encode(s.items, noun="distinct id").astype(np.int32) for s in summaries]
    level = [s.levels if s.is_declared or not s.n_rows else np.searchsorted(levels, s.levels) for s in summaries]
    level = [np.arange(levels.size) if s.is_declared else number for s, number in zip(summaries, level, strict=True)]
    n_rows = sum(summary.n_rows for summary in summaries)
    n_shards = min(max(n_shards, -(-n_rows // POLICY.shard_ratings)), POLICY.most_shards)
    user_cuts = _cuts(user, [summary.user_counts for summary in summaries], users.size, n_shards)
    item_cuts = _cuts(item, [summary.item_counts for summary in summaries], items.size, n_shards)
    n_parts = user_cuts.size + item_cuts.size - 2
    sizes = [n_parts] * len(rows)
    of_rows = shards.split(_distribute, sizes, rows, user, item, level, shared=(user_cuts, item_cuts))
    pieces = list(zip(*of_rows, strict=True))  # of each new shard
    names = [users.ids[first:last] for first, last in pairwise(user_cuts.tolist())]
    merging = _Merging(items.size, levels.size, n_factors, duplicates, items.ids, levels)
    by_user = _merge(shards, pieces[: len(names)], user_cuts, names, merging)
    merging = _Merging(users.size, levels.size, n_factors, duplicates)
    by_item = _merge(shards, pieces[len(names) :], item_cuts, [None] * (item_cuts.size - 1), merging)
    return ShardedRatings(shards, by_user, by_item, levels.size)


def _cuts(numbers: Sequence[NDArray[Any]], counts: Sequence[NDArray[Any]], size: int, n_shards: int) -> IntArray:
    """Return where each of at most n shards of about equal numbers of ratings begins, and the last one ends."""
    total = np.zeros(size, dtype=np.int64)
    for number, count in zip(numbers, counts, strict=True):
        total[number] += count
    ends = np.cumsum(total)
    inner = np.searchsorted(ends, ends[-1] * np.arange(1, n_shards) // n_shards)
    return np.unique(np.concatenate([[0], inner, [size]])).astype(np.int64)


def _distribute(
    rows: RatingRows, user: NDArray[Any], item: NDArray[Any], level: IntArray, user_cuts: IntArray, item_cuts: IntArray
) -> list[tuple[Any, ...]]:
    """Return the rows of each new shard, in their order: number within it, the other's number, level, weight."""
    users, items, levels = user[rows.user], item[rows.item], level[rows.level].astype(np.int16)
    pieces = []
    for own, other, cuts in ((users, items, user_cuts), (items, users, item_cuts)):
        shard = (np.searchsorted(cuts, own, side="right") - 1).astype(np.int16)
        order = np.argsort(shard, kind="stable")
        place = np.searchsorted(shard[order], np.arange(cuts.size))
        for first, (begin, end) in zip(cuts.tolist(), pairwise(place.tolist()), strict=False):
            part = order[begin:end]
            weight = None if rows.weight is None else rows.weight[part]
            pieces.append(((own[part] - first).astype(np.int32), other[part].astype(np.int32), levels[part], weight))
    return pieces


def _merge(shards: Shards, pieces: Any, cuts: IntArray, names: list[Any], merging: _Merging) -> SideShards:
    by_piece = list(zip(*pieces, strict=True))
    sizes, rows = shards.keep(_merge_shard, np.diff(cuts).tolist(), names, *by_piece, shared=[shards.share(merging)])
    return SideShards(rows, cuts, np.array(sizes, dtype=np.int64))


def _merge_shard(n_rows: int, names: Any, *pieces_and_merging: Any) -> tuple[int, Rows]:
    """Return the number of merged ratings of a shard, and these, by row."""
    *pieces, merging = pieces_and_merging
    row, column, level = (np.concatenate(part) for part in list(zip(*pieces, strict=True))[:3])
    weight = np.concatenate([np.ones(part[0].size) if part[3] is None else part[3] for part in pieces])
    named = None if names is None else (names, merging.others, merging.levels)
    ratings = Ratings(row, column, level, weight, n_rows, merging.n_others, merging.n_levels)
    ratings = ratings.merged(merging.duplicates, named)
    return ratings.size, rows_of(ratings.by_user(), 1.0, merging.n_factors)


# --------------------------------------------------------------------------------------------------------- the problem
@dataclass(frozen=True, eq=False)
class ShardedProblem(MarginProblem):
    """A problem whose ratings are in shards; `users` and `items` have no rows."""

    shards: Shards = field(default_factory=Shards)
    by_user: Any = None  # SideShards
    by_item: Any = None
    cost: float = 1.0  # C

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(self.by_user.cuts[-1])

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.by_item.cuts[-1])

    def draw(
        self,
        side: Side,
        table: Array,
        other: Array,
        thresholds: Thresholds,
        model: Model,
        name: StreamName,
        *,
        with_sums: bool = False,
    ) -> tuple[bool, Sums]:
        """Draw the factors of users or of items given the others, in place; scores stay with the shards."""
        part: SideShards = self.by_user if side == "users" else self.by_item
        own = thresholds.owner == "row"
        theta = [thresholds.value[rows] if own else None for rows in part.slices]
        columns = part.rows, [table[rows] for rows in part.slices], theta, part.cuts[:-1].tolist()
        common = None if own else thresholds.value
        share = self.shards.share
        shared = share(other), share(common), thresholds.owner, self.cost, share(model), name
        if with_sums:
            drawn, score = self.shards.keep(_draw_rows_with_sums, *columns, shared=shared)
        else:
            drawn, score = list(self.shards.collect(_draw_rows, *columns, shared=shared)), None
        for rows, shard in zip(part.slices, drawn, strict=True):
            table[rows] = shard[1]
        precision, linear = (np.concatenate(sums) for sums in list(zip(*drawn, strict=True))[2:])
        return all(shard[0] for shard in drawn), Sums(precision, linear, score)  # type: ignore[arg-type]  # handles

    def losses(self, state: State, score: Any = None) -> Array:
        """Return C times the hinge loss of each user's ratings, of their scores if they are there, shape (n_users,)."""
        slices, items, theta = self.by_user.slices, None, np.ascontiguousarray(state["thresholds"])
        known, users = score, list[Any]([None] * len(slices))
        if score is None:
            items, known = np.ascontiguousarray(state["items"]), users
            users = [np.ascontiguousarray(state["users"][rows]) for rows in slices]
        own = [theta[rows] if len(theta) > 1 else theta for rows in slices]
        shared = self.shards.share(items), self.cost, self.margin
        return np.concatenate(list(self.shards.collect(_losses, self.by_user.rows, known, users, own, shared=shared)))


def _draw_rows(*entries: Any) -> tuple[bool, Array, Array, Array]:
    """Return whether all rows of a shard could be drawn, and the rows."""
    (finite, table, *_), _ = _draw_shard(*entries, with_sums=False)
    return finite, table, np.empty(0), np.empty(0)


def _draw_rows_with_sums(*entries: Any) -> tuple[tuple[bool, Array, Array, Array], Array]:
    """Return these, the sums of the conditional of the thresholds, and the scores of all ratings."""
    return _draw_shard(*entries, with_sums=True)


def _draw_shard(
    rows: Rows,
    table: Array,
    own: Array | None,
    first: int,
    other: Array,
    common: Array | None,
    owner: str,
    cost: float,
    model: Model,
    name: StreamName,
    *,
    with_sums: bool,
) -> tuple[tuple[bool, Array, Array, Array], Array]:
    # A copy: a shard whose worker was lost is drawn again from the same rows.
    table, theta = table.copy(), Thresholds(np.array(common if own is None else own), owner)
    of_shard = rows._replace(cost=cost * rows.cost)
    with limited_threads(n_threads()):
        part = name._replace(first=first)
        finite, sums = draw_rows(of_shard, table, other, theta, model, part, with_sums=with_sums)
    return (finite, table, sums.precision, sums.linear), sums.score


def _losses(
    rows: Rows, score: Array | None, users: Array | None, theta: Array, items: Array | None, cost: float, margin: float
) -> Array:
    """Return C times the hinge loss of the ratings of each user of a shard."""
    of_shard = rows._replace(cost=cost * rows.cost)
    if users is not None and items is not None:
        with limited_threads(n_threads()):
            score = scores(of_shard, users.copy(), items)
    return hinge_losses(of_shard, score, theta.copy(), margin)  # type: ignore[arg-type]  # one of the two is known
