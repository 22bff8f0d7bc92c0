"""Text from outside, such as an id, as it may be shown on a terminal or in a plot."""

from __future__ import annotations

import re

# Control characters, ends of lines, half characters, and what turns the direction of text.
_CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT = re.compile(f"[{_CONTROLS}]")
_IN_A_LINE = re.compile(f"[{_CONTROLS}\t\n\r]")


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def printable(text: object) -> str:
    """Return one line in which control characters are written as in Python."""
    return _IN_A_LINE.sub(_escaped, text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text))


def printable_lines(text: str) -> str:
    """Return the same with tabs and ends of lines as they are."""
    return _IN_TEXT.sub(_escaped, text)
