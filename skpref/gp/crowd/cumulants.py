"""What expectation propagation leaves out of the evidence of tastes, and the scale of S that follows.

The evidence of expectation propagation falls short of the true one by more, the stronger tastes are: where these are
three times the noise its maximum has S at .6 of the truth. The largest part that is left out comes from the third
cumulants of the tilted distributions ([OPW13]_): with the posterior covariance C of a user's z,

    log R = sum_{i < j} k_i k_j C_ij^3 / 6,    k_i = d^3 log Z_i / d mu_i^3 (v_i / C_ii)^3 .

It is added to the evidence as a function of the scale of S.

.. [OPW13] Opper, Paquet, Winther: Perturbative corrections for approximate inference in Gaussian latent variable
   models. JMLR 14, 2013.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.gp.crowd.blocks import iterate_users
from skpref.gp.crowd.hierarchy import HierarchyFit, fit_hierarchy, hold_still, marginals_of

if TYPE_CHECKING:
    from skpref.gp.crowd.hierarchy import Hierarchy

_STEP = 0.5  # step in the logarithm of the scale by which slopes are measured
_PASSES = 6  # passes of the sites at another scale
_LARGEST = 0.7  # largest change of the logarithm of the scale at a time
_SMALL = 0.02  # change that is none
_ROUNDS = 2  # changes, as the second derivative differs from place to place
_LEAST_CURVATURE = 1.0  # nats: with less, answers tell nothing of the scale
_MOST_ANSWERS = 200  # answers of a user from which on expectation propagation is exact enough
_DIFFERENCE = 1e-2  # step in mu, in standard deviations, of the third derivative


def log_ratio(model: Hierarchy, fit: HierarchyFit) -> float:
    """Return what third cumulants add to the log evidence of expectation propagation."""
    state, users, w = fit.state, model.users, model.weight
    rows = model.consensus @ fit.half.T
    V, S = rows @ rows.T, model.places.spread_covariance(state.S)
    variance, mu, v = marginals_of(model, fit, V)
    answers: Any = state.likelihood
    if state.thresholds is not None:
        answers = state.thresholds.answers(answers, users.user)
    step = _DIFFERENCE * np.sqrt(v)
    more, less = (answers.tilted(model.y, mu + sign * step, v)[2] for sign in (1.0, -1.0))
    third = (more - less) / (2.0 * step) * (v / variance) ** 3
    total = 0.0
    few = np.flatnonzero(np.diff(users.rows) <= _MOST_ANSWERS)
    for user, (P, W, _, _) in zip(few.tolist(), iterate_users(few, users, S, state.tau, state.nu), strict=True):
        own, A, seen = slice(*users.rows[user : user + 2]), users.user_rows(user), users.seen_rows(user)
        left = np.eye(len(P)) - P @ W
        C = seen @ (left @ (P + A @ V @ A.T @ left.T)) @ seen.T
        k, own_w = third[own], w[own]
        alone = np.minimum(own_w, own_w**2)  # a weight w >= 1 is w equal answers, which are pairs, too
        total += float(k * own_w @ C**3 @ (k * own_w) - alone @ (k**2 * np.diagonal(C) ** 3)) / 12.0
    return total


def correction_of_scale(model: Hierarchy, fit: HierarchyFit) -> float:
    """Return by how much the logarithm of the scale of S is too small.

    At the S of the fit the evidence, priors and held-out answers are in balance; what is missing of the evidence moves
    it until its slope is that of the evidence in the other direction.
    """
    if np.diff(model.users.rows).min() > _MOST_ANSWERS:
        return 0.0
    alone = hold_still(model)

    def evidence(log_scale: float) -> tuple[float, float]:
        """Return the evidence by expectation propagation, and what is missing."""
        grown = np.ones(len(fit.state.S))
        grown[: grown.size - model.places.order] = np.exp(0.5 * log_scale)
        S = grown[:, None] * fit.state.S * grown
        at = fit_hierarchy(alone, replace(fit.state, S=S), max_iter=_PASSES, tol=0.0)
        return at.evidence, log_ratio(alone, at)

    change, balance = 0.0, None
    for _ in range(_ROUNDS):
        values = np.array([evidence(change + step) for step in (-_STEP, 0.0, _STEP)])
        slopes = (values[2] - values[0]) / (2.0 * _STEP)
        balance = float(slopes[0]) if balance is None else balance
        total = values.sum(axis=1)
        curvature = max((2.0 * total[1] - total[0] - total[2]) / _STEP**2, _LEAST_CURVATURE)
        step = float(np.clip((slopes.sum() - balance) / curvature, -_LARGEST, _LARGEST))
        change += step
        if abs(step) < _SMALL or not np.isfinite(step):
            break
    return change if np.isfinite(change) and abs(change) >= _SMALL else 0.0
