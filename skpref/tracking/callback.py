"""Fits in MLflow: a callback for one estimator, `autolog` for all estimators, `track` for a block of a script."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from numpy.typing import ArrayLike

from skpref._callbacks import set_everywhere
from skpref.exceptions import DataError
from skpref.tracking.client import DEFAULT_ROOT, LOCK, mlflow_call
from skpref.tracking.mlflow import Tracker
from skpref.tracking.recorder import Recorder, active_run, is_ours, send_model
from skpref.tracking.run_metadata import describe_data

_SPOOL = DEFAULT_ROOT / "spool"
_CURRENT: ContextVar[TrackedRun | None] = ContextVar("skpref_run", default=None)


class MLflowCallback(Recorder):
    """Callback that tracks each fit as a run in MLflow; runs are nested like the fits.

    Set it on an estimator, or on the outermost search or pipeline: scikit-learn (from 1.9 on) passes it to the
    estimators inside. A run has the parameters, the curve of the bound or risk, time and memory, and the shape and
    SHA-256 of the data. An outermost run also has versions, the results of a search, figures of rankings, and the
    model. Folds of searches have their scores.

    Parameters
    ----------
    experiment : str, default=None
        Name of the experiment; created if it does not exist. None: inside `track`, that of the block; else what
        ``mlflow.set_experiment`` set, else the environment variable MLFLOW_EXPERIMENT_NAME, else "skpref".
    tracking_uri : str, default=None
        MLflow store. None: inside `track`, that of the block; else what ``mlflow.set_tracking_uri`` set, else the
        environment variable MLFLOW_TRACKING_URI, else ``sqlite:///mlruns/mlflow.db`` in the working folder.
    log_model : bool, default=True
        Whether to log the model of an outermost fit, ready to serve, as a file without code. It contains two rows of X
        as an example, and the data that the posterior contains.
    registered_model_name : str, default=None
        Name in the registry under which that model becomes a new version. None: it is not registered.
    plots : bool, default=True
        Whether to log the figures of an outermost fit: items with their utility, annotators with their reliability.
    tags : mapping of str, default=None
        Tags of outermost runs.
    spool : path-like, default="mlruns/spool"
        Folder for runs that cannot be sent. If the store fails, fits continue with one warning, and `sync` or
        ``skpref mlflow-sync`` sends the runs later.

    Attributes
    ----------
    tracker : Tracker
        Writes the runs.

    Raises
    ------
    MissingExtraError
        If mlflow is not installed.

    See Also
    --------
    autolog : For all estimators at once.
    track : A run around a block of a script.

    Notes
    -----
    MLflow is imported when the first run begins, which takes some seconds. Curves are sent when the fit ends. A fit
    that takes longer than ten seconds also sends ``objective`` while it runs, in the units in which the fit computes.
    `partial_fit` makes no run. Before scikit-learn 1.9, searches and pipelines do not pass callbacks on: `autolog` or
    `track` then give a run for every fit, none nested.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> from skpref.tracking import MLflowCallback
    >>> model = GPPLClassifier().set_callbacks(MLflowCallback("drinks"))  # doctest: +SKIP
    >>> model.fit([["tea", "coffee"], ["tea", "water"]], [1, 1])  # doctest: +SKIP
    """

    max_propagation_depth = None  # scikit-learn passes the callback on to any depth

    def __init__(
        self,
        experiment: str | None = None,
        tracking_uri: str | None = None,
        *,
        log_model: bool = True,
        registered_model_name: str | None = None,
        plots: bool = True,
        tags: Mapping[str, Any] | None = None,
        spool: str | os.PathLike[str] = _SPOOL,
    ) -> None:
        tracker, parent = _tracker(experiment, tracking_uri, spool)
        super().__init__(
            tracker, parent, log_model=log_model, plots=plots, registered_model_name=registered_model_name, tags=tags
        )


class _BlockRecorder(Recorder):
    """Records fits of and around our estimators that have no callback of their own."""

    def _is_run(self, estimator: Any, context: Any) -> bool:
        if not super()._is_run(estimator, context):
            return False
        if any(isinstance(callback, MLflowCallback) for callback in context._callbacks):  # noqa: SLF001
            return False  # the user's own callback comes first
        if context.parent is not None:
            return self._run_around(context) is not None
        parts = estimator.get_params(deep=True).values()
        return is_ours(estimator) or any(is_ours(part) for part in parts if hasattr(part, "get_params"))


def _forward_hook(hook: Callable[..., None]) -> Callable[..., None]:
    """Return a hook that calls the hook of the current recorder, if there is one."""

    @functools.wraps(hook)  # scikit-learn reads the names of its arguments
    def forward(self: _Everywhere, *args: Any, **kwargs: Any) -> None:
        if self.current is not None:
            hook(self.current, *args, **kwargs)

    return forward


class _Everywhere:
    """The callback of all estimators of the process; clones keep it, so that it must do nothing without a recorder.

    scikit-learn must not propagate it, since the inner estimators have it already: it has no `max_propagation_depth`.
    """

    current: _BlockRecorder | None = None
    setup = _forward_hook(Recorder.setup)
    teardown = _forward_hook(Recorder.teardown)
    on_fit_task_begin = _forward_hook(Recorder.on_fit_task_begin)
    on_fit_task_end = _forward_hook(Recorder.on_fit_task_end)
    on_iteration = _forward_hook(Recorder.on_iteration)
    on_notify = _forward_hook(Recorder.on_notify)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_everywhere, (os.getpid(), self.current)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Everywhere:
        return self


_EVERYWHERE = _Everywhere()


def _restore_everywhere(process: int, current: _BlockRecorder | None) -> _Everywhere:
    """Return this process's callback for a pickled `_Everywhere`; in a worker, the callback of its parent."""
    if process == os.getpid():
        return _EVERYWHERE
    copy = _Everywhere()
    copy.current = current if process == os.getppid() else None  # a model that was saved tracks nothing when loaded
    return copy


