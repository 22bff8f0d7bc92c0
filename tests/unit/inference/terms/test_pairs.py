"""Terms of comparisons against their rows: whatever parts they have, they are linear in the same variables."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref.inference.blocks import DenseBlock
from skpref.inference.terms.base import precision_of
from skpref.inference.terms.pairs import PairTerm, difference_variance

PARTS = list(product([False, True], [False, True], [False, True], [0, 2]))


def make(basis, offsets, order, n_covariates, seed=0):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, 5, 12)
    right = (left + rng.integers(1, 5, 12)) % 5
    rows = rng.normal(size=(5, 3)) if basis else None
    covariates = rng.normal(size=(12, n_covariates)) if n_covariates else None
    return rng, PairTerm(rows, left, right, 5, offsets, order, rng.random(12) if basis else None, covariates)


@pytest.mark.parametrize(("basis", "offsets", "order", "n_covariates"), [parts for parts in PARTS if any(parts)])
def test_a_term_does_what_its_rows_do(basis, offsets, order, n_covariates):
    rng, term = make(basis, offsets, order, n_covariates)
    rows = term.explicit(np.arange(12))
    K = rows.rows.shape[1]
    assert 3 * basis + 5 * offsets + n_covariates + order == K
    assert term.segments == rows.segments
    weight, v = rng.exponential(size=12), rng.normal(size=(2, K))
    assert_allclose(term.matvec(v), rows.matvec(v), atol=1e-12)
    assert_allclose(term.matvec(v[0]), rows.matvec(v[0]), atol=1e-12)
    g = rng.normal(size=(2, 12))
    assert_allclose(term.rmatvec(g), rows.rmatvec(g), atol=1e-12)
    assert_allclose(term.gram(weight), rows.rows.T @ (weight[:, None] * rows.rows), atol=1e-12)
    assert_allclose(term.gram_diagonal(weight), rows.gram_diagonal(weight), atol=1e-12)
    expected = {"f": 1.3, "offset": 0.7, "covariate": 2.0, "order": 1.0}
    assert_allclose(term.prior_variance(expected), rows.prior_variance(expected), atol=1e-12)
    A = rng.normal(size=(K, K))
    block = DenseBlock(A @ A.T + np.eye(K), rng.normal(size=K))
    assert_allclose(term.variance(block), rows.variance(block), rtol=1e-10)
    index = np.array([3, 3, 0])
    assert_allclose(term.take(index).matvec(v[0]), rows.matvec(v[0])[index], atol=1e-12)
    many = np.arange(12)[::-1]
    assert_allclose(term.take(many).matvec(v[0]), rows.matvec(v[0])[many], atol=1e-12)
    if basis:
        gradient, curvature = rng.normal(size=(2, 12))
        adjoint = rows.basis_adjoint(block, gradient, curvature, 1.3)[:, :3]
        by_item = np.zeros((5, 3))
        np.add.at(by_item, term.left, adjoint)
        np.add.at(by_item, term.right, -adjoint)
        assert_allclose(term.basis_adjoint(block, gradient, curvature, 1.3), by_item, atol=1e-10)
    assert precision_of(term.segments, expected).size == K


def test_an_order_effect_is_a_covariate_that_is_always_one():
    _, order = make(basis=True, offsets=True, order=True, n_covariates=0)
    _, ones = make(basis=True, offsets=True, order=False, n_covariates=2)
    ones = PairTerm(ones.basis, ones.left, ones.right, 5, True, False, ones.residual, np.ones((12, 1)))
    weight = np.arange(12.0)
    assert_allclose(order.gram(weight), ones.gram(weight))


def test_variances_of_differences_are_not_negative():
    half = np.array([[1.0, 0.0], [0.0, 0.0]])
    left, right = np.array([0]), np.array([1])
    variance = difference_variance(half, left, right, np.array([[-1.0, 1e-9]]), np.ones((1, 1)))
    assert 0.0 <= variance[0] < 1e-15


def test_a_diagonal_block_holds_offsets_alone():
    _, term = make(basis=False, offsets=True, order=False, n_covariates=2)
    with pytest.raises(TypeError, match="a basis or covariates"):
        term.variance(object())
