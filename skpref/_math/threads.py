"""How many threads BLAS may use: numpy and scipy bring an OpenBLAS each, and the two fight over the cores.

A thread of either pool spins for some 25 ms after its last task, on the core that the other pool wants: a product by
numpy followed by a Cholesky factor by scipy (n = 149, 2 cores) took 8.0 ms with both pools awake and 0.3 ms with one
thread.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["limit_blas_threads"]

_WORTH_THREADS: Final = 800  # width of matrices from which a second core gains more than it costs


@lru_cache(maxsize=1)
def _pools() -> ThreadpoolController:
    # All libraries are loaded by the time of the first fit, and looking for them takes a millisecond.
    return ThreadpoolController()


@contextmanager
def limit_blas_threads(size: int) -> Iterator[None]:
    """Run the body with one BLAS thread for small matrices, and with scipy's pool alone for large ones."""
    # The number of threads belongs to the process: a fit in a side thread leaves it to the main thread.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    blas = _pools().select(user_api="blas")
    if size >= _WORTH_THREADS:
        blas = blas.select(filepath=[lib.filepath for lib in blas.lib_controllers if _is_numpys(lib.filepath)])
    with blas.limit(limits=1):
        yield


def _is_numpys(filepath: str) -> bool:
    """Whether a library is the one inside numpy's wheel; a shared one (conda, MKL) serves scipy as well."""
    parts = Path(filepath).parts[-3:]
    return "numpy.libs" in parts or ("numpy" in parts and ".dylibs" in parts)
