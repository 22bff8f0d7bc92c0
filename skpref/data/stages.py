"""Choices of one among k as k (k - 1) / 2 pairs: which pairs these are, and which of them a choice decides."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from skpref._typing import BoolArray, IntArray

MOST_SHOWN = 50  # alternatives of a choice: their pairs are 1,225, and a ranking of them has 20,825


def pairs_of(k: int) -> tuple[IntArray, IntArray]:
    """Return the first and the second of each pair of k alternatives: (0, 1), ..., (0, k - 1), (1, 2), ..., (n,)."""
    first, second = np.array(list(combinations(range(k), 2)), dtype=np.int64).reshape(-1, 2).T
    return first, second


def starts_of(stage: IntArray) -> IntArray:
    """Return the first row of each choice, and the number of rows, given the number of each row's choice."""
    return np.concatenate([[0], np.flatnonzero(np.diff(stage)) + 1, [stage.size]]) if stage.size else np.zeros(1, int)


def sizes_of(starts: IntArray) -> IntArray:
    """Return the number of alternatives of choices, given the first row of each, shape (T,)."""
    return np.rint(0.5 + np.sqrt(0.25 + 2.0 * np.diff(starts))).astype(np.int64)


def are_decided(stage: IntArray) -> BoolArray:
    """Tell of pairs of choices whether one of them was chosen, shape (P,)."""
    starts = starts_of(stage)
    place = np.arange(stage.size) - np.repeat(starts[:-1], np.diff(starts))
    return np.asarray(place < np.repeat(sizes_of(starts) - 1, np.diff(starts)))
