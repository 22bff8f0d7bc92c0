"""Is `GibbsM3F`'s chain right? Each conditional and the prior; `test_sbc` asks for the joint distribution.

False-alarm rates are stated where a test draws; all are at most 1e-4 a test.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from skpref._compiled.m3f import Model, StreamName, Thresholds, draw_rows
from skpref.data.ratings import Ratings
from skpref.factorization.max_margin.m3f_chain import (
    MarginPrior,
    draw_population,
    draw_thresholds,
    problem_of,
    start_state,
)

pytestmark = [pytest.mark.statistical, pytest.mark.usefixtures("all_candidates")]
LEVELS, C, MARGIN = 3, 0.8, 1.0


def grid(copies, n_users, n_items, level, prior, width, cost=C):
    """Every user rates every item, many times over."""
    copy, user, item = (a.ravel() for a in np.indices((copies, n_users, n_items)))
    columns = copy * n_users + user, copy * n_items + item, np.broadcast_to(level, user.shape)
    ratings = Ratings(*columns, np.ones(user.size), copies * n_users, copies * n_items, LEVELS).merged()
    return problem_of(ratings, cost, prior, width, MARGIN, np.float64)


@pytest.mark.parametrize("own", [True, False])
def test_factors_given_the_rest_against_quadrature(own):
    """One item, K = 1: alternating lambda and V leaves V the density proportional to N(v) exp(-C loss)."""
    copies = 100_000
    prior = MarginPrior(1.3, np.array([-1.5, 1.5]), 1.5, own)
    users, theta = np.array([0.7, -1.4]), np.array([[-1.0, 0.5], [-2.0, 1.0]] if own else [[-1.0, 0.5]])
    problem = grid(copies, 2, 1, np.tile([0, 2], copies), prior, 1)
    everyone = np.tile(users, copies)[:, None]
    thresholds = Thresholds(np.tile(theta, (copies, 1)) if own else theta, "column" if own else "all")
    v = start_state(problem, 3)["items"]
    for sweep in range(40):
        draw_rows(
            problem.items, v, everyone, thresholds, Model(MARGIN, prior.sigma**-2, np.float64), StreamName(3, sweep, 1)
        )

    def density(x):
        loss = 0.0
        for u, level, t in zip(users, (0, 2), theta if own else np.vstack([theta] * 2), strict=True):
            T = np.where(np.arange(2) >= level, 1.0, -1.0)
            loss += np.maximum(0.0, MARGIN - T * (t - u * x)).sum()
        return np.exp(-C * loss - 0.5 * x**2 / prior.sigma**2)

    x = np.linspace(-12.0, 12.0, 20_001)
    cdf = integrate.cumulative_trapezoid([density(a) for a in x], x, initial=0.0)
    assert stats.kstest(v[:, 0], lambda a: np.interp(a, x, cdf / cdf[-1])).pvalue > 1e-4


def test_thresholds_given_the_rest_against_quadrature():
    """A user whose factor the prior holds at 0: thresholds have the density proportional to N(t) exp(-C loss)."""
    copies, cost = 100_000, 0.9
    prior = MarginPrior(1.0, np.array([-1.5, 1.5]), 1.5, own=True)
    problem = grid(copies, 1, 2, np.tile([0, 2], copies), prior, 1, cost=cost)
    items, theta, model = np.ones((2 * copies, 1)), np.tile(prior.rho, (copies, 1)), Model(MARGIN, 1e14, np.float64)
    for sweep in range(40):
        of_row, name = Thresholds(theta, "row"), StreamName(4, sweep, 2)
        _, sums = draw_rows(problem.users, np.zeros((copies, 1)), items, of_row, model, name, with_sums=True)
        theta = draw_thresholds(sums.precision, sums.linear, draw_population(theta, prior, 4, sweep), 4, sweep)
    x = np.linspace(-14.0, 14.0, 20_001)
    for r in range(2):
        T = np.where(r >= np.array([0, 2]), 1.0, -1.0)
        log_p = -cost * np.maximum(0.0, MARGIN - T * x[:, None]).sum(axis=1)
        log_p -= 0.5 * ((x - prior.rho[r]) / prior.varsigma) ** 2
        cdf = integrate.cumulative_trapezoid(np.exp(log_p), x, initial=0.0)
        assert stats.kstest(theta[:, r], lambda a, cdf=cdf: np.interp(a, x, cdf / cdf[-1])).pvalue > 0.5e-4


@pytest.mark.parametrize("n_users", [2, 7])
def test_the_population_of_thresholds_returns_to_its_prior(n_users):
    """Mean and covariance from the prior, thresholds from them, mean and covariance given these: the prior again."""
    prior, rng, copies = (
        MarginPrior(1.0, np.array([-2.0, 0.0, 3.0]), 1.4, own=True, learnt=True),
        np.random.default_rng(0),
        4000,
    )
    covariance = stats.invwishart(5, prior.varsigma**2 * np.eye(3)).rvs(copies, random_state=rng)
    root = np.linalg.cholesky(covariance)
    mean = prior.rho + np.einsum("cab,cb->ca", root, rng.standard_normal((copies, 3)))
    theta = mean[:, None] + np.einsum("cab,cnb->cna", root, rng.standard_normal((copies, n_users, 3)))
    again = [draw_population(part, prior, copy, 2) for copy, part in enumerate(theta)]
    learnt = np.array([population.mean for population in again])
    inverse = np.array([population.precision for population in again])
    before = np.column_stack([mean, np.linalg.slogdet(covariance)[1], 1.0 / covariance[:, 0, 0], covariance[:, 0, 1]])
    after = np.linalg.inv(inverse)
    after = np.column_stack([learnt, np.linalg.slogdet(after)[1], 1.0 / after[:, 0, 0], after[:, 0, 1]])
    for column, other in zip(before.T, after.T, strict=True):
        assert stats.ks_2samp(column, other).pvalue > 1e-5
