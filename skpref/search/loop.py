"""The one loop of all searches: ask Optuna for settings, evaluate them step by step, give up the poor ones, keep all.

It knows neither data nor estimators: what to do with settings is `Work`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from skpref.exceptions import DataError, MissingExtraError, SkprefError
from skpref.search.sampler import ERROR, SurrogateSampler

if TYPE_CHECKING:
    from collections.abc import Iterator


Settings = dict[str, Any]


class Space(Protocol):
    """The settings to choose from."""

    def default(self) -> Settings:
        """Return the settings that are tried first."""
        ...

    def suggest(self, trial: Any) -> Settings:
        """Draw settings."""
        ...


class Step(NamedTuple):
    """What a step of a trial found."""

    fold: int  # of the cross-validation, from 0. A later step of the same fold takes the place of the earlier one
    loss: float  # on the fold's test part
    done: int  # steps that are done with it; a fit that converged early leaves some out
    trace: tuple[float, ...] = ()  # objective after each iteration of the fit


Tell = Callable[[Step], bool]  # takes what a step found; true: the trial is to be given up


class Work(NamedTuple):
    """What every trial does."""

    space: Space  # what to choose from
    # (trial, settings, tell): calls `tell` with every step, and returns when all are done or it is told to give up
    run: Callable[[Any, Settings, Tell], None]
    n_steps: int  # how many steps there are
    on_step: Callable[[int, int, int], None] | None = None  # called with (trial, steps done in it, steps in it)
    catch: tuple[type[Exception], ...] = (Exception,)  # what makes a trial fail and lets the search go on
    sign: float = 1.0  # what losses are multiplied by for the study: -1 where it maximises a score


@dataclass(frozen=True)
class TrialRecord:
    """One trial of a search.

    Parameters
    ----------
    number : int
        From 0; trial 0 has the default settings.
    state : {"complete", "pruned", "failed"}
        How it ended.
    settings : dict
        What was tried.
    scores : tuple of float
        Loss of each fold that was run, such as the log-loss in nats per comparison; the less the better.
    seconds : float
        Time taken.
    bounds : tuple of float
        Objective of the first fold's fit after each iteration, such as its lower bound.
    error : str
        Why it failed.

    Examples
    --------
    >>> from skpref.search import TrialRecord
    >>> TrialRecord(0, "complete", {}, (0.5, 0.7), 1.0).score
    0.6
    """

    number: int
    state: str
    settings: Settings
    scores: tuple[float, ...]
    seconds: float
    bounds: tuple[float, ...] = ()
    error: str = ""

    @property
    def score(self) -> float:
        """Mean loss over the folds run; NaN without any."""
        return float(np.mean(self.scores)) if self.scores else float("nan")


@dataclass
class SearchResult:
    """Outcome of a search.

    Parameters
    ----------
    trials : list of TrialRecord
        All that were begun and ended, in order.
    interrupted : bool, default=False
        Whether the user stopped it.

    Examples
    --------
    >>> from skpref.search import SearchResult, TrialRecord
    >>> SearchResult([TrialRecord(n, "complete", {}, (loss,), 1.0) for n, loss in enumerate((0.6, 0.5))]).best.number
    1
    """

    trials: list[TrialRecord] = field(default_factory=list)
    interrupted: bool = False

    @property
    def best(self) -> TrialRecord:
        """The complete trial with the lowest loss.

        Raises
        ------
        SkprefError
            If there is none; the message says why the first one failed.
        """
        complete = [trial for trial in self.trials if trial.state == "complete"]
        if complete:
            return min(complete, key=lambda trial: trial.score)
        if self.interrupted:
            raise SkprefError("stopped before the first trial was finished, so there is nothing to report")
        errors = [trial.error for trial in self.trials if trial.error]
        raise SkprefError(f"none of {len(self.trials)} trials succeeded; the first error was: {errors[0]}")


def run_trials(
    study: Any,
    work: Work,
    *,
    n_trials: int | None,
    timeout: float | None = None,
    on_trial: Callable[[TrialRecord], None] | None = None,
    enough: Callable[[], bool] = bool,
) -> SearchResult:
    """Run trials until there are enough, the time is up, or the user stops them; what is finished is kept."""
    result, began = SearchResult(), time.monotonic()
    stops: list[bool] = []

    def goes_on() -> bool:
        more = n_trials is None or len(result.trials) < n_trials
        in_time = timeout is None or not result.trials or time.monotonic() - began < timeout
        return more and not stops and in_time and not enough()

    with quietly():
        study.stop = lambda: stops.append(True)  # by which samplers and callbacks end what optuna runs itself
        try:
            while goes_on():
                record = _ask_run_tell(study, work)
                result.trials.append(record)
                if on_trial is not None:
                    on_trial(record)
        except KeyboardInterrupt:
            result.interrupted = True
        finally:
            del study.stop
    return result


def _ask_run_tell(study: Any, work: Work) -> TrialRecord:
    from optuna.trial import TrialState

    trial = study.ask()
    try:
        record = _run(trial, work)
    except BaseException:
        study.tell(trial, state=TrialState.FAIL)
        raise
    if record.state == "complete":
        study.tell(trial, work.sign * record.score)
        return record
    if record.state == "failed":
        trial.set_user_attr(ERROR, record.error)
    study.tell(trial, state=TrialState.PRUNED if record.state == "pruned" else TrialState.FAIL)
    return record


def _run(trial: Any, work: Work) -> TrialRecord:
    """One trial; raises nothing but what must end the search."""
    began, error, state = time.monotonic(), "", "complete"
    settings: Settings = {}
    losses: dict[int, float] = {}
    trace: tuple[float, ...] = ()

    def tell(step: Step) -> bool:
        nonlocal state, trace
        losses[step.fold] = step.loss
        trace = step.trace if step.fold == 0 else trace
        _tick(work, trial.number, step.done)
        trial.report(work.sign * float(np.mean(list(losses.values()))), step.done)
        if step.done < work.n_steps and trial.should_prune():
            state = "pruned"
        return state == "pruned"

    try:
        settings = work.space.suggest(trial)
        _tick(work, trial.number, 0)
        work.run(trial, settings, tell)
    except work.catch as problem:
        state, error = "failed", f"{type(problem).__name__}: {problem}"
    return TrialRecord(trial.number, state, settings, tuple(losses.values()), time.monotonic() - began, trace, error)


def _tick(work: Work, number: int, done: int) -> None:
    if work.on_step is not None:
        work.on_step(number, done, work.n_steps)


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
    with quietly():
        if not isinstance(storage, str | os.PathLike):
            return optuna.create_study(storage=storage, study_name=name, load_if_exists=name is not None, **options)
        text = os.fspath(storage)
        try:
            kept = text if "://" in text else _journal(optuna, text)
            return optuna.create_study(storage=kept, study_name=name, load_if_exists=name is not None, **options)
        except Exception as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            hint = "a storage is a file, or the address of a database such as postgresql+psycopg://user@host/name"
            raise DataError(f"storage {_shown(text)} cannot be used: {reason[:300]}; {hint}") from error


def _journal(optuna: Any, path: str) -> Any:
    return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(path))


def _shown(storage: str) -> str:
    """A storage without its password."""
    return re.sub(r"(://[^/@]*):[^/@]*@", r"\1:***@", storage)


def enqueue_first(study: Any, space: Space, n_trials: int | None) -> int | None:
    """Let a new study begin with the default settings, and try all of them once where they are few."""
    points = space.points(n_trials) if hasattr(space, "points") and n_trials is not None else []
    with quietly():
        for settings in points or [space.default()]:
            study.enqueue_trial(space.encoded(settings) if hasattr(space, "encoded") else settings)
    return len(points) or None
