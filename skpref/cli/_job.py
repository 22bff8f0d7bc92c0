"""The main job: hold-out, search, refit, evaluation, ranking and files, all of it tracked."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit

from skpref.cli._report import write_trials
from skpref.exceptions import DataError
from skpref.metrics import calibration, cross_entropy, pair_accuracy
from skpref.search import Builder, CrowdBuilder, CrowdSpace, SearchResult, Space, hold_out_of_users, search

if TYPE_CHECKING:
    from pathlib import Path

    from skpref._typing import Array
    from skpref.cli._inputs import Problem
    from skpref.cli._progress import Bar
    from skpref.gp.crowd import CrowdGPPL
    from skpref.gp.pairwise import GPPLClassifier
    from skpref.metrics import Calibration
    from skpref.search import Answers, TrialRecord
    from skpref.tracking.mlflow import Tracker

_FEWEST_GROUPS = 5  # so that a fifth of them can be held out
_BINS = 10
_ANNOTATOR_DRAWS = 1_000_000  # of all users together, so that reports on a hundred thousand of them take a minute


@dataclass(frozen=True)
class Options:
    """What the command line asks of a job.

    Parameters
    ----------
    model : {"gppl", "crowd"}
        What to learn.
    trials : int
        Trials at most.
    timeout : float or None
        Seconds for the search.
    out : Path
        Folder of the results.
    seed : int
        Of everything random.
    folds : int
        Folds of the cross-validation.
    max_inducing : int
        Inducing points at most.
    holdout : float
        Share of the comparisons (or groups) that is held out.
    """

    model: str
    trials: int
    timeout: float | None
    out: Path
    seed: int
    folds: int
    max_inducing: int
    holdout: float


@dataclass(frozen=True, eq=False)
class Figures:
    """How well probabilities did on the hold-out.

    Parameters
    ----------
    accuracy, log_loss : float
        Share predicted right, ties left out; nats per comparison.
    calibration : Calibration
        With the expected calibration error.
    """

    accuracy: float
    log_loss: float
    calibration: Calibration

    @classmethod
    def of(cls, answers: Answers, p: Array) -> Figures:
        """Score probabilities.

        Parameters
        ----------
        answers : Answers
            What was answered.
        p : ndarray of shape (P,)
            Probabilities that the left item is preferred.

        Returns
        -------
        Figures
            The scores.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # accuracy is undefined, NaN, when all answers are ties
            accuracy = pair_accuracy(answers.y, p, answers.weight)
        loss = cross_entropy(answers.y, p, answers.weight)
        return cls(accuracy, loss, calibration(answers.y, p, _BINS, answers.weight))

    def metrics(self, prefix: str) -> dict[str, float]:
        """Return the figures by name.

        Parameters
        ----------
        prefix : str
            Put before each name.

        Returns
        -------
        dict of str to float
            For the tracker.
        """
        error = self.calibration.expected_calibration_error
        return {f"{prefix}accuracy": self.accuracy, f"{prefix}log_loss": self.log_loss, f"{prefix}ece": error}


@dataclass(frozen=True, eq=False)
class Outcome:
    """All that a report tells.

    Parameters
    ----------
    problem : Problem
        The data.
    n_train, n_test : int
        Comparisons on the two sides of the hold-out.
    result : SearchResult
        Trials.
    figures : dict of str to Figures
        On the hold-out: tuned, default, coin flip.
    model : GPPLClassifier or CrowdGPPL
        Fitted with everything.
    ranking : Ranking
        Of all items; by a crowd's consensus.
    annotators : dict of str to ndarray, default=None
        Columns of a crowd's report on its users.
    """

    problem: Problem
    n_train: int
    n_test: int
    result: SearchResult
    figures: dict[str, Figures]
    model: GPPLClassifier | CrowdGPPL
    ranking: Any
    annotators: dict[str, Any] | None = None


