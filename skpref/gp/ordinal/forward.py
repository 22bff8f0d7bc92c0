"""A start of the search for many linear features: they are added one at a time, the most informative first.

With more features than rows the evidence has many maxima, and a search from equal weight variances ends among features
that explain the labels only together. Adding one feature of weight variance a to a model with covariance C = K + S of
its pseudo-observations t changes the log evidence by

    (q^2 / (1/a + s) - log(1 + a s)) / 2,    s = x^T C^-1 x,  q = x^T C^-1 t,

which is largest at a = (q^2 - s) / s^2 where q^2 > s, and is then (q^2/s - 1 - log(q^2/s)) / 2 ([TF03] section 3; t and
S are the sites of EP or Laplace).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from skpref import kernels
from skpref.gp.ordinal.families import with_absent_levels
from skpref.gp.ordinal.hyperparameters import HyperparameterSpace, LogPosterior, search
from skpref.gp.ordinal.policy import POLICY

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.gp.ordinal.evidence import ExactEvidence
    from skpref.inference.exact import ExactPosterior
    from skpref.likelihoods import OrdinalProbit


def has_many_weights(kernel: Kernel | None, n_rows: int) -> bool:
    """Tell whether the kernel is linear with more weight variances to learn than there are rows."""
    return isinstance(kernel, kernels.Linear) and kernel.anisotropic and kernel.theta.size > n_rows


def add_features(evidence: ExactEvidence, kernel: Kernel, likelihood: OrdinalProbit) -> tuple[Kernel, OrdinalProbit]:
    """Return a linear kernel with variances at their lower bounds, except for informative features."""
    data, bounds = evidence.data, kernel.bounds
    low, high = np.exp(bounds.T)
    variance, chosen = low.copy(), np.zeros(0, dtype=np.int64)
    _, q = evidence.infer(kernel.clone_with_theta(bounds[:, 0]), likelihood)
    for _ in range(POLICY.most_added):
        gain, best_variance = _gains(data.X, q)
        gain[chosen] = 0.0
        best = int(np.argmax(gain))
        if gain[best] < POLICY.least_gain:
            break
        chosen = np.append(chosen, best)
        variance[best] = np.clip(best_variance[best], low[best], high[best])
        few = replace(evidence, data=replace(data, X=data.X[:, chosen]), last=None)
        space = HyperparameterSpace(kernels.Linear(variance[chosen], np.exp(bounds[chosen])), likelihood)
        part, likelihood, _ = search(LogPosterior(few, with_absent_levels(space, data.y)))
        assert part is not None  # noqa: S101 - the space has a kernel
        variance[chosen] = np.exp(part.theta)
        _, q = few.infer(part, likelihood)
    return kernel.clone_with_theta(np.log(variance)), likelihood


def _gains(X: Features, q: ExactPosterior) -> tuple[Array, Array]:
    """Return each feature's gain of log evidence, and the weight variance for it, shape (d,) each."""
    root = solve_triangular(q.chol, np.diag(q.root_w), lower=True)
    ones = kernels.Linear(np.ones(X.shape[1]))  # its gradient in the log variances is x^T G x for each feature
    s = kernels.gram_vjp(ones, X, root.T @ root)
    ratio = kernels.gram_vjp(ones, X, np.outer(q.alpha, q.alpha)) / np.maximum(s, np.finfo(float).tiny)
    over = np.maximum(ratio, 1.0)
    return (over - 1.0 - np.log(over)) / 2.0, (over - 1.0) / np.maximum(s, np.finfo(float).tiny)
