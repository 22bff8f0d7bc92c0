"""The MLflow adapter: what arrives in a store, and that no store can cost a fit."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from skpref._events import Iteration
from skpref.exceptions import MissingExtraError, TrackingWarning
from skpref.tracking.mlflow import DEFAULT_URI, Tracker
from skpref.tracking.sending import resend

if TYPE_CHECKING:
    from pathlib import Path


def events(tracker: Tracker) -> list[dict[str, Any]]:
    assert tracker.spool_file is not None
    return [json.loads(line) for line in tracker.spool_file.read_text("utf-8").splitlines()]


def client(tracker: Tracker) -> Any:
    import mlflow

    return mlflow.MlflowClient(tracker._store.uri)


def stored(tracker: Tracker, key: str) -> Any:
    return client(tracker).get_run(tracker.run_id(key))


def curve(tracker: Tracker, key: str, name: str) -> list[tuple[int, float]]:
    history = client(tracker).get_metric_history(tracker.run_id(key), name)
    return sorted((point.step, point.value) for point in history)


def started(tracker: Tracker, name: str) -> str:
    key = tracker.start(name)
    tracker.settle()
    return key


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where no other process can be started; faults can be put into the store then."""
    monkeypatch.setattr("skpref.tracking.worker_process.usable", lambda _: False)


