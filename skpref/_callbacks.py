"""Callbacks of a running fit: scikit-learn's interface (from 1.9 on, SLEP023), and the same hooks for scikit-learn 1.8.

No other module uses scikit-learn's interface. In addition to its hooks, a callback may have

- ``on_iteration(estimator, context, iteration)``, called after each iteration with an `Iteration`; if it returns True,
  the fit stops and keeps its current result;
- ``on_notify(context, **news)``, called by `notify`.
"""

from __future__ import annotations

import inspect
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.base import _fit_context

from skpref._doc_link import doc_link
from skpref._exclusive import one_fit_at_a_time
from skpref._validation import refuse_collection

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn 1.8
    CallbackSupportMixin = None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from skpref._events import Iteration, OnIteration

_Fit = TypeVar("_Fit", bound="Callable[..., Any]")


def fit_context(fit: _Fit) -> _Fit:
    """Decorate `fit` with scikit-learn's check of parameters, which is untyped, and keep the type of the method."""
    decorated: _Fit = _fit_context(prefer_skip_nested_validation=True)(fit)
    return decorated


class _Context:
    """A substitute for scikit-learn's callback context, for single fits with scikit-learn 1.8."""

    task_id = 0
    source_task_name: str | None = None
    root_uuid: uuid.UUID

    def __init__(self, estimator: Any, parent: _Context | None = None) -> None:
        self._callbacks = getattr(estimator, "_skl_callbacks", [])
        self.estimator_name = type(estimator).__name__
        self.task_name = "fit" if parent is None else "iteration"
        self.parent = parent
        self.root_uuid = uuid.uuid4() if parent is None else parent.root_uuid

    def __iter__(self) -> Iterator[_Context]:
        yield self

    def call_on_fit_task_begin(self, **data: Any) -> _Context:
        self._call("on_fit_task_begin", **data)
        return self

    def call_on_fit_task_end(self, **data: Any) -> bool:
        return any(self._call("on_fit_task_end", **data))

    def _call(self, name: str, *, estimator: Any, **data: Any) -> list[Any]:
        """Call a hook of every callback with the keyword arguments in its signature; return the answers."""
        answers = []
        for callback in self._callbacks:
            hook = getattr(callback, name)
            parameters = inspect.signature(hook).parameters.values()
            names = [parameter.name for parameter in parameters if parameter.kind == parameter.KEYWORD_ONLY]
            answers.append(hook(estimator, self, **{name: data.get(name) for name in names}))
        return answers


class _OwnSupport:
    """A substitute for scikit-learn's mixin with scikit-learn 1.8: callbacks of a fit, shared by clones."""

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Set callbacks for the estimator."""
        vars(self).pop("_skl_callbacks", None)
        if callbacks:
            self._skl_callbacks = list(callbacks)
        return self

    def __sklearn_clone__(self) -> Any:
        other = super().__sklearn_clone__()  # type: ignore[misc]  # of BaseEstimator
        if hasattr(
            self, "_skl_callbacks"
        ):  # also the callbacks of all estimators, which a clone takes to another process
            other._skl_callbacks = self._skl_callbacks
        return other

    def _init_callback_context(self, **_: Any) -> _Context:
        self._callback_fit_ctx = _Context(self)
        for callback in self._callback_fit_ctx._callbacks:
            callback.setup(estimator=self, context=self._callback_fit_ctx)
        return self._callback_fit_ctx


class CallbackMixin(CallbackSupportMixin or _OwnSupport):  # type: ignore[misc]  # scikit-learn 1.9, 1.8
    """Base class of estimators: callbacks, and the link to the documentation."""

    _get_doc_link = doc_link


def set_everywhere(callbacks: list[Any] | None) -> None:
    """Set the callbacks of all estimators without callbacks of their own; None removes them."""
    support: Any = CallbackSupportMixin or _OwnSupport
    if callbacks is not None:
        support._skl_callbacks = callbacks
    elif "_skl_callbacks" in vars(support):
        del support._skl_callbacks


@contextmanager
def fit_callbacks(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Iterator[None]:
    """Notify callbacks of the start and the end of a fit, which is the body of the `with` statement."""
    if not (getattr(estimator, "_takes_collections", False) and hasattr(X, "to_delayed")):
        for name, values in (("X", X), ("y", y), ("sample_weight", sample_weight)):
            refuse_collection(values, name)
    with one_fit_at_a_time(estimator):
        yield from _with_callbacks(estimator, X, y, sample_weight)


def _with_callbacks(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Iterator[None]:
    """Yield once, between the news of the fit's start and of its end."""
    metadata = None if sample_weight is None else {"sample_weight": sample_weight}
    data = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
    context = estimator._init_callback_context(max_subtasks=getattr(estimator, "max_iter", None))
    try:
        context.call_on_fit_task_begin(**data)
        context.max_subtasks = None  # only a forecast, for bars: a fit in stages may have more
        try:
            yield
        except BaseException as error:
            notify(context, status="KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED", error=error)
            raise
        # The estimator itself was fitted, so no attributes need to be set on a copy.
        context.call_on_fit_task_end(**data, reconstruction_attributes=dict)
    finally:
        if CallbackSupportMixin is None:  # otherwise scikit-learn's decorator of `fit` does it
            for callback in context._callbacks:
                callback.teardown(estimator=estimator, context=context)
            del estimator._callback_fit_ctx


def iteration_hook(estimator: Any) -> OnIteration | None:
    """Return the function to call after each iteration; None without callbacks."""
    context = getattr(estimator, "_callback_fit_ctx", None)
    if context is None or not context._callbacks:
        return None
    hooks = [callback.on_iteration for callback in context._callbacks if hasattr(callback, "on_iteration")]
    some_need_tasks = len(hooks) < len(context._callbacks) and CallbackSupportMixin is not None

    def notify_all(iteration: Iteration) -> bool:
        stops = [hook(estimator, context, iteration) for hook in hooks]
        if some_need_tasks:  # scikit-learn keeps every context, so only for callbacks without `on_iteration`
            task = context.subcontext(task_name="iteration").call_on_fit_task_begin(estimator=estimator)
            stops.append(task.call_on_fit_task_end(estimator=estimator))
        return any(stops)

    return notify_all


def notify(
    context: Any,
    *,
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
    tags: Mapping[str, Any] | None = None,
    files: Mapping[str, Any] | None = None,
    status: str | None = None,
    error: BaseException | None = None,
) -> None:
    """Pass callbacks more about a running task than scikit-learn's hooks can."""
    news: dict[str, Any] = {"name": name, "params": params, "metrics": metrics, "tags": tags, "files": files}
    news |= {"status": status, "error": error}
    for callback in getattr(context, "_callbacks", ()):
        if hasattr(callback, "on_notify"):
            callback.on_notify(context, **{key: value for key, value in news.items() if value is not None})
