"""Chains over time: against dense linear algebra, and against the exact variational posterior."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref._compiled import chains
from skpref._compiled.chains import decays, score, solve
from skpref.data.comparisons import pairs_of
from skpref.inference.chain_filter import filter_chains
from skpref.inference.chains import (
    LOGS,
    ChainGroup,
    ChainProblem,
    Nodes,
    fit_chains,
    gradient_of_bound,
    learn_chains,
    log_posterior,
)
from skpref.inference.choices import ChoiceLikelihood
from skpref.inference.trajectories import Trajectories, trajectories
from skpref.likelihoods import PairwiseLogit, PairwiseLogitTies

PRIORS = {"start": (0.0, 1.0), "form": (-0.7, 1.0), "length": (0.7, 1.5), "drift": (-1.5, 1.5)}
KINDS = {
    "constant": ("start",),
    "drift": ("start", "drift"),
    "form": ("start", "form", "length"),
    "both": ("start", "form", "length", "drift"),
}


def condition(scales, starts, time, D):
    return chains.condition(scales, starts, time, decays(scales, starts, time), D)


def covariance(chain, time, scales):
    """Return the prior covariance of nodes."""
    c2, g2, length, w2 = scales
    first = {k: time[chain == k].min() for k in set(chain.tolist())}
    since = time - np.array([first[k] for k in chain.tolist()])
    K = c2 + g2 * np.exp(-np.abs(time[:, None] - time) / length) + w2 * np.minimum(since[:, None], since)
    return np.where(chain[:, None] == chain, K, 0.0)


def games(n_items=8, n=120, seed=0, tree=False):
    rng = np.random.default_rng(seed)
    time = rng.uniform(0.0, 10.0, n)
    if tree:  # each game is an item's first one, and the other side's only one at that time
        right = np.arange(1, n + 1)
        left = np.array([rng.integers(k) for k in right])
        n_items = n + 1
    else:
        left = rng.integers(n_items, size=n)
        right = (left + rng.integers(1, n_items, n)) % n_items
    y = rng.integers(0, 2, n).astype(float)
    return left, right, time, y, n_items


def problem_of(left, right, time, y, n_items, kind="both", weight=None, likelihood=None, unit=None):
    nodes, place = Nodes.from_times(np.concatenate([left, right]), np.concatenate([time, time]), n_items)
    group = ChainGroup(nodes, {name: PRIORS[name] for name in KINDS[kind]})
    node, n = np.column_stack(np.split(place, 2)), len(y)
    weight = np.ones(n) if weight is None else weight
    unit = np.arange(n + 1) if unit is None else unit
    return ChainProblem((group,), node, np.tile([1.0, -1.0], (n, 1)), y, weight, likelihood or PairwiseLogit(), unit)


def exact(problem, theta):
    """Return mean and variance of z, and the bound, of the best Gaussian over all nodes together."""
    nodes, n = problem.groups[0].nodes, problem.y.size
    H = np.zeros((n, nodes.size))
    for slot in range(problem.node.shape[1]):
        np.add.at(H, (np.arange(n), problem.node[:, slot]), problem.coefficient[:, slot])
    logs = problem.split(theta)[0]
    K = H @ covariance(nodes.chain, nodes.time, problem.groups[0].scales(logs)) @ H.T
    if problem.features is not None:
        K += np.exp(2.0 * theta[-1]) * problem.features @ problem.features.T
    tau, nu = np.full(n, 0.2), problem.y - 0.5
    for _ in range(300):
        root = np.sqrt(tau)
        B = np.eye(n) + root[:, None] * K * root
        S = K - (K * root) @ np.linalg.solve(B, root[:, None] * K)
        mean, variance = S @ nu, np.diag(S).copy()
        value, gradient, curvature = problem.likelihood.expectation(problem.y, mean, variance)
        tau = -2.0 * curvature
        nu = tau * mean + gradient
    alpha = np.linalg.solve(K + 1e-9 * np.eye(n), mean)
    divergence = 0.5 * (np.linalg.slogdet(B)[1] - root**2 @ variance + mean @ alpha)
    return mean, variance, float(value.sum()) - divergence


@pytest.mark.parametrize(
    "scales", [(0.7, 0.4, 2.0, 0.1), (0.7, 0.0, 1.0, 0.1), (0.0, 0.4, 0.5, 0.0), (0.0, 0.0, 1.0, 0.3)]
)
@pytest.mark.parametrize("gaps", [np.ones(7), np.array([1e-9, 1.0, 1e6, 0.3, 1e-3, 50.0, 2.0])])
def test_passes_are_those_of_dense_algebra(scales, gaps):
    rng = np.random.default_rng(1)
    chain, starts = np.array([0] * 5 + [1] * 3), np.array([0, 5, 8])
    time = np.concatenate([[0.0], np.cumsum(gaps)])
    D, r = rng.uniform(0.0, 2.0, 8), rng.normal(size=8)
    K = covariance(chain, time, scales)
    wanted = K @ np.linalg.inv(np.eye(8) + D[:, None] * K)
    variance, log_det, passes = condition(scales, starts, time, D)
    assert_allclose(variance, np.diag(wanted), rtol=1e-9, atol=1e-12)
    assert_allclose(log_det, np.linalg.slogdet(np.eye(8) + D[:, None] * K)[1], rtol=1e-10)
    u, _ = solve(starts, D, passes, r)
    assert_allclose(u, wanted @ r, rtol=1e-8, atol=1e-10)


def test_an_empty_chain_and_one_of_a_single_node():
    variance, log_det, passes = condition((0.5, 0.25, 1.0, 1.0), np.array([0, 0, 1]), np.array([3.0]), np.array([2.0]))
    assert_allclose(variance, 0.75 / 2.5)
    assert_allclose(log_det, np.log(2.5))
    assert_allclose(solve(np.array([0, 0, 1]), np.array([2.0]), passes, np.ones(1))[0], 0.3)


def test_the_score_is_the_gradient_of_the_evidence_of_a_gaussian():
    rng = np.random.default_rng(2)
    starts, time = np.array([0, 5, 8]), np.sort(rng.uniform(0.0, 5.0, 8))
    D, linear = rng.uniform(0.5, 2.0, 8), rng.normal(size=8)
    logs = np.log([0.8, 0.6, 1.5, 0.3])

    def scales(logs):
        return np.exp(2 * logs[0]), np.exp(2 * logs[1]), np.exp(logs[2]), np.exp(2 * logs[3])

    def evidence(logs):  # log of the integral of N(u; 0, K) exp(linear u - D u^2 / 2)
        _, log_det, passes = condition(scales(logs), starts, time, D)
        return 0.5 * linear @ solve(starts, D, passes, linear)[0] - 0.5 * log_det

    _, _, passes = condition(scales(logs), starts, time, D)
    slope = solve(starts, D, passes, linear)[1]
    got = score(scales(logs), starts, time, D, passes, slope, linear)
    steps = 1e-5 * np.eye(4)
    wanted = [(evidence(logs + step) - evidence(logs - step)) / 2e-5 for step in steps]
    assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_of_games_is_exact(kind):
    left, right, time, y, n_items = games(n=12, tree=True)
    time = np.sort(time)
    problem = problem_of(left, right, time, y, n_items, kind)
    if kind != "constant":  # an item that moves is at several nodes, and games at one of them: keep the tree
        left = np.arange(12)
        problem = problem_of(left, left + 1, time, y, 13, kind)
    theta = problem.priors()[0]
    fit = fit_chains(problem, theta, max_iter=200, tol=1e-10)
    mean, variance, bound = exact(problem, theta)
    assert_allclose(fit.mean, mean, atol=1e-4)
    assert_allclose(fit.variance, variance, rtol=1e-4)
    assert_allclose(fit.bound, bound, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_many_games_are_close_to_the_exact_posterior(kind):
    problem = problem_of(*games(n_items=20, n=150), kind)
    theta = problem.priors()[0]
    fit = fit_chains(problem, theta, max_iter=200, tol=1e-8)
    mean, variance, bound = exact(problem, theta)
    assert fit.converged
    assert_allclose(fit.mean, mean, atol=0.03)
    assert_allclose(np.sqrt(fit.variance / variance).mean(), 1.0, atol=0.03)
    assert_allclose(fit.bound, bound, atol=1.5)


def with_features(problem, n_items, left, right, seed=5):
    rows = np.random.default_rng(seed).normal(size=(n_items, 4)) * np.array([1.0, 0.8, 0.5, 0.3])
    return replace(problem, features=rows[left] - rows[right])


@pytest.mark.parametrize("kind", KINDS)
def test_features_that_rows_share_are_exact(kind):
    left, right, time, y, n_items = games(n_items=20, n=150)
    plain = problem_of(left, right, time, y, n_items, kind)
    problem = with_features(plain, n_items, left, right)
    theta = problem.priors()[0]
    fit = fit_chains(problem, theta, max_iter=300, tol=1e-9)
    mean, variance, bound = exact(problem, theta)
    assert fit.converged
    assert_allclose(fit.mean, mean, atol=0.01)
    assert_allclose(np.sqrt(fit.variance / variance).mean(), 1.0, atol=0.03)
    # What the chains' bound lacks it lacks without features as well.
    without = fit_chains(plain, theta[:-1], max_iter=300, tol=1e-9).bound - exact(plain, theta[:-1])[2]
    assert_allclose(fit.bound - bound, without, atol=0.03)
    # The coefficients, by the dense Gaussian of the same sites.
    H, nodes, F = problem.matrix.toarray(), problem.groups[0].nodes, problem.features
    K = H @ covariance(nodes.chain, nodes.time, problem.groups[0].scales(theta[:-1])) @ H.T
    precision = np.eye(4) + F.T @ np.linalg.solve(np.diag(1.0 / fit.tau) + K, F)
    covariance_of_w = fit.features.half.T @ fit.features.half
    assert_allclose(covariance_of_w, np.linalg.inv(precision), rtol=0.02, atol=2e-3)
    wanted = np.linalg.solve(precision, F.T @ np.linalg.solve(np.diag(1.0 / fit.tau) + K, fit.nu / fit.tau))
    assert_allclose(fit.features.mean, wanted, atol=2e-3)


def fit_with_gradients(problem, theta, atol):
    """Return a fit after its gradient was compared with central differences."""

    def fit(theta):
        return fit_chains(problem, theta, max_iter=300, tol=1e-8)

    wanted = [(fit(theta + step).bound - fit(theta - step).bound) / 2e-3 for step in 1e-3 * np.eye(theta.size)]
    found = fit(theta)
    assert_allclose(gradient_of_bound(problem, found), wanted, rtol=0.01, atol=atol)
    return found


@pytest.mark.parametrize("unit", [None, 4 * np.arange(31)])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_with_features_are_those_of_differences(kind, unit):
    left, right, time, y, n_items = games()
    problem = with_features(problem_of(left, right, time, y, n_items, kind, unit=unit), n_items, left, right)
    theta = problem.priors()[0] + 0.1
    fit = fit_with_gradients(problem, theta, atol=0.015)
    warm = fit_chains(problem, theta + 0.3, max_iter=300, tol=1e-8, start=fit)
    cold = fit_chains(problem, theta + 0.3, max_iter=300, tol=1e-8)
    assert_allclose(warm.mean, cold.mean, atol=2e-3)
    assert_allclose(warm.bound, cold.bound, atol=5e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_one_unit_are_exact_however_they_connect(kind):
    left, right, _, y, n_items = games(n=40)
    problem = problem_of(left, right, np.full(40, 2.0), y, n_items, kind, unit=np.array([0, 40]))
    theta = problem.priors()[0]
    fit = fit_chains(problem, theta, max_iter=200, tol=1e-9)
    for got, wanted in zip((fit.mean, fit.variance, fit.bound), exact(problem, theta), strict=True):
        assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)
    apart = fit_chains(replace(problem, unit=np.arange(41)), theta, max_iter=200, tol=1e-9)
    assert abs(apart.bound - fit.bound) > 0.1


def test_units_of_one_row_and_of_several_are_the_same_model():
    left, right, time, y, n_items = games(n=60, tree=True)
    rows = problem_of(left, right, time, y, n_items)
    pairs = problem_of(*(np.repeat(each, 2) for each in (left, right, time, y)), n_items, weight=np.full(120, 0.5))
    theta = rows.priors()[0]
    fit = fit_chains(rows, theta, max_iter=200, tol=1e-9)
    halves = fit_chains(replace(pairs, unit=2 * np.arange(61)), theta, max_iter=200, tol=1e-9)
    assert_allclose(halves.mean[::2], fit.mean, atol=1e-4)
    assert_allclose(halves.variance[::2], fit.variance, rtol=1e-4)
    assert_allclose(halves.bound, fit.bound, atol=1e-4)


def test_rankings_of_items_in_form_for_a_day_converge():
    rng, k = np.random.default_rng(0), 14
    order = [rng.permutation(16)[:k] for _ in range(12)]
    parts = [(race[at:], day) for day, race in enumerate(order) for at in range(k - 1)]  # who is left to be chosen from
    rows = [
        (of[a], of[b], day, stage)
        for stage, (of, day) in enumerate(parts)
        for a, b in zip(*pairs_of(of.size), strict=True)
    ]
    left, right, day, stage = (np.array(each) for each in zip(*rows, strict=True))
    unit = np.append(np.flatnonzero(np.diff(day, prepend=-1)), day.size)
    likelihood = ChoiceLikelihood(stage)
    problem = problem_of(left, right, 1.0 * day, np.ones(day.size), 16, "form", likelihood=likelihood, unit=unit)
    fit = fit_chains(problem, np.log([2.0, 2.5, 0.01]), max_iter=30, tol=1e-5)
    assert fit.converged


@pytest.mark.parametrize("unit", [None, 4 * np.arange(31)])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_differences(kind, unit):
    problem = problem_of(*games(), kind, unit=unit)
    theta = problem.priors()[0] + 0.1
    fit_with_gradients(problem, theta, atol=0.01)


def test_a_search_rises_and_starts_of_other_hyperparameters_end_at_the_same_fit():
    problem = problem_of(*games(n=300))
    start = problem.priors()[0]
    before = fit_chains(problem, start, max_iter=50, tol=1e-4)
    theta, found = learn_chains(problem, start, max_iter=50, tol=1e-4)
    cold = fit_chains(problem, theta, max_iter=100, tol=1e-8)
    assert log_posterior(problem, cold) > log_posterior(problem, before)
    warm = fit_chains(problem, theta, max_iter=100, tol=1e-8, start=before)
    assert_allclose(warm.mean, cold.mean, atol=1e-3)
    assert_allclose(warm.bound, cold.bound, atol=1e-3)
    assert found.theta.size == len(LOGS)


def test_units_orders_sides_and_weights_change_nothing():
    left, right, time, y, n_items = games(n=80)
    problem = problem_of(left, right, time, y, n_items)
    theta = problem.priors()[0]
    wanted = fit_chains(problem, theta, max_iter=100, tol=1e-8)
    shuffle = np.random.default_rng(3).permutation(80)
    other = problem_of(left[shuffle], right[shuffle], time[shuffle], y[shuffle], n_items)
    assert_allclose(fit_chains(other, theta, max_iter=100, tol=1e-8).mean, wanted.mean[shuffle], atol=1e-6)
    exchanged = fit_chains(problem_of(right, left, time, 1.0 - y, n_items), theta, max_iter=100, tol=1e-8)
    assert_allclose(exchanged.mean, -wanted.mean, atol=1e-6)
    days = fit_chains(
        problem_of(left, right, 365.0 * time, y, n_items),
        theta + np.log(365.0) * np.array([0.0, 0.0, 1.0, -0.5]),
        max_iter=100,
        tol=1e-8,
    )
    assert_allclose(days.mean, wanted.mean, atol=1e-6)
    twice = (np.concatenate([each, each[:20]]) for each in (left, right, time, y))
    weight = np.where(np.arange(80) < 20, 2.0, 1.0)
    weighted = fit_chains(problem_of(left, right, time, y, n_items, weight=weight), theta, max_iter=100, tol=1e-8)
    assert_allclose(
        fit_chains(problem_of(*twice, n_items), theta, max_iter=100, tol=1e-8).mean[:80], weighted.mean, atol=0.02
    )


def test_the_reverse_of_time_is_as_good_for_what_is_stationary():
    left, right, time, y, n_items = games(n=80)
    bounds = {}
    for kind in ("form", "drift"):
        problem = problem_of(left, right, time, y, n_items, kind)
        back = problem_of(left, right, -time, y, n_items, kind)
        theta = problem.priors()[0] + 0.5
        bounds[kind] = [fit_chains(each, theta, max_iter=100, tol=1e-9).bound for each in (problem, back)]
    assert_allclose(*bounds["form"], atol=1e-6)
    assert abs(bounds["drift"][0] - bounds["drift"][1]) > 1e-3


def test_thresholds_of_ties_are_learnt():
    left, right, time, y, n_items = games(n=200)
    y[::3] = 0.5
    fit = fit_chains(
        problem_of(left, right, time, y, n_items, likelihood=PairwiseLogitTies()),
        np.array([p[0] for p in PRIORS.values()]),
        max_iter=100,
        tol=1e-6,
    )
    shares = fit.likelihood.predict_answers(fit.mean, fit.variance).mean(axis=0)
    assert_allclose(shares[1], np.mean(y == 0.5), atol=0.02)


def test_predictions_interpolate_and_go_to_the_prior():
    problem = problem_of(*games(n=100))
    theta = problem.priors()[0]
    fit = fit_chains(problem, theta, max_iter=100, tol=1e-8)
    (posterior,) = trajectories(problem, fit)
    posterior.validate()
    nodes = problem.groups[0].nodes
    mean, variance = posterior.moments(nodes.chain, nodes.time)
    assert_allclose(mean, fit.u, atol=1e-5)
    # Between nodes: the dense process given the same sites of the nodes.
    rng = np.random.default_rng(4)
    chain, time = rng.integers(8, size=5), rng.uniform(2.0, 9.0, 5)
    K = covariance(np.append(nodes.chain, chain), np.append(nodes.time, time), problem.groups[0].scales(theta))
    n = nodes.size
    solved = np.linalg.solve(
        np.eye(n) + fit.D[:, None] * K[:n, :n], np.column_stack([fit.linear, fit.D[:, None] * K[:n, n:]])
    )
    mean, variance = posterior.moments(chain, time)
    assert_allclose(mean, K[n:, :n] @ solved[:, 0], atol=1e-8)
    assert_allclose(variance, np.diag(K[n:, n:] - K[n:, :n] @ solved[:, 1:]), atol=1e-8)
    c2, g2, _, w2 = problem.groups[0].scales(theta)
    far = 1e4
    mean, variance = posterior.moments(np.array([0, 50]), np.array([far, 3.0]))
    assert variance[0] > g2 + 0.9 * w2 * far
    assert_allclose([mean[1], variance[1]], [0.0, c2 + g2], atol=1e-12)


class Measured:
    """Answers are values with noise of variance 1/2, so that a filter of single nodes is Kalman's."""

    def derivatives(self, y, z):
        return -np.square(y - z), 2.0 * (y - z), np.full(y.shape, -2.0)


