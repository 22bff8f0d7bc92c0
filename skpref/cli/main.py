"""From what was typed to an exit code: options, signals, errors in one line."""

from __future__ import annotations

import os
import pkgutil
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, TextIO, cast

from skpref._text import nearest, printable, printable_lines
from skpref.cli.files import say_note
from skpref.cli.options import COMMANDS, Data, flag_of, parse
from skpref.exceptions import SkprefError

_OPTIONS = {option.name for option in fields(Data)}
_PYTHON = re.compile(r"(?<![-\w.(])([a-z_]+)=(\[[^\]]*\]|'[^']*')")  # a parameter and its value
_READERS = {"skpref.data.from_results": "--score", "skpref.data.from_counts": "--counts"}
_READERS |= {"none=...": "--none WORD", "features={...}": "--features", "at must be dates": "--at must be a date"}
_READERS["by order_effect=True"] = "by --set order_effect=True"
_READERS["pass this column as y with likelihood='logit-graded'"] = "--set likelihood=logit-graded learns from grades"
_READERS["give them ids of their own"] = "give them ids, or an attribute, that tell them apart"
_RUNS = {kind: f"skpref.cli.{run}" for kind, run, _ in COMMANDS.values()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    streams = [None if stream is None else Output(stream) for stream in (sys.stdout, sys.stderr)]
    out, err = (cast("TextIO", stream) for stream in streams)  # None where it was closed by who started the command
    with redirect_stdout(out), redirect_stderr(err), _ends_in_order(), warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.filterwarnings("ignore", "covariate .* is never negative", UserWarning)  # a note names its option
        warnings.showwarning = _show_warning  # type: ignore[assignment]  # the stub wants all six names
        opened = list(filter(None, streams))
        try:
            options = parse(sys.argv[1:] if argv is None else argv)
            code = int(pkgutil.resolve_name(_RUNS[type(options)])(options))
            for stream in opened:  # now, not at the end of Python, where an error would be a traceback
                stream.flush()
        except MemoryError as error:
            print(f"skpref: error: there is too little memory: {printable(error)}", file=sys.stderr)
            return 2
        except (SkprefError, OSError) as error:
            print(f"skpref: error: {printable(_typed(_in_a_line(error)))}", file=sys.stderr)
            return 2
        except KeyboardInterrupt as stop:
            print(f"skpref: {str(stop) or 'stopped'}", file=sys.stderr)
            return 130
    return code


class Output:
    """A stream that writes control characters as in Python: text from a file does not steer the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        if hasattr(stream, "reconfigure"):  # an id that the terminal has no letters for is no reason to fail
            stream.reconfigure(errors="backslashreplace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write."""
        self._unless_closed(self._stream.write, printable_lines(text))
        return len(text)

    def flush(self) -> None:
        """Write what waits to be written."""
        self._unless_closed(self._stream.flush)

    def _unless_closed(self, write: Callable[..., object], *text: str) -> None:
        try:
            write(*text)
        except BrokenPipeError:  # `skpref ... | head`: the reader has seen enough, but the work must end
            self.discard()

    def discard(self) -> None:
        """Let what is still written go to the null device."""
        with suppress(OSError, ValueError, AttributeError):  # not all streams are files
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


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


def _typed(text: str) -> str:
    """Return a text in which words and lists of Python, such as on_self='drop', are options as they are typed."""

    def option(match: re.Match[str]) -> str:
        return f"{flag_of(match[1])} {match[2][1:-1] or 'none'}" if match[1] in _OPTIONS else match[0]

    for reader, flag in _READERS.items():
        text = text.replace(reader, flag)
    return _PYTHON.sub(option, text)


def _in_a_line(error: Exception) -> str:
    if isinstance(error, SkprefError) or not isinstance(error, OSError) or error.filename is None:
        return str(error)
    hint, path = "", Path(os.fsdecode(error.filename))
    if isinstance(error, FileNotFoundError):
        with suppress(OSError):
            hint = nearest(path.name, sorted(other.name for other in path.parent.iterdir() if other.exists()), 0.8)
    return f"{error.filename}: {error.strerror}{hint}"


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    if issubclass(category, UserWarning):  # ours and scikit-learn's; deprecations are not for users of a command
        say_note(printable(_typed(str(message))))
