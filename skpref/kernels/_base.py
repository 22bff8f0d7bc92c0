"""Base class of this package's kernels: scikit-learn's interface on top of values at a layout and their gradient."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from sklearn.gaussian_process.kernels import Kernel

from skpref.kernels._layouts import Cross, Diagonal, Gram, as_features, as_pair, densify

if TYPE_CHECKING:
    from skpref._typing import Array, Features
    from skpref.kernels._layouts import Layout


class LayoutKernelBase(Kernel):
    """A kernel that is written as `value_at`, `vjp_at` and `_gradient`."""

    def __call__(
        self, X: Features, Y: Features | None = None, eval_gradient: bool = False
    ) -> Array | tuple[Array, Array]:
        """Evaluate the kernel, with its gradient if asked (scikit-learn's interface).

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Left rows.
        Y : array-like or CSR of shape (m, d), default=None
            Right rows; None means X.
        eval_gradient : bool, default=False
            Whether to return the gradient in theta (log hyperparameters) too; only without Y. It has n^2 n_theta
            numbers, which `skpref.kernels.gram_vjp` avoids.

        Returns
        -------
        K : ndarray of shape (n, m)
            Kernel matrix.
        K_gradient : ndarray of shape (n, n, n_theta)
            Gradient, if `eval_gradient`.

        Raises
        ------
        ValueError
            When a gradient is asked with Y, or the hyperparameters do not fit the features.
        """
        if Y is not None:
            if eval_gradient:
                msg = "eval_gradient: got True together with Y, wanted Y=None; the gradient is of K(X, X) only"
                raise ValueError(msg)
            return self.value_at(Cross(*as_pair(X, Y)))
        X = as_features(X)
        K = self.value_at(Gram(X))
        return (K, self._gradient(densify(X), K)) if eval_gradient else K

    def diag(self, X: Features) -> Array:
        """Return k(x, x) for every row (scikit-learn's interface).

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Prior variances.
        """
        return self.value_at(Diagonal(as_features(X)))

    @abstractmethod
    def value_at(self, at: Layout) -> Array:
        """Return kernel values at a layout.

        Parameters
        ----------
        at : Layout
            Pairs of rows.

        Returns
        -------
        ndarray of shape at.shape
            Values.
        """

    @abstractmethod
    def vjp_at(self, at: Layout, G: Array) -> Array:
        """Return the gradient of sum(G * value_at(at)) in theta.

        Parameters
        ----------
        at : Layout
            Pairs of rows.
        G : ndarray of shape at.shape
            Adjoint of the values.

        Returns
        -------
        ndarray of shape (n_theta,)
            Gradient; empty when all hyperparameters are fixed.
        """

    @abstractmethod
    def _gradient(self, X: Array, K: Array) -> Array:
        """Return dK/d theta of K = k(X, X), shape (n, n, n_theta)."""
