"""Columns of times: dates, which become years since 1970, or numbers in any unit."""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skpref._math.limits import LARGEST
from skpref._text import is_number, lacks_number
from skpref._typing import Array
from skpref.data.columns import Columns
from skpref.data.ids import shorten
from skpref.data.policy import POLICY
from skpref.exceptions import DataError

_YEAR = 365.25 * 86_400e6  # microseconds
_UNITS = {"h": 3_600e6, "D": 86_400e6, "W": 7 * 86_400e6, "M": _YEAR / 12, "Y": _YEAR}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([hDWMY])")
_DATE_AND_TIME = re.compile(r"(.*?)(?:[ T,]+([0-9]{1,2}:.*))?")
_YEAR_FIRST = "%Y-%m-%d", "%Y-%m", "%Y"
_WITH_NAME = "%d-%b-%Y", "%d-%B-%Y", "%b-%d-%Y", "%B-%d-%Y"  # 1 Aug 2023, or August 1, 2023
_DAY_FIRST, _MONTH_FIRST = "%d-%m-%Y", "%m-%d-%Y"  # 31.01.2026 or 01/31/2026
_AS_NUMBERS = "%Y%m%d", "%d%m%Y", "%m%d%Y"
_ISO = "write dates as 2024-05-31"


def read_times(columns: Columns, name: Any, *, is_order_enough: bool = False) -> tuple[Array, bool]:
    """Return a column of times as numbers, shape (n,), and whether they were dates, which become years since 1970.

    Dates in files have several forms, in tables that of ISO 8601 alone. With `is_order_enough`, numbers such as
    20240531 are numbers: they increase as the dates do.
    """
    column = columns.column(name)
    values = np.asarray(column) if hasattr(column, "dtype") or hasattr(column, "to_numpy") else None
    if values is None or values.dtype.kind != "M":
        cells = [None if isinstance(cell, str) and lacks_number(cell) else cell for cell in columns.cells(name)]
        first = next((cell for cell in cells if cell is not None), None)
        is_text = isinstance(first, str) and not is_number(columns.with_point(first))
        if not (is_text or isinstance(first, dt.date | np.datetime64)):
            return _numbers(columns, name, is_order_enough=is_order_enough), False
        columns.refuse_empty("a time is missing", (cell is None for cell in cells), name)
        values = np.array(_dates(columns, name, cells), dtype="datetime64[us]")
    columns.refuse_empty("a time is missing", np.isnat(values), name)
    far = np.flatnonzero(~_within_reach(values))
    if far.size:
        raise columns.fault(f"expected a date of the years 1 to 9999, got {values[far[0]]}", int(far[0]), name)
    return to_years(values), True


def _numbers(columns: Columns, name: Any, *, is_order_enough: bool) -> Array:
    """Return times that are numbers; ask where they may be dates."""
    times = columns.numbers(name, -LARGEST, LARGEST, "a time")
    texts = [f"{time:.0f}" if time % 1.0 == 0.0 else "" for time in times.tolist()]
    forms = _AS_NUMBERS[is_order_enough:]
    if texts and all(any(_is_recent(text, form) for form in forms) for text in texts):
        what = f"{texts[0]} may be a date, or a number whose differences are not days"
        raise columns.fault(f"{what}: {_ISO}, or count days", 0, name)
    return times


def _dates(columns: Columns, name: Any, cells: Sequence[Any]) -> list[np.datetime64]:
    """Return dates; refuse cells that are none."""
    dates = [_date(cell) for cell in cells]
    others = {row: cells[row] for row, date in enumerate(dates) if date is None}
    forms: tuple[str, ...] = ()
    if others and columns.is_text:
        forms = *_YEAR_FIRST, _form_of_year_last(columns, name, others), *_WITH_NAME
    for row, cell in others.items():
        date = next(filter(None, (_parsed(str(cell), form) for form in forms)), None)
        if date is None:
            advice = "; pandas.to_datetime reads other forms, and 31/05/2024 with dayfirst=True"
            more, advice = (" or 31.05.2024", "") if columns.is_text else ("", advice)
            raise columns.fault(f"expected a date such as 2024-05-31{more}, got {shorten(cell)}{advice}", row, name)
        dates[row] = _date(date)
    return [date for date in dates if date is not None]


