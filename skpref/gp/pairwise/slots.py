"""Slots of a comparison: the items whose utilities z adds and subtracts, one of each, or the players of two teams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray


def item_slots(left: IntArray, right: IntArray, *, mean: bool) -> tuple[IntArray, Array]:
    """Return the items of comparisons and their coefficients in z, (n, S) each; slots without a player have 0."""
    sides = [side[:, None] if side.ndim == 1 else side for side in (left, right)]
    shares = [(side >= 0).astype(np.float64) for side in sides]
    if mean:
        shares = [share / share.sum(axis=1, keepdims=True) for share in shares]
    items = np.hstack(sides)
    return np.where(items < 0, items[:, :1], items), np.hstack([shares[0], -shares[1]])


def weighted_rows(rows: Array, items: IntArray, coefficient: Array) -> Array:
    """Return the sums of the rows of items times their coefficients, shape (n, K)."""
    total = coefficient[:, :1] * rows[items[:, 0]]
    for s in range(1, items.shape[1]):
        total += coefficient[:, s, None] * rows[items[:, s]]
    return total


def join_equal(place: IntArray, coefficient: Array) -> Array:
    """Return coefficients (n, S) in which the first of equal places in a row has the sum of theirs, and others 0."""
    joined = coefficient.copy()
    for s in range(place.shape[1] - 1):
        for t in range(s + 1, place.shape[1]):
            same = place[:, s] == place[:, t]
            joined[same, s] += joined[same, t]
            joined[same, t] = 0.0
    return joined
