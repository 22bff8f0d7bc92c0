"""The task of comparisons: one view for all, or a crowd's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref.cli import rankings
from skpref.cli.advice import as_of_command
from skpref.cli.files import USERS, Format, complete_rows, counted, read_sheet, say_left_out, say_note
from skpref.cli.ids import read_table, unknown_id
from skpref.cli.output import write_columns
from skpref.cli.rankings import plots, ranking_text, ties_text
from skpref.cli.tasks import choices
from skpref.cli.tasks.base import Rows, Task, check_size, limit, limit_factors, read_data, read_groups
from skpref.cli.tasks.doubts import notes_on_columns, notes_on_covariate, notes_on_sides
from skpref.cli.tasks.figures import ChanceReport, Figures, Files, score_chances
from skpref.cli.tasks.layouts import roles_of, with_long_rows
from skpref.cli.tasks.times import as_cells, split_times
from skpref.data.records import columns_of_report
from skpref.data.roles import ReadRows, Roles, reading_of_all
from skpref.data.roles import read as read_roles
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.pairwise import GPPLClassifier
from skpref.search import default_space

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray
    from skpref.cli.options import Data
    from skpref.cli.tasks.base import Outcome
    from skpref.data import Table
    from skpref.data.columns import Columns

_LIKELIHOODS = "probit", "logit"
_TOP = 10
_MAX_INDUCING, _DEMO_MAX_INDUCING = 500, 150
_ANNOTATOR_DRAWS = 1_000_000  # of all users together, so that reports on a hundred thousand of them take a minute
_USERS_FILE = (
    "A file of users has numeric features and a column of ids: {name}, as in the data, or one such as user or person"
)


def _annotators(model: CrowdGPPL, seed: int) -> dict[str, Any]:
    """Columns of the report on users, the one nearest to the consensus first."""
    draws = int(np.clip(_ANNOTATOR_DRAWS // model.user_ids_.size, 100, 500))
    report = model.annotators(n_samples=draws, random_state=seed)
    columns = columns_of_report(report)
    order = np.argsort(-np.asarray(columns["accuracy"]), kind="stable")
    return {name: np.asarray(column)[order] for name, column in columns.items()}


class Findings(NamedTuple):
    """What is found in the final model."""

    ranking: Any  # of all items; by a crowd's consensus
    annotators: dict[str, Any] | None  # columns of a crowd's report on its users


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Comparisons of a file, and what is known about items and users."""

    rows: Rows  # comparisons by ids: (user,) left, right
    items: Table | None  # features of the items
    source: str  # where the data are from
    group: str | None = None  # name of the group's column
    user: str | None = None  # name of the users' column; None: one view for all
    users: Table | None = None  # features of the users
    # whether left and right are where the items were shown, and not drawn for winners and losers
    has_sides: bool = True
    covariates: tuple[str, ...] = ()  # names of the columns of rows after those of the items
    groups: tuple[str, ...] = ()  # the same, after the covariates
    time: str | None = None  # name of the column of times, the last one of rows; None: nothing moves
    dynamics: str = "auto"
    sides: tuple[str, ...] = ()  # names of the columns of the left and the right item
    reading: str = ""  # what was read of the file

    @property
    def n_items(self) -> int:
        """Number of items that are known."""
        first = 0 if self.user is None else 1
        compared = self.rows.X[:, first : first + 2]
        return len(set(compared.ravel().tolist())) if self.items is None else self.items.n_items

    @property
    def n_users(self) -> int:
        """Number of users who compared; 0 where there is one view for all."""
        return 0 if self.user is None else len(set(self.rows.X[:, 0].tolist()))

    @property
    def digest(self) -> str:
        """SHA-256 of comparisons, items and users, 64 hexadecimal digits."""
        return self.rows.digest([None if table is None else table.digest for table in (self.items, self.users)])

    @property
    def split_note(self) -> str:
        """How the hold-out was drawn."""
        if self.rows.time is not None:
            return ", the latest"
        if self.time is not None and self.group is None:
            return f", drawn at random: --time-split {self.time} tests on the latest ones, as forecasts are"
        if self.group is not None or self.user is None:
            return "" if self.group is None else f", split by {self.group}"
        return "; each user also has comparisons to learn from"