def _form_of_year_last(columns: Columns, name: Any, texts: Mapping[int, Any]) -> str:
    """Return whether dates with the year at the end begin with the day; refuse them where no day is after the 12th."""
    by_day, by_month = (
        {row for row, text in texts.items() if _is_recent(text, form)} for form in (_DAY_FIRST, _MONTH_FIRST)
    )
    day, month = min(by_day - by_month, default=None), min(by_month - by_day, default=None)
    forms = {_DAY_FIRST: "day", _MONTH_FIRST: "month"}
    if day is not None and month is not None:
        what = f"begins with the month, but {texts[day]} on {columns.unit} {columns.lines[day]} with the day"
        raise columns.fault(f"{texts[month]} {what}; {_ISO}", month, name)
    row, form = (day, _DAY_FIRST) if month is None else (month, _MONTH_FIRST)
    if by_day and row is None and (form := columns.dates.get(name, "")) not in forms:
        what = "has the day or the month first, and no date of the column tells which"
        raise columns.fault(f"{texts[min(by_day)]} {what}; {_ISO}", min(by_day), name)
    if by_day or row is not None:
        columns.dates[name] = form
        why = "as in the data of the model" if row is None else f"as {texts[row]} shows"
        columns.notes.append(f"{columns.source}: column {name!r} has the {forms[form]} first, {why}")
    return form


def date_of_file(text: str, form: str | None) -> Any:
    """Return a date as a file writes it, with the year last in a known form; other text as it is."""
    dates = (_date(_parsed(text, one)) for one in (*_YEAR_FIRST, form or "", *_WITH_NAME))
    return next((date for date in dates if date is not None), text)


def _is_recent(text: Any, form: str) -> bool:
    """Tell whether a text is a date of our time in a form."""
    date = _parsed(str(text), form)
    return date is not None and 1900 <= date.year <= 2100


@functools.lru_cache(maxsize=100_000)
def _parsed(text: str, form: str) -> dt.datetime | None:
    """Return a date and perhaps a time of day, UTC unless the time names another zone; None if the form is another."""
    match: Any = _DATE_AND_TIME.fullmatch(text)
    try:
        date = dt.datetime.strptime(re.sub(r"[\s./,-]+", "-", match[1]), form).date()  # noqa: DTZ007 - a date
        time = dt.time() if match[2] is None else dt.time.fromisoformat(re.sub("^(.):", r"0\1:", match[2]))
    except ValueError:
        return None
    return dt.datetime.combine(date, time, time.tzinfo or dt.UTC)


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


def to_cells(times: Array, *, is_dated: bool) -> Any:
    """Return times as an estimator takes them beside ids: dates, or numbers."""
    return (to_dates(times) if is_dated else times).astype(object)


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
    if cells.dtype.kind not in "iuf" or not (np.abs(cells) <= LARGEST).all():
        raise DataError(
            f"{name} must be finite numbers up to {LARGEST:g}, as the column of times; got {shorten(value)}"
        )
    return cells.astype(np.float64)


def as_time(value: Any, name: str, *, is_dated: bool) -> float:
    """Return one time that a caller gave, in the unit of the column of times."""
    time = as_times(value, name, is_dated=is_dated)
    if time.ndim:
        raise DataError(f"{name} must be one time; got {shorten(value)}. For utilities at several times, see curves")
    return float(time)


def as_grid(times: Any, span: tuple[float, float], *, is_dated: bool) -> Array:
    """Return the times of curves, shape (n,): the given ones, or 100 from the first to the last comparison."""
    if times is None:
        return np.linspace(*span, POLICY.times)
    grid = np.atleast_1d(as_times(times, "times", is_dated=is_dated))
    if grid.ndim > 1:
        raise DataError(f"times must be one list of times; got {shorten(times)}")
    return grid


def refuse_other_kind(column: Any, *, now: bool, then: bool) -> None:
    """Refuse dates where the times of fit were numbers, and numbers where they were dates."""
    if now != then:
        kinds = "numbers", "dates"
        raise DataError(f"the times of X, column {column!r}, are {kinds[now]}, and those of fit were {kinds[then]}")


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
