"""Tasks: one answer about several items that were shown together, a choice, the best and the worst, or a ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._validation import are_missing, as_array, refuse_collection
from skpref.data.columns import Columns
from skpref.data.comparisons import Comparisons
from skpref.data.ids import LEAVE_OUT, as_ids, shorten
from skpref.data.labels import WORDS
from skpref.data.stages import MOST_SHOWN, pairs_of
from skpref.data.weights import read_weights
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray
    from skpref.data.ids import IdColumn, Vocabulary

POSITION, ID, BEST_WORST, RANKS = "position", "id", "best and worst", "ranks"  # forms of answers


@dataclass(frozen=True, eq=False)
class Tasks:
    """Who was asked, and what was shown."""

    user: IdColumn  # (n,)
    shown: tuple[IdColumn, ...]  # of each position: ids of the items there, where there is one
    present: NDArray[np.bool_]  # (n, K): whether an item was shown at a position

    @classmethod
    def read(cls, X: Any, user: Any = None, shown: Sequence[Any] | None = None) -> Tasks:
        """Read a table whose rows are tasks; by default the first column is the user, and the others are items."""
        columns = Columns.of(X, "X", "X", LEAVE_OUT)
        if not columns.size:
            raise DataError("Found array with 0 sample(s) while a minimum of 1 is required for X: it has no tasks")
        who = columns.names[0] if user is None else _named(columns, user)
        names = [name for name in columns.names if name != who]
        names = names if shown is None else [_named(columns, name) for name in shown]
        if len({who, *names}) < len(names) + 1:
            raise DataError(f"shown names a column twice, or that of the user: {shorten(list(names))}")
        if not 2 <= len(names) <= MOST_SHOWN:
            raise DataError(f"a task shows 2 to {MOST_SHOWN} items; X has {len(names)} columns of items")
        columns.require((who, *names))
        cells = [columns.cells(name) for name in names]
        present = np.array([[cell is not None for cell in column] for column in cells], dtype=bool).T
        ids = [
            as_ids([cell for cell in column if cell is not None], f"column {name!r} of X", "task")
            for name, column in zip(names, cells, strict=True)
        ]
        return cls(columns.ids(who, "user"), tuple(ids), present)

    def numbers(self, vocabulary: Vocabulary, unknown: Any = "raise") -> IntArray:
        """Return the rows of the items in a vocabulary, -1 where none was shown (or, if marked, -2: unknown), (n, K)."""
        numbers = np.full(self.present.shape, -1)
        for k, ids in enumerate(self.shown):
            codes = vocabulary.encode(ids, "X", unknown=unknown, noun="row")
            numbers[self.present[:, k], k] = np.where(codes < 0, -2, codes)
        repeated = np.sort(numbers, axis=1)
        twice = ((np.diff(repeated, axis=1) == 0) & (repeated[:, 1:] >= 0)).any(axis=1)
        if twice.any():
            row = int(np.argmax(twice))
            raise DataError(
                f"task {row} shows an item twice ({int(twice.sum())} such tasks); give every alternative an id of its "
                "own, or, if a column of X is no item, name those that are: shown=[...]"
            )
        return numbers


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to tasks: the ranks of the items, 1 the best, and what the last place of them means."""

    form: str  # POSITION, ID, BEST_WORST or RANKS
    rank: Array  # (n, K): 1 = best, equal = tied, inf = shown behind all that have a rank, NaN = not shown
    worst: IntArray | None = None  # (n,): position of the worst item

    @property
    def first(self) -> IntArray:
        """Position of the best item, shape (n,)."""
        return np.asarray(np.nanargmin(self.rank, axis=1))


def are_tasks(X: Any, y: Any, n_ids: int) -> bool:
    """Tell whether answers can only be of tasks: ids of items shown, positions from 2, or several numbers a row.

    Labels such as 0 and 1 are of comparisons, which have so many ids; then a wider X is refused.
    """
    width = X.shape[1] if getattr(X, "ndim", 0) == 2 else len(X[0]) if isinstance(X, list | tuple) and X else 0
    if y is None or width < n_ids:
        return False
    values = as_array(y, "y")
    if values.ndim == 2 and values.shape[1] > 1:
        return width > n_ids
    cells = values.ravel().tolist()
    if not all(isinstance(cell, str) for cell in cells):
        return width > n_ids and values.dtype.kind in "iu" and bool(values.max(initial=0) > 1)
    if {cell.lower() for cell in cells} <= WORDS.keys():
        return False
    rows = as_array(X, "X").astype(str)
    return bool(len(rows) == len(cells) and (rows == np.array(cells, dtype=str)[:, None]).any(axis=1).all())


