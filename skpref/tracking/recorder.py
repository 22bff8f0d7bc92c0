"""From the hooks of a fit to runs: which tasks are runs, what each has to tell, and how it ends."""

from __future__ import annotations

import copy
import functools
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.exceptions import SkprefError, TrackingWarning
from skpref.tracking import run_metadata as _facts
from skpref.tracking.client import first_line
from skpref.tracking.model import example_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skpref._events import Iteration
    from skpref.tracking.mlflow import Tracker

TRIAL = "trial"  # task of a search that is a run, though no fit
_EVALUATION = "candidate-split-evaluation"  # scikit-learn's name of a fold of a candidate
_STEP = "fit-transform-"  # scikit-learn's begin of the name of a step that is not the last
_LIVE_SECONDS = 10.0  # a curve on the screen is at most so old
_HELD_SECONDS = 1.0  # of a curve that are lost at most when the process is killed
_MOST_FOLDS = 2000  # whose scores are sent one by one


@dataclass
class _Open:
    """A run that has begun in this process."""

    name: str
    outermost: bool
    example: Any = None
    status: str = "FINISHED"
    began: float = field(default_factory=time.perf_counter)
    cpu: float = field(default_factory=time.process_time)
    sent: float = field(default_factory=time.monotonic)
    live: bool = False  # whether a part of the curve was sent
    held: float = field(default_factory=time.monotonic)
    n_held: int = 0  # points of the rest that are safe with the process that sends
    points: list[tuple[int, float, int]] = field(default_factory=list)


