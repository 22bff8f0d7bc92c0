"""Columns of times, by which rows are split or utilities move: numbers, or dates in several forms."""

from __future__ import annotations

import datetime as dt
import functools
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._text import is_number, lacks_number
from skpref.cli.files import say_note
from skpref.data.times import to_dates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array
    from skpref.data.columns import Columns

_DATE_AND_TIME = re.compile(r"(.*?)(?:[ T,]+([0-9]{1,2}:.*))?")
_YEAR_FIRST = "%Y-%m-%d", "%Y-%m", "%Y"
_WITH_NAME = "%d-%b-%Y", "%d-%B-%Y", "%b-%d-%Y", "%B-%d-%Y"  # 1 Aug 2023, or August 1, 2023
_DAY_FIRST, _MONTH_FIRST = "%d-%m-%Y", "%m-%d-%Y"  # 31.01.2026 or 01/31/2026
_ISO = "dates such as 2026-01-31"
_WANTED = "expected a number or a date such as 2026-01-31, 2026-01-31 18:30 or 31.01.2026"


def read_times(sheet: Columns, column: str | None) -> Array | None:
    """Return the column of dates or numbers by which rows are split, shape (n,)."""
    if column is None:
        return None
    sheet.require((column,), "It was asked for by --time-split")
    texts = sheet.texts(column)
    empty = [row for row, text in enumerate(texts) if lacks_number(text)]
    if empty:
        raise sheet.missing("a date is missing (--time-split)", empty, column)
    if is_number(sheet.with_point(sheet.values[column][0])):
        times = sheet.numbers(column, meaning="a time")
        if all(any(_fits(text, form) for form in ("%d%m%Y", "%m%d%Y")) for text in texts):
            what = f"{texts[0]} looks like a date with its year at the end, and numbers are sorted by size"
            raise sheet.fault(f"{what}; write {_ISO} or 20260131 (--time-split)", 0, column)
    else:
        forms = (*_YEAR_FIRST, _form_of_year_last(sheet, texts, column), *_WITH_NAME)
        times = np.array([_date(sheet, row, column, text, forms) for row, text in enumerate(texts)])
    if np.unique(times).size == 1:
        raise sheet.fault("--time-split needs different times; this column has one", None, column)
    return times


def as_cells(times: Array, *, is_dated: bool) -> NDArray[Any]:
    """Return times as the estimator takes them beside ids, shape (n,)."""
    cells: NDArray[Any] = (to_dates(times) if is_dated else times).astype(object)
    return cells


def _form_of_year_last(sheet: Columns, texts: list[str], column: str) -> str:
    """Return whether dates with the year at the end begin with the day; refuse them where no day is after the 12th."""
    by_day, by_month = (
        {row for row, text in enumerate(texts) if _fits(text, form)} for form in (_DAY_FIRST, _MONTH_FIRST)
    )
    day, month = min(by_day - by_month, default=None), min(by_month - by_day, default=None)
    if day is not None and month is not None:
        what = f"begins with the month, but {texts[day]} on {sheet.unit} {sheet.lines[day]} with the day"
        raise sheet.fault(f"{texts[month]} {what}; write {_ISO} (--time-split)", month, column)
    if by_day and day is None and month is None:
        what = "has the day or the month first, and no date of the column tells which"
        raise sheet.fault(f"{texts[min(by_day)]} {what}; write {_ISO} (--time-split)", min(by_day), column)
    for part, row in (("day", day), ("month", month)):
        if row is not None:
            say_note(f"{sheet.source}: column {column!r} has the {part} first, as {texts[row]} shows")
    return _DAY_FIRST if month is None else _MONTH_FIRST


def _date(sheet: Columns, row: int, column: str, text: str, forms: tuple[str, ...]) -> float:
    """Return a date in seconds."""
    found = next(filter(None, (_parsed(text, form) for form in forms)), None)
    if found is None:
        raise sheet.fault(f"{_WANTED} (--time-split), got {text!r:.40}", row, column)
    return found.timestamp()


def _fits(text: str, form: str) -> bool:
    """Tell whether a text is a date of our time in a form."""
    date = _parsed(text, form)
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
