"""MLflow adapter: runs, parameters, curves and files go to an MLflow store; what cannot be sent is kept on disk.

A tracker must never cost a fit. What it is told goes to a process beside this one, which sends it; whoever ends an
outermost run waits until all has arrived. Whatever goes wrong with the store (no server, a
server that goes away, a locked database, no right to write) gives one `TrackingWarning`; from then on every event is
written to a spool file, a line of JSON each, which `sync` sends later.
"""

from __future__ import annotations

import atexit
import importlib.util
import math
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import uuid
import warnings
import weakref
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skpref.exceptions import MissingExtraError, TrackingWarning
from skpref.tracking import spool as _spool
from skpref.tracking import worker_process as _beside
from skpref.tracking.client import LOCK, Store, absolute, first_line, without_password

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from skpref._events import Iteration, OnIteration

__all__ = ["DEFAULT_URI", "Tracker"]

DEFAULT_URI = "sqlite:///mlruns/mlflow.db"
DEFAULT_ROOT = Path("mlruns")
_BATCH = 1000  # metrics a call: MLflow's limit
_PARAM_BATCH = 100  # parameters or tags a call: MLflow's limit
_MAX_VALUE = 5000  # characters of a tag: MLflow's limit (a parameter may have 6000)
_MAX_KEY = 250  # characters of a name: MLflow's limit
_UNFIT = re.compile(r"[^\w\-./: ]")  # characters that MLflow refuses in names
_FLUSH_SECONDS = 10.0  # a curve on the screen is at most so old
_RETRY_SECONDS = 300.0  # before a store that failed is asked again: one that never answers takes 20 s to say so
_LIVE: dict[str, Tracker] = {}  # so that copies of a tracker in one process are one tracker
_ALL: weakref.WeakSet[Tracker] = weakref.WeakSet()


