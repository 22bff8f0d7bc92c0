"""Tastes along few directions, where many items are compared (docs/maths 6).

A few answers about each of many items do not show a free covariance of all: one that maximises the evidence follows
noise. The factor model of [SG20] integrates over the directions, so that its second moment of tastes does not. But it
has no tastes for single items. So S is this second moment and, for the rest of its scale, the shape of the prior; or
the shape alone. Held-out comparisons choose.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from skpref.data import Comparisons
from skpref.gp.crowd.fit import BROADER, fit_crowd
from skpref.gp.crowd.held_out import log_likelihood
from skpref.gp.crowd.hierarchy import fit_hierarchy, hold_still
from skpref.gp.crowd.model import CrowdData, Kernels

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.gp.crowd.hierarchy import Hierarchy, HierarchyFit
    from skpref.gp.crowd.model import CrowdConfig

_SHARES = (0.1, 0.4)  # shares of S = scale * shape beside the factors
_PASSES = 5  # passes of the sites at another S


def choose_factors(
    part: Hierarchy, fit: HierarchyFit, held: Hierarchy, config: CrowdConfig
) -> tuple[float | None, float]:
    """Return a share of S = scale * shape beside factors and the log-likelihood of held-out comparisons with them."""
    factors, best, highest = _second_moment(part, config), None, -np.inf
    for share in _SHARES if factors.any() else ():
        S = _mixed(part, factors, fit.state.S, share)
        moved = fit_hierarchy(hold_still(part), replace(fit.state, S=S), max_iter=_PASSES, tol=0.0)
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
    alone = replace(config, pair=pair, consensus=True, own_thresholds=False).broadened(*BROADER)
    kernels = Kernels(None, None, None)
    posterior = fit_crowd(CrowdData(None, None, c), kernels, alone, np.random.default_rng(0)).posterior
    v, w = posterior.items, posterior.users
    square = np.mean(w.mean**2 + w.variance, axis=1)
    S = np.zeros_like(model.shape)
    S[:n, :n] = (v.mean.T * square) @ v.mean + np.diag(square @ v.variance)
    return S
