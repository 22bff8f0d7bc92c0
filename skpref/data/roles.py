"""Which column of a table is what, and the one reader that makes comparisons of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from skpref._text import is_number, lacks_number, number
from skpref._warn import warn
from skpref.data.columns import Columns, as_text, complete
from skpref.data.ids import as_ids, shorten
from skpref.data.times import read_times
from skpref.data.weights import read_weights
from skpref.data.winners import mirrored_rows, read_labels_of, read_margins, refuse_ties
from skpref.exceptions import DataError, DataWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray
    from skpref.data.ids import IdColumn

Column = str | int
Missing = Literal["raise", "drop"]  # what to do with rows that lack a cell
Mirrored = Literal["raise", "drop", "keep"]  # what to do with comparisons that are all listed for both sides
Rest = Literal["unknown", "lost"]  # what is known about items that a ranking does not name

_MOST_PAIRS = 20_000_000  # that rankings are taken apart into: a gigabyte
_COUNTS = "win", "vote", "count"  # in names of columns of counts
_NOBODY = {"undervote", "overvote", "skipped", "blank"}  # in records of votes
_SHOWN = 20  # names of columns


@dataclass(frozen=True)
class Roles:
    """Which columns hold what, by name; the layout follows from those that are given."""

    left: Any = None
    right: Any = None
    winner: Any = None  # a label, a word for a side, or an id
    loser: Any = None  # then rows are (winner, loser)
    scores: tuple[Any, ...] = ()  # of both sides; or their difference, or text such as 2-1
    margins: float | None = None  # largest difference of scores; None: only who won counts
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
    rank: Any = None
    user: Any = None
    weight: Any = None
    covariates: tuple[Any, ...] = ()  # a pair of columns is their difference
    groups: tuple[Any, ...] = ()
    time: Any = None
    once: tuple[Any, ...] = ()  # further columns that have one value in each task
    rest: Rest | None = None
    unranked: tuple[Any, ...] | None = None  # ranks or items that mean "not ranked"; None: ask where there may be some
    mirrored: Mirrored = "raise"
    drop_self: bool = False  # whether comparisons of an item with itself are left out

    @property
    def several(self) -> bool:
        """Whether a row makes several comparisons, or is a part of one choice or ranking."""
        return bool(self.ranking or self.item_ranks or self.item_ratings or self.offered or self.task)

    def named(self) -> dict[str, Any]:
        """Return the columns of each role, for people."""
        higher = (
            f"the higher of {listed(self.scores)}" if len(self.scores) > 1 else f"{listed(self.scores)} (left - right)"
        )
        higher = higher if self.margins is None else f"margins of {listed(self.scores)} (at most {self.margins:g})"
        answer = higher if self.scores else f"counts {listed(self.counts)}" if self.counts else self.winner
        several = ("ranking", "offered", "chosen", "worst", "task", "item", "rank")
        shown = {
            **{role: getattr(self, role) for role in ("left", "right")},
            **({"answer": answer} if self.loser is None else {"winner": self.winner, "loser": self.loser}),
            **{role: getattr(self, role) for role in several},
            "ranks of items": tuple(self.item_ranks),
            "ratings of items": tuple(self.item_ratings),
            "answers to pairs": tuple(self.pairs),
            "user": self.user,
            "covariates": self.covariates,
            "groups": self.groups,
            "time": self.time,
            "items not named": self.rest or ("unknown" if self.ranking or self.item_ranks else None),
        }
        return {**shown, "weights": self.weight or "none"}

    def columns(self) -> list[Any]:
        """Return all columns that are read, in a fixed order."""
        one = "left", "right", "winner", "loser", "chosen", "worst", "rank", "user", "weight", "time"
        some = "scores", "counts", "ranking", "item_ranks", "item_ratings", "pairs", "offered", "task", "item", "groups"
        terms = [part for term in self.covariates for part in (term if isinstance(term, tuple) else (term,))]
        listed = [name for role in (*some, "once") for name in getattr(self, role)]
        names = dict.fromkeys([*(getattr(self, role) for role in one), *terms, *listed])
        return [name for name in names if name is not None]


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

    def __str__(self) -> str:
        """Return one line."""
        text = ", ".join(f"{role} = {names}" for role, names in self.roles.items())
        if self.unused:
            text += f", not used: {listed(self.unused)}"
        if self.left_out:
            total = sum(self.left_out.values())
            reasons = ", ".join(f"{count} {why}" for why, count in self.left_out.items())
            text += f"; {total} {'row' if total == 1 else 'rows'} left out: {reasons}"
        return text


class ReadRows(NamedTuple):
    """Comparisons of a table."""

    left: IdColumn  # (n,)
    right: IdColumn  # (n,)
    y: Array | None  # (n,): labels; None: left always won, and the sides mean nothing
    weight: Array  # (n,)
    user: IdColumn | None  # (n,)
    covariates: Array | None  # (n, q)
    groups: tuple[IdColumn, ...]  # (n,) each
    origin: IntArray  # (n,): row of `columns`
    unit: IntArray  # (n,): comparisons with the same number share their noise: of one ranking, choice or game
    reading: Reading
    time: Array | None = None  # (n,)
    is_dated: bool = False  # whether times are years since 1970

    def take(self, kept: NDArray[np.bool_]) -> ReadRows:
        """Return some of the comparisons."""
        names = ("left", "right", "y", "weight", "user", "covariates", "origin", "unit", "time")
        values = {name: getattr(self, name) for name in names}
        cut: dict[str, Any] = {name: None if value is None else value[kept] for name, value in values.items()}
        return self._replace(**cut, groups=tuple(level[kept] for level in self.groups))


class _Answers(NamedTuple):
    """Comparisons before what else their rows say."""

    left: Any
    right: Any
    y: Array | None
    origin: IntArray
    share: Array  # (n,): weight within the row
    left_out: dict[str, int]
    unit: IntArray

    def take(self, kept: NDArray[np.bool_], left_out: dict[str, int]) -> _Answers:
        """Return some of the comparisons, and why the others were left out."""
        y = None if self.y is None else self.y[kept]
        out = self.left_out | left_out
        sides = self.left[kept], self.right[kept]
        return _Answers(*sides, y, self.origin[kept], self.share[kept], out, self.unit[kept])


def read(table: Any, roles: Roles, missing: Missing | None = "raise") -> ReadRows:
    """Return the comparisons of a table."""
    columns = Columns.of(table)
    rows, kept = complete(columns, lambda part: _read(part, roles), missing)
    return rows._replace(reading=reading_of_all(rows.reading, columns, kept))


def _read(columns: Columns, roles: Roles) -> ReadRows:
    if roles.item_ratings:
        answers = _rankings(columns, roles, rated_of(columns, roles))
    elif roles.ranking or roles.item_ranks or (roles.task and roles.rank is not None):
        answers = _rankings(columns, roles, ranked_of(columns, roles))
    elif roles.offered or roles.task:
        answers = _choices(columns, roles)
    else:
        answers = _pairs(columns, roles)
    weight = np.ones(columns.size) if roles.weight is None else weights_of(columns, roles.weight)
    user = None if roles.user is None else columns.ids(roles.user, "user")
    groups = tuple(columns.ids(name, "group") for name in roles.groups)
    with np.errstate(over="ignore"):  # of differences, which the caller refuses
        C = [columns.numbers(term, meaning="a covariate") for term in roles.covariates]
    time, is_dated = (None, False) if roles.time is None else read_times(columns, roles.time)
    named = roles.named()
    if time is not None:
        named["time"] = f"{roles.time} ({'dates' if is_dated else 'numbers'})"
    reading = reading_of(columns, named, roles.columns(), answers.left_out)
    left, right, y, origin, share, _, unit = answers
    if not len(left):
        out = ", ".join(f"{count} {why}" for why, count in answers.left_out.items() if count)
        raise columns.fault(f"at least 1 comparison is required; all rows are left out: {out}" if out else "no rows")
    return ReadRows(
        *(left, right, y, weight[origin] * share, None if user is None else user[origin]),
        np.column_stack(C)[origin] if C else None,
        tuple(level[origin] for level in groups),
        *(origin, unit, reading, None if time is None else time[origin], is_dated),
    )


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
    """Return a column of weights, shape (n,)."""
    weight = columns.numbers(name, low=0.0, meaning="a weight")
    if columns.is_text and not (weight > 0.0).any():
        raise columns.fault("all weights are zero", column=name)
    return read_weights(weight, columns.size).copy()


# ---------------------------------------------------------------------------------------------------------------- pairs
def _pairs(columns: Columns, roles: Roles) -> _Answers:
    """Return comparisons of which a row has one, or counts of them."""
    if roles.pairs:
        return _pair_columns(columns, roles)
    sides = (roles.left, roles.right) if roles.loser is None else (roles.winner, roles.loser)
    left, right = (columns.ids(name) for name in sides)
    if roles.loser is not None:
        refuse_ties(columns, roles.columns())
    every = np.arange(columns.size)
    if roles.counts:
        answers = _counted(columns, roles.counts, left, right)
    elif roles.scores:
        margin = _margins(columns, roles.scores)
        y = 0.5 + 0.5 * np.sign(margin)
        y = y if roles.margins is None else np.clip(margin, -roles.margins, roles.margins)
        answers = _one_game(columns, roles, _Answers(left, right, y, every, np.ones(every.size), {}, every), margin)
    elif roles.winner is not None and roles.loser is None:
        y = read_labels_of(columns, roles.winner, (roles.left, left), (roles.right, right))
        answers = _one_game(columns, roles, _Answers(left, right, y, every, np.ones(every.size), {}, every), y - 0.5)
    else:
        answers = _Answers(left, right, None, every, np.ones(every.size), {}, every)
    same = answers.left == answers.right
    if roles.drop_self and same.any():
        return answers.take(~same, {"with one item twice": int(np.sum(same))})
    if same.any() and columns.is_text:
        row, names = int(np.argmax(same)), " and ".join(map(repr, sides))
        raise columns.fault(
            f"item {shorten(answers.left[row])} is compared with itself (columns {names}); --on-self drop leaves such "
            "rows out",
            int(answers.origin[row]),
        )
    return answers


def _margins(columns: Columns, scores: tuple[Any, ...]) -> Array:
    """Return the left score minus the right one, shape (n,); warn of counts of wins."""
    counted = len(scores) > 1 and any(word in str(scores[0]).lower() for word in _COUNTS)
    if counted and np.max(columns.numbers(scores[0]), initial=0.0) > 1.0:  # not flags
        warn(
            f"{listed(scores)} are read as the scores of one game: the higher one wins, however much higher. If they "
            "count wins or votes, from_counts reads them.",
            DataWarning,
        )
    return read_margins(columns, scores)


def _one_game(columns: Columns, roles: Roles, answers: _Answers, margin: Array) -> _Answers:
    """Return comparisons with the twins of games that are listed for both sides in one unit, or without them."""
    user = None if roles.user is None else columns.ids(roles.user, "user")
    game = mirrored_rows(answers.left, answers.right, margin, user)
    if game is None:
        return answers
    _, first, game = np.unique(game, return_index=True, return_inverse=True)
    twice = game.size - first.size
    if roles.mirrored not in {"drop", "keep"}:
        raise columns.fault(
            f"comparisons are listed twice, once for each side: {2 * twice} of {game.size} rows are pairs with equal "
            "items and answers with the sides exchanged. If such a pair is one game, mirrored='drop' reads it once; if "
            "it is two answers, as of a judge who saw both orders, mirrored='keep' reads both"
        )
    unit = answers.unit[first[game]]
    if roles.mirrored == "keep":
        return answers._replace(unit=unit)
    return answers.take(unit == answers.unit, {"that list a game a second time": twice})


def _counted(columns: Columns, names: tuple[Any, ...], left: IdColumn, right: IdColumn) -> _Answers:
    """Return a comparison for each count of wins, losses and ties, which is its weight."""
    if not 2 <= len(names) <= 3:
        raise DataError(f"counts are two or three columns, wins of both sides and ties; got {len(names)}")
    counts = np.stack([columns.numbers(name, low=0.0, meaning="a count") for name in names], axis=1)
    row, kind = np.nonzero(counts)
    out = {"without a win or a tie": columns.size - np.unique(row).size}
    return _Answers(left[row], right[row], np.array([1.0, 0.0, 0.5])[kind], row, counts[row, kind], out, row)


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
    return _Answers(left, right, y, origin, np.ones(y.size), {"without an answer": silent}, np.arange(y.size))


# -------------------------------------------------------------------------------------------------------------- choices
def _choices(columns: Columns, roles: Roles) -> _Answers:
    """Return the comparisons of choices: the chosen item won against the others, which won against the worst one."""
    if roles.chosen is None and roles.worst is None:
        raise DataError("choices need the column of the item that was chosen, or of the worst one")
    tasks, sets, answers = tasks_of(columns, roles) if roles.task else menus_of(columns, roles)
    none = [None] * len(sets)
    best = none if roles.chosen is None else answers[0]
    last = none if roles.worst is None else answers[-1]
    pairs, origin, share, single = [], [], [], 0
    for row, items, top, low in zip(tasks, sets, best, last, strict=True):
        if top is not None and low == top:
            both = f"columns {roles.chosen!r} and {roles.worst!r}"
            raise columns.fault(f"{shorten(top)} is both the best and the worst item ({both})", row)
        check_distinct(columns, items, row)
        rest = [item for item in items if item != top]
        won = [(top, item) for item in rest] if top is not None else []
        lost = [(item, low) for item in rest if item != low] if low is not None else []
        pairs += won + lost
        origin += [row] * len(won + lost)
        share += [2.0 / (len(won) + 1)] * len(won) + [2.0 / (len(lost) + 1)] * len(lost)
        single += not (won or lost)
    out = {"with one item to choose from": single}
    return _of_pairs(pairs, np.ones(len(pairs)), origin, share, out)


def menus_of(columns: Columns, roles: Roles) -> tuple[Any, Any, Any]:
    """Return rows, the items offered in each, and the answers, of choices in a row each."""
    if len(roles.offered) < 2:
        raise DataError(f"two columns of items at least are needed; got {roles.offered!r:.80}")
    lists = list(zip(*(columns.cells(name) for name in roles.offered), strict=True))
    shown = [as_text(cell) for row in lists for cell in row if cell is not None]
    odd = next((text for text in shown if not number(text).is_integer()), None) if all(map(is_number, shown)) else None
    if odd is not None:
        raise columns.fault(
            f"the cells of {listed(roles.offered)} are numbers such as {odd}, which are no items: choices among items "
            "that have attributes, such as prices, are not read"
        )
    sets = [[item for item in items if item is not None] for items in lists]
    names = [name for name in (roles.chosen, roles.worst) if name is not None]
    for name in names:
        if name in roles.offered:
            raise columns.fault("this column is the answer, and cannot be one of those offered", None, name)
    answers = [_chosen(columns, name, roles.offered, lists) for name in names]
    return range(columns.size), sets, answers


def _chosen(columns: Columns, name: Any, offered: Sequence[Any], lists: list[tuple[Any, ...]]) -> list[Any]:
    """Return the item that was chosen in each row; a cell has its id, the name of its column, or its position."""
    cells = columns.cells(name)
    columns.refuse_empty("the choice is missing", (cell is None for cell in cells), name)
    items = {item for row in lists for item in row}
    places = _places(cells, offered)
    by_place = places is not None and items.isdisjoint(cells) and not set(cells) & set(offered)
    found = []
    for row, (cell, row_items) in enumerate(zip(cells, lists, strict=True)):
        place = places[row] if by_place and places is not None else None
        choice = cell if cell in row_items else dict(zip(offered, row_items, strict=True)).get(cell)
        choice = choice if place is None else row_items[place]
        if choice is None:
            raise columns.fault(
                f"{shorten(cell)} is none of the items offered: write an item, the name of its column, such as "
                f"{offered[0]!r}, its position (1 to {len(offered)}), or its letter",
                row,
                name,
            )
        found.append(choice)
    if by_place and cells:
        columns.notes.append(str(columns.fault(f"column {name!r} has positions, {_span(cells, offered)}")))
    elif places is not None and any(row[k] != item for k, row, item in zip(places, lists, found, strict=True)):
        warn(
            f"column {name!r} is read as items, not as positions; if it has positions, write the names of the columns, "
            f"such as {offered[0]!r} for 1",
            DataWarning,
        )
    return found


def _span(cells: Sequence[Any], offered: Sequence[Any]) -> str:
    """Return what the first and the last position mean."""
    first, last = ("A", chr(ord("A") + len(offered) - 1)) if str(cells[0]).strip().isalpha() else (1, len(offered))
    return f"{first} for {offered[0]!r} to {last} for {offered[-1]!r}"


def _places(cells: Sequence[Any], offered: Sequence[Any]) -> list[int] | None:
    """Return cells as places from 0 if all are positions from 1, or all are letters from A; None otherwise."""
    numbers = {str(place): place - 1 for place in range(1, len(offered) + 1)}
    letters = {chr(ord("a") + place): place for place in range(min(len(offered), 26))}
    for words in (numbers, letters):
        found = [words.get(str(cell).strip().lower().removesuffix(".0")) for cell in cells]
        if None not in found:
            return found  # type: ignore[return-value]
    return None


def tasks_of(columns: Columns, roles: Roles) -> tuple[Any, Any, Any]:
    """Return first rows, items and answers of choices of which a row is one item."""
    members, items = members_of(columns, roles), item_of_rows(columns, roles.item)
    names = [name for name in (roles.chosen, roles.worst) if name is not None]
    flags = [columns.numbers(name, meaning="1 for the item that was the answer, 0 for others") for name in names]
    for name, values in zip(names, flags, strict=True):
        for row in np.flatnonzero((values != 0.0) & (values != 1.0))[:1].tolist():
            raise columns.fault(f"expected 1 for the item that was the answer, or 0; got {values[row]:g}", row, name)
    rows_of, sets, answers, silent, fault = [], [], [], [], ""
    for task, rows in members.items():
        hits = [[row for row in rows if values[row]] for values in flags]
        for name, hit in zip(names, hits, strict=True):
            if len(hit) > 1:
                why = "people may have tasks of the same number: then the columns of person and task name it together"
                raise columns.fault(
                    f"task {task[:80]} has a second 1 (first on {columns.unit} {columns.lines[hit[0]]}); {why}",
                    hit[1],
                    name,
                )
        if not all(hits):
            silent += rows
            name = names[[bool(hit) for hit in hits].index(False)]
            hint = "; if it means that none was chosen, add a row for the option none to each task"
            fault = fault or f"no row of task {task[:80]} has a 1 in {name!r}{hint}"
            continue
        rows_of.append(rows[0])
        sets.append([items[row] for row in rows])
        answers.append([items[hit[0]] for hit in hits])
    if silent:
        raise columns.missing(fault, silent, None)
    return rows_of, sets, [list(each) for each in zip(*answers, strict=True)]


def members_of(columns: Columns, roles: Roles) -> dict[str, list[int]]:
    """Return the rows of each task; each user has tasks of the user's own."""
    names = roles.task if roles.user is None or roles.user in roles.task else (roles.user, *roles.task)
    keys = list(zip(*(columns.ids(name, str(name)).tolist() for name in names), strict=True))
    members: dict[str, list[int]] = {}
    for row, key in enumerate(keys):
        members.setdefault(_joined(key), []).append(row)
    for name in sorted({roles.weight, *roles.once, *roles.groups} - {None}, key=str):
        cells = columns.cells(name)
        for task, rows in members.items():
            other = next((row for row in rows if cells[row] != cells[rows[0]]), None)
            if other is not None:
                raise columns.fault(
                    f"{shorten(cells[other])} differs from {shorten(cells[rows[0]])} on {columns.unit} "
                    f"{columns.lines[rows[0]]}, but task {task[:80]} has one value of this column",
                    other,
                    name,
                )
    return members


