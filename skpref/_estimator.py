"""Helpers that all estimators share: checks, warnings and progress output."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from contextlib import contextmanager, suppress
from itertools import count
from numbers import Real
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import InvalidParameterError

from skpref._callbacks import iteration_hook
from skpref._checks import is_count
from skpref._events import Iteration
from skpref._exclusive import one_fit_at_a_time
from skpref._warn import warn
from skpref.exceptions import DataError, DataWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skpref._events import OnIteration
    from skpref._typing import Features

_MAX_DENSE_BYTES = 4 * 2**30  # size of one dense square matrix, whatever the machine has


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Restore the attributes if the body raises, so that an earlier fit stays usable; refuse a second thread."""
    with one_fit_at_a_time(estimator):
        before = vars(estimator).copy()
        try:
            yield
        except BaseException:
            # Update first, so that other threads always find the earlier attributes.
            vars(estimator).update(before)
            for name in vars(estimator).keys() - before.keys():
                delattr(estimator, name)
            raise


def last_step(model: Any) -> Any:
    """Return the last step of a Pipeline, or the model itself; for a search, of its best estimator."""
    model = getattr(model, "best_estimator_", model)
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def warn_not_converged(estimator: Any, n_iter: int, *, cut_short: bool = True) -> None:
    """Warn that a fit ended at its last iteration, or, if it was not cut short, where rounding errors hide progress."""
    name, most = type(estimator).__name__, estimator.max_iter
    msg = f"{name} did not converge in {n_iter} iterations (max_iter={most}). Increase max_iter, or tol."
    if not cut_short:
        msg = (
            f"The search for hyperparameters of {name} stopped before it met its tolerance (tol={estimator.tol}): "
            "further steps gain less than the rounding errors, so more iterations do not help. The best values found "
            "are used; check the predictions on held-out data. Increase tol"
        )
        msg += ", or set noise to about 0.001 * y.std() if y has hardly any." if hasattr(estimator, "noise") else "."
    warn(msg, ConvergenceWarning)


def warn_constant(X: Features, rows: str = "the compared items") -> None:
    """Warn of features that are constant."""
    low, high = X.min(axis=0), X.max(axis=0)
    if not isinstance(X, np.ndarray):
        low, high = low.toarray().ravel(), high.toarray().ravel()
    constant = np.flatnonzero(low == high)
    if constant.size:
        few = ", ".join(map(str, constant[:5])) + (", ..." if constant.size > 5 else "")
        msg = f"{constant.size} of {X.shape[1]} features are constant over {rows} (columns {few})."
        msg += " They carry no information; drop them to silence this warning."
        warn(msg, DataWarning)


def check_n_samples(n_samples: int) -> None:
    """Refuse to draw less than one sample."""
    if not is_count(n_samples, least=1):
        msg = f"n_samples must be an integer of at least 1; got {n_samples!r} (at most 2**40 are drawn)."
        raise DataError(msg)


def check_credibility(credibility: float) -> None:
    """Raise DataError unless the probability of a credible interval is between 0 and 1."""
    if not isinstance(credibility, Real) or not 0.0 < credibility < 1.0:
        msg = f"credibility must be a probability between 0 and 1, such as 0.9; got {credibility!r}."
        raise DataError(msg)


def precision(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of a parameter, float64 or float32."""
    with suppress(TypeError):
        if (known := np.dtype(dtype)) in {np.dtype(np.float64), np.dtype(np.float32)}:
            return known
    raise InvalidParameterError(f"dtype must be float64 or float32; got {dtype!r}.")


def check_memory(n_items: int, n_inducing: int, parameter: str = "inducing", whose: str = "items") -> None:
    """Refuse kernel matrices that would not fit, before anything of their size is allocated."""
    for rows, limit in ((n_inducing, _MAX_DENSE_BYTES), (n_items, half_of_memory())):
        need = 8 * int(rows) * int(n_inducing)
        if need > limit:
            msg = (
                f"A dense kernel matrix of {rows} {whose} by {n_inducing} inducing points needs {need / 1e9:.1f} GB, "
                f"more than the {limit / 1e9:.1f} GB allowed; set {parameter} to a smaller number."
            )
            raise DataError(msg)


def half_of_memory() -> float:
    """Return half of the memory of this machine in bytes."""
    try:
        return 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not a POSIX system: as much as a small machine has
        return 4.0 * _MAX_DENSE_BYTES


def token_of_content(estimator: Any) -> tuple[str, str]:
    """Return a token for Dask of all that an estimator holds; of a dataclass Dask takes the fields alone."""
    held = {name: part for name, part in vars(estimator).items() if not name.startswith("_")}
    return type(estimator).__name__, str(joblib.hash(held))


def digest(settings: object, *tables: Any) -> str:
    """Return a digest of all that two fits must share for the second to start from the first."""
    total = hashlib.sha256(repr(settings).encode())
    for table in tables:
        parts = (table.data, table.indices, table.indptr) if sparse.issparse(table) else (np.asarray(table),)
        for array in parts:
            total.update(repr(array.tolist()).encode() if array.dtype == object else array.tobytes())
    return total.hexdigest()


def verbose_printer(
    name: str, then: OnIteration | None = None, *, step: str = "pass", objective: str = "bound", sign: float = 1.0
) -> OnIteration:
    """Return a callback that prints one line an iteration: number, objective, rate, time left."""

    def show(event: Iteration) -> bool | None:
        rate = event.step / max(event.seconds, 1e-9)
        value = f"{objective} {sign * event.bound:.4f}"
        end = "\r" if "ipykernel" in sys.modules and event.step < event.n_max else "\n"  # one line in a notebook
        text = f"{name}: {step} {event.step}/{event.n_max}  {value}  {rate:.1f}/s  ETA {event.eta:.0f} s"
        print(text, end=end)  # noqa: T201 - asked for by verbose
        return None if then is None else then(event)

    return show


def iteration_callback(
    estimator: Any, *, step: str = "pass", objective: str = "bound", sign: float = 1.0
) -> OnIteration | None:
    """Return the function to call after each iteration: the callbacks and, if verbose, a printer."""
    then = iteration_hook(estimator)
    if not estimator.verbose:
        return then
    return verbose_printer(type(estimator).__name__, then, step=step, objective=objective, sign=sign)


def evaluation_callback(estimator: Any, objective: str) -> Callable[[float], None] | None:
    """Return the function to call with each value of a search, which takes about one evaluation an iteration."""
    then = iteration_callback(estimator, step="evaluation", objective=objective)
    if then is None:
        return None
    numbers, began = count(1), time.perf_counter()

    def evaluated(value: float) -> None:
        number = next(numbers)
        then(Iteration(number, max(estimator.max_iter, number), value, time.perf_counter() - began))

    return evaluated
