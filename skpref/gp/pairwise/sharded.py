"""Fits to comparisons in shards: one vocabulary, one numbering of the items, and the problem over all shards."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components as components_of

from skpref.data import Comparisons
from skpref.data.columns import NO_ROWS
from skpref.data.comparisons import concatenated
from skpref.data.labels import refuse_one_side
from skpref.data.roles import Roles
from skpref.data.shards import without_repeats
from skpref.data.stored import check_names
from skpref.exceptions import DataError
from skpref.gp.entities import Entities
from skpref.gp.pairwise.columns import refuse_two_weights
from skpref.gp.pairwise.policy import POLICY
from skpref.inference.shards import ShardedProblem, ShardRows, split_by_shard, summed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skpref._sources import Source
    from skpref._typing import Array, Features, IntArray
    from skpref.data.shards import ShardSummary
    from skpref.inference.basis import InducingBasis
    from skpref.inference.shards import Shards
    from skpref.inference.svi import Problem


@dataclass(frozen=True, eq=False)
class ShardedComparisons:
    """Comparisons of items 0 to n_items - 1 in shards, with the methods of `Comparisons` that a fit uses."""

    shards: Shards
    rows: Sequence[Any]  # handles on the `ShardRows`
    sizes: IntArray  # (n_shards,): number of comparisons of each
    n_items: int
    weight_of_item: Array  # (n_items,): total weight of the comparisons of each item
    component: IntArray  # (n_items,): connected component of each item
    covariate_scale: Array = field(default_factory=lambda: np.ones(0))  # (q,): units of their effects

    @property
    def n_pairs(self) -> int:
        """The number of comparisons, each merged within its shard."""
        return int(self.sizes.sum())

    def components(self) -> tuple[int, IntArray]:
        """Return the number of connected components, and the component of each item."""
        return int(self.component.max(initial=-1)) + 1, self.component

    def take(self, index: IntArray) -> Comparisons:
        """Bring some comparisons here; the numbers, ascending, count from shard to shard."""
        columns = list(self.shards.collect(_taken, self.rows, split_by_shard(index, self.sizes)))
        left, right, y, weight = (np.concatenate(column) for column in zip(*columns, strict=True))
        return Comparisons(left, right, y, weight, self.n_items)

    def problem(self, template: Problem, basis: InducingBasis | None, X: Features) -> ShardedProblem:
        """Return the problem over all comparisons with the terms, likelihood and rule of a template."""
        problem = ShardedProblem.from_template(template, self.shards, self.rows, self.n_pairs)
        has_residual = any(term.residual is not None for term in template.terms.values())
        return problem.with_residuals(basis, X) if has_residual and basis is not None else problem


def _taken(rows: ShardRows, index: IntArray) -> tuple[IntArray, IntArray, Array, Array]:
    return rows.left[index], rows.right[index], rows.y[index], rows.weight[index]


def _renumbered(comparisons: Comparisons, number: IntArray) -> tuple[None, ShardRows]:
    """Return the comparisons of a shard by the items' numbers in all shards."""
    c = comparisons
    return None, ShardRows(number[c.left], number[c.right], c.y.copy(), c.weight.copy())


def numbered(estimator: Any, summaries: Sequence[ShardSummary]) -> tuple[Entities, list[IntArray], Array, IntArray]:
    """Number the items of all shards in one way; raise an error if no fit can use them.

    Returns the items, the numbers of those of each shard, the weight of each item, and its connected component.
    """
    labels = [label for summary in summaries for label in summary.labels]
    if estimator.order_effect and labels:
        refuse_one_side(np.array(labels), np.ones(len(labels)))
    ids = [summary.ids for summary in summaries if summary.ids.size]
    if not ids:
        raise DataError(NO_ROWS.format("X", "rows"))
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
    """Return the connected component of each item from the components within the shards."""
    label = np.arange(n_items)
    for summary, k in zip(summaries, number, strict=True):
        # Each item of a shard is joined to the first one of its component there.
        _, first, component = np.unique(summary.component, return_index=True, return_inverse=True)
        graph = coo_array((np.ones(k.size), (label[k], label[k[first][component]])), shape=(n_items, n_items))
        label = components_of(graph.tocsr(), directed=False)[1][label]
    return np.unique(label, return_inverse=True)[1].astype(np.int64)