def _make_current(recorder: _BlockRecorder | None) -> _BlockRecorder | None:
    """Make a recorder the current one of all estimators, and return the one before."""
    before, _EVERYWHERE.current = _EVERYWHERE.current, recorder
    set_everywhere(None if recorder is None else [_EVERYWHERE])
    return before


def _tracker(
    experiment: str | None, tracking_uri: str | None, spool: str | os.PathLike[str]
) -> tuple[Tracker, str | None]:
    """Return a tracker and the key of the run in which it nests fits, from the block if there is one."""
    current = _CURRENT.get()
    if current is not None and experiment is None and tracking_uri is None:
        return current.tracker, current.key
    name = experiment or _experiment_of_user(tracking_uri) or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "skpref"
    return Tracker(name, tracking_uri, spool), None


def _experiment_of_user(tracking_uri: str | None) -> str | None:
    """Return the name of the experiment that the user chose in MLflow itself, in the same store."""
    number = os.environ.get("MLFLOW_EXPERIMENT_ID")  # `mlflow.set_experiment` sets it, too
    with suppress(Exception):  # of a store that is gone
        if number is not None:
            import mlflow

            with LOCK, mlflow_call():
                if tracking_uri in {None, mlflow.get_tracking_uri()}:
                    return str(mlflow.get_experiment(number).name)
    return None


