"""Differences between groups and by context in chains, against dense linear algebra."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref.exceptions import DataError
from skpref.inference.chain_filter import filter_chains
from skpref.inference.chain_groups import LEFT_OUT, GroupDifferences, Levels
from skpref.inference.chains import ChainGroup, ChainPrior, ChainProblem, ConditionedChains, Nodes, fit_chains
from skpref.inference.trajectories import Trajectories, trajectories
from skpref.likelihoods import PairwiseLogit

PRIORS = dict.fromkeys(("start", "form", "length", "drift", *(f"group {k}" for k in range(4))), (0.0, 1.0))
THETA = np.log([0.8, 0.6, 0.3, 0.9, 0.5, 0.7, 0.4, 0.3])  # of two kinds of groups, a number and a vector of two
SIZES, WIDTHS = np.array([2, 3]), np.array([1, 2])
N_CHAINS = 3


def group_of_nodes(seed=1, n=18):
    rng = np.random.default_rng(seed)
    chain = np.concatenate([np.arange(N_CHAINS), rng.integers(N_CHAINS, size=n - N_CHAINS)])
    time, level = np.round(rng.random(n), 1), np.column_stack([rng.integers(size, size=n) for size in SIZES])
    level = np.hstack([level, np.round(rng.normal(size=(n, 3)), 1)])
    part = np.unique(level, axis=0, return_inverse=True)[1].ravel()
    nodes, place = Nodes.from_times(chain, time, N_CHAINS, part)
    of_node = np.empty((nodes.size, 5))
    of_node[place] = level
    return ChainGroup(nodes, PRIORS, Levels(nodes.chain, of_node, SIZES, N_CHAINS, WIDTHS))


def covariance(theta, chain, time, level, first):
    """Return the prior covariance of values at times, in groups and context; a group below 0 has no difference."""
    c, g, length, w, *groups = np.exp(theta)
    since = time - first[chain]
    K = c**2 + g**2 * np.exp(-np.abs(time[:, None] - time) / length) + w**2 * np.minimum(since[:, None], since)
    for scale, column in zip(groups[:2], level.T[:2], strict=True):
        K += scale**2 * ((column[:, None] == column) & (column >= 0))
    for scale, numbers in zip(groups[2:], (level[:, 2:3], level[:, 3:]), strict=True):
        K += scale**2 * numbers @ numbers.T
    return np.where(chain[:, None] == chain, K, 0.0)


def problem_of(group, seed=2):
    n = group.nodes.size
    rng = np.random.default_rng(seed)
    rows = np.column_stack([np.arange(n), (np.arange(n) + 1) % n])
    y = rng.integers(0, 2, n).astype(float)
    return ChainProblem((group,), rows, np.tile([1.0, -1.0], (n, 1)), y, np.ones(n), PairwiseLogit(), np.arange(n + 1))


def test_solutions_and_gradients_are_those_of_dense_algebra():
    group, rng = group_of_nodes(), np.random.default_rng(3)
    problem, nodes, n = problem_of(group), group.nodes, group.nodes.size
    D, r = 3.0 * rng.random(n), rng.normal(size=n)
    chains, first = ConditionedChains(ChainPrior(problem, THETA), D), nodes.time[nodes.starts[:-1]]

    def prior(theta):
        return covariance(theta, nodes.chain, nodes.time, group.levels.level, first)

    S = np.linalg.inv(np.linalg.inv(prior(THETA)) + np.diag(D))
    assert_allclose(chains.solve(r), S @ r, atol=1e-12)
    columns = np.column_stack([r, r**2])
    assert_allclose(chains.solve_columns(columns), S @ columns, atol=1e-12)
    assert_allclose(chains.variance, np.diag(S), atol=1e-12)
    assert_allclose(chains.log_det, np.linalg.slogdet(np.eye(n) + prior(THETA) * D)[1], atol=1e-10)
    u = S @ r

    def expected_log_prior(theta):
        K = prior(theta)
        return -0.5 * (np.linalg.slogdet(K)[1] + u @ np.linalg.solve(K, u) + np.trace(np.linalg.solve(K, S)))

    steps = 1e-5 * np.eye(THETA.size)
    wanted = [(expected_log_prior(THETA + h) - expected_log_prior(THETA - h)) / 2e-5 for h in steps]
    assert_allclose(chains.gradient(r), wanted, rtol=1e-6, atol=1e-8)


def test_predictions_are_those_of_dense_algebra():
    """At other times, in groups, unseen ones and none, and in context, given what rows say of the nodes."""
    group = group_of_nodes()
    problem, nodes = problem_of(group), group.nodes
    fit = fit_chains(problem, THETA, max_iter=50, tol=1e-8)
    (chains,) = trajectories(problem, fit)
    chains.validate()
    first = nodes.time[nodes.starts[:-1]]
    at, time = np.array([0, 0, 1, 2]), np.array([0.95, 2.0, 0.5, 0.33])
    time = np.maximum(time, first[at])
    level = np.array([[1, 2], [LEFT_OUT, 0], [-1, 1], [LEFT_OUT, LEFT_OUT]])
    level = np.hstack([level, np.random.default_rng(4).normal(size=(4, 3))])
    everywhere = [np.concatenate(pair) for pair in ((nodes.chain, at), (nodes.time, time))]
    K = covariance(THETA, *everywhere, np.vstack([group.levels.level, level]), first)
    unseen = (level[:, :2] == -1) @ np.exp(2.0 * THETA[4:6])
    K[np.diag_indices_from(K)] += np.concatenate([np.zeros(nodes.size), unseen])
    n = nodes.size
    gain = K[n:, :n] @ np.linalg.inv(np.eye(n) + fit.D[:, None] * K[:n, :n])
    mean, variance = chains.moments(at, time, level)
    assert_allclose(mean, gain @ fit.linear, atol=1e-9)
    assert_allclose(variance, np.diag(K[n:, n:] - gain @ (fit.D[:, None] * K[:n, n:])), atol=1e-9)


def test_further_nodes_keep_groups_apart():
    """Nodes without answers and levels say nothing of differences, and known groups keep what they know."""
    group = group_of_nodes()
    problem = problem_of(group)
    (chains,) = trajectories(problem, fit_chains(problem, THETA, max_iter=20, tol=1e-6))
    more = chains.with_nodes(np.array([0, 3]), np.array([2.0, 2.0]), np.zeros(2), np.zeros(2))
    more.validate()
    at, level = np.array([0, 1, 2]), np.array([[0, 1], [1, -1], [LEFT_OUT, 2]])
    level, time = np.hstack([level, np.full((3, 3), 0.7)]), np.array([2.0, 3.0, 1.5])
    for before, after in zip(chains.moments(at, time, level), more.moments(at, time, level), strict=True):
        assert_allclose(after, before, rtol=1e-12)
    new = more.moments(np.array([3]), np.array([2.0]), np.array([[0, LEFT_OUT, 2.0, 0.0, 1.0]]))
    assert_allclose(new[1], np.exp(2.0 * THETA[[0, 1, 4, 6, 7]]) @ [1.0, 1.0, 1.0, 4.0, 1.0])
    assert_allclose(chains.groups.unseen(np.array([[0, LEFT_OUT, 2.0, 0.0, 1.0]])), new[1] - chains.prior_variance)


def test_further_rows_tell_of_differences_as_earlier_ones():
    """Nodes in two parts are the nodes at once, and those of dense algebra."""
    group, rng = group_of_nodes(), np.random.default_rng(5)
    nodes = group.nodes
    n, level, K = nodes.size, group.levels.level, int(SIZES.sum() + WIDTHS.sum())
    parts = nodes.chain, nodes.time, 2.0 * rng.random(n), rng.normal(size=n)
    variances = np.exp(2.0 * THETA[4:])
    prior = np.tile(np.diag(np.repeat(variances, [*SIZES, *WIDTHS])), (N_CHAINS, 1, 1))
    nothing = GroupDifferences(np.zeros((N_CHAINS, K)), prior, np.zeros((0, 5)), SIZES, variances, None, WIDTHS)
    scales = np.array(group.scales(THETA))
    empty = Trajectories(np.zeros(0, int), *np.zeros((3, 0)), scales, groups=nothing)
    whole = empty.with_nodes(*parts, level)
    whole.validate()
    first = np.sort(rng.permutation(n)[: n // 2])
    first = np.union1d(first, nodes.starts[:-1])
    rest = np.setdiff1d(np.arange(n), first)
    twice = empty.with_nodes(*(part[first] for part in parts), level[first])
    twice = twice.with_nodes(*(part[rest] for part in parts), level[rest])
    at, time, asked = np.array([0, 1, 2]), np.array([2.0, 1.5, 3.0]), np.array([[0, 1], [LEFT_OUT, 2], [-1, 0]])
    asked = np.hstack([asked, rng.normal(size=(3, 3))])
    mean, variance = whole.moments(at, time, asked)
    for got, wanted in zip(twice.moments(at, time, asked), (mean, variance), strict=True):
        assert_allclose(got, wanted, rtol=1e-10)
    start = nodes.time[nodes.starts[:-1]]
    everywhere = [np.concatenate(pair) for pair in ((nodes.chain, at), (nodes.time, time))]
    dense = covariance(THETA, *everywhere, np.vstack([level, asked]), start)
    dense[np.diag_indices_from(dense)] += np.append(np.zeros(n), (asked[:, :2] == -1) @ variances[:2])
    gain = dense[n:, :n] @ np.linalg.inv(np.eye(n) + parts[2][:, None] * dense[:n, :n])
    assert_allclose(mean, gain @ parts[3], atol=1e-9)
    assert_allclose(variance, np.diag(dense[n:, n:] - gain @ (parts[2][:, None] * dense[:n, n:])), atol=1e-9)


def test_parts_that_do_not_fit_are_refused():
    group = GroupDifferences(np.zeros((2, 3)), np.zeros((2, 3, 3)), np.zeros((4, 1)), np.array([3]), np.ones(1))
    group.validate()
    wrong = {"mean": np.zeros((2, 2)), "sizes": np.array([0]), "variances": np.zeros(1), "level": np.zeros((4, 2))}
    for name, bad in wrong.items():
        parts = {field: getattr(group, field) for field in ("mean", "covariance", "level", "sizes", "variances")}
        with pytest.raises(DataError, match=name if name != "mean" else "mean|covariance"):
            GroupDifferences(**parts | {name: bad}).validate()


def test_what_groups_add_is_of_the_slots_of_items():
    """An effect beside them learns the same as without groups, given the same variance of all else."""
    group = group_of_nodes()
    (chains,) = trajectories(problem_of(group), fit_chains(problem_of(group), THETA, max_iter=20, tol=1e-6))
    effect = Trajectories(np.zeros(1, int), np.zeros(1), np.zeros(1), np.zeros(1), np.array([0.5, 0.0, 1.0, 0.1]))
    one, time = np.ones(2), np.array([2.0, 2.5])
    slots = [(0, np.array([0, 1]), one), (0, np.array([1, 2]), -one), (1, np.zeros(2, int), np.array([0.3, -0.2]))]
    rows = slots, time, (np.zeros(2), np.full(2, 0.8)), (np.array([1.0, 0.0]), one)
    rows = *rows, ([PairwiseLogit()], np.zeros(2, int))
    added = np.full((2, 2, 2), 0.3), np.array([[0.0, 0.0, 0.1, 0.2, 0.3], [1.0, 1.0, 0.0, 0.0, 0.0]])
    _, wanted = filter_chains([replace(chains, groups=None), effect], *rows)
    _, found = filter_chains([chains, effect], *rows, added)
    assert_allclose(found.D, wanted.D, rtol=1e-12)
    assert_allclose(found.linear, wanted.linear, rtol=1e-12)
