"""Inducing basis: whitened kernel rows phi(x) = L^-1 k(Z, x), and their gradient (docs/maths sections 2 and 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skpref import kernels
from skpref._checks import check_arrays, check_diagonals, check_features
from skpref._compiled.pairs import squared_differences
from skpref._math.linalg import cholesky, cholesky_vjp, solve_lower, solve_lower_t, times_lower_t
from skpref.inference.policy import POLICY
from skpref.kernels.checks import check_kernel

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features, IntArray


@dataclass(frozen=True, eq=False)
class InducingBasis:
    """Inducing points with the Cholesky factor of their covariance."""

    kernel: Kernel  # covariance function k, unit amplitude
    points: Features  # (M, d): inducing inputs Z
    chol: Array  # (M, M): lower L with L L^T = k(Z, Z) (+ jitter where needed)

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        width = check_features(self, "points", self.points)
        check_arrays(self, {"M": self.points.shape[0]}, chol="M M")
        check_diagonals(self, "chol")
        check_kernel(self, "kernel", self.kernel, width)

    @classmethod
    def from_points(cls, kernel: Kernel, points: Features) -> InducingBasis:
        """Factor the covariance of the inducing points."""
        return cls(kernel, points, cholesky(kernels.gram(kernel, points)))

    def rows(self, X: Features, inverse: Array | None = None) -> Array:
        """Return the rows phi(x), shape (n, M)."""

        def rows_of(X: Features) -> Array:
            K = kernels.cross(self.kernel, X, self.points)
            return solve_lower(self.chol, K.T).T if inverse is None else times_lower_t(K, inverse)

        if X.shape[0] <= POLICY.kernel_rows:
            return rows_of(X)
        out = np.empty((X.shape[0], self.chol.shape[0]))
        for part in chunks(X.shape[0]):
            out[part] = rows_of(X[part])
        return out

    def residual(self, X: Features, rows: Array) -> Array:
        """Return k(x, x) - |phi(x)|^2, the variance that the inducing points do not explain, shape (n,)."""
        return np.asarray(np.maximum(kernels.diagonal(self.kernel, X) - np.einsum("ij,ij->i", rows, rows), 0.0))

    def pair_residual(self, X: Features, rows: Array, left: IntArray, right: IntArray) -> Array:
        """Return r_i = k_aa + k_bb - 2 k_ab - |phi_a - phi_b|^2 of pairs of rows of X, shape (P,)."""
        variance = kernels.diagonal(self.kernel, X)
        kappa = variance[left] + variance[right]
        for part in chunks(left.shape[0]):
            kappa[part] -= 2.0 * kernels.paired(self.kernel, X[left[part]], X[right[part]])
        return np.maximum(kappa - squared_differences(rows, left, right), 0.0)

    def rows_gradient(self, X: Features, rows: Array, adjoint: Array) -> Array:
        """Pull dL/dphi back to the kernel's hyper-parameters, shape (n_theta,)."""
        return self.rows_pullback(X, rows, adjoint)[0]

    def rows_pullback(self, X: Features, rows: Array, adjoint: Array) -> tuple[Array, Array | None]:
        """Pull dL/dphi back to the kernel's hyper-parameters and to the inducing points."""
        theta, points = self.factor_pullback(adjoint.T @ rows)
        for part in chunks(X.shape[0]):
            _, pull = kernels.cross_pullback(self.kernel, X[part], self.points)
            through, moved = pull(np.ascontiguousarray(solve_lower_t(self.chol, adjoint[part].T).T))
            theta = theta + through
            points = None if points is None or moved is None else points + moved
        return theta, points

    def factor_pullback(self, inner: Array) -> tuple[Array, Array | None]:
        """Pull a gradient back through the Cholesky factor of k(Z, Z), which makes the rows phi = L^-1 k(Z, x)."""
        return self.gram_pullback(cholesky_vjp(self.chol, -np.tril(solve_lower_t(self.chol, inner))))

    def gram_pullback(self, adjoint: Array) -> tuple[Array, Array | None]:
        """Pull a gradient in k(Z, Z) back to the kernel's hyper-parameters and to the inducing points."""
        if not kernels.moves_points(self.kernel, self.points):
            return kernels.gram_vjp(self.kernel, self.points, adjoint), None
        theta, moved = kernels.cross_pullback(self.kernel, self.points, self.points)[1](adjoint)
        return theta, None if moved is None else 2.0 * moved

    def kappa_gradient(self, X: Features, left: IntArray, right: IntArray, adjoint: Array) -> Array:
        """Pull dL/dkappa of pairs back to the kernel's hyper-parameters, shape (n_theta,)."""
        n = X.shape[0]
        own = np.asarray(np.bincount(left, adjoint, n) + np.bincount(right, adjoint, n), dtype=np.float64)
        total = kernels.diagonal_vjp(self.kernel, X, own)
        for part in chunks(left.shape[0]):
            pairs = X[left[part]], X[right[part]]
            total = total + kernels.paired_vjp(self.kernel, *pairs, -2.0 * adjoint[part])
        return np.asarray(total)


def chunks(n: int, size: int = POLICY.kernel_rows) -> list[slice]:
    """Cut n rows into slices of at most `size` rows."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def full_passes_fit(n_rows: int, n_inducing: int) -> bool:
    """Return whether full passes fit in memory: two rows of M numbers for each input take at most 2 GiB."""
    return 16 * n_rows * n_inducing <= POLICY.pass_bytes
