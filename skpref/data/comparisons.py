"""Pairwise comparisons as one small typed record, and the functions that build it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.utils import check_consistent_length, column_or_1d

from skpref._checks import require
from skpref._typing import AnyArray, Array, BoolArray, IntArray
from skpref._validation import check_array
from skpref.data.ids import IdColumn, Vocabulary, as_ids, read_only, shorten
from skpref.data.labels import are_shares, are_with_ties, read_labels
from skpref.data.weights import read_weights
from skpref.exceptions import DataError

OnSelf = Literal["raise", "drop"]
_COLUMNS = "left", "right", "y", "weight", "user", "covariates", "group", "time", "stage", "context"


@dataclass(frozen=True, eq=False, slots=True)
class Comparisons:
    """P comparisons of items 0 to n_items - 1 (frozen, checked).

    Parameters
    ----------
    left, right : ndarray of shape (P,) or (P, S), dtype int64
        Rows of the two items; of teams, of all their players, and -1 after these.
    y : ndarray of shape (P,), dtype float64
        1 = left preferred, 0 = right preferred, 0.5 = a tie; other values
        between 0 and 1 are soft labels (docs/maths section 1).
    weight : ndarray of shape (P,), dtype float64
        Factor on the log-likelihood of each comparison, >= 0.
    n_items : int
        Number of items, including those never compared.
    user : ndarray of shape (P,), dtype int64, default=None
        Row of the user who answered, >= 0; None means that users are not
        distinguished.
    n_users : int, default=0
        Number of users, including those without comparisons; 0 without `user`.
    covariates : ndarray of shape (P, n_covariates), dtype float64, default=None
        What favours the left item where it is positive, such as a difference between the two; None means nothing.
    group : ndarray of shape (P, n_kinds), dtype int64, default=None
        Number of the group of each comparison, one column for each kind of groups, such as categories; None means
        that there are no groups.
    time : ndarray of shape (P,), dtype float64, default=None
        When each comparison took place; None means that nothing moves in time.
    stage : ndarray of shape (P,), dtype int64, default=None
        Number of the choice, of one among k, that a comparison is a part of. The k (k - 1) / 2 pairs of a choice stand
        together, in the order (0, 1), ..., (0, k - 1), (1, 2), ..., where 0 was chosen; in a choice of the worst, left
        and right are exchanged. None means that each comparison is an answer of its own.
    context : ndarray of shape (P, n_numbers), dtype float64, default=None
        Numbers on which utilities depend, in units of their standard deviations; None means on nothing.

    Raises
    ------
    DataError
        An item or a user is out of range, an item is compared with itself
        outside of a choice, a label is outside [0, 1], a weight is negative, lengths differ, or
        `n_users` is given without `user`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.data import Comparisons
    >>> once = Comparisons(np.array([0, 1]), np.array([1, 0]), np.array([1.0, 0.5]), np.ones(2), 2)
    >>> merged = once.merged()
    >>> merged.y.tolist(), merged.weight.tolist()
    ([0.75], [2.0])
    """

    left: IntArray
    right: IntArray
    y: Array
    weight: Array
    n_items: int
    user: Any = None  # (P,), or None, as the next ones
    n_users: int = 0
    covariates: Array | None = None
    group: IntArray | None = None
    time: Any = None
    stage: Any = None
    context: Array | None = None

    def __post_init__(self) -> None:
        """Check everything, since compiled loops use these numbers as indices."""
        names = [name for name in ("left", "right", "user") if getattr(self, name) is not None]
        columns: dict[str, Any] = {name: _rows(getattr(self, name), name) for name in names}
        check_consistent_length(*columns.values())
        left, right = columns["left"], columns["right"]
        columns |= {"y": read_labels(self.y, len(left)), "weight": read_weights(self.weight, len(left))}
        require(isinstance(self.n_items, Integral), self, "n_items", f"must be an integer; got {shorten(self.n_items)}")
        _check_items(self.n_items, left, right)
        if self.user is not None:
            _check_range("user", self.n_users, columns["user"])
        elif self.n_users:
            raise DataError(f"n_users is {self.n_users}, but user is None; pass the row of the user of each comparison")
        if self.stage is None:  # alternatives of a choice may be equal profiles
            refuse_same_item(left, right)
        require(left.ndim == 1 or self.stage is None, self, "stage", "is of single items")
        for name in (name for name in ("covariates", "context") if getattr(self, name) is not None):
            options: dict[str, Any] = {"dtype": np.float64, "ensure_min_samples": 0}
            columns[name] = check_array(getattr(self, name), input_name=name, **options)
        if self.group is not None:
            numbered = self.group.ndim == 2 and self.group.dtype == np.int64 and int(self.group.min(initial=0)) >= 0
            require(numbered, self, "group", "must be columns of numbers of groups, from 0")
            columns["group"] = self.group
        if self.time is not None:
            require(np.isfinite(self.time).all(), self, "time", "must be finite")
            columns["time"] = self.time
        if self.stage is not None:
            _check_stages(self.stage)
            columns["stage"] = self.stage
        check_consistent_length(*columns.values())
        for name, values in columns.items():
            object.__setattr__(self, name, read_only(values))

    @property
    def n_pairs(self) -> int:
        """The number of comparisons, P."""
        return len(self.left)

    @property
    def players(self) -> IntArray:
        """The items of each comparison, first all of the left side, and -1 after those of a team, shape (P, 2 S)."""
        return np.hstack([side[:, None] if side.ndim == 1 else side for side in (self.left, self.right)])

    @property
    def levels(self) -> Array | None:
        """The groups and the numbers of context, shape (P, n_kinds + n_numbers); None where there are none."""
        columns = [column for column in (self.group, self.context) if column is not None]
        return np.hstack(columns).astype(np.float64) if columns else None

    @property
    def total_weight(self) -> float:
        """The sum of the weights."""
        return float(self.weight.sum())

    def counts(self) -> Array:
        """Return the total weight of the comparisons of each item.

        Returns
        -------
        ndarray of shape (n_items,)
            Numbers of comparisons where all weights are 1; of a choice, pairs of what was chosen and another item.
        """
        pairs = self.decided()
        row, slot = np.nonzero(pairs.players >= 0)
        return _sums(pairs.players[row, slot], pairs.weight[row], self.n_items)

    def take(self, rows: AnyArray) -> Comparisons:
        """Select comparisons.

        Parameters
        ----------
        rows : ndarray of shape (n,) or (P,)
            Numbers of comparisons, or a mask.

        Returns
        -------
        Comparisons
            These comparisons; items and users keep their numbers.
        """
        columns = {name: getattr(self, name) for name in _COLUMNS}
        return replace(self, **{name: column[rows] for name, column in columns.items() if column is not None})

    def sample(self, n: int, rng: np.random.Generator) -> Comparisons:
        """Draw comparisons without replacement.

        Parameters
        ----------
        n : int
            Number of comparisons; of choices, all pairs of about as many.
        rng : Generator
            Source of the draws.

        Returns
        -------
        Comparisons
            In the order of these.
        """
        if self.stage is None:
            return self.take(np.sort(rng.choice(self.n_pairs, n, replace=False)))
        number = np.unique(self.stage, return_inverse=True)[1]
        return self.take(np.flatnonzero(rng.random(number[-1] + 1)[number] < n / self.n_pairs))

    @property
    def has_ties(self) -> bool:
        """Whether labels are wins and ties; with other labels, 0.5 is one of these shares."""
        return self.stage is None and are_with_ties(np.unique(self.y))

    def merged(self, *, keep_order: bool = False, keep_ties: bool | None = False) -> Comparisons:
        """Merge all comparisons of the same items by the same user, with the same covariates, groups, context and time.

        This is exact: sum_i w_i (y_i log p + (1 - y_i) log(1 - p)) depends on the
        weights and labels of a pair through sum_i w_i and sum_i w_i y_i only.
        Without `user`, all comparisons count as those of one user. Where (b, a)
        becomes (a, b), covariates change their signs.

        Parameters
        ----------
        keep_order : bool, default=False
            Keep (a, b) apart from (b, a), which models with an order effect
            need. The default merges them, with left < right.
        keep_ties : bool or None, default=False
            Merge equal labels only, which likelihoods need that model ties
            (y = 0.5) as a third answer. None: unless labels are shares, and
            still are when they are merged.

        Returns
        -------
        Comparisons
            Sorted by (left, right), or by (user, left, right) with users; with `keep_ties`, within each label. Each
            label is the weighted mean of the merged labels, each weight the sum of the merged weights. Comparisons of
            weight zero are left out. Those of choices stay as they are.
        """
        used = self.weight > 0.0
        pairs = self if used.all() else self.take(used)
        if pairs.stage is not None:
            return pairs
        if pairs.left.ndim == 2:  # the order of players in a team says nothing
            pairs = replace(pairs, left=-np.sort(-pairs.left, axis=1), right=-np.sort(-pairs.right, axis=1))
        if not keep_order:
            pairs = _left_first(pairs)
        if keep_ties is None:
            keep_ties = not (are_shares(pairs.y) and are_shares(_grouped(pairs).y))
        if not keep_ties:
            return _grouped(pairs)
        # The mean of a win and a loss would be read as a tie, so only equal labels are merged, and soft ones never.
        hard = [pairs.y == label for label in (0.0, 0.5, 1.0)]
        parts = [_grouped(pairs.take(rows)) for rows in hard if rows.any()]
        return concatenated([*parts, pairs.take(~np.any(hard, axis=0))])

    def decided(self) -> Comparisons:
        """Leave out the pairs of choices of which neither item was chosen.

        Returns
        -------
        Comparisons
            What each answer says of pairs, without choices: the same if there are none.
        """
        if self.stage is None:
            return self
        rows = are_decided(self.stage) & (self.left != self.right)  # nothing is said of two equal profiles
        return replace(replace(self, stage=np.arange(rows.size)).take(rows), stage=None)

    def single_pairs(self) -> Comparisons:
        """Leave out the comparisons of teams with several players.

        Returns
        -------
        Comparisons
            The rest; the same if there are no teams.
        """
        if self.left.ndim == 1:
            return self
        rows = (self.players >= 0).sum(axis=1) == 2
        return replace(self.take(rows), left=self.left[rows, 0], right=self.right[rows, 0])

    def compact(self) -> tuple[Comparisons, IntArray]:
        """Renumber the items so that only those with comparisons remain.

        Returns
        -------
        comparisons : Comparisons
            The same comparisons of items 0 to n - 1 (at least one item). Users
            are not renumbered.
        items : ndarray of shape (n_compared,), dtype int64
            The old number of each item.
        """
        sides = self.left, self.right
        items = np.unique(np.concatenate([side[side >= 0] for side in sides]))
        number = np.full(self.n_items + 1, -1)
        number[items] = np.arange(items.size)
        return self.renumbered(number, max(items.size, 1)), items

    def renumbered(self, number: IntArray, n_items: int) -> Comparisons:
        """Return the comparisons by other numbers of the items.

        Parameters
        ----------
        number : ndarray of shape (n,), dtype int64
            The new number of each item.
        n_items : int
            How many items there are then.

        Returns
        -------
        Comparisons
            The same comparisons.
        """
        left, right = (np.where(side < 0, -1, number[side]) for side in (self.left, self.right))
        return replace(self, left=left, right=right, n_items=n_items)

    def components(self) -> tuple[int, IntArray]:
        """Find the connected components of the graph of comparisons.

        No comparison links items of different components; only the prior
        relates their utilities.

        Returns
        -------
        n_components : int
            Number of components among the items that were compared (with a
            positive weight).
        labels : ndarray of shape (n_items,), dtype int64
            The component of every item, -1 for items never compared.
        """
        players = self.players[self.weight > 0.0]
        row, slot = np.nonzero(players >= 0)
        item, first = players[row, slot], players[row, 0]
        compared = np.zeros(self.n_items, dtype=bool)
        compared[item] = True
        shape = (self.n_items, self.n_items)
        graph = coo_array((np.ones(item.size), (item, first)), shape=shape)
        _, labels = connected_components(graph.tocsr(), directed=False)
        names, compact = np.unique(labels[compared], return_inverse=True)
        result = np.full(self.n_items, -1, dtype=np.int64)
        result[compared] = compact
        return int(names.size), result


# --------------------------------------------------------------------------
# choices of one among k as k (k - 1) / 2 pairs


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


# --------------------------------------------------------------------------
# grouping


def _left_first(pairs: Comparisons) -> Comparisons:
    """Return every comparison with left < right; of teams, by their first players, which are different ones."""
    swap, covariates = pairs.players[:, 0] > pairs.players[:, pairs.players.shape[1] // 2], pairs.covariates
    exchange = swap if pairs.left.ndim == 1 else swap[:, None]
    left, right = np.where(exchange, (pairs.right, pairs.left), (pairs.left, pairs.right))
    if covariates is not None:
        covariates = np.where(swap[:, None], -covariates, covariates)
    return replace(pairs, left=left, right=right, y=np.where(swap, 1.0 - pairs.y, pairs.y), covariates=covariates)


def _grouped(pairs: Comparisons) -> Comparisons:
    """Merge the rows of the same user, left, right, covariates, groups, context and time."""
    columns = list(1 + pairs.players.T)
    sizes = [pairs.n_items + 1] * len(columns)
    if pairs.user is not None:
        columns, sizes = [pairs.user, *columns], [pairs.n_users, *sizes]
    for column in () if pairs.group is None else pairs.group.T:
        columns, sizes = [*columns, column], [*sizes, int(column.max(initial=0)) + 1]
    further = [column for held in (pairs.covariates, pairs.context) if held is not None for column in held.T]
    for column in further if pairs.time is None else [*further, pairs.time]:
        code, size = _renumbered(column)
        columns, sizes = [*columns, code], [*sizes, size]
    first, group = _group_rows(columns, sizes)
    total = _sums(group, pairs.weight, first.size)
    label = _sums(group, pairs.weight * pairs.y, first.size) / total
    return replace(pairs.take(first), y=label, weight=total)


def concatenated(parts: list[Comparisons]) -> Comparisons:
    """Return comparisons one after the other; all have the columns, the items and the users of the first ones."""
    columns = {name: [getattr(part, name) for part in parts] for name in _COLUMNS}
    joined: dict[str, Any] = {name: np.concatenate(held) for name, held in columns.items() if held[0] is not None}
    return replace(parts[0], **joined)


def append_comparisons(old: Comparisons, new: Comparisons) -> Comparisons:
    """Return old and new comparisons; the rows of the old users and items are the same in both."""
    old = replace(old, n_items=new.n_items, n_users=new.n_users)
    if old.left.ndim == 2:
        old, new = _pad_teams(old, new)
    if old.stage is not None and new.stage is not None:
        new = replace(new, stage=new.stage + int(old.stage.max(initial=-1)) + 1)
    return concatenated([old, new])


def _pad_teams(*parts: Comparisons) -> list[Comparisons]:
    """Return comparisons of teams with as many places for players."""
    most = max(part.left.shape[1] for part in parts)
    padded = [
        [np.pad(side, ((0, 0), (0, most - side.shape[1])), constant_values=-1) for side in (part.left, part.right)]
        for part in parts
    ]
    return [replace(part, left=left, right=right) for part, (left, right) in zip(parts, padded, strict=True)]


def _sums(group: IntArray, values: Array, n_groups: int) -> Array:
    # bincount returns integers when there is nothing to count.
    return np.bincount(group, values, n_groups).astype(np.float64, copy=False)


def _group_rows(columns: Sequence[IntArray], sizes: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Return the first row and the group number of every distinct row, sorted; entries of column k are < sizes[k]."""
    code, size = columns[0], int(sizes[0])
    for column, n in zip(columns[1:], sizes[1:], strict=True):
        if size * int(n) >= 2**63:  # number what occurs: at most P codes
            (code, size), (column, n) = _renumbered(code), _renumbered(column)  # noqa: PLW2901
        code, size = code * n + column, size * int(n)
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return first, group


