"""Values of the command line: what is typed, as numbers, names and paths, or a complaint of argparse."""

from __future__ import annotations

import ast
import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 2**32 - 1  # the largest seed
_SEPARATORS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "bar": "|", "space": " "}


def number(low: float, high: float = sys.float_info.max, *, whole: bool = False) -> Callable[[str], Any]:
    """Return a reader of numbers in a range."""

    def read(text: str) -> float:
        try:
            value = int(text) if whole else float(text)
        except ValueError:
            raise ArgumentTypeError(f"{text[:80]!r} is not a {'whole ' if whole else ''}number") from None
        if not low <= value <= high:
            what = f"less than {low:.15g}" if value < low else f"more than {high:.15g}" if value > high else "no number"
            raise ArgumentTypeError(f"{text[:80]} is {what}")
        return value

    return read


def at_least(low: int) -> Callable[[str], Any]:
    """Return a reader of whole numbers from `low` on."""
    return number(low, _MOST, whole=True)


def read_share(text: str) -> float:
    """Read a share that is held out; 0 stands for one rating of each user."""
    return 0.0 if text == "one" else float(number(0.05, 0.5)(text))


def read_text(text: str) -> str:
    """Read a text that is not empty."""
    if not text.strip():
        raise ArgumentTypeError("is empty")
    if "\0" in text:
        raise ArgumentTypeError("holds a zero byte")
    return text


def read_path(text: str) -> Path:
    """Read a path."""
    return Path(read_text(text))


def read_names(text: str) -> tuple[str, ...]:
    """Read names with commas between them."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ArgumentTypeError(f"{text!r} is not a list of names with commas between them")
    return names


def read_setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE, the value as Python writes it, or a word."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, ast.literal_eval({"true": "True", "false": "False"}.get(value, value))
    except (SyntaxError, ValueError):
        return name, value  # a word
    except (MemoryError, RecursionError):
        raise ArgumentTypeError(f"{text[:80]!r} ... is nested too deeply") from None


def read_separator(text: str) -> str:
    """Read the one character between cells, or its name, or ::."""
    separator = _SEPARATORS.get(text.lower(), text)
    if (len(separator) != 1 or separator in '"\r\n\0') and separator != "::":
        raise ArgumentTypeError(f"{text[:80]!r} is not one character, nor one of {', '.join(_SEPARATORS)}, ::")
    return separator


def read_encoding(text: str) -> str:
    """Read the name of an encoding of text."""
    try:
        "".encode(text)
    except (LookupError, ValueError):
        raise ArgumentTypeError(f"{text[:80]!r} is no encoding; try utf-8, latin-1, cp1252, utf-16") from None
    return text
