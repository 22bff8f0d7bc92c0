"""Tables of choices and rankings as people keep them, read as tasks."""

from __future__ import annotations

import re
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from skpref._math.limits import LARGEST
from skpref._text import is_number, number
from skpref._typing import AnyArray, Array, BoolArray
from skpref._validation import is_missing
from skpref._warn import warn
from skpref.data.columns import NO_ROWS, TRUTH, Columns, MissingCellError, as_text
from skpref.data.ids import shorten
from skpref.data.levels import stated_order
from skpref.data.policy import POLICY
from skpref.data.roles import Roles
from skpref.data.stored import whole_table
from skpref.data.tables import Table
from skpref.data.task_tables import (
    PROFILE,
    Shown,
    choices_of,
    item_of_rows,
    members_of,
    padded,
    positions_of,
    rankings_of,
)
from skpref.exceptions import DataError

NONE = "none"  # feature, or id, of the answer that chooses none of the others
_PRICE = re.compile(r"[$€£¥]?\s*[+-]?\d+([.,]\d+)*\s*([$€£¥%]|EUR|USD|GBP)?")
# Names of columns that are made here: rows of a wide table, and its option none.
TASK, OPTION = "row of the wide table", "option none of the wide table"
_AVAILABLE = re.compile(r"(.*[_. ])?av(ail(able|ability)?)?([_. ].*|\d*)", re.IGNORECASE)


