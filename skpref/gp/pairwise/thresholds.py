"""Thresholds of ties of each user, or group: log b_user of two kinds around a centre, with a prior that is learnt, too.

People differ in how small a difference they call a tie. A tie is the band |z + noise| < b, so that answers of the user
are those of the likelihood without ties at z - b (left) and z + b (right), and what is left of both (a tie). Given the
cavities of expectation propagation, the evidence of a user's answers is a function of log b_user alone. Its slope and
the information of the answers make it a measurement of log b_user, with which centre, spread and all b_user follow in
closed form. The thresholds of grades are multiples of b, which all users share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np

from skpref._checks import check_arrays, check_positive, check_types
from skpref._math.quadrature import gauss_hermite
from skpref.gp.pairwise.policy import POLICY
from skpref.inference.chain_groups import columns_of
from skpref.likelihoods import Likelihood

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skpref._typing import Array, BoolArray, IntArray
    from skpref.likelihoods import PairwiseTies
    from skpref.likelihoods.base import Triple

# Standard deviations of log b over users, which are averaged under a half-Cauchy prior: it is narrow, so that users who
# are equal stay so, and has a long tail for users who differ. Chosen on simulations of 15 and 30 users with 10 to 60
# answers: with .05, 90 % intervals held 0 to 21 points less where the standard deviation was .3 or .6, and log-losses
# were .0004 to .004 larger there; equal users are predicted worse by at most .001.
_SPREADS = 2.0 * np.linspace(0.0, 1.0, 21) ** 2
_PRIOR = np.gradient(_SPREADS) / (1.0 + (_SPREADS / 0.3) ** 2)
# Kinds of users: their widths, in these standard deviations, their shares, where there is one kind or two, and how
# likely that is. With one kind, a few language models among many people are shrunk towards the people. On simulated
# measurements of 30 users, 90 % intervals of 3 or 5 users of a second kind hold .72 to .88 (.65 to .85 with one kind,
# .73 to .91 if all but the users' numbers were known), and errors of the others are up to a quarter smaller; where all
# are of one normal distribution, errors grow by .3 %, by 1 to 4 % if there are always two kinds. Widths of 3, 5 and 6,
# and more shares, are level.
_WIDTHS, _SHARES, _LIKELY = np.array([1.0, 4.0]), np.array([[1.0, 1e-12], [0.8, 0.2]]), np.array([0.7, 0.3])
_LEAST = 1e-6  # least information about a log threshold


class ByThreshold(NamedTuple):
    """Logarithms of the probabilities of answers, with derivatives in the mean of z and in b, shape (n,) each."""

    value: Array
    first: Array  # in the mean of z
    second: Array
    slope: Array  # in b


class _Kinds(NamedTuple):
    """What measurements say of U users at G standard deviations of the first of J kinds."""

    evidence: Array  # (G, U): log evidence, relative to users of one number
    probability: Array  # (G, J, U): of each kind
    squared: Array  # (G, J, 1): variances of the kinds
    wider: Array  # (G, J, U): variances of the measurements, in those of their errors


def _weigh_kinds(pull: Array, known: Array, centres: Array, spreads: Array, shares: Array) -> _Kinds:
    """Return what measurements pull / known, of variances 1 / known (U,), say at centres, spreads and shares (G, J)."""
    squared = (spreads[:, None, None] * _WIDTHS[:, None]) ** 2
    wider = 1.0 + squared * known
    misfit = (pull - known * centres[:, None, None]) ** 2 / known / wider
    log_joint = np.log(shares)[:, :, None] - 0.5 * (np.log(wider) + misfit)
    evidence = np.logaddexp.reduce(log_joint, axis=1)
    return _Kinds(evidence, np.exp(log_joint - evidence[:, None]), squared, wider)


class Population(NamedTuple):
    """Posteriors N(mean, variance) of one number of each user; an unseen user has N(centre, spread^2)."""

    mean: Array  # (U,)
    variance: Array  # (U,)
    centre: float
    spread: float
    log_evidence: float
    first_spread: float  # standard deviation of the first kind of users


def learn_population(
    pull: Array, known: Array, start: float, prior_of_centre: tuple[float, float], known_spread: float | None = None
) -> Population:
    """Return what measurements pull / known, of variances 1 / known (U,), say of users of two kinds around a centre.

    The centre has a prior of this mean and precision; where the first standard deviation is known, it is the start.
    """
    at, precision = prior_of_centre
    learns = known_spread is None
    spreads, prior = (_SPREADS, _PRIOR) if known_spread is None else (np.array([known_spread]), np.ones(1))
    shares, prior = np.repeat(_SHARES, spreads.size, axis=0), np.kron(_LIKELY, prior)
    spreads = np.tile(spreads, _LIKELY.size)
    centres, doubt, log_p = np.full(spreads.size, start), np.zeros(spreads.size), np.zeros(spreads.size)
    kinds = _weigh_kinds(pull, known, centres, spreads, shares)
    for _ in range(POLICY.centrings if learns else 0):
        total = log_p + kinds.evidence.sum(axis=1)
        # Once there are centres of their own.
        near = total >= (total.max() - POLICY.hopeless if doubt.all() else -np.inf)
        spreads, shares, prior = spreads[near], shares[near], prior[near]
        kinds = _Kinds(*(part[near] for part in kinds))
        share = kinds.probability / kinds.wider
        doubt = 1.0 / (precision + (share * known).sum(axis=(1, 2)))
        centres = doubt * (precision * at + (share * pull).sum(axis=(1, 2)))
        log_p = 0.5 * np.log(doubt) - 0.5 * precision * (centres - at) ** 2
        kinds = _weigh_kinds(pull, known, centres, spreads, shares)
    log_p = log_p + kinds.evidence.sum(axis=1)
    p = prior * np.exp(log_p - log_p.max())
    log_evidence = float(log_p.max() + np.log(p.sum()))
    p /= p.sum()
    weight, centre = p[:, None, None] * kinds.probability, float(p @ centres)
    means = (centres[:, None, None] + kinds.squared * pull) / kinds.wider
    variances = kinds.squared / kinds.wider + doubt[:, None, None] / kinds.wider**2
    mean = (weight * means).sum(axis=(0, 1))
    variance = (weight * (variances + (means - mean) ** 2)).sum(axis=(0, 1))
    # Of an unseen user: as far from the centre as those who are seen.
    doubt_of_centre = float(p @ (doubt + (centres - centre) ** 2))
    spread = float(np.sqrt(np.mean(variance + (mean - centre) ** 2) + doubt_of_centre))
    return Population(mean, variance, centre, spread, log_evidence, float(p @ spreads))


@dataclass(frozen=True, eq=False)
class TieThresholds:
    """Posteriors N(mean, variance) of the users' log thresholds; an unseen user has N(centre, spread^2)."""

    mean: Array  # (U,)
    variance: Array  # (U,)
    centre: float
    spread: float
    log_evidence: float = 0.0  # what the average over log thresholds and their prior adds to that of the answers
    first_spread: float = 0.0  # standard deviation of the first kind of users

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, centre=float, spread=float, log_evidence=float, first_spread=float)
        check_arrays(self, mean="U", variance="U")
        check_positive(self, "variance", "spread", "first_spread", zero=True)

    @classmethod
    def start(cls, threshold: float, n_users: int) -> TieThresholds:
        """Return the same threshold for all users."""
        centre = float(np.log(threshold))
        return cls(np.full(n_users, centre), np.zeros(n_users), centre, 0.0)

    def take(self, users: IntArray) -> TieThresholds:
        """Return the thresholds of some users; -1 has the prior's."""
        mean, variance = self.moments(users)
        return replace(self, mean=mean, variance=variance)

    def with_users(self, chosen: BoolArray, other: TieThresholds) -> TieThresholds:
        """Return the thresholds, of the chosen users, (U,), from `other`."""
        mean, variance = self.mean.copy(), self.variance.copy()
        mean[chosen], variance[chosen] = other.mean, other.variance
        return replace(self, mean=mean, variance=variance)

    def derivatives(self, likelihood: PairwiseTies, user: IntArray) -> Callable[[Array, Array, Array], ByThreshold]:
        """Return `threshold_derivatives` as a function of y, mu and v of rows, each with the threshold of its user."""
        return partial(threshold_derivatives, likelihood, b=np.exp(self.moments(user)[0]))

    def moments(self, users: IntArray) -> tuple[Array, Array]:
        """Return means and variances of the log thresholds of users; -1 has the prior's."""
        mean, variance = np.append(self.mean, self.centre), np.append(self.variance, self.spread**2)
        return mean[users], variance[users]

    def measured(
        self, likelihood: PairwiseTies, user: IntArray, rows: tuple[Array, Array, Array], slope: Array
    ) -> tuple[Array, Array]:
        """Return the slope and the information of each user's answers in log b, (U,) each.

        Given are users, cavities N(mu, v), weights and slopes in b, (P,) each.
        """
        mu, v, weight = rows
        b = np.exp(self.mean[user])
        known = information(likelihood, mu, v, b)
        slope, known = (_sum_by_user(weight * rows, user, self.mean.size) for rows in (b * slope, known))
        return slope, np.maximum(known, _LEAST)

    def updated(self, slope: Array, known: Array, *, learn_prior: bool = True) -> TieThresholds:
        """Return the posteriors, given the slope and the information of each user's answers in log b, (U,) each.

        The log evidence is what is added to that of the answers at these thresholds, before the step.
        """
        pull = known * self.mean + slope  # the information times the log threshold that the answers alone ask for
        known_spread = None if learn_prior else self.first_spread
        found = learn_population(pull, known, self.centre, (POLICY.centre, POLICY.centre_precision), known_spread)
        mean = self.mean + np.clip(found.mean - self.mean, -POLICY.threshold_step, POLICY.threshold_step)
        log_evidence = found.log_evidence + 0.5 * float(np.sum(slope**2 / known))
        return TieThresholds(mean, *found[1:4], log_evidence, found.first_spread)


