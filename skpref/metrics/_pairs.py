"""Metrics of rankings and of probabilities of comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import xlog1py, xlogy
from scipy.stats import kendalltau
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import check_consistent_length, column_or_1d

from skpref._validation import as_array, assert_all_finite
from skpref._warn import warn
from skpref.data.weights import read_weights
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skpref._typing import Array, IntArray


def concordance(
    y_true: ArrayLike, y_score: ArrayLike, qid: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> float:
    """Fraction of pairs with different true values that the scores order correctly.

    Parameters
    ----------
    y_true : array_like of shape (n,)
        True scores, grades or ranks; higher is better. Pairs of equal value are left out.
    y_score : array_like of shape (n,)
        Predicted utilities; a pair with equal scores counts half.
    qid : array_like of shape (n,), default=None
        Group of each item; only pairs within a group count. None means one group.
    sample_weight : array_like of shape (n,), default=None
        Weights >= 0 of the items; the weight of a pair is their product, so a weight of 2 equals a repeated item. None
        means 1 each.

    Returns
    -------
    float
        Value in [0, 1]; constant scores have 0.5. NaN, with a warning, if no pair has different true values.

    Raises
    ------
    DataError
        If a weight is negative.

    See Also
    --------
    kendall_tau : Rank correlation, with another treatment of ties.

    Notes
    -----
    The time is O(n log n) and the memory O(n), for any number of groups.

    Examples
    --------
    >>> from skpref.metrics import concordance
    >>> concordance([1, 2, 3], [0.1, 0.9, 0.5])
    0.6666666666666666
    >>> concordance([1, 2, 3, 1], [5, 6, 0, 0], qid=[0, 0, 1, 1])
    0.75
    """
    true, score, weight = _columns(sample_weight, y_true=y_true, y_score=y_score)
    different, concordant, tied = _count_pairs(_groups(qid, true.size), true, score, weight)
    if different <= 0.0:
        return undefined("concordance", "no two items of a group have different y_true")
    return float(np.clip((concordant + 0.5 * tied) / different, 0.0, 1.0))


def kendall_tau(y_true: ArrayLike, y_score: ArrayLike) -> float:
    """Kendall's rank correlation tau-b of two score vectors.

    Parameters
    ----------
    y_true, y_score : array_like of shape (n,)
        Scores; only their order matters.

    Returns
    -------
    float
        (C - D) / sqrt((C + D + T_true) (C + D + T_score)) in [-1, 1], with C and D the concordant and discordant pairs
        and T the pairs tied in one vector only. NaN, with a warning, if either vector is constant.

    See Also
    --------
    concordance : Fraction of concordant pairs, with groups and weights.

    Examples
    --------
    >>> from skpref.metrics import kendall_tau
    >>> round(kendall_tau([1, 2, 3, 4], [1, 3, 2, 4]), 4)
    0.6667
    """
    true, score, _ = _columns(None, y_true=y_true, y_score=y_score)
    tau = float(kendalltau(true, score).statistic)
    return undefined("kendall_tau", "one of the two vectors is constant") if np.isnan(tau) else tau


def cross_entropy(y: ArrayLike, p: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Mean negative log-probability of the answers, in nats per comparison.

    Parameters
    ----------
    y : array_like of shape (n,)
        Labels in [0, 1]; soft labels are allowed.
    p : array_like of shape (n,)
        Predicted probabilities of y = 1.
    sample_weight : array_like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    float
        Mean of -y log p - (1 - y) log(1 - p): log 2 for p = 0.5, infinite if an answer had probability 0.

    Raises
    ------
    DataError
        If labels or probabilities are outside [0, 1], or a weight is negative.

    Notes
    -----
    Probabilities are not clipped, unlike in `sklearn.metrics.log_loss`.

    Examples
    --------
    >>> from skpref.metrics import cross_entropy
    >>> round(cross_entropy([1, 0, 0.5], [0.9, 0.2, 0.5]), 4)
    0.3406
    """
    label, probability, weight = _labels(y, p, sample_weight)
    losses = -xlogy(label, probability) - xlog1py(1.0 - label, -probability)
    # Weight 0 must remove infinite losses, too.
    used = weight > 0.0
    return float(np.average(losses[used], weights=weight[used]))


