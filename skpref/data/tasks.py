"""Tasks: one answer about several items that were shown together, a choice, the best and the worst, or a ranking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.utils.validation import check_consistent_length

from skpref._text import number
from skpref._typing import AnyArray, Array, BoolArray, IntArray
from skpref._validation import are_missing, as_array, refuse_collection
from skpref.data.columns import NO_ROWS, Columns
from skpref.data.comparisons import Comparisons, pairs_of, read_groups
from skpref.data.ids import LEAVE_OUT, IdColumn, Vocabulary, as_ids, kinds_of, shorten
from skpref.data.labels import WORDS
from skpref.data.policy import POLICY
from skpref.data.roles import Roles, context_of, numbers_of
from skpref.data.weights import read_weights
from skpref.exceptions import DataError, UnknownIdError

POSITION, ID, RANKS = "position", "id", "ranks"  # forms of answers
TABLE_OF_TASKS = "be a table whose rows are tasks: a column of users, and columns of the items shown"
_TWO_READINGS = "y has two readings: {0}, or {1} of the best and the worst one. Pass the {1} of the best, shape (n,)"


@dataclass(frozen=True, eq=False)
class Tasks:
    """Who was asked, and what was shown."""

    user: IdColumn  # (n,)
    shown: tuple[IdColumn, ...]  # of each position: ids of the items there, where there is one
    present: BoolArray  # (n, K): whether an item was shown at a position
    covariates: Array | None = None  # (n, K, q): 0 where nothing was shown
    groups: tuple[IdColumn, ...] = ()  # (n,) each
    weight: Array | None = None  # (n,); None: not in the table
    time: Array | None = None  # (n,): years since 1970 where they are dates
    is_dated: bool = False
    context: Array | None = None  # (n, n_numbers)

    @classmethod
    def read(cls, columns: Columns, roles: Roles) -> Tasks:
        """Read a table whose rows are tasks; columns without another role are items, in order."""
        if not columns.size:
            raise DataError(NO_ROWS.format("X", "tasks"))
        columns.require(roles.columns())
        named = set(roles.columns())
        names = [name for name in columns.names if name not in named]
        if not 2 <= len(names) <= POLICY.most_shown:
            raise DataError(f"a task shows 2 to {POLICY.most_shown} items; the columns of items in X are {len(names)}")
        for term in roles.covariates:
            _check_covariate(term, len(names))
        cells = [columns.cells(name) for name in names]
        present = np.array([[cell is not None for cell in column] for column in cells], dtype=bool).T
        if not present.any(axis=1).all():
            raise DataError(f"task {int(np.argmin(present.any(axis=1)))} of X shows no item; {LEAVE_OUT}")
        ids = [
            as_ids([cell for cell in column if cell is not None], f"column {name!r} of X", "task")
            for name, column in zip(names, cells, strict=True)
        ]
        C = np.zeros((*present.shape, len(roles.covariates)))
        for q, term in enumerate(roles.covariates):
            for k, rows in enumerate(map(np.flatnonzero, present.T)):
                C[rows, k, q] = columns.numbers_at(term[k], rows.tolist(), "a covariate") if rows.size else 0.0
        user, groups, time, is_dated = context_of(columns, roles)
        user = np.zeros(columns.size, dtype=np.int64) if user is None else user
        weight = None if roles.weight is None else columns.numbers(roles.weight, low=0.0, meaning="a weight")
        more = groups, weight, time, is_dated, numbers_of(columns, roles)
        return cls(user, tuple(ids), present, C if roles.covariates else None, *more)

    @cached_property
    def ids(self) -> AnyArray:
        """Ids of the items, None where none was shown, shape (n, K)."""
        ids = np.full(self.present.shape, None, dtype=object)
        for k, column in enumerate(self.shown):
            ids[self.present[:, k], k] = column
        return ids

    def numbers(self, vocabulary: Vocabulary, unknown: Any = "raise", *, profiles: bool = False) -> IntArray:
        """Return rows of the items in a vocabulary, -1 where none was shown (or, if marked, -2: unknown), (n, K).

        Items that are profiles of features may be shown twice in a task.
        """
        numbers = np.full(self.present.shape, -1)
        for k, ids in enumerate(self.shown):
            try:
                codes = vocabulary.encode(ids, "X", unknown=unknown, noun="row")
            except UnknownIdError as error:
                advice = "products of tasks to come are among them if one call of from_tasks reads all tasks"
                raise UnknownIdError(f"{error}; {advice}") from None
            numbers[self.present[:, k], k] = np.where(codes < 0, -2, codes)
        if profiles:
            return numbers
        twice = shown_twice(numbers)
        for row in np.flatnonzero((numbers == -2).sum(axis=1) > 1).tolist():
            unknown_ids = self.ids[row, numbers[row] == -2].tolist()
            twice[row] |= len(set(unknown_ids)) < len(unknown_ids)
        if twice.any():
            row = int(np.argmax(twice))
            advice = "give every alternative an id of its own, and leave out columns of X that are no items"
            raise DataError(f"task {row} shows an item twice ({int(twice.sum())} such tasks); {advice}")
        return numbers


def shown_twice(numbers: IntArray) -> BoolArray:
    """Return which tasks show an item more than once, by rows of the items, < 0 where none was shown, shape (n,)."""
    ordered = np.sort(numbers, axis=1)
    twice: BoolArray = ((np.diff(ordered, axis=1) == 0) & (ordered[:, 1:] >= 0)).any(axis=1)
    return twice


def _check_covariate(term: Any, K: int) -> None:
    """Refuse a covariate that has not one column for each of K positions."""
    if not isinstance(term, tuple) or len(term) != K:
        got = f"{len(term)} columns" if isinstance(term, tuple) else f"the column {term!r}, the same for all items"
        wanted = f'each of the {K} positions, such as covariates={{"price": ["price_1", "price_2", ...]}}'
        what = f"a covariate of tasks has a column for {wanted}; got {got}"
        raise DataError(f"{what}. Columns that no parameter names are items")


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to tasks: the ranks of the items, 1 the best, and what the last place of them means."""

    form: str  # POSITION, ID or RANKS
    rank: Array  # (n, K): 1 = best, equal = tied, inf = shown behind all that have a rank, NaN = not shown
    worst: IntArray | None = None  # (n,): position of the worst item, -1 where it is not known

    @property
    def first(self) -> IntArray:
        """Position of the best item, shape (n,), -1 where it is not known."""
        best = np.nanargmin(self.rank, axis=1)
        return np.where(np.isfinite(self.rank[np.arange(best.size), best]), best, -1)


