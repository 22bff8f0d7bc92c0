"""Runs from the hooks of a fit: which tasks are runs, what is logged for each, and how it ends."""

from __future__ import annotations

import copy
import functools
import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from skpref._estimator import last_step
from skpref._events import Iteration
from skpref._text import error_line
from skpref.tracking import run_metadata
from skpref.tracking.client import hold_interrupts
from skpref.tracking.mlflow import Tracker
from skpref.tracking.model import example_rows, save_model
from skpref.tracking.outbox import unix_milliseconds
from skpref.tracking.policy import POLICY

TRIAL = "trial"  # task of a search that is a run, though not a fit
_FOLD = "candidate-split-evaluation"  # scikit-learn's name of a candidate's fit on a fold
_STEP = "fit-transform-"  # prefix of scikit-learn's names of steps before the last


@dataclass
class _OpenRun:
    """A run that this process has begun and not ended."""

    name: str
    is_outermost: bool
    example: Any = None
    status: str = "FINISHED"
    began: float = field(default_factory=time.perf_counter)
    cpu: float = field(default_factory=time.process_time)


def _harmless(method: Callable[..., Any]) -> Callable[..., None]:
    """Turn an error of a hook into one warning: it must not stop the fit."""

    @functools.wraps(method)
    def guarded(self: Recorder, *args: Any, **kwargs: Any) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - any error of tracking
            text = f"Tracking failed: {type(error).__name__}: {error_line(error)}. The fit continues."
            self.tracker.outbox.warn(text, text)

    return guarded


