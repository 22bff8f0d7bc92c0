"""Moves of a chain of the ordinal machine along what rows say little or nothing about (docs/maths section 9).

Thresholds and a group's weights can move by the same number, a factor's mean can move into weights, users' and items'
factors can exchange scales: y(x) minus the thresholds stays as it is, or changes by less than its noise. A sweep that
draws one feature after the other takes many steps for these; here they are drawn at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular

from skpref._compiled.fm_draws import row_values
from skpref.factorization.policy import POLICY
from skpref.likelihoods.ordinal import Projections

if TYPE_CHECKING:
    from collections.abc import Callable

    from skpref._typing import Array, IntArray
    from skpref.factorization.machine.fields import Design
    from skpref.factorization.machine.model import Machine
    from skpref.inference.gibbs import State
    from skpref.likelihoods import OrdinalProbit

_STEP = 1e-4  # of numerical derivatives of y(x), which is quadratic


@dataclass(frozen=True)
class ChainProblem:
    """Rows, their levels, and what the chain does not change."""

    design: Design
    level: IntArray  # (n,)
    machine: Machine  # where the chain starts
    learn_priors: bool = False

    @cached_property
    def seen(self) -> IntArray:
        """Features that rows have."""
        return np.unique(self.design.patterns.indices)

    @cached_property
    def members(self) -> sparse.csr_array:
        """The features of each group that rows have, as ones of shape (G, K)."""
        nu, _, group = self.machine.prior
        return sparse.csr_array((np.ones(self.seen.size), (group[self.seen], self.seen)), (len(nu), group.size))

    @cached_property
    def sizes(self) -> Array:
        """Number of features of each group that rows have, shape (G,)."""
        return np.asarray(self.members.sum(axis=1))

    @cached_property
    def sums(self) -> Array:
        """Sum of each group's columns if it is the same in all rows, else 0, shape (G,)."""
        indicators = (self.machine.prior.group == g for g in range(self.sizes.size))
        sums = [self.values(indicator[:, None].astype(np.float64)) for indicator in indicators]
        # Sums are equal but for rounding.
        return np.array([total[0] if np.ptp(total) <= 1e-12 * np.abs(total).max() else 0.0 for total in sums])

    @cached_property
    def sides(self) -> list[tuple[IntArray, IntArray]]:
        """Features of users and of items, and the reverse, if rows have nothing else and each a group; else empty."""
        ends, group = self.design.offsets, self.machine.prior.group
        if not self.design.two_sided:
            return []
        users, items = (self.design.patterns.indices[a:b] for a, b in pairwise(ends.tolist()))
        apart = np.ptp(group[users]) == np.ptp(group[items]) == 0 and group[users[0]] != group[items[0]]
        return [(users, items), (items, users)] if apart else []

    @cached_property
    def blocks(self) -> IntArray:
        """Groups whose factors `scaled` moves together, by number from 0, or -1 without features, shape (G,)."""
        number = np.zeros(self.sizes.size, dtype=np.int64) if self.sides else np.cumsum(self.sizes > 0.0) - 1
        return np.where((self.sizes > 0.0) & (self.machine.mean.shape[1] > 1), number, -1)

    def values(self, theta: Array) -> Array:
        """Return y(x) of every row, shape (n,)."""
        return row_values(self.design.codes, self.design.table(theta))


def draw_thresholds_and_scales(problem: ChainProblem, state: State, rng: np.random.Generator) -> State:
    """Draw thresholds together with shifts and scales of y(x), given the levels but not the noisy y(x)."""
    state = draw_shears(problem, state, rng)
    if problem.learn_priors:
        state = draw_scale_ratio(problem, state, rng)
    state = draw_shifts(problem, state, rng)
    n_scales = 2 + int(problem.blocks.max()) if problem.learn_priors and problem.seen.size else 0
    likelihood = cast("OrdinalProbit", problem.machine.likelihood)
    likelihood, u, value = replace(likelihood, thresholds=tuple(state["thresholds"].tolist())).drawn_thresholds(
        problem.level, rescale(problem, state, np.zeros(n_scales))[1], rng, lambda u: rescale(problem, state, u)[1]
    )
    state = rescale(problem, state, u)[0] if u.any() else state
    return {**state, "thresholds": np.array(likelihood.thresholds), "log_p": np.array(value)}


def draw_shifts(problem: ChainProblem, state: State, rng: np.random.Generator) -> State:
    """Draw the mean weight of each group whose columns have the same sum in all rows; thresholds move along."""
    theta, thresholds, group = state["theta"].copy(), state["thresholds"], problem.machine.prior.group
    for g in np.flatnonzero(problem.sums).tolist():
        own = problem.seen[group[problem.seen] == g]
        sd = 1.0 / np.sqrt(own.size * state["lam"][g, 0])
        by = state["nu"][g, 0] - theta[own, 0].mean() + sd * rng.standard_normal()
        theta[own, 0] += by
        thresholds = thresholds + by * problem.sums[g]
    return {**state, "theta": theta, "thresholds": thresholds}


