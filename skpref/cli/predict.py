"""``skpref predict``: the rows of a file with the predictions of a saved model."""

from __future__ import annotations

import warnings
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from skpref._estimator import last_step
from skpref._text import printable
from skpref.cli.files import USERS, Format, complete_rows, counted, read_sheet, say_note
from skpref.cli.ids import read_ids
from skpref.cli.output import check_file, write_columns
from skpref.cli.predicted_tasks import predict_tasks
from skpref.cli.report import cut, print_json, table
from skpref.cli.tasks.layouts import read_covariates, side_names
from skpref.cli.tasks.ratings import read_columns
from skpref.data import OneHotDesign
from skpref.data.labels import left_column
from skpref.data.times import read_times, to_cells
from skpref.exceptions import DataError, ModelFormatError
from skpref.factorization.fm import VariationalFM
from skpref.factorization.fm_classifier import VariationalFMClassifier
from skpref.factorization.fm_ordinal import VariationalFMOrdinal
from skpref.factorization.max_margin.base import MaxMarginFactorization
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.ordinal import GPOrdinalRegressor
from skpref.gp.pairwise import GPPLClassifier
from skpref.gp.sparse import SVGPClassifier, SVGPRegressor
from skpref.persistence import columns_of, load

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from skpref.cli.options import Predict, Rank
    from skpref.data.columns import Columns

_ROLES = "user", "item", "left", "right", "time"  # options that name columns
_LISTS = "offered", "contest", "features"  # options that name several
_BOOLEANS = "false", "true"  # as pandas writes them, but for capitals
MACHINES = VariationalFM, VariationalFMClassifier, VariationalFMOrdinal

Predicted = dict[str, "NDArray[Any]"]


def predict(options: Predict) -> int:
    """Predict the rows of a file."""
    check_file(options.out, options.model, options.data)
    model = load_model(options.model, options.data)
    sheet = read_sheet(options.data, Format(options.separator, options.encoding, options.columns, options.decimal))
    options, last = _with_trained_columns(options, sheet), last_step(model)
    has_tasks = getattr(last, "_has_tasks", False)
    readers = [read for cls, read in _READERS.items() if isinstance(last, cls) and hasattr(last, "posterior_")]
    if not readers:
        kinds = ", ".join(cls.__name__ for cls in _READERS)
        raise DataError(f"{options.model}: holds no fitted model that predicts rows of a file ({kinds})")

    def read_and_predict(rows: Columns) -> tuple[Columns, Predicted]:
        """Return the rows that are complete, and their predictions."""
        if has_tasks:
            return rows, predict_tasks(model, rows, options)
        return rows, predictions(model, readers[0](model, rows, options))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names of columns are checked here
        sheet, predicted = complete_rows(sheet, read_and_predict, options.missing)
    columns = {name: sheet.values[name] for name in sheet.names if name not in predicted}
    if len(columns) < len(sheet.names):
        replaced = ", ".join(printable(name) for name in sheet.names if name in predicted)
        say_note(f"predictions stand in the place of the columns {replaced} of {options.data}")
    columns |= {name: column.tolist() for name, column in predicted.items()}
    rows = list(zip(*columns.values(), strict=True))
    if options.json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    if options.out is not None:
        write_columns(columns, options.out)
    if not options.json and options.out is not None:
        print(f"{counted(len(rows), 'rows')} written to {options.out}")
    elif not options.json:
        shown = [[f"{x:.4f}" if isinstance(x, float) else cut(x) for x in row] for row in rows[: options.top]]
        print("\n".join(table(list(columns), shown)))
        if len(shown) < len(rows):
            print(f"  ... {len(rows)} rows; --out FILE writes all of them")
    return 0


def load_model(path: Path, data: Path | None) -> Any:
    """Load a model; where the file of data is one, say that the two were swapped."""
    try:
        return load(path)
    except ModelFormatError as error:
        if data is not None and zipfile.is_zipfile(data):
            raise DataError(f"{error}; {data} seems to be one: the model comes first, then the data") from error
        raise


def _with_trained_columns(options: Predict, sheet: Columns) -> Predict:
    """Return options with the columns that the model was learnt from, where the file has them; options come first."""
    trained = columns_of(options.model)
    used: dict[str, Any] = {
        role: name
        for role, name in trained.items()
        if role in _ROLES and getattr(options, role) is None and name in sheet.values
    }
    shown = ", ".join(f"{role} from {printable(name)!r}" for role, name in used.items() if name != role)
    if shown:
        say_note(f"read {shown}, the columns that the model was learnt from")
    lists = {role: tuple(name for key, name in trained.items() if key.startswith(f"{role}:")) for role in _LISTS}
    if {options.offered, options.contest, options.left, options.right} == {None}:
        used |= {role: names for role, names in lists.items() if names}
    elif options.contest is not None:
        used["features"] = lists["features"]
    return replace(options, none=trained.get("none"), **used)


