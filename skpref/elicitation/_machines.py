"""Prior of an unseen user of a factorization machine: the distribution of the other users' parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skpref._typing import Array, Features, IntArray
from skpref.elicitation.policy import POLICY
from skpref.factorization.machine.model import Machine
from skpref.factorization.machine.posterior import FMPosterior


@dataclass(frozen=True)
class Population:
    """Change of the rows' moments if a column's parameters follow the distribution over its group's other members.

    The prior N(nu, 1/lam) of a group has independent parameters. Over its members they are correlated, which makes the
    first answers of a new user more informative. Exact if a row has one feature besides the user.
    """

    loading: Array  # (n, 1 + d): derivatives of y(x) in the column's weight and factors
    shift: Array  # (1 + d,): mean over the members minus the column's mean
    gain: Array  # (1 + d, 1 + d): covariance over the members minus the column's covariance
    others: Features  # (n, K): the rows without the column
    interaction: Array  # (K,): variance that the other features' uncertainty adds through the user's factors
    scale: float  # unit of y

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance of y(x), from the moments under the posterior, shape (n,)."""
        own = np.einsum("ij,jk,ik->i", self.loading, self.gain, self.loading)
        own += self.others.multiply(self.others) @ self.interaction
        return mean + self.scale * (self.loading @ self.shift), np.maximum(variance + self.scale**2 * own, 0.0)

    def covariance(self, C: Array) -> Array:
        """Return the covariance of y(x) between rows, from that under the posterior, shape (n, n)."""
        between = (self.others * self.interaction) @ self.others.T
        return C + self.scale**2 * (self.loading @ self.gain @ self.loading.T + between.toarray())


def unseen_column(posterior: FMPosterior, X: Features) -> int | None:
    """Return the column that all rows share, with the same value, and that no data had; None unless there is one."""
    columns = X.tocsc()
    shared = np.flatnonzero(np.diff(columns.indptr) == X.shape[0])
    constant = [k for k in shared.tolist() if np.ptp(columns.data[columns.indptr[k] : columns.indptr[k + 1]]) == 0.0]
    found = np.intersect1d(constant, np.flatnonzero(_untrained(posterior)))
    return int(found[0]) if found.size == 1 else None


def draws_of_population(posterior: FMPosterior, X: Features) -> Array | None:
    """Return y(x) under draws by Gibbs sampling, with trained users in the unseen user's place, shape (D, n).

    None unless all rows share one unseen user's column. Each draw of all parameters meets as many users as others.
    """
    k = None if posterior.sampled is None else unseen_column(posterior, X)
    if k is None or posterior.sampled is None:
        return None
    theta, members = posterior.sampled.theta.copy(), _members(posterior, k)
    if not members.size:
        return None
    n_each = min(members.size, -(-POLICY.most_users // len(theta)))
    users = np.random.default_rng(0).permuted(np.tile(members, (len(theta), 1)), axis=1)[:, :n_each]
    values: list[Array] = []
    for own in users.T:
        theta[:, k] = theta[np.arange(len(theta)), own]
        values += replace(posterior.sampled, theta=theta).values(X)
    return np.array(values)


def population_of(posterior: FMPosterior, X: Features) -> Population | None:
    """Return the population of the unseen user's column; None unless all rows share exactly one such column."""
    machine, columns = posterior.machine, X.tocsc()
    k = unseen_column(posterior, X)
    if k is None or posterior.sampled is not None:
        return None
    members = _members(posterior, k)
    mean, covariance = _moments_of(machine, members, k)
    value = float(columns.data[columns.indptr[k]])
    keep = np.ones(X.shape[1])
    keep[k] = 0.0
    others = (X * keep).tocsr()
    loading = value * np.column_stack([np.ones(X.shape[0]), others @ machine.mean[:, 1:]])
    covariances = _matrices(machine.variance)
    shift, gain = mean - machine.mean[k], covariance - covariances[k]
    second = gain + np.outer(mean, mean) - np.outer(machine.mean[k], machine.mean[k])
    interaction = value**2 * np.einsum("kab,ab->k", covariances[:, 1:, 1:], second[1:, 1:])
    interaction += 2.0 * value * (covariances[:, 0, 1:] @ shift[1:])
    return Population(loading, shift, gain, others, interaction, posterior.scale)


def _members(posterior: FMPosterior, k: int) -> IntArray:
    """Return the trained columns of a column's group."""
    group = posterior.machine.prior.group
    return np.flatnonzero((group == group[k]) & ~_untrained(posterior))


def _matrices(variance: Array) -> Array:
    """Return covariance matrices of each feature's weight and factors, diagonal for a factorised posterior."""
    return variance if variance.ndim == 3 else variance[:, :, None] * np.eye(variance.shape[1])


def _untrained(posterior: FMPosterior) -> NDArray[np.bool_]:
    """Return which features have the prior as their distribution, shape (K,)."""
    machine = posterior.machine
    nu, lam = machine.prior.nu[machine.prior.group], machine.prior.lam[machine.prior.group]
    if posterior.sampled is not None:  # variances of draws are not exact, but only without data are means those of nu
        return np.asarray((machine.mean == nu).all(axis=1))
    return np.asarray((np.einsum("kaa->ka", _matrices(machine.variance)) * lam).min(axis=1) > POLICY.prior_share)


def _moments_of(machine: Machine, members: IntArray, k: int) -> tuple[Array, Array]:
    """Return mean and covariance over members, with the prior as 1 + d additional members."""
    group = machine.prior.group[k]
    nu, prior = machine.prior.nu[group], np.diag(1.0 / machine.prior.lam[group])
    n, n_prior = members.size, nu.size
    mean = (machine.mean[members].sum(axis=0) + n_prior * nu) / (n + n_prior)
    deviation, within = machine.mean[members] - mean, _matrices(machine.variance[members]).sum(axis=0)
    from_prior = n_prior * (prior + np.outer(nu - mean, nu - mean))
    return mean, (deviation.T @ deviation + within + from_prior) / (n + n_prior)