@pytest.mark.parametrize("beside", [True, False])
def test_runs_parameters_curves_and_files_arrive(home: Path, beside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not beside:
        monkeypatch.setattr("skpref.tracking.worker_process.usable", lambda _: False)
    tracker = Tracker(f"arrives, {beside}")
    assert tracker.tracking_uri == DEFAULT_URI
    parent = tracker.start("study", tags={"kind": "test"})
    tracker.log_params(parent, {"n": 3, "text": "x" * 9000} | {f"p{i}": i for i in range(150)})
    child = tracker.start("trial 0", parent)
    tracker.log_curve(child, "lower_bound", [-(2.0**-n) for n in range(1200)])
    tracker.log_metrics(child, {"loss": 0.5}, step=4)
    (home / "note.txt").write_text("kept")
    tracker.log_artifact(child, "note.txt")
    tracker.end(child, "FAILED")
    tracker.end(parent)
    assert tracker.online
    assert tracker.spool_file is None
    assert stored(tracker, parent).info.status == "FINISHED"
    assert stored(tracker, child).info.status == "FAILED"
    params = stored(tracker, parent).data.params
    assert params["n"] == "3"
    assert len(params) == 152
    assert len(params["text"]) == 5000
    tags = stored(tracker, child).data.tags
    assert tags["mlflow.parentRunId"] == tracker.run_id(parent)
    assert stored(tracker, parent).data.tags["kind"] == "test"
    assert curve(tracker, child, "lower_bound")[:2] == [(1, -1.0), (2, -0.5)]
    assert len(curve(tracker, child, "lower_bound")) == 1200
    assert curve(tracker, child, "loss") == [(4, 0.5)]
    kept = list((home / "mlruns" / "artifacts").rglob(f"{tracker.run_id(child)}/**/note.txt"))
    assert [path.read_text() for path in kept] == ["kept"]
    assert (home / "mlruns" / "mlflow.db").exists()


def test_the_variable_of_the_environment_is_respected(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:secret@tracking.example:5000")
    tracker = Tracker()
    assert tracker.tracking_uri == "http://user:secret@tracking.example:5000"
    assert tracker.how_to_look() == "open http://***@tracking.example:5000"
    assert (
        Tracker(tracking_uri="sqlite:///other.db").how_to_look() == "mlflow ui --backend-store-uri sqlite:///other.db"
    )


def test_nothing_is_touched_before_the_first_event(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Tracker()
    assert list(tmp_path.iterdir()) == []


def test_values_that_are_not_finite_are_skipped_with_one_warning(home: Path) -> None:
    tracker = Tracker("skips")
    run = tracker.start("a")
    with pytest.warns(TrackingWarning, match="'bound' is -inf at step 1; values that are not finite are") as seen:
        tracker.log_curve(run, "bound", [float("-inf"), 1.0, float("nan")])
    assert len(seen) == 1
    tracker.log_metrics(run, {"loss": float("inf"), "accuracy": 0.5})  # a second warning would be an error here
    tracker.end(run)
    assert curve(tracker, run, "bound") == [(2, 1.0)]
    assert stored(tracker, run).data.metrics == {"bound": 1.0, "accuracy": 0.5}


def test_bounds_of_a_running_fit(home: Path) -> None:
    tracker = Tracker("follows")
    run = tracker.start("fit")
    follow = tracker.on_iteration(run)
    for step in (1, 2):
        assert follow(Iteration(step, 5, -3.0 / step, 0.1 * step)) is None
    tracker.end(run)
    assert curve(tracker, run, "lower_bound") == [(1, -3.0), (2, -1.5)]


def test_a_server_that_is_not_there_costs_one_warning(home: Path, closed_port: str, tmp_path: Path) -> None:
    environment = dict(os.environ)
    tracker = Tracker(tracking_uri=closed_port, spool=tmp_path / "spool")
    began = time.monotonic()
    with pytest.warns(TrackingWarning, match="cannot be used.*The fit goes on") as seen:
        parent = started(tracker, "study")
    child = tracker.start("trial", parent)  # a second warning would be an error here
    tracker.log_params(child, {"a": 1})
    tracker.log_curve(child, "bound", [1.0, 2.0])
    tracker.end(child)
    tracker.end(parent)
    assert time.monotonic() - began < 30.0  # MLflow alone would try for minutes; most of this is its import
    assert len(seen) == 1
    assert str(tracker.spool_file) in str(seen[0].message)
    assert not tracker.online
    assert [event["op"] for event in events(tracker)] == ["store", "start", "start", "params", "metrics", "end", "end"]
    assert dict(os.environ) == environment


def test_a_server_that_never_answers_costs_seconds(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        tracker = Tracker(tracking_uri=f"http://127.0.0.1:{silent.getsockname()[1]}", spool=tmp_path)
        began = time.monotonic()
        with pytest.warns(TrackingWarning, match="cannot be used"):
            tracker.end(tracker.start("study"))
    assert time.monotonic() - began < 30.0


def test_what_could_not_be_sent_can_be_sent_later(home: Path, closed_port: str, tmp_path: Path) -> None:
    (tmp_path / "plot.txt").write_text("plot")
    tracker = Tracker("later", closed_port, spool=tmp_path)
    with pytest.warns(TrackingWarning):
        parent = started(tracker, "late study")
    tracker.log_metrics(parent, {"loss": 0.25})
    tracker.log_artifact(parent, tmp_path / "plot.txt")
    tracker.end(parent)
    assert tracker.spool_file is not None
    assert resend(tracker.spool_file) == 4
    reader = client(Tracker("later"))
    (run,) = reader.search_runs([reader.get_experiment_by_name("later").experiment_id])
    assert run.data.metrics == {"loss": 0.25}
    assert run.info.status == "FINISHED"


@pytest.mark.usefixtures("in_this_process")
def test_a_store_that_fails_half_way_loses_nothing(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = Tracker("half way", spool=tmp_path)
    run = tracker.start("study")
    tracker.log_params(run, {"before": 1})

    def locked(*_: Any, **__: Any) -> None:
        raise OSError("database is locked\nand more")

    monkeypatch.setattr(tracker._store.client, "log_batch", locked)
    with pytest.warns(TrackingWarning, match=r"database is locked\. The fit goes on") as seen:
        tracker.log_params(run, {"after": 2})
    assert len(seen) == 1
    tracker.log_metrics(run, {"loss": 0.5})
    tracker.end(run)
    monkeypatch.undo()
    monkeypatch.chdir(home)
    assert tracker.spool_file is not None
    resend(tracker.spool_file)
    again = stored(tracker, run)
    assert again.data.params == {"before": "1", "after": "2"}
    assert again.data.metrics == {"loss": 0.5}
    assert again.info.status == "FINISHED"


@pytest.mark.usefixtures("in_this_process")
def test_an_interruption_keeps_the_event_and_goes_on(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = Tracker("keeps the event", spool=tmp_path)
    run = tracker.start("study")

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tracker._store.client, "log_batch", stop)
    with pytest.raises(KeyboardInterrupt):
        tracker.log_params(run, {"a": 1})
    assert [event["op"] for event in events(tracker)] == ["store", "params"]
    assert tracker.online


def test_a_folder_without_the_right_to_write(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mlruns").write_text("a file where the folder should be")
    monkeypatch.chdir(tmp_path)
    tracker = Tracker(spool=tmp_path / "kept")
    with pytest.warns(TrackingWarning, match="cannot be used"):
        tracker.end(tracker.start("study"))


def test_third_party_warnings_and_log_lines_stay_off_the_screen(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tracker = Tracker("quiet")
        tracker.end(tracker.start("a"))
    assert tracker.online
    assert capfd.readouterr() == ("", "")


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"skpref\[mlflow\]"):
        Tracker()


@pytest.mark.usefixtures("home")
def test_a_second_value_of_a_parameter_costs_a_warning_and_no_more() -> None:
    tracker = Tracker("twice")
    run = started(tracker, "twice")
    tracker.log_params(run, {"a": 1, "b": 1})
    tracker.log_params(run, {"a": 2, "b": 1, "c": 3})
    with pytest.warns(TrackingWarning, match="keeps the first value of a parameter; this run has another one of a al"):
        tracker.settle()
    tracker.log_metrics(run, {"after": 1.0})
    tracker.end(run)
    found = stored(tracker, run).data
    assert (found.params, found.metrics) == ({"a": "1", "b": "1", "c": "3"}, {"after": 1.0})
    assert tracker.online


@pytest.mark.usefixtures("home")
def test_names_and_numbers_that_mlflow_or_json_would_not_take() -> None:
    tracker = Tracker("эксперимент 日本")
    run = started(tracker, "ünï 🎉")
    tracker.log_params(run, {"//x": "1", "..": 2, "a//b": "x" * 100_000, "ключ": "значение\n"})
    tracker.log_metrics(run, {"../y": np.float32(2.0), "": 3, "z/": 4}, step=np.int64(3))
    tracker.end(run)
    found = stored(tracker, run)
    assert found.info.run_name == "ünï 🎉"
    assert set(found.data.params) == {"x", "_", "a/b", "ключ"}
    assert found.data.metrics == {"y": 2.0, "_": 3.0, "z": 4.0}
    assert curve(tracker, run, "y") == [(3, 2.0)]


@pytest.mark.usefixtures("home", "in_this_process")
@pytest.mark.parametrize("what", ["experiment", "tables"])
def test_another_process_is_quicker_to_make(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.setattr("skpref.tracking.client._TABLES_SECONDS", 0.0)
    look = mlflow.MlflowClient.get_experiment_by_name
    looks: list[str] = []

    def late(self: Any, name: str) -> Any:
        looks.append(name)
        if len(looks) > 1:
            return look(self, name)
        if what == "tables":
            raise mlflow.MlflowException("(sqlite3.OperationalError) table runs already exists")
        self.create_experiment(name)  # just after this one had looked
        return None

    monkeypatch.setattr(mlflow.MlflowClient, "get_experiment_by_name", late)
    tracker = Tracker(f"raced for its {what}")
    run = tracker.start("run")
    tracker.end(run)
    assert tracker.online
    assert stored(tracker, run).info.status == "FINISHED"
