"""A factorization machine: its posterior q, the priors of its groups, and the bound (docs/maths section 9).

A feature's weight and factors stand side by side: column 0 of an array of shape (K, 1 + d) is w, the others are v. The
units are those of the standardised target, and the hyper-priors are libFM's: nu ~ N(0, 1), lam and alpha ~ Gamma(1, 1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from skpref._checks import check_arrays, check_indices, check_positive, check_types, require
from skpref._compiled.fm import Compressed, Slopes, row_moments
from skpref._compiled.fm_full import FeaturePosterior, log_determinants
from skpref.factorization.machine.fields import DesignSweep, design_of
from skpref.factorization.policy import POLICY
from skpref.likelihoods import Gaussian, OrdinalProbit, PairwiseLogit, PairwiseProbit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array, Features, IntArray
    from skpref.likelihoods import Likelihood


class Bias(NamedTuple):
    """q(w_0) = N(mean, variance)."""

    mean: float
    variance: float

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, mean=float)
        check_positive(self, "variance")


class Prior(NamedTuple):
    """N(nu, 1/lam) of the weight and factors of every group, and the group of every feature.

    After `partial_fit` of a full posterior, lam holds matrices, shape (G, 1 + d, 1 + d).
    """

    nu: Array
    lam: Array
    group: IntArray

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        sizes = check_arrays(self, nu="G Q", lam="G Q")
        require(min(sizes.values()) >= 1, self, "nu", "is of no group")
        check_positive(self, "lam")
        check_indices(self, "group", self.group, 0, sizes["G"])
        require(self.group.size >= 1, self, "group", "is of no feature")


@dataclass(frozen=True)
class Machine:
    """Posterior and prior of all parameters, and the likelihood."""

    bias: Bias  # q(w_0)
    mean: Array  # (K, 1 + d): of w_k and v_kf
    # (K, 1 + d): of w_k and v_kf, independent; or (K, 1 + d, 1 + d): covariance matrices of (w_k, v_k), if full
    variance: Array
    bias_prior: Bias  # prior of w_0
    prior: Prior  # of the features
    likelihood: Likelihood  # p(y | z)
    hyper_prior: bool = True  # whether priors and noise have one; while `partial_fit` runs, they are given

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, bias=Bias, bias_prior=Bias, prior=Prior, variance=np.ndarray)
        check_types(self, hyper_prior=bool, likelihood=Gaussian | PairwiseProbit | PairwiseLogit | OrdinalProbit)
        sizes = {"K": self.prior.group.size, "Q": self.prior.nu.shape[1]}
        check_arrays(self, sizes, mean="K Q", variance="K Q Q" if self.full else "K Q")
        if not self.full:
            check_positive(self, "variance")
            return
        # An inverse or an average of such matrices is symmetric up to rounding only.
        rounding = 1e-10 * np.abs(self.variance).max(axis=(1, 2), keepdims=True, initial=0.0)
        apart = np.abs(self.variance - self.variance.transpose(0, 2, 1))
        require((apart <= rounding).all(), self, "variance", "must be symmetric")
        np.linalg.cholesky(self.variance)  # raises unless positive definite

    def moments(self, rows: Compressed, S: NDArray[np.floating] | None = None) -> tuple[Array, Array]:
        """Return mean and variance of y(x) for every row, shape (n,)."""
        if self.full:
            X = sparse.csr_array((rows.value, rows.indices, rows.start), (rows.start.size - 1, self.mean.shape[0]))
            mu, v = DesignSweep(design_of(X), self.mean.shape[1]).moments(FeaturePosterior(self.mean, self.variance))
        else:
            mu, v = row_moments(rows, self.mean, self.variance, S)
        return mu + self.bias.mean, v + self.bias.variance

    @property
    def full(self) -> bool:
        """Whether q(w_k, v_k) has a covariance matrix."""
        return self.variance.ndim == 3

    @property
    def variances(self) -> Array:
        """Variances of every weight and factor, shape (K, 1 + d)."""
        return np.einsum("kaa->ka", self.variance) if self.full else self.variance

    def convert_posterior(self, *, full: bool) -> Machine:
        """Return the machine with a full or a factorised posterior, which has no covariances."""
        if full == self.full:
            return self
        nu, lam, group = self.prior
        if full:
            return replace(self, variance=diagonals(self.variance))
        prior = self.prior if lam.ndim == 2 else Prior(nu, np.einsum("gaa->ga", lam).copy(), group)
        return replace(self, variance=self.variances.copy(), prior=prior)

    @property
    def noise(self) -> float:
        """Standard deviation of Gaussian noise; 0 for other likelihoods."""
        return float(self.likelihood.precision**-0.5) if isinstance(self.likelihood, Gaussian) else 0.0

    def divergences(self) -> Array:
        """Return KL(q || prior) of every weight and factor, shape (K, 1 + d)."""
        nu, lam = self.prior.nu[self.prior.group], self.prior.lam[self.prior.group]
        if not self.full:
            return normal_divergence(self.mean, self.variance, nu, lam)
        deviation = self.mean - nu
        if lam.ndim == 3:
            size = np.einsum("kab,kab->k", lam, self.variance) + np.einsum("ka,kab,kb->k", deviation, lam, deviation)
            log_lam = log_determinants(lam)
        else:
            size, log_lam = (lam * (self.variances + deviation**2)).sum(axis=1), np.log(lam).sum(axis=1)
        return 0.5 * (size - self.mean.shape[1] - log_lam - log_determinants(self.variance))

    def bias_divergence(self) -> float:
        """Return KL(q || prior) of w_0."""
        mean, variance, nu, prior_variance = (np.array(number) for number in (*self.bias, *self.bias_prior))
        return float(normal_divergence(mean, variance, nu, 1.0 / prior_variance))

    def log_hyper_prior(self) -> float:
        """Return log p(nu, lam, alpha), without constants; 0 where they are given."""
        if not self.hyper_prior:
            return 0.0
        alpha = self.likelihood.precision if isinstance(self.likelihood, Gaussian) else 0.0
        return float(-0.5 * np.sum(self.prior.nu**2) - np.sum(self.prior.lam) - alpha)

    def learn_priors(self) -> Machine:
        """Return the machine with the best nu, then the best lam, of each group given q."""
        group, n_groups = self.prior.group, self.prior.nu.shape[0]
        n = np.bincount(group, minlength=n_groups)[:, None].astype(np.float64)
        members = sparse.csr_array((np.ones(group.size), (group, np.arange(group.size))), (n_groups, group.size))
        nu = self.prior.lam * (members @ self.mean) / (n * self.prior.lam + 1.0)
        lam = n / (members @ (self.variances + (self.mean - nu[group]) ** 2) + 2.0)
        # A group without features stays as it is.
        return replace(self, prior=Prior(nu, np.where(n > 0.0, lam, self.prior.lam), group))

    def learn_likelihood(self, y: Array, mu: Array, v: Array, weight: Array) -> Machine:
        """Return the machine with the best precision alpha, or better thresholds, of the likelihood given q."""
        if isinstance(self.likelihood, OrdinalProbit):
            return replace(self, likelihood=self.likelihood.learnt_thresholds(y, mu, weight))
        if not isinstance(self.likelihood, Gaussian):
            return self
        return replace(self, likelihood=Gaussian(weight.sum() / (weight @ ((y - mu) ** 2 + v) + 2.0)))

    def slopes(self, y: Array, mu: Array, v: Array, weight: Array) -> tuple[float, Slopes]:
        """Return sum_i E_i, of ordered levels a bound on it, and its derivatives."""
        return slopes_of(self.likelihood, y, mu, v, weight)

    def bound(self, expected: float) -> float:
        """Return the evidence lower bound."""
        return expected - self.bias_divergence() - float(self.divergences().sum()) + self.log_hyper_prior()


def slopes_of(likelihood: Likelihood, y: Array, mu: Array, v: Array, weight: Array) -> tuple[float, Slopes]:
    """Return sum_i E_i, of ordered levels a bound on it, and its derivatives."""
    expectation = likelihood.augmented if isinstance(likelihood, OrdinalProbit) else likelihood.expectation
    E, d_mu, d_v = expectation(y, mu, v)
    return float(weight @ E), Slopes(weight * d_mu, -2.0 * weight * d_v)


def normal_divergence(mean: Array, variance: Array, nu: Array, lam: Array) -> Array:
    """Return KL(N(mean, variance) || N(nu, 1/lam))."""
    ratio = np.asarray(lam * variance)
    return 0.5 * (ratio + lam * (mean - nu) ** 2 - 1.0 - np.log(ratio))


def diagonals(entries: Array) -> Array:
    """Return diagonal matrices, shape (K, n, n), with these entries, shape (K, n)."""
    return entries[:, :, None] * np.eye(entries.shape[1])


def start_machine(
    rows: Compressed, weight: Array, group: IntArray, n_factors: int, likelihood: Likelihood, rng: np.random.Generator
) -> Machine:
    """Return the start of a fit, with small random factors (zeros would be a saddle point)."""
    row = np.repeat(weight, np.diff(rows.start))
    return start_for_squares(float(row @ rows.value**2) / float(weight.sum()), group, n_factors, likelihood, rng)


def start_for_squares(
    squared: float, group: IntArray, n_factors: int, likelihood: Likelihood, rng: np.random.Generator
) -> Machine:
    """Return the start of a fit to rows whose entries have this mean sum of squares."""
    n_features, n_groups, d = group.size, int(group.max()) + 1, n_factors
    scale = POLICY.start_scale * min(np.sqrt(2.0 / squared), POLICY.most_start) if squared > 0.0 else POLICY.start_scale
    mean = np.zeros((n_features, 1 + d))
    mean[:, 1:] = scale * rng.standard_normal((n_features, d))
    variance = np.full((n_features, 1 + d), scale**2)
    lam = np.ones((n_groups, 1 + d))
    prior = Prior(np.zeros((n_groups, 1 + d)), lam, group)
    return Machine(Bias(0.0, 1.0), mean, variance, Bias(0.0, 1.0), prior, likelihood)


def compress(X: Features) -> Compressed:
    """Return the entries of a CSR matrix by row, or of a CSC matrix by column."""
    return Compressed(X.indptr, X.indices, X.data)
