"""A kernel on features that are warped halfway to their ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.kernels._inner import InnerKernelBase
from skpref.kernels._layouts import as_features, densify
from skpref.kernels.columns import column_numbers

if TYPE_CHECKING:
    import numpy.typing as npt
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features

__all__ = ["Warped"]


class Warped(InnerKernelBase):
    """Kernel on warped columns: k(x, z) = kernel(w(x), w(z)), w(x) = (x + r(x)) / 2.

    r is piecewise linear and constant beyond its ends. The default kernels of `SVGPRegressor` and `SVGPClassifier` have
    ranks there: of a skewed feature, whose few large values are far from all others, the many small ones are told apart
    as well, and large ones are still ordered beyond the training rows.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel. Its hyperparameters become those of `Warped`, with the names ``kernel__...``; length-scales are in
        the units of the columns.
    columns : list of int
        The columns that are warped, from 0; others stay as they are.
    knots : array-like of shape (n_warped, n_knots)
        Where r has its corners, ascending in each row.
    levels : array-like of shape (n_warped, n_knots)
        r at the knots, ascending in each row, in the units of the columns.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skpref.kernels import Warped
    >>> kernel = Warped(RBF(1.0), [0], [[0.0, 1.0, 100.0]], [[0.0, 50.0, 100.0]])
    >>> kernel.map_rows([[0.0], [1.0], [100.0]]).tolist()
    [[0.0], [25.5], [100.0]]
    """

    def __init__(self, kernel: Kernel, columns: npt.ArrayLike, knots: npt.ArrayLike, levels: npt.ArrayLike) -> None:
        self.kernel = kernel
        self.columns = columns
        self.knots = knots
        self.levels = levels

    def _key(self) -> Any:  # noqa: ANN401 - lists
        return [np.asarray(part).tolist() for part in (self.columns, self.knots, self.levels)]

    def __repr__(self) -> str:
        """Show the inner kernel and the number of columns."""
        return f"Warped({self.kernel!r}, {len(np.atleast_1d(self.columns))} columns)"

    def is_stationary(self) -> bool:
        """Return False: equal differences of rows are unequal after warping.

        Returns
        -------
        bool
            False.
        """
        return False

    def map_rows(self, X: Features) -> Features:
        """Return the warped rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, d)
            The warped columns beside the others; dense, as zeros do not stay zeros.
        """
        out = np.array(densify(as_features(X)))
        for column, at, to in self._columns(out.shape[1]):
            out[:, column] = 0.5 * (out[:, column] + np.interp(out[:, column], at, to))
        return out

    def slopes(self, X: Array) -> Array:
        """Return the derivatives of the warped rows, 1 of columns that are not warped.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, d)
            Derivatives; at a knot that of the piece above it.
        """
        out = np.ones(X.shape)
        for column, at, to in self._columns(X.shape[1]):
            piece = np.clip(np.searchsorted(at, X[:, column], side="right") - 1, 0, at.size - 2)
            width = np.diff(at)
            rise = np.where(width > 0.0, np.diff(to) / np.where(width > 0.0, width, 1.0), 0.0)
            inside = (X[:, column] >= at[0]) & (X[:, column] < at[-1])
            out[:, column] = 0.5 * (1.0 + np.where(inside, rise[piece], 0.0))
        return out

    def _columns(self, d: int) -> list[tuple[int, Array, Array]]:
        """Return number, knots and levels of each warped column of d."""
        rows = (np.asarray(part, dtype=np.float64) for part in (self.knots, self.levels))
        return list(zip(column_numbers(self.columns, d).tolist(), *rows, strict=True))
