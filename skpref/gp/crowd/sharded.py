"""`CrowdGPPL` beyond memory: comparisons are brought into shards of whole users, and fitted by the hierarchy."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.data.comparisons import concatenated
from skpref.data.shards import ShardOptions, check_classes, without_repeats
from skpref.gp.crowd.consensus import MAX_WEIGHT, heaviest_user
from skpref.gp.crowd.fit_hierarchy import MAX_CHOICE
from skpref.gp.crowd.market import CrowdMarket
from skpref.gp.crowd.model import CrowdData
from skpref.gp.crowd.places import Places
from skpref.gp.crowd.shards import ShardedAnswers, shard_of
from skpref.gp.crowd.users import order_by_user
from skpref.gp.entities import Entities
from skpref.gp.pairwise.base import as_likelihood, connected_components
from skpref.gp.pairwise.fit import root_mean_square
from skpref.gp.pairwise.sharded import is_dated, numbered
from skpref.likelihoods import PairwiseTies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skpref._typing import Array, IntArray
    from skpref.data import Comparisons
    from skpref.data.shards import ShardSummary
    from skpref.gp.crowd.hierarchy import Hierarchy
    from skpref.inference.shards import Shards


class ShardedCrowd(CrowdMarket):
    """Fits of `CrowdGPPL` to comparisons that are not in memory."""

    def _shard_options(self) -> ShardOptions:
        """Return how rows are read: equal answers are merged, since `annotators` counts answers."""
        return ShardOptions(self.on_self, keep_order=self.order_effect, keep_ties=True)

    def _fit_shards(self, shards: Shards, summaries: list[ShardSummary], rows: list[Any]) -> None:
        """Fit to comparisons in shards, given their summaries and handles on the rows as read."""
        items, item_numbers, weight, component = numbered(self, summaries)
        users, user_numbers, counts = _numbered_users(self, summaries)
        kinds, levels = _numbered_groups(self, summaries)
        self.classes_ = check_classes([s.classes for s in summaries if s.classes is not None])
        n_shards = sum(summary.n_pairs > 0 for summary in summaries)
        n_read = sum(summary.n_pairs for summary in summaries)
        self._is_dated = is_dated(self.time, summaries)
        summaries.clear()  # they take 32 bytes for each id and shard
        if not n_read:
            connected_components(ShardedAnswers(shards, [], counts, 1, weight, component))  # refuses
        bounds = _bounds(counts, n_shards)
        numbers = item_numbers, user_numbers, levels
        parts = _parts_of_shards(shards, rows, numbers, bounds, items.seen.size)
        join = partial(_joined, keep_order=self.order_effect)
        of_shards, kept = shards.keep(join, *parts)
        sizes = np.array([part.n_pairs for part in of_shards], dtype=np.int64)
        answers = concatenated([replace(part, n_users=int(bounds[-1])) for part in of_shards])
        answers = replace(answers, user=np.asarray(answers.user) + np.repeat(bounds[:-1], sizes))
        del of_shards, parts
        comparisons = answers.renumbered(items.seen, items.vocabulary.size)  # by the vocabularies, as in memory
        of_users = {"user": users.seen[np.asarray(answers.user)], "n_users": users.vocabulary.size}
        comparisons = replace(comparisons, **of_users)
        if comparisons.covariates is not None:
            self._columns.check_sizes(comparisons.covariates)
            self._columns.check_varying(comparisons)
        self._name_groups(kinds)
        start = self._start_alike(users, items)
        if answers.n_pairs <= MAX_CHOICE or not self._takes_shards(answers):
            self._learn(users, items, self._merge(comparisons), start)
            return
        timeline = None if answers.time is None else self._timeline(answers, items, start)
        places = Places.from_comparisons(answers, order=self.order_effect, timeline=timeline)
        scale = np.ones(0)
        if answers.covariates is not None:
            scale = root_mean_square(answers.covariates, answers.weight)
        of_shard = partial(_hierarchy_of, laplace=self.inference == "laplace")
        _, kept = shards.keep(of_shard, kept, shared=(places, scale))
        columns = sizes, items.seen.size, weight, component, scale, bounds, answers, places
        sharded = ShardedAnswers(shards, kept, *columns)
        self.components_ = connected_components(sharded)
        data = CrowdData(items.seen_features, users.seen_features, sharded.empty(), sharded)
        self._infer_crowd(users, items, comparisons, data, start)

    def _takes_shards(self, answers: Comparisons) -> bool:
        """Tell whether a fit sees one shard of users after the other; all other fits are to comparisons in memory."""
        likelihood = as_likelihood(self.likelihood)
        shares_none = isinstance(likelihood, PairwiseTies) or not likelihood.has_parameters
        return shares_none and self._is_hierarchical(answers.n_items) and heaviest_user(answers) <= MAX_WEIGHT


def _parts_of_shards(
    shards: Shards,
    rows: list[Any],
    numbers: tuple[list[IntArray], list[IntArray], list[Any]],
    bounds: IntArray,
    n_items: int,
) -> list[list[Any]]:
    """Return for each place that was read handles on its comparisons for each shard of users; None without any."""
    items, users, levels = numbers
    targets = [np.unique(np.searchsorted(bounds, u[u >= 0], side="right") - 1) for u in users]
    sizes = [of_place.size for of_place in targets]
    parts = shards.split(_split, sizes, rows, items, users, levels, targets, shared=(bounds, n_items))
    rows.clear()
    columns: list[list[Any]] = [[None] * (bounds.size - 1) for _ in parts]
    for column, of_place, shard_numbers in zip(columns, parts, targets, strict=True):
        for number, part in zip(shard_numbers.tolist(), of_place, strict=True):
            column[number] = part
    return columns


def _numbered_users(estimator: Any, summaries: Sequence[ShardSummary]) -> tuple[Entities, list[IntArray], IntArray]:
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


def _numbered_groups(
    estimator: Any, summaries: Sequence[ShardSummary]
) -> tuple[tuple[Entities, ...], list[list[IntArray]]]:
    """Return the groups of each kind, and for each summary the numbers of its groups."""
    columns = [list(ids) for ids in zip(*(summary.groups for summary in summaries), strict=True)]
    kinds = tuple(Entities.read(None, *without_repeats(ids), estimator=estimator, kind="group") for ids in columns)
    pairs = [zip(kinds, summary.groups, strict=True) for summary in summaries]
    return kinds, [[kind.vocabulary.encode(ids, kind="group") for kind, ids in of_shard] for of_shard in pairs]


def _bounds(counts: IntArray, n_shards: int) -> IntArray:
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


def _hierarchy_of(answers: Comparisons, places: Places, scale: Array, *, laplace: bool) -> tuple[None, Hierarchy]:
    return None, shard_of(answers, places, scale, laplace=laplace)
