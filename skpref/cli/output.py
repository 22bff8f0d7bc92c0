"""Results, which appear under their names when they are complete, and complaints of places that cannot be written."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from skpref._archive import replacing
from skpref.cli.files import is_formula, naming
from skpref.exceptions import DataError


@contextmanager
def complete(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears under its name, or in the place of an earlier one, when it is complete."""
    is_device = path.exists() and not path.is_file()
    with naming(path), path.open("wb") if is_device else replacing(path.resolve()) as file:  # a link stays one
        yield file


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
    """Make a folder where there is none, or complain; return whether it is new."""
    new = not path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot be made ({error.strerror}); name another folder by --out"
        raise DataError(f"folder of results {path}: {why}") from error
    _try(path, f"folder of results {path}")
    return new


def _try(folder: Path, what: str) -> None:
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise DataError(f"{what}: {folder} cannot be written to ({error.strerror}); name another by --out") from error


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a CSV file, whose cells no spreadsheet takes for formulas."""
    with complete(path) as file:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([_quoted(name) for name in header])
        writer.writerows([_quoted(cell) for cell in row] for row in rows)
        text.detach()  # writes all, and leaves the file open


def write_columns(columns: Mapping[str, Any], path: Path) -> None:
    """Write a table of columns as CSV."""
    lists = (column.tolist() if hasattr(column, "tolist") else column for column in columns.values())
    write_csv(path, list(columns), zip(*lists, strict=True))


def _quoted(cell: Any) -> Any:
    """Return a cell with an apostrophe before what a spreadsheet would run; `unquoted` takes it away again."""
    return f"'{cell}" if isinstance(cell, str) and is_formula(cell) else cell
