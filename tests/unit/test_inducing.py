"""Where inducing points come from, and row 55 of the table of bad inputs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF

from skpref.exceptions import DataError
from skpref.inducing import METHODS, choose

KERNEL = RBF(1.0)


def rows_of(Z):
    return {tuple(row) for row in (Z.toarray() if sparse.issparse(Z) else Z) + 0.0}


def grid(n=400, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("method", ["kmeans++", "random", "variance"])
@pytest.mark.parametrize("as_features", [np.asarray, sparse.csr_array])
def test_points_are_distinct_rows(method, as_features):
    X = np.vstack([grid(60), grid(60)])
    # scikit-learn's kernels want dense rows.
    kernel = Dense(KERNEL) if as_features is sparse.csr_array else KERNEL
    Z = choose(as_features(X), 20, method, 0, kernel=kernel)
    assert Z.shape == (20, 3)
    assert sparse.issparse(Z) == (as_features is sparse.csr_array)
    assert len(rows_of(Z)) == 20
    assert rows_of(Z) <= rows_of(X)


class Dense:
    def __init__(self, kernel):
        self.kernel = kernel

    def __call__(self, X, Y):
        return self.kernel(X.toarray(), Y.toarray())

    def diag(self, X):
        return self.kernel.diag(X)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_inducing", [3, 4, 100])
def test_row_55_all_distinct_rows_in_their_order(method, n_inducing):
    X = np.array([[2.0], [1.0], [2.0], [-0.0], [0.0]])
    np.testing.assert_array_equal(choose(X, n_inducing, method), [[2.0], [1.0], [0.0]])
    dense = choose(sparse.csr_array(X), n_inducing, method).toarray()
    np.testing.assert_array_equal(dense, [[2.0], [1.0], [0.0]])


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 30), st.integers(1, 3)),
        elements=st.sampled_from([0.0, 1.0, -2.0, 1e200, 1e-200]),
    ),
    st.integers(1, 12),
    st.sampled_from(METHODS),
    st.integers(0, 2**32 - 1),
)
def test_never_more_points_than_distinct_rows(X, n_inducing, method, seed):
    # Values of 1e200 must not overflow in a squared distance; 1e-200 beside them has no distance from 0 left.
    kernel = RBF(1e200)
    Z = choose(X, n_inducing, method, seed, kernel=kernel)
    assert 1 <= Z.shape[0] <= min(n_inducing, len(rows_of(X)))
    assert np.isfinite(Z).all()
    assert len(rows_of(Z)) == Z.shape[0]
    if method in {"kmeans++", "random"}:
        assert Z.shape[0] == min(n_inducing, len(rows_of(X)))


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_points(method):
    X = grid()
    one, two = (choose(X, 10, method, seed, kernel=KERNEL) for seed in (3, np.random.default_rng(3)))
    np.testing.assert_array_equal(one, two)
    if method != "variance":
        assert (choose(X, 10, method, 4) != one).any()


def coverage(X, Z):
    return np.min(((X[:, None] - Z[None]) ** 2).sum(axis=2), axis=1).mean()


def test_spread_is_better_than_chance():
    X = np.vstack([grid(500, 2) * 0.1 + centre for centre in ([0, 0], [9, 0], [0, 9], [9, 9])] + [grid(20, 2) + 50])
    gain = [coverage(X, choose(X, 8, "random", s)) / coverage(X, choose(X, 8, "kmeans++", s)) for s in range(20)]
    assert np.median(gain) > 5.0
    assert np.median([coverage(X, choose(X, 8, "kmeans", s)) for s in range(5)]) < np.median(
        [coverage(X, choose(X, 8, "kmeans++", s)) for s in range(20)]
    )


def test_kernel_scale_decides_which_feature_counts():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat([0.0, 1.0], 100), rng.normal(size=200) * 100])
    for seed in range(5):
        Z = choose(X, 2, "kmeans++", seed, np.array([1.0, 1e6]))
        assert set(Z[:, 0]) == {0.0, 1.0}
        centres = choose(X, 2, "kmeans", seed, np.array([1.0, 1e6]))
        np.testing.assert_allclose(np.sort(centres[:, 0]), [0.0, 1.0], atol=1e-6)
    sparse_Z = choose(sparse.csr_array(X), 2, "kmeans++", 0, np.array([1.0, 1e6]))
    assert set(sparse_Z.toarray()[:, 0]) == {0.0, 1.0}


def test_units_do_not_matter():
    X = grid()
    np.testing.assert_array_equal(choose(X * 2.0**300, 10, "kmeans++", 0) / 2.0**300, choose(X, 10, "kmeans++", 0))


def test_weights_draw_points_to_what_is_observed():
    X = np.arange(100.0)[:, None]
    weights = np.where(np.arange(100) < 10, 1e6, 1e-6)
    assert (choose(X, 5, "kmeans++", 0, weights=weights) < 10).all()


def test_repeated_rows_weigh_what_they_are_repeated():
    X = np.repeat(np.arange(30.0), np.where(np.arange(30) < 5, 2000, 1))[:, None]
    Z = choose(X, 3, "kmeans", 0)
    assert np.sort(Z.ravel())[0] < 5.0


def test_variance_is_greedy_and_deterministic():
    X = grid(200, 2)
    Z = choose(X, 15, "variance", 0, kernel=KERNEL)
    np.testing.assert_array_equal(Z, choose(X, 15, "variance", 99, kernel=KERNEL))
    for step in range(1, 15):
        before = Z[:step]
        K = KERNEL(X, before)
        left = 1.0 - np.einsum("ij,ji->i", K, np.linalg.solve(KERNEL(before), K.T))
        chosen = np.flatnonzero((Z[step] == X).all(axis=1))[0]
        assert left[chosen] == pytest.approx(left.max(), abs=1e-9)


def test_variance_stops_when_nothing_is_left():
    class Line:
        def __call__(self, X, Y):
            return X @ Y.T

        def diag(self, X):
            return (X**2).sum(axis=1)

    assert choose(grid(50, 2), 20, "variance", kernel=Line()).shape == (2, 2)


def test_given_points():
    X = grid(50)
    Z = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    found = choose(X, 1, Z)
    np.testing.assert_array_equal(found, Z[:2])
    found[:] = 7.0
    assert Z[0, 0] == 1.0
    np.testing.assert_array_equal(choose(X, 1, Z.tolist()), Z[:2])
    np.testing.assert_array_equal(choose(sparse.csr_array(X), 1, sparse.csc_array(Z)).toarray(), Z[:2])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": "kmeanz"}, DataError, r"inducing must be one of kmeans\+\+, kmeans, random, variance or an array"),
        ({"n_inducing": 0}, DataError, "n_inducing must be at least 1, got 0"),
        ({"method": np.ones((2, 2))}, DataError, "the inducing points have 2 features, but X has 3 features"),
        ({"method": [[np.nan] * 3]}, ValueError, "Input inducing contains NaN"),
        ({"method": np.empty((0, 3))}, ValueError, r"Found array with 0 sample\(s\)"),
        ({"method": "variance"}, DataError, "needs the kernel"),
        ({"kernel_scale": 0.0}, DataError, "kernel_scale must be positive and finite, got 0.0"),
        ({"kernel_scale": np.array([1.0, np.inf, 1.0])}, DataError, "kernel_scale must be positive and finite"),
        ({"X": sparse.csr_array(grid()), "method": "kmeans"}, TypeError, "Sparse data was passed for X, but dense"),
    ],
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        choose(**({"X": grid(), "n_inducing": 5, "rng": 0} | arguments))


def test_large_tables_are_thinned():
    X = grid(50_000, 5)
    Z = choose(X, 30, "kmeans++", 0)
    assert rows_of(Z) <= rows_of(X)
    assert coverage(X[:500], Z) < coverage(X[:500], choose(X, 30, "random", 0)) * 1.2
