"""CSV and Parquet files as columns by name; every complaint says file, line and column."""

from __future__ import annotations

import csv
import difflib
import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from skpref.exceptions import DataError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from skpref._typing import Array

_DELIMITERS = ",;\t|"
_SEPARATORS = "comma", "semicolon", "tab", "bar"
_LONGEST_CELL = 60


@dataclass(frozen=True, eq=False)
class Sheet:
    """A file's columns."""

    path: Path  # the file
    columns: dict[str, list[Any]]  # cells by column: text (CSV) or values (Parquet)
    lines: list[int]  # line (CSV) or row (Parquet) of each cell, from 1
    unit: str  # what `lines` counts

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self.columns)

    def fault(self, text: str, index: int | None = None, column: str | None = None) -> DataError:
        """Return an error that says where."""
        where = [str(self.path)]
        where += [f"{self.unit} {self.lines[index]}"] if index is not None else []
        where += [f"column {column!r}"] if column is not None else []
        return DataError(f"{', '.join(where)}: {text}")

    def require(self, names: Sequence[str], purpose: str) -> None:
        """Complain of a column that is missing, and name the nearest one."""
        for name in names:
            if name not in self.columns:
                hint = nearest(name, self.names) or "."
                alone = f"; cells are separated by one of {' '.join(_SEPARATORS)}" if len(self.names) == 1 else ""
                raise self.fault(f"there is no column {name!r}{hint} {purpose}. Found: {_list(self.names)}{alone}")

    def ids(self, name: str, noun: str = "item") -> NDArray[Any]:
        """Return a column of ids as text, shape (n,)."""
        cells = [_as_id(cell) for cell in self.columns[name]]
        for index, cell in enumerate(cells):
            if not cell:
                what = "a label" if noun == "label" else f"{'an' if noun[0] in 'aeio' else 'a'} {noun} id"
                raise self.fault(f"{what} is missing", index, name)
        return np.array(cells, dtype=object)

    def numbers(self, name: str, low: float = -math.inf, high: float = math.inf, meaning: str = "") -> Array:
        """Return a column of numbers, shape (n,)."""
        return np.array([self._number(i, name, low, high, meaning) for i in range(len(self.lines))], dtype=np.float64)

    def _number(self, index: int, name: str, low: float, high: float, meaning: str) -> float:
        cell = self.columns[name][index]
        more = f" ({meaning})" if meaning else ""
        if cell is None or (isinstance(cell, str) and not cell.strip()):
            raise self.fault(f"a number is missing{more}", index, name)
        try:
            value = float(cell)
        except (TypeError, ValueError):
            raise self.fault(f"expected a number{more}, got {_short(cell)}", index, name) from None
        if not math.isfinite(value):
            raise self.fault(f"expected a finite number{more}, got {_short(cell)}", index, name)
        if not low <= value <= high:
            bounds = f"{low:g} to {high:g}" if high < math.inf else f">= {low:g}"
            raise self.fault(f"{value:g} is outside the range {bounds}{more}", index, name)
        return value


def read_sheet(path: Path) -> Sheet:
    """Read a file."""
    with path.open("rb") as file:
        source: BinaryIO = file if file.seekable() else io.BytesIO(file.read())  # a pipe can be read once
        parquet = source.read(4) == b"PAR1" or path.suffix.lower() in {".parquet", ".pq"}
        source.seek(0)
        sheet = _read_parquet(path, source) if parquet else _read_csv(path, source)
    if not sheet.lines:
        raise sheet.fault("there are column names, but no rows")
    return sheet


def _read_csv(path: Path, source: BinaryIO) -> Sheet:
    header: list[str] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    for line, row in _csv_rows(path, source):
        if not header:
            header = [name.strip() for name in row]
            _check_header(path, header, line)
        elif len(row) != len(header):
            raise DataError(f"{path}, line {line}: {len(row)} cells, but there are {len(header)} columns")
        else:
            rows.append(row)
            lines.append(line)
    if not header:
        raise DataError(f"{path}: the file is empty; expected a line of column names and rows below it")
    columns = zip(*rows, strict=True) if rows else [[] for _ in header]
    return Sheet(path, {name: list(cells) for name, cells in zip(header, columns, strict=True)}, lines, "line")


def _csv_rows(path: Path, source: BinaryIO) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, and the line on which each ends."""
    with io.TextIOWrapper(source, "utf-8-sig", newline="") as file:
        reader = None
        try:
            first = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=max(_DELIMITERS, key=first.count), strict=True)
            for row in reader:
                if any("\0" in cell for cell in row):
                    why = "there is a zero byte; save it as CSV UTF-8"
                    raise DataError(f"{path}, line {reader.line_num}: {why}")
                if any(cell.strip() for cell in row):
                    yield reader.line_num, row
        except UnicodeDecodeError as error:
            after = f", after line {reader.line_num}" if reader is not None and reader.line_num else ""
            raise DataError(f"{path}{after}: not text in UTF-8 ({error.reason}); save it as CSV UTF-8") from error
        except csv.Error as error:
            line = 0 if reader is None else reader.line_num
            raise DataError(f"{path}, line {line}: cannot be read as CSV ({error})") from error


def _check_header(path: Path, header: list[str], line: int) -> None:
    for position, name in enumerate(header, 1):
        if not name:
            raise DataError(f"{path}, line {line}: column {position} has no name; the first line must name all columns")
        if name in header[: position - 1]:
            raise DataError(f"{path}, line {line}: there are two columns {name!r}")


def _read_parquet(path: Path, source: BinaryIO) -> Sheet:
    try:
        import pandas as pd
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError(
            f"{path}: reading Parquet needs pandas and pyarrow: pip install 'skpref[frames]' (CSV needs neither)"
        ) from error
    try:
        frame = pd.read_parquet(source)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from error
    frame = frame.astype(object).where(frame.notna(), None)
    names = [str(name).strip() for name in frame.columns]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise DataError(f"{path}: there are two columns {name!r}")
    columns = {name: frame.iloc[:, position].tolist() for position, name in enumerate(names)}
    return Sheet(path, columns, list(range(1, len(frame) + 1)), "row")


def nearest(name: str, known: Sequence[str]) -> str:
    """Return "; did you mean 'x'?" for the nearest of some names, or nothing."""
    lower = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    return f"; did you mean {lower[found[0]]!r}?" if found else ""


def _as_id(cell: Any) -> str:
    """Text of an id: 7, 7.0 and "7" are one id, whichever file they stand in."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return (cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)).strip()


def _short(cell: Any) -> str:
    text = str(cell).strip()
    return repr(text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + "...")


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return f"{shown}, ... ({len(names)} columns)" if len(names) > 12 else shown
