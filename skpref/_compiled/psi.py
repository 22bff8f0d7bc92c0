"""Expectations of a squared exponential kernel over Gaussian inputs (the psi statistics), and their adjoints.

With x_n ~ N(mu_n, diag s_n), k(x, z) = a exp(-1/2 sum_q w_q (x_q - z_q)^2) and the offsets d = mu_n - z:

    psi1_nm    = E k(x_n, z_m)            = a prod_q (w_q s_q + 1)^-1/2 exp(-1/2 sum_q c_q d_mq^2),  c = w/(w s + 1)
    psi2_n,ml  = E k(x_n, z_m) k(x_n, z_l) = a^2 prod_q (2 w_q s_q + 1)^-1/2
                 exp(-1/4 sum_q w_q (z_mq - z_lq)^2 - 1/4 sum_q e_q (d_mq + d_lq)^2),               e = w/(2 w s + 1)

([TL10] eq. 15-16 in this notation.) A row costs M^2 Q multiplications and M^2/2 exponentials, in
loops over l that run in SIMD lanes. Rows are dealt to a fixed
number of blocks, whose sums are added in order: any number of threads gives the same bits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from numba import prange

from skpref._compiled._jit import may_use_threads, njit
from skpref._compiled.kernels import _exp

if TYPE_CHECKING:
    from skpref._typing import Array

__all__ = ["fit_rows", "psi_statistics", "psi_vjp"]

_BLOCKS: Final = 16
_ARMIJO: Final = 1e-4
_HALVINGS: Final = 30


@njit()
def _first(mu, s, ZT, w, a, D, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Fill psi1 of one input, and the offsets D = mu - Z^T, shape (Q, M)."""
    Q, M = ZT.shape
    scale = 1.0
    out[:] = 0.0
    for q in range(Q):
        stretch = w[q] * s[q] + 1.0
        scale *= stretch
        c, centre = w[q] / stretch, mu[q]
        for m in range(M):
            d = centre - ZT[q, m]
            D[q, m] = d
            out[m] += c * d * d
    scale = a / math.sqrt(scale)
    for m in range(M):
        out[m] = scale * _exp(-0.5 * out[m])


