"""``skpref rank``: items from the best to the worst by a saved model."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from sklearn.pipeline import Pipeline

from skpref._estimator import last_step
from skpref._text import is_number, number
from skpref._typing import AnyArray, Array
from skpref.cli.files import complete_rows, read_sheet
from skpref.cli.ids import by_text, known_id, known_ids, read_ids, read_table, refuse_repeated
from skpref.cli.options import Rank
from skpref.cli.output import check_file
from skpref.cli.predict import MACHINES, Predicted, predictions
from skpref.cli.rankings import ranking_text
from skpref.cli.report import cut, deliver, titled_table
from skpref.cli.tasks.layouts import with_coded_words
from skpref.data.choices import NONE
from skpref.data.columns import Columns
from skpref.data.levels import numbers_of_levels
from skpref.data.times import date_of_file
from skpref.exceptions import DataError
from skpref.factorization.fm_ordinal import VariationalFMOrdinal
from skpref.factorization.max_margin.base import MaxMarginFactorization
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.pairwise import GPPLClassifier
from skpref.persistence import columns_of, load

if TYPE_CHECKING:
    Ranked = tuple[dict[str, Any], str]  # columns of the ranking, and its text

RECOMMENDED = "user", "rank", "item", "level", "score", "std"  # columns of recommendations
_FORMS = {"rank": "{rank}", "item": "{item}", "level": "{level}", "score ± std": "{score:+.2f} ± {std:.2f}"}


def rank(options: Rank) -> int:
    """Rank known or new items."""
    check_file(options.out, options.model, options.items)
    model = load(options.model)
    last = last_step(model)
    if options.scale == "elo" and not isinstance(model, GPPLClassifier | CrowdGPPL):
        raise DataError(f"{options.model}: --scale elo is for models of comparisons")
    if (options.at or options.active) and getattr(last, "time", None) is None:
        raise DataError(f"{options.model}: --at and --active are for models that were learnt with --time")
    if options.active and not isinstance(last, GPPLClassifier):
        raise DataError(f"{options.model}: --active is for models without users")
    for flag, asked in (("--groups", options.groups), ("--context", options.context)):
        if asked is not None and not isinstance(model, GPPLClassifier | CrowdGPPL):
            raise DataError(f"{options.model}: {flag} is for models of comparisons that were learnt with {flag}")
    rankers = [by for kind, by in _RANKERS.items() if isinstance(last, kind) and hasattr(last, "posterior_")]
    if not rankers:
        kinds = "model of comparisons, or of users and items"
        raise DataError(f"{options.model}: holds no fitted {kinds}, as `skpref tune` writes them")
    columns, text = rankers[0](model, options)
    return deliver(options, columns, text, options.top)


def _read(options: Rank, read: Callable[[Columns], Any]) -> Any:
    """Return what is read from the file of items."""
    return complete_rows(read_sheet(cast("Path", options.items), options), read, options.missing)


def _items_of(ids: AnyArray, options: Rank, *, strict: bool) -> AnyArray:
    """Return the ids of a file of items, as the model has them; all ids of the model without a file."""

    def read(sheet: Columns) -> AnyArray:
        name = options.id or sheet.usual("id")
        sheet.require((name,), f"A file of items has the column {name}")
        own = read_ids(sheet, name, ids, strict=strict)
        refuse_repeated(sheet, own, name)
        return own

    return ids if options.items is None else _read(options, read)


def _user_of(options: Rank, ids: AnyArray, more: str = "") -> Any:
    """Return the id of the user who is named."""
    if options.user is None:
        raise DataError(f"{options.model}: a model of users and items ranks for one user; name it by --user")
    return known_id(options.user, ids, f"{options.model}: unknown user", more)


# --------------------------------------------------------------------------------------------------------- comparisons
def _rank_compared(model: GPPLClassifier | CrowdGPPL, options: Rank) -> Ranked:
    """Rank by utility: of a crowd by the consensus, or by the utility of one user."""
    items, at = _items_to_rank(model, options), cast("Any", options.at)
    where: dict[str, Any] = {"groups": _groups(model, options), "context": _numbers(model, options)}
    if at is not None and is_number(at):
        fitted: Any = model
        timed = fitted.posterior_.places.timeline if isinstance(model, CrowdGPPL) else fitted.moving_posterior_
        at = number(at) if not timed.is_dated else f"{at}-01-01" if re.fullmatch(r"\d{4}", at) else at
    elif at is not None:
        at = date_of_file(at, columns_of(options.model).get("dates"))
    if isinstance(model, CrowdGPPL):
        ids, more = known_ids(model, "user"), " Without --user, the consensus ranks"
        user = None if options.user is None else _user_of(options, ids, more)
        ranking = model.rank(items, user, at=at, **where)
    elif options.user is not None:
        raise DataError(f"{options.model}: the model has one view for all users; leave --user out")
    else:
        active = number(options.active) if options.active and is_number(options.active) else options.active
        ranking = model.rank(items, at=at, active=active, **where)
    ranking = ranking.to_scale(options.scale, model.likelihood_)
    title = "Ranking" if options.user is None else f"Ranking by user {options.user[:80]!r}"
    title += "" if options.at is None else f" at {(at if isinstance(at, str) else options.at)[:80]}"
    title += f", active within {options.active[:80]}" if options.active else ""
    named = [*(options.groups or ()), *(options.context or ())]
    title += f" in {', '.join(named)[:80]}" if named else ""
    return ranking.columns(), ranking_text(ranking, options.top, title)


def _items_to_rank(model: GPPLClassifier | CrowdGPPL, options: Rank) -> Any:
    """Return the items of the file, with their features where the model has some; None without a file."""
    if options.items is None:
        return None
    if model.items is None:
        return _items_of(model.item_ids_, options, strict=True)
    names = model.items.feature_names
    if names is None:
        called = type(model).__name__
        raise DataError(f"{options.model}: has no names of its features; rank with {called}.rank in Python")

    def read(sheet: Columns) -> Any:
        if NONE in names and NONE not in sheet.values:  # products are no option to choose none of them
            sheet = replace(sheet, values={**sheet.values, NONE: ["0"] * sheet.size})
        return read_table(with_coded_words(sheet, tuple(names)), options.id or sheet.usual("id"), "item", tuple(names))

    return _read(options, read)


def _groups(model: GPPLClassifier | CrowdGPPL, options: Rank) -> dict[str, Any] | None:
    """Return the groups in which to rank, by the names of their columns; refuse unknown ones."""
    if options.groups is None:
        return None
    columns, groups = list(model.groups or ()), {}
    for column, group in _named(options, "groups", columns).items():
        ids = model.group_ids_[columns.index(column)]
        has = f" It has {', '.join(list(by_text(ids))[:10])}"
        groups[column] = known_id(group, ids, f"{options.model}: unknown group of {column!r}:", has)
    return groups


def _numbers(model: GPPLClassifier | CrowdGPPL, options: Rank) -> dict[Any, float] | None:
    """Return the numbers of context at which to rank, by the columns of the model."""
    if options.context is None:
        return None
    saved = [name for key, name in columns_of(options.model).items() if key.startswith("context:")]
    columns = model._columns.roles.context  # noqa: SLF001 - of this package
    names = dict(zip(saved or map(str, columns), columns, strict=True))
    asked = _named(options, "context", [*names])
    if odd := [text for text in asked.values() if not is_number(text)]:
        raise DataError(f"{options.model}: --context wants numbers; got {odd[0][:80]!r}")
    return {names[name]: number(text) for name, text in asked.items()}


def _named(options: Rank, name: Literal["groups", "context"], columns: list[Any]) -> dict[str, str]:
    """Return the texts of an option by the columns of the model that it names, each once."""
    found: dict[str, str] = {}
    for text in getattr(options, name):
        column, equals, value = text.partition("=")
        if not equals or column not in columns or column in found:
            what = {"groups": "GROUP", "context": "NUMBER"}[name]
            wanted = " or ".join(f"{own}={what}" for own in columns) or f"nothing: the model has no {name}"
            wanted += ", each once" if column in found else ""
            raise DataError(f"{options.model}: --{name} wants {wanted}; got {text[:80]!r}")
        found[column] = value
    return found


# ------------------------------------------------------------------------------------------------------------- ratings
def _recommend(model: MaxMarginFactorization, options: Rank) -> Ranked:
    """Recommend items to a user: those of the file, or all that the user has not rated, the best first."""
    user, title = _user_of(options, model.user_ids_), f"Recommended to user '{cut(options.user)}'"
    if options.items is None:
        items = np.asarray(model.recommend(user, model.item_ids_.size)["item"])
    else:
        items = _items_of(model.item_ids_, options, strict=False)
    pairs = np.empty((len(items), 2), dtype=object)
    pairs[:, 0], pairs[:, 1] = user, items
    if not len(pairs):
        return dict.fromkeys(RECOMMENDED, np.zeros(0)), f"{title}: nothing, since everything is rated"
    mean, std = model.predict_score(pairs, return_std=True)
    best = np.argsort(-mean, kind="stable")
    own, level = pairs[best].T, model.predict(pairs)[best]
    columns = dict(
        zip(RECOMMENDED, (own[0], np.arange(1, best.size + 1), own[1], level, mean[best], std[best]), strict=True)
    )
    return columns, titled_table(title, _FORMS, columns, range(min(options.top, best.size)))


# ---------------------------------------------------------------------------------------------------------------- rows
def _rank_rows(model: Any, options: Rank) -> Ranked:
    """Rank items for a user by what is predicted of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names of columns are checked here
        names, X = _rows_of_user(model, options)
        predicted = _scores(model, X)
    order = np.argsort(-next(iter(predicted.values())), kind="stable")
    columns = {"rank": np.arange(1, order.size + 1), "id": names[order]}
    columns |= {name: column[order] for name, column in predicted.items()}
    shown = min(options.top, order.size)
    title = f"Ranking for user {str(options.user)[:80]!r}, also of what the user has rated"
    title += f" ({order.size})" if shown == order.size else f", top {shown}"
    forms = dict(zip(columns, ("{0}", "{1}", *(f"{{{k}:.4f}}" for k in range(2, len(columns)))), strict=True))
    return columns, titled_table(title, forms, columns, range(shown))


