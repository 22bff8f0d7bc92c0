"""The columns of a table by name: the one place where a cell becomes an id, a number or a word."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse

from skpref._text import is_number, lacks_number, nearest, number, plain, with_point
from skpref._typing import Array
from skpref._validation import column_names, is_missing, refuse_collection, refuse_repeated_columns
from skpref.data.ids import LEAVE_OUT, IdColumn, as_ids, objects, shorten
from skpref.data.policy import POLICY
from skpref.exceptions import DataError

Column = Any  # name of a column (str, or the position in an array)
Result = TypeVar("Result")

_TABLE = "be a data frame, a dict of columns, or an array with one row for each comparison"
NO_ROWS = "Found array with 0 sample(s) while a minimum of 1 is required for {}: it has no {}"
DROP = "leave such rows out by missing='drop'"
WHOLE_NUMBER = re.compile(r"-?[0-9]+(\.0)?")
# Parameters of the readers by the name of a column that they read by default.
_PARAMETERS = {name: name for name in ("left", "right", "winner", "chosen")}
_PARAMETERS |= {"wins": "counts", "losses": "counts", "person": "user"}
TRUTH = {"true": 1.0, "false": 0.0}


class MissingCellError(DataError):
    """Cells that are needed are empty."""

    def __init__(self, message: str, rows: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.rows = rows  # of the table: all that lack such a cell


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of a table by name, with the place of each row for messages."""

    values: Mapping[Any, Any]  # by name: a column of a data frame, an array or a list
    lines: Sequence[Any]  # what messages call each row: its number from 0, or its line in a file
    unit: str = "row"  # what `lines` counts
    source: str | Path = ""  # what the table is, such as the path of a file
    leave_out: str = LEAVE_OUT  # how rows with an empty cell are left out
    is_text: bool = False  # ids are text, as in files
    decimal: str | None = None  # what is before the decimals of a number in text; None: a point
    notes: list[str] = field(default_factory=list)  # for the user, once all is read
    dates: dict[Any, str] = field(default_factory=dict)  # by column: form of dates with the year last

    @classmethod
    def of(
        cls, table: Any, name: str = "frame", source: str = "", leave_out: str = DROP, wanted: str = _TABLE
    ) -> Columns:
        """Return the columns of a data frame, a dict of columns, or an array, whose columns are numbered."""
        if isinstance(table, Columns):
            return table
        refuse_collection(table, name)
        if issparse(table):
            advice = "Sparse features belong in a Table, and skpref.data.from_matrix reads a matrix of ratings"
            raise TypeError(f"Sparse data was passed for {name}, but dense data is required: columns of ids. {advice}")
        names = column_names(table)
        if isinstance(table, Mapping):
            lengths = {str(column): len(values) for column, values in table.items()}
            if len(set(lengths.values())) > 1:
                raise DataError(f"the columns of {name} have different lengths: {shorten(lengths)}")
            values, size = table, next(iter(lengths.values()), 0)
        elif names is not None:
            refuse_repeated_columns(table, name)
            values, size = {column: table[column] for column in names}, len(table)
        else:
            columns, size = _columns_of_rows(table, name, wanted)
            values = dict(enumerate(columns))
        return cls(values, range(size), source=source, leave_out=leave_out)

    # ------------------------------------------------------------------------------------------------------- columns
    @property
    def names(self) -> list[Any]:
        """Names of the columns, in order."""
        return list(self.values)

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.lines)

    def usual(self, *names: str) -> str:
        """Return the first column with a usual name, whatever its case and spaces; the first name if there is none."""
        known = {plain(str(column)): column for column in reversed(self.names)}
        found = [name if name in self.values else known.get(plain(name)) for name in names]
        return next((name for name in found if name is not None), names[0])

    def fault(self, text: str, row: int | None = None, column: Any = None) -> DataError:
        """Return an error that says where."""
        where = [str(self.source)] if self.source else []
        line = [] if row is None else [f"{self.unit} {self.lines[row]}"]
        name = [] if column is None else [f"column {column!r}"]
        where += [*line, *name] if self.source else [*name, *line]
        return DataError(f"{', '.join(where)}: {text}" if where else text)

    def missing(self, text: str, rows: Sequence[int], column: Any) -> MissingCellError:
        """Return the error of cells that are needed and empty."""
        advice = f"; {self.leave_out}" if self.leave_out else ""
        return MissingCellError(f"{self.fault(text, rows[0], column)}{advice}", rows)

    def refuse_empty(self, text: str, is_empty: Iterable[Any], name: Any, advice: str = "") -> None:
        """Refuse cells of a column that are needed and empty; the text says what is missing."""
        rows = [row for row, empty in enumerate(is_empty) if empty]
        if rows:
            raise self.missing(f"{text}{self._got(name, rows[0])}{advice}", rows, name)

    def require(self, names: Sequence[Any], purpose: str = "") -> None:
        """Refuse a name that no column has, and suggest the nearest one."""
        for name in names:
            if name not in self.values:
                hint = nearest(name, self.names) or "."
                usual = f"Name yours by {_PARAMETERS[name]}=" if name in _PARAMETERS else ""
                told = f" {purpose or usual}." if purpose or usual else ""
                alone = "; are its cells separated by commas, semicolons, tabs or bars?" if len(self.names) == 1 else ""
                found = f" Found: {listed(self.names)}{alone}"
                raise self.fault(f"there is no column {name!r}{hint}{told}{found}")

    def column(self, name: Any) -> Any:
        """Return a column as the table has it."""
        try:
            self.require((name,))
        except TypeError as error:  # it has no hash
            kind = type(name).__name__
            text = f"a column is given by its name; got a {kind}: put it into the table, and give its name"
            raise DataError(f"{text}; for teams, give lists of columns to GPPLClassifier itself") from error
        return self.values[name]

    def take(self, rows: Sequence[int]) -> Columns:
        """Return some of the rows."""
        values = {name: _taken(column, rows) for name, column in self.values.items()}
        return replace(self, values=values, lines=[self.lines[row] for row in rows], notes=[])

    # --------------------------------------------------------------------------------------------------------- cells
    def cells(self, name: Any) -> Sequence[Any]:
        """Return the values of a column, None where one is missing."""
        return [None if is_missing(cell) or cell == "" else cell for cell in _as_list(self.column(name))]

    def texts(self, name: Any) -> list[str]:
        """Return a column as text, empty where a cell is missing."""
        return [as_text(cell) for cell in _as_list(self.column(name))]

    def ids(self, name: Any, noun: str = "item") -> IdColumn:
        """Return a column of ids, shape (n,)."""
        column = self.column(name)
        try:
            if not self.is_text:
                return as_ids(column, f"column {name!r}", self.unit, noun)
            cells = self.texts(name)
            if all(cells):
                # pandas writes whole numbers beside a missing cell as 7.0, so such a column is one of whole numbers.
                if noun != "label" and all(map(WHOLE_NUMBER.fullmatch, cells)):
                    cells = [cell.removesuffix(".0") for cell in cells]
                return np.array(cells, dtype=object)
        except DataError as error:
            if all(cell is not None for cell in self.cells(name)):
                raise self.fault(str(error)) from error
        what = f"{'an' if noun[0] in 'aeio' else 'a'} {noun}{'' if noun in {'label', 'feature'} else ' id'}"
        raise self.missing(
            f"{what} is missing", [row for row, cell in enumerate(self.cells(name)) if cell is None], name
        )

    def teams(self, names: Sequence[Any]) -> IdColumn:
        """Return the ids of the players of a team in each row as tuples, shape (n,); empty cells are no players.

        A cell may be a list of players, too.
        """
        cells = [[as_cells(cell) for cell in _as_list(self.column(name))] for name in names]
        rows = zip(*cells, strict=True)
        teams = [[id_ for cell in row for id_ in cell if not is_missing(id_) and id_ != ""] for row in rows]
        self.refuse_empty("a team has no players", (not team for team in teams), names[0])
        names_of = (id_ for team in teams for id_ in team if isinstance(id_, str))
        written = next((name for name in names_of if name[:1] + name[-1:] == "[]"), None)
        if written is not None:  # Dask makes text of lists
            raise self.fault(
                f"a cell holds a list of players as text, {shorten(written)}: name a column for each player"
            )
        ids = [id_ for team in teams for id_ in team]
        players = iter(as_ids(ids, f"columns {', '.join(map(repr, names))}", "player").tolist())
        return objects([tuple(next(players) for _ in team) for team in teams])

    def numbers(self, name: Any, low: float = -math.inf, high: float = math.inf, meaning: str = "") -> Array:
        """Return a column of numbers, or the difference of a pair of columns, shape (n,)."""
        if isinstance(name, tuple):
            return self.numbers(name[0], low, high, meaning) - self.numbers(name[1], low, high, meaning)
        column = self.column(name)
        if getattr(getattr(column, "dtype", None), "kind", "O") in "biuf":  # of numpy
            values = np.asarray(column, dtype=np.float64)
            absent = np.isnan(values)
        else:
            cells = _as_list(column)
            absent = np.fromiter((is_missing(cell) or lacks_number(cell) for cell in cells), bool, len(cells))
            words = {cell.strip().lower() for cell in cells if isinstance(cell, str)}
            read = TRUTH.get if words and words <= TRUTH.keys() | {""} else None
            values = np.array([number(self.with_point(cell), read) for cell in cells], dtype=np.float64)
        if absent.any():
            self.refuse_empty(f"a number is missing{_in_brackets(meaning)}", absent, name)
        wrong = ~np.isfinite(values) | (values < low) | (values > high)
        if wrong.any():
            raise self._number_fault(name, int(np.argmax(wrong)), float(values[np.argmax(wrong)]), low, high, meaning)
        return values

    def matrix(self, names: Sequence[Any], meaning: str, low: float = -math.inf, high: float = math.inf) -> Array:
        """Return columns of numbers, shape (n, d); all rows that lack one are named together."""
        columns, faults = [], []
        for name in names:
            try:
                columns.append(self.numbers(name, low, high, meaning))
            except MissingCellError as error:
                faults.append(error)
        if faults:
            raise MissingCellError(str(faults[0]), sorted(set().union(*(error.rows for error in faults))))
        return np.array(columns, dtype=np.float64).T

    def numbers_or_nan(self, name: Any, meaning: str) -> Array:
        """Return a column of numbers, NaN where a cell is empty, shape (n,)."""
        cells = _as_list(self.column(name))
        here = [row for row, cell in enumerate(cells) if not (is_missing(cell) or lacks_number(cell))]
        values = np.full(self.size, np.nan)
        values[here] = self.numbers_at(name, here, meaning)
        return values

    def numbers_at(self, name: Any, rows: Sequence[int], meaning: str) -> Array:
        """Return the numbers in some rows of a column, or the differences of a pair of columns."""
        parts = {part: self.column(part) for part in (name if isinstance(name, tuple) else (name,))}
        try:
            return replace(self, values=parts).take(rows).numbers(name, meaning=meaning)
        except MissingCellError as error:
            raise MissingCellError(str(error), [rows[k] for k in error.rows]) from error

    def with_point(self, cell: Any) -> Any:
        """Return the text of a number with a point before its decimals; None of text that is none by a comma."""
        return with_point(cell) if self.decimal == "," else cell

    def _got(self, name: Any, row: int) -> str:
        cell = _as_list(self.column(name))[row]
        return f", got {shorten(cell)}" if isinstance(cell, str) and cell.strip() else ""

    def _number_fault(self, name: Any, row: int, value: float, low: float, high: float, meaning: str) -> DataError:
        """Return what is wrong with a cell that is no number, or none in a range."""
        likes, more = _as_list(self.column(name)), _in_brackets(meaning)
        cell = likes[row]
        if math.isfinite(value):
            bounds = f"{low:g} to {high:g}" if high < math.inf else f">= {low:g}"
            return self.fault(f"{value:g} is outside the range {bounds}{more}", row, name)
        if is_number(self.with_point(cell)):
            return self.fault(f"expected a finite number{more}, got {shorten(cell)}", row, name)
        advice = ""
        if self.decimal == "," and is_number(cell):
            advice = "; by --decimal , a comma is before the decimals, and points are between thousands"
        elif self.is_text and self.decimal != "," and is_number(with_point(cell)):
            advice = "; a comma before the decimals is read by --decimal ,"
        elif 2 * sum(is_number(self.with_point(other)) for other in likes) > len(likes):
            advice = f"; empty such cells, then {self.leave_out}"
        elif meaning == "a covariate":
            advice = "; of words, make a column of 0 and 1 for each"
        elif meaning == "a score":
            advice = "; who won, as an id or a word such as home, H or draw, is read by from_winners, or --winner"
        return self.fault(f"expected a number{more}, got {shorten(cell)}{advice}", row, name)


