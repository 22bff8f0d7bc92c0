"""Tasks of rows with a label: ratings, numbers or classes, of users and items or of features."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np
from scipy import ndimage
from sklearn.pipeline import Pipeline

from skpref._text import is_number, lacks_number
from skpref._typing import AnyArray, Array, IntArray
from skpref.cli.files import RATINGS, USERS, complete_rows, counted
from skpref.cli.ids import refuse_repeated
from skpref.cli.report import cut
from skpref.cli.tasks.base import Outcome, Rows, Task, check_size, read_data, read_splits, read_weights, require_asked
from skpref.cli.tasks.figures import ChanceReport, Figures, LevelReport, Report, score_levels
from skpref.cli.tasks.layouts import item_columns, notes_on_columns, say_doubts
from skpref.data import OneHotDesign, Ratings, Vocabulary
from skpref.data.levels import format_levels, ordered_levels
from skpref.data.ratings import rating_levels
from skpref.data.roles import reading_of
from skpref.exceptions import DataError
from skpref.factorization.fm import VariationalFM
from skpref.factorization.fm_classifier import VariationalFMClassifier
from skpref.factorization.fm_ordinal import VariationalFMOrdinal
from skpref.factorization.ipm3f import GibbsIPM3F
from skpref.factorization.m3f import GibbsM3F
from skpref.gp.ordinal import GPOrdinalRegressor
from skpref.gp.sparse import SVGPClassifier, SVGPRegressor
from skpref.search import default_space

if TYPE_CHECKING:
    from skpref.cli.options import Data
    from skpref.data.columns import Columns

# A model is a line: its estimator, and what its labels are.
_MODELS: dict[str, tuple[type[Any], str]] = {
    "m3f": (GibbsM3F, "levels"),
    "ipm3f": (GibbsIPM3F, "levels"),
    "fm": (VariationalFM, "numbers"),
    "fm-classifier": (VariationalFMClassifier, "0 or 1"),
    "fm-ordinal": (VariationalFMOrdinal, "levels"),
    "ordinal": (GPOrdinalRegressor, "levels"),
    "svgp": (SVGPRegressor, "numbers"),
    "svgp-classifier": (SVGPClassifier, "classes"),
}
# What columns are called in files that people have, the first one in the messages.
_NAMES = {
    "user": USERS,
    "item": ("item", "item_id", "movie", "movie_id", "product", "product_id", "iid"),
    "rating": RATINGS,
}
_PURPOSE = "A file of ratings has the columns user, item and rating (or others, named by --user, --item and --rating)"


def read(options: Data) -> Task:
    """Read the file of a job."""
    if options.model in {"m3f", "ipm3f"}:
        return _chain_task(_read_rated(options), options)
    if options.model.startswith("fm"):
        return _machine_task(_read_rated(options), options)
    return complete_rows(read_data(options), lambda sheet: _features_task(sheet, options), options.missing)


def _make_task(
    rows: Rows, names: tuple[str, ...], labels: AnyArray, options: Data, estimator: Any, report: Report, **more: Any
) -> Task:
    """Return the task of an estimator of labelled rows; labels are by number, and none where they are numbers."""
    shown = ", ".join(map(str, labels.tolist()))
    groups = f", {counted(rows.n_groups, 'groups')}" if rows.n_groups else ""
    of_labels = f", labels {cut(shown)}" if labels.size else ""
    facts = {
        "shape": f"{counted(rows.size, 'rows')} of {counted(len(names), 'columns')}{of_labels}{groups}",
        "sizes": {"n_rows": rows.size, "n_features": len(names), "n_groups": rows.n_groups, "labels": shown},
        "digest": more.pop("digest", None) or rows.digest(names, labels),
        "next_command": "Predict new rows: skpref predict {model} DATA.csv",
        "split_note": "" if options.group is None else f", split by {options.group}",
    }
    common: dict[str, Any] = {"report": report, "source": str(options.data), "names": names}
    return Task(rows=rows, estimator=estimator, space=default_space(estimator), **common, **{**facts, **more})


# -------------------------------------------------------------------------------------------------------------- labels
def _read_labels(sheet: Columns, name: str, options: Data) -> AnyArray:
    """Return the column of labels, as far as one column tells what they are."""
    kind, declared = _MODELS[options.model][1], options.levels
    if kind == "numbers":
        return sheet.numbers(name)
    if kind == "classes":
        return sheet.ids(name, "label").astype(str)
    if kind == "0 or 1":
        y = sheet.numbers(name, 0.0, 1.0, "0 or 1")
        for row in np.flatnonzero((y != 0.0) & (y != 1.0))[:1].tolist():
            raise sheet.fault(f"expected 0 or 1, got {y[row]:g}; --model fm takes any number", row, name)
        return y.astype(np.int64)
    if declared is None:
        return sheet.numbers(name, meaning="or name all levels, low to high, by --levels")
    shown, levels, values = ", ".join(declared), _declared(declared), np.array(sheet.texts(name), dtype=object)
    if isinstance(levels[0], str):
        is_empty = (lacks_number(cell) and cell not in declared for cell in values)
        sheet.refuse_empty("a level is missing", is_empty, name)
    else:
        values = sheet.numbers(name, meaning=f"one of the levels {shown}")
    for row in np.flatnonzero([value not in levels for value in values.tolist()])[:1].tolist():
        raise sheet.fault(f"{sheet.texts(name)[row][:80]!r} is none of the levels {shown} (--levels)", row, name)
    return values


def _number_labels(sheet: Columns, values: AnyArray, options: Data, name: str | None) -> tuple[AnyArray, AnyArray]:
    """Return the labels by number, low to high, and the number of each row's; numbers have no labels."""
    kind = _MODELS[options.model][1]
    if kind == "numbers":
        return np.array([]), values
    if kind != "levels":
        labels, y = np.unique(values, return_inverse=True)
        if labels.size == 1 and kind == "0 or 1":
            raise sheet.fault(f"both 0 and 1 are needed; all are {labels[0]:g}", None, name)
        if labels.size != 2:
            shown = ", ".join(labels[:8].tolist())[:200]
            others = "for ordered levels use --model ordinal, for numbers svgp; for more, SVGPClassifier in Python"
            raise sheet.fault(f"two classes are needed; got {labels.size}: {shown}; {others}", None, name)
        return labels, y.reshape(-1).astype(np.int64)
    levels = None if options.levels is None else _whole(np.array(_declared(options.levels)))
    try:
        labels, y = rating_levels(_whole(values), levels, values, values)
        if options.model.endswith("ordinal") and levels is None:
            ordered_levels(_whole(values))
    except DataError as error:
        raise sheet.fault(f"{error} (--levels)", None, name) from error
    return labels, y


