"""Shards on the workers of a Dask cluster.

Everything is a future with its own recipe: a lost worker costs the recomputation of its shards, and nothing waits for a
worker that does not come back. Arrays are copied to aligned memory wherever they come off the wire, since NumPy and
BLAS may take another route to other bits for arrays that start elsewhere.
"""

from __future__ import annotations

import sys
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from skpref.inference.shards import put_together, realigned, taken_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["OnDask", "Parcel", "released_on_failure"]

_SMALL = 50_000  # bytes that are sent eight times sooner than they are fetched once
_AT_ONCE = 16  # results that are on their way to the client at a time
_NO_WARNING = {"distributed.admin.large-graph-warning-threshold": "100 GB"}  # states and vocabularies must travel


class Parcel:
    """A value whose arrays are writable and aligned on every worker, and whose size Dask knows."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _unpacked, taken_apart(self.value)

    def __sizeof__(self) -> int:
        frame, arrays = taken_apart(self.value)
        return len(frame) + sum(array.nbytes for array in arrays)


def _unpacked(frame: bytes, arrays: list[NDArray[Any]]) -> Parcel:
    return Parcel(put_together(frame, realigned(arrays)))


class OnDask:
    """Shards on the workers of a cluster."""

    def __init__(self, client: Any) -> None:
        self._client, self._futures = client, weakref.WeakSet[Any]()

    def share(self, value: Any) -> Any:
        """Return a future of a large value, which reaches each worker once; a small one travels with each task."""
        parcel = Parcel(value)
        return parcel if sys.getsizeof(parcel) <= _SMALL else self._map(_same, [parcel])[0]

    def keep(
        self, function: Callable[..., tuple[Any, Any]], *columns: Sequence[Any], shared: Sequence[Any] = ()
    ) -> tuple[list[Any], list[Any]]:
        """Return the first results and futures of the second ones."""
        both = self._map(_run, [function] * len(columns[0]), *columns, shared=list(shared))
        brought, kept = (self._map(_part, both, [number] * len(both)) for number in range(2))
        with released_on_failure([*both, *kept]):
            return list(self._in_order(brought)), kept

    def collect(
        self, function: Callable[..., Any], *columns: Sequence[Any], shared: Sequence[Any] = ()
    ) -> Iterator[Any]:
        """Yield the results."""
        return self._in_order(self._map(_run, [function] * len(columns[0]), *columns, shared=list(shared)))

    def split(
        self,
        function: Callable[..., Sequence[Any]],
        sizes: Sequence[int],
        *columns: Sequence[Any],
        shared: Sequence[Any] = (),
    ) -> list[list[Any]]:
        """Return futures of each of the results."""
        wholes = self._map(_run, [function] * len(sizes), *columns, shared=list(shared))
        repeated = [whole for whole, size in zip(wholes, sizes, strict=True) for _ in range(size)]
        parts = iter(self._map(_part, repeated, [k for size in sizes for k in range(size)]))
        return [[next(parts) for _ in range(size)] for size in sizes]

    def _map(self, function: Callable[..., Any], *columns: Sequence[Any], **shared: Any) -> list[Any]:
        import dask

        # Impure: two fits at once never share a key.
        with dask.config.set(_NO_WARNING):
            futures = list(self._client.map(function, *columns, pure=False, **shared))
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
                    # Of several errors the first in order is told, not that of the quickest worker.
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


def _same(parcel: Parcel) -> Parcel:
    return parcel


def _run(function: Callable[..., Any], *entries: Any, shared: Sequence[Any]) -> Parcel:
    return Parcel(function(*map(_value, entries), *map(_value, shared)))


def _part(parcel: Parcel, number: int) -> Parcel:
    return Parcel(parcel.value[number])


def _value(entry: Any) -> Any:
    return entry.value if isinstance(entry, Parcel) else entry