def complete(columns: Columns, read: Callable[[Columns], Result], missing: str | None) -> tuple[Result, Columns]:
    """Return what is read, and the rows that it is read from: with missing="drop", those with all needed cells."""
    if missing not in {None, "raise", "drop"}:
        raise DataError(f"missing must be 'raise' or 'drop'; got {shorten(missing)}")
    kept = columns
    while True:
        try:
            return read(kept), kept
        except MissingCellError as error:
            if missing != "drop":
                raise
            kept = kept.take(sorted(set(range(kept.size)) - set(error.rows)))
            if not kept.size:
                raise columns.fault("at least 1 row is required: every row lacks a cell that is read") from error


def as_text(cell: Any) -> str:
    """Return a cell as text, empty where it is missing: 7, 7.0 and "7" are one id, whichever file they stand in."""
    if is_missing(cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return (cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)).strip()


def _columns_of_rows(rows: Any, name: str, wanted: str) -> tuple[list[Any], int]:
    """Return the columns of an array or of a list of rows, and the number of rows."""
    is_list = isinstance(rows, list | tuple)
    if is_list and any(isinstance(row, np.ndarray) for row in rows):
        rows = [list(row) if isinstance(row, np.ndarray) and row.ndim else row for row in rows]
    if is_list and all(issubclass(kind, list | tuple) for kind in set(map(type, rows))):
        widths = list(map(len, rows))
        odd = next((row for row, width in enumerate(widths) if width != widths[0]), None)
        if odd is not None:
            lengths = f"row 0 has {widths[0]} cells, row {odd} has {widths[odd]}"
            raise DataError(f"the rows of {name} have different lengths, and must {wanted}: {lengths}")
        return [[cells[column] for cells in rows] for column in range(max(widths, default=0))], len(rows)
    masked = np.ma.getmaskarray(rows) if np.ma.isMaskedArray(rows) else None
    rows = objects(rows) if is_list else np.asarray(rows, dtype=None if masked is None else object)
    if rows.ndim < 2:
        got = f"{rows.ndim}D" if rows.ndim else "scalar"
        raise DataError(f"Expected 2D array, got {got} array instead: {name} must {wanted}")
    if rows.ndim > 2:
        raise DataError(f"Found array with dim {rows.ndim}, while dim <= 2 is required: {name} must {wanted}")
    if masked is not None:
        rows = np.where(masked, None, rows)  # refused where it is read
    return list(rows.T), rows.shape[0]


