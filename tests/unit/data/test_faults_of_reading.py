"""Tables that were once read wrongly in silence: each has the right value, or is refused or asked about."""

import numpy as np
import pytest

from skpref import CrowdGPPL, GPPLClassifier, GPPLRegressor
from skpref.data import (
    from_choices,
    from_counts,
    from_pair_columns,
    from_rankings,
    from_results,
    from_win_matrix,
    from_winners,
)
from skpref.data.roles import Roles, read
from skpref.exceptions import DataError, DataWarning
from tests.unit.data.stages import choice_of, choices_of

FRUITS = {"fig": [1], "lime": [2], "plum": [3]}
RACE = {"race": [1, 1, 1, 2, 2], "item": ["a", "b", "c", "a", "b"], "rank": [1, 2, 3, 1, 2]}
BALLOTS = {"first": ["X"] * 6 + ["Y"] * 4, "second": [None] * 6 + ["X"] * 4}
MENUS = {"a": ["x", "y", "x"], "b": ["y", "z", "z"], "c": ["z", "x", "y"]}
ARENA = {"model_a": ["x", "y", "z"], "model_b": ["y", "z", "x"]}
WINNERS = {"winner_model_a": [1, 0, 0], "winner_model_b": [0, 1, 0], "winner_tie": [0, 0, 1]}
PAIRS = {"left": ["x", "y", "z"], "right": ["y", "z", "x"]}


def pairs(rows):
    """Return the weight of each pair, the winner first; a tie counts half for each."""
    found = {}
    for (left, right), y, weight in zip(rows.X.tolist(), rows.y, rows.sample_weight, strict=True):
        for pair, share in (((left, right), y), ((right, left), 1.0 - y)):
            if share:
                found[pair] = found.get(pair, 0.0) + share * weight
    return found


