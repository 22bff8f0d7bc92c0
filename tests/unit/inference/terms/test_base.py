"""Terms: products with the design against the rows written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skpref.exceptions import DataError
from skpref.inference.blocks import DenseBlock, DiagonalBlock
from skpref.inference.terms.base import RowTerm, Segment, precision_of
from skpref.inference.terms.pairs import PairTerm

SCALES = {"f": 0.5, "offset": 2.0, "order": 3.0}
seeds = st.integers(0, 2**32 - 1)
# (basis, offsets, order)
PARTS = [
    (basis, offsets, order)
    for basis in (True, False)
    for offsets in (True, False)
    for order in (True, False)
    if basis or offsets or order
]


def make(seed, parts, residual=False):
    """A term of pairs and the same term with its rows written out."""
    has_basis, offsets, order = parts
    rng = np.random.default_rng(seed)
    n, m, p = int(rng.integers(2, 8)), int(rng.integers(1, 5)), int(rng.integers(1, 20))
    left = rng.integers(0, n, p)
    right = (left + rng.integers(1, n, p)) % n
    basis = rng.normal(size=(n, m)) if has_basis else None
    rest = rng.exponential(size=p) if residual and has_basis else None
    D = np.zeros((p, n))
    D[np.arange(p), left], D[np.arange(p), right] = 1.0, -1.0
    blocks = ([D @ basis] if has_basis else []) + ([D] if offsets else []) + ([np.ones((p, 1))] if order else [])
    term = PairTerm(basis, left, right, n, offsets, order, rest)
    return rng, term, RowTerm(np.hstack(blocks), term.segments, rest)


def draw_block(rng, size):
    A = rng.normal(size=(size, size))
    return DenseBlock(A @ A.T + np.eye(size), rng.normal(size=size))


@pytest.mark.parametrize("parts", PARTS)
@given(seed=seeds)
def test_pairs_are_rows_written_out(parts, seed):
    rng, pairs, rows = make(seed, parts, residual=True)
    A, (p, k) = rows.rows, rows.rows.shape
    v, g, weight = rng.normal(size=k), rng.normal(size=p), rng.exponential(size=p)
    block = draw_block(rng, k)
    assert sum(s.size for s in pairs.segments) == k
    assert pairs.n_observations == rows.n_observations == p
    gram = (A.T * weight) @ A
    for term in (pairs, rows):
        assert_allclose(term.matvec(v), A @ v, atol=1e-12)
        assert_allclose(term.rmatvec(g), A.T @ g, atol=1e-12)
        assert_allclose(np.tril(term.gram(weight)), np.tril(gram), atol=1e-12)
        assert_allclose(term.gram_diagonal(weight), np.diag(gram), atol=1e-12)
        S = np.linalg.inv(block.precision)
        assert_allclose(term.variance(block), np.einsum("ij,jk,ik->i", A, S, A), rtol=1e-12, atol=1e-12)
    assert_allclose(pairs.prior_variance(SCALES), rows.prior_variance(SCALES), rtol=1e-12)


@pytest.mark.parametrize("parts", PARTS)
@given(seed=seeds)
def test_a_mini_batch_has_the_rows_of_its_observations(parts, seed):
    rng, pairs, rows = make(seed, parts, residual=True)
    index = rng.integers(0, pairs.n_observations, 4)
    v = rng.normal(size=rows.rows.shape[1])
    for term in (pairs.take(index), rows.take(index)):
        assert term.segments == pairs.segments
        assert_allclose(term.matvec(v), pairs.matvec(v)[index], atol=1e-12)
        assert_allclose(term.prior_variance(SCALES), pairs.prior_variance(SCALES)[index], rtol=1e-12)
        if pairs.residual is None:
            assert term.residual is None
        else:
            assert_array_equal(term.residual, pairs.residual[index])


@given(seed=seeds)
def test_a_diagonal_block_of_offsets(seed):
    rng, pairs, rows = make(seed, (False, True, False))
    block = DiagonalBlock(rng.exponential(size=pairs.n_items) + 0.1, rng.normal(size=pairs.n_items))
    assert_allclose(pairs.variance(block), rows.variance(block), rtol=1e-12)


@given(seed=seeds)
def test_both_triangles_of_the_pairs_gram(seed):
    rng, pairs, _ = make(seed, (True, True, True))
    gram = pairs.gram(rng.exponential(size=pairs.n_observations))
    assert_allclose(gram, gram.T, atol=1e-12)


@pytest.mark.parametrize("parts", [part for part in PARTS if part[0]])
@pytest.mark.parametrize("residual", [False, True])
@given(seed=seeds)
def test_basis_adjoint_is_the_sum_over_rows_of_maths_section_5(parts, residual, seed):
    rng, pairs, rows = make(seed, parts, residual=residual)
    (p, k), m = rows.rows.shape, pairs.n_basis
    block, e, d, s = draw_block(rng, k), rng.normal(size=p), -rng.exponential(size=p), 0.7
    S = np.linalg.inv(block.precision)
    by_row = np.outer(e, block.mean) + 2.0 * d[:, None] * (rows.rows @ S)
    by_row = by_row[:, :m]
    if residual:
        by_row -= 2.0 * d[:, None] * rows.rows[:, :m] / s
    wanted = np.zeros((pairs.n_items, m))
    np.add.at(wanted, pairs.left, by_row)
    np.add.at(wanted, pairs.right, -by_row)
    assert_allclose(pairs.basis_adjoint(block, e, d, s), wanted, rtol=1e-12, atol=1e-12)


def test_segments_carry_the_scales_of_the_variables():
    term = PairTerm(np.ones((3, 2)), np.array([0]), np.array([1]), 3, offsets=True, order=True)
    assert term.segments == (Segment("f", 2), Segment("offset", 3), Segment("order", 1))
    assert_array_equal(precision_of(term.segments, SCALES), [0.5, 0.5, 2.0, 2.0, 2.0, 3.0])


def test_utility_is_features_plus_offset():
    basis = np.array([[1.0, 0.0], [0.0, 2.0]])
    term = PairTerm(basis, np.array([0]), np.array([1]), 2, offsets=True, order=True)
    v = np.array([1.0, 1.0, 10.0, 20.0, 5.0])
    assert_array_equal(term.utility(v), [11.0, 22.0])
    assert_array_equal(term.matvec(v), [11.0 - 22.0 + 5.0])


@pytest.mark.parametrize("size", [0, -1, 1.5])
def test_a_segment_has_variables(size):
    Segment("f", 1).validate()
    with pytest.raises(DataError, match="size must be a whole number >= 1"):
        Segment("f", size).validate()
