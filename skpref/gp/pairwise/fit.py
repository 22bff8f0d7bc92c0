"""From comparisons to a `PairPosterior`: inducing points, terms, the loop, and the search for length-scales."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from skpref import inducing, kernels
from skpref._math.threads import limit_blas_threads
from skpref.data.tables import same_rows, unique_rows
from skpref.gp.pairwise.posterior import PairPosterior
from skpref.inference import hyper, svi
from skpref.inference.basis import InducingBasis, full_passes_fit
from skpref.inference.blocks import DenseBlock
from skpref.inference.scale import FixedScale, GammaScale, Scale
from skpref.inference.sites import LAPLACE, LINEARISED, VARIATIONAL
from skpref.inference.terms.pairs import PairTerm

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.data import Comparisons
    from skpref.likelihoods import Likelihood

_RULES = {"vb": VARIATIONAL, "svi": VARIATIONAL, "laplace": LAPLACE, "linearised": LINEARISED}
_JOINT_SIZE = 1500  # variables up to which offsets and features share one dense block: a tenth of a second a pass
_HYPER_PAIRS = 50_000  # comparisons that the search for length-scales looks at
_SEARCH_TOL = 1e-4  # of a fit within the search: 1e-6 of the bound, what the optimiser can resolve
_NEAR = 1.5  # log hyper-parameters that differ by less share a start
_FACTOR_BOUNDS = (0.1, 1000.0)


@dataclass(frozen=True)
class PairConfig:
    """What an estimator's parameters ask of a fit."""

    likelihood: Likelihood  # p(y | z)
    inference: str  # site rule and loop
    n_inducing: int  # M at most
    inducing: str | Features  # how inducing points are chosen
    schedule: svi.Schedule  # iterations, tolerance and mini-batches
    shape_s0: float  # prior Gamma(shape, rate) of the inverse scales
    rate_s0: float  # prior Gamma(shape, rate) of the inverse scales
    offsets: bool  # item effects and order effect
    order: bool  # item effects and order effect
    # factor on the median heuristic of the default kernel; None when the caller gave the kernel
    length_scale_factor: float | str | None
    optimizer: str | None  # whether all hyper-parameters are learnt
    n_restarts: int  # further starts of the optimiser


@dataclass(frozen=True, eq=False)
class PairFit:
    """Result of `fit_pairs`."""

    posterior: PairPosterior  # what predictions need
    state: svi.State  # what a warm start needs
    likelihood: Likelihood  # the likelihood with its own parameters learnt
    kernel: Kernel | None  # the kernel with its final hyper-parameters
    bounds: list[float]  # objective after each pass of the final fit
    bound: float  # lower bound of the final fit (estimate, for mini-batches)
    converged: bool  # whether the final fit met its tolerance


@dataclass(frozen=True, eq=False)
class PairData:
    """Items that were compared, and their comparisons."""

    X: Features  # (N, d): features of the N seen items
    comparisons: Comparisons  # rows of X


@dataclass(frozen=True, eq=False, kw_only=True)
class PairModel:
    """A fit's fixed parts: data, configuration and inducing points."""

    data: PairData
    config: PairConfig
    points: Features = None
    joint_size: int = field(default_factory=lambda: _JOINT_SIZE)
    everything: bool = False  # the inducing points are the items, so the residual is zero
    warm: list[tuple[Array, svi.State]] = field(default_factory=list)  # the search's last theta and q, at most one

    def scales(self) -> dict[str, Scale]:
        """Return the prior of every scale, by name."""
        config = self.config
        names = (["f"] if self.data.X is not None else []) + (["offset"] if config.offsets else [])
        scales: dict[str, Scale] = {name: GammaScale.prior(config.shape_s0, config.rate_s0) for name in names}
        return scales | ({"order": FixedScale(1.0)} if config.order else {})

    def basis(self, kernel: Kernel | None) -> InducingBasis | None:
        """Return the basis of the inducing points under a kernel; None without features."""
        return None if kernel is None else InducingBasis.at(kernel, self.points)

    def joint(self, basis: InducingBasis | None) -> bool:
        """Tell whether inducing values and offsets share one dense block."""
        size = 0 if basis is None else basis.chol.shape[0]
        return not self.config.offsets or size + self.data.comparisons.n_items <= self.joint_size

    def dense_size(self, basis: InducingBasis | None) -> int:
        """Return the number of variables of the dense block."""
        size = 0 if basis is None else basis.chol.shape[0]
        return size + self.data.comparisons.n_items * (self.config.offsets and self.joint(basis))

    def term(self, basis: InducingBasis | None, *, offsets: bool) -> PairTerm:
        """Return the term of the comparisons, with the offsets or without."""
        c = self.data.comparisons
        rows = residual = None
        if basis is not None:
            rows = basis.rows(self.data.X)
            if not self.everything:
                residual = basis.pair_residual(self.data.X, rows, c.left, c.right)
        return PairTerm(rows, c.left, c.right, c.n_items, offsets, self.config.order, residual)

    def problem(
        self, basis: InducingBasis | None, plain: PairTerm | None = None
    ) -> tuple[svi.Problem, tuple[bool, ...]]:
        """The terms, and which of them are diagonal: offsets are dense while that is cheap."""
        c, config = self.data.comparisons, self.config
        plain = plain or self.term(basis, offsets=False)
        if self.joint(basis):
            together = replace(plain, offsets=config.offsets)
            return svi.Problem((together,), config.likelihood, c.y, c.weight), (False,)
        alone = PairTerm(None, c.left, c.right, c.n_items, offsets=True)
        terms: tuple[PairTerm, ...] = (plain, alone) if plain.segments else (alone,)
        return svi.Problem(terms, config.likelihood, c.y, c.weight), (False, True)[-len(terms) :]


