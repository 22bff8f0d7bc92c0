"""Sites of choices: exact answers for one choice, order, sizes, two alternatives, points of quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref._compiled import choices as compiled
from skpref.data.comparisons import are_decided, pairs_of, sizes_of, starts_of
from skpref.inference.choices import ChoiceLikelihood, choice_sites, nodes_of, shares_of, start_sites
from skpref.likelihoods import Luce, PairwiseLogit


def problem(k, seed, width=0.7):
    rng = np.random.default_rng(seed)
    root = width * rng.standard_normal((k, k))
    return rng.standard_normal(k), root @ root.T + 0.05 * np.eye(k)


def of_pairs(m, V):
    i, j = pairs_of(m.size)
    return m[i] - m[j], V[i, i] + V[j, j] - 2.0 * V[i, j]


def site(tau, nu, k):
    """Return precision and linear term of the alternatives' utilities."""
    i, j = pairs_of(k)
    rows = np.eye(k)[i] - np.eye(k)[j]
    return rows.T @ (tau[:, None] * rows), rows.T @ nu


def fixed_point(m, V, w=1.0, *, coarse=False):
    """Return mean, covariance, site precision and log evidence of one choice under the prior N(m, V)."""
    k = m.size
    stage, weight = np.zeros(k * (k - 1) // 2, dtype=np.int64), np.full(k * (k - 1) // 2, w)
    tau, nu = start_sites(stage, weight)
    for _ in range(80):
        L, h = site(tau, nu, k)
        C = np.linalg.inv(np.linalg.inv(V) + L)
        mu = C @ (np.linalg.solve(V, m) + h)
        new_tau, new_nu, log_sites = choice_sites(stage, of_pairs(mu, C), weight, (tau, nu), coarse=coarse)
        tau, nu = 0.4 * tau + 0.6 * new_tau, 0.4 * nu + 0.6 * new_nu
    log_integral = 0.5 * (mu @ np.linalg.solve(C, mu) - m @ np.linalg.solve(V, m))
    log_integral += 0.5 * (np.linalg.slogdet(C)[1] - np.linalg.slogdet(V)[1])
    return mu, C, L, log_sites + log_integral


@pytest.mark.parametrize(("k", "tolerance"), [(2, 0.002), (3, 0.004), (4, 0.012), (5, 0.02), (6, 0.03)])
@pytest.mark.parametrize("w", [1.0, 2.5, 0.4])
def test_one_choice_has_the_moments_of_the_exact_posterior(k, tolerance, w):
    m, V = problem(k, k)
    mu, C, _, log_z = fixed_point(m, V, w)
    z = np.random.default_rng(1).multivariate_normal(m, V, 400_000)
    p = np.exp(w * (z[:, 0] - np.logaddexp.reduce(z, axis=1)))
    exact = p @ z / p.sum()
    between = np.eye(k) - np.eye(k)[[0]]
    spread = between @ ((z - exact).T * p @ (z - exact) / p.sum()) @ between.T
    assert_allclose(mu - mu[0], exact - exact[0], atol=(tolerance + 0.01) * np.sqrt(spread.max()))
    assert_allclose(between @ C @ between.T, spread, atol=(tolerance + 0.01) * spread.max())
    assert log_z == pytest.approx(np.log(p.mean()), abs=tolerance + 0.005)


@pytest.mark.parametrize(("k", "w"), [(12, 1.0), (4, 8.0)])
def test_many_alternatives_and_heavy_weights_have_variational_sites(k, w):
    m, V = problem(k, k, 1.2 / np.sqrt(k))
    mu, C, L, bound = fixed_point(m, V, w)
    mean, variance = of_pairs(mu, C)
    likelihood = ChoiceLikelihood(np.zeros(mean.size, dtype=np.int64))
    value, slope, curvature = likelihood.expectation(np.ones(mean.size), mean, variance)
    i, j = pairs_of(k)
    rows = np.eye(k)[i] - np.eye(k)[j]
    assert_allclose(L, rows.T @ (-2.0 * w * curvature[:, None] * rows), atol=1e-6)
    # A stationary point of the bound: the gradient of w E[log p] is that of the divergence from the prior.
    assert_allclose(w * rows.T @ slope, np.linalg.solve(V, mu - m), atol=1e-5)
    gap = np.linalg.solve(V, C)
    divergence = 0.5 * (np.trace(gap) - k - np.linalg.slogdet(gap)[1] + (mu - m) @ np.linalg.solve(V, mu - m))
    assert bound == pytest.approx(w * value.sum() - divergence, abs=1e-5)


def test_precisions_are_semi_definite_and_ignore_a_common_shift():
    for k in (3, 4, 7):
        L = fixed_point(*problem(k, k))[2]
        assert np.linalg.eigvalsh(L)[0] > -1e-9
        assert_allclose(L.sum(axis=0), 0.0, atol=1e-12)
    m, V = problem(4, 0)
    one, other = fixed_point(m, V), fixed_point(m + 3.0, V + 5.0)
    assert_allclose(one[2], other[2], atol=1e-8)
    assert one[3] == pytest.approx(other[3], abs=1e-8)


@pytest.mark.parametrize("k", [3, 4, 5])
def test_the_order_of_alternatives_changes_nothing(k):
    m, V = problem(k, 3)
    order = np.concatenate([[0], np.random.default_rng(0).permutation(k - 1) + 1])
    one, other = fixed_point(m, V), fixed_point(m[order], V[np.ix_(order, order)])
    assert_allclose(one[0][order], other[0], atol=1e-9)
    assert_allclose(one[2][np.ix_(order, order)], other[2], atol=1e-9)


def test_sites_move_smoothly_where_all_utilities_are_as_uncertain():
    k = 12  # any rounding turns the directions of equal variances, so points must not turn with them
    m, stage = np.linspace(1.0, -1.0, k), np.zeros(k * (k - 1) // 2, dtype=np.int64)
    rng, y = np.random.default_rng(0), np.ones(k * (k - 1) // 2)
    noise = 1e-9 * rng.standard_normal((k, k))
    parts = [of_pairs(m, np.eye(k) + change) for change in (np.zeros((k, k)), noise + noise.T)]
    values = [ChoiceLikelihood(stage).expectation(y, *moments) for moments in parts]
    for one, other in zip(*values, strict=True):
        assert_allclose(one, other, atol=1e-7)


def test_two_alternatives_are_a_logit():
    mean, variance = np.array([0.3, -1.2, 2.0]), np.array([0.5, 2.0, 0.2])
    stage, y = np.arange(3), np.ones(3)
    value, first, second = ChoiceLikelihood(stage).expectation(y, mean, variance)
    wanted = PairwiseLogit().expectation(y, mean, variance)
    for got, exact in zip((value, first, second), wanted, strict=True):
        assert_allclose(got, exact, atol=1e-6)
    assert_allclose(shares_of(np.arange(4), mean, variance)[::2], Luce().predict(mean, variance), atol=1e-6)
    # Expectation propagation: the site with the cavity has the moments of the logit's tilted distribution.
    tau, nu = np.array([0.2, 0.1, 0.15]), np.array([0.4, 0.3, 0.2])
    new_tau, new_nu, _ = choice_sites(stage, (mean, variance), y, (tau, nu))
    v = variance / (1.0 - tau * variance)
    mu = (mean - variance * nu) / (1.0 - tau * variance)
    _, slope, curvature = PairwiseLogit().tilted(y, mu, v)
    exact_tau = -curvature / (1.0 + v * curvature)
    assert_allclose(new_tau, exact_tau, atol=1e-6)
    assert_allclose(new_nu, slope * (1.0 + v * exact_tau) + exact_tau * mu, atol=1e-4)


@pytest.mark.parametrize("k", [2, 3, 5, 8])
def test_a_choice_informs_as_its_pairs_of_weight_2_over_k_at_equal_utilities_only(k):
    """A pair is in the data if one of the two was chosen: with how much both inform, that is 1 / k^2 for each pair."""
    i, j = pairs_of(k)
    choice, y = ChoiceLikelihood(np.zeros(i.size, dtype=np.int64)), np.ones(i.size)

    def informations(z):
        p, nothing = np.exp(z - np.logaddexp.reduce(z)), np.zeros(i.size)
        whole = -2.0 * choice.expectation(y, z[i] - z[j], nothing)[2]
        pairs = -2.0 * PairwiseLogit().expectation(y, z[i] - z[j], nothing)[2]
        return whole, 2.0 / k * (p[i] + p[j]) * pairs

    whole, broken = informations(np.zeros(k))
    assert_allclose(whole, 1.0 / k**2, rtol=1e-9)
    assert_allclose(broken, whole, rtol=1e-9)
    assert_allclose(start_sites(np.zeros(i.size, dtype=np.int64), y)[0], whole, rtol=1e-9)
    for seed in range(5):
        whole, broken = informations(np.random.default_rng(seed).normal(size=k))
        assert np.allclose(whole, broken) == (k == 2)


@pytest.mark.parametrize(("k", "tolerance"), [(2, 0.001), (3, 0.002), (5, 0.006), (8, 0.006)])
def test_expectations_have_the_derivatives_of_the_bound(k, tolerance):
    errors, (i, j) = [], pairs_of(k)
    for seed in range(8):
        m, V = problem(k, seed, 1.4 / np.sqrt(k))
        mean, variance = of_pairs(m, V)
        likelihood, y = ChoiceLikelihood(np.zeros(mean.size, dtype=np.int64)), np.ones(mean.size)
        _, slope, curvature = likelihood.expectation(y, mean, variance)
        z = np.random.default_rng(0).multivariate_normal(m, V, 200_000)
        p = np.exp(z - np.logaddexp.reduce(z, axis=1)[:, None])
        errors.append(
            (slope - np.where(i == 0, p.mean(axis=0)[j], 0.0), -2.0 * curvature - (p[:, i] * p[:, j]).mean(0))
        )
        for direction in np.eye(k):  # of one alternative's utility
            step = 1e-4 * direction
            up, down = (likelihood.expectation(y, of_pairs(m + s, V)[0], variance)[0].sum() for s in (step, -step))
            assert (up - down) / 2e-4 == pytest.approx(slope @ (direction[i] - direction[j]), abs=2e-3)
    assert np.sqrt((np.square(errors).max(axis=2)).mean(axis=0)).max() < tolerance


def test_equal_alternatives_and_combinations_of_others_are_no_fault():
    m = np.array([0.5, 0.5, -1.0, 0.2])
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    stage, weight = np.zeros(6, dtype=np.int64), np.ones(6)
    sites = choice_sites(stage, of_pairs(m, X @ X.T), weight, start_sites(stage, weight))
    assert all(np.isfinite(part).all() for part in sites)
    tau, nu, log_sites = choice_sites(stage, (np.zeros(6), np.zeros(6)), weight, start_sites(stage, weight))
    assert (log_sites, np.isfinite(tau).all(), np.isfinite(nu).all()) == (pytest.approx(-np.log(4.0)), True, True)
    assert_allclose(shares_of(np.array([0, 6]), np.zeros(6), np.zeros(6)), 0.25)


@pytest.mark.parametrize("coarse", [False, True])
def test_points_have_the_moments_of_a_normal(*, coarse):
    nodes = nodes_of(8, coarse=coarse)
    for f in range(1, 9):
        for number in range(int(nodes.n_sets[f])):
            points, logs = compiled._nodes_of.py_func(f, tuple(nodes), number)
            weight = np.exp(logs) / np.exp(logs).sum()
            assert_allclose(points @ weight, 0.0, atol=1e-9)
            assert_allclose((points * weight) @ points.T, np.eye(f), atol=1e-5)


def test_exponentials_are_those_of_the_library():
    x = np.concatenate([-np.geomspace(1e-8, 39.0, 500), [0.0]])
    got = x.copy()
    compiled._exp(got)
    assert_allclose(got, np.exp(x), rtol=1e-7)
    far = np.array([-50.0, -np.inf])
    compiled._exp(far)
    assert_allclose(far, np.exp(-40.0), rtol=1e-6)


def test_rows_of_choices():
    stage = np.repeat([4, 7, 9], [3, 1, 6])
    starts = starts_of(stage)
    assert (starts.tolist(), sizes_of(starts).tolist()) == ([0, 3, 4, 10], [3, 2, 4])
    assert are_decided(stage).tolist() == [True, True, False, True, True, True, True, False, False, False]
    assert starts_of(np.zeros(0, dtype=np.int64)).tolist() == [0]
