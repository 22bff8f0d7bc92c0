"""Ordered levels."""

import json

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import ndtr

from skpref._math.bands import band
from skpref.exceptions import DataError
from skpref.likelihoods import OrdinalProbit, PairwiseProbit, PairwiseProbitTies
from skpref.likelihoods.ordinal import Projections
from skpref.testing import check_likelihood
from tests.bands import log_diff_ndtr
from tests.examples import examples

seeds = st.integers(0, 2**32 - 1)


@st.composite
def ordinals(draw, max_levels=6, smallest_gap=0.05):
    """Two levels and more, with thresholds near 0 and any noise that the quadrature is made for."""
    gaps = draw(st.lists(st.floats(smallest_gap, 3.0), max_size=max_levels - 2))
    first = draw(st.floats(-3.0, 1.0))
    return OrdinalProbit(tuple(first + np.cumsum([0.0, *gaps])), draw(st.floats(0.4, 2.5)))


def observations(likelihood, seed, n=12):
    """Levels, means and variances."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, likelihood.n_levels, n).astype(float)
    return y, rng.uniform(-4.0, 4.0, n), np.exp(rng.uniform(-3.0, 1.5, n))


def in_theta(likelihood, function, h=1e-3):
    """Fourth-order central differences of function(likelihood) in theta, first axis."""
    out = []
    for step in h * np.eye(likelihood.n_levels):
        at = [np.asarray(function(likelihood.with_theta(likelihood.theta + k * step))) for k in (-2, -1, 1, 2)]
        out.append((at[0] - 8.0 * at[1] + 8.0 * at[2] - at[3]) / (12.0 * h))
    return np.stack(out)


# ----------------------------------------------------------------------------------------------------- all likelihoods
@examples(15)
@given(ordinals(smallest_gap=0.01), seeds)
def test_conforms(likelihood, seed):
    # Steps of the kit's differences are 0.01: the noise must not be much smaller than 1.
    likelihood = OrdinalProbit(likelihood.thresholds, max(likelihood.noise, 0.7))
    check_likelihood(likelihood, y=np.random.default_rng(seed).integers(0, likelihood.n_levels, 16), seed=seed)


# ------------------------------------------------------------------------------------------------------- special cases
@given(st.floats(-3.0, 3.0), st.floats(0.3, 3.0), seeds)
def test_two_levels_are_the_probit(b, noise, seed):
    likelihood, probit = OrdinalProbit((b,), noise), PairwiseProbit()
    y, mu, v = observations(likelihood, seed)
    at, spread = (mu - b) / noise, v / noise**2
    powers = noise ** np.arange(3.0)[:, None]
    assert_allclose(likelihood.derivatives(y, mu), probit.derivatives(y, at) / powers, rtol=1e-11, atol=1e-12)
    assert_allclose(likelihood.tilted(y, mu, v), probit.tilted(y, at, spread) / powers, rtol=1e-11, atol=1e-12)
    assert_allclose(likelihood.expectation(y, mu, v), probit.expectation(y, at, spread) / powers, rtol=1e-9, atol=1e-10)
    assert_allclose(likelihood.predict(mu, v), probit.predict(at, spread), rtol=1e-12, atol=1e-15)


@given(st.floats(0.01, 3.0), seeds)
def test_three_symmetric_levels_are_ties(b, seed):
    likelihood, ties = OrdinalProbit((-b, b)), PairwiseProbitTies(b)
    y, mu, v = observations(likelihood, seed)
    assert_allclose(likelihood.derivatives(y, mu), ties.derivatives(0.5 * y, mu), rtol=1e-11, atol=1e-11)
    assert_allclose(likelihood.expectation(y, mu, v), ties.expectation(0.5 * y, mu, v), rtol=1e-9, atol=1e-10)
    # Ties sum numerically what has a closed form here.
    assert_allclose(likelihood.tilted(y, mu, v), ties.tilted(0.5 * y, mu, v), rtol=1e-6, atol=1e-6)


@given(ordinals(), st.floats(-5.0, 5.0), seeds)
def test_a_shift_of_thresholds_and_z_changes_nothing(likelihood, shift, seed):
    moved = OrdinalProbit(tuple(np.array(likelihood.thresholds) + shift), likelihood.noise)
    y, mu, v = observations(likelihood, seed)
    for name in ("expectation", "tilted"):
        assert_allclose(getattr(moved, name)(y, mu + shift, v), getattr(likelihood, name)(y, mu, v), 1e-9, 1e-10)
    # Moving b_1 alone moves all thresholds.
    assert_allclose(likelihood.theta_expectation(y, mu, v)[1], -likelihood.expectation(y, mu, v)[1], 1e-12, 1e-13)


@given(ordinals(), seeds)
def test_the_scale_is_a_unit(likelihood, seed):
    bigger = OrdinalProbit(tuple(3.0 * np.array(likelihood.thresholds)), 3.0 * likelihood.noise)
    y, mu, v = observations(likelihood, seed)
    assert_allclose(bigger.expectation(y, 3.0 * mu, 9.0 * v)[0], likelihood.expectation(y, mu, v)[0], rtol=1e-9)
    assert_allclose(bigger.probabilities(3.0 * mu, 9.0 * v), likelihood.probabilities(mu, v), rtol=1e-9, atol=1e-15)


# ------------------------------------------------------------------------------------------------------- probabilities
@given(ordinals(), st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), st.floats(0.0, 1e4))
def test_probabilities_add_up(likelihood, mu, v):
    p = likelihood.probabilities(mu, v)
    assert p.shape == (len(mu), likelihood.n_levels)
    assert np.all(p >= 0.0)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert_allclose(p @ np.arange(likelihood.n_levels), likelihood.predict(mu, v), rtol=1e-12, atol=1e-12)


@given(ordinals(), seeds)
def test_probabilities_are_those_of_log_prob_and_tilted(likelihood, seed):
    _, mu, v = observations(likelihood, seed)
    levels = np.arange(likelihood.n_levels)
    assert_allclose(likelihood.probabilities(mu, 0.0), np.exp(likelihood.log_prob(levels, mu[:, None])), 1e-11, 1e-300)
    wanted = np.exp(likelihood.tilted(levels, mu[:, None], v[:, None])[0])
    assert_allclose(likelihood.probabilities(mu, v), wanted, rtol=1e-11, atol=1e-300)


@given(ordinals(), seeds, st.data())
def test_merging_neighbours_adds_their_probabilities(likelihood, seed, data):
    b = list(likelihood.thresholds)
    gone = data.draw(st.integers(0, len(b) - 1))
    _, mu, v = observations(likelihood, seed)
    p = likelihood.probabilities(mu, v)
    if len(b) == 1:
        assert_allclose(p.sum(axis=1), 1.0, atol=1e-15)
        return
    merged = OrdinalProbit(tuple(b[:gone] + b[gone + 1 :]), likelihood.noise).probabilities(mu, v)
    p[:, gone] += p[:, gone + 1]
    assert_allclose(merged, np.delete(p, gone + 1, axis=1), rtol=1e-9, atol=1e-14)


def test_higher_means_make_higher_levels():
    likelihood, mu = OrdinalProbit((-2.0, -0.5, 0.1, 1.7), 0.6), np.linspace(-8.0, 8.0, 400)
    above = np.cumsum(likelihood.probabilities(mu, 0.4)[:, ::-1], axis=1)[:, :-1]
    assert np.all(np.diff(above, axis=0) >= -1e-15)
    # Every level's probability rises and then falls.
    rises = np.sign(np.diff(likelihood.probabilities(mu, 0.4), axis=0).round(14))
    assert all(np.all(np.diff(column[column != 0.0]) <= 0.0) for column in rises.T)


# ------------------------------------------------------------------------------------------------------------ extremes
@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1e3), st.floats(-10.0, 10.0), st.floats(1e-2, 1e2))
def test_everything_is_finite(z, gap, b, noise):
    likelihood = OrdinalProbit((b, b + gap, b + 2.0 * gap), noise)
    y = np.arange(4.0)
    for method in ("expectation", "tilted", "theta_expectation", "theta_tilted"):
        for v in (0.0, 1.0, 100.0):
            assert np.isfinite(getattr(likelihood, method)(y, z, v)).all(), method
    assert np.isfinite(likelihood.theta_derivatives(y, z)).all()
    value, _, second = likelihood.derivatives(y, z)
    assert np.isfinite(value).all()
    assert np.all(value <= 0.0)
    assert np.all((second <= 0.0) & (second >= -1.0 / noise**2 * (1.0 + 1e-12)))


@pytest.mark.parametrize("gap", [np.spacing(1.0), 1e-14, 1e-8])
def test_the_narrowest_bands_are_a_density(gap):
    z = np.array([-1e6, -30.0, -1.0, 0.9, 3.0, 1e3])
    value, first, second = OrdinalProbit((1.0, 1.0 + gap)).derivatives(1.0, z)
    width = (1.0 + gap) - 1.0
    at = 1.0 + 0.5 * width - z
    assert_allclose(value, np.log(width) - 0.5 * np.log(2.0 * np.pi) - 0.5 * at**2, rtol=1e-12, atol=1e-7)
    # At z = -1e6 the density falls visibly inside the widest of these bands.
    assert_allclose(first, at, rtol=1e-7)
    assert_allclose(second, -1.0, rtol=1e-7)


@given(st.floats(-60.0, 60.0), st.floats(-6.0, 3.0))
def test_bands_are_differences_of_the_distribution_function(middle, log_width):
    width = 10.0**log_width
    terms = band(np.array([middle]), width)
    # The ends hold fewer digits than middle and width.
    tolerance = 1e-12 + 1e-15 * (1.0 + abs(middle)) / width
    lower, upper = middle - 0.5 * width, middle + 0.5 * width
    assert_allclose(terms.value[0], log_diff_ndtr(upper, lower), rtol=1e-12, atol=10.0 * tolerance)
    assert_allclose(terms.variance[0], 1.0 + terms.bend[0], atol=1e-15)
    assert_allclose(terms.to_upper[0] + terms.to_lower[0], width, rtol=1e-9, atol=1e-12)
    assert_allclose(terms.mean[0] + terms.to_upper[0], upper, rtol=1e-12, atol=1e-12)
    identity = terms.at_upper * terms.to_upper + terms.at_lower * terms.to_lower
    assert_allclose(identity[0], -terms.bend[0], rtol=1e-10, atol=1e-10)


def test_all_data_in_one_level():
    y, mu, v, weight = np.full(5, 2.0), np.linspace(-1.0, 1.0, 5), np.ones(5), np.ones(5)
    for r in (3, 5):
        likelihood = OrdinalProbit.start(y, r)
        assert np.isfinite(likelihood.expectation(y, mu, v)).all()
        assert likelihood.learnt(y, mu, v, weight) is likelihood


# ------------------------------------------------------------------------------------------------------ own parameters
@given(ordinals())
def test_theta_goes_there_and_back(likelihood):
    again = likelihood.with_theta(likelihood.theta)
    assert likelihood.theta.shape == (likelihood.n_levels,)
    assert_allclose(again.thresholds, likelihood.thresholds, rtol=1e-12, atol=1e-12)
    assert again.noise == pytest.approx(likelihood.noise, rel=1e-14)


@given(ordinals(), seeds)
def test_derivatives_in_theta(likelihood, seed):
    y, mu, v = observations(likelihood, seed)
    for k, got in enumerate(likelihood.theta_derivatives(y, mu)):
        wanted = in_theta(likelihood, lambda at, k=k: at.derivatives(y, mu)[k])
        assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
    tilted = in_theta(likelihood, lambda at: at.tilted(y, mu, v)[0])
    assert_allclose(likelihood.theta_tilted(y, mu, v), tilted, rtol=1e-7, atol=1e-7)


@given(ordinals(), seeds)
def test_derivatives_of_the_expectation_in_theta(likelihood, seed):
    y, mu, v = observations(likelihood, seed)
    # A step in the noise may change the quadrature rule: a longer step divides that by more.
    wanted = in_theta(likelihood, lambda at: at.expectation(y, mu, v)[0], h=5e-3)
    assert_allclose(likelihood.theta_expectation(y, mu, v), wanted, rtol=1e-5, atol=1e-5)
    at_a_point = likelihood.theta_expectation(y, mu, 0.0)
    assert_allclose(at_a_point, likelihood.theta_derivatives(y, mu)[0], rtol=1e-11, atol=1e-11)
    assert_allclose(at_a_point, likelihood.theta_tilted(y, mu, 0.0), rtol=1e-11, atol=1e-11)


@given(ordinals(), seeds)
def test_derivatives_in_the_concave_parameters(likelihood, seed):
    y, mu, v = observations(likelihood, seed)
    # At a point: a step in the noise would change the quadrature rule.
    v = np.zeros_like(v)
    weight, s = np.random.default_rng(seed).exponential(size=y.size), likelihood.noise
    # In units of the narrowest gap: of that the derivatives are homogeneous functions.
    h = 1e-3 * min(0.1, float(np.min(np.diff(likelihood.thresholds), initial=np.inf)) / s)

    def at(step):
        inverse, *b = np.concatenate([[1.0], np.array(likelihood.thresholds) / s]) + step
        moved = OrdinalProbit(tuple(np.array(b) * s / inverse), s / inverse)
        value, gradient, _ = moved._derivatives_of(moved._sums(y.astype(int), mu, v, weight))
        # The first is in units of the present 1/noise.
        return value, gradient / np.concatenate([[inverse], np.ones(len(b))])

    value, gradient, hessian = likelihood._derivatives_of(likelihood._sums(y.astype(int), mu, v, weight))
    assert value == pytest.approx(weight @ likelihood.expectation(y, mu, v)[0], rel=1e-12)
    for j, step in enumerate(h * np.eye(likelihood.n_levels)):
        (f_up, g_up), (f_down, g_down) = at(step), at(-step)
        assert gradient[j] == pytest.approx((f_up - f_down) / (2.0 * h), rel=1e-5, abs=1e-4)
        assert_allclose(hessian[j], (g_up - g_down) / (2.0 * h), rtol=1e-5, atol=1e-4)
    # Concave: Newton always climbs.
    assert np.linalg.eigvalsh(hessian).max() <= 1e-9 * np.abs(hessian).max()


@examples(15)
@given(ordinals(max_levels=5), st.floats(0.0, 0.5), seeds)
def test_learning_never_lowers_the_objective(likelihood, spread, seed):
    rng = np.random.default_rng(seed)
    y, mu, _ = observations(likelihood, seed, n=40)
    v, weight = np.full(40, spread), rng.integers(0, 3, 40).astype(float)
    current = likelihood
    for _ in range(12):
        before = weight @ current.expectation(y, mu, v)[0]
        current = current.learnt(y, mu, v, weight)
        assert weight @ current.expectation(y, mu, v)[0] >= before


@examples(15)
@given(ordinals(max_levels=5, smallest_gap=0.3), seeds)
def test_learning_finds_the_parameters(truth, seed):
    rng, n = np.random.default_rng(seed), 1500
    mu = rng.uniform(-5.0, 5.0, n)
    y = np.searchsorted(truth.thresholds, mu + truth.noise * rng.normal(size=n)).astype(float)
    occurs = np.bincount(y.astype(int), minlength=truth.n_levels).min()
    assume(occurs > 0)  # a threshold beyond all data is held, not stationary
    v, weight, likelihood = np.zeros(n), np.ones(n), OrdinalProbit.start(y, truth.n_levels)
    for _ in range(15):
        likelihood = likelihood.learnt(y, mu, v, weight)
    # Stationary, and within six standard errors by the observed information.
    gradient = likelihood.theta_expectation(y, mu, v)
    covariance = np.linalg.inv(gradient @ gradient.T)
    assert np.abs(gradient.sum(axis=1) @ covariance @ gradient.sum(axis=1)) < 1e-3
    # The observed information means nothing for levels that hardly occur.
    assert occurs < 20 or np.all(np.abs(likelihood.theta - truth.theta) < 6.0 * np.sqrt(np.diag(covariance)))


@given(ordinals(), seeds)
def test_the_augmented_bound(likelihood, seed):
    y, mu, v = observations(likelihood, seed)
    value, d_mu, d_v = likelihood.augmented(y, mu, v)
    assert np.all(value <= likelihood.expectation(y, mu, v)[0] + 1e-9)
    assert_allclose(likelihood.augmented(y, mu, 0.0 * v)[0], likelihood.log_prob(y, mu), rtol=1e-12)
    h = 1e-4
    up, down = (likelihood.augmented(y, mu + d, v)[0] for d in (h, -h))
    assert_allclose(d_mu, (up - down) / (2.0 * h), rtol=1e-5, atol=1e-6)
    up, down = (likelihood.augmented(y, mu, v + d)[0] for d in (h, -h))
    assert_allclose(d_v, (up - down) / (2.0 * h), rtol=1e-5)


@given(ordinals(), seeds)
@example(OrdinalProbit(thresholds=(0.0, 1.125), noise=0.40625), 0)  # a level 12 deviations away
def test_the_augmented_bound_is_that_of_independent_noisy_scores(likelihood, seed):
    """Its q: z ~ N(mu, v) and, independent of it, h ~ N(mu, noise^2) cut off at the level's thresholds."""
    y, mu, v = observations(likelihood, seed, 3)
    edges, s = np.array([-np.inf, *likelihood.thresholds, np.inf]), likelihood.noise
    for k, m, variance, bound in zip(y.astype(int), mu, v, likelihood.augmented(y, mu, v)[0], strict=True):
        mode = np.clip(m, edges[k], edges[k + 1])  # of h, however far m is from the level
        h = np.linspace(max(edges[k], mode - 12.0 * s), min(edges[k + 1], mode + 12.0 * s), 20001)
        q = np.exp(-0.5 * ((h - m) / s) ** 2)
        q /= np.trapezoid(q, h)
        log_joint = -0.5 * ((h - m) ** 2 + variance) / s**2 - 0.5 * np.log(2.0 * np.pi * s**2)
        assert_allclose(bound, np.trapezoid(q * (log_joint - np.log(np.maximum(q, 1e-300))), h), rtol=1e-4, atol=1e-4)