def fit_pairs(
    data: PairData,
    kernel: Kernel | None,
    config: PairConfig,
    rng: np.random.Generator,
    start: svi.State | None = None,
    points: Features = None,
) -> PairFit:
    """Fit the model."""
    # Without features the items' offsets are their utilities, and a kernel has nothing to look at.
    kernel = None if data.X is None else start_kernel(data.X, kernel, config, rng)
    model = pair_model(data, kernel, config, rng, points)
    with limit_blas_threads(0 if model.points is None else model.points.shape[0]):
        if kernel is not None:
            kernel = choose_kernel(model, kernel, rng)
        basis = model.basis(kernel)
    with limit_blas_threads(model.dense_size(basis)):
        return _final(model, kernel, basis, rng, start)


def start_kernel(X: Features, kernel: Kernel | None, config: PairConfig, rng: np.random.Generator) -> Kernel:
    """Return the kernel that a search starts from: the caller's, or the default at the median heuristic."""
    if kernel is not None:
        return clone(kernel)
    scales = kernels.median_length_scales(X, rng)
    factor = config.length_scale_factor
    first = np.sqrt(X.shape[1]) if factor in {None, "auto"} else float(factor)
    low, high = _FACTOR_BOUNDS
    bounds = np.column_stack([low * scales, high * np.sqrt(X.shape[1]) * scales])
    return kernels.ProductMatern(first * scales, bounds)


def pair_model(
    data: PairData, kernel: Kernel | None, config: PairConfig, rng: np.random.Generator, points: Features
) -> PairModel:
    """Choose the inducing points."""
    if data.X is None or kernel is None:
        return PairModel(data=data, config=config)
    if points is None:
        points = inducing.choose(data.X, config.n_inducing, config.inducing, rng, _scale_of(kernel), kernel=kernel)
    distinct = data.X[unique_rows(data.X)[0]]
    everything = points.shape == distinct.shape and same_rows(points, distinct)
    # White noise is in the inducing points' covariance but not in the rows, which then leave a residual everywhere.
    everything = everything and np.array_equal(kernels.diagonal(kernel, points), kernels.paired(kernel, points, points))
    return PairModel(data=data, config=config, points=points, everything=everything)


def _scale_of(kernel: Kernel) -> Any:
    scale = getattr(kernel, "length_scale", None)
    return scale if scale is None or np.all(np.isfinite(scale)) else None


def choose_kernel(model: PairModel, kernel: Kernel, rng: np.random.Generator) -> Kernel:
    """Maximise the bound: first one factor on all length-scales, then (if asked) every hyper-parameter by itself."""
    config = model.config
    if kernel.theta.size == 0:
        return kernel
    # Offsets by themselves cost little and lead to the same length-scales; the final fit joins them to the features.
    small = replace(thinned(model, rng), joint_size=0)
    if config.length_scale_factor == "auto":
        theta, bounds = kernel.theta, np.log(np.array([_FACTOR_BOUNDS])) - 0.5 * np.log(model.data.X.shape[1])

        def along(shift: Array) -> tuple[float, Array]:
            value, gradient = bound_and_gradient(small, kernel.clone_with_theta(theta + shift[0]))
            return value, np.array([gradient.sum()])

        best = hyper.maximise(along, np.zeros(1), bounds, max_iter=10, tol=0.01)
        kernel = kernel.clone_with_theta(theta + best.theta[0])
    if config.optimizer is None:
        return kernel

    def whole(theta: Array) -> tuple[float, Array]:
        return bound_and_gradient(small, kernel.clone_with_theta(theta))

    best = hyper.maximise(whole, kernel.theta, kernel.bounds, n_restarts=config.n_restarts, rng=rng)
    return kernel.clone_with_theta(best.theta)


