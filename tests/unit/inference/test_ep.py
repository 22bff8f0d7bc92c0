"""Expectation propagation: exact for one observation, one fixed point, sound cavities, true gradients."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import norm

from skpref.exceptions import DataError
from skpref.inference import ep
from skpref.inference.ep import cavities, ep_gradient, expectation_propagation, variational_bound
from skpref.likelihoods import Gaussian, PairwiseLogit, PairwiseProbit, PairwiseProbitTies
from tests.differences import central

seeds = st.integers(0, 2**32 - 1)


PROBIT = PairwiseProbit()


def draw(seed, n=None):
    rng = np.random.default_rng(seed)
    n = n or int(rng.integers(2, 9))
    X = rng.normal(size=(n, 2))
    K = np.exp(rng.normal()) * np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1) / np.exp(rng.normal()))
    return rng, K + 1e-3 * np.eye(n), (rng.random(n) < 0.5).astype(float)


def run(K, y, weight=None, likelihood=PROBIT, start=None, **options):
    weight = np.ones_like(y) if weight is None else weight
    return expectation_propagation(K, likelihood, y, weight, start, **{"tol": 1e-11, **options})


@pytest.mark.parametrize(
    "likelihood", [PROBIT, PairwiseLogit(), PairwiseProbitTies(0.4)], ids=lambda x: type(x).__name__
)
@given(variance=st.floats(0.01, 20.0), label=st.sampled_from([0.0, 0.5, 1.0]))
def test_one_observation_is_exact(likelihood, variance, label):
    q = run(np.array([[variance]]), np.array([label]), likelihood=likelihood)
    # Gauss-Legendre on 400 panels over 24 standard deviations: exact to rounding for these smooth integrands.
    sd, (node, weight) = np.sqrt(variance), np.polynomial.legendre.leggauss(20)
    edge = np.linspace(-12.0 * sd, 12.0 * sd, 401)
    z = (0.5 * (edge[:-1] + edge[1:])[:, None] + 0.03 * sd * node).ravel()
    density = norm.pdf(z, scale=sd) * np.exp(likelihood.log_prob(np.full(z.size, label), z))
    mass, first, second = (float(np.tile(0.03 * sd * weight, 400) @ (z**power * density)) for power in range(3))
    rtol = 1e-10 if likelihood is PROBIT and label != 0.5 else 1e-7
    assert_allclose(q.log_evidence, np.log(mass), rtol=rtol)
    assert_allclose(q.mean[0], first / mass, rtol=rtol, atol=1e-12)
    assert_allclose(q.variance[0], second / mass - (first / mass) ** 2, rtol=rtol)


@given(seed=seeds)
def test_gaussian_observations_are_exact(seed):
    rng, K, _ = draw(seed)
    y, likelihood = rng.normal(size=K.shape[0]), Gaussian(3.0)
    weight = rng.integers(1, 4, y.size).astype(float)
    q = run(K, y, weight, likelihood)
    noise = np.diag(1.0 / (3.0 * weight))
    assert_allclose(q.mean, K @ np.linalg.solve(K + noise, y), rtol=1e-8, atol=1e-9)
    assert_allclose(q.variance, np.diagonal(K - K @ np.linalg.solve(K + noise, K)), rtol=1e-8)
    every = np.repeat(np.arange(y.size), weight.astype(int))
    C = K[np.ix_(every, every)] + np.eye(every.size) / 3.0
    log_z = -0.5 * (y[every] @ np.linalg.solve(C, y[every]) + np.linalg.slogdet(2.0 * np.pi * C)[1])
    assert_allclose(q.log_evidence, log_z, rtol=1e-9)
    assert_allclose(variational_bound(likelihood, y, weight, q), log_z, rtol=1e-8)


@pytest.mark.parametrize("likelihood", [PROBIT, PairwiseLogit()], ids=["probit", "logit"])
@given(seed=seeds)
def test_tilted_and_posterior_moments_agree(likelihood, seed):
    """The definition of the fixed point."""
    _, K, y = draw(seed)
    q = run(K, y, likelihood=likelihood)
    assert q.converged
    mu, v = cavities(q)
    _, first, second = likelihood.tilted(y, mu, v)
    assert_allclose(mu + v * first, q.mean, rtol=1e-8, atol=1e-9)
    assert_allclose(v + v * v * second, q.variance, rtol=1e-8)
    assert_allclose(first, q.alpha, rtol=1e-8, atol=1e-9)
    assert_allclose(1.0 / v + q.tau, 1.0 / q.variance, rtol=1e-9)


@given(seed=seeds)
def test_a_warm_start_changes_the_way_only(seed):
    _, K, y = draw(seed)
    cold, other = run(K, y), run(K**1.1, y)
    warm = run(K, y, start=other)
    assert_allclose(warm.log_evidence, cold.log_evidence, rtol=1e-10)
    assert_allclose(warm.mean, cold.mean, rtol=1e-8, atol=1e-9)
    assert run(K, y, start=cold).n_iter == 0
    assert run(K, y, start=run(np.eye(1), y[:1])).n_iter == cold.n_iter  # of another size: not used


@given(seed=seeds)
def test_a_whole_weight_is_so_many_copies(seed):
    rng, K, y = draw(seed, n=5)
    weight = rng.integers(0, 4, 5).astype(float)
    every = np.repeat(np.arange(5), weight.astype(int))
    if not every.size:
        return
    weighted = run(K, y, weight)
    copied = run(K[np.ix_(every, every)], y[every])
    assert_allclose(weighted.log_evidence, copied.log_evidence, rtol=1e-9)
    assert_allclose(weighted.mean[every], copied.mean, rtol=1e-8, atol=1e-9)
    assert_allclose(weighted.variance[every], copied.variance, rtol=1e-8)
    mu, v = cavities(weighted)
    copied_mu, copied_v = cavities(copied)
    assert_allclose(mu[every], copied_mu, rtol=1e-7, atol=1e-8)
    assert_allclose(v[every], copied_v, rtol=1e-7)
    assert_allclose(v[weight == 0.0], weighted.variance[weight == 0.0])
    mine, theirs = ep_gradient(weighted), ep_gradient(copied)
    member = (every[:, None] == np.arange(5)).astype(float)
    assert_allclose(mine, member.T @ theirs @ member, rtol=1e-6, atol=1e-8)


@given(seed=seeds)
def test_a_weight_between_whole_numbers_lies_between(seed):
    _, K, y = draw(seed, n=4)
    ends = [run(K, y, np.full(4, w)).log_evidence for w in (1.0, 1.5, 2.0)]
    assert ends[2] < ends[1] < ends[0]


def test_parts_of_observations_are_refused():
    with pytest.raises(DataError, match=r"0 or at least 1 .*got 0.25"):
        run(np.eye(3), np.ones(3), np.array([1.0, 0.25, 0.5]))


@given(seed=seeds)
def test_the_gradient_is_that_of_the_bound_at_a_frozen_posterior(seed):
    rng, K, y = draw(seed)
    K = K + 0.1 * np.eye(y.size)
    q = run(K, y)
    S = np.linalg.inv(np.linalg.inv(K) + np.diag(q.tau))
    expected = PROBIT.expectation(y, q.mean, q.variance)[0].sum()

    def bound(C):
        whitened = np.linalg.solve(C, S)
        divergence = np.trace(whitened) + q.mean @ np.linalg.solve(C, q.mean) - y.size
        return expected - 0.5 * (divergence - np.linalg.slogdet(whitened)[1])

    assert_allclose(variational_bound(PROBIT, y, np.ones_like(y), q), bound(K), rtol=1e-9)
    A = rng.normal(size=K.shape)
    direction = 1e-3 * (A @ A.T)
    slope = central(lambda t: bound(K + t * direction), 0.01)
    assert_allclose(np.sum(ep_gradient(q) * direction), slope, rtol=1e-6, atol=1e-9)


def hard(seed):
    """Covariance matrices of any condition, rank and size, and labels that may contradict each other."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 25)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d))
    if rng.random() < 0.3:
        X = X[rng.integers(0, n, n)]  # copies
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1) / np.exp(rng.uniform(-3.0, 8.0)))
    if rng.random() < 0.2:
        K = X @ X.T
    K *= np.exp(rng.uniform(-9.0, 12.0))
    y = np.full(n, 1.0) if rng.random() < 0.2 else (rng.random(n) < 0.5).astype(float)
    weight = rng.integers(0, 20, n).astype(float) if rng.random() < 0.3 else np.ones(n)
    return K, y, weight


