"""Features halfway to their ranks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skpref import load, save
from skpref.gp.default_kernels import warp
from skpref.gp.ordinal import GPOrdinalRegressor
from skpref.kernels import Columns, Linear, Warped, cross, cross_pullback, moves_points
from skpref.testing import check_kernel

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=60), np.exp(2.0 * RNG.normal(size=60)), RNG.integers(0, 2, 60)])
KNOTS, LEVELS = [[-1.0, 0.0, 2.0], [0.0, 1.0, 50.0]], [[-2.0, 0.0, 1.0], [0.0, 25.0, 50.0]]


def warped(kernel, columns=(1, 2)):
    return Warped(kernel, list(columns), np.array(KNOTS), np.array(LEVELS))


@pytest.mark.parametrize("kernel", [RBF([1.0, 2.0, 0.5]), 2.0 * Matern(nu=2.5) + Linear()], ids=repr)
def test_it_conforms(kernel):
    check_kernel(warped(kernel))


def test_rows_are_halfway_and_go_on_beyond_the_knots():
    kernel = warped(RBF(), (0, 1))
    rows = np.array([[-3.0, 0.5, 7.0], [1.0, 100.0, 0.0]])
    assert kernel.map_rows(rows).tolist() == [[-2.5, 6.5, 7.0], [0.75, 75.0, 0.0]]
    assert_allclose(kernel.map_rows(sparse.csr_array(rows)), kernel.map_rows(rows))
    assert rows[0, 0] == -3.0  # the input stays
    assert not kernel.is_stationary()
    assert kernel == clone(kernel)
    assert kernel != warped(RBF(), (0, 2))
    assert kernel != Columns(RBF(), [0, 1])
    assert repr(kernel) == "Warped(RBF(length_scale=1), 2 columns)"


def test_slopes_are_those_of_the_rows():
    kernel, rows = warped(RBF(), (0, 1)), RNG.normal(size=(40, 3)) * [1.5, 40.0, 1.0]
    step = 1e-6
    moved = [kernel.map_rows(rows + sign * step) for sign in (1.0, -1.0)]
    assert_allclose(kernel.slopes(rows), (moved[0] - moved[1]) / (2.0 * step), rtol=1e-6)


def test_gradients_in_points_and_hyperparameters():
    kernel = ConstantKernel(2.0) * warped(Matern([1.0, 2.0, 0.5], nu=2.5), (0, 1))
    rows, points = RNG.normal(size=(7, 3)), RNG.normal(size=(4, 3))
    assert moves_points(kernel, points)
    G = RNG.normal(size=(7, 4))
    K, pull = cross_pullback(kernel, rows, points)
    assert_allclose(K, kernel(rows, points))
    by_theta, by_points = pull(G)

    def change(theta, Z, step=1e-6):
        moved = [(kernel.clone_with_theta(kernel.theta + h * theta), points + h * Z) for h in (step, -step)]
        ends = [np.sum(G * cross(at, rows, there)) for at, there in moved]
        return (ends[0] - ends[1]) / (2.0 * step)

    still, here = np.zeros(kernel.theta.size), np.zeros(points.shape)
    assert_allclose(by_theta, [change(unit, here) for unit in np.eye(still.size)], rtol=1e-6, atol=1e-8)
    units = np.eye(points.size).reshape(-1, *points.shape)
    assert_allclose(by_points.ravel(), [change(still, unit) for unit in units], rtol=1e-6, atol=1e-8)


def test_ranks_of_features_with_many_values_in_their_units():
    kernel = warp(X)
    assert kernel.columns == [0, 1]
    rows = kernel.map_rows(X)
    assert_allclose(rows[:, 2], X[:, 2])
    order = np.argsort(X[:, 1])
    assert (np.diff(rows[order, 1]) > 0.0).all()
    ranks = np.argsort(order)
    uniform = X[:, 1].mean() + X[:, 1].std() * np.sqrt(12.0) * ((ranks + 0.5) / 60 - 0.5)
    # 33 knots for 60 values: between two of them there is at most one value.
    assert np.abs(2.0 * rows[:, 1] - X[:, 1] - uniform).max() < X[:, 1].std() * np.sqrt(12.0) * 1.5 / 60
    assert warp(X[:, 2:]) is None
    assert warp(sparse.csr_array(X)) is None


def test_a_file_of_one_is_checked(tmp_path):
    model = GPOrdinalRegressor(kernel=warped(RBF(1.0), (0, 1)), optimizer=None).fit(X, np.arange(60) % 3)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.kernel_ == model.kernel_
    model.kernel_.knots = np.array(KNOTS)[:, ::-1]
    with pytest.raises(ValueError, match=r"knots must ascend in each row"):
        save(model, tmp_path / "broken")
    model.kernel_.knots, model.kernel_.columns = np.array(KNOTS), [0, 3]
    with pytest.raises(ValueError, match="got column 3 for 3 features"):
        save(model, tmp_path / "broken")