class TaskRows(NamedTuple):
    """Arguments of `CrowdGPPL` and its `fit`: tasks, answers and items.

    Parameters
    ----------
    X : ndarray of shape (n, 1 + K), dtype object
        Who was asked, and the ids of the items shown; None at the end where there are fewer than K.
    y : ndarray of shape (n,), (n, 2) or (n, K)
        Ids of the items chosen; of the best and the worst one; or ranks, NaN where an item has none. Where such ids may
        be labels of comparisons, as numbers may, 1 for the item chosen and 2 for the others.
    items : Table, or None
        Features of the items, which are the different profiles; None where no features were named.

    Examples
    --------
    >>> from skpref.data import from_tasks
    >>> shown = {"task": [1, 1, 2, 2], "person": ["ann"] * 4, "item": ["x", "y", "y", "z"]}
    >>> shown["chosen"] = [1, 0, 1, 0]
    >>> from_tasks(shown, item="item").X.tolist()
    [['ann', 'x', 'y'], ['ann', 'y', 'z']]
    """

    X: AnyArray
    y: AnyArray
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
    features: Sequence[str] | Mapping[str, Sequence[str]] = (),
    none: Hashable | None = None,
) -> TaskRows:
    """Read choices among alternatives with attributes, as conjoint studies keep them, in a long or a wide table.

    A long table has one row for each alternative of each task; a wide one has one row for each task.

    Parameters
    ----------
    frame : data frame of pandas or polars, pyarrow Table, dict of str to sequence, or path to Parquet files
        Rows of a task need not be together, nor in one file. Up to five million rows of files are brought into memory.
        Alternatives that were not available have no rows; of a column such as "avail" there is a warning.
    task : str or sequence of str, default="task"
        Column that tells the tasks apart. Each user has tasks of the user's own, which may have the same numbers.
    user : str, default="person"
        Column of who was asked.
    chosen : str, default="chosen"
        Column that is 1 for the alternative that was chosen, or was the best, and 0 for the others. In a wide table,
        the position of that alternative, from 1, or its letter. None: see `rank`, or the worst one alone is known.
    worst : str, default=None
        The same of the worst alternative, in best-worst scaling (MaxDiff).
    rank : str, default=None
        Column of ranks, 1 the best; empty where an alternative has none. Then `chosen` is not read.
    item : str, default=None
        Column of the ids of the alternatives, if they have ids and no features.
    features : sequence of str, or dict of str to sequence of str, default=()
        Columns of attributes. A dict says that the table is wide, and names the columns of each attribute, one for each
        position: ``{"price": ["price_1", "price_2"]}``; an alternative whose cells are all empty was not shown. Numbers
        are one feature each, text such as "2" too. Words, and all cells of a column of categories, are levels, and each
        level is a feature, "brand=x", which is 1 where an alternative has it. Make codes of levels a column of
        categories, or words such as "brand 2".
    none : hashable, default=None
        What stands in one of the `features`, or in `item`, where the alternative is to choose none of the others; a
        number is looked for in `item` alone. This option has the feature "none" and no other. Without `features`, it is
        an item as any other. In a wide table, what stands in `chosen` where none was chosen, an option of each task.

    Returns
    -------
    TaskRows
        X, y and items: ``CrowdGPPL(items).fit(X, y)``. Equal profiles are one item, also within a task, where `y` then
        names the first of them.

    Raises
    ------
    DataError
        If a column is missing, a task has no or several chosen alternatives, a feature is empty, mixes numbers and
        words, or is a column of tasks, users or answers, or `none` stands nowhere.

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
    columns = Columns.of(whole_table(frame), leave_out="leave such tasks out of the table")
    if not columns.size:
        raise DataError(NO_ROWS.format("frame", "rows"))
    names, attributes, is_wide = _listed(task, "task"), _listed(features, "features"), isinstance(features, Mapping)
    answers = [name for name in (chosen if rank is None else rank, worst) if name is not None]
    if is_wide and (item is not None or rank is not None):
        raise DataError("a wide table, which features={...} names, has chosen=..., and neither item nor rank")
    if not names or user is None or not (attributes or item is not None or is_wide):
        raise DataError("from_tasks needs task=..., user=..., and features=[...] or, of ids alone, item=...")
    if not answers or (rank is not None and worst is not None):
        raise DataError("from_tasks needs chosen=..., what was chosen, perhaps with worst=..., or rank=...")
    if none is not None and not (attributes or is_wide):
        raise DataError("none=... belongs to features=[...]; without them, the option none is an item as any other")
    given, used = columns, [*names, user, *answers, item, *attributes]
    if isinstance(features, Mapping):
        features = {name: _listed(own, "features") for name, own in features.items()}
        used += chain.from_iterable(features.values())
        columns, names, item = long_table(columns, (user,), features, answers, none), (TASK,), OPTION
    _refuse_other_meaning(columns, attributes, (*names, user, *answers))
    _warn_unavailable(given, used)
    table = None
    roles = Roles(task=names, user=user, chosen=None if rank else chosen, worst=worst, item=(item,))
    if attributes:
        columns, roles, table = with_profiles(columns, roles, attributes, none, item)
    found = choices_of(columns, roles) if rank is None else rankings_of(columns, roles, _ranked(columns, roles, rank))
    who = columns.ids(user, "user")[[task.row for task in found.tasks]]
    return TaskRows(padded(who, [task.items for task in found.tasks]), found.y, table)


def _listed(names: Any, parameter: str) -> tuple[Any, ...]:
    """Return names of columns as a tuple."""
    if isinstance(names, str | Integral):
        return (names,)
    if not isinstance(names, Iterable):
        raise DataError(f"{parameter} must be a column or a list of columns; got {shorten(names)}")
    return tuple(names)


def _refuse_other_meaning(columns: Columns, features: Sequence[Any], others: Sequence[Any]) -> None:
    """Refuse a feature that is a column of something else, or is named twice, and other columns that are missing."""
    for name in others:
        columns.column(name)
    taken = next((name for name in features if name in others or features.count(name) > 1), None)
    if taken is not None:
        what = "is a column of tasks, users or answers" if taken in others else "is named twice"
        raise columns.fault(f"this {what}, and cannot be a feature", None, taken)


def _warn_unavailable(columns: Columns, used: Container[Any]) -> None:
    """Warn of a column that is not read, and may say that alternatives were not shown."""
    for name in columns.names:
        if name not in used and _AVAILABLE.fullmatch(str(name)):
            flags = {cell.lower() for cell in columns.texts(name)}
            if flags & {"0", "false"} and flags <= {"0", "1", *TRUTH}:
                what = f"column {name!r} is not read: alternatives for which it is 0 count as shown"
                warn(f"{what}. Leave out such rows of a long table, or empty the cells of attributes in a wide one.")
                return


def _ranked(columns: Columns, roles: Roles, rank: str) -> list[Shown]:
    """Return tasks with ranks, NaN where an alternative has none."""
    ranks, items = columns.numbers_or_nan(rank, "a rank"), item_of_rows(columns, roles.item)
    for row in np.flatnonzero(ranks < 1.0)[:1].tolist():
        raise columns.fault(f"{ranks[row]:g} is no rank; ranks are from 1, the best", row, rank)
    members = members_of(columns, roles)
    for task, rows in members.items():
        if np.isnan(ranks[rows]).all():
            raise columns.missing(f"no row of task {task[:80]} has a rank", rows, rank)
    return [Shown(rows[0], [items[row] for row in rows], rows, ranks[rows]) for rows in members.values()]


def with_profiles(
    columns: Columns, roles: Roles, attributes: Sequence[Any], none: Any = None, item: Any = None
) -> tuple[Columns, Roles, Table]:
    """Return a long table with a column of profiles, which are the items, the roles, and the features of profiles."""
    texts, table = _profiles(columns, tuple(attributes), item, none, roles)
    columns = replace(columns, values={**columns.values, PROFILE: texts})
    return columns, replace(roles, item=(PROFILE,), features=tuple(attributes)), table


def long_table(
    columns: Columns, once: Sequence[Any], features: Mapping[str, Sequence[str]], answers: Sequence[str], none: Any
) -> Columns:
    """Return a wide table with a row for each alternative, and one more where none of the others may be chosen."""
    features = {name: _listed(own, "features") for name, own in features.items()}
    sizes = {len(own) for own in features.values()}
    if len(sizes) != 1 or min(sizes) < 2:
        got = shorten({name: len(own) for name, own in features.items()})
        raise DataError(f"features={{...}} has two columns or more of each attribute, and as many of each; got {got}")
    K, positions, used = sizes.pop(), next(iter(features.values())), [c for own in features.values() for c in own]
    columns.require((*once, *answers, *used))
    _refuse_other_meaning(columns, used, (*once, *answers))
    coded = next((name for name in used if stated_order(columns.column(name))[1]), None)
    if coded is not None:
        raise columns.fault("a wide table has words for levels: make these categories words", None, coded)
    if none is not None and positions_of([none], positions) != [None]:
        raise DataError(f"none={shorten(none)} is also the position of an alternative: write another word for none")
    cells = {name: list(zip(*map(columns.cells, own), strict=True)) for name, own in features.items()}
    rows = [
        (row, k)
        for row in range(columns.size)
        for k in range(K + (none is not None))
        if k == K or any(column[row][k] is not None for column in cells.values())
    ]
    values: dict[Any, Any] = {TASK: [row for row, _ in rows], OPTION: [none if k == K else None for _, k in rows]}
    values |= {name: [None if k == K else column[row][k] for row, k in rows] for name, column in cells.items()}
    for name in once:
        column = columns.cells(name)
        values[name] = [column[row] for row, _ in rows]
    shown = set(rows)
    for name in answers:
        given = columns.cells(name)
        columns.refuse_empty("the choice is missing", (cell is None for cell in given), name)
        named = [row for row, cell in enumerate(given) if none is None or as_text(cell) != as_text(none)]
        place = dict(zip(named, positions_of([given[row] for row in named], positions), strict=True))
        wrong = next((row for row in named if (row, place[row]) not in shown), None)
        if wrong is not None:
            hint = "" if none is not None else "; if positions start at 0, add 1; if none was chosen, none=... says so"
            what = f"expected the position of an alternative that was shown, 1 to {K}, or its letter"
            raise columns.fault(f"{what}; got {shorten(given[wrong])}{hint}", wrong, name)
        values[name] = [float(k == place.get(row, K)) for row, k in rows]
    lines = [columns.lines[row] for row, _ in rows]
    return replace(columns, values=values, lines=lines, leave_out=f"fill it in, or leave its {columns.unit} out")


# ------------------------------------------------------------------------------------------------------------- features
def _profiles(columns: Columns, names: tuple[Any, ...], item: Any, none: Any, roles: Roles) -> tuple[list[str], Table]:
    """Return the id of each row's profile, and a table of the profiles."""
    # A number in a column of attributes may be one of them.
    searched = [*([] if is_number(none) else names), *([] if item is None else [item])]
    is_none = np.zeros(columns.size, dtype=bool)
    for name in searched if none is not None else ():
        is_none |= [cell == none for cell in columns.cells(name)]
    if none is not None and not is_none.any():
        what = f"stands in no cell of {', '.join(map(str, searched))}" if searched else "is a number, as attributes are"
        raise DataError(f"none={shorten(none)} {what}; write a word such as none in the attributes of this answer")
    try:
        encoded = [_encoded(columns, name, is_none) for name in names]
    except MissingCellError:
        _refuse_blank_none(columns, names, members_of(columns, roles), is_none)
        raise
    X = np.where(is_none[:, None], 0.0, np.hstack([block for block, _, _ in encoded]))
    titles = [title for _, own, _ in encoded for title in own]
    texts = zip(*(own for _, _, own in encoded), strict=True)
    if none is not None:
        X, titles = np.column_stack([X, is_none]), [*titles, NONE]
    if len(set(titles)) < len(titles):
        twice = next(title for title in titles if titles.count(title) > 1)
        raise DataError(f"two features would be named {twice!r}; rename a column")
    keys = ((NONE,) if skip else parts for skip, parts in zip(is_none, texts, strict=True))
    known, ids, first = dict[tuple[str, ...], str](), list[str](), dict[str, int]()
    for row, key in enumerate(keys):
        if key not in known:
            known[key] = text = ", ".join(key)
            if first.setdefault(text, row) != row:
                raise DataError(f"two different profiles would have the id {text!r}; write levels without commas")
        ids.append(known[key])
    return ids, Table(X[list(first.values())], ids=list(first), feature_names=titles)


