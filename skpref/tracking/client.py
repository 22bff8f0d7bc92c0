"""One MLflow store: sends events to it, and finds runs that other processes began."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from skpref.exceptions import MissingExtraError
from skpref.tracking.policy import POLICY

DEFAULT_URI = "sqlite:///mlruns/mlflow.db"
DEFAULT_ROOT = Path("mlruns")
_KEY_TAG, _FIT_TAG = "skpref.key", "skpref.fit"  # tags by which a run is found in the store
# MLflow reads its limits from the environment, and nowhere else.
_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_CHANGED = "Changing param values is not allowed"  # MLflow's words
LOCK = threading.RLock()  # one call at a time: settings, log levels and warning filters belong to the process


class Client:
    """An experiment in an MLflow store; with `resumes`, one to which some of the events may have been sent before."""

    def __init__(self, experiment: str, uri: str, root: Path | None, *, resumes: bool = False) -> None:
        self.experiment = experiment
        self.uri = uri
        self.experiment_id = ""
        self.runs: dict[str, str] = {}  # MLflow's ids of runs by their keys
        self.root = root
        self._resumes = resumes
        self._is_adopted = False
        self._mlflow: Any = None

    def send(self, event: Mapping[str, Any]) -> str | None:
        """Send an event and return a note for the user, if there is one; errors of the store are raised."""
        with LOCK, mlflow_call(POLICY.sync_seconds if self._resumes else POLICY.fit_seconds):
            self._connect()
            note: str | None = getattr(self, f"_send_{event['op']}")(event)
            return note

    def adopt(self, run: Any) -> str | None:
        """Nest the next fits in a run that the user began by MLflow itself (None: no longer), and return its key."""
        if run is not None:
            self.experiment_id, self.runs[run.info.run_id] = run.info.experiment_id, run.info.run_id
        elif self._is_adopted:
            self.experiment_id = ""
        self._is_adopted = run is not None
        return None if run is None else run.info.run_id

    def learn(self, experiment_id: str, runs: Mapping[str, str]) -> None:
        """Take over another process's knowledge of the store."""
        self.experiment_id = experiment_id or self.experiment_id
        self.runs |= runs

    def _connect(self) -> None:
        if self._mlflow is None:
            import mlflow

            if self.root is not None:
                self.root.mkdir(exist_ok=True)
            self._mlflow = mlflow.MlflowClient(tracking_uri=self.uri)
        self.experiment_id = self.experiment_id or self._find_experiment()

    def _find_experiment(self) -> str:
        try:
            experiment = self._mlflow.get_experiment_by_name(self.experiment)
        except Exception as error:
            if "already exists" not in str(error):
                raise
            time.sleep(POLICY.tables_seconds)  # another process is making the tables of a new store
            experiment = self._mlflow.get_experiment_by_name(self.experiment)
        experiment = experiment or self._create_experiment()
        if experiment.lifecycle_stage == "deleted":
            raise RuntimeError(f"the experiment {self.experiment!r} was deleted; restore it, or name another one")
        return str(experiment.experiment_id)

    def _create_experiment(self) -> Any:
        """Return a new experiment, or the one that another process has created in the meantime."""
        folder = None if self.root is None else (self.root / "artifacts").as_uri()
        try:
            self._mlflow.create_experiment(self.experiment, artifact_location=folder)
        except Exception:
            experiment = self._mlflow.get_experiment_by_name(self.experiment)
            if experiment is None:
                raise
            return experiment
        return self._mlflow.get_experiment_by_name(self.experiment)

    def _run_id(self, key: str) -> str:
        """Return MLflow's id of a run; one that another process started is searched for in the store."""
        if key not in self.runs:
            fit, dot, _ = key.partition(".")
            self.runs |= self._find_runs(_FIT_TAG if dot else _KEY_TAG, fit if dot else key)
        if key not in self.runs:
            raise LookupError(f"there is no run with the tag {_KEY_TAG}={key}")
        return self.runs[key]

    def _find_runs(self, tag: str, value: str, condition: str = "") -> dict[str, str]:
        ids: dict[str, str] = {}
        page = None
        while page != "":
            runs = self._mlflow.search_runs(
                [self.experiment_id], f"tags.`{tag}` = '{value}'{condition}", max_results=1000, page_token=page
            )
            ids |= {run.data.tags[_KEY_TAG]: run.info.run_id for run in runs if _KEY_TAG in run.data.tags}
            page = runs.token or ""
        return ids

    # -------------------------------------------------------------------------------------------- one method an event
    def _send_start(self, event: Mapping[str, Any]) -> None:
        key, (fit, dot, _) = event["run"], event["run"].partition(".")
        if self._resumes:
            self.runs |= self._find_runs(_KEY_TAG, key)
        if key in self.runs:
            return
        tags = {"mlflow.source.name": "skpref", "mlflow.source.type": "LOCAL", _KEY_TAG: key}
        tags |= {_FIT_TAG: fit} if dot else {}
        if event["parent"] is not None:
            tags["mlflow.parentRunId"] = self._run_id(event["parent"])
        tags |= event["tags"]
        run = self._mlflow.create_run(self.experiment_id, start_time=event["time"], tags=tags, run_name=event["name"])
        self.runs[key] = run.info.run_id

    def _send_params(self, event: Mapping[str, Any]) -> str | None:
        from mlflow.entities import Param

        run_id = self._run_id(event["run"])
        params = [Param(name, value) for name, value in event["values"].items()]
        try:
            self._mlflow.log_batch(run_id, params=params)
        except Exception as error:
            if _CHANGED not in str(error):
                raise
        else:
            return None
        stored = self._mlflow.get_run(run_id).data.params
        self._mlflow.log_batch(run_id, params=[param for param in params if param.key not in stored])
        changed = ", ".join(param.key for param in params if stored.get(param.key, param.value) != param.value)
        return f"MLflow keeps the first value of a parameter; this run already has another value of {changed}."

    def _send_tags(self, event: Mapping[str, Any]) -> None:
        from mlflow.entities import RunTag

        tags = [RunTag(name, value) for name, value in event["values"].items()]
        self._mlflow.log_batch(self._run_id(event["run"]), tags=tags)

    def _send_metrics(self, event: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(*point) for point in event["points"]]
        self._mlflow.log_batch(self._run_id(event["run"]), metrics=metrics)

    def _send_scores(self, event: Mapping[str, Any]) -> None:
        with suppress(LookupError):  # a fit that failed before its run began
            self._send_metrics(event)

    def _send_artifact(self, event: Mapping[str, Any]) -> None:
        self._mlflow.log_artifact(self._run_id(event["run"]), event["path"], event.get("folder"))

    def _send_data(self, event: Mapping[str, Any]) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        inputs = [DatasetInput(Dataset(**event["values"]), [InputTag("mlflow.data.context", "training")])]
        run_id = self._run_id(event["run"])
        try:
            self._mlflow.log_inputs(run_id, inputs)
        except Exception as error:
            if "unique constraint" not in str(error).lower():
                raise
            self._mlflow.log_inputs(run_id, inputs)  # another process has just written the same data

    def _send_model(self, event: Mapping[str, Any]) -> None:
        """Send a model in MLflow's format, and register it if the event has a name for it."""
        from mlflow.entities import LoggedModelOutput
        from mlflow.models import Model

        store, run_id, name = self._mlflow, self._run_id(event["run"]), event["name"]
        if self._resumes:
            query = f"source_run_id = '{run_id}' AND name = '{name}'"
            models = store.search_logged_models([self.experiment_id], query)
            if any(str(model.status) == "READY" for model in models):
                return
        logged = store.create_logged_model(self.experiment_id, name=name, source_run_id=run_id, model_type="pyfunc")
        manifest = Model.load(event["path"])
        manifest.run_id, manifest.model_id, manifest.model_uuid = run_id, logged.model_id, logged.model_id
        manifest.artifact_path = logged.artifact_location
        manifest.save(str(Path(event["path"]) / "MLmodel"))
        store.log_model_artifacts(logged.model_id, event["path"])
        store.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])
        if event.get("registered"):
            self._register(event["registered"], logged, run_id)
        store.finalize_logged_model(logged.model_id, "READY")  # last: `sync` takes it as the sign that all arrived

    def _register(self, name: str, logged: Any, run_id: str) -> None:
        """Make a model the next version of a name in the registry, which is created on demand."""
        import mlflow

        try:
            self._mlflow.create_registered_model(name)
        except mlflow.MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        self._mlflow.create_model_version(name, logged.artifact_location, run_id, model_id=logged.model_id)

    def _send_end(self, event: Mapping[str, Any]) -> None:
        self._mlflow.set_terminated(self._run_id(event["run"]), event["status"], event["time"])

    def _send_sweep(self, event: Mapping[str, Any]) -> None:
        """End the runs of a fit that are still running: the process that was to end them failed or was killed."""
        for run_id in self._find_runs(_FIT_TAG, event["fit"], " and attributes.status = 'RUNNING'").values():
            self._mlflow.set_terminated(run_id, event["status"], event["time"])


