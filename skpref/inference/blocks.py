"""Blocks: Gaussian factors q(v) in natural parameters: dense, diagonal, or dense factor by factor (docs/maths 2, 3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from skpref._checks import check_arrays, check_diagonals, check_positive, check_types, require
from skpref._math.linalg import cholesky_precision, inverse_lower, log_det, solve_lower, solve_lower_t

if TYPE_CHECKING:
    from skpref._typing import Array


@dataclass(frozen=True, eq=False)
class DenseBlock:
    """q(v) = N(m, S) with Lambda = S^-1 and eta = Lambda m; all else is computed once and cached."""

    precision: Array  # (K, K): lambda; only the lower triangle is read
    linear: Array  # (K,): eta

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_arrays(self, linear="K", precision="K K")
        check_diagonals(self, "precision")

    @classmethod
    def isotropic(cls, precision: Array, mean: Array) -> DenseBlock:
        """Build N(mean, diag(1 / precision))."""
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
        """Return S b."""
        return solve_lower_t(self.chol, solve_lower(self.chol, b))

    def whiten(self, b: Array) -> Array:
        """Return L^-1 b, where S = L^-T L^-1: a gradient in units of posterior standard deviations, shape (K,)."""
        return solve_lower(self.chol, b)

    def colour(self, b: Array) -> Array:
        """Return L^-T b, the adjoint of `whiten`, shape (K,)."""
        return solve_lower_t(self.chol, b)

    def with_mean(self, mean: Array) -> DenseBlock:
        """Return the block with another mean and the same covariance."""
        lower = np.tril(self.chol)
        other, known = DenseBlock(self.precision, lower @ (lower.T @ mean)), vars(self)
        vars(other).update({name: known[name] for name in ("chol", "inverse_chol") if name in known}, mean=mean)
        return other

    def stretched(self, by: float) -> DenseBlock:
        """Return the block of the variables times `by`."""
        other, known = DenseBlock(self.precision / by**2, self.linear / by), vars(self)
        ways = {"chol": np.divide, "inverse_chol": np.multiply, "mean": np.multiply}
        vars(other).update({name: way(known[name], by) for name, way in ways.items() if name in known})
        return other

    def mixed(self, target: Block, rho: float) -> DenseBlock:
        """Move a fraction rho towards `target` in natural parameters: a natural-gradient step."""
        if not isinstance(target, DenseBlock):
            raise TypeError(f"target must be a DenseBlock like the block; got {type(target).__name__}")
        if rho == 1.0:
            return target
        precision = (1.0 - rho) * self.precision + rho * target.precision
        return DenseBlock(precision, (1.0 - rho) * self.linear + rho * target.linear)


@dataclass(frozen=True, eq=False)
class DiagonalBlock:
    """q(v) = prod_k N(m_k, 1 / precision_k): independent variables."""

    precision: Array  # (K,): diagonal of Lambda
    linear: Array  # (K,): eta = Lambda m

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_arrays(self, precision="K", linear="K")
        check_positive(self, "precision")

    @classmethod
    def isotropic(cls, precision: Array, mean: Array) -> DiagonalBlock:
        """Build N(mean, diag(1 / precision))."""
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

    def whiten(self, b: Array) -> Array:
        """Return L^-1 b, where S = L^-T L^-1: a gradient in units of posterior standard deviations, shape (K,)."""
        return b / np.sqrt(self.precision)

    colour = whiten

    def with_mean(self, mean: Array) -> DiagonalBlock:
        """Return the block of the same precision about another mean."""
        return DiagonalBlock(self.precision, self.precision * mean)

    def stretched(self, by: Array) -> DiagonalBlock:
        """Return the block of the variables times numbers."""
        c = np.repeat(by, self.size // len(by))
        return DiagonalBlock(self.precision / c**2, self.linear / c)

    def mixed(self, target: Block, rho: float) -> DiagonalBlock:
        """Move a fraction rho towards `target` in natural parameters."""
        if not isinstance(target, DiagonalBlock):
            raise TypeError(f"target must be a DiagonalBlock like the block; got {type(target).__name__}")
        precision = (1.0 - rho) * self.precision + rho * target.precision
        return DiagonalBlock(precision, (1.0 - rho) * self.linear + rho * target.linear)


@dataclass(frozen=True, eq=False)
class StackedBlock:
    """q(v) = prod_d N(m_d, S_d): one dense block a factor; variables are ordered factor by factor."""

    parts: tuple[DenseBlock, ...]  # blocks of equal size, one a factor

    def validate(self) -> None:
        """Raise DataError unless there are dense blocks of one size."""
        check_types(self, parts=tuple)
        sound = bool(self.parts) and all(isinstance(part, DenseBlock) for part in self.parts)
        require(sound and len({part.size for part in self.parts}) == 1, self, "parts", "must be blocks of one size")

    @classmethod
    def isotropic(cls, precision: Array, mean: Array, n_parts: int) -> StackedBlock:
        """Build N(mean, diag(1 / precision))."""
        pairs = zip(np.split(precision, n_parts), np.split(mean, n_parts), strict=True)
        return cls(tuple(DenseBlock.isotropic(part, m) for part, m in pairs))

    @property
    def size(self) -> int:
        """Number of variables of all factors."""
        return sum(part.size for part in self.parts)

    @cached_property
    def mean(self) -> Array:
        """The mean m of all factors, shape (n_parts K,)."""
        return np.concatenate([part.mean for part in self.parts])

    @cached_property
    def covariance_diagonal(self) -> Array:
        """Variances, shape (n_parts K,)."""
        return np.concatenate([part.covariance_diagonal for part in self.parts])

    @property
    def log_det_covariance(self) -> float:
        """Log of the determinant of S."""
        return sum(part.log_det_covariance for part in self.parts)

    def _split(self, b: Array) -> list[Array]:
        return np.split(b, len(self.parts))

    def whiten(self, b: Array) -> Array:
        """Return L^-1 b, where S = L^-T L^-1: a gradient in units of posterior standard deviations."""
        return np.concatenate([part.whiten(x) for part, x in zip(self.parts, self._split(b), strict=True)])

    def colour(self, b: Array) -> Array:
        """Return L^-T b, the adjoint of `whiten`, shape (n_parts K,)."""
        return np.concatenate([part.colour(x) for part, x in zip(self.parts, self._split(b), strict=True)])

    def with_mean(self, mean: Array) -> StackedBlock:
        """Return the block of the same precision about another mean."""
        return StackedBlock(tuple(part.with_mean(m) for part, m in zip(self.parts, self._split(mean), strict=True)))

    def stretched(self, by: Array) -> StackedBlock:
        """Return the block of the variables times numbers."""
        return StackedBlock(tuple(part.stretched(float(c)) for part, c in zip(self.parts, by, strict=True)))

    def mixed(self, target: Block, rho: float) -> StackedBlock:
        """Move a fraction rho towards `target` in natural parameters."""
        if not isinstance(target, StackedBlock):
            raise TypeError(f"target must be a StackedBlock like the block; got {type(target).__name__}")
        return StackedBlock(tuple(a.mixed(b, rho) for a, b in zip(self.parts, target.parts, strict=True)))


Block = DenseBlock | DiagonalBlock | StackedBlock
