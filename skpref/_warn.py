"""Warnings that name the line of the user, however deep they arise, and errors that name the extra to install."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from skpref.exceptions import DataWarning, MissingExtraError

# contextlib stands between a `with` block and what its context manager does at the end.
_INSIDE = frozenset({"skpref", "sklearn", "contextlib"})


def warn(message: str, category: type[Warning] = DataWarning) -> None:
    """Warn at the line of the first caller outside of skpref and scikit-learn."""
    level, frame = 1, sys._getframe()  # noqa: SLF001 - as the module `warnings` does
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _INSIDE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def importing(message: str) -> Iterator[None]:
    """Turn an ImportError into one that says what needs the package, and which extra has it."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(message) from error
