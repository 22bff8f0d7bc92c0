"""The posterior of a crowd and the predictions from it (docs/maths section 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from skpref import kernels
from skpref._checks import check_arrays, check_diagonals, check_positive, check_types, require
from skpref._compiled.factors import product_moments
from skpref._compiled.pairs import squared_differences
from skpref._math.linalg import product
from skpref._math.threads import limit_blas_threads
from skpref.gp.entities import Items
from skpref.gp.pairwise.posterior import PairPosterior, difference_covariance
from skpref.inference.basis import InducingBasis, chunks
from skpref.inference.scale import check_scales

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skpref._typing import Array, IntArray
    from skpref.inference.scale import Scale

_DRAWN = 2**22  # entries of user factors drawn at once
UNSEEN_USER = Items(None, np.array([-1]))


@dataclass(frozen=True, eq=False)
class FactorPosterior:
    """Posterior of the factors of items or of users.

    With features, v_d(x) = phi(x)^T v_d; without, each entity has one number per factor.
    """

    basis: InducingBasis | None  # kernel and inducing points; None without features
    mean: Array  # (D, K): means, for K inducing points or K seen entities
    half: Array  # (D, K, K): the covariance of a factor is half^T half; (0, 0, 0) without features
    variance: Array  # (D, K): variances of the seen entities; (0, K) with features
    inverse_scale: Array  # (D,): E[s_d]

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, basis=InducingBasis | None)
        sizes = check_arrays(self, mean="D K", inverse_scale="D")
        check_positive(self, "inverse_scale", "variance")
        if self.basis is None:
            check_arrays(self, sizes, half="0 0 0", variance="D K")
            return
        require(sizes["K"] == self.basis.chol.shape[0], self, "mean", "does not fit the inducing points")
        check_arrays(self, sizes, half="D K K", variance="0 K")
        check_diagonals(self, "half")

    @property
    def n_factors(self) -> int:
        """Number of factors, D."""
        return int(self.mean.shape[0])

    def moments(self, entities: Items) -> tuple[Array, Array]:
        """Return posterior means and variances of the factors of entities, shape (D, n)."""
        mean, variance = np.zeros((self.n_factors, entities.size)), np.empty((self.n_factors, entities.size))
        if self.basis is None:
            seen = np.flatnonzero(entities.position >= 0)
            variance[:] = 1.0 / self.inverse_scale[:, None]
            mean[:, seen] = self.mean[:, entities.position[seen]]
            variance[:, seen] = self.variance[:, entities.position[seen]]
            return mean, variance
        for part in chunks(entities.size):
            features = entities.take(part).features
            phi = self.basis.rows(features)
            mean[:, part] = self.mean @ phi.T
            residual = self.basis.residual(features, phi)
            for d, half in enumerate(self.half):
                rows = product(phi, half.T)
                variance[d, part] = np.einsum("ij,ij->i", rows, rows) + residual / self.inverse_scale[d]
        return mean, variance

    def moments_and_prior(self, entities: Items) -> tuple[Array, Array]:
        """Return the moments of entities, and last the prior moments of an unknown one, shape (D, n + 1)."""
        mean, variance = self.moments(entities)
        zero = np.zeros((self.n_factors, 1))
        return np.hstack([mean, zero]), np.hstack([variance, 1.0 / self.inverse_scale[:, None]])

    def differences(self, items: Items, a: IntArray, b: IntArray) -> tuple[Array, Array]:
        """Return posterior means and variances of the differences of factors between items, shape (D, P)."""
        if self.basis is None:
            mean, variance = self.moments(items)
            return mean[:, a] - mean[:, b], np.where(a == b, 0.0, variance[:, a] + variance[:, b])
        phi = self.basis.rows(items.features)
        value = self.mean @ phi.T
        residual = self.basis.pair_residual(items.features, phi, a, b)
        variances = [squared_differences(product(phi, half.T), a, b) for half in self.half]
        variance = np.array(variances).reshape(self.n_factors, len(a)) + residual / self.inverse_scale[:, None]
        return value[:, a] - value[:, b], np.where(a == b, 0.0, variance)

    def covariances(self, entities: Items) -> Array:
        """Return the posterior covariances of each factor between entities, shape (D, n, n)."""
        n = entities.size
        if self.basis is None:
            return self.moments(entities)[1][:, :, None] * np.eye(n)
        phi = self.basis.rows(entities.features)
        residual = kernels.cross(self.basis.kernel, entities.features, entities.features) - phi @ phi.T
        residual[np.diag_indices(n)] = self.basis.residual(entities.features, phi)
        halves = [product(phi, half.T) for half in self.half]
        covariances = np.array([product(half, half.T) for half in halves]).reshape(self.n_factors, n, n)
        return np.asarray(covariances + residual / self.inverse_scale[:, None, None])

    def sample(self, entities: Items, n_samples: int, rng: np.random.Generator) -> Array:
        """Draw factors from the posterior, shape (n_samples, D, n)."""
        noise = rng.standard_normal((n_samples, self.n_factors, entities.size))
        if self.basis is None:
            mean, variance = self.moments(entities)
            return np.asarray(mean + noise * np.sqrt(variance))
        phi = self.basis.rows(entities.features)
        residual = np.sqrt(self.basis.residual(entities.features, phi) / self.inverse_scale[:, None])
        for d, half in enumerate(self.half):
            v = self.mean[d] + rng.standard_normal((n_samples, half.shape[0])) @ half
            noise[:, d] = v @ phi.T + noise[:, d] * residual[d]
        return noise


@dataclass(frozen=True, eq=False)
class CrowdPosterior:
    """Posterior of f(x, u) = t(x) + sum_d w_d(u) v_d(x), and of the bias of each user towards the left side."""

    consensus: PairPosterior  # t and the shared order effect; zero in a model without consensus
    items: FactorPosterior  # v_d
    users: FactorPosterior  # w_d
    bias_mean: Array  # (U,): deviation of each seen user from the shared order effect; empty without one
    bias_variance: Array  # (U,)
    scales: dict[str, Scale]  # posteriors of the inverse variances by name
    centre: Array  # (D,): average of each item factor over the seen items; personal utilities are centred, too

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, consensus=PairPosterior, items=FactorPosterior, users=FactorPosterior)
        sizes = {"D": self.items.n_factors}
        require(self.users.n_factors == sizes["D"], self, "users", f"must have {sizes['D']} factors")
        check_arrays(self, sizes, centre="D", bias_mean="U", bias_variance="U")
        check_positive(self, "bias_variance")
        check_scales(self, "scales", self.scales)

    def bias(self, users: Items) -> tuple[Array, Array]:
        """Return means and variances of the users' biases; the last is for an unknown user, shape (n + 1,)."""
        mean, variance = np.zeros(users.size + 1), np.zeros(users.size + 1)
        if "bias" in self.scales:
            seen = np.flatnonzero(users.position >= 0)
            variance[:] = 1.0 / self.scales["bias"].mean
            mean[seen] = self.bias_mean[users.position[seen]]
            variance[seen] = self.bias_variance[users.position[seen]]
        return mean, variance

    def pairs(
        self,
        users_of_pairs: tuple[Items, IntArray],
        items: Items,
        left: IntArray,
        right: IntArray,
        *,
        covariates: Array | None = None,
        order: bool = True,
        levels: Array | None = None,  # noqa: ARG002 - groups are for a hierarchy
    ) -> tuple[Array, Array]:
        """Return posterior means and variances of the projections z of pairs, one user each, shape (P,)."""
        mean, variance = self.consensus.pairs(items, left, right, covariates=covariates, order=order)
        users, index = users_of_pairs
        factors, bias = self.users.moments_and_prior(users), self.bias(users)
        with limit_blas_threads(self.items.mean.shape[1]):
            for part in chunks(left.shape[0]):
                used, inverse = np.unique(np.concatenate([left[part], right[part]]), return_inverse=True)
                differences = self.items.differences(items.take(used), *np.split(inverse, 2))
                user = index[part]
                personal = product_moments(differences, (factors[0][:, user], factors[1][:, user]))
                mean[part] += personal[0] + (bias[0][user] if order else 0.0)
                variance[part] += personal[1] + (bias[1][user] if order else 0.0)
        return mean, variance

    def pair_covariance(
        self, user: Items, items: Items, left: IntArray, right: IntArray, covariates: Array | None = None
    ) -> Array:
        """Return the posterior covariance of the projections z of pairs for one user, all effects included."""
        (w, w_variance), bias = self.users.moments(user), self.bias(user)[1][0]
        v = self.items.moments(items)[0]
        covariance = self.consensus.pair_covariance(items, left, right, covariates) + bias
        for d, v_covariance in enumerate(self.items.covariances(items)):
            difference, v_variance = v[d, left] - v[d, right], difference_covariance(v_covariance, left, right)
            second_moment = w[d, 0] ** 2 + w_variance[d, 0]
            covariance += w_variance[d, 0] * np.outer(difference, difference) + second_moment * v_variance
        return covariance

    def unseen_user_posterior(self) -> CrowdPosterior:
        """Return the posterior for unseen users without features."""
        d = self.users.n_factors
        prior = replace(
            self.users, basis=None, mean=np.zeros((d, 0)), half=np.zeros((0, 0, 0)), variance=np.zeros((d, 0))
        )
        return replace(self, users=prior)

    def utility(self, users: Items, items: Items) -> tuple[Array, Array]:
        """Return posterior means and variances of personal utilities, shape (n_users, n)."""
        t, t_variance = self.consensus.utility(items, centred=True)
        v, v_variance = self.items.moments(items)
        w, w_variance = self.users.moments(users)
        v = v - self.centre[:, None]
        mean = t + w.T @ v
        return mean, t_variance + (w**2 + w_variance).T @ v_variance + w_variance.T @ v**2

    def deviations(self, users: Items, items: Items) -> Array:
        """Return posterior means of personal minus consensus utilities, shape (n_users, n)."""
        v = self.items.moments(items)[0] - self.centre[:, None]
        return np.asarray(self.users.moments(users)[0].T @ v)

    def side_effects(self, users: Items) -> tuple[Array, Array]:
        """Return means and variances of the advantage that users give to the left side, shape (n_users,)."""
        shared, (mean, variance) = self.consensus.order_effect, self.bias(users)
        return mean[:-1] + shared[0], variance[:-1] + shared[1]

    def draws(
        self, users: Items, items: Items, n_samples: int, rng: np.random.Generator
    ) -> tuple[Array, Iterator[Array]]:
        """Return draws of the consensus (n_samples, n), and for each user draws of its utilities, in order."""
        t = self.consensus.sample_residuals_independently(items, n_samples, rng)
        v = self.items.sample(items, n_samples, rng) - self.centre[:, None]
        return t, self._personal_draws(users, t, v, rng)

    def _personal_draws(self, users: Items, t: Array, v: Array, rng: np.random.Generator) -> Iterator[Array]:
        for part in chunks(users.size, max(1, _DRAWN // max(1, v.shape[0] * v.shape[1]))):
            w = self.users.sample(users.take(part), v.shape[0], rng)
            for u in range(w.shape[2]):
                yield t + np.einsum("sd,sdn->sn", w[:, :, u], v)

    def sample(self, users: Items, items: Items, n_samples: int, rng: np.random.Generator) -> Array:
        """Draw personal utilities from the posterior, shape (n_samples, n_users, n)."""
        t = self.consensus.sample_residuals_independently(items, n_samples, rng)
        v = self.items.sample(items, n_samples, rng) - self.centre[:, None]
        return t[:, None, :] + np.einsum("sdu,sdn->sun", self.users.sample(users, n_samples, rng), v)
