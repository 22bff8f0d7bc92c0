"""Text from outside, such as an id, as it may be shown on a terminal or in a plot."""

from __future__ import annotations

import re

# Control characters, ends of lines, half characters, and what turns the direction of text.
_CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT = re.compile(f"[{_CONTROLS}]")
_IN_A_LINE = re.compile(f"[{_CONTROLS}\t\n\r]")

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
    """Return the same with tabs and ends of lines as they are."""
    return _IN_TEXT.sub(_escaped, text)
