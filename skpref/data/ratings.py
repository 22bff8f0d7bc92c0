"""Ratings as one small typed record, sorted by user or by item, and the functions that build it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import check_consistent_length, column_or_1d

from skpref._typing import AnyArray, Array, BoolArray, IntArray
from skpref._validation import check_structure, refuse_dates
from skpref.data.ids import IdColumn, as_ids, mixed, objects, read_only, shorten
from skpref.data.levels import check_labels, check_order, encode_levels, stated_order
from skpref.data.policy import POLICY
from skpref.data.weights import read_weights
from skpref.exceptions import DataError

Duplicates = Literal["error", "mean", "last"]
_STEP = np.uint64(0x9E3779B97F4A7C15)  # between mixings, so that zeros count
_ENTRIES = 2**31  # of one side, since compiled loops number them by 32 bits


def fingerprint(*columns: AnyArray) -> NDArray[np.uint64]:
    """Return two sums of hashes of rows, shape (2,), which add up over parts of them in any order."""
    total = np.zeros(2, dtype=np.uint64)
    for start in range(0, columns[0].size, POLICY.rows_at_once):
        code = np.zeros(1, dtype=np.uint64)
        for column in columns:
            part = column[start : start + POLICY.rows_at_once]
            code = mixed(
                (code + _STEP) ^ (part.view(np.uint64) if part.dtype == np.float64 else part.astype(np.uint64))
            )
        total += np.array([code.sum(), mixed(code + _STEP).sum()])
    return total


class ByRow(NamedTuple):
    """Ratings sorted by user or by item, in CSR form."""

    start: IntArray  # (n_rows + 1,): where each row's ratings begin
    column: NDArray[np.int32]  # (n,): row of the other side
    level: NDArray[np.int16]  # (n,): numbers of the levels
    weight: Array  # (n,): weights
    position: IntArray  # (n,): position of each entry in `Ratings`


@dataclass(frozen=True, eq=False, slots=True)
class Ratings:
    """Levels that users gave to items (frozen, checked).

    Parameters
    ----------
    user, item : ndarray of shape (n,), dtype int64
        Rows of user and item.
    level : ndarray of shape (n,), dtype int64
        Number of the level, from 0 (the lowest).
    weight : ndarray of shape (n,), dtype float64
        Factor on the loss of each rating, >= 0.
    n_users, n_items, n_levels : int
        Numbers of users, items and levels, including those without ratings.

    Raises
    ------
    DataError
        A number is out of range, a weight is negative or not finite, or lengths differ.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.data import Ratings
    >>> ratings = Ratings(np.array([1, 0]), np.array([0, 2]), np.array([4, 1]), np.ones(2), 2, 3, 5)
    >>> merged = ratings.merged()
    >>> merged.user.tolist(), merged.by_item().start.tolist()
    ([0, 1], [0, 1, 1, 2])
    """

    user: IntArray
    item: IntArray
    level: IntArray
    weight: Array
    n_users: int
    n_items: int
    n_levels: int

    def __post_init__(self) -> None:
        """Check everything, since compiled loops use these numbers as indices."""
        check_consistent_length(self.user, self.item, self.level, self.weight)
        weight = read_weights(self.weight, len(self.user))
        for name, limit in (("user", self.n_users), ("item", self.n_items), ("level", self.n_levels)):
            values = np.asarray(getattr(self, name), dtype=np.int64)
            if values.size and (int(values.min()) < 0 or int(values.max()) >= limit):
                raise DataError(f"{name} must lie in 0..{limit - 1}; got {values.min()}..{values.max()}")
            if limit >= (POLICY.most_levels + 1 if name == "level" else _ENTRIES):
                most = POLICY.most_levels if name == "level" else _ENTRIES - 1
                raise DataError(f"there are {limit} {name}s, more than the maximum of {most}")
            object.__setattr__(self, name, read_only(np.array(values)))
        object.__setattr__(self, "weight", read_only(np.array(weight)))

    @property
    def size(self) -> int:
        """The number of ratings."""
        return int(self.user.size)

    def followed_by(self, other: Ratings) -> Ratings:
        """Return these ratings followed by others.

        Parameters
        ----------
        other : Ratings
            Ratings with the same levels. Their first users and items are those of this record.

        Returns
        -------
        Ratings
            All ratings.
        """
        user, item, level, weight = (
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("user", "item", "level", "weight")
        )
        return Ratings(user, item, level, weight, other.n_users, other.n_items, self.n_levels)

    def merged(self, duplicates: Duplicates = "error", names: tuple[IdColumn, IdColumn, Any] | None = None) -> Ratings:
        """Merge all ratings of the same item by the same user.

        Parameters
        ----------
        duplicates : {"error", "mean", "last"}, default="error"
            What to do if they differ: raise an error, take the mean of their levels' numbers (rounded, halves upwards),
            or keep the last one only. Except with "last", weights add up, so a rating given twice counts twice.
        names : tuple of (users, items, levels), default=None
            Names of users, items and levels in error messages; None means their numbers.

        Returns
        -------
        Ratings
            Sorted by (user, item), without ratings of weight zero.

        Raises
        ------
        DataError
            If ratings of an item by a user differ and `duplicates` is "error".
        """
        key = self.user * self.n_items + self.item
        used = np.flatnonzero(self.weight > 0.0)
        order = used[np.argsort(key[used], kind="stable")]
        key = key[order]
        level, weight = self.level[order], self.weight[order]
        first = np.flatnonzero(np.diff(key, prepend=-1))
        if first.size == key.size:
            return self._taken(order, level, weight)
        last = np.append(first[1:], key.size) - 1
        if duplicates == "last":
            return self._taken(order[last], level[last], weight[last])
        low, high = np.minimum.reduceat(level, first), np.maximum.reduceat(level, first)
        if duplicates == "error" and (low != high).any():
            self._refuse(order, first, last, low != high, names)
        total = np.add.reduceat(weight, first)
        mean = np.floor(np.add.reduceat(weight * level, first) / total + 0.5).astype(np.int64)
        # Rounding errors must not change the mean of equal levels.
        return self._taken(order[first], np.clip(mean, low, high), total)

    def _taken(self, rows: IntArray, level: IntArray, weight: Array) -> Ratings:
        sizes = self.n_users, self.n_items, self.n_levels
        return Ratings(self.user[rows], self.item[rows], level, weight, *sizes)

    def _refuse(self, order: IntArray, first: IntArray, last: IntArray, differ: BoolArray, names: Any) -> NoReturn:
        users, items, levels = names or (np.arange(self.n_users), np.arange(self.n_items), np.arange(self.n_levels))
        group = int(np.flatnonzero(differ)[0])
        rows = order[first[group] : last[group] + 1]
        user, item = shorten(users[self.user[rows[0]]]), shorten(items[self.item[rows[0]]])
        values = ", ".join(shorten(levels[level]) for level in self.level[rows][:5].tolist())
        more = int(np.count_nonzero(differ)) - 1
        also = f" (and {more} more such pairs)" if more else ""
        got = f"duplicate ratings that differ: user {user} rated item {item} {rows.size} times: {values}{also}"
        raise DataError(f"{got}; keep one of them, or set duplicates='mean' or duplicates='last'")

    def by_user(self) -> ByRow:
        """Return the ratings in CSR form by user; call `merged` first.

        Returns
        -------
        ByRow
            In the order of this record.
        """
        start = np.zeros(self.n_users + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.user, minlength=self.n_users), out=start[1:])
        level = self.level.astype(np.int16)
        return ByRow(start, self.item.astype(np.int32), level, self.weight, np.arange(self.size))

    def by_item(self) -> ByRow:
        """Return the ratings in CSR form by item; call `merged` first.

        Returns
        -------
        ByRow
            Users ascending within an item.
        """
        users = self.by_user()
        shape = self.n_users, self.n_items
        # A sort by counting: linear in the number of ratings.
        turned = sparse.csr_array((users.position, users.column, users.start), shape=shape).tocsc()
        position = np.asarray(turned.data, dtype=np.int64)
        start, column = np.asarray(turned.indptr, dtype=np.int64), np.asarray(turned.indices, dtype=np.int32)
        return ByRow(start, column, users.level[position], np.ascontiguousarray(self.weight[position]), position)


# --------------------------------------------------------------------------
# levels


def rating_levels(
    y: ArrayLike, levels: ArrayLike | None, users: IdColumn, items: IdColumn, numbers: IntArray | None = None
) -> tuple[AnyArray, IntArray]:
    """Return the levels of ratings, low to high, and the number of each rating's level, shape (n,).

    Messages name the users, the items and, where they are no more the positions, the numbers of the rows.
    """
    ordered, level, _ = encoded_ratings(y, levels, users, items, numbers)
    return enough_levels(ordered), level


def encoded_ratings(
    y: Any, levels: ArrayLike | None, users: IdColumn, items: IdColumn, numbers: IntArray | None = None
) -> tuple[AnyArray, IntArray, bool]:
    """Return the levels of ratings, the number of each rating's level, and whether the levels were declared."""

    def place(row: int) -> str:
        return f"user {shorten(users[row])}, item {shorten(items[row])}, row {row if numbers is None else numbers[row]}"

    if y is None:
        raise DataError("an estimator of ratings requires y to be passed, but the target y is None")
    if sparse.issparse(y):
        raise TypeError("Sparse data was passed for y, but dense data is required: one rating per row of X")
    check_consistent_length(users, y)
    values = column_or_1d(check_labels(y, place=place, mixed=True), warn=True)
    if values.dtype.kind == "O" and all(issubclass(kind, int | float) for kind in set(map(type, values.tolist()))):
        values = np.array(values.tolist())
    numeric = values.dtype.kind in "biuf"
    if numeric and not np.isfinite(values).all():
        raise DataError(f"infinite rating ({place(int(np.argmin(np.isfinite(values))))}); ratings are finite levels")
    declared = stated_order(y)[0] if levels is None else check_order(levels, "levels")
    if declared is None and not numeric:
        msg = f"ratings such as {shorten(values[0])} have no natural order; list all of them in levels, low to high"
        raise DataError(msg)
    if declared is not None and declared.dtype.kind in "biuf" and (np.diff(declared.astype(np.float64)) <= 0).any():
        raise DataError(f"levels must be in ascending order; got {declared.tolist()}")
    ordered = np.unique(values) if declared is None else declared
    ordered = ordered if ordered.dtype.kind in "biuf" else objects(ordered.tolist())
    return ordered, encode_levels(values, ordered, place=place, order="levels"), declared is not None


