"""``skpref predict``: the rows of a file with the predictions of a saved model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from skpref._estimator import last_step
from skpref._text import printable
from skpref._typing import AnyArray, Array, BoolArray
from skpref.cli.files import USERS, complete_rows, counted, read_sheet, say_note
from skpref.cli.ids import known_ids, own_ids, read_ids
from skpref.cli.options import Predict
from skpref.cli.output import check_file
from skpref.cli.report import cut, deliver, table
from skpref.cli.tasks.layouts import (
    columns_of_features,
    covariate,
    feature_name,
    matching,
    side_names,
    with_plain_items,
)
from skpref.cli.tasks.rows import read_columns
from skpref.data import OneHotDesign
from skpref.data.choices import OPTION, TASK, long_table, with_profiles
from skpref.data.columns import Columns, as_text
from skpref.data.ids import objects
from skpref.data.roles import Roles, context_of, numbers_of
from skpref.data.task_tables import Shown, check_distinct, covariates_of, item_of_rows, members_of, menus_of, padded
from skpref.data.times import to_cells
from skpref.exceptions import DataError
from skpref.factorization.fm import VariationalFM
from skpref.factorization.fm_classifier import VariationalFMClassifier
from skpref.factorization.fm_ordinal import VariationalFMOrdinal
from skpref.factorization.max_margin.base import MaxMarginFactorization
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.entities import players_of
from skpref.gp.ordinal import GPOrdinalRegressor
from skpref.gp.pairwise import GPPLClassifier
from skpref.gp.sparse import SVGPClassifier, SVGPRegressor
from skpref.persistence import columns_of, load

_ROLES = "user", "item", "left", "right", "time"  # options that name columns
_LISTS = "offered", "contest", "features", "covariates", "context"  # options that name several
_WANTED = (
    "The model was learnt from choices or rankings: --offered A,B,... names the columns of the items that a row shows, "
    "and --contest A[,B] those of the task, where a row is one item; --user names that of the people"
)
MACHINES = VariationalFM, VariationalFMClassifier, VariationalFMOrdinal

Predicted = dict[str, "AnyArray"]


def predict(options: Predict) -> int:
    """Predict the rows of a file."""
    check_file(options.out, options.model, options.data)
    model = load(options.model)
    sheet = read_sheet(options.data, options)
    options, last = _with_trained_columns(options, sheet), last_step(model)
    has_tasks = getattr(last, "_has_tasks", False)
    readers = [read for cls, read in _READERS.items() if isinstance(last, cls) and hasattr(last, "posterior_")]
    if not readers:
        kinds = ", ".join(cls.__name__ for cls in _READERS)
        raise DataError(f"{options.model}: holds no fitted model that predicts rows of a file ({kinds})")

    def read_and_predict(rows: Columns) -> tuple[Columns, Predicted]:
        """Return the rows that are complete, and their predictions."""
        if has_tasks:
            return rows, _predict_tasks(model, rows, options)
        return rows, predictions(model, readers[0](model, rows, options))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names of columns are checked here
        sheet, predicted = complete_rows(sheet, read_and_predict, options.missing)
    columns = {name: sheet.values[name] for name in sheet.names if name not in predicted}
    if len(columns) < len(sheet.names):
        replaced = ", ".join(printable(name) for name in sheet.names if name in predicted)
        say_note(f"predictions stand in the place of the columns {replaced} of {options.data}")
    columns |= {name: column.tolist() for name, column in predicted.items()}
    top = zip(*(column[: options.top] for column in columns.values()), strict=True)
    shown = [[f"{x:.4f}" if isinstance(x, float) else cut(x) for x in row] for row in top]
    more = f"\n  ... {sheet.size} rows; --out FILE writes all of them" if len(shown) < sheet.size else ""
    text = "\n".join(table(list(columns), shown)) + more
    return deliver(options, columns, text if options.out is None else f"{counted(sheet.size, 'rows')} predicted")


def _with_trained_columns(options: Predict, sheet: Columns) -> Predict:
    """Return options with the columns that the model was learnt from, where the file has them; options come first."""
    trained = columns_of(options.model)
    sheet.dates.update(dict.fromkeys(sheet.names, trained.get("dates", "")))
    used: dict[str, Any] = {
        role: name
        for role, name in trained.items()
        if role in _ROLES and getattr(options, role) is None and {name}.union(name.split(",")) & sheet.values.keys()
    }
    shown = ", ".join(f"{role} from {printable(name)!r}" for role, name in used.items() if name != role)
    if shown:
        say_note(f"read {shown}, the columns that the model was learnt from")
    lists = {role: tuple(name for key, name in trained.items() if key.startswith(f"{role}:")) for role in _LISTS}
    if {options.offered, options.contest, options.left, options.right} == {None}:
        used |= {role: names for role, names in lists.items() if names}
    elif options.contest is not None:
        used["features"] = lists["features"]
    always = {name: lists[name] for name in ("covariates", "context")}
    return replace(options, none=trained.get("none"), **{**used, **always})


# --------------------------------------------------------------------------------------------------------- predictions
def predictions(model: Any, X: AnyArray) -> Predicted:
    """Return what a model says of rows, the most important column first."""
    last = last_step(model)
    if isinstance(last, GPPLClassifier | CrowdGPPL):
        predicted: Predicted = {"probability_left": model._left_probability(X)}  # noqa: SLF001 - of this package
        if model.likelihood_.ties_are_answers:
            predicted |= zip(("p_left", "p_tie", "p_right"), model.predict_proba(X, ties=True).T, strict=True)
        if model._has_margins:  # noqa: SLF001 - of this package
            predicted["margin"] = model.predict_margin(X)[0]
        if model.classes_.size > 2:  # grades
            predicted |= zip([f"p_{grade}" for grade in model.classes_], model.predict_proba(X).T, strict=True)
        return predicted
    if isinstance(last, VariationalFMClassifier):
        return {"probability": model.predict_proba(X)[:, 1]}
    if isinstance(last, SVGPRegressor | VariationalFM):
        return dict(zip(("prediction", "std"), model.predict(X, return_std=True), strict=True))
    predicted = {"class" if isinstance(last, SVGPClassifier) else "level": model.predict(X)}
    if isinstance(last, MaxMarginFactorization):
        predicted |= zip(("score", "std"), model.predict_score(X, return_std=True), strict=True)
    names = [f"p_{level}" for level in model.classes_.tolist()]
    return predicted | dict(zip(names, model.predict_proba(X).T, strict=True))


# ------------------------------------------------------------------------------------------------------------- reading
def _roles(model: Any, sheet: Columns, options: Predict) -> Roles:
    """Return which column is what; refuse those that the file does not have."""
    is_crowd, time, shown = isinstance(model, CrowdGPPL), getattr(model, "time", None), options.features or ()
    if getattr(model, "context", None) and not options.context:
        raise DataError(f"{options.model}: has context and was fitted in Python; predict with it there")
    columns: dict[str, Any] = {
        "user": options.user or sheet.usual(*USERS) if is_crowd else None,
        "groups": tuple(model.groups or ()),
        "context": options.context or (),
        "time": None if time is None else options.time or sheet.usual("time", "date"),
    }
    purpose = _WANTED
    if not model._has_tasks:  # noqa: SLF001 - of this package
        columns |= zip(("left", "right"), side_names(sheet, options), strict=True)
        more = f"{columns['user']} (or another one, named by --user), " if is_crowd else ""
        purpose = f"The file to predict has the columns {more}left and right, or others named by --left and --right"
    elif options.contest is not None:
        features, item = tuple(map(feature_name, shown)), () if shown else (options.item or sheet.usual("item"),)
        columns |= {"task": options.contest, "item": item, "features": features}
    elif options.offered is not None or not shown:
        columns["offered"] = options.offered or side_names(sheet, options)
    roles = Roles(**columns)
    sheet.require(replace(roles, groups=(), context=(), time=None).columns(), purpose)
    sheet.require(roles.groups, "The model was learnt with --groups")
    sheet.require(roles.context, "The model was learnt with --context")
    sheet.require(
        [roles.time] * (time is not None), "The model was learnt with --time; name the column of times by --time"
    )
    return roles


def _context(model: Any, sheet: Columns, roles: Roles, rows: Any = slice(None)) -> tuple[list[Any], list[Any]]:
    """Return the columns that stand before the items, of users, and behind: groups, times and context of some rows."""
    user, groups, time, is_dated = context_of(sheet, roles)
    users = [] if user is None else [own_ids(sheet, user, known_ids(model, "user"), "user", roles.user)[rows]]
    named = enumerate(zip(groups, roles.groups, strict=True))
    more = [own_ids(sheet, cells, model.group_ids_[k], "group", name)[rows] for k, (cells, name) in named]
    more += [] if time is None else [to_cells(time[rows], is_dated=is_dated)]
    numbers = numbers_of(sheet, roles)
    return users, more if numbers is None else [*more, numbers[rows].astype(object)]


def _read_comparisons(model: GPPLClassifier | CrowdGPPL, sheet: Columns, options: Predict) -> AnyArray:
    """Return ids of users and items, covariates and groups; a table of items has all items that can be predicted."""
    roles, ids, strict = _roles(model, sheet, options), known_ids(model, "item"), model.items is not None
    users, more = _context(model, sheet, roles)
    items = [_read_side(sheet, name, ids, strict=strict) for name in roles.sides]
    names = model.covariate_names_.tolist()
    C = [] if model.time is None and not (roles.groups or roles.context) else [np.zeros(sheet.size)] * len(names)
    if any(column in name for name in names for column in sheet.values):
        C = [sheet.numbers(covariate(sheet, name), meaning="a covariate").astype(object) for name in names]
    elif names:
        sheet.notes.append(f"the file has no covariates; predictions are for no difference in {', '.join(names)}")
    return np.column_stack([*users, *items, *C, *more])


def _read_side(sheet: Columns, name: Any, ids: AnyArray, *, strict: bool) -> AnyArray:
    """Return the items of a side, or tuples of the players of teams."""
    if not isinstance(name, tuple):
        return read_ids(sheet, name, ids, strict=strict)
    teams = sheet.teams(name)
    rows = np.repeat(np.arange(sheet.size), [len(team) for team in teams])
    players = iter(own_ids(sheet, players_of(teams), ids, "item", name[0], rows, strict=strict).tolist())
    return objects([tuple(next(players) for _ in team) for team in teams])


def _read_ratings(trained: Any, sheet: Columns, options: Predict) -> AnyArray:
    """Return ids of users and items; `trained` has those of the training."""
    names = read_columns(sheet, options, ("user", "item"))
    return np.column_stack(
        [read_ids(sheet, name, getattr(trained, f"{noun}_ids_"), noun) for noun, name in names.items()]
    )


def _read_machine(model: Any, sheet: Columns, options: Predict) -> AnyArray:
    design = last_step(model).design_
    if design is None and isinstance(model, Pipeline) and isinstance(model.steps[0][1], OneHotDesign):
        return _read_ratings(model.steps[0][1], sheet, options)
    if design is None:
        fitted = "pairs of ids behind a OneHotDesign, or the columns of the files that it was fitted to"
        raise DataError(f"{options.model}: a factorization machine predicts {fitted}; predict with it in Python")
    sheet.require(design.names, "The model was fitted with it")
    columns = [
        sheet.numbers(name, meaning="a number in the fit") if ids is None else read_ids(sheet, name, ids.ids, name)
        for name, ids in zip(design.names, design.ids, strict=True)
    ]
    return np.column_stack([column.astype(object) for column in columns])


def read_features(model: Any, sheet: Columns, options: Predict) -> AnyArray:
    """Return the columns that a model of features was fitted with, shape (n, d)."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise DataError(f"{options.model}: has no names of its features; predict with it in Python")
    sheet.require(names.tolist(), "The model was fitted with it")
    return sheet.matrix(names.tolist(), "features are numeric")


