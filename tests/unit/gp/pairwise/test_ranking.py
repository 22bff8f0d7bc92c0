"""Rankings: order, probabilities to be the best, credible intervals."""

import numpy as np
import pytest
from scipy.special import ndtr

from skpref import GPPLClassifier, GPPLRegressor, Table
from skpref.gp.pairwise import ranking
from skpref.gp.pairwise.posterior import PairPosterior
from tests.policies import set_policy


@pytest.fixture(scope="module")
def model():
    pairs = [["a", "b"], ["b", "c"], ["c", "d"], ["a", "d"]] * 8
    return GPPLClassifier().fit(pairs, np.tile([1, 1, 1, 1, 1, 1, 0, 1], 4))


def test_columns_and_order(model):
    ranking = model.rank()
    assert list(ranking.columns()) == [
        *("id", "utility", "std", "utility_low", "utility_high", "rank", "probability_best"),
        *("rank_low", "rank_high", "tied_rank", "n_comparisons"),
    ]
    assert len(ranking) == 4
    assert np.all(np.diff(ranking.utility) <= 0.0)
    assert ranking.rank.tolist() == [1, 2, 3, 4]
    mean, std = model.utility(ranking.id, return_std=True)
    np.testing.assert_allclose(ranking.utility, mean)
    np.testing.assert_allclose(ranking.std, std)


def test_probabilities_and_intervals(model):
    ranking = model.rank(credibility=0.8)
    assert ranking.probability_best.sum() == pytest.approx(1.0)
    assert np.all((ranking.rank_low >= 1) & (ranking.rank_high <= 4) & (ranking.rank_low <= ranking.rank_high))
    wide = model.rank(credibility=0.99)
    assert np.all((wide.rank_low <= ranking.rank_low) & (wide.rank_high >= ranking.rank_high))


def test_two_items_in_closed_form(model):
    mean, cov = model.utility(["a", "b"], return_cov=True)
    exact = ndtr((mean[0] - mean[1]) / np.sqrt(cov[0, 0] + cov[1, 1] - 2.0 * cov[0, 1]))
    drawn = model.rank(["a", "b"], n_samples=20_000).probability_best[0]
    assert drawn == pytest.approx(exact, abs=4.0 * 0.5 / np.sqrt(20_000))  # 4 standard errors: 6e-5


def test_any_random_state_is_near_and_the_same_one_equal(model):
    seeds = np.random.default_rng().integers(0, 2**31, 2)
    first, again, other = (model.rank(random_state=int(s)).probability_best for s in (seeds[0], seeds[0], seeds[1]))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, other, atol=0.08)  # 5 standard errors of a difference of 2,000 draws


def test_many_items_are_drawn_without_a_joint_covariance(monkeypatch):
    rng = np.random.default_rng(0)
    table = Table(rng.standard_normal((12, 2)))
    left = rng.integers(0, 12, 60)
    right = (left + rng.integers(1, 12, 60)) % 12
    y = (table.features[left, 0] > table.features[right, 0]).astype(int)
    model = GPPLClassifier(table, optimizer=None).fit(np.column_stack([left, right]), y)
    joint = model.rank(n_samples=4000)
    set_policy(monkeypatch, "gp.pairwise", most_ranked_jointly=3)
    apart = model.rank(n_samples=4000)
    np.testing.assert_array_equal(apart.id, joint.id)
    np.testing.assert_allclose(apart.probability_best, joint.probability_best, atol=0.06)
    assert np.max(np.abs(apart.rank_low - joint.rank_low)) <= 1


def test_new_items_and_one_item(model):
    single = model.rank(["c"])
    assert single.probability_best.tolist() == [1.0]
    assert (single.rank_low[0], single.rank_high[0]) == (1, 1)


@pytest.mark.parametrize("credibility", [0.0, 1.0, 1.5, -0.1, "x", None, [0.9]])
def test_credibility_is_a_probability(model, credibility):
    with pytest.raises(ValueError, match="credibility must be a probability"):
        model.rank(credibility=credibility)


@pytest.mark.parametrize("n_samples", [0, -1, True, 10**30])
def test_draws_are_counted_from_one(model, n_samples):
    with pytest.raises(ValueError, match="n_samples must be an integer"):
        model.rank(n_samples=n_samples)
    with pytest.raises(ValueError, match="n_samples must be an integer"):
        model.sample_utility(n_samples=n_samples)


def test_utilities_of_no_items(model):
    assert model.utility([]).shape == (0,)
    assert model.sample_utility([], 3).shape == (0, 3)


def test_a_ranking_prints_as_a_table():
    zeros = np.zeros(12)
    names = np.array(["tea", "iced\ntea", *range(10)], dtype=object)
    rank = np.arange(1, 13)
    text = repr(ranking.Ranking(names, -zeros - 1e-9, zeros + 0.5, rank, zeros, rank, rank)).splitlines()
    assert text[:2] == [
        "Ranking of 12 items",
        "rank         id  utility    std  utility_low  utility_high  probability_best  rank_low  rank_high",
    ]
    assert (
        text[3] == "   2  iced\\ntea    0.000  0.500       -0.822         0.822             0.000         2          2"
    )
    assert text[-1] == "... 2 more"
    assert len(text) == 13


@pytest.mark.parametrize(("limit", "features", "joint"), [(3, True, False), (4, True, True), (4, False, False)])
def test_items_with_features_up_to_the_limit_are_drawn_jointly(monkeypatch, limit, features, joint):
    table = Table(np.arange(4.0)[:, None]) if features else None
    model = GPPLClassifier(table, optimizer=None).fit([[0, 1], [1, 2], [2, 3]])
    sizes, draw = [], PairPosterior.covariance
    set_policy(monkeypatch, "gp.pairwise", most_ranked_jointly=limit)
    monkeypatch.setattr(PairPosterior, "covariance", lambda *a, **k: sizes.append(len(a[1].position)) or draw(*a, **k))
    model.rank()
    assert sizes == [4] * joint


