"""``skpref rank`` with models of rows: the rows of a file, or the items for one user, by what is predicted of them."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from skpref._estimator import last_step
from skpref.cli._files import nearest, read_sheet
from skpref.cli._inputs import read_ids
from skpref.cli._predict import features_of, machine_columns
from skpref.cli._report import cut, print_json, table, write_csv
from skpref.exceptions import DataError
from skpref.factorization.fm import VariationalFM, VariationalFMClassifier
from skpref.gp.ordinal import GPOrdinalRegressor
from skpref.gp.sparse import SVGPClassifier, SVGPRegressor

if TYPE_CHECKING:
    import argparse

    from numpy.typing import NDArray

_MACHINES = VariationalFM, VariationalFMClassifier
_OF_ROWS = GPOrdinalRegressor, SVGPRegressor, SVGPClassifier


def ranks_rows(model: Any) -> bool:
    """Whether a model is one of rows that can be ranked."""
    last = last_step(model)
    return isinstance(last, (*_MACHINES, *_OF_ROWS)) and hasattr(last, "posterior_")


def rank_rows(model: Any, arguments: argparse.Namespace) -> int:
    """Rank rows of a file, or items for a user, by what is predicted of them."""
    last = last_step(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names of columns are checked here
        names, found = (_items if isinstance(last, _MACHINES) else _rows)(model, arguments)
    first = next(iter(found.values()))
    order = np.argsort(-first, kind="stable")
    columns = {"rank": np.arange(1, first.size + 1), "id": names[order]}
    columns |= {name: column[order] for name, column in found.items()}
    rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    shown = rows[: arguments.top]
    if arguments.json:
        print_json([dict(zip(columns, row, strict=True)) for row in shown])
    else:
        of_user = "" if arguments.user is None else f" for user {arguments.user[:80]!r}"
        print(f"Ranking{of_user} ({len(rows)})" if len(shown) == len(rows) else f"Ranking{of_user}, top {len(shown)}")
        cells = [[str(row[0]), cut(row[1]), *map("{:.4f}".format, row[2:])] for row in shown]
        print("\n".join(table(list(columns), cells)))
    if arguments.out is not None:
        write_csv(arguments.out, list(columns), rows)
        print(f"\nWritten to {arguments.out}", file=sys.stderr if arguments.json else sys.stdout)
    return 0


def _rows(model: Any, arguments: argparse.Namespace) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Names of the rows of the file, and what they are ranked by."""
    if arguments.user is not None:
        raise DataError(f"{arguments.model}: the model does not tell users apart; leave --user out")
    if arguments.items is None:
        raise DataError(f"{arguments.model}: a model of features ranks the rows of a file; name it: rank MODEL ITEMS")
    sheet = read_sheet(arguments.items)
    X = features_of(model, sheet, arguments)
    sheet.require([] if arguments.id is None else [arguments.id], "It was asked for by --id")
    name = arguments.id or "id"
    names = sheet.ids(name) if name in sheet.names else np.arange(1, len(X) + 1)
    if isinstance(model, SVGPRegressor):
        mean, std = model.predict(X, return_std=True)
        return names, {"prediction": mean, "std": std}
    p = model.predict_proba(X)
    if isinstance(model, GPOrdinalRegressor):
        place = np.arange(1, p.shape[1] + 1)  # of the level: 1 is the lowest
        mean = p @ place
        return names, {"expected_place": mean, "std": np.sqrt(np.maximum(p @ place**2 - mean**2, 0.0))}
    if p.shape[1] > 2:
        known = ", ".join(map(str, model.classes_.tolist()[:10]))
        raise DataError(f"{arguments.model}: its classes ({known}) have no order to rank by; see `skpref predict`")
    return names, {f"p_{model.classes_[1]}": p[:, 1]}


def _items(model: Any, arguments: argparse.Namespace) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Items, and what is predicted of them for the user."""
    design: Any = model.steps[0][1] if isinstance(model, Pipeline) else None
    if not hasattr(design, "item_ids_"):
        raise DataError(f"{arguments.model}: a factorization machine ranks the items of a OneHotDesign only")
    user, users = arguments.user, {str(one): one for one in design.user_ids_.tolist()}
    if user is None:
        raise DataError(f"{arguments.model}: a model of users and items ranks for one user; name it by --user")
    if user not in users:
        raise DataError(f"{arguments.model}: unknown user {user[:80]!r}{nearest(user, list(users)[:5000])}")
    items = design.item_ids_.tolist()
    if arguments.items is not None:
        known = {str(one): one for one in items}
        items = [known.get(name, name) for name in read_ids(arguments.items, arguments.id or "id").tolist()]
    pairs = np.empty((len(items), 2), dtype=object)
    pairs[:, 0], pairs[:, 1] = users[user], items
    return pairs[:, 1], machine_columns(model, pairs)
