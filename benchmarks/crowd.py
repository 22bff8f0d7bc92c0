"""Consensus and personal predictions from many users' comparisons, side by side in one run.

For each task and model, mean over the splits: accuracy, log-loss (nats) and Kendall's tau-b of the consensus and of the
personal predictions, and CPU seconds of the fit.  One thread::

    python benchmarks/crowd.py --data ukpconvarg-unseen --folds 0,4,8,12
    python benchmarks/crowd.py --data llmfao --models ours,pooled,bt,noisy-bt,evalica,onehot --memory
    python benchmarks/crowd.py --speed

The protocols are those of `_crowd_data`; what a rival is stands in `_crowd_rivals`.  ``ours`` is ``fit_predict`` of
``_crowd_ours.py``; its parameters come from ``--ours``, a JSON object.  ``--memory`` fits every model once more, on the
first split, with `tracemalloc` on, which sees what numpy and Python allocate; tracing slows a fit, so its time is not
counted.  ``--speed`` is the speed and memory of ours at the sizes of issue 3, each in a process of its own.
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
import subprocess
import sys
import tracemalloc
from dataclasses import asdict
from pathlib import Path
from typing import Any

from _crowd_data import TASKS, CrowdFitPredict, CrowdSplit, CrowdTask, load, score
from _crowd_rivals import RIVALS, warm
from _rivals import NotApplicableError
from threadpoolctl import threadpool_limits

#: Functions of `_crowd_ours` by the name used on the command line.
OURS = {"ours": "fit_predict", "ours-kinds": "fit_predict_kinds"}

#: What is reported of each split in the table, in its order, and how.
CELLS = (
    ("consensus_accuracy", "acc", ".4f"),
    ("consensus_log_loss", "loss", ".4f"),
    ("consensus_tau", "tau", ".4f"),
    ("personal_accuracy", "p-acc", ".4f"),
    ("personal_log_loss", "p-loss", ".4f"),
    ("personal_log_loss_ties", "p-loss+t", ".4f"),
    ("personal_tau", "p-tau", ".4f"),
    ("cpu_seconds", "CPU s", ".2f"),
    ("peak_mb", "peak MB", ".0f"),
)


def model(name: str) -> CrowdFitPredict:
    """The function behind a name; ours is imported only when it is asked for."""
    if name in OURS:
        import _crowd_ours

        ours: CrowdFitPredict = getattr(_crowd_ours, OURS[name])
        return ours
    return RIVALS[name]


def run_split(name: str, task: CrowdTask, split: CrowdSplit, params: dict[str, Any]) -> dict[str, Any]:
    """Scores of one model on one split, as a row for the JSON file."""
    said = model(name)(task, split, params)
    row: dict[str, Any] = {"split": split.name, "cpu_seconds": said.cpu_seconds, "peak_mb": math.nan}
    for view, scores in score(split, said).items():
        row |= {f"{view}_{measure}": value for measure, value in asdict(scores).items()}
    return row | {"chosen": said.chosen}


def traced_peak(name: str, task: CrowdTask, params: dict[str, Any]) -> float:
    """Peak of what Python and numpy allocate while the first split is fitted and predicted, in MB."""
    tracemalloc.start()
    model(name)(task, task.splits[0], params)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return peak


def run_model(name: str, task: CrowdTask, params: dict[str, Any], *, memory: bool) -> list[dict[str, Any]]:
    """Rows of all splits that the model can do; none where it cannot do the first."""
    rows: list[dict[str, Any]] = []
    for split in task.splits:
        try:
            rows.append(run_split(name, task, split, params))
        except NotApplicableError as reason:
            print(f"# {task.name} {split.name}: {name} skipped: {reason}", file=sys.stderr, flush=True)
            if not rows:
                break
            continue
        print(f"# {task.name} {name} {split.name}: {rows[-1]['cpu_seconds']:.2f} s", file=sys.stderr, flush=True)
    if memory and rows:
        rows[0]["peak_mb"] = traced_peak(name, task, params)
    return rows


def mean_of(rows: list[dict[str, Any]], measure: str) -> float:
    """Mean over splits; nan when no split has the measure."""
    values = [row[measure] for row in rows if not math.isnan(row[measure])]
    return statistics.fmean(values) if values else math.nan


def table_line(task: str, name: str, rows: list[dict[str, Any]]) -> str:
    cells = [f"{task:17}", f"{name:11}", f"{len(rows):6d}"]
    for measure, _, form in CELLS:
        value = mean_of(rows, measure)
        cells.append(f"{'-' if math.isnan(value) else format(value, form):>8}")
    return " ".join(cells)


HEADER = f"{'data':17} {'model':11} {'splits':>6} " + " ".join(f"{title:>8}" for _, title, _ in CELLS)


def without_nan(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """NaN is no JSON: a measure that does not exist is null."""
    return [{key: None if isinstance(v, float) and math.isnan(v) else v for key, v in row.items()} for row in results]


def run_tables(options: argparse.Namespace) -> None:
    """Run the models, print the table, write the file."""
    results: list[dict[str, Any]] = []
    warm()
    if OURS.keys() & set(options.models):
        import _crowd_ours

        _crowd_ours.warm()
    print(HEADER, flush=True)
    for data in options.data:
        task = load(data, options.folds)
        for name in options.models:
            params = json.loads(options.ours) if name in OURS else {}
            rows = run_model(name, task, params, memory=options.memory)
            if not rows:
                continue
            print(table_line(data, name, rows), flush=True)
            results += [{"data": data, "model": name, **row} for row in rows]
            if options.out is not None:
                # After every model: a long run that is stopped keeps what it has.
                options.out.write_text(json.dumps(without_nan(results), indent=1) + "\n")


def run_speed(options: argparse.Namespace) -> None:
    """Each case of `_crowd_ours.SPEED` in a process of its own: the peak of a process never falls."""
    import _crowd_ours

    for case in options.cases or list(_crowd_ours.SPEED):
        command = [sys.executable, __file__, "--speed-case", case, "--ours", options.ours]
        subprocess.run(command, check=True)


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", default="ukpconvarg-unseen,ukpconvarg-random,llmfao", help=", ".join(TASKS))
    parser.add_argument("--folds", default=None, help="splits, e.g. 0,4,8,12; default: all")
    parser.add_argument("--models", default=",".join([*OURS, *RIVALS]))
    parser.add_argument("--ours", default="{}", help="JSON object of parameters of ours")
    parser.add_argument("--memory", action="store_true", help="trace the peak memory of one more fit of each model")
    parser.add_argument("--out", type=Path, default=None, help="JSON file of every split")
    parser.add_argument("--speed", action="store_true", help="speed and memory of ours instead")
    parser.add_argument("--cases", default=None, help="with --speed: which, comma-separated")
    parser.add_argument("--speed-case", default=None, help="one case of --speed, in this process")
    options = parser.parse_args(arguments)
    options.data, options.models = options.data.split(","), options.models.split(",")
    options.folds = None if options.folds is None else [int(f) for f in options.folds.split(",")]
    options.cases = None if options.cases is None else options.cases.split(",")
    known = {*OURS, *RIVALS}
    if unknown := [name for name in options.models if name not in known]:
        parser.error(f"--models: got {unknown}, wanted some of {sorted(known)}")
    if unknown := [name for name in options.data if name not in TASKS]:
        parser.error(f"--data: got {unknown}, wanted some of {sorted(TASKS)}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line asks; 0 when all went through."""
    options = parsed(arguments)
    with threadpool_limits(limits=1):
        if options.speed_case is not None:
            import _crowd_ours

            _crowd_ours.run_case(options.speed_case, json.loads(options.ours))
        elif options.speed:
            run_speed(options)
        else:
            run_tables(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
