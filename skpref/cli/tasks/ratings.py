"""The task of ratings: how many stars each user gives to what, and what to recommend."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from scipy import ndimage

from skpref._text import is_number, lacks_number
from skpref.cli.files import RATINGS, USERS, complete_rows, counted
from skpref.cli.ids import refuse_repeated
from skpref.cli.report import cut, titled_table
from skpref.cli.tasks.base import Rows, Task, check_size, read_data, read_weights, require_asked
from skpref.cli.tasks.doubts import notes_on_columns, say_doubts
from skpref.cli.tasks.figures import Figures, LevelReport, score_levels
from skpref.cli.tasks.layouts import item_columns
from skpref.data import Ratings, Vocabulary
from skpref.data.levels import format_levels
from skpref.data.ratings import rating_levels
from skpref.data.roles import reading_of
from skpref.exceptions import DataError
from skpref.factorization.ipm3f import GibbsIPM3F
from skpref.factorization.m3f import GibbsM3F
from skpref.search import default_space

if TYPE_CHECKING:
    from collections.abc import Callable

    from skpref._typing import AnyArray, Array, IntArray
    from skpref.cli.options import Data
    from skpref.cli.tasks.base import Outcome
    from skpref.data.columns import Columns
    from skpref.factorization.max_margin.base import MaxMarginFactorization

    Read = Callable[[Columns, str], AnyArray]  # reads the ratings in a column

_MODELS = {"m3f": GibbsM3F, "ipm3f": GibbsIPM3F}
# What columns are called in files that people have, the first one in the messages.
_NAMES = {
    "user": USERS,
    "item": ("item", "item_id", "movie", "movie_id", "product", "product_id", "iid"),
    "rating": RATINGS,
}
_PURPOSE = "A file of ratings has the columns user, item and rating (or others, named by --user, --item and --rating)"
_FORMS = {"rank": "{rank}", "item": "{item}", "level": "{level}", "score ± std": "{score:+.2f} ± {std:.2f}"}
RECOMMENDED = "user", "rank", "item", "level", "score", "std"  # columns of recommendations


# ------------------------------------------------------------------------------------------------------------- reading
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


def read_rated(options: Data, read: Read) -> Rated:
    """Return the ratings in a file, whose rows have one each, or those of one person."""
    sheet = read_data(options)
    if options.item_ratings is None:
        names = read_columns(sheet, options)
        return complete_rows(sheet, lambda part: _long(part, options, names, read), options.missing)
    for option in ("item", "rating"):
        if getattr(options, option) is not None:
            raise sheet.fault(f"--item-ratings reads ratings from columns of items; leave --{option} out")
    require_asked(sheet, options, "user")
    found = sheet.usual(*USERS, "id")
    user = options.user or (found if found in sheet.values else None)
    items = item_columns(sheet, options, (user, options.weight))
    numbers = dict(zip(sheet.lines, map(str, range(1, sheet.size + 1)), strict=True))
    return complete_rows(sheet, lambda part: _grid(part, options, user, items, numbers, read), options.missing)


def _long(sheet: Columns, options: Data, names: dict[str, str], read: Read) -> Rated:
    """Return the ratings of a file with one in each row."""
    user, item = sheet.ids(names["user"], "user"), sheet.ids(names["item"])
    columns = {role: names[role] for role in ("user", "item")}
    values, weight = read(sheet, names["rating"]), read_weights(sheet, options)
    used = (*names.values(), options.weight)
    reading = reading_of(sheet, {**names, "weights": options.weight or "none"}, used)
    return Rated(sheet, user, item, values, weight, columns, names["rating"], str(reading))


def _grid(
    sheet: Columns, options: Data, user: str | None, items: tuple[str, ...], numbers: dict[Any, str], read: Read
) -> Rated:
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
    values = np.concatenate([read(sheet.take(rows), name) for name, rows in rated.items()])
    item = np.repeat(np.array(list(rated), dtype=object), [len(rows) for rows in rated.values()])
    rows = np.concatenate(list(rated.values()))
    order = np.argsort(rows, kind="stable")
    silent = sheet.size - np.unique(rows).size
    sheet.notes.append(
        f"{sheet.source}: {len(items) * sheet.size - rows.size} of {len(items) * sheet.size} cells have no rating"
    )
    named = {"user": user or "number of the row", "items": tuple(rated), "weights": options.weight or "none"}
    reading = reading_of(sheet, named, (user, *rated, options.weight), {"without a rating": silent} if silent else {})
    columns = {} if user is None else {"user": user}
    return Rated(
        sheet, users[rows][order], item[order], values[order], weight[rows][order], columns, None, str(reading)
    )


def read_columns(sheet: Columns, options: Any, roles: tuple[str, ...] = ("user", "item", "rating")) -> dict[str, str]:
    """Return the names of the columns of user, item and rating."""
    names = {role: getattr(options, role) or sheet.usual(*_NAMES[role]) for role in roles}
    sheet.require(tuple(names.values()), _PURPOSE)
    if len(set(names.values())) < len(names):
        raise sheet.fault(f"{', '.join(roles)} must be different columns; got {', '.join(names.values())}")
    return names


def read_levels(sheet: Columns, name: str, declared: tuple[str, ...] | None) -> AnyArray:
    """Return a column of levels: numbers, or words where an option names words."""
    if declared is None:
        return sheet.numbers(name, meaning="or name all levels, low to high, by --levels")
    shown, levels, values = ", ".join(declared), _declared(declared), np.array(sheet.texts(name), dtype=object)
    if isinstance(levels[0], str):
        sheet.refuse_missing(name, declared)
    else:
        values = sheet.numbers(name, meaning=f"one of the levels {shown}")
    for row in np.flatnonzero([value not in levels for value in values.tolist()])[:1].tolist():
        raise sheet.fault(f"{sheet.texts(name)[row][:80]!r} is none of the levels {shown} (--levels)", row, name)
    return values


def number_levels(
    sheet: Columns, values: AnyArray, declared: tuple[str, ...] | None, name: str | None
) -> tuple[AnyArray, IntArray]:
    """Return all levels, low to high, and the number of each rating's."""
    levels = None if declared is None else _declared(declared)
    try:
        return rating_levels(_whole(values), levels if levels is None else _whole(np.array(levels)), values, values)
    except DataError as error:
        raise sheet.fault(f"{error} (--levels)", None, name) from error