@given(ordinals(), seeds)
def test_thresholds_are_learnt_alone(likelihood, seed):
    y, mu, v = observations(likelihood, seed, 60)
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, y.size)
    learnt, before = likelihood, weight @ likelihood.augmented(y, mu, v)[0]
    for _ in range(60):
        learnt = learnt.learnt_thresholds(y, mu, weight)
        after = weight @ learnt.augmented(y, mu, v)[0]
        assert after >= before - 1e-9 * abs(before)
        assert learnt.noise == likelihood.noise
        before = after
    if np.unique(y).size == likelihood.n_levels:
        slope = learnt.theta_derivatives(y, mu)[0] @ weight
        assert_allclose(slope[1:], 0.0, atol=1e-3 * abs(before))


def test_levels_absent_keep_their_place():
    y = np.array([1.0, 1.0, 1.0, 4.0, 4.0, 1.0, 4.0])
    mu, v, weight = np.array([-1.0, -0.2, 0.3, -0.3, 0.0, 1.0, 2.0]), np.full(7, 0.1), np.ones(7)
    start = OrdinalProbit.start(y, 7)
    likelihood = start
    for _ in range(30):
        likelihood = likelihood.learnt(y, mu, v, weight)
    assert likelihood != start
    gaps, before = np.diff(likelihood.thresholds) / likelihood.noise, np.diff(start.thresholds) / start.noise
    # Thresholds are numbered from 1: the gaps of levels 2 and 3, between the two present, and 5, beyond them.
    assert_allclose(gaps[[1, 2, 4]], before[[1, 2, 4]], rtol=1e-9)
    p = likelihood.probabilities(mu, v)
    assert np.all(p > 0.0)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)


