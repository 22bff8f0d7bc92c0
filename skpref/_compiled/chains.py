"""Gaussian chains over time, one for each item or effect, and messages between the chains that a row connects.

A chain is the sum of a form, stationary with variance g^2 and correlation exp(-gap / length), and of a level, a random
walk that starts with variance c^2 and grows by w^2 per unit of time; `scales` holds c^2, g^2, length and w^2. A node is
a time of a chain, and D the precision of what rows say of its value. Nothing is inverted: a variance may be zero.

A unit is a set of rows that tell their nodes together how precisely they know them. `layout` holds the node of each
message (E,), the first row of each unit (U + 1,), its first message (U + 1,), and the message of each slot (N, S).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skpref._compiled.jit import njit

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray

    Scales = tuple[float, float, float, float]
    Passes = tuple[Array, Array, Array, Array, Array]
    Layout = tuple[IntArray, IntArray, IntArray, IntArray]

_LEAST = 1e-10  # precision of a node without the message of a row, where rounding leaves none
_FAR = 1e200  # size of a product whose logarithm is taken, since one for each factor would cost more than the rest


@njit()
def decays(scales: Scales, starts: IntArray, time: Array) -> Array:
    """Return the correlation of the form with that at the node before, shape (n,)."""
    decay = np.ones(time.shape[0])
    for chain in range(starts.shape[0] - 1):
        for k in range(starts[chain] + 1, starts[chain + 1]):
            decay[k] = np.exp(-(time[k] - time[k - 1]) / scales[2])
    return decay


@njit()
def condition(scales: Scales, starts: IntArray, time: Array, decay: Array, D: Array) -> tuple[Array, float, Passes]:
    """Return the variances of the nodes (n,), log |I + K D|, and what `solve` and `score` need of the passes.

    These are the decays, the covariances of state and value before a node's rows (n, 2), 1 / (1 + D variance) (n,), the
    covariances of the state after them (n, 3), and their adjoints (n, 3).
    """
    c2, g2, _, w2 = scales
    n, log_det, product = time.shape[0], 0.0, 1.0
    gain, share = np.empty((n, 2)), np.empty(n)
    after, adjoint, variance = np.empty((n, 3)), np.empty((n, 3)), np.empty(n)
    for chain in range(starts.shape[0] - 1):
        a, b = starts[chain], starts[chain + 1]
        form, both, level = g2, 0.0, c2
        for k in range(a, b):
            if k > a:
                form = g2 - decay[k] ** 2 * (g2 - after[k - 1, 0])
                both = decay[k] * after[k - 1, 1]
                level = after[k - 1, 2] + w2 * (time[k] - time[k - 1])
            x, y = form + both, both + level
            known = D[k] * (x + y)
            gain[k, 0], gain[k, 1], share[k] = x, y, 1.0 / (1.0 + known)
            product *= 1.0 + known
            if product > _FAR:
                log_det, product = log_det + np.log(product), 1.0
            weight = D[k] * share[k]
            after[k, 0], after[k, 1], after[k, 2] = form - weight * x * x, both - weight * x * y, level - weight * y * y
        form, both, level = 0.0, 0.0, 0.0
        for k in range(b - 1, a - 1, -1):
            # From the state after the node's rows: before them its variance may be so large that digits cancel.
            p, q = after[k, 0] + after[k, 1], after[k, 1] + after[k, 2]
            variance[k] = max(p + q - (p * p * form + 2.0 * p * q * both + q * q * level), 0.0)
            x, y, weight = gain[k, 0], gain[k, 1], D[k] * share[k]
            p, q = weight * (form * x + both * y), weight * (both * x + level * y)
            s = weight * (x * p + y * q) + weight
            form, both, level = form - 2.0 * p + s, both - p - q + s, level - 2.0 * q + s
            adjoint[k, 0], adjoint[k, 1], adjoint[k, 2] = form, both, level
            form, both = decay[k] ** 2 * form, decay[k] * both
    return variance, log_det + np.log(product), (decay, gain, share, after, adjoint)


@njit()
def solve(starts: IntArray, D: Array, passes: Passes, r: Array) -> tuple[Array, Array]:
    """Return (K^-1 + diag D)^-1 r (n,), and the adjoints of the state's mean (n, 2)."""
    decay, gain, share, after, _ = passes
    u, slope = np.empty(r.shape[0]), np.empty((r.shape[0], 2))
    for chain in range(starts.shape[0] - 1):
        a, b = starts[chain], starts[chain + 1]
        form, level = 0.0, 0.0
        for k in range(a, b):
            if k > a:
                form *= decay[k]
            u[k] = form + level
            new = (r[k] - D[k] * u[k]) * share[k]
            form += gain[k, 0] * new
            level += gain[k, 1] * new
        form, level = 0.0, 0.0
        for k in range(b - 1, a - 1, -1):
            new = (r[k] - D[k] * u[k]) * share[k]
            u[k] += (gain[k, 0] + gain[k, 1]) * new
            u[k] -= (after[k, 0] + after[k, 1]) * form + (after[k, 1] + after[k, 2]) * level
            pull = D[k] * share[k] * (gain[k, 0] * form + gain[k, 1] * level) + new
            form -= pull
            level -= pull
            slope[k, 0], slope[k, 1] = form, level
            form *= decay[k]
    return u, slope


