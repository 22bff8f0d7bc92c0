"""The exported kit passes our estimators, and refuses broken ones."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.validation import validate_data

from skpref import CrowdGPPL, GPPLClassifier, GPPLRegressor, Table
from skpref.data import read_pairs
from skpref.gp.pairwise.columns import PairRows
from skpref.kernels import Linear
from skpref.testing import IdColumns, _comparisons, check_comparison_estimator

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


USERS = Table(rng.standard_normal((4, 3)), ids=["u", 3, b"w", ("x",)])
TRIPLES = IdColumns(n_columns=3, left=1, right=2, user=0)
# Fits that are to be equal must have converged: factors turn slowly.
TIGHT = {"n_factors": 1, "tol": 1e-7, "max_iter": 3000, "length_scale_factor": 1.0}
CROWDS = {
    "ids alone": CrowdGPPL(**TIGHT),
    "tables": CrowdGPPL(TABLE, USERS, item_effects=False, **TIGHT),
    "users' table, order effect, strangers refused": CrowdGPPL(
        None, USERS, order_effect=True, unknown_user="raise", **TIGHT
    ),
    "no factors, svi": CrowdGPPL(TABLE, inference="svi", **{**TIGHT, "n_factors": 0}),
}


@pytest.mark.filterwarnings("ignore:.*did not converge")  # "linearised" need not
@pytest.mark.parametrize("name", ESTIMATORS)
def test_our_estimators_pass(name: str) -> None:
    check_comparison_estimator(ESTIMATORS[name], seed=int(np.random.default_rng().integers(1000)))


@pytest.mark.parametrize("name", CROWDS)
def test_crowds_pass(name: str) -> None:
    check_comparison_estimator(CROWDS[name], columns=TRIPLES, seed=int(np.random.default_rng().integers(1000)))


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


class FavoursOneName(CrowdGPPL):
    """Of whose id comes first in the alphabet, answers lean to the left."""

    def predict_proba(self, X):
        first = min(map(repr, self.user_ids_))
        left = 0.99 * super().predict_proba(X)[:, 1] + 0.01 * np.array([repr(row[0]) == first for row in X])
        return np.column_stack([1.0 - left, left])


class CountsUnseenUsers(CrowdGPPL):
    """Predictions for an unseen user depend on the other rows."""

    def predict_proba(self, X):
        known = np.array([row[0] in self.user_ids_.tolist() for row in X])
        left = np.where(known, super().predict_proba(X)[:, 1], 0.5 + 0.1 * known.mean())
        return np.column_stack([1.0 - left, left])


class AcceptsUnseenUsers(CrowdGPPL):
    def predict_proba(self, X):
        strict, self.unknown_user = self.unknown_user, "consensus"
        try:
            return super().predict_proba(X)
        finally:
            self.unknown_user = strict


class CountsWeightZero(CrowdGPPL):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, None if sample_weight is None else np.asarray(sample_weight) + 0.1)


class TakesNobody(CrowdGPPL):
    """A missing id of a user stands for one more user."""

    def fit(self, X, y, sample_weight=None):
        if isinstance(X, list) and len(X[0]) == 3:
            X = [["nobody" if row[0] is None or row[0] != row[0] else row[0], *row[1:]] for row in X]
        return super().fit(X, y, sample_weight)


class StartsAnew(CrowdGPPL):
    def partial_fit(self, X, y, sample_weight=None):
        return self.fit(X, y, sample_weight)


class LearnsNothing(CrowdGPPL):
    def partial_fit(self, X, y, sample_weight=None):
        before = getattr(self, "posterior_", None)
        super().partial_fit(X, y, sample_weight)
        self.posterior_ = before or self.posterior_
        return self


class BreaksWhenItFails(CrowdGPPL):
    def partial_fit(self, X, y, sample_weight=None):
        try:
            return super().partial_fit(X, y, sample_weight)
        except ValueError:
            self.fit([[0, "item 0", "item 1"]], [1])
            raise


@pytest.mark.parametrize(
    ("broken", "check", "text"),
    [
        (FavoursOneName, "_names_of_users_do_not_matter", "users' ids that are"),
        (CountsUnseenUsers, "_unknown_users", "unseen users among others"),
        (AcceptsUnseenUsers, "_unknown_users", "wanted UnknownIdError with the message .unknown user"),
        (CountsWeightZero, "_users_of_weight_zero", "a user of weight zero counts"),
        (TakesNobody, "_error_texts", "missing user id"),
        (StartsAnew, "_partial_fit", "partial_fit forgets"),
        (LearnsNothing, "_partial_fit", "partial_fit does not learn"),
        (BreaksWhenItFails, "_partial_fit", "a failed partial_fit changes the fit"),
    ],
)
def test_broken_crowds_are_refused(broken: type[CrowdGPPL], check: str, text: str) -> None:
    unknown_user = "raise" if broken is AcceptsUnseenUsers else "consensus"
    case = _comparisons._draw(broken(n_factors=0, unknown_user=unknown_user), TRIPLES, 0)
    check_function = getattr(_comparisons, check)
    assert check_function in _comparisons._CHECKS
    with pytest.raises(AssertionError, match=text):
        check_function(case)


def test_columns_of_other_things() -> None:
    columns = IdColumns(n_columns=3, left=2, right=1)
    assert columns.others == (0,)
    assert columns.rows(["a"], ["b"], np.array([7])) == [[7, "b", "a"]]
    assert TRIPLES.rows(["a"], ["b"], [("u", 1)]) == [[("u", 1), "a", "b"]]


class WithUsers(GPPLClassifier):
    """Three columns: user, left, right; the user is read and not used."""

    def _read(self, X, *, reset, weighted=True):
        if hasattr(X, "iloc"):
            pairs = X.iloc[:, 1:]
        elif isinstance(X, list):
            pairs = [row[1:] for row in X]
        else:
            pairs = X[:, 1:] if X.ndim == 2 else X
        rows = PairRows(*read_pairs(pairs), None, None)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return rows


def test_the_kit_reads_estimators_of_three_columns() -> None:
    check_comparison_estimator(WithUsers(), columns=IdColumns(n_columns=3, left=1, right=2))


def test_the_kit_wants_a_classifier_and_enough_items() -> None:
    with pytest.raises(AssertionError, match="not a classifier"):
        check_comparison_estimator(GPPLRegressor())
    with pytest.raises(AssertionError, match="need 6 items"):
        check_comparison_estimator(GPPLClassifier(Table(np.eye(3))))
    with pytest.raises(AssertionError, match="need 3 users"):
        check_comparison_estimator(CrowdGPPL(None, Table(np.eye(2))), columns=TRIPLES)
