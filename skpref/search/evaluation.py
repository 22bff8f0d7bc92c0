"""How `OptunaSearch` evaluates a trial: fold by fold, with a look into the first fit, in scikit-learn's callbacks."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection._validation import _score
from sklearn.pipeline import Pipeline
from sklearn.utils import indexable
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from skpref._callbacks import notify
from skpref._events import Iteration
from skpref._text import error_line
from skpref.exceptions import DataError
from skpref.search.figures import figures_of
from skpref.search.loop import Settings
from skpref.search.policy import POLICY
from skpref.search.sampler import ERROR
from skpref.search.sharing import has_ended

_FOLD = "skpref:fold{}"  # attribute of a trial in a study: what came out of one fold
_KEPT = ("test_scores", "train_scores", "fit_time", "score_time", "n_test_samples")
STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}


class Gathered:
    """What a running fit holds."""

    def __init__(self, key: str | None, X: Any, y: Any, groups: Any) -> None:
        self.key = key
        self.X = X
        self.y = y
        self.groups = groups
        self.study: Any = None
        self.space: Any = None
        self.out: list[dict[str, Any]] = []
        self.formatted: dict[str, Any] = {}
        self.scorers: Any = None
        self.score_params: dict[str, Any] = {}

    def scoring(self) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Return the data as scikit-learn splits them, the scorers, and their parameters."""
        return *indexable(self.X, self.y), self.scorers, self.score_params


class Folds:
    """The same folds for all trials, some at a time."""

    def __init__(self, splitter: Any) -> None:
        self.wanted = range(0)
        self._splitter = splitter
        self._all: list[Any] = []

    def split(self, X: Any, y: Any = None, **params: Any) -> list[Any]:
        """Return the folds that are wanted."""
        self._all = self._all or list(self._splitter.split(X, y, **params))
        return [self._all[fold] for fold in self.wanted]

    def rows(self, fold: int) -> Any:
        """Return the rows of one fold."""
        return self._all[fold]


