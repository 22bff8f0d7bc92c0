"""Measures of probabilities of three answers: left, tie, right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import xlogy
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from skpref.data.labels import left_column, read_labels, sides_of_grades
from skpref.exceptions import DataError
from skpref.metrics._pairs import positive_weights

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skpref._typing import Array

_FLOOR: Final = float(np.finfo(np.float64).tiny)  # smallest probability: a loss of 708 nats


def answers_log_loss(y: ArrayLike, p: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean negative log-probability of answers that include ties, in nats per comparison.

    Parameters
    ----------
    y : array_like of shape (n,)
        Labels as in `GPPLClassifier.fit`; 0.5 is a tie, other values between 0 and 1 are soft labels of the two sides.
    p : array_like of shape (n, 3)
        Probabilities of left, tie and right, as ``predict_proba(X, ties=True)`` gives them.
    sample_weight : array_like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    float
        Finite: an answer of probability 0 counts 708 nats.

    Raises
    ------
    DataError
        If a label is not in [0, 1], if `p` does not have three columns of probabilities that sum to 1, or if all
        weights are 0.

    Examples
    --------
    >>> from skpref.metrics import answers_log_loss
    >>> round(answers_log_loss([1, 0.5], [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]), 4)
    0.6931
    """
    shares, probability, weight = _checked(y, p, sample_weight)
    losses = -xlogy(shares, np.maximum(probability, _FLOOR)).sum(axis=1)
    return float(np.average(losses, weights=weight))


def answers_rps(y: ArrayLike, p: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Ranked probability score of answers, with a tie between left and right.

    Parameters
    ----------
    y : array_like of shape (n,)
        Labels, as in `answers_log_loss`.
    p : array_like of shape (n, 3)
        Probabilities of left, tie and right.
    sample_weight : array_like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    float
        Mean squared error of the cumulative probabilities, in [0, 1]; the lower the better. Football forecasts are
        usually compared by it.

    Raises
    ------
    DataError
        As for `answers_log_loss`.

    See Also
    --------
    ranked_probability_score : The same of ordered levels.

    Examples
    --------
    >>> from skpref.metrics import answers_rps
    >>> answers_rps([1, 0.5], [[1.0, 0.0, 0.0], [0.5, 0.0, 0.5]])
    0.125
    """
    shares, probability, weight = _checked(y, p, sample_weight)
    errors = np.cumsum(probability - shares, axis=1)[:, :2]
    return float(np.average(0.5 * np.square(errors).sum(axis=1), weights=weight))


def answers_log_loss_scorer(estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Return minus the log loss of three answers, for the parameter `scoring` of scikit-learn.

    Parameters
    ----------
    estimator : classifier
        A fitted `GPPLClassifier` or `CrowdGPPL`, or a Pipeline that ends in one. With a likelihood without ties, ties
        have probability 0.
    X : array-like of shape (n, n_columns)
        Comparisons.
    y : array-like of shape (n,)
        Labels.
    sample_weight : array-like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    float
        Minus `answers_log_loss`, which is finite; the higher the better.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from skpref import GPPLClassifier
    >>> from skpref.metrics import answers_log_loss_scorer
    >>> X, y = [["a", "b"], ["b", "c"], ["a", "c"]] * 4, [1, 0.5, 1] * 4
    >>> model = GPPLClassifier(likelihood="logit-ties")
    >>> scores = cross_val_score(model, X, y, cv=2, scoring=answers_log_loss_scorer)
    >>> bool((scores > -1.1).all())
    True
    """
    return -answers_log_loss(*_predicted(estimator, X, y), sample_weight=sample_weight)


def answers_rps_scorer(estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Return minus the ranked probability score of three answers, for the parameter `scoring` of scikit-learn.

    Parameters
    ----------
    estimator : classifier
        As for `answers_log_loss_scorer`.
    X : array-like of shape (n, n_columns)
        Comparisons.
    y : array-like of shape (n,)
        Labels.
    sample_weight : array-like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    float
        Minus `answers_rps`, in [-1, 0]; the higher the better.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> from skpref.metrics import answers_rps_scorer
    >>> X, y = [["a", "b"], ["b", "c"], ["a", "c"]] * 4, [1, 0.5, 1] * 4
    >>> bool(answers_rps_scorer(GPPLClassifier(likelihood="probit-ties").fit(X, y), X, y) > -0.2)
    True
    """
    return -answers_rps(*_predicted(estimator, X, y), sample_weight=sample_weight)


def _predicted(estimator: Any, X: Any, y: Any) -> tuple[Any, Array]:
    """Return labels, grades as their sides, and probabilities of left, tie and right, (n, 3)."""
    last = getattr(estimator, "steps", [("", estimator)])[-1][1]
    check_is_fitted(last)
    likelihood: Any = getattr(last, "likelihood_", None)
    if not hasattr(likelihood, "ties_are_answers"):
        raise DataError(f"scorers of answers need a GPPLClassifier or a CrowdGPPL; got {type(last).__name__}")
    if last.classes_.size > 2:
        y = sides_of_grades(y, last.classes_)
    if likelihood.ties_are_answers:
        return y, np.asarray(estimator.predict_proba(X, ties=True))
    sides = estimator.predict_proba(X)
    left = left_column(estimator.classes_)
    return y, np.column_stack([sides[:, left], np.zeros(len(sides)), sides[:, 1 - left]])


def _checked(y: ArrayLike, p: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Array, Array, Array]:
    """Return the shares of the three answers and their probabilities, (n, 3) each, and weights."""
    probability = check_array(p, input_name="p", dtype=np.float64)
    sums_up = np.abs(probability.sum(axis=1) - 1.0) <= 1e-6
    if probability.shape[1] != 3 or probability.min() < 0.0 or not sums_up.all():
        raise DataError(
            f"p must have 3 columns of probabilities that sum to 1: left, tie, right; got shape {probability.shape}, "
            f"entries from {probability.min():g} and sums from {probability.sum(axis=1).min():g}"
        )
    label = read_labels(y, probability.shape[0])
    weight = positive_weights("comparison", sample_weight, label, probability)
    tie = label == 0.5
    shares = np.column_stack([np.where(tie, 0.0, label), tie, np.where(tie, 0.0, 1.0 - label)])
    return shares, probability, weight
