"""Rows of features with a label: ordered levels, numbers or two classes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.model_selection import StratifiedKFold

from skpref.metrics import cross_entropy
from skpref.search._rows import Metric, Parts, Rows

if TYPE_CHECKING:
    from skpref._typing import Array


@dataclass(frozen=True, eq=False)
class Levels(Rows):
    """Features with ordered levels, given by their numbers from 0.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features.
    y : ndarray of shape (n,), dtype int
        Numbers of the levels.
    weight : ndarray of shape (n,)
        Weights.
    groups : ndarray of shape (n,) or None
        Rows of one group are never split.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.search import Levels
    >>> levels = Levels(np.zeros((20, 1)), np.repeat([0, 1], 10), np.ones(20))
    >>> train, test = levels.split(0.2)
    >>> levels.y[test].sum()  # in proportion
    np.int64(2)
    """

    metric: ClassVar[Metric] = Metric("mae", "MAE")
    most_strata: ClassVar[int] = 100

    def folds(self, n_folds: int, seed: int = 0) -> Parts:
        """Split for the search, with the levels in proportion.

        Parameters
        ----------
        n_folds : int
            How many parts at most.
        seed : int, default=0
            Of the draw.

        Returns
        -------
        list of (ndarray, ndarray)
            Rows for training and for the test.
        """
        if self.groups is not None or np.unique(self.y, return_counts=True)[1].max() < n_folds:
            return super().folds(n_folds, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a rare level is missing from some folds
            return list(StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(self.X, self.y))

    def loss(self, model: Any, test: Levels) -> float:
        """Return the mean absolute error in levels.

        Parameters
        ----------
        model : estimator
            Fitted; it predicts numbers of levels.
        test : Levels
            Rows.

        Returns
        -------
        float
            The less the better.
        """
        return float(np.average(np.abs(model.predict(test.X) - test.y), weights=test.weight))


@dataclass(frozen=True, eq=False)
class Numbers(Rows):
    """Features with numbers.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features.
    y : ndarray of shape (n,)
        Targets.
    weight : ndarray of shape (n,)
        Weights.
    groups : ndarray of shape (n,) or None
        Rows of one group are never split.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.search import Numbers
    >>> [test.size for _, test in Numbers(np.zeros((8, 1)), np.arange(8.0), np.ones(8)).folds(4)]
    [2, 2, 2, 2]
    """

    metric: ClassVar[Metric] = Metric("rmse", "RMSE")

    def loss(self, model: Any, test: Numbers) -> float:
        """Return the root mean squared error.

        Parameters
        ----------
        model : estimator
            Fitted.
        test : Numbers
            Rows.

        Returns
        -------
        float
            In the unit of the targets.
        """
        return float(np.sqrt(np.average((model.predict(test.X) - test.y) ** 2, weights=test.weight)))


@dataclass(frozen=True, eq=False)
class Classes(Rows):
    """Features with one of two classes, given as 0 and 1.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features.
    y : ndarray of shape (n,)
        0 or 1.
    weight : ndarray of shape (n,)
        Weights.
    groups : ndarray of shape (n,) or None
        Rows of one group are never split.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.search import Classes
    >>> Classes(np.zeros((8, 1)), np.repeat([0, 1], 4), np.ones(8)).size
    8
    """

    metric: ClassVar[Metric] = Metric("log_loss", "log-loss")

    def loss(self, model: Any, test: Classes) -> float:
        """Return the mean log-loss.

        Parameters
        ----------
        model : estimator
            Fitted.
        test : Classes
            Rows.

        Returns
        -------
        float
            Nats per row.
        """
        p: Array = model.predict_proba(test.X)[:, 1]
        return float(cross_entropy(test.y, p, test.weight))