def enough_levels(ordered: AnyArray) -> AnyArray:
    """Return levels that are at least two, and not too many."""
    if ordered.size < 2:
        got = f"; got 1 class: every rating is {shorten(ordered[0])}" if ordered.size else ""
        raise DataError(f"at least 2 levels of ratings are needed{got}. List all levels in levels, low to high")
    if ordered.size > POLICY.most_levels:
        most = f"more than the {POLICY.most_levels} levels of ratings allowed"
        raise DataError(f"y has {ordered.size} distinct values, {most}; round them")
    return ordered


# --------------------------------------------------------------------------
# a matrix


def from_matrix(
    matrix: Any, users: ArrayLike | None = None, items: ArrayLike | None = None
) -> tuple[AnyArray, AnyArray]:
    """Convert a matrix of ratings to rows (user, item) and ratings.

    Parameters
    ----------
    matrix : sparse matrix or array of shape (n_users, n_items)
        Ratings: the stored entries of a sparse matrix, or the entries of a dense one that are not NaN.
    users, items : array-like of shape (n_users,) and (n_items,), default=None
        Ids of the rows and columns; None means their numbers.

    Returns
    -------
    X : ndarray of shape (n, 2)
        Ids of user and item.
    y : ndarray of shape (n,)
        Ratings.

    Raises
    ------
    DataError
        If a sparse matrix stores a zero, which may be a rating of 0 or no rating; if it stores an entry twice; or if
        the numbers of ids differ from those of rows and columns.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.data import from_matrix
    >>> X, y = from_matrix([[5, np.nan], [np.nan, 3]], users=["ann", "bob"])
    >>> X.tolist(), y.tolist()
    ([['ann', 0], ['bob', 1]], [5.0, 3.0])
    """
    if sparse.issparse(matrix):
        row, column, y = _stored(matrix)
        shape = matrix.shape
    else:
        is_frame = hasattr(matrix, "iloc") and matrix.ndim == 2
        has_categories = is_frame and any(str(dtype) == "category" for dtype in matrix.dtypes)
        # Missing values of categories of integers would become zeros.
        table = np.ma.asarray(matrix.astype(object) if has_categories else matrix)
        refuse_dates(table, "matrix")
        values = np.ma.getdata(table)
        if values.dtype.kind == "c":
            raise DataError("Complex data not supported: the matrix holds complex numbers")
        try:
            dense = np.where(np.ma.getmaskarray(table), np.nan, values.astype(np.float64))
        except OverflowError as error:
            raise DataError("the matrix holds an integer that is too large for a rating") from error
        if dense.ndim != 2:
            raise DataError(f"Expected 2D array, got {dense.ndim}D array instead: a matrix of users by items")
        row, column = np.nonzero(~np.isnan(dense))
        y, shape = dense[row, column], dense.shape
    named = _named(users, shape[0], "user")[row], _named(items, shape[1], "item")[column]
    dtype = named[0].dtype if named[0].dtype == named[1].dtype else np.dtype(object)
    X = np.empty((row.size, 2), dtype=dtype)
    X[:, 0], X[:, 1] = named
    return X, y


def _stored(matrix: Any) -> tuple[IntArray, IntArray, AnyArray]:
    entries = check_structure(matrix, "matrix").tocoo()
    row, column = (np.asarray(index, dtype=np.int64) for index in (entries.row, entries.col))
    zero = np.flatnonzero(entries.data == 0)
    if zero.size:
        at = f"row {row[zero[0]]}, column {column[zero[0]]}"
        msg = f"explicit zero in {at} of the matrix ({zero.size} in all): it may be a rating of 0 or none"
        raise DataError(msg + "; drop them by eliminate_zeros(), or pass ids and ratings")
    if np.unique(row * matrix.shape[1] + column).size != row.size:
        raise DataError("the matrix stores an entry twice, and would add up the ratings; pass ids and ratings instead")
    return row, column, entries.data


def _named(ids: ArrayLike | None, size: int, kind: str) -> IdColumn:
    if ids is None:
        return np.arange(size)
    named = as_ids(ids, f"{kind}s", "row", kind)
    if named.size != size:
        raise DataError(f"{kind}s must have one id for each of the {size} {kind}s of the matrix; got {named.size} ids")
    return named
