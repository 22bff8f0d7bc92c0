"""Columns of times: dates, which become years since 1970, or numbers in any unit."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._text import is_number
from skpref._validation import is_missing
from skpref.data.ids import shorten
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.data.columns import Columns

_YEAR = 365.25 * 86_400e6  # microseconds
_UNITS = {"h": 3_600e6, "D": 86_400e6, "W": 7 * 86_400e6, "M": _YEAR / 12, "Y": _YEAR}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([hDWMY])")


def read_times(columns: Columns, name: Any) -> tuple[Array, bool]:
    """Return a column of times as numbers, shape (n,), and whether they were dates, which become years since 1970."""
    column = columns.column(name)
    values = np.asarray(column) if hasattr(column, "dtype") or hasattr(column, "to_numpy") else None
    if values is None or values.dtype.kind != "M":
        cells = columns.cells(name)
        first = next((cell for cell in cells if cell is not None), None)
        if not (isinstance(first, dt.date) or (isinstance(first, str) and not is_number(columns.with_point(first)))):
            return columns.numbers(name, meaning="a time"), False
        columns.refuse_empty("a time is missing", (cell is None for cell in cells), name)
        values = np.array([_date(columns, name, row, cell) for row, cell in enumerate(cells)])
    columns.refuse_empty("a time is missing", np.isnat(values), name)
    return to_years(values), True


def _date(columns: Columns, name: Any, row: int, cell: Any) -> np.datetime64:
    """Return a date, or the text of one as ISO 8601 writes it."""
    try:
        if isinstance(cell, str):
            cell = dt.datetime.fromisoformat(cell.strip())
        if isinstance(cell, dt.datetime) and cell.tzinfo is not None:
            cell = cell.astimezone(dt.UTC).replace(tzinfo=None)
        if isinstance(cell, dt.date):
            return np.datetime64(cell, "us")
    except ValueError:
        pass
    raise columns.fault(f"expected a date such as 2024-05-31, got {shorten(cell)}", row, name)


def to_years(dates: Any) -> Array:
    """Return dates as years since 1970."""
    return np.asarray(dates).astype("datetime64[us]").astype(np.int64) / _YEAR


def to_dates(years: Array) -> Any:
    """Return years since 1970 as dates."""
    return np.rint(np.asarray(years) * _YEAR).astype("datetime64[us]")


def as_times(value: Any, name: str, *, is_dated: bool) -> Array:
    """Return times that a caller gave, of any shape, in the unit of the model: dates, or numbers."""
    cells = np.asarray(value)
    if is_dated:
        try:
            dates = cells if cells.dtype.kind == "M" else np.array(cells.astype(str), dtype="datetime64[us]")
        except ValueError as error:
            raise DataError(f"{name} must be dates, as the times of fit; got {shorten(value)}") from error
        if cells.dtype.kind in "biuf" or np.isnat(dates).any():
            raise DataError(f"{name} must be dates, as the times of fit; got {shorten(value)}")
        return to_years(dates)
    if cells.dtype.kind not in "iuf" or not np.isfinite(cells).all():
        raise DataError(f"{name} must be finite numbers, as the times of fit; got {shorten(value)}")
    return cells.astype(np.float64)


def as_duration(value: Any, name: str, *, is_dated: bool) -> float:
    """Return a length of time in the unit of the model: a number, or with dates a timedelta or a text such as 365D."""
    if is_dated:
        found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
        if found:
            return float(found[1]) * _UNITS[found[2]] / _YEAR
        if isinstance(value, dt.timedelta | np.timedelta64) and not is_missing(value):
            return float(np.timedelta64(value, "us").astype(np.int64)) / _YEAR
        raise DataError(
            f"{name} must be a timedelta or a text such as '365D', since times are dates; got {value!r:.80}"
        )
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 <= value < np.inf:
        raise DataError(f"{name} must be a number >= 0, in the unit of the times; got {value!r:.80}")
    return float(value)
