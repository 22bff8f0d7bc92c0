"""Parts of a crowd's comparisons, and the likelihood of answers that a fit did not see."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._compiled.streams import hashed
from skpref.data import Comparisons
from skpref.gp.crowd.blocks import personal_moments
from skpref.gp.crowd.fit import fit_crowd
from skpref.gp.crowd.hierarchy import fit_hierarchy, hold_still
from skpref.gp.crowd.model import CrowdData, Kernels
from skpref.gp.crowd.policy import POLICY

if TYPE_CHECKING:
    from skpref._typing import Array, BoolArray, IntArray
    from skpref.gp.crowd.hierarchy import Hierarchy, HierarchyFit
    from skpref.gp.crowd.model import CrowdConfig


def draw_users(model: Hierarchy, n_rows: int, rng: np.random.Generator) -> BoolArray:
    """Draw users with about `n_rows` comparisons in all, (U,); everybody if there are fewer."""
    order = rng.permutation(model.n_users)
    counts = np.cumsum(np.diff(model.users.rows)[order])
    drawn = np.zeros(model.n_users, dtype=bool)
    enough = model.n_users if counts[-1] <= n_rows else max(1, int(np.searchsorted(counts, n_rows)))
    drawn[order[:enough]] = True
    return drawn


def some_users(model: Hierarchy, n_rows: int, rng: np.random.Generator) -> Hierarchy:
    """Return the model of random users with about `n_rows` comparisons in all, or of all users if they have fewer."""
    if model.users.rows[-1] <= n_rows:
        return model
    return model.select_users(draw_users(model, n_rows, rng))


def folds_of(model: Hierarchy, fit: HierarchyFit) -> IntArray:
    """Return a fold of each comparison that names, numbers and sides of items and users do not change, shape (P,).

    It is a hash of the ranks of the two items in the consensus, and of all answers of the user in the same terms. An
    answer of weight 2 is two answers.
    """
    users = model.users
    utility = np.round((model.consensus @ fit.mean)[: users.n_places], 6)
    rank = np.argsort(np.argsort(utility, kind="stable")).astype(np.uint64)
    left, right = rank[users.left], rank[users.right]
    pair = hashed(hashed(np.minimum(left, right)) + np.maximum(left, right))
    answer = np.round(1000.0 * np.where(left < right, model.y, 1.0 - model.y)).astype(np.uint64)
    of_user = np.zeros(model.n_users, dtype=np.uint64)
    np.add.at(of_user, users.user, hashed(pair + answer) * np.maximum(np.rint(model.weight), 1.0).astype(np.uint64))
    return (hashed(pair + of_user[users.user]) % np.uint64(POLICY.folds)).astype(np.int64)


def log_likelihood(model: Hierarchy, fit: HierarchyFit, held: Hierarchy) -> float:
    """Return the predictive log-likelihood of comparisons that a fit did not see."""
    users, state, test = model.users, fit.state, held.users
    rows = test.design()
    half, S = model.consensus @ fit.half.T, model.places.spread_covariance(state.S)
    V = half @ half.T
    own, common = rows @ S, rows @ V
    sites, explain = (users, state.tau, state.nu, fit.alpha), model.covariates is not None
    added = personal_moments(test.user, own, common, S, V, *sites, explain=explain)
    mean = rows @ (model.consensus @ fit.mean) + added[0]
    if model.covariates is not None:
        mean += np.einsum("rn,rn->r", model.places.sum_by_item(rows), model.covariates[test.user] @ state.B.T)
    variance = np.einsum("rn,rn->r", own + common, rows) + added[1]
    if model.covariates is not None:
        basis, rotation = state.effect_bases
        of_rotated = (model.covariates[test.user] @ rotation) ** 2
        unexplained = model.places.sum_by_item(rows - added[2]) @ basis
        variance += np.einsum("rn,np,rp->r", unexplained**2, state.effect_variance, of_rotated)
    likelihood: Any = state.likelihood
    own_b = state.thresholds
    tilted = likelihood.tilted if own_b is None else own_b.derivatives(likelihood, test.user)
    return float(held.weight @ tilted(held.y, mean, np.maximum(variance, 0.0))[0])


# -------------------------------------------- tastes along few directions, where many items are compared (docs/maths 6)
# A few answers about each of many items do not show a free covariance of all: one that maximises the evidence follows
# noise. The factor model of [SG20] integrates over the directions, so that its second moment of tastes does not. But it
# has no tastes for single items. So S is this second moment and, for the rest of its scale, the shape of the prior; or
# the shape alone. Held-out comparisons choose.


def choose_factors(
    part: Hierarchy, fit: HierarchyFit, held: Hierarchy, config: CrowdConfig
) -> tuple[float | None, float]:
    """Return a share of S = scale * shape beside factors and the log-likelihood of held-out comparisons with them."""
    factors, best, highest = _second_moment(part, config), None, -np.inf
    for share in POLICY.factor_shares if factors.any() else ():
        S = _mixed(part, factors, fit.state.S, share)
        moved = fit_hierarchy(hold_still(part), replace(fit.state, S=S), max_iter=POLICY.held_out_passes, tol=0.0)
        if (log_p := log_likelihood(part, moved, held)) > highest:
            best, highest = share, log_p
    return best, highest


def tastes_with_factors(model: Hierarchy, S: Array, share: float, config: CrowdConfig) -> Array:
    """Return S of the scale of S = scale * shape, with the factors of these comparisons."""
    return _mixed(model, _second_moment(model, config), S, share)


def _mixed(model: Hierarchy, factors: Array, S: Array, share: float) -> Array:
    """Return S with the factors in it, and at least this share of its shape; its scale stays."""
    if not factors.any():
        return S
    size, whole = model.item_scale(factors), model.item_scale(S)
    kept = min(size, (1.0 - share) * whole)
    return kept / size * factors + (1.0 - kept / whole) * S


def _second_moment(model: Hierarchy, config: CrowdConfig) -> Array:
    """Return the second moment of tastes in the factor model of the same comparisons, shape (n, n)."""
    users, item, n = model.users, model.places.item, len(model.shape) - model.places.order
    sides = item[users.left], item[users.right]
    c = Comparisons(*sides, model.y, model.weight, n, user=users.user, n_users=model.n_users)
    schedule = replace(config.pair.schedule, checkpoint=None, on_iteration=None)
    pair = replace(config.pair, inference="auto", offsets=True, order=False, schedule=schedule)
    # Priors that keep factors which few answers of each user show; held-out comparisons judge them below.
    alone = replace(config, pair=pair, consensus=True, own_thresholds=False).broadened(*POLICY.broader)
    kernels = Kernels(None, None, None)
    posterior = fit_crowd(CrowdData(None, None, c), kernels, alone, np.random.default_rng(0)).posterior
    v, w = posterior.items, posterior.users
    square = np.mean(w.mean**2 + w.variance, axis=1)
    S = np.zeros_like(model.shape)
    S[:n, :n] = (v.mean.T * square) @ v.mean + np.diag(square @ v.variance)
    return S
