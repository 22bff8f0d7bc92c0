"""Variational inference for rows that connect Gaussian chains over time (docs/maths section 12).

Each chain keeps an exact Gaussian over its nodes. Rows tell the chains by belief propagation how precisely they know
them, and the means are those of the joint posterior, by conjugate gradients whose preconditioner is one smoother pass
over all chains. Both are linear in the rows. Sites are those of `skpref.inference.sites`.
"""

from __future__ import annotations

import time as clock
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._checks import check_arrays, check_indices, require
from skpref._compiled.chains import (
    condition,
    decays,
    project,
    scatter_rows,
    score,
    send_messages,
    send_messages_together,
    solve,
)
from skpref._events import Iteration, seconds_since
from skpref.exceptions import DataError
from skpref.inference import hyper
from skpref.inference.sites import VARIATIONAL

if TYPE_CHECKING:
    from skpref._compiled.chains import Layout
    from skpref._events import OnIteration
    from skpref._typing import Array, IntArray
    from skpref.likelihoods import Likelihood

LOGS = "start", "form", "length", "drift"  # names of log c, g, length and w, in the order of the compiled loops
_START_SITE = 0.2  # precision of the sites at the start
_LEAST_SITE = 1e-12
# Length of the last step of the means in posterior standard deviations: by the bound alone, which is flat there, means
# of 55,000 rows were up to .02 off.
_STILL = 1e-3
_SAME_MESSAGE = 1e-3  # change of messages, of the largest one, after which no further round is needed
_SOLVED, _SOLVED_LATER = 1e-3, 1e-4  # relative residuals of the conjugate gradients
_MOST_STEPS = 300  # steps of the conjugate gradients
_LEAST_SHARE, _TURN = 0.05, 1e-4  # least share of the way that sites go, and relative fall that shortens it
_FALL, _MOST_HALVINGS = 1e-3, 8  # relative fall of the bound after which the sites go half the way
_BOUNDS = 7.0  # distance of each log from the mean of its prior


@dataclass(frozen=True, eq=False)
class Nodes:
    """The distinct times of each chain, in order."""

    chain: IntArray  # (n,)
    time: Array  # (n,)
    starts: IntArray  # (C + 1,): first node of each chain

    @classmethod
    def from_times(cls, chain: IntArray, time: Array, n_chains: int) -> tuple[Nodes, IntArray]:
        """Return the nodes of times of chains, and the node of each."""
        order = np.lexsort((time, chain))
        sorted_chain, sorted_time = chain[order], time[order]
        new = np.ones(order.size, dtype=bool)
        new[1:] = (np.diff(sorted_chain) > 0) | (np.diff(sorted_time) > 0)
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
    priors: dict[str, tuple[float, float]]  # mean and standard deviation, by a name of `LOGS`

    def scales(self, theta: Array) -> tuple[float, float, float, float]:
        """Return c^2, g^2, the length-scale and w^2 at the logs of the hyperparameters."""
        logs = dict(zip(self.priors, np.asarray(theta).tolist(), strict=True))
        start, form, drift = (np.exp(2.0 * logs[name]) if name in logs else 0.0 for name in ("start", "form", "drift"))
        return float(start), float(form), float(np.exp(logs.get("length", 0.0))), float(drift)


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
        pairs = np.array([prior for group in self.groups for prior in group.priors.values()]).reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    def split(self, theta: Array) -> list[Array]:
        """Return the logs of each group."""
        return np.split(theta, np.cumsum([len(group.priors) for group in self.groups])[:-1])


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

    @property
    def bound(self) -> float:
        """Bound on the log evidence, of Bethe's free energy."""
        return self.bounds[-1]

    @property
    def linear(self) -> Array:
        """What the rows say of the nodes beside D, shape (n,)."""
        return self.alpha + self.D * self.u


class _Prior:
    """The chains at given hyperparameters."""

    def __init__(self, problem: ChainProblem, theta: Array) -> None:
        self.parts, self.names = problem.parts, [list(group.priors) for group in problem.groups]
        self.nodes = [group.nodes for group in problem.groups]
        self.scales = [group.scales(logs) for group, logs in zip(problem.groups, problem.split(theta), strict=True)]
        pairs = zip(self.nodes, self.scales, strict=True)
        self.decays = [decays(scales, nodes.starts, nodes.time) for nodes, scales in pairs]


