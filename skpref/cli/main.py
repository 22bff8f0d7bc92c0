"""From what was typed to an exit code: options, signals, errors in one line."""

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
from skpref.cli.options import COMMANDS, Fit, Run, Tune, parse
from skpref.exceptions import SkprefError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RUNS = {kind: f"skpref.cli.{run}" for kind, run, _ in COMMANDS.values()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # an id that the terminal has no letters for is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    with _wrapped(Printable), _ends_in_order(), warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = _show_warning  # type: ignore[assignment]  # the stub wants all six names
        try:
            options = parse(sys.argv[1:] if argv is None else argv)
            run = pkgutil.resolve_name(_RUNS[type(options)])
            # A command that writes files finishes its work, even if nobody reads its output any more.
            with _wrapped(Patient if isinstance(options, Tune | Fit | Run) else Stream):
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


class Stream:
    """A stream that writes to another one."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write."""
        self._stream.write(text)
        return len(text)


class Printable(Stream):
    """A stream that writes control characters as in Python: text from a file does not steer the terminal."""

    def write(self, text: str) -> int:
        """Write."""
        self._stream.write(printable_lines(text))
        return len(text)


class Patient(Stream):
    """A stream that ignores a reader who leaves, as in ``skpref tune ... | head``."""

    def write(self, text: str) -> int:
        """Write."""
        with self._without_reader():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write what waits to be written."""
        with self._without_reader():
            self._stream.flush()

    @contextmanager
    def _without_reader(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            _discard(self._stream)


@contextmanager
def _wrapped(kind: type[Stream]) -> Iterator[None]:
    """Let output go through a stream of a kind; streams may be closed."""
    out, err = (None if stream is None else cast("TextIO", kind(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield


def _discard(stream: Any) -> None:
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
        others = path.parent.iterdir() if path.parent.is_dir() else ()
        names = [entry.name for entry in others if entry.name != path.name][:5000]
        near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.8)
        hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{error.filename}: {error.strerror}{hint}"


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    if issubclass(category, UserWarning):  # ours and scikit-learn's; deprecations are not for users of a command
        say_note(printable(message))
