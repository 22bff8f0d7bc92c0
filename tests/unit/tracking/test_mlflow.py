"""`Tracker`: what arrives in a store, and what a store that fails costs."""

import importlib.util
import json
import os
import signal
import socket
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from skpref.exceptions import MissingExtraError, TrackingWarning
from skpref.tracking import Tracker, sync
from skpref.tracking.client import DEFAULT_URI, hold_interrupts, mlflow_call
from tests.policies import set_policy

pytestmark = pytest.mark.usefixtures("home")


def events(tracker):
    assert tracker.spool_file is not None
    return [json.loads(line) for line in tracker.spool_file.read_text("utf-8").splitlines()]


def fail(tracker, monkeypatch, error):
    """Let the store fail when it is given a batch."""

    def log_batch(*_, **__):
        raise error

    monkeypatch.setattr(tracker.outbox.client._mlflow, "log_batch", log_batch)


def test_runs_parameters_curves_and_files_arrive(home, stored):
    tracker = Tracker("arrives")
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
    assert (tracker.online, tracker.spool_file) == (True, None)
    store = stored("arrives")
    assert store.tree() == [["study", ["trial 0"]]]
    (study,) = store.children()
    (trial,) = store.children(study)
    assert (study.info.run_id, trial.info.run_id) == (tracker.run_id(parent), tracker.run_id(child))
    assert (study.info.status, trial.info.status) == ("FINISHED", "FAILED")
    assert study.data.tags["kind"] == "test"
    assert len(study.data.params) == 152
    assert study.data.params["n"] == "3"
    assert len(study.data.params["text"]) == 5000
    assert store.curve(trial, "lower_bound")[:2] == [(1, -1.0), (2, -0.5)]
    assert len(store.curve(trial, "lower_bound")) == 1200
    assert store.curve(trial, "loss") == [(4, 0.5)]
    copies = (home / "mlruns" / "artifacts").rglob(f"{trial.info.run_id}/**/note.txt")
    assert [path.read_text() for path in copies] == ["kept"]


def test_the_environment_variable_names_the_store(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:secret@tracking.example:5000")
    assert Tracker().tracking_uri == "http://user:secret@tracking.example:5000"
    assert Tracker().how_to_look() == "open http://***@tracking.example:5000"
    other = Tracker(tracking_uri="sqlite:///other.db")
    assert other.how_to_look() == "mlflow ui --backend-store-uri sqlite:///other.db"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "flask" else name)  # mlflow-skinny
    assert other.how_to_look() == "pip install 'mlflow<4' && mlflow ui --backend-store-uri sqlite:///other.db"


