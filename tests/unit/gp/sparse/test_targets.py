"""Targets of regression: their unit, equal rows, limits, counts and noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import SVGPRegressor
from skpref.exceptions import DataError, DataWarning
from skpref.gp.sparse import targets as module
from skpref.gp.sparse.targets import distinct_targets, gaussian_rows, standardised, target_scale
from skpref.likelihoods import Gaussian, NegativeBinomial, OrdinalProbit, Poisson, StudentT


def made(y, weight=None, X=None):
    y = np.asarray(y, dtype=float)
    X = np.arange(float(y.size))[:, None] if X is None else np.asarray(X, dtype=float)[:, None]
    return distinct_targets(X, y, np.ones(y.size) if weight is None else np.asarray(weight, dtype=float))


def test_equal_pairs_are_one_of_their_weight():
    targets = made([5.0, 3.0, 5.0, 5.0, 9.0], [1.0, 2.0, 0.5, 4.0, 0.0], [1, 0, 1, 0, 7])
    rows = targets.X[targets.row, 0]
    got = sorted(zip(rows.tolist(), targets.y.tolist(), targets.weight.tolist(), strict=True))
    assert got == [(0.0, 3.0, 2.0), (0.0, 5.0, 4.0), (1.0, 5.0, 1.5)]
    assert targets.X.ravel().tolist() == [0.0, 1.0]  # rows without weight are left out


@pytest.mark.parametrize("unit", [1.0, 1e-200, 1e200, -1e300])
def test_the_unit_is_the_weighted_deviation(unit):
    y, weight = np.array([1.0, 2.0, 5.0]), np.array([1.0, 2.0, 3.0])
    mean = np.average(y, weights=weight)
    scale = target_scale(made(unit * y, weight))
    assert scale.mean == pytest.approx(unit * mean)
    assert scale.deviation == pytest.approx(abs(unit) * np.sqrt(np.average((y - mean) ** 2, weights=weight)))


@pytest.mark.parametrize(("y", "deviation"), [([3.0, 3.0], 1.0), ([0.0, 0.0], 1.0), ([5e20, 5e20], 5e8)])
def test_equal_targets_have_the_unit_1_or_what_exceeds_rounding(y, deviation):
    assert target_scale(made(y)) == pytest.approx((y[0], deviation, 0.0))
    largest = max(y)  # in files there is no other, and it may be 0
    assert module.TargetScale.from_moments(y[0], 0.0, largest).deviation == pytest.approx(deviation)


def test_numbers_that_repeat_are_rounded():
    rng = np.random.default_rng(0)
    numbers = rng.uniform(0.0, 30.0, 200)
    rounded = target_scale(made(0.5 * np.round(numbers / 0.5) + 7.0))
    assert rounded.step == pytest.approx(0.5)
    assert rounded.rounding == pytest.approx(0.25 / 12.0 / rounded.deviation**2)
    assert target_scale(made(1e200 * np.round(numbers))).step == pytest.approx(1e200)
    for exact in (numbers, np.arange(100.0), np.round(numbers / 3.0)):  # no repeats, on a grid, and few levels
        assert target_scale(made(exact)).step == 0.0


@pytest.mark.parametrize("likelihood", ["gaussian", "student-t"])
def test_noise_is_not_below_rounding(likelihood):
    # Rows that repeat with equal targets: without a limit the density at them grows as the noise vanishes.
    rng = np.random.default_rng(1)
    X = np.repeat(rng.standard_normal((40, 1)), 5, axis=0)
    y = np.round(10.0 * np.sin(X[:, 0]) + 3.0 * X[:, 0])
    X[::5] += 1e-9  # other rows, equal targets
    model = SVGPRegressor(likelihood=likelihood, random_state=0).fit(X, y)
    assert model.noise_ >= 0.999 / np.sqrt(12.0)
    _, sd = model.predict(X, return_std=True)
    assert np.all(sd > 0.28)


def test_targets_far_from_the_first_ones_are_refused():
    scale = module.TargetScale(0.0, 2.0)
    assert_array_equal(standardised(made([2e100, -2e100]), scale), [1e100, -1e100])
    with pytest.raises(
        DataError, match=r"within 1e\+100 standard deviations of the first targets \(2\); got -2.1e\+100"
    ):
        standardised(made([1.0, -2.1e100]), scale)
    with pytest.raises(DataError, match="got 1e"):
        standardised(made([1e308, 0.0]), module.TargetScale(0.0, 1e-9))
    assert standardised(made([]), scale).size == 0


def test_rows_have_the_means_of_their_targets_and_the_scatter_about_them():
    y, weight, X = np.array([1.0, 4.0, 2.0]), np.array([1.0, 3.0, 2.0]), [0, 0, 1]
    rows = gaussian_rows(made(y, weight, X), module.TargetScale(1.0, 2.0))
    z = (y - 1.0) / 2.0
    mean = np.average(z[:2], weights=weight[:2])
    assert_allclose(rows.y, [mean, z[2]])
    assert_allclose(rows.weight, [4.0, 2.0])
    assert rows.scatter == pytest.approx(weight[:2] @ (z[:2] - mean) ** 2)


@pytest.mark.parametrize("y", [[-1.0], [0.5], [np.inf - np.inf]])
def test_poisson_targets_are_counts(y):
    for likelihood in ("poisson", Poisson(), "negative-binomial", NegativeBinomial()):
        with pytest.raises(DataError, match="y must be counts 0, 1, 2"):
            module.check_counts(likelihood, np.array(y))
        module.check_counts(likelihood, np.array([0.0, 1.0, 7.0]))
    module.check_counts("gaussian", np.array(y))


@pytest.mark.parametrize(("size", "allowed"), [(1e100, True), (1e-100, True), (1.1e100, False), (0.9e-100, False)])
def test_limits_of_exposures(size, allowed):
    if allowed:
        assert_array_equal(module.read_exposure(size, 2, "poisson"), [size, size])
        return
    with pytest.raises(DataError, match=r"exposure must be from 1e-100 to 1e\+100"):
        module.read_exposure([1.0, size], 2, "poisson")


def test_first_likelihoods_and_their_noise():
    gaussian = module.initial_likelihood("gaussian", None, 2.0)
    assert gaussian == Gaussian(10.0)
    assert module.initial_likelihood("gaussian", 0.25, 2.0) == Gaussian(4.0)
    student = module.initial_likelihood("student-t", None, 2.0)
    assert student.scale == pytest.approx(np.sqrt(0.1))
    assert module.initial_likelihood("poisson", None, 2.0) == Poisson(2.0)
    assert module.initial_likelihood("poisson", None, 0.0) == Poisson(1e-6)
    assert module.initial_likelihood("negative-binomial", None, 2.0) == NegativeBinomial(2.0, 1.0)
    assert module.initial_likelihood(student, None, 2.0) is student
    assert module.noise_of(Gaussian(4.0)) == 0.5
    assert module.noise_of(StudentT(0.3)) == 0.3
    assert module.noise_of(Poisson()) is None
    assert module.noise_variance(Gaussian(4.0)) == 0.25
    assert module.noise_variance(StudentT(0.5, 4.0)) == pytest.approx(0.5)
    with pytest.raises(DataError, match="OrdinalProbit has no variance of a new y"):
        module.variance_rule(OrdinalProbit((0.0,)))


def test_drawn_noise_has_the_scale_of_the_likelihood():
    rng = np.random.default_rng(0)
    draws = module.draw_noise(Gaussian(4.0), (20_000,), rng)
    assert draws.std() == pytest.approx(0.5, rel=0.03)
    heavy = module.draw_noise(StudentT(0.5, 4.0), (20_000,), rng)
    assert np.median(np.abs(heavy)) == pytest.approx(0.5 * 0.7407, rel=0.03)  # the upper quartile of t with 4
    assert_array_equal(module.draw_noise(Poisson(), (3,), rng), 0.0)


@pytest.mark.parametrize(("n_zeros", "warns"), [(60, True), (10, False)])
def test_a_number_that_many_targets_share_is_told(n_zeros, *, warns, recwarn):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((100, 2)), rng.standard_normal(100)
    y[:n_zeros] = 0.0
    SVGPRegressor(random_state=0).fit(X, y)
    messages = [str(w.message) for w in recwarn if w.category is DataWarning]
    assert messages == ([messages[0]] if warns else [])
    assert not warns or messages[0].startswith("y: 60% of the targets are 0. Normal noise does not explain that")
    SVGPRegressor(random_state=0).fit(X, np.sign(y))  # grades repeat
    assert len(recwarn) == len(messages)