def test_weight_zero_is_absence():
    rng = np.random.default_rng(0)
    y, mu = rng.integers(0, 4, 60).astype(float), rng.normal(size=60)
    weight, v = (y != 2.0).astype(float), np.full(60, 0.2)
    start = OrdinalProbit((-1.0, 0.0, 1.0))
    kept = weight > 0.0
    wanted = start.learnt(y[kept], mu[kept], v[kept], weight[kept])
    assert_allclose(start.learnt(y, mu, v, weight).theta, wanted.theta, rtol=1e-10, atol=1e-10)


@given(st.integers(2, 8), seeds)
def test_start_reproduces_the_frequencies(r, seed):
    rng = np.random.default_rng(seed)
    y, weight = rng.integers(0, r, 50), rng.integers(0, 4, 50)
    start = OrdinalProbit.start(y, r, weight)
    count = np.bincount(y, weight, r) + 0.5
    assert start.n_levels == r
    assert_allclose(start.probabilities(0.0, 1.0), count / count.sum(), rtol=1e-10)
    assert start == OrdinalProbit.start(np.repeat(y, weight), r)


def test_start_with_many_observations_and_absent_levels_at_the_ends():
    start = OrdinalProbit.start(np.full(1_000_000, 2.0), 5)
    assert np.all(np.diff(start.thresholds) > 0.0)
    assert_allclose(start.thresholds, -np.array(start.thresholds)[::-1], rtol=1e-9)


