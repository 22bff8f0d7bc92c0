"""Studies that processes share: who opens one, who runs a trial, and which trials are run again after a kill."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import random
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from traceback import walk_tb
from typing import Any, Final, TypeVar

from skpref._text import error_line
from skpref.exceptions import DataError
from skpref.search.policy import POLICY
from skpref.search.sampler import ERROR

Opened = TypeVar("Opened")

_PROCESS: Final = "skpref:process"  # attribute of a trial: what runs it
# What databases say then.
_RACE: Final = re.compile("already exists|unique constraint|duplicate key|duplicated|is locked|deadlock", re.IGNORECASE)
_LIBRARIES: Final = {"optuna", "sqlalchemy", "redis", "grpc"}  # libraries whose errors come from a storage
_UNKNOWN: Final = "?"  # beginning of a process where the system does not say it
_HERE: Final[set[tuple[str | None, int]]] = set()  # locks and numbers of the trials that this process runs


# --------------------------------------------------------------------------------------------------------------- errors
def is_of_storage(error: BaseException) -> bool:
    """Whether an error was raised by the storage of the study, and not by a fit, which Optuna does not call."""
    if isinstance(error, OSError):
        frames = [str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__)]
        return any(name.partition(".")[0] == "optuna" for name in frames)
    return any(cls.__module__.partition(".")[0] in _LIBRARIES for cls in type(error).__mro__)


@contextmanager
def readable(storage: Any, what: str, hint: str, *, every: bool = False) -> Iterator[None]:
    """Turn errors of a storage into one line; `every` error where nothing else runs inside."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        if not every and not is_of_storage(error):
            raise
        shown = re.sub(r"(://[^/@]*):[^/@]*@", r"\1:***@", str(storage))  # without the password
        raise DataError(f"storage {shown} {what}: {reason(error)}; {hint}") from error


def reason(error: BaseException) -> str:
    """Return the message of the innermost library, in a line."""
    while type(error).__name__ == "StorageInternalError" and error.__cause__ is not None:
        error = error.__cause__
    return error_line(error)


# ---------------------------------------------------------------------------------------------------------------- locks
@contextmanager
def locked(name: str | None) -> Iterator[None]:
    """Let one process of this user on this machine at a time work on the studies of a name; None: no lock."""
    file = None if name is None else _lock_file(name)
    try:
        yield
    finally:
        if file is not None:
            os.close(file)  # which frees the lock, as the end of the process does


def _lock_file(name: str) -> int | None:
    """Return a locked file; None where the system has no locks, or the folder of temporary files cannot be used."""
    try:
        import fcntl
    except ImportError:
        return None
    digest = hashlib.sha256(f"{os.getuid()} {name}".encode()).hexdigest()[:16]
    try:
        path = Path(tempfile.gettempdir()) / f"skpref-{digest}.lock"
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def opened(create: Callable[[], Opened]) -> Opened:
    """Open a study by a function; once more where another machine has just made the same tables."""
    for attempt in range(1, POLICY.attempts):
        try:
            return create()
        except Exception as error:
            if not _RACE.search(str(error)) and "Duplicated" not in type(error).__name__:
                raise
            time.sleep(attempt * random.uniform(0.02, 0.1))  # noqa: S311 - only so that two do not meet again
    return create()


# --------------------------------------------------------------------------------------------------------------- trials
def has_ended(trial: Any) -> bool:
    """Whether a trial ended, and was not stopped with its process."""
    return trial.state.name in {"COMPLETE", "PRUNED"} or (trial.state.name == "FAIL" and ERROR in trial.user_attrs)


def marked(lock: str | None) -> dict[str, str]:
    """Return attributes of a trial that name this process, where a study is shared."""
    return {} if lock is None else {_PROCESS: current_process()}


