"""Differences in Gaussian chains: a node's value is u = x(time) + c_1(group_1) + ... + b^T number (docs/maths 12).

Each chain has a difference c for each group of each kind, and a slope b for each number of its context, with a variance
for each kind, which do not move. Given what rows say of the nodes, they are integrated out exactly, chain by chain: K
columns for K groups and numbers of all kinds. A level has the numbers of the groups, then those of the context.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from skpref._checks import check_arrays, check_positive, require

if TYPE_CHECKING:
    from collections.abc import Callable

    from skpref._typing import Array, BoolArray, IntArray

LEFT_OUT = -2  # level: no group of this kind, which is the utility in all; others below 0 or without answers are unseen


def columns_of(level: Array | IntArray, sizes: IntArray) -> tuple[IntArray, BoolArray]:
    """Return the columns of groups (n, n_kinds) in the order of all kinds, and which groups have one."""
    number = level[:, : sizes.size].astype(np.int64)
    return number + np.cumsum(sizes) - sizes, (number >= 0) & (number < sizes)


def design_of(level: Array, sizes: IntArray) -> Array:
    """Return the indicators of groups, then the numbers, shape (n, K); groups that the fit did not see have none."""
    (column, known), Z = columns_of(level, sizes), np.zeros((level.shape[0], int(sizes.sum())))
    row, kind = np.nonzero(known)
    Z[row, column[row, kind]] = 1.0
    return np.hstack([Z, level[:, sizes.size :]])


def multiply(B: Array, c: Array, chain: IntArray) -> Array:
    """Return the products of rows (n, K) with the columns of their chain's c (C, K, F), shape (n, F)."""
    (n_chains, K, F), total = c.shape, np.zeros((B.shape[0], c.shape[2]))
    if n_chains < K * F:  # fewer steps, by products of matrices
        order = np.argsort(chain, kind="stable")
        for number, rows in enumerate(np.split(order, np.searchsorted(chain[order], np.arange(1, n_chains)))):
            total[rows] = B[rows] @ c[number]
        return total
    for k in range(K):
        total += B[:, k, None] * c[chain, k]
    return total


@dataclass(frozen=True, eq=False)
class Levels:
    """The groups of the nodes of chains, and the numbers of their context."""

    chain: IntArray  # (n,)
    level: Array  # (n, n_kinds + n_numbers)
    sizes: IntArray  # (n_kinds,): number of groups of each kind
    n_chains: int
    widths: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # numbers of each kind of context

    @cached_property
    def Z(self) -> Array:
        """Indicators of the groups and numbers, shape (n, K)."""
        return design_of(self.level, self.sizes)

    @cached_property
    def _sums(self) -> csr_array:
        """What adds values of nodes for each chain and column, shape (C K, n)."""
        n, K = self.Z.shape
        node, column = np.nonzero(self.Z)
        return csr_array((self.Z[node, column], (self.chain[node] * K + column, node)), shape=(self.n_chains * K, n))

    def sums(self, values: Array) -> Array:
        """Return Z^T values of each chain, shape (C, K, F)."""
        return np.asarray(self._sums @ values).reshape(self.n_chains, -1, values.shape[1])


class Differences:
    """Posterior of c given the precisions D of nodes; `solve` leaves differences out."""

    def __init__(self, levels: Levels, variances: Array, D: Array, solve: Callable[[Array], Array]) -> None:
        self.levels, self.D, self.solve = levels, D, solve
        self.widths = np.concatenate([levels.sizes, levels.widths])
        self.precision = np.repeat(1.0 / variances, self.widths)
        # By how much values of nodes rise with c: x falls where c rises.
        self.B = levels.Z - solve(D[:, None] * levels.Z)
        A = levels.sums(D[:, None] * self.B) + np.diag(self.precision)
        self.covariance: Array = np.linalg.inv(A).astype(np.float64, copy=False)
        self.variance = (multiply(self.B, self.covariance, levels.chain) * self.B).sum(axis=1)
        self.log_det = float(np.linalg.slogdet(A)[1].sum() - levels.n_chains * np.log(self.precision).sum())

    def mean(self, r: Array, x: Array) -> Array:
        """Return the means of c for the linear terms r of nodes and x without differences, shape (C, K, F)."""
        return np.asarray(self.covariance @ self.levels.sums(r - self.D[:, None] * x))

    def rise(self, r: Array, x: Array) -> Array:
        """Return by how much the values of nodes rise with c, shape (n, F)."""
        return multiply(self.B, self.mean(r, x), self.levels.chain)

    def rest(self, r: Array, c: Array) -> Array:
        """Return the linear terms of x, shape (n, F)."""
        return r - self.D[:, None] * multiply(self.levels.Z, c, self.levels.chain)

    def directions(self) -> list[Array]:
        """Return what c adds to the linear terms of the chains' prior in K directions of one deviation each, (n,)."""
        root: Array = np.linalg.cholesky(self.covariance).astype(np.float64, copy=False)
        moved = -self.D[:, None] * multiply(self.B, root, self.levels.chain)
        return list(moved.T)

    def gradient(self, c: Array) -> Array:
        """Return the derivatives of the expected log prior of c in the logs of standard deviations of each kind."""
        square = c[..., 0] ** 2 + np.diagonal(self.covariance, axis1=1, axis2=2)
        of_column = (square * self.precision - 1.0).sum(axis=0)
        return np.add.reduceat(of_column, np.cumsum(self.widths) - self.widths)


