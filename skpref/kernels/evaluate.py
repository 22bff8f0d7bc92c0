"""Kernel values and vector-Jacobian products for any kernel, dense or CSR features.

Eight functions: values and gradients for each of four layouts. Gradients are vector-Jacobian products: from the
adjoint G of the values they compute the gradient of sum(G * K) in `kernel.theta`, without a tensor of n x m x n_theta
numbers (for 1000 rows and 50 length-scales, 8.8 MB instead of 812 MB).

`cross_pullback` returns values with the way back to hyperparameters and inducing points. For kernels whose logarithm is
a sum of simple parts (squared exponential, Matern, constants, their products and sums) both gradients come from the one
product W^T X, W = G * K: no loop over features, no second look at the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.gaussian_process import kernels as sk

from skpref._compiled import kernels as compiled
from skpref.kernels._adapters import value, vjp
from skpref.kernels._layouts import Cross, Diagonal, Gram, Paired, as_features, as_pair
from skpref.kernels.linear import Linear
from skpref.kernels.warped import Warped

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

    from skpref._typing import Array, Features
    from skpref.kernels._layouts import Layout

# W -> (gradient in theta, gradient in Z), with W = G * K.
_Pull: TypeAlias = "Callable[[Array], tuple[Array, Array]]"


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
        Gradient in the hyperparameters that are not fixed (logs), in the order of `kernel.theta`.

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


def moves_points(kernel: sk.Kernel, Z: Features) -> bool:
    """Tell whether `cross_pullback` has a gradient in the points: dense, of RBF, Matern, linear, constant kernels."""
    return not sparse.issparse(Z) and _has_rule(kernel)


def cross_pullback(
    kernel: sk.Kernel, X: Features, Z: Features
) -> tuple[Array, Callable[[Array], tuple[Array, Array | None]]]:
    """Return the kernel between rows and points, and a function that pulls a gradient back."""
    if not moves_points(kernel, Z) or sparse.issparse(X):
        return cross(kernel, X, Z), lambda G: (cross_vjp(kernel, X, Z, G), None)
    K, pull = _rule(kernel, X, Z)
    return np.full((X.shape[0], Z.shape[0]), K) if np.ndim(K) == 0 else K, pull


def _has_rule(kernel: sk.Kernel) -> bool:
    if type(kernel) in {sk.Sum, sk.Product}:
        return _has_rule(kernel.k1) and _has_rule(kernel.k2)
    if type(kernel) is Warped:
        return _has_rule(kernel.kernel)
    if type(kernel) is sk.Matern:
        return kernel.nu in {0.5, 1.5, 2.5, np.inf}
    return type(kernel) in {sk.RBF, sk.ConstantKernel, Linear}


def _rule(kernel: Any, X: Array, Z: Array) -> tuple[Any, _Pull]:  # noqa: ANN401 - its type decides
    """Return the values, a number where they are the same everywhere, and the function that pulls a gradient back."""
    if type(kernel) in {sk.Product, sk.Sum}:
        (first, pull_first), (second, pull_second) = _rule(kernel.k1, X, Z), _rule(kernel.k2, X, Z)
        if type(kernel) is sk.Sum:
            return first + second, lambda G: _joined([pull_first(G), pull_second(G)])
        return first * second, lambda G: _joined([pull_first(G * second), pull_second(G * first)])
    if type(kernel) is Warped:
        return _warped_kernel(kernel, X, Z)
    if type(kernel) is sk.ConstantKernel:
        c, fixed = float(kernel.constant_value), kernel.hyperparameter_constant_value.fixed
        return c, lambda G: (np.zeros(0) if fixed else np.array([c * G.sum()]), np.zeros_like(Z))
    return _linear_kernel(kernel, X, Z) if type(kernel) is Linear else _distance_kernel(kernel, X, Z)


def _warped_kernel(kernel: Warped, X: Array, Z: Array) -> tuple[Array, _Pull]:
    """Return a kernel of warped rows and its pullback."""
    K, pull_mapped = _rule(kernel.kernel, kernel.map_rows(X), kernel.map_rows(Z))

    def pull(G: Array) -> tuple[Array, Array]:
        theta, points = pull_mapped(G)
        return theta, points * kernel.slopes(Z)

    return K, pull


def _linear_kernel(kernel: Linear, X: Array, Z: Array) -> tuple[Array, _Pull]:
    """Return a linear kernel and its pullback."""
    K = cross(kernel, X, Z)  # refuses variances of another number of features
    origin = np.zeros(Z.shape[1]) if kernel.origin is None else np.asarray(kernel.origin, dtype=np.float64)
    variance = np.squeeze(np.asarray(kernel.variance, dtype=np.float64))

    def pull(G: Array) -> tuple[Array, Array]:
        points = variance * (G.T @ (X - origin))
        return _shared(((Z - origin) * points).sum(axis=0), kernel.hyperparameter_variance), points

    return K, pull


def _shared(gradient: Array, hyperparameter: Hyperparameter) -> Array:
    """Return the gradient in theta, given that in a number for each feature."""
    if hyperparameter.fixed:
        return np.zeros(0)
    return gradient if hyperparameter.n_elements > 1 else np.atleast_1d(gradient.sum())


def _joined(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    return np.concatenate([theta for theta, _ in parts]), sum((points for _, points in parts), np.zeros(()))


def _distance_kernel(kernel: Any, X: Array, Z: Array) -> tuple[Array, _Pull]:  # noqa: ANN401 - RBF or Matern
    """Return a kernel of the scaled distance and its pullback, by dlog k / dlog l_f = slope (x_f - z_f)^2 / l_f^2."""
    K, nu = cross(kernel, X, Z), getattr(kernel, "nu", np.inf)  # refuses length-scales of another number of features
    scale = compiled.scale_of(
        np.squeeze(np.asarray(kernel.length_scale, dtype=np.float64)), compiled.SQUARED, Z.shape[1]
    )
    # Centred, since the squares below are multiplied out and would lose digits.
    middle = Z.mean(axis=0)
    left, right = (X - middle) * scale, (Z - middle) * scale
    ones = np.ones((X.shape[0], 1))

    def pull(G: Array) -> tuple[Array, Array]:
        V = G * K
        if nu != np.inf:
            V *= _slope(_distances(left, right), nu)
        sums = V.T @ np.hstack([left, ones])
        pulled, total = sums[:, :-1], sums[:, -1:]
        points = pulled - total * right
        squares = (V @ np.ones(V.shape[1])) @ left**2 - np.sum(right * (pulled + points), axis=0)
        return _shared(squares, kernel.hyperparameter_length_scale), points * scale

    return K, pull


def _distances(left: Array, right: Array) -> Array:
    ones = np.ones(left.shape[1])
    half = np.einsum("ij,ij->i", left, left)[:, None] - 2.0 * left @ right.T + (right * right) @ ones
    return np.asarray(np.maximum(half, 0.0))


def _slope(d2: Array, nu: float) -> Array:
    """Return -dlog k / dd2 times 2, d2 the squared scaled distance."""
    t = np.sqrt(2.0 * nu * d2)
    if nu == 0.5:  # where t = 0 all differences are 0, so any finite slope is right
        return np.divide(1.0, t, out=np.zeros_like(t), where=t > 0.0)
    if nu == 1.5:
        return 3.0 / (1.0 + t)
    return 5.0 * (1.0 + t) / (3.0 + t * (3.0 + t))