def _harmless(method: Callable[..., Any]) -> Callable[..., None]:
    """Let no fault of tracking cost a fit: one warning, and it goes on."""

    @functools.wraps(method)
    def guarded(self: Recorder, *args: Any, **kwargs: Any) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is, the fit is worth more
            self.warn(f"Tracking failed: {type(error).__name__}: {first_line(error)}. The fit goes on.")

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
        self._begun: set[str] = set()  # keys of runs, those of other processes too
        self._open: dict[str, _Open] = {}
        self._told: dict[str, list[dict[str, Any]]] = {}  # before the run began
        self._warned: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        # What began here is ended here: another process has only to know that it began.
        return {**vars(self), "_open": {}, "_told": {}, "_begun": set(self._begun), "_warned": set(self._warned)}

    def __deepcopy__(self, memo: dict[int, Any]) -> Recorder:
        return self  # one recorder for all copies of an estimator, as of its clones

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
        """End what an exception left open.

        Parameters
        ----------
        estimator, context : estimator, CallbackContext
            Of a fit.
        """
        key = key_of(context)
        error = sys.exc_info()[1]
        for inner in [one for one in reversed(self._open) if one == key or one.startswith(key + ".")]:
            if error is not None:
                self.tracker.set_tags(inner, _error_tags(error))
            self._end(inner, "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
        if context.parent is None and any(_ran_elsewhere(task) for task in context):
            self.tracker.sweep(key.partition(".")[0])
        if context.parent is None:
            self.tracker.settle()  # folds that failed ended after the search

    @_harmless
    def on_fit_task_begin(
        self, estimator: Any, context: Any, *, X: Any = None, y: Any = None, metadata: Any = None
    ) -> None:
        """Begin a run, if the task is one.

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
        outermost = context.parent is None
        parent = self._parent_of(context)
        told = self._told.pop(key, [])
        name = next((news["name"] for news in told if "name" in news), _name_of(estimator, context))
        tags = {"estimator": type(estimator).__name__, **({**_facts.versions(), **self.tags} if outermost else {})}
        if outermost:
            self.tracker.retry()
        self._begun.add(key)
        self.tracker.start(name, parent, tags, key)
        self._open[key] = _Open(name, outermost)
        if context.task_name != TRIAL:
            self._tell_what_is_given(key, estimator, X, y, metadata)
        for news in told:
            self._apply(key, news)
        run = self._open[key]
        run.began, run.cpu = time.perf_counter(), time.process_time()  # what came before is ours, not the fit's

    def _tell_what_is_given(self, key: str, estimator: Any, X: Any, y: Any, metadata: Any) -> None:
        params = _facts.parameters(estimator)
        with suppress(ValueError, TypeError, IndexError):  # of what is no table `fit` will say more
            if X is not None:
                described, dataset = _facts.describe_data(X, y, metadata)
                self._open[key].example = example_rows(X) if self._open[key].outermost and self.log_model else None
                params |= described
                self.tracker.log_data(key, dataset)
        self.tracker.log_params(key, params)

    @_harmless
    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """End a run, if the task is one.

        Parameters
        ----------
        estimator, context : estimator, CallbackContext
            Of the task.
        """
        key = key_of(context)
        if key not in self._open or not self._is_run(estimator, context):
            return
        run = self._open[key]
        if context.task_name != TRIAL:
            self._tell_outcome(key, estimator, context)
        self._end(key, run.status)

    @_harmless
    def on_iteration(self, estimator: Any, context: Any, iteration: Iteration) -> None:  # noqa: ARG002 - the protocol
        """Remember the objective, and send it from time to time.

        Parameters
        ----------
        estimator, context : estimator, CallbackContext
            Of the fit.
        iteration : Iteration
            What was done.
        """
        run = self._open.get(key_of(context))
        if run is None:
            return
        run.points.append((iteration.step, iteration.bound, int(time.time() * 1000)))
        now = time.monotonic()
        if now - run.sent > _LIVE_SECONDS:
            self._send_points(key_of(context))
        elif now - run.held > _HELD_SECONDS:
            self.tracker.hold(key_of(context), "objective", run.points[run.n_held :])
            run.held, run.n_held = now, len(run.points)

    def _send_points(self, key: str) -> None:
        run = self._open[key]
        self.tracker.log_points(key, "objective", run.points)
        self.tracker.flush(key)
        run.points, run.n_held, run.live, run.sent = [], 0, True, time.monotonic()

    @_harmless
    def on_notify(self, context: Any, **news: Any) -> None:
        """Take what a task tells by `skpref._callbacks.tell`.

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
                self._tell_folds(context, news.get("metrics") or {})
            failed = news.get("status", "FINISHED") != "FINISHED"
            if failed and context.task_name != TRIAL:
                self._end(key, news["status"])
        elif key not in self._begun:
            self._told.setdefault(key, []).append(news)

    # ------------------------------------------------------------------------------------------------------- telling
    def _apply(self, key: str, news: Mapping[str, Any]) -> None:
        tracker = self.tracker
        if news.get("params"):
            tracker.log_params(key, news["params"])
        for name, value in (news.get("metrics") or {}).items():
            if np.ndim(value):
                tracker.log_curve(key, name, value)
            else:
                tracker.log_metrics(key, {name: value})
        tags = {**(news.get("tags") or {}), **(_error_tags(news["error"]) if "error" in news else {})}
        if tags:
            tracker.set_tags(key, tags)
        for name, file in (news.get("files") or {}).items():
            self._keep_file(key, name, file)
        self._open[key].status = news.get("status", self._open[key].status)

    def _tell_folds(self, trial: Any, metrics: Mapping[str, Any]) -> None:
        """Give each fold of a trial its score."""
        scores = {f"test_{name[5:]}": values for name, values in metrics.items() if name.startswith("fold_")}
        folds = [task for task in trial if _EVALUATION in (task.task_name, task.source_task_name)] if scores else []
        for split, task in enumerate(folds):
            of_fold = {name: values[split] for name, values in scores.items() if split < len(values)}
            finite = {name: score for name, score in of_fold.items() if np.isfinite(score)}
            if key_of(task) in self._begun or _ran_elsewhere(task):
                self.tracker.log_scores(key_of(task), {**finite, "split": split})

    def _keep_file(self, key: str, name: str, file: Any) -> None:
        if hasattr(file, "savefig"):
            self.tracker.log_figure(key, name, file)
        elif isinstance(file, Path):
            self.tracker.log_artifact(key, file)
        else:
            self.tracker.log_text(key, name, str(file))

    def _tell_outcome(self, key: str, estimator: Any, context: Any) -> None:
        run = self._open[key]
        values, curves = _facts.outcome(estimator)
        values["fit_seconds"] = time.perf_counter() - run.began
        values["fit_cpu_seconds"] = time.process_time() - run.cpu
        values["process_peak_memory_mb"] = _facts.peak_memory()
        self.tracker.log_metrics(key, {name: value for name, value in values.items() if np.isfinite(value)})
        for name, curve in curves.items():
            self.tracker.log_curve(key, name, curve)
        if curves and not run.live:
            run.points = []  # the same, in the units of the fit
        if hasattr(estimator, "cv_results_"):
            self._tell_search(key, estimator, context)
        if run.outermost and self.plots:
            self._tell_plots(key, estimator)
        if run.outermost and self.log_model:
            self._tell_model(key, estimator, run)

    def _tell_search(self, key: str, search: Any, context: Any) -> None:
        results = {name: column for name, column in search.cv_results_.items() if name != "params"}
        lines = [",".join(results), *(",".join(map(_cell, row)) for row in zip(*results.values(), strict=True))]
        self.tracker.log_text(key, "cv_results.csv", "\n".join(lines) + "\n")
        if hasattr(search, "best_params_"):
            best = {f"best.{name}": value for name, value in search.best_params_.items()}
            self.tracker.log_params(key, best)
        if hasattr(search, "best_index_"):
            means = {name: column for name, column in results.items() if name.startswith("mean_test_")}
            best_means = {f"best.{name}": float(column[search.best_index_]) for name, column in means.items()}
            self.tracker.log_metrics(key, best_means)
        if any(task.task_name == TRIAL for task in context):
            return  # a search that tells by itself; its table has trials of earlier runs, too
        folds = [task for task in context if _EVALUATION in (task.task_name, task.source_task_name)]
        n_splits, n_candidates = search.n_splits_, len(search.cv_results_["params"])
        if len(folds) != n_splits * n_candidates or len(folds) > _MOST_FOLDS:
            return
        for number, task in enumerate(folds):
            candidate, split = divmod(number, n_splits)
            if key_of(task) in self._begun or (_ran_elsewhere(task) and hasattr(search.estimator, "set_callbacks")):
                prefix = f"split{split}_"
                scores = {
                    name.removeprefix(prefix): float(column[candidate])
                    for name, column in results.items()
                    if name.startswith(prefix)
                }
                finite = {name: score for name, score in scores.items() if np.isfinite(score)}
                self.tracker.log_scores(key_of(task), {**finite, "candidate": candidate, "split": split})

    def _tell_plots(self, key: str, estimator: Any) -> None:
        last = last_of(estimator)
        kinds = {"GPPLClassifier": ["ranking.png"], "CrowdGPPL": ["ranking.png", "annotators.png"]}
        if type(last).__name__ not in kinds:
            return
        from skpref import plots

        displays: dict[str, Any] = {"ranking.png": plots.RankingDisplay, "annotators.png": plots.AnnotatorDisplay}
        for name in kinds[type(last).__name__]:
            axes = plots.offscreen_axes()
            displays[name].from_estimator(last, ax=axes)
            self.tracker.log_figure(key, name, axes.figure)

    def _tell_model(self, key: str, estimator: Any, run: _Open) -> None:
        if hasattr(estimator, "cv_results_") and not hasattr(estimator, "best_estimator_"):
            return
        try:
            self.tracker.log_estimator(key, copy.copy(estimator), run.example, self.registered_model_name)
        except SkprefError as error:
            self.tracker.set_tags(key, {"model": f"not logged: {error}"})
            self.warn(f"The model of {run.name} is not logged: {first_line(error)}.")

    def _end(self, key: str, status: str) -> None:
        if self._open[key].points:
            self._send_points(key)
        self.tracker.end(key, status)
        del self._open[key]

    def warn(self, message: str) -> None:
        """Warn once.

        Parameters
        ----------
        message : str
            Of what.
        """
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, TrackingWarning, stacklevel=4)

    # ------------------------------------------------------------------------------------------------- which is which
    def _is_run(self, estimator: Any, context: Any) -> bool:
        """Whether a task is a run: fits are, and trials; steps that only prepare data are not."""
        if context.task_name == TRIAL:
            return True
        if context.parent is not None and context.source_task_name is None:
            return False
        prepares = (context.source_task_name or "").startswith(_STEP)
        return not prepares or (is_ours(estimator) and hasattr(estimator, "max_iter"))

    def _parent_of(self, context: Any) -> str | None:
        return self._run_around(context) or self._parent or self._active_run()

    def _run_around(self, context: Any) -> str | None:
        """The run of the nearest task around a task that is one."""
        task = context.parent
        while task is not None and key_of(task) not in self._begun:
            task = task.parent
        return None if task is None else key_of(task)

    def _active_run(self) -> str | None:
        """The run that the user began by MLflow itself, in the same store."""
        if "mlflow" not in sys.modules:
            return None
        import mlflow

        active = mlflow.active_run()
        if active is None or mlflow.get_tracking_uri() != self.tracker.tracking_uri:
            return None
        return self.tracker.adopt(active.info.run_id, active.info.experiment_id)


