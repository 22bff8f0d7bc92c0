"""``skpref predict``: the rows of a file with the predictions of a saved model."""

from __future__ import annotations

import warnings
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from skpref._estimator import last_step
from skpref._text import nearest, printable
from skpref.cli.files import USERS, Format, as_in_model, by_text, complete_rows, counted, read_sheet, say_note
from skpref.cli.output import check_file, write_csv
from skpref.cli.report import cut, print_json, table
from skpref.cli.tasks.layouts import read_covariates, side_names
from skpref.cli.tasks.ratings import read_columns
from skpref.data import OneHotDesign
from skpref.data.labels import left_column
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
    from skpref.data.row_shards import ColumnDesign

_ROLES = "user", "item", "left", "right"  # options that name columns
_BOOLEANS = "false", "true"  # as pandas writes them, but for capitals

Predicted = dict[str, "NDArray[Any]"]


def predict(options: Predict) -> int:
    """Predict the rows of a file."""
    check_file(options.out, options.model, options.data)
    model = load_model(options.model, options.data)
    sheet = read_sheet(options.data, Format(options.separator, options.encoding, options.columns, options.decimal))
    options = _with_trained_columns(options, sheet)
    last = last_step(model)
    rules = [rule for cls, rule in _PREDICTED.items() if isinstance(last, cls) and hasattr(last, "posterior_")]
    if not rules:
        kinds = ", ".join(cls.__name__ for cls in _PREDICTED)
        raise DataError(f"{options.model}: holds no fitted model that predicts rows of a file ({kinds})")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names of columns are checked here
        sheet, predicted = complete_rows(sheet, lambda rows: (rows, rules[0](model, rows, options)), options.missing)
    cells = {name: sheet.values[name] for name in sheet.names if name not in predicted}
    columns = {**cells, **{name: column.tolist() for name, column in predicted.items()}}
    rows = list(zip(*columns.values(), strict=True))
    if options.json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    if options.out is not None:
        write_csv(options.out, list(columns), rows)
    if options.json:
        return 0
    if options.out is not None:
        print(f"{counted(len(rows), 'rows')} written to {options.out}")
    else:
        shown = rows[: options.top]
        print("\n".join(table(list(columns), [[_cell(cell) for cell in row] for row in shown])))
        if len(shown) < len(rows):
            print(f"  ... {len(rows)} rows; --out FILE writes all of them")
    return 0


def _with_trained_columns(options: Predict, sheet: Columns) -> Predict:
    """Return options with the columns that the model was learnt from, where the file has them; options come first."""
    trained = {role: name for role, name in columns_of(options.model).items() if role in _ROLES}
    used: dict[str, Any] = {
        r: name for r, name in trained.items() if getattr(options, r) is None and name in sheet.values
    }
    shown = ", ".join(f"{role} from {printable(name)!r}" for role, name in used.items() if name != role)
    if shown:
        say_note(f"read {shown}, the columns that the model was learnt from")
    return replace(options, **used)


def load_model(path: Path, data: Path | None) -> Any:
    """Load a model; where the file of data is one, say that the two were swapped."""
    try:
        return load(path)
    except ModelFormatError as error:
        if data is not None and zipfile.is_zipfile(data):
            raise DataError(f"{error}; {data} seems to be one: the model comes first, then the data") from error
        raise


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else cut(value)


def _pairs(model: GPPLClassifier, sheet: Columns, options: Predict) -> Predicted:
    names = side_names(sheet, options)
    sheet.require(names, "The file to predict has the columns left and right, or others named by --left and --right")
    return _answers(model, [*_sides(model, sheet, names), *_covariates(model, sheet)])


def _covariates(model: GPPLClassifier | CrowdGPPL, sheet: Columns) -> list[NDArray[Any]]:
    """Return the columns of the covariates of the model."""
    names = tuple(model.covariate_names_.tolist())
    if names and not any(column in name for name in names for column in sheet.values):
        sheet.notes.append(f"the file has no covariates; predictions are for no difference in {', '.join(names)}")
        return []
    return list(read_covariates(sheet, names).T.astype(object)) if names else []


def _answers(model: GPPLClassifier | CrowdGPPL, columns: list[NDArray[Any]]) -> Predicted:
    """Return the probability that the left item is preferred, and those of three answers where a tie is one."""
    X = np.column_stack(columns)
    predicted: Predicted = {"probability_left": model.predict_proba(X)[:, left_column(model.classes_)]}
    if model.likelihood_.ties_are_answers:
        predicted |= zip(("p_left", "p_tie", "p_right"), model.predict_proba(X, ties=True).T, strict=True)
    return predicted


def _sides(model: GPPLClassifier | CrowdGPPL, sheet: Columns, names: tuple[str, str]) -> list[NDArray[Any]]:
    """Return ids on either side; a model with a table of items predicts nothing for items that are not in it."""
    table = getattr(model.items, "ids", None)
    ids = model.item_ids_ if table is None else table
    return [_ids(sheet, name, "item", ids, strict=table is not None) for name in names]