def _joined(cells: tuple[Any, ...]) -> str:
    """Return cells with commas between them; those that hold a comma are quoted, so that the text is of no others."""
    return ", ".join(repr(cell) if len(cells) > 1 and "," in str(cell) else str(cell) for cell in cells)


def item_of_rows(columns: Columns, names: tuple[Any, ...]) -> list[Any]:
    """Return the item in each row of a task; several columns together name it."""
    parts = [columns.ids(name, "item" if len(names) == 1 else "feature").tolist() for name in names]
    return parts[0] if len(parts) == 1 else [" ".join(map(str, cells)) for cells in zip(*parts, strict=True)]


# ------------------------------------------------------------------------------------------------------------- rankings
class Ranking(NamedTuple):
    """The items of a ranking and their ranks, 1 is the best."""

    row: int
    items: list[Any]
    ranks: Any  # (k,)


def ranked_of(columns: Columns, roles: Roles) -> list[Ranking]:
    """Return the rankings of a table in any of three layouts."""
    if roles.item_ranks:
        names = list(roles.item_ranks)
        ranks = np.column_stack([columns.numbers_or_nan(name, "a rank") for name in names])
        ranks = _without_codes(columns, roles, ranks, [(name, len(names)) for name in names])
        return _of_matrix(ranks, list(roles.item_ranks.values()))
    if roles.ranking:
        if len(roles.ranking) < 2:
            raise DataError(f"two columns of items at least are needed; got {roles.ranking!r:.80}")
        rows = list(zip(*(columns.cells(name) for name in roles.ranking), strict=True))
        _warn_of_ranks(rows, roles.ranking)
        rows = _without_nobody(columns, roles, rows)
        kept = [[item for item in row if item is not None] for row in rows]
        return [Ranking(row, items, np.arange(1.0, len(items) + 1.0)) for row, items in enumerate(kept)]
    cells, codes = columns.cells(roles.rank), set(map(as_text, roles.unranked or ()))
    ranks = np.array([number(columns.with_point(cell)) for cell in cells])
    absent = [row for row in np.flatnonzero(np.isnan(ranks)).tolist() if as_text(cells[row]) not in codes]
    if absent:
        raise columns.missing(
            f"expected a rank, which is a number; got {shorten(cells[absent[0]])}. Write a number larger than the "
            "other ranks, or leave the item out of this ranking",
            absent,
            roles.rank,
        )
    items, members = item_of_rows(columns, roles.item), members_of(columns, roles)
    most = max(map(len, members.values()), default=0)
    ranks = _without_codes(columns, roles, ranks[:, None], [(roles.rank, most)])[:, 0]
    ranked = [(own[0], [row for row in own if not np.isnan(ranks[row])]) for own in members.values()]
    return [Ranking(first, [items[row] for row in own], ranks[own]) for first, own in ranked]


