"""Accuracy of pairwise preference models on real data, side by side in one run.

For each task: accuracy, log-loss (nats), Kendall's tau-b and CPU seconds of the fit,
mean over the splits.  One thread::

    python benchmarks/pairwise.py --data ukpconvarg-unseen --folds 0,4,8,12
    python benchmarks/pairwise.py --data all --models logistic,onehot --out rivals.json

The protocols are those of `_data`; what a rival is and how it chooses its
hyper-parameters stands in `_rivals`.  ``ours`` is ``fit_predict`` of ``_ours.py``; its
parameters come from ``--ours``, a JSON object.  A rival that cannot do a task (an
unseen item has no one-hot column) is skipped with its reason.  CPU seconds count the
whole fit, choice of hyper-parameters included, on `time.process_time`, which counts
the threads together: pools are held to one thread before numpy starts.
"""

from __future__ import annotations

import os

# Read by the pools when they are loaded, hence before the first import of numpy.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import json
import math
import statistics
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from _data import TASKS, FitPredict, Split, Task, load, score
from _rivals import RIVALS, NotApplicableError
from threadpoolctl import threadpool_limits

#: What is reported of each split, in the order of the table.
MEASURES = ("accuracy", "log_loss", "tau", "cpu_seconds", "peak_mb")


def model(name: str) -> FitPredict:
    """The function behind a name; ours is imported only when it is asked for."""
    if name == "ours":
        import _ours

        ours: FitPredict = _ours.fit_predict
        return ours
    return RIVALS[name]


def run_split(name: str, task: Task, split: Split, params: dict[str, Any]) -> dict[str, Any]:
    """Scores of one model on one split, as a row for the JSON file."""
    prediction = model(name)(task, split, params)
    measured = asdict(score(split, prediction))
    return {"split": split.name, **measured, "chosen": prediction.chosen}


def run_model(name: str, task: Task, params: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of all splits that the model can do."""
    rows: list[dict[str, Any]] = []
    for split in task.splits:
        try:
            rows.append(run_split(name, task, split, params))
        except NotApplicableError as reason:
            print(f"# {task.name} {split.name}: {name} skipped: {reason}", file=sys.stderr)
            if not rows:
                break
    return rows


def mean_of(rows: list[dict[str, Any]], measure: str) -> float:
    """Mean over splits; nan when no split has the measure."""
    values = [row[measure] for row in rows if not math.isnan(row[measure])]
    return statistics.fmean(values) if values else math.nan


def cell(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def table_line(task: str, name: str, rows: list[dict[str, Any]]) -> str:
    accuracy, log_loss, tau, seconds, peak = (mean_of(rows, m) for m in MEASURES)
    cells = (
        f"{task:18}",
        f"{name:9}",
        f"{len(rows):6d}",
        f"{cell(accuracy, '.4f'):>8}",
        f"{cell(log_loss, '.4f'):>8}",
        f"{cell(tau, '.4f'):>7}",
        f"{cell(seconds, '.2f'):>8}",
        f"{cell(peak, '.0f'):>7}",
    )
    return "  ".join(cells)


HEADER = (
    f"{'data':18}  {'model':9}  {'splits':>6}  {'accuracy':>8}  {'log-loss':>8}  "
    f"{'tau':>7}  {'CPU s':>8}  {'peak MB':>7}"
)


def without_nan(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """NaN is no JSON: a measure that does not exist is null."""
    return [{key: None if isinstance(v, float) and math.isnan(v) else v for key, v in row.items()} for row in results]


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", default="all", help=f"comma-separated, or all: {', '.join(TASKS)}")
    parser.add_argument("--folds", default=None, help="splits, e.g. 0,4,8,12; default: all")
    parser.add_argument("--models", default="ours,logistic,onehot,choix,lightgbm")
    parser.add_argument("--ours", default="{}", help="JSON object of parameters of ours")
    parser.add_argument("--out", type=Path, default=None, help="JSON file of every split")
    options = parser.parse_args(arguments)
    options.data = list(TASKS) if options.data == "all" else options.data.split(",")
    options.models = options.models.split(",")
    options.folds = None if options.folds is None else [int(f) for f in options.folds.split(",")]
    known = {"ours", *RIVALS}
    if unknown := [name for name in options.models if name not in known]:
        parser.error(f"--models: got {unknown}, wanted some of {sorted(known)}")
    if unknown := [name for name in options.data if name not in TASKS]:
        parser.error(f"--data: got {unknown}, wanted some of {sorted(TASKS)}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the models, print the table, write the file; 0 when all went through."""
    options = parsed(arguments)
    results: list[dict[str, Any]] = []
    print(HEADER)
    with threadpool_limits(limits=1):
        for data in options.data:
            task = load(data, options.folds)
            for name in options.models:
                params = json.loads(options.ours) if name == "ours" else {}
                rows = run_model(name, task, params)
                if not rows:
                    continue
                print(table_line(data, name, rows), flush=True)
                results += [{"data": data, "model": name, **row} for row in rows]
                if options.out is not None:
                    # After every model: a long run that is stopped keeps what it has.
                    options.out.write_text(json.dumps(without_nan(results), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
