"""Factorization machine of ordered levels."""

import functools
from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import logsumexp, ndtr

from skpref import VariationalFM, VariationalFMClassifier, VariationalFMOrdinal
from skpref.exceptions import DataError

RNG = np.random.default_rng(0)


def simulated(n_users=30, n_items=20, share=0.6, seed=0):
    """One-hot users and items, and levels 1, 2, 3, 5 of uneven frequencies."""
    rng = np.random.default_rng(seed)
    u, i = np.nonzero(rng.random((n_users, n_items)) < share)
    z = rng.normal(size=n_users)[u] + rng.normal(size=n_items)[i] + 0.8 * rng.normal(size=u.size)
    entries = np.ones(2 * u.size), np.column_stack([u, n_users + i]).ravel(), np.arange(0, 2 * u.size + 1, 2)
    X = sparse.csr_array(entries, (u.size, n_users + n_items))
    return X, np.array([1, 2, 3, 5])[np.searchsorted(np.quantile(z, [0.05, 0.2, 0.8]), z)]


X, Y = simulated()


@functools.cache
def fitted_machine():
    """Fit once, when a test first asks for it."""
    return VariationalFMOrdinal(2, inference="variational", random_state=0).fit(X, Y)


def test_the_bound_never_falls_and_the_fit_converges():
    assert fitted_machine().converged_
    assert np.all(np.diff(fitted_machine().lower_bounds_) >= 0.0)


def test_probabilities_add_up_to_the_frequencies():
    p = fitted_machine().predict_proba(X)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert_allclose(p.mean(axis=0), [np.mean(level == Y) for level in fitted_machine().classes_], atol=0.02)


def test_new_ratings_are_predicted_better_than_by_the_frequencies():
    train = RNG.random(Y.size) < 0.7
    model = VariationalFMOrdinal(2, random_state=0).fit(X[train], Y[train])
    level = np.searchsorted(model.classes_, Y[~train])
    p = model.predict_proba(X[~train])[np.arange(level.size), level]
    shares = np.bincount(np.searchsorted(model.classes_, Y[train])) / train.sum()
    assert np.log(p).mean() > np.log(shares[level]).mean() + 0.1
    assert model.score(X[~train], Y[~train]) > -np.abs(level - 2).mean()


def test_predictions_are_the_median_or_the_mode():
    p = fitted_machine().predict_proba(X)
    median = (np.cumsum(p, axis=1) >= 0.5).argmax(axis=1)
    assert np.array_equal(fitted_machine().predict(X, loss="absolute"), fitted_machine().classes_[median])
    assert np.array_equal(fitted_machine().predict(X), fitted_machine().classes_[p.argmax(axis=1)])
    with pytest.raises(DataError, match="loss must be 'zero-one' or 'absolute'; got 'mean'"):
        fitted_machine().predict(X, loss="mean")


def test_levels_have_no_distances():
    other = VariationalFMOrdinal(2, inference="variational", random_state=0).fit(X, np.array([0, -3, 0, 10, 0, 100])[Y])
    assert np.array_equal(other.predict_proba(X), fitted_machine().predict_proba(X))


def test_half_stars_are_levels_and_measurements_are_not():
    half = VariationalFMOrdinal(2, inference="variational", random_state=0).fit(X, 0.5 * Y)
    assert half.classes_.tolist() == [0.5, 1.0, 1.5, 2.5]
    assert np.array_equal(half.predict_proba(X), fitted_machine().predict_proba(X))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        VariationalFMOrdinal(2).fit(X, np.linspace(0.0, 1.0, Y.size))


def test_draws_have_the_predicted_frequencies():
    draws = fitted_machine().sample_y(X[:3], 4000)
    shares = np.stack([(draws == level).mean(axis=1) for level in fitted_machine().classes_], axis=1)
    assert_allclose(shares, fitted_machine().predict_proba(X[:3]), atol=0.05)


def test_names_need_an_order_and_levels_may_be_absent():
    names = np.array(["", "poor", "fair", "good", "", "great"])[Y]
    with pytest.raises(DataError, match="state the order of the levels"):
        VariationalFMOrdinal().fit(X, names)
    order = ["awful", "poor", "fair", "good", "great"]
    model = VariationalFMOrdinal(2, class_order=order, random_state=0).fit(X, names)
    assert model.classes_.tolist() == order
    assert model.thresholds_.size == 4
    assert 0.0 < model.predict_proba(X)[:, 0].mean() < 0.02
    column = pd.Series(pd.Categorical(names, order, ordered=True))
    same = VariationalFMOrdinal(2, random_state=0).fit(X, column)
    assert np.array_equal(same.predict_proba(X), model.predict_proba(X))


def test_a_first_batch_may_have_one_level():
    model = VariationalFMOrdinal(1, random_state=0).partial_fit(X[Y == 3], Y[Y == 3], classes=[1, 2, 3, 5])
    assert set(model.predict(X)) == {3}
    assert model.partial_fit(X, Y).classes_.tolist() == [1, 2, 3, 5]
    with pytest.raises(DataError, match="classes must be those of the first call"):
        model.partial_fit(X, Y, classes=[1, 2, 3])
    with pytest.raises(DataError, match=r"4 .* which is not among the levels"):
        model.partial_fit(X, np.full(Y.size, 4))


