"""Is `GibbsIPM3F`'s chain right? The prior, and the joint distribution of data and parameters.

Numbers of one chain are correlated: standard errors are those of means of 50 batches (Student's t with 49 degrees of
freedom, for which 6 standard errors are a false alarm of 2e-7).
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from skpref._compiled.ipm3f import draw_ibp_rows
from skpref.data.ratings import Ratings
from skpref.factorization.max_margin.ipm3f_chain import log_ibp, problem_of, start_state, step_of
from skpref.factorization.max_margin.m3f_chain import MarginPrior
from skpref.factorization.max_margin.posterior import level_probabilities

pytestmark = [pytest.mark.statistical, pytest.mark.usefixtures("all_candidates")]
LEVELS, MARGIN, ALPHA = 3, 1.0, 1.3
NOBODY = np.zeros((0, 0), np.uint8)


def grid(n_users, n_items, cost):
    """Every user rates every item."""
    user, item = (a.ravel() for a in np.indices((n_users, n_items)))
    ratings = Ratings(user, item, np.zeros(user.size, np.int64), np.ones(user.size), n_users, n_items, LEVELS).merged()
    return problem_of(ratings, cost, MarginPrior(1.0, np.array([-1.0, 1.0]), 1.2, own=True), MARGIN, ALPHA, 10)


def batch_means(values):
    """Mean and standard error of correlated rows."""
    means = values[: len(values) // 50 * 50].reshape(50, -1, *values.shape[1:]).mean(axis=1)
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(50)


def test_customers_follow_the_buffet():
    n, draws = 6, 4000
    Z = [draw_ibp_rows(seed, 1, NOBODY, n, ALPHA) for seed in range(draws)]
    K = np.bincount([z.shape[1] for z in Z])
    wanted = draws * stats.poisson(ALPHA * (1.0 / np.arange(1, n + 1)).sum()).pmf(np.arange(K.size))
    use = wanted > 5
    assert stats.chisquare(K[use], wanted[use] * K[use].sum() / wanted[use].sum()).pvalue > 1e-5
    held = np.array([z.sum(axis=1) for z in Z])
    assert np.abs(held.mean(axis=0) - ALPHA).max() < 6.0 * np.sqrt(ALPHA / draws)
    assert np.abs(held.var(axis=0) - ALPHA).max() < 6.0 * np.sqrt((ALPHA + 2 * ALPHA**2) / draws)
    first = draw_ibp_rows(3, 1, NOBODY, 4, ALPHA)
    np.testing.assert_array_equal(draw_ibp_rows(3, 1, first, 9, ALPHA)[:4, : first.shape[1]], first)


def test_log_probability_of_the_buffet_sums_to_one():
    """Over all tables of two users: (a, b, c) features of the first alone, of the second alone, of both."""
    total = 0.0
    for a, b, c in np.ndindex(18, 18, 18):
        Z = np.repeat(np.array([[1, 0, 1], [0, 1, 1]], np.uint8), (a, b, c), axis=1)
        total += np.exp(log_ibp(Z, ALPHA)) if Z.size else np.exp(-1.5 * ALPHA)
    assert total == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_without_a_loss_features_follow_the_prior(seed):
    n_users, n = 5, 8000
    problem = grid(n_users, 2, 0.0)
    state, step = start_state(problem, seed), step_of(problem)
    # Far from the prior: all users hold ten features.
    state = {
        **state,
        "users": np.ones((n_users, 10), np.uint8),
        "items": np.full((2, 10), 3.0),
        "feature": np.arange(100, 110),
        "born": np.array(110),
    }
    values = []
    for sweep in range(1, n + 401):
        state, _ = step(state, sweep)
        if sweep > 400:
            Z, held = state["users"], state["users"].sum(axis=1)
            square = (Z @ state["items"].T) ** 2
            counts = np.bincount(np.minimum(held, 4), minlength=5)[:4] / n_users
            values.append([Z.shape[1], Z.shape[1] ** 2, held.mean(), (held**2).mean(), square.mean(), *counts])
    mean, error = batch_means(np.array(values, dtype=np.float64))
    rate = ALPHA * (1.0 / np.arange(1, n_users + 1)).sum()
    wanted = [rate, rate + rate**2, ALPHA, ALPHA + ALPHA**2, ALPHA, *stats.poisson(ALPHA).pmf(np.arange(4))]
    assert np.abs((mean - wanted) / error).max() < 6.0


def summaries(state, level):
    """Numbers that parameters and data enter; they do not depend on the order of features."""
    Z, theta = state["users"].astype(float), state["thresholds"]
    X, y = Z @ state["items"].T, level.reshape(len(Z), -1)
    held = Z.sum(axis=1)
    return np.array(
        [
            Z.shape[1],
            Z.shape[1] ** 2,
            held.mean(),
            (held**2).mean(),
            (X**2).mean(),
            np.abs(X).mean(),
            (X * y).mean(),
            (y * held[:, None]).mean(),
            y.mean(),
            (y == 1).mean(),
            theta[:, 0].mean(),
            (theta[:, :1] * y).mean(),
            (X[:, :1] * theta).mean(),
            (Z.T @ Z).sum(),
        ]
    )


@pytest.mark.parametrize(("n_users", "n_items", "seed"), [(3, 2, 0), (2, 3, 1)])
def test_geweke_joint_distribution(n_users, n_items, seed):
    """Parameters from the genuine prior, by weights, and data from them, against the chain that redraws both in turn.

    See `test_m3f.test_geweke_joint_distribution`.
    """
    cost, n_chain, n_prior, rng = 0.8, 8000, 8000, np.random.default_rng(seed)
    problem = grid(n_users, n_items, cost)
    prior = problem.prior

    def probabilities(state):
        score = (state["users"] @ state["items"].T).ravel()
        theta = np.repeat(state["thresholds"], n_items, axis=0)
        loss = np.zeros((score.size, LEVELS))
        for level in range(LEVELS):
            T = np.where(np.arange(2) >= level, 1.0, -1.0)
            loss[:, level] = np.maximum(0.0, MARGIN - T * (theta - score[:, None])).sum(axis=1)
        p = np.exp(-cost * loss)
        np.testing.assert_allclose(level_probabilities(score, theta, cost, MARGIN), p / p.sum(axis=1)[:, None])
        return p

    def redrawn(p):
        share = np.cumsum(p, axis=1) / p.sum(axis=1, keepdims=True)
        return np.minimum((share < rng.random((len(p), 1))).sum(axis=1), LEVELS - 1)

    wanted, weight = [], []
    for draw in range(n_prior):
        Z = draw_ibp_rows(10**6 * (seed + 1) + draw, 1, NOBODY, n_users, ALPHA)
        state = {
            "users": Z,
            "items": prior.sigma * rng.standard_normal((n_items, Z.shape[1])),
            "thresholds": prior.rho + prior.varsigma * rng.standard_normal((n_users, LEVELS - 1)),
        }
        p = probabilities(state)
        weight.append(np.prod(p.sum(axis=1)))
        wanted.append(summaries(state, redrawn(p)))
    weight, values = np.array(weight), np.array(wanted)
    mean = weight @ values / weight.sum()
    error = np.sqrt(((weight[:, None] * (values - mean)) ** 2).sum(axis=0)) / weight.sum()

    state, found = start_state(problem, seed), []
    for sweep in range(1, n_chain + 201):
        level = redrawn(probabilities(state))
        found.append(summaries(state, level))
        by_item = level.reshape(n_users, n_items).T.ravel()
        problem = replace(
            problem,
            users=problem.users._replace(level=level.astype(np.int16)),
            items=problem.items._replace(level=by_item.astype(np.int16)),
        )
        state, _ = step_of(problem)(state, sweep)
    ours, ours_error = batch_means(np.array(found)[200:])
    assert np.abs((ours - mean) / np.hypot(error, ours_error)).max() < 6.0
    # The test has power: the dele-prior without the normalisers is refuted.
    assert np.abs((ours - values.mean(axis=0)) / ours_error).max() > 6.0
