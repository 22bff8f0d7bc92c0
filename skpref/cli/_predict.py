"""``skpref predict``: the rows of a file with what a saved model says of them."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from skpref._estimator import last_step
from skpref.cli._files import nearest, read_sheet
from skpref.cli._ratings import read_columns
from skpref.cli._report import cut, print_json, table, write_csv
from skpref.data import OneHotDesign
from skpref.exceptions import DataError
from skpref.factorization.fm import VariationalFM, VariationalFMClassifier
from skpref.factorization.max_margin.base import MaxMarginFactorization
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.ordinal import GPOrdinalRegressor
from skpref.gp.pairwise import GPPLClassifier
from skpref.gp.sparse import SVGPClassifier, SVGPRegressor

if TYPE_CHECKING:
    import argparse

    from numpy.typing import NDArray

    from skpref.cli._files import Sheet

Columns = dict[str, "NDArray[Any]"]


def predict(model: Any, arguments: argparse.Namespace) -> int:
    """Predict the rows of a file."""
    sheet = read_sheet(arguments.data)
    last = last_step(model)
    known = [rule for cls, rule in _PREDICTED.items() if isinstance(last, cls) and hasattr(last, "posterior_")]
    if not known:
        kinds = ", ".join(cls.__name__ for cls in _PREDICTED)
        raise DataError(f"{arguments.model}: holds no fitted model that predicts rows of a file ({kinds})")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names of columns are checked here
        found = known[0](model, sheet, arguments)
    cells = {name: sheet.columns[name] for name in sheet.names if name not in found}
    columns = {**cells, **{name: column.tolist() for name, column in found.items()}}
    rows = list(zip(*columns.values(), strict=True))
    if arguments.out is not None:
        write_csv(arguments.out, list(columns), rows)
    if arguments.json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif arguments.out is not None:
        print(f"{len(rows)} rows written to {arguments.out}")
    else:
        shown = rows[: arguments.top]
        print("\n".join(table(list(columns), [[_cell(cell) for cell in row] for row in shown])))
        if len(shown) < len(rows):
            print(f"  ... {len(rows)} rows; --out FILE writes all of them")
    return 0


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else cut(value)


def _pairs(model: GPPLClassifier, sheet: Sheet, _: argparse.Namespace) -> Columns:
    sheet.require(("left", "right"), "A file of questions has the columns left and right")
    columns = _sides(model, sheet)
    return {"probability_left": model.predict_proba(np.column_stack(columns))[:, 1]}


def _sides(model: GPPLClassifier | CrowdGPPL, sheet: Sheet) -> list[NDArray[Any]]:
    """Ids on either side; of what a model with a table of items does not know, nothing can be said."""
    table = getattr(model.items, "ids", None)
    known = model.item_ids_ if table is None else table
    return [_ids(sheet, name, "item", known, strict=table is not None) for name in ("left", "right")]


def _ids(sheet: Sheet, name: str, noun: str, known: NDArray[Any], *, strict: bool = False) -> NDArray[Any]:
    """A column of ids as the model has them; of one that it does not know, the prior is all that it can say."""
    by_text = {str(one): one for one in known.tolist()}
    cells = sheet.ids(name, noun)
    unknown = [row for row, cell in enumerate(cells.tolist()) if cell not in by_text]
    if unknown:
        cell = cells[unknown[0]]
        more = f" ({len(unknown)} such cells)" if len(unknown) > 1 else ""
        hint = nearest(cell, list(by_text)[:5000])
        problem = sheet.fault(f"the model knows no {noun} {cell[:80]!r}{hint}{more}", unknown[0], name)
        if strict:
            raise problem
        print(f"skpref: note: {problem}; it is taken for a stranger", file=sys.stderr)
    ids = np.empty(cells.size, dtype=object)
    ids[:] = [by_text.get(cell, cell) for cell in cells.tolist()]
    return ids


def _crowd(model: CrowdGPPL, sheet: Sheet, arguments: argparse.Namespace) -> Columns:
    user = arguments.user or "user"
    purpose = f"A file of questions to a crowd has the columns {user} (or another one, named by --user), left and right"
    sheet.require((user, "left", "right"), purpose)
    asked = _ids(sheet, user, "user", getattr(model.users, "ids", model.user_ids_))
    return {"probability_left": model.predict_proba(np.column_stack([asked, *_sides(model, sheet)]))[:, 1]}


def _rated(knows: Any, sheet: Sheet, arguments: argparse.Namespace) -> NDArray[Any]:
    """Ids of users and items; `knows` has those of the training."""
    names = read_columns(sheet, arguments, ("user", "item"))
    return np.column_stack([_ids(sheet, name, noun, getattr(knows, f"{noun}_ids_")) for noun, name in names.items()])


def _stars(model: MaxMarginFactorization, sheet: Sheet, arguments: argparse.Namespace) -> Columns:
    X = _rated(model, sheet, arguments)
    mean, std = model.predict_score(X, return_std=True)
    return {"level": model.predict(X), "score": mean, "std": std, **_by_level(model, X)}


def _machine(model: Pipeline, sheet: Sheet, arguments: argparse.Namespace) -> Columns:
    if not isinstance(model, Pipeline) or not isinstance(model.steps[0][1], OneHotDesign):
        raise DataError(f"{arguments.model}: a factorization machine predicts pairs of ids behind a OneHotDesign only")
    return machine_columns(model, _rated(model.steps[0][1], sheet, arguments))


def machine_columns(model: Pipeline, X: NDArray[Any]) -> Columns:
    """Return what a factorization machine behind a `OneHotDesign` says of pairs of ids, shape (n,)."""
    if isinstance(last_step(model), VariationalFMClassifier):
        return {"probability": model.predict_proba(X)[:, 1]}
    mean, std = model.predict(X, return_std=True)
    return {"prediction": mean, "std": std}


def features_of(model: Any, sheet: Sheet, arguments: argparse.Namespace) -> NDArray[Any]:
    """Return the columns that a model of features was fitted with, shape (n, d)."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise DataError(f"{arguments.model}: does not know the names of its features; predict with it in Python")
    sheet.require(names.tolist(), "The model was fitted with it")
    return np.column_stack([sheet.numbers(name, meaning="features are numeric") for name in names.tolist()])


def _levels(model: GPOrdinalRegressor, sheet: Sheet, arguments: argparse.Namespace) -> Columns:
    X = features_of(model, sheet, arguments)
    return {"level": model.predict(X), **_by_level(model, X)}


def _numbers(model: SVGPRegressor, sheet: Sheet, arguments: argparse.Namespace) -> Columns:
    mean, std = model.predict(features_of(model, sheet, arguments), return_std=True)
    return {"prediction": mean, "std": std}


def _classes(model: SVGPClassifier, sheet: Sheet, arguments: argparse.Namespace) -> Columns:
    X = features_of(model, sheet, arguments)
    return {"class": model.predict(X), **_by_level(model, X)}


def _by_level(model: Any, X: NDArray[Any]) -> Columns:
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
}
