"""What is not known of the covariance of tastes: posteriors at draws of S around the S of the fit.

The fit ends at one S. With few users the answers leave it uncertain: 40 users who gave five answers each hardly show
how much tastes differ, or along which items. Let S = L L^T, where in the coordinates of L all users' information
about tastes is diagonal. Steps of Fisher scoring have a curvature of the evidence in the symmetric matrix X of
S(X) = L exp(X) L^T, so that X has independent normal entries, and with it the scale of the prior to which S shrinks.
This curvature is that of numbers with noise; answers say less, since their sites follow S. How much less is measured
along the scale of S. A few draws and their mirror images stand for all. Means of predictions stay those of the fit,
variances become those of the mixture.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import multigammaln

from skpref._math.linalg import cholesky, inverse_lower
from skpref.gp.crowd.blocks import iterate_users
from skpref.gp.crowd.hierarchy import HierarchyFit, end_of_fit, fit_hierarchy, hold_still, marginals_of
from skpref.gp.crowd.policy import POLICY
from skpref.gp.crowd.tastes import curvature_of_scale, log_curvature

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skpref._typing import Array
    from skpref.gp.crowd.hierarchy import Hierarchy, HierarchyFit, HierarchyState


def fits_beside(model: Hierarchy, fit: HierarchyFit) -> tuple[HierarchyFit, ...]:
    """Return the fit at S and the fits at draws of S, which have equal weights."""
    at_S, information, squared = end_of_fit(model, fit.state)
    known = _share_known(model, at_S, information, squared)
    moves = _moves(model, fit, np.sqrt(known) * information, known * squared)
    return at_S, *(_follow(model, fit.state, move) for move in moves)


def _follow(model: Hierarchy, state: HierarchyState, move: Array) -> HierarchyFit:
    """Return the fit whose S is moved; its sites and all that follows from them are new."""
    S = move @ state.S @ move.T
    return fit_hierarchy(hold_still(model), replace(state, S=0.5 * (S + S.T)), max_iter=POLICY.spread_passes, tol=0.0)


def _share_known(model: Hierarchy, at_S: HierarchyFit, information: Array, squared: float) -> float:
    """Return the curvature of the evidence along the scale of S, divided by what numbers with noise would give."""
    S = at_S.state.S
    grown = np.ones(len(S))
    grown[: len(S) - model.places.order] = np.exp(0.5 * POLICY.spread_step)
    around = sum(_follow(model, at_S.state, np.diag(grown**sign)).evidence for sign in (-1.0, 1.0))
    of_numbers = curvature_of_scale(model, S, information, squared)
    bend = (2.0 * at_S.evidence - around) / POLICY.spread_step**2
    return float(np.clip(2.0 * bend / of_numbers, POLICY.least_known, 1.0))


def _moves(model: Hierarchy, fit: HierarchyFit, information: Array, squared: float) -> Iterator[Array]:
    """Yield matrices that move S to its draws; every second one mirrors the draw before."""
    S = fit.state.S
    n = len(S) - model.own_left
    if model.penalty is None:
        L, spread, follows = cholesky(S[:n, :n]), np.zeros((n, n)), np.ones(n)
    else:
        L, _, T, curvature = log_curvature(model, S, information, squared, cholesky(model.shape))
        spread = np.minimum(1.0 / np.sqrt(curvature), np.sqrt(0.5) * POLICY.largest_spread)
        follows = model.prior_weight * np.diagonal(T) / np.diagonal(curvature)
    follows = follows * min(np.sqrt(2.0 / curvature_of_scale(model, S, information, squared)), POLICY.largest_spread)
    # Draws are made in coordinates that neither the order nor the names of items turn: a root of S of the items sorted.
    utility = model.places.sum_by_item((model.consensus @ fit.mean)[None])[0, :n]
    # Decimal places of utilities by which items are put in order.
    order = np.argsort(np.round(utility, 6), kind="stable")
    root = np.empty((n, n))
    root[order] = cholesky(S[np.ix_(order, order)])
    turn = np.linalg.solve(root, L)
    exponentials = []
    for side, Z in _draws(n if spread.any() else 0):
        X = np.diag(side * follows)
        if spread.any():
            X += spread * (turn.T @ Z @ turn)
        sizes, directions = np.linalg.eigh(X)
        exponentials += [directions * np.exp(sign * sizes) @ directions.T for sign in (-1.0, 1.0)]
    # The average of the draws grows as if directions did not turn: that of exp(X) grows with the number of directions.
    variance = np.minimum(2.0 * np.diagonal(spread) ** 2 + follows**2, POLICY.largest_spread**2)
    to_average = np.exp(0.25 * variance)[:, None] * inverse_lower(cholesky(np.mean(exponentials, axis=0)))
    for exponential in exponentials:
        move = np.eye(len(S))
        move[:n, :n] = L @ np.linalg.solve(L.T, (to_average @ cholesky(exponential)).T).T
        yield move


def _draws(n: int) -> Iterator[tuple[float, Array]]:
    """Yield signs, each with a draw of a symmetric matrix (n, n); the draws are orthogonal and of the mean length."""
    upper = np.triu_indices(n)
    size = upper[0].size
    draws = np.linalg.qr(np.random.default_rng(0).standard_normal((size, min(POLICY.draws_of_s, size))))[0].T
    for k, z in enumerate(np.sqrt(size) * draws if size else np.zeros((1, 0))):
        Z = np.zeros((n, n))
        Z[upper] = z
        yield (-1.0) ** k, np.where(np.eye(n, dtype=bool), np.sqrt(2.0) * Z, Z + Z.T)


def log_evidence_of_weights(model: Hierarchy, fit: HierarchyFit, weights: Array) -> Array:
    """Return what the prior of S, integrated out, adds to the log evidence at the S of the fit, by its weight.

    The inverse of S has a Wishart prior. The integral over log S is Laplace's, around the S of the fit.
    """
    _, information, squared = end_of_fit(model, fit.state)
    shape_chol, values = cholesky(model.shape), np.empty(weights.size)
    for k, weight in enumerate(weights.tolist()):
        weighed = replace(model, prior_weight=weight)
        _, _, T, curvature = log_curvature(weighed, fit.state.S, information, squared, shape_chol)
        n = len(T)
        log_prior = 0.5 * weight * (np.linalg.slogdet(T)[1] - np.trace(T) + n * np.log(0.5 * weight))
        # Each element of a symmetric matrix counts once: those of the diagonal have half the curvature of others.
        of_elements = np.append(curvature[np.triu_indices(n, 1)], 0.5 * np.diagonal(curvature))
        log_volume = 0.5 * np.log(2.0 * np.pi / of_elements).sum()
        values[k] = log_prior - multigammaln(0.5 * weight, n) + log_volume
    return values


def mixed_variance(means: Array, variances: Array) -> Array:
    """Return variances of the mixture, given moments at the fit's S and at draws of S, shape (1 + n_draws, ...)."""
    return np.asarray((variances[1:] + (means[1:] - means[1:].mean(axis=0)) ** 2).mean(axis=0))


