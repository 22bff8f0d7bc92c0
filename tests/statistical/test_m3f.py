"""Is `GibbsM3F`'s chain right? Each conditional, the prior, and the joint distribution of data and parameters.

False-alarm rates are stated where a test draws; all are at most 1e-4 a test.
"""

from dataclasses import replace

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
    step_of,
)
from skpref.factorization.max_margin.posterior import level_probabilities

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


def test_without_a_loss_the_chain_returns_to_the_prior():
    copies = 20_000
    prior = MarginPrior(1.3, np.array([-1.5, 1.5]), 1.5, own=True)
    problem = grid(copies, 2, 2, 1, prior, 3, cost=0.0)
    state = start_state(problem, 8)
    state = {**state, "users": state["users"] + 5.0, "items": state["items"] - 5.0}
    step = step_of(problem)
    for sweep in range(1, 4):
        state, _ = step(state, sweep)
    for name in ("users", "items"):
        assert stats.kstest(state[name].ravel() / prior.sigma, "norm").pvalue > 1e-5
    assert stats.kstest(((state["thresholds"] - prior.rho) / prior.varsigma).ravel(), "norm").pvalue > 1e-5


def summaries(state, level, copies, n_users, n_items):
    """Numbers of each copy that parameters and data enter."""
    X = state["users"].reshape(copies, n_users, -1) @ state["items"].reshape(copies, n_items, -1).transpose(0, 2, 1)
    own = state["thresholds"].shape[0] > 1
    theta = state["thresholds"].reshape(copies, n_users, -1) if own else None
    y = level.reshape(copies, n_users, n_items)
    parts = [X**2, np.abs(X), X * y, y, y**2, (y == 1)]
    if own:
        parts += [theta[..., 0], theta[..., 1], theta**2, theta[..., :1] * y, X[..., :1] * theta]
    return np.column_stack([part.reshape(copies, -1).mean(axis=1) for part in parts])


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("width", "n_users", "n_items"), [(1, 2, 2), (3, 2, 3), (2, 1, 3)])
def test_geweke_joint_distribution(width, n_users, n_items, seed):
    """Parameters from the genuine prior, by weights, and data from them, against the chain that redraws both in turn.

    The genuine prior is the dele-prior times the normalisers of exp(-C loss) over levels (paper 001, section 2.1). Of
    11 summaries each, six standard errors are a false alarm in less than 1e-7 of runs if means are normal; weights make
    tails heavier, hence not less.
    """
    copies, rng = 3_000, np.random.default_rng(seed)
    prior = MarginPrior(1.0, np.array([-1.0, 1.0]), 1.2, own=True)
    user = np.repeat(np.arange(copies * n_users), n_items)
    item = (np.arange(copies)[:, None, None] * n_items + np.arange(n_items)).repeat(n_users, axis=1).ravel()

    def scored(state):
        score = np.einsum("nk,nk->n", state["users"][user], state["items"][item])
        return score, state["thresholds"][user]

    def redrawn(state):
        p = level_probabilities(*scored(state), C, MARGIN)
        return np.minimum((np.cumsum(p, axis=1) < rng.random((user.size, 1))).sum(axis=1), LEVELS - 1)

    def normaliser(state):
        score, theta = scored(state)
        loss = np.zeros((user.size, LEVELS))
        for level in range(LEVELS):
            T = np.where(np.arange(2) >= level, 1.0, -1.0)
            loss[:, level] = np.maximum(0.0, MARGIN - T * (theta - score[:, None])).sum(axis=1)
        np.testing.assert_allclose(
            level_probabilities(score, theta, C, MARGIN),
            np.exp(-C * loss) / np.exp(-C * loss).sum(axis=1, keepdims=True),
            atol=1e-12,
        )
        return np.log(np.exp(-C * loss).sum(axis=1)).reshape(copies, -1).sum(axis=1)

    problem = grid(copies, n_users, n_items, 0, prior, width)
    wanted, weights = [], []
    for _ in range(30):
        state = {
            "users": prior.sigma * rng.standard_normal((copies * n_users, width)),
            "items": prior.sigma * rng.standard_normal((copies * n_items, width)),
            "thresholds": prior.rho + prior.varsigma * rng.standard_normal((copies * n_users, LEVELS - 1)),
        }
        weights.append(np.exp(normaliser(state)))
        wanted.append(summaries(state, redrawn(state), copies, n_users, n_items))
    weight, values = np.concatenate(weights), np.vstack(wanted)
    mean = weight @ values / weight.sum()
    error = np.sqrt(((weight[:, None] * (values - mean)) ** 2).sum(axis=0)) / weight.sum()

    state, total, n_kept = {**start_state(problem, seed), **state}, 0.0, 30
    for sweep in range(1, 41 + n_kept):
        level = redrawn(state)
        by_item = level[np.argsort(item, kind="stable")]
        problem = replace(
            problem,
            users=problem.users._replace(level=level.astype(np.int16)),
            items=problem.items._replace(level=by_item.astype(np.int16)),
        )
        state, _ = step_of(problem)(state, sweep)
        if sweep > 40:
            total += summaries(state, redrawn(state), copies, n_users, n_items) / n_kept
    z = (total.mean(axis=0) - mean) / np.hypot(error, total.std(axis=0, ddof=1) / np.sqrt(copies))
    assert np.abs(z).max() < 6.0, z
    # The test has power: the dele-prior without the normalisers is refuted.
    apart = (total.mean(axis=0) - values.mean(axis=0)) / (total.std(axis=0, ddof=1) / np.sqrt(copies))
    assert np.abs(apart).max() > 6.0
