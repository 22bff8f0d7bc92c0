"""Cross-validation splitters: for users who are known, and for blocks of time that earlier rows predict."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator

from skpref._math.random import as_generator
from skpref._typing import Array, BoolArray, IntArray
from skpref.data import Vocabulary
from skpref.data.columns import Columns
from skpref.data.ids import shorten
from skpref.data.times import as_duration, as_times, read_times
from skpref.exceptions import DataError


class _WithinUserSplitter(BaseCrossValidator):
    """Splitter that chooses the rows of each test part from the ids."""

    def split(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the rows of the training and of the test part of each split.

        Parameters
        ----------
        X : array-like of shape (n, 2) or (n, 3)
            Ids of user and item (ratings), or of user, left and right item (comparisons).
        y : array-like of shape (n,), default=None
            Ignored.
        groups : array-like of shape (n,), default=None
            Ignored.

        Yields
        ------
        train, test : ndarray of int
            Rows, ascending.

        Raises
        ------
        DataError
            If a parameter is out of range, or no user has two rows (two pairs of items).
        """
        del y, groups
        for test in self._test_masks(X):
            yield np.flatnonzero(~test), np.flatnonzero(test)

    @abstractmethod
    def _test_masks(self, X: ArrayLike) -> Iterator[BoolArray]:
        """Yield which rows are tested in each split, shape (n,)."""