def mixed_half(fits: Sequence[HierarchyFit]) -> Array:
    """Return a lower triangular factor, half^T half, of the mixture's covariance of all that users share."""
    rest = np.array([fit.mean for fit in fits[1:]])
    rest -= rest.mean(axis=0)
    covariance = (rest.T @ rest + sum(fit.half.T @ fit.half for fit in fits[1:])) / len(rest)
    return np.ascontiguousarray(cholesky(np.asarray(covariance)[::-1, ::-1])[::-1, ::-1].T)


# ------------------- what expectation propagation leaves out of the evidence of tastes, and the scale of S that follows
# The evidence of expectation propagation falls short of the true one by more, the stronger tastes are: where these are
# three times the noise its maximum has S at .6 of the truth. The largest part that is left out comes from the third
# cumulants of the tilted distributions ([OPW13]_): with the posterior covariance C of a user's z,
#
#     log R = sum_{i < j} k_i k_j C_ij^3 / 6,    k_i = d^3 log Z_i / d mu_i^3 (v_i / C_ii)^3 .
#
# It is added to the evidence as a function of the scale of S.
#
# .. [OPW13] Opper, Paquet, Winther: Perturbative corrections for approximate inference in Gaussian latent variable
#    models. JMLR 14, 2013.


def log_ratio(model: Hierarchy, fit: HierarchyFit) -> float:
    """Return what third cumulants add to the log evidence of expectation propagation."""
    state, users, w = fit.state, model.users, model.weight
    rows = model.consensus @ fit.half.T
    V, S = rows @ rows.T, model.places.spread_covariance(state.S)
    variance, mu, v = marginals_of(model, fit, V)
    likelihood: Any = state.likelihood
    own_b = state.thresholds
    tilted = likelihood.tilted if own_b is None else own_b.derivatives(likelihood, users.user)
    step = POLICY.difference * np.sqrt(v)
    more, less = (tilted(model.y, mu + sign * step, v)[2] for sign in (1.0, -1.0))
    third = (more - less) / (2.0 * step) * (v / variance) ** 3
    total = 0.0
    few = np.flatnonzero(np.diff(users.rows) <= POLICY.most_answers)
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
    if np.diff(model.users.rows).min() > POLICY.most_answers:
        return 0.0
    alone = hold_still(model)

    def evidence(log_scale: float) -> tuple[float, float]:
        """Return the evidence by expectation propagation, and what is missing."""
        grown = np.ones(len(fit.state.S))
        grown[: grown.size - model.places.order] = np.exp(0.5 * log_scale)
        S = grown[:, None] * fit.state.S * grown
        at = fit_hierarchy(alone, replace(fit.state, S=S), max_iter=POLICY.scale_passes, tol=0.0)
        return at.evidence, log_ratio(alone, at)

    change, balance = 0.0, None
    for _ in range(POLICY.scale_rounds):
        values = np.array([evidence(change + step) for step in (-POLICY.scale_step, 0.0, POLICY.scale_step)])
        slopes = (values[2] - values[0]) / (2.0 * POLICY.scale_step)
        balance = float(slopes[0]) if balance is None else balance
        total = values.sum(axis=1)
        curvature = max((2.0 * total[1] - total[0] - total[2]) / POLICY.scale_step**2, POLICY.least_curvature)
        step = float(np.clip((slopes.sum() - balance) / curvature, -POLICY.largest_change, POLICY.largest_change))
        change += step
        if abs(step) < POLICY.small_change or not np.isfinite(step):
            break
    return change if np.isfinite(change) and abs(change) >= POLICY.small_change else 0.0
