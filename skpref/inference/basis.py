"""Inducing basis: whitened kernel rows phi(x) = L^-1 k(Z, x), and their gradient (maths.md sections 2 and 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skpref import kernels
from skpref._compiled.pairs import squared_differences
from skpref._math.linalg import cholesky, cholesky_vjp, solve_lower, solve_lower_t, times_lower_t

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features, IntArray

_CHUNK = 8192  # rows of kernel values that are held at once
_PASS_BYTES = 2**31  # for which "auto" takes full passes


@dataclass(frozen=True, eq=False)
class InducingBasis:
    """Inducing points with the Cholesky factor of their covariance.

    Parameters
    ----------
    kernel : Kernel
        Covariance function k, unit amplitude.
    points : {ndarray, CSR} of shape (M, d)
        Inducing inputs Z.
    chol : ndarray of shape (M, M)
        Lower L with L L^T = k(Z, Z) (+ jitter where needed).
    """

    kernel: Kernel
    points: Features
    chol: Array

    @classmethod
    def at(cls, kernel: Kernel, points: Features) -> InducingBasis:
        """Factor the covariance of the inducing points.

        Parameters
        ----------
        kernel : Kernel
            Covariance function.
        points : {ndarray, CSR} of shape (M, d)
            Inducing inputs.

        Returns
        -------
        InducingBasis
            Ready to give rows.
        """
        return cls(kernel, points, cholesky(kernels.gram(kernel, points)))

    def rows(self, X: Features, inverse: Array | None = None) -> Array:
        """Return the rows phi(x).

        Parameters
        ----------
        X : {ndarray, CSR} of shape (n, d)
            Inputs.
        inverse : ndarray of shape (M, M), default=None
            L^-1: with it a product takes the place of a solve, in a third of the time.

        Returns
        -------
        ndarray of shape (n, M)
            L^-1 k(Z, x), a row an input.
        """

        def some(X: Features) -> Array:
            K = kernels.cross(self.kernel, X, self.points)
            return solve_lower(self.chol, K.T).T if inverse is None else times_lower_t(K, inverse)

        if X.shape[0] <= _CHUNK:
            return some(X)
        out = np.empty((X.shape[0], self.chol.shape[0]))
        for part in chunks(X.shape[0]):
            out[part] = some(X[part])
        return out

    def residual(self, X: Features, rows: Array) -> Array:
        """Return k(x, x) - |phi(x)|^2, what the inducing points leave open.

        Parameters
        ----------
        X : {ndarray, CSR} of shape (n, d)
            Inputs.
        rows : ndarray of shape (n, M)
            Their rows.

        Returns
        -------
        ndarray of shape (n,)
            Not negative (rounding is cut).
        """
        return np.asarray(np.maximum(kernels.diagonal(self.kernel, X) - np.einsum("ij,ij->i", rows, rows), 0.0))

    def pair_residual(self, X: Features, rows: Array, left: IntArray, right: IntArray) -> Array:
        """Return r_i = k_aa + k_bb - 2 k_ab - |phi_a - phi_b|^2 of pairs of rows of X.

        Parameters
        ----------
        X : {ndarray, CSR} of shape (N, d)
            Items.
        rows : ndarray of shape (N, M)
            Their rows phi.
        left, right : ndarray of shape (P,)
            Items of each pair.

        Returns
        -------
        ndarray of shape (P,)
            Not negative.
        """
        variance = kernels.diagonal(self.kernel, X)
        kappa = variance[left] + variance[right]
        for part in chunks(left.shape[0]):
            kappa[part] -= 2.0 * kernels.paired(self.kernel, X[left[part]], X[right[part]])
        return np.maximum(kappa - squared_differences(rows, left, right), 0.0)

    def rows_gradient(self, X: Features, rows: Array, adjoint: Array) -> Array:
        """Pull dL/dphi back to the kernel's hyper-parameters.

        Parameters
        ----------
        X : {ndarray, CSR} of shape (n, d)
            Inputs.
        rows : ndarray of shape (n, M)
            Their rows phi.
        adjoint : ndarray of shape (n, M)
            dL/dphi.

        Returns
        -------
        ndarray of shape (n_theta,)
            dL/dtheta through the rows.
        """
        return self.rows_pullback(X, rows, adjoint)[0]

    def rows_pullback(self, X: Features, rows: Array, adjoint: Array) -> tuple[Array, Array | None]:
        """Pull dL/dphi back to the kernel's hyper-parameters and to the inducing points.

        Parameters
        ----------
        X : {ndarray, CSR} of shape (n, d)
            Inputs.
        rows : ndarray of shape (n, M)
            Their rows phi.
        adjoint : ndarray of shape (n, M)
            dL/dphi.

        Returns
        -------
        theta : ndarray of shape (n_theta,)
            dL/dtheta through the rows.
        points : ndarray of shape (M, d) or None
            dL/dZ; None where `kernels.moves_points` says no.
        """
        theta, points = self.factor_pullback(adjoint.T @ rows)
        for part in chunks(X.shape[0]):
            _, pull = kernels.cross_pullback(self.kernel, X[part], self.points)
            through, moved = pull(np.ascontiguousarray(solve_lower_t(self.chol, adjoint[part].T).T))
            theta = theta + through
            points = None if points is None or moved is None else points + moved
        return theta, points

    def factor_pullback(self, inner: Array) -> tuple[Array, Array | None]:
        """Pull a gradient back through the Cholesky factor of k(Z, Z), of which the rows phi = L^-1 k(Z, x) are made.

        Parameters
        ----------
        inner : ndarray of shape (M, M)
            sum_x (dL/dphi(x)) phi(x)^T.

        Returns
        -------
        theta : ndarray of shape (n_theta,)
            Gradient in the kernel's theta.
        points : ndarray of shape (M, d) or None
            Gradient in Z; None where `kernels.moves_points` says no.
        """
        return self.gram_pullback(cholesky_vjp(self.chol, -np.tril(solve_lower_t(self.chol, inner))))

    def gram_pullback(self, adjoint: Array) -> tuple[Array, Array | None]:
        """Pull a gradient in k(Z, Z) back to the kernel's hyper-parameters and to the inducing points.

        Parameters
        ----------
        adjoint : ndarray of shape (M, M)
            Symmetric; C-contiguous, and its memory may be used up.

        Returns
        -------
        theta : ndarray of shape (n_theta,)
            Gradient in the kernel's theta.
        points : ndarray of shape (M, d) or None
            Gradient in Z; None where `kernels.moves_points` says no.
        """
        if not kernels.moves_points(self.kernel, self.points):
            return kernels.gram_vjp(self.kernel, self.points, adjoint), None
        theta, moved = kernels.cross_pullback(self.kernel, self.points, self.points)[1](adjoint)
        return theta, None if moved is None else 2.0 * moved

    def kappa_gradient(self, X: Features, left: IntArray, right: IntArray, adjoint: Array) -> Array:
        """Pull dL/dkappa of pairs back to the kernel's hyper-parameters.

        Parameters
        ----------
        X : {ndarray, CSR} of shape (N, d)
            Items.
        left, right : ndarray of shape (P,)
            Items of each pair.
        adjoint : ndarray of shape (P,)
            dL/dkappa.

        Returns
        -------
        ndarray of shape (n_theta,)
            dL/dtheta through the prior variances.
        """
        n = X.shape[0]
        own = np.asarray(np.bincount(left, adjoint, n) + np.bincount(right, adjoint, n), dtype=np.float64)
        total = kernels.diagonal_vjp(self.kernel, X, own)
        for part in chunks(left.shape[0]):
            pairs = X[left[part]], X[right[part]]
            total = total + kernels.paired_vjp(self.kernel, *pairs, -2.0 * adjoint[part])
        return np.asarray(total)


def chunks(n: int, size: int = _CHUNK) -> list[slice]:
    """Cut n rows into slices of at most `size` rows.

    Parameters
    ----------
    n : int
        Number of rows.
    size : int, default=8192
        Rows a slice.

    Returns
    -------
    list of slice
        Consecutive slices that cover all rows.
    """
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def full_passes_fit(n_rows: int, n_inducing: int) -> bool:
    """Tell whether full passes are cheap in memory: two M-wide rows an input take at most 2 GiB.

    Parameters
    ----------
    n_rows : int
        Inputs.
    n_inducing : int
        M.

    Returns
    -------
    bool
        Whether they fit; else mini-batches do.
    """
    return 16 * n_rows * n_inducing <= _PASS_BYTES
