"""Relevance of each feature to a Gaussian-process prior, for any kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.gaussian_process.kernels import ConstantKernel, Product, Sum

from skpref import kernels
from skpref._math.linalg import solve_lower_t
from skpref.gp.default_kernels import standard_deviations

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.gp.posterior import SparseLatent

_WORK = 2e8  # rows times squared features up to which more rows are used: a second or two
_MIN_ROWS, _MAX_ROWS = 16, 1024


def features_share_scales(kernel: Kernel) -> bool:
    """Return whether a kernel's hyper-parameters of features keep the ratios that they had at the start of the search.

    Bounds are multiples of the starts.
    """
    sizes = [parameter.n_elements for parameter in kernel.hyperparameters if not parameter.fixed]
    parts = np.split(kernel.theta - kernel.bounds[:, 0], np.cumsum(sizes)[:-1]) if sizes else []
    return all(np.ptp(part) < 1e-6 for part in parts)  # difference of logs up to which ratios of scales are equal


def posterior_relevance(latent: SparseLatent) -> Array:
    """Return `prior_relevance`, to which a linear part adds its variances of f by its posterior slopes, shape (d,).

    The prior of a linear part of one variance tells all features alike.
    """
    kernel, Z = latent.basis.kernel, latent.basis.points
    part: Any = kernel.k2 if isinstance(kernel, Sum) else None
    if not (type(part) is Product and type(part.k1) is ConstantKernel and type(part.k2) is kernels.Linear):
        return prior_relevance(kernel, Z)
    alpha = solve_lower_t(latent.basis.chol, latent.mean).reshape(Z.shape[0], -1)
    origin = np.zeros(Z.shape[1]) if part.k2.origin is None else np.asarray(part.k2.origin)
    weight = part.k1.constant_value * np.broadcast_to(part.k2.variance, Z.shape[1])
    slopes = weight[:, None] * (np.asarray(Z.T @ alpha) - np.outer(origin, alpha.sum(axis=0)))
    return prior_relevance(kernel.k1, Z) + np.square(slopes).mean(axis=1) * standard_deviations(Z) ** 2


def prior_relevance(kernel: Kernel, X: Features) -> Array:
    """Return E[(f(x) - f(x'))^2]/2 under the prior, x' a row x with one feature taken from another row, shape (d,)."""
    if isinstance(kernel, kernels.Linear):
        return np.asarray(kernel.variance, dtype=np.float64) * standard_deviations(X) ** 2
    n, d = X.shape
    size = int(min(n, np.clip(_WORK / max(d, 1) ** 2, _MIN_ROWS, _MAX_ROWS)))
    sample = X[np.random.default_rng(0).permutation(n)[:size]]
    rows: Array = np.ascontiguousarray(sample.toarray() if sparse.issparse(sample) else sample)
    # Each row gets the feature of another row at random.
    partner = np.roll(rows, size // 2, axis=0)
    before = kernels.paired(kernel, rows, rows)
    out, changed = np.empty(d), rows.copy()
    for feature in range(d):
        changed[:, feature] = partner[:, feature]
        after = kernels.paired(kernel, changed, changed)
        out[feature] = np.mean(0.5 * (before + after) - kernels.paired(kernel, rows, changed))
        changed[:, feature] = rows[:, feature]
    return np.maximum(out, 0.0)
