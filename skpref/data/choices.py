"""Tables of choices and rankings as people keep them, read as tasks: a row for each, unbroken."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._text import is_number
from skpref.data.columns import Columns, as_text, complete
from skpref.data.ids import shorten
from skpref.data.roles import (
    Ranking,
    Roles,
    check_distinct,
    members_of,
    menus_of,
    ranked_of,
    rated_of,
    reading_of,
    reading_of_all,
    tasks_of,
    weights_of,
)
from skpref.data.tables import Table
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from skpref._typing import Array
    from skpref.data.roles import Missing, Reading

__all__ = ["TaskRows", "encode_profile", "from_tasks", "read_unbroken"]

_PROFILE = object()  # name of the column of texts of profiles


class TaskRows(NamedTuple):
    """Arguments of `CrowdGPPL` and its `fit`: tasks, answers and items.

    Parameters
    ----------
    X : ndarray of shape (n, 1 + K), dtype object
        Who was asked, and the ids of the items shown; None at the end where there are fewer than K.
    y : ndarray of shape (n,), (n, 2) or (n, K)
        Ids of the items chosen; of the best and the worst one; or ranks, NaN where an item has none.
    items : Table, or None
        Features of the items, which are the different profiles; None where no features were named.

    Examples
    --------
    >>> from skpref.data import from_tasks
    >>> shown = {"task": [1, 1, 2, 2], "person": ["ann"] * 4, "item": ["x", "y", "y", "z"], "chosen": [1, 0, 1, 0]}
    >>> from_tasks(shown, item="item").X.tolist()
    [['ann', 'x', 'y'], ['ann', 'y', 'z']]
    """

    X: NDArray[Any]
    y: NDArray[Any]
    items: Table | None


def from_tasks(
    frame: Any,
    *,
    task: str | Sequence[str] = "task",
    user: str = "person",
    chosen: str | None = "chosen",
    worst: str | None = None,
    rank: str | None = None,
    item: str | None = None,
    features: Sequence[str] = (),
    none: Hashable | None = None,
) -> TaskRows:
    """Read a long table of choices, as conjoint studies and discrete choice experiments keep them: a row an alternative.

    Parameters
    ----------
    frame : data frame of pandas or polars, pyarrow Table, or dict of str to sequence
        One row for each alternative of each task; rows of a task need not be together.
    task : str or sequence of str, default="task"
        Column that tells the tasks apart. Each user has tasks of the user's own, which may have the same numbers.
    user : str, default="person"
        Column of who was asked.
    chosen : str, default="chosen"
        Column that is 1 for the alternative that was chosen, or was the best, and 0 for the others. None: see `rank`.
    worst : str, default=None
        Column that is 1 for the worst alternative, in best-worst scaling (MaxDiff).
    rank : str, default=None
        Column of ranks, 1 the best; empty where an alternative has none. Then `chosen` is not read.
    item : str, default=None
        Column of the ids of the alternatives, if they have ids and no features.
    features : sequence of str, default=()
        Columns of attributes. Numbers are one feature each. Words are levels, and each level is a feature, "brand=x",
        which is 1 where an alternative has it: write codes of levels as words. Part-worths of levels then say how far
        each is from the others.
    none : hashable, default=None
        What stands in `item`, or in one of the `features`, where the alternative is to choose none of the others. It has
        the feature "none" and no other.

    Returns
    -------
    TaskRows
        X, y and items: ``CrowdGPPL(items).fit(X, y)``.

    Raises
    ------
    DataError
        If a column is missing, a task has no or several chosen alternatives, or a feature is empty.

    Examples
    --------
    >>> from skpref.data import from_tasks
    >>> shown = {
    ...     "task": [1, 1, 1, 2, 2, 2],
    ...     "person": ["ann"] * 6,
    ...     "brand": ["x", "y", "none", "x", "y", "none"],
    ...     "price": [3, 2, 0, 2, 3, 0],
    ...     "chosen": [0, 1, 0, 1, 0, 0],
    ... }
    >>> X, y, items = from_tasks(shown, features=["brand", "price"], none="none")
    >>> X[0].tolist(), y.tolist()
    (['ann', 'brand=x, price=3', 'brand=y, price=2', 'none'], ['brand=y, price=2', 'brand=x, price=2'])
    >>> items.feature_names
    ('brand=x', 'brand=y', 'price', 'none')
    """
    columns = Columns.of(frame)
    names = (task,) if isinstance(task, str) else tuple(task)
    if isinstance(features, str) or (not features and item is None):
        raise DataError("from_tasks needs the columns of attributes, features=[...], or of ids, item=...")
    table = None
    roles = Roles(task=names, user=user, chosen=None if rank else chosen, worst=worst, item=(item,))
    if features:
        members = members_of(columns, roles)
        texts, table = _profiles(columns, tuple(features), item, none, members)
        columns = replace(columns, values={**columns.values, _PROFILE: texts})
        roles = replace(roles, item=(_PROFILE,))
    if rank is not None:
        rows, sets, y = _ranks(columns, roles, rank)
    else:
        if chosen is None:
            raise DataError("from_tasks needs the column of what was chosen, or rank=...")
        rows, sets, answers = tasks_of(columns, roles)
        y = np.array(answers, dtype=object).T
        y = y[:, 0] if y.shape[1] == 1 else y
    who = columns.ids(user, "user")
    return TaskRows(_padded([who[row] for row in rows], sets), y, table)


def _ranks(columns: Columns, roles: Roles, rank: str) -> tuple[list[int], list[list[Any]], Array]:
    """Return first rows, items and ranks of tasks."""
    ranks, items = columns.numbers_or_nan(rank, "a rank"), columns.ids(roles.item[0]).tolist()
    members = list(members_of(columns, roles).values())
    y = np.full((len(members), max(map(len, members))), np.nan)
    for number, rows in enumerate(members):
        y[number, : len(rows)] = ranks[rows]
    return [rows[0] for rows in members], [[items[row] for row in rows] for rows in members], y


def _padded(users: Sequence[Any] | None, sets: Sequence[Sequence[Any]]) -> NDArray[Any]:
    """Return users and items of tasks as a table, None behind the last item."""
    first = 0 if users is None else 1
    X = np.full((len(sets), first + max(map(len, sets), default=0)), None, dtype=object)
    for row, items in enumerate(sets):
        X[row, first : first + len(items)] = items
    if users is not None:
        X[:, 0] = users
    return X


# ------------------------------------------------------------------------------------------------------------- features
def _profiles(
    columns: Columns, names: tuple[str, ...], item: str | None, none: Any, members: Mapping[str, list[int]]
) -> tuple[list[str], Table]:
    """Return the id of each row's profile, and a table of the profiles; equal ones in one task have different ids."""
    cells = {name: columns.cells(name) for name in names}
    beside = list(cells.values()) if item is None else [*cells.values(), columns.cells(item)]
    is_none = np.array([none is not None and none in row for row in zip(*beside, strict=True)], dtype=bool)
    blocks, titles, texts = [], [], []
    for name, column in cells.items():
        empty = [row for row, cell in enumerate(column) if cell is None and not is_none[row]]
        if empty:
            raise columns.missing("an attribute is missing", empty, name)
        given = [cell for cell, skip in zip(column, is_none, strict=True) if not skip]
        if all(map(is_number, given)):
            values = np.zeros(len(column))
            values[~is_none] = columns.take(np.flatnonzero(~is_none).tolist()).numbers(name, meaning="an attribute")
            blocks.append(values[:, None])
            titles.append(str(name))
            texts.append([f"{name}={value:.6g}" for value in values])
        else:
            words = [as_text(cell) for cell in column]
            levels = sorted({word for word, skip in zip(words, is_none, strict=True) if not skip})
            blocks.append(np.array([[float(word == level) for level in levels] for word in words]))
            titles += [f"{name}={level}" for level in levels]
            texts.append([f"{name}={word}" for word in words])
    X = np.hstack(blocks)
    X[is_none] = 0.0
    if none is not None:
        X, titles = np.column_stack([X, is_none]), [*titles, "none"]
    ids = [", ".join(parts) for parts in zip(*texts, strict=True)]
    ids = ["none" if skip else text for text, skip in zip(ids, is_none, strict=True)]
    for rows in members.values():
        held: dict[str, int] = {}
        for row in rows:
            held[ids[row]] = count = held.get(ids[row], 0) + 1
            ids[row] += f" ({count})" if count > 1 else ""
    first: dict[str, int] = {}
    for row, text in enumerate(ids):
        first.setdefault(text, row)
    return ids, Table(X[list(first.values())], ids=list(first), feature_names=titles)


