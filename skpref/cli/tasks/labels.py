"""Tasks of pairs of user and item with a number, with 0 and 1, or with a level, by factorization machines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.pipeline import Pipeline

from skpref.cli.files import complete_rows
from skpref.cli.tasks.base import LOG_LOSS, SQUARED_ERROR, Metric, Rows, as_frame, check_size, fitted, read_weights
from skpref.cli.tasks.doubts import notes_on_columns
from skpref.cli.tasks.features import Labelled, LabelTask, LevelTask
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
    from skpref.cli.tasks.ratings import RatingFigures
    from skpref.data.columns import Columns
    from skpref.search.loop import Settings


class WeightedPipeline(Pipeline):
    """A Pipeline whose last step takes the weights."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the steps."""
        super().fit(X, y, **{f"{self.steps[-1][0]}__sample_weight": sample_weight})
        return self


class MachineTask(LabelTask):
    """Numbers, or two classes, of pairs of user and item."""

    def columns(self) -> dict[str, str]:
        return dict(zip(("user", "item"), self.data.columns, strict=True))

    def example(self) -> Any:
        return as_frame(self.rows.X[:2], ("user", "item"))

    def _nested(self, params: Settings | None) -> dict[str, Any]:
        """Return parameters of the machine, or of any step, as those of the pipeline."""
        machine = self.template.steps[-1][0]
        return {name if "__" in name else f"{machine}__{name}": value for name, value in (params or {}).items()}

    def _final_rows(self) -> tuple[dict[str, Any], Rows]:
        """Return parameters of the final model that name the labels, and rows with them."""
        return {}, self.rows

    def final(self, settings: Settings, params: Settings | None = None) -> Any:
        named, rows = self._final_rows()
        model = self.build(settings).set_params(**self._nested(named), **self._nested(params))
        return Pipeline(fitted(model, rows).steps)


def _log_loss_of_levels(model: Any, test: Rows) -> float:
    """Return the mean log-loss of the numbers of levels, in nats a row."""
    p = model.predict_proba(test.X)[np.arange(test.size), test.y]
    return float(-np.average(np.log(np.maximum(p, np.finfo(np.float64).tiny)), weights=test.weight))


_LEVELS = Metric(LOG_LOSS.name, LOG_LOSS.title, _log_loss_of_levels)


class LevelMachineTask(LevelTask, MachineTask):
    """Levels of pairs of user and item."""

    def _final_rows(self) -> tuple[dict[str, Any], Rows]:
        return {"class_order": self.data.labels}, replace(self.rows, y=self.data.labels[self.rows.y])

    def figures(self, model: Any, test: Rows) -> RatingFigures:
        return self._figures(test, model.predict(test.X, loss="absolute"))


def read(options: Data) -> MachineTask:
    """Read a file of pairs of user and item with a number, with 0 and 1, or with a level."""
    rated, options = read_rated(options)
    return complete_rows(rated, lambda sheet: _machine_task(sheet, options), options.missing)


def _machine_task(sheet: Columns, options: Data) -> MachineTask:
    names = read_columns(sheet, options)
    ids = sheet.ids(names["user"], "user"), sheet.ids(names["item"])
    labels: NDArray[Any] = np.array([])
    task, metric, name, step = MachineTask, LOG_LOSS, names["rating"], options.model.replace("fm", "variationalfm")
    machine: Any
    y: NDArray[Any]
    if options.model == "fm":
        y, metric, machine = sheet.numbers(name), SQUARED_ERROR, VariationalFM()
    elif options.model == "fm-classifier":
        y, labels, machine = _zeros_and_ones(sheet, name), np.array([0, 1]), VariationalFMClassifier()
    else:
        labels, y = read_levels(sheet, name, options.levels, ids)
        try:
            ordered_levels(labels, labels, steps=True, are_rows=False)
        except DataError as error:
            raise sheet.fault(str(error), None, name) from error
        task, metric, machine = LevelMachineTask, _LEVELS, VariationalFMOrdinal(class_order=np.arange(labels.size))
    rows = Rows(np.column_stack(ids), y, read_weights(sheet, options))
    check_size(sheet, rows.size, "rows", options)
    pair = names["user"], names["item"]
    data = Labelled(rows, pair, labels, str(options.data), reading=reading(sheet, options, names))
    sheet.notes.extend(notes_on_columns(dict(zip(("user", "item"), ids, strict=True))))
    machine.set_params(random_state=options.seed)
    template = WeightedPipeline([("onehotdesign", OneHotDesign()), (step.replace("-", ""), machine)])
    return task(data, template, metric)


def _zeros_and_ones(sheet: Columns, name: str) -> NDArray[Any]:
    y = sheet.numbers(name, 0.0, 1.0, "0 or 1")
    for row in np.flatnonzero((y != 0.0) & (y != 1.0))[:1].tolist():
        raise sheet.fault(f"expected 0 or 1, got {y[row]:g}; --model fm takes any number", row, name)
    if np.unique(y).size < 2:
        raise sheet.fault(f"both 0 and 1 are needed; all are {y[0]:g}", None, name)
    return y.astype(np.int64)
