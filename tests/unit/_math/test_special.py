import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import erfcx

from skpref._math.special import log_expit_derivatives, log_ndtr, log_ndtr_derivatives

FUNCTIONS = [log_ndtr_derivatives, log_expit_derivatives]
WIDE = np.concatenate([-np.logspace(6, -6, 200), [0.0], np.logspace(-6, 6, 200)])


def test_log_ndtr_has_no_floor():
    # 40 digits by continued fraction: log Phi(-10), log Phi(-40), log Phi(-1e6).
    wanted = [-53.231285150512470, -804.60844201375255, -5e11 - 14.734449091168811]
    assert_allclose(log_ndtr([-10.0, -40.0, -1e6]), wanted, rtol=1e-14)


def test_ratio_at_both_ends():
    assert_allclose(log_ndtr_derivatives([-1e6, 0.0])[1], [1e6 + 1e-6, np.sqrt(2.0 / np.pi)], rtol=1e-14)
    assert_array_equal(log_ndtr_derivatives([50.0, 1e6])[1], 0.0)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_finite_concave_and_bounded_up_to_a_million(function):
    value, first, second = function(WIDE)
    assert np.all(np.isfinite([value, first, second]))
    assert np.all(value <= 0.0)
    assert np.all(first >= 0.0)
    assert np.all(second <= 0.0)
    assert np.all(second >= -1.0 - 1e-13)


def test_the_parts_agree_with_the_single_functions():
    value, first, _ = log_ndtr_derivatives(WIDE)
    # Right of 0 both are multiples of exp(-z^2 / 2): rounding z^2 / 2 moves them by that times eps, in any function.
    allowed = 1e-13 + np.finfo(float).eps * np.square(np.clip(WIDE, 0.0, 40.0))
    for part, wanted in ((value, log_ndtr(WIDE)), (first, np.sqrt(2.0 / np.pi) / erfcx(-np.sqrt(0.5) * WIDE))):
        assert np.all(np.abs(part - wanted) <= allowed * np.abs(wanted))


def test_second_derivative_does_not_cancel_far_left():
    # Series of 1 + l'' in 1/t^2, t = -z: 1/t^2 - 6/t^4 + 50/t^6 - 518/t^8.
    t = np.logspace(2, 3, 20)
    rest = 1.0 + log_ndtr_derivatives(-t)[2]
    assert_allclose(rest, 1 / t**2 - 6 / t**4 + 50 / t**6 - 518 / t**8, rtol=1e-8)


def test_second_derivative_is_continuous_where_the_formula_changes():
    below, above = np.nextafter(-12.0, -13.0), -12.0
    assert_allclose(*(log_ndtr_derivatives(z)[2] for z in (below, above)), rtol=1e-12)


@pytest.mark.parametrize("function", FUNCTIONS)
@given(z=st.floats(-50.0, 30.0))
def test_derivatives_against_differences(function, z):
    h = 1e-3 * max(1.0, abs(z))
    points = function(z + h * np.array([-2.0, -1.0, 1.0, 2.0]))
    _, first, second = function(z)
    for derivative, (a, b, c, d) in zip((first, second), points[:2], strict=True):
        assert_allclose(derivative, (8.0 * (c - b) - (d - a)) / (12.0 * h), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_any_shape(function):
    z = np.linspace(-3.0, 3.0, 12)
    assert_array_equal(np.reshape(function(z.reshape(3, 4)), (3, 12)), function(z))
    assert [np.shape(part) for part in function(0.5)] == [(), (), ()]


def test_logistic_values():
    value, first, second = log_expit_derivatives(np.log(3.0))
    assert_allclose([value, first, second], [np.log(0.75), 0.25, -0.1875], rtol=1e-15)
