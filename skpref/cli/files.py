"""Files in and out: CSV and Parquet as columns by name, and results that appear under their names when complete."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from skpref._text import is_number, lacks_number, with_point
from skpref._warn import importing
from skpref.cli.options import Text
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from skpref.data.columns import Columns

_DELIMITERS = ",", ";", "\t", "::", "|"
_EXCEL = re.compile(r'"?sep=(::|.)"?[\s,;]*')  # a first line that names the separator
_COMMENT = re.compile(r"#(?!\s*[,;\t|])")  # but # alone is the name of a column of numbers
_UNNAMED = "unnamed"  # a first column without a name, as pandas writes its index
_NO_NAMES = "if the file has no line of names, add one, or name the columns of the data by --columns A,B,..."
_LONGEST_CELL = 60
_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff0b\uff0d\uff1d\uff20]")  # how a cell begins that a spreadsheet would run
_IMPORT_ID = '{"ImportId"'  # how the second line below the names begins in an export of Qualtrics

# Usual names of the column of users, in any case and with or without spaces, as `Sheet.usual` finds them.
_PEOPLE = "user", "rater", "person", "respondent", "participant", "judge", "annotator"
USERS = (*(f"{name}{end}" for name in _PEOPLE for end in ("", "_id")), "uid", "response_id", "resp_id")
RATINGS = "rating", "ratings", "stars", "score", "level", "grade"
LEAVE_OUT = "--missing drop leaves such rows out"
AS_SEEN = Text()  # how text is written, as far as a file shows it

Result = TypeVar("Result")
_Row = tuple[int, list[str]]  # line and cells


def complete_rows(sheet: Columns, read: Callable[[Columns], Result], missing: str | None) -> Result:
    """Return what is read from a sheet; where `missing` is "drop", from the rows without a cell that it lacks."""
    from skpref.data.columns import complete as complete_columns  # only now: --help need not wait for scikit-learn

    result, kept = complete_columns(sheet, read, "drop" if missing == "drop" else "raise")
    for note in kept.notes:
        say_note(note)
    say_left_out(sheet.size - kept.size, "row", f"of {sheet.source} ", "incomplete")
    return result


def _sheet(path: Path, values: dict[str, list[Any]], lines: list[int], unit: str) -> Columns:
    """Return the columns of a file."""
    from skpref.data.columns import Columns  # only now, as above

    return Columns(values, lines, unit, path, LEAVE_OUT, is_text=True)


def say_note(note: str) -> None:
    """Tell the user something that is no error."""
    print(f"skpref: note: {note}", file=sys.stderr)


def counted(count: int, plural: str) -> str:
    """Return a number and what it counts, such as 2 users or 1 rating of positive weight."""
    noun, space, rest = plural.partition(" ")
    return f"{count} {noun.removesuffix('s') if count == 1 else noun}{space}{rest}"


def say_left_out(count: int, noun: str, of: str, reason: str) -> None:
    """Tell the user of rows that are not used."""
    if count:
        rows = f"1 {noun} {of}is" if count == 1 else f"{count} {noun}s {of}are"
        say_note(f"{rows} {reason} and left out")


def read_sheet(path: Path, form: Text = AS_SEEN) -> Columns:
    """Read a file, a folder of Parquet files, or standard input for the path "-"."""
    is_dataset = path.is_dir() and any(path.rglob("*.parquet"))
    if path.is_dir() and not is_dataset:
        wanted = "expected a file (CSV, JSON or Parquet) or a folder of .parquet files: name one file"
        raise DataError(f"{path}: a folder without Parquet files; {wanted}")
    sheet = _read_parquet(path, path) if is_dataset else _read_file(path, form)
    if not sheet.size:
        raise sheet.fault("there are column names, but no rows")
    return replace(sheet, decimal=form.decimal)


def _read_file(path: Path, form: Text) -> Columns:
    with naming(path):
        data = _bytes(path)
    is_parquet = data[:4] == b"PAR1" or path.suffix.lower() in {".parquet", ".pq"}
    if data[:2] == b"\x1f\x8b":
        with _refusing(path, "gzip", EOFError, gzip.BadGzipFile, zlib.error):
            data = gzip.decompress(data)
    if is_parquet:
        return _read_parquet(path, io.BytesIO(data))
    encoding, advice = form.encoding or "utf-8-sig", "save it as CSV UTF-8"
    try:
        text = data.decode(encoding)
    except UnicodeError as error:
        line, why = data.count(b"\n", 0, getattr(error, "start", 0)) + 1, getattr(error, "reason", error)
        advice += ", or name its encoding by --encoding, such as latin-1"
        raise DataError(f"{path}, line {line}: not text in {form.encoding or 'UTF-8'} ({why}); {advice}") from error
    if not form.columns and text[:64].lstrip()[:1] in {"{", "["}:
        return _read_json(path, text)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{path}, line {line}: there is a zero byte; {advice}")
    del text  # a large file is not held as text and in cells at once: lines are decoded one by one
    return _read_text(path, io.TextIOWrapper(io.BytesIO(data), encoding, newline=""), form)


@contextmanager
def _refusing(path: Path, form: str, *errors: type[Exception], where: Callable[[], int] = int) -> Iterator[None]:
    """Refuse a file that has errors of a form, on a line if it is known."""
    try:
        yield
    except errors as error:
        line = f", line {where()}" if where() else ""
        raise DataError(f"{path}{line}: cannot be read as {form} ({str(error).splitlines()[0]})") from error


def _bytes(path: Path) -> bytes:
    if str(path) != "-":
        return path.read_bytes()
    if sys.stdin is None:
        raise DataError("-: the standard input is closed")
    return sys.stdin.buffer.read()


def _read_text(path: Path, lines: Iterable[str], form: Text) -> Columns:
    """Read cells with separators, or rankings of PrefLib."""
    lines = iter(lines)
    head: list[str] = []  # above the table: sep= as Excel writes it, blank lines and comments
    for first in lines:
        if not (first.isspace() or _is_comment(first, form) or (not head and _EXCEL.fullmatch(first))):
            break
        head.append(first)
    else:
        first = ""
    lines = chain([first], lines)
    if not form.columns and any(line.startswith("# ALTERNATIVE NAME") for line in head):
        return _read_preflib(path, chain(head, lines))
    excel = _EXCEL.fullmatch(head[0]) if head else None
    separator = excel[1] if excel and not form.separator else _separator(first, form)
    return _read_table(path, head, _rows(path, lines, separator, len(head)), separator, form)


def _separator(line: str, form: Text) -> str:
    """Return the separator that gives as many cells as there are names, or else that a line has most of."""
    text = re.sub(r'"[^"]*"', "", line)
    n_separators = len(form.columns or ()) - 1
    return form.separator or max(
        _DELIMITERS, key=lambda mark: (text.count(mark) == n_separators, text.count(mark), mark != form.decimal)
    )


def _is_comment(line: str, form: Text) -> bool:
    """Tell whether a line begins with # and has not the cells of a row."""
    return bool(_COMMENT.match(line)) and len(line.split(_separator(line, form))) != len(form.columns or ())


