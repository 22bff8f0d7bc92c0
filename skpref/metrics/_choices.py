"""Measures of probabilities of choices among several items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from skpref.data.weights import read_weights
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def choice_log_loss(y: ArrayLike, p: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean negative log-probability of what was chosen, in nats per task.

    Parameters
    ----------
    y : array_like of shape (n,)
        Positions of what was chosen, from 0.
    p : array_like of shape (n, K)
        Probabilities of the positions, as ``predict_proba(X)`` of tasks gives them.
    sample_weight : array_like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    float
        Finite: a choice of probability 0 counts 36 nats, as in scikit-learn's `log_loss`.

    Raises
    ------
    DataError
        If a position is not among those of `p`, or rows of `p` are no probabilities that sum to 1.

    Examples
    --------
    >>> from skpref.metrics import choice_log_loss
    >>> round(choice_log_loss([0, 2], [[0.5, 0.3, 0.2], [0.25, 0.25, 0.5]]), 4)
    0.6931
    """
    probability = check_array(p, input_name="p", dtype=np.float64)
    place = check_array(y, input_name="y", ensure_2d=False, dtype=None)
    n, K = probability.shape
    if place.shape != (n,) or place.dtype.kind not in "iu" or ((place < 0) | (place >= K)).any():
        raise DataError(
            f"y must be {n} positions from 0 to {K - 1}, one for each row of p; scorers take ids of items, too"
        )
    if (probability < 0.0).any() or not np.allclose(probability.sum(axis=1), 1.0):
        raise DataError("p must have probabilities in each row, which are not negative and sum to 1")
    weight = read_weights(sample_weight, n)
    if not weight.sum() > 0.0:
        raise DataError("sample_weight: all weights are 0")
    return float(log_loss(place, probability, labels=np.arange(K), sample_weight=weight))


def choice_log_loss_scorer(estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Return minus the log loss of choices, for the parameter `scoring` of scikit-learn.

    It takes answers of all forms, and folds in which a position was never chosen, where "neg_log_loss" does not.

    Parameters
    ----------
    estimator : classifier
        A `GPPLClassifier` or `CrowdGPPL` that was fitted to tasks.
    X : array-like of shape (n, n_columns)
        Tasks.
    y : array-like of shape (n,), (n, 2) or (n, K)
        Answers as in `fit`; of the best and the worst item, and of rankings, the best one counts.
    sample_weight : array-like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    float
        Minus `choice_log_loss`, which is finite; the higher the better.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from skpref import GPPLClassifier
    >>> from skpref.metrics import choice_log_loss_scorer
    >>> X, y = [["tea", "milk", "water"], ["water", "tea", "milk"]] * 6, ["tea", "tea"] * 6
    >>> bool((cross_val_score(GPPLClassifier(), X, y, cv=2, scoring=choice_log_loss_scorer) > -1.0).all())
    True
    """
    check_is_fitted(estimator)
    found = getattr(estimator, "best_estimator_", estimator)
    steps = getattr(found, "steps", [("", found)])
    if not getattr(steps[-1][1], "_has_tasks", False):
        raise DataError(f"choice_log_loss_scorer needs a model that was fitted to tasks; got {type(found).__name__}")
    rows = X if len(steps) == 1 else found[:-1].transform(X)
    place = steps[-1][1]._chosen_places(rows, y)  # noqa: SLF001 - of this package's classifiers
    return -choice_log_loss(place, estimator.predict_proba(X), sample_weight=sample_weight)