def _renumbered(column: AnyArray) -> tuple[IntArray, int]:
    values, rows = np.unique(column, return_inverse=True)
    return rows, int(values.size)


# --------------------------------------------------------------------------
# checks


def _rows(values: Any, name: str) -> IntArray:  # any array-like
    if getattr(values, "ndim", 1) == 2:
        return np.asarray(values, dtype=np.int64)
    ids = as_ids(values, name)
    if ids.dtype == object and ids.size:
        raise DataError(f"{name} must hold row numbers, integers from 0; convert ids with Table.rows first")
    return ids.astype(np.int64)


def _check_stages(stage: IntArray) -> None:
    """Refuse choices whose pairs are not all there, since compiled loops count on them."""
    starts = starts_of(stage)
    sizes, together = sizes_of(starts), np.unique(stage).size == starts.size - 1
    if stage.dtype != np.int64 or not together or (sizes * (sizes - 1) != 2 * np.diff(starts)).any():
        raise DataError("stage must number choices, whose pairs are all there and stand together")


def _check_items(n_items: int, left: IntArray, right: IntArray) -> None:
    """Refuse items out of range, and a player with two places in a comparison."""
    if left.ndim == 1:
        _check_range("item", n_items, left, right)
        return
    if left.shape != right.shape or not left.shape[1] or min(left.min(initial=0), right.min(initial=0)) < -1:
        raise DataError(f"left and right must be rows of players, -1 after them; got {left.shape} and {right.shape}")
    if len(left):
        _check_range("item", n_items, left[:, 0], right[:, 0], *np.maximum(np.hstack([left, right]), 0).T)