@dataclass(frozen=True, eq=False)
class TiesOfGroups(Likelihood):
    """A likelihood with ties of rows in groups, each with a threshold of its own."""

    ties_are_answers: ClassVar[bool] = True

    shared: PairwiseTies
    thresholds: TieThresholds
    cell: IntArray  # (N,): what `cells_of` returns

    @classmethod
    def start(cls, shared: PairwiseTies, level: IntArray, sizes: IntArray) -> Self:
        """Return the same threshold for all combinations of groups."""
        return cls(shared, TieThresholds.start(shared.threshold, int(sizes.prod())), cells_of(level, sizes))

    def _parts(self) -> Iterator[tuple[int, IntArray, PairwiseTies]]:
        """Yield the groups that have rows, these rows, and their likelihood."""
        for cell in np.unique(self.cell).tolist():
            own = replace(self.shared, threshold=float(np.exp(self.thresholds.mean[cell])))
            yield cell, np.flatnonzero(self.cell == cell), own

    def _derivatives(self, y: Array, z: Array) -> Triple:
        value, first, half_second = self._expectation(y, z, np.zeros(z.shape))
        return value, first, 2.0 * half_second

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        out = np.empty((3, y.size))
        for _, rows, own in self._parts():
            out[:, rows] = own.expectation(y[rows], mu[rows], v[rows])
        return out[0], out[1], out[2]

    def _predict(self, mu: Array, v: Array) -> Array:
        return self.shared.predict(mu, v)

    def learnt(self, y: Array, mu: Array, v: Array, weight: Array) -> Self:
        """Return the likelihood after a step of scoring in all thresholds; groups share the ratios."""
        slope = np.zeros(self.thresholds.mean.size)
        known = np.full(slope.size, _LEAST)
        for cell, rows, own in self._parts():
            at = mu[rows], v[rows]
            slope[cell] = own.slopes(y[rows], *at, weight[rows])[0]
            known[cell] += weight[rows] @ information(own, *at, np.full(rows.size, own.threshold))
        thresholds = self.thresholds.updated(slope, known)
        shared = self.shared.learnt(y, mu, v, weight) if self.shared.ratios else self.shared
        return replace(self, shared=replace(shared, threshold=float(np.exp(thresholds.centre))), thresholds=thresholds)


