"""Expectation propagation for choices of one among k, unbroken (docs/maths section 14).

A choice of the alternative y has the likelihood softmax(z)_y. Its site is a Gaussian factor in the differences to z_y,
written as sites of the k (k - 1) / 2 pairs of alternatives. So all that is done with comparisons of pairs is done with
choices; only the sites of the pairs of one choice are computed together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtri

from skpref._compiled.choices import expected_choices, expected_shares, matching_choices
from skpref.data.comparisons import are_decided, sizes_of, starts_of
from skpref.inference.policy import POLICY
from skpref.likelihoods import Luce

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray


class Nodes(NamedTuple):
    """Points and weights for expectations over N(0, I) in 0, 1, ... dimensions, as compiled loops take them."""

    points: Array  # all sets, one after the other, those of one dimension together
    logs: Array  # logarithms of the weights
    starts: IntArray  # (F + 2,): first number of the points of each dimension
    log_starts: IntArray  # (F + 2,): first weight
    n_sets: IntArray  # (F + 1,)


def start_sites(stage: IntArray, weight: Array) -> tuple[Array, Array]:
    """Return the sites of choices at equal utilities: tau and nu of each pair, shape (P,)."""
    starts = starts_of(stage)
    k = np.repeat(sizes_of(starts), np.diff(starts))
    return weight / k**2, np.where(are_decided(stage), weight / k, 0.0)


def choice_sites(
    stage: IntArray, moments: tuple[Array, Array], weight: Array, sites: tuple[Array, Array], *, coarse: bool = False
) -> tuple[Array, Array, float]:
    """Return new sites of the pairs of choices, tau and nu, and the log normaliser of the old ones."""
    starts, (mean, variance), (tau, nu) = starts_of(stage), moments, sites
    nodes = nodes_of(int(sizes_of(starts).max(initial=1)) - 1, coarse=coarse)
    tau, nu, log_sites = matching_choices(starts, mean, variance, weight, tau, nu, nodes)
    return tau, nu, float(log_sites)


@dataclass(frozen=True, eq=False)
class ChoiceLikelihood(Luce):
    """The likelihood of choices by their pairs, which are observed together; for full passes."""

    stage: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # (P,): number of each row's choice

    def _expectation(self, _y: Array, mu: Array, v: Array) -> tuple[Array, Array, Array]:
        starts = starts_of(self.stage)
        nodes = nodes_of(int(sizes_of(starts).max(initial=1)) - 1)
        value, slope, precision = expected_choices(starts, mu, v, nodes)
        return value, slope, -0.5 * precision


def shares_of(starts: IntArray, mean: Array, variance: Array) -> Array:
    """Return the probabilities of the alternatives of choices, one after the other."""
    nodes = nodes_of(int(sizes_of(starts).max(initial=1)) - 1)
    return np.asarray(expected_shares(starts, mean, variance, nodes))


@cache
def nodes_of(most: int, *, coarse: bool = False) -> Nodes:
    """Return the points in up to `most` dimensions: products of Gauss-Hermite rules, or points of Sobol's sequence."""
    sets = [_points(f, *POLICY.rules[coarse]) for f in range(most + 1)]
    points = [part.transpose(0, 2, 1).ravel() for part, _ in sets]
    logs = [part for _, part in sets]
    ends, log_ends = (np.cumsum([0, *(part.size for part in parts)]) for parts in (points, logs))
    n_sets = np.array([len(part) for part, _ in sets])
    return Nodes(np.concatenate(points), np.concatenate(logs), ends, log_ends, n_sets)


def _points(f: int, most: int, least_a_line: int) -> tuple[Array, Array]:
    """Return sets of points in f dimensions, shape (G, Q, f), and the logarithms of their weights (Q,)."""
    a_line = min(int(most ** (1.0 / max(f, 1)) + 1e-9), POLICY.most_a_line)
    if f == 0:
        return np.zeros((1, 1, 0)), np.zeros(1)
    if a_line >= least_a_line:
        x, weight = np.polynomial.hermite_e.hermegauss(a_line)
        log_weight = np.log(weight / weight.sum())
        grid = np.stack(np.meshgrid(*[x] * f, indexing="ij"), axis=-1).reshape(-1, f)
        logs = np.asarray(sum(np.meshgrid(*[log_weight] * f, indexing="ij"))).ravel()
        kept = logs > np.log(POLICY.least_weight)
        return grid[None, kept], logs[kept]
    half = 1 << (POLICY.rules[0][0].bit_length() - 2)
    return np.stack([_whitened(f, half, seed) for seed in range(POLICY.sets)]), np.full(2 * half, -np.log(2 * half))


def _whitened(f: int, n: int, seed: int) -> Array:
    """Return points of Sobol's sequence and their negatives, whose covariance is I, shape (Q, f)."""
    from scipy.stats import qmc  # noqa: PLC0415 - slow to import, and most choices are among fewer

    half = ndtri(qmc.Sobol(f, rng=seed).random(n))
    z = np.concatenate([half, -half])
    return np.asarray(np.linalg.solve(np.linalg.cholesky(z.T @ z / len(z)), z.T).T)