# -------------------------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize("thresholds", [(), (1.0, 1.0), (1.0, 0.0), (0.0, np.inf), (np.nan,), ((0.0,), (1.0,))])
def test_thresholds_must_ascend(thresholds):
    with pytest.raises(DataError, match="thresholds must be finite and strictly ascending"):
        OrdinalProbit(thresholds)


@pytest.mark.parametrize("noise", [0.0, -1.0, np.nan, np.inf])
def test_noise_must_be_positive(noise):
    with pytest.raises(DataError, match="noise must be a positive finite number"):
        OrdinalProbit((0.0,), noise)


@pytest.mark.parametrize("y", [3.0, -1.0, 0.5, np.nan])
def test_levels_must_be_levels(y):
    likelihood = OrdinalProbit((0.0, 1.0))
    for call in (
        lambda: likelihood.log_prob([1.0, y], 0.0),
        lambda: likelihood.expectation([1.0, y], 0.0, 1.0),
        lambda: likelihood.theta_tilted([1.0, y], 0.0, 1.0),
        lambda: OrdinalProbit.start([1.0, y], 3),
    ):
        with pytest.raises(DataError, match="y must hold numbers of levels, 0 to 2; got"):
            call()


def test_other_clear_errors():
    with pytest.raises(DataError, match=r"theta must have shape \(3,\); got \(2,\)"):
        OrdinalProbit((0.0, 1.0)).with_theta([0.0, 1.0])
    with pytest.raises(DataError, match="n_levels must be at least 2; got 1"):
        OrdinalProbit.start([0.0], 1)


