"""Relevance of features under the prior: two rows by hand, and how many rows are looked at."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from skpref.gp import relevance
from skpref.kernels import Linear

TWO = np.array([[0.0, 1.0, 2.0], [1.5, 1.0, -2.0]])


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_of_two_rows_each_gets_a_feature_of_the_other(container):
    X, apart = container(TWO), np.array([1.5, 0.0, 4.0])
    scales = np.array([1.0, 2.0, 5.0])
    got = relevance.prior_relevance(ConstantKernel(3.0) * RBF(scales), X)
    assert_allclose(got, 3.0 * (1.0 - np.exp(-0.5 * (apart / scales) ** 2)), atol=1e-12)
    # With k(x, x') = x^T x' half the mean square of f(x) - f(x') is half the square of the change.
    assert_allclose(relevance.prior_relevance(DotProduct(0.5), X), 0.5 * apart**2)
    variance = np.array([2.0, 1.0, 0.5])
    assert_allclose(relevance.prior_relevance(Linear(variance), X), variance * (apart / 2.0) ** 2)
    assert_allclose(relevance.prior_relevance(RBF(1.0), X[:1]), 0.0)


@pytest.mark.parametrize(
    ("n", "d", "size"), [(3000, 2, 1024), (1000, 2, 1000), (3000, 500, 800), (3000, 3000, 22), (3000, 6000, 16)]
)
def test_fewer_rows_are_looked_at_where_features_are_many(monkeypatch, n, d, size):
    sizes = set()
    monkeypatch.setattr(
        relevance.kernels, "paired", lambda _, rows, other: sizes.add(len(rows)) or np.zeros(len(other))
    )
    assert_allclose(relevance.prior_relevance(RBF(1.0), sparse.csr_array((n, d))), np.zeros(d))
    assert sizes == {size}
