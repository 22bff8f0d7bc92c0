"""The one L-BFGS-B loop: maximise an objective over hyper-parameters, with restarts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.optimize import minimize

from skpref.inference.policy import POLICY

if TYPE_CHECKING:
    from skpref._typing import Array


class BudgetSpentError(Exception):
    """What an objective raises, after its first value, to end the search at the best point so far."""


# theta -> value and gradient, shapes () and (n_theta,).
Objective: TypeAlias = Callable[["Array"], tuple[float, "Array"]]


@dataclass(frozen=True, eq=False)
class Optimum:
    """Result of `maximise`."""

    theta: Array  # (n_theta,): best point of all starts
    value: float  # objective there
    n_evaluations: int  # calls of the objective, all starts together
    converged: bool  # whether the best start met its tolerance
    cut_short: bool  # whether it did not, and more iterations may help: else no step led to a higher value
    n_iter: int  # iterations of the best start
    # (n_theta,): root of the diagonal of the inverse curvature that the best start has learnt, for a search of a like
    # objective
    scale: Array


def maximise(
    objective: Objective,
    theta: Array,
    bounds: Array,
    *,
    n_restarts: int = 0,
    rng: np.random.Generator | None = None,
    box: Array | None = None,
    max_iter: int = 50,
    tol: float = 1e-4,
    memory: int = 10,
    scale: Array | None = None,
    most_looks: int = 20,
) -> Optimum:
    """Maximise by L-BFGS-B from a start and from random points within the bounds; return the best result."""
    box = bounds if box is None else np.clip(box, bounds[:, :1], bounds[:, 1:])
    if n_restarts and (rng is None or not np.all(np.isfinite(box))):
        msg = f"n_restarts={n_restarts} needs a random generator and finite bounds; got bounds {box.tolist()}."
        raise ValueError(msg)
    starts = [np.clip(theta, bounds[:, 0], bounds[:, 1])]
    if rng is not None:
        starts += [rng.uniform(box[:, 0], box[:, 1]) for _ in range(n_restarts)]
    best, calls = None, 0
    for start in starts:
        try:
            end = _ascend(objective, start, bounds, max_iter, tol, memory, scale, most_looks)
        except BudgetSpentError:
            break
        calls += end.n_evaluations
        if best is None or end.value > best.value:
            best = end
    assert best is not None  # noqa: S101 - there is always one start
    return Optimum(best.theta, best.value, calls, best.converged, best.cut_short, best.n_iter, best.scale)


def _ascend(
    objective: Objective,
    start: Array,
    bounds: Array,
    max_iter: int,
    tol: float,
    memory: int,
    scale: Array | None,
    most_looks: int,
) -> Optimum:
    # With all variables bounded L-BFGS-B's first step is the gradient itself, in log hyper-parameters a leap to the
    # bounds. Stretched variables make the first step at most 1, and Newton's where their curvature is known.
    first = objective(start)
    scale = np.ones(start.shape) if scale is None else scale
    stretch = np.sqrt(max(1.0, float(np.max(np.abs(first[1]) * scale**2, initial=0.0)))) / scale
    # The best point is kept by ourselves: the last point of a line search that was cut short may be a worse one.
    best, calls = (first[0], start), 1

    def negative(x: Array) -> tuple[float, Array]:
        nonlocal best, calls
        theta = x / stretch
        if np.array_equal(theta, start):
            value, gradient = first
        else:
            (value, gradient), calls = objective(theta), calls + 1
        if value > best[0]:
            best = (value, theta)
        return -value, -gradient / stretch

    options = {"maxiter": max_iter, "ftol": min(tol, 1.0) * 0.01, "gtol": 1e-5, "maxcor": memory, "maxls": most_looks}
    limits = bounds * stretch[:, None]
    try:
        result = minimize(negative, start * stretch, method="L-BFGS-B", jac=True, bounds=limits, options=options)
    except BudgetSpentError:
        return Optimum(best[1], best[0], calls, converged=False, cut_short=True, n_iter=calls, scale=scale)
    if start.size <= POLICY.many_variables:
        spread = np.diagonal(result.hess_inv.todense())
        scale = np.clip(np.sqrt(np.maximum(spread, 0.0)) / stretch, 1.0 / POLICY.widest_scale, POLICY.widest_scale)
    cut_short = result.status == 1  # by the number of iterations; 2 is a failed line search
    return Optimum(best[1], best[0], calls, bool(result.success), cut_short, int(result.nit), scale)
