"""A Gaussian process at its n inputs: what the Laplace approximation and expectation propagation share.

Both replace log p(y_i | f_i) by a Gaussian site nu_i f_i - tau_i f_i^2 / 2 with tau_i >= 0, so that with T = diag(tau)
the posterior is N(m, S), S = (K^-1 + T)^-1, m = S nu. K is never inverted: everything follows from the Cholesky factor
of B = I + T^1/2 K T^1/2, whose eigenvalues are at least 1 ([RW06] section 3.4.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dpotri

from skpref._math.linalg import (
    cholesky_precision,
    inverse_lower,
    log_det,
    product,
    solve_lower,
    solve_lower_t,
    symmetric_product,
)
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from skpref._typing import Array

# Sites with tau_i K_ii below this leave S_ii to K itself: (1 - (B^-1)_ii)/tau_i would lose that many digits.
_WEAK = 1e-3


@dataclass(frozen=True, eq=False)
class Conjugate:
    """The Gaussian that is conjugate to given sites.

    Parameters
    ----------
    alpha : ndarray of shape (n,)
        K^-1 m = nu - T m.
    mean : ndarray of shape (n,)
        Posterior mean m.
    variance : ndarray of shape (n,)
        Diagonal of S.
    retained : ndarray of shape (n,)
        Diagonal of B^-1 = 1 - T^1/2 S T^1/2: the part of a posterior precision that is not the site's own.
    root_w : ndarray of shape (n,)
        T^1/2.
    chol : ndarray of shape (n, n)
        Lower Cholesky factor of B.
    """

    alpha: Array
    mean: Array
    variance: Array
    retained: Array
    root_w: Array
    chol: Array


@dataclass(frozen=True, eq=False)
class ExactPosterior:
    """Posterior of f at n inputs, by Laplace or by expectation propagation.

    Parameters
    ----------
    alpha : ndarray of shape (n,)
        K^-1 times the posterior mean.
    root_w : ndarray of shape (n,)
        Square roots of the site precisions.
    chol : ndarray of shape (n, n)
        Lower Cholesky factor of B = I + W^1/2 K W^1/2.
    log_evidence : float
        Log evidence, in nats.
    mean, variance : ndarray of shape (n,)
        Posterior moments of f at the inputs.
    retained : ndarray of shape (n,)
        1 - tau_i variance_i, the part of the posterior precision that is not the site's own.
    tau, nu : ndarray of shape (n,)
        The sites, nu_i f_i - tau_i f_i^2 / 2, all observations of a weight together.
    weight : ndarray of shape (n,)
        Observation weights.
    n_iter : int
        Iterations.
    converged : bool
        Whether the tolerance was met.
    n_skipped : int, default=0
        Site updates that expectation propagation left out.
    """

    alpha: Array
    root_w: Array
    chol: Array
    log_evidence: float
    mean: Array
    variance: Array
    retained: Array
    tau: Array
    nu: Array
    weight: Array
    n_iter: int
    converged: bool
    n_skipped: int = 0

    def predict(self, K_star: Array, k_star_diag: Array) -> tuple[Array, Array]:
        """Return the posterior mean and variance of f at new inputs.

        Parameters
        ----------
        K_star : ndarray of shape (m, n)
            Prior covariance of the new inputs with the old.
        k_star_diag : ndarray of shape (m,)
            Prior variance at the new inputs.

        Returns
        -------
        mean : ndarray of shape (m,)
            K_star alpha.
        variance : ndarray of shape (m,)
            At least 0.
        """
        if 0 in K_star.shape:
            return np.zeros(K_star.shape[0]), np.array(k_star_diag, dtype=np.float64)
        half = solve_lower(self.chol, (K_star * self.root_w).T, overwrite_b=True)
        mean = product(K_star, self.alpha[:, None])[:, 0]
        return mean, np.maximum(k_star_diag - np.einsum("ij,ij->j", half, half), 0.0)


def check_problem(K: Array, y: Array, weight: Array) -> None:
    """Check the shapes and the weights of a problem.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Prior covariance.
    y, weight : ndarray of shape (n,)
        Observations and their weights.

    Raises
    ------
    DataError
        Unless the shapes agree and the weights are finite and at least 0.
    """
    n = y.shape[0]
    if K.shape != (n, n) or weight.shape != (n,):
        raise DataError(
            f"K must have shape ({n}, {n}) and weight shape ({n},) for {n} observations; got {K.shape}, {weight.shape}"
        )
    if not np.all(np.isfinite(weight) & (weight >= 0.0)):
        raise DataError("weight must be finite and at least 0; got negative numbers, NaN or inf")


def factor(K: Array, tau: Array) -> tuple[Array, Array]:
    """Return T^1/2 and the lower Cholesky factor of B.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Prior covariance.
    tau : ndarray of shape (n,)
        Site precisions, at least 0.

    Returns
    -------
    root_w : ndarray of shape (n,)
        T^1/2.
    chol : ndarray of shape (n, n)
        Lower Cholesky factor of B = I + T^1/2 K T^1/2.
    """
    root = np.sqrt(tau)
    B = K * root
    B *= root[:, None]
    B.flat[:: B.shape[0] + 1] += 1.0
    return root, cholesky_precision(B)


def solve_sites(K: Array, tau: Array, nu: Array, root: Array, chol: Array) -> tuple[Array, Array]:
    """Return alpha = K^-1 m and m for the posterior mean m = S nu.

    alpha = nu - T^1/2 B^-1 T^1/2 K nu loses digits to cancellation where tau_i is large. There nu_i enters as
    T^1/2 B^-1 T^-1/2 nu instead, which is the same.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Prior covariance.
    tau, nu : ndarray of shape (n,)
        Sites.
    root : ndarray of shape (n,)
        T^1/2.
    chol : ndarray of shape (n, n)
        From `factor`.

    Returns
    -------
    alpha : ndarray of shape (n,)
        K^-1 m.
    mean : ndarray of shape (n,)
        K alpha.
    """
    strong = tau * np.diagonal(K) > _WEAK
    right = np.divide(nu, root, out=np.zeros_like(nu), where=strong)
    weak = np.where(strong, 0.0, nu)
    if np.any(weak):
        right -= root * symmetric_product(K, weak)
    alpha = weak + root * solve_lower_t(chol, solve_lower(chol, right))
    return alpha, symmetric_product(K, alpha)


def marginals(K: Array, tau: Array, root: Array, chol: Array) -> tuple[Array, Array]:
    """Return the diagonals of S and of B^-1.

    S_ii = (1 - (B^-1)_ii)/tau_i takes a triangular inverse, n^3 / 3 flops, where L^-1 T^1/2 K takes n^3. A site too
    weak for that has a column of its own, S_ii = K_ii - |L^-1 T^1/2 K_i|^2.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Prior covariance.
    tau : ndarray of shape (n,)
        Site precisions.
    root : ndarray of shape (n,)
        T^1/2.
    chol : ndarray of shape (n, n)
        From `factor`.

    Returns
    -------
    variance : ndarray of shape (n,)
        Diagonal of S.
    retained : ndarray of shape (n,)
        Diagonal of B^-1.
    """
    diagonal = np.diagonal(K)
    if not np.any(tau):
        return diagonal.copy(), np.ones_like(tau)
    inverse = inverse_lower(chol)
    retained = np.einsum("ij,ij->j", inverse, inverse)
    strong = tau * diagonal > _WEAK
    variance = np.divide(1.0 - retained, tau, out=np.zeros_like(tau), where=strong)
    weak = np.flatnonzero(~strong)
    if weak.size:
        half = solve_lower(chol, root[:, None] * K[:, weak], overwrite_b=True)
        variance[weak] = np.maximum(diagonal[weak] - np.einsum("ij,ij->j", half, half), 0.0)
        retained[weak] = 1.0 - tau[weak] * variance[weak]
    return variance, retained


def conjugate(K: Array, tau: Array, nu: Array) -> Conjugate:
    """Return the posterior that is conjugate to the sites: a Cholesky factor and a triangular inverse.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Prior covariance.
    tau, nu : ndarray of shape (n,)
        Sites.

    Returns
    -------
    Conjugate
        The posterior.
    """
    root, chol = factor(K, tau)
    return Conjugate(*solve_sites(K, tau, nu, root, chol), *marginals(K, tau, root, chol), root, chol)


def explicit_gradient(posterior: ExactPosterior) -> Array:
    """Return the gradient in K of log Z at fixed sites, (alpha alpha^T - (K + T^-1)^-1)/2.

    Parameters
    ----------
    posterior : ExactPosterior
        A posterior.

    Returns
    -------
    ndarray of shape (n, n)
        Symmetric.
    """
    adjoint = inverse_spd(posterior.chol)
    adjoint *= -0.5 * posterior.root_w
    adjoint *= posterior.root_w[:, None]
    half = 0.5 * posterior.alpha
    adjoint += half[:, None] * posterior.alpha
    return adjoint


def inverse_spd(L: Array) -> Array:
    """Return (L L^T)^-1 from a Cholesky factor.

    Parameters
    ----------
    L : ndarray of shape (n, n)
        Lower Cholesky factor.

    Returns
    -------
    ndarray of shape (n, n)
        Symmetric.
    """
    if not L.size:
        return np.zeros((0, 0))
    lower = bool(L.flags.f_contiguous)
    half: Array
    half, _ = dpotri(L if lower else L.T, lower=lower)
    full = np.tril(half) if lower else np.triu(half)
    diagonal = np.diagonal(full).copy()
    full = full + full.T
    np.fill_diagonal(full, diagonal)
    return full


def log_normaliser(state: Conjugate, nu: Array) -> float:
    """Return log of the integral of N(f; 0, K) times the sites, -log|B|/2 + nu^T m/2.

    Parameters
    ----------
    state : Conjugate
        The posterior of the sites.
    nu : ndarray of shape (n,)
        Their linear parameters.

    Returns
    -------
    float
        In nats.
    """
    return 0.5 * float(nu @ state.mean) - 0.5 * log_det(state.chol)
