"""One MLflow store: sends events to it, each when it is told, and finds runs again that other processes began."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import threading
import time
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from skpref.exceptions import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_KEY_TAG, _FIT_TAG = "skpref.key", "skpref.fit"  # by which a run is found again
# MLflow waits up to 120 s and tries 7 times; a fit should not wait for minutes. Settings of the user come first.
_PATIENCE = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}


_TABLES_SECONDS = 5.0
_CHANGED = "Changing param values is not allowed"  # MLflow's words
_SECRET = re.compile(r"//[^/@\s]+@")  # user and password in an address
# One at a time: the store's settings and the loggers that are quietened are the process's.
LOCK = threading.RLock()


class Store:
    """An experiment in an MLflow store."""

    def __init__(self, experiment: str, uri: str, root: Path | None, *, again: bool = False) -> None:
        self.experiment = experiment
        self.uri = uri
        self.again = again
        self.client: Any = None
        self.experiment_id = ""
        self.runs: dict[str, str] = {}
        self._root = root

    def prepare(self) -> None:
        """Do nothing: MLflow is imported when it is needed."""

    def hurry(self) -> None:
        """Do nothing: each event was waited for."""

    def send(self, event: Mapping[str, Any]) -> str | None:
        """Send one event now; errors of the store are raised."""
        with LOCK, patiently(), quietly():
            self._connect()
            note: str | None = _SENDERS[event["op"]](self, event)
            return note

    def _connect(self) -> None:
        if self.client is not None and self.experiment_id:
            return
        import mlflow

        if self._root is not None:
            self._root.mkdir(exist_ok=True)
        client = mlflow.MlflowClient(tracking_uri=self.uri)
        self.client = client
        if self.experiment_id:
            return
        try:
            found = client.get_experiment_by_name(self.experiment)
        except Exception as error:
            if "already exists" not in str(error):
                raise
            time.sleep(_TABLES_SECONDS)  # another process is making the tables of a new store
            found = client.get_experiment_by_name(self.experiment)
        found = found or self._made(client)
        if found.lifecycle_stage == "deleted":
            msg = f"the experiment {self.experiment!r} was deleted; restore it, or name another one"
            raise RuntimeError(msg)
        self.experiment_id = found.experiment_id

    def _made(self, client: Any) -> Any:
        """The experiment, which did not exist a moment ago; another process may be quicker to make it."""
        where = None if self._root is None else (self._root / "artifacts").as_uri()
        problem = None
        try:
            client.create_experiment(self.experiment, artifact_location=where)
        except Exception as error:  # noqa: BLE001 - raised below, unless it is there now
            problem = error
        found = client.get_experiment_by_name(self.experiment)
        if found is None:
            raise problem or LookupError(f"the experiment {self.experiment!r} cannot be made")
        return found

    def _run_id(self, key: str) -> str:
        """MLflow's id of a run; one that another process started is looked for in the store."""
        if key not in self.runs:
            fit, dot, _ = key.partition(".")
            self.runs |= self._stored(_FIT_TAG if dot else _KEY_TAG, fit if dot else key)
        if key not in self.runs:
            msg = f"there is no run with the tag {_KEY_TAG}={key}"
            raise LookupError(msg)
        return self.runs[key]

    def _stored(self, tag: str, value: str, more: str = "") -> dict[str, str]:
        found: dict[str, str] = {}
        page = None
        while page != "":
            runs = self.client.search_runs(
                [self.experiment_id], f"tags.`{tag}` = '{value}'{more}", max_results=1000, page_token=page
            )
            found |= {run.data.tags[_KEY_TAG]: run.info.run_id for run in runs if _KEY_TAG in run.data.tags}
            page = runs.token or ""
        return found

    def _send_start(self, event: Mapping[str, Any]) -> None:
        key, (fit, dot, _) = event["run"], event["run"].partition(".")
        if self.again:
            self.runs |= self._stored(_KEY_TAG, key)
        if key in self.runs:
            return
        tags = {"mlflow.source.name": "skpref", "mlflow.source.type": "LOCAL", _KEY_TAG: key}
        tags |= {_FIT_TAG: fit} if dot else {}
        if event["parent"] is not None:
            tags["mlflow.parentRunId"] = self._run_id(event["parent"])
        tags |= event["tags"]
        run = self.client.create_run(self.experiment_id, start_time=event["time"], tags=tags, run_name=event["name"])
        self.runs[key] = run.info.run_id

    def _send_params(self, event: Mapping[str, Any]) -> str | None:
        from mlflow.entities import Param

        run_id = self._run_id(event["run"])
        params = [Param(name, value) for name, value in event["values"].items()]
        try:
            self.client.log_batch(run_id, params=params)
        except Exception as error:
            if _CHANGED not in str(error):
                raise
        else:
            return None
        kept = self.client.get_run(run_id).data.params
        self.client.log_batch(run_id, params=[param for param in params if param.key not in kept])
        changed = ", ".join(param.key for param in params if kept.get(param.key, param.value) != param.value)
        return f"MLflow keeps the first value of a parameter; this run has another one of {changed} already."

    def _send_tags(self, event: Mapping[str, Any]) -> None:
        from mlflow.entities import RunTag

        tags = [RunTag(name, value) for name, value in event["values"].items()]
        self.client.log_batch(self._run_id(event["run"]), tags=tags)

    def _send_metrics(self, event: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(*point) for point in event["points"]]
        self.client.log_batch(self._run_id(event["run"]), metrics=metrics)

    def _send_scores(self, event: Mapping[str, Any]) -> None:
        with suppress(LookupError):  # a fit that failed before it began
            self._send_metrics(event)

    def _send_artifact(self, event: Mapping[str, Any]) -> None:
        self.client.log_artifact(self._run_id(event["run"]), event["path"], event.get("folder"))

    def _send_data(self, event: Mapping[str, Any]) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        values = dict(event["values"])
        context = InputTag("mlflow.data.context", values.pop("context", "training"))
        self.client.log_inputs(self._run_id(event["run"]), [DatasetInput(Dataset(**values), [context])])

    def _send_model(self, event: Mapping[str, Any]) -> None:
        from skpref.tracking.model import upload

        run_id = self._run_id(event["run"])
        upload(self.client, self.experiment_id, run_id, event, again=self.again)

    def _send_end(self, event: Mapping[str, Any]) -> None:
        self.client.set_terminated(self._run_id(event["run"]), event["status"], event["time"])

    def _send_sweep(self, event: Mapping[str, Any]) -> None:
        running = self._stored(_FIT_TAG, event["fit"], " and attributes.status = 'RUNNING'")
        for run_id in running.values():
            self.client.set_terminated(run_id, event["status"], event["time"])


