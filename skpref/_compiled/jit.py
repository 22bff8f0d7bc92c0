"""Access to numba: `njit` with an on-disk cache if it can be written, and threads over compiled functions."""

from __future__ import annotations

import functools
import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numba
from numba.core.caching import FunctionCache
from numba.core.types import unliteral

from skpref._math.threads import limit_blas_threads
from skpref._warn import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["limited_threads", "n_threads", "njit", "run_parts", "run_tasks"]

_PROCESS: Final = os.getpid()

_PARTS: Final = 4  # parts of the work for each thread: one that starts late, or has lighter rows, takes fewer or more

_Function = TypeVar("_Function", bound="Callable[..., Any]")
_Result = TypeVar("_Result")


class _Cache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """A cache on disk that does without the disk where that is full, or cannot be written any more."""

    def save_overload(self, sig: Any, data: Any) -> None:  # noqa: ANN401 - numba's own
        """Save compiled code, or warn that every process will compile it."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_of(os.path.dirname(self.cache_path), error.strerror)  # noqa: PTH120 - a text


@functools.cache
def _warn_of(folder: str, why: str) -> None:
    """Warn once that compiled functions cannot be saved."""
    warn(f"compiled functions cannot be saved in {folder}: {why}. Every process will compile them.", UserWarning)


def _call_template(template: Callable[..., Any], args: Sequence[Any], kws: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return numba's template of a call for types without literals, as each literal would be compiled anew."""
    return template([unliteral(one) for one in args], {name: unliteral(one) for name, one in kws.items()})


def njit(**options: Any) -> Callable[[_Function], _Function]:  # noqa: ANN401 - numba's own options
    """Compile a function in nopython mode, cached on disk if possible, dividing as numpy does.

    Division by zero gives inf or NaN instead of an exception: numba's test for zero keeps loops out of SIMD lanes.

    A function whose sums may be added in any order (fastmath "reassoc") and that compiled functions call needs
    ``forceinline=True``. Otherwise the process that compiles them calls its machine code, and processes that load the
    caller from the cache call a copy that was optimised once more with the caller: they round differently.

    Numba raises at import when neither the package's folder nor the user's cache folder can be written (a read-only
    installation run by a user without a home): compiling anew in every process is then the only way.
    """

    def decorate(function: _Function) -> _Function:
        options.setdefault("error_model", "numpy")
        try:
            compiled = numba.njit(cache=True, **options)(function)
            compiled._cache = _Cache(function)  # noqa: SLF001 - as numba sets its own
            compiled.get_call_template = functools.partial(_call_template, compiled.get_call_template)
        except RuntimeError:  # "cannot cache function ...: no locator available for file ..."
            compiled = numba.njit(cache=False, **options)(function)
        return cast("_Function", compiled)

    return decorate


def n_threads() -> int:
    """Return how many threads may work on chunks of rows: numba's number, which follows ``NUMBA_NUM_THREADS``.

    One outside of the main thread and after a fork: a worker of joblib or Dask shares the cores with its siblings.
    """
    alone = threading.current_thread() is threading.main_thread() and os.getpid() == _PROCESS
    return int(numba.get_num_threads()) if alone else 1


@functools.cache
def _pool(process: int) -> ThreadPoolExecutor:  # noqa: ARG001 - a fork takes no threads along
    """Return the threads that help the calling one."""
    return ThreadPoolExecutor(max(1, numba.config.NUMBA_NUM_THREADS - 1))


def run_tasks(task: Callable[[int], _Result], n_tasks: int, n_threads: int) -> list[_Result]:
    """Return the results of numbered tasks, which so many threads run, the calling one among them.

    Python threads over one compiled function without the GIL, not `prange`: a parallel loop would be a second compiled
    function, which takes seconds to compile and rounds differently. Python threads also work in worker threads and
    after a fork, where numba's kill the process.
    """
    if n_threads < 2 or n_tasks < 2:
        return [task(i) for i in range(n_tasks)]
    results: dict[int, _Result] = {}
    remaining = iter(range(n_tasks))

    def work() -> None:
        for i in remaining:
            results[i] = task(i)

    helpers = [_pool(os.getpid()).submit(work) for _ in range(min(n_threads, n_tasks) - 1)]
    try:
        work()
    finally:
        list(remaining)  # after Ctrl-C nobody begins another task
        wait(helpers)
    for helper in helpers:
        helper.result()
    return [results[i] for i in range(n_tasks)]


def run_parts(task: Callable[[int, int], object], n: int, *, large: bool) -> None:
    """Run a task on numbers 0 to n - 1: at once, or in parts by several threads where that is worth waking them."""
    threads = n_threads() if large else 1
    parts = min(n, _PARTS * threads if threads > 1 else 1)
    run_tasks(lambda t: task(t * n // parts, (t + 1) * n // parts), parts, threads)


@contextmanager
def limited_threads(n_threads: int | None) -> Iterator[None]:
    """Run the body with at most this number of numba's threads (None: as many as now), and one of BLAS.

    What runs on several threads are the kernels; products between them are small, and BLAS's threads would take the
    kernels' cores.
    """
    before = numba.get_num_threads()
    numba.set_num_threads(before if n_threads is None else max(1, min(n_threads, numba.config.NUMBA_NUM_THREADS)))
    try:
        with limit_blas_threads(1):
            yield
    finally:
        numba.set_num_threads(before)
