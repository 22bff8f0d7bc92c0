"""``skpref tune``, ``run``, ``demo`` and ``fit``: from the options to the files, by a search or a single fit."""

from __future__ import annotations

import importlib.util
import math
import sys
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone

from skpref._estimator import digest, last_step
from skpref._text import nearest
from skpref._version import __version__
from skpref.cli.files import naming
from skpref.cli.options import PAIRS, Demo, Fit, Tune, flag_of
from skpref.cli.output import check_file, check_folder, check_no_source, write_columns
from skpref.cli.report import plain_settings, print_json, report, say, summary, write_files, write_trials
from skpref.cli.tasks import comparisons, rows
from skpref.cli.tasks.base import Outcome, Rows, SearchResult, Task, fitted
from skpref.cli.tasks.figures import Figures
from skpref.datasets import make_arena
from skpref.exceptions import DataError, MissingExtraError, SkprefError, TrackingWarning
from skpref.persistence import save_with_columns
from skpref.search import LogInteger, OptunaSearch
from skpref.search.default_spaces import Distributions, limits
from skpref.search.evaluation import records_of
from skpref.search.loop import Settings, require_optuna
from skpref.search.sampler import SurrogateSampler
from skpref.tracking.callback import TrackedRun, track

_BATTLES, _STYLE = 5_000, ("words_a-words_b",)  # of the demo
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
        outcome, files, run = job.run()
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
        return tune(replace(options, settings=(("inducing", 150), *(options.settings or ()))))  # of 840 ways to travel
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


