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
    """The Gaussian that is conjugate to given sites."""

    alpha: Array  # (n,): K^-1 m = nu - T m
    mean: Array  # (n,): posterior mean m
    variance: Array  # (n,): diagonal of S
    # (n,): diagonal of B^-1 = 1 - T^1/2 S T^1/2: the part of a posterior precision that is not the site's own
    retained: Array
    root_w: Array  # (n,): T^1/2
    chol: Array  # (n, n): lower Cholesky factor of B


@dataclass(frozen=True, eq=False)
class ExactPosterior(Conjugate):
    """Posterior of f at n inputs, by Laplace or by expectation propagation."""

    tau: Array  # (n,): the sites, nu_i f_i - tau_i f_i^2 / 2, all observations of a weight together
    nu: Array  # (n,): the sites, nu_i f_i - tau_i f_i^2 / 2, all observations of a weight together
    weight: Array  # (n,): observation weights
    log_evidence: float  # log evidence, in nats
    n_iter: int  # iterations
    converged: bool  # whether the tolerance was met
    n_skipped: int = 0  # site updates that expectation propagation left out

    def predict(self, K_star: Array, k_star_diag: Array) -> tuple[Array, Array]:
        """Return the posterior mean and variance of f at new inputs."""
        if 0 in K_star.shape:
            return np.zeros(K_star.shape[0]), np.array(k_star_diag, dtype=np.float64)
        half = solve_lower(self.chol, (K_star * self.root_w).T, overwrite_b=True)
        mean = product(K_star, self.alpha[:, None])[:, 0]
        return mean, np.maximum(k_star_diag - np.einsum("ij,ij->j", half, half), 0.0)


def check_problem(K: Array, y: Array, weight: Array) -> None:
    """Check the shapes and the weights of a problem."""
    n = y.shape[0]
    if K.shape != (n, n) or weight.shape != (n,):
        raise DataError(
            f"K must have shape ({n}, {n}) and weight shape ({n},) for {n} observations; got {K.shape}, {weight.shape}"
        )
    if not np.all(np.isfinite(weight) & (weight >= 0.0)):
        raise DataError("weight must be finite and at least 0; got negative numbers, NaN or inf")


def factor(K: Array, tau: Array) -> tuple[Array, Array]:
    """Return T^1/2 and the lower Cholesky factor of B."""
    root = np.sqrt(tau)
    B = K * root
    B *= root[:, None]
    B.flat[:: B.shape[0] + 1] += 1.0
    return root, cholesky_precision(B)


def solve_sites(K: Array, tau: Array, nu: Array, root: Array, chol: Array) -> tuple[Array, Array]:
    """Return alpha = K^-1 m and m for the posterior mean m = S nu.

    alpha = nu - T^1/2 B^-1 T^1/2 K nu loses digits to cancellation where tau_i is large. There nu_i enters as
    T^1/2 B^-1 T^-1/2 nu instead, which is the same.
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
    """
    diagonal = np.diagonal(K)
    if not np.any(tau):
        return diagonal.copy(), np.ones_like(tau)
    inverse = inverse_lower(chol)
    retained = np.minimum(np.einsum("ij,ij->j", inverse, inverse), 1.0)  # more is rounding
    strong = tau * diagonal > _WEAK
    variance = np.divide(1.0 - retained, tau, out=np.zeros_like(tau), where=strong)
    weak = np.flatnonzero(~strong)
    if weak.size:
        half = solve_lower(chol, root[:, None] * K[:, weak], overwrite_b=True)
        variance[weak] = np.maximum(diagonal[weak] - np.einsum("ij,ij->j", half, half), 0.0)
        retained[weak] = 1.0 - tau[weak] * variance[weak]
    return variance, retained


def conjugate(K: Array, tau: Array, nu: Array) -> Conjugate:
    """Return the posterior that is conjugate to the sites: a Cholesky factor and a triangular inverse."""
    root, chol = factor(K, tau)
    return Conjugate(*solve_sites(K, tau, nu, root, chol), *marginals(K, tau, root, chol), root, chol)


def explicit_gradient(posterior: ExactPosterior) -> Array:
    """Return the gradient in K of log Z at fixed sites, (alpha alpha^T - (K + T^-1)^-1)/2, shape (n, n)."""
    adjoint = inverse_spd(posterior.chol)
    adjoint *= -0.5 * posterior.root_w
    adjoint *= posterior.root_w[:, None]
    half = 0.5 * posterior.alpha
    adjoint += half[:, None] * posterior.alpha
    return adjoint


def inverse_spd(L: Array) -> Array:
    """Return (L L^T)^-1 from a Cholesky factor, shape (n, n)."""
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
    """Return log of the integral of N(f; 0, K) times the sites, -log|B|/2 + nu^T m/2."""
    return 0.5 * float(nu @ state.mean) - 0.5 * log_det(state.chol)
