"""Comparisons that scores imply: weights of what they are worth, intervals that hold."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref import GPPLRegressor
from skpref.data.comparisons import from_scores
from skpref.gp.pairwise.fit import PairConfig
from skpref.gp.pairwise.scored_groups import stationary_weights, worth_of
from skpref.inference.scale import GammaScale
from skpref.inference.svi import Schedule
from skpref.kernels import ProductMatern
from skpref.likelihoods import PairwiseProbit


def test_worth_falls_with_the_uncertain_pairs_of_a_score():
    pairs = from_scores(np.arange(6.0)).merged()
    certain, uncertain = np.zeros(15), np.ones(15)
    assert_allclose(worth_of(pairs, np.ones(6), certain), 1.0)
    assert_allclose(worth_of(pairs, np.ones(6), uncertain), 3.0 / 6.0)
    # Five scores an item: each of them has a fifth of the pairs.
    assert_allclose(worth_of(pairs, np.full(6, 5.0), uncertain), 1.0)


@pytest.mark.statistical  # coverage over simulations
@pytest.mark.parametrize("amplitude", [1.0, 4.0])
def test_intervals_of_noisy_scores_cover(amplitude):
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


@pytest.mark.parametrize(
    ("changes", "n_fits"), [([1.0, 0.3, 0.06, 0.04, 0.9], 3), ([0.04], 0), ([1.0] * 9, 6), ([1.0, 0.05, 0.049], 2)]
)
@pytest.mark.parametrize("with_features", [False, True])
def test_rounds_end_where_weights_stay_and_keep_the_first_kernel(changes, n_fits, *, with_features):
    @dataclass
    class Scores:
        number: int
        fit: object = None

        def weighed(self, fit):
            return changes[self.number], Scores(self.number + 1, fit)

    fits = []

    def fit(data, settings, start):
        fits.append((data.number, settings, start))
        basis = SimpleNamespace(points="points") if with_features else None
        posterior = SimpleNamespace(basis=basis)
        own = {"state": f"state {data.number}", "likelihood": "likelihood"}
        return SimpleNamespace(**own, kernel="kernel", posterior=posterior)

    config = PairConfig(
        PairwiseProbit(),
        "vb",
        5,
        "random",
        Schedule(on_iteration=print),
        GammaScale.prior(2.0, 3.0),
        True,
        False,
        True,
        1,
    )
    data = stationary_weights(Scores(0), fit, config, "start")
    assert len(fits) == n_fits
    assert data.number == min(n_fits + 1, 6)
    for k, (number, settings, start) in enumerate(fits):
        assert number == k + 1
        assert settings.schedule.on_iteration is None
        if k == 0:
            assert start == "start"
            assert (settings.learn_length_scales, settings.n_restarts) == (True, 1)
            continue
        assert (settings.learn_length_scales, settings.n_restarts) == (False, None)
        assert (start.state, start.kernel) == (f"state {k}", "kernel")
        assert start.points == ("points" if with_features else None)
