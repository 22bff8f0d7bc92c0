"""Cross-validation splitters for users who are known: everyone in a test part has other rows in the training part."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator

from skpref._math.random import as_generator
from skpref.data import Vocabulary
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

    from skpref._typing import BoolArray, IntArray

__all__ = ["WithinUserKFold", "WithinUserShuffleSplit"]


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
