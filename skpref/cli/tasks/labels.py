"""Tasks of pairs of user and item with a number, or with 0 and 1, by factorization machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.pipeline import Pipeline

from skpref.cli.files import complete_rows
from skpref.cli.tasks.base import LOG_LOSS, SQUARED_ERROR, Rows, check_size, fitted, read_data, read_weights
from skpref.cli.tasks.features import Labelled, LabelTask
from skpref.cli.tasks.ratings import read_columns
from skpref.data import OneHotDesign
from skpref.factorization.fm import VariationalFM
from skpref.factorization.fm_classifier import VariationalFMClassifier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref.cli.files import Sheet
    from skpref.cli.options import Data
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

    def final(self, settings: Settings, params: Settings | None = None) -> Any:
        machine = self.template.steps[-1][0]
        model = self.build(settings)
        model.set_params(**{name if "__" in name else f"{machine}__{name}": v for name, v in (params or {}).items()})
        return Pipeline(fitted(model, self.rows).steps)


def read(options: Data) -> MachineTask:
    """Read a file of pairs of user and item with a number, or with 0 and 1."""
    return complete_rows(read_data(options), lambda sheet: _machine_task(sheet, options), options.missing)


def _machine_task(sheet: Sheet, options: Data) -> MachineTask:
    names = read_columns(sheet, options)
    X = np.column_stack([sheet.ids(names["user"], "user"), sheet.ids(names["item"])])
    labels: NDArray[Any] = np.array([])
    if options.model == "fm":
        y, step = sheet.numbers(names["rating"]), ("variationalfm", VariationalFM(random_state=options.seed))
    else:
        y, labels = _zeros_and_ones(sheet, names["rating"]), np.array([0, 1])
        step = ("variationalfmclassifier", VariationalFMClassifier(random_state=options.seed))
    rows = Rows(X, y, read_weights(sheet, options.weight))
    check_size(sheet, rows.size, "rows", options)
    data = Labelled(rows, (names["user"], names["item"]), labels, str(options.data))
    template = WeightedPipeline([("onehotdesign", OneHotDesign()), step])
    return MachineTask(data, template, LOG_LOSS if labels.size else SQUARED_ERROR)


def _zeros_and_ones(sheet: Sheet, name: str) -> NDArray[Any]:
    y = sheet.numbers(name, 0.0, 1.0, "0 or 1")
    for row in np.flatnonzero((y != 0.0) & (y != 1.0))[:1].tolist():
        raise sheet.fault(f"expected 0 or 1, got {y[row]:g}; --model fm takes any number", row, name)
    if np.unique(y).size < 2:
        raise sheet.fault(f"both 0 and 1 are needed; all are {y[0]:g}", None, name)
    return y.astype(np.int64)