@njit()
def solve_columns(starts: IntArray, D: Array, passes: Passes, r: Array, u: Array) -> None:
    """Write (K^-1 + diag D)^-1 r of columns to u, both (n, K)."""
    decay, gain, share, after, _ = passes
    n_columns = r.shape[1]
    form, level = np.empty(n_columns), np.empty(n_columns)
    for chain in range(starts.shape[0] - 1):
        a, b = starts[chain], starts[chain + 1]
        form[:], level[:] = 0.0, 0.0
        for k in range(a, b):
            of_form, of_level, phi = gain[k, 0] * share[k], gain[k, 1] * share[k], decay[k]
            for j in range(n_columns):
                x = phi * form[j] + level[j]
                u[k, j] = x
                new = r[k, j] - D[k] * x
                form[j] = phi * form[j] + of_form * new
                level[j] += of_level * new
        form[:], level[:] = 0.0, 0.0
        for k in range(b - 1, a - 1, -1):
            both, of_form, of_level = gain[k, 0] + gain[k, 1], after[k, 0] + after[k, 1], after[k, 1] + after[k, 2]
            weight, x, y, phi = D[k] * share[k], gain[k, 0], gain[k, 1], decay[k]
            for j in range(n_columns):
                new = (r[k, j] - D[k] * u[k, j]) * share[k]
                u[k, j] += both * new - of_form * form[j] - of_level * level[j]
                pull = weight * (x * form[j] + y * level[j]) + new
                form[j] = phi * (form[j] - pull)
                level[j] -= pull


@njit()
def score(scales: Scales, starts: IntArray, time: Array, D: Array, passes: Passes, slope: Array, r: Array) -> Array:
    """Return the derivatives of E[log p(states)] in the logs of c, g, length and w, by the disturbance smoother."""
    c2, g2, length, w2 = scales
    decay, gain, share, after, adjoint = passes
    of_c, of_g, of_length, of_w = 0.0, 0.0, 0.0, 0.0
    for chain in range(starts.shape[0] - 1):
        a, b = starts[chain], starts[chain + 1]
        form, level = 0.0, 0.0
        for k in range(a, b):
            of_form, of_level = slope[k, 0] ** 2 - adjoint[k, 0], slope[k, 1] ** 2 - adjoint[k, 2]
            if k == a:
                of_g += of_form * g2
                of_c += of_level * c2
            else:
                x, phi = (time[k] - time[k - 1]) / length, decay[k]
                smoothed = form - after[k - 1, 0] * phi * slope[k, 0] - after[k - 1, 1] * slope[k, 1]
                moved = -slope[k, 0] * smoothed
                moved -= adjoint[k, 0] * phi * after[k - 1, 0] + adjoint[k, 1] * after[k - 1, 1]
                of_g += of_form * g2 * (1.0 - phi**2)
                of_length += moved * phi * x - of_form * g2 * x * phi**2
                of_w += of_level * w2 * (time[k] - time[k - 1])
                form *= phi
            new = (r[k] - D[k] * (form + level)) * share[k]
            form += gain[k, 0] * new
            level += gain[k, 1] * new
    return np.array([of_c, of_g, of_length, of_w])


@njit()
def send_messages(
    layout: Layout, coefficient: Array, weight: Array, variance: Array, message: Array
) -> tuple[Array, Array, float]:
    """Return the precisions that units tell their nodes (E,), variances of z (N,), and what the bound needs of both.

    z = sum of coefficient times the values of the row's nodes, and the row's site has precision `weight`. Here each
    unit is a row, which has as many messages as slots.
    """
    node, slot = layout[0], layout[3]
    n_rows, n_slots = slot.shape
    new, of_z, bound, product = np.empty(node.shape[0]), np.empty(n_rows), 0.0, 1.0
    rest = np.empty(n_slots)
    for m in range(n_rows):
        total = 0.0
        for s in range(n_slots):
            v = variance[node[slot[m, s]]]
            rest[s] = v / max(1.0 - v * message[slot[m, s]], _LEAST)
            total += coefficient[m, s] ** 2 * rest[s]
        product /= 1.0 + weight[m] * total
        for s in range(n_slots):
            square, e = coefficient[m, s] ** 2, slot[m, s]
            new[e] = weight[m] * square / (1.0 + weight[m] * max(total - square * rest[s], 0.0))
            product *= 1.0 + new[e] * rest[s]
        if not 1.0 / _FAR < product < _FAR:
            bound, product = bound + 0.5 * np.log(product), 1.0
        of_z[m] = total / (1.0 + weight[m] * total)
    return new, of_z, bound + 0.5 * np.log(product)