def make_task(data: Comparisons, seed: int = 0, max_inducing: int = _MAX_INDUCING) -> Task:
    """Return the task of comparisons, by nobody in particular or by known users."""
    estimator: Any = GPPLClassifier(data.items) if data.user is None else CrowdGPPL(data.items, data.users)
    estimator.set_params(random_state=seed)
    ids = [*filter(None, [data.user]), *(data.sides or ("left", "right"))]
    start = len(ids)
    for role, names in (("covariates", data.covariates), ("groups", data.groups)):
        if names:
            columns = {name: start + place for place, name in enumerate(names)}
            estimator.set_params(left=len(ids) - 2, right=len(ids) - 1, **{role: columns})
            start += len(names)
    if data.time is not None:
        estimator.set_params(left=0, right=1, time=data.rows.X.shape[1] - 1, dynamics=data.dynamics)
    space, has_ties = default_space(estimator), bool((data.rows.y == 0.5).any())
    if has_ties:
        space["likelihood"] = [*_LIKELIHOODS, *(f"{name}-ties" for name in _LIKELIHOODS)]
    if not data.has_sides:
        del space["order_effect"]
    if "inducing" in space:
        limit(space, estimator, "inducing", 50, min(max_inducing, data.n_items))
    if data.user is not None:
        limit_factors(space, estimator, data.n_users)
    rows, n_features = data.rows, 0 if data.items is None else data.items.n_features
    sizes = {"n_comparisons": rows.size, "n_items": data.n_items, "n_features": n_features, "n_groups": rows.n_groups}
    shape = counted(rows.size, "comparisons")
    if data.user is not None:
        sizes |= {"n_users": data.n_users, "n_user_features": 0 if data.users is None else data.users.n_features}
        shape += f" by {counted(data.n_users, 'users')}"
        shape += "" if data.users is None else f" ({counted(data.users.n_features, 'features')})"
    shape += f" of {counted(data.n_items, 'items')}, "
    shape += "no features" if data.items is None else counted(n_features, "features")
    shape += f", {counted(rows.n_groups, 'games' if data.group is None else 'groups')}" if rows.n_groups else ""
    named = {"user": data.user, "time": data.time}
    known = "the items:   skpref rank {model}" if data.items is None else "new items:   skpref rank {model} ITEMS.csv"
    return Task(
        rows=rows,
        estimator=estimator,
        space=space,
        report=PairReport(data, has_ties=has_ties),
        source=data.source,
        reading=data.reading,
        shape=shape,
        sizes=sizes,
        digest=data.digest,
        next_command=f"Rank {known}{'' if data.user is None else ' [--user ID]'}",
        data=data,
        noun="comparisons",
        options={"max_inducing": max_inducing} | ({"dynamics": data.dynamics} if data.time else {}),
        columns=dict(zip(("left", "right"), data.sides, strict=False)) | {k: name for k, name in named.items() if name},
        names=(*ids, *data.covariates, *data.groups, *filter(None, [data.time])),
        within_users=data.user is not None and data.group is None and data.rows.time is None,
        split_note=data.split_note,
    )


class PairReport(ChanceReport):
    """The report on comparisons."""

    def __init__(self, data: Comparisons, *, has_ties: bool) -> None:
        self.data = data
        self._has_ties = has_ties

    def figures(self, model: Any, test: Rows) -> Figures:
        if not model.likelihood_.ties_are_answers:
            return score_chances(test, model.predict_proba(test.X)[:, 1])
        answers = np.asarray(model.predict_proba(test.X, ties=True))  # of left, tie and right
        return score_chances(test, answers[:, 0] + 0.5 * answers[:, 1], answers)

    def baselines(self, train: Rows, test: Rows) -> dict[str, Figures]:
        guesses = {"coin flip": 0.5}
        if self.data.has_sides:
            least = 1.0 / (train.size + 2.0)  # one of both sides more: nothing is impossible
            share = float(np.average(train.y, weights=train.weight))
            guesses["share of left wins"] = min(max(share, least), 1.0 - least)
        return {name: score_chances(test, np.full(test.size, guess)) for name, guess in guesses.items()}

    def findings(self, model: Any, seed: int) -> Findings:
        annotators = None if self.data.user is None else _annotators(model, seed)
        return Findings(model.rank(), annotators)

    def sections(self, outcome: Outcome) -> list[str]:
        ranking, annotators = outcome.findings
        parts = super().sections(outcome)
        if self._has_ties:
            parts[0] += f"\n{ties_text(outcome.figures['tuned'].values.get('answers_log_loss'))}"
        title = "Ranking" if annotators is None else "Ranking by the consensus"
        parts += [ranking_text(ranking, _TOP, title), *_about(outcome.model, annotators)]
        return parts

    def files(self, outcome: Outcome) -> Files:
        ranking, annotators = outcome.findings
        files: Files = {"ranking.csv": partial(write_columns, ranking.columns())}
        if _has_effects(outcome.model):
            files["effects.csv"] = partial(write_columns, rankings.effects_of(outcome.model))
        if annotators is not None:
            files["annotators.csv"] = partial(write_columns, annotators)
            files["factors.csv"] = partial(rankings.write_factors, outcome.model)
        return files | plots(outcome.model.lower_bounds_, ranking, outcome.figures["tuned"].detail, annotators)

    def summary(self, model: Any, seed: int) -> list[str]:
        return _about(model, None if self.data.user is None else _annotators(model, seed))


