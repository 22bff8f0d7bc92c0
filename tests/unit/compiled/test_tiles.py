from __future__ import annotations

import numpy as np
import pytest

from skpref._compiled.tiles import add_gram, factor, padded_width, solve_factored


def test_padded_width_is_a_multiple_of_a_vector():
    assert [padded_width(n) for n in (1, 8, 9, 101)] == [8, 8, 16, 104]
    assert [padded_width(n, np.float32) for n in (1, 16, 101)] == [16, 16, 112]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "width"), [(0, 3), (1, 1), (5, 7), (64, 33), (3, 101), (200, 130)])
def test_gram_is_that_of_numpy(n, width, dtype):
    rng = np.random.default_rng(n + width)
    A = np.zeros((n + 2, padded_width(width, dtype)), dtype)
    A[:, :width] = rng.standard_normal((n + 2, width))
    C = rng.standard_normal((A.shape[1], A.shape[1])).astype(dtype)
    wanted = np.triu(C + A[:n].T @ A[:n])
    add_gram(C, A, n)
    np.testing.assert_allclose(np.triu(C), wanted, rtol=0, atol=(1e-13 if dtype is np.float64 else 1e-5) * (n + 1))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 31, 100])
def test_factor_and_solves_are_those_of_numpy(n):
    rng = np.random.default_rng(n)
    width = padded_width(n + 2)
    half = rng.standard_normal((n, n + 3))
    K = half @ half.T
    B = rng.standard_normal((n, 2))
    P = np.zeros((width, width))
    P[:n, :n], P[:n, n : n + 2] = np.triu(K), B
    assert factor(P, n)
    R = np.linalg.cholesky(K).T
    np.testing.assert_allclose(np.triu(P[:n, :n]), R, atol=1e-11 * np.abs(R).max() * np.linalg.cond(R))
    np.testing.assert_allclose(R.T @ P[:n, n : n + 2], B, atol=1e-9)
    x = np.full(n + 1, np.nan)
    x[:n] = P[:n, n]
    solve_factored(P, n, x)
    np.testing.assert_allclose(K @ x[:n], B[:, 0], atol=1e-7)


@pytest.mark.parametrize("bad", [-1.0, 0.0, np.nan, np.inf])
def test_a_matrix_that_is_not_positive_definite_is_told(bad):
    P = np.eye(8)
    P[5, 5] = bad
    assert not factor(P, 8)
