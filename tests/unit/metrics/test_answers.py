"""Measures of three answers."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skpref import GPPLClassifier
from skpref.exceptions import DataError
from skpref.metrics import (
    answers_log_loss,
    answers_log_loss_scorer,
    answers_rps,
    answers_rps_scorer,
    ranked_probability_score,
)


def test_they_are_the_usual_measures_of_three_classes():
    rng = np.random.default_rng(0)
    p, y, weight = rng.dirichlet(np.ones(3), 30), rng.choice([0.0, 0.5, 1.0], 30), rng.exponential(size=30)
    labels = (2 * y).astype(int)
    expected = log_loss(labels, p[:, ::-1], labels=[0, 1, 2], sample_weight=weight)
    assert answers_log_loss(y, p, sample_weight=weight) == pytest.approx(expected)
    expected = ranked_probability_score(y, p[:, ::-1], labels=[0.0, 0.5, 1.0], sample_weight=weight)
    assert answers_rps(y, p, sample_weight=weight) == pytest.approx(expected)
    words = np.array(["right", "tie", "left"])[labels]
    assert answers_rps(words, p, sample_weight=weight) == pytest.approx(expected)


def test_soft_labels_share_the_sides():
    p = [[0.5, 0.2, 0.3]]
    expected = 0.8 * answers_log_loss([1], p) + 0.2 * answers_log_loss([0], p)
    assert answers_log_loss([0.8], p) == pytest.approx(expected)


def test_impossible_answers_are_finite():
    assert 700.0 < answers_log_loss([0.5], [[0.5, 0.0, 0.5]]) < 710.0
    assert answers_rps([0.0], [[1.0, 0.0, 0.0]]) == 1.0


@pytest.mark.parametrize(
    ("y", "p", "weight", "message"),
    [
        ([1], [[0.5, 0.5]], None, r"3 columns .*; got shape \(1, 2\)"),
        ([1], [[0.5, 0.5, 0.5]], None, "sums from 1.5"),
        ([1], [[1.5, -0.5, 0.0]], None, "entries from -0.5"),
        ([2], [[1.0, 0.0, 0.0]], None, "labels must be 0 or 1"),
        ([1], [[1.0, 0.0, 0.0]], [0.0], "positive weight"),
        ([1, 0], [[1.0, 0.0, 0.0]], None, "inconsistent numbers"),
        ([1], [[np.nan, 0.0, 0.0]], None, "p contains NaN"),
    ],
)
def test_bad_input_is_refused(y, p, weight, message):
    for measure in (answers_log_loss, answers_rps):
        with pytest.raises((DataError, ValueError), match=message):
            measure(y, p, sample_weight=weight)


def test_scorers_refuse_what_gives_no_answers():
    with pytest.raises(NotFittedError):
        answers_rps_scorer(GPPLClassifier(), [["a", "b"]], [1])
    other = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(DataError, match="need a GPPLClassifier or a CrowdGPPL; got LogisticRegression"):
        answers_log_loss_scorer(make_pipeline(FunctionTransformer(), other), [[0.0]], [1])


@pytest.mark.parametrize(("scorer", "words"), [(answers_log_loss_scorer, False), (answers_rps_scorer, True)])
def test_searches_never_see_nan(scorer, words):
    X = [["a", "b"], ["b", "c"], ["a", "c"], ["c", "d"]] * 6
    y = np.array([1.0, 0.5, 1.0, 0.0] * 6)
    y = np.array(["right", "tie", "left"])[(2 * y).astype(int)] if words else y
    steps = make_pipeline(FunctionTransformer(), GPPLClassifier())
    grid = {"gpplclassifier__likelihood": ["probit", "logit-ties", "probit-ties"]}
    search = GridSearchCV(steps, grid, cv=3, scoring=scorer, error_score="raise").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["gpplclassifier__likelihood"] != "probit"
    p = search.best_estimator_.predict_proba(X, ties=True)
    left_first = answers_rps if scorer is answers_rps_scorer else answers_log_loss
    assert scorer(search.best_estimator_, X, y) == -left_first(y, p)


@pytest.mark.parametrize(("off", "allowed"), [(0.9e-6, True), (1.1e-6, False), (-0.9e-6, True), (-1.1e-6, False)])
def test_probabilities_may_miss_one_by_a_millionth(off, allowed):
    p = [[0.5 + off, 0.2, 0.3], [0.2, 0.2, 0.6]]
    if allowed:
        assert answers_log_loss([1.0, 0.0], p) == pytest.approx(-0.5 * np.log(0.5 * 0.6), abs=1e-5)
        return
    with pytest.raises(DataError, match="p must have 3 columns of probabilities that sum to 1"):
        answers_log_loss([1.0, 0.0], p)
