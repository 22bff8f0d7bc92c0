"""Files in and out: CSV and Parquet as columns by name, and results that appear under their names when complete."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import secrets
import sys
import tempfile
import zlib
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar, cast

import numpy as np

from skpref._text import is_number, printable, with_point
from skpref.exceptions import DataError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from skpref.data import Table
    from skpref.data.columns import Columns

_DELIMITERS = ",;\t|"
_SEPARATORS = "comma", "semicolon", "tab", "bar"
_LONGEST_CELL = 60
_MOST_CHARACTERS = 2**27  # of a cell that is read: tables of answers hold whole conversations
_MOST_NAMES = 5000  # among which the nearest is searched: it takes a second
_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff0b\uff0d\uff1d\uff20]")  # how a cell begins that a spreadsheet would run
_COMMA_NUMBER = re.compile(  # with a comma before its decimals, perhaps with points between thousands
    r"\s*[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)?(,[0-9]*)?([eE][+-]?[0-9]+)?\s*"
)
_IMPORT_ID = '{"ImportId"'  # how the second line below the names begins in an export of Qualtrics
_WHOLE_NUMBER = re.compile(r"-?[0-9]+(\.0)?")

# Usual names of the column of users, in any case and with or without spaces, as `Sheet.usual` finds them.
_PEOPLE = "user", "rater", "person", "respondent", "participant", "judge", "annotator"
USERS = (*(f"{name}{end}" for name in _PEOPLE for end in ("", "_id")), "uid", "response_id")
LEAVE_OUT = "--missing drop leaves such rows out"

Result = TypeVar("Result")


class Format(NamedTuple):
    """What cannot be seen in a file of text."""

    separator: str | None = None  # None: the one of the usual separators that the first line has most of
    encoding: str | None = None  # None: UTF-8
    columns: tuple[str, ...] | None = None  # names, where no line of the file has them
    decimal: str | None = None  # what is before the decimals of a number in text; None: a point


def complete_rows(sheet: Columns, read: Callable[[Columns], Result], missing: str | None) -> Result:
    """Return what is read from a sheet; where `missing` is "drop", from the rows without a cell that it lacks."""
    from skpref.data.columns import complete as complete_columns  # only now: --help need not wait for scikit-learn

    result, kept = complete_columns(sheet, read, missing)
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


def read_sheet(path: Path, form: Format | None = None) -> Columns:
    """Read a file, a folder of Parquet files, or standard input for the path "-"."""
    form = form or Format()
    is_dataset = path.is_dir() and any(path.rglob("*.parquet"))
    if path.is_dir() and not is_dataset:
        raise DataError(
            f"{path}: a folder without Parquet files; expected a file (CSV, JSON or Parquet) or a folder of .parquet "
            "files: name one file, or write the data by to_parquet of pandas"
        )
    sheet = _read_parquet(path, path) if is_dataset else _read_file(path, form)
    if not sheet.size:
        raise sheet.fault("there are column names, but no rows")
    return replace(sheet, decimal=form.decimal)


def _read_file(path: Path, form: Format) -> Columns:
    with naming(path), _opened(path) as file:
        source: BinaryIO = file if file.seekable() else io.BytesIO(file.read())  # a pipe can be read once
        head = source.read(4)
        source.seek(0)
        parquet = head == b"PAR1" or path.suffix.lower() in {".parquet", ".pq"}
        if head[:2] == b"\x1f\x8b":
            source = cast("BinaryIO", gzip.GzipFile(fileobj=source))
        with _readable(path):
            if parquet:
                return _read_parquet(path, source)
            if not form.columns and _is_json(source):
                return _read_json(path, source, form)
            return _read_csv(path, source, form)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if str(path) != "-":
        with path.open("rb") as file:
            yield file
    elif sys.stdin is None:
        raise DataError("-: the standard input is closed")
    else:
        yield io.BytesIO(sys.stdin.buffer.read())


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: cannot be read as gzip ({error})") from error


def _read_csv(path: Path, source: BinaryIO, form: Format) -> Columns:
    header = list(form.columns or ())
    _check_header("--columns", header)
    rows: list[list[str]] = []
    lines: list[int] = []
    for line, row in _csv_rows(path, source, form):
        if not header:
            header = [_unquoted(name).strip() for name in row]
            header[0] = header[0] or "unnamed"  # pandas writes its index so
            _check_header(f"{path}, line {line}", header)
        elif len(row) != len(header):
            raise DataError(f"{path}, line {line}: {len(row)} cells, but there are {len(header)} columns")
        else:
            rows.append([_unquoted(cell) for cell in row])
            lines.append(line)
    if not form.columns and len(rows) > 1 and rows[1][0].lstrip().startswith(_IMPORT_ID):
        where = f"questions and ImportIds of a Qualtrics export, up to line {lines[1]}"
        say_note(f"{path}: {where}, are no answers and skipped")
        del rows[:2], lines[:2]
    if not header:
        raise DataError(f"{path}: the file is empty; expected a line of column names and rows below it")
    columns = zip(*rows, strict=True) if rows else [[] for _ in header]
    return _sheet(path, {name: list(cells) for name, cells in zip(header, columns, strict=True)}, lines, "line")


def _csv_rows(path: Path, source: BinaryIO, form: Format) -> Iterator[tuple[int, list[str]]]:
    """Yield rows that are not blank, and the line on which each ends."""
    csv.field_size_limit(_MOST_CHARACTERS)
    with io.TextIOWrapper(source, form.encoding or "utf-8-sig", newline="") as file:
        reader = None
        try:
            first = file.readline()
            file.seek(0)
            separator = form.separator or max(_DELIMITERS, key=first.count)
            reader = csv.reader(file, delimiter=separator, strict=True)
            for row in reader:
                if any("\0" in cell for cell in row):
                    why = "there is a zero byte; save it as CSV UTF-8"
                    raise DataError(f"{path}, line {reader.line_num}: {why}")
                if any(cell.strip() for cell in row):
                    yield reader.line_num, row
        except UnicodeError as error:
            after = f", after line {reader.line_num}" if reader is not None and reader.line_num else ""
            raise _not_text(f"{path}{after}", form, error) from error
        except csv.Error as error:
            line = 0 if reader is None else reader.line_num
            raise DataError(f"{path}, line {line}: cannot be read as CSV ({error})") from error


def _not_text(where: str, form: Format, error: UnicodeError) -> DataError:
    advice = "save it as CSV UTF-8, or name its encoding by --encoding, such as latin-1"
    return DataError(f"{where}: not text in {form.encoding or 'UTF-8'} ({getattr(error, 'reason', error)}); {advice}")


def _is_json(source: BinaryIO) -> bool:
    """Tell whether a file begins as an object or a list of JSON does."""
    head = source.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    source.seek(0)
    return head[:1] in {b"{", b"["}


def _read_json(path: Path, source: BinaryIO, form: Format) -> Columns:
    """Read a list of objects, or an object on each line."""
    try:
        text = source.read().decode(form.encoding or "utf-8-sig")
    except UnicodeError as error:
        raise _not_text(str(path), form, error) from error
    lines, records = [], []
    if text.lstrip().startswith("["):
        records = _parsed(path, text, None)
        lines = list(range(1, len(records) + 1))
    else:
        for line, part in enumerate(text.split("\n"), 1):
            if part.strip():
                records.append(_parsed(path, part, line))
                lines.append(line)
    unit = "record" if text.lstrip().startswith("[") else "line"
    for line, record in zip(lines, records, strict=True):
        if not isinstance(record, dict):
            raise DataError(f"{path}, {unit} {line}: expected an object of JSON, such as {{'left': 'a'}}")
    names = list(dict.fromkeys(name for record in records for name in record))
    return _sheet(path, {name: [record.get(name) for record in records] for name in names}, lines, unit)


def _parsed(path: Path, text: str, line: int | None) -> Any:
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        where = path if line is None else f"{path}, line {line}"
        raise DataError(f"{where}: cannot be read as JSON ({error})") from error


def _check_header(where: str, header: list[str]) -> None:
    names: set[str] = set()
    for position, name in enumerate(header, 1):
        if not name:
            raise DataError(f"{where}: column {position} has no name; all columns must be named")
        if name in names:
            raise DataError(f"{where}: there are two columns {name!r}")
        names.add(name)


def _read_parquet(path: Path, source: BinaryIO | Path) -> Columns:
    try:
        import pandas as pd
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError(
            f"{path}: reading Parquet needs pandas and pyarrow: pip install 'skpref[frames]' (CSV needs neither)"
        ) from error
    try:
        frame = pd.read_parquet(source) if source is not path else pd.read_parquet(path, schema=_schema_of(path))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from error
    frame = frame.astype(object).where(frame.notna(), None)
    names = [str(name).strip() for name in frame.columns]
    _check_header(str(path), names)
    columns = dict(zip(names, frame.to_numpy().T.tolist(), strict=True))
    return _sheet(path, columns, list(range(1, len(frame) + 1)), "row")


def _schema_of(folder: Path) -> Any:
    from skpref.data.shards import open_dataset, shared_schema  # only now: --help need not wait for numba

    dataset = open_dataset(folder)
    return shared_schema(dataset, dataset.schema.names)


def items_purpose(id_column: str) -> str:
    """Return what a file of items has to have."""
    return f"A file of items has the column {id_column} (or another one, named by --id) and numeric features"


def read_table(sheet: Columns, id_column: str, purpose: str, noun: str, names: tuple[str, ...] | None = None) -> Table:
    """Return ids and features of a file of items or users."""
    sheet.require((id_column, *(names or ())), purpose)
    wanted = names or tuple(name for name in sheet.names if name != id_column)
    if not wanted:
        raise sheet.fault(f"there are no features, only {id_column!r}; without features, leave --{noun}s out")
    from skpref.data import Table  # only now: --help need not wait for numba

    ids = sheet.ids(id_column, noun)
    _check_distinct(sheet, ids, id_column, noun)
    return Table(sheet.matrix(wanted, "features are numeric"), ids, feature_names=wanted)


def read_ids(sheet: Columns, id_column: str) -> NDArray[Any]:
    """Return the ids of a file of items whose features do not matter, shape (n,)."""
    sheet.require((id_column,), f"A file of items has the column {id_column}")
    ids = sheet.ids(id_column)
    _check_distinct(sheet, ids, id_column)
    return ids


def _check_distinct(sheet: Columns, ids: NDArray[Any], column: str, noun: str = "item") -> None:
    first: dict[str, int] = {}
    for row, name in enumerate(ids.tolist()):
        if first.setdefault(name, row) != row:
            line = f"{sheet.unit} {sheet.lines[first[name]]}"
            raise sheet.fault(f"{noun} {name[:80]!r} occurs twice (first on {line})", row, column)


def by_text(ids: NDArray[Any]) -> dict[str, Any]:
    """Return ids of a model by their text: as Python writes them, and as files have them, where bytes are text."""
    from skpref.data.columns import as_text  # only now, as above

    return {text(own): own for text in (str, as_text) for own in ids.tolist()}


def as_in_model(cells: NDArray[Any], ids: NDArray[Any]) -> NDArray[Any]:
    """Return ids of a file as the model has them, and unseen ones as they are, shape (n,)."""
    trained, own = by_text(ids), np.empty(cells.size, dtype=object)
    own[:] = [trained.get(cell, cell) for cell in cells.tolist()]
    return own


def _short(cell: Any) -> str:
    text = str(cell).strip()
    return repr(text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + "...")


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(map(printable, names[:12]))
    return f"{shown}, ... ({len(names)} columns)" if len(names) > 12 else shown


# -------------------------------------------------------------------------------------------------------------- results
@contextmanager
def complete(path: Path) -> Iterator[Path]:
    """Let a file be written under another name, and give it its own when it is complete."""
    is_device = path.exists() and not path.is_file()
    final = path.resolve()  # a link stays one
    temporary = path if is_device else final.with_name(f".{final.name}.{secrets.token_hex(6)}.tmp")
    with naming(path):
        try:
            yield temporary
            if not is_device:
                temporary.replace(final)
        finally:
            if not is_device:
                temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an error of the disk the name of the file: a full disk names none, and neither does a failed read."""
    try:
        yield
    except OSError as error:
        error.filename = os.fspath(path)
        raise


