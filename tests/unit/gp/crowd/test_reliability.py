"""Reliability of users: against the truth, against sums over a dense joint posterior, and who answers at random."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.special import ndtr

from skpref import CrowdGPPL
from skpref.exceptions import DataWarning
from skpref.gp.crowd import reliability
from skpref.gp.crowd.reliability import percentiles_of
from tests.unit.gp.crowd.test_hierarchy import joint

if TYPE_CHECKING:
    from skpref._typing import Array

pytest.importorskip("pandas")


def crowd(seed: int, n_users: int, n_items: int, n: int, rho: Array, side: float = 0.0) -> tuple[Array, Array, Array]:
    """Users who answer rho times as sharply; the rows, labels and the true consensus."""
    rng = np.random.default_rng(seed)
    m = rng.standard_normal(n_items)
    user, left = rng.integers(0, n_users, n), rng.integers(0, n_items, n)
    right = (left + rng.integers(1, n_items, n)) % n_items
    y = rng.random(n) < ndtr(rho[user] * (m[left] - m[right]) + side)
    return np.column_stack([user, left, right]), y.astype(float), m


@pytest.mark.parametrize("side", [0.0, 1.0])
def test_reliability_against_the_truth(side: float) -> None:
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


def test_the_consensus_is_that_of_the_others() -> None:
    X, y, _ = crowd(2, 5, 4, 80, np.ones(5))
    posterior = CrowdGPPL(random_state=0).fit(X, y).posterior_
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
    A = posterior.users.incidence()[start:stop].toarray()
    wanted = (A @ rows @ (without @ linear)[:K], A @ rows @ without[:K, :K] @ rows.T @ A.T)
    P, W, _, d, _ = reliability.user_block(
        u, posterior.S, posterior.users.coordinates, posterior.users.places, posterior.tau, posterior.nu
    )
    noise = np.random.default_rng(0).standard_normal((20_000, posterior.half_rows.shape[1])) @ posterior.half_rows.T
    draws = reliability._of_others(A @ posterior.m, A @ posterior.half_rows, W, d - W @ (P @ d), noise @ A.T)
    np.testing.assert_allclose(draws.mean(axis=0), wanted[0], atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), wanted[1], atol=0.03)


def test_few_answers_leave_the_prior_of_the_crowd() -> None:
    X, y, _ = crowd(3, 30, 10, 3000, np.exp(0.5 * np.random.default_rng(0).standard_normal(30)))
    X = np.vstack([X, [[99, 0, 1]]])
    report = CrowdGPPL(random_state=0).fit(X, np.append(y, 1.0)).annotators(n_samples=50).set_index("user")
    width = report["reliability_high"] - report["reliability_low"]
    assert width[99] > 1.3 * width.drop(99).median()
    assert 0.5 < report["reliability"][99] < 1.5


def test_pairs_that_no_other_user_compared_leave_the_prior() -> None:
    X, y, m = crowd(0, 2, 6, 400, np.ones(2))
    truth = np.mean(ndtr(np.abs(m[X[:, 1]] - m[X[:, 2]])))
    for rows in (X * [0, 1, 1], X + [0, 10, 10] * X[:, :1]):  # one user; two without a common item
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The comparisons form 2 connected components", DataWarning)
            report = CrowdGPPL(random_state=0).fit(rows, y).annotators(n_samples=100)
        assert (report["reliability_low"] < 0.0).all()
        assert (report["reliability_high"] > 2.0).all()
        assert np.abs(report["accuracy"] - truth).max() < 0.05


def test_without_a_consensus_or_with_the_factorised_posterior_there_is_no_reliability() -> None:
    X, y, _ = crowd(4, 6, 5, 200, np.ones(6))
    for options in ({"inference": "vb"}, {"consensus": False}):
        assert "reliability" not in CrowdGPPL(random_state=0, **options).fit(X, y).annotators(n_samples=10)


def test_weighted_percentiles() -> None:
    value, weight = np.array([3.0, 1.0, 2.0]), np.array([0.25, 0.25, 0.5])
    np.testing.assert_allclose(percentiles_of(value, weight, np.array([0.0, 50.0, 100.0])), [1.0, 2.0, 3.0])
    np.testing.assert_allclose(percentiles_of(value, weight, np.array([50.0 * 0.625])), [1.5])
