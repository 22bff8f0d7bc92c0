"""One fit of an object at a time: a second thread is refused, and Ctrl-C is KeyboardInterrupt."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# id of an estimator -> thread that fits it. Not an attribute: copies and pickles of it can be fitted elsewhere.
_FITTING: dict[int, int] = {}


@contextmanager
def one_fit_at_a_time(estimator: object) -> Iterator[None]:
    """Raise RuntimeError while another thread fits the estimator; fits of the same thread may be nested.

    An interrupt that arrives while numba makes the results of a compiled function leaves it as SystemError, which
    searches take for a failed fit.
    """
    this = threading.get_ident()
    nested = _FITTING.get(id(estimator)) == this
    if _FITTING.setdefault(id(estimator), this) != this:  # one atomic step
        raise RuntimeError(
            f"this {type(estimator).__name__} is being fitted in another thread; give each thread an object of its "
            "own, by sklearn.base.clone"
        )
    try:
        yield
    except (KeyboardInterrupt, SystemError) as error:
        if not _is_interrupt(error):
            raise
        _unlock_numba()
        if isinstance(error, KeyboardInterrupt):
            raise
        raise KeyboardInterrupt from error
    finally:
        if not nested:
            del _FITTING[id(estimator)]


def _unlock_numba() -> None:
    """Release numba's lock, which stays locked if Ctrl-C comes while it is taken: other threads would wait for ever."""
    lock: Any = getattr(sys.modules.get("numba.np.ufunc.parallel"), "_backend_init_process_lock", None)
    with suppress(AssertionError):  # this thread has it no more
        while hasattr(lock, "release"):  # where processes are not forked, it is no lock
            lock.release()


def _is_interrupt(error: BaseException | None) -> bool:
    """Tell whether an error or one of its causes is KeyboardInterrupt."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