def encode_profile(names: Sequence[str], profile: Mapping[str, Any], where: str) -> Array:
    """Return the features of a product that is described by its attributes, shape (n_features,)."""
    place, row, rest = {name: k for k, name in enumerate(names)}, np.zeros(len(names)), dict(profile)
    groups = {name.partition("=")[0] for name in names if "=" in name}
    for name in list(rest):
        if name in place and is_number(rest[name]):
            row[place[name]] = float(rest.pop(name))
        elif name in groups:
            level = f"{name}={as_text(rest.pop(name))}"
            if level not in place:
                known = [other.partition("=")[2] for other in names if other.startswith(f"{name}=")]
                raise DataError(
                    f"{where}: {level!r} is no level that fit has seen; those of {name} are {shorten(known)}"
                )
            row[place[level]] = 1.0
    wanted = {name for name in place if "=" not in name and name != "none"} | groups
    lacking = sorted(wanted - set(profile))
    if rest or (lacking and not row[place["none"]] if "none" in place else lacking):
        wrong = (
            f"{sorted(rest)[0]!r} is no attribute of the model" if rest else f"the attribute {lacking[0]!r} is missing"
        )
        raise DataError(f"{where}: {wrong}, which has {shorten(sorted(wanted))}")
    return row


# ----------------------------------------------------------------------------------------------------------- wide tables
def read_unbroken(table: Any, roles: Roles, missing: Missing) -> tuple[NDArray[Any], NDArray[Any], Array, Reading]:
    """Return tasks, answers, weights and what was read, of a table of choices or rankings."""
    columns = Columns.of(table)
    rows, kept = complete(columns, lambda part: _unbroken(part, roles), missing)
    return (*rows[:3], reading_of_all(rows[3], columns, kept))