def games(n=12):
    """Return games with a row for each team, and who was at home."""
    ends = [(f"t{k % 4}", f"t{(k + 1 + k // 4) % 4}") for k in range(n) if k % 4 != (k + 1 + k // 4) % 4]
    points = [(90 + 7 * k % 11, 90 + 5 * k % 13) for k in range(len(ends))]
    twice = [(*end, *score, side) for end, score in zip(ends, points, strict=True) for side in (1, -1)]
    rows = [row if row[4] > 0 else (row[1], row[0], row[3], row[2], -1) for row in twice]
    return dict(zip(("team", "opponent", "pts", "opp_pts", "home"), map(list, zip(*rows, strict=True)), strict=True))


# ----------------------------------------------------------------------------------------------------- ranks (F2), rest
@pytest.mark.parametrize("code", [0, -1, 99])
@pytest.mark.parametrize(
    "read_ranks",
    [
        lambda code, **more: from_rankings({**FRUITS, "plum": [code]}, item_ranks=list(FRUITS), **more),
        lambda code, **more: from_rankings({**RACE, "rank": [1, 2, code, 1, code]}, by="race", **more),
    ],
    ids=["a column for each item", "a row for each item"],
)
def test_a_code_for_no_rank_is_asked_about(read_ranks, code):
    with pytest.raises(DataError, match=rf"{code} is no rank of 3 items.*unranked=\[{code}\] says so; if it is a rank"):
        read_ranks(code)
    without = choices_of(read_ranks(code, unranked=[code]))
    assert list(without) in ([choice_of("fig", ["lime"])], [choice_of("a", "b")])
    rows = read_ranks(code, unranked=[])
    best = {rows.X[row, np.nanargmin(ranks)] for row, ranks in enumerate(rows.y)} & {"plum", "c"}
    assert bool(best) == (code <= 0)


def test_ranks_of_races_of_which_a_part_is_in_the_table_are_ranks():
    rows = from_rankings({**RACE, "rank": [2, 3, 17, 18, 1]}, by="race")
    assert choices_of(rows) == dict.fromkeys([choice_of("a", "bc"), choice_of("b", "c"), choice_of("b", "a")], 1.0)


def test_points_in_the_place_of_ranks_are_asked_about():
    with pytest.raises(DataError, match=r"row 0: 631 is no rank of 3 items.*; if higher is better, these are ratings"):
        from_rankings({**RACE, "rank": [631, 466, 459, 180, 45]}, by="race")


def test_a_word_for_no_rank_is_named():
    table = {**RACE, "rank": [1, 2, r"\N", 1, 2]}
    with pytest.raises(DataError, match=r"row 2: expected a rank, which is a number; got '\\\\N'"):
        from_rankings(table, by="race")
    assert choices_of(from_rankings(table, by="race", unranked=[r"\N"])) == {choice_of("a", "b"): 2.0}


@pytest.mark.parametrize("code", [0, "0", -1, "undervote", "Overvote"])
def test_a_cell_that_may_name_no_item_is_asked_about(code):
    numbers = not isinstance(code, str) or code == "0"
    ballots = {"1st": [3, 2], "2nd": [1, 3], "3rd": [2, code]} if numbers else {"1st": ["c", "b"], "2nd": ["a", code]}
    with pytest.raises(
        DataError, match=rf"row 1: '?{code}'? may mean that no item was named: then unranked=\[.*\] says"
    ):
        from_rankings(ballots, list(ballots))
    assert code in from_rankings(ballots, list(ballots), unranked=[]).X
    rows = from_rankings(ballots, list(ballots), unranked=[code], rest="unknown")
    assert code not in rows.X
    assert len(choices_of(rows)) == (3 if numbers else 1)


def test_a_ranking_of_one_item_is_asked_about_and_counted():
    with pytest.raises(DataError, match=r"6 rankings name one item\..*rest='lost' says so.*rest='unknown' leaves"):
        from_rankings(BALLOTS, ["first", "second"])
    lost = from_rankings(BALLOTS, ["first", "second"], rest="lost")
    assert choices_of(lost) == {choice_of("X", "Y"): 6.0, choice_of("Y", "X"): 4.0}
    unknown = from_rankings(BALLOTS, ["first", "second"], rest="unknown")
    assert choices_of(unknown) == {choice_of("Y", "X"): 4.0}
    assert str(unknown.read_).endswith("items not named = unknown, weights = none; 6 rows left out: 6 of one item")


def test_races_and_menus_of_one_item_are_counted():
    race = from_rankings({"race": [1, 1, 2], "item": ["a", "b", "c"], "rank": [1, 2, 1]}, by="race")
    assert race.read_.left_out == {"of one item": 1}
    menus = from_choices({"a": ["x", "y"], "b": ["y", None], "chosen": ["x", "y"]}, ["a", "b"])
    assert menus.read_.left_out == {"with one item to choose from": 1}


@pytest.mark.parametrize("m", [2, 3, 5])
def test_the_top_one_is_a_choice_among_all_and_all_ranks_are_a_full_ranking(m):
    items = [f"i{k}" for k in range(m)]
    tops = {"1st": items, "2nd": [None] * m}
    menus = {f"o{k}": [item] * m for k, item in enumerate(items)} | {"chosen": items}
    top = choices_of(from_rankings(tops, ["1st", "2nd"], rest="lost"))
    assert top == choices_of(from_choices(menus, [f"o{k}" for k in range(m)]))
    assert top == {(item, frozenset(items) - {item}): 1.0 for item in items}
    full = {f"place {k}": [item] for k, item in enumerate(items)}
    usual, lost = (from_rankings(full, list(full), rest=rest) for rest in (None, "lost"))
    assert choices_of(lost) == choices_of(usual)


def test_items_that_are_not_named_stand_behind_the_others():
    ballots = {"1st": ["a", "c"], "2nd": ["b", "d"]}
    rows = from_rankings(ballots, ["1st", "2nd"], rest="lost")
    assert rows.X.tolist() == [[*"abcd"], [*"cdab"]]
    wanted = [choice_of("a", "bcd"), choice_of("b", "cd"), choice_of("c", "abd"), choice_of("d", "ab")]
    assert choices_of(rows) == dict.fromkeys(wanted, 1.0)


# ------------------------------------------------------------------------------------------------------- mirrored games
def test_games_that_are_listed_for_both_teams_are_asked_about():
    table, scores = games(), ("pts", "opp_pts")
    n = len(table["team"])
    with pytest.raises(DataError, match=rf"listed twice.*{n} of {n} rows.*mirrored='drop'.*mirrored='keep'"):
        from_results(table, "team", "opponent", scores)
    once = from_results(table, "team", "opponent", scores, mirrored="drop", covariates=["home"])
    assert once.X.tolist() == [list(pair) for pair in zip(table["team"][::2], table["opponent"][::2], strict=True)]
    assert once.y.tolist() == [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in _scores(table)][::2]
    assert once.covariates is not None  # the first row of a game has its own
    assert (once.covariates == 1.0).all()
    assert once.read_.left_out == {"that list a game a second time": n // 2}
    assert len(from_results(table, "team", "opponent", scores, mirrored="keep").y) == n


def _scores(table):
    return list(zip(table["pts"], table["opp_pts"], strict=True))


def test_both_rows_of_a_game_share_a_unit_and_covariates_do_not_tell_them_apart():
    roles = Roles(left="team", right="opponent", scores=("pts", "opp_pts"), covariates=("home",), mirrored="keep")
    rows = read(games(), roles)
    assert rows.unit.tolist() == [2 * (k // 2) for k in range(rows.unit.size)]


def test_a_game_that_is_listed_once_among_others_hides_none():
    table = {name: cells[:-1] for name, cells in games(48).items()}
    n = len(table["team"])
    with pytest.raises(DataError, match=rf"{n - 1} of {n} rows"):
        from_results(table, "team", "opponent", ("pts", "opp_pts"))
    once = from_results(table, "team", "opponent", ("pts", "opp_pts"), mirrored="drop")
    assert len(once.y) == (n + 1) // 2


def test_answers_of_different_people_are_no_twins():
    table = games()
    table["judge"] = ["ann", "bob"] * (len(table["team"]) // 2)
    assert len(from_results(table, "team", "opponent", ("pts", "opp_pts"), user="judge").y) == len(table["team"])
    table["judge"] = [f"judge {k // 8}" for k in range(len(table["team"]))]
    with pytest.raises(DataError, match="listed twice"):
        from_results(table, "team", "opponent", ("pts", "opp_pts"), user="judge")


def test_a_league_of_home_and_away_games_is_not_mirrored():
    teams = [f"t{k}" for k in range(6)]
    ends = [(a, b) for a in teams for b in teams if a != b]
    table = {"left": [a for a, _ in ends], "right": [b for _, b in ends], "winner": ["left", "right", "tie"] * 10}
    assert len(from_winners(table).y) == 30


# ---------------------------------------------------------------------------------------- flags, words and two answers
@pytest.mark.parametrize("name", list(WINNERS))
@pytest.mark.parametrize(
    "flags",
    [
        WINNERS,
        {name: [bool(cell) for cell in cells] for name, cells in WINNERS.items()},
        {"winner_model_a": [1, 0, 0], "winner_model_b": [0, 1, 0]},  # 0 and 0 is a tie
        {"winner_model_a": [1.0, 0.0, 0.5], "winner_model_b": [0.0, 1.0, 0.5]},
        {"winner_model_a": ["True", "False", "False"], "winner_model_b": ["False", "True", "False"]},
    ],
    ids=["numbers", "truth", "no tie", "halves", "words"],
)
def test_one_of_several_flags_is_no_answer(name, flags):
    if name in flags:
        with pytest.raises(DataError, match=r"the columns .* are flags.*; skpref\.data\.from_counts reads them"):
            from_winners(ARENA | flags, "model_a", "model_b", name)


@pytest.mark.parametrize("names", [("left_win", "right_win"), ("a_wins", "b_wins"), ("home.won", "away.won")])
def test_flags_of_sides_need_no_common_first_word(names):
    table = PAIRS | dict(zip(names, ([1, 0, 0], [0, 1, 0]), strict=True))
    for name in names:
        with pytest.raises(DataError, match="are flags"):
            from_winners(table, winner=name)
    other = {names[0]: [1, 0, 0], names[1]: [3, 0, 9]}  # which is none
    assert from_winners(PAIRS | other, winner=names[0]).y.tolist() == [1.0, 0.0, 0.0]


def test_flags_are_counts():
    rows = from_counts(ARENA | WINNERS, "model_a", "model_b", tuple(WINNERS))
    assert rows.y.tolist() == [1.0, 0.0, 0.5]
    assert rows.sample_weight.tolist() == [1.0] * 3


@pytest.mark.parametrize(
    ("winner", "expected"),
    [
        ([1, 0, -1], [1.0, 0.5, 0.0]),
        (["½-½", "1-0", "0-1"], [0.5, 1.0, 0.0]),
        (["½-½", "½-½", "½-½"], [0.5] * 3),
        (["1/2-1/2", "0-1", "½"], [0.5, 0.0, 0.5]),
        (["True", "False", "tie"], [1.0, 0.0, 0.5]),
    ],
)
def test_words_for_answers(winner, expected):
    assert from_winners(PAIRS | {"winner": winner}).y.tolist() == expected


def test_a_name_of_the_other_side_is_never_suggested():
    table = {"left": ["x"], "right": ["y"], "winner_b": ["x"], "home_score": [1], "other": [2]}
    with pytest.raises(DataError, match=r"there is no column 'winner_a'\. Found"):
        from_winners(table, winner="winner_a")
    with pytest.raises(DataError, match=r"there is no column 'away_score'\. Found"):
        from_results(table, score=("home_score", "away_score"))


@pytest.mark.parametrize(
    ("names", "winner"),
    [
        (("response_0", "response_1"), [0, 1, 0]),
        (("answer0", "answer1"), ["0", "1", "1"]),
        (("black_id", "white_id"), ["white", "black", "draw"]),
        (("away_team", "home_team"), ["home", "away", "home"]),
        (("model b", "model a"), ["A", "B", "tie"]),
        (("text2", "text1"), [1, 2, 1]),
    ],
)
def test_a_word_in_the_names_of_the_columns_is_asked_about(names, winner):
    table = {names[0]: ["x", "y", "z"], names[1]: ["y", "z", "x"], "winner": winner}
    with pytest.raises(DataError, match=rf"has two readings: the columns {names[0]} and {names[1]}, or "):
        from_winners(table, *names)
    other = from_winners(table, *names[::-1]) if winner != [0, 1, 0] and names[0] != "answer0" else None
    assert other is None or other.y[0] == 1.0


@pytest.mark.parametrize("winner", [["left_vote", "rightvote", "tievote"], ["leftvote", "right vote", "bothbad_vote"]])
def test_votes_are_words_for_sides(winner):
    assert from_winners(PAIRS | {"winner": winner}).y.tolist() == [1.0, 0.0, 0.5]


def test_a_column_of_ties_beside_winner_and_loser_is_asked_about():
    table = {"winner": ["c", "r", "s"], "loser": ["n", "c", "b"], "Draw": [False, True, False]}
    with pytest.raises(DataError, match=r"column 'Draw', row 1: this row may be a tie \(1 such rows\)"):
        from_winners(table, loser="loser")
    for harmless in ([False] * 3, [8, 4, 1]):  # no ties, and the size of a draw
        assert len(from_winners(table | {"Draw": harmless}, loser="loser").y) == 3


# --------------------------------------------------------------------------------------------------------------- counts
def test_counts_are_weights_and_rows_of_zeros_are_counted():
    table = PAIRS | {"wins": [730, 0, 2], "losses": [498, 0, 0], "ties": [0, 0, 3], "size": [1.0, 1.0, 0.5]}
    rows = from_counts(table, counts=("wins", "losses", "ties"), sample_weight="size")
    assert pairs(rows) == {("x", "y"): 730.0, ("y", "x"): 498.0, ("z", "x"): 1.75, ("x", "z"): 0.75}
    assert rows.read_.left_out == {"without a win or a tie": 1}
    assert "answer = counts wins, losses, ties" in str(rows.read_)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"wins": [1, -1, 0]}, "column 'wins', row 1: -1 is outside the range >= 0 .a count."),
        ({"wins": [1, None, 0]}, "column 'wins', row 1: a number is missing .a count."),
        ({"wins": [0, 0, 0]}, "at least 1 comparison is required; all rows are left out: 3 without a win or a tie"),
        ({}, r"there is no column 'wins'\. Name yours by counts=\. Found: left, right, losses"),
    ],
)
def test_counts_that_are_none(more, message):
    with pytest.raises(DataError, match=message):
        from_counts(PAIRS | {"losses": [0, 0, 0]} | more)


@pytest.mark.parametrize("names", [("votes_a", "votes_b"), ("win1", "win2"), ("Count A", "Count B")])
def test_counts_in_the_place_of_scores_give_a_warning(names):
    table = PAIRS | dict(zip(names, ([730, 498, 3], [320, 221, 9]), strict=True))
    with pytest.warns(DataWarning, match="scores of one game.*If they count wins or votes, from_counts reads them"):
        rows = from_results(table, score=names)
    assert rows.sample_weight.tolist() == [1.0] * 3
    assert from_counts(table, counts=names).sample_weight.sum() == 1781.0


@pytest.mark.parametrize("name", ["tie", "Ties", "draws"])
def test_counts_of_ties_are_the_third_column(name):
    table = PAIRS | {"win": [3, 2, 1], name: [1, 0, 0], "loss": [2, 2, 2]}
    assert from_counts(table, counts=("win", "loss", name)).sample_weight.sum() == 13.0
    with pytest.raises(DataError, match=f"of the right one, and ties; got win, {name}, loss"):
        from_counts(table, counts=("win", name, "loss"))


def test_a_matrix_of_shares_of_wins_gives_a_warning():
    wins = np.array([[0.0, 3.0, 1.0], [1.0, 0.0, 0.5], [0.0, 0.5, 0.0]])
    from_win_matrix(wins)  # a game of each pair may have half points
    with pytest.warns(DataWarning, match="matrix seems to hold shares of wins"):
        from_win_matrix(wins / np.maximum(wins + wins.T, 1.0))


def test_a_matrix_of_wins():
    wins = [[0, 3, 1], [2, 0, 0], [0, np.nan, np.nan]]
    found = {("a", "b"): 3.0, ("a", "c"): 1.0, ("b", "a"): 2.0}
    assert pairs(from_win_matrix(wins, ["a", "b", "c"])) == found
    assert from_win_matrix(wins).X.tolist() == [[0, 1], [0, 2], [1, 0]]
    pd = pytest.importorskip("pandas")
    assert pairs(from_win_matrix(pd.DataFrame(wins, columns=["a", "b", "c"]))) == found
    table = pd.DataFrame(wins, columns=["a", "b", "c"], index=["a", "c", "b"])
    with pytest.raises(DataError, match="rows and columns of matrix have other names"):
        from_win_matrix(table)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0, 1]], r"matrix must be square, items by items; got shape \(1, 2\)"),
        ([[1, 1], [0, 0]], "none on the diagonal; got 1 for 'a' against 'a'"),
        ([[0, -1], [0, 0]], "got -1 for 'a' against 'b'"),
        ([[0, "x"], [0, 0]], "matrix must hold counts of wins, which are numbers"),
        ([[0, 1, 1], [1, 0, 1], [1, 1, 0]], "one id for each of the 3 rows of matrix; got 2 ids"),
    ],
)
def test_a_matrix_that_is_none_of_wins(matrix, message):
    with pytest.raises(DataError, match=message):
        from_win_matrix(matrix, ["a", "b"])


