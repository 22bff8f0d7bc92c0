"""What `test_matrix` does not ask of CrowdGPPL in scikit-learn's tools: tables, users left out, soft labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skpref import CrowdGPPL, Table
from skpref.datasets import make_crowd
from skpref.kernels import Linear

DATA = make_crowd(6, 8, 300, n_factors=0, scale=0.1, random_state=0)
X, Y = DATA.comparisons, DATA.y


def quick(items: Any = None, users: Any = None, **options: Any) -> CrowdGPPL:
    return CrowdGPPL(items, users, **{"n_factors": 1, "optimizer": None, "random_state": 0, **options})


def test_cross_validation() -> None:
    for items, users in ((None, None), (DATA.table, DATA.user_table)):
        model = quick(items, users)
        scores = cross_val_score(model, X, Y, cv=3, error_score="raise")
        assert scores.mean() > 0.75
        proba = cross_val_predict(model, X, Y, cv=StratifiedKFold(3), method="predict_proba")
        assert np.mean((proba[:, 1] > 0.5) == Y) == pytest.approx(scores.mean(), abs=0.02)


def test_users_left_out() -> None:
    # A user without comparisons in a fold is unseen there, with or without features.
    for users in (None, DATA.user_table):
        splits = {"cv": GroupKFold(3), "groups": X[:, 0], "error_score": "raise"}
        assert cross_val_score(quick(None, users), X, Y, **splits).mean() > 0.7
    with pytest.raises(ValueError, match="unknown user"):
        cross_val_score(quick(unknown_user="raise"), X, Y, **splits)


@pytest.mark.filterwarnings("ignore:The comparisons form")
def test_tables_are_never_sliced() -> None:
    # As many items, users and comparisons: what is a parameter is not cut with X.
    rng = np.random.default_rng(0)
    n = 40
    rows = np.column_stack([rng.permutation(n), rng.permutation(n), np.zeros(n, dtype=int)])
    rows[:, 2] = (rows[:, 1] + 1) % n
    model = quick(Table(rng.normal(size=(n, 2))), Table(rng.normal(size=(n, 2))))
    proba = cross_val_predict(model, rows, np.arange(n) % 2, cv=KFold(4), method="predict_proba")
    assert np.all(np.isfinite(proba))


def test_soft_labels_and_ties_are_scored() -> None:
    y = np.where(np.arange(len(Y)) % 5, 0.1 + 0.8 * Y, 0.5)
    scores = cross_val_score(quick(), X, y, cv=KFold(3), error_score="raise")
    assert scores.mean() > 0.7


def test_grid_search() -> None:
    tables = [{"items": [None], "users": [DATA.user_table]}, {"items": [DATA.table], "users": [None]}]
    search = GridSearchCV(quick(), tables, cv=2, error_score="raise").fit(X, Y)
    assert {id(params["items"]) for params in search.cv_results_["params"]} == {id(None), id(DATA.table)}
    kernels = {"kernel": [RBF(1.0), Linear()], "factor_prior__user_kernel": [RBF(3.0)]}
    search = GridSearchCV(quick(DATA.table, DATA.user_table), kernels, cv=2, error_score="raise").fit(X, Y)
    assert not hasattr(search.best_params_["kernel"], "posterior_")


def test_pipelines() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["judge", "left", "right"]).assign(when=0.0)
    columns = FunctionTransformer(lambda f: f[["judge", "left", "right"]])
    pipe = Pipeline([("columns", columns), ("crowd", quick())])
    weights = np.arange(len(Y)) % 3
    weighted = pipe.fit(frame, Y, crowd__sample_weight=weights)
    np.testing.assert_array_equal(weighted.predict_proba(frame), quick().fit(X, Y, weights).predict_proba(X))
    # Ids that are cleaned on the way: names of users in any letters.
    tidy = FunctionTransformer(lambda rows: np.array([[str(cell).lower() for cell in row] for row in rows]))
    rows = [(f"Ann{u}" if i % 2 else f"ann{u}", a, b) for i, (u, a, b) in enumerate(X)]
    model = make_pipeline(tidy, quick()).fit(rows, Y)
    assert model[-1].user_ids_.size == 6