def are_tasks(X: Any, y: Any, n_ids: int) -> bool:
    """Tell whether answers can only be of tasks: ids of items shown, positions from 2, or several numbers a row.

    Labels such as 0 and 1 are of comparisons, which have so many ids; then a wider X is refused.
    """
    is_list = isinstance(X, list | tuple) and len(X) > 0 and hasattr(X[0], "__len__")
    shape: tuple[int, ...] = (len(X), len(X[0])) if is_list else getattr(X, "shape", ())
    width = shape[1] if len(shape) == 2 else 0
    if y is None or width < n_ids:
        return False
    values = as_array(y, "y")
    if values.ndim == 2 and values.shape[1] > 1:
        return width > n_ids or values.dtype.kind not in "biuf" or bool((values > 1).any())
    present = ~are_missing(values).ravel()  # a missing answer is refused once it is known what is missing
    cells = values.ravel()[present].tolist()
    if not all(isinstance(cell, str) for cell in cells):
        positions = width > n_ids and values.dtype.kind in "iuf" and bool((values > 1).any())
        return positions and _are_alike(X, n_ids)
    if {cell.lower() for cell in cells} <= WORDS.keys():
        return False
    columns = Columns.of(X, "X")
    if columns.size != present.size or not cells:
        return False
    shown = zip(*(columns.cells(name) for name in columns.names), strict=True)
    rows = (row for row, has_answer in zip(shown, present.tolist(), strict=True) if has_answer)
    return all(
        any(isinstance(item, str) and item == cell for item in row) for row, cell in zip(rows, cells, strict=True)
    )


