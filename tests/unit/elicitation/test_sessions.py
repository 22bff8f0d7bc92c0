"""Sessions with every model, replays, bad input (E5 of the test programme; rows 56 and 57 of the bad inputs)."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import ndtr
from scipy.stats import ttest_1samp
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skpref import (
    CrowdGPPL,
    GibbsIPM3F,
    GibbsM3F,
    GPPLClassifier,
    Table,
    VariationalFM,
    VariationalFMClassifier,
    VariationalFMOrdinal,
)
from skpref.data import OneHotDesign
from skpref.datasets import make_crowd
from skpref.elicitation import STRATEGIES, Session, replay, select
from skpref.elicitation._machines import _matrices, draws_of_population, population_of
from skpref.elicitation._people import MachineUser, _pairs_at
from skpref.exceptions import DataError, UnknownIdError

pytestmark = pytest.mark.usefixtures("all_candidates")  # gains of the questions are compared with numbers

USERS, ITEMS = 60, 24
RNG = np.random.default_rng(0)
TASTE, SHAPE = RNG.standard_normal((USERS + 40, 2)), RNG.standard_normal((2, ITEMS))
Z = RNG.standard_normal((USERS + 40, 1)) + TASTE @ SHAPE + 0.5 * RNG.standard_normal((USERS + 40, ITEMS))
LIKES, LEVELS = (Z > 0.0).astype(int), 1 + np.digitize(Z, [-1.5, 0.0, 1.5])
PAIRS = np.argwhere(np.ones((USERS, ITEMS)))
KNOWN = slice(0, USERS)
CROWD = make_crowd(n_users=30, n_items=8, n_comparisons=1500, n_factors=1, random_state=2)
OF_TWO = [row[1:] for row in np.asarray(CROWD.comparisons).tolist()]


def machine(kind, y, **params):
    design = OneHotDesign()
    groups = design.fit(PAIRS).groups_
    last = kind(**{"n_factors": 2, "max_iter": 40, "groups": groups, "random_state": 0, **params})
    return make_pipeline(design, last).fit(PAIRS, y[KNOWN].ravel())


FITS = {
    "classifier": lambda: machine(VariationalFMClassifier, LIKES),
    "regressor": lambda: machine(VariationalFM, Z),
    "levels": lambda: machine(VariationalFMOrdinal, LEVELS, inference="variational"),
    "drawn levels": lambda: machine(VariationalFMOrdinal, LEVELS, inference="gibbs", max_iter=60, burn_in=20),
    "ratings": lambda: GibbsM3F(4, C=0.2, max_iter=40, burn_in=15, random_state=0).fit(PAIRS, LEVELS[KNOWN].ravel()),
    "features": lambda: GibbsIPM3F(C=0.3, max_iter=30, burn_in=10, random_state=0).fit(PAIRS, LEVELS[KNOWN].ravel()),
    "pairs": lambda: GPPLClassifier().fit(OF_TWO, CROWD.y),
    "pairs in order": lambda: GPPLClassifier(CROWD.table, order_effect=True, likelihood="probit-ties").fit(
        OF_TWO, CROWD.y
    ),
    "crowd": lambda: CrowdGPPL(n_factors=2, random_state=0).fit(CROWD.comparisons, CROWD.y),
}


class Models(dict):
    """Models by name, each fitted when a test first asks for it."""

    def __missing__(self, name):
        self[name] = FITS[name]()
        return self[name]


MODELS = Models()
ANSWER = {"classifier": 1, "regressor": 2.5, "pairs": 1, "pairs in order": 0.5, "crowd": 0}
ANSWER |= dict.fromkeys(("levels", "drawn levels", "ratings", "features"), 4)
TWO_ANSWERS = {"classifier", "pairs", "crowd"}


def truth(name):
    return {"classifier": LIKES, "regressor": Z}.get(name, LEVELS)


# ------------------------------------------------------------------------------------------------------------- sessions
@pytest.mark.parametrize(
    ("name", "strategy"),
    [(name, "determinant") for name in FITS]
    + [(name, strategy) for name in ("classifier", "ratings") for strategy in STRATEGIES if strategy != "determinant"],
)
def test_every_model_can_be_asked_for(name, strategy):
    model, before = MODELS[name], pickle.dumps(MODELS[name])
    session = Session(model, strategy=strategy, random_state=0)
    if strategy == "mean" and name not in TWO_ANSWERS:
        with pytest.raises(DataError, match="strategy 'mean' needs exactly two possible answers"):
            session.ask()
        return
    first = session.ask(3)
    assert len(set(first.tolist())) == 3
    prior = session.belief_
    session.tell({int(row): ANSWER[name] for row in first[:2]})
    assert session.tell({}) is session
    assert not set(session.ask(3).tolist()) & set(first.tolist())
    belief, n = session.belief_, len(session.candidates_)
    assert belief.mean.shape == belief.variance.shape == belief.gain.shape == belief.precision.shape == (n,)
    C = belief.covariance()
    np.testing.assert_allclose(np.diagonal(C), belief.variance, rtol=1e-6, atol=1e-9)
    assert np.linalg.eigvalsh(C).min() > -1e-6 * np.trace(C)
    assert belief.variance[first[:2]].sum() < prior.variance[first[:2]].sum()
    if belief.probability is not None:
        np.testing.assert_allclose(belief.probability.sum(axis=1), 1.0, atol=1e-9)
        assert np.all(belief.gain <= np.log(belief.probability.shape[1]))
    estimates = session.estimates()
    # An expected level may lie beyond quantiles that are levels themselves, but not by a level.
    slack = 1.0 if ANSWER[name] == 4 else 1e-9
    assert np.all(estimates.low <= estimates.value + slack)
    assert np.all(estimates.value <= estimates.high + slack)
    assert np.all(estimates.low <= estimates.high)
    assert len(estimates.ids) == len(estimates.value) == (8 if "pairs" in name or name == "crowd" else ITEMS)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("name", ["classifier", "regressor", "ratings", "features"])
def test_a_session_learns_people(name):
    model, who = MODELS[name], "z" if name in {"classifier", "regressor"} else 1000
    errors = []
    for person in range(USERS, USERS + 4):
        session, answers = Session(model, user=who), truth(name)[person]
        asked = session.ask(14)
        session.tell({int(row): answers[row].item() for row in asked})
        others = np.setdiff1d(np.arange(ITEMS), asked)
        # The updated copy says about the same, and no other user has changed.
        updated = session.model_
        rows = [(who, int(item)) for item in others]
        scores = {"classifier": "decision_function", "regressor": "predict"}.get(name, "predict_score")
        own = getattr(updated, scores)(rows)
        np.testing.assert_allclose(updated.predict(PAIRS[:50]), model.predict(PAIRS[:50]), atol=1e-12)
        if hasattr(model, "steps"):
            kinds = [(name, type(step)) for name, step in model.steps]
            assert [(name, type(step)) for name, step in updated.steps] == kinds
        errors.append([session.estimates().value[others], Z[person, others], session.belief_.mean[others], own])
    value, z, mean, own = np.array(errors).transpose(1, 0, 2).reshape(4, -1)
    assert np.corrcoef(value, z)[0, 1] > 0.65
    assert np.corrcoef(mean, own)[0, 1] > 0.8


def test_all_answers_count_whatever_their_order():
    first, again = (Session(MODELS["classifier"], random_state=0) for _ in range(2))
    rows = first.ask(4).tolist()
    again.ask(4)
    for row in rows:
        first.tell({row: row % 2})
    again.tell({row: row % 2 for row in reversed(rows)})
    np.testing.assert_array_equal(first.belief_.mean, again.belief_.mean)
    assert first.answers_ == again.answers_


@pytest.mark.parametrize("name", ["classifier", "ratings", "crowd"])
def test_a_fresh_session_is_a_new_one(name):
    used = Session(MODELS[name], random_state=0)
    used.tell({int(row): ANSWER[name] for row in used.ask(2)})
    fresh, new = used.fresh(), Session(MODELS[name])
    assert fresh.answers_ == {}
    np.testing.assert_array_equal(fresh.belief_.mean, new.belief_.mean)
    np.testing.assert_array_equal(fresh.ask(3), new.ask(3))
    fresh.tell({int(row): ANSWER[name] for row in list(fresh._asked)[:1]})
    assert len(used.answers_) == 2
    with pytest.raises(DataError, match="strategy must be one of"):
        used.fresh("best")


def test_a_member_of_the_crowd_is_not_an_unseen_user():
    model = MODELS["crowd"]
    trained = Session(model, user=3)
    new = Session(model, user="new")
    pairs = np.array([(3, *pair) for pair in trained.candidates_], dtype=object)
    np.testing.assert_allclose(trained.belief_.mean, model.decision_function(pairs))
    assert trained.belief_.variance.sum() < new.belief_.variance.sum()
    question = int(new.ask()[0])
    left, right = new.candidates_[question]
    learnt = new.tell({question: 1}).model_
    assert learnt.predict_proba([["new", left, right]])[0, 1] > model.predict_proba([["new", left, right]])[0, 1]
    # The crowd's own update moves the same way as the session.
    moved = learnt.decision_function([("new", *pair) for pair in new.candidates_])
    before = model.decision_function([("new", *pair) for pair in new.candidates_])
    assert np.corrcoef(moved - before, new.belief_.mean - before)[0, 1] > 0.9


def test_an_unseen_user_follows_the_distribution_of_the_users():
    for name in ("classifier", "regressor"):
        pipeline = MODELS[name]
        rows = pipeline[0].transform([("new user", item) for item in range(ITEMS)])
        machine = pipeline[1].posterior_
        people = population_of(machine, sparse.csr_array(rows))
        mean, variance = pipeline[1].latent_mean_and_variance(rows)
        mean, variance = people.moments(mean, variance)
        C = people.covariance(pipeline[1].latent_covariance(rows))
        np.testing.assert_allclose(np.diagonal(C), variance, rtol=1e-9)
        # What another feature's uncertainty adds through the user's factors, by their second moments.
        k, own = machine.machine.mean[USERS], people.gain + _matrices(machine.machine.variance)[USERS]
        of_user = np.outer(k + people.shift, k + people.shift) + own
        before = np.outer(k, k) + _matrices(machine.machine.variance)[USERS]
        of_user[0], of_user[:, 0] = [1.0, *(k + people.shift)[1:]], [1.0, *(k + people.shift)[1:]]
        before[0], before[:, 0] = [1.0, *k[1:]], [1.0, *k[1:]]
        wanted = np.einsum("kab,ab->k", _matrices(machine.machine.variance), of_user - before)
        np.testing.assert_allclose(people.interaction, wanted, rtol=1e-9, atol=1e-12)
        # Draws of one of the people and of the items, and of a few by the prior.
        rng, q = np.random.default_rng(0), machine.machine
        of_all = q.variance if q.variance.ndim == 3 else q.variance[:, :, None] * np.eye(3)
        k, n_draws = USERS, 30_000
        group = q.prior.group[k]
        everybody = np.concatenate([np.arange(USERS), np.full(3, -1)])
        who = rng.choice(everybody, n_draws)
        prior = q.prior.nu[group] + rng.standard_normal((n_draws, 3)) / np.sqrt(q.prior.lam[group])
        roots = np.linalg.cholesky(of_all)
        of_members = q.mean[who] + np.einsum("sab,sb->sa", roots[who], rng.standard_normal((n_draws, 3)))
        theta = np.where((who < 0)[:, None], prior, of_members)
        noise = rng.standard_normal((n_draws, ITEMS, 3))
        item = q.mean[USERS + 1 : -1] + np.einsum("kab,skb->ska", roots[USERS + 1 : -1], noise)
        z = item[:, :, 0] + theta[:, :1] + np.einsum("skf,sf->sk", item[:, :, 1:], theta[:, 1:])
        z = machine.offset + machine.scale * (z + q.bias.mean)
        assert np.all(np.abs(z.mean(axis=0) - mean) < 6.0 * z.std(axis=0) / np.sqrt(n_draws))
        apart = z - z.mean(axis=0)
        products = apart.T @ apart / n_draws + machine.scale**2 * q.bias.variance
        error = 6.0 * np.sqrt(np.einsum("si,sj->ij", apart**2, apart**2) / n_draws - products**2) / np.sqrt(n_draws)
        assert np.all(np.abs(products - C) < error)
    # A trained user has their own prior.
    assert population_of(MODELS["regressor"][1].posterior_, MODELS["regressor"][0].transform([(0, 1), (0, 2)])) is None


def test_rows_of_features_and_what_freezes():
    pipeline = MODELS["regressor"]
    X = pipeline[0].transform([("new user", item) for item in range(ITEMS)])
    session = Session(pipeline[1], X, freeze="item", random_state=0)
    question = int(session.ask()[0])
    learnt = session.tell({question: 3.0}).model_
    items = pipeline[1].groups_[pipeline[1].posterior_.machine.prior.group] == "item"
    np.testing.assert_array_equal(learnt.weights_[items], pipeline[1].weights_[items])
    assert learnt.weights_[USERS] != pipeline[1].weights_[USERS]
    assert session.estimates().ids == list(range(ITEMS))
    dense = Session(pipeline[1], X.toarray(), freeze="item", random_state=0)
    assert int(dense.ask()[0]) == question
    assert select(pipeline[1], X, 3, "information").tolist() == Session(pipeline[1], X).ask(3).tolist()
    pairs = [("new user", item) for item in range(ITEMS)]
    assert select(pipeline, pairs, 3).tolist() == select(pipeline, n=3).tolist()


def test_limits_are_the_quantiles_at_5_and_95_percent():
    ratings, pair = Session(MODELS["regressor"], random_state=0), Session(MODELS["pairs"], [(0, 1)])
    # Of two items, each utility relative to the mean of both is half the difference.
    for session, factor in ((ratings, 1.0), (pair, 0.5)):
        value, low, high = session.estimates()[1:]
        std = factor * np.sqrt(session.belief_.variance)
        np.testing.assert_allclose(ndtr((low - value) / std), 0.05)
        np.testing.assert_allclose(ndtr((high - value) / std), 0.95)


def test_candidates_may_be_few():
    assert Session(MODELS["ratings"], [3, 5]).candidates_.tolist() == [3, 5]
    assert Session(MODELS["classifier"], [3, 5], user="z").candidates_.tolist() == [3, 5]
    session = Session(MODELS["pairs"], [(0, 1), (1, 2)])
    assert session.estimates().ids == [0, 1, 2]
    assert session.estimates().value.sum() == pytest.approx(0.0, abs=1e-9)
    # With all pairs, the best fit to them is the utilities themselves.
    everything = Session(MODELS["pairs"])
    np.testing.assert_allclose(
        everything.estimates().value, MODELS["pairs"].utility(everything.estimates().ids), atol=1e-9
    )
    a, b = _pairs_at(np.arange(10), 5)
    assert list(zip(a.tolist(), b.tolist(), strict=True)) == [(i, j) for i in range(5) for j in range(i + 1, 5)]
    many = GPPLClassifier().fit([[i, i + 1] for i in range(99)], np.ones(99))
    pairs = Session(many, random_state=0).candidates_
    assert len(set(pairs)) == len(pairs) == 2000
    assert all(a < b for a, b in pairs)


@pytest.mark.parametrize("name", ["levels", "drawn levels"])
def test_sessions_of_levels_learn_people_with_calibrated_levels(name):
    session, n_people = Session(MODELS[name]), 30
    held = np.arange(ITEMS) % 2 == 0
    error, loss, ranks = np.zeros((3, 2)), np.zeros((3, 2)), []
    for person in range(USERS, USERS + n_people):
        for kind, strategy in enumerate(("determinant", "random")):
            run = session.fresh(strategy, random_state=person)
            for step in range(3):
                if step:
                    rows = run.ask(5, among=np.flatnonzero(~held)).tolist()
                    run.tell({row: LEVELS[person, row].item() for row in rows})
                p, level = run.belief_.probability[held], LEVELS[person, held] - 1
                error[step, kind] += np.abs(p @ np.arange(1, 5) - LEVELS[person, held]).mean() / n_people
                loss[step, kind] -= np.log(p[np.arange(level.size), level]).mean() / n_people
                below = np.cumsum(p, axis=1)[np.arange(level.size), level]
                ranks.append(below - p[np.arange(level.size), level] * np.random.default_rng(person).random(level.size))
    assert np.all(np.diff(error, axis=0) < 0.0)
    assert np.all(np.diff(loss, axis=0) < 0.0)
    assert error[2].max() < 0.75 * error[0].min()
    # Intervals of 80 % hold before and after answers. The twelve levels of a person depend on each other.
    for step in range(3):
        covered = np.mean(np.abs(np.ravel(ranks[2 * step :: 6] + ranks[step::6]) - 0.5) <= 0.4)
        assert 0.72 < covered < 0.88


def test_where_1_is_the_best_grade_estimates_count_levels_from_0():
    low_is_good = {"class_order": [4, 3, 2, 1], "inference": "variational"}
    grades = Session(machine(VariationalFMOrdinal, 5 - LEVELS, **low_is_good), random_state=0)
    stars = Session(MODELS["levels"], random_state=0)
    for session, answer in ((grades, 1), (stars, 4)):
        session.tell({session.ask(1)[0]: answer})
    wanted, found = stars.estimates(), grades.estimates()
    for ours, theirs in zip(found[1:], wanted[1:], strict=True):
        np.testing.assert_allclose(ours, theirs - 1.0)
    assert np.all(found.low <= found.high)


def test_draws_of_an_unseen_user_are_those_of_the_trained_ones():
    pipeline = MODELS["drawn levels"]
    rows = pipeline[0].transform([("new user", item) for item in range(ITEMS)])
    X, posterior = sparse.csr_array(rows), pipeline[1].posterior_
    draws = draws_of_population(posterior, X)
    theta, bias = posterior.sampled.theta.astype(np.float64), posterior.sampled.bias
    assert draws.shape == (10 * len(bias), ITEMS)  # 10 of 60 users for each of 40 draws
    items = theta[:, USERS + 1 : -1]
    of_users = bias[:, None, None] + theta[:, :USERS, None, 0] + items[:, None, :, 0]
    of_users += np.einsum("suf,sif->sui", theta[:, :USERS, 1:], items[..., 1:])
    for s in (0, 7):
        for z in draws[s :: len(bias)]:
            assert np.abs(of_users[s] - z).max(axis=1).min() < 1e-5
    np.testing.assert_allclose(draws.mean(axis=0), of_users.mean(axis=(0, 1)), atol=0.25)
    assert draws_of_population(posterior, pipeline[0].transform([(0, 1), (0, 2)])) is None
    updated = Session(pipeline).tell({0: 4}, unasked=True).model_
    assert (pipeline[1].inference_, updated[1].inference_) == ("gibbs", "variational")


# -------------------------------------------------------------------------------------------------------------- replays
def test_e5_predictions_improve_with_the_number_of_questions():
    session = Session(MODELS["classifier"])

    def start(person, strategy, seed):
        return session.fresh(strategy, random_state=1000 * seed + person)

    held = np.arange(ITEMS) % 2 == 0
    run = replay(start, LIKES[USERS : USERS + 8], held, n_questions=6, batch=3, strategies=("random", "determinant"))
    assert run.asked.tolist() == [0, 3, 6]
    assert run.mean()["random"].shape == run.std()["random"].shape == (3,)
    for scores in run.scores.values():
        assert scores[0, 2] > scores[0, 0]


@pytest.mark.statistical
def test_e5_regret_of_200_people():
    rng, held = np.random.default_rng(5), np.arange(ITEMS) % 2 == 0
    pool, session = np.flatnonzero(~held), Session(MODELS["classifier"])
    loss, regret = ({"random": [], "determinant": []} for _ in range(2))
    for person in range(200):
        z = rng.standard_normal() + rng.standard_normal(2) @ SHAPE + 0.5 * rng.standard_normal(ITEMS)
        for strategy in loss:
            run = session.fresh(strategy, random_state=person)
            for _ in range(4):
                run.tell({int(row): int(z[row] > 0.0) for row in run.ask(1, among=pool)})
            p = run.belief_.probability[held, 1]
            loss[strategy].append(-np.mean(np.log(np.where(z[held] > 0.0, p, 1.0 - p))))
            regret[strategy].append(z[held].max() - z[held][np.argmax(p)])
    # Measured: t = -3.4 and -3.3.
    for measure in (loss, regret):
        apart = np.array(measure["determinant"]) - np.array(measure["random"])
        assert ttest_1samp(apart, 0.0, alternative="less").pvalue < 0.01


def test_replay_of_numbers_and_bad_shapes():
    def start(person, strategy, seed):
        return Session(MODELS["regressor"], strategy=strategy, random_state=seed + person)

    held = np.arange(ITEMS) >= 12
    result = replay(start, Z[USERS : USERS + 3], held, n_questions=50, batch=5, strategies=("determinant",))
    assert result.asked.tolist() == [0, 5, 10, 12]
    assert result.scores["determinant"][0, -1] > result.scores["determinant"][0, 0]
    for wrong in (held[:3], np.ones(ITEMS), np.zeros(ITEMS, dtype=bool), np.ones(ITEMS, dtype=bool)):
        with pytest.raises(DataError, match="held must"):
            replay(start, Z[:2], wrong)
    for name in ("n_questions", "batch"):
        with pytest.raises(DataError, match=f"{name} must be an integer of at least 1; got 0"):
            replay(start, Z[:2], held, **{name: 0})
    with pytest.raises(DataError, match="strategy must be one of"):
        replay(start, Z[:2], held, strategies=("best",))


# ------------------------------------------------------------------------------------------------------------ bad input
def test_rows_56_57_of_the_bad_inputs():
    model = MODELS["classifier"]
    for empty in ([], np.empty((0, 2))):
        with pytest.raises(DataError, match=r"no candidate left|at least 1"):
            Session(model, empty)
    with pytest.raises(DataError, match="no candidate left"):
        select(model[1], sparse.csr_array((0, 87)))
    session = Session(model, [3, 4], user="z")
    first = int(session.ask()[0])
    with pytest.raises(DataError, match=f"question {1 - first} was not asked"):
        session.tell({1 - first: 1})
    session.tell({first: 1})
    with pytest.raises(DataError, match=f"question {first} was answered before, with 1"):
        session.tell({first: 0})
    assert session.ask(5).tolist() == [1 - first]
    with pytest.raises(DataError, match="no candidate left: all questions have been asked"):
        session.ask()


def test_a_refused_answer_leaves_the_session_as_it_was():
    session = Session(MODELS["classifier"])
    a, b = session.ask(2).tolist()
    before = session.belief_.mean.copy()
    for wrong in (2, "yes", None, np.nan):
        with pytest.raises(DataError, match=r"an answer must be one of 0, 1; got"):
            session.tell({a: 1, b: wrong})
    assert session.answers_ == {}
    np.testing.assert_array_equal(session.belief_.mean, before)
    session.tell({a: 1, b: 0})


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("regressor", "5 stars"),
        ("regressor", np.inf),
        ("regressor", None),
        ("regressor", 10**400),
        ("ratings", 5),
        ("ratings", 2.5),
        ("pairs", 2),
        ("pairs", -1),
        ("pairs", np.nan),
        ("crowd", "left"),
        ("ratings", pd.NA),
    ],
)
def test_bad_answers(name, wrong):
    session = Session(MODELS[name])
    with pytest.raises(DataError, match="an answer"):
        session.tell({int(session.ask()[0]): wrong})


def test_bad_arguments():
    model, rows = MODELS["classifier"], MODELS["classifier"][0].transform(PAIRS[:4])
    with pytest.raises(DataError, match=r"strategy must be one of random, mean, .* got 'x'"):
        select(model, strategy="x")
    for n in (0, -1, 1.5, True, "3"):
        with pytest.raises(DataError, match="n must be an integer of at least 1; got"):
            select(model, n=n)
    for wrong in (LogisticRegression(), "model", None, make_pipeline(OneHotDesign(), GPPLClassifier())):
        with pytest.raises(DataError, match=r"one of VariationalFM, .* GibbsM3F, .* or a Pipeline that ends"):
            Session(wrong)
    for unfitted in (VariationalFM(), GPPLClassifier(), CrowdGPPL(), GibbsM3F()):
        with pytest.raises(NotFittedError):
            Session(unfitted, rows)
    with pytest.raises(DataError, match="needs rows of features as candidates"):
        Session(model[1])
    with pytest.raises(DataError, match="needs rows of features as candidates"):
        Session(model[1], rows, user="z")
    with pytest.raises(ValueError, match="X has 3 features, but"):
        Session(model[1], np.eye(3)).ask()
    with pytest.raises(DataError, match="freeze is for factorization machines"):
        Session(MODELS["pairs"], freeze="item")
    with pytest.raises(DataError, match="has no users; got user 'z'"):
        Session(MODELS["pairs"], user="z")
    with pytest.raises(DataError, match="user 3 has ratings already: fold_in adds new users only"):
        Session(MODELS["ratings"], user=3)
    with pytest.raises(UnknownIdError, match="unknown item 99"):
        Session(MODELS["ratings"], [99]).ask()
    with pytest.raises(UnknownIdError, match=r"unknown item|refers to item 99"):
        Session(MODELS["pairs in order"], [[99, 98]]).ask()
    session = Session(model)
    for among in ([-1], [99], [[1]], [0.5], "abc"):
        with pytest.raises(DataError, match="among must be"):
            session.ask(among=among)
    with pytest.raises(DataError, match="no candidate left"):
        session.ask(among=[])
    with pytest.raises(DataError, match="freeze names group 'other', which is not one of"):
        Session(model[1], rows, freeze="other")
    with pytest.raises(DataError, match=r"covariance of 5001 candidates needs 0.2 GB; give at most 5000"):
        select(model[1], sparse.vstack([rows[:1]] * 5001), 2, "determinant")


def test_answers_are_a_mapping():
    for wrong in ([1, 2], None, 3.0):
        with pytest.raises(DataError, match="answers must be a mapping of rows to answers"):
            Session(MODELS["classifier"]).tell(wrong)


# ----------------------------------------------------------------------------------------------- interrupted, corrected
def asked_and_told(name, n=3):
    session = Session(MODELS[name], random_state=0)
    return session.tell({int(row): ANSWER[name] for row in session.ask(n)[:2]})


@pytest.mark.parametrize("name", FITS)
def test_a_session_resumes_from_a_pickle_and_from_a_file(name, tmp_path):
    session = asked_and_told(name)
    session.save(tmp_path / "session.json")
    for again in (pickle.loads(pickle.dumps(session)), Session.load(tmp_path / "session.json", MODELS[name])):
        assert again.answers_ == session.answers_
        np.testing.assert_allclose(again.belief_.mean, session.belief_.mean)
        np.testing.assert_array_equal(again.ask(2), Session.load(tmp_path / "session.json", MODELS[name]).ask(2))
        assert list(again.candidates_) == list(session.candidates_)


def test_random_questions_resume_where_they_were(tmp_path):
    session = Session(MODELS["crowd"], strategy="random", user=3, min_gain=1e-6, random_state=0)
    session.ask(2)
    session.save(tmp_path / "session.json")
    again = Session.load(tmp_path / "session.json", MODELS["crowd"])
    np.testing.assert_array_equal(again.ask(5), session.ask(5))
    np.testing.assert_array_equal(again.belief_.mean, session.belief_.mean)


def test_rows_of_features_are_passed_again(tmp_path):
    model = MODELS["classifier"]
    rows = model[0].transform(PAIRS[:4])
    session = Session(model[-1], rows)
    session.tell({int(session.ask()[0]): 1})
    session.save(tmp_path / "session.json")
    again = Session.load(tmp_path / "session.json", model[-1], rows)
    assert again.answers_ == session.answers_
    with pytest.raises(DataError, match="pass the rows of features as candidates"):
        Session.load(tmp_path / "session.json", model[-1])


def test_files_that_are_no_sessions_are_refused(tmp_path):
    path = tmp_path / "session.json"
    asked_and_told("pairs").save(path)
    text = path.read_text("utf-8")
    for wrong, message in [
        ("{", "cannot be read as JSON"),
        ("[]", "not a session that Session.save wrote"),
        (text.replace('"determinant"', '"best"'), "a damaged session"),
        (text.replace('"asked": [', '"asked": [-1, '), "a damaged session: asked and answers must name rows"),
        (text.replace('"asked": [', '"asked": [999, '), "question 999 was asked, but there are 28 candidates"),
        (text.replace("PCG64", "Pickle"), "its generator cannot be restored"),
    ]:
        path.write_text(wrong, "utf-8")
        with pytest.raises(DataError, match=message):
            Session.load(path, MODELS["pairs"])
    path.write_text(text, "utf-8")
    with pytest.raises(DataError, match="candidates are in the file"):
        Session.load(path, MODELS["pairs"], [(0, 1)])
    with pytest.raises(DataError, match=r"only numbers and texts can be saved; got b'u'"):
        Session(MODELS["classifier"], user=b"u").save(path)
    assert path.read_text("utf-8") == text
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", FITS)
def test_answers_are_corrected_and_undone(name):
    other = {"classifier": 0, "regressor": -1.0, "ratings": 1, "features": 1, "pairs": 0.5, "pairs in order": 1}.get(
        name, 1
    )
    session = asked_and_told(name)
    first, second = session.answers_
    before = session.belief_.mean.copy()
    right = Session(MODELS[name], random_state=0)
    right.ask(3)
    right.tell({first: other, second: ANSWER[name]})
    np.testing.assert_allclose(session.correct({first: other}).belief_.mean, right.belief_.mean)
    assert list(session.answers_.items()) == [(first, other), (second, ANSWER[name])]
    np.testing.assert_allclose(session.correct({first: ANSWER[name]}).belief_.mean, before)
    session.undo()
    assert list(session.answers_) == [first]
    assert second in session.ask(len(session.candidates_))
    session.undo()
    np.testing.assert_allclose(session.belief_.mean, Session(MODELS[name]).belief_.mean)


def test_what_cannot_be_corrected():
    session = asked_and_told("pairs")
    row = next(iter(session.answers_))
    before = session.belief_.mean.copy()
    with pytest.raises(DataError, match="question 99 was not answered; use tell"):
        session.correct({row: 0, 99: 1})
    with pytest.raises(DataError, match="an answer about a pair must be"):
        session.correct({row: 2})
    with pytest.raises(DataError, match="n is 3, but there are 2 answers to undo"):
        session.undo(3)
    with pytest.raises(DataError, match="n must be an integer of at least 1"):
        session.undo(0)
    np.testing.assert_array_equal(session.belief_.mean, before)


def test_answers_that_were_given_elsewhere():
    session = Session(MODELS["crowd"])
    with pytest.raises(DataError, match=r"question 5 was not asked\. tell\(answers, unasked=True\) adds"):
        session.tell({5: 1})
    session.tell({5: 0.5}, unasked=True)
    assert session.answers_ == {5: 0.5}
    assert 5 not in session.ask(100)
    for row in (28, -1, "5"):
        with pytest.raises(DataError, match="was not asked"):
            session.tell({row: 1}, unasked=True)


def test_asking_stops_where_little_is_to_be_learnt():
    session = Session(MODELS["crowd"], min_gain=0.1)
    gains = []
    while session.gain_ >= 0.1:
        gains.append(session.gain_)
        session.tell({int(session.ask()[0]): 1})
    with pytest.raises(DataError, match=r"no candidate left with an expected gain of at least min_gain=0\.1 nats"):
        session.ask()
    assert 0 < len(session.answers_) < len(session.candidates_)
    assert gains[0] > 0.1 > session.gain_ > 0.0
    assert session.fresh()._min_gain == 0.1
    everything = Session(MODELS["pairs"])
    everything.ask(100)
    assert everything.gain_ == 0.0
    for wrong in (-1.0, np.nan, "0", True):
        with pytest.raises(DataError, match="min_gain must be a number of at least 0"):
            Session(MODELS["pairs"], min_gain=wrong)


def test_a_model_of_pairs_learns_the_answers():
    session = asked_and_told("pairs")
    updated = session.model_
    row = next(iter(session.answers_))
    left, right = session.candidates_[row]
    counted = updated.win_matrix([left, right]).n_comparisons[0, 1]
    assert counted == MODELS["pairs"].win_matrix([left, right]).n_comparisons[0, 1] + 1
    assert Session(MODELS["pairs"]).model_ is not MODELS["pairs"]


def test_items_of_the_table_that_nobody_compared_are_asked_about():
    table = Table(np.arange(4.0)[:, None], ids=list("abcd"))
    model = GPPLClassifier(table, optimizer=None).fit([("a", "b"), ("b", "a")], [1, 0])
    assert len(Session(model).candidates_) == 6


def test_models_of_data_frames_are_asked_without_warnings():
    votes = pd.DataFrame(CROWD.comparisons, columns=["user", "left", "right"])
    ratings = pd.DataFrame(PAIRS, columns=["user", "item"])
    for model, row in (
        (CrowdGPPL(n_factors=1, random_state=0).fit(votes, CROWD.y), 0),
        (GPPLClassifier().fit(votes[["left", "right"]], CROWD.y), 0),
        (GibbsM3F(2, max_iter=8, burn_in=4, random_state=0).fit(ratings, LEVELS[KNOWN].ravel()), 1),
    ):
        session = Session(model, random_state=0)
        session.tell({int(session.ask()[0]): row})
        assert type(session.model_) is type(model)  # warnings are errors


def test_a_model_of_groups_has_no_sessions():
    answers = [(*row, "code") for row in np.asarray(CROWD.comparisons[:200]).tolist()]
    model = CrowdGPPL(n_factors=1, groups=[3], random_state=0).fit(answers, CROWD.y[:200])
    with pytest.raises(DataError, match=r"the model has groups=\[3\]: fit a CrowdGPPL without groups"):
        Session(model)


def test_candidates_go_through_all_steps_before_the_last():
    model = MODELS["regressor"]
    doubled = make_pipeline(model[0], FunctionTransformer(lambda X: 2.0 * X), model[1])
    plain, twice = (MachineUser.from_model(each, [3, 5], None, None, RNG).rows.toarray() for each in (model, doubled))
    np.testing.assert_array_equal(twice, 2.0 * plain)


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "session.json").mkdir()
    with pytest.raises(OSError):
        Session(MODELS["crowd"]).save(tmp_path / "session.json")
    assert [path.name for path in tmp_path.iterdir()] == ["session.json"]
