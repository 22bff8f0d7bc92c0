"""Loops over factors and observations against their plain numpy twins."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skpref._compiled import factors
from skpref._compiled.factors import entity_sums, gain_pulls, pair_differences, pair_sums, product_moments, share_sums

# Name of each kernel's loop.
LOOPS = {
    "pair_differences": "_differences",
    "pair_sums": "_sums",
    "entity_sums": "_entity_sums",
    "product_moments": "_moments",
    "share_sums": "_shares",
    "gain_pulls": "_pulls",
}


def draw(seed, n_factors, n, p):
    """Factors (rows) of n items, and p pairs of different items."""
    rng = np.random.default_rng(seed)
    left = rng.integers(0, n, p)
    right = (left + rng.integers(1, n, p)) % n
    return SimpleNamespace(rng=rng, n=n, left=left, right=right, D=n_factors, p=p)


cases = st.builds(draw, st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(2, 9), st.integers(0, 25))


def incidence(index, n):
    """One row an observation, a one in the column of its entity."""
    rows = np.zeros((index.size, n))
    rows[np.arange(index.size), index] = 1.0
    return rows


@given(cases)
def test_pair_differences(case):
    u = case.rng.normal(size=(case.D, case.n))
    got = pair_differences(u, case.left, case.right)
    assert got.shape == (case.D, case.p)
    assert_array_equal(got, u[:, case.left] - u[:, case.right])


@given(cases)
def test_pair_sums_are_the_adjoint_of_the_differences(case):
    g, u = case.rng.normal(size=(case.D, case.p)), case.rng.normal(size=(case.D, case.n))
    D = incidence(case.left, case.n) - incidence(case.right, case.n)
    got = pair_sums(case.left, case.right, g, case.n)
    assert_allclose(got, g @ D, atol=1e-13)
    forth = np.sum(pair_differences(u, case.left, case.right) * g)
    assert_allclose(np.sum(got * u), forth, rtol=1e-11, atol=1e-11)


@given(cases)
def test_entity_sums(case):
    g = case.rng.normal(size=(case.D, case.p))
    got = entity_sums(case.left, g, case.n)
    assert_allclose(got, g @ incidence(case.left, case.n), atol=1e-13)


@given(cases)
def test_product_moments(case):
    a, b = case.rng.normal(size=(2, case.D, case.p))
    va, vb = case.rng.exponential(size=(2, case.D, case.p))
    mean, variance = product_moments((a, va), (b, vb))
    assert_allclose(mean, (a * b).sum(axis=0), atol=1e-13)
    assert_allclose(variance, (a**2 * vb + b**2 * va + va * vb).sum(axis=0), rtol=1e-12, atol=1e-300)
    # The two sides are alike.
    assert_allclose(product_moments((b, vb), (a, va)), (mean, variance), rtol=1e-12, atol=1e-13)


@given(cases)
def test_shares_and_pulls_of_gains(case):
    gain, spread, projected = case.rng.normal(size=(3, case.D, case.p))
    g, weight = case.rng.normal(size=(2, case.p))
    assert_allclose(share_sums(gain, projected), (gain * projected).sum(axis=0), atol=1e-13)
    wanted = gain * g + spread * weight * projected
    assert_allclose(gain_pulls(gain, g, spread, weight, projected), wanted, rtol=1e-12, atol=1e-13)


def calls(case, form):
    """Every kernel at data of one memory layout."""
    u, g, h = (form(case.rng.normal(size=(case.D, k))) for k in (case.n, case.p, case.p))
    return {
        "pair_differences": lambda: pair_differences(u, case.left, case.right),
        "pair_sums": lambda: pair_sums(case.left, case.right, g, case.n),
        "entity_sums": lambda: entity_sums(case.left, g, case.n),
        "product_moments": lambda: np.array(product_moments((g, g**2), (h, h**2))),
        "share_sums": lambda: share_sums(g, h),
        "gain_pulls": lambda: gain_pulls(g, g.sum(axis=0), g**2, h.sum(axis=0), h),
    }


@pytest.mark.parametrize("name", LOOPS)
def test_any_memory_order_and_read_only_input(name):
    def strided(x):
        return np.repeat(x, 2, axis=1)[:, ::2]

    results = []
    for form in (np.ascontiguousarray, np.asfortranarray, strided):
        case = draw(3, 4, 7, 20)

        def frozen(x, form=form):
            x = form(x)
            x.setflags(write=False)
            return x

        case.left.setflags(write=False)
        case.right.setflags(write=False)
        results.append(calls(case, frozen)[name]())
    assert_array_equal(results[0], results[1])
    assert_array_equal(results[0], results[2])


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="numba was given one thread")
@pytest.mark.parametrize("name", LOOPS)
def test_parts_in_several_threads_give_the_bits_of_one_loop(name, monkeypatch):
    call = calls(draw(5, 3, 60, 2077), np.ascontiguousarray)[name]
    whole, parts = call(), []
    loop = getattr(factors, LOOPS[name])
    monkeypatch.setattr(factors, LOOPS[name], lambda *arguments: (parts.append(1), loop(*arguments))[1])
    assert_array_equal(call(), whole)
    assert len(parts) == 1  # too few numbers for threads
    monkeypatch.setattr(factors, "_SMALL", 1)
    before = numba.get_num_threads()
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            parts.clear()
            assert_array_equal(call(), whole)
            assert (len(parts) > 1) == (threads > 1)
    finally:
        numba.set_num_threads(before)


@pytest.mark.parametrize("name", LOOPS)
def test_a_worker_thread_runs_one_loop(name, monkeypatch):
    call = calls(draw(6, 2, 9, 30), np.ascontiguousarray)[name]
    whole, parts = call(), []
    loop = getattr(factors, LOOPS[name])
    monkeypatch.setattr(factors, LOOPS[name], lambda *arguments: (parts.append(1), loop(*arguments))[1])
    monkeypatch.setattr(factors, "_SMALL", 1)
    with ThreadPoolExecutor(1) as pool:
        assert_array_equal(pool.submit(call).result(), whole)
    assert len(parts) == 1
