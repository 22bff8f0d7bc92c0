import numpy as np
import pytest

from skpref._compiled.tiles import add_gram, factor, padded, solve_factored


def test_padded_is_a_multiple_of_a_tile():
    assert [padded(n) for n in (1, 3, 4, 100)] == [3, 3, 6, 102]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "width"), [(0, 3), (1, 3), (5, 9), (64, 33), (3, 102), (200, 132)])
def test_gram_is_that_of_numpy(n, width, dtype):
    rng = np.random.default_rng(n + width)
    A = rng.standard_normal((width + 3, n + 2)).astype(dtype)
    P = rng.standard_normal((width + 3, width))
    wanted = np.tril(P + A[:, :n] @ A[:width, :n].T)
    add_gram(P, A, n)
    np.testing.assert_allclose(np.tril(P), wanted, rtol=0, atol=(1e-13 if dtype is np.float64 else 1e-5) * (n + 1))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 9, 31, 100])
def test_factor_and_solves_are_those_of_numpy(n):
    rng = np.random.default_rng(n)
    width = padded(n)
    half = rng.standard_normal((n, n + 3))
    K = half @ half.T
    B = rng.standard_normal((3, n))
    P = np.full((width + 3, width), np.nan)
    P[:n, :n], P[width:] = np.where(np.tri(n), K, np.nan), 0.0
    P[width:, :n] = B
    assert factor(P, n)
    L = np.linalg.cholesky(K)
    np.testing.assert_allclose(np.tril(P[:n, :n]), L, atol=1e-11 * np.abs(L).max() * np.linalg.cond(L))
    np.testing.assert_allclose(P[width:, :n] @ L.T, B, atol=1e-9)
    x = np.full(n + 1, np.nan)
    x[:n] = P[width, :n]
    solve_factored(P, n, x)
    np.testing.assert_allclose(K @ x[:n], B[0], atol=1e-7)


@pytest.mark.parametrize("bad", [-1.0, 0.0, np.nan, np.inf])
def test_a_matrix_that_is_not_positive_definite_is_reported(bad):
    P = np.eye(9)
    P[5, 5] = bad
    assert not factor(P, 9)