@njit()
def send_messages_together(
    layout: Layout, coefficient: Array, weight: Array, variance: Array, message: Array
) -> tuple[Array, Array, float]:
    """Return the same of units of several rows, exactly, however often these rows have the same nodes."""
    node, unit, starts, slot = layout
    n_slots, new, of_z, bound = slot.shape[1], np.empty(node.shape[0]), np.zeros(slot.shape[0]), 0.0
    for u in range(unit.shape[0] - 1):
        first, m = starts[u], starts[u + 1] - starts[u]
        root, A = np.empty(m), np.eye(m)  # R^1/2 and I + R^1/2 M R^1/2: R without the rows, M the precision by them
        for i in range(m):
            v = variance[node[first + i]]
            root[i] = np.sqrt(v / max(1.0 - v * message[first + i], _LEAST))
        for r in range(unit[u], unit[u + 1]):
            for s in range(n_slots):
                i = slot[r, s] - first
                for t in range(n_slots):
                    j = slot[r, t] - first
                    A[i, j] += weight[r] * coefficient[r, s] * root[i] * coefficient[r, t] * root[j]
        bound -= 0.5 * np.linalg.slogdet(A)[1]
        B = np.linalg.inv(A)
        for i in range(m):
            share = min(max(B[i, i], _LEAST), 1.0)
            new[first + i] = (1.0 / share - 1.0) / root[i] ** 2 if root[i] > 0.0 else 0.0
            bound -= 0.5 * np.log(share)
        for r in range(unit[u], unit[u + 1]):
            for s in range(n_slots):
                i = slot[r, s] - first
                for t in range(n_slots):
                    j = slot[r, t] - first
                    of_z[r] += coefficient[r, s] * root[i] * B[i, j] * root[j] * coefficient[r, t]
    return new, of_z, bound


@njit()
def filter_rows(
    rows: tuple[IntArray, Array, Array, Array, Array, IntArray, Array, Array],
    states: tuple[Array, Array, Array],
    scales: Array,
    table: tuple[float, float, Array],
    rule: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Filter rows in the order of time; return what each tells its chains, D and the linear term, both (N, S).

    Rows have chains (N, S), coefficients (N, S), times (N,), mean and variance of all else in z (N,), answers (N,),
    weights (N,), and what differences between groups add to means and variances of nodes (2, N, S), which is a part of
    all else. States of the chains, which move on, are means (C, 2), covariances (C, 3) and times (C,); `scales` are
    of the chains (C, 4). `table` has log p of each answer (L, T) from a least z on in steps, and `rule` the points and
    weights of Gauss and Hermite. A row's moments of z are those under its answer; its chains follow by regression.
    """
    chain, coefficient, time, rest_mean, rest_variance, answer, weight, more = rows
    mean, covariance, last = states
    least, step, logs = table
    n_slots, n_points = chain.shape[1], rule[0].shape[0]
    D, linear, level = np.zeros(chain.shape), np.zeros(chain.shape), np.empty(n_points)
    for m in range(chain.shape[0]):
        centre, spread = rest_mean[m], rest_variance[m]
        for s in range(n_slots):
            c, h = chain[m, s], coefficient[m, s]
            gap = max(time[m] - last[c], 0.0)
            phi = np.exp(-gap / scales[c, 2])
            mean[c, 0] *= phi
            covariance[c, 0] = scales[c, 1] - phi**2 * (scales[c, 1] - covariance[c, 0])
            covariance[c, 1] *= phi
            covariance[c, 2] += scales[c, 3] * gap
            last[c] = max(time[m], last[c])
            centre += h * (mean[c, 0] + mean[c, 1])
            spread += h**2 * (covariance[c, 0] + 2.0 * covariance[c, 1] + covariance[c, 2])
        root = np.sqrt(spread)
        for k in range(n_points):
            place = (centre + root * rule[0][k] - least) / step
            cell = min(max(int(place), 0), logs.shape[1] - 2)
            low, high = logs[answer[m], cell], logs[answer[m], cell + 1]
            level[k] = weight[m] * (low + (place - cell) * (high - low))
        highest, total, first, second = level.max(), 0.0, 0.0, 0.0
        for k in range(n_points):
            p = rule[1][k] * np.exp(level[k] - highest)
            total, first, second = total + p, first + p * rule[0][k], second + p * rule[0][k] ** 2
        first, second = first / total, second / total
        gain = first / root if root > 0.0 else 0.0
        shrink = max(1.0 - second + first**2, 0.0) / spread if spread > 0.0 else 0.0
        for s in range(n_slots):
            c, h = chain[m, s], coefficient[m, s]
            x, y = covariance[c, 0] + covariance[c, 1], covariance[c, 1] + covariance[c, 2]
            rest = max(1.0 - h**2 * shrink * (x + y + more[1, m, s]), _LEAST)
            D[m, s] = h**2 * shrink / rest
            linear[m, s] = (mean[c, 0] + mean[c, 1] + more[0, m, s]) * D[m, s] + h * gain / rest
            mean[c, 0] += h * gain * x
            mean[c, 1] += h * gain * y
            covariance[c, 0] -= h**2 * shrink * x * x
            covariance[c, 1] -= h**2 * shrink * x * y
            covariance[c, 2] -= h**2 * shrink * y * y
    return D, linear
