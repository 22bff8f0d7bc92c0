"""Loops over choices of one among k, whose k (k - 1) / 2 pairs stand together: (0, 1), ..., (0, k - 1), (1, 2), ...

Alternative 0 was chosen, and z_i - z_j of each pair has a mean and a variance, from which the joint distribution of
all differences to alternative 0 follows. The site of a choice is one Gaussian factor in these r = k - 1 differences; as
its matrix is that of a graph (its rows sum to 0), it is a precision for each pair and a linear term for those of 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from skpref._compiled.jit import njit

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray

    Nodes: TypeAlias = tuple[Array, Array, IntArray, IntArray, IntArray]  # of `skpref.inference.choices.nodes_of`

_RANK = 1e-9  # share of the largest eigenvalue of differences, below which one is a combination of others
# Eigenvalues of a site in units of the prior, and those of the tilted covariance in one pass, stay within these.
_LEAST_SITE, _LARGEST_SITE = 1e-9, 50.0
_NARROWEST, _WIDEST = 0.2, 5.0
# Differences, and weight, up to which sites match the tilted distribution. Beyond, the inverse of a covariance from few
# points is too large, or weights of points vary too much: then sites are variational.
_MOST_MATCHED, _HEAVIEST = 8, 3.0
_FAST = {"contract", "reassoc", "nsz"}  # flags for sums over points
_INVERSE = tuple(1.0 / math.factorial(n) for n in range(11))  # coefficients of exp, as divisions are slow


@njit()
def _size(n_pairs):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return how many alternatives have so many pairs."""
    return int(0.5 + np.sqrt(0.25 + 2.0 * n_pairs) + 1e-9)


@njit()
def _pair(i, j, k):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the place of the pair (i, j), i < j, among all pairs of k alternatives."""
    return i * k - i * (i + 1) // 2 + j - i - 1


@njit()
def _root_of_differences(low, k, variance, is_smooth):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return a root R (r, f) of the covariance of the differences to alternative 0, and the inverse (f, r).

    The columns are the directions of the variance. A smooth root is the symmetric one, if no difference is a
    combination of others: directions of equal variance turn with any rounding, and points that turn with them would add
    noise to each pass of a fit.
    """
    r = k - 1
    P = np.empty((r, r))
    for a in range(r):
        P[a, a] = variance[low + a]
        for b in range(a):
            both = variance[low + _pair(b + 1, a + 1, k)]
            P[a, b] = 0.5 * (variance[low + a] + variance[low + b] - both)
            P[b, a] = P[a, b]
    size, directions = np.linalg.eigh(P)
    f = 0
    for a in range(r):
        if size[a] > _RANK * size[r - 1] + 1e-300:
            f += 1
    smooth = is_smooth and f == r
    R, inverse = np.zeros((r, f)), np.zeros((f, r))
    for x in range(f):
        root = np.sqrt(size[r - f + x])
        for a in range(r):
            along = directions[a, r - f + x]
            if not smooth:
                R[a, x], inverse[x, a] = along * root, along / root
            else:
                for b in range(r):
                    R[a, b] += along * root * directions[b, x]
                    inverse[a, b] += along / root * directions[b, x]
    return R, inverse


@njit()
def _is_above(M, low, sign):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Tell whether sign (M - low I) has a Cholesky factor."""
    n = M.shape[0]
    F = np.empty((n, n))
    for j in range(n):
        pivot = sign * (M[j, j] - low)
        for k in range(j):
            pivot -= F[j, k] * F[j, k]
        if not pivot > 0.0:
            return False
        F[j, j] = np.sqrt(pivot)
        for i in range(j + 1, n):
            value = sign * M[i, j]
            for k in range(j):
                value -= F[i, k] * F[j, k]
            F[i, j] = value / F[j, j]
    return True


@njit()
def _bounded(M, low, high):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return M with eigenvalues that are moved between two numbers; mostly none must move."""
    if _is_above(M, low, 1.0) and _is_above(M, high, -1.0):
        return M
    size, directions = np.linalg.eigh(M)
    out = np.zeros(M.shape)
    for x in range(size.shape[0]):
        for a in range(size.shape[0]):
            along = min(max(size[x], low), high) * directions[a, x]
            for b in range(size.shape[0]):
                out[a, b] += along * directions[b, x]
    return out