# -------------------------------------------------------------------------------------------- surveys, positions, truth
@pytest.mark.parametrize(
    "cells",
    [
        {"v1": [1, 2, None], "v2": [2, None, None]},
        {"v1": [1, 0, None], "v2": [0, None, None]},
        {"v1": [1, -1, None], "v2": [-1, None, None]},
        {"v1": ["tea", "milk", None], "v2": ["rum", None, None]},
    ],
)
def test_a_survey_has_a_column_for_each_pair(cells):
    asked = {"v1": ("tea", "milk"), "v2": ("tea", "rum")}
    rows = from_pair_columns(cells | {"person": ["ann", "bob", "cy"]}, asked, user="person")
    found = zip(rows.X.tolist(), rows.y.tolist(), strict=True)
    won = sorted([person, *((a, b) if y else (b, a))] for (person, a, b), y in found)
    assert won == [["ann", "rum", "tea"], ["ann", "tea", "milk"], ["bob", "milk", "tea"]]
    assert rows.read_.left_out == {"without an answer": 1}


def test_all_columns_of_a_survey_are_coded_alike():
    survey = {"v1": [1, 0], "v2": [-1, "NA"]}  # the 0 of the first column is a tie, as the second has a -1
    rows = from_pair_columns(survey, {"v1": ("tea", "milk"), "v2": ("tea", "rum")}, missing="drop")
    assert rows.y.tolist() == [1.0, 0.5, 0.0]
    with pytest.raises(DataError, match=r"^row 1, column 'v2': winner 'gin' is neither of the items 'tea' and 'rum'"):
        from_pair_columns(survey | {"v2": [-1, "gin"]}, {"v1": ("tea", "milk"), "v2": ("tea", "rum")})


