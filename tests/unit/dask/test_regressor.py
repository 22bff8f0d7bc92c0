"""Regression on a cluster: the posterior in memory."""

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import SVGPRegressor
from skpref.exceptions import DataError
from tests.policies import set_policy
from tests.unit.dask.lazily import lazy
from tests.unit.gp.sparse.test_sums import FIXED, TABLE, X

array = pytest.importorskip("dask.array")


@pytest.fixture
def _sampled(monkeypatch):
    set_policy(monkeypatch, "gp.sparse", sample_rows=150)


@pytest.mark.usefixtures("client", "_sampled")
def test_with_the_same_kernel_and_points_it_is_the_posterior_in_memory():
    wanted = SVGPRegressor(**FIXED).fit(X, TABLE.price, TABLE.times)
    rows = lazy(TABLE)
    by_name = SVGPRegressor(**FIXED).fit(rows, "price", "times")
    apart = SVGPRegressor(**FIXED).fit(rows[["a", "b"]], rows["price"], rows["times"])
    for model in (by_name, apart):
        assert_allclose(model.predict(X, return_std=True), wanted.predict(X, return_std=True), rtol=1e-8)
        assert model.feature_names_in_.tolist() == ["a", "b"]
        assert model.n_samples_seen_ == wanted.n_samples_seen_
    assert_array_equal(by_name.predict(X), apart.predict(X))
    assert_array_equal(by_name.predict(rows[["a", "b"]]).compute(), by_name.predict(X))
    assert by_name.score(rows[["a", "b"]], rows["price"]) == pytest.approx(by_name.score(X, TABLE.price))


@pytest.mark.usefixtures("client")
def test_few_rows_are_fitted_in_the_client_to_the_same_bits():
    options = {"inducing": 12, "random_state": 0}
    wanted = SVGPRegressor(**options).fit(X.to_numpy(), TABLE.price.to_numpy())
    blocks = array.from_array(X.to_numpy(), chunks=(150, 1)), array.from_array(TABLE.price.to_numpy(), chunks=150)
    model = SVGPRegressor(**options).fit(*blocks)
    assert_array_equal(model.predict(X.to_numpy()), wanted.predict(X.to_numpy()))


@pytest.mark.usefixtures("client")
def test_what_a_cluster_cannot_do_is_said():
    rows = lazy(TABLE)
    for fit, message in (
        (lambda: SVGPRegressor().fit(rows, None), "there is no column 'y' in X"),
        (lambda: SVGPRegressor(optimizer="adam").fit(rows, "price"), "optimizer='adam' needs all rows"),
        (lambda: SVGPRegressor().fit(rows[["a"]].to_dask_array(), "a"), "must be collections of Dask where X is"),
        (lambda: SVGPRegressor().fit(array.ones((9, 2)), array.ones(9), "b"), "must be collections of Dask where X is"),
        (lambda: SVGPRegressor().fit(array.ones((0, 2)), array.ones(0)), r"Found array with 0 sample\(s\)"),
        (lambda: SVGPRegressor().fit(X, TABLE.price).predict(rows, True), "return_cov need X in memory"),
    ):
        with pytest.raises(DataError, match=message):
            fit()
