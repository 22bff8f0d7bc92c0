"""A kernel on some of the columns."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.kernels._inner import InnerKernelBase
from skpref.kernels._layouts import as_features

if TYPE_CHECKING:
    import numpy.typing as npt
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Features, IntArray


class Columns(InnerKernelBase):
    """Kernel on some columns of its input: k(x, z) = kernel(x[columns], z[columns]).

    Different kinds of features need different covariances. For example, a few measured quantities and a hundred
    components of a text differ in smoothness and in the share of the utility that they explain. In a sum of `Columns`
    each kind has its own kernel and, with a factor `ConstantKernel`, its own scale.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Any kernel. Its hyperparameters become those of `Columns`, with the names ``kernel__...``. A vector of
        length-scales has one for each chosen column, in their order.
    columns : list of int, slice or mask of shape (d,)
        The columns: distinct numbers from 0, a slice, or a mask. They are checked when the kernel is evaluated.

    Notes
    -----
    Every evaluation copies the chosen columns; CSR rows stay CSR.

    Examples
    --------
    Two measured columns with a smooth kernel, and a linear one for the rest:

    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import ConstantKernel
    >>> from skpref.kernels import AdditiveMatern, Columns, Linear
    >>> smooth, linear = Columns(AdditiveMatern(4.0), slice(0, 2)), Columns(Linear(), slice(2, None))
    >>> kernel = smooth + ConstantKernel(0.1) * linear
    >>> X = np.array([[0.0, 0.0, 1.0, 2.0], [1.0, 2.0, 0.0, 1.0]])
    >>> kernel(X).round(4)
    array([[1.5   , 1.0571],
           [1.0571, 1.1   ]])
    """

    def __init__(self, kernel: Kernel, columns: npt.ArrayLike | slice) -> None:
        self.kernel = kernel
        self.columns = columns

    def _key(self) -> tuple[str, Any]:
        """Return `columns` in a form that can be compared."""
        if isinstance(self.columns, slice):
            return "slice", (self.columns.start, self.columns.stop, self.columns.step)
        columns = np.asarray(self.columns)
        return columns.dtype.kind, columns.tolist()

    def __repr__(self) -> str:
        """Show the inner kernel and the columns."""
        return f"Columns({self.kernel!r}, [{_shown(self.columns)}])"

    def map_rows(self, X: Features) -> Features:
        """Return the chosen columns.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        ndarray or CSR of shape (n, n_chosen)
            The columns in their order.
        """
        # Selected columns may be in Fortran order, or have CSR indices out of order.
        return as_features(X[:, column_numbers(self.columns, X.shape[1])])


def column_numbers(columns: npt.ArrayLike | slice, d: int) -> IntArray:
    """Return the numbers of the chosen columns, shape (n_chosen,); raise an error if they do not fit d columns."""
    if isinstance(columns, slice):
        return _read_slice(columns, d)
    array = np.asarray(columns)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "biu":
        msg = f"columns: got {columns!r}, wanted a list of column numbers, a slice or a boolean mask"
        raise ValueError(f"{msg}; for the third column alone, [2]")
    return _read_mask(array, d) if array.dtype.kind == "b" else _read_list(array, d)


def _read_slice(columns: slice, d: int) -> IntArray:
    beyond = [end for end in (columns.start, columns.stop) if end is not None and abs(end) > d]
    chosen = np.arange(d, dtype=np.int64)[columns]
    if beyond or chosen.size == 0:
        msg = f"columns: got {columns!r} for {d} features, wanted a non-empty part of 0:{d}"
        raise ValueError(f"{msg}; for all columns to the last one use an open end, as in slice(2, None)")
    return chosen


def _read_mask(mask: npt.NDArray[Any], d: int) -> IntArray:
    if mask.shape[0] != d or not mask.any():
        msg = f"columns: got a mask of {mask.shape[0]} with {int(mask.sum())} True for {d} features, wanted one of {d}"
        raise ValueError(f"{msg} with at least one True; pass the table with all its columns")
    return np.flatnonzero(mask).astype(np.int64)


def _read_list(numbers: npt.NDArray[Any], d: int) -> IntArray:
    # Python's integers: an unsigned 64-bit number beyond the signed ones must not wrap around.
    outside = [number for number in numbers.tolist() if not 0 <= number < d]
    if outside:
        msg = f"columns: got column {outside[0]} for {d} features, wanted numbers in 0..{d - 1}"
        raise ValueError(f"{msg}; pass the table with all its columns, and count from its first")
    chosen = numbers.astype(np.int64)
    distinct, count = np.unique(chosen, return_counts=True)
    if distinct.shape != chosen.shape:
        msg = f"columns: got column {distinct[count > 1][0]} {count.max()} times, wanted each at most once"
        raise ValueError(f"{msg}; for more weight, add a separate kernel on this column")
    return chosen


def _shown(columns: npt.ArrayLike | slice) -> str:
    """Return the columns as short text, with runs of three or more numbers as first:stop."""
    if isinstance(columns, slice):
        ends = ("" if end is None else str(end) for end in (columns.start, columns.stop))
        return ":".join(ends) + ("" if columns.step is None else f":{columns.step}")
    array = np.atleast_1d(np.asarray(columns))
    numbers = np.flatnonzero(array).tolist() if array.dtype.kind == "b" else array.tolist()
    runs = ([n for _, n in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]))
    parts = ([f"{run[0]}:{run[-1] + 1}"] if len(run) > 2 else map(str, run) for run in runs)
    return ", ".join(part for run in parts for part in run)
