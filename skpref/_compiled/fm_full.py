"""Moments and updates of a factorization machine with a covariance matrix per feature (docs/maths section 9).

For a set of features, let l be its contribution to y(x), by weights and pairs within the set, and Q = sum_k x_k v_k.
Two disjoint sets join as l = l_1 + l_2 + Q_1 Q_2 and Q = Q_1 + Q_2, so a row needs only mean and covariance of (l, Q)
of each set. A set that many rows share is a *pattern*, and is computed once.

Each pattern has level = E l, second = E (1, Q)(1, Q)', and spread = Cov (l, Q) with doubled entries off its diagonal.
Of symmetric matrices the upper triangle is stored row by row, so that (0, 1..d) come first.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np

from skpref._compiled.fm import FAST, Compressed, run_in_threads
from skpref._compiled.jit import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray

# Overrelaxation of full steps in the means: any factor below 2 raises a quadratic bound, and correlated features
# converge in fewer passes (MovieLens-1M at rank 10: 18 instead of 40).
_OVERRELAXATION = 1.5


class Patterns(NamedTuple):
    """Moments of every pattern, as defined at the top of the file."""

    level: Array  # (n_patterns,)
    second: NDArray[Any]  # (n_patterns, (1 + d)(2 + d)/2)
    spread: NDArray[Any]  # (n_patterns, (1 + d)(2 + d)/2)


class Sites(NamedTuple):
    """Each row's expected log-likelihood as -weight/2 E(z^2) + target E(z), z = y(x) - w_0."""

    weight: Array
    target: Array


class FeaturePosterior(NamedTuple):
    """q(w_k, v_k) of every feature."""

    mean: Array  # (K, 1 + d)
    covariance: Array  # (K, 1 + d, 1 + d)