def _check_range(noun: str, limit: int, *columns: IntArray) -> None:
    rows = np.vstack(columns)
    wrong = (rows < 0) | (rows >= limit)
    if wrong.any():
        row = int(np.argmax(wrong.any(axis=0)))
        index = int(rows[wrong[:, row], row][0])
        what = f"negative {noun} index {index} in comparison {row}"
        if index >= 0:
            what = f"comparison {row} refers to {noun} {index}, but there are {limit} {noun}s (n_{noun}s)"
        raise DataError(f"{what}; rows are counted from 0")


def refuse_same_item(left: IntArray, right: IntArray, names: IdColumn | None = None) -> None:
    """Refuse a comparison of an item with itself; of teams, one with a player in two places."""
    if left.ndim == 2:
        players = np.sort(np.hstack([left, right]), axis=1)
        twice = (players[:, 1:] == players[:, :-1]) & (players[:, 1:] >= 0)
        if twice.any():
            row, slot = (int(each[0]) for each in np.nonzero(twice))
            item = shorten(players[row, slot] if names is None else names[players[row, slot]])
            raise DataError(f"comparison {row} has player {item} twice; a player has one place in a comparison")
        return
    same = left == right
    if same.any():
        row, count = int(np.argmax(same)), int(np.count_nonzero(same))
        item = shorten(left[row] if names is None else names[left[row]])
        what = f"comparison {row} compares item {item} with itself ({count} such comparisons)"
        raise DataError(f"{what}; remove them or set on_self='drop'")