def read_answers(y: Any, tasks: Tasks, numbers: IntArray, vocabulary: Vocabulary) -> Answers:
    """Read one answer a task: an id or a position; ids or positions of the best and the worst; or a rank a position."""
    refuse_collection(y, "y")
    if y is None:
        raise DataError("y is None: pass what was chosen in each task, an id or a position from 0")
    values = as_array(y, "y")
    n, K = numbers.shape
    if values.shape[0] != n:
        raise DataError(f"X and y have inconsistent numbers of samples: {n} tasks and {values.shape[0]} answers")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values.ravel()
    if values.ndim == 1:
        form, place = _places(values, tasks, numbers, vocabulary)
        return Answers(form, _with_first(place, tasks.present))
    if values.ndim == 2 and values.shape[1] == K and K > 2:
        return _ranked(values, tasks.present)
    if values.ndim == 2 and values.shape[1] == 2 and K > 2:
        _, best = _places(values[:, 0], tasks, numbers, vocabulary)
        _, worst = _places(values[:, 1], tasks, numbers, vocabulary)
        if (best == worst).any():
            raise DataError(f"y: in task {int(np.argmax(best == worst))} the best item is also the worst")
        return Answers(BEST_WORST, _with_first(best, tasks.present), worst)
    raise DataError(
        f"y has the shape {values.shape}; of {n} tasks with {K} positions it is ({n},), one choice each, ({n}, 2), the "
        f"best and the worst, or ({n}, {K}), a rank for each position"
    )


def _places(values: NDArray[Any], tasks: Tasks, numbers: IntArray, vocabulary: Vocabulary) -> tuple[str, IntArray]:
    """Return the positions of what was chosen, given by ids or positions, shape (n,)."""
    if are_missing(values).any():
        raise DataError(f"Input y contains NaN: task {int(np.argmax(are_missing(values)))} has no answer; {LEAVE_OUT}")
    n, K = numbers.shape
    readings = {}
    ids = as_ids(values.tolist(), "y", "task")
    codes = vocabulary.encode(ids, "y", unknown="mark") if _of_one_kind(ids, vocabulary) else np.full(n, -3)
    is_chosen = (numbers == codes[:, None]) & (codes >= 0)[:, None]
    if is_chosen.any(axis=1).all():
        readings[ID] = is_chosen.argmax(axis=1)
    if ids.dtype == np.int64 and ((ids >= 0) & (ids < K)).all() and tasks.present[np.arange(n), ids].all():
        readings[POSITION] = ids
    if len(readings) == 2 and (readings[ID] != readings[POSITION]).any():
        row = int(np.argmax(readings[ID] != readings[POSITION]))
        raise DataError(
            f"y has two readings: {shorten(ids[row])} in task {row} is the id of an item shown, or the position of "
            "another, from 0. Make the ids words in X and, if they are ids, in y: such as X.astype(str)"
        )
    if not readings:
        wrong = ~is_chosen.any(axis=1)
        row = int(np.argmax(wrong))
        raise DataError(
            f"y: {shorten(ids[row])} in task {row} is none of the items shown ({int(wrong.sum())} such tasks), and the "
            f"answers are no positions from 0 to {K - 1}"
        )
    return next(iter(readings.items()))


def _of_one_kind(ids: IdColumn, vocabulary: Vocabulary) -> bool:
    """Tell whether ids are integers where those of the vocabulary are, and otherwise not."""
    return (ids.dtype == object) == (vocabulary.ids.dtype == object)


def _with_first(place: IntArray, present: NDArray[np.bool_]) -> Array:
    """Return ranks in which one item is before all others that were shown."""
    rank = np.where(present, np.inf, np.nan)
    rank[np.arange(place.size), place] = 1.0
    return rank