def test_thresholds_may_be_any_sequence():
    assert OrdinalProbit(np.array([0, 1])) == OrdinalProbit((0.0, 1.0))
    assert hash(OrdinalProbit([0, 1], 1)) == hash(OrdinalProbit((0.0, 1.0)))


# ---------------------------------------------------------------------------------------------------------- references
def test_one_observation_of_the_reference_file(shared):
    # gp_ordinal/README.md: with n = 1 EP is exact, and is one call of `tilted` at the prior N(0, 1).
    case = json.loads((shared / "reference" / "gp_ordinal" / "n1_r3.json").read_text("utf-8"))
    config, exact = case["config"], case["exact"]
    b = np.cumsum([config["b1"], *config["deltas"]])
    likelihood = OrdinalProbit(tuple(b), config["sigma"])
    log_z, first, second = (float(part[0]) for part in likelihood.tilted([config["y"][0] - 1.0], [0.0], [1.0]))
    assert log_z == pytest.approx(exact["log_evidence"], rel=1e-10)
    assert first == pytest.approx(exact["posterior_mean"][0], rel=1e-10)
    assert 1.0 + second == pytest.approx(np.ravel(exact["posterior_cov"])[0], rel=1e-10)
    laplace = case["laplace"]
    p = likelihood.probabilities(laplace["test_mean"], laplace["test_var"])
    assert_allclose(p, laplace["test_class_probabilities"], rtol=1e-9)


