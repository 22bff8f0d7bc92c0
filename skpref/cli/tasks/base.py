"""What a job has to know of a kind of data and of the models for it: rows, their splits, and the task."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from skpref._estimator import digest
from skpref._typing import AnyArray, Array, IntArray
from skpref.cli.files import counted, read_sheet
from skpref.cli.options import Data, Tune, flag_of
from skpref.cli.tasks.figures import Figures, Report
from skpref.data.columns import Columns
from skpref.data.records import make_frame
from skpref.data.roles import weights_of
from skpref.data.times import read_times
from skpref.exceptions import DataError
from skpref.search import WithinUserKFold, WithinUserShuffleSplit
from skpref.search.evaluation import TrialRecord
from skpref.search.loop import Settings

_FEWEST_GROUPS = 5  # so that a fifth of them can be held out
_FEWEST_ROWS = 10  # below which a hold-out says nothing
_MOST_STRATA, _MOST_LEVELS = 3, 100  # different targets up to which a hold-out keeps them in proportion
_MANY_USERS, _SHARE = 1000, 0.2  # one held-out rating of each of so many users is enough; else this share

Split = tuple["IntArray", "IntArray"]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows, targets and weights."""

    X: AnyArray  # (n, d): rows as the estimator takes them
    y: AnyArray  # (n,): targets; of tasks, also the best and the worst, or ranks
    weight: Array  # (n,)
    groups: AnyArray | None = None  # (n,): rows of one group are never split between training and test
    time: Array | None = None  # (n,): tests are of later rows than those learnt from

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self.y.shape[0])

    @property
    def n_groups(self) -> int:
        """Number of groups; 0 where there are none."""
        return 0 if self.groups is None else len(set(self.groups.tolist()))

    def digest(self, more: object, *tables: Any) -> str:
        """Return the SHA-256 of the rows and of what else there is, 64 hexadecimal digits."""
        groups = None if self.groups is None else self.groups.tolist()
        return digest((more, groups, self.X.shape), self.X, self.y, self.weight, *tables)

    def take(self, rows: IntArray) -> Rows:
        """Return some of the rows."""
        groups, time = (None if column is None else column[rows] for column in (self.groups, self.time))
        return replace(self, X=self.X[rows], y=self.y[rows], weight=self.weight[rows], groups=groups, time=time)


# ---------------------------------------------------------------------------------------------------------------- tasks
@dataclass
class SearchResult:
    """Trials of a search that ended, in order."""

    trials: list[TrialRecord] = field(default_factory=list)
    interrupted: bool = False  # by the user

    @property
    def best(self) -> TrialRecord:
        """The complete trial with the lowest loss."""
        return min((trial for trial in self.trials if trial.state == "complete"), key=lambda trial: -trial.score)


