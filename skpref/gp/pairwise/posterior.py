"""The posterior of a pairwise model and the predictions from it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from skpref import kernels
from skpref._checks import (
    check_arrays,
    check_diagonals,
    check_features,
    check_indices,
    check_positive,
    check_types,
    require,
)
from skpref._math.limits import MOST_JOINT
from skpref._math.linalg import product
from skpref._math.threads import limit_blas_threads
from skpref.exceptions import DataError
from skpref.gp.pairwise.policy import POLICY
from skpref.inference.basis import InducingBasis, chunks
from skpref.inference.scale import check_scales
from skpref.inference.terms.pairs import difference_variance

if TYPE_CHECKING:
    from skpref._typing import Array, Features, IntArray
    from skpref.gp.entities import Items
    from skpref.inference.scale import Scale


@dataclass(frozen=True, eq=False)
class AverageResidual:
    """Average over the seen items of the residual of the inducing points, e(x) = f(x) - phi(x)^T v.

    Of more than 1,000 items it is the average over as many, evenly spaced.
    """

    features: Features  # (S, d): these items
    position: IntArray  # (S,): their positions in the posterior
    rows: Array  # (M,): average of their rows phi
    variance: float  # of the average residual, in units of k

    @classmethod
    def from_basis(cls, basis: InducingBasis, X: Features) -> AverageResidual:
        """Return the average residual of items."""
        position = np.unique(np.linspace(0, X.shape[0] - 1, min(X.shape[0], POLICY.averaged_items)).astype(np.int64))
        features = X[position]
        average = cls(features, position, basis.rows(features).mean(axis=0), 0.0)
        with_average = average.covariance(basis, features, basis.rows(features), position)
        return replace(average, variance=max(float(with_average.mean()), 0.0))

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_arrays(self, rows="M")
        check_types(self, variance=float, position=np.ndarray)
        check_features(self, "features", self.features, self.position.size)
        check_indices(self, "position", self.position, 0, np.iinfo(np.int64).max)
        check_positive(self, "variance", zero=True)

    def covariance(self, basis: InducingBasis, X: Features, phi: Array, position: IntArray) -> Array:
        """Return the prior covariance of the residuals of items with the average, shape (n,)."""
        white = kernels.diagonal(basis.kernel, X) - kernels.paired(basis.kernel, X, X)  # of an item with itself alone
        shared = np.isin(position, self.position) / self.position.size
        return kernels.cross(basis.kernel, X, self.features).mean(axis=1) - phi @ self.rows + shared * white


@dataclass(frozen=True, eq=False)
class PairPosterior:
    """Posterior of u(item) = phi(x)^T v + o_item, and of effects of covariates and of the order.

    The covariance of the dense block is S = half^T half. Its variables are [v (M), offsets (N), coefficients of the
    covariates (q), order effect (1)], where each part may be absent.
    """

    basis: InducingBasis | None  # kernel and inducing points; None without features
    mean: Array  # (K,): mean of the dense block; K = 0 without one
    half: Array  # (R, K): inverse Cholesky factor of its precision, above rows of zeros of what else items share
    offset_mean: Array  # (N,): means of the offsets of the seen items; N = 0 without offsets
    offset_variance: Array | None  # (N,): their variances; None when they belong to the dense block
    has_offsets: bool
    has_order: bool
    # Posteriors of the inverse variances: "f", "offset", "order"; "offset" without offsets is that of new items alone.
    scales: dict[str, Scale]
    centre_mean: float  # posterior mean of the average utility of the seen items
    centre_half: Array  # (R,): average of their half rows
    average_residual: AverageResidual | None  # of the seen items; None where inducing points leave nothing
    covariate_scale: Array = field(default_factory=lambda: np.ones(0))  # (q,): the units of the coefficients
    # (N, R): the rows of seen items' utilities beside those of their features; the offsets of these have what inducing
    # points leave, too
    offset_half: Array | None = None

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, basis=InducingBasis | None, has_offsets=bool, has_order=bool, centre_mean=float)
        require(np.isfinite(self.centre_mean), self, "centre_mean", "must be finite")
        n = check_arrays(self, offset_mean="N")["N"]
        joint = self.has_offsets and self.offset_variance is None
        check_arrays(self, covariate_scale="q")
        check_positive(self, "covariate_scale")
        size = self.n_basis + (n if joint else 0) + self.covariate_scale.size + int(self.has_order)
        rows = check_arrays(self, {"K": size}, mean="K", half="R K", centre_half="R")["R"]
        check_diagonals(self, "half")
        check_types(self, average_residual=AverageResidual | None)
        require(
            self.average_residual is None or self.average_residual.rows.size == self.n_basis,
            self,
            "average_residual",
            f"must be of {self.n_basis} inducing points",
        )
        if self.offset_half is not None:
            check_arrays(self, {"N": n, "R": rows}, offset_half="N R")
        if self.offset_variance is not None:
            check_arrays(self, {"N": n}, offset_variance="N")
            check_positive(self, "offset_variance")
        needed = {"f": self.basis is not None, "offset": self.has_offsets}
        check_scales(self, "scales", self.scales, {name for name, used in needed.items() if used})

    @property
    def n_basis(self) -> int:
        """Number of inducing points, M."""
        return 0 if self.basis is None else int(self.basis.chol.shape[0])

    @property
    def n_seen(self) -> int:
        """Number of items with an offset."""
        return int(self.offset_mean.size)

    @property
    def order_effect(self) -> tuple[float, float]:
        """Posterior mean and variance of the advantage of the left side; zeros without an order effect."""
        if not self.has_order:
            return 0.0, 0.0
        return float(self.mean[-1]), float(self.half[:, -1] @ self.half[:, -1])

    @property
    def coefficients(self) -> tuple[Array, Array]:
        """Posterior mean (q,) and covariance (q, q) of the effects of the covariates, in their own units."""
        start = self.mean.size - self.covariate_scale.size - int(self.has_order)
        part = slice(start, start + self.covariate_scale.size)
        half = self.half[:, part] / self.covariate_scale
        return self.mean[part] / self.covariate_scale, half.T @ half

    def _extra(self, n_pairs: int, covariates: Array | None, *, order: bool) -> tuple[Array, Array, Array] | None:
        """Return covariates and the order effect's ones (n, E), with means (E,) and rows of `half` (E, K) of effects.

        Covariates that are None are 0.
        """
        n_covariates = self.covariate_scale.size * (covariates is not None)
        order = order and self.has_order
        if not n_covariates and not order:
            return None
        columns = [] if covariates is None else [covariates / self.covariate_scale]
        columns += [np.ones((n_pairs, 1))] if order else []
        start = self.mean.size - int(self.has_order) - n_covariates
        part = slice(start, start + n_covariates + int(order))
        return np.hstack(columns), self.mean[part], np.ascontiguousarray(self.half[:, part].T)

    def _rows(self, items: Items, *, centred: bool = False) -> tuple[Array, Array, Array]:
        """Return posterior means (n,), rows of `half` (n, K) and of phi (n, M) for items."""
        m, position = self.n_basis, items.position
        seen = np.flatnonzero(position >= 0)
        phi = np.zeros((items.size, 0)) if self.basis is None else self.basis.rows(items.features)
        mean = phi @ self.mean[:m]
        half = product(phi, np.ascontiguousarray(self.half[:, :m]).T)
        if self.has_offsets:
            mean[seen] += self.offset_mean[position[seen]]
            if self.offset_half is not None:
                half[seen] += self.offset_half[position[seen]]
            elif self.offset_variance is None:
                half[seen] += self.half[:, m + position[seen]].T
        return (mean - self.centre_mean, half - self.centre_half, phi) if centred else (mean, half, phi)

    def half_rows(self, items: Items, *, centred: bool = False) -> Array:
        """Return rows whose products are the covariance of the dense block's part of utilities, shape (n, K)."""
        return self._rows(items, centred=centred)[1]

    def _own_variance(self, items: Items, *, item_effects: bool) -> Array:
        """Return the variance of each item's offset that is not in the dense block, shape (n,)."""
        variance, seen = np.zeros(items.size), items.position >= 0
        if self.offset_variance is not None:
            variance[seen] = self.offset_variance[items.position[seen]]
        if item_effects and "offset" in self.scales:
            variance[items.position == -1] = 1.0 / self.scales["offset"].mean
        return variance

    def _with_average(self, items: Items, phi: Array) -> tuple[Array, float]:
        """Return the covariance of the part independent of the dense block with its average over the seen items.

        Covariances have shape (n,); the variance of the average comes second.
        """
        covariance, variance = np.zeros(items.size), 0.0
        if self.offset_variance is not None:
            seen = items.position >= 0
            covariance[seen] = self.offset_variance[items.position[seen]] / self.n_seen
            variance = float(self.offset_variance.mean()) / self.n_seen
        if self.average_residual is not None and self.basis is not None:
            s = self.scales["f"].mean
            covariance += self.average_residual.covariance(self.basis, items.features, phi, items.position) / s
            variance += self.average_residual.variance / s
        return covariance, variance

    def _has_rest(self, items: Items) -> Array:
        """Return 1 for items with a rest beside inducing points, and 0 where the offset has it, shape (n,)."""
        return np.ones(items.size) if self.offset_half is None else np.where(items.position < 0, 1.0, 0.0)

    def _independent_variance(self, items: Items, phi: Array, *, item_effects: bool, centred: bool) -> Array:
        """Return the variance of each item that is not in the dense block: of its offset and its residual, (n,)."""
        variance = self._own_variance(items, item_effects=item_effects)
        if self.basis is not None:
            variance += self._has_rest(items) * self.basis.residual(items.features, phi) / self.scales["f"].mean
        if centred:
            with_average, of_average = self._with_average(items, phi)
            variance = np.maximum(variance - 2.0 * with_average + of_average, 0.0)
        return variance

    def utility(self, items: Items, *, item_effects: bool = True, centred: bool = False) -> tuple[Array, Array]:
        """Return posterior means and variances of utilities, shape (n,)."""
        mean, variance = np.empty(items.size), np.empty(items.size)
        with limit_blas_threads(self.half.shape[0]):
            for part in chunks(items.size):
                chunk = items.take(part)
                mean[part], half, phi = self._rows(chunk, centred=centred)
                variance[part] = np.einsum("ij,ij->i", half, half)
                variance[part] += self._independent_variance(chunk, phi, item_effects=item_effects, centred=centred)
        return mean, variance

    def covariance(self, items: Items, *, item_effects: bool = True, centred: bool = False) -> tuple[Array, Array]:
        """Return posterior mean and covariance of utilities, shapes (n,) and (n, n)."""
        if items.size > MOST_JOINT:
            msg = (
                f"A joint covariance of {items.size} items needs {8e-9 * items.size**2:.1f} GB; at most "
                f"{MOST_JOINT} items are allowed. Pass fewer items, or use return_std."
            )
            raise DataError(msg)
        with limit_blas_threads(max(self.half.shape[0], items.size)):
            mean, half, phi = self._rows(items, centred=centred)
            covariance = product(half, half.T)
        if self.basis is not None:
            # k(x, x') - phi phi'^T, without white noise off the diagonal.
            residual = kernels.cross(self.basis.kernel, items.features, items.features) - phi @ phi.T
            residual[np.diag_indices_from(residual)] = self.basis.residual(items.features, phi)
            rest = self._has_rest(items)
            covariance += rest[:, None] * residual * rest / self.scales["f"].mean
        own = self._own_variance(items, item_effects=item_effects)
        # An item that occurs twice is one item; unseen items are all different.
        identity = np.where(items.position >= 0, items.position, -1 - np.arange(items.size))
        covariance += np.where(identity[:, None] == identity[None, :], own, 0.0)
        if centred:
            with_average, of_average = self._with_average(items, phi)
            covariance += of_average - with_average[:, None] - with_average[None, :]
        return mean, covariance

    def sample_residuals_independently(
        self, items: Items, n_samples: int, rng: np.random.Generator, *, centred: bool = True
    ) -> Array:
        """Draw utilities, shape (n_samples, n): the dense block jointly, the residuals of the items independently."""
        shared = rng.standard_normal((n_samples, self.half.shape[0]))
        out = rng.standard_normal((n_samples, items.size))
        for part in chunks(items.size, 1000):
            chunk = items.take(part)
            mean, half, phi = self._rows(chunk, centred=centred)
            variance = self._independent_variance(chunk, phi, item_effects=True, centred=centred)
            out[:, part] = mean + shared @ half.T + out[:, part] * np.sqrt(variance)
        return out

    def pairs(
        self,
        items: Items,
        left: IntArray,
        right: IntArray,
        *,
        covariates: Array | None = None,
        item_effects: bool = True,
        order: bool = True,
    ) -> tuple[Array, Array]:
        """Return posterior means and variances of the projections z of pairs, shape (P,); no covariates are zeros."""
        mean, variance = np.empty(left.shape[0]), np.empty(left.shape[0])
        extra = self._extra(left.shape[0], covariates, order=order)
        with limit_blas_threads(self.half.shape[0]):
            for part in chunks(left.shape[0]):
                used, inverse = np.unique(np.concatenate([left[part], right[part]]), return_inverse=True)
                a, b = np.split(inverse, 2)
                share = None if extra is None else (extra[0][part], *extra[1:])
                mean[part], variance[part] = self._pair_chunk(items.take(used), a, b, share, item_effects=item_effects)
        return mean, variance

    def pair_covariance(
        self, items: Items, left: IntArray, right: IntArray, covariates: Array | None = None, *, team_mean: bool = False
    ) -> Array:
        """Return the posterior covariance between the projections z of pairs, all effects included, shape (P, P)."""
        ends, coefficient = item_slots(left, right, mean=team_mean)
        of_items = weighted_rows(self.covariance(items)[1], ends, coefficient)
        covariance = weighted_rows(of_items.T, ends, coefficient)
        extra = self._extra(left.shape[0], covariates, order=True)
        if extra is not None:
            design, _, effects = extra
            with_items = weighted_rows(self._rows(items)[1], ends, coefficient) @ effects.T @ design.T
            covariance += with_items + with_items.T + design @ (effects @ effects.T) @ design.T
        return covariance

    def _pair_chunk(
        self, items: Items, a: IntArray, b: IntArray, extra: tuple[Array, Array, Array] | None, *, item_effects: bool
    ) -> tuple[Array, Array]:
        u, half, phi = self._rows(items)
        own = self._own_variance(items, item_effects=item_effects)
        design, mean, effects = (None, self.mean, half) if extra is None else extra
        variance = difference_variance(half, a, b, effects, design) + np.where(a == b, 0.0, own[a] + own[b])
        if self.basis is not None:
            if self.offset_half is None:
                residual = self.basis.pair_residual(items.features, phi, a, b)
            else:
                residual = residual_of_new(self.basis, items, phi, a, b)
            variance += np.where(a == b, 0.0, residual) / self.scales["f"].mean
        difference = u[a] - u[b]
        return difference if design is None else difference + design @ mean, variance


