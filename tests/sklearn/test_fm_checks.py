"""scikit-learn's own checks: the factorization machines pass all of them."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skpref import VariationalFM, VariationalFMClassifier, VariationalFMOrdinal

OTHERS = [VariationalFMClassifier(link="logit", n_factors=2, random_state=0), VariationalFMOrdinal(random_state=0)]


@parametrize_with_checks([VariationalFM(random_state=0)])
def test_every_check(estimator, check):
    check(estimator)


@pytest.mark.slow  # the family's checks run in the default run on another variant
@parametrize_with_checks(OTHERS)
def test_every_check_of_other_models(estimator, check):
    check(estimator)
