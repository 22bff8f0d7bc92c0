"""The command from the first argument to the exit code: options, signals, errors in one line."""

from __future__ import annotations

import difflib
import os
import pkgutil
import signal
import sys
import threading
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from skpref._text import printable, printable_lines
from skpref.cli.files import say_note
from skpref.cli.options import Demo, Elicit, Fit, Predict, Rank, Sync, Tune, parse
from skpref.exceptions import SkprefError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# By name: --help and --version need not wait for numba.
_COMMANDS = {
    Tune: "skpref.cli.tune:tune",
    Demo: "skpref.cli.tune:demo",
    Fit: "skpref.cli.tune:fit",
    Predict: "skpref.cli.predict:predict",
    Rank: "skpref.cli.rank:rank",
    Elicit: "skpref.cli.elicit:elicit",
    Sync: "skpref.cli.sync:sync",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # an id that the terminal has no letters for is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    with _printable_streams(), _ends_in_order(), warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = _show_warning  # type: ignore[assignment]  # the stub wants all six names
        try:
            options = parse(sys.argv[1:] if argv is None else argv)
            run = pkgutil.resolve_name(_COMMANDS[type(options)])
            with _without_reader(options):
                code = int(run(options))
            _flush()
        except BrokenPipeError:  # `skpref ... | head`: the reader has seen enough
            for stream in (sys.stdout, sys.stderr):
                _discard(stream)
            return 0
        except MemoryError as error:
            print(f"skpref: error: there is too little memory: {printable(error)}", file=sys.stderr)
            return 2
        except (SkprefError, OSError) as error:
            print(f"skpref: error: {printable(_in_a_line(error))}", file=sys.stderr)
            return 2
        except KeyboardInterrupt as stop:
            print(f"skpref: {str(stop) or 'stopped'}", file=sys.stderr)
            return 130
    return code


class Printable:
    """A stream that writes control characters as in Python: text from a file does not steer the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write."""
        self._stream.write(printable_lines(text))
        return len(text)


@contextmanager
def _printable_streams() -> Iterator[None]:
    out, err = (None if stream is None else cast("TextIO", Printable(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield


class Patient:
    """A stream that ignores a reader who leaves, as in ``skpref tune ... | head``."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write."""
        try:
            self._stream.write(text)
        except BrokenPipeError:
            _discard(self._stream)
        return len(text)

    def flush(self) -> None:
        """Write what waits to be written."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            _discard(self._stream)


@contextmanager
def _without_reader(options: Any) -> Iterator[None]:
    """Finish the work of a command that writes files, even if nobody reads its output any more."""
    if not isinstance(options, Tune | Fit) or sys.stdout is None or sys.stderr is None:
        yield
        return
    out, err = cast("TextIO", Patient(sys.stdout)), cast("TextIO", Patient(sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield


def _discard(stream: TextIO) -> None:
    """Let what is still written go to the null device."""
    with suppress(OSError, ValueError, AttributeError):  # not all streams are files
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _flush() -> None:
    """Write all that was printed now, not at the end of Python, where an error would be a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # closed by who started the command
            stream.flush()


@contextmanager
def _ends_in_order() -> Iterator[None]:
    """Turn SIGTERM into SystemExit, so that tracked values are sent and runs are ended."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _in_a_line(error: Exception) -> str:
    if isinstance(error, SkprefError) or not isinstance(error, OSError) or error.filename is None:
        return str(error)
    hint = ""
    if isinstance(error, FileNotFoundError):
        path = Path(os.fsdecode(error.filename))
        names = (
            [entry.name for entry in path.parent.iterdir() if entry.name != path.name] if path.parent.is_dir() else []
        )
        near = difflib.get_close_matches(path.name, names[:5000], n=1, cutoff=0.8)
        hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{error.filename}: {error.strerror}{hint}"


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    if issubclass(category, UserWarning):  # ours and scikit-learn's; deprecations are not for users of a command
        say_note(printable(message))