def _ids(sheet: Columns, name: str, noun: str, trained: NDArray[Any], *, strict: bool = False) -> NDArray[Any]:
    """Return a column of ids as the model has them; for unseen ids it predicts from the prior."""
    cells, texts = sheet.ids(name, noun), by_text(trained)
    unknown = [row for row, cell in enumerate(cells.tolist()) if cell not in texts]
    if unknown:
        cell = cells[unknown[0]]
        more = f" ({len(unknown)} such cells)" if len(unknown) > 1 else ""
        hint = nearest(cell, list(texts))
        problem = sheet.fault(f"the model knows no {noun} {cell[:80]!r}{hint}{more}", unknown[0], name)
        if strict:
            raise problem
        sheet.notes.append(f"{problem}; the prediction is that for an unseen {noun}")
    return as_in_model(cells, trained)


def _crowd(model: CrowdGPPL, sheet: Columns, options: Predict) -> Predicted:
    user = options.user or sheet.usual(*USERS)
    purpose = f"The file to predict has the columns {user} (or another one, named by --user), left and right"
    names = side_names(sheet, options)
    sheet.require((user, *names), purpose)
    asked = _ids(sheet, user, "user", getattr(model.users, "ids", model.user_ids_))
    groups = list(model.groups) if model.group_ids_ else []
    sheet.require(groups, "The model was learnt with --groups")
    of_groups = [_ids(sheet, name, "group", ids) for name, ids in zip(groups, model.group_ids_, strict=True)]
    return _answers(model, [asked, *_sides(model, sheet, names), *_covariates(model, sheet), *of_groups])


def _rated(trained: Any, sheet: Columns, options: Predict) -> NDArray[Any]:
    """Return ids of users and items; `trained` has those of the training."""
    names = read_columns(sheet, options, ("user", "item"))
    return np.column_stack([_ids(sheet, name, noun, getattr(trained, f"{noun}_ids_")) for noun, name in names.items()])


def _stars(model: MaxMarginFactorization, sheet: Columns, options: Predict) -> Predicted:
    X = _rated(model, sheet, options)
    mean, std = model.predict_score(X, return_std=True)
    return {"level": model.predict(X), "score": mean, "std": std, **_by_level(model, X)}


def _machine(model: Any, sheet: Columns, options: Predict) -> Predicted:
    design = last_step(model).design_
    if design is not None:
        return machine_columns(model, _rows_of(design, sheet))
    if not isinstance(model, Pipeline) or not isinstance(model.steps[0][1], OneHotDesign):
        fitted = "pairs of ids behind a OneHotDesign, or the columns of the files that it was fitted to"
        raise DataError(f"{options.model}: a factorization machine predicts {fitted}; predict with it in Python")
    return machine_columns(model, _rated(model.steps[0][1], sheet, options))


def _rows_of(design: ColumnDesign, sheet: Columns) -> NDArray[Any]:
    """Return the columns of ids and numbers of a factorization machine that was fitted to files, shape (n, d)."""
    sheet.require(design.names, "The model was fitted with it")
    columns = [
        _numbers_or_booleans(sheet, name) if ids is None else _ids(sheet, name, name, ids.ids)
        for name, ids in zip(design.names, design.ids, strict=True)
    ]
    return np.column_stack([column.astype(object) for column in columns])


def _numbers_or_booleans(sheet: Columns, name: str) -> NDArray[Any]:
    texts = [text.lower() for text in sheet.texts(name)]
    if all(text in _BOOLEANS for text in texts):
        return np.array([text == _BOOLEANS[1] for text in texts])
    return sheet.numbers(name, meaning="the model was fitted to numbers")


def machine_columns(model: Any, X: NDArray[Any]) -> Predicted:
    """Return what a factorization machine says of rows."""
    if isinstance(last_step(model), VariationalFMClassifier):
        return {"probability": model.predict_proba(X)[:, 1]}
    if isinstance(last_step(model), VariationalFMOrdinal):
        return {"level": model.predict(X), **_by_level(model, X)}
    mean, std = model.predict(X, return_std=True)
    return {"prediction": mean, "std": std}


def features_of(model: Any, sheet: Columns, options: Predict | Rank) -> NDArray[Any]:
    """Return the columns that a model of features was fitted with, shape (n, d)."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise DataError(f"{options.model}: has no names of its features; predict with it in Python")
    sheet.require(names.tolist(), "The model was fitted with it")
    return sheet.matrix(names.tolist(), "features are numeric")


def _levels(model: GPOrdinalRegressor, sheet: Columns, options: Predict) -> Predicted:
    X = features_of(model, sheet, options)
    return {"level": model.predict(X), **_by_level(model, X)}


def _numbers(model: SVGPRegressor, sheet: Columns, options: Predict) -> Predicted:
    mean, std = model.predict(features_of(model, sheet, options), return_std=True)
    return {"prediction": mean, "std": std}


def _classes(model: SVGPClassifier, sheet: Columns, options: Predict) -> Predicted:
    X = features_of(model, sheet, options)
    return {"class": model.predict(X), **_by_level(model, X)}


def _by_level(model: Any, X: NDArray[Any]) -> Predicted:
    probabilities = model.predict_proba(X)
    return {f"p_{level}": column for level, column in zip(model.classes_.tolist(), probabilities.T, strict=True)}


# A family of models is a line here.
_PREDICTED: dict[type, Any] = {
    GPPLClassifier: _pairs,
    CrowdGPPL: _crowd,
    MaxMarginFactorization: _stars,
    GPOrdinalRegressor: _levels,
    SVGPRegressor: _numbers,
    SVGPClassifier: _classes,
    VariationalFM: _machine,
    VariationalFMClassifier: _machine,
    VariationalFMOrdinal: _machine,
}
