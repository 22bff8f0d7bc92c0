"""A stranger of a factorization machine is one of its people: the prior of a column that no training row holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array, Features, IntArray
    from skpref.factorization.machine.model import Machine
    from skpref.factorization.machine.posterior import FMPosterior

_UNLEARNT: Final = 0.99  # part of the prior's variances that a column has of which nothing is known


@dataclass(frozen=True)
class Population:
    """What rows' moments gain where a column's parameters are drawn from the people of its group.

    The prior of a group is N(nu, 1/lam), number by number. Its members also say which numbers go together, and that
    is what the first answers of a new one are worth most by. Exact where a row holds one feature besides the stranger;
    with more, how these features' interactions covary with their factors is left as it was.
    """

    loading: Array  # (n, 1 + d): of the rows' y(x) on the column's weight and factors
    shift: Array  # (1 + d,): from the column's mean to the people's
    gain: Array  # (1 + d, 1 + d): from the column's covariance to the people's
    others: Features  # (n, K): the rows without the column
    through: Array  # (K,): what the other features' own uncertainty adds through the stranger's factors
    scale: float  # unit of y

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance of y(x), from those under the posterior, shape (n,)."""
        own = np.einsum("ij,jk,ik->i", self.loading, self.gain, self.loading)
        own += self.others.multiply(self.others) @ self.through
        return mean + self.scale * (self.loading @ self.shift), np.maximum(variance + self.scale**2 * own, 0.0)

    def covariance(self, C: Array) -> Array:
        """Return the covariance of y(x) between rows, from that under the posterior, shape (n, n)."""
        through = (self.others * self.through) @ self.others.T
        return C + self.scale**2 * (self.loading @ self.gain @ self.loading.T + through.toarray())


def population_of(posterior: FMPosterior, X: Features) -> Population | None:
    """Find the stranger's column, and what the people of its group are like."""
    machine, columns = posterior.machine, X.tocsc()
    shared = np.flatnonzero(np.diff(columns.indptr) == X.shape[0])
    same = [k for k in shared.tolist() if np.ptp(columns.data[columns.indptr[k] : columns.indptr[k + 1]]) == 0.0]
    strange = np.flatnonzero(_unlearnt(machine))
    found = np.intersect1d(same, strange)
    if found.size != 1:
        return None
    k = int(found[0])
    people = np.setdiff1d(np.flatnonzero(machine.prior.group == machine.prior.group[k]), strange)
    mean, covariance = _moments_of(machine, people, k)
    value = float(columns.data[columns.indptr[k]])
    keep = np.ones(X.shape[1])
    keep[k] = 0.0
    others = (X * keep).tocsr()
    loading = value * np.column_stack([np.ones(X.shape[0]), others @ machine.mean[:, 1:]])
    of_all = _matrices(machine.variance)
    shift, gain = mean - machine.mean[k], covariance - of_all[k]
    second = gain + np.outer(mean, mean) - np.outer(machine.mean[k], machine.mean[k])
    through = value**2 * np.einsum("kab,ab->k", of_all[:, 1:, 1:], second[1:, 1:])
    through += 2.0 * value * (of_all[:, 0, 1:] @ shift[1:])
    return Population(loading, shift, gain, others, through, posterior.scale)


def _matrices(variance: Array) -> Array:
    """Covariances of each feature's weight and factors; independent ones are diagonal matrices."""
    return variance if variance.ndim == 3 else variance[:, :, None] * np.eye(variance.shape[1])


def _unlearnt(machine: Machine) -> NDArray[np.bool_]:
    """Features whose variances are the prior's."""
    lam = machine.prior.lam[machine.prior.group]
    return np.asarray((np.einsum("kaa->ka", _matrices(machine.variance)) * lam).min(axis=1) > _UNLEARNT)


def _moments_of(machine: Machine, people: IntArray, k: int) -> tuple[Array, Array]:
    """Mean and covariance over people, with the group's prior as some more of them: as many as there are numbers."""
    group = machine.prior.group[k]
    nu, prior = machine.prior.nu[group], np.diag(1.0 / machine.prior.lam[group])
    n, more = people.size, nu.size
    mean = (machine.mean[people].sum(axis=0) + more * nu) / (n + more)
    apart, own = machine.mean[people] - mean, _matrices(machine.variance[people]).sum(axis=0)
    return mean, (apart.T @ apart + own + more * (prior + np.outer(nu - mean, nu - mean))) / (n + more)