@dataclass(frozen=True)
class Queue:
    """The trials of a study that processes take in turn, `most` in all."""

    study: Any
    most: int | None  # None: no end
    lock: str | None  # name of the lock; None: no other process has the study

    def ask(self, seconds: float) -> Any:
        """Return the next trial; None once enough have ended, or the time is up while others run the last ones."""
        end = time.monotonic() + seconds
        while True:
            with locked(self.lock):
                self._put_back_dead()
                n_ended, n_running = self._counts()
                if self.most is None or n_ended + n_running < self.most:
                    return self.study.ask() if self.lock is None else self._begun()
            if n_ended >= self.most or time.monotonic() > end:
                return None
            time.sleep(POLICY.pause)

    def _begun(self) -> Any:
        """Return a trial that names this process from the start: if it dies now, the trial is known to be dead."""
        if not self.study.get_trials(deepcopy=False, states=(_state("WAITING"),)):
            self.study.enqueue_trial({}, user_attrs=marked(self.lock))
        trial = self.study.ask()
        if trial.user_attrs.get(_PROCESS) != current_process():
            trial.set_user_attr(_PROCESS, current_process())
        _HERE.add((self.lock, trial.number))
        return trial

    def release(self, trial: Any) -> None:
        """Say that this process runs a trial no more, even if the storage could not be told how it ended."""
        _HERE.discard((self.lock, trial.number))

    def put_back(self, trial: Any) -> None:
        """Let a trial be run again, with its number and its settings."""
        self.study._storage.set_trial_state_values(trial._trial_id, _state("WAITING"))  # noqa: SLF001 - nothing public does

    def _put_back_dead(self) -> None:
        """Put back trials of processes that were killed, and trials of this process that nothing runs."""
        from optuna.exceptions import UpdateFinishedTrialError

        if self.lock is None:
            return
        for trial in self.study.get_trials(deepcopy=False, states=(_state("RUNNING"),)):
            process = trial.user_attrs.get(_PROCESS)
            is_left = process == current_process() and (self.lock, trial.number) not in _HERE
            if is_left or (process is not None and _is_gone(process)):
                with suppress(UpdateFinishedTrialError):  # on another machine
                    self.put_back(trial)

    def _counts(self) -> tuple[int, int]:
        """Return how many trials have ended, and how many are running in other processes."""
        trials = self.study.get_trials(deepcopy=False)
        longest = max((trial.duration.total_seconds() for trial in trials if trial.duration), default=0.0)
        running = sum(_is_running(trial, POLICY.patience * max(longest, POLICY.shortest)) for trial in trials)
        return sum(map(has_ended, trials)), 0 if self.lock is None else running


def _is_running(trial: Any, seconds: float) -> bool:
    """Whether a process runs a trial; on another machine, for at most `seconds`."""
    process, begun = trial.user_attrs.get(_PROCESS), trial.datetime_start
    if trial.state.name != "RUNNING" or process is None or begun is None:
        return False
    if process.rsplit(":", 2)[0] == _machine():
        return not _is_gone(process)
    return (dt.datetime.now() - begun).total_seconds() < seconds  # noqa: DTZ005 - as optuna writes it


def _state(name: str) -> Any:
    from optuna.trial import TrialState

    return TrialState[name]


# ------------------------------------------------------------------------------------------------------------ processes
def current_process() -> str:
    """Return machine, number and beginning of this process."""
    return f"{_machine()}:{os.getpid()}:{_beginning(os.getpid())}"


def _is_gone(process: str) -> bool:
    """Whether a process of this machine has ended; of other machines, nothing is known."""
    machine, number, beginning = process.rsplit(":", 2)
    if machine != _machine():
        return False
    now = _beginning(int(number))
    return not now or (_UNKNOWN not in {now, beginning} and now != beginning)


@cache
def _machine() -> str:
    """Return the name of the machine, and of the container, in which numbers of processes mean something."""
    with suppress(OSError):
        return f"{socket.gethostname()} {Path('/proc/self/ns/pid').readlink()}"
    return socket.gethostname()


def _beginning(number: int) -> str:
    """Return when a process began, in ticks of Linux; nothing if there is none of this number."""
    if os.name != "posix":  # where signal 0 would end it
        return _UNKNOWN
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return _UNKNOWN
    try:
        state, *fields = Path(f"/proc/{number}/stat").read_text("utf-8").rpartition(")")[2].split()
    except (OSError, ValueError):
        return _UNKNOWN
    return "" if state in "ZX" else fields[18]