# --------------------------------------------------------------------------
# builders


def from_labels(
    left: ArrayLike,
    right: ArrayLike,
    y: ArrayLike | None,
    n_items: int,
    *,
    sample_weight: ArrayLike | None = None,
    on_self: OnSelf = "raise",
    names: IdColumn | None = None,
    n_users: int = 0,
    **more: Any,
) -> Comparisons:
    """Return comparisons of rows of items, without those of an item with itself if they are to be dropped.

    No labels: left always won. `names` are the items' in messages, `more` are further columns of the record, or None.
    """
    columns: dict[str, Any] = {"left": _rows(left, "left"), "right": _rows(right, "right")}
    given = {name: values for name, values in more.items() if values is not None}
    columns |= {name: _rows(values, name) if name == "user" else values for name, values in given.items()}
    check_consistent_length(*columns.values())
    first, second = columns["left"], columns["right"]
    columns |= {"y": read_labels(y, len(first)), "weight": read_weights(sample_weight, len(first))}
    if on_self == "drop" and first.ndim == 1:
        columns = {name: values[first != second] for name, values in columns.items()}
    elif names is not None:
        _check_items(n_items, first, second)
        refuse_same_item(first, second, names)
    return Comparisons(**columns, n_items=n_items, n_users=n_users)


def from_scores(
    y: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    pairs_per_item: int = 10,
    rng: np.random.Generator | int | None = None,
    sample_weight: ArrayLike | None = None,
    items: IntArray | None = None,
    n_items: int | None = None,
) -> Comparisons:
    """Return comparisons of rows with different scores: the higher one wins.

    Rows of a group with the same item and score are merged first, and their weights added; the weight of a pair is the
    product of its rows' weights, so that an integer weight has the effect of repeating the row. A group of g merged
    rows, g - 1 <= 2 `pairs_per_item`, gives all its pairs. In a larger one every row draws `pairs_per_item` partners
    with another score, with replacement; a pair that is drawn twice counts once. The cost is linear in n, and with 10
    partners the comparisons of a group almost surely form one connected graph. Row i is item i by default.
    """
    numbers = check_array(y, input_name="y", ensure_2d=False, ensure_min_samples=0, dtype=np.float64)
    score = column_or_1d(numbers, warn=True)
    n = score.size
    group = np.zeros(n, dtype=np.int64) if qid is None else read_groups(qid)[1]
    item = np.arange(n) if items is None else _rows(items, "items")
    check_consistent_length(score, group, item)
    joined = _join(group, score, item, read_weights(sample_weight, n))
    better, worse = _partners(joined, pairs_per_item, np.random.default_rng(rng))
    weight = joined.weight[better] * joined.weight[worse]
    left, right = joined.item[better], joined.item[worse]
    return from_labels(
        left, right, np.ones(left.size), n if n_items is None else n_items, sample_weight=weight, on_self="drop"
    )