@pytest.mark.parametrize("chosen", [["a", "b", "c"], [1, 2, 3], ["1", "2", "3"], ["A", "B", "C"], ["x", "z", "y"]])
def test_choices_are_items_columns_positions_or_letters(chosen):
    rows = from_choices(MENUS | {"chosen": chosen}, ["a", "b", "c"])
    assert rows.y.tolist() == ["x", "z", "y"]
    assert choices_of(rows) == dict.fromkeys([choice_of("x", "yz"), choice_of("z", "xy"), choice_of("y", "xz")], 1.0)


@pytest.mark.parametrize("chosen", [[1, 4, 2], ["A", "D", "B"], ["A", "2", "x"]])
def test_a_choice_that_is_none_is_refused(chosen):
    with pytest.raises(DataError, match="is none of the items offered: write an item, the name of its column"):
        from_choices(MENUS | {"chosen": chosen}, ["a", "b", "c"])


def test_prices_are_no_items_and_the_answer_is_not_offered():
    prices = {"price_a": [0.66, 0.63], "price_b": [0.67, 1.0], "choice": [1, 2]}
    with pytest.raises(DataError, match=r"the cells of price_a, price_b are numbers such as 0\.66, which are no items"):
        from_choices(prices, ["price_a", "price_b"], "choice")
    with pytest.raises(DataError, match="column 'a': this column is the answer, and cannot be one of those offered"):
        from_choices(MENUS, ["a", "b"], "a")


