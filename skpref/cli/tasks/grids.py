"""Grids of ratings, as surveys have them: one row for each person, one column for each item."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from skpref._text import is_number
from skpref.cli.files import say_note
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skpref._typing import Array
    from skpref.cli.options import Data
    from skpref.data.columns import Columns

_PURPOSE = 'It was asked for by --item-ratings, which takes names of columns, or a pattern such as "Q3_*"'
_FEWEST_COLUMNS = 3  # among which one can be unlike the others
_FEWEST_LEVELS, _MOST_LEVELS = 3, 11  # of a scale, such as 0 to 10
_OF_LEVELS = "m3f", "ipm3f", "fm-ordinal"


def item_columns(sheet: Columns, options: Data, taken: Iterable[str | None]) -> tuple[str, ...]:
    """Return the columns that names and patterns of --item-ratings stand for; `taken` have another meaning."""
    others, named, found = set(taken), set(), set()
    for text in options.item_ratings or ():
        if text in sheet.values or "*" not in text:
            sheet.require((text,), _PURPOSE)
            if text in others:
                raise sheet.fault("this column has another meaning; --item-ratings must name others", None, text)
            named.add(text)
            continue
        alike = [name for name in names_like(sheet, text) if name not in others]
        if not alike:
            raise sheet.fault(f"no column has a name like {text!r}. {_PURPOSE}")
        found.update(alike)
    names = tuple(name for name in sheet.names if name in named | found)
    if len(names) < 2:
        raise sheet.fault(f"--item-ratings wants the columns of two items at least; got {names[0]!r}")
    numbers = {name: _numbers(sheet, name) for name in names}
    _check_alike(sheet, numbers, found - named)
    if options.levels is None:
        _check_codes(sheet, numbers, is_error=options.model in _OF_LEVELS)
    return names


def names_like(sheet: Columns, pattern: str) -> list[str]:
    """Return the names of columns that a pattern stands for, in which a * is any text."""
    form = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    return list(filter(form.fullmatch, sheet.names))


def _numbers(sheet: Columns, name: str) -> Array:
    """Return a column as far as it has finite numbers, NaN elsewhere, shape (n,)."""
    cells = [sheet.with_point(cell) for cell in sheet.values[name]]
    values = np.array([float(cell) if is_number(cell) else np.nan for cell in cells])
    return np.where(np.isfinite(values), values, np.nan)


def _check_codes(sheet: Columns, numbers: dict[str, Array], *, is_error: bool) -> None:
    """Complain of numbers beyond the largest gap between ratings: 9 or 99 often stand for no answer."""
    ratings = np.concatenate(list(numbers.values()))
    values = np.unique(ratings[np.isfinite(ratings)])
    if values.size <= _FEWEST_LEVELS:
        return
    cut = int(np.argmax(np.diff(values))) + 1
    few, rest = sorted((values[:cut], values[cut:]), key=len)
    gap = values[cut] - values[cut - 1]
    is_far, is_scale = gap > np.ptp(rest), rest.size <= _MOST_LEVELS and few.size == 1
    if rest.size < _FEWEST_LEVELS or not (is_far or (is_scale and gap >= 2.0 * np.max(np.diff(rest)))):
        return
    name = next(name for name, column in numbers.items() if np.isin(column, few).any())
    row, count = int(np.argmax(np.isin(numbers[name], few))), int(np.isin(ratings, few).sum())
    where = f"{'far' if is_far else 'apart'} from the other ratings, {rest[0]:g} to {rest[-1]:g} ({count} such cells)"
    fault = sheet.fault(
        f"{numbers[name][row]:g} is {where}; if it stands for no answer, leave the cell empty", row, name
    )
    if is_far and is_error:
        raise DataError(f"{fault}; if it is a rating, name all levels by --levels")
    say_note(f"{fault}; now it counts as a rating")


def _check_alike(sheet: Columns, numbers: dict[str, Array], found: set[str]) -> None:
    """Refuse a column that a pattern found if its numbers are unlike those of the others: it is no item, but an age."""
    levels = {name: values[np.isfinite(values)] for name, values in numbers.items()}
    levels = {name: values for name, values in levels.items() if values.size}
    if len(levels) < _FEWEST_COLUMNS:
        return
    low, high = (float(np.median([end(values) for values in levels.values()])) for end in (np.min, np.max))
    for name in [name for name in levels if name in found]:
        values = levels[name]
        far = np.mean((values < 2.0 * low - high) | (values > 2.0 * high - low))
        others = np.unique(np.concatenate([column for other, column in levels.items() if other != name]))
        if far > 0.5 or np.unique(values).size > 2 * others.size:
            raise sheet.fault(
                f"its numbers are {values.min():g} to {values.max():g}, unlike those of other columns, {low:g} to "
                f"{high:g}; if it has the ids of the persons, name it by --user; if it is no item, leave it out by "
                "naming the columns of the items in --item-ratings",
                None,
                name,
            )
