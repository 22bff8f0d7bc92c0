"""Which column of a table is what, and the one reader that makes comparisons of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from skpref._text import lacks_number, plain
from skpref._typing import AnyArray, Array, BoolArray, IntArray
from skpref.data.columns import Columns, complete, listed
from skpref.data.ids import IdColumn, as_ids, shorten
from skpref.data.labels import are_with_ties
from skpref.data.task_tables import Answered, answered_tasks, covariates_of, padded
from skpref.data.times import read_times
from skpref.data.weights import read_weights
from skpref.data.winners import TIED, mirrored_rows, read_grades_of, read_labels_of, read_margins, refuse_ties
from skpref.exceptions import DataError

Column = str | int
Missing = Literal["raise", "drop"]  # what to do with rows that lack a cell
Mirrored = Literal["raise", "drop", "keep"]  # what to do with comparisons that are all listed for both sides
Rest = Literal["unknown", "lost"]  # what is known about items that a ranking does not name

_SETTINGS = "margins", "graded", "rest", "unranked", "mirrored", "drop_self"  # roles of no column


@dataclass(frozen=True)
class Roles:
    """Which columns hold what, by name; the layout follows from those that are given."""

    left: Any = None  # of teams: columns of their players
    right: Any = None
    winner: Any = None  # a label, a word for a side, or an id
    loser: Any = None  # then rows are (winner, loser)
    scores: tuple[Any, ...] = ()  # of both sides; or their difference, or text such as 2-1
    margins: float | None = None  # largest difference of scores; None: only who won counts
    graded: bool = False  # whether `winner` says how much better an item is
    counts: tuple[Any, ...] = ()  # wins of the left item, of the right one, and ties
    ranking: tuple[Any, ...] = ()  # items, the best first
    item_ranks: Mapping[Any, Any] = field(default_factory=dict)  # by column of ranks: the item
    item_ratings: Mapping[Any, Any] = field(default_factory=dict)  # by column of ratings: the item
    pairs: Mapping[Any, tuple[Any, Any]] = field(default_factory=dict)  # by column of answers: the left and right item
    offered: tuple[Any, ...] = ()  # items of which one was chosen
    chosen: Any = None
    worst: Any = None
    task: tuple[Any, ...] = ()  # tell choices or rankings apart of which a row is one item
    item: tuple[Any, ...] = ()
    features: tuple[Any, ...] = ()  # attributes that make an item
    rank: Any = None
    user: Any = None
    weight: Any = None
    covariates: tuple[Any, ...] = ()  # a pair is a difference; where a row shows several items: a column for each
    groups: tuple[Any, ...] = ()
    context: tuple[Any, ...] = ()
    time: Any = None
    once: tuple[Any, ...] = ()  # further columns that have one value in each task
    rest: Rest | None = None
    unranked: tuple[Any, ...] | None = None  # ranks or items that mean "not ranked"; None: ask where there may be some
    mirrored: Mirrored = "raise"
    drop_self: bool = False  # whether comparisons of an item with itself are left out

    @property
    def several(self) -> bool:
        """Whether a row is a choice or a ranking of several items, or a part of one."""
        return bool(self.ranking or self.item_ranks or self.item_ratings or self.offered or self.task)

    @property
    def sides(self) -> tuple[Any, Any]:
        """Columns of the left and the right item."""
        return (self.left, self.right) if self.loser is None else (self.winner, self.loser)

    def named(self) -> dict[str, Any]:
        """Return the columns of each role, for people."""
        higher = (
            f"the higher of {listed(self.scores)}" if len(self.scores) > 1 else f"{listed(self.scores)} (left - right)"
        )
        higher = higher if self.margins is None else f"margins of {listed(self.scores)} (at most {self.margins:g})"
        answer = f"{self.winner} (grades)" if self.graded else self.winner
        answer = higher if self.scores else f"counts {listed(self.counts)}" if self.counts else answer
        C, sign = self.covariates, "/" if self.several and not self.task else " - "
        several = ("ranking", "offered", "chosen", "worst", "task", "item" if not self.features else "features", "rank")
        return {
            **{role: getattr(self, role) for role in ("left", "right")},
            **({"answer": answer} if self.loser is None else {"winner": self.winner, "loser": self.loser}),
            **{role: getattr(self, role) for role in several},
            "ranks of items": tuple(self.item_ranks),
            "ratings of items": tuple(self.item_ratings),
            "answers to pairs": tuple(self.pairs),
            "user": self.user,
            "covariates": tuple(sign.join(map(str, term)) if isinstance(term, tuple) else term for term in C),
            "groups": self.groups,
            "context": self.context,
            "time": self.time,
            "items not named": self.rest or ("unknown" if self.ranking or self.item_ranks else None),
            "weights": self.weight or "none",
        }

    def columns(self) -> list[Any]:
        """Return all columns that are read, in a fixed order."""
        found: list[Any] = []
        for role in fields(self):
            value = getattr(self, role.name)
            if role.name == "covariates":
                found += [part for term in value for part in (term if isinstance(term, tuple) else (term,))]
            elif role.name not in _SETTINGS:
                found += [value] if role.default is None and not isinstance(value, tuple) else value
        return [name for name in dict.fromkeys(found) if name is not None]


@dataclass(frozen=True)
class Reading:
    """What was read of a table.

    Parameters
    ----------
    roles : dict of str to str
        The columns that were read, by what they were taken for.
    unused : tuple of str
        Columns that were not read.
    n_rows : int
        Rows of the table.
    left_out : dict of str to int
        Why rows make no comparison, and how many.
    n_ties : int, default=0
        Comparisons that are ties, beside wins. With ``likelihood="auto"`` an estimator learns them as a third answer.

    Examples
    --------
    >>> from skpref.data import from_winners
    >>> rows = from_winners({"left": ["x"], "right": ["y"], "winner": ["x"], "day": [3]})
    >>> print(rows.read_)
    left = left, right = right, answer = winner, weights = none, not used: day
    """

    roles: dict[str, str]
    unused: tuple[str, ...]
    n_rows: int
    left_out: dict[str, int]
    n_ties: int = 0

    def __str__(self) -> str:
        """Return one line."""
        text = ", ".join(f"{role} = {names}" for role, names in self.roles.items())
        if self.unused:
            text += f", not used: {listed(self.unused)}"
        if self.n_ties:
            count = f"{self.n_ties} {'row is a tie' if self.n_ties == 1 else 'rows are ties'}"
            text += f"; {count}, a third answer with likelihood=auto"
        if self.left_out:
            total = sum(self.left_out.values())
            reasons = ", ".join(f"{count} {why}" for why, count in self.left_out.items())
            text += f"; {total} {'row' if total == 1 else 'rows'} left out: {reasons}"
        return text


class ComparisonRows(NamedTuple):
    """Arguments of `fit`: pairs of ids or tasks, answers, weights and covariates; and what was read.

    Parameters
    ----------
    X : ndarray of shape (n, 2) or (n, 3), or of tasks (n, K) or (n, 1 + K)
        Ids of the left and the right item for `GPPLClassifier`; of the user, the left and the right item for
        `CrowdGPPL`, where a column of users was named. Of choices and rankings: of up to K items shown together.
    y : ndarray of shape (n,), or of tasks (n,), (n, 2) or (n, K)
        1 = left preferred, 0 = right preferred, 0.5 = a tie. Of tasks: what was chosen, or ranks.
    sample_weight : ndarray of shape (n,)
        Weights of the rows.
    covariates : ndarray of shape (n, n_covariates), or of tasks (n, n_covariates * K), or None
        Columns that were asked for; of tasks, those of the K positions of each covariate together.
    read_ : Reading
        Which column was taken for what, which columns were not used, and how many rows were left out, and why. Printed,
        it is one line.
    origin : ndarray of shape (n,), dtype int64
        Row of the table that each row is of, from 0; the first one where several rows are one task. So
        ``frame["date"].to_numpy()[rows.origin]`` are the dates.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> from skpref.data import from_winners
    >>> battles = {"left": ["x", "y", "x"], "right": ["y", "z", "z"], "winner": ["left", "right", "tie"]}
    >>> rows = from_winners(battles)
    >>> print(rows.read_)
    left = left, right = right, answer = winner, weights = none; 1 row is a tie, a third answer with
    likelihood=auto
    >>> model = GPPLClassifier().fit(rows.X, rows.y, rows.sample_weight)
    """

    X: AnyArray
    y: Array
    sample_weight: Array
    covariates: Array | None
    read_: Reading
    origin: IntArray


class ReadRows(NamedTuple):
    """Comparisons or tasks of a table."""

    items: tuple[IdColumn, ...]  # (n,) each: left and right; of tasks, those at each position, None where none is shown
    y: AnyArray | None  # (n,): labels; None: left always won, and the sides mean nothing; of tasks, answers
    weight: Array  # (n,)
    user: IdColumn | None  # (n,)
    groups: tuple[IdColumn, ...]  # (n,) each
    time: Array | None  # (n,)
    covariates: Array | None  # (n, q)
    context: Array | None  # (n, n_numbers)
    origin: IntArray  # (n,): row of the table
    unit: IntArray  # (n,): comparisons with the same number share their noise: of one game
    is_dated: bool  # whether times are years since 1970
    read_: Reading

    def take(self, kept: BoolArray) -> ReadRows:
        """Return some of the rows."""
        return ReadRows._make([*(_cut(column, kept) for column in self[:-2]), *self[-2:]])


class _Answers(NamedTuple):
    """Comparisons or tasks before what else their rows say."""

    items: tuple[Any, ...]
    y: AnyArray | None
    origin: IntArray
    unit: IntArray
    share: Array | None = None  # (n,): weight within the row, if it is not 1
    left_out: Mapping[str, int] = {}

    def take(self, kept: BoolArray, left_out: dict[str, int]) -> _Answers:
        """Return some of the comparisons, and why the others were left out."""
        return _Answers._make([*(_cut(column, kept) for column in self[:-1]), {**self.left_out, **left_out}])


def _cut(column: Any, kept: Any) -> Any:
    """Return some rows of a column, of several, or of none."""
    if isinstance(column, tuple):
        return tuple(own[kept] for own in column)
    return None if column is None else column[kept]


def read(table: Any, roles: Roles, missing: Missing | None = "raise") -> ReadRows:
    """Return the comparisons or tasks of a table."""
    columns = Columns.of(table)
    rows, kept = complete(columns, lambda part: _read(part, roles), missing)
    origin = rows.origin if kept is columns else np.searchsorted(columns.lines, kept.lines)[rows.origin]
    return rows._replace(origin=origin, read_=reading_of_all(rows.read_, columns, kept))


def _read(columns: Columns, roles: Roles) -> ReadRows:
    if not columns.size:
        raise columns.fault("at least 1 row is required; the table has no rows")
    found = answered_tasks(columns, roles) if roles.several else None
    answers = _pairs(columns, roles) if found is None else _of_tasks(found)
    items, y, origin, unit, share, left_out = answers
    weight = weights_of(columns, roles.weight)[origin]
    user, groups, time, is_dated = context_of(columns, roles)
    if found is not None:
        C = covariates_of(columns, roles, found.tasks) if roles.covariates else None
    else:
        with np.errstate(over="ignore"):  # of differences, which the caller refuses
            terms = [columns.numbers(term, meaning="a covariate")[origin] for term in roles.covariates]
        C = np.column_stack(terms) if terms else None
    named = roles.named()
    if time is not None:
        named["time"] = f"{roles.time} ({'dates' if is_dated else 'numbers'})"
    if not origin.size:
        out = ", ".join(f"{count} {why}" for why, count in left_out.items() if count)
        raise columns.fault(f"at least 1 comparison is required; all rows are left out: {out}")
    reading = reading_of(columns, named, roles.columns(), left_out)
    are_others = roles.several or roles.graded or roles.margins is not None
    if y is not None and not are_others and are_with_ties(np.unique(y)):
        reading = replace(reading, n_ties=int(np.sum(y == 0.5)))
    weight = weight if share is None else weight * share
    user, groups, time, context = (_cut(column, origin) for column in (user, groups, time, numbers_of(columns, roles)))
    return ReadRows(items, y, weight, user, groups, time, C, context, origin, unit, is_dated, reading)


def _of_tasks(found: Answered) -> _Answers:
    """Return tasks as rows of items, each an answer of its own."""
    rows = np.array([task.row for task in found.tasks], dtype=np.int64)
    items = tuple(padded(None, [task.items for task in found.tasks]).T)
    return _Answers(items, found.y, rows, np.arange(rows.size), left_out=found.left_out)


def context_of(columns: Columns, roles: Roles) -> tuple[IdColumn | None, tuple[IdColumn, ...], Array | None, bool]:
    """Return the users, the groups and the times of rows, and whether these are dates."""
    user = None if roles.user is None else columns.ids(roles.user, "user")
    groups = tuple(columns.ids(name, "group") for name in roles.groups)
    return user, groups, *((None, False) if roles.time is None else read_times(columns, roles.time))


def numbers_of(columns: Columns, roles: Roles) -> Array | None:
    """Return the numbers of context of rows, shape (n, n_numbers); None without any."""
    return columns.matrix(roles.context, "a number of context") if roles.context else None


def reading_of(
    columns: Columns, named: Mapping[str, Any], used: Iterable[Any], left_out: Mapping[str, int] | None = None
) -> Reading:
    """Return what was read of a table: what columns were taken for, and the columns that were used."""
    used = {str(name) for name in used}
    unused = tuple(str(name) for name in columns.names if str(name) not in used)
    texts = {role: listed(names) for role, names in named.items() if names not in (None, ())}
    return Reading(texts, unused, columns.size, dict(left_out or {}))


def reading_of_all(reading: Reading, columns: Columns, kept: Columns) -> Reading:
    """Return what was read of a table of which some rows were kept."""
    out = {"incomplete": columns.size - kept.size, **reading.left_out}
    return replace(reading, n_rows=columns.size, left_out={why: count for why, count in out.items() if count})


def weights_of(columns: Columns, name: Any) -> Array:
    """Return a column of weights, or 1 where there is none, shape (n,)."""
    if name is None:
        return np.ones(columns.size)
    weight = columns.numbers(name, low=0.0, meaning="a weight")
    if columns.is_text and not (weight > 0.0).any():
        raise columns.fault("all weights are zero", column=name)
    return read_weights(weight, columns.size).copy()


# ---------------------------------------------------------------------------------------------------------------- pairs
def _pairs(columns: Columns, roles: Roles) -> _Answers:
    """Return comparisons of which a row has one, or counts of them."""
    if roles.pairs:
        return _pair_columns(columns, roles)
    left, right = (columns.teams(name) if isinstance(name, tuple) else columns.ids(name) for name in roles.sides)
    if roles.loser is not None:
        refuse_ties(columns, roles.columns())
    y, margin, every = None, None, np.arange(columns.size)
    if roles.scores:
        margin = read_margins(columns, roles.scores)
        y = 0.5 + 0.5 * np.sign(margin) if roles.margins is None else np.clip(margin, -roles.margins, roles.margins)
    elif not roles.counts and roles.winner is not None and roles.loser is None:
        both = (roles.left, left), (roles.right, right)
        y = read_grades_of(columns, roles.winner) if roles.graded else read_labels_of(columns, roles.winner, *both)
        margin = y if roles.graded else y - 0.5
    answers = _Answers((left, right), y, every, every)
    if roles.counts:
        answers = _counted(columns, roles.counts, left, right)
    elif margin is not None:
        answers = _one_game(columns, roles, answers, margin)
    same = answers.items[0] == answers.items[1]
    if roles.drop_self and same.any():
        return answers.take(~same, {"with one item twice": int(np.sum(same))})
    if same.any() and columns.is_text:
        row, names = int(np.argmax(same)), " and ".join(map(repr, roles.sides))
        what = f"item {shorten(answers.items[0][row])} is compared with itself (columns {names})"
        raise columns.fault(f"{what}; --on-self drop leaves such rows out", int(answers.origin[row]))
    return answers


def _one_game(columns: Columns, roles: Roles, answers: _Answers, margin: Array) -> _Answers:
    """Return comparisons with the twins of games that are listed for both sides in one unit, or without them."""
    user = None if roles.user is None else columns.ids(roles.user, "user")
    left, right = answers.items
    game = mirrored_rows(left, right, margin, user)
    if game is None:
        return answers
    _, first, game = np.unique(game, return_index=True, return_inverse=True)
    twice = game.size - first.size
    if roles.mirrored not in {"drop", "keep"}:
        what = f"{2 * twice} of {game.size} rows are pairs with equal items and answers with the sides exchanged"
        advice = "If a pair is one game, mirrored='drop' reads it once; if two answers, mirrored='keep' reads both"
        raise columns.fault(f"comparisons are listed twice, once for each side: {what}. {advice}")
    unit = answers.unit[first[game]]
    if roles.mirrored == "keep":
        return answers._replace(unit=unit)
    return answers.take(unit == answers.unit, {"that list a game a second time": twice})


def _counted(columns: Columns, names: tuple[Any, ...], left: IdColumn, right: IdColumn) -> _Answers:
    """Return a comparison for each count of wins, losses and ties, which is its weight."""
    if not 2 <= len(names) <= 3:
        raise DataError(f"counts are two or three columns, wins of both sides and ties; got {len(names)}")
    if any(plain(str(name)).removesuffix("s") in TIED for name in names[:2]):
        raise DataError(f"counts are wins of the left item, of the right one, and ties; got {listed(names)}")
    counts = np.stack([columns.numbers(name, low=0.0, meaning="a count") for name in names], axis=1)
    row, kind = np.nonzero(counts)
    out = {"without a win or a tie": columns.size - np.unique(row).size}
    y = np.array([1.0, 0.0, 0.5])[kind]
    return _Answers((left[row], right[row]), y, row, row, counts[row, kind], out)


def _pair_columns(columns: Columns, roles: Roles) -> _Answers:
    """Return comparisons of a survey with one column for each pair, all coded alike; an empty cell is no answer."""
    cells: list[Any] = []
    pairs: list[tuple[Any, Any]] = []
    rows: list[int] = []
    places = []
    for name, pair in roles.pairs.items():
        column = columns.cells(name)
        here = [row for row, cell in enumerate(column) if cell in pair or not lacks_number(cell)]
        cells += [column[row] for row in here]
        pairs += [pair] * len(here)
        rows += here
        places += [f"{columns.lines[row]}, column {name!r}" for row in here]
    left, right = (as_ids([pair[side] for pair in pairs], "pairs") for side in (0, 1))
    answers = replace(columns, values={None: cells}, lines=places)
    y = read_labels_of(answers, None, ("left", left), ("right", right))
    origin = np.array(rows, dtype=np.int64)
    silent = columns.size - np.unique(origin).size
    return _Answers((left, right), y, origin, np.arange(y.size), left_out={"without an answer": silent})
