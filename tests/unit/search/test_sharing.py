"""Studies that processes share: they open one together, none runs a trial too many, and killed ones leave no gap."""

import datetime as dt
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.svm import SVC

from skpref.exceptions import DataError
from skpref.search import OptunaSearch, sharing
from skpref.search.loop import open_study
from skpref.search.sharing import Queue, opened

optuna = pytest.importorskip("optuna")

ROOT = Path(__file__).resolve().parents[3]
X, Y = load_iris(return_X_y=True)
DEAD = 2**22 + 1  # the number of no process: they are smaller
SPACE = {"C": stats.loguniform(1e-3, 1e3)}
CHILD = """
import sys
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.svm import SVC
from skpref.search import OptunaSearch
X, y = load_iris(return_X_y=True)
search = OptunaSearch(SVC(), {"C": stats.loguniform(1e-3, 1e3)}, cv=2, n_trials=6, storage=sys.argv[1], random_state=0,
                      refit=False)
print("ready", flush=True)
sys.stdin.readline()
print(len(search.fit(X, y).cv_results_["params"]))
"""


def started(*arguments):
    command = [sys.executable, "-c", CHILD, *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, **pipes)


def search(storage, n_trials=6):
    asked = OptunaSearch(SVC(), SPACE, cv=2, n_trials=n_trials, storage=storage, random_state=0, refit=False)
    return asked.fit(X, Y)


def results(searched):
    table = searched.cv_results_
    return repr([table["params"], table["state"].tolist(), *(table[f"split{k}_test_score"].tolist() for k in range(2))])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the engine's pool, when the study is forgotten