class Recorder:
    """Writes fits to MLflow."""

    def __init__(
        self,
        tracker: Tracker,
        parent: str | None,
        *,
        log_model: bool,
        plots: bool,
        registered_model_name: str | None,
        tags: Mapping[str, Any] | None,
    ) -> None:
        self.tracker = tracker
        self.log_model = log_model
        self.plots = plots
        self.registered_model_name = registered_model_name
        self.tags = dict(tags or {})
        self._parent = parent
        self._begun: set[str] = set()  # keys of runs, including those of other processes
        self._open: dict[str, _OpenRun] = {}
        self._early: dict[str, list[dict[str, Any]]] = {}  # notifications that came before their run began

    def __getstate__(self) -> dict[str, Any]:
        # Each process ends the runs that it began; other processes only know that they exist.
        return {**vars(self), "_open": {}, "_early": {}, "_begun": set(self._begun)}

    def __deepcopy__(self, memo: dict[int, Any]) -> Recorder:
        return self  # copies of an estimator share its recorder, as clones do

    # --------------------------------------------------------------------------------------------------------- hooks
    def setup(self, estimator: Any, context: Any) -> None:
        """Do nothing: runs begin with their tasks.

        Parameters
        ----------
        estimator, context : estimator, CallbackContext
            Of a fit.
        """

    @_harmless
    def teardown(self, estimator: Any, context: Any) -> None:  # noqa: ARG002 - scikit-learn's signature
        """End the runs that an exception left open.

        Parameters
        ----------
        estimator, context : estimator, CallbackContext
            Of a fit.
        """
        key = key_of(context)
        error = sys.exc_info()[1]
        for inner in [other for other in reversed(self._open) if other == key or other.startswith(key + ".")]:
            if error is not None:
                self.tracker.set_tags(inner, _error_tags(error))
            self._end(inner, "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
        if context.parent is None and any(_ran_elsewhere(task) for task in context):
            self.tracker.outbox.send("sweep", fit=key.partition(".")[0], status="FAILED")

    @_harmless
    def on_fit_task_begin(
        self, estimator: Any, context: Any, *, X: Any = None, y: Any = None, metadata: Any = None
    ) -> None:
        """Begin a run if the task is one.

        Parameters
        ----------
        estimator, context : estimator, CallbackContext
            Of the task.
        X, y, metadata : array-like, array-like, dict, default=None
            Its data.
        """
        key = key_of(context)
        if key in self._begun or not self._is_run(estimator, context):
            return
        is_outermost = context.parent is None
        early = self._early.pop(key, [])
        name = next((news["name"] for news in early if "name" in news), _name_of(estimator, context))
        tags = {"estimator": type(estimator).__name__}
        if is_outermost:
            tags |= {**run_metadata.versions(), **self.tags}
        parent = self._run_around(context) or self._parent or active_run(self.tracker)
        if is_outermost:
            self.tracker.outbox.reconnect(parent)
        self._begun.add(key)
        with hold_interrupts():  # a run that is open has begun, and is ended
            run = self._open[key] = _OpenRun(name, is_outermost)
            self.tracker.start(name, parent, tags, key)
        if context.task_name != TRIAL:
            self._log_input(key, estimator, X, y, metadata)
        for news in early:
            self._apply(key, news)
        run.began, run.cpu = time.perf_counter(), time.process_time()  # from here on it is the fit

    @_harmless
    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """End a run if the task is one.

        Parameters
        ----------
        estimator, context : estimator, CallbackContext
            Of the task.
        """
        key = key_of(context)
        if key not in self._open or not self._is_run(estimator, context):
            return
        if context.task_name != TRIAL:
            self._log_outcome(key, estimator, context)
        self._end(key, self._open[key].status)

    @_harmless
    def on_iteration(self, estimator: Any, context: Any, iteration: Iteration) -> None:  # noqa: ARG002 - the protocol
        """Put the objective into the buffer, which is sent from time to time.

        Parameters
        ----------
        estimator, context : estimator, CallbackContext
            Of the fit.
        iteration : Iteration
            The finished iteration.
        """
        key = key_of(context)
        if key in self._open and math.isfinite(iteration.bound):
            self.tracker.log_metrics(key, {"objective": iteration.bound}, iteration.step)

    @_harmless
    def on_notify(self, context: Any, **news: Any) -> None:
        """Log what a task reports by `skpref._callbacks.notify`.

        Parameters
        ----------
        context : CallbackContext
            Of the task.
        **news : dict of str to object
            name, params, metrics, tags, files, status, error.
        """
        key = key_of(context)
        if key in self._open:
            self._apply(key, news)
            if context.task_name == TRIAL:
                self._log_scores_of_trial(context, news.get("metrics") or {})
            elif news.get("status", "FINISHED") != "FINISHED":
                self._end(key, news["status"])
        elif key not in self._begun:
            self._early.setdefault(key, []).append(news)

    # ------------------------------------------------------------------------------------------------------- logging
    def _log_input(self, key: str, estimator: Any, X: Any, y: Any, metadata: Any) -> None:
        params = run_metadata.parameters(estimator)
        with suppress(ValueError, TypeError, IndexError):  # not a table: `fit` raises the error
            if X is not None:
                described, dataset = run_metadata.describe_data(X, y, metadata)
                if self._open[key].is_outermost and self.log_model:
                    self._open[key].example = example_rows(X)
                params |= described
                self.tracker.outbox.send("data", key, values=dataset)
        self.tracker.log_params(key, params)

    def _apply(self, key: str, news: Mapping[str, Any]) -> None:
        """Log a notification."""
        tracker = self.tracker
        tracker.log_params(key, news.get("params") or {})
        for name, value in (news.get("metrics") or {}).items():
            if np.ndim(value):
                tracker.log_curve(key, name, value)
            else:
                tracker.log_metrics(key, {name: value})
        tags = {**(news.get("tags") or {}), **(_error_tags(news["error"]) if "error" in news else {})}
        tracker.set_tags(key, tags)
        for name, file in (news.get("files") or {}).items():
            self._log_file(key, name, file)
        self._open[key].status = news.get("status", self._open[key].status)

    def _log_file(self, key: str, name: str, file: Any) -> None:
        if hasattr(file, "savefig"):
            self.tracker.log_figure(key, name, file)
        elif isinstance(file, Path):
            self.tracker.log_artifact(key, file)
        else:
            self.tracker.outbox.send_file(key, name, lambda path: path.write_text(str(file), "utf-8"))

    def _log_outcome(self, key: str, estimator: Any, context: Any) -> None:
        run = self._open[key]
        values, curves = run_metadata.outcome(estimator)
        values["fit_seconds"] = time.perf_counter() - run.began
        values["fit_cpu_seconds"] = time.process_time() - run.cpu
        values["process_peak_memory_mb"] = run_metadata.peak_memory()
        self.tracker.log_metrics(key, {name: value for name, value in values.items() if np.isfinite(value)})
        if curves:
            self.tracker.outbox.drop_points(key, "objective")  # the same curve in other units
        for name, curve in curves.items():
            self.tracker.log_curve(key, name, curve)
        if hasattr(estimator, "cv_results_"):
            self._log_search(key, estimator, context)
        if run.is_outermost and self.plots:
            self._log_plots(key, estimator)
        if run.is_outermost and self.log_model:
            self._log_model(key, estimator, run)

    def _log_search(self, key: str, search: Any, context: Any) -> None:
        self._log_file(key, "cv_results.csv", run_metadata.results_table(search))
        params, metrics = run_metadata.search_outcome(search)
        self.tracker.log_params(key, params)
        self.tracker.log_metrics(key, metrics)
        if any(task.task_name == TRIAL for task in context):
            return  # a search that reports its trials itself; its table has trials of earlier searches, too
        folds = _folds_in(context)
        n_folds = search.n_splits_ * len(search.cv_results_["params"])
        if len(folds) == n_folds <= POLICY.most_folds:
            tracked_elsewhere = hasattr(search.estimator, "set_callbacks")
            for task, scores in zip(folds, run_metadata.fold_scores(search), strict=True):
                self._log_scores(task, scores, tracked_elsewhere=tracked_elsewhere)

    def _log_scores_of_trial(self, trial: Any, metrics: Mapping[str, Any]) -> None:
        scores = {f"test_{name[5:]}": values for name, values in metrics.items() if name.startswith("fold_")}
        for split, task in enumerate(_folds_in(trial) if scores else []):
            of_fold = {name: values[split] for name, values in scores.items() if split < len(values)}
            finite = {name: score for name, score in of_fold.items() if np.isfinite(score)}
            self._log_scores(task, {**finite, "split": split})

    def _log_scores(self, task: Any, scores: Mapping[str, float], *, tracked_elsewhere: bool = True) -> None:
        """Log the scores of a fold whose run has ended, perhaps in another process."""
        key = key_of(task)
        if key in self._begun or (tracked_elsewhere and _ran_elsewhere(task)):
            points = [(name, float(score), unix_milliseconds(), 0) for name, score in scores.items()]
            self.tracker.outbox.send("scores", key, points=points)

    def _log_plots(self, key: str, estimator: Any) -> None:
        last = last_step(estimator)
        names = {"GPPLClassifier": ["ranking.png"], "CrowdGPPL": ["ranking.png", "annotators.png"]}
        for name in names.get(type(last).__name__, []):
            from skpref import plots

            display: Any = plots.RankingDisplay if name == "ranking.png" else plots.AnnotatorDisplay
            axes = plots.offscreen_axes()
            try:
                display.from_estimator(last, ax=axes)
            except Exception as error:  # noqa: BLE001 - the model is still to be logged
                self.tracker.outbox.warn(name, f"{name} is not tracked: {error_line(error)}. The fit continues.")
            else:
                self.tracker.log_figure(key, name, axes.figure)

    def _log_model(self, key: str, estimator: Any, run: _OpenRun) -> None:
        if hasattr(estimator, "cv_results_") and not hasattr(estimator, "best_estimator_"):
            return
        try:
            send_model(self.tracker, key, estimator, run.example, self.registered_model_name)
        except Exception as error:  # noqa: BLE001 - the fit has succeeded
            self.tracker.set_tags(key, {"model": f"not logged: {error}"})
            text = f"The model of {run.name} is not logged: {error_line(error)}."
            self.tracker.outbox.warn(text, text)

    def _end(self, key: str, status: str) -> None:
        self.tracker.end(key, status)
        del self._open[key]

    # --------------------------------------------------------------------------------------------------------- tasks
    def _is_run(self, estimator: Any, context: Any) -> bool:
        """Return whether a task is a run: fits and trials are, steps that only prepare data are not."""
        if context.task_name == TRIAL:
            return True
        if context.parent is not None and context.source_task_name is None:
            return False
        prepares = (context.source_task_name or "").startswith(_STEP)
        return not prepares or (is_ours(estimator) and hasattr(estimator, "max_iter"))

    def _run_around(self, context: Any) -> str | None:
        """Return the run of the nearest task around a task that is one."""
        task = context.parent
        while task is not None and key_of(task) not in self._begun:
            task = task.parent
        return None if task is None else key_of(task)


def send_model(tracker: Tracker, key: str, estimator: Any, example: Any, registered: str | None) -> None:
    """Log a fitted estimator with a run as a model that MLflow can serve."""
    with tracker.outbox.folder() as folder:
        save_model(copy.copy(estimator), folder / "model", example)
        tracker.log_model(key, folder / "model", "model", registered)


def active_run(tracker: Tracker) -> str | None:
    """Return the key of the run in the same store that the user began by MLflow itself."""
    if "mlflow" not in sys.modules:
        return None
    import mlflow

    active = mlflow.active_run()
    is_same_store = active is not None and mlflow.get_tracking_uri() == tracker.tracking_uri
    return tracker.outbox.client.adopt(active if is_same_store else None)


def key_of(context: Any) -> str:
    """Return the key of a task, the same in all processes: the outermost fit's key and the path to the task."""
    path = []
    task = context
    while task.parent is not None:
        path.append(str(task.task_id))
        task = task.parent
    return ".".join([task.root_uuid.hex, "0", *reversed(path)])


def is_ours(estimator: Any) -> bool:
    """Return whether an estimator belongs to this package."""
    return type(estimator).__module__.startswith("skpref.")


def _folds_in(context: Any) -> list[Any]:
    return [task for task in context if _FOLD in (task.task_name, task.source_task_name)]


def _ran_elsewhere(task: Any) -> bool:
    """Return whether the fit of a fold is missing from this process's tree of tasks."""
    return task.task_name == _FOLD and task.source_task_name is None


def _name_of(estimator: Any, context: Any) -> str:
    name = type(estimator).__name__
    if context.source_task_name == _FOLD:
        return f"{name} {_number_of(context)}"
    return f"{name} refit" if (context.source_task_name or "").startswith("refit") else name


def _number_of(fold: Any) -> int:
    """Return the number of a fold in its search or, where a trial has folds in several tasks, in its trial."""
    trial = fold.parent.parent
    if trial is None or trial.task_name != TRIAL:
        return int(fold.task_id)
    earlier = [task for task in trial if task.parent is trial and task.task_id < fold.parent.task_id]
    return int(fold.task_id) + sum(task.max_subtasks or 0 for task in earlier)


def _error_tags(error: BaseException) -> dict[str, str]:
    return {"error": f"{type(error).__name__}: {error_line(error)}"}
