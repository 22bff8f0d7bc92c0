"""Strategies and sessions (E1 to E5 of the test programme; rows 56 and 57 of the bad inputs)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import norm

from skpref import GPPLClassifier, VariationalFM, VariationalFMClassifier
from skpref.elicitation import STRATEGIES, Session, information_gain, select
from skpref.exceptions import DataError
from skpref.likelihoods import PairwiseLogit, PairwiseProbit

USERS, ITEMS = 60, 30
GROUPS = np.repeat(["user", "item"], [USERS, ITEMS])


def world(seed):
    """A table of all users and items, and likes."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((USERS, 1)) + (rng.standard_normal((USERS, 2)) @ rng.standard_normal((2, ITEMS)))
    likes = (z + 0.5 * rng.standard_normal(z.shape) > 0.0).astype(int)
    u, i = np.indices(likes.shape).reshape(2, -1)
    X = sparse.csr_array(
        (np.ones(2 * u.size), np.column_stack([u, USERS + i]).ravel(), np.arange(0, 2 * u.size + 1, 2))
    )
    return X, likes.ravel(), z.ravel()


X, LIKES, Z = world(0)
KNOWN, THEIRS = slice(0, (USERS - 1) * ITEMS), slice((USERS - 1) * ITEMS, None)
CLASSIFIER = VariationalFMClassifier(n_factors=2, groups=GROUPS, random_state=0).fit(X[KNOWN], LIKES[KNOWN])
REGRESSOR = VariationalFM(n_factors=2, groups=GROUPS, random_state=0).fit(X[KNOWN], Z[KNOWN])
MODELS = CLASSIFIER, REGRESSOR


# ---------------------------------------------------------------------------------------------------------- information
@given(
    st.sampled_from([PairwiseProbit(), PairwiseLogit()]),
    st.lists(st.floats(-30.0, 30.0), min_size=1, max_size=5),
    st.floats(0.0, 500.0),
)
def test_information_is_between_nothing_and_one_bit(likelihood, mean, variance):
    mean = np.array(mean)
    gain = information_gain(likelihood, mean, np.full(mean.shape, variance))
    assert np.all(gain >= 0.0)
    assert np.all(gain <= np.log(2.0))
    np.testing.assert_allclose(information_gain(likelihood, mean, np.zeros(mean.shape)), 0.0, atol=1e-12)


def test_information_is_the_fall_of_entropy_to_be_expected():
    mean, variance, rng = np.array([0.3, -1.0]), np.array([0.8, 3.0]), np.random.default_rng(0)
    gain = information_gain(PairwiseProbit(), mean, variance)
    p = norm.cdf(mean + np.sqrt(variance) * rng.standard_normal((400_000, 2)))
    inside = -p * np.log(p) - (1.0 - p) * np.log1p(-p)
    q = norm.cdf(mean / np.sqrt(1.0 + variance))
    wanted = -q * np.log(q) - (1.0 - q) * np.log1p(-q) - inside.mean(axis=0)
    np.testing.assert_allclose(gain, wanted, atol=5.0 * inside.std() / np.sqrt(400_000))


def test_information_of_the_reference(shared):
    import json

    case = json.loads((shared / "reference/variational_fm/cases.json").read_text("utf-8"))["cases"][
        "onehot_logistic_d2"
    ]
    mean, variance = np.array(case["predictive_mean"]), np.array(case["predictive_var_of_f"])
    # The file's y(x) is a sum of products, ours the normal variable with its moments.
    np.testing.assert_allclose(
        information_gain(PairwiseLogit(), mean, variance), case["bald_information_gain_nats"], rtol=0.02
    )


# ----------------------------------------------------------------------------------------------------------- strategies
@pytest.mark.parametrize("model", MODELS)
def test_covariance_is_that_of_draws(model):
    rows = X[THEIRS][:6]
    C = model.latent_covariance(rows)
    np.testing.assert_allclose(np.diagonal(C), model.latent_mean_and_variance(rows)[1], rtol=1e-10)
    draws = model.posterior_.draws(rows, 40_000, np.random.default_rng(0))
    products = (draws - draws.mean(axis=1, keepdims=True))[:, None] * (draws - draws.mean(axis=1, keepdims=True))
    assert np.all(np.abs(products.mean(axis=2) - C) < 6.0 * products.std(axis=2) / np.sqrt(40_000))


