"""Variational inference for rows that connect Gaussian chains over time (docs/maths section 12).

Each chain keeps an exact Gaussian over its nodes. Rows tell the chains by belief propagation how precisely they know
them, and the means are those of the joint posterior, by conjugate gradients whose preconditioner is one smoother pass
over all chains. Both are linear in the rows. Sites are those of `skpref.inference.sites`.
"""

from __future__ import annotations

import time as clock
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from skpref._compiled.chains import (
    condition,
    decays,
    score,
    send_messages,
    send_messages_together,
    solve,
    solve_columns,
)
from skpref._events import Iteration, seconds_since
from skpref._math.linalg import cholesky_precision, inverse_lower
from skpref.exceptions import DataError
from skpref.inference import hyper
from skpref.inference.chain_groups import Differences, Levels
from skpref.inference.policy import POLICY
from skpref.inference.sites import VARIATIONAL

if TYPE_CHECKING:
    from skpref._compiled.chains import Layout, Passes
    from skpref._events import OnIteration
    from skpref._typing import Array, IntArray
    from skpref.likelihoods import Likelihood

LOGS = "start", "form", "length", "drift"  # names of log c, g, length and w, in the order of the compiled loops
_ROUNDING = 2.0 * np.finfo(float).eps  # rounding error of an inner product of what rows say and solutions
_TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class Nodes:
    """The distinct times of each chain, in order; with groups, of each group."""

    chain: IntArray  # (n,)
    time: Array  # (n,)
    starts: IntArray  # (C + 1,): first node of each chain

    @classmethod
    def from_times(
        cls, chain: IntArray, time: Array, n_chains: int, part: IntArray | None = None
    ) -> tuple[Nodes, IntArray]:
        """Return the nodes of times of chains, and the node of each; different parts have nodes of their own."""
        part = np.zeros(chain.size, dtype=np.int64) if part is None else part
        order = np.lexsort((part, time, chain))
        sorted_chain, sorted_time = chain[order], time[order]
        new = np.ones(order.size, dtype=bool)
        new[1:] = (np.diff(sorted_chain) > 0) | (np.diff(sorted_time) > 0) | (np.diff(part[order]) > 0)
        of_row = np.empty(order.size, dtype=np.int64)
        of_row[order] = np.cumsum(new) - 1
        kept = sorted_chain[new]
        starts = np.searchsorted(kept, np.arange(n_chains + 1)).astype(np.int64)
        return cls(kept, sorted_time[new], starts), of_row

    @property
    def size(self) -> int:
        """Number of nodes."""
        return int(self.time.size)


@dataclass(frozen=True, eq=False)
class ChainGroup:
    """Chains with the same hyperparameters, and the normal priors of their logs; a variance without a prior is 0."""

    nodes: Nodes
    priors: dict[str, tuple[float, float]]  # mean and standard deviation, by a name of `LOGS`, or "group 0" and so on
    levels: Levels | None = None  # groups of the nodes, whose values differ by them

    def scales(self, theta: Array) -> tuple[float, float, float, float]:
        """Return c^2, g^2, the length-scale and w^2 at the logs of the hyperparameters."""
        logs = dict(zip(self.priors, np.asarray(theta).tolist(), strict=True))
        start, form, drift = (np.exp(2.0 * logs[name]) if name in logs else 0.0 for name in ("start", "form", "drift"))
        return float(start), float(form), float(np.exp(logs.get("length", 0.0))), float(drift)

    def variances(self, theta: Array) -> Array:
        """Return the variances of differences between groups of each kind."""
        logs = dict(zip(self.priors, np.asarray(theta).tolist(), strict=True))
        return np.exp(2.0 * np.array([value for name, value in logs.items() if name not in LOGS]))