class Evaluation:
    """Evaluates settings on the folds of a search."""

    def __init__(
        self,
        search: Any,
        gathered: Gathered,
        space: Any,
        evaluate_candidates: Callable[..., Any],
        folds: Folds,
        at_once: int,
        root: Any,
    ) -> None:
        self.contexts = Contexts(search, root, -(-search.n_splits_ // at_once))
        self._search = search
        self._gathered = gathered
        self._space = space
        self._evaluate_candidates = evaluate_candidates
        self._folds = folds
        self._n_splits = search.n_splits_
        self._at_once = at_once
        self._looks = search.pruner is not None and at_once == 1 and root is not None

    def run_trial(self, trial: Any) -> float:
        """Return the mean score of a trial over all folds; raise TrialPruned once it is clearly worse than others."""
        from optuna import TrialPruned

        settings, scores = self._space.suggest(trial), dict[int, float]()

        def report(fold: int, score: float, parts: int) -> bool:
            """Report the score of a fold, in place of an earlier one of it, and return whether to prune the trial."""
            scores[fold] = score
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a trial of a process that was killed has reported some steps before
                trial.report(float(np.mean(list(scores.values()))), parts)
            return bool(parts < POLICY.parts * self._n_splits and trial.should_prune())

        with self.contexts.trial(trial.number, settings) as task:
            for first in range(0, self._n_splits, self._at_once):
                wanted = range(first, min(first + self._at_once, self._n_splits))
                # Later folds are not looked into: what survives the first is seldom poor, and looks cost time.
                watch = Watch(self._look(report)) if self._looks and first == 0 else None
                with task.folds(len(wanted), watch) as context:
                    outs = self.evaluate(settings, wanted, context)
                task.pruned = watch is not None and watch.stopped
                for fold, out in () if task.pruned else zip(wanted, outs, strict=True):
                    trial.set_user_attr(_FOLD.format(fold), _storable(out))
                    score = self._score_of(out)
                    task.add(out)
                    task.pruned |= report(fold, score, POLICY.parts * (fold + 1))
                if task.pruned:
                    break
        if task.pruned:
            raise TrialPruned
        return float(np.mean(list(scores.values())))

    def evaluate(self, settings: Settings, wanted: range, context: dict[str, Any]) -> list[dict[str, Any]]:
        """Return scikit-learn's results of some folds."""
        search = self._search
        self._folds.wanted, search.n_splits_ = wanted, len(wanted)
        verbose, search.verbose = search.verbose, 0  # no line for each call of it
        try:
            self._evaluate_candidates([settings], cv=self._folds, **context)
        finally:
            search.verbose = verbose
        outs: list[dict[str, Any]] = self._gathered.out[-len(wanted) :]
        return outs

    def _look(self, report: Callable[[int, float, int], bool]) -> Callable[[Any, int], bool]:
        """Return a callback that scores an unfinished estimator on the test part of the first fold."""
        X, y, scorers, params = self._gathered.scoring()

        def look(estimator: Any, parts: int) -> bool:
            train, test = self._folds.rows(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the finished fit says it again
                held_out = _safe_split(estimator, X, y, test, train)
                of_rows = _check_method_params(X, params=params, indices=test)
                out = {"test_scores": _score(estimator, *held_out, scorers, of_rows, float("nan"))}
            try:
                score = self._score_of(out)
            except DataError:  # nothing can be said yet
                return False
            return report(0, score, parts)

        return look

    def _score_of(self, out: dict[str, Any]) -> float:
        """Return the score of a fold that is maximised."""
        scores, refit = out["test_scores"], self._search.refit
        if isinstance(scores, dict):
            if not isinstance(refit, str) or refit not in scores:
                raise DataError(f"refit must name one of the metrics {sorted(scores)}; got refit={refit!r}.")
            scores = scores[refit]
        if not np.isfinite(scores):
            raise DataError(f"the score of a fold must be finite; got {scores}")
        return float(scores)


# ------------------------------------------------------------------------------------------------------------- contexts
class Contexts:
    """Contexts of scikit-learn's callbacks, if any: of the search, of its trials, and of their folds."""

    def __init__(self, search: Any, root: Any, n_steps: int) -> None:
        self._search = search
        self._root = root
        self._n_steps = n_steps
        self._context = None
        if root is not None:
            context = root.subcontext(task_name="search", max_subtasks=search.n_trials)
            self._context = context.call_on_fit_task_begin(estimator=search)
            context.max_subtasks = None  # only a forecast, for bars

    @contextmanager
    def trial(self, number: int, settings: Settings) -> Iterator[TrialTask]:
        """Open the context of a trial."""
        if self._context is None:
            yield TrialTask(self._search, None)
            return
        context = self._context.subcontext(task_name="trial", max_subtasks=self._n_steps)
        notify(context, name=f"trial {number}", params=settings)
        context.call_on_fit_task_begin(estimator=self._search)
        task, error, status = TrialTask(self._search, context), None, "FINISHED"
        try:
            yield task
        except BaseException as problem:
            error, status = problem, "FAILED" if isinstance(problem, Exception) else "KILLED"
            raise
        finally:
            state = "complete" if error is None and not task.pruned else "pruned" if error is None else "failed"
            tags = {"state": state} | ({} if error is None else {"error": error_line(error)})
            notify(context, metrics=task.metrics(state), tags=tags, status=status)
            context.call_on_fit_task_end(estimator=self._search)

    def end(self, study: Any = None) -> None:
        """Close the context of all trials; callbacks that take notifications get plots of the study."""
        if self._context is None:
            return
        self._context.call_on_fit_task_end(estimator=self._search)
        callbacks = getattr(self._root, "_callbacks", ())
        if study is not None and any(hasattr(callback, "on_notify") for callback in callbacks):
            notify(self._root, files=figures_of(study))


class TrialTask:
    """A running trial."""

    def __init__(self, search: Any, context: Any) -> None:
        self._search = search
        self._context = context
        self._scores: dict[str, list[float]] = {}
        self.pruned = False

    @contextmanager
    def folds(self, n: int, watch: Watch | None = None) -> Iterator[dict[str, Any]]:
        """Open a context for some folds of the trial."""
        if self._context is None:
            yield {}
            return
        inner = self._context.subcontext(task_name="folds", max_subtasks=n, sequential_subtasks=False)
        inner.call_on_fit_task_begin(estimator=self._search)
        callbacks = inner._callbacks  # noqa: SLF001 - a context has no public way to listen to its fits alone
        if watch is not None:
            inner._callbacks = [*callbacks, watch]  # noqa: SLF001
        asked = any(hasattr(callback, "max_propagation_depth") for callback in callbacks)
        try:
            with warnings.catch_warnings():
                if not asked:  # nobody's callbacks are missed by a step that has none
                    warnings.filterwarnings("ignore", message="The estimator .* does not support callbacks")
                yield {"callback_ctx": inner}
        finally:
            inner.call_on_fit_task_end(estimator=self._search)

    def add(self, out: dict[str, Any]) -> None:
        """Keep the scores of a fold."""
        scores = out["test_scores"]
        for name, value in (scores if isinstance(scores, dict) else {"score": scores}).items():
            self._scores.setdefault(name, []).append(float(value))

    def metrics(self, state: str) -> dict[str, Any]:
        """Return the scores of each fold, and of a complete trial their mean."""
        folds = {f"fold_{name}": values for name, values in self._scores.items()}
        if state != "complete":
            return folds
        return folds | {f"mean_test_{name}": float(np.mean(values)) for name, values in self._scores.items()}


class Watch:
    """A callback that scores a fit once on held-out rows before it ends, and stops it when the trial is pruned.

    A second look would cost as much as the first (a prediction), and nearly all that it would prune has been.
    """

    max_propagation_depth = None  # through Pipelines, down to the estimator that iterates

    def __init__(self, look: Callable[[Any, int], bool]) -> None:
        self._look = look
        self._outer: Any = None
        self._parts = 0  # done when it was last tried
        self._looked = False
        self.stopped = False

    def setup(self, estimator: Any, context: Any) -> None:
        """Do nothing: each object sees one fit."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Remember the estimator that is scored: the first one that begins."""
        del context
        self._outer = estimator if self._outer is None else self._outer

    def on_fit_task_end(self, estimator: Any, context: Any) -> bool:
        """Let fits end by themselves."""
        del estimator, context
        return False

    def on_iteration(self, estimator: Any, context: Any, iteration: Iteration) -> bool:
        """Look once: after the first quarter, or the first later one at which the estimator can predict."""
        del context
        parts = POLICY.parts * iteration.step // iteration.n_max
        if self._looked or not self._parts < parts < POLICY.parts or iteration.fitted is None:
            return self.stopped
        self._parts = parts  # a chain in its burn-in is not looked at one sweep later: a single sample tells little
        fitted = iteration.fitted()
        whole = None if fitted is None else _replace_estimator(self._outer, estimator, fitted)
        if whole is not None:
            self._looked, self.stopped = True, self._look(whole, parts)
        return self.stopped


def _replace_estimator(outer: Any, estimator: Any, fitted: Any) -> Any:
    """Replace an estimator, or the last step of a Pipeline; None if it is neither."""
    if outer is estimator:
        return fitted
    if not isinstance(outer, Pipeline):
        return None
    name, last = outer.steps[-1]
    inner = _replace_estimator(last, estimator, fitted)
    if inner is None:
        return None
    other = copy.copy(outer)
    other.steps = [*outer.steps[:-1], (name, inner)]
    return other


# ----------------------------------------------------------------------------------------------------- what a study has
@dataclass(frozen=True)
class TrialRecord:
    """A trial that ended."""

    number: int  # from 0; trial 0 has the default settings
    settings: Settings  # parameters by name
    state: str  # "complete", "pruned" or "failed"
    outs: list[dict[str, Any] | None]  # what came out of each fold; None where it was not run
    score: float  # mean over the folds run; NaN without any
    seconds: float
    error: str  # why it failed

    @property
    def n_folds(self) -> int:
        """Number of the folds run."""
        return sum(out is not None for out in self.outs)


def records_of(study: Any, space: Any, n_splits: int) -> list[TrialRecord]:
    """Return all ended trials of a study, including other runs and processes."""
    from optuna.trial import FixedTrial

    records: list[TrialRecord] = []
    for trial in study.get_trials(deepcopy=False):
        if not has_ended(trial) or not trial.params:
            continue
        outs = [trial.user_attrs.get(_FOLD.format(fold)) for fold in range(n_splits)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            settings = space.suggest(FixedTrial(trial.params))
        error = error_line(trial.user_attrs[ERROR]) if ERROR in trial.user_attrs else ""
        state, seconds = STATES[trial.state.name], trial.duration.total_seconds()
        records.append(TrialRecord(len(records), settings, state, outs, score_of(trial), seconds, error))
    return records


def score_of(trial: Any) -> float:
    """Return the mean score of a trial over the folds that were run, NaN without any."""
    reported = trial.intermediate_values
    last = reported[max(reported)] if reported else float("nan")
    return float(last if trial.value is None else trial.value)


def _storable(out: dict[str, Any]) -> dict[str, Any]:
    """Return the results of a fold that a storage can hold."""
    kept = {name: out[name] for name in _KEPT if name in out}
    return {
        name: {metric: float(score) for metric, score in value.items()} if isinstance(value, dict) else float(value)
        for name, value in kept.items()
    }


def blank(example: dict[str, Any], score: Any) -> dict[str, Any]:
    """Return a fold that was not run: scores alone."""
    empty: dict[str, Any] = {**example, "fit_time": float("nan"), "score_time": float("nan")}
    for name in ("test_scores", "train_scores"):
        if name in example:
            scores = example[name]
            empty[name] = dict.fromkeys(scores, score) if isinstance(scores, dict) else score
    return empty
