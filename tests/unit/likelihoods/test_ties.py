"""Ties as an answer of their own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from skpref._math.quadrature import gauss_hermite
from skpref.exceptions import DataError
from skpref.likelihoods import PairwiseDavidson, PairwiseLogit, PairwiseLogitTies, PairwiseProbit, PairwiseProbitTies
from skpref.testing import _likelihoods as kit
from tests.examples import examples

LABELS = np.array([0.0, 0.5, 1.0, 0.2, 0.9])
thresholds = st.floats(0.01, 3.0)
projections = st.floats(-8.0, 8.0)
both = pytest.mark.parametrize("ties", [PairwiseProbitTies, PairwiseLogitTies])
all_three = pytest.mark.parametrize("ties", [PairwiseProbitTies, PairwiseLogitTies, PairwiseDavidson])


@all_three
@given(thresholds, st.floats(-1e6, 1e6))
def test_three_answers_add_up_to_one_and_stay_finite(ties, b, z):
    log_prob = ties(b).log_prob([0.0, 0.5, 1.0], [z, z, z])
    assert np.isfinite(log_prob).all()
    np.testing.assert_allclose(np.exp(log_prob).sum(), 1.0, rtol=1e-10)


@all_three
@given(thresholds, projections)
def test_derivatives_are_those_of_log_prob(ties, b, z):
    likelihood, h = ties(b), 1e-4
    z_all = np.full(LABELS.shape, z)
    _, first, second = likelihood.derivatives(LABELS, z_all)
    up, down = likelihood.derivatives(LABELS, z_all + h), likelihood.derivatives(LABELS, z_all - h)
    np.testing.assert_allclose(first, (up[0] - down[0]) / (2 * h), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(second, (up[1] - down[1]) / (2 * h), rtol=1e-4, atol=1e-4)
    assert np.all(second <= 0.0)


@all_three
@examples(25)
@given(thresholds, st.floats(-4.0, 4.0), st.floats(0.0, 4.0))
def test_expectation_matches_fine_quadrature(ties, b, mu, v):
    likelihood, (x, w) = ties(b), gauss_hermite(200)
    value, first, second = likelihood.expectation(LABELS, np.full(5, mu), np.full(5, v))
    for i, label in enumerate(LABELS):
        parts = likelihood.derivatives(np.full(x.shape, label), mu + np.sqrt(v) * x)
        np.testing.assert_allclose(value[i], parts[0] @ w, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(first[i], parts[1] @ w, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(second[i], 0.5 * (parts[2] @ w), rtol=1e-5, atol=1e-6)


@given(thresholds, st.floats(-3.0, 3.0), st.floats(0.01, 4.0))
def test_tilted_normaliser_is_the_probability_of_the_answer(b, mu, v):
    log_z, _, _ = PairwiseProbitTies(b).tilted([1.0, 0.0, 0.5], [mu] * 3, [v] * 3)
    width = np.sqrt(1.0 + v)
    left, right = ndtr((mu - b) / width), ndtr((-mu - b) / width)
    np.testing.assert_allclose(np.exp(log_z), [left, right, 1.0 - left - right], rtol=1e-6, atol=1e-9)


@all_three
@given(thresholds, st.floats(-1e6, 1e6), st.floats(0.0, 10.0))
def test_prediction_is_symmetric_and_a_probability(ties, b, mu, v):
    p, q = ties(b).predict([mu, -mu], [v, v])
    assert 0.0 <= p <= 1.0
    np.testing.assert_allclose(p + q, 1.0, rtol=1e-12)


@pytest.mark.parametrize("b", [1.0, 800.0])
def test_equal_items_have_equal_chances_where_all_but_ties_underflow(b):
    for ties in (PairwiseProbitTies, PairwiseLogitTies):
        assert ties(b).predict([0.0], [0.0]) == 0.5


@pytest.mark.parametrize(("ties", "plain"), [(PairwiseProbitTies, PairwiseProbit), (PairwiseLogitTies, PairwiseLogit)])
def test_a_vanishing_threshold_leaves_no_ties(ties, plain):
    y, z = np.array([0.0, 1.0])[:, None], np.linspace(-3, 3, 7)
    np.testing.assert_allclose(ties(1e-9).log_prob(y, z), plain().log_prob(y, z), rtol=1e-7)


@both
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 2.0))
def test_derivatives_in_the_threshold(ties, seed, b):
    rng, h = np.random.default_rng(seed), 1e-4
    mu, v, weight = rng.normal(size=5), rng.exponential(size=5), rng.exponential(size=5)

    def at(shift):
        parts = ties(b * np.exp(shift))._log_threshold_derivatives(LABELS, mu, v, weight)
        return np.concatenate([np.ravel(part) for part in parts])

    here, up, down = at(0.0), at(h), at(-h)
    assert here[0] == pytest.approx(weight @ ties(b).expectation(LABELS, mu, v)[0], rel=1e-12)
    np.testing.assert_allclose(here[1:], (up - down)[:2] / (2.0 * h), rtol=1e-5, atol=1e-5)


@examples(10)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 1.0))
def test_learning_never_lowers_the_objective_and_finds_the_threshold(seed, b):
    rng = np.random.default_rng(seed)
    mu = rng.normal(size=1000)
    z = mu + rng.normal(size=1000)
    y = np.where(z > b, 1.0, np.where(z < -b, 0.0, 0.5))
    likelihood, v, weight = PairwiseProbitTies(0.3), np.zeros(1000), np.ones(1000)
    for _ in range(15):
        before = weight @ likelihood.expectation(y, mu, v)[0]
        likelihood = likelihood.learnt(y, mu, v, weight)
        assert weight @ likelihood.expectation(y, mu, v)[0] >= before
    # Five standard errors of the estimate: about 1 / sqrt(1000) each at these thresholds.
    assert abs(likelihood.threshold - b) < 5 * 1.2 / np.sqrt(1000)


@both
@pytest.mark.parametrize("threshold", [0.0, -1.0, np.nan, np.inf])
def test_threshold_must_be_positive(ties, threshold):
    with pytest.raises(DataError, match="threshold must be a positive finite number"):
        ties(threshold)


def test_the_logit_is_the_model_of_rao_and_kupper():
    left, right, theta = 3.0, 0.7, 1.8  # strengths, exp(b)
    p = PairwiseLogitTies(np.log(theta)).predict_answers(np.array([np.log(left / right)]), np.zeros(1))[0]
    tie = (theta**2 - 1) * left * right / ((left + theta * right) * (theta * left + right))
    np.testing.assert_allclose(p, [left / (left + theta * right), tie, right / (theta * left + right)], rtol=1e-12)


@all_three
@given(thresholds, st.floats(-4.0, 4.0), st.floats(0.0, 4.0))
def test_answers_are_the_mean_probabilities(ties, b, mu, v):
    likelihood, (x, w) = ties(b), gauss_hermite(200)
    answers = likelihood.predict_answers(np.array([mu]), np.array([v]))[0]
    z = mu + np.sqrt(v) * x
    expected = [np.exp(likelihood.log_prob(label, z)) @ w for label in (1.0, 0.5, 0.0)]
    np.testing.assert_allclose(answers, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(likelihood.predict(mu, v), answers[0] + 0.5 * answers[1], rtol=1e-9)


@all_three
@given(thresholds, st.floats(-1e6, 1e6), st.floats(0.0, 1e6))
def test_answers_sum_to_one_wherever_z_is(ties, b, mu, v):
    answers = ties(b).predict_answers(np.array([mu, -mu]), np.array([v, v]))
    np.testing.assert_allclose(answers.sum(axis=1), 1.0, rtol=1e-12)
    assert (answers >= 0.0).all()
    np.testing.assert_allclose(answers[0], answers[1, ::-1], rtol=1e-9, atol=1e-300)


@both
@pytest.mark.parametrize("b", [1e-6, 50.0, 1e4])
def test_extreme_thresholds_stay_finite(ties, b):
    likelihood, z = ties(b), np.array([-1e3, 0.0, 1e3])
    assert np.isfinite(likelihood.log_prob(np.full(3, 0.5), z)).all()
    parts = likelihood._log_threshold_derivatives(np.full(3, 0.5), z, np.ones(3), np.ones(3))
    assert all(np.isfinite(part).all() for part in parts)


@both
def test_a_step_of_the_threshold_is_at_most_a_factor_of_e(ties):
    mu, v, weight = np.zeros(50), np.full(50, 0.1), np.ones(50)
    assert ties(0.01).learnt(np.full(50, 0.5), mu, v, weight).threshold == pytest.approx(0.01 * np.e)
    likelihood, y = ties(0.4), np.repeat([0.0, 0.5, 1.0], [15, 20, 15])
    for _ in range(30):
        likelihood = likelihood.learnt(y, mu, v, weight)
    assert likelihood.learnt(y, mu, v, weight) is likelihood
    slope = likelihood._log_threshold_derivatives(y, mu, v, weight)[1]
    assert np.abs(slope).max() < 1e-3


def test_a_threshold_beyond_which_nothing_changes_stays():
    likelihood = PairwiseProbitTies(500.0)
    assert likelihood.learnt(np.full(3, 0.5), np.zeros(3), np.ones(3), np.ones(3)) is likelihood


@both
def test_a_step_that_lowers_the_objective_is_halved(ties, monkeypatch):
    mu, v, weight, y = np.zeros(50), np.full(50, 0.1), np.ones(50), np.repeat([0.0, 0.5, 1.0], [15, 20, 15])
    best = ties(0.4)
    for _ in range(30):
        best = best.learnt(y, mu, v, weight)
    start = ties(0.8 * best.threshold)
    value = weight @ start.expectation(y, mu, v)[0]
    parts = value, np.array([50.0]), np.array([[-50.0]])  # a step of 1
    monkeypatch.setattr(ties, "_log_threshold_derivatives", lambda *_: parts)
    after = start.learnt(y, mu, v, weight)
    halvings = -np.log2(np.log(after.threshold / start.threshold))
    assert halvings == pytest.approx(np.round(halvings))
    assert halvings >= 1.0
    assert weight @ after.expectation(y, mu, v)[0] > value


davidson = pytest.mark.parametrize("nu", [1e-3, 0.3, 1.0, 2.0, 30.0])


@davidson
@pytest.mark.parametrize("seed", range(3))
def test_davidson_conforms_to_the_kit(nu, seed):
    likelihood, rng = PairwiseDavidson(nu), np.random.default_rng(seed)
    for check in kit._CHECKS:
        if check is not kit._check_prediction:  # which is given that there is no tie
            check(likelihood, np.array([0.0, 1.0, 0.5, 0.3, 0.5, 1.0, 0.0]), rng)


def test_davidson_ties_are_in_proportion_to_the_geometric_mean():
    left, right, nu = 3.0, 0.7, 0.8
    p = PairwiseDavidson(nu).predict_answers(np.array([np.log(left / right)]), np.zeros(1))[0]
    weights = np.array([left, nu * np.sqrt(left * right), right])
    np.testing.assert_allclose(p, weights / weights.sum(), rtol=1e-12)


@davidson
@given(projections)
def test_a_davidson_tie_says_as_much_of_z_as_half_a_win_of_each(nu, z):
    left, tie, right = PairwiseDavidson(nu).derivatives(np.array([1.0, 0.5, 0.0]), z)[1]
    assert tie == pytest.approx(0.5 * (left + right), abs=1e-12)


def test_davidson_with_a_vanishing_nu_is_the_logit():
    y, z = np.array([0.0, 1.0])[:, None], np.linspace(-3, 3, 7)
    np.testing.assert_allclose(PairwiseDavidson(1e-9).log_prob(y, z), PairwiseLogit().log_prob(y, z), rtol=1e-7)


@pytest.mark.parametrize("nu", [0.1, 0.8, 4.0])
def test_nu_is_learnt(nu):
    rng, weight = np.random.default_rng(0), np.ones(4000)
    z = rng.normal(size=4000)
    p = PairwiseDavidson(nu).predict_answers(z, np.zeros(z.size))
    y = 1.0 - 0.5 * (p.cumsum(axis=1) < rng.random((z.size, 1))).sum(axis=1)
    likelihood = PairwiseDavidson()
    for _ in range(30):
        likelihood = likelihood.learnt(y, z, np.zeros(z.size), weight)
    tied = p[:, 1] @ (1.0 - p[:, 1])  # information about log nu
    assert abs(np.log(likelihood.nu / nu)) < 4.0 / np.sqrt(tied)
    assert likelihood.learnt(y, z, np.zeros(z.size), weight) is likelihood


def test_parameters_that_are_known_are_not_learnt():
    y, z, weight = np.array([1.0, 0.5, 0.0]), np.zeros(3), np.ones(3)
    for known in (PairwiseDavidson(2.0, learn=False), PairwiseLogitTies(0.2, learn=False)):
        assert known.learnt(y, z, weight, weight) is known
        assert not known.has_parameters


@all_three
def test_learn_must_be_a_bool(ties):
    with pytest.raises(DataError, match="learn must be True or False; got 'no'"):
        ties(learn="no")


@pytest.mark.parametrize("nu", [0.0, -1.0, np.nan, np.inf])
def test_nu_must_be_positive(nu):
    with pytest.raises(DataError, match="nu must be a positive finite number"):
        PairwiseDavidson(nu)
