"""The task of ratings: how many stars each user gives to what, and what to recommend."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from skpref.cli.files import USERS, complete_rows, counted
from skpref.cli.output import write_csv
from skpref.cli.rankings import write_plot
from skpref.cli.report import cut, table
from skpref.cli.tasks.base import (
    ABSOLUTE_ERROR,
    Files,
    Metric,
    Report,
    Rows,
    Task,
    check_size,
    limit,
    read_data,
    read_line,
    read_weights,
)
from skpref.cli.tasks.doubts import notes_on_columns
from skpref.cli.tasks.grids import stacked
from skpref.data import Ratings, Vocabulary
from skpref.data.ratings import format_levels, rating_levels
from skpref.data.roles import reading_of
from skpref.exceptions import DataError
from skpref.factorization.ipm3f import GibbsIPM3F
from skpref.factorization.m3f import GibbsM3F
from skpref.plots import BoundDisplay, offscreen_axes
from skpref.search import default_space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray
    from skpref.cli.options import Data
    from skpref.cli.tasks.base import Outcome
    from skpref.data.columns import Columns
    from skpref.data.ratings import Duplicates
    from skpref.data.roles import Reading
    from skpref.factorization.max_margin.base import MaxMarginFactorization

_MODELS = {"m3f": GibbsM3F, "ipm3f": GibbsIPM3F}
# What columns are called in files that people have, the first one in the messages.
_NAMES = {
    "user": USERS,
    "item": ("item", "item_id", "movie", "movie_id", "product", "product_id", "iid"),
    "rating": ("rating", "ratings", "stars", "score", "level", "grade"),
}
_PURPOSE = "A file of ratings has the columns user, item and rating (or others, named by --user, --item and --rating)"
_SWEEPS, _FACTORS = 50, 100
_FEWEST_FACTORS = 5
_USERS_SHOWN, _USERS_WRITTEN = 3, 100
_ITEMS_SHOWN, _ITEMS_WRITTEN = 5, 10
RECOMMENDED = "user", "rank", "item", "level", "score", "std"  # columns of recommendations


@dataclass(frozen=True, eq=False)
class RatingFigures:
    """How well levels were predicted on the hold-out."""

    actual: IntArray  # (n,): numbers of the levels
    predicted: IntArray  # (n,): numbers of the levels
    weight: Array  # (n,): weights
    n_levels: int  # number of levels

    @property
    def mae(self) -> float:
        """Mean absolute error in levels."""
        return float(np.average(np.abs(self.predicted - self.actual), weights=self.weight))

    @property
    def nmae(self) -> float:
        """The same, divided by that of a level drawn at random where all levels are given equally often."""
        return self.mae / ((self.n_levels**2 - 1) / (3 * self.n_levels))

    @property
    def accuracy(self) -> float:
        """Share of levels predicted exactly."""
        return float(np.average(self.predicted == self.actual, weights=self.weight))

    def cells(self) -> dict[str, str]:
        """Return what the table shows."""
        return {"MAE": f"{self.mae:.4f}", "NMAE": f"{self.nmae:.4f}", "exact": f"{self.accuracy:.3f}"}

    def metrics(self, prefix: str) -> dict[str, float]:
        """Return the figures by name."""
        return {f"{prefix}mae": self.mae, f"{prefix}nmae": self.nmae, f"{prefix}accuracy": self.accuracy}


class Stars(NamedTuple):
    """Ratings of a file."""

    rated: Rows  # by the numbers of users, items and levels, which is what trials are run with: reading ids is slower
    users: NDArray[Any]  # ids by number
    items: NDArray[Any]  # ids by number
    levels: NDArray[Any]  # (L,): levels by number
    source: str  # where the data are from
    columns: dict[str, str]  # names of the columns of user and item
    reading: Reading | str = ""  # what was read of the file

    @property
    def X(self) -> NDArray[Any]:
        """Ids of user and item of every rating."""
        user, item = self.rated.X.T
        return np.column_stack([self.users[user], self.items[item]])


def _error_of_levels(model: Any, test: Rows) -> float:
    """Return the mean absolute error in levels."""
    return -float(model.score(test.X, test.y, test.weight))


def make_task(stars: Stars, estimator: MaxMarginFactorization, most_factors: int = _FACTORS) -> Task:
    """Return the task of ratings of items by users."""
    rated = stars.rated
    estimator.set_params(levels=list(range(stars.levels.size)))
    space = default_space(estimator)
    if "n_factors" in space:
        limit(space, estimator, "n_factors", _FEWEST_FACTORS, most_factors)
    facts: dict[str, Any] = {
        "data.source": stars.source,
        "data.read": str(stars.reading),
        "data.sha256": rated.digest((), stars.users, stars.items, stars.levels),
        "data.n_ratings": rated.size,
        "data.n_users": stars.users.size,
        "data.n_items": stars.items.size,
        "data.levels": format_levels(stars.levels),
    }
    ratings, users, items = (counted(facts[f"data.n_{noun}"], noun) for noun in ("ratings", "users", "items"))
    sweeps = {name: getattr(estimator, name) for name in ("n_sweeps", "burn_in")}
    return Task(
        rows=rated,
        estimator=estimator,
        space=space,
        metric=Metric(ABSOLUTE_ERROR.name, ABSOLUTE_ERROR.title, _error_of_levels),
        report=StarReport(stars),
        facts=facts,
        headline=f"Data: {stars.source}: {ratings} by {users} of {items}, levels {facts['data.levels']}; sha256 "
        f"{facts['data.sha256'][:12]}{read_line(stars.reading)}",
        next_command="Recommend items:  skpref rank {model} --user ID",
        data=stars,
        noun="ratings",
        options=sweeps | {"max_factors": most_factors},
        columns=stars.columns,
        names=("user", "item"),
        final_rows=replace(rated, X=stars.X, y=stars.levels[rated.y]),
        final_params={"levels": stars.levels.tolist()},
        objective="risk",
        n_folds=1,
        within_users=True,
        split_note="; each user also has ratings to learn from",
    )


class StarReport(Report):
    """The report on ratings."""

    def __init__(self, stars: Stars) -> None:
        self.stars = stars

    def figures(self, model: Any, test: Rows) -> RatingFigures:
        return self._figures(test, model.predict(test.X))

    def baselines(self, train: Rows, test: Rows) -> dict[str, Any]:
        everyone = np.median(train.y)
        sides = [
            _medians(train.X[:, k], train.y, ids.size) for k, ids in enumerate((self.stars.users, self.stars.items))
        ]
        both = [np.where(np.isnan(m), everyone, m)[test.X[:, k]] for k, m in enumerate(sides)]
        guesses = {"mean of user's and item's median": (both[0] + both[1]) / 2.0, "global median": everyone}
        rounded = {name: np.floor(np.broadcast_to(guess, test.size) + 0.5) for name, guess in guesses.items()}
        return {name: self._figures(test, guess.astype(np.int64)) for name, guess in rounded.items()}

    def _figures(self, test: Rows, predicted: IntArray) -> RatingFigures:
        return RatingFigures(test.y, predicted, test.weight, self.stars.levels.size)

    def findings(self, model: Any, seed: int) -> list[dict[str, Any]]:
        """Recommendations for users spread evenly from the one with most ratings to the one with least."""
        del seed
        count = np.bincount(self.stars.rated.X[:, 0], minlength=self.stars.users.size)
        order = np.argsort(-count, kind="stable")
        chosen = np.unique(np.linspace(0, order.size - 1, min(_USERS_WRITTEN, order.size)).round().astype(int))
        rows = [row for user in self.stars.users[order[chosen]] for row in recommended(model, user, _ITEMS_WRITTEN)]
        return rows

    def sections(self, outcome: Outcome) -> list[str]:
        users = list(dict.fromkeys(row["user"] for row in outcome.findings))
        few = [users[k] for k in np.unique(np.linspace(0, len(users) - 1, _USERS_SHOWN).astype(int))] if users else []
        n_sweeps, r_hat = outcome.model.risks_.shape[1], float(outcome.model.r_hat_)
        chain = f"Final model: {n_sweeps} sweeps; R-hat of the risk {r_hat:.3f} (near 1 once the chain is stationary)"
        shown = [
            recommendations_text(user, [row for row in outcome.findings if row["user"] == user][:_ITEMS_SHOWN])
            for user in few
        ]
        return [levels_text(outcome.figures["tuned"], self.stars.levels), chain, *shown]

    def files(self, outcome: Outcome) -> Files:
        rows = (row.values() for row in outcome.findings)
        return {
            "recommendations.csv": lambda path: write_csv(path, RECOMMENDED, rows),
            "risk.png": lambda path: write_plot(_risk(outcome), path),
        }


def _risk(outcome: Outcome) -> BoundDisplay:
    drawn = BoundDisplay(outcome.task.trace(outcome.model), "fit of the final model").plot(ax=offscreen_axes())
    drawn.ax_.set(xlabel="sweep", ylabel="regularised risk")
    return drawn


def levels_text(figures: Any, levels: NDArray[Any]) -> str:
    """Return how often levels were given and predicted."""
    rows = []
    for number, level in enumerate(levels.tolist()):
        error = np.abs(figures.predicted - figures.actual)[figures.actual == number]
        share = [f"{np.average(column == number):.3f}" for column in (figures.actual, figures.predicted)]
        rows.append((str(level), *share, f"{error.mean():.3f}" if error.size else "-"))
    lines = table(("level", "given", "predicted", "MAE where given"), rows)
    return "\n".join(["Levels on the hold-out (shares)", *lines])


def _medians(owner: IntArray, level: IntArray, n: int) -> Array:
    """Return the median level of each of n owners; NaN for owners without ratings."""
    order = np.lexsort((level, owner))
    count = np.bincount(owner, minlength=n)
    start, level = np.cumsum(count) - count, level[order]
    has = count > 0
    low, high = ((start + (count - 1) // 2)[has], (start + count // 2)[has])
    medians = np.full(n, np.nan)
    medians[has] = (level[low] + level[high]) / 2.0
    return medians


# ------------------------------------------------------------------------------------------------------------- reading
def read(options: Data) -> Task:
    """Read the file of a job."""
    n_sweeps = options.sweeps or _SWEEPS
    template = _MODELS[options.model](n_sweeps=n_sweeps, burn_in=n_sweeps // 5, random_state=options.seed)
    return make_task(read_ratings(options), template, options.factors or _FACTORS)


def read_ratings(options: Data) -> Stars:
    """Read a file of ratings."""
    rated, options = read_rated(options)
    return complete_rows(rated, lambda sheet: _stars(sheet, options), options.missing)


def read_rated(options: Data) -> tuple[Columns, Data]:
    """Return a file whose rows are user, item and rating, also if it is a grid, and options that name its columns."""
    sheet = read_data(options)
    return (sheet, options) if options.item_ratings is None else stacked(sheet, options)


def _stars(sheet: Columns, options: Data) -> Stars:
    names = read_columns(sheet, options)
    user, item = sheet.ids(names["user"], "user"), sheet.ids(names["item"])
    levels, level = read_levels(sheet, names["rating"], options.levels, (user, item))
    weight = read_weights(sheet, options)
    users, items = Vocabulary.from_columns(user), Vocabulary.from_columns(item)
    ratings = Ratings(users.encode(user), items.encode(item), level, weight, users.size, items.size, levels.size)
    duplicates = cast("Duplicates", options.duplicates or "error")
    if duplicates == "error":
        _check_alike(sheet, ratings, user, item)
    merged = ratings.merged(duplicates)
    check_size(sheet, merged.size, "ratings of positive weight", options)
    rated = Rows(np.column_stack([merged.user, merged.item]), merged.level, merged.weight)
    columns = {role: names[role] for role in ("user", "item")}
    sheet.notes.extend(notes_on_columns({"user": users.ids, "item": items.ids}))
    return Stars(rated, users.ids, items.ids, levels, str(options.data), columns, reading(sheet, options, names))


def reading(sheet: Columns, options: Data, names: dict[str, str]) -> Reading:
    """Return what was read of a file of ratings."""
    return reading_of(sheet, {**names, "weights": options.weight or "none"}, (*names.values(), options.weight))


def read_columns(sheet: Columns, options: Any, roles: tuple[str, ...] = ("user", "item", "rating")) -> dict[str, str]:
    """Return the names of the columns of user, item and rating."""
    names = {role: _column(sheet, role, getattr(options, role)) for role in roles}
    if len(set(names.values())) < len(names):
        raise sheet.fault(f"{', '.join(roles)} must be different columns; got {', '.join(names.values())}")
    return names


def _column(sheet: Columns, role: str, name: str | None) -> str:
    """Return the column that was named, or the one with a usual name."""
    name = name or sheet.usual(*_NAMES[role])
    sheet.require((name,), _PURPOSE)
    return name


def read_levels(
    sheet: Columns, name: str, declared: tuple[str, ...] | None, ids: tuple[NDArray[Any], NDArray[Any]]
) -> tuple[NDArray[Any], IntArray]:
    """Return all levels, low to high, and the number of each rating's; say where the file has another."""
    try:
        return _levels(sheet, name, declared, ids)
    except DataError as error:
        where = str(error).startswith(str(sheet.source))
        raise error if where else sheet.fault(f"{error} (--levels)", None, name) from error


