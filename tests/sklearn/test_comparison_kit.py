"""The exported kit passes our estimators, and refuses broken ones."""

import re

import numpy as np
import pytest
from sklearn.utils.validation import validate_data

from skpref import SVI, CrowdGPPL, GPPLClassifier, GPPLRegressor, Table
from skpref.data.columns import read_ids
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
    "svi": GPPLClassifier(inference=SVI(1000), max_iter=300),
    "table": GPPLClassifier(TABLE, optimizer=None),
    "features alone": GPPLClassifier(TABLE, optimizer=None, item_effects=False),
    "given kernel": GPPLClassifier(TABLE, Linear(), optimizer="l-bfgs-b", max_iter=1000),
}


USERS = Table(rng.standard_normal((4, 3)), ids=["u", 3, b"w", ("x",)])
TRIPLES = IdColumns(n_columns=3, left=1, right=2, user=0)
# Fits that are to be equal must have converged: factors turn slowly.
TIGHT = {"n_factors": 1, "tol": 1e-7, "max_iter": 3000, "optimizer": None}
CROWDS = {
    "ids alone": CrowdGPPL(**TIGHT),
    "tables": CrowdGPPL(TABLE, USERS, item_effects=False, **TIGHT),
    "users' table, order effect, strangers refused": CrowdGPPL(
        None, USERS, order_effect=True, unknown_user="raise", inference="vb", **TIGHT
    ),
    "no factors, svi": CrowdGPPL(TABLE, inference="svi", **{**TIGHT, "n_factors": 0}),
}


@pytest.mark.filterwarnings("ignore:.*did not converge")  # "linearised" need not
@pytest.mark.parametrize("name", ESTIMATORS)
def test_our_estimators_pass(name):
    check_comparison_estimator(ESTIMATORS[name], seed=int(np.random.default_rng().integers(1000)))


@pytest.mark.parametrize("name", CROWDS)
def test_crowds_pass(name):
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


class ForgetsWhenPickled(GPPLClassifier):
    def __setstate__(self, state):
        self.__dict__.update(state, loaded=True)

    def predict_proba(self, X):
        return super().predict_proba(X)[:, :: -1 if hasattr(self, "loaded") else 1]


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (ForgetsWhenPickled(), "pickle_predicts_the_same"),
        (ForgetsParameters(), "fit_returns_self_and_leaves_parameters"),
        (IgnoresWeights(), "weight_is_repetition"),
        (FavoursLeft(), "swapping|probabilities"),
        (RemembersBatch(), "batch"),
        (BreaksOnFailure(), "failed_fit"),
        (Noisy(), "same_random_state"),
    ],
)
def test_broken_estimators_are_refused(broken, check):
    with pytest.raises(AssertionError, match=check):
        check_comparison_estimator(broken)


def two(left):
    return np.column_stack([1.0 - left, left])


def proba(change):
    """Change the probabilities of the left side."""
    return {"predict_proba": lambda self, X: two(change(GPPLClassifier.predict_proba(self, X)[:, 1], self, X))}


def fit(change, before=None):
    """Do something more in a fit."""

    def faulty(self, X, y=None, sample_weight=None):
        labels = y if before is None else before(self, X, y)
        GPPLClassifier.fit(self, X, labels, sample_weight)
        return change(self, X, y) or self

    return {"fit": faulty}


def overwrite(model, X, y):
    X.flags.writeable = True
    X[0] = X[1]


def write(model, X, y):
    y[0] = y[0]


def lenient(method):
    """A method that answers before a fit."""
    return lambda self, X, *_: getattr(GPPLClassifier, method)(self, X, *_) if hasattr(self, "classes_") else 0.5


def counted(self, X, y):
    self._n_fits = getattr(self, "_n_fits", 0) + 1


def keeps_failing(self, X, y=None, sample_weight=None):
    if hasattr(self, "classes_"):
        self.extra_ = 1
    return GPPLClassifier.fit(self, X, y, sample_weight)


