"""The mapping from ids to row numbers."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

import numpy as np

from skpref._checks import require
from skpref.data.ids import (
    as_ids,
    encoding_of,
    in_other_kinds,
    integers,
    kinds_of,
    objects,
    pack_ids,
    shorten,
    unpack_ids,
)
from skpref.exceptions import DataError, UnknownIdError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import ArrayLike

    from skpref._typing import IntArray
    from skpref.data.ids import IdColumn

__all__ = ["Vocabulary"]

# Integers are looked up in a table while it has at most this many entries, or at most four for every id.
_SMALL_SPAN = 1 << 20
_MAX_UNKNOWN = 10_000  # ids that are looked up in other kinds
_CONVERT = "convert one of them, for example with astype(str) or astype(int)"


class Frozen:
    """A record whose attributes are set once, by `__setstate__`; copies are the record itself."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: the record is frozen."""
        raise AttributeError(f"cannot set {name!r}: a {type(self).__name__} is frozen; make a new one")

    def __delattr__(self, name: str) -> NoReturn:
        """Refuse: the record is frozen."""
        raise AttributeError(f"cannot delete {name!r}: a {type(self).__name__} is frozen")

    def __copy__(self) -> Self:
        """Return the record itself."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        """Return the record itself."""
        return self


class Vocabulary(Frozen):
    """Ids and their row numbers (frozen).

    Parameters
    ----------
    ids : array-like of shape (n_items,)
        Distinct hashable ids; the position of an id is its row.
    name : str, default="ids"
        Name of the argument in error messages.

    Attributes
    ----------
    ids : ndarray of shape (n_items,), dtype int64, uint64 or object
        The ids, read-only.
    size : int
        The number of items.
    positional : bool
        Whether the ids are the row numbers.

    Raises
    ------
    DataError
        An id is missing, occurs twice or is not hashable.

    Examples
    --------
    >>> from skpref.data import Vocabulary
    >>> words = Vocabulary.from_columns(["b", "c"], ["a", "b"])
    >>> words.ids.tolist()
    ['a', 'b', 'c']
    >>> words.encode(["c", "a"]).tolist()
    [2, 0]
    """

    ids: IdColumn
    positional: bool

    def __init__(self, ids: ArrayLike, name: str = "ids") -> None:
        self.__setstate__({"ids": as_ids(ids, name, "row"), "positional": False})
        _refuse_duplicates(self.ids, name)

    @staticmethod
    def range(size: int) -> Vocabulary:
        """Return the vocabulary of items whose ids are their row numbers.

        Parameters
        ----------
        size : int
            The number of items.

        Returns
        -------
        Vocabulary
            Its ids are 0 to size - 1.
        """
        return _vocabulary(np.arange(size, dtype=np.int64), positional=True)

    @staticmethod
    def from_columns(*columns: ArrayLike, name: str = "X") -> Vocabulary:
        """Collect the distinct ids of one or several columns.

        Parameters
        ----------
        *columns : array-like of shape (n,)
            Columns of ids.
        name : str, default="X"
            Name of the argument in error messages.

        Returns
        -------
        Vocabulary
            Its ids are sorted if they can be compared, else in the order of their first appearance.

        Raises
        ------
        DataError
            An id is missing, or one column holds integers and another strings.
        """
        read = [as_ids(column, name) for column in columns]
        ids = _distinct([encoding_of(column)[0] for column in read])
        if len(columns) > 1 and len(kinds_of(ids)) > 1:
            _refuse_columns_of_other_kinds(read, name)
        return _vocabulary(ids, positional=False)

    @property
    def size(self) -> int:
        """The number of items."""
        return int(self.ids.size)

    def encode(
        self,
        column: ArrayLike,
        name: str = "X",
        *,
        unknown: Literal["raise", "mark"] = "raise",
        noun: str = "comparison",
        kind: str = "item",
    ) -> IntArray:
        """Return the row of every id of a column.

        Parameters
        ----------
        column : array-like of shape (n,)
            Ids.
        name : str, default="X"
            Name of the argument in error messages.
        unknown : {"raise", "mark"}, default="raise"
            What to do with an id that is not in the vocabulary: raise an error,
            or return the row -1.
        noun : str, default="comparison"
            Noun for an entry of the column in error messages.
        kind : str, default="item"
            Noun for what the ids name in error messages.

        Returns
        -------
        ndarray of shape (n,), dtype int64
            The rows.

        Raises
        ------
        UnknownIdError
            An id is not in the vocabulary and `unknown` is "raise", or it is of another kind: "1" where 1 is known.
        DataError
            An id is missing or a float is not integral.
        """
        ids = as_ids(column, name, noun, kind)
        distinct, codes = encoding_of(ids)
        rows = self._lookup(distinct)[codes]
        if rows.size and int(rows.min()) < 0:
            self._refuse_other_kinds(ids, rows, name, noun, kind)
            if unknown == "raise":
                self._refuse(ids, rows, name, noun, kind)
        return rows

    def _lookup(self, ids: IdColumn) -> IntArray:
        """Return the row of every id, -1 where it is not in the vocabulary."""
        if self._table is None or ids.dtype == object:
            return np.fromiter(map(self._row_of.get, ids.tolist(), repeat(-1)), dtype=np.int64, count=ids.size)
        low, table = self._table
        rows = np.full(ids.size, -1, dtype=np.int64)
        inside = (ids >= low) & (ids < low + table.size)
        rows[inside] = table[_offsets(ids[inside], self.ids.dtype, low)]
        return rows

    @cached_property
    def _row_of(self) -> dict[Hashable, int]:
        """Row of each id."""
        return {value: row for row, value in enumerate(self.ids.tolist())}

    @cached_property
    def _table(self) -> tuple[int, IntArray] | None:
        """The smallest id, and the row of each integer from it on; None of ids that are no integers close together."""
        if self.ids.dtype == object or not _is_dense(self.ids):
            return None
        low = int(self.ids.min())
        table = np.full(int(self.ids.max()) - low + 1, -1, dtype=np.int64)
        table[_offsets(self.ids, self.ids.dtype, low)] = np.arange(self.size)
        return low, table

    def _refuse_other_kinds(self, ids: IdColumn, rows: IntArray, name: str, noun: str, kind: str) -> None:
        """Refuse "1" where the vocabulary has 1, and the like: it would count as unseen."""
        unknown = np.flatnonzero(rows < 0)[:_MAX_UNKNOWN]
        pairs = [(row, same) for row in unknown.tolist() for same in in_other_kinds(ids.item(row))]
        if self.ids.dtype != object:
            pairs = [(row, same) for row, same in pairs if isinstance(same, int)]
        if not pairs:
            return
        others: list[Any] = [same for _, same in pairs]
        present = self._lookup(objects(others) if self.ids.dtype == object else integers(others)) >= 0
        if present.any():
            row, same = pairs[int(np.argmax(present))]
            (mine,), (known,) = kinds_of(objects([ids.item(row)])), kinds_of(objects([same]))
            msg = f"unknown {kind} {shorten(ids[row])} in {noun} {row}: {kind} ids of {name} are {mine}, but the known "
            raise UnknownIdError(f"{msg}ids, such as {shorten(same)}, are {known}; {_CONVERT}")

    def _refuse(self, ids: IdColumn, rows: IntArray, name: str, noun: str, kind: str) -> NoReturn:
        row = int(np.argmin(rows))
        item, count = ids[row], int(np.count_nonzero(rows < 0))
        place = f"{noun} {row}" + (f" (and {count - 1} more)" if count > 1 else "")
        if not self.positional or not isinstance(item, int | np.integer):
            what = f"unknown {kind} {shorten(item)} in {place}"
            advice = f"known ids are {_sample(self.ids)}; " + (
                f"pass `ids` to the Table if {kind}s have names"
                if self.positional
                else "ids must equal those of the table"
            )
        elif item < 0:
            what = f"negative {kind} index {item} in {place}"
            advice = "rows are counted from 0"
        else:
            what = f"{place} refers to {kind} {item}, but there are {self.size} {kind}s"
            advice = f"rows are counted from 0; pass `ids` to the Table if {kind}s have names"
        raise UnknownIdError(f"{what}; in {name}, {advice}")

    def __getstate__(self) -> dict[str, Any]:
        """Return the ids without the index, as plain arrays where possible."""
        if self.ids.dtype != object:
            return {"ids": self.ids, "positional": self.positional}
        packed = pack_ids(self.ids)
        return {"ids": self.ids, "positional": False} if packed is None else {"packed": packed, "positional": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the ids, read-only."""
        ids = state["ids"] if "ids" in state else unpack_ids(state["packed"])
        self.__dict__.update(ids=_freeze(ids), positional=bool(state["positional"]))

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        ids = self.ids
        sound = isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.str in {"<i8", "<u8", "|O"}
        require(sound, self, "ids", "must be a vector of ids")
        _refuse_duplicates(ids, "ids")
        if self.positional:
            rows = ids.dtype == np.int64 and np.array_equal(ids, np.arange(ids.size))
            require(rows, self, "ids", "must be 0, 1, 2, ... where they are row numbers")

    def __repr__(self) -> str:
        """Return a short description."""
        return f"Vocabulary({self.size} ids: {_sample(self.ids)})"


