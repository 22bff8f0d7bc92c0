"""``skpref rank``: items, or rows of a file, from the best to the worst by a saved model."""

from __future__ import annotations

import warnings
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
from skpref.cli.predict import MACHINES, load_model, predictions, read_features
from skpref.cli.rankings import ranking_text, write_columns
from skpref.cli.report import cut, print_json, say, table
from skpref.cli.tasks.layouts import with_coded_words
from skpref.cli.tasks.ratings import RECOMMENDED, recommendations_text, recommended
from skpref.data.levels import numbers_of_levels
from skpref.exceptions import DataError
from skpref.factorization.fm_ordinal import VariationalFMOrdinal
from skpref.factorization.max_margin.base import MaxMarginFactorization
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.ordinal import GPOrdinalRegressor
from skpref.gp.pairwise import GPPLClassifier
from skpref.gp.sparse import SVGPClassifier, SVGPRegressor

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from skpref._typing import Array
    from skpref.cli.options import Rank
    from skpref.cli.predict import Predicted
    from skpref.data.columns import Columns


def rank(options: Rank) -> int:
    """Rank known or new items."""
    check_file(options.out, options.model, options.items)
    model = load_model(options.model, options.items)
    last, pairs = last_step(model), isinstance(model, GPPLClassifier | CrowdGPPL)
    if options.scale == "elo" and not pairs:
        raise DataError(f"{options.model}: --scale elo is for models of comparisons")
    if options.groups is not None and not isinstance(model, CrowdGPPL):
        raise DataError(f"{options.model}: --groups is for models of a crowd that was learnt with --groups")
    fitted = hasattr(last, "posterior_")
    if fitted and isinstance(model, MaxMarginFactorization):
        _recommend(model, options)
    elif fitted and isinstance(last, (*MACHINES, GPOrdinalRegressor, SVGPRegressor, SVGPClassifier)):
        _rank_rows(model, options)
    elif fitted and pairs:
        _rank_items(model, options)
    else:
        kinds = "GPPLClassifier or CrowdGPPL (or model of ratings, labels or numbers)"
        raise DataError(f"{options.model}: holds no fitted {kinds}, as `skpref tune` writes them")
    if options.out is not None:
        say(options, f"\nWritten to {options.out}")
    return 0


def _sheet(options: Rank) -> Columns:
    """Return the file of items."""
    form = Format(options.separator, options.encoding, decimal=options.decimal)
    return read_sheet(cast("Path", options.items), form)


def _items_of(ids: NDArray[Any], options: Rank) -> NDArray[Any]:
    """Return the ids of a file of items, as the model has them; all ids of the model without a file."""
    if options.items is None:
        return ids
    read = complete_rows(_sheet(options), lambda rows: read_ids(rows, options.id or rows.usual("id")), options.missing)
    return as_in_model(read, ids)


def _known(options: Rank, what: str, text: str, ids: Any, more: str = "") -> Any:
    """Return the id of a user or a group that is written so."""
    texts = by_text(ids)
    if text not in texts:
        hint = nearest(text, list(texts))
        raise DataError(f"{options.model}: unknown {what.format(repr(text[:80]))}{hint or ('.' if more else '')}{more}")
    return texts[text]


def _one_view(options: Rank) -> DataError:
    return DataError(f"{options.model}: the model has one view for all users; leave --user out")


# --------------------------------------------------------------------------------------------------------- comparisons
def _rank_items(model: GPPLClassifier | CrowdGPPL, options: Rank) -> None:
    """Rank by utility."""
    ranking: Any
    if isinstance(model, CrowdGPPL):
        ids = model.user_ids_ if model.users is None else model.users.ids
        without = " Without --user, the consensus ranks"
        user = None if options.user is None else _known(options, "user {}", options.user, ids, without)
        ranking = model.rank(_items_to_rank(model, options), user, groups=_groups(model, options))
    elif options.user is not None:
        raise _one_view(options)
    else:
        ranking = model.rank(_items_to_rank(model, options))
    ranking = ranking.on_scale(options.scale, model.likelihood_)
    title = "Ranking" if options.user is None else f"Ranking by user {options.user[:80]!r}"
    title += f" in {', '.join(options.groups)[:80]}" if options.groups else ""
    _show(options, ranking.columns(), ranking_text(ranking, options.top, title))


def _items_to_rank(model: GPPLClassifier | CrowdGPPL, options: Rank) -> Any:
    """Return the items of the file, with their features where the model has some; None without a file."""
    if options.items is None:
        return None
    if model.items is None:
        return _items_of(model.item_ids_, options)
    names = model.items.feature_names
    if names is None:
        called = type(model).__name__
        raise DataError(f"{options.model}: has no names of its features; rank with {called}.rank in Python")
    names, purpose = tuple(names), items_purpose(options.id or "id")

    def read(sheet: Columns) -> Any:
        """Return ids and features."""
        return read_table(with_coded_words(sheet, names), options.id or sheet.usual("id"), purpose, "item", names)

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
        ids = model.group_ids_[columns.index(column)]
        groups[column] = _known(
            options, f"group {{}} of {column!r}", group, ids, f" It has {', '.join(list(by_text(ids))[:10])}"
        )
    return groups


