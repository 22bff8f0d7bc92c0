"""Every kernel through the exported kit: values, gradients against central differences, CSR, invariances."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process import kernels as sk

from skpref import kernels
from skpref.kernels import AdditiveMatern, Columns, Identity, Linear, ProductMatern
from skpref.testing import _kernels
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
    Linear([1.0, 2.0, 0.5], origin=[3.0, -1.0, 0.2]),
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


@pytest.mark.parametrize("kernel", OURS + SKLEARN + COMPOSITE, ids=repr)
def test_kernel(kernel):
    check_kernel(kernel)


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


def only_csr(value, *at):
    return value * (1.0 + 1e-9 * any(sparse.issparse(a) for a in at))


def only_far(value, X, *_):
    return value * (1.0 + 1e-7 * (not sparse.issparse(X) and X.max() > 2.5))


@pytest.mark.parametrize(
    ("function", "change", "message"),
    [
        ("gram", lambda K, *_: K * 1.000001, "gram differs from kernel"),
        ("gram", lambda K, *_: K - np.eye(len(K)), "gram differs|negative eigenvalue"),
        ("diagonal", lambda k, *_: k * 1.000001, "diagonal differs"),
        ("cross", lambda K, *_: K * 1.000001, "cross differs"),
        ("paired", lambda k, *_: k * 1.000001, "paired differs"),
        ("cross", only_csr, "CSR features change cross"),
        (
            "cross",
            lambda K, *_: K + 1e-9 * np.arange(K.shape[0])[:, None] * (K.shape != (7, 7)),
            "cross differs|permuted",
        ),
        ("cross", only_far, "translation"),
        *(
            (f"{layout}_vjp", change, message)
            for layout in ("cross", "gram", "diagonal", "paired")
            for change, message in (
                (lambda g, *_: g * 1.0001, f"{layout}_vjp differs from central"),
                (only_csr, f"CSR features change {layout}_vjp"),
                (lambda g, *_: np.append(g, [1.0] * (not g.size)), f"fixed hyperparameters are in {layout}_vjp"),
            )
        ),
    ],
)
def test_the_kit_looks_at_every_function(function, change, message, monkeypatch):
    exact = getattr(kernels, function)
    monkeypatch.setattr(kernels, function, lambda kernel, *at: change(exact(kernel, *at), *at))
    with pytest.raises(AssertionError, match=message):
        check_kernel(2.0 * ProductMatern([1.0, 2.0]))  # its diagonal depends on a hyperparameter


def test_the_kit_compares_with_the_gradient_tensor_and_the_interface():
    class WrongTensor(ProductMatern):
        def __call__(self, X, Y=None, eval_gradient=False):
            result = super().__call__(X, Y, eval_gradient)
            return (result[0], 1.01 * result[1]) if eval_gradient else result

    class WrongDiagonal(ProductMatern):
        def diag(self, X):
            return 1.01 * super().diag(X)

    class NoClone(ProductMatern):
        def clone_with_theta(self, theta):
            return super().clone_with_theta(theta + 1.0)

    for kernel, message in (
        (WrongTensor(), "differs from kernel.Z, eval_gradient"),
        (WrongDiagonal(), "diagonal differs"),
        (NoClone(), "changes theta"),
    ):
        with pytest.raises(AssertionError, match=message):
            check_kernel(kernel)


def test_rows_of_the_kit_have_zeros_and_fit_the_kernel():
    rng = np.random.default_rng(0)
    assert [_kernels._n_features(kernel) for kernel in (ProductMatern(), ProductMatern([1.0] * 5))] == [3, 5]
    rows = _kernels._rows(rng, 400, 5)
    assert 0.2 < np.mean(rows == 0.0) < 0.4
    X, Z = rows[:9], rows[5:12]
    layouts = _kernels._layouts(X, Z, rng)
    assert {name: tuple(a.shape for a in at) for name, at in layouts.items()} == {
        "cross": ((9, 5), (7, 5)),
        "gram": ((7, 5),),
        "diagonal": ((9, 5),),
        "paired": ((9, 5), (9, 5)),
    }


def test_an_origin_has_one_number_per_feature():
    with pytest.raises(ValueError, match=r"origin: got shape \(2,\) for 3 features"):
        Linear(origin=[1.0, 2.0])(np.ones((2, 3)))
