"""What `test_matrix` does not ask of CrowdGPPL in scikit-learn's tools: tables, users left out, soft labels."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, cross_val_predict, cross_val_score

from skpref import CrowdGPPL, Table
from skpref.datasets import make_crowd

DATA = make_crowd(6, 8, 300, n_factors=0, scale=0.1, random_state=0)
X, Y = DATA.comparisons, DATA.y


def quick(items=None, users=None, **options):
    return CrowdGPPL(items, users, **{"n_factors": 1, "optimizer": None, "random_state": 0, **options})


def test_users_left_out():
    # A user without comparisons in a fold is unseen there, with or without features.
    for users in (None, DATA.user_table):
        splits = {"cv": GroupKFold(3), "groups": X[:, 0], "error_score": "raise"}
        assert cross_val_score(quick(None, users), X, Y, **splits).mean() > 0.7
    with pytest.raises(ValueError, match="unknown user"):
        cross_val_score(quick(unknown_user="raise"), X, Y, **splits)


@pytest.mark.filterwarnings("ignore:The comparisons form")
def test_tables_are_never_sliced():
    # As many items, users and comparisons: what is a parameter is not cut with X.
    rng = np.random.default_rng(0)
    n = 40
    rows = np.column_stack([rng.permutation(n), rng.permutation(n), np.zeros(n, dtype=int)])
    rows[:, 2] = (rows[:, 1] + 1) % n
    model = quick(Table(rng.normal(size=(n, 2))), Table(rng.normal(size=(n, 2))))
    proba = cross_val_predict(model, rows, np.arange(n) % 2, cv=KFold(4), method="predict_proba")
    assert np.all(np.isfinite(proba))


def test_soft_labels_and_ties_are_scored():
    y = np.where(np.arange(len(Y)) % 5, 0.1 + 0.8 * Y, 0.5)
    scores = cross_val_score(quick(), X, y, cv=KFold(3), error_score="raise")
    assert scores.mean() > 0.7