def _show(options: Rank, columns: Predicted, text: str) -> None:
    """Print and write a ranking."""
    rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    if options.json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows[: options.top]])
    else:
        print(text)
    if options.out is not None:
        write_columns(columns, options.out)


# ------------------------------------------------------------------------------------------------------------- ratings
def _recommend(model: MaxMarginFactorization, options: Rank) -> None:
    """Recommend items to a user."""
    if options.user is None:
        raise DataError(f"{options.model}: a model of ratings ranks for one user; name it by --user")
    user = _known(options, "user {}", options.user, model.user_ids_)
    items = None if options.items is None else _items_of(model.item_ids_, options)
    n = model.item_ids_.size if options.out is not None else options.top
    rows = recommended(model, user, max(n, 0 if items is None else items.size), items)
    if options.json:
        print_json(rows[: options.top])
    else:
        print(recommendations_text(options.user, rows[: options.top]))
    if options.out is not None:
        write_csv(options.out, RECOMMENDED, (row.values() for row in rows))


# ---------------------------------------------------------------------------------------------------------------- rows
def _rank_rows(model: Any, options: Rank) -> None:
    """Rank rows of a file, or items for a user, by what is predicted of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names of columns are checked here
        names, X = (_rows_of_user if isinstance(last_step(model), MACHINES) else _rows_of_file)(model, options)
        predicted = _scores(model, X, options)
    order = np.argsort(-next(iter(predicted.values())), kind="stable")
    columns = {"rank": np.arange(1, order.size + 1), "id": names[order]}
    columns |= {name: column[order] for name, column in predicted.items()}
    shown = list(zip(*(column.tolist()[: options.top] for column in columns.values()), strict=True))
    of_user = "" if options.user is None else f" for user {options.user[:80]!r}"
    title = f"Ranking{of_user} ({order.size})" if len(shown) == order.size else f"Ranking{of_user}, top {len(shown)}"
    cells = [[str(row[0]), cut(row[1]), *map("{:.4f}".format, row[2:])] for row in shown]
    _show(options, columns, "\n".join([title, *table(list(columns), cells)]))


def _rows_of_file(model: Any, options: Rank) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return names of the rows of the file, which are their numbers where it has none, and their features."""
    if options.user is not None:
        raise _one_view(options)
    if options.items is None:
        raise DataError(f"{options.model}: a model of features ranks the rows of a file; name it: rank MODEL ITEMS")
    whole = _sheet(options)

    def read(sheet: Columns) -> tuple[NDArray[Any], Array]:
        """Return names and features."""
        X = read_features(model, sheet, options)
        sheet.require([] if options.id is None else [options.id], "It was asked for by --id")
        name = options.id or sheet.usual("id")
        return sheet.ids(name) if name in sheet.names else 1 + np.searchsorted(whole.lines, sheet.lines), X

    return complete_rows(whole, read, options.missing)


def _rows_of_user(model: Any, options: Rank) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return items, and the pairs of the user with them."""
    design: Any = model.steps[0][1] if isinstance(model, Pipeline) else None
    if not hasattr(design, "item_ids_"):
        raise DataError(f"{options.model}: a factorization machine ranks the items of a OneHotDesign only")
    if options.user is None:
        raise DataError(f"{options.model}: a model of users and items ranks for one user; name it by --user")
    user = _known(options, "user {}", options.user, design.user_ids_)
    items = _items_of(design.item_ids_, options)
    pairs = np.empty((items.size, 2), dtype=object)
    pairs[:, 0], pairs[:, 1] = user, items.tolist()
    return pairs[:, 1], pairs


def _scores(model: Any, X: NDArray[Any], options: Rank) -> Predicted:
    """Return what rows are ranked by, and how uncertain it is."""
    last = last_step(model)
    if isinstance(last, GPOrdinalRegressor | VariationalFMOrdinal):
        return _expected(model.predict_proba(X), model.classes_)
    if not isinstance(last, SVGPClassifier):
        return predictions(model, X)
    p = model.predict_proba(X)
    if p.shape[1] > 2:
        classes = ", ".join(map(str, model.classes_.tolist()[:10]))
        raise DataError(f"{options.model}: its classes ({classes}) have no order to rank by; see `skpref predict`")
    return {f"p_{model.classes_[1]}": p[:, 1]}


def _expected(p: Array, levels: NDArray[Any]) -> Predicted:
    """Return mean and standard deviation of a level; unless levels are numbers, of its place, where 1 is the lowest."""
    numeric = numbers_of_levels(levels.tolist())
    place = np.arange(1.0, p.shape[1] + 1.0) if numeric is None else numeric
    mean = p @ place
    name = "expected_place" if numeric is None else "expected_level"
    return {name: mean, "std": np.sqrt(np.maximum(p @ (place - place[0]) ** 2 - (mean - place[0]) ** 2, 0.0))}
