"""Scorers of probabilities, for folds that lack some of the levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sklearn.metrics import log_loss

from skpref.data.labels import left_column, read_labels, signed_grades
from skpref.data.levels import as_labels, encode_levels, with_levels_of
from skpref.metrics._levels import ranked_probability_score
from skpref.metrics._pairs import cross_entropy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skpref._typing import Array, IntArray

# Probability of a level that the training rows lack, as small as scikit-learn's `log_loss` allows any.
_FLOOR: Final = float(np.finfo(np.float64).eps)


def log_loss_scorer(estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Return minus the log loss of a fitted classifier, for the parameter `scoring` of scikit-learn.

    Parameters
    ----------
    estimator : classifier
        A fitted estimator with `predict_proba` and `classes_`, or a Pipeline that ends in one.
    X : array-like of shape (n, n_features)
        Rows.
    y : array-like of shape (n,)
        Labels. Of comparisons, a tie is half of each side, and numbers between 0 and 1 are soft labels.
    sample_weight : array-like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    float
        Mean log probability of the labels, at most 0; the higher the better.

    See Also
    --------
    ranked_probability_scorer : The same for a score that uses the order of levels.
    answers_log_loss_scorer : The same for comparisons in which a tie is an answer of its own.

    Notes
    -----
    The scorer ``"neg_log_loss"`` of scikit-learn fails in a fold whose rows have fewer or more labels than the training
    rows, and takes probabilities to be in alphabetical order. This scorer uses `classes_`. A label without training
    rows has probability 2.2e-16, a loss of 36 nats. `GPOrdinalRegressor` gives all levels of `class_order` a
    probability, whether training rows have them or not.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import KFold, cross_val_score
    >>> from skpref import GPOrdinalRegressor
    >>> from skpref.metrics import log_loss_scorer
    >>> X, y = np.arange(12.0)[:, None], np.array([1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3])
    >>> model = GPOrdinalRegressor(class_order=[1, 2, 3], optimizer=None)
    >>> scores = cross_val_score(model, X, y, cv=KFold(3), scoring=log_loss_scorer)
    >>> bool(np.all(np.isfinite(scores)))
    True
    """
    last = getattr(estimator, "steps", [("", estimator)])[-1][1]
    of_pairs = hasattr(getattr(last, "likelihood_", None), "ties_are_answers") and getattr(last, "_form", None) is None
    if of_pairs and last.classes_.size == 2:
        sides = np.clip(estimator.predict_proba(X), _FLOOR, 1.0 - _FLOOR)
        return -cross_entropy(read_labels(y, len(sides)), sides[:, left_column(last.classes_)], sample_weight)
    level, p = _probabilities_of_all_levels(estimator, X, y, floor=_FLOOR)
    return -float(log_loss(level, p, labels=np.arange(p.shape[1]), sample_weight=sample_weight))


def ranked_probability_scorer(estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Return minus the ranked probability score of a fitted model of levels, for the parameter `scoring`.

    Parameters
    ----------
    estimator : classifier
        A fitted estimator with `predict_proba`, and `classes_` from low to high, or a Pipeline that ends in one.
    X : array-like of shape (n, n_features)
        Rows.
    y : array-like of shape (n,)
        Levels. A level without training rows has probability 0, at its place among the others.
    sample_weight : array-like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    float
        Minus `ranked_probability_score`, in [-1, 0]; the higher the better.

    Raises
    ------
    DataError
        If y has a level that is not in `classes_`, whose order is not that of numbers or of the alphabet.

    See Also
    --------
    log_loss_scorer : The same for a score that does not use the order.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import KFold, cross_val_score
    >>> from skpref import GPOrdinalRegressor
    >>> from skpref.metrics import ranked_probability_scorer
    >>> X, y = np.arange(12.0)[:, None], np.array([1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3])
    >>> model = GPOrdinalRegressor(optimizer=None)
    >>> scores = cross_val_score(model, X, y, cv=KFold(3), scoring=ranked_probability_scorer)
    >>> bool(np.all(np.isfinite(scores)))
    True
    """
    level, p = _probabilities_of_all_levels(estimator, X, y, floor=0.0)
    return -ranked_probability_score(level, p, labels=np.arange(p.shape[1]), sample_weight=sample_weight)


def _probabilities_of_all_levels(estimator: Any, X: Any, y: ArrayLike, *, floor: float) -> tuple[IntArray, Array]:
    """Return the numbers of y's levels, among all levels of training rows and y, and their probabilities."""
    trained = as_labels(estimator.classes_)
    if getattr(getattr(estimator, "steps", [("", estimator)])[-1][1], "_has_margins", False):
        y = np.sign(signed_grades(y))
    levels = with_levels_of(trained, y)
    p = np.zeros((np.shape(y)[0], levels.size))
    p[:, encode_levels(trained, levels)] = estimator.predict_proba(X)
    p = np.maximum(p, floor)
    return encode_levels(y, levels), p / p.sum(axis=1, keepdims=True)
