"""Terms of observations that belong to an entity each, against their rows written out."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skpref.inference.blocks import DenseBlock, DiagonalBlock
from skpref.inference.terms.base import RowTerm, Segment
from skpref.inference.terms.entities import EntityTerm

SCALES = {"w": 0.7}
seeds = st.integers(0, 2**32 - 1)


def make(seed, *, features, residual=False):
    """A term of entities and the same term with its rows written out."""
    rng = np.random.default_rng(seed)
    n, m, p = int(rng.integers(1, 8)), int(rng.integers(1, 5)), int(rng.integers(1, 20))
    index = rng.integers(0, n, p)
    basis = rng.normal(size=(n, m)) if features else None
    rest = rng.exponential(size=n) if residual else None
    term = EntityTerm(basis, index, n, "w", rest)
    rows = np.eye(n)[index] if basis is None else basis[index]
    twin = RowTerm(rows, (Segment("w", rows.shape[1]),), None if rest is None else rest[index])
    return SimpleNamespace(rng=rng, term=term, twin=twin, A=rows, n=n, index=index)


def dense(rng, size):
    A = rng.normal(size=(size, size))
    return DenseBlock(A @ A.T + np.eye(size), rng.normal(size=size))


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("residual", [False, True])
@given(seed=seeds)
def test_entities_are_rows_written_out(features, residual, seed):
    case = make(seed, features=features, residual=residual)
    rng, A, (p, k) = case.rng, case.A, case.A.shape
    v, g, weight = rng.normal(size=k), rng.normal(size=p), rng.exponential(size=p)
    assert case.term.segments == (Segment("w", k),)
    assert case.term.n_observations == p
    assert case.term.residual_scale == "w"
    if residual:
        assert_array_equal(case.term.residual, case.twin.residual)
    else:
        assert case.term.residual is None
    assert_allclose(case.term.matvec(v), A @ v, atol=1e-12)
    assert_allclose(case.term.rmatvec(g), A.T @ g, atol=1e-12)
    assert_allclose(case.term.gram(weight), (A.T * weight) @ A, atol=1e-12)
    assert_allclose(case.term.gram_diagonal(weight), weight @ A**2, atol=1e-12)
    assert_allclose(case.term.prior_variance(SCALES), case.twin.prior_variance(SCALES), rtol=1e-12)
    assert_allclose(case.term.sums(g), np.bincount(case.index, g, case.n), atol=1e-12)


@pytest.mark.parametrize("features", [False, True])
@given(seed=seeds, n_factors=st.integers(1, 3))
def test_several_factors_are_one_after_the_other(features, seed, n_factors):
    case = make(seed, features=features)
    p, k = case.A.shape
    v, g = case.rng.normal(size=(n_factors, k)), case.rng.normal(size=(n_factors, p))
    assert_allclose(case.term.matvec(v), v @ case.A.T, atol=1e-12)
    assert_allclose(case.term.rmatvec(g), g @ case.A, atol=1e-12)
    assert_allclose(case.term.sums(g), [np.bincount(case.index, row, case.n) for row in g], atol=1e-12)
    assert_allclose(case.term.gram_diagonal(g**2), g**2 @ case.A**2, atol=1e-12)


@pytest.mark.parametrize("features", [False, True])
@given(seed=seeds)
def test_variances_of_dense_and_diagonal_blocks(features, seed):
    case = make(seed, features=features, residual=features)
    size = case.A.shape[1]
    diagonal = DiagonalBlock(case.rng.exponential(size=size) + 0.1, case.rng.normal(size=size))
    for block in (diagonal, dense(case.rng, size)):
        S = block.solve(np.eye(size)) if isinstance(block, DenseBlock) else np.diag(block.covariance_diagonal)
        wanted = np.einsum("ij,jk,ik->i", case.A, S, case.A)
        assert_allclose(case.term.variance(block), wanted, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("residual", [False, True])
@given(seed=seeds)
def test_basis_adjoint_is_the_sum_over_observations(residual, seed):
    case = make(seed, features=True, residual=residual)
    (p, k), s = case.A.shape, 0.7
    block, e, d = dense(case.rng, k), case.rng.normal(size=p), -case.rng.exponential(size=p)
    by_row = np.outer(e, block.mean) + 2.0 * d[:, None] * block.solve(case.A.T.copy()).T
    if residual:
        by_row -= 2.0 * d[:, None] * case.A / s
    wanted = np.zeros((case.n, k))
    np.add.at(wanted, case.index, by_row)
    assert_allclose(case.term.basis_adjoint(block, e, d, s), wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("features", [False, True])
@given(seed=seeds)
def test_a_mini_batch_has_the_rows_of_its_observations(features, seed):
    case = make(seed, features=features, residual=features)
    some = case.rng.integers(0, case.A.shape[0], 4)
    v = case.rng.normal(size=case.A.shape[1])
    part = case.term.take(some)
    assert part.segments == case.term.segments
    assert part.n_observations == 4
    assert_allclose(part.matvec(v), (case.A @ v)[some], atol=1e-12)
    assert_allclose(part.prior_variance(SCALES), case.term.prior_variance(SCALES)[some], rtol=1e-12)


@given(seed=seeds)
def test_variables_can_be_reduced_to_the_members_of_a_mini_batch(seed):
    case = make(seed, features=False)
    some = case.rng.integers(0, case.index.size, 4)
    members = np.unique(case.index[some])
    part, v = case.term.take(some, members), case.rng.normal(size=case.n)
    assert part.segments == (Segment("w", members.size),)
    assert_array_equal(part.matvec(v[members]), case.term.matvec(v)[some])
    g = case.rng.normal(size=4)
    assert_array_equal(part.rmatvec(g), case.term.take(some).rmatvec(g)[members])
