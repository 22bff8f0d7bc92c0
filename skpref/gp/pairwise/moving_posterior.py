"""The posterior of utilities that move in time, and predictions at any time (docs/maths 12)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from skpref._checks import check_arrays, check_diagonals, check_positive, check_types, require
from skpref.gp.entities import Items
from skpref.gp.pairwise.posterior import PairPosterior, residual_of_new
from skpref.inference.basis import InducingBasis, chunks
from skpref.inference.chain_filter import filter_chains
from skpref.inference.chains import Trajectories

if TYPE_CHECKING:
    from skpref._typing import Array, Features, IntArray
    from skpref.data import Comparisons
    from skpref.inference.scale import Scale
    from skpref.likelihoods import Likelihood

AGES = 200  # ages that are told apart in a span
_MOST_AGES = 2_000  # ages of which covariances are taken at most
_AT_ONCE = 2**24  # numbers that are held at once: 128 MB


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

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        types = {"effects": Trajectories | None, "career": Trajectories | None, "has_order": bool, "is_dated": bool}
        check_types(self, items=Trajectories, features=FeaturePosterior | None, **types)
        check_arrays(self, covariate_scale="q")
        check_positive(self, "covariate_scale")
        require((self.effects is None) == (not self.n_effects), self, "effects", f"must be of {self.n_effects} effects")
        for name, n in (("items", None), ("effects", self.n_effects), ("career", 1)):
            part = getattr(self, name)
            chains = np.zeros(0, dtype=np.int64) if part is None else np.unique(part.chain)
            whole = part is None or np.array_equal(chains, np.arange(n or max(chains.size, 1)))
            require(whole, self, name, "must have nodes of each chain")
            response = None if part is None or part.response is None else part.response.shape[1]
            size = None if self.features is None or part is None else self.features.mean.size
            require(response == size, self, name, "must have the responses to features, where there are any")

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

    def utility(self, position: IntArray, time: Array) -> tuple[Array, Array]:
        """Return means and variances of items at times, without the function of features, shape (n,).

        Before its first comparison an item is as there.
        """
        mean, variance = np.zeros(position.size), np.full(position.size, self.items.prior_variance)
        seen = position >= 0
        item, at = self.items.clamped(position[seen], time[seen])
        mean[seen], variance[seen] = self.items.moments(item, at)
        if self.career is not None:
            of_age = self.career.moments(np.zeros(item.size, dtype=np.int64), at - self.first[item])
            mean[seen] += of_age[0]
            variance[seen] += of_age[1]
        return mean, variance

    def _rows(self, position: IntArray, time: Array, phi: Array) -> Array:
        """Return by how much utilities of items at times rise with the coefficients of features, shape (n, K)."""
        rows, seen = phi.copy(), position >= 0
        item, at = self.items.clamped(position[seen], time[seen])
        rows[seen] -= self.items.responses(item, at)
        if self.career is not None:
            rows[seen] -= self.career.responses(np.zeros(item.size, dtype=np.int64), at - self.first[item])
        return rows

    def pairs(
        self, items: Items, left: IntArray, right: IntArray, time: Array, covariates: Array | None, *, order: bool
    ) -> tuple[Array, Array]:
        """Return posterior means and variances of the projections z of pairs at their times, shape (P,)."""
        n, rows, f = left.size, None, self.features
        if f is not None and n > (most := max(_AT_ONCE // f.mean.size, 1)):
            found = []
            for part in chunks(n, most):
                few = None if covariates is None else covariates[part]
                found.append(self.pairs(items, left[part], right[part], time[part], few, order=order))
            means, variances = zip(*found, strict=True)
            return np.concatenate(means), np.concatenate(variances)
        same, ends, twice = left == right, np.concatenate([left, right]), np.concatenate([time, time])
        position = items.position[ends]
        u, v = self.utility(position, twice)
        mean, variance = u[:n] - u[n:], v[:n] + v[n:]
        if self.career is not None:  # which both sides share
            variance = np.maximum(variance - 2.0 * self._shared_career(position, time), 0.0)
        if f is not None:
            phi = f.basis.rows(items.features)
            variance += f.sd**2 * residual_of_new(f.basis, items, phi, left, right)
            mean += (phi[left] - phi[right]) @ f.mean
            of_sides = self._rows(position, twice, phi[ends])
            rows = of_sides[:n] - of_sides[n:]
        variance = np.where(same, 0.0, variance)
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

    def _shared_career(self, position: IntArray, time: Array) -> Array:
        """Return the covariance of the career curve at the ages of both sides of pairs, shape (P,)."""
        assert self.career is not None  # noqa: S101 - type narrowing
        seen = position >= 0
        first = np.where(seen, self.first[np.maximum(position, 0)], np.inf)
        age = np.where(seen, np.maximum(np.concatenate([time, time]) - first, 0.0), 0.0)
        step = max(float(self.career.time.max(initial=0.0)), np.finfo(float).tiny) / AGES
        ages, place = np.unique(np.minimum(np.rint(age / step), _MOST_AGES), return_inverse=True)
        left, right = np.split(place, 2)
        return self.career.covariance(ages * step)[left, right]

    def filtered(self, c: Comparisons, likelihood: Likelihood, X: Features) -> MovingPosterior:
        """Return the posterior after comparisons in the order of time; the curve of careers and features stay.

        X has the features of all items, of which those beyond the known ones are new.
        """
        assert c.time is not None  # noqa: S101 - type narrowing
        n_old, f, one, sides = self.items.n_chains, self.features, np.ones(c.n_pairs), (c.left, c.right)
        first = np.full(c.n_items, np.inf)
        for side in sides:
            np.minimum.at(first, side, c.time)
        new, nothing = np.arange(n_old, c.n_items), np.zeros(c.n_items - n_old)
        if f is not None:
            total = n_old * f.average + f.basis.rows(X[n_old:]).sum(axis=0)
            f = replace(f, average=total / c.n_items)
        items = self.items.with_nodes(new, first[n_old:], nothing, nothing) if new.size else self.items
        known = replace(self, items=items, features=f)
        # All but the utilities of the items' own and the effects of the rows: careers and features.
        mean, variance = known.pairs(Items(X, np.arange(c.n_items)), *sides, c.time, None, order=False)
        (u, v), (other, more) = (known.items.moments(side, c.time) for side in sides)
        rest = mean - (u - other), np.maximum(variance - (v + more), 0.0)
        columns = [] if c.covariates is None else list((c.covariates / self.covariate_scale).T)
        columns += [one] if self.has_order else []
        slots = [(0, c.left, one), (0, c.right, -one)]
        slots += [(1, np.full(c.n_pairs, j), column) for j, column in enumerate(columns)]
        parts = [known.items] + ([] if self.effects is None else [self.effects])
        items, *effects = filter_chains(parts, slots, c.time, rest, (c.y, c.weight), likelihood)
        return replace(known, items=items, effects=effects[0] if effects else None)

    def snapshot(self, time: float, scales: dict[str, Scale]) -> PairPosterior:
        """Return the posterior of all items and effects at one time; items are independent given comparisons and w."""
        n, numbers, f = self.items.n_chains, np.arange(self.n_effects), self.features
        mean, variance = self.utility(np.arange(n), np.full(n, time))
        effect, spread = np.zeros(0), np.zeros(0)
        if self.effects is not None:
            at = self.effects.clamped(numbers, np.full(numbers.size, time))
            effect, spread = self.effects.moments(*at)
        least = np.finfo(float).tiny  # of a variance that rounding may lose
        variance, half = np.maximum(variance, least), np.diag(np.sqrt(np.maximum(spread, least)))
        parts = True, self.has_order, scales, float(mean.mean())
        if f is None:
            centre = np.zeros(numbers.size)
            return PairPosterior(None, effect, half, mean, variance, *parts, centre, None, self.covariate_scale)
        k = f.mean.size
        whole = np.zeros((k + numbers.size, k + numbers.size))
        whole[:k, :k], whole[k:, k:] = f.half, half
        if self.effects is not None:
            whole[:k, k:] = -f.half @ self.effects.responses(*at).T
        offsets = self._rows(np.arange(n), np.full(n, time), np.zeros((n, k))) @ whole[:, :k].T
        parts = *parts[:3], parts[3] + float(f.average @ f.mean)
        centre = whole[:, :k] @ f.average + offsets.mean(axis=0)
        means = np.concatenate([f.mean, effect])
        more = None, self.covariate_scale, offsets
        return PairPosterior(f.basis, means, whole, mean, variance, *parts, centre, *more)

    def curves(self, items: Items, grid: Array) -> tuple[Array, Array]:
        """Return means and standard deviations of utilities less their average over compared items, (n, n_times)."""
        position, n, n_all, f = items.position, grid.size, self.items.n_chains, self.features
        times, everyone = np.tile(grid, position.size), np.arange(n_all)
        mean, variance = (each.reshape(position.size, n) for each in self.utility(np.repeat(position, n), times))
        average, spread, rows = np.empty(n), np.empty(n), np.zeros((position.size, n, 0))
        if f is not None:
            phi = f.basis.rows(items.features)
            mean, own = mean + ((phi - f.average) @ f.mean)[:, None], f.sd**2 * f.basis.residual(items.features, phi)
            variance = variance + np.where(position < 0, own, 0.0)[:, None]
            rows = self._rows(np.repeat(position, n), times, np.repeat(phi - f.average, n, axis=0))
            rows = rows.reshape(position.size, n, f.mean.size) @ f.half.T
        step = max(1, _AT_ONCE // n_all)
        for part in chunks(n, step if f is None else max(1, step // f.mean.size)):
            few = grid[part]
            each = np.tile(everyone, few.size), np.repeat(few, n_all)
            average[part], spread[part] = (a.reshape(few.size, n_all).mean(axis=1) for a in self.utility(*each))
            if f is not None:
                followed = self._rows(*each, np.zeros((few.size * n_all, f.mean.size)))
                rows[:, part] -= followed.reshape(few.size, n_all, -1).mean(axis=1) @ f.half.T
        # Of the difference to the average, in which the item has a share.
        share = np.where(position >= 0, 2.0 / n_all, 0.0)[:, None]
        variance = np.maximum(variance * (1.0 - share) + spread / n_all, 0.0) + np.square(rows).sum(axis=2)
        return mean - average, np.sqrt(variance)