def _unbroken(columns: Columns, roles: Roles) -> tuple[NDArray[Any], NDArray[Any], Array, Reading]:
    if roles.item_ratings or roles.ranking or roles.item_ranks or (roles.task and roles.rank is not None):
        rankings = rated_of(columns, roles) if roles.item_ratings else ranked_of(columns, roles)
        rows, sets, y = _of_rankings(columns, roles, rankings)
    else:
        if roles.chosen is None:
            raise DataError("an unbroken choice needs the column of the best item; broken=True reads the worst alone")
        rows, sets, answers = tasks_of(columns, roles) if roles.task else menus_of(columns, roles)
        for row, items, *named in zip(rows, sets, *answers, strict=True):
            check_distinct(columns, items, row)
            if len(set(named)) < len(named):
                raise columns.fault(f"{shorten(named[0])} is both the best and the worst item", row)
        y = np.array(answers, dtype=object).T
        y = y[:, 0] if y.shape[1] == 1 else y
    weight = np.ones(columns.size) if roles.weight is None else weights_of(columns, roles.weight)
    user = None if roles.user is None else columns.ids(roles.user, "user")[list(rows)]
    return _padded(user, sets), y, weight[list(rows)], reading_of(columns, roles.named(), roles.columns())


def _of_rankings(
    columns: Columns, roles: Roles, rankings: list[Ranking]
) -> tuple[list[int], list[list[Any]], NDArray[Any]]:
    """Return rows, items and ranks of rankings; with rest="lost", items that are not named stand behind, unranked."""
    everything = list(dict.fromkeys(item for ranking in rankings for item in ranking.items))
    if roles.item_ranks or roles.item_ratings:
        everything = list((roles.item_ranks or roles.item_ratings).values())
    rows, sets, ranks = [], [], []
    for row, items, own in rankings:
        check_distinct(columns, items, row)
        others = [item for item in everything if item not in set(items)] if roles.rest == "lost" else []
        if len(items) + len(others) > 1 and items:
            rows.append(row)
            sets.append([*items, *others])
            ranks.append(own)
    y = np.full((len(sets), max(map(len, sets), default=0)), np.nan)
    for number, own in enumerate(ranks):
        y[number, : len(own)] = own
    return rows, sets, y
