"""The exported kit passes our estimators, and refuses broken ones."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.validation import validate_data

from skpref import GPPLClassifier, GPPLRegressor, Table
from skpref.data import read_pairs
from skpref.kernels import Linear
from skpref.testing import IdColumns, check_comparison_estimator

rng = np.random.default_rng(0)
TABLE = Table(rng.standard_normal((8, 2)), ids=list("abcdefgh"))
ESTIMATORS = {
    "ids alone": GPPLClassifier(),
    "order effect": GPPLClassifier(order_effect=True),
    "logit": GPPLClassifier(likelihood="logit"),
    "laplace": GPPLClassifier(inference="laplace"),
    "linearised": GPPLClassifier(inference="linearised"),
    "svi": GPPLClassifier(inference="svi", batch_size=1000, max_iter=300),
    "table": GPPLClassifier(TABLE, length_scale_factor=1.0),
    "features alone": GPPLClassifier(TABLE, length_scale_factor=1.0, item_effects=False),
    "given kernel": GPPLClassifier(TABLE, Linear(), optimizer="l-bfgs-b", max_iter=1000),
}


@pytest.mark.filterwarnings("ignore:.*did not converge")  # "linearised" need not
@pytest.mark.parametrize("name", ESTIMATORS)
def test_our_estimators_pass(name: str) -> None:
    check_comparison_estimator(ESTIMATORS[name], seed=int(np.random.default_rng().integers(1000)))


class ForgetsParameters(GPPLClassifier):
    def fit(self, X, y, sample_weight=None):
        self.tol = 0.5
        return super().fit(X, y, sample_weight)


class IgnoresWeights(GPPLClassifier):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


class FavoursLeft(GPPLClassifier):
    def predict_proba(self, X):
        left = super().predict_proba(X)[:, 1] ** 0.9
        return np.column_stack([1.0 - left, left])


class RemembersBatch(GPPLClassifier):
    def predict_proba(self, X):
        left = super().predict_proba(X)[:, 1]
        left = 0.9 * left + 0.1 * left.mean()
        return np.column_stack([1.0 - left, left])


class BreaksOnFailure(GPPLClassifier):
    def fit(self, X, y, sample_weight=None):
        self.__dict__.pop("posterior_", None)
        return super().fit(X, y, sample_weight)


class Noisy(GPPLClassifier):
    def predict_proba(self, X):
        left = np.clip(super().predict_proba(X)[:, 1] + 1e-3 * np.random.default_rng().random(len(X)), 0.0, 1.0)
        return np.column_stack([1.0 - left, left])


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (ForgetsParameters(), "fit_returns_self_and_leaves_parameters"),
        (IgnoresWeights(), "weight_is_repetition"),
        (FavoursLeft(), "swapping|probabilities"),
        (RemembersBatch(), "batch"),
        (BreaksOnFailure(), "failed_fit"),
        (Noisy(), "same_random_state"),
    ],
)
def test_broken_estimators_are_refused(broken: GPPLClassifier, check: str) -> None:
    with pytest.raises(AssertionError, match=check):
        check_comparison_estimator(broken)


def test_columns_of_other_things() -> None:
    columns = IdColumns(n_columns=3, left=2, right=1)
    assert columns.others == (0,)
    assert columns.rows(["a"], ["b"], np.array([7])) == [[7, "b", "a"]]


class WithUsers(GPPLClassifier):
    """Three columns: user, left, right; the user is read and not used."""

    def _read(self, X, *, reset):
        if hasattr(X, "iloc"):
            pairs = X.iloc[:, 1:]
        elif isinstance(X, list):
            pairs = [row[1:] for row in X]
        else:
            pairs = X[:, 1:] if X.ndim == 2 else X
        left, right = read_pairs(pairs)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return left, right


def test_the_kit_reads_estimators_of_three_columns() -> None:
    check_comparison_estimator(WithUsers(), columns=IdColumns(n_columns=3, left=1, right=2))


def test_the_kit_wants_a_classifier_and_enough_items() -> None:
    with pytest.raises(AssertionError, match="not a classifier"):
        check_comparison_estimator(GPPLRegressor())
    with pytest.raises(AssertionError, match="needs 6 items"):
        check_comparison_estimator(GPPLClassifier(Table(np.eye(3))))
