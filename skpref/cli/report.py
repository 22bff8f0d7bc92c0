"""What every job leaves behind: the search and the figures on the screen, the trials in a file; and how tables look."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._text import printable
from skpref.cli.files import counted
from skpref.cli.output import check_no_source, write_columns, write_csv

if TYPE_CHECKING:
    from skpref.cli.tasks.base import Outcome, SearchResult
    from skpref.search.evaluation import TrialRecord

_LONGEST_ID = 40
# Figures by name, as in files and in MLflow: the title and the form in tables. Others are in no table.
SHOWN = {
    "rmse": ("RMSE", ".4f"),
    "mae": ("MAE", ".4f"),
    "nmae": ("NMAE", ".4f"),
    "accuracy": ("accuracy", ".3f"),
    "log_loss": ("log-loss", ".4f"),
    "ece": ("calibration error", ".3f"),
}


def report(outcome: Outcome) -> str:
    """Return what the command prints."""
    title = SHOWN[outcome.task.metric][0]
    parts = [_search_text(outcome.result, title), _figures_text(outcome)]
    return "\n\n".join([*parts, *outcome.task.report.sections(outcome)])


def _search_text(result: SearchResult, title: str) -> str:
    states = [trial.state for trial in result.trials]
    counts = ", ".join(
        f"{states.count(state)} {state}" for state in ("complete", "pruned", "failed") if state in states
    )
    best, seconds = result.best, sum(trial.seconds for trial in result.trials)
    stopped = " (stopped by the user)" if result.interrupted else ""
    lines = [
        f"Search{stopped}: {counted(len(states), 'trials')} in {seconds:.0f} s ({counts})",
        f"  best: trial {best.number}, cross-validated {title} {-best.score:.4f}",
        f"  {settings_text(best.settings)}",
    ]
    first_error = next((trial.error for trial in result.trials if trial.error), "")
    return "\n".join([*lines, f"  first failure: {first_error}"] if first_error else lines)


def plain_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings as they are shown: of columns by name, the names."""
    return {name: "+".join(value) if isinstance(value, dict) else value for name, value in settings.items()}


def settings_text(settings: dict[str, Any]) -> str:
    """Return settings on one line."""
    return ", ".join(
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in plain_settings(settings).items()
    )


def _figures_text(outcome: Outcome) -> str:
    sizes = f"{counted(outcome.n_test, outcome.task.noun)}, {outcome.n_train} to learn from"
    cells = {name: figures.cells() for name, figures in outcome.figures.items()}
    titles = list(next(iter(cells.values())))
    rows = [(name, *(row.get(title, "-") for title in titles)) for name, row in cells.items()]
    return "\n".join([f"Hold-out ({sizes}{outcome.task.split_note})", *table(("", *titles), rows)])


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return aligned lines."""
    cells = [tuple(map(printable, row)) for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    texts = {"", "item", "user", "feature", "settings"}  # columns that are aligned to the left
    aligned = []
    for row in cells:
        sized = zip(header, row, widths, strict=True)
        aligned.append([cell.ljust(width) if name in texts else cell.rjust(width) for name, cell, width in sized])
    return ["  " + "  ".join(row).rstrip() for row in aligned]


def titled_table(
    title: str, forms: Mapping[str, str], columns: Mapping[str, Any], rows: Iterable[int] | None = None
) -> str:
    """Return a title and a table of some rows; `forms` are the cells by title, with names or places of columns."""
    listed = {name: list(column) for name, column in columns.items()}
    numbers = range(len(next(iter(listed.values()), []))) if rows is None else rows
    cells = []
    for k in numbers:
        values = [column[k] for column in listed.values()]
        row = [value if isinstance(value, int | float | np.number) else cut(value) for value in values]
        named = dict(zip(listed, row, strict=True))
        cells.append([form.format(*row, **named) for form in forms.values()])
    return "\n".join([title, *table(list(forms), cells)])


def cut(name: Any) -> str:
    """Shorten an id; control characters are escaped."""
    text = printable(name)
    return text if len(text) <= _LONGEST_ID else text[: _LONGEST_ID - 3] + "..."


# --------------------------------------------------------------------------------------------------------------- files
def write_files(outcome: Outcome, out: Path, sources: Sequence[Path | None] = ()) -> list[Path]:
    """Write what the task has to write; model and trials were written before. Return all files."""
    files = outcome.task.report.files(outcome)
    for name, write in files.items():
        check_no_source(out / name, sources)
        write(out / name)
    return [out / name for name in ("model.skpref", "trials.csv", *files)]


def _row_of(trial: TrialRecord) -> dict[str, Any]:
    settings = plain_settings(trial.settings)
    facts = {"trial": trial.number, "state": trial.state, "score": -trial.score, "seconds": trial.seconds}
    return {**facts, "settings": settings}


def write_trials(trials: Sequence[TrialRecord], path: Path, metric: str) -> None:
    """Write trials as CSV, a column a setting."""
    names = list(dict.fromkeys(name for trial in trials for name in trial.settings))
    rows = []
    for t in trials:
        settings = plain_settings(t.settings)
        facts = (t.number, t.state, -t.score, t.n_folds, round(t.seconds, 3))
        rows.append([*facts, *(settings.get(name, "") for name in names), t.error])
    write_csv(path, ["trial", "state", metric, "folds", "seconds", *names, "error"], rows)


def say(options: Any, text: str) -> None:
    """Print for people; to the standard error where the output is for programs."""
    print(text, file=sys.stderr if options.json else sys.stdout, flush=True)


def deliver(options: Any, columns: Mapping[str, Any], text: str, top: int | None = None) -> int:
    """Print a table of columns as text, or as JSON up to some rows, and write it to a file if there is one."""
    if options.json:
        rows = zip(*(column[:top] for column in columns.values()), strict=True)
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print(text)
    if options.out is not None:
        write_columns(columns, options.out)
        say(options, f"\nWritten to {options.out}")
    return 0


def print_json(value: Any) -> None:
    """Print what a program can read; numbers that are not finite become null."""
    print(json.dumps(_plain(value), allow_nan=False, indent=1))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def summary(outcome: Outcome, files: Sequence[Path]) -> dict[str, Any]:
    """Return the report for programs."""
    result, task, best = outcome.result, outcome.task, _row_of(outcome.result.best)
    return {
        **task.facts,
        "metric": task.metric,
        "interrupted": result.interrupted,
        "best": {name: best[name] for name in ("trial", "score", "settings")},
        "trials": [_row_of(trial) for trial in result.trials],
        "holdout": {name: figures.values for name, figures in outcome.figures.items()},
        "n_train": outcome.n_train,
        "n_holdout": outcome.n_test,
        "files": [str(path) for path in files],
    }
