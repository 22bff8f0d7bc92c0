"""Kernels on a function of the rows: another kernel, and its hyperparameters, as ``kernel__...``."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from sklearn.gaussian_process.kernels import Hyperparameter

from skpref.kernels._adapters import value, vjp
from skpref.kernels._base import LayoutKernelBase

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.kernels._layouts import Layout


class InnerKernelBase(LayoutKernelBase):
    """k(x, z) = kernel(map_rows(x), map_rows(z)); the parameter `kernel` is the only one with hyperparameters."""

    kernel: Kernel

    @abstractmethod
    def map_rows(self, X: Features) -> Features:
        """Return what the inner kernel is given of rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        ndarray or CSR of shape (n, d_inner)
            The mapped rows.
        """

    @abstractmethod
    def _key(self) -> Any:  # noqa: ANN401 - anything with an equality
        """Return the parameters besides the kernel in a form that can be compared."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters (scikit-learn's interface).

        Parameters
        ----------
        deep : bool, default=True
            Whether to include those of the inner kernel, as ``kernel__...``.

        Returns
        -------
        dict of str to object
            Parameters by name.
        """
        params: dict[str, Any] = super().get_params()
        if deep:
            params |= {f"kernel__{name}": inner for name, inner in self.kernel.get_params().items()}
        return params

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """Hyperparameters of the inner kernel, as ``kernel__...``."""
        return [Hyperparameter(f"kernel__{h.name}", *h[1:4]) for h in self.kernel.hyperparameters]

    @property
    def theta(self) -> Array:
        """Logs of the inner kernel's hyperparameters that are not fixed, shape (n_theta,)."""
        theta: Array = self.kernel.theta
        return theta

    @theta.setter
    def theta(self, theta: Array) -> None:
        self.kernel.theta = theta

    @property
    def bounds(self) -> Array:
        """Bounds of theta, shape (n_theta, 2)."""
        bounds: Array = self.kernel.bounds
        return bounds

    def __eq__(self, other: object) -> bool:
        """Return whether the inner kernels and the other parameters are equal."""
        if type(self) is not type(other) or not isinstance(other, InnerKernelBase):
            return False
        return bool(self._key() == other._key() and self.kernel == other.kernel)

    __hash__ = None  # type: ignore[assignment]  # mutable, like all kernels of scikit-learn

    def is_stationary(self) -> bool:
        """Return whether the inner kernel is stationary.

        Returns
        -------
        bool
            Whether the inner kernel is stationary.
        """
        return bool(self.kernel.is_stationary())

    def value_at(self, at: Layout) -> Array:
        return value(self.kernel, self._mapped(at))

    def vjp_at(self, at: Layout, G: Array) -> Array:
        return vjp(self.kernel, self._mapped(at), G)

    def _gradient(self, X: Array, K: Array) -> Array:  # noqa: ARG002 - every kernel takes both
        gradient: Array = self.kernel(self.map_rows(X), eval_gradient=True)[1]
        return gradient

    def _mapped(self, at: Layout) -> Layout:
        """Return the same pairs of mapped rows."""
        return type(at)(*map(self.map_rows, at.tables))
