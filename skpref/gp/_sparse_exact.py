"""The evidence of a few rows themselves, without inducing points: what a search may begin with.

A few inducing points can make noise of all that the rows say: on ``pumadyn32nm`` (1,000 rows, 32 features) the bound of
300 points has its optimum at noise alone, where the rows themselves see two features that explain 96 % of the variance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from skpref import kernels
from skpref._math.linalg import cholesky_precision, log_det, solve_lower, solve_lower_t
from skpref.inference.exact import inverse_spd

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array
    from skpref.gp._sparse_collapsed import GaussianRows

_LOG_TWO_PI: Final = float(np.log(2.0 * np.pi))


def evidence(rows: GaussianRows, kernel: Kernel, noise: float) -> tuple[float, Array, float]:
    """Return the log evidence, its gradient in the kernel's theta and that in the log of the noise variance.

    With C = K + noise / w on the diagonal, it is log N(y; 0, C) plus what copies of a row say of the noise alone:
    a row that stands for w of them has (w - 1) deviations from its mean.

    Parameters
    ----------
    rows : GaussianRows
        Rows and targets.
    kernel : Kernel
        Covariance function.
    noise : float
        Variance of the noise.

    Returns
    -------
    value : float
        In nats.
    theta : ndarray of shape (n_theta,)
        Gradient in the kernel's theta.
    log_noise : float
        Gradient in the log of the noise variance.
    """
    n, own = rows.n, noise / rows.weight
    moves = kernels.moves_points(kernel, rows.X)
    K, pull = kernels.cross_pullback(kernel, rows.X, rows.X) if moves else (kernels.gram(kernel, rows.X), None)
    C = K.copy()
    C.flat[:: n + 1] += own
    chol = cholesky_precision(C)
    alpha = solve_lower_t(chol, solve_lower(chol, rows.y))
    adjoint = inverse_spd(chol)
    adjoint *= -0.5
    adjoint += (0.5 * alpha)[:, None] * alpha
    copies = float(rows.weight.sum()) - n
    value = -0.5 * (float(rows.y @ alpha) + log_det(chol) + n * _LOG_TWO_PI + float(np.sum(np.log(rows.weight))))
    value -= 0.5 * (copies * (_LOG_TWO_PI + np.log(noise)) + rows.scatter / noise)
    log_noise = float(np.diagonal(adjoint) @ own) - 0.5 * (copies - rows.scatter / noise)
    theta = kernels.gram_vjp(kernel, rows.X, adjoint) if pull is None else pull(np.ascontiguousarray(adjoint))[0]
    return float(value), theta, log_noise
