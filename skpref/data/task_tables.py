"""Tables of choices and rankings, read as tasks: a row for each, with the ids of the items shown."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._text import is_number, number
from skpref._typing import AnyArray, Array
from skpref._warn import warn
from skpref.data.columns import Columns, as_text, listed
from skpref.data.ids import objects, shorten
from skpref.data.labels import WORDS
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from skpref.data.roles import Roles

PROFILE = "profile of features"  # name of a column that `from_tasks` and the like make
_NOBODY = {"undervote", "overvote", "skipped", "blank"}  # in records of votes


class Shown(NamedTuple):
    """What one task shows."""

    row: int  # of the table, the first one
    items: list[Any]
    places: list[int]  # of the items: their rows where a row is an item, or else their columns
    ranks: Array = np.zeros(0)  # (k,): the lowest is the best, NaN where an item is behind; of rankings only


class Answered(NamedTuple):
    """Tasks with answers, before what else their rows say."""

    tasks: list[Shown]
    y: AnyArray
    left_out: dict[str, int]


def answered_tasks(columns: Columns, roles: Roles) -> Answered:
    """Return the tasks of a table of choices or rankings."""
    is_ranked = roles.item_ratings or roles.ranking or roles.item_ranks or (roles.task and roles.rank is not None)
    return rankings_of(columns, roles, _ranked(columns, roles)) if is_ranked else choices_of(columns, roles)


def covariates_of(columns: Columns, roles: Roles, tasks: list[Shown]) -> Array:
    """Return numbers of the alternatives, which have columns of their own, or rows; 0 where none was shown."""
    if roles.rest == "lost":
        raise DataError("covariates are of the items that a ranking names, and rest='lost' adds others: leave one out")
    shown = [
        (t, k, task.row, task.places[k])
        for t, task in enumerate(tasks)
        for k, item in enumerate(task.items)
        if item is not None
    ]
    task, position, row, place = np.array(shown, dtype=np.int64).T
    places = roles.offered or roles.ranking or tuple(roles.item_ranks or roles.item_ratings)
    blocks = []
    for term in roles.covariates:
        block = np.zeros((len(tasks), max(len(task.items) for task in tasks)))
        is_wide, rows = not roles.task, place if roles.task else row
        if is_wide and (not isinstance(term, tuple) or len(term) != len(places) or len(set(term)) < len(term)):
            wanted = f'a column for each of {listed(places)}, as in {{"price": ["price_1", "price_2", ...]}}'
            raise DataError(f"covariates must have {wanted}; got {shorten(term)}")
        for column, name in enumerate(term if is_wide else (term,)):
            own = np.flatnonzero(place == column) if is_wide else np.arange(place.size)
            block[task[own], position[own]] = columns.numbers_at(name, rows[own].tolist(), "a covariate")
        blocks.append(block)
    return np.hstack(blocks)


def padded(users: Any, sets: Sequence[Sequence[Any]]) -> AnyArray:
    """Return users and items of tasks as a table, None behind the last item."""
    first = 0 if users is None else 1
    X = np.full((len(sets), first + max(map(len, sets), default=0)), None, dtype=object)
    for row, items in enumerate(sets):
        X[row, first : first + len(items)] = items
    if users is not None:
        X[:, 0] = users
    return X


# -------------------------------------------------------------------------------------------------------------- choices
def choices_of(columns: Columns, roles: Roles) -> Answered:
    """Return choices, without those among one item."""
    if roles.chosen is None and roles.worst is None:
        raise DataError("a choice needs the column of the item that was chosen, the best one, or that of the worst one")
    tasks, *answers = tasks_of(columns, roles) if roles.task else menus_of(columns, roles)
    answers = answers if roles.chosen is not None else [[None] * len(tasks), *answers]
    several = [sum(item is not None for item in task.items) > 1 for task in tasks]
    for task, has_several, *named in zip(tasks, several, *answers, strict=True):
        check_distinct(columns, task.items, task.row)
        both = f"columns {roles.chosen!r} and {roles.worst!r}"
        if has_several and set(named) == {None}:
            what = f"the choice is missing: neither the best nor the worst item is known ({both})"
            raise columns.missing(what, [task.row], roles.chosen)
        if has_several and len(set(named)) < len(named) and task.items.count(named[0]) < len(named):
            raise columns.fault(f"{shorten(named[0])} is both the best and the worst item ({both})", task.row)
    kept = [task for task, has_several in zip(tasks, several, strict=True) if has_several]
    if not kept:
        raise columns.fault("at least 1 choice among two items or more is required")
    y = np.column_stack([objects(named) for named in answers])[several]
    return Answered(kept, _unambiguous(y, kept), {"with one item to choose from": len(tasks) - len(kept)})


def _unambiguous(y: AnyArray, tasks: list[Shown]) -> AnyArray:
    """Return what was chosen: its id, or ranks where ids may be labels of comparisons, too."""
    if y.shape[1] > 1:
        return y
    if all(isinstance(item, str) for item in y[:, 0]) and not {item.lower() for item in y[:, 0]} <= WORDS.keys():
        return y[:, 0]
    shown = padded(None, [task.items for task in tasks])
    first = np.arange(shown.shape[1]) == (shown == y).argmax(axis=1)[:, None]  # of equal profiles
    return np.where(shown == None, np.nan, np.where(first, 1.0, 2.0))  # noqa: E711 - for each cell


def menus_of(columns: Columns, roles: Roles) -> list[Any]:
    """Return choices in a row each, which show None where an item was not offered, and the answers."""
    lists = _rows_of_items(columns, roles.offered)
    shown = [as_text(cell) for row in lists for cell in row if cell is not None]
    odd = next((text for text in shown if not number(text).is_integer()), None) if all(map(is_number, shown)) else None
    if odd is not None:
        what = f"the cells of {listed(roles.offered)} are numbers such as {odd}, which are no items"
        raise columns.fault(f'{what}: attributes are read by from_tasks(features={{"price": [...]}}), or by --features')
    names = [name for name in (roles.chosen, roles.worst) if name is not None]
    for name in names:
        if name in roles.offered:
            raise columns.fault("this column is the answer, and cannot be one of those offered", None, name)
    tasks = [Shown(row, list(items), list(range(len(items)))) for row, items in enumerate(lists)]
    return [tasks, *(_chosen(columns, name, roles.offered, lists, is_alone=len(names) == 1) for name in names)]


def _rows_of_items(columns: Columns, names: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the items in each row, None where a cell is empty."""
    if len(names) < 2:
        raise DataError(f"two columns of items at least are needed; got {names!r:.80}")
    return list(zip(*(_items(columns, name) for name in names), strict=True))