def read_groups(qid: ArrayLike) -> tuple[IdColumn, IntArray]:
    """Return the distinct ids of groups, and the number of each row's, shape (n,)."""
    ids = as_ids(qid, "qid", "row")
    groups = Vocabulary.from_columns(ids, name="qid")
    return groups.ids, groups.encode(ids, "qid", noun="row")


@dataclass(frozen=True, eq=False, slots=True)
class _Scored:
    """Distinct rows (group, score, item) in sorted order, with the sums of their weights."""

    group: IntArray
    score: Array
    item: IntArray
    weight: Array


def _join(group: IntArray, score: Array, item: IntArray, weight: Array) -> _Scored:
    order = np.lexsort((item, score, group))
    order = order[weight[order] > 0.0]
    group, score, item = group[order], score[order], item[order]
    new = _starts(group) | _starts(score) | _starts(item)
    total = _sums(np.cumsum(new) - 1, weight[order], int(np.count_nonzero(new)))
    return _Scored(group[new], score[new], item[new], total)


def _starts(values: AnyArray) -> BoolArray:
    """Mark the first entry of every run of equal values."""
    new = np.ones(values.size, dtype=bool)
    new[1:] = values[1:] != values[:-1]
    return new


def _extent(new: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the start and the end (exclusive) of the run of each entry."""
    begin = np.flatnonzero(new)
    run = np.cumsum(new) - 1
    return begin[run], np.append(begin[1:], new.size)[run]


def _partners(rows: _Scored, pairs_per_item: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the positions (better, worse) of the pairs of all groups."""
    if not rows.group.size:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    begin, end = _extent(_starts(rows.group))
    tied = _extent(_starts(rows.group) | _starts(rows.score))
    small = end - begin - 1 <= 2 * pairs_per_item
    # Rows are sorted by score within a group, so all rows after the ties are better.
    better, worse = _ranges(np.flatnonzero(small), tied[1][small], end[small])
    drawn = _draw(np.flatnonzero(~small), (begin, end), tied, pairs_per_item, rng)
    return np.concatenate([better, drawn[0]]), np.concatenate([worse, drawn[1]])


def _ranges(position: IntArray, low: IntArray, high: IntArray) -> tuple[IntArray, IntArray]:
    """Return all (partner, position) with low <= partner < high, row by row."""
    count = high - low
    before = np.cumsum(count) - count
    partner = np.arange(int(count.sum())) + np.repeat(low - before, count)
    return partner, np.repeat(position, count)


def _draw(
    position: IntArray,
    group: tuple[IntArray, IntArray],
    tied: tuple[IntArray, IntArray],
    pairs_per_item: int,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Draw partners with another score uniformly from the group; each pair occurs once."""
    ties = tied[1] - tied[0]
    candidates = group[1] - group[0] - ties
    position = np.repeat(position[candidates[position] > 0], pairs_per_item)
    partner = group[0][position] + rng.integers(0, candidates[position])
    # The candidates are the group without the run of ties, so positions behind the run are shifted.
    partner += np.where(partner >= tied[0][position], ties[position], 0)
    better, worse = np.maximum(position, partner), np.minimum(position, partner)
    n = int(better.max(initial=0)) + 1
    first, _ = _group_rows([better, worse], [n, n])
    return better[first], worse[first]
