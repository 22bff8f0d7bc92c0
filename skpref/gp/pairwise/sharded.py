"""Fits to comparisons in shards: one vocabulary, one numbering of the items, and the problem over all shards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components as components_of

from skpref.data import Comparisons
from skpref.data.labels import refuse_one_side
from skpref.data.shards import (
    ComparisonCounts,
    ShardColumns,
    ShardOptions,
    check_classes,
    dataset_columns,
    dataset_shards,
    with_shared_ids,
    without_repeats,
)
from skpref.exceptions import DataError
from skpref.gp.entities import Entities
from skpref.gp.pairwise.base import ComparisonClassifier, as_likelihood, connected_components
from skpref.gp.pairwise.columns import refuse_two_weights
from skpref.gp.pairwise.fit import HYPER_PAIRS, PairData
from skpref.inference.shards import OnDisk, ShardedProblem, ShardRows, summed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skpref._typing import Array, Features, IntArray
    from skpref.data.shards import ShardSummary
    from skpref.inference.basis import InducingBasis
    from skpref.inference.shards import Shards
    from skpref.inference.svi import Problem

_FULL_PASSES = "auto", "vb", "laplace"


@dataclass(frozen=True, eq=False)
class ShardedComparisons:
    """Comparisons of items 0 to n_items - 1 in shards; it answers what a fit asks of `Comparisons`."""

    shards: Shards
    rows: Sequence[Any]  # handles on the `ShardRows`
    sizes: IntArray  # (n_shards,): number of comparisons of each
    n_items: int
    weight_of_item: Array  # (n_items,): total weight of the comparisons of each item
    component: IntArray  # (n_items,): connected component of each item

    @property
    def n_pairs(self) -> int:
        """The number of comparisons, each merged within its shard."""
        return int(self.sizes.sum())

    def components(self) -> tuple[int, IntArray]:
        """Return the number of connected components and that of each item."""
        return int(self.component.max(initial=-1)) + 1, self.component

    def within_shards(self, index: IntArray) -> list[IntArray]:
        """Return the numbers within each shard of some comparisons; theirs, ascending, count from shard to shard."""
        ends = np.cumsum(self.sizes)
        parts = np.split(index, np.searchsorted(index, ends)[:-1])
        return [part - end + size for part, end, size in zip(parts, ends, self.sizes, strict=True)]

    def take(self, index: IntArray) -> Comparisons:
        """Bring some comparisons here; the numbers, ascending, count from shard to shard."""
        columns = list(self.shards.collect(_taken, self.rows, self.within_shards(index)))
        left, right, y, weight = (np.concatenate(column) for column in zip(*columns, strict=True))
        return Comparisons(left, right, y, weight, self.n_items)

    def problem(self, template: Problem, basis: InducingBasis | None, X: Features) -> ShardedProblem:
        """Return the problem over all comparisons with the terms, likelihood and rule of a template."""
        problem = ShardedProblem.of(template, self.shards, self.rows, self.n_pairs)
        has_residual = any(term.residual is not None for term in template.terms.values())
        return problem.with_residuals(basis, X) if has_residual and basis is not None else problem


def _taken(rows: ShardRows, index: IntArray) -> tuple[IntArray, IntArray, Array, Array]:
    return rows.left[index], rows.right[index], rows.y[index], rows.weight[index]


def _renumbered(comparisons: Comparisons, number: IntArray) -> tuple[None, ShardRows]:
    """Return the comparisons of a shard by the items' numbers in all shards."""
    c = comparisons
    return None, ShardRows(number[c.left], number[c.right], c.y.copy(), c.weight.copy())


def check_model(estimator: Any) -> None:
    """Refuse parameters of an estimator that need all comparisons in one place."""
    reasons = {
        f"inference={estimator.inference!r}": str(estimator.inference) not in _FULL_PASSES,
        f"covariates={estimator.covariates!r}": estimator.covariates is not None and len(estimator.covariates) > 0,
        f"likelihood={estimator.likelihood!r}": as_likelihood(estimator.likelihood).has_parameters,
    }
    for parameter, refused in reasons.items():
        if refused:
            raise DataError(
                f"{parameter} needs all comparisons in memory; data on disk or on a cluster are fitted in full passes "
                'by inference="vb" or "laplace", without covariates, by a likelihood without parameters of its own '
                '("probit" or "logit")'
            )


def numbered(estimator: Any, summaries: Sequence[ShardSummary]) -> tuple[Entities, list[IntArray], Array, IntArray]:
    """Number the items of all shards in one way, and refuse what no fit can use.

    Returns the items, the numbers of those of each shard, the weight of each item, and its connected component.
    """
    labels = [summary.labels for summary in summaries if summary.labels is not None]
    if estimator.order_effect and labels:
        refuse_one_side(np.array(labels).ravel(), np.ones(2 * len(labels)))
    ids = [summary.ids for summary in summaries if summary.ids.size]
    if not ids:
        raise DataError("Found array with 0 sample(s) while a minimum of 1 is required for X: it has no rows")
    items = Entities.read(estimator.items, *without_repeats(ids), estimator=estimator, kind="item")
    # The vocabulary's row of each item that a shard uses.
    rows = [items.vocabulary.encode(summary.ids, "X", noun="distinct id")[summary.used] for summary in summaries]
    used = np.zeros(items.vocabulary.size, dtype=bool)
    for row in rows:
        used[row] = True
    seen = np.flatnonzero(used)
    items = replace(items, seen=seen)
    number = [np.searchsorted(seen, row) for row in rows]
    weights = (np.bincount(k, s.weight, seen.size) for k, s in zip(number, summaries, strict=True) if k.size)
    total = summed(weights) if seen.size else np.zeros(0)
    return items, number, total, _components(summaries, number, seen.size)