class Tracker:
    """Sends what happens to MLflow.

    A tracker may be used by several threads, and be pickled: its copies in other processes write to the same runs.

    Parameters
    ----------
    experiment : str, default="skpref"
        Name of the experiment; made when it does not exist.
    tracking_uri : str, default=None
        MLflow store. None: what ``mlflow.set_tracking_uri`` set, else the environment variable MLFLOW_TRACKING_URI,
        else ``sqlite:///mlruns/mlflow.db`` with files in ``mlruns/artifacts``, both made in the working folder.
    spool : path-like, default="mlruns/spool"
        Folder for what cannot be sent.

    Attributes
    ----------
    tracking_uri : str
        The store.
    online : bool
        Whether everything could be sent so far.
    spool_file : Path or None
        Where the rest is.

    Raises
    ------
    MissingExtraError
        If mlflow is not installed.

    Examples
    --------
    >>> from skpref.tracking.mlflow import Tracker
    >>> Tracker(tracking_uri="sqlite:///mlruns/mlflow.db").how_to_look()
    'mlflow ui --backend-store-uri sqlite:///mlruns/mlflow.db'
    """

    def __init__(
        self,
        experiment: str = "skpref",
        tracking_uri: str | None = None,
        spool: str | os.PathLike[str] = DEFAULT_ROOT / "spool",
    ) -> None:
        if importlib.util.find_spec("mlflow") is None:
            raise MissingExtraError("tracking needs MLflow: pip install 'skpref[mlflow]', or go without (--no-mlflow)")
        self.experiment = experiment
        self.tracking_uri, uri, root = store_settings(tracking_uri)
        self.online = True
        self._spool = _spool.Spool(Path.cwd() / spool)
        self._id = uuid.uuid4().hex
        kind = _beside.BesideStore if _beside.usable(self.tracking_uri) else Store
        self._store: _beside.BesideStore | Store = kind(experiment, uri, root)
        self._buffer: dict[str, list[list[Any]]] = {}
        self._flushed: dict[str, float] = {}
        self._failed_at = 0.0
        self._n_failures = 0
        self._n_events = 0
        self._warned: set[str] = set()
        self._forget()
        _ALL.add(self)

    def _forget(self) -> None:
        """Begin with nothing to send: at first, and in a forked process, where the other one goes on sending."""
        self._lock = threading.RLock()
        self._arrived = threading.Condition(self._lock)
        self._on_its_way: set[int] = set()  # numbers of events
        self._unsaid: list[str] = []
        self._begun: set[str] = set()
        self._inner: set[str] = set()  # runs in runs that began in this process

    def __reduce__(self) -> tuple[Any, ...]:
        self.settle()  # another process looks in the store for what it knows by its key only
        _LIVE[self._id] = self
        made = self.experiment, self._store.uri, self._spool.folder
        state = {"tracking_uri": self.tracking_uri, "online": self.online, "_warned": set(self._warned)}
        return _revived, (self._id, made, state, self._store.experiment_id, dict(self._store.runs))

    def prepare(self) -> None:
        """Begin to import MLflow in the process that sends; nothing is opened or made yet."""
        self._store.prepare()

    @property
    def spool_file(self) -> Path | None:
        """Where this process keeps what cannot be sent, if there is anything."""
        return self._spool.file

    # ------------------------------------------------------------------------------------------------------- events
    def start(
        self, name: str, parent: str | None = None, tags: Mapping[str, Any] | None = None, key: str | None = None
    ) -> str:
        """Start a run.

        Parameters
        ----------
        name : str
            What MLflow shows.
        parent : str, default=None
            Key of the run in which this one is nested.
        tags : mapping of str, default=None
            Tags.
        key : str, default=None
            Key by which all processes know the run; up to its first dot it is the same for all that belongs together.
            None: a new one.

        Returns
        -------
        str
            Key of the run, for the other methods.
        """
        key = key or uuid.uuid4().hex
        self._emit({"op": "start", "run": key, "parent": parent, "name": name, "tags": _texts(tags or {})})
        if parent in self._begun:
            self._inner.add(key)
        self._begun.add(key)
        return key

    def adopt(self, run_id: str, experiment_id: str) -> str:
        """Make a run that somebody else began usable as a parent; what follows goes to its experiment.

        Parameters
        ----------
        run_id, experiment_id : str
            MLflow's ids of it.

        Returns
        -------
        str
            Its key.
        """
        self._store.runs[run_id] = run_id
        self._store.experiment_id = experiment_id
        return run_id

    def log_params(self, run: str, params: Mapping[str, Any]) -> None:
        """Log parameters.

        Parameters
        ----------
        run : str
            Key of a run.
        params : mapping of str
            Values, written as text.
        """
        for part in _parts(_texts(params), _PARAM_BATCH):
            self._emit({"op": "params", "run": run, "values": part})

    def set_tags(self, run: str, tags: Mapping[str, Any]) -> None:
        """Set tags.

        Parameters
        ----------
        run : str
            Key of a run.
        tags : mapping of str
            Values, written as text.
        """
        for part in _parts(_texts(tags), _PARAM_BATCH):
            self._emit({"op": "tags", "run": run, "values": part})

    def log_metrics(self, run: str, metrics: Mapping[str, float], step: int = 0) -> None:
        """Log metrics; they are sent in batches, at the latest when the run ends.

        Parameters
        ----------
        run : str
            Key of a run.
        metrics : mapping of str to float
            Values. One that is not finite is left out, with one warning.
        step : int, default=0
            Step on the curve.
        """
        self._keep(run, ([name, value, _now(), step] for name, value in metrics.items()))

    def log_scores(self, run: str, metrics: Mapping[str, float]) -> None:
        """Log metrics of a run that has ended, perhaps in another process; nothing if it never began.

        Parameters
        ----------
        run : str
            Key of a run.
        metrics : mapping of str to float
            Finite values.
        """
        points = [[_name(name), float(value), _now(), 0] for name, value in metrics.items()]
        self._emit({"op": "scores", "run": run, "points": points})

    def log_curve(self, run: str, name: str, values: Iterable[float]) -> None:
        """Log a whole curve, such as the bound after each pass.

        Parameters
        ----------
        run : str
            Key of a run.
        name : str
            Name of the metric.
        values : iterable of float
            Its values at the steps 1, 2, ...
        """
        self._keep(run, ([name, value, _now(), step] for step, value in enumerate(values, 1)))

    def log_points(self, run: str, name: str, points: Iterable[tuple[int, float, int]]) -> None:
        """Log a part of a curve.

        Parameters
        ----------
        run : str
            Key of a run.
        name : str
            Name of the metric.
        points : iterable of (int, float, int)
            Step, value, and when it was, in milliseconds since 1970.
        """
        self._keep(run, ([name, value, when, step] for step, value, when in points))

    def hold(self, run: str, name: str, points: Iterable[tuple[int, float, int]]) -> None:
        """Hand over a part of a curve, to be sent only if this process is killed before it sends metrics of the run.

        Parameters
        ----------
        run : str
            Key of a run.
        name : str
            Name of the metric.
        points : iterable of (int, float, int)
            As for `log_points`.
        """
        with self._lock:
            if self.online and isinstance(self._store, _beside.BesideStore):
                finite = [[name, value, when, step] for step, value, when in points if math.isfinite(value)]
                event = {"op": "hold", "run": run, "points": finite}
                self._store.post(event, self._n_failures, _ignored)

    def on_iteration(self, run: str, name: str = "lower_bound") -> OnIteration:
        """Return a callback that logs the objective of a running fit.

        Parameters
        ----------
        run : str
            Key of a run.
        name : str, default="lower_bound"
            Name of the metric.

        Returns
        -------
        callable
            Takes an `Iteration` and never stops the fit.
        """

        def log(event: Iteration) -> None:
            self.log_metrics(run, {name: event.bound}, event.step)

        return log

    def log_artifact(self, run: str, path: str | os.PathLike[str], folder: str | None = None) -> None:
        """Keep a copy of a file with the run.

        Parameters
        ----------
        run : str
            Key of a run.
        path : path-like
            The file.
        folder : str, default=None
            Where in the run.
        """
        with self._transit() as transit:
            copy = transit / Path(path).resolve().name
            (shutil.copytree if Path(path).is_dir() else shutil.copy2)(path, copy)
            self._emit({"op": "artifact", "run": run, "path": str(copy), "folder": folder}, transit)

    def log_text(self, run: str, name: str, text: str) -> None:
        """Keep a text with the run.

        Parameters
        ----------
        run : str
            Key of a run.
        name : str
            Name of the file.
        text : str
            What is in it.
        """
        self._log_written(run, name, lambda path: path.write_text(text, "utf-8"))

    def log_figure(self, run: str, name: str, figure: Any) -> None:
        """Keep a figure with the run.

        Parameters
        ----------
        run : str
            Key of a run.
        name : str
            Name of the file, by which its format is chosen.
        figure : matplotlib Figure
            It is left open.
        """
        self._log_written(run, name, lambda path: figure.savefig(path, dpi=120))

    def _log_written(self, run: str, name: str, write: Callable[[Path], Any]) -> None:
        folder = Path(name).parent.as_posix()
        with self._transit() as transit:
            path = transit / Path(name).name
            write(path)
            event = {"op": "artifact", "run": run, "path": str(path), "folder": None if folder == "." else folder}
            self._emit(event, transit)

    def log_data(self, run: str, data: Mapping[str, str]) -> None:
        """Say what data a run used.

        Parameters
        ----------
        run : str
            Key of a run.
        data : mapping of str to str
            Name, digest (36 characters at most), source, source_type, schema, profile, context: as in MLflow.
        """
        self._emit({"op": "data", "run": run, "values": dict(data)})

    def log_model(
        self, run: str, path: str | os.PathLike[str], name: str = "model", registered: str | None = None
    ) -> None:
        """Log a model.

        Parameters
        ----------
        run : str
            Key of a run.
        path : path-like
            Folder in MLflow's format, as `skpref.tracking.save_model` writes it.
        name : str, default="model"
            Its name in the run.
        registered : str, default=None
            Name in the registry, of which it becomes a new version. None: it is not registered.
        """
        self._log_model(run, lambda copy: shutil.copytree(path, copy), name, registered)

    def log_estimator(self, run: str, estimator: Any, example: Any = None, registered: str | None = None) -> None:
        """Log a fitted estimator as a model.

        Parameters
        ----------
        run : str
            Key of a run.
        estimator, example : object
            As for `skpref.tracking.save_model`.
        registered : str, default=None
            As for `log_model`.

        Raises
        ------
        DataError
            As `skpref.tracking.save_model`.
        """
        from skpref.tracking.model import prepare

        self._log_model(run, lambda path: prepare(estimator, path, example), "model", registered)

    def _log_model(self, run: str, write: Callable[[Path], Any], name: str, registered: str | None) -> None:
        with self._transit() as transit:
            write(transit / "model")
            path = str(transit / "model")
            self._emit({"op": "model", "run": run, "path": path, "name": name, "registered": registered}, transit)

    def sweep(self, fit: str, status: str = "FAILED") -> None:
        """End the runs of a fit that nobody ended, since what was to end them failed or was killed.

        Parameters
        ----------
        fit : str
            What their keys have before the first dot.
        status : str, default="FAILED"
            As for `end`.
        """
        self._emit({"op": "sweep", "fit": fit, "status": status})

    def end(self, run: str, status: str = "FINISHED") -> None:
        """End a run, after sending what is left of it; of one that is in none of this process's, when all has arrived.

        Parameters
        ----------
        run : str
            Key of a run.
        status : {"FINISHED", "FAILED", "KILLED"}, default="FINISHED"
            How it ended.
        """
        self.flush(run)
        self._emit({"op": "end", "run": run, "status": status})
        if run not in self._inner:
            self.settle()

    def retry(self) -> None:
        """Try a store that failed once more, if that was some time ago."""
        with self._lock:
            if not self.online and time.monotonic() - self._failed_at > _RETRY_SECONDS:
                self.online = True

    def how_to_look(self) -> str:
        """Return what to do to see the runs: a command, or an address.

        Returns
        -------
        str
            Without passwords.
        """
        shown = without_password(self.tracking_uri)
        return f"open {shown}" if shown.startswith("http") else f"mlflow ui --backend-store-uri {shown}"

    # ----------------------------------------------------------------------------------------------------- buffering
    def _keep(self, run: str, points: Iterable[list[Any]]) -> None:
        now = time.monotonic()
        buffer, flushed = self._buffer.setdefault(run, []), self._flushed.setdefault(run, now)
        for name, value, *when in points:
            point: list[Any] = [_name(name), float(value), *map(int, when)]
            if math.isfinite(point[1]):
                buffer.append(point)
            else:
                self._warn_of_value(point)
        if len(buffer) >= _BATCH or (buffer and now - flushed > _FLUSH_SECONDS):
            self._flush(run)

    def _warn_of_value(self, point: list[Any]) -> None:
        if "values" in self._warned:
            return
        self._warned.add("values")
        message = f"metric {point[0]!r} is {point[1]} at step {point[3]}; values that are not finite are skipped"
        warnings.warn(message, TrackingWarning, stacklevel=4)

    def flush(self, run: str) -> None:
        """Send what is left of the metrics of a run.

        Parameters
        ----------
        run : str
            Key of a run.
        """
        self._flush(run)
        self._flushed.pop(run, None)

    def run_id(self, run: str) -> str | None:
        """Return MLflow's id of a run, when all has arrived.

        Parameters
        ----------
        run : str
            Key of a run.

        Returns
        -------
        str or None
            None for one that the store was not told of.
        """
        self.settle()
        return self._store.runs.get(run)

    def _flush(self, run: str) -> None:
        points = self._buffer.pop(run, [])
        self._flushed[run] = time.monotonic()
        for first in range(0, len(points), _BATCH):
            self._emit({"op": "metrics", "run": run, "points": points[first : first + _BATCH]})

    # ------------------------------------------------------------------------------------------------------- sending
    def _emit(self, event: dict[str, Any], folder: Path | None = None) -> None:
        """Send an event or, failing that, keep it; then delete the folder with its files."""
        with self._lock:
            self._n_events += 1
            event = {"time": _now(), "number": self._n_events, **event}
            if self.online and isinstance(self._store, _beside.BesideStore):
                answered = partial(self._answered, event, folder, self._n_failures)
                if self._store.post(event, self._n_failures, answered, folder):
                    self._on_its_way.add(self._n_events)  # the answer is another thread's, which waits for the lock
            elif self.online:
                self._send_here(event, folder)
            else:
                self._write(event)
                _delete(folder)
        self._say()

    def _send_here(self, event: dict[str, Any], folder: Path | None) -> None:
        try:
            note = self._store.send(event)  # type: ignore[union-attr]  # where there is no other process
        except Exception as error:  # noqa: BLE001 - whatever a store can raise must not cost the fit
            self._answered(event, folder, self._n_failures, first_line(error), None)
        except BaseException:  # an interruption keeps it, too
            self._write(event)
            _delete(folder)
            raise
        else:
            self._answered(event, folder, self._n_failures, None, note)

    def _answered(
        self, event: dict[str, Any], folder: Path | None, attempt: int, error: str | None, note: str | None
    ) -> None:
        with self._lock:
            try:
                if error is not None:
                    self._write(event)
                    if attempt == self._n_failures:
                        self.online, self._failed_at = False, time.monotonic()
                        self._n_failures += 1
                        self._note_failure(error)
                if note is not None:
                    self._note("refused", note)
                _delete(folder)
            finally:
                self._on_its_way.discard(event["number"])
                self._arrived.notify_all()

    @contextmanager
    def _transit(self) -> Iterator[Path]:
        """A folder for files on their way, which is deleted when they have arrived."""
        folder = None
        try:
            folder = Path(tempfile.mkdtemp(prefix="skpref-"))
            yield folder
        except BaseException as error:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            if not isinstance(error, OSError):
                raise
            self._note("files", f"A file is not tracked: {error}. The fit goes on.")
            self._say()

    def settle(self) -> None:
        """Wait until all has arrived, or is kept."""
        with self._arrived:
            while self._on_its_way:
                if not self._arrived.wait(1.0):
                    self._store.hurry()
        self._say()

    def _say(self) -> None:
        """Warn here of what the thread has met: a thread's warnings reach nobody who filters or records them."""
        while self._unsaid:
            warnings.warn(self._unsaid.pop(0), TrackingWarning, stacklevel=5)

    def _note(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            self._unsaid.append(message)

    # ------------------------------------------------------------------------------------------------------ spooling
    def _write(self, event: Mapping[str, Any]) -> None:
        head = {
            "experiment": self.experiment,
            "tracking_uri": without_password(self._store.uri),
            "runs": self._store.runs,
        }
        with LOCK:
            try:
                self._spool.write(event, head)
            except (OSError, TypeError, ValueError) as error:
                message = f"nor can it be kept in {self._spool.folder}: {error}. The fit goes on, and is not tracked."
                self._note("loss", f"What MLflow was not told: {message}")

    def _note_failure(self, error: str) -> None:
        message = f"MLflow at {without_password(self.tracking_uri)} cannot be used: {error}. "
        if self.spool_file is not None:
            message += (
                f"The fit goes on; the runs are kept in {self.spool_file}, from where "
                f"`skpref mlflow-sync {self.spool_file.parent}` sends them later."
            )
        self._note("store", message)


def _ignored(error: str | None, note: str | None) -> None:
    """Hear nothing of what would be lost anyhow."""


def _delete(folder: Path | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _settle_all() -> None:
    for tracker in list(_ALL):
        tracker.settle()


def _forget_all() -> None:
    for tracker in list(_ALL):
        tracker._forget()  # noqa: SLF001 - of this module


atexit.register(_settle_all)  # before the process beside this one is let go, which was registered before
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _revived(
    identity: str, made: tuple[Any, ...], state: Mapping[str, Any], experiment_id: str, runs: Mapping[str, str]
) -> Tracker:
    """The tracker of this process that a pickled one stands for."""
    with LOCK:
        if identity not in _LIVE:
            _LIVE[identity] = Tracker(*made)
            vars(_LIVE[identity]).update({**state, "_id": identity})
        store = _LIVE[identity]._store  # noqa: SLF001 - of this module
        store.experiment_id = store.experiment_id or experiment_id
        store.runs |= runs
        return _LIVE[identity]


def store_settings(tracking_uri: str | None) -> tuple[str, str, Path | None]:
    """Tell which store is meant."""
    shown = tracking_uri or _uri_set() or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_URI
    here = Path.cwd()
    return shown, absolute(shown, here), here / DEFAULT_ROOT if shown == DEFAULT_URI else None


def _uri_set() -> str | None:
    """The store that the user chose in MLflow itself."""
    if "mlflow" not in sys.modules:
        return None
    import mlflow

    return mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() or mlflow.active_run() is not None else None


def _now() -> int:
    return int(time.time() * 1000)


def _name(name: object) -> str:
    """A name that MLflow takes: it may become that of a file in a folder."""
    clean = _UNFIT.sub("_", str(name))[:_MAX_KEY]
    return "/".join(part for part in clean.split("/") if part.strip(".")) or "_"


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {_name(name): str(value)[:_MAX_VALUE] for name, value in values.items()}


def _parts(values: dict[str, str], size: int) -> Iterator[dict[str, str]]:
    items = list(values.items())
    for first in range(0, len(items), size):
        yield dict(items[first : first + size])