def _levels(
    sheet: Columns, name: str, declared: tuple[str, ...] | None, ids: tuple[NDArray[Any], NDArray[Any]]
) -> tuple[NDArray[Any], IntArray]:
    """Return all levels, low to high, and the number of each rating's."""
    if declared is None:
        return rating_levels(_whole(sheet.numbers(name, meaning="or name all levels by --levels")), None, *ids)
    shown = ", ".join(declared)
    try:
        numbers = [float(level) for level in declared]
    except ValueError:
        sheet.refuse_missing(name, declared)
        cells = sheet.texts(name)
        for row, cell in enumerate(cells):
            if cell not in declared:
                raise sheet.fault(f"{cell[:80]!r} is none of the levels {shown}", row, name) from None
        return rating_levels(np.array(cells, dtype=object), list(declared), *ids)
    values = sheet.numbers(name, meaning=f"one of the levels {shown}")
    for row in np.flatnonzero(~np.isin(values, numbers))[:1].tolist():
        raise sheet.fault(f"{values[row]:g} is none of the levels {shown}", row, name)
    return rating_levels(_whole(values), _whole(np.array(numbers)), *ids)


def _whole(values: Array) -> NDArray[Any]:
    return values.astype(np.int64) if (values == np.floor(values)).all() and np.abs(values).max() < 2**53 else values