class _Conditioned:
    """All chains given D: variances, and solutions of (K^-1 + diag D) u = r."""

    def __init__(self, prior: _Prior, D: Array) -> None:
        self.prior, self.D, self.log_det, self._passes = prior, D, 0.0, []
        self.variance = np.empty(D.size)
        for part, nodes, scales, decay in zip(prior.parts, prior.nodes, prior.scales, prior.decays, strict=True):
            self.variance[part], log_det, passes = condition(scales, nodes.starts, nodes.time, decay, D[part])
            self.log_det += log_det
            self._passes.append(passes)

    def solve(self, r: Array) -> Array:
        """Return (K^-1 + diag D)^-1 r."""
        u = np.empty(r.size)
        for part, nodes, passes in zip(self.prior.parts, self.prior.nodes, self._passes, strict=True):
            u[part] = solve(nodes.starts, self.D[part], passes, r[part])[0]
        return u

    def gradient(self, r: Array) -> Array:
        """Return the derivatives of the expected log prior of the chains in theta, r = alpha + D u."""
        out, prior = [], self.prior
        groups = zip(prior.parts, prior.nodes, prior.scales, prior.names, self._passes, strict=True)
        for part, nodes, scales, names, passes in groups:
            D, of_part = self.D[part], r[part]
            slope = solve(nodes.starts, D, passes, of_part)[1]
            slopes = score(scales, nodes.starts, nodes.time, D, passes, slope, of_part)
            out.append(slopes[[LOGS.index(name) for name in names]])
        return np.concatenate(out) if out else np.zeros(0)


def _joint_means(
    problem: ChainProblem, chains: _Conditioned, sites: tuple[Array, Array], start: tuple[Array, Array], tol: float
) -> tuple[Array, Array, float]:
    """Solve (K^-1 + H^T W H) u = H^T nu; return u, K^-1 u, and the root mean square of the step in deviations."""
    (tau, nu), (u, alpha), (node, coefficient) = sites, start, (problem.node, problem.coefficient)
    n, D = u.size, chains.D
    r = scatter_rows(node, coefficient, nu - tau * project(node, coefficient, u), n) - alpha
    linear = scatter_rows(node, coefficient, nu, n)
    # Relative to the size of the means, and at most a small part of a deviation: heavy weights make these small.
    least = min(tol**2 * float(linear @ chains.solve(linear)), n * (0.1 * _STILL) ** 2)
    z = chains.solve(r)
    size = float(r @ z)
    step = float(np.sqrt(max(size, 0.0) / n))
    direction, source = z, r
    for _ in range(_MOST_STEPS):
        if size <= least or size <= 0.0:
            break
        prior = source - D * direction  # K^-1 direction, without K^-1
        image = prior + scatter_rows(node, coefficient, tau * project(node, coefficient, direction), n)
        length = size / float(direction @ image)
        u, alpha, r = u + length * direction, alpha + length * prior, r - length * image
        z = chains.solve(r)
        size, before = float(r @ z), size
        direction, source = z + size / before * direction, r + size / before * source
    return u, alpha, step


def _sums(index: IntArray, values: Array, n: int) -> Array:
    """Return the sums of values by index, shape (n,)."""
    return np.asarray(np.bincount(index, values, n), dtype=np.float64)


def _told(prior: _Prior, layout: Layout, message: Array) -> _Conditioned:
    """Return the chains given the messages of units."""
    return _Conditioned(prior, _sums(layout[0], message, prior.parts[-1].stop))


