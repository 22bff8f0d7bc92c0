"""Whitened kernel rows and their gradient."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skpref import kernels
from skpref.inference.basis import InducingBasis, chunks
from tests.examples import examples

seeds = st.integers(0, 2**32 - 1)


def make(seed, n=6, m=4, d=2):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    left = rng.integers(0, n, 9)
    right = (left + rng.integers(1, n, 9)) % n
    return rng, X, Z, left, right


@given(seed=seeds)
def test_rows_whiten_the_covariance(seed):
    _, X, Z, left, right = make(seed)
    kernel = ConstantKernel(1.7) * RBF([0.8, 1.4])
    basis = InducingBasis.from_points(kernel, Z)
    rows, K, Kmm, Knm = basis.rows(X), kernel(X), kernel(Z), kernel(X, Z)
    Q = Knm @ np.linalg.solve(Kmm, Knm.T)
    assert_allclose(basis.chol @ basis.chol.T, Kmm, rtol=1e-8, atol=1e-10)
    assert_allclose(rows @ rows.T, Q, rtol=1e-6, atol=1e-7)
    assert_allclose(basis.residual(X, rows), np.diag(K - Q), atol=1e-7)
    R = K - Q
    wanted = R[left, left] + R[right, right] - 2.0 * R[left, right]
    assert_allclose(basis.pair_residual(X, rows, left, right), wanted, atol=1e-7)


@given(seed=seeds)
def test_residuals_are_never_negative_and_vanish_at_inducing_points(seed):
    _, X, _, left, right = make(seed)
    basis = InducingBasis.from_points(kernels.ProductMatern([3.0, 5.0]), X)
    rows = basis.rows(X)
    for rest in (basis.residual(X, rows), basis.pair_residual(X, rows, left, right)):
        assert (rest >= 0.0).all()
        assert rest.max() < 1e-8


def objective(kernel, X, Z, left, right, G, g):
    """sum(G rows) + sum(g kappa): linear in what the gradients are pulled through."""
    rows = InducingBasis.from_points(kernel, Z).rows(X)
    kappa = kernels.diagonal(kernel, X)[left] + kernels.diagonal(kernel, X)[right]
    return np.sum(G * rows) + g @ (kappa - 2.0 * kernels.paired(kernel, X[left], X[right]))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(
    "kernel",
    [
        kernels.ProductMatern([0.8, 1.5]),
        kernels.ProductMatern(0.7, nu=2.5) + kernels.Linear(),
        ConstantKernel(1.3) * kernels.AdditiveMatern([0.9, 0.6]) + WhiteKernel(0.2),
    ],
    ids=["matern", "sum", "constant-white"],
)
@examples(10)
@given(seed=seeds)
def test_gradients_of_rows_and_prior_variances(kernel, form, seed):
    rng, X, Z, left, right = make(seed)
    G, g = rng.normal(size=(6, 4)), rng.normal(size=9)
    X, Z = form(X), form(Z)
    basis = InducingBasis.from_points(kernel, Z)
    gradient = basis.rows_gradient(X, basis.rows(X), G) + basis.kappa_gradient(X, left, right, g)
    step = 1e-3
    for j, unit in enumerate(np.eye(kernel.theta.size)):
        ends = [
            objective(kernel.clone_with_theta(kernel.theta + k * step * unit), X, Z, left, right, G, g)
            for k in (-2, -1, 1, 2)
        ]
        slope = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * step)
        assert_allclose(gradient[j], slope, rtol=1e-5, atol=1e-5 * (1.0 + np.abs(gradient).max()))


def test_chunks_cover_all_rows_once():
    assert [s.indices(10) for s in chunks(10, 4)] == [(0, 4, 1), (4, 8, 1), (8, 10, 1)]
    assert chunks(0) == []


def test_chunked_results_equal_whole_ones(monkeypatch):
    rng, X, Z, left, right = make(0, n=11)
    basis = InducingBasis.from_points(kernels.ProductMatern([0.8, 1.5]), Z)
    G, g = rng.normal(size=(11, 4)), rng.normal(size=9)

    def everything():
        rows = basis.rows(X)
        return (
            rows,
            basis.pair_residual(X, rows, left, right),
            basis.rows_gradient(X, rows, G),
            basis.kappa_gradient(X, left, right, g),
        )

    whole = everything()
    monkeypatch.setattr("skpref.inference.basis.chunks", lambda n: chunks(n, 3))
    for small, large in zip(everything(), whole, strict=True):
        assert_allclose(small, large, rtol=1e-12, atol=1e-13)