def _check_alike(sheet: Columns, ratings: Ratings, user: NDArray[Any], item: NDArray[Any]) -> None:
    """Complain of a user who rated an item differently twice, by line."""
    key = ratings.user * max(ratings.n_items, 1) + ratings.item
    order = np.argsort(key, kind="stable")
    differ = (np.diff(key[order]) == 0) & (np.diff(ratings.level[order]) != 0)
    if differ.any():
        first, second = order[np.flatnonzero(differ)[0] :][:2]
        more = int(np.count_nonzero(differ)) - 1
        also = f" (and {more} more such rows)" if more else ""
        raise sheet.fault(
            f"user {user[second][:80]!r} rated item {item[second][:80]!r} before (on {sheet.unit} "
            f"{sheet.lines[first]}), and differently{also}; keep one, or add --duplicates mean or --duplicates last",
            int(second),
        )


# --------------------------------------------------------------------------------------------------------- recommending
def recommended(model: MaxMarginFactorization, user: Any, n: int, items: Any = None) -> list[dict[str, Any]]:
    """Return what a user is expected to like most."""
    if items is None:
        items = np.asarray(model.recommend(user, n)["item"])
    if not len(items):
        return []
    pairs = np.empty((len(items), 2), dtype=object)
    pairs[:, 0], pairs[:, 1] = user, items
    mean, std = model.predict_score(pairs, return_std=True)
    level = model.predict(pairs)
    order = np.argsort(-mean, kind="stable")[:n]
    level = level.tolist()
    return [
        dict(zip(RECOMMENDED, (user, rank, pairs[k, 1], level[k], float(mean[k]), float(std[k])), strict=True))
        for rank, k in enumerate(order.tolist(), 1)
    ]


def recommendations_text(user: Any, rows: list[dict[str, Any]]) -> str:
    """Return a table of recommendations."""
    cells = [
        (str(row["rank"]), cut(row["item"]), str(row["level"]), f"{row['score']:+.2f} ± {row['std']:.2f}")
        for row in rows
    ]
    title = f"Recommended to user '{cut(user)}'"
    if not cells:
        return f"{title}: nothing, since everything is rated"
    return "\n".join([title, *table(("rank", "item", "level", "score ± std"), cells)])
