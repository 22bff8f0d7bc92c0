"""The posterior of a crowd as small frozen records, and everything that is predicted from it (docs/maths section 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from skpref import kernels
from skpref._compiled.factors import product_moments
from skpref._compiled.pairs import squared_differences
from skpref._math.linalg import product
from skpref._math.threads import limit_blas_threads
from skpref.gp.entities import Items
from skpref.gp.pairwise.posterior import between_pairs
from skpref.inference.basis import chunks

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.inference.basis import InducingBasis
    from skpref.inference.scale import Scale

UNSEEN_USER = Items(None, np.array([-1]))


@dataclass(frozen=True, eq=False)
class FactorPosterior:
    """q of one side's factors: v_d(x) = phi(x)^T v_d with features, one number an entity and factor without."""

    basis: InducingBasis | None  # kernel and inducing points; None without features
    mean: Array  # (D, K): means; K inducing points or seen entities
    half: Array  # (D, K, K): L^-1 of each factor's precision, S = half^T half; D = 0 without features
    variance: Array  # (D, K): variances of the seen entities; D = 0 with features
    inverse_scale: Array  # (D,): E[s_d]

    @property
    def n_factors(self) -> int:
        """D."""
        return int(self.mean.shape[0])

    def moments(self, entities: Items) -> tuple[Array, Array]:
        """Return means and variances of the factors of entities, shape (D, n)."""
        mean, variance = np.zeros((self.n_factors, entities.size)), np.empty((self.n_factors, entities.size))
        if self.basis is None:
            known = np.flatnonzero(entities.position >= 0)
            variance[:] = 1.0 / self.inverse_scale[:, None]
            mean[:, known] = self.mean[:, entities.position[known]]
            variance[:, known] = self.variance[:, entities.position[known]]
            return mean, variance
        for part in chunks(entities.size):
            some = entities.take(part)
            phi = self.basis.rows(some.features)
            mean[:, part] = self.mean @ phi.T
            rest = self.basis.residual(some.features, phi)
            for d, half in enumerate(self.half):
                rows = product(phi, half.T)
                variance[d, part] = np.einsum("ij,ij->i", rows, rows) + rest / self.inverse_scale[d]
        return mean, variance

    def with_stranger(self, entities: Items) -> tuple[Array, Array]:
        """Return the moments of entities, and of one of whom nothing is known, shape (D, n + 1)."""
        mean, variance = self.moments(entities)
        zero = np.zeros((self.n_factors, 1))
        return np.hstack([mean, zero]), np.hstack([variance, 1.0 / self.inverse_scale[:, None]])

    def differences(self, items: Items, a: IntArray, b: IntArray) -> tuple[Array, Array]:
        """Return means and variances of the factors' differences between items, shape (D, P)."""
        if self.basis is None:
            mean, variance = self.moments(items)
            return mean[:, a] - mean[:, b], np.where(a == b, 0.0, variance[:, a] + variance[:, b])
        phi = self.basis.rows(items.features)
        value = self.mean @ phi.T
        rest = self.basis.pair_residual(items.features, phi, a, b)
        spread = [squared_differences(product(phi, half.T), a, b) for half in self.half]
        variance = np.array(spread).reshape(self.n_factors, len(a)) + rest / self.inverse_scale[:, None]
        return value[:, a] - value[:, b], np.where(a == b, 0.0, variance)

    def covariances(self, entities: Items) -> Array:
        """Return the covariances of the factors between entities, shape (D, n, n)."""
        n = entities.size
        if self.basis is None:
            return self.moments(entities)[1][:, :, None] * np.eye(n)
        phi = self.basis.rows(entities.features)
        rest = kernels.cross(self.basis.kernel, entities.features, entities.features) - phi @ phi.T
        rest[np.diag_indices(n)] = self.basis.residual(entities.features, phi)
        halves = [product(phi, half.T) for half in self.half]
        known = np.array([product(half, half.T) for half in halves]).reshape(self.n_factors, n, n)
        return np.asarray(known + rest / self.inverse_scale[:, None, None])

    def sample(self, entities: Items, n_samples: int, rng: np.random.Generator) -> Array:
        """Draw factors, shape (n_samples, D, n)."""
        noise = rng.standard_normal((n_samples, self.n_factors, entities.size))
        if self.basis is None:
            mean, variance = self.moments(entities)
            return np.asarray(mean + noise * np.sqrt(variance))
        phi = self.basis.rows(entities.features)
        rest = np.sqrt(self.basis.residual(entities.features, phi) / self.inverse_scale[:, None])
        for d, half in enumerate(self.half):
            v = self.mean[d] + rng.standard_normal((n_samples, half.shape[0])) @ half
            noise[:, d] = v @ phi.T + noise[:, d] * rest[d]
        return noise


