"""Kernel values and vector-Jacobian products for any kernel, dense or CSR features.

Eight functions: values and gradients for each of four layouts. Gradients are vector-Jacobian products: from the
adjoint G of the values they compute the gradient of sum(G * K) in `kernel.theta`, without a tensor of n x m x n_theta
numbers (for 1000 rows and 50 length-scales, 8.8 MB instead of 812 MB).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skpref.kernels._adapters import value, vjp
from skpref.kernels._layouts import Cross, Diagonal, Gram, Paired, as_features, as_pair

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.kernels._layouts import Layout

__all__ = ["cross", "cross_vjp", "diagonal", "diagonal_vjp", "gram", "gram_vjp", "paired", "paired_vjp"]


def cross(kernel: Kernel, X: Features, Z: Features) -> Array:
    """Return the kernel between all rows of X and all rows of Z, without white noise.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel.
    X : array-like or CSR of shape (n, d)
        Rows.
    Z : array-like or CSR of shape (m, d)
        Columns.

    Returns
    -------
    ndarray of shape (n, m), C-contiguous
        k(x_i, z_j).

    Raises
    ------
    ValueError
        If the numbers of features differ.

    Notes
    -----
    Memory beyond the result is O(m d + threads * m). The result does not depend on the number of threads.

    Examples
    --------
    >>> from skpref.kernels import ProductMatern, cross
    >>> cross(ProductMatern(), [[0.0], [1.0]], [[0.0]]).round(4)
    array([[1.    ],
           [0.4834]])
    """
    return value(kernel, Cross(*as_pair(X, Z)))


def gram(kernel: Kernel, Z: Features) -> Array:
    """Return the kernel between all rows of Z, with white noise on the diagonal: kernel(Z).

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel.
    Z : array-like or CSR of shape (m, d)
        Rows.

    Returns
    -------
    ndarray of shape (m, m), C-contiguous
        k(z_i, z_j), exactly symmetric for this package's kernels.

    Examples
    --------
    >>> from skpref.kernels import ProductMatern, gram
    >>> gram(ProductMatern(), [[0.0], [1.0]]).round(4)
    array([[1.    , 0.4834],
           [0.4834, 1.    ]])
    """
    return value(kernel, Gram(as_features(Z)))


def diagonal(kernel: Kernel, X: Features) -> Array:
    """Return the prior variance of every row, with white noise: the diagonal of `gram`.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel.
    X : array-like or CSR of shape (n, d)
        Rows.

    Returns
    -------
    ndarray of shape (n,)
        k(x_i, x_i).

    Examples
    --------
    >>> from skpref.kernels import ProductMatern, diagonal
    >>> diagonal(ProductMatern(), [[0.0], [1.0]])
    array([1., 1.])
    """
    return value(kernel, Diagonal(as_features(X)))


def paired(kernel: Kernel, X: Features, Y: Features) -> Array:
    """Return the kernel between row i of X and row i of Y, without white noise.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel.
    X, Y : array-like or CSR of shape (n, d)
        Rows.

    Returns
    -------
    ndarray of shape (n,)
        k(x_i, y_i).

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> from skpref.kernels import ProductMatern, paired
    >>> paired(ProductMatern(), [[0.0], [1.0]], [[0.0], [2.0]]).round(4)
    array([1.    , 0.4834])
    """
    return value(kernel, _paired(X, Y))


def cross_vjp(kernel: Kernel, X: Features, Z: Features, G: Array) -> Array:
    """Return the gradient of sum_ij G_ij k(x_i, z_j) in theta.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel.
    X : array-like or CSR of shape (n, d)
        Rows.
    Z : array-like or CSR of shape (m, d)
        Columns.
    G : ndarray of shape (n, m)
        Adjoint of `cross`.

    Returns
    -------
    ndarray of shape (n_theta,)
        Gradient in the hyper-parameters that are not fixed (logs), in the order of `kernel.theta`.

    Raises
    ------
    ValueError
        If G has a wrong shape, or the numbers of features differ.

    Notes
    -----
    docs/maths section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.kernels import ProductMatern, cross_vjp
    >>> cross_vjp(ProductMatern(), [[0.0]], [[1.0]], np.ones((1, 1))).round(4)
    array([0.5308])
    """
    return _vjp(kernel, Cross(*as_pair(X, Z)), G)


def gram_vjp(kernel: Kernel, Z: Features, G: Array) -> Array:
    """Return the gradient of sum_ij G_ij gram_ij in theta.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel.
    Z : array-like or CSR of shape (m, d)
        Rows.
    G : ndarray of shape (m, m)
        Adjoint of `gram`; it need not be symmetric.

    Returns
    -------
    ndarray of shape (n_theta,)
        Gradient, as of `cross_vjp`.

    Raises
    ------
    ValueError
        If G has a wrong shape.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.kernels import ProductMatern, gram_vjp
    >>> gram_vjp(ProductMatern(), [[0.0], [1.0]], np.ones((2, 2))).round(4)
    array([1.0615])
    """
    return _vjp(kernel, Gram(as_features(Z)), G)


def diagonal_vjp(kernel: Kernel, X: Features, g: Array) -> Array:
    """Return the gradient of sum_i g_i k(x_i, x_i) in theta, white noise included.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel.
    X : array-like or CSR of shape (n, d)
        Rows.
    g : ndarray of shape (n,)
        Adjoint of `diagonal`.

    Returns
    -------
    ndarray of shape (n_theta,)
        Gradient, as of `cross_vjp`.

    Raises
    ------
    ValueError
        If g has a wrong shape.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.kernels import Linear, diagonal_vjp
    >>> diagonal_vjp(Linear(), [[2.0]], np.ones(1))
    array([4.])
    """
    return _vjp(kernel, Diagonal(as_features(X)), g)


def paired_vjp(kernel: Kernel, X: Features, Y: Features, g: Array) -> Array:
    """Return the gradient of sum_i g_i k(x_i, y_i) in theta.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel.
    X, Y : array-like or CSR of shape (n, d)
        Rows.
    g : ndarray of shape (n,)
        Adjoint of `paired`.

    Returns
    -------
    ndarray of shape (n_theta,)
        Gradient, as of `cross_vjp`.

    Raises
    ------
    ValueError
        If shapes differ.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.kernels import ProductMatern, paired_vjp
    >>> paired_vjp(ProductMatern(), [[0.0]], [[1.0]], np.ones(1)).round(4)
    array([0.5308])
    """
    return _vjp(kernel, _paired(X, Y), g)


def _paired(X: Features, Y: Features) -> Paired:
    X, Y = as_pair(X, Y)
    if X.shape[0] != Y.shape[0]:
        msg = f"X and Y: got {X.shape[0]} and {Y.shape[0]} rows, wanted the same number; `cross` takes all pairs"
        raise ValueError(msg)
    return Paired(X, Y)


def _vjp(kernel: Kernel, at: Layout, G: Array) -> Array:
    G = np.asarray(G, dtype=np.float64)
    if G.shape != at.shape:
        msg = f"G: got shape {G.shape}, wanted {at.shape}, the shape of the kernel values; pass their adjoint"
        raise ValueError(msg)
    return vjp(kernel, at, G)
