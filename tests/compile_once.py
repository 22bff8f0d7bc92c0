"""Let the processes of pytest-xdist compile each function once: the second waits for the first and loads its result."""

from pathlib import Path

from numba.core.caching import NullCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

try:
    import fcntl
except ImportError:  # Windows: each process compiles by itself, as numba does
    fcntl = None


def install():
    """Hold a lock on a file, one for each function, while numba looks for the function in its cache or compiles it.

    Functions that call each other take their locks in the order of calls, so processes cannot wait in a circle.
    """
    if fcntl is None:
        return
    compile_function, held = Dispatcher.compile, set()

    def compile_once(self, signature):
        folder = None if isinstance(self._cache, NullCache) else Path(self._cache.cache_path)
        code = self.py_func.__code__
        lock = f"{Path(code.co_filename).stem}.{self.__name__}-{code.co_firstlineno}.lock"
        if folder is None or lock in held:
            return compile_function(self, signature)
        folder.mkdir(parents=True, exist_ok=True)
        # Numba's own lock first: a thread that waits for a file must not hold what another thread of it needs.
        with global_compiler_lock, (folder / lock).open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            held.add(lock)
            try:
                return compile_function(self, signature)
            finally:
                held.remove(lock)  # and closing the file opens the lock

    Dispatcher.compile = compile_once
