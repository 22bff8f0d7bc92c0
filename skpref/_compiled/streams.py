"""Random streams that are a function of their name, so that who draws, and in which order, changes no bit.

A stream is two words, counter and step; each draw adds the one to the other and mixes the sum (SplitMix64 with a step
of its own for every stream: Steele, Lea and Flood, OOPSLA 2014). Draws return the value and the new counter: as scalars
the two stay in registers, while numba would count references to an array at every call, atomically, for longer than it
takes to draw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skpref._compiled.jit import njit

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ALTERNATING = np.uint64(0xAAAAAAAAAAAAAAAA)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ONE, _12, _27, _30, _31 = (np.uint64(n) for n in (1, 12, 27, 30, 31))
_LAYER = np.uint64(255)
_FEW_CHANGES = 24  # bits that differ from their neighbour, below which an increment mixes badly
_UNIT = 2.0**-52

# Ziggurat of 256 layers of equal area under the normal density (Marsaglia and Tsang; this form: Doornik 2005).
_TAIL, _AREA = 3.6541528853610088, 4.92867323399e-3


def _ziggurat() -> Array:
    """Right ends of the layers, and the share of each that lies wholly under the density, as columns."""
    edge = np.zeros(258)
    edge[0], edge[1] = _AREA / np.exp(-0.5 * _TAIL**2), _TAIL
    for i in range(2, 256):
        edge[i] = np.sqrt(-2.0 * np.log(_AREA / edge[i - 1] + np.exp(-0.5 * edge[i - 1] ** 2)))
    return np.column_stack([edge[:257], np.append(edge[1:257] / edge[:256], 0.0)])


# Compiled functions take it as an argument: a global array would be copied at every call.
ZIGGURAT = _ziggurat()


@njit(inline="always")
def _mixed(z):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    return z ^ (z >> _31)


@njit()
def open_stream(seed, sweep, block, row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Start the stream of one row."""
    name = _mixed(np.uint64(seed) + _GOLDEN)
    name = _mixed((name ^ np.uint64(sweep)) + _GOLDEN)
    name = _mixed((name ^ np.uint64(block)) + _GOLDEN)
    name = _mixed((name ^ np.uint64(row)) + _GOLDEN)
    step = _mixed(name + _GOLDEN) | _ONE
    changes = 0
    difference = step ^ (step >> _ONE)
    while difference != np.uint64(0):
        difference &= difference - _ONE
        changes += 1
    return name, step ^ _ALTERNATING if changes < _FEW_CHANGES else step


@njit(inline="always")
def _open_unit(bits):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    # Neither 0 nor 1: 52 bits and a half fit a double exactly.
    return (np.float64(np.int64(bits >> _12)) + 0.5) * _UNIT


@njit(inline="always")
def uniform(counter, step):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw from the open unit interval."""
    counter += step
    return _open_unit(_mixed(counter)), counter


@njit()
def _rare(counter, step, layer, u, edge, next_edge):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The 1.5 % of `normal` outside of the rectangles that lie under the density."""
    if layer == 0:
        x, y = 0.0, -1.0
        while y < x * x:
            v, counter = uniform(counter, step)
            w, counter = uniform(counter, step)
            x, y = np.log(v) / _TAIL, -2.0 * np.log(w)
        return (x - _TAIL if u < 0.0 else _TAIL - x), counter
    z = u * edge
    upper, lower = np.exp(-0.5 * (edge * edge - z * z)), np.exp(-0.5 * (next_edge * next_edge - z * z))
    v, counter = uniform(counter, step)
    if upper + v * (lower - upper) < 1.0:
        return z, counter
    # Rejected: a new try, by any method (here the polar one), leaves the distribution as it is.
    x, square = 0.0, 2.0
    while square >= 1.0:
        v, counter = uniform(counter, step)
        w, counter = uniform(counter, step)
        x = 2.0 * v - 1.0
        square = x * x + (2.0 * w - 1.0) ** 2
    return x * np.sqrt(-2.0 * np.log(square) / square), counter


@njit(inline="always")
def normal(counter, step, ziggurat):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw from the standard normal distribution."""
    counter += step
    bits = _mixed(counter)
    layer = np.int64(bits & _LAYER)
    u = 2.0 * _open_unit(bits) - 1.0
    if abs(u) < ziggurat[layer, 1]:  # returning here is five times as fast as either value below
        return u * ziggurat[layer, 0], counter
    return _rare(counter, step, layer, u, ziggurat[layer, 0], ziggurat[layer + 1, 0])


@njit(inline="always")
def inverse_gaussian_of(m, z, u):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Turn a normal and a uniform number into one of the inverse Gaussian distribution of mean 1/m and shape 1.

    Michael, Schucany and Haas (1976), with the smaller root in a form that cancels nothing and divides by m nowhere:
    m = 0 gives 1/z^2.
    """
    y = 0.5 * z * z
    x = 1.0 / (m + y + np.sqrt(y * (y + 2.0 * m)))
    r = m * x
    large = x / (r * r)  # whether it is used or not, so that no branch has to be guessed
    return large if u * (1.0 + r) > 1.0 else x


@njit()
def hashed(words):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Scramble 64-bit words, shape (n,)."""
    out = np.empty(words.shape[0], np.uint64)
    for i in range(words.shape[0]):
        out[i] = _mixed(words[i]) + _GOLDEN
    return out


@njit()
def _fill_normal(seed, sweep, block, rows, ziggurat, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(out.shape[0]):
        counter, step = open_stream(seed, sweep, block, rows[i])
        for k in range(out.shape[1]):
            out[i, k], counter = normal(counter, step, ziggurat)


def normal_rows(seed: int, sweep: int, block: int, rows: IntArray, width: int) -> Array:
    """Draw rows of standard normal numbers, each from the stream of its name, shape (n, width)."""
    out = np.empty((len(rows), width))
    _fill_normal(np.uint64(seed), sweep, block, np.ascontiguousarray(rows, np.int64), ZIGGURAT, out)
    return out
