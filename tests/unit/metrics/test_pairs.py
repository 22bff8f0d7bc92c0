import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, log_loss

from skpref.exceptions import DataError
from skpref.metrics import calibration, concordance, cross_entropy, kendall_tau, pair_accuracy


@st.composite
def graded_items(draw):
    """True grades, scores, groups and weights of a few items, with many ties."""
    n = draw(st.integers(2, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    grades, scores, groups = (rng.integers(0, draw(st.integers(2, 12)), n) for _ in range(3))
    return grades, scores, groups, rng.integers(0, 4, n)


def counted_by_hand(true, score, group, weight):
    different = right = 0.0
    for i in range(len(true)):
        for j in range(len(true)):
            if true[i] < true[j] and group[i] == group[j]:
                different += weight[i] * weight[j]
                right += weight[i] * weight[j] * ((score[i] < score[j]) + 0.5 * (score[i] == score[j]))
    return different, right


# ------------------------------------------------------------------------------------------------------------ rankings
@given(items=graded_items())
def test_concordance_counts_pairs(items):
    true, score, group, weight = items
    different, right = counted_by_hand(*items)
    if different > 0:
        assert_allclose(concordance(true, score, qid=group, sample_weight=weight), right / different, rtol=1e-12)
    else:
        with pytest.warns(UndefinedMetricWarning, match="concordance is undefined"):
            assert np.isnan(concordance(true, score, qid=group, sample_weight=weight))


@given(items=graded_items())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_weight_is_repetition(items):
    true, score, group, weight = items
    if weight.any():
        repeated = [np.repeat(column, weight) for column in (true, score, group)]
        assert_allclose(concordance(true, score, group, weight), concordance(*repeated), rtol=1e-12)


@given(items=graded_items())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_turning_the_scores_turns_the_concordance(items):
    true, score, group, _ = items
    assert_allclose(concordance(true, -score, group), 1.0 - concordance(true, score, group), rtol=1e-12)


@given(items=graded_items())
def test_kendall_tau_counts_pairs(items):
    true, score, _, _ = items
    if np.ptp(true) and np.ptp(score):
        a, b = (np.sign(np.subtract.outer(values, values)).ravel() for values in (true, score))
        assert_allclose(kendall_tau(true, score), a @ b / np.sqrt(a @ a) / np.sqrt(b @ b), rtol=1e-12, atol=1e-12)
    else:
        with pytest.warns(UndefinedMetricWarning, match="constant"):
            assert np.isnan(kendall_tau(true, score))


def test_rankings_at_their_ends():
    scores = np.random.default_rng(0).random(100)
    assert concordance(scores, np.exp(scores)) == 1.0
    assert concordance(scores, -scores) == 0.0
    assert concordance(scores, np.zeros(100)) == 0.5
    assert kendall_tau(scores, scores**3) == 1.0
    assert kendall_tau(scores, -scores) == -1.0


def test_groups_may_be_strings_in_any_order():
    assert concordance([1, 2, 2, 1], [0, 1, 5, 9], qid=["b", "b", "a", "a"]) == 0.5


def test_concordance_is_fast_for_many_items_and_many_groups():
    rng = np.random.default_rng(0)
    true, score, group = rng.random(100_000), rng.random(100_000), rng.integers(0, 20_000, 100_000)
    start = time.process_time()
    assert abs(concordance(true, score) - 0.5) < 0.01
    assert abs(concordance(true, score, group) - 0.5) < 0.02
    # A double loop would take hours; this takes 0.3 s.
    assert time.process_time() - start < 20.0


# ------------------------------------------------------------------------------------------------------- probabilities
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 50))
def test_cross_entropy_is_log_loss_for_hard_labels(seed, n):
    rng = np.random.default_rng(seed)
    y, p, weight = rng.integers(0, 2, n), rng.uniform(0.01, 0.99, n), rng.random(n)
    wanted = log_loss(y, p, sample_weight=weight, labels=[0, 1])
    assert_allclose(cross_entropy(y, p, sample_weight=weight), wanted, rtol=1e-10)


def test_cross_entropy_of_soft_labels_is_linear_in_them():
    p = np.array([0.2, 0.7])
    mixed = 0.3 * cross_entropy([1, 1], p) + 0.7 * cross_entropy([0, 0], p)
    assert_allclose(cross_entropy([0.3, 0.3], p), mixed, rtol=1e-14)
    assert_allclose(cross_entropy([0.5], [0.5]), np.log(2.0), rtol=1e-15)


def test_cross_entropy_has_no_floor():
    assert cross_entropy([1.0, 0.0], [1.0, 0.0]) == 0.0
    assert cross_entropy([1.0, 1.0], [0.0, 0.9]) == np.inf
    assert np.isfinite(cross_entropy([1.0, 1.0], [0.0, 0.9], sample_weight=[0.0, 1.0]))
    assert_allclose(cross_entropy([1.0], [1e-300]), 300.0 * np.log(10.0), rtol=1e-12)


