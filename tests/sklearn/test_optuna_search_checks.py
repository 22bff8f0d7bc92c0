"""scikit-learn's own checks: `OptunaSearch` passes all that `GridSearchCV` does."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from skpref.search import OptunaSearch

pytest.importorskip("optuna")

SEARCHES = [
    OptunaSearch(BayesianRidge(), {"alpha_1": [1e-6, 1e-3]}, cv=2),
    OptunaSearch(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2, error_score="raise"),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")  # checks feed what cannot be fitted
@pytest.mark.filterwarnings("ignore:Scoring failed:UserWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")  # of NaN, within the check
@parametrize_with_checks(SEARCHES)
def test_every_check(estimator: Any, check: Any) -> None:
    check(estimator)
