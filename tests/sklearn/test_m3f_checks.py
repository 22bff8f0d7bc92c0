"""scikit-learn's own checks of `GibbsM3F` and `GibbsIPM3F`.

Their rows are ids of a user and an item, so most checks feed what cannot be ratings. They run on a subclass that reads
rows of any width as users who all rate one item: what stands behind the reading is then checked.
"""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from skpref.data import as_ids
from skpref.factorization.ipm3f import GibbsIPM3F
from skpref.factorization.m3f import GibbsM3F
from tests.conftest import USUAL
from tests.policies import set_policy

pytestmark = pytest.mark.filterwarnings("ignore::skpref.exceptions.DataWarning")


@pytest.fixture(autouse=True)
def _calibrated(request, monkeypatch):
    if "check_classifiers_train" in request.node.name:  # which wants the most probable class
        set_policy(monkeypatch, "factorization", **USUAL["factorization"])


class RowsAsUsers:
    """A row of numbers is the id of a user; all of them rate one item, on levels of any name."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = False
        return tags

    def _read(self, X, *, reset):
        X = validate_data(self, X, reset=reset, dtype=np.float64, order="C")
        return as_ids([row.tobytes() for row in X]), as_ids([b"fixed"] * X.shape[0])

    def fit(self, X, y, sample_weight=None):
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        classes, code = np.unique(y, return_inverse=True)
        super().fit(X, code, sample_weight)
        named = self.fitted_.vocabularies._replace(levels=classes)
        self.fitted_ = replace(self.fitted_, vocabularies=named)
        return self

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        return super().partial_fit(X, y, classes, sample_weight) if hasattr(self, "classes_") else self.fit(X, y)


class M3F(RowsAsUsers, GibbsM3F):
    """With a given number of factors."""


class IPM3F(RowsAsUsers, GibbsIPM3F):
    """With features of an Indian buffet."""


# Equal rows are one user here: `duplicates` says what becomes of their ratings.
MORE = {"C": 1.0, "duplicates": "mean", "random_state": 0}


def run(estimator, check):
    if check.func.__name__ == "check_classifiers_train" and estimator.prediction == "median":
        pytest.skip("the check wants the most probable class: the median of levels need not be that one")
    check(estimator)


@parametrize_with_checks([M3F(n_factors=3, max_iter=30, burn_in=10, **MORE)])
def test_what_stands_behind_the_ids_passes_every_check(estimator, check):
    run(estimator, check)


@pytest.mark.slow  # the family's checks run in the default run on another variant
@parametrize_with_checks([IPM3F(prediction="scores", max_iter=30, burn_in=10, **MORE)])
def test_features_of_an_indian_buffet_pass_every_check(estimator, check):
    run(estimator, check)
