"""Teams of players, and groups in which items differ, in `GPPLClassifier`."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import skpref
from skpref import GPPLClassifier, Table
from skpref.cli.main import main
from skpref.data import Comparisons
from skpref.exceptions import DataError, DataWarning, UnknownIdError
from skpref.gp.pairwise.posterior import item_slots, join_equal, weighted_rows
from skpref.search import default_space
from skpref.tracking import save_model
from tests.policies import set_policy

SIDES = {"left": ["a", "b"], "right": ["c", "d"]}
PLAYERS = np.array([f"p{k}" for k in range(12)])
SKILL = np.linspace(-1.5, 1.5, 12)


def doubles(n=300, seed=0, singles=0):
    """Games of two against two; the first ones have one player a side."""
    rng = np.random.default_rng(seed)
    chosen = np.array([rng.choice(12, 4, replace=False) for _ in range(n)])
    sign = np.array([1.0, 1.0, -1.0, -1.0])
    frame = pd.DataFrame(PLAYERS[chosen], columns=list("abcd")).astype(object)
    frame.loc[: singles - 1, ["b", "d"]] = None
    weight = np.where(frame.isna(), 0.0, sign)
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-(SKILL[chosen] * weight).sum(axis=1)))
    return frame.assign(day=rng.uniform(0.0, 3.0, n), where=rng.choice(["in", "out"], n)), y


@pytest.fixture(scope="module")
def fitted():
    frame, y = doubles(singles=60)
    return GPPLClassifier(**SIDES, likelihood="logit").fit(frame, y), frame, y


def test_players_are_ranked_by_their_share_in_wins(fitted):
    model, frame, y = fitted
    utility, std = model.utility(PLAYERS, return_std=True)
    assert np.corrcoef(utility, SKILL)[0, 1] > 0.9
    assert np.mean(np.abs(utility - SKILL) < 2.0 * std) > 0.8
    assert model.score(frame, y) > 0.7
    assert model.rank().n_comparisons.sum() == 240 * 4 + 60 * 2
    assert set(model.item_ids_) == set(PLAYERS)


def test_single_players_are_teams_of_one(fitted):
    """Games of single players, written as teams, are the model of items."""
    frame, y = doubles(singles=300)
    teams = GPPLClassifier(**SIDES, likelihood="logit").fit(frame, y)
    items = GPPLClassifier(left="a", right="c", likelihood="logit", time="still", dynamics="constant")
    with pytest.warns(UserWarning, match="same time"):
        clone(items).set_params(dynamics="drift").fit(frame.assign(still=1.0), y)
    items.fit(frame.assign(still=1.0), y)
    assert_allclose(teams.predict_proba(frame), items.predict_proba(frame.assign(still=1.0)), rtol=1e-6)


def test_a_cell_may_be_a_list_of_players(fitted):
    model, frame, y = fitted
    lists = frame.assign(
        home=[[p for p in row if p is not None] for row in frame[["a", "b"]].to_numpy()],
        away=[tuple(p for p in row if p is not None) for row in frame[["c", "d"]].to_numpy()],
    )[["home", "away"]]
    same = GPPLClassifier(left=["home"], right=["away"], likelihood="logit").fit(lists, y)
    assert_allclose(same.predict_proba(lists), model.predict_proba(frame), rtol=1e-9)
    pairs = [[("p0", "p1"), ("p2", "p3")], ["p4", "p5"]]
    rows = pd.DataFrame([["p0", "p1", "p2", "p3"], ["p4", None, "p5", None]], columns=list("abcd"))
    assert_allclose(model.predict_proba(pairs), model.predict_proba(rows))


def test_the_mean_of_a_team_is_half_the_sum_of_two():
    """A fixed prior of twice the width makes both the same model."""
    frame, y = doubles()
    total = GPPLClassifier(**SIDES, likelihood="logit", optimizer=None).fit(frame, y)
    mean = GPPLClassifier(**SIDES, likelihood="logit", optimizer=None, team="mean").fit(frame, y)
    assert mean.dynamics_.start_sd == total.dynamics_.start_sd
    utility = total.utility(PLAYERS), mean.utility(PLAYERS)
    assert np.corrcoef(*utility)[0, 1] > 0.999
    assert utility[1].std() > 1.2 * utility[0].std()


def test_teams_with_everything(tmp_path):
    """Times, features of players, covariates, the left side, groups and ties in one model, kept by a file."""
    frame, y = doubles(n=200, singles=20)
    frame["length"] = np.random.default_rng(1).normal(size=200)
    answers = np.where(np.arange(200) % 9 == 0, 0.5, y.astype(float))
    items = Table(np.column_stack([SKILL, SKILL**2]), ids=PLAYERS)
    model = GPPLClassifier(
        items,
        **SIDES,
        time="day",
        dynamics="drift",
        covariates=["length"],
        order_effect=True,
        groups=["where"],
        likelihood="logit-ties",
    ).fit(frame[:150], answers[:150])
    p = model.predict_proba(frame, ties=True)
    assert_allclose(p.sum(axis=1), 1.0)
    assert np.isfinite(model.curves(PLAYERS[:2], groups={"where": "in"}).to_numpy()[:, 2:].astype(float)).all()
    inside, std = model.utility(PLAYERS, at=1.0, groups={"where": "in"}, return_std=True)
    assert (std > 0.0).all()
    assert not np.allclose(inside, model.utility(PLAYERS, at=1.0))
    skpref.save(model, tmp_path / "model.skpref")
    loaded = skpref.load(tmp_path / "model.skpref")
    assert_allclose(loaded.predict_proba(frame), model.predict_proba(frame), rtol=1e-12)
    later = frame[150:].sort_values("day").assign(day=lambda rows: rows.day + 3.0)
    before = model.predict_proba(later)
    loaded.update(later, answers[later.index])
    assert not np.allclose(loaded.predict_proba(later), before)
    assert_allclose(model.partial_fit(later, answers[later.index]).predict_proba(frame).sum(axis=1), 1.0)


def test_teams_from_a_file_are_those_in_memory(tmp_path, fitted):
    model, frame, y = fitted
    frame.assign(y=y.astype(int)).to_parquet(tmp_path / "games.parquet")
    stored = clone(model).fit(tmp_path / "games.parquet", "y")
    assert_allclose(stored.predict_proba(frame)[:, 1], model.predict_proba(frame)[:, 1], atol=1e-8)


def test_a_fit_to_files_after_one_of_groups_is_one_of_files(tmp_path):
    """Nothing of times and groups is left, and it can be saved."""
    frame, y, _ = surfaces(n=100)
    frame.assign(y=y.astype(int)).to_parquet(tmp_path / "pairs.parquet")
    model = GPPLClassifier(groups=["surface"]).fit(frame, y).set_params(groups=None)
    model.fit(tmp_path / "pairs.parquet", "y")
    assert not hasattr(model, "moving_posterior_")
    skpref.save(model, tmp_path / "model.skpref")
    pairs = frame[["left", "right"]]
    assert_allclose(skpref.load(tmp_path / "model.skpref").predict_proba(pairs), model.predict_proba(pairs))


def test_cross_validation_takes_teams():
    frame, y = doubles()
    assert cross_val_score(GPPLClassifier(**SIDES), frame, y, cv=3).mean() > 0.6


@pytest.mark.parametrize("kind", ["frame", "lists", "array"])
def test_served_models_take_teams(tmp_path, kind):
    """Also where the first rows lack a player, a cell is a list, or columns are positions, the right side first."""
    mlflow = pytest.importorskip("mlflow")
    frame, y = doubles(n=60, singles=5 if kind == "frame" else 0)
    rows, sides = frame[list("abcd")], SIDES
    if kind == "lists":
        rows = pd.DataFrame({side: frame[columns].to_numpy().tolist() for side, columns in SIDES.items()})
        sides = {"left": ["left"], "right": ["right"]}
    elif kind == "array":
        rows, sides = rows.to_numpy(), {"left": [2, 3], "right": [0, 1]}
    model = GPPLClassifier(**sides).fit(rows, y)
    save_model(model, tmp_path / "served", rows)
    served = mlflow.pyfunc.load_model(str(tmp_path / "served"))
    asked = pd.DataFrame(rows).rename(columns=str)
    assert_allclose(served.predict(asked, params={"return_proba": True}), model.predict_proba(rows))
    assert set(served.predict(asked, params={"rank": True}).id) <= set(model.item_ids_)


def test_odd_teams_are_refused(fitted):
    model, frame, y = fitted
    with pytest.raises(DataError, match="both are lists of columns"):
        GPPLClassifier(left=["a", "b"], right="c").fit(frame, y)
    with pytest.raises(DataError, match="are the same column"):
        GPPLClassifier(left=["a", "b"], right=["b", "d"]).fit(frame, y)
    twice = pd.DataFrame([["p1", "p2", "p3", "p1"]], columns=list("abcd"))
    with pytest.raises(DataError, match="has player 'p1' twice"):
        GPPLClassifier(**SIDES).fit(twice, [1])
    with pytest.raises(DataError, match=r"row 2, column 'a': a team has no players"):
        GPPLClassifier(**SIDES).fit(frame.assign(a=None, b=[None if k == 2 else "p0" for k in range(300)]), y)
    with pytest.raises(DataError, match="there is no column 'd'"):
        model.predict(frame[["a", "b", "c"]])
    with pytest.raises(DataError, match=r"checkpoint=.* is not for models with time, groups, context or teams"):
        GPPLClassifier(**SIDES, checkpoint="x", random_state=0).fit(frame, y)
    with pytest.raises(DataError, match="has player 'p1' twice"):
        model.predict_proba([[("p1", "p1"), ("p2", "p3")]])
    text = pd.DataFrame({"home": ["['p0', 'p1']"], "away": ["['p2']"]})
    with pytest.raises(DataError, match="a list of players as text"):
        GPPLClassifier(left=["home"], right=["away"]).fit(text, [1])
    with pytest.raises(DataError, match="needs utilities that move"):
        model.rank(at=1)
    with pytest.raises(DataError, match="is not for models without time"):
        GPPLClassifier(**SIDES, dynamics="drift").fit(frame, y)
    with pytest.raises(DataError, match="team differs from that of the fit"):
        clone_of(model).set_params(team="mean").partial_fit(frame, y)


def clone_of(model):
    frame, y = doubles(n=40)
    return clone(model).fit(frame, y)


def test_records_of_teams_count_every_player():
    left, right = np.array([[0, 1], [2, -1]]), np.array([[2, 3], [4, -1]])
    teams = Comparisons(left, right, np.array([1.0, 0.0]), np.array([1.0, 2.0]), 6)
    assert teams.counts().tolist() == [1, 1, 3, 1, 2, 0]
    assert teams.components()[1].tolist() == [0, 0, 0, 0, 0, -1]
    assert teams.single_pairs().left.tolist() == [2]
    compact, items = teams.compact()
    assert items.tolist() == [0, 1, 2, 3, 4]
    assert compact.left.tolist() == left.tolist()
    for bad in (np.array([[0, 0], [2, -1]]), np.array([[-1, 1], [2, -1]]), np.array([[0, 9], [2, -1]])):
        with pytest.raises(DataError):
            Comparisons(bad, right, np.ones(2), np.ones(2), 6)


# ------------------------------------------------------------------------------------------------------------- groups
def surfaces(n=1500, sd=0.8, seed=0):
    rng = np.random.default_rng(seed)
    skill = np.linspace(-1.0, 1.0, 12) + sd * rng.normal(size=(3, 12))
    surface, left = rng.integers(3, size=n), rng.integers(12, size=n)
    right = (left + rng.integers(1, 12, n)) % 12
    y = rng.random(n) < 1.0 / (1.0 + np.exp(skill[surface, right] - skill[surface, left]))
    frame = pd.DataFrame({"left": PLAYERS[left], "right": PLAYERS[right]})
    return frame.assign(surface=np.array(["clay", "grass", "hard"])[surface]), y, skill


def test_items_differ_in_groups():
    frame, y, skill = surfaces()
    model = GPPLClassifier(groups=["surface"], likelihood="logit").fit(frame, y)
    assert 0.3 < np.sqrt(model.group_scales_[0]) < 1.2
    inside = 0
    for k, name in enumerate(["clay", "grass", "hard"]):
        utility, std = model.utility(PLAYERS, groups={"surface": name}, return_std=True)
        inside += np.sum(np.abs(utility - skill[k] + skill[k].mean()) < 1.645 * std)
    assert 28 <= inside <= 36
    clay = model.rank(groups={"surface": "clay"})
    assert clay.n_comparisons.sum() == 2 * np.sum(frame.surface == "clay")
    assert model.win_matrix(groups={"surface": "clay"}).n_comparisons.sum() == 2 * np.sum(frame.surface == "clay")
    # An unseen group has the mean of all, and its own variance.
    new = frame.assign(surface="carpet")
    (mean, variance), (known, _) = (model.latent_mean_and_variance(rows) for rows in (new, frame))
    assert not np.allclose(mean, known)
    assert (variance > 2.0 * model.group_scales_[0]).all()


def test_draws_of_utilities_have_groups():
    frame, y, _ = surfaces(n=300)
    model = GPPLClassifier(groups=["surface"], likelihood="logit").fit(frame, y)
    drawn = model.sample_utility(PLAYERS, 4000, random_state=0, groups={"surface": "clay"})
    mean, std = model.utility(PLAYERS, groups={"surface": "clay"}, return_std=True)
    assert_allclose(drawn.mean(axis=1), mean, atol=0.05)
    assert_allclose(drawn.std(axis=1), std, rtol=0.1)


def test_update_learns_the_differences_between_groups():
    """As a fit to all: intervals get narrower, and the items of each surface follow their answers there."""
    frame, y, _ = surfaces(n=1600)
    frame["t"] = np.linspace(0.0, 1.0, 1600)
    model = GPPLClassifier(groups=["surface"], likelihood="logit", time="t", dynamics="constant")
    model.fit(frame[:400], y[:400])
    asked = frame.assign(t=1.0)
    before = model.latent_mean_and_variance(asked)[1].mean()
    both = clone(model).fit(frame[:400], y[:400]).partial_fit(frame[400:], y[400:])
    mean, variance = both.latent_mean_and_variance(asked)
    found, spread = model.update(frame[400:], y[400:]).latent_mean_and_variance(asked)
    assert variance.mean() < 0.6 * before
    assert_allclose(spread.mean(), variance.mean(), rtol=0.1)
    assert np.sqrt(np.mean((found - mean) ** 2 / variance)) < 0.4


def test_update_takes_new_groups_and_items(tmp_path):
    """What it says of a new group is known up to the difference there."""
    frame, y, _ = surfaces(n=400)
    frame["t"] = np.linspace(0.0, 1.0, 400)
    model = GPPLClassifier(groups=["surface"], likelihood="logit", time="t", dynamics="constant").fit(frame, y)
    later = pd.DataFrame({"left": "new", "right": PLAYERS[np.arange(300) % 12], "surface": "sand", "t": 2.0})
    model.update(later, np.ones(300))
    mean, std = model.utility(["new", "p1"], groups={"surface": "sand"}, return_std=True)
    assert mean[0] > mean[1]
    assert (std**2 > model.group_scales_[0]).all()
    skpref.save(model, tmp_path / "model.skpref")
    assert_allclose(skpref.load(tmp_path / "model.skpref").predict_proba(later), model.predict_proba(later))


def test_other_groups_and_teams_than_those_of_fit_are_refused(fitted):
    frame, y, _ = surfaces(n=100)
    model = GPPLClassifier(groups=["surface"]).fit(frame, y)
    rows = frame.assign(court=1)
    model.fit(rows, y)
    for groups in (["surface", "court"], ["court"]):  # another column of the same number, too
        model.set_params(groups=groups)
        for call in (
            lambda: model.predict(rows),
            lambda: model.partial_fit(rows, y),
            lambda: model.rank(groups={"court": 1}),
        ):
            with pytest.raises(DataError, match=r"groups differs from that of the fit, which had \['surface'\]"):
                call()
    with pytest.raises(DataError, match="groups differs from that of the fit"):
        model.set_params(groups=None).rank(groups={"surface": "clay"})
    games, won = doubles(n=40)
    other = GPPLClassifier(left="a", right="c", groups=["where"]).fit(games, won).set_params(**SIDES)
    with pytest.raises(DataError, match="whether left and right are teams differs from that of the fit"):
        other.partial_fit(games, won)


def test_covariances_of_teams_and_in_groups(fitted):
    model, games, _ = fitted
    C = model.latent_covariance(games[:30])
    assert_allclose(np.diagonal(C), model.latent_mean_and_variance(games[:30])[1], rtol=1e-9)
    frame, y, _ = surfaces(n=300)
    items = Table(np.column_stack([SKILL, SKILL**2]), ids=PLAYERS)
    model = GPPLClassifier(items, groups=["surface"], order_effect=True, likelihood="logit").fit(frame[:40], y[:40])
    for surface in ("clay", "sand"):  # sand is new, and so are some players
        rows = frame[40:100].assign(surface=surface)
        C = model.latent_covariance(rows)
        assert_allclose(np.diagonal(C), model.latent_mean_and_variance(rows)[1], rtol=1e-9)
        assert np.linalg.eigvalsh(C).min() > -1e-9
    with pytest.raises(DataError, match="of rows of one time in the same groups"):
        model.latent_covariance(frame)


def test_too_many_groups_are_refused(monkeypatch):
    frame, y, _ = surfaces(n=100)
    monkeypatch.setattr("skpref.gp.pairwise.over_time.half_of_memory", lambda: 1e6)
    with pytest.raises(DataError, match="100 groups of 12 items need"):
        GPPLClassifier(groups=["surface"]).fit(frame.assign(surface=range(100)), y)


def test_many_groups_are_a_warning(monkeypatch):
    frame, y, _ = surfaces(n=40)
    set_policy(monkeypatch, "gp.pairwise", slow_groups=1e5)
    with pytest.warns(DataWarning, match=r"between 40 groups of 12 items take more than a minute.*`user` of CrowdGPPL"):
        GPPLClassifier(groups=["surface"]).fit(frame.assign(surface=range(40)), y)


def test_groups_without_differences_vanish():
    frame, y, _ = surfaces(sd=0.0)
    model = GPPLClassifier(groups=["surface"], likelihood="logit").fit(frame, y)
    pooled = GPPLClassifier(likelihood="logit").fit(frame[["left", "right"]], y)
    assert model.group_scales_[0] < 0.1
    difference = model.predict_proba(frame) - pooled.predict_proba(frame[["left", "right"]])
    assert np.abs(difference).mean() < 0.05


def test_unknown_groups_are_refused_by_name():
    frame, y, _ = surfaces(n=100)
    model = GPPLClassifier(groups=["surface"]).fit(frame, y)
    with pytest.raises(UnknownIdError, match=r"unknown group 'sand' of groups='surface'"):
        model.rank(groups={"surface": "sand"})
    with pytest.raises(DataError, match="groups names the column 'court'"):
        model.utility(groups={"court": "clay"})
    with pytest.raises(DataError, match="fitted without groups"):
        GPPLClassifier().fit(frame[["left", "right"]], y).rank(groups={"surface": "clay"})


def test_tasks_have_groups():
    rng = np.random.default_rng(3)
    shown = np.array([rng.choice(12, 3, replace=False) for _ in range(400)])
    where = rng.integers(2, size=400)
    skill = np.vstack([SKILL, -SKILL])
    noise = rng.gumbel(size=shown.shape)
    y = np.argmax(skill[where[:, None], shown] + noise, axis=1)
    frame = pd.DataFrame(PLAYERS[shown], columns=list("xyz")).assign(mood=np.array(["up", "down"])[where])
    model = GPPLClassifier(groups=["mood"], likelihood="luce").fit(frame, y)
    assert model.score(frame, y) > 0.5
    up, down = (model.utility(PLAYERS, groups={"mood": mood}) for mood in ("up", "down"))
    assert np.corrcoef(up, down)[0, 1] < -0.8


def test_the_command_line_takes_groups(tmp_path, capsys):
    """Without users, too: fit, ranking in a group, and predictions."""
    frame, y, _ = surfaces(n=200)
    path, out = tmp_path / "matches.csv", tmp_path / "out"
    frame.assign(winner=np.where(y, "left", "right")).to_csv(path, index=False)
    assert main(["tune", str(path), "--groups", "surface", "--trials", "2", "--out", str(out), "--no-mlflow"]) == 0
    model = str(next(out.rglob("model.skpref")))
    assert main(["rank", model, "--groups", "surface=clay"]) == 0
    assert "Ranking in surface=clay" in capsys.readouterr().out
    assert main(["predict", model, str(path)]) == 0
    assert main(["rank", model, "--at", "2020"]) != 0


def test_default_spaces_of_teams_fit():
    frame, y = doubles(n=60)
    space = default_space(GPPLClassifier(**SIDES))
    assert "scale_prior__shape" not in space
    assert clone(GPPLClassifier(**SIDES)).set_params(likelihood=space["likelihood"][0]).fit(frame, y).n_iter_ > 0
    assert "item_effects" not in default_space(GPPLClassifier(Table(np.eye(3)), time=2))
    assert default_space(GPPLClassifier(groups=["mood"], likelihood="luce"))


def test_slots_of_teams():
    """Coefficients of both sides, with none behind a team; equal places count once."""
    left, right = np.array([[0, 1], [2, -1]]), np.array([[3, -1], [4, 5]])
    items, total = item_slots(left, right, mean=False)
    assert items.tolist() == [[0, 1, 3, 0], [2, 2, 4, 5]]
    assert total.tolist() == [[1.0, 1.0, -1.0, -0.0], [1.0, 0.0, -1.0, -1.0]]
    assert item_slots(left, right, mean=True)[1].tolist() == [[0.5, 0.5, -1.0, -0.0], [1.0, 0.0, -0.5, -0.5]]
    rows = np.arange(12.0).reshape(6, 2)
    assert weighted_rows(rows, items, total).tolist() == [
        (rows[0] + rows[1] - rows[3]).tolist(),
        (rows[2] - rows[4] - rows[5]).tolist(),
    ]
    place = np.array([[7, 8, 7, 8], [7, 8, 9, 9]])
    assert join_equal(place, np.tile([1.0, 1.0, -1.0, 0.5], (2, 1))).tolist() == [[0, 1.5, 0, 0], [1, 1, -0.5, 0]]


def ties_of(n, thresholds, seed=0):
    """Return answers about eight players in categories that tie differently, and the probabilities of the answers."""
    rng, skill = np.random.default_rng(seed), np.linspace(-1.0, 1.0, 8)
    left, category = rng.integers(8, size=n), rng.integers(len(thresholds), size=n)
    right, b = (left + rng.integers(1, 8, n)) % 8, np.array(thresholds)[category]
    z = skill[left] - skill[right]
    p = np.column_stack([1.0 / (1.0 + np.exp(b - z)), np.zeros(n), 1.0 / (1.0 + np.exp(b + z))])
    p[:, 1] = 1.0 - p.sum(axis=1)
    y = np.array([1.0, 0.5, 0.0])[(rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(max=2)]
    frame = pd.DataFrame({"left": PLAYERS[left], "right": PLAYERS[right]})
    return frame.assign(kind=np.array(["chat", "code", "maths"])[category]), y, p


def test_categories_tie_differently(tmp_path):
    b = 0.3, 0.5, 2.5
    (frame, y, _), (fresh, _, p) = ties_of(900, b), ties_of(3000, b, seed=1)
    model = GPPLClassifier(groups=["kind"], likelihood="logit-ties").fit(frame, y)
    assert_allclose(np.log(model.tie_thresholds_), np.log(b), atol=0.35)
    pooled = GPPLClassifier(left="left", right="right", likelihood="logit-ties").fit(frame, y)
    losses = [-(p * np.log(each.predict_proba(fresh, ties=True))).sum(axis=1).mean() for each in (model, pooled)]
    assert losses[0] < losses[1] - 0.05
    unseen = model.predict_proba(fresh[:5].assign(kind="poetry"), ties=True)
    assert_allclose(unseen.sum(axis=1), 1.0)
    sides = model.predict_proba(fresh, ties=True)
    assert_allclose(model.predict_proba(fresh)[:, 1], sides[:, 0] + 0.5 * sides[:, 1])
    shares = [model.win_matrix(PLAYERS[[7, 0]], groups=kind).predicted[0, 1] for kind in ({"kind": "maths"}, None)]
    assert 0.5 < shares[0] < shares[1] - 0.1  # a tie is half of each, and there are many
    skpref.save(model, tmp_path / "model")
    assert_allclose(skpref.load(tmp_path / "model").predict_proba(fresh, ties=True), sides, rtol=1e-12)
    later = model.partial_fit(*ties_of(300, (0.3, 0.5, 0.3), seed=2)[:2])
    assert later.tie_thresholds_[2] < b[2] - 0.5


def test_categories_that_tie_alike_share_a_threshold():
    (frame, y, _), (fresh, _, p) = ties_of(600, (0.6, 0.6, 0.6)), ties_of(3000, (0.6, 0.6, 0.6), seed=1)
    model = GPPLClassifier(groups=["kind"], likelihood="logit-ties").fit(frame, y)
    own = -(p * np.log(model.predict_proba(fresh, ties=True))).sum(axis=1).mean()
    alike = replace(model.moving_posterior_.thresholds, mean=np.full(3, np.log(model.likelihood_.threshold)))
    model.moving_posterior_ = replace(model.moving_posterior_, thresholds=replace(alike, variance=np.zeros(3)))
    shared = -(p * np.log(model.predict_proba(fresh, ties=True))).sum(axis=1).mean()
    assert own < shared + 0.002


def test_a_filter_reads_ties_by_the_threshold_of_their_group():
    """Ties of unequal players are a surprise only where ties are rare."""
    frame, y, _ = ties_of(900, (0.3, 0.5, 2.5))
    options = {"time": "day", "dynamics": "drift", "likelihood": "probit-ties"}
    model = GPPLClassifier(groups=["kind"], **options).fit(frame.assign(day=np.linspace(0.0, 1.0, 900)), y)
    pair, moved = PLAYERS[[0, 7]], []
    for kind in ("chat", "maths"):
        rows = pd.DataFrame({"left": [pair[0]] * 20, "right": pair[1], "kind": kind, "day": 1.5})
        moved.append(np.ptp(pickle.loads(pickle.dumps(model)).update(rows, np.full(20, 0.5)).utility(pair)))
    assert moved[0] < moved[1] - 0.08
