"""The Laplace approximation at n inputs ([RW06] sections 3.4 and 5.5.1, [CG05] section 3.1 and appendix A)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from skpref._math.linalg import log_det, solve_lower, solve_lower_t, symmetric_product
from skpref.exceptions import SkprefError
from skpref.inference.exact import ExactPosterior, check_problem, explicit_gradient, factor, marginals, solve_sites
from skpref.inference.policy import POLICY

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.likelihoods import Likelihood


# (y, z) -> third derivative of log p(y | z) in z.
ThirdDerivative: TypeAlias = Callable[["Array", "Array"], "Array"]


def laplace(
    K: Array,
    likelihood: Likelihood,
    y: Array,
    weight: Array,
    start: ExactPosterior | None = None,
    *,
    max_iter: int = 100,
    tol: float = 1e-16,
) -> ExactPosterior:
    """Approximate the posterior by a Gaussian at its mode.

    Newton's method on the log joint, which no step lowers.
    """
    check_problem(K, y, weight)
    alpha, f = np.zeros_like(weight), np.zeros_like(weight)
    value = float(weight @ likelihood.log_prob(y, f))
    if start is not None and start.alpha.shape == alpha.shape:
        warm_f = symmetric_product(K, start.alpha)
        warm = float(weight @ likelihood.log_prob(y, warm_f)) - 0.5 * float(start.alpha @ warm_f)
        if warm > value:
            alpha, f, value = start.alpha, warm_f, warm
    n_iter, last, slack = 0, np.inf, POLICY.slack * (1.0 + abs(value))
    while True:
        _, slope, curvature = likelihood.derivatives(y, f)
        gradient, tau = weight * slope, weight * np.maximum(-curvature, 0.0)
        nu = tau * f + gradient
        root, chol = factor(K, tau)
        d_alpha, d_f = solve_sites(K, tau, nu, root, chol)
        d_alpha, d_f = d_alpha - alpha, d_f - f
        decrement = float((gradient - alpha) @ d_f)
        # Below the rounding errors of the log joint, a decrement that falls no more is one itself.
        converged = decrement <= tol or last / 4.0 < decrement <= slack
        if converged or n_iter == max_iter:
            break
        n_iter, last, step, slack = n_iter + 1, decrement, 1.0, POLICY.slack * (1.0 + abs(value))
        for _ in range(POLICY.halvings):
            trial_alpha, trial_f = alpha + step * d_alpha, f + step * d_f
            trial = float(weight @ likelihood.log_prob(y, trial_f)) - 0.5 * float(trial_alpha @ trial_f)
            if trial >= value - slack:
                break
            step *= 0.5
        alpha, f, value = trial_alpha, trial_f, trial
    moments = alpha, f, *marginals(K, tau, root, chol), root, chol
    log_evidence = value - 0.5 * log_det(chol)
    return ExactPosterior(*moments, tau, nu, weight, log_evidence, n_iter=n_iter, converged=converged)


def laplace_gradient(
    K: Array,
    likelihood: Likelihood,
    y: Array,
    weight: Array,
    posterior: ExactPosterior,
    third: ThirdDerivative | None = None,
) -> Array:
    """Return the gradient in K of the log evidence, with the way of the mode ([RW06] eqs. 5.20 to 5.24)."""
    of_mode = _slope_at_mode(likelihood, y, weight, posterior, third)
    # d log Z/df (I + K W)^-1 dK alpha = u^T dK alpha
    u = of_mode - posterior.root_w * _solve(posterior, posterior.root_w * symmetric_product(K, of_mode))
    adjoint, alpha = explicit_gradient(posterior), posterior.alpha
    adjoint += 0.5 * u[:, None] * alpha
    adjoint += 0.5 * alpha[:, None] * u
    return adjoint


def mode_adjoint(
    K: Array,
    likelihood: Likelihood,
    y: Array,
    weight: Array,
    posterior: ExactPosterior,
    third: ThirdDerivative | None = None,
) -> Array:
    """Return the gradient of the log evidence in the likelihood's slopes w_i l'_i, which move the mode.

    With c this gradient, the gradient of the log evidence in a parameter t of the likelihood is
    sum_i w_i (dl_i/dt + c_i dl'_i/dt + S_ii/2 dl''_i/dt) at the mode ([CG05] appendix A).
    """
    of_mode = _slope_at_mode(likelihood, y, weight, posterior, third)
    prior = symmetric_product(K, of_mode)
    return prior - symmetric_product(K, posterior.root_w * _solve(posterior, posterior.root_w * prior))


def _solve(posterior: ExactPosterior, x: Array) -> Array:
    """B^-1 x."""
    return solve_lower_t(posterior.chol, solve_lower(posterior.chol, x))


def _slope_at_mode(
    likelihood: Likelihood, y: Array, weight: Array, posterior: ExactPosterior, third: ThirdDerivative | None
) -> Array:
    """Derivative of the log evidence in f at the mode, half of S_ii w_i d3 log p_i: log |B| alone moves."""
    third = third or getattr(likelihood, "third_derivative", None)
    if third is None:
        raise SkprefError(
            f"{type(likelihood).__name__} has no third derivative, which the gradient of the Laplace evidence needs; "
            "pass third, or use expectation propagation"
        )
    return 0.5 * posterior.variance * weight * third(y, posterior.mean)
