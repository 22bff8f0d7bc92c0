"""Strategies and what they go by (E1 to E4 of the test programme)."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import entr
from scipy.stats import norm

from skpref.elicitation import STRATEGIES, Belief, information_gain
from skpref.elicitation._beliefs import _Shifted, belief_of, conditioned_belief, probabilities
from skpref.elicitation._strategies import choose
from skpref.exceptions import DataError
from skpref.likelihoods import Gaussian, PairwiseLogit, PairwiseProbit, PairwiseProbitTies
from tests.examples import examples

BINARY = [PairwiseProbit(), PairwiseLogit()]
LIKELIHOODS = [*BINARY, PairwiseProbitTies(0.4), Gaussian(2.0)]
ASKING = [strategy for strategy in STRATEGIES if strategy != "random"]


def problem(seed, n=6, rank=3):
    """Means and covariance of correlated candidates."""
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((n, rank))
    return rng.standard_normal(n), loadings @ loadings.T + 0.1 * np.eye(n)


def joint_belief(likelihood, mean, C):
    return belief_of(likelihood, mean, np.diagonal(C).copy(), lambda: C)


# ---------------------------------------------------------------------------------------------------------- information
@given(
    st.sampled_from([*BINARY, PairwiseProbitTies(0.4)]),
    st.lists(st.floats(-30.0, 30.0), min_size=1, max_size=5),
    st.floats(0.0, 500.0),
)
def test_e1_information_is_between_nothing_and_all_there_is(likelihood, mean, variance):
    mean = np.array(mean)
    gain = information_gain(likelihood, mean, np.full(mean.shape, variance))
    assert np.all(gain >= 0.0)
    assert np.all(gain <= np.log(3.0 if likelihood.ties_are_answers else 2.0))
    # E4: without variance there is no information to gain.
    np.testing.assert_allclose(information_gain(likelihood, mean, np.zeros(mean.shape)), 0.0, atol=1e-12)


@pytest.mark.parametrize("likelihood", LIKELIHOODS[:3])
def test_information_is_that_of_monte_carlo(likelihood):
    mean, variance, rng = np.array([0.3, -1.0, 4.0]), np.array([0.8, 3.0, 0.5]), np.random.default_rng(0)
    z = mean + np.sqrt(variance) * rng.standard_normal((60_000, 3))
    labels = (0.0, 0.5, 1.0) if likelihood.ties_are_answers else (0.0, 1.0)
    p = np.stack([np.exp(likelihood.log_prob(y, z)) for y in labels])
    inside, outside = entr(p).sum(axis=0), entr(p.mean(axis=1)).sum(axis=0)
    # The entropy of the mean is smooth in it: its error is that of log p(y) - log q(y), to first order.
    error = (np.log(p.mean(axis=1))[:, None] * p).sum(axis=0) + inside
    gain = information_gain(likelihood, mean, variance)
    np.testing.assert_allclose(gain, outside - inside.mean(axis=0), atol=5.0 * error.std(axis=0).max() / 60_000**0.5)
    np.testing.assert_allclose(probabilities(likelihood, mean, variance).sum(axis=1), 1.0, atol=1e-10)
    near = 5.0 * p.std(axis=1).T / 60_000**0.5
    assert np.all(np.abs(probabilities(likelihood, mean, variance) - p.mean(axis=1).T) < near + 1e-12)


def test_information_of_the_reference(shared):
    cases = json.loads((shared / "reference/variational_fm/cases.json").read_text("utf-8"))["cases"]
    case = cases["onehot_logistic_d2"]
    mean, variance = np.array(case["predictive_mean"]), np.array(case["predictive_var_of_f"])
    # The file's y(x) is a sum of products, ours the normal variable with its moments.
    wanted = case["bald_information_gain_nats"]
    np.testing.assert_allclose(information_gain(PairwiseLogit(), mean, variance), wanted, rtol=0.02)


@given(st.integers(0, 2**32 - 1))
def test_information_of_a_number_is_the_fall_of_normal_entropy(seed):
    mean, C = problem(seed)
    before = joint_belief(Gaussian(2.0), mean, C)
    after = conditioned_belief(Gaussian(2.0), mean, C, {2: 1.5})
    assert before.gain[2] == pytest.approx(0.5 * np.log(C[2, 2] / after.variance[2]))


@examples(25)
@given(st.integers(0, 2**32 - 1), st.sampled_from(BINARY))
def test_e2_an_answer_is_expected_to_inform_about_every_candidate(seed, likelihood):
    mean, C = problem(seed)
    p = joint_belief(likelihood, mean, C).probability[0]
    after = [conditioned_belief(likelihood, mean, C, {0: y}).covariance() for y in (0.0, 1.0)]
    expected = sum(q * 0.5 * np.linalg.slogdet(covariance)[1] for q, covariance in zip(p, after, strict=True))
    assert expected <= 0.5 * np.linalg.slogdet(C)[1] + 1e-9
    for covariance in after:
        assert np.all(np.diagonal(covariance) <= np.diagonal(C) + 1e-9)


# ------------------------------------------------------------------------------------------------------------ answers
@given(st.integers(0, 2**32 - 1))
def test_numbers_are_learnt_from_exactly(seed):
    mean, C = problem(seed)
    rows, y = [4, 1, 3], np.array([0.3, -1.0, 2.0])
    posterior = conditioned_belief(Gaussian(2.0), mean, C, dict(zip(rows, y, strict=True)))
    K = C[np.ix_(rows, rows)] + np.eye(3) / 2.0
    gain = np.linalg.solve(K, C[rows]).T
    np.testing.assert_allclose(posterior.mean, mean + gain @ (y - mean[rows]), atol=1e-8)
    np.testing.assert_allclose(posterior.covariance(), C - gain @ C[rows], atol=1e-8)
    np.testing.assert_allclose(posterior.variance, np.diagonal(posterior.covariance()), atol=1e-9)


def test_labels_are_learnt_from_as_by_importance_weights():
    mean, C = problem(1)
    answers = {0: 1.0, 3: 0.0, 5: 1.0}
    rng = np.random.default_rng(0)
    z = rng.multivariate_normal(mean, C, size=200_000)
    for likelihood in (*BINARY, PairwiseProbitTies(0.4)):
        w = np.exp(sum(likelihood.log_prob(y, z[:, row]) for row, y in answers.items()))
        wanted = (w @ z) / w.sum()
        posterior = conditioned_belief(likelihood, mean, C, answers)
        # EP is nearly exact; the weights' own error is below .005.
        np.testing.assert_allclose(posterior.mean, wanted, atol=0.02)
        np.testing.assert_allclose(posterior.variance, (w @ (z - wanted) ** 2) / w.sum(), atol=0.03)


@examples(25)
@given(st.integers(0, 2**32 - 1), st.sampled_from(LIKELIHOODS))
def test_e3_neither_the_order_of_answers_nor_of_candidates_matters(seed, likelihood):
    mean, C = problem(seed)
    order = np.random.default_rng(seed).permutation(6)
    answers = {0: 1.0, 3: 0.0, 5: 1.0}
    first = conditioned_belief(likelihood, mean, C, answers)
    again = conditioned_belief(likelihood, mean, C, dict(reversed(answers.items())))
    np.testing.assert_array_equal(first.mean, again.mean)
    place = np.argsort(order)
    moved = conditioned_belief(
        likelihood, mean[order], C[np.ix_(order, order)], {int(place[row]): y for row, y in answers.items()}
    )
    np.testing.assert_allclose(moved.mean, first.mean[order], atol=1e-6)
    np.testing.assert_allclose(moved.gain, first.gain[order], atol=1e-6)


def test_e4_a_question_with_a_certain_answer_gives_no_information():
    # y = z without noise, to rounding: asked again, it says what was said.
    mean, C = problem(0)
    after = conditioned_belief(Gaussian(1e9), mean, C, {2: 0.7})
    assert after.mean[2] == pytest.approx(0.7, abs=1e-6)
    assert after.variance[2] < 1e-8
    assert after.gain[2] == pytest.approx(0.5 * np.log(2.0), abs=1e-3)  # nothing beyond the noise of both
    assert choose(after, np.arange(6), 6, "variance")[-1] == 2
    certain = joint_belief(PairwiseProbit(), mean, 0.0 * C)
    np.testing.assert_allclose(certain.gain, 0.0, atol=1e-12)


# ----------------------------------------------------------------------------------------------------------- strategies
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_strategies_ask_for_what_they_say(likelihood):
    mean, C = problem(3)
    belief, rows = joint_belief(likelihood, mean, C), np.arange(6)
    assert choose(belief, rows, 1, "variance")[0] == np.argmax(np.diagonal(C))
    assert choose(belief, rows, 1, "information")[0] == np.argmax(information_gain(likelihood, mean, np.diagonal(C)))
    if likelihood in BINARY:
        p = likelihood.predict(mean, np.diagonal(C))
        assert choose(belief, rows, 1, "mean")[0] == np.argmin(np.abs(p - 0.5))
    else:
        with pytest.raises(DataError, match=r"the model has (real numbers as|3 possible) answers"):
            choose(belief, rows, 1, "mean")
    # Some may not be asked.
    assert set(choose(belief, np.array([1, 4]), 5, "information").tolist()) == {1, 4}


@given(st.integers(0, 2**32 - 1))
def test_determinants_are_those_of_brute_force(seed):
    mean, C = problem(seed, n=5)
    belief = joint_belief(PairwiseProbit(), mean, C)
    precision = norm.pdf(mean) ** 2 / (norm.cdf(mean) * norm.cdf(-mean))
    np.testing.assert_allclose(belief.precision, precision, rtol=1e-8)

    def value(batch):
        root = np.sqrt(precision[list(batch)])
        return np.linalg.slogdet(np.eye(len(batch)) + root[:, None] * C[np.ix_(batch, batch)] * root)[1]

    chosen = choose(belief, np.arange(5), 3, "determinant").tolist()
    for step in range(3):
        best = max(value([*chosen[:step], row]) for row in range(5) if row not in chosen[:step])
        assert value(chosen[: step + 1]) == pytest.approx(best, abs=1e-9)
    # The log determinant is submodular: greedy reaches at least 1 - 1/e of the best of all batches.
    best = max(value(list(batch)) for batch in itertools.combinations(range(5), 3))
    assert value(chosen) >= (1.0 - 1.0 / np.e) * best - 1e-12


def test_a_batch_asks_nothing_twice():
    mean, C = problem(2)
    twice = np.kron(np.ones((2, 2)), C)
    belief = joint_belief(Gaussian(50.0), np.tile(mean, 2), twice)
    chosen = choose(belief, np.arange(12), 3, "determinant").tolist()
    assert len({row % 6 for row in chosen}) == 3
    # Alone, each copy is worth as much as the other.
    assert set(choose(belief, np.arange(12), 2, "information").tolist()) == {chosen[0], chosen[0] + 6}


@given(st.integers(0, 2**32 - 1), st.sampled_from(ASKING))
def test_e3_the_choice_does_not_depend_on_the_order(seed, strategy):
    mean, C = problem(5, n=9)
    order = np.random.default_rng(seed).permutation(9)
    first = choose(joint_belief(PairwiseProbit(), mean, C), np.arange(9), 4, strategy)
    moved = choose(joint_belief(PairwiseProbit(), mean[order], C[np.ix_(order, order)]), np.arange(9), 4, strategy)
    np.testing.assert_array_equal(first, order[moved])


def test_a_belief_is_what_strategies_see():
    assert Belief._fields == ("mean", "variance", "covariance", "probability", "gain", "precision", "items")


@pytest.mark.parametrize("rule", ["expectation", "tilted"])
def test_a_likelihood_around_a_mean_is_the_plain_one_at_shifted_places(rule):
    rng = np.random.default_rng(0)
    y, mean, mu, v = np.array([0.0, 1.0, 1.0]), rng.normal(size=3), rng.normal(size=3), rng.uniform(0.5, 2.0, 3)
    plain = PairwiseProbit()
    wanted = getattr(plain, rule)(y, mu + mean, v)
    np.testing.assert_allclose(getattr(_Shifted(plain, mean), rule)(y, mu, v), wanted)
    np.testing.assert_allclose(_Shifted(plain, mean).derivatives(y, mu), plain.derivatives(y, mu + mean))
