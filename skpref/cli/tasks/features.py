"""Tasks of numeric features: ordered labels, numbers or two classes, by Gaussian processes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

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
    Report,
    Rows,
    Task,
    check_size,
    limit,
    read_data,
    read_groups,
    read_line,
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
    from numpy.typing import NDArray
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array
    from skpref.cli.options import Data
    from skpref.cli.tasks.base import Outcome
    from skpref.data.columns import Columns
    from skpref.data.roles import Reading

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

    def task(self, estimator: Any, metric: Metric, report: Report, **more: Any) -> Task:
        """Return the task of an estimator."""
        rows = self.rows
        facts: dict[str, Any] = {
            "data.source": self.source,
            "data.read": str(self.reading),
            "data.sha256": rows.digest(self.columns, self.labels),
            "data.n_rows": rows.size,
            "data.n_features": len(self.columns),
            "data.n_groups": rows.n_groups,
            "data.labels": ", ".join(map(str, self.labels.tolist())),
        }
        groups = f", {counted(rows.n_groups, 'groups')}" if rows.n_groups else ""
        labels = f", labels {cut(facts['data.labels'])}" if self.labels.size else ""
        shape = f"{counted(rows.size, 'rows')} of {counted(len(self.columns), 'columns')}{labels}{groups}"
        return Task(
            rows=rows,
            estimator=estimator,
            space=default_space(estimator),
            metric=metric,
            report=report,
            facts=facts,
            headline=f"Data: {self.source}: {shape}; sha256 {facts['data.sha256'][:12]}{read_line(self.reading)}",
            next_command="Predict new rows: skpref predict {model} DATA.csv",
            data=self,
            names=self.columns,
            split_note="" if self.group is None else f", split by {self.group}",
            **more,
        )


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


class NumberReport(Report):
    """The report on numbers."""

    def figures(self, model: Any, test: Rows) -> NumberFigures:
        return NumberFigures.of(test, model.predict(test.X))

    def baselines(self, train: Rows, test: Rows) -> dict[str, Any]:
        return {"mean": NumberFigures.of(test, np.full(test.size, np.average(train.y, weights=train.weight)))}


class ChanceReport(Report):
    """The report on probabilities of the second of two classes."""

    def figures(self, model: Any, test: Rows) -> PairFigures:
        return PairFigures.of(test, model.predict_proba(test.X)[:, 1])

    def baselines(self, train: Rows, test: Rows) -> dict[str, Any]:
        return {"mean": PairFigures.of(test, np.full(test.size, np.average(train.y, weights=train.weight)))}

    def sections(self, outcome: Outcome) -> list[str]:
        figures: Any = outcome.figures["tuned"]
        return [calibration_text(figures.calibration)]


class LevelReport(Report):
    """The report on ordered levels, given by their numbers from 0."""

    def __init__(self, labels: NDArray[Any], **predicting: Any) -> None:
        self.labels = labels
        self._predicting = predicting  # arguments of `predict`

    def _figures(self, test: Rows, predicted: Any) -> RatingFigures:
        return RatingFigures(test.y, np.asarray(predicted), test.weight, self.labels.size)

    def figures(self, model: Any, test: Rows) -> RatingFigures:
        return self._figures(test, model.predict(test.X, **self._predicting))

    def baselines(self, train: Rows, test: Rows) -> dict[str, Any]:
        guesses = {"median level": np.floor(np.median(train.y) + 0.5), "commonest level": np.bincount(train.y).argmax()}
        return {name: self._figures(test, np.full(test.size, int(guess))) for name, guess in guesses.items()}

    def sections(self, outcome: Outcome) -> list[str]:
        return [levels_text(outcome.figures["tuned"], self.labels)]


class RelevanceReport(Report):
    """Another report, and which features matter."""

    def __init__(self, of: Report, columns: tuple[str, ...]) -> None:
        self.figures, self.baselines, self._sections = of.figures, of.baselines, of.sections  # type: ignore[method-assign]
        self._columns = columns

    def findings(self, model: Any, seed: int) -> list[tuple[str, float]]:
        """Return features by relevance, the most relevant first."""
        del seed
        relevance = np.asarray(model.relevance_)
        return [(self._columns[k], float(relevance[k])) for k in np.argsort(-relevance, kind="stable")]

    def sections(self, outcome: Outcome) -> list[str]:
        found = outcome.findings
        lines = [f"Relevance of the features, {len(found[:_SHOWN])} of {len(found)}"]
        lines += table(("feature", "relevance"), [(cut(name), f"{value:.3f}") for name, value in found[:_SHOWN]])
        relevant, ordinal = sum(value > 0.0 for _, value in found), isinstance(outcome.model, GPOrdinalRegressor)
        if ordinal and relevant > 1 and _features_share_scales(outcome.model.kernel_):
            lines.append(
                "  This kernel has the same scale for all features, so their relevance hardly depends on the labels."
            )
            lines.append("  To learn a scale for each: skpref fit with --set kernel=ard")
        return [*self._sections(outcome), "\n".join(lines)]

    def files(self, outcome: Outcome) -> Files:
        return {"relevance.csv": lambda path: write_csv(path, ["feature", "relevance"], outcome.findings)}


def _feature_task(data: Labelled, estimator: Any, metric: Metric, report: Report, **more: Any) -> Task:
    """Return the task of a Gaussian process that learns the relevance of the features."""

    def finish(model: Any) -> Any:
        """Keep the names of the features, as after a fit to a data frame."""
        model.feature_names_in_ = np.array(data.columns, dtype=object)
        return model

    y = data.labels[data.rows.y] if data.labels.size else data.rows.y
    more |= {"final_rows": replace(data.rows, y=y), "finish": finish}
    return data.task(estimator, metric, RelevanceReport(report, data.columns), **more)


def _features_share_scales(kernel: Kernel) -> bool:
    """Return whether a kernel's hyper-parameters of features keep the ratios that they had at the start of the search.

    Bounds are multiples of the starts.
    """
    sizes = [parameter.n_elements for parameter in kernel.hyperparameters if not parameter.fixed]
    parts = np.split(kernel.theta - kernel.bounds[:, 0], np.cumsum(sizes)[:-1]) if sizes else []
    return all(np.ptp(part) < _ROUNDING for part in parts)


# ------------------------------------------------------------------------------------------------------------- reading
def read_ordinal(options: Data) -> Task:
    """Read a file of features and ordered levels."""
    return complete_rows(read_data(options), lambda sheet: _ordinal_task(sheet, options), options.missing)


def _ordinal_task(sheet: Columns, options: Data) -> Task:
    names, X, groups = _read_features(sheet, options)
    label = options.label or sheet.usual("label")
    labels, y = _ordered(sheet, label, sheet.ids(label, "label"), options.class_order)
    rows = Rows(X, y, read_weights(sheet, options), groups)
    check_size(sheet, rows.size, "rows", options)
    data = Labelled(rows, names, labels, str(options.data), options.group, _reading(sheet, options, label, names))
    return ordinal_task(data, options.seed)


def ordinal_task(data: Labelled, seed: int = 0) -> Task:
    """Return the task of features with ordered levels."""
    estimator = GPOrdinalRegressor(random_state=seed, class_order=np.arange(data.labels.size))
    report, final = LevelReport(data.labels), {"class_order": data.labels}
    return _feature_task(data, estimator, ABSOLUTE_ERROR, report, final_params=final, are_levels=True)


def read_sparse(options: Data) -> Task:
    """Read a file of features with numbers, or with two classes."""
    return complete_rows(read_data(options), lambda sheet: _sparse_task(sheet, options), options.missing)


def _sparse_task(sheet: Columns, options: Data) -> Task:
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
    metric, report = (LOG_LOSS, ChanceReport()) if labels.size else (SQUARED_ERROR, NumberReport())
    task = _feature_task(data, template, metric, report)
    limit(task.space, task.estimator, "n_inducing", 50, min(template.n_inducing, rows.size))
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