def _are_alike(X: Any, n_ids: int) -> bool:
    """Tell whether the columns of items, which follow that of the user, have ids of one kind in the first row."""
    columns = list(Columns.of(X, "X").values.values())[n_ids - 2 :]
    return len({isinstance(next(iter(column), None), str) for column in columns}) == 1


def read_answers(y: Any, tasks: Tasks) -> Answers:
    """Read one answer a task: an id or position, those of the best and the worst item, or a rank for each position."""
    refuse_collection(y, "y")
    if y is None:
        raise DataError("y is None: pass what was chosen in each task, an id or a position from 0")
    values = as_array(np.where(np.ma.getmaskarray(y), np.array(None), y) if np.ma.isMaskedArray(y) else y, "y")
    n, K = tasks.present.shape
    if values.ndim == 0:
        raise DataError(f"y must be an array with an answer for each of {n} tasks; got {shorten(y)}")
    if values.shape[0] != n:
        raise DataError(f"X and y have inconsistent numbers of samples: {n} tasks and {values.shape[0]} answers")
    if values.dtype == bool:
        advice = "Flags of the items chosen become positions by y.argmax(axis=1)"
        raise DataError(f"y has booleans; answers to tasks are ids or positions of items, or ranks. {advice}")
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim == 2 and values.shape[1] == K and (K > 2 or _are_ranks_of_two(values, tasks)):
        return Answers(RANKS, _ranked(values, tasks.present))
    if values.ndim == 2 and values.shape[1] in {1, 2}:
        is_alone = are_missing(values) & ~are_missing(values[:, ::-1]) & (values.shape[1] == 2)
        form, places = _places(np.where(is_alone, values[:, ::-1], values), tasks)
        rank, rows = np.where(tasks.present, np.inf, np.nan), np.flatnonzero(~is_alone[:, 0])
        rank[rows, places[rows, 0]] = 1.0
        if values.shape[1] == 1:
            return Answers(form, rank)
        same = (places[:, 0] == places[:, 1]) & (tasks.present.sum(axis=1) > 1) & ~is_alone.any(axis=1)
        if same.any():
            raise DataError(f"y: in task {int(np.argmax(same))} the best item is also the worst")
        return Answers(form, rank, np.where(is_alone[:, 1], -1, places[:, 1]))
    wanted = f"({n},), one choice each, ({n}, 2), the best and the worst, or ({n}, {K}), a rank for each position"
    raise DataError(f"y has the shape {values.shape}; of {n} tasks with {K} positions it is {wanted}")


def _are_ranks_of_two(values: AnyArray, tasks: Tasks) -> bool:
    """Tell whether y has the ranks of two items, and not the best and the worst one; ask where it may be both."""
    cells = values.ravel().tolist()
    numbers = np.array([np.nan if isinstance(cell, str | bytes) else number(cell) for cell in cells])
    if (np.isnan(numbers) & ~are_missing(values).ravel()).any():
        return False
    if (numbers == 0.0).any():
        raise DataError(_TWO_READINGS.format("flags of the items chosen", "positions"))
    ids = values.astype(object)
    if all((tasks.ids == ids[:, [k]]).any(axis=1).all() for k in (0, 1)):
        raise DataError(_TWO_READINGS.format("ranks of the two items in each task", "ids"))
    return True


