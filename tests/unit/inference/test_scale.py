"""The inverse scale: conjugate and stationary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import integrate, stats

from skpref.inference.scale import FixedScale, GammaScale, learnt_scale, mixed_scale, moved_scale

positive = st.floats(0.05, 50.0)


@given(positive, positive, positive, positive)
def test_moments_and_divergence_are_those_of_gamma_distributions(shape0, rate0, shape, rate):
    scale = GammaScale(shape0, rate0, shape, rate)
    q, p = stats.gamma(shape, scale=1 / rate), stats.gamma(shape0, scale=1 / rate0)
    assert_allclose(scale.mean, q.mean(), rtol=1e-12)
    low, high = q.ppf([1e-14, 1 - 1e-14])
    # In log s, where the density has no singularity at zero.
    edges = np.linspace(np.log(low), np.log(high), 4001)
    s, density = np.exp(edges), q.pdf(np.exp(edges)) * np.exp(edges)
    assert_allclose(integrate.simpson(density * edges, x=edges), scale.mean_log, rtol=1e-5, atol=1e-5)
    kl = integrate.simpson(density * (q.logpdf(s) - p.logpdf(s)), x=edges)
    assert_allclose(scale.kl, kl, rtol=1e-4, atol=1e-5)


@given(positive, positive)
def test_the_prior_has_no_divergence(shape0, rate0):
    assert GammaScale.prior(shape0, rate0).kl == pytest.approx(0.0, abs=1e-10)


@given(positive, positive, st.integers(1, 300), st.floats(0.01, 1e4), st.floats(0.01, 1e4))
def test_the_rate_solves_the_quadratic_of_the_maths(shape0, rate0, size, second_moment, pull):
    scale = learnt_scale(GammaScale.prior(shape0, rate0), size, second_moment, pull)
    alpha, beta, star = scale.shape, scale.rate, rate0 + 0.5 * second_moment
    g = pull / alpha
    assert_allclose(g * beta**2 + alpha * beta, alpha * star, rtol=1e-9)
    assert beta < star
    assert_allclose(learnt_scale(GammaScale.prior(shape0, rate0), size, second_moment).rate, star, rtol=1e-14)


@given(positive, positive, st.floats(0.0, 1.0))
def test_mixing_moves_natural_parameters_and_keeps_the_prior(shape, rate, rho):
    a, b = GammaScale(2.0, 3.0, 4.0, 5.0), GammaScale(2.0, 3.0, shape, rate)
    mixed = mixed_scale(a, b, rho)
    assert_allclose([mixed.shape, mixed.rate], [(1 - rho) * 4 + rho * shape, (1 - rho) * 5 + rho * rate])
    assert (mixed.shape0, mixed.rate0) == (2.0, 3.0)


def test_a_fixed_scale_stays_what_it_is():
    scale = FixedScale(2.5)
    assert scale.mean_log == pytest.approx(np.log(2.5))
    assert scale.kl == 0.0
    assert learnt_scale(scale, 10, 3.0, 1.0) is scale
    assert mixed_scale(scale, FixedScale(1.0), 0.5) is scale


@given(positive, positive, st.floats(-5.0, 5.0))
def test_a_moved_scale_keeps_its_relative_uncertainty(shape, rate, shift):
    scale = GammaScale(2.0, 3.0, shape, rate)
    moved = moved_scale(scale, shift)
    assert_allclose(np.log(moved.mean), np.log(scale.mean) + shift, rtol=1e-12, atol=1e-12)
    assert (moved.shape0, moved.rate0, moved.shape) == (2.0, 3.0, shape)
    assert moved_scale(FixedScale(2.5), shift) == FixedScale(2.5)
