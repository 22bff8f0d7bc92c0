"""Grids of ratings, as surveys have them: one row for each person, one column for each item."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._text import is_number, lacks_number, printable
from skpref.cli.files import USERS, complete_rows, say_note
from skpref.cli.tasks.base import read_weights
from skpref.data.columns import Columns, as_text
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skpref._typing import Array
    from skpref.cli.options import Data

_PURPOSE = 'It was asked for by --item-ratings, which takes names of columns, or a pattern such as "Q3_*"'
_NO_ITEM = "leave it out by naming the columns of the items in --item-ratings"
_FEWEST_COLUMNS = 3  # among which one can be unlike the others
_FEWEST_LEVELS = 3  # from which another number can be far
_MOST_LEVELS = 11  # of a scale, such as 0 to 10
_CODE = "if it stands for no answer, leave the cell empty"
_COUNTS = "now it counts as a rating"
_SHOWN = 20  # names of columns
_LEVELS = "m3f", "ipm3f", "fm-ordinal"


@dataclass(frozen=True, eq=False)
class _Stacked(Columns):
    """A grid as rows of user, item and rating; complaints name the column of the grid."""

    def fault(self, text: str, index: int | None = None, column: str | None = None) -> DataError:
        _, item, rating = self.names[:3]
        if column == item or (column == rating and index is None):
            column = None
        elif column == rating and index is not None:
            column, text = self.values[item][index], f"{text}; --item-ratings takes this column for an item"
        return super().fault(text, index, column)

    def cells_like(self, index: int, name: str) -> Sequence[Any]:
        _, item, rating = self.names[:3]
        if name != rating:
            return super().cells_like(index, name)
        items = self.values[item]
        return [cell for cell, own in zip(self.values[rating], items, strict=True) if own == items[index]]


def stacked(sheet: Columns, options: Data) -> tuple[Columns, Data]:
    """Return a grid as rows of user, item and rating, without its empty cells, and options that name these columns."""
    for option in ("item", "rating"):
        if getattr(options, option) is not None:
            raise sheet.fault(f"--item-ratings reads ratings from columns of items; leave --{option} out")
    found = sheet.usual(*USERS, "id")
    user = options.user or (found if found in sheet.values else None)
    sheet.require([user] if user else [], "It was asked for by --user")
    weight = options.weight
    names = item_columns(sheet, options, (user, weight))
    numbered = replace(sheet, values={**sheet.values, "": list(range(1, len(sheet.lines) + 1))})

    def complete(rows: Columns) -> tuple[Columns, list[str]]:
        """Return rows whose user and weight are there, and the users."""
        read_weights(rows, options)
        return rows, [str(number) for number in rows.values[""]] if user is None else rows.ids(user, "user").tolist()

    rows, users = complete_rows(numbered, complete, options.missing)
    if user is not None:
        _check_once(rows, users, user)
    answered = [(row, name) for row in range(len(users)) for name in names if _is_rated(rows, name, row, options)]
    if not answered:
        raise sheet.fault("no rating is in the columns of --item-ratings")
    taken = [user or "user", *filter(None, [weight])]
    columns: dict[str, list[Any]] = {taken[0]: [users[row] for row, _ in answered]}
    for role, cells in (
        ("item", [name for _, name in answered]),
        ("rating", [rows.values[n][r] for r, n in answered]),
    ):
        columns[next(name for name in (role, f"{role}_", f"{role}__") if name not in taken)] = cells
    item, rating = list(columns)[1:]
    if weight is not None:
        columns[weight] = [rows.values[weight][row] for row, _ in answered]
    _say_what_was_read(sheet, user, names, answered, len(users))
    lines = [rows.lines[row] for row, _ in answered]
    long = _Stacked(columns, lines, sheet.unit, sheet.source, sheet.leave_out, is_text=True, decimal=sheet.decimal)
    return long, replace(options, user=taken[0], item=item, rating=rating, weight=weight, item_ratings=None)


def item_columns(sheet: Columns, options: Data, taken: Iterable[str | None]) -> tuple[str, ...]:
    """Return the columns that names and patterns of --item-ratings stand for; `taken` have another meaning."""
    others = {name for name in taken if name is not None}
    names: dict[str, bool] = {}  # whether a column was found by a pattern
    for text in options.item_ratings or ():
        if text in sheet.values or "*" not in text:
            sheet.require((text,), _PURPOSE)
            if text in others:
                raise sheet.fault("this column has another meaning; --item-ratings must name others", None, text)
            names[text] = False
            continue
        pattern = re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)
        found = [name for name in sheet.names if pattern.fullmatch(name) and name not in others]
        if not found:
            raise sheet.fault(f"no column has a name like {text!r}. {_PURPOSE}")
        names = {**dict.fromkeys(found, True), **names}
    if len(names) < 2:
        raise sheet.fault(f"--item-ratings wants the columns of two items at least; got {next(iter(names))!r}")
    ordered = tuple(name for name in sheet.names if name in names)
    numbers = {name: _numbers(sheet, name) for name in ordered}
    _check_alike(sheet, {name: v[np.isfinite(v)] for name, v in numbers.items()}, {n for n in names if names[n]})
    if options.levels is None:
        _check_codes(sheet, numbers, is_error=options.model in _LEVELS)
    return ordered


def _numbers(sheet: Columns, name: str) -> Array:
    """Return a column as far as it has numbers, NaN elsewhere, shape (n,)."""
    cells = [sheet.with_point(cell) for cell in sheet.values[name]]
    return np.array([float(cell) if is_number(cell) else np.nan for cell in cells])


def _check_codes(sheet: Columns, numbers: dict[str, Array], *, is_error: bool) -> None:
    """Complain of numbers that are far from all others: 99 often stands for no answer."""
    values, counts = np.unique(np.concatenate(list(numbers.values())), return_counts=True)
    values, counts = values[np.isfinite(values)], counts[np.isfinite(values)]
    for cut in range(1, values.size):
        sides = [(values[:cut], counts[:cut].sum()), (values[cut:], counts[cut:].sum())]
        (few, n_few), (most, _) = sorted(sides, key=lambda side: int(side[1]))
        if most.size < _FEWEST_LEVELS or values[cut] - values[cut - 1] <= most[-1] - most[0]:
            continue
        name = next(name for name, column in numbers.items() if np.isin(column, few).any())
        row = int(np.flatnonzero(np.isin(numbers[name], few))[0])
        rest = f"far from other ratings, {most[0]:g} to {most[-1]:g} ({n_few} such cells)"
        fault = sheet.fault(f"{numbers[name][row]:g} is {rest}; {_CODE}", row, name)
        if is_error:
            raise DataError(f"{fault}; if it is a rating, name all levels by --levels")
        say_note(f"{fault}; {_COUNTS}")
        return
    _note_gap(sheet, numbers, values, counts)


def _note_gap(sheet: Columns, numbers: dict[str, Array], values: Array, counts: Array) -> None:
    """Tell the user of one number beyond a gap in the levels: after 1 to 5, a 9 often stands for no answer."""
    for alone, rest in ((-1, values[:-1]), (0, values[1:])):
        steps = np.diff(rest)
        if not _FEWEST_LEVELS <= rest.size <= _MOST_LEVELS or np.ptp(steps) > 0.0:
            continue
        if np.min(np.abs(values[alone] - rest)) < 2.0 * steps[0]:
            continue
        name = next(name for name, column in numbers.items() if (column == values[alone]).any())
        row = int(np.flatnonzero(numbers[name] == values[alone])[0])
        apart = f"apart from the other ratings, {rest[0]:g} to {rest[-1]:g} ({counts[alone]} such cells)"
        fault = sheet.fault(f"{values[alone]:g} is {apart}; {_CODE}; {_COUNTS}", row, name)
        say_note(str(fault))


def _check_alike(sheet: Columns, numbers: dict[str, Array], found: set[str]) -> None:
    """Refuse a column that a pattern found if its numbers are unlike those of the others: it is no item, but an age."""
    numbers = {name: values for name, values in numbers.items() if values.size}
    if len(numbers) < _FEWEST_COLUMNS:
        return
    low, high = (float(np.median([end(v) for v in numbers.values()])) for end in (np.min, np.max))
    span = high - low
    for name in found & numbers.keys():
        values = numbers[name]
        far = np.mean((values < low - span) | (values > high + span))
        others = np.unique(np.concatenate([v for other, v in numbers.items() if other != name]))
        if far > 0.5 or np.unique(values).size > 2 * others.size:
            shown = f"{values.min():g} to {values.max():g}, unlike those of other columns, {low:g} to {high:g}"
            what = "if it has the ids of the persons, name it by --user; if it is no item"
            raise sheet.fault(f"its numbers are {shown}; {what}, {_NO_ITEM}", None, name)


def _check_once(sheet: Columns, users: Sequence[str], column: str) -> None:
    first: dict[str, int] = {}
    for row, user in enumerate(users):
        if first.setdefault(user, row) != row:
            before = f"{sheet.unit} {sheet.lines[first[user]]}"
            why = "in a grid, a row is one person, and --user names the column of their ids"
            raise sheet.fault(f"user {user[:80]!r} occurs twice (first on {before}); {why}", row, column)


def _is_rated(sheet: Columns, name: str, row: int, options: Data) -> bool:
    cell = sheet.values[name][row]
    return not lacks_number(cell) or as_text(cell) in (options.levels or ())


def _say_what_was_read(
    sheet: Columns, user: str | None, names: Sequence[str], answered: Sequence[tuple[int, str]], n_rows: int
) -> None:
    """Tell the user which columns are items, who the users are, and what is left out."""
    users = "users are numbered by rows" if user is None else f"users from {printable(user)!r}"
    n_cells = len(names) * n_rows
    notes = [f"{_items(names)}; {users}; {n_cells - len(answered)} of {n_cells} cells have no rating"]
    silent = n_rows - len({row for row, _ in answered})
    notes += [
        f"{silent} {'row has no rating and is' if silent == 1 else 'rows have no rating and are'} left out"
    ] * bool(silent)
    rated = {name for _, name in answered}
    notes += [f"column {printable(name)!r} has no rating and is no item" for name in names if name not in rated][:5]
    _say(sheet, *notes)


def say_items(sheet: Columns, names: Sequence[str]) -> None:
    """Tell the user which columns are items."""
    _say(sheet, _items(names))


def _items(names: Sequence[str]) -> str:
    shown = ", ".join(map(printable, names[:_SHOWN])) + ", ..." * (len(names) > _SHOWN)
    return f"{len(names)} columns are items: {shown}"


def _say(sheet: Columns, *notes: str) -> None:
    for note in notes:
        say_note(f"{sheet.source}: {note}")
