"""The main job: hold-out, search, refit and evaluation, all of it tracked. The task knows the data."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats
from sklearn.base import clone

from skpref._estimator import digest
from skpref._version import __version__
from skpref.cli.files import naming
from skpref.cli.output import check_no_source
from skpref.cli.report import plain_settings, write_trials
from skpref.cli.tasks.base import Outcome, Rows, SearchResult, Task, fitted
from skpref.exceptions import DataError, TrackingWarning
from skpref.persistence import save_with_columns
from skpref.search import LogInteger, OptunaSearch
from skpref.search.default_spaces import Distributions, limits
from skpref.search.evaluation import records_of
from skpref.search.loop import Settings, require_optuna
from skpref.search.sampler import SurrogateSampler
from skpref.tracking.callback import TrackedRun, track

if TYPE_CHECKING:
    from skpref.cli.options import Tune
    from skpref.cli.tasks.figures import Figures


class Job:
    """The main job."""

    def __init__(self, task: Task, options: Tune) -> None:
        self.task, self.options = task, options
        # Split here, so that errors in the data are raised before anything is written.
        self.train, self.test = (task.rows.take(rows) for rows in task.hold_out(options.holdout, options.seed))

    def run(self, write: Callable[[Outcome], list[Path]]) -> tuple[Outcome, list[Path], TrackedRun | None]:
        """Search, refit and evaluate; write the files by a function; return the outcome, the files and the run."""
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
            files = write(outcome)
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
