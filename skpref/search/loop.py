"""The one loop of all searches: ask Optuna for settings, evaluate them step by step, prune the poor ones.

It knows neither data nor estimators: a function of a trial returns its score.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from skpref._warn import importing
from skpref.exceptions import DataError
from skpref.search.sampler import ERROR, SurrogateSampler
from skpref.search.sharing import Queue, is_of_storage, locked, marked, opened, readable

Settings = dict[str, Any]


def run_trials(
    study: Any,
    evaluate: Callable[[Any], float],
    *,
    catch: tuple[type[Exception], ...] = (Exception,),
    n_trials: int | None = None,
    timeout: float | None = None,
    on_trial: Callable[[Any], None],
    lock: str | None = None,
) -> None:
    """Run trials until the study has `n_trials`, or the time is up; `lock`: of a study that processes share.

    A trial is pruned where its evaluation raises TrialPruned, and fails, without ending the search, where it raises an
    error to `catch`.
    """
    queue = Queue(study, n_trials, lock)
    began = time.monotonic()
    stops: list[bool] = []

    def seconds_left() -> float:
        return np.inf if timeout is None else timeout - (time.monotonic() - began)

    with quietly():
        study.stop = lambda: stops.append(True)  # by which samplers and callbacks end what optuna runs itself
        try:
            while (trial := queue.ask(seconds_left())) is not None:
                try:
                    _run_one(queue, trial, evaluate, catch)
                finally:
                    queue.release(trial)
                on_trial(study.get_trials(deepcopy=False)[trial.number])
                if stops or seconds_left() <= 0.0:
                    break
        finally:
            del study.stop


def _run_one(queue: Queue, trial: Any, evaluate: Callable[[Any], float], catch: tuple[type[Exception], ...]) -> None:
    """Evaluate a trial, and store how it ended; raise only errors that must end the search."""
    from optuna import TrialPruned
    from optuna.trial import TrialState

    study = queue.study
    try:
        score = evaluate(trial)
    except TrialPruned:
        study.tell(trial, state=TrialState.PRUNED)
    except Exception as problem:
        ends = not isinstance(problem, catch) or is_of_storage(problem)
        if not ends:
            trial.set_user_attr(ERROR, f"{type(problem).__name__}: {problem}")
        study.tell(trial, state=TrialState.FAIL)
        if ends:
            raise
    except BaseException:  # a stop says nothing of the trial
        with suppress(Exception):
            queue.put_back(trial)
        raise
    else:
        study.tell(trial, score)


def require_optuna() -> Any:
    """Import optuna."""
    with importing("a search needs Optuna: pip install 'skpref[optuna]'"):
        import optuna
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
        place = storage
        if is_address and "://" not in (path := os.fspath(storage)):
            _mend_journal(Path(path), optuna.storages.journal.JournalFileSymlinkLock(path))
            place = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(path))
        return optuna.create_study(storage=place, study_name=name, load_if_exists=name is not None, **options)

    hint = "a storage is a file, or the address of a database such as postgresql+psycopg://user@host/name"
    is_address = isinstance(storage, str | os.PathLike)
    with quietly(), readable(storage, "cannot be used", hint, every=is_address), locked("" if is_address else None):
        return opened(create)


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


def enqueue_first(study: Any, space: Any, n_trials: int | None, lock: str | None) -> None:
    """Let a new study begin with the default settings; all settings are tried once where they are few."""
    points = space.points(n_trials) if n_trials is not None else []
    is_new = not study.get_trials(deepcopy=False)
    with quietly():
        for settings in points or ([space.default()] if is_new else []):
            study.enqueue_trial(space.encoded(settings), user_attrs=marked(lock), skip_if_exists=not is_new)
