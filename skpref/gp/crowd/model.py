"""The model of a crowd: its terms, the start of inference, and how factors and entities are added and dropped."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from skpref.gp.crowd.policy import POLICY
from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock, DiagonalBlock, StackedBlock
from skpref.inference.scale import GammaScale, Scale, moved_scale
from skpref.inference.sites import LINEARISED, VARIATIONAL
from skpref.inference.terms.entities import EntityTerm
from skpref.inference.terms.pairs import PairTerm
from skpref.inference.terms.products import FactorTerm, ProductTerm

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.data import Comparisons
    from skpref.gp.crowd.shards import ShardedAnswers
    from skpref.gp.crowd.timeline import Timeline
    from skpref.gp.pairwise.fit import PairConfig, PairModel
    from skpref.inference.blocks import Block
    from skpref.inference.terms.base import LinearTerm, Segment

_EFFECTS = "order", "covariate"  # scales of effects that belong to neither items nor users


class Kernels(NamedTuple):
    """Covariance functions; None where there are no features."""

    items: Kernel | None  # of the consensus over the items' features
    factors: Kernel | None  # of the item factors v_d over the items' features
    users: Kernel | None  # of the user factors w_d over the users' features


class Bases(NamedTuple):
    """Kernels with their inducing points; None where there are no features."""

    items: InducingBasis | None
    factors: InducingBasis | None  # at the inducing points of `items`
    users: InducingBasis | None


@dataclass(frozen=True)
class CrowdConfig:
    """The parameters of `CrowdGPPL` that a fit needs."""

    pair: PairConfig  # consensus, inference, likelihood, kernel of the items
    n_factors: int  # largest number of factors
    consensus: bool  # whether there is a t
    prior_v: tuple[float, float]  # Gamma (shape, rate) of s_d
    prior_w: tuple[float, float]  # Gamma (shape, rate) of s_d^w
    own_thresholds: bool = False  # whether each user has a threshold of ties
    choose_priors: bool = False  # whether held-out comparisons may ask for broader ones of both
    part_worths: bool = False  # whether utilities are linear in the features of the items
    n_own: int = 0  # features of these that are effects of single items, the last ones
    widths: tuple[int, ...] = ()  # numbers of each kind of context

    def broadened(self, of_items: float, of_users: float) -> CrowdConfig:
        """Return the config with the rates of the factors' priors times a number for items and one for users."""
        (shape_v, rate_v), (shape_w, rate_w) = self.prior_v, self.prior_w
        return replace(self, prior_v=(shape_v, of_items * rate_v), prior_w=(shape_w, of_users * rate_w))


@dataclass(frozen=True, eq=False)
class CrowdData:
    """Features of the seen entities, and the comparisons."""

    items: Features  # (N, d); None without features
    users: Features  # (U, d'); None without features
    comparisons: Comparisons  # with `user`; none of them where they are in shards
    shards: ShardedAnswers | None = None  # the comparisons, where they are in shards
    timeline: Timeline | None = None  # where comparisons have times


