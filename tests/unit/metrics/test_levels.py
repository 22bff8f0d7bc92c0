"""Measures of ordered levels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, cohen_kappa_score, make_scorer, mean_absolute_error, zero_one_loss
from sklearn.model_selection import cross_val_score

from skpref.exceptions import DataError
from skpref.metrics import (
    averaged_mae,
    mean_zero_one_error,
    ordinal_mae,
    quadratic_weighted_kappa,
    ranked_probability_score,
)

OF_LEVELS = [mean_zero_one_error, ordinal_mae, averaged_mae, quadratic_weighted_kappa]
NAMES = np.array(["poor", "fair", "good", "excellent", "outstanding"], dtype=object)


@st.composite
def ratings(draw):
    """Number of levels, two ratings, probabilities, and whole weights of which one at least is positive."""
    r, n = draw(st.integers(2, 5)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weight = rng.integers(0, 4, n)
    weight[0] += 1
    return r, rng.integers(0, r, n), rng.integers(0, r, n), rng.dirichlet(np.ones(r), n), weight


# ------------------------------------------------------------------------------------------------------------ rivals
@given(ratings())
def test_rivals_agree(case):
    r, true, predicted, _, weight = case
    assert_allclose(
        mean_zero_one_error(true, predicted, sample_weight=weight),
        zero_one_loss(true, predicted, sample_weight=weight),
        atol=1e-14,
    )
    mae = mean_absolute_error(true, predicted, sample_weight=weight)
    assert_allclose(ordinal_mae(true, predicted, sample_weight=weight), mae, atol=1e-14)
    used = weight > 0
    if np.unique([true[used], predicted[used]]).size > 1:
        wanted = cohen_kappa_score(true, predicted, labels=range(r), weights="quadratic", sample_weight=weight)
        assert_allclose(quadratic_weighted_kappa(true, predicted, sample_weight=weight), wanted, rtol=1e-10, atol=1e-12)


@given(ratings())
def test_averaged_mae_is_a_mean_of_means(case):
    r, true, predicted, _, weight = case
    errors = [
        np.average(np.abs(predicted - true)[true == k], weights=weight[true == k])
        for k in range(r)
        if weight[true == k].any()
    ]
    assert_allclose(averaged_mae(true, predicted, sample_weight=weight), np.mean(errors), rtol=1e-12, atol=1e-14)
    # Absent levels count for nothing; with one observation a level both averages are one.
    assert_allclose(averaged_mae(np.arange(9), np.arange(9)[::-1]), ordinal_mae(np.arange(9), np.arange(9)[::-1]))


@given(ratings())
def test_ranked_probability_score_by_hand(case):
    r, true, predicted, p, weight = case
    by_hand = 0.0
    for i in range(true.size):
        gaps = [sum(p[i, : k + 1]) - (true[i] <= k) for k in range(r - 1)]
        by_hand += weight[i] * sum(gap**2 for gap in gaps) / (r - 1)
    got = ranked_probability_score(true, p, labels=range(r), sample_weight=weight)
    assert_allclose(got, by_hand / weight.sum(), rtol=1e-10, atol=1e-14)
    # Certain predictions: the error in ranks.
    certain = ranked_probability_score(true, np.eye(r)[predicted], labels=range(r), sample_weight=weight)
    assert_allclose(certain, ordinal_mae(true, predicted, sample_weight=weight) / (r - 1), atol=1e-14)


@given(st.integers(0, 2**32 - 1))
def test_ranked_probability_score_of_two_levels_is_brier(seed):
    rng = np.random.default_rng(seed)
    y, p = rng.integers(0, 2, 20), rng.random(20)
    for given_p in (p, np.column_stack([1.0 - p, p])):
        assert_allclose(ranked_probability_score(y, given_p, labels=[0, 1]), brier_score_loss(y, p, pos_label=1))


@given(ratings())
def test_ranked_probability_score_is_proper(case):
    # Its mean under p is least when p itself is what was predicted.
    r, _, _, p, _ = case
    truth, other = p[0], p[-1]

    def mean_under_truth(q):
        return ranked_probability_score(range(r), np.tile(q, (r, 1)), sample_weight=truth)

    assert mean_under_truth(truth) <= mean_under_truth(other) + 1e-14


# ------------------------------------------------------------------------------------------------- names and weights
@given(ratings(), st.randoms())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_levels_may_have_any_names(case, random):
    r, true, predicted, p, _ = case
    names = NAMES[:r].tolist()
    random.shuffle(names)
    names = np.array(names, dtype=object)
    numbers = np.sort(np.random.default_rng(r).choice(100, r, replace=False)) / 7.0
    for labels in (names, names.astype(str), numbers):
        for metric in OF_LEVELS[1:]:
            assert_allclose(metric(labels[true], labels[predicted], labels=labels), metric(true, predicted))
        assert mean_zero_one_error(labels[true], labels[predicted]) == mean_zero_one_error(true, predicted)
        named = ranked_probability_score(labels[true], p, labels=labels)
        assert_allclose(named, ranked_probability_score(true, p, labels=range(r)), rtol=1e-14)


@given(ratings())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_weight_is_repetition(case):
    r, true, predicted, p, weight = case
    often = np.repeat(np.arange(true.size), weight)
    for metric in OF_LEVELS:
        wanted = metric(true[often], predicted[often])
        assert_allclose(metric(true, predicted, sample_weight=weight), wanted, rtol=1e-9, atol=1e-12)
    wanted = ranked_probability_score(true[often], p[often], labels=range(r))
    assert_allclose(ranked_probability_score(true, p, labels=range(r), sample_weight=weight), wanted, rtol=1e-12)


@given(ratings())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_reversed_order_is_the_same_error(case):
    r, true, predicted, p, weight = case
    for metric in OF_LEVELS:
        turned = metric(r - 1 - true, r - 1 - predicted, sample_weight=weight)
        assert_allclose(turned, metric(true, predicted, sample_weight=weight), rtol=1e-10, atol=1e-12)
    turned = ranked_probability_score(r - 1 - true, p[:, ::-1], labels=range(r))
    assert_allclose(turned, ranked_probability_score(true, p, labels=range(r)), rtol=1e-10, atol=1e-14)


def test_ends_of_the_scales():
    y = np.array([1, 2, 3, 3])
    for metric in OF_LEVELS[:3]:
        assert metric(y, y) == 0.0
    assert quadratic_weighted_kappa(y, y) == 1.0
    assert quadratic_weighted_kappa([0, 1], [1, 0]) == -1.0
    assert quadratic_weighted_kappa([0, 0, 1, 1], [0, 1, 0, 1]) == 0.0
    assert ranked_probability_score([0, 2], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], labels=[0, 1, 2]) == 1.0
    with pytest.warns(UndefinedMetricWarning, match="quadratic_weighted_kappa is undefined: all ratings are one level"):
        assert np.isnan(quadratic_weighted_kappa([2, 2], [2, 2]))


# -------------------------------------------------------------------------------------------------------------- scorers
@pytest.mark.parametrize("named", [False, True])
def test_scorers(named):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=120), [-0.7, 0.7])
    # scikit-learn's classifiers order their columns by name.
    labels = np.array(["a bad one", "b fair one", "c good one"])[: y.max() + 1] if named else np.arange(3)
    for metric, options in (
        (mean_zero_one_error, {}),
        (ordinal_mae, {"labels": labels}),
        (averaged_mae, {"labels": labels}),
        (ranked_probability_score, {"labels": labels, "response_method": "predict_proba"}),
    ):
        scorer = make_scorer(metric, greater_is_better=False, **options)
        good, poor = (
            cross_val_score(m, X, labels[y], scoring=scorer) for m in (LogisticRegression(), DummyClassifier())
        )
        assert good.mean() > poor.mean()
    scorer = make_scorer(quadratic_weighted_kappa, labels=labels)
    assert cross_val_score(LogisticRegression(), X, labels[y], scoring=scorer).mean() > 0.5
    two = make_scorer(
        ranked_probability_score, greater_is_better=False, response_method="predict_proba", labels=labels[:2]
    )
    low = y < 2
    assert -0.25 < cross_val_score(LogisticRegression(), X[low], labels[y[low]], scoring=two).mean() < 0.0


# --------------------------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize("metric", OF_LEVELS)
@pytest.mark.parametrize(
    ("true", "predicted", "weight", "message"),
    [
        ([1, 2], [1], None, "inconsistent numbers of samples"),
        ([1, 2], [1, 2], [1], r"sample_weight\.shape == \(1,\), expected \(2,\)"),
        ([1, 2], [1, 2], [1, -1], "Negative values in data passed to `sample_weight`: -1 in row 1"),
        ([1, 2], [1, 2], [0, 0], "at least 1 observation with positive weight"),
        ([], [], None, "at least 1 observation with positive weight"),
        ([1, np.nan], [1, 2], None, "Input y_true contains NaN"),
        ([1, 2], [1, np.inf], None, "Input y_pred contains infinity"),
        ([np.inf, -np.inf], [1, 2], None, "Input y_true contains infinity"),
        ([1, 2], [1, 2], [np.inf, -np.inf], "Input sample_weight contains infinity"),
        (np.array(["a", 1], dtype=object), [1, 2], None, "y_true must hold numbers only, or strings only"),
    ],
)
def test_clear_errors(metric, true, predicted, weight, message):
    with pytest.raises(ValueError, match=message):
        metric(true, predicted, sample_weight=weight)


@pytest.mark.parametrize("metric", OF_LEVELS[1:])
@pytest.mark.parametrize(
    ("true", "predicted", "labels", "message"),
    [
        (["a"], ["b"], None, "y_true holds strings, whose order is unknown; pass labels"),
        ([1], ["b"], None, "y_pred holds strings, whose order is unknown; pass labels"),
        ([1.0], [1.5], None, "y_pred must hold whole numbers; got 1.5; pass labels"),
        (["a"], ["c"], ["a", "b"], r"y_pred must hold labels only; got 'c', which is not in \['a', 'b'\]"),
        ([1], [2], ["a", "b"], "y_true must hold labels only; got 1.0"),
        ([1], [1], [1], "labels must be at least 2 different levels"),
        ([1], [1], [1, 2, 1], "labels must be at least 2 different levels"),
    ],
)
def test_clear_errors_of_order(metric, true, predicted, labels, message):
    with pytest.raises(DataError, match=message):
        metric(true, predicted, labels=labels)


def test_strings_are_not_numbers():
    with pytest.raises(DataError, match="must both hold numbers, or both strings"):
        mean_zero_one_error(["1"], [1])


@pytest.mark.parametrize(
    ("y", "p", "labels", "message"),
    [
        ([0, 1], [[0.5, 0.5, 0.0]] * 2, None, "p has 3 columns, but y holds 2 different levels; pass labels"),
        (["a", "b"], [[0.5, 0.5]] * 2, None, "y holds strings, whose order is unknown"),
        ([0, 1], [[0.5, 0.5]] * 2, [0, 1, 2], "p must have a column for each of the 3 labels; got 2"),
        ([0, 3], [[0.5, 0.5]] * 2, [0, 1], "y must hold labels only; got 3.0"),
        ([0, 1], [[0.5, 0.4]] * 2, [0, 1], "rows of p must sum to 1; row 0 sums to 0.9"),
        ([0, 1], [[1.5, -0.5]] * 2, [0, 1], r"p must lie in \[0, 1\]; got 1.5 and 3 more outside"),
        ([0, 1], [[1.0]] * 2, [0, 1], "p must have shape"),
        ([0, 1], [[np.nan, 0.5]] * 2, [0, 1], "Input p contains NaN"),
        ([0], [[0.5, 0.5]] * 2, [0, 1], "inconsistent numbers of samples"),
    ],
)
def test_clear_errors_of_probabilities(y, p, labels, message):
    with pytest.raises(ValueError, match=message):
        ranked_probability_score(y, p, labels=labels)
