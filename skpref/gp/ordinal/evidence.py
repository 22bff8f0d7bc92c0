"""Evidence of ordered labels and its gradient: at the inputs themselves, or through inducing points ([CG05])."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from skpref import kernels
from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.ep import cavities, ep_gradient, expectation_propagation, variational_bound
from skpref.inference.laplace import laplace, laplace_gradient, mode_adjoint
from skpref.inference.scale import FixedScale
from skpref.inference.terms.base import RowTerm, Segment
from skpref.inference.terms.inducing import inducing_gradient

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.inference.exact import ExactPosterior
    from skpref.likelihoods import OrdinalProbit

_SEARCH_BOUND_TOL = 1e-4  # of a sparse fit within a search, as `Schedule.tol`
_MODE_TOL = 1e-5  # error of Laplace's mode in posterior standard deviations
_NEAR = 1.5  # log hyper-parameters that differ by less share a start


@dataclass(frozen=True, eq=False)
class OrdinalData:
    """Distinct labelled rows."""

    X: Features  # (n, d): rows; None where the covariance is given
    y: Array  # (n,): numbers of levels
    weight: Array  # (n,): how often each occurs (weights > 0)
    K: Array | None = None  # (n, n): the covariance, where it is given

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.y.shape[0])

    def covariance(self, kernel: Kernel | None) -> Array:
        """Return the prior covariance of f at the rows, shape (n, n)."""
        if kernel is None:
            assert self.K is not None  # noqa: S101 - one of the two is given
            return self.K
        return kernels.gram(kernel, self.X)

    def pulled(self, kernel: Kernel | None, adjoint: Array) -> Array:
        """Return the gradient in the kernel's theta from that in the covariance, shape (n_theta,)."""
        return np.zeros(0) if kernel is None else kernels.gram_vjp(kernel, self.X, adjoint)


class Seen(NamedTuple):
    """Value, gradients in the kernel's and the likelihood's theta, and whether the inference had converged."""

    value: float
    in_kernel: Array
    in_likelihood: Array
    converged: bool


class Evidence(Protocol):
    """Log evidence of the data, or a bound on it, as a function of the hyper-parameters."""

    def __call__(self, kernel: Kernel | None, likelihood: OrdinalProbit) -> Seen:
        """See the data."""


@dataclass(eq=False)
class ExactEvidence:
    """Evidence by Laplace or expectation propagation at the n rows; each call starts at the posterior of the last."""

    data: OrdinalData  # the rows
    method: str  # how the posterior is approximated
    # whether the value is the variational bound at the posterior of "ep", with its gradient at the frozen posterior
    # ([CG05] section 3.2), and not log Z_EP
    bound: bool = False
    max_iter: int = 200  # iterations of the inference at most
    tol: float = 1e-6  # when it ends; see `expectation_propagation`
    on_value: Callable[[float], object] | None = None  # told the value of every call
    last: ExactPosterior | None = None  # the posterior of the last call

    def infer(self, kernel: Kernel | None, likelihood: OrdinalProbit) -> tuple[Array, ExactPosterior]:
        """Return the covariance and the posterior."""
        K, data = self.data.covariance(kernel), self.data
        if self.method == "laplace":
            # Its evidence is not stationary in the mode; Newton's last steps square the error.
            decrement = min(self.tol, _MODE_TOL) ** 2
            q = laplace(K, likelihood, data.y, data.weight, self.last, max_iter=self.max_iter, tol=decrement)
        else:
            q = expectation_propagation(
                K, likelihood, data.y, data.weight, self.last, max_iter=self.max_iter, tol=self.tol
            )
        # Sites that did not settle are no start for others.
        self.last = q if q.converged else None
        return K, q

    def __call__(self, kernel: Kernel | None, likelihood: OrdinalProbit) -> Seen:
        """Return the evidence and its gradients."""
        K, q = self.infer(kernel, likelihood)
        y, w = self.data.y, self.data.weight
        value = q.log_evidence
        if self.method == "laplace":
            adjoint = laplace_gradient(K, likelihood, y, w, q)
            c = mode_adjoint(K, likelihood, y, w, q)
            own, slope, curvature = likelihood.theta_derivatives(y, q.mean)
            in_likelihood = own @ w + slope @ (w * c) + curvature @ (0.5 * w * q.variance)
        else:
            adjoint = ep_gradient(q)
            if self.bound:
                value = variational_bound(likelihood, y, w, q)
                in_likelihood = likelihood.theta_expectation(y, q.mean, q.variance) @ w
            else:
                in_likelihood = likelihood.theta_tilted(y, *cavities(q)) @ w
        if self.on_value is not None:
            self.on_value(value)
        return Seen(value, self.data.pulled(kernel, adjoint), in_likelihood, q.converged)


@dataclass(eq=False)
class SparseEvidence:
    """The variational bound through inducing points, of the one engine (docs/maths sections 3 and 5)."""

    data: OrdinalData  # the rows
    points: Features  # (M, d): inducing inputs
    everything: bool  # whether the rows are the inducing points, so that nothing is left open
    schedule: svi.Schedule  # iterations
    last: list[tuple[Array, svi.State]] = field(default_factory=list)  # theta and state of the last call

    def problem(self, basis: InducingBasis, likelihood: OrdinalProbit, *, learns: bool) -> svi.Problem:
        """Return the problem that the engine solves."""
        rows = basis.rows(self.data.X)
        residual = None if self.everything else basis.residual(self.data.X, rows)
        term = RowTerm(rows, (Segment("f", rows.shape[1]),), residual)
        return svi.Problem((term,), likelihood, self.data.y, self.data.weight, learns=learns)

    def __call__(self, kernel: Kernel | None, likelihood: OrdinalProbit) -> Seen:
        """Return the bound at its optimal q, and its gradients, which are those at fixed q."""
        assert kernel is not None  # noqa: S101 - a given covariance has no inducing points
        basis, theta = InducingBasis.at(kernel, self.points), np.concatenate([kernel.theta, likelihood.theta])
        problem = self.problem(basis, likelihood, learns=False)
        start = svi.initial_state(problem, {"f": FixedScale(1.0)})
        for earlier, state in self.last:
            if earlier.shape == theta.shape and np.max(np.abs(earlier - theta)) < _NEAR:
                start = state
        schedule = replace(self.schedule, batch_size=None, on_iteration=None, tol=_SEARCH_BOUND_TOL)
        result = svi.fit(problem, start, schedule, np.random.default_rng(0))
        self.last[:] = [(theta, result.state)]
        seen = result.evaluation
        assert seen is not None  # noqa: S101 - full data
        gradient, _ = inducing_gradient(basis, self.data.X, problem, result.state, seen)
        in_likelihood = likelihood.theta_expectation(self.data.y, seen.mu, seen.v) @ self.data.weight
        return Seen(seen.bound, gradient, in_likelihood, result.converged)