def read_ids(X: Any, roles: Sequence[str], name: str = "X", noun: str = "comparison") -> list[IdColumn]:
    """Return the columns of a table of ids, which has these and no others, whatever their names."""
    shape_of_ids = f"shape (n_{noun}s, {len(roles)}): {', '.join(roles)}"
    wanted = f"have the {shape_of_ids} ids"
    if isinstance(X, Mapping) and not issparse(X):  # one of SciPy's formats is a dict
        raise DataError(f"Expected 2D array, got a dict: {name} must {wanted}; make a data frame of it")
    columns = Columns.of(X, name, wanted=wanted)
    found, shape = columns.names, (columns.size, len(columns.names))
    if not columns.size:
        raise DataError(NO_ROWS.format(name, f"{noun}s (shape={shape}), and at least 1 {noun} is required"))
    has_names = column_names(X) is not None
    if len(found) != len(roles):
        advice = ""
        if has_names and len(found) > len(roles):
            listed, named = ", ".join(map(str, found[:10])), ", ".join(f"{role}=" for role in roles)
            advice = f"; of its columns ({listed}), pass those of the ids alone, or name them by {named}"
        raise DataError(f"{name} holds {noun}s and has shape {shape}, expected {shape_of_ids}{advice}")
    refuse_other_roles(dict(zip(roles, found, strict=True)), name)
    text = "{}[{}]" if has_names else "{}[:, {}]"
    return [
        as_ids(columns.values[label], text.format(name, shorten(label)), noun, "user" if role == "user" else "item")
        for role, label in zip(roles, found, strict=True)
    ]


