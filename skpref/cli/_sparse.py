"""Tasks of features with numbers or two classes, by sparse Gaussian processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.cli._comparisons import PairFigures
from skpref.cli._files import read_sheet
from skpref.cli._labels import FeatureTask, Labelled, NumberFigures, check_size, read_features, read_weights
from skpref.cli._rankings import calibration_text
from skpref.cli._task import refuse_one
from skpref.gp.sparse import SVGPClassifier, SVGPRegressor
from skpref.search import Classes, Distributions, LogInteger, Numbers, default_space

if TYPE_CHECKING:
    import argparse

    from numpy.typing import NDArray

    from skpref.cli._files import Sheet
    from skpref.cli._task import Outcome
    from skpref.search import Rows
    from skpref.search.loop import Settings


class SparseTask(FeatureTask):
    """Numbers, or two classes, of features."""

    def final(self, settings: Settings, params: Settings | None = None) -> Any:
        given, rows = self.given, self.given.rows
        model = self.build(settings).set_params(**(params or {}))
        y = given.labels[rows.y] if given.labels.size else rows.y
        return self.named(model.fit(rows.X, y, sample_weight=rows.weight))

    def space(self) -> Distributions:
        most = min(self._template.n_inducing, self.given.rows.size)
        space = default_space(self._template) | {"n_inducing": LogInteger(min(50, most), most)}
        return Distributions(space, self._template.get_params())

    def figures(self, model: Any, test: Any) -> Any:
        if isinstance(test, Classes):
            return PairFigures.of(test, model.predict_proba(test.X)[:, 1])
        return NumberFigures.of(test, model.predict(test.X))

    def baselines(self, train: Any, test: Any) -> dict[str, Any]:
        mean = np.full(test.size, np.average(train.y, weights=train.weight))
        return {"mean": (PairFigures if isinstance(test, Classes) else NumberFigures).of(test, mean)}

    def sections(self, outcome: Outcome) -> list[str]:
        figures = outcome.figures["tuned"]
        shown = [calibration_text(figures.calibration)] if isinstance(figures, PairFigures) else []
        return [*shown, self.relevance_text(outcome)]


def read_sparse(arguments: argparse.Namespace) -> SparseTask:
    """Read a file of features with numbers, or with two classes."""
    refuse_one(arguments.holdout)
    sheet = read_sheet(arguments.data)
    names, X, groups = read_features(sheet, arguments)
    label = arguments.label or "label"
    if arguments.model == "svgp":
        rows: Rows = Numbers(X, sheet.numbers(label), read_weights(sheet), groups)
        labels: NDArray[Any] = np.array([])
        model: Any = SVGPRegressor(n_inducing=500, random_state=arguments.seed)
    else:
        labels, y = _two_classes(sheet, label)
        rows = Classes(X, y, read_weights(sheet), groups)
        model = SVGPClassifier(random_state=arguments.seed)
    if arguments.max_inducing is not None:
        model.set_params(n_inducing=min(model.n_inducing, arguments.max_inducing))
    check_size(sheet, rows)
    return SparseTask(Labelled(rows, names, labels, str(arguments.data), arguments.group), model)


def _two_classes(sheet: Sheet, label: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels, and 0 or 1 for each row."""
    labels, y = np.unique(sheet.ids(label, "label").astype(str), return_inverse=True)
    if labels.size != 2:
        shown = ", ".join(labels[:8].tolist())
        more = (
            "; for ordered levels there is --model ordinal, for numbers svgp; of more classes, SVGPClassifier in Python"
        )
        raise sheet.fault(f"two classes are needed; got {labels.size}: {shown[:200]}{more}", None, label)
    return labels, y.reshape(-1).astype(np.int64)
