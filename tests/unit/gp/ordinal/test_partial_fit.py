"""`GPOrdinalRegressor.partial_fit`: parts of the data, one after the other."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, CompoundKernel

from skpref import GPOrdinalRegressor
from skpref.exceptions import DataError
from skpref.gp.posterior import SparseLatent
from tests.unit.gp.ordinal.test_estimator import NEW, N, X, Y, fixed, learning


def test_parts_are_the_whole():
    options = {"kernel": RBF(1.2, "fixed"), "tol": 1e-6, "max_iter": 2000, "inference": "vb"}
    whole = learning(**options).fit(X, Y)
    for sizes in ([20], [15, 16]):
        parts = learning(**options, class_order=range(4))
        for rows in np.split(np.arange(N), sizes):
            parts.partial_fit(X[rows], Y[rows])
        assert_allclose(parts.predict_proba(NEW), whole.predict_proba(NEW), atol=3e-3)
        assert parts.lower_bound_ == pytest.approx(whole.lower_bound_, abs=1e-3)


def test_parts_in_another_order_and_weights():
    weight = 1.0 + np.arange(N) % 2
    first = fixed(class_order=range(4), inference="vb", tol=1e-9, max_iter=1000)
    second = clone(first).partial_fit(X[30:], Y[30:], sample_weight=weight[30:])
    second.partial_fit(X[:30], Y[:30], sample_weight=weight[:30])
    first.fit(X[30:], Y[30:], sample_weight=weight[30:]).partial_fit(X[:30], Y[:30], sample_weight=weight[:30])
    assert_allclose(first.predict_proba(NEW), second.predict_proba(NEW), atol=1e-6)
    assert first.lower_bound_ == pytest.approx(second.lower_bound_, abs=1e-6)


@pytest.mark.parametrize(
    ("kernel", "first"), [(None, "fit"), ("auto", "fit"), ("ard", "partial_fit"), (RBF([1.0, 1.0]), "fit")], ids=str
)
def test_the_kernel_stays_and_noise_and_posterior_move(kernel, first):
    model = learning(kernel=kernel, class_order=range(4))
    getattr(model, first)(X[:20], Y[:20])
    theta, noise = model.kernel_.theta.copy(), model.noise_
    model.partial_fit(X[20:], Y[20:])
    assert_array_equal(model.kernel_.theta, theta)
    assert model.noise_ != noise
    assert model.inference_ == "vb"
    assert isinstance(model.posterior_, SparseLatent)
    assert model.score(X, Y) > -0.5


def test_inducing_points_stay_once_they_are_all_there():
    model = fixed(inducing=12, class_order=range(4)).partial_fit(X[:10], Y[:10])
    assert model.posterior_.basis.points.shape[0] == 10
    model.partial_fit(X[10:20], Y[10:20])
    points = model.posterior_.basis.points
    assert points.shape[0] == 12
    assert_array_equal(model.partial_fit(X[20:], Y[20:]).posterior_.basis.points, points)


def test_a_part_may_hold_one_level():
    model = fixed(inference="vb").partial_fit(X[:20], Y[:20], classes=[0, 1, 2, 3])
    before = model.predict_latent(X[20:])
    model.partial_fit(X[20:], np.full(20, 3))
    assert np.all(model.predict_latent(X[20:]) > before)


def test_parts_of_other_models_are_refused():
    model = fixed().partial_fit(X[:20], Y[:20], classes=range(5))
    assert model.predict_proba(NEW).shape == (9, 5)
    model.partial_fit(X[20:], Y[20:], classes=range(5))
    for classes in (range(4), 5, ["0", "1", "2", "3", "4"]):
        with pytest.raises(DataError, match=r"classes must be those of the first call, \[0, 1, 2, 3, 4\]"):
            model.partial_fit(X, Y, classes=classes)
    with pytest.raises(DataError, match="y holds 7"):
        model.partial_fit(X, np.full(N, 7))
    with pytest.raises(ValueError, match="X has 1 features"):
        model.partial_fit(X[:, :1], Y)
    with pytest.raises(DataError, match="partial_fit needs rows of features"):
        fixed(kernel="precomputed").partial_fit(X @ X.T, Y)


def test_a_first_part_may_hold_one_level_where_classes_says_which_there_are():
    options = {"kernel": RBF(1.2, "fixed"), "tol": 1e-6, "max_iter": 2000, "inference": "vb"}
    whole = learning(**options).fit(X, Y)
    parts = learning(**options)
    lowest = Y == 0
    parts.partial_fit(X[lowest], Y[lowest], classes=range(4))
    assert_array_equal(parts.classes_, range(4))
    assert np.all(parts.predict(X[lowest]) == 0)
    parts.partial_fit(X[~lowest], Y[~lowest])
    assert_allclose(parts.predict_proba(NEW), whole.predict_proba(NEW), atol=3e-3)
    with pytest.raises(DataError, match="at least 2 classes"):
        learning(**options, class_order=range(4)).partial_fit(X[lowest], Y[lowest])
    with pytest.raises(DataError, match="at least 2 classes"):
        learning(**options).fit(X[lowest], Y[lowest])


def test_a_compound_kernel_is_refused():
    with pytest.raises(DataError, match=r"CompoundKernel .*Add or multiply"):
        GPOrdinalRegressor(kernel=CompoundKernel([RBF(), RBF()])).fit(X, Y)
