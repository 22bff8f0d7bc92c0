"""The main job: hold-out, search, refit, evaluation and files, all of it tracked; what the data are, the task knows."""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import skpref
from skpref.cli._report import write_trials
from skpref.cli._task import Outcome
from skpref.search import SearchResult, search
from skpref.search._log import StudyLog, study_name
from skpref.search._narrowed import NarrowedSpace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from skpref.cli._progress import Bar
    from skpref.cli._task import Figures, Options, Task
    from skpref.search import Rows, TrialRecord
    from skpref.tracking.mlflow import Tracker


class Job:
    """The main job."""

    def __init__(self, task: Task, options: Options, tracker: Tracker | None, bar: Bar) -> None:
        self.task = task
        self.options = options
        self._tracker = tracker
        self._bar = bar
        self._parent = ""
        self._open_trial = ""
        self._n_kept = 0
        self._listen: Callable[[], None] = _nothing
        space = task.space()
        self._space = NarrowedSpace(space, options.space) if options.space else space
        # Now, as complaints come before anything is written.
        self._parts = [task.data.take(rows) for rows in task.data.split(options.holdout, options.seed)]
        self._name = None
        if options.storage is not None:
            self._name = self._study_name()
            StudyLog(options.storage, self._name)

    def run(self, write: Callable[[Outcome], list[Path]]) -> tuple[Outcome, list[Path]]:
        """Do it."""
        self._start_tracking()
        try:
            outcome = self._run()
            self._track_outcome(outcome)
            files = write(outcome)
            self._track_files(files)
        except BaseException as error:
            self._end_tracking("KILLED" if isinstance(error, KeyboardInterrupt | SystemExit) else "FAILED")
            if isinstance(error, KeyboardInterrupt) and self._n_kept:
                trials = "the one finished trial is" if self._n_kept == 1 else f"the {self._n_kept} finished trials are"
                where = self.options.out / "trials.csv"
                again = f"The same command {self.options.again}"
                raise KeyboardInterrupt(f"stopped after the search; {trials} in {where}. {again}") from error
            raise
        self._end_tracking("FINISHED")
        return outcome, files

    def _study_name(self) -> str:
        """The name under which trials of the same data, space and seed are found again."""
        options, task = self.options, self.task
        points = self._space.points(options.trials) if hasattr(self._space, "points") else []
        facts = {
            "skpref": skpref.__version__,
            "data": task.describe()["data.sha256"],
            "model": options.model,
            "options": task.options(),
            "folds": options.folds or task.n_folds,
            **{name: getattr(options, name) for name in ("seed", "holdout")},
        }
        return study_name(self._space, points or [self._space.default()], facts)

    def _run(self) -> Outcome:
        options, task, metric = self.options, self.task, self.task.data.metric
        train, test = self._parts
        result = self._search(train)
        write_trials(result.trials, options.out / "trials.csv", metric.name)  # now: what follows may be interrupted
        if result.interrupted and not any(trial.state == "complete" for trial in result.trials):
            raise KeyboardInterrupt("stopped before the first trial was finished, so there is nothing to report")
        self._n_kept = len(result.trials)
        best, default = result.best, result.trials[0]
        self._say("refitting without the hold-out")
        figures = {"tuned": self._evaluate(best.settings, train, test)}
        if default.state == "complete" and best is not default:
            figures["default settings"] = self._evaluate(default.settings, train, test)
        figures |= task.baselines(train, test)
        self._say(f"fitting the final model with all {task.noun}")
        model = task.final(best.settings)
        findings = task.findings(model, options.seed)
        return Outcome(task, train.size, test.size, result, figures, model, findings)

    def _search(self, train: Rows) -> SearchResult:
        options = self.options
        try:
            with _heard() as self._listen:
                return search(
                    train,
                    self.task.build,
                    self._space,
                    n_trials=options.trials,
                    timeout=options.timeout,
                    n_folds=options.folds or self.task.n_folds,
                    seed=options.seed,
                    journal=options.storage or options.out / "study.journal",
                    study_name=self._name,
                    on_fold=self._on_step,
                    on_trial=self._on_trial,
                    on_resume=self._on_resume,
                )
        finally:
            self._bar.close()
            self._close_trial()

    def _evaluate(self, settings: dict[str, Any], train: Rows, test: Rows) -> Figures:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the final fit says the same again
            model = train.fit(self.task.build(settings))
        return self.task.figures(model, test)

    @staticmethod
    def _say(text: str) -> None:
        print(f"{text} ...", file=sys.stderr, flush=True)

    # ------------------------------------------------------------------------------------------------------ tracking
    def _start_tracking(self) -> None:
        if self._tracker is None:
            return
        self._say("opening the MLflow store")
        self._parent = self._tracker.start("tune")
        self._tracker.log_params(self._parent, self.task.describe())
        known = vars(self.options) | self.task.options()
        del known["storage"]  # an address may hold a password
        options = {f"job.{name}": value for name, value in known.items()}
        self._tracker.log_params(self._parent, options)

    def _on_resume(self, n_trials: int) -> None:
        n = min(n_trials, self.options.trials)
        self._say(f"going on from {n} finished trial{'' if n == 1 else 's'}")
        self._bar.resume(n)

    def _on_step(self, trial: int, done: int, n_steps: int) -> None:
        self._listen()
        self._bar.step(trial, done, n_steps)
        if self._tracker is not None and not self._open_trial:
            self._open_trial = self._tracker.start(f"trial {trial}", self._parent)

    def _on_trial(self, record: TrialRecord) -> None:
        self._bar.trial(record)
        if self._tracker is None:
            return
        run = self._open_trial or self._tracker.start(f"trial {record.number}", self._parent)
        self._open_trial = ""
        metric = self.task.data.metric.name
        self._tracker.log_params(run, record.settings)
        self._tracker.set_tags(run, {"state": record.state} | ({"error": record.error} if record.error else {}))
        self._tracker.log_curve(run, f"fold_{metric}", record.scores)
        self._tracker.log_curve(run, self.task.data.objective, record.bounds)
        if record.scores:
            self._tracker.log_metrics(run, {f"cv_{metric}": record.score, "seconds": record.seconds})
        self._tracker.end(run, "FAILED" if record.state == "failed" else "FINISHED")
        if record.state == "complete":
            self._tracker.log_metrics(self._parent, {f"cv_{metric}": record.score}, record.number)

    def _close_trial(self) -> None:
        """End the run of a trial that was interrupted."""
        if self._tracker is not None and self._open_trial:
            self._tracker.end(self._open_trial, "KILLED")
        self._open_trial = ""

    def _track_outcome(self, outcome: Outcome) -> None:
        if self._tracker is None:
            return
        best = outcome.result.best
        self._tracker.log_params(self._parent, {f"best.{name}": value for name, value in best.settings.items()})
        data = self.task.data
        self._tracker.log_curve(self._parent, data.objective, data.trace(outcome.model))
        for name, figures in outcome.figures.items():
            self._tracker.log_metrics(self._parent, figures.metrics(f"holdout.{name.replace(' ', '_')}."))
        self._tracker.set_tags(self._parent, {"interrupted": outcome.result.interrupted, "best_trial": best.number})

    def _track_files(self, files: list[Path]) -> None:
        if self._tracker is not None:
            for path in files:
                self._tracker.log_artifact(self._parent, path)

    def _end_tracking(self, status: str) -> None:
        if self._tracker is not None:
            self._tracker.end(self._parent, status)


@contextmanager
def _heard() -> Iterator[Callable[[], None]]:
    """Give what raises a Ctrl-C that nobody heard: compiled code, such as SciPy's of Sobol numbers, may swallow it."""
    known = signal.getsignal(signal.SIGINT)
    if known is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield _nothing
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
        signal.signal(signal.SIGINT, known)


def _nothing() -> None:
    """Nobody can stop this."""
