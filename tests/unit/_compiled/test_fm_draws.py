"""Draws of a factorization machine's kernels against scipy and dense algebra."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats

from skpref._compiled.fm_draws import draw_features, drawn_evidence, row_values, truncated_normals
from skpref.factorization.machine.fields import design_of


@pytest.mark.parametrize(
    ("low", "high"),
    [(-np.inf, 0.3), (-0.2, 0.1), (-1.0, 4.0), (0.5, np.inf), (0.5, 0.7), (3.0, 9.0), (-9.0, -8.0), (40.0, np.inf)],
)
def test_truncated_normals_have_their_distribution(low, high):
    n = 4000
    mean, level = np.full(n, 0.7), np.ones(n, dtype=np.int64)
    thresholds = np.array([low, high])[np.isfinite([low, high])] + 0.7
    level[:] = int(np.isfinite(low))
    draws = truncated_normals(mean, level, thresholds, (3, 1, 0)) - 0.7
    assert np.all((draws >= low) & (draws <= high))
    assert stats.kstest(draws, stats.truncnorm(low, high).cdf).pvalue > 1e-3


def test_streams_are_named_and_do_not_depend_on_other_rows():
    mean, level, thresholds = np.linspace(-2.0, 2.0, 300), np.arange(300) % 3, np.array([-0.5, 0.5])
    draws = truncated_normals(mean, level, thresholds, (3, 1, 0))
    assert np.array_equal(draws[:200], truncated_normals(mean[:200], level[:200], thresholds, (3, 1, 0)))
    assert not np.any(draws == truncated_normals(mean, level, thresholds, (3, 2, 0)))


def implicit_rows():
    """Users, items, a measured feature of every row, and a part of what each user has rated."""
    rng = np.random.default_rng(0)
    u, i = np.nonzero(rng.random((6, 5)) < 0.8)
    rated = rng.random((6, 3)) * (rng.random((6, 3)) < 0.6)
    parts = [np.eye(6)[u], np.eye(5)[i], rated[u], rng.normal(size=(u.size, 1))]
    return sparse.csr_array(np.hstack(parts)), rng.normal(size=(15, 3))


def test_values_are_those_of_the_definition():
    X, theta = implicit_rows()
    design, dense = design_of(X), X.toarray()
    w, V = theta[:, 0], theta[:, 1:]
    expected = dense @ w + 0.5 * (((dense @ V) ** 2).sum(axis=1) - (dense**2 @ V**2).sum(axis=1))
    assert design.offsets.size > 2
    assert_allclose(row_values(design.codes, design.table(theta)), expected, rtol=1e-12)


@pytest.mark.parametrize("relaxation", [0.0, -0.9])
def test_a_feature_without_noise_is_at_its_conditional_mean_or_as_far_on_the_other_side(relaxation):
    X, theta = implicit_rows()
    design, rng = design_of(X), np.random.default_rng(1)
    target, nu, lam = rng.normal(size=X.shape[0]), rng.normal(size=(1, 3)), rng.gamma(2.0, size=(1, 3))
    group, table = np.zeros(len(theta), dtype=np.int64), design.table(theta)
    drawn = theta.copy()
    for f, (columns, ranges) in enumerate(design.parts):
        evidence = drawn_evidence(f, design.holders, design.codes, design.offsets, target, table)
        offset = int(design.offsets[f])
        options = (nu, lam, group), evidence, table, np.zeros_like(theta), relaxation
        assert draw_features(columns, ranges, offset, drawn, *options)
        # In the order of the features, y(x) is linear in each given the others: h = x_k (1, Q - x_k v_k).
        for k in np.flatnonzero(np.diff(columns.start)).tolist():
            x, zero = X.toarray()[:, k], theta.copy()
            zero[k] = 0.0
            h = x[:, None] * np.column_stack([np.ones(len(x)), X @ zero[:, 1:]])
            residual = target - row_values(design.codes, design.table(zero))
            mean = np.linalg.solve(h.T @ h + np.diag(lam[0]), h.T @ residual + lam[0] * nu[0])
            theta[k] = mean + relaxation * (theta[k] - mean)
    assert_allclose(drawn, theta, rtol=1e-8)
    assert_allclose(table, design.table(theta), rtol=1e-8)


def test_draws_scatter_as_much_with_relaxation_as_without():
    n, precision = 4000, 2.0 * np.array([[3.0, 1.0], [1.0, 2.0]])
    X = sparse.csr_array(np.eye(n))
    design, nu, lam = design_of(X), np.array([[0.4, -0.2]]), np.array([[1.5, 0.5]])
    rng, group = np.random.default_rng(2), np.zeros(n, dtype=np.int64)
    ((columns, ranges),) = design.parts
    evidence = np.tile(precision, (n, 1, 1)), np.tile([1.0, -2.0], (n, 1))
    total = precision + np.diag(lam[0])
    mean, covariance = np.linalg.solve(total, [1.0 + 0.6, -2.0 - 0.1]), np.linalg.inv(total)
    theta = rng.multivariate_normal(mean, covariance, n)
    before = theta.copy()
    assert draw_features(
        columns, ranges, 0, theta, (nu, lam, group), evidence, design.table(theta), rng.standard_normal((n, 2)), -0.9
    )
    assert_allclose(theta.mean(axis=0), mean, atol=5.0 * np.sqrt(covariance.max() / n))
    assert_allclose(np.cov(theta.T), covariance, atol=0.02)
    assert_allclose([np.corrcoef(before[:, a], theta[:, a])[0, 1] for a in range(2)], -0.9, atol=0.02)