@pytest.mark.parametrize(
    ("step", "inverse", "scaled"),
    [
        ([0.5, 0.25, 0.5], 1.5, [0.25, 2.5]),  # a whole step in (1, b) / noise
        ([-2.0, 0.0, 0.0], 0.1, [0.0, 2.0]),  # a tenth of 1 / noise is left
        ([0.0, 1.0, -3.0], 1.0, [0.45, 0.65]),  # and of a gap
        ([-2.0, 4.0, 0.0], 0.1, [1.8, 2.0]),  # of both
        ([100.0, 0.0, 0.0], 11.0, [0.0, 2.0]),  # ten times as certain at most, and the same again
        ([9.0, 0.0, 0.0], 10.0, [0.0, 2.0]),
    ],
)
def test_steps_of_learning_leave_a_tenth(step, inverse, scaled):
    now = OrdinalProbit((0.0, 4.0), 2.0)
    after = now._halved(np.array(step), -np.inf, lambda _: 0.0)
    assert after.noise == pytest.approx(2.0 / inverse)
    assert_allclose(after.thresholds, np.array(scaled) * 2.0 / inverse, atol=1e-12)
    # Steps are halved until the objective rises, twenty times at most.
    assert now._halved(np.array(step), np.inf, lambda _: 0.0) is now