def residual_of_new(basis: InducingBasis, items: Items, phi: Array, left: IntArray, right: IntArray) -> Array:
    """Return what inducing points leave of pairs, without the parts of compared items, whose own variables have it."""
    rest, new = basis.residual(items.features, phi), items.position < 0
    variance, both = rest[left] * new[left] + rest[right] * new[right], new[left] & new[right]
    variance[both] = basis.pair_residual(items.features, phi, left[both], right[both])
    return np.asarray(variance)


def difference_covariance(covariance: Array, left: IntArray, right: IntArray) -> Array:
    """Return the covariance of differences between items, shape (P, P)."""
    rows = covariance[left] - covariance[right]
    return rows[:, left] - rows[:, right]


# ------ slots of a comparison: the items whose utilities z adds and subtracts, one of each, or the players of two teams
def item_slots(left: IntArray, right: IntArray, *, mean: bool) -> tuple[IntArray, Array]:
    """Return the items of comparisons and their coefficients in z, (n, S) each; slots without a player have 0."""
    sides = [side[:, None] if side.ndim == 1 else side for side in (left, right)]
    shares = [(side >= 0).astype(np.float64) for side in sides]
    if mean:
        shares = [share / share.sum(axis=1, keepdims=True) for share in shares]
    items = np.hstack(sides)
    return np.where(items < 0, items[:, :1], items), np.hstack([shares[0], -shares[1]])


def weighted_rows(rows: Array, items: IntArray, coefficient: Array) -> Array:
    """Return the sums of the rows of items times their coefficients, shape (n, K)."""
    total = coefficient[:, :1] * rows[items[:, 0]]
    for s in range(1, items.shape[1]):
        total += coefficient[:, s, None] * rows[items[:, s]]
    return total


def join_equal(place: IntArray, coefficient: Array) -> Array:
    """Return coefficients (n, S) in which the first of equal places in a row has the sum of theirs, and others 0."""
    joined = coefficient.copy()
    for s in range(place.shape[1] - 1):
        for t in range(s + 1, place.shape[1]):
            same = place[:, s] == place[:, t]
            joined[same, s] += joined[same, t]
            joined[same, t] = 0.0
    return joined
