"""Where results go: checked before the work, and under their names only when they are complete."""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Patient:
    """A stream that lets a reader go, as in ``skpref tune ... | head``: what is still to be said is not heard."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write."""
        try:
            self._stream.write(text)
        except BrokenPipeError:
            to_nowhere(self._stream)
        return len(text)

    def flush(self) -> None:
        """Write what waits to be written."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            to_nowhere(self._stream)


def to_nowhere(stream: TextIO) -> None:
    """Let what is still written be written where nobody complains."""
    with suppress(OSError, ValueError, AttributeError):  # not all streams are files
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextmanager
def complete(path: Path) -> Iterator[Path]:
    """Let a file be written under another name, and give it its own when it is complete."""
    if path.exists() and not path.is_file():
        yield path
        return
    final = path.resolve()  # a link stays one
    temporary = final.with_name(f".{final.name}.{secrets.token_hex(6)}.tmp")
    try:
        yield temporary
        temporary.replace(final)
    except OSError as error:
        error.filename = os.fspath(path)  # a full disk names no file
        raise
    finally:
        temporary.unlink(missing_ok=True)


def check_file(path: Path | None, *, regular: bool = False) -> None:
    """Complain of a file that cannot be written."""
    if path is None:
        return
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
        file = next(one for one in (path, *path.parents) if one.exists())
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