@njit()
def _second(s, w, a, apart, D, R, total, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Fill the lower triangle of psi2 of one input; `apart` holds exp(-1/4 sum w (z - z')^2), R and total are work."""
    Q, M = D.shape
    scale = 1.0
    for q in range(Q):
        stretch = 2.0 * w[q] * s[q] + 1.0
        scale *= stretch
        root = 0.5 * math.sqrt(w[q] / stretch)
        for m in range(M):
            R[q, m] = root * D[q, m]
    scale = a * a / math.sqrt(scale)
    for m in range(M):
        total[: m + 1] = 0.0
        for q in range(Q):
            here = R[q, m]
            for l in range(m + 1):
                both = here + R[q, l]
                total[l] += both * both
        for l in range(m + 1):
            out[m, l] = scale * apart[m, l] * _exp(-total[l])


def _statistics(mu, s, ZT, w, a, apart, psi1):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    n, (Q, M) = mu.shape[0], ZT.shape
    parts = np.zeros((_BLOCKS, M, M))
    for block in prange(_BLOCKS):
        D, R, work, one = np.empty((Q, M)), np.empty((Q, M)), np.empty(M), np.empty((M, M))
        total = parts[block]
        for i in range(block * n // _BLOCKS, (block + 1) * n // _BLOCKS):
            _first(mu[i], s[i], ZT, w, a, D, psi1[i])
            _second(s[i], w, a, apart, D, R, work, one)
            for m in range(M):
                for l in range(m + 1):
                    total[m, l] += one[m, l]
    psi2 = np.zeros((M, M))
    for block in range(_BLOCKS):
        psi2 += parts[block]
    for m in range(M):
        for l in range(m):
            psi2[l, m] = psi2[m, l]
    return psi2


_statistics_serial = njit()(_statistics)
_statistics_parallel = njit(parallel=True)(_statistics)


@njit()
def _pull_first(s, w, P, D, gmu, gs, gZT, gw):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the gradients through psi1 of one input; P holds adjoint times value; returns the sum of P."""
    Q, M = D.shape
    total = 0.0
    for m in range(M):
        total += P[m]
    for q in range(Q):
        shrink = 1.0 / (w[q] * s[q] + 1.0)
        c = w[q] * shrink
        first = second = 0.0
        for m in range(M):
            pd = P[m] * D[q, m]
            first += pd
            second += pd * D[q, m]
            gZT[q, m] += c * pd
        gmu[q] -= c * first
        gs[q] += 0.5 * c * (c * second - total)
        gw[q] -= 0.5 * shrink * (s[q] * total + shrink * second)
    return total


@njit()
def _pull_second(s, w, P, D, row, PD, gmu, gs, gZT, gw):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the gradients through psi2 of one input, but for those through `apart`.

    P holds adjoint times value, full and symmetric; row and PD are work.
    """
    Q, M = D.shape
    row[:] = 0.0
    PD[:] = 0.0
    for l in range(M):
        for m in range(M):
            row[m] += P[l, m]
        for q in range(Q):
            d = D[q, l]
            for m in range(M):
                PD[q, m] += d * P[l, m]
    total = 0.0
    for m in range(M):
        total += row[m]
    for q in range(Q):
        shrink = 1.0 / (2.0 * w[q] * s[q] + 1.0)
        e = w[q] * shrink
        first = second = 0.0
        for m in range(M):
            own = row[m] * D[q, m]
            both = own + PD[q, m]
            first += own
            second += D[q, m] * both  # twice the sum of P (mu - (z + z')/2)^2
            gZT[q, m] += e * both
        gmu[q] -= 2.0 * e * first
        gs[q] += e * (e * second - total)
        gw[q] -= shrink * (s[q] * total + 0.5 * shrink * second)


def _adjoints(mu, s, ZT, w, a, apart, G1, G2, gmu, gs):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    n, (Q, M) = mu.shape[0], ZT.shape
    gZT, gw, ga, sums = np.zeros((_BLOCKS, Q, M)), np.zeros((_BLOCKS, Q)), np.zeros(_BLOCKS), np.zeros((_BLOCKS, M, M))
    for block in prange(_BLOCKS):
        D, R, PD = np.empty((Q, M)), np.empty((Q, M)), np.empty((Q, M))
        work, P1, P2 = np.empty(M), np.empty(M), np.empty((M, M))
        total = sums[block]
        for i in range(block * n // _BLOCKS, (block + 1) * n // _BLOCKS):
            _first(mu[i], s[i], ZT, w, a, D, P1)
            for m in range(M):
                P1[m] *= G1[i, m]
            _second(s[i], w, a, apart, D, R, work, P2)
            for m in range(M):
                for l in range(m + 1):
                    P2[m, l] *= G2[m, l]
                    P2[l, m] = P2[m, l]
                    total[m, l] += P2[m, l]
            ga[block] += _pull_first(s[i], w, P1, D, gmu[i], gs[i], gZT[block], gw[block])
            _pull_second(s[i], w, P2, D, work, PD, gmu[i], gs[i], gZT[block], gw[block])
    for block in range(1, _BLOCKS):
        gZT[0] += gZT[block]
        gw[0] += gw[block]
        ga[0] += ga[block]
        sums[0] += sums[block]
    return gZT[0], gw[0], ga[0], sums[0]


_adjoints_serial = njit()(_adjoints)
_adjoints_parallel = njit(parallel=True)(_adjoints)


def _apart(Z: Array, w: Array) -> Array:
    apart: Array = np.exp(-0.25 * np.einsum("mlq,q->ml", (Z[:, None] - Z[None]) ** 2, w))
    return apart


def psi_statistics(mu: Array, s: Array, Z: Array, w: Array, a: float) -> tuple[Array, Array]:
    """Return the expected kernel rows and the sum of the expected products of kernel rows.

    Parameters
    ----------
    mu, s : ndarray of shape (n, Q)
        Means and variances of the inputs.
    Z : ndarray of shape (M, Q)
        Inducing inputs.
    w : ndarray of shape (Q,)
        Inverse squared length-scales.
    a : float
        Amplitude of the kernel, k(x, x).

    Returns
    -------
    psi1 : ndarray of shape (n, M)
        E k(x_n, z_m).
    psi2 : ndarray of shape (M, M)
        sum_n E k(x_n, z_m) k(x_n, z_l).

    Examples
    --------
    >>> import numpy as np
    >>> from skpref._compiled.psi import psi_statistics
    >>> psi_statistics(np.zeros((1, 1)), np.full((1, 1), 1.5), np.zeros((1, 1)), np.ones(1), 1.0)[1]
    array([[0.5]])
    """
    psi1 = np.empty((mu.shape[0], Z.shape[0]))
    loop = _statistics_parallel if may_use_threads() else _statistics_serial
    psi2: Array = loop(mu, s, np.ascontiguousarray(Z.T), w, a, _apart(Z, w), psi1)
    return psi1, psi2


def psi_vjp(
    mu: Array, s: Array, Z: Array, w: Array, a: float, G1: Array, G2: Array
) -> tuple[Array, Array, Array, Array, float]:
    """Pull adjoints of the psi statistics back to all that they depend on.

    Parameters
    ----------
    mu, s, Z, w, a
        As in `psi_statistics`.
    G1 : ndarray of shape (n, M)
        Adjoint of psi1.
    G2 : ndarray of shape (M, M)
        Adjoint of psi2, symmetric.

    Returns
    -------
    gmu, gs : ndarray of shape (n, Q)
        Gradients in the means and the variances.
    gZ : ndarray of shape (M, Q)
        In the inducing inputs.
    gw : ndarray of shape (Q,)
        In the inverse squared length-scales.
    ga : float
        In the logarithm of the amplitude.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref._compiled.psi import psi_vjp
    >>> one = np.ones((1, 1))
    >>> round(psi_vjp(0.0 * one, one, 0.0 * one, np.ones(1), 2.0, one, 0.0 * one)[-1], 4)
    1.4142
    """
    gmu, gs = np.zeros_like(mu), np.zeros_like(s)
    loop = _adjoints_parallel if may_use_threads() else _adjoints_serial
    gZT, gw, ga, below = loop(mu, s, np.ascontiguousarray(Z.T), w, a, _apart(Z, w), G1, G2, gmu, gs)
    sums = np.tril(below) + np.tril(below, -1).T
    spread = sums.sum(axis=1)
    # Through exp(-1/4 sum w (z - z')^2); every pair counts twice in the slope of its inducing inputs.
    gZ = gZT.T - w * (spread[:, None] * Z - sums @ Z)
    gw -= 0.5 * (np.einsum("m,mq->q", spread, Z**2) - np.einsum("mq,ml,lq->q", Z, sums, Z))
    return gmu, gs, gZ, gw, float(ga + 2.0 * sums.sum())


@njit()
def _row_value(mu, s, ZT, w, a, apart, g, W, P1, D, R, work, P2):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """G . psi1 + <W, psi2> - KL(q || N(0, I)) of one input; leaves adjoints times values in P1 and P2."""
    Q, M = ZT.shape
    _first(mu, s, ZT, w, a, D, P1)
    _second(s, w, a, apart, D, R, work, P2)
    value = 0.0
    for m in range(M):
        P1[m] *= g[m]
        value += P1[m]
        for l in range(m):
            P2[m, l] *= W[m, l]
            P2[l, m] = P2[m, l]
            value += 2.0 * P2[m, l]
        P2[m, m] *= W[m, m]
        value += P2[m, m]
    for q in range(Q):
        value -= 0.5 * (mu[q] * mu[q] + s[q] - 1.0 - math.log(s[q]))
    return value


def _fit_rows(mu, s, ZT, w, a, apart, G, W, max_iter, tol, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, C901
    n, (Q, M) = mu.shape[0], ZT.shape
    steps = np.zeros(n, dtype=np.int64)
    for i in prange(n):
        D, R, PD, gZT = np.empty((Q, M)), np.empty((Q, M)), np.empty((Q, M)), np.zeros((Q, M))
        work, P1, P2 = np.empty(M), np.empty(M), np.empty((M, M))
        gmu, gs, gw, new_mu, new_s = np.empty(Q), np.empty(Q), np.empty(Q), np.empty(Q), np.empty(Q)
        here = _row_value(mu[i], s[i], ZT, w, a, apart, G[i], W, P1, D, R, work, P2)
        rho = 1.0
        for step in range(max_iter):
            gmu[:] = 0.0
            gs[:] = 0.0
            _pull_first(s[i], w, P1, D, gmu, gs, gZT, gw)
            _pull_second(s[i], w, P2, D, work, PD, gmu, gs, gZT, gw)
            # The natural gradient of a Gaussian with precision 1/s: the prior's precision is 1.
            gain = 0.0
            for q in range(Q):
                slope = gmu[q] - mu[i, q]
                gain += s[i, q] * slope * slope + 2.0 * (s[i, q] * (gs[q] - 0.5) + 0.5) ** 2
            moved = False
            for _ in range(_HALVINGS):
                sound = True
                for q in range(Q):
                    precision = (1.0 - rho) / s[i, q] + rho * (1.0 - 2.0 * gs[q])
                    if precision <= 0.1 / s[i, q]:
                        sound = False
                        break
                    new_s[q] = 1.0 / precision
                    new_mu[q] = mu[i, q] + rho * new_s[q] * (gmu[q] - mu[i, q])
                if sound:
                    there = _row_value(new_mu, new_s, ZT, w, a, apart, G[i], W, P1, D, R, work, P2)
                    if there >= here + _ARMIJO * rho * gain:
                        moved = True
                        break
                rho *= 0.5
            if not moved:
                break
            mu[i] = new_mu
            s[i] = new_s
            done = there - here <= tol
            here = there
            rho = min(1.0, 2.0 * rho)
            steps[i] = step + 1
            if done:
                break
        value[i] = here
    return steps


_fit_rows_serial = njit()(_fit_rows)
_fit_rows_parallel = njit(parallel=True)(_fit_rows)


def fit_rows(
    mu: Array,
    s: Array,
    Z: Array,
    w: Array,
    a: float,
    G: Array,
    W: Array,
    *,
    max_iter: int,
    tol: float,
) -> tuple[Array, Array, Array]:
    """Maximise G_n . psi1_n + <W, psi2_n> - KL(q(x_n) || N(0, I)) in every q(x_n), each for itself.

    Natural-gradient steps, halved until the objective rises.

    Parameters
    ----------
    mu, s, Z, w, a
        As in `psi_statistics`: where to start.
    G : ndarray of shape (n, M)
        Weights of psi1.
    W : ndarray of shape (M, M)
        Weights of psi2, symmetric.
    max_iter : int
        Steps a row at most.
    tol : float
        Gain (nats) of a step at which a row ends.

    Returns
    -------
    mu, s : ndarray of shape (n, Q)
        Where they end.
    value : ndarray of shape (n,)
        The objective there.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref._compiled.psi import fit_rows
    >>> start, nothing = np.full((1, 1), 0.3), np.zeros((1, 1))
    >>> [x.item() for x in fit_rows(start, start, nothing, np.ones(1), 1.0, nothing, nothing, max_iter=9, tol=0.0)[:2]]
    [0.0, 1.0]
    """
    mu, s, value = np.array(mu), np.array(s), np.empty(mu.shape[0])
    loop = _fit_rows_parallel if may_use_threads() else _fit_rows_serial
    loop(
        mu,
        s,
        np.ascontiguousarray(Z.T),
        w,
        a,
        _apart(Z, w),
        np.ascontiguousarray(G),
        np.ascontiguousarray(W),
        max_iter,
        tol,
        value,
    )
    return mu, s, value
