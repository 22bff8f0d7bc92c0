"""What predictions of max-margin factorisation need, and the predictions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray

_NODES = 256  # at which the prior of what is unknown is averaged
_AT_ONCE = 1 << 24  # numbers of a side that are gathered together


class Factors(NamedTuple):
    """Factors and thresholds of several chains or samples."""

    users: NDArray[Any]  # (S, N, K)
    items: NDArray[Any]  # (S, M, K)
    thresholds: NDArray[Any]  # (S, N, L - 1), or (S, 1, L - 1) where all users share them

    def scores(self, user: IntArray, item: IntArray) -> Array:
        """x_ij of each sample, 0 for an unknown side; shape (S, n)."""
        u, v = self._rows(self.users, user), self._rows(self.items, item)
        return np.einsum("snk,snk->sn", u, v).astype(np.float64)

    def lengths(self, user: IntArray, item: IntArray, sigma: float) -> Array:
        """Prior variance of x_ij where a side is unknown, else 0; shape (S, n)."""
        variance = np.zeros((self.users.shape[0], user.size))
        for mine, theirs, table in ((user, item, self.items), (item, user, self.users)):
            rows = self._rows(table, theirs)
            square = np.einsum("snk,snk->sn", rows, rows).astype(np.float64)
            square[:, theirs < 0] = table.shape[2] * sigma**2
            variance = np.where(mine < 0, sigma**2 * square, variance)
        return variance

    def own_thresholds(self, user: IntArray) -> Array:
        """Thresholds of each row's user, the users' mean for an unknown one; shape (S, n, L - 1)."""
        if self.thresholds.shape[1] == 1:
            return np.broadcast_to(self.thresholds, (self.thresholds.shape[0], user.size, self.thresholds.shape[2]))
        theta = self.thresholds[:, np.maximum(user, 0)].astype(np.float64)
        theta[:, user < 0] = self.thresholds.mean(axis=1, dtype=np.float64)[:, None]
        return theta

    @staticmethod
    def _rows(table: NDArray[Any], index: IntArray) -> NDArray[Any]:
        rows = table[:, np.maximum(index, 0)]
        rows[:, index < 0] = 0.0
        return rows


@dataclass(frozen=True, eq=False)
class M3FPosterior:
    """Posterior of factors and thresholds, as far as predictions need it."""

    average: Factors  # average after burn-in of each chain
    last: Factors  # last state of each chain
    samples: Factors  # kept samples of all chains, in single precision
    cost: float  # c
    margin: float  # the margin l
    sigma: float  # prior standard deviation of the factors
    # prior standard deviation of the thresholds; 0 where all users share them, for a new one then has them too
    varsigma: float

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return int(self.average.thresholds.shape[2]) + 1

    def _scores(self, factors: Factors, user: IntArray, item: IntArray) -> Array:
        """Mean of x_ij given each sample; shape (S, n)."""
        return factors.scores(user, item)

    def _spread(self, factors: Factors, user: IntArray, item: IntArray) -> Array:
        """Variance of x_ij given each sample; shape (S, n)."""
        return factors.lengths(user, item, self.sigma)

    def levels(self, user: IntArray, item: IntArray, rule: str) -> IntArray:
        """Predict levels, shape (n,)."""
        if rule == "median":
            cumulative = np.cumsum(self.probabilities(user, item), axis=1)
            return np.minimum((cumulative < 0.5).sum(axis=1), self.n_levels - 1)
        factors = self.average if rule == "average" else self.last
        level = np.empty(user.size, dtype=np.int64)
        for part in _parts(user.size, factors):
            score = self._scores(factors, user[part], item[part]).mean(axis=0)
            theta = factors.own_thresholds(user[part]).mean(axis=0)
            level[part] = (score[:, None] >= theta).sum(axis=1)
        return level

    def score_moments(self, user: IntArray, item: IntArray) -> tuple[Array, Array]:
        """Posterior mean and variance of x_ij over the kept samples, shape (n,)."""
        mean, variance = np.empty(user.size), np.empty(user.size)
        for part in _parts(user.size, self.samples):
            score = self._scores(self.samples, user[part], item[part])
            spread = self._spread(self.samples, user[part], item[part])
            mean[part] = score.mean(axis=0)
            variance[part] = score.var(axis=0, ddof=min(1, score.shape[0] - 1)) + spread.mean(axis=0)
        return mean, variance

    def probabilities(self, user: IntArray, item: IntArray) -> Array:
        """Predictive probabilities of the levels: exp(-C hinge loss), normalised, over the kept samples."""
        out = np.empty((user.size, self.n_levels))
        known = (user >= 0) & (item >= 0)
        for part in _parts(user.size, self.samples):
            here = np.arange(user.size)[part]
            sure, unsure = here[known[part]], here[~known[part]]
            if sure.size:
                score = self._scores(self.samples, user[sure], item[sure])
                theta = self.samples.own_thresholds(user[sure])
                out[sure] = level_probabilities(score, theta, self.cost, self.margin).mean(axis=0)
            if unsure.size:
                out[unsure] = self._of_strangers(user[unsure], item[unsure])
        return out

    def _of_strangers(self, user: IntArray, item: IntArray) -> Array:
        """The same where a side is unknown: averaged over normal scores, and thresholds where the user is unknown."""
        mean, deviation = self._scores(self.samples, user, item), np.sqrt(self._spread(self.samples, user, item))
        theta, own = self.samples.own_thresholds(user), np.where(user < 0, self.varsigma, 0.0)
        total = np.zeros((user.size, self.n_levels))
        for node in _normal_nodes(self.n_levels):
            tried = theta + own[:, None] * node[1:]
            total += level_probabilities(mean + deviation * node[0], tried, self.cost, self.margin).mean(axis=0)
        return total / _NODES


@dataclass(frozen=True, eq=False)
class IPM3FPosterior(M3FPosterior):
    """The same where users hold features of an Indian buffet: a stranger is its next customer."""

    alpha: float  # rate of the buffet

    def _shares(self, factors: Factors) -> tuple[Array, float]:
        """Probabilities that the next customer takes each feature, and how many new ones they are expected to take."""
        n = factors.users.shape[1] + 1.0
        return factors.users.sum(axis=1, dtype=np.float64) / n, self.alpha / n

    def _scores(self, factors: Factors, user: IntArray, item: IntArray) -> Array:
        score, new = factors.scores(user, item), np.flatnonzero((user < 0) & (item >= 0))
        if new.size:
            share, _ = self._shares(factors)
            score[:, new] = np.einsum("sk,snk->sn", share, factors.items[:, item[new]])
        return score

    def _spread(self, factors: Factors, user: IntArray, item: IntArray) -> Array:
        variance = np.zeros((factors.users.shape[0], user.size))
        if not (strange := (user < 0) | (item < 0)).any():
            return variance
        share, n_new = self._shares(factors)
        both, fresh = np.flatnonzero((user < 0) & (item < 0)), np.flatnonzero((user >= 0) & (item < 0))
        new = np.flatnonzero(strange & (item >= 0))
        square = factors.items[:, item[new]].astype(np.float64) ** 2
        variance[:, new] = np.einsum("sk,snk->sn", share * (1.0 - share), square) + self.sigma**2 * n_new
        held = factors.users[:, user[fresh]].astype(np.float64)
        variance[:, fresh] = self.sigma**2 * np.einsum("snk,snk->sn", held, held)
        variance[:, both] = self.sigma**2 * (share.sum(axis=1) + n_new)[:, None]
        return variance


@lru_cache(maxsize=8)
def _normal_nodes(width: int) -> Array:
    """Points that stand for independent normal numbers, the same in every process."""
    return np.asarray(ndtri(qmc.Sobol(width, scramble=True, rng=0).random(_NODES)))


def level_probabilities(score: Array, theta: Array, cost: float, margin: float) -> Array:
    """The genuine likelihood of each level (paper 001, section 2.1): exp(-C hinge loss) over its sum."""
    apart = theta - score[..., None]
    # From one level to the next, one threshold changes sides.
    above, below = np.maximum(0.0, margin - apart), np.maximum(0.0, margin + apart)
    step = np.concatenate([np.zeros((*score.shape, 1)), np.cumsum(below - above, axis=-1)], axis=-1)
    log_p = -cost * (step - step.min(axis=-1, keepdims=True))
    p = np.exp(log_p)
    return p / p.sum(axis=-1, keepdims=True)


def _parts(n: int, factors: Factors) -> list[slice]:
    size = max(1, _AT_ONCE // max(factors.items.shape[0] * factors.items.shape[2], 1))
    return [slice(first, first + size) for first in range(0, n, size)]