def autolog(
    experiment: str | None = None,
    tracking_uri: str | None = None,
    *,
    log_model: bool = True,
    registered_model_name: str | None = None,
    plots: bool = True,
    tags: Mapping[str, Any] | None = None,
    spool: str | os.PathLike[str] = _SPOOL,
    disable: bool = False,
) -> None:
    """Write every fit of an estimator of this package to MLflow, and the searches and pipelines around it.

    Parameters
    ----------
    experiment : str, default=None
        Name of the experiment; created if it does not exist. None: what ``mlflow.set_experiment`` set, else the
        environment variable MLFLOW_EXPERIMENT_NAME, else "skpref".
    tracking_uri : str, default=None
        MLflow store. None: what ``mlflow.set_tracking_uri`` set, else the environment variable MLFLOW_TRACKING_URI,
        else ``sqlite:///mlruns/mlflow.db`` in the working folder.
    log_model : bool, default=True
        Whether to log the models of outermost fits.
    registered_model_name : str, default=None
        Name in the registry under which each of those models becomes a new version. None: they are not registered.
    plots : bool, default=True
        Whether to log the figures of outermost fits.
    tags : mapping of str, default=None
        Tags of outermost runs.
    spool : path-like, default="mlruns/spool"
        Folder for runs that cannot be sent.
    disable : bool, default=False
        Whether to switch the tracking off.

    See Also
    --------
    track : The same for a block, as one run.

    Notes
    -----
    All estimators that have no callback of their own get one: scikit-learn's mixin for callbacks gets a class
    attribute, and no method is replaced. An estimator with an `MLflowCallback` uses that one alone.

    Examples
    --------
    >>> from skpref.tracking import autolog
    >>> autolog("drinks")  # doctest: +SKIP
    >>> autolog(disable=True)
    """
    if disable:
        _make_current(None)
        return
    tracker, parent = _tracker(experiment, tracking_uri, spool)
    recorder = _BlockRecorder(
        tracker, parent, log_model=log_model, plots=plots, registered_model_name=registered_model_name, tags=tags
    )
    _make_current(recorder)