@njit(nogil=True, fastmath=FAST, forceinline=True)
def _join(z, C, other, D, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Join x times a set with mean `other` and covariance D to one with mean z and covariance C."""
    width = z.shape[0]
    xx = x * x
    level, variance = x * other[0], xx * D[0, 0]
    for a in range(1, width):
        q, h = x * other[a], z[a]
        level += h * q
        variance += 2.0 * (C[0, a] * q + xx * D[0, a] * h)
        C_other, D_z, C_D = 0.0, 0.0, 0.0
        for b in range(1, width):
            C_other += C[a, b] * other[b]
            D_z += D[a, b] * z[b]
            C_D += C[a, b] * D[a, b]
        variance += q * x * C_other + xx * (h * D_z + C_D)
        C[a, 0] = C[0, a] + xx * D[0, a] + x * C_other + xx * D_z
    z[0] += level
    C[0, 0] += variance
    for a in range(1, width):
        C[0, a] = C[a, 0]
    for a in range(1, width):
        z[a] += x * other[a]
        for b in range(1, width):
            C[a, b] += xx * D[a, b]


@njit(nogil=True, fastmath=FAST, forceinline=True)
def _leave(z, C, other, D, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Undo `_join`, except for the variance of l."""
    width = z.shape[0]
    xx = x * x
    z[0] -= x * other[0]
    for a in range(1, width):
        z[a] -= x * other[a]
        z[0] -= z[a] * x * other[a]
        for b in range(1, width):
            C[a, b] -= xx * D[a, b]
    for a in range(1, width):
        change = xx * D[0, a]
        for b in range(1, width):
            change += C[a, b] * x * other[b] + xx * D[a, b] * z[b]
        C[0, a] -= change
        C[a, 0] = C[0, a]


@njit(nogil=True, fastmath=FAST, forceinline=True)
def _pack(z, C, second, spread):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write `second` and `spread` of a pattern."""
    width, e = z.shape[0], 0
    for a in range(width):
        p = 1.0 if a == 0 else z[a]
        for b in range(a, width):
            q = 1.0 if b == 0 else z[b]
            second[e] = p * q + (0.0 if a == 0 else C[a, b])
            spread[e] = C[a, b] if a == b else 2.0 * C[a, b]
            e += 1


@njit(nogil=True, fastmath=FAST, forceinline=True)
def _unpack(level, second, spread, z, C):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    width, e = z.shape[0], 0
    for a in range(width):
        z[a] = second[a]
        C[a, a] = spread[e]
        for b in range(a + 1, width):
            C[a, b] = C[b, a] = 0.5 * spread[e + b - a]
        e += width - a
    z[0] = level


@njit(nogil=True, fastmath=FAST)
def _compute(first, last, start, index, value, mean, covariance, level, second, spread):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    width = mean.shape[1]
    z, C = np.empty(width), np.empty((width, width))
    for p in range(first, last):
        z[:] = 0.0
        C[:, :] = 0.0
        for e in range(start[p], start[p + 1]):
            _join(z, C, mean[index[e]], covariance[index[e]], value[e])
        level[p] = z[0]
        _pack(z, C, second[p], spread[p])
    return True


def compute_patterns(patterns: Compressed, q: FeaturePosterior, moments: Patterns, first: int, last: int) -> None:
    """Compute the moments of patterns `first` to `last`, in place."""

    def task(a: int, b: int) -> bool:
        return bool(_compute(a, b, *patterns, *q, *moments))

    run_in_threads(task, patterns.start, first, last, 4 * q.mean.shape[1] ** 2)


@njit(nogil=True, fastmath=FAST, forceinline=True)
def _gather(i, f, codes, level, second, spread, z, C, other, D, M, S):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Join the patterns of row i in all fields but f, and return their level."""
    z[:] = 0.0
    C[:, :] = 0.0
    for g in range(codes.shape[0]):
        if g != f:
            p = codes[g, i]
            _unpack(level[p], second[p], spread[p], other, D)
            _join(z, C, other, D, 1.0)
    _pack(z, C, M, S)
    return z[0]


@njit(nogil=True, fastmath=FAST)
def _moments(first, last, start, rows, codes, level, second, spread, width, mu, v):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    size, two, own = second.shape[1], codes.shape[0] == 2, np.int64(0)  # a literal 0 would be compiled apart
    z, C, other, D = np.empty(width), np.empty((width, width)), np.empty(width), np.empty((width, width))
    M, S, O, own_spread = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    for p in range(first, last):
        e = 0
        for a in range(width):
            for b in range(a, width):
                O[e] = second[p, a] * second[p, b]
                own_spread[e] = spread[p, e]
                e += 1
        for r in range(start[p], start[p + 1]):
            i = rows[r]
            total, variance = level[p], 0.0
            if two:
                o = codes[1, i]
                total += level[o]
                for a in range(1, width):
                    total += second[p, a] * second[o, a]
                for e in range(size):
                    variance += own_spread[e] * second[o, e] + O[e] * spread[o, e]
            else:
                total += _gather(i, own, codes, level, second, spread, z, C, other, D, M, S)
                for a in range(1, width):
                    total += second[p, a] * M[a]
                for e in range(size):
                    variance += own_spread[e] * M[e] + O[e] * S[e]
            mu[i], v[i] = total, variance
    return True


def row_moments_full(
    holders: tuple[IntArray, IntArray], codes: NDArray[np.int32], offsets: IntArray, moments: Patterns, width: int
) -> tuple[Array, Array]:
    """Return mean and variance of y(x) - w_0 in every row, shape (n,)."""
    n = codes.shape[1]
    mu, v = np.empty(n), np.empty(n)

    def task(a: int, b: int) -> bool:
        return bool(_moments(a, b, *holders, codes, *moments, width, mu, v))

    run_in_threads(task, holders[0], 0, int(offsets[1]), width * width)
    return mu, v


@njit(nogil=True, fastmath=FAST)
def _sum_two_fields(first, last, f, offset, start, rows, codes, weight, target, level, second, spread, A, B):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Sum over the rows of patterns in a design with two fields; four rows at once hide the wait for memory."""
    width, size = B.shape[1], second.shape[1]
    total, c, others = np.empty(size), np.empty(width), codes[1 - f]
    for p in range(first, last):
        total[:] = 0.0
        c[:] = 0.0
        stop = start[p] + 4 * ((start[p + 1] - start[p]) // 4)
        for r in range(start[p], stop, 4):
            i0, i1, i2, i3 = rows[r], rows[r + 1], rows[r + 2], rows[r + 3]
            o0, o1, o2, o3 = others[i0], others[i1], others[i2], others[i3]
            w0, w1, w2, w3 = weight[i0], weight[i1], weight[i2], weight[i3]
            t0, t1 = target[i0] - w0 * level[o0], target[i1] - w1 * level[o1]
            t2, t3 = target[i2] - w2 * level[o2], target[i3] - w3 * level[o3]
            m0, m1, m2, m3 = second[o0], second[o1], second[o2], second[o3]
            s0, s1, s2, s3 = spread[o0], spread[o1], spread[o2], spread[o3]
            for e in range(size):
                total[e] += w0 * m0[e] + w1 * m1[e] + w2 * m2[e] + w3 * m3[e]
            for a in range(width):
                c[a] += t0 * m0[a] + t1 * m1[a] + t2 * m2[a] + t3 * m3[a]
                c[a] -= 0.5 * (w0 * s0[a] + w1 * s1[a] + w2 * s2[a] + w3 * s3[a])
            c[0] += 0.5 * (w0 * s0[0] + w1 * s1[0] + w2 * s2[0] + w3 * s3[0])
        for r in range(stop, start[p + 1]):
            i = rows[r]
            _add_row(
                weight[i], target[i] - weight[i] * level[others[i]], second[others[i]], spread[others[i]], total, c
            )
        _store(total, c, A[p - offset], B[p - offset])
    return True


@njit(nogil=True, fastmath=FAST, forceinline=True)
def _add_row(w, residual, M, S, total, c):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add w E (1, h)(1, h)' and E (1, h)(target - w l) of a row's other patterns; residual = target - w E l."""
    for e in range(M.shape[0]):
        total[e] += w * M[e]
    c[0] += residual
    for a in range(1, c.shape[0]):
        c[a] += residual * M[a] - 0.5 * w * S[a]


@njit(nogil=True, fastmath=FAST, forceinline=True)
def _store(total, c, A, B):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    width, e = c.shape[0], 0
    for a in range(width):
        B[a] = c[a]
        for b in range(a, width):
            A[a, b] = A[b, a] = total[e]
            e += 1


@njit(nogil=True, fastmath=FAST)
def _sum_any_fields(first, last, f, offset, start, rows, codes, weight, target, level, second, spread, A, B):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Sum over the rows of patterns in a design with any number of fields."""
    width, size = B.shape[1], second.shape[1]
    z, C, other, D = np.empty(width), np.empty((width, width)), np.empty(width), np.empty((width, width))
    M, S, total, c = np.empty(size), np.empty(size), np.empty(size), np.empty(width)
    for p in range(first, last):
        total[:] = 0.0
        c[:] = 0.0
        for r in range(start[p], start[p + 1]):
            i = rows[r]
            residual = target[i] - weight[i] * _gather(i, f, codes, level, second, spread, z, C, other, D, M, S)
            _add_row(weight[i], residual, M, S, total, c)
        _store(total, c, A[p - offset], B[p - offset])
    return True


def pattern_evidence(
    f: int,
    holders: tuple[IntArray, IntArray],
    codes: NDArray[np.int32],
    offsets: IntArray,
    sites: Sites,
    moments: Patterns,
    width: int,
) -> tuple[Array, Array]:
    """Return A, B of the rows' log-likelihood -1/2 E(z' A z) + B E(z), z = (l, Q), for each pattern of a field."""
    first, last = int(offsets[f]), int(offsets[f + 1])
    A, B = np.empty((last - first, width, width)), np.empty((last - first, width))
    kernel = _sum_two_fields if codes.shape[0] == 2 else _sum_any_fields

    def task(a: int, b: int) -> bool:
        return bool(kernel(a, b, f, first, *holders, codes, *sites, *moments, A, B))

    run_in_threads(task, holders[0], first, last, width * width)
    return A, B


@njit(nogil=True, fastmath=FAST, forceinline=True)
def factor_upper(P):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put the transpose of the Cholesky factor into the upper triangle; return whether P is positive definite."""
    n = P.shape[0]
    for j in range(n):
        for k in range(j):
            l = P[k, j]
            for i in range(j, n):
                P[j, i] -= l * P[k, i]
        if not 0.0 < P[j, j] < np.inf:
            return False
        scale = 1.0 / np.sqrt(P[j, j])
        for i in range(j, n):
            P[j, i] *= scale
    return True


