"""Steps of the covariance S of tastes, its prior, and what answers say of its logarithm (docs/maths 6 and 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skpref._math.linalg import cholesky, inverse_lower, log_det, solve_lower
from skpref.gp.crowd.policy import POLICY

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.gp.crowd.hierarchy import Hierarchy, HierarchyState

_LEAST = 1e-10  # eigenvalue, or curvature, that says nothing


def _rise(model: Hierarchy) -> float:
    """Return the power of the prior of the scale at small scales."""
    return POLICY.scale_rise if model.stage is None else POLICY.rise_of_choices


def _log_prior_of_scale(model: Hierarchy, scale: float) -> float:
    return float(_rise(model) * np.log(scale) - POLICY.scale_fall * np.log1p(scale))


def penalty_of_tastes(model: Hierarchy, state: HierarchyState, shape_chol: Array) -> float:
    """Return minus the log prior of S, up to a constant."""
    penalty = 0.0
    if model.own_left:
        penalty -= _log_prior_of_scale(model, float(state.S[-1, -1]))
    if model.own_scales:
        logs = _log_scales(model, state.S)
        penalty -= _log_prior_of_scale(model, np.exp(logs.mean()))
        penalty += 0.5 * (logs.size * float(logs.var()) + POLICY.spread_sum) / state.spread
        penalty += 0.5 * (logs.size - 1 + POLICY.spread_count) * np.log(state.spread)
    elif model.penalty is None:
        penalty -= _log_prior_of_scale(model, model.item_scale(state.S))
    elif model.learn_S:
        whitened = solve_lower(shape_chol, solve_lower(shape_chol, state.S).T)
        chol = cholesky(whitened)
        shrunk = log_det(chol) + model.floor * float(np.sum(inverse_lower(chol) ** 2))
        penalty += 0.5 * (model.prior_weight * shrunk + model.penalty * float(np.trace(whitened)))
    return penalty


def next_S(
    model: Hierarchy,
    state: HierarchyState,
    information: tuple[Array, float],
    moment: Array,
    shape_chol: Array,
    radius: float,
    *,
    limited: bool,
) -> tuple[Array, float]:
    """Return S after a step and the spread of own scales; `limited`: with at most `max_rank` directions."""
    S = state.S
    if model.learn_S and model.own_scales:
        S = _scored_scales(model, state, information[0], moment, radius)
    elif model.learn_S and model.penalty is None:
        S = _scored_scale(model, state, information, moment, radius)
    elif model.learn_S:
        S = _scored(model, state, information, moment, shape_chol, radius)
        S = _limit_rank(model, S, shape_chol) if limited else S
    if model.own_left:
        factor = np.ones(len(S))
        factor[-1] = np.exp(_step_of_left(model, state.S, information[0] / model.n_users, moment, 0.5 * radius))
        S = factor[:, None] * S * factor
    return S, _next_spread(model, state, information[0]) if model.own_scales else state.spread


def _step_of_left(model: Hierarchy, S: Array, information: Array, moment: Array, radius: float) -> float:
    """Return a step of Fisher scoring in the logarithm of the left side's standard deviation.

    `information` is the mean over the users. Only their answers say how much the biases of users differ: the
    regularisation of tastes would shrink them by about a third.
    """
    a, share = S[-1], 1.0 / (1.0 + 1.0 / S[-1, -1])
    slope = float(a @ moment[-1]) + 2.0 * (_rise(model) - POLICY.scale_fall * share)
    known = float(information[-1] @ a) ** 2 + float(information[-1, -1] * (a @ information @ a))
    step = slope / (model.n_users * known + 4.0 * POLICY.scale_fall * share * (1.0 - share) + _LEAST)
    return float(np.clip(step, -radius, radius))


def log_curvature(
    model: Hierarchy, S: Array, information: Array, squared: float, shape_chol: Array
) -> tuple[Array, Array, Array, Array]:
    """Return L, L^T shape^-1 L, floor * L^-1 shape L^-T and minus twice the second derivatives of the log evidence.

    S = L L^T without the left side where its variance is a parameter of its own. In the coordinates of L, all users'
    information is diagonal. The derivatives are in the symmetric matrix X of S = L exp(X) L^T, shape (n, n).
    """
    assert model.penalty is not None  # noqa: S101 - type narrowing: S has a shape of its own
    moved = slice(len(S) - model.own_left)
    L = cholesky(S[moved, moved])
    w, Q = np.linalg.eigh(L.T @ information[moved, moved] @ L / model.n_users)
    L, w = L @ Q, np.clip(w, 0.0, 1.0)
    # Users see different directions: what they know of S together is more than that of so many average users.
    n_users = max(float(model.n_users), squared / max(float(w @ w), _LEAST))
    to_floor = solve_lower(shape_chol[moved, moved], L)
    E = to_floor.T @ to_floor
    T = np.asarray(model.floor * np.linalg.inv(E))
    pull = 0.5 * (model.prior_weight * np.diag(T) + model.penalty * np.diag(E))
    return np.asarray(L), E, T, n_users * np.outer(w, w) + pull[:, None] + pull + _LEAST


def _scored(
    model: Hierarchy,
    state: HierarchyState,
    information: tuple[Array, float],
    moment: Array,
    shape_chol: Array,
    radius: float,
) -> Array:
    """Return S after a step of Fisher scoring in its matrix logarithm."""
    assert model.penalty is not None  # noqa: S101 - type narrowing: S has a shape of its own
    L, E, T, curvature = log_curvature(model, state.S, *information, shape_chol)
    gradient = L.T @ moment[: len(L), : len(L)] @ L
    gradient = gradient - model.prior_weight * (np.eye(len(L)) - T) - model.penalty * E
    step = gradient / curvature
    sizes, directions = np.linalg.eigh(0.5 * (step + step.T))
    root = L @ (directions * np.exp(0.5 * np.clip(sizes, -radius, radius)))
    return np.asarray(root @ root.T)


def curvature_of_scale(model: Hierarchy, S: Array, information: Array, squared: float) -> float:
    """Return minus twice the second derivative of the log evidence in the logarithm of the scale of S.

    It is that of `log_curvature` along the identity, without an eigendecomposition: many items may be compared.
    """
    n, share = len(S) - model.places.order, 1.0 / (1.0 + 1.0 / model.item_scale(S))  # share = scale / (1 + scale)
    known = S[:n, :n] @ information[:n, :n] / model.n_users
    of_users = max(model.n_users * float(np.sum(known * known.T)), squared)
    return of_users + 2.0 * POLICY.scale_fall * share * (1.0 - share) + _LEAST


def _scored_scale(
    model: Hierarchy, state: HierarchyState, information: tuple[Array, float], moment: Array, radius: float
) -> Array:
    """Return S = scale * shape after a step of Fisher scoring in the logarithm of the scale."""
    n, scale = len(state.S) - model.places.order, model.item_scale(state.S)
    slope = float(np.sum(moment[:n, :n] * state.S[:n, :n]))
    slope += 2.0 * (_rise(model) - POLICY.scale_fall * scale / (1.0 + scale))
    factor = np.ones(len(state.S))
    factor[:n] = np.exp(0.5 * np.clip(slope / curvature_of_scale(model, state.S, *information), -radius, radius))
    return np.asarray(factor[:, None] * state.S * factor)


def _log_scales(model: Hierarchy, S: Array) -> Array:
    """Return the logarithms of the scales in S = diag(scales); the left side has none."""
    return np.asarray(np.log(np.diagonal(S)[: len(S) - model.places.order]))


def _curvature_of_scales(logs: Array, information: Array, n_users: int) -> Array:
    """Return minus twice the second derivatives of the log evidence in the logarithms of the scales."""
    root = np.exp(0.5 * logs)
    w = root[:, None] * information[: logs.size, : logs.size] * root / n_users
    return np.asarray(n_users * w**2)


def _scored_scales(model: Hierarchy, state: HierarchyState, information: Array, moment: Array, radius: float) -> Array:
    """Return S = diag(scales) after a step of Fisher scoring in their logarithms, which spread around their mean."""
    logs = _log_scales(model, state.S)
    n, share = logs.size, 1.0 / (1.0 + np.exp(-logs.mean()))  # share = scale / (1 + scale)
    slope = np.exp(logs) * np.diagonal(moment)[:n] - 2.0 / state.spread * (logs - logs.mean())
    slope += 2.0 / n * (_rise(model) - POLICY.scale_fall * share)
    curvature = _curvature_of_scales(logs, information, model.n_users) + 2.0 / state.spread * (np.eye(n) - 1.0 / n)
    curvature += 2.0 / n**2 * POLICY.scale_fall * share * (1.0 - share) + _LEAST * np.eye(n)
    factor = np.ones(len(state.S))
    factor[:n] = np.exp(0.5 * np.clip(np.linalg.solve(curvature, slope), -radius, radius))
    return np.asarray(factor[:, None] * state.S * factor)


def _next_spread(model: Hierarchy, state: HierarchyState, information: Array) -> float:
    """Return the variance of the logarithms of the scales, which the answers leave uncertain."""
    logs = _log_scales(model, state.S)
    precision = 0.5 * _curvature_of_scales(logs, information, model.n_users) + np.eye(logs.size) / state.spread
    covariance = np.linalg.inv(precision)
    total = logs.size * float(logs.var()) + float(np.trace(covariance)) - float(covariance.sum()) / logs.size
    return (total + POLICY.spread_sum) / (logs.size - 1 + POLICY.spread_count)


def _limit_rank(model: Hierarchy, S: Array, shape_chol: Array) -> Array:
    """Return S with the floor in all but its `max_rank` strongest directions, in units of `shape`."""
    n_free = model.max_rank + model.places.order
    if model.penalty is None or n_free >= S.shape[0]:
        return S
    size, directions = np.linalg.eigh(solve_lower(shape_chol, solve_lower(shape_chol, S).T))
    size[:-n_free] = np.minimum(size[:-n_free], model.floor)
    root = shape_chol @ (directions * np.sqrt(np.maximum(size, _LEAST)))
    return np.asarray(root @ root.T)
