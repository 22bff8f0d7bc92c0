"""What is inferred and where it stands: the problem, the posterior, the problem seen from it (docs/maths section 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from skpref.inference.blocks import DenseBlock, DiagonalBlock, StackedBlock
from skpref.inference.sites import VARIATIONAL
from skpref.inference.terms.base import precision_of
from skpref.inference.terms.products import FactorTerm, FactorView, LinearView, ProductTerm, Projection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skpref._typing import Array, IntArray
    from skpref.inference.blocks import Block
    from skpref.inference.scale import Scale
    from skpref.inference.sites import Rule, Sites
    from skpref.inference.terms.base import LinearTerm
    from skpref.inference.terms.products import View
    from skpref.likelihoods import Likelihood


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be inferred: terms, likelihood, observations, and the rule for the sites.

    Blocks of variables are numbered: one a linear term, then two a product (its first side, its second side).
    """

    terms: tuple[LinearTerm, ...]  # one block of variables each; their projections add up to z
    likelihood: Likelihood  # p(y | z)
    y: Array  # (P,): observations
    weight: Array  # (P,): observation weights
    rule: Rule = VARIATIONAL  # site rule
    products: tuple[ProductTerm, ...] = ()  # sums of products that are added to z
    # diagonal blocks whose variables belong to one cluster of observations each (a user's)
    local: frozenset[int] = frozenset()
    cluster: IntArray | None = None  # (P,): cluster of each observation; needed when there are local blocks
    inflation: float = 1.0  # c = P / B of a mini-batch, a factor that `weight` holds
    members: IntArray | None = None  # clusters of a mini-batch, ascending; its local blocks hold their variables alone
    n_clusters: int = 0  # number of all clusters
    learns: bool = True  # whether the loop fits the likelihood's own parameters, where it has some

    @property
    def n_observations(self) -> int:
        """P."""
        return int(self.y.shape[0])

    @property
    def sides(self) -> tuple[LinearTerm | FactorTerm, ...]:
        """What each block's variables project through, in the order of the blocks."""
        return self.terms + tuple(side for product in self.products for side in (product.first, product.second))

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Blocks that move together: given the rest, z is linear in the variables of a group."""
        n = len(self.terms)
        second = {n + 2 * k + 1 for k in range(len(self.products))} | self.local
        first = tuple(k for k in range(n + 2 * len(self.products)) if k not in second)
        return tuple(group for group in (first, tuple(sorted(second))) if group)

    def batch(self, index: IntArray) -> Problem:
        """Return the mini-batch of some observations, weighted so that its expectation is the full problem."""
        c, n = self.n_observations / len(index), len(self.terms)
        members = np.unique(self.cluster[index]) if self.local and self.cluster is not None else None
        whose = [members if k in self.local else None for k in range(len(self.sides))]
        return replace(
            self,
            terms=tuple(term.take(index, who) for term, who in zip(self.terms, whose, strict=False)),
            products=tuple(
                ProductTerm(product.first.take(index, first), product.second.take(index, second))
                for product, first, second in zip(self.products, whose[n::2], whose[n + 1 :: 2], strict=True)
            ),
            y=self.y[index],
            weight=c * self.weight[index],
            cluster=None if self.cluster is None else self.cluster[index],
            inflation=c,
            members=members,
        )

    @property
    def stands_for(self) -> float:
        """How many local variables each one of the mini-batch stands for."""
        return 1.0 if self.members is None else self.n_clusters / len(self.members)

    @property
    def alone(self) -> Problem:
        """The mini-batch as data of their own, which stand for nothing else: so its local variables see it."""
        return replace(self, weight=self.weight / self.inflation, inflation=1.0, members=None)

    def restrict(self, state: State) -> State:
        """Return the state of a mini-batch: of local blocks only its members."""
        if self.members is None:
            return state
        blocks = {}
        for k in self.local:
            precision, linear = (self._by_cluster(x)[:, self.members].reshape(-1) for x in _natural(state.blocks[k]))
            blocks[k] = DiagonalBlock(precision, linear)
        return state.with_blocks(blocks)

    def expand(self, part: State, whole: State) -> State:
        """Put a mini-batch's local variables back among all."""
        if self.members is None:
            return part
        blocks = {}
        for k in self.local:
            old, new = _natural(whole.blocks[k]), _natural(part.blocks[k])
            full = [x.copy() for x in old]
            for target, values in zip(full, new, strict=True):
                self._by_cluster(target)[:, self.members] = values.reshape(-1, len(self.members))
            blocks[k] = DiagonalBlock(*full)
        return part.with_blocks(blocks)

    def _by_cluster(self, x: Array) -> Array:
        """A view with one row a factor."""
        return x.reshape(-1, self.n_clusters)