@njit(nogil=True, fastmath=FAST, forceinline=True)
def _invert_factor(P):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put the inverse of a factor in the upper triangle into the lower triangle."""
    for i in range(P.shape[0]):
        g = 1.0 / P[i, i]
        for j in range(i):
            P[i, j] = 0.0
        for k in range(i):
            l = P[k, i]
            for j in range(k + 1):
                P[i, j] += l * P[k, j]
        for j in range(i):
            P[i, j] *= -g
        P[i, i] = g


@njit(nogil=True, fastmath=FAST, forceinline=True)
def _invert(P, C):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put the inverse of P, which is overwritten, into C; return whether P is positive definite."""
    n = P.shape[0]
    if not factor_upper(P):
        return False
    _invert_factor(P)
    C[:, :] = 0.0
    for k in range(n):
        for a in range(k + 1):
            g = P[k, a]
            for b in range(a + 1):
                C[a, b] += g * P[k, b]
    for a in range(n):
        for b in range(a):
            C[b, a] = C[a, b]
    return True


@njit(nogil=True, fastmath=FAST, forceinline=True)
def add_evidence(z, C, A, b, x, P, gain):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add a pattern's evidence to a feature's precision P and to `gain`.

    The pattern's other features have mean z and covariance C. With theta = (w_k, v_k) the pattern has (l, Q) =
    z + x H theta, where H theta = (w_k + h v_k, v_k) and h is Q of the others: E H'AH and E H'(b - A z) follow.
    """
    width = z.shape[0]
    xx, A00 = x * x, A[0, 0]
    residual = b[0] - A00 * z[0]
    for a in range(1, width):
        residual -= A[0, a] * z[a]
    gain[0] += x * residual
    P[0, 0] += xx * A00
    for a in range(1, width):
        h = z[a]
        total = h * residual - A00 * C[0, a] + b[a] - A[0, a] * z[0]
        for c in range(1, width):
            total -= C[a, c] * A[0, c] + A[a, c] * z[c]
            P[a, c] += xx * (A00 * (h * z[c] + C[a, c]) + h * A[0, c] + A[0, a] * z[c] + A[a, c])
        gain[a] += x * total
        cross = xx * (A00 * h + A[0, a])
        P[0, a] += cross
        P[a, 0] += cross


@njit(nogil=True, fastmath=FAST, forceinline=True)
def _apply_step(P, gain, m, C, nu, l, rho, work):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Move N(m, C) a step rho towards the optimum, given precision P and linear term `gain` of the evidence."""
    width = m.shape[0]
    for a in range(width):
        for b in range(width):
            gain[a] += l[a, b] * (nu[b] - m[b]) - P[a, b] * m[b]
            P[a, b] = rho * (P[a, b] + l[a, b])
    if rho < 1.0:
        if not _invert(C, work):
            return False
        for a in range(width):
            for b in range(width):
                P[a, b] += (1.0 - rho) * work[a, b]
    if not _invert(P, C):
        return False
    for a in range(width):
        for b in range(width):
            m[a] += (_OVERRELAXATION if rho == 1.0 else rho) * C[a, b] * gain[b]
    return True


