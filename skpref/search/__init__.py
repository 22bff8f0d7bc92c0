"""Search for the settings of a model by cross-validated log-loss, with Optuna.

What the command ``skpref tune`` runs: a space of settings (`Space`, `CrowdSpace`), what they mean (`Builder`,
`CrowdBuilder`), and the loop (`search`), which keeps finished trials when one fails or when the user stops it. Folds
and sampler are seeded, so that equal calls give equal trials.
"""

from __future__ import annotations

import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from skpref.exceptions import MissingExtraError, SkprefError
from skpref.metrics import cross_entropy
from skpref.search._answers import Answers, folds, hold_out_of_users
from skpref.search._spaces import Builder, CrowdBuilder, CrowdSpace, Space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from skpref._typing import IntArray
    from skpref.search._spaces import Settings

__all__ = [
    "Answers",
    "Builder",
    "CrowdBuilder",
    "CrowdSpace",
    "SearchResult",
    "Space",
    "TrialRecord",
    "folds",
    "hold_out_of_users",
    "search",
]

_STARTUP_TRIALS = 8  # random ones, before the sampler has something to go by


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
        Log-loss of each fold that was run, in nats per comparison.
    seconds : float
        Time taken.
    bounds : tuple of float
        Lower bound after each pass of the first fold's fit.
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
        """Mean log-loss over the folds run; NaN without any."""
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
        """The complete trial with the lowest log-loss.

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


def search(
    answers: Answers,
    build: Callable[[Settings], Any],
    space: Space | CrowdSpace,
    *,
    n_trials: int = 30,
    timeout: float | None = None,
    n_folds: int = 4,
    seed: int = 0,
    journal: str | Path | None = None,
    on_fold: Callable[[int, int, int], None] | None = None,
    on_trial: Callable[[TrialRecord], None] | None = None,
) -> SearchResult:
    """Try settings and keep what came out.

    Each trial fits one model a fold and is scored by the mean log-loss of the test parts; a trial that is worse than
    the median of the earlier ones after the same number of folds is given up. The first trial has the default settings.
    A trial that raises is recorded as failed and the search goes on; Ctrl-C ends it and keeps what is finished.

    Parameters
    ----------
    answers : Answers
        Comparisons to learn from; keep the hold-out out.
    build : callable
        Settings to an estimator that is not fitted, such as a `Builder`.
    space : Space or CrowdSpace
        What to choose from.
    n_trials : int, default=30
        Trials at most.
    timeout : float, default=None
        Seconds after which no further trial begins. None: no limit.
    n_folds : int, default=4
        Folds of the cross-validation.
    seed : int, default=0
        Of folds and sampler.
    journal : path-like, default=None
        File in which Optuna keeps the study; None: in memory.
    on_fold : callable, default=None
        Called with (trial, folds done in it, folds in it).
    on_trial : callable, default=None
        Called with the record of every trial that ended.

    Returns
    -------
    SearchResult
        All trials.

    Raises
    ------
    MissingExtraError
        If optuna is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.search import Answers, Builder, Space, search
    >>> X = np.array([["a", "b"], ["b", "c"], ["a", "c"], ["b", "a"]] * 5)
    >>> answers = Answers(X, np.tile([1.0, 1.0, 1.0, 0.0], 5), np.ones(20))
    >>> result = search(answers, Builder(None), Space(has_features=False), n_trials=2, n_folds=2)
    >>> [trial.state for trial in result.trials]
    ['complete', 'complete']
    """
    optuna = _optuna()
    work = _Work(answers, folds(answers, n_folds, seed), build, space, on_fold)
    result, began = SearchResult(), time.monotonic()
    with _quietly(optuna):
        study = _study(optuna, journal, seed)
        study.enqueue_trial(space.default())
        try:
            while len(result.trials) < n_trials and (timeout is None or time.monotonic() - began < timeout):
                record = _ask_run_tell(optuna, study, work)
                result.trials.append(record)
                if on_trial is not None:
                    on_trial(record)
        except KeyboardInterrupt:
            result.interrupted = True
    return result


@dataclass(frozen=True, eq=False)
class _Work:
    """What every trial does."""

    answers: Answers
    parts: list[tuple[IntArray, IntArray]]
    build: Callable[[Settings], Any]
    space: Space | CrowdSpace
    on_fold: Callable[[int, int, int], None] | None

    def folds(self, settings: Settings) -> Iterator[tuple[float, tuple[float, ...]]]:
        """Fit and score fold after fold: log-loss, and the fit's bounds."""
        template = self.build(settings)
        for train, test in self.parts:
            given, asked = self.answers.take(train), self.answers.take(test)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a trial may well stop early or see few items; the final fit tells
                model = clone(template).fit(given.X, given.y, sample_weight=given.weight)
                p = model.predict_proba(asked.X)[:, 1]
            loss = cross_entropy(asked.y, p, asked.weight)
            if not np.isfinite(loss):
                raise SkprefError(f"the log-loss of a fold is {loss}")
            yield loss, tuple(model.lower_bounds_)


def _run(trial: Any, work: _Work) -> TrialRecord:
    """One trial; raises nothing but what must end the search."""
    began, error, state = time.monotonic(), "", "complete"
    settings: Settings = {}
    scores: list[float] = []
    bounds: tuple[float, ...] = ()
    try:
        settings = work.space.suggest(trial)
        _tick(work, trial.number, 0)
        for loss, curve in work.folds(settings):
            scores.append(loss)
            bounds = bounds or curve
            _tick(work, trial.number, len(scores))
            trial.report(float(np.mean(scores)), len(scores))
            if len(scores) < len(work.parts) and trial.should_prune():
                state = "pruned"
                break
    except Exception as problem:  # noqa: BLE001 - a trial that fails is an outcome, not the end
        state, error = "failed", f"{type(problem).__name__}: {problem}"
    return TrialRecord(trial.number, state, settings, tuple(scores), time.monotonic() - began, bounds, error)


def _tick(work: _Work, number: int, done: int) -> None:
    if work.on_fold is not None:
        work.on_fold(number, done, len(work.parts))


def _ask_run_tell(optuna: Any, study: Any, work: _Work) -> TrialRecord:
    states = optuna.trial.TrialState
    trial = study.ask()
    try:
        record = _run(trial, work)
    except KeyboardInterrupt:
        study.tell(trial, state=states.FAIL)
        raise
    if record.state == "complete":
        study.tell(trial, record.score)
    else:
        study.tell(trial, state=states.PRUNED if record.state == "pruned" else states.FAIL)
    return record


def _study(optuna: Any, journal: str | Path | None, seed: int) -> Any:
    storage = None
    if journal is not None:
        storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(journal)))
    sampler = optuna.samplers.TPESampler(n_startup_trials=_STARTUP_TRIALS, seed=seed)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=1)
    name = f"skpref-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 10**9}"
    return optuna.create_study(direction="minimize", storage=storage, sampler=sampler, pruner=pruner, study_name=name)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("a search needs Optuna: pip install 'skpref[optuna]'") from error
    return optuna


@contextmanager
def _quietly(optuna: Any) -> Iterator[None]:
    """Let the callbacks report, not Optuna's log."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