def key_of(context: Any) -> str:
    """Return the key of a task: that of the whole fit, and the way to the task; the same in all processes."""
    way = []
    task = context
    while task.parent is not None:
        way.append(str(task.task_id))
        task = task.parent
    return ".".join([task.root_uuid.hex, "0", *reversed(way)])


def last_of(estimator: Any) -> Any:
    """Return what predicts, of a search or a Pipeline."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


def is_ours(estimator: Any) -> bool:
    """Tell whether an estimator is of this package."""
    return type(estimator).__module__.startswith("skpref.")


def _ran_elsewhere(task: Any) -> bool:
    """Whether a fold's fit is not in this process's tree of tasks."""
    return task.task_name == _EVALUATION and task.source_task_name is None


def _name_of(estimator: Any, context: Any) -> str:
    name = type(estimator).__name__
    if context.source_task_name == _EVALUATION:
        return f"{name} {_number_of(context)}"
    return f"{name} refit" if (context.source_task_name or "").startswith("refit") else name


def _number_of(fold: Any) -> int:
    """Of a fold in its search or, where a trial has them in several tasks, in its trial."""
    trial = fold.parent.parent
    if trial is None or trial.task_name != TRIAL:
        return int(fold.task_id)
    earlier = [task for task in trial if task.parent is trial and task.task_id < fold.parent.task_id]
    return int(fold.task_id) + sum(task.max_subtasks or 0 for task in earlier)


def _error_tags(error: BaseException) -> dict[str, str]:
    return {"error": f"{type(error).__name__}: {first_line(error)}"}  # type: ignore[arg-type]  # KeyboardInterrupt, too


def _cell(value: Any) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return '"' + text.replace('"', '""') + '"' if "," in text else text
