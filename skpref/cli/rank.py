"""``skpref rank``: items, or rows of a file, from the best to the worst by a saved model."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.pipeline import Pipeline

from skpref._estimator import last_step
from skpref._text import nearest
from skpref.cli.files import (
    Format,
    as_in_model,
    by_text,
    complete_rows,
    items_purpose,
    read_ids,
    read_sheet,
    read_table,
)
from skpref.cli.output import check_file, write_csv
from skpref.cli.predict import features_of, load_model, machine_columns
from skpref.cli.rankings import ranking_text, write_ranking
from skpref.cli.report import cut, print_json, say, table
from skpref.cli.tasks.layouts import with_coded_words
from skpref.cli.tasks.ratings import recommendations_text, recommended
from skpref.data.levels import numbers_of_levels
from skpref.exceptions import DataError
from skpref.factorization.fm import VariationalFM
from skpref.factorization.fm_classifier import VariationalFMClassifier
from skpref.factorization.fm_ordinal import VariationalFMOrdinal
from skpref.factorization.max_margin.base import MaxMarginFactorization
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.ordinal import GPOrdinalRegressor
from skpref.gp.pairwise import GPPLClassifier
from skpref.gp.sparse import SVGPClassifier, SVGPRegressor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from skpref._typing import Array
    from skpref.cli.files import Result
    from skpref.cli.options import Rank
    from skpref.data import Table
    from skpref.data.columns import Columns

_MACHINES = VariationalFM, VariationalFMClassifier, VariationalFMOrdinal
_OF_ROWS = GPOrdinalRegressor, SVGPRegressor, SVGPClassifier


def rank(options: Rank) -> int:
    """Rank known or new items."""
    check_file(options.out, options.model, options.items)
    model = load_model(options.model, options.items)
    last = last_step(model)
    if options.scale == "elo" and not isinstance(model, GPPLClassifier | CrowdGPPL):
        raise DataError(f"{options.model}: --scale elo is for models of comparisons")
    if options.groups is not None and not isinstance(model, CrowdGPPL):
        raise DataError(f"{options.model}: --groups is for models of a crowd that was learnt with --groups")
    fitted = hasattr(last, "posterior_")
    if fitted and isinstance(model, MaxMarginFactorization):
        _recommend(model, options)
    elif fitted and isinstance(last, (*_MACHINES, *_OF_ROWS)):
        _rank_rows(model, options)
    elif fitted and isinstance(model, GPPLClassifier | CrowdGPPL):
        _rank_items(model, options)
    else:
        kinds = "GPPLClassifier or CrowdGPPL (or model of ratings, labels or numbers)"
        raise DataError(f"{options.model}: holds no fitted {kinds}, as `skpref tune` writes them")
    if options.out is not None:
        say(options, f"\nWritten to {options.out}")
    return 0


# --------------------------------------------------------------------------------------------------------- comparisons
def _rank_items(model: GPPLClassifier | CrowdGPPL, options: Rank) -> None:
    """Rank by utility."""
    user = _user_of(model, options)
    items: Any = None
    if options.items is not None and model.items is None:
        items = _items_of(model.item_ids_, options)
    elif options.items is not None:
        if model.items.feature_names is None:
            name = type(model).__name__
            raise DataError(f"{options.model}: has no names of its features; rank with {name}.rank in Python")
        names, purpose = tuple(model.items.feature_names), items_purpose(options.id or "id")

        def read(sheet: Columns) -> Table:
            """Return ids and features."""
            id_column = options.id or sheet.usual("id")
            return read_table(with_coded_words(sheet, names), id_column, purpose, "item", names)

        items = _read(options, read)
    if isinstance(model, CrowdGPPL):
        ranking = model.rank(items, user, groups=_groups(model, options))
    else:
        ranking = model.rank(items)
    ranking = ranking.on_scale(options.scale, model.likelihood_)
    title = "Ranking" if options.user is None else f"Ranking by user {options.user[:80]!r}"
    title += f" in {', '.join(options.groups)[:80]}" if options.groups else ""
    if options.json:
        columns = ranking.columns()
        rows = zip(*(column.tolist()[: options.top] for column in columns.values()), strict=True)
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print(ranking_text(ranking, options.top, title))
    if options.out is not None:
        write_ranking(ranking, options.out)


def _sheet(options: Rank) -> Columns:
    """Return the file of items."""
    form = Format(options.separator, options.encoding, decimal=options.decimal)
    return read_sheet(cast("Path", options.items), form)


def _read(options: Rank, read: Callable[[Columns], Result]) -> Result:
    """Return what is read from the file of items."""
    return complete_rows(_sheet(options), read, options.missing)


def _groups(model: CrowdGPPL, options: Rank) -> dict[str, Any] | None:
    """Return the groups in which to rank, by the names of their columns; refuse unknown ones."""
    if options.groups is None:
        return None
    columns, groups = list(model.groups or ()), {}
    for text in options.groups:
        column, equals, group = text.partition("=")
        if not equals or column not in columns or column in groups:
            wanted = " or ".join(f"{name}=GROUP" for name in columns) or "nothing: the model has no groups"
            wanted += ", each once" if column in groups else ""
            raise DataError(f"{options.model}: --groups wants {wanted}; got {text[:80]!r}")
        texts = by_text(model.group_ids_[columns.index(column)])
        if group not in texts:
            hint = nearest(group, list(texts)) or f". It has {', '.join(list(texts)[:10])}"
            raise DataError(f"{options.model}: unknown group {group[:80]!r} of {column!r}{hint}")
        groups[column] = texts[group]
    return groups


def _user_of(model: GPPLClassifier | CrowdGPPL, options: Rank) -> Any:
    """Return the user as the model has it; refuse an unseen one, for whom the model would rank by the consensus."""
    if options.user is None:
        return None
    if not isinstance(model, CrowdGPPL):
        raise _one_view(options)
    ids = model.user_ids_ if model.users is None else model.users.ids
    return _known_id(options, options.user, ids, "the consensus")


def _one_view(options: Rank) -> DataError:
    return DataError(f"{options.model}: the model has one view for all users; leave --user out")


def _known_id(options: Rank, user: str, ids: Any, without: str = "") -> Any:
    """Return the id that is written so."""
    texts = by_text(ids)
    if user not in texts:
        hint = nearest(user, list(texts))
        more = f"{hint or '.'} Without --user, {without} ranks" if without else hint
        raise DataError(f"{options.model}: unknown user {user[:80]!r}{more}")
    return texts[user]


# ------------------------------------------------------------------------------------------------------------- ratings
def _recommend(model: MaxMarginFactorization, options: Rank) -> None:
    """Recommend items to a user."""
    if options.user is None:
        raise DataError(f"{options.model}: a model of ratings ranks for one user; name it by --user")
    user = _known_id(options, options.user, model.user_ids_)
    items = None if options.items is None else _items_of(model.item_ids_, options)
    n = model.item_ids_.size if options.out is not None else options.top
    rows = recommended(model, user, max(n, 0 if items is None else items.size), items)
    if options.json:
        print_json(rows[: options.top])
    else:
        print(recommendations_text(options.user, rows[: options.top]))
    if options.out is not None:
        names = list(rows[0]) if rows else ["user", "rank", "item", "level", "score", "std"]
        write_csv(options.out, names, (row.values() for row in rows))


def _items_of(ids: NDArray[Any], options: Rank) -> NDArray[Any]:
    """Return the ids of a file of items, as the model has them."""
    if options.items is None:
        return ids
    return as_in_model(_read(options, lambda sheet: read_ids(sheet, options.id or sheet.usual("id"))), ids)


# ---------------------------------------------------------------------------------------------------------------- rows
def _rank_rows(model: Any, options: Rank) -> None:
    """Rank rows of a file, or items for a user, by what is predicted of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names of columns are checked here
        names, predicted = (_of_user if isinstance(last_step(model), _MACHINES) else _of_file)(model, options)
    first = next(iter(predicted.values()))
    order = np.argsort(-first, kind="stable")
    columns = {"rank": np.arange(1, first.size + 1), "id": names[order]}
    columns |= {name: column[order] for name, column in predicted.items()}
    rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    shown = rows[: options.top]
    if options.json:
        print_json([dict(zip(columns, row, strict=True)) for row in shown])
    else:
        of_user = "" if options.user is None else f" for user {options.user[:80]!r}"
        print(f"Ranking{of_user} ({len(rows)})" if len(shown) == len(rows) else f"Ranking{of_user}, top {len(shown)}")
        cells = [[str(row[0]), cut(row[1]), *map("{:.4f}".format, row[2:])] for row in shown]
        print("\n".join(table(list(columns), cells)))
    if options.out is not None:
        write_csv(options.out, list(columns), rows)


