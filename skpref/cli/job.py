"""The main job: hold-out, search, refit, evaluation and files, all of it tracked. The task knows the data."""

from __future__ import annotations

import copy
import itertools
import signal
import sys
import threading
import warnings
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from skpref._estimator import digest
from skpref._version import __version__
from skpref.cli.advice import advising_by_options
from skpref.cli.files import say_note
from skpref.cli.report import plain_settings, write_noted, write_trials
from skpref.cli.space import narrowed
from skpref.cli.tasks.base import Outcome, Rows, SearchResult, fitted
from skpref.exceptions import DataError, TrackingWarning
from skpref.search import OptunaSearch
from skpref.search.default_spaces import Distributions, limits
from skpref.search.evaluation import PARTS, record_of
from skpref.search.loop import open_study, quietly, require_optuna
from skpref.search.pruner import RacingPruner
from skpref.search.sampler import SurrogateSampler
from skpref.search.sharing import has_ended, readable, reason
from skpref.tracking.recorder import log_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from skpref.cli.options import Tune
    from skpref.cli.progress import Bar
    from skpref.cli.tasks.base import Task
    from skpref.cli.tasks.figures import Figures
    from skpref.search.loop import TrialRecord
    from skpref.tracking.mlflow import Tracker

_NUMBER = "skpref:number"  # attribute of a stored trial: its number in the search


class Job:
    """The main job."""

    def __init__(self, task: Task, options: Tune, tracker: Tracker | None, bar: Bar) -> None:
        self.task, self.options = task, options
        self._tracking = Tracking(tracker, task)
        # Split here, so that errors in the data are raised before anything is written.
        self._parts = [task.rows.take(rows) for rows in task.hold_out(options.holdout, options.seed)]
        self.search = Search(task, options, self._tracking, bar)

    def run(self, write: Callable[[Outcome], list[Path]]) -> tuple[Outcome, list[Path]]:
        """Search, refit and evaluate; write the files by a function; return the outcome and the files."""
        result: SearchResult | None = None
        self._tracking.start(self.options)
        try:
            result = self.search.run(self._parts[0])
            outcome = self._finish(result)
            self._tracking.log_outcome(outcome)
            files = write(outcome)
            self._tracking.log_files(files, outcome)
        except BaseException as error:
            self._tracking.end("KILLED" if isinstance(error, KeyboardInterrupt | SystemExit) else "FAILED")
            if isinstance(error, KeyboardInterrupt) and result is not None and result.has_complete:
                n, where = len(result.trials), self.options.out / "trials.csv"
                trials = "the one finished trial is" if n == 1 else f"the {n} finished trials are"
                again = f"The same command {self.options.again}"
                raise KeyboardInterrupt(f"stopped after the search; {trials} in {where}. {again}") from error
            raise
        self._tracking.end("FINISHED")
        return outcome, files

    def _finish(self, result: SearchResult) -> Outcome:
        """Evaluate the best settings on the hold-out, and fit the final model."""
        options, task, (train, test) = self.options, self.task, self._parts
        trials = partial(write_trials, result.trials, metric=task.metric)  # before what may be interrupted
        write_noted(options.out / "trials.csv", trials, options.sources)
        if result.interrupted and not result.has_complete:
            raise KeyboardInterrupt("stopped before the first trial was finished, so there is nothing to report")
        best, default = result.best, result.trials[0]
        _say("refitting without the hold-out")
        figures = {"tuned": self._evaluate(best.settings, train, test)}
        if default.state == "complete" and best is not default:
            figures["default settings"] = self._evaluate(default.settings, train, test)
        for name, settings in task.variants(best.settings).items():
            figures[name] = self._evaluate(settings, train, test)
        figures |= task.report.baselines(train, test)
        _say(f"fitting the final model with all {task.noun}")
        with advising_by_options(task.build(best.settings), "skpref fit "):
            model = task.final(best.settings)
            try:
                findings = task.report.findings(model, options.seed)
            except Exception as error:  # noqa: BLE001 - the report says it; the model is there
                findings = error
        return Outcome(task, train.size, test.size, result, figures, model, findings)

    def _evaluate(self, settings: dict[str, Any], train: Rows, test: Rows) -> Figures:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the final fit says the same again
            model = fitted(self.task.build(settings), train)
        return self.task.report.figures(model, test)


