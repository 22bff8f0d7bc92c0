"""Tasks of pairs of user and item with a number, with 0 and 1, or with a level, by factorization machines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.pipeline import Pipeline

from skpref.cli.tasks.base import Rows, check_size
from skpref.cli.tasks.doubts import notes_on_columns, say_doubts
from skpref.cli.tasks.features import check_levels, make_task
from skpref.cli.tasks.figures import ChanceReport, LevelReport, Report
from skpref.cli.tasks.ratings import number_levels, read_levels, read_rated
from skpref.data import OneHotDesign
from skpref.factorization.fm import VariationalFM
from skpref.factorization.fm_classifier import VariationalFMClassifier
from skpref.factorization.fm_ordinal import VariationalFMOrdinal

if TYPE_CHECKING:
    from skpref._typing import AnyArray
    from skpref.cli.options import Data
    from skpref.cli.tasks.base import Task
    from skpref.data.columns import Columns


class WeightedPipeline(Pipeline):
    """A Pipeline whose last step takes the weights."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the steps."""
        super().fit(X, y, **{f"{self.steps[-1][0]}__sample_weight": sample_weight})
        return self


def read(options: Data) -> Task:
    """Read a file of pairs of user and item with a number, with 0 and 1, or with a level."""

    def read_values(sheet: Columns, name: str) -> AnyArray:
        if options.model == "fm-ordinal":
            return read_levels(sheet, name, options.levels)
        return sheet.numbers(name) if options.model == "fm" else _zeros_and_ones(sheet, name)

    rated = read_rated(options, read_values)
    sheet, y, labels = rated.sheet, rated.values, np.array([])
    more: dict[str, Any] = {}
    report: Report = Report()
    machine: Any = VariationalFM()
    if options.model == "fm-classifier":
        if np.unique(y).size < 2:
            raise sheet.fault(f"both 0 and 1 are needed; all are {y[0]:g}", None, rated.column)
        y, labels, report, machine = y.astype(np.int64), np.array([0, 1]), ChanceReport(), VariationalFMClassifier()
    elif options.model == "fm-ordinal":
        labels, y = number_levels(sheet, y, options.levels, rated.column)
        check_levels(sheet, labels, rated.column, steps=True)
        report, more = LevelReport(labels, chances=True), {"final_params": {"class_order": labels}}
        machine = VariationalFMOrdinal(class_order=np.arange(labels.size))
    rows = Rows(np.column_stack([rated.user, rated.item]), y, rated.weight)
    check_size(sheet, rows.size, "rows", options)
    say_doubts(sheet, notes_on_columns({"user": rated.user, "item": rated.item}))
    step = options.model.replace("fm", "variationalfm").replace("-", "")
    template = WeightedPipeline(
        [("onehotdesign", OneHotDesign()), (step, machine.set_params(random_state=options.seed))]
    )
    if "final_params" in more:
        more["final_rows"] = replace(rows, y=labels[y])
    more |= {"columns": rated.columns, "finish": lambda model: Pipeline(model.steps)}
    more["next_command"] = "Rank the items:   skpref rank {model} --user ID"
    return make_task(rows, ("user", "item"), labels, rated.reading, options, template, report, **more)


def _zeros_and_ones(sheet: Columns, name: str) -> AnyArray:
    y = sheet.numbers(name, 0.0, 1.0, "0 or 1")
    for row in np.flatnonzero((y != 0.0) & (y != 1.0))[:1].tolist():
        raise sheet.fault(f"expected 0 or 1, got {y[row]:g}; --model fm takes any number", row, name)
    return y
