"""Loops over users, each with a latent vector g ~ N(shift, P) of its own that few comparisons inform.

The coordinates of g are rows e_i - e_j of the items, or e_i where j = -1: the pairs that the user compared, or the
items in them, whichever are fewer. P = A S A^T is gathered from the covariance S of items. A comparison sees
z = sign (g_a - g_b), or sign g_a where b = -1, plus its row of `extra` times the last coordinates of its user.
With D the precision and d the linear term of the sites, W = (I + D P)^-1 D.
"""

from __future__ import annotations

import numpy as np

from skpref._compiled.jit import njit

_ROUNDING = 1e-13  # share of a variance that is rounding


@njit()
def _difference_covariance(S, i, j, k, l):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    value = S[i, k]
    if j >= 0:
        value -= S[j, k]
    if l >= 0:
        value -= S[i, l]
        if j >= 0:
            value += S[j, l]
    return value


@njit()
def _gather(S, first, second, low, high):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    n = high - low
    out = np.empty((n, n))
    for a in range(n):
        for b in range(a + 1):
            out[a, b] = _difference_covariance(S, first[low + a], second[low + a], first[low + b], second[low + b])
            out[b, a] = out[a, b]
    return out


@njit()
def _lower(M):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Factor M = L L^T in place, M perhaps semi-definite; return log |M| of a definite one."""
    n = M.shape[0]
    log_det = 0.0
    for j in range(n):
        total = M[j, j]
        least = _ROUNDING * total
        for k in range(j):
            total -= M[j, k] * M[j, k]
        if total <= least:  # a combination of earlier ones, such as the same item in another group
            M[j:, j] = 0.0
            continue
        pivot = np.sqrt(total)
        M[j, j] = pivot
        log_det += np.log(pivot)
        for i in range(j + 1, n):
            total = M[i, j]
            for k in range(j):
                total -= M[i, k] * M[j, k]
            M[i, j] = total / pivot
    return 2.0 * log_det


@njit()
def _solve_lower(L, B):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(L.shape[0]):
        for k in range(i):
            for c in range(B.shape[1]):
                B[i, c] -= L[i, k] * B[k, c]
        for c in range(B.shape[1]):
            B[i, c] /= L[i, i]


@njit()
def _inverse_lower(L, r):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return L^-1 diag(r)."""
    n = L.shape[0]
    out = np.zeros((n, n))
    for i in range(n):
        out[i, i] = r[i]
        for k in range(i):
            for c in range(k + 1):
                out[i, c] -= L[i, k] * out[k, c]
        for c in range(i + 1):
            out[i, c] /= L[i, i]
    return out


@njit()
def _gram(F):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return F^T F of a lower triangular F."""
    n = F.shape[0]
    out = np.zeros((n, n))
    for i in range(n):
        for x in range(i + 1):
            for y in range(x + 1):
                out[x, y] += F[i, x] * F[i, y]
    for x in range(n):
        for y in range(x):
            out[y, x] = out[x, y]
    return out


@njit()
def _coefficients(p, n, places, at, by):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write which of its user's n coordinates a comparison sees, and how often each; return their number."""
    _, a, b, sign, extra = places
    at[0], by[0], size, n_extra = a[p], sign[p], 1, extra.shape[1]
    if b[p] >= 0:
        at[1], by[1], size = b[p], -sign[p], 2
    for k in range(n_extra):
        at[size + k], by[size + k] = n - n_extra + k, extra[p, k]
    return size + n_extra


@njit()
def _user_sites(u, n, places, tau, nu):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return precision D and linear term d of a user's sites in its n coordinates."""
    D, d = np.zeros((n, n)), np.zeros(n)
    rows, _, _, _, extra = places
    at, by = np.empty(2 + extra.shape[1], np.int64), np.empty(2 + extra.shape[1])
    for p in range(rows[u], rows[u + 1]):
        size = _coefficients(p, n, places, at, by)
        for x in range(size):
            d[at[x]] += by[x] * nu[p]
            for y in range(size):
                D[at[x], at[y]] += by[x] * by[y] * tau[p]
    return D, d


