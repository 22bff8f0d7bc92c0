"""Terms of observations that belong to an entity each: the users of a crowd, the biases of judges."""

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
    """Observation i sees its entity's value: z_i = phi(entity_i)^T v with features, v[entity_i] without.

    Parameters
    ----------
    basis : ndarray of shape (n_entities, M) or None
        Rows phi(x_entity); None = every entity has a variable of its own.
    index : ndarray of shape (P,)
        Entity of each observation.
    n_entities : int
        Number of entities.
    scale : str
        Name of the prior's inverse scale.
    open_variance : ndarray of shape (n_entities,), default=None
        Variance that the basis leaves to each entity, in units of 1/E[s]; None = zero.
    """

    basis: Array | None
    index: IntArray
    n_entities: int
    scale: str
    open_variance: Array | None = None

    @property
    def segments(self) -> tuple[Segment, ...]:
        """One run of variables."""
        return (Segment(self.scale, self.n_entities if self.basis is None else int(self.basis.shape[1])),)

    @property
    def n_observations(self) -> int:
        """P."""
        return int(self.index.shape[0])

    @property
    def residual(self) -> Array | None:
        """The open variance of each observation's entity."""
        return None if self.open_variance is None else self.open_variance[self.index]

    @property
    def residual_scale(self) -> str:
        """Name of the scale that the residual belongs to."""
        return self.scale

    def prior_variance(self, expected: Mapping[str, float]) -> Array:
        """Return the prior variance of every projection.

        Parameters
        ----------
        expected : mapping of str to float
            E[s] of every scale.

        Returns
        -------
        ndarray of shape (P,)
            k(x, x) / E[s], or 1 / E[s] without features.
        """
        unit = np.ones(self.n_entities) if self.basis is None else np.einsum("ij,ij->i", self.basis, self.basis)
        if self.open_variance is not None:
            unit = unit + self.open_variance
        return np.asarray(unit[self.index] / expected[self.scale])

    def matvec(self, v: Array) -> Array:
        """Return A v.

        Parameters
        ----------
        v : ndarray of shape (..., K)
            Variables.

        Returns
        -------
        ndarray of shape (..., P)
            Projections.
        """
        values = v if self.basis is None else v @ self.basis.T
        return np.asarray(np.take(values, self.index, axis=-1))

    def sums(self, g: Array) -> Array:
        """Return the sum of g over each entity's observations.

        Parameters
        ----------
        g : ndarray of shape (..., P)
            One number an observation.

        Returns
        -------
        ndarray of shape (..., n_entities)
            Sums.
        """
        return entity_sums(self.index, np.atleast_2d(g), self.n_entities).reshape(*g.shape[:-1], self.n_entities)

    def rmatvec(self, g: Array) -> Array:
        """Return A^T g.

        Parameters
        ----------
        g : ndarray of shape (..., P)
            One number an observation.

        Returns
        -------
        ndarray of shape (..., K)
            The sum of g_i a_i.
        """
        sums = self.sums(g)
        return sums if self.basis is None else np.asarray(sums @ self.basis)

    def gram(self, weight: Array) -> Array:
        """Return A^T diag(weight) A, through the weight of each entity.

        Parameters
        ----------
        weight : ndarray of shape (P,)
            Site precisions.

        Returns
        -------
        ndarray of shape (K, K)
            The Gram matrix, both triangles.
        """
        total = self.sums(weight)
        if self.basis is None:
            return np.diag(total)
        return product(self.basis.T, self.basis * total[:, None])

    def gram_diagonal(self, weight: Array) -> Array:
        """Return the diagonal of `gram`.

        Parameters
        ----------
        weight : ndarray of shape (..., P)
            Site precisions.

        Returns
        -------
        ndarray of shape (..., K)
            sum_i w_i a_ik^2.
        """
        total = self.sums(weight)
        return total if self.basis is None else np.asarray(total @ self.basis**2)

    def variance(self, block: Block) -> Array:
        """Return diag(A S A^T).

        Parameters
        ----------
        block : DenseBlock or DiagonalBlock
            q(v).

        Returns
        -------
        ndarray of shape (P,)
            Posterior variances of the projections, residual left out.
        """
        if self.basis is None:
            return np.asarray(block.covariance_diagonal[self.index])
        if not isinstance(block, DenseBlock):
            return np.asarray((self.basis**2 @ block.covariance_diagonal)[self.index])
        half = product(self.basis, np.asfortranarray(block.inverse_chol.T))
        return np.asarray(np.einsum("ij,ij->i", half, half)[self.index])

    def basis_adjoint(self, block: DenseBlock, gradient: Array, curvature: Array, expected_scale: float) -> Array:
        """Return dL/dbasis at fixed q (maths.md section 5), summed over observations entity by entity.

        Parameters
        ----------
        block : DenseBlock
            q(v).
        gradient, curvature : ndarray of shape (P,)
            Derivatives of the fit in the projections' means and variances.
        expected_scale : float
            E[s], for the pull of the residual.

        Returns
        -------
        ndarray of shape (n_entities, M)
            sum_i (e_i m + 2 d_i (S a_i - a_i / E[s])).
        """
        assert self.basis is not None  # noqa: S101 - a term without basis has no kernel to adjust
        covariance = product(block.inverse_chol.T, np.asfortranarray(block.inverse_chol))
        rows = product(self.basis, covariance)
        if self.open_variance is not None:
            rows -= self.basis / expected_scale
        return np.outer(self.sums(gradient), block.mean) + 2.0 * self.sums(curvature)[:, None] * rows

    def take(self, index: IntArray, members: IntArray | None = None) -> EntityTerm:
        """Return the term of a mini-batch of observations.

        Parameters
        ----------
        index : ndarray of shape (B,)
            Observations.
        members : ndarray, default=None
            Entities to which the variables are reduced, ascending and without features; None = all.

        Returns
        -------
        EntityTerm
            The same variables, or the members' alone.
        """
        entity = self.index[index]
        if members is None:
            return replace(self, index=entity)
        return replace(self, index=np.searchsorted(members, entity), n_entities=len(members))
