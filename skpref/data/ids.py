"""Columns of ids, which are integers, strings or any other hashables, and vocabularies, which number the ids.

A column of ids has the dtype ``int64``, or ``object`` if it holds anything else
than integers of 64 bits. Strings stay Python objects, because a fixed-width array
of strings needs the size of its longest entry for every row and drops trailing
NULs.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from itertools import chain, count, repeat
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Self, cast

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from skpref._checks import require
from skpref._typing import IntArray
from skpref._validation import as_series, is_missing, refuse_collection
from skpref.data.policy import POLICY
from skpref.exceptions import DataError, UnknownIdError

IdColumn = NDArray[Any]
"""A one-dimensional array of ids with dtype int64 or object."""


class _EncodedIds(NDArray[Any] if TYPE_CHECKING else np.ndarray):  # type: ignore[misc]
    """A checked column of ids that remembers its distinct ids and their places; what is cut out of it does not."""

    encoding: tuple[IdColumn, NDArray[np.int64]] | None

    def __array_finalize__(self, source: object) -> None:
        """Forget the encoding, which is of one whole column."""
        self.encoding = None


LEAVE_OUT = "leave such rows out of X and y, such as by X[keep] and y[keep] with a mask of the complete rows"
MAX_ID_CHARACTERS = 80  # characters of an id in a message
_CONVERT = "convert one of them, for example with astype(str) or astype(int)"
_WHOLE_NUMBER = re.compile(r"\s*([+-]?[0-9]{1,20})(\.0*)?\s*")


def shorten(value: object) -> str:
    """Return `repr(value)`, cut to 80 characters for use in a message."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | bytes) and len(value) > MAX_ID_CHARACTERS:
        return f"{value[:MAX_ID_CHARACTERS]!r}..."
    if isinstance(value, int) and value.bit_length() > POLICY.most_bits:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    if len(text) > MAX_ID_CHARACTERS + 2 and not isinstance(value, str | bytes):
        return f"{text[:MAX_ID_CHARACTERS]}..."
    return text


# --------------------------------------------------------------------------
# one column


def as_ids(
    column: ArrayLike, name: str = "X", noun: str = "comparison", kind: str = "item", leave_out: str = LEAVE_OUT
) -> IdColumn:
    """Convert a column of ids to an array of dtype int64 or object, shape (n,)."""
    if isinstance(column, _EncodedIds) and column.ndim == 1 and (column.dtype == object or column.encoding):
        return column
    where = _Where(name, noun, kind, leave_out)
    refuse_collection(column, name)
    if isinstance(column, list | tuple):
        return _from_objects(list(column), where)
    if np.ma.is_masked(column):
        raise DataError(where.missing(int(np.argmax(np.ma.getmaskarray(np.ma.asarray(column))))))
    series = None if isinstance(getattr(column, "dtype", None), np.dtype) else as_series(column)
    if series is not None:
        return _from_series(series, where)
    values = np.asarray(column)
    if values.ndim != 1:
        hint = "" if values.ndim else f"; for one {kind}, give a list with its id"
        raise DataError(f"{name} must hold one-dimensional columns of ids, got {values.ndim} dimensions{hint}")
    return _from_array(values, where)


def encoding_of(ids: IdColumn) -> tuple[IdColumn, NDArray[np.int64] | slice]:
    """Return the distinct ids of a column, and the place of each row's there; numbers are left as they are."""
    if isinstance(ids, _EncodedIds) and ids.encoding is not None:
        return ids.encoding
    if ids.dtype != object:
        return ids, slice(None)
    encoding = _encoded(ids)
    if isinstance(ids, _EncodedIds):
        ids.encoding = encoding
    return encoding


def _encoded(ids: IdColumn) -> tuple[IdColumn, NDArray[np.int64]]:
    """Return distinct objects in the order of their first rows, and the place of each row's among them."""
    values = ids.tolist()
    if ids.size >= POLICY.long_column and set(map(type, values)) == {str} and find_spec("pyarrow") is not None:
        import pyarrow as pa

        with suppress(UnicodeEncodeError):  # half of a surrogate pair
            distinct, codes = _arrow_encoding(pa.array(ids, type=pa.large_string()))
            return objects(distinct.to_list()), codes
    place: defaultdict[Any, int] = defaultdict(count().__next__)
    codes = np.fromiter(map(place.__getitem__, values), dtype=np.int64, count=ids.size)
    return objects(list(place)), codes


