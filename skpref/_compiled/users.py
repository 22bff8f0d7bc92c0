"""Loops over users, each with a latent vector g ~ N(shift, P) of its own that few comparisons inform.

The coordinates of g are rows e_i - e_j of the items, or e_i where j = -1: the pairs that the user compared, or the
items in them, whichever are fewer. A comparison sees z = sign (g_a - g_b), or sign g_a where b = -1, plus its row of
`extra` times the last coordinates of its user. Coordinates that are the same item in several groups share what is the
user's own: E maps r own parts to n coordinates. Their covariance P is gathered from the covariance S of items. With D
the precision and d the linear term of the sites, W = (I + D E P E^T)^-1 D, and no loop takes n^3 steps unless r = n.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._compiled.jit import njit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skpref._typing import Array, BoolArray, IntArray

    Coordinates = tuple[IntArray, IntArray, IntArray, BoolArray, IntArray]
    Places = tuple[IntArray, IntArray, IntArray, Array, Array]

_MOST_ENTRIES = 2**22  # entries of one matrix of all users that are in memory together, 32 MB
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
    r, M = np.empty(n), np.empty((n, n))
    for x in range(n):
        r[x] = np.sqrt(D[x, x])
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
def _scatter(out, i, j, k, l, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    out[i, k] += value
    if j >= 0:
        out[j, k] -= value
    if l >= 0:
        out[i, l] -= value
        if j >= 0:
            out[j, l] += value


@njit()
def _own_places(first, second, part, low, high):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the places of a user's own parts, each where it comes first among the coordinates."""
    r = 0
    for c in range(low, high):
        r = max(r, part[c] + 1)
    if r == high - low:
        return first[low:high], second[low:high]
    at_first, at_second, r = np.empty(r, np.int64), np.empty(r, np.int64), 0
    for c in range(low, high):
        if part[c] == r:
            at_first[r], at_second[r] = first[c], second[c]
            r += 1
    return at_first, at_second


@njit()
def _add_rows(M, part, low, r):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return E^T M: the rows of a user's coordinates, summed by own part."""
    if r == M.shape[0]:
        return M
    out = np.zeros((r, M.shape[1]))
    for x in range(M.shape[0]):
        e = part[low + x]
        for y in range(M.shape[1]):
            out[e, y] += M[x, y]
    return out


@njit()
def _add_columns(M, part, low, r):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return M E: the columns of a user's coordinates, summed by own part."""
    if r == M.shape[1]:
        return M
    out = np.zeros((M.shape[0], r))
    for x in range(M.shape[0]):
        for y in range(M.shape[1]):
            out[x, part[low + y]] += M[x, y]
    return out