def _rows(path: Path, lines: Iterable[str], separator: str, n_before: int) -> Iterator[_Row]:
    """Yield rows that are not blank, and the line on which each ends."""
    csv.field_size_limit(2**27)  # tables of answers hold whole conversations
    quoting: Any = csv.QUOTE_MINIMAL
    if separator == "::":  # csv knows one character only; such files have no quotes
        lines, separator, quoting = (line.replace("::", "\x1f") for line in lines), "\x1f", csv.QUOTE_NONE
    reader = csv.reader(lines, delimiter=separator, quoting=quoting, strict=True, skipinitialspace=separator != " ")
    with _refusing(path, "CSV", csv.Error, where=lambda: n_before + reader.line_num):
        for row in reader:
            if any(map(str.strip, row)):
                yield n_before + reader.line_num, row


def _read_table(path: Path, head: list[str], table: Iterator[_Row], separator: str, form: Text) -> Columns:
    """Return the columns of rows."""
    line, top = (0, list(form.columns)) if form.columns else next(table, (0, []))
    where, advice = (f"{path}, line {line}", _NO_NAMES) if line else ("--columns", "")
    names = [unquoted(name).strip() for name in top]
    if not any(names):
        raise DataError(f"{path}: the file is empty; expected a line of column names and rows below it")
    while not names[-1]:
        names.pop()
    _check_header(where, [names[0] or _UNNAMED, *filter(None, names[1:])], advice)
    _say_comments(path, head, len(top) if line else 0, separator)
    rows, lines = [], []
    for number, row in table:  # tuples of text cost the garbage collector nothing
        rows.append(tuple(row if len(row) == len(names) else _fitted(path, number, row, len(names))))
        lines.append(number)
    if line and len(rows) > 1 and rows[1][0].lstrip().startswith(_IMPORT_ID):
        questions = f"questions and ImportIds of a Qualtrics export, up to line {lines[1]}"
        say_note(f"{path}: {questions}, are no answers and skipped")
        del rows[:2], lines[:2]
    if tuple(names) in rows:
        again = f"{path}, line {lines[rows.index(tuple(names))]}: has the names of the columns once more"
        raise DataError(f"{again}; remove this line{'' if line else ', or leave --columns out'}")
    cells = list(zip(*rows, strict=True)) or [()] * len(names)
    if line and (reason := _why_data(names, cells)):
        raise DataError(f"{where}: looks like data and not like names of columns ({reason}); {_NO_NAMES}")
    if rows and not line:
        shown = ", ".join(f"{name} = {_short(cell)}" for name, cell in zip(names[:6], rows[0], strict=False))
        say_note(f"{path}: line {lines[0]} is the first row, as --columns names the columns: {shown}")
    columns = _named(where, names, cells, lines)
    say_left_out(len(top) - len(columns), "column", f"of {path} without a name ", "empty")
    return _sheet(path, columns, lines, "line")