@njit()
def _diagonal_weight(P, D):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return W = r (I + r P r)^-1 r, r = sqrt(D), and log |I + D P| for a diagonal D."""
    n = P.shape[0]
    r, M = np.sqrt(np.diag(D)), np.empty((n, n))
    for x in range(n):
        for y in range(x + 1):
            M[x, y] = r[x] * P[x, y] * r[y]
        M[x, x] += 1.0
    log_det = _lower(M)
    return _gram(_inverse_lower(M, r)), log_det


@njit()
def _dense_weight(P, D):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return W = D - D L (I + L^T D L)^-1 L^T D, P = L L^T, and log |I + D P|."""
    n = P.shape[0]
    L = P.copy()
    _lower(L)
    for x in range(n):
        for y in range(x + 1, n):
            L[x, y] = 0.0
    F = D @ L
    M = L.T @ F
    for x in range(n):
        M[x, x] += 1.0
    log_det = _lower(M)
    F = np.ascontiguousarray(F.T)
    _solve_lower(M, F)
    return D - F.T @ F, log_det


@njit()
def user_block(u, S, coordinates, places, tau, nu):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return P, W, D, d and log |I + D P| of one user."""
    starts, first, second, by_pairs = coordinates
    low, high = starts[u], starts[u + 1]
    P = _gather(S, first, second, low, high)
    D, d = _user_sites(u, high - low, places, tau, nu)
    # Of the pairs of a choice some may have a negative precision.
    diagonal = by_pairs[u] and not (np.diag(D) < 0.0).any()
    W, log_det = _diagonal_weight(P, D) if diagonal else _dense_weight(P, D)
    return P, W, D, d, log_det


@njit()
def _scatter(out, i, j, k, l, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    out[i, k] += value
    if j >= 0:
        out[j, k] -= value
    if l >= 0:
        out[i, l] -= value
        if j >= 0:
            out[j, l] += value


@njit()
def integrate_out(S, coordinates, places, tau, nu, shift):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the terms of the sites in a vector m that all users share, z = A (m + b_u), with the b_u integrated out.

    Sum of A^T W A (n, n); sum of A^T (I - W P) d (n,); sum of log |I + D P|; and the constant of the exponent, twice.
    """
    starts, first, second, _ = coordinates
    n_items = S.shape[0]
    G, h, log_det, constant = np.zeros((n_items, n_items)), np.zeros(n_items), 0.0, 0.0
    for u in range(starts.shape[0] - 1):
        P, W, D, d, log_det_user = user_block(u, S, coordinates, places, tau, nu)
        low, n = starts[u], starts[u + 1] - starts[u]
        mean = shift[low : low + n]
        residual = d - D @ mean
        through = P @ residual
        g = residual - W @ through
        log_det += log_det_user
        constant += np.dot(g, through) + np.dot(d + residual, mean)
        for x in range(n):
            i, j = first[low + x], second[low + x]
            h[i] += g[x]
            if j >= 0:
                h[j] -= g[x]
            for y in range(n):
                _scatter(G, i, j, first[low + y], second[low + y], W[x, y])
    return G, h, log_det, constant


@njit()
def with_covariates(x, n_items, coordinates, alpha):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the sum of A_u^T alpha_u x_u^T over the users, shape (n_items, p)."""
    starts, first, second, _ = coordinates
    out = np.zeros((n_items, x.shape[1]))
    for u in range(starts.shape[0] - 1):
        for c in range(starts[u], starts[u + 1]):
            for k in range(x.shape[1]):
                out[first[c], k] += alpha[c] * x[u, k]
                if second[c] >= 0:
                    out[second[c], k] -= alpha[c] * x[u, k]
    return out


@njit()
def _comparison_moments(at, by, value, covariance):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return mean and variance of a comparison's z, from the moments of its user's coordinates."""
    mean, variance = 0.0, 0.0
    for x in range(at.shape[0]):
        mean += by[x] * value[at[x]]
        variance += by[x] * by[x] * covariance[at[x], at[x]]
        for y in range(x):
            variance += 2.0 * by[x] * by[y] * covariance[at[x], at[y]]
    return mean, variance


