"""Linear maps of the factors that do not change y(x), chosen for the best priors (docs/maths section 9).

If every row is a user and an item, y(x) = w_0 + w_u + w_i + <v_u, v_i> is the same for v_u -> A v_u, v_i -> A^-T v_i,
and for v_u -> v_u + c, w_i -> w_i - <c, v_i>. Coordinate ascent is slow along these directions: on MovieLens-1M it
takes 200 passes, and 20 passes with the best map after each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray
    from skpref.factorization.machine.fields import Design
    from skpref.factorization.machine.model import Machine


def bipartite_sides(design: Design, group: IntArray) -> IntArray | None:
    """Return the field, 0 or 1, of each feature if X is two one-hot fields that share no group, shape (K,)."""
    if not design.two_sided:
        return None
    side_of_group = np.full(int(group.max()) + 1, -1)
    for side in (0, 1):
        groups = np.unique(group[design.field(side).indices])
        if np.any(side_of_group[groups] >= 0):
            return None
        side_of_group[groups] = side
    # Groups without entries go with the first field.
    return np.maximum(side_of_group, 0)[group]


def balance_factors(machine: Machine, sides: IntArray) -> Machine | None:
    """Return the machine with the same y(x) in every row whose parameters fit learnt priors best.

    They minimise sum_g,a n_g log E (theta_ka - nu_ga)^2. The best shifts make the weights of each side uncorrelated
    with its factors; the best A makes the second moments of both sides' factors diagonal (by Hadamard's inequality)
    and equal.
    """
    if machine.mean.shape[1] == 1 or np.unique(sides).size < 2:
        return None
    mean, C, nu, group = machine.mean.copy(), machine.variance.copy(), machine.prior.nu.copy(), machine.prior.group
    members = [np.flatnonzero(sides == side) for side in (0, 1)]
    groups = [np.unique(group[features]) for features in members]
    S = [_second_moments(machine, features) for features in members]
    maps = [np.eye(mean.shape[1]) for _ in S]
    for side in (0, 1):
        # A shift of the other side's factors subtracts from this side's weights their regression on its factors.
        shift = np.linalg.solve(S[side][1:, 1:], S[side][1:, 0])
        maps[side][0, 1:] = -shift
        for table, this, other in ((mean, members[side], members[1 - side]), (nu, groups[side], groups[1 - side])):
            table[this, 0] -= table[this, 1:] @ shift
            table[other, 1:] += shift
    try:
        roots = [np.linalg.cholesky(part[1:, 1:]) for part in S]
    except np.linalg.LinAlgError:
        return None
    U, values, _ = np.linalg.svd(roots[0].T @ roots[1])
    A = np.sqrt(values)[:, None] * np.linalg.solve(roots[0].T, U).T
    if not np.linalg.cond(A) < 1e8:  # beyond it too many digits are lost
        return None
    for T, block, features, own_groups in zip(maps, (A, np.linalg.inv(A).T), members, groups, strict=True):
        T[1:, 1:] = block
        mean[features, 1:] = mean[features, 1:] @ block.T
        nu[own_groups, 1:] = nu[own_groups, 1:] @ block.T
        half = C[features].reshape(-1, T.shape[0]) @ T.T
        # The transpose of a symmetric matrix: two products of large matrices instead of many small ones.
        shape = C[features].shape
        C[features] = (half.reshape(shape).transpose(0, 2, 1).reshape(half.shape) @ T.T).reshape(shape)
    return replace(machine, mean=mean, variance=C, prior=machine.prior._replace(nu=nu))


def _second_moments(machine: Machine, features: IntArray) -> Array:
    """Return the mean of E (theta - nu)(theta - nu)' over some features, shape (1 + d, 1 + d)."""
    deviation = machine.mean[features] - machine.prior.nu[machine.prior.group[features]]
    return np.asarray((deviation.T @ deviation + machine.variance[features].sum(axis=0)) / features.size)
