"""The posterior of a new user of a `GibbsM3F`, against quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import entropy

from skpref import GibbsM3F
from skpref.elicitation import Session, _raters
from skpref.elicitation._raters import Newcomers, _elliptical_slice
from skpref.factorization.max_margin.posterior import level_probabilities
from tests.policies import set_policy


def fitted(**options):
    rng = np.random.default_rng(0)
    taste, quality = 1.0 + 0.3 * rng.standard_normal(40), rng.standard_normal(12)
    pairs = np.argwhere(rng.random((40, 12)) < 0.7)
    z = taste[pairs[:, 0]] * quality[pairs[:, 1]] + 0.3 * rng.standard_normal(len(pairs))
    y = 1 + (z[:, None] > [-0.7, 0.7]).sum(axis=1)
    options = {"n_factors": 1, "user_thresholds": False, "max_iter": 30, "burn_in": 10, "random_state": 0, **options}
    return GibbsM3F(**options).fit(pairs, y)


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.mark.parametrize("C", [0.0562, 0.3])  # answers that say little, and much
def test_a_new_user_is_drawn_from_the_population_given_the_answers(C):
    model = fitted(C=C)
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
    model = GibbsM3F(n_factors=2, max_iter=20, burn_in=5, random_state=0).fit(pairs, rng.integers(1, 4, len(pairs)))
    newcomers, samples = Newcomers.from_posterior(model.posterior_), model.posterior_.samples
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
    far = Newcomers(
        np.full_like(Newcomers.from_posterior(posterior).mean, 1e6), Newcomers.from_posterior(posterior).root
    )
    assert all(np.isfinite(part).all() for part in far.draw(posterior, item, level))


def test_slices_keep_a_normal_posterior():
    # white ~ N(0, I) in two dimensions, of which the sum is seen with noise of variance 0.1.
    rng, n = np.random.default_rng(0), 4000
    white, project = rng.standard_normal((n, 2)), np.broadcast_to([[[1.0, 1.0]]], (n, 1, 2))
    start = white.copy()
    for sweep in range(12):
        white = _elliptical_slice(white, project, lambda z: -0.5 * (z[:, 0] - 1.5) ** 2 / 0.1, rng)
        assert sweep > 0 or not (white == start).any()  # brackets shrink until a move is taken
    covariance = np.linalg.inv(np.eye(2) + 10.0)
    assert_allclose(white.mean(axis=0), covariance @ [15.0, 15.0], atol=0.06)
    assert_allclose(np.cov(white.T), covariance, atol=0.06)
    still = _elliptical_slice(
        start, project, lambda z: np.where(np.arange(n) == 3, -np.inf * np.abs(z[:, 0]), 0.0), rng
    )
    assert_array_equal(np.flatnonzero((still == start).all(axis=1)), [])


def test_a_slice_leaves_the_draws_of_a_posterior_with_two_modes_as_they_are_distributed():
    def log_likelihood(z):
        return np.logaddexp(-25.0 * (z[:, 0] - 1.2) ** 2, np.log(0.5) - 25.0 * (z[:, 0] + 0.5) ** 2)

    rng, n, grid = np.random.default_rng(0), 200_000, np.linspace(-6.0, 6.0, 60_001)
    p = np.exp(-0.5 * grid**2 + log_likelihood(grid[:, None]))
    p /= p.sum()
    before = rng.choice(grid, n, p=p)
    after = _elliptical_slice(before[:, None], np.ones((n, 1, 1)), log_likelihood, rng)[:, 0]
    assert (after != before).all()
    for moment in (lambda z: z, np.square, lambda z: z < 0.4, lambda z: z > 1.2):
        error = moment(after) - p @ moment(grid)
        assert abs(error.mean()) < 3.5 * error.std() / np.sqrt(n)
    there, back = (before < 0.4) & (after > 0.4), (before > 0.4) & (after < 0.4)
    assert abs(there.sum() - back.sum()) < 3.5 * np.sqrt(there.sum() + back.sum())  # moves are reversible


@pytest.mark.parametrize("user", [None, 7])
def test_beliefs_are_averages_over_samples(model, user, monkeypatch):
    posterior, item = model.posterior_, np.array([0, 3, 5, 9])
    samples = posterior.samples
    set_policy(monkeypatch, "elicitation", most_users=40 * len(samples.users))  # all
    belief = _raters.belief_from_samples(posterior, user, item)
    users = range(40) if user is None else [user]
    draws = [(s, u) for s in range(len(samples.users)) for u in users]
    score = np.array([samples.items[s, item, 0].astype(float) * samples.users[s, u, 0] for s, u in draws])
    theta = np.array([[samples.thresholds[s, 0]] * 4 for s, _ in draws], dtype=float)

    def p_at(score):
        return level_probabilities(score, theta, posterior.cost, posterior.margin, posterior.calibration)

    p, h = p_at(score), 1e-6
    assert_allclose(belief.probability, p.mean(axis=0))
    assert_allclose(belief.mean, score.mean(axis=0), rtol=1e-6)
    assert_allclose(belief.variance, score.var(axis=0, ddof=1), rtol=1e-5)
    gain = entropy(p.mean(axis=0), axis=1) - entropy(p, axis=2).mean(axis=0)
    assert_allclose(belief.gain, gain, atol=1e-9)
    slope = (np.log(p_at(score + h)) - np.log(p_at(score - h))) / (2.0 * h)  # wrong within h of a kink of the loss
    assert_allclose(belief.precision, (p * slope**2).sum(axis=2).mean(axis=0), rtol=0.05)
    monkeypatch.setattr(_raters, "BLOCK", 2 * 3 * len(draws))  # two items at a time
    for name, value in _raters.belief_from_samples(posterior, user, item[:3])._asdict().items():
        if isinstance(value, np.ndarray):
            assert_allclose(value, getattr(belief, name)[:3], err_msg=name)


def test_an_unseen_user_is_some_of_the_trained_ones(model, monkeypatch):
    monkeypatch.setattr(_raters, "_from_draws", lambda score, theta, _: (score, theta))
    n_samples = len(model.posterior_.samples.users)
    for most, n_each in ((1, 1), (n_samples, 1), (n_samples + 1, 2), (1000 * n_samples, 40)):
        set_policy(monkeypatch, "elicitation", most_users=most)
        score, theta = _raters.belief_from_samples(model.posterior_, None, np.array([2, 4]))
        assert (score.shape, theta.shape) == ((n_each * n_samples, 2), (n_each * n_samples, 2))
        assert len(np.unique(score[:, 0])) == len(score)  # nobody twice
