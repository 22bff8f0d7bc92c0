"""Evidence of ordered labels and its gradient: exact inference at the rows, or inducing points ([CG05])."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from skpref import kernels
from skpref.exceptions import DataError
from skpref.gp.ordinal.policy import POLICY
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

_SYMMETRY = 1e-8  # largest asymmetry of a precomputed covariance, relative to its largest entry


@dataclass(frozen=True, eq=False)
class OrdinalData:
    """Distinct labelled rows."""

    X: Features  # (n, d): rows; None for a precomputed covariance
    y: Array  # (n,): number of the level of each row
    weight: Array  # (n,): sum of the weights of each row, > 0
    K: Array | None = None  # (n, n): precomputed covariance

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.y.shape[0])

    def covariance(self, kernel: Kernel | None) -> Array:
        """Return the prior covariance of f at the rows, shape (n, n)."""
        if kernel is None:
            assert self.K is not None  # noqa: S101 - there is a kernel or K
            return self.K
        return kernels.gram(kernel, self.X)


class EvidenceValue(NamedTuple):
    """Log evidence, its gradients in the kernel's and the likelihood's theta, and whether the inference converged."""

    value: float
    in_kernel: Array
    in_likelihood: Array
    converged: bool


class Evidence(Protocol):
    """Log evidence of the data, or a bound on it, as a function of the hyper-parameters."""

    def __call__(self, kernel: Kernel | None, likelihood: OrdinalProbit) -> EvidenceValue:
        """Return the value with its gradients."""


@dataclass(eq=False)
class ExactEvidence:
    """Evidence by Laplace or expectation propagation at the n rows; each call starts at the posterior of the last."""

    data: OrdinalData
    method: str  # "ep" or "laplace"
    # whether to return the variational bound at the posterior of "ep" instead of log Z_EP, with its gradient at fixed
    # posterior ([CG05] section 3.2)
    bound: bool = False
    max_iter: int = 200  # largest number of iterations of the inference
    tol: float = 1e-6  # of the inference; see `expectation_propagation`
    on_value: Callable[[float], object] | None = None  # called with every value
    last: ExactPosterior | None = None  # posterior of the last call

    def infer(self, kernel: Kernel | None, likelihood: OrdinalProbit) -> tuple[Array, ExactPosterior]:
        """Return the prior covariance and the posterior."""
        K, data = self.data.covariance(kernel), self.data
        if self.method == "laplace":
            # Its evidence is not stationary in the mode, so the mode must be accurate; Newton's last steps are cheap.
            decrement = min(self.tol, POLICY.mode_tol) ** 2
            q = laplace(K, likelihood, data.y, data.weight, self.last, max_iter=self.max_iter, tol=decrement)
        else:
            q = expectation_propagation(
                K, likelihood, data.y, data.weight, self.last, max_iter=self.max_iter, tol=self.tol
            )
        # Sites that did not converge are a bad start.
        self.last = q if q.converged else None
        return K, q

    def __call__(self, kernel: Kernel | None, likelihood: OrdinalProbit) -> EvidenceValue:
        """Return the evidence and its gradients."""
        K, q = self.infer(kernel, likelihood)
        y, w = self.data.y, self.data.weight
        value, in_kernel = q.log_evidence, np.zeros(0)
        if kernel is not None:
            laplaces = self.method == "laplace"
            adjoint = laplace_gradient(K, likelihood, y, w, q) if laplaces else ep_gradient(q)
            in_kernel = kernels.gram_vjp(kernel, self.data.X, adjoint)
        if self.method == "laplace":
            c = mode_adjoint(K, likelihood, y, w, q)
            direct, slope, curvature = likelihood.theta_derivatives(y, q.mean)
            in_likelihood = direct @ w + slope @ (w * c) + curvature @ (0.5 * w * q.variance)
        elif self.bound:
            value = variational_bound(likelihood, y, w, q)
            in_likelihood = likelihood.theta_expectation(y, q.mean, q.variance) @ w
        else:
            in_likelihood = likelihood.theta_tilted(y, *cavities(q)) @ w
        if self.on_value is not None:
            self.on_value(value)
        return EvidenceValue(value, in_kernel, in_likelihood, q.converged)


@dataclass(eq=False)
class SparseEvidence:
    """The variational bound through inducing points (docs/maths sections 3 and 5)."""

    data: OrdinalData
    points: Features  # (M, d): inducing points
    points_are_rows: bool  # whether they are all distinct rows, so that they determine f at the rows
    schedule: svi.Schedule
    last: tuple[Array, svi.State] | None = None  # theta and posterior of the last call

    def problem(self, basis: InducingBasis, likelihood: OrdinalProbit, *, learns: bool) -> svi.Problem:
        """Return the inference problem."""
        rows = basis.rows(self.data.X)
        residual = None if self.points_are_rows else basis.residual(self.data.X, rows)
        term = RowTerm(rows, (Segment("f", rows.shape[1]),), residual)
        return svi.Problem({"f": term}, likelihood, self.data.y, self.data.weight, learns=learns)

    def __call__(self, kernel: Kernel | None, likelihood: OrdinalProbit) -> EvidenceValue:
        """Return the bound at its optimal q, and its gradients with q held fixed."""
        assert kernel is not None  # noqa: S101 - a precomputed covariance has no inducing points
        basis, theta = InducingBasis.from_points(kernel, self.points), np.concatenate([kernel.theta, likelihood.theta])
        problem = self.problem(basis, likelihood, learns=False)
        start = svi.initial_state(problem, {"f": FixedScale(1.0)})
        if self.last is not None:
            last_theta, state = self.last
            if last_theta.shape == theta.shape and np.max(np.abs(last_theta - theta)) < POLICY.near:
                start = state
        schedule = replace(self.schedule, batch_size=None, on_iteration=None, tol=POLICY.bound_tol)
        result = svi.fit(problem, start, schedule, np.random.default_rng(0))
        self.last = theta, result.state
        evaluation = result.evaluation
        assert evaluation is not None  # noqa: S101 - full data
        gradient, _ = inducing_gradient(basis, self.data.X, problem, result.state, evaluation)
        in_likelihood = likelihood.theta_expectation(self.data.y, evaluation.mu, evaluation.v) @ self.data.weight
        return EvidenceValue(evaluation.bound, gradient, in_likelihood, result.converged)


def check_covariance(K: Array) -> None:
    """Refuse a matrix that is not symmetric and positive semi-definite."""
    if K.shape[0] != K.shape[1]:
        msg = f"Precomputed matrix must be square: a covariance of the training rows; got shape {K.shape}."
        raise DataError(msg)
    asymmetry = np.abs(K - K.T)
    if asymmetry.max(initial=0.0) > _SYMMETRY * np.abs(K).max(initial=1.0):
        i, j = np.unravel_index(int(np.argmax(asymmetry)), K.shape)
        msg = f"a precomputed covariance must be symmetric; got K[{i}, {j}]={K[i, j]:.6g}, K[{j}, {i}]={K[j, i]:.6g}."
        raise DataError(msg)
    lowest = float(np.linalg.eigvalsh(K)[0])
    if lowest < -_SYMMETRY * float(np.abs(np.diagonal(K)).max(initial=1.0)) * K.shape[0]:
        msg = f"a precomputed covariance must be positive semi-definite; its lowest eigenvalue is {lowest:.3g}."
        raise DataError(msg)