def split(answers: Answers, holdout: float, seed: int) -> tuple[Answers, Answers]:
    """Split comparisons once: by groups where there are some, else with the labels in proportion.

    Where users are known and there are no groups, everyone in the hold-out has other comparisons to learn from.

    Parameters
    ----------
    answers : Answers
        All.
    holdout : float
        Share held out.
    seed : int
        Of the shuffle.

    Returns
    -------
    train, test : Answers
        The two parts.
    """
    splitter: Any
    target = answers.y
    if answers.groups is not None:
        n_groups = len(set(answers.groups.tolist()))
        if n_groups < _FEWEST_GROUPS:
            raise DataError(f"{n_groups} groups; at least {_FEWEST_GROUPS} are needed to hold some of them out")
        splitter = GroupShuffleSplit(1, test_size=holdout, random_state=seed)
    elif answers.has_users:
        rows = hold_out_of_users(answers, holdout, seed)
        return answers.take(rows[0]), answers.take(rows[1])
    elif _can_stratify(target, holdout):
        splitter = StratifiedShuffleSplit(1, test_size=holdout, random_state=seed)
    else:
        splitter = ShuffleSplit(1, test_size=holdout, random_state=seed)
    train, test = next(splitter.split(answers.X, target, answers.groups))
    return answers.take(np.sort(train)), answers.take(np.sort(test))


def _can_stratify(y: Array, holdout: float) -> bool:
    values, counts = np.unique(y, return_counts=True)
    return 2 <= values.size <= 3 and counts.min() >= 2 and min(holdout, 1.0 - holdout) * y.size >= values.size


def _searched(problem: Problem, options: Options) -> tuple[Any, Any]:
    """What turns settings into estimators, and the settings."""
    if problem.user is None:
        n_items = problem.n_items if problem.items is not None else 1
        return Builder(problem.items, options.seed), Space(problem.items is not None, n_items, options.max_inducing)
    space = CrowdSpace(
        n_items=problem.n_items,
        n_users=problem.n_users,
        has_features=problem.items is not None,
        has_user_features=problem.users is not None,
        has_ties=bool((problem.answers.y == 0.5).any()),
        has_sides=problem.has_sides,
        max_inducing=options.max_inducing,
    )
    return CrowdBuilder(problem.items, problem.users, options.seed), space