@dataclass(frozen=True, eq=False)
class GroupDifferences:
    """Posterior of the differences c of chains, for predictions."""

    mean: Array  # (C, K)
    covariance: Array  # (C, K, K)
    level: Array  # (n, n_kinds + n_numbers): of the chains' nodes; a group below 0 says nothing of c
    sizes: IntArray  # (n_kinds,): number of groups of each kind
    variances: Array  # (J,): prior variances of all kinds, of groups and then of context
    response: Array | None = None  # (C, K, F): by how much c falls with the coefficients of features
    widths: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # numbers of each kind of context

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        for name in ("sizes", "widths"):
            of_kind = getattr(self, name)
            sound = of_kind.ndim == 1 and of_kind.dtype == np.int64 and bool((of_kind > 0).all())
            require(sound, self, name, "must be numbers of groups, or of columns")
        K, J = int(self.sizes.sum() + self.widths.sum()), self.sizes.size + self.widths.size
        require(J > 0, self, "sizes", "must be numbers of groups")
        sizes = check_arrays(self, {"K": K, "J": J}, mean="C K", variances="J")
        check_arrays(self, sizes, covariance="C K K")
        if self.response is not None:
            check_arrays(self, sizes, response="C K F")
        check_positive(self, "variances")
        check_arrays(self, {"L": self.sizes.size + int(self.widths.sum())}, level="n L")

    def moments(self, chain: IntArray, level: Array, fall: Array) -> tuple[Array, Array]:
        """Return what groups add to means and variances of chains; x falls with c by `fall`, shape (n, K)."""
        Z = design_of(level, self.sizes)
        B, (_, known) = Z - fall, columns_of(level, self.sizes)
        variance = (multiply(B, self.covariance, chain) * B).sum(axis=1)
        n_kinds = self.sizes.size
        unseen = (~known & (level[:, :n_kinds] != LEFT_OUT)) @ self.variances[:n_kinds]
        return (Z * self.mean[chain]).sum(axis=1), variance + unseen

    def unseen(self, level: Array) -> Array:
        """Return the variances of chains without nodes in groups and context, shape (n,)."""
        n_kinds = self.sizes.size
        of_numbers = level[:, n_kinds:] ** 2 @ np.repeat(self.variances[n_kinds:], self.widths)
        return np.asarray((level[:, :n_kinds] != LEFT_OUT) @ self.variances[:n_kinds] + of_numbers)

    def left_out(self, n: int) -> Array:
        """Return levels of no groups, at the average of all numbers, shape (n, n_kinds + n_numbers)."""
        return np.hstack([np.full((n, self.sizes.size), float(LEFT_OUT)), np.zeros((n, int(self.widths.sum())))])

    def responses(self, chain: IntArray, level: Array) -> Array:
        """Return by how much the differences of chains in groups fall with the coefficients of features, (n, F)."""
        assert self.response is not None  # noqa: S101 - type narrowing
        return multiply(design_of(level, self.sizes), self.response, chain)

    def seen(self, level: Array) -> Array:
        """Return levels, `LEFT_OUT` for groups that the fit did not see."""
        known, n_kinds = columns_of(level, self.sizes)[1], self.sizes.size
        return np.hstack([np.where(known, level[:, :n_kinds], LEFT_OUT), level[:, n_kinds:]])

    def whole(self, chain: IntArray, D: Array, rest: Array) -> Array:
        """Return what rows say of the nodes' values, groups included; `rest` leaves groups out, shape (n, F)."""
        c = self.mean[..., None] if self.response is None else np.dstack([self.mean, self.response])
        return rest + D[:, None] * multiply(design_of(self.level, self.sizes), c, chain)

    def again(
        self, chain: IntArray, level: Array, place: IntArray, D: Array, r: Array, solve: Callable[[Array], Array]
    ) -> tuple[Array, GroupDifferences]:
        """Return what rows say of x (n, F), and c, given all D and linear terms r; `place` is the node of a level."""
        of_node = np.empty((chain.size, level.shape[1]))
        of_node[place] = level
        levels = Levels(chain, of_node, self.sizes, int(chain.max()) + 1, self.widths)
        found = Differences(levels, self.variances, D, solve)
        c = found.mean(r, solve(r))
        response = None if self.response is None else c[..., 1:].copy()
        parts = c[..., 0].copy(), found.covariance, of_node, self.sizes, self.variances, response, self.widths
        return found.rest(r, c), GroupDifferences(*parts)
