"""Posteriors of products of factors, by hand: seen and unseen users and items, with features and without."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF

from skpref.gp.crowd import posterior as module
from skpref.gp.crowd.posterior import CrowdPosterior, FactorPosterior
from skpref.gp.entities import Items
from skpref.gp.pairwise.posterior import PairPosterior
from skpref.inference.basis import InducingBasis
from skpref.inference.scale import FixedScale

RNG = np.random.default_rng(0)
ALL = Items(None, np.array([0, 1, 2, 3, -1, -1]))
USERS = Items(None, np.array([2, -1, 0]))
LEFT, RIGHT = np.array([0, 4, 2, 5, 3, 4]), np.array([1, 0, 2, 4, 4, 4])
INDEX = np.array([0, 0, 2, 1, -1, 2])


def factors(n, scales):
    """Factors of n entities without features."""
    mean, variance = RNG.standard_normal((2, n)), RNG.uniform(0.1, 1.0, (2, n))
    return FactorPosterior(None, mean, np.zeros((0, 0, 0)), variance, np.array(scales))


def consensus():
    """Offsets of four items and an order effect, jointly."""
    mean, half = RNG.standard_normal(5), np.tril(RNG.standard_normal((5, 5))) + 2.0 * np.eye(5)
    centre = float(mean[:4].mean()), half[:, :4].mean(axis=1)
    offsets = mean[:4].copy()
    return PairPosterior(None, mean, half, offsets, None, True, True, {"offset": FixedScale(0.7)}, *centre, None)


ITEMS, WHO, SHARED = factors(4, [0.5, 2.0]), factors(3, [1.5, 0.8]), consensus()
POSTERIOR = CrowdPosterior(
    SHARED,
    ITEMS,
    WHO,
    np.array([0.3, -0.2, 0.9]),
    np.array([0.2, 0.1, 0.4]),
    {"bias": FixedScale(4.0)},
    ITEMS.mean.mean(axis=1),
)


def of(side, position):
    """Means and variances of the factors of one entity, of the prior where it is unseen."""
    if position < 0:
        return np.zeros(2), 1.0 / side.inverse_scale
    return side.mean[:, position], side.variance[:, position]


def test_moments_of_factors_are_those_of_each_entity():
    POSTERIOR.validate()
    for side, entities in ((ITEMS, ALL), (WHO, USERS)):
        mean, variance = side.moments_and_prior(entities)
        wanted = [of(side, position) for position in [*entities.position, -1]]
        assert_allclose(mean.T, [m for m, _ in wanted])
        assert_allclose(variance.T, [v for _, v in wanted])
        assert_array_equal(side.moments(entities)[1], variance[:, :-1])
        assert_allclose(side.covariances(entities), [np.diag(v[:-1]) for v in variance])
    mean, variance = POSTERIOR.bias(USERS)
    assert_allclose(mean, [0.9, 0.0, 0.3, 0.0])
    assert_allclose(variance, [0.4, 0.25, 0.2, 0.25])
    shared = SHARED.mean[4], SHARED.half[:, 4] @ SHARED.half[:, 4]
    assert_allclose(POSTERIOR.side_effects(USERS), np.array([mean[:3] + shared[0], variance[:3] + shared[1]]))


@pytest.mark.parametrize("order", [False, True])
def test_pairs_of_seen_and_unseen_users_and_items(*, order):
    mean, variance = POSTERIOR.pairs((USERS, INDEX), ALL, LEFT, RIGHT, order=order)
    plain = SHARED.pairs(ALL, LEFT, RIGHT, order=order)
    bias = np.array(POSTERIOR.bias(USERS)) * order
    for p, (u, a, b) in enumerate(zip(INDEX, LEFT, RIGHT, strict=True)):
        w, w_variance = of(WHO, USERS.position[u] if u >= 0 else -1)
        (va, va_variance), (vb, vb_variance) = of(ITEMS, ALL.position[a]), of(ITEMS, ALL.position[b])
        difference, spread = va - vb, (va_variance + vb_variance) * (a != b)
        assert mean[p] == pytest.approx(plain[0][p] + w @ difference + bias[0, u])
        wanted = (w**2 + w_variance) @ spread + w_variance @ difference**2
        assert variance[p] == pytest.approx(plain[1][p] + wanted + bias[1, u])


@pytest.mark.parametrize("position", [1, -1])
def test_covariances_of_the_pairs_of_a_user(position):
    user = Items(None, np.array([position]))
    w, w_variance = of(WHO, position)
    contrast = np.zeros((6, 6))
    for p, (a, b) in enumerate(zip(LEFT, RIGHT, strict=True)):
        contrast[p, a] += 1.0
        contrast[p, b] -= 1.0
    wanted = SHARED.pair_covariance(ALL, LEFT, RIGHT) + (0.1 if position == 1 else 0.25)
    for d in range(2):
        v = np.array([of(ITEMS, k)[0][d] for k in ALL.position])
        spread = np.diag([of(ITEMS, k)[1][d] for k in ALL.position])
        wanted += (w[d] ** 2 + w_variance[d]) * contrast @ spread @ contrast.T
        wanted += w_variance[d] * np.outer(contrast @ v, contrast @ v)
    got = POSTERIOR.pair_covariance(user, ALL, LEFT, RIGHT)
    assert_allclose(got, wanted)
    variance = POSTERIOR.pairs((user, np.zeros(6, dtype=np.int64)), ALL, LEFT, RIGHT)[1]
    assert_allclose(np.diagonal(got), variance)


def test_utilities_and_draws(monkeypatch):
    t, t_variance = SHARED.utility(ALL, centred=True)
    mean, variance = POSTERIOR.utility(USERS, ALL)
    for u, position in enumerate(USERS.position):
        w, w_variance = of(WHO, position)
        for i, place in enumerate(ALL.position):
            v, v_variance = of(ITEMS, place)
            v = v - POSTERIOR.centre
            assert mean[u, i] == pytest.approx(t[i] + w @ v)
            wanted = t_variance[i] + (w**2 + w_variance) @ v_variance + w_variance @ v**2
            assert variance[u, i] == pytest.approx(wanted)
    assert_allclose(POSTERIOR.deviations(USERS, ALL), mean - t, atol=1e-12)
    n, rng = 20_000, np.random.default_rng(1)
    monkeypatch.setattr(module, "_DRAWN", n * 2)  # one user at a time
    shared, each = POSTERIOR.draws(USERS, ALL, n, rng)
    drawn = np.stack(list(each), axis=1)
    for sample in (drawn, POSTERIOR.sample(USERS, ALL, n, rng)):
        assert sample.shape == (n, 3, 6)
        assert np.all(np.abs(sample.mean(axis=0) - mean) < 6.0 * np.sqrt(variance / n))
        assert_allclose(sample.var(axis=0), variance, rtol=0.15)
    assert_allclose(shared.mean(axis=0), t, atol=6.0 * np.sqrt(t_variance.max() / n))
    # All users share a draw of the consensus: their utilities covary by it.
    unseen = drawn[:, 1, 0] - drawn[:, 1, 0].mean()
    assert np.mean(unseen * shared[:, 0]) == pytest.approx(t_variance[0], rel=0.15)


def test_unseen_users_without_features_have_the_prior():
    X = RNG.standard_normal((3, 2))
    basis = InducingBasis.from_points(RBF(1.0), X)
    with_features = FactorPosterior(
        basis, np.ones((2, 3)), np.ones((2, 1, 1)) * np.eye(3), np.zeros((0, 3)), WHO.inverse_scale
    )
    posterior = CrowdPosterior(SHARED, ITEMS, with_features, np.zeros(0), np.zeros(0), {}, POSTERIOR.centre)
    posterior.validate()
    prior = posterior.unseen_user_posterior()
    prior.validate()
    mean, variance = prior.users.moments(Items(None, np.array([-1, -1])))
    assert_array_equal(mean, 0.0)
    assert_allclose(variance, np.tile(1.0 / WHO.inverse_scale[:, None], 2))
    assert_array_equal(prior.bias(USERS), np.zeros((2, 4)))


def test_factors_of_features_follow_from_the_inducing_points():
    X, rng = RNG.standard_normal((5, 2)), np.random.default_rng(2)
    basis = InducingBasis.from_points(RBF(1.0), X[:3])
    half = np.stack([np.triu(rng.standard_normal((3, 3))) + 2.0 * np.eye(3) for _ in range(2)])
    side = FactorPosterior(basis, rng.standard_normal((2, 3)), half, np.zeros((0, 3)), np.array([0.5, 3.0]))
    side.validate()
    items, a, b = Items(X, np.array([0, 1, 2, -1, -1])), np.array([0, 3, 4, 2]), np.array([3, 1, 4, 4])
    phi = basis.rows(X)
    residual = RBF(1.0)(X) - phi @ phi.T
    mean, variance = side.moments(items)
    covariances = side.covariances(items)
    difference, spread = side.differences(items, a, b)
    for d, s in enumerate(side.inverse_scale):
        wanted = phi @ half[d].T @ half[d] @ phi.T + residual / s
        assert_allclose(covariances[d], wanted, atol=1e-9)
        assert_allclose(variance[d], np.diagonal(wanted), atol=1e-9)
        assert_allclose(mean[d], phi @ side.mean[d])
        assert_allclose(difference[d], mean[d, a] - mean[d, b])
        of_pairs = wanted[a, a] + wanted[b, b] - 2.0 * wanted[a, b]
        assert_allclose(spread[d], of_pairs, atol=1e-6)
    sample = side.sample(items, 20_000, rng)
    assert np.all(np.abs(sample.mean(axis=0) - mean) < 6.0 * np.sqrt(variance / 20_000))
    assert_allclose(sample.var(axis=0), variance, rtol=0.06)
    # Through the inducing points, entities covary; what these leave is independent.
    together = np.cov(sample[:, 0, :3].T)
    assert_allclose(together, covariances[0][:3, :3], atol=0.06 * variance[0].max())
