"""Comparisons that scores imply: weights of what they are worth, intervals that hold."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref import GPPLRegressor
from skpref.data import from_scores
from skpref.gp.pairwise.scores import worth_of
from skpref.kernels import ProductMatern


def test_worth_falls_with_the_uncertain_pairs_of_a_score() -> None:
    pairs = from_scores(np.arange(6.0)).merged()
    certain, uncertain = np.zeros(15), np.ones(15)
    assert_allclose(worth_of(pairs, np.ones(6), certain), 1.0)
    assert_allclose(worth_of(pairs, np.ones(6), uncertain), 3.0 / 6.0)
    # Five scores an item: each of them has a fifth of the pairs.
    assert_allclose(worth_of(pairs, np.full(6, 5.0), uncertain), 1.0)


@pytest.mark.parametrize("amplitude", [1.0, 4.0])
def test_intervals_of_noisy_scores_cover(amplitude: float) -> None:
    covered = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((40, 2))
        K = ProductMatern([1.5, 1.5])(X) + 1e-10 * np.eye(40)
        f = amplitude * np.linalg.cholesky(K) @ rng.standard_normal(40)
        y = f + np.sqrt(0.5) * rng.standard_normal(40)
        mean, std = GPPLRegressor(ProductMatern([1.5, 1.5]), random_state=0).fit(X, y).predict(X, return_std=True)
        truth = f - f.mean()
        scale = mean @ truth / (mean @ mean)  # the scores' order does not fix the unit of utilities
        covered.append(np.mean(np.abs(scale * mean - truth) < 1.96 * scale * std))
    # With every pair counted in full, .4 to .7; with these weights .93 to .99, standard error .02.
    assert np.mean(covered) > 0.85
