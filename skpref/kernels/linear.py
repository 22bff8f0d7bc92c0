"""The linear kernel with one variance per feature, or one for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from sklearn.gaussian_process.kernels import Hyperparameter

from skpref.kernels._base import LayoutKernelBase
from skpref.kernels._layouts import Cross, Gram, densify, one_or_each, row_chunks

if TYPE_CHECKING:
    import numpy.typing as npt

    from skpref._typing import Array, Features
    from skpref.kernels._layouts import Layout


class Linear(LayoutKernelBase):
    """Linear kernel k(x, z) = sum_f variance_f (x_f - o_f) (z_f - o_f): utilities are a weighted sum of the features.

    It is scikit-learn's `DotProduct` without an offset (which comparisons cannot see) and with variances of the
    weights that can be learnt, one for each feature if wanted.

    Parameters
    ----------
    variance : float or array-like of shape (d,), default=1.0
        Prior variance of a feature's weight, in squared units of utility per unit of the feature; one for all or one
        each. 1.0 suits standardised features.
    variance_bounds : pair of floats, array-like of shape (d, 2) or "fixed", default=(1e-5, 1e5)
        Bounds of the variance(s); "fixed" leaves them out of the fit. As scikit-learn's kernels.
    origin : array-like of shape (d,), default=None
        Point o at which the function is 0, such as the means of the features. None: 0.

    Notes
    -----
    docs/maths section 2, without the unit amplitude: k(x, x) = sum_f variance_f x_f^2.

    Examples
    --------
    >>> from skpref.kernels import Linear
    >>> Linear(variance=2.0)([[1.0, 2.0], [0.0, 1.0]])
    array([[10.,  4.],
           [ 4.,  2.]])
    """

    def __init__(
        self,
        variance: float | npt.ArrayLike = 1.0,
        variance_bounds: tuple[float, float] | str | npt.ArrayLike = (1e-5, 1e5),
        origin: npt.ArrayLike | None = None,
    ) -> None:
        self.variance = variance
        self.variance_bounds = variance_bounds
        self.origin = origin

    @property
    def anisotropic(self) -> bool:
        """Whether every feature has a variance of its own."""
        return np.iterable(self.variance) and len(np.asarray(self.variance)) > 1

    @property
    def hyperparameter_variance(self) -> Hyperparameter:
        """The variance(s), as scikit-learn's optimisers see them."""
        size = len(np.asarray(self.variance)) if self.anisotropic else 1
        return Hyperparameter("variance", "numeric", self.variance_bounds, size)

    def is_stationary(self) -> bool:
        """Return False: the kernel depends on the origin.

        Returns
        -------
        bool
            False.
        """
        return False

    def __repr__(self) -> str:
        """Show the variance(s)."""
        v = np.atleast_1d(np.asarray(self.variance, dtype=np.float64))
        shown = f"[{', '.join(f'{u:.3g}' for u in v)}]" if self.anisotropic else f"{v[0]:.3g}"
        return f"Linear(variance={shown})"

    def _origin(self, X: Features) -> Array | None:
        if self.origin is None:
            return None
        origin = np.asarray(self.origin, dtype=np.float64)
        if origin.shape != (d := X.shape[1],):
            raise ValueError(f"origin: got shape {origin.shape} for {d} features, wanted one number per feature")
        return origin

    def value_at(self, at: Layout) -> Array:
        X, _ = at.sides
        v, origin = one_or_each("variance", self.variance, X.shape[1]), self._origin(X)
        return v * inner_products(at, None, origin) if v.ndim == 0 else inner_products(at, v, origin)

    def vjp_at(self, at: Layout, G: Array) -> Array:
        if self.hyperparameter_variance.fixed:
            return np.zeros(0)
        X, _ = at.sides
        v, origin = one_or_each("variance", self.variance, X.shape[1]), self._origin(X)
        if v.ndim == 0:
            return np.atleast_1d(v * np.sum(G * inner_products(at, None, origin)))
        return np.asarray(v * _sum_per_feature(at, G, origin))

    def _gradient(self, X: Array, K: Array) -> Array:
        """Return dK/d theta, shape (n, n, n_theta)."""
        if self.hyperparameter_variance.fixed:
            return np.empty((*K.shape, 0))
        if not self.anisotropic:
            return K[:, :, None].copy()
        X = X if self.origin is None else X - np.asarray(self.origin)
        return np.asarray(one_or_each("variance", self.variance, X.shape[1]) * X[:, None, :] * X[None, :, :])


def inner_products(at: Layout, weight: Array | None = None, origin: Array | None = None) -> Array:
    """Return sum_f weight_f (x_f - o_f) (z_f - o_f) at a layout, by sparse products for CSR rows."""
    X, Y = at.sides
    if origin is not None:
        if sparse.issparse(X):
            towards = origin if weight is None else weight * origin
            left, right = X @ towards, Y @ towards
            both = left[:, None] + right if isinstance(at, Cross | Gram) else left + right
            return np.asarray(inner_products(at, weight) - both + origin @ towards)
        X, Y = X - origin, Y - origin
    if weight is not None:
        X = X * weight if not sparse.issparse(X) else sparse.csr_array(X @ sparse.diags_array(weight))
    if isinstance(at, Cross | Gram):
        return densify(X @ Y.T)
    if sparse.issparse(X):
        return np.asarray(X.multiply(Y).sum(axis=1)).ravel()
    return np.asarray(np.einsum("if,if->i", X, Y))


def _sum_per_feature(at: Layout, G: Array, origin: Array | None = None) -> Array:
    """Return sum_ij G_ij (x_if - o_f) (z_jf - o_f) for every feature f, in chunks of rows."""
    X, Y = at.sides
    if origin is not None:
        X, Y = densify(X) - origin, densify(Y) - origin
    total = np.zeros(X.shape[1])
    for rows in row_chunks(X):
        weighted = G[rows] @ Y if isinstance(at, Cross | Gram) else _scaled(Y[rows], G[rows])
        product = X[rows].multiply(weighted) if sparse.issparse(X) else X[rows] * weighted
        total += np.asarray(product.sum(axis=0)).ravel()
    return total


def _scaled(X: Features, g: Array) -> Features:
    return sparse.diags_array(g) @ X if sparse.issparse(X) else X * g[:, None]