def _declared(declared: tuple[str, ...]) -> list[Any]:
    """Return levels as numbers if all are."""
    return [float(level) for level in declared] if all(map(is_number, declared)) else list(declared)


def _whole(values: AnyArray) -> AnyArray:
    """Return numbers as integers if all are whole."""
    if values.dtype.kind != "f":
        return values
    return values.astype(np.int64) if (values == np.floor(values)).all() and np.abs(values).max() < 2**53 else values


# ------------------------------------------------------------------------------------------------------------ features
def _features_task(sheet: Columns, options: Data) -> Task:
    """Return the task of features with ordered levels, numbers, or two classes."""
    label = options.label or sheet.usual("label")
    sheet.require([label], "A file of rows has a column label, or another named by --label")
    (groups, _), names = read_splits(sheet, options), _features(sheet, options, label)
    X = sheet.matrix(names, "features are numeric; choose by --features")
    labels, y = _number_labels(sheet, _read_labels(sheet, label, options), options, label)
    estimator, more = _MODELS[options.model][0](random_state=options.seed), dict[str, Any]()
    report: Report = (ChanceReport if options.model == "svgp-classifier" else Report)(names)
    if options.model == "ordinal":
        estimator.set_params(class_order=np.arange(labels.size))
        report, more = LevelReport(labels, names), {"final_params": {"class_order": labels}, "are_levels": True}
    rows = Rows(X, y, read_weights(sheet, options), groups)
    check_size(sheet, rows.size, "rows", options)
    named = {"label": label, "features": names, "group": options.group, "weights": options.weight or "none"}

    def finish(model: Any) -> Any:
        """Keep the names of the features, as after a fit to a data frame."""
        model.feature_names_in_ = np.array(names, dtype=object)
        return model

    more |= {"final_rows": replace(rows, y=labels[y] if labels.size else y), "finish": finish}
    more["reading"] = str(reading_of(sheet, named, (label, *names, options.group, options.weight)))
    return _make_task(rows, names, labels, options, estimator, report, **more)


def _features(sheet: Columns, options: Data, label: str) -> tuple[str, ...]:
    """Return the names of the features."""
    others = {label, options.group, options.weight, sheet.usual("id")}
    names = options.features or tuple(name for name in sheet.names if name not in others)
    sheet.require(names, "It was asked for by --features")
    if not names:
        raise sheet.fault("there is no column of features, only the label")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise sheet.fault("--features names this column twice", None, name)
    return names


