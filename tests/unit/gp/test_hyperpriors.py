"""Weak priors of hyper-parameters."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import cauchy, nbinom
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skpref import SVGPClassifier, SVGPRegressor
from skpref.gp.default_kernels import warp
from skpref.gp.hyperpriors import (
    CauchyPrior,
    NormalPrior,
    classifier_priors,
    count_priors,
    length_scale_priors,
    log_density,
    mean_log_scales,
    regression_priors,
)
from skpref.gp.sparse import fit as sparse_fit
from skpref.gp.sparse import targets
from skpref.kernels import Linear


def kernel_of(d, *, linear=False):
    """Return an amplitude times a kernel of d length-scales, with or without a linear part of one variance."""
    smooth = ConstantKernel(1.0) * RBF(np.ones(d))
    return smooth + ConstantKernel(1.0) * Linear(1.0, "fixed") if linear else smooth


def test_the_density_is_a_product_of_normal_ones():
    rng = np.random.default_rng(0)
    priors = [NormalPrior(rng.normal(size=4), rng.normal(), 0.5 + rng.random()) for _ in range(3)]
    theta = rng.normal(size=4)
    value, gradient = log_density(priors, theta)
    assert value == pytest.approx(-0.5 * sum(((p.weights @ theta - p.mean) / p.sd) ** 2 for p in priors))
    slope = [(log_density(priors, theta + s)[0] - log_density(priors, theta - s)[0]) / 2e-4 for s in 1e-4 * np.eye(4)]
    assert_allclose(gradient, slope, rtol=1e-6)
    assert log_density([], theta)[0] == 0.0


def test_priors_follow_the_scales_of_the_features():
    X = np.random.default_rng(0).normal(size=(50, 3))
    unit, scaled = classifier_priors(X, kernel_of(3)), classifier_priors(X * [1.0, 10.0, 0.1], kernel_of(3))
    theta = np.array([0.3, 1.0, 1.2, 0.9])
    moved = theta + np.append(0.0, np.log([1.0, 10.0, 0.1]))
    assert log_density(scaled, moved)[0] == pytest.approx(log_density(unit, theta)[0])
    peak = log_density(unit, np.append(1.0, [prior.mean for prior in unit[1:2]] * 3))[0]
    assert log_density(unit, np.append(4.0, np.full(3, 8.0)))[0] < peak - 5.0


def test_priors_of_warped_features_have_their_scales():
    X = np.exp(2.0 * np.random.default_rng(0).normal(size=(200, 2)))
    warped = warp(X)
    inner = kernel_of(2)
    theta = np.array([0.3, 1.0, 1.2])
    got = log_density(regression_priors(X, inner.k1 * warped.set_params(kernel=inner.k2)), theta)[0]
    assert got == pytest.approx(log_density(regression_priors(warped.map_rows(X), inner), theta)[0])
    assert got != pytest.approx(log_density(regression_priors(X, inner), theta)[0])


def test_many_noise_features_do_not_run_to_the_ends_of_their_ranges():
    # Without priors the variance reached hundreds and length-scales thousands of standard deviations.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 12))
    y = X[:, 0] + 0.5 * rng.normal(size=120) > 0.0
    model = SVGPClassifier(random_state=0).fit(X, y)
    theta = model.kernel_.theta
    assert np.exp(theta[0]) < 50.0
    assert np.exp(theta[1:-1]).max() < 60.0
    assert np.argmin(theta[1:-1]) == 0
    assert np.exp(theta[-1]) < 50.0  # of the linear part


def test_priors_of_an_amplitude_and_length_scales_by_hand():
    X = np.random.default_rng(1).normal(size=(30, 4)) * [1.0, 2.0, 3.0, 4.0]
    centre = 0.5 + np.log(2.0 * X.std(axis=0))  # of log length-scales: sqrt(4) standard deviations, and e^.5
    theta = np.array([0.2, 1.0, 3.0, 0.0, 2.0])
    off = theta[1:] - centre
    wanted = ((theta[0] + 1.0) / 3.0) ** 2 + off.mean() ** 2 + np.sum(((off - off.mean()) / 0.5) ** 2)
    assert log_density(classifier_priors(X, kernel_of(4)), theta)[0] == pytest.approx(-0.5 * wanted)
    beside = kernel_of(4, linear=True)
    wanted += ((theta[0] + 2.0) / 3.0) ** 2 - ((theta[0] + 1.0) / 3.0) ** 2 + (1.7 / 3.0) ** 2  # with a linear part
    assert log_density(classifier_priors(X, beside), np.append(theta, 0.7))[0] == pytest.approx(-0.5 * wanted)
    first = length_scale_priors(mean_log_scales(X.std(axis=0)), 4)
    wanted = off.mean() ** 2 + np.sum(((off - off.mean()) / 0.5) ** 2)
    assert log_density(first, theta[1:])[0] == pytest.approx(-0.5 * wanted)


def test_a_cauchy_prior_has_its_density_and_gradient():
    rng = np.random.default_rng(2)
    priors = [CauchyPrior(rng.normal(size=3), 0.5, 0.3), NormalPrior(rng.normal(size=3), -0.2, 1.5)]
    theta = rng.normal(size=3)
    wanted = cauchy.logpdf(priors[0].weights @ theta, 0.5, 0.3) - cauchy.logpdf(0.5, 0.5, 0.3)
    wanted -= 0.5 * ((priors[1].weights @ theta + 0.2) / 1.5) ** 2
    value, gradient = log_density(priors, theta)
    assert value == pytest.approx(wanted)
    slope = [(log_density(priors, theta + s)[0] - log_density(priors, theta - s)[0]) / 2e-4 for s in 1e-4 * np.eye(3)]
    assert_allclose(gradient, slope, rtol=1e-6)


def test_priors_of_a_regression_leave_the_amplitude_alone_and_forgive_one_long_scale():
    X = np.random.default_rng(1).normal(size=(30, 4))
    alone, both = kernel_of(4), kernel_of(4, linear=True)
    priors = regression_priors(X, alone)
    centre = np.append(0.0, 0.5 + np.log(2.0 * X.std(axis=0)))
    assert log_density(priors, centre)[0] == pytest.approx(0.0)
    assert log_density(priors, np.add(centre, [5.0, 0.0, 0.0, 0.0, 0.0]))[0] == pytest.approx(0.0)
    one_long = log_density(priors, np.add(centre, [0.0, 0.0, 0.0, 0.0, 3.0]))[0]
    off = np.array([-0.75, -0.75, -0.75, 2.25])
    assert one_long == pytest.approx(-0.5 * 0.75**2 - np.log1p((off / 0.3) ** 2).sum())
    assert (
        log_density(classifier_priors(X, kernel_of(4)), np.add(centre, [1.0, 0.0, 0.0, 0.0, 3.0]))[0] < one_long - 3.0
    )
    beside = log_density(regression_priors(X, both), np.append(np.add(centre, [0.5, 0.0, 0.0, 0.0, 0.0]), 0.7))[0]
    assert beside == pytest.approx(-0.5 * (1.5 / 2.0) ** 2 - 0.5 * (0.7 / 1.5) ** 2)


def test_priors_of_log_rates_differ_from_those_of_log_odds_in_the_variance_alone():
    X = np.random.default_rng(1).normal(size=(30, 4))
    theta = np.append(0.0, 0.5 + np.log(2.0 * X.std(axis=0)))
    moved = np.add(theta, [1.7, 0.0, 0.4, 0.0, -0.9])
    gap = [log_density(priors(X, kernel_of(4)), moved)[0] for priors in (count_priors, classifier_priors)]
    assert gap[0] - gap[1] == pytest.approx(-0.5 * 1.7**2 + 0.5 * (2.7 / 3.0) ** 2)


def test_counts_of_categories_that_were_not_seen_are_not_far_off():
    # 120 places with counts that vary much between them: most places of new rows have no column. With length-scales of
    # their own for all columns, the loss was 2 nats above that of a negative binomial distribution for all rows.
    for seed in range(3):
        rng = np.random.default_rng(seed)
        place = rng.integers(0, 120, 380)
        y = rng.poisson(np.exp(2.2 * rng.normal(size=120) - 0.5)[place] * rng.gamma(0.7, 1.0 / 0.7, size=380))
        seen = np.unique(place[:80])
        X = np.column_stack([place[:, None] == seen, rng.integers(1970, 2010, 380)]).astype(float)
        model = SVGPRegressor(likelihood="negative-binomial", random_state=0).fit(X[:80], y[:80])
        new = ~np.isin(place, seen)
        mean, std = model.predict_latent(X[new], return_std=True)
        x, weight = np.polynomial.hermite_e.hermegauss(40)
        log_p = model.likelihood_.log_prob(y[new][:, None], mean[:, None] + std[:, None] * x)
        loss = -np.mean(logsumexp(log_p, b=weight / weight.sum(), axis=1))
        m, v = y[:80].mean(), y[:80].var()
        common = -np.mean(nbinom.logpmf(y[new], m**2 / (v - m), m / v))
        assert loss < common


def test_classes_of_categories_that_were_not_seen_are_not_far_off():
    # The same of two classes: losses were .94 and .32 nats above that of the shares of the classes.
    for seed in (0, 3):
        rng = np.random.default_rng(seed)
        place = rng.integers(0, 120, 1380)
        y = rng.random(1380) < 1.0 / (1.0 + np.exp(1.0 - (1.5 * rng.normal(size=120))[place]))
        seen = np.unique(place[:80])
        X = np.column_stack([place[:, None] == seen, rng.integers(1970, 2010, 1380)]).astype(float)
        new, share = ~np.isin(place, seen), y[:80].mean()
        p = SVGPClassifier(random_state=0).fit(X[:80], y[:80]).predict_proba(X[new])[:, 1]
        loss, common = (-np.mean(np.log(np.where(y[new], q, 1.0 - q))) for q in (p, share))
        assert loss < common + 0.15


def test_means_of_counts_do_not_explode_between_few_rows():
    # Without a prior of the variance the sum of all means was 1.7 times that of the counts, and the largest mean 1,017
    # where no count of the fit was above 194.
    predicted = seen = 0.0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = np.exp(rng.normal(size=(360, 3)))
        y = rng.poisson(np.exp(np.minimum(2.0 * np.log(X[:, 0]), 4.0) + 1.0) * rng.gamma(1.0, 1.0, size=360))
        mean = SVGPRegressor(likelihood="negative-binomial", random_state=0).fit(X[:60], y[:60]).predict(X[60:])
        assert mean.max() < 2.0 * y[:60].max()
        predicted, seen = predicted + mean.sum(), seen + y[60:].sum()
    assert 0.7 * seen < predicted < 1.3 * seen


def test_few_rows_of_many_features_do_not_make_narrow_intervals():
    # Without priors 95 % intervals had 77 % of these targets, and the root mean squared error was 1.36.
    inside, errors = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(450, 15))
        y = X[:, :3].sum(axis=1) + rng.normal(size=450)
        mean, std = SVGPRegressor(random_state=0).fit(X[:50], y[:50]).predict(X[50:], return_std=True)
        inside.append(np.mean(np.abs(y[50:] - mean) < 1.96 * std))
        errors.append(np.mean((y[50:] - mean) ** 2))
    assert np.mean(inside) > 0.9
    assert np.sqrt(np.mean(errors)) < 1.3


@pytest.mark.parametrize("likelihood", ["gaussian", "student-t", "poisson"])
def test_regressors_of_all_likelihoods_have_the_priors_and_given_kernels_have_none(monkeypatch, likelihood):
    seen = []

    def priors(X, kernel):
        seen.append(X.shape[1])
        return regression_priors(X, kernel)

    for module, name in ((sparse_fit, "regression_priors"), (targets, "regression_priors"), (targets, "count_priors")):
        monkeypatch.setattr(module, name, priors)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 2))
    y = rng.poisson(np.exp(X[:, 0]))
    for kernel, wanted in ((None, {2}), (RBF(1.0), set())):
        seen.clear()
        SVGPRegressor(kernel, likelihood=likelihood).fit(X, y)
        assert set(seen) == wanted


def test_a_classifier_expects_no_signal_where_there_is_none():
    # With a prior that expected one, predictions of 60 rows were on average .028 nats from the truth, in place of .014.
    excess = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(560, 3)), rng.random(560) < 0.5
        p = SVGPClassifier(random_state=0).fit(X[:60], y[:60]).predict_proba(X[60:])[:, 1]
        excess.append(np.mean(-0.5 * np.log(4.0 * p * (1.0 - p))))
    assert np.mean(excess) < 0.021
