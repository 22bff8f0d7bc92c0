"""The posterior of a new user of a `GibbsM3F`, against quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref import GibbsM3F
from skpref.elicitation import Session
from skpref.elicitation._newcomers import Newcomers
from skpref.factorization.max_margin.posterior import level_probabilities


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    taste, quality = 1.0 + 0.3 * rng.standard_normal(40), rng.standard_normal(12)
    pairs = np.argwhere(rng.random((40, 12)) < 0.7)
    z = taste[pairs[:, 0]] * quality[pairs[:, 1]] + 0.3 * rng.standard_normal(len(pairs))
    y = 1 + (z[:, None] > [-0.7, 0.7]).sum(axis=1)
    return GibbsM3F(n_factors=1, user_thresholds=False, n_sweeps=30, burn_in=10, random_state=0).fit(pairs, y)


def test_a_new_user_is_drawn_from_the_population_given_the_answers(model):
    session, posterior = Session(model, strategy="random", random_state=0), model.posterior_
    row = session.ask(3).tolist()
    session.tell({row[0]: 3, row[1]: 1, row[2]: 3})
    samples, means, variances = posterior.samples, [], []
    for s in range(samples.users.shape[0]):
        u = samples.users[s, :, 0].astype(float)
        variance = (u.size * u.var() + posterior.sigma**2) / (u.size + 1)
        grid = u.mean() + np.sqrt(variance) * np.linspace(-8.0, 8.0, 2001)
        weight = np.exp(-0.5 * (grid - u.mean()) ** 2 / variance)
        for j, level in zip(row, (2, 0, 2), strict=True):
            theta = np.broadcast_to(samples.thresholds[s, 0], (grid.size, 2))
            score = grid * samples.items[s, j, 0]
            p = level_probabilities(score, theta, posterior.cost, posterior.margin, posterior.calibration)
            weight = weight * p[:, level]
        weight /= weight.sum()
        means.append((weight @ grid) * samples.items[s, :, 0])
        variances.append((weight @ grid**2 - (weight @ grid) ** 2) * samples.items[s, :, 0] ** 2)
    # Five standard errors of 400 draws.
    error = 5.0 * np.sqrt(np.mean(variances, axis=0) / 400)
    assert (np.abs(session.belief_.mean - np.mean(means, axis=0)) < error).all()
    wanted = np.mean(variances, axis=0) + np.var(means, axis=0)
    assert_allclose(session.belief_.variance, wanted, rtol=5.0 * np.sqrt(2.0 / 400))


def test_without_answers_draws_are_of_the_population():
    rng = np.random.default_rng(1)
    pairs = np.argwhere(rng.random((30, 8)) < 0.8)
    model = GibbsM3F(n_factors=2, n_sweeps=20, burn_in=5, random_state=0).fit(pairs, rng.integers(1, 4, len(pairs)))
    newcomers, samples = Newcomers.of(model.posterior_), model.posterior_.samples
    users, theta, sample = newcomers.draw(model.posterior_, np.zeros(0, dtype=int), np.zeros(0, dtype=int))
    everything = np.concatenate([samples.users, samples.thresholds], axis=2)
    assert_allclose(newcomers.mean, everything.mean(axis=1), rtol=1e-5)
    drawn, variance = np.column_stack([users, theta]), np.einsum("sqr,sqr->sq", newcomers.root, newcomers.root)
    z = (drawn - newcomers.mean[sample]) / np.sqrt(variance[sample])
    assert np.abs(z.mean(axis=0)).max() < 5.0 / np.sqrt(len(z))
    assert_allclose(z.var(axis=0), 1.0, rtol=5.0 * np.sqrt(2.0 / len(z)))


def test_an_answer_of_no_probability_is_no_error(model):
    posterior = model.posterior_
    item, level = np.arange(4), np.zeros(4, dtype=int)
    far = Newcomers(np.full_like(Newcomers.of(posterior).mean, 1e6), Newcomers.of(posterior).root)
    assert all(np.isfinite(part).all() for part in far.draw(posterior, item, level))
