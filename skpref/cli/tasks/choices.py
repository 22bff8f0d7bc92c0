"""The task of choices and rankings: rows show several items, and are learnt from unbroken."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.cli import rankings
from skpref.cli.advice import as_of_command
from skpref.cli.files import complete_rows, counted, say_note
from skpref.cli.ids import unknown_id
from skpref.cli.output import write_columns
from skpref.cli.report import titled_table
from skpref.cli.tasks.base import Rows, Task, check_size, limit, limit_factors, read_groups
from skpref.cli.tasks.doubts import notes_on_columns
from skpref.cli.tasks.figures import Figures, Files, Report
from skpref.cli.tasks.layouts import with_plain_items
from skpref.cli.tasks.times import as_cells, split_times
from skpref.data import Table
from skpref.data.choices import OPTION, with_profiles
from skpref.data.records import columns_of_report
from skpref.data.roles import Roles, reading_of_all
from skpref.data.task_tables import read_tasks
from skpref.data.times import read_times
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.pairwise import GPPLClassifier
from skpref.metrics import choice_log_loss
from skpref.search import default_space

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray
    from skpref.cli.options import Data
    from skpref.cli.tasks.base import Outcome
    from skpref.data.columns import Columns

_TOP = 10
_PART_WORTHS = {
    "feature": "{feature}",
    "part-worth ± std": "{mean:+.4g} ± {std:.2g}",
    "between": "{between_people:.3g}",
}


@dataclass(frozen=True, eq=False)
class Choices:
    """Choices or rankings of a file, and what is known about items and users."""

    rows: Rows  # (user,) the items shown, covariates of each, groups, time
    n_shown: int  # columns of items
    items: Table | None  # features of the items
    users: Table | None
    source: str
    roles: Roles
    covariates: tuple[str, ...]
    dynamics: str
    split_note: str
    reading: str
    columns: Mapping[str, str] = field(default_factory=dict)  # what `saved_columns` returns
    profiles: Table | None = None  # further items that are worth a ranking of their own

    @property
    def first(self) -> int:
        """The first column of items."""
        return 0 if self.roles.user is None else 1

    @property
    def noun(self) -> str:
        """What rows are called."""
        return "choices" if self.roles.chosen is not None else "rankings"

    @property
    def n_items(self) -> int:
        """Number of items that are known."""
        shown = set(self.rows.X[:, self.first : self.first + self.n_shown].ravel().tolist()) - {None}
        return len(shown) if self.items is None else self.items.n_items


def read_choices(options: Data, sheet: Columns, roles: Roles) -> Choices:
    """Return the choices or rankings of a file."""

    def read_part(part: Columns) -> tuple[Any, ...]:
        items, read_roles = None, replace(roles, once=(*roles.once, *filter(None, [roles.time])))
        if options.features is not None:
            option = OPTION if OPTION in part.values else None
            part, read_roles, items = with_profiles(part, read_roles, options.features, options.none, option)
        plain = (
            with_plain_items(part, (*roles.offered, *roles.ranking), (roles.chosen, roles.worst))
            if not roles.task
            else part
        )
        rows = read_tasks(plain, read_roles, None)
        time = None if roles.time is None else read_times(part, roles.time)
        return part, rows, items, read_groups(part, options.group), split_times(part, options.time_split), time

    with as_of_command():
        kept, read, items, groups, splits, time = complete_rows(sheet, read_part, options.missing)
    first, n_shown = 0 if roles.user is None else 1, read.X.shape[1] - (roles.user is not None)
    shown = read.X[:, first : first + n_shown]
    _refuse_constant(sheet, options, items, read.covariates, shown)
    if options.items is not None:
        task, _ = np.nonzero(shown != None)  # noqa: E711 - for each cell
        items = _read_table(options, "item", kept, shown[shown != None], read.origin[task])  # noqa: E711
    users = None
    if options.users is not None:
        users = _read_table(options, "user", kept, read.X[:, 0], read.origin)
    more = [] if read.covariates is None else [read.covariates.astype(object)]
    more += [kept.ids(name, "group")[read.origin] for name in roles.groups]
    more += [] if time is None else [as_cells(time[0][read.origin], is_dated=time[1])]
    groups = None if groups is None else groups[read.origin]
    if groups is None and splits is None and roles.user is not None and _has_one_task(read.X[:, 0]):
        groups = read.X[:, 0]
    rows = Rows(
        np.column_stack([read.X, *more]) if more else read.X,
        *(read.y, read.weight, groups, None if splits is None else splits[read.origin]),
    )
    for note in notes_on_columns({"item": shown[shown != None], "user": read.X[:, 0] if first else None}):  # noqa: E711
        say_note(f"{sheet.source}: {note}")
    check_size(sheet, rows.size, "choices or rankings", options)
    source = " + ".join(str(file) for file in (options.data, options.items, options.users) if file is not None)
    reading = reading_of_all(read.reading, sheet, kept)
    reading = replace(reading, unused=tuple(name for name in reading.unused if name != OPTION))
    names = (options.covariates or (), options.dynamics or "auto", _note_on_split(options, roles, groups), str(reading))
    return Choices(rows, n_shown, items, users, source, roles, *names)


def _refuse_constant(sheet: Columns, options: Data, items: Table | None, C: Array | None, shown: NDArray[Any]) -> None:
    """Refuse an attribute that is the same everywhere, and a covariate that is the same for all items of each task."""
    if items is not None and items.feature_names is not None:
        for name in np.array(items.feature_names)[np.ptp(items.features, axis=0) == 0.0].tolist()[:1]:
            what = f"all items shown have the same {name.partition('=')[0]!r}: it has no effect to learn"
            raise sheet.fault(f"{what}; leave it out of --features")
    if C is None:
        return
    values = np.where((shown == None)[:, None], np.nan, C.reshape(len(shown), -1, shown.shape[1]))  # noqa: E711
    spread = np.nanmax(values, axis=2) - np.nanmin(values, axis=2)
    for name, varies in zip(options.covariates or (), spread.any(axis=0).tolist(), strict=True):
        if not varies:
            raise sheet.fault(f"covariate {name!r} is the same for all items of each row: it has no effect to learn")


def _has_one_task(user: NDArray[Any]) -> bool:
    """Tell whether users have fewer than two tasks on average, so that none can be held out of what is learnt."""
    return 2 * len(set(user.tolist())) > user.size


def _note_on_split(options: Data, roles: Roles, groups: Any) -> str:
    """Return how the hold-out is drawn."""
    if options.time_split is not None:
        return ", the latest"
    if options.group is not None:
        return f", split by {options.group}"
    if roles.time is not None:
        return f", drawn at random: --time-split {roles.time} tests on the latest ones, as forecasts are"
    if roles.user is None:
        return ""
    return "; of people who are not learnt from" if groups is not None else "; each user also has some to learn from"


def _read_table(options: Data, noun: str, sheet: Columns, used: NDArray[Any], rows: IntArray) -> Table:
    """Return the features of items or users; refuse ids in use that have none."""
    from skpref.cli.tasks.comparisons import read_own_table  # that module reads both kinds of tasks

    path: Any = options.items if noun == "item" else options.users
    column = (options.id if noun == "item" else options.user) or ("id" if noun == "item" else "user")
    table, _ = read_own_table(path, column, noun, options)
    problem = unknown_id(sheet, used, table.ids.tolist(), noun, rows=rows, where=f", not in {path}")
    if problem is not None:
        raise problem
    return table


# ------------------------------------------------------------------------------------------------------------- the task
def make_task(data: Choices, seed: int, max_inducing: int) -> Task:
    """Return the task of choices or rankings, by nobody in particular or by known users."""
    rows, roles = data.rows, data.roles
    estimator: Any = GPPLClassifier(data.items) if roles.user is None else CrowdGPPL(data.items, data.users)
    estimator.set_params(likelihood="luce", random_state=seed)
    column = data.first + data.n_shown
    if data.covariates:
        ends = [(name, column + k * data.n_shown) for k, name in enumerate(data.covariates)]
        estimator.set_params(covariates={name: tuple(range(start, start + data.n_shown)) for name, start in ends})
        column += len(ends) * data.n_shown
    if roles.groups:
        estimator.set_params(groups={name: column + k for k, name in enumerate(roles.groups)})
    if roles.time is not None:
        estimator.set_params(time=rows.X.shape[1] - 1, dynamics=data.dynamics)
    space = default_space(estimator)
    if "inducing" in space:
        limit(space, estimator, "inducing", 50, min(max_inducing, data.n_items))
    n_features = 0 if data.items is None else data.items.n_features
    sizes = {f"n_{data.noun}": rows.size, "n_items": data.n_items, "n_features": n_features, "n_groups": rows.n_groups}
    shape = counted(rows.size, data.noun)
    if roles.user is not None:
        limit_factors(space, estimator, len(set(rows.X[:, 0].tolist())))
        sizes["n_users"] = len(set(rows.X[:, 0].tolist()))
        shape += f" by {counted(sizes['n_users'], 'users')}"
    shape += f" among {counted(data.n_items, 'items')}, up to {data.n_shown} at a time, "
    shape += "no features" if data.items is None else counted(n_features, "features")
    shown = roles.offered or tuple(f"item {k + 1}" for k in range(data.n_shown))
    more = tuple(f"{name} {k + 1}" for name in data.covariates for k in range(data.n_shown))
    names = (*filter(None, [roles.user]), *shown, *more, *roles.groups, *filter(None, [roles.time]))
    return Task(
        rows=rows,
        estimator=estimator,
        space=space,
        report=ChoiceReport(data),
        source=data.source,
        reading=data.reading,
        shape=shape,
        sizes=sizes,
        digest=rows.digest([None if table is None else table.digest for table in (data.items, data.users)]),
        next_command="Shares of products:   skpref shares {model} PRODUCTS.csv"
        if data.items is not None and roles.user is not None
        else "Rank the items:   skpref rank {model}",
        data=data,
        noun=data.noun,
        options={"max_inducing": max_inducing} | ({"dynamics": data.dynamics} if roles.time else {}),
        columns=dict(data.columns),
        names=names,
        within_users=roles.user is not None and rows.groups is None and rows.time is None,
        split_note=data.split_note,
    )


def saved_columns(options: Data, roles: Roles) -> dict[str, str]:
    """Return the names of the columns that rows to predict have, by their options."""
    lists = {"offered": roles.offered or roles.ranking, "contest": options.contest, "features": options.features}
    columns = {f"{role}:{k}": name for role, names in lists.items() for k, name in enumerate(names or ())}
    one = {"item": next(iter(roles.item), None), "user": roles.user, "time": roles.time, "none": options.none}
    return columns | {role: str(name) for role, name in one.items() if name is not None}


class ChoiceReport(Report):
    """The report on choices and rankings: how probable the chosen item, or the best one, was."""

    metric = "log_loss"

    def __init__(self, data: Choices) -> None:
        self.data = data

    def figures(self, model: Any, test: Rows) -> Figures:
        place = model._chosen_places(test.X, test.y)  # noqa: SLF001 - of this package
        return _score(test, place, model.predict_proba(test.X))

    def baselines(self, train: Rows, test: Rows) -> dict[str, Figures]:
        place, present = self._answers(test)
        guesses = {"equal shares": present / present.sum(axis=1, keepdims=True)}
        if self.data.items is None:
            guesses["shares when shown"] = self._shares_when_shown(train, test)
        return {name: _score(test, place, guess) for name, guess in guesses.items()}

    def _shown(self, rows: Rows) -> NDArray[Any]:
        return rows.X[:, self.data.first : self.data.first + self.data.n_shown]

    def _answers(self, rows: Rows) -> tuple[Any, NDArray[np.bool_]]:
        """Return the positions of what was chosen, and where there were items."""
        shown, y = self._shown(rows), rows.y
        if y.ndim == 2 and y.dtype.kind == "f":
            return np.nanargmin(y, axis=1), shown != None  # noqa: E711 - for each cell
        best = y if y.ndim == 1 else y[:, 0]
        return np.argmax(shown == best[:, None], axis=1), shown != None  # noqa: E711

    def _shares_when_shown(self, train: Rows, test: Rows) -> Array:
        """Return how often items were chosen where they were shown, one answer more of either kind, summing to 1."""
        (place, present), shown = self._answers(train), self._shown(train)
        chosen, offered = dict[Any, float](), dict[Any, float]()
        for row, k in np.argwhere(present).tolist():
            offered[shown[row, k]] = offered.get(shown[row, k], 0.0) + train.weight[row]
        for row, k in enumerate(place.tolist()):
            chosen[shown[row, k]] = chosen.get(shown[row, k], 0.0) + train.weight[row]
        share = {item: (chosen.get(item, 0.0) + 1.0) / (count + 2.0) for item, count in offered.items()}
        cells = self._shown(test)
        values = np.array([[0.0 if item is None else share.get(item, 0.5) for item in row] for row in cells])
        return np.asarray(values / values.sum(axis=1, keepdims=True))

    def findings(self, model: Any, seed: int) -> Any:
        del seed
        has_part_worths = self.data.roles.user is not None and self.data.items is not None and model.kernel is None
        return None if has_part_worths else model.rank(), columns_of_report(
            model.part_worths()
        ) if has_part_worths else {}

    def sections(self, outcome: Outcome) -> list[str]:
        parts = self._about(outcome.model, *outcome.findings)
        if self.data.profiles is not None:
            profiles = outcome.model.rank(self.data.profiles)
            parts.append(rankings.ranking_text(profiles, len(profiles), "Ranking of typical items"))
        return parts

    def _about(self, model: Any, ranking: Any, part_worths: dict[str, Any]) -> list[str]:
        title = "Ranking" if self.data.roles.user is None else "Ranking by the consensus"
        parts = [rankings.ranking_text(ranking, _TOP, title)] if ranking is not None else []
        if part_worths:
            parts.append(titled_table("Part-worths of the population", _PART_WORTHS, part_worths))
        return [*parts, *([rankings.effects_text(model, "Effects")] if model.covariate_names_.size else [])]

    def files(self, outcome: Outcome) -> Files:
        ranking, part_worths = outcome.findings
        files: Files = {} if ranking is None else {"ranking.csv": partial(write_columns, ranking.columns())}
        files |= {"part_worths.csv": partial(write_columns, part_worths)} if part_worths else {}
        if outcome.model.covariate_names_.size:
            files["effects.csv"] = partial(write_columns, rankings.effects_of(outcome.model))
        return files | rankings.plots(outcome.model.lower_bounds_, ranking, None, None)

    def summary(self, model: Any, seed: int) -> list[str]:
        return self._about(model, *self.findings(model, seed))


def _score(rows: Rows, place: Any, p: Array) -> Figures:
    """Score probabilities of the positions by what was chosen, in nats a row; of equal ones, one is guessed."""
    top = p == p.max(axis=1, keepdims=True)
    right = top[np.arange(rows.size), place] / top.sum(axis=1)
    loss = choice_log_loss(place, p, sample_weight=rows.weight)
    return Figures({"accuracy": float(np.average(right, weights=rows.weight)), "log_loss": loss})


# ----------------------------------------------------------------------------------------------------------- prediction
def read_travellers() -> Choices:
    """Return the choices of 210 travellers among air, train, bus and car.

    The waiting time is left out: for the modes not taken the data hold constants (69 or 64 minutes for air, 34 or 44
    for the train, 35 or 53 for the bus), which no traveller who took them reports, so that it gives the answer away.
    """
    from skpref.datasets import load_modechoice

    data = load_modechoice()
    keep = [column for column, name in enumerate(data.feature_names) if name != "ttme"]
    names = tuple(data.feature_names[column] for column in keep)
    items = Table(np.asarray(data.table.features)[:, keep], data.table.ids, feature_names=names)
    modes = np.array([str(name).partition(":")[2] for name in items.ids])
    kinds = np.unique(modes)
    means = np.vstack([items.features[modes == kind].mean(axis=0) for kind in kinds])
    profiles = Table(means, np.array([f"average {kind}" for kind in kinds], dtype=object), feature_names=names)
    rows, roles = Rows(data.X, data.y, np.ones(data.y.size)), Roles(offered=tuple(kinds), chosen="mode taken")
    more = "modechoice (statsmodels)", roles, (), "auto", "", ""
    return Choices(rows, data.X.shape[1], items, None, *more, profiles=profiles)
