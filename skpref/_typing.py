"""Type names shared by the whole package (no code)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from os import PathLike
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import sparray, spmatrix

Array: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]
# A dense float64 array or a scipy CSR matrix; scipy's sparse types carry no useful static shape.
Features: TypeAlias = Any
# What estimators take as a table of features, and as a seed.
MatrixLike: TypeAlias = npt.ArrayLike | sparray | spmatrix
RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None
# Rows of ids, which may be any hashables: dates and tuples too.
IdRows: TypeAlias = npt.ArrayLike | Sequence[Sequence[Hashable]]


class ArrowDataset(Protocol):
    """A `pyarrow.dataset.Dataset`, by the methods that tables of pyarrow lack; pyarrow has no types."""

    def scanner(self) -> object:
        """Return a scan of the dataset."""


class DaskCollection(Protocol):
    """A frame or an array of Dask, which has no types."""

    def to_delayed(self) -> object:
        """Return the partitions."""


# Rows that are not in memory; a str is already an ArrayLike.
Stored: TypeAlias = PathLike[str] | ArrowDataset | DaskCollection
