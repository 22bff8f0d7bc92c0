"""The exact evidence of several functions is the sum of theirs."""

import numpy as np
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skpref.gp.sparse.evidence import GaussianRows, evidence


def test_functions_that_share_a_kernel_add_their_evidence():
    rng = np.random.default_rng(0)
    X, y, weight, scatter = rng.standard_normal((15, 2)), rng.standard_normal((15, 3)), rng.uniform(0.5, 3.0, 15), 2.0
    kernel = ConstantKernel(1.5) * RBF([0.7, 2.0])
    together = evidence(GaussianRows(X, y, weight, 3.0 * scatter), kernel, 0.3)
    apart = [evidence(GaussianRows(X, column, weight, scatter), kernel, 0.3) for column in y.T]
    for total, parts in zip(together, zip(*apart, strict=True), strict=True):
        assert_allclose(total, np.sum(parts, axis=0), rtol=1e-12)


def test_a_sample_has_its_share_of_the_scatter():
    rng = np.random.default_rng(0)
    rows = GaussianRows(rng.standard_normal((20, 2)), np.arange(20.0), np.arange(1.0, 21.0), 6.0)
    some = rows.sample(5, rng)
    assert some.scatter == 1.5
    assert_allclose(some.weight, some.y + 1.0)
    assert rows.sample(20, rng) is rows