def _refuse_blank_none(
    columns: Columns, names: tuple[Any, ...], members: Mapping[str, list[int]], is_none: BoolArray
) -> None:
    """Refuse tables in which one alternative of each task has no attributes: it may be to choose none."""
    rows_of_cells = zip(*(columns.cells(name) for name in names), strict=True)
    blank = np.array([not any(map(as_text, cells)) for cells in rows_of_cells]) & ~is_none
    if all(blank[rows].sum() == 1 for rows in members.values()):
        what = "one alternative of each task has no attributes; if it is to choose none, write none in these cells"
        raise columns.fault(f"{what}, and give this word as none", int(np.argmax(blank)), names[0])


def _encoded(columns: Columns, name: Any, is_none: BoolArray) -> tuple[Array, list[str], list[str]]:
    """Return an attribute as features, their names, and as texts of rows; it is a number, or has levels."""
    cells, given = columns.cells(name), np.flatnonzero(~is_none).tolist()
    texts = [as_text(cell) for cell in cells]
    empty = [row for row in given if not texts[row]]
    if empty:
        raise columns.missing("an attribute is missing", empty, name)
    are_levels = stated_order(columns.column(name))[1]  # categories, which may be called 1 and 2
    words = given if are_levels else [row for row in given if not is_number(cells[row])]
    if not words:
        values = np.zeros(len(cells))
        values[given] = columns.numbers_at(name, given, "an attribute") + 0.0  # no -0
        codes = set(values.tolist()) - {0.0}
        if 3 <= len(codes) <= len(given) / POLICY.many_rows and codes == set(range(1, len(codes) + 1)):
            what = f"column {name!r} has the numbers {values[given].min():g} to {len(codes)}, and is read as a number"
            warn(f"{what}. If they are codes of levels, make it categories, or write words such as 'level 1'.")
        numbered = {value: f"{name}={value!r}".removesuffix(".0") for value in set(values.tolist())}
        return values[:, None], [str(name)], [numbered[value] for value in values.tolist()]
    if len(words) < len(given):
        other = cells[next(row for row in given if is_number(cells[row]))]
        what = f"{shorten(cells[words[0]])} is no number, and {shorten(other)} is one"
        raise columns.fault(f"{what}: an attribute has numbers, or words only, such as 'size 2'", words[0], name)
    if not are_levels and all(_PRICE.fullmatch(texts[row]) for row in given):
        what = f"{shorten(cells[words[0]])} has two readings: a number, or the name of a level"
        raise columns.fault(f"{what}. Write numbers without signs, or levels as words", words[0], name)
    levels = sorted({texts[row] for row in given})
    block = (np.array(texts)[:, None] == np.array(levels)).astype(np.float64)
    named = {text: f"{name}={text}" for text in {*texts}}
    return block, [named[level] for level in levels], [named[text] for text in texts]


