"""From rows and targets to a posterior of f: kernel, noise and inducing points by the collapsed bound.

Up to four searches by L-BFGS-B, each from where the last one ended: hyper-parameters by the evidence of a few rows
themselves; by the bound, with inducing points chosen by the length-scales found; points and hyper-parameters together,
where that pays; and, where these looked at a sample of the rows, the hyper-parameters with all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process.kernels import ConstantKernel

from skpref import inducing, kernels
from skpref._math.threads import limit_blas_threads
from skpref.exceptions import DataError
from skpref.gp.default_kernels import named_kernel
from skpref.gp.posterior import SparseLatent
from skpref.gp.sparse.evidence import bound, evidence
from skpref.inference import hyper
from skpref.inference.basis import InducingBasis
from skpref.inference.collapsed import collapse

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.gp.sparse.evidence import GaussianRows
    from skpref.inference.collapsed import Collapsed, Moments

__all__ = [
    "Run",
    "Slopes",
    "SparseConfig",
    "SparseFit",
    "SparseStart",
    "first_start",
    "fit_collapsed",
    "follow",
    "going_on",
]

_AMPLITUDE: Final = (1e-4, 1e4)  # of the default kernel's variance, in variances of the targets
_NOISE: Final = (1e-7, 1e2)  # of the noise variance, in variances of the targets
_START_NOISE: Final = 0.1
_ALL_NOISE: Final = 0.95  # of the variance of the targets
_SHORTER: Final = 0.4
_GLANCE: Final = 400  # rows whose own evidence tells where to start
_LEAST_NOISE: Final = 0.01  # after which noise starts again: a few rows may be explained without any
_ALL: Final = 2_000  # rows up to which the plain start is tried with all rows as well
_FEW: Final = 10_000  # rows that all searches look at
_LAST: Final = 10  # iterations of the last search, which sees all of more rows than that: it begins near its end
_LOOKS: Final = 4  # evaluations of a line search of it
_MANY: Final = 1_000_000  # rows beyond which the last search is left out, and noise alone follows all rows
_OPEN: Final = 0.001  # nats a row that the inducing points leave open, from which "auto" moves them
_LITTLE, _MEMORY = 10, 50  # steps from which a search learns curvature, of hyper-parameters and of points too
_GAIN: Final = 10.0  # times the tolerance of other models: an iteration gains 1e-5 nats a row, or the search ends


@dataclass(frozen=True)
class SparseConfig:
    """What an estimator's parameters ask of a fit."""

    optimizer: str | None  # whether hyper-parameters are learnt
    n_inducing: int  # inducing points at most
    inducing: str | Features  # how they are chosen
    learn_inducing: bool | str  # whether they are moved by the gradient
    noise: float | None  # variance of the noise in variances of the targets; None = learnt
    max_iter: int  # iterations of a search
    tol: float  # relative gain at which a search ends
    on_value: Callable[[float], object] | None = None  # told the bound at every evaluation, a row


@dataclass(frozen=True, eq=False)
class SparseStart:
    """Where an earlier fit ended: what a warm start goes on from."""

    kernel: Kernel  # with its learnt hyper-parameters
    noise: float  # variance of the noise, in variances of the targets
    points: Features  # (M, d): inducing points


@dataclass(frozen=True, eq=False)
class SparseFit:
    """Result of a fit."""

    latent: SparseLatent  # posterior of f
    end: SparseStart  # hyper-parameters and inducing points
    bound: float  # lower bound on the log evidence of the standardised targets, in nats
    bounds: list[float]  # its values in the search
    n_iter: int  # evaluations of the bound in the search; at least 1
    converged: bool  # whether every search for kernel and noise ended by itself
    moments: Moments  # sums over the rows behind it


def start_kernel(kernel: Kernel | None, X: Features, rng: np.random.Generator) -> Kernel:
    """Return the kernel that a search starts from: a copy of the given one, or the default for these features."""
    if kernel is not None:
        return clone(kernel)
    with np.errstate(over="ignore", invalid="ignore"):
        named = named_kernel("ard", X, rng)
        sound = bool(np.all(np.isfinite(named.theta)) and np.all(np.isfinite(named.bounds)))
    if not sound:
        msg = "X holds numbers whose squares overflow or vanish in floating point: scale the features."
        raise DataError(msg)
    return ConstantKernel(1.0, _AMPLITUDE) * named.clone_with_theta(named.theta - 0.5)


