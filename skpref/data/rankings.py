"""Scores within groups as rankings, for the model of Plackett and Luce."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata
from sklearn.utils.validation import check_consistent_length

from skpref.data.ids import Vocabulary, as_ids, shorten
from skpref.data.stages import MOST_SHOWN
from skpref.data.tasks import RANKS, Answers, as_comparisons
from skpref.data.weights import read_weights
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray
    from skpref.data.comparisons import Comparisons

__all__ = ["rankings_of_scores"]


def rankings_of_scores(
    y: Array, qid: Any, sample_weight: Any, item: IntArray, first: IntArray
) -> tuple[Comparisons, IntArray]:
    """Return the ranking of each group as choices among items, the best first, and the first row of each item.

    Rows i are of `item[i]`, which row `first[item[i]]` shows. Further rows of an item in a group are alternatives with
    the same utility: they become items of their own.
    """
    ids = as_ids(np.zeros(y.size, dtype=np.int64) if qid is None else qid, "qid", "row")
    check_consistent_length(y, ids)
    groups = Vocabulary.from_columns(ids, name="qid")
    group, weight = groups.encode(ids, "qid", noun="row"), read_weights(sample_weight, y.size)
    order = np.lexsort((y, item, group))
    group, item, y, weight = group[order], item[order], y[order], weight[order]
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    _check_groups(group, weight, weight[starts], sizes, None if qid is None else groups.ids)
    weight = weight[starts]
    kind = group * first.size + item
    item = item + first.size * (np.arange(item.size) - np.searchsorted(kind, kind))
    distinct, item = np.unique(item, return_inverse=True)
    scores, numbers = np.full((sizes.size, sizes.max()), np.nan), np.full((sizes.size, sizes.max()), -1)
    place = group, np.arange(item.size) - starts[group]
    scores[place], numbers[place] = y, item
    if not (weight > 0.0)[np.nanmin(scores, axis=1) < np.nanmax(scores, axis=1)].any():
        raise DataError(
            "at least 1 comparison is required; got none: y has equal values (or zero weights) within every group. "
            "Pass scores that differ."
        )
    answers = Answers(RANKS, rankdata(-scores, method="dense", axis=1, nan_policy="omit"))
    choices = as_comparisons(answers, numbers, distinct.size, np.zeros(sizes.size, dtype=np.int64), 1, weight)
    return replace(choices, user=None, n_users=0), first[distinct % first.size]


def _check_groups(group: IntArray, weight: Array, of_group: Array, sizes: IntArray, names: Any) -> None:
    """Refuse groups that have too many rows for a ranking, and rows of a group that differ in weight."""
    largest, uneven = int(np.argmax(sizes)), np.flatnonzero(weight != of_group[group])
    if sizes[largest] > MOST_SHOWN:
        raise DataError(
            f"{_named(names, largest)} has {sizes[largest]} rows, and likelihood='plackett-luce' ranks at most "
            f"{MOST_SHOWN}. Use the default likelihood, which compares pairs, or smaller groups, by qid."
        )
    if uneven.size:
        row = int(uneven[0])
        raise DataError(
            f"sample_weight has {of_group[group[row]]:g} and {weight[row]:g} in {_named(names, group[row])}, whose "
            "ranking has one weight with likelihood='plackett-luce'. Give its rows the same weight, and leave rows out "
            "in place of a weight of 0; or use the default likelihood, in which pairs have weights."
        )


def _named(names: Any, group: Any) -> str:
    """Return a group as text; None: all rows are one."""
    return "y without qid" if names is None else f"group {shorten(names[group])} of qid"
