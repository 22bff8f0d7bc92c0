"""Parts of a crowd's comparisons, and the likelihood of answers that a fit did not see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._compiled.streams import hashed
from skpref.gp.crowd.blocks import personal_moments

if TYPE_CHECKING:
    from skpref._typing import BoolArray, IntArray
    from skpref.gp.crowd.hierarchy import Hierarchy, HierarchyFit

N_FOLDS = 5


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

    It is a hash of the ranks of the two items in the consensus, and of all answers of the user in the same terms.
    """
    users = model.users
    rank = np.argsort(np.argsort(np.round(model.consensus @ fit.mean, 6), kind="stable")).astype(np.uint64)
    left, right = rank[users.left], rank[users.right]
    pair = hashed(hashed(np.minimum(left, right)) + np.maximum(left, right))
    answer = np.round(1000.0 * np.where(left < right, model.y, 1.0 - model.y)).astype(np.uint64)
    of_user = np.zeros(model.n_users, dtype=np.uint64)
    np.add.at(of_user, users.user, hashed(pair + answer))
    return (hashed(pair + of_user[users.user]) % np.uint64(N_FOLDS)).astype(np.int64)


def log_likelihood(model: Hierarchy, fit: HierarchyFit, held: Hierarchy) -> float:
    """Return the predictive log-likelihood of comparisons that a fit did not see."""
    users, state, test = model.users, fit.state, held.users
    rows, at = np.zeros((held.y.size, users.n_items)), np.arange(held.y.size)
    rows[at, test.left] += 1.0
    rows[at, test.right] -= 1.0
    rows[:, model.places.effects] = test.extra
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
    answers: Any = state.likelihood
    if state.thresholds is not None:
        answers = state.thresholds.answers(answers, test.user)
    log_p, _, _ = answers.tilted(held.y, mean, np.maximum(variance, 0.0))
    return float(held.weight @ log_p)