def choose_points(X: Features, kernel: Kernel, config: SparseConfig, rng: np.random.Generator) -> Features:
    """Choose inducing points, distances measured in the kernel's length-scales where it has some, shape (M, d)."""
    params = kernel.get_params()
    scales = [value for name, value in sorted(params.items()) if name.endswith("length_scale")]
    scale: Any = scales[0] if len(scales) == 1 and np.all(np.isfinite(scales[0])) else None
    return inducing.choose(X, config.n_inducing, config.inducing, rng, scale, kernel=kernel)


class Slopes(NamedTuple):
    """A bound, and its gradient in the kernel's theta, the log of the noise variance and the inducing points."""

    value: float
    theta: Array
    log_noise: float
    points: Array | None


class Look(Protocol):
    """A bound as a function of kernel, noise and points."""

    def __call__(self, here: SparseStart, /) -> tuple[Slopes, float]:
        """Value with gradients, and the sum of the weights behind it."""


@dataclass(eq=False)
class _Search:
    """The bound a unit of weight as a function of the free hyper-parameters (and points, in length-scales)."""

    look: Look
    start: SparseStart
    held_noise: bool
    unit: Array | None
    on_value: Callable[[float], object] | None
    trace: list[float] = field(default_factory=list)

    @property
    def theta(self) -> Array:
        parts = [self.start.kernel.theta]
        if not self.held_noise:
            parts.append(np.log([self.start.noise]))
        if self.unit is not None:
            parts.append(np.ravel(self.start.points / self.unit))
        return np.concatenate(parts)

    @property
    def bounds(self) -> Array:
        parts = [np.reshape(self.start.kernel.bounds, (-1, 2))]
        if not self.held_noise:
            parts.append(np.log([_NOISE]))
        if self.unit is not None:
            parts.append(np.tile([-np.inf, np.inf], (self.start.points.size, 1)))
        return np.concatenate(parts)

    def at(self, theta: Array) -> SparseStart:
        kernel, noise, points = self.start.kernel, self.start.noise, self.start.points
        n = kernel.n_dims
        kernel = kernel.clone_with_theta(theta[:n])
        if not self.held_noise:
            noise, n = float(np.exp(theta[n])), n + 1
        if self.unit is not None:
            points = theta[n:].reshape(points.shape) * self.unit
        return SparseStart(kernel, noise, points)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        seen, total = self.look(self.at(theta))
        parts = [seen.theta]
        if not self.held_noise:
            parts.append(np.array([seen.log_noise]))
        if self.unit is not None:
            assert seen.points is not None  # noqa: S101 - `can_move` was asked
            parts.append(np.ravel(seen.points * self.unit))
        self.trace.append(seen.value)
        if self.on_value is not None:
            self.on_value(seen.value / total)
        return seen.value / total, np.concatenate(parts) / total


def fit_collapsed(
    rows: GaussianRows,
    kernel: Kernel | None,
    config: SparseConfig,
    rng: np.random.Generator,
    start: SparseStart | None = None,
    *,
    anew: bool = False,
) -> SparseFit:
    """Fit Gaussian-process regression through inducing points by the collapsed bound."""
    with limit_blas_threads(min(config.n_inducing, rows.n)):
        sample = rows.sample(_FEW, rng)
        earlier = None if start is None else going_on(rows.X, start, config, rng)
        if config.optimizer is None:
            return Run(config, earlier or first_start(rows.X, kernel, config, rng)).result(rows)
        if earlier is not None and not anew:
            run = Run(config, earlier)
            run.search(_cheapest(sample, earlier))
        else:
            run = _begun(rows, sample, kernel, config, rng, earlier)
        if _pays(sample, run.end, config):
            run.search(_collapsed(sample), points=True)
        if sample.n < rows.n <= _MANY:
            run.search(_collapsed(rows), most=_LAST)
        return run.result(rows)