@contextmanager
def mlflow_call(seconds: float = POLICY.fit_seconds) -> Iterator[None]:
    """Limit how long MLflow waits, unless the user has, and silence its log and warnings, during a call."""
    settings = {"MLFLOW_HTTP_REQUEST_TIMEOUT": str(seconds), **_SETTINGS}
    added = {name: value for name, value in settings.items() if name not in os.environ}
    disabled = logging.root.manager.disable
    os.environ.update(added)
    logging.disable(max(disabled, logging.ERROR))  # migrations and retries; errors are reported by one warning
    try:
        with ExitStack() as stack:
            if threading.current_thread() is threading.main_thread():  # else filters of several threads would mix
                stack.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")  # deprecations in MLflow's dependencies
            yield
    finally:
        logging.disable(disabled)
        for name in added:
            os.environ.pop(name, None)


class _Held:
    """A handler of signals that keeps the first one, and passes the others on."""

    def __init__(self, before: Callable[..., Any]) -> None:
        self.before = before
        self.first: tuple[int, Any] | None = None

    def __call__(self, number: int, frame: Any) -> None:
        if self.first is not None:
            self.before(number, frame)
        self.first = number, frame


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Let Ctrl-C wait until a call has ended: a store that is interrupted keeps its file locked, and half an event.

    The second Ctrl-C does not wait.
    """
    before = signal.getsignal(signal.SIGINT)
    is_held = isinstance(before, _Held)  # by a block around this one
    if is_held or threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    hold = _Held(before)
    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if hold.first is not None:
            before(*hold.first)


def require_mlflow() -> None:
    """Raise an error that names the extra if MLflow is not installed, without importing it."""
    if importlib.util.find_spec("mlflow") is None:
        raise MissingExtraError("tracking needs MLflow: pip install 'skpref[mlflow]'")


def store_settings(tracking_uri: str | None) -> tuple[str, str, Path | None]:
    """Return the address of the store as given, with an absolute path, and the folder of the default store."""
    shown = tracking_uri or _uri_of_user() or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_URI
    folder = Path.cwd()
    scheme, colon, path = shown.partition(":///")
    is_file = bool(colon) and scheme.startswith("sqlite") and not path.startswith(("file:", ":memory:"))
    uri = f"{scheme}:///{folder / path}" if is_file else shown
    return shown, uri, folder / DEFAULT_ROOT if shown == DEFAULT_URI else None


def _uri_of_user() -> str | None:
    """Return the store that the user chose in MLflow itself."""
    if "mlflow" not in sys.modules:
        return None
    import mlflow

    chosen = mlflow.is_tracking_uri_set() or mlflow.active_run() is not None or "MLFLOW_EXPERIMENT_ID" in os.environ
    return mlflow.get_tracking_uri() if chosen else None


def remove_password(uri: str) -> str:
    """Return an address without user name and password."""
    parts = urlsplit(uri)
    if "@" not in parts.netloc:
        return uri
    return urlunsplit(parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]))
