"""Smooth functions of one variable from their values on a fine grid, by the cubic through the four nearest points."""

from __future__ import annotations

import numpy as np

from skpref._compiled.jit import njit


@njit()
def _interpolate(table, low, step, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    place = (x - low) / step
    i = min(max(int(place), 1), table.shape[0] - 3)
    t = place - i
    u, v, w = t + 1.0, t - 1.0, t - 2.0
    outer = (u * t * v * table[i + 2] - t * v * w * table[i - 1]) / 6.0
    return outer + 0.5 * u * w * (v * table[i] - t * table[i + 1])


@njit()
def look_up(table, low, step, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the function at x (n,) from its values at low, low + step, ...; outside, from the outermost cubics."""
    out = np.empty(x.shape[0])
    for k in range(x.shape[0]):
        out[k] = _interpolate(table, low, step, x[k])
    return out


@njit()
def mean_over_pairs(table, low, step, f, side, left, right, weight):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the weighted sum over pairs of the function of side (f_left - f_right), for each row of f, shape (S,)."""
    out = np.zeros(f.shape[0])
    for s in range(f.shape[0]):
        for p in range(left.shape[0]):
            out[s] += weight[p] * _interpolate(table, low, step, side[s, p] * (f[s, left[p]] - f[s, right[p]]))
    return out