class _Where(NamedTuple):
    """The words for a column, its entries and what its ids name, for error messages."""

    name: str
    noun: str
    kind: str = "item"
    leave_out: str = LEAVE_OUT  # how to leave rows of a named column out

    def missing(self, row: int | str) -> str:
        advice = f"; {self.leave_out}" if self.leave_out and self.name.startswith("column ") else ""
        return f"missing {self.kind} id in {self.noun} {row} of {self.name}{advice}"


def _from_series(series: nw.Series[Any], where: _Where, *, encode: bool = True) -> IdColumn:
    """Return the ids of a column of a frame; pyarrow finds the distinct ones among text and categories."""
    missing = series.is_null().to_numpy()
    if missing.any():
        raise DataError(where.missing(int(np.argmax(missing))))
    dtype = series.dtype
    zone = getattr(dtype, "time_zone", None)  # which dates of NumPy have not
    if dtype.is_numeric() or (zone is None and isinstance(dtype, nw.Boolean | nw.Datetime | nw.Duration)):
        return _from_array(series.to_numpy(), where)
    text = isinstance(dtype, nw.String | nw.Categorical | nw.Enum | nw.Binary)
    if encode and text and len(series) >= POLICY.short_column and find_spec("pyarrow") is not None:
        with suppress(ValueError, TypeError):  # of a category, whose row the list below names
            values, codes = _arrow_encoding(series.to_arrow())
            distinct = _from_series(values, where, encode=False)
            ids = cast("_EncodedIds", distinct[codes].view(_EncodedIds))
            ids.encoding = distinct, codes
            return ids
    return _from_objects(series.to_list(), where)


def _arrow_encoding(column: Any) -> tuple[nw.Series[Any], NDArray[np.int64]]:  # of pyarrow
    """Return the distinct values of an array of pyarrow, and the place of each row's among them."""
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    encoded = column if hasattr(column, "indices") else column.dictionary_encode()
    codes, distinct = encoded.indices.to_numpy(), cast("nw.Series[Any]", as_series(encoded.dictionary))
    present = np.bincount(codes, minlength=len(distinct)) > 0  # some categories may not occur
    return distinct.filter(present.tolist()), (np.cumsum(present) - 1)[codes]


def _from_array(values: NDArray[Any], where: _Where) -> IdColumn:
    kind = values.dtype.kind
    if kind in "bi":
        return np.ascontiguousarray(values, dtype=np.int64)
    if kind == "u":
        return integers(values.tolist()) if values.max(initial=0) > (2**63 - 1) else values.astype(np.int64)
    if kind == "f":
        return _from_floats(values, where)
    if kind == "c":
        raise DataError(f"Complex data not supported: the ids of {where.name} have dtype {values.dtype}")
    # Dates keep their unit only as numpy scalars: tolist() would give integers.
    objects = list(values) if kind in "mM" else values.tolist()
    kinds = set(map(type, objects)) if kind == "O" else {object}
    if all(issubclass(held, str | bytes) and not issubclass(held, np.generic) for held in kinds):
        return np.ascontiguousarray(values).view(_EncodedIds)
    return _from_objects(objects, where)


def _from_floats(values: NDArray[Any], where: _Where) -> IdColumn:
    with np.errstate(invalid="ignore"):
        # 2**63 is a float; the next float below it is the largest that fits int64.
        whole = (values == np.trunc(values)) & (np.abs(values) < 2.0**63)
    return values.astype(np.int64) if whole.all() else _from_objects(values.tolist(), where)


def integers(values: list[int]) -> IdColumn:
    """Return integers as int64, or as objects if that does not hold all of them."""
    low, high = min(values, default=0), max(values, default=0)
    if low >= -(2**63) and high <= (2**63 - 1):
        return np.array(values, dtype=np.int64)
    if (bits := max(-low, high).bit_length()) > POLICY.most_bits:
        raise DataError(f"an id is an integer of {bits} bits, which Python cannot write: use shorter ids, or strings")
    return objects(values)


def objects(values: Sequence[object]) -> IdColumn:
    """Return values as an object array; np.array would turn ids that are tuples into rows."""
    return np.fromiter(values, dtype=object, count=len(values))


