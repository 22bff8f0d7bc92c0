"""Poisson, negative binomial and Student's t: the conformance kit, and what is their own."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skpref.exceptions import DataError
from skpref.likelihoods import NegativeBinomial, Poisson, StudentT

RNG = np.random.default_rng(4)
Z = RNG.standard_normal(20)
FINE = np.linspace(-60.0, 60.0, 200_001)


def average(function, mu, v):
    """E[function(z)], z ~ N(mu, v), by a fine sum."""
    return np.trapezoid(function(FINE) * stats.norm.pdf(FINE, mu, np.sqrt(v)), FINE)


def test_log_prob_is_that_of_scipy():
    counts = RNG.poisson(3.0, 20)
    assert_allclose(Poisson(2.5).log_prob(counts, Z), stats.poisson.logpmf(counts, 2.5 * np.exp(Z)), rtol=1e-10)
    negative = NegativeBinomial(2.5, 0.7)  # of 1/0.7 successes
    p = 1.0 / (1.0 + 0.7 * 2.5 * np.exp(Z))
    assert_allclose(negative.log_prob(counts, Z), stats.nbinom.logpmf(counts, 1.0 / 0.7, p), rtol=1e-10)
    y = RNG.standard_normal(20)
    assert_allclose(StudentT(0.7, 3.0).log_prob(y, Z), stats.t.logpdf(y, 3.0, Z, 0.7), rtol=1e-10)


@pytest.mark.parametrize("likelihood", [Poisson(2.5), NegativeBinomial(2.5, 0.7), StudentT(0.7, 3.0)], ids=str)
def test_derivatives_are_those_of_differences(likelihood):
    y, v, h = RNG.poisson(3.0, 20).astype(float), RNG.uniform(0.1, 2.0, 20), 1e-5
    _, first, second = likelihood.derivatives(y, Z)
    assert_allclose(first, (likelihood.log_prob(y, Z + h) - likelihood.log_prob(y, Z - h)) / (2 * h), atol=1e-7)
    ends = [likelihood.derivatives(y, Z + s)[1] for s in (h, -h)]
    assert_allclose(second, (ends[0] - ends[1]) / (2 * h), atol=1e-7)
    _, in_mu, in_v = likelihood.expectation(y, Z, v)
    ends = [likelihood.expectation(y, Z + s, v)[0] for s in (h, -h)]
    assert_allclose(in_mu, (ends[0] - ends[1]) / (2 * h), atol=1e-6)
    ends = [likelihood.expectation(y, Z, v + s)[0] for s in (h, -h)]
    assert_allclose(in_v, (ends[0] - ends[1]) / (2 * h), atol=1e-6)
    assert np.all(in_v < 0.0)
    if not isinstance(likelihood, StudentT):
        with pytest.raises(DataError, match="expectation propagation"):
            likelihood.tilted(y, Z, v)
        return
    ends = [likelihood.tilted(y, Z + s, v) for s in (h, -h)]
    assert_allclose(likelihood.tilted(y, Z, v)[1], (ends[0][0] - ends[1][0]) / (2 * h), atol=1e-6)
    assert_allclose(likelihood.tilted(y, Z, v)[2], (ends[0][1] - ends[1][1]) / (2 * h), atol=1e-5)


@pytest.mark.parametrize("likelihood", [Poisson(2.5), NegativeBinomial(2.5, 0.7), StudentT(0.7, 3.0)], ids=str)
def test_moments_are_those_of_a_fine_sum(likelihood):
    for y, mu, v in ((0.0, 0.3, 0.5), (4.0, -1.0, 1.5)):
        value = average(lambda z, y=y: likelihood.log_prob(y, z), mu, v)
        if not isinstance(likelihood, StudentT):
            assert_allclose(likelihood.expectation(y, mu, v)[0], value, rtol=1e-9)
            mean = average(lambda z: 2.5 * np.exp(z), mu, v)
            assert_allclose(likelihood.predict(mu, v), mean, rtol=1e-9)
            more = 1.0 if isinstance(likelihood, Poisson) else 1.7
            square = average(lambda z, more=more: 2.5 * np.exp(z) + more * 6.25 * np.exp(2.0 * z), mu, v)
            assert_allclose(likelihood.predictive_variance(np.array(mu), np.array(v)), square - mean**2, rtol=1e-8)
        else:
            assert likelihood.expectation(y, mu, v)[0] < value
            p = average(lambda z, y=y: np.exp(likelihood.log_prob(y, z)), mu, v)
            assert_allclose(likelihood.tilted(y, mu, v)[0], np.log(p), rtol=1e-6)
    assert_allclose(likelihood.expectation(1.0, Z, 0.0)[0], likelihood.log_prob(1.0, Z), rtol=1e-12)


def test_what_is_learnt_is_the_best():
    y, mu, v, weight = RNG.poisson(3.0, 50).astype(float), RNG.standard_normal(50), np.full(50, 0.2), np.ones(50)
    starts = (
        (Poisson(), "rate"),
        (StudentT(), "scale"),
        (NegativeBinomial(), "rate"),
        (NegativeBinomial(), "dispersion"),
    )
    for start, name in starts:
        best = start.learnt(y, mu, v, weight)
        for factor in (0.97, 1.03):
            other = replace(best, **{name: factor * getattr(best, name)})
            assert other.expectation(y, mu, v)[0].sum() < best.expectation(y, mu, v)[0].sum()


def test_far_out_all_is_finite():
    far = np.array([-1e6, 1e6, 0.0])
    for likelihood in (Poisson(), NegativeBinomial(), StudentT()):
        for part in (*likelihood.derivatives(2.0, far), *likelihood.expectation(2.0, far, 1.0)):
            assert np.all(np.isfinite(part))
    assert_allclose(StudentT(2.0, 4.0).predictive_variance(Z, np.ones(20)), 9.0)
    assert StudentT(2.0, 1.5).predictive_variance(Z, np.ones(20))[0] == np.inf


@pytest.mark.parametrize(
    "call",
    [
        lambda: Poisson(0.0),
        lambda: NegativeBinomial(dispersion=0.0),
        lambda: StudentT(scale=-1.0),
        lambda: StudentT(df=np.nan),
        lambda: StudentT(least=0.0),
    ],
)
def test_parameters_must_be_positive(call):
    with pytest.raises(DataError, match="positive finite"):
        call()


def test_a_scale_is_learnt_where_projections_are_certain():
    y, weight = RNG.standard_t(4.0, 60), 3.0 * RNG.exponential(size=60)
    best = StudentT(3.0).learnt(y, np.zeros(60), np.zeros(60), weight)
    top = weight @ best.log_prob(y, 0.0)
    for factor in (0.99, 1.01):
        assert weight @ StudentT(factor * best.scale).log_prob(y, 0.0) < top
    # A perfect fit has the smallest scale, not 0.
    assert StudentT(3.0).learnt(y, y, np.zeros(60), weight).scale == 1e-6
    assert StudentT(3.0, least=0.25).learnt(y, y, np.zeros(60), weight).scale == 0.25


def test_means_that_no_float_holds_are_capped_in_silence():
    huge, v = np.array([-1e4, 0.0, 300.0, 700.0, 1e300]), np.array([0.0, 0.5, 300.0, 700.0, 1e300])
    with np.errstate(all="raise", under="ignore"):
        for rate in (1e-100, 1.0, 1e100):
            likelihood = Poisson(rate)
            for values in (likelihood.predict(huge, v), likelihood.predictive_variance(huge, v)):
                assert np.isfinite(values).all()
            for values in likelihood.expectation(np.ones(5), np.minimum(huge, 1e4), np.minimum(v, 1e4)):
                assert np.isfinite(values).all()
            assert np.isfinite(likelihood.learnt(np.ones(5), huge, v, np.ones(5)).rate)


@pytest.mark.parametrize(("df", "variance"), [(1.9, np.inf), (2.0, np.inf), (2.5, 5.0 * 4.0), (4.0, 2.0 * 4.0)])
def test_the_variance_of_a_t_distribution_is_finite_beyond_two_degrees(df, variance):
    got = StudentT(2.0, df).predictive_variance(np.zeros(2), np.array([0.0, 3.0]))
    np.testing.assert_allclose(got, [variance, variance + 3.0])


@pytest.mark.parametrize("shift", [-3000.0, 0.0, 3000.0])
def test_the_rate_of_a_poisson_is_finite_and_right_however_far_q_is(shift):
    mu, v, weight = np.array([0.1, -0.4, 0.3]), np.full(3, 0.2), np.array([1.0, 2.0, 0.0])
    y = np.array([4.0, 1.0, 9.0])
    expected = np.log(6.0) - np.log(weight @ np.exp(mu + 0.5 * v)) - shift
    rate = Poisson().learnt(y, mu + shift, v, weight).rate
    assert_allclose(np.log(rate), np.clip(expected, np.log(2.0) - 10.0, np.log(2.0) + 10.0), rtol=1e-12)
    assert 0.0 < Poisson().learnt(np.zeros(3), mu + shift, v, weight).rate < np.inf


@pytest.mark.parametrize("shift", [-6.0, 0.0, 6.0])
def test_a_negative_binomial_is_learnt_from_a_bad_start(shift):
    y, mu = RNG.negative_binomial(2.0, 0.3, 400).astype(float), np.full(400, shift)
    likelihood = NegativeBinomial(1.0, 1e-4)
    for _ in range(10):
        likelihood = likelihood.learnt(y, mu, np.full(400, 0.01), np.ones(400))
    assert_allclose(likelihood.rate * np.exp(shift), y.mean(), rtol=0.02)
    assert 0.3 < likelihood.dispersion < 0.8  # 1/2


@pytest.mark.parametrize("likelihood", [Poisson(1.5), NegativeBinomial(1.5, 0.7)])
def test_a_level_is_added_to_z(likelihood):
    y, z, weight = np.array([0.0, 2.0, 7.0]), np.array([-1.0, 0.3, 1.2]), np.ones(3)
    moved = likelihood.with_level(0.8, y, weight)
    assert_allclose(moved.log_prob(y, z), likelihood.log_prob(y, z + 0.8))
    # Within a factor of e^10 of the mean count, as `learnt`.
    assert_allclose(likelihood.with_level(50.0, y, weight).rate, 3.0 * np.exp(10.0))
    assert StudentT().with_level(0.8, y, weight) == StudentT()
