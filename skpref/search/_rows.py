"""What every kind of data offers to a search: parts of itself, honest splits, and the loss of a model on a part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold, ShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import Pipeline

from skpref._estimator import last_step
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray

_FEWEST_GROUPS = 5  # so that a fifth of them can be held out

Parts = list[tuple["IntArray", "IntArray"]]


class Metric(NamedTuple):
    """The loss that a search makes small."""

    name: str  # as in files and in MLflow, such as log_loss
    title: str  # as on the screen, such as log-loss


class Loss(NamedTuple):
    """What is known of a fit so far."""

    value: float  # loss on the test part
    trace: tuple[float, ...] = ()  # the objective after each iteration


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows, targets and weights: what a search knows of any data. A kind of data is a subclass.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows as the estimator takes them.
    y : ndarray of shape (n,)
        Targets.
    weight : ndarray of shape (n,)
        Weights.
    groups : ndarray of shape (n,) or None
        Rows of one group are never split between training and test.

    Attributes
    ----------
    metric : Metric
        The loss.
    objective : str
        What the estimator's trace is called.
    most_strata : int
        Different targets up to which a split keeps them in proportion.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.search import Rows
    >>> Rows(np.array([[1.0], [2.0]]), np.array([0, 1]), np.ones(2)).take(np.array([1])).X.tolist()
    [[2.0]]
    """

    X: NDArray[Any]
    y: NDArray[Any]
    weight: Array
    groups: NDArray[Any] | None = None

    metric: ClassVar[Metric]
    objective: ClassVar[str] = "lower_bound"
    most_strata: ClassVar[int] = 3

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self.y.shape[0])

    def take(self, rows: IntArray) -> Self:
        """Select rows.

        Parameters
        ----------
        rows : ndarray of int
            Which.

        Returns
        -------
        Rows
            Those.
        """
        groups = None if self.groups is None else self.groups[rows]
        return replace(self, X=self.X[rows], y=self.y[rows], weight=self.weight[rows], groups=groups)

    def split(self, share: float, seed: int = 0) -> tuple[IntArray, IntArray]:
        """Split once, for the final test: by groups where there are some, else with the targets in proportion.

        Parameters
        ----------
        share : float
            What to hold out.
        seed : int, default=0
            Of the draw.

        Returns
        -------
        train, test : ndarray of int
            Rows, ascending.

        Raises
        ------
        DataError
            If there are too few groups.
        """
        splitter: Any
        if self.groups is not None:
            n_groups = len(set(self.groups.tolist()))
            if n_groups < _FEWEST_GROUPS:
                raise DataError(f"{n_groups} groups; at least {_FEWEST_GROUPS} are needed to hold some of them out")
            splitter = GroupShuffleSplit(1, test_size=share, random_state=seed)
        elif self._can_stratify(share):
            splitter = StratifiedShuffleSplit(1, test_size=share, random_state=seed)
        else:
            splitter = ShuffleSplit(1, test_size=share, random_state=seed)
        train, test = next(splitter.split(self.X, self.y, self.groups))
        return np.sort(train), np.sort(test)

    def _can_stratify(self, share: float) -> bool:
        values, counts = np.unique(self.y, return_counts=True)
        enough = counts.min() >= 2 and min(share, 1.0 - share) * self.size >= values.size
        return 2 <= values.size <= self.most_strata and bool(enough)

    def folds(self, n_folds: int, seed: int = 0) -> Parts:
        """Split for the search, the same for all trials: by groups where there are some.

        Parameters
        ----------
        n_folds : int
            How many parts at most; fewer when there are not as many rows or groups.
        seed : int, default=0
            Of the draw.

        Returns
        -------
        list of (ndarray, ndarray)
            Rows for training and for the test.
        """
        units = self.size if self.groups is None else len(set(self.groups.tolist()))
        cls = KFold if self.groups is None else GroupKFold
        splitter = cls(min(n_folds, units), shuffle=True, random_state=seed)
        return list(splitter.split(self.X, self.y, self.groups))

    def n_stages(self, template: Callable[[], Any]) -> int:
        """Return how many losses `stages` gives, so that a trial can be given up between them.

        Parameters
        ----------
        template : callable
            Gives what will be fitted.

        Returns
        -------
        int
            At least 1.
        """
        del template
        return 1

    def stages(self, template: Any, test: Self) -> Iterator[Loss]:
        """Fit a copy of an estimator to these rows, and tell its loss on others as the fit goes on.

        Parameters
        ----------
        template : estimator
            Not touched.
        test : Rows
            Other rows.

        Yields
        ------
        Loss
            The last one is that of the finished fit.
        """
        model = self.fit(clone(template))
        yield Loss(self.loss(model, test), self.trace(model))

    def fit(self, model: Any) -> Any:
        """Fit an estimator, or a Pipeline whose last step takes weights, to these rows.

        Parameters
        ----------
        model : estimator
            To be fitted.

        Returns
        -------
        estimator
            The same.
        """
        weight = f"{model.steps[-1][0]}__sample_weight" if isinstance(model, Pipeline) else "sample_weight"
        return model.fit(self.X, self.y, **{weight: self.weight})

    def loss(self, model: Any, test: Self) -> float:
        """Return the loss of a fitted estimator on other rows.

        Parameters
        ----------
        model : estimator
            Fitted.
        test : Rows
            Rows.

        Returns
        -------
        float
            The less the better.
        """
        raise NotImplementedError

    def trace(self, model: Any) -> tuple[float, ...]:
        """Return the objective of a fit after each iteration.

        Parameters
        ----------
        model : estimator
            Fitted.

        Returns
        -------
        tuple of float
            Its curve.
        """
        last = last_step(model)
        return tuple(float(value) for value in last.lower_bounds_)


def assign_folds(owner: IntArray, n_folds: int, rng: np.random.Generator) -> IntArray:
    """Deal what owners have to the folds in turn, beginning at a fold drawn for each owner."""
    order = rng.permutation(owner.size)
    order = order[np.argsort(owner[order], kind="stable")]
    count = np.bincount(owner)
    place = np.empty(owner.size, dtype=np.int64)
    place[order] = np.arange(owner.size) - np.repeat(np.cumsum(count) - count, count)
    fold = (place + rng.integers(n_folds, size=count.size)[owner]) % n_folds
    fold[count[owner] == 1] = -1
    return fold
