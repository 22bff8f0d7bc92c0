"""Terms of observations that belong to one entity each, such as the user who made a comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from skpref._compiled.factors import entity_sums
from skpref._math.linalg import product
from skpref.inference.blocks import DenseBlock
from skpref.inference.terms.base import Segment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skpref._typing import Array, IntArray
    from skpref.inference.blocks import Block


@dataclass(frozen=True, eq=False)
class EntityTerm:
    """z_i is the value of the entity of observation i: phi(entity_i)^T v with features, v[entity_i] without."""

    basis: Array | None  # (n_entities, M): rows phi(x_entity); None = every entity has a variable of its own
    index: IntArray  # (P,): entity of each observation
    n_entities: int  # number of entities
    scale: str  # name of the prior's inverse scale
    # (n_entities,): variance of each entity that the basis does not explain, in units of 1/E[s]; None = zero
    open_variance: Array | None = None

    @property
    def segments(self) -> tuple[Segment, ...]:
        return (Segment(self.scale, self.n_entities if self.basis is None else int(self.basis.shape[1])),)

    @property
    def n_observations(self) -> int:
        return int(self.index.shape[0])

    @property
    def residual(self) -> Array | None:
        return None if self.open_variance is None else self.open_variance[self.index]

    @property
    def residual_scale(self) -> str:
        return self.scale

    def prior_variance(self, expected: Mapping[str, float]) -> Array:
        unit = np.ones(self.n_entities) if self.basis is None else np.einsum("ij,ij->i", self.basis, self.basis)
        if self.open_variance is not None:
            unit = unit + self.open_variance
        return np.asarray(unit[self.index] / expected[self.scale])

    def matvec(self, v: Array) -> Array:
        values = v if self.basis is None else v @ self.basis.T
        return np.asarray(np.take(values, self.index, axis=-1))

    def sums(self, g: Array) -> Array:
        """Return the sum of g over each entity's observations, shape (..., n_entities)."""
        return entity_sums(self.index, np.atleast_2d(g), self.n_entities).reshape(*g.shape[:-1], self.n_entities)

    def rmatvec(self, g: Array) -> Array:
        sums = self.sums(g)
        return sums if self.basis is None else np.asarray(sums @ self.basis)

    def gram(self, weight: Array) -> Array:
        total = self.sums(weight)
        if self.basis is None:
            return np.diag(total)
        return product(self.basis.T, self.basis * total[:, None])

    def gram_diagonal(self, weight: Array) -> Array:
        total = self.sums(weight)
        return total if self.basis is None else np.asarray(total @ self.basis**2)

    def variance(self, block: Block) -> Array:
        if self.basis is None:
            return np.asarray(block.covariance_diagonal[self.index])
        if not isinstance(block, DenseBlock):
            return np.asarray((self.basis**2 @ block.covariance_diagonal)[self.index])
        half = product(self.basis, np.asfortranarray(block.inverse_chol.T))
        return np.asarray(np.einsum("ij,ij->i", half, half)[self.index])

    def basis_adjoint(self, block: DenseBlock, gradient: Array, curvature: Array, expected_scale: float) -> Array:
        """Return dL/dbasis at fixed q (docs/maths section 5), summed over observations entity by entity."""
        assert self.basis is not None  # noqa: S101 - a term without basis has no kernel to adjust
        covariance = product(block.inverse_chol.T, np.asfortranarray(block.inverse_chol))
        rows = product(self.basis, covariance)
        if self.open_variance is not None:
            rows -= self.basis / expected_scale
        return np.outer(self.sums(gradient), block.mean) + 2.0 * self.sums(curvature)[:, None] * rows

    def take(self, index: IntArray, members: IntArray | None = None) -> EntityTerm:
        entity = self.index[index]
        if members is None:
            return replace(self, index=entity)
        return replace(self, index=np.searchsorted(members, entity), n_entities=len(members))
