"""A term of inducing points that computes its rows when they are needed, and the gradient of its bound."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from skpref import kernels
from skpref._math.linalg import inverse_lower
from skpref.inference.basis import chunks
from skpref.inference.blocks import DenseBlock
from skpref.inference.terms.base import RowTerm, Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from skpref._typing import Array, Features, IntArray
    from skpref.inference.basis import InducingBasis
    from skpref.inference.blocks import Block
    from skpref.inference.problem import Evaluation, Problem, State


def row_term(basis: InducingBasis, X: Features, scale: str, inverse: Array | None = None) -> RowTerm:
    """Return the term z_i = f(x_i) with its rows."""
    rows = basis.rows(X, inverse)
    return RowTerm(rows, (Segment(scale, rows.shape[1]),), basis.residual(X, rows))


@dataclass(frozen=True, eq=False)
class InducingTerm:
    """z_i = f(x_i) through inducing points; never holds all n rows of M numbers at once."""

    basis: InducingBasis  # kernel and inducing points
    X: Features  # (n, d): inputs
    scale: str = "f"  # name of the prior scale

    @property
    def segments(self) -> tuple[Segment, ...]:
        return (Segment(self.scale, self.basis.chol.shape[0]),)

    @property
    def n_observations(self) -> int:
        return int(self.X.shape[0])

    def take(self, index: IntArray, _members: IntArray | None = None) -> RowTerm:
        return row_term(self.basis, self.X[index], self.scale, self._inverse)

    @property
    def residual(self) -> Array:
        return np.concatenate([np.asarray(part.residual) for part in self._parts()])

    @property
    def residual_scale(self) -> str:
        return self.scale

    def prior_variance(self, expected: Mapping[str, float]) -> Array:
        return kernels.diagonal(self.basis.kernel, self.X) / expected[self.scale]

    def matvec(self, v: Array) -> Array:
        return np.concatenate([part.matvec(v) for part in self._parts()], axis=-1)

    def rmatvec(self, g: Array) -> Array:
        return self._sum(g, RowTerm.rmatvec)

    def gram(self, weight: Array) -> Array:
        return self._sum(weight, RowTerm.gram)

    def gram_diagonal(self, weight: Array) -> Array:
        return self._sum(weight, RowTerm.gram_diagonal)

    def variance(self, block: Block) -> Array:
        return np.concatenate([part.variance(block) for part in self._parts()])

    def _parts(self) -> Iterator[RowTerm]:
        return (row_term(self.basis, self.X[part], self.scale, self._inverse) for part in chunks(self.n_observations))

    @cached_property
    def _inverse(self) -> Array:
        return inverse_lower(self.basis.chol)

    def _sum(self, values: Array, method: Callable[[RowTerm, Array], Array]) -> Array:
        """Return the sum over chunks of rows of a method of theirs, called with their part of `values`."""
        cuts = [values[..., part] for part in chunks(self.n_observations)]
        return np.asarray(sum(method(term, cut) for term, cut in zip(self._parts(), cuts, strict=True)))


def inducing_gradient(
    basis: InducingBasis, X: Features, problem: Problem, state: State, evaluation: Evaluation
) -> tuple[Array, Array | None]:
    """Return the gradient at fixed q of the bound in the kernel's theta and in the inducing points.

    At the best q this is the gradient of the bound itself (docs/maths section 5).
    """
    (term,), (block,) = problem.terms.values(), state.blocks.values()
    assert isinstance(term, RowTerm)  # noqa: S101
    assert isinstance(block, DenseBlock)  # noqa: S101
    curvature = -0.5 * evaluation.sites.weight
    adjoint = term.basis_adjoint(block, evaluation.sites.gradient, curvature, 1.0)
    theta, points = basis.rows_pullback(X, term.rows, adjoint)
    if term.residual is not None:
        theta = theta + kernels.diagonal_vjp(basis.kernel, X, curvature)
    return np.asarray(theta), points