@given(seed=seeds)
def test_no_cavity_variance_is_negative(seed):
    K, y, weight = hard(seed)
    q = run(K, y, weight, max_iter=60, tol=1e-8)
    mu, v = cavities(q)
    assert np.all(v > 0.0)
    assert np.all(np.isfinite(mu))
    assert np.all(q.tau >= 0.0)
    assert np.all(q.variance >= 0.0)
    assert np.all(q.variance <= np.diagonal(K) * (1.0 + 1e-9))
    assert np.isfinite(q.log_evidence)
    assert q.log_evidence <= 1e-9
    assert q.n_skipped == 0


def test_a_site_that_cannot_be_is_left_out():
    """A likelihood that is not log-concave asks for negative precisions; they are counted, and the rest goes on."""

    class Bent(PairwiseProbit):
        def _tilted(self, y, mu, v):
            log_z, first, second = super()._tilted(y, mu, v)
            return log_z, first, np.where(y == 0.0, 0.1, second)

    y = np.array([1.0, 0.0, 1.0])
    K = np.eye(3) + 0.5
    q = run(K, y, likelihood=Bent(), max_iter=30)
    assert q.n_skipped >= q.n_iter > 0
    assert q.tau[1] == q.nu[1] == 0.0
    assert_allclose(q.mean, run(K, y, np.array([1.0, 0.0, 1.0])).mean, rtol=1e-8)


