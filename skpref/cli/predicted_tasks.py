"""Predictions of choices and rankings: rows that show several items, or one item of a task."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.cli.files import USERS
from skpref.cli.ids import by_text, read_ids, unknown_id
from skpref.cli.tasks.layouts import columns_of_features, covariate, feature_name, matching, side_names
from skpref.cli.tasks.times import as_cells
from skpref.data.choices import OPTION, TASK, long_table, with_profiles
from skpref.data.columns import as_text
from skpref.data.ids import objects
from skpref.data.roles import Roles
from skpref.data.task_tables import Shown, check_distinct, item_of_rows, members_of, menus_of, padded
from skpref.data.times import read_times
from skpref.exceptions import DataError
from skpref.gp.crowd import CrowdGPPL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skpref._typing import Array
    from skpref.cli.options import Predict
    from skpref.data.columns import Columns
    from skpref.gp.pairwise import GPPLClassifier

_WANTED = (
    "The model was learnt from choices or rankings: --offered A,B,... names the columns of the items that a row shows, "
    "and --contest A[,B] those of the task, where a row is one item"
)


def predict_tasks(model: GPPLClassifier | CrowdGPPL, sheet: Columns, options: Predict) -> dict[str, Any]:
    """Return the item that is most probably chosen and the shares of all that a row shows, or the share of its item."""
    if any(isinstance(name, str) for name in (model._columns.roles.columns() if model._columns else ())):  # noqa: SLF001
        raise DataError(f"{options.model}: was fitted to a data frame with named columns; predict with it in Python")
    roles = _roles(model, sheet, options)
    if options.offered is None and options.contest is None and "*" in "".join(options.features or ()):
        return _wide_profiles(model, sheet, options, roles)
    if roles.task:
        return {"probability": _probabilities(model, sheet, options, roles)}
    (tasks,) = menus_of(sheet, roles)
    if len(roles.offered) > model.classes_.size:  # columns of places, of which no row had all
        places = [[k for k in task.places if task.items[k] is not None] for task in tasks]
        tasks = [Shown(t.row, [t.items[k] for k in own], own) for t, own in zip(tasks, places, strict=True)]
    shares = np.zeros((sheet.size, len(roles.offered)))
    for task, own in zip(tasks, _shares(model, sheet, roles, tasks), strict=True):
        shares[task.row, task.places] = own[: len(task.places)]
    best = np.argmax(shares, axis=1).tolist()
    cells = list(map(sheet.cells, roles.offered))
    return {"choice": objects([cells[k][row] for row, k in enumerate(best)])} | _named(roles.offered, shares)


def _roles(model: GPPLClassifier | CrowdGPPL, sheet: Columns, options: Predict) -> Roles:
    """Return which column is what; refuse those that the file does not have."""
    is_crowd, time = isinstance(model, CrowdGPPL), getattr(model, "time", None)
    more: dict[str, Any] = {
        "user": options.user or sheet.usual(*USERS) if is_crowd else None,
        "groups": tuple(model.groups or ()) if isinstance(model, CrowdGPPL) else (),
        "once": () if time is None else (options.time or sheet.usual("time", "date"),),
    }
    if options.contest is not None:
        item = () if options.features else (options.item or sheet.usual("item"),)
        roles = Roles(task=options.contest, item=item, features=tuple(map(feature_name, options.features or ())), **more)
    elif options.offered is None and options.features:
        roles = Roles(**more)
    else:
        roles = Roles(offered=options.offered or side_names(sheet, options), **more)
    sheet.require(roles.columns(), _WANTED)
    return roles


def _named(names: Sequence[str], shares: Array) -> dict[str, Array]:
    return {f"p_{name}": column for name, column in zip(names, shares.T, strict=False)}


def _wide_profiles(model: Any, sheet: Columns, options: Predict, roles: Roles) -> dict[str, Any]:
    """Return the position that is most probably chosen, or none, and the shares of all."""
    features, none = columns_of_features(sheet, options), options.none
    long = long_table(sheet, roles.columns(), features, (), none)
    roles = replace(roles, task=(TASK,), features=tuple(features))
    p = _probabilities(model, long, options, roles)
    cells = [list(zip(*map(sheet.cells, own), strict=True)) for own in features.values()]
    shown = (np.array(cells, dtype=object) != None).any(axis=0)  # noqa: E711 - for each cell
    shown = np.column_stack([shown, *([np.ones(sheet.size, dtype=bool)] if none is not None else [])])
    shares = np.zeros(shown.shape)
    shares[shown] = p
    names = [*(str(k + 1) for k in range(len(cells[0][0]))), *([none] if none is not None else [])]
    return {"choice": np.array(names, dtype=object)[np.argmax(shares, axis=1)]} | _named(names, shares)


def _probabilities(model: Any, sheet: Columns, options: Predict, roles: Roles) -> Array:
    """Return the probability that the item of each row is chosen in its task, shape (n,)."""
    if roles.features:
        is_wide, none = OPTION in sheet.values, options.none
        held = any(none in sheet.cells(name) for name in roles.features)
        sheet, roles, _ = with_profiles(
            sheet, roles, roles.features, none if is_wide or held else None, OPTION if is_wide else None
        )
    items = item_of_rows(sheet, roles.item)
    tasks = [Shown(rows[0], [items[row] for row in rows], rows) for rows in members_of(sheet, roles).values()]
    shares, p = _shares(model, sheet, roles, tasks), np.zeros(sheet.size)
    for row, task in enumerate(tasks):
        p[task.places] = shares[row, : len(task.places)]
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
    texts, cells = by_text(_ids(model, "item")), objects([as_text(item) for item in shown[row, place]])
    lines = [tasks[i].places[k] if roles.task else tasks[i].row for i, k in zip(row, place, strict=True)]
    noun = "profile" if roles.features else "item"
    problem = unknown_id(sheet, cells, texts, noun, rows=lines)
    if problem is not None and model.items is not None:
        raise DataError(f"{problem}; `skpref shares` predicts the shares of new products") if roles.features else problem
    if problem is not None:
        sheet.notes.append(f"{problem}; the prediction is that for an unseen {noun}")
    shown[row, place] = [texts.get(cell, cell) for cell in cells]
    users = [] if roles.user is None else [read_ids(sheet, roles.user, _ids(model, "user"), "user")[rows]]
    more = [_covariate(sheet, name, roles, tasks, shown) for name in model.covariates or {}]
    more += [read_ids(sheet, n, model.group_ids_[k], "group")[rows] for k, n in enumerate(roles.groups)]
    for name in roles.once:
        times, is_dated = read_times(sheet, name)
        more.append(as_cells(times[rows], is_dated=is_dated))
    return np.asarray(model.predict_proba(np.column_stack([*users, shown, *more])))


def _ids(model: Any, noun: str) -> NDArray[Any]:
    """Return the ids that the model knows, with a table those of the table."""
    table = getattr(model, f"{noun}s", None)
    return np.asarray(getattr(model, f"{noun}_ids_") if table is None else table.ids)


def _covariate(sheet: Columns, name: str, roles: Roles, tasks: list[Shown], shown: NDArray[Any]) -> NDArray[Any]:
    """Return a covariate of the items shown, which have rows or columns, 0 where there is none, shape (n, K)."""
    values = np.zeros(shown.shape)
    columns = matching(sheet, name) if roles.offered else [covariate(sheet, name)]
    if roles.offered and len(columns) != len(roles.offered):
        raise sheet.fault(f"{name} has {len(columns)} columns; one for each of {', '.join(roles.offered)} is needed")
    held = np.column_stack([sheet.numbers_or_nan(column, "a covariate") for column in columns])
    for row, task in enumerate(tasks):
        values[row, : len(task.places)] = held[task.places, 0] if roles.task else held[task.row, task.places]
    values[shown == None] = 0.0  # noqa: E711 - for each cell
    empty = [task.row for task, own in zip(tasks, values, strict=True) if np.isnan(own).any()]
    if empty:
        raise sheet.missing(f"a covariate is missing ({name})", empty, None)
    return values.astype(object)
