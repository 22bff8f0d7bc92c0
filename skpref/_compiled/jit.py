"""Access to numba: `njit` with an on-disk cache if it can be written, and the number of threads."""

from __future__ import annotations

import functools
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numba
from numba.core.caching import FunctionCache

from skpref._math.threads import limit_blas_threads
from skpref._warn import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["limited_threads", "may_use_threads", "n_threads", "njit"]

_PROCESS: Final = os.getpid()

_Function = TypeVar("_Function", bound="Callable[..., Any]")


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
        except RuntimeError:  # "cannot cache function ...: no locator available for file ..."
            compiled = numba.njit(cache=False, **options)(function)
        return cast("_Function", compiled)

    return decorate


def may_use_threads() -> bool:
    """Tell whether functions compiled with ``parallel=True`` may run here: in the main thread, not after a fork.

    Numba kills the process otherwise, depending on its threading layer: GNU OpenMP's threads do not survive a fork
    (``multiprocessing`` on Linux), and the "workqueue" layer (macOS, where OpenMP is missing) cannot be entered by two
    threads. A worker of joblib or Dask shares the cores with its siblings anyway.
    """
    return threading.current_thread() is threading.main_thread() and os.getpid() == _PROCESS


def n_threads() -> int:
    """Return how many threads may work on chunks of rows: numba's number, which follows ``NUMBA_NUM_THREADS``."""
    return int(numba.get_num_threads()) if may_use_threads() else 1


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
