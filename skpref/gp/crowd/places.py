"""Where users compare: the items, each in the groups of its comparisons, their slopes, covariates and the left side.

A place is a coordinate of what all users share, m. Those of an item and of the left side have a personal part, too, the
same in all groups; slopes on numbers of context, which a comparison sees times its number, and effects of covariates
are the same for all users. Where utilities are linear in attributes of the items, there are attributes in place of
items: their effects, the part-worths, are the coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from skpref._checks import check_indices, check_types, is_count, require
from skpref.gp.crowd.timeline import Reach, Timeline
from skpref.inference.chain_groups import LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skpref._typing import Array, IntArray
    from skpref.data import Comparisons

_SHARED = -1  # item of the place of a slope or a covariate


@dataclass(frozen=True, eq=False)
class Places:
    """The items in each combination of groups in which they were compared, and the effects beside them."""

    # (L,): item of each place, then -1 for each slope and covariate; with an order effect, the left side is the last of
    # all, as it is the last of the items.
    item: IntArray
    group: IntArray  # (n_compared, q): the group of each kind in which it was compared
    n_levels: IntArray  # (q,): numbers of groups
    n_attributes: int = 0  # coordinates that stand in place of items, before the covariates
    timeline: Timeline | None = None  # whose steps are the last kind of groups
    widths: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # numbers of each kind of context

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, timeline=Timeline | None)
        for name in ("n_levels", "widths"):
            check_indices(self, name, getattr(self, name), 1, np.iinfo(np.int64).max)
        if self.timeline is not None:
            sound = self.n_levels.size > 0 and int(self.n_levels[-1]) == self.timeline.n_steps
            require(sound, self, "n_levels", "must end with the steps of the timeline")
        require(is_count(self.n_attributes), self, "n_attributes", "must be a number of features")
        q = self.n_levels.size
        check_indices(self, "item", self.item, _SHARED, np.iinfo(np.int64).max)
        fits = isinstance(self.group, np.ndarray) and self.group.dtype == np.int64 and self.group.ndim == 2
        fits = fits and self.group.shape[1] == q and self.group.shape[0] <= self.item.size
        require(fits, self, "group", f"must have {q} columns and a row for each item")
        inside = bool((self.group >= 0).all() and (self.group < self.n_levels).all())
        require(inside, self, "group", "holds an unknown group")
        others = self.item[len(self.group) + self.n_attributes : self.item.size - self.order]
        sound = bool((self.compared >= 0).all() and (others == _SHARED).all())
        attributes = self.item[len(self.group) :][: self.n_attributes]
        sound = sound and np.array_equal(attributes, np.arange(self.n_attributes))
        sound = sound and not (self.n_attributes and len(self.group))
        require(sound, self, "item", "must be the compared items, the covariates and the left side, in this order")

    @classmethod
    def from_comparisons(
        cls, c: Comparisons, *, order: bool, timeline: Timeline | None = None, widths: Sequence[int] = ()
    ) -> Places:
        """Return the places of comparisons, the left side among them with an order effect."""
        alone = cls.from_items(c.n_items, 0 if c.covariates is None else c.covariates.shape[1], order=order)
        others = np.concatenate([np.full(c.n_items * sum(widths), _SHARED), alone.item[c.n_items :]])
        places = replace(alone, item=np.append(alone.compared, others), timeline=timeline)
        if (cells := places.cells(c)) is not None:
            places = cls._from_cells(np.append(c.left, c.right), np.vstack([cells, cells]), others, timeline)
        return replace(places, widths=np.array(widths, dtype=np.int64))

    @classmethod
    def _from_cells(cls, item: IntArray, cells: IntArray, effects: IntArray, timeline: Timeline | None) -> Places:
        """Return the places of items in cells, one for each combination, and of effects."""
        n_levels = cells.max(axis=0, initial=0) + 1
        if timeline is not None:
            n_levels[-1] = timeline.n_steps
        sizes = (*n_levels.tolist(), int(item.max(initial=0)) + 1)
        *group, items = np.unravel_index(np.unique(np.ravel_multi_index((*cells.T, item), sizes)), sizes)
        items = np.concatenate([items, effects]).astype(np.int64)
        return cls(items, np.column_stack(group).astype(np.int64), n_levels, timeline=timeline)

    def coarser(self, width: int) -> tuple[Places, IntArray]:
        """Return places in fewer, longer steps of time, and which of these each place of an item is in."""
        assert self.timeline is not None  # noqa: S101 - type narrowing
        timeline, cells = self.timeline.coarser(width), self.group.copy()
        cells[:, -1] = timeline.steps_of(self.timeline.time_of(cells[:, -1]))
        places = Places._from_cells(self.compared, cells, self.item[len(self.group) :], timeline)
        return replace(places, widths=self.widths), places.find(self.compared, cells)

    @classmethod
    def from_items(cls, n_items: int, n_covariates: int, *, order: bool) -> Places:
        """Return the places of items without groups."""
        item = np.concatenate([np.arange(n_items), np.full(n_covariates, _SHARED), np.full(int(order), n_items)])
        return cls(item, np.zeros((n_items, 0), dtype=np.int64), np.zeros(0, dtype=np.int64))

    @classmethod
    def from_attributes(cls, n_attributes: int, n_covariates: int, *, order: bool) -> Places:
        """Return the places of attributes of the items."""
        return replace(
            cls.from_items(n_attributes, n_covariates, order=order),
            group=np.zeros((0, 0), dtype=np.int64),
            n_attributes=n_attributes,
        )

    @property
    def order(self) -> bool:
        """Whether the left side is the last of the places."""
        return self.item.size > len(self.group) + self.n_attributes and bool(self.item[-1] >= 0)

    @property
    def n_of_items(self) -> int:
        """Number of places of items and of their slopes."""
        return len(self.group) + (int(self.compared.max(initial=-1)) + 1) * int(self.widths.sum())

    @property
    def effects(self) -> slice:
        """The places of attributes, covariates and the left side."""
        return slice(self.n_of_items, self.item.size)

    @property
    def sizes(self) -> IntArray:
        """Numbers of groups or slopes of each kind, of groups and then of context."""
        return np.concatenate([self.n_levels, self.widths])

    @property
    def compared(self) -> IntArray:
        """Items of the places, without the left side."""
        return self.item[: len(self.group)]

    def cells(self, c: Comparisons) -> IntArray | None:
        """Return the group of each kind of comparisons, with their steps in time; None where there are neither."""
        if self.timeline is None or c.time is None:
            return c.group
        return np.column_stack([*(() if c.group is None else c.group.T), self.timeline.steps_of(c.time)])

    def reach(self, kind: int, level: float) -> Reach:
        """Return how the part of a group, an unseen one too, follows from the variables of its kind."""
        n = int(self.n_levels[kind])
        if self.timeline is not None and kind == self.n_levels.size - 1 and level >= 0:
            return self.timeline.reach(level)
        if level == LEFT_OUT:
            return Reach(np.zeros(n), 0.0, 0.0)
        return Reach((np.arange(n) == level).astype(np.float64), float(not 0 <= level < n), 1.0)

    def reaches(self, levels: Sequence[float]) -> list[Reach]:
        """Return how the part of each kind follows from its variables, in groups and at numbers of context."""
        n = self.n_levels.size
        found = [self.reach(kind, level) for kind, level in enumerate(levels[:n])]
        numbers = np.split(np.array(levels[n:], dtype=np.float64), np.cumsum(self.widths)[:-1])
        return found + [Reach(x, 0.0, float(x @ x)) for x, _ in zip(numbers, self.widths, strict=False)]

    def find(self, item: IntArray, group: IntArray | None) -> IntArray:
        """Return the places of items that were compared in these groups, shape (P,)."""
        if group is None:
            return item
        sizes = (*self.n_levels.tolist(), int(self.item.max(initial=0)) + 1)
        codes = [(*self.group.T, self.compared), (*group.T, item)]
        places, wanted = (np.ravel_multi_index(code, sizes) for code in codes)
        return np.searchsorted(places, wanted)

    def have(self, item: IntArray, group: IntArray) -> bool:
        """Tell whether items were compared in these groups."""
        if bool((group >= self.n_levels).any()) or int(item.max(initial=0)) > int(self.item.max(initial=0)):
            return False
        at = np.minimum(self.find(item, group), len(self.group) - 1)
        return np.array_equal(self.compared[at], item) and np.array_equal(self.group[at], group)

    def columns(self, of_items: list[Array]) -> list[Array]:
        """Return the columns that map parts of groups, then of the consensus, to values at the places of items.

        They are given the columns of the items.
        """
        n, K = len(self.group), int(self.widths.sum())
        item, number = np.divmod(np.arange(self.n_of_items - n), max(K, 1))
        at, weights = np.concatenate([self.compared, item]), np.zeros((self.n_of_items, int(self.sizes.sum()) + 1))
        ends = np.cumsum([*self.sizes, 1])
        for kind, n_levels in enumerate(self.n_levels.tolist()):
            of_levels = np.array([self.reach(kind, level).weights for level in range(n_levels)])
            weights[:n, ends[kind] - n_levels : ends[kind]] = of_levels[self.group[:, kind]]
        weights[n + np.arange(item.size), ends[-1] - 1 - K + number] = 1.0
        weights[:n, -1] = 1.0
        pairs = ((of_kind, rows[at]) for of_kind in np.split(weights, ends[:-1], axis=1) for rows in of_items)
        return [(of_kind[:, :, None] * rows[:, None]).reshape(at.size, -1) for of_kind, rows in pairs]

    @cached_property
    def are_items(self) -> bool:
        """Whether each place is one item."""
        return np.array_equal(self.item, np.arange(self.item.size))

    @property
    def items_or_none(self) -> IntArray | None:
        """Item of each place, where some items have several; otherwise None."""
        return self.item if self.sizes.size else None

    def spread(self, rows: Array) -> Array:
        """Return rows of numbers of the items at the places, zero at covariates, shape (L, ...)."""
        if self.are_items:
            return rows
        out = rows[self.item]
        out[self.item < 0] = 0.0
        return np.asarray(out)

    def spread_covariance(self, S: Array) -> Array:
        """Return a covariance of items at the places, shape (L, L)."""
        return S if self.are_items else self.spread(np.ascontiguousarray(self.spread(S).T))

    def sum_by_item(self, rows: Array) -> Array:
        """Return rows of numbers at the places, shape (P, L), summed over the places of each item."""
        return rows if self.are_items else np.asarray(rows @ self.to_items.T)

    @cached_property
    def to_items(self) -> sparse.csr_array:
        """The matrix that sums over the places of each item, shape (n_items, L)."""
        at = np.flatnonzero(self.item >= 0)
        shape = int(self.item.max()) + 1, self.item.size
        return sparse.csr_array((np.ones(at.size), (self.item[at], at)), shape=shape)

    def as_items(self) -> Places:
        """Return the places in which each item in each group is an item of its own."""
        n, n_order = len(self.group), int(self.order)
        return Places.from_items(n, self.item.size - n - n_order, order=self.order)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without cached values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