def _begun(
    rows: GaussianRows,
    sample: GaussianRows,
    kernel: Kernel | None,
    config: SparseConfig,
    rng: np.random.Generator,
    earlier: SparseStart | None,
) -> Run:
    """Return a run after its search with points held, the best of a few starts behind it."""
    few = sample.sample(_GLANCE, rng)
    unlearnt = _unlearnt(kernel, few.X, config, rng)
    glance = Run(config, unlearnt)
    glance.search(_evidence(few))
    # Another start may lead to another optimum: shorter scales, what an earlier fit of other rows has found.
    others = [shorter(unlearnt)] if _doubtful(kernel, glance.end) else []
    glance.try_also(others, _evidence(few))
    noise = glance.end.noise if config.noise is not None else max(glance.end.noise, _LEAST_NOISE)
    found = replace(glance.end, noise=noise, points=choose_points(rows.X, glance.end.kernel, config, rng))
    run, look = Run(config, found, scale=glance.scale), _cheapest(sample, found)
    run.search(look)
    others = [] if earlier is None else [earlier]
    if few.n < rows.n <= _ALL:
        others.append(first_start(rows.X, kernel, config, rng))
    run.try_also(others, look)
    return run


def first_start(
    X: Features, kernel: Kernel | None, config: SparseConfig, rng: np.random.Generator, noise: float = _START_NOISE
) -> SparseStart:
    """Return where a search starts that knows nothing yet."""
    first = _unlearnt(kernel, X, config, rng, noise)
    return replace(first, points=choose_points(X, first.kernel, config, rng))


def _unlearnt(
    kernel: Kernel | None, X: Features, config: SparseConfig, rng: np.random.Generator, noise: float = _START_NOISE
) -> SparseStart:
    """Where a search starts that knows nothing yet, all rows for points."""
    return SparseStart(start_kernel(kernel, X, rng), noise if config.noise is None else config.noise, X)


def going_on(X: Features, earlier: SparseStart, config: SparseConfig, rng: np.random.Generator) -> SparseStart:
    """Return where a search starts that goes on from an earlier one: its points, once they are as many as may be."""
    points, noise = earlier.points, earlier.noise if config.noise is None else config.noise
    if not isinstance(config.inducing, str) or points.shape[0] < config.n_inducing:
        points = choose_points(X, earlier.kernel, config, rng)
    return SparseStart(earlier.kernel, noise, points)


def _doubtful(kernel: Kernel | None, end: SparseStart) -> bool:
    """Whether to start again: the default kernel's start is a guess; one that calls all noise looked too far."""
    return kernel is None or end.noise > _ALL_NOISE


def shorter(start: SparseStart) -> SparseStart:
    """Return the start with shorter length-scales, within their bounds."""
    kernel = start.kernel
    names = [h.name for h in kernel.hyperparameters if not h.fixed for _ in range(h.n_elements)]
    shift = np.array([np.log(_SHORTER) if name.endswith("length_scale") else 0.0 for name in names])
    bounds = np.reshape(kernel.bounds, (-1, 2))
    return SparseStart(
        kernel.clone_with_theta(np.clip(kernel.theta + shift, bounds[:, 0], bounds[:, 1])), start.noise, start.points
    )


def _pays(rows: GaussianRows, end: SparseStart, config: SparseConfig) -> bool:
    if not may_move(rows.X, end, config):
        return False
    if config.learn_inducing is True:
        return True
    seen = bound(rows, InducingBasis.at(end.kernel, end.points), end.noise, gradient=False).moments
    return pays_to_move(0.5 * (seen.prior - float(np.trace(seen.gram))) / end.noise, seen.weight)


def may_move(X: Features, end: SparseStart, config: SparseConfig) -> bool:
    """Tell whether inducing points can and may be moved."""
    if config.learn_inducing is False or sparse.issparse(X) or not kernels.moves_points(end.kernel, end.points):
        return False
    few = 3 * end.points.shape[0] <= 2 * X.shape[0]
    return config.learn_inducing is True or (isinstance(config.inducing, str) and few)


def pays_to_move(left_open: float, weight: float) -> bool:
    """Tell whether inducing points leave enough open for it to pay to move them."""
    return left_open > _OPEN * weight


def _cheapest(rows: GaussianRows, start: SparseStart) -> Look:
    """The bound; where the points are the rows it is the evidence, which is had with fewer products."""
    # Other kernels may hold white noise, of which points say nothing.
    plain = kernels.moves_points(start.kernel, start.points) and not sparse.issparse(rows.X)
    return _evidence(rows) if plain and np.array_equal(start.points, rows.X) else _collapsed(rows)