def thinned(model: PairModel, rng: np.random.Generator) -> PairModel:
    """Return the model of some 50,000 comparisons at most, weighted so as to stand for all."""
    c = model.data.comparisons
    n_pairs = c.left.shape[0]
    if n_pairs <= _HYPER_PAIRS:
        return model
    index = np.sort(rng.choice(n_pairs, _HYPER_PAIRS, replace=False))
    # The few stand for all, beside the same prior; items that lost all their comparisons would only cost.
    weight = c.weight[index] * (c.weight.sum() / c.weight[index].sum())
    user = None if c.user is None else c.user[index]
    few, items = replace(c, left=c.left[index], right=c.right[index], y=c.y[index], weight=weight, user=user).compact()
    return replace(model, data=PairData(model.data.X[items], few), everything=False, warm=[])


def bound_and_gradient(model: PairModel, kernel: Kernel) -> tuple[float, Array]:
    """Return the bound at the optimal q and its gradient in the kernel's theta (docs/maths section 5)."""
    basis = model.basis(kernel)
    assert basis is not None  # noqa: S101 - only called for models with features
    problem, diagonal = model.problem(basis)
    start = svi.initial_state(problem, model.scales(), diagonal=diagonal)
    for theta, state in model.warm:
        if np.max(np.abs(theta - kernel.theta)) < _NEAR:
            start = state
    schedule = replace(model.config.schedule, batch_size=None, on_iteration=None, tol=_SEARCH_TOL)
    result = svi.fit(problem, start, schedule, np.random.default_rng(0))
    model.warm[:] = [(kernel.theta, result.state)]
    assert result.evaluation is not None  # noqa: S101 - full data
    return result.evaluation.bound, _kernel_gradient(model, basis, problem, result)


def _kernel_gradient(model: PairModel, basis: InducingBasis, problem: svi.Problem, result: svi.Fit) -> Array:
    term, block = problem.terms[0], result.state.blocks[0]
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


def _final(
    model: PairModel,
    kernel: Kernel | None,
    basis: InducingBasis | None,
    rng: np.random.Generator,
    earlier: svi.State | None,
) -> PairFit:
    # The search leaves no trace in the result but the kernel: the fit starts at the prior, or at an earlier fit.
    config = model.config
    problem, diagonal = model.problem(basis)
    mode = _mode(model, basis)
    problem = replace(problem, rule=_RULES[mode])
    schedule = config.schedule if mode == "svi" else replace(config.schedule, batch_size=None)
    start = svi.initial_state(problem, model.scales(), diagonal=diagonal)
    if earlier is not None and sizes(earlier) == sizes(start) and earlier.scales.keys() == start.scales.keys():
        # The prior of the scales is this fit's; the steps of mini-batches begin anew, since the comparisons may differ.
        scales = {
            name: scale.moved(earlier.log_mean(name) - start.log_mean(name)) for name, scale in start.scales.items()
        }
        start = svi.State(earlier.blocks, scales)
    result = svi.fit(problem, start, schedule, rng)
    bound = result.evaluation.bound if result.evaluation is not None else result.bounds[-1]
    pairs = list(zip(problem.terms, result.state.blocks, strict=True))
    posterior = pair_posterior(basis, pairs, dict(result.state.scales), config)
    return PairFit(posterior, result.state, result.likelihood, kernel, result.bounds, bound, result.converged)


def sizes(state: svi.State) -> list[tuple[type, int]]:
    """Return kind and size of every block of a state."""
    return [(type(block), block.size) for block in state.blocks]


def _mode(model: PairModel, basis: InducingBasis | None) -> str:
    if model.config.inference != "auto":
        return model.config.inference
    rows = 0 if basis is None else basis.chol.shape[0]
    return "vb" if full_passes_fit(model.data.comparisons.n_items, rows) else "svi"


def pair_posterior(
    basis: InducingBasis | None, pairs: list[tuple[Any, Any]], scales: dict[str, Scale], config: PairConfig
) -> PairPosterior:
    """Bring the blocks of a fit into the record that predictions are made from."""
    mean, half = np.zeros(0), np.zeros((0, 0))
    offset_mean, offset_variance = np.zeros(0), None
    centre = 0.0, np.zeros(0)
    for term, block in pairs:
        if isinstance(block, DenseBlock):
            mean, half = block.mean, np.ascontiguousarray(block.inverse_chol)
            average = term.average_item()
            centre = centre[0] + float(average @ mean), half @ average
            if term.offsets:
                offset_mean = term.split(mean)[1].copy()
        else:
            offset_mean, offset_variance = block.mean, block.covariance_diagonal
            centre = centre[0] + float(offset_mean.mean()), centre[1]
    return PairPosterior(basis, mean, half, offset_mean, offset_variance, config.offsets, config.order, scales, *centre)