def rated_of(columns: Columns, roles: Roles) -> list[Ranking]:
    """Return the rankings of ratings in columns of items: the higher rating is the better rank."""
    ratings = np.column_stack([columns.numbers_or_nan(name, "a rating") for name in roles.item_ratings])
    return _of_matrix(-ratings, list(roles.item_ratings.values()))


def _of_matrix(ranks: Array, items: list[Any]) -> list[Ranking]:
    """Return the rankings of a matrix of ranks, rows by items, NaN where an item has none."""
    if len(items) < 2 or len(set(map(str, items))) < len(items):
        raise DataError(f"two different items at least are needed, a column for each; got {shorten(items)}")
    ranked = [np.flatnonzero(np.isfinite(row)) for row in ranks]
    return [Ranking(row, [items[i] for i in some], ranks[row, some]) for row, some in enumerate(ranked)]


def _without_codes(columns: Columns, roles: Roles, ranks: Array, names: list[tuple[Any, int]]) -> Array:
    """Return ranks (n, k) with NaN for codes of "not ranked"; ask where a number may be one: 0, -1, 99 of 5 items."""
    if roles.unranked is not None:
        return np.where(np.isin(ranks, list(map(number, roles.unranked))), np.nan, ranks)
    for place, (name, most) in enumerate(names):
        values = ranks[:, place]
        high = values > most
        if (
            roles.task and np.mean(high) <= 0.5
        ):  # the rest of a race may be elsewhere; a code is often there, behind a gap
            top = values == values.max()
            high &= top & (np.sum(top) > 1) & (values.max() - 1.0 not in values)
        odd = np.flatnonzero((values <= 0.0) | high)
        if odd.size:
            row, value = int(odd[0]), float(values[odd[0]])
            raise columns.fault(
                f"{value:g} is no rank of {most} items, which are from 1 (the best) to {most}. If it means that the "
                f"item was not ranked, unranked=[{value:g}] says so; if it is a rank, unranked=[]; if higher is "
                "better, these are ratings",
                row,
                name,
            )
    return ranks


