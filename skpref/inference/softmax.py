"""The mode of one Gaussian process per class under the softmax, all with the same kernel and inducing points."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skpref._math.linalg import cholesky_precision, inverse_lower, product, solve_lower, solve_lower_t
from skpref.inference import hyper
from skpref.inference.policy import POLICY
from skpref.likelihoods import Softmax

if TYPE_CHECKING:
    from collections.abc import Callable

    from skpref._typing import Array
    from skpref.inference.terms.base import RowTerm


class Mode(NamedTuple):
    """The mode of the posterior of whitened inducing variables."""

    mean: Array  # (M, K): the mode
    value: float  # log joint density there, in nats, up to a constant
    n_iter: int  # iterations of the search
    converged: bool  # whether it met its tolerance
    cut_short: bool  # as in `Optimum`


def log_joint(rows: Array, counts: Array, mean: Array) -> tuple[float, Array]:
    """Return sum_ic counts_ic log p(c | mean^T phi_i) - |mean|^2 / 2 with its gradient in `mean`, shape (M, K)."""
    log_p = Softmax().log_prob(product(rows, mean))
    value = float(np.vdot(counts, log_p)) - 0.5 * float(np.vdot(mean, mean))
    residual = counts - counts.sum(axis=1, keepdims=True) * np.exp(log_p)
    return value, product(rows.T, residual) - mean


def softmax_mode(
    term: RowTerm,
    counts: Array,
    start: Array | None,
    max_iter: int,
    tol: float,
    *,
    on_value: Callable[[float], object] | None = None,
) -> Mode:
    """Maximise `log_joint` by L-BFGS in the metric of rows of constant curvature; `counts` has shape (n, K)."""
    weight = counts.sum(axis=1)
    precision = term.gram(POLICY.curvature * weight)
    precision[np.diag_indices_from(precision)] += 1.0
    chol, total = cholesky_precision(precision), float(weight.sum())
    shape = (precision.shape[0], counts.shape[1])
    mean = np.zeros(shape) if start is None else start

    def objective(theta: Array) -> tuple[float, Array]:
        value, gradient = log_joint(term.rows, counts, solve_lower_t(chol, theta.reshape(shape)))
        if on_value is not None:
            on_value(value / total)
        return value / total, solve_lower(chol, gradient).ravel() / total

    first = np.ravel(product(chol.T, mean))
    best = hyper.maximise(objective, first, np.tile([-np.inf, np.inf], (first.size, 1)), max_iter=max_iter, tol=tol)
    mean = solve_lower_t(chol, best.theta.reshape(shape))
    return Mode(mean, best.value * total, best.n_iter, best.converged, best.cut_short)


def softmax_covariance(term: RowTerm, counts: Array, mean: Array) -> Array:
    """Return L^-1 of a Laplace precision L L^T that all classes share, shape (M, M).

    The curvature of a row is 2 sum_c p_c^2 (1 - p_c): where two classes are in question, twice the variance is that of
    the difference of their functions.
    """
    p = Softmax().predict(product(term.rows, mean))
    precision = term.gram(counts.sum(axis=1) * 2.0 * np.sum(p * p * (1.0 - p), axis=1))
    precision[np.diag_indices_from(precision)] += 1.0
    return np.ascontiguousarray(inverse_lower(cholesky_precision(precision)))
