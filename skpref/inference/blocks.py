"""Blocks: Gaussian factors q(v) in natural parameters, dense or diagonal (maths.md sections 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from skpref._math.linalg import cholesky_precision, inverse_lower, log_det, solve_lower, solve_lower_t

if TYPE_CHECKING:
    from skpref._typing import Array


@dataclass(frozen=True, eq=False)
class DenseBlock:
    """q(v) = N(m, S) with Lambda = S^-1 and eta = Lambda m; everything else is derived once and kept.

    Parameters
    ----------
    precision : ndarray of shape (K, K)
        Lambda; only the lower triangle is read.
    linear : ndarray of shape (K,)
        eta.
    """

    precision: Array
    linear: Array

    @classmethod
    def isotropic(cls, precision: Array, mean: Array) -> DenseBlock:
        """Build N(mean, diag(1 / precision)).

        Parameters
        ----------
        precision : ndarray of shape (K,)
            Diagonal of Lambda.
        mean : ndarray of shape (K,)
            m.

        Returns
        -------
        DenseBlock
            The block.
        """
        return cls(np.diag(precision), precision * mean)

    @property
    def size(self) -> int:
        """Number of variables K."""
        return int(self.linear.shape[0])

    @cached_property
    def chol(self) -> Array:
        """Lower Cholesky factor of Lambda, shape (K, K)."""
        return cholesky_precision(self.precision)

    @cached_property
    def mean(self) -> Array:
        """The mean m, shape (K,)."""
        return self.solve(self.linear)

    @cached_property
    def inverse_chol(self) -> Array:
        """L^-1 with Lambda = L L^T, so that S = L^-T L^-1; shape (K, K)."""
        return inverse_lower(self.chol)

    @cached_property
    def covariance_diagonal(self) -> Array:
        """Diagonal of S, shape (K,)."""
        return np.asarray(np.einsum("ij,ij->j", self.inverse_chol, self.inverse_chol))

    @property
    def log_det_covariance(self) -> float:
        """Log of the determinant of S."""
        return -log_det(self.chol)

    def solve(self, b: Array) -> Array:
        """Return S b.

        Parameters
        ----------
        b : ndarray of shape (K,) or (K, n)
            Right-hand side.

        Returns
        -------
        ndarray of the shape of b
            Lambda^-1 b.
        """
        return solve_lower_t(self.chol, solve_lower(self.chol, b))

    def times_precision(self, b: Array) -> Array:
        """Return Lambda b.

        Parameters
        ----------
        b : ndarray of shape (K,)
            A vector.

        Returns
        -------
        ndarray of shape (K,)
            Lambda b, from the factor (the upper triangle of `precision` may hold anything).
        """
        lower = np.tril(self.chol)
        return np.asarray(lower @ (lower.T @ b))

    def mixed(self, target: Block, rho: float) -> DenseBlock:
        """Move a fraction rho towards `target` in natural parameters: a natural-gradient step.

        Parameters
        ----------
        target : DenseBlock
            Where to; of the same kind.
        rho : float
            Step in [0, 1].

        Returns
        -------
        DenseBlock
            The new block.
        """
        if not isinstance(target, DenseBlock):
            raise TypeError(f"target must be a DenseBlock, as the block itself; got {type(target).__name__}")
        if rho == 1.0:
            return target
        precision = (1.0 - rho) * self.precision + rho * target.precision
        return DenseBlock(precision, (1.0 - rho) * self.linear + rho * target.linear)


@dataclass(frozen=True, eq=False)
class DiagonalBlock:
    """q(v) = prod_k N(m_k, 1 / precision_k): one mean and one variance an entity.

    Parameters
    ----------
    precision : ndarray of shape (K,)
        Diagonal of Lambda.
    linear : ndarray of shape (K,)
        eta = Lambda m.
    """

    precision: Array
    linear: Array

    @classmethod
    def isotropic(cls, precision: Array, mean: Array) -> DiagonalBlock:
        """Build N(mean, diag(1 / precision)).

        Parameters
        ----------
        precision : ndarray of shape (K,)
            Diagonal of Lambda.
        mean : ndarray of shape (K,)
            m.

        Returns
        -------
        DiagonalBlock
            The block.
        """
        return cls(precision, precision * mean)

    @property
    def size(self) -> int:
        """Number of variables K."""
        return int(self.linear.shape[0])

    @property
    def mean(self) -> Array:
        """The mean m, shape (K,)."""
        return self.linear / self.precision

    @property
    def covariance_diagonal(self) -> Array:
        """Variances, shape (K,)."""
        return 1.0 / self.precision

    @property
    def log_det_covariance(self) -> float:
        """Log of the determinant of S."""
        return -float(np.sum(np.log(self.precision)))

    def solve(self, b: Array) -> Array:
        """Return S b.

        Parameters
        ----------
        b : ndarray of shape (K,)
            Right-hand side.

        Returns
        -------
        ndarray of shape (K,)
            Lambda^-1 b.
        """
        return b / self.precision

    def times_precision(self, b: Array) -> Array:
        """Return Lambda b.

        Parameters
        ----------
        b : ndarray of shape (K,)
            A vector.

        Returns
        -------
        ndarray of shape (K,)
            Lambda b.
        """
        return self.precision * b

    def mixed(self, target: Block, rho: float) -> DiagonalBlock:
        """Move a fraction rho towards `target` in natural parameters.

        Parameters
        ----------
        target : DiagonalBlock
            Where to; of the same kind.
        rho : float
            Step in [0, 1].

        Returns
        -------
        DiagonalBlock
            The new block.
        """
        if not isinstance(target, DiagonalBlock):
            raise TypeError(f"target must be a DiagonalBlock, as the block itself; got {type(target).__name__}")
        precision = (1.0 - rho) * self.precision + rho * target.precision
        return DiagonalBlock(precision, (1.0 - rho) * self.linear + rho * target.linear)


Block = DenseBlock | DiagonalBlock
