"""What `test_matrix` does not ask of scikit-learn's tools: texts, and groups of rows."""

import numpy as np
import pytest
import sklearn
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpref import GPPLRegressor
from skpref.kernels import Linear

pytestmark = pytest.mark.filterwarnings("ignore:The kernel has the same scale")  # relevance_ of any kernel is compared

QUICK = {"optimizer": None, "random_state": 0}


@pytest.fixture(scope="module")
def items():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((36, 3))
    return X, X[:, 0] - 0.5 * X[:, 1], np.repeat(np.arange(6), 6)


# ------------------------------------------------------------------------------------------------------------ regressor
def test_regressor_ranks_texts():
    words = ["very good", "good", "fair", "poor", "very poor"]
    texts = [f"{word} text about {thing}" for word in words for thing in ("tea", "milk", "rain")]
    grade = np.repeat(np.arange(5)[::-1], 3)
    dense = make_pipeline(TfidfVectorizer(), TruncatedSVD(4, random_state=0), GPPLRegressor(**QUICK)).fit(texts, grade)
    assert dense.score(texts, grade) > 0.8
    sparse = make_pipeline(TfidfVectorizer(), GPPLRegressor(Linear())).fit(texts, grade)
    assert sparse.score(texts, grade) > 0.7


@pytest.mark.parametrize("routing", [False, True])
def test_groups_of_rows_travel(items, routing):
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
# -------------------------------------------------------------------------------------------------------------- ordinal
# -------------------------------------------------------------------------------------------------------------- storing
