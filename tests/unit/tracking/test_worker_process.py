"""The process beside this one: what it spares, and what becomes of runs when either of the two is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from skpref.exceptions import TrackingWarning
from skpref.tracking import sync, track
from skpref.tracking.mlflow import Tracker
from skpref.tracking.worker_process import _Desk, _Helper, usable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest.importorskip("mlflow")
pytest.importorskip("sklearn.callback", reason="scikit-learn 1.8 does not hand callbacks on")


def script(text: str, folder: Path) -> subprocess.Popen[str]:
    unset = {"MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.Popen(
        [sys.executable, "-c", text],
        cwd=folder,
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(seen: Callable[..., Any], *where: str) -> dict[str, str]:
    """How runs ended, when all have."""
    deadline = time.monotonic() + 60.0
    states: dict[str, str] = {}
    while time.monotonic() < deadline:
        states = {run.info.run_name: run.info.status for run in seen(*where).runs}
        if "RUNNING" not in states.values():
            return states
        time.sleep(0.1)
    raise AssertionError(states)


FRESH = """
import signal, sys, time
import numpy as np
from skpref import VariationalFM
from skpref.tracking import MLflowCallback

class Slow:
    def setup(self, estimator, context): ...
    def teardown(self, estimator, context): ...
    def on_fit_task_begin(self, estimator, context): ...
    def on_fit_task_end(self, estimator, context): ...
    def on_iteration(self, estimator, context, iteration):
        print("begun", flush=True)
        while True:  # `signal.pause` would sleep over a signal that comes just before it
            time.sleep(0.05)

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by all that a shell starts in the background
X = np.random.default_rng(0).standard_normal((24, 2))
callback = MLflowCallback("fresh")
VariationalFM(n_epochs=2).set_callbacks(callback).fit(X, X[:, 0])
print(sorted({"mlflow", "matplotlib", "optuna"} & set(sys.modules)), flush=True)
VariationalFM(n_epochs=5).set_callbacks(callback, Slow()).fit(X, X[:, 0])
"""


@pytest.mark.skipif(os.name != "posix", reason="no signals of POSIX on this system")
def test_a_first_fit_imports_nothing_and_a_real_interruption_ends_the_run(
    tmp_path: Path, seen: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    process = script(FRESH, tmp_path)
    request.addfinalizer(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == "[]\n", process.communicate()[1]
    assert sorted(path.name for path in (tmp_path / "mlruns").iterdir()) == ["artifacts", "mlflow.db"]
    store = f"sqlite:///{tmp_path}/mlruns/mlflow.db"
    assert seen("fresh", store).runs[0].info.status == "FINISHED"
    assert len(seen("fresh", store).models()) == 1
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert err.strip().endswith("KeyboardInterrupt")
    assert [run.info.status for run in seen("fresh", store).runs] == ["FINISHED", "KILLED"]


FORKS = """
import os, signal, sys, time
from skpref.tracking.mlflow import Tracker

tracker = Tracker("forks")
run = tracker.start("parent")
tracker.settle()
child = os.fork()
if not child:
    tracker.start("child", run)
    tracker.settle()
    os.kill(os.getpid(), signal.SIGKILL)
for number in range(20):
    tracker.log_metrics(run, {"score": number}, number)
    tracker.flush(run)
print(os.waitpid(child, 0)[1])
tracker.log_metrics(run, {"last": 1.0})
tracker.end(run)
tracker.start("nobody ends it")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_killed_and_left_alone(home: Path, seen: Callable[..., Any]) -> None:
    process = script(FORKS, home)
    out, err = process.communicate(timeout=120)
    assert (out, err) == ("9\n", "")
    expected = {"parent": "FINISHED", "child": "KILLED", "nobody ends it": "KILLED"}
    assert ended(seen, "forks") == expected
    (run,) = [run for run in seen("forks").runs if run.info.run_name == "parent"]
    assert seen("forks").curve(run, "score") == [(number, float(number)) for number in range(20)]
    assert run.data.metrics["last"] == 1.0


def test_when_it_ends_the_rest_is_kept(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Callable[..., Any]
) -> None:
    monkeypatch.setattr(_Helper, "_one", None)
    with monkeypatch.context() as patch:
        patch.setattr("skpref.tracking.worker_process._BOOT", "input(); input(); raise SystemExit('no memory')")
        tracker = Tracker("kept", spool=tmp_path / "spool")
        run = tracker.start("study")
        with pytest.warns(TrackingWarning, match="the process that sends ended: no memory. The fit goes on") as caught:
            tracker.settle()
        dead = _Helper._one
    tracker.log_metrics(run, {"score": 1.0})
    tracker.end(run)
    assert len(caught) == 1
    assert dead.dead
    assert not _Helper.current().dead  # whoever comes next
    _Helper.end()
    assert sync(tmp_path / "spool", f"sqlite:///{home}/mlruns/mlflow.db").problems == []
    (found,) = seen("kept").runs
    assert (found.info.status, found.data.metrics) == ("FINISHED", {"score": 1.0})


