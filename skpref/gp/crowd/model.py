"""The model of a crowd: its terms and products of factors, where inference starts, how it grows and what it drops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock, DiagonalBlock, StackedBlock
from skpref.inference.scale import GammaScale, Scale
from skpref.inference.sites import LINEARISED, VARIATIONAL
from skpref.inference.terms.entities import EntityTerm
from skpref.inference.terms.pairs import PairTerm
from skpref.inference.terms.products import FactorTerm, ProductTerm

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.data import Comparisons
    from skpref.gp.pairwise.fit import PairConfig, PairModel
    from skpref.inference.blocks import Block
    from skpref.inference.terms.base import LinearTerm, Segment

_START = 0.5  # means of the strongest factor at the start, in prior standard deviations
_START_WIDTH = (
    0.3  # posterior by prior standard deviation at the start: a side as wide as its prior is noise to the other
)
_START_PASSES = 5  # of the consensus alone, before the factors join
_SMALL_SVD = 4_000_000  # numbers of a matrix up to which all its singular vectors are computed
_FADED = 0.01  # root mean square share in z, whose noise is 1, below which a factor is dropped


class Kernels(NamedTuple):
    """Covariance functions; None where there are no features."""

    items: Kernel | None  # of the consensus over the items' features
    factors: Kernel | None  # of the item factors v_d over the items' features
    users: Kernel | None  # of the user factors w_d over the users' features


class Bases(NamedTuple):
    """Kernels with their inducing points; None where there are no features."""

    items: InducingBasis | None  # as in `Kernels`; items and factors share their inducing points
    factors: InducingBasis | None  # as in `Kernels`; items and factors share their inducing points
    users: InducingBasis | None  # as in `Kernels`; items and factors share their inducing points


@dataclass(frozen=True)
class CrowdConfig:
    """What the estimator's parameters ask of a fit."""

    pair: PairConfig  # the consensus, the loop, the likelihood, and how the items' kernel is learnt
    n_factors: int  # d
    consensus: bool  # whether there is a t
    n_inducing_users: int  # inducing points of the users at most
    prior_v: tuple[float, float]  # gamma (shape, rate) of s_d and s_d^w
    prior_w: tuple[float, float]  # gamma (shape, rate) of s_d and s_d^w


@dataclass(frozen=True, eq=False)
class CrowdData:
    """Who compared what."""

    items: Features  # (N, d): features of the seen items and users
    users: Features  # (N, d): features of the seen items and users
    comparisons: Comparisons  # with `user`


@dataclass(frozen=True, eq=False)
class Earlier:
    """Where an earlier fit ended."""

    state: svi.State  # its posterior
    segments: dict[str, tuple[Segment, ...]]  # runs of variables of each of its blocks
    alive: tuple[int, ...]  # numbers of its factors
    item_points: Features  # its inducing points
    user_points: Features  # its inducing points


