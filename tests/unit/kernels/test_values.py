"""Values: against scikit-learn, at the extremes, and under the invariances of the models."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

from skpref import kernels
from skpref.exceptions import DataError
from skpref.kernels import AdditiveMatern, Identity, Linear, ProductMatern

NU = (0.5, 1.5, 2.5, np.inf)
FAMILIES = (ProductMatern, AdditiveMatern)


@pytest.mark.parametrize("nu", NU)
@pytest.mark.parametrize("family", FAMILIES)
def test_one_feature_equals_sklearns_matern(family, nu):
    X, Z = np.random.default_rng(0).normal(size=(2, 20, 1))
    np.testing.assert_allclose(family(0.7, nu=nu)(X, Z), sk.Matern(0.7, nu=nu)(X, Z), rtol=1e-12)


def test_infinite_nu_equals_sklearns_rbf():
    X, Z = np.random.default_rng(0).normal(size=(2, 20, 5))
    l = [0.5, 1.0, 2.0, 3.0, 4.0]
    np.testing.assert_allclose(ProductMatern(l, nu=np.inf)(X, Z), sk.RBF(l)(X, Z), rtol=1e-12)


@pytest.mark.parametrize("nu", NU)
def test_product_and_mean_of_one_dimensional_kernels(nu):
    X, Z = np.random.default_rng(0).normal(size=(2, 8, 3))
    l = [0.5, 1.0, 2.0]
    single = np.array([sk.Matern(l[f], nu=nu)(X[:, [f]], Z[:, [f]]) for f in range(3)])
    np.testing.assert_allclose(ProductMatern(l, nu=nu)(X, Z), single.prod(axis=0), rtol=1e-12)
    np.testing.assert_allclose(AdditiveMatern(l, nu=nu)(X, Z), single.mean(axis=0), rtol=1e-12)


def log_product(X, Z, l, nu):
    """Log of the product kernel, in long double."""
    r = np.abs(X[:, None].astype(np.longdouble) - Z[None]) / l
    r *= 1.0 if nu == np.inf else np.sqrt(np.longdouble(2 * nu))
    polynomial = {0.5: 0 * r, 1.5: r, 2.5: r + r * r / 3, np.inf: 0 * r}[nu]
    return np.sum(np.log1p(polynomial) - (r * r / 2 if nu == np.inf else r), axis=-1)


@pytest.mark.parametrize("nu", NU)
@pytest.mark.parametrize("l", [1e-5, 0.02, 1.0, 30.0, 200.0, 1e5])
@pytest.mark.parametrize("d", [1, 50, 5000])
def test_any_length_scale_and_many_features(nu, l, d):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(4, d))
    Z = np.vstack([X[:2], X[:2] + 1e-3 * l * rng.normal(size=(2, d)), rng.normal(size=(2, d))])
    want = np.exp(log_product(X, Z, l, nu)).astype(np.float64)
    want[want < 1e-300] = 0.0
    for got in (
        kernels.cross(ProductMatern(l, nu=nu), X, Z),
        kernels.cross(ProductMatern(l, nu=nu), sparse.csr_array(X), sparse.csr_array(Z)),
    ):
        np.testing.assert_allclose(np.where(got < 1e-300, 0.0, got), want, rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(kernels.cross(ProductMatern(l, nu=nu), X, Z)[[0, 1], [0, 1]], 1.0)
    G = rng.normal(size=(4, 6))
    dense = kernels.cross_vjp(ProductMatern(np.full(d, l), nu=nu), X, Z, G) if d > 1 else np.zeros(1)
    assert np.isfinite(dense).all()
    np.testing.assert_allclose(kernels.paired(ProductMatern(l, nu=nu), X, Z[:4]), np.diagonal(want[:, :4]), atol=1e-13)


@pytest.mark.parametrize("nu", NU)
def test_a_product_whose_exponential_alone_would_underflow(nu):
    # 400 features with r = 2: exp(-800) is 0 in double precision, (1 + r)^400 exp(-800) is 1e-157.
    d = 400
    c = 1.0 if nu == np.inf else np.sqrt(2 * nu)
    X, Z = np.zeros((1, d)), np.full((1, d), 2.0 / c)
    want = np.exp(log_product(X, Z, 1.0, nu)).astype(np.float64)
    got = kernels.cross(ProductMatern(nu=nu), X, Z)
    np.testing.assert_allclose(got, np.where(want < 1e-307, 0.0, want), rtol=1e-12)


def test_overflowing_differences_give_zero_and_nan_stays_visible():
    kernel = ProductMatern(1e-5)
    assert kernel([[1e308]], [[-1e308]]) == 0.0
    assert kernels.cross_vjp(kernel, [[1e308]], [[-1e308]], np.ones((1, 1))) == 0.0
    assert np.isnan(kernel([[np.nan]], [[0.0]]))


@pytest.mark.parametrize("l", [1e-5, 1e-2, 1.0])
@pytest.mark.parametrize("nu", NU)
def test_csr_gradients_survive_short_length_scales(l, nu):
    rng = np.random.default_rng(4)
    X = np.where(rng.random((12, 30)) < 0.8, 0.0, rng.normal(size=(12, 30)))
    Z = np.vstack([X[:5], X[:5] + (X[:5] != 0.0) * l * rng.normal(size=(5, 30))])
    G = rng.normal(size=(12, 10))
    for family in FAMILIES:
        kernel = family(np.full(30, l), nu=nu)
        want = kernels.cross_vjp(kernel, X, Z, G)
        got = kernels.cross_vjp(kernel, sparse.csr_array(X), sparse.csr_array(Z), G)
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-11)


def test_csr_in_any_state():
    # Duplicates, unsorted indices, explicit zeros, 64-bit indices, and dense on one side only.
    data, row, col = [1.0, 2.0, 0.5, 0.0, 3.0], [0, 0, 0, 1, 1], [2, 0, 2, 1, 2]
    messy = sparse.csr_array((data, np.array(col, dtype=np.int64), np.array([0, 3, 5], dtype=np.int64)), shape=(2, 4))
    X = sparse.coo_array((data, (row, col)), shape=(2, 4)).toarray()
    before = messy.data.copy()
    for kernel in (ProductMatern([1.0, 2.0, 3.0, 4.0]), AdditiveMatern(), Linear(), Identity()):
        want = kernels.gram(kernel, X)
        np.testing.assert_allclose(kernels.gram(kernel, messy), want, rtol=1e-12)
        np.testing.assert_allclose(kernels.cross(kernel, messy, X), want, rtol=1e-12)
        np.testing.assert_allclose(kernels.cross(kernel, X, sparse.csr_matrix(X)), want, rtol=1e-12)
    np.testing.assert_array_equal(messy.data, before)


@given(seed=st.integers(0, 2**32 - 1), nu=st.sampled_from(NU), family=st.sampled_from(FAMILIES))
def test_invariances(seed, nu, family):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    l = rng.uniform(0.5, 2.0, 3)
    K = family(l, nu=nu)(X, Z)
    columns = rng.permutation(3)
    np.testing.assert_allclose(family(l[columns], nu=nu)(X[:, columns], Z[:, columns]), K, rtol=1e-12)
    np.testing.assert_allclose(family(l, nu=nu)(X + 3.0, Z + 3.0), K, rtol=1e-11)
    np.testing.assert_allclose(family(7.0 * l, nu=nu)(7.0 * X, 7.0 * Z), K, rtol=1e-12)
    np.testing.assert_allclose(family(l, nu=nu)(Z, X), K.T, rtol=1e-14)
    padded = family(np.r_[l, 0.3], nu=nu)(np.c_[X, np.full(6, 4.0)], np.c_[Z, np.full(5, 4.0)])
    want = K if family is ProductMatern else (3.0 * K + 1.0) / 4.0
    np.testing.assert_allclose(padded, want, rtol=1e-12)
    assert np.linalg.eigvalsh(family(l, nu=nu)(X))[0] > -1e-12


@pytest.mark.parametrize("name", ["matern32_product", "rbf"])
def test_reference_kernel_matrices(shared, name):
    config = json.loads((shared / "reference" / "gppl_probit" / f"{name}_n4_p6.json").read_text())["config"]
    X, l = np.array(config["X"]), np.array(config["lengthscales"])
    nu = 1.5 if name.startswith("matern") else np.inf
    np.testing.assert_allclose(ProductMatern(l, nu=nu)(X), np.exp(log_product(X, X, l, nu)).astype(float), rtol=1e-13)


def test_linear_is_a_weighted_inner_product():
    X = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(Linear([1.0, 2.0, 0.5])(X), (X * [1.0, 2.0, 0.5]) @ X.T, rtol=1e-12)
    np.testing.assert_allclose(Linear(2.0)(X) + 9.0, 2.0 * sk.DotProduct(np.sqrt(4.5))(X), rtol=1e-12)
    assert not Linear().is_stationary()


def test_identity_knows_rows_again():
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, 0.0]])
    np.testing.assert_array_equal(Identity()(X), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(kernels.cross(Identity(), sparse.csr_array(X), X[[2, 0]]), [[0, 1], [0, 1], [1, 0]])
    np.testing.assert_array_equal(kernels.paired(Identity(), X, X[::-1]), [0, 1, 0])


def test_white_noise_belongs_to_a_row():
    X, kernel = np.zeros((3, 1)), sk.WhiteKernel(0.5)
    np.testing.assert_array_equal(kernels.cross(kernel, X, X), np.zeros((3, 3)))
    np.testing.assert_array_equal(kernels.gram(kernel, X), 0.5 * np.eye(3))
    np.testing.assert_array_equal(kernels.diagonal(kernel, X), np.full(3, 0.5))
    np.testing.assert_array_equal(kernels.paired(kernel, X, X), np.zeros(3))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("length_scale", [1.0, [1.0, 1.0]])
def test_gaussian_process_regressor_learns_length_scales(family, length_scale):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(40, 2))
    y = np.sin(2.0 * X[:, 0])  # the second feature is idle
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the idle feature's length-scale runs to its bound
        model = GaussianProcessRegressor(family(length_scale, (1e-2, 1e3)), alpha=1e-4, random_state=0).fit(X, y)
    before = GaussianProcessRegressor(family(length_scale, "fixed"), alpha=1e-4).fit(X, y)
    assert model.log_marginal_likelihood_value_ > before.log_marginal_likelihood_value_ + 1.0
    if np.iterable(length_scale):
        assert model.kernel_.length_scale[1] > 3.0 * model.kernel_.length_scale[0]


def test_sklearn_manners():
    kernel = ProductMatern([1.0, 2.0], nu=2.5)
    assert repr(kernel) == "ProductMatern(length_scale=[1, 2], nu=2.5)"
    assert (repr(Linear()), repr(Identity())) == ("Linear(variance=1)", "Identity()")
    assert kernel.anisotropic
    assert not ProductMatern().anisotropic
    assert kernel.requires_vector_input
    assert kernel.is_stationary()
    assert clone(kernel) == kernel
    assert kernel != ProductMatern([1.0, 3.0], nu=2.5)
    np.testing.assert_allclose(kernel.clone_with_theta(np.log([3.0, 4.0])).length_scale, [3.0, 4.0])
    assert isinstance(2.0 * kernel + Identity(), sk.Sum)
    assert Identity().theta.shape == (0,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ProductMatern(nu=1.0)([[0.0]]), "nu: got 1.0"),
        (lambda: ProductMatern([1.0, 2.0])([[0.0]]), r"length_scale: got shape \(2,\) for 1 features"),
        (lambda: ProductMatern(0.0)([[0.0]]), "length_scale: got 0"),
        (lambda: Linear([1.0, 2.0])([[0.0]]), r"variance: got shape \(2,\)"),
        (lambda: kernels.cross(sk.RBF([1.0, 2.0]), [[0.0]], [[0.0]]), "length_scale: got shape"),
        (lambda: ProductMatern()([[0.0]], [[0.0]], eval_gradient=True), "eval_gradient: got True"),
        (lambda: Linear()([[0.0]], [[0.0]], eval_gradient=True), "eval_gradient: got True"),
        (lambda: Identity()([[0.0]], [[0.0]], eval_gradient=True), "eval_gradient: got True"),
        (lambda: kernels.cross(ProductMatern(), [[0.0]], [[0.0, 1.0]]), "got 1 and 2 features"),
        (lambda: kernels.paired(ProductMatern(), [[0.0]], [[0.0], [1.0]]), "got 1 and 2 rows"),
        (lambda: kernels.gram_vjp(ProductMatern(), [[0.0]], np.ones(1)), r"G: got shape \(1,\)"),
        (lambda: kernels.gram(sk.CompoundKernel([sk.RBF(), sk.RBF()]), [[0.0]]), "CompoundKernel"),
    ],
)
def test_errors_name_parameter_got_and_wanted(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("kernel", [ProductMatern(), Linear(), sk.RBF()])
def test_a_damaged_matrix_is_refused(kernel):
    X = np.random.default_rng(0).normal(size=(6, 3))
    damaged = sparse.csr_array(X)
    damaged.indices[4] = -(10**9)
    calls = [
        lambda: kernels.cross(kernel, X, damaged),
        lambda: kernels.gram(kernel, damaged),
        lambda: kernels.diagonal(kernel, damaged),
        lambda: kernels.paired(kernel, damaged, X),
        lambda: kernels.gram_vjp(kernel, damaged, np.ones((6, 6))),
    ]
    calls += [lambda: kernel(damaged), lambda: kernel(X, damaged)] if not isinstance(kernel, sk.RBF) else []
    for call in calls:
        with pytest.raises(DataError, match="X is a damaged CSR matrix: indices holds -1000000000 at place 4"):
            call()


@pytest.mark.parametrize("nu", [0.5, 1.0, 1.5, 2.5, np.inf])
def test_rows_that_are_too_far_for_floats_have_no_covariance(nu):
    kernel, near, far = sk.Matern([1.0, 2.0], nu=nu), np.ones((1, 2)), np.full((1, 2), 1e300)
    with np.errstate(over="ignore"):
        assert kernels.cross(kernel, far, near).item() == 0.0
