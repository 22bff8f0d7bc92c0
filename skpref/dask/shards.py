"""Shards on the workers of a Dask cluster.

Everything is a future with its own recipe: a lost worker costs the recomputation of its shards, and nothing waits for a
worker that does not come back. Arrays are copied to aligned memory wherever they come off the wire, since NumPy and
BLAS may take another route to other bits for arrays that start elsewhere.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpref.inference.shards import Shards, put_together, realigned, taken_apart

_AT_ONCE = 16  # results that are on their way to the client at a time
_NO_WARNING = {"distributed.admin.large-graph-warning-threshold": "100 GB"}  # states and vocabularies must travel


class Parcel:
    """A value whose arrays are writable and aligned on every worker, and whose size Dask knows."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _unpacked, (type(self), *taken_apart(self.value))

    def __sizeof__(self) -> int:
        frame, arrays = taken_apart(self.value)
        return len(frame) + sum(array.nbytes for array in arrays)


class _Results(Parcel):
    """Both results of a function of `keep`, of which other functions take the second one."""


def _unpacked(kind: type[Parcel], frame: bytes, arrays: list[NDArray[Any]]) -> Parcel:
    return kind(put_together(frame, realigned(arrays)))


class OnDask(Shards):
    """Shards on the workers of a cluster."""

    def __init__(self, client: Any) -> None:
        self._client, self._futures = client, weakref.WeakSet[Any]()

    def share(self, value: Any) -> Any:
        """Return a future of a large value, which reaches each worker once; a small one travels with each task."""
        parcel = Parcel(realigned(value))  # a copy: its owner may write into it before a lost result is computed again
        # Bytes that are sent eight times sooner than they are fetched once.
        return parcel if sys.getsizeof(parcel) <= 50_000 else self._map(_same, [parcel])[0]

    def keep(
        self, function: Callable[..., tuple[Any, Any]], *columns: Sequence[Any], shared: Sequence[Any] = ()
    ) -> tuple[list[Any], list[Any]]:
        """Return the first results and futures of the second ones."""
        # Copies, as in `share`: clusters of threads take arrays as they are.
        own = [[v.copy("K") if isinstance(v, np.ndarray) else v for v in part] for part in columns]
        both = self._run(_run_twofold, function, *own, shared=shared)
        with released_on_failure(both):
            return list(self._in_order(self._map(_part, both, [0] * len(both)))), both

    def balanced(self, kept: Sequence[Any]) -> list[Any]:
        """Return futures of the same values, of which no worker has more than its share: a pass waits for the last."""
        threads, places = self._client.nthreads(), self._client.who_has(list(kept))
        room = {worker: -(-len(kept) * n // sum(threads.values())) for worker, n in threads.items()}
        worker_of: dict[int, Any] = {}
        for k, future in enumerate(kept):
            own = [worker for worker in places.get(future.key, ()) if room.get(worker, 0)]
            if own:
                worker_of[k] = own[0]
                room[own[0]] -= 1
        for k in set(range(len(kept))) - set(worker_of):
            worker_of[k] = max(room, key=lambda worker: room[worker], default=None)
            room[worker_of[k]] = room.get(worker_of[k], 0) - 1
        futures = list(kept)
        for worker in set(worker_of.values()):
            numbers = [k for k, other in worker_of.items() if other == worker]
            hint = {"workers": None if worker is None else [worker], "allow_other_workers": worker is not None}
            moved = self._map(_copied, [kept[k] for k in numbers], **hint)
            for k, future in zip(numbers, moved, strict=True):
                futures[k] = future
        return futures

    def backed_up(self, kept: Sequence[Any]) -> Sequence[Any]:
        """Return futures of the same values, which the scheduler holds itself."""
        return self._map(_same, [Parcel(value) for value in self.collect(_itself, kept)])

    def collect(
        self, function: Callable[..., Any], *columns: Sequence[Any], shared: Sequence[Any] = ()
    ) -> Iterator[Any]:
        """Yield the results."""
        return self._in_order(self._run(_run, function, *columns, shared=shared))

    def split(
        self,
        function: Callable[..., Sequence[Any]],
        sizes: Sequence[int],
        *columns: Sequence[Any],
        shared: Sequence[Any] = (),
    ) -> list[list[Any]]:
        """Return futures of each of the results."""
        wholes = self._run(_run, function, *columns, shared=shared)
        repeated = [whole for whole, size in zip(wholes, sizes, strict=True) for _ in range(size)]
        parts = iter(self._map(_part, repeated, [k for size in sizes for k in range(size)]))
        return [[next(parts) for _ in range(size)] for size in sizes]

    def _run(self, run: Any, function: Any, *columns: Sequence[Any], shared: Sequence[Any]) -> list[Any]:
        # Not as keywords: Dask keeps large ones of all fits under one key, and waits for it for ever.
        sent, n = [self.share(value) if isinstance(value, np.ndarray) else value for value in shared], len(columns[0])
        return self._map(run, [function] * n, [sent] * n, *columns, key=_name(function))

    def _map(self, function: Callable[..., Any], *columns: Sequence[Any], **options: Any) -> list[Any]:
        import dask

        # Impure: two fits at once never share a key.
        with dask.config.set(_NO_WARNING):
            futures = list(self._client.map(function, *columns, pure=False, **options))
        self._futures.update(futures)
        return futures

    def close(self) -> None:
        """Release all futures."""
        for future in list(self._futures):
            future.release()

    def _in_order(self, futures: list[Any]) -> Iterator[Any]:
        with released_on_failure(futures):
            for start in range(0, len(futures), _AT_ONCE):
                batch = futures[start : start + _AT_ONCE]
                try:
                    parcels = self._client.gather(batch)
                except Exception:
                    # Of several errors the first in order is raised, not that of the quickest worker.
                    for future in batch:
                        future.result()
                    raise
                for parcel in parcels:
                    yield parcel.value


@contextmanager
def released_on_failure(futures: Sequence[Any]) -> Iterator[None]:
    """Release futures if the body fails: its traceback refers to them, and Dask keeps it."""
    try:
        yield
    except BaseException:
        for future in futures:
            future.release()
        raise


def _name(function: Any) -> str:
    """Return the name of a function, by which Dask remembers how long its tasks take."""
    return str(getattr(function, "func", function).__name__).strip("_")


def _same(parcel: Parcel) -> Parcel:
    return parcel


def _itself(value: Any) -> Any:
    return value


def _run(function: Callable[..., Any], shared: Sequence[Any], *entries: Any) -> Parcel:
    return Parcel(function(*map(_value, entries), *map(_value, shared)))


def _run_twofold(function: Callable[..., tuple[Any, Any]], shared: Sequence[Any], *entries: Any) -> _Results:
    return _Results(_run(function, shared, *entries).value)


def _copied(entry: Parcel) -> Parcel:
    return Parcel(_value(entry))


def _part(parcel: Parcel, number: int) -> Parcel:
    return Parcel(parcel.value[number])


def _value(entry: Any) -> Any:
    if isinstance(entry, _Results):
        return entry.value[1]
    return entry.value if isinstance(entry, Parcel) else entry
