"""The median heuristic and its fallbacks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import kendalltau

from skpref import GPPLRegressor
from skpref.exceptions import DataError
from skpref.kernels import median_length_scales


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 12), d=st.integers(1, 5))
def test_all_pairs_of_few_rows(seed, n, d):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.5, 0.0, rng.normal(size=(n, d)))
    i, j = np.triu_indices(n, 1)
    distance = np.abs(X[i] - X[j])
    want = np.median(distance, axis=0)
    others = [np.median(column[column > 0.0]) if column.any() else 1.0 for column in distance.T]
    want = np.where(want > 0.0, want, others)
    np.testing.assert_allclose(median_length_scales(X, rng), want, rtol=1e-12)
    np.testing.assert_allclose(median_length_scales(sparse.csr_matrix(X), rng), want, rtol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rare_categories_have_the_distance_of_two_categories(form):
    X = np.zeros((200, 3))
    X[:3, 0] = 1.0
    X[:60, 1] = 1.0
    X[:4, 2] = [1.0, 2.0, 4.0, 8.0]  # 394 distances are at most 2, one is 3, 395 are at least 4
    np.testing.assert_allclose(median_length_scales(form(X), np.random.default_rng(0), n_pairs=20_000), [1.0, 1.0, 3.5])


def test_utilities_are_learnt_from_items_with_many_categories():
    # With the mean distance of rare categories as their length-scale, Kendall's tau of these was .2.
    rng = np.random.default_rng(0)
    kind = [np.eye(10)[rng.choice(10, 300, p=rng.dirichlet(np.full(10, 0.5)))] for _ in range(10)]
    numbers = rng.normal(size=(300, 3))
    utility = numbers @ [0.8, 0.5, 0.4] + 0.2 * sum(kinds @ rng.normal(size=10) for kinds in kind)
    X = np.hstack([numbers, *kind])
    X = X[:, X[:100].std(axis=0) > 0.0]
    model = GPPLRegressor(random_state=0).fit(X[:100], utility[:100])
    assert kendalltau(model.predict(X[100:]), utility[100:])[0] > 0.6


def test_sampled_pairs_find_the_median():
    X = np.random.default_rng(0).normal(size=(5000, 3)) * [1.0, 10.0, 0.1]
    # median |x - y| of two standard normals: sqrt(2) times the normal's third quartile
    want = np.sqrt(2.0) * 0.67449 * np.array([1.0, 10.0, 0.1])
    np.testing.assert_allclose(median_length_scales(X, np.random.default_rng(1)), want, rtol=0.1)


def test_dense_and_csr_draw_the_same_pairs():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((400, 6)) < 0.6, 0.0, rng.normal(size=(400, 6)))
    dense = median_length_scales(X, np.random.default_rng(5), n_pairs=999)
    np.testing.assert_allclose(median_length_scales(sparse.csr_array(X), np.random.default_rng(5), n_pairs=999), dense)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n", [1, 2, 300])
def test_constant_features_have_length_scale_one(form, n):
    X = form(np.tile([0.0, 3.0], (n, 1)))
    np.testing.assert_array_equal(median_length_scales(X, np.random.default_rng(0)), [1.0, 1.0])


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_differences_that_overflow(form):
    with pytest.raises(DataError, match="differences overflow: scale the features"):
        median_length_scales(form([[1.0, 0.5], [2.0, -1e308]]), np.random.default_rng(0))


@pytest.mark.parametrize(("n_pairs", "all_pairs"), [(45, True), (46, True), (44, False)])
def test_pairs_are_drawn_where_there_are_more_than_asked_for(n_pairs, all_pairs):
    X = np.random.default_rng(0).normal(size=(10, 1))
    i, j = np.triu_indices(10, 1)
    got = [median_length_scales(X, np.random.default_rng(seed), n_pairs=n_pairs)[0] for seed in range(3)]
    assert (np.ptp(got) == 0.0) == all_pairs
    if all_pairs:
        assert got[0] == pytest.approx(np.median(np.abs(X[i] - X[j])))
