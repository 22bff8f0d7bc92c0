"""Tasks of pairs of user and item with a number, with 0 and 1, or with a level, by factorization machines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.pipeline import Pipeline

from skpref.cli.files import complete_rows
from skpref.cli.tasks.base import LOG_LOSS, SQUARED_ERROR, Metric, Report, Rows, Task, check_size, read_weights
from skpref.cli.tasks.doubts import notes_on_columns
from skpref.cli.tasks.features import ChanceReport, Labelled, LevelReport, NumberReport
from skpref.cli.tasks.ratings import read_columns, read_levels, read_rated, reading
from skpref.data import OneHotDesign
from skpref.data.levels import ordered_levels
from skpref.exceptions import DataError
from skpref.factorization.fm import VariationalFM
from skpref.factorization.fm_classifier import VariationalFMClassifier
from skpref.factorization.fm_ordinal import VariationalFMOrdinal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref.cli.options import Data
    from skpref.data.columns import Columns


class WeightedPipeline(Pipeline):
    """A Pipeline whose last step takes the weights."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the steps."""
        super().fit(X, y, **{f"{self.steps[-1][0]}__sample_weight": sample_weight})
        return self


def _log_loss_of_levels(model: Any, test: Rows) -> float:
    """Return the mean log-loss of the numbers of levels, in nats a row."""
    p = model.predict_proba(test.X)[np.arange(test.size), test.y]
    return float(-np.average(np.log(np.maximum(p, np.finfo(np.float64).tiny)), weights=test.weight))


_LEVELS = Metric(LOG_LOSS.name, LOG_LOSS.title, _log_loss_of_levels)


def read(options: Data) -> Task:
    """Read a file of pairs of user and item with a number, with 0 and 1, or with a level."""
    rated, options = read_rated(options)
    return complete_rows(rated, lambda sheet: _machine_task(sheet, options), options.missing)


def _machine_task(sheet: Columns, options: Data) -> Task:
    names = read_columns(sheet, options)
    ids = sheet.ids(names["user"], "user"), sheet.ids(names["item"])
    labels: NDArray[Any] = np.array([])
    name, step, metric = names["rating"], options.model.replace("fm", "variationalfm"), LOG_LOSS
    report: Report = ChanceReport()
    more: dict[str, Any] = {}
    machine: Any
    y: NDArray[Any]
    if options.model == "fm":
        y, metric, report, machine = sheet.numbers(name), SQUARED_ERROR, NumberReport(), VariationalFM()
    elif options.model == "fm-classifier":
        y, labels, machine = _zeros_and_ones(sheet, name), np.array([0, 1]), VariationalFMClassifier()
    else:
        labels, y = read_levels(sheet, name, options.levels, ids)
        try:
            ordered_levels(labels, labels, steps=True, are_rows=False)
        except DataError as error:
            raise sheet.fault(str(error), None, name) from error
        metric, report, more = _LEVELS, LevelReport(labels, loss="absolute"), {"final_params": {"class_order": labels}}
        machine = VariationalFMOrdinal(class_order=np.arange(labels.size))
    rows = Rows(np.column_stack(ids), y, read_weights(sheet, options))
    check_size(sheet, rows.size, "rows", options)
    pair = names["user"], names["item"]
    data = Labelled(rows, pair, labels, str(options.data), reading=reading(sheet, options, names))
    sheet.notes.extend(notes_on_columns(dict(zip(("user", "item"), ids, strict=True))))
    machine.set_params(random_state=options.seed)
    template = WeightedPipeline([("onehotdesign", OneHotDesign()), (step.replace("-", ""), machine)])
    if more:
        more["final_rows"] = replace(rows, y=labels[y])
    more |= {"columns": dict(zip(("user", "item"), pair, strict=True)), "finish": lambda model: Pipeline(model.steps)}
    return replace(data.task(template, metric, report, **more), names=("user", "item"))


def _zeros_and_ones(sheet: Columns, name: str) -> NDArray[Any]:
    y = sheet.numbers(name, 0.0, 1.0, "0 or 1")
    for row in np.flatnonzero((y != 0.0) & (y != 1.0))[:1].tolist():
        raise sheet.fault(f"expected 0 or 1, got {y[row]:g}; --model fm takes any number", row, name)
    if np.unique(y).size < 2:
        raise sheet.fault(f"both 0 and 1 are needed; all are {y[0]:g}", None, name)
    return y.astype(np.int64)
