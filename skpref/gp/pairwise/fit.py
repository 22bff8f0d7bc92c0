"""From comparisons to a `PairPosterior`: inducing points, length-scales, inference."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array, diags_array
from scipy.sparse.linalg import cg
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from skpref import inducing, kernels
from skpref._estimator import digest
from skpref._math.threads import limit_blas_threads
from skpref._warn import warn
from skpref.data import Comparisons
from skpref.exceptions import DataWarning
from skpref.gp.capabilities import Capabilities
from skpref.gp.default_kernels import kernel_parameters
from skpref.gp.hyperpriors import length_scale_priors, log_density
from skpref.gp.pairwise.policy import POLICY
from skpref.gp.pairwise.posterior import AverageResidual, PairPosterior
from skpref.gp.points import determine_rows
from skpref.inference import hyper, svi
from skpref.inference.basis import InducingBasis, full_passes_fit
from skpref.inference.blocks import DenseBlock
from skpref.inference.choices import ChoiceLikelihood
from skpref.inference.scale import FixedScale, GammaScale, Scale, moved_scale
from skpref.inference.shards import ShardedProblem, content_of
from skpref.inference.sites import LAPLACE, LINEARISED, VARIATIONAL
from skpref.inference.terms.pairs import PairTerm

if TYPE_CHECKING:
    from skpref._typing import Array, Features
    from skpref.gp.pairwise.sharded import ShardedComparisons
    from skpref.inference.blocks import Block
    from skpref.inference.checkpoint import Checkpoint
    from skpref.likelihoods import Likelihood

RULES = {"vb": VARIATIONAL, "svi": VARIATIONAL, "laplace": LAPLACE, "linearised": LINEARISED}
# The kernels that have a name; the lengths of their features are learnt as those of the default.
NAMED_KERNELS: dict[str, tuple[type[Kernel], float]] = {
    "product-matern-1/2": (kernels.ProductMatern, 0.5),
    "product-matern-3/2": (kernels.ProductMatern, 1.5),
    "product-matern-5/2": (kernels.ProductMatern, 2.5),
    "squared-exponential": (kernels.ProductMatern, np.inf),
    "additive-matern-3/2": (kernels.AdditiveMatern, 1.5),
    "additive-matern-5/2": (kernels.AdditiveMatern, 2.5),
}
_DEFAULT_KERNEL = "product-matern-3/2"
FULL_PASSES = Capabilities("checkpoints", {"inference": ("vb", "laplace", "linearised")}, "leave checkpoint out")
_INFLATED = (
    "Mini-batches (inference='svi') learn the offsets of {} items, one by one, so slowly that effects of covariates "
    "and of the order are a tenth too large or more: use inference='vb', or item_effects=False if items have features."
)


@dataclass(frozen=True)
class PairConfig:
    """The parameters of an estimator that a fit needs."""

    likelihood: Likelihood  # p(y | z)
    inference: str  # rule of the sites, full passes or mini-batches
    n_inducing: int  # largest M
    inducing: str | Features  # how inducing points are chosen
    schedule: svi.Schedule  # iterations, tolerance and mini-batches
    scale: Scale  # inverse variances under their prior
    offsets: bool  # whether items have offsets
    order: bool  # whether there is an order effect
    learn_length_scales: bool  # of the default kernel or of a named one, under their prior
    n_restarts: int | None  # further starts of L-BFGS-B over all hyperparameters; None: they are not learnt by it
    team_mean: bool = False  # whether the utility of a team is the mean of its players' utilities, and not the sum

    def prior_of_scale(self, strength: float = 1.0) -> Scale:
        """Return the prior of an inverse variance, with this share of its weight."""
        if isinstance(self.scale, FixedScale):
            return self.scale
        return GammaScale.prior(strength * self.scale.shape0, strength * self.scale.rate0)


@dataclass(frozen=True, eq=False)
class PairFit:
    """Result of `fit_pairs`."""

    posterior: PairPosterior  # for predictions
    state: svi.State  # for a warm start
    likelihood: Likelihood  # with its learnt parameters
    kernel: Kernel | None  # with its final hyperparameters
    bounds: list[float]  # objective after each pass
    bound: float  # lower bound at the end (an estimate with mini-batches)
    converged: bool


@dataclass(frozen=True, eq=False)
class WarmStart:
    """What a later fit of the same model starts from."""

    state: svi.State  # posterior of the blocks
    kernel: Kernel | None
    points: Features  # inducing points


@dataclass(frozen=True, eq=False)
class PairData:
    """The seen items and their comparisons."""

    X: Features  # (N, d); None without features
    comparisons: Comparisons  # rows of X; none of them where there are many in shards
    shards: ShardedComparisons | None = None  # the comparisons, where they are in shards


@dataclass(frozen=True, eq=False, kw_only=True)
class PairModel:
    """The parts of a model that a fit does not change."""

    data: PairData
    config: PairConfig
    points: Features = None  # inducing points
    joint_size: int = field(default_factory=lambda: POLICY.joint_size)
    exact: bool = False  # whether the inducing points are the items, so that the residual is zero
    last: list[tuple[Array, svi.State]] = field(default_factory=list)  # last theta and q of the search, or empty
    passes: list[int] = field(default_factory=list)  # of each fit of the search

    @cached_property
    def covariate_scale(self) -> Array:
        """Typical size of each covariate, in whose units coefficients have one prior, shape (q,)."""
        if self.data.shards is not None:
            return self.data.shards.covariate_scale
        c = self.data.comparisons
        return np.ones(0) if c.covariates is None else typical_size(c.covariates, c.weight)

    def scales(self) -> dict[str, Scale]:
        """Return the prior of each inverse variance, by name."""
        config = self.config
        names = (["f"] if self.data.X is not None else []) + (["offset"] if config.offsets else [])
        scales = {name: config.prior_of_scale() for name in names}
        if len(names) > 1:
            scales["offset"] = config.prior_of_scale(POLICY.offset_strength)
        if self.data.comparisons.covariates is not None:
            scales["covariate"] = config.prior_of_scale(POLICY.covariate_strength)
        return scales | ({"order": FixedScale(1.0)} if config.order else {})

    def basis(self, kernel: Kernel | None) -> InducingBasis | None:
        """Return the basis of the inducing points with a kernel; None without features."""
        return None if kernel is None else InducingBasis.from_points(kernel, self.points)

    def joint(self, basis: InducingBasis | None) -> bool:
        """Tell whether inducing values and offsets share one dense block."""
        size = 0 if basis is None else basis.chol.shape[0]
        return not self.config.offsets or size + self.data.comparisons.n_items <= self.joint_size

    def dense_size(self, basis: InducingBasis | None) -> int:
        """Return the number of variables of the dense block."""
        size = 0 if basis is None else basis.chol.shape[0]
        return size + self.data.comparisons.n_items * (self.config.offsets and self.joint(basis))

    def term(self, basis: InducingBasis | None, *, offsets: bool) -> PairTerm:
        """Return the term of the comparisons, with or without the offsets."""
        c = self.data.comparisons
        rows = residual = None
        if basis is not None:
            rows = basis.rows(self.data.X)
            if not self.exact:
                residual = basis.pair_residual(self.data.X, rows, c.left, c.right)
        covariates = None if c.covariates is None else c.covariates / self.covariate_scale
        return PairTerm(rows, c.left, c.right, c.n_items, offsets, self.config.order, residual, covariates)

    def problem(
        self, basis: InducingBasis | None, features: PairTerm | None = None
    ) -> tuple[svi.Problem, frozenset[str]]:
        """Return the problem and the names of its diagonal blocks: offsets are dense while that is cheap."""
        c, config = self.data.comparisons, self.config
        features = features or self.term(basis, offsets=False)
        likelihood = likelihood_of(config, c)
        if self.joint(basis):
            joint = replace(features, offsets=config.offsets)
            return svi.Problem({"f": joint}, likelihood, c.y, c.weight), frozenset()
        offsets = PairTerm(None, c.left, c.right, c.n_items, offsets=True)
        terms = {"f": features, "offsets": offsets} if features.segments else {"offsets": offsets}
        return svi.Problem(terms, likelihood, c.y, c.weight), frozenset({"offsets"})


def likelihood_of(config: PairConfig, c: Comparisons) -> Likelihood:
    """Return the likelihood of comparisons, in which the pairs of a choice are one answer."""
    return config.likelihood if c.stage is None else ChoiceLikelihood(c.stage)


def fit_pairs(
    data: PairData,
    kernel: Kernel | str | None,
    config: PairConfig,
    rng: np.random.Generator,
    start: WarmStart | None = None,
) -> PairFit:
    """Choose inducing points and length-scales, and infer the posterior; a warm start brings its own kernel."""
    if start is not None:
        kernel = start.kernel
    # Without features the utilities are the offsets, and there is no kernel.
    kernel = None if data.X is None else start_kernel(data.X, kernel, rng)
    model = pair_model(data, kernel, config, rng, None if start is None else start.points)
    with limit_blas_threads(0 if model.points is None else model.points.shape[0]):
        if kernel is not None:
            kernel = choose_kernel(model, kernel, rng)
        basis = model.basis(kernel)
    with limit_blas_threads(model.dense_size(basis)):
        return _fit_posterior(model, kernel, basis, rng, None if start is None else start.state)


def start_kernel(X: Features, kernel: Kernel | str | None, rng: np.random.Generator) -> Kernel:
    """Return a copy of the kernel, or the named or default kernel with median length-scales."""
    if isinstance(kernel, Kernel):
        return clone(kernel)
    cls, nu = NAMED_KERNELS[kernel or _DEFAULT_KERNEL]
    medians, wide = kernels.median_length_scales(X, rng), np.sqrt(_square_width(cls, X.shape[1]))
    low, high = POLICY.factor_bounds
    return cls(wide * medians, np.column_stack([low * medians, high * wide * medians]), nu=nu)


def _square_width(cls: type[Kernel], d: int) -> float:
    """Return the square of the usual length-scale in medians: wide for a product with many small factors."""
    return float(d) if issubclass(cls, kernels.ProductMatern) else 1.0


def pair_model(
    data: PairData, kernel: Kernel | None, config: PairConfig, rng: np.random.Generator, points: Features
) -> PairModel:
    """Return the model; choose inducing points where none are given."""
    if data.X is None or kernel is None:
        return PairModel(data=data, config=config)
    if points is None:
        points = inducing.choose(data.X, config.n_inducing, config.inducing, rng, length_scale(kernel), kernel=kernel)
    return PairModel(data=data, config=config, points=points, exact=determine_rows(points, data.X, kernel))


def length_scale(kernel: Kernel) -> Any:
    """Return the length-scales of a kernel that has finite ones."""
    scale = getattr(kernel, "length_scale", None)
    return scale if scale is None or np.all(np.isfinite(scale)) else None


def choose_kernel(model: PairModel, kernel: Kernel, rng: np.random.Generator) -> Kernel:
    """Maximise the density of the default kernel's length-scales, or the bound over all hyperparameters if asked."""
    config = model.config
    if kernel.theta.size == 0:
        return kernel
    # Offsets in a block of their own are cheap and lead to the same length-scales.
    small = model if model.data.shards is None else subsample(model, rng)
    small = replace(_among_few_items(small, POLICY.many_items, POLICY.hyper_pairs, rng), joint_size=0, passes=[])
    if config.learn_length_scales:
        kernel = _default_length_scales(small, kernel, rng)
    if config.n_restarts is None:
        return kernel

    def bound_of_theta(theta: Array) -> tuple[float, Array]:
        return bound_and_gradient(small, kernel.clone_with_theta(theta))

    best = hyper.maximise(bound_of_theta, kernel.theta, kernel.bounds, n_restarts=config.n_restarts, rng=rng)
    return kernel.clone_with_theta(best.theta)


