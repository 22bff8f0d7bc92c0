"""Rankings: order, probabilities to be the best, credible intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from skpref import GPPLClassifier, Table
from skpref.gp.pairwise import ranking
from skpref.gp.pairwise.posterior import PairPosterior


@pytest.fixture(scope="module")
def model() -> GPPLClassifier:
    pairs = [["a", "b"], ["b", "c"], ["c", "d"], ["a", "d"]] * 8
    return GPPLClassifier().fit(pairs, np.tile([1, 1, 1, 1, 1, 1, 0, 1], 4))


def test_columns_and_order(model: GPPLClassifier) -> None:
    ranking = model.rank()
    assert list(ranking.columns()) == ["id", "utility", "std", "rank", "probability_best", "rank_low", "rank_high"]
    assert len(ranking) == 4
    assert np.all(np.diff(ranking.utility) <= 0.0)
    assert ranking.rank.tolist() == [1, 2, 3, 4]
    mean, std = model.utility(ranking.id, return_std=True)
    np.testing.assert_allclose(ranking.utility, mean)
    np.testing.assert_allclose(ranking.std, std)


def test_probabilities_and_intervals(model: GPPLClassifier) -> None:
    ranking = model.rank(credibility=0.8)
    assert ranking.probability_best.sum() == pytest.approx(1.0)
    assert np.all((ranking.rank_low >= 1) & (ranking.rank_high <= 4) & (ranking.rank_low <= ranking.rank_high))
    wide = model.rank(credibility=0.99)
    assert np.all((wide.rank_low <= ranking.rank_low) & (wide.rank_high >= ranking.rank_high))


def test_two_items_in_closed_form(model: GPPLClassifier) -> None:
    mean, cov = model.utility(["a", "b"], return_cov=True)
    exact = ndtr((mean[0] - mean[1]) / np.sqrt(cov[0, 0] + cov[1, 1] - 2.0 * cov[0, 1]))
    drawn = model.rank(["a", "b"], n_samples=20_000).probability_best[0]
    assert drawn == pytest.approx(exact, abs=4.0 * 0.5 / np.sqrt(20_000))  # 4 standard errors: 6e-5


def test_any_random_state_is_near_and_the_same_one_equal(model: GPPLClassifier) -> None:
    seeds = np.random.default_rng().integers(0, 2**31, 2)
    first, again, other = (model.rank(random_state=int(s)).probability_best for s in (seeds[0], seeds[0], seeds[1]))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first, other, atol=0.08)  # 5 standard errors of a difference of 2,000 draws


def test_many_items_are_drawn_without_a_joint_covariance(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = Table(rng.standard_normal((12, 2)))
    left = rng.integers(0, 12, 60)
    right = (left + rng.integers(1, 12, 60)) % 12
    y = (table.features[left, 0] > table.features[right, 0]).astype(int)
    model = GPPLClassifier(table, length_scale_factor=1.0).fit(np.column_stack([left, right]), y)
    joint = model.rank(n_samples=4000)
    monkeypatch.setattr(ranking, "_MAX_JOINT", 3)
    apart = model.rank(n_samples=4000)
    np.testing.assert_array_equal(apart.id, joint.id)
    np.testing.assert_allclose(apart.probability_best, joint.probability_best, atol=0.06)
    assert np.max(np.abs(apart.rank_low - joint.rank_low)) <= 1


def test_new_items_and_one_item(model: GPPLClassifier) -> None:
    single = model.rank(["c"])
    assert single.probability_best.tolist() == [1.0]
    assert (single.rank_low[0], single.rank_high[0]) == (1, 1)


@pytest.mark.parametrize("credibility", [0.0, 1.0, 1.5, -0.1, "x", None, [0.9]])
def test_credibility_is_a_probability(model: GPPLClassifier, credibility: Any) -> None:
    with pytest.raises(ValueError, match="credibility must be a probability"):
        model.rank(credibility=credibility)


@pytest.mark.parametrize("n_samples", [0, -1, True, 10**30])
def test_draws_are_counted_from_one(model: GPPLClassifier, n_samples: int) -> None:
    with pytest.raises(ValueError, match="n_samples must be an integer"):
        model.rank(n_samples=n_samples)
    with pytest.raises(ValueError, match="n_samples must be an integer"):
        model.sample_utility(n_samples=n_samples)


def test_utilities_of_no_items(model: GPPLClassifier) -> None:
    assert model.utility([]).shape == (0,)
    assert model.sample_utility([], 3).shape == (0, 3)


def test_a_ranking_prints_as_a_table() -> None:
    zeros = np.zeros(12)
    names = np.array(["tea", "iced\ntea", *range(10)], dtype=object)
    rank = np.arange(1, 13)
    text = repr(ranking.Ranking(names, -zeros - 1e-9, zeros + 0.5, rank, zeros, rank, rank)).splitlines()
    assert text[:2] == [
        "Ranking of 12 items",
        "rank           id  utility    std  probability_best  rank_low  rank_high",
    ]
    assert text[3] == "   2  'iced\\ntea'    0.000  0.500             0.000         2          2"
    assert text[-1] == "... 2 more"
    assert len(text) == 13


@pytest.mark.parametrize(("limit", "joint"), [(3, False), (4, True)])
def test_items_up_to_the_limit_are_drawn_jointly(
    model: GPPLClassifier, monkeypatch: pytest.MonkeyPatch, limit: int, joint: bool
) -> None:
    sizes, draw = [], PairPosterior.covariance
    monkeypatch.setattr(ranking, "_MAX_JOINT", limit)
    monkeypatch.setattr(PairPosterior, "covariance", lambda *a, **k: sizes.append(len(a[1].position)) or draw(*a, **k))
    model.rank()
    assert sizes == [4] * joint