def _without_nobody(columns: Columns, roles: Roles, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows of items with None for codes of "no item"; ask where a cell may be one: 0 of numbers, undervote."""
    texts = {as_text(cell) for row in rows for cell in row if cell is not None}
    if roles.unranked is None:
        low = {text for text in texts if number(text) <= 0.0} if all(map(is_number, texts)) else set()
        codes = low | {text for text in texts if text.lower() in _NOBODY}
        for row, column in np.ndindex(len(rows), len(roles.ranking)) if codes else ():
            if as_text(rows[row][column]) in codes:
                cell = shorten(rows[row][column])
                raise columns.fault(
                    f"{cell} may mean that no item was named: then unranked=[{cell}] says so; if it is an item, "
                    "unranked=[]",
                    *(row, roles.ranking[column]),
                )
    codes = set(map(as_text, roles.unranked or ()))
    return [tuple(None if as_text(cell) in codes else cell for cell in row) for row in rows] if codes else rows


def _warn_of_ranks(rows: list[tuple[Any, ...]], names: Sequence[Any]) -> None:
    """Warn if the cells of columns of items look like ranks."""
    wanted = {str(place) for place in range(1, len(names) + 1)}
    if len(set(rows)) > 1 and all({str(cell).removesuffix(".0") for cell in row} == wanted for row in rows):
        warn(
            f"The cells of {shorten(list(names))} are 1 to {len(names)} in every row. If each column is an item "
            "and its cells are ranks, pass item_ranks=[...] in the place of columns.",
            DataWarning,
        )


def _rankings(columns: Columns, roles: Roles, rankings: list[Ranking]) -> _Answers:
    """Return all pairs of each ranking; with rest="lost", the items named also won against those not named.

    All pairs of a ranking of k items share its noise, so each has the weight 3 / (k + 1). Where the rest lost, place j
    is a choice among the m - j + 1 items left, whose pairs have the weight 2 / (m - j + 1).
    """
    everything = list(dict.fromkeys(item for ranking in rankings for item in ranking.items))
    if roles.item_ranks or roles.item_ratings:
        everything = list((roles.item_ranks or roles.item_ratings).values())
    single = ask_about_single(columns, roles, rankings)
    sizes = np.array([len(ranking.items) for ranking in rankings], dtype=np.int64)
    m = len(everything)
    total = int(np.sum(sizes * (sizes - 1) // 2 + (sizes * (m - sizes) if roles.rest == "lost" else 0)))
    if total > _MOST_PAIRS:
        raise DataError(f"the rankings make {total} comparisons, more than {_MOST_PAIRS}; keep the top of each ranking")
    pairs: list[tuple[Any, Any]] = []
    labels, origin, share = [], [], []
    for row, items, ranks in rankings:
        check_distinct(columns, items, row)
        k = len(items)
        a, b = np.triu_indices(k, 1)
        named = set(items)
        others = [item for item in everything if item not in named] if roles.rest == "lost" and k else []
        pairs += [(items[i], items[j]) for i, j in zip(a.tolist(), b.tolist(), strict=True)]
        labels += (0.5 + 0.5 * np.sign(ranks[b] - ranks[a])).tolist()
        if others:
            better = 2.0 / (m - np.array([np.sum(ranks < rank) for rank in ranks]))  # of the choice that a rank is
            share += np.minimum(better[a], better[b]).tolist()
            pairs += [(item, other) for item in items for other in others]
            labels += [1.0] * (k * len(others))
            share += np.repeat(better, len(others)).tolist()
        else:
            share += [3.0 / (k + 1)] * a.size
        origin += [row] * (a.size + k * len(others))
    out = {"without a ranking": int(np.sum(sizes == 0)), "of one item": 0 if roles.rest == "lost" else single}
    return _of_pairs(pairs, np.array(labels), origin, share, out)


def ask_about_single(columns: Columns, roles: Roles, rankings: list[Ranking]) -> int:
    """Return the number of rankings of one item; ask what they mean where nothing says it."""
    single = sum(len(ranking.items) == 1 for ranking in rankings)
    if roles.rest is None and single and not roles.task and not roles.item_ratings:
        row = next(ranking.row for ranking in rankings if len(ranking.items) == 1)
        raise columns.fault(
            f"{single} {'ranking names' if single == 1 else 'rankings name'} one item. If the items that a ranking "
            "does not name lost against those that it names, rest='lost' says so; if nothing is known about them, "
            "rest='unknown' leaves such rankings out",
            row,
        )
    return single


def check_distinct(columns: Columns, items: Sequence[Any], row: int) -> None:
    """Refuse an item that a choice or a ranking has twice."""
    if not all(isinstance(item, Hashable) for item in items):
        return  # it is no id, which is said later
    for item, count in Counter(items).items():
        if count > 1:
            tells = "; if these are different items, name the columns that tell them apart"
            raise columns.fault(f"item {shorten(item)} occurs twice in one choice or ranking{tells}", row)


def _of_pairs(pairs: list[tuple[Any, Any]], y: Array, origin: Any, share: Any, left_out: dict[str, int]) -> _Answers:
    left, right = (as_ids([pair[side] for pair in pairs], "items") for side in (0, 1))
    rows = np.array(origin, dtype=np.int64)
    return _Answers(left, right, y, rows, np.array(share, dtype=np.float64), left_out, rows)


def listed(names: Any) -> str:
    """Return names of columns as text; a pair is a difference."""
    if not isinstance(names, tuple | list):
        return str(names)
    text = [" - ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in names[:_SHOWN]]
    return ", ".join(text) + ", ..." * (len(names) > _SHOWN)
