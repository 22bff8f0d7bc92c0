"""Metrics of ordered levels and of their probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import column_or_1d

from skpref._validation import as_array, assert_all_finite
from skpref.exceptions import DataError
from skpref.metrics._pairs import codes, positive_weights, undefined

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skpref._typing import Array


def mean_zero_one_error(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Fraction of predicted levels that differ from the true ones.

    Parameters
    ----------
    y_true, y_pred : array_like of shape (n,)
        True and predicted levels, numbers or strings.
    sample_weight : array_like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    float
        Value in [0, 1]; the lower the better.

    Raises
    ------
    DataError
        If one has strings and the other numbers, a weight is negative, or all are 0.

    Examples
    --------
    >>> from skpref.metrics import mean_zero_one_error
    >>> mean_zero_one_error(["bad", "good", "good"], ["bad", "fair", "good"])
    0.3333333333333333
    """
    true, predicted = _level_vector("y_true", y_true), _level_vector("y_pred", y_pred)
    if (true.dtype.kind == "f") != (predicted.dtype.kind == "f"):
        raise DataError("y_true and y_pred must both hold numbers, or both strings")
    weight = positive_weights("observation", sample_weight, true, predicted)
    return float(np.average(true != predicted, weights=weight))


def ordinal_mae(
    y_true: ArrayLike, y_pred: ArrayLike, *, labels: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> float:
    """Mean number of ranks between predicted and true levels.

    Parameters
    ----------
    y_true, y_pred : array_like of shape (n,)
        True and predicted levels.
    labels : array_like of shape (r,), default=None
        All levels from the lowest to the highest. None means that levels are consecutive integers.
    sample_weight : array_like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    float
        Mean of ``|rank of y_pred - rank of y_true|``, >= 0; the lower the better.

    Raises
    ------
    DataError
        If a level is not in `labels` or, without `labels`, not an integer; if a weight is negative, or all are 0.

    See Also
    --------
    averaged_mae : The same, with equal weight for every true level.

    References
    ----------
    Chu and Ghahramani: Gaussian processes for ordinal regression. JMLR 6, 1019-1041, 2005, section 4.

    Examples
    --------
    >>> from skpref.metrics import ordinal_mae
    >>> ordinal_mae([1, 2, 5], [1, 3, 3])
    1.0
    >>> ordinal_mae(["bad", "good"], ["good", "good"], labels=["bad", "fair", "good"])
    1.0
    """
    true, predicted, weight = _ranks(y_true, y_pred, labels, sample_weight)
    return float(np.average(np.abs(true - predicted), weights=weight))


def averaged_mae(
    y_true: ArrayLike, y_pred: ArrayLike, *, labels: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> float:
    """Mean number of ranks between predicted and true levels, with equal weight for every true level.

    Parameters
    ----------
    y_true, y_pred : array_like of shape (n,)
        True and predicted levels.
    labels : array_like of shape (r,), default=None
        All levels from the lowest to the highest. None means that levels are consecutive integers.
    sample_weight : array_like of shape (n,), default=None
        Weights >= 0 within a level; None means 1 each. Observations of weight 0 are ignored.

    Returns
    -------
    float
        Mean of `ordinal_mae` over the levels that occur in y_true, >= 0; the lower the better.

    Raises
    ------
    DataError
        If a level is not in `labels` or, without `labels`, not an integer; if a weight is negative, or all are 0.

    See Also
    --------
    ordinal_mae : The same, with equal weight for every observation.

    Notes
    -----
    A model that always predicts the middle level has a low `ordinal_mae` if most levels are near the middle, but not a
    low average over levels.

    References
    ----------
    Baccianella, Esuli and Sebastiani: Evaluation measures for ordinal regression. ISDA 2009, 283-287.

    Examples
    --------
    >>> from skpref.metrics import averaged_mae
    >>> averaged_mae([1, 1, 1, 3], [1, 1, 1, 1])
    1.0
    """
    true, predicted, weight = _ranks(y_true, y_pred, labels, sample_weight)
    level = codes(true)
    sums, mass = np.bincount(level, weight * np.abs(true - predicted)), np.bincount(level, weight)
    present = mass > 0.0
    return float(np.mean(sums[present] / mass[present]))


def quadratic_weighted_kappa(
    y_true: ArrayLike, y_pred: ArrayLike, *, labels: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> float:
    """Agreement beyond chance, with squared rank differences as the weights of disagreements.

    Parameters
    ----------
    y_true, y_pred : array_like of shape (n,)
        Two ratings of the same observations; the measure is symmetric in them.
    labels : array_like of shape (r,), default=None
        All levels from the lowest to the highest. None means that levels are consecutive integers.
    sample_weight : array_like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    float
        Value in [-1, 1]: 1 for full agreement, 0 for independent ratings. NaN, with a warning, if all ratings are the
        same level.

    Raises
    ------
    DataError
        If a level is not in `labels` or, without `labels`, not an integer; if a weight is negative, or all are 0.

    Notes
    -----
    `sklearn.metrics.cohen_kappa_score` with ``weights="quadratic"`` gives the same value if it gets all levels as
    `labels`. Without them it treats 1 and 3 as neighbours if no 2 occurs.

    References
    ----------
    Cohen: Weighted kappa. Psychological Bulletin 70, 213-220, 1968.

    Examples
    --------
    >>> from skpref.metrics import quadratic_weighted_kappa
    >>> quadratic_weighted_kappa([0, 1, 2, 2], [0, 1, 1, 2])
    0.8
    """
    true, predicted, weight = _ranks(y_true, y_pred, labels, sample_weight)
    means = [np.average(ranks, weights=weight) for ranks in (true, predicted)]
    spreads = [np.average((r - m) ** 2, weights=weight) for r, m in zip((true, predicted), means, strict=True)]
    # Expected squared difference of independent draws of the two ratings.
    by_chance = sum(spreads) + (means[0] - means[1]) ** 2
    if by_chance <= 0.0:
        return undefined("quadratic_weighted_kappa", "all ratings are one level")
    return float(1.0 - np.average((true - predicted) ** 2, weights=weight) / by_chance)


def ranked_probability_score(
    y: ArrayLike, p: ArrayLike, *, labels: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> float:
    """Mean squared error of the cumulative probabilities of the levels.

    Parameters
    ----------
    y : array_like of shape (n,)
        True levels.
    p : array_like of shape (n, r) or (n,)
        Predicted probabilities of the levels, lowest first; with shape (n,), of the upper one of two levels.
    labels : array_like of shape (r,), default=None
        The levels in the order of the columns, from the lowest to the highest. None means the r different numbers in y.
        Required if y has strings or not all levels.
    sample_weight : array_like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    float
        Mean over observations of sum_k (P(level <= k) - 1[y <= k])^2 / (r - 1), k = 1..r-1: a value in [0, 1]; the
        lower the better.

    Raises
    ------
    DataError
        If a level is not in `labels`; if the numbers of labels and columns differ; if probabilities are outside [0, 1]
        or a row does not sum to 1; if a weight is negative, or all are 0.

    Notes
    -----
    A proper score. Unlike cross-entropy it uses the order: probability far from the true level is penalised more. For
    probabilities of 0 and 1 it equals `ordinal_mae` / (r - 1). For the parameter `scoring` of cross-validation, use
    `ranked_probability_scorer`: folds may lack some levels.

    References
    ----------
    Epstein: A scoring system for probability forecasts of ranked categories. J. Appl. Meteorology 8, 985-987,
    1969.

    Gneiting and Raftery: Strictly proper scoring rules, prediction, and estimation. JASA 102, 359-378, 2007.

    Examples
    --------
    >>> from skpref.metrics import ranked_probability_score
    >>> round(ranked_probability_score([0, 2], [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]], labels=[0, 1, 2]), 4)
    0.1875
    """
    values, probability = _level_vector("y", y), _level_probabilities(p)
    weight = positive_weights("observation", sample_weight, values, probability)
    r = probability.shape[1]
    if labels is None:
        if values.dtype.kind != "f":
            raise DataError("y holds strings, whose order is unknown; pass labels, the lowest level first")
        labels = np.unique(values)
        if labels.size != r:
            raise DataError(
                f"p has {r} columns, but y holds {labels.size} different levels; pass labels, the lowest level first"
            )
    order = _level_order(labels)
    if order.size != r:
        raise DataError(f"p must have a column for each of the {order.size} labels; got {r}")
    rank = _rank_in(order, "y", values)
    cumulative = np.cumsum(probability, axis=1)[:, :-1]
    error = cumulative - (rank[:, None] <= np.arange(r - 1))
    return float(np.average(np.mean(error**2, axis=1), weights=weight))


def _level_vector(name: str, values: ArrayLike) -> Array:
    """Return levels as a vector of floats, or of strings as objects."""
    vector = column_or_1d(as_array(values, name))
    if vector.dtype.kind in "biuf":
        vector = vector.astype(np.float64)
        assert_all_finite(vector, input_name=name)
        return vector
    if not all(isinstance(value, str) for value in vector):
        raise DataError(f"{name} must hold numbers only, or strings only")
    return vector.astype(object)


def _level_order(labels: ArrayLike) -> Array:
    order = _level_vector("labels", labels)
    if order.size < 2 or len(set(order.tolist())) < order.size:
        raise DataError(f"labels must be at least 2 different levels, the lowest first; got {order.tolist()}")
    return order


def _rank_in(order: Array, name: str, values: Array) -> Array:
    """Return the positions of values in the order of levels."""
    place = {level: rank for rank, level in enumerate(order.tolist())}
    different, where = np.unique(values, return_inverse=True)
    unknown = [level for level in different.tolist() if level not in place]
    if unknown:
        raise DataError(f"{name} must hold labels only; got {unknown[0]!r}, which is not in {order.tolist()}")
    return np.array([place[level] for level in different.tolist()], dtype=np.float64)[where]


def _ranks(
    y_true: ArrayLike, y_pred: ArrayLike, labels: ArrayLike | None, sample_weight: ArrayLike | None
) -> tuple[Array, Array, Array]:
    """Return the ranks of two vectors of levels, and the weights."""
    named = {"y_true": _level_vector("y_true", y_true), "y_pred": _level_vector("y_pred", y_pred)}
    weight = positive_weights("observation", sample_weight, *named.values())
    if labels is not None:
        order = _level_order(labels)
        true, predicted = (_rank_in(order, name, values) for name, values in named.items())
        return true, predicted, weight
    for name, values in named.items():
        if values.dtype.kind != "f":
            raise DataError(f"{name} holds strings, whose order is unknown; pass labels, the lowest level first")
        broken = values[values != np.round(values)]
        if broken.size:
            raise DataError(f"{name} must hold whole numbers; got {broken[0]:g}; pass labels for levels of other kinds")
    return named["y_true"], named["y_pred"], weight


def _level_probabilities(p: ArrayLike) -> Array:
    """Return rows of probabilities; a vector has the probability of the upper one of two levels."""
    probability = np.asarray(p, dtype=np.float64)
    if probability.ndim == 1:
        probability = np.column_stack([1.0 - probability, probability])
    if probability.ndim != 2 or probability.shape[1] < 2:
        raise DataError(f"p must have shape (n, r) with r >= 2, or (n,); got {np.shape(p)}")
    assert_all_finite(probability, input_name="p")
    outside = (probability < 0.0) | (probability > 1.0)
    if np.any(outside):
        raise DataError(f"p must lie in [0, 1]; got {probability[outside][0]:g} and {outside.sum() - 1} more outside")
    off = np.abs(probability.sum(axis=1) - 1.0)
    if np.any(off > 1e-5):  # float32 has 7 digits
        raise DataError(f"rows of p must sum to 1; row {np.argmax(off)} sums to {probability[np.argmax(off)].sum():g}")
    return probability