def join(
    estimator: Any, shards: Shards, summaries: Sequence[ShardSummary], handles: Sequence[Any]
) -> tuple[Entities, ShardedComparisons]:
    """Number the items of all shards in one way."""
    items, number, total, component = numbered(estimator, summaries)
    _, renumbered = shards.keep(_renumbered, handles, number)
    sizes = np.array([summary.n_pairs for summary in summaries], dtype=np.int64)
    return items, ShardedComparisons(shards, renumbered, sizes, max(int(items.seen.size), 1), total, component)


def _components(summaries: Sequence[ShardSummary], number: Sequence[IntArray], n_items: int) -> IntArray:
    """Return the connected component of each item from those within the shards."""
    label = np.arange(n_items)
    for summary, k in zip(summaries, number, strict=True):
        # Each item of a shard is joined to the first one of its component there.
        _, first, component = np.unique(summary.component, return_index=True, return_inverse=True)
        graph = coo_array((np.ones(k.size), (label[k], label[k[first][component]])), shape=(n_items, n_items))
        label = components_of(graph.tocsr(), directed=False)[1][label]
    return np.unique(label, return_inverse=True)[1].astype(np.int64)


def few(comparisons: ShardedComparisons, limit: int, *, keep_order: bool) -> Comparisons:
    """Return all comparisons, merged, where they are few; none of them otherwise."""
    empty = np.zeros(0, dtype=np.int64)
    none = Comparisons(empty, empty, np.zeros(0), np.zeros(0), comparisons.n_items)
    if comparisons.n_pairs > limit:
        return none
    return comparisons.take(np.arange(comparisons.n_pairs)).merged(keep_order=keep_order)


def named_columns(
    estimator: Any, names: list[str], y: Any, sample_weight: Any, defaults: dict[str, str]
) -> ShardColumns:
    """Return the columns of a dataset that parameters name; `defaults` are the names of those of ids."""
    refuse_two_weights(estimator.weight, sample_weight)
    ids = {
        side: name if getattr(estimator, side) is None else getattr(estimator, side) for side, name in defaults.items()
    }
    labels = ("y" if "y" not in ids.values() else None) if y is None else y
    named = ids | {"y": labels, "weight": estimator.weight if sample_weight is None else sample_weight}
    for parameter, name in named.items():
        if name is not None and not isinstance(name, str):
            raise DataError(
                f"{parameter} must be the name of a column where X is not in memory; got {type(name).__name__}"
            )
    return dataset_columns(names, ShardColumns(**named), labels_are_named=y is not None)


def read_dataset(
    dataset: Any, columns: ShardColumns, options: ShardOptions
) -> tuple[OnDisk, list[ShardSummary], list[Any]]:
    """Return shards on disk, with summaries of a dataset of pyarrow and handles on its comparisons."""
    shards, summaries, rows = OnDisk(), [], []
    ids: dict[Any, Any] = {}
    for summary, comparisons in dataset_shards(dataset, columns, options):
        summaries.append(with_shared_ids(summary, ids))
        rows.append(shards.store(comparisons))
    return shards, summaries, rows


class ShardedClassifier(ComparisonClassifier):
    """Fits of `GPPLClassifier` to comparisons in shards."""

    def _fit_dataset(self, dataset: Any, y: Any, sample_weight: Any) -> Self:
        """Fit to a dataset of pyarrow, a shard of which is in memory at a time."""
        columns = self._shard_columns(dataset.schema.names, y, sample_weight)
        stored = read_dataset(dataset, columns, self._shard_options())
        return self._fit_shards(*stored, self._names_in(dataset.schema.names, columns))

    def _names_in(self, names: list[str], columns: ShardColumns) -> list[str]:
        """Return the names of the columns of X, as a fit in memory has them."""
        return [columns.left, columns.right] if self._columns is None else list(names)

    def _shard_columns(
        self, names: list[str], y: Any, sample_weight: Any, *, ids: tuple[str, str] = ("left", "right")
    ) -> ShardColumns:
        """Return the columns of a dataset that parameters name."""
        check_model(self)
        return named_columns(self, names, y, sample_weight, dict(zip(self._sides, ids, strict=True)))

    def _shard_options(self) -> ShardOptions:
        """Return how the shards are read."""
        ties = getattr(self.likelihood, "ties_are_answers", False)
        return ShardOptions(self.on_self, keep_order=self.order_effect, keep_ties=ties)

    def _fit_shards(
        self,
        shards: Shards,
        summaries: list[ShardSummary],
        rows: Sequence[Any],
        names: list[str],
    ) -> Self:
        """Fit to comparisons in shards, of which there are summaries here and handles on the comparisons."""
        items, comparisons = join(self, shards, summaries, rows)
        self._items, self.item_ids_ = items, items.seen_ids
        self.components_ = connected_components(comparisons)
        self.classes_ = check_classes([s.classes for s in summaries if s.classes is not None])
        summaries.clear()  # they take 32 bytes for each item and shard
        self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        config = self._config(offsets=self._has_offsets(), order=self.order_effect)
        here = few(comparisons, HYPER_PAIRS, keep_order=self.order_effect)
        data = PairData(items.seen_features, here, comparisons)
        self._set_attributes(self._infer(data, config, self.item_ids_))
        self._keep(ComparisonCounts(comparisons.weight_of_item))
        return self

    def _kept_comparisons(self, method: str) -> Comparisons:
        """Return the comparisons of the fit for a method that needs them."""
        if isinstance(self._comparisons, Comparisons):
            return self._comparisons
        raise DataError(
            f"{method} needs the comparisons of the fit, and a fit to data on disk or on a cluster keeps none of them: "
            "fit again with all comparisons in memory"
        )
