"""scikit-learn's own checks: `OptunaSearch` passes all that `GridSearchCV` does."""

import pytest
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from skpref.search import OptunaSearch

REGRESSION = OptunaSearch(BayesianRidge(), {"alpha_1": [1e-6, 1e-3]}, cv=2)
CLASSIFICATION = OptunaSearch(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2, error_score="raise")
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning"),  # checks feed what cannot be fitted
    pytest.mark.filterwarnings("ignore:Scoring failed:UserWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning"),  # of NaN, within the check
]


@parametrize_with_checks([CLASSIFICATION])
def test_every_check(estimator, check):
    check(estimator)


@pytest.mark.statistical  # the checks of the search run in the default run with a classifier
@parametrize_with_checks([REGRESSION])
def test_every_check_of_a_regressor(estimator, check):
    check(estimator)
