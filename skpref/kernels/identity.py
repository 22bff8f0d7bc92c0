"""The identity kernel: items without features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from sklearn.gaussian_process.kernels import NormalizedKernelMixin, StationaryKernelMixin

from skpref.kernels._base import LayoutKernelBase
from skpref.kernels._layouts import Diagonal, Paired

if TYPE_CHECKING:
    from collections.abc import Hashable

    from skpref._typing import Array, Features, IntArray
    from skpref.kernels._layouts import Layout


class Identity(StationaryKernelMixin, NormalizedKernelMixin, LayoutKernelBase):
    """Kernel that is 1 where two rows are equal and 0 elsewhere: items share nothing.

    Unlike scikit-learn's `WhiteKernel` it knows a row again: k(x, z) = 1 for equal rows of different tables.

    Notes
    -----
    docs/maths section 6: "no features for items or users = identity kernel". It has no hyperparameters.

    Examples
    --------
    >>> from skpref.kernels import Identity
    >>> Identity()([[0.0], [1.0]], [[1.0], [2.0], [0.0]])
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """

    def __init__(self) -> None:
        """Take nothing; scikit-learn reads parameters off the signature and refuses object's."""

    def __repr__(self) -> str:
        """Show the name."""
        return "Identity()"

    def value_at(self, at: Layout) -> Array:
        if isinstance(at, Diagonal):
            return np.ones(at.shape)
        left, right = at.sides
        first, second = np.split(_codes(left, right), [left.shape[0]])
        same = first == second if isinstance(at, Paired) else first[:, None] == second
        return np.asarray(same, dtype=np.float64)

    def vjp_at(self, at: Layout, G: Array) -> Array:  # noqa: ARG002 - every kernel takes both
        return np.zeros(0)

    def _gradient(self, X: Array, K: Array) -> Array:  # noqa: ARG002 - every kernel takes both
        return np.empty((*K.shape, 0))


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
