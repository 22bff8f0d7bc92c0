"""Rows in Parquet files: the fit in memory, a batch at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import skpref
from skpref import SVGPRegressor
from skpref.exceptions import DataError
from skpref.likelihoods import PairwiseLogit
from tests.policies import set_policy

pandas = pytest.importorskip("pandas")

_rng = np.random.default_rng(0)
N = 600
TABLE = pandas.DataFrame({"a": _rng.uniform(-2, 2, N), "price": 0.0, "b": _rng.normal(size=N), "times": 1.0})
TABLE["price"] = 50.0 + 7.0 * np.sin(2 * TABLE.a) + TABLE.b + 0.5 * _rng.normal(size=N)
TABLE["times"] = _rng.integers(0, 3, N).astype(float)
X = TABLE[["a", "b"]]
FIXED = {
    "kernel": ConstantKernel(1.5, "fixed") * RBF([0.8, 2.0], "fixed"),
    "inducing": _rng.uniform(-2, 2, (15, 2)),
    "learn_inducing": False,
    "noise": 0.5,
}


def stored(folder, table=TABLE, n_files=3):
    for k, part in enumerate(np.array_split(np.arange(len(table)), n_files)):
        table.iloc[part].to_parquet(folder / f"{k}.parquet")
    return str(folder)


@pytest.fixture
def _small_batches(monkeypatch):
    set_policy(monkeypatch, "gp.sparse", sample_rows=150)
    set_policy(monkeypatch, "data", batch_rows=70)


def test_few_rows_give_the_bits_of_the_fit_in_memory(tmp_path):
    options = {"inducing": 12, "random_state": 0}
    wanted = SVGPRegressor(**options).fit(X, TABLE.price, TABLE.times)
    model = SVGPRegressor(**options).fit(stored(tmp_path), "price", "times")
    assert_array_equal(model.predict(X), wanted.predict(X))
    assert model.feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.usefixtures("_small_batches")
@pytest.mark.parametrize("weighted", [False, True])
def test_with_the_same_kernel_and_points_it_is_the_posterior_in_memory(tmp_path, weighted):
    weights = (TABLE.times, "times") if weighted else (None, None)
    wanted = SVGPRegressor(**FIXED).fit(X, TABLE.price, weights[0])
    table = TABLE if weighted else TABLE.drop(columns="times")
    model = SVGPRegressor(**FIXED).fit(stored(tmp_path, table), "price", weights[1])
    for value, expected in zip(model.predict(X, return_std=True), wanted.predict(X, return_std=True), strict=True):
        assert_allclose(value, expected, rtol=1e-8)
    assert_allclose(model.lower_bound_, wanted.lower_bound_, rtol=1e-9)
    assert model.n_samples_seen_ == wanted.n_samples_seen_


@pytest.mark.usefixtures("_small_batches")
def test_hyperparameters_of_a_sample_serve_all_rows_and_streams_go_on(tmp_path):
    path = stored(tmp_path, TABLE.drop(columns="times"))
    model = SVGPRegressor(inducing=30, random_state=0).fit(path, "price")
    again = SVGPRegressor(inducing=30, random_state=0).fit(path, "price")
    assert_array_equal(model.predict(X), again.predict(X))
    assert model.score(X, TABLE.price) > 0.95
    assert model.noise_ == pytest.approx(0.5, rel=0.15)
    assert 1 < model.n_iter_ <= model.max_iter
    skpref.save(model, tmp_path / "model.skpref")
    assert_array_equal(skpref.load(tmp_path / "model.skpref").predict(X), model.predict(X))
    model.partial_fit(X[:50], TABLE.price[:50])
    assert model.n_samples_seen_ == N + 50


@pytest.mark.usefixtures("_small_batches")
@pytest.mark.parametrize("likelihood", ["student-t", "poisson", PairwiseLogit()])
def test_other_likelihoods_take_full_passes(tmp_path, likelihood):
    options = {"inducing": FIXED["inducing"], "kernel": FIXED["kernel"], "likelihood": likelihood}
    table = TABLE.assign(price=TABLE.price.round() if likelihood == "poisson" else TABLE.price)
    table = table if isinstance(likelihood, str) else TABLE.assign(price=(TABLE.price > 50.0).astype(float))
    wanted = SVGPRegressor(**options, optimizer=None).fit(X, table.price, table.times)
    path = stored(tmp_path, table)
    model = SVGPRegressor(**options, optimizer=None).fit(path, "price", "times")
    assert model.inference_ == wanted.inference_ == "vb"
    for value, expected in zip(model.predict_latent(X, True), wanted.predict_latent(X, True), strict=True):
        assert_allclose(value, expected, atol=1e-8)
    assert_allclose(model.lower_bounds_, wanted.lower_bounds_, rtol=1e-9)
    assert_allclose(model.predict(X), wanted.predict(X), rtol=1e-8)
    assert (model.n_samples_seen_, model.noise_) == (wanted.n_samples_seen_, wanted.noise_)
    with pytest.raises(DataError, match="partial_fit needs the rows of the fit, and a fit to files"):
        model.partial_fit(X, table.price)


@pytest.mark.usefixtures("_small_batches")
def test_other_likelihoods_learn_their_parameters_from_a_sample(tmp_path):
    model = SVGPRegressor(inducing=15, likelihood="student-t", tol=1e-2, random_state=0)
    model.fit(stored(tmp_path, TABLE.drop(columns="times")), "price")
    assert model.noise_ == pytest.approx(0.45, rel=0.25)
    assert model.score(X, TABLE.price) > 0.95
    skpref.save(model, tmp_path / "model.skpref")
    assert_array_equal(skpref.load(tmp_path / "model.skpref").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("options", "y", "weight", "message"),
    [
        ({"inference": "vb"}, "price", None, "inference='vb' with likelihood='gaussian' needs all rows in memory"),
        ({"likelihood": "poisson", "inference": "svi"}, "times", None, "inference='svi' with likelihood='poisson'"),
        ({"optimizer": "adam"}, "price", None, "optimizer='adam' needs all rows in memory"),
        ({"window": 5}, "price", None, "window=5 needs all rows in memory"),
        ({}, "prices", None, "no column 'prices' in X, which has the columns a, price, b, times; name it by y="),
        ({}, "price", "time", "there is no column 'time' in X.*name it by sample_weight="),
        ({}, TABLE.price, None, "y must be the name of a column of X, which is not in memory; got Series"),
        ({}, None, None, "there is no column 'y' in X"),
    ],
)
def test_what_files_cannot_do_is_said(tmp_path, options, y, weight, message):
    with pytest.raises(DataError, match=message):
        SVGPRegressor(**options).fit(stored(tmp_path), y, weight)


def test_files_without_rows_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"Found array with 0 sample\(s\) while a minimum of 1 is required for X"):
        SVGPRegressor().fit(stored(tmp_path, TABLE[:0], 1), "price")


@pytest.mark.usefixtures("_small_batches")
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("a", np.nan, r"Input X contains NaN[^$]*\(rows 70 to 139 of X\)"),
        ("price", np.inf, r"Input y contains infinity[^$]*\(rows 70 to 139 of X\)"),
        ("price", 1e200, r"y must be at most 1e\+150 in size; got 1e\+200"),
        ("times", -1.0, r"sample_weight.*\(rows 70 to 139 of X\)"),
    ],
)
def test_a_wrong_value_is_said_with_its_rows_and_the_last_fit_stays(tmp_path, column, value, message):
    table = TABLE.copy()
    table.loc[100, column] = value
    model = SVGPRegressor(**FIXED).fit(X, TABLE.price)
    before = model.predict(X)
    with pytest.raises(DataError, match=message):
        model.fit(stored(tmp_path, table, 1), "price", "times")
    assert_array_equal(model.predict(X), before)