def cells_of(level: Array | IntArray, sizes: IntArray) -> IntArray:
    """Return the number of each combination of groups (n, n_kinds), shape (n,); -1 where one is unseen or left out."""
    known, number = columns_of(level, sizes)[1], level[:, : sizes.size].astype(np.int64)
    return np.where(known.all(axis=1), np.ravel_multi_index(tuple(np.where(known, number, 0).T), tuple(sizes)), -1)


def _sum_by_user(values: Array, user: IntArray, n_users: int) -> Array:
    """Return sums over the rows of each user, shape (U,)."""
    return np.bincount(user, values, n_users).astype(np.float64)


def threshold_derivatives(
    likelihood: PairwiseTies, y: Array, mu: Array, v: Array, b: Array, gap: int = 0
) -> ByThreshold:
    """Return log p(y), z ~ N(mu, v), with a threshold b for each row; soft labels are mixtures of the logarithms.

    With a gap, slopes are those in its logarithm, over b.
    """
    out, level = np.zeros((4, y.size)), likelihood.levels_of(y)
    ends, moved = likelihood.multiples, likelihood.direction(gap)
    inner = (level > 0) & (level < likelihood.n_levels - 1)
    for side, share in ((1.0, y), (0.0, 1.0 - y)):
        rows, shift = ~inner & (share > 0.0), 1.0 - 2.0 * side
        label = np.full(int(rows.sum()), side)
        value, first, second = likelihood.side.tilted(label, mu[rows] + shift * ends[-2] * b[rows], v[rows])
        out[:, rows] += share[rows] * np.stack([value, first, second, shift * moved[-2] * first])
    level, v, b = level[inner], v[inner], b[inner]
    mu, half = mu[inner] - 0.5 * b * (ends[level] + ends[level + 1]), 0.5 * b * (ends[level + 1] - ends[level])
    # From the side on which both terms are small, so that their difference keeps its digits.
    sign, ones = np.where(mu > 0.0, -1.0, 1.0), np.ones(mu.size)
    log_a, a1, a2 = likelihood.side.tilted(ones, -np.abs(mu) + half, v)
    log_c, c1, c2 = likelihood.side.tilted(ones, -np.abs(mu) - half, v)
    ratio = np.exp(log_c - log_a)
    first, slope = sign * (a1 - ratio * c1) / (1.0 - ratio), (a1 + ratio * c1) / (1.0 - ratio)
    bend = (a2 + a1**2 - ratio * (c2 + c1**2)) / (1.0 - ratio)
    slope = 0.5 * (moved[level + 1] - moved[level]) * slope - 0.5 * (moved[level] + moved[level + 1]) * first
    out[:, inner] = log_a + np.log1p(-ratio), first, bend - first**2, slope
    return ByThreshold(*out)


