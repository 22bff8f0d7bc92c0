"""Counts over times, areas or populations of different sizes."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import cross_validate

from skpref import SVGPRegressor
from skpref.exceptions import DataError
from skpref.gp.sparse.fit_general import Observations, _OptimalBound
from skpref.gp.sparse.search import SparseParameters
from skpref.likelihoods import NegativeBinomial, Poisson

_rng = np.random.default_rng(0)
X = _rng.uniform(-3.0, 3.0, (60, 1))
EXPOSURE = np.exp(_rng.normal(size=60))
RATE = np.exp(0.5 + np.sin(X[:, 0]))
Y = _rng.poisson(RATE * EXPOSURE)
NEW = np.linspace(-2.5, 2.5, 5)[:, None]


def model(**options):
    kernel = ConstantKernel(0.7, "fixed") * RBF(1.3, "fixed")
    settings = {"likelihood": "poisson", "inducing": 15, "random_state": 0, "tol": 1e-3}
    return SVGPRegressor(kernel, **settings | options)


def test_rates_do_not_depend_on_the_unit_of_exposure():
    first, second = (model().fit(X, Y, exposure=unit * EXPOSURE) for unit in (1.0, 1e4))
    assert_allclose(second.predict(NEW), 1e-4 * first.predict(NEW), rtol=1e-6)
    mean, deviation = first.predict(NEW, return_std=True, exposure=np.full(5, 3.0))
    assert_allclose(mean, 3.0 * first.predict(NEW))
    again, same = second.predict(NEW, return_std=True, exposure=3e4)
    assert_allclose(again, mean, rtol=1e-6)
    assert_allclose(same, deviation, rtol=1e-6)
    assert np.all(deviation**2 > mean)  # Poisson, and more for what is not certain of f


def test_an_exposure_of_two_is_two_rows_of_one():
    parts = np.stack([_rng.poisson(RATE), _rng.poisson(RATE)])
    whole = model().fit(X, parts.sum(axis=0), exposure=np.full(60, 2.0))
    rows = model().fit(np.vstack([X, X]), parts.ravel())
    assert_allclose(whole.predict(NEW), rows.predict(NEW), rtol=1e-3)
    ones = model().fit(X, parts[0], exposure=np.ones(60))
    assert_allclose(ones.predict(NEW), model().fit(X, parts[0]).predict(NEW), rtol=1e-9)


def test_exposures_far_beyond_those_of_training_scale_the_counts():
    fitted = SVGPRegressor(likelihood="poisson", inducing=20, tol=1e-3, random_state=0).fit(X, Y, exposure=EXPOSURE)
    wanted = 100.0 * np.exp(0.5 + np.sin(NEW[:, 0]))
    ratio = fitted.predict(NEW, exposure=np.full(5, 100.0)) / wanted
    assert np.all((ratio > 0.6) & (ratio < 1.6))  # with log exposure as a feature a third or less
    assert fitted.score(X, Y, exposure=EXPOSURE) > fitted.score(X, Y)


def test_streams_and_files_keep_the_unit():
    stream = (
        model().partial_fit(X[:30], Y[:30], exposure=EXPOSURE[:30]).partial_fit(X[30:], Y[30:], None, EXPOSURE[30:])
    )
    assert stream.exposure_scale_ == EXPOSURE[:30].mean()
    assert_allclose(stream.predict(NEW), model().fit(X, Y, exposure=EXPOSURE).predict(NEW), rtol=0.05)
    again = pickle.loads(pickle.dumps(stream))
    assert np.array_equal(again.predict(NEW, exposure=2.0), stream.predict(NEW, exposure=2.0))


@pytest.mark.filterwarnings("ignore:counts vary")  # without their exposures they do
def test_exposures_are_routed_in_cross_validation():
    with config_context(enable_metadata_routing=True):
        routed = model().set_fit_request(exposure=True).set_score_request(exposure=True)
        scores = cross_validate(routed, X, Y, params={"exposure": EXPOSURE}, cv=3)["test_score"]
    assert np.all(scores > cross_validate(model(), X, Y, cv=3)["test_score"].mean())


def test_a_negative_binomial_learns_rate_and_dispersion_from_exposures():
    rng = np.random.default_rng(1)
    X, exposure = rng.uniform(-3.0, 3.0, (400, 1)), np.exp(rng.normal(size=400))
    mean = exposure * np.exp(1.5 + np.sin(X[:, 0]))
    y = rng.negative_binomial(4.0, 4.0 / (4.0 + mean))
    options = {"likelihood": "negative-binomial", "inducing": 20, "tol": 1e-3, "random_state": 0}
    fitted, in_days = (SVGPRegressor(**options).fit(X, y, exposure=unit * exposure) for unit in (1.0, 365.0))
    assert 0.15 < fitted.likelihood_.dispersion < 0.4  # 1/4
    assert SVGPRegressor(**options).fit(X, y).likelihood_.dispersion > 0.6  # exposures look like dispersion
    assert_allclose(fitted.predict(NEW), np.exp(1.5 + np.sin(NEW[:, 0])), rtol=0.25)
    assert_allclose(in_days.predict(NEW, exposure=365.0), fitted.predict(NEW), rtol=1e-3)
    inside = np.abs(y - mean) < 1.96 * fitted.predict(X, return_std=True, exposure=exposure)[1]
    assert 0.9 < inside.mean() < 0.99
    weighted = SVGPRegressor(**options).fit(X, y, np.full(400, 2.0), exposure)
    doubled = SVGPRegressor(**options).fit(np.vstack([X, X]), np.append(y, y), None, np.append(exposure, exposure))
    assert_allclose(weighted.predict(NEW), doubled.predict(NEW), rtol=1e-6)


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial"])
def test_intervals_without_noise_are_those_of_the_rate(likelihood):
    """Not those of its logarithm: the log of the rate is normal, so the rate is log-normal."""
    fitted = SVGPRegressor(likelihood=likelihood, inducing=20, tol=1e-3, random_state=0).fit(X, Y, exposure=EXPOSURE)
    exposure = np.linspace(0.1, 10.0, len(NEW))
    mean, std = fitted.predict(NEW, return_std=True, noise=False, exposure=exposure)
    _, latent_std = fitted.predict_latent(NEW, return_std=True)
    assert_allclose(std, mean * np.sqrt(np.expm1(latent_std**2)), rtol=1e-6)
    if likelihood == "poisson":  # the variance of a count is that of the rate, and the rate
        _, whole = fitted.predict(NEW, return_std=True, exposure=exposure)
        assert_allclose(whole**2, std**2 + mean, rtol=1e-6)


def test_a_negative_binomial_without_dispersion_is_the_poisson():
    known = [model(likelihood=p, optimizer=None, tol=1e-6) for p in (Poisson(2.0), NegativeBinomial(2.0, 1e-5))]
    first, second = (fixed.fit(X, Y, exposure=EXPOSURE).predict(NEW, return_std=True, exposure=3.0) for fixed in known)
    assert_allclose(second, first, rtol=1e-3)
    poisson = model().fit(X, Y, exposure=EXPOSURE)
    stream = model(likelihood="negative-binomial").partial_fit(X[:30], Y[:30], exposure=EXPOSURE[:30])
    stream.partial_fit(X[30:], Y[30:], None, EXPOSURE[30:])
    assert_allclose(stream.predict(NEW), poisson.predict(NEW), rtol=0.1)
    again = pickle.loads(pickle.dumps(stream)).partial_fit(X[:1], Y[:1])  # of exposure 1
    assert again._rows[3][-1] == -np.log(stream.exposure_scale_)
    late = model(likelihood="negative-binomial", window=50).partial_fit(X[:30], Y[:30])
    late.partial_fit(X[30:], Y[30:], exposure=EXPOSURE[30:])
    assert_allclose(late._rows[3], np.append(np.zeros(20), np.log(EXPOSURE[30:])))


def test_the_gradient_of_the_bound_knows_the_offset():
    data = Observations(X, Y.astype(float), np.ones(60), np.log(EXPOSURE))
    kernel = ConstantKernel(0.7) * RBF(1.3)

    def value(theta):
        objective = _OptimalBound(data, NegativeBinomial(1.0, 0.2), 2000)
        return objective(SparseParameters(kernel.clone_with_theta(theta), 1.0, X[:12]))[0]

    for k in range(2):
        step = 1e-4 * np.eye(2)[k]
        ends = [value(kernel.theta + sign * step).value for sign in (-1.0, 1.0)]
        assert_allclose(value(kernel.theta).theta[k], (ends[1] - ends[0]) / 2e-4, rtol=1e-3, atol=1e-3)


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
def test_bad_exposures_are_refused(exposure, message):
    with pytest.raises(DataError, match=message):
        model().fit(X, Y, exposure=exposure)


def test_exposures_are_of_counts():
    with pytest.raises(
        DataError, match="exposure needs likelihood='poisson' or 'negative-binomial'; got likelihood='gaussian'"
    ):
        SVGPRegressor().fit(X, Y, exposure=EXPOSURE)
    with pytest.raises(DataError, match="exposure needs likelihood='poisson'"):
        SVGPRegressor(inducing=5).fit(X, Y).predict(NEW, exposure=2.0)
    with pytest.raises(DataError, match="y must be counts"):
        model().fit(X, Y + 0.5, exposure=EXPOSURE)


@pytest.mark.filterwarnings("error", "ignore:counts vary")
@pytest.mark.parametrize(("count", "seed"), [(1e4, 2), (1e8, 0), (1e15, 1)])
def test_a_huge_count_among_zeros_is_learnt_and_nothing_overflows(count, seed):
    X = np.random.default_rng(seed).standard_normal((60, 2))
    y = np.where(np.arange(60) == 3, count, 0.0)
    fitted = SVGPRegressor(likelihood="poisson", inducing=10, max_iter=2000, random_state=seed).fit(X, y)
    assert_allclose(fitted.predict(X)[3], count, rtol=0.01)
