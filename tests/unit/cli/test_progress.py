"""Progress of a search: one line on a terminal, a line for each trial elsewhere, with the numbers of the report."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from skpref.cli import main
from skpref.cli.progress import Bar, clock
from skpref.search.loop import TrialRecord

if TYPE_CHECKING:
    from collections.abc import Callable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def bar_on(make: Callable[[], io.StringIO]) -> str:
    stream = make()
    bar = Bar(stream, 2, timeout=60.0)
    bar.step(0, 0, 2)
    bar.step(0, 1, 2)
    bar.trial(TrialRecord(0, "complete", {}, (0.5,), 0.1))
    bar.trial(TrialRecord(1, "pruned", {}, (0.9,), 0.1))
    bar.close()
    return stream.getvalue()


def test_the_bar_is_one_line_on_a_terminal() -> None:
    text = bar_on(Terminal)
    assert "\n" not in text
    assert "[######..................] trial 0 (1 of 2)  fold 1/2" in text
    assert "best 0.5000" in text
    assert "ETA 0:0" in text
    assert text.endswith("\r")


@pytest.mark.parametrize(("timeout", "left"), [(None, ["0:30", "10:30", "2:00"]), (50.0, ["0:30", "0:05", "0:00"])])
def test_times_of_the_bar_are_those_of_this_run(
    monkeypatch: pytest.MonkeyPatch, timeout: float | None, left: list[str]
) -> None:
    now, stream = [0.0], Terminal()
    monkeypatch.setattr("skpref.cli.progress.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((120, 24)))
    bar = Bar(stream, 4, timeout=timeout)
    bar.resume(1)
    bar.trial(TrialRecord(0, "complete", {}, (0.5,), 0.1))
    for now[0], done in ((10.0, 0), (16.0, 1), (55.0, 0.4)):
        bar.step(1, done, 2)
    now[0] = 70.0
    bar.trial(TrialRecord(1, "pruned", {}, (0.1,), 0.1))
    lines = stream.getvalue().split("\r")[1:]
    assert {len(line) for line in lines} == {119}
    trial = "trial 1 (2 of 4)"
    assert [line.rstrip() for line in lines] == [
        f"[######..................] {trial}  fold 0/2  best 0.5000  0:00 elapsed",
        f"[#########...............] {trial}  fold 1/2  best 0.5000  ETA {left[0]}  5.0 trials/min  0:06 elapsed",
        f"[#######.................] {trial}  fold 0.4/2  best 0.5000  ETA {left[1]}  0.3 trials/min  0:45 elapsed",
        f"[############............] {trial}  pruned  best 0.5000  ETA {left[2]}  1.0 trials/min  1:00 elapsed",
    ]


def test_the_bar_is_a_line_a_trial_elsewhere() -> None:
    lines = bar_on(io.StringIO).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("trial 0 (1 of 2)  log-loss 0.5000  best 0.5000")
    assert "pruned" in lines[1]


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (75, "1:15"), (3725, "1:02:05")])
def test_durations(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_trials_have_the_numbers_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    rows = [f"i{k % 5},i{(k + 1 + k % 3) % 5},{int(k % 10 < 8)}" for k in range(60)]
    Path("votes.csv").write_text("\n".join(["left,right,label", *rows]), "utf-8")
    assert main(["tune", "votes.csv", "--trials", "2", "--folds", "2", "--no-mlflow"]) == 0
    out, err = capsys.readouterr()
    losses = dict(re.findall(r"^trial (\d+) \(\d of 2\)  log-loss (\S+)", err, re.MULTILINE))
    best = re.search(r"best: trial (\d+), cross-validated log-loss (\S+)", out)
    assert best is not None
    assert losses[best[1]] == best[2]
