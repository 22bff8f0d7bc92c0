"""Passes over rows and columns against the definition of the machine, spelled out in numpy."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from skpref._compiled import fm
from skpref._compiled.fm import Slopes, feature_gradients, row_moments, update_features
from skpref._compiled.fm_fields import one_hot_ranges
from skpref._compiled.jit import limited_threads
from skpref.factorization.machine.model import compress


def problem(seed, n=9, K=6, d=3, density=0.6):
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, K), density=density, rng=rng, data_sampler=rng.standard_normal, format="csr")
    mean, variance = rng.standard_normal((K, 1 + d)), rng.uniform(0.1, 2.0, (K, 1 + d))
    slopes = Slopes(rng.standard_normal(n), rng.uniform(0.1, 2.0, n))
    return X, mean, variance, slopes


def sums(X, mean, variance):
    S = np.full((X.shape[0], 3, mean.shape[1] - 1), np.nan)
    mu, v = row_moments(compress(X), mean, variance, S)
    return mu, v, S


def twin_moments(X, mean, variance):
    """docs/maths section 9, pair by pair: products of independent factors."""
    X = X.toarray()
    mu, v = X @ mean[:, 0], X**2 @ variance[:, 0]
    for f in range(1, mean.shape[1]):
        m, s2 = mean[:, f], variance[:, f]
        for k, l in combinations(range(X.shape[1]), 2):
            x = X[:, k] * X[:, l]
            mu += x * m[k] * m[l]
            v += x**2 * s2[k] * s2[l]
        for k in range(X.shape[1]):
            others = X @ m - X[:, k] * m[k]
            v += X[:, k] ** 2 * s2[k] * others**2
    return mu, v


def quadratic(X, y, w, mean, variance):
    """E of a Gaussian likelihood with precisions w, without constants."""
    mu, v = twin_moments(X, mean, variance)
    return -0.5 * float(w @ ((y - mu) ** 2 + v))


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 9]), st.integers(0, 4), st.floats(0.0, 1.0))
def test_moments_are_those_of_the_definition(seed, n, d, density):
    X, mean, variance, _ = problem(seed, n, d=d, density=density)
    mu, v, S = sums(X, mean, variance)
    wanted = twin_moments(X, mean, variance)
    np.testing.assert_allclose(mu, wanted[0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(v, wanted[1], rtol=1e-10, atol=1e-10)
    q, t = X.toarray()[:, :, None] * mean[:, 1:], X.toarray()[:, :, None] ** 2 * variance[:, 1:]
    for part, total in enumerate((q, t, t * q)):
        np.testing.assert_allclose(S[:, part], total.sum(axis=1), rtol=1e-10, atol=1e-10)


@given(st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_an_update_is_the_best_of_its_feature(seed, d):
    X, mean, variance, slopes = problem(seed, d=d)
    rng = np.random.default_rng(seed)
    y, w = rng.standard_normal(X.shape[0]), slopes.weight
    mu, _, S = sums(X, mean, variance)
    k, K = int(rng.integers(X.shape[1])), X.shape[1]
    nu, lam = rng.standard_normal((1, 1 + d)), rng.uniform(0.3, 2.0, (1, 1 + d))
    q, pull = (mean.copy(), variance.copy()), w * (y - mu)
    columns = compress(X.tocsc())
    prior = nu, lam, np.zeros(K, dtype=np.int64)
    assert update_features(
        columns, one_hot_ranges(compress(X), X.shape[1]), q, prior, np.arange(K) == k, S, Slopes(pull, w)
    )
    others = np.arange(K) != k
    np.testing.assert_array_equal(q[0][others], mean[others])
    # The sums of the rows are those computed anew.
    new_mu, _, new_S = sums(X, *q)
    np.testing.assert_allclose(S, new_S, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(pull, w * (y - new_mu), rtol=1e-8, atol=1e-8)

    def bound(m, s2):
        M, V = q[0].copy(), q[1].copy()
        M[k], V[k] = m, s2
        prior_terms = -0.5 * np.sum(lam[0] * (s2 + (m - nu[0]) ** 2) - np.log(s2))
        return quadratic(X, y, w, M, V) + prior_terms

    best = bound(q[0][k], q[1][k])
    for _ in range(10):
        direction = 0.01 * rng.standard_normal((2, 1 + d))
        assert bound(q[0][k] + direction[0], q[1][k] * np.exp(direction[1])) <= best + 1e-9 * abs(best)


@given(st.integers(0, 2**32 - 1))
def test_short_steps_follow_the_natural_gradient(seed):
    X, mean, variance, slopes = problem(seed)
    _, _, S = sums(X, mean, variance)
    columns, rho, K = compress(X.tocsc()), 1e-7, X.shape[1]
    in_mean, in_variance = feature_gradients(columns, (mean, variance), S, slopes)
    q = mean.copy(), variance.copy()
    prior = np.zeros((1, 4)), np.ones((1, 4)), np.zeros(K, dtype=np.int64)
    slopes = Slopes(slopes.pull.copy(), slopes.weight)
    update_features(columns, one_hot_ranges(compress(X), X.shape[1]), q, prior, np.ones(K, dtype=bool), S, slopes, rho)
    # In the precisions the natural gradient of the bound is -2 dL/dvariance.
    wanted = -2.0 * (in_variance - 0.5 + 0.5 / variance)
    np.testing.assert_allclose((1.0 / q[1] - 1.0 / variance) / rho, wanted, rtol=1e-3, atol=1e-3)
    assert np.all(np.sum((q[0] - mean) * (in_mean - mean), axis=1) >= -1e-12)


def test_fields_of_one_hot_columns():
    rng = np.random.default_rng(0)
    n, sizes = 200, (7, 5, 3)
    blocks = [sparse.csr_array(np.eye(s)[rng.permutation(np.arange(n) % s)]) for s in sizes]
    X = sparse.hstack(blocks, format="csr")
    assert one_hot_ranges(compress(X), sum(sizes)).tolist() == [0, 7, 12, 15]


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1.0))
def test_columns_of_a_field_share_no_row(seed, density):
    X, *_ = problem(seed, n=8, K=12, density=density)
    bounds = one_hot_ranges(compress(X), 12)
    assert bounds[0] == 0
    assert bounds[-1] == 12
    assert np.all(np.diff(bounds) > 0)
    held = X.toarray() != 0.0
    for a, b in pairwise(bounds.tolist()):
        assert held[:, a:b].sum(axis=1).max() <= 1


@pytest.mark.slow  # compiles every kernel for another type
@pytest.mark.parametrize(("dtype", "index"), [(np.float64, np.int32), (np.float32, np.int64)])
def test_same_bits_for_any_number_of_threads(dtype, index, monkeypatch):
    rng = np.random.default_rng(1)
    n, sizes, d = 3000, (90, 40, 11), 4
    X = sparse.hstack([sparse.csr_array(np.eye(s)[rng.integers(0, s, n)]) for s in sizes], format="csr")
    X = sparse.csr_array((X.data, X.indices.astype(index), X.indptr.astype(index)), X.shape)
    columns, K = compress(X.tocsc()), sum(sizes)
    start = rng.standard_normal((K, 1 + d)), rng.uniform(0.1, 1.0, (K, 1 + d))
    prior = np.zeros((1, 1 + d)), np.ones((1, 1 + d)), np.zeros(K, dtype=np.int64)
    results = []
    for n_threads, small in ((1, 0), (2, 0), (None, 1 << 60)):
        monkeypatch.setattr(fm, "_SMALL", small)
        q, S = tuple(part.copy() for part in start), np.empty((n, 3, d), dtype)
        with limited_threads(n_threads):
            mu, v = row_moments(compress(X), *q, S)
            slopes = Slopes(np.cos(mu), np.ones(n))
            gradients = feature_gradients(columns, q, S, slopes)
            assert update_features(
                columns, one_hot_ranges(compress(X), X.shape[1]), q, prior, np.ones(K, dtype=bool), S, slopes
            )
        results.append((mu, v, *gradients, *q, S, slopes.pull))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_numbers_out_of_range_are_reported():
    X, mean, variance, slopes = problem(0)
    columns, K = compress(X.tocsc()), X.shape[1]
    _, _, S = sums(X, mean, variance)
    columns = columns._replace(value=columns.value * 1e200)
    prior = np.zeros((1, 4)), np.ones((1, 4)), np.zeros(K, dtype=np.int64)
    fields, q = np.arange(K + 1), (mean, variance)
    assert not update_features(columns, fields, q, prior, np.ones(K, dtype=bool), S, slopes)
