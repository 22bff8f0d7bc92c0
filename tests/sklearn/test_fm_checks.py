"""scikit-learn's own checks: the factorization machines pass all of them."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from skpref import VariationalFM, VariationalFMClassifier, VariationalFMOrdinal

MODELS = [
    VariationalFM(random_state=0),
    VariationalFMClassifier(random_state=0),
    VariationalFMClassifier(link="logit", n_factors=2, random_state=0),
    VariationalFMOrdinal(random_state=0),
]


@parametrize_with_checks(MODELS)
def test_every_check(estimator: Any, check: Any) -> None:
    check(estimator)