def _passes(
    chains: _Conditioned, layout: Layout, coefficient: Array, tau: Array, message: Array, n_rounds: int
) -> tuple[_Conditioned, Array, Array, float]:
    """Send messages in a few rounds; return the chains, the messages, variances of z, and the part of the bound."""
    variance, coupling, is_plain = np.zeros(tau.size), 0.0, layout[1].size == tau.size + 1
    send = send_messages if is_plain else send_messages_together
    for _ in range(n_rounds):
        before = message
        message, variance, coupling = send(layout, coefficient, tau, chains.variance, before)
        chains = _told(chains.prior, layout, message)
        if float(np.abs(message - before).max()) < _SAME_MESSAGE * float(message.max()):
            break
    return chains, message, variance, coupling


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
    begin, n, likelihood = clock.perf_counter(), sum(g.nodes.size for g in problem.groups), problem.likelihood
    node, coefficient, y, weight = problem.node, problem.coefficient, problem.y, problem.weight
    prior, layout = _Prior(problem, theta), problem.layout()
    if start is None:
        tau = _START_SITE * weight
        nu, told = (y - 0.5) * weight, 0.5 * tau[:, None] * coefficient**2
        message = _sums(layout[3].ravel(), told.ravel(), layout[0].size)
        u, alpha, n_rounds = np.zeros(n), np.zeros(n), 3
    else:
        tau, nu, message, alpha, likelihood = start.tau, start.nu, start.message, start.alpha, start.likelihood
        # Sites and duals stay, and means follow from the new prior: means of the old one would saturate sites.
        u, n_rounds = _Conditioned(prior, np.zeros(n)).solve(alpha), 1
    chains = _told(prior, layout, message)
    chains, message, variance, coupling = _passes(chains, layout, coefficient, tau, message, n_rounds)
    u, alpha, _ = _joint_means(problem, chains, (tau, nu), (u, alpha), _SOLVED)
    bounds, before, n_halved, step, last = list[float](), (tau, nu), 0, np.inf, -np.inf
    rho, rose = 1.0, False  # share of the way that sites go
    while True:
        mean = project(node, coefficient, u)
        sites = VARIATIONAL(likelihood, y, (mean, variance, variance), weight)
        bound = float(sites.value.sum()) - 0.5 * float(chains.log_det - chains.D @ chains.variance + u @ alpha)
        bound += coupling
        change, size = bound - last, max(1.0, abs(bound))
        if rose and change < -_TURN * size:  # Bethe's bound may fall a little, but not in turns
            rho = max(0.5 * rho, _LEAST_SHARE)
        if change < -_FALL * size and n_halved < _MOST_HALVINGS:
            n_halved, tau, nu = n_halved + 1, 0.5 * (tau + before[0]), 0.5 * (nu + before[1])
            chains, message, variance, coupling = _passes(chains, layout, coefficient, tau, message, 1)
            u, alpha, step = _joint_means(problem, chains, (tau, nu), (u, alpha), _SOLVED)
            continue
        bounds.append(bound)
        rose, still = change > 0.0, abs(change) < 0.01 * tol * size and step < _STILL * rho
        converged = still and len(bounds) > 1 + (start is None)
        event = Iteration(len(bounds), max_iter, bound, seconds_since(begin, len(bounds), 0))
        stopped = on_iteration is not None and bool(on_iteration(event))
        if converged or stopped or len(bounds) >= max_iter or not np.isfinite(bound):
            parts = u, alpha, chains.D, message, tau, nu, mean, variance
            return ChainFit(theta, likelihood, *parts, bounds, converged)
        last, n_halved, before = bound, 0, (tau, nu)
        if likelihood.has_parameters:
            likelihood = likelihood.learnt(y, mean, variance, weight)
            sites = VARIATIONAL(likelihood, y, (mean, variance, variance), weight)
        tau = tau + rho * (np.maximum(sites.weight, _LEAST_SITE) - tau)
        nu = nu + rho * (sites.pseudo_linear(mean) - nu)
        chains, message, variance, coupling = _passes(chains, layout, coefficient, tau, message, 2)
        tolerance = _SOLVED if len(bounds) < 3 else _SOLVED_LATER
        u, alpha, step = _joint_means(problem, chains, (tau, nu), (u, alpha), tolerance)


def log_posterior(problem: ChainProblem, fit: ChainFit) -> float:
    """Return the bound plus the log prior of the hyperparameters, relative to its mode."""
    mean, deviation = problem.priors()
    return fit.bound - 0.5 * float(np.sum(((fit.theta - mean) / deviation) ** 2))


