"""Long columns of strings by pyarrow, which hashes and sorts them several times as fast as Python does."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skpref._typing import IntArray
    from skpref.data.ids import IdColumn

_LONG = 20_000  # ids from which the conversion is worth its while; importing pyarrow takes 0.1 s


def arrow_strings(columns: Sequence[IdColumn]) -> list[Any] | None:
    """Return columns as Arrow strings; None if they are short or hold anything else, or without pyarrow."""
    if sum(column.size for column in columns) < _LONG or any(column.dtype != object for column in columns):
        return None
    if any(set(map(type, column.tolist())) - {str} for column in columns) or find_spec("pyarrow") is None:
        return None
    import pyarrow as pa

    try:
        return [pa.array(column, type=pa.large_string()) for column in columns]
    except UnicodeEncodeError:  # half of a surrogate pair
        return None


def encoded_strings(columns: Sequence[IdColumn]) -> tuple[IdColumn, list[IntArray]] | None:
    """Return the distinct strings of all columns, sorted, and the place of each string among them; None as above."""
    strings = arrow_strings(columns)
    if strings is None:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = pa.chunked_array(strings, type=pa.large_string()).dictionary_encode()
    distinct = encoded.chunk(0).dictionary
    # Arrow compares the bytes of UTF-8, whose order is that of the code points, as in Python.
    order = pc.sort_indices(distinct)
    place = np.empty(len(distinct), dtype=np.int64)
    place[order.to_numpy()] = np.arange(len(distinct))
    # Arrow drops chunks without entries.
    rows = place[np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])]
    ends = np.cumsum([column.size for column in columns])
    return distinct.take(order).to_numpy(zero_copy_only=False), np.split(rows, ends[:-1])


def places_of_strings(ids: IdColumn, vocabulary: IdColumn) -> IntArray | None:
    """Return the place of each id in a vocabulary, -1 where it is not there; None as above."""
    strings = arrow_strings([ids, vocabulary])
    if strings is None:
        return None
    import pyarrow.compute as pc

    return np.asarray(pc.index_in(strings[0], value_set=strings[1]).fill_null(-1), dtype=np.int64)