@dataclass(frozen=True, eq=False)
class CrowdModel:
    """A fit's fixed parts."""

    data: CrowdData  # the comparisons
    config: CrowdConfig  # the parameters
    pair: PairModel  # the consensus, with the items' inducing points
    user_points: Features  # the users' inducing points
    alive: tuple[int, ...]  # numbers of the factors that the model has

    @property
    def factor_scales(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the item factors' and of the user factors' scales."""
        return tuple(f"v{d}" for d in self.alive), tuple(f"w{d}" for d in self.alive)

    @property
    def width(self) -> int:
        """The largest number of inducing points."""
        return max(0 if points is None else points.shape[0] for points in (self.pair.points, self.user_points))

    def scales(self) -> dict[str, Scale]:
        """Return the priors of all scales."""
        scales = {name: scale for name, scale in self.pair.scales().items() if self.config.consensus or name == "order"}
        if self.config.pair.order:
            scales["bias"] = GammaScale.prior(self.config.pair.shape_s0, self.config.pair.rate_s0)
        for names, prior in zip(self.factor_scales, (self.config.prior_v, self.config.prior_w), strict=True):
            scales |= {name: GammaScale.prior(*prior) for name in names}
        return scales

    def bases(self, kernels: Kernels) -> Bases:
        """Factor the covariances of the inducing points."""
        items = self.pair.basis(kernels.items)
        factors = items if kernels.factors is kernels.items else self.pair.basis(kernels.factors)
        users = None if kernels.users is None else InducingBasis.at(kernels.users, self.user_points)
        return Bases(items, factors, users)

    def problem(self, bases: Bases) -> tuple[svi.Problem, frozenset[str]]:
        """Return the problem and the names of its diagonal blocks."""
        c, config = self.data.comparisons, self.config
        assert c.user is not None  # noqa: S101 - a crowd's comparisons name their users
        plain = self.pair.term(bases.items, offsets=False)
        terms, diagonal = self._consensus(bases.items, plain)
        local = set()
        if config.pair.order:
            local.add("bias")
            terms, diagonal = terms | {"bias": EntityTerm(None, c.user, c.n_users, "bias")}, diagonal | {"bias"}
        products: tuple[ProductTerm, ...] = ()
        if self.alive:
            rows = plain if bases.factors is bases.items else self.pair.term(bases.factors, offsets=False)
            rows = replace(rows, offsets=bases.factors is None, order=False)
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

    def _consensus(self, basis: InducingBasis | None, plain: PairTerm) -> tuple[dict[str, LinearTerm], frozenset[str]]:
        if self.config.consensus:
            problem, diagonal = self.pair.problem(basis, plain)
            return dict(problem.terms), diagonal
        if self.config.pair.order:
            return {"f": PairTerm(None, plain.left, plain.right, plain.n_items, order=True)}, frozenset()
        return {}, frozenset()

    def _product(self, rows: PairTerm, basis: InducingBasis | None) -> ProductTerm:
        c = self.data.comparisons
        assert c.user is not None  # noqa: S101
        phi = open_variance = None
        if basis is not None:
            phi = basis.rows(self.data.users)
            open_variance = basis.residual(self.data.users, phi)
        people = EntityTerm(phi, c.user, c.n_users, "w", open_variance)
        names_v, names_w = self.factor_scales
        return ProductTerm(FactorTerm(rows, names_v), FactorTerm(people, names_w))


def faded(problem: svi.Problem, state: svi.State) -> list[int]:
    """Return the factors that move no answer."""
    if not problem.products:
        return []
    sides = problem.products[0].sides
    v, w = (side.rows.matvec(side.stacked(state.blocks[name].mean)) for name, side in sides.items())
    share = np.sqrt(np.mean((v * w) ** 2, axis=1))
    return [int(d) for d in np.flatnonzero(share < _FADED)]


def without(problem: svi.Problem, state: svi.State, dead: list[int]) -> svi.State:
    """Return the posterior of the other factors."""
    product = problem.products[0]
    kept = np.setdiff1d(np.arange(product.first.n_factors), dead)
    dropped = {side.scales[d] for side in product.sides.values() for d in dead}
    blocks = {name: state.blocks[name] for name in problem.terms}
    if kept.size:
        blocks |= {name: _some_factors(side, state.blocks[name], kept) for name, side in product.sides.items()}
    scales = {name: scale for name, scale in state.scales.items() if name not in dropped}
    return replace(state, blocks=blocks, scales=scales)


def _some_factors(side: FactorTerm, block: Block, kept: Array) -> StackedBlock | DiagonalBlock:
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
    """Return the prior, but for a consensus that has seen the data and small factors that the data ask for."""
    prior = svi.initial_state(problem, model.scales(), diagonal=diagonal)
    linear = replace(problem, products=(), local=frozenset())
    names = {s.scale for term in problem.terms.values() for s in term.segments}
    blocks = {name: prior.blocks[name] for name in problem.terms}
    alone = svi.State(blocks, {name: scale for name, scale in prior.scales.items() if name in names})
    if problem.terms:
        few = replace(schedule, max_iter=_START_PASSES if schedule.batch_size is None else 1, on_iteration=None)
        alone = svi.fit(linear, alone, few, rng).state
    return with_factors(problem, alone, prior, _gradients(linear, alone), rng) if problem.products else alone


def with_factors(
    problem: svi.Problem, state: svi.State, prior: svi.State, gradient: Array, rng: np.random.Generator
) -> svi.State:
    """Return a posterior with more factors, those that the data ask for next.

    At zero means factors are at a saddle of the bound, whose steepest way out is told by the leading singular vectors
    of the matrix of the likelihood's gradients, user by item.
    """
    product = problem.products[0]
    names = [(v, w) for v, w in zip(product.first.scales, product.second.scales, strict=True)]
    new = np.array([d for d, pair in enumerate(names) if pair[0] not in state.scales])
    means = _leading(product, gradient, new.size, rng)
    narrow, blocks = np.full(new.size, _START_WIDTH), dict(state.blocks)
    for (name, side), mean in zip(product.sides.items(), means, strict=True):
        fresh = _some_factors(side, prior.blocks[name], new).stretched(narrow).with_mean(_START * mean.reshape(-1))
        blocks[name] = _joined(state.blocks[name], fresh) if name in state.blocks else fresh
    # They begin with unit scales, not at the priors' means: those would put them out before the data speak.
    unit = {name: prior.scales[name].moved(-prior.log_mean(name)) for d in new for name in names[d]}
    return replace(state, blocks=blocks, scales={**state.scales, **unit})


def _joined(old: Block, new: Block) -> Block:
    if isinstance(old, StackedBlock) and isinstance(new, StackedBlock):
        return StackedBlock(old.parts + new.parts)
    assert isinstance(old, DiagonalBlock)  # noqa: S101 - sides of products are stacked or diagonal, old and new alike
    assert isinstance(new, DiagonalBlock)  # noqa: S101
    return DiagonalBlock(*(np.concatenate([getattr(x, k) for x in (old, new)]) for k in ("precision", "linear")))


def grown_state(earlier: Earlier, problem: svi.Problem, prior: svi.State) -> svi.State:
    """Return an earlier posterior, with the prior for entities that are new."""
    blocks = {
        name: _grown_block(earlier.state.blocks[name], earlier.segments[name], side.segments, prior.blocks[name])
        if name in earlier.state.blocks
        else prior.blocks[name]
        for name, side in problem.sides.items()
    }
    scales = {
        name: scale.moved(earlier.state.log_mean(name) - prior.log_mean(name)) for name, scale in prior.scales.items()
    }
    return svi.State(blocks, scales)


def _grown_block(old: Block, before: tuple[Segment, ...], now: tuple[Segment, ...], prior: Block) -> Block:
    if type(old) is not type(prior) or [s.scale for s in before] != [s.scale for s in now]:
        # Features and offsets parted company, being too many for one dense block: that block begins anew.
        return prior
    if before == now:
        return old
    starts = np.cumsum([0] + [segment.size for segment in now[:-1]])
    place = np.concatenate([start + np.arange(s.size) for start, s in zip(starts, before, strict=True)])
    mean = prior.mean.copy()
    mean[place] = old.mean
    if isinstance(old, DiagonalBlock) and isinstance(prior, DiagonalBlock):
        precision = prior.precision.copy()
        precision[place] = old.precision
        return DiagonalBlock.isotropic(precision, mean)
    assert isinstance(old, DenseBlock)  # noqa: S101 - stacked blocks have inducing points, which stay
    assert isinstance(prior, DenseBlock)  # noqa: S101
    precision = prior.precision.copy()
    precision[np.ix_(place, place)] = old.precision
    return DenseBlock(precision, np.zeros_like(mean)).with_mean(mean)


def _gradients(linear: svi.Problem, state: svi.State) -> Array:
    """Derivative of the fit in the mean of every observation's z."""
    if linear.terms:
        return svi.evaluate(linear, state).sites.gradient
    zero = np.zeros(linear.n_observations)
    return linear.rule(linear.likelihood, linear.y, (zero, zero, zero), linear.weight).gradient


def _leading(product: ProductTerm, gradient: Array, n_factors: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Leading singular vectors of the gradient in (v, w), rows scaled to unit mean square times their strength."""
    items, users = product.first, product.second
    rows, people = items.rows, users.rows
    assert isinstance(rows, PairTerm)  # noqa: S101 - the sides that `CrowdModel` builds
    assert isinstance(people, EntityTerm)  # noqa: S101
    index = np.concatenate([people.index, people.index]), np.concatenate([rows.left, rows.right])
    shape = people.n_entities, rows.n_items
    pull = sparse.coo_array((np.concatenate([gradient, -gradient]), index), shape=shape).tocsr()
    left, values, right = _singular(pull, people.basis, rows.basis, n_factors, rng)
    strength = np.sqrt(values / values[0]) if values.size and values[0] > 0.0 else np.zeros(values.size)
    start = []
    for vectors, size in ((right, items.size), (left.T, users.size)):
        means = 0.01 * rng.standard_normal((n_factors, size))
        means[: len(strength)] += strength[:, None] * vectors * np.sqrt(size)
        start.append(means)
    return start[0], start[1]


def _singular(
    pull: Any, user_basis: Array | None, item_basis: Array | None, n_factors: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Singular values and vectors of user_basis^T pull item_basis, the largest first, at most `n_factors`."""
    matrix = pull if item_basis is None else pull @ item_basis
    matrix = matrix if user_basis is None else user_basis.T @ matrix
    if matrix.shape[0] * matrix.shape[1] <= _SMALL_SVD:
        u, values, vt = np.linalg.svd(matrix.toarray() if sparse.issparse(matrix) else matrix, full_matrices=False)
        return u[:, :n_factors], values[:n_factors], vt[:n_factors]
    # Arpack, started anywhere, may not end where singular values lie close together (users with an answer each).
    seed = int(rng.integers(2**31))
    u, values, vt = randomized_svd(matrix, min(n_factors, *matrix.shape), n_iter=4, random_state=seed)
    return np.asarray(u), np.asarray(values), np.asarray(vt)