def _named(where: str, names: list[str], columns: list[Any], lines: list[int]) -> dict[str, list[str]]:
    """Return columns by name without nameless ones that are empty; pandas writes the index without a name."""
    named = {}
    for position, (name, cells) in enumerate(zip(names, columns, strict=True), 1):
        row = None if name else next((row for row, cell in enumerate(cells) if cell.strip()), None)
        if row is not None and position > 1:
            what = f"column {position} has no name, but {_short(cells[row])} in line {lines[row]}"
            raise DataError(f"{where}: {what}; name it")
        if name or row is not None:
            named[name or _UNNAMED] = [unquoted(cell) if cell[:1] == "'" else cell for cell in cells]
    return named


def _say_comments(path: Path, head: list[str], n_cells: int, separator: str) -> None:
    """Tell the user of the comments before a table, and refuse one that may have its names."""
    comments = {number: line for number, line in enumerate(head, 1) if line.startswith("#")}
    for number, line in comments.items():
        if 1 < n_cells == len(line.split(separator)):
            what = "begins with # and has as many cells as the first line without"
            advice = "remove the # if these are the names of the columns, or the line if it is a comment"
            raise DataError(f"{path}, line {number}: {what}; {advice}")
    if comments:
        say_note(f"{path}: skipped {counted(len(comments), 'lines')} of comments, which begin with #")


def _fitted(path: Path, line: int, row: list[str], n_columns: int) -> list[str]:
    """Return a row without the empty cells behind the last column."""
    extra = next(filter(str.strip, row[n_columns:]), None)
    if len(row) > n_columns and extra is None:
        return row[:n_columns]
    why = "the line may be cut off; if only empty cells are missing, add them (read_csv and to_csv of pandas do)"
    if extra is not None:
        why = f"name the column of {_short(extra)} (write.table of R does not name the first), or quote such cells"
    raise DataError(f"{path}, line {line}: {len(row)} cells, but there are {n_columns} columns; {why}")


def _why_data(names: list[str], columns: Sequence[Sequence[str]]) -> str:
    """Return why a first line seems to be a row: it has numbers only, or text that its column has again; or nothing."""
    numeric = [is_number(name) for name in names]
    for is_numeric, cells in zip(numeric, columns, strict=True):
        # Rows in which words are told from numbers.
        below = [is_number(cell) for cell in cells[:1000] if not lacks_number(cell)]
        if below and (not any(below) if is_numeric else all(below)):
            return ""  # a word above numbers, or a number above words, is a name
    if all(numeric):
        return "it has numbers only"
    texts = [name for name, is_numeric, cells in zip(names, numeric, columns, strict=True)
             if name and not is_numeric and name in cells]  # fmt: skip
    return f"{_short(texts[0])} occurs again in its column" if texts else ""