@dataclass(frozen=True, eq=False)
class CrowdPosterior:
    """q of a crowd: f(x, u) = t(x) + sum_d w_d(u) v_d(x), and a bias of each user towards the left side."""

    consensus: PairPosterior  # t, and the order effect that all users share; all zero in a model without consensus
    items: FactorPosterior  # v_d and w_d
    users: FactorPosterior  # v_d and w_d
    bias_mean: Array  # (U,): each seen user's departure from the shared order effect; empty without one
    bias_variance: Array  # (U,): each seen user's departure from the shared order effect; empty without one
    scales: dict[str, Scale]  # q(s) by name
    # (D,): average of each item factor over the seen items: personal utilities are measured from their average, as
    # the consensus is
    centre: Array

    def bias(self, users: Items) -> tuple[Array, Array]:
        """Return the users' own shares of the order effect, shape (n + 1,)."""
        mean, variance = np.zeros(users.size + 1), np.zeros(users.size + 1)
        if "bias" in self.scales:
            known = np.flatnonzero(users.position >= 0)
            variance[:] = 1.0 / self.scales["bias"].mean
            mean[known] = self.bias_mean[users.position[known]]
            variance[known] = self.bias_variance[users.position[known]]
        return mean, variance

    def pairs(
        self, people: tuple[Items, IntArray], items: Items, left: IntArray, right: IntArray, *, order: bool = True
    ) -> tuple[Array, Array]:
        """Return posterior means and variances of users' projections z of pairs, shape (P,)."""
        mean, variance = self.consensus.pairs(items, left, right, order=order)
        users, index = people
        factors, bias = self.users.with_stranger(users), self.bias(users)
        with limit_blas_threads(self.items.mean.shape[1]):
            for part in chunks(left.shape[0]):
                used, inverse = np.unique(np.concatenate([left[part], right[part]]), return_inverse=True)
                between = self.items.differences(items.take(used), *np.split(inverse, 2))
                who = index[part]
                share = product_moments(between, (factors[0][:, who], factors[1][:, who]))
                mean[part] += share[0] + (bias[0][who] if order else 0.0)
                variance[part] += share[1] + (bias[1][who] if order else 0.0)
        return mean, variance

    def pair_covariance(self, user: Items, items: Items, left: IntArray, right: IntArray) -> Array:
        """Return the posterior covariance between one user's projections z of pairs, order effects included."""
        (w, w_variance), bias = self.users.moments(user), self.bias(user)[1][0]
        v = self.items.moments(items)[0]
        covariance = self.consensus.pair_covariance(items, left, right) + bias
        for d, of_items in enumerate(self.items.covariances(items)):
            apart, spread = v[d, left] - v[d, right], between_pairs(of_items, left, right)
            covariance += w_variance[d, 0] * np.outer(apart, apart) + (w[d, 0] ** 2 + w_variance[d, 0]) * spread
        return covariance

    def of_strangers(self) -> CrowdPosterior:
        """Return the same posterior for users of whom not even features are known."""
        d = self.users.n_factors
        nobody = replace(
            self.users, basis=None, mean=np.zeros((d, 0)), half=np.zeros((0, 0, 0)), variance=np.zeros((d, 0))
        )
        return replace(self, users=nobody)

    def utility(self, users: Items, items: Items) -> tuple[Array, Array]:
        """Return personal utilities, shape (n_users, n)."""
        t, t_variance = self.consensus.utility(items, centred=True)
        v, v_variance = self.items.moments(items)
        w, w_variance = self.users.moments(users)
        v = v - self.centre[:, None]
        mean = t + w.T @ v
        return mean, t_variance + (w**2 + w_variance).T @ v_variance + w_variance.T @ v**2

    def sample(self, users: Items, items: Items, n_samples: int, rng: np.random.Generator) -> Array:
        """Draw personal utilities, shape (n_samples, n_users, n)."""
        t = self.consensus.sample_residuals_independently(items, n_samples, rng)
        v = self.items.sample(items, n_samples, rng) - self.centre[:, None]
        return t[:, None, :] + np.einsum("sdu,sdn->sun", self.users.sample(users, n_samples, rng), v)
