"""Defaults for few rows: categories of a row each, and classes that differ in a small difference of two features."""

import numpy as np
import pytest

from skpref import SVGPClassifier, SVGPRegressor


@pytest.mark.parametrize("seed", range(3))
def test_rare_categories_take_no_outliers_out_of_the_noise(seed):
    rng = np.random.default_rng(seed)
    n, x = 60, rng.standard_normal(60)
    y = np.exp(1.2 * x + 0.3 * rng.standard_normal(n))
    model = SVGPRegressor(random_state=0).fit(np.column_stack([x, np.eye(n)]), y)
    assert np.ptp(model.kernel_.theta[2 : 2 + n]) < 0.5  # logarithms of the length-scales of the categories


@pytest.mark.parametrize("seed", range(3))
def test_classes_by_a_small_difference_of_features(seed):
    rng = np.random.default_rng(seed)
    x, gap = rng.standard_normal(160), 0.03 * rng.standard_normal(160)
    X, y = np.column_stack([x, x + gap]), gap > 0.0
    model = SVGPClassifier(random_state=0).fit(X[:80], y[:80])
    assert model.score(X[80:], y[80:]) > 0.9  # by chance one half


def test_a_short_length_scale_among_long_ones_is_found():
    rng = np.random.default_rng(8)
    X, year = rng.standard_normal((450, 10)), rng.integers(0, 15, 450)
    X[:, 0] = (year - 7) / 4.3
    y = rng.standard_normal(15)[year] + 0.4 * X[:, 1] + 0.5 * rng.standard_normal(450)
    assert SVGPRegressor(random_state=0).fit(X, y).noise_ < 0.6  # .95 where every search has the priors