def _places(values: AnyArray, tasks: Tasks) -> tuple[str, IntArray]:
    """Return how answers name items, by ids or positions, and the positions of the items, shape (n, m)."""
    missing = are_missing(values)
    if missing.any():
        raise DataError(f"Input y contains NaN: task {int(np.argwhere(missing)[0, 0])} has no answer; {LEAVE_OUT}")
    m, (n, K) = values.shape[1], tasks.present.shape
    ids = np.asarray(as_ids(values.ravel(), "y", "task"))
    row, readings = np.repeat(np.arange(n), m), {}
    chosen = tasks.ids[row] == ids.astype(object)[:, None]
    is_id, is_place, place = chosen.any(axis=1), np.zeros(ids.size, dtype=bool), chosen.argmax(axis=1)
    if m == 2:  # of two equal profiles one may be the best and one the worst
        place[1::2] = K - 1 - chosen[1::2, ::-1].argmax(axis=1)
    if is_id.all():
        readings[ID] = place
    if ids.dtype == np.int64:
        inside = np.clip(ids, 0, K - 1)
        is_place = (inside == ids) & tasks.present[row, inside]
        if is_place.all():
            readings[POSITION] = inside
    if len(readings) == 2 and (readings[ID] != readings[POSITION]).any():
        k = int(np.argmax(readings[ID] != readings[POSITION]))
        what = f"{shorten(ids[k])} in task {row[k]} is the id of an item shown, or the position of another, from 0"
        raise DataError(f"y has two readings: {what}. Make ids words, in X and, if they are ids, in y: X.astype(str)")
    if not readings:
        raise _not_shown(ids, row, tasks, is_id, is_place)
    form, place = next(iter(readings.items()))
    return form, place.reshape(n, m)


def _not_shown(ids: IdColumn, row: IntArray, tasks: Tasks, is_id: BoolArray, is_place: BoolArray) -> DataError:
    """Return the error of answers that name no item shown, read as ids or positions, whichever fits more of them."""
    by_place = ids.dtype == np.int64 and is_place.sum() >= is_id.sum()
    wrong, K = ~(is_place if by_place else is_id), tasks.present.shape[1]
    k = int(np.argmax(wrong))
    what = f"no position of an item shown, from 0 to {K - 1}" if by_place else "none of the items shown"
    hint = "; positions start at 0, not at 1" if by_place and ids.min() == 1 and ids.max() == K else ""
    hint = "; this is the user of the task: has X a column of users?" if ids[k] == tasks.user[row[k]] else hint
    own, known = kinds_of(ids), {kind: value for column in tasks.shown for kind, value in kinds_of(column).items()}
    if own.keys().isdisjoint(known):
        (kind, _), (other, value) = next(iter(own.items())), next(iter(known.items()))
        hint = hint or f"; answers are {kind}, and ids in X are {other} such as {shorten(value)}: convert one of them"
    return DataError(f"y: {shorten(ids[k])} in task {row[k]} is {what} ({int(wrong.sum())} such answers){hint}")


def _ranked(values: AnyArray, present: BoolArray) -> Array:
    """Return ranks of positions, 1 the best, inf where an item has none, and NaN where there is no item."""
    given = ~are_missing(values)
    cells = values if values.dtype.kind in "iuf" else np.array([number(cell) for cell in values.ravel().tolist()])
    rank = np.where(given, cells.reshape(values.shape), np.nan)
    wrong = given & ~((rank >= 1.0) & (rank < np.inf))
    if wrong.any():
        row, k = np.argwhere(wrong)[0].tolist()
        what = "ranks are numbers from 1, the best, and NaN where an item has none"
        advice = "Flags become positions by y.argmax(axis=1); lists of items in order are read by from_rankings"
        raise DataError(f"y: {shorten(values[row, k])} in task {row} is no rank: {what}. {advice}")
    if (given & ~present).any():
        row = int(np.argmax((given & ~present).any(axis=1)))
        raise DataError(f"y: task {row} has a rank at a position where X shows no item")
    if not given.any(axis=1).all():
        raise DataError(f"y: task {int(np.argmin(given.any(axis=1)))} has no rank; {LEAVE_OUT}")
    return np.where(present & ~given, np.inf, rank)