@pytest.mark.parametrize(("n_halvings", "moves"), [(1, True), (3, True), (19, True), (20, False)])
def test_steps_of_learning_are_halved_until_the_objective_is_as_large(n_halvings, *, moves):
    now = OrdinalProbit((0.0, 4.0), 2.0)
    values = iter([-1.0] * n_halvings + [0.0])
    after = now._halved(np.array([0.0, 0.5, 0.5]), 0.0, lambda _: next(values))
    assert after.noise == 2.0
    assert_allclose(after.thresholds, np.array([0.0, 4.0]) + 0.5**n_halvings * moves, atol=1e-12)


@given(ordinals(), seeds)
def test_thresholds_are_learnt_from_sums_over_parts(likelihood, seed):
    y, mu, _ = observations(likelihood, seed, 60)
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, y.size)

    def objective(trial):
        return float(weight @ trial.expectation(y, mu, 0.0)[0])

    wanted = likelihood.learnt_thresholds(y, mu, weight)
    assert likelihood.with_better_thresholds(likelihood.threshold_sums(y, mu, weight), objective) == wanted
    parts = [slice(0, 20), slice(20, 21), slice(21, 60)]
    sums = sum(likelihood.threshold_sums(y[part], mu[part], weight[part]) for part in parts)
    assert_allclose(sums, likelihood.threshold_sums(y, mu, weight), rtol=1e-9, atol=1e-9 * np.abs(sums).max())
    learnt = likelihood.with_better_thresholds(sums, objective)
    assert objective(learnt) == pytest.approx(objective(wanted), rel=1e-9)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_learning_ends_by_itself_whatever_the_unit_of_weights(unit):
    rng = np.random.default_rng(0)
    mu, v, weight = rng.standard_normal(300), rng.uniform(0.1, 1.0, 300), rng.uniform(0.5, 2.0, 300)
    y = np.digitize(mu + rng.standard_normal(300), [-0.5, 0.6]).astype(float)
    first = OrdinalProbit((-1.0, 1.0), 2.0)
    plain, scaled = first.learnt(y, mu, v, weight), first.learnt(y, mu, v, unit * weight)
    assert_allclose([*scaled.thresholds, scaled.noise], [*plain.thresholds, plain.noise], rtol=1e-9)
    assert scaled != first
    for _ in range(50):
        before, scaled = scaled, scaled.learnt(y, mu, v, unit * weight)
        if scaled is before:
            break
    assert scaled is before
    gain = weight @ (scaled.expectation(y, mu, v)[0] - first.expectation(y, mu, v)[0])
    assert gain > 1.0


