"""Rankings and matrices of wins of a crowd: scales, numbers of comparisons, one user or all."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skpref import CrowdGPPL, GPPLClassifier
from skpref.exceptions import DataError, UnknownIdError
from skpref.gp.crowd import leaderboards
from skpref.plots import RankingDisplay, WinMatrixDisplay, offscreen_axes
from tests.policies import set_policy

_rng = np.random.default_rng(0)
N = 120
A = _rng.integers(0, 4, N)
B = (A + _rng.integers(1, 4, N)) % 4
USER = np.array(["ann", "bob", "cat"])[_rng.integers(0, 3, N)]
ITEM = np.array(list("wxyz"))
X = np.column_stack([USER, ITEM[A], ITEM[B]]).astype(object)
Y = (A - B + _rng.standard_normal(N) > 0.0).astype(int)


@pytest.fixture(scope="module", params=["ep", "vb"])
def model(request):
    likelihood = "logit" if request.param == "ep" else "probit"
    return CrowdGPPL(n_factors=1, inference=request.param, likelihood=likelihood, tol=0.1, random_state=0).fit(X, Y)


@pytest.mark.parametrize("user", [None, "bob"])
def test_points_of_elo(model, user):
    plain, elo = model.rank(user=user), model.rank(user=user, scale="elo")
    points = 400.0 / np.log(10.0) if "Logit" in type(model.likelihood_).__name__ else 289.8
    assert_allclose(elo.utility, 1500.0 + points * plain.utility, rtol=1e-4)
    assert elo.id.tolist() == plain.id.tolist()
    assert elo.anchored("w", at=1000.0)["utility"][elo.id.tolist().index("w")] == 1000.0
    assert (elo.tied_rank <= elo.rank).all()
    with pytest.raises(DataError, match="scale must be 'utility' or 'elo'; got 'points'"):
        model.rank(scale="points")


def test_comparisons_are_counted_for_all_or_for_one_user(model):
    for user, mine in ((None, np.full(N, True)), ("bob", USER == "bob")):
        ranking = model.rank(user=user)
        expected = [((X[mine, 1:] == item).any(axis=1)).sum() for item in ranking.id]
        assert ranking.n_comparisons.tolist() == expected


def test_who_beats_whom(model):
    wins = model.win_matrix()
    assert wins.id.tolist() == model.rank().id.tolist()
    pairs = [("nobody", a, b) for a in wins.id for b in wins.id if a != b]
    assert_allclose(wins.predicted[~np.eye(4, dtype=bool)], model.predict_proba(pairs)[:, 1], rtol=1e-6)
    assert np.isnan(np.diag(wins.predicted)).all()
    w, z = wins.id.tolist().index("w"), wins.id.tolist().index("z")
    met = (np.sort(X[:, 1:].astype(str), axis=1) == ["w", "z"]).all(axis=1)
    assert wins.n_comparisons[w, z] == met.sum()
    assert wins.observed[z, w] == pytest.approx(np.mean((X[met, 1] == "z") == Y[met]))


def test_who_beats_whom_by_one_user(model):
    wins = model.win_matrix(["z", "w"], user="bob")
    assert wins.predicted[0, 1] == pytest.approx(model.predict_proba([("bob", "z", "w")])[0, 1], rel=1e-6)
    mine = (USER == "bob") & (np.sort(X[:, 1:].astype(str), axis=1) == ["w", "z"]).all(axis=1)
    assert wins.n_comparisons[0, 1] == mine.sum()
    assert model.win_matrix(user="bob").id.tolist() == model.rank(user="bob").id.tolist()


def test_order_effects_are_left_out():
    biased = CrowdGPPL(n_factors=1, order_effect=True, tol=0.1, random_state=0).fit(X, Y)
    wins = biased.win_matrix()
    assert_allclose(wins.predicted + wins.predicted.T, np.where(np.eye(4), np.nan, 1.0), atol=1e-12)


def test_displays(model):
    shown = WinMatrixDisplay.from_estimator(model, ax=offscreen_axes())
    assert len(shown.ids) == 4
    ranking = model.rank(user="ann", scale="elo")
    assert "Elo points" in RankingDisplay.from_ranking(ranking, ax=offscreen_axes()).ax_.get_xlabel()


@pytest.mark.filterwarnings("ignore:unknown user")
def test_what_cannot_be_shown_is_refused(model, monkeypatch):
    with pytest.raises(UnknownIdError, match="unknown item 'q'"):
        model.win_matrix(["q", "w"])
    with pytest.raises(DataError, match="user must be the id of one user"):
        model.win_matrix(user=["ann"])
    set_policy(monkeypatch, "gp.crowd", most_matrix=3)
    with pytest.raises(DataError, match="win_matrix of 4 items: it takes at most 3; name the items"):
        model.win_matrix()
    users = [*model.user_ids_[:2].tolist(), "zoe"]
    set_policy(monkeypatch, "gp.crowd", most_personal=12)
    assert model.utility(users=users).shape == (3, 4)
    set_policy(monkeypatch, "gp.crowd", most_personal=11)
    with pytest.raises(DataError, match=r"Utilities of 3 users by 4 items take 0\.0 GB; pass fewer"):
        model.utility(users=users)


def test_ranks_are_from_as_many_draws_as_asked_for(model, monkeypatch):
    sizes = []
    sample = type(model.posterior_).sample

    def counted(self, users, items, n_samples, rng):
        sizes.append(n_samples)
        return sample(self, users, items, n_samples, rng)

    monkeypatch.setattr(type(model.posterior_), "sample", counted)
    model.rank(user="bob", n_samples=70)
    assert sizes == [70]
    # A draw holds a number for each of 4 items and 1 factor: 25 draws at a time.
    monkeypatch.setattr(leaderboards, "_MAX_DRAWN", 100)
    model.rank(user="bob", n_samples=70)
    assert sizes[1:] == [25, 25, 20]
    monkeypatch.setattr(leaderboards, "_MAX_DRAWN", 1)
    model.rank(user="bob", n_samples=3)
    assert sizes[4:] == [1, 1, 1]


@pytest.mark.parametrize("column", ["user", "groups"])
def test_answers_about_one_prompt_are_not_independent_where_prompts_are_named(column):
    rng = np.random.default_rng(0)
    truth, prompt, a = np.linspace(1.0, -1.0, 6), np.repeat(np.arange(80), 20), rng.integers(0, 6, 1600)
    b = (a + rng.integers(1, 6, 1600)) % 6
    u = truth + rng.standard_normal((80, 6))  # how well a model answers a prompt
    y = (rng.random(1600) < 1.0 / (1.0 + np.exp(u[prompt, b] - u[prompt, a]))).astype(float)
    battles = pd.DataFrame({"judge": np.arange(1600) % 5, "prompt": prompt, "a": a, "b": b})
    named = {"user": "prompt"} if column == "user" else {"user": "judge", "groups": ["prompt"]}
    sides = {"left": "a", "right": "b", "likelihood": "logit", "random_state": 0}
    by_prompt, alone = CrowdGPPL(**named, **sides).fit(battles, y), GPPLClassifier(**sides).fit(battles, y)
    mean, std = by_prompt.utility(np.arange(6), return_std=True)
    assert (np.abs(mean - truth) < 3.0 * std).all()
    assert (std > 1.5 * alone.utility(np.arange(6), return_std=True)[1]).all()
