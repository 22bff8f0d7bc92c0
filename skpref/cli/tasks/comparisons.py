"""Files of comparisons, choices and rankings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from skpref.cli.advice import as_of_command
from skpref.cli.files import complete_rows, say_left_out, say_note
from skpref.cli.tasks import choices
from skpref.cli.tasks.base import Rows, Task, check_size, read_data, read_splits
from skpref.cli.tasks.compared import MAX_INDUCING, Compared, make_task, read_own_table, refuse_unknown, source_of
from skpref.cli.tasks.doubts import notes_on_columns, notes_on_covariate, notes_on_sides
from skpref.cli.tasks.layouts import roles_of, saved_columns, with_long_rows
from skpref.data.roles import ReadRows, Roles, reading_of_all
from skpref.data.roles import read as read_roles
from skpref.data.times import to_cells

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray
    from skpref.cli.options import Data
    from skpref.data import Table
    from skpref.data.columns import Columns

_DEMO_MAX_INDUCING = 150


def read(options: Data) -> Task:
    """Read the files of a job."""
    if options.data is None:
        return make_task(choices.read_travellers(), options.seed, options.max_inducing or _DEMO_MAX_INDUCING)
    sheet, asked = read_data(options), options
    if options.has_wide_features:
        sheet, options = with_long_rows(sheet, options)
    roles = roles_of(sheet, options)
    data = (choices.read_choices if roles.several else read_comparisons)(options, sheet, roles)
    data = replace(data, columns=saved_columns(asked, roles))
    return make_task(data, options.seed, options.max_inducing or MAX_INDUCING)


def read_comparisons(options: Data, sheet: Columns, roles: Roles) -> Compared:
    """Read and check a file of comparisons, and the files of items and users."""

    def read_part(part: Columns) -> tuple[Any, ...]:
        return part, read_roles(part, roles, None), *read_splits(part, options)

    with as_of_command():
        kept, read_rows, groups, time = complete_rows(sheet, read_part, options.missing)
    reading = reading_of_all(read_rows.reading, sheet, kept)
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
    for note in [*notes_on_sides(sides, read_rows.left, read_rows.right), *notes_on_columns(ids)]:
        say_note(f"{sheet.source}: {note}")
    check_size(sheet, rows.size, "comparisons", options)
    won = read_rows.y is None or (rows.y == rows.y[0]).all()  # winners may stand first
    return Compared(
        *(rows, items, source_of(options), roles, users, options.group),
        has_sides=not won,
        covariates=options.covariates or (),
        dynamics=options.dynamics or "auto",
        reading=str(reading),
    )


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
        for note in [] if isinstance(term, tuple) else notes_on_covariate(sheet, name, values):
            say_note(f"{sheet.source}: {note}")


def _rows(rows: ReadRows, groups: NDArray[Any] | None, time: Array | None, seed: int) -> Rows:
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


def _have_several(user: NDArray[Any], origin: IntArray) -> bool:
    """Tell whether users have two games on average, so that one can be held out and one learnt from."""
    return len(set(origin.tolist())) >= 2 * len(set(user.tolist()))