def merge_if_few(comparisons: ShardedComparisons, *, keep_order: bool) -> Comparisons:
    """Return all comparisons, merged, if there are few; otherwise none."""
    empty = np.zeros(0, dtype=np.int64)
    none = Comparisons(empty, empty, np.zeros(0), np.zeros(0), comparisons.n_items)
    if comparisons.n_pairs > POLICY.hyper_pairs:
        return none
    return comparisons.take(np.arange(comparisons.n_pairs)).merged(keep_order=keep_order)


def bring_all(shards: Shards, rows: Sequence[Any], number: Sequence[IntArray], items: Entities) -> Comparisons:
    """Bring all comparisons here, by the rows of the items' vocabulary."""
    by_row = [items.seen[of_shard] for of_shard in number]
    return concatenated(list(shards.collect(Comparisons.renumbered, rows, by_row, shared=(items.vocabulary.size,))))


def _are_more(estimator: Any, source: Source) -> bool:
    """Tell whether more columns have no other meaning than there are ids without a name."""
    columns = estimator._columns  # noqa: SLF001
    taken = ["y" if source.y is None else source.y, source.weight, *columns.roles.columns()]
    names = range(source.width) if source.names is None else source.names
    by_place = [side for side in estimator._sides if getattr(estimator, side) is None]  # noqa: SLF001
    return sum(name not in taken for name in names) > len(by_place)


def may_show_several(estimator: Any, source: Source) -> bool:
    """Tell whether answered rows have more columns of ids than comparisons, and none with the names of the sides."""
    names = source.names or []
    is_answered = source.are_apart[0] or isinstance(source.y, str) or (source.y is None and "y" in names)
    has_sides = any(side in names or getattr(estimator, side) is not None for side in ("left", "right"))
    return is_answered and not has_sides and _are_more(estimator, source)


def roles_of(estimator: Any, source: Source) -> Roles:
    """Return the columns of comparisons: parameters name them, or else they have their usual names or places."""
    sides = estimator._sides  # noqa: SLF001 - the columns of ids of comparisons
    refuse_two_weights(estimator.weight, True if source.are_apart[1] else source.weight)
    columns = estimator._columns  # noqa: SLF001
    terms, groups, time = columns.roles.covariates, columns.groups, columns.roles.time
    if source.names is None:
        if terms or groups or time is not None:
            raise DataError(
                "covariates, groups and time need names of columns, which an array of Dask lacks; pass a frame"
            )
        if source.width != len(sides):
            raise DataError(f"Expected 2D array of {len(sides)} columns for X, got {source.width} columns instead")
        return Roles(**dict(zip(sides, range(len(sides)), strict=True)))
    usual = sides
    if source.has_order and not (columns.is_empty and _are_more(estimator, source)):
        usual = (*source.names, *("a column", "a second column", "a third column")[source.width :])[: len(sides)]
    chosen = {side: getattr(estimator, side) for side in sides}
    ids = {side: name if chosen[side] is None else chosen[side] for side, name in zip(sides, usual, strict=True)}
    weight = estimator.weight if source.weight is None else source.weight
    check_names(source.names, ids | {"y": source.y, "weight": weight, "time": time})
    y = source.y
    if y is None and not source.are_apart[0] and "y" in set(source.names) - set(ids.values()):
        y = "y"
    for parameter, listed in (("covariates", terms), ("groups", groups)):
        for name in chain.from_iterable(term if isinstance(term, tuple) else (term,) for term in listed):
            check_names(source.names, {parameter: name})
    if not columns.is_empty:
        columns.check_distinct(ids, terms, groups, weight, time)
    return Roles(**ids, winner=y, weight=weight, covariates=terms, groups=groups, time=time)


def is_dated(column: Any, summaries: list[ShardSummary]) -> bool:
    """Tell whether the times of shards are dates; refuse dates in one and numbers in another."""
    dated = {summary.is_dated for summary in summaries if summary.is_dated is not None}
    if len(dated) > 1:
        raise DataError(f"the times of column {column!r} are dates in one shard and numbers in another")
    return any(dated)
