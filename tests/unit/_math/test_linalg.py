"""Cholesky with its ladder, triangular solves in every memory order, and the gradient through the factor."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from skpref._math import linalg
from skpref.exceptions import SkprefError

ORDERS = ("C", "F")


def covariance(rng, size):
    A = rng.normal(size=(size, size))
    return A @ A.T + np.eye(size)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(0, 30), order=st.sampled_from(ORDERS))
def test_cholesky_equals_scipys_and_reads_the_lower_triangle_only(seed, size, order):
    K = np.array(covariance(np.random.default_rng(seed), size), order=order)
    want = scipy.linalg.cholesky(K, lower=True) if size else np.zeros((0, 0))
    K[np.triu_indices(size, 1)] = np.nan
    before = K.copy()
    for factor in (linalg.cholesky, linalg.cholesky_precision):
        L = factor(K)
        np.testing.assert_allclose(L, want, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(K, before)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_jitter_is_relative_and_as_small_as_it_can_be(scale):
    K = scale * np.ones((4, 4))  # rank 1: the smallest rung of the ladder is needed and enough
    L = linalg.cholesky(K)
    np.testing.assert_allclose(L @ L.T - K, 1e-10 * scale * np.eye(4), rtol=1e-3, atol=1e-15 * scale)


def test_no_jitter_for_a_sound_matrix():
    K = np.diag([1.0, 1e-9])
    np.testing.assert_array_equal(linalg.cholesky(K), np.diag(np.sqrt([1.0, 1e-9])))


def test_slightly_indefinite_matrix_climbs_the_ladder():
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.normal(size=(20, 20)))
    K = (Q * np.r_[np.ones(19), -1e-7]) @ Q.T
    L = linalg.cholesky(0.5 * (K + K.T))
    jitter = (L @ L.T - K).trace() / 20
    assert jitter == pytest.approx(1e-6 * np.mean(np.diagonal(K)), rel=1e-3)


def test_precision_keeps_small_pivots():
    np.testing.assert_array_equal(linalg.cholesky_precision(np.diag([1.0, 1e-14])), np.diag([1.0, 1e-7]))


@pytest.mark.parametrize(
    ("K", "message"),
    [(-np.eye(3), "not positive definite"), (np.full((3, 3), np.nan), "NaN or inf"), (np.diag([1.0, np.inf]), "NaN")],
)
@pytest.mark.parametrize("factor", [linalg.cholesky, linalg.cholesky_precision])
def test_hopeless_matrices_are_refused_with_advice(K, message, factor):
    with pytest.raises(linalg.NotPositiveDefiniteError, match=message) as caught:
        factor(K)
    assert isinstance(caught.value, SkprefError)
    assert isinstance(caught.value, np.linalg.LinAlgError)


@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 12),
    columns=st.one_of(st.none(), st.integers(0, 5)),
    l_order=st.sampled_from(ORDERS),
    b_order=st.sampled_from(ORDERS),
)
def test_triangular_solves(seed, size, columns, l_order, b_order):
    rng = np.random.default_rng(seed)
    L = np.array(np.linalg.cholesky(covariance(rng, size)), order=l_order)
    B = np.array(rng.normal(size=size if columns is None else (size, columns)), order=b_order)
    before = B.copy()
    dirty = L.copy(order="K")
    dirty[np.triu_indices(size, 1)] = np.nan  # not read
    for solve, A in ((linalg.solve_lower, L), (linalg.solve_lower_t, L.T)):
        X = solve(dirty, B)
        np.testing.assert_allclose(A @ X, B, rtol=1e-9, atol=1e-9)
        assert X.flags.c_contiguous == B.flags.c_contiguous
        np.testing.assert_array_equal(B, before)
        np.testing.assert_allclose(solve(dirty, before.copy(order="K"), overwrite_b=True), X, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(linalg.inverse_lower(L) @ L, np.eye(size), atol=1e-10)
    assert linalg.log_det(L) == pytest.approx(np.linalg.slogdet(L @ L.T)[1], abs=1e-9)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 8), order=st.sampled_from(ORDERS))
def test_cholesky_vjp_against_central_differences(seed, size, order):
    rng = np.random.default_rng(seed)
    K = covariance(rng, size)
    Lbar = np.array(rng.normal(size=(size, size)), order=order)
    L = np.array(np.linalg.cholesky(K), order=order)
    Kbar = linalg.cholesky_vjp(L, Lbar)
    np.testing.assert_array_equal(Kbar, Kbar.T)
    dK = rng.normal(size=(size, size))
    dK += dK.T

    def number(t):
        return np.sum(np.tril(Lbar) * np.linalg.cholesky(K + t * dK))

    h = 1e-4
    want = (8 * (number(h) - number(-h)) - number(2 * h) + number(-2 * h)) / (12 * h)
    assert np.sum(Kbar * dK) == pytest.approx(want, rel=1e-7, abs=1e-7)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 20), orders=st.tuples(*[st.sampled_from(ORDERS)] * 2))
def test_congruent_is_the_product_of_three(seed, size, orders):
    rng = np.random.default_rng(seed)
    L, A = np.tril(rng.normal(size=(size, size))), covariance(rng, size)
    got = linalg.congruent(np.array(A, order=orders[0]), np.array(L, order=orders[1]))
    np.testing.assert_allclose(got, L.T @ A @ L, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(got, got.T)
    assert got.flags.c_contiguous


def test_empty_matrices():
    empty = np.zeros((0, 0))
    for function in (linalg.cholesky, linalg.cholesky_precision, linalg.inverse_lower):
        assert function(empty).shape == (0, 0)
    assert linalg.cholesky_vjp(empty, empty).shape == (0, 0)
    assert linalg.congruent(empty, empty).shape == (0, 0)
    assert linalg.log_det(empty) == 0.0


@given(seed=st.integers(0, 2**32 - 1), orders=st.tuples(*[st.sampled_from(ORDERS)] * 2))
def test_products_are_those_of_numpy(seed, orders):
    rng = np.random.default_rng(seed)
    n, k, m = rng.integers(0, 6, 3)
    A, B = rng.normal(size=(n, k)), rng.normal(size=(k, m))
    got = linalg.product(np.array(A, order=orders[0]), np.array(B, order=orders[1]))
    np.testing.assert_allclose(got, A @ B, rtol=1e-12, atol=1e-12)
    L, S, x = np.tril(rng.normal(size=(k, k))), covariance(rng, k) if k else np.zeros((0, 0)), rng.normal(size=k)
    got = linalg.times_lower_t(np.array(A, order=orders[0]), np.array(L, order=orders[1]))
    np.testing.assert_allclose(got, A @ L.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(linalg.symmetric_product(np.array(S, order=orders[1]), x), S @ x, rtol=1e-12, atol=1e-12)
