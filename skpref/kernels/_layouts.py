"""Layouts: the pairs of rows at which a kernel is evaluated.

There are four: all pairs of two tables, all pairs of one table, each row with itself, and row i with row i. Kernel
rules take any layout, so sums and products of kernels recurse without knowing it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
from scipy import sparse

from skpref._validation import check_sparse

if TYPE_CHECKING:
    import numpy.typing as npt

    from skpref._typing import Array, Features

# Numbers in a temporary array (16 MiB): limits the memory of densified rows and products of rows.
_CHUNK = 1 << 21


class _Pairs:
    """Pairs of rows of one table or two."""

    loop: ClassVar[str]  # name of the compiled loop over these pairs

    @property
    def tables(self) -> tuple[Features, ...]:
        """The tables, as they are passed to the constructor."""
        return tuple(vars(self).values())

    @property
    def sides(self) -> tuple[Features, Features]:
        """The tables of the first and of the second row of each pair."""
        tables = self.tables
        return tables[0], tables[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the kernel values."""
        left, right = self.sides
        return (left.shape[0], right.shape[0]) if isinstance(self, Cross | Gram) else (left.shape[0],)


@dataclass(frozen=True, eq=False)
class Cross(_Pairs):
    """All pairs (x_i, z_j), without white noise, even for equal rows."""

    loop = "cross"
    X: Features  # (n, d): rows
    Z: Features  # (m, d): columns


@dataclass(frozen=True, eq=False)
class Gram(_Pairs):
    """All pairs (z_i, z_j) of one table, with white noise on the diagonal."""

    loop = "gram"
    Z: Features  # (m, d): rows


@dataclass(frozen=True, eq=False)
class Diagonal(_Pairs):
    """Each row with itself, with white noise: the prior variances."""

    loop = "paired"
    X: Features  # (n, d): rows


@dataclass(frozen=True, eq=False)
class Paired(_Pairs):
    """Pairs (x_i, y_i) of rows with the same number, without white noise."""

    loop = "paired"
    X: Features  # (n, d): rows
    Y: Features  # (n, d): rows


Layout: TypeAlias = Cross | Gram | Diagonal | Paired


def as_features(X: Features) -> Features:
    """Return a C-contiguous float64 array of two dimensions, or a canonical float64 `csr_array`, shape (n, d)."""
    if not sparse.issparse(X):
        return np.ascontiguousarray(np.atleast_2d(X), dtype=np.float64)
    return check_sparse(X)


def as_pair(X: Features, Y: Features) -> tuple[Features, Features]:
    """Return two tables in one format: both dense, or both CSR if either is."""
    X, Y = as_features(X), as_features(Y)
    if X.shape[1] != Y.shape[1]:
        msg = (
            f"X and Y: got {X.shape[1]} and {Y.shape[1]} features, wanted the same number; "
            "pass both through the same preprocessing"
        )
        raise ValueError(msg)
    if sparse.issparse(X) != sparse.issparse(Y):
        return as_features(sparse.csr_array(X)), as_features(sparse.csr_array(Y))
    return X, Y


def densify(X: Features) -> Array:
    """Return a dense copy of CSR rows; dense rows are returned unchanged, shape (n, d)."""
    dense: Array = X.toarray() if sparse.issparse(X) else X
    return dense


def row_chunks(X: Features, most: int = _CHUNK) -> list[slice]:
    """Cut the rows of a table into slices of at most `most` rows, which take at most 16 MiB when dense."""
    n, width = X.shape
    step = max(1, min(most, _CHUNK // max(width, 1)))
    return [slice(first, min(first + step, n)) for first in range(0, n, step)]


def one_or_each(name: str, value: npt.ArrayLike, d: int) -> Array:
    """Return a parameter that is one number, shape (), or one for each of d features, shape (d,)."""
    numbers = np.squeeze(np.asarray(value, dtype=np.float64))
    if numbers.ndim > 1 or (numbers.ndim == 1 and numbers.shape[0] != d):
        msg = (
            f"{name}: got shape {numbers.shape} for {d} features, wanted one number or one per feature; "
            "pass a number to share it"
        )
        raise ValueError(msg)
    return numbers