def _default_length_scales(small: PairModel, kernel: Kernel, rng: np.random.Generator) -> Kernel:
    """Maximise the posterior density over one factor on all length-scales, then over each length-scale."""
    d, bounds = kernel.theta.size, kernel.bounds
    in_parts = 1 < d <= POLICY.most_single_scales
    some = _among_few_items(small, *POLICY.some_items, rng) if in_parts else small
    few = _among_few_items(some, *POLICY.few_items, rng) if in_parts else small
    # Bounds are multiples of the medians, of which the start of an earlier fit knows nothing.
    priors = length_scale_priors(
        bounds[:, 0] - np.log(POLICY.factor_bounds[0]) + 0.5 * np.log(_square_width(type(kernel), d)), d
    )

    def density(theta: Array, model: PairModel = small) -> tuple[float, Array]:
        if sum(small.passes) >= POLICY.search_passes:
            raise hyper.BudgetSpentError
        value, gradient = bound_and_gradient(model, kernel.clone_with_theta(theta))
        prior, prior_gradient = log_density(priors, theta)
        return value + prior, gradient + prior_gradient

    def density_of_shift(shift: Array) -> tuple[float, Array]:
        value, gradient = density(kernel.theta + shift[0], few)
        return value, np.array([gradient.sum()])

    limits = np.array([[np.max(bounds[:, 0] - kernel.theta), np.min(bounds[:, 1] - kernel.theta)]])
    shift = hyper.maximise(density_of_shift, np.zeros(1), limits, max_iter=10, tol=0.01).theta[0]
    theta, scale = kernel.theta + shift, None
    for part in dict.fromkeys((some, small)) if in_parts else ():
        if sum(small.passes) < POLICY.search_passes:
            tol = 1e-3 if part is some else POLICY.last_tol
            best = hyper.maximise(partial(density, model=part), theta, bounds, tol=tol, scale=scale)
            theta, scale = best.theta, best.scale
    return kernel.clone_with_theta(theta)


