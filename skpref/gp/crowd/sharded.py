"""`CrowdGPPL` beyond memory: comparisons are brought into shards of whole users, and fitted by the hierarchy."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._sources import refuse_parameters
from skpref.data import Comparisons
from skpref.data.shards import ShardOptions, check_classes, without_repeats
from skpref.exceptions import DataError
from skpref.gp.crowd.fit_hierarchy import MAX_CHOICE, MAX_ITEMS, MAX_WEIGHT
from skpref.gp.crowd.leaderboards import CrowdLeaderboards
from skpref.gp.crowd.model import CrowdData
from skpref.gp.crowd.shards import ShardedAnswers, shard_of
from skpref.gp.entities import Entities
from skpref.gp.pairwise.base import as_likelihood, connected_components
from skpref.gp.pairwise.sharded import ReadsSources, numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skpref._typing import Array, IntArray
    from skpref.data.shards import ShardSummary
    from skpref.gp.crowd.hierarchy import Hierarchy
    from skpref.inference.shards import Shards

_Columns = tuple["IntArray", "IntArray", "IntArray", "Array", "Array"]  # user, left, right, y, weight


class ShardedCrowd(ReadsSources, CrowdLeaderboards):
    """Fits of `CrowdGPPL` to comparisons that are not in memory."""

    def _check_model(self) -> None:
        """Refuse parameters that need all comparisons in one place."""
        auto = self.inference == "auto"
        reasons = {
            f"inference={self.inference!r}": self.inference not in {"auto", "ep", "laplace"},
            f"covariates={self.covariates!r}": self.covariates is not None and len(self.covariates) > 0,
            f"groups={self.groups!r}": bool(self.groups),
            f"likelihood={self.likelihood!r}": as_likelihood(self.likelihood).has_parameters,
            f"optimizer={self.optimizer!r}": auto and not self._keeps_kernels(),
            f"n_factors={self.n_factors} with inference='auto'": auto and not self.n_factors,
        }
        refuse_parameters(
            reasons,
            'by inference="ep" or "laplace", without covariates or groups, by a likelihood without parameters of its '
            'own ("probit" or "logit")',
        )

    def _shard_options(self) -> ShardOptions:
        """Return how rows are read: equal answers are merged, since `annotators` counts answers."""
        return ShardOptions(self.on_self, keep_order=self.order_effect, keep_ties=True)

    def _fit_shards(self, shards: Shards, summaries: list[ShardSummary], rows: list[Any]) -> None:
        """Fit to comparisons in shards, given their summaries and handles on the rows as read."""
        items, item_numbers, weight, component = numbered(self, summaries)
        users, user_numbers, counts = _numbered_users(self, summaries)
        self.classes_ = check_classes([s.classes for s in summaries if s.classes is not None])
        n_shards = sum(summary.n_pairs > 0 for summary in summaries)
        n_read = sum(summary.n_pairs for summary in summaries)
        summaries.clear()  # they take 32 bytes for each id and shard
        if not n_read:
            connected_components(ShardedAnswers(shards, [], counts, 1, weight, component))  # refuses
        if n_read > MAX_CHOICE:
            self._check_items(items.seen.size)
        bounds = _bounds(counts, n_shards)
        parts = _parts_of_shards(shards, rows, (item_numbers, user_numbers), bounds)
        answers, kept = self._joined(shards, parts, bounds, items.seen.size)
        comparisons = _number_by_vocabulary(answers, bounds[:-1], users, items)
        of_user = np.concatenate([part.of_user for part in answers])
        sizes = np.array([part.of_user.sum() for part in answers], dtype=np.int64)
        del answers, parts
        sharded = ShardedAnswers(shards, kept, sizes, items.seen.size, weight, component, bounds, of_user)
        self._groups = ()
        warm = self.warm_start and getattr(self, "_warm_key", None) == self._model_digest(users, items)
        start = self._warm_start() if warm else None
        if sharded.n_pairs <= MAX_CHOICE:
            self._learn(users, items, self._merge(comparisons), start)
        else:
            _check_weights(comparisons)
            self.components_ = connected_components(sharded)
            data = CrowdData(items.seen_features, users.seen_features, sharded.empty(), sharded)
            self._infer_crowd(users, items, comparisons, data, start)

    def _check_items(self, n_items: int) -> None:
        """Refuse more items than have a full covariance."""
        if self.inference == "auto" and n_items > MAX_ITEMS:
            raise DataError(
                f"X compares {n_items} items; data on disk or on a cluster are fitted with up to {MAX_ITEMS}, whose "
                "covariance is learnt. Set inference='ep' for up to 2,000, take a sample into memory, or leave out "
                "items that are seldom compared"
            )

    def _joined(
        self, shards: Shards, parts: list[list[Any]], bounds: IntArray, n_items: int
    ) -> tuple[list[_Answers], list[Any]]:
        """Return the answers of each shard of users, and handles on the rows as the fit uses them."""
        join = partial(_joined, order=self.order_effect, laplace=self.inference == "laplace")
        sizes = np.diff(bounds).tolist()
        return shards.keep(join, sizes, [n_items] * len(sizes), *parts)


class _Answers(NamedTuple):
    """The merged answers of a shard's users."""

    user: IntArray  # (P,): numbers within the shard
    left: IntArray
    right: IntArray
    y: Array
    weight: Array
    of_user: IntArray  # (n_users,): numbers of comparisons that passes see of each


