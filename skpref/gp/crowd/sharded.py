"""Comparisons of a crowd that are not in memory: they are brought into shards of whole users."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.data.comparisons import concatenated
from skpref.data.shards import without_repeats
from skpref.gp.crowd.places import Places
from skpref.gp.crowd.shards import shard_of
from skpref.gp.crowd.users import order_by_user
from skpref.gp.entities import Entities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skpref._typing import Array, IntArray
    from skpref.data import Comparisons
    from skpref.data.shards import ShardSummary
    from skpref.gp.crowd.hierarchy import Hierarchy
    from skpref.inference.shards import Shards


def join_users(
    shards: Shards,
    rows: list[Any],
    numbers: tuple[list[IntArray], list[IntArray], list[Any]],
    bounds: IntArray,
    n_items: int,
    *,
    keep_order: bool,
) -> tuple[Comparisons, list[Any], IntArray]:
    """Bring the rows of each user into one shard; return all answers, handles on the answers of each shard, and sizes.

    `numbers` are of the items, the users and the groups of each place that was read.
    """
    items, users, levels = numbers
    targets = [np.unique(np.searchsorted(bounds, u[u >= 0], side="right") - 1) for u in users]
    sizes = [of_place.size for of_place in targets]
    parts = shards.split(_split, sizes, rows, items, users, levels, targets, shared=(bounds, n_items))
    rows.clear()
    columns: list[list[Any]] = [[None] * (bounds.size - 1) for _ in parts]
    for column, of_place, shard_numbers in zip(columns, parts, targets, strict=True):
        for number, part in zip(shard_numbers.tolist(), of_place, strict=True):
            column[number] = part
    of_shards, kept = shards.keep(partial(_joined, keep_order=keep_order), *columns)
    n_pairs = np.array([part.n_pairs for part in of_shards], dtype=np.int64)
    answers = concatenated([replace(part, n_users=int(bounds[-1])) for part in of_shards])
    return replace(answers, user=np.asarray(answers.user) + np.repeat(bounds[:-1], n_pairs)), kept, n_pairs


def hierarchies_of(shards: Shards, kept: Any, places: Places, scale: Array) -> Any:
    """Return handles on the hierarchy of each shard of users."""
    return shards.keep(_hierarchy_of, kept, shared=(places, scale))[1]


def number_users(estimator: Any, summaries: Sequence[ShardSummary]) -> tuple[Entities, list[IntArray], IntArray]:
    """Return the users, each summary's row numbers (-1: no comparisons), and the comparisons per user."""
    ids = [summary.users for summary in summaries if summary.users is not None and summary.users.size]
    users = Entities.read(estimator.users, *without_repeats(ids), estimator=estimator, kind="user")
    total = np.zeros(users.vocabulary.size, dtype=np.int64)
    rows = []
    for summary in summaries:
        rows.append(users.vocabulary.encode(summary.users, "X", noun="distinct id", kind="user"))
        np.add.at(total, rows[-1], summary.pairs_of_user)
    users = replace(users, seen=np.flatnonzero(total))
    position = users.position
    return users, [position[row] for row in rows], total[users.seen]


def number_groups(
    estimator: Any, summaries: Sequence[ShardSummary]
) -> tuple[tuple[Entities, ...], list[list[IntArray]]]:
    """Return the groups of each kind, and for each summary the numbers of its groups."""
    columns = [list(ids) for ids in zip(*(summary.groups for summary in summaries), strict=True)]
    kinds = tuple(Entities.read(None, *without_repeats(ids), estimator=estimator, kind="group") for ids in columns)
    pairs = [zip(kinds, summary.groups, strict=True) for summary in summaries]
    return kinds, [[kind.vocabulary.encode(ids, kind="group") for kind, ids in of_shard] for of_shard in pairs]


def bounds_of(counts: IntArray, n_shards: int) -> IntArray:
    """Return the first user of each shard, and the number of users: shards have about as many comparisons each."""
    ends = np.cumsum(counts)
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, n_shards) / n_shards) + 1
    return np.unique(np.concatenate([[0], np.minimum(cuts, counts.size), [counts.size]]))


def _split(
    comparisons: Comparisons,
    items: IntArray,
    users: IntArray,
    levels: list[IntArray],
    targets: IntArray,
    bounds: IntArray,
    n_items: int,
) -> list[Comparisons]:
    """Return the comparisons that were read for each shard of users, by the numbers of items, groups and its users."""
    user = users[np.asarray(comparisons.user)]
    shard = np.searchsorted(bounds, user, side="right") - 1
    parts = []
    for number in targets.tolist():
        rows, first = shard == number, int(bounds[number])
        own = replace(comparisons.take(rows), user=user[rows] - first, n_users=int(bounds[number + 1]) - first)
        if own.group is not None:
            own = replace(own, group=np.column_stack([level[k] for level, k in zip(levels, own.group.T, strict=True)]))
        parts.append(own.renumbered(items, n_items))
    return parts


def _joined(*parts: Comparisons | None, keep_order: bool) -> tuple[Comparisons, Comparisons]:
    """Return the merged answers of a shard's users, sorted by user."""
    merged = concatenated([part for part in parts if part is not None]).merged(keep_order=keep_order, keep_ties=True)
    answers = merged.take(order_by_user(merged))
    return answers, answers


def _hierarchy_of(answers: Comparisons, places: Places, scale: Array) -> tuple[None, Hierarchy]:
    return None, shard_of(answers, places, scale)
