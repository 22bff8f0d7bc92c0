"""Posteriors of max-margin factorizations: scores, thresholds and probabilities by hand, seen and unseen."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref.exceptions import DataError
from skpref.factorization.max_margin import posterior as module
from skpref.factorization.max_margin.posterior import Calibration, Factors, IPM3FPosterior, M3FPosterior

RNG = np.random.default_rng(0)
U, V = RNG.standard_normal((4, 3, 2)), RNG.standard_normal((4, 5, 2))
THETA = np.sort(RNG.standard_normal((4, 3, 2)), axis=-1)
USER, ITEM = np.array([0, 2, 1, -1, 0, -1]), np.array([0, 4, 2, 3, -1, -1])


def m3f(factors, kind=M3FPosterior, **options):
    average = Factors(*(table.mean(axis=0, keepdims=True, dtype=np.float64) for table in factors))
    last = Factors(*(table[-1:] for table in factors))
    plain = {"cost": 1.3, "calibration": Calibration(0.7, np.array([0.1, 0.0, -0.2])), "margin": 9.0, "sigma": 0.8}
    plain |= {"varsigma": 1.1, "learnt_thresholds": False}
    return kind(average, last, factors, **(plain | options))


def probabilities(z, theta, cost, margin, calibration):
    """In proportion to exp(-cost times the hinge losses of all thresholds / temperature), weighted."""
    losses = []
    for level in range(theta.size + 1):
        side = np.where(np.arange(theta.size) < level, 1.0, -1.0)  # z must lie above the thresholds below the level
        losses.append(np.maximum(0.0, margin - side * (z - theta)).sum())
    p = np.exp(-cost * np.array(losses) / calibration.temperature + calibration.log_weights)
    return p / p.sum()


def test_scores_and_thresholds_are_those_of_each_user():
    factors = Factors(U, V, THETA)
    scores = factors.scores(USER, ITEM)
    for k, (u, i) in enumerate(zip(USER, ITEM, strict=True)):
        wanted = (U[:, u] * V[:, i]).sum(axis=1) if u >= 0 and i >= 0 else np.zeros(4)
        assert_allclose(scores[:, k], wanted)
    theta = factors.thresholds_of(USER)
    for k, u in enumerate(USER):
        assert_allclose(theta[:, k], THETA[:, u] if u >= 0 else THETA.mean(axis=1))
    shared = factors._replace(thresholds=THETA[:, :1]).thresholds_of(USER)
    assert_array_equal(shared, np.repeat(THETA[:, :1], 6, axis=1))


@pytest.mark.parametrize("chunk", [1, 20, 1 << 24])
def test_moments_of_scores_are_those_over_samples(chunk, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", chunk)
    posterior = m3f(Factors(U, V, THETA))
    posterior.validate()
    mean, variance = posterior.score_moments(USER, ITEM)
    scores = Factors(U, V, THETA).scores(USER, ITEM)
    prior = Factors(U, V, THETA).prior_variances(USER, ITEM, 0.8)
    assert_allclose(mean, scores.mean(axis=0))
    assert_allclose(variance, scores.var(axis=0, ddof=1) + prior.mean(axis=0))
    one = m3f(Factors(U[:1], V[:1], THETA[:1])).score_moments(USER, ITEM)
    assert_allclose(one, [scores[0], prior[0]])
    for rule, own in (("scores", slice(None)), ("last", slice(-1, None))):
        level = posterior.levels(USER[:3], ITEM[:3], rule)
        theta = THETA[own][:, USER[:3]].mean(axis=0)
        assert_array_equal(level, (scores[own, :3].mean(axis=0)[:, None] >= theta).sum(axis=1))


def test_probabilities_of_rated_items_are_those_of_hinge_losses():
    posterior = m3f(Factors(U, V, THETA))
    got = posterior.probabilities(USER, ITEM, posterior.calibration)
    assert_allclose(got.sum(axis=1), 1.0)
    for k in range(3):
        each = [
            probabilities(U[s, USER[k]] @ V[s, ITEM[k]], THETA[s, USER[k]], 1.3, 9.0, posterior.calibration)
            for s in range(4)
        ]
        assert_allclose(got[k], np.mean(each, axis=0))


def test_the_median_is_that_of_calibrated_probabilities():
    posterior = m3f(Factors(U, V, THETA), calibration=Calibration(5.0, np.array([2.0, 0.0, 1.0])))
    got, plain = (
        posterior.probabilities(USER, ITEM, c) for c in (posterior.calibration, module.Calibration(1.0, np.zeros(3)))
    )
    median = posterior.levels(USER, ITEM, "median")
    assert_array_equal(median, np.minimum((np.cumsum(got, axis=1) < 0.5).sum(axis=1), 2))
    assert (median != np.minimum((np.cumsum(plain, axis=1) < 0.5).sum(axis=1), 2)).any()


@pytest.mark.parametrize("learnt", [False, True])
def test_probabilities_of_the_unseen_are_averages_over_their_prior(learnt):
    posterior = m3f(Factors(U, V, THETA), margin=0.6, learnt_thresholds=learnt)
    got = posterior.probabilities(USER, ITEM, posterior.calibration)[3:]
    rng, n = np.random.default_rng(1), 4000
    # The mean of users is that of 3 users and of 3 more at 0, where it is learnt.
    centre = U.sum(axis=1) / 6.0 if learnt else np.zeros((4, 2))
    variance = Factors(U, V, THETA).prior_variances(USER[3:], ITEM[3:], 0.8)
    variance[:, 2] += 0.8**2 * (centre**2).sum(axis=1)
    mean, deviation = np.zeros((4, 3)), np.sqrt(variance)
    mean[:, 0] = (centre * V[:, 3]).sum(axis=1)
    total = np.zeros((3, 3))
    for s in range(4):
        apart = THETA[s] - THETA[s].mean(axis=0)
        covariance = (apart.T @ apart + 1.1**2 * np.eye(2)) / 4.0 if learnt else 1.1**2 * np.eye(2)
        for k, u in enumerate(USER[3:]):
            z = mean[s, k] + deviation[s, k] * rng.standard_normal(n)
            noise = rng.multivariate_normal(np.zeros(2), covariance, n) if u < 0 else np.zeros((n, 2))
            theta = (THETA[s, u] if u >= 0 else THETA[s].mean(axis=0)) + noise
            total[k] += module.level_probabilities(z, theta, 1.3, 0.6, posterior.calibration).mean(axis=0) / 4.0
    assert_allclose(got, total, atol=0.02)


def test_an_unseen_user_of_the_buffet_holds_features_by_their_shares():
    Z = (RNG.random((4, 3, 2)) < 0.6).astype(np.uint8)
    posterior = m3f(Factors(Z, V, THETA), IPM3FPosterior, alpha=1.7)
    mean, variance = posterior.score_moments(USER, ITEM)
    share = Z.sum(axis=1) / 4.0  # of three users and the new one
    given = np.zeros((4, 6))
    score = np.zeros((4, 6))
    for k, (u, i) in enumerate(zip(USER, ITEM, strict=True)):
        if u >= 0 and i >= 0:
            score[:, k] = (Z[:, u] * V[:, i]).sum(axis=1)
        elif i >= 0:
            score[:, k] = (share * V[:, i]).sum(axis=1)
            given[:, k] = (share * (1.0 - share) * V[:, i] ** 2).sum(axis=1) + 0.8**2 * 1.7 / 4.0
        else:
            held = Z[:, u].sum(axis=1) if u >= 0 else share.sum(axis=1) + 1.7 / 4.0
            given[:, k] = 0.8**2 * held
    assert_allclose(mean, score.mean(axis=0))
    assert_allclose(variance, score.var(axis=0, ddof=1) + given.mean(axis=0))
    alone = [posterior.score_moments(USER[k : k + 1], ITEM[k : k + 1]) for k in range(6)]
    assert_allclose(np.array(alone)[..., 0].T, [mean, variance])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"varsigma": 0.0}, "must have thresholds of 1 users"),
        ({"margin": 0.0}, "margin"),
        ({"cost": -1.0}, "cost"),
        ({"calibration": Calibration(0.0, np.zeros(3))}, "temperature"),
        ({"calibration": Calibration(1.0, np.zeros(2))}, "log_weights"),
        ({"calibration": Calibration(1.0, np.array([0.0, np.inf, 0.0]))}, "log_weights must be finite"),
    ],
)
def test_parts_that_do_not_fit_are_refused(damage, message):
    m3f(Factors(U, V, THETA[:, :1]), varsigma=0.0).validate()
    m3f(Factors(U, V, THETA), varsigma=0.5, cost=0.0).validate()
    with pytest.raises(DataError, match=message):
        m3f(Factors(U, V, THETA), **damage).validate()


def test_samples_are_as_many_of_each_chain_and_of_the_same_sizes():
    posterior = m3f(Factors(U, V, THETA))
    two = Factors(*(np.repeat(table, 2, axis=0) for table in posterior.average))
    of_two = {"average": two, "last": two}
    type(posterior)(**(vars(posterior) | of_two)).validate()
    three = Factors(U[:3], V[:3], THETA[:3])
    for other, message in (
        (of_two | {"samples": three}, "samples must be as many of each of 2 chains"),
        ({"last": two}, "last must be of 1 chains"),
        ({"samples": Factors(U[:, :2], V, THETA[:, :2])}, "average is of different users"),
        ({"average": Factors(*(t.astype(np.float32) for t in posterior.average))}, "average must be float64"),
        ({"last": Factors(np.ones((1, 3, 2), np.uint8), V[:1], THETA[:1])}, "last has users of the wrong kind"),
    ):
        with pytest.raises(DataError, match=message):
            type(posterior)(**(vars(posterior) | other)).validate()


def test_rows_are_taken_in_parts_that_fit_in_memory(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 24)
    assert module.parts(7, Factors(U, V, THETA)) == [slice(0, 3), slice(3, 6), slice(6, 9)]  # 8 numbers a row
    assert module.parts(0, Factors(U, V, THETA)) == []
    nodes = module._normal_nodes(3)
    assert nodes.shape == (256, 3)
    assert_allclose(nodes.mean(axis=0), 0.0, atol=0.05)
    assert_allclose(np.cov(nodes.T), np.eye(3), atol=0.1)


def test_what_all_users_like_is_part_of_the_moments_of_unseen_users():
    posterior = m3f(Factors(U, V, THETA), learnt_thresholds=True)
    mean, variance = posterior.score_moments(USER, ITEM)
    centre = U.sum(axis=1) / 6.0  # of 3 users, and of 3 more at 0
    scores = Factors(U, V, THETA).scores(USER, ITEM)
    given = Factors(U, V, THETA).prior_variances(USER, ITEM, 0.8)
    for k, (u, i) in enumerate(zip(USER, ITEM, strict=True)):
        if u < 0 and i >= 0:
            scores[:, k] = (centre * V[:, i]).sum(axis=1)
        if u < 0 and i < 0:
            given[:, k] += 0.8**2 * (centre**2).sum(axis=1)
    assert_allclose(mean, scores.mean(axis=0))
    assert_allclose(variance, scores.var(axis=0, ddof=1) + given.mean(axis=0))
    alone = [posterior.score_moments(USER[k : k + 1], ITEM[k : k + 1]) for k in range(6)]
    assert_allclose(np.array(alone)[..., 0].T, [mean, variance])
