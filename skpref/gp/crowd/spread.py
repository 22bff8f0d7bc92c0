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
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import multigammaln

from skpref._math.linalg import cholesky, inverse_lower
from skpref.gp.crowd.hierarchy import end_of_fit, fit_hierarchy, hold_still
from skpref.gp.crowd.tastes import curvature_of_scale, log_curvature

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skpref._typing import Array
    from skpref.gp.crowd.hierarchy import Hierarchy, HierarchyFit, HierarchyState

_PAIRS = 2  # draws of S, each with its mirror image; shares of six panels are as uncertain with one and with four
# Largest standard deviation of a direction's logarithm: where answers say nothing, it would have no bound.
_LARGEST = 1.2
_DIGITS = 6  # decimal places of utilities by which items are put in order
_PASSES = 3  # passes of the sites at another S, of which the last one only looks
_STEP = 0.5  # step in the logarithm of the scale of S, by which the curvature is measured
_LEAST_KNOWN = 0.02  # least share of the information of numbers that answers have; 3 answers of 8 items have .06


def fits_beside(model: Hierarchy, fit: HierarchyFit) -> tuple[HierarchyFit, ...]:
    """Return the fit at S and the fits at draws of S, which have equal weights."""
    at_S, information, squared = end_of_fit(model, fit.state)
    known = _share_known(model, at_S, information, squared)
    moves = _moves(model, fit, np.sqrt(known) * information, known * squared)
    return at_S, *(_follow(model, fit.state, move) for move in moves)


def _follow(model: Hierarchy, state: HierarchyState, move: Array) -> HierarchyFit:
    """Return the fit whose S is moved; its sites and all that follows from them are new."""
    S = move @ state.S @ move.T
    return fit_hierarchy(hold_still(model), replace(state, S=0.5 * (S + S.T)), max_iter=_PASSES, tol=0.0)


def _share_known(model: Hierarchy, at_S: HierarchyFit, information: Array, squared: float) -> float:
    """Return the curvature of the evidence along the scale of S, divided by what numbers with noise would give."""
    S = at_S.state.S
    grown = np.ones(len(S))
    grown[: len(S) - model.places.order] = np.exp(0.5 * _STEP)
    around = sum(_follow(model, at_S.state, np.diag(grown**sign)).evidence for sign in (-1.0, 1.0))
    of_numbers = curvature_of_scale(model, S, information, squared)
    return float(np.clip(2.0 * (2.0 * at_S.evidence - around) / _STEP**2 / of_numbers, _LEAST_KNOWN, 1.0))


def _moves(model: Hierarchy, fit: HierarchyFit, information: Array, squared: float) -> Iterator[Array]:
    """Yield matrices that move S to its draws; every second one mirrors the draw before."""
    S = fit.state.S
    n = len(S) - model.own_left
    if model.penalty is None:
        L, spread, follows = cholesky(S[:n, :n]), np.zeros((n, n)), np.ones(n)
    else:
        L, _, T, curvature = log_curvature(model, S, information, squared, cholesky(model.shape))
        spread = np.minimum(1.0 / np.sqrt(curvature), np.sqrt(0.5) * _LARGEST)
        follows = model.prior_weight * np.diagonal(T) / np.diagonal(curvature)
    follows = follows * min(np.sqrt(2.0 / curvature_of_scale(model, S, information, squared)), _LARGEST)
    # Draws are made in coordinates that neither the order nor the names of items turn: a root of S of the items sorted.
    utility = model.places.sum_by_item((model.consensus @ fit.mean)[None])[0, :n]
    order = np.argsort(np.round(utility, _DIGITS), kind="stable")
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
    variance = np.minimum(2.0 * np.diagonal(spread) ** 2 + follows**2, _LARGEST**2)
    to_average = np.exp(0.25 * variance)[:, None] * inverse_lower(cholesky(np.mean(exponentials, axis=0)))
    for exponential in exponentials:
        move = np.eye(len(S))
        move[:n, :n] = L @ np.linalg.solve(L.T, (to_average @ cholesky(exponential)).T).T
        yield move


def _draws(n: int) -> Iterator[tuple[float, Array]]:
    """Yield signs, each with a draw of a symmetric matrix (n, n); the draws are orthogonal and of the mean length."""
    upper = np.triu_indices(n)
    size = upper[0].size
    draws = np.linalg.qr(np.random.default_rng(0).standard_normal((size, min(_PAIRS, size))))[0].T
    for k, z in enumerate(np.sqrt(size) * draws if size else np.zeros((1, 0))):
        Z = np.zeros((n, n))
        Z[upper] = z
        yield (-1.0) ** k, np.where(np.eye(n, dtype=bool), np.sqrt(2.0) * Z, Z + Z.T)


def log_evidence_of_weights(model: Hierarchy, fit: HierarchyFit, weights: Array) -> Array:
    """Return the log evidence of weights of the prior of S, up to a constant, shape (n_weights,).

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
        log_volume = -0.5 * (
            np.log(curvature[np.triu_indices(n, 1)]).sum() + np.log(0.5 * np.diagonal(curvature)).sum()
        )
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