def _items(columns: Columns, name: Any) -> Sequence[Any]:
    """Return a column of items, None where a cell is empty."""
    cells = columns.cells(name)
    odd = next((row for row, cell in enumerate(cells) if not isinstance(cell, Hashable)), None)
    if odd is not None:
        raise columns.fault(f"an item is a word or a number; got {shorten(cells[odd])}", odd, name)
    return cells


def _chosen(
    columns: Columns, name: Any, offered: Sequence[Any], lists: list[tuple[Any, ...]], *, is_alone: bool
) -> list[Any]:
    """Return the item that was chosen in each row; a cell has its id, the name of its column, or its position.

    With another column of answers, a cell may be empty.
    """
    every = _items(columns, name)
    if is_alone:
        columns.refuse_empty("the choice is missing", (cell is None for cell in every), name)
    known = [row for row, cell in enumerate(every) if cell is not None]
    cells, lists = [every[row] for row in known], [lists[row] for row in known]
    places = positions_of(cells, offered)
    by_place = None not in places and {item for row in lists for item in row}.union(offered).isdisjoint(cells)
    found = [
        row[place] if by_place else cell if cell in row else dict(zip(offered, row, strict=True)).get(cell)
        for place, cell, row in zip(places, cells, lists, strict=True)
    ]
    unknown = [row for row, item in enumerate(found) if item is None]
    for row in sorted(unknown, key=lambda row: places[row] is not None)[:1]:  # of positions, the one that is none
        wanted = f"write an item, the name of its column, its position (1 to {len(offered)}), or its letter"
        raise columns.fault(f"{shorten(cells[row])} is none of the items offered: {wanted}", known[row], name)
    if by_place and cells:
        first, last = ("A", chr(ord("A") + len(offered) - 1)) if str(cells[0]).strip().isalpha() else (1, len(offered))
        meaning = f"{first} for {offered[0]!r} to {last} for {offered[-1]!r}"
        columns.notes.append(str(columns.fault(f"column {name!r} has positions, {meaning}")))
    elif None not in places and any(row[k] != item for k, row, item in zip(places, lists, found, strict=True)):
        advice = f"if it has positions, write the names of the columns, such as {offered[0]!r} for 1"
        warn(f"column {name!r} is read as items, not as positions; {advice}")
    items = dict(zip(known, found, strict=True))
    return [items.get(row) for row in range(len(every))]