def _vocabulary(ids: IdColumn, *, positional: bool) -> Vocabulary:
    """Return a vocabulary of ids that are distinct already."""
    vocabulary = Vocabulary.__new__(Vocabulary)
    vocabulary.__setstate__({"ids": ids, "positional": positional})
    return vocabulary


def _freeze(ids: IdColumn) -> IdColumn:
    ids = np.array(ids) if ids.flags.writeable else np.asarray(ids)  # a plain array: a model file holds no subclass
    ids.flags.writeable = False
    return ids


def _sample(ids: IdColumn) -> str:
    shown = ", ".join(shorten(value) for value in ids[:3])
    return f"{shown}, ..." if ids.size > 3 else shown


def _refuse_duplicates(ids: IdColumn, name: str) -> None:
    if len(set(ids.tolist())) == ids.size:
        return
    first_rows: dict[Hashable, int] = {}
    for row, value in enumerate(ids.tolist()):
        first = first_rows.setdefault(value, row)
        if first != row:
            raise DataError(
                f"duplicate item id {shorten(value)} in {name}: rows {first} and {row}; every item needs its own id"
            )


def _refuse_columns_of_other_kinds(columns: list[IdColumn], name: str) -> None:
    """Refuse integers in one column and strings in another, unless a column holds both."""
    first, *rest = map(kinds_of, columns)
    for other in rest:
        if first and other and not first.keys() & other.keys():
            (kind, value), (other_kind, other_value) = next(iter(first.items())), next(iter(other.items()))
            msg = f"ids of the same items must be of one kind: in {name}, one column holds {kind} such as "
            msg += f"{shorten(value)}, another {other_kind} such as {shorten(other_value)}"
            raise DataError(f"{msg}; {_CONVERT}")