@njit()
def _row_product(A, B, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the inner product of row x of two matrices."""
    total = 0.0
    for y in range(A.shape[1]):
        total += A[x, y] * B[x, y]
    return total


@njit()
def marginals(S, m, V, coordinates, places, tau, nu, shift):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return moments of the comparisons' z (P,), the sum of A^T E[alpha alpha^T - W] A, E[alpha], sum of tr (P W)^2.

    The posterior mean of b_u is S A^T alpha, and m ~ N(m, V) is what all users share.
    """
    starts, first, second, by_pairs = coordinates
    rows, a, _, sign, extra = places
    n_items = S.shape[0]
    at, by = np.empty(2 + extra.shape[1], np.int64), np.empty(2 + extra.shape[1])
    mean, variance = np.empty(tau.shape[0]), np.empty(tau.shape[0])
    G, alpha, information = np.zeros((n_items, n_items)), np.empty(first.shape[0]), 0.0
    for u in range(starts.shape[0] - 1):
        P, W, D, d, _ = user_block(u, S, coordinates, places, tau, nu)
        low, n = starts[u], starts[u + 1] - starts[u]
        common = np.empty(n)
        for x in range(n):
            common[x] = m[first[low + x]] + shift[low + x]
            if second[low + x] >= 0:
                common[x] -= m[second[low + x]]
        Q = _gather(V, first, second, low, low + n)
        residual = d - D @ common
        own = residual - W @ (P @ residual)
        value = common + P @ own
        PW = P @ W
        T = -PW
        for x in range(n):
            T[x, x] += 1.0
        TQ, spread = T @ Q, W @ Q @ W
        for x in range(n):
            alpha[low + x] = own[x]
            for y in range(n):
                information += PW[x, y] * PW[y, x]
                moment = spread[x, y] - W[x, y] + own[x] * own[y]
                _scatter(G, first[low + x], second[low + x], first[low + y], second[low + y], moment)
        if by_pairs[u]:  # comparisons are single coordinates: the diagonal of the covariance is enough
            for p in range(rows[u], rows[u + 1]):
                x = a[p]
                mean[p] = sign[p] * value[x]
                variance[p] = P[x, x] - _row_product(PW, P, x) + _row_product(TQ, T, x)
        else:
            covariance = P - PW @ P + TQ @ T.T
            for p in range(rows[u], rows[u + 1]):
                size = _coefficients(p, n, places, at, by)
                mean[p], variance[p] = _comparison_moments(at[:size], by[:size], value, covariance)
    return mean, variance, G, alpha, information


@njit()
def personal_moments(user, own, common, S, V, coordinates, places, tau, nu, alpha):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the user's part of mean and variance of rows (n,), and A^T W times the explained rows (n, n_items).

    The rows of a user are together.

    `own` (n, n_items) is the prior covariance of a row's personal part with the items' b, `common` its posterior
    covariance with the items' m.
    """
    starts, first, second, _ = coordinates
    mean, variance, last = np.zeros(user.shape[0]), np.zeros(user.shape[0]), -1
    explained = np.zeros((user.shape[0], S.shape[0]))
    W, Q, n, low = np.empty((0, 0)), np.empty((0, 0)), 0, 0
    for p in range(user.shape[0]):
        u = user[p]
        if u != last:
            W = user_block(u, S, coordinates, places, tau, nu)[1]
            low, n, last = starts[u], starts[u + 1] - starts[u], u
            Q = _gather(V, first, second, low, low + n)
        q, c = np.empty(n), np.empty(n)
        for x in range(n):
            i, j = first[low + x], second[low + x]
            q[x], c[x] = own[p, i], common[p, i]
            if j >= 0:
                q[x] -= own[p, j]
                c[x] -= common[p, j]
            mean[p] += q[x] * alpha[low + x]
        Wq = W @ q
        variance[p] = np.dot(Wq, Q @ Wq) - np.dot(q, Wq) - 2.0 * np.dot(c, Wq)
        for x in range(n):
            explained[p, first[low + x]] += Wq[x]
            if second[low + x] >= 0:
                explained[p, second[low + x]] -= Wq[x]
    return mean, variance, explained