def positions_of(cells: Sequence[Any], offered: Sequence[Any]) -> list[Any]:
    """Return positions from 1, or letters from A, as places from 0, and None for other cells."""
    known = {word: k for k in range(len(offered)) for word in (str(k + 1), chr(ord("a") + k))}
    return [known.get(str(cell).strip().lower().removesuffix(".0")) for cell in cells]


def tasks_of(columns: Columns, roles: Roles) -> list[Any]:
    """Return choices of which a row is one item, and the answers."""
    members, items = members_of(columns, roles), item_of_rows(columns, roles.item)
    names = [name for name in (roles.chosen, roles.worst) if name is not None]
    marked = [_marked(columns, members, name, is_alone=len(names) == 1) for name in names]
    tasks = [Shown(rows[0], [items[row] for row in rows], rows) for rows in members.values()]
    return [tasks, *([None if row is None else items[row] for row in rows] for rows in marked)]


def _marked(columns: Columns, members: dict[str, list[int]], name: Any, *, is_alone: bool) -> list[int | None]:
    """Return the one row of each task that has a 1; with another column of answers, a task may have none."""
    values = columns.numbers(name, meaning="1 for the item that was the answer, 0 for others")
    for row in np.flatnonzero((values != 0.0) & (values != 1.0))[:1].tolist():
        what = f"expected 1 for the item that was the answer, or 0; got {values[row]:g}"
        advice = "if -1 is the worst item, make it the 1 of a column of its own, the one of the worst items"
        raise columns.fault(f"{what}; {advice}" if values[row] == -1.0 else what, row, name)
    hits = {task: [row for row in rows if values[row]] for task, rows in members.items()}
    for task, hit in hits.items():
        if len(hit) > 1:
            what = f"task {task[:80]} has a second 1 (first on {columns.unit} {columns.lines[hit[0]]})"
            advice = "people may have tasks of the same number: then the columns of person and task name it together"
            raise columns.fault(f"{what}; {advice}", hit[1], name)
    silent = [task for task, hit in hits.items() if not hit and is_alone]
    if silent:
        hint = "; if it means that none was chosen, add a row for the option none to each task"
        rows = [row for task in silent for row in members[task]]
        raise columns.missing(f"no row of task {silent[0][:80]} has a 1 in {name!r}{hint}", rows, None)
    return [hit[0] if hit else None for hit in hits.values()]


def members_of(columns: Columns, roles: Roles) -> dict[str, list[int]]:
    """Return the rows of each task; each user has tasks of the user's own."""
    names = roles.task if roles.user is None or roles.user in roles.task else (roles.user, *roles.task)
    keys = zip(*(columns.ids(name, str(name)).tolist() for name in names), strict=True)
    tasks, members = dict[Any, str](), dict[str, list[int]]()
    for row, key in enumerate(keys):
        if key not in tasks:  # a comma in a cell is no comma between cells
            tasks[key] = ", ".join(repr(cell) if len(key) > 1 and "," in str(cell) else str(cell) for cell in key)
        members.setdefault(tasks[key], []).append(row)
    for name in sorted({roles.weight, roles.time, *roles.once, *roles.groups, *roles.context} - {None}, key=str):
        cells = columns.cells(name)
        for task, rows in members.items():
            other = next((row for row in rows if cells[row] != cells[rows[0]]), None)
            if other is not None:
                first = f"{shorten(cells[rows[0]])} on {columns.unit} {columns.lines[rows[0]]}"
                what = f"{shorten(cells[other])} differs from {first}"
                raise columns.fault(f"{what}, but task {task[:80]} has one value of this column", other, name)
    return members


