"""Battles follow their model: who wins, how long answers are, and the same seed the same battles."""

import numpy as np
import pytest
from scipy.special import expit

from skpref import GPPLClassifier
from skpref.datasets import make_arena
from skpref.exceptions import DataError


def test_battles_are_a_table_of_two_models_the_winner_and_two_lengths():
    arena = make_arena(30, 500, random_state=3)
    battles = arena.battles
    assert [column.shape for column in battles.values()] == [(500,)] * 5
    assert np.unique(arena.names).size == 30
    assert arena.names[[0, 25, 26]].tolist() == ["Ada", "Zuse", "Ada 2"]
    assert set(battles["model_a"]) | set(battles["model_b"]) == set(arena.names)
    assert (battles["model_a"] != battles["model_b"]).all()
    assert ((battles["winner"] == battles["model_a"]) | (battles["winner"] == battles["model_b"])).all()
    assert min(battles["words_a"].min(), battles["words_b"].min()) >= 1
    np.testing.assert_allclose(arena.utilities[[0, -1]], [0.9, -0.9])
    again = make_arena(30, 500, random_state=3).battles
    for name, column in battles.items():
        np.testing.assert_array_equal(column, again[name])
    assert any((battles[name] != make_arena(30, 500, random_state=4).battles[name]).any() for name in battles)


def test_the_better_and_the_longer_answer_wins_as_often_as_the_model_says():
    arena = make_arena(6, 40_000, random_state=0)
    battles, place = arena.battles, {name: number for number, name in enumerate(arena.names)}
    a, b = (np.array([place[name] for name in battles[side]]) for side in ("model_a", "model_b"))
    words = battles["words_a"] - battles["words_b"]
    p = expit(arena.utilities[a] - arena.utilities[b] + 0.005 * words)
    won = battles["winner"] == battles["model_a"]
    for weight in (np.ones_like(p), p, words.astype(float)):
        z = np.sum(weight * (won - p)) / np.sqrt(np.sum(weight**2 * p * (1 - p)))
        assert abs(z) < 4.4  # false alarm 1e-5
    lengths = [battles["words_a"][a == number].mean() for number in range(6)]
    np.testing.assert_allclose(np.sort(lengths), 300.0 + 100.0 * np.linspace(-1.0, 1.0, 6), atol=5.0)


def test_style_control_finds_the_truth():
    arena = make_arena(8, 20_000, random_state=5)
    battles = arena.battles
    pairs = np.column_stack([battles["model_a"], battles["model_b"], battles["words_a"] - battles["words_b"]])
    model = GPPLClassifier(covariates=[2], likelihood="logit")
    model.fit(pairs, battles["winner"] == battles["model_a"])
    assert model.rank().id.tolist() == arena.names.tolist()
    assert abs(model.coef_[0] - 0.005) < 4.0 * model.coef_std_[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_models": 1}, "n_models must be at least 2, got 1"),
        ({"n_battles": 0}, "n_battles must be at least 1, got 0"),
        ({"n_battles": 100.0}, r"n_battles must be a whole number, got 100\.0"),
        ({"n_models": "3"}, "n_models must be a whole number, got '3'"),
        ({"length_effect": np.nan}, r"length_effect must be a finite number, of at most 1e\+100 in size, got nan"),
        ({"length_effect": 1e308}, r"length_effect must be a finite number, .*, got 1e\+308"),
        ({"length_effect": -1e308}, r"length_effect must be a finite number, .*, got -1e\+308"),
        ({"length_effect": 10**400}, r"length_effect must be a finite number, .*, got 10000"),
        ({"length_effect": "a"}, "length_effect must be a finite number, .*, got 'a'"),
        ({"length_effect": [1.0]}, r"length_effect must be a finite number, .*, got \[1\.0\]"),
    ],
)
def test_numbers_out_of_range(arguments, message):
    with pytest.raises(DataError, match=message):
        make_arena(**arguments)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("effect", [1e100, -1e100])
def test_judges_may_look_at_the_length_only(effect):
    battles = make_arena(n_battles=100, length_effect=effect, random_state=0).battles
    longer = (battles["words_a"] - battles["words_b"]) * effect
    won = battles["winner"] == battles["model_a"]
    np.testing.assert_array_equal(won[longer != 0.0], (longer > 0.0)[longer != 0.0])
