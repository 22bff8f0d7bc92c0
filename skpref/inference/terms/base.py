"""Terms: how a block of latent variables enters the projections z (docs/maths sections 2 and 3).

A linear term maps its variables v to z through rows a_i. The loop asks a term for products with the design and for
its Gram matrix only, so a term can use its structure: items occur in many comparisons, so `PairTerm` (in
`pairs`) works on items (N rows) and never forms the P x K matrix of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.linalg.blas import dsyrk

from skpref._checks import check_types, is_count, require
from skpref._math.linalg import product, times_lower_t
from skpref.inference.basis import chunks
from skpref.inference.blocks import DenseBlock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skpref._typing import Array, IntArray
    from skpref.inference.blocks import Block


@dataclass(frozen=True)
class Segment:
    """A run of variables of a block that share one prior scale."""

    scale: str  # name of the scale
    size: int  # number of variables

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, scale=str)
        require(is_count(self.size, 1), self, "size", "must be a whole number >= 1")


def precision_of(segments: tuple[Segment, ...], expected: Mapping[str, float]) -> Array:
    """Return the prior precision of every variable, shape (K,)."""
    return np.concatenate([np.full(segment.size, expected[segment.scale]) for segment in segments])


class LinearTerm(Protocol):
    """A block's share of the projections: z_i += a_i^T v for i = 1..P, with K variables v.

    A is the P x K matrix of the rows a_i, and S is the covariance of v. This is all that inference asks of a term; an
    implementation need not hold A. A leading axis "..." holds independent vectors, and may be missing.
    """

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Runs of variables by prior scale, in order; their sizes add up to K."""

    @property
    def n_observations(self) -> int:
        """P."""

    @property
    def residual(self) -> Array | None:
        """Variance of each z_i that the variables do not explain, in units of 1/E[residual_scale], shape (P,).

        It is what inducing points lose, k(x, x) - |a_i|^2 >= 0; None means zero.
        """

    @property
    def residual_scale(self) -> str:
        """Name of the scale that the residual belongs to."""

    def prior_variance(self, expected: Mapping[str, float]) -> Array:
        """Return the prior variance of every projection, the residual included, at the scales E[s], shape (P,)."""

    def matvec(self, v: Array) -> Array:
        """Return A v, from shape (..., K) to shape (..., P)."""

    def rmatvec(self, g: Array) -> Array:
        """Return A^T g, from shape (..., P) to shape (..., K)."""

    def gram(self, weight: Array) -> Array:
        """Return A^T diag(weight) A, shape (K, K); only the lower triangle is read."""

    def gram_diagonal(self, weight: Array) -> Array:
        """Return the diagonal of `gram`, from shape (..., P) to shape (..., K)."""

    def variance(self, block: Block) -> Array:
        """Return diag(A S A^T), the residual excluded, shape (P,)."""

    def take(self, index: IntArray, members: IntArray | None = None) -> LinearTerm:
        """Return the term of the observations `index`, shape (B,).

        `members`, ascending, has the entities of these observations where the variables belong to one entity each: the
        new term then has their variables only.
        """


@dataclass(frozen=True, eq=False)
class LinearView:
    """A linear term as the loop sees it: nothing else enters."""

    term: LinearTerm  # the term

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Runs of variables by prior scale."""
        return self.term.segments

    def forward(self, v: Array) -> Array:
        """Return A v, shape (P,)."""
        return self.term.matvec(v)

    def total(self, projected: Array) -> Array:
        """Return the projections' part of z, shape (P,)."""
        return projected

    def backward(self, g: Array, _weight: Array, _projected: Array) -> Array:
        """Return A^T g, shape (K,)."""
        return self.term.rmatvec(g)

    def grams(self, weight: Array) -> tuple[Array, ...]:
        """Return the curvature of each dense part, shape (K, K)."""
        return (self.term.gram(weight),)

    def gram_diagonal(self, weight: Array) -> Array:
        """Return the curvature of each variable, shape (K,)."""
        return self.term.gram_diagonal(weight)

    def pull(self, weight: Array) -> dict[str, float]:
        """Return the gain of the bound per unit of 1/E[s], by a smaller residual."""
        if self.term.residual is None:
            return {}
        return {self.term.residual_scale: 0.5 * float(weight @ self.term.residual)}


@dataclass(frozen=True, eq=False)
class Projection:
    """What one block gives to the observations."""

    mean: Array  # (P,) or (D, P): means of the block's projections, one row a factor
    spread: Array  # their variances, the residual's share left out


@dataclass(frozen=True, eq=False)
class RowTerm:
    """A term that holds its rows."""

    rows: Array  # (P, K): the a_i
    segments: tuple[Segment, ...]  # runs of variables by prior scale
    residual: Array | None = None  # (P,): r_i; None means zero

    @property
    def n_observations(self) -> int:
        return int(self.rows.shape[0])

    @property
    def residual_scale(self) -> str:
        return self.segments[0].scale

    def prior_variance(self, expected: Mapping[str, float]) -> Array:
        inverse = 1.0 / precision_of(self.segments, expected)
        kappa = np.asarray(self.rows**2 @ inverse)
        return kappa if self.residual is None else kappa + self.residual / expected[self.residual_scale]

    def matvec(self, v: Array) -> Array:
        return np.asarray(v @ self.rows.T)

    def rmatvec(self, g: Array) -> Array:
        return np.asarray(g @ self.rows)

    def gram(self, weight: Array) -> Array:
        # One syrk a chunk.
        root, size = np.sqrt(weight), self.rows.shape[1]
        total = np.zeros((size, size), order="F")
        for part in chunks(self.n_observations):
            scaled = self.rows[part] * root[part, None]
            # The transpose of a C-ordered array is Fortran-ordered, so BLAS copies nothing; its upper triangle, read
            # back transposed, is our lower one.
            total = dsyrk(1.0, scaled.T, beta=1.0, c=total, lower=0, overwrite_c=1)
        return np.asarray(total).T

    def gram_diagonal(self, weight: Array) -> Array:
        return np.asarray(weight @ self.rows**2)

    def variance(self, block: Block) -> Array:
        if not isinstance(block, DenseBlock):
            return np.asarray(self.rows**2 @ block.covariance_diagonal)
        out, half_precision = np.empty(self.n_observations), block.inverse_chol
        for part in chunks(self.n_observations):
            half = times_lower_t(self.rows[part], half_precision)
            out[part] = np.einsum("ij,ij->i", half, half)
        return out

    def basis_adjoint(self, block: DenseBlock, gradient: Array, curvature: Array, expected_scale: float) -> Array:
        """Return dL/drows at fixed q (docs/maths section 5), shape (P, K)."""
        adjoint = np.empty_like(self.rows)
        for part in chunks(self.n_observations):
            half = times_lower_t(self.rows[part], block.inverse_chol)
            pulled = product(half, block.inverse_chol)
            if self.residual is not None:
                pulled -= self.rows[part] / expected_scale
            adjoint[part] = 2.0 * curvature[part, None] * pulled + gradient[part, None] * block.mean
        return adjoint

    def take(self, index: IntArray, _members: IntArray | None = None) -> RowTerm:
        residual = None if self.residual is None else self.residual[index]
        return RowTerm(self.rows[index], self.segments, residual)
