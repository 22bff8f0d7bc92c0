"""Covariances between pairs, against variances, utilities and draws."""

import numpy as np
import pytest

from skpref import CrowdGPPL, GPPLClassifier
from skpref.datasets import make_crowd
from skpref.exceptions import DataError
from skpref.gp.crowd.posterior import UNSEEN_USER

DATA = make_crowd(n_users=30, n_items=8, n_comparisons=1500, n_factors=1, random_state=2)
PAIRS = [[0, 1], [1, 2], [3, 0], [4, 4], [1, 0]]


@pytest.mark.parametrize("items", [None, DATA.table])
@pytest.mark.parametrize("order", [False, True])
def test_covariance_of_pairs(items, order):
    pairs = [row[1:] for row in np.asarray(DATA.comparisons).tolist()]
    model = GPPLClassifier(items, order_effect=order).fit(pairs, DATA.y)
    C, (mean, variance) = model.latent_covariance(PAIRS), model.latent_mean_and_variance(PAIRS)
    np.testing.assert_allclose(np.diagonal(C), variance, atol=1e-12)
    np.testing.assert_allclose(mean, model.decision_function(PAIRS))
    assert np.linalg.eigvalsh(C).min() > -1e-12
    if order:
        assert C[3, 3] == pytest.approx(model.order_effect_[1] ** 2)
        # u(0) - u(1) + b and u(1) - u(0) + b: what is left of their sum is twice the order effect.
        assert C[0, 0] + C[4, 4] + 2.0 * C[0, 4] == pytest.approx(4.0 * model.order_effect_[1] ** 2)
    else:
        of_items = model.utility([0, 1, 2, 3, 4], return_cov=True)[1]
        D = np.zeros((5, 5))
        for row, (a, b) in enumerate(PAIRS):
            D[row, a] += 1.0
            D[row, b] -= 1.0
        np.testing.assert_allclose(C, D @ of_items @ D.T, atol=1e-12)


@pytest.mark.parametrize("items", [None, DATA.table])
@pytest.mark.parametrize("user", [3, "unseen"])
@pytest.mark.parametrize("inference", ["vb", "ep"])
def test_covariance_of_a_users_pairs(inference, items, user):
    options = {"n_factors": 2, "max_iter": 30, "inference": inference, "random_state": 0}
    model = CrowdGPPL(items, **options).fit(DATA.comparisons, DATA.y)
    assert model.factor_scales_.max() > 0.0
    pairs = [[user, a, b] for a, b in PAIRS]
    C, (mean, variance) = model.latent_covariance(pairs), model.latent_mean_and_variance(pairs)
    np.testing.assert_allclose(np.diagonal(C), variance, atol=1e-12)
    np.testing.assert_allclose(mean, model.decision_function(pairs))
    assert np.linalg.eigvalsh(C).min() > -1e-12
    posterior = model.posterior_ if user == 3 else model.posterior_.unseen_user_posterior()
    person = model._users_of_rows(np.array([3]))[0] if user == 3 else UNSEEN_USER
    draws = posterior.sample(person, model._items.select(None)[1], 30_000, np.random.default_rng(0))[:, 0]
    z = np.array([draws[:, a] - draws[:, b] for a, b in PAIRS])
    z -= z.mean(axis=1, keepdims=True)
    products = z[:, None] * z
    near = np.abs(products.mean(axis=2) - C) < 6.0 * products.std(axis=2) / np.sqrt(30_000) + 1e-12
    assert near.all()


def test_order_effects_of_a_user():
    model = CrowdGPPL(n_factors=1, order_effect=True, random_state=0).fit(DATA.comparisons, DATA.y)
    for user in (3, "unseen"):
        pairs = [[user, a, b] for a, b in PAIRS]
        C, (mean, variance) = model.latent_covariance(pairs), model.latent_mean_and_variance(pairs)
        np.testing.assert_allclose(np.diagonal(C), variance, atol=1e-12)
        assert PAIRS[3][0] == PAIRS[3][1]  # an item beside itself: the advantage of the side alone
        assert abs(mean[3]) < 2.0
        assert 0.0 < variance[3] < 1.0
    with pytest.raises(DataError, match="X must be of one user; got 3 and others"):
        model.latent_covariance([[3, 0, 1], [4, 0, 1]])


def test_order_effects_of_a_user_by_the_factorised_posterior():
    options = {"n_factors": 1, "order_effect": True, "inference": "vb", "max_iter": 30, "random_state": 0}
    model = CrowdGPPL(**options).fit(DATA.comparisons, DATA.y)
    model.posterior_.bias_variance[:] *= np.linspace(0.2, 0.9, len(model.user_ids_))  # of each user another one
    for user in (3, 17, "unseen"):
        pairs = [[user, a, b] for a, b in PAIRS]
        C, variance = model.latent_covariance(pairs), model.latent_mean_and_variance(pairs)[1]
        np.testing.assert_allclose(np.diagonal(C), variance, atol=1e-12)