# ----------------------------------------------------------------------------------------------------------------- job
class Job:
    """The main job."""

    def __init__(self, task: Task, options: Tune) -> None:
        self.task, self.options = task, options
        # Split here, so that errors in the data are raised before anything is written.
        self.train, self.test = (task.rows.take(rows) for rows in task.hold_out(options.holdout, options.seed))

    def run(self) -> tuple[Outcome, list[Path], TrackedRun | None]:
        """Search, refit and evaluate, print the report and write the files; return outcome, files and tracked run."""
        options, task = self.options, self.task
        tracked: AbstractContextManager[TrackedRun | None] = nullcontext()
        if options.mlflow:
            _say("opening the MLflow store")
            tracked = track("tune", options.experiment, log_model=False, spool=options.out / "spool")
        with tracked as run:
            if run is not None:  # without the storage: an address may hold a password
                names = ("model", "trials", "timeout", "out", "seed", "folds", "holdout", "settings")
                run.log_params(task.facts | {f"job.{name}": getattr(options, name) for name in names})
                run.log_input(task.rows.X, task.rows.y)
            outcome = self._finish(self.search())
            if not options.json:
                print("\n" + report(outcome), flush=True)
            files = write_files(outcome, options.out, options.sources)
            if run is not None:
                _log(run, outcome, files)
        return outcome, files, run

    def search(self) -> SearchResult:
        """Run the trials that a storage does not have from an earlier run."""
        options, task, train = self.options, self.task, self.train
        space, start = narrowed(task.space, task.estimator.get_params(), task.named(options.settings))
        n_folds = options.folds or task.n_folds
        search = OptunaSearch(
            clone(task.estimator).set_params(**{name: start[name] for name in space}),
            space,
            n_trials=options.trials,
            timeout=options.timeout,
            scoring=self._score,
            cv=task.folds(train, n_folds, options.seed),
            refit=False,
            sampler=SurrogateSampler(options.seed),
            storage=options.storage,
            study_name=self.study_name(space, start),
            verbose=1,
        )
        interrupted = False
        with redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a trial may well stop early or see few items; the final fit warns
            warnings.simplefilter("default", TrackingWarning)
            try:
                search.fit(train.X, train.y, sample_weight=train.weight)
            except KeyboardInterrupt:
                interrupted = True
            except DataError as error:
                raise DataError(str(error).partition("; error_score=")[0]) from error
        study = getattr(search, "study_", None)
        trials = [] if study is None else records_of(study, Distributions(space), search.n_splits_)
        return SearchResult(trials, interrupted)

    def study_name(self, space: dict[str, Any], start: dict[str, Any]) -> str:
        """Return a name that changes with everything that trials depend on."""
        options, task = self.options, self.task
        facts = (
            *(__version__, require_optuna().__version__, task.digest, options.model),
            *(options.folds or task.n_folds, options.seed, options.holdout),
            {name: repr(limits(values) or values) for name, values in space.items()},
            {name: start[name] for name in space},
        )
        return f"skpref-{digest(facts)[:16]}"

    def _score(self, model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the negative loss of a fitted estimator on held-out rows."""
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        return -self.task.loss(model, Rows(X, y, weight))

    def _finish(self, result: SearchResult) -> Outcome:
        """Evaluate the best settings on the hold-out, and fit the final model."""
        options, task, train, test = self.options, self.task, self.train, self.test
        if result.interrupted and all(trial.state != "complete" for trial in result.trials):
            raise KeyboardInterrupt("stopped before the first trial was finished, so there is nothing to report")
        check_no_source(options.out / "trials.csv", options.sources)
        write_trials(result.trials, options.out / "trials.csv", task.metric)  # before what may be interrupted
        best, default = result.best, result.trials[0]
        _say("refitting without the hold-out")
        figures = {"tuned": self._evaluate(best.settings)}
        if default.state == "complete" and best is not default:
            figures["default settings"] = self._evaluate(default.settings)
        for name, settings in task.variants(best.settings).items():
            figures[name] = self._evaluate(settings)
        figures |= task.report.baselines(train, test)
        _say(f"fitting the final model with all {task.noun}")
        model, path = task.final(best.settings), options.out / "model.skpref"
        check_no_source(path, options.sources)
        with naming(path):  # first: what is said about it must not cost the model
            save_with_columns(model, path, task.columns)
        found = task.report.findings(model, options.seed)
        return Outcome(task, train.size, test.size, result, figures, model, found)

    def _evaluate(self, settings: dict[str, Any]) -> Figures:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the final fit says the same again
            model = fitted(self.task.build(settings), self.train)
        return self.task.report.figures(model, self.test)


def _log(run: TrackedRun, outcome: Outcome, files: list[Path]) -> None:
    """Log the best settings, the hold-out, the files, and the model as MLflow serves it."""
    best = outcome.result.best
    run.log_params({f"best.{name}": value for name, value in plain_settings(best.settings).items()})
    for name, figures in outcome.figures.items():
        prefix = f"holdout.{name.replace(' ', '_')}."
        run.log_metrics({prefix + key: value for key, value in figures.values.items()})
    run.set_tags({"interrupted": outcome.result.interrupted, "best_trial": best.number})
    for path in files:
        run.log_artifact(path)
    run.log_model(outcome.model, outcome.task.example())


def _say(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)


# --------------------------------------------------------------------------------------------------------------- space
def narrowed(space: Settings, params: Settings, chosen: Mapping[str, Any]) -> tuple[Settings, Settings]:
    """Return a space in which some settings are chosen by the user, and parameters to start from that are in it."""
    space, params = dict(space), dict(params)
    for name, wanted in chosen.items():
        values = space[name] = _distribution(name, space.get(name, [params.get(name)]), wanted)
        if isinstance(values, list) and params.get(name) not in values:
            params[name] = values[0]
    return space, params


def _distribution(name: str, own: Any, wanted: Any) -> Any:
    """Return a list, or a range; `own` is the space of the setting by default, or a list of its default."""
    if not isinstance(wanted, Mapping) and wanted != []:
        return [_value(own, value) for value in (wanted if isinstance(wanted, list) else [wanted])]
    given: Any = wanted or {}
    low, high, log = given.get("low"), given.get("high"), given.get("log")
    kind = (limits(own) or ("int" if isinstance(low, int) and isinstance(high, int) else "float",))[0]
    log, whole = kind.startswith("log") if log is None else log, kind.endswith("int")
    types = (int,) if whole else (int, float)
    if not all(type(end) in types and math.isfinite(end) for end in (low, high)) or low >= high or (log and low <= 0):
        what = "whole numbers" if whole else "numbers"
        form = f"a value, a list of them, or {{ low = A, high = B, log = true }} of {what}"
        raise DataError(f"[space] {name} must be {form}; got {wanted!r}")
    if whole:
        return LogInteger(low, high) if log else stats.randint(low, high + 1)
    return stats.loguniform(low, high) if log else stats.uniform(low, high - low)


def _value(own: Any, value: Any) -> Any:
    """Return a value; false is None, which TOML does not have, and true the first other one, unless they are listed."""
    if not isinstance(value, bool) or not isinstance(own, list) or any(isinstance(listed, bool) for listed in own):
        return value
    return next((listed for listed in own if listed is not None), value) if value else None


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