def _distinct(columns: list[IdColumn]) -> IdColumn:
    kinds = {column.dtype for column in columns}
    if len(kinds) == 1 and np.dtype(object) not in kinds:
        return _distinct_integers(np.concatenate(columns))
    values = list(dict.fromkeys(chain.from_iterable(column.tolist() for column in columns)))
    with suppress(TypeError):  # mixed types have no common order
        values = sorted(values)
    return integers(values) if set(map(type, values)) == {int} else objects(values)


def _distinct_integers(ids: IdColumn) -> IdColumn:
    if not _is_dense(ids):
        return np.unique(ids)
    low = ids.min()
    present = np.zeros(int(ids.max()) - int(low) + 1, dtype=bool)
    present[ids - low] = True
    distinct: IdColumn = np.flatnonzero(present).astype(ids.dtype) + low
    return distinct


def _is_dense(ids: IdColumn) -> bool:
    """Return whether a table over the whole span of the ids is small enough."""
    return bool(ids.size) and int(ids.max()) - int(ids.min()) < max(_SMALL_SPAN, 4 * ids.size)


def _offsets(ids: IdColumn, dtype: np.dtype[Any], low: int) -> IntArray:
    """Return ids, none of which is below `low`, minus it; the ids fit the type, and the differences int64."""
    return np.asarray(ids.astype(dtype, copy=False) - dtype.type(low)).astype(np.int64, copy=False)
