"""Warnings that name the line of the user, however deep they arise."""

from __future__ import annotations

import sys
import warnings

from skpref.exceptions import DataWarning

# contextlib stands between a `with` block and what its context manager does at the end.
_INSIDE = frozenset({"skpref", "sklearn", "contextlib"})


def warn(message: str, category: type[Warning] = DataWarning) -> None:
    """Warn at the line of the first caller outside of skpref and scikit-learn."""
    level, frame = 1, sys._getframe()  # noqa: SLF001 - as the module `warnings` does
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _INSIDE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
