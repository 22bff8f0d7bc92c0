"""Simulation-based calibration: are truths drawn from the prior like draws from the posterior of their data?

The rank of a truth among draws of its posterior, or its probability integral transform where the posterior is normal,
is uniform if inference is right. `error_of_width` turns ranks into the factor by which truths scatter more than the
posterior says: 1 if it is right, 1.25 if its standard deviation is 20 % too small. Of n data sets its standard error is
.81 / sqrt(n). Gates lie four standard errors (a false alarm in 1e-4 of runs) from 1, or from the known shortfall of a
variational posterior. Each test shows its power: the same posterior, narrower by 20 %, is refuted.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats

from skpref import Gamma, GPPLClassifier, VariationalFM, VariationalFMClassifier
from skpref._compiled.ipm3f import draw_ibp_rows
from skpref.data.ratings import Ratings
from skpref.factorization.max_margin import ipm3f_chain, m3f_chain
from skpref.factorization.max_margin.m3f_chain import MarginPrior
from skpref.factorization.max_margin.posterior import level_probabilities
from skpref.kernels import ProductMatern

pytestmark = [pytest.mark.statistical, pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]
ALARM = 1e-4
NARROW = 0.8
LEVELS, MARGIN, COST = 3, 1.0, 0.8


def error_of_width(ranks):
    """Return c where ranks are those of truths with c times the posterior's standard deviation, and both normal."""
    s = np.sin(2.0 * np.pi * np.mean((ranks - 0.5) ** 2))
    return np.sqrt(s / (1.0 - s))


def gates(n, shortfall=1.0):
    """Return the interval of `error_of_width` that lets a right posterior pass, or one of known width."""
    margin = stats.norm.isf(0.5 * ALARM) * 0.81 / np.sqrt(n)
    return shortfall - margin, shortfall + margin


def check(ranks, narrower, shortfall=1.0):
    """Assert that ranks are uniform but for a known error of the width, and that a narrower posterior is refuted."""
    low, high = gates(ranks.size, shortfall)
    assert low < error_of_width(ranks) < high
    assert error_of_width(narrower) > high
    if shortfall == 1.0:
        assert stats.kstest(ranks, "uniform").pvalue > ALARM


def check_normal(z, shortfall=1.0):
    """Check errors over the posterior's standard deviations."""
    check(stats.norm.cdf(z), stats.norm.cdf(z / NARROW), shortfall)


# --------------------------------------------------------------------------------------------------------- comparisons
def errors_of_utilities(seed, n_data_sets, amplitude, n_items=8, n_pairs=30):
    """One centred utility of each data set; kernel and scale are known."""
    rng, kernel, z = np.random.default_rng(seed), ProductMatern([1.0, 1.5]), []
    for _ in range(n_data_sets):
        X = rng.standard_normal((n_items, 2))
        K = kernel(X) + 1e-10 * np.eye(n_items)
        f = amplitude * np.linalg.cholesky(K) @ rng.standard_normal(n_items)
        # Every item is compared, so that the average of the compared items is that of all.
        left = np.concatenate([np.arange(n_items), rng.integers(0, n_items, n_pairs - n_items)])
        right = (left + rng.integers(1, n_items, n_pairs)) % n_items
        y = (f[left] - f[right] + rng.standard_normal(n_pairs) > 0.0).astype(int)
        scale = {"scale_prior": Gamma(1e6 / amplitude**2, 1e6)}
        model = GPPLClassifier(X, kernel, item_effects=False, random_state=0, **scale)
        mean, std = model.fit(np.column_stack([left, right]), y).utility([0], return_std=True)
        z.append((f[0] - f.mean() - mean[0]) / std[0])
    return np.array(z)


def test_vb_of_comparisons():
    check_normal(errors_of_utilities(1, 1000, amplitude=1.0))


def test_vb_of_sure_answers_is_too_narrow():
    # Utilities three times as large: posteriors are skewed. Measured on two other seeds: 1.086 and 1.084, and 92 % of
    # the truths in intervals of 95 %.
    check_normal(errors_of_utilities(2, 1000, amplitude=3.0), shortfall=1.085)


# ---------------------------------------------------------------------------------------------- factorization machines
def errors_of_machines(seed, n_data_sets, *, binary):
    """y(x) of one pair of each data set. The classifier knows the priors, the regressor learns them and the noise."""
    n_users, n_items, n, d = (12, 10, 300, 1) if binary else (30, 20, 400, 2)
    rng, z = np.random.default_rng(seed), []
    options = {"n_factors": d, "groups": np.repeat([0, 1], [n_users, n_items]), "random_state": 0}

    def design(user, item):
        at = np.tile(np.arange(user.size), 2), np.concatenate([user, n_users + item])
        return sparse.csr_matrix((np.ones(2 * user.size), at), (user.size, n_users + n_items))

    for _ in range(n_data_sets):
        w, v = rng.standard_normal(n_users + n_items), rng.standard_normal((n_users + n_items, d))
        user, item = rng.integers(0, n_users, n + 1), rng.integers(0, n_items, n + 1)
        truth = w[user] + w[n_users + item] + np.einsum("nd,nd->n", v[user], v[n_users + item])
        truth += rng.standard_normal() if binary else 0.0
        y = truth + rng.standard_normal(n + 1)
        X = design(user, item)
        if binary:
            # Labels that are all the same are refused; what is refused depends on the data alone.
            label = (y > 0.0).astype(int)[:n]
            if label.min() == label.max():
                continue
            model = VariationalFMClassifier(learn_priors=False, **options).fit(X[:n], label)
        else:
            model = VariationalFM(**options).fit(X[:n], y[:n])
        mean, variance = model.latent_mean_and_variance(X[n:])
        z.append((truth[n] - mean[0]) / np.sqrt(variance[0]))
    return np.array(z)