def refuse_other_roles(columns: Mapping[str, Any], name: str, by_order: Container[str] | None = None) -> None:
    """Refuse ids that are read from a column by its place, all or some of them, where its name says other ids."""
    for role, label in columns.items():
        said = str(label).lower()
        if by_order is not None and role not in by_order:
            continue
        if {"winner": "left", "loser": "right"}.get(said, said) in columns.keys() - {role}:
            what = f"column {shorten(label)} of {name} would be read as the {role} ids"
            order = f"the order of columns is {', '.join(columns)}, whatever their names"
            raise DataError(f"{what}: {order}. Put them in this order, or rename column {shorten(label)}")


def listed(names: Any) -> str:
    """Return names of columns as text."""
    if not isinstance(names, tuple | list):
        return str(names)
    return ", ".join(map(str, names[: POLICY.shown_columns])) + ", ..." * (len(names) > POLICY.shown_columns)


def _in_brackets(meaning: str) -> str:
    return f" ({meaning})" if meaning else ""


def as_cells(cell: Any) -> Sequence[Any]:
    """Return what a cell holds, which may be several ids."""
    return _as_list(cell) if isinstance(cell, list | tuple | np.ndarray) else [cell]


def _as_list(column: Any) -> Sequence[Any]:
    """Return the values of a column of any frame."""
    method = next((m for m in ("to_pylist", "tolist", "to_list") if hasattr(column, m)), None)
    return column if method is None else getattr(column, method)()  # type: ignore[no-any-return]


def _taken(column: Any, rows: Sequence[int]) -> Any:
    """Return some rows of a column, of numpy where it is."""
    if isinstance(column, np.ndarray):
        return column[np.asarray(rows, dtype=np.int64)]
    cells = _as_list(column)
    return [cells[row] for row in rows]