@njit()
def _fill_blocks(users, ends, S, coordinates, places, tau, nu):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return P, W and D of users, one after the other, d and log |I + D P|."""
    (starts, first, second, by_pairs, part), n_rows = coordinates, 0
    for k in range(users.shape[0]):
        n_rows += starts[users[k] + 1] - starts[users[k]]
    P, W, D, d = np.empty(ends[-1]), np.empty(ends[-1]), np.empty(ends[-1]), np.empty(n_rows)
    log_det, row = np.empty(users.shape[0]), 0
    for k in range(users.shape[0]):
        low, high = starts[users[k]], starts[users[k] + 1]
        at, n = ends[k], high - low
        at_first, at_second = _own_places(first, second, part, low, high)
        r = at_first.shape[0]
        own_P = _gather(S, at_first, at_second, 0, r)
        own_D, own_d = _user_sites(users[k], n, places, tau, nu)
        F = _add_rows(own_D, part, low, r)
        D_r = _add_columns(F, part, low, r)
        diagonal = by_pairs[users[k]]
        for x in range(r):  # of the pairs of a choice some may have a negative precision
            diagonal = diagonal and D_r[x, x] >= 0.0
        own_W, log_det[k] = _diagonal_weight(own_P, D_r) if diagonal else _dense_weight(own_P, D_r)
        for x in range(r):
            for y in range(r):
                P[at + x * r + y] = own_P[x, y]
        if r < n:
            own_W = own_D - F.T @ ((own_P - own_P @ own_W @ own_P) @ F)
        for x in range(n):
            d[row + x] = own_d[x]
            for y in range(n):
                W[at], D[at] = own_W[x, y], own_D[x, y]
                at += 1
        row += n
    return P, W, D, d, log_det


def user_block(
    u: int, S: Array, coordinates: Coordinates, places: Places, tau: Array, nu: Array
) -> tuple[Array, Array, Array, Array]:
    """Return P, W, D and d of one user."""
    users = np.array([u])
    P, W, D, d, _ = _fill_blocks(users, ends_of(users, coordinates[0]), S, coordinates, places, tau, nu)
    own = coordinates[4][coordinates[0][u] : coordinates[0][u + 1]]
    r = int(own.max(initial=-1)) + 1
    return P[: r**2].reshape(r, r)[np.ix_(own, own)], *(M.reshape(d.size, d.size) for M in (W, D)), d


class UserBlocks:
    """P, W, D, d and log |I + D P| of users who follow each other, some at a time: (first user, ends, blocks).

    The matrices of a user are from ends[k] to ends[k + 1]. Loops that come back to them are compiled without what makes
    them, which takes longest. If there are few, they are made once.
    """

    def __init__(self, S: Array, coordinates: Coordinates, places: Places, tau: Array, nu: Array) -> None:
        self._sites = S, coordinates, places, tau, nu
        self._all: list[tuple[int, IntArray, Any]] = []

    def __iter__(self) -> Iterator[tuple[int, IntArray, Any]]:
        if self._all:
            yield from self._all
            return
        parts = split_users(np.diff(self._sites[1][0]))
        for users in parts:
            ends = ends_of(users, self._sites[1][0])
            part = int(users[0]), ends, _fill_blocks(users, ends, *self._sites)
            if len(parts) == 1:
                self._all = [part]
            yield part


def ends_of(users: IntArray, starts: IntArray) -> IntArray:
    """Return where the matrices of users begin and end, shape (n + 1,)."""
    return np.concatenate([[0], np.cumsum((starts[users + 1] - starts[users]) ** 2)])


def split_users(n: IntArray) -> list[IntArray]:
    """Return the numbers of users in parts whose matrices fit into memory; n has their numbers of coordinates."""
    part = np.cumsum(n**2) // _MOST_ENTRIES
    return np.split(np.arange(n.size), np.flatnonzero(np.diff(part)) + 1) if n.size else []


@njit()
def _times(M, at, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return M x, where the entries of M begin at a place."""
    out = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            out[i] += M[at] * x[j]
            at += 1
    return out


