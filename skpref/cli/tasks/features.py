"""Tasks of numeric features: ordered labels, numbers or two classes, by Gaussian processes."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from skpref.cli.files import complete_rows, counted
from skpref.cli.output import write_csv
from skpref.cli.rankings import calibration_text
from skpref.cli.report import cut, table
from skpref.cli.tasks.base import (
    ABSOLUTE_ERROR,
    LOG_LOSS,
    SQUARED_ERROR,
    Files,
    Metric,
    Rows,
    Task,
    as_frame,
    check_size,
    limit,
    read_data,
    read_groups,
    read_weights,
)
from skpref.cli.tasks.comparisons import PairFigures
from skpref.cli.tasks.ratings import RatingFigures, levels_text
from skpref.data.levels import ordered_levels
from skpref.data.roles import reading_of
from skpref.gp.ordinal import GPOrdinalRegressor
from skpref.gp.sparse import SVGPClassifier, SVGPRegressor
from skpref.search import default_space

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array
    from skpref.cli.options import Data
    from skpref.cli.tasks.base import Outcome, Split
    from skpref.data.columns import Columns
    from skpref.data.roles import Reading
    from skpref.search.loop import Settings

_SHOWN = 15  # features
_ROUNDING = 1e-6  # of logarithms of scales
_TOO_LARGE = 2**53  # for a double to hold all whole numbers


class Labelled(NamedTuple):
    """Rows of a file."""

    rows: Rows  # labels by number, where they are levels or classes
    columns: tuple[str, ...]  # names of the columns of X
    labels: NDArray[Any]  # labels by number; of numbers, nothing
    source: str  # where the data are from
    group: str | None = None  # column whose values stay together
    reading: Reading | str = ""  # what was read of the file

    @property
    def digest(self) -> str:
        """SHA-256 of all cells, 64 hexadecimal digits."""
        rows = self.rows
        groups = None if rows.groups is None else rows.groups.tolist()
        cells = self.columns, self.labels.tolist(), rows.X.tolist(), rows.y.tolist(), rows.weight.tolist(), groups
        return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


class LabelTask(Task):
    """Rows with a label."""

    noun: ClassVar[str] = "rows"

    def __init__(self, data: Labelled, template: Any, metric: Metric) -> None:
        self.data = data
        self.rows = data.rows
        self.template = template
        self.metric = metric
        self.space = default_space(template)

    def describe(self) -> dict[str, Any]:
        data = self.data
        return {
            "data.source": data.source,
            "data.sha256": data.digest,
            "data.n_rows": data.rows.size,
            "data.n_features": len(data.columns),
            "data.n_groups": data.rows.n_groups,
            "data.labels": ", ".join(map(str, data.labels.tolist())),
            "data.read": self.reading(),
        }

    def reading(self) -> str:
        return str(self.data.reading)

    def headline(self) -> str:
        data, facts = self.data, self.describe()
        groups = f", {counted(facts['data.n_groups'], 'groups')}" if facts["data.n_groups"] else ""
        labels = f", labels {cut(facts['data.labels'])}" if data.labels.size else ""
        shape = f"{counted(data.rows.size, 'rows')} of {counted(len(data.columns), 'columns')}"
        sha256 = facts["data.sha256"][:12]
        return f"Data: {data.source}: {shape}{labels}{groups}; sha256 {sha256}"

    def split_note(self) -> str:
        return "" if self.data.group is None else f", split by {self.data.group}"

    def figures(self, model: Any, test: Rows) -> Any:
        if self.metric is LOG_LOSS:
            return PairFigures.of(test, model.predict_proba(test.X)[:, 1])
        return NumberFigures.of(test, model.predict(test.X))

    def baselines(self, train: Rows, test: Rows) -> dict[str, Any]:
        mean = np.full(test.size, np.average(train.y, weights=train.weight))
        return {"mean": (PairFigures if self.metric is LOG_LOSS else NumberFigures).of(test, mean)}

    def sections(self, outcome: Outcome) -> list[str]:
        figures = outcome.figures["tuned"]
        return [calibration_text(figures.calibration)] if isinstance(figures, PairFigures) else []

    def next_command(self, model: Path) -> str:
        return f"Predict new rows: skpref predict {model} DATA.csv"


@dataclass(frozen=True, eq=False)
class NumberFigures:
    """How well numbers were predicted on the hold-out."""

    rmse: float  # in the unit of the targets
    mae: float  # in the unit of the targets

    @classmethod
    def of(cls, rows: Rows, predicted: Array) -> NumberFigures:
        """Score predictions."""
        error = predicted - rows.y
        rmse = np.sqrt(np.average(error**2, weights=rows.weight))
        return cls(float(rmse), float(np.average(np.abs(error), weights=rows.weight)))

    def cells(self) -> dict[str, str]:
        return {"RMSE": f"{self.rmse:.4f}", "MAE": f"{self.mae:.4f}"}

    def metrics(self, prefix: str) -> dict[str, float]:
        return {f"{prefix}rmse": self.rmse, f"{prefix}mae": self.mae}


class FeatureTask(LabelTask):
    """Numeric features with numbers or two classes; a Gaussian process learns the relevance of the features."""

    def final(self, settings: Settings, params: Settings | None = None) -> Any:
        data, rows = self.data, self.rows
        model = self.build(settings).set_params(**self._labels(), **(params or {}))
        y = data.labels[rows.y] if data.labels.size else rows.y
        model.fit(rows.X, y, sample_weight=rows.weight)
        model.feature_names_in_ = np.array(data.columns, dtype=object)  # as after a fit to a data frame
        return model

    def _labels(self) -> dict[str, Any]:
        """Return parameters of the final model that name the labels."""
        return {}

    def example(self) -> Any:
        return as_frame(self.rows.X[:2], self.data.columns)

    def findings(self, model: Any, seed: int) -> list[tuple[str, float]]:
        """Return features by relevance, the most relevant first."""
        del seed
        relevance = np.asarray(model.relevance_)
        order = np.argsort(-relevance, kind="stable")
        return [(self.data.columns[k], float(relevance[k])) for k in order]

    def sections(self, outcome: Outcome) -> list[str]:
        shown = outcome.findings[:_SHOWN]
        title = f"Relevance of the features, {len(shown)} of {len(outcome.findings)}"
        rows = [(cut(name), f"{value:.3f}") for name, value in shown]
        lines = [title, *table(("feature", "relevance"), rows)]
        return [*super().sections(outcome), "\n".join([*lines, *self._remarks(outcome)])]

    def _remarks(self, outcome: Outcome) -> list[str]:
        """Return lines below the table of relevances."""
        del outcome
        return []

    def files(self, outcome: Outcome) -> Files:
        return {"relevance.csv": lambda path: write_csv(path, ["feature", "relevance"], outcome.findings)}


class LevelTask(LabelTask):
    """Rows with ordered levels, given by their numbers from 0."""

    def _figures(self, test: Rows, predicted: Any) -> RatingFigures:
        return RatingFigures(test.y, np.asarray(predicted), test.weight, self.data.labels.size)

    def figures(self, model: Any, test: Rows) -> RatingFigures:
        return self._figures(test, model.predict(test.X))

    def baselines(self, train: Rows, test: Rows) -> dict[str, Any]:
        guesses = {"median level": np.floor(np.median(train.y) + 0.5), "commonest level": np.bincount(train.y).argmax()}
        return {name: self._figures(test, np.full(test.size, int(guess))) for name, guess in guesses.items()}

    def sections(self, outcome: Outcome) -> list[str]:
        return [levels_text(outcome.figures["tuned"], self.data.labels), *super().sections(outcome)]


class OrdinalTask(LevelTask, FeatureTask):
    """Numeric features with ordered levels."""

    most_strata: ClassVar[int] = 100

    def folds(self, rows: Rows, n_folds: int, seed: int) -> list[Split]:
        if rows.groups is not None or np.unique(rows.y, return_counts=True)[1].max() < n_folds:
            return super().folds(rows, n_folds, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a rare level is missing from some folds
            return list(StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(rows.X, rows.y))

    def _labels(self) -> dict[str, Any]:
        return {"class_order": self.data.labels}

    def _remarks(self, outcome: Outcome) -> list[str]:
        relevant = sum(value > 0.0 for _, value in outcome.findings)
        if relevant < 2 or not _features_share_scales(outcome.model.kernel_):
            return []
        why = "This kernel has the same scale for all features, so their relevance hardly depends on the labels."
        return [f"  {why}", "  To learn a scale for each: skpref fit with --set kernel=ard"]


def _features_share_scales(kernel: Kernel) -> bool:
    """Return whether a kernel's hyper-parameters of features keep the ratios that they had at the start of the search.

    Bounds are multiples of the starts.
    """
    sizes = [parameter.n_elements for parameter in kernel.hyperparameters if not parameter.fixed]
    parts = np.split(kernel.theta - kernel.bounds[:, 0], np.cumsum(sizes)[:-1]) if sizes else []
    return all(np.ptp(part) < _ROUNDING for part in parts)


# ------------------------------------------------------------------------------------------------------------- reading
def read_ordinal(options: Data) -> OrdinalTask:
    """Read a file of features and ordered levels."""
    return complete_rows(read_data(options), lambda sheet: _ordinal_task(sheet, options), options.missing)


def _ordinal_task(sheet: Columns, options: Data) -> OrdinalTask:
    names, X, groups = _read_features(sheet, options)
    label = options.label or sheet.usual("label")
    labels, y = _ordered(sheet, label, sheet.ids(label, "label"), options.class_order)
    rows = Rows(X, y, read_weights(sheet, options), groups)
    check_size(sheet, rows.size, "rows", options)
    data = Labelled(rows, names, labels, str(options.data), options.group, _reading(sheet, options, label, names))
    template = GPOrdinalRegressor(random_state=options.seed, class_order=np.arange(labels.size))
    return OrdinalTask(data, template, ABSOLUTE_ERROR)


def read_sparse(options: Data) -> FeatureTask:
    """Read a file of features with numbers, or with two classes."""
    return complete_rows(read_data(options), lambda sheet: _sparse_task(sheet, options), options.missing)


def _sparse_task(sheet: Columns, options: Data) -> FeatureTask:
    names, X, groups = _read_features(sheet, options)
    label = options.label or sheet.usual("label")
    labels: NDArray[Any] = np.array([])
    if options.model == "svgp":
        y = sheet.numbers(label)
        template: Any = SVGPRegressor(n_inducing=500, random_state=options.seed)
    else:
        labels, y = _two_classes(sheet, label)
        template = SVGPClassifier(n_inducing=300, random_state=options.seed)
    rows = Rows(X, y, read_weights(sheet, options), groups)
    check_size(sheet, rows.size, "rows", options)
    template.set_params(n_inducing=min(template.n_inducing, options.max_inducing or template.n_inducing))
    data = Labelled(rows, names, labels, str(options.data), options.group, _reading(sheet, options, label, names))
    task = FeatureTask(data, template, LOG_LOSS if labels.size else SQUARED_ERROR)
    most = min(template.n_inducing, rows.size)
    limit(task.space, task.template, "n_inducing", 50, most)
    return task


def _reading(sheet: Columns, options: Data, label: str, names: tuple[str, ...]) -> Reading:
    """Return what was read of a file."""
    named = {"label": label, "features": names, "group": options.group, "weights": options.weight or "none"}
    return reading_of(sheet, named, (label, *names, options.group, options.weight))


def _read_features(sheet: Columns, options: Data) -> tuple[tuple[str, ...], Array, NDArray[Any] | None]:
    """Return names and values of the features, and the groups."""
    label, group = options.label or sheet.usual("label"), options.group
    sheet.require([label], "A file of rows has a column label, or another named by --label")
    groups = read_groups(sheet, group)
    others = {label, group, options.weight, sheet.usual("id")}
    names = tuple(name for name in sheet.names if name not in others)
    names = names if options.features is None else options.features
    sheet.require(names, "It was asked for by --features")
    if not names:
        raise sheet.fault("there is no column of features, only the label")
    for name, count in Counter(names).items():
        if count > 1:
            raise sheet.fault("--features names this column twice", None, name)
    return names, sheet.matrix(names, "features are numeric; choose by --features"), groups


def _ordered(
    sheet: Columns, name: str, cells: NDArray[Any], order: tuple[str, ...] | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return levels, low to high, and the number of each row's: whole numbers by themselves, words by --class-order."""
    sheet.refuse_missing(name, order or ())
    if order is not None:
        for row, cell in enumerate(cells):
            if cell not in order:
                raise sheet.fault(f"{cell[:80]!r} is not in --class-order {', '.join(order)}", row, name)
        return ordered_levels(cells.astype(str), list(order))
    try:
        numbers = np.array([float(cell) for cell in cells])
    except ValueError:
        words = ", ".join(sorted(set(cells))[:8])
        raise sheet.fault(f"the order of {words} is not known; use --class-order, low to high", None, name) from None
    whole = (np.abs(numbers) < _TOO_LARGE) & (numbers == np.floor(numbers))  # false of NaN
    for row in np.flatnonzero(~whole)[:1].tolist():
        wanted = "levels are whole numbers, or words in the order of --class-order"
        raise sheet.fault(f"{wanted}; got {cells[row][:80]!r}", row, name)
    if np.unique(numbers).size < 2:
        raise sheet.fault(f"at least 2 levels are needed; all labels are {cells[0][:80]}", None, name)
    return ordered_levels(numbers.astype(np.int64))


def _two_classes(sheet: Columns, label: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the two labels, and 0 or 1 for each row."""
    labels, y = np.unique(sheet.ids(label, "label").astype(str), return_inverse=True)
    if labels.size != 2:
        shown = ", ".join(labels[:8].tolist())[:200]
        others = "for ordered levels use --model ordinal, for numbers svgp; for more classes, SVGPClassifier in Python"
        raise sheet.fault(f"two classes are needed; got {labels.size}: {shown}; {others}", None, label)
    return labels, y.reshape(-1).astype(np.int64)