def test_strategies_ask_for_what_they_say():
    rows = X[THEIRS]
    mean, variance = CLASSIFIER.latent_mean_and_variance(rows)
    p = CLASSIFIER.predict_proba(rows)[:, 1]
    assert select(CLASSIFIER, rows, 1, "mean")[0] == np.argmin(np.abs(p - 0.5))
    assert select(CLASSIFIER, rows, 1, "variance")[0] == np.argmax(variance)
    gain = information_gain(PairwiseProbit(), mean, variance)
    assert select(CLASSIFIER, rows, 1, "information")[0] == np.argmax(gain)
    np.testing.assert_array_equal(select(REGRESSOR, rows, 5, "information"), select(REGRESSOR, rows, 5, "variance"))


def test_determinant_is_the_greedy_one_and_asks_nothing_twice():
    rows, noise = X[THEIRS], REGRESSOR.noise_
    C = REGRESSOR.latent_covariance(rows)
    chosen = select(REGRESSOR, rows, 6, "determinant").tolist()
    for step in range(6):
        values = []
        for row in range(rows.shape[0]):
            batch = [*chosen[:step], row]
            values.append(np.linalg.slogdet(np.eye(step + 1) + C[np.ix_(batch, batch)] / noise**2)[1])
        assert values[chosen[step]] >= max(v for row, v in enumerate(values) if row not in chosen[:step]) - 1e-9
    # The same question again would be the second best, were its answer not known from the first.
    twice = sparse.vstack([rows, rows], format="csr")
    assert len({row % ITEMS for row in select(REGRESSOR, twice, 2, "determinant").tolist()}) == 2


@given(st.integers(0, 2**32 - 1), st.sampled_from([s for s in STRATEGIES if s != "random"]))
def test_the_choice_does_not_depend_on_the_order(seed, strategy):
    order = np.random.default_rng(seed).permutation(ITEMS)
    rows = X[THEIRS]
    first, again = select(CLASSIFIER, rows, 4, strategy), order[select(CLASSIFIER, rows[order], 4, strategy)]
    np.testing.assert_array_equal(first, again)


# ------------------------------------------------------------------------------------------------------------- sessions
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("model", MODELS)
def test_a_session_learns_the_person(model, strategy):
    if model is REGRESSOR and strategy == "mean":
        pytest.skip("a regression has no probability")
    answers, rows = (LIKES if model is CLASSIFIER else Z)[THEIRS], X[THEIRS]
    before = model.latent_mean_and_variance(rows)[1]
    session = Session(model, rows, strategy, freeze="item", random_state=0)
    asked = []
    for _ in range(4):
        questions = session.ask(4)
        asked += questions.tolist()
        session.tell({int(q): answers[q] for q in questions})
    assert len(set(asked)) == 16
    assert set(session.answers_) == set(asked)
    rest = np.setdiff1d(np.arange(ITEMS), asked)
    assert session.model_.score(rows[rest], answers[rest]) > (0.6 if model is CLASSIFIER else 0.3)
    assert session.model_.latent_mean_and_variance(rows)[1].mean() < before.mean()
    np.testing.assert_array_equal(model.latent_mean_and_variance(rows)[1], before)


def test_rows_56_57_of_the_bad_inputs():
    rows = X[THEIRS]
    with pytest.raises(DataError, match="no candidate left"):
        select(CLASSIFIER, rows[:0])
    session = Session(CLASSIFIER, rows[:2], freeze="item")
    first = int(session.ask()[0])
    with pytest.raises(DataError, match=f"question {1 - first} was not asked"):
        session.tell({1 - first: 1})
    session.tell({first: 1})
    with pytest.raises(DataError, match=f"question {first} was answered before, with 1"):
        session.tell({first: 0})
    session.ask(5)
    with pytest.raises(DataError, match="no candidate left: all questions have been asked"):
        session.ask()
    assert session.tell({}) is session


def test_bad_arguments():
    rows = X[THEIRS]
    with pytest.raises(
        DataError, match="strategy must be one of random, mean, variance, information, determinant; got 'x'"
    ):
        select(CLASSIFIER, rows, 1, "x")
    with pytest.raises(DataError, match="n must be an integer of at least 1; got 0"):
        select(CLASSIFIER, rows, 0)
    with pytest.raises(DataError, match="a regression has none"):
        select(REGRESSOR, rows, 1, "mean")
    with pytest.raises(
        DataError, match="model must be a VariationalFM or a VariationalFMClassifier; got GPPLClassifier"
    ):
        select(GPPLClassifier(), rows, 1)
