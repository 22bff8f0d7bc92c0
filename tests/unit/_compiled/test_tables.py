"""Tables of smooth functions: exact for cubics, and close for what they are made for."""

import numpy as np
from scipy.special import ndtr

from skpref._compiled.tables import look_up, mean_over_pairs


def test_cubics_are_exact_beyond_the_ends_too():
    grid, cubic = -1.0 + 0.25 * np.arange(9), np.polynomial.Polynomial([0.3, -1.0, 0.5, 2.0])
    x = np.linspace(-1.2, 1.2, 101)
    np.testing.assert_allclose(look_up(cubic(grid), -1.0, 0.25, x), cubic(x), rtol=0.0, atol=1e-14)


def test_means_over_pairs():
    rng = np.random.default_rng(0)
    f, side = rng.standard_normal((4, 6)), rng.choice([-1.0, 1.0], (4, 5))
    left, right, weight = rng.integers(0, 6, 5), rng.integers(0, 6, 5), rng.random(5)
    grid = -10.0 + 0.002 * np.arange(10_001)
    got = mean_over_pairs(ndtr(grid), grid[0], 0.002, f, side, left, right, weight)
    np.testing.assert_allclose(got, ndtr(side * (f[:, left] - f[:, right])) @ weight, rtol=0.0, atol=1e-12)
