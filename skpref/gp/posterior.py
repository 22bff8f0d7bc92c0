"""Frozen records of one latent function f: its posterior, at the rows or at inducing points, and a warm start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from skpref import kernels
from skpref._checks import check_arrays, check_diagonals, check_features, check_positive, check_types, require
from skpref._math.limits import BLOCK
from skpref._math.linalg import product, solve_lower
from skpref._math.threads import limit_blas_threads
from skpref.exceptions import DataError
from skpref.inference.basis import InducingBasis, chunks
from skpref.inference.blocks import DenseBlock
from skpref.inference.problem import State
from skpref.kernels.checks import check_kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.likelihoods import Likelihood


@dataclass(frozen=True, eq=False)
class ExactLatent:
    """Posterior of f given Gaussian sites at n rows: mean k^T alpha, variance k(x, x) - |L^-1 W^1/2 k|^2."""

    kernel: Kernel | None  # covariance function; None: callers of `latent` pass covariances instead of rows
    X: Features  # (n, d): training rows
    alpha: Array  # (n,): K^-1 times the posterior mean at the rows
    root_w: Array  # (n,): square roots of the site precisions
    chol: Array  # (n, n): lower Cholesky factor L of I + W^1/2 K W^1/2
    prior_variance: float = float("nan")  # k(x, x) where kernel is None, else NaN

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        n = check_arrays(self, alpha="n", root_w="n", chol="n n")["n"]
        check_positive(self, "root_w", zero=True)
        check_diagonals(self, "chol")
        if self.kernel is None:
            require(self.X is None, self, "X", "needs a kernel")
            check_positive(self, "prior_variance", zero=True)
        else:
            check_kernel(self, "kernel", self.kernel, check_features(self, "X", self.X, n))

    @np.errstate(over="ignore", invalid="ignore")
    def latent(self, X: Features, *, variance: bool = True) -> tuple[Array, Array]:
        """Return posterior means and variances of f at rows, each of shape (m,); without `variance` NaN for these."""
        n, m = self.alpha.shape[0], X.shape[0]
        mean, variances = np.empty(m), np.full(m, np.nan)
        with limit_blas_threads(n):
            for part in chunks(m, max(1, BLOCK // n)):
                k = X[part] if self.kernel is None else kernels.cross(self.kernel, X[part], self.X)
                mean[part] = product(k, self.alpha[:, None])[:, 0]
                if variance:
                    half = solve_lower(self.chol, (k * self.root_w).T, overwrite_b=True)
                    variances[part] = self._prior(X[part]) - np.einsum("ij,ij->j", half, half)
        _refuse_overflow(mean, variances if variance else mean)
        return mean, np.maximum(variances, 0.0)

    def _prior(self, X: Features) -> Array:
        """Return prior variances, shape (m,)."""
        if self.kernel is None:
            return np.full(X.shape[0], self.prior_variance)
        return kernels.diagonal(self.kernel, X)


def _refuse_overflow(*numbers: Array) -> None:
    if not all(np.isfinite(values).all() for values in numbers):
        raise DataError("X holds numbers whose squares overflow: scale the features as in fit.")


@dataclass(frozen=True, eq=False)
class SparseLatent:
    """Posterior of f(x) = phi(x)^T v + e(x): v at the inducing points, e the independent rest of the prior.

    Several functions with means of their own may share all the rest.
    """

    basis: InducingBasis  # kernel and inducing points
    mean: Array  # (M,) or (M, K): posterior mean of v, or one for each of K functions
    half: Array  # (M, M): L^-1 of its precision: the covariance is half^T half

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, basis=InducingBasis)
        mean = "M K" if np.ndim(self.mean) == 2 else "M"
        check_arrays(self, {"M": self.basis.chol.shape[0]}, mean=mean, half="M M")
        check_diagonals(self, "half")

    @np.errstate(over="ignore", invalid="ignore")
    def latent(self, X: Features, *, variance: bool = True) -> tuple[Array, Array]:
        """Return posterior means of f at rows, (m,) or (m, K), and variances (m,), NaN without `variance`."""
        mean, variances = np.empty((X.shape[0], *self.mean.shape[1:])), np.full(X.shape[0], np.nan)
        with limit_blas_threads(self.mean.shape[0]):
            for part in chunks(X.shape[0]):
                phi = self.basis.rows(X[part])
                mean[part] = phi @ self.mean
                if variance:
                    half = product(phi, self.half.T)
                    variances[part] = np.einsum("ij,ij->i", half, half) + self.basis.residual(X[part], phi)
        _refuse_overflow(mean, variances if variance else mean)
        return mean, variances

    def joint(self, X: Features) -> tuple[Array, Array]:
        """Return mean and covariance of the joint posterior of f, shapes (m,) and (m, m)."""
        with limit_blas_threads(max(self.mean.shape[0], X.shape[0])):
            phi = self.basis.rows(X)
            half = product(phi, self.half.T)
            covariance = kernels.cross(self.basis.kernel, X, X)
            covariance += product(half, half.T)
            covariance -= product(phi, phi.T)
            # The diagonal again: white noise of the kernel counts there only, and rounding gives no negative variance.
            np.fill_diagonal(covariance, np.einsum("ij,ij->i", half, half) + self.basis.residual(X, phi))
        return phi @ self.mean, covariance


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Where a fit starts instead of from scratch: the end of an earlier fit."""

    kernel: Kernel  # with its learnt hyper-parameters; None for a precomputed covariance
    likelihood: Likelihood  # with its learnt parameters
    points: Features = None  # (M, d): inducing points; None after exact inference
    state: State | None = None  # posterior of the inducing variables
    # "resume": the search for hyper-parameters starts here; "compare": a search from scratch runs too and the higher
    # bound wins; "skip": there is no search, kernel and inducing points stay
    search: Literal["resume", "compare", "skip"] = "resume"