def _from_objects(values: list[Any], where: _Where) -> IdColumn:
    kinds = set(map(type, values))
    if not all(issubclass(kind, int | str | bytes) and not issubclass(kind, np.generic) for kind in kinds):
        values = [_plain(value, row, where) for row, value in enumerate(values)]
        kinds = set(map(type, values))
    if values and all(issubclass(kind, int) for kind in kinds):
        return integers([int(value) for value in values] if kinds != {int} else values)
    return objects(values).view(_EncodedIds)


def _plain(value: Any, row: int, where: _Where) -> Hashable:  # an id may be anything
    """Return an id as a plain hashable: numpy numbers and integral floats become int."""
    if isinstance(value, np.generic) and value.dtype.kind in "biufUS":
        value = value.item()
    if is_missing(value):
        raise DataError(where.missing(row))
    if isinstance(value, float):
        if not value.is_integer():
            got = f"got {shorten(value)} in {where.noun} {row} of {where.name}"
            raise DataError(f"numeric {where.kind} ids must be integers, {got}")
        return int(value)
    try:
        hash(value)
    except (TypeError, ValueError) as error:  # a writable memoryview raises the latter
        text = f"{where.kind} ids must be hashable, got {shorten(value)} in {where.noun} {row} of {where.name}"
        raise DataError(text) from error
    return value  # type: ignore[no-any-return]  # hash() above is the check


def single_id(value: Any, kind: str) -> IdColumn:  # an id may be anything
    """Return the id of one item or user as a column, shape (1,)."""
    try:
        hash(value)
    except (TypeError, ValueError) as error:  # a writable memoryview raises the latter
        msg = f"{kind} must be the id of one {kind}, got {type(value).__name__} {shorten(value)}"
        raise DataError(f"{msg}: call the method once for each {kind}") from error
    return as_ids([value], kind, "row", kind)


def mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread 64 bits over all 64 (the finaliser of MurmurHash3); 0 stays 0."""
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53), (33, 1)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits


def kinds_of(ids: IdColumn) -> dict[str, Any]:
    """Return an example of every kind of id: "integers", "strings", "bytes", "tuples" and so on."""
    if ids.dtype != object:
        return {"integers": ids[0]} if ids.size else {}
    values = ids.tolist()
    types = sorted(set(map(type, values)), key=_kind_of)
    return {_kind_of(held): next(value for value in values if type(value) is held) for held in types}


def in_other_kinds(value: Any) -> list[int | str | bytes]:  # an id may be anything
    """Return the ids of other kinds that look the same: 1 for "1" and "1.0", "1" and "1.0" for 1."""
    if isinstance(value, int):
        return [f"{value:d}", f"{value:d}.0", b"%d" % value]
    if not isinstance(value, str | bytes):
        return []
    text = value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
    other = text if isinstance(value, bytes) else text.encode("utf-8", "surrogatepass")
    number = _WHOLE_NUMBER.fullmatch(text)
    return [other] if number is None else [int(number[1]), other]


def _kind_of(held: type) -> str:
    kinds = {int: "integers", str: "strings", bytes: "bytes"}
    return next((kind for base, kind in kinds.items() if issubclass(held, base)), f"{held.__name__}s")


# --------------------------------------------------------------------------
# ids as plain arrays


def pack_ids(ids: IdColumn) -> NDArray[np.uint8] | None:
    """Return ids as bytes of JSON, for files without Python objects; None of other ids than integers and text."""
    values = ids.tolist()
    if not set(map(type, values)) <= {int, str, bytes}:
        return None
    text = json.dumps([[value.hex()] if isinstance(value, bytes) else value for value in values])
    return np.frombuffer(text.encode(), dtype=np.uint8)


def unpack_ids(packed: NDArray[np.uint8]) -> IdColumn:
    """Return the ids of `pack_ids`, shape (n,); bytes that come from elsewhere are safe."""
    try:
        read = json.loads(packed.tobytes())
        values = [bytes.fromhex("".join(value)) if isinstance(value, list) else value for value in read]
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"damaged ids: {error}") from error
    if not isinstance(read, list) or not set(map(type, values)) <= {int, str, bytes}:
        raise DataError("damaged ids: they must be a list of integers, strings and bytes")
    return _from_objects(values, _Where("ids", "row"))


# --------------------------------------------------------------------------
# vocabularies


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
    ids : ndarray of shape (n_items,), dtype int64 or object
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
        if object in (ids.dtype, self.ids.dtype) or not self.size:
            step = POLICY.rows_at_once
            values = chain.from_iterable(ids[k : k + step].tolist() for k in range(0, ids.size, step))
            return np.fromiter(map(self._row_of.get, values, repeat(-1)), dtype=np.int64, count=ids.size)
        if self._table is None:
            known, row = self._sorted
            place = np.minimum(np.searchsorted(known, ids), known.size - 1)
            return np.where(known[place] == ids, row[place], -1)
        low, table = self._table
        rows = np.full(ids.size, -1, dtype=np.int64)
        inside = (ids >= low) & (ids <= low + (table.size - 1))
        rows[inside] = table[ids[inside] - low]
        return rows

    @cached_property
    def _row_of(self) -> dict[Hashable, int]:
        """Row of each id."""
        return {value: row for row, value in enumerate(self.ids.tolist())}

    @cached_property
    def _sorted(self) -> tuple[IdColumn, IntArray]:
        """Integers in ascending order, and the row of each."""
        row = np.argsort(self.ids)
        return self.ids[row], row

    @cached_property
    def _table(self) -> tuple[int, IntArray] | None:
        """The smallest id, and the row of each integer from it on; None of ids that are no integers close together."""
        if self.ids.dtype == object or not _is_dense(self.ids):
            return None
        low = int(self.ids.min())
        table = np.full(int(self.ids.max()) - low + 1, -1, dtype=np.int64)
        table[self.ids - low] = np.arange(self.size)
        return low, table

    def _refuse_other_kinds(self, ids: IdColumn, rows: IntArray, name: str, noun: str, kind: str) -> None:
        """Refuse "1" where the vocabulary has 1, and the like: it would count as unseen."""
        for row in np.flatnonzero(rows < 0)[: POLICY.most_unknown].tolist():
            value: Any = ids.item(row)
            same = next((other for other in in_other_kinds(value) if other in self._row_of), None)
            if same is not None:
                mine, known = _kind_of(type(value)), _kind_of(type(same))
                msg = (
                    f"unknown {kind} {shorten(value)} in {noun} {row}: {kind} ids of {name} are {mine}, but the known "
                )
                raise UnknownIdError(f"{msg}ids, such as {shorten(same)}, are {known}; {_CONVERT}")

    def _refuse(self, ids: IdColumn, rows: IntArray, name: str, noun: str, kind: str) -> NoReturn:
        row = int(np.argmin(rows))
        item, count = ids[row], int(np.count_nonzero(rows < 0))
        place = f"{noun} {row}" + (f" (and {count - 1} more)" if count > 1 else "")
        if not self.positional or not isinstance(item, int | np.integer):
            what = f"unknown {kind} {shorten(item)} in {place}"
            named = f"pass `ids` to the Table if {kind}s have names"
            advice = f"known ids are {_sample(self.ids)}; "
            advice += named if self.positional else "ids must equal one of them"
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
        self.__dict__.update(
            ids=read_only(np.array(ids) if ids.flags.writeable else ids), positional=bool(state["positional"])
        )

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        ids = self.ids
        sound = isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.str in {"<i8", "|O"}
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


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an array that cannot be written to."""
    view = np.asarray(values).view()  # a plain array: a model file holds no subclass
    view.flags.writeable = False
    return view


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
    if all(column.dtype != object for column in columns):
        return _distinct_integers(np.concatenate(columns))
    values = list(dict.fromkeys(chain.from_iterable(column.tolist() for column in columns)))
    with suppress(TypeError):  # mixed types have no common order
        values = sorted(values)
    return integers(values) if set(map(type, values)) == {int} else objects(values)


def _distinct_integers(ids: IdColumn) -> IdColumn:
    if not _is_dense(ids):
        return np.unique(ids)
    low = int(ids.min())
    present = np.zeros(int(ids.max()) - low + 1, dtype=bool)
    present[ids - low] = True
    return np.flatnonzero(present) + low


def _is_dense(ids: IdColumn) -> bool:
    """Return whether a table over the whole span of the ids is small enough."""
    return bool(ids.size) and int(ids.max()) - int(ids.min()) < max(POLICY.small_span, 4 * ids.size)
