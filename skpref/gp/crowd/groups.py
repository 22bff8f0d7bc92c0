"""Groups of comparisons, such as categories, in which utilities differ: u = m + sum_j c_j(group_j) + b_user.

Groups are few and have many answers each, so that their parts c share the dense block of the consensus m and all
posterior correlations are known. A comparison sees its two items in its groups: two places. A number of context is a
kind of one group, whose part, the slope, counts as many times as the number says; a vector has as many groups as
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._checks import check_arrays, require
from skpref.gp.crowd.policy import POLICY
from skpref.inference.scale import FixedScale, GammaScale, check_scales

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skpref._typing import Array, IntArray
    from skpref.gp.crowd.personal import PersonalPosterior
    from skpref.gp.crowd.places import Places
    from skpref.gp.entities import Items
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.inference.scale import Scale

PARTS = "f", "offset"  # parts of a utility: a function of features, and an offset of each item


@dataclass(frozen=True, eq=False)
class GroupPosterior:
    """Posterior of the parts of groups, and of their covariance with the consensus.

    The variables of each kind of groups are [v of each group (M each), offsets of each group (N each)]; so are those of
    each kind of context.
    """

    mean: Array  # (G,)
    half: Array  # (K, G): with the consensus's in the last rows, the joint covariance is half^T half
    average: Array  # (M + N,): mean over the seen items of their rows in the parts of a group
    scales: dict[str, Scale]

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_arrays(self, mean="G", half="K G", average="A")
        check_scales(self, "scales", self.scales)

    def check_with(self, consensus: PairPosterior, sizes_of_kinds: IntArray) -> None:
        """Raise DataError unless the groups have the parts of the consensus."""
        sizes = {"f": consensus.n_basis, "offset": consensus.offset_mean.size}
        check_arrays(self, {"A": sum(sizes.values())}, average="A")
        fits = self.mean.size == self.average.size * int(sizes_of_kinds.sum())
        require(fits, self, "mean", f"must have {self.average.size} variables for each group")
        kinds = range(sizes_of_kinds.size)
        check_scales(self, "scales", self.scales, {f"{part}{k}" for part in sizes if sizes[part] for k in kinds})

    def consensus_of(self, consensus: PairPosterior, levels: Sequence[float], places: Places) -> PairPosterior:
        """Return the posterior of the consensus plus the parts of one group of each kind, unseen or left out ones too.

        Numbers of context come after the groups. Rows of its `half` are those of this posterior, after new ones for
        unseen groups.
        """
        own, average, size, start = consensus.half, self.average, self.average.size, 0
        half = np.vstack([np.zeros((len(self.half) - len(own), own.shape[1])), own])
        mean, offset_mean, scales = consensus.mean.copy(), consensus.offset_mean.copy(), dict(consensus.scales)
        n_points = consensus.n_basis
        widths = {"f": n_points, "offset": size - n_points}
        for kind, (weights, rest, variance) in enumerate(places.reaches(levels)):
            new, column = [], 0
            for name in (part for part in PARTS if widths[part]):
                width, scale = widths[name], self.scales[f"{name}{kind}"].mean
                to, end = slice(column, column + width), start + width * weights.size
                for k in np.flatnonzero(weights):
                    at = slice(start + k * width, start + (k + 1) * width)
                    mean[to] += weights[k] * self.mean[at]
                    half[-len(self.half) :, to] += weights[k] * self.half[:, at]
                if variance > 0.0:
                    scales[name] = FixedScale(1.0 / (1.0 / scales[name].mean + variance / scale))
                new.append(np.full(width, np.sqrt(rest / scale)))
                column, start = column + width, end
            if rest > 0.0:
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


def views_of(
    posterior: PersonalPosterior, levels: Array | None
) -> Iterator[tuple[list[PersonalPosterior], Array, Any]]:
    """Yield the posterior in each combination of groups of rows, at numbers of context; and these rows.

    The first view is at the mean of all numbers, and each other one where one number is 1 and the others are 0, from
    which the rest follows; the numbers of the rows come second, shape (n, n_numbers).
    """
    if levels is None:
        yield [posterior], np.zeros((1, 0)), slice(None)
        return
    n = posterior.places.n_levels.size
    units = [[0.0] * (levels.shape[1] - n), *np.eye(levels.shape[1] - n).tolist()]
    cells, cell = np.unique(levels[:, :n], axis=0, return_inverse=True)
    for k, of_cell in enumerate(cells.tolist()):
        rows = np.flatnonzero(cell.ravel() == k)
        yield [posterior.select_groups([*of_cell, *unit]) for unit in units], levels[rows, n:], rows


def consensus_of_pairs(
    views: list[PersonalPosterior],
    numbers: Array,
    items: Items,
    pairs: tuple[IntArray, IntArray],
    columns: Array,
    covariates: Array | None,
    *,
    order: bool,
) -> tuple[Array, Array, Array]:
    """Return means and variances of the consensus of pairs, effects included, and covariances with m (n, L).

    They follow from the views, linearly in the numbers; variances outside of the joint one rise with their squares.
    `columns` has what effects multiply.
    """
    used, inverse = np.unique(np.concatenate(pairs), return_inverse=True)
    items, (a, b) = items.take(used), np.split(inverse, 2)
    effects = np.einsum("re,el->rl", columns, views[0].half_rows[views[0].places.effects])
    mean, own, rows, common = np.zeros(a.size), np.zeros(a.size), np.zeros(()), np.zeros(())
    weights, squares = (np.column_stack([1.0 - x.sum(axis=1), x]).T for x in (numbers, numbers**2))
    for view, weight, square in zip(views, weights[:, :, None], squares, strict=True):
        of_mean, of_variance = view.consensus.pairs(items, a, b, covariates=covariates, order=order)
        half, with_m = view.consensus.half_rows(items), view.common_of(items)
        of_view = half[a] - half[b] + effects
        mean += weight[:, 0] * of_mean
        own += square * (of_variance - np.einsum("rk,rk->r", of_view, of_view))
        rows = rows + weight * of_view
        common = common + weight * (with_m[a] - with_m[b])
    return mean, own + np.einsum("rk,rk->r", rows, rows), common


def prior_scales(names: list[str], places: Places) -> dict[str, Scale]:
    """Return the priors of the inverse variances of groups and slopes, which have the same parts as the consensus."""
    priors = [POLICY.group_prior] * places.n_levels.size + [POLICY.slope_prior] * places.widths.size
    return {f"{name}{kind}": GammaScale.prior(*prior) for kind, prior in enumerate(priors) for name in names}


def variances(scales: dict[str, Scale], n_kinds: int) -> Array:
    """Return the variances of utilities between the groups of each kind, shape (n_kinds,)."""
    names = [[f"{part}{kind}" for part in PARTS if f"{part}{kind}" in scales] for kind in range(n_kinds)]
    return np.array([sum(1.0 / scales[name].mean for name in of_kind) for of_kind in names], dtype=np.float64)