@dataclass(frozen=True, eq=False)
class Outcome:
    """All that a report says."""

    task: Task  # the data and what they are about
    n_train: int  # rows to learn from
    n_test: int  # rows that were held out
    result: SearchResult  # trials
    figures: dict[str, Figures]  # on the hold-out: tuned, default settings, baselines
    model: Any  # fitted with everything
    findings: Any  # what the task found in the final model


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """The data of a job, an estimator for them, and what is said of its fits."""

    rows: Rows  # as trials take them
    estimator: Any  # of the trials, `fit(X, y, sample_weight)`; its parameters are the default settings
    space: dict[str, Any]  # what to choose from, as `OptunaSearch` takes it
    report: Report
    source: str  # where the data are from
    reading: str  # what was read of the file; empty for data that are in no file
    shape: str  # how many there are of what, for people
    sizes: dict[str, Any]  # the same for the tracker (never the data themselves)
    digest: str  # SHA-256 of the data
    next_command: str  # what uses the model, with {model} for its file
    data: Any = None  # what was read
    noun: str = "rows"  # what rows are called, in the plural
    columns: dict[str, str] = field(default_factory=dict)  # names of the columns of ids by their options, for `predict`
    names: tuple[str, ...] = ()  # of the columns of X
    final_rows: Rows | None = None  # as the saved model takes them, where trials have numbers for ids and labels
    final_params: dict[str, Any] = field(default_factory=dict)  # of the saved model, such as the names of labels
    finish: Callable[[Any], Any] | None = None  # what is done with the saved model after its fit
    n_folds: int = 4  # folds of the search unless the user says otherwise
    within_users: bool = False  # whether everyone who is tested has other rows to learn from
    are_levels: bool = False  # whether splits keep the targets in proportion, however many there are
    split_note: str = ""  # how the hold-out was drawn, to stand behind the numbers of rows

    @property
    def facts(self) -> dict[str, Any]:
        """Return shape and hash of the data, for the tracker."""
        facts = {"source": self.source, "read": self.reading, "sha256": self.digest, **self.sizes}
        return {f"data.{name}": value for name, value in facts.items()}

    @property
    def headline(self) -> str:
        """Return what people are told about the data."""
        read = f"\nRead: {self.reading}" if self.reading else ""
        return f"Data: {self.source}: {self.shape}; sha256 {self.digest[:12]}{read}"

    @property
    def metric(self) -> str:
        """Return the name of the loss of the search, as in files."""
        return self.report.metric

    def loss(self, model: Any, test: Rows) -> float:
        """Return the loss of a fitted estimator on held-out rows."""
        return self.report.figures(model, test).values[self.metric]

    def build(self, settings: Settings) -> Any:
        """Return an estimator that is not fitted."""
        return clone(self.estimator).set_params(**settings)

    def variants(self, settings: Settings) -> dict[str, Settings]:
        """Return settings that the hold-out compares with the best ones, by name: without the covariates."""
        params = {**self.estimator.get_params(deep=False), **settings}
        names = None if params.get("likelihood") == "luce" else params.get("covariates")  # tasks have columns of items
        return {} if names is None else {f"without {' and '.join(names)}": {**settings, "covariates": None}}

    def named(self, params: Any) -> Settings:
        """Return parameters of the last step, or of any, by their names in the estimator."""
        steps = getattr(self.estimator, "steps", None)
        prefix = "" if steps is None else f"{steps[-1][0]}__"
        return {name if "__" in name else prefix + name: value for name, value in dict(params or ()).items()}

    def final(self, settings: Settings, params: Settings | None = None) -> Any:
        """Return an estimator fitted with all rows, as it is saved; `params` are those of the last step, or of any."""
        model = self.build(settings).set_params(**self.named(self.final_params | (params or {})))
        model = fitted(model, self.final_rows or self.rows)
        return model if self.finish is None else self.finish(model)

    def example(self) -> Any:
        """Return some rows as the saved model takes them, for MLflow's signature: a data frame, if pandas is there."""
        rows = (self.final_rows or self.rows).X[:2]
        if importlib.util.find_spec("pandas") is None:
            return rows
        return make_frame(rows, columns=list(self.names)).infer_objects()

    def hold_out(self, share: float, seed: int) -> Split:
        """Split once, for the final test: by users, time or groups where there are some, else in proportion."""
        if self.within_users:
            return _within_users(self.rows, WithinUserShuffleSplit(test_size=share, random_state=seed))[0]
        return hold_out(self.rows, share, seed, _MOST_LEVELS if self.are_levels else _MOST_STRATA)

    def folds(self, rows: Rows, n_folds: int, seed: int) -> list[Split]:
        """Split for the search: by users, time or groups where there are some."""
        if not self.within_users:
            return make_folds(rows, n_folds, seed, are_levels=self.are_levels)
        if n_folds > 1:
            return _within_users(rows, WithinUserKFold(n_folds, random_state=seed))
        share = 0.0 if np.unique(rows.X[:, 0]).size >= _MANY_USERS else _SHARE
        return _within_users(rows, WithinUserShuffleSplit(test_size=share, random_state=seed))


def _within_users(rows: Rows, splitter: WithinUserShuffleSplit | WithinUserKFold) -> list[Split]:
    """Split the rows of each user; rows of one game stay together."""
    if rows.groups is None:
        return list(splitter.split(rows.X[:, :3]))
    _, first, task = np.unique(rows.groups.astype(np.int64), return_index=True, return_inverse=True)
    tasks = np.column_stack([rows.X[first, 0], np.arange(first.size).astype(object)])
    parts = (tuple(np.flatnonzero(np.isin(task, part)) for part in split) for split in splitter.split(tasks))
    return [(train, test) for train, test in parts]


def fitted(model: Any, rows: Rows) -> Any:
    """Return an estimator after its fit to rows."""
    return model.fit(rows.X, rows.y, sample_weight=rows.weight)