def _ranked(values: NDArray[Any], present: NDArray[np.bool_]) -> Answers:
    """Return ranks of positions, 1 the best, NaN where an item has none."""
    try:
        rank = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"y: ranks are numbers, 1 for the best, NaN where there is none: {error}") from error
    given = ~np.isnan(rank)
    if (given & ~present).any():
        row = int(np.argmax((given & ~present).any(axis=1)))
        raise DataError(f"y: task {row} has a rank at a position where X shows no item")
    if not np.isfinite(rank[given]).all() or not given.any(axis=1).all():
        raise DataError("y: ranks must be finite, and each task needs one at least")
    rank = np.where(present & ~given, np.inf, rank)
    behind = np.sort(np.where(present, rank, np.nan), axis=1)
    tied = (behind[:, 1:] == behind[:, :-1]) & (behind[:, 1:] < np.nanmax(rank, axis=1)[:, None])
    if tied.any():
        row = int(np.argmax(tied.any(axis=1)))
        raise DataError(
            f"y: task {row} has equal ranks before the last place ({int(tied.any(axis=1).sum())} such tasks). Equal last "
            "places are read as such; others have no order: drop these tasks, break the ties, or read pairs with "
            "skpref.data.from_rankings and likelihood='logit-ties'"
        )
    return Answers(RANKS, rank)


def as_comparisons(
    answers: Answers, numbers: IntArray, n_items: int, user: IntArray, n_users: int, sample_weight: Any
) -> Comparisons:
    """Return tasks as choices of one among several, and these as all pairs of their alternatives.

    A ranking is a choice of the best, of the best of the rest, and so on; equal last places are no choice. The worst
    item is a choice among the others than the best, by the negative of the utilities.
    """
    n, K = numbers.shape
    weight = read_weights(sample_weight, n)
    present, rank = numbers >= 0, answers.rank
    order = np.argsort(np.where(np.isnan(rank), np.inf, rank), axis=1, kind="stable")
    # Absent alternatives last, behind those without a rank.
    order = np.take_along_axis(order, np.argsort(~np.take_along_axis(present, order, 1), axis=1, kind="stable"), 1)
    ranked, sizes = np.take_along_axis(rank, order, 1), present.sum(axis=1)
    parts = []
    for place in range(K - 1):
        # Items from this place on, unless all of them are equal.
        last = ranked[np.arange(n), np.maximum(sizes - 1, 0)]
        used = np.flatnonzero((sizes - place >= 2) & (ranked[:, place] < last))
        parts.append((used, np.take_along_axis(numbers, order, 1)[used, place:], sizes[used] - place, 1.0))
    if answers.worst is not None:
        rest = numbers.copy()
        rest[np.arange(n), answers.first] = -1
        worst = rest[np.arange(n), answers.worst]
        rest[np.arange(n), answers.worst] = -1
        left = np.argsort(rest < 0, axis=1, kind="stable")
        others = np.column_stack([worst, np.take_along_axis(rest, left, 1)])
        used = np.flatnonzero(sizes - 1 >= 2)
        parts.append((used, others[used], sizes[used] - 1, -1.0))
    columns: list[tuple[IntArray, ...]] = []
    for stage, (task, items, size, sign) in enumerate(parts):
        for k in np.unique(size).tolist():
            of_size = size == k
            first, second = pairs_of(k)
            left, right = (items[of_size][:, place].ravel() for place in (first, second))
            left, right = (left, right) if sign > 0.0 else (right, left)
            number = np.repeat(task[of_size] * (K + 1) + stage, first.size)
            columns.append((left, right, np.repeat(task[of_size], first.size), number))
    if not columns:
        raise DataError("at least 1 task of two items or more is required; no answer says anything")
    left, right, task, number = (np.concatenate(column) for column in zip(*columns, strict=True))
    rows = np.argsort(number, kind="stable")
    stage = np.unique(number[rows], return_inverse=True)[1].astype(np.int64)
    task = task[rows]
    pairs = left[rows], right[rows], np.ones(rows.size), weight[task]
    return Comparisons(*pairs, n_items, user[task], n_users, stage=stage)


def pairs_of_tasks(numbers: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the pairs of tasks: left, right, and task of each, and the tasks in order, those of one size together."""
    sizes = (numbers != -1).sum(axis=1)
    order = np.argsort(numbers == -1, axis=1, kind="stable")
    items = np.take_along_axis(numbers, order, 1)
    parts = []
    for k in np.unique(sizes).tolist():
        of_size = np.flatnonzero(sizes == k)
        first, second = pairs_of(k)
        left, right = (items[of_size][:, place].ravel() for place in (first, second))
        parts.append((left, right, np.repeat(of_size, first.size), of_size))
    left, right, task, tasks = (np.concatenate(column) for column in zip(*parts, strict=True))
    return left, right, task, tasks


def _named(columns: Columns, name: Any) -> Any:
    """Return a column by its name or its position."""
    if name in columns.values or isinstance(name, str):
        return name
    if not 0 <= int(name) < len(columns.names):
        raise DataError(f"there is no column {name} in X, which has {len(columns.names)}; positions start at 0")
    return columns.names[int(name)]