def swallow(self, X, y=None, sample_weight=None):
    try:
        return GPPLClassifier.fit(self, X, y, sample_weight)
    except ValueError:
        return self


def weight_of_one(self, X, y=None, sample_weight=None):
    return GPPLClassifier.fit(self, X, y, None if sample_weight is None else np.minimum(sample_weight, 1.0))


def weight_of_none(self, X, y=None, sample_weight=None):
    return GPPLClassifier.fit(self, X, y, None if sample_weight is None else np.maximum(sample_weight, 0.2))


def first_name(left, self, X):
    least = min(map(repr, self.item_ids_))
    return np.array([p if repr(row[0]) != least else 0.99 * p for p, row in zip(left, X, strict=True)])


def later_rows(left, self, X):
    return left * (1.0 - 1e-3 * (len(X) > 1 and X[0] == self._last))


def remember_last(self, X, y):
    self._last = X[-1]


FAULTS = [
    (fit(lambda *_: 1), "_fit_returns_self_and_leaves_parameters", "does not return"),
    (fit(lambda self, *_: setattr(self, "n_features_in_", 7)), "_fitted_attributes", "n_features_in_ = 7"),
    (fit(lambda self, *_: setattr(self, "classes_", np.array([0, 2]))), "_fitted_attributes", "classes_"),
    (proba(lambda p, *_: 0.9 * p + 0.1 * np.random.default_rng().random()), "_same_random_state_same_bits", "two fits"),
    (fit(counted) | proba(lambda p, self, _: p / self._n_fits), "_same_random_state_same_bits", "a second fit"),
    (fit(overwrite), "_input_is_left_alone", "changes its input"),
    (fit(write), "_input_is_left_alone", "read-only"),
    *(
        ({method: lenient(method)}, "_use_before_fit", "not fitted")
        for method in ("predict", "predict_proba", "decision_function", "score")
    ),
    *(
        (
            {method: lambda self, *a, m=method: (setattr(self, "last_", 1), getattr(GPPLClassifier, m)(self, *a))[1]},
            "_predicting_changes_nothing",
            "^$",
        )
        for method in ("predict", "predict_proba", "score")
    ),
    (proba(lambda p, *_: p * (1.0 - 1e-3 * np.arange(len(p)))), "_batch_is_row_by_row", "row by row"),
    (fit(remember_last) | proba(later_rows), "_batch_is_row_by_row", "the order of rows"),
    ({"fit": keeps_failing}, "_failed_fit_keeps_the_earlier", "leaves attributes"),
    ({"fit": swallow}, "_failed_fit_keeps_the_earlier", "wanted ValueError"),
    ({"predict_proba": lambda self, X: 0.999 * GPPLClassifier.predict_proba(self, X)}, "_probabilities", "do not sum"),
    (proba(lambda p, *_: 3.0 * p - 1.0), "_probabilities", "outside"),
    ({"predict": lambda self, X: 1 - GPPLClassifier.predict(self, X)}, "_probabilities", "predict contradicts"),
    (
        {
            "predict": lambda self, X: (self.predict_proba(X)[:, 1] > 0.5).astype(int),
            "decision_function": lambda self, X: -GPPLClassifier.decision_function(self, X),
        },
        "_probabilities",
        "decision_function",
    ),
    ({"fit": weight_of_one}, "_weight_is_repetition", "a weight of 2"),
    ({"fit": weight_of_none}, "_weight_is_repetition", "a weight of 0"),
    (proba(lambda p, *_: p**1.01), "_swapping_left_and_right", r"p\(b, a\)"),
    (fit(lambda *_: None, before=lambda self, X, y: np.abs(y - 0.3 * y)), "_swapping_left_and_right", "another fit"),
    (proba(first_name), "_names_do_not_matter", "ids that are"),
    (proba(lambda p, self, X: p if isinstance(X, list) else p**2), "_containers_do_not_matter", "X is an int64"),
    (proba(lambda p, self, X: p**2 if hasattr(X, "columns") else p), "_containers_do_not_matter", "X is a data frame"),
    (
        fit(lambda *_: None, before=lambda self, X, y: 1 - y if getattr(y, "dtype", 0) == np.int8 else y),
        "_label_formats",
        "y as int8",
    ),
    (fit(lambda *_: None, before=lambda self, X, y: np.where(np.equal(y, 0.5), 1.0, y)), "_label_formats", "all ties"),
    (fit(lambda *_: None, before=lambda self, X, y: np.zeros(len(X)) if y is None else y), "_no_labels", "not y=1"),
    (
        proba(lambda p, self, X: np.where([row[0] in self.item_ids_ for row in X], p, np.nan)),
        "_unknown_items",
        "an unknown id",
    ),
    (proba(lambda p, self, X: p if len(X) > 1 else p + 0.1), "_unknown_items", "are alike"),
]


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_each_check_notices_its_fault(number):
    methods, check, text = FAULTS[number]
    check_function = getattr(_comparisons, check)
    assert check_function in _comparisons._CHECKS
    case = _comparisons._draw(type("Faulty", (GPPLClassifier,), methods)(), IdColumns(), 0)
    with pytest.raises((AssertionError, ValueError), match=text):
        check_function(case)


