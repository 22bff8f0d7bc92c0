"""More answers by some users: their sites move; all other users enter the consensus as one sum.

The covariance of tastes, the scales, the effects and the sites of the other users stay. Of these the consensus needs
sum A^T W A and sum A^T (I - W P) d, of the size of the items; so the time is that of two passes over all comparisons,
which make this sum and the means of all users, where a fit takes some twenty to forty. That all of these stay is an
approximation as good as the answers are few: up to 20,000 comparisons, and once they have grown by a quarter, all is
learnt again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from skpref.gp.crowd.blocks import UserBlocks, integrate_out
from skpref.gp.crowd.hierarchy import fit_hierarchy, prior_means

if TYPE_CHECKING:
    from skpref._typing import BoolArray
    from skpref.gp.crowd.hierarchy import Hierarchy, HierarchyFit, HierarchyState
    from skpref.gp.crowd.personal import PersonalPosterior
    from skpref.inference.svi import Schedule
    from skpref.likelihoods import Likelihood

_FEW = 20_000  # comparisons up to which all is learnt again
_GROWTH = 1.25  # growth of the comparisons after which everything is learnt again
_MOST_CHANGED = 0.5  # share of the comparisons


def are_few(n_comparisons: int) -> bool:
    """Tell whether all is learnt again, as by one fit, when comparisons are added."""
    return n_comparisons <= _FEW


def is_update(model: Hierarchy, old: PersonalPosterior, changed: BoolArray | None) -> bool:
    """Tell whether the changed users have few enough answers to keep the shared parameters."""
    n = model.y.size
    if changed is None or are_few(n) or n > _GROWTH * old.n_learnt:
        return False
    grown_effects = bool(old.B.shape[1]) and old.S.shape != model.shape.shape
    return not grown_effects and bool(changed[model.users.user].mean() <= _MOST_CHANGED)


def update_hierarchy(
    model: Hierarchy,
    state: HierarchyState,
    old: PersonalPosterior,
    changed: BoolArray,
    likelihood: Likelihood,
    schedule: Schedule,
) -> HierarchyFit:
    """Move the sites of the users that changed until they fit; `state` has the covariance and sites for new answers."""
    rows, kept = changed[model.users.user], ~changed[old.user]
    tau, nu = state.tau.copy(), state.nu.copy()
    tau[~rows], nu[~rows] = old.tau[kept], old.nu[kept]
    state = replace(state, scales=dict(old.scales), likelihood=likelihood)
    if old.B.shape[1]:
        state = replace(
            state,
            B=old.B,
            effect_precision=old.effect_precision,
            effects=np.linalg.solve(old.effect_rows, old.B) @ old.effect_rotation,
            effect_variance=old.effect_variance,
            effect_bases=(old.effect_rows, old.effect_rotation),
        )
    # Users whose sites are zero say nothing.
    sites, users = (np.where(rows, 0.0, tau), np.where(rows, 0.0, nu)), model.users
    blocks = UserBlocks(users, model.places.spread_covariance(state.S), *sites)
    others = integrate_out(blocks, prior_means(model, state.B))
    part = replace(model.select_users(changed), others=others[:2])
    thresholds = state.thresholds
    local = fit_hierarchy(
        part,
        replace(
            state,
            tau=tau[rows],
            nu=nu[rows],
            thresholds=None if thresholds is None else thresholds.take(np.flatnonzero(changed)),
        ),
        max_iter=schedule.max_iter,
        tol=schedule.tol,
        on_iteration=schedule.on_iteration,
    )
    tau[rows], nu[rows] = local.state.tau, local.state.nu
    if thresholds is not None and local.state.thresholds is not None:
        thresholds = thresholds.with_users(changed, local.state.thresholds)
    whole = fit_hierarchy(model, replace(state, tau=tau, nu=nu, thresholds=thresholds), max_iter=1, tol=schedule.tol)
    return replace(whole, converged=local.converged)