def check_no_source(path: Path, sources: Iterable[Path | None]) -> None:
    """Complain of a file to write that is read, perhaps under another name."""
    for source in sources:
        if source is not None and path.is_file() and source.is_file() and path.samefile(source):
            raise DataError(f"{path}: is what is read ({source}) and would be lost; name another by --out")


def check_file(path: Path | None, *sources: Path | None, regular: bool = False) -> None:
    """Complain of a file that cannot be written, or that is one of those to read."""
    if path is None:
        return
    check_no_source(path, sources)
    if path.is_dir():
        raise DataError(f"--out {path}: is a folder; name a file, such as {path / 'result'}")
    if path.exists() and not path.is_file():
        if regular:
            raise DataError(f"--out {path}: is no file; a model is written to a file")
        return
    if not path.parent.is_dir():
        raise DataError(f"--out {path}: there is no folder {path.parent}; make it, or name another")
    if path.exists() and not os.access(path, os.W_OK):
        raise DataError(f"--out {path}: is there and may not be written; name another file")
    _try(path.parent, f"--out {path}")


def check_folder(path: Path) -> bool:
    """Make a folder where there is none, or complain."""
    new = not path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        file = next(parent for parent in (path, *path.parents) if parent.exists())
        raise DataError(f"folder of results {path}: {file} is a file; name a folder by --out") from error
    except OSError as error:
        raise DataError(
            f"folder of results {path}: cannot be made ({error.strerror}); name another by --out"
        ) from error
    _try(path, f"folder of results {path}")
    return new


def _try(folder: Path, what: str) -> None:
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise DataError(f"{what}: {folder} cannot be written to ({error.strerror}); name another by --out") from error


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a CSV file, whose cells no spreadsheet takes for formulas."""
    with complete(path) as whole, whole.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([_quoted(name) for name in header])
        writer.writerows([_quoted(cell) for cell in row] for row in rows)


def _is_formula(cell: str) -> bool:
    """Whether a spreadsheet would run a cell, or would if it had no apostrophes before it; numbers are none."""
    return bool(_FORMULA.match(cell)) and not is_number(cell) and not is_number(with_point(cell))


def _quoted(cell: Any) -> Any:
    """Return a cell with an apostrophe before what a spreadsheet would run; `_unquoted` takes it away again."""
    return f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell


def _unquoted(cell: str) -> str:
    """Return a cell without the apostrophe that `_quoted` puts before a formula."""
    return cell[1:] if cell[:1] == "'" and _is_formula(cell) else cell
