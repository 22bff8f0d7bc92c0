"""Is `GibbsIPM3F`'s chain right? The prior; `test_sbc` asks for the joint distribution of data and parameters.

Numbers of one chain are correlated: standard errors are those of means of 50 batches (Student's t with 49 degrees of
freedom, for which 6 standard errors are a false alarm of 2e-7).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skpref._compiled.ipm3f import draw_ibp_rows
from skpref.data.ratings import Ratings
from skpref.factorization.max_margin.ipm3f_chain import log_ibp, problem_of, start_state, step_of
from skpref.factorization.max_margin.m3f_chain import MarginPrior

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
