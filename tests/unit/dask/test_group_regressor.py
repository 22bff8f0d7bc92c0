"""Scores in groups on a cluster: the posterior in memory."""

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import GPPLRegressor
from skpref.exceptions import DataError
from tests.policies import set_policy
from tests.unit.gp.pairwise import test_scored_groups as in_files
from tests.unit.gp.pairwise.test_scored_groups import TABLE, X

frames = pytest.importorskip("dask.dataframe")
FIXED = in_files.FIXED | {"tol": 0.1}  # few passes: rounds cost 30 ms each


@pytest.fixture
def _sampled(monkeypatch):
    set_policy(monkeypatch, "gp.pairwise", all_rows=40, most_rounds=2)


def lazy():
    """Return the table in four partitions of whole groups, the second of which is empty."""
    parts = [frames.from_pandas(part, npartitions=1) for part in (TABLE[:48], TABLE[:0], TABLE[48:90], TABLE[90:])]
    return frames.concat(parts, interleave_partitions=False)


@pytest.mark.usefixtures("_sampled")
def test_it_is_the_posterior_in_memory(client):
    wanted = GPPLRegressor(**FIXED).fit(X, TABLE.grade, qid=TABLE["query"], sample_weight=TABLE.times)
    rows = client.persist(lazy())
    model = GPPLRegressor(**FIXED).fit(rows, "grade", qid="query", sample_weight="times")
    rows = lazy()
    apart = GPPLRegressor(**FIXED)
    apart.fit(rows[["a", "query", "b"]], rows["grade"], qid="query", sample_weight=rows["times"])
    assert_allclose(model.predict(X, return_std=True), wanted.predict(X, return_std=True), atol=1e-8)
    assert_array_equal(apart.predict(X), model.predict(X))
    features = rows[["a", "b"]]
    assert_allclose(model.predict(features).compute(), model.predict(X), rtol=1e-10)
    assert model.score(features, rows["grade"], qid=rows["query"]) == wanted.score(X, TABLE.grade, TABLE["query"])
    with pytest.raises(DataError, match="return_std and return_cov need X in memory"):
        model.predict(features, return_std=True)


@pytest.mark.usefixtures("client", "_sampled")
@pytest.mark.parametrize("options", [{"inference": "svi", "tol": 0.1}, {"likelihood": "plackett-luce"}])
def test_what_needs_all_rows_brings_them_here(options):
    options = {"random_state": 0} | FIXED | options
    wanted = GPPLRegressor(**options).fit(X, TABLE.grade, qid=TABLE["query"])
    model = GPPLRegressor(**options).fit(lazy()[["a", "b", "query", "grade"]], "grade", qid="query")
    assert_allclose(model.predict(X), wanted.predict(X), atol=1e-10)


@pytest.mark.usefixtures("client", "_sampled")
def test_what_a_cluster_cannot_do_is_said():
    rows = lazy()
    cut = frames.from_pandas(TABLE, npartitions=4)
    for fit, message in (
        (lambda: GPPLRegressor().fit(rows, "grade"), "qid must be the name of the column of groups"),
        (lambda: GPPLRegressor().fit(rows, "grade", qid=rows["query"]), "qid must be the name of the column"),
        (lambda: GPPLRegressor().fit(rows.to_dask_array(), "grade", qid="query"), "qid must be the name of the"),
        (lambda: GPPLRegressor().fit(rows, comparisons=[[0, 1]]), "comparisons are of rows in memory"),
        (
            lambda: GPPLRegressor(**FIXED).fit(cut, "grade", qid="query", sample_weight="times"),
            r"rows of the group 6 of column 'query' are in 2 places.*X.shuffle\('query'\)",
        ),
    ):
        with pytest.raises(DataError, match=message):
            fit()
