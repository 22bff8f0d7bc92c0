"""Scales of features and what follows from them: starts and bounds of the default kernels, limits of a linear one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, Matern

from skpref.exceptions import DataError
from skpref.gp import default_kernels as defaults

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) * [1.0, 10.0, 0.1]
both = pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])


@both
def test_standard_deviations(convert):
    rows = convert(np.column_stack([X, np.full(40, 0.1), np.zeros(40)]))
    wanted = [*X.std(axis=0), 0.0, 0.0]
    assert_allclose(defaults.standard_deviations(rows), wanted, rtol=1e-9)
    assert_array_equal(defaults.standard_deviations(rows)[3:], 0.0)
    assert_allclose(defaults.deviations(rows), [*X.std(axis=0), 1.0, 1.0], rtol=1e-9)
    assert_allclose(defaults.deviations(convert(np.full((5, 2), -7.0))), 7.0)
    far = 1e6 + RNG.normal(size=(500, 2)) * [1.0, 1e-2]
    far[:3, 1] = 0.0
    assert_allclose(defaults.standard_deviations(convert(far)), far.std(axis=0), rtol=1e-8)
    assert_array_equal(defaults.standard_deviations(convert(np.full((500, 1), 1e6 + 0.1))), 0.0)


@both
@pytest.mark.parametrize(("size", "allowed"), [(1e150, True), (1.1e150, False)])
def test_numbers_whose_squares_leave_float64_are_refused(convert, size, allowed):
    rows = convert(np.array([[size, 1.0], [-size, 2.0]]))
    if allowed:
        assert defaults.standard_deviations(rows)[0] == pytest.approx(size)
        return
    with pytest.raises(DataError, match="squares overflow or underflow"):
        defaults.standard_deviations(rows)


@both
def test_features_of_two_values_have_their_distance(convert):
    rows = convert(np.column_stack([np.arange(40) < 3, 2.0 * (np.arange(40) < 3) - 1.0, X[:, 0]]))
    scale = defaults.feature_scales(rows)
    assert_allclose(scale[[0, 2]], [0.5**0.5, X[:, 0].std()], rtol=1e-9)
    if convert is np.asarray:
        assert scale[1] == pytest.approx(2.0**0.5)
    three = np.arange(40) % 3.0
    assert defaults.feature_scales(convert(three[:, None]))[0] == pytest.approx(three.std())


@pytest.mark.parametrize(("nu", "kind"), [(np.inf, RBF), (0.5, Matern), (1.5, Matern)])
def test_stationary_kernels_start_at_root_d_deviations(nu, kind):
    scale = np.array([1.0, 4.0])
    kernel = defaults.stationary(nu, scale)
    assert type(kernel) is kind
    assert_allclose(kernel.length_scale, np.exp(0.5) * np.sqrt(2.0) * scale)
    assert_allclose(np.exp(kernel.bounds), kernel.length_scale[:, None] * [1e-2, 1e3])
    assert getattr(kernel, "nu", np.inf) == nu


def test_linear_kernels_have_a_variance_in_all():
    scale = np.array([1.0, 4.0, 0.5])
    kernel = defaults.linear(scale, 0.3)
    assert_allclose(kernel.variance * scale**2, 0.1)
    assert_allclose(np.exp(kernel.bounds), kernel.variance[:, None] * [1e-6, 1e3])
    assert_allclose(defaults.linear(np.array([1.0, 1e-150]), 1.0).variance[1], 5e299)
    with pytest.raises(DataError, match="squares overflow or underflow"):
        defaults.linear(np.array([1.0, 0.9e-150]), 1.0)


@both
def test_named_kernels(convert):
    rng = np.random.default_rng(0)
    rows = convert(X)
    assert_allclose(defaults.named_kernel("ard", rows, rng).length_scale, np.exp(0.5) * np.sqrt(3.0) * X.std(axis=0))
    shared = defaults.named_kernel("linear", rows, rng)
    assert shared.k1.constant_value == 1.0
    assert_allclose(
        np.exp(shared.bounds), [[1e-6, 1e3]]
    )  # the variances of the features stay as they are to each other
    assert_allclose(shared.k2.variance, 1.0 / (3.0 * X.var(axis=0)))
    each = defaults.named_kernel("linear-ard", rows, rng)
    assert each.n_dims == 3
    assert_allclose(each.variance, shared.k2.variance)
    plain = defaults.named_kernel("auto", rows, np.random.default_rng(1))
    assert plain == defaults.default_kernel(X, np.random.default_rng(1))
    assert_allclose(plain.length_scale_bounds, plain.length_scale * np.array([1e-2, 1e3]))


@both
def test_the_default_length_scale_is_the_median_distance(convert):
    distances = np.linalg.norm(X[:, None] - X[None], axis=-1)[np.triu_indices(40, 1)]
    got = defaults.default_kernel(convert(X), np.random.default_rng(0)).length_scale
    assert 0.5 * np.median(distances) < got < 2.0 * np.median(distances)


@both
def test_features_are_far_from_0_beyond_a_hundred_thousand_deviations(convert):
    column = np.tile([-1.0, 1.0], 10)
    rows = convert(np.column_stack([column + 0.99e5, column + 1.01e5, column - 1.01e5]))
    assert defaults.far_from_zero(rows, np.ones(3)).tolist() == [False, True, True]
    assert defaults.far_from_zero(rows, np.full(3, 2.0)).tolist() == [False, False, False]


def test_parameters_of_kernels_in_full_precision():
    assert defaults.kernel_parameters(None) is None
    kernel = RBF([1.0, 2.0]) + Matern(1.0 / 3.0, nu=1.5)
    name, *parameters = defaults.kernel_parameters(kernel)
    assert name == "Sum"
    assert dict(parameters)["k2__length_scale"] == 1.0 / 3.0
    assert dict(parameters)["k1__length_scale"] == [1.0, 2.0]
    assert dict(parameters)["k1"][0] == "RBF"


@both
def test_rows_apart(convert):
    rare, often, half = np.repeat([0.0, 1.0], [37, 3]), np.repeat([2.0, 0.0], [38, 2]), np.repeat([0.0, 1.0], 20)
    rows = convert(np.column_stack([X, rare, often, half, np.zeros(40)]))
    assert_array_equal(defaults.rows_apart(rows)[[0, 1, 2, 3, 4, 6]], [40, 40, 40, 3, 2, 0])
    assert defaults.rows_apart(rows)[5] >= 20