def test_a_site_that_leaves_no_variance_is_left_out():
    """Its precision would be infinite."""

    class Certain(PairwiseProbit):
        def _tilted(self, y, mu, v):
            log_z, first, second = super()._tilted(y, mu, v)
            return log_z, first, np.where(y == 0.0, -1.0 / v, second)

    q = run(np.eye(3), np.array([1.0, 0.0, 1.0]), likelihood=Certain(), max_iter=30)
    assert q.n_skipped >= q.n_iter > 0
    assert q.tau[1] == q.nu[1] == 0.0
    assert_allclose(q.mean, run(np.eye(3), np.ones(3), np.array([1.0, 0.0, 1.0])).mean, rtol=1e-8)


def test_too_few_iterations_are_told():
    _, K, y = draw(1, n=8)
    q = run(K, y, max_iter=2)
    assert (q.n_iter, q.converged) == (2, False)
    assert np.isfinite(q.log_evidence)


def test_an_input_without_prior_variance_is_known():
    K = np.diag([0.0, 2.0])
    q = run(K, np.array([1.0, 0.0]))
    assert q.converged
    assert (q.mean[0], q.variance[0]) == (0.0, 0.0)
    assert_allclose(q.log_evidence, 2.0 * np.log(0.5), rtol=1e-12)


def test_the_evidence_of_a_posterior_is_of_its_sites():
    # Stable as tau -> 0: far from 0 the likelihood is flat, and no site divides by its precision.
    K = np.diag([1e-12, 1e-12, 1.0])
    q = run(K, np.array([1.0, 0.0, 1.0]))
    assert_allclose(q.log_evidence, 3.0 * np.log(0.5), rtol=1e-11)
    assert replace(q, n_iter=0).log_evidence == q.log_evidence


def test_sharp_sites():
    """Nearly noise-free data: the posterior is far narrower than the prior, and cavities are still found."""
    X = np.linspace(-2.0, 2.0, 30)[:, None]
    K = 1e6 * np.exp(-0.5 * (X - X.T) ** 2)
    y = (X[:, 0] > 0.3).astype(float)
    assert run(K, y, tol=1e-9, max_iter=500).converged


