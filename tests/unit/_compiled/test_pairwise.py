"""The compiled expectations against their twin in numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from skpref._compiled import pairwise
from skpref._compiled.pairwise import expected_log_cdf
from skpref.likelihoods import PairwiseLikelihood, PairwiseLogit, PairwiseProbit

LIKELIHOODS = [PairwiseProbit(), PairwiseLogit()]


def both(likelihood, y, mu, v):
    """Compiled sums and their twin's: E[l], E[l'], E[l'']."""
    compiled = expected_log_cdf(y, mu, v, probit=isinstance(likelihood, PairwiseProbit))
    value, first, half_second = PairwiseLikelihood._expectation(likelihood, y, mu, v)
    return compiled, np.stack([value, first, 2.0 * half_second])


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@given(seed=st.integers(0, 2**32 - 1), log_v=st.floats(-20.0, 8.0), spread=st.floats(0.1, 50.0))
def test_equal_to_the_twin(likelihood, seed, log_v, spread):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(30) < 0.3, rng.random(30), rng.integers(0, 2, 30))
    mu, v = spread * rng.standard_normal(30), np.exp(log_v) * rng.random(30)
    compiled, twin = both(likelihood, y, mu, v)
    assert_allclose(compiled, twin, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_equal_to_the_twin_inside_outside_and_at_the_edges_of_the_cells(likelihood):
    z = np.concatenate([np.linspace(-33.0, 9.0, 42 * 32 + 1), [-1e6, -100.0, 100.0, 1e6]])
    for y in (np.ones(z.shape), np.zeros(z.shape)):
        compiled, twin = both(likelihood, y, z, np.zeros(z.shape))
        assert_allclose(compiled, twin, rtol=2e-12, atol=1e-15)


def test_same_bits_for_any_number_of_threads():
    numba = pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    y, mu, v = rng.integers(0, 2, 999) * 1.0, rng.standard_normal(999), rng.random(999)
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        single = expected_log_cdf(y, mu, v, probit=True)
    finally:
        numba.set_num_threads(before)
    assert_array_equal(single, expected_log_cdf(y, mu, v, probit=True))


def test_strided_and_read_only_input():
    block = np.random.default_rng(1).random((3, 40))
    block.flags.writeable = False
    strided = expected_log_cdf(*block[:, ::2], probit=False)
    assert_array_equal(strided, expected_log_cdf(*np.ascontiguousarray(block[:, ::2]), probit=False))


def test_the_plain_python_of_the_kernel_agrees():
    # The kernels run uncompiled too, one node at a time: what numba makes of them is what is written.
    x, w = np.array([-1.5, 0.0, 1.5]), np.array([0.25, 0.5, 0.25])
    for probit in (True, False):
        table = pairwise._taylor(probit)
        for mean in (-60.0, -0.3, 20.0):
            compiled = pairwise._sum_nodes(mean, 1.0, x, w, table, probit)
            plain = pairwise._sum_nodes.py_func(mean, 1.0, x, w, table, probit)
            assert_allclose(compiled, plain, rtol=1e-13, atol=1e-300)


@given(st.integers(0, 2**32 - 1), st.floats(-6.0, 7.0), st.floats(0.0, 3.0))
def test_tilted_moments_are_those_of_a_fine_sum(seed, log_v, spread):
    rng = np.random.default_rng(seed)
    y, mu = rng.choice([0.0, 0.5, 1.0, 0.3], 40), 10.0**spread * rng.standard_normal(40)
    v = np.exp(log_v) * rng.uniform(0.5, 1.5, 40) * (rng.random(40) < 0.9)
    compiled = PairwiseLogit().tilted(y, mu, v)
    variance, x = np.maximum(v, 1e-12)[:, None], np.linspace(-14.0, 14.0, 8001)
    z = mu[:, None] + variance * compiled[1][:, None] + np.sqrt(variance) * x  # around the mean of the tilted one
    value, first, second = PairwiseLogit().derivatives(np.broadcast_to(y[:, None], z.shape), z)
    log_p = value - 0.5 * (z - mu[:, None]) ** 2 / variance
    p = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
    mean = (p * first).sum(axis=1)
    log_z = logsumexp(log_p, axis=1) + np.log((x[1] - x[0]) / np.sqrt(2.0 * np.pi))
    wanted = log_z, mean, (p * second).sum(axis=1) + (p * (first - mean[:, None]) ** 2).sum(axis=1)
    for own, other in zip(compiled, wanted, strict=True):
        assert_allclose(own, other, rtol=1e-9, atol=1e-11 * (1.0 + np.abs(mu).max()))
    twin = PairwiseLikelihood._tilted(PairwiseLogit(), y, mu, v)  # whose rules have errors of up to 5e-9
    for own, other in zip(compiled, twin, strict=True):
        assert_allclose(own, other, rtol=1e-8, atol=1e-9)
    assert np.all(compiled[2] <= 1e-12)
