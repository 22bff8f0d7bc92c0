"""The warning of an advantage of one side."""

from __future__ import annotations

import warnings
from statistics import NormalDist

import numpy as np
import pytest

from skpref import GPPLClassifier
from skpref.data import Comparisons
from skpref.exceptions import DataWarning
from skpref.gp.pairwise.sides import side_advantage, warn_of_sides


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


@pytest.mark.parametrize(("advantage", "side"), [(1.0, "left"), (-1.0, "right")])
def test_the_side_is_named(advantage, side):
    comparisons = draw(np.random.default_rng(1), 600, advantage)
    with pytest.warns(DataWarning, match=f"The {side} side wins more often"):
        warn_of_sides(comparisons, None, 1)


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