@dataclass(frozen=True, eq=False)
class ChainProblem:
    """Rows z = sum of coefficient times the values of nodes, with their labels."""

    groups: tuple[ChainGroup, ...]
    node: IntArray  # (N, S): of all groups, one after the other
    coefficient: Array  # (N, S)
    y: Array  # (N,)
    weight: Array  # (N,)
    likelihood: Likelihood
    unit: IntArray  # (U + 1,): first row of each unit, whose rows speak to their nodes together
    features: Array | None = None  # (N, K): z has their products with coefficients w ~ N(0, s^2 I), too
    feature_prior: tuple[float, float] = (0.0, 1.0)  # of log s

    @cached_property
    def matrix(self) -> csr_array:
        """Return H as a sparse matrix, shape (N, n)."""
        ends = np.arange(0, self.node.size + 1, self.node.shape[1])
        shape = self.y.size, self.parts[-1].stop
        return csr_array((self.coefficient.ravel(), self.node.ravel(), ends), shape=shape)

    def layout(self) -> Layout:
        """Return the messages of units to nodes, as `send_messages` takes them."""
        (n_rows, n_slots), n_units = self.node.shape, self.unit.size - 1
        if n_units == n_rows:
            return self.node.ravel(), self.unit, self.unit * n_slots, np.arange(self.node.size).reshape(self.node.shape)
        n = int(self.node.max()) + 1
        of_row = np.repeat(np.arange(n_units), np.diff(self.unit))
        pair, slot = np.unique(of_row[:, None] * n + self.node, return_inverse=True)
        starts = np.searchsorted(pair // n, np.arange(n_units + 1))
        return pair % n, self.unit, starts, np.ascontiguousarray(slot.reshape(self.node.shape))

    @property
    def parts(self) -> list[slice]:
        """The nodes of each group."""
        ends = np.cumsum([0, *(group.nodes.size for group in self.groups)]).tolist()
        return [slice(a, b) for a, b in pairwise(ends)]

    def priors(self) -> tuple[Array, Array]:
        """Return means and standard deviations of the logs of all hyperparameters."""
        listed = [prior for group in self.groups for prior in group.priors.values()]
        pairs = np.array(listed + ([] if self.features is None else [self.feature_prior])).reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    def split(self, theta: Array) -> list[Array]:
        """Return the logs of each group."""
        return np.split(theta, np.cumsum([len(group.priors) for group in self.groups]))[: len(self.groups)]


@dataclass(frozen=True, eq=False)
class ChainFit:
    """Posterior of the chains, given what rows say: D and alpha + D u."""

    theta: Array
    likelihood: Likelihood
    u: Array  # (n,): means of the nodes
    alpha: Array  # (n,): K^-1 u
    D: Array  # (n,): precisions by the rows
    message: Array  # (E,)
    tau: Array  # (N,): sites
    nu: Array
    mean: Array  # (N,): of z
    variance: Array  # (N,)
    bounds: list[float]
    converged: bool
    features: FeaturePart | None = None

    @property
    def bound(self) -> float:
        """Bound on the log evidence, of Bethe's free energy."""
        return self.bounds[-1]

    @property
    def linear(self) -> Array:
        """What the rows say of the nodes beside D, shape (n,)."""
        return self.alpha + self.D * self.u


class ChainPrior:
    """The chains at given hyperparameters."""

    def __init__(self, problem: ChainProblem, theta: Array) -> None:
        self.parts, self.names = problem.parts, [list(group.priors) for group in problem.groups]
        self.nodes = [group.nodes for group in problem.groups]
        self.scales = [group.scales(logs) for group, logs in zip(problem.groups, problem.split(theta), strict=True)]
        groups = zip(problem.groups, problem.split(theta), strict=True)
        self.levels = [(group.levels, group.variances(logs)) for group, logs in groups]
        pairs = zip(self.nodes, self.scales, strict=True)
        self.decays = [decays(scales, nodes.starts, nodes.time) for nodes, scales in pairs]


class ConditionedChains:
    """All chains given D: variances, and solutions of (K^-1 + diag D) u = r."""

    def __init__(self, prior: ChainPrior, D: Array) -> None:
        self.prior, self.D, self.log_det, self._passes = prior, D, 0.0, []
        self.variance, self.differences = np.empty(D.size), list[Differences | None]()
        groups = zip(prior.parts, prior.nodes, prior.scales, prior.decays, prior.levels, strict=True)
        for part, nodes, scales, decay, (levels, variances) in groups:
            self.variance[part], log_det, passes = condition(scales, nodes.starts, nodes.time, decay, D[part])
            self.log_det += log_det
            self._passes.append(passes)
            found = None
            if levels is not None:
                found = Differences(levels, variances, D[part], partial(solutions, nodes.starts, D[part], passes))
                self.variance[part] += found.variance
                self.log_det += found.log_det
            self.differences.append(found)

    def solve(self, r: Array) -> Array:
        """Return (K^-1 + diag D)^-1 r."""
        u = np.empty(r.size)
        groups = zip(self.prior.parts, self.prior.nodes, self._passes, self.differences, strict=True)
        for part, nodes, passes, differences in groups:
            u[part] = solve(nodes.starts, self.D[part], passes, r[part])[0]
            if differences is not None:
                u[part] += differences.rise(r[part, None], u[part, None])[:, 0]
        return u

    def solve_columns(self, r: Array) -> Array:
        """Return (K^-1 + diag D)^-1 r of columns, shape (n, K)."""
        u = np.empty_like(r)
        groups = zip(self.prior.parts, self.prior.nodes, self._passes, self.differences, strict=True)
        for part, nodes, passes, differences in groups:
            solve_columns(nodes.starts, self.D[part], passes, r[part], u[part])
            if differences is not None:
                u[part] += differences.rise(r[part], u[part])
        return u

    def rest(self, group: int, r: Array) -> tuple[Array, Array]:
        """Return the linear terms of a group's chains without differences (n, F), and the means of these (C, K, F)."""
        differences = self.differences[group]
        assert differences is not None  # noqa: S101 - the group has levels
        c = differences.mean(r, differences.solve(r))
        return differences.rest(r, c), c

    def gradient(self, r: Array) -> Array:
        """Return the derivatives of the expected log prior of the chains in theta, r = alpha + D u."""
        out, prior = [], self.prior
        groups = zip(prior.parts, prior.nodes, prior.scales, prior.names, self._passes, strict=True)
        for number, (part, nodes, scales, names, passes) in enumerate(groups):
            D, of_part, differences = self.D[part], r[part], self.differences[number]
            if differences is not None:
                of_rest, c = self.rest(number, of_part[:, None])
                of_part = of_rest[:, 0]
            slope = solve(nodes.starts, D, passes, of_part)[1]
            slopes = score(scales, nodes.starts, nodes.time, D, passes, slope, of_part)
            if differences is not None:
                # The chains' second moments have those of what follows the differences, too.
                still = np.zeros(D.size)
                at = condition(scales, nodes.starts, nodes.time, prior.decays[number], still)[2]
                for row in differences.directions():
                    slope = solve(nodes.starts, still, at, row)[1]
                    slopes += score(scales, nodes.starts, nodes.time, still, at, slope, row)
            out.append(slopes[[LOGS.index(name) for name in names if name in LOGS]])
            if differences is not None:
                out.append(differences.gradient(c))
        return np.concatenate(out) if out else np.zeros(0)


def solutions(starts: IntArray, D: Array, passes: Passes, r: Array) -> Array:
    """Return (K^-1 + diag D)^-1 r of columns, for chains without differences between groups."""
    u = np.empty_like(r)
    solve_columns(starts, D, passes, np.ascontiguousarray(r), u)
    return u


def _descend(
    H: csr_array,
    chains: ConditionedChains,
    tau: Array,
    r: Array,
    start: tuple[Array, Array],
    least: float,
    energy: Array | float = 0.0,
) -> tuple[Array, Array, Any]:
    """Solve (K^-1 + H^T W H) u = b from a residual r on, by columns; return u, K^-1 u, and the first squared step.

    It ends where squared steps are at most `least`, or a small part of an energy, which falls with each of them.
    """
    is_vector, transposed = r.ndim == 1, H.T
    D, weight = (each if is_vector else each[:, None] for each in (chains.D, tau))
    solve_all = chains.solve if is_vector else chains.solve_columns
    u, alpha, r, z = start[0].copy(), start[1].copy(), r.copy(), solve_all(r)
    first = size = _dots(r, z)
    direction, source = z.copy(), r.copy()
    for _ in range(POLICY.most_steps):
        if np.all(size <= np.maximum(least, POLICY.solved * energy)):
            break
        prior = source - D * direction  # K^-1 direction, without K^-1
        image = prior + transposed @ (weight * (H @ direction))
        length = size / np.maximum(_dots(direction, image), _TINY)
        u += length * direction
        alpha += length * prior
        r -= length * image
        energy = energy - length * size
        z = solve_all(r)
        size, before = _dots(r, z), np.maximum(size, _TINY)
        direction *= size / before
        direction += z
        source *= size / before
        source += r
    return u, alpha, first


def _joint_means(
    problem: ChainProblem, chains: ConditionedChains, sites: tuple[Array, Array], start: tuple[Array, Array], tol: float
) -> tuple[Array, Array, float]:
    """Solve (K^-1 + H^T W H) u = H^T nu; return u, K^-1 u, and the root mean square of the step in deviations."""
    (tau, nu), H, n = sites, problem.matrix, start[0].size
    r, linear = H.T @ (nu - tau * (H @ start[0])) - start[1], H.T @ nu
    # Relative to the size of the means, and at most a small part of a deviation: heavy weights make these small.
    least = min(tol**2 * float(linear @ chains.solve(linear)), n * (0.1 * POLICY.still) ** 2)
    # Where rows contradict each other, the means are 0 up to rounding, and steps into that would never end.
    least = max(least, _ROUNDING * float(linear**2 @ chains.variance))
    u, alpha, size = _descend(H, chains, tau, r, start, least)
    return u, alpha, float(np.sqrt(max(size, 0.0) / n))


def _dots(a: Array, b: Array) -> Any:  # noqa: ANN401 - a number, or an array
    """Return the inner product of vectors, or the inner products of columns."""
    return a @ b if a.ndim == 1 else np.einsum("ij,ij->j", a, b)


def sum_rows(index: IntArray, values: Array, n: int) -> Array:
    """Return the sums of values by index, shape (n,)."""
    return np.asarray(np.bincount(index, values, n), dtype=np.float64)


def _told(prior: ChainPrior, layout: Layout, message: Array) -> ConditionedChains:
    """Return the chains given the messages of units."""
    return ConditionedChains(prior, sum_rows(layout[0], message, prior.parts[-1].stop))


def _passes(
    chains: ConditionedChains, layout: Layout, coefficient: Array, tau: Array, message: Array, n_rounds: int
) -> tuple[ConditionedChains, Array, Array, float]:
    """Send messages in a few rounds; return the chains, the messages, variances of z, and the part of the bound."""
    variance, coupling, is_plain = np.zeros(tau.size), 0.0, layout[1].size == tau.size + 1
    send = send_messages if is_plain else send_messages_together
    for _ in range(n_rounds):
        before = message
        message, variance, coupling = send(layout, coefficient, tau, chains.variance, before)
        chains = _told(chains.prior, layout, message)
        if float(np.abs(message - before).max()) < POLICY.same_message * float(message.max()):
            break
    return chains, message, variance, coupling


class FeaturePart:
    """The coefficients w of features at given sites: chains are integrated out exactly, by conjugate gradients.

    Their means fall with w by the response (n, K), of which `dual` is K^-1 response; the covariance is half^T half.
    """

    def __init__(self, problem: ChainProblem, prior: ChainPrior, theta: Array, start: FeaturePart | None) -> None:
        assert problem.features is not None  # noqa: S101 - type narrowing
        self.F, self.H, self.precision = problem.features, problem.matrix, float(np.exp(-2.0 * theta[-1]))
        n, k = self.H.shape[1], self.F.shape[1]
        self.mean, self.dual, self.response = np.zeros(k), np.zeros((n, k)), np.zeros((n, k))
        self.step, self.half, self.variance, self.divergence = 0.0, np.zeros((k, k)), np.zeros(0), 0.0
        self._tau = np.full(self.F.shape[0], np.inf)
        if start is not None and start.mean.size == k:  # of a search there may be fewer
            self.mean, self.dual = start.mean * (start.precision / self.precision), start.dual
            self.response = ConditionedChains(prior, np.zeros(n)).solve_columns(self.dual)

    def follow(self, chains: ConditionedChains, tau: Array) -> None:
        """Learn how the chains follow w, and its covariance without them, where sites have changed."""
        if float(np.abs(tau - self._tau).max()) < POLICY.same_sites * float(tau.max()):
            return
        self._tau, weight, rows = tau, tau[:, None], self.F - self.H @ self.response
        r, start = self.H.T @ (weight * rows) - self.dual, (self.response, self.dual)
        energy = self.precision + _dots(rows, weight * rows) + _dots(*start)
        self.response, self.dual, _ = _descend(self.H, chains, tau, r, start, 0.0, energy)
        rows = self.F - self.H @ self.response
        shared = self.response.T @ self.dual
        shared = 0.5 * (shared + shared.T) + rows.T @ (weight * rows)
        shared[np.diag_indices_from(shared)] += self.precision
        factor = cholesky_precision(shared)
        self.half = inverse_lower(factor)
        self.variance = np.square(rows @ self.half.T).sum(axis=1)
        log_det = 2.0 * float(np.log(np.diagonal(factor)).sum()) - self.mean.size * float(np.log(self.precision))
        self.divergence = 0.5 * (log_det - float(tau @ self.variance))

    def move(self, tau: Array, nu: Array, u: Array) -> Array:
        """Take Newton's step of w after one of the chains' means, and return it."""
        slope = self.F.T @ (nu - tau * (self.H @ u + self.F @ self.mean)) - self.precision * self.mean
        half = self.half @ slope
        self.step = float(np.sqrt(half @ half / half.size))
        step: Array = half @ self.half
        self.mean = self.mean + step
        return step


class _Posterior:
    """Chains, and coefficients of features, at given sites."""

    def __init__(self, problem: ChainProblem, theta: Array, message: Array, start: ChainFit | None) -> None:
        self.problem, self.layout, self.message = problem, problem.layout(), message
        prior = ChainPrior(problem, theta)
        n = prior.parts[-1].stop
        self.u, self.alpha = np.zeros(n), np.zeros(n)
        if start is not None:
            # Sites and duals stay, and means follow from the new prior: means of the old one would saturate sites.
            self.alpha = start.alpha
            self.u = ConditionedChains(prior, np.zeros(n)).solve(start.alpha)
        self.features = None
        if problem.features is not None:
            self.features = FeaturePart(problem, prior, theta, None if start is None else start.features)
        self.chains = _told(prior, self.layout, message)
        self.variance, self.coupling, self.step = np.zeros(0), 0.0, np.inf

    def update(self, tau: Array, nu: Array, n_rounds: int, tol: float) -> None:
        """Send messages in a few rounds, and find the means, at sites."""
        problem, features = self.problem, self.features
        passed = _passes(self.chains, self.layout, problem.coefficient, tau, self.message, n_rounds)
        self.chains, self.message, self.variance, self.coupling = passed
        start, rest = (self.u, self.alpha), nu
        if features is not None:
            features.follow(self.chains, tau)
            self.variance = self.variance + features.variance
            rest = nu - tau * (features.F @ features.mean)
        self.u, self.alpha, self.step = _joint_means(problem, self.chains, (tau, rest), start, tol)
        if features is not None:
            change = features.move(tau, nu, self.u)
            self.u, self.alpha = self.u - features.response @ change, self.alpha - features.dual @ change
            self.step = max(self.step, features.step)

    @property
    def mean(self) -> Array:
        """Means of z, shape (N,)."""
        mean: Array = self.problem.matrix @ self.u
        return mean if self.features is None else mean + self.features.F @ self.features.mean

    def bound(self, value: float) -> float:
        """Return the bound, given the expected log-likelihood."""
        chains, f = self.chains, self.features
        value -= 0.5 * float(chains.log_det - chains.D @ chains.variance + self.u @ self.alpha)
        value += self.coupling
        return value if f is None else value - f.divergence - 0.5 * f.precision * float(f.mean @ f.mean)


def fit_chains(
    problem: ChainProblem,
    theta: Array,
    *,
    max_iter: int,
    tol: float,
    start: ChainFit | None = None,
    on_iteration: OnIteration | None = None,
) -> ChainFit:
    """Infer the chains at fixed hyperparameters; `start` is of the same rows, perhaps at others."""
    begin, likelihood, y, weight = clock.perf_counter(), problem.likelihood, problem.y, problem.weight
    if start is None:
        tau, layout = POLICY.start_site * weight, problem.layout()
        nu, told = (y - 0.5) * weight, 0.5 * tau[:, None] * problem.coefficient**2
        message, n_rounds = sum_rows(layout[3].ravel(), told.ravel(), layout[0].size), 3
    else:
        tau, nu, message, likelihood, n_rounds = start.tau, start.nu, start.message, start.likelihood, 1
    q = _Posterior(problem, theta, message, start)
    q.update(tau, nu, n_rounds, POLICY.solved)
    bounds, before, n_halved, step, last = list[float](), (tau, nu), 0, np.inf, -np.inf
    rho, rose, n_turns = 1.0, False, 0  # share of the way that sites go
    while True:
        mean, variance = q.mean, q.variance
        sites = VARIATIONAL(likelihood, y, (mean, variance, variance), weight)
        bound = q.bound(float(sites.value.sum()))
        change, size = bound - last, max(1.0, abs(bound))
        n_turns += rose and change < 0.0 and n_halved == 0
        # Bethe's bound may fall a little, but not in turns: then sites of large weight go to and fro.
        if rose and change < (-POLICY.turn * size if n_turns < POLICY.turns else 0.0):
            rho = max(0.5 * rho, POLICY.least_share)
        if change < -POLICY.fall * size and n_halved < POLICY.chain_halvings:
            n_halved, tau, nu = n_halved + 1, 0.5 * (tau + before[0]), 0.5 * (nu + before[1])
            q.update(tau, nu, 1, POLICY.solved)
            step = q.step
            continue
        bounds.append(bound)
        rose, still = change > 0.0, abs(change) < 0.01 * tol * size and step < POLICY.still * rho
        converged = still and len(bounds) > 1 + (start is None)
        event = Iteration(len(bounds), max_iter, bound, seconds_since(begin, len(bounds), 0))
        stopped = on_iteration is not None and bool(on_iteration(event))
        if converged or stopped or len(bounds) >= max_iter or not np.isfinite(bound):
            parts = q.u, q.alpha, q.chains.D, q.message, tau, nu, mean, variance
            return ChainFit(theta, likelihood, *parts, bounds, converged, q.features)
        last, n_halved, before = bound, 0, (tau, nu)
        if likelihood.has_parameters:
            likelihood = likelihood.learnt(y, mean, variance, weight)
            sites = VARIATIONAL(likelihood, y, (mean, variance, variance), weight)
        tau = tau + rho * (np.maximum(sites.weight, 1e-12) - tau)
        nu = nu + rho * (sites.pseudo_linear(mean) - nu)
        q.update(tau, nu, 2, POLICY.solved if len(bounds) < 3 else POLICY.solved_later)
        step = q.step


def log_posterior(problem: ChainProblem, fit: ChainFit) -> float:
    """Return the bound plus the log prior of the hyperparameters, relative to its mode."""
    mean, deviation = problem.priors()
    return fit.bound - 0.5 * float(np.sum(((fit.theta - mean) / deviation) ** 2))


def gradient_of_bound(problem: ChainProblem, fit: ChainFit) -> Array:
    """Return the derivatives of the bound in theta; sites, messages and means are stationary."""
    prior, features = ChainPrior(problem, fit.theta), fit.features
    gradient = ConditionedChains(prior, fit.D).gradient(fit.linear)
    if features is None:
        return gradient
    # The chains' second moments have those of the response, too, in directions of one deviation of w each.
    still = ConditionedChains(prior, np.zeros(fit.D.size))
    gradient += np.sum([still.gradient(row) for row in features.half @ features.dual.T], axis=0)
    size = float(features.mean @ features.mean + np.square(features.half).sum())
    return np.append(gradient, features.precision * size - features.mean.size)


def learn_chains(problem: ChainProblem, theta: Array, *, max_iter: int, tol: float) -> tuple[Array, ChainFit]:
    """Maximise the bound plus the log prior over the hyperparameters; return the best, and a fit near it."""
    mean, deviation = problem.priors()
    last: list[ChainFit] = []

    def objective(logs: Array) -> tuple[float, Array]:
        fit = fit_chains(problem, logs, max_iter=max_iter, tol=tol, start=last[0] if last else None)
        if not np.isfinite(fit.bound):
            return -1e300, np.zeros(logs.size)
        last[:] = [fit]
        return log_posterior(problem, fit), gradient_of_bound(problem, fit) - (logs - mean) / deviation**2

    limits = np.column_stack([mean - POLICY.log_reach, mean + POLICY.log_reach])
    best = hyper.maximise(objective, theta, limits, max_iter=30, tol=1e-4)
    if not last:
        raise DataError(
            f"no finite posterior over time was found with likelihood={type(problem.likelihood).__name__}: it must be "
            "one of comparisons; or use weights nearer to 1"
        )
    return best.theta, last[0]
