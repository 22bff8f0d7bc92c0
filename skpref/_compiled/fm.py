"""Moments and updates of a factorised factorization machine, by rows and columns of X (docs/maths section 9).

Each row keeps, for each factor f, Q = sum_k q_k, T = sum_k t_k and R = sum_k t_k q_k, with q_k = x_k m_kf and
t_k = x_k^2 s_kf^2. The update of feature k needs only h = Q - q_k, T - t_k and R - t_k q_k of its rows. Rows are read
from CSR and features from CSC, so no two threads add to the same number, and the bits do not depend on their number.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np

from skpref._compiled.jit import njit, run_tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray

_TASKS = 16  # portions of equal work for the threads
_SMALL = 1 << 20  # products (about 1 ms) below which threads cost more than they save
FAST = {"contract", "reassoc", "nsz"}


class Compressed(NamedTuple):
    """Entries of X by row (CSR) or by column (CSC)."""

    start: NDArray[Any]  # (n + 1,): entries of row or column j are start[j] to start[j + 1]
    indices: NDArray[Any]  # column or row of each entry
    value: Array


class Slopes(NamedTuple):
    """Derivatives of each row's expected log-likelihood E."""

    pull: Array  # dE/dmean
    weight: Array  # the curvature -2 dE/dvariance


def run_in_threads(task: Callable[[int, int], bool], start: NDArray[Any], first: int, last: int, width: int) -> bool:
    """Run a task on portions of rows with equal numbers of entries; return whether all succeeded."""
    n_entries = int(start[last] - start[first])
    n_threads = min(numba.get_num_threads(), last - first)
    if n_threads < 2 or n_entries * width < _SMALL:
        return task(first, last)
    inner = np.searchsorted(start[first:last], np.linspace(start[first], start[last], _TASKS + 1)[1:-1])
    cut = [first, *(first + inner).tolist(), last]
    return all(run_tasks(lambda t: task(cut[t], cut[t + 1]), _TASKS, n_threads))


@njit(nogil=True, fastmath=FAST)
def _moments(first, last, start, index, value, mean, variance, S, mu, v):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    d = mean.shape[1] - 1
    Q, T, R = np.empty(d), np.empty(d), np.empty(d)
    for i in range(first, last):
        Q[:] = 0.0
        T[:] = 0.0
        R[:] = 0.0
        total, spread = 0.0, 0.0
        for e in range(start[i], start[i + 1]):
            k, x = index[e], value[e]
            total += x * mean[k, 0]
            spread += x * x * variance[k, 0]
            for f in range(d):
                q, t = x * mean[k, 1 + f], x * x * variance[k, 1 + f]
                Q[f] += q
                T[f] += t
                R[f] += t * q
        # A sum over pairs as half the sum over each feature and all others: no large numbers are subtracted.
        for e in range(start[i], start[i + 1]):
            k, x = index[e], value[e]
            for f in range(d):
                q, t = x * mean[k, 1 + f], x * x * variance[k, 1 + f]
                h = Q[f] - q
                total += 0.5 * q * h
                spread += t * (h * h + 0.5 * max(T[f] - t, 0.0))
        mu[i], v[i] = total, spread
        if S.shape[0] > 0:
            for f in range(d):
                S[i, 0, f], S[i, 1, f], S[i, 2, f] = Q[f], T[f], R[f]
    return True


def row_moments(rows: Compressed, mean: Array, variance: Array, S: NDArray[Any] | None = None) -> tuple[Array, Array]:
    """Return mean and variance of y(x) - w_0 in every row for independent parameters, shape (n,)."""
    n = rows.start.shape[0] - 1
    mu, v = np.empty(n), np.empty(n)
    S = np.empty((0, 3, mean.shape[1] - 1)) if S is None else S

    def task(first: int, last: int) -> bool:
        return bool(_moments(first, last, *rows, mean, variance, S, mu, v))

    run_in_threads(task, rows.start, 0, n, mean.shape[1])
    return mu, v


@njit(nogil=True, fastmath=FAST, forceinline=True)
def _feature_sums(k, start, index, value, mean, variance, S, pull, weight, h, gradient, P, full):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Sum the gradient of sum_i E_i in feature k's means, and its curvature (upper triangle; or diagonal)."""
    d = S.shape[2]
    gradient[:] = 0.0
    P[:] = 0.0
    for e in range(start[k], start[k + 1]):
        i, x = index[e], value[e]
        w, g = weight[i], pull[i]
        wxx = w * x * x
        gradient[0] += g * x
        P[0, 0] += wxx
        for f in range(d):
            m, t = mean[k, 1 + f], x * x * variance[k, 1 + f]
            h[f] = S[i, 0, f] - x * m
            others = max(S[i, 1, f] - t, 0.0)
            crossed = S[i, 2, f] - t * x * m
            gradient[1 + f] += g * x * h[f] - w * x * (others * (h[f] + x * m) - crossed)
            P[1 + f, 1 + f] += wxx * (h[f] * h[f] + others)
        if full:
            for f in range(d):
                P[0, 1 + f] += wxx * h[f]
                for b in range(f + 1, d):
                    P[1 + f, 1 + b] += wxx * h[f] * h[b]