@pytest.mark.parametrize("n", [1, 2, 255, 256, 3000])
def test_orders_are_the_same_as_a_sort_of_numbers(n):
    utility = np.random.default_rng(n).standard_normal(n) * 1e3
    utility[: n // 3] *= 1e-6
    np.testing.assert_array_equal(ranking._descending(utility), np.argsort(-utility))


# --------------------------------------------------------------------------------------------------------- leaderboards
def test_intervals_of_the_utility_and_numbers_of_comparisons(model):
    ranking = model.rank(["a", "b", "c", "d"], credibility=0.8)
    np.testing.assert_allclose(ndtr((ranking.utility_high - ranking.utility) / ranking.std), 0.9)
    np.testing.assert_allclose(ranking.utility_high - ranking.utility, ranking.utility - ranking.utility_low)
    assert sorted(ranking.n_comparisons) == [16, 16, 16, 16]
    weighted = GPPLClassifier().fit([["a", "b"], ["b", "c"]], [1, 1], [2.0, 0.5]).rank()
    assert dict(zip(weighted.id, weighted.n_comparisons, strict=True)) == {"a": 2.0, "b": 2.5, "c": 0.5}
    table = Table([[0.0], [1.0], [2.0]], ids=["x", "y", "z"])
    some = GPPLClassifier(table, optimizer=None).fit([["x", "y"]], [1]).rank()
    assert dict(zip(some.id, some.n_comparisons, strict=True)) == {"x": 1, "y": 1, "z": 0}


def test_items_that_the_data_do_not_tell_apart_share_a_place():
    # Ten wins of a over b and c, which are alike; d loses everything.
    pairs = [["a", "b"], ["a", "c"], ["b", "d"], ["c", "d"], ["b", "c"], ["c", "b"]] * 20
    table = GPPLClassifier().fit(pairs, None).rank()
    assert table.tied_rank.tolist() == [1, 2, 2, 4]
    by_hand = [1 + int(np.sum(table.utility_low > high)) for high in table.utility_high]
    assert table.tied_rank.tolist() == by_hand


@pytest.mark.parametrize("likelihood", ["logit", "probit", "probit-ties"])
def test_elo_points_stand_for_probabilities_of_winning(likelihood):
    pairs = [["a", "b"], ["b", "c"], ["b", "a"], ["a", "c"]] * 20
    model = GPPLClassifier(likelihood=likelihood).fit(pairs)
    elo = model.rank(scale="elo")
    assert elo.scale == "elo"
    assert elo.utility.mean() == pytest.approx(1500.0)
    points = dict(zip(elo.id, elo.utility, strict=True))
    u = dict(zip(*(getattr(model.rank(), name) for name in ("id", "utility")), strict=True))
    difference = np.array([u["a"] - u["c"]])
    expected = model.likelihood_.predict(difference, np.zeros(1))[0]
    atol = 1e-12 if likelihood == "logit" else 0.012
    assert 1.0 / (1.0 + 10.0 ** ((points["c"] - points["a"]) / 400.0)) == pytest.approx(expected, abs=atol)
    np.testing.assert_array_equal(elo.rank_low, model.rank().rank_low)


def test_an_anchor_has_the_points_it_is_given(model):
    free, fixed = model.rank(scale="elo"), model.rank(scale="elo").anchored("b", 1200.0)
    assert fixed.utility[fixed.id.tolist().index("b")] == pytest.approx(1200.0)
    np.testing.assert_allclose(np.diff(fixed.utility), np.diff(free.utility))
    np.testing.assert_array_equal(fixed.std, free.std)
    with pytest.raises(ValueError, match="unknown item 'x': it is not in the ranking of 4 items"):
        free.anchored("x")
    for at in (np.nan, np.inf, 1e300, "1500", None):
        with pytest.raises(ValueError, match="at must be a number from -1e\\+09 to 1e\\+09, the utility or Elo points"):
            free.anchored("b", at)
    with pytest.raises(ValueError, match="scale must be 'utility' or 'elo'; got 'glicko'"):
        model.rank(scale="glicko")


def test_a_ranking_is_a_table(model):
    pd = pytest.importorskip("pandas")
    ranking = model.rank()
    frame = ranking.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == list(ranking.columns())
    top = ranking[1:3]
    assert top["rank"].tolist() == [2, 3]
    assert top["id"].tolist() == ranking.id[1:3].tolist()
    assert top.tied_rank.tolist() == ranking.tied_rank[1:3].tolist()
    assert ranking[ranking.n_comparisons > 100].id.size == 0
    shown = GPPLClassifier().fit([["<b>", "x"]]).rank()._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert shown.count("<tr>") == 3


def test_rows_are_ranked_by_their_names():
    X = np.arange(6.0)[:, None]
    model = GPPLRegressor(optimizer=None, random_state=0).fit(X, np.arange(6.0))
    assert model.rank(X).id.tolist() == [5, 4, 3, 2, 1, 0]
    ranking = model.rank(X[:3], ids=["x", "y", "z"], scale="elo")
    assert ranking.id.tolist() == ["z", "y", "x"]
    assert ranking.n_comparisons is None
    assert "n_comparisons" not in ranking.columns()
    np.testing.assert_allclose(model.rank(X).utility, model.predict(X)[::-1])
    with pytest.raises(ValueError, match="ids must name each of the 6 rows of X; got 2 ids"):
        model.rank(X, ids=["x", "y"])
    with pytest.raises(ValueError, match="items must be distinct"):
        model.rank(X[:2], ids=["x", "x"])