def test_a_filter_of_one_chain_a_row_is_exact():
    rng, scales = np.random.default_rng(7), np.array([0.7, 0.4, 2.0, 0.1])
    known = Trajectories(np.array([0, 0, 1]), np.array([0.0, 1.0, 0.5]), *rng.uniform(0.5, 2.0, (2, 3)), scales)
    known = known.with_nodes(np.array([2]), np.array([1.5]), np.zeros(1), np.zeros(1))  # a new one
    chain, time, y = rng.integers(3, size=30), np.sort(rng.uniform(1.5, 6.0, 30)), rng.normal(size=30)
    coefficient, rest = rng.uniform(-1.0, 2.0, 30), rng.uniform(0.0, 0.3, 30)
    time[1::5] = time[::5]
    slots, moments = [(0, chain, coefficient)], (rest, 0.5 * rest)
    (got,) = filter_chains([known], slots, time, moments, (y, np.ones(30)), ([Measured()], np.zeros(30, int)))
    got.validate()
    precision = coefficient**2 / (0.5 + 0.5 * rest)
    linear = coefficient * (y - rest) / (0.5 + 0.5 * rest)
    wanted = known.with_nodes(chain, time, precision, linear)
    at = np.arange(3), np.full(3, 7.0)
    for one, other in zip(got.moments(*at), wanted.moments(*at), strict=True):
        assert_allclose(one, other, rtol=2e-3, atol=2e-4)
    mean, covariance, last = got.ends()
    assert_allclose(last, [time[chain == k].max() for k in range(3)])
    value, variance = wanted.moments(np.arange(3), last)
    assert_allclose(mean.sum(axis=1), value, atol=1e-3)
    assert_allclose(covariance @ [1.0, 2.0, 1.0], variance, rtol=2e-3)


