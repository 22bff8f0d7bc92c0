"""Tracking across processes: a fresh one, one that is interrupted, forked ones, and those of joblib."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpref import VariationalFM
from skpref.exceptions import TrackingWarning
from skpref.tracking import track

pytest.importorskip("sklearn.callback", reason="scikit-learn 1.8 does not hand callbacks on")


def script(text, folder):
    unset = {"MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "PYTHONDONTWRITEBYTECODE"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        cwd=folder,
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(240.0, process.kill)  # its output ends then, so that no test waits for ever
    watchdog.daemon = True
    watchdog.start()
    return process


FRESH = """
import signal, sys, time
import numpy as np
from skpref import VariationalFM
from skpref.exceptions import TrackingWarning
from skpref.tracking import MLflowCallback

class Slow:
    def setup(self, estimator, context): ...
    def teardown(self, estimator, context): ...
    def on_fit_task_begin(self, estimator, context): ...
    def on_fit_task_end(self, estimator, context): ...
    def on_iteration(self, estimator, context, iteration):
        print("begun", flush=True)
        while True:  # `signal.pause` would miss a signal that comes just before it
            time.sleep(0.05)

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell starts in the background
X = np.random.default_rng(0).standard_normal((24, 2))
callback = MLflowCallback("fresh")
print(sorted({"mlflow", "matplotlib", "optuna"} & set(sys.modules)), flush=True)
VariationalFM(max_iter=2).set_callbacks(callback).fit(X, X[:, 0])
VariationalFM(max_iter=5).set_callbacks(callback, Slow()).fit(X, X[:, 0])
"""


@pytest.mark.skipif(os.name != "posix", reason="no signals of POSIX on this system")
def test_mlflow_is_imported_by_the_first_run_and_a_real_interruption_ends_the_run(tmp_path, stored, request):
    process = script(FRESH, tmp_path)
    request.addfinalizer(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == "[]\n", process.communicate()[1]
    assert process.stdout.readline() == "begun\n"
    assert sorted(path.name for path in (tmp_path / "mlruns").iterdir()) == ["artifacts", "mlflow.db"]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert err.strip().endswith("KeyboardInterrupt")
    store = stored("fresh", f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    assert [run.info.status for run in store.runs] == ["FINISHED", "KILLED"]
    assert len(store.models()) == 1
    assert store.curve(store.runs[1], "objective")


FORKS = """
import os
from skpref.tracking import Tracker

tracker = Tracker("forks")
run = tracker.start("parent")
child = os.fork()
name = "child" if child == 0 else "again"
key = tracker.start(name, run)
for number in range(20):
    tracker.log_metrics(key, {"score": number}, number)
    tracker.outbox.flush(key)
tracker.end(key)
if child == 0:
    os._exit(0)
print(os.waitpid(child, 0)[1])
tracker.end(run)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_writes_to_the_same_store(home, stored):
    out, err = script(FORKS, home).communicate(timeout=120)
    assert (out, err) == ("0\n", "")
    assert stored("forks").tree() == [["parent", ["again"], ["child"]]]
    assert {run.info.status for run in stored("forks").runs} == {"FINISHED"}
    for run in stored("forks").children(stored("forks").children()[0]):
        assert stored("forks").curve(run, "score") == [(number, float(number)) for number in range(20)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:A worker stopped")  # joblib replaces workers that an earlier test left idle
@pytest.mark.usefixtures("home")
def test_processes_of_joblib_do_not_try_a_store_that_has_failed(closed_port, tmp_path):
    X = np.random.default_rng(0).standard_normal((24, 2))
    pipeline = make_pipeline(StandardScaler(), VariationalFM(max_iter=2))

    def work():
        with track("block", "failed", closed_port, spool=tmp_path, log_model=False):
            cross_validate(pipeline, X, X[:, 0], cv=4, n_jobs=2)

    with pytest.warns(TrackingWarning, match="cannot be used") as caught:
        work()
    assert sum(issubclass(warning.category, TrackingWarning) for warning in caught) == 1
    assert len(list(tmp_path.glob("*.jsonl"))) == 3  # one for each process
