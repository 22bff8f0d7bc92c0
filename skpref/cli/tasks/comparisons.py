"""Files of comparisons, choices and rankings: what is read, the estimator for it, and the report on its fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from skpref._typing import AnyArray, Array, BoolArray
from skpref.cli import rankings
from skpref.cli.files import USERS, complete_rows, counted, read_sheet, say_left_out, say_note
from skpref.cli.ids import read_table, unknown_id
from skpref.cli.options import Data, Text
from skpref.cli.output import write_columns
from skpref.cli.report import titled_table
from skpref.cli.tasks.base import Outcome, Rows, Task, check_size, read_data, read_splits
from skpref.cli.tasks.figures import Figures, Files, Report, calibration_text, score_chances
from skpref.cli.tasks.layouts import (
    notes_on_answers,
    notes_on_columns,
    notes_on_covariate,
    notes_on_sides,
    roles_of,
    saved_columns,
    say_doubts,
    with_long_rows,
    with_plain_items,
)
from skpref.data import Table
from skpref.data.choices import NONE, OPTION, with_profiles
from skpref.data.columns import Columns
from skpref.data.ids import objects
from skpref.data.records import columns_of_report
from skpref.data.roles import ReadRows, Roles, reading_of_all
from skpref.data.roles import read as read_roles
from skpref.data.times import to_cells
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.entities import as_team, players_of
from skpref.gp.pairwise import GPPLClassifier
from skpref.metrics import choice_log_loss
from skpref.search import default_space

_PART_WORTHS = {
    "feature": "{feature}",
    "part-worth ± std": "{mean:+.4g} ± {std:.2g}",
    "between": "{between_people:.3g}",
}
_USERS_FILE = (
    "A file of users has numeric features and a column of ids: {name}, as in the data, or one such as user or person"
)


@dataclass(frozen=True, eq=False)
class Compared:
    """Comparisons, choices or rankings of a file, and what is known about items and users."""

    rows: Rows  # ids: (user,) the items shown; covariates, of tasks those of each item shown; groups, time, context
    items: Table | None  # features of the items
    source: str  # where the data are from
    roles: Roles = field(default_factory=Roles)
    users: Table | None = None  # features of the users
    group: str | None = None  # name of the column whose values splits keep together
    has_sides: bool = True  # whether the items are where they were shown, and not drawn for winners and losers
    covariates: tuple[str, ...] = ()  # names
    n_shown: int = 2  # columns of items
    reading: str = ""  # what was read of the file
    columns: Mapping[str, str] = field(default_factory=dict)  # what `layouts.saved_columns` returns
    profiles: Table | None = None  # further items that are worth a ranking of their own

    @property
    def first(self) -> int:
        """The first column of items."""
        return 0 if self.roles.user is None else 1

    @property
    def noun(self) -> str:
        """What rows are called."""
        if not self.roles.several:
            return "comparisons"
        return "choices" if self.roles.chosen is not None else "rankings"

    @property
    def has_ties(self) -> bool:
        """Whether some comparisons are ties."""
        return not self.roles.several and bool((self.with_sides(self.rows).y == 0.5).any())

    def with_sides(self, rows: Rows) -> Rows:
        """Return rows whose grades, if they have some, are labels of their sides."""
        return replace(rows, y=0.5 + 0.5 * np.sign(rows.y)) if self.roles.graded else rows

    @property
    def n_items(self) -> int:
        """Number of items that are known."""
        shown = self.rows.X[:, self.first : self.first + self.n_shown]
        ids = {name for cell in shown.ravel().tolist() for name in as_team(cell)}
        return len(ids - {None}) if self.items is None else self.items.n_items

    @property
    def n_users(self) -> int:
        """Number of users who answered; 0 where there is one view for all."""
        return 0 if self.roles.user is None else len(set(self.rows.X[:, 0].tolist()))

    @property
    def digest(self) -> str:
        """SHA-256 of rows, items and users, 64 hexadecimal digits."""
        return self.rows.digest([None if table is None else table.digest for table in (self.items, self.users)])

    @property
    def split_note(self) -> str:
        """How the hold-out was drawn."""
        if self.rows.time is not None:
            return ", the latest"
        if self.group is not None:
            return f", split by {self.group}"
        if self.roles.time is not None:
            return f", drawn at random: --time-split {self.roles.time} tests on the latest ones, as forecasts are"
        return "" if self.roles.user is None else f"; each user also has {self.noun} to learn from"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of rows."""
        roles, positions = self.roles, range(1, self.n_shown + 1)
        sides, covariates = roles.sides if None not in roles.sides else ("left", "right"), self.covariates
        shown = tuple(",".join(side) if isinstance(side, tuple) else side for side in sides)
        if roles.several:
            shown = roles.offered or tuple(f"item {k}" for k in positions)
            covariates = tuple(f"{name} {k}" for name in covariates for k in positions)
        levels = (*roles.groups, *filter(None, [roles.time]), *roles.context)
        return (*filter(None, [roles.user]), *shown, *covariates, *levels)

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the estimator that say what the columns of rows are."""
        roles, K, column = self.roles, self.n_shown, self.first + self.n_shown
        width = K if roles.several else 1
        C = {name: tuple(range(column + k * width, column + (k + 1) * width)) for k, name in enumerate(self.covariates)}
        column += len(C) * width
        of_context = column + len(roles.groups) + (roles.time is not None)
        named = {
            "covariates": C if roles.several else {name: place for name, (place,) in C.items()},
            "groups": {name: column + k for k, name in enumerate(roles.groups)},
            "time": None if roles.time is None else column + len(roles.groups),
            "context": [of_context + k for k in range(len(roles.context))] or None,
        }
        params: dict[str, Any] = {name: value for name, value in named.items() if value not in (None, {})}
        if roles.several:
            return {"likelihood": "luce", **params}
        if isinstance(roles.left, tuple):  # of teams, whose players stand in one cell
            return {"left": [self.first], "right": [self.first + 1], **params}
        return {"left": self.first, "right": self.first + 1, **params} if params else {}


def make_task(data: Compared, seed: int = 0) -> Task:
    """Return the task of comparisons, choices or rankings, by nobody in particular or by known users."""
    rows, roles, noun, n_users = data.rows, data.roles, data.noun, data.n_users
    estimator: Any = GPPLClassifier(data.items) if roles.user is None else CrowdGPPL(data.items, data.users)
    estimator.set_params(random_state=seed, **data.params)
    space = default_space(estimator, rows.y)
    space.pop("covariates", None)  # who names covariates wants a ranking without their effects
    if not data.has_sides:
        space.pop("order_effect", None)
    n_features = 0 if data.items is None else data.items.n_features
    sizes = {f"n_{noun}": rows.size, "n_items": data.n_items, "n_features": n_features, "n_groups": rows.n_groups}
    by, among, next_command = "", f"of {counted(data.n_items, 'items')}", "Rank the items:   skpref rank {model}"
    if roles.user is not None:
        sizes |= {"n_users": n_users, "n_user_features": 0 if data.users is None else data.users.n_features}
        by = f" by {counted(n_users, 'users')}"
        by += "" if data.users is None else f" ({counted(data.users.n_features, 'features')})"
    if roles.several:
        among = f"among {counted(data.n_items, 'items')}, up to {data.n_shown} at a time"
        if data.items is not None and roles.user is not None:
            next_command = "Shares of products:   skpref shares {model} PRODUCTS.csv"
    else:
        next_command = next_command if data.items is None else "Rank new items:   skpref rank {model} ITEMS.csv"
        next_command += "" if roles.user is None else " [--user ID]"
    features = counted(n_features, "features") if n_features else "no features"
    shape = [f"{counted(rows.size, noun)}{by} {among}", features]
    shape += [counted(rows.n_groups, "games" if data.group is None else "groups")] if rows.n_groups else []
    return Task(
        rows=rows,
        estimator=estimator,
        space=space,
        report=ChoiceReport(data) if roles.several else PairReport(data),
        source=data.source,
        reading=data.reading,
        shape=", ".join(shape),
        sizes=sizes,
        digest=data.digest,
        next_command=next_command,
        data=data,
        noun=noun,
        columns=dict(data.columns),
        names=data.names,
        within_users=roles.user is not None and data.group is None and rows.time is None,
        split_note=data.split_note,
    )


# ------------------------------------------------------------------------------------------------------------- reading
def read(options: Data) -> Task:
    """Read the files of a job."""
    if options.data is None:
        return make_task(read_travellers(), options.seed)
    sheet, asked = read_data(options), options
    if options.has_wide_features:
        sheet, options = with_long_rows(sheet, options)
    roles = roles_of(sheet, options)
    data = replace(_read(options, sheet, roles), columns=saved_columns(sheet, asked, roles))
    return make_task(data, options.seed)


def _read(options: Data, sheet: Columns, roles: Roles) -> Compared:
    """Read and check a file of comparisons, choices or rankings, and the files of items and users."""

    def read_part(part: Columns) -> tuple[Any, ...]:
        plain, own, profiles = part, roles, None
        if roles.features:
            option = OPTION if OPTION in part.values else None
            plain, own, profiles = with_profiles(part, roles, roles.features, options.none, option)
        elif roles.several and not roles.task:
            plain = with_plain_items(part, (*roles.offered, *roles.ranking), (roles.chosen, roles.worst))
        return part, read_roles(plain, own, None), profiles, *read_splits(part, options)

    kept, rows, items, groups, time = complete_rows(sheet, read_part, options.missing)
    reading, users, group = reading_of_all(rows.read_, sheet, kept), None, options.group
    reading = replace(reading, unused=tuple(name for name in reading.unused if name != OPTION))
    if options.items is not None:
        items, rows = _read_table(options, "item", options.id or "id", kept, rows, roles)
    if options.users is not None:
        users, rows = _read_table(options, "user", roles.user, kept, rows, roles)
    _refuse_constant(sheet, options, items, rows, roles)
    shown, noun = np.concatenate(rows.items), "choices or rankings" if roles.several else "comparisons"
    is_of_teams = isinstance(roles.left, tuple)
    shown = players_of(shown) if is_of_teams else shown
    ids = {"item": shown[shown != None], "user": rows.user}  # noqa: E711 - for each cell
    ids["group"] = np.array([*map(list, rows.groups)], dtype=object)
    doubts = [] if roles.several or is_of_teams else notes_on_sides(roles.sides, *rows.items)
    say_doubts(sheet, [*doubts, *notes_on_columns(ids), *notes_on_answers(kept, roles, options.none)])
    check_size(sheet, rows.weight.size, noun, options)
    # Users with two games or tasks on average: one can be held out, and one learnt from.
    have_two = rows.user is None or len(set(rows.unit.tolist())) >= 2 * len(set(rows.user.tolist()))
    if groups is not None:
        groups = groups[rows.origin]
    elif have_two and np.unique(rows.unit).size < rows.unit.size:
        groups = rows.unit.astype(object)  # answers about one game share their noise
    elif roles.several and time is None and not have_two:
        groups, group = rows.user, roles.user
    found = _rows(rows, groups, None if time is None else time[rows.origin], options.seed)
    has_sides = not (roles.several or rows.y is None or (found.y == found.y[0]).all())  # winners may stand first
    more: dict[str, Any] = {"covariates": options.covariates or (), "n_shown": len(rows.items), "reading": str(reading)}
    source = " + ".join(str(file) for file in options.sources if file is not None)
    return Compared(found, items, source, roles, users, group, has_sides, **more)


def _read_table(
    options: Data, noun: str, column: str, sheet: Columns, rows: ReadRows, roles: Roles
) -> tuple[Table, ReadRows]:
    """Return the table of items or users, and rows without incomplete ones; refuse ids that it does not have."""
    table, incomplete = _read_own_table(options, noun, column)
    of_rows = zip(*_ids(rows, noun), strict=True)
    kept = np.array([all(map(incomplete.isdisjoint, map(as_team, own))) for own in of_rows], dtype=bool)
    say_left_out(int(np.sum(~kept)), "task" if roles.several else "comparison", "", f"of {noun}s without features")
    rows, path = rows.take(kept), options.items if noun == "item" else options.users
    for cells, name in zip_longest(_ids(rows, noun), roles.sides if noun == "item" else (roles.user,)):
        pairs = [(row, own) for row, cell in zip(rows.origin, cells, strict=True) for own in as_team(cell) if own]
        ids, here = objects([own for _, own in pairs]), [row for row, _ in pairs]
        column_or_team = ",".join(name) if isinstance(name, tuple) else name
        problem = unknown_id(sheet, ids, table.ids.tolist(), noun, column_or_team, here, f", not in {path}")
        if problem is not None:
            raise problem
    return table, rows


def _ids(rows: ReadRows, noun: str) -> tuple[Any, ...]:
    return rows.items if noun == "item" else (rows.user,)


def _read_own_table(options: Data, noun: str, column: str) -> tuple[Table, set[Any]]:
    """Return the features of items or users, and the ids of the rows that were left out."""
    path = options.items if noun == "item" else options.users
    sheet = read_sheet(cast("Path", path), Text(encoding=options.encoding, decimal=options.decimal))
    purpose, names = "", ["id"]
    if noun == "user":
        purpose, names = _USERS_FILE.format(name=column), [column, "id", *USERS]
    if column not in sheet.values and (noun == "user" or options.id is None):
        column = sheet.usual(*names)
        if column in sheet.values and column not in names[:2]:
            say_note(f"{path}: {noun}s from {column!r}")
    table = complete_rows(sheet, lambda part: read_table(part, column, noun, purpose=purpose), options.missing)
    named = sheet.take([row for row, text in enumerate(sheet.texts(column)) if text])
    return table, set(named.ids(column, noun).tolist()) - set(table.ids.tolist())


def _refuse_constant(sheet: Columns, options: Data, items: Table | None, rows: ReadRows, roles: Roles) -> None:
    """Refuse attributes and covariates without an effect to learn, and note covariates that are never negative."""
    if roles.features and items is not None and items.feature_names is not None:
        is_none = (names := np.array(items.feature_names)) == NONE
        products = items.features[~items.features[:, is_none].any(axis=1)]
        for name in names[(np.ptp(products, axis=0) == 0.0) & ~is_none].tolist()[:1]:
            what = f"all items shown have the same {name.partition('=')[0]!r}: it has no effect to learn"
            raise sheet.fault(f"{what}; leave it out of --features")
    if rows.covariates is None or not rows.weight.size:
        return
    C, shown = rows.covariates, np.column_stack(rows.items)
    if roles.several:
        C = np.where((shown == None)[:, None], np.nan, C.reshape(len(shown), -1, shown.shape[1]))  # noqa: E711
        spread = (np.nanmax(C, axis=2) - np.nanmin(C, axis=2)).max(axis=0)
    else:
        spread = np.ptp(C, axis=0)
    for k, (name, term) in enumerate(zip(options.covariates or (), roles.covariates, strict=True)):
        if spread[k] == 0.0:
            what = "the same for all items of each row" if roles.several else f"{C[0, k]:g} in every row"
            raise sheet.fault(f"covariate {name!r} is {what}: it has no effect to learn")
        say_doubts(sheet, [] if isinstance(term, tuple) else notes_on_covariate(sheet, name, C[:, k]))


def _rows(rows: ReadRows, groups: AnyArray | None, time: Array | None, seed: int) -> Rows:
    """Return comparisons as the estimator takes them; without sides, those of random rows are exchanged."""
    items, y, C = rows.items, rows.y, rows.covariates
    if y is None:  # with the winner always on the left, calibration would see ones only
        swap = np.random.default_rng(seed).random(rows.weight.size) < 0.5
        items, y = tuple(np.where(swap, *pair) for pair in (items[::-1], items)), np.where(swap, 0.0, 1.0)
        C = None if C is None else np.where(swap[:, None], -C, C)
    ids = items if rows.user is None else (rows.user, *items)
    moved = [] if rows.time is None else [to_cells(rows.time, is_dated=rows.is_dated)]
    numbers = [held.astype(object) for held in (C, rows.context) if held is not None]
    X = np.column_stack([*ids, *numbers[: C is not None], *rows.groups, *moved, *numbers[C is not None :]])
    return Rows(X, y, rows.weight, groups, time)


def read_travellers() -> Compared:
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
    shown = {"has_sides": False, "n_shown": data.X.shape[1]}
    return Compared(rows, items, "modechoice (statsmodels)", roles, profiles=profiles, **shown)


# -------------------------------------------------------------------------------------------------------------- report
class Findings(NamedTuple):
    """What is found in the final model."""

    ranking: Any  # of all items; by a crowd's consensus; None where there are part-worths
    annotators: dict[str, Any] | None = None  # columns of a crowd's report on its users
    part_worths: dict[str, Any] | None = None  # columns of a crowd's report on the attributes of products


class ComparedReport(Report):
    """The report on items that were compared: their ranking, or what their attributes are worth, and what else counts.

    Subclasses score answers.
    """

    metric = "log_loss"

    def __init__(self, data: Compared) -> None:
        self.data = data

    def findings(self, model: Any, seed: int) -> Findings:
        is_crowd, several, worths = self.data.roles.user is not None, self.data.roles.several, None
        if is_crowd and several and self.data.items is not None and model.kernel is None:
            worths = columns_of_report(model.part_worths())
        annotators = _annotators(model, seed) if is_crowd and not several else None
        return Findings(model.rank() if worths is None else None, annotators, worths)

    def sections(self, outcome: Outcome) -> list[str]:
        detail = outcome.figures["tuned"].detail
        parts = [] if detail is None else [calibration_text(detail)]
        parts += [*self._ranking(outcome.findings.ranking), *self._about(outcome.model, outcome.findings)]
        if self.data.profiles is not None:
            profiles = outcome.model.rank(self.data.profiles)
            parts.append(rankings.ranking_text(profiles, len(profiles), "Ranking of typical items"))
        return parts

    def _ranking(self, ranking: Any) -> list[str]:
        title = "Ranking" if self.data.roles.user is None else "Ranking by the consensus"
        return [] if ranking is None else [rankings.ranking_text(ranking, 10, title)]

    def _about(self, model: Any, found: Findings) -> list[str]:
        """Return the sections on attributes, on effects of covariates and of the order, and on the users of a crowd."""
        worths, annotators = found.part_worths, found.annotators
        parts = [] if worths is None else [titled_table("Part-worths of the population", _PART_WORTHS, worths)]
        if _has_effects(model):
            titles = ["Effects"] if self.data.roles.several else []
            parts.append(rankings.effects_text(model, *titles))
        if self.data.roles.time is not None:
            still = ": utilities are the same at all times; --set dynamics=drift lets them move"
            still *= model.dynamics_.name == "constant"
            parts.append(f"Movement in time: dynamics={model.dynamics_.name}{still}")
        if annotators is not None:
            parts += [rankings.factors_text(model), rankings.annotators_text(annotators)]
        return parts

    def files(self, outcome: Outcome) -> Files:
        ranking, annotators, worths = outcome.findings
        effects = rankings.effects_of(outcome.model) if _has_effects(outcome.model) else None
        tables = {"part_worths.csv": worths, "effects.csv": effects, "annotators.csv": annotators}
        tables = {"ranking.csv": None if ranking is None else ranking.columns(), **tables}
        written: Files = {name: partial(write_columns, table) for name, table in tables.items() if table is not None}
        return written | rankings.plots(outcome.model, ranking, outcome.figures["tuned"].detail, annotators)

    def summary(self, model: Any, seed: int) -> list[str]:
        found = self.findings(model, seed)
        return [*self._ranking(found.ranking), *self._about(model, found)]


class PairReport(ComparedReport):
    """The report on comparisons: how probable the winners were."""

    def figures(self, model: Any, test: Rows) -> Figures:
        test = self.data.with_sides(test)
        if not model.likelihood_.ties_are_answers:
            return score_chances(test, model.predict_proba(test.X)[:, 1])
        answers = np.asarray(model.predict_proba(test.X, ties=True))  # of left, tie and right
        return score_chances(test, answers[:, 0] + 0.5 * answers[:, 1], answers)

    def baselines(self, train: Rows, test: Rows) -> dict[str, Figures]:
        guesses = {"coin flip": 0.5}
        train, test = map(self.data.with_sides, (train, test))
        if self.data.has_sides:
            least = 1.0 / (train.size + 2.0)  # one of both sides more: nothing is impossible
            share = float(np.average(train.y, weights=train.weight))
            guesses["share of left wins"] = min(max(share, least), 1.0 - least)
        return {name: score_chances(test, np.full(test.size, guess)) for name, guess in guesses.items()}

    def sections(self, outcome: Outcome) -> list[str]:
        parts = super().sections(outcome)
        if self.data.has_ties:
            parts[0] += f"\n{rankings.ties_text(outcome.figures['tuned'].values.get('answers_log_loss'))}"
        return parts


class ChoiceReport(ComparedReport):
    """The report on choices and rankings: how probable the chosen item, or the best one, was."""

    def figures(self, model: Any, test: Rows) -> Figures:
        place = model._chosen_places(test.X, test.y)  # noqa: SLF001 - of this package
        return _score(test, place, model.predict_proba(test.X))

    def baselines(self, train: Rows, test: Rows) -> dict[str, Figures]:
        place, present = self._answers(test)
        guesses = {"equal shares": present / present.sum(axis=1, keepdims=True)}
        if self.data.items is None:
            guesses["shares when shown"] = self._shares_when_shown(train, test)
        return {name: _score(test, place, guess) for name, guess in guesses.items()}

    def _shown(self, rows: Rows) -> AnyArray:
        return rows.X[:, self.data.first : self.data.first + self.data.n_shown]

    def _answers(self, rows: Rows) -> tuple[Any, BoolArray]:
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


def _score(rows: Rows, place: Any, p: Array) -> Figures:
    """Score probabilities of the positions by what was chosen, in nats a row; of equal ones, one is guessed."""
    top = p == p.max(axis=1, keepdims=True)
    right = top[np.arange(rows.size), place] / top.sum(axis=1)
    loss = choice_log_loss(place, p, sample_weight=rows.weight)
    return Figures({"accuracy": float(np.average(right, weights=rows.weight)), "log_loss": loss})


def _annotators(model: CrowdGPPL, seed: int) -> dict[str, Any]:
    """Columns of the report on users, the one nearest to the consensus first."""
    # Reports on a hundred thousand users take a minute.
    draws = int(np.clip(1_000_000 // model.user_ids_.size, 100, 500))
    columns = columns_of_report(model.annotators(n_samples=draws, random_state=seed))
    order = np.argsort(-np.asarray(columns["accuracy"]), kind="stable")
    return {name: np.asarray(column)[order] for name, column in columns.items()}


def _has_effects(model: Any) -> bool:
    return bool(model.covariate_names_.size) or bool(model.order_effect)
