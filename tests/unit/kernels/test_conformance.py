"""Every kernel through the exported kit: values, gradients against central differences, CSR, invariances."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

from skpref.kernels import AdditiveMatern, Columns, Identity, Linear, ProductMatern
from skpref.testing._kernels import check_kernel

ARD = [0.7, 1.5, 2.0]
NU = (0.5, 1.5, 2.5, np.inf)

OURS = [
    *(family(l, nu=nu) for family in (ProductMatern, AdditiveMatern) for l in (1.3, ARD) for nu in NU),
    ProductMatern(ARD, "fixed"),
    ProductMatern([1.3]),
    Linear(1.5),
    Linear([1.0, 2.0, 0.5]),
    Linear(2.0, "fixed"),
    Identity(),
]
SKLEARN = [
    sk.RBF(1.2),
    sk.RBF(ARD),
    *(sk.Matern(l, nu=nu) for l in (1.3, ARD) for nu in (*NU, 0.8, 3.2)),
    sk.RationalQuadratic(1.1, 0.7),
    sk.RationalQuadratic(1.1, 0.7, alpha_bounds="fixed"),
    sk.RationalQuadratic(1.1, 0.7, length_scale_bounds="fixed"),
    sk.ConstantKernel(2.0),
    sk.WhiteKernel(0.4),
    sk.DotProduct(1.4),
]
COMPOSITE = [
    sk.ConstantKernel(2.0) * ProductMatern(ARD) + sk.WhiteKernel(0.3),
    (ProductMatern() + sk.WhiteKernel(0.2)) * (sk.RBF(ARD) + sk.DotProduct(0.3)),
    ProductMatern(ARD) ** 2,
    (Identity() + Linear()) * AdditiveMatern(),
    2.0 * ProductMatern(length_scale_bounds="fixed") + sk.Matern(ARD, nu=2.5) * 0.5,
    sk.Exponentiation(sk.ConstantKernel(2.0) + Linear(), 3),
    Columns(ProductMatern(), [2, 0]),
    Columns(Identity(), [1]),
    Columns(sk.RBF(1.2) + sk.WhiteKernel(0.3), slice(1, None)),
    Columns(sk.RationalQuadratic(1.1, 0.7), [True, False, True]),
    sk.ConstantKernel(2.0) * Columns(AdditiveMatern(), slice(0, 2)) + Columns(Linear(0.4), [2]),
    Columns(Columns(sk.Matern(), [1]), [2, 0]) ** 2,
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kernel", OURS + SKLEARN + COMPOSITE, ids=repr)
def test_kernel(kernel, seed):
    check_kernel(kernel, seed=seed)


@pytest.mark.parametrize("columns", [[4, 0, 3], slice(0, 5, 2), [True, False, False, True, True]], ids=str)
@pytest.mark.parametrize(
    "kernel",
    [ProductMatern(ARD), Linear([1.0, 2.0, 0.5]), sk.RBF(ARD), sk.DotProduct(0.3) * AdditiveMatern(ARD)],
    ids=repr,
)
def test_columns_with_a_hyper_parameter_for_each(kernel, columns):
    rng = np.random.default_rng(3)
    X = np.where(rng.random((9, 5)) < 0.3, 0.0, rng.normal(size=(9, 5)))
    Z = np.vstack([np.where(rng.random((5, 5)) < 0.3, 0.0, rng.normal(size=(5, 5))), X[:2]])
    check_kernel(Columns(kernel, columns), X=X, Z=Z)


def test_unknown_kernels_go_through_their_own_gradient_tensor():
    rng = np.random.default_rng(0)
    # One feature: in more, ExpSineSquared is not positive definite.
    kernel = sk.ExpSineSquared(1.1, 2.0) + sk.WhiteKernel(0.1)
    check_kernel(kernel, X=rng.normal(size=(70, 1)), Z=rng.normal(size=(67, 1)))


def test_subclasses_of_sklearn_kernels_keep_their_own_values():
    class Halved(sk.RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            result = super().__call__(X, Y, eval_gradient)
            return (0.5 * result[0], 0.5 * result[1]) if eval_gradient else 0.5 * result

        def diag(self, X):
            return 0.5 * super().diag(X)

    check_kernel(Halved([1.0, 2.0]))


class Wrong(ProductMatern):
    """Its gradient belongs to another kernel than the one it evaluates."""

    def vjp_at(self, at, G):
        return super().vjp_at(at, G * 1.01)


class Asymmetric(ProductMatern):
    def value_at(self, at):
        K = super().value_at(at)
        return K + 1e-6 * np.triu(K, 1) if K.ndim == 2 else K


@pytest.mark.parametrize(("kernel", "message"), [(Wrong(), "central differences"), (Asymmetric(), "symmetric")])
def test_the_kit_finds_faults(kernel, message):
    with pytest.raises(AssertionError, match=message):
        check_kernel(kernel)