def hold_out(rows: Rows, share: float, seed: int, most_strata: int) -> Split:
    """Split once: by time or groups where there are some, else with the targets in proportion where they are few."""
    if rows.time is not None:
        return _latest(rows.time, 1.0 - share)
    if rows.groups is not None and rows.n_groups < _FEWEST_GROUPS:
        found = counted(rows.n_groups, "groups")
        raise DataError(f"{found}; at least {_FEWEST_GROUPS} are needed to hold some of them out")
    counts = np.unique(rows.y if rows.y.ndim == 1 else [], return_counts=True)[1]
    few = 2 <= counts.size <= min(most_strata, min(share, 1.0 - share) * rows.size) and counts.min() >= 2
    kind = StratifiedShuffleSplit if few else ShuffleSplit
    splitter = (kind if rows.groups is None else GroupShuffleSplit)(1, test_size=share, random_state=seed)
    train, test = next(splitter.split(rows.X, rows.y, rows.groups))
    return np.sort(train), np.sort(test)


def make_folds(rows: Rows, n_folds: int, seed: int, *, are_levels: bool = False) -> list[Split]:
    """Split into folds, fewer where there are not as many rows or groups; by time, each tests later rows."""
    if rows.time is not None and np.unique(rows.time).size > 1:
        return _time_folds(rows.time, n_folds)
    frequent = are_levels and np.unique(rows.y, return_counts=True)[1].max() >= n_folds
    kind = GroupKFold if rows.groups is not None else StratifiedKFold if frequent else KFold
    splitter = kind(min(n_folds, rows.n_groups or rows.size), shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a rare level is missing from some folds
        return list(splitter.split(rows.X, rows.y, rows.groups))


def _latest(time: Array, share: float) -> Split:
    """Split off the latest rows, all of one time together."""
    cut = min(float(np.quantile(time, share, method="lower")), float(np.unique(time)[-2]))
    return np.flatnonzero(time <= cut), np.flatnonzero(time > cut)


def _time_folds(time: Array, n_folds: int) -> list[Split]:
    """Cut time into one stretch more than folds: each is tested by what was learnt from all before it."""
    shares = np.arange(1, n_folds + 1) / (n_folds + 1)
    cuts = np.append(np.unique(np.quantile(time, shares, method="lower")), np.inf)
    ends = list(pairwise(cuts))
    folds = [(np.flatnonzero(time <= low), np.flatnonzero((time > low) & (time <= high))) for low, high in ends]
    return [(train, test) for train, test in folds if test.size] or [_latest(time, float(shares[-1]))]


def read_data(options: Data) -> Columns:
    """Return the columns of a job's file."""
    if options.data is None:
        raise DataError(f"--model {options.model} needs a file")
    return read_sheet(options.data, options)


def require_asked(sheet: Columns, options: Any, *names: str) -> None:
    """Refuse columns that options name and the file does not have."""
    for name in names:
        columns = getattr(options, name) or ()
        asked = f"It was asked for by {flag_of(name)}"
        sheet.require((columns,) if isinstance(columns, str) else columns, asked)


def read_weights(sheet: Columns, options: Data) -> Array:
    """Return the column of weights that an option names, or 1 where none does, shape (n,)."""
    require_asked(sheet, options, "weight")
    return weights_of(sheet, options.weight)


def read_splits(sheet: Columns, options: Data) -> tuple[AnyArray | None, Array | None]:
    """Return the column whose values stay together in splits, and the times by which rows are split, (n,) each."""
    require_asked(sheet, options, "group", "time_split")
    groups = times = None
    if options.group is not None:
        groups = np.array([text.strip() for text in sheet.texts(options.group)], dtype=object)
    if options.time_split is not None:
        times, _ = read_times(sheet, options.time_split, is_order_enough=True)
        if np.unique(times).size == 1:
            raise sheet.fault("--time-split needs different times; this column has one", None, options.time_split)
    return groups, times


def check_size(sheet: Columns, n: int, noun: str, options: Data) -> None:
    """Refuse a file of too few rows: of none, or for a hold-out."""
    if not n or (n < _FEWEST_ROWS and isinstance(options, Tune)):
        advice = f"at least {_FEWEST_ROWS} are needed for a hold-out; `skpref fit` needs none"
        raise sheet.fault(f"{counted(n, noun)}; {advice if n else 'at least 1 is needed'}")
