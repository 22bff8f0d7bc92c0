"""Fits in MLflow: a callback for one estimator, `autolog` for all of them, `track` for a block of a script."""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skpref._callbacks import set_everywhere
from skpref.tracking.mlflow import Tracker
from skpref.tracking.recorder import Recorder, is_ours

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skpref._events import Iteration

__all__ = ["MLflowCallback", "TrackedRun", "autolog", "track"]

_SPOOL = Path("mlruns") / "spool"
_CURRENT: ContextVar[TrackedRun | None] = ContextVar("skpref_run", default=None)


class MLflowCallback(Recorder):
    """Writes each fit to MLflow as a run, nested as the fits are nested.

    Set it on an estimator, or on the outermost search or pipeline around one: scikit-learn (from 1.9 on) hands it on.
    A run has the parameters, the curve of the bound or risk, time and memory, and the shape and SHA-256 of the data; an
    outermost one also versions, a search's scores, figures of rankings, and the model. Folds of searches have their
    scores. Nothing of MLflow or scikit-learn is patched.

    Parameters
    ----------
    experiment : str, default=None
        Name of the experiment, made when it does not exist. None: the environment variable MLFLOW_EXPERIMENT_NAME, else
        "skpref"; inside `track`, that of the block.
    tracking_uri : str, default=None
        MLflow store. None: inside `track`, that of the block; else what ``mlflow.set_tracking_uri`` set, else the
        environment variable MLFLOW_TRACKING_URI, else ``sqlite:///mlruns/mlflow.db`` in the working folder.
    log_model : bool, default=True
        Whether the model of an outermost fit is kept, in our format of data, ready to serve. It holds two rows of X
        as an example, and whatever of the data its posterior holds.
    registered_model_name : str, default=None
        Name in the registry under which that model becomes a new version. None: it is not registered.
    plots : bool, default=True
        Whether the outermost fit's figures are kept: items with their utility, annotators with their reliability.
    tags : mapping of str, default=None
        Tags of outermost runs.
    spool : path-like, default="mlruns/spool"
        Folder for what cannot be sent. A store that fails costs one warning, never a fit; `sync` or
        ``skpref mlflow-sync`` sends it later.

    Attributes
    ----------
    tracker : Tracker
        Which sends.

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
    `partial_fit` makes no run. Curves are sent when the fit ends; one that takes longer than ten seconds can be watched
    meanwhile as ``objective``, in the units in which the fit computes. Before scikit-learn 1.9,
    searches and pipelines do not hand callbacks on: `autolog` or `track` then give a run for every fit, none nested.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> from skpref.tracking import MLflowCallback
    >>> model = GPPLClassifier().set_callbacks(MLflowCallback("drinks"))  # doctest: +SKIP
    >>> model.fit([["tea", "coffee"], ["tea", "water"]], [1, 1])  # doctest: +SKIP
    """

    max_propagation_depth = None  # by which scikit-learn knows that it is to be handed on, however deep

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


class _Block(Recorder):
    """Writes what is fitted while it is current: what holds an estimator of ours, and has no callback of its own."""

    def _is_run(self, estimator: Any, context: Any) -> bool:
        if not super()._is_run(estimator, context):
            return False
        if any(isinstance(callback, MLflowCallback) for callback in context._callbacks):  # noqa: SLF001
            return False  # whoever set one by hand wants that one
        if context.parent is None:
            return _holds_ours(estimator)
        return self._run_around(context) is not None


class _Everywhere:
    """On all estimators of the process, and forever on clones made meanwhile; it hands on to whoever is current.

    scikit-learn does not hand it on, since everybody has it: it does not say how deep.
    """

    current: _Block | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _everywhere, (os.getpid(), self.current)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Everywhere:
        return self

    def setup(self, estimator: Any, context: Any) -> None:
        pass

    def teardown(self, estimator: Any, context: Any) -> None:
        if self.current is not None:
            self.current.teardown(estimator, context)

    def on_fit_task_begin(
        self, estimator: Any, context: Any, *, X: Any = None, y: Any = None, metadata: Any = None
    ) -> None:
        if self.current is not None:
            self.current.on_fit_task_begin(estimator, context, X=X, y=y, metadata=metadata)

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        if self.current is not None:
            self.current.on_fit_task_end(estimator, context)

    def on_iteration(self, estimator: Any, context: Any, iteration: Iteration) -> None:
        if self.current is not None:
            self.current.on_iteration(estimator, context, iteration)

    def on_notify(self, context: Any, **news: Any) -> None:
        if self.current is not None:
            self.current.on_notify(context, **news)