def test_nothing_is_written_before_the_first_event(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Tracker()
    assert list(tmp_path.iterdir()) == []


def test_values_that_are_not_finite_are_skipped_with_one_warning(stored):
    tracker = Tracker("skips")
    run = tracker.start("a")
    with pytest.warns(TrackingWarning, match="'bound' is -inf at step 1; values that are not finite are") as caught:
        tracker.log_curve(run, "bound", [float("-inf"), 1.0, float("nan")])
    assert len(caught) == 1
    tracker.log_metrics(run, {"loss": float("inf"), "accuracy": 0.5})  # a second warning would be an error here
    tracker.end(run)
    (skips,) = stored("skips").runs
    assert stored("skips").curve(skips, "bound") == [(2, 1.0)]
    assert skips.data.metrics == {"bound": 1.0, "accuracy": 0.5}


@pytest.mark.parametrize("limit", ["buffer_points", "buffer_seconds"])
def test_points_are_sent_when_there_are_many_or_they_are_old(limit, stored, monkeypatch):
    tracker = Tracker(f"buffered, {limit}")
    run = tracker.start("fit")
    tracker.log_metrics(run, {"loss": 1.0}, 1)
    store = stored(f"buffered, {limit}")
    assert store.curve(store.runs[0], "loss") == []
    set_policy(monkeypatch, "tracking", **{limit: 2 if limit == "buffer_points" else 0.0})
    tracker.log_metrics(run, {"loss": 0.5}, 2)
    assert store.curve(store.runs[0], "loss") == [(1, 1.0), (2, 0.5)]
    tracker.end(run)


def test_names_and_numbers_that_mlflow_or_json_would_refuse(stored):
    tracker = Tracker("эксперимент 日本")
    run = tracker.start("ünï 🎉")
    tracker.log_params(run, {"//x": "1", "..": 2, "a//b": "x" * 100_000, "ключ": "значение\n"})
    tracker.log_metrics(run, {"../y": np.float32(2.0), "": 3, "z/": 4}, step=np.int64(3))
    tracker.end(run)
    (arrived,) = stored("эксперимент 日本").runs
    assert arrived.info.run_name == "ünï 🎉"
    assert set(arrived.data.params) == {"x", "_", "a/b", "ключ"}
    assert arrived.data.metrics == {"y": 2.0, "_": 3.0, "z": 4.0}
    assert stored("эксперимент 日本").curve(arrived, "y") == [(3, 2.0)]


def test_a_second_value_of_a_parameter_costs_a_warning_and_no_more(stored):
    tracker = Tracker("twice")
    run = tracker.start("twice")
    tracker.log_params(run, {"a": 1, "b": 1})
    with pytest.warns(TrackingWarning, match="keeps the first value of a parameter; this run already has another .* a"):
        tracker.log_params(run, {"a": 2, "b": 1, "c": 3})
    tracker.log_metrics(run, {"after": 1.0})
    tracker.end(run)
    data = stored("twice").runs[0].data
    assert (data.params, data.metrics) == ({"a": "1", "b": "1", "c": "3"}, {"after": 1.0})
    assert tracker.online


def test_a_file_that_cannot_be_read_costs_a_warning():
    tracker = Tracker("no file")
    run = tracker.start("a")
    with pytest.warns(TrackingWarning, match="A file is not tracked: nowhere.txt cannot be read"):
        tracker.log_artifact(run, "nowhere.txt")
    tracker.end(run)
    assert tracker.online


def test_a_server_that_is_not_there_costs_one_warning(closed_port, tmp_path):
    environment = dict(os.environ)
    tracker = Tracker(tracking_uri=closed_port, spool=tmp_path / "spool")
    with pytest.warns(TrackingWarning, match="cannot be used.*The fit continues") as caught:
        parent = tracker.start("study")
    child = tracker.start("trial", parent)  # a second warning would be an error here
    tracker.log_params(child, {"a": 1})
    tracker.log_curve(child, "bound", [1.0, 2.0])
    tracker.end(child)
    tracker.end(parent)
    assert len(caught) == 1
    assert str(tracker.spool_file) in str(caught[0].message)
    assert not tracker.online
    assert [event["op"] for event in events(tracker)] == ["store", "start", "start", "params", "metrics", "end", "end"]
    assert dict(os.environ) == environment


@pytest.mark.parametrize("half_way", [False, True])
def test_a_server_that_never_answers_costs_five_seconds_in_all(home, tmp_path, half_way):
    import mlflow

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        tracker = Tracker(tracking_uri=None if half_way else uri, spool=tmp_path)
        parent = tracker.start("study") if half_way else None
        tracker.outbox.client._mlflow = mlflow.MlflowClient(uri)
        began = time.perf_counter()
        with pytest.warns(TrackingWarning, match="cannot be used"):
            run = tracker.start("fit", parent)
        for number in range(5):
            tracker.log_params(tracker.start(f"fold {number}", run), {"a": 1})
        tracker.end(run)
        assert time.perf_counter() - began < 5.0


def test_a_store_that_fails_half_way_loses_nothing(tmp_path, monkeypatch, stored):
    (tmp_path / "plot.txt").write_text("plot")
    tracker = Tracker("half way", spool=tmp_path / "spool")
    run = tracker.start("study")
    tracker.log_params(run, {"before": 1})
    with monkeypatch.context() as patch:
        fail(tracker, patch, OSError("database is locked\nand more"))
        with pytest.warns(TrackingWarning, match=r"database is locked\. The fit continues") as caught:
            tracker.log_params(run, {"after": 2})
    assert len(caught) == 1
    tracker.log_metrics(run, {"loss": 0.5})
    tracker.log_artifact(run, tmp_path / "plot.txt")
    tracker.end(run)
    assert [event["op"] for event in events(tracker)] == ["store", "params", "artifact", "metrics", "end"]
    assert stored("half way").runs[0].info.status == "RUNNING"
    assert (sync(tmp_path / "spool").n_events, sync(tmp_path / "spool").n_files) == (4, 0)
    (again,) = stored("half way").runs
    assert (again.data.params, again.data.metrics) == ({"before": "1", "after": "2"}, {"loss": 0.5})
    assert (again.info.status, stored("half way").files(again)) == ("FINISHED", {"plot.txt"})


def test_an_interruption_keeps_the_event(tmp_path, monkeypatch):
    tracker = Tracker("keeps the event", spool=tmp_path)
    run = tracker.start("study")
    fail(tracker, monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        tracker.log_params(run, {"a": 1})
    assert [event["op"] for event in events(tracker)] == ["store", "params"]
    assert tracker.online


@pytest.fixture
def ctrl_c():
    """SIGINT as in a terminal: a shell ignores it in what runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_waits_until_the_run_has_begun(tmp_path, monkeypatch, stored):
    tracker = Tracker("begins", spool=tmp_path / "spool")
    tracker.end(tracker.start("before"))
    client = tracker.outbox.client._mlflow
    create_run = client.create_run

    def interrupted(*args, **kwargs):
        signal.raise_signal(signal.SIGINT)
        return create_run(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(client, "create_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tracker.start("cut", key="cut")
    tracker.end("cut", "KILLED")
    assert tracker.online
    assert tracker.spool_file is None
    assert {run.info.run_name: run.info.status for run in stored("begins").runs} == {
        "before": "FINISHED",
        "cut": "KILLED",
    }


@pytest.mark.usefixtures("ctrl_c")
def test_the_second_interrupt_does_not_wait():
    steps = []

    def interrupt_twice():
        with hold_interrupts(), hold_interrupts():
            signal.raise_signal(signal.SIGINT)
            steps.append("after the first")
            signal.raise_signal(signal.SIGINT)
            steps.append("after the second")

    with pytest.raises(KeyboardInterrupt):
        interrupt_twice()
    assert steps == ["after the first"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_warnings_and_log_lines_of_mlflow_stay_off_the_screen(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tracker = Tracker("quiet")
        tracker.end(tracker.start("a"))
    assert tracker.online
    assert capfd.readouterr() == ("", "")


def test_threads_leave_the_warning_filters_alone():
    """`catch_warnings` in several threads at once can leave the filters of one of them to the whole process."""
    filters = warnings.filters

    def unchanged():
        with mlflow_call():
            return warnings.filters is filters

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(unchanged).result()


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"skpref\[mlflow\]"):
        Tracker()


@pytest.mark.parametrize("what", ["experiment", "tables"])
def test_another_process_may_be_first(what, monkeypatch, stored):
    import mlflow

    set_policy(monkeypatch, "tracking", tables_seconds=0.0)
    look = mlflow.MlflowClient.get_experiment_by_name
    looks = []

    def late(self, name):
        looks.append(name)
        if len(looks) > 1:
            return look(self, name)
        if what == "tables":
            raise mlflow.MlflowException("(sqlite3.OperationalError) table runs already exists")
        self.create_experiment(name)  # just after this process has looked
        return None

    monkeypatch.setattr(mlflow.MlflowClient, "get_experiment_by_name", late)
    tracker = Tracker(f"race for the {what}")
    tracker.end(tracker.start("run"))
    assert tracker.online
    assert [run.info.status for run in stored(f"race for the {what}").runs] == ["FINISHED"]


def test_another_process_may_have_written_the_same_data(monkeypatch, stored):
    import mlflow

    log, calls = mlflow.MlflowClient.log_inputs, []

    def late(self, run_id, inputs):
        calls.append(run_id)
        if len(calls) == 1:
            raise mlflow.MlflowException("(sqlite3.IntegrityError) UNIQUE constraint failed: datasets.experiment_id")
        log(self, run_id, inputs)

    monkeypatch.setattr(mlflow.MlflowClient, "log_inputs", late)
    tracker = Tracker("race for the data")
    run = tracker.start("run")
    values = {"name": "X", "digest": "1", "source_type": "local", "source": "{}"}
    tracker.outbox.send("data", run, values=values)
    tracker.end(run)
    assert tracker.online
    assert [run.inputs.dataset_inputs[0].dataset.digest for run in stored("race for the data").runs] == ["1"]
