"""Cholesky factors and triangular solves, directly by LAPACK and BLAS.

Every factor here is lower triangular with zeros above the diagonal, in the memory order of the matrix. Nothing is
checked for NaN or shape beyond what LAPACK itself needs: the callers are the inner loops of this package.

This is the only place where a jitter is added to a matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.blas import dgemm, dsymv, dtrmm, dtrsm
from scipy.linalg.lapack import dpotrf, dtrtri

from skpref.exceptions import SkprefError

if TYPE_CHECKING:
    from skpref._typing import Array

__all__ = [
    "NotPositiveDefiniteError",
    "cholesky",
    "cholesky_precision",
    "cholesky_vjp",
    "congruent",
    "inverse_lower",
    "log_det",
    "product",
    "solve_lower",
    "solve_lower_t",
    "times_lower_t",
]

# Jitter in units of the mean diagonal; the first rung is "none".
_LADDER = (0.0, 1e-10, 1e-8, 1e-6, 1e-4)
# Without jitter the smallest pivot must exceed this (in the same unit): below it the factor's last columns are
# rounding errors of K, and everything solved with them is noise.
_SMALLEST_PIVOT = 1e-10


class NotPositiveDefiniteError(SkprefError, np.linalg.LinAlgError):
    """A matrix has no Cholesky factor, even with the largest jitter of the ladder."""


def cholesky(K: Array) -> Array:
    """Return the lower Cholesky factor of a covariance matrix, with the smallest jitter that works, shape (M, M).

    The jitter climbs a ladder of 0, 1e-10, 1e-8, 1e-6 and 1e-4 times the mean of the diagonal and stops at the first
    rung whose smallest pivot is sound: above 1e-10 (no jitter) or above half of the jitter, times the mean diagonal.

    docs/maths section 2. The jitter is relative, so scaling K scales the factor: chol(c K) = sqrt(c) chol(K).
    """
    if K.shape[0] == 0:
        return np.zeros((0, 0), order="F")
    unit = float(np.mean(np.diagonal(K)))
    for jitter in _LADDER:
        L = _potrf(K, jitter * unit)
        if L is not None and np.diagonal(L).min() ** 2 > (0.5 * jitter or _SMALLEST_PIVOT) * unit:
            return L
    raise NotPositiveDefiniteError(_advice(K, unit))


def cholesky_precision(K: Array) -> Array:
    """Return the lower Cholesky factor of a precision matrix, with jitter only if LAPACK fails, shape (M, M).

    A precision's small pivots are information (directions that the data leave to the prior), unlike a kernel matrix's,
    so `cholesky`'s test of the smallest pivot does not apply: jitter is added only if the factorisation fails.
    """
    L = _potrf(K, 0.0)
    return cholesky(K) if L is None or not np.isfinite(L.trace()) else L


def _potrf(K: Array, jitter: float) -> Array | None:
    """Factor K + jitter I; None if it is not positive definite."""
    # A C-contiguous K is handed over transposed (no copy in the wrong order): its lower triangle is then the upper one.
    fortran = bool(K.flags.f_contiguous)
    A = np.array(K if fortran else K.T, order="F", dtype=np.float64)
    if jitter > 0.0:
        A.flat[:: A.shape[0] + 1] += jitter
    factor: Array
    factor, info = dpotrf(A, lower=fortran, clean=1, overwrite_a=1)
    if info != 0:
        return None
    return factor if fortran else factor.T


def _advice(K: Array, unit: float) -> str:
    shape = f"{K.shape[0]} x {K.shape[1]}"
    if not np.isfinite(K).all():
        return (
            f"K: got a {shape} matrix with NaN or inf, wanted finite numbers; check the features and the kernel's "
            "hyper-parameters for overflow"
        )
    return (
        f"K: got a {shape} matrix (mean diagonal {unit:.3g}) that is not positive definite even with a jitter of "
        f"{_LADDER[-1]:g} times its mean diagonal, wanted a covariance matrix; scale the features, shorten the "
        "length-scales or add a WhiteKernel"
    )


def _triangle(L: Array) -> tuple[Array, int]:
    """Return a view of L in Fortran order for BLAS, and whether that view is lower triangular."""
    return (L, 1) if L.flags.f_contiguous else (L.T, 0)


def _trsm(L: Array, B: Array, *, transposed: bool, overwrite_b: bool) -> Array:
    """Solve op(L) X = B for B of shape (M,) or (M, n), in the memory order of B."""
    a, lower = _triangle(L)
    trans = int(transposed == bool(lower))
    X: Array
    if B.ndim == 1:
        X = dtrsm(1.0, a, B[:, None], lower=lower, trans_a=trans, overwrite_b=overwrite_b)
        return X[:, 0]
    if B.flags.f_contiguous:
        X = dtrsm(1.0, a, B, lower=lower, trans_a=trans, overwrite_b=overwrite_b)
        return X
    # X^T op(L)^T = B^T, and B^T is in Fortran order without a copy.
    X = dtrsm(1.0, a, B.T, side=1, lower=lower, trans_a=1 - trans, overwrite_b=overwrite_b)
    return X.T


def product(A: Array, B: Array) -> Array:
    """Return A B, by scipy's BLAS as the factorisations are (see `skpref._math.threads`), shape (n, m)."""
    if 0 in A.shape or 0 in B.shape:  # BLAS refuses empty matrices
        return np.zeros((A.shape[0], B.shape[1]))
    # (A B)^T = B^T A^T in Fortran order is A B in C order; factors are handed over without a copy in either order.
    left, transpose_left = (B, 1) if B.flags.f_contiguous else (B.T, 0)
    right, transpose_right = (A, 1) if A.flags.f_contiguous else (A.T, 0)
    return np.asarray(dgemm(1.0, left, right, trans_a=transpose_left, trans_b=transpose_right)).T