# ------------------------------------------------------------------------------------------------- choices and rankings
def _predict_tasks(model: Any, sheet: Columns, options: Predict) -> dict[str, Any]:
    """Return what is most probably chosen and the shares of all that a row shows; or the share of its one item."""
    if any(isinstance(name, str) for name in model._columns.roles.columns()):  # noqa: SLF001
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
    for task, own in zip(tasks, _shares(model, sheet, options, roles, tasks), strict=True):
        shares[task.row, task.places] = own[: len(task.places)]
    cells = np.column_stack([objects(sheet.cells(name)) for name in roles.offered])
    return _chosen(cells, roles.offered, shares)


def _chosen(cells: AnyArray, names: Sequence[str], shares: Array) -> dict[str, Any]:
    """Return the cell with the largest share, and the shares by name."""
    best = cells[np.arange(len(shares)), np.argmax(shares, axis=1)]
    return {"choice": best, **{f"p_{name}": column for name, column in zip(names, shares.T, strict=True)}}


def _wide_profiles(model: Any, sheet: Columns, options: Predict, roles: Roles) -> dict[str, Any]:
    """Return the position that is most probably chosen, or none, and the shares of all."""
    features, none = columns_of_features(sheet, options), [] if options.none is None else [options.none]
    used = [*roles.columns(), *(options.covariates or ())]
    long = long_table(sheet, used, features, (), options.none)
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
    for task, own in zip(tasks, _shares(model, sheet, options, roles, tasks), strict=True):
        p[task.places] = own[: len(task.places)]
    return p


