"""Weak priors of hyper-parameters."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref import SVGPClassifier
from skpref.gp.hyperpriors import NormalPrior, classifier_priors, length_scale_priors, log_density


def test_the_density_is_a_product_of_normal_ones() -> None:
    rng = np.random.default_rng(0)
    priors = [NormalPrior(rng.normal(size=4), rng.normal(), 0.5 + rng.random()) for _ in range(3)]
    theta = rng.normal(size=4)
    value, gradient = log_density(priors, theta)
    assert value == pytest.approx(-0.5 * sum(((p.weights @ theta - p.mean) / p.sd) ** 2 for p in priors))
    slope = [(log_density(priors, theta + s)[0] - log_density(priors, theta - s)[0]) / 2e-4 for s in 1e-4 * np.eye(4)]
    assert_allclose(gradient, slope, rtol=1e-6)
    assert log_density([], theta)[0] == 0.0


def test_priors_follow_the_scales_of_the_features() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    unit, scaled = classifier_priors(X), classifier_priors(X * [1.0, 10.0, 0.1])
    theta = np.array([0.3, 1.0, 1.2, 0.9])
    moved = theta + np.append(0.0, np.log([1.0, 10.0, 0.1]))
    assert log_density(scaled, moved)[0] == pytest.approx(log_density(unit, theta)[0])
    peak = log_density(unit, np.append(1.0, [prior.mean for prior in unit[1:2]] * 3))[0]
    assert log_density(unit, np.append(4.0, np.full(3, 8.0)))[0] < peak - 5.0


def test_many_noise_features_do_not_run_to_the_ends_of_their_ranges() -> None:
    # Without priors the variance reached hundreds and length-scales thousands of standard deviations.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 12))
    y = X[:, 0] + 0.5 * rng.normal(size=120) > 0.0
    model = SVGPClassifier(random_state=0).fit(X, y)
    theta = model.kernel_.theta
    assert np.exp(theta[0]) < 50.0
    assert np.exp(theta[1:]).max() < 60.0
    assert np.argmin(theta[1:]) == 0


def test_priors_of_an_amplitude_and_length_scales_by_hand() -> None:
    X = np.random.default_rng(1).normal(size=(30, 4)) * [1.0, 2.0, 3.0, 4.0]
    centre = 0.5 + np.log(2.0 * X.std(axis=0))  # of log length-scales: sqrt(4) standard deviations, and e^.5
    theta = np.array([0.2, 1.0, 3.0, 0.0, 2.0])
    off = theta[1:] - centre
    wanted = ((theta[0] - 1.0) / 1.5) ** 2 + off.mean() ** 2 + np.sum(((off - off.mean()) / 0.5) ** 2)
    assert log_density(classifier_priors(X), theta)[0] == pytest.approx(-0.5 * wanted)
    first = length_scale_priors(X.std(axis=0), 4)
    wanted = off.mean() ** 2 + np.sum(((off - off.mean()) / 0.5) ** 2)
    assert log_density(first, theta[1:])[0] == pytest.approx(-0.5 * wanted)
