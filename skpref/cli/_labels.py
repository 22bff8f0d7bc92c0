"""Tasks of rows with a label: ordered levels from features, numbers or two classes from pairs of ids."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skpref.cli._comparisons import PairFigures
from skpref.cli._files import read_sheet
from skpref.cli._rankings import calibration_text
from skpref.cli._ratings import RatingFigures, levels_text, read_columns
from skpref.cli._report import cut, table, write_csv
from skpref.cli._task import Task, refuse_one
from skpref.data import OneHotDesign
from skpref.data.levels import ordered_levels
from skpref.factorization.fm import VariationalFM, VariationalFMClassifier
from skpref.gp.ordinal import GPOrdinalRegressor
from skpref.search import Classes, Distributions, Levels, Numbers, default_space

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from skpref._typing import Array
    from skpref.cli._files import Sheet
    from skpref.cli._task import Outcome
    from skpref.search import Rows
    from skpref.search.loop import Settings

_FEWEST = 10  # rows below which a hold-out says nothing
_SHOWN = 15  # features
_TOO_LARGE = 2**53  # for a double to hold all whole numbers


class Labelled(NamedTuple):
    """Rows of a file."""

    rows: Rows  # what is searched with: labels by number, where they are levels or classes
    columns: tuple[str, ...]  # names of the columns of X
    labels: NDArray[Any]  # labels by number; of numbers, nothing
    source: str  # where the data are from
    group: str | None = None  # column whose values stay together

    @property
    def digest(self) -> str:
        """SHA-256 of all cells, 64 hexadecimal digits."""
        rows = self.rows
        groups = None if rows.groups is None else rows.groups.tolist()
        cells = self.columns, self.labels.tolist(), rows.X.tolist(), rows.y.tolist(), rows.weight.tolist(), groups
        return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


class LabelTask(Task):
    """What these tasks share."""

    noun: ClassVar[str] = "rows"

    def __init__(self, given: Labelled, template: Any) -> None:
        self.given = given
        self.data = given.rows
        self._template = template

    def describe(self) -> dict[str, Any]:
        given = self.given
        groups = 0 if given.rows.groups is None else len(set(given.rows.groups.tolist()))
        return {
            "data.source": given.source,
            "data.sha256": given.digest,
            "data.n_rows": given.rows.size,
            "data.n_features": len(given.columns),
            "data.n_groups": groups,
            "data.labels": ", ".join(map(str, given.labels.tolist())),
        }

    def headline(self) -> str:
        given, facts = self.given, self.describe()
        groups = f", {facts['data.n_groups']} groups" if facts["data.n_groups"] else ""
        labels = f", labels {cut(facts['data.labels'])}" if given.labels.size else ""
        return (
            f"Data: {given.source}: {given.rows.size} rows of {len(given.columns)} columns{labels}{groups}; "
            f"sha256 {facts['data.sha256'][:12]}"
        )

    def space(self) -> Distributions:
        return Distributions(default_space(self._template), self._template.get_params())

    def build(self, settings: Settings) -> Any:
        return clone(self._template).set_params(**settings)

    def split_note(self) -> str:
        return "" if self.given.group is None else f", split by {self.given.group}"

    def next_command(self, model: Path) -> str:
        return f"Predict new rows: skpref predict {model} DATA.csv"


class FeatureTask(LabelTask):
    """Numeric features, of which a Gaussian process tells the relevance."""

    def named(self, model: Any) -> Any:
        """Return a fitted estimator that knows the names of its features, as after a fit to a data frame."""
        model.feature_names_in_ = np.array(self.given.columns, dtype=object)
        return model

    def findings(self, model: Any, seed: int) -> list[tuple[str, float]]:
        """Features by relevance, the most relevant first."""
        del seed
        relevance = np.asarray(model.relevance_)
        order = np.argsort(-relevance, kind="stable")
        return [(self.given.columns[k], float(relevance[k])) for k in order]

    def relevance_text(self, outcome: Outcome) -> str:
        """Return a table of the most relevant features."""
        shown = outcome.findings[:_SHOWN]
        title = f"Relevance of the features, {len(shown)} of {len(outcome.findings)}"
        rows = [(cut(name), f"{value:.3f}") for name, value in shown]
        return "\n".join([title, *table(("item", "relevance"), rows)]).replace("item", "feature", 1)

    def write(self, outcome: Outcome, out: Path) -> list[Path]:
        path = out / "relevance.csv"
        write_csv(path, ["feature", "relevance"], outcome.findings)
        return [path]


# -------------------------------------------------------------------------------------------------------------- ordinal
class OrdinalTask(FeatureTask):
    """Numeric features with ordered levels."""

    def final(self, settings: Settings, params: Settings | None = None) -> GPOrdinalRegressor:
        given, rows = self.given, self.given.rows
        model = self.build(settings).set_params(class_order=given.labels, **(params or {}))
        self.named(model.fit(rows.X, given.labels[rows.y], sample_weight=rows.weight))
        return model

    def build(self, settings: Settings) -> Any:
        return super().build(settings).set_params(class_order=np.arange(self.given.labels.size))

    def figures(self, model: Any, test: Levels) -> RatingFigures:
        return RatingFigures(test.y, np.asarray(model.predict(test.X)), test.weight, self.given.labels.size)

    def baselines(self, train: Levels, test: Levels) -> dict[str, Any]:
        guesses = {"median level": np.floor(np.median(train.y) + 0.5), "commonest level": np.bincount(train.y).argmax()}
        return {
            name: RatingFigures(test.y, np.full(test.size, int(guess)), test.weight, self.given.labels.size)
            for name, guess in guesses.items()
        }

    def sections(self, outcome: Outcome) -> list[str]:
        return [levels_text(outcome.figures["tuned"], self.given.labels), self.relevance_text(outcome)]


def read_ordinal(arguments: argparse.Namespace) -> OrdinalTask:
    """Read a file of features and ordered levels."""
    refuse_one(arguments.holdout)
    sheet = read_sheet(arguments.data)
    names, X, groups = read_features(sheet, arguments)
    label, group = arguments.label or "label", arguments.group
    order = None if arguments.class_order is None else [level.strip() for level in arguments.class_order.split(",")]
    cells = sheet.ids(label, "label")
    labels, y = _ordered(sheet, label, cells, order)
    rows = Levels(X, y, read_weights(sheet), groups)
    check_size(sheet, rows)
    given = Labelled(rows, names, labels, str(arguments.data), group)
    return OrdinalTask(given, GPOrdinalRegressor(random_state=arguments.seed))


def read_features(sheet: Sheet, arguments: argparse.Namespace) -> tuple[tuple[str, ...], Array, NDArray[Any] | None]:
    """Read what stands beside the labels."""
    label, group = arguments.label or "label", arguments.group
    sheet.require([label], "A file of rows has a column label, or another named by --label")
    sheet.require([group] if group else [], "It was asked for by --group")
    names = _features(sheet, arguments.features, {label, group, "weight", "id"})
    X = np.column_stack([sheet.numbers(name, meaning="features are numeric; choose by --features") for name in names])
    groups = None if group is None else np.array([str(cell).strip() for cell in sheet.columns[group]], dtype=object)
    return names, X, groups


def _features(sheet: Sheet, asked: str | None, others: set[str | None]) -> tuple[str, ...]:
    names = [name for name in sheet.names if name not in others] if asked is None else asked.split(",")
    names = [name.strip() for name in names]
    sheet.require(names, "It was asked for by --features")
    if not names:
        raise sheet.fault("there are no features beside the label")
    for position, name in enumerate(names):
        if name in names[:position]:
            raise sheet.fault("--features names this column twice", None, name)
    return tuple(names)


def _ordered(
    sheet: Sheet, name: str, cells: NDArray[Any], order: list[str] | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Levels, low to high: whole numbers by themselves, words by ``--class-order``."""
    if order is not None:
        known = set(order)
        for row, cell in enumerate(cells):
            if cell not in known:
                raise sheet.fault(f"{cell[:80]!r} is not in --class-order {', '.join(order)}", row, name)
        return ordered_levels(cells.astype(str), order)
    try:
        numbers = np.array([float(cell) for cell in cells])
    except ValueError:
        found = ", ".join(sorted(set(cells))[:8])
        raise sheet.fault(
            f"the order of {found} is not known; say it by --class-order, low to high", None, name
        ) from None
    whole = (np.abs(numbers) < _TOO_LARGE) & (numbers == np.floor(numbers))  # false of NaN
    for row in np.flatnonzero(~whole)[:1].tolist():
        wanted = "levels are whole numbers, or words in the order of --class-order"
        raise sheet.fault(f"{wanted}; got {cells[row][:80]!r}", row, name)
    if np.unique(numbers).size < 2:
        raise sheet.fault(f"at least 2 levels are needed; all labels are {cells[0][:80]}", None, name)
    return ordered_levels(numbers.astype(np.int64))