def check_latent(estimator: object, latent: ExactLatent | SparseLatent, kernel: Kernel, width: int) -> None:
    """Raise DataError unless a posterior of f and a kernel have n features."""
    require(isinstance(latent, ExactLatent | SparseLatent), estimator, "posterior_", "must be a posterior of f")
    rows = latent.X if isinstance(latent, ExactLatent) else latent.basis.points
    fits = rows is not None and rows.shape[1] == width
    require(fits, estimator, "posterior_", f"must be a posterior of {width} features")
    check_kernel(estimator, "kernel_", kernel, width)


def check_inducing_state(estimator: object, state: State | None, latent: ExactLatent | SparseLatent) -> None:
    """Raise DataError unless a state to resume from belongs to the inducing points of a posterior."""
    size = latent.basis.points.shape[0] if isinstance(latent, SparseLatent) else 0
    blocks = state.blocks if isinstance(state, State) and "f" in state.scales else {}
    fits = list(blocks) == ["f"] and isinstance(blocks["f"], DenseBlock) and blocks["f"].size == size
    require(fits, estimator, "_state", f"must have {size} variables under the scale f")


def check_blocks(estimator: object, state: State, sizes: Mapping[str, int]) -> None:
    """Raise DataError unless the blocks of a state have the sizes that its posterior has, empty ones left out."""
    wanted = {name: size for name, size in sizes.items() if size}
    held = {name: block.size for name, block in state.blocks.items()}
    require(held == wanted, estimator, "_state", f"must have {wanted} variables, has {held}")


def check_kept_rows(
    estimator: object, rows: tuple[Any, ...], width: int | None, *, may_have_offsets: bool = False
) -> int:
    """Raise DataError unless the rows that a fit has kept fit together; return their number, `width` None = equal."""
    whole = isinstance(rows, tuple) and 3 <= len(rows) <= 3 + may_have_offsets
    require(whole, estimator, "_rows", "must be rows, targets and weights, and offsets if any")
    X, target, weight, *_ = rows
    vectors = all(isinstance(column, np.ndarray) and column.shape == (len(target),) for column in rows[1:])
    sound = vectors and bool((weight > 0.0).all())
    require(sound, estimator, "_rows", "must have a target and a positive weight each")
    wanted = weight.size if width is None else width
    require(
        check_features(estimator, "_rows", X, weight.size) == wanted, estimator, "_rows", f"must have {wanted} columns"
    )
    return int(weight.size)
