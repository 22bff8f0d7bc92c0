"""Ratings on a cluster: the bits of a fit in memory, for any partitions."""

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import GibbsM3F
from skpref.exceptions import DataError
from tests.unit.dask.lazily import lazy, left_on_cluster, tasks
from tests.unit.factorization.max_margin.test_sharded import FAST, FRAME, X, assert_same_bits, ratings

array = pytest.importorskip("dask.array")


def fitted(table=FRAME, **options):
    return GibbsM3F(**FAST | options).fit(lazy(table)[["user", "item", "y"]])


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("options", [{}, {"user_thresholds": False, "dtype": "float32"}], ids=["plain", "others"])
def test_the_bits_are_those_of_a_fit_in_memory(options):
    wanted = GibbsM3F(**FAST | options).fit(X, FRAME.y, FRAME.times)
    rows = lazy(FRAME)
    by_name = GibbsM3F(user="user", **FAST | options).fit(rows, "y", "times")
    apart = GibbsM3F(**FAST | options).fit(rows[["user", "item"]], rows["y"], rows["times"])
    for model in (by_name, apart):
        assert_same_bits(model, wanted)
    ids = rows[["user", "item"]]
    for method in ("predict", "predict_proba", "predict_score"):
        answers = getattr(apart, method)(ids)
        assert isinstance(answers, array.Array)
        assert_array_equal(answers.compute(), getattr(wanted, method)(X))
        assert_array_equal(getattr(apart, method)(X), getattr(wanted, method)(X))
    assert apart.score(ids, rows["y"], rows["times"]) == wanted.score(X, FRAME.y, FRAME.times)
    assert_allclose(apart.predict_score(X, return_std=True), wanted.predict_score(X, return_std=True))
    with pytest.raises(DataError, match="return_std and return_cov need X in memory"):
        apart.predict_score(ids, return_std=True)


@pytest.mark.usefixtures("client")
def test_arrays_and_other_partitions():
    numbers = FRAME.assign(user=FRAME.user.str[5:].astype(int))
    wanted = GibbsM3F(**FAST).fit(numbers[["user", "item"]].to_numpy(), FRAME.y.to_numpy())
    ids = array.from_array(numbers[["user", "item"]].to_numpy(), chunks=(90, 1))
    model = GibbsM3F(**FAST).fit(ids, array.from_array(FRAME.y.to_numpy(), chunks=90))
    assert not hasattr(model, "feature_names_in_")
    assert_array_equal(model.predict_proba(ids).compute(), wanted.predict_proba(ids.compute()))


def test_ratings_that_differ_are_refused_and_leave_nothing(client):
    before = client.run_on_scheduler(tasks)  # errors of other tests may refer to futures
    twice = ratings(1).assign(user=FRAME.user, item=FRAME.item)
    with pytest.raises(DataError, match="duplicate ratings that differ: user 'user"):
        fitted(joined(FRAME, twice))
    assert left_on_cluster(client, before) == set()


def joined(*tables):
    return pytest.importorskip("pandas").concat(tables, ignore_index=True)
