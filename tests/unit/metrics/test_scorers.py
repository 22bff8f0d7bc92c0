"""Scorers of probabilities in folds that lack levels."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, log_loss
from sklearn.model_selection import LearningCurveDisplay, cross_val_score, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpref import GPOrdinalRegressor, GPPLClassifier, SVGPClassifier, VariationalFMClassifier
from skpref.exceptions import DataError
from skpref.metrics import cross_entropy, log_loss_scorer, ranked_probability_score, ranked_probability_scorer

_rng = np.random.default_rng(0)
X = _rng.standard_normal((40, 2))
Y = np.digitize(X[:, 0], [-0.5, 0.5])
Y[:3] = 3  # the rare level
FOLDS = {
    "training lacks it": (np.arange(3, 30), np.r_[0:3, 30:40]),
    "test lacks it": (np.arange(30), np.arange(30, 40)),
    "test has it alone": (np.arange(3, 30), np.arange(3)),
}
MODELS = {
    "ordinal": GPOrdinalRegressor(optimizer=None),
    "ordinal, declared": GPOrdinalRegressor(optimizer=None, class_order=range(4)),
    "svgp": SVGPClassifier(inducing=6, optimizer=None, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("model", MODELS)
def test_every_fold_has_a_score(model, fold):
    for scoring in (None, log_loss_scorer, ranked_probability_scorer):
        options = {"cv": [FOLDS[fold]], "scoring": scoring, "error_score": "raise"}
        assert np.all(np.isfinite(cross_val_score(MODELS[model], X, Y, **options)))


def test_two_classes_of_which_a_fold_has_one():
    y = np.where(Y == 3, "yes", "no")
    y[5:10] = "yes"
    folds = [(np.r_[5:7, 10:40], np.arange(3)), (np.arange(20), np.arange(20, 40))]
    model = VariationalFMClassifier(n_factors=1, max_iter=5, random_state=0)
    scores = cross_val_score(model, X, y, cv=folds, scoring=log_loss_scorer, error_score="raise")
    assert np.all(np.isfinite(scores))


def test_learning_curves_have_no_gaps():
    model = MODELS["ordinal"]
    curve = learning_curve(model, X[::-1], Y[::-1], train_sizes=[0.3, 1.0], cv=3, error_score="raise")
    assert np.all(np.isfinite(curve[2]))
    drawn = LearningCurveDisplay.from_estimator(model, X[::-1], Y[::-1], train_sizes=[0.3, 1.0], cv=3)
    assert np.all(np.isfinite(drawn.test_scores))


def test_levels_that_training_rows_have_are_scored_as_ever():
    model = GPOrdinalRegressor(optimizer=None).fit(X, Y)
    p, weight = model.predict_proba(X), np.arange(40.0)
    assert log_loss_scorer(model, X, Y, weight) == pytest.approx(-log_loss(Y, p, sample_weight=weight), rel=1e-12)
    assert ranked_probability_scorer(model, X, Y) == pytest.approx(-ranked_probability_score(Y, p), rel=1e-12)


def test_columns_are_those_of_classes_whatever_their_order():
    words, options = np.array(["poor", "fair", "good", "best"]), {"optimizer": None}
    numbers = GPOrdinalRegressor(**options).fit(X, Y)
    names = GPOrdinalRegressor(class_order=words, **options).fit(X, words[Y])
    assert log_loss_scorer(names, X, words[Y]) == log_loss_scorer(numbers, X, Y)
    assert ranked_probability_scorer(names, X, words[Y]) == ranked_probability_scorer(numbers, X, Y)


def test_a_level_without_training_rows_has_the_least_probability():
    model = GPOrdinalRegressor(optimizer=None).fit(X[3:], Y[3:])
    assert log_loss_scorer(model, X[:3], Y[:3]) == pytest.approx(np.log(np.finfo(float).eps))
    padded = np.column_stack([model.predict_proba(X), np.zeros(40)])
    assert ranked_probability_scorer(model, X, Y) == pytest.approx(-ranked_probability_score(Y, padded), rel=1e-12)
    declared = GPOrdinalRegressor(optimizer=None, class_order=[2, 1, 0]).fit(X[3:], Y[3:])
    with pytest.raises(DataError, match="y holds 3"):
        ranked_probability_scorer(declared, X, Y)


def test_comparisons_with_ties_count_half_of_each_side():
    X, y = [("a", "b"), ("b", "c"), ("a", "c"), ("b", "a")] * 4, [1, 0.5, 1, 0] * 4
    model = GPPLClassifier().fit(X, y)
    p = model.predict_proba(X)[:, 1]
    assert log_loss_scorer(model, X, y) == pytest.approx(-cross_entropy(y, p))
    words = np.array(["right", "tie", "left"])[(2 * np.array(y)).astype(int)]
    of_words = GPPLClassifier().fit(X, words)
    assert log_loss_scorer(of_words, X, words) == pytest.approx(log_loss_scorer(model, X, y))
    hard = [row for row, label in zip(X, y, strict=True) if label != 0.5], [label for label in y if label != 0.5]
    assert log_loss_scorer(model, *hard) == pytest.approx(get_scorer("neg_log_loss")(model, *hard))