_SENDERS = {
    "start": Store._send_start,  # noqa: SLF001 - a table of the class's own methods
    "params": Store._send_params,  # noqa: SLF001
    "tags": Store._send_tags,  # noqa: SLF001
    "metrics": Store._send_metrics,  # noqa: SLF001
    "scores": Store._send_scores,  # noqa: SLF001
    "artifact": Store._send_artifact,  # noqa: SLF001
    "data": Store._send_data,  # noqa: SLF001
    "model": Store._send_model,  # noqa: SLF001
    "sweep": Store._send_sweep,  # noqa: SLF001
    "end": Store._send_end,  # noqa: SLF001
}


@contextmanager
def patiently() -> Iterator[None]:
    """Shorten MLflow's time limits and take off its ornaments, where the user has not set them, while a call lasts."""
    added = [name for name in _PATIENCE if name not in os.environ]
    os.environ.update({name: _PATIENCE[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def quietly() -> Iterator[None]:
    """Keep MLflow's talk of migrations and retries, and its dependencies' deprecations, off the screen."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.ERROR))  # we tell of errors ourselves, once
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def require_mlflow() -> Any:
    """Import MLflow."""
    if importlib.util.find_spec("mlflow") is None:
        raise MissingExtraError("tracking needs MLflow: pip install 'skpref[mlflow]', or go without (--no-mlflow)")
    import mlflow

    return mlflow


def first_line(error: Exception) -> str:
    """Return what is worth showing of an error's message."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    # SQLAlchemy begins with how it came to it.
    line = next((line for line in lines if not line.startswith("(raised as a result of")), lines[0])
    line = _SECRET.sub("//***@", line)
    return line[:300] + "..." if len(line) > 300 else line


def absolute(uri: str, root: Path) -> str:
    """Tell where a relative path of SQLite starts."""
    scheme, colon, path = uri.partition(":///")
    is_file = bool(colon) and scheme.startswith("sqlite") and not path.startswith(("file:", ":memory:"))
    return f"{scheme}:///{root / path}" if is_file else uri


def without_password(uri: str) -> str:
    """Return an address that can be shown."""
    parts = urlsplit(uri)
    if "@" not in parts.netloc:
        return uri
    return urlunsplit(parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]))