KILLED = """
import os, signal, time
import numpy as np
from skpref import GibbsM3F
from skpref.tracking import MLflowCallback
from skpref.tracking import recorder as _recorder

class Killer:
    def setup(self, estimator, context): ...
    def teardown(self, estimator, context): ...
    def on_fit_task_begin(self, estimator, context): ...
    def on_fit_task_end(self, estimator, context): ...
    def on_iteration(self, estimator, context, iteration):
        if iteration.step == 12:
            time.sleep(0.5)  # for the pipe
            os.kill(os.getpid(), signal.SIGKILL)

_recorder._HELD_SECONDS = 0.0
X = np.array([(user, item) for user in range(6) for item in range(6)])
GibbsM3F(n_sweeps=20, n_factors=2).set_callbacks(MLflowCallback("gone"), Killer()).fit(X, np.arange(36) % 5 + 1)
"""


@pytest.mark.skipif(os.name != "posix", reason="no signals of POSIX on this system")
def test_what_a_killed_fit_has_told_arrives_though_nothing_was_ready_yet(home: Path, seen: Callable[..., Any]) -> None:
    process = script(KILLED, home)
    assert process.communicate(timeout=120)[1] == ""
    assert process.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 60.0
    while not seen("gone").runs and time.monotonic() < deadline:
        time.sleep(0.1)
    assert ended(seen, "gone") == {"GibbsM3F": "KILLED"}
    (run,) = seen("gone").runs
    assert run.data.params["n_sweeps"] == "20"
    assert [step for step, _ in seen("gone").curve(run, "objective")] == list(range(1, 13))


def test_what_was_handed_over_before_a_failure_was_heard_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    class Moody:
        experiment_id, runs = "1", {}

        def send(self, event: Any) -> None:
            sent.append(event["run"])
            if event["run"] == "b":
                raise OSError("away")

    monkeypatch.setattr("skpref.tracking.worker_process._opened", lambda _: Moody())
    desk = _Desk()
    base = {"store": "s", "experiment_id": "1", "runs": {}, "transit": None}

    def answer(run: str, attempt: int, **more: Any) -> Any:
        return desk.answer({**base, "attempt": attempt, "event": {"op": "start", "run": run}, **more}).get("error")

    assert [answer("a", 0, open=True), answer("b", 0), answer("c", 0)] == [None, "away", "away"]
    assert answer("d", 1) is None
    assert sent == ["a", "b", "d"]
    desk.close()
    assert sent == ["a", "b", "d"]  # a store that failed is not asked to end runs, which takes its time


def test_one_that_never_answers_is_given_up(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Callable[..., Any]
) -> None:
    monkeypatch.setattr(_Helper, "_one", None)
    monkeypatch.setattr("skpref.tracking.worker_process._PATIENCE_SECONDS", 0.2)
    with monkeypatch.context() as patch:
        patch.setattr("skpref.tracking.worker_process._BOOT", "import time; time.sleep(600)")
        with (
            pytest.warns(TrackingWarning, match="has not answered for too long") as caught,
            track("silent", "silent", spool=tmp_path / "spool") as run,
        ):
            run.log_metrics({"score": 1.0})
    assert len(caught) == 1
    _Helper.end()
    assert sync(tmp_path / "spool", f"sqlite:///{home}/mlruns/mlflow.db").problems == []
    (found,) = seen("silent").runs
    assert (found.info.status, found.data.metrics) == ("FINISHED", {"score": 1.0})


def test_settings_of_the_environment_reach_it(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with track("before", "environment"):  # so that it runs
        pass
    monkeypatch.setenv("MLFLOW_SQLALCHEMYSTORE_POOL_SIZE", "no number")
    other = f"sqlite:///{tmp_path}/other.db"
    with (
        pytest.warns(TrackingWarning, match="MLFLOW_SQLALCHEMYSTORE_POOL_SIZE"),
        track("a", "b", other, spool=tmp_path),
    ):
        pass


def test_warnings_of_the_fit_are_heard_while_it_works(home: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with track("loud", "loud"):
            warnings.warn("mind this", UserWarning, stacklevel=1)
    assert [str(one.message) for one in caught] == ["mind this"]


def test_where_the_right_is_only_ours_it_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable("sqlite:///a.db")
    assert not usable("databricks://profile")
    monkeypatch.setattr(sys, "executable", "")
    assert not usable("sqlite:///a.db")
