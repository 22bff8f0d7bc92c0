"""The Bayesian Gaussian process latent variable model: its collapsed bound, and inference of the input of a row.

Every column y_d (d = 1..D) of the data is a Gaussian process with noise of precision beta over unobserved inputs
x_n ~ N(0, I), with a squared exponential kernel of amplitude a and inverse squared length-scales w. With
q(x_n) = N(mu_n, diag s_n) and inducing variables u = f(Z) + noise, the best q(u_d) is Gaussian, and the bound on
log p(Y) is that of regression with the expectations Psi1 = E K_nm and Psi2 = E K_mn K_nm in place of the kernel's
values, less sum_n KL(q(x_n) || N(0, I)) ([TL10] eq. 14). With L L^T = K_mm, `collapse` gets A = L^-1 Psi2 L^-T and
C = L^-1 Psi1^T Y. Its value does not change when both are rotated, so any root of K_mm gives the gradient:

    dF/dPsi2 = L^-T A' L^-1,   dF/dPsi1 = Y (L^-T C')^T,   dF/dK_mm = -L^-T sym(A' A + C' C^T / 2) L^-1,

where A' and C' are the gradients in A and C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from skpref._checks import check_arrays, check_types, require
from skpref._compiled.psi import fit_rows, psi_first, psi_products, psi_statistics, psi_vjp
from skpref._math.linalg import cholesky, cholesky_precision, cholesky_vjp, inverse_lower
from skpref.inference.basis import chunks
from skpref.inference.collapsed import Collapsed, Moments, collapse
from skpref.inference.exact import inverse_spd

if TYPE_CHECKING:
    from skpref._typing import Array

# Variance of the inducing variables' own noise, in units of the amplitude. It is part of the model (any linear map of f
# may be an inducing variable), so F remains a bound. Without it Psi2 would be divided by eigenvalues of K_mm as small
# as its own rounding error.
_NUGGET: Final = 1e-6
_LARGEST_LOG: Final = 100.0  # size of the logarithm of a hyper-parameter in a file


class LatentHyper(NamedTuple):
    """Hyper-parameters and inducing inputs."""

    Z: Array  # (M, Q): inducing inputs
    log_w: Array  # (Q,): logarithms of the inverse squared length-scales
    log_a: float  # logarithm of the amplitude
    log_beta: float  # logarithm of the precision of the noise

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_arrays(self, Z="M Q", log_w="Q")
        check_types(self, log_a=float, log_beta=float)
        numbers = np.append(self.log_w, [self.log_a, self.log_beta])
        require((np.abs(numbers) < _LARGEST_LOG).all(), self, "log_w", f"must be logarithms below {_LARGEST_LOG}")


class Inputs(NamedTuple):
    """Posterior of the latent inputs: means and variances, each of shape (n, Q)."""

    mu: Array
    s: Array

    def divergence(self) -> float:
        """Return the sum of KL(q(x_n) || N(0, I))."""
        return 0.5 * float(np.sum(self.mu**2 + self.s - 1.0 - np.log(self.s)))


@dataclass(frozen=True, eq=False)
class LatentMapping:
    """Posterior of the functions from latent inputs to data."""

    hyper: LatentHyper  # kernel, noise and inducing inputs
    V: Array  # (M, D): mean weights: E f_d(x) = k(x, Z) V_d
    gap: Array  # (M, M): k_mm^-1 minus the covariance of the weights: var f_d(x) = a - k(x, Z) gap k(Z, x)

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, hyper=LatentHyper)
        check_arrays(self, {"M": self.hyper.Z.shape[0]}, V="M D", gap="M M")

    def mean(self, inputs: Inputs) -> Array:
        """Return the mean of f at uncertain inputs, shape (n, D)."""
        Z, log_w, log_a, _ = self.hyper
        return psi_first(*inputs, Z, np.exp(log_w), float(np.exp(log_a))) @ self.V

    def moments(self, inputs: Inputs) -> tuple[Array, Array]:
        """Return mean and variance of f at uncertain inputs, each of shape (n, D)."""
        Z, log_w, log_a, _ = self.hyper
        a, w = float(np.exp(log_a)), np.exp(log_w)
        mean = psi_first(*inputs, Z, w, a) @ self.V
        forms = np.concatenate([np.einsum("md,ld->dml", self.V, self.V), self.gap[None]])
        second = psi_products(*inputs, Z, w, a, forms)
        return mean, np.maximum(a - second[:, -1:] + second[:, :-1] - mean**2, 0.0)

    def infer(self, Y: Array, start: Inputs, max_iter: int, tol: float) -> tuple[Inputs, Array]:
        """Return independent q(x) of rows of data, and the bounds on their log densities, shape (n,)."""
        Z, log_w, log_a, log_beta = self.hyper
        a, beta, D = float(np.exp(log_a)), float(np.exp(log_beta)), Y.shape[1]
        W = 0.5 * beta * (D * self.gap - self.V @ self.V.T)
        mu, s, value = fit_rows(*start, Z, np.exp(log_w), a, beta * (Y @ self.V.T), W, max_iter=max_iter, tol=tol)
        constant = 0.5 * D * (log_beta - np.log(2.0 * np.pi)) - 0.5 * beta * (D * a + np.einsum("nd,nd->n", Y, Y))
        return Inputs(mu, s), value + constant


def kernel_matrix(hyper: LatentHyper) -> Array:
    """Return the covariance of the inducing variables, their own noise included, shape (M, M)."""
    scaled = hyper.Z * np.exp(0.5 * hyper.log_w)
    gram = scaled @ scaled.T
    square = np.diagonal(gram)
    distance = np.maximum(square[:, None] + square - 2.0 * gram, 0.0)
    np.fill_diagonal(distance, 0.0)
    K: Array = np.exp(hyper.log_a) * (np.exp(-0.5 * distance) + _NUGGET * np.eye(square.size))
    return K


def whitening(hyper: LatentHyper) -> tuple[Array, Array]:
    """Return the covariance K of the inducing variables and the inverse of its Cholesky factor, shape (M, M)."""
    K = kernel_matrix(hyper)
    return K, inverse_lower(cholesky(K))


def moments_of(Y: Array, inputs: Inputs, hyper: LatentHyper, root: Array) -> Moments:
    """Return the sums over the data, at uncertain inputs, that determine the collapsed bound."""
    a, w, M = float(np.exp(hyper.log_a)), np.exp(hyper.log_w), hyper.Z.shape[0]
    psi2, cross = np.zeros((M, M)), np.zeros((M, Y.shape[1]))
    for part in chunks(Y.shape[0]):
        psi1, of_part = psi_statistics(inputs.mu[part], inputs.s[part], hyper.Z, w, a)
        psi2 += of_part
        cross += psi1.T @ Y[part]
    A = root @ psi2 @ root.T
    return Moments(0.5 * (A + A.T), root @ cross, Y.shape[0] * a, float(np.sum(Y**2)), float(Y.shape[0]))


def mapping_at(hyper: LatentHyper, root: Array, best: Collapsed) -> LatentMapping:
    """Return the posterior of the functions from the posterior of the whitened inducing variables."""
    S = inverse_spd(cholesky_precision(best.precision))
    return LatentMapping(hyper, root.T @ best.mean, root.T @ (root - S @ root))


def mapping_of(Y: Array, inputs: Inputs, hyper: LatentHyper) -> tuple[LatentMapping, float]:
    """Return the optimal posterior of the functions, and the bound F."""
    root = whitening(hyper)[1]
    best = collapse(moments_of(Y, inputs, hyper, root), float(np.exp(hyper.log_beta)))
    return mapping_at(hyper, root, best), best.value - inputs.divergence()


def bound_and_gradient(Y: Array, inputs: Inputs, hyper: LatentHyper) -> tuple[float, Inputs, LatentHyper]:
    """Return the collapsed bound F and its gradient in inputs and hyper-parameters."""
    K, root = whitening(hyper)
    moments = moments_of(Y, inputs, hyper, root)
    best = collapse(moments, float(np.exp(hyper.log_beta)))
    in_inputs, in_hyper = gradients(Y, inputs, hyper, (K, root), moments, best)
    return best.value - inputs.divergence(), in_inputs, in_hyper


def gradients(
    Y: Array,
    inputs: Inputs,
    hyper: LatentHyper,
    whitened: tuple[Array, Array],
    moments: Moments,
    best: Collapsed,
    share: float = 1.0,
) -> tuple[Inputs, LatentHyper]:
    """Return the gradients of F; Y may be a part of the data if the moments estimate sums over all."""
    w, a, (K, root) = np.exp(hyper.log_w), float(np.exp(hyper.log_a)), whitened
    G1 = Y @ (root.T @ best.cross).T
    G2 = root.T @ best.gram @ root
    # At fixed q(u) of the whitened inducing variables, through the Cholesky factor of K_mm.
    inner = 2.0 * best.gram @ moments.gram + best.cross @ moments.cross.T
    GK = cholesky_vjp(cholesky(K), -root.T @ inner)
    gmu, gs, gZ, gw, glog_a = psi_vjp(*inputs, hyper.Z, w, a, np.ascontiguousarray(G1), 0.5 * (G2 + G2.T))
    gZ, gw, glog_a = gZ / share, gw / share, glog_a / share
    # Through K_mm: the gradient of its logarithm is -w (z - z') in z and -(z - z')^2 / 2 in w.
    P = GK * K
    glog_a += float(np.sum(P)) - 0.5 * Y.size / share * float(np.exp(hyper.log_beta)) * a
    np.fill_diagonal(P, 0.0)
    spread = P.sum(axis=1)
    gZ -= 2.0 * w * (spread[:, None] * hyper.Z - P @ hyper.Z)
    gw -= np.einsum("m,mq->q", spread, hyper.Z**2) - np.einsum("mq,mq->q", hyper.Z, P @ hyper.Z)
    inputs_gradient = Inputs(gmu - inputs.mu, gs - 0.5 * (1.0 - 1.0 / inputs.s))
    return inputs_gradient, LatentHyper(gZ, gw * w, glog_a, best.log_beta)
