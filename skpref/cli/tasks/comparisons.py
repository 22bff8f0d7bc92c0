"""Files of comparisons, choices and rankings."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from skpref._typing import AnyArray, Array
from skpref.cli.files import USERS, complete_rows, read_sheet, say_left_out, say_note
from skpref.cli.ids import read_table, unknown_id
from skpref.cli.options import Data, Text
from skpref.cli.tasks.base import Rows, Task, check_size, read_data, read_splits
from skpref.cli.tasks.compared import Compared, make_task
from skpref.cli.tasks.layouts import (
    notes_on_answers,
    notes_on_columns,
    notes_on_covariate,
    notes_on_sides,
    roles_of,
    saved_columns,
    say_doubts,
    with_long_rows,
    with_plain_items,
)
from skpref.data import Table
from skpref.data.choices import NONE, OPTION, with_profiles
from skpref.data.ids import objects
from skpref.data.roles import ReadRows, Roles, reading_of_all
from skpref.data.roles import read as read_roles
from skpref.data.times import to_cells
from skpref.gp.entities import as_team, players_of

if TYPE_CHECKING:
    from skpref.data.columns import Columns

_USERS_FILE = (
    "A file of users has numeric features and a column of ids: {name}, as in the data, or one such as user or person"
)


def read(options: Data) -> Task:
    """Read the files of a job."""
    if options.data is None:
        return make_task(read_travellers(), options.seed)
    sheet, asked = read_data(options), options
    if options.has_wide_features:
        sheet, options = with_long_rows(sheet, options)
    roles = roles_of(sheet, options)
    data = replace(_read(options, sheet, roles), columns=saved_columns(sheet, asked, roles))
    return make_task(data, options.seed)


def _read(options: Data, sheet: Columns, roles: Roles) -> Compared:
    """Read and check a file of comparisons, choices or rankings, and the files of items and users."""

    def read_part(part: Columns) -> tuple[Any, ...]:
        plain, own, profiles = part, roles, None
        if roles.features:
            option = OPTION if OPTION in part.values else None
            plain, own, profiles = with_profiles(part, roles, roles.features, options.none, option)
        elif roles.several and not roles.task:
            plain = with_plain_items(part, (*roles.offered, *roles.ranking), (roles.chosen, roles.worst))
        return part, read_roles(plain, own, None), profiles, *read_splits(part, options)

    kept, rows, items, groups, time = complete_rows(sheet, read_part, options.missing)
    reading, users, group = reading_of_all(rows.read_, sheet, kept), None, options.group
    reading = replace(reading, unused=tuple(name for name in reading.unused if name != OPTION))
    if options.items is not None:
        items, rows = _read_table(options, "item", options.id or "id", kept, rows, roles)
    if options.users is not None:
        users, rows = _read_table(options, "user", roles.user, kept, rows, roles)
    _refuse_constant(sheet, options, items, rows, roles)
    shown, noun = np.concatenate(rows.items), "choices or rankings" if roles.several else "comparisons"
    is_of_teams = isinstance(roles.left, tuple)
    shown = players_of(shown) if is_of_teams else shown
    ids = {"item": shown[shown != None], "user": rows.user}  # noqa: E711 - for each cell
    ids["group"] = np.array([*map(list, rows.groups)], dtype=object)
    doubts = [] if roles.several or is_of_teams else notes_on_sides(roles.sides, *rows.items)
    say_doubts(sheet, [*doubts, *notes_on_columns(ids), *notes_on_answers(kept, roles, options.none)])
    check_size(sheet, rows.weight.size, noun, options)
    # Users with two games or tasks on average: one can be held out, and one learnt from.
    have_two = rows.user is None or len(set(rows.unit.tolist())) >= 2 * len(set(rows.user.tolist()))
    if groups is not None:
        groups = groups[rows.origin]
    elif have_two and np.unique(rows.unit).size < rows.unit.size:
        groups = rows.unit.astype(object)  # answers about one game share their noise
    elif roles.several and time is None and not have_two:
        groups, group = rows.user, roles.user
    found = _rows(rows, groups, None if time is None else time[rows.origin], options.seed)
    has_sides = not (roles.several or rows.y is None or (found.y == found.y[0]).all())  # winners may stand first
    more: dict[str, Any] = {"covariates": options.covariates or (), "n_shown": len(rows.items), "reading": str(reading)}
    source = " + ".join(str(file) for file in options.sources if file is not None)
    return Compared(found, items, source, roles, users, group, has_sides, **more)


def _read_table(
    options: Data, noun: str, column: str, sheet: Columns, rows: ReadRows, roles: Roles
) -> tuple[Table, ReadRows]:
    """Return the table of items or users, and rows without incomplete ones; refuse ids that it does not have."""
    table, incomplete = _read_own_table(options, noun, column)
    of_rows = zip(*_ids(rows, noun), strict=True)
    kept = np.array([all(map(incomplete.isdisjoint, map(as_team, own))) for own in of_rows], dtype=bool)
    say_left_out(int(np.sum(~kept)), "task" if roles.several else "comparison", "", f"of {noun}s without features")
    rows, path = rows.take(kept), options.items if noun == "item" else options.users
    for cells, name in zip_longest(_ids(rows, noun), roles.sides if noun == "item" else (roles.user,)):
        pairs = [(row, own) for row, cell in zip(rows.origin, cells, strict=True) for own in as_team(cell) if own]
        ids, here = objects([own for _, own in pairs]), [row for row, _ in pairs]
        column_or_team = ",".join(name) if isinstance(name, tuple) else name
        problem = unknown_id(sheet, ids, table.ids.tolist(), noun, column_or_team, here, f", not in {path}")
        if problem is not None:
            raise problem
    return table, rows


def _ids(rows: ReadRows, noun: str) -> tuple[Any, ...]:
    return rows.items if noun == "item" else (rows.user,)


def _read_own_table(options: Data, noun: str, column: str) -> tuple[Table, set[Any]]:
    """Return the features of items or users, and the ids of the rows that were left out."""
    path = options.items if noun == "item" else options.users
    sheet = read_sheet(cast("Path", path), Text(encoding=options.encoding, decimal=options.decimal))
    purpose, names = "", ["id"]
    if noun == "user":
        purpose, names = _USERS_FILE.format(name=column), [column, "id", *USERS]
    if column not in sheet.values and (noun == "user" or options.id is None):
        column = sheet.usual(*names)
        if column in sheet.values and column not in names[:2]:
            say_note(f"{path}: {noun}s from {column!r}")
    table = complete_rows(sheet, lambda part: read_table(part, column, noun, purpose=purpose), options.missing)
    named = sheet.take([row for row, text in enumerate(sheet.texts(column)) if text])
    return table, set(named.ids(column, noun).tolist()) - set(table.ids.tolist())


def _refuse_constant(sheet: Columns, options: Data, items: Table | None, rows: ReadRows, roles: Roles) -> None:
    """Refuse attributes and covariates without an effect to learn, and note covariates that are never negative."""
    if roles.features and items is not None and items.feature_names is not None:
        is_none = (names := np.array(items.feature_names)) == NONE
        products = items.features[~items.features[:, is_none].any(axis=1)]
        for name in names[(np.ptp(products, axis=0) == 0.0) & ~is_none].tolist()[:1]:
            what = f"all items shown have the same {name.partition('=')[0]!r}: it has no effect to learn"
            raise sheet.fault(f"{what}; leave it out of --features")
    if rows.covariates is None or not rows.weight.size:
        return
    C, shown = rows.covariates, np.column_stack(rows.items)
    if roles.several:
        C = np.where((shown == None)[:, None], np.nan, C.reshape(len(shown), -1, shown.shape[1]))  # noqa: E711
        spread = (np.nanmax(C, axis=2) - np.nanmin(C, axis=2)).max(axis=0)
    else:
        spread = np.ptp(C, axis=0)
    for k, (name, term) in enumerate(zip(options.covariates or (), roles.covariates, strict=True)):
        if spread[k] == 0.0:
            what = "the same for all items of each row" if roles.several else f"{C[0, k]:g} in every row"
            raise sheet.fault(f"covariate {name!r} is {what}: it has no effect to learn")
        say_doubts(sheet, [] if isinstance(term, tuple) else notes_on_covariate(sheet, name, C[:, k]))


def _rows(rows: ReadRows, groups: AnyArray | None, time: Array | None, seed: int) -> Rows:
    """Return comparisons as the estimator takes them; without sides, those of random rows are exchanged."""
    items, y, C = rows.items, rows.y, rows.covariates
    if y is None:  # with the winner always on the left, calibration would see ones only
        swap = np.random.default_rng(seed).random(rows.weight.size) < 0.5
        items, y = tuple(np.where(swap, *pair) for pair in (items[::-1], items)), np.where(swap, 0.0, 1.0)
        C = None if C is None else np.where(swap[:, None], -C, C)
    ids = items if rows.user is None else (rows.user, *items)
    moved = [] if rows.time is None else [to_cells(rows.time, is_dated=rows.is_dated)]
    X = np.column_stack([*ids, *([] if C is None else [C.astype(object)]), *rows.groups, *moved])
    return Rows(X, y, rows.weight, groups, time)


def read_travellers() -> Compared:
    """Return the choices of 210 travellers among air, train, bus and car.

    The waiting time is left out: for the modes not taken the data hold constants (69 or 64 minutes for air, 34 or 44
    for the train, 35 or 53 for the bus), which no traveller who took them reports, so that it gives the answer away.
    """
    from skpref.datasets import load_modechoice

    data = load_modechoice()
    keep = [column for column, name in enumerate(data.feature_names) if name != "ttme"]
    names = tuple(data.feature_names[column] for column in keep)
    items = Table(np.asarray(data.table.features)[:, keep], data.table.ids, feature_names=names)
    modes = np.array([str(name).partition(":")[2] for name in items.ids])
    kinds = np.unique(modes)
    means = np.vstack([items.features[modes == kind].mean(axis=0) for kind in kinds])
    profiles = Table(means, np.array([f"average {kind}" for kind in kinds], dtype=object), feature_names=names)
    rows, roles = Rows(data.X, data.y, np.ones(data.y.size)), Roles(offered=tuple(kinds), chosen="mode taken")
    shown = {"has_sides": False, "n_shown": data.X.shape[1]}
    return Compared(rows, items, "modechoice (statsmodels)", roles, profiles=profiles, **shown)
