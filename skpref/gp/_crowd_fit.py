"""From comparisons by many users to a `CrowdPosterior`: terms, products of factors, their start, the loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, svds

from skpref import inducing, kernels
from skpref._math.threads import calm_blas
from skpref.gp._crowd_posterior import CrowdPosterior, FactorPosterior
from skpref.gp._pair_fit import PairData, choose_kernel, pair_model, pair_posterior, start_kernel
from skpref.inference import hyper, svi
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock, DiagonalBlock, StackedBlock
from skpref.inference.entities import EntityTerm
from skpref.inference.factors import FactorTerm, FactorView, ProductTerm
from skpref.inference.problem import view
from skpref.inference.scale import GammaScale, Scale
from skpref.inference.sites import LINEARISED, VARIATIONAL
from skpref.inference.terms import PairTerm

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.data import Comparisons
    from skpref.gp._pair_fit import PairConfig, PairModel
    from skpref.inference.blocks import Block
    from skpref.inference.terms import LinearTerm, Segment
    from skpref.likelihoods import Likelihood

_FULL_NUMBERS = 2**26  # numbers P D of one projection of the factors up to which "auto" takes full passes: 0.5 GB
_FULL_WORK = 2e9  # numbers P M D that a full pass reads: seconds
_START = 0.5  # means of the strongest factor at the start, in prior standard deviations
_START_PASSES = 5  # of the consensus alone, before the factors join
_SMALL_SVD = 4_000_000  # numbers of a matrix up to which all its singular vectors are computed


@dataclass(frozen=True)
class CrowdConfig:
    """What the estimator's parameters ask of a fit.

    Parameters
    ----------
    pair : PairConfig
        The consensus, the loop, the likelihood, and how the items' kernel is learnt.
    n_factors : int
        D.
    consensus : bool
        Whether there is a t.
    n_inducing_users : int
        Inducing points of the users at most.
    prior_v, prior_w : tuple of two floats
        Gamma (shape, rate) of s_d and s_d^w.
    """

    pair: PairConfig
    n_factors: int
    consensus: bool
    n_inducing_users: int
    prior_v: tuple[float, float]
    prior_w: tuple[float, float]


@dataclass(frozen=True, eq=False)
class CrowdData:
    """Who compared what.

    Parameters
    ----------
    items, users : {ndarray, CSR} of shape (N, d) and (U, d') or None
        Features of the seen items and users.
    comparisons : Comparisons
        With `user`.
    """

    items: Features
    users: Features
    comparisons: Comparisons


@dataclass(frozen=True, eq=False)
class Side:
    """One side's features, inducing points and kernel.

    Parameters
    ----------
    features : {ndarray, CSR} or None
        Feature rows of the seen entities.
    basis : InducingBasis or None
        Kernel and inducing points; None without features.
    """

    features: Features
    basis: InducingBasis | None


@dataclass(frozen=True, eq=False)
class CrowdFit:
    """Result of `fit_crowd`.

    Parameters
    ----------
    posterior : CrowdPosterior
        What predictions need.
    state : State
        What going on needs.
    segments : tuple of tuple of Segment
        Runs of variables of each block of the state, by which it can grow.
    likelihood : Likelihood
        The likelihood with its own parameters learnt.
    items, users : Side
        Kernels with their final hyper-parameters.
    bounds : list of float
        Objective after each pass.
    bound : float
        Lower bound (an estimate, for mini-batches).
    converged : bool
        Whether the tolerance was met.
    """

    posterior: CrowdPosterior
    state: svi.State
    segments: tuple[tuple[Segment, ...], ...]
    likelihood: Likelihood
    items: Side
    users: Side
    bounds: list[float]
    bound: float
    converged: bool


@dataclass(frozen=True, eq=False)
class Earlier:
    """Where an earlier fit ended.

    Parameters
    ----------
    state : State
        Its posterior.
    segments : tuple of tuple of Segment
        Runs of variables of each of its blocks.
    item_points, user_points : {ndarray, CSR} or None
        Its inducing points.
    """

    state: svi.State
    segments: tuple[tuple[Segment, ...], ...]
    item_points: Features
    user_points: Features


@dataclass(frozen=True, eq=False)
class CrowdModel:
    """A fit's fixed parts.

    Parameters
    ----------
    data : CrowdData
        The comparisons.
    config : CrowdConfig
        The parameters.
    pair : PairModel
        The consensus, with the items' inducing points.
    user_points : {ndarray, CSR} or None
        The users' inducing points.
    """

    data: CrowdData
    config: CrowdConfig
    pair: PairModel
    user_points: Features

    @property
    def factor_scales(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the item factors' and of the user factors' scales."""
        numbers = range(self.config.n_factors)
        return tuple(f"v{d}" for d in numbers), tuple(f"w{d}" for d in numbers)

    def scales(self) -> dict[str, Scale]:
        """Return the priors of all scales.

        Returns
        -------
        dict of str to Scale
            By name.
        """
        scales = {name: scale for name, scale in self.pair.scales().items() if self.config.consensus or name == "order"}
        if self.config.pair.order:
            scales["bias"] = GammaScale.prior(self.config.pair.shape_s0, self.config.pair.rate_s0)
        for names, prior in zip(self.factor_scales, (self.config.prior_v, self.config.prior_w), strict=True):
            scales |= {name: GammaScale.prior(*prior) for name in names}
        return scales

    def user_basis(self, kernel: Kernel | None) -> InducingBasis | None:
        """Return the users' basis.

        Parameters
        ----------
        kernel : Kernel or None
            The users' kernel.

        Returns
        -------
        InducingBasis or None
            None without features.
        """
        return None if kernel is None else InducingBasis.at(kernel, self.user_points)

    def _consensus(self, basis: InducingBasis | None) -> tuple[tuple[LinearTerm, ...], tuple[bool, ...]]:
        c = self.data.comparisons
        if self.config.consensus:
            problem, diagonal = self.pair.problem(basis)
            return problem.terms, diagonal
        if self.config.pair.order:
            return (PairTerm(None, c.left, c.right, c.n_items, order=True),), (False,)
        return (), ()

    def problem(
        self, basis: InducingBasis | None, user_basis: InducingBasis | None
    ) -> tuple[svi.Problem, tuple[bool, ...]]:
        """Put the terms together.

        Parameters
        ----------
        basis, user_basis : InducingBasis or None
            Of items and users.

        Returns
        -------
        problem : Problem
            Consensus, biases, product of factors.
        diagonal : tuple of bool
            Which blocks are diagonal.
        """
        c, config = self.data.comparisons, self.config
        assert c.user is not None  # noqa: S101 - a crowd's comparisons name their users
        terms, diagonal = self._consensus(basis)
        local = set()
        if config.pair.order:
            local.add(len(terms))
            terms, diagonal = (*terms, EntityTerm(None, c.user, c.n_users, "bias")), (*diagonal, True)
        products: tuple[ProductTerm, ...] = ()
        if config.n_factors:
            products = (self._product(basis, user_basis),)
            diagonal = (*diagonal, basis is None, user_basis is None)
            local |= set() if user_basis is not None else {len(terms) + 1}
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

    def _product(self, basis: InducingBasis | None, user_basis: InducingBasis | None) -> ProductTerm:
        c = self.data.comparisons
        assert c.user is not None  # noqa: S101
        rows = replace(self.pair.term(basis, offsets=basis is None), order=False)
        phi = open_variance = None
        if user_basis is not None:
            phi = user_basis.rows(self.data.users)
            open_variance = user_basis.residual(self.data.users, phi)
        people = EntityTerm(phi, c.user, c.n_users, "w", open_variance)
        names_v, names_w = self.factor_scales
        return ProductTerm(FactorTerm(rows, names_v), FactorTerm(people, names_w))


def fit_crowd(
    data: CrowdData,
    kernels_given: tuple[Kernel | None, Kernel | None],
    config: CrowdConfig,
    rng: np.random.Generator,
    earlier: Earlier | None = None,
) -> CrowdFit:
    """Fit the model.

    Parameters
    ----------
    data : CrowdData
        Seen items and users, and merged comparisons.
    kernels_given : tuple of two Kernel or None
        Of the items and of the users; None for the default (product Matern 3/2 at the median heuristic), or without
        features.
    config : CrowdConfig
        Parameters.
    rng : numpy.random.Generator
        Inducing points, start, mini-batches.
    earlier : Earlier, default=None
        Posterior to go on from. The kernels are then taken as they are.

    Returns
    -------
    CrowdFit
        Posterior and trace.
    """
    points = (None, None) if earlier is None else (earlier.item_points, earlier.user_points)
    model, kernel, user_kernel = _prepare(data, kernels_given, config, rng, points)
    if earlier is None:
        with calm_blas(_width(model)):
            kernel, user_kernel = _learn_kernels(model, kernel, user_kernel, rng)
    items = Side(data.items, model.pair.basis(kernel))
    users = Side(data.users, model.user_basis(user_kernel))
    problem, diagonal = model.problem(items.basis, users.basis)
    schedule = _schedule(model, problem)
    with calm_blas(max(_width(model), model.pair.dense_size(items.basis) if config.consensus else 0)):
        if earlier is None:
            start = _start(model, problem, diagonal, schedule, rng)
        else:
            prior = svi.initial_state(problem, model.scales(), diagonal=diagonal)
            start = _grown(earlier, problem, prior)
        result = svi.fit(problem, start, schedule, rng)
    bound = result.evaluation.bound if result.evaluation is not None else result.bounds[-1]
    posterior = _posterior(model, problem, result.state, items, users)
    segments = tuple(side.segments for side in problem.sides)
    trace = result.bounds, bound, result.converged
    return CrowdFit(posterior, result.state, segments, result.likelihood, items, users, *trace)


def _prepare(
    data: CrowdData,
    given: tuple[Kernel | None, Kernel | None],
    config: CrowdConfig,
    rng: np.random.Generator,
    points: tuple[Features, Features],
) -> tuple[CrowdModel, Kernel | None, Kernel | None]:
    """Inducing points of both sides, and the kernels from which the search starts."""
    pair_data = PairData(data.items, data.comparisons)
    kernel = None if data.items is None else start_kernel(data.items, given[0], config.pair, rng)
    pair = pair_model(pair_data, kernel, config.pair, rng, points[0])
    user_kernel, user_points = None, points[1]
    if data.users is not None:
        user_kernel = start_kernel(data.users, given[1], replace(config.pair, length_scale_factor="auto"), rng)
        if user_points is None:
            scale = getattr(user_kernel, "length_scale", None)
            user_points = inducing.choose(
                data.users, config.n_inducing_users, "kmeans++", rng, scale, kernel=user_kernel
            )
    return CrowdModel(data, config, pair, user_points), kernel, user_kernel


def _width(model: CrowdModel) -> int:
    return max(0 if points is None else points.shape[0] for points in (model.pair.points, model.user_points))


def _schedule(model: CrowdModel, problem: svi.Problem) -> svi.Schedule:
    config = model.config
    numbers = problem.n_observations * max(config.n_factors, 1)
    full = numbers <= _FULL_NUMBERS and numbers * _width(model) <= _FULL_WORK
    if config.pair.inference == "svi" or (config.pair.inference == "auto" and not full):
        return config.pair.schedule
    return replace(config.pair.schedule, batch_size=None)


def _start(
    model: CrowdModel,
    problem: svi.Problem,
    diagonal: tuple[bool, ...],
    schedule: svi.Schedule,
    rng: np.random.Generator,
) -> svi.State:
    """The prior, but for a consensus that has seen the data and small factors that the data ask for.

    At zero means the factors are at a saddle of the bound, whose steepest way out is told by the leading singular
    vectors of the matrix of the likelihood's gradients, user by item.
    """
    state = svi.initial_state(problem, model.scales(), diagonal=diagonal)
    n = len(problem.terms)
    linear = replace(problem, products=(), local=frozenset())
    alone = svi.State(state.blocks[:n], {s.scale: state.scales[s.scale] for t in problem.terms for s in t.segments})
    if n:
        few = replace(schedule, max_iter=_START_PASSES if schedule.batch_size is None else 1, on_iteration=None)
        alone = svi.fit(linear, alone, few, rng).state
    if not problem.products:
        return replace(state, blocks=alone.blocks, scales={**state.scales, **alone.scales})
    v, w = _leading(problem.products[0], _gradients(linear, alone), rng)
    blocks = [block.with_mean(_START * m.reshape(-1)) for block, m in zip(state.blocks[n:], (v, w), strict=True)]
    # The factors begin with unit scales, not at the priors' means: those would put them out before the data speak.
    unit = {name: state.scales[name].moved(-state.log_mean(name)) for names in model.factor_scales for name in names}
    return svi.State((*alone.blocks, *blocks), {**state.scales, **alone.scales, **unit})


def _grown(earlier: Earlier, problem: svi.Problem, prior: svi.State) -> svi.State:
    """An earlier posterior, with the prior for entities that are new: they stand at the end of their segments."""
    blocks = [
        _grown_block(old, segments, side.segments, block)
        for old, segments, side, block in zip(
            earlier.state.blocks, earlier.segments, problem.sides, prior.blocks, strict=True
        )
    ]
    scales = {
        name: scale.moved(earlier.state.log_mean(name) - prior.log_mean(name)) for name, scale in prior.scales.items()
    }
    return svi.State(tuple(blocks), scales)


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


def _leading(product: ProductTerm, gradient: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Leading singular vectors of the gradient in (v, w), rows scaled to unit mean square times their strength."""
    items, users, n_factors = product.first, product.second, product.first.n_factors
    rows, people = items.rows, users.rows
    assert isinstance(rows, PairTerm)  # noqa: S101 - the sides that `CrowdModel` builds
    assert isinstance(people, EntityTerm)  # noqa: S101
    index = np.concatenate([people.index, people.index]), np.concatenate([rows.left, rows.right])
    shape = people.n_entities, rows.n_items
    pull = sparse.coo_array((np.concatenate([gradient, -gradient]), index), shape=shape).tocsr()
    left, values, right = _singular(pull, people.basis, rows.basis, n_factors)
    strength = np.sqrt(values / values[0]) if values.size and values[0] > 0.0 else np.zeros(values.size)
    start = []
    for vectors, size in ((right, items.size), (left.T, users.size)):
        means = 0.01 * rng.standard_normal((n_factors, size))
        means[: len(strength)] += strength[:, None] * vectors * np.sqrt(size)
        start.append(means)
    return start[0], start[1]


def _singular(
    pull: Any, user_basis: Array | None, item_basis: Array | None, n_factors: int
) -> tuple[Array, Array, Array]:
    """Singular values and vectors of user_basis^T pull item_basis, the largest first, at most `n_factors`."""
    right = pull if item_basis is None else pull @ item_basis
    shape = (right.shape[0] if user_basis is None else user_basis.shape[1], right.shape[1])
    if shape[0] * shape[1] <= _SMALL_SVD:
        matrix = right if user_basis is None else user_basis.T @ right
        u, values, vt = np.linalg.svd(matrix.toarray() if sparse.issparse(matrix) else matrix, full_matrices=False)
        return u[:, :n_factors], values[:n_factors], vt[:n_factors]

    def forward(x: Array) -> Array:
        y = right @ x
        return np.asarray(y if user_basis is None else user_basis.T @ y)

    def backward(y: Array) -> Array:
        return np.asarray(right.T @ (y if user_basis is None else user_basis @ y))

    operator = LinearOperator(shape, forward, rmatvec=backward, dtype=np.float64)
    u, values, vt = svds(operator, k=min(n_factors, min(shape) - 1), v0=np.ones(min(shape)))
    order = np.argsort(-values)
    return u[:, order], values[order], vt[order]


def _learn_kernels(
    model: CrowdModel, kernel: Kernel | None, user_kernel: Kernel | None, rng: np.random.Generator
) -> tuple[Kernel | None, Kernel | None]:
    """The factor on the items' length-scales as the consensus has it; then, if asked, both kernels by the bound."""
    if kernel is not None:
        kernel = choose_kernel(replace(model.pair, config=replace(model.config.pair, optimizer=None)), kernel, rng)
    if model.config.pair.optimizer is None:
        return kernel, user_kernel
    given = [k for k in (kernel, user_kernel) if k is not None and k.theta.size]
    if not given:
        return kernel, user_kernel
    n_items = 0 if kernel is None else kernel.theta.size
    warm: list[svi.State] = []

    def parts(theta: Array) -> tuple[Kernel | None, Kernel | None]:
        first = None if kernel is None else kernel.clone_with_theta(theta[:n_items])
        return first, None if user_kernel is None else user_kernel.clone_with_theta(theta[n_items:])

    def objective(theta: Array) -> tuple[float, Array]:
        value, gradient, state = bound_and_gradient(model, *parts(theta), rng, warm[0] if warm else None)
        warm[:] = [state]
        return value, gradient

    start, bounds = np.concatenate([k.theta for k in given]), np.vstack([k.bounds for k in given])
    best = hyper.maximise(
        objective, start, bounds, n_restarts=model.config.pair.n_restarts, rng=rng, max_iter=20, tol=1e-3
    )
    return parts(best.theta)


def bound_and_gradient(
    model: CrowdModel,
    kernel: Kernel | None,
    user_kernel: Kernel | None,
    rng: np.random.Generator,
    start: svi.State | None = None,
) -> tuple[float, Array, svi.State]:
    """Return the bound at the optimal q and its gradient in both kernels' theta (maths.md sections 5 and 6).

    Parameters
    ----------
    model : CrowdModel
        Data, configuration, inducing points.
    kernel, user_kernel : Kernel or None
        Kernels at the hyper-parameters in question.
    rng : numpy.random.Generator
        Start of the factors.
    start : State, default=None
        Posterior at nearby hyper-parameters.

    Returns
    -------
    value : float
        Lower bound on the log evidence.
    gradient : ndarray of shape (n_theta,)
        Its derivatives, partial at fixed q: those of the items' kernel, then of the users'.
    state : State
        The optimal q.
    """
    items = Side(model.data.items, model.pair.basis(kernel))
    users = Side(model.data.users, model.user_basis(user_kernel))
    problem, diagonal = model.problem(items.basis, users.basis)
    schedule = replace(model.config.pair.schedule, batch_size=None, on_iteration=None)
    start = start or _start(model, problem, diagonal, schedule, rng)
    result = svi.fit(problem, start, schedule, rng)
    evaluation = result.evaluation
    assert evaluation is not None  # noqa: S101 - full data
    gradients = [
        kernel_gradient(problem, result.state, evaluation, side, which)
        for which, side in (("items", items), ("users", users))
        if side.basis is not None and side.basis.kernel.theta.size
    ]
    return evaluation.bound, np.concatenate(gradients), result.state


def kernel_gradient(
    problem: svi.Problem, state: svi.State, evaluation: svi.Evaluation, side: Side, which: str
) -> Array:
    """Return the bound's gradient in one side's kernel, at fixed q.

    Parameters
    ----------
    problem : Problem
        The terms.
    state : State
        q.
    evaluation : Evaluation
        The problem seen from q.
    side : Side
        The side whose kernel moves.
    which : {"items", "users"}
        Its name.

    Returns
    -------
    ndarray of shape (n_theta,)
        Sum over the consensus and all factors, which share the rows phi.
    """
    assert side.basis is not None  # noqa: S101
    adjoint, rows, kappa = np.zeros(1), None, np.zeros(1)
    wanted = PairTerm if which == "items" else EntityTerm
    for k, block in enumerate(state.blocks):
        seen = view(problem, evaluation, state.expected, k)
        term = seen.side.rows if isinstance(seen, FactorView) else seen.term
        if not isinstance(term, wanted) or term.basis is None:
            continue
        for part, gradient, curvature, s in _derivatives(seen, block, state, evaluation, k):
            adjoint = adjoint + term.basis_adjoint(part, gradient, curvature, s)
            kappa = kappa + curvature / s
        rows = term
    assert rows is not None  # noqa: S101 - some term has features
    assert rows.basis is not None  # noqa: S101
    total = side.basis.rows_gradient(side.features, rows.basis, adjoint)
    if rows.residual is None:
        return total
    if isinstance(rows, EntityTerm):
        return total + kernels.diagonal_vjp(side.basis.kernel, side.features, rows.sums(kappa))
    return total + side.basis.kappa_gradient(side.features, rows.left, rows.right, kappa)


def _derivatives(seen: Any, block: Block, state: svi.State, evaluation: svi.Evaluation, k: int) -> list[Any]:
    """Of every dense part: the part, derivatives of the fit in its projection's mean and variance, and E[s]."""
    e, w = evaluation.sites.gradient, evaluation.sites.weight
    if not isinstance(seen, FactorView):
        return [(block, e, -0.5 * w, state.expected[seen.term.residual_scale])]
    assert isinstance(block, StackedBlock)  # noqa: S101 - factors of features
    gradient = seen.gain * e - seen.gain_variance * w * evaluation.projections[k].mean
    curvature = -0.5 * seen.second_moment(w)
    expected = [state.expected[name] for name in seen.side.scales]
    return list(zip(block.parts, gradient, curvature, expected, strict=True))


def _posterior(model: CrowdModel, problem: svi.Problem, state: svi.State, items: Side, users: Side) -> CrowdPosterior:
    config = model.config
    pairs = [(t, b) for t, b in zip(problem.terms, state.blocks, strict=False) if isinstance(t, PairTerm)]
    pair_config = config.pair if config.consensus else replace(config.pair, offsets=False)
    consensus = pair_posterior(items.basis if config.consensus else None, pairs, dict(state.scales), pair_config)
    bias = next((b for t, b in zip(problem.terms, state.blocks, strict=False) if isinstance(t, EntityTerm)), None)
    none = np.zeros(0)
    if problem.products:
        product, n = problem.products[0], len(problem.terms)
        v = _factors(product.first, state.blocks[n], state, items.basis)
        w = _factors(product.second, state.blocks[n + 1], state, users.basis)
        rows = product.first.rows
        assert isinstance(rows, PairTerm)  # noqa: S101
        centre = v.mean @ rows.average_item()
    else:
        c = model.data.comparisons
        v, w = (
            FactorPosterior(None, np.zeros((0, n)), np.zeros((0, 0, 0)), np.zeros((0, n)), none)
            for n in (c.n_items, c.n_users)
        )
        centre = none
    moments = (none, none) if bias is None else (bias.mean, bias.covariance_diagonal)
    return CrowdPosterior(consensus, v, w, *moments, dict(state.scales), centre)


def _factors(side: FactorTerm, block: Block, state: svi.State, basis: InducingBasis | None) -> FactorPosterior:
    expected = np.array([state.scales[name].mean for name in side.scales])
    mean = side.stacked(block.mean)
    if isinstance(block, StackedBlock):
        half = np.array([part.inverse_chol for part in block.parts])
        return FactorPosterior(basis, mean, half, np.zeros((0, mean.shape[1])), expected)
    assert isinstance(block, DiagonalBlock)  # noqa: S101 - factors are stacked or diagonal
    variance = side.stacked(block.covariance_diagonal)
    return FactorPosterior(None, mean, np.zeros((0, 0, 0)), variance, expected)