@njit()
def _times_own(P, at, part, low, r, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return E P E^T x, where the entries of P begin at a place."""
    if r == x.shape[0]:
        return _times(P, at, x)
    sums, out = np.zeros(r), np.empty(x.shape[0])
    for c in range(x.shape[0]):
        sums[part[low + c]] += x[c]
    sums = _times(P, at, sums)
    for c in range(x.shape[0]):
        out[c] = sums[part[low + c]]
    return out


@njit()
def _add_users(low, ends, blocks, coordinates, shift, G, h):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the terms of some users to the sums; return log |I + D P| of these users and the constant."""
    (starts, first, second, _, part), (P, W, D, d_all, log_dets) = coordinates, blocks
    log_det, constant, row = 0.0, 0.0, 0
    for k in range(log_dets.shape[0]):
        start, at, n = starts[low + k], ends[k], starts[low + k + 1] - starts[low + k]
        mean, d = shift[start : start + n], d_all[row : row + n]
        residual = d - _times(D, at, mean)
        r = _own_places(first, second, part, start, start + n)[0].shape[0]
        through = _times_own(P, at, part, start, r, residual)
        of_W = _times(W, at, through)
        log_det += log_dets[k]
        for x in range(n):
            g, i, j = residual[x] - of_W[x], first[start + x], second[start + x]
            constant += g * through[x] + (d[x] + residual[x]) * mean[x]
            h[i] += g
            if j >= 0:
                h[j] -= g
            for y in range(n):
                _scatter(G, i, j, first[start + y], second[start + y], W[at + x * n + y])
        row += n
    return log_det, constant


def integrate_out(
    blocks: UserBlocks, n_items: int, coordinates: Coordinates, shift: Array
) -> tuple[Array, Array, float, float]:
    """Return the terms of the sites in a vector m that all users share, z = A (m + b_u), with the b_u integrated out.

    Sum of A^T W A (n, n); sum of A^T (I - W P) d (n,); sum of log |I + D P|; and the constant of the exponent, twice.
    """
    G, h, log_det, constant = np.zeros((n_items, n_items)), np.zeros(n_items), 0.0, 0.0
    for low, ends, part in blocks:
        more = _add_users(low, ends, part, coordinates, shift, G, h)
        log_det, constant = log_det + more[0], constant + more[1]
    return G, h, log_det, constant


@njit()
def with_covariates(x, n_items, coordinates, alpha):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the sum of A_u^T alpha_u x_u^T over the users, shape (n_items, p)."""
    starts, first, second = coordinates[:3]
    out = np.zeros((n_items, x.shape[1]))
    for u in range(starts.shape[0] - 1):
        for c in range(starts[u], starts[u + 1]):
            for k in range(x.shape[1]):
                out[first[c], k] += alpha[c] * x[u, k]
                if second[c] >= 0:
                    out[second[c], k] -= alpha[c] * x[u, k]
    return out


@njit()
def _row_product(A, B, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the inner product of row x of two matrices."""
    total = 0.0
    for y in range(A.shape[1]):
        total += A[x, y] * B[x, y]
    return total


@njit()
def _write_moments(low, high, n, parts, places, matrices, value, moments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write mean and variance of z of a user's comparisons, given the means of its coordinates."""
    (_, a, _, sign, extra), (part, by_pairs), (mean, variance) = places, parts, moments
    P, Q, PW, PB, PBQ, spread = matrices
    if by_pairs:  # comparisons are single coordinates: the diagonal of the covariance is enough
        for p in range(low, high):
            x, e = a[p], part[a[p]]
            mean[p] = sign[p] * value[x]
            variance[p] = P[e, e] - _row_product(PW, P, e) + Q[x, x] - 2.0 * PBQ[e, x] + _row_product(PBQ, PB, e)
        return
    at, by = np.empty(2 + extra.shape[1], np.int64), np.empty(2 + extra.shape[1])
    rest = P - PW @ P + P @ spread @ P
    for p in range(low, high):
        size = _coefficients(p, n, places, at, by)
        mean[p], variance[p] = 0.0, 0.0
        for k in range(size):
            x, e = at[k], part[at[k]]
            mean[p] += by[k] * value[x]
            for m in range(k + 1):
                y, f = at[m], part[at[m]]
                covariance = Q[x, y] + rest[e, f] - PBQ[e, y] - PBQ[f, x]
                variance[p] += (1.0 if m == k else 2.0) * by[k] * by[m] * covariance


@njit()
def _add_marginals(low, ends, blocks, m, V, coordinates, places, shift, moments, G, alpha):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write what `marginals` returns of some users; return their sum of tr (P W)^2."""
    (starts, first, second, by_pairs, part), rows = coordinates, places[0]
    P_all, W_all, D, d, log_dets = blocks
    information, row = 0.0, 0
    for k in range(log_dets.shape[0]):
        u = low + k
        start, n = starts[u], starts[u + 1] - starts[u]
        at_first, at_second = _own_places(first, second, part, start, start + n)
        r = at_first.shape[0]
        P = P_all[ends[k] : ends[k] + r * r].reshape((r, r))
        W = W_all[ends[k] : ends[k + 1]].reshape((n, n))
        common = np.empty(n)
        for x in range(n):
            common[x] = m[first[start + x]] + shift[start + x]
            if second[start + x] >= 0:
                common[x] -= m[second[start + x]]
        residual = d[row : row + n] - _times(D, ends[k], common)
        own = residual - _times(W_all, ends[k], _times_own(P_all, ends[k], part, start, r, residual))
        value = common + _times_own(P_all, ends[k], part, start, r, own)
        row += n
        # E^T W and its products with P and with the covariance Q of what is common.
        Q, B = _gather(V, first, second, start, start + n), _add_rows(W, part, start, r)
        PB, BQ, W_r, own_r = P @ B, B @ Q, _add_columns(B, part, start, r), np.zeros(r)
        PW, PBQ, spread = _add_columns(PB, part, start, r), P @ BQ, BQ @ B.T
        for x in range(n):
            alpha[start + x] = own[x]
            own_r[part[start + x]] += own[x]
        for x in range(r):
            for y in range(r):
                information += PW[x, y] * PW[y, x]
                moment = spread[x, y] - W_r[x, y] + own_r[x] * own_r[y]
                _scatter(G, at_first[x], at_second[x], at_first[y], at_second[y], moment)
        parts = part[start : start + n], by_pairs[u]
        _write_moments(rows[u], rows[u + 1], n, parts, places, (P, Q, PW, PB, PBQ, spread), value, moments)
    return information


def marginals(
    blocks: UserBlocks, m: Array, V: Array, coordinates: Coordinates, places: Places, shift: Array
) -> tuple[Array, Array, Array, Array, float]:
    """Return moments of the comparisons' z (P,), the sum of A^T E[alpha alpha^T - W] A, E[alpha], sum of tr (P W)^2.

    The posterior mean of b_u is S A^T alpha, and m ~ N(m, V) is what all users share.
    """
    n_rows = places[1].shape[0]
    mean, variance, G, alpha = np.empty(n_rows), np.empty(n_rows), np.zeros_like(V), np.empty(shift.shape[0])
    squared = 0.0
    for low, ends, part in blocks:
        squared += _add_marginals(low, ends, part, m, V, coordinates, places, shift, (mean, variance), G, alpha)
    return mean, variance, G, alpha, squared


@njit()
def _left_product(x, M):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return x^T M."""
    out = np.zeros(M.shape[1])
    for i in range(x.shape[0]):
        for j in range(M.shape[1]):
            out[j] += x[i] * M[i, j]
    return out


@njit()
def _quadratic(M, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return x^T M x."""
    total = 0.0
    for i in range(x.shape[0]):
        through = 0.0
        for j in range(x.shape[0]):
            through += M[i, j] * x[j]
        total += x[i] * through
    return total


@njit()
def _personal_moments(rows, users, ends, W, own, common, V, coordinates, alpha, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write what `personal_moments` returns of the rows of some users, which begin and end at `rows`."""
    (starts, first, second, _, part), (mean, variance, explained) = coordinates, out
    for k in range(users.shape[0]):
        low, n = starts[users[k]], starts[users[k] + 1] - starts[users[k]]
        r = _own_places(first, second, part, low, low + n)[0].shape[0]
        Q, q, c, of_row = _gather(V, first, second, low, low + n), np.empty(n), np.empty(n), np.empty(r)
        B = _add_rows(W[ends[k] : ends[k + 1]].reshape((n, n)), part, low, r)
        spread = B @ Q @ B.T if r < n else Q  # the same for all rows, of own parts
        for p in range(rows[k], rows[k + 1]):
            for x in range(n):
                i, j = first[low + x], second[low + x]
                q[x], c[x] = own[p, i], common[p, i]
                if j >= 0:
                    q[x] -= own[p, j]
                    c[x] -= common[p, j]
                mean[p] += q[x] * alpha[low + x]
                of_row[part[low + x]] = q[x]
            Wq = _left_product(of_row, B) if r < n else _times(W, ends[k], q)
            variance[p] += _quadratic(spread, of_row if r < n else Wq)
            for x in range(n):
                variance[p] -= Wq[x] * (q[x] + 2.0 * c[x])
                explained[p, first[low + x]] += Wq[x]
                if second[low + x] >= 0:
                    explained[p, second[low + x]] -= Wq[x]


def personal_moments(
    user: IntArray,
    own: Array,
    common: Array,
    S: Array,
    V: Array,
    coordinates: Coordinates,
    places: Places,
    tau: Array,
    nu: Array,
    alpha: Array,
) -> tuple[Array, Array, Array]:
    """Return the user's part of mean and variance of rows (n,), and A^T W times the explained rows (n, n_items).

    The rows of a user are together. `own` (n, n_items) is the prior covariance of a row's personal part with the items'
    b, `common` its posterior covariance with the items' m.
    """
    out = np.zeros(user.size), np.zeros(user.size), np.zeros((user.size, S.shape[0]))
    rows = np.append(np.flatnonzero(np.diff(user, prepend=-1)), user.size)
    users, starts = user[rows[:-1]], coordinates[0]
    for part in split_users(starts[users + 1] - starts[users]):
        some, ends = users[part], ends_of(users[part], starts)
        W = _fill_blocks(some, ends, S, coordinates, places, tau, nu)[1]
        of_part = rows[part[0] : part[-1] + 2]
        _personal_moments(of_part, some, ends, W, own, common, V, coordinates, alpha, out)
    return out
