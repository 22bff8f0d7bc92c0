"""An inference problem, the state of its posterior, and the problem evaluated there (docs/maths section 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._checks import check_types, is_count, require
from skpref.inference.blocks import Block, DenseBlock, DiagonalBlock, StackedBlock
from skpref.inference.scale import check_scales
from skpref.inference.sites import VARIATIONAL
from skpref.inference.terms.base import LinearView, Projection, precision_of
from skpref.inference.terms.products import FactorTerm, FactorView, ProductTerm

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from skpref._typing import Array, IntArray
    from skpref.inference.scale import Scale
    from skpref.inference.sites import Rule, Sites
    from skpref.inference.terms.base import LinearTerm
    from skpref.inference.terms.products import View
    from skpref.likelihoods import Likelihood


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be inferred: terms, likelihood, observations, and the rule for the sites.

    Every block of variables has a name: that of its linear term, or of its side of a product.
    """

    terms: Mapping[str, LinearTerm]  # linear terms by the name of their block; their projections add up to z
    likelihood: Likelihood  # p(y | z)
    y: Array  # (P,): observations
    weight: Array  # (P,): observation weights
    rule: Rule = VARIATIONAL  # site rule
    products: tuple[ProductTerm, ...] = ()  # sums of products that are added to z
    # names of diagonal blocks whose variables belong to one cluster of observations each (a user's)
    local: frozenset[str] = frozenset()
    cluster: IntArray | None = None  # (P,): cluster of each observation; needed when there are local blocks
    n_clusters: int = 0  # number of all clusters
    learns: bool = True  # whether the loop fits the likelihood's own parameters, where it has some
    offset: Array | None = None  # (P,): known part of z, such as log exposures; None: 0

    @property
    def n_observations(self) -> int:
        """P."""
        return int(self.y.shape[0])

    @property
    def sides(self) -> dict[str, LinearTerm | FactorTerm]:
        """What each block's variables project through: linear terms first, then the two sides of every product."""
        sides: dict[str, LinearTerm | FactorTerm] = dict(self.terms)
        for product in self.products:
            sides |= product.sides
        return sides

    @property
    def partner(self) -> dict[str, str]:
        """The other side of every side of a product."""
        pairs = [product.names for product in self.products]
        return dict(pairs) | {second: first for first, second in pairs}

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Blocks that move together: while the others are fixed, z is linear in the variables of a group."""
        later = {product.names[1] for product in self.products} | self.local
        sides = self.sides
        groups = tuple(k for k in sides if k not in later), tuple(k for k in sides if k in later)
        return tuple(group for group in groups if group)

    def multiplicity(self, _name: str) -> float:
        """Return how many variables of the full problem each variable of a block represents: more than 1 in batches."""
        return 1.0

    # What the loop asks of the observations: sums over them, which `ShardedProblem` adds up over parts of them.
    def evaluate(self, state: State, earlier: Evaluation | None = None, moved: Collection[str] = ()) -> Evaluation:
        """Return projections, sites and bound at a state; only the blocks `moved` differ from an earlier evaluation."""
        old = {} if earlier is None else {k: p for k, p in earlier.projections.items() if k not in moved}
        return _evaluation(self, state, {k: old[k] if k in old else _project(self, state, k) for k in self.sides})

    def normal_equations(
        self, evaluation: Evaluation, expected: Mapping[str, float], diagonal: Mapping[str, bool]
    ) -> dict[str, tuple[Any, Array]]:
        """Return curvature and gradient of the fit in each block named: a diagonal, or a Gram matrix a dense part."""
        weight, equations = evaluation.sites.weight, {}
        for name, is_diagonal in diagonal.items():
            block_view = view(self, evaluation, expected, name)
            gradient = _gradient(block_view, evaluation, name)
            curvature = block_view.gram_diagonal(weight) if is_diagonal else block_view.grams(weight)
            equations[name] = curvature, gradient
        return equations

    def gradient(self, evaluation: Evaluation, expected: Mapping[str, float], names: Sequence[str]) -> Array:
        """Return the gradient of the fit in the variables of blocks, one block after the other, shape (K,)."""
        return np.concatenate([_gradient(view(self, evaluation, expected, k), evaluation, k) for k in names])

    def normal_matrix(
        self, evaluation: Evaluation, expected: Mapping[str, float], names: Sequence[str]
    ) -> Callable[[Array], Array]:
        """Return the function x -> A^T diag(weight) A x, A the design of all variables of blocks."""
        weight, views = evaluation.sites.weight, [view(self, evaluation, expected, name) for name in names]
        cuts = np.cumsum([sum(segment.size for segment in block_view.segments) for block_view in views])[:-1]

        def times(x: Array) -> Array:
            projected = [block_view.forward(part) for block_view, part in zip(views, np.split(x, cuts), strict=True)]
            z = weight * sum(block_view.total(p) for block_view, p in zip(views, projected, strict=True))
            fit = [block_view.backward(z, weight, p) for block_view, p in zip(views, projected, strict=True)]
            return np.concatenate(fit)

        return times

    def pulls(self, evaluation: Evaluation, expected: Mapping[str, float]) -> dict[str, float]:
        """Return the gain of the bound per unit of 1/E[s] of every scale, by smaller residuals."""
        pull: dict[str, float] = {}
        for block_name in self.sides:
            block_view = view(self, evaluation, expected, block_name)
            for name, amount in block_view.pull(evaluation.sites.weight).items():
                pull[name] = pull.get(name, 0.0) + amount
        return pull

    def batch(self, index: IntArray) -> MiniBatch:
        """Return the mini-batch of the observations `index`, weighted so that its expectation is the full problem."""
        inflation = self.n_observations / len(index)
        members = np.unique(self.cluster[index]) if self.local and self.cluster is not None else None
        members_of = {name: members if name in self.local else None for name in self.sides}
        return MiniBatch(
            {name: term.take(index, members_of[name]) for name, term in self.terms.items()},
            self.likelihood,
            self.y[index],
            inflation * self.weight[index],
            self.rule,
            tuple(product.take(index, members_of) for product in self.products),
            self.local,
            None if self.cluster is None else self.cluster[index],
            self.n_clusters,
            self.learns,
            None if self.offset is None else self.offset[index],
            inflation,
            members,
        )


@dataclass(frozen=True, eq=False)
class MiniBatch(Problem):
    """A part of a problem's observations, with only the local variables of its clusters."""

    inflation: float = 1.0  # P / B, a factor that `weight` includes
    members: IntArray | None = None  # clusters of the batch, ascending; None without local blocks

    def multiplicity(self, name: str) -> float:
        """Return how many variables of the full problem each variable of a block represents."""
        if self.members is None or name not in self.local:
            return 1.0
        return self.n_clusters / len(self.members)

    @property
    def uninflated(self) -> MiniBatch:
        """The batch as data in their own right, as its local variables see it: no inflation."""
        return replace(self, weight=self.weight / self.inflation, inflation=1.0, members=None)

    def restrict(self, state: State) -> State:
        """Return the state of the batch: of local blocks only the members of its clusters."""
        if self.members is None:
            return state
        blocks = {}
        for name in self.local:
            natural = _natural(state.blocks[name])
            blocks[name] = DiagonalBlock(*(self._reshape_by_cluster(x)[:, self.members].reshape(-1) for x in natural))
        return state.with_blocks(blocks)

    def expand(self, part: State, whole: State) -> State:
        """Return the batch's state with its local variables put back among all of `whole`."""
        if self.members is None:
            return part
        blocks = {}
        for name in self.local:
            full = [x.copy() for x in _natural(whole.blocks[name])]
            for target, values in zip(full, _natural(part.blocks[name]), strict=True):
                self._reshape_by_cluster(target)[:, self.members] = values.reshape(-1, len(self.members))
            blocks[name] = DiagonalBlock(*full)
        return part.with_blocks(blocks)

    def _reshape_by_cluster(self, x: Array) -> Array:
        """Return a view with one row a factor, shape (D, n_clusters)."""
        return x.reshape(-1, self.n_clusters)


