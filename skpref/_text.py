"""Text from outside, such as an id, made safe for a terminal or a plot."""

from __future__ import annotations

import difflib
import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Control characters, ends of lines, half characters, and what turns the direction of text.
_CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT = re.compile(f"[{_CONTROLS}]")
_IN_A_LINE = re.compile(f"[{_CONTROLS}\t\n\r]")

_SECRET = re.compile(r"//[^/@\s]+@")  # user and password in an address
_SIDE_NAMES = ("home", "away"), ("left", "right"), ("white", "black"), ("a", "b"), ("x", "y"), ("1", "2"), ("h", "a")
_COMMA_NUMBER = re.compile(  # number with a comma before its decimals, perhaps with points between thousands
    r"\s*[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)?(,[0-9]*)?([eE][+-]?[0-9]+)?\s*"
)

# How spreadsheets, pandas and R write a number that is missing.
_NO_NUMBER = {"", "na", "n/a", "#n/a", "nan", "-nan", "nat", "null", "none", "<na>"}


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def printable(text: object) -> str:
    """Return one line in which control characters are written as in Python."""
    return _IN_A_LINE.sub(_escaped, text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text))


def lacks_number(cell: object) -> bool:
    """Tell whether a cell is empty, or holds text such as NA where a number is missing."""
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in _NO_NUMBER)


def printable_lines(text: str) -> str:
    """Return text made safe for a terminal, with its tabs and ends of lines."""
    return _IN_TEXT.sub(_escaped, text)


def error_line(error: BaseException | str) -> str:
    """Return the line of an error, or of a traceback, that says what happened, without passwords."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    frames = [number for number, line in enumerate(lines, 1) if line.lstrip().startswith('File "')]
    # SQLAlchemy may begin with where the error was raised; a line of code is indented.
    told = (line for line in lines[max(frames, default=0) :] if line[:1].strip() and not line.startswith("(raised as"))
    line = _SECRET.sub("//***@", next(told, lines[-1].strip()))
    return line[:400] + "..." if len(line) > 400 else line


def nearest(name: Any, names: Sequence[Any], alike: float = 0.6) -> str:
    """Return "; did you mean 'x'?" for the nearest of some names, or nothing."""
    known: dict[str, Any] = {}
    opposite = other_side(names, name)  # which is hardly meant
    for other in names[:5000]:  # for a second
        if other != opposite:
            known.setdefault(plain(str(other)), other)
    near = difflib.get_close_matches(plain(str(name)), list(known), n=1, cutoff=alike)
    return f"; did you mean {str(known[near[0]])[:80]!r}?" if near else ""


def is_number(cell: Any) -> bool:
    """Tell whether a cell can be read as a number."""
    return not math.isnan(number(cell)) or (isinstance(cell, str) and cell.strip().lower() == "nan")


def with_point(cell: Any) -> Any:
    """Return the text of a number with a decimal comma as one with a point; None of other text."""
    if not isinstance(cell, str):
        return cell
    return cell.replace(".", "").replace(",", ".") if _COMMA_NUMBER.fullmatch(cell) else None


def number(cell: Any, words: Callable[[str, float], float] | None = None) -> float:
    """Return the number of a cell, NaN if it has none; `words` reads the number of a word."""
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return words(cell.strip().lower(), math.nan) if words and isinstance(cell, str) else math.nan


def plain(name: str) -> str:
    """Return a name without capitals, spaces, underscores and hyphens."""
    return re.sub(r"[\s_-]+", "", name.lower())


def other_side(names: Sequence[Any], column: Any) -> Any:
    """Return the column with the name of the other side, such as len_b for len_a; None if there is none."""
    known, own = {str(name).lower(): name for name in names}, str(column).lower()
    for pair in _SIDE_NAMES:
        for this, other in (pair, pair[::-1]):
            for match in re.finditer(this, own):
                name = own[: match.start()] + other + own[match.end() :]
                if name in known:
                    return known[name]
    return None
