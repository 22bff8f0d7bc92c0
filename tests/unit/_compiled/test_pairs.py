"""Loops over comparisons against their plain numpy twins."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skpref._compiled.pairs import incidence, laplacian_product, squared_differences


def differences(left, right, n_items):
    """D, the P x N matrix of differences."""
    D = np.zeros((left.size, n_items))
    D[np.arange(left.size), left] += 1.0
    D[np.arange(left.size), right] -= 1.0
    return D


def draw_graph(seed, n_items, n_pairs):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, n_items, n_pairs)
    right = (left + rng.integers(1, n_items, n_pairs)) % n_items
    return rng, left, right


graphs = st.builds(draw_graph, st.integers(0, 2**32 - 1), st.integers(2, 9), st.integers(0, 25))


@given(graphs)
def test_incidence_lists_every_comparison_of_every_left_item(graph):
    _, left, right = graph
    indptr, pair, neighbour = incidence(left, right, 9)
    assert indptr[0] == 0
    assert indptr[-1] == pair.size == neighbour.size == left.size
    for item in range(9):
        run = slice(indptr[item], indptr[item + 1])
        assert_array_equal(pair[run], np.flatnonzero(left == item))
        assert_array_equal(neighbour[run], right[pair[run]])


@given(graphs, st.integers(0, 5))
def test_laplacian_product_is_the_product_with_weights_of_any_sign(graph, width):
    rng, left, right = graph
    weight, rows = rng.normal(size=left.size), rng.normal(size=(9, width))
    D, own = differences(left, right, 9), np.bincount(np.append(left, right), np.tile(weight, 2), 9)
    once = laplacian_product(*incidence(left, right, 9), weight, 0.5 * own, np.eye(9))
    both = incidence(np.append(left, right), np.append(right, left), 9)
    product = laplacian_product(*both, np.tile(weight, 2), own, rows)
    assert_allclose(once + once.T, D.T @ (weight[:, None] * D), atol=1e-13)
    assert_allclose(product, D.T @ (weight[:, None] * (D @ rows)), atol=1e-13)


@given(graphs, st.integers(0, 5))
def test_squared_differences_with_and_without_a_shift(graph, width):
    rng, left, right = graph
    rows, shift = rng.normal(size=(9, width)), rng.normal(size=width)
    plain = rows[left] - rows[right]
    assert_allclose(squared_differences(rows, left, right), (plain**2).sum(1), rtol=1e-13, atol=1e-300)
    assert_allclose(squared_differences(rows, left, right, shift), ((plain + shift) ** 2).sum(1), rtol=1e-13)


def test_items_without_comparisons_have_zero_rows():
    rows = np.ones((3, 2))
    nothing = np.zeros(0, dtype=np.int64)
    product = laplacian_product(*incidence(nothing, nothing, 3), np.zeros(0), np.zeros(3), rows)
    assert_array_equal(product, np.zeros((3, 2)))


def test_any_memory_order_and_read_only_input():
    rng, left, right = draw_graph(3, 7, 20)
    rows, weight = np.asfortranarray(rng.normal(size=(7, 4))), rng.normal(size=40)[::2]
    plain = np.ascontiguousarray(rows)
    for array in (rows, weight, left, right, plain):
        array.setflags(write=False)
    graph = incidence(left, right, 7)
    own = np.ones(14)[::2]
    product = laplacian_product(*graph, weight, own, rows)
    assert_array_equal(product, laplacian_product(*graph, np.ascontiguousarray(weight), np.ones(7), plain))
    assert_array_equal(squared_differences(rows, left, right), squared_differences(plain, left, right))


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="numba was given one thread")
def test_the_same_bits_for_any_number_of_threads():
    rng, left, right = draw_graph(5, 60, 500)
    rows, weight = rng.normal(size=(60, 17)), rng.normal(size=500)
    graph = incidence(left, right, 60)
    before = numba.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            results.append(
                (laplacian_product(*graph, weight, np.ones(60), rows), squared_differences(rows, left, right))
            )
    finally:
        numba.set_num_threads(before)
    assert_array_equal(results[0][0], results[1][0])
    assert_array_equal(results[0][1], results[1][1])