@njit()
def _nodes_of(f, nodes, number):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return one of the sets of points in f dimensions (f, Q), and the logarithms of their weights (Q,)."""
    points, logs, starts, log_starts, n_sets = nodes
    Q = log_starts[f + 1] - log_starts[f]
    low = starts[f] + (number % n_sets[f]) * Q * f
    return points[low : low + Q * f].reshape((f, Q)), logs[log_starts[f] : log_starts[f + 1]]


@njit()
def _exp(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Replace numbers of at most 0 by their exponentials, and numbers below -40 by e^-40, to 1e-7 of each.

    It is exp(x / 64)^64, by a polynomial. Other than calls of a library's, such loops run in SIMD lanes.
    """
    for q in range(x.shape[0]):
        y = max(x[q], -40.0) * (1.0 / 64.0)
        p = _INVERSE[7] + y * (_INVERSE[8] + y * (_INVERSE[9] + y * _INVERSE[10]))
        p = _INVERSE[3] + y * (_INVERSE[4] + y * (_INVERSE[5] + y * (_INVERSE[6] + y * p)))
        p = 1.0 + y * (1.0 + y * (0.5 + y * p))
        p = p * p
        p = p * p
        p = p * p
        p = p * p
        p = p * p
        x[q] = p * p


@njit()
def _exp_below_top(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Replace numbers by their exponentials, in units of the largest one, and return the logarithm of that."""
    top = -np.inf
    for q in range(x.shape[0]):
        top = max(top, x[q])
    for q in range(x.shape[0]):
        x[q] -= top
    _exp(x)
    return top


@njit()
def _congruent(A, M):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return A^T M A."""
    r, f = A.shape
    half, out = np.zeros((r, f)), np.zeros((f, f))
    for a in range(r):
        for b in range(r):
            for x in range(f):
                half[a, x] += M[a, b] * A[b, x]
    for a in range(r):
        for x in range(f):
            for y in range(f):
                out[x, y] += A[a, x] * half[a, y]
    return out


@njit()
def _transposed_times(A, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the transpose of A times x."""
    out = np.zeros(A.shape[1])
    for a in range(A.shape[0]):
        for b in range(A.shape[1]):
            out[b] += A[a, b] * x[a]
    return out


@njit()
def _softmax(mu, R, points):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return softmax of 0 and z = mu + R e but for its normaliser, shape (1 + r, Q), and log of the normaliser."""
    r, Q = mu.shape[0], points.shape[1]
    terms, top, total = np.zeros((r + 1, Q)), np.zeros(Q), np.zeros(Q)
    for a in range(r):
        row = terms[a + 1]
        for q in range(Q):
            row[q] = mu[a]
        for x in range(R.shape[1]):
            for q in range(Q):
                row[q] += R[a, x] * points[x, q]
        for q in range(Q):
            top[q] = max(top[q], row[q])
    for a in range(r + 1):
        row = terms[a]
        for q in range(Q):
            row[q] -= top[q]
        _exp(row)
        for q in range(Q):
            total[q] += row[q]
    return terms, total, top


@njit()
def _old_site(low, k, mean, tau, nu):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return means of the differences to alternative 0 (r,), and their site: linear term (r,) and precision (r, r)."""
    r = k - 1
    mu, n, L = np.empty(r), np.empty(r), np.zeros((r, r))
    for a in range(r):
        mu[a], n[a] = -mean[low + a], -nu[low + a]
        L[a, a] += tau[low + a]
        for b in range(a):
            precision = tau[low + _pair(b + 1, a + 1, k)]
            L[a, b], L[b, a] = -precision, -precision
            L[a, a] += precision
            L[b, b] += precision
    return mu, n, L


@njit(fastmath=_FAST, forceinline=True)
def _moments_of_points(points, weight):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the sum of the weights, and the mean (f,) and covariance (f, f) of points (f, Q)."""
    f, Q = points.shape
    weighted, m, C = np.empty(Q), np.empty(f), np.empty((f, f))
    total = 0.0
    for q in range(Q):
        total += weight[q]
    for a in range(f):
        first = 0.0
        for q in range(Q):
            weighted[q] = points[a, q] * weight[q]
            first += weighted[q]
        m[a] = first / total
        for b in range(a + 1):
            both = 0.0
            for q in range(Q):
                both += weighted[q] * points[b, q]
            C[a, b] = both / total - m[a] * m[b]
            C[b, a] = C[a, b]
    return total, m, C


@njit()
def _tilted_moments(mu, R, w, site, rule):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return log E[p(y | z)^w / site(z)] and the mean and covariance of e under these weights; z = mu + R e."""
    (quadratic, slope, constant), (points, logs) = site, rule
    f, Q = points.shape
    _, normaliser, largest = _softmax(mu, R, points)
    share = np.empty(Q)
    for q in range(Q):
        share[q] = logs[q] + constant - w * largest[q]
    if w != 1.0:
        for q in range(Q):
            share[q] -= w * np.log(normaliser[q])
    for a in range(f):
        half = 0.5 * quadratic[a, a]
        for q in range(Q):
            share[q] += points[a, q] * (half * points[a, q] + slope[a])
        for b in range(a):
            for q in range(Q):
                share[q] += quadratic[a, b] * points[a, q] * points[b, q]
    top = _exp_below_top(share)
    if w == 1.0:  # logarithms are slow
        for q in range(Q):
            share[q] /= normaliser[q]
    total, m, C = _moments_of_points(points, share)
    return top + np.log(total), m, C


@njit()
def _softmax_moments(mu, R, rule):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return E[log p_0], E[p] (k,) and E[p p^T] (k, k) of p = softmax of 0 and z = mu + R e."""
    points, logs = rule
    terms, normaliser, largest = _softmax(mu, R, points)
    (k, Q), value = terms.shape, 0.0
    weight = np.empty(Q)
    for q in range(Q):
        weight[q] = np.exp(logs[q])
        value -= weight[q] * (largest[q] + np.log(normaliser[q]))
    for a in range(k):
        for q in range(Q):
            terms[a, q] /= normaliser[q]
    _, p, both = _moments_of_points(terms, weight)
    for a in range(k):
        for b in range(k):
            both[a, b] += p[a] * p[b]
    return value, p, both


@njit()
def _variational_site(low, k, w, mu, R, rule, mean, new_tau, new_nu):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the site with the derivatives of w E[log p], and return this expectation."""
    value, p, both = _softmax_moments(mu, R, rule)
    for a in range(k):
        for b in range(a):
            new_tau[low + _pair(b, a, k)] = w * both[a, b]
    pull = _transposed_times(_old_site(low, k, mean, new_tau, new_nu)[2], mu)
    for a in range(k - 1):
        new_nu[low + a] = w * p[a + 1] - pull[a]
    return w * value


@njit()
def _growth_of_site(old, precision_of_e):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return how much the site grows, in units of the prior, where e has this precision instead of I."""
    f = old.shape[0]
    site = np.empty((f, f))
    for a in range(f):
        for b in range(f):
            site[a, b] = old[a, b] + 0.5 * (precision_of_e[a, b] + precision_of_e[b, a]) - (a == b)
    site = _bounded(site, _LEAST_SITE, _LARGEST_SITE)
    for a in range(f):
        for b in range(f):
            site[a, b] -= old[a, b]
    return site


@njit()
def _exponent_of_site(mu, n, pull, R):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return how the old site begins in e: the linear term (f,), and the constant; pull = L mu."""
    constant, rest = 0.0, np.empty(mu.shape[0])
    for a in range(mu.shape[0]):
        constant += mu[a] * (0.5 * pull[a] - n[a])
        rest[a] = pull[a] - n[a]
    return _transposed_times(R, rest), constant


@njit()
def matching_choices(
    first: IntArray, mean: Array, variance: Array, weight: Array, tau: Array, nu: Array, nodes: Nodes
) -> tuple[Array, Array, float]:
    """Return the sites that match the tilted distributions, tau and nu, and the log normalisers of the old ones.

    With q(z) the posterior and z = mu + R e, the weights p(y | z)^w / site(z) at the nodes of e ~ N(0, I) have the mean
    W, and the first moments m and C: then the site grows by D = R^+T (C^-1 - I) R^+, and its linear term by
    D mu + R^+T C^-1 m. As sites are close to the likelihood, these weights are nearly constant. Many alternatives, and
    heavy weights, have variational sites.
    """
    new_tau, new_nu, total = tau.copy(), nu.copy(), 0.0
    for t in range(first.shape[0] - 1):
        low = first[t]
        k = _size(first[t + 1] - low)
        r, w = k - 1, weight[low]
        is_matched = r <= _MOST_MATCHED and w <= _HEAVIEST
        R, inverse = _root_of_differences(low, k, variance, not is_matched)
        f = R.shape[1]
        if f == 0:  # all alternatives are the same
            total -= w * np.log(k)
            continue
        mu, n, L = _old_site(low, k, mean, tau, nu)
        old = _congruent(R, L)
        slope, constant = _exponent_of_site(mu, n, _transposed_times(L, mu), R)
        rule = _nodes_of(f, nodes, t)
        if not is_matched:
            expected = _variational_site(low, k, w, mu, R, rule, mean, new_tau, new_nu)
            total += expected + constant
            for a in range(f):
                total += 0.5 * old[a, a]
            continue
        log_mass, m, C = _tilted_moments(mu, R, w, (old, slope, constant), rule)
        total += log_mass
        precision_of_e = np.linalg.inv(_bounded(C, _NARROWEST, _WIDEST))
        D = _congruent(inverse, _growth_of_site(old, precision_of_e))
        linear, of_mean = _transposed_times(D, mu), _transposed_times(inverse, _transposed_times(precision_of_e, m))
        for a in range(r):
            of_chosen = 0.0
            for b in range(r):
                of_chosen += D[a, b]
            for b in range(a):
                new_tau[low + _pair(b + 1, a + 1, k)] -= D[a, b]
            new_tau[low + a] += of_chosen
            new_nu[low + a] -= linear[a] + of_mean[a]
    return new_tau, new_nu, total


@njit()
def expected_choices(first: IntArray, mean: Array, variance: Array, nodes: Nodes) -> tuple[Array, Array, Array]:
    """Return E[log p] of choices, and of each pair its derivative in the mean and the precision of its site.

    With softmax p these are E[p_j] of the pairs (0, j), 0 of the others, and E[p_i p_j]: the variational bound's.
    """
    value, slope, precision = np.zeros(mean.shape[0]), np.zeros(mean.shape[0]), np.zeros(mean.shape[0])
    for t in range(first.shape[0] - 1):
        low = first[t]
        k = _size(first[t + 1] - low)
        R, _ = _root_of_differences(low, k, variance, True)
        value[low], p, both = _softmax_moments(-mean[low : low + k - 1], R, _nodes_of(R.shape[1], nodes, t))
        for a in range(k):
            for b in range(a):
                precision[low + _pair(b, a, k)] = both[a, b]
            if a:
                slope[low + a - 1] = p[a]
    return value, slope, precision


@njit()
def expected_shares(first: IntArray, mean: Array, variance: Array, nodes: Nodes) -> Array:
    """Return the probability of each alternative of each choice, one after the other; z_0 stands first in its pairs."""
    n = 0
    for t in range(first.shape[0] - 1):
        n += _size(first[t + 1] - first[t])
    out, at = np.zeros(n), 0
    for t in range(first.shape[0] - 1):
        low = first[t]
        k = _size(first[t + 1] - low)
        R, _ = _root_of_differences(low, k, variance, True)
        points, logs = _nodes_of(R.shape[1], nodes, 0)  # so that a prediction does not depend on its place
        terms, normaliser, _ = _softmax(-mean[low : low + k - 1], R, points)
        for q in range(logs.shape[0]):
            share = np.exp(logs[q]) / normaliser[q]
            for a in range(k):
                out[at + a] += terms[a, q] * share
        at += k
    return out
