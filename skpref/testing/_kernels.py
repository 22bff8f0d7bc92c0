"""Conformance checks of kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from skpref import kernels
from skpref._typing import Array

_STEP = 1e-3  # step in log hyperparameters: the fourth-order difference errs by 1e-12, rounding by 1e-13


def check_kernel(kernel: Kernel, X: Array | None = None, Z: Array | None = None, seed: int = 0) -> None:
    """Check that a kernel works in every place where this package evaluates kernels.

    The checks: `clone` and theta; `cross`, `gram`, `diagonal` and `paired` against `kernel(X, Z)`, `kernel(Z)` and
    `kernel.diag(X)`; symmetry and positive semi-definiteness; CSR against dense features; rows permuted; translation
    (stationary kernels); read-only input unchanged; gradients of all four layouts against central differences, and
    against ``kernel(Z, eval_gradient=True)``; fixed hyperparameters left out of the gradients.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Kernel to check, of this package, of scikit-learn or of your own.
    X : ndarray of shape (n, d), default=None
        Rows to check at; None draws 9 rows of 3 features (or of as many as the kernel has length-scales), some 0.
    Z : ndarray of shape (m, d), default=None
        Other rows; None draws 7, two of them equal to rows of X.
    seed : int, default=0
        Seed of the random rows.

    Raises
    ------
    AssertionError
        If a check fails; the message names it.

    Examples
    --------
    >>> from skpref.kernels import ProductMatern
    >>> from skpref.testing import check_kernel
    >>> check_kernel(ProductMatern(length_scale=[1.0, 2.0, 0.5]))
    """
    rng = np.random.default_rng(seed)
    X = _rows(rng, 9, _n_features(kernel)) if X is None else np.array(X, dtype=np.float64)
    Z = np.vstack([_rows(rng, 5, X.shape[1]), X[:2]]) if Z is None else np.array(Z, dtype=np.float64)
    X.flags.writeable = Z.flags.writeable = False
    _check_interface(kernel)
    _check_values(kernel, X, Z)
    _check_invariance(kernel, X, Z, rng)
    for name, layout in _layouts(X, Z, rng).items():
        _check_gradient(kernel, name, layout, rng)
    _check_tensor(kernel, Z, rng)
    _check_fixed(kernel, X, Z)


def _n_features(kernel: Kernel) -> int:
    """Return the number of features that the kernel's ARD hyperparameters need, 3 without any."""
    sizes = [h.n_elements for h in kernel.hyperparameters if h.n_elements > 1]
    return int(sizes[0]) if sizes else 3


def _rows(rng: np.random.Generator, n: int, d: int) -> Array:
    return np.where(rng.random((n, d)) < 0.3, 0.0, rng.normal(size=(n, d)))


def _layouts(X: Array, Z: Array, rng: np.random.Generator) -> dict[str, tuple[Array, ...]]:
    return {"cross": (X, Z), "gram": (Z,), "diagonal": (X,), "paired": (X, _rows(rng, *X.shape))}


def _close(got: Array, want: Array, check: str, rtol: float = 1e-10, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=check)


def _check_interface(kernel: Kernel) -> None:
    again = kernel.clone_with_theta(kernel.theta)
    _close(again.theta, kernel.theta, "clone_with_theta(theta) changes theta")
    np.testing.assert_equal(clone(kernel) == kernel, True, "clone differs from the kernel")
    np.testing.assert_equal(np.size(kernel.bounds), 2 * kernel.n_dims, "bounds and theta differ in length")


def _check_values(kernel: Kernel, X: Array, Z: Array) -> None:
    K = kernels.gram(kernel, Z)
    _close(K, kernel(Z), "gram differs from kernel(Z)")
    _close(K, K.T, "gram is not symmetric", rtol=1e-13)
    _close(np.diagonal(K), kernels.diagonal(kernel, Z), "diagonal differs from the diagonal of gram")
    _close(kernels.diagonal(kernel, X), kernel.diag(X), "diagonal differs from kernel.diag")
    _close(kernels.cross(kernel, X, Z), kernel(X, Z), "cross differs from kernel(X, Z)")
    n = min(X.shape[0], Z.shape[0])
    same = np.diagonal(kernels.cross(kernel, X[:n], Z[:n]))
    _close(kernels.paired(kernel, X[:n], Z[:n]), same, "paired differs from the diagonal of cross")
    smallest = float(np.linalg.eigvalsh(K)[0])
    np.testing.assert_equal(smallest > -1e-10 * np.abs(K).max() * K.shape[0], True, "gram has a negative eigenvalue")


def _check_invariance(kernel: Kernel, X: Array, Z: Array, rng: np.random.Generator) -> None:
    K = kernels.cross(kernel, X, Z)
    for form in (sparse.csr_array, sparse.csr_matrix):
        _close(kernels.cross(kernel, form(X), form(Z)), K, "CSR features change cross", atol=1e-12)
    i, j = rng.permutation(X.shape[0]), rng.permutation(Z.shape[0])
    _close(kernels.cross(kernel, X[i], Z[j]), K[np.ix_(i, j)], "permuted rows change values", rtol=1e-13)
    if kernel.is_stationary():
        # A power of two shifts without rounding only what is small: hence the tolerance.
        _close(kernels.cross(kernel, X + 2.0, Z + 2.0), K, "a stationary kernel changes under translation", 1e-9, 1e-9)


def _difference(function: Callable[[Array], float], theta: Array) -> Array:
    """Return fourth-order central differences."""
    steps = _STEP * np.eye(theta.shape[0])
    inner, outer = ([function(theta + k * h) - function(theta - k * h) for h in steps] for k in (1.0, 2.0))
    return (8.0 * np.array(inner) - np.array(outer)) / (12.0 * _STEP)


def _check_gradient(kernel: Kernel, name: str, at: tuple[Array, ...], rng: np.random.Generator) -> None:
    value, vjp = getattr(kernels, name), getattr(kernels, f"{name}_vjp")
    G = rng.normal(size=value(kernel, *at).shape)
    want = _difference(lambda theta: float(np.sum(G * value(kernel.clone_with_theta(theta), *at))), kernel.theta)
    # scikit-learn's gradient of a few kernels is itself a difference, good to about 1e-6.
    _close(vjp(kernel, *at, G), want, f"{name}_vjp differs from central differences", rtol=1e-6, atol=1e-6)
    stored = tuple(sparse.csr_array(a) for a in at)
    _close(vjp(kernel, *stored, G), vjp(kernel, *at, G), f"CSR features change {name}_vjp", atol=1e-11)


def _check_tensor(kernel: Kernel, Z: Array, rng: np.random.Generator) -> None:
    K, tensor = kernel(Z, eval_gradient=True)
    G = rng.normal(size=K.shape)
    want = np.tensordot(G, tensor, axes=2)
    _close(kernels.gram_vjp(kernel, Z, G), want, "gram_vjp differs from kernel(Z, eval_gradient=True)", 1e-4, 1e-4)


def _check_fixed(kernel: Kernel, X: Array, Z: Array) -> None:
    bounds = {name: "fixed" for name in kernel.get_params() if name.endswith("_bounds")}
    fixed = clone(kernel).set_params(**bounds)
    for name, at in {"cross": (X, Z), "gram": (Z,), "diagonal": (X,), "paired": (X[:5], Z[:5])}.items():
        G = np.ones(getattr(kernels, name)(fixed, *at).shape)
        got = getattr(kernels, f"{name}_vjp")(fixed, *at, G)
        np.testing.assert_equal(got.shape, (fixed.n_dims,), f"fixed hyperparameters are in {name}_vjp")