def subsample(model: PairModel, rng: np.random.Generator) -> PairModel:
    """Return the model of at most 50,000 comparisons with their own weights: the evidence is the sample's."""
    c = model.data.shards or model.data.comparisons
    if c.n_pairs <= POLICY.hyper_pairs:
        return model
    if isinstance(c, Comparisons):
        return _part(model, c.sample(POLICY.hyper_pairs, rng))
    return _part(model, c.take(np.sort(rng.choice(c.n_pairs, POLICY.hyper_pairs, replace=False))))


def _among_few_items(model: PairModel, n_items: int, n_least: int, rng: np.random.Generator) -> PairModel:
    """Return the model of at most 50,000 comparisons among random items, more of these if they have too few."""
    c = model.data.comparisons
    if c.stage is not None:
        return subsample(model, rng)
    if c.n_pairs <= n_least or (c.n_pairs <= POLICY.hyper_pairs and c.n_items <= n_items):
        return model
    place = rng.permutation(c.n_items)
    last = np.maximum(place[c.left], place[c.right])
    rows = np.flatnonzero(last < n_items)
    if rows.size < n_least:
        rows = np.argpartition(last, n_least)[:n_least]
    elif rows.size > POLICY.hyper_pairs:
        rows = rng.choice(rows, POLICY.hyper_pairs, replace=False)
    return _part(model, c.take(np.sort(rows)))


