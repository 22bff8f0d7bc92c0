"""The identity kernel: items without features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from sklearn.gaussian_process.kernels import Kernel, NormalizedKernelMixin, StationaryKernelMixin

from skpref.kernels._layouts import Cross, Diagonal, Gram, as_features, as_pair

if TYPE_CHECKING:
    from collections.abc import Hashable

    from skpref._typing import Array, Features, IntArray
    from skpref.kernels._layouts import Layout

__all__ = ["Identity"]


class Identity(StationaryKernelMixin, NormalizedKernelMixin, Kernel):
    """Kernel that is 1 where two rows are equal and 0 elsewhere: items share nothing.

    Unlike scikit-learn's `WhiteKernel` it knows a row again: k(x, z) = 1 for equal rows of different tables.

    Notes
    -----
    docs/maths section 6: "no features for items or users = identity kernel". It has no hyper-parameters.

    Examples
    --------
    >>> from skpref.kernels import Identity
    >>> Identity()([[0.0], [1.0]], [[1.0], [2.0], [0.0]])
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """

    def __init__(self) -> None:  # scikit-learn reads parameters off the signature and refuses object's
        super().__init__()

    def __call__(
        self, X: Features, Y: Features | None = None, eval_gradient: bool = False
    ) -> Array | tuple[Array, Array]:
        """Evaluate the kernel (scikit-learn's interface).

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Left rows.
        Y : array-like or CSR of shape (m, d), default=None
            Right rows; None means X.
        eval_gradient : bool, default=False
            Whether to return the (empty) gradient too; only without Y.

        Returns
        -------
        K : ndarray of shape (n, m)
            Kernel matrix.
        K_gradient : ndarray of shape (n, n, 0)
            Gradient, if `eval_gradient`.

        Raises
        ------
        ValueError
            When a gradient is asked with Y.

        Examples
        --------
        >>> from skpref.kernels import Identity
        >>> Identity()([[0.0], [1.0]])
        array([[1., 0.],
               [0., 1.]])
        """
        if Y is not None:
            if eval_gradient:
                msg = "eval_gradient: got True together with Y, wanted Y=None; the gradient is of K(X, X) only"
                raise ValueError(msg)
            return self.value_at(Cross(*as_pair(X, Y)))
        K = self.value_at(Gram(as_features(X)))
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def __repr__(self) -> str:
        """Show the name."""
        return "Identity()"

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
        if isinstance(at, Diagonal):
            return np.ones(at.shape)
        if isinstance(at, Gram):
            code = _codes(at.Z)
            return np.asarray(code[:, None] == code, dtype=np.float64)
        left = at.X
        right = at.Z if isinstance(at, Cross) else at.Y
        code = _codes(left, right)
        first, second = code[: left.shape[0]], code[left.shape[0] :]
        same = first[:, None] == second if isinstance(at, Cross) else first == second
        return np.asarray(same, dtype=np.float64)

    def vjp_at(self, at: Layout, G: Array) -> Array:  # noqa: ARG002 - every kernel takes both
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
            Gradient; empty when the hyper-parameter is fixed.
        """
        return np.zeros(0)


def _codes(*tables: Features) -> IntArray:
    """Return a number for each row of all tables; equal rows have equal numbers."""
    numbers: dict[Hashable, int] = {}
    keys = (key for table in tables for key in _keys(table))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _keys(X: Features) -> list[bytes]:
    """Return the bytes of every row, the same for 0.0 and -0.0, stored or not."""
    if not sparse.issparse(X):
        return [row.tobytes() for row in X + 0.0]
    X = X.copy()
    X.eliminate_zeros()
    ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return [X.indices[a:b].astype(np.int64).tobytes() + X.data[a:b].tobytes() for a, b in ends]
