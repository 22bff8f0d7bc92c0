"""The compiled loops over ordered labels against their twin in numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr

from skpref._compiled import ordinal
from skpref._compiled.ordinal import SCORES, THRESHOLDS, VALUES, expected_levels, levels_at
from skpref._math.bands import band, mirrored, tail_band
from skpref._math.quadrature import rules
from tests.bands import log_diff_ndtr
from tests.examples import examples

seeds = st.integers(0, 2**32 - 1)


def twin(wanted, level, z, scale, b):
    """What `levels_at` gives, from the plain formulas, one level at a time."""
    out, r, at = np.empty((wanted, level.size)), len(b) + 1, z / scale
    for k in range(r):
        rows = level == k
        s = scale[rows]
        if k == 0:
            terms = tail_band((b[0] - z[rows]) / s)
        elif k == r - 1:
            terms = mirrored(tail_band((z[rows] - b[-1]) / s))
        else:
            terms = band((0.5 * b[k - 1] + 0.5 * b[k] - z[rows]) / s, (b[k] - b[k - 1]) / s)
        value, up, low, mean, bend, to_upper, to_lower, _ = terms
        if wanted == VALUES:
            out[:, rows] = value, mean, bend
        elif wanted == SCORES:
            out[:, rows] = mean, up, low, bend + mean**2
        else:
            t = at[rows]
            out[:, rows] = (
                *(value, t * mean, up, low, t * t * bend, t * up * to_upper, t * low * to_lower),
                *(up * (low + to_upper), low * (up + to_lower), up * low),
            )
    return out


def expected_twin(wanted, level, mu, v, b, scale):
    """Sums over the rules of `skpref._math.quadrature`."""
    out = np.zeros((wanted, level.size))
    v_max, packed = rules()
    for i in range(level.size):
        nodes, weights = packed[int(np.searchsorted(v_max, v[i] / scale**2))]
        z = mu[i] + np.sqrt(v[i]) * nodes
        at = twin(wanted, np.full(z.size, level[i]), z, np.full(z.size, scale), b)
        out[:, i] = at @ weights
    return out


@st.composite
def problems(draw):
    """Bands from 1e-9 to 100 wide, near and far: levels, z, noise and thresholds."""
    rng = np.random.default_rng(draw(seeds))
    r = draw(st.integers(2, 7))
    widths = 10.0 ** rng.uniform(draw(st.sampled_from([-9.0, -3.0, -1.0])), draw(st.sampled_from([-0.5, 0.5, 2.0])), r)
    b = draw(st.floats(-3.0, 3.0)) + np.concatenate([[0.0], np.cumsum(widths[: r - 2])])
    n = 60
    spread = draw(st.sampled_from([1.0, 10.0, 100.0, 1e6]))
    scale = 10.0 ** rng.uniform(-1.0, 1.0, n)
    return rng.integers(0, r, n), spread * rng.standard_normal(n), scale, b, rng


def assert_close(compiled, plain):
    # erfc of the C library and erfcx differ in the last digits, which the far tails multiply by z^2.
    size = np.maximum(np.abs(plain), 1e-200)
    assert np.all(np.isfinite(compiled))
    assert_allclose(compiled / size, plain / size, rtol=2e-10, atol=2e-12)


@pytest.mark.parametrize("wanted", [VALUES, SCORES])
@given(problem=problems())
def test_at_a_point_equal_to_the_twin(wanted, problem):
    level, z, scale, b, _ = problem
    compiled, plain = levels_at(wanted, level, z, scale, b), twin(wanted, level, z, scale, b)
    if wanted == SCORES:  # bend + mean^2 cancels: that much of mean^2 is left
        atol = 1e-9 * (1.0 + plain[0] ** 2)
        assert np.all(np.abs(compiled[3] - plain[3]) <= atol + 1e-9 * np.abs(plain[3]))
        compiled, plain = compiled[:3], plain[:3]
    assert_close(compiled, plain)


@pytest.mark.parametrize("wanted", [VALUES, SCORES, THRESHOLDS])
@examples(10)
@given(problem=problems(), log_v=st.floats(-6.0, 4.0))
def test_expectations_equal_to_the_twin(wanted, problem, log_v):
    level, mu, _, b, rng = problem
    level, mu = level[:20], np.clip(mu[:20], -40.0, 40.0)
    v = np.exp(log_v) * rng.random(level.size)
    compiled, plain = expected_levels(wanted, level, mu, v, b, 0.7), expected_twin(wanted, level, mu, v, b, 0.7)
    scale = np.maximum(np.abs(plain), 1e-6 * np.abs(plain).max(axis=0)) + 1e-200
    assert_allclose(compiled / scale, plain / scale, rtol=0.0, atol=1e-8)


def test_far_tails_keep_their_digits():
    z = np.array([-1e6, -200.0, -40.0, -31.0, -9.0, 0.0, 5.0, 8.0, 29.9, 30.5, 50.0, 500.0, 1e6])
    b, ones = np.array([-0.5, 0.25]), np.ones(z.size)
    for level, wanted in ((0, log_ndtr(b[0] - z)), (1, log_diff_ndtr(b[1] - z, b[0] - z)), (2, log_ndtr(z - b[1]))):
        got = levels_at(VALUES, np.full(z.size, level), z, ones, b)[0]
        assert_allclose(got, wanted, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("wanted", [VALUES, SCORES, THRESHOLDS])
def test_same_bits_for_any_number_of_threads(wanted):
    numba = pytest.importorskip("numba")
    n = ordinal._SMALL + 77
    rng = np.random.default_rng(0)
    level, mu, v, b = rng.integers(0, 5, n), rng.normal(size=n), rng.random(n), np.array([-1.0, -0.3, 0.4, 1.1])
    parallel = expected_levels(wanted, level, mu, v, b, 0.6)
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        single = expected_levels(wanted, level, mu, v, b, 0.6)
    finally:
        numba.set_num_threads(before)
    assert_array_equal(single, parallel)
    half = n // 2  # below the size from which threads are woken
    few = [expected_levels(wanted, level[rows], mu[rows], v[rows], b, 0.6) for rows in (slice(half), slice(half, n))]
    assert_array_equal(np.hstack(few), parallel)


def test_strided_and_read_only_input():
    block = np.random.default_rng(1).random((2, 40))
    level = np.arange(40) % 3
    for array in (block, level):
        array.flags.writeable = False
    b = np.array([0.2, 0.6])
    strided = expected_levels(VALUES, np.ascontiguousarray(level[::2]), *block[:, ::2], b, 0.3)
    whole = expected_levels(VALUES, level, *block, b, 0.3)
    assert_array_equal(strided, whole[:, ::2])


def test_the_plain_python_of_the_loops_agrees():
    # numba makes what is written of them: uncompiled, one number at a time.
    for middle in (-45.0, -3.0, -0.1, 0.0, 0.7, 12.0, 33.0):
        assert_allclose(ordinal._log_cdf_terms.py_func(middle), ordinal._log_cdf_terms(middle), rtol=1e-13)
        for half in (1e-9, 0.01, 0.1, 0.5, 4.0, 60.0):
            assert_allclose(ordinal._band.py_func(middle, half), ordinal._band(middle, half), rtol=1e-12, atol=1e-300)