def _evidence(rows: GaussianRows) -> Look:
    def look(here: SparseStart) -> tuple[Slopes, float]:
        return Slopes(*evidence(rows, here.kernel, here.noise), None), float(rows.weight.sum())

    return look


def _collapsed(rows: GaussianRows) -> Look:
    def look(here: SparseStart) -> tuple[Slopes, float]:
        seen = bound(rows, InducingBasis.at(here.kernel, here.points), here.noise)
        return Slopes(seen.value, seen.theta, seen.log_noise, seen.points), seen.moments.weight

    return look


@dataclass(eq=False)
class Run:
    """A fit on its way: where its searches have come to, and what they saw."""

    config: SparseConfig  # parameters
    end: SparseStart  # where it stands
    trace: list[float] = field(default_factory=list)  # values of the bound
    converged: bool = True  # whether all searches ended by themselves
    scale: Array | None = None  # (n_theta,): how far hyper-parameters vary, from the last search

    def search(self, look: Look, *, points: bool = False, most: int | None = None) -> None:
        """Search from where this stands."""
        end, config = self.end, self.config
        unit = _length_scales(end) if points else None
        task = _Search(look, end, config.noise is not None, unit, config.on_value)
        if not task.theta.size:
            return
        best = hyper.maximise(
            task,
            task.theta,
            task.bounds,
            max_iter=config.max_iter if most is None else min(config.max_iter, most),
            tol=_GAIN * config.tol,
            memory=_MEMORY if points else _LITTLE,
            scale=None if points else self.scale,
            most_looks=20 if most is None else _LOOKS,
        )
        self.end = task.at(best.theta)
        self.scale = self.scale if points else best.scale
        # Points can be moved for ever at little gain: their search ends with its iterations, and that is no failure.
        self.converged = self.converged and (best.converged or points or most is not None)
        self.trace += task.trace

    def try_also(self, starts: list[SparseStart], look: Look) -> None:
        """Search from further starts; the highest bound wins."""
        for start in starts:
            other = Run(self.config, start)
            other.search(look)
            if max(other.trace, default=-np.inf) > max(self.trace, default=-np.inf):
                self.end, self.converged, self.trace = other.end, other.converged, self.trace + other.trace
                self.scale = other.scale

    def result(self, rows: GaussianRows) -> SparseFit:
        """Return the collapsed fit of some rows at the end of the search."""
        basis = InducingBasis.at(self.end.kernel, self.end.points)
        seen = bound(rows, basis, self.end.noise, gradient=False)
        latent = latent_of(basis, seen.collapsed)
        trace = [*self.trace, seen.value]
        return SparseFit(latent, self.end, seen.value, trace, len(trace), self.converged, seen.moments)


def latent_of(basis: InducingBasis, seen: Collapsed) -> SparseLatent:
    """Return the posterior of f that a bound belongs to."""
    return SparseLatent(basis, seen.mean[:, 0], np.ascontiguousarray(seen.block.inverse_chol))


def _length_scales(end: SparseStart) -> Array:
    """Units in which points are moved: the least length-scale of every feature."""
    params = end.kernel.get_params()
    scales = [
        np.broadcast_to(np.asarray(value, dtype=np.float64), end.points.shape[1])
        for name, value in sorted(params.items())
        if name.endswith("length_scale")
    ]
    return np.min(scales, axis=0) if scales else np.ones(end.points.shape[1])


def follow(moments: Moments, start: SparseStart, basis: InducingBasis, config: SparseConfig) -> SparseFit:
    """Return the posterior of all rows behind some sums, kernel and points held, the noise learnt from the sums."""

    def of_noise(theta: Array) -> tuple[float, Array]:
        seen = collapse(moments, float(np.exp(-theta[0])))
        return seen.value / moments.weight, np.array([-seen.log_beta]) / moments.weight

    noise = start.noise if config.noise is None else config.noise
    n_iter, converged = 1, True
    if config.noise is None and config.optimizer is not None:
        best = hyper.maximise(of_noise, np.log([noise]), np.log([_NOISE]), max_iter=config.max_iter, tol=config.tol)
        noise, n_iter, converged = float(np.exp(best.theta[0])), best.n_evaluations, best.converged
    seen = collapse(moments, 1.0 / noise)
    end = SparseStart(start.kernel, noise, start.points)
    return SparseFit(latent_of(basis, seen), end, seen.value, [seen.value], n_iter, converged, moments)