def _shares(model: Any, sheet: Columns, options: Predict, roles: Roles, tasks: list[Shown]) -> Array:
    """Return the probability that each position of tasks is chosen, shape (n, K)."""
    K, rows = model.classes_.size, [task.row for task in tasks]
    for task in tasks:
        check_distinct(sheet, task.items, task.row)
        if len(task.items) > K:
            raise sheet.fault(f"{len(task.items)} items are shown; the model was learnt from at most {K}", task.row)
    empty = [task.row for task in tasks if not any(item is not None for item in task.items)]
    if empty:
        raise sheet.missing("no item is shown", empty, None)
    tasks = [task._replace(items=[*task.items, *[None] * (K - len(task.items))]) for task in tasks]
    shown = padded(None, [task.items for task in tasks])
    row, place = np.nonzero(shown != None)  # noqa: E711 - for each cell
    lines = [tasks[i].places[k] if roles.task else tasks[i].row for i, k in zip(row, place, strict=True)]
    noun, strict = "profile" if roles.features else "item", model.items is not None or bool(roles.features)
    cells = objects(list(map(as_text, shown[row, place])))
    try:
        shown[row, place] = own_ids(sheet, cells, known_ids(model, "item"), noun, None, lines, strict=strict)
    except DataError as error:
        how = "shares` predicts the shares of" if isinstance(model, CrowdGPPL) else "rank` ranks"
        raise DataError(f"{error} (`skpref {how} new products)" if roles.features else str(error)) from error
    users, more = _context(model, sheet, roles, rows)
    terms = tuple(_term(sheet, name, options, roles) for name in model.covariates or {})
    C = [covariates_of(sheet, replace(roles, covariates=terms), tasks).astype(object)] if terms else []
    return np.asarray(model.predict_proba(np.column_stack([*users, shown, *C, *more])))


def _term(sheet: Columns, name: str, options: Predict, roles: Roles) -> Any:
    """Return the column of a covariate, or the columns of all items that a row shows."""
    if roles.task:
        return covariate(sheet, name if name in sheet.values else feature_name(name))  # price, where price_* was learnt
    columns = matching(sheet, name)
    columns = tuple(known for known in options.covariates or () if known in columns) or columns
    if len(columns) != len(roles.offered):
        raise sheet.fault(f"{name} has {len(columns)} columns; one for each of {', '.join(roles.offered)} is needed")
    return columns


# A family of models is a line here.
_READERS: dict[type, Any] = {
    **dict.fromkeys((GPPLClassifier, CrowdGPPL), _read_comparisons),
    MaxMarginFactorization: _read_ratings,
    **dict.fromkeys((GPOrdinalRegressor, SVGPRegressor, SVGPClassifier), read_features),
    **dict.fromkeys(MACHINES, _read_machine),
}