def _part(model: PairModel, sample: Comparisons) -> PairModel:
    """Return the model of some comparisons and their items."""
    comparisons, items = sample.compact()
    return replace(model, data=PairData(model.data.X[items], comparisons), exact=False, last=[])


def bound_and_gradient(model: PairModel, kernel: Kernel) -> tuple[float, Array]:
    """Return the bound at the optimal q and its gradient in the kernel's theta (docs/maths section 5)."""
    basis = model.basis(kernel)
    assert basis is not None  # noqa: S101 - only called for models with features
    problem, diagonal = model.problem(basis)
    start = svi.initial_state(problem, model.scales(), diagonal=diagonal)
    for theta, state in model.last:
        if np.max(np.abs(theta - kernel.theta)) < POLICY.near:
            start = state
    tol = POLICY.search_tol
    schedule = replace(model.config.schedule, batch_size=None, on_iteration=None, tol=tol, checkpoint=None)
    result = svi.fit(problem, start, schedule, np.random.default_rng(0))
    model.last[:] = [(kernel.theta, result.state)]
    model.passes.append(len(result.bounds))
    assert result.evaluation is not None  # noqa: S101 - full data
    return result.evaluation.bound, _kernel_gradient(model, basis, problem, result)


def _kernel_gradient(model: PairModel, basis: InducingBasis, problem: svi.Problem, result: svi.Fit) -> Array:
    term, block = problem.terms["f"], result.state.blocks["f"]
    assert isinstance(term, PairTerm)  # noqa: S101
    assert isinstance(block, DenseBlock)  # noqa: S101
    assert result.evaluation is not None  # noqa: S101
    assert term.basis is not None  # noqa: S101
    sites, s = result.evaluation.sites, result.state.expected["f"]
    curvature = -0.5 * sites.weight
    adjoint = term.basis_adjoint(block, sites.gradient, curvature, s)
    gradient = basis.rows_gradient(model.data.X, term.basis, adjoint)
    if term.residual is not None:
        gradient = gradient + basis.kappa_gradient(model.data.X, term.left, term.right, curvature / s)
    return gradient


