"""Comparisons of items as a term: sums over comparisons go through the weighted graph of items."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from skpref._compiled.factors import entity_sums, pair_differences, pair_sums
from skpref._compiled.pairs import incidence, laplacian_product, row_differences, squared_differences
from skpref._math.linalg import product
from skpref.inference.blocks import DenseBlock
from skpref.inference.terms.base import RowTerm, Segment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skpref._typing import Array, IntArray
    from skpref.inference.blocks import Block
    from skpref.inference.terms.base import LinearTerm


@dataclass(frozen=True, eq=False)
class PairTerm:
    """Comparisons of items: z_i = u(left_i) - u(right_i) + c_i^T beta (+ the order effect).

    The utility of an item is ``basis[item] @ v_f + o_item``; either part may be missing. Variables are ordered
    [v_f (M), o (N, when `offsets`), beta (q), order effect (1, when `order`)]. The order effect is the coefficient of
    a covariate that is always 1, with a prior of its own; `extra` has all covariates, that one last. All sums over
    comparisons are sums over the weighted graph of items: with its Laplacian Q = D^T W D, the Gram matrix is
    basis^T Q basis, which costs N M^2 + P M and not P M^2.
    """

    basis: Array | None  # (N, M): rows phi(x_item); None when there are no features
    left: IntArray  # (P,): items of each comparison
    right: IntArray  # (P,): items of each comparison
    n_items: int  # n
    offsets: bool = False  # whether every item has its own independent offset
    order: bool = False  # whether the left side has a learnt advantage
    residual: Array | None = None  # (P,): r_i; None means zero
    covariates: Array | None = None  # (P, q): c_i; None means that there are none

    @cached_property
    def extra(self) -> Array | None:
        """Covariates and a column of ones for the order effect, shape (P, E); None where both are missing."""
        ones = np.ones((self.n_observations, 1))
        if self.covariates is None:
            return ones if self.order else None
        return np.column_stack([self.covariates, ones]) if self.order else self.covariates

    @property
    def n_basis(self) -> int:
        """M, the number of inducing points."""
        return 0 if self.basis is None else int(self.basis.shape[1])

    @property
    def segments(self) -> tuple[Segment, ...]:
        n_covariates = 0 if self.covariates is None else int(self.covariates.shape[1])
        sizes = {
            "f": self.n_basis,
            "offset": self.n_items * self.offsets,
            "covariate": n_covariates,
            "order": int(self.order),
        }
        return tuple(Segment(name, size) for name, size in sizes.items() if size)

    @property
    def n_observations(self) -> int:
        return int(self.left.shape[0])

    @property
    def residual_scale(self) -> str:
        return "f"

    def prior_variance(self, expected: Mapping[str, float]) -> Array:
        total = np.full(self.n_observations, 1.0 / expected["order"] if self.order else 0.0)
        if self.covariates is not None:
            total += np.square(self.covariates).sum(axis=1) / expected["covariate"]
        if self.offsets:
            total += 2.0 / expected["offset"]
        if self.basis is not None:
            total += squared_differences(self.basis, self.left, self.right) / expected["f"]
        return total if self.residual is None else total + self.residual / expected["f"]

    @cached_property
    def _graph(self) -> tuple[IntArray, IntArray, IntArray]:
        both = np.concatenate([self.left, self.right])
        return incidence(both, np.roll(both, self.n_observations), self.n_items)

    @cached_property
    def _left_graph(self) -> tuple[IntArray, IntArray, IntArray]:
        return incidence(self.left, self.right, self.n_items)

    def split(self, v: Array) -> tuple[Array, Array, Array]:
        """Split a vector of the variables, or the rows of a matrix, into its three parts."""
        start = self.n_basis + self.n_items * self.offsets
        return v[: self.n_basis], v[self.n_basis : start], v[start:]

    def utility(self, v: Array) -> Array:
        """Return the items' utilities at given variables, shape (..., N)."""
        if self.basis is None:
            return v[..., : self.n_items] if self.offsets else np.zeros((*v.shape[:-1], self.n_items))
        m = self.n_basis
        u = np.asarray(v[..., :m] @ self.basis.T)
        return u + v[..., m : m + self.n_items] if self.offsets else u

    def average_item(self) -> Array:
        """Return the row that gives the average utility of the items, shape (K,)."""
        parts = [] if self.basis is None else [self.basis.mean(axis=0)]
        parts += [np.full(self.n_items, 1.0 / self.n_items)] if self.offsets else []
        parts += [] if self.extra is None else [np.zeros(self.extra.shape[1])]
        return np.concatenate(parts)

    def matvec(self, v: Array) -> Array:
        u = self.utility(v)
        z = pair_differences(np.atleast_2d(u), self.left, self.right).reshape(*u.shape[:-1], -1)
        return z if self.extra is None else z + v[..., -self.extra.shape[1] :] @ self.extra.T

    def rmatvec(self, g: Array) -> Array:
        item = self.item_sums(g)
        parts = [] if self.basis is None else [item @ self.basis]
        parts += [item] if self.offsets else []
        parts += [] if self.extra is None else [g @ self.extra]
        return np.concatenate(parts, axis=-1)

    def item_sums(self, g: Array) -> Array:
        """Return D^T g, the sums over the comparisons of each item, shape (..., N)."""
        sums = pair_sums(self.left, self.right, np.atleast_2d(g), self.n_items)
        return sums.reshape(*g.shape[:-1], -1)

    def laplacian_times(self, weight: Array, rows: Array) -> Array:
        """Return D^T diag(weight) D rows, shape (N, n)."""
        return laplacian_product(*self._graph, np.tile(weight, 2), self._degrees(weight), rows)

    def gram(self, weight: Array) -> Array:
        size = sum(segment.size for segment in self.segments)
        m, stop = self.n_basis, self.n_basis + self.n_items * self.offsets
        out = np.empty((size, size))
        if self.basis is not None and self.offsets:
            spread = self.laplacian_times(weight, self.basis)
            out[:m, :m] = product(self.basis.T, spread)
            out[m:stop, :m] = spread
            out[:m, m:stop] = spread.T
        elif self.basis is not None:
            # Q = H + H^T, where H has each comparison once.
            spread = laplacian_product(*self._left_graph, weight, 0.5 * self._degrees(weight), self.basis)
            half = product(self.basis.T, spread)
            np.add(half, half.T, out=out[:m, :m])
        if self.offsets:
            out[m:stop, m:stop] = self._laplacian(weight)
        if self.extra is not None:
            last = self.rmatvec(self.extra.T * weight)
            out[stop:], out[:, stop:] = last, last.T
        return out

    def _laplacian(self, weight: Array) -> Array:
        q = np.zeros((self.n_items, self.n_items))
        np.add.at(q, (self.left, self.right), -weight)
        q += q.T
        q[np.diag_indices_from(q)] = self._degrees(weight)
        return q

    def _degrees(self, weight: Array) -> Array:
        """Total weight of each item's comparisons."""
        n, w = self.n_items, np.atleast_2d(weight)
        return (entity_sums(self.left, w, n) + entity_sums(self.right, w, n)).reshape(*weight.shape[:-1], -1)

    def gram_diagonal(self, weight: Array) -> Array:
        if self.basis is None and self.extra is None:
            return self._degrees(weight)
        diagonals = [np.diagonal(self.gram(w)) for w in np.atleast_2d(weight)]
        return np.reshape(diagonals, (*weight.shape[:-1], -1))

    def variance(self, block: Block) -> Array:
        if not isinstance(block, DenseBlock):
            if self.basis is not None or self.extra is not None:
                raise TypeError("a diagonal block holds offsets alone; got a term with a basis or covariates")
            d = block.covariance_diagonal
            return np.asarray(d[self.left] + d[self.right])
        f, offset, extra = self.split(block.inverse_chol.T)
        half = np.zeros((self.n_items, block.size)) if self.basis is None else product(self.basis, np.asfortranarray(f))
        if self.offsets:
            half += offset
        return difference_variance(half, self.left, self.right, extra, self.extra)

    def basis_adjoint(self, block: DenseBlock, gradient: Array, curvature: Array, expected_scale: float) -> Array:
        """Return dL/dbasis at fixed q (docs/maths section 5), summed over comparisons item by item, shape (N, M)."""
        assert self.basis is not None  # noqa: S101 - a term without basis has no kernel to adjust
        m = self.n_basis
        covariance = product(block.inverse_chol.T, np.asfortranarray(block.inverse_chol[:, :m]))
        f, offset, extra = self.split(covariance)
        rows = product(self.basis, np.ascontiguousarray(f))
        if self.offsets:
            rows += offset
        if self.residual is not None:
            rows -= self.basis / expected_scale
        adjoint = np.outer(self.item_sums(gradient), block.mean[:m]) + 2.0 * self.laplacian_times(curvature, rows)
        if self.extra is not None:
            adjoint += 2.0 * self.item_sums(self.extra.T * curvature).T @ extra
        return adjoint

    def take(self, index: IntArray, _members: IntArray | None = None) -> LinearTerm:
        # Pairs cost N M^2 for each Gram matrix, rows B M^2.
        if (self.basis is None and self.extra is None) or len(index) > self.n_items:
            residual, covariates = (None if a is None else a[index] for a in (self.residual, self.covariates))
            return replace(
                self, left=self.left[index], right=self.right[index], residual=residual, covariates=covariates
            )
        return self.explicit(index)

    def explicit(self, index: IntArray) -> RowTerm:
        """Return some comparisons as plain rows."""
        left, right = self.left[index], self.right[index]
        residual = None if self.residual is None else self.residual[index]
        shape = len(index), sum(segment.size for segment in self.segments)
        rows = np.zeros(shape) if self.offsets else np.empty(shape)
        _, offset, extra = self.split(rows.T)
        if self.basis is not None:
            row_differences(self.basis, left, right, rows)
        if self.offsets:
            batch = np.arange(len(index))
            offset[left, batch] += 1.0
            offset[right, batch] -= 1.0
        if self.extra is not None:
            extra[:] = self.extra[index].T
        return RowTerm(rows, self.segments, residual)


def difference_variance(half: Array, left: IntArray, right: IntArray, extra_half: Array, extra: Array | None) -> Array:
    """Return |half[left] - half[right] + extra @ extra_half|^2 for every comparison, shape (P,).

    Rows of `half` belong to items, those of `extra_half` (E, K) to the columns of `extra` (P, E).
    """
    variance = squared_differences(half, left, right)
    if extra is None:
        return variance
    with_items = product(half, np.ascontiguousarray(extra_half.T))
    cross = np.einsum("ij,ij->i", extra, with_items[left] - with_items[right])
    own = np.einsum("ij,ij->i", extra @ (extra_half @ extra_half.T), extra)
    return np.asarray(np.maximum(variance + 2.0 * cross + own, 0.0))
