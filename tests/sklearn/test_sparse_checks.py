"""scikit-learn's own checks: sparse Gaussian processes pass all of them."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from skpref import SVGPRegressor

MODELS = [SVGPRegressor(n_inducing=10, tol=0.1, random_state=0)]


@parametrize_with_checks(MODELS)
def test_every_check(estimator: Any, check: Any) -> None:
    check(estimator)
