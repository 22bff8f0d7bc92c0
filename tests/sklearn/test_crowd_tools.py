"""CrowdGPPL in scikit-learn's tools: searches, splits, scorers, pipelines, calibration, routing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
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
        assert is_classifier(model)
        scorers = ("accuracy", "roc_auc", "neg_log_loss")
        by_scorer = cross_validate(model, X, Y, cv=3, scoring=scorers, error_score="raise")
        assert all(np.all(np.isfinite(by_scorer[f"test_{name}"])) for name in scorers)
        scores = by_scorer["test_accuracy"]
        assert scores.mean() > 0.75
        proba = cross_val_predict(model, X, Y, cv=StratifiedKFold(3), method="predict_proba")
        assert proba.shape == (len(Y), 2)
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
    grid = {"n_factors": [0, 1], "order_effect": [False, True]}
    search = GridSearchCV(quick(), grid, cv=2, error_score="raise").fit(X, Y)
    assert search.best_score_ > 0.75
    assert search.best_estimator_.utility().shape == (8,)
    tables = [{"items": [None], "users": [DATA.user_table]}, {"items": [DATA.table], "users": [None]}]
    search = GridSearchCV(quick(), tables, cv=2, error_score="raise").fit(X, Y)
    assert {id(params["items"]) for params in search.cv_results_["params"]} == {id(None), id(DATA.table)}
    kernels = {"kernel": [RBF(1.0), Linear()], "factor_prior__user_kernel": [RBF(3.0)]}
    search = GridSearchCV(quick(DATA.table, DATA.user_table), kernels, cv=2, error_score="raise").fit(X, Y)
    assert not hasattr(search.best_params_["kernel"], "posterior_")


@pytest.mark.parametrize("incremental", [False, True])
def test_learning_curve(*, incremental: bool) -> None:
    options = {"train_sizes": [0.2, 1.0], "error_score": "raise", "exploit_incremental_learning": incremental}
    _, _, scores = learning_curve(quick(), X, Y, cv=3, **options)
    assert scores[1].mean() > 0.7


def test_pipelines() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["judge", "left", "right"]).assign(when=0.0)
    columns = FunctionTransformer(lambda f: f[["judge", "left", "right"]])
    pipe = Pipeline([("columns", columns), ("crowd", quick())])
    wanted = quick().fit(X, Y).predict_proba(X)
    for named in (pipe, pipe.set_output(transform="pandas"), pipe.set_output(transform="default")):
        named.fit(frame, Y)
        np.testing.assert_array_equal(named.predict_proba(frame), wanted)
        assert named[-1].feature_names_in_.tolist() == ["judge", "left", "right"]
        assert named.score(frame, Y) == pytest.approx(np.mean((wanted[:, 1] > 0.5) == Y))
    weights = np.arange(len(Y)) % 3
    weighted = pipe.fit(frame, Y, crowd__sample_weight=weights)
    np.testing.assert_array_equal(weighted.predict_proba(frame), quick().fit(X, Y, weights).predict_proba(X))
    search = GridSearchCV(pipe, {"crowd__n_factors": [0, 1]}, cv=2, error_score="raise").fit(frame, Y)
    assert search.best_score_ > 0.7
    # Ids that are cleaned on the way: names of users in any letters.
    tidy = FunctionTransformer(lambda rows: np.array([[str(cell).lower() for cell in row] for row in rows]))
    rows = [(f"Ann{u}" if i % 2 else f"ann{u}", a, b) for i, (u, a, b) in enumerate(X)]
    model = make_pipeline(tidy, quick()).fit(rows, Y)
    assert model[-1].user_ids_.size == 6


def test_calibration() -> None:
    model = CalibratedClassifierCV(quick(), cv=3).fit(X, Y)
    proba = model.predict_proba(X)
    assert proba.shape == (len(Y), 2)
    assert np.mean((proba[:, 1] > 0.5) == Y) > 0.75


def test_routing_of_weights() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = quick().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        weight = np.where(np.arange(len(Y)) % 2, 1.0, 0.0)
        scores = cross_val_score(model, X, Y, cv=KFold(3), params={"sample_weight": weight}, error_score="raise")
        half = [cross_val_score(quick(), X[1::2], Y[1::2], cv=KFold(3)).mean()]
        np.testing.assert_allclose(scores.mean(), half[0], atol=0.02)
        asked = model.set_partial_fit_request(sample_weight=True).get_metadata_routing()
        assert asked.partial_fit.requests["sample_weight"] is True
