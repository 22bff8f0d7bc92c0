"""The posterior of chains over time: means and variances at any time, and chains that further rows tell of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._checks import check_arrays, check_indices, require
from skpref._compiled.chains import condition, decays, solve
from skpref.inference.chain_groups import GroupDifferences, design_of
from skpref.inference.chains import LOGS, ChainPrior, ConditionedChains, Nodes, solutions, sum_rows

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray
    from skpref.inference.chains import ChainFit, ChainProblem


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Posterior of the chains of one group, for predictions: what rows say of each node, and the hyperparameters."""

    chain: IntArray  # (n,): of each node, sorted
    time: Array  # (n,): in order within a chain
    D: Array  # (n,): precision by the rows
    linear: Array  # (n,)
    scales: Array  # (4,): c^2, g^2, length-scale, w^2
    response: Array | None = None  # (n, K): by how much `linear` falls with the coefficients of features
    groups: GroupDifferences | None = None  # differences between groups, which are no part of the chains' values here

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        sizes = check_arrays(self, {"s": len(LOGS)}, time="n", D="n", linear="n", scales="s")
        if self.response is not None:
            check_arrays(self, sizes, response="n K")
        check_indices(self, "chain", self.chain, 0, np.iinfo(np.int64).max, self.time.size)
        gap = np.diff(self.time)
        is_later = gap > 0 if self.groups is None else gap >= 0
        is_sorted = (np.diff(self.chain) > 0) | ((np.diff(self.chain) == 0) & is_later)
        if self.groups is not None:
            n = self.groups.level.shape[0], self.groups.mean.shape[0]
            require(n == (self.time.size, self.n_chains), self, "groups", "must be of these chains")
            features = None if self.groups.response is None else self.groups.response.shape[2]
            same = features == (None if self.response is None else self.response.shape[1])
            require(same, self, "groups", "must have the responses to features")
        require(bool(is_sorted.all()), self, "time", "must be in order within each chain")
        require(bool((self.D >= 0.0).all()), self, "D", "must be at least 0")
        sound = bool((self.scales >= 0.0).all()) and self.scales[2] > 0.0
        require(sound, self, "scales", "must be variances and a positive length-scale")

    @property
    def first(self) -> Array:
        """First time of each chain, where all have nodes, shape (n_chains,)."""
        return self.time[np.flatnonzero(np.diff(self.chain, prepend=-1))]

    @property
    def last(self) -> Array:
        """Last time of each chain, where all have nodes, shape (n_chains,)."""
        return self.time[np.flatnonzero(np.diff(self.chain, append=np.iinfo(np.int64).max))]

    @property
    def n_chains(self) -> int:
        """Number of chains with nodes."""
        return int(np.count_nonzero(np.diff(self.chain, prepend=-1)))

    @property
    def prior_variance(self) -> float:
        """Variance of a chain at its first time."""
        return float(self.scales[0] + self.scales[1])

    def _conditioned(self, chain: IntArray, time: Array, values: Array) -> tuple[Nodes, IntArray, Array, Array, Any]:
        """Return nodes with further times, their places, D, values beside it, and variances with their passes."""
        wanted, chain = np.unique(chain, return_inverse=True)  # chains are independent: leave out others
        kept = np.flatnonzero(np.isin(self.chain, wanted))
        chains, n = np.concatenate([np.searchsorted(wanted, self.chain[kept]), chain]), kept.size
        nodes, place = Nodes.from_times(chains, np.concatenate([self.time[kept], time]), wanted.size)
        D, linear = np.zeros(nodes.size), np.zeros((nodes.size, *values.shape[1:]))
        first = np.flatnonzero(np.diff(place[:n], prepend=-1))  # of equal times: those in different groups
        D[place[first]] = np.add.reduceat(self.D[kept], first)
        linear[place[first]] = np.add.reduceat(values[kept], first, axis=0)
        scales: Any = tuple(self.scales.tolist())
        decay = decays(scales, nodes.starts, nodes.time)
        return nodes, place[n:], D, linear, condition(scales, nodes.starts, nodes.time, decay, D)

    def clamped(self, chain: IntArray, time: Array) -> tuple[IntArray, Array]:
        """Return chains and times, each at least the first one of its chain."""
        return chain, np.maximum(time, self.first[chain])

    def moments(self, chain: IntArray, time: Array, level: Array | None = None) -> tuple[Array, Array]:
        """Return means and variances of chains at times: past, between nodes, to come, or of chains without nodes.

        With groups or context, levels are those of each; None leaves all of them out.
        """
        nodes, place, D, linear, (variance, _, passes) = self._conditioned(chain, time, self.linear)
        mean, spread = solve(nodes.starts, D, passes, linear)[0][place], variance[place]
        if self.groups is None:
            return mean, spread
        Z = self.D[:, None] * design_of(self.groups.level, self.groups.sizes)
        level = self.groups.left_out(chain.size) if level is None else level
        more = self.groups.moments(chain, level, self._responses(chain, time, Z))
        return mean + more[0], spread + more[1]

    def responses(self, chain: IntArray, time: Array, level: Array | None = None) -> Array:
        """Return by how much means of chains at times fall with the coefficients of features, shape (n, K)."""
        assert self.response is not None  # noqa: S101 - type narrowing
        fall = self._responses(chain, time, self.response)
        return fall if self.groups is None or level is None else fall + self.groups.responses(chain, level)

    def _responses(self, chain: IntArray, time: Array, values: Array) -> Array:
        """Return solutions for columns of linear terms of the nodes, at chains and times."""
        nodes, place, D, linear, (_, _, passes) = self._conditioned(chain, time, values)
        return solutions(nodes.starts, D, passes, linear)[place]

    def ends(self) -> tuple[Array, Array, Array]:
        """Return means (C, 2) and covariances (C, 3) of form and level at the last node of each chain, and its time."""
        ahead = self.last + 1e3 * self.scales[2]  # where the form is forgotten
        nodes, place, D, linear, (_, _, passes) = self._conditioned(np.arange(ahead.size), ahead, self.linear)
        u = solve(nodes.starts, D, passes, linear)[0]
        level = u[place]
        return np.column_stack([u[place - 1] - level, level]), passes[3][place - 1], self.last

    def with_nodes(
        self, chain: IntArray, time: Array, D: Array, linear: Array, level: Array | None = None
    ) -> Trajectories:
        """Return chains that further rows tell of, in groups; `linear` may have responses to features beside it."""
        n_old, groups, part = self.time.size, self.groups, None
        r = np.column_stack([self.linear] if self.response is None else [self.linear, self.response])
        if groups is not None:
            r = groups.whole(self.chain, self.D, r)
            level = np.vstack([groups.level, groups.left_out(chain.size) if level is None else level])
            part = np.unique(level, axis=0, return_inverse=True)[1].ravel()  # nodes in different groups stay apart
        chain, time = np.concatenate([self.chain, chain]), np.concatenate([self.time, time])
        nodes, place = Nodes.from_times(chain, time, int(chain.max(initial=-1)) + 1, part)
        total, values = sum_rows(place, np.concatenate([self.D, D]), nodes.size), np.zeros((nodes.size, r.shape[1]))
        values[place[:n_old]] = r
        told = np.atleast_2d(linear.T).T
        np.add.at(values[:, : told.shape[1]], place[n_old:], told)
        if groups is not None and level is not None:
            scales: Any = tuple(self.scales.tolist())
            passes = condition(scales, nodes.starts, nodes.time, decays(scales, nodes.starts, nodes.time), total)[2]
            solve_all = partial(solutions, nodes.starts, total, passes)
            values, groups = groups.again(nodes.chain, level, place, total, values, solve_all)
        response = None if self.response is None else values[:, 1:].copy()
        return Trajectories(nodes.chain, nodes.time, total, values[:, 0].copy(), self.scales, response, groups)

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
    out, chains = [], ConditionedChains(ChainPrior(problem, fit.theta), fit.D)
    for number, (group, logs, part) in enumerate(
        zip(problem.groups, problem.split(fit.theta), problem.parts, strict=True)
    ):
        scales, nodes, levels = np.array(group.scales(logs)), group.nodes, group.levels
        response, linear, differences = None, fit.linear[part].copy(), None
        if fit.features is not None:
            response = (fit.features.dual + fit.D[:, None] * fit.features.response)[part]
        if levels is not None and (found := chains.differences[number]) is not None:
            of_chains, c = chains.rest(number, linear[:, None])
            linear, fall = of_chains[:, 0], None
            if response is not None:
                response, fall = chains.rest(number, response)
            variances = group.variances(logs)
            rest = levels.level, levels.sizes, variances, fall, levels.widths
            differences = GroupDifferences(c[..., 0], found.covariance, *rest)
        parts = nodes.chain, nodes.time, fit.D[part].copy(), linear, scales, response, differences
        out.append(Trajectories(*parts))
    return out