@pytest.mark.parametrize("likelihood", [PairwiseLogit(), PairwiseLogitTies()])
def test_a_filtered_answer_has_the_moments_of_bayes_rule(likelihood):
    scales = np.array([0.7, 0.4, 2.0, 0.1])
    items = Trajectories(np.array([0, 1]), np.zeros(2), np.zeros(2), np.zeros(2), scales)
    effect = Trajectories(np.array([0]), np.array([3.0]), np.array([2.0]), np.array([1.0]), np.array([0.5, 0, 1, 0.2]))
    slots = [(0, np.array([0]), np.ones(1)), (0, np.array([1]), -np.ones(1)), (1, np.array([0]), np.array([1.5]))]
    z = np.linspace(-30.0, 30.0, 60_001)
    for y, weight in ((1.0, 1.0), (0.5, 3.0), (0.0, 0.5)):
        rest, at = (np.array([0.3]), np.array([0.2])), np.array([2.0])
        answers, likelihoods = (np.array([y]), np.array([weight])), ([likelihood], np.zeros(1, int))
        moved = filter_chains([items, effect], slots, at, rest, answers, likelihoods)
        assert moved[1].time.max() == 3.0  # the effect is known as of later: this row is one of that time
        prior = [part.moments(np.array([c]), np.array([t])) for part, c, t in ((items, 0, 2.0), (effect, 0, 3.0))]
        sizes = np.array([1.0, 1.0, 1.5])
        v = np.array([prior[0][1][0], prior[0][1][0], prior[1][1][0]])
        mean, variance = 0.3 + 1.5 * prior[1][0][0], 0.2 + sizes**2 @ v
        logs = weight * likelihood.derivatives(np.full(z.size, y), z)[0] - 0.5 * (z - mean) ** 2 / variance
        p = np.exp(logs - logs.max())
        p /= p.sum()
        after = p @ z
        left, spread = moved[0].moments(np.array([0]), at)
        assert_allclose(left, v[0] / variance * (after - mean), atol=2e-4)
        fall = (variance - p @ (z - after) ** 2) / variance**2
        assert_allclose(spread, v[0] - v[0] ** 2 * fall, rtol=3e-3)
        beta, spread = moved[1].moments(np.array([0]), np.array([3.0]))
        assert_allclose(beta, prior[1][0] + 1.5 * v[2] / variance * (after - mean), atol=2e-4)
        assert_allclose(spread, v[2] - 2.25 * v[2] ** 2 * fall, rtol=3e-3)


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("chain", np.array([1, 0])),
        ("time", np.array([1.0, 1.0])),
        ("D", np.array([-1.0, 0.0])),
        ("scales", np.array([1.0, 1.0, 0.0, 1.0])),
    ],
)
def test_a_damaged_record_is_refused(part, wrong):
    problem = problem_of(np.array([0]), np.array([1]), np.array([1.0]), np.ones(1), 2)
    (posterior,) = trajectories(problem, fit_chains(problem, problem.priors()[0], max_iter=20, tol=1e-4))
    posterior.validate()
    if part == "time":
        posterior = replace(posterior, chain=np.array([0, 0]))
    with pytest.raises(ValueError, match=part):
        replace(posterior, **{part: wrong}).validate()
