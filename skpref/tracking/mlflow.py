"""MLflow adapter: runs, parameters, curves and files go to an MLflow store; what cannot be sent is kept on disk.

A tracker must never cost a fit. Whatever goes wrong with the store (no server, a server that goes away, a locked
database, no right to write) gives one `TrackingWarning`; from then on every event is written to a spool file, a line of
JSON each, which `resend` sends later.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import math
import os
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from skpref.exceptions import MissingExtraError, TrackingWarning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from skpref.tracking.protocol import Iteration, OnIteration

__all__ = ["DEFAULT_URI", "Tracker", "resend"]

DEFAULT_URI = "sqlite:///mlruns/mlflow.db"
_DEFAULT_ROOT = Path("mlruns")
_BATCH = 1000  # metrics a call: MLflow's limit
_PARAM_BATCH = 100  # parameters or tags a call: MLflow's limit
_MAX_VALUE = 5000  # characters of a tag: MLflow's limit (a parameter may have 6000)
# MLflow waits up to 120 s and tries 7 times; a fit should not wait for minutes. Settings of the user come first.
_PATIENCE = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


class Tracker:
    """Sends what happens to MLflow.

    Parameters
    ----------
    experiment : str, default="skpref"
        Name of the experiment; made when it does not exist.
    tracking_uri : str, default=None
        MLflow store. None: the environment variable MLFLOW_TRACKING_URI, else ``sqlite:///mlruns/mlflow.db`` with files
        in ``mlruns/artifacts``, both made in the working folder on demand.
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
        spool: str | os.PathLike[str] = _DEFAULT_ROOT / "spool",
    ) -> None:
        if importlib.util.find_spec("mlflow") is None:
            raise MissingExtraError("tracking needs MLflow: pip install 'skpref[mlflow]', or go without (--no-mlflow)")
        self.experiment = experiment
        self.tracking_uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_URI
        self.online = True
        self.spool_file: Path | None = None
        self._spool = Path(spool)
        self._client: Any = None
        self._experiment_id = ""
        self._runs: dict[str, str] = {}  # our key -> MLflow's run id
        self._buffer: dict[str, list[list[Any]]] = {}
        self._n_keys = 0
        self._warned_of_values = False

    # ------------------------------------------------------------------------------------------------------- events
    def start(self, name: str, parent: str | None = None, tags: Mapping[str, Any] | None = None) -> str:
        """Start a run.

        Parameters
        ----------
        name : str
            What MLflow shows.
        parent : str, default=None
            Key of the run in which this one is nested.
        tags : mapping of str, default=None
            Tags.

        Returns
        -------
        str
            Key of the run, for the other methods.
        """
        self._n_keys += 1
        key = f"run-{self._n_keys}"
        self._emit({"op": "start", "run": key, "parent": parent, "name": name, "time": _now()})
        if tags:
            self.set_tags(key, tags)
        return key

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

    def log_artifact(self, run: str, path: str | os.PathLike[str]) -> None:
        """Keep a copy of a file with the run.

        Parameters
        ----------
        run : str
            Key of a run.
        path : path-like
            The file.
        """
        self._emit({"op": "artifact", "run": run, "path": str(Path(path).resolve())})

    def end(self, run: str, status: str = "FINISHED") -> None:
        """End a run, after sending what is left of it.

        Parameters
        ----------
        run : str
            Key of a run.
        status : {"FINISHED", "FAILED", "KILLED"}, default="FINISHED"
            How it ended.
        """
        self._flush(run)
        self._emit({"op": "end", "run": run, "status": status, "time": _now()})

    def how_to_look(self) -> str:
        """Return what to do to see the runs: a command, or an address.

        Returns
        -------
        str
            Without passwords.
        """
        shown = _without_password(self.tracking_uri)
        return f"open {shown}" if shown.startswith("http") else f"mlflow ui --backend-store-uri {shown}"

    # ----------------------------------------------------------------------------------------------------- buffering
    def _keep(self, run: str, points: Iterable[list[Any]]) -> None:
        buffer = self._buffer.setdefault(run, [])
        for point in points:
            point[1] = float(point[1])
            if math.isfinite(point[1]):
                buffer.append(point)
            elif not self._warned_of_values:
                self._warned_of_values = True
                message = (
                    f"metric {point[0]!r} is {point[1]} at step {point[3]}; values that are not finite are skipped"
                )
                warnings.warn(message, TrackingWarning, stacklevel=3)
        if len(buffer) >= _BATCH:
            self._flush(run)

    def _flush(self, run: str) -> None:
        points = self._buffer.pop(run, [])
        for first in range(0, len(points), _BATCH):
            self._emit({"op": "metrics", "run": run, "points": points[first : first + _BATCH]})

    # ------------------------------------------------------------------------------------------------------- sending
    def _emit(self, event: dict[str, Any]) -> None:
        """Send an event or, failing that, keep it; an interruption (Ctrl-C) keeps it too, and goes on."""
        if not self.online:
            self._write(event)
            return
        try:
            self.send(event)
        except Exception as error:  # noqa: BLE001 - whatever a store can raise must not cost the fit
            self.online = False
            self._write(event)
            self._warn(error)
        except BaseException:
            self._write(event)
            raise

    def send(self, event: Mapping[str, Any]) -> None:
        """Send one event now; errors of the store are raised.

        Parameters
        ----------
        event : mapping
            As in a spool file.
        """
        with _patiently(), _quietly():
            if self._client is None:
                self._connect()
            _SENDERS[event["op"]](self, event)

    def _connect(self) -> None:
        import mlflow

        default = self.tracking_uri == DEFAULT_URI
        if default:
            _DEFAULT_ROOT.mkdir(exist_ok=True)
        client = mlflow.MlflowClient(tracking_uri=self.tracking_uri)
        found = client.get_experiment_by_name(self.experiment)
        if found is None:
            where = (_DEFAULT_ROOT / "artifacts").resolve().as_uri() if default else None
            self._experiment_id = client.create_experiment(self.experiment, artifact_location=where)
        else:
            self._experiment_id = found.experiment_id
        self._client = client

    def _send_start(self, event: Mapping[str, Any]) -> None:
        tags = {"mlflow.source.name": "skpref", "mlflow.source.type": "LOCAL"}
        if event["parent"] is not None:
            tags["mlflow.parentRunId"] = self._runs[event["parent"]]
        run = self._client.create_run(self._experiment_id, start_time=event["time"], tags=tags, run_name=event["name"])
        self._runs[event["run"]] = run.info.run_id

    def _send_params(self, event: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        params = [Param(name, value) for name, value in event["values"].items()]
        self._client.log_batch(self._runs[event["run"]], params=params)

    def _send_tags(self, event: Mapping[str, Any]) -> None:
        from mlflow.entities import RunTag

        tags = [RunTag(name, value) for name, value in event["values"].items()]
        self._client.log_batch(self._runs[event["run"]], tags=tags)

    def _send_metrics(self, event: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(*point) for point in event["points"]]
        self._client.log_batch(self._runs[event["run"]], metrics=metrics)

    def _send_artifact(self, event: Mapping[str, Any]) -> None:
        self._client.log_artifact(self._runs[event["run"]], event["path"])

    def _send_end(self, event: Mapping[str, Any]) -> None:
        self._client.set_terminated(self._runs[event["run"]], event["status"], event["time"])

    # ------------------------------------------------------------------------------------------------------ spooling
    def _write(self, event: Mapping[str, Any]) -> None:
        if self.spool_file is None:
            self._spool.mkdir(parents=True, exist_ok=True)
            name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{time.time_ns() % 10**6}.jsonl"
            self.spool_file = self._spool / name
            head = {"op": "store", "experiment": self.experiment, "runs": self._runs}
            self.spool_file.write_text(json.dumps(head) + "\n", "utf-8")
        with self.spool_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")

    def _warn(self, error: Exception) -> None:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if len(reason) > 300:
            reason = reason[:300] + "..."
        message = (
            f"MLflow at {_without_password(self.tracking_uri)} cannot be used: {reason}. The fit goes on; the runs are "
            f"kept in {self.spool_file}, from where skpref.tracking.mlflow.resend sends them later."
        )
        warnings.warn(message, TrackingWarning, stacklevel=5)


_SENDERS = {
    "start": Tracker._send_start,  # noqa: SLF001 - a table of the class's own methods
    "params": Tracker._send_params,  # noqa: SLF001
    "tags": Tracker._send_tags,  # noqa: SLF001
    "metrics": Tracker._send_metrics,  # noqa: SLF001
    "artifact": Tracker._send_artifact,  # noqa: SLF001
    "end": Tracker._send_end,  # noqa: SLF001
}


def resend(spool_file: str | os.PathLike[str], tracking_uri: str | None = None) -> int:
    """Send what a `Tracker` could not send.

    Parameters
    ----------
    spool_file : path-like
        The file named in the warning. It is left as it is: delete it when all is well.
    tracking_uri : str, default=None
        As for `Tracker`. Runs that had begun before the store failed are continued in it.

    Returns
    -------
    int
        Number of events sent.

    Raises
    ------
    Exception
        Whatever MLflow raises when the store fails again.

    Examples
    --------
    >>> from skpref.tracking.mlflow import resend
    >>> resend("mlruns/spool/20261121-081530-4711-12.jsonl")  # doctest: +SKIP
    """
    lines = Path(spool_file).read_text("utf-8").splitlines()
    head, *events = [json.loads(line) for line in lines]
    tracker = Tracker(head["experiment"], tracking_uri)
    tracker._runs.update(head["runs"])  # noqa: SLF001 - of this module
    for event in events:
        tracker.send(event)
    return len(events)


@contextmanager
def _patiently() -> Iterator[None]:
    """Shorten MLflow's time limits, where the user has not set them, while a call lasts."""
    added = [name for name in _PATIENCE if name not in os.environ]
    os.environ.update({name: _PATIENCE[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep MLflow's talk of migrations and retries, and its dependencies' deprecations, off the screen."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _now() -> int:
    return int(time.time() * 1000)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value)[:_MAX_VALUE] for name, value in values.items()}


def _parts(values: dict[str, str], size: int) -> Iterator[dict[str, str]]:
    items = list(values.items())
    for first in range(0, len(items), size):
        yield dict(items[first : first + size])


def _without_password(uri: str) -> str:
    parts = urlsplit(uri)
    if "@" not in parts.netloc:
        return uri
    return urlunsplit(parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]))
