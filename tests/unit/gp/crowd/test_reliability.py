"""Reliability of users: against the truth, against sums over a dense joint posterior, and who answers at random."""

import warnings

import numpy as np
import pytest
from scipy.special import ndtr

from skpref import CrowdGPPL
from skpref.exceptions import DataWarning
from skpref.gp.crowd import annotators
from skpref.gp.crowd.annotators import percentiles_of
from skpref.likelihoods import PairwiseProbit
from tests.unit.gp.crowd.test_hierarchy import joint


def crowd(seed, n_users, n_items, n, rho, side=0.0):
    """Users who answer rho times as sharply; the rows, labels and the true consensus."""
    rng = np.random.default_rng(seed)
    m = rng.standard_normal(n_items)
    user, left = rng.integers(0, n_users, n), rng.integers(0, n_items, n)
    right = (left + rng.integers(1, n_items, n)) % n_items
    y = rng.random(n) < ndtr(rho[user] * (m[left] - m[right]) + side)
    return np.column_stack([user, left, right]), y.astype(float), m


@pytest.mark.parametrize("side", [0.0, 1.0])
def test_reliability_against_the_truth(side):
    rho = np.exp(0.5 * np.random.default_rng(1).standard_normal(60))
    rho[:6], rho[6] = 0.0, -1.5  # at random, and the other way round
    X, y, _ = crowd(0, 60, 20, 6000, rho, side)
    report = CrowdGPPL(order_effect=side > 0.0, random_state=0).fit(X, y).annotators(credibility=0.95, n_samples=50)
    unit = rho[7:].mean() / report["reliability"][7:].mean()  # the unit is that of the consensus
    low, high = unit * report["reliability_low"], unit * report["reliability_high"]
    assert np.mean((low <= rho) & (rho <= high)) > 0.9
    assert np.corrcoef(report["reliability"], rho)[0, 1] > 0.9
    assert report["reliability_high"][6] < 0.0
    assert report["p_random"][:6].min() > 0.5
    assert report["p_random"][7:].mean() < 0.05
    assert np.all(report["reliability_low"] <= report["reliability_high"])
    assert report["p_random"].between(0.0, 1.0).all()


@pytest.mark.parametrize("seed", range(3))
def test_tastes_are_noise_to_reliabilities_and_do_not_make_them_smaller(seed):
    rng = np.random.default_rng(seed)
    f = rng.standard_normal(12) + 1.2 * rng.standard_normal((20, 12))
    user, left = rng.integers(0, 20, 900), rng.integers(0, 12, 900)
    right = (left + rng.integers(1, 12, 900)) % 12
    y = (f[user, left] - f[user, right] + rng.standard_normal(900) > 0.0).astype(int)
    report = CrowdGPPL(random_state=0).fit(np.column_stack([user, left, right]), y).annotators(n_samples=20)
    # The mean over users is 1 by the definition of the consensus; without the variance of tastes it was .55 to .63.
    assert np.mean(report["reliability"]) == pytest.approx(1.0, abs=0.2)


def test_sides_that_change_places_change_no_reliability():
    X, y, _ = crowd(5, 20, 8, 1200, np.exp(0.5 * np.random.default_rng(2).standard_normal(20)), side=1.5)
    model = CrowdGPPL(order_effect=True, random_state=0)
    report = model.fit(X, y).annotators(n_samples=20)
    mirrored = model.fit(X[:, [0, 2, 1]], 1.0 - y).annotators(n_samples=20)
    assert report["bias"].mean() > 1.0
    np.testing.assert_allclose(mirrored["reliability"], report["reliability"], rtol=0.1)  # by chance .06
    np.testing.assert_allclose(mirrored["p_random"], report["p_random"], atol=0.02)


def test_the_consensus_is_that_of_the_others():
    X, y, _ = crowd(2, 5, 4, 80, np.ones(5))
    posterior = CrowdGPPL(random_state=0).fit(X, y).posterior_.mixture[0]
    mean, covariance, rows = joint(posterior)
    K, n, u = posterior.consensus.mean.size, posterior.n_seen, 2
    # Without the sites of u: the precision of all variables less what these sites say, m alone.
    precision, linear = np.linalg.inv(covariance), np.linalg.inv(covariance) @ mean
    for p in np.flatnonzero(posterior.user == u):
        row, a = np.zeros(len(mean)), np.zeros(n)
        a[posterior.left[p]], a[posterior.right[p]] = 1.0, -1.0
        row[:K], row[K + u * n : K + (u + 1) * n] = a @ rows, a
        precision -= posterior.tau[p] * np.outer(row, row)
        linear -= posterior.nu[p] * row
    without = np.linalg.inv(precision)
    start, stop = posterior.users.starts[u : u + 2]
    A = posterior.users.incidence(np.ones(posterior.users.first.size))[start:stop].toarray()
    wanted = (A @ rows @ (without @ linear)[:K], A @ rows @ without[:K, :K] @ rows.T @ A.T)
    sites = posterior.users, posterior.S, posterior.tau, posterior.nu
    P, W, _, d = next(annotators.iterate_users(np.array([u]), *sites))
    mean, half = annotators._consensus_of_others(A @ posterior.m, A @ posterior.half_rows, W, d - W @ (P @ d))
    np.testing.assert_allclose(mean, wanted[0], atol=1e-8)
    np.testing.assert_allclose(half @ half.T, wanted[1], atol=1e-8)


