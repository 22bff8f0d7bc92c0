"""Loops over observations of D factors at once: arrays are (D, P), so that a factor's numbers lie together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skpref._compiled.jit import njit, run_parts

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray

_SMALL = 1 << 20  # numbers (about 1 ms) below which waking threads costs more than it saves
_SCALE_TOLERANCE = 1e-4  # relative change of a scale at which its iteration ends
_MAX_SCALE_STEPS = 200


@njit(nogil=True)
def _differences(u, left, right, first, last, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for d in range(first, last):
        for p in range(left.shape[0]):
            out[d, p] = u[d, left[p]] - u[d, right[p]]


def pair_differences(u: Array, left: IntArray, right: IntArray) -> Array:
    """Return u[d, left_p] - u[d, right_p], shape (D, P)."""
    out, u = np.empty((u.shape[0], left.shape[0])), np.ascontiguousarray(u)
    run_parts(lambda a, b: _differences(u, left, right, a, b, out), u.shape[0], large=out.size >= _SMALL)
    return out


@njit(nogil=True)
def _sums(left, right, g, first, last, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for d in range(first, last):
        for p in range(left.shape[0]):
            out[d, left[p]] += g[d, p]
            out[d, right[p]] -= g[d, p]


def pair_sums(left: IntArray, right: IntArray, g: Array, n_items: int) -> Array:
    """Return D^T g for every factor: sums where an item stands left minus sums where it stands right."""
    out, g = np.zeros((g.shape[0], n_items)), np.ascontiguousarray(g)
    run_parts(lambda a, b: _sums(left, right, g, a, b, out), g.shape[0], large=g.size >= _SMALL)
    return out


@njit(nogil=True)
def _entity_sums(index, g, first, last, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for d in range(first, last):
        for p in range(index.shape[0]):
            out[d, index[p]] += g[d, p]


def entity_sums(index: IntArray, g: Array, n_entities: int) -> Array:
    """Return, for every factor, the sum of g over the observations of each entity, shape (D, n_entities)."""
    out, g = np.zeros((g.shape[0], n_entities)), np.ascontiguousarray(g)
    run_parts(lambda a, b: _entity_sums(index, g, a, b, out), g.shape[0], large=g.size >= _SMALL)
    return out


@njit(nogil=True)
def _moments(m1, v1, m2, v2, first, last, mean, variance):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for d in range(m1.shape[0]):
        for p in range(first, last):
            a = m1[d, p]
            b = m2[d, p]
            va = v1[d, p]
            mean[p] += a * b
            variance[p] += a * a * v2[d, p] + (b * b + v2[d, p]) * va


def product_moments(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return mean and variance of sum_d a_d b_d for independent a and b (docs/maths section 6), shape (P,)."""
    n = first[0].shape[1]
    mean, variance = np.zeros(n), np.zeros(n)
    m1, v1, m2, v2 = (np.ascontiguousarray(x) for x in (*first, *second))
    run_parts(lambda a, b: _moments(m1, v1, m2, v2, a, b, mean, variance), n, large=m1.size >= _SMALL)
    return mean, variance


@njit(nogil=True)
def _shares(gain, projected, first, last, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for d in range(gain.shape[0]):
        for p in range(first, last):
            out[p] += gain[d, p] * projected[d, p]


def share_sums(gain: Array, projected: Array) -> Array:
    """Return sum_d gain_dp projected_dp, without an array of the products, shape (P,)."""
    out = np.zeros(gain.shape[1])
    arguments = np.ascontiguousarray(gain), np.ascontiguousarray(projected)
    run_parts(lambda a, b: _shares(*arguments, a, b, out), out.shape[0], large=gain.size >= _SMALL)
    return out


@njit(nogil=True)
def _pulls(gain, g, spread, weight, projected, first, last, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for d in range(first, last):
        for p in range(g.shape[0]):
            out[d, p] = gain[d, p] * g[p] + spread[d, p] * (weight[p] * projected[d, p])


def gain_pulls(gain: Array, g: Array, spread: Array, weight: Array, projected: Array) -> Array:
    """Return gain_dp g_p + spread_dp weight_p projected_dp, the gradient through an uncertain gain, shape (D, P)."""
    out = np.empty(gain.shape)
    m, e, v, w, x = (np.ascontiguousarray(part) for part in (gain, g, spread, weight, projected))
    run_parts(lambda a, b: _pulls(m, e, v, w, x, a, b, out), gain.shape[0], large=out.size >= _SMALL)
    return out


@njit()
def _iterate_scale(gram, linear, shape, rate0, mean, tol, max_iter):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for _ in range(max_iter):
        total = 0.0
        for k in range(gram.shape[0]):
            variance = 1.0 / (gram[k] + mean)
            m = linear[k] * variance
            total += m * m + variance
        before = mean
        mean = shape / (rate0 + 0.5 * total)
        if abs(mean - before) <= tol * before:
            break
    return mean


def stationary_scale(gram: Array, linear: Array, prior: tuple[float, float], mean: float) -> float:
    """Return the stationary E[s] when the independent variables that it scales are updated with it."""
    return float(_iterate_scale(gram, linear, prior[0], prior[1], mean, _SCALE_TOLERANCE, _MAX_SCALE_STEPS))
