"""Bilinear terms, and how one block of variables sees the projections while the others are held (docs/maths section 6).

A product term adds sum_d (b_i^T w_d)(a_i^T v_d) to z_i. Given q(w), it is linear in the v_d with gain E[b_i^T w_d]; the
variance of the gain only adds to the curvature. So the loop deals with views alone: a `LinearView` of a linear term,
a `FactorView` of either side of a product, the other side held at its current moments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from skpref._compiled.factors import gain_pulls, product_moments, share_sums
from skpref.inference.blocks import DiagonalBlock, StackedBlock
from skpref.inference.terms.base import LinearView, Projection, Segment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skpref._typing import Array, IntArray
    from skpref.inference.blocks import Block
    from skpref.inference.terms.base import LinearTerm


@dataclass(frozen=True, eq=False)
class FactorTerm:
    """One side of a product: p_id = a_i^T v_d for d = 1..D, with the same rows a_i for every factor."""

    rows: LinearTerm  # the a_i; the scales that it names are replaced by `scales`
    scales: tuple[str, ...]  # name of each factor's inverse scale

    @property
    def n_factors(self) -> int:
        """D."""
        return len(self.scales)

    @property
    def size(self) -> int:
        """Number of variables of one factor."""
        return sum(segment.size for segment in self.rows.segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """One run of variables a factor."""
        return tuple(Segment(scale, self.size) for scale in self.scales)

    def stacked(self, v: Array) -> Array:
        """Return variables as a matrix with one row a factor, shape (D, K)."""
        return v.reshape(self.n_factors, self.size)

    def project(self, block: Block) -> Projection:
        """Return moments of the projections under q."""
        mean = self.rows.matvec(self.stacked(block.mean))
        parts = block.parts if isinstance(block, StackedBlock) else self._diagonal_parts(block)
        spread = np.empty_like(mean)
        for out, part in zip(spread, parts, strict=True):
            out[:] = self.rows.variance(part)
        return Projection(mean, spread)

    def _diagonal_parts(self, block: Block) -> tuple[Block, ...]:
        zero = np.zeros(self.size)
        return tuple(DiagonalBlock(1.0 / row, zero) for row in self.stacked(block.covariance_diagonal))

    def variance(self, projection: Projection, expected: Mapping[str, float]) -> Array:
        """Return the variances of the projections, the residual's share added, shape (D, P)."""
        if self.rows.residual is None:
            return projection.spread
        return projection.spread + np.outer(self._inverse(expected), self.rows.residual)

    def _inverse(self, expected: Mapping[str, float]) -> Array:
        return np.array([1.0 / expected[scale] for scale in self.scales])

    def prior_variance(self, expected: Mapping[str, float]) -> Array:
        """Return the prior variances of the projections, shape (D, P)."""
        ones = dict.fromkeys([segment.scale for segment in self.rows.segments], 1.0)
        return np.outer(self._inverse(expected), self.rows.prior_variance(ones))

    def take(self, index: IntArray, members: IntArray | None = None) -> FactorTerm:
        """Return the term of a mini-batch."""
        return replace(self, rows=self.rows.take(index, members))


@dataclass(frozen=True, eq=False)
class ProductTerm:
    """A sum of products of two sides' factors: z_i += sum_d (a_i^T v_d)(b_i^T w_d)."""

    first: FactorTerm  # the sides, with equally many factors
    second: FactorTerm  # the sides, with equally many factors
    names: tuple[str, str] = ("items", "users")  # of the blocks of the two sides

    @property
    def sides(self) -> dict[str, FactorTerm]:
        """Both sides by the name of their block."""
        return dict(zip(self.names, (self.first, self.second), strict=True))

    def moments(self, first: Projection, second: Projection, expected: Mapping[str, float]) -> tuple[Array, Array]:
        """Return means and variances of the sum, shape (P,)."""
        first_moments = first.mean, self.first.variance(first, expected)
        return product_moments(first_moments, (second.mean, self.second.variance(second, expected)))

    def prior_variance(self, expected: Mapping[str, float]) -> Array:
        """Return the prior variance of the sum, shape (P,)."""
        return np.asarray(
            np.einsum("dp,dp->p", self.first.prior_variance(expected), self.second.prior_variance(expected))
        )

    def take(self, index: IntArray, members_of: Mapping[str, IntArray | None]) -> ProductTerm:
        """Return the product of a mini-batch; `members_of` has the entities that remain of each side."""
        first, second = (side.take(index, members_of[name]) for name, side in self.sides.items())
        return replace(self, first=first, second=second)


@dataclass(frozen=True, eq=False)
class FactorView:
    """One side of a product as the loop sees it while the other side is held."""

    side: FactorTerm  # the side whose variables move
    gain: Array  # (D, P): means of the other side's projections
    gain_variance: Array  # (D, P): their variances, residual included

    @property
    def segments(self) -> tuple[Segment, ...]:
        """One run of variables a factor."""
        return self.side.segments

    def forward(self, v: Array) -> Array:
        """Return the factors' projections, shape (D, P)."""
        return self.side.rows.matvec(self.side.stacked(v))

    def total(self, projected: Array) -> Array:
        """Return the projections' part of z, shape (P,)."""
        return share_sums(self.gain, projected)

    def backward(self, g: Array, weight: Array, projected: Array) -> Array:
        """Return the adjoint of `forward` and `total`, and its part by uncertain gains, shape (D K,)."""
        pulls = gain_pulls(self.gain, g, self.gain_variance, weight, projected)
        return self.side.rows.rmatvec(pulls).reshape(-1)

    def second_moment(self, weight: Array) -> Array:
        """Return the curvature in each factor's projection, shape (D, P)."""
        return np.asarray(weight * (self.gain**2 + self.gain_variance))

    def grams(self, weight: Array) -> tuple[Array, ...]:
        """Return the curvature of each factor's variables, shape (K, K)."""
        # One factor at a time: D numbers an observation are many.
        rows = (weight * (g**2 + v) for g, v in zip(self.gain, self.gain_variance, strict=True))
        return tuple(self.side.rows.gram(row) for row in rows)

    def gram_diagonal(self, weight: Array) -> Array:
        """Return the curvature of each variable, shape (D K,)."""
        return self.side.rows.gram_diagonal(self.second_moment(weight)).reshape(-1)

    def pull(self, weight: Array) -> dict[str, float]:
        """Return the gain of the bound per unit of 1/E[s_d], by a smaller residual."""
        if self.side.rows.residual is None:
            return {}
        totals = self.second_moment(weight) @ self.side.rows.residual
        return {scale: 0.5 * float(total) for scale, total in zip(self.side.scales, totals, strict=True)}


View = LinearView | FactorView