def test_factorization_machine_with_learnt_priors():
    # Features are independent in the posterior. Measured on two other seeds: 1.04 and 1.11, and 92 % in those of 95 %.
    check_normal(errors_of_machines(1, 600, binary=False), shortfall=1.075)


def test_factorization_machine_of_two_classes():
    # Measured on two other seeds: 1.055 and 1.05, and 92 % in intervals of 95 %.
    check_normal(errors_of_machines(2, 600, binary=True), shortfall=1.05)


# ------------------------------------------------------------------------------------------------------------- ratings
def probabilities(score, theta):
    """Return the likelihood of every level of ratings with thresholds, shape (n, levels), and its normalisers' logs."""
    loss = np.zeros((score.size, LEVELS))
    for level in range(LEVELS):
        T = np.where(np.arange(LEVELS - 1) >= level, 1.0, -1.0)
        loss[:, level] = np.maximum(0.0, MARGIN - T * (theta - score[:, None])).sum(axis=1)
    normaliser = np.log(np.exp(-COST * loss).sum(axis=1))
    return level_probabilities(score, theta, COST, MARGIN), normaliser


def levels_drawn(rng, p):
    return np.minimum((np.cumsum(p, axis=1) < rng.random((len(p), 1))).sum(axis=1), LEVELS - 1)


def ranks_among(rng, truth, draws):
    """Return random ranks of truths, shape (n,), among their draws, shape (n_draws, n)."""
    return ((draws < truth).sum(axis=0) + rng.random(truth.size)) / (len(draws) + 1.0)


def narrowed(draws):
    mean = draws.mean(axis=0)
    return mean + NARROW * (draws - mean)


PRIOR = MarginPrior(1.0, np.array([-1.0, 1.0]), 1.2, own=True)


def test_gibbs_m3f():
    """Many copies of two users and two items, in one chain; truths from the genuine prior, resampled by weights.

    The genuine prior is that of the factors and thresholds times the normalisers of the likelihood over levels.
    """
    copies, width, n_users, n_items, rng = 2000, 2, 2, 2, np.random.default_rng(3)
    pool = 30 * copies
    U, V = rng.standard_normal((pool, n_users, width)), rng.standard_normal((pool, n_items, width))
    theta = PRIOR.rho + PRIOR.varsigma * rng.standard_normal((pool, n_users, LEVELS - 1))
    p, normaliser = probabilities((U @ V.transpose(0, 2, 1)).ravel(), theta.repeat(n_items, axis=1).reshape(-1, 2))
    weight = np.exp(normaliser.reshape(pool, -1).sum(axis=1))
    chosen = rng.choice(pool, copies, p=weight / weight.sum())
    level = levels_drawn(rng, p.reshape(pool, -1, LEVELS)[chosen].reshape(-1, LEVELS))
    user = np.repeat(np.arange(copies * n_users), n_items)
    item = (np.arange(copies)[:, None, None] * n_items + np.arange(n_items)).repeat(n_users, axis=1).ravel()
    ratings = Ratings(user, item, level, np.ones(user.size), copies * n_users, copies * n_items, LEVELS).merged()
    problem = m3f_chain.problem_of(ratings, COST, PRIOR, width, MARGIN, np.float64)
    state, step, scores, thresholds = m3f_chain.start_state(problem, 3), m3f_chain.step_of(problem), [], []
    for sweep in range(1, 501):
        state, _ = step(state, sweep)
        if sweep > 100 and sweep % 10 == 0:
            scores.append(np.einsum("nk,nk->n", state["users"][::n_users], state["items"][::n_items]))
            thresholds.append(state["thresholds"][::n_users, 0])
    for truth, draws in (
        (np.einsum("nk,nk->n", U[chosen, 0], V[chosen, 0]), np.array(scores)),
        (theta[chosen, 0, 0], np.array(thresholds)),
    ):
        check(ranks_among(rng, truth, draws), ranks_among(rng, truth, narrowed(draws)))


