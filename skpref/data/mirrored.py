"""Games that a table lists twice, once for each side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skpref.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray
    from skpref.data.ids import IdColumn

_MANY = 10  # rows that hardly ever have a pattern by chance
_MIRRORED = 0.95  # share of rows with a twin from which games are listed twice


def mirrored_rows(left: IdColumn, right: IdColumn, margin: Array, user: IdColumn | None = None) -> IntArray | None:
    """Return numbers of games, shape (n,), of which rows that list one for either side share one; None if few do."""
    n = margin.size
    if n < _MANY or abs(np.sum(np.sign(margin))) > (1.0 - _MIRRORED) * n:
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
    if 2 * np.sum(np.minimum(np.bincount(key, swap), np.bincount(key, ~swap))) < _MIRRORED * n:
        return None
    order = np.lexsort((swap, key))
    runs = np.flatnonzero(np.diff(2 * key[order] + swap[order], prepend=-1))
    place = np.arange(n) - np.repeat(runs, np.diff(runs, append=n))  # among the rows that say the same
    game = np.empty(n, dtype=np.int64)
    game[order] = key[order] * n + place
    return game