@pytest.mark.parametrize("method", ["fit", "predict_proba"])
def test_unknown_items_of_a_table_are_refused(method):
    def lenient(self, X, *args):
        rows = [["a" if name == "never seen" else name for name in row] for row in X]
        return getattr(GPPLClassifier, method)(self, rows, *args)

    case = _comparisons._draw(type("Lenient", (GPPLClassifier,), {method: lenient})(TABLE), IdColumns(), 0)
    with pytest.raises(AssertionError, match="wanted UnknownIdError with the message 'never seen', got None"):
        _comparisons._unknown_items(case)


@pytest.mark.parametrize(
    "text",
    [
        "expected shape",
        "Expected 2D array, got 1D array",
        "0 sample",
        "missing item id in comparison 3",
        "with itself",
        "got 2 in comparison 7",
        "Unknown label type",
        "y contains NaN",
        "inconsistent numbers of samples",
        "Negative values",
        "weight.*zero",
    ],
)
def test_each_message_is_asked_for(text):
    def vague(self, X, y=None, sample_weight=None):
        try:
            return GPPLClassifier.fit(self, X, y, sample_weight)
        except ValueError as error:
            raise ValueError("wrong" if re.search(text, str(error)) else str(error)) from error

    case = _comparisons._draw(type("Vague", (GPPLClassifier,), {"fit": vague})(), IdColumns(), 0)
    with pytest.raises(AssertionError, match=r"got ValueError\('wrong'\)"):
        _comparisons._error_texts(case)


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
def test_broken_crowds_are_refused(broken, check, text):
    unknown_user = "raise" if broken is AcceptsUnseenUsers else "consensus"
    case = _comparisons._draw(broken(n_factors=0, unknown_user=unknown_user), TRIPLES, 0)
    check_function = getattr(_comparisons, check)
    assert check_function in _comparisons._CHECKS
    with pytest.raises(AssertionError, match=text):
        check_function(case)


def test_columns_of_other_things():
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
        rows = PairRows(*read_ids(pairs, ("left", "right")), None, None)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return rows


def test_the_kit_reads_estimators_of_three_columns():
    check_comparison_estimator(WithUsers(), columns=IdColumns(n_columns=3, left=1, right=2))


def test_the_kit_wants_a_classifier_and_enough_items():
    with pytest.raises(AssertionError, match="not a classifier"):
        check_comparison_estimator(GPPLRegressor())
    with pytest.raises(AssertionError, match="need 6 items"):
        check_comparison_estimator(GPPLClassifier(Table(np.eye(3))))
    with pytest.raises(AssertionError, match="need 3 users"):
        check_comparison_estimator(CrowdGPPL(None, Table(np.eye(2))), columns=TRIPLES)