# ----------------------------------------------------------------------------------------------------- users and items
class Rated(NamedTuple):
    """Ratings of a file."""

    sheet: Columns
    user: AnyArray  # (n,): ids
    item: AnyArray  # (n,): ids
    values: AnyArray  # (n,): what was given
    weight: Array  # (n,)
    columns: dict[str, str]  # names of the columns of ids, for `predict`
    column: str | None  # name of the column of ratings; None: there is one for each item
    reading: str  # what was read


def _read_rated(options: Data) -> Rated:
    """Return the ratings in a file, whose rows have one each, or those of one person."""
    sheet = read_data(options)
    if options.item_ratings is None:
        names = read_columns(sheet, options)
        return complete_rows(sheet, lambda part: _long(part, options, names), options.missing)
    for option in ("item", "rating"):
        if getattr(options, option) is not None:
            raise sheet.fault(f"--item-ratings reads ratings from columns of items; leave --{option} out")
    require_asked(sheet, options, "user")
    found = sheet.usual(*USERS, "id")
    user = options.user or (found if found in sheet.values else None)
    items = item_columns(sheet, options, (user, options.weight))
    numbers = dict(zip(sheet.lines, map(str, range(1, sheet.size + 1)), strict=True))
    return complete_rows(sheet, lambda part: _grid(part, options, user, items, numbers), options.missing)


def _long(sheet: Columns, options: Data, names: dict[str, str]) -> Rated:
    """Return the ratings of a file with one in each row."""
    user, item = sheet.ids(names["user"], "user"), sheet.ids(names["item"])
    columns = {role: names[role] for role in ("user", "item")}
    values, weight = _read_labels(sheet, names["rating"], options), read_weights(sheet, options)
    used = (*names.values(), options.weight)
    reading = reading_of(sheet, {**names, "weights": options.weight or "none"}, used)
    return Rated(sheet, user, item, values, weight, columns, names["rating"], str(reading))


def _grid(sheet: Columns, options: Data, user: str | None, items: tuple[str, ...], numbers: dict[Any, str]) -> Rated:
    """Return the ratings of a grid without its empty cells, row by row; people without ids are numbered by rows."""
    weight = read_weights(sheet, options)
    users = np.array([numbers[line] for line in sheet.lines] if user is None else sheet.ids(user, "user"), dtype=object)
    if user is not None:
        refuse_repeated(sheet, users, user, "user")
    words, rated = options.levels or (), dict[str, list[int]]()
    for name in items:
        if own := [row for row, cell in enumerate(sheet.texts(name)) if not lacks_number(cell) or cell in words]:
            rated[name] = own
    if not rated:
        raise sheet.fault("no rating is in the columns of --item-ratings")
    values = np.concatenate([_read_labels(sheet.take(rows), name, options) for name, rows in rated.items()])
    item = np.repeat(np.array(list(rated), dtype=object), [len(rows) for rows in rated.values()])
    rows = np.concatenate(list(rated.values()))
    order, n_cells = np.argsort(rows, kind="stable"), len(items) * sheet.size
    silent = sheet.size - np.unique(rows).size
    sheet.notes.append(f"{sheet.source}: {n_cells - rows.size} of {n_cells} cells have no rating")
    named = {"user": user or "number of the row", "items": tuple(rated), "weights": options.weight or "none"}
    reading = reading_of(sheet, named, (user, *rated, options.weight), {"without a rating": silent} if silent else {})
    users, item, values, weight = (column[order] for column in (users[rows], item, values, weight[rows]))
    columns = {} if user is None else {"user": user}
    return Rated(sheet, users, item, values, weight, columns, None, str(reading))


def read_columns(sheet: Columns, options: Any, roles: tuple[str, ...] = ("user", "item", "rating")) -> dict[str, str]:
    """Return the names of the columns of user, item and rating."""
    names = {role: getattr(options, role) or sheet.usual(*_NAMES[role]) for role in roles}
    sheet.require(tuple(names.values()), _PURPOSE)
    if len(set(names.values())) < len(names):
        raise sheet.fault(f"{', '.join(roles)} must be different columns; got {', '.join(names.values())}")
    return names


class WeightedPipeline(Pipeline):
    """A Pipeline whose last step takes the weights."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the steps."""
        super().fit(X, y, **{f"{self.steps[-1][0]}__sample_weight": sample_weight})
        return self


