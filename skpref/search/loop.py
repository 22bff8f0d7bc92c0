"""The one loop of all searches: ask Optuna for settings, evaluate them step by step, prune the poor ones.

It knows neither data nor estimators: what to do with settings is `Work`.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from skpref.exceptions import DataError, MissingExtraError
from skpref.search.sampler import ERROR, SurrogateSampler
from skpref.search.sharing import Queue, is_of_storage, locked, marked, opened, readable

Settings = dict[str, Any]


class Space(Protocol):
    """The settings to choose from."""

    def suggest(self, trial: Any) -> Settings:
        """Draw settings."""


class Step(NamedTuple):
    """What a step of a trial found."""

    fold: int  # of the cross-validation, from 0. A later step of the same fold takes the place of the earlier one
    loss: float  # on the fold's test part
    done: int  # steps that are done with it; a fit that converged early leaves some out


Report = Callable[[Step], bool]  # takes what a step found; true: the trial is pruned


class Work(NamedTuple):
    """What every trial does."""

    space: Space  # what to choose from
    # (trial, settings, report): calls `report` with every step, and returns when all are done or the trial is pruned
    run: Callable[[Any, Settings, Report], None]
    n_steps: int  # how many steps there are
    catch: tuple[type[Exception], ...] = (Exception,)  # errors that make a trial fail without stopping the search
    sign: float = 1.0  # what losses are multiplied by for the study: -1 where it maximises a score


@dataclass(frozen=True)
class TrialRecord:
    """One trial of a search."""

    number: int  # from 0; trial 0 has the default settings
    state: str  # "complete", "pruned" or "failed"
    settings: Settings  # what was tried
    scores: tuple[float, ...]  # loss of each fold that was run; the less the better
    seconds: float
    error: str = ""  # why it failed

    @property
    def score(self) -> float:
        """Mean loss over the folds run; NaN without any."""
        return float(np.mean(self.scores)) if self.scores else float("nan")


def run_trials(
    study: Any,
    work: Work,
    *,
    n_trials: int | None = None,
    timeout: float | None = None,
    on_trial: Callable[[TrialRecord], None] | None = None,
    lock: str | None = None,
) -> list[TrialRecord]:
    """Run trials until the study has `n_trials`, or the time is up; `lock`: of a study that processes share."""
    queue = Queue(study, n_trials, lock)
    records: list[TrialRecord] = []
    began = time.monotonic()
    stops: list[bool] = []

    def seconds_left() -> float:
        return np.inf if timeout is None else timeout - (time.monotonic() - began)

    with quietly():
        study.stop = lambda: stops.append(True)  # by which samplers and callbacks end what optuna runs itself
        try:
            while not stops and (not records or seconds_left() > 0.0):
                if (trial := queue.ask(seconds_left())) is None:
                    break
                try:
                    records.append(_run_one(queue, trial, work))
                finally:
                    queue.release(trial)
                if on_trial is not None:
                    on_trial(records[-1])
        finally:
            del study.stop
    return records


def _run_one(queue: Queue, trial: Any, work: Work) -> TrialRecord:
    """Evaluate a trial, and store how it ended."""
    from optuna.trial import TrialState

    study = queue.study
    try:
        record = _evaluate(trial, work)
    except Exception:
        study.tell(trial, state=TrialState.FAIL)
        raise
    except BaseException:  # a stop says nothing of the trial
        with suppress(Exception):
            queue.put_back(trial)
        raise
    if record.state == "complete":
        study.tell(trial, work.sign * record.score)
        return record
    if record.state == "failed":
        trial.set_user_attr(ERROR, record.error)
    study.tell(trial, state=TrialState.PRUNED if record.state == "pruned" else TrialState.FAIL)
    return record


def _evaluate(trial: Any, work: Work) -> TrialRecord:
    """Evaluate one trial; raise only errors that must end the search."""
    began, error, state = time.monotonic(), "", "complete"
    settings: Settings = {}
    losses: dict[int, float] = {}

    def report(step: Step) -> bool:
        nonlocal state
        losses[step.fold] = step.loss
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a trial of a process that was killed has reported some steps before
            trial.report(work.sign * float(np.mean(list(losses.values()))), step.done)
        if step.done < work.n_steps and trial.should_prune():
            state = "pruned"
        return state == "pruned"

    try:
        settings = work.space.suggest(trial)
        work.run(trial, settings, report)
    except work.catch as problem:
        if is_of_storage(problem):
            raise
        state, error = "failed", f"{type(problem).__name__}: {problem}"
    return TrialRecord(trial.number, state, settings, tuple(losses.values()), time.monotonic() - began, error)


def require_optuna() -> Any:
    """Import optuna."""
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("a search needs Optuna: pip install 'skpref[optuna]'") from error
    return optuna


@contextmanager
def quietly() -> Iterator[None]:
    """Let the callbacks report, not Optuna's log."""
    optuna = require_optuna()
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def open_study(
    name: str | None,
    *,
    storage: Any = None,
    sampler: Any = None,
    pruner: Any = None,
    seed: int | None = None,
    direction: str = "minimize",
    per_second: bool = False,
) -> Any:
    """Make a study, or open the one of that name."""
    optuna = require_optuna()
    sampler = sampler or SurrogateSampler(seed, per_second=per_second)
    options = {"direction": direction, "sampler": sampler, "pruner": pruner or optuna.pruners.NopPruner()}

    def create() -> Any:
        text = os.fspath(storage) if isinstance(storage, str | os.PathLike) else None
        place = storage if text is None or "://" in text else _open_journal(optuna, text)
        return optuna.create_study(storage=place, study_name=name, load_if_exists=name is not None, **options)

    hint = "a storage is a file, or the address of a database such as postgresql+psycopg://user@host/name"
    is_address = isinstance(storage, str | os.PathLike)
    with quietly(), readable(storage, "cannot be used", hint, every=is_address), locked("" if is_address else None):
        return opened(create)


def _open_journal(optuna: Any, path: str) -> Any:
    _mend_journal(Path(path), optuna.storages.journal.JournalFileSymlinkLock(path))
    return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(path))


def _mend_journal(path: Path, lock: Any) -> None:
    """Refuse a file of another kind, and cut off a last line that a full disk left without an end."""
    if not path.is_file() or not path.stat().st_size:
        return
    with path.open("rb+") as file:
        if b'"op_code"' not in file.readline(1000):
            raise DataError(f"storage {path} is a file, but not the journal of a search; choose another path")
        file.seek(-1, os.SEEK_END)
        if file.read() == b"\n":
            return
        lock.acquire()  # another process may be writing the line
        try:
            file.seek(0)
            content = file.read()
            if not content.endswith(b"\n"):
                file.truncate(content.rfind(b"\n") + 1)
        finally:
            lock.release()


def enqueue_first(study: Any, space: Any, n_trials: int | None, lock: str | None) -> int | None:
    """Let a new study begin with the default settings; all settings are tried once where they are few."""
    points = space.points(n_trials) if n_trials is not None else []
    is_new = not study.get_trials(deepcopy=False)
    with quietly():
        for settings in points or ([space.default()] if is_new else []):
            study.enqueue_trial(space.encoded(settings), user_attrs=marked(lock), skip_if_exists=not is_new)
    return len(points) or None
