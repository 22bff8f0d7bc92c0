"""Predictions of choices and rankings: rows that show several items, or one item of a task."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.cli.files import USERS
from skpref.cli.ids import by_text, read_ids, unknown_id
from skpref.cli.tasks.layouts import (
    columns_of_features,
    covariate,
    feature_name,
    long_rows,
    matching,
    side_names,
    with_plain_items,
)
from skpref.data.choices import OPTION, TASK, with_profiles
from skpref.data.columns import as_text
from skpref.data.ids import objects
from skpref.data.roles import Roles
from skpref.data.task_tables import Shown, check_distinct, item_of_rows, members_of, menus_of, padded
from skpref.data.times import read_times, to_cells
from skpref.exceptions import DataError
from skpref.gp.crowd import CrowdGPPL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skpref._typing import Array, BoolArray
    from skpref.cli.options import Predict
    from skpref.data.columns import Columns

_WANTED = (
    "The model was learnt from choices or rankings: --offered A,B,... names the columns of the items that a row shows, "
    "and --contest A[,B] those of the task, where a row is one item; --user names that of the people"
)


def predict_tasks(model: Any, sheet: Columns, options: Predict) -> dict[str, Any]:
    """Return what is most probably chosen and the shares of all that a row shows; or the share of its one item."""
    if model._columns is not None and any(isinstance(name, str) for name in model._columns.roles.columns()):  # noqa: SLF001
        raise DataError(f"{options.model}: was fitted to a data frame with named columns; predict with it in Python")
    roles = _roles(model, sheet, options)
    if options.contest is not None:
        return {"probability": _probabilities(model, sheet, options, roles)}
    if not roles.offered:
        return _wide_profiles(model, sheet, options, roles)
    sheet = with_plain_items(sheet, roles.offered)
    (tasks,) = menus_of(sheet, roles)
    if len(roles.offered) > model.classes_.size:  # columns of places, of which no row had all
        places = [[k for k in task.places if task.items[k] is not None] for task in tasks]
        tasks = [Shown(task.row, [task.items[k] for k in own], own) for task, own in zip(tasks, places, strict=True)]
    shares = np.zeros((sheet.size, len(roles.offered)))
    for task, own in zip(tasks, _shares(model, sheet, roles, tasks), strict=True):
        shares[task.row, task.places] = own[: len(task.places)]
    cells = np.column_stack([objects(sheet.cells(name)) for name in roles.offered])
    return _chosen(cells, roles.offered, shares)


def _chosen(cells: NDArray[Any], names: Sequence[str], shares: Array) -> dict[str, Any]:
    """Return the cell with the largest share, and the shares by name."""
    best = cells[np.arange(len(shares)), np.argmax(shares, axis=1)]
    return {"choice": best, **{f"p_{name}": column for name, column in zip(names, shares.T, strict=True)}}


def _roles(model: Any, sheet: Columns, options: Predict) -> Roles:
    """Return which column is what; refuse those that the file does not have."""
    is_crowd, time, shown = isinstance(model, CrowdGPPL), getattr(model, "time", None), options.features or ()
    columns: dict[str, Any] = {
        "user": options.user or sheet.usual(*USERS) if is_crowd else None,
        "groups": tuple(model.groups or ()) if is_crowd else (),
        "once": () if time is None else (options.time or sheet.usual("time", "date"),),
    }
    if options.contest is not None:
        features, item = tuple(map(feature_name, shown)), () if shown else (options.item or sheet.usual("item"),)
        columns |= {"task": options.contest, "item": item, "features": features}
    elif options.offered is not None or not shown:
        columns["offered"] = options.offered or side_names(sheet, options)
    roles = Roles(**columns)
    sheet.require(roles.columns(), _WANTED)
    return roles


def _wide_profiles(model: Any, sheet: Columns, options: Predict, roles: Roles) -> dict[str, Any]:
    """Return the position that is most probably chosen, or none, and the shares of all."""
    features, none = columns_of_features(sheet, options), [] if options.none is None else [options.none]
    long = long_rows(sheet, roles.columns(), features, (), options.none)
    p = _probabilities(model, long, options, replace(roles, task=(TASK,), features=tuple(features)))
    cells = [list(zip(*map(sheet.cells, own), strict=True)) for own in features.values()]
    here: BoolArray = (np.array(cells, dtype=object) != None).any(axis=0)  # noqa: E711 - for each cell
    here = np.column_stack([here, np.ones((sheet.size, len(none)), dtype=bool)])
    shares = np.zeros(here.shape)
    shares[here] = p
    names = [*(str(k + 1) for k in range(here.shape[1] - len(none))), *none]
    return _chosen(np.tile(objects(names), (sheet.size, 1)), names, shares)


def _probabilities(model: Any, sheet: Columns, options: Predict, roles: Roles) -> Array:
    """Return the probability that the item of each row is chosen in its task, shape (n,)."""
    if roles.features:
        option = OPTION if OPTION in sheet.values else None
        has_none = option is not None or any(options.none in sheet.cells(name) for name in roles.features)
        sheet, roles, _ = with_profiles(sheet, roles, roles.features, options.none if has_none else None, option)
    items = item_of_rows(sheet, roles.item)
    tasks = [Shown(rows[0], [items[row] for row in rows], rows) for rows in members_of(sheet, roles).values()]
    p = np.zeros(sheet.size)
    for task, own in zip(tasks, _shares(model, sheet, roles, tasks), strict=True):
        p[task.places] = own[: len(task.places)]
    return p


def _shares(model: Any, sheet: Columns, roles: Roles, tasks: list[Shown]) -> Array:
    """Return the probability that each position of tasks is chosen, shape (n, K)."""
    K, rows = model.classes_.size, [task.row for task in tasks]
    for task in tasks:
        check_distinct(sheet, task.items, task.row)
        if len(task.items) > K:
            raise sheet.fault(f"{len(task.items)} items are shown; the model was learnt from at most {K}", task.row)
    empty = [task.row for task in tasks if not any(item is not None for item in task.items)]
    if empty:
        raise sheet.missing("no item is shown", empty, None)
    shown = padded(None, [[*task.items, *[None] * (K - len(task.items))] for task in tasks])
    row, place = np.nonzero(shown != None)  # noqa: E711 - for each cell
    lines = [tasks[i].places[k] if roles.task else tasks[i].row for i, k in zip(row, place, strict=True)]
    shown[row, place] = _known(model, sheet, roles, objects(list(map(as_text, shown[row, place]))), lines)
    more = (
        []
        if roles.user is None
        else [read_ids(sheet, roles.user, getattr(model.users, "ids", model.user_ids_), "user")[rows]]
    )
    more += [shown, *(_covariate(sheet, name, roles, tasks, shown) for name in model.covariates or {})]
    more += [read_ids(sheet, name, model.group_ids_[k], "group")[rows] for k, name in enumerate(roles.groups)]
    for name in roles.once:
        times, is_dated = read_times(sheet, name)
        more.append(to_cells(times[rows], is_dated=is_dated))
    return np.asarray(model.predict_proba(np.column_stack(more)))


def _known(model: Any, sheet: Columns, roles: Roles, cells: NDArray[Any], rows: list[int]) -> list[Any]:
    """Return items as the model has them; refuse unknown ones where items have features, else note them."""
    texts, noun = by_text(getattr(model.items, "ids", model.item_ids_)), "profile" if roles.features else "item"
    problem = unknown_id(sheet, cells, texts, noun, rows=rows)
    if problem is not None and roles.features:
        how = "shares` predicts the shares of" if isinstance(model, CrowdGPPL) else "rank` ranks"
        raise DataError(f"{problem} (`skpref {how} new products)")
    if problem is not None and model.items is not None:
        raise problem
    if problem is not None:
        sheet.notes.append(f"{problem}; the prediction is that for an unseen item")
    return [texts.get(cell, cell) for cell in cells.tolist()]


def _covariate(sheet: Columns, name: str, roles: Roles, tasks: list[Shown], shown: NDArray[Any]) -> NDArray[Any]:
    """Return a covariate of the items shown, which have rows or columns, 0 where there is none, shape (n, K)."""
    own = feature_name(name) if roles.task and "*" in name and name not in sheet.values else name
    columns = [covariate(sheet, own)] if roles.task else matching(sheet, own)
    if len(columns) != max(len(roles.offered), 1):
        raise sheet.fault(f"{name} has {len(columns)} columns; one for each of {', '.join(roles.offered)} is needed")
    read = partial(sheet.numbers if roles.task else sheet.numbers_or_nan, meaning="a covariate")
    matrix, values = np.column_stack(list(map(read, columns))), np.zeros(shown.shape)
    for row, task in enumerate(tasks):
        values[row, : len(task.places)] = matrix[task.places, 0] if roles.task else matrix[task.row, task.places]
    values[shown == None] = 0.0  # noqa: E711 - for each cell
    empty = np.flatnonzero(np.isnan(values).any(axis=1)).tolist()
    if empty:
        raise sheet.missing(f"a covariate is missing ({name})", [tasks[row].row for row in empty], None)
    return values.astype(object)