def _read_preflib(path: Path, lines: Iterable[str]) -> Columns:
    """Read rankings of PrefLib as a column of ranks for each alternative and one of numbers of voters."""
    from skpref.data.columns import listed  # only now: --help need not wait for numba
    from skpref.data.frames import read_preflib

    try:
        columns, places = read_preflib(lines)
    except DataError as error:
        raise DataError(f"{path}, {error}") from error
    what = f"{counted(len(places), 'rankings')} of PrefLib with the columns {listed(list(columns))}"
    say_note(f"{path}: {what}; --item-ranks A,B,... --weight count reads them")
    return _sheet(path, columns, places, "line")


def _read_json(path: Path, text: str) -> Columns:
    """Read a list of objects, or an object on each line."""
    is_list = text.lstrip().startswith("[")
    parts = [(0, text)] if is_list else [(n, part) for n, part in enumerate(text.split("\n"), 1) if part.strip()]
    records, place = [], [0]
    with _refusing(path, "JSON", ValueError, RecursionError, where=lambda: place[0]):
        for place[0], part in parts:
            records.append(json.loads(part, parse_constant=lambda _: None))
    unit, lines = "line", [line for line, _ in parts]
    if is_list:
        records, unit, lines = records[0], "record", list(range(1, len(records[0]) + 1))
    for line, record in zip(lines, records, strict=True):
        if not isinstance(record, dict):
            raise DataError(f"{path}, {unit} {line}: expected an object of JSON, such as {{'left': 'a'}}")
    names = list(dict.fromkeys(name for record in records for name in record))
    return _sheet(path, {name: [record.get(name) for record in records] for name in names}, lines, unit)


def _check_header(where: str, header: list[str], advice: str = "") -> None:
    names: set[str] = set()
    for position, name in enumerate(header, 1):
        if not name:
            raise DataError(f"{where}: column {position} has no name; all columns must be named")
        if name in names:
            raise DataError(f"{where}: there are two columns {name!r}; rename one{advice and f', or {advice}'}")
        names.add(name)


def _read_parquet(path: Path, source: BinaryIO | Path) -> Columns:
    needed = "reading Parquet needs pandas and pyarrow: pip install 'skpref[frames]' (CSV needs neither)"
    with importing(f"{path}: {needed}"):
        import pandas as pd
        import pyarrow as pa
    with _refusing(path, "Parquet", pa.ArrowException, OSError, ValueError):
        frame = pd.read_parquet(source) if source is not path else pd.read_parquet(path, schema=_schema_of(path))
    frame = frame.astype(object).where(frame.notna(), None)
    names = [str(name).strip() for name in frame.columns]
    _check_header(str(path), names)
    columns = dict(zip(names, frame.to_numpy().T.tolist(), strict=True))
    return _sheet(path, columns, list(range(1, len(frame) + 1)), "row")


def _schema_of(folder: Path) -> Any:
    from skpref.data.stored import open_dataset, shared_schema  # only now: --help need not wait for numba

    dataset = open_dataset(folder)
    return shared_schema(dataset, dataset.schema.names)


def _short(cell: Any) -> str:
    text = str(cell).strip()
    return repr(text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + "...")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an error of the disk the name of the file: a full disk names none, and neither does a failed read."""
    try:
        yield
    except OSError as error:
        error.filename = os.fspath(path)
        raise


def is_formula(cell: str) -> bool:
    """Whether a spreadsheet would run a cell, or would if it had no apostrophes before it; numbers are none."""
    return bool(_FORMULA.match(cell)) and not is_number(cell) and not is_number(with_point(cell))


def unquoted(cell: str) -> str:
    """Return a cell without the apostrophe that `skpref.cli.output` puts before a formula."""
    return cell[1:] if cell[:1] == "'" and is_formula(cell) else cell
