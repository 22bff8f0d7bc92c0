"""Groups of comparisons, such as categories, in which utilities differ: u = m + sum_j c_j(group_j) + b_user.

Groups are few and have many answers each, so that their parts c share the dense block of the consensus m and all
posterior correlations are known. A comparison sees its two items in its groups: two places.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from skpref._checks import check_arrays, check_indices, check_types, require
from skpref.inference.scale import FixedScale, GammaScale, check_scales

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skpref._typing import Array, IntArray
    from skpref.data import Comparisons
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.inference.scale import Scale

LEFT_OUT, UNSEEN = -2, -1  # levels: no group of this kind, which is the consensus of all; and one without answers
_PARTS = "f", "offset"  # parts of a utility: a function of features, and an offset of each item
# Gamma prior of the inverse variance of the parts of groups. It is weak: without support they stay small, and groups
# that differ by much are not held back.
_SHAPE, _RATE = 1.0, 0.03


@dataclass(frozen=True, eq=False)
class Places:
    """The items in each combination of groups in which they were compared."""

    item: IntArray  # (n,): item of each place; with an order effect, the left side is the last of both
    group: IntArray  # (n_compared, q): the group of each kind in which it was compared
    n_levels: IntArray  # (q,): numbers of groups

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        q = self.n_levels.size
        check_indices(self, "n_levels", self.n_levels, 1, np.iinfo(np.int64).max)
        check_indices(self, "item", self.item, 0, np.iinfo(np.int64).max)
        fits = isinstance(self.group, np.ndarray) and self.group.dtype == np.int64 and self.group.ndim == 2
        fits = fits and self.group.shape[1] == q and 0 <= self.item.size - self.group.shape[0] <= 1
        require(fits, self, "group", f"must have {q} columns and a row for each item")
        inside = bool((self.group >= 0).all() and (self.group < self.n_levels).all())
        require(inside, self, "group", "holds an unknown group")

    @classmethod
    def from_comparisons(cls, c: Comparisons, *, order: bool) -> Places:
        """Return the places of comparisons, the left side among them with an order effect."""
        assert c.group is not None  # noqa: S101 - type narrowing
        n_levels = c.group.max(axis=0, initial=0) + 1
        sizes = (*n_levels.tolist(), c.n_items)
        codes = [np.ravel_multi_index((*c.group.T, side), sizes) for side in (c.left, c.right)]
        *group, item = np.unravel_index(np.unique(np.concatenate(codes)), sizes)
        items = np.append(item, c.n_items) if order else item
        return cls(items.astype(np.int64), np.column_stack(group).astype(np.int64), n_levels)

    def find(self, item: IntArray, group: IntArray) -> IntArray:
        """Return the places of items that were compared in these groups, shape (P,)."""
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
        """Return the columns that map parts of groups to values at the places, given the columns of the items."""
        n, columns = len(self.group), []
        for level, n_levels in zip(self.group.T, self.n_levels.tolist(), strict=True):
            for rows in of_items:
                block = np.zeros((n, n_levels, rows.shape[1]))
                block[np.arange(n), level] = rows[self.compared]
                columns.append(block.reshape(n, -1))
        return columns

    def spread(self, S: Array) -> Array:
        """Return a covariance of items at the places, shape (n, n)."""
        return np.asarray(S[np.ix_(self.item, self.item)])

    @property
    def compared(self) -> IntArray:
        """Items of the places, without the left side."""
        return self.item[: len(self.group)]

    @cached_property
    def to_items(self) -> sparse.csr_array:
        """The matrix that sums over the places of each item, shape (n_items, n)."""
        n = self.item.size
        return sparse.csr_array((np.ones(n), (self.item, np.arange(n))), shape=(int(self.item.max()) + 1, n))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without cached values."""
        return {"item": self.item, "group": self.group, "n_levels": self.n_levels}


@dataclass(frozen=True, eq=False)
class GroupPosterior:
    """Posterior of the parts of groups, and of their covariance with the consensus.

    The variables of each kind of groups are [v of each group (M each), offsets of each group (N each)].
    """

    places: Places
    mean: Array  # (G,)
    half: Array  # (K, G): with the consensus's in the last rows, the joint covariance is half^T half
    average: Array  # (M + N,): mean over the seen items of their rows in the parts of a group
    scales: dict[str, Scale]

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, places=Places)
        size = check_arrays(self, mean="G", half="K G", average="A")
        fits = size["G"] == size["A"] * int(self.places.n_levels.sum())
        require(fits, self, "mean", f"must have {size['A']} variables for each group")
        check_scales(self, "scales", self.scales)

    def check_with(self, consensus: PairPosterior) -> None:
        """Raise DataError unless the groups have the parts of the consensus."""
        sizes = {"f": consensus.n_basis, "offset": consensus.offset_mean.size}
        check_arrays(self, {"A": sum(sizes.values())}, average="A")
        kinds = range(self.places.n_levels.size)
        check_scales(self, "scales", self.scales, {f"{part}{k}" for part in sizes if sizes[part] for k in kinds})

    def consensus_of(self, consensus: PairPosterior, levels: Sequence[int]) -> PairPosterior:
        """Return the posterior of the consensus plus the parts of one group of each kind, unseen or left out ones too.

        Rows of its `half` are those of this posterior, after new ones for unseen groups.
        """
        own, average, size, start = consensus.half, self.average, self.average.size, 0
        half = np.vstack([np.zeros((len(self.half) - len(own), own.shape[1])), own])
        mean, offset_mean, scales = consensus.mean.copy(), consensus.offset_mean.copy(), dict(consensus.scales)
        n_points = consensus.n_basis
        widths = {"f": n_points, "offset": size - n_points}
        for kind, level in enumerate(levels):
            new, column = [], 0
            for name in (part for part in _PARTS if widths[part]):
                width, scale = widths[name], self.scales[f"{name}{kind}"].mean
                to, at = slice(column, column + width), start + level * width
                if level >= 0:
                    mean[to] += self.mean[at : at + width]
                    half[:, to] += self.half[:, at : at + width]
                if level != LEFT_OUT:
                    scales[name] = FixedScale(1.0 / (1.0 / scales[name].mean + 1.0 / scale))
                new.append(np.full(width, 1.0 / np.sqrt(scale)))
                column += width
                start += width * int(self.places.n_levels[kind])
            if level == UNSEEN:
                rows = np.zeros((size, half.shape[1]))
                rows[:, :size] = np.diag(np.concatenate(new))
                half = np.vstack([rows, half])
        if consensus.has_offsets:
            offset_mean = mean[n_points:size].copy()
        return replace(
            consensus,
            mean=mean,
            half=half,
            offset_mean=offset_mean,
            scales=scales,
            centre_mean=float(average @ mean[:size]),
            centre_half=half[:, :size] @ average,
        )


def prior_scales(names: list[str], n_kinds: int) -> dict[str, Scale]:
    """Return the priors of the inverse variances of groups, which have the same parts as the consensus."""
    return {f"{name}{kind}": GammaScale.prior(_SHAPE, _RATE) for kind in range(n_kinds) for name in names}


def variances(scales: dict[str, Scale], n_kinds: int) -> Array:
    """Return the variances of utilities between the groups of each kind, shape (n_kinds,)."""
    names = [[f"{part}{kind}" for part in _PARTS if f"{part}{kind}" in scales] for kind in range(n_kinds)]
    return np.array([sum(1.0 / scales[name].mean for name in of_kind) for of_kind in names], dtype=np.float64)
