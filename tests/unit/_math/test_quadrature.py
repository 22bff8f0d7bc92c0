import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skpref._math.quadrature import chunks, expectation, gauss_hermite, normal_trapezoid, rule_index, rules
from skpref._math.special import log_expit_derivatives, log_ndtr_derivatives

V_MAX, RULES = rules()


@pytest.mark.parametrize("n", [1, 5, 20, 200])
def test_gauss_hermite_is_exact_for_polynomials(n):
    x, w = gauss_hermite(n)
    for power in range(0, min(2 * n, 20), 2):
        assert_allclose(w @ x**power, math.prod(range(1, power, 2)), rtol=1e-11)
        assert_allclose(w @ x ** (power + 1), 0.0, atol=1e-6)


@pytest.mark.parametrize("rule", [gauss_hermite(7), normal_trapezoid(0.4), *RULES])
def test_rules_are_normalised_symmetric_and_read_only(rule):
    x, w = rule
    assert_allclose(w.sum(), 1.0, rtol=1e-14)
    assert_allclose(x, -x[::-1], atol=1e-12)
    assert not x.flags.writeable
    assert not w.flags.writeable


def test_rules_are_made_once():
    assert gauss_hermite(11) is gauss_hermite(11)
    assert rules() is rules()


def test_rule_index_includes_its_upper_end():
    assert len(RULES) == V_MAX.size + 1
    assert np.all(np.diff(V_MAX) > 0.0)
    assert_array_equal(rule_index(V_MAX), np.arange(V_MAX.size))
    assert_array_equal(rule_index(np.array([0.0, np.nextafter(V_MAX[0], 1.0), 1e9])), [0, 1, V_MAX.size])


@given(v=st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1e6)), max_size=50))
def test_chunks_serve_every_row_once(v):
    variance = np.array(v)
    served = [(rows, rule) for rows, rule in chunks(variance)]
    assert_array_equal(np.sort(np.concatenate([rows for rows, _ in served] or [[]])), np.arange(variance.size))
    for rows, (x, _) in served:
        assert all(RULES[k][0] is x for k in rule_index(variance[rows]))


def test_chunks_are_bounded():
    sizes = [rows.size * x.size for rows, (x, _) in chunks(np.repeat([0.01, 1.0, 900.0], 20_000))]
    assert max(sizes) <= 32_768
    assert sum(rows.size for rows, _ in chunks(np.repeat([0.01, 900.0], 10_000))) == 20_000


def fine_expectation(function, mu, v):
    """A trapezoid sum with steps of at most 0.1 in z over 10 standard deviations."""
    x = np.linspace(-10.0, 10.0, 1 + 2 * int(100.0 * max(1.0, np.sqrt(v))))
    w = np.exp(-0.5 * x * x)
    return [part @ (w / w.sum()) for part in function(mu[:, None] + np.sqrt(v) * x)]


# What the docstring of PairwiseLikelihood states, at the worst variance of every rule.
@pytest.mark.parametrize("v", [*V_MAX, 1024.0])
@pytest.mark.parametrize("function", [log_ndtr_derivatives, log_expit_derivatives])
def test_stated_accuracy(function, v):
    mu = np.linspace(-3.0, 3.0, 25) * np.sqrt(1.0 + v)
    got = expectation(function, mu, np.full(mu.shape, v))
    for part, wanted in zip(got, fine_expectation(function, mu, v), strict=True):
        assert_allclose(part, wanted, rtol=5e-9)
    if v <= 64.0:
        assert_allclose(got[0], fine_expectation(function, mu, v)[0], rtol=0.0, atol=1e-10)


def test_beyond_the_last_rule_accuracy_falls_slowly():
    mu = np.linspace(-300.0, 300.0, 25)
    got = expectation(log_ndtr_derivatives, mu, np.full(mu.shape, 1e4))
    for part, wanted in zip(got, fine_expectation(log_ndtr_derivatives, mu, 1e4), strict=True):
        assert_allclose(part, wanted, rtol=1e-6, atol=1e-4)


def test_expectation_keeps_the_shape_and_takes_nothing():
    mu, v = np.arange(6.0).reshape(2, 3), np.array([[0.0, 0.1, 2.0], [0.3, 50.0, 0.7]])
    first, second = expectation(lambda z: (z, z * z), mu, v)
    assert_allclose(first, mu, atol=1e-12)
    assert_allclose(second, mu**2 + v, rtol=1e-10, atol=1e-12)
    (empty,) = expectation(lambda z: (z,), np.empty(0), np.empty(0))
    assert empty.shape == (0,)


def test_no_variance_is_the_value_itself():
    mu = np.linspace(-30.0, 30.0, 31)
    for got, wanted in zip(expectation(log_ndtr_derivatives, mu, 0.0 * mu), log_ndtr_derivatives(mu), strict=True):
        assert_allclose(got, wanted, rtol=1e-14)


def test_numbers_of_nodes_are_those_that_the_docstring_of_the_pairwise_likelihoods_states():
    sizes = {v: RULES[k][0].size for v, k in zip([0.1, 1.0], rule_index(np.array([0.1, 1.0])), strict=True)}
    assert sizes == {0.1: 9, 1.0: 27}
    for v in (4.0, 64.0, 1024.0):
        assert RULES[rule_index(np.array([v]))[0]][0].size == pytest.approx(25.0 * np.sqrt(v), rel=0.1)
