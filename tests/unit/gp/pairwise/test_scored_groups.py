"""Scores in groups in Parquet files: the fit in memory, whole groups at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF

import skpref
from skpref import GPPLRegressor
from skpref.exceptions import DataError
from skpref.gp.pairwise import scored_groups
from tests.policies import set_policy
from tests.unit.gp.sparse.test_sums import stored

pandas = pytest.importorskip("pandas")

_rng = np.random.default_rng(0)
N = 150
TABLE = pandas.DataFrame({"a": _rng.uniform(-2, 2, N), "query": np.repeat(np.arange(N // 6), 6)})
TABLE["b"] = _rng.normal(size=N)
TABLE["grade"] = np.round(2 * np.sin(TABLE.a) + TABLE.b + 0.3 * _rng.normal(size=N))
TABLE["times"] = _rng.integers(0, 3, N).astype(float)
X, COLUMNS = TABLE[["a", "b"]], {"qid": "query"}
FIXED = {"kernel": RBF([1.5, 2.0], "fixed"), "inducing": _rng.uniform(-2, 2, (12, 2)), "tol": 1e-3}


@pytest.fixture
def _small_batches(monkeypatch):
    set_policy(monkeypatch, "gp.pairwise", all_rows=40)
    set_policy(monkeypatch, "data", batch_rows=50)


def test_few_rows_give_the_bits_of_the_fit_in_memory(tmp_path):
    options = {"inducing": 8, "random_state": 0, "optimizer": None, "tol": 1e-2}
    wanted = GPPLRegressor(**options).fit(X, TABLE.grade, qid=TABLE["query"])
    model = GPPLRegressor(**options).fit(stored(tmp_path, TABLE.drop(columns="times")), "grade", **COLUMNS)
    assert_array_equal(model.predict(X), wanted.predict(X))
    assert model.feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.usefixtures("_small_batches")
@pytest.mark.parametrize(
    ("weight", "options"), [(None, {}), ("times", {"likelihood": "logit"}), (None, {"inference": "laplace"})]
)
def test_with_the_same_kernel_and_points_it_is_the_posterior_in_memory(tmp_path, weight, options):
    weights = None if weight is None else TABLE[weight]
    wanted = GPPLRegressor(**FIXED, **options).fit(X, TABLE.grade, qid=TABLE["query"], sample_weight=weights)
    table = TABLE if weight else TABLE.drop(columns="times")
    model = GPPLRegressor(**FIXED, **options).fit(stored(tmp_path, table), "grade", sample_weight=weight, **COLUMNS)
    for value, expected in zip(model.predict(X, return_std=True), wanted.predict(X, return_std=True), strict=True):
        assert_allclose(value, expected, atol=1e-8)
    assert_allclose(model.lower_bounds_, wanted.lower_bounds_, rtol=1e-9)
    assert_allclose(
        model.predict_preference(X[:50], X[50:100]), wanted.predict_preference(X[:50], X[50:100]), atol=1e-8
    )
    assert model.scale_.mean == pytest.approx(wanted.scale_.mean, rel=1e-8)


@pytest.mark.usefixtures("_small_batches")
def test_kernel_and_points_of_a_sample_serve_all_rows(tmp_path, monkeypatch):
    set_policy(monkeypatch, "gp.pairwise", hyper_pairs=100)
    path = stored(tmp_path, TABLE.drop(columns="times"))
    options = {"inducing": 8, "random_state": 0, "tol": 1e-2, "pairs_per_item": 2}
    model, again = (GPPLRegressor(**options).fit(path, "grade", **COLUMNS) for _ in range(2))
    assert_array_equal(model.predict(X), again.predict(X))
    assert model.score(X, TABLE.grade, qid=TABLE["query"]) > 0.85
    assert model.rank(X).to_frame().shape[0] == N
    skpref.save(model, tmp_path / "model.skpref")
    assert_array_equal(skpref.load(tmp_path / "model.skpref").predict(X), model.predict(X))
    assert model.set_params(warm_start=True).fit(X, TABLE.grade, qid=TABLE["query"]).converged_


@pytest.mark.usefixtures("_small_batches")
@pytest.mark.parametrize(
    "options", [{"inference": "svi"}, {"inference": "linearised"}, {"likelihood": "probit-ties"}], ids=str
)
def test_what_needs_all_rows_brings_them_here(tmp_path, options):
    path, options = stored(tmp_path, TABLE.drop(columns="times")), FIXED | {"random_state": 0, "max_iter": 20} | options
    wanted = GPPLRegressor(**options | {"tol": 0.1}).fit(X, TABLE.grade, qid=TABLE["query"])
    model = GPPLRegressor(**options | {"tol": 0.1}).fit(path, "grade", **COLUMNS)
    assert_array_equal(model.predict(X), wanted.predict(X))
    assert model.feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "y", "arguments", "message"),
    [
        ({}, "grade", {}, "qid must be the name of the column of groups .* got None, and X has the columns a, query"),
        ({}, "grade", {"qid": TABLE["query"]}, "qid must be the name of the column of groups"),
        ({}, "grade", {"qid": "queries"}, "qid must be the name of the column of groups"),
        ({}, "grade", {"qid": "grade"}, "qid='grade' is the column of the scores or the weights"),
        ({}, "grade", {"qid": "query", "sample_weight": "query"}, "qid='query' is the column of the scores or the"),
        ({}, None, {"comparisons": [[0, 1]]}, "comparisons are of rows in memory"),
    ],
)
def test_what_files_cannot_do_is_said(tmp_path, options, y, arguments, message):
    with pytest.raises(DataError, match=message):
        GPPLRegressor(**options).fit(stored(tmp_path, TABLE), y, **arguments)


@pytest.mark.usefixtures("_small_batches")
@pytest.mark.parametrize(
    ("column", "rows", "value", "message"),
    [
        ("a", [60], np.nan, r"Input X contains NaN[^$]*\(rows 48 to 95 of X\)"),
        ("grade", [60], np.inf, r"Input y contains infinity[^$]*\(rows 48 to 95 of X\)"),
        ("times", [60], -1.0, r"sample_weight[^$]*\(rows 48 to 95 of X\)"),
        ("times", range(N), 0.0, r"at least 1 comparison is required; got none"),
        ("query", [140], 0, r"rows of the group 0 of column 'query' are in 2 places: sort the rows of files by"),
    ],
)
def test_a_wrong_value_is_said_with_its_rows_and_the_last_fit_stays(tmp_path, column, rows, value, message):
    table = TABLE.copy()
    table.loc[rows, column] = value
    model = GPPLRegressor(**FIXED).fit(X, TABLE.grade, qid=TABLE["query"])
    before = model.predict(X)
    with pytest.raises(DataError, match=message):
        model.fit(stored(tmp_path, table, 1), "grade", sample_weight="times", **COLUMNS)
    assert_array_equal(model.predict(X), before)


def test_a_batch_of_equal_scores_says_nothing():
    shell = GPPLRegressor()
    shell.n_features_in_, shell.feature_names_in_ = 2, np.array(["a", "b"], dtype=object)
    for table in (TABLE[:0], TABLE[:5]):
        rows = table[["a", "b", "query"]]
        summary, shard = scored_groups._read_groups(rows, np.ones(len(rows)), None, 0, shell, "query", 0)
        assert (summary.n_pairs, summary.n_items, shard.X.shape) == (0, 0, (0, 2))
        assert scored_groups._weighed(shard, None)[0] == 0.0
