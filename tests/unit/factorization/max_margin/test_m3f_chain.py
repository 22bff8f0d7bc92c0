"""What the chains of max-margin factorization sample, against plain NumPy."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import GibbsIPM3F, GibbsM3F
from skpref.data import Ratings
from skpref.exceptions import DataError
from skpref.factorization.max_margin import ipm3f_chain, m3f_chain
from skpref.factorization.max_margin.chains import _check_trace, check_resumed
from skpref.factorization.max_margin.m3f_chain import MarginPrior
from skpref.factorization.max_margin.posterior import Factors
from skpref.inference.gibbs import Chain

USERS, ITEMS, LEVELS, COST, MARGIN = 7, 5, 4, 0.3, 2.0
RHO = m3f_chain.threshold_means(None, LEVELS, MARGIN)
CELLS = np.argwhere(np.random.default_rng(0).random((USERS, ITEMS)) < 0.8)
WEIGHTS = {"none": np.ones(len(CELLS)), "equal": np.full(len(CELLS), 1.7), "own": np.linspace(0.1, 3.0, len(CELLS))}


def ratings_of(weight):
    level = np.random.default_rng(1).integers(0, LEVELS, len(CELLS))
    return Ratings(CELLS[:, 0], CELLS[:, 1], level, weight, USERS, ITEMS, LEVELS)


def problems(ratings, *, own=True):
    """The problems of both models."""
    prior = MarginPrior(1.3, RHO, 2.5, own=own)
    return {
        m3f_chain: m3f_chain.problem_of(ratings, COST, prior, 3, MARGIN, np.float64),
        ipm3f_chain: ipm3f_chain.problem_of(ratings, COST, prior, MARGIN, 2.0, 10),
    }


@pytest.mark.parametrize("model", [m3f_chain, ipm3f_chain], ids=["m3f", "ipm3f"])
def test_chains_start_from_draws_of_the_prior(model):
    n = 2000
    ratings = Ratings(np.zeros(1, int), np.zeros(1, int), np.zeros(1, int), np.ones(1), 3, n, LEVELS)
    state = model.start_state(problems(ratings)[model], 5)
    assert_allclose(state["items"].std(axis=0), 1.3, rtol=5.0 / np.sqrt(2.0 * n))
    assert_allclose(state["items"].mean(axis=0), 0.0, atol=5.0 * 1.3 / np.sqrt(n))


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("model", [m3f_chain, ipm3f_chain], ids=["m3f", "ipm3f"])
def test_the_risk_is_the_weighted_hinge_losses_and_the_prior(model, own, weight):
    ratings = ratings_of(weight)
    problem = problems(ratings, own=own)[model]
    state = model.start_state(problem, 5)
    state["thresholds"] += np.random.default_rng(3).standard_normal(state["thresholds"].shape)
    U, V, theta = (
        state["users"].astype(float),
        state["items"],
        np.broadcast_to(state["thresholds"], (USERS, LEVELS - 1)),
    )
    loss = 0.0
    for u, i, level, w in zip(ratings.user, ratings.item, ratings.level, weight, strict=True):
        for r in range(LEVELS - 1):
            side = 1.0 if r >= level else -1.0
            loss += w * COST * max(0.0, MARGIN - side * (theta[u, r] - U[u] @ V[i]))
    penalty = (V**2).sum() / (2.0 * 1.3**2) + ((state["thresholds"] - RHO) ** 2).sum() / (2.0 * 2.5**2)
    penalty += -ipm3f_chain.log_ibp(state["users"], 2.0) if model is ipm3f_chain else (U**2).sum() / (2.0 * 1.3**2)
    assert_allclose(model.risk_of(problem, state), loss + penalty, rtol=1e-10)


def test_ratings_without_weight_or_without_ratings_are_no_trouble():
    rows = m3f_chain.rows_of(ratings_of(np.ones(len(CELLS))).by_user(), COST, 3)
    assert rows.cost.tolist() == [COST]
    none = Ratings(*(np.zeros(0, int) for _ in range(3)), np.zeros(0), USERS, ITEMS, LEVELS)
    for model, problem in problems(none).items():
        assert problem.users.cost.tolist() == problem.items.cost.tolist() == [COST]
        assert np.isfinite(model.step_of(problem)(model.start_state(problem, 0), 1)[1].objective)


def test_prior_means_of_thresholds_are_three_margins_apart_around_zero():
    assert_array_equal(m3f_chain.threshold_means("symmetric", 5, 9.0), [-40.5, -13.5, 13.5, 40.5])


@pytest.mark.parametrize(("widths", "sound"), [([0.0, 0.0], True), ([0.0, 1.0], False), ([-1.0, 0.0], False)])
def test_a_chain_never_has_more_features_than_it_made(widths, sound):
    chain = Chain({}, sweep=2, trace={"risk": [1.0, 2.0], "n_factors": widths})
    if sound:
        _check_trace(chain, 0)
    else:
        with pytest.raises(DataError, match="must hold numbers of features"):
            _check_trace(chain, 0)


@pytest.mark.parametrize(("seed", "sound"), [(0, True), (2**63 - 1, True), (2**63, False), (2**64 - 1, False)])
def test_seeds_of_chains_are_those_that_are_drawn(seed, sound):
    problem = problems(ratings_of(np.ones(len(CELLS))))[m3f_chain]
    start = Chain(m3f_chain.start_state(problem, 5))
    chain = Chain({**start.state, "seed": np.array(seed, np.uint64)})
    if sound:
        check_resumed(GibbsM3F._chain_model, problem, start, chain)
    else:
        with pytest.raises(DataError, match="has a seed that is no number from 0 to 9223372036854775807"):
            check_resumed(GibbsM3F._chain_model, problem, start, chain)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, None),
        ({"feature": np.array([1, 0])}, "in order"),
        ({"feature": np.array([0, 0])}, "in order"),
        ({"feature": np.array([0, 2])}, "outside 0 to 1"),
        ({"feature": np.array([0])}, "has users of"),
        ({"born": np.array(2.0)}, "no number"),
        ({"born": np.array([2])}, "no number"),
        ({"born": np.array(-1)}, "no number"),
        ({"users": np.full((USERS, 2), 2, np.uint8)}, "users outside 0 to 1"),
        ({"items": np.full((ITEMS, 2), 2e15)}, "items outside"),
        ({"items": np.zeros((ITEMS, 2), np.float32)}, "has items of"),
        ({"other": np.zeros(2)}, "must have"),
    ],
)
def test_features_of_a_resumed_chain_are_named_in_order(change, message):
    problem = problems(ratings_of(np.ones(len(CELLS))))[ipm3f_chain]
    zeros = {"users": np.zeros((USERS, 2), np.uint8), "items": np.zeros((ITEMS, 2))}
    state = {**ipm3f_chain.start_state(problem, 5), **zeros, "feature": np.array([0, 1]), "born": np.array(2)}
    chain = Chain({**state, **change})
    if message is None:
        check_resumed(GibbsIPM3F._chain_model, problem, Chain(state), chain)
    else:
        with pytest.raises(DataError, match=message):
            check_resumed(GibbsIPM3F._chain_model, problem, Chain(state), chain)


@pytest.mark.parametrize("trace", [{}, {"risk": [1.0]}, {"risk": [1.0], "n_factors": [0.0], "other": [0.0]}])
def test_a_chain_that_has_made_a_sweep_reports_what_its_model_reports(trace):
    with pytest.raises(DataError, match="has other names"):
        _check_trace(Chain({}, sweep=1, trace=trace), 0)
    with pytest.raises(DataError, match="has other names"):
        _check_trace(Chain({}, sweep=1, trace=trace), None if len(trace) != 1 else 0)


FACTORS = Factors(np.ones((2, 4, 3), np.uint8), np.ones((2, 5, 3), np.float32), np.ones((2, 1, 3)))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"users": FACTORS.users.tolist()}, "users must be a table of each chain or sample"),
        ({"users": FACTORS.users[0]}, "users must be a table of each chain or sample"),
        ({"items": FACTORS.items.astype(np.int64)}, "items must be a table of each chain or sample"),
        ({"items": FACTORS.items.astype(">f8")}, "items must be a table of each chain or sample"),
        ({"thresholds": FACTORS.thresholds.astype(complex)}, "thresholds must be a table of each chain or sample"),
        ({"items": FACTORS.items[:1]}, "items must be of 2 samples"),
        ({"items": FACTORS.items.astype(np.uint8)}, "items must be real numbers"),
        ({"items": FACTORS.items[:, :, :2]}, "items must have 3 factors"),
        ({"thresholds": np.ones((2, 2, 3))}, "thresholds must be of all users, or shared"),
        ({"thresholds": np.ones((2, 1, 0))}, "thresholds must be of all users, or shared"),
    ],
)
def test_damaged_factors_are_refused(damage, message):
    FACTORS.validate()
    FACTORS._replace(thresholds=np.ones((2, 4, 3))).validate()
    with pytest.raises(DataError, match=message):
        FACTORS._replace(**damage).validate()


def test_new_users_have_the_prior_variance_of_scores():
    U, V = np.zeros((1, 2, 3)), np.arange(6.0).reshape(1, 2, 3)
    user, item = np.array([-1, 0, -1, 1]), np.array([1, 1, -1, -1])
    variance = Factors(U + 2.0, V, np.ones((1, 1, 1))).prior_variances(user, item, 1.5)
    # x = u . v with u, v ~ N(0, sigma^2 I) where they are unseen.
    s = 1.5**2
    assert_allclose(variance, [[s * (9.0 + 16.0 + 25.0), 0.0, 3.0 * s**2, s * 12.0]])


def test_what_all_users_like_is_learnt_and_expected_of_new_users():
    rng = np.random.default_rng(0)
    quality, cell = rng.standard_normal(30), rng.permutation(40 * 30)[:500]
    user, item = cell // 30, cell % 30
    y = np.digitize(quality[item] + 0.3 * rng.standard_normal(500), [-1.0, 0.0, 1.0])
    X, new = np.column_stack([user, item]), np.column_stack([np.full(30, 99), np.arange(30)])
    model = GibbsM3F(n_factors=10, C=0.2, random_state=0).fit(X, y)
    assert np.corrcoef(model.predict_score(new), quality)[0, 1] > 0.8
    assert np.mean(np.abs(model.predict(X) - y)) < 0.3
    symmetric = model.set_params(threshold_means="symmetric").fit(X, y)
    assert not symmetric.predict_score(new).any()
    # A new user with one rating differs from the mean of the others by less than without these.
    model.set_params(threshold_means=None).fit(X, y).fold_in([[98, 0]], y[item == 0][:1])
    assert np.corrcoef(model.predict_score(new - [1, 0]), quality)[0, 1] > 0.6


def test_the_mean_of_users_has_its_conditional():
    prior, state = MarginPrior(2.0, np.array([0.0]), 1.0, own=True, learnt=True), {"seed": np.array(3, np.uint64)}
    state["users"] = np.arange(6.0).reshape(2, 3)
    drawn = np.array([m3f_chain.user_mean_of(state, prior, sweep) for sweep in range(4000)])
    assert_allclose(drawn.mean(axis=0), [3.0 / 5.0, 1.0, 7.0 / 5.0], atol=0.06)  # 4 standard errors
    assert_allclose(drawn.std(axis=0), 2.0 / np.sqrt(5.0), rtol=0.05)
    assert m3f_chain.user_mean_of(state, replace(prior, learnt=False), 1) is None
    assert m3f_chain.user_mean_of(state | {"user_mean": 7.0}, prior, 1) == 7.0


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    ("model", "fixed_items"), [(m3f_chain, False), (m3f_chain, True), (ipm3f_chain, False)], ids=["m3f", "new", "ipm3f"]
)
def test_a_sweep_moves_what_is_not_fixed(model, own, fixed_items):
    problem = problems(ratings_of(np.ones(len(CELLS))), own=own)[model]
    start = model.start_state(problem, 5)
    step = model.step_of(problem, fixed_items=True) if fixed_items else model.step_of(problem)
    state, info = step(start, 1)
    moved = {name: not np.array_equal(state[name], start[name]) for name in ("users", "items", "thresholds")}
    # New users fold in beside items, and thresholds of all, that stay as they are.
    assert moved == {"users": True, "items": not fixed_items, "thresholds": own or not fixed_items}
    assert info.objective == pytest.approx(-model.risk_of(problem, state))