def item_of_rows(columns: Columns, names: tuple[Any, ...]) -> list[Any]:
    """Return the item in each row of a task; several columns together name it."""
    parts = [columns.ids(name, "item" if len(names) == 1 else "feature").tolist() for name in names]
    return parts[0] if len(parts) == 1 else [" ".join(map(str, cells)) for cells in zip(*parts, strict=True)]


# ------------------------------------------------------------------------------------------------------------- rankings
def rankings_of(columns: Columns, roles: Roles, rankings: list[Shown]) -> Answered:
    """Return rankings with ranks; with rest="lost", items that are not named stand behind, unranked."""
    everything = list((roles.item_ranks or roles.item_ratings).values())
    everything = everything or list(dict.fromkeys(item for ranking in rankings for item in ranking.items))
    single = [ranking.row for ranking in rankings if len(ranking.items) == 1]
    if single and roles.rest is None and not roles.task and not roles.item_ratings:
        what = f"{len(single)} {'ranking names' if len(single) == 1 else 'rankings name'} one item"
        advice = "If all others lost, rest='lost' says so; if nothing is known, rest='unknown' leaves such rankings out"
        raise columns.fault(f"{what}. {advice}", single[0])
    tasks, y = [], []
    for ranking in rankings:
        check_distinct(columns, ranking.items, ranking.row)
        named = set(ranking.items)
        others = [item for item in everything if item not in named] if roles.rest == "lost" else []
        if ranking.items and len(ranking.items) + len(others) > 1:
            tasks.append(ranking._replace(items=[*ranking.items, *others]))
            place = 1.0 + np.searchsorted(np.unique(ranking.ranks), ranking.ranks)
            y.append([*np.where(np.isnan(ranking.ranks), np.nan, place), *[np.nan] * len(others)])
    if not tasks:
        raise columns.fault("at least 1 ranking of two items or more is required")
    left_out = {"without a ranking": sum(not ranking.items for ranking in rankings)}
    left_out["of one item"] = 0 if roles.rest == "lost" else len(single)
    return Answered(tasks, padded(None, y).astype(np.float64), left_out)


def _ranked(columns: Columns, roles: Roles) -> list[Shown]:
    """Return the rankings of a table in any of four layouts."""
    if named := roles.item_ranks or roles.item_ratings:
        items, what = list(named.values()), "a rank" if roles.item_ranks else "a rating"
        if len(items) < 2 or len(set(map(str, items))) < len(items):
            raise DataError(f"two different items at least are needed, a column for each; got {shorten(items)}")
        ranks = np.column_stack([columns.numbers_or_nan(name, what) for name in named])
        # The higher rating is the better rank.
        ranks = _without_codes(columns, roles, ranks, list(named), len(named)) if roles.item_ranks else -ranks
        ranked = [np.flatnonzero(~np.isnan(row)).tolist() for row in ranks]
        return [Shown(row, [items[i] for i in own], own, ranks[row, own]) for row, own in enumerate(ranked)]
    if roles.ranking:
        rows = _rows_of_items(columns, roles.ranking)
        _warn_of_ranks(rows, roles.ranking)
        rows = _without_nobody(columns, roles, rows)
        places = [[place for place, item in enumerate(row) if item is not None] for row in rows]
        return [
            Shown(row, [rows[row][place] for place in own], own, np.arange(1.0, len(own) + 1.0))
            for row, own in enumerate(places)
        ]
    cells, codes = columns.cells(roles.rank), set(map(as_text, roles.unranked or ()))
    ranks = np.array([number(columns.with_point(cell)) for cell in cells])
    absent = [row for row in np.flatnonzero(np.isnan(ranks)).tolist() if as_text(cells[row]) not in codes]
    if absent:
        advice = "Write a number larger than the other ranks, or leave the item out of this ranking"
        what = f"expected a rank, which is a number; got {shorten(cells[absent[0]])}"
        raise columns.missing(f"{what}. {advice}", absent, roles.rank)
    items, members = item_of_rows(columns, roles.item), members_of(columns, roles)
    ranks = _without_codes(columns, roles, ranks[:, None], [roles.rank], max(map(len, members.values())))[:, 0]
    kept = [(rows[0], [row for row in rows if not np.isnan(ranks[row])]) for rows in members.values()]
    return [Shown(first, [items[row] for row in own], own, ranks[own]) for first, own in kept]


