"""scikit-learn's own checks: sparse Gaussian processes and the latent variable model pass all of them."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skpref import Adam, BayesianGPLVM, SVGPClassifier, SVGPRegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # five iterations are enough
MODELS = [
    SVGPClassifier(optimizer=None, random_state=0),
    BayesianGPLVM(inducing=5, max_iter=5, random_state=0),
]
OTHERS = [
    BayesianGPLVM(),
    SVGPRegressor(),
    SVGPRegressor(inference="svi", optimizer=Adam(0.05), tol=0.1),
    SVGPRegressor(likelihood="student-t", tol=0.1),
    SVGPClassifier(),
    SVGPClassifier(likelihood="logit", inference="svi", optimizer=Adam(0.05), tol=0.1),
]


@parametrize_with_checks(MODELS)
def test_every_check(estimator, check):
    check(estimator)


@pytest.mark.slow  # the family's checks run in the default run on another variant
@parametrize_with_checks([SVGPRegressor(inducing=10, tol=0.1, random_state=0)])
def test_every_check_of_a_regressor(estimator, check):
    check(estimator)


@pytest.mark.statistical  # minutes: nightly
@parametrize_with_checks(OTHERS)
def test_every_check_of_other_parameters(estimator, check):
    check(estimator)