class TrackedRun:
    """A run that `track` began.

    Parameters
    ----------
    tracker : Tracker
        Writes the run.
    key : str
        Key of the run.
    """

    def __init__(self, tracker: Tracker, key: str) -> None:
        self.tracker = tracker
        self.key = key

    @property
    def run_id(self) -> str | None:
        """MLflow's id of the run; None if the store could not be reached."""
        return self.tracker.run_id(self.key)

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Log parameters.

        Parameters
        ----------
        params : mapping of str
            Values, written as text.
        """
        self.tracker.log_params(self.key, params)

    def log_input(self, X: Any, y: Any = None) -> None:
        """Log the shape, the columns and a digest of data as the input of the run, as MLflow shows it.

        Parameters
        ----------
        X : {array-like, CSR, DataFrame} of shape (n, n_columns)
            Rows.
        y : array-like of shape (n,), default=None
            Their answers.
        """
        self.tracker.outbox.send("data", self.key, values=describe_data(X, y, None)[1])

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0) -> None:
        """Log numbers, such as scores of a hold-out.

        Parameters
        ----------
        metrics : mapping of str to float
            Values. A value that is not finite is skipped, with one warning.
        step : int, default=0
            Step on the curve.
        """
        self.tracker.log_metrics(self.key, metrics, step)

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        """Set tags.

        Parameters
        ----------
        tags : mapping of str
            Values, written as text.
        """
        self.tracker.set_tags(self.key, tags)

    def log_artifact(self, path: str | os.PathLike[str]) -> None:
        """Store a copy of a file.

        Parameters
        ----------
        path : path-like
            The file.
        """
        self.tracker.log_artifact(self.key, path)

    def log_figure(self, name: str, figure: Any) -> None:
        """Store a figure.

        Parameters
        ----------
        name : str
            Name of the file, whose suffix chooses the format.
        figure : matplotlib Figure
            It is left open.
        """
        self.tracker.log_figure(self.key, name, figure)

    def log_model(
        self, estimator: Any, example: ArrayLike | None = None, *, registered_model_name: str | None = None
    ) -> None:
        """Log a model that is fitted already.

        Parameters
        ----------
        estimator : estimator
            As in `save_model`.
        example : {array-like, CSR, DataFrame} of shape (n, n_columns), default=None
            A few rows of the X of `fit`, as in `save_model`.
        registered_model_name : str, default=None
            Name in the registry under which it becomes a new version. None: it is not registered.
        """
        send_model(self.tracker, self.key, estimator, example, registered_model_name)


def log_model(estimator: Any, example: ArrayLike | None = None, *, registered_model_name: str | None = None) -> None:
    """Log a model that is fitted already with the run around the call, of `track` or of ``mlflow.start_run``.

    Parameters
    ----------
    estimator : estimator
        As in `save_model`.
    example : {array-like, CSR, DataFrame} of shape (n, n_columns), default=None
        A few rows of the X of `fit`, as in `save_model`.
    registered_model_name : str, default=None
        Name in the registry under which it becomes a new version. None: it is not registered.

    Raises
    ------
    DataError
        If there is no run, or the model cannot be saved.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> from skpref.tracking import log_model, track
    >>> model = GPPLClassifier().fit([["tea", "coffee"]], [1])
    >>> with track("two drinks", "drinks"):  # doctest: +SKIP
    ...     log_model(model, [["tea", "coffee"]])
    """
    run = _CURRENT.get()
    if run is None:
        tracker, _ = _tracker(None, None, _SPOOL)
        key = active_run(tracker)
        if key is None:
            raise DataError("log_model needs a run: call it in a block of track(...) or of mlflow.start_run()")
        run = TrackedRun(tracker, key)
    run.log_model(estimator, example, registered_model_name=registered_model_name)


@contextmanager
def track(
    name: str,
    experiment: str | None = None,
    tracking_uri: str | None = None,
    *,
    log_model: bool = True,
    registered_model_name: str | None = None,
    plots: bool = True,
    tags: Mapping[str, Any] | None = None,
    spool: str | os.PathLike[str] = _SPOOL,
) -> Iterator[TrackedRun]:
    """Begin a run; every fit of an estimator of this package in the block is written to MLflow, nested in the run.

    Parameters
    ----------
    name : str
        Name of the run.
    experiment : str, default=None
        Name of the experiment; created if it does not exist. None: that of the block around this one, else what
        ``mlflow.set_experiment`` set, else the environment variable MLFLOW_EXPERIMENT_NAME, else "skpref".
    tracking_uri : str, default=None
        MLflow store. None: that of the block around this one, else what ``mlflow.set_tracking_uri`` set, else the
        environment variable MLFLOW_TRACKING_URI, else ``sqlite:///mlruns/mlflow.db`` in the working folder.
    log_model : bool, default=True
        Whether to log the models of the block's outermost fits.
    registered_model_name : str, default=None
        Name in the registry under which each of those models becomes a new version. None: they are not registered.
    plots : bool, default=True
        Whether to log the figures of those fits.
    tags : mapping of str, default=None
        Tags of the run and of those fits.
    spool : path-like, default="mlruns/spool"
        Folder for runs that cannot be sent.

    Yields
    ------
    TrackedRun
        Logs figures and files of the script.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> from skpref.tracking import track
    >>> with track("two drinks", "drinks") as run:  # doctest: +SKIP
    ...     model = GPPLClassifier().fit([["tea", "coffee"]], [1])
    ...     run.log_metrics({"accuracy": model.score([["tea", "coffee"]], [1])})
    """
    tracker, parent = _tracker(experiment, tracking_uri, spool)
    tracker.outbox.reconnect(parent)
    run = TrackedRun(tracker, tracker.start(name, parent, tags))
    recorder = _BlockRecorder(
        tracker, run.key, log_model=log_model, plots=plots, registered_model_name=registered_model_name, tags=tags
    )
    before = _make_current(recorder)
    token = _CURRENT.set(run)
    status = "FINISHED"
    try:
        yield run
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code:  # sys.exit(0) is no failure
            status = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
            tracker.set_tags(run.key, {"error": f"{type(error).__name__}: {error}"})
        raise
    finally:
        _CURRENT.reset(token)
        _make_current(before)
        tracker.end(run.key, status)