def _fit_posterior(
    model: PairModel,
    kernel: Kernel | None,
    basis: InducingBasis | None,
    rng: np.random.Generator,
    earlier: svi.State | None,
) -> PairFit:
    """Infer the posterior with the final kernel, from the prior or from an earlier posterior."""
    config = model.config
    problem, diagonal = model.problem(basis)
    inference, choices = _inference(model, basis), model.data.comparisons.stage is not None
    problem = replace(problem, rule=RULES[inference])
    if model.data.shards is not None:
        problem = model.data.shards.problem(problem, basis, model.data.X)
    elif inference in {"vb", "laplace"} and not choices and problem.n_observations > POLICY.many_pairs:
        problem = ShardedProblem.divided(problem, POLICY.part)
    schedule = config.schedule if inference == "svi" else replace(config.schedule, batch_size=None)
    if schedule.checkpoint is not None:
        FULL_PASSES.check({"inference": inference})
        settings = inference, problem.likelihood, model.scales(), kernel_parameters(kernel)
        schedule = replace(schedule, checkpoint=run_checkpoint(schedule.checkpoint, model.data, settings, model.points))
    n_pairs, has_effects = model.data.comparisons.y.size, model.data.comparisons.covariates is not None
    if diagonal and (has_effects or config.order) and (schedule.batch_size or n_pairs) < n_pairs:
        warn(_INFLATED.format(model.data.comparisons.n_items), DataWarning)
    start = svi.initial_state(problem, model.scales(), diagonal=diagonal)
    result = svi.fit(problem, resumed_state(start, earlier), schedule, rng)
    bound = result.evaluation.bound if result.evaluation is not None else result.bounds[-1]
    blocks = [(term, result.state.blocks[name]) for name, term in problem.terms.items()]
    if diagonal and basis is None and has_effects and result.evaluation is not None:
        blocks[0] = blocks[0][0], effects_without_offsets(problem, result.state, result.evaluation.sites.weight)
    items = None if model.exact else model.data.X
    posterior = pair_posterior(basis, blocks, dict(result.state.scales), config, items)
    posterior = replace(posterior, covariate_scale=model.covariate_scale)
    likelihood = config.likelihood if choices else result.likelihood
    return PairFit(posterior, result.state, likelihood, kernel, result.bounds, bound, result.converged)


def run_checkpoint(checkpoint: Checkpoint, data: PairData, settings: object, points: Features) -> Checkpoint:
    """Return where a run saves its passes, named by the data and all that it depends on."""
    if data.shards is None:
        parts = [content_of(data.comparisons)]
    else:
        parts = list(data.shards.shards.collect(content_of, data.shards.rows))
    return replace(checkpoint, key=digest((checkpoint.key, parts, settings), data.X, points))


def resumed_state(start: svi.State, earlier: svi.State | None) -> svi.State:
    """Return the posterior of an earlier fit with the priors of this one, if it is of the same variables."""
    if earlier is None or block_sizes(earlier) != block_sizes(start) or earlier.scales.keys() != start.scales.keys():
        return start
    # Mini-batch steps restart, since the comparisons may differ.
    scales = {
        name: moved_scale(scale, earlier.log_mean(name) - start.log_mean(name)) for name, scale in start.scales.items()
    }
    return svi.State(earlier.blocks, scales)