def _natural(block: Block) -> tuple[Array, Array]:
    assert isinstance(block, DiagonalBlock)  # noqa: S101 - local variables are independent of each other
    return block.precision, block.linear


@dataclass(frozen=True, eq=False)
class State:
    """The posterior q: Gaussian blocks, a Gamma a scale."""

    blocks: tuple[Block, ...]  # q of the variables, in the order of `Problem.sides`
    scales: Mapping[str, Scale]  # q(s), by the name that segments use
    step: int = 0  # mini-batch steps made so far; the next one is number t = step + 1

    @property
    def expected(self) -> dict[str, float]:
        """E[s] of every scale."""
        return {name: float(scale.mean) for name, scale in self.scales.items()}

    def log_mean(self, name: str) -> float:
        """Return log E[s] of one scale."""
        return float(np.log(self.scales[name].mean))

    @property
    def log_scales(self) -> Array:
        """Log of E[s] of every scale, shape (n_scales,)."""
        return np.asarray(np.log([scale.mean for scale in self.scales.values()]))

    def with_blocks(self, moved: Mapping[int, Block]) -> State:
        """Return the state with some blocks replaced."""
        return replace(self, blocks=tuple(moved.get(k, block) for k, block in enumerate(self.blocks)))


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A problem seen from a state."""

    projections: tuple[Projection, ...]  # moments of what each block gives
    mu: Array  # (P,): posterior means and variances of z
    v: Array  # (P,): posterior means and variances of z
    sites: Sites  # sites at (mu, v)
    objective: float  # what the step must not lower: the bound, or the log joint (Laplace)
    bound: float  # lower bound on the log evidence, or Laplace's approximation of the latter


def initial_state(problem: Problem, scales: Mapping[str, Scale], *, diagonal: tuple[bool, ...] | None = None) -> State:
    """Start at the prior."""
    expected = {name: scale.mean for name, scale in scales.items()}
    kinds = diagonal or (False,) * len(problem.sides)
    pairs = zip(problem.sides, kinds, strict=True)
    return State(tuple(_prior_block(side, expected, diagonal=kind) for side, kind in pairs), dict(scales))


def _prior_block(side: LinearTerm | FactorTerm, expected: Mapping[str, float], *, diagonal: bool) -> Block:
    precision = precision_of(side.segments, expected)
    mean = np.zeros_like(precision)
    if diagonal:
        return DiagonalBlock.isotropic(precision, mean)
    if isinstance(side, FactorTerm):
        return StackedBlock.isotropic(precision, mean, side.n_factors)
    return DenseBlock.isotropic(precision, mean)


def evaluate(problem: Problem, state: State) -> Evaluation:
    """Form projections, sites and bound at a state."""
    return _see(problem, state, tuple(_project(problem, state, k) for k in range(len(state.blocks))))


def reevaluate(problem: Problem, state: State, earlier: Evaluation, moved: tuple[int, ...] = ()) -> Evaluation:
    """Form sites and bound anew where only some blocks (or only scales) have moved."""
    kept = enumerate(earlier.projections)
    return _see(problem, state, tuple(_project(problem, state, k) if k in moved else old for k, old in kept))


def _project(problem: Problem, state: State, k: int) -> Projection:
    side, block = problem.sides[k], state.blocks[k]
    if isinstance(side, FactorTerm):
        return side.project(block)
    mean = side.matvec(block.mean)
    # Laplace looks at the mode alone.
    return Projection(mean, side.variance(block) if problem.rule.integrates else np.zeros_like(mean))


def _see(problem: Problem, state: State, projections: tuple[Projection, ...]) -> Evaluation:
    expected = state.expected
    mu, v = moments(problem, projections, expected)
    prior = v
    if problem.rule.name == "linearised":
        shares = [term.prior_variance(expected) for term in problem.terms]
        prior = np.sum(shares + [product.prior_variance(expected) for product in problem.products], axis=0)
    sites = problem.rule(problem.likelihood, problem.y, (mu, v, prior), problem.weight)
    fit = float(np.sum(sites.value))
    if problem.rule.integrates:
        bound = fit - divergence(problem, state)
        return Evaluation(projections, mu, v, sites, bound, bound)
    return Evaluation(projections, mu, v, sites, *_laplace_objective(problem, state, fit))


def moments(
    problem: Problem, projections: tuple[Projection, ...], expected: Mapping[str, float]
) -> tuple[Array, Array]:
    """Return means and variances of z, shape (P,)."""
    mean, variance = np.zeros(problem.n_observations), np.zeros(problem.n_observations)
    n = len(problem.terms)
    for term, seen in zip(problem.terms, projections[:n], strict=True):
        mean += seen.mean
        variance += seen.spread
        if term.residual is not None:
            variance += term.residual / expected[term.residual_scale]
    for k, product in enumerate(problem.products):
        share = product.moments(projections[n + 2 * k], projections[n + 2 * k + 1], expected)
        mean += share[0]
        variance += share[1]
    return mean, variance


def view(problem: Problem, evaluation: Evaluation, expected: Mapping[str, float], k: int) -> View:
    """Return how block k enters z while the others are held."""
    n = len(problem.terms)
    if k < n:
        return LinearView(problem.terms[k])
    other = n + ((k - n) ^ 1)
    side, held = problem.sides[k], problem.sides[other]
    assert isinstance(side, FactorTerm)  # noqa: S101 - blocks beyond the linear terms are sides of products
    assert isinstance(held, FactorTerm)  # noqa: S101
    seen = evaluation.projections[other]
    return FactorView(side, seen.mean, held.variance(seen, expected))


def second_moments(problem: Problem, state: State) -> dict[str, tuple[float, float, float]]:
    """Return size, |m|^2 and tr S of the variables under each scale."""
    totals: dict[str, tuple[float, float, float]] = {}
    for k, (side, block) in enumerate(zip(problem.sides, state.blocks, strict=True)):
        start, mean, variance = 0, block.mean, block.covariance_diagonal
        times = problem.stands_for if k in problem.local else 1.0
        for segment in side.segments:
            part = slice(start, start + segment.size)
            size, square, trace = totals.get(segment.scale, (0.0, 0.0, 0.0))
            totals[segment.scale] = (
                size + times * segment.size,
                square + times * float(mean[part] @ mean[part]),
                trace + times * float(variance[part].sum()),
            )
            start += segment.size
    return totals


def divergence(problem: Problem, state: State) -> float:
    """Return KL(q(v, s) || p(v, s)), the expectation over q(s) included (docs/maths section 5)."""
    total = -_log_volume(problem, state)
    for name, (size, square, trace) in second_moments(problem, state).items():
        scale = state.scales[name]
        total += scale.mean * (square + trace) - size - size * scale.mean_log
    return 0.5 * total + sum(scale.kl for scale in state.scales.values())


def _log_volume(problem: Problem, state: State) -> float:
    """Log determinant of the covariance of all variables."""
    times = [problem.stands_for if k in problem.local else 1.0 for k in range(len(state.blocks))]
    return sum(n * block.log_det_covariance for n, block in zip(times, state.blocks, strict=True))


def _laplace_objective(problem: Problem, state: State, fit: float) -> tuple[float, float]:
    """Log joint at the mode, and Laplace's log evidence; q(s) enters through its expectations."""
    joint, volume = fit, _log_volume(problem, state)
    for name, (size, square, _) in second_moments(problem, state).items():
        joint -= 0.5 * state.scales[name].mean * square
        volume += size * state.scales[name].mean_log
    return joint, joint + 0.5 * volume - sum(scale.kl for scale in state.scales.values())