@dataclass(frozen=True, eq=False)
class CrowdModel:
    """The parts of a model that inference does not change."""

    data: CrowdData
    config: CrowdConfig
    pair: PairModel  # the consensus, with the inducing points of the items
    user_points: Features  # inducing points of the users
    alive: tuple[int, ...]  # numbers of the factors in the model

    @property
    def factor_scales(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the scales of the item factors and of the user factors."""
        return tuple(f"v{d}" for d in self.alive), tuple(f"w{d}" for d in self.alive)

    @property
    def width(self) -> int:
        """Largest number of inducing points."""
        return max(0 if points is None else points.shape[0] for points in (self.pair.points, self.user_points))

    def scales(self) -> dict[str, Scale]:
        """Return the prior of each inverse variance, by name."""
        scales = {
            name: scale for name, scale in self.pair.scales().items() if self.config.consensus or name in _EFFECTS
        }
        if self.config.pair.order:
            scales["bias"] = self.config.pair.prior_of_scale()
        for names, prior in zip(self.factor_scales, (self.config.prior_v, self.config.prior_w), strict=True):
            scales |= {name: GammaScale.prior(*prior) for name in names}
        return scales

    def bases(self, kernels: Kernels) -> Bases:
        """Return the bases of the inducing points with kernels."""
        items = self.pair.basis(kernels.items)
        factors = items if kernels.factors is kernels.items else self.pair.basis(kernels.factors)
        users = None if kernels.users is None else InducingBasis.from_points(kernels.users, self.user_points)
        return Bases(items, factors, users)

    def problem(self, bases: Bases) -> tuple[svi.Problem, frozenset[str]]:
        """Return the problem and the names of its diagonal blocks."""
        c, config = self.data.comparisons, self.config
        features = self.pair.term(bases.items, offsets=False)
        terms, diagonal = self._consensus(bases.items, features)
        local = set()
        if config.pair.order:
            local.add("bias")
            terms, diagonal = terms | {"bias": EntityTerm(None, c.user, c.n_users, "bias")}, diagonal | {"bias"}
        products: tuple[ProductTerm, ...] = ()
        if self.alive:
            rows = features if bases.factors is bases.items else self.pair.term(bases.factors, offsets=False)
            rows = replace(rows, offsets=bases.factors is None, order=False, covariates=None)
            products = (self._product(rows, bases.users),)
            diagonal |= {name for name, basis in (("items", bases.factors), ("users", bases.users)) if basis is None}
            local |= {"users"} & diagonal
        problem = svi.Problem(
            terms,
            config.pair.likelihood,
            c.y,
            c.weight,
            LINEARISED if config.pair.inference == "linearised" else VARIATIONAL,
            products,
            frozenset(local),
            c.user,
            n_clusters=c.n_users,
        )
        return problem, diagonal

    def _consensus(
        self, basis: InducingBasis | None, features: PairTerm
    ) -> tuple[dict[str, LinearTerm], frozenset[str]]:
        if self.config.consensus:
            problem, diagonal = self.pair.problem(basis, features)
            return dict(problem.terms), diagonal
        if features.extra is not None:
            return {"f": replace(features, basis=None, residual=None)}, frozenset()
        return {}, frozenset()

    def _product(self, rows: PairTerm, basis: InducingBasis | None) -> ProductTerm:
        c = self.data.comparisons
        phi = residual = None
        if basis is not None:
            phi = basis.rows(self.data.users)
            residual = basis.residual(self.data.users, phi)
        users = EntityTerm(phi, c.user, c.n_users, "w", residual)
        names_v, names_w = self.factor_scales
        return ProductTerm(FactorTerm(rows, names_v), FactorTerm(users, names_w))


def negligible_factors(problem: svi.Problem, state: svi.State) -> list[int]:
    """Return the positions of the factors without effect on the answers."""
    if not problem.products:
        return []
    sides = problem.products[0].sides
    v, w = (side.rows.matvec(side.stacked(state.blocks[name].mean)) for name, side in sides.items())
    effect = np.sqrt(np.mean((v * w) ** 2, axis=1))
    return [int(d) for d in np.flatnonzero(effect < POLICY.negligible)]


def drop_factors(problem: svi.Problem, state: svi.State, dropped: list[int]) -> svi.State:
    """Return the state without some of its factors."""
    product = problem.products[0]
    kept = np.setdiff1d(np.arange(product.first.n_factors), dropped)
    dropped_scales = {side.scales[d] for side in product.sides.values() for d in dropped}
    blocks = {name: state.blocks[name] for name in problem.terms}
    if kept.size:
        blocks |= {name: _select_factors(side, state.blocks[name], kept) for name, side in product.sides.items()}
    scales = {name: scale for name, scale in state.scales.items() if name not in dropped_scales}
    return replace(state, blocks=blocks, scales=scales)


def _select_factors(side: FactorTerm, block: Block, kept: Array) -> StackedBlock | DiagonalBlock:
    if isinstance(block, StackedBlock):
        return StackedBlock(tuple(block.parts[d] for d in kept))
    assert isinstance(block, DiagonalBlock)  # noqa: S101 - sides of products are stacked or diagonal
    return DiagonalBlock(*(side.stacked(x)[kept].reshape(-1) for x in (block.precision, block.linear)))


def start_state(
    model: CrowdModel,
    problem: svi.Problem,
    diagonal: frozenset[str],
    schedule: svi.Schedule,
    rng: np.random.Generator,
) -> svi.State:
    """Return a few passes of the consensus alone, plus factors along the gradient of the likelihood."""
    prior = svi.initial_state(problem, model.scales(), diagonal=diagonal)
    linear = replace(problem, products=(), local=frozenset())
    names = {s.scale for term in problem.terms.values() for s in term.segments}
    blocks = {name: prior.blocks[name] for name in problem.terms}
    state = svi.State(blocks, {name: scale for name, scale in prior.scales.items() if name in names})
    if problem.terms:
        short = replace(schedule, max_iter=POLICY.start_passes if schedule.batch_size is None else 1, on_iteration=None)
        state = svi.fit(linear, state, short, rng).state
    return add_factors(problem, state, prior, _fit_gradient(linear, state), rng) if problem.products else state


def add_factors(
    problem: svi.Problem, state: svi.State, prior: svi.State, gradient: Array, rng: np.random.Generator
) -> svi.State:
    """Return the state with the factors that it lacks.

    Factors with zero means are a saddle point of the bound. The direction of steepest ascent is given by the leading
    singular vectors of the gradients of the likelihood, arranged as a matrix of users by items.
    """
    product = problem.products[0]
    names = [(v, w) for v, w in zip(product.first.scales, product.second.scales, strict=True)]
    new = np.array([d for d, pair in enumerate(names) if pair[0] not in state.scales])
    means = _leading_factors(product, gradient, new.size, rng)
    width, blocks = np.full(new.size, POLICY.start_width), dict(state.blocks)
    for (name, side), mean in zip(product.sides.items(), means, strict=True):
        block = _select_factors(side, prior.blocks[name], new).stretched(width)
        block = block.with_mean(POLICY.start_mean * mean.reshape(-1))
        blocks[name] = _concatenate(state.blocks[name], block) if name in state.blocks else block
    # Their scales start at 1. With the means of the priors they would be dropped before they fit the data.
    unit = {name: moved_scale(prior.scales[name], -prior.log_mean(name)) for d in new for name in names[d]}
    return replace(state, blocks=blocks, scales={**state.scales, **unit})


def _concatenate(old: Block, new: Block) -> Block:
    if isinstance(old, StackedBlock) and isinstance(new, StackedBlock):
        return StackedBlock(old.parts + new.parts)
    assert isinstance(old, DiagonalBlock)  # noqa: S101 - sides of products are stacked or diagonal, old and new alike
    assert isinstance(new, DiagonalBlock)  # noqa: S101
    return DiagonalBlock(*(np.concatenate([getattr(x, k) for x in (old, new)]) for k in ("precision", "linear")))


def extend_state(
    start: svi.State, segments: dict[str, tuple[Segment, ...]], problem: svi.Problem, prior: svi.State
) -> svi.State:
    """Return an earlier state for a problem with more entities, which have their prior."""
    blocks = {
        name: _extend_block(start.blocks[name], segments[name], side.segments, prior.blocks[name])
        if name in start.blocks
        else prior.blocks[name]
        for name, side in problem.sides.items()
    }
    scales = {
        name: moved_scale(scale, start.log_mean(name) - prior.log_mean(name)) for name, scale in prior.scales.items()
    }
    return svi.State(blocks, scales)


def _extend_block(block: Block, old: tuple[Segment, ...], new: tuple[Segment, ...], prior: Block) -> Block:
    """Return a block for longer segments of variables; the additional variables have their prior."""
    if type(block) is not type(prior) or [s.scale for s in old] != [s.scale for s in new]:
        # Features and offsets no longer fit into one dense block: this block restarts.
        return prior
    if old == new:
        return block
    starts = np.cumsum([0] + [segment.size for segment in new[:-1]])
    index = np.concatenate([start + np.arange(s.size) for start, s in zip(starts, old, strict=True)])
    mean = prior.mean.copy()
    mean[index] = block.mean
    if isinstance(block, DiagonalBlock) and isinstance(prior, DiagonalBlock):
        precision = prior.precision.copy()
        precision[index] = block.precision
        return DiagonalBlock.isotropic(precision, mean)
    assert isinstance(block, DenseBlock)  # noqa: S101 - stacked blocks have inducing points, which do not change
    assert isinstance(prior, DenseBlock)  # noqa: S101
    precision = prior.precision.copy()
    precision[np.ix_(index, index)] = block.precision
    return DenseBlock(precision, np.zeros_like(mean)).with_mean(mean)


def _fit_gradient(linear: svi.Problem, state: svi.State) -> Array:
    """Return the derivative of the expected log-likelihood in the mean of each projection z, shape (P,)."""
    if linear.terms:
        return svi.evaluate(linear, state).sites.gradient
    zero = np.zeros(linear.n_observations)
    return linear.rule(linear.likelihood, linear.y, (zero, zero, zero), linear.weight).gradient


def _leading_factors(
    product: ProductTerm, gradient: Array, n_factors: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return leading singular vectors of the gradient in (v, w), each row scaled by its relative strength."""
    items, users = product.first, product.second
    pairs, user = items.rows, users.rows
    assert isinstance(pairs, PairTerm)  # noqa: S101 - type narrowing: `CrowdModel` builds no other sides
    assert isinstance(user, EntityTerm)  # noqa: S101
    index = np.concatenate([user.index, user.index]), np.concatenate([pairs.left, pairs.right])
    shape = user.n_entities, pairs.n_items
    by_user_and_item = sparse.coo_array((np.concatenate([gradient, -gradient]), index), shape=shape).tocsr()
    left, values, right = _singular_vectors(by_user_and_item, user.basis, pairs.basis, n_factors, rng)
    strength = np.sqrt(values / values[0]) if values.size and values[0] > 0.0 else np.zeros(values.size)
    start = []
    for vectors, size in ((right, items.size), (left.T, users.size)):
        means = 0.01 * rng.standard_normal((n_factors, size))
        means[: len(strength)] += strength[:, None] * vectors * np.sqrt(size)
        start.append(means)
    return start[0], start[1]


def _singular_vectors(
    matrix: Any, user_basis: Array | None, item_basis: Array | None, n_factors: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Return singular vectors and values of user_basis^T matrix item_basis, the largest first, at most `n_factors`."""
    matrix = matrix if item_basis is None else matrix @ item_basis
    matrix = matrix if user_basis is None else user_basis.T @ matrix
    if matrix.shape[0] * matrix.shape[1] <= POLICY.small_svd:
        u, values, vt = np.linalg.svd(matrix.toarray() if sparse.issparse(matrix) else matrix, full_matrices=False)
        return u[:, :n_factors], values[:n_factors], vt[:n_factors]
    # Not Arpack: it may not converge where singular values are close together (users with one answer each).
    seed = int(rng.integers(2**31))
    u, values, vt = randomized_svd(matrix, min(n_factors, *matrix.shape), n_iter=4, random_state=seed)
    return np.asarray(u), np.asarray(values), np.asarray(vt)