@njit(nogil=True, fastmath=FAST, forceinline=True)
def _solve(P, b):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Solve P x = b in place by Cholesky, from the upper triangle of P, which is overwritten."""
    n = b.shape[0]
    for p in range(n):
        for q in range(p):
            for a in range(p, n):
                P[p, a] -= P[q, p] * P[q, a]
            b[p] -= P[q, p] * b[q]
        if not 0.0 < P[p, p] < np.inf:
            return False
        scale = 1.0 / np.sqrt(P[p, p])
        for a in range(p, n):
            P[p, a] *= scale
        b[p] *= scale
    for p in range(n - 1, -1, -1):
        for a in range(p + 1, n):
            b[p] -= P[p, a] * b[a]
        b[p] /= P[p, p]
    return True


@njit(nogil=True, fastmath=FAST, forceinline=True)
def _apply_step(k, start, index, value, mean, variance, S, pull, weight, step, new_variance):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Set feature k to its new means and variances, and update the sums of its rows."""
    d = S.shape[2]
    for e in range(start[k], start[k + 1]):
        i, x = index[e], value[e]
        change = step[0]
        for f in range(d):
            m, t = mean[k, 1 + f], x * x * variance[k, 1 + f]
            new = m + step[1 + f]
            new_t = x * x * new_variance[1 + f]
            change += (S[i, 0, f] - x * m) * step[1 + f]
            S[i, 0, f] += x * step[1 + f]
            S[i, 1, f] += new_t - t
            S[i, 2, f] += x * (new_t * new - t * m)
        pull[i] -= weight[i] * x * change
    for a in range(d + 1):
        mean[k, a] += step[a]
        variance[k, a] = new_variance[a]


@njit(nogil=True, fastmath=FAST)
def _update(first, last, start, index, value, mean, variance, nu, lam, group, free, S, pull, weight, rho):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    width = mean.shape[1]
    gradient, step, new_variance, h = np.empty(width), np.empty(width), np.empty(width), np.empty(width - 1)
    P = np.empty((width, width))
    for k in range(first, last):
        if not free[k]:
            continue
        _feature_sums(k, start, index, value, mean, variance, S, pull, weight, h, gradient, P, True)
        for a in range(width):
            l = lam[group[k], a]
            P[a, a] += l
            step[a] = gradient[a] + l * (nu[group[k], a] - mean[k, a])
            new_variance[a] = 1.0 / ((1.0 - rho) / variance[k, a] + rho * P[a, a])
        if not _solve(P, step):
            return False
        for a in range(width):
            step[a] *= rho
        _apply_step(k, start, index, value, mean, variance, S, pull, weight, step, new_variance)
    return True


def update_features(
    columns: Compressed,
    fields: IntArray,
    q: tuple[Array, Array],
    prior: tuple[Array, Array, IntArray],
    free: NDArray[np.bool_],
    S: NDArray[Any],
    slopes: Slopes,
    rho: float = 1.0,
) -> bool:
    """Update one feature after the other, its weight and factors together; return whether that succeeded.

    With sum_i E_i quadratic in the means and linear in the variances, the best q(w_k) q(v_k) has variances 1/P_aa, and
    means that solve P (new - old) = gradient. A Gaussian likelihood is quadratic: no update lowers its bound.
    """

    def task(first: int, last: int) -> bool:
        return bool(_update(first, last, *columns, *q, *prior, free, S, *slopes, float(rho)))

    width = q[0].shape[1]
    return all(run_in_threads(task, columns.start, a, b, width * width) for a, b in pairwise(fields.tolist()))


@njit(nogil=True, fastmath=FAST)
def _gradients(first, last, start, index, value, mean, variance, S, pull, weight, in_mean, in_variance):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    width = mean.shape[1]
    h, P = np.empty(width - 1), np.empty((width, width))
    for k in range(first, last):
        _feature_sums(k, start, index, value, mean, variance, S, pull, weight, h, in_mean[k], P, False)
        for a in range(width):
            in_variance[k, a] = -0.5 * P[a, a]
    return True


def feature_gradients(
    columns: Compressed, q: tuple[Array, Array], S: NDArray[Any], slopes: Slopes
) -> tuple[Array, Array]:
    """Return the derivatives of sum_i E_i in the means and in the variances of all features, shape (K, 1 + d)."""
    in_mean, in_variance = np.empty(q[0].shape), np.empty(q[0].shape)

    def task(first: int, last: int) -> bool:
        return bool(_gradients(first, last, *columns, *q, S, *slopes, in_mean, in_variance))

    run_in_threads(task, columns.start, 0, columns.start.shape[0] - 1, q[0].shape[1])
    return in_mean, in_variance