def _has_covariates(model: Any) -> bool:
    return bool(model.covariate_names_.size)


def _has_effects(model: Any) -> bool:
    return _has_covariates(model) or bool(model.order_effect)


def _about(model: Any, annotators: dict[str, Any] | None) -> list[str]:
    """Return the sections on effects of covariates and of the order, and on the users of a crowd."""
    effects = [rankings.effects_text(model)] if _has_effects(model) else []
    if annotators is None:
        return effects
    has = {"covariates": _has_covariates(model), "factors": bool(rankings.living_factors(model).size)}
    return [*effects, rankings.factors_text(model), rankings.annotators_text(annotators, **has)]


# ------------------------------------------------------------------------------------------------------------- reading
def read(options: Data) -> Task:
    """Read the files of a job."""
    if options.data is None:
        return choices.make_task(choices.read_travellers(), options.seed, options.max_inducing or _DEMO_MAX_INDUCING)
    sheet, asked = read_data(options), options
    if options.has_wide_features:
        sheet, options = with_long_rows(sheet, options)
    roles, max_inducing = roles_of(sheet, options), options.max_inducing or _MAX_INDUCING
    if roles.several:
        data = choices.read_choices(options, sheet, roles)
        data = replace(data, columns=choices.saved_columns(asked, roles))
        return choices.make_task(data, options.seed, max_inducing)
    return make_task(read_comparisons(options, sheet, roles), options.seed, max_inducing)


def read_comparisons(options: Data, sheet: Columns, roles: Roles) -> Comparisons:
    """Read and check a file of comparisons, and the files of items and users."""

    def read_part(part: Columns) -> tuple[Columns, ReadRows, NDArray[Any] | None, Array | None]:
        rows = read_roles(part, roles, None)
        return part, rows, read_groups(part, options.group), split_times(part, options.time_split)

    items: Table | None = None
    with as_of_command():
        kept, read_rows, groups, time = complete_rows(sheet, read_part, options.missing)
    reading = reading_of_all(read_rows.reading, sheet, kept)
    sides = (roles.left or roles.winner, roles.right or roles.loser)
    if options.items is not None:
        columns = dict(zip(("left", "right"), sides, strict=True))
        items, read_rows = _read_table(options.items, options.id or "id", kept, read_rows, columns, options)
    users: Table | None = None
    if options.users is not None:
        users, read_rows = _read_table(options.users, roles.user, kept, read_rows, {"user": roles.user}, options)
    _check_covariates(kept, read_rows, roles, options.covariates or ())
    rows = _rows(read_rows, groups, time, options.seed)
    ids = {"item": np.concatenate([read_rows.left, read_rows.right]), "user": read_rows.user}
    ids["group"] = np.array([*map(list, read_rows.groups)], dtype=object)
    for note in [*notes_on_sides(sides, read_rows.left, read_rows.right), *notes_on_columns(ids)]:
        say_note(f"{sheet.source}: {note}")
    check_size(sheet, rows.size, "comparisons", options)
    source = " + ".join(str(file) for file in (options.data, options.items, options.users) if file is not None)
    won = read_rows.y is None or (rows.y == rows.y[0]).all()  # winners may stand first
    return Comparisons(
        *(rows, items, source, options.group),
        user=roles.user,
        users=users,
        has_sides=not won,
        covariates=options.covariates or (),
        groups=roles.groups,
        time=roles.time,
        dynamics=options.dynamics or "auto",
        sides=sides,
        reading=str(reading),
    )