def encode_profile(names: Sequence[str], profile: Mapping[Any, Any], where: str) -> Array:
    """Return the features of a product that is described by its attributes or features, shape (n_features,)."""
    given: dict[str, float] = {}
    for name, value in profile.items():
        own = _features_of(names, name, value, where)
        if given.keys() & own.keys():
            raise DataError(f"{where}: the attribute {name.partition('=')[0]!r} is given twice")
        given |= own
    row = np.array([given.get(name, 0.0) for name in names])
    if given.get(NONE):
        if np.count_nonzero(row) > 1:
            raise DataError(f"{where}: 'none' is 1, so the product is to choose none, and has no attributes")
        return row
    lacking = [name.partition("=")[0] for name in names if name not in given and name != NONE]
    if lacking:
        raise DataError(f"{where}: the attribute {lacking[0]!r} is missing; the model has {_attributes(names)}")
    return row


def _features_of(names: Sequence[str], attribute: Any, value: Any, where: str) -> dict[str, float]:
    """Return the features that an attribute of a product sets, none where its value is missing."""
    levels = [name for name in names if "=" in name and name.partition("=")[0] == attribute]
    if not levels and attribute not in names:
        known = _attributes(names)
        raise DataError(f"{where}: {shorten(attribute)} is no attribute of the model, which has {known}")
    if is_missing(value):
        return {}
    if attribute in names:
        if not abs(number(value)) <= LARGEST or (attribute == NONE and number(value) not in {0.0, 1.0}):
            wanted = "0 or 1" if attribute == NONE else f"a number of at most {LARGEST:g}"
            raise DataError(f"{where}: {attribute!r} must be {wanted}; got {shorten(value)}")
        return {attribute: number(value)}
    chosen = f"{attribute}={as_text(value)}"
    if chosen not in levels:
        known = shorten([level.partition("=")[2] for level in levels])
        raise DataError(f"{where}: {chosen!r} is no level that fit has seen; those of {attribute} are {known}")
    return {level: float(level == chosen) for level in levels}


def _attributes(names: Sequence[str]) -> str:
    """Return the attributes of features, for messages."""
    return shorten(list(dict.fromkeys(name.partition("=")[0] for name in names)))