def learn_ratios(likelihood: PairwiseTies, rows: tuple[Array, Array, Array, Array], b: Array) -> PairwiseTies:
    """Return the likelihood after a step of scoring in each gap between thresholds.

    Rows are answers, cavities N(mu, v) and weights, (P,) each.
    """
    y, mu, v, weight = rows
    for gap in range(1, 1 + len(likelihood.ratios)):
        slope = b * threshold_derivatives(likelihood, y, mu, v, b, gap).slope
        step = float(weight @ slope / (weight @ slope**2 + 1.0))  # the 1 is a prior about the start
        most = POLICY.threshold_step
        likelihood = likelihood.stretched(gap, float(np.clip(POLICY.threshold_damping * step, -most, most)))
    return likelihood


def information(likelihood: PairwiseTies, mu: Array, v: Array, b: Array) -> Array:
    """Return the expected information of an answer about log b, shape (n,).

    The curvature of the answers that were given would not do: it is nothing where few of them are no ties, and then any
    spread would explain them.
    """
    ends = likelihood.multiples[likelihood.n_levels // 2 + likelihood.tie : -1].tolist()  # 0 without ties, and above
    total, p_tie, tie = np.zeros(mu.shape), np.ones(mu.shape), np.zeros(mu.shape)
    for side in (1.0, 0.0):
        beyond, slopes = np.zeros((2, len(ends) + 1, mu.size))
        for k, end in enumerate(ends):
            log_p, first, _ = likelihood.side.tilted(np.full(mu.size, side), mu + (1.0 - 2.0 * side) * b * end, v)
            beyond[k], slopes[k] = np.exp(log_p), (1.0 - 2.0 * side) * end * np.exp(log_p) * first
        p, slope = -np.diff(beyond, axis=0), -np.diff(slopes, axis=0)
        total += (slope**2 / np.maximum(p, np.finfo(np.float64).tiny)).sum(axis=0)
        p_tie, tie = p_tie - beyond[0], tie - slopes[0]
    return np.asarray(b**2 * (total + (tie**2 / np.maximum(p_tie, _LEAST) if likelihood.tie else 0.0)))


def predict_answers(likelihood: PairwiseTies, mu: Array, v: Array, log_b: tuple[Array, Array]) -> Array:
    """Return the probabilities of the answers, left first, where log b has a mean and a variance, shape (n, L)."""
    total, (x, w) = np.zeros((mu.size, likelihood.n_levels)), gauss_hermite(POLICY.threshold_nodes)
    for node, share in zip(x, w, strict=True):
        b = np.exp(log_b[0] + node * np.sqrt(log_b[1]))
        above = [likelihood.side.predict(mu - b * end, v) for end in likelihood.multiples[-2:0:-1]]
        right = likelihood.side.predict(-mu - b * likelihood.multiples[-2], v)
        inner = np.maximum(np.diff(above, axis=0), 0.0)
        total += share * np.stack([above[0], *inner, right], axis=1)
    return total / total.sum(axis=1, keepdims=True)