def read_weights(sheet: Sheet) -> Array:
    """Read the column of weights, or 1 where there is none, shape (n,)."""
    if "weight" not in sheet.columns:
        return np.ones(len(sheet.lines))
    weight = sheet.numbers("weight", low=0.0, meaning="weight")
    if not (weight > 0.0).any():
        raise sheet.fault("all weights are zero", column="weight")
    return weight


def check_size(sheet: Sheet, rows: Rows) -> None:
    """Refuse a file of too few rows."""
    if rows.size < _FEWEST:
        raise sheet.fault(f"{rows.size} rows; at least {_FEWEST} are needed for an honest hold-out")


# ------------------------------------------------------------------------------------------------------------- machines
@dataclass(frozen=True, eq=False)
class NumberFigures:
    """How well numbers were predicted on the hold-out."""

    rmse: float  # in the unit of the targets
    mae: float  # in the unit of the targets

    @classmethod
    def of(cls, rows: Numbers, predicted: Array) -> NumberFigures:
        """Score predictions."""
        error = predicted - rows.y
        rmse = np.sqrt(np.average(error**2, weights=rows.weight))
        return cls(float(rmse), float(np.average(np.abs(error), weights=rows.weight)))

    def cells(self) -> dict[str, str]:
        return {"RMSE": f"{self.rmse:.4f}", "MAE": f"{self.mae:.4f}"}

    def metrics(self, prefix: str) -> dict[str, float]:
        return {f"{prefix}rmse": self.rmse, f"{prefix}mae": self.mae}


