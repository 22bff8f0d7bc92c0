"""What users' posteriors say of items that were not compared, against the joint prior of seen and new items."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF

from skpref import CrowdGPPL, FactorPrior
from skpref.datasets import make_crowd
from skpref.exceptions import DataError
from skpref.gp.crowd import fit_hierarchy
from skpref.gp.crowd.shape import Shape
from skpref.gp.entities import Items
from skpref.inference.basis import InducingBasis

DATA = make_crowd(n_users=12, n_items=6, n_comparisons=200, n_factors=1, random_state=2)
FEATURES = np.asarray(DATA.table.features)
NEW = FEATURES[:3] + np.array([[0.0], [0.5], [3.0]])


def fitted(**options):
    return CrowdGPPL(**{"max_iter": 60, "random_state": 0, **options}).fit(DATA.comparisons, DATA.y)


@cache
def with_features(**options):
    """The posterior with features of users and, without an order effect, of items."""
    items = None if options else DATA.table
    return fitted(users=DATA.user_table, items=items, **options).posterior_


@pytest.mark.parametrize("share", [0.1, 0.4, 1.0])
@pytest.mark.parametrize("order", [False, True])
def test_new_items_follow_from_the_seen_ones_as_in_the_prior(monkeypatch, share, *, order):
    def shape(_model, data, _items, kernels, _scales, _config, pair):
        return Shape.from_basis(
            InducingBasis.from_points(kernels.factors, pair.points), data.items, 6, share, order=order
        )

    monkeypatch.setattr(fit_hierarchy, "choose_shape", shape)
    model = fitted(
        items=DATA.table, order_effect=order, kernel=RBF(1.5), factor_prior=FactorPrior(item_kernel=RBF(1.0))
    )
    posterior, n, kernel = model.posterior_, 6, RBF(1.0)
    assert posterior.own_share == share
    seen = FEATURES[model.item_ids_]
    # With as many inducing points as items, nothing of the kernel is lost.
    prior = (1.0 - share) * kernel(np.vstack([seen, NEW])) + share * np.eye(n + 3)
    weights = np.zeros((3, n + order))
    weights[:, :n] = prior[n:, :n] @ np.linalg.inv(prior[:n, :n])
    rest = posterior.rest_scale * np.diag(prior[n:, n:] - weights[:, :n] @ prior[:n, n:])
    reach = posterior._reach(Items(NEW, np.full(3, -1)))
    assert_allclose(reach.weights, weights, atol=1e-6)
    assert_allclose(reach.rest, rest, atol=1e-6 * posterior.rest_scale)
    assert posterior.rest_scale > 0.0


def test_new_items_without_features_are_independent():
    posterior = fitted().posterior_
    reach = posterior._reach(Items(None, np.array([-1, 2])))
    assert_allclose(reach.rest, [posterior.rest_scale, 0.0])
    assert_allclose(reach.weights, [np.zeros(6), np.eye(6)[2]])


def test_kernels_that_are_given_are_those_of_the_consensus_and_of_tastes():
    model = fitted(items=DATA.table, kernel=RBF(1.5), factor_prior=FactorPrior(item_kernel=RBF(0.7)))
    assert model.kernel_ == RBF(1.5)
    assert model.factor_kernel_ == model.posterior_.basis.kernel == RBF(0.7)
    assert fitted(items=None).factor_kernel_ is None


@pytest.mark.parametrize("position", [-1, 3, None])
def test_draws_of_users_with_features_have_the_moments(position):
    posterior = with_features()
    features = None if position is None else DATA.user_table.features[3:4] if position == 3 else np.array([[2.0, -1.0]])
    person = Items(features, np.array([-1 if position is None else position]))
    items = Items(np.vstack([FEATURES, NEW]), np.array([*range(6), -1, -1, -1]))
    n = 20_000
    draws = posterior.sample(person, items, n, np.random.default_rng(0))[:, 0]
    mean, variance = posterior.utility(person, items)
    assert np.abs(posterior.B).max() > 1e-3
    assert np.all(np.abs(draws.mean(axis=0) - mean[0]) < 6.0 * np.sqrt(variance[0] / n))
    assert_allclose(draws.var(axis=0), variance[0], rtol=6.0 * np.sqrt(2.0 / n))


@pytest.mark.parametrize("position", [-1, 3, None])
def test_pairs_with_new_items_have_the_moments_of_draws(position):
    posterior = with_features()
    features = None if position is None else DATA.user_table.features[3:4]
    person = Items(features, np.array([-1 if position is None else position]))
    items = Items(np.vstack([FEATURES, NEW]), np.array([*range(6), -1, -1, -1]))
    left, right, n = np.array([6, 0, 6, 8, 2]), np.array([0, 7, 8, 5, 4]), 20_000
    draws = posterior.sample(person, items, n, np.random.default_rng(0))[:, 0]
    z = draws[:, left] - draws[:, right]
    mean, variance = posterior.pairs((person, np.zeros(5, dtype=np.int64)), items, left, right)
    assert np.all(np.abs(z.mean(axis=0) - mean) < 6.0 * np.sqrt(variance / n))
    assert_allclose(z.var(axis=0), variance, rtol=6.0 * np.sqrt(2.0 / n))
    assert_allclose(np.diagonal(posterior.pair_covariance(person, items, left, right)), variance, rtol=1e-9)
    utility = posterior.utility(person, items)[0][0]
    assert_allclose(utility[left] - utility[right], mean, atol=1e-9)


@pytest.mark.parametrize("known", [False, True])
def test_the_advantage_of_a_side_has_one_variance(*, known):
    posterior = with_features(order_effect=True)
    features = np.asarray(DATA.user_table.features)[[3, 0, 5]]
    users = Items(features, np.array([3, -1, 5])) if known else Items(None, np.array([-1]))
    place = np.zeros(users.size, dtype=np.int64)
    variance = posterior.pairs((users, np.arange(users.size)), Items(None, np.arange(6)), place, place)[1]
    for k in range(users.size):
        C = posterior.pair_covariance(users.take(np.array([k])), Items(None, np.arange(6)), place[:1], place[:1])
        assert_allclose(C, variance[k], rtol=1e-9)


def test_records_hold_what_can_be_and_refuse_what_cannot():
    posterior = with_features()
    n, p = posterior.B.shape
    sound = [
        {"own_share": 0.0, "rest_scale": 0.0, "effect_variance": np.zeros((n, p)), "n_learnt": 0},
        {"n_learnt": posterior.tau.size},
    ]
    for change in sound:
        replace(posterior, **change).validate()
    damaged = {
        "own_share": [-1e-9, np.nan, 1],
        "rest_scale": [-1e-9, np.inf],
        "effect_variance": [np.full((n, p), -1e-9), np.ones((n, p + 1))],
        "effect_precision": [0.0],
        "n_learnt": [-1, posterior.tau.size + 1, 2.0],
        "tau": [posterior.tau * 0.0, posterior.tau[:-1]],
        "left": [posterior.left - 1, posterior.left + 6],
        "right": [posterior.right + 6],
        "user": [posterior.user + 1, posterior.user[::-1].copy()],
        "alpha": [posterior.alpha[:-1]],
        "S": [-posterior.S, posterior.S + np.triu(np.ones((n, n)), 1), posterior.S * 0.0],
        "S_new": [-posterior.S_new, posterior.S_new + np.triu(np.ones((n, n)), 1), posterior.S_new[:-1]],
        "covariates": [None],
        "x": [posterior.x[:-1]],
    }
    for name, values in damaged.items():
        for value in values:
            with pytest.raises(DataError):
                replace(posterior, **{name: value}).validate()
    with pytest.raises(DataError, match="spread"):
        replace(posterior.covariates, spread=np.zeros(p)).validate()


def test_directions_without_tastes_are_no_factors():
    posterior = with_features()
    n = posterior.n_seen
    seen, rng = Items(None, np.arange(n)), np.random.default_rng(0)
    S = posterior.S.copy()
    S[:n, :n] = 1e-16 * np.eye(n)
    S[:n, :n] += np.outer(np.arange(n), np.arange(n))
    flat = replace(posterior, S=S, points=(), B=np.zeros_like(posterior.B))
    scales, of_items, of_users = flat.factors(3, seen)
    assert scales[0] > 0.0
    assert not scales[1:].any()
    assert not of_items[:, 1:].any()
    assert not of_users[:, 1:].any()
    # Rounding changes nothing but signs.
    moved = replace(flat, S=S * (1.0 + 1e-15 * rng.standard_normal(S.shape))).factors(3, seen)
    for values, again in zip((scales, of_items, of_users), moved, strict=True):
        assert_allclose(np.abs(values), np.abs(again), atol=1e-6)


def test_factors_of_some_users_at_a_time(monkeypatch):
    posterior = with_features()
    seen = Items(None, np.arange(posterior.n_seen))
    wanted = posterior.factors(3, seen)
    monkeypatch.setattr("skpref.gp.crowd.personal.chunks", lambda n: [slice(k, k + 5) for k in range(0, n, 5)])
    for values, whole in zip(posterior.factors(3, seen), wanted, strict=True):
        assert_allclose(values, whole, atol=1e-12)
