"""Comparisons as estimators take them, and how they are split for an honest test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skpref.data import Vocabulary
from skpref.exceptions import DataError
from skpref.metrics import cross_entropy
from skpref.search._rows import Metric, Parts, Rows, assign_folds

if TYPE_CHECKING:
    from skpref._typing import IntArray


@dataclass(frozen=True, eq=False)
class Answers(Rows):
    """Comparisons as an estimator takes them.

    Parameters
    ----------
    X : ndarray of shape (P, 2) or (P, 3)
        Ids of the left and the right item; with three columns, the id of the user stands before them.
    y : ndarray of shape (P,)
        1 = left preferred; any value in [0, 1].
    weight : ndarray of shape (P,)
        Weight of each.
    groups : ndarray of shape (P,) or None
        Who answered: answers of one group are never split between training and test.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.search import Answers
    >>> answers = Answers(np.array([["a", "b"], ["b", "c"]]), np.ones(2), np.ones(2), None)
    >>> answers.take(np.array([1])).X.tolist()
    [['b', 'c']]
    """

    metric: ClassVar[Metric] = Metric("log_loss", "log-loss")

    @property
    def has_users(self) -> bool:
        """Whether X tells who answered."""
        return self.X.ndim == 2 and self.X.shape[1] == 3

    def split(self, share: float, seed: int = 0) -> tuple[IntArray, IntArray]:
        """Split once: by groups where there are some, else with the labels in proportion.

        Where users are known and there are no groups, everyone in the hold-out has other comparisons to learn from.

        Parameters
        ----------
        share : float
            Share held out.
        seed : int, default=0
            Of the shuffle.

        Returns
        -------
        train, test : ndarray of int
            Rows, ascending.
        """
        if self.groups is None and self.has_users:
            return hold_out_of_users(self, share, seed)
        return super().split(share, seed)

    def folds(self, n_folds: int, seed: int = 0) -> Parts:
        """Split for the search; see `skpref.search.folds`.

        Parameters
        ----------
        n_folds : int
            How many parts at most.
        seed : int, default=0
            Of the shuffle.

        Returns
        -------
        list of (ndarray, ndarray)
            Rows for training and for the test.
        """
        return folds(self, n_folds, seed)

    def loss(self, model: Any, test: Answers) -> float:
        """Return the mean log-loss of a fitted estimator on other comparisons.

        Parameters
        ----------
        model : estimator
            Fitted.
        test : Answers
            Comparisons.

        Returns
        -------
        float
            Nats per comparison.
        """
        return float(cross_entropy(test.y, model.predict_proba(test.X)[:, 1], test.weight))


def folds(answers: Answers, n_folds: int = 4, seed: int = 0) -> Parts:
    """Split comparisons into folds that stay the same for all trials.

    Where users are known and there are no groups, every user of a test part has comparisons in its training part, and
    a user's answers about one pair of items stay together; a user who answered about one pair alone is never tested.

    Parameters
    ----------
    answers : Answers
        The comparisons. With groups, a group is never split.
    n_folds : int, default=4
        Number of folds at most; fewer when there are not as many comparisons or groups.
    seed : int, default=0
        Of the shuffle.

    Returns
    -------
    list of (ndarray, ndarray)
        Rows for training and for the test.

    Raises
    ------
    DataError
        If users are known and none of them has compared two pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.search import Answers, folds
    >>> answers = Answers(np.zeros((8, 2)), np.ones(8), np.ones(8), np.repeat([0, 1, 2, 3], 2))
    >>> [len(test) for _, test in folds(answers, n_folds=2)]
    [4, 4]
    """
    if answers.groups is None and answers.has_users:
        return _folds_of_users(answers, n_folds, np.random.default_rng(seed))
    return Rows.folds(answers, n_folds, seed)


def hold_out_of_users(answers: Answers, share: float, seed: int = 0) -> tuple[IntArray, IntArray]:
    """Hold out comparisons of users who have others that are learnt from.

    Parameters
    ----------
    answers : Answers
        With users.
    share : float
        Share of the comparisons to hold out; less is held out where users compared few pairs.
    seed : int, default=0
        Of the draw.

    Returns
    -------
    train, test : ndarray of int
        Rows, ascending. A user's answers about one pair of items are on one side.

    Raises
    ------
    DataError
        If no user has compared two pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.search import Answers, hold_out_of_users
    >>> X = np.array([["ann", "a", "b"], ["ann", "b", "c"], ["bob", "a", "b"]], dtype=object)
    >>> train, test = hold_out_of_users(Answers(X, np.ones(3), np.ones(3)), 0.4)
    >>> X[test, 0].tolist()
    ['ann']
    """
    user, unit = _units(answers)
    order = np.random.default_rng(seed).permutation(user.size)
    stays = np.zeros(user.size, dtype=bool)
    stays[order[np.unique(user[order], return_index=True)[1]]] = True  # one pair of each user
    candidates = order[~stays[order]]
    _require_candidates(candidates.size)
    held = np.zeros(user.size, dtype=bool)
    held[candidates[: max(1, round(share * user.size))]] = True
    return np.flatnonzero(~held[unit]), np.flatnonzero(held[unit])


def _folds_of_users(answers: Answers, n_folds: int, rng: np.random.Generator) -> Parts:
    """Assign the pairs of each user to the folds in turn, beginning at a fold drawn for the user."""
    user, unit = _units(answers)
    fold = assign_folds(user, n_folds, rng)
    tests = [np.flatnonzero(fold[unit] == k) for k in range(n_folds)]
    found = [(np.flatnonzero(fold[unit] != k), test) for k, test in enumerate(tests) if test.size]
    _require_candidates(len(found))
    return found


def _units(answers: Answers) -> tuple[IntArray, IntArray]:
    """What is never split, a user's answers about one pair of items: the user of each, and the unit of each row."""
    user, left, right = answers.X.T
    user = Vocabulary.from_columns(user).encode(user)
    items = Vocabulary.from_columns(left, right)
    left, right = items.encode(left), items.encode(right)
    rows = np.column_stack([user, np.minimum(left, right), np.maximum(left, right)])
    units, unit = np.unique(rows, axis=0, return_inverse=True)
    return units[:, 0], unit.reshape(-1)


def _require_candidates(n: int) -> None:
    if not n:
        raise DataError(
            "no user has compared two pairs of items, so that nothing of a user who is learnt from can be held out; "
            "hold out whole users instead: give them as groups (skpref tune: --group with the column of users)"
        )
