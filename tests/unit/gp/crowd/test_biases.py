"""Position biases of users of two kinds: what answers say of a bias, and intervals in simulations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref import CrowdGPPL
from skpref.datasets import make_crowd
from skpref.gp.crowd import annotators
from skpref.gp.entities import Items
from skpref.gp.pairwise import thresholds

N_ITEMS = 12


def crowd(seed, deviations, n_answers):
    """Rows, answers and biases around 0.3 of users with tastes."""
    rng, n_users = np.random.default_rng(seed), len(deviations)
    f = rng.standard_normal(N_ITEMS) + 0.5 * rng.standard_normal((n_users, N_ITEMS))
    user = np.repeat(np.arange(n_users), n_answers)
    left = rng.integers(0, N_ITEMS, user.size)
    right = (left + rng.integers(1, N_ITEMS, user.size)) % N_ITEMS
    bias = 0.3 + np.asarray(deviations)
    y = f[user, left] - f[user, right] + bias[user] + rng.standard_normal(user.size) > 0.0
    return np.column_stack([user, left, right]), y.astype(int), bias


@pytest.mark.parametrize("with_features", [False, True])
def test_a_measurement_is_that_of_least_squares(monkeypatch, *, with_features):
    data = make_crowd(8, 6, 160, n_factors=1, order_effect=(0.4, 0.5), random_state=2)
    users = data.user_table if with_features else None
    model = CrowdGPPL(users=users, covariates=[3], order_effect=True, max_iter=20, random_state=0)
    covariate = np.random.default_rng(0).standard_normal(160)
    posterior = model.fit(np.column_stack([data.comparisons, covariate]), data.y).posterior_
    seen = []
    learn = thresholds.learn_population
    monkeypatch.setattr(annotators, "learn_population", lambda *args: seen.append(args) or learn(*args))
    mean, variance = annotators._biases(posterior)
    (pull, known, _, _), rows = seen[0], posterior.users
    effects = posterior.x @ posterior.places.spread(posterior.B).T
    alone, others = np.zeros(posterior.m.size), np.ones(posterior.m.size)
    alone[-1], others[-1] = 1.0, 0.0
    C = (posterior.S_places + posterior.V) * np.outer(others, others)
    for u in range(8):
        own = slice(*rows.rows[u : u + 2])
        A = rows.seen_rows(u) @ rows.user_rows(u)
        noise = A @ C @ A.T + np.diag(1.0 / posterior.tau[own])
        rest = posterior.nu[own] / posterior.tau[own] - A @ (others * posterior.m + effects[u])
        by_noise = np.linalg.solve(noise, A @ alone)
        assert_allclose(known[u], A @ alone @ by_noise, rtol=1e-7)
        assert_allclose(pull[u], by_noise @ rest, rtol=1e-6, atol=1e-8)
    found = learn(pull, known, 0.0, (0.0, 1.0))
    assert_allclose(mean, found.mean + effects[:, -1])
    assert_allclose(variance, found.variance)
    assert np.ptp(effects[:, -1]) > 0.0 or not with_features


def test_users_of_one_kind_have_the_biases_of_the_joint_posterior(monkeypatch):
    X, y, _ = crowd(0, 0.6 * np.random.default_rng(1).standard_normal(12), 60)
    posterior = CrowdGPPL(order_effect=True, random_state=0).fit(X, y).posterior_
    joint = posterior.mixture[0]
    monkeypatch.setattr(thresholds, "_SHARES", np.array([[1.0 - 1e-12, 1e-12]]))
    monkeypatch.setattr(thresholds, "_LIKELY", np.ones(1))
    monkeypatch.setattr(thresholds, "_SPREADS", np.sqrt(joint.S[-1:, -1]))
    monkeypatch.setattr(thresholds, "_PRIOR", np.ones(1))
    mean, variance = annotators._biases(joint)
    users, item = Items(None, np.arange(12)), np.zeros(12, dtype=np.int64)
    # An item beside itself: the advantage of the side alone.
    wanted = joint.pairs((users, np.arange(12)), Items(None, np.arange(N_ITEMS)), item, item)
    assert_allclose(mean, wanted[0], atol=0.05)
    assert_allclose(variance, wanted[1], rtol=0.05)


def test_a_few_users_far_from_the_others_keep_their_biases():
    inside, shrunk = np.zeros(2), []
    for seed in range(6):
        deviations = np.append(0.1 * np.random.default_rng(seed).standard_normal(20), np.full(4, 2.0))
        X, y, bias = crowd(seed, deviations, 80)
        model = CrowdGPPL(order_effect=True, random_state=0).fit(X, y)
        report = model.annotators(credibility=0.9, n_samples=20)
        held = report["bias_low"].le(bias) & report["bias_high"].ge(bias)
        inside += held[:20].sum(), held[20:].sum()
        shrunk.append(np.mean(report["bias"][20:] - bias[20:]))
    # Binomial false alarms of 1e-3 at .9 and .85; with one kind of users .78 of the four were inside.
    assert inside[0] > 98
    assert inside[1] > 14
    assert np.mean(shrunk) > -0.35