def _without_codes(columns: Columns, roles: Roles, ranks: Array, names: Sequence[Any], most: int) -> Array:
    """Return ranks (n, k) with NaN for codes of "not ranked"; ask where a number may be one: 0, -1, 99 of 5 items."""
    if roles.unranked is not None:
        return np.where(np.isin(ranks, list(map(number, roles.unranked))), np.nan, ranks)
    for name, values in zip(names, ranks.T, strict=True):
        high = values > most
        if roles.task and np.mean(high) <= 0.5:  # the rest of a race may be elsewhere; a code is often, behind a gap
            top = values == values.max()
            high &= top & (np.sum(top) > 1) & (values.max() - 1.0 not in values)
        odd = np.flatnonzero((values <= 0.0) | high)
        if odd.size:
            row, value = int(odd[0]), float(values[odd[0]])
            what = f"{value:g} is no rank of {most} items, which are from 1 (the best) to {most}"
            advice = f"If the item was not ranked, unranked=[{value:g}] says so; if it is a rank, unranked=[]"
            raise columns.fault(f"{what}. {advice}; if higher is better, these are ratings", row, name)
    return ranks


def _without_nobody(columns: Columns, roles: Roles, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows of items with None for codes of "no item"; ask where a cell may be one: 0 of numbers, undervote."""
    first: dict[str, tuple[int, Any]] = {}
    for row, cells in enumerate(rows):
        for name, cell in zip(roles.ranking, cells, strict=True):
            if cell is not None:
                first.setdefault(as_text(cell), (row, name))
    low = {text for text in first if number(text) <= 0.0} if all(map(is_number, first)) else set()
    odd = next((text for text in first if text in low or text.lower() in _NOBODY), None)
    if roles.unranked is None and odd is not None:
        cell = shorten(columns.cells(first[odd][1])[first[odd][0]])
        advice = f"then unranked=[{cell}] says so; if it is an item, unranked=[]"
        raise columns.fault(f"{cell} may mean that no item was named: {advice}", *first[odd])
    codes = set(map(as_text, roles.unranked or ()))
    return [tuple(None if as_text(cell) in codes else cell for cell in row) for row in rows] if codes else rows


def _warn_of_ranks(rows: list[tuple[Any, ...]], names: Sequence[Any]) -> None:
    """Warn if the cells of columns of items look like ranks."""
    wanted = {str(place) for place in range(1, len(names) + 1)}
    if len(set(rows)) > 1 and all({str(cell).removesuffix(".0") for cell in row} == wanted for row in rows):
        what = f"The cells of {shorten(list(names))} are 1 to {len(names)} in every row"
        warn(f"{what}. If each column is an item and its cells are ranks, pass item_ranks=[...], not columns.")


def check_distinct(columns: Columns, items: Sequence[Any], row: int) -> None:
    """Refuse an item that a choice or a ranking has twice; profiles of features may be equal."""
    shown = [item for item in items if item is not None]
    if PROFILE not in columns.values and len(set(shown)) < len(shown):
        twice = shorten(next(item for item in shown if shown.count(item) > 1))
        tells = "if these are different items, name the columns that tell them apart"
        raise columns.fault(f"item {twice} occurs twice in one choice or ranking; {tells}", row)