def gradient_of_bound(problem: ChainProblem, fit: ChainFit) -> Array:
    """Return the derivatives of the bound in theta; sites, messages and means are stationary."""
    return _Conditioned(_Prior(problem, fit.theta), fit.D).gradient(fit.linear)


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

    limits = np.column_stack([mean - _BOUNDS, mean + _BOUNDS])
    best = hyper.maximise(objective, theta, limits, max_iter=30, tol=1e-4)
    if not last:
        raise DataError(
            f"no finite posterior over time was found with likelihood={type(problem.likelihood).__name__}: it must be "
            "one of comparisons; or use weights nearer to 1"
        )
    return best.theta, last[0]


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Posterior of the chains of one group, for predictions: what rows say of each node, and the hyperparameters."""

    chain: IntArray  # (n,): of each node, sorted
    time: Array  # (n,): in order within a chain
    D: Array  # (n,): precision by the rows
    linear: Array  # (n,)
    scales: Array  # (4,): c^2, g^2, length-scale, w^2

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_arrays(self, {"s": len(LOGS)}, time="n", D="n", linear="n", scales="s")
        check_indices(self, "chain", self.chain, 0, np.iinfo(np.int64).max, self.time.size)
        is_sorted = (np.diff(self.chain) > 0) | ((np.diff(self.chain) == 0) & (np.diff(self.time) > 0))
        require(bool(is_sorted.all()), self, "time", "must be in order within each chain")
        require(bool((self.D >= 0.0).all()), self, "D", "must be at least 0")
        sound = bool((self.scales >= 0.0).all()) and self.scales[2] > 0.0
        require(sound, self, "scales", "must be variances and a positive length-scale")

    @property
    def first(self) -> Array:
        """First time of each chain, where all have nodes, shape (n_chains,)."""
        return self.time[np.flatnonzero(np.diff(self.chain, prepend=-1))]

    @property
    def n_chains(self) -> int:
        """Number of chains with nodes."""
        return int(np.count_nonzero(np.diff(self.chain, prepend=-1)))

    @property
    def prior_variance(self) -> float:
        """Variance of a chain at its first time."""
        return float(self.scales[0] + self.scales[1])

    def moments(self, chain: IntArray, time: Array) -> tuple[Array, Array]:
        """Return means and variances of chains at times: past, between nodes, to come, or of chains without nodes."""
        n, chains = self.time.size, np.concatenate([self.chain, chain])
        n_chains = int(chains.max(initial=-1)) + 1
        nodes, place = Nodes.from_times(chains, np.concatenate([self.time, time]), n_chains)
        D, linear = np.zeros(nodes.size), np.zeros(nodes.size)
        D[place[:n]], linear[place[:n]] = self.D, self.linear
        scales: Any = tuple(self.scales.tolist())
        decay = decays(scales, nodes.starts, nodes.time)
        variance, _, passes = condition(scales, nodes.starts, nodes.time, decay, D)
        mean = solve(nodes.starts, D, passes, linear)[0]
        return mean[place[n:]], variance[place[n:]]

    def covariance(self, time: Array) -> Array:
        """Return the covariance of a single chain at times, shape (n, n)."""
        c2, g2, length, w2 = self.scales.tolist()
        first = float(self.time.min(initial=np.inf))
        times = np.concatenate([self.time, time])
        since = np.maximum(times - first, 0.0)
        K = c2 + g2 * np.exp(-np.abs(times[:, None] - times) / length) + w2 * np.minimum(since[:, None], since)
        n, root = self.time.size, np.sqrt(self.D)
        among = np.eye(n) + root[:, None] * K[:n, :n] * root
        reach = root[:, None] * K[:n, n:]
        return np.asarray(K[n:, n:] - reach.T @ np.linalg.solve(among, reach))


def trajectories(problem: ChainProblem, fit: ChainFit) -> list[Trajectories]:
    """Return the posterior of each group of chains."""
    out = []
    for group, logs, part in zip(problem.groups, problem.split(fit.theta), problem.parts, strict=True):
        scales, nodes = np.array(group.scales(logs)), group.nodes
        out.append(Trajectories(nodes.chain, nodes.time, fit.D[part].copy(), fit.linear[part].copy(), scales))
    return out
