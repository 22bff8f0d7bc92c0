"""Gaussian factors in natural parameters against plain linear algebra."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skpref.exceptions import DataError
from skpref.inference.blocks import DenseBlock, DiagonalBlock

seeds = st.integers(0, 2**32 - 1)


def make(kind, seed, size=5):
    """Block and its dense precision."""
    rng = np.random.default_rng(seed)
    if kind is DiagonalBlock:
        precision = np.exp(rng.normal(size=size))
        return DiagonalBlock(precision, rng.normal(size=size)), np.diag(precision)
    A = rng.normal(size=(size, size))
    precision = A @ A.T + np.eye(size)
    return DenseBlock(precision, rng.normal(size=size)), precision


@pytest.mark.parametrize("kind", [DenseBlock, DiagonalBlock])
@given(seed=seeds)
def test_moments_follow_from_natural_parameters(kind, seed):
    block, precision = make(kind, seed)
    S = np.linalg.inv(precision)
    b = np.arange(5.0)
    assert block.size == 5
    assert_allclose(block.mean, S @ block.linear, rtol=1e-9, atol=1e-12)
    assert_allclose(block.covariance_diagonal, np.diag(S), rtol=1e-9)
    assert_allclose(block.log_det_covariance, np.linalg.slogdet(S)[1], rtol=1e-9, atol=1e-12)
    assert_allclose(block.colour(block.whiten(b)), S @ b, rtol=1e-9, atol=1e-12)
    assert_allclose(block.with_mean(b).linear, precision @ b, rtol=1e-9, atol=1e-12)


@given(seed=seeds)
def test_the_dense_block_reads_the_lower_triangle_only(seed):
    block, precision = make(DenseBlock, seed)
    rubbish = np.tril(precision) + np.triu(np.full_like(precision, 1e6), 1)
    other = DenseBlock(rubbish, block.linear)
    assert_allclose(other.mean, block.mean, rtol=1e-12)
    assert_allclose(other.with_mean(block.mean).linear, block.linear, rtol=1e-8, atol=1e-10)
    assert_allclose(other.mixed(block, 0.5).mean, block.mean, rtol=1e-9, atol=1e-12)


def test_inverse_chol_is_half_of_the_covariance():
    block, precision = make(DenseBlock, 0)
    assert_allclose(block.inverse_chol.T @ block.inverse_chol, np.linalg.inv(precision), rtol=1e-10)


@pytest.mark.parametrize("kind", [DenseBlock, DiagonalBlock])
def test_isotropic_has_the_mean_and_precision_asked_for(kind):
    precision, mean = np.array([1.0, 2.0, 4.0]), np.array([0.5, -1.0, 2.0])
    block = kind.isotropic(precision, mean)
    assert_allclose(block.mean, mean)
    assert_allclose(block.covariance_diagonal, 1.0 / precision)


@pytest.mark.parametrize("kind", [DenseBlock, DiagonalBlock])
@given(seed=seeds, rho=st.floats(0.0, 1.0))
def test_mixed_moves_natural_parameters_along_a_line(kind, seed, rho):
    (a, A), (b, B) = make(kind, seed), make(kind, seed + 1)
    mixed = a.mixed(b, rho)
    assert_allclose(mixed.linear, (1 - rho) * a.linear + rho * b.linear, rtol=1e-12, atol=1e-14)
    precision = (1 - rho) * A + rho * B
    product = mixed.colour(mixed.whiten(precision if kind is DenseBlock else np.diag(precision)))
    assert_allclose(product, np.eye(5) if kind is DenseBlock else np.ones(5), atol=1e-9)


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan])
def test_a_precision_is_positive(wrong):
    good = DiagonalBlock(np.array([1.0, 2.0]), np.zeros(2))
    good.validate()
    for precision in ([wrong, 2.0], [1.0, wrong]):
        with pytest.raises(DataError, match="precision"):
            DiagonalBlock(np.array(precision), np.zeros(2)).validate()
    DenseBlock(np.diag([1.0, 2.0]), np.zeros(2)).validate()
    with pytest.raises(DataError, match="precision"):
        DenseBlock(np.diag([1.0, wrong]), np.zeros(2)).validate()
