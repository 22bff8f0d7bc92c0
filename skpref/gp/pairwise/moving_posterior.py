"""The posterior of utilities that move in time, and predictions at any time (docs/maths 12)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._checks import check_arrays, check_diagonals, check_positive, check_types, require
from skpref._math.limits import BLOCK
from skpref.gp.entities import Items
from skpref.gp.pairwise.policy import POLICY
from skpref.gp.pairwise.posterior import PairPosterior, item_slots, join_equal, residual_of_new, weighted_rows
from skpref.gp.pairwise.thresholds import TieThresholds, cells_of
from skpref.inference.basis import InducingBasis, chunks
from skpref.inference.chain_filter import filter_chains
from skpref.inference.scale import FixedScale
from skpref.inference.trajectories import Trajectories

if TYPE_CHECKING:
    from skpref._typing import Array, Features, IntArray
    from skpref.data import Comparisons
    from skpref.inference.scale import Scale
    from skpref.likelihoods import Likelihood


@dataclass(frozen=True, eq=False)
class FeaturePosterior:
    """Posterior of the function of features, phi(x)^T w, which does not move; chains follow it by their responses."""

    basis: InducingBasis
    mean: Array  # (K,): of w
    half: Array  # (K, K): its covariance is half^T half
    sd: float  # prior standard deviation
    average: Array  # (K,): average of phi over the compared items

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, basis=InducingBasis)
        check_arrays(self, {"K": self.basis.chol.shape[0]}, mean="K", half="K K", average="K")
        check_diagonals(self, "half")
        check_positive(self, "sd")


@dataclass(frozen=True, eq=False)
class MovingPosterior:
    """Posterior of utilities over time, and of effects that drift."""

    items: Trajectories  # with a node at each time of each compared item
    effects: Trajectories | None  # of covariates, in units of `covariate_scale`, then of the left side
    career: Trajectories | None  # over the time since an item's first comparison
    covariate_scale: Array  # (q,)
    has_order: bool
    is_dated: bool  # whether times are years since 1970
    features: FeaturePosterior | None = None
    team_mean: bool = False  # whether a team has the mean of its players' utilities, and not the sum
    thresholds: TieThresholds | None = None  # of ties in the combinations of groups, see `cells_of`

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        types = {"effects": Trajectories | None, "career": Trajectories | None, "features": FeaturePosterior | None}
        check_types(self, items=Trajectories, has_order=bool, is_dated=bool, team_mean=bool, **types)
        check_types(self, thresholds=TieThresholds | None)
        n_cells = 0 if self.items.groups is None else int(self.items.groups.sizes.prod())
        fits = self.thresholds is None or self.thresholds.mean.size == n_cells
        require(fits, self, "thresholds", f"must be of {n_cells} combinations of groups")
        check_arrays(self, covariate_scale="q")
        check_positive(self, "covariate_scale")
        require((self.effects is None) == (not self.n_effects), self, "effects", f"must be of {self.n_effects} effects")
        for name, n in (("items", None), ("effects", self.n_effects), ("career", 1)):
            part = getattr(self, name)
            chains = np.zeros(0, dtype=np.int64) if part is None else np.unique(part.chain)
            whole = part is None or np.array_equal(chains, np.arange(n or max(chains.size, 1)))
            require(whole, self, name, "must have nodes of each chain")
        size = None if self.features is None else self.features.mean.size
        parts = {"items": self.items, "effects": self.effects, "career": self.career}
        for name, part in parts.items():
            response = None if part is None or part.response is None else part.response.shape[1]
            require(part is None or response == size, self, name, "must have the responses to features")

    @property
    def n_effects(self) -> int:
        """Number of covariates, and one for the left side."""
        return int(self.covariate_scale.size) + int(self.has_order)

    @property
    def first(self) -> Array:
        """Time of the first comparison of each item, shape (n_items,)."""
        return self.items.first

    @property
    def end(self) -> float:
        """Time of the last comparison."""
        return float(self.items.time.max())

    def log_thresholds(self, levels: Array | None) -> tuple[Array, Array] | None:
        """Return moments of the log thresholds of ties in groups, shape (n, n_kinds); None where all share one."""
        if self.thresholds is None or self.items.groups is None or levels is None:
            return None
        return self.thresholds.moments(cells_of(levels, self.items.groups.sizes))

    def likelihoods(self, n: int, levels: Array | None, likelihood: Any) -> tuple[list[Likelihood], IntArray]:
        """Return likelihoods at the medians of thresholds, and which of these n rows in groups have."""
        log_b = self.log_thresholds(levels)
        if log_b is None:
            return [likelihood], np.zeros(n, dtype=np.int64)
        b, number = np.unique(np.exp(log_b[0]), return_inverse=True)
        return [replace(likelihood, threshold=own) for own in b.tolist()], number

    def utility(self, position: IntArray, time: Array, levels: Array | None = None) -> tuple[Array, Array]:
        """Return means and variances of items at times in groups, without the function of features, shape (n,).

        Before its first comparison an item is as there. Levels are groups and numbers of context of each.
        """
        mean, variance = np.zeros(position.size), np.full(position.size, self.items.prior_variance)
        if self.items.groups is not None and levels is not None:
            variance += self.items.groups.unseen(levels)
        seen = position >= 0
        item, at = self.items.clamped(position[seen], time[seen])
        mean[seen], variance[seen] = self.items.moments(item, at, None if levels is None else levels[seen])
        if self.career is not None:
            of_age = self.career.moments(np.zeros(item.size, dtype=np.int64), at - self.first[item])
            mean[seen] += of_age[0]
            variance[seen] += of_age[1]
        return mean, variance

    def _rows(self, position: IntArray, time: Array, phi: Array, levels: Array | None = None) -> Array:
        """Return by how much utilities of items at times rise with the coefficients of features, shape (n, K)."""
        rows, seen = phi.copy(), position >= 0
        item, at = self.items.clamped(position[seen], time[seen])
        rows[seen] -= self.items.responses(item, at, None if levels is None else levels[seen])
        if self.career is not None:
            rows[seen] -= self.career.responses(np.zeros(item.size, dtype=np.int64), at - self.first[item])
        return rows

    def pairs(
        self,
        items: Items,
        left: IntArray,
        right: IntArray,
        time: Array,
        covariates: Array | None,
        levels: Array | None = None,
        *,
        order: bool,
    ) -> tuple[Array, Array]:
        """Return posterior means and variances of the projections z of pairs at their times, shape (P,)."""
        n, rows, f = len(left), None, self.features
        if f is not None and n > (most := max(BLOCK // (f.mean.size * left[:1].size), 1)):
            found = []
            for part in chunks(n, most):
                few: list[Any] = [None if values is None else values[part] for values in (covariates, levels)]
                found.append(self.pairs(items, left[part], right[part], time[part], *few, order=order))
            means, variances = zip(*found, strict=True)
            return np.concatenate(means), np.concatenate(variances)
        ends, coefficient = item_slots(left, right, mean=self.team_mean)
        position, slots = items.position[ends], ends.shape[1]
        # An item that is compared with itself cancels.
        coefficient = join_equal(ends, coefficient)
        each = position.ravel(), np.repeat(time, slots), None if levels is None else np.repeat(levels, slots, axis=0)
        u, v = (moment.reshape(ends.shape) for moment in self.utility(*each))
        mean, variance = (coefficient * u).sum(axis=1), (coefficient**2 * v).sum(axis=1)
        if self.career is not None:  # which all items share
            variance = np.maximum(variance + self._shared_career(position, coefficient, time), 0.0)
        if f is not None:
            phi = f.basis.rows(items.features)
            variance = variance + f.sd**2 * self._residual(items, phi, left, right)
            mean = mean + weighted_rows(phi, ends, coefficient) @ f.mean
            of_slots = self._rows(*each[:2], phi[ends.ravel()], each[2])
            rows = weighted_rows(of_slots, np.arange(ends.size).reshape(ends.shape), coefficient)
        columns = [] if covariates is None else list((covariates / self.covariate_scale).T)
        columns += [np.ones(n)] if order and self.has_order else []
        if self.effects is not None and columns:
            numbers = np.arange(self.n_effects)[-len(columns) :] if covariates is None else np.arange(len(columns))
            at = self.effects.clamped(np.repeat(numbers, n), np.tile(time, len(columns)))
            effect, spread = self.effects.moments(*at)
            design = np.concatenate(columns)
            mean = mean + (design * effect).reshape(-1, n).sum(axis=0)
            variance = variance + (design**2 * spread).reshape(-1, n).sum(axis=0)
            if rows is not None:
                falls = design[:, None] * self.effects.responses(*at)
                rows -= falls.reshape(-1, *rows.shape).sum(axis=0)
        if f is not None and rows is not None:
            variance = variance + np.square(rows @ f.half.T).sum(axis=1)
        return mean, variance

    def _residual(self, items: Items, phi: Array, left: IntArray, right: IntArray) -> Array:
        """Return what inducing points leave of new items; players of teams are independent in it."""
        assert self.features is not None  # noqa: S101 - type narrowing
        if left.ndim == 1:
            return residual_of_new(self.features.basis, items, phi, left, right)
        rest = self.features.basis.residual(items.features, phi) * (items.position < 0)
        ends, coefficient = item_slots(left, right, mean=self.team_mean)
        return np.asarray((join_equal(ends, coefficient) ** 2 * rest[ends]).sum(axis=1))

    def _shared_career(self, position: IntArray, coefficient: Array, time: Array) -> Array:
        """Return what covariances of the career curve at the ages of different slots add to variances of z, (P,)."""
        assert self.career is not None  # noqa: S101 - type narrowing
        seen = position >= 0
        first = np.where(seen, self.first[np.maximum(position, 0)], np.inf)
        covariance, place = self._career_at(np.where(seen, np.maximum(time[:, None] - first, 0.0), 0.0))
        total = np.zeros(time.size)
        for s, t in combinations(range(position.shape[1]), 2):
            total += 2.0 * coefficient[:, s] * coefficient[:, t] * covariance[place[:, s], place[:, t]]
        return total

    def _career_at(self, age: Array) -> tuple[Array, IntArray]:
        """Return the covariance of the career curve at the distinct ages, to the ages of the grid, and their places."""
        assert self.career is not None  # noqa: S101 - type narrowing
        step = max(float(self.career.time.max(initial=0.0)), np.finfo(float).tiny) / POLICY.ages
        ages, place = np.unique(np.minimum(np.rint(age / step), POLICY.most_ages), return_inverse=True)
        return self.career.covariance(ages * step), place.reshape(age.shape)

    def filtered(self, c: Comparisons, likelihood: Likelihood, X: Features) -> MovingPosterior:
        """Return the posterior after comparisons in the order of time; the curve of careers and features stay.

        X has the features of all items, of which those beyond the known ones are new.
        """
        n_old, f, one = self.items.n_chains, self.features, np.ones(c.n_pairs)
        ends, coefficient = item_slots(c.left, c.right, mean=self.team_mean)
        first = np.full(c.n_items, np.inf)
        np.minimum.at(first, ends, c.time[:, None])
        new, nothing = np.arange(n_old, c.n_items), np.zeros(c.n_items - n_old)
        if f is not None:
            total = n_old * f.average + f.basis.rows(X[n_old:]).sum(axis=0)
            f = replace(f, average=total / c.n_items)
        items = self.items.with_nodes(new, first[n_old:], nothing, nothing) if new.size else self.items
        known = replace(self, items=items, features=f)
        # All but the utilities of the items' own and the effects of the rows: careers, features and groups.
        everyone = Items(X, np.arange(c.n_items))
        mean, variance = known.pairs(everyone, c.left, c.right, c.time, None, c.levels, order=False)
        own = ends.ravel(), np.repeat(c.time, ends.shape[1])
        u, v = (moment.reshape(ends.shape) for moment in replace(known.items, groups=None).moments(*own))
        of_groups = None
        if known.items.groups is not None and c.levels is not None:
            level = known.items.groups.seen(c.levels)
            both = known.items.moments(*own, np.repeat(level, ends.shape[1], axis=0))
            of_groups = np.array([each.reshape(ends.shape) for each in both]) - np.array([u, v]), level
        rest = mean - (coefficient * u).sum(axis=1), np.maximum(variance - (coefficient**2 * v).sum(axis=1), 0.0)
        rises = None if f is None else weighted_rows(f.basis.rows(X), ends, coefficient)
        if rises is not None and known.career is not None:
            falls = known.career.responses(np.zeros(ends.size, dtype=np.int64), own[1] - known.first[own[0]])
            rises -= weighted_rows(falls, np.arange(ends.size).reshape(ends.shape), coefficient)
        columns = [] if c.covariates is None else list((c.covariates / self.covariate_scale).T)
        columns += [one] if self.has_order else []
        slots = [(0, *slot) for slot in zip(ends.T, coefficient.T, strict=True)]
        slots += [(1, np.full(c.n_pairs, j), column) for j, column in enumerate(columns)]
        parts = [known.items] + ([] if self.effects is None else [self.effects])
        answers, own_likelihoods = (c.y, c.weight), self.likelihoods(c.n_pairs, c.levels, likelihood)
        items, *effects = filter_chains(parts, slots, c.time, rest, answers, own_likelihoods, of_groups, rises)
        return replace(known, items=items, effects=effects[0] if effects else None)

    def snapshot(self, time: float, levels: Array | None = None) -> PairPosterior:
        """Return the posterior of all items and effects at one time; own parts of items are independent given the rest.

        Levels are the groups and the numbers of context; None leaves groups out, at the average of numbers.
        """
        n, numbers, f = self.items.n_chains, np.arange(self.n_effects), self.features
        of_groups = None if levels is None else np.tile(levels, (n + 1, 1))
        mean, variance = self.utility(np.append(np.arange(n), -1), np.full(n + 1, time), of_groups)
        scales: dict[str, Scale] = {"offset": FixedScale(1.0 / float(variance[n]))}  # of a new item
        if f is not None:
            scales["f"] = FixedScale(1.0 / f.sd**2)
        mean, variance, shared = mean[:n], variance[:n], np.zeros((n, 0))
        if self.career is not None:
            covariance, place = self._career_at(np.maximum(time - self.first, 0.0))
            values, axes = np.linalg.eigh(covariance)
            shared = (axes * np.sqrt(np.maximum(values, 0.0)))[place]
            variance = variance - np.square(shared).sum(axis=1)
        k, e = 0 if f is None else f.mean.size, numbers.size
        means, half = np.zeros(k + e), np.zeros((k + e + shared.shape[1], k + e))
        centre_mean, centre = float(mean.mean()), np.zeros(len(half))
        own, least = np.zeros((n, len(half))), np.finfo(float).tiny  # of a variance that rounding may lose
        own[:, k + e :] = shared
        if self.effects is not None:
            at = self.effects.clamped(numbers, np.full(e, time))
            means[k:], spread = self.effects.moments(*at)
            half[k : k + e, k:] = np.diag(np.sqrt(np.maximum(spread, least)))
        if f is not None:
            means[:k], half[:k, :k] = f.mean, f.half
            if self.effects is not None:
                half[:k, k:] = -f.half @ self.effects.responses(*at).T
            of_seen = None if of_groups is None else of_groups[:n]
            own += self._rows(np.arange(n), np.full(n, time), np.zeros((n, k)), of_seen) @ half[:, :k].T
            centre, centre_mean = half[:, :k] @ f.average, centre_mean + float(f.average @ f.mean)
        parts = means, half, mean, np.maximum(variance, least), True, self.has_order, scales
        rest = centre_mean, centre + own.mean(axis=0), None, self.covariate_scale, own
        return PairPosterior(None if f is None else f.basis, *parts, *rest)

    def curves(self, items: Items, grid: Array, levels: Array | None = None) -> tuple[Array, Array]:
        """Return means and standard deviations of utilities less their average over compared items, (n, n_times)."""
        position, n, n_all, f = items.position, grid.size, self.items.n_chains, self.features
        times, everyone = np.tile(grid, position.size), np.arange(n_all)
        of_groups = None if levels is None else np.tile(levels, (times.size, 1))
        moments = self.utility(np.repeat(position, n), times, of_groups)
        mean, variance = (each.reshape(position.size, n) for each in moments)
        average, spread, rows = np.empty(n), np.empty(n), np.zeros((position.size, n, 0))
        if f is not None:
            phi = f.basis.rows(items.features)
            mean, own = mean + ((phi - f.average) @ f.mean)[:, None], f.sd**2 * f.basis.residual(items.features, phi)
            variance = variance + np.where(position < 0, own, 0.0)[:, None]
            rows = self._rows(np.repeat(position, n), times, np.repeat(phi - f.average, n, axis=0), of_groups)
            rows = rows.reshape(position.size, n, f.mean.size) @ f.half.T
        step = max(1, BLOCK // n_all)
        for part in chunks(n, step if f is None else max(1, step // f.mean.size)):
            few = grid[part]
            each = np.tile(everyone, few.size), np.repeat(few, n_all)
            same = None if levels is None else np.tile(levels, (few.size * n_all, 1))
            averages = (a.reshape(few.size, n_all).mean(axis=1) for a in self.utility(*each, same))
            average[part], spread[part] = averages
            if f is not None:
                followed = self._rows(*each, np.zeros((few.size * n_all, f.mean.size)), same)
                rows[:, part] -= followed.reshape(few.size, n_all, -1).mean(axis=1) @ f.half.T
        # Of the difference to the average, in which the item has a share.
        share = np.where(position >= 0, 2.0 / n_all, 0.0)
        variance = variance * (1.0 - share[:, None]) + spread / n_all
        for k, time in enumerate(grid if self.career is not None else ()):  # items share the curve of careers, too
            first = np.append(self.first, np.inf)[np.append(position, everyone)]
            covariance, place = self._career_at(np.maximum(time - first, 0.0))
            mine, among = np.split(place, [position.size])
            own, to_all = np.diagonal(covariance), covariance[:, among].mean(axis=1)
            variance[:, k] += own[mine] * share - 2.0 * to_all[mine] + to_all[among].mean() - own[among].mean() / n_all
        variance = np.maximum(variance, 0.0) + np.square(rows).sum(axis=2)
        return mean - average, np.sqrt(variance)