def _annotators(model: CrowdGPPL, seed: int) -> dict[str, Any]:
    """Columns of the report on users, the one nearest to the consensus first."""
    draws = int(np.clip(_ANNOTATOR_DRAWS // model.user_ids_.size, 100, 500))
    report = model.annotators(n_samples=draws, random_state=seed)
    # A data frame where pandas is installed, else a record.
    columns = report.columns() if callable(report.columns) else {name: report[name] for name in report.columns}
    order = np.argsort(-np.asarray(columns["accuracy"]), kind="stable")
    return {name: np.asarray(column)[order] for name, column in columns.items()}


class Job:
    """The main job.

    Parameters
    ----------
    problem : Problem
        Data.
    options : Options
        How much to do.
    tracker : Tracker or None
        Where to keep runs.
    bar : Bar
        Progress.
    """

    def __init__(self, problem: Problem, options: Options, tracker: Tracker | None, bar: Bar) -> None:
        self.problem = problem
        self.options = options
        self._tracker = tracker
        self._bar = bar
        self._build, self._space = _searched(problem, options)
        self._parent = ""
        self._open_trial = ""

    def run(self) -> Outcome:
        """Do it.

        Returns
        -------
        Outcome
            For the report.
        """
        self._start_tracking()
        try:
            outcome = self._run()
        except BaseException as error:
            self._end_tracking("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
            raise
        self._track_outcome(outcome)
        return outcome

    def _run(self) -> Outcome:
        options, everything = self.options, self.problem.answers
        train, test = split(everything, options.holdout, options.seed)
        result = self._search(train)
        write_trials(result.trials, options.out / "trials.csv")  # now: what follows may be interrupted
        if result.interrupted and not any(trial.state == "complete" for trial in result.trials):
            raise KeyboardInterrupt("stopped before the first trial was finished, so there is nothing to report")
        best, default = result.best, result.trials[0]
        self._say("refitting without the hold-out")
        figures = {"tuned": self._evaluate(best.settings, train, test)}
        if default.state == "complete" and best is not default:
            figures["default settings"] = self._evaluate(default.settings, train, test)
        figures["coin flip"] = Figures.of(test, np.full(test.size, 0.5))
        self._say("fitting the final model with all comparisons")
        model = self._build(best.settings).fit(everything.X, everything.y, sample_weight=everything.weight)
        annotators = None if self.problem.user is None else _annotators(model, options.seed)
        return Outcome(self.problem, train.size, test.size, result, figures, model, model.rank(), annotators)

    def _search(self, train: Answers) -> SearchResult:
        options = self.options
        try:
            return search(
                train,
                self._build,
                self._space,
                n_trials=options.trials,
                timeout=options.timeout,
                n_folds=options.folds,
                seed=options.seed,
                journal=options.out / "study.journal",
                on_fold=self._on_fold,
                on_trial=self._on_trial,
            )
        finally:
            self._bar.close()
            self._close_trial()

    def _evaluate(self, settings: dict[str, Any], train: Answers, test: Answers) -> Figures:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the final fit says the same again
            model = self._build(settings).fit(train.X, train.y, sample_weight=train.weight)
        return Figures.of(test, model.predict_proba(test.X)[:, 1])

    @staticmethod
    def _say(text: str) -> None:
        print(f"{text} ...", file=sys.stderr, flush=True)

    # ------------------------------------------------------------------------------------------------------ tracking
    def _start_tracking(self) -> None:
        if self._tracker is None:
            return
        self._say("opening the MLflow store")
        self._parent = self._tracker.start("tune")
        self._tracker.log_params(self._parent, self.problem.describe())
        options = {f"job.{name}": value for name, value in vars(self.options).items()}
        self._tracker.log_params(self._parent, options)

    def _on_fold(self, trial: int, done: int, n_folds: int) -> None:
        self._bar.fold(trial, done, n_folds)
        if self._tracker is not None and not self._open_trial:
            self._open_trial = self._tracker.start(f"trial {trial}", self._parent)

    def _on_trial(self, record: TrialRecord) -> None:
        self._bar.trial(record)
        if self._tracker is None:
            return
        run = self._open_trial or self._tracker.start(f"trial {record.number}", self._parent)
        self._open_trial = ""
        self._tracker.log_params(run, record.settings)
        self._tracker.set_tags(run, {"state": record.state} | ({"error": record.error} if record.error else {}))
        self._tracker.log_curve(run, "fold_log_loss", record.scores)
        self._tracker.log_curve(run, "lower_bound", record.bounds)
        if record.scores:
            self._tracker.log_metrics(run, {"cv_log_loss": record.score, "seconds": record.seconds})
        self._tracker.end(run, "FAILED" if record.state == "failed" else "FINISHED")
        if record.state == "complete":
            self._tracker.log_metrics(self._parent, {"cv_log_loss": record.score}, record.number)

    def _close_trial(self) -> None:
        """End the run of a trial that was interrupted."""
        if self._tracker is not None and self._open_trial:
            self._tracker.end(self._open_trial, "KILLED")
        self._open_trial = ""

    def _track_outcome(self, outcome: Outcome) -> None:
        if self._tracker is None:
            return
        best = outcome.result.best
        self._tracker.log_params(self._parent, {f"best.{name}": value for name, value in best.settings.items()})
        self._tracker.log_curve(self._parent, "lower_bound", outcome.model.lower_bounds_)
        for name, figures in outcome.figures.items():
            self._tracker.log_metrics(self._parent, figures.metrics(f"holdout.{name.replace(' ', '_')}."))
        self._tracker.set_tags(self._parent, {"interrupted": outcome.result.interrupted, "best_trial": best.number})

    def finish(self, files: list[Path]) -> None:
        """Keep files with the parent run, and end it.

        Parameters
        ----------
        files : list of Path
            What was written.
        """
        if self._tracker is not None:
            for path in files:
                self._tracker.log_artifact(self._parent, path)
        self._end_tracking("FINISHED")

    def _end_tracking(self, status: str) -> None:
        if self._tracker is not None:
            self._tracker.end(self._parent, status)