class WithinUserKFold(_WithinUserSplitter):
    """K-fold splitter for known users: every tested user also has rows in the training part.

    The rows of each user are spread over the folds. All comparisons of one user about one pair of items, in either
    order, are in one fold, so that the training data do not contain the tested answer. A user with a single row (or
    with comparisons of a single pair) is always in the training part.

    Parameters
    ----------
    n_splits : int, default=4
        Largest number of folds, at least 2. There are fewer if no user has enough rows.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the shuffle. An int gives the same folds at every call.

    See Also
    --------
    WithinUserShuffleSplit : A single hold-out of the same kind.
    sklearn.model_selection.GroupKFold : Folds for users who are unseen: pass the users as `groups`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.search import WithinUserKFold
    >>> ratings = np.array([["ann", "tea"], ["ann", "milk"], ["bob", "tea"], ["bob", "milk"]])
    >>> for train, test in WithinUserKFold(2, random_state=0).split(ratings):
    ...     print(ratings[train, 0].tolist(), ratings[test, 0].tolist())
    ['ann', 'bob'] ['ann', 'bob']
    ['ann', 'bob'] ['ann', 'bob']
    """

    def __init__(
        self, n_splits: int = 4, *, random_state: int | np.random.RandomState | np.random.Generator | None = None
    ) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    def _test_masks(self, X: ArrayLike) -> Iterator[BoolArray]:
        if self.n_splits < 2:
            raise DataError(f"n_splits must be at least 2, got {self.n_splits}; for one split: WithinUserShuffleSplit")
        user, unit = _units(X)
        fold = _assign_folds(user, self.n_splits, as_generator(self.random_state))[unit]
        _require_candidates(bool((fold >= 0).any()), X)
        for k in np.unique(fold[fold >= 0]).tolist():
            yield fold == k

    def get_n_splits(
        self, X: ArrayLike | None = None, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X : array-like of shape (n, 2) or (n, 3), default=None
            Rows. None: the number is the largest possible one, `n_splits`.
        y : array-like of shape (n,), default=None
            Ignored.
        groups : array-like of shape (n,), default=None
            Ignored.

        Returns
        -------
        int
            At most `n_splits`.
        """
        del y, groups
        return self.n_splits if X is None else sum(1 for _ in self.split(X))


class WithinUserShuffleSplit(_WithinUserSplitter):
    """Random splits for known users: every tested user also has rows in the training part.

    Ratings: a share of the rows of each user is held out, at least one. Comparisons: a share of all rows is held out.
    All answers of one user about one pair of items, in either order, are in the same part, and one pair of each user
    stays in the training part. A user with a single row (or pair) is never tested.

    Parameters
    ----------
    n_splits : int, default=1
        Number of hold-outs.
    test_size : float, default=0.2
        Share in [0, 1) that is held out. With comparisons it is less if users compared few pairs. With ratings, 0 holds
        out one row of each user.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the draw. An int gives the same hold-outs at every call.

    See Also
    --------
    WithinUserKFold : Folds of the same kind.
    sklearn.model_selection.GroupShuffleSplit : Holds out unseen users: pass the users as `groups`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.search import WithinUserShuffleSplit
    >>> comparisons = np.array([["ann", "a", "b"], ["ann", "b", "c"], ["bob", "a", "b"]])
    >>> train, test = next(WithinUserShuffleSplit(test_size=0.4, random_state=0).split(comparisons))
    >>> comparisons[test, 0].tolist()  # bob compared one pair alone
    ['ann']
    """

    def __init__(
        self,
        n_splits: int = 1,
        *,
        test_size: float = 0.2,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
    ) -> None:
        self.n_splits = n_splits
        self.test_size = test_size
        self.random_state = random_state

    def _test_masks(self, X: ArrayLike) -> Iterator[BoolArray]:
        if not 0.0 <= self.test_size < 1.0:
            raise DataError(f"test_size must be a share from 0 to 1, 1 excluded; got {self.test_size}")
        user, unit = _units(X)
        rng = as_generator(self.random_state)
        share_of = _share_of_all if np.shape(X)[1] == 3 else _share_of_each
        for _ in range(self.n_splits):
            held = share_of(user, self.test_size, rng)
            _require_candidates(bool(held.any()), X)
            yield held[unit]

    def get_n_splits(
        self, X: ArrayLike | None = None, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> int:
        """Return the number of hold-outs.

        Parameters
        ----------
        X : array-like of shape (n, 2) or (n, 3), default=None
            Ignored.
        y : array-like of shape (n,), default=None
            Ignored.
        groups : array-like of shape (n,), default=None
            Ignored.

        Returns
        -------
        int
            `n_splits`.
        """
        del X, y, groups
        return self.n_splits


class TimeBlocks(BaseCrossValidator):
    """Walk-forward splitter: each block of time is tested by a model of all rows before it.

    From `start` on, time is cut into blocks of equal length. A split tests the rows of one block and trains on all rows
    before its beginning, so that no model sees the block that it predicts, or a later one. Rows of equal time are in
    the same part. Rows may be in any order, and blocks without rows are skipped.

    Parameters
    ----------
    time : str or int
        Column of X with the times, by name or by position: dates, also as text such as "2024-05-31", or numbers.
    every : timedelta, str, int or float
        Length of a block. Of dates: a timedelta, or a text such as "12h", "7D", "2W", "3M" or "1Y" (a year is 365.25
        days, a month its twelfth part). Of numbers: a number in their unit.
    start : date, str, int or float
        Beginning of the first block, which belongs to it: a date such as "2024-05-31", or a number. Rows before it only
        train.

    See Also
    --------
    GPPLClassifier : Its `time` gives utilities that move.
    sklearn.model_selection.TimeSeriesSplit : Blocks with equal numbers of rows, which must be sorted.

    Notes
    -----
    The test parts do not cover the rows before `start`. So ``cross_val_predict`` refuses this splitter; predict in a
    loop over the splits, as in the example.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> from skpref.search import TimeBlocks
    >>> X = [
    ...     ["x", "y", "2024-01-03"],
    ...     ["y", "x", "2024-01-05"],
    ...     ["x", "y", "2024-02-01"],
    ...     ["x", "y", "2024-02-07"],
    ...     ["y", "x", "2024-02-08"],
    ... ]
    >>> blocks = TimeBlocks(2, every="7D", start="2024-02-01")
    >>> blocks.get_n_splits(X)
    2
    >>> y, model = [1, 0, 1, 1, 0], GPPLClassifier(time=2, dynamics="drift")
    >>> for train, test in blocks.split(X):
    ...     _ = model.fit([X[k] for k in train], [y[k] for k in train])
    ...     print(test.tolist(), model.predict([X[k] for k in test]).tolist())
    [2, 3] [1, 1]
    [4] [0]
    """

    def __init__(self, time: str | int, *, every: Any, start: Any) -> None:
        self.time = time
        self.every = every
        self.start = start

    def split(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the rows of the training and of the test part of each block, the earliest block first.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Rows with the column of times: a data frame (pandas, polars), an array or a list of rows.
        y : array-like of shape (n,), default=None
            Ignored.
        groups : array-like of shape (n,), default=None
            Ignored.

        Yields
        ------
        train, test : ndarray of int
            Rows, ascending.

        Raises
        ------
        DataError
            If a parameter does not suit the times, a time is missing, or no row is before the first tested block.
        """
        del y, groups
        block = self._blocks(X)
        for k in np.unique(block[block >= 0]).tolist():
            yield np.flatnonzero(block < k), np.flatnonzero(block == k)

    def get_n_splits(
        self, X: ArrayLike | None = None, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> int:
        """Return the number of blocks with rows.

        Parameters
        ----------
        X : array-like of shape (n, n_columns), default=None
            Rows; without them there is no number.
        y : array-like of shape (n,), default=None
            Ignored.
        groups : array-like of shape (n,), default=None
            Ignored.

        Returns
        -------
        int
            Number of splits.

        Raises
        ------
        DataError
            As in `split`, or if X is None.
        """
        del y, groups
        if X is None:
            raise DataError("the number of TimeBlocks depends on the times in X: call get_n_splits(X)")
        return sum(1 for _ in self.split(X))

    def _blocks(self, X: ArrayLike) -> Array:
        """Return the number of the block of each row, negative before the first one, shape (n,)."""
        columns, time = Columns.of(X, "X", "X", ""), self.time
        if isinstance(time, Integral) and time not in columns.values and 0 <= time < len(columns.names):
            time = columns.names[time]
        times, is_dated = read_times(columns, time)
        start, every = (
            as_times(self.start, "start", is_dated=is_dated),
            as_duration(self.every, "every", is_dated=is_dated),
        )
        if start.ndim or not every > 0.0:
            name, wanted = ("start", "one time") if start.ndim else ("every", "longer than 0")
            raise DataError(f"{name} must be {wanted}; got {shorten(getattr(self, name))}")
        # Rounding puts a time on an edge into the block that begins there, whatever the last bits of the quotient.
        block = np.floor(np.round((times - start) / every, 6))
        if not (block >= 0).any():
            raise DataError(f"no row is at start={shorten(self.start)} or later, so that no block has rows to test")
        if not (block < block[block >= 0].min()).any():
            raise DataError(
                f"no row is before the first block with rows, from start={shorten(self.start)} on: there is nothing to "
                "train on; use a later start"
            )
        return block


def _units(X: ArrayLike) -> tuple[IntArray, IntArray]:
    """Return the user of each unit that is never split, and the unit of each row, shape (n,).

    Of comparisons, a unit is what a user says of a pair of items; of ratings, a row.
    """
    table: Any = np.asarray(X)
    if table.ndim != 2 or table.shape[1] not in {2, 3}:
        raise DataError(f"X has shape {table.shape}; wanted columns user, item or user, left, right")
    user = Vocabulary.from_columns(table[:, 0]).encode(table[:, 0])
    if table.shape[1] == 2:
        return user, np.arange(user.size)
    items = Vocabulary.from_columns(table[:, 1], table[:, 2])
    left, right = items.encode(table[:, 1]), items.encode(table[:, 2])
    rows = np.column_stack([user, np.minimum(left, right), np.maximum(left, right)])
    units, unit = np.unique(rows, axis=0, return_inverse=True)
    return units[:, 0], unit.reshape(-1)


def _places(user: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the place of each unit in a random order of its user's units, and how many units each user has."""
    order = rng.permutation(user.size)
    order = order[np.argsort(user[order], kind="stable")]
    count = np.bincount(user)
    place = np.empty(user.size, dtype=np.int64)
    place[order] = np.arange(user.size) - np.repeat(np.cumsum(count) - count, count)
    return place, count


def _assign_folds(user: IntArray, n_folds: int, rng: np.random.Generator) -> IntArray:
    """Return the fold of each unit: a user's units in turn, from a random fold on; -1 for a user's only unit."""
    place, count = _places(user, rng)
    fold = (place + rng.integers(n_folds, size=count.size)[user]) % n_folds
    fold[count[user] == 1] = -1
    return fold


def _share_of_each(user: IntArray, share: float, rng: np.random.Generator) -> Any:
    """Return which units are held out: a share of each user's, at least one, and never all."""
    place, count = _places(user, rng)
    n_held = np.clip(np.floor(share * count + 0.5), 1, count - 1)
    return place < n_held[user]


def _share_of_all(user: IntArray, share: float, rng: np.random.Generator) -> Any:
    """Return which units are held out: a share of all, at least one; a random unit of each user is not."""
    order = rng.permutation(user.size)
    stays = np.zeros(user.size, dtype=bool)
    stays[order[np.unique(user[order], return_index=True)[1]]] = True
    candidates = order[~stays[order]]
    held = np.zeros(user.size, dtype=bool)
    held[candidates[: max(1, round(share * user.size))]] = True
    return held


def _require_candidates(exist: bool, X: ArrayLike) -> None:
    if exist:
        return
    if np.shape(X)[1] == 2:
        raise DataError("every user has one rating; a hold-out needs users with two")
    raise DataError(
        "every user compared one pair of items; a hold-out needs users with two. To hold out whole users, pass them as "
        "groups (skpref tune: --group with the column of users)"
    )
