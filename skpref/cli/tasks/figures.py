"""How good predictions are: figures of the hold-out, among them the loss of a search, and simple baselines."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._typing import AnyArray, Array
from skpref.cli.output import write_csv
from skpref.cli.report import SHOWN, table, titled_table
from skpref.metrics import Calibration, answers_log_loss, calibration, cross_entropy, pair_accuracy

if TYPE_CHECKING:
    from skpref.cli.tasks.base import Outcome, Rows

Files = dict[str, "Callable[[Path], None]"]  # by name: what writes the file

_SHOWN = 15  # features


class Figures(NamedTuple):
    """How good predictions are."""

    values: dict[str, float]  # by name
    detail: Any = None  # of probabilities, their calibration; of levels, the numbers given and predicted

    def cells(self) -> dict[str, str]:
        """Return the row of a table, by the title of the column."""
        return {title: f"{self.values[name]:{form}}" for name, (title, form) in SHOWN.items() if name in self.values}


def score_chances(rows: Rows, p: Array, answers: Array | None = None) -> Figures:
    """Score probabilities of a 1, in nats a row, and those of left, tie and right."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # accuracy is undefined, NaN, when all labels are ties
        values = {"accuracy": pair_accuracy(rows.y, p, rows.weight)}
    found = calibration(rows.y, p, 10, rows.weight)
    values |= {"log_loss": cross_entropy(rows.y, p, rows.weight), "ece": found.expected_calibration_error}
    if answers is not None:
        values["answers_log_loss"] = answers_log_loss(rows.y, answers, sample_weight=rows.weight)
    return Figures(values, found)


def score_numbers(rows: Rows, predicted: Array) -> Figures:
    """Score predictions of numbers, in the unit of the targets."""
    error, weight = predicted - rows.y, rows.weight
    rmse, mae = np.sqrt(np.average(error**2, weights=weight)), np.average(np.abs(error), weights=weight)
    return Figures({"rmse": float(rmse), "mae": float(mae)})


def score_levels(rows: Rows, predicted: AnyArray, n_levels: int, p: Array | None = None) -> Figures:
    """Score numbers of levels; NMAE is relative to a level drawn at random where all are equally frequent."""
    mae = float(np.average(np.abs(predicted - rows.y), weights=rows.weight))
    exact = float(np.average(predicted == rows.y, weights=rows.weight))
    values = {"mae": mae, "nmae": mae / ((n_levels**2 - 1) / (3 * n_levels)), "accuracy": exact}
    if p is not None:
        chance = np.maximum(p[np.arange(rows.size), rows.y], np.finfo(np.float64).tiny)
        values["log_loss"] = float(-np.average(np.log(chance), weights=rows.weight))
    return Figures(values, (rows.y, predicted))


class Report:
    """What is said about the models of a task: numbers, unless a subclass has other targets."""

    metric = "rmse"  # the loss of a search

    def __init__(self, features: tuple[str, ...] = ()) -> None:
        self.features = features  # names of columns whose relevance is reported

    def figures(self, model: Any, test: Rows) -> Figures:
        """Score a model on rows that it was not fitted to."""
        return score_numbers(test, model.predict(test.X))

    def baselines(self, train: Rows, test: Rows) -> dict[str, Figures]:
        """Score predictions that need no model."""
        return {"mean": score_numbers(test, np.average(train.y, weights=train.weight))}

    def findings(self, model: Any, seed: int) -> Any:
        """Return what there is to report about the final model: features by relevance, the most relevant first."""
        del seed
        relevance = np.asarray(model.relevance_ if self.features else [])
        return [(self.features[k], float(relevance[k])) for k in np.argsort(-relevance, kind="stable")]

    def sections(self, outcome: Outcome) -> list[str]:
        """Return the sections of the report after the search and the figures."""
        found = outcome.findings
        title = f"Relevance of the features, {len(found[:_SHOWN])} of {len(found)}"
        columns = dict(zip(("name", "value"), zip(*found[:_SHOWN], strict=True), strict=False))
        return [titled_table(title, {"feature": "{name}", "relevance": "{value:.3f}"}, columns)] if found else []

    def files(self, outcome: Outcome) -> Files:
        """Return what is written in addition to the model and the trials, plots last."""
        found = outcome.findings
        return {"relevance.csv": lambda path: write_csv(path, ["feature", "relevance"], found)} if found else {}

    def summary(self, model: Any, seed: int) -> list[str]:
        """Return the sections of the report after a single fit."""
        del model, seed
        return []


class ChanceReport(Report):
    """The report on probabilities of the second of two classes."""

    metric = "log_loss"

    def figures(self, model: Any, test: Rows) -> Figures:
        return score_chances(test, model.predict_proba(test.X)[:, 1])

    def baselines(self, train: Rows, test: Rows) -> dict[str, Figures]:
        return {"mean": score_chances(test, np.full(test.size, np.average(train.y, weights=train.weight)))}

    def sections(self, outcome: Outcome) -> list[str]:
        return [calibration_text(outcome.figures["tuned"].detail), *super().sections(outcome)]


class LevelReport(Report):
    """The report on ordered levels, given by their numbers from 0."""

    metric = "mae"

    def __init__(self, labels: AnyArray, features: tuple[str, ...] = (), *, chances: bool = False) -> None:
        super().__init__(features)
        self.labels = labels
        self._chances = chances  # whether their probabilities decide the search
        self.metric = "log_loss" if chances else "mae"

    def figures(self, model: Any, test: Rows) -> Figures:
        p = model.predict_proba(test.X) if self._chances else None
        more = {"loss": "absolute"} if self._chances else {}
        return score_levels(test, np.asarray(model.predict(test.X, **more)), self.labels.size, p)

    def baselines(self, train: Rows, test: Rows) -> dict[str, Figures]:
        guesses = {"median level": np.floor(np.median(train.y) + 0.5), "commonest level": np.bincount(train.y).argmax()}
        return {name: score_levels(test, np.full(test.size, int(k)), self.labels.size) for name, k in guesses.items()}

    def sections(self, outcome: Outcome) -> list[str]:
        """Return how often levels were given and predicted."""
        actual, predicted = outcome.figures["tuned"].detail
        rows = []
        for number, level in enumerate(self.labels.tolist()):
            error = np.abs(predicted - actual)[actual == number]
            shares = [f"{np.mean(column == number):.3f}" for column in (actual, predicted)]
            rows.append((str(level), *shares, f"{error.mean():.3f}" if error.size else "-"))
        lines = table(("level", "given", "predicted", "MAE where given"), rows)
        return ["\n".join(["Levels on the hold-out (shares)", *lines]), *super().sections(outcome)]


def calibration_text(found: Calibration) -> str:
    """Return a table of predicted probabilities and observed shares."""
    columns = {name: getattr(found, name) for name in ("mean_predicted", "mean_observed", "count")}
    forms = {"predicted": "{mean_predicted:.3f}", "observed": "{mean_observed:.3f}", "rows": "{count}"}
    return titled_table("Calibration on the hold-out", forms, columns)