@njit(nogil=True, fastmath=FAST)
def _update(first, last, start, index, value, mean, covariance, nu, lam, group, free, A, B, Z, V, rho):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    width = mean.shape[1]
    P, work, gain = np.empty((width, width)), np.empty((width, width)), np.empty(width)
    for k in range(first, last):
        if not free[k] or start[k] == start[k + 1]:
            continue
        m, C = mean[k], covariance[k]
        gain[:] = 0.0
        P[:, :] = 0.0
        for e in range(start[k], start[k + 1]):
            p = index[e]
            _leave(Z[p], V[p], m, C, value[e])
            add_evidence(Z[p], V[p], A[p], B[p], value[e], P, gain)
        if not _apply_step(P, gain, m, C, nu[group[k]], lam[group[k]], rho, work):
            return False
        for e in range(start[k], start[k + 1]):
            p = index[e]
            _join(Z[p], V[p], m, C, value[e])
    return True


@njit(nogil=True, fastmath=FAST)
def _unpack_patterns(first, last, level, second, spread, Z, V):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for p in range(first, last):
        _unpack(level[p], second[p], spread[p], Z[p - first], V[p - first])


def update_patterns(
    columns: Compressed,
    ranges: IntArray,
    patterns: tuple[int, int],
    q: FeaturePosterior,
    prior: tuple[Array, Array, IntArray],
    free: NDArray[np.bool_],
    evidence: tuple[Array, Array],
    moments: Patterns,
    rho: float,
) -> bool:
    """Update the features of a field one after the other, weight and factors together; return success."""
    first, last = patterns
    width = q.mean.shape[1]
    Z, V = np.empty((last - first, width)), np.empty((last - first, width, width))
    _unpack_patterns(first, last, *moments, Z, V)

    def task(a: int, b: int) -> bool:
        return bool(_update(a, b, *columns, *q, *prior, free, *evidence, Z, V, rho))

    ends_of = pairwise(ranges.tolist()) if numba.get_num_threads() > 1 else [(0, columns.start.shape[0] - 1)]
    return all(run_in_threads(task, columns.start, a, b, 16 * width * width) for a, b in ends_of)