def test_gibbs_ipm3f():
    """A chain for each data set, for its users share features. See `test_gibbs_m3f`."""
    n_users, n_items, n_data_sets, alpha, rng = 2, 2, 1000, 1.3, np.random.default_rng(4)
    user, item = (a.ravel() for a in np.indices((n_users, n_items)))
    pool, weight = [], []
    nobody = np.zeros((0, 0), np.uint8)
    for draw in range(20 * n_data_sets):
        Z = draw_ibp_rows(draw, 1, nobody, n_users, alpha)
        V = rng.standard_normal((n_items, Z.shape[1]))
        theta = PRIOR.rho + PRIOR.varsigma * rng.standard_normal((n_users, LEVELS - 1))
        p, normaliser = probabilities((Z @ V.T).ravel(), np.repeat(theta, n_items, axis=0))
        pool.append(((Z[0] @ V[0], theta[0, 0]), p))
        weight.append(np.exp(normaliser.sum()))
    truths, draws = [], []
    for k, at in enumerate(rng.choice(len(pool), n_data_sets, p=np.array(weight) / np.sum(weight))):
        truth, p = pool[at]
        ones = np.ones(user.size)
        ratings = Ratings(user, item, levels_drawn(rng, p), ones, n_users, n_items, LEVELS).merged()
        problem = ipm3f_chain.problem_of(ratings, COST, PRIOR, MARGIN, alpha, 10)
        state, step, kept = ipm3f_chain.start_state(problem, 1000 + k), ipm3f_chain.step_of(problem), []
        for sweep in range(1, 161):
            state, _ = step(state, sweep)
            if sweep > 60 and sweep % 5 == 0:
                kept.append((state["users"][0] @ state["items"][0], state["thresholds"][0, 0]))
        truths.append(truth)
        draws.append(kept)
    for truth, drawn in zip(np.array(truths).T, np.array(draws).T, strict=True):
        # A user without features has a score of exactly zero: break ties of truths and draws by the same coin.
        tiny = 1e-9 * rng.standard_normal((len(drawn) + 1, truth.size))
        check(
            ranks_among(rng, truth + tiny[0], drawn + tiny[1:]),
            ranks_among(rng, truth + tiny[0], narrowed(drawn) + tiny[1:]),
        )


def test_gibbs_m3f_with_learnt_means():
    """A chain for each data set, for its users share a mean of factors, a mean and a covariance of thresholds.

    Power, besides that of `check`: chains that take the prior's mean and variance of thresholds for those of the users
    are refuted by the users' mean threshold (measured: 1.31 and 1.40, of standard error .04).
    """
    n_users, n_items, width, n_data_sets, rng = 4, 2, 2, 500, np.random.default_rng(5)
    user, item = (a.ravel() for a in np.indices((n_users, n_items)))
    pool, size, ones = 20 * n_data_sets, LEVELS - 1, np.ones(user.size)
    U, V = rng.standard_normal((pool, n_users, width)), rng.standard_normal((pool, n_items, width))
    U += rng.standard_normal((pool, 1, width)) / np.sqrt(3.0)
    root = np.linalg.cholesky(stats.invwishart(LEVELS + 1, PRIOR.varsigma**2 * np.eye(size)).rvs(pool, rng))
    mean = PRIOR.rho + np.einsum("pab,pb->pa", root, rng.standard_normal((pool, size)))
    theta = mean[:, None] + np.einsum("pab,pub->pua", root, rng.standard_normal((pool, n_users, size)))
    p, normaliser = probabilities((U @ V.transpose(0, 2, 1)).ravel(), theta.repeat(n_items, axis=1).reshape(-1, size))
    weight = np.exp(normaliser.reshape(pool, -1).sum(axis=1))
    truths, right, wrong = [], [], []
    for k, at in enumerate(rng.choice(pool, n_data_sets, p=weight / weight.sum())):
        level = levels_drawn(rng, p.reshape(pool, -1, LEVELS)[at])
        ratings = Ratings(user, item, level, ones, n_users, n_items, LEVELS).merged()
        truths.append((theta[at, :, 1].mean(), theta[at, 0, 0], U[at, 0] @ V[at, 0], U[at].mean(axis=0) @ V[at, 0]))
        for prior, draws in ((replace(PRIOR, learnt=True), right), (PRIOR, wrong)):
            problem = m3f_chain.problem_of(ratings, COST, prior, width, MARGIN, np.float64)
            state, step, kept = m3f_chain.start_state(problem, 1000 + k), m3f_chain.step_of(problem), []
            for sweep in range(1, 201):
                state, _ = step(state, sweep)
                if sweep > 50 and sweep % 5 == 0:
                    cut, score = state["thresholds"], state["users"] @ state["items"][0]
                    kept.append((cut[:, 1].mean(), cut[0, 0], score[0], score.mean()))
            draws.append(kept)
    truth, drawn, of_fixed = (np.moveaxis(np.array(values), -1, 0) for values in (truths, right, wrong))
    for quantity, draws in zip(truth, np.swapaxes(drawn, 1, 2), strict=True):
        check(ranks_among(rng, quantity, draws), ranks_among(rng, quantity, narrowed(draws)))
    assert error_of_width(ranks_among(rng, truth[0], of_fixed[0].T)) > gates(n_data_sets)[1]
