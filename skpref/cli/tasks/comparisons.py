"""Files of comparisons, choices and rankings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.cli.files import complete_rows, say_left_out
from skpref.cli.tasks.base import Rows, Task, check_size, read_data, read_splits
from skpref.cli.tasks.compared import Compared, make_task, read_own_table, refuse_unknown, source_of
from skpref.cli.tasks.doubts import notes_on_answers, notes_on_columns, notes_on_covariate, notes_on_sides, say_doubts
from skpref.cli.tasks.layouts import roles_of, saved_columns, with_long_rows, with_plain_items
from skpref.data import Table
from skpref.data.choices import NONE, OPTION, with_profiles
from skpref.data.roles import ReadRows, Roles, reading_of_all
from skpref.data.roles import read as read_roles
from skpref.data.task_tables import read_tasks
from skpref.data.times import read_times, to_cells

if TYPE_CHECKING:
    from skpref._typing import AnyArray, Array, IntArray
    from skpref.cli.options import Data
    from skpref.data.columns import Columns


def read(options: Data) -> Task:
    """Read the files of a job."""
    if options.data is None:
        return make_task(read_travellers(), options.seed)
    sheet, asked = read_data(options), options
    if options.has_wide_features:
        sheet, options = with_long_rows(sheet, options)
    roles = roles_of(sheet, options)
    data = (_read_choices if roles.several else _read_comparisons)(options, sheet, roles)
    data = replace(data, covariates=options.covariates or (), columns=saved_columns(sheet, asked, roles))
    return make_task(data, options.seed)


def _read_comparisons(options: Data, sheet: Columns, roles: Roles) -> Compared:
    """Read and check a file of comparisons, and the files of items and users."""

    def read_part(part: Columns) -> tuple[Any, ...]:
        return part, read_roles(part, roles, None), *read_splits(part, options)

    kept, read_rows, groups, time = complete_rows(sheet, read_part, options.missing)
    reading = reading_of_all(read_rows.read_, sheet, kept)
    sides = (roles.left, roles.right) if roles.loser is None else (roles.winner, roles.loser)
    items: Table | None = None
    users: Table | None = None
    if options.items is not None:
        columns = dict(zip(("left", "right"), sides, strict=True))
        items, read_rows = _read_table(options, "item", options.id or "id", kept, read_rows, columns)
    if options.users is not None:
        users, read_rows = _read_table(options, "user", roles.user, kept, read_rows, {"user": roles.user})
    _check_covariates(kept, read_rows, roles, options.covariates or ())
    rows = _rows(read_rows, groups, time, options.seed)
    ids = {"item": np.concatenate([read_rows.left, read_rows.right]), "user": read_rows.user}
    ids["group"] = np.array([*map(list, read_rows.groups)], dtype=object)
    doubts = [*notes_on_sides(sides, read_rows.left, read_rows.right), *notes_on_columns(ids)]
    say_doubts(sheet, [*doubts, *notes_on_answers(kept, roles)])
    check_size(sheet, rows.size, "comparisons", options)
    won = read_rows.y is None or (rows.y == rows.y[0]).all()  # winners may stand first
    return Compared(rows, items, source_of(options), roles, users, options.group, not won, reading=str(reading))


def _read_table(
    options: Data, noun: str, id_column: str, sheet: Columns, rows: ReadRows, columns: dict[str, Any]
) -> tuple[Table, ReadRows]:
    """Return the table of items or users, and comparisons without incomplete ones; refuse ids that it does not have."""
    table, incomplete = read_own_table(options, noun, id_column)
    used = zip(*(getattr(rows, side) for side in columns), strict=True)
    kept = np.array([incomplete.isdisjoint(ids) for ids in used], dtype=bool)
    say_left_out(int(np.sum(~kept)), "comparison", "", f"of {noun}s without features")
    rows = rows.take(kept)
    for side, name in columns.items():
        refuse_unknown(options, noun, table, sheet, getattr(rows, side), rows.origin, name)
    return table, rows


def _check_covariates(sheet: Columns, rows: ReadRows, roles: Roles, names: tuple[str, ...]) -> None:
    """Refuse constant covariates, and note those that are never negative."""
    if rows.covariates is None:
        return
    for name, term, values in zip(names, roles.covariates, rows.covariates.T, strict=True):
        if values.size and (values == values[0]).all():
            raise sheet.fault(f"covariate {name!r} is {values[0]:g} in every row: it has no effect to learn")
        say_doubts(sheet, [] if isinstance(term, tuple) else notes_on_covariate(sheet, name, values))


def _rows(rows: ReadRows, groups: AnyArray | None, time: Array | None, seed: int) -> Rows:
    """Return comparisons as the estimator takes them; without sides, those of random rows are exchanged."""
    left, right, y, origin, C = rows.left, rows.right, rows.y, rows.origin, rows.covariates
    if groups is not None:
        groups = groups[origin]
    elif np.unique(rows.unit).size < rows.unit.size and (rows.user is None or _have_several(rows.user, rows.unit)):
        groups = rows.unit.astype(object)  # answers about one game share their noise
    if y is None:  # with the winner always on the left, calibration would see ones only
        swap = np.random.default_rng(seed).random(left.size) < 0.5
        left, right, y = np.where(swap, right, left), np.where(swap, left, right), np.where(swap, 0.0, 1.0)
        C = None if C is None else np.where(swap[:, None], -C, C)
    ids = [left, right] if rows.user is None else [rows.user, left, right]
    moved = [] if rows.time is None else [to_cells(rows.time, is_dated=rows.is_dated)]
    X = np.column_stack([*ids, *([] if C is None else [C.astype(object)]), *rows.groups, *moved])
    return Rows(X, y, rows.weight, groups, None if time is None else time[origin])


def _have_several(user: AnyArray, origin: IntArray) -> bool:
    """Tell whether users have two games or tasks on average, so that one can be held out and one learnt from."""
    return len(set(origin.tolist())) >= 2 * len(set(user.tolist()))


# ------------------------------------------------------------------------------------------------- choices and rankings
def _read_choices(options: Data, sheet: Columns, roles: Roles) -> Compared:
    """Return the choices or rankings of a file."""

    def read_part(part: Columns) -> tuple[Any, ...]:
        items, read_roles = None, replace(roles, once=(*roles.once, *filter(None, [roles.time])))
        if options.features is not None:
            option = OPTION if OPTION in part.values else None
            part, read_roles, items = with_profiles(part, read_roles, options.features, options.none, option)
        plain = part
        if not roles.task:
            plain = with_plain_items(part, (*roles.offered, *roles.ranking), (roles.chosen, roles.worst))
        rows = read_tasks(plain, read_roles, None)
        time = None if roles.time is None else read_times(part, roles.time)
        return part, rows, items, time, *read_splits(part, options)

    kept, read, items, time, groups, splits = complete_rows(sheet, read_part, options.missing)
    origin, group, user = read.origin, options.group, None if roles.user is None else read.X[:, 0]
    shown = read.X if user is None else read.X[:, 1:]
    present = shown != None  # noqa: E711 - for each cell
    _refuse_constant(sheet, options, items, read.covariates, shown)
    if options.items is not None:
        items, _ = read_own_table(options, "item", options.id or "id")
        refuse_unknown(options, "item", items, kept, shown[present], origin[np.nonzero(present)[0]])
    users = None
    if options.users is not None and user is not None:
        users, _ = read_own_table(options, "user", options.user or "user")
        refuse_unknown(options, "user", users, kept, user, origin)
    more = [] if read.covariates is None else [read.covariates.astype(object)]
    more += [kept.ids(name, "group")[origin] for name in roles.groups]
    more += [] if time is None else [to_cells(time[0][origin], is_dated=time[1])]
    groups = None if groups is None else groups[origin]
    if groups is None and splits is None and user is not None and not _have_several(user, origin):
        groups, group = user, roles.user
    answers = read.y, read.sample_weight, groups, None if splits is None else splits[origin]
    rows = Rows(np.column_stack([read.X, *more]) if more else read.X, *answers)
    say_doubts(sheet, notes_on_columns({"item": shown[present], "user": user}))
    say_doubts(sheet, notes_on_answers(kept, roles, options.none))
    check_size(sheet, rows.size, "choices or rankings", options)
    reading = reading_of_all(read.read_, sheet, kept)
    reading = replace(reading, unused=tuple(name for name in reading.unused if name != OPTION))
    named = {"has_sides": False, "n_shown": shown.shape[1], "reading": str(reading)}
    return Compared(rows, items, source_of(options), roles, users, group, **named)


def _refuse_constant(sheet: Columns, options: Data, items: Table | None, C: Array | None, shown: AnyArray) -> None:
    """Refuse an attribute that is the same everywhere, and a covariate that is the same for all items of each task."""
    if items is not None and items.feature_names is not None:
        is_none = (names := np.array(items.feature_names)) == NONE
        products = items.features[~items.features[:, is_none].any(axis=1)]
        for name in names[(np.ptp(products, axis=0) == 0.0) & ~is_none].tolist()[:1]:
            what = f"all items shown have the same {name.partition('=')[0]!r}: it has no effect to learn"
            raise sheet.fault(f"{what}; leave it out of --features")
    if C is None:
        return
    values = np.where((shown == None)[:, None], np.nan, C.reshape(len(shown), -1, shown.shape[1]))  # noqa: E711
    spread = np.nanmax(values, axis=2) - np.nanmin(values, axis=2)
    for name, varies in zip(options.covariates or (), spread.any(axis=0).tolist(), strict=True):
        if not varies:
            raise sheet.fault(f"covariate {name!r} is the same for all items of each row: it has no effect to learn")


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