def symmetric_product(A: Array, x: Array) -> Array:
    """Return A x for a symmetric A, shape (M,)."""
    if not x.size:
        return np.zeros(0)
    a, lower = _triangle(A)
    return np.asarray(dsymv(1.0, a, x, lower=lower))


def times_lower_t(A: Array, L: Array) -> Array:
    """Return A L^T for a lower triangular L: half the flops of a full product, several times as fast as a solve."""
    if 0 in A.shape:
        return np.zeros(A.shape)
    a, lower = _triangle(L)
    return np.asarray(dtrmm(1.0, a, A.T, lower=lower, trans_a=1 - lower)).T


def congruent(A: Array, L: Array) -> Array:
    """Return L^T A L for a lower triangular L, at half the flops of two full products, shape (M, M)."""
    if 0 in A.shape:
        return np.zeros(A.shape)
    a, lower = _triangle(L)
    # A in C order is its own transpose in Fortran order, so nothing is copied but the first result.
    half = dtrmm(1.0, a, A.T if A.flags.c_contiguous else A, lower=lower, trans_a=lower)
    full = dtrmm(1.0, a, half, side=1, lower=lower, trans_a=1 - lower, overwrite_b=1)
    return np.asarray(0.5 * (full + full.T))


def solve_lower(L: Array, B: Array, *, overwrite_b: bool = False) -> Array:
    """Return L^-1 B."""
    return _trsm(L, B, transposed=False, overwrite_b=overwrite_b)


def solve_lower_t(L: Array, B: Array, *, overwrite_b: bool = False) -> Array:
    """Return L^-T B."""
    return _trsm(L, B, transposed=True, overwrite_b=overwrite_b)


def inverse_lower(L: Array) -> Array:
    """Return L^-1, with zeros above the diagonal, shape (M, M)."""
    if L.shape[0] == 0:
        return np.zeros_like(L)
    a, lower = _triangle(L)
    inverse: Array
    inverse, _ = dtrtri(a, lower=lower)
    return inverse if lower else inverse.T


def log_det(L: Array) -> float:
    """Return log |L L^T| = 2 sum log diag L."""
    return 2.0 * float(np.sum(np.log(np.diagonal(L))))


def cholesky_vjp(L: Array, Lbar: Array) -> Array:
    """Pull a gradient back through the Cholesky factorisation K = L L^T, shape (M, M).

    With P = tril(L^T Lbar), its diagonal halved, Kbar = L^-T (P + P^T) L^-1 / 2. It follows from
    dL = L tril(L^-1 dK L^-T), the diagonal halved, by moving every factor to the other side of <Lbar, dL>.

    The jitter of `cholesky` moves with the mean diagonal of K; that path, at most 1e-4 of the gradient, is left out.
    """
    if L.shape[0] == 0:
        return np.zeros((0, 0))
    a, lower = _triangle(L)
    P = np.tril(dtrmm(1.0, a, np.tril(Lbar), lower=lower, trans_a=lower))
    P.flat[:: P.shape[0] + 1] *= 0.5
    P += P.T
    half = dtrsm(0.5, a, np.asfortranarray(P), lower=lower, trans_a=lower, overwrite_b=1)
    Kbar = dtrsm(1.0, a, half, side=1, lower=lower, trans_a=1 - lower, overwrite_b=1)
    return np.asarray(0.5 * (Kbar + Kbar.T))
