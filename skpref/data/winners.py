"""Who won a comparison: a label, a word for a side, or the id of an item; scores of both sides; games listed twice."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from skpref._text import is_number, lacks_number, number, other_side, plain
from skpref._typing import Array, IntArray
from skpref._warn import warn
from skpref.data.columns import DROP, TRUTH, Columns
from skpref.data.ids import IdColumn, Vocabulary, shorten
from skpref.data.labels import GRADES, verdict
from skpref.data.policy import POLICY
from skpref.exceptions import DataError

_BOTH = "both bad", "both-bad", "bothbad", "tie bothbad", "tie both bad", "both good"
_HALVES = "1/2-1/2", "½-½", "½"
_TIES = dict.fromkeys(("tie", "tied", "draw", "equal", "same", "both", *_BOTH, "neither", *_HALVES), 0.5)
# A column keeps to one of these, since "a" is the away team next to "h" and the left side next to "b".
_SIDES: tuple[dict[str, float], ...] = (
    {"left": 1.0, "right": 0.0},
    {"a": 1.0, "b": 0.0},
    {"first": 1.0, "second": 0.0},
    {"1": 1.0, "2": 0.0, "x": 0.5},
    {"1": 1.0, "0": 0.0, "0.5": 0.5},
    {"1": 1.0, "-1": 0.0, "0": 0.5},
    {"true": 1.0, "false": 0.0},
    {"home": 1.0, "away": 0.0},
    {"h": 1.0, "a": 0.0, "d": 0.5},
    {"white": 1.0, "black": 0.0},
    {"w": 1.0, "l": 0.0, "d": 0.5},
    {"win": 1.0, "loss": 0.0},
    {"1-0": 1.0, "0-1": 0.0},
)
# Words of which a set of words needs one: beside 1 alone, 0 is no tie, and an A alone is not the away team.
_SIGNS = {"-1": {"-1"}, "h": {"h", "d"}}
_NOUNS = re.compile(r"(model|response|answer|assistant|option|item|player|team|side|candidate|output) (?=\w+$)")
_WINS = re.compile(r"( team| side| player)?( wins?| won| ?vote)?$")  # of "home win", but not the word "win" alone
_SCORE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*[-:\u2013]\s*([0-9]+(?:\.[0-9]+)?)\s*")  # 2-1, 2 : 1
TIED = {"draw", "drawn", "tie", "tied", "istie", "isdraw"}  # names of columns of flags
_YES = {"1", "true", "yes"}
_COUNTS = "win", "vote", "count"  # in names of columns of counts


def read_labels_of(columns: Columns, name: Any, left: tuple[Any, IdColumn], right: tuple[Any, IdColumn]) -> Array:
    """Return labels of a column of winners or of labels, shape (n,): 1 = left, 0 = right, 0.5 = a tie."""
    cells = columns.texts(name) if columns.is_text else columns.cells(name)
    if columns.decimal == ",":
        cells = [cell if columns.with_point(cell) is None else columns.with_point(cell) for cell in cells]
    odd = next((cell for cell in cells if not isinstance(cell, Hashable)), None)
    if odd is not None:
        raise columns.fault(f"winners must be ids or words; got {shorten(odd)}", None, name)
    items = {*left[1].tolist(), *right[1].tolist()}
    is_empty = (cell not in items and lacks_number(cell) for cell in cells)
    columns.refuse_empty("the winner is missing", is_empty, name, "; if nobody won, write tie")
    y = _labels(columns, name, cells, left, right)
    if np.isnan(y).any():
        row, numbers = int(np.argmax(np.isnan(y))), _soft_labels(cells)
        if numbers is None:
            raise columns.fault(_winner_fault(cells[row], left[1][row], right[1][row]), row, name)
        y = numbers
    _refuse_flags(columns, name)
    return y


def read_grades_of(columns: Columns, name: Any) -> Array:
    """Return a column of verdicts, signed numbers or words for a tie as grades, shape (n,)."""
    cells = columns.texts(name)
    columns.refuse_empty("the grade is missing", map(lacks_number, cells), name, "; if nobody won, write tie")
    grades = np.fmax(list(map(verdict, cells)), [number(columns.with_point(cell)) for cell in cells])
    grades = np.where([_folded(cell) in _TIES for cell in cells], 0.0, grades)
    for row in np.flatnonzero(~np.isfinite(grades))[:1].tolist():
        raise columns.fault(f"{shorten(cells[row])} is no grade; {GRADES}, or words for a tie", row, name)
    return grades


def _labels(columns: Columns, name: Any, cells: Sequence[Any], left: Any, right: Any) -> Array:
    """Return labels from ids of winners or words for their sides, NaN where a cell is neither, shape (n,)."""
    number = {cell: k for k, cell in enumerate(dict.fromkeys(cells))}
    codes = np.fromiter((number[cell] for cell in cells), np.int64, len(cells))
    words = list(map(_folded, number))
    shorter = [_NOUNS.sub("", _WINS.sub("", word)) for word in words]
    winners = np.fromiter(cells, object, len(cells))
    tie = [_TIES.get(a, _TIES.get(b, np.nan)) for a, b in zip(words, shorter, strict=True)]
    is_left, is_right = (np.asarray(winners == ids.astype(object), dtype=bool) for ids in (left[1], right[1]))
    readings = {"ids of items": np.where(is_left, 1.0, np.where(is_right, 0.0, np.array(tie)[codes]))}
    own = _own_words(left[0], right[0])
    for sides in (own, *_SIDES):
        if any(sign in sides and needed.isdisjoint(words) for sign, needed in _SIGNS.items()):
            continue
        values = [sides.get(a, sides.get(b, half)) for a, b, half in zip(words, shorter, tie, strict=True)]
        if {0.0, 1.0} & set(values):  # not ties alone: an x may be an item
            what = f"the columns {left[0]} and {right[0]}" if sides is own else " and ".join(sides)
            readings[what] = np.array(values)[codes]
    whole = {what: y for what, y in readings.items() if not np.isnan(y).any()}
    first = next(iter(whole), "")
    for what, y in whole.items():
        if (y != whole[first]).any():
            row = int(np.argmax(y != whole[first]))
            both = f"{shorten(cells[row])} has two readings: {first}, or {what}"
            raise columns.fault(f"{both}. Write left, right or tie in this column", row, name)
    return min(readings.values(), key=lambda y: int(np.isnan(y).sum()))


def _own_words(left: Any, right: Any) -> dict[str, float]:
    """Return the names of the columns of both sides, and the one word in which they differ: 0 and 1 of answer_0, _1."""
    names = _folded(left), _folded(right)
    words = [re.findall(r"[a-z]+|[0-9]+", name) for name in names]
    differ = [pair for pair in zip(*words, strict=False) if pair[0] != pair[1]]
    alone = differ[0] if len(differ) == 1 and len(words[0]) == len(words[1]) else names
    return dict(zip((*names, *alone), (1.0, 0.0, 1.0, 0.0), strict=True))


def _soft_labels(cells: Sequence[Any]) -> Array | None:
    """Return cells as numbers from 0 to 1, shape (n,); None if one of them is none."""
    y = np.array(cells, dtype=np.float64) if all(map(is_number, cells)) else None
    return y if y is not None and ((y >= 0.0) & (y <= 1.0)).all() else None


def _folded(cell: object) -> str:
    """Return a word in lower case, without underscores and brackets; 1.0 is 1."""
    text = re.sub(r"^tie[\s_]*\(.*\)$", "tie", str(cell).lower())  # tie (bothbad), tie (inconsistent)
    text = re.sub(r"[\s_()\[\]]+", " ", text).strip()
    return text.removesuffix(".0")


def _winner_fault(cell: object, left: object, right: object) -> str:
    """Return what is wrong with a cell that names no winner, and what to do."""
    if isinstance(cell, str) and _SCORE.fullmatch(cell):
        return f"winner {shorten(cell)} is a score; skpref.data.from_results reads scores"
    if isinstance(cell, str) and not np.isnan(verdict(cell)):
        return f"winner {shorten(cell)} is a graded verdict: pass this column as y with likelihood='logit-graded'"
    neither = f"winner {shorten(cell)} is neither of the items {shorten(left)} and {shorten(right)}, nor a"
    if is_number(cell):
        advice = "a margin, positive where left won, or the scores of both sides are read by skpref.data.from_results"
        if 1.0 < number(cell) < 2.0:
            advice = "if 1 is the left item and 2 the right one, write 2 minus this number"
        return f"{neither} label from 0 (right won) to 1 (left won); {advice}"
    words = "left, right; model_a, model_b; a, b; home, away; 1, 0; 1, -1; tie, both bad"
    advice = f"replace it by one of them, or empty the cell and {DROP}"
    return f"{neither} word for a side ({words}) as the other rows have it; {advice}"


def _refuse_flags(columns: Columns, name: Any) -> None:
    """Refuse one of several columns of shares or flags that together say who won: winner_a, winner_b, winner_tie."""
    stem, opposite = _stem(name), other_side(columns.names, name)
    alike = [other for other in columns.names if other == opposite or (_stem(other) == stem != str(name))]
    shares = {other: _shares(columns, other) for other in (dict.fromkeys([name, *alike]) if alike else ())}
    flags = {other: values for other, values in shares.items() if values is not None}
    exclusive = {name, opposite} <= flags.keys() and (flags[name] + flags[opposite] <= 1.0).all()
    if exclusive or (len(flags) > 1 and name in flags and (np.sum(list(flags.values()), axis=0) == 1.0).all()):
        listed = ", ".join(map(repr, flags))
        raise columns.fault(
            f"the columns {listed} are flags, of which one at most is 1 in each row; skpref.data.from_counts reads them"
        )


def _shares(columns: Columns, name: Any) -> Array | None:
    """Return a column of shares or flags, shape (n,); None if it has other cells."""
    cells = columns.cells(name)
    share = {cell: number(cell, TRUTH.get) for cell in cells if isinstance(cell, Hashable)}
    if not all(0.0 <= value <= 1.0 for value in share.values()):
        return None
    return np.array([share.get(cell, np.nan) for cell in cells])


def _stem(name: Any) -> str:
    """Return the first word of the name of a column."""
    return re.split(r"[\s_.]", str(name))[0]


def refuse_ties(columns: Columns, used: Sequence[Any]) -> None:
    """Refuse rows of winner and loser of which another column says that some are ties."""
    for name in columns.names:
        if name in used or plain(str(name)) not in TIED:
            continue
        words = [text.lower() for text in columns.texts(name)]
        ties = [row for row, word in enumerate(words) if word in _YES]
        if ties and set(words) <= _YES | {"0", "false", "no", ""}:
            what = f"this row may be a tie ({len(ties)} such rows), but rows of winner and loser have none"
            advice = "name left, right and a column of winners in which ties are called tie; or leave this column out"
            raise columns.fault(f"{what}: {advice}", ties[0], name)


# --------------------------------------------------------------------------------------------------------------- scores
def read_margins(columns: Columns, scores: Sequence[Any]) -> Array:
    """Return the left score minus the right one, shape (n,), from two columns, or from one of margins or of 2-1."""
    if not 1 <= len(scores) <= 2:
        raise DataError(f"scores are one or two columns; got {len(scores)}")
    if len(scores) == 2:
        left, right = (columns.numbers(name, meaning="a score") for name in scores)
        are_counts = any(word in str(scores[0]).lower() for word in _COUNTS) and np.max(left, initial=0.0) > 1.0
        if are_counts:  # and not flags
            what = (
                f"{scores[0]}, {scores[1]} are read as the scores of one game: the higher one wins, by whatever margin"
            )
            warn(f"{what}. If they count wins or votes, from_counts reads them.")
        return left - right
    name = scores[0]
    cells = columns.cells(name)
    if any(isinstance(cell, str) and _SCORE.match(cell) for cell in cells):
        columns.refuse_empty("a score is missing", map(lacks_number, cells), name)
        found = [_SCORE.fullmatch(cell) if isinstance(cell, str) else None for cell in cells]
        for row, score in enumerate(found):
            if score is None:
                got = shorten(cells[row])
                raise columns.fault(f"expected the left and the right score, such as 2-1 or 2:1, got {got}", row, name)
        return np.array([float(score[1]) - float(score[2]) for score in found if score is not None])
    margins = columns.numbers(name, meaning="a score")
    if margins.size >= POLICY.many_rows and margins.min() >= 0.0 and margins.max() > 0.0:
        other = other_side(columns.names, name) or "OTHER_COLUMN"
        what = "this column is read as the left score minus the right one, but it is never negative: left never loses"
        raise columns.fault(f"{what}; name the scores of both sides: {name}, {other}", None, name)
    return margins


# --------------------------------------------------------------------------------------------------- games listed twice
def mirrored_rows(left: IdColumn, right: IdColumn, margin: Array, user: IdColumn | None = None) -> IntArray | None:
    """Return numbers of games, shape (n,), of which rows that list one for either side share one; None if few do."""
    n = margin.size
    if n < POLICY.many_rows or abs(np.sum(np.sign(margin))) > (1.0 - POLICY.mirrored) * n:
        return None
    items = Vocabulary.from_columns(left, right)
    codes = np.stack([items.encode(left), items.encode(right)])
    swap = codes[0] > codes[1]
    key = codes.min(axis=0) * items.size + codes.max(axis=0)
    own = [np.where(swap, -margin, margin), *([] if user is None else [Vocabulary.from_columns(user).encode(user)])]
    for column in own:
        key, more = (np.unique(values, return_inverse=True)[1] for values in (key, column))
        key = key * n + more
    key = np.unique(key, return_inverse=True)[1]
    if 2 * np.sum(np.minimum(np.bincount(key, swap), np.bincount(key, ~swap))) < POLICY.mirrored * n:
        return None
    order = np.lexsort((swap, key))
    runs = np.flatnonzero(np.diff(2 * key[order] + swap[order], prepend=-1))
    place = np.arange(n) - np.repeat(runs, np.diff(runs, append=n))  # among the rows that say the same
    game = np.empty(n, dtype=np.int64)
    game[order] = key[order] * n + place
    return game
