"""Who won a comparison, in words for the sides or by the ids of items."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._text import lacks_number
from skpref.data.ids import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skpref._typing import Array
    from skpref.data.ids import IdColumn

_BOTH = "both bad", "both-bad", "bothbad", "tie bothbad", "tie both bad", "both good"
_TIES = dict.fromkeys(("tie", "tied", "draw", "equal", "same", "both", *_BOTH, "neither"), 0.5)
# A column keeps to one of these, since "a" is the away team next to "h" and the left side next to "b".
_SIDES: tuple[dict[str, float], ...] = (
    {"left": 1.0, "right": 0.0},
    {"a": 1.0, "b": 0.0},
    {"first": 1.0, "second": 0.0},
    {"1": 1.0, "2": 0.0, "x": 0.5},
    {"1": 1.0, "0": 0.0, "0.5": 0.5},
    {"true": 1.0, "false": 0.0},
    {"home": 1.0, "away": 0.0},
    {"h": 1.0, "a": 0.0, "d": 0.5},
    {"white": 1.0, "black": 0.0},
    {"w": 1.0, "l": 0.0, "d": 0.5},
    {"win": 1.0, "loss": 0.0},
    {"1-0": 1.0, "0-1": 0.0, "1/2-1/2": 0.5},
)
_NOUNS = re.compile(r"(model|response|answer|assistant|option|item|player|team|side|candidate|output) (?=\w+$)")
_WINS = re.compile(r"( team| side| player)?( wins?| won)?$")  # of "home win", but not the word "win" alone
_SCORE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*[-:\u2013]\s*([0-9]+(?:\.[0-9]+)?)\s*")  # 2-1, 2 : 1


def labels_of_winners(winner: Sequence[Any], left: IdColumn, right: IdColumn, names: tuple[str, str]) -> Array:
    """Return labels from names of winners or words for their sides, NaN where a cell is neither, shape (n,)."""
    words = {cell: _folded(cell) for cell in set(winner)}
    rows = list(zip(winner, left.tolist(), right.tolist(), strict=True))
    by_id = [1.0 if cell == a else 0.0 if cell == b else _TIES.get(words[cell], np.nan) for cell, a, b in rows]
    readings = [np.array(by_id)]
    for sides in ({_folded(names[0]): 1.0, _folded(names[1]): 0.0}, *_SIDES):
        values = {
            cell: sides.get(word, sides.get(_NOUNS.sub("", _WINS.sub("", word)), _TIES.get(word, np.nan)))
            for cell, word in words.items()
        }
        readings.append(np.array([values[cell] for cell in winner]))
    return min(readings, key=lambda y: int(np.isnan(y).sum()))


def _folded(cell: object) -> str:
    """Return a word in lower case, without underscores and brackets; 1.0 is 1."""
    text = re.sub(r"[\s_()]+", " ", str(cell).lower()).strip()
    return text.removesuffix(".0")


def winner_fault(cell: object, left: object, right: object, scores: str = "skpref.data.from_results") -> str:
    """Return what is wrong with a cell that names no winner, and what to do; `scores` is what reads scores."""
    if lacks_number(cell):
        return "the winner is missing; leave such rows out by missing='drop', or write tie"
    if isinstance(cell, str) and _SCORE.fullmatch(cell):
        return f"winner {shorten(cell)} is a score; {scores} reads scores"
    return (
        f"winner {shorten(cell)} is neither of the items {shorten(left)} and {shorten(right)}, nor a word for a side "
        "(left, right; model_a, model_b; a, b; home, away; 1, 0; tie, both bad) as the other rows have it; replace it "
        "by one of them, or empty the cell and leave such rows out by missing='drop'"
    )


def margins_of_scores(cells: Sequence[Any]) -> Array | None:
    """Return the left score minus the right one of cells such as 2-1, NaN for others, shape (n,); None if all are."""
    if not any(isinstance(cell, str) and _SCORE.match(cell) for cell in cells):
        return None
    scores = [_SCORE.fullmatch(cell) if isinstance(cell, str) else None for cell in cells]
    return np.array([np.nan if score is None else float(score[1]) - float(score[2]) for score in scores])


def score_fault(cell: object) -> str:
    """Return what is wrong with a cell that is no score, in a column of scores such as 2-1."""
    advice = "; leave such rows out by missing='drop'" if lacks_number(cell) else ""
    return f"expected the left and the right score, such as 2-1 or 2:1, got {shorten(cell)}{advice}"