@pytest.mark.parametrize("truth", [[True, False, True], ["True", "FALSE", "true"], np.array([True, False, True])])
def test_truth_is_one_and_zero(truth):
    rows = from_winners(PAIRS | {"winner": ["x", "y", "z"], "home": truth}, covariates=["home"])
    assert rows.covariates is not None
    assert rows.covariates.ravel().tolist() == [1.0, 0.0, 1.0]
    table = {"task": [1, 1, 2, 2], "item": list("xyzx"), "chosen": [*truth, truth[1]]}
    roles = Roles(task=("task",), item=("item",), chosen="chosen")
    tasks = read(table, roles, None)
    assert ([*map(list, zip(*tasks.items, strict=True))], tasks.y.tolist()) == ([["x", "y"], ["z", "x"]], ["x", "z"])


# ----------------------------------------------------------------------------------------------- columns and parameters
def test_a_column_called_weight_changes_nothing_unless_it_is_named():
    table = PAIRS | {"winner": ["x", "y", "z"], "weight": [57, 91, 57]}
    rows = from_winners(table)
    assert rows.sample_weight.tolist() == [1.0] * 3
    assert str(rows.read_) == "left = left, right = right, answer = winner, weights = none, not used: weight"
    assert from_winners(table, sample_weight="weight").sample_weight.tolist() == [57.0, 91.0, 57.0]


@pytest.mark.parametrize("model", [GPPLClassifier(item_effects=False), CrowdGPPL(item_effects=False)])
def test_item_effects_that_cannot_be_left_out_are_refused(model):
    rows = [["a", "b"], ["b", "c"]]
    X = rows if isinstance(model, GPPLClassifier) else [["ann", *row] for row in rows]
    with pytest.raises(DataError, match="item_effects=False leaves items nothing but the function of their features"):
        model.fit(X, [1, 0])


def test_a_comparison_of_a_row_with_its_twin_gives_a_warning():
    with pytest.warns(
        DataWarning, match=r"comparison 0 is of two rows of X with the same features.*1 such comparisons"
    ):
        GPPLRegressor(random_state=0).fit([[1, 2], [3, 4], [1, 2], [5, 6]], comparisons=[(0, 2), (1, 3)])
