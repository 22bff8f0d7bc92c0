"""Search by L-BFGS-B for kernel, noise variance and inducing points, by any objective with gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from skpref import kernels
from skpref.gp.hyperpriors import log_density, no_priors
from skpref.gp.sparse.evidence import bound, evidence
from skpref.gp.sparse.policy import POLICY
from skpref.inference import hyper
from skpref.inference.basis import InducingBasis

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.gp.hyperpriors import Priors, PriorsOfKernel
    from skpref.gp.sparse.evidence import GaussianRows

__all__ = [
    "Objective",
    "ObjectiveValue",
    "SparseConfig",
    "SparseParameters",
    "SparseSearch",
    "bound_objective",
    "cheapest_objective",
    "evidence_objective",
    "length_scales",
]


@dataclass(frozen=True)
class SparseConfig:
    """Settings of a fit, from an estimator's parameters."""

    optimizer: str | None  # None: hyper-parameters stay as they are
    n_inducing: int  # largest number of inducing points
    inducing: str | Features  # how they are chosen, or the points
    learn_inducing: bool | str  # whether the gradient moves them
    noise: float | None  # variance of the noise in variances of the targets; None: learnt
    max_iter: int  # iterations of a search
    tol: float  # gain at which a search ends
    on_value: Callable[[float], object] | None = None  # called with the bound per row after every evaluation
    smoothness: float = 1.5  # nu of the default kernel, a Matern kernel; infinite: the squared exponential
    linear_rows: int = 0  # number of rows up to which the default kernel has a linear part
    most_inducing: int = 0  # number of inducing points where `n_inducing` lose much; 0: there they are moved
    rounding: float = 0.0  # variance of the error of rounding, in variances of the targets

    @property
    def noise_bounds(self) -> tuple[float, float]:
        """Bounds of a noise variance that is learnt, in variances of the targets."""
        return max(POLICY.noise_bounds[0], self.rounding), POLICY.noise_bounds[1]


@dataclass(frozen=True, eq=False)
class SparseParameters:
    """What a search moves."""

    kernel: Kernel  # with its hyper-parameters
    noise: float  # variance of the noise, in variances of the targets
    points: Features  # (M, d): inducing points


class ObjectiveValue(NamedTuple):
    """A bound with its gradients in the kernel's theta, the log of the noise variance and the inducing points."""

    value: float
    theta: Array
    log_noise: float
    points: Array | None


class Objective(Protocol):
    """A bound as a function of kernel, noise and inducing points."""

    def __call__(self, parameters: SparseParameters, /) -> tuple[ObjectiveValue, float]:
        """Return the bound with its gradients, and the sum of the weights of its rows."""


def evidence_objective(rows: GaussianRows) -> Objective:
    """Return the exact evidence of the rows, which does not depend on inducing points."""

    def objective(parameters: SparseParameters) -> tuple[ObjectiveValue, float]:
        value = evidence(rows, parameters.kernel, parameters.noise)
        return ObjectiveValue(*value, None), float(rows.weight.sum())

    return objective


def bound_objective(rows: GaussianRows) -> Objective:
    """Return the collapsed bound of the rows."""

    def objective(parameters: SparseParameters) -> tuple[ObjectiveValue, float]:
        result = bound(rows, InducingBasis.from_points(parameters.kernel, parameters.points), parameters.noise)
        return ObjectiveValue(result.value, result.theta, result.log_noise, result.points), result.moments.weight

    return objective


def cheapest_objective(rows: GaussianRows, start: SparseParameters) -> Objective:
    """Return the evidence where the inducing points are the rows, so that it equals the bound; else the bound."""
    # Other kernels may hold white noise, which covariances with inducing points leave out.
    smooth = kernels.moves_points(start.kernel, start.points) and not sparse.issparse(rows.X)
    return evidence_objective(rows) if smooth and np.array_equal(start.points, rows.X) else bound_objective(rows)


