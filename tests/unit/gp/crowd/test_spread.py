"""What is not known of the covariance of tastes widens intervals and leaves means alone."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import CrowdGPPL
from skpref.exceptions import DataError
from skpref.gp.crowd import fit_hierarchy, spread
from skpref.gp.crowd.policy import POLICY
from tests.policies import set_policy

pytestmark = pytest.mark.usefixtures("all_candidates")

N_ITEMS, N_USERS = 6, 15


def draw(seed, taste=0.7):
    """Return rows, answers and the personal utilities of users who gave eight answers each."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=N_ITEMS) + taste * rng.normal(size=(N_USERS, N_ITEMS))
    user = np.repeat(np.arange(N_USERS), 8)
    left = rng.integers(0, N_ITEMS, user.size)
    right = (left + rng.integers(1, N_ITEMS, user.size)) % N_ITEMS
    y = (f[user, left] - f[user, right] + rng.normal(size=user.size) > 0.0).astype(float)
    return np.column_stack([user, left, right]), y, f - f.mean(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def model():
    X, y, _ = draw(0)
    return CrowdGPPL(order_effect=True, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def known():
    """The same model, as if S were known."""
    with pytest.MonkeyPatch.context() as patch:
        set_policy(patch, "gp.crowd", largest_spread=0.0, spread_passes=1)  # sites stay
        X, y, _ = draw(0)
        return CrowdGPPL(order_effect=True, random_state=0).fit(X, y)


def test_means_stay_and_variances_grow(model, known):
    X = draw(1)[0]
    users = np.arange(N_USERS)
    for part in (lambda m: m.latent_mean_and_variance(X), lambda m: m.utility(users=users, return_std=True)):
        (mean, width), (wanted, narrow) = part(model), part(known)
        assert_allclose(mean, wanted, atol=1e-9)
        assert (width > narrow).all()
    assert model.utility(return_std=True)[1].mean() > known.utility(return_std=True)[1].mean()
    assert model.order_effect_[1] > known.order_effect_[1]
    bias, wanted = (m.annotators(n_samples=50) for m in (model, known))
    # Reports of biases average over how much users differ by themselves.
    assert_allclose(bias["bias"], wanted["bias"], atol=1e-9)
    assert_allclose(bias["bias_high"], wanted["bias_high"], atol=1e-9)


def test_a_known_covariance_changes_nothing(known):
    alone = known.posterior_.mixture[0]
    items, users = known._seen(known._items), known._seen(known._users)
    for a, b in zip(known.posterior_.utility(users, items), alone.utility(users, items), strict=True):
        assert_allclose(a, b, atol=1e-9)


def test_moments_are_those_of_the_mixture(model):
    posterior, items, users = model.posterior_, model._seen(model._items), model._seen(model._users)
    means, variances = (
        np.array(x) for x in zip(*(p.utility_at_S(users, items) for p in posterior.mixture), strict=True)
    )
    average, second = means[1:].mean(axis=0), (variances + means**2)[1:].mean(axis=0)
    mean, variance = posterior.utility(users, items)
    assert_array_equal(mean, means[0])
    assert_allclose(variance, second - average**2, atol=1e-12)
    # Draws have these moments, too.
    draws = posterior.sample(users.take(np.arange(2)), items, 30_000, np.random.default_rng(0))
    assert_allclose(draws.mean(axis=0), mean[:2], atol=0.05)
    assert_allclose(draws.var(axis=0), variance[:2], rtol=0.06)
    # And so do covariances of pairs.
    X = np.column_stack([np.zeros(4, dtype=int), [0, 1, 2, 3], [1, 2, 3, 5]])
    assert_allclose(np.diagonal(model.latent_covariance(X)), model.latent_mean_and_variance(X)[1], rtol=1e-9)


def test_the_covariance_of_what_users_share_is_that_of_the_mixture(model):
    half, parts = model.posterior_.consensus.half, [p.consensus for p in model.posterior_.mixture]
    assert_allclose(np.triu(half, 1), 0.0)
    means = np.array([p.mean for p in parts])
    wanted = np.mean([p.half.T @ p.half for p in parts[1:]], axis=0) + np.cov(means[1:].T, bias=True)
    assert_allclose(half.T @ half, wanted, rtol=1e-9, atol=1e-12)
    assert_array_equal(model.posterior_.consensus.mean, means[0])


def crowd(n_each, seed=0):
    """Return model and fit of 60 users who gave so many answers about six items."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=N_ITEMS) + rng.normal(size=(60, N_ITEMS))
    user = np.repeat(np.arange(60), n_each)
    left = rng.integers(0, N_ITEMS, user.size)
    right = (left + rng.integers(1, N_ITEMS, user.size)) % N_ITEMS
    y = (f[user, left] - f[user, right] + rng.normal(size=user.size) > 0.0).astype(float)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_hierarchy, "fits_beside", lambda *parts: seen.append(parts) or spread.fits_beside(*parts))
        CrowdGPPL(random_state=0, tol=1e-6).fit(np.column_stack([user, left, right]), y)
    return seen[0]


def test_few_answers_a_user_say_less_of_the_scale_than_numbers_would():
    shares = []
    for n_each in (1, 4, 40):
        model, fit = crowd(n_each)
        shares.append(spread._share_known(model, *spread.end_of_fit(model, fit.state)))
    assert POLICY.least_known <= shares[0] < shares[1] < shares[2] < 1.0
    assert shares[1] < 0.2 < shares[2]


def test_two_steps_give_the_evidence_of_another_scale():
    model, fit = crowd(8)
    move = np.exp(0.25) * np.eye(N_ITEMS)
    moved = spread._follow(model, fit.state, move)
    assert_allclose(moved.state.S, np.exp(0.5) * fit.state.S)
    nobody = np.zeros((N_ITEMS, N_ITEMS)), np.zeros(N_ITEMS)
    alone, state = replace(model, others=nobody), replace(fit.state, S=moved.state.S)
    ended = fit_hierarchy.fit_hierarchy(alone, state, max_iter=100, tol=1e-9)
    assert abs(moved.evidence - ended.evidence) < 1e-2 < abs(moved.evidence - fit.evidence)
    assert_allclose(moved.mean, ended.mean, atol=1e-2)  # whose standard deviations are thirty times as large


def test_a_covariance_of_which_answers_say_nothing_adds_nothing_to_the_evidence(monkeypatch):
    # Thus models whose people differ in other numbers of ways can be compared.
    weights, model, fit = np.array([100.0, 1000.0, 10_000.0]), *crowd(1)
    monkeypatch.setattr(spread, "end_of_fit", lambda model, state: (None, np.zeros_like(state.S), 0.0))
    for n in (1, 2, 5):
        at_prior = replace(fit, state=replace(fit.state, S=np.eye(n)))
        alone = replace(model, shape=np.eye(n), floor=1.0, penalty=0.0)
        added = spread.log_evidence_of_weights(alone, at_prior, weights)
        assert (np.abs(added) < n**3 / weights).all()


@pytest.mark.statistical  # coverage over simulations
def test_intervals_hold_more_of_the_truth_at_the_same_loss():
    hits, before = [], []
    for seed in range(6):
        X, y, f = draw(seed)
        model = CrowdGPPL(random_state=0).fit(X, y)
        items, users = model._seen(model._items), model._seen(model._users)
        for posterior, counts in ((model.posterior_, hits), (model.posterior_.mixture[0], before)):
            mean, variance = posterior.utility(users, items)
            counts.append(np.abs(mean - f) < 1.645 * np.sqrt(variance))
    assert np.mean(hits) > np.mean(before) + 0.02


def test_damage_is_refused(model):
    *first, last = model.posterior_.points
    damages = [(last,), (*first, replace(last, m=last.m[1:])), (*first, replace(last, S=-last.S)), (1, 2, 3)]
    for points in damages:
        with pytest.raises(DataError):
            replace(model.posterior_, points=points).validate()