def _of_file(model: Any, options: Rank) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Return names of the rows of the file, and what they are ranked by."""
    if options.user is not None:
        raise _one_view(options)
    if options.items is None:
        raise DataError(f"{options.model}: a model of features ranks the rows of a file; name it: rank MODEL ITEMS")
    sheet = _sheet(options)
    read = partial(_names_and_features, whole=sheet, model=model, options=options)
    names, X = complete_rows(sheet, read, options.missing)
    if isinstance(model, SVGPRegressor):
        mean, std = model.predict(X, return_std=True)
        return names, {"prediction": mean, "std": std}
    p = model.predict_proba(X)
    if isinstance(model, GPOrdinalRegressor):
        return names, _expected(p, model.classes_)
    if p.shape[1] > 2:
        classes = ", ".join(map(str, model.classes_.tolist()[:10]))
        raise DataError(f"{options.model}: its classes ({classes}) have no order to rank by; see `skpref predict`")
    return names, {f"p_{model.classes_[1]}": p[:, 1]}


def _names_and_features(sheet: Columns, whole: Columns, model: Any, options: Rank) -> tuple[NDArray[Any], Array]:
    """Return names of some rows of a file, which are their numbers in it where it has none, and their features."""
    X = features_of(model, sheet, options)
    sheet.require([] if options.id is None else [options.id], "It was asked for by --id")
    name = options.id or sheet.usual("id")
    return sheet.ids(name) if name in sheet.names else 1 + np.searchsorted(whole.lines, sheet.lines), X


def _of_user(model: Any, options: Rank) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Return items, and what is predicted of them for the user."""
    design: Any = model.steps[0][1] if isinstance(model, Pipeline) else None
    if not hasattr(design, "item_ids_"):
        raise DataError(f"{options.model}: a factorization machine ranks the items of a OneHotDesign only")
    if options.user is None:
        raise DataError(f"{options.model}: a model of users and items ranks for one user; name it by --user")
    user = _known_id(options, options.user, design.user_ids_)
    items = _items_of(design.item_ids_, options)
    pairs = np.empty((items.size, 2), dtype=object)
    pairs[:, 0], pairs[:, 1] = user, items.tolist()
    if isinstance(last_step(model), VariationalFMOrdinal):
        return pairs[:, 1], _expected(model.predict_proba(pairs), model.classes_)
    return pairs[:, 1], machine_columns(model, pairs)


def _expected(p: Array, levels: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return mean and standard deviation of a level; unless levels are numbers, of its place, where 1 is the lowest."""
    numeric = numbers_of_levels(levels.tolist())
    place = np.arange(1.0, p.shape[1] + 1.0) if numeric is None else numeric
    mean = p @ place
    name = "expected_place" if numeric is None else "expected_level"
    return {name: mean, "std": np.sqrt(np.maximum(p @ (place - place[0]) ** 2 - (mean - place[0]) ** 2, 0.0))}