def test_a_scale_is_drawn_with_the_thresholds():
    rng = np.random.default_rng(0)
    z, level, scale = rng.normal(size=12), np.repeat([0, 1], 6), 1.0
    likelihood, draws = OrdinalProbit((0.3,), 0.8), []

    def at(u, scale):
        now = scale * np.exp(u[0])  # whose prior is exponential
        return Projections(now * z, now * z[:, None], np.log(now) - now, np.array([1.0 - now]), np.array([now]))

    for _ in range(1500):
        likelihood, u, _ = likelihood.drawn_thresholds(
            level, at(np.zeros(1), scale), rng, lambda u, scale=scale: at(u, scale)
        )
        scale *= np.exp(u[0])
        draws.append([likelihood.thresholds[0], np.log(scale)])
    b, log_scale = (axis.ravel() for axis in np.meshgrid(np.linspace(-3.0, 3.0, 150), np.linspace(-9.0, 2.0, 150)))
    below = ndtr((b[:, None] - np.exp(log_scale)[:, None] * z) / 0.8)
    p = np.prod(np.where(level == 0, below, 1.0 - below), axis=1) * np.exp(log_scale - np.exp(log_scale))
    p /= p.sum()
    draws = np.array(draws)
    for column, grid in ((0, b), (1, np.exp(log_scale))):
        drawn, mean = (draws[:, 0], np.exp(draws[:, 1]))[column], p @ grid
        assert_allclose(drawn.mean(), mean, atol=0.08)
        assert_allclose(drawn.std(), np.sqrt(p @ (grid - mean) ** 2), rtol=0.2)
    assert len(np.unique(draws[:, 1])) > 400


def test_drawn_thresholds_have_their_posterior():
    rng = np.random.default_rng(0)
    z, level = rng.normal(size=12), np.repeat([0, 1, 3], 4)
    likelihood, draws, here = OrdinalProbit((-1.0, 0.0, 0.5), 0.8), [], Projections(z, np.empty((12, 0)))
    for _ in range(1000):
        likelihood, _, value = likelihood.drawn_thresholds(level, here, rng)
        draws.append(likelihood.thresholds)
    lower, upper = (axis.ravel() for axis in np.meshgrid(np.linspace(-3.0, 2.0, 150), np.linspace(-2.0, 4.0, 150)))
    # Level 2 has no rows, and keeps its width.
    ends = np.column_stack([np.full(lower.size, -np.inf), lower, upper, upper + 0.5, np.full(lower.size, np.inf)])
    below = ndtr((ends[:, None, :] - z[:, None]) / 0.8)
    rows = np.arange(12)
    p = np.prod(np.maximum(below[:, rows, level + 1] - below[:, rows, level], 0.0), axis=1) * (upper > lower)
    p /= p.sum()
    b = np.array(draws)
    assert_allclose(b[:, 2] - b[:, 1], 0.5)
    for column, grid in ((0, lower), (1, upper)):
        mean = p @ grid
        assert_allclose(b[:, column].mean(), mean, atol=0.08)
        assert_allclose(b[:, column].std(), np.sqrt(p @ (grid - mean) ** 2), rtol=0.15)
    assert len(np.unique(b[:, 0])) > 500
    one_level = np.zeros(12, dtype=np.int64)
    same, _, value = likelihood.drawn_thresholds(one_level, here, rng)
    assert same is likelihood
    assert_allclose(value, likelihood.log_prob(one_level, z).sum())
