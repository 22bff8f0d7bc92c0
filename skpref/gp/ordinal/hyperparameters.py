"""Hyper-parameters of ordinal models: which are free, which are tied, their priors, and the search for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from skpref._math.linalg import NotPositiveDefiniteError
from skpref.gp.hyperpriors import NormalPrior, log_density
from skpref.gp.ordinal.evidence import EvidenceValue
from skpref.gp.ordinal.policy import POLICY
from skpref.inference import hyper

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, IntArray
    from skpref.gp.ordinal.evidence import Evidence
    from skpref.likelihoods import OrdinalProbit

# Bounds of the likelihood's parameters, in prior standard deviations of f: beyond them predictions hardly change.
_LOG_NOISE = np.log([1e-3, 1e2])
_LOG_GAP = np.log([1e-4, 1e2])


@dataclass(frozen=True, eq=False)
class HyperparameterSpace:
    """The free parameters of a search: shifts of the kernel's theta, and the likelihood's theta."""

    kernel: Kernel | None  # start; None for a precomputed covariance
    likelihood: OrdinalProbit  # start
    # (n_theta,): for each entry of the kernel's theta the number of its shift; tied entries share one
    group: IntArray | None = None
    priors: tuple[NormalPrior, ...] = ()  # of (kernel theta, likelihood theta), times flat ones within the bounds

    @property
    def kernel_theta(self) -> Array:
        """The kernel's theta at the start."""
        return np.zeros(0) if self.kernel is None else np.asarray(self.kernel.theta)

    @property
    def _groups(self) -> IntArray:
        return np.arange(self.kernel_theta.size) if self.group is None else self.group

    @property
    def n_kernel(self) -> int:
        """Number of shifts of the kernel's theta."""
        return int(self._groups.max(initial=-1)) + 1

    @property
    def start(self) -> Array:
        """Shifts of 0, then the likelihood's theta, shape (n_free,)."""
        return np.concatenate([np.zeros(self.n_kernel), self.likelihood.theta])

    @property
    def bounds(self) -> Array:
        """Limits of the free parameters, the narrowest of tied entries, shape (n_free, 2)."""
        theta, groups = self.kernel_theta, self._groups
        shifts = np.tile([-np.inf, np.inf], (self.n_kernel, 1))
        if self.kernel is not None and theta.size:
            room = self.kernel.bounds - theta[:, None]
            np.maximum.at(shifts[:, 0], groups, room[:, 0])
            np.minimum.at(shifts[:, 1], groups, room[:, 1])
        r = self.likelihood.n_levels
        return np.vstack([shifts, [_LOG_NOISE, POLICY.first_threshold], np.tile(_LOG_GAP, (r - 2, 1))])

    @property
    def restart_box(self) -> Array:
        """Limits of restarts, shape (n_free, 2): around the start, with the thresholds of the start."""
        spread = np.zeros(self.start.size)
        spread[: self.n_kernel + 1] = POLICY.restart_width
        return np.column_stack([self.start - spread, self.start + spread])

    def evaluate(self, free: Array) -> tuple[Kernel | None, OrdinalProbit]:
        """Return kernel and likelihood at values of the free parameters, shape (n_free,)."""
        k = self.n_kernel
        kernel = self.kernel
        if kernel is not None:
            kernel = kernel.clone_with_theta(self.kernel_theta + free[:k][self._groups])
        return kernel, self.likelihood.with_theta(free[k:])

    def log_prior(self, theta: Array) -> tuple[float, Array]:
        """Return the log density of the priors at (kernel theta, likelihood theta), up to a constant, with gradient."""
        return log_density(self.priors, theta)

    def free_gradient(self, gradient: Array) -> Array:
        """Pull a gradient in (kernel theta, likelihood theta) back to the free parameters, shape (n_free,)."""
        n = self._groups.size
        return np.concatenate([np.bincount(self._groups, gradient[:n], self.n_kernel), gradient[n:]])


@dataclass(eq=False)
class LogPosterior:
    """Log evidence plus log prior as a function of the free parameters."""

    evidence: Evidence
    space: HyperparameterSpace
    best: float = -np.inf  # highest value so far
    trace: list[float] = field(default_factory=list)  # all values
    n_unconverged: int = 0  # evaluations whose inference did not converge

    def __call__(self, free: Array, /) -> tuple[float, Array]:
        """Return the value and its gradient."""
        kernel, likelihood = self.space.evaluate(free)
        try:
            result = self.evidence(kernel, likelihood)
            self.n_unconverged += not result.converged
        except NotPositiveDefiniteError:
            if not self.trace:
                raise  # at the start: there is nothing to search from
            n_kernel, n_likelihood = self.space.kernel_theta.size, likelihood.n_levels
            result = EvidenceValue(-np.inf, np.zeros(n_kernel), np.zeros(n_likelihood), converged=False)
        theta = np.concatenate([np.zeros(0) if kernel is None else kernel.theta, likelihood.theta])
        prior, slope = self.space.log_prior(theta)
        in_theta = np.concatenate([result.in_kernel, result.in_likelihood]) + slope
        value, gradient = result.value + prior, self.space.free_gradient(in_theta)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            value, gradient = -1e10, np.zeros_like(free)  # nats, where there is no finite evidence
        self.best = max(self.best, value)
        self.trace.append(value)
        return value, gradient


def search(
    objective: LogPosterior,
    *,
    n_restarts: int = 0,
    rng: np.random.Generator | None = None,
    max_iter: int = 100,
    tol: float = 1e-4,
) -> tuple[Kernel | None, OrdinalProbit, hyper.Optimum]:
    """Maximise by L-BFGS-B, and return kernel and likelihood at the optimum."""
    space = objective.space

    def value(free: Array) -> tuple[float, Array]:
        if objective.n_unconverged >= POLICY.most_unconverged:
            raise hyper.BudgetSpentError
        return objective(free)

    best = hyper.maximise(
        value,
        space.start,
        space.bounds,
        n_restarts=n_restarts,
        rng=rng,
        box=space.restart_box,
        max_iter=max_iter,
        tol=tol,
    )
    return *space.evaluate(best.theta), best