def _rows_of_user(model: Any, options: Rank) -> tuple[AnyArray, AnyArray]:
    """Return items, and the pairs of the user with them."""
    design: Any = model.steps[0][1] if isinstance(model, Pipeline) else None
    if not hasattr(design, "item_ids_"):
        raise DataError(f"{options.model}: a factorization machine ranks the items of a OneHotDesign only")
    user, items = _user_of(options, design.user_ids_), _items_of(design.item_ids_, options, strict=False)
    pairs = np.empty((items.size, 2), dtype=object)
    pairs[:, 0], pairs[:, 1] = user, items.tolist()
    return pairs[:, 1], pairs


def _scores(model: Any, X: AnyArray) -> Predicted:
    """Return what items are ranked by, and how uncertain it is."""
    if isinstance(last_step(model), VariationalFMOrdinal):
        return _expected(model.predict_proba(X), model.classes_)
    return predictions(model, X)


def _expected(p: Array, levels: AnyArray) -> Predicted:
    """Return mean and standard deviation of a level; unless levels are numbers, of its place, where 1 is the lowest."""
    numeric = numbers_of_levels(levels.tolist())
    place = np.arange(1.0, p.shape[1] + 1.0) if numeric is None else numeric
    mean = p @ place
    name = "expected_place" if numeric is None else "expected_level"
    return {name: mean, "std": np.sqrt(np.maximum(p @ (place - place[0]) ** 2 - (mean - place[0]) ** 2, 0.0))}


# A family of models is a line here.
_RANKERS: dict[Any, Callable[[Any, Rank], Ranked]] = {
    (GPPLClassifier, CrowdGPPL): _rank_compared,
    MaxMarginFactorization: _recommend,
    MACHINES: _rank_rows,
}