def _declared(declared: tuple[str, ...]) -> list[Any]:
    """Return levels as numbers if all are."""
    return [float(level) for level in declared] if all(map(is_number, declared)) else list(declared)


def _whole(values: AnyArray) -> AnyArray:
    """Return numbers as integers if all are whole."""
    if values.dtype.kind != "f":
        return values
    return values.astype(np.int64) if (values == np.floor(values)).all() and np.abs(values).max() < 2**53 else values


# ---------------------------------------------------------------------------------------------------------------- task
def read(options: Data) -> Task:
    """Read the file of a job."""
    template = _MODELS[options.model](random_state=options.seed)
    rated = read_rated(options, lambda sheet, name: read_levels(sheet, name, options.levels))
    return _make_task(rated, template, options)


def _make_task(rated: Rated, estimator: MaxMarginFactorization, options: Data) -> Task:
    """Return the task of ratings; trials have numbers for ids and levels, since reading ids is slower."""
    levels, level = number_levels(rated.sheet, rated.values, options.levels, rated.column)
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
    ids = np.column_stack([users[merged.user], items[merged.item]])
    estimator.set_params(levels=list(range(levels.size)))
    shown = f"{counted(users.size, 'users')} of {counted(items.size, 'items')}, levels {format_levels(levels)}"
    sizes = {"n_ratings": rows.size, "n_users": users.size, "n_items": items.size, "levels": format_levels(levels)}
    return Task(
        rows=rows,
        estimator=estimator,
        space=default_space(estimator),
        report=StarReport(users, items, levels),
        source=str(options.data),
        reading=rated.reading,
        shape=f"{counted(rows.size, 'ratings')} by {shown}",
        sizes=sizes,
        digest=rows.digest((), users, items, levels),
        next_command="Recommend items:  skpref rank {model} --user ID",
        noun="ratings",
        columns=rated.columns,
        names=("user", "item"),
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


# --------------------------------------------------------------------------------------------------------- recommending
def recommended(model: MaxMarginFactorization, user: Any, n: int, items: Any = None) -> dict[str, Any]:
    """Return the columns of what a user is expected to like most."""
    items = np.asarray(model.recommend(user, n)["item"]) if items is None else items
    pairs = np.empty((len(items), 2), dtype=object)
    pairs[:, 0], pairs[:, 1] = user, items
    if not len(pairs):
        return dict.fromkeys(RECOMMENDED, np.zeros(0))
    mean, std = model.predict_score(pairs, return_std=True)
    best = np.argsort(-mean, kind="stable")[:n]
    own, level = pairs[best].T, model.predict(pairs)[best]
    columns = own[0], np.arange(1, best.size + 1), own[1], level, mean[best], std[best]
    return dict(zip(RECOMMENDED, columns, strict=True))


def recommendations_text(user: Any, columns: dict[str, Any], n: int) -> str:
    """Return a table of the first recommendations."""
    title, size = f"Recommended to user '{cut(user)}'", len(columns["rank"])
    if not size:
        return f"{title}: nothing, since everything is rated"
    return titled_table(title, _FORMS, columns, range(min(n, size)))
