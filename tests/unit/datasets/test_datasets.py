"""Data sets: shapes, known facts about the real one, and the law of the simulated one."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from skpref.data.comparisons import from_labels
from skpref.datasets import _simulated, load_modechoice, make_arena, make_crowd, make_pairwise
from skpref.exceptions import DataError, MissingExtraError

# -------------------------------------------------------------------------------------------------------- modechoice


@pytest.fixture(scope="module")
def trips():
    return load_modechoice()


def test_modechoice_shapes(trips):
    assert (trips.table.n_items, trips.table.n_features) == (840, 16)
    assert trips.X.shape == (210, 4)
    assert trips.y.shape == (210,)
    assert len(trips.feature_names) == 16
    assert (trips.y[:, None] == trips.X).sum(axis=1).tolist() == [1] * 210
    assert "210" in trips.DESCR
    assert all(name in trips.DESCR for name in trips.feature_names)


def test_modechoice_totals_are_those_of_the_source(trips):
    # Greene's table: 58 took the plane, 63 the train, 30 the bus and 59 the car.
    modes, counts = np.unique([taken.split(":")[1] for taken in trips.y], return_counts=True)
    assert dict(zip(modes.tolist(), counts.tolist(), strict=True)) == {"air": 58, "train": 63, "bus": 30, "car": 59}


def test_modechoice_features_by_hand(trips):
    row = trips.table.features[trips.table.rows(["001:air"])[0]]
    expected = {
        "ttme": 69,
        "invc": 59,
        "invt": 100,
        "gc": 70,
        "hinc": 35,
        "psize": 1,
        "air": 1,
        "hinc_air": 35,
        "psize_air": 1,
    }
    assert dict(zip(trips.feature_names, row.tolist(), strict=True)) == {
        name: float(expected.get(name, 0)) for name in trips.feature_names
    }


def test_modechoice_shows_all_modes_of_one_traveller(trips):
    travellers = range(1, 211)
    assert trips.X.tolist() == [[f"{who:03d}:{mode}" for mode in ("air", "train", "bus", "car")] for who in travellers]
    assert trips.table.rows(trips.X.ravel()).tolist() == list(range(840))
    is_taken = trips.y[:, None] == trips.X
    winners, losers = np.repeat(np.flatnonzero(is_taken), 3), np.flatnonzero(~is_taken)
    assert from_labels(winners, losers, np.ones(630), 840).components()[0] == 210


def test_modechoice_twice_is_the_same(trips):
    again = load_modechoice()
    assert again.table.digest == trips.table.digest
    np.testing.assert_array_equal(again.X, trips.X)
    np.testing.assert_array_equal(again.y, trips.y)


def test_modechoice_without_statsmodels(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.datasets", None)
    with pytest.raises(MissingExtraError, match=r"load_modechoice needs statsmodels.*skpref\[data\]"):
        load_modechoice()


# --------------------------------------------------------------------------------------------------------- simulated


@given(st.integers(2, 30), st.integers(1, 60), st.integers(1, 4), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_simulated_data_are_valid(n_items, n_comparisons, n_features, ties, seed):
    data = make_pairwise(n_items, n_comparisons, n_features, ties=ties, random_state=seed)
    assert (data.table.n_items, data.table.n_features) == (n_items, n_features)
    assert data.utilities.shape == (n_items,)
    pairs = from_labels(*data.comparisons.T, data.y, n_items)
    assert pairs.n_pairs == n_comparisons
    assert np.count_nonzero(data.y == 0.5) == round(ties * n_comparisons)
    again = make_pairwise(n_items, n_comparisons, n_features, ties=ties, random_state=seed)
    assert again.table.digest == data.table.digest
    np.testing.assert_array_equal(again.y, data.y)


def test_labels_follow_the_probit_model():
    # 40,000 labels: the z-score of the number of left wins, and of wins weighted by their probability.
    data = make_pairwise(200, 40_000, 3, scale=0.5, random_state=1)
    p = ndtr(data.utilities[data.comparisons[:, 0]] - data.utilities[data.comparisons[:, 1]])
    for weight in (np.ones_like(p), p):
        z = np.sum(weight * (data.y - p)) / np.sqrt(np.sum(weight**2 * p * (1 - p)))
        assert abs(z) < 4.4  # false alarm 1e-5


def test_utilities_have_the_kernels_covariance():
    # 4000 draws at 4 points; the standard error of a covariance of unit Gaussians is at most sqrt(2/4000) = 0.022.
    X = np.array([[0.0, 0.0], [0.5, 0.0], [0.5, 1.0], [3.0, -2.0]])
    rng = np.random.default_rng(2)
    draws = np.array([_simulated.draw_utilities(X, rng) for _ in range(4000)])
    r = np.sqrt(3.0) * np.abs(X[:, None] - X[None])
    K = np.prod((1 + r) * np.exp(-r), axis=2)
    assert np.abs(draws.T @ draws / 4000 - K).max() < 0.1  # 4.5 standard errors


def test_scale_divides_the_variance():
    one, four = (make_pairwise(50, 1, random_state=0, scale=scale).utilities for scale in (1.0, 4.0))
    np.testing.assert_allclose(one, 2.0 * four)


def test_ties_are_the_closest():
    y = _simulated.answer(np.array([0.1, -3.0, 2.0, -0.2]), 0.5)
    assert y.tolist() == [0.5, 0.0, 1.0, 0.5]


def test_many_items_in_chunks():
    assert make_pairwise(5000, 10, 2, random_state=0).utilities.shape == (5000,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_items": 1}, "n_items must be at least 2, got 1"),
        ({"n_comparisons": 0}, "n_comparisons must be at least 1, got 0"),
        ({"n_features": 0}, "n_features must be at least 1, got 0"),
        ({"ties": 1.5}, r"ties must be a share in \[0, 1\], got 1.5"),
        ({"scale": 0.0}, r"scale must be positive, one number or 1, got 0\.0"),
        ({"scale": "a"}, "scale must be positive, one number or 1, got 'a'"),
        ({"ties": "a"}, r"ties must be a share in \[0, 1\], got 'a'"),
        ({"ties": [0.5]}, r"ties must be a share in \[0, 1\], got \[0\.5\]"),
        ({"length_scale": -1.0}, "^length_scale must be positive, one number or [0-9]+, got -1"),
    ],
)
def test_simulation_refuses(arguments, message):
    with pytest.raises(DataError, match=message):
        make_pairwise(**arguments)


def test_the_smallest_data_are_made():
    assert make_pairwise(2, 1, 1, random_state=0).comparisons.shape == (1, 2)
    assert len(make_arena(2, 1, random_state=0).battles["winner"]) == 1
    crowd = make_crowd(1, 2, 1, n_factors=0, n_features=0, n_user_features=0, random_state=0)
    assert crowd.comparisons.shape == (1, 3)