@given(seed=st.integers(0, 2**32 - 1))
def test_pair_accuracy_is_accuracy_without_the_ties(seed):
    rng = np.random.default_rng(seed)
    y, p = rng.choice([0.0, 0.2, 0.5, 1.0], 40), rng.random(40)
    kept = y != 0.5
    assert_allclose(pair_accuracy(y, p), accuracy_score(y[kept] > 0.5, p[kept] > 0.5), rtol=1e-14)


def test_pair_accuracy_counts_undecided_half_and_weighs():
    assert pair_accuracy([1, 0], [0.5, 0.5]) == 0.5
    assert pair_accuracy([1, 0], [0.9, 0.9], sample_weight=[3, 1]) == 0.75
    with pytest.warns(UndefinedMetricWarning, match="every label is a tie"):
        assert np.isnan(pair_accuracy([0.5], [0.9]))


@given(seed=st.integers(0, 2**32 - 1), n_bins=st.integers(1, 30))
def test_calibration_keeps_the_totals(seed, n_bins):
    rng = np.random.default_rng(seed)
    y, p = rng.random(60), np.concatenate([rng.random(58), [0.0, 1.0]])
    result = calibration(y, p, n_bins=n_bins)
    assert result.count.sum() == 60
    assert_allclose(result.count @ result.mean_predicted, p.sum(), rtol=1e-12)
    assert_allclose(result.count @ result.mean_observed, y.sum(), rtol=1e-12)
    assert np.all(np.diff(result.mean_predicted) > 0.0)
    gaps = np.abs(result.mean_observed - result.mean_predicted)
    assert_allclose(result.expected_calibration_error, result.count @ gaps / 60, rtol=1e-12)


def test_calibration_of_the_truth_is_perfect():
    result = calibration([0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0])
    assert_array_equal(result.mean_observed, [0.0, 1.0])
    assert_array_equal(result.count, [2, 2])
    assert result.expected_calibration_error == 0.0
    doubled = calibration([0, 1, 1], [0.1, 0.9, 0.1], sample_weight=[2, 1, 0])
    assert_array_equal(doubled.count, [1, 1])


# -------------------------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize("metric", [cross_entropy, pair_accuracy, calibration])
@pytest.mark.parametrize(
    ("y", "p", "weight", "message"),
    [
        ([2.0], [0.5], None, r"y must lie in \[0, 1\]; got 2 "),
        ([1.0], [-0.1], None, r"p must lie in \[0, 1\]; got -0.1 "),
        ([1.0, 0.0], [0.5, 0.5], [1.0, -1.0], "Negative values in data passed to `sample_weight`: -1 in row 1"),
        ([1.0], [0.5], [0.0], "at least 1 comparison with positive weight"),
        ([1.0, 0.0], [0.5], None, "inconsistent numbers of samples"),
        ([1.0, [0.0, 1.0]], [0.5, 0.5], None, "the rows of y have different lengths"),
        ([np.nan], [0.5], None, "Input y contains NaN"),
        ([1.0], [np.inf], None, "Input p contains infinity"),
        ([1.0, 0.0], [np.inf, -np.inf], None, "Input p contains infinity"),
        ([1.0, 0.0], [0.5, 0.5], [np.inf, -np.inf], "Input sample_weight contains infinity"),
    ],
)
def test_clear_errors(metric, y, p, weight, message):
    with pytest.raises(ValueError, match=message):
        metric(y, p, sample_weight=weight)


def test_clear_errors_of_rankings():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        concordance([1, 2], [1, 2], qid=[0])
    with pytest.raises(ValueError, match="Input y_score contains NaN"):
        kendall_tau([1, 2], [1, np.nan])
    for metric in (kendall_tau, concordance):
        with pytest.raises(ValueError, match="Input y_score contains infinity"):
            metric([1, 2, 3], [np.inf, -np.inf, 0.0])
    with pytest.raises(DataError, match="Negative values in data passed to `sample_weight`"):
        concordance([1, 2], [1, 2], sample_weight=[1, -2])
    with pytest.raises(DataError, match="n_bins must be at least 1; got 0"):
        calibration([1], [1], n_bins=0)


@pytest.mark.parametrize("scale", [1e-290, 1e-12, 1e290])
def test_tiny_and_huge_weights_are_weights_like_others(scale):
    rng = np.random.default_rng(0)
    y, p, weight = rng.random(60), rng.random(60), rng.integers(0, 4, 60).astype(float)
    plain, scaled = calibration(y, p, sample_weight=weight), calibration(y, p, sample_weight=scale * weight)
    assert_array_equal(scaled.count, plain.count)
    for name in ("mean_predicted", "mean_observed", "expected_calibration_error"):
        assert_allclose(getattr(scaled, name), getattr(plain, name), rtol=1e-12)
    for metric in (cross_entropy, pair_accuracy):
        assert_allclose(metric(y, p, sample_weight=scale * weight), metric(y, p, sample_weight=weight), rtol=1e-12)


@pytest.mark.parametrize("n", range(2, 40))
def test_equal_and_opposite_rankings_are_at_the_ends_and_never_beyond(n):
    assert 1.0 - 1e-15 < kendall_tau(np.arange(n), np.arange(n)) <= 1.0
    assert -1.0 <= kendall_tau(np.arange(n), -np.arange(n)) < -1.0 + 1e-15
