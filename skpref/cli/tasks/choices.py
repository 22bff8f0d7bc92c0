"""Files of choices and rankings: rows show several items, and are learnt from unbroken."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.cli.advice import as_of_command
from skpref.cli.files import complete_rows, say_note
from skpref.cli.tasks.base import Rows, check_size, read_splits
from skpref.cli.tasks.compared import Compared, read_own_table, refuse_unknown, source_of
from skpref.cli.tasks.doubts import notes_on_columns
from skpref.cli.tasks.layouts import with_plain_items
from skpref.data import Table
from skpref.data.choices import OPTION, with_profiles
from skpref.data.roles import Roles, reading_of_all
from skpref.data.task_tables import read_tasks
from skpref.data.times import read_times, to_cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array
    from skpref.cli.options import Data
    from skpref.data.columns import Columns


def read_choices(options: Data, sheet: Columns, roles: Roles) -> Compared:
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

    with as_of_command():
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
    if groups is None and splits is None and user is not None and _has_one_task(user):
        groups, group = user, roles.user
    answers = read.y, read.weight, groups, None if splits is None else splits[origin]
    rows = Rows(np.column_stack([read.X, *more]) if more else read.X, *answers)
    for note in notes_on_columns({"item": shown[present], "user": user}):
        say_note(f"{sheet.source}: {note}")
    check_size(sheet, rows.size, "choices or rankings", options)
    reading = reading_of_all(read.reading, sheet, kept)
    reading = replace(reading, unused=tuple(name for name in reading.unused if name != OPTION))
    return Compared(
        *(rows, items, source_of(options), roles, users, group),
        has_sides=False,
        covariates=options.covariates or (),
        n_shown=shown.shape[1],
        dynamics=options.dynamics or "auto",
        reading=str(reading),
    )


def _refuse_constant(sheet: Columns, options: Data, items: Table | None, C: Array | None, shown: NDArray[Any]) -> None:
    """Refuse an attribute that is the same everywhere, and a covariate that is the same for all items of each task."""
    if items is not None and items.feature_names is not None:
        for name in np.array(items.feature_names)[np.ptp(items.features, axis=0) == 0.0].tolist()[:1]:
            what = f"all items shown have the same {name.partition('=')[0]!r}: it has no effect to learn"
            raise sheet.fault(f"{what}; leave it out of --features")
    if C is None:
        return
    values = np.where((shown == None)[:, None], np.nan, C.reshape(len(shown), -1, shown.shape[1]))  # noqa: E711
    spread = np.nanmax(values, axis=2) - np.nanmin(values, axis=2)
    for name, varies in zip(options.covariates or (), spread.any(axis=0).tolist(), strict=True):
        if not varies:
            raise sheet.fault(f"covariate {name!r} is the same for all items of each row: it has no effect to learn")


def _has_one_task(user: NDArray[Any]) -> bool:
    """Tell whether users have fewer than two tasks on average, so that none can be held out of what is learnt."""
    return 2 * len(set(user.tolist())) > user.size


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
