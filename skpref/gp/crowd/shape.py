"""The shape of the covariance of tastes: which items, or which effects of attributes, are alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from sklearn.base import clone

from skpref.data.comparisons import sizes_of, starts_of
from skpref.gp.crowd.hierarchy import fit_hierarchy, start_state
from skpref.gp.crowd.policy import POLICY
from skpref.gp.default_kernels import linear_kernel
from skpref.gp.pairwise.fit import typical_size
from skpref.inference.basis import InducingBasis

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.data import Comparisons
    from skpref.gp.crowd.hierarchy import Hierarchy, HierarchyFit, HierarchyState
    from skpref.gp.crowd.model import CrowdConfig, CrowdData, Kernels
    from skpref.gp.pairwise.fit import PairModel
    from skpref.inference.scale import Scale


@dataclass(frozen=True, eq=False)
class Shape:
    """A covariance of the items of unit scale, (1 - share) K + share I, and how other items follow from it."""

    matrix: Array  # (n, n); with an order effect, the left side is one more item
    basis: InducingBasis | None
    rows: Array  # (M, n): covariance of inducing values and items
    share: float

    @classmethod
    def from_attributes(cls, basis: InducingBasis, *, order: bool) -> Shape:
        """Return independent effects of attributes, from which the items follow."""
        n = basis.chol.shape[0]
        return cls(np.eye(n + order), basis, np.eye(n, n + order), 0.0)

    @classmethod
    def from_basis(cls, basis: InducingBasis | None, X: Features, n_items: int, share: float, *, order: bool) -> Shape:
        """Return the covariance of items with features X, or of independent items without a basis."""
        matrix, rows = np.eye(n_items + order), np.zeros((0, n_items + order))
        if basis is None:
            return cls(matrix, None, rows, 1.0)
        phi = basis.rows(X)
        matrix[:n_items, :n_items] = (1.0 - share) * (phi @ phi.T)  # exactly symmetric, in this order
        unexplained = (1.0 - share) * basis.residual(X, phi) + share
        matrix[np.arange(n_items), np.arange(n_items)] += unexplained
        rows = np.zeros((phi.shape[1], n_items + order))
        rows[:, :n_items] = (1.0 - share) * phi.T
        return cls(matrix, basis, rows, share)


def attribute_variances(X: Features, c: Comparisons) -> Array:
    """Return the variances of effects of attributes in units of the typical size of their differences in choices."""
    starts = starts_of(np.asarray(c.stage))
    weight = c.weight / np.repeat(sizes_of(starts), np.diff(starts))
    rows = X.toarray() if sparse.issparse(X) else X
    sizes = [typical_size(column[c.left] - column[c.right], weight) for column in rows.T]  # one fills much memory
    return 1.0 / np.array(sizes) ** 2


def fit_to_choose(model: Hierarchy, state: HierarchyState, tol: float = POLICY.choice_tol) -> HierarchyFit:
    """Return a fit that only chooses, or from which another starts."""
    return fit_hierarchy(model, state, max_iter=POLICY.choice_passes, tol=tol)


def choose_shape(
    model: Hierarchy,
    data: CrowdData,
    items: Kernel | None,
    given: Kernels,
    scales: dict[str, Scale],
    config: CrowdConfig,
    pair: PairModel,
) -> Shape:
    """Return the shape with the largest evidence of S = scale * shape; independent items are among them."""
    n, order = data.comparisons.n_items, config.pair.order
    best = Shape.from_basis(None, None, n, 1.0, order=order)
    if items is None or not config.n_factors:
        return best
    kernels = [given.factors] if given.factors is not None else [_stretched(items, by) for by in POLICY.length_factors]
    middle = len(kernels) // 2
    straight = linear_kernel(data.items) if given.items is None and given.factors is None else None
    kernels += [] if straight is None else [straight]
    bases = [InducingBasis.from_points(clone(kernel), pair.points) for kernel in kernels]
    shares = POLICY.own_shares
    candidates = [Shape.from_basis(basis, data.items, n, share, order=order) for basis in bases for share in shares]
    # Independent items keep a kernel, too, so that new items can be predicted.
    candidates.append(Shape.from_basis(bases[middle], data.items, n, 1.0, order=order))
    state, size, evidence = None, 1.0, []
    for shape in candidates:
        candidate = replace(model, shape=shape.matrix)
        first = start_state(candidate, scales, config.pair.likelihood, size)
        if state is not None:
            first = replace(state, S=first.S)
        fit = fit_to_choose(candidate, first)
        state, size = fit.state, candidate.item_scale(fit.state.S)
        evidence.append(fit.evidence)
    return candidates[int(np.argmax(np.nan_to_num(evidence, nan=-np.inf)))]


def _stretched(kernel: Kernel, factor: float) -> Kernel:
    """Return a kernel with its length-scales, if any, times a factor."""
    scale = getattr(kernel, "length_scale", None)
    return kernel if scale is None else clone(kernel).set_params(length_scale=np.asarray(scale) * factor)