def test_few_answers_leave_the_prior_of_the_crowd():
    X, y, _ = crowd(3, 30, 10, 3000, np.exp(0.5 * np.random.default_rng(0).standard_normal(30)))
    X = np.vstack([X, [[99, 0, 1]]])
    report = CrowdGPPL(random_state=0).fit(X, np.append(y, 1.0)).annotators(n_samples=50).set_index("user")
    width = report["reliability_high"] - report["reliability_low"]
    assert width[99] > 1.3 * width.drop(99).median()
    assert 0.5 < report["reliability"][99] < 1.5


def test_pairs_that_no_other_user_compared_leave_the_prior():
    X, y, m = crowd(0, 2, 6, 400, np.ones(2))
    truth = np.mean(ndtr(np.abs(m[X[:, 1]] - m[X[:, 2]])))
    for rows in (X * [0, 1, 1], X + [0, 10, 10] * X[:, :1]):  # one user; two without a common item
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The comparisons form 2 connected components", DataWarning)
            report = CrowdGPPL(random_state=0).fit(rows, y).annotators(n_samples=100)
        assert (report["reliability_low"] < 0.0).all()
        assert (report["reliability_high"] > 2.0).all()
        assert np.abs(report["accuracy"] - truth).max() < 0.05


def test_without_a_consensus_or_with_the_factorised_posterior_there_is_no_reliability():
    X, y, _ = crowd(4, 6, 5, 200, np.ones(6))
    for options in ({"inference": "vb"}, {"consensus": False}):
        assert "reliability" not in CrowdGPPL(random_state=0, **options).fit(X, y).annotators(n_samples=10)


def test_weighted_percentiles():
    value, weight = np.array([3.0, 1.0, 2.0]), np.array([0.25, 0.25, 0.5])
    np.testing.assert_allclose(percentiles_of(value, weight, np.array([0.0, 50.0, 100.0])), [1.0, 2.0, 3.0])
    np.testing.assert_allclose(percentiles_of(value, weight, np.array([50.0 * 0.625])), [1.5])


def prior_by_hand(kinds, centre, spread):
    """Reverse, random and following users, the size of rho log-normal on the grid."""
    log_size = np.log(np.geomspace(0.1, 10.0, 20))
    of_size = np.exp(-0.5 * ((log_size - centre) / spread) ** 2)
    of_size /= of_size.sum()
    return np.log(np.concatenate([kinds[0] * of_size[::-1], [kinds[1]], kinds[2] * of_size]))


def test_without_users_the_prior_is_nine_in_ten_who_follow_the_consensus():
    prior = annotators._learnt_prior(np.zeros((0, 41)))
    np.testing.assert_allclose(prior, prior_by_hand(np.array([0.05, 0.05, 0.9]), 0.0, 0.5))


@pytest.mark.parametrize(("place", "kind"), [(35, 2), (20, 1), (3, 0)])
def test_users_who_are_known_move_the_prior_as_their_counts_say(place, kind):
    log_likelihood = np.full((30, 41), -1e4)
    log_likelihood[:, place] = 0.0
    counts = np.array([0.5, 0.5, 9.0]) + 30.0 * (np.arange(3) == kind)
    log_size = np.log(np.geomspace(0.1, 10.0, 20))[{35: 14, 3: 16}.get(place, 0)]
    n = 0.0 if kind == 1 else 30.0
    centre = n * log_size / (n + 1.0)
    spread = np.sqrt((n * (log_size - centre) ** 2 + 0.25) / (n + 1.0))
    wanted = prior_by_hand(counts / counts.sum(), centre, spread)
    np.testing.assert_allclose(annotators._learnt_prior(log_likelihood), wanted, rtol=1e-9)


TASTES = np.array([[0.5, 0.1], [0.1, 0.7]])


def test_what_a_posterior_of_the_reliability_says():
    grid = annotators._GRID
    assert (grid.size, grid[20]) == (41, 0.0)
    np.testing.assert_allclose(grid[[0, 19, 21, 40]], [-10.0, -0.1, 0.1, 10.0])
    weight = np.zeros((3, 41))
    weight[0, 20] = 1.0  # at random
    weight[1, [20, 40]] = 0.25, 0.75
    weight[2, 0] = 1.0
    record = annotators.Reliability(weight, np.array([0.0, 0.2]), np.array([True, True, False]), TASTES)
    np.testing.assert_allclose(record.random, [1.0, 0.25, 0.0])
    mean, low, high = record.summary(np.array([5.0, 95.0]))
    np.testing.assert_allclose(mean, [0.0, 7.5, -10.0])
    assert low[2] == -10.0
    assert high[1] == 10.0
    accuracy, probability = record.accuracy(np.array([0]), np.array([1]), np.ones(1), np.zeros(1), PairwiseProbit())
    wanted = ndtr(0.2 * grid / np.sqrt(1.0 + 0.5 + 0.7 - 2.0 * 0.1))
    np.testing.assert_allclose(accuracy, wanted, atol=1e-9)
    np.testing.assert_allclose(probability[1], weight[1])
    np.testing.assert_allclose(probability[2], 0.0)


def test_a_consensus_whose_errors_are_larger_is_not_known():
    D, mean, half = np.diag([4.0, 1.0]), np.array([0.9, 0.3]), np.array([[1.0], [0.0]])
    # 4 * .81 + .09 = 3.33 of the mean against 4 of the errors
    assert not annotators._is_known(mean, half, D)
    assert annotators._is_known(mean + 0.1, half, D)
    assert not annotators._is_known(0.0 * mean, half, D)
