"""Ratings as estimators take them, and how they are split for an honest test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import clone

from skpref.exceptions import DataError
from skpref.search._rows import Loss, Metric, Parts, Rows, assign_folds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from skpref._typing import IntArray

_MANY_USERS, _SHARE = 1000, 0.2  # one rating of each of them tells enough; else this share does
_STAGES = 4  # times that a chain is looked at after its burn-in


@dataclass(frozen=True, eq=False)
class Rated(Rows):
    """Ratings as an estimator takes them.

    Parameters
    ----------
    X : ndarray of shape (n, 2)
        Ids of user and item, no pair of them twice.
    y : ndarray of shape (n,)
        Ratings, among the levels.
    weight : ndarray of shape (n,)
        Weights.
    groups : None
        Nothing else is kept together.
    levels : ndarray of shape (L,)
        All levels, low to high.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.search import Rated
    >>> X = np.array([["ann", "tea"], ["ann", "milk"], ["bob", "tea"]], dtype=object)
    >>> rated = Rated(X, np.array([3, 1, 3]), np.ones(3), levels=np.array([1, 2, 3]))
    >>> train, test = rated.split(0.0)
    >>> X[test, 0].tolist()
    ['ann']
    """

    levels: NDArray[Any] = field(default_factory=lambda: np.array([], dtype=np.int64), kw_only=True)

    metric: ClassVar[Metric] = Metric("mae", "MAE")
    objective: ClassVar[str] = "risk"

    def split(self, share: float, seed: int = 0) -> tuple[IntArray, IntArray]:
        """Hold out a share of each user's ratings, at least one, of users who have others.

        Parameters
        ----------
        share : float
            Share of each user's ratings; 0 holds out one.
        seed : int, default=0
            Of the draw.

        Returns
        -------
        train, test : ndarray of int
            Rows, ascending.

        Raises
        ------
        DataError
            If no user has two ratings.
        """
        user = np.unique(self.X[:, 0], return_inverse=True)[1].reshape(-1)
        count = np.bincount(user)
        order = np.random.default_rng(seed).permutation(user.size)
        order = order[np.argsort(user[order], kind="stable")]
        place = np.arange(user.size) - np.repeat(np.cumsum(count) - count, count)  # among the user's own
        most = np.clip(np.floor(share * count + 0.5), 1, count - 1)
        test = np.sort(order[place < most[user[order]]])
        _require_two(test.size)
        return np.setdiff1d(np.arange(user.size), test), test

    def folds(self, n_folds: int, seed: int = 0) -> Parts:
        """Deal each user's ratings to the folds.

        Of one fold, hold out one rating of each user, or a fifth of each user's where users are fewer than a thousand.

        Parameters
        ----------
        n_folds : int
            How many parts at most.
        seed : int, default=0
            Of the draw.

        Returns
        -------
        list of (ndarray, ndarray)
            Rows for training and for the test. Whoever is tested has ratings to learn from.

        Raises
        ------
        DataError
            If no user has two ratings.
        """
        if n_folds == 1:
            return [self.split(0.0 if np.unique(self.X[:, 0]).size >= _MANY_USERS else _SHARE, seed)]
        user = np.unique(self.X[:, 0], return_inverse=True)[1].reshape(-1)
        fold = assign_folds(user, n_folds, np.random.default_rng(seed))
        parts = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]
        parts = [(train, test) for train, test in parts if test.size]
        _require_two(len(parts))
        return parts

    def n_stages(self, template: Callable[[], Any]) -> int:
        """Return how often a chain is looked at.

        Parameters
        ----------
        template : callable
            Gives an estimator with `n_sweeps` and `burn_in`.

        Returns
        -------
        int
            At least 1.
        """
        model = template()
        return len(_legs(model.n_sweeps, model.burn_in))

    def stages(self, template: Any, test: Rated) -> Iterator[Loss]:
        """Run the chains leg by leg, which changes nothing of where they go.

        Parameters
        ----------
        template : estimator
            Not touched.
        test : Rated
            Other ratings.

        Yields
        ------
        Loss
            Of the average over all sweeps since burn-in.
        """
        model = clone(template).set_params(warm_start=True)
        for n_sweeps, burn_in in _legs(template.n_sweeps, template.burn_in):
            model.set_params(n_sweeps=n_sweeps, burn_in=burn_in).fit(self.X, self.y, sample_weight=self.weight)
            yield Loss(self.loss(model, test), self.trace(model))

    def loss(self, model: Any, test: Rated) -> float:
        """Return the mean absolute error in levels.

        Parameters
        ----------
        model : estimator
            Fitted.
        test : Rated
            Ratings.

        Returns
        -------
        float
            The less the better.
        """
        return -float(model.score(test.X, test.y, test.weight))

    def trace(self, model: Any) -> tuple[float, ...]:
        """Return the regularised risk after each sweep, the mean of the chains.

        Parameters
        ----------
        model : estimator
            Fitted.

        Returns
        -------
        tuple of float
            Its curve.
        """
        return tuple(np.mean(model.risks_, axis=0).tolist())


def _legs(n_sweeps: int, burn_in: int) -> list[tuple[int, int]]:
    """Sweeps and burn-in of each leg: the first has the burn-in, the others have none to come."""
    ends = np.unique(np.linspace(burn_in, n_sweeps, min(_STAGES, max(n_sweeps - burn_in, 1)) + 1).astype(int)[1:])
    return [(int(end - start), burn_in if start == 0 else 0) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _require_two(n: int) -> None:
    if not n:
        raise DataError("no user has two ratings, so that nothing of a user who is learnt from can be held out")
