"""Counts over times, areas or populations of different sizes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import cross_validate

from skpref import SVGPRegressor
from skpref.exceptions import DataError

_rng = np.random.default_rng(0)
X = _rng.uniform(-3.0, 3.0, (60, 1))
EXPOSURE = np.exp(_rng.normal(size=60))
RATE = np.exp(0.5 + np.sin(X[:, 0]))
Y = _rng.poisson(RATE * EXPOSURE)
NEW = np.linspace(-2.5, 2.5, 5)[:, None]


def model(**options: Any) -> SVGPRegressor:
    kernel = ConstantKernel(0.7, "fixed") * RBF(1.3, "fixed")
    return SVGPRegressor(kernel, likelihood="poisson", n_inducing=15, **{"random_state": 0, "tol": 1e-3} | options)


def test_rates_do_not_depend_on_the_unit_of_exposure() -> None:
    first, second = (model().fit(X, Y, exposure=unit * EXPOSURE) for unit in (1.0, 1e4))
    assert_allclose(second.predict(NEW), 1e-4 * first.predict(NEW), rtol=1e-6)
    mean, deviation = first.predict(NEW, return_std=True, exposure=np.full(5, 3.0))
    assert_allclose(mean, 3.0 * first.predict(NEW))
    again, same = second.predict(NEW, return_std=True, exposure=3e4)
    assert_allclose(again, mean, rtol=1e-6)
    assert_allclose(same, deviation, rtol=1e-6)
    assert np.all(deviation**2 > mean)  # Poisson, and more for what is not certain of f


def test_an_exposure_of_two_is_two_rows_of_one() -> None:
    parts = np.stack([_rng.poisson(RATE), _rng.poisson(RATE)])
    whole = model().fit(X, parts.sum(axis=0), exposure=np.full(60, 2.0))
    rows = model().fit(np.vstack([X, X]), parts.ravel())
    assert_allclose(whole.predict(NEW), rows.predict(NEW), rtol=1e-3)
    ones = model().fit(X, parts[0], exposure=np.ones(60))
    assert_allclose(ones.predict(NEW), model().fit(X, parts[0]).predict(NEW), rtol=1e-9)


def test_exposures_far_beyond_those_of_training_scale_the_counts() -> None:
    fitted = SVGPRegressor(likelihood="poisson", n_inducing=20, tol=1e-3, random_state=0).fit(X, Y, exposure=EXPOSURE)
    wanted = 100.0 * np.exp(0.5 + np.sin(NEW[:, 0]))
    ratio = fitted.predict(NEW, exposure=np.full(5, 100.0)) / wanted
    assert np.all((ratio > 0.6) & (ratio < 1.6))  # with log exposure as a feature a third or less
    assert fitted.score(X, Y, exposure=EXPOSURE) > fitted.score(X, Y)


def test_streams_and_files_keep_the_unit() -> None:
    stream = (
        model().partial_fit(X[:30], Y[:30], exposure=EXPOSURE[:30]).partial_fit(X[30:], Y[30:], None, EXPOSURE[30:])
    )
    assert stream.exposure_scale_ == EXPOSURE[:30].mean()
    assert_allclose(stream.predict(NEW), model().fit(X, Y, exposure=EXPOSURE).predict(NEW), rtol=0.05)
    again = pickle.loads(pickle.dumps(stream))
    assert np.array_equal(again.predict(NEW, exposure=2.0), stream.predict(NEW, exposure=2.0))


@pytest.mark.filterwarnings("ignore:counts vary")  # without their exposures they do
def test_exposures_are_routed_in_cross_validation() -> None:
    with config_context(enable_metadata_routing=True):
        routed = model().set_fit_request(exposure=True).set_score_request(exposure=True)
        scores = cross_validate(routed, X, Y, params={"exposure": EXPOSURE}, cv=3)["test_score"]
    assert np.all(scores > cross_validate(model(), X, Y, cv=3)["test_score"].mean())


@pytest.mark.parametrize(
    ("exposure", "message"),
    [
        (np.zeros(60), "exposure must be positive and finite; got 0 in row 0"),
        (np.full(60, np.nan), "exposure must be positive and finite; got nan"),
        (np.ones(59), r"exposure must be numbers, one per row of 60; got an array of shape \(59,\)"),
        (np.ones((60, 1)), r"exposure must be numbers, one per row of 60; got an array of shape \(60, 1\)"),
        (np.ones(60) * 1j, "exposure must be numbers, one per row of 60: they are complex"),
        (np.full(60, np.datetime64("2020-01-01")), "exposure holds dates"),
        (np.ma.masked_less(np.arange(60.0), 1.0), "exposure contains NaN: row 0 is masked"),
        (np.full(60, 1.7e308), r"exposure must be from 1e-100 to 1e\+100; got 1.7e\+308 to 1.7e\+308"),
        (np.full(60, 1e-300), r"exposure must be from 1e-100 to 1e\+100"),
        (["a"] * 60, "exposure must be numbers, one per row of 60"),
    ],
)
def test_bad_exposures_are_refused(exposure: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        model().fit(X, Y, exposure=exposure)


def test_exposures_are_of_counts() -> None:
    with pytest.raises(DataError, match="exposure needs likelihood='poisson'; got likelihood='gaussian'"):
        SVGPRegressor().fit(X, Y, exposure=EXPOSURE)
    with pytest.raises(DataError, match="exposure needs likelihood='poisson'"):
        SVGPRegressor(n_inducing=5).fit(X, Y).predict(NEW, exposure=2.0)
    with pytest.raises(DataError, match="y must be counts"):
        model().fit(X, Y + 0.5, exposure=EXPOSURE)


@pytest.mark.filterwarnings("error", "ignore:counts vary")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [1e4, 1e8, 1e15])
def test_a_huge_count_among_zeros_is_learnt_and_nothing_overflows(count: float, seed: int) -> None:
    X = np.random.default_rng(seed).standard_normal((60, 2))
    y = np.where(np.arange(60) == 3, count, 0.0)
    fitted = SVGPRegressor(likelihood="poisson", n_inducing=10, max_iter=2000, random_state=seed).fit(X, y)
    assert_allclose(fitted.predict(X)[3], count, rtol=0.01)
