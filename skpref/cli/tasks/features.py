"""Tasks of numeric features: ordered labels, numbers or two classes, by Gaussian processes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.cli.files import complete_rows, counted
from skpref.cli.output import write_csv
from skpref.cli.report import cut, titled_table
from skpref.cli.tasks.base import Rows, Task, check_size, read_data, read_splits, read_weights
from skpref.cli.tasks.figures import ChanceReport, Files, LevelReport, Report
from skpref.cli.tasks.ratings import number_levels, read_levels
from skpref.data.levels import ordered_levels
from skpref.data.roles import reading_of
from skpref.exceptions import DataError
from skpref.gp.ordinal import GPOrdinalRegressor
from skpref.gp.sparse import SVGPClassifier, SVGPRegressor
from skpref.search import default_space

if TYPE_CHECKING:
    from skpref._typing import AnyArray
    from skpref.cli.options import Data
    from skpref.cli.tasks.base import Outcome
    from skpref.data.columns import Columns

_SHOWN = 15  # features


def make_task(
    rows: Rows,
    names: tuple[str, ...],
    labels: AnyArray,
    reading: str,
    options: Data,
    estimator: Any,
    report: Report,
    **more: Any,
) -> Task:
    """Return the task of an estimator of labelled rows; labels are by number, and none where they are numbers."""
    shown = ", ".join(map(str, labels.tolist()))
    groups = f", {counted(rows.n_groups, 'groups')}" if rows.n_groups else ""
    of_labels = f", labels {cut(shown)}" if labels.size else ""
    return Task(
        rows=rows,
        estimator=estimator,
        space=default_space(estimator),
        report=report,
        source=str(options.data),
        reading=reading,
        shape=f"{counted(rows.size, 'rows')} of {counted(len(names), 'columns')}{of_labels}{groups}",
        sizes={"n_rows": rows.size, "n_features": len(names), "n_groups": rows.n_groups, "labels": shown},
        digest=rows.digest(names, labels),
        names=names,
        split_note="" if options.group is None else f", split by {options.group}",
        **{"next_command": "Predict new rows: skpref predict {model} DATA.csv", **more},
    )


class RelevanceReport(Report):
    """Another report, and which features matter."""

    def __init__(self, of: Report, columns: tuple[str, ...]) -> None:
        self.figures, self.baselines, self._sections = of.figures, of.baselines, of.sections  # type: ignore[method-assign]
        self.metric, self._columns = of.metric, columns

    def findings(self, model: Any, seed: int) -> list[tuple[str, float]]:
        """Return features by relevance, the most relevant first."""
        del seed
        relevance = np.asarray(model.relevance_)
        return [(self._columns[k], float(relevance[k])) for k in np.argsort(-relevance, kind="stable")]

    def sections(self, outcome: Outcome) -> list[str]:
        found = outcome.findings
        title = f"Relevance of the features, {len(found[:_SHOWN])} of {len(found)}"
        columns = dict(zip(("name", "value"), zip(*found[:_SHOWN], strict=True), strict=True))
        relevance = titled_table(title, {"feature": "{name}", "relevance": "{value:.3f}"}, columns)
        return [*self._sections(outcome), relevance]

    def files(self, outcome: Outcome) -> Files:
        return {"relevance.csv": lambda path: write_csv(path, ["feature", "relevance"], outcome.findings)}


# ------------------------------------------------------------------------------------------------------------- reading
def read(options: Data) -> Task:
    """Read a file of features with ordered levels, numbers, or two classes."""
    return complete_rows(read_data(options), lambda sheet: _read_part(sheet, options), options.missing)


def _read_part(sheet: Columns, options: Data) -> Task:
    label, seed = options.label or sheet.usual("label"), options.seed
    sheet.require([label], "A file of rows has a column label, or another named by --label")
    (groups, _), names = read_splits(sheet, options), _features(sheet, options, label)
    X = sheet.matrix(names, "features are numeric; choose by --features")
    labels, more = np.array([]), {}
    y: AnyArray
    report: Report = Report()
    template: Any
    if options.model == "ordinal":
        labels, y = number_levels(sheet, read_levels(sheet, label, options.levels), options.levels, label)
        check_levels(sheet, labels, label)
        template, report = GPOrdinalRegressor(class_order=np.arange(labels.size)), LevelReport(labels)
        more = {"final_params": {"class_order": labels}, "are_levels": True}
    elif options.model == "svgp":
        y, template = sheet.numbers(label), SVGPRegressor()
    else:
        (labels, y), report = _two_classes(sheet, label), ChanceReport()
        template = SVGPClassifier()
    rows = Rows(X, y, read_weights(sheet, options), groups)
    check_size(sheet, rows.size, "rows", options)
    named = {"label": label, "features": names, "group": options.group, "weights": options.weight or "none"}
    reading = str(reading_of(sheet, named, (label, *names, options.group, options.weight)))

    def finish(model: Any) -> Any:
        """Keep the names of the features, as after a fit to a data frame."""
        model.feature_names_in_ = np.array(names, dtype=object)
        return model

    more |= {"final_rows": replace(rows, y=labels[y] if labels.size else y), "finish": finish}
    template.set_params(random_state=seed)
    return make_task(rows, names, labels, reading, options, template, RelevanceReport(report, names), **more)


def _features(sheet: Columns, options: Data, label: str) -> tuple[str, ...]:
    """Return the names of the features."""
    others = {label, options.group, options.weight, sheet.usual("id")}
    names = options.features or tuple(name for name in sheet.names if name not in others)
    sheet.require(names, "It was asked for by --features")
    if not names:
        raise sheet.fault("there is no column of features, only the label")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise sheet.fault("--features names this column twice", None, name)
    return names


def check_levels(sheet: Columns, labels: AnyArray, name: str | None, *, steps: bool = False) -> None:
    """Refuse numbers with fractions that are no levels but measurements; with `steps`, half stars are levels."""
    try:
        ordered_levels(labels, labels, steps=steps, are_rows=False)
    except DataError as error:
        raise sheet.fault(str(error), None, name) from error
    except ValueError as error:  # of scikit-learn
        raise sheet.fault("levels are whole numbers, or words in the order of --levels", None, name) from error


def _two_classes(sheet: Columns, label: str) -> tuple[AnyArray, AnyArray]:
    """Return the two labels, and 0 or 1 for each row."""
    labels, y = np.unique(sheet.ids(label, "label").astype(str), return_inverse=True)
    if labels.size != 2:
        shown = ", ".join(labels[:8].tolist())[:200]
        others = "for ordered levels use --model ordinal, for numbers svgp; for more classes, SVGPClassifier in Python"
        raise sheet.fault(f"two classes are needed; got {labels.size}: {shown}; {others}", None, label)
    return labels, y.reshape(-1).astype(np.int64)
