"""Max-margin matrix factorisation with the smooth hinge (Rennie and Srebro, 2005), the first baseline of [XZZ13].

    C sum_ij sum_r h(T_ij^r (theta_ir - U_i V_j)) + (|U|^2 + |V|^2) / 2

with h(z) = 1/2 - z below 0, (1 - z)^2 / 2 between 0 and 1, and 0 above, is minimised by L-BFGS over factors and
thresholds. C is chosen by the validation ratings of weak users.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numba
import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

if TYPE_CHECKING:
    from _ratings_data import Partition, Rated

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Factors:
    """Factors of users, shape (n, K), and items, shape (m, K), and thresholds of users, shape (n, levels - 1)."""

    U: FloatArray
    V: FloatArray
    theta: FloatArray

    @classmethod
    def start(cls, n_users: int, n_items: int, n_factors: int, n_levels: int, seed: int) -> Factors:
        """Return small random factors, and thresholds that are the margin apart."""
        rng = np.random.default_rng(seed)
        theta = np.arange(n_levels - 1.0) - 0.5 * (n_levels - 2)
        U, V = (0.3 * rng.standard_normal((n, n_factors)) for n in (n_users, n_items))
        return cls(U, V, np.tile(theta, (n_users, 1)))

    def levels(self, user: IntArray, item: IntArray) -> IntArray:
        """Return the predicted levels 0, 1, ... of pairs."""
        score = np.einsum("nk,nk->n", self.U[user], self.V[item])
        return (score[:, None] >= self.theta[user]).sum(axis=1)


@numba.njit(cache=False, fastmath=True)
def _loss(user, item, level, U, V, theta, C, gU, gV, gtheta):  # noqa: ANN001, ANN202 - arrays
    total, K, n_thresholds = 0.0, U.shape[1], theta.shape[1]
    for n in range(user.size):
        u, i = user[n], item[n]
        score = 0.0
        for k in range(K):
            score += U[u, k] * V[i, k]
        pull = 0.0
        for r in range(n_thresholds):
            T = 1.0 if r >= level[n] else -1.0
            z = T * (theta[u, r] - score)
            if z < 1.0:
                slope = -1.0 if z < 0.0 else z - 1.0
                total += 0.5 - z if z < 0.0 else 0.5 * (1.0 - z) ** 2
                gtheta[u, r] += C * slope * T
                pull -= C * slope * T
        for k in range(K):
            gU[u, k] += pull * V[i, k]
            gV[i, k] += pull * U[u, k]
    return C * total


def fit(
    start: Factors, ratings: tuple[IntArray, IntArray, IntArray], C: float, n_iter: int, *, items: bool = True
) -> Factors:
    """Minimise from a start; without `items`, only users' factors and thresholds move."""
    parts = [start.U, start.theta, *([start.V] if items else [])]
    ends = np.cumsum([part.size for part in parts])[:-1]

    def unpacked(x: FloatArray) -> Factors:
        U, theta, *V = (piece.reshape(part.shape) for piece, part in zip(np.split(x, ends), parts, strict=True))
        return replace(start, U=U, theta=theta, V=V[0] if V else start.V)

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        now = unpacked(x)
        gU, gV, gtheta = now.U.copy(), now.V.copy(), np.zeros_like(now.theta)
        value = _loss(*ratings, now.U, now.V, now.theta, C, gU, gV, gtheta)
        value += 0.5 * ((now.U**2).sum() + (now.V**2).sum())
        gradient = [gU, gtheta, *([gV] if items else [])]
        return value, np.concatenate([part.ravel() for part in gradient])

    x = np.concatenate([part.ravel() for part in parts])
    return unpacked(minimize(objective, x, jac=True, method="L-BFGS-B", options={"maxiter": n_iter}).x)


def numbered(rated: Rated, users: IntArray, items: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return places of users and items, and levels 0, 1, ...; items that training lacks share the last place."""
    place = np.minimum(np.searchsorted(items, rated.X[:, 1]), items.size - 1)
    item = np.where(items[place] == rated.X[:, 1], place, items.size)
    return np.searchsorted(users, rated.X[:, 0]), item, rated.y - 1


def predicted(part: Partition, grid: list[float], n_factors: int, n_iter: int = 30) -> tuple[IntArray, float]:
    """Return levels 1, 2, ... of the weak and the strong test ratings, and C.

    Fits go from the largest C to the smallest, each from the one before. Strong users are folded in with V as it is.
    """
    weak, strong = part.final("weak"), part.final("strong")
    users, items = np.unique(weak.X[:, 0]), np.unique(weak.X[:, 1])
    start = Factors.start(users.size, items.size + 1, n_factors, 5, 0)
    start.V[-1] = 0.0

    train, valid = (numbered(rated, users, items) for rated in (part.weak_train, part.weak_valid))
    errors, now = {}, start
    for C in sorted(grid, reverse=True):
        now = fit(now, train, C, n_iter)
        errors[C] = np.abs(now.levels(*valid[:2]) - valid[2]).mean()
    best = min(errors, key=lambda C: errors[C])
    now, train = start, numbered(weak, users, items)
    for C in sorted((C for C in grid if best <= C), reverse=True):
        now = fit(now, train, C, n_iter)

    new = np.unique(strong.X[:, 0])
    folded = replace(Factors.start(new.size, 1, n_factors, 5, 1), V=now.V)
    folded = fit(folded, numbered(strong, new, items), best, 100, items=False)
    weak_test, strong_test = numbered(part.weak_test, users, items), numbered(part.strong_test, new, items)
    return 1 + np.concatenate([now.levels(*weak_test[:2]), folded.levels(*strong_test[:2])]), best
