"""The command stopped by real signals: finished trials are kept and reported, and with a storage it resumes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from skpref.cli import main

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")

ROOT = Path(__file__).resolve().parents[3]
EXPERIMENT = """
[data]
file = "answers.csv"
[search]
trials = 3
folds = 2
seed = 3
storage = "study.journal"
[tracking]
mlflow = false
[output]
folder = "out"
"""
# What a child does: run commands, of which each sends its own process a signal at the n-th call of a function.
CHILD = """
import contextlib, io, json, os, pkgutil, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
from unittest import mock
from skpref.cli import main

for name, (target, number, sent, command) in json.loads(sys.argv[1]).items():
    home, _, attribute = target.rpartition(".")
    owner = pkgutil.resolve_name(home)
    whole, calls = getattr(owner, attribute), []

    def stopped(*arguments, **options):
        calls.append(0)
        out = whole(*arguments, **options)
        if len(calls) == number:
            os.kill(os.getpid(), sent)
        return out

    out, err = io.StringIO(), io.StringIO()
    with mock.patch.object(owner, attribute, stopped), contextlib.redirect_stdout(out):
        with contextlib.redirect_stderr(err):
            code = main(command)
    print(json.dumps([name, code, out.getvalue(), err.getvalue()]), flush=True)
"""
LOSS = "skpref.cli.tasks.figures.cross_entropy"  # of a fold
REFIT = "skpref.cli.tune:Job._evaluate"
FINAL = "skpref.cli.tasks.base:Task.final"
REPORT = "skpref.cli.tune.write_files"


TUNE = ["tune", "answers.csv", "--trials", "3", "--folds", "2", "--no-mlflow", "--out"]
RUN = ["run", "plan.toml", "--json"]
PLANS = {
    "between": (LOSS, 4, signal.SIGINT, [*TUNE, "between", "--storage", "a.journal"]),
    "inside": (LOSS, 5, signal.SIGINT, [*TUNE, "inside"]),
    "first": (LOSS, 1, signal.SIGINT, [*TUNE, "first"]),
    "refit": (REFIT, 1, signal.SIGINT, [*TUNE, "refit", "--storage", "b.journal"]),
    "final": (FINAL, 1, signal.SIGINT, [*TUNE, "final"]),
    "report": (REPORT, 1, signal.SIGINT, [*TUNE, "report"]),
    "fit": (FINAL, 1, signal.SIGINT, ["fit", "answers.csv", "--out", "m.skpref"]),
    "killed": (LOSS, 5, signal.SIGKILL, RUN),  # in the third trial
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder, what each command but the last one came to, and how the process ended."""
    folder = tmp_path_factory.mktemp("stops")
    rng = np.random.default_rng(0)
    pairs = [rng.choice(6, 2, replace=False).tolist() for _ in range(40)]
    rows = [f"{a},{b},{int(a + rng.normal() > b)}" for a, b in pairs]
    (folder / "answers.csv").write_text("left,right,label\n" + "\n".join(rows) + "\n", "utf-8")
    (folder / "plan.toml").write_text(EXPERIMENT, "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(PLANS)],
        capture_output=True,
        cwd=folder,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert "Traceback" not in done.stderr, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return folder, {name: rest for name, *rest in found}, done.returncode


def result(text):
    found = json.loads(text)
    del found["files"]
    return found


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_an_experiment_that_was_killed_goes_on(stopped, capsys, monkeypatch):
    folder, found, code = stopped
    assert code == -signal.SIGKILL
    assert "killed" not in found
    assert names(folder / "out") == set()
    monkeypatch.chdir(folder)
    assert main(RUN) == 0
    out, err = capsys.readouterr()
    assert "trial 1:" not in err
    assert "trial 2:" in err
    first = result(out)
    assert main([*RUN, "--out", "again"]) == 0
    out, err = capsys.readouterr()
    assert "trial 3:" not in err
    assert result(out) == first
    # The same without a stop.
    (folder / "plan.toml").write_text(EXPERIMENT.replace("study.journal", "other.journal"), "utf-8")
    assert main(RUN) == 0
    out, err = capsys.readouterr()
    assert "trial 0:" in err
    whole = result(out)
    for one in (first, whole):
        for trial in one["trials"]:
            del trial["seconds"]
    assert whole == first


def test_ctrl_c_keeps_and_tells_what_is_finished(stopped):
    folder, found, _ = stopped
    for name in ("between", "inside"):
        code, out, err = found[name]
        assert code == 0
        assert f"Search (stopped by the user): {1 if name == 'between' else 2} trial" in out
        assert "Stopped early: the results are those of the finished trials." in out
        assert names(folder / name) >= {"model.skpref", "trials.csv", "ranking.csv"}
    code, out, err = found["first"]
    assert code == 130
    assert "skpref: stopped before the first trial was finished" in err.splitlines()[-1]
    for name in ("refit", "final", "report"):
        code, out, err = found[name]
        assert code == 130
        assert err.splitlines()[-1] == "skpref: stopped"
        assert len((folder / name / "trials.csv").read_text("utf-8").splitlines()) == 4
        assert not [path for path in names(folder / name) if path.endswith(".tmp")]
    code, out, err = found["fit"]
    assert code == 130
    assert err == "skpref: stopped during the fit; m.skpref was not written\n"
    assert not (folder / "m.skpref").exists()
