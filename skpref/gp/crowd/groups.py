"""Groups of comparisons, such as categories, in which utilities differ: u = m + sum_j c_j(group_j) + b_user.

Groups are few and have many answers each, so that their parts c share the dense block of the consensus m and all
posterior correlations are known. A comparison sees its two items in its groups: two places.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from skpref._checks import check_arrays, require
from skpref.gp.crowd.policy import POLICY
from skpref.inference.scale import FixedScale, GammaScale, check_scales

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skpref._typing import Array, IntArray
    from skpref.gp.crowd.places import Places
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.inference.scale import Scale

PARTS = "f", "offset"  # parts of a utility: a function of features, and an offset of each item


@dataclass(frozen=True, eq=False)
class GroupPosterior:
    """Posterior of the parts of groups, and of their covariance with the consensus.

    The variables of each kind of groups are [v of each group (M each), offsets of each group (N each)].
    """

    mean: Array  # (G,)
    half: Array  # (K, G): with the consensus's in the last rows, the joint covariance is half^T half
    average: Array  # (M + N,): mean over the seen items of their rows in the parts of a group
    scales: dict[str, Scale]

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_arrays(self, mean="G", half="K G", average="A")
        check_scales(self, "scales", self.scales)

    def check_with(self, consensus: PairPosterior, n_levels: IntArray) -> None:
        """Raise DataError unless the groups have the parts of the consensus."""
        sizes = {"f": consensus.n_basis, "offset": consensus.offset_mean.size}
        check_arrays(self, {"A": sum(sizes.values())}, average="A")
        fits = self.mean.size == self.average.size * int(n_levels.sum())
        require(fits, self, "mean", f"must have {self.average.size} variables for each group")
        kinds = range(n_levels.size)
        check_scales(self, "scales", self.scales, {f"{part}{k}" for part in sizes if sizes[part] for k in kinds})

    def consensus_of(self, consensus: PairPosterior, levels: Sequence[float], places: Places) -> PairPosterior:
        """Return the posterior of the consensus plus the parts of one group of each kind, unseen or left out ones too.

        Rows of its `half` are those of this posterior, after new ones for unseen groups.
        """
        own, average, size, start = consensus.half, self.average, self.average.size, 0
        half = np.vstack([np.zeros((len(self.half) - len(own), own.shape[1])), own])
        mean, offset_mean, scales = consensus.mean.copy(), consensus.offset_mean.copy(), dict(consensus.scales)
        n_points = consensus.n_basis
        widths = {"f": n_points, "offset": size - n_points}
        for kind, level in enumerate(levels):
            new, column, (weights, rest, variance) = [], 0, places.reach(kind, level)
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


def prior_scales(names: list[str], n_kinds: int) -> dict[str, Scale]:
    """Return the priors of the inverse variances of groups, which have the same parts as the consensus."""
    return {f"{name}{kind}": GammaScale.prior(*POLICY.group_prior) for kind in range(n_kinds) for name in names}


def variances(scales: dict[str, Scale], n_kinds: int) -> Array:
    """Return the variances of utilities between the groups of each kind, shape (n_kinds,)."""
    names = [[f"{part}{kind}" for part in PARTS if f"{part}{kind}" in scales] for kind in range(n_kinds)]
    return np.array([sum(1.0 / scales[name].mean for name in of_kind) for of_kind in names], dtype=np.float64)
