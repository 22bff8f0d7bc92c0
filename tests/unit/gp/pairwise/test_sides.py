"""The warning of an advantage of one side."""

import re
import warnings
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from skpref import CrowdGPPL, GPPLClassifier
from skpref.data import Comparisons
from skpref.exceptions import DataWarning
from skpref.gp.pairwise.columns import side_advantage, warn_of_sides


def draw(rng, n, advantage=0.0, n_items=5, spread=1.0):
    left = rng.integers(0, n_items, n)
    right = (left + rng.integers(1, n_items, n)) % n_items
    z = spread * (left - right) + advantage
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(float)
    return Comparisons(left, right, y, np.ones(n), n_items)


def test_without_an_advantage_it_is_standard_normal():
    rng = np.random.default_rng(0)
    z = np.array([side_advantage(c, c.y - 0.5) for c in (draw(rng, 60) for _ in range(1000))])
    assert abs(z.mean()) < 4.0 / np.sqrt(1000)
    assert abs(z.var() - 1.0) < 4.0 * np.sqrt(2.0 / 1000)
    assert abs(np.mean(np.abs(z) < 1.0) - (2.0 * NormalDist().cdf(1.0) - 1.0)) < 0.08


def test_one_pair_is_the_test_of_cochran_mantel_and_haenszel():
    c = Comparisons([0] * 5 + [1] * 4, [1] * 5 + [0] * 4, [1, 1, 1, 0, 1, 1, 0, 1, 1], np.ones(9), 2)
    wins, n, n_left = 5, 9, 5  # of item 0: 4 of 5 on the left, 1 of 4 on the right
    expected = n_left * wins / n
    variance = n_left * 4 * wins * (n - wins) / (n**2 * (n - 1))
    assert side_advantage(c, c.y - 0.5) == pytest.approx((4 - expected) / np.sqrt(variance))


def test_items_that_never_met_in_both_orders_say_nothing():
    c = Comparisons([0, 0, 1], [1, 1, 2], [1.0, 1.0, 0.0], np.ones(3), 3)
    assert side_advantage(c, c.y - 0.5) == 0.0


def test_winners_first_are_no_advantage():
    rng = np.random.default_rng(2)
    pairs = [rng.permutation(4)[:2].tolist() for _ in range(300)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GPPLClassifier().fit(pairs)
        GPPLClassifier().fit(pairs, np.zeros(300))


def test_fit_warns_where_it_was_called():
    comparisons = draw(np.random.default_rng(3), 600, 1.0)
    with pytest.warns(DataWarning, match="order_effect=True") as record:
        GPPLClassifier().fit(np.column_stack([comparisons.left, comparisons.right]), comparisons.y)
    assert record[0].filename == __file__


def in_both_orders(n, wins, n_others=0):
    """Return n comparisons of two items in each order, of which the left side wins some, and pairs in one order."""
    left, right = np.repeat([0, 1], n), np.repeat([1, 0], n)
    y = np.tile(np.arange(n) < wins, 2)
    others = 2 + np.arange(n_others)
    return Comparisons(
        np.append(left, others), np.append(right, others + 1), np.append(y, others % 2), np.ones(2 * n + n_others), 30
    )


@pytest.mark.parametrize(("wins", "side"), [(33, None), (34, "left"), (17, None), (16, "right")])
def test_the_limit_is_three_and_a_half_standard_errors(wins, side):
    comparisons = in_both_orders(50, wins)
    # With n comparisons in each order, of which the left side wins w, z^2 = (2 n - 1) (2 w / n - 1)^2.
    assert side_advantage(comparisons, comparisons.y - 0.5) == pytest.approx(np.sqrt(99) * (wins / 25 - 1))
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        warn_of_sides(comparisons, None)
    assert len(record) == (side is not None)
    if side is not None:
        wanted = rf"The {side} side .*\(3\.6 standard errors; it wins 68\.0% of all\)"
        assert re.match(wanted, str(record[0].message))


def test_expected_wins_and_rows_without_weight_are_left_out():
    comparisons = in_both_orders(50, 45)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_sides(comparisons, comparisons.y)  # the model expects every answer
        weight = np.where(np.arange(100) % 50 < 5, 1.0, 0.0)  # five wins in each order
        weight[[45, 95]] = 1.0  # and a loss
        warn_of_sides(replace(comparisons, weight=weight), None)
        warn_of_sides(replace(comparisons, weight=weight), comparisons.y)
        warn_of_sides(replace(comparisons, weight=np.zeros(100)), None)
    half = np.append(np.full(50, 0.5), np.full(50, 0.9))
    with pytest.warns(DataWarning, match="The left side"):
        warn_of_sides(comparisons, half)


def test_a_test_that_is_never_true_is_noticed():
    pairs = [("x", "y"), ("y", "z"), ("z", "x")] * 4
    winner = np.array(["model_a", "model_b", "tie"] * 4)  # words for sides, compared with ids
    with pytest.warns(DataWarning, match=r"y is False in all 12 comparisons.*from_winners reads both"):
        GPPLClassifier().fit(pairs, winner == np.array(pairs)[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GPPLClassifier().fit(pairs, np.ones(12))  # rows are (winner, loser)
        GPPLClassifier().fit(pairs[:3], [False] * 3)


def test_a_crowd_whose_left_side_never_wins_is_noticed():
    rows = [(judge, left, right) for judge in "abcd" for left, right in ("xy", "yz", "zx")]
    with pytest.warns(DataWarning, match="y is False in all 12 comparisons"):
        CrowdGPPL(n_factors=1).fit(rows, [False] * 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CrowdGPPL(n_factors=1).fit(rows)
        CrowdGPPL(n_factors=1).fit(rows, np.zeros(12))  # rows are (judge, loser, winner)


@pytest.mark.parametrize("seed", range(5))
def test_soft_answers_that_agree_in_both_orders_are_no_advantage(seed):
    rng = np.random.default_rng(seed)
    p, expected = rng.random((2, 200))  # item 0 of a pair wins with p; the model expects something else
    items = 2 * np.arange(200)
    c = Comparisons(np.append(items, items + 1), np.append(items + 1, items), np.append(p, 1 - p), np.ones(400), 400)
    assert side_advantage(c, c.y - np.append(expected, 1 - expected)) == 0.0


@pytest.mark.parametrize("model", [GPPLClassifier(left="a", right="b"), CrowdGPPL(user="judge", left="a", right="b")])
def test_labels_that_were_forgotten_are_noticed(model):
    frame = pytest.importorskip("pandas").DataFrame
    table = frame({"judge": [1, 2, 1], "a": ["x", "y", "z"], "b": ["y", "z", "x"], "Winner": ["x", "z", "x"]})
    with pytest.warns(DataWarning, match="left item wins in every row, but X has the column 'Winner'"):
        model.fit(table)
    model.fit(table, [1, 0, 0])
    model.fit(table[["judge", "a", "b"]])
    # Columns that look like labels may be those of the ids.
    GPPLClassifier(left="a", right="Winner").fit(table[["judge", "a", "Winner"]][1:])
    GPPLClassifier().fit(frame({"winner": ["x", "y"], "second": ["y", "z"]}))