@pytest.mark.parametrize("options", [{"batch_size": 50}, {"posterior": "factorised"}])
def test_other_fits_agree(options):
    other = VariationalFMOrdinal(0, learning_rate=0.05, random_state=0, **options).fit(X, Y)
    exact = VariationalFMOrdinal(0, random_state=0).fit(X, Y)
    assert np.abs(other.predict_proba(X) - exact.predict_proba(X)).max() < 0.15
    assert_allclose(other.thresholds_, exact.thresholds_, atol=0.4)


def test_early_stopping_and_a_warm_start():
    model = VariationalFMOrdinal(2, early_stopping=True, random_state=0).fit(X, Y)
    assert 0.0 < model.validation_losses_.min() < np.log(4.0)
    again = VariationalFMOrdinal(2, warm_start=True, random_state=0).fit(X, Y).fit(X, Y)
    assert again.n_iter_ < fitted_machine().n_iter_
    assert_allclose(again.lower_bound_, fitted_machine().lower_bound_, rtol=1e-3)


# ------------------------------------------------------------------------------------- by integration over a grid
GRID = np.linspace(-4.5, 4.5, 61)
DESIGN = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 1.0], [1.0, -0.5], [0.0, 1.0], [1.0, 1.0]])
LEVEL = np.array([0, 1, 2, 1, 0, 2, 1])
VARIATIONAL = {"inference": "variational", "learn_priors": False, "tol": 0.0, "random_state": 0}


def by_integration(thresholds):
    """Return the log evidence and the predictive probabilities of w_0 and two weights, all N(0, 1)."""
    theta = np.array(list(product(GRID, repeat=3)))
    z = theta[:, :1] + theta[:, 1:] @ DESIGN.T
    cdf = ndtr(np.array([-np.inf, *thresholds, np.inf]) - z[..., None])
    p = np.maximum(np.diff(cdf, axis=2), 1e-300)
    log_prior = -0.5 * (theta**2).sum(axis=1) - 1.5 * np.log(2.0 * np.pi) + 3.0 * np.log(GRID[1] - GRID[0])
    log_joint = log_prior + np.log(p[:, np.arange(LEVEL.size), LEVEL]).sum(axis=1)
    evidence = logsumexp(log_joint)
    return float(evidence), np.einsum("t,tnk->nk", np.exp(log_joint - evidence), p)


def test_a_tiny_posterior_by_integration():
    model = VariationalFMOrdinal(0, groups=[0, 0], **VARIATIONAL).fit(DESIGN, LEVEL)
    evidence, p = by_integration(model.thresholds_)
    bound = model.lower_bound_ - model.posterior_.machine.log_hyper_prior()
    assert evidence - 1.0 < bound < evidence
    assert_allclose(model.predict_proba(DESIGN), p, atol=0.06)


def test_the_posterior_of_one_weight_is_the_fixed_point_of_albert_and_chib():
    x = DESIGN[:, :1]
    model = VariationalFMOrdinal(0, groups=[0], **VARIATIONAL).fit(x, LEVEL)
    edges = np.array([-np.inf, *model.thresholds_, np.inf])
    A = np.column_stack([np.ones(LEVEL.size), x])
    mean = np.zeros(2)
    for _ in range(2000):  # w_0 and the weight in turn, given the means of the noisy scores
        for k in (0, 1):
            z = A @ mean
            low, high = edges[LEVEL] - z, edges[LEVEL + 1] - z
            density = np.exp(-0.5 * np.minimum(low**2, 1e4)) - np.exp(-0.5 * np.minimum(high**2, 1e4))
            score = z + density / np.sqrt(2.0 * np.pi) / (ndtr(high) - ndtr(low))
            mean[k] = A[:, k] @ (score - A[:, 1 - k] * mean[1 - k]) / (1.0 + A[:, k] @ A[:, k])
    machine = model.posterior_.machine
    assert_allclose([machine.bias.mean, machine.mean[0, 0]], mean, atol=1e-4)
    assert_allclose([machine.bias.variance, machine.variances[0, 0]], 1.0 / (1.0 + (A**2).sum(axis=0)), rtol=1e-6)


def test_draws_are_those_of_the_posterior_and_of_the_noise():
    """The same draws by the formulas, number by number."""
    ordinal, regressor = fitted_machine(), VariationalFM(1, max_iter=5, random_state=0).fit(X, Y)
    classifier = VariationalFMClassifier(1, max_iter=5, random_state=0).fit(X, Y > 2)
    rows = X[:40]
    for model in (ordinal, regressor, classifier):
        rng = np.random.default_rng(3)
        draws = model.posterior_.draws(rows, 5, rng)
        if model is classifier:
            expected = model.classes_[(rng.random(draws.shape) < ndtr(draws)).astype(int)]
        else:
            noise = regressor.noise_ if model is regressor else model._likelihood.noise
            expected = draws + noise * rng.standard_normal(draws.shape)
        if model is ordinal:
            expected = model.classes_[(expected[:, :, None] > model.thresholds_).sum(axis=2)]
        assert_allclose(model.sample_y(rows, 5, random_state=np.random.default_rng(3)), expected)