@dataclass(eq=False)
class _PackedObjective:
    """An objective per unit of weight as a function of one vector: kernel theta, log noise, points in length-scales."""

    objective: Objective
    start: SparseParameters
    priors: Priors  # of the kernel's theta
    fixed_noise: bool
    noise_bounds: tuple[float, float]
    point_scale: Array | None  # (d,): unit of the points' coordinates; None: points stay
    on_value: Callable[[float], object] | None
    trace: list[float] = field(default_factory=list)

    @property
    def theta(self) -> Array:
        """The start as one vector."""
        parts = [self.start.kernel.theta]
        if not self.fixed_noise:
            parts.append(np.log([self.start.noise]))
        if self.point_scale is not None:
            parts.append(np.ravel(self.start.points / self.point_scale))
        return np.concatenate(parts)

    @property
    def bounds(self) -> Array:
        """Limits of the vector, shape (n, 2)."""
        parts = [np.reshape(self.start.kernel.bounds, (-1, 2))]
        if not self.fixed_noise:
            parts.append(np.log([self.noise_bounds]))
        if self.point_scale is not None:
            parts.append(np.tile([-np.inf, np.inf], (self.start.points.size, 1)))
        return np.concatenate(parts)

    def unpack(self, theta: Array) -> SparseParameters:
        """Return the parameters that a vector stands for."""
        kernel, noise, points = self.start.kernel, self.start.noise, self.start.points
        n = kernel.n_dims
        kernel = kernel.clone_with_theta(theta[:n])
        if not self.fixed_noise:
            noise, n = float(np.exp(theta[n])), n + 1
        if self.point_scale is not None:
            points = theta[n:].reshape(points.shape) * self.point_scale
        return SparseParameters(kernel, noise, points)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return value and gradient per unit of weight."""
        parameters = self.unpack(theta)
        result, weight = self.objective(parameters)
        prior, slope = log_density(self.priors, parameters.kernel.theta)
        value, parts = result.value + prior, [result.theta + slope]
        if not self.fixed_noise:
            penalty = POLICY.little_noise / parameters.noise if self.priors else 0.0
            value -= penalty
            parts.append(np.array([result.log_noise + penalty]))
        if self.point_scale is not None:
            assert result.points is not None  # noqa: S101 - `may_move_points` was asked
            parts.append(np.ravel(result.points * self.point_scale))
        self.trace.append(value)
        if self.on_value is not None:
            self.on_value(value / weight)  # stages differ in their rows
        return value / weight, np.concatenate(parts) / weight


@dataclass(eq=False)
class SparseSearch:
    """One search after the other, each from the parameters at which the one before it ended."""

    config: SparseConfig
    parameters: SparseParameters  # the best so far
    trace: list[float] = field(default_factory=list)  # the objective at every evaluation
    n_iter: int = 1  # iterations of the longest search
    converged: bool = True  # whether all searches met their tolerance
    cut_short: bool = False  # whether one of them did not, and more iterations may help
    scale: Array | None = None  # (n_theta,): unit of every hyper-parameter, learnt by the search before
    priors: PriorsOfKernel = no_priors  # of the kernel's theta: their log density is added to every objective

    def ascend(
        self, objective: Objective, *, move_points: bool = False, max_iter: int | None = None, tol: float | None = None
    ) -> None:
        """Search from here; `max_iter` is a planned length, at which to end is no failure."""
        packed, config = self._packed(objective, move_points=move_points), self.config
        if not packed.theta.size:
            return
        best = hyper.maximise(
            packed,
            packed.theta,
            packed.bounds,
            max_iter=config.max_iter if max_iter is None else min(config.max_iter, max_iter),
            tol=POLICY.tol_factor * (config.tol if tol is None else tol),
            memory=POLICY.memory_of_points if move_points else 10,
            scale=None if move_points else self.scale,
            most_looks=20 if max_iter is None else POLICY.line_steps_capped,
        )
        self.parameters = packed.unpack(best.theta)
        self.scale = self.scale if move_points else best.scale
        # Points gain a little with every iteration: their search ends by max_iter, and that is no failure.
        if not (move_points or max_iter is not None):
            self.converged, self.cut_short = self.converged and best.converged, self.cut_short or best.cut_short
        self.trace += packed.trace
        self.n_iter = max(self.n_iter, best.n_iter)

    def value(self, objective: Objective) -> float:
        """Return another objective, with the priors, at the end of the search."""
        packed = self._packed(objective)
        packed(packed.theta)
        return packed.trace[-1]

    def _packed(self, objective: Objective, *, move_points: bool = False) -> _PackedObjective:
        """Return an objective as a function of one vector, from here."""
        start, config = self.parameters, self.config
        point_scale = length_scales(start) if move_points else None
        priors, fixed_noise = self.priors(start.kernel), config.noise is not None
        return _PackedObjective(
            objective, start, priors, fixed_noise, config.noise_bounds, point_scale, config.on_value
        )

    def compare(self, starts: list[SparseParameters], objective: Objective) -> None:
        """Search from other starts too; the highest objective wins."""
        for start in starts:
            other = SparseSearch(self.config, start, priors=self.priors)
            other.ascend(objective)
            self.n_iter = max(self.n_iter, other.n_iter)
            if other.height > self.height:
                self.parameters, self.scale = other.parameters, other.scale
                self.converged, self.cut_short = other.converged, other.cut_short
                self.trace = self.trace + other.trace

    @property
    def height(self) -> float:
        """The highest value of the objective."""
        return max(self.trace, default=-np.inf)


def length_scales(parameters: SparseParameters) -> Array:
    """Return the shortest length-scale of every feature, 1 for kernels without, shape (d,)."""
    d = parameters.points.shape[1]
    scales = [
        np.broadcast_to(np.asarray(value, dtype=np.float64), d)
        for name, value in sorted(parameters.kernel.get_params().items())
        if name.endswith("length_scale")
    ]
    return np.min(scales, axis=0) if scales else np.ones(d)
