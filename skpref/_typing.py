"""Type names shared by the whole package (no code)."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import sparray, spmatrix

Array: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
# A dense float64 array or a scipy CSR matrix; scipy's sparse types carry no useful static shape.
Features: TypeAlias = Any
# What estimators take as a table of features, and as a seed.
MatrixLike: TypeAlias = npt.ArrayLike | sparray | spmatrix
RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None