def _read_table(
    path: Path, id_column: str, sheet: Columns, rows: ReadRows, columns: dict[str, str | None], options: Data
) -> tuple[Table, ReadRows]:
    """Return the table of items or users, and comparisons without incomplete ones; refuse ids that it does not have."""
    noun = "user" if "user" in columns else "item"
    table, incomplete = read_own_table(path, id_column, noun, options)
    used = zip(*(getattr(rows, side) for side in columns), strict=True)
    kept = np.array([incomplete.isdisjoint(ids) for ids in used], dtype=bool)
    say_left_out(int(np.sum(~kept)), "comparison", "", f"of {noun}s without features")
    rows = rows.take(kept)
    for side, name in columns.items():
        ids = getattr(rows, side)
        problem = unknown_id(sheet, ids, table.ids.tolist(), noun, name, rows.origin, f", not in {path}")
        if problem is not None:
            raise problem
    return table, rows


def read_own_table(path: Path, id_column: str, noun: str, options: Data) -> tuple[Table, set[Any]]:
    """Return the table of items or users, and the ids of the rows that were left out."""
    sheet = read_sheet(path, Format(encoding=options.encoding, decimal=options.decimal))
    purpose, names = "", ["id"]
    if noun == "user":
        purpose, names = _USERS_FILE.format(name=id_column), [id_column, "id", *USERS]
    if id_column not in sheet.values and (noun == "user" or options.id is None):
        id_column = sheet.usual(*names)
        if id_column in sheet.values and id_column not in names[:2]:
            say_note(f"{path}: {noun}s from {id_column!r}")
    table = complete_rows(sheet, lambda part: read_table(part, id_column, noun, purpose=purpose), options.missing)
    named = sheet.take([row for row, text in enumerate(sheet.texts(id_column)) if text])
    return table, set(named.ids(id_column, noun).tolist()) - set(table.ids.tolist())


def _check_covariates(sheet: Columns, rows: ReadRows, roles: Roles, names: tuple[str, ...]) -> None:
    """Refuse constant covariates, and note those that are never negative."""
    if rows.covariates is None:
        return
    for name, term, values in zip(names, roles.covariates, rows.covariates.T, strict=True):
        if values.size and (values == values[0]).all():
            raise sheet.fault(f"covariate {name!r} is {values[0]:g} in every row: it has no effect to learn")
        for note in [] if isinstance(term, tuple) else notes_on_covariate(sheet, name, values):
            say_note(f"{sheet.source}: {note}")


def _rows(rows: ReadRows, groups: NDArray[Any] | None, time: Array | None, seed: int) -> Rows:
    """Return comparisons as the estimator takes them; without sides, those of random rows are exchanged."""
    left, right, y, origin, C = rows.left, rows.right, rows.y, rows.origin, rows.covariates
    if groups is not None:
        groups = groups[origin]
    elif np.unique(rows.unit).size < rows.unit.size and (rows.user is None or _have_several(rows.user, rows.unit)):
        groups = rows.unit.astype(object)  # answers about one game share their noise
    if y is None:  # with the winner always on the left, calibration would see ones only
        swap = np.random.default_rng(seed).random(left.size) < 0.5
        left, right, y = np.where(swap, right, left), np.where(swap, left, right), np.where(swap, 0.0, 1.0)
        C = None if C is None else np.where(swap[:, None], -C, C)
    ids = [left, right] if rows.user is None else [rows.user, left, right]
    moved = [] if rows.time is None else [as_cells(rows.time, is_dated=rows.is_dated)]
    X = np.column_stack([*ids, *([] if C is None else [C.astype(object)]), *rows.groups, *moved])
    return Rows(X, y, rows.weight, groups, None if time is None else time[origin])


def _have_several(user: NDArray[Any], origin: IntArray) -> bool:
    """Tell whether users have two games on average, so that one can be held out and one learnt from."""
    return len(set(origin.tolist())) >= 2 * len(set(user.tolist()))