def as_comparisons(
    answers: Answers,
    numbers: IntArray,
    n_items: int,
    sample_weight: Any,
    covariates: Array | None = None,
    n_users: int = 0,
    **more: Any,
) -> Comparisons:
    """Return tasks as choices of one among several, and these as all pairs of their alternatives.

    `numbers` are rows of the items, (n, K), and `covariates` are of them, (n, K, q); `more` are further columns of
    tasks, or None.
    """
    weight = read_weights(sample_weight, len(numbers))
    choices = [*_choices_of_ranks(answers.rank), *_choices_of_worst(answers)]
    n_pairs = sum(len(shown) * shown.shape[1] * (shown.shape[1] - 1) // 2 for _, shown, *_ in choices)
    if not n_pairs:
        raise DataError("at least 1 task must show two items or more and put one of them before another; none does")
    if n_pairs > POLICY.most_pairs:
        most = POLICY.most_pairs
        raise DataError(f"choices have {n_pairs} pairs of items, and may have {most}: fit to some of the tasks")
    columns: list[tuple[Any, ...]] = []
    n_choices = 0
    for tasks, shown, share, sign in choices:
        first, second = pairs_of(shown.shape[1])
        sides = tuple(shown[:, place].ravel() for place in (first, second))
        each = tasks, n_choices + np.arange(tasks.size), share
        columns.append((*(sides if sign > 0.0 else sides[::-1]), *(np.repeat(column, first.size) for column in each)))
        n_choices += tasks.size
    left, right, task, choice, share = (np.concatenate(column) for column in zip(*columns, strict=True))
    del columns  # they take much memory
    if not (weight[task] > 0.0).any():
        raise DataError("sample_weight: at least 1 task must have a weight above 0")
    rows = np.lexsort((choice, task))
    left, right, task, share = (column[rows] for column in (left, right, task, share))
    stage = np.cumsum(np.diff(choice[rows], prepend=-1) != 0) - 1
    further = {name: column[task] for name, column in more.items() if column is not None}
    if covariates is not None:
        further["covariates"] = covariates[task, left] - covariates[task, right]
    pairs = numbers[task, left], numbers[task, right], np.ones(rows.size), weight[task] * share
    return Comparisons(*pairs, n_items, n_users=n_users, stage=stage.astype(np.int64), **further)


# Tasks, positions of the alternatives with that of the chosen one first, weights, and the sign of the utilities.
_Choice = tuple["IntArray", "IntArray", "Array", float]


def _choices_of_ranks(rank: Array) -> Iterator[_Choice]:
    """Return the choices of rankings: the best of all, the best of the rest, and so on.

    Equal items are each chosen among those behind them, and of two of them each is chosen with half the weight. The
    m (m - 1) / 2 pairs of m equal items share their noise, so that they weigh 3 / (m + 1) each. Equal last places say
    nothing about each other.
    """
    order = np.argsort(rank, axis=1, kind="stable")  # absent alternatives, which are NaN, stand last
    ranked, sizes = np.take_along_axis(rank, order, 1), (~np.isnan(rank)).sum(axis=1)
    for place in range(rank.shape[1] - 1):
        n_behind = (ranked > ranked[:, [place]]).sum(axis=1)
        for n in np.unique(n_behind[n_behind > 0]).tolist():
            tasks = np.flatnonzero(n_behind == n)
            behind = np.take_along_axis(order[tasks], sizes[tasks, None] - n + np.arange(n), 1)
            yield tasks, np.column_stack([order[tasks, place], behind]), np.ones(tasks.size), 1.0
        for other in range(place + 1, rank.shape[1]):
            tasks = np.flatnonzero((ranked[:, place] == ranked[:, other]) & (n_behind > 0))
            n_equal = (ranked[tasks] == ranked[tasks, place][:, None]).sum(axis=1)
            for pair in ([place, other], [other, place]) if tasks.size else ():
                yield tasks, order[tasks][:, pair], 1.5 / (n_equal + 1.0), 1.0


def _choices_of_worst(answers: Answers) -> Iterator[_Choice]:
    """Return the choices of the worst item among the others than a known best, by the negative of the utilities."""
    if answers.worst is None:
        return
    K, is_known = answers.rank.shape[1], answers.worst[:, None] >= 0
    rest = ~np.isnan(answers.rank) & is_known
    for places in (answers.first, answers.worst):
        rest &= np.arange(K) != places[:, None]
    order, n_rest = np.argsort(~rest, axis=1, kind="stable"), rest.sum(axis=1)
    for n in np.unique(n_rest[n_rest > 0]).tolist():
        tasks = np.flatnonzero(n_rest == n)
        yield tasks, np.column_stack([answers.worst[tasks], order[tasks, :n]]), np.ones(tasks.size), -1.0


def pairs_of_tasks(present: BoolArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return all pairs of positions of tasks: left, right, and task, and the tasks in order, equal sizes together."""
    sizes = present.sum(axis=1)
    order = np.argsort(~present, axis=1, kind="stable")
    parts = []
    for k in np.unique(sizes).tolist():
        of_size = np.flatnonzero(sizes == k)
        first, second = pairs_of(k)
        left, right = (order[of_size][:, place].ravel() for place in (first, second))
        parts.append((left, right, np.repeat(of_size, first.size), of_size))
    left, right, task, tasks = (np.concatenate(column) for column in zip(*parts, strict=True))
    return left, right, task, tasks


# ----------------------------------------------------------------------------------------------- scores within groups
def rankings_of_scores(
    y: Array, qid: Any, sample_weight: Any, item: IntArray, first: IntArray
) -> tuple[Comparisons, IntArray]:
    """Return the ranking of each group as choices among items, the best first, and the first row of each item.

    Rows i are of `item[i]`, which row `first[item[i]]` shows. Further rows of an item in a group are alternatives with
    the same utility: they become items of their own.
    """
    groups, group = read_groups(np.zeros(y.size, dtype=np.int64) if qid is None else qid)
    check_consistent_length(y, group)
    weight = read_weights(sample_weight, y.size)
    order = np.lexsort((y, item, group))
    group, item, y, weight = group[order], item[order], y[order], weight[order]
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    _check_groups(group, weight, weight[starts], sizes, None if qid is None else groups)
    weight = weight[starts]
    kind = group * first.size + item
    item = item + first.size * (np.arange(item.size) - np.searchsorted(kind, kind))
    distinct, item = np.unique(item, return_inverse=True)
    scores, numbers = np.full((sizes.size, sizes.max()), np.nan), np.full((sizes.size, sizes.max()), -1)
    place = group, np.arange(item.size) - starts[group]
    scores[place], numbers[place] = y, item
    if not (weight > 0.0)[np.nanmin(scores, axis=1) < np.nanmax(scores, axis=1)].any():
        what = "y has equal values (or zero weights) within every group. Pass scores that differ."
        raise DataError(f"at least 1 comparison is required; got none: {what}")
    answers = Answers(RANKS, rankdata(-scores, method="dense", axis=1, nan_policy="omit"))
    return as_comparisons(answers, numbers, distinct.size, weight), first[distinct % first.size]


def _check_groups(group: IntArray, weight: Array, of_group: Array, sizes: IntArray, names: Any) -> None:
    """Refuse groups that have too many rows for a ranking, and rows of a group that differ in weight."""
    largest, uneven = int(np.argmax(sizes)), np.flatnonzero(weight != of_group[group])
    if sizes[largest] > POLICY.most_shown:
        what = f"{sizes[largest]} rows, and likelihood='plackett-luce' ranks at most {POLICY.most_shown}"
        raise DataError(f"{_named(names, largest)} has {what}. Use the default likelihood, or smaller groups, by qid.")
    if uneven.size:
        row = int(uneven[0])
        got = f"sample_weight has {of_group[group[row]]:g} and {weight[row]:g} in {_named(names, group[row])}"
        advice = "Give its rows the same weight, leave rows of weight 0 out, or use the default likelihood"
        raise DataError(f"{got}, whose ranking has one weight with likelihood='plackett-luce'. {advice}.")


def _named(names: Any, group: Any) -> str:
    """Return a group as text; None: all rows are one."""
    return "y without qid" if names is None else f"group {shorten(names[group])} of qid"
