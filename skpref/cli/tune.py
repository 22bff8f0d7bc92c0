"""``skpref tune``, ``run``, ``demo`` and ``fit``: from the options to the files."""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skpref._estimator import last_step
from skpref._text import nearest
from skpref.cli.files import naming
from skpref.cli.job import Job
from skpref.cli.options import PAIRS, Demo, Fit, Tune, flag_of
from skpref.cli.output import check_file, check_folder, write_columns
from skpref.cli.report import print_json, report, say, summary, write_files
from skpref.cli.tasks import comparisons, rows
from skpref.datasets import make_arena
from skpref.exceptions import DataError, MissingExtraError, SkprefError
from skpref.persistence import save_with_columns

if TYPE_CHECKING:
    from skpref.cli.tasks.base import Outcome, Task
    from skpref.tracking.callback import TrackedRun

_BATTLES, _STYLE = 5_000, ("words_a-words_b",)  # of the demo
_FEW_POINTS = (("inducing", 150),)  # of 840 ways to travel
_EXTRAS = ("optuna", "matplotlib", "mlflow")
# Parameters of estimators that have an option of their own.
_OPTIONS = {name: flag_of(name) for name in ("items", "users", "levels", "time")}
_OPTIONS |= {"class_order": "--levels", "random_state": "--seed"}


def tune(options: Tune) -> int:
    """Learn from files."""
    _check_extras(mlflow=options.mlflow)
    task = read_task(options)
    new = check_folder(options.out)
    try:
        job = Job(task, options)
        say(options, task.headline)
        outcome, files, run = job.run(partial(_report, options))
    except BaseException:
        with suppress(OSError):
            if new:
                options.out.rmdir()  # if nothing is in it
        raise
    if options.json:
        print_json(summary(outcome, files))
    say(options, _last_lines(files, task, options.out, run))
    if outcome.result.interrupted:
        say(options, "Stopped early: the results are those of the finished trials.")
    return 0


def demo(options: Demo) -> int:
    """Learn from data that come with the package; battles are written to a file first, as users have them."""
    if options.dataset == "travellers":
        return tune(replace(options, settings=(*_FEW_POINTS, *(options.settings or ()))))
    _check_extras(mlflow=options.mlflow)
    check_folder(options.out)
    file = options.out / "battles.csv"
    write_columns(make_arena(n_battles=_BATTLES, random_state=0).battles, file)
    say(
        options,
        f"Simulated battles of language models whose judges like long answers: {file}\nThe same by hand: "
        f"skpref tune {file} --covariates {','.join(_STYLE)} --trials {options.trials}",
    )
    return tune(replace(options, data=file, covariates=_STYLE))


def read_task(options: Tune | Fit) -> Task:
    """Return the task of the model, with its data."""
    task = (comparisons if options.model in PAIRS else rows).read(options)
    _check_settings(task.estimator, dict(options.settings or ()))
    return task


def _report(options: Tune, outcome: Outcome) -> list[Path]:
    """Print the report, then write the files."""
    if not options.json:
        print("\n" + report(outcome), flush=True)
    return write_files(outcome, options.out, options.sources)


def _check_extras(*, mlflow: bool) -> None:
    """Raise before the work, not after it, where a package is missing."""
    wanted = [name for name in _EXTRAS if mlflow or name != "mlflow"]
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        less = "; --no-mlflow goes without mlflow" if "mlflow" in missing else ""
        raise MissingExtraError(f"this command needs {', '.join(missing)}: pip install 'skpref[demo]'{less}")


def _last_lines(files: list[Path], task: Task, out: Path, run: TrackedRun | None) -> str:
    shown = [f"\nWritten to {out}/: {', '.join(path.name for path in files)}"]
    shown.append(task.next_command.format(model=out / "model.skpref"))
    if run is not None:
        tracker = run.tracker
        kept = f"The runs could not be sent and are kept in {tracker.spool_file}"
        shown.append(f"Look at the runs: {tracker.how_to_look()}" if tracker.online else kept)
    return "\n".join(shown)


# ----------------------------------------------------------------------------------------------------------------- fit
def fit(options: Fit) -> int:
    """Fit a model with given settings, without a search."""
    check_file(options.out, *options.sources, regular=True)
    task = read_task(options)
    say(options, task.headline)
    params = dict(options.settings or ())
    if params.get("order_effect") and (options.ranking or options.item_ranks or options.item_ratings):
        raise DataError("--set order_effect: columns of rankings are no positions in which items were shown")
    try:
        model = task.final({}, params)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"stopped during the fit; {options.out} was not written") from stop
    except (ValueError, TypeError, ArithmeticError, MemoryError) as error:
        if isinstance(error, SkprefError):
            raise
        # A value that the estimator does not take, or cannot work with.
        raise DataError((str(error) or type(error).__name__).splitlines()[0]) from error
    replaced = ", in the place of the file that was there" if options.out.exists() else ""
    with naming(options.out):
        save_with_columns(model, options.out, task.columns)
    if options.json:
        print_json({**task.facts, "estimator": type(last_step(model)).__name__, "file": str(options.out)})
    if text := "\n\n".join(task.report.summary(model, options.seed)):
        say(options, text)
    say(options, f"Written to {options.out}{replaced}\n{task.next_command.format(model=options.out)}")
    return 0


def _check_settings(model: Any, params: dict[str, Any]) -> None:
    """Complain of parameters that do not exist, or that have an option of their own."""
    last, nested = last_step(model), model.get_params()
    names = list(last.get_params(deep=False))
    for name in params:
        if name in _OPTIONS:
            raise DataError(f"--set {name}: use {_OPTIONS[name]}")
        if name not in names and not ("__" in name and name in nested):
            what = f"a {type(last).__name__} has no such parameter{nearest(name, names) or ';'}"
            raise DataError(f"--set {name}: {what} there are {', '.join(names)}")