def pair_accuracy(y: ArrayLike, p: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Fraction of comparisons whose more probable side is preferred.

    Parameters
    ----------
    y : array_like of shape (n,)
        Labels in [0, 1]: left preferred above 0.5, right below; ties (0.5) are ignored.
    p : array_like of shape (n,)
        Predicted probabilities of y = 1; exactly 0.5 counts half.
    sample_weight : array_like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    float
        Accuracy in [0, 1]; NaN, with a warning, if all labels are ties.

    Raises
    ------
    DataError
        If labels or probabilities are outside [0, 1], or a weight is negative.

    Examples
    --------
    >>> from skpref.metrics import pair_accuracy
    >>> pair_accuracy([1, 0, 0.5, 1], [0.9, 0.2, 0.8, 0.5])
    0.8333333333333334
    """
    label, probability, weight = _labels(y, p, sample_weight)
    used = (label != 0.5) & (weight > 0.0)
    if not np.any(used):
        return undefined("pair_accuracy", "every label is a tie")
    agreement = np.sign(label - 0.5) * np.sign(probability - 0.5)
    return float(np.average(0.5 + 0.5 * agreement[used], weights=weight[used]))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predicted and observed frequencies in the non-empty bins.

    Parameters
    ----------
    mean_predicted : ndarray of shape (n_used_bins,)
        Weighted mean of the predicted probabilities, ascending.
    mean_observed : ndarray of shape (n_used_bins,)
        Weighted mean of the labels.
    count : ndarray of shape (n_used_bins,), dtype int64
        Number of comparisons.
    expected_calibration_error : float
        Mean of ``|mean_observed - mean_predicted|`` over the comparisons, in [0, 1].

    Examples
    --------
    >>> from skpref.metrics import calibration
    >>> calibration([1, 0, 1, 1], [0.9, 0.1, 0.9, 0.9], n_bins=2).count
    array([1, 3])
    """

    mean_predicted: Array
    mean_observed: Array
    count: IntArray
    expected_calibration_error: float


def calibration(y: ArrayLike, p: ArrayLike, n_bins: int = 10, sample_weight: ArrayLike | None = None) -> Calibration:
    """Compare predicted probabilities with observed frequencies in bins of equal width.

    Parameters
    ----------
    y : array_like of shape (n,)
        Labels in [0, 1]; soft labels are allowed.
    p : array_like of shape (n,)
        Predicted probabilities of y = 1.
    n_bins : int, default=10
        Number of bins of [0, 1]. With the default, 500 comparisons put a few dozen into each bin.
    sample_weight : array_like of shape (n,), default=None
        Weights >= 0; None means 1 each.

    Returns
    -------
    Calibration
        Mean prediction, mean label and count of every non-empty bin, and the expected calibration error.

    Raises
    ------
    DataError
        If labels or probabilities are outside [0, 1], a weight is negative, or `n_bins` is below 1.

    Examples
    --------
    >>> from skpref.metrics import calibration
    >>> result = calibration([1, 1, 0, 0], [0.8, 0.8, 0.2, 0.4], n_bins=5)
    >>> result.mean_observed
    array([0., 0., 1.])
    >>> round(result.expected_calibration_error, 3)
    0.25
    """
    label, probability, weight = _labels(y, p, sample_weight)
    if n_bins < 1:
        raise DataError(f"n_bins must be at least 1; got {n_bins}")
    bins = np.minimum((probability * n_bins).astype(np.int64), n_bins - 1)
    mass = np.bincount(bins, weight, n_bins)
    used = mass > 0.0
    predicted = np.bincount(bins, weight * probability, n_bins)[used] / mass[used]
    observed = np.bincount(bins, weight * label, n_bins)[used] / mass[used]
    count = np.bincount(bins[weight > 0.0], minlength=n_bins)[used]
    error = np.average(np.abs(observed - predicted), weights=mass[used])
    return Calibration(predicted, observed, count.astype(np.int64, copy=False), float(error))


def _count_pairs(group: IntArray, true: Array, score: Array, weight: Array) -> tuple[float, float, float]:
    """Return weights of pairs within groups: with different y, and of these, ordered correctly or tied in score."""
    true_code, score_code = codes(true), codes(score)
    tie_true, tie_score = codes(group, true_code), codes(group, score_code)
    tied_both = _pairs(codes(tie_true, tie_score), weight)
    # Positions ascend with y, and among equal y descend with the score; earlier groups get higher scores. So "earlier
    # position and lower score" means: same group, lower y, lower score.
    position = np.empty(true.size, dtype=np.int64)
    position[np.lexsort((-score_code, true_code, group))] = np.arange(true.size)
    ascending = np.lexsort((-position, score_code, -group))
    different, tied = _pairs(group, weight) - _pairs(tie_true, weight), _pairs(tie_score, weight) - tied_both
    return different, _weight_below(position[ascending], weight[ascending]), tied


def _weight_below(position: IntArray, weight: Array) -> float:
    """Return the sum of w_i w_j over pairs whose element i comes first and has the lower position.

    The sequence is partitioned stably by the bits of the position, highest first, as in a wavelet tree: for each pair
    there is exactly one level at which its elements are in the two halves of one block.
    """
    total = 0.0
    n = position.size
    for level in range(max(n - 1, 0).bit_length() - 1, -1, -1):
        upper = (position >> level) & 1
        start = position >> (level + 1) << (level + 1)
        lower_mass = np.concatenate([[0.0], np.cumsum(np.where(upper, 0.0, weight))])
        total += float(np.sum(upper * weight * (lower_mass[:-1] - lower_mass[start])))
        # Within its block every element moves to its half, stably.
        ones = np.concatenate([[0], np.cumsum(upper)])
        rank_one = ones[:-1] - ones[start]
        target = np.where(upper, start + (1 << level) + rank_one, np.arange(n) - rank_one)
        moved_position, moved_weight = np.empty_like(position), np.empty_like(weight)
        moved_position[target], moved_weight[target] = position, weight
        position, weight = moved_position, moved_weight
    return total


def _pairs(code: IntArray, weight: Array) -> float:
    """Return the sum of w_i w_j over unordered pairs of elements with equal code."""
    sums = np.bincount(code, weight)
    return float(0.5 * (np.sum(sums * sums) - np.sum(weight * weight)))


def codes(first: Array | IntArray, second: IntArray | None = None) -> IntArray:
    """Return the number of each value, or pair of values, among the distinct ones in ascending order."""
    code = np.unique(first, return_inverse=True)[1].astype(np.int64)
    if second is None or code.size == 0:
        return code
    return codes(code * (int(second.max()) + 1) + second)


def _columns(sample_weight: ArrayLike | None, **columns: ArrayLike) -> tuple[Array, Array, Array]:
    """Return two checked vectors and the weights, as float64."""
    first, second = (vector(name, values) for name, values in columns.items())
    check_consistent_length(first, second)
    return first, second, read_weights(sample_weight, first.size, relative=True)


def vector(name: str, values: ArrayLike) -> Array:
    vector = np.asarray(column_or_1d(as_array(values, name)), dtype=np.float64)
    assert_all_finite(vector, input_name=name)
    return vector


def positive_weights(noun: str, sample_weight: ArrayLike | None, *columns: Array) -> Array:
    """Return the weights of rows, shape (n,); at least one is positive."""
    check_consistent_length(*columns)
    weight = read_weights(sample_weight, len(columns[0]), relative=True)
    if not np.any(weight > 0.0):
        raise DataError(f"at least 1 {noun} with positive weight is required; got none")
    return weight


def _labels(y: ArrayLike, p: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Array, Array, Array]:
    label, probability = vector("y", y), vector("p", p)
    weight = positive_weights("comparison", sample_weight, label, probability)
    for name, values in (("y", label), ("p", probability)):
        outside = (values < 0.0) | (values > 1.0)
        if np.any(outside):
            raise DataError(
                f"{name} must lie in [0, 1]; got {values[outside][0]:g} and {outside.sum() - 1} more outside"
            )
    return label, probability, weight


def _groups(qid: ArrayLike | None, n: int) -> IntArray:
    if qid is None:
        return np.zeros(n, dtype=np.int64)
    group = column_or_1d(qid)
    check_consistent_length(group, np.empty(n))
    return codes(group)


def undefined(name: str, reason: str) -> float:
    warn(f"{name} is undefined: {reason}; returning NaN", UndefinedMetricWarning)
    return float("nan")