def draw_shears(problem: ChainProblem, state: State, rng: np.random.Generator) -> State:
    """Draw the mean factors of users, then of items, given deviations from it; weights undo what y(x) changes."""
    theta, nu, lam = state["theta"].copy(), state["nu"], state["lam"]
    for own, other in problem.sides:
        (g, h), V = problem.machine.prior.group[[own[0], other[0]]], theta[other, 1:]
        gain = lam[g, 1:] * (nu[g, 1:] - theta[own, 1:]).sum(axis=0)
        gain += lam[h, 0] * (V.T @ (theta[other, 0] - nu[h, 0]))
        root = np.linalg.cholesky(own.size * np.diag(lam[g, 1:]) + lam[h, 0] * (V.T @ V))
        noisy = solve_triangular(root, gain, lower=True) + rng.standard_normal(gain.size)
        by = solve_triangular(root, noisy, lower=True, trans=1)
        theta[own, 1:] += by
        theta[other, 0] -= V @ by
    return {**state, "theta": theta}


def draw_scale_ratio(problem: ChainProblem, state: State, rng: np.random.Generator) -> State:
    """Draw the ratio of the scales of users' and items' factors; weights undo the change in y(x).

    Deviations from the prior's means are multiplied by exp(u) and exp(-u), and c divided by their squares.
    """
    theta, nu, lam = state["theta"].copy(), state["nu"], state["lam"].copy()
    if not problem.sides or theta.shape[1] == 1:
        return state
    _, first_lam, group = problem.machine.prior
    sides = problem.sides[0]
    groups = [int(group[side[0]]) for side in sides]
    away = [theta[side, 1:] - nu[g, 1:] for side, g in zip(sides, groups, strict=True)]
    parts = [away[0] @ nu[groups[1], 1:], away[1] @ nu[groups[0], 1:]]
    # A weight that is r now will be r + part - part exp(+-u), so log p(u) is a sum of powers of exp(u).
    powers, rates = np.array([2.0, 1.0, -2.0, -1.0]), []
    for side, g, other, part in zip(sides, groups, groups[::-1], parts, strict=True):
        r, c = theta[side, 0] - nu[g, 0] + part, lam[other, 1] / first_lam[other, 1]
        rates += [-c - 0.5 * lam[g, 0] * (part @ part), lam[g, 0] * (r @ part)]
    u = draw_slice(lambda u: float(np.array(rates) @ np.exp(powers * u)), rng)
    for side, g, deviation, part, by in zip(sides, groups, away, parts, np.exp([u, -u]), strict=True):
        theta[side, 0] += part * (1.0 - by)
        theta[side, 1:] += deviation * (by - 1.0)
        lam[g, 1:] /= by**2
    return {**state, "theta": theta, "lam": lam}


def draw_slice(log_p: Callable[[float], float], rng: np.random.Generator) -> float:
    """Draw a number by slice sampling from 0, without stepping out (Neal: Annals of Statistics 31, 2003)."""
    height, low = log_p(0.0) - rng.exponential(), -POLICY.slice_width * rng.random()
    high = low + POLICY.slice_width
    while True:
        u = float(rng.uniform(low, high))
        if log_p(u) >= height:
            return u
        low, high = (u, high) if u < 0.0 else (low, u)


def rescale(problem: ChainProblem, state: State, u: Array) -> tuple[State, Projections]:
    """Multiply deviations from the prior's means: weights by exp(u_0), factors of block b by exp(u_(1+b)).

    Their prior scales change as much, which leaves the density of features as it is: that of the precisions changes.
    """
    theta, nu, lam, (_, first_lam, group) = state["theta"], state["nu"], state["lam"], problem.machine.prior
    if not u.size:
        z = problem.values(theta)
        return state, Projections(z, np.empty((z.size, 0)))
    blocks, held = problem.blocks, problem.sizes > 0.0
    by = np.ones_like(nu)
    by[held, 0] = np.exp(u[0])
    by[blocks >= 0, 1:] = np.exp(u[1 + blocks[blocks >= 0], None])
    away, lam = (theta - nu[group]) * by[group], lam / by**2
    theta = nu[group] + away
    z = problem.values(theta)
    slopes = [problem.values(away[:, :1])]
    for block in range(u.size - 1):
        more = theta.copy()
        more[:, 1:] += _STEP * np.where(blocks[group, None] == block, away[:, 1:], 0.0)
        slopes.append((problem.values(more) - z) / _STEP)
    ones, c = np.ones(held.sum()), (lam / first_lam)[blocks >= 0, -1]
    number = np.concatenate([np.zeros(ones.size, dtype=np.int64), 1 + blocks[blocks >= 0]])
    rates: Array = np.bincount(number, np.concatenate([lam[held, 0], c])).astype(np.float64)
    powers = 2.0 * np.bincount(number)
    log_prior = -float(rates.sum() + powers @ u)
    here = Projections(z, np.column_stack(slopes), log_prior, np.asarray(2.0 * rates - powers), 4.0 * rates)
    return {**state, "theta": theta, "lam": lam}, here
