"""Columns of times, by which rows are split or utilities move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.data.times import read_times, to_dates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array
    from skpref.data.columns import Columns


def split_times(sheet: Columns, column: str | None) -> Array | None:
    """Return the column of dates or numbers by which rows are split, shape (n,)."""
    if column is None:
        return None
    sheet.require((column,), "It was asked for by --time-split")
    times, _ = read_times(sheet, column, is_order_enough=True)
    if np.unique(times).size == 1:
        raise sheet.fault("--time-split needs different times; this column has one", None, column)
    return times


def as_cells(times: Array, *, is_dated: bool) -> NDArray[Any]:
    """Return times as the estimator takes them beside ids, shape (n,)."""
    cells: NDArray[Any] = (to_dates(times) if is_dated else times).astype(object)
    return cells