def _natural(block: Block) -> tuple[Array, Array]:
    """Return precision and linear parameter of a local block."""
    assert isinstance(block, DiagonalBlock)  # noqa: S101 - local variables are independent of each other
    return block.precision, block.linear


@dataclass(frozen=True, eq=False)
class State:
    """The posterior q: a Gaussian for each block, a Gamma for each scale."""

    blocks: Mapping[str, Block]  # q of the variables, by the names in `Problem.sides`
    scales: Mapping[str, Scale]  # q(s), by the name that segments use
    step: int = 0  # mini-batch steps made so far; the next one is number t = step + 1

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, blocks=dict)
        require(all(isinstance(block, Block) for block in self.blocks.values()), self, "blocks", "must be blocks")
        check_scales(self, "scales", self.scales)
        require(is_count(self.step), self, "step", "must be a whole number >= 0")

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

    def with_blocks(self, moved: Mapping[str, Block]) -> State:
        """Return the state with some blocks replaced."""
        return replace(self, blocks={**self.blocks, **moved})


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A problem seen from a state."""

    projections: Mapping[str, Projection]  # moments of the projections of each block
    mu: Array  # (P,): posterior means of z
    v: Array  # (P,): posterior variances of z
    sites: Sites  # sites at (mu, v)
    objective: float  # what the step must not lower: the bound, or the log joint (Laplace)
    bound: float  # lower bound on the log evidence, or Laplace's approximation of the latter


def initial_state(problem: Problem, scales: Mapping[str, Scale], *, diagonal: Collection[str] = ()) -> State:
    """Return the prior as a state; the blocks named in `diagonal` are independent variables under q."""
    expected = {name: scale.mean for name, scale in scales.items()}
    blocks = {k: _prior_block(side, expected, diagonal=k in diagonal) for k, side in problem.sides.items()}
    return State(blocks, dict(scales))


def _prior_block(side: LinearTerm | FactorTerm, expected: Mapping[str, float], *, diagonal: bool) -> Block:
    precision = precision_of(side.segments, expected)
    mean = np.zeros_like(precision)
    if diagonal:
        return DiagonalBlock.isotropic(precision, mean)
    if isinstance(side, FactorTerm):
        return StackedBlock.isotropic(precision, mean, side.n_factors)
    return DenseBlock.isotropic(precision, mean)


def evaluate(problem: Problem, state: State) -> Evaluation:
    """Return projections, sites and bound at a state."""
    return problem.evaluate(state)


def _project(problem: Problem, state: State, name: str) -> Projection:
    side, block = problem.sides[name], state.blocks[name]
    if isinstance(side, FactorTerm):
        return side.project(block)
    mean = side.matvec(block.mean)
    # Laplace looks at the mode alone.
    return Projection(mean, side.variance(block) if problem.rule.integrates else np.zeros_like(mean))


def _evaluation(problem: Problem, state: State, projections: Mapping[str, Projection]) -> Evaluation:
    expected = state.expected
    mu, v = moments(problem, projections, expected)
    prior = v
    if problem.rule.name == "linearised":
        shares = [term.prior_variance(expected) for term in problem.terms.values()]
        prior = np.sum(shares + [product.prior_variance(expected) for product in problem.products], axis=0)
    sites = problem.rule(problem.likelihood, problem.y, (mu, v, prior), problem.weight)
    return Evaluation(projections, mu, v, sites, *objectives(problem, state, float(np.sum(sites.value))))


def objectives(problem: Problem, state: State, fit: float) -> tuple[float, float]:
    """Return objective and bound, given the sum of the sites' expected log-likelihoods."""
    if not problem.rule.integrates:
        return _laplace_objective(problem, state, fit)
    bound = fit - divergence(problem, state)
    return bound, bound


