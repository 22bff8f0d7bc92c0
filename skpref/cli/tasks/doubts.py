"""Notes on data that can be read, but look like a mistake: ids, sides and covariates."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from skpref._text import other_side, plain
from skpref.cli.files import RATINGS, say_note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skpref._typing import AnyArray, Array
    from skpref.data.columns import Columns
    from skpref.data.roles import Roles

_SHOWN = 3  # examples in a note
_FEWEST = 10  # rows from which a pattern is hardly chance
_C1 = re.compile(r"[\x80-\x9f]")  # control characters, which are letters and quotes in encodings of Windows


def say_doubts(sheet: Columns, notes: list[str]) -> None:
    """Tell the user what looks like a mistake in a file."""
    for note in notes:
        say_note(f"{sheet.source}: {note}")


def notes_on_columns(ids: dict[str, AnyArray | None]) -> list[str]:
    """Return notes on ids that differ only in case, and on ids that were read in a wrong encoding, by their noun."""
    notes = []
    for noun, column in ids.items():
        names, by_case = sorted(set([] if column is None else column.ravel().tolist())), defaultdict(list)
        for name in names:
            by_case[name.lower()].append(name)
        if alike := [same for same in by_case.values() if len(same) > 1]:
            shown = "; ".join(", ".join(repr(name[:80]) for name in same) for same in alike[:_SHOWN])
            more = f"; and {len(alike) - _SHOWN} more" if len(alike) > _SHOWN else ""
            notes.append(f"{noun}s whose names differ only in case are different {noun}s: {shown}{more}")
        if odd := next(filter(_C1.search, names), None):
            why = "as in a file that is read in a wrong encoding; try --encoding cp1252 or cp1250"
            notes.append(f"{noun} {odd[:80]!r} has a control character, {why}")
    return notes


def notes_on_sides(names: Sequence[str], left: AnyArray, right: AnyArray) -> list[str]:
    """Return a note if no item is in both columns of items."""
    if left.size < _FEWEST or set(left.tolist()) & set(right.tolist()):
        return []
    return [f"no item is in both columns, {names[0]!r} and {names[1]!r}; are these the columns of the items?"]


def notes_on_answers(sheet: Columns, roles: Roles, none: str | None = None) -> list[str]:
    """Return a note on winners of 0 and 1, on ratings that are read as ranks, or on a level called none."""
    name, rank = str(roles.winner), str(roles.rank)
    if plain(name).startswith("winner") and roles.loser is None and set(sheet.texts(name)) == {"0", "1"}:
        return [f"1 in {name!r} is the left item and 0 the right one; if 0 is the first, write left and right"]
    if plain(rank) in RATINGS:
        return [f"{rank!r} is read as ranks, of which 1 is the best; of ratings, --item-ratings reads a grid"]
    words = {text for attribute in roles.features for text in sheet.texts(attribute)}
    if none is None and (word := next((word for word in words if word.lower() == "none"), None)):
        return [f"{word!r} is a level of an attribute; if it stands for none of the others, --none {word} says so"]
    return []


def notes_on_covariate(sheet: Columns, column: str, values: Array) -> list[str]:
    """Return a note on a covariate that is no difference of the two sides, and not of 0 and 1."""
    if values.size < _FEWEST or values.min() < 0.0 or np.isin(values, (0.0, 1.0)).all():
        return []
    other = other_side(sheet.names, column)
    advice = "--covariates A-B takes the difference of two columns"
    if other is not None:
        advice = f"did you mean the difference, --covariates {column}-{other}?"
    return [f"covariate {column!r} is never negative, and a positive value favours the left side; {advice}"]
