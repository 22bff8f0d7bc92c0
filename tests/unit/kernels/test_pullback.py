"""Kernel values with the way back: equal to the other functions of this package, and to differences in the points."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, RationalQuadratic, WhiteKernel

from skpref import kernels

RNG = np.random.default_rng(5)
X, Z, G = RNG.standard_normal((40, 3)), RNG.standard_normal((7, 3)), RNG.standard_normal((40, 7))
KNOWN = [
    RBF(1.3),
    RBF([0.7, 1.1, 2.0]),
    ConstantKernel(1.7) * RBF([0.7, 1.1, 2.0]),
    RBF([0.7, 1.1, 2.0]) * ConstantKernel(0.4, "fixed"),
    ConstantKernel(2.0) * ConstantKernel(0.5),
    Matern([0.9, 1.2, 2.0], nu=0.5),
    Matern(1.2, nu=1.5),
    Matern([0.9, 1.2, 2.0], nu=2.5),
    Matern(1.2, nu=np.inf),
    RBF(1.5, "fixed") * Matern(2.0, nu=1.5),
    ConstantKernel(0.3) * (RBF(1.0) + ConstantKernel(0.2) * Matern([1.0, 2.0, 3.0], nu=1.5)),
    kernels.Linear(0.7) * RBF(1.0),
    kernels.Linear([0.7, 1.2, 0.1], origin=[0.3, -1.0, 2.0]) + RBF(1.0),
    Matern(1.2, nu=1.5) + ConstantKernel(0.3) * kernels.Linear([0.7, 1.2, 0.1], "fixed"),
]
OTHERS = [RBF(1.0) + DotProduct(0.4), RationalQuadratic(), RBF(1.0) + WhiteKernel(0.1), kernels.ProductMatern(2.0)]


@pytest.mark.parametrize("kernel", KNOWN + OTHERS, ids=str)
def test_values_and_hyperparameters_are_those_of_the_other_functions(kernel):
    K, pull = kernels.cross_pullback(kernel, X, Z)
    assert_allclose(K, kernels.cross(kernel, X, Z), rtol=1e-13)
    theta, points = pull(G.copy())
    assert_allclose(theta, kernels.cross_vjp(kernel, X, Z, G), rtol=1e-9, atol=1e-12)
    assert (points is None) == (kernel in OTHERS)
    assert kernels.moves_points(kernel, Z) == (kernel not in OTHERS)


@pytest.mark.parametrize("kernel", KNOWN, ids=str)
def test_gradient_in_the_points_is_that_of_differences(kernel):
    _, points = kernels.cross_pullback(kernel, X, Z)[1](G.copy())
    wanted, step = np.empty_like(Z), 1e-3
    for place in np.ndindex(Z.shape):
        total = 0.0
        for shift, weight in ((2, -1.0), (1, 8.0), (-1, -8.0), (-2, 1.0)):
            moved = Z.copy()
            moved[place] += shift * step
            total += weight * np.sum(G * kernels.cross(kernel, X, moved))
        wanted[place] = total / (12.0 * step)
    assert_allclose(points, wanted, rtol=1e-7, atol=1e-8)


def test_far_from_the_origin_the_gradients_keep_their_digits():
    kernel = RBF([0.7, 1.1, 2.0])
    near, far = (kernels.cross_pullback(kernel, X + shift, Z + shift)[1](G.copy()) for shift in (0.0, 1e6))
    for a, b in zip(near, far, strict=True):
        assert_allclose(a, b, rtol=1e-6, atol=1e-8)


def test_equal_points_have_a_finite_gradient():
    for nu in (0.5, 1.5, 2.5):
        theta, points = kernels.cross_pullback(Matern(1.0, nu=nu), Z, Z)[1](np.ones((7, 7)))
        assert np.all(np.isfinite(theta))
        assert np.all(np.isfinite(points))


def test_sparse_rows_have_hyperparameters_alone():
    kernel = ConstantKernel(2.0) * RBF(1.3)
    K, pull = kernels.cross_pullback(kernel, sparse.csr_array(X), sparse.csr_array(Z))
    theta, points = pull(G.copy())
    assert_allclose(K, kernels.cross(kernel, X, Z), rtol=1e-12)
    assert_allclose(theta, kernels.cross_vjp(kernel, X, Z, G), rtol=1e-9)
    assert points is None
