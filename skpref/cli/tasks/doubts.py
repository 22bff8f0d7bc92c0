"""Notes on data that can be read, but look like a mistake: ids, scores and covariates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from skpref._typing import Array
    from skpref.cli.files import Sheet
    from skpref.exceptions import DataError

_SHOWN = 3  # examples in a note
_FEWEST = 10  # rows from which a pattern is hardly chance
_C1 = re.compile(r"[\x80-\x9f]")  # control characters, which are letters and quotes in encodings of Windows
_SIDES = ("home", "away"), ("left", "right"), ("white", "black"), ("a", "b"), ("x", "y"), ("1", "2"), ("h", "a")


def notes_on_ids(noun: str, ids: Iterable[str]) -> list[str]:
    """Return notes on ids that differ only in case, and on ids that were read in a wrong encoding."""
    names = sorted(set(ids))
    by_case: dict[str, list[str]] = {}
    for name in names:
        by_case.setdefault(name.lower(), []).append(name)
    notes = []
    if alike := [same for same in by_case.values() if len(same) > 1]:
        shown = "; ".join(", ".join(repr(name[:80]) for name in same) for same in alike[:_SHOWN])
        more = f"; and {len(alike) - _SHOWN} more" if len(alike) > _SHOWN else ""
        notes.append(f"{noun}s whose names differ only in case are different {noun}s: {shown}{more}")
    if odd := [name for name in names if _C1.search(name)]:
        why = "as in a file that is read in a wrong encoding; try --encoding cp1252 or cp1250"
        notes.append(f"{noun} {odd[0][:80]!r} has a control character, {why}")
    return notes


def notes_on_columns(ids: dict[str, NDArray[Any]]) -> list[str]:
    """Return the notes on columns of ids, by what they are ids of."""
    return [note for noun, names in ids.items() for note in notes_on_ids(noun, names.ravel().tolist())]


def notes_on_sides(names: Sequence[str], left: NDArray[Any], right: NDArray[Any]) -> list[str]:
    """Return a note if no item is in both columns of items."""
    if left.size < _FEWEST or set(left.tolist()) & set(right.tolist()):
        return []
    return [f"no item is in both columns, {names[0]!r} and {names[1]!r}; are these the columns of the items?"]


def score_of_one_side(sheet: Sheet, column: str, margins: Array) -> DataError | None:
    """Return the complaint of a column of margins that is the score of one side, as it is never negative."""
    if margins.size < _FEWEST or margins.min() < 0.0:
        return None
    other = other_side(sheet, column) or "OTHER_COLUMN"
    what = "this column is read as the left score minus the right one, but it is never negative: left never loses"
    return sheet.fault(f"{what}; for the scores of both sides write --score {column},{other}", None, column)


def notes_on_covariate(sheet: Sheet, column: str, values: Array) -> list[str]:
    """Return a note on a covariate that is no difference of the two sides, and not of 0 and 1."""
    if values.size < _FEWEST or values.min() < 0.0 or np.isin(values, (0.0, 1.0)).all():
        return []
    other = other_side(sheet, column)
    advice = "--covariates A-B takes the difference of two columns"
    if other is not None:
        advice = f"did you mean the difference, --covariates {column}-{other}?"
    return [f"covariate {column!r} is never negative, and a positive value favours the left side; {advice}"]


def other_side(sheet: Sheet, column: str) -> str | None:
    """Return the column with the name of the other side, such as len_b for len_a; None if there is none."""
    names = {name.lower(): name for name in sheet.names}
    for pair in _SIDES:
        for this, other in (pair, pair[::-1]):
            for match in re.finditer(this, column.lower()):
                name = column.lower()[: match.start()] + other + column.lower()[match.end() :]
                if name in names:
                    return names[name]
    return None
