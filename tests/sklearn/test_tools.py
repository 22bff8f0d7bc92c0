"""What `test_matrix` does not ask of scikit-learn's tools: tables of items, texts, groups, soft labels, skops."""

from __future__ import annotations

import pickle
from typing import Any

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpref import LBFGS, GPOrdinalRegressor, GPPLClassifier, GPPLRegressor, Table
from skpref.kernels import Linear, ProductMatern

pytestmark = pytest.mark.filterwarnings("ignore:The kernel has the same scale")  # relevance_ of any kernel is compared

QUICK = {"optimizer": None, "random_state": 0}


@pytest.fixture(scope="module")
def items() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((36, 3))
    return X, X[:, 0] - 0.5 * X[:, 1], np.repeat(np.arange(6), 6)


@pytest.fixture(scope="module")
def duels() -> tuple[Table, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    features = rng.standard_normal((12, 2))
    left = rng.integers(0, 12, 150)
    right = (left + rng.integers(1, 12, 150)) % 12
    y = (2.0 * (features[left, 0] - features[right, 0]) + rng.standard_normal(150) > 0).astype(int)
    names = np.array([f"n{i}" for i in range(12)], dtype=object)
    return Table(features, ids=names), np.column_stack([names[left], names[right]]), y


# ------------------------------------------------------------------------------------------------------------ regressor
def test_regressor_in_pipelines(items: Any) -> None:
    X, y, _ = items
    model = make_pipeline(StandardScaler(), PCA(2), GPPLRegressor(**QUICK)).fit(X, y)
    assert model.score(X, y) > 0.6
    mean, std = model.predict(X, return_std=True)
    assert np.all(std > 0.0)
    assert mean.shape == std.shape


def test_regressor_ranks_texts() -> None:
    words = ["very good", "good", "fair", "poor", "very poor"]
    texts = [f"{word} text about {thing}" for word in words for thing in ("tea", "milk", "rain")]
    grade = np.repeat(np.arange(5)[::-1], 3)
    dense = make_pipeline(TfidfVectorizer(), TruncatedSVD(4, random_state=0), GPPLRegressor(**QUICK)).fit(texts, grade)
    assert dense.score(texts, grade) > 0.8
    sparse = make_pipeline(TfidfVectorizer(), GPPLRegressor(Linear())).fit(texts, grade)
    assert sparse.score(texts, grade) > 0.7


@pytest.mark.parametrize("routing", [False, True])
def test_groups_of_rows_travel(items: Any, routing: bool) -> None:
    X, y, qid = items
    y = y + 100.0 * np.random.default_rng(0).standard_normal(6)[qid]  # comparable within a group only
    with sklearn.config_context(enable_metadata_routing=routing):
        search = GridSearchCV(GPPLRegressor(**QUICK), {"inducing": [10, 300]}, cv=GroupKFold(3), error_score="raise")
        given = {"qid": qid, "groups": qid}
        search.fit(X, y, **given)
        assert search.best_score_ > (0.8 if routing else 0.4)  # without routing `score` does not see the groups
        direct = GPPLRegressor(**QUICK).fit(X, y, qid=qid)
        assert direct.score(X, y, qid=qid) > 0.9
        if routing:
            pipe = make_pipeline(StandardScaler(), GPPLRegressor(**QUICK)).fit(X, y, qid=qid)
            assert pipe.score(X, y, qid=qid) > 0.9


# ----------------------------------------------------------------------------------------------------------- classifier
def test_classifier_with_a_table_under_scorers(duels: Any) -> None:
    table, X, y = duels
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(
        GPPLClassifier(table, **QUICK), X, y, cv=cv, scoring="neg_brier_score", error_score="raise"
    )
    assert scores.mean() > -0.24


def test_soft_labels_under_cross_validation(duels: Any) -> None:
    table, X, y = duels
    soft = np.where(np.arange(y.size) % 3 == 0, 0.5, np.abs(y - 0.1))
    assert cross_val_score(GPPLClassifier(table, **QUICK), X, soft, cv=3, error_score="raise").mean() > 0.65


def test_classifier_grid_search(duels: Any) -> None:
    table, X, y = duels
    grid = {"kernel": [ProductMatern(1.0), Linear()], "inducing": [5, 300], "item_effects": [True, False]}
    search = GridSearchCV(GPPLClassifier(table), grid, cv=3, scoring="neg_log_loss", error_score="raise").fit(X, y)
    assert search.best_estimator_.items is table
    assert search.best_score_ > -0.65


def test_grid_search_in_two_threads_agrees(duels: Any) -> None:
    table, X, y = duels
    search = GridSearchCV(GPPLClassifier(table, **QUICK), {"item_effects": [True, False]}, cv=2, error_score="raise")
    alone = search.fit(X, y).cv_results_["mean_test_score"]
    with joblib.parallel_config("threading", n_jobs=2):
        together = clone(search).fit(X, y).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(alone, together)


def test_clone_keeps_the_table_and_costs_nothing() -> None:
    table = Table(np.random.default_rng(0).standard_normal((200_000, 20)))
    model = GPPLClassifier(table)
    copies = [clone(model) for _ in range(20)]
    assert all(copy.items is table for copy in copies)
    assert len(repr(model)) < 200


# -------------------------------------------------------------------------------------------------------------- ordinal
@pytest.fixture(scope="module")
def graded() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((45, 3))
    level = np.digitize(X[:, 0] - 0.5 * X[:, 1] + 0.2 * rng.standard_normal(45), [-0.5, 0.5])
    return X, np.array(["poor", "fair", "good"])[level]


ORDINAL = {"class_order": ["poor", "fair", "good"], "optimizer": LBFGS(0), "random_state": 0}


def test_ordinal_in_pipelines(graded: Any) -> None:
    X, y = graded
    model = make_pipeline(StandardScaler(), PCA(3), GPOrdinalRegressor(**ORDINAL)).fit(100.0 * X, y)
    assert model.score(100.0 * X, y) > -0.3
    assert (
        model.predict(100.0 * X, loss="absolute").tolist()
        == model[-1].predict(model[:-1].transform(100.0 * X), loss="absolute").tolist()
    )
    words = make_pipeline(TfidfVectorizer(), GPOrdinalRegressor(Linear(), **ORDINAL))
    texts = [f"{grade} tea" for grade in y]
    assert words.fit(texts, y).predict(texts).tolist() == y.tolist()


@pytest.mark.parametrize("scoring", [None, "accuracy", "neg_log_loss", "roc_auc_ovr", "balanced_accuracy"])
def test_ordinal_under_scorers(graded: Any, scoring: str | None) -> None:
    X, y = graded
    # scikit-learn's log loss wants probabilities in alphabetical order.
    order = np.unique(y) if scoring in {"neg_log_loss", "roc_auc_ovr"} else ORDINAL["class_order"]
    model = GPOrdinalRegressor(**{**ORDINAL, "optimizer": None, "class_order": order})
    scores = cross_val_score(model, X, y, cv=StratifiedKFold(3), scoring=scoring, error_score="raise")
    floor = {None: -1.0, "neg_log_loss": -1.2, "accuracy": 0.5, "balanced_accuracy": 0.5, "roc_auc_ovr": 0.6}[scoring]
    assert scores.mean() > floor


# -------------------------------------------------------------------------------------------------------------- storing
def fitted(items: Any, duels: Any) -> dict[str, tuple[Any, Any]]:
    table, X, y = duels
    grades = np.digitize(items[1], [-0.5, 0.5])
    return {
        "ordinal": (GPOrdinalRegressor(optimizer=None).fit(items[0], grades), items[0]),
        "sparse ordinal": (GPOrdinalRegressor(optimizer=None, inference="vb").fit(items[0], grades), items[0]),
        "regressor": (GPPLRegressor(**QUICK).fit(*items[:2]), items[0]),
        "regressor with sklearn's kernel": (GPPLRegressor(RBF(1.0), inducing=9).fit(*items[:2]), items[0]),
        "classifier": (GPPLClassifier(table, **QUICK, order_effect=True).fit(X, y), X),
        "classifier of ids": (GPPLClassifier(likelihood="logit").fit(X, y), X),
    }


def answers(model: Any, X: Any) -> list[np.ndarray]:
    if isinstance(model, GPOrdinalRegressor):
        return [model.predict_proba(X), *model.predict_latent(X, return_std=True), model.relevance_]
    if isinstance(model, GPPLRegressor):
        return [*model.predict(X, return_std=True), model.sample_y(X, 2, random_state=0)]
    return [model.predict_proba(X), *model.utility(return_std=True), model.rank(n_samples=50).utility]


@pytest.mark.parametrize(
    "name",
    ["regressor", "regressor with sklearn's kernel", "classifier", "classifier of ids", "ordinal", "sparse ordinal"],
)
def test_stored_models_answer_the_same(items: Any, duels: Any, name: str) -> None:
    skops = pytest.importorskip("skops.io")
    model, X = fitted(items, duels)[name]
    data = skops.dumps(model)
    trusted = skops.get_untrusted_types(data=data)
    assert all(kind.startswith(("skpref.", "sklearn.")) for kind in trusted), trusted
    for again in (pickle.loads(pickle.dumps(model)), skops.loads(data, trusted=trusted)):
        for got, wanted in zip(answers(again, X), answers(model, X), strict=True):
            np.testing.assert_array_equal(got, wanted)
