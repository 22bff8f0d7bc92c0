"""Ties in scikit-learn's tools: a third answer to the estimators, which have two classes."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibrationDisplay
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skpref import CrowdGPPL, GPPLClassifier
from skpref.metrics import log_loss_scorer
from skpref.search import OptunaSearch

RNG = np.random.default_rng(0)
LEFT = RNG.integers(0, 6, 150)
RIGHT = (LEFT + RNG.integers(1, 6, 150)) % 6
Z = 0.5 * (LEFT - RIGHT) + RNG.standard_normal(150)
NUMBERS = np.where(np.abs(Z) < 0.5, 0.5, Z > 0.0)
WORDS = np.array(["right", "tie", "left"])[(2.0 * NUMBERS).astype(int)]
MODELS = {
    "pairs": (GPPLClassifier(), np.column_stack([LEFT, RIGHT])),
    "crowd": (
        CrowdGPPL(n_factors=1, optimizer=None, max_iter=20, random_state=0),
        np.column_stack([np.arange(150) % 5, LEFT, RIGHT]),
    ),
}
FOLDS = KFold(3)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


@pytest.fixture(params=["numbers", "words"])
def y(request):
    return NUMBERS if request.param == "numbers" else WORDS


def test_tools_of_scores_and_copies_take_ties(model, y):
    estimator, X = model
    options = {"cv": FOLDS, "scoring": log_loss_scorer, "error_score": "raise"}
    scores = cross_val_score(estimator, X, y, **options)
    assert (scores > np.log(0.5)).all()
    search = GridSearchCV(estimator, {"likelihood": ["auto", "logit-ties"]}, **options).fit(X, y)
    assert search.predict_proba(X).shape == (150, 2)
    assert learning_curve(estimator, X, y, train_sizes=[0.5, 1.0], **options)[2].shape == (2, 3)
    fitted = clone(search.best_estimator_).fit(X, y)
    assert permutation_importance(fitted, X, y, scoring=log_loss_scorer, random_state=0).importances_mean[-2:].min() > 0
    p = fitted.predict_proba(X, ties=True)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(X, ties=True), p)
    pipe = make_pipeline(FunctionTransformer(), search.best_estimator_).fit(X, y)
    np.testing.assert_array_equal(pipe.predict_proba(X, ties=True), p)


def test_folds_of_predictions_with_ties(model, y):
    estimator, X = model
    sides = cross_val_predict(estimator, X, y, cv=FOLDS)
    assert set(np.unique(sides)) == ({0, 1} if y is NUMBERS else {"left", "right"})
    # The numbers 0, 1, 2 may be right, tie, left or left, right, tie: no estimator could know.
    with pytest.raises(ValueError, match=r"got 2 .*numbers labels from 0: loop over the folds instead"):
        cross_val_predict(estimator, X, y, cv=FOLDS, method="predict_proba")


def test_scikit_learns_display_draws_decided_answers(y):
    estimator, X = MODELS["pairs"]
    pytest.importorskip("matplotlib")
    decided = NUMBERS != 0.5
    fitted = clone(estimator).fit(X, y)
    display = CalibrationDisplay.from_estimator(fitted, X[decided], y[decided], pos_label=fitted.classes_[1])
    assert np.isfinite(display.prob_true).all()


def test_the_best_of_a_search_predicts_ties(y):
    estimator, X = MODELS["pairs"]
    search = OptunaSearch(estimator, n_trials=4, cv=FOLDS, scoring=log_loss_scorer, random_state=0).fit(X, y)
    tried = {params["likelihood"] for params in search.cv_results_["params"]}
    assert tried <= {"auto", "logit-ties"}
    assert search.best_estimator_.likelihood_.ties_are_answers