class MachineTask(LabelTask):
    """Numbers, or two classes, of pairs of user and item."""

    def final(self, settings: Settings, params: Settings | None = None) -> Any:
        machine = self._template.steps[-1][0]
        named = {name if "__" in name else f"{machine}__{name}": value for name, value in (params or {}).items()}
        return super().final(settings, named)

    def figures(self, model: Any, test: Any) -> Any:
        if isinstance(test, Classes):
            return PairFigures.of(test, model.predict_proba(test.X)[:, 1])
        return NumberFigures.of(test, model.predict(test.X))

    def baselines(self, train: Any, test: Any) -> dict[str, Any]:
        mean = np.full(test.size, np.average(train.y, weights=train.weight))
        return {"mean": (PairFigures if isinstance(test, Classes) else NumberFigures).of(test, mean)}

    def sections(self, outcome: Outcome) -> list[str]:
        figures = outcome.figures["tuned"]
        return [calibration_text(figures.calibration)] if isinstance(figures, PairFigures) else []

    def write(self, outcome: Outcome, out: Path) -> list[Path]:
        del outcome, out
        return []


def _zeros_and_ones(sheet: Sheet, name: str) -> NDArray[Any]:
    y = sheet.numbers(name, 0.0, 1.0, "0 or 1")
    for row in np.flatnonzero((y != 0.0) & (y != 1.0))[:1].tolist():
        raise sheet.fault(f"expected 0 or 1, got {y[row]:g}; --model fm takes any number", row, name)
    if np.unique(y).size < 2:
        raise sheet.fault(f"both 0 and 1 are needed; all are {y[0]:g}", None, name)
    return y.astype(np.int64)


def read_machine(arguments: argparse.Namespace) -> MachineTask:
    """Read a file of pairs of user and item with a number, or with 0 and 1."""
    refuse_one(arguments.holdout)
    sheet = read_sheet(arguments.data)
    names: Mapping[str, str] = read_columns(sheet, arguments)
    X = np.column_stack([sheet.ids(names["user"], "user"), sheet.ids(names["item"])])
    source, columns = str(arguments.data), (names["user"], names["item"])
    if arguments.model == "fm":
        rows: Rows = Numbers(X, sheet.numbers(names["rating"]), read_weights(sheet))
        machine: Any = VariationalFM(random_state=arguments.seed)
        given = Labelled(rows, columns, np.array([]), source)
    else:
        y = _zeros_and_ones(sheet, names["rating"])
        rows, machine = Classes(X, y, read_weights(sheet)), VariationalFMClassifier(random_state=arguments.seed)
        given = Labelled(rows, columns, np.array([0, 1]), source)
    check_size(sheet, rows)
    return MachineTask(given, make_pipeline(OneHotDesign(), machine))