def effects_without_offsets(problem: svi.Problem, state: svi.State, weight: Array) -> DenseBlock:
    """Return the effects of covariates with the offsets integrated out, which q(v) has as known (given the sites).

    Their precision falls by B^T (L + s I)^-1 B, with the Laplacian L of the weighted comparisons and B = D^T W C.
    """
    effects, offsets, block = problem.terms["f"], problem.terms["offsets"], state.blocks["f"]
    assert isinstance(effects, PairTerm)  # noqa: S101
    assert isinstance(offsets, PairTerm)  # noqa: S101
    assert isinstance(block, DenseBlock)  # noqa: S101
    assert effects.extra is not None  # noqa: S101
    shared = offsets.rmatvec(effects.extra.T * weight)
    n, diagonal = offsets.n_items, offsets.gram_diagonal(weight) + state.expected["offset"]
    between = coo_array((-weight, (offsets.left, offsets.right)), shape=(n, n)).tocsr()
    precision = between + between.T + diags_array(diagonal)
    solved = np.array([cg(precision, row, rtol=1e-8, M=diags_array(1.0 / diagonal))[0] for row in shared])
    lower = np.tril(block.precision)
    reduced = lower + np.tril(lower, -1).T - shared @ solved.T
    return DenseBlock(reduced, reduced @ block.mean)


def root_mean_square(values: Array, weight: Array) -> Array:
    """Return the root of the weighted mean of squares of each column, 1 where all are 0; finite for finite columns."""
    largest = np.abs(values).max(axis=0, initial=0.0)
    largest = np.where(largest == 0.0, 1.0, largest)
    root = largest * np.sqrt(np.average(np.square(values / largest), axis=0, weights=weight))
    return np.where(root == 0.0, 1.0, root)


def typical_size(values: Array, weight: Array) -> Array:
    """Return the root mean square of the values of each column that are not 0; 1 where all are 0.

    They are not centred: the two sides are to be exchangeable. With zeros, an indicator that is seldom 1 would have a
    small unit, and its effect a wide prior. Thus it has the unit of an indicator that is often 1.
    """
    share = np.average(values != 0.0, axis=0, weights=weight)
    return root_mean_square(values, weight) / np.sqrt(np.where(share == 0.0, 1.0, share))


def block_sizes(state: svi.State) -> dict[str, tuple[type, int]]:
    """Return type and size of each block of a state."""
    return {name: (type(block), block.size) for name, block in state.blocks.items()}


def _inference(model: PairModel, basis: InducingBasis | None) -> str:
    if model.data.comparisons.stage is not None:
        return "vb"  # whose passes see whole choices
    if model.config.inference != "auto":
        return model.config.inference
    if model.data.shards is not None:
        return "vb"
    rows = 0 if basis is None else basis.chol.shape[0]
    return "vb" if full_passes_fit(model.data.comparisons.n_items, rows) else "svi"


def pair_posterior(
    basis: InducingBasis | None,
    blocks: list[tuple[Any, Block]],
    scales: dict[str, Scale],
    config: PairConfig,
    X: Features = None,
) -> PairPosterior:
    """Return the record for predictions from terms with their blocks; X: seen items that have residuals."""
    mean, half = np.zeros(0), np.zeros((0, 0))
    offset_mean, offset_variance = np.zeros(0), None
    centre = 0.0, np.zeros(0)
    for term, block in blocks:
        if isinstance(block, DenseBlock):
            mean, half = block.mean, np.ascontiguousarray(block.inverse_chol)
            average = term.average_item()
            centre = centre[0] + float(average @ mean), half @ average
            if term.offsets:
                offset_mean = term.split(mean)[1].copy()
        else:
            offset_mean, offset_variance = block.mean, block.covariance_diagonal
            centre = centre[0] + float(offset_mean.mean()), centre[1]
    residual = None if basis is None or X is None else AverageResidual.from_basis(basis, X)
    return PairPosterior(
        basis, mean, half, offset_mean, offset_variance, config.offsets, config.order, scales, *centre, residual
    )
