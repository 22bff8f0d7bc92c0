"""Posterior of one latent function f as small frozen records: at the training rows, or through inducing points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skpref import kernels
from skpref._math.linalg import product, solve_lower
from skpref._math.threads import limit_blas_threads
from skpref.inference.basis import chunks

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.inference.basis import InducingBasis

_CHUNK_BYTES = 2**26  # of prior covariance that is held at once


@dataclass(frozen=True, eq=False)
class ExactLatent:
    """Posterior of f given Gaussian sites at n rows: mean k^T alpha, variance k(x, x) - |L^-1 W^1/2 k|^2."""

    kernel: Kernel | None  # covariance function; None where callers bring the covariance themselves
    X: Features  # (n, d): rows
    alpha: Array  # (n,): K^-1 times the posterior mean at the rows, and square roots of the site precisions
    root_w: Array  # (n,): K^-1 times the posterior mean at the rows, and square roots of the site precisions
    chol: Array  # (n, n): lower Cholesky factor L of I + W^1/2 K W^1/2
    prior_variance: float = float("nan")  # k(x, x) where callers bring the covariance; NaN elsewhere

    def latent(self, X: Features, *, variance: bool = True) -> tuple[Array, Array]:
        """Return posterior means and variances of f, shape (m,)."""
        n, m = self.alpha.shape[0], X.shape[0]
        mean, spread = np.empty(m), np.full(m, np.nan)
        with limit_blas_threads(n):
            for part in chunks(m, max(1, _CHUNK_BYTES // (8 * n))):
                k = X[part] if self.kernel is None else kernels.cross(self.kernel, X[part], self.X)
                mean[part] = product(k, self.alpha[:, None])[:, 0]
                if variance:
                    half = solve_lower(self.chol, (k * self.root_w).T, overwrite_b=True)
                    spread[part] = self._prior(X[part]) - np.einsum("ij,ij->j", half, half)
        return mean, np.maximum(spread, 0.0)

    def _prior(self, X: Features) -> Array:
        if self.kernel is None:
            return np.full(X.shape[0], self.prior_variance)
        return kernels.diagonal(self.kernel, X)


@dataclass(frozen=True, eq=False)
class SparseLatent:
    """Posterior of f(x) = phi(x)^T v + what the inducing points leave open."""

    basis: InducingBasis  # kernel and inducing points
    mean: Array  # (M,): posterior mean of v
    half: Array  # (M, M): L^-1 of its precision: the covariance is half^T half

    def latent(self, X: Features, *, variance: bool = True) -> tuple[Array, Array]:
        """Return posterior means and variances of f, shape (m,)."""
        mean, spread = np.empty(X.shape[0]), np.full(X.shape[0], np.nan)
        with limit_blas_threads(self.mean.shape[0]):
            for part in chunks(X.shape[0]):
                phi = self.basis.rows(X[part])
                mean[part] = phi @ self.mean
                if variance:
                    half = product(phi, self.half.T)
                    spread[part] = np.einsum("ij,ij->i", half, half) + self.basis.residual(X[part], phi)
        return mean, spread

    def joint(self, X: Features) -> tuple[Array, Array]:
        """Return the joint posterior of f at some rows."""
        with limit_blas_threads(max(self.mean.shape[0], X.shape[0])):
            phi = self.basis.rows(X)
            half = product(phi, self.half.T)
            covariance = kernels.cross(self.basis.kernel, X, X)
            covariance += product(half, half.T)
            covariance -= product(phi, phi.T)
            # White noise of the kernel belongs to a row; rounding must not make a variance negative.
            np.fill_diagonal(covariance, np.einsum("ij,ij->i", half, half) + self.basis.residual(X, phi))
        return phi @ self.mean, covariance
