"""Columns of times, by which rows are split: numbers, or dates in several forms."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._text import is_number, lacks_number
from skpref.cli.files import say_note

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.data.columns import Columns

_YEAR_FIRST = re.compile(r"([0-9]{4})(?:[-./]([0-9]{1,2})(?:[-./]([0-9]{1,2})(?:[ T](.+))?)?)?")
_YEAR_LAST = re.compile(r"([0-9]{1,2})([-./])([0-9]{1,2})\2([0-9]{4})(?:[ T](.+))?")  # 31.01.2026 or 01/31/2026
_DAY_OF_MONTH = re.compile(r"([0-9]{1,2})[ .-]+([a-z]+)[ .,-]+([0-9]{4})(?:[ T,]+(.+))?", re.IGNORECASE)  # 1 Aug 2023
_MONTH_FIRST = re.compile(r"([a-z]+)[ .]+([0-9]{1,2}),? +([0-9]{4})(?:[ T,]+(.+))?", re.IGNORECASE)  # August 1, 2023
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_ISO = "dates such as 2026-01-31"
_WANTED = "expected a number or a date such as 2026-01-31, 2026-01-31 18:30 or 31.01.2026"


def read_times(sheet: Columns, column: str | None) -> Array | None:
    """Return the column of dates or numbers by which rows are split, shape (n,)."""
    if column is None:
        return None
    sheet.require((column,), "It was asked for by --time-split")
    empty = [row for row, cell in enumerate(sheet.values[column]) if lacks_number(cell)]
    if empty:
        raise sheet.missing("a date is missing (--time-split)", empty, column)
    if is_number(sheet.with_point(sheet.values[column][0])):
        times = sheet.numbers(column, meaning="a time")
        if _have_year_last(times):
            what = f"{times[0]:.0f} looks like a date with its year at the end, and numbers are sorted by size"
            raise sheet.fault(f"{what}; write {_ISO} or 20260131 (--time-split)", 0, column)
    else:
        day_first = _has_day_first(sheet, column)
        times = np.array([_date(sheet, row, column, day_first=day_first) for row in range(len(sheet.lines))])
    if np.unique(times).size == 1:
        raise sheet.fault("--time-split needs different times; this column has one", None, column)
    return times


def _have_year_last(numbers: Array) -> bool:
    """Tell whether numbers are dates such as 31012026 or 1312026, whose order is not that of their sizes."""
    start, year = np.divmod(numbers, 10_000)
    first, second = np.divmod(start, 100)
    either_first = (np.minimum(first, second) <= 12) & (np.maximum(first, second) <= 31)
    return bool(np.all((first >= 1) & (second >= 1) & either_first & (year >= 1900) & (year <= 2100) & (year % 1 == 0)))


def _has_day_first(sheet: Columns, column: str) -> bool:
    """Tell whether dates with the year at the end begin with the day; refuse them where no day is after the 12th."""
    dates = {row: match for row, cell in enumerate(sheet.texts(column)) if (match := _YEAR_LAST.fullmatch(cell))}
    days, months = ([row for row, match in dates.items() if int(match[place]) > 12] for place in (1, 3))
    if days and months:
        other = sheet.texts(column)[days[0]]
        what = f"begins with the month, but {other} on {sheet.unit} {sheet.lines[days[0]]} with the day"
        raise sheet.fault(f"{sheet.texts(column)[months[0]]} {what}; write {_ISO} (--time-split)", months[0], column)
    if dates and not days and not months:
        row = next(iter(dates))
        what = "has the day or the month first, and no date of the column tells which"
        raise sheet.fault(f"{sheet.texts(column)[row]} {what}; write {_ISO} (--time-split)", row, column)
    if dates:
        part, row = ("day", days[0]) if days else ("month", months[0])
        say_note(f"{sheet.source}: column {column!r} has the {part} first, as {sheet.texts(column)[row]} shows")
    return bool(days)


def _date(sheet: Columns, row: int, column: str, *, day_first: bool) -> float:
    """Return a date in seconds."""
    cell = sheet.values[column][row]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # NumPy counts time zones in, and warns that it keeps none
            value = np.datetime64(_as_iso(cell.strip(), day_first=day_first) if isinstance(cell, str) else cell, "s")
    except (TypeError, ValueError) as error:
        raise sheet.fault(f"{_WANTED} (--time-split), got {str(cell)!r:.40}", row, column) from error
    if np.isnat(value):
        raise sheet.missing("a date is missing (--time-split)", [row], column)
    return float(value.astype(np.int64))


def _as_iso(text: str, *, day_first: bool) -> str:
    """Return a date with the year first, with two digits for month and day."""
    parts: Any = None
    if match := _YEAR_LAST.fullmatch(text):
        parts = (match[4], match[3], match[1], match[5]) if day_first else (match[4], match[1], match[3], match[5])
    elif match := _YEAR_FIRST.fullmatch(text):
        parts = match.groups()
    elif match := _DAY_OF_MONTH.fullmatch(text):
        parts = match[3], _month(match[2]), match[1], match[4]
    elif match := _MONTH_FIRST.fullmatch(text):
        parts = match[3], _month(match[1]), match[2], match[4]
    if parts is None:
        raise ValueError(text)
    year, month, day, time = parts
    return "-".join([year, *(part.zfill(2) for part in (month, day) if part)]) + (f" {time}" if time else "")


def _month(name: str) -> str:
    """Return the number of a month by its English name, or by three or more of its letters."""
    for number, month in enumerate(_MONTHS, 1):
        if month.startswith(name.lower()) and len(name) >= 3:
            return str(number)
    raise ValueError(name)