# --------------------------------------------------------------------------------------------------------- predictions
def predictions(model: Any, X: NDArray[Any]) -> Predicted:
    """Return what a model says of rows, the most important column first."""
    last = last_step(model)
    if isinstance(last, GPPLClassifier | CrowdGPPL):
        predicted: Predicted = {"probability_left": model.predict_proba(X)[:, left_column(model.classes_)]}
        if model.likelihood_.ties_are_answers:
            predicted |= zip(("p_left", "p_tie", "p_right"), model.predict_proba(X, ties=True).T, strict=True)
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
def _read_comparisons(model: GPPLClassifier | CrowdGPPL, sheet: Columns, options: Predict) -> NDArray[Any]:
    """Return ids of users and items, covariates and groups; a table of items has all items that can be predicted."""
    names, users, groups = side_names(sheet, options), [], []
    if isinstance(model, CrowdGPPL):
        users, groups = [options.user or sheet.usual(*USERS)], list(model.groups) if model.group_ids_ else []
    more = f"{users[0]} (or another one, named by --user), " if users else ""
    wanted = f"The file to predict has the columns {more}left and right, or others named by --left and --right"
    sheet.require((*users, *names), wanted)
    sheet.require(groups, "The model was learnt with --groups")
    table = getattr(model.items, "ids", None)
    ids = model.item_ids_ if table is None else table
    columns = [read_ids(sheet, user, getattr(model.users, "ids", model.user_ids_), "user") for user in users]
    columns += [read_ids(sheet, name, ids, strict=table is not None) for name in names]
    columns += _covariates(model, sheet)
    columns += [read_ids(sheet, name, model.group_ids_[k], "group") for k, name in enumerate(groups)]
    if getattr(model, "time", None) is not None:
        name = options.time or sheet.usual("time", "date")
        sheet.require((name,), "The model was learnt with --time; name the column of times by --time")
        times, is_dated = read_times(sheet, name)
        columns.append(to_cells(times, is_dated=is_dated))
    return np.column_stack(columns)


def _covariates(model: GPPLClassifier | CrowdGPPL, sheet: Columns) -> list[NDArray[Any]]:
    """Return the columns of the covariates of the model."""
    names = tuple(model.covariate_names_.tolist())
    if names and not any(column in name for name in names for column in sheet.values):
        sheet.notes.append(f"the file has no covariates; predictions are for no difference in {', '.join(names)}")
        return [] if getattr(model, "time", None) is None else [np.zeros(sheet.size)] * len(names)
    return list(read_covariates(sheet, names).T.astype(object)) if names else []


def _read_ratings(trained: Any, sheet: Columns, options: Predict) -> NDArray[Any]:
    """Return ids of users and items; `trained` has those of the training."""
    names = read_columns(sheet, options, ("user", "item"))
    return np.column_stack(
        [read_ids(sheet, name, getattr(trained, f"{noun}_ids_"), noun) for noun, name in names.items()]
    )


def _read_machine(model: Any, sheet: Columns, options: Predict) -> NDArray[Any]:
    design = last_step(model).design_
    if design is None and isinstance(model, Pipeline) and isinstance(model.steps[0][1], OneHotDesign):
        return _read_ratings(model.steps[0][1], sheet, options)
    if design is None:
        fitted = "pairs of ids behind a OneHotDesign, or the columns of the files that it was fitted to"
        raise DataError(f"{options.model}: a factorization machine predicts {fitted}; predict with it in Python")
    sheet.require(design.names, "The model was fitted with it")
    columns = [
        _numbers_or_booleans(sheet, name) if ids is None else read_ids(sheet, name, ids.ids, name)
        for name, ids in zip(design.names, design.ids, strict=True)
    ]
    return np.column_stack([column.astype(object) for column in columns])


def _numbers_or_booleans(sheet: Columns, name: str) -> NDArray[Any]:
    texts = [text.lower() for text in sheet.texts(name)]
    if all(text in _BOOLEANS for text in texts):
        return np.array([text == _BOOLEANS[1] for text in texts])
    return sheet.numbers(name, meaning="the model was fitted to numbers")


def read_features(model: Any, sheet: Columns, options: Predict | Rank) -> NDArray[Any]:
    """Return the columns that a model of features was fitted with, shape (n, d)."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise DataError(f"{options.model}: has no names of its features; predict with it in Python")
    sheet.require(names.tolist(), "The model was fitted with it")
    return sheet.matrix(names.tolist(), "features are numeric")


# A family of models is a line here.
_READERS: dict[type, Any] = {
    **dict.fromkeys((GPPLClassifier, CrowdGPPL), _read_comparisons),
    MaxMarginFactorization: _read_ratings,
    **dict.fromkeys((GPOrdinalRegressor, SVGPRegressor, SVGPClassifier), read_features),
    **dict.fromkeys(MACHINES, _read_machine),
}
