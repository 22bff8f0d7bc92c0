"""Trials of `OptunaSearch` as tasks of scikit-learn's callbacks, and the callback that looks into their fits."""

from __future__ import annotations

import copy
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from skpref._callbacks import notify
from skpref.search.figures import figures_of
from skpref.search.outcomes import in_a_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skpref._events import Iteration
    from skpref.search.loop import Settings

PARTS = 4  # of a fit; after the first of them there is something to see


class Contexts:
    """Contexts of scikit-learn's callbacks, where there are some: the search, in it the trials, in them their folds."""

    def __init__(self, search: Any, root: Any) -> None:
        self._search = search
        self._root = root
        self._context = None
        if root is not None:
            context = root.subcontext(task_name="search", max_subtasks=None)
            self._context = context.call_on_fit_task_begin(estimator=search)

    @property
    def is_heard(self) -> bool:
        """Whether a callback listens to `notify`."""
        return any(hasattr(callback, "on_notify") for callback in getattr(self._root, "_callbacks", ()))

    @contextmanager
    def trial(self, number: int, settings: Settings) -> Iterator[TrialTask]:
        """Open the context of a trial."""
        if self._context is None:
            yield TrialTask(self._search, None)
            return
        context = self._context.subcontext(task_name="trial", max_subtasks=None)
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
            tags = {"state": state} | ({} if error is None else {"error": in_a_line(error)})
            notify(context, metrics=task.metrics(state), tags=tags, status=status)
            context.call_on_fit_task_end(estimator=self._search)

    def end(self, study: Any = None) -> None:
        """Close the context of all trials, and show what was learnt from them to whoever listens."""
        if self._context is None:
            return
        self._context.call_on_fit_task_end(estimator=self._search)
        if study is not None and self.is_heard:
            notify(self._root, files=figures_of(study))


class TrialTask:
    """A trial on its way."""

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
        heard = inner._callbacks  # noqa: SLF001 - a context has no public way to listen to its fits alone
        if watch is not None:
            inner._callbacks = [*heard, watch]  # noqa: SLF001
        asked = any(hasattr(callback, "max_propagation_depth") for callback in heard)
        try:
            with warnings.catch_warnings():
                if not asked:  # nobody's callbacks are missed by a step that has none
                    warnings.filterwarnings("ignore", message="The estimator .* does not support callbacks")
                yield {"callback_ctx": inner}
        finally:
            inner.call_on_fit_task_end(estimator=self._search)

    def add(self, out: dict[str, Any]) -> None:
        """Remember what came out of a fold."""
        scores = out["test_scores"]
        for name, value in (scores if isinstance(scores, dict) else {"score": scores}).items():
            self._scores.setdefault(name, []).append(float(value))

    def metrics(self, state: str) -> dict[str, Any]:
        """Return what is to be told of the folds: the scores of each, and of a complete trial their mean."""
        folds = {f"fold_{name}": values for name, values in self._scores.items()}
        if state != "complete":
            return folds
        return folds | {f"mean_test_{name}": float(np.mean(values)) for name, values in self._scores.items()}


class Watch:
    """A callback that scores a fit once on held-out rows on its way, and stops it when the trial is to be given up.

    A second look would cost as much as the first (a prediction), and nearly all that it would give up has been.
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
        """Look, at the end of the first part of the fit at which there is something to see."""
        del context
        parts = PARTS * iteration.step // iteration.n_max
        if self._looked or not self._parts < parts < PARTS or iteration.fitted is None:
            return self.stopped
        self._parts = parts  # a chain in its burn-in is not looked at one sweep later: a single sample tells little
        fitted = iteration.fitted()
        whole = None if fitted is None else _in_place_of(self._outer, estimator, fitted)
        if whole is not None:
            self._looked, self.stopped = True, self._look(whole, parts)
        return self.stopped


def _in_place_of(outer: Any, estimator: Any, fitted: Any) -> Any:
    """An estimator, or a Pipeline that ends in it, with another in its place; None where it is neither."""
    if outer is estimator:
        return fitted
    if not isinstance(outer, Pipeline):
        return None
    name, last = outer.steps[-1]
    inner = _in_place_of(last, estimator, fitted)
    if inner is None:
        return None
    other = copy.copy(outer)
    other.steps = [*outer.steps[:-1], (name, inner)]
    return other