def _machine_task(rated: Rated, options: Data) -> Task:
    """Return the task of a factorization machine of users and items."""
    labels, y = _number_labels(rated.sheet, rated.values, options, rated.column)
    rows, ids = Rows(np.column_stack([rated.user, rated.item]), y, rated.weight), ("user", "item")
    machine, more = _MODELS[options.model][0](random_state=options.seed), dict[str, Any]()
    report: Report = ChanceReport() if options.model == "fm-classifier" else Report()
    if options.model == "fm-ordinal":
        machine.set_params(class_order=np.arange(labels.size))
        report, more = LevelReport(labels, chances=True), {"final_params": {"class_order": labels}}
        more["final_rows"] = replace(rows, y=labels[y])
    check_size(rated.sheet, rows.size, "rows", options)
    say_doubts(rated.sheet, notes_on_columns({"user": rated.user, "item": rated.item}))
    steps = [("onehotdesign", OneHotDesign()), (type(machine).__name__.lower(), machine)]
    more |= {"columns": rated.columns, "finish": lambda model: Pipeline(model.steps), "reading": rated.reading}
    more["next_command"] = "Rank the items:   skpref rank {model} --user ID"
    return _make_task(rows, ids, labels, options, WeightedPipeline(steps), report, **more)


def _chain_task(rated: Rated, options: Data) -> Task:
    """Return the task of ratings; trials have numbers for ids and levels, since reading ids is slower."""
    levels, level = _number_labels(rated.sheet, rated.values, options, rated.column)
    of_users, of_items = Vocabulary.from_columns(rated.user), Vocabulary.from_columns(rated.item)
    users, items = of_users.ids, of_items.ids
    user, item = of_users.encode(rated.user), of_items.encode(rated.item)
    try:
        merged = Ratings(user, item, level, rated.weight, users.size, items.size, levels.size).merged(
            cast("Any", options.duplicates or "error"), (users, items, levels)
        )
    except DataError as error:
        raise rated.sheet.fault(str(error)) from error
    check_size(rated.sheet, merged.size, "ratings of positive weight", options)
    say_doubts(rated.sheet, notes_on_columns({"user": users, "item": items}))
    rows = Rows(np.column_stack([merged.user, merged.item]), merged.level, merged.weight)
    ids, shown = np.column_stack([users[merged.user], items[merged.item]]), format_levels(levels)
    estimator = _MODELS[options.model][0](levels=list(range(levels.size)), random_state=options.seed)
    of_both = f"{counted(users.size, 'users')} of {counted(items.size, 'items')}"
    return _make_task(
        *(rows, ("user", "item"), levels, options, estimator, StarReport(users, items, levels)),
        reading=rated.reading,
        shape=f"{counted(rows.size, 'ratings')} by {of_both}, levels {shown}",
        sizes={"n_ratings": rows.size, "n_users": users.size, "n_items": items.size, "levels": shown},
        digest=rows.digest((), users, items, levels),
        next_command="Recommend items:  skpref rank {model} --user ID",
        noun="ratings",
        columns=rated.columns,
        final_rows=replace(rows, X=ids, y=levels[rows.y]),
        final_params={"levels": levels.tolist()},
        n_folds=1,
        within_users=True,
        split_note="; each user also has ratings to learn from",
    )


class StarReport(LevelReport):
    """The report on ratings."""

    def __init__(self, users: AnyArray, items: AnyArray, levels: AnyArray) -> None:
        super().__init__(levels)
        self._users, self._items = users, items

    def baselines(self, train: Rows, test: Rows) -> dict[str, Figures]:
        everyone, sides = np.median(train.y), (self._users, self._items)
        medians = [_medians(train.X[:, k], train.y, ids.size)[test.X[:, k]] for k, ids in enumerate(sides)]
        both = np.mean([np.where(np.isnan(median), everyone, median) for median in medians], axis=0)
        guesses = {"mean of user's and item's median": both, "global median": np.full(test.size, everyone)}
        return {name: score_levels(test, np.floor(x + 0.5), self.labels.size) for name, x in guesses.items()}

    def sections(self, outcome: Outcome) -> list[str]:
        n_sweeps, r_hat = outcome.model.risks_.shape[1], float(outcome.model.r_hat_)
        chain = f"Final model: {n_sweeps} sweeps; R-hat of the risk {r_hat:.3f} (near 1 once the chain is stationary)"
        return [*super().sections(outcome), chain]


def _medians(owner: IntArray, level: IntArray, n: int) -> Array:
    """Return the median level of each of n owners; NaN for owners without ratings."""
    owners, medians = np.unique(owner), np.full(n, np.nan)
    medians[owners] = ndimage.median(level, owner, owners)
    return medians
