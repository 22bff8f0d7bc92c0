"""The search for hyper-parameters of ordinal models: what is free, what is tied, what is believed beforehand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skpref._math.linalg import NotPositiveDefiniteError
from skpref.gp.ordinal.evidence import Seen
from skpref.inference import hyper

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, IntArray
    from skpref.gp.ordinal.evidence import Evidence
    from skpref.likelihoods import OrdinalProbit

_HOPELESS = 1e10  # nats: what a point without a usable evidence counts
_LOG_NOISE = np.log([1e-3, 1e2])  # in units of the prior standard deviation of f, as all that follow
_FIRST_THRESHOLD = (-1e2, 1e2)
_LOG_GAP = np.log([1e-4, 1e2])
_RESTART = 1.5  # restarts are drawn within so many e-folds of the first start


class Belief(NamedTuple):
    """A normal prior on a weighted sum of hyper-parameters, a^T theta ~ N(mean, sd^2)."""

    weights: Array
    mean: float
    sd: float


@dataclass(frozen=True, eq=False)
class Space:
    """Hyper-parameters of kernel and likelihood as the free numbers of a search."""

    kernel: Kernel | None  # start; None where the covariance is given
    likelihood: OrdinalProbit  # start
    # (n_theta,): number of the free parameter by which each of the kernel's is shifted: tied ones share a number
    group: IntArray | None = None
    beliefs: tuple[Belief, ...] = ()  # priors on (kernel theta, likelihood theta), beside flat ones within the bounds

    @property
    def kernel_theta(self) -> Array:
        """The kernel's theta at the start."""
        return np.zeros(0) if self.kernel is None else np.asarray(self.kernel.theta)

    @property
    def _groups(self) -> IntArray:
        return np.arange(self.kernel_theta.size) if self.group is None else self.group

    @property
    def n_kernel(self) -> int:
        """Free parameters of the kernel."""
        return int(self._groups.max(initial=-1)) + 1

    @property
    def start(self) -> Array:
        """Shifts of the kernel's parameters, then the likelihood's theta."""
        return np.concatenate([np.zeros(self.n_kernel), self.likelihood.theta])

    @property
    def bounds(self) -> Array:
        """Limits of the free parameters, shape (n_free, 2): those that all tied ones keep."""
        theta, groups = self.kernel_theta, self._groups
        own = np.tile([-np.inf, np.inf], (self.n_kernel, 1))
        if self.kernel is not None and theta.size:
            room = self.kernel.bounds - theta[:, None]
            np.maximum.at(own[:, 0], groups, room[:, 0])
            np.minimum.at(own[:, 1], groups, room[:, 1])
        r = self.likelihood.n_levels
        return np.vstack([own, [_LOG_NOISE, _FIRST_THRESHOLD], np.tile(_LOG_GAP, (r - 2, 1))])

    @property
    def box(self) -> Array:
        """Where restarts are drawn: around the start, thresholds as they are."""
        spread = np.zeros(self.start.size)
        spread[: self.n_kernel + 1] = _RESTART
        return np.column_stack([self.start - spread, self.start + spread])

    def at(self, free: Array) -> tuple[Kernel | None, OrdinalProbit]:
        """Return kernel and likelihood at a point."""
        k = self.n_kernel
        kernel = self.kernel
        if kernel is not None:
            kernel = kernel.clone_with_theta(self.kernel_theta + free[:k][self._groups])
        return kernel, self.likelihood.with_theta(free[k:])

    def log_prior(self, theta: Array) -> tuple[float, Array]:
        """Return the log density of the beliefs, up to a constant, and its gradient."""
        value, gradient = 0.0, np.zeros_like(theta)
        for weights, mean, sd in self.beliefs:
            off = (float(weights @ theta) - mean) / sd
            value -= 0.5 * off * off
            gradient -= off / sd * weights
        return value, gradient

    def gathered(self, gradient: Array) -> Array:
        """Return the gradient in the free parameters, shape (n_free,)."""
        n = self._groups.size
        return np.concatenate([np.bincount(self._groups, gradient[:n], self.n_kernel), gradient[n:]])


@dataclass(eq=False)
class Objective:
    """Log evidence plus log prior over the free parameters of a space."""

    evidence: Evidence  # (kernel, likelihood) -> `Seen`
    space: Space  # what is free
    best: float = -np.inf  # highest value so far
    trace: list[float] = field(default_factory=list)  # all values

    def __call__(self, free: Array, /) -> tuple[float, Array]:
        """Return the value and its gradient."""
        kernel, likelihood = self.space.at(free)
        try:
            seen = self.evidence(kernel, likelihood)
        except NotPositiveDefiniteError:
            if not self.trace:
                raise  # at the start: nothing to search from
            seen = Seen(-np.inf, np.zeros(self.space.kernel_theta.size), np.zeros(likelihood.n_levels), converged=False)
        own = np.concatenate([seen.in_kernel, seen.in_likelihood])
        theta = np.concatenate([np.zeros(0) if kernel is None else kernel.theta, likelihood.theta])
        prior, slope = self.space.log_prior(theta)
        value, gradient = seen.value + prior, self.space.gathered(own + slope)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            value, gradient = -_HOPELESS, np.zeros_like(free)
        self.best = max(self.best, value)
        self.trace.append(value)
        return value, gradient


def search(
    objective: Objective, *, n_restarts: int = 0, rng: np.random.Generator | None = None, max_iter: int = 100
) -> tuple[Kernel | None, OrdinalProbit, hyper.Optimum]:
    """Maximise by L-BFGS-B."""
    space = objective.space
    best = hyper.maximise(
        objective, space.start, space.bounds, n_restarts=n_restarts, rng=rng, box=space.box, max_iter=max_iter
    )
    return *space.at(best.theta), best
