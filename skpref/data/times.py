"""Columns of times: dates, which become years since 1970, or numbers in any unit."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._text import is_number
from skpref.data.ids import shorten
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.data.columns import Columns

_YEAR = 365.25 * 86_400e6  # microseconds
_UNITS = {"h": 3_600e6, "D": 86_400e6, "W": 7 * 86_400e6, "M": _YEAR / 12, "Y": _YEAR}
_LARGEST = 1e100  # size of a time: differences stay finite
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([hDWMY])")


def read_times(columns: Columns, name: Any) -> tuple[Array, bool]:
    """Return a column of times as numbers, shape (n,), and whether they were dates, which become years since 1970."""
    column = columns.column(name)
    values = np.asarray(column) if hasattr(column, "dtype") or hasattr(column, "to_numpy") else None
    if values is None or values.dtype.kind != "M":
        cells = columns.cells(name)
        first = next((cell for cell in cells if cell is not None), None)
        is_text = isinstance(first, str) and not is_number(columns.with_point(first))
        if not (is_text or isinstance(first, dt.date | np.datetime64)):
            return _numbers(columns, name), False
        columns.refuse_empty("a time is missing", (cell is None for cell in cells), name)
        dates = [_date(cell) for cell in cells]
        wrong = next((row for row, date in enumerate(dates) if date is None), None)
        if wrong is not None:
            raise columns.fault(f"expected a date such as 2024-05-31, got {shorten(cells[wrong])}", wrong, name)
        values = np.array(dates, dtype="datetime64[us]")
    columns.refuse_empty("a time is missing", np.isnat(values), name)
    far = np.flatnonzero(~_within_reach(values))
    if far.size:
        raise columns.fault(f"expected a date of the years 1 to 9999, got {values[far[0]]}", int(far[0]), name)
    return to_years(values), True


def _numbers(columns: Columns, name: Any) -> Array:
    """Return times that are numbers; ask where they may be dates."""
    times = columns.numbers(name, -_LARGEST, _LARGEST, "a time")
    texts = [f"{time:.0f}" for time in times.tolist()] if times.size and (times % 1.0 == 0.0).all() else ["none"]
    if all(len(text) == len("20240531") and _date(f"{text[:4]}-{text[4:6]}-{text[6:]}") is not None for text in texts):
        raise columns.fault(
            f"{texts[0]} may be a date, or a number whose differences are not days: write dates as 2024-05-31, or "
            "count days",
            0,
            name,
        )
    return times


def _date(cell: Any) -> np.datetime64 | None:
    """Return a date, or the text of one as ISO 8601 writes it; None of anything else."""
    try:
        if isinstance(cell, str):
            cell = dt.datetime.fromisoformat(cell.strip())
        if isinstance(cell, dt.datetime) and cell.tzinfo is not None:
            cell = cell.astimezone(dt.UTC).replace(tzinfo=None)
        if isinstance(cell, np.datetime64):
            return cell if _within_reach(cell) else None
        return np.datetime64(cell.isoformat(), "us") if isinstance(cell, dt.date) else None
    except ValueError:
        return None


def _within_reach(dates: Any) -> Any:
    """Return which dates are of the years 1 to 9999: far from them, microseconds leave 64 bits."""
    years = dates.astype("datetime64[Y]").astype(np.int64) + 1970
    return (years >= 1) & (years <= dt.MAXYEAR)


def to_years(dates: Any) -> Array:
    """Return dates as years since 1970."""
    return np.asarray(dates).astype("datetime64[us]").astype(np.int64) / _YEAR


def to_dates(years: Array) -> Any:
    """Return years since 1970 as dates."""
    return np.rint(np.asarray(years) * _YEAR).astype("datetime64[us]")


def as_times(value: Any, name: str, *, is_dated: bool) -> Array:
    """Return times that a caller gave, of any shape, in the unit of the column of times: dates, or numbers."""
    cells = np.asarray(value)
    if is_dated:
        if cells.dtype.kind != "M":
            cells = np.asarray(value, dtype=object)
            dates = [_date(cell) for cell in cells.ravel().tolist()]
            cells = np.array(dates, dtype="datetime64[us]").reshape(cells.shape)  # None is no time
        if np.isnat(cells).any() or not _within_reach(cells).all():
            raise DataError(f"{name} must be dates such as 2024-05-31, as the column of times; got {shorten(value)}")
        return to_years(cells)
    if cells.dtype.kind not in "iuf" or not (np.abs(cells) <= _LARGEST).all():
        raise DataError(
            f"{name} must be finite numbers up to {_LARGEST:g}, as the column of times; got {shorten(value)}"
        )
    return cells.astype(np.float64)


def as_duration(value: Any, name: str, *, is_dated: bool) -> float:
    """Return a length of time in the unit of the model: a number, or with dates a timedelta or a text such as 365D."""
    if is_dated:
        found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
        length = -1.0
        if found:
            length = float(found[1]) * _UNITS[found[2]] / _YEAR
        elif isinstance(value, dt.timedelta):
            length = value / dt.timedelta(microseconds=_YEAR)
        elif isinstance(value, np.timedelta64) and not np.isnat(value):
            length = _years_of(value)
        if not length >= 0.0:
            raise DataError(
                f"{name} must be a timedelta >= 0 or a text such as '365D', as times are dates; got {value!r:.80}"
            )
        return length
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 <= value < np.inf:
        raise DataError(f"{name} must be a number >= 0, in the unit of the times; got {value!r:.80}")
    return float(value)


def _years_of(length: np.timedelta64) -> float:
    """Return a length of time in years, of 365.25 days each."""
    unit, step = np.datetime_data(length.dtype)
    if unit in {"Y", "M"}:  # of calendars, which numpy refuses to count in days
        return float(length.astype(np.int64)) * step * _UNITS[unit] / _YEAR
    return float(length.astype("timedelta64[us]").astype(np.int64)) / _YEAR