@pytest.mark.parametrize("address", ["sqlite:///{}", "{}"])
def test_processes_that_start_together_make_one_study(address, tmp_path):
    address = address.format(tmp_path / "study")
    processes = [started(address) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    ended = [process.communicate("\n", timeout=120) for process in processes]
    assert [out for out, _ in ended] == ["6\n", "6\n"], ended
    study = open_study("skpref", storage=address)
    assert len(study.trials) == 6
    assert {trial.state.name for trial in study.trials} <= {"COMPLETE", "PRUNED"}
    assert len({trial.params["C"] for trial in study.trials}) == 6  # the defaults were tried once


class Killed(BaseException):
    """Stands for a kill: nothing is written after it."""


@pytest.mark.parametrize("writes", [1, 3, 9, 14, 23, 30])
def test_a_search_that_is_killed_resumes_to_the_same_trials(tmp_path, monkeypatch, writes):
    journal, left = optuna.storages.journal.JournalFileBackend, [writes]
    append = journal.append_logs

    def killing(self, logs):
        if not left[0]:
            raise Killed
        append(self, logs)
        left[0] -= 1

    path = tmp_path / "study.journal"
    machine = sharing.current_process().rsplit(":", 2)[0]
    with monkeypatch.context() as patch:
        patch.setattr(sharing, "current_process", lambda: f"{machine}:{DEAD}:7")
        patch.setattr(journal, "append_logs", killing)
        with pytest.raises(Killed):
            search(path)
    resumed = search(path)
    assert results(resumed) == results(search(None))
    assert [trial.number for trial in resumed.study_.trials] == list(range(6))


def test_ctrl_c_puts_the_trial_back(monkeypatch, tmp_path):
    fit, fits = SVC.fit, [0]

    def stopped(self, *arguments, **options):
        fits[0] += 1
        if fits[0] == 6:
            raise KeyboardInterrupt
        return fit(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(SVC, "fit", stopped)
        with pytest.raises(KeyboardInterrupt):
            search(tmp_path / "study.journal")
    assert results(search(tmp_path / "study.journal")) == results(search(None))


def test_the_last_trial_is_run_once_and_waited_for(tmp_path):
    path = tmp_path / "study.journal"
    here, there = (open_study("skpref", storage=path) for _ in range(2))
    first = Queue(here, 1, "test").ask(0.0)
    assert Queue(there, 1, "test").ask(0.0) is None  # another one runs it
    waiting = threading.Thread(target=lambda: ended.append(Queue(there, 1, "test").ask(30.0)))
    ended = []
    waiting.start()
    time.sleep(0.05)
    here.tell(first, 0.5)
    waiting.join(10.0)
    assert ended == [None]
    assert len(there.get_trials()) == 1


def test_a_trial_of_a_dead_process_is_run_again_and_one_of_another_machine_is_not(tmp_path, monkeypatch):
    study = open_study("skpref", storage=tmp_path / "study.journal")
    machine = sharing.current_process().rsplit(":", 2)[0]
    for process, number in (("elsewhere:1:7", 0), (f"{machine}:{DEAD}:7", 1)):
        monkeypatch.setattr(sharing, "current_process", lambda process=process: process)
        assert Queue(study, None, "test").ask(0.0).number == number
    monkeypatch.undo()
    assert [Queue(study, None, "test").ask(0.0).number for _ in range(2)] == [1, 2]


def test_another_machine_makes_the_tables_at_the_same_time(monkeypatch):
    monkeypatch.setattr(sharing.time, "sleep", lambda _: None)
    errors = [ValueError("UNIQUE constraint failed: alembic_version"), ValueError("relation already exists")]

    def create():
        if errors:
            raise errors.pop()
        return "study"

    assert opened(create) == "study"
    errors.append(ValueError("no such host"))
    with pytest.raises(ValueError, match="no such host"):
        opened(create)


def test_a_storage_that_fails_during_the_search_is_one_line(tmp_path, monkeypatch):
    tell, told = optuna.Study.tell, [0]

    def lost(self, *arguments, **options):
        told[0] += 1
        if told[0] == 3:
            raise optuna.exceptions.StorageInternalError("An exception is raised during the commit.") from OSError(
                "connection lost\nand more"
            )
        return tell(self, *arguments, **options)

    path = tmp_path / "study.journal"
    with monkeypatch.context() as patch:
        patch.setattr(optuna.Study, "tell", lost)
        with pytest.raises(
            DataError, match=r"^storage .*study.journal failed: connection lost; trials that ended"
        ) as no:
            search(path)
    assert "\n" not in str(no.value)


@pytest.mark.parametrize("lost", [1, 2])  # when a trial begins, and when it ends
def test_a_storage_that_fails_leaves_a_trial_that_the_next_fit_runs(tmp_path, monkeypatch, lost):
    storage = open_study("skpref", storage=tmp_path / "study.journal", direction="maximize")._storage
    set_state, n_calls = storage._backend.append_logs, [0]

    def full(logs):
        n_calls[0] += logs[0]["op_code"] == 6  # SET_TRIAL_STATE_VALUES
        if n_calls[0] == lost:
            raise OSError(28, "No space left on device")
        set_state(logs)

    with monkeypatch.context() as patch:
        patch.setattr(storage._backend, "append_logs", full)
        with pytest.raises(DataError, match=r"^storage .* failed: .*No space left on device; trials that ended before"):
            search(storage)
    assert results(search(storage)) == results(search(None))


def test_parameters_are_checked_before_the_first_trial():
    def fails(*_):
        raise AssertionError

    asked = OptunaSearch(SVC(), {"C": [1.0], "gama": [0.1]}, n_trials=2, callbacks=[fails])
    with pytest.raises(DataError, match=r"a SVC has no parameter 'gama'; did you mean 'gamma'\? it has C, "):
        asked.fit(X, Y)
    assert np.isfinite(asked.set_params(param_distributions={"gamma": [0.1]}, callbacks=None).fit(X, Y).best_score_)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="Linux says when processes began")
def test_a_process_is_told_by_its_beginning_until_it_ends():
    own = sharing._beginning(os.getpid())
    with subprocess.Popen(["sleep", "30"]) as child:  # noqa: S607
        try:
            assert sharing._beginning(child.pid) not in {"", own}
            memory = bytearray(1 << 25)  # what changes as a process runs is no beginning
            assert sharing._beginning(os.getpid()) == own
            del memory
        finally:
            child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert sharing._beginning(child.pid) == ""  # nobody has asked how it ended yet
    assert sharing._beginning(child.pid) == ""


def a_trial(state, seconds_ago, duration=None, **attributes):
    begun = dt.datetime.now() - dt.timedelta(seconds=seconds_ago)  # noqa: DTZ005 - as optuna writes it
    length = None if duration is None else dt.timedelta(seconds=duration)
    return SimpleNamespace(
        state=SimpleNamespace(name=state), user_attrs=attributes, datetime_start=begun, duration=length
    )


@pytest.mark.parametrize(("longest", "patience"), [(100.0, 1000.0), (0.1, 60.0)])
def test_trials_of_other_machines_run_for_ten_times_the_longest(longest, patience):
    elsewhere = {sharing._PROCESS: "elsewhere:7:8"}
    trials = [
        a_trial("COMPLETE", 5000.0, longest, **elsewhere),
        a_trial("PRUNED", 5000.0, longest / 2.0),
        a_trial("FAIL", 5000.0, 0.0),  # stopped
        a_trial("FAIL", 5000.0, 0.0, **{sharing.ERROR: "no"}),
        a_trial("RUNNING", patience - 5.0, **elsewhere),
        a_trial("RUNNING", patience + 5.0, **elsewhere),
        a_trial("RUNNING", 1.0),
        a_trial("RUNNING", 1e6, **{sharing._PROCESS: sharing.current_process()}),
        a_trial("WAITING", 1.0, **elsewhere),
    ]
    study = SimpleNamespace(get_trials=lambda **_: trials)
    assert Queue(study, None, "lock")._counts() == (3, 2)
    assert Queue(study, None, None)._counts() == (3, 0)