@njit(nogil=True, fastmath=FAST)
def _sum_evidence(first, last, start, index, value, mean, covariance, A, B, Z, V, P, gain):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for k in range(first, last):
        for e in range(start[k], start[k + 1]):
            p = index[e]
            _leave(Z[p], V[p], mean[k], covariance[k], value[e])
            add_evidence(Z[p], V[p], A[p], B[p], value[e], P[k], gain[k])
    return True


def feature_evidence(
    columns: Compressed, q: FeaturePosterior, evidence: tuple[Array, Array], moments: Patterns
) -> tuple[Array, Array]:
    """Return the precision and the linear term that the patterns' evidence gives features that share no pattern.

    Shapes (n_features, 1 + d, 1 + d) and (n_features, 1 + d); they add up over sets of patterns.
    """
    n_patterns, (K, width) = moments.level.size, q.mean.shape
    Z, V = np.empty((n_patterns, width)), np.empty((n_patterns, width, width))
    _unpack_patterns(0, n_patterns, *moments, Z, V)
    P, gain = np.zeros((K, width, width)), np.zeros((K, width))

    def task(a: int, b: int) -> bool:
        return bool(_sum_evidence(a, b, *columns, *q, *evidence, Z, V, P, gain))

    run_in_threads(task, columns.start, 0, K, 16 * width * width)
    return P, gain


@njit(nogil=True, fastmath=FAST)
def _step_features(features, P, gain, mean, covariance, nu, lam, group, free, rho):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    work = np.empty(P.shape[1:])
    for j in range(features.shape[0]):
        k = features[j]
        if free[k] and not _apply_step(P[j], gain[j], mean[k], covariance[k], nu[group[k]], lam[group[k]], rho, work):
            return False
    return True


def step_features(
    features: IntArray,
    evidence: tuple[Array, Array],
    q: FeaturePosterior,
    prior: tuple[Array, Array, IntArray],
    free: NDArray[np.bool_],
    rho: float,
) -> bool:
    """Move the posterior of features a step towards the optimum, in place, given their evidence; return success."""
    return bool(_step_features(features, *evidence, *q, *prior, free, rho))


@njit(nogil=True, fastmath=FAST)
def _log_determinants(C, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for k in range(C.shape[0]):
        P = C[k].copy()
        total = 0.0 if factor_upper(P) else np.nan
        for j in range(P.shape[0]):
            total += 2.0 * np.log(P[j, j])
        out[k] = total


def log_determinants(C: Array) -> Array:
    """Return the log determinants of many small positive definite matrices, shape (K,)."""
    out = np.empty(C.shape[0])
    _log_determinants(C, out)
    return out