def _gradient(block_view: View, evaluation: Evaluation, name: str) -> Array:
    projection, sites = evaluation.projections.get(name), evaluation.sites
    # The parts of a `ShardedProblem` keep projections only where they are costly; linear terms do without.
    projected = np.empty(0) if projection is None else projection.mean
    return block_view.backward(sites.gradient, -sites.weight, projected)


def moments(
    problem: Problem, projections: Mapping[str, Projection], expected: Mapping[str, float]
) -> tuple[Array, Array]:
    """Return means and variances of z, shape (P,)."""
    mean, variance = np.zeros(problem.n_observations), np.zeros(problem.n_observations)
    if problem.offset is not None:
        mean += problem.offset
    for name, term in problem.terms.items():
        mean += projections[name].mean
        variance += projections[name].spread
        if term.residual is not None:
            variance += term.residual / expected[term.residual_scale]
    for product in problem.products:
        first, second = product.names
        share = product.moments(projections[first], projections[second], expected)
        mean += share[0]
        variance += share[1]
    return mean, variance


def view(problem: Problem, evaluation: Evaluation, expected: Mapping[str, float], name: str) -> View:
    """Return how a block enters z while the others are fixed."""
    if name in problem.terms:
        return LinearView(problem.terms[name])
    other = problem.partner[name]
    side, fixed = problem.sides[name], problem.sides[other]
    assert isinstance(side, FactorTerm)  # noqa: S101 - blocks beyond the linear terms are sides of products
    assert isinstance(fixed, FactorTerm)  # noqa: S101
    projection = evaluation.projections[other]
    return FactorView(side, projection.mean, fixed.variance(projection, expected))


def second_moments(problem: Problem, state: State) -> dict[str, tuple[float, float, float]]:
    """Return size, |m|^2 and tr S of the variables under each scale."""
    totals: dict[str, tuple[float, float, float]] = {}
    for name, side in problem.sides.items():
        block, times = state.blocks[name], problem.multiplicity(name)
        start, mean, variance = 0, block.mean, block.covariance_diagonal
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
    """Return the log determinant of the covariance of all variables."""
    return sum(problem.multiplicity(name) * state.blocks[name].log_det_covariance for name in problem.sides)


def _laplace_objective(problem: Problem, state: State, fit: float) -> tuple[float, float]:
    """Return the log joint at the mode, and Laplace's log evidence; q(s) enters through its expectations."""
    joint, volume = fit, _log_volume(problem, state)
    for name, (size, square, _) in second_moments(problem, state).items():
        joint -= 0.5 * state.scales[name].mean * square
        volume += size * state.scales[name].mean_log
    return joint, joint + 0.5 * volume - sum(scale.kl for scale in state.scales.values())
