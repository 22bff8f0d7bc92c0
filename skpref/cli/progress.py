"""One line of progress on a terminal, or a line a trial elsewhere."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from skpref.search.loop import TrialRecord

_WIDTH = 24


class Bar:
    """Progress of a search."""

    def __init__(self, stream: TextIO, n_trials: int, timeout: float | None, loss: str = "log-loss") -> None:
        self._stream = stream
        self._n_trials = n_trials
        self._timeout = timeout
        self._loss = loss
        self._began = time.monotonic()
        self._done = self._resumed = 0
        self._best = float("inf")
        self._live = stream.isatty()

    def resume(self, n_trials: int) -> None:
        """Expect trials of an earlier run, which take no time now."""
        self._resumed = n_trials

    def step(self, trial: int, done: float, n_folds: int) -> None:
        """Show that a fold of a trial was finished, or a part of the first one."""
        if done == 0 and trial == self._resumed:  # the time before, such as to open a store, is none of the search
            self._began = time.monotonic()
        if self._live:
            self._draw(self._done + done / n_folds, self._place(trial, self._done + 1), f"fold {done:g}/{n_folds}")

    def trial(self, record: TrialRecord) -> None:
        """Show that a trial ended."""
        self._done += 1
        if record.state == "complete":
            self._best = min(self._best, record.score)
        if self._done <= self._resumed:
            return
        if self._live:
            self._draw(self._done, self._place(record.number, self._done), record.state)
            return
        what = f"{self._loss} {record.score:.4f}" if record.state == "complete" else record.state
        text = f"{self._place(record.number, self._done)}  {what}  best {self._best:.4f}  {self._times(self._done)}"
        print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Clear the line."""
        if self._live:
            self._stream.write("\r" + " " * self._columns() + "\r")
            self._stream.flush()

    def _place(self, number: int, place: int) -> str:
        """Return the number of a trial, as in the report and in the files, and its place from 1."""
        return f"trial {number} ({min(place, self._n_trials)} of {self._n_trials})"

    def _draw(self, done: float, place: str, state: str) -> None:
        full = round(_WIDTH * min(done / self._n_trials, 1.0))
        bar = "#" * full + "." * (_WIDTH - full)
        best = f"best {self._best:.4f}  " if self._best < float("inf") else ""
        text = f"[{bar}] {place}  {state}  {best}{self._times(done)}"
        width = self._columns()
        self._stream.write("\r" + text[:width].ljust(width))
        self._stream.flush()

    def _times(self, done: float) -> str:
        """Return time left (at the rate so far, within the timeout), rate and time elapsed."""
        elapsed = time.monotonic() - self._began
        run = done - self._resumed
        if run <= 0:
            return f"{clock(elapsed)} elapsed"
        left = elapsed / run * (self._n_trials - done)
        if self._timeout is not None:
            left = min(left, max(self._timeout - elapsed, 0.0))
        # The time left comes first: a narrow terminal cuts the end.
        return f"ETA {clock(left)}  {60.0 * run / max(elapsed, 1e-9):.1f} trials/min  {clock(elapsed)} elapsed"

    def _columns(self) -> int:
        return shutil.get_terminal_size((100, 24)).columns - 1


def clock(seconds: float) -> str:
    """Return a duration as m:ss or h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