def _check_weights(comparisons: Comparisons) -> None:
    """Refuse weights that are too large for the hierarchy."""
    largest = float(comparisons.weight.max())
    if largest > MAX_WEIGHT:
        raise DataError(
            f"sample_weight: answers weigh up to {largest:.3g}; data on disk or on a cluster are fitted with weights "
            f"up to {MAX_WEIGHT:.0e}. Divide the weights"
        )


def _parts_of_shards(
    shards: Shards, rows: list[Any], numbers: tuple[list[IntArray], list[IntArray]], bounds: IntArray
) -> list[list[Any]]:
    """Return for each place that was read handles on its comparisons for each shard of users; None without any."""
    items, users = numbers
    targets = [np.unique(np.searchsorted(bounds, u[u >= 0], side="right") - 1) for u in users]
    parts = shards.split(_split, [of_place.size for of_place in targets], rows, items, users, targets, shared=(bounds,))
    rows.clear()
    columns: list[list[Any]] = [[None] * (bounds.size - 1) for _ in parts]
    for column, of_place, shard_numbers in zip(columns, parts, targets, strict=True):
        for number, part in zip(shard_numbers.tolist(), of_place, strict=True):
            column[number] = part
    return columns


def _number_by_vocabulary(answers: list[_Answers], first: IntArray, users: Entities, items: Entities) -> Comparisons:
    """Return the answers of all shards with users and items numbered by the vocabularies, as in memory."""
    user, left, right, y, weight = (np.concatenate(column) for column in list(zip(*answers, strict=True))[:5])
    user += np.repeat(first, [part.user.size for part in answers])
    sizes = items.vocabulary.size, users.seen[user], users.vocabulary.size
    return Comparisons(items.seen[left], items.seen[right], y, weight, *sizes)


def _numbered_users(estimator: Any, summaries: Sequence[ShardSummary]) -> tuple[Entities, list[IntArray], IntArray]:
    """Return the users, each summary's row numbers (-1: no comparisons), and the comparisons per user."""
    ids = [summary.users for summary in summaries if summary.users is not None and summary.users.size]
    users = Entities.read(estimator.users, *without_repeats(ids), estimator=estimator, kind="user")
    total = np.zeros(users.vocabulary.size, dtype=np.int64)
    rows = []
    for summary in summaries:
        assert summary.users is not None  # noqa: S101 - type narrowing: rows have users
        assert summary.pairs_of_user is not None  # noqa: S101
        rows.append(users.vocabulary.encode(summary.users, "X", noun="distinct id", kind="user"))
        np.add.at(total, rows[-1], summary.pairs_of_user)
    users = replace(users, seen=np.flatnonzero(total))
    position = users.position
    return users, [position[row] for row in rows], total[users.seen]


def _bounds(counts: IntArray, n_shards: int) -> IntArray:
    """Return the first user of each shard, and the number of users: shards have about as many comparisons each."""
    ends = np.cumsum(counts)
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, n_shards) / n_shards) + 1
    return np.unique(np.concatenate([[0], np.minimum(cuts, counts.size), [counts.size]]))


def _split(
    comparisons: Comparisons, items: IntArray, users: IntArray, targets: IntArray, bounds: IntArray
) -> list[_Columns]:
    """Return the comparisons that were read for each shard of users, by the numbers of items and of its users."""
    c = comparisons
    assert c.user is not None  # noqa: S101 - type narrowing
    user = users[c.user]
    shard = np.searchsorted(bounds, user, side="right") - 1
    parts = []
    for number in targets.tolist():
        rows = shard == number
        left, right = items[c.left[rows]], items[c.right[rows]]
        parts.append((user[rows] - bounds[number], left, right, c.y[rows], c.weight[rows]))
    return parts


def _joined(
    n_users: int, n_items: int, *parts: _Columns | None, order: bool, laplace: bool
) -> tuple[_Answers, Hierarchy]:
    """Return the answers of a shard's users, and the rows that the passes use."""
    user, left, right, y, weight = (
        np.concatenate(column) for column in zip(*(part for part in parts if part is not None), strict=True)
    )
    comparisons = Comparisons(left, right, y, weight, n_items, user, n_users)
    answers = comparisons.merged(keep_order=order, keep_ties=True)
    shard = shard_of(answers, order=order, laplace=laplace)
    user = np.asarray(answers.user).copy()
    return _Answers(user, answers.left, answers.right, answers.y, answers.weight, np.diff(shard.users.rows)), shard
