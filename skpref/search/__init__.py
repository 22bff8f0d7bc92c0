"""Search for the settings of a model by cross-validated loss, with Optuna.

What the command ``skpref tune`` runs: data that know how to be split and what a loss is (`Answers`, `Rated`, `Levels`,
`Numbers`, `Classes`), a space of settings (`Space`, `CrowdSpace`, or `Distributions`, of which `default_space` gives
one for each estimator), what they mean (`Builder`, `CrowdBuilder`), and the loop (`search`), which keeps finished
trials when one fails or when the user stops it. `OptunaSearch` is the same loop as a scikit-learn estimator. Folds and
sampler are seeded, so that equal calls give equal trials.
"""

from __future__ import annotations

import time
import warnings
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.exceptions import SkprefError
from skpref.search._answers import Answers, folds, hold_out_of_users
from skpref.search._labelled import Classes, Levels, Numbers
from skpref.search._log import StudyLog
from skpref.search._rated import Rated
from skpref.search._rows import Rows
from skpref.search._spaces import Builder, CrowdBuilder, CrowdSpace, Space
from skpref.search.default_spaces import Distributions, LogInteger, default_space
from skpref.search.loop import (
    SearchResult,
    Step,
    TrialRecord,
    Work,
    enqueue_first,
    open_study,
    require_optuna,
    run_trials,
)
from skpref.search.optuna_search import OptunaSearch
from skpref.search.pruner import RacingPruner
from skpref.search.splitters import WithinUserKFold, WithinUserShuffleSplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from skpref.search._rows import Loss, Parts
    from skpref.search.loop import Settings, Tell
    from skpref.search.loop import Space as AnySpace

__all__ = [
    "Answers",
    "Builder",
    "Classes",
    "CrowdBuilder",
    "CrowdSpace",
    "Distributions",
    "Levels",
    "LogInteger",
    "Numbers",
    "OptunaSearch",
    "Rated",
    "Rows",
    "SearchResult",
    "Space",
    "TrialRecord",
    "WithinUserKFold",
    "WithinUserShuffleSplit",
    "default_space",
    "folds",
    "hold_out_of_users",
    "search",
]


def search(
    data: Rows,
    build: Callable[[Settings], Any],
    space: AnySpace,
    *,
    n_trials: int = 30,
    timeout: float | None = None,
    n_folds: int = 4,
    seed: int = 0,
    journal: str | Path | None = None,
    study_name: str | None = None,
    on_fold: Callable[[int, int, int], None] | None = None,
    on_trial: Callable[[TrialRecord], None] | None = None,
    on_resume: Callable[[int], None] | None = None,
) -> SearchResult:
    """Try settings and keep what came out.

    Each trial fits one model a fold and is scored by the mean loss of the test parts; a trial that is clearly behind
    the best one after the same number of steps (folds, or sweeps of a chain) is given up. The first trial has the
    default settings. A trial that raises is recorded as failed and the search goes on; Ctrl-C ends it and keeps what
    is finished.

    Parameters
    ----------
    data : Rows
        What to learn from, such as `Answers` or `Rated`; keep the hold-out out.
    build : callable
        Settings to an estimator that is not fitted, such as a `Builder`.
    space : Space, CrowdSpace or Distributions
        What to choose from.
    n_trials : int, default=30
        Trials at most; fewer where a space of lists has no more to try.
    timeout : float, default=None
        Seconds after which no further trial begins. None: no limit.
    n_folds : int, default=4
        Folds of the cross-validation.
    seed : int, default=0
        Of folds and sampler.
    journal : path-like or str, default=None
        File, or address of a database such as ``postgresql://...``, in which trials that ended are kept as a study of
        Optuna; None: they are not.
    study_name : str, default=None
        Name of the study in the journal. A search goes on from the trials that are kept under its name, and ends as if
        it had never been stopped; so a name must stand for one set of data, space, folds and seed. None: a new name.
    on_fold : callable, default=None
        Called with (trial, steps done in it, steps in it).
    on_trial : callable, default=None
        Called with the record of every trial that ended, in this run or an earlier one.
    on_resume : callable, default=None
        Called with the number of trials that are kept, if there are any, before the search goes through them.

    Returns
    -------
    SearchResult
        All trials.

    Raises
    ------
    MissingExtraError
        If optuna is not installed.
    DataError
        If the journal cannot be used.

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
    require_optuna()
    parts = data.folds(n_folds, seed)
    per_fold = data.n_stages(lambda: build(space.default()))
    name = study_name or f"skpref-{time.strftime('%Y%m%d-%H%M%S')}-{token_hex(4)}"
    log = None if journal is None else StudyLog(journal, name)
    records: list[TrialRecord] = []

    def run(trial: Any, settings: Settings, tell: Tell) -> None:
        def fits(told: Tell) -> None:
            _cross_validate(data, parts, build(settings), told)

        fits(tell) if log is None else log.run(trial, fits, tell)

    def ended(record: TrialRecord) -> None:
        records.append(record if log is None else log.ended(study.get_trials(deepcopy=False)[record.number], record))
        if on_trial is not None:
            on_trial(records[-1])

    if log is not None and on_resume is not None and len(log):
        on_resume(len(log))
    study = open_study(None, seed=seed, pruner=RacingPruner(per_fold))
    n_trials = enqueue_first(study, space, n_trials) or n_trials
    work = Work(space, run, per_fold * len(parts), on_fold)
    result = run_trials(study, work, n_trials=n_trials, timeout=timeout, on_trial=ended)
    return SearchResult([*records, *result.trials[len(records) :]], result.interrupted)


def _cross_validate(data: Rows, parts: Parts, template: Any, tell: Tell) -> None:
    """Fit and score fold after fold, stage after stage."""
    done = 0
    for fold, (train, test) in enumerate(parts):
        losses = data.take(train).stages(template, data.take(test))
        while (loss := _silently(losses)) is not None:
            if not np.isfinite(loss.value):
                raise SkprefError(f"the {data.metric.title} of a fold is {loss.value}")
            done += 1
            if tell(Step(fold, loss.value, done, loss.trace)):
                return


def _silently(losses: Iterator[Loss]) -> Loss | None:
    """The next loss; a trial may well stop early or see few items, and the final fit tells."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return next(losses, None)