class Search:
    """The trials of a job: in memory, after the trials of earlier runs.

    So sampler and pruner see the same trials as in a search that was never stopped, and trials that a killed process
    left unfinished are not among them.
    """

    def __init__(self, task: Task, options: Tune, tracking: Tracking, bar: Bar) -> None:
        self.task, self.options = task, options
        self._tracking, self._bar = tracking, bar
        self._space, self._start = narrowed(task.space, task.estimator.get_params(), options.space)
        self._listen: Callable[[], object] = lambda: None
        self._trace: tuple[float, ...] = ()  # objective of the first fold's fit
        self._number = self._step = 0  # of the running trial, and what it last reported
        self._storage = Storage(options, self.study_name)

    def study_name(self) -> str:
        """Return a name that changes with everything that trials depend on."""
        options, task = self.options, self.task
        facts = (
            *(__version__, require_optuna().__version__, task.digest, options.model, task.options),
            *(options.folds or task.n_folds, options.seed, options.holdout),
            {name: repr(limits(values) or values) for name, values in self._space.items()},
            {name: self._start[name] for name in self._space},
            len(Distributions(self._space).points(options.trials)),
        )
        return f"skpref-{digest(facts)[:16]}"

    def run(self, train: Rows) -> SearchResult:
        """Run the trials that are not kept from an earlier run."""
        options, kept = self.options, self._storage.trials()
        storage = require_optuna().storages.InMemoryStorage()
        study = open_study("trials", storage=storage, direction="maximize")
        if kept:
            _say(f"resuming from {len(kept)} finished trial{'' if len(kept) == 1 else 's'}")
            self._bar.resume(len(kept))
            study.add_trials(kept)
        for trial in kept:
            self._report(self._record(trial, trial.number))
        self._number = len(kept)
        self._bar.step(self._number, 0, 1)
        interrupted = False
        try:
            if len(kept) < options.trials:
                self._run_trials(train, storage)
        except KeyboardInterrupt:
            interrupted = True
        except DataError:
            if not any(map(has_ended, study.get_trials(deepcopy=False))):
                raise
        finally:
            self._bar.close()
            self._tracking.close_trial("KILLED")
        trials = list(filter(has_ended, study.get_trials(deepcopy=False)))
        return SearchResult([self._record(trial, number) for number, trial in enumerate(trials)], interrupted)

    def _run_trials(self, train: Rows, storage: Any) -> None:
        options, task = self.options, self.task
        search = OptunaSearch(
            clone(task.estimator).set_params(**{name: self._start[name] for name in self._space}),
            self._space,
            n_trials=options.trials,
            timeout=options.timeout,
            scoring=self._score,
            cv=task.folds(train, options.folds or task.n_folds, options.seed),
            refit=False,
            sampler=SurrogateSampler(options.seed),
            pruner=_Pruner(self._on_step),
            storage=storage,
            study_name="trials",
            callbacks=[self._on_trial],
        )
        with _interruptible() as self._listen, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a trial may well stop early or see few items; the final fit warns
            warnings.simplefilter("default", TrackingWarning)
            search.fit(train.X, train.y, sample_weight=train.weight)

    def _score(self, model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the negative loss of a fitted estimator on held-out rows."""
        self._tracking.open_trial(self._number)
        if self._step < PARTS:
            with suppress(AttributeError):  # inside its fit, an estimator has no trace yet
                self._trace = self.task.trace(model)
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        return -self.task.loss(model, Rows(X, y, weight))

    def _on_step(self, trial: Any) -> None:
        """Show that a fold was scored, or a part of the first one."""
        self._listen()
        self._step = trial.last_step
        self._bar.step(trial.number, self._step / PARTS, self.options.folds or self.task.n_folds)

    def _on_trial(self, study: Any, trial: Any) -> None:
        """Store a trial that ended, and show it."""
        del study
        self._storage.add(trial)
        self._report(self._record(trial, trial.number), self._trace)
        self._trace, self._step, self._number = (), 0, trial.number + 1
        self._listen()

    def _record(self, trial: Any, number: int) -> TrialRecord:
        """Return a trial with its settings, of which the study has places in lists where values are no primitives."""
        record, fixed = record_of(trial, number), require_optuna().trial.FixedTrial(trial.params)
        return replace(record, settings=Distributions(self._space).suggest(fixed) if trial.params else {})

    def _report(self, record: TrialRecord, trace: tuple[float, ...] = ()) -> None:
        self._bar.trial(record)
        self._tracking.log_trial(record, trace)


class Storage:
    """The study that outlives the process, if there is one."""

    def __init__(self, options: Tune, name: Callable[[], str]) -> None:
        self._options = options
        self._study: Any = None
        if options.storage is not None:
            self._study = open_study(name(), storage=options.storage, direction="maximize")

    def trials(self) -> list[Any]:
        """Return the trials of earlier runs, from the first one on without a gap.

        Two commands that ran at the same time have both written a trial of a number; the later one counts.
        """
        if self._study is None:
            return []
        with quietly(), readable(self._options.storage, "cannot be read", "name another by --storage", every=True):
            trials = self._study.get_trials(deepcopy=False)
        by_number = {trial.user_attrs.get(_NUMBER): trial for trial in trials}
        return list(itertools.takewhile(bool, map(by_number.get, range(self._options.trials))))

    def add(self, trial: Any) -> None:
        """Write a trial that ended."""
        if self._study is None:
            return
        entry = copy.copy(trial)
        entry.user_attrs = {**trial.user_attrs, _NUMBER: trial.number}
        try:
            with quietly():
                self._study.add_trial(entry)
        except Exception as error:  # noqa: BLE001 - databases have their own; none is worth a search
            self._study = None
            note = f"trials can no longer be stored; a search that is killed will not resume from here: {reason(error)}"
            say_note(note)


class _Pruner(RacingPruner):
    """The racing pruner, with a look at every step."""

    def __init__(self, on_step: Callable[[Any], None]) -> None:
        super().__init__(PARTS)
        self._on_step = on_step

    def prune(self, study: Any, trial: Any) -> bool:
        """Return whether to prune a trial."""
        self._on_step(trial)
        return super().prune(study, trial)


class Tracking:
    """The runs of a job in MLflow: a parent, and a run for each trial; nothing without a tracker.

    Scores have the names that `OptunaSearch` gives them, too: the larger the better.
    """

    def __init__(self, tracker: Tracker | None, task: Task) -> None:
        self._tracker: Any = tracker or _Silent()
        self._task = task
        self._parent = self._trial = ""

    def start(self, options: Tune) -> None:
        """Start the parent."""
        if not isinstance(self._tracker, _Silent):
            _say("opening the MLflow store")
        self._parent = self._tracker.start("tune")
        if not isinstance(self._tracker, _Silent):
            source, sha256 = str(self._task.source), self._task.digest
            dataset = {"name": source, "digest": sha256[:32], "source_type": "local", "source": source}
            self._tracker.outbox.send("data", self._parent, values=dataset)
        self._tracker.log_params(self._parent, self._task.facts)
        # Without the storage: an address may hold a password.
        names = ("model", "trials", "timeout", "out", "seed", "folds", "holdout", "space")
        values = {name: getattr(options, name) for name in names} | self._task.options
        self._tracker.log_params(self._parent, {f"job.{name}": value for name, value in values.items()})

    def open_trial(self, number: int) -> None:
        """Start the run of a trial, if it has none."""
        self._trial = self._trial or self._tracker.start(f"trial {number}", self._parent)

    def log_trial(self, record: TrialRecord, trace: tuple[float, ...]) -> None:
        """Log a trial that ended."""
        self.open_trial(record.number)
        metric, run = self._task.metric, self._trial
        self._tracker.log_params(run, plain_settings(record.settings))
        self._tracker.set_tags(run, {"state": record.state} | ({"error": record.error} if record.error else {}))
        self._tracker.log_curve(run, f"fold_{metric}", record.scores)
        self._tracker.log_curve(run, "fold_score", [-score for score in record.scores])
        self._tracker.log_curve(run, self._task.objective, trace)
        if record.scores:
            self._tracker.log_metrics(run, {f"cv_{metric}": record.score, "seconds": record.seconds})
        if record.state == "complete":
            self._tracker.log_metrics(run, {"mean_test_score": -record.score})
            self._tracker.log_metrics(self._parent, {f"cv_{metric}": record.score}, record.number)
        self.close_trial("FAILED" if record.state == "failed" else "FINISHED")

    def close_trial(self, status: str) -> None:
        """End the run of a trial, if one is open."""
        if self._trial:
            self._tracker.end(self._trial, status)
        self._trial = ""

    def log_outcome(self, outcome: Outcome) -> None:
        """Log the best settings, the final fit and the hold-out."""
        best, task, settings = outcome.result.best, self._task, plain_settings(outcome.result.best.settings)
        self._tracker.log_params(self._parent, {f"best.{name}": value for name, value in settings.items()})
        self._tracker.log_metrics(self._parent, {"best.mean_test_score": -best.score})
        self._tracker.log_curve(self._parent, task.objective, task.trace(outcome.model))
        for name, figures in outcome.figures.items():
            prefix = f"holdout.{name.replace(' ', '_')}."
            self._tracker.log_metrics(self._parent, {prefix + key: value for key, value in figures.values.items()})
        self._tracker.set_tags(self._parent, {"interrupted": outcome.result.interrupted, "best_trial": best.number})

    def log_files(self, files: list[Path], outcome: Outcome) -> None:
        """Log the files of the results, and the model as MLflow serves it."""
        for path in files:
            self._tracker.log_artifact(self._parent, path)
        if not isinstance(self._tracker, _Silent):
            log_model(self._tracker, self._parent, outcome.model, self._task.example(), "skpref tune")

    def end(self, status: str) -> None:
        """End the parent."""
        self._tracker.end(self._parent, status)


class _Silent:
    """A tracker that logs nothing."""

    def __getattr__(self, name: str) -> Callable[..., str]:
        return lambda *_: ""


@contextmanager
def _interruptible() -> Iterator[Callable[[], object]]:
    """Yield what raises a Ctrl-C that was swallowed: compiled code, such as SciPy's of Sobol numbers, may do so."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    asked: list[int] = []

    def stop(number: int, _: object) -> None:
        asked.append(number)
        raise KeyboardInterrupt

    def listen() -> None:
        if asked:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    try:
        yield listen
    finally:
        signal.signal(signal.SIGINT, before)


def _say(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)