_EVERYWHERE = _Everywhere()


def _everywhere(process: int, current: _Block | None) -> _Everywhere:
    """What a pickled one stands for: this process's own; in a worker, that of the process it works for."""
    if process == os.getpid():
        return _EVERYWHERE
    other = _Everywhere()
    other.current = current if process == os.getppid() else None  # a model that was kept tracks nothing by itself
    return other


def _make_current(block: _Block | None) -> _Block | None:
    """Return who was current before."""
    before, _EVERYWHERE.current = _EVERYWHERE.current, block
    set_everywhere(None if block is None else [_EVERYWHERE])
    return before


def _holds_ours(estimator: Any) -> bool:
    parts = estimator.get_params(deep=True).values()
    return is_ours(estimator) or any(is_ours(part) for part in parts if hasattr(part, "get_params"))


def _tracker(
    experiment: str | None, tracking_uri: str | None, spool: str | os.PathLike[str]
) -> tuple[Tracker, str | None]:
    current = _CURRENT.get()
    if current is not None and experiment is None and tracking_uri is None:
        return current.tracker, current.key
    name = experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "skpref"
    tracker = Tracker(name, tracking_uri, spool)
    tracker.prepare()  # while the script goes on to its data
    return tracker, None


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
    experiment, tracking_uri, log_model, registered_model_name, plots, tags, spool : object
        As for `MLflowCallback`.
    disable : bool, default=False
        Stop it.

    See Also
    --------
    track : The same for a block, as one run.

    Notes
    -----
    It is a callback that all estimators have which have none of their own: scikit-learn's mixin for callbacks gets a
    class attribute, and no method is replaced. An estimator with an `MLflowCallback` goes by that one alone.

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
    options = {"log_model": log_model, "plots": plots, "registered_model_name": registered_model_name, "tags": tags}
    _make_current(_Block(tracker, parent, **options))  # type: ignore[arg-type]  # one dict for several types


class TrackedRun:
    """A run that `track` began.

    Parameters
    ----------
    tracker : Tracker
        Which sends.
    key : str
        Of the run.
    """

    def __init__(self, tracker: Tracker, key: str) -> None:
        self.tracker = tracker
        self.key = key

    @property
    def run_id(self) -> str | None:
        """MLflow's id of the run; None while the store cannot be reached."""
        return self.tracker.run_id(self.key)

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Log parameters.

        Parameters
        ----------
        params : mapping of str
            Values, written as text.
        """
        self.tracker.log_params(self.key, params)

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0) -> None:
        """Log numbers, such as scores of a hold-out.

        Parameters
        ----------
        metrics : mapping of str to float
            Values. One that is not finite is left out, with one warning.
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
        """Keep a copy of a file.

        Parameters
        ----------
        path : path-like
            The file.
        """
        self.tracker.log_artifact(self.key, path)

    def log_figure(self, name: str, figure: Any) -> None:
        """Keep a figure.

        Parameters
        ----------
        name : str
            Name of the file, by which its format is chosen.
        figure : matplotlib Figure
            It is left open.
        """
        self.tracker.log_figure(self.key, name, figure)


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
    """Begin a run; what is fitted in the block is written to MLflow, nested in it.

    Parameters
    ----------
    name : str
        Name of the run.
    experiment, tracking_uri, log_model, registered_model_name, plots, tags, spool : object
        As for `MLflowCallback`. A block inside another one nests in it, if it names neither experiment nor store.

    Yields
    ------
    TrackedRun
        For what only the script knows: scores of a hold-out, settings, files.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> from skpref.tracking import track
    >>> with track("drinks") as run:  # doctest: +SKIP
    ...     model = GPPLClassifier().fit([["tea", "coffee"], ["tea", "water"]], [1, 1])
    ...     run.log_metrics({"accuracy": model.score([["tea", "water"]], [1])})
    """
    tracker, parent = _tracker(experiment, tracking_uri, spool)
    run = TrackedRun(tracker, tracker.start(name, parent, tags))
    options = {"log_model": log_model, "plots": plots, "registered_model_name": registered_model_name, "tags": tags}
    before = _make_current(_Block(tracker, run.key, **options))  # type: ignore[arg-type]
    token = _CURRENT.set(run)
    status = "FINISHED"
    try:
        yield run
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code:  # a script may end by sys.exit(0)
            status = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
            tracker.set_tags(run.key, {"error": f"{type(error).__name__}: {error}"})
        raise
    finally:
        _CURRENT.reset(token)
        _make_current(before)
        tracker.end(run.key, status)
