"""Frozen records of one latent function f: its posterior, at the rows or at inducing points, and a warm start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from skpref import kernels
from skpref._math.linalg import product, solve_lower
from skpref._math.threads import limit_blas_threads
from skpref.inference.basis import chunks

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.inference.basis import InducingBasis
    from skpref.inference.svi import State
    from skpref.likelihoods import Likelihood

_CHUNK_BYTES = 2**26  # size of the block of prior covariances that is in memory at one time


@dataclass(frozen=True, eq=False)
class ExactLatent:
    """Posterior of f given Gaussian sites at n rows: mean k^T alpha, variance k(x, x) - |L^-1 W^1/2 k|^2."""

    kernel: Kernel | None  # covariance function; None: callers of `latent` pass covariances instead of rows
    X: Features  # (n, d): training rows
    alpha: Array  # (n,): K^-1 times the posterior mean at the rows
    root_w: Array  # (n,): square roots of the site precisions
    chol: Array  # (n, n): lower Cholesky factor L of I + W^1/2 K W^1/2
    prior_variance: float = float("nan")  # k(x, x) where kernel is None, else NaN

    def latent(self, X: Features, *, variance: bool = True) -> tuple[Array, Array]:
        """Return posterior means and variances of f at rows, each of shape (m,); without `variance` NaN for these."""
        n, m = self.alpha.shape[0], X.shape[0]
        mean, variances = np.empty(m), np.full(m, np.nan)
        with limit_blas_threads(n):
            for part in chunks(m, max(1, _CHUNK_BYTES // (8 * n))):
                k = X[part] if self.kernel is None else kernels.cross(self.kernel, X[part], self.X)
                mean[part] = product(k, self.alpha[:, None])[:, 0]
                if variance:
                    half = solve_lower(self.chol, (k * self.root_w).T, overwrite_b=True)
                    variances[part] = self._prior(X[part]) - np.einsum("ij,ij->j", half, half)
        return mean, np.maximum(variances, 0.0)

    def _prior(self, X: Features) -> Array:
        """Return prior variances, shape (m,)."""
        if self.kernel is None:
            return np.full(X.shape[0], self.prior_variance)
        return kernels.diagonal(self.kernel, X)


@dataclass(frozen=True, eq=False)
class SparseLatent:
    """Posterior of f(x) = phi(x)^T v + e(x): v at the inducing points, e the independent rest of the prior."""

    basis: InducingBasis  # kernel and inducing points
    mean: Array  # (M,): posterior mean of v
    half: Array  # (M, M): L^-1 of its precision: the covariance is half^T half

    def latent(self, X: Features, *, variance: bool = True) -> tuple[Array, Array]:
        """Return posterior means and variances of f at rows, each of shape (m,); without `variance` NaN for these."""
        mean, variances = np.empty(X.shape[0]), np.full(X.shape[0], np.nan)
        with limit_blas_threads(self.mean.shape[0]):
            for part in chunks(X.shape[0]):
                phi = self.basis.rows(X[part])
                mean[part] = phi @ self.mean
                if variance:
                    half = product(phi, self.half.T)
                    variances[part] = np.einsum("ij,ij->i", half, half) + self.basis.residual(X[part], phi)
        return mean, variances

    def joint(self, X: Features) -> tuple[Array, Array]:
        """Return mean and covariance of the joint posterior of f, shapes (m,) and (m, m)."""
        with limit_blas_threads(max(self.mean.shape[0], X.shape[0])):
            phi = self.basis.rows(X)
            half = product(phi, self.half.T)
            covariance = kernels.cross(self.basis.kernel, X, X)
            covariance += product(half, half.T)
            covariance -= product(phi, phi.T)
            # The diagonal again: white noise of the kernel counts there only, and rounding gives no negative variance.
            np.fill_diagonal(covariance, np.einsum("ij,ij->i", half, half) + self.basis.residual(X, phi))
        return phi @ self.mean, covariance


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Where a fit starts instead of from scratch: the end of an earlier fit."""

    kernel: Kernel  # with its learnt hyper-parameters; None for a precomputed covariance
    likelihood: Likelihood  # with its learnt parameters
    points: Features = None  # (M, d): inducing points; None after exact inference
    state: State | None = None  # posterior of the inducing variables
    # "resume": the search for hyper-parameters starts here; "compare": a search from scratch runs too and the higher
    # bound wins; "skip": there is no search, kernel and inducing points stay
    search: Literal["resume", "compare", "skip"] = "resume"
