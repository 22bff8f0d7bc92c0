"""Loops over choices of one among k, whose k (k - 1) / 2 pairs stand together: (0, 1), ..., (0, k - 1), (1, 2), ...

Alternative 0 was chosen, and z_i - z_j of each pair has a mean and a variance, from which the joint distribution of
all differences to alternative 0 follows. The site of a choice is one Gaussian factor in these r = k - 1 differences; as
its matrix is that of a graph (its rows sum to 0), it is a precision for each pair and a linear term for those of 0.
"""

from __future__ import annotations

import numpy as np

from skpref._compiled.jit import njit

_RANK = 1e-9  # of the largest eigenvalue of differences: below, a difference is a combination of others
# Eigenvalues of a site in units of the prior, and those of the tilted covariance in one pass, stay within these.
_LEAST_SITE, _LARGEST_SITE = 1e-9, 50.0
_NARROWEST, _WIDEST = 0.2, 5.0


@njit()
def _size(n_pairs):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return how many alternatives have so many pairs."""
    return int(0.5 + np.sqrt(0.25 + 2.0 * n_pairs) + 1e-9)


@njit()
def _pair(i, j, k):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the place of the pair (i, j), i < j, among those of k alternatives."""
    return i * k - i * (i + 1) // 2 + j - i - 1


@njit()
def _root_of_differences(low, k, variance):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return a root R (r, f) of the covariance of the differences to alternative 0, and the inverse (f, r)."""
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
    kept, root = np.ascontiguousarray(directions[:, r - f :]), np.sqrt(size[r - f :])
    return kept * root, np.ascontiguousarray((kept / root).T)


@njit()
def _nodes_of(f, nodes, number):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return one of the sets of points in f dimensions (Q, f), and the logarithms of their weights (Q,)."""
    points, logs, starts, log_starts, n_sets = nodes
    Q = log_starts[f + 1] - log_starts[f]
    low = starts[f] + (number % n_sets[f]) * Q * f
    return points[low : low + Q * f].reshape((Q, f)), logs[log_starts[f] : log_starts[f + 1]]


@njit()
def _softmax_terms(mu, R, e, z):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write z = mu + R e and return the largest of 0 and z, and log of the sum of exp of these."""
    top = 0.0
    for a in range(mu.shape[0]):
        s = mu[a]
        for x in range(R.shape[1]):
            s += R[a, x] * e[x]
        z[a] = s
        top = max(top, s)
    total = np.exp(-top)
    for a in range(mu.shape[0]):
        total += np.exp(z[a] - top)
    return top + np.log(total)


@njit()
def matching_choices(first, mean, variance, weight, tau, nu, nodes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the sites that match the tilted distributions, tau and nu, and the log normalisers of the old ones.

    With q(z) the posterior and z = mu + R e, the weights p(y | z)^w / site(z) at the nodes of e ~ N(0, I) have the mean
    W, and the first moments m and C: then the site grows by D = R^+T (C^-1 - I) R^+, and its linear term by
    D mu + R^+T C^-1 m. As sites are close to the likelihood, these weights are nearly constant.
    """
    new_tau, new_nu, total = tau.copy(), nu.copy(), 0.0
    for t in range(first.shape[0] - 1):
        low = first[t]
        k = _size(first[t + 1] - low)
        r, w = k - 1, weight[low]
        R, inverse = _root_of_differences(low, k, variance)
        f = R.shape[1]
        if f == 0:  # all alternatives are the same
            total -= w * np.log(k)
            continue
        mu, n, L, z = np.empty(r), np.empty(r), np.zeros((r, r)), np.empty(r)
        for a in range(r):
            mu[a], n[a] = -mean[low + a], -nu[low + a]
            L[a, a] += tau[low + a]
            for b in range(a):
                precision = tau[low + _pair(b + 1, a + 1, k)]
                L[a, b], L[b, a] = -precision, -precision
                L[a, a] += precision
                L[b, b] += precision
        points, logs = _nodes_of(f, nodes, t)
        Q = logs.shape[0]
        log_weight, top = np.empty(Q), -np.inf
        for q in range(Q):
            value = logs[q] - w * _softmax_terms(mu, R, points[q], z)
            for a in range(r):
                x = 0.0
                for b in range(r):
                    x += L[a, b] * z[b]
                value += z[a] * (0.5 * x - n[a])
            log_weight[q] = value
            top = max(top, value)
        W, m, C = 0.0, np.zeros(f), np.zeros((f, f))
        for q in range(Q):
            x = np.exp(log_weight[q] - top)
            W += x
            for a in range(f):
                m[a] += x * points[q, a]
                for b in range(a + 1):
                    C[a, b] += x * points[q, a] * points[q, b]
        total += top + np.log(W)
        m /= W
        for a in range(f):
            for b in range(a + 1):
                C[a, b] = C[a, b] / W - m[a] * m[b]
                C[b, a] = C[a, b]
        size, directions = np.linalg.eigh(C)
        size = np.minimum(np.maximum(size, _NARROWEST), _WIDEST)
        precision_of_e = (directions / size) @ directions.T
        old = R.T @ L @ R
        site = old + precision_of_e - np.eye(f)
        size, directions = np.linalg.eigh(0.5 * (site + site.T))
        size = np.minimum(np.maximum(size, _LEAST_SITE), _LARGEST_SITE)
        D = inverse.T @ ((directions * size) @ directions.T - old) @ inverse
        linear = D @ mu + inverse.T @ (precision_of_e @ m)
        for a in range(r):
            of_chosen = D[a, a]
            for b in range(r):
                if b != a:
                    of_chosen += D[a, b]
            for b in range(a):
                new_tau[low + _pair(b + 1, a + 1, k)] -= D[a, b]
            new_tau[low + a] += of_chosen
            new_nu[low + a] -= linear[a]
    return new_tau, new_nu, total


@njit()
def expected_shares(first, mean, variance, nodes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the probability of each alternative of each choice, one after the other; z_0 stands first in its pairs."""
    n = 0
    for t in range(first.shape[0] - 1):
        n += _size(first[t + 1] - first[t])
    out, at = np.zeros(n), 0
    for t in range(first.shape[0] - 1):
        low = first[t]
        k = _size(first[t + 1] - low)
        R, _ = _root_of_differences(low, k, variance)
        mu, z = -mean[low : low + k - 1], np.empty(k - 1)
        points, logs = _nodes_of(R.shape[1], nodes, t)
        for q in range(logs.shape[0]):
            log_total, share = _softmax_terms(mu, R, points[q], z), np.exp(logs[q])
            out[at] += share * np.exp(-log_total)
            for a in range(k - 1):
                out[at + 1 + a] += share * np.exp(z[a] - log_total)
        at += k
    return out