def test_sites_that_cannot_be_matched_stay_as_they_are():
    """Both of their parameters do; the others are matched."""

    class Bent(PairwiseProbit):
        def _tilted(self, y, mu, v):
            log_z, first, second = super()._tilted(y, mu, v)
            return log_z, first, np.where(y == 0.0, 0.1, second)

    y, tau, nu = np.array([1.0, 0.0]), np.array([0.3, 0.4]), np.array([-0.5, 0.6])
    state = SimpleNamespace(
        variance=np.full(2, 0.7), mean=np.array([0.2, -0.1]), alpha=np.zeros(2), retained=np.full(2, 0.8)
    )
    tilted = ep._tilt(Bent(), y, np.ones(2), state, (tau, nu))
    assert tilted.sound.tolist() == [True, False]
    assert (tilted.tau[1], tilted.nu[1]) == (0.4, 0.6)
    # The cavity has the variance v / .8; the tilted distribution's moments make the site.
    _, first, second = PairwiseProbit().tilted(y[:1], state.mean[:1], state.variance[:1] / 0.8)
    shrink = 1.0 + state.variance[0] / 0.8 * second
    assert_allclose(tilted.tau[0], -second[0] / shrink)
    assert_allclose(tilted.nu[0], (first - state.mean[0] * second)[0] / shrink)


def mixed_steps(mixer, moves):
    """The shares of their residual that steps move, for gaps one after the other."""
    state, shares = SimpleNamespace(variance=np.ones(1)), []
    for gap in moves:
        tilted = SimpleNamespace(gap=gap, tau=np.array([3.0]), nu=np.array([-1.0]))
        tau, nu = mixer.step(state, np.array([1.0]), np.array([1.0]), tilted)
        assert_allclose((tau[0] - 1.0) / 2.0, (nu[0] - 1.0) / -2.0)
        shares.append((tau[0] - 1.0) / 2.0)
    return shares


def test_steps_are_shorter_where_the_gap_does_not_fall():
    assert_allclose(mixed_steps(ep._Mixer(), [2.0, 1.0, 1.0, 1.5, 1.2, 1.1]), [1.0, 1.0, 0.7, 0.49, 0.637, 0.8281])
    assert_allclose(mixed_steps(ep._Mixer(), [*range(1, 12), 1.0, *np.linspace(0.9, 0.4, 9)])[10:12], [0.1, 0.13])
    assert mixed_steps(ep._Mixer(), [*range(1, 12), *np.linspace(0.9, 0.4, 20)])[-1] == pytest.approx(1.0)


def test_near_the_end_the_last_steps_are_combined():
    # Residuals are linear, b - A x: after as many steps as there are numbers, and one, the next is their root.
    A, b = np.array([[0.9, 0.4], [-0.3, 0.7]]), np.array([1.0, 0.5])
    root = np.linalg.solve(A, b)
    for gaps, ends in (
        ([0.3, 0.29, 0.28, 0.27], True),
        ([0.31, 0.305, 0.28, 0.27], False),
        ([0.2, 0.1, 0.1, 0.09], False),
    ):
        mixer, x = ep._Mixer(0.9), np.array([0.5, 0.2])
        state = SimpleNamespace(variance=np.array([2.0]))
        for gap in gaps[:3]:
            residual = b - A @ x
            tilted = SimpleNamespace(gap=gap, tau=x[:1] + residual[:1], nu=x[1:] + residual[1:])
            x = np.concatenate(mixer.step(state, x[:1], x[1:], tilted))
        assert np.allclose(x, root, atol=1e-6) is ends
    # A mix with a negative precision, here -.5, is a plain step, and the memory is dropped.
    mixer, state = ep._Mixer(1.0), SimpleNamespace(variance=np.ones(1))
    for x, target in ((0.5, 0.4), (0.4, 0.31)):
        assert len(mixer.sites) == (x == 0.4)
        tilted = SimpleNamespace(gap=0.5 * x, tau=np.array([target]), nu=np.zeros(1))
        tau, _ = mixer.step(state, np.array([x]), np.zeros(1), tilted)
        assert tau[0] == pytest.approx(target)
    assert mixer.sites == mixer.residuals == []
