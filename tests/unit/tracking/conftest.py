"""One MLflow store for all tests: making its tables costs seconds."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import pytest

from skpref.tracking.client import mlflow_call


@pytest.fixture(scope="session")
def _home(tmp_path_factory):
    mlflow = pytest.importorskip("mlflow")
    home = tmp_path_factory.mktemp("mlflow")
    (home / "mlruns").mkdir()
    with mlflow_call():  # when first used, SQLAlchemy warns of itself
        mlflow.MlflowClient(f"sqlite:///{home}/mlruns/mlflow.db").search_experiments()
    return home


@pytest.fixture
def home(_home, monkeypatch):
    """A working folder with the default store, and no settings of the user's."""
    monkeypatch.chdir(_home)
    for name in (
        "MLFLOW_TRACKING_URI",
        "MLFLOW_EXPERIMENT_ID",
        "MLFLOW_EXPERIMENT_NAME",
        "MLFLOW_HTTP_REQUEST_TIMEOUT",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES",
    ):
        monkeypatch.delenv(name, raising=False)
    return _home


class StoredRuns:
    """Runs of an experiment, as a store holds them."""

    def __init__(self, client, experiment):
        self.client = client
        self.experiment = client.get_experiment_by_name(experiment)
        experiments = [] if self.experiment is None else [self.experiment.experiment_id]
        runs = client.search_runs(experiments, max_results=1000) if experiments else []
        self.runs = sorted(runs, key=lambda run: run.info.start_time)

    def children(self, run=None):
        """Runs nested in a run, or outermost ones."""
        wanted = None if run is None else run.info.run_id
        return [child for child in self.runs if child.data.tags.get("mlflow.parentRunId") == wanted]

    def tree(self, run=None):
        """Names of runs, each with those nested in it; in the order of names, since processes overlap."""
        return sorted([child.info.run_name, *self.tree(child)] for child in self.children(run))

    def curve(self, run, name):
        """Steps and values of a metric."""
        history = self.client.get_metric_history(run.info.run_id, name)
        return sorted((point.step, point.value) for point in history)

    def files(self, run):
        """Names of a run's files."""
        return {file.path for file in self.client.list_artifacts(run.info.run_id)}

    def models(self):
        """Models of the experiment."""
        return list(self.client.search_logged_models([self.experiment.experiment_id]))


@pytest.fixture
def stored(home):
    """Look into the default store, or another one."""

    def look(experiment, uri=None):
        import mlflow

        return StoredRuns(mlflow.MlflowClient(uri or f"sqlite:///{home}/mlruns/mlflow.db"), experiment)

    return look


@pytest.fixture
def closed_port():
    """An address at which nobody listens: bound, so that nobody else takes it."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{holder.getsockname()[1]}"


@pytest.fixture
def mlflow_server(tmp_path):
    """Run ``mlflow ...`` for as long as a block lasts."""
    return lambda arguments, path: _served(arguments, path, tmp_path / "server.log")


class Server:
    """A process of MLflow's, and its address."""

    def __init__(self, process, uri):
        self.process = process
        self.uri = uri

    def kill(self):
        """End it and its workers, as a power cut does."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, 9)
            self.process.wait(timeout=30.0)


@contextmanager
def _served(arguments, path, log):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port = int(holder.getsockname()[1])
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment = {**os.environ, **quiet, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling MLflow each time costs ten seconds
    with log.open("wb") as file:
        command = [sys.executable, "-m", "mlflow", *arguments, "--port", str(port), "--workers", "1"]
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment, start_new_session=True)
    server = Server(process, f"http://127.0.0.1:{port}")
    try:
        deadline = time.monotonic() + 180.0
        while True:
            try:
                urllib.request.urlopen(server.uri + path, timeout=5.0).read()  # noqa: S310 - our own address
                break
            except OSError:
                assert process.poll() is None, log.read_text("utf-8")[-2000:]
                assert time.monotonic() < deadline, log.read_text("utf-8")[-2000:]
                time.sleep(0.2)
        yield server
    finally:
        server.kill()
