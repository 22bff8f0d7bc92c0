"""Tables as people keep them: winners, results, choices and rankings, in frames of several libraries."""

import re
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pytest

from skpref import CrowdGPPL, GPPLClassifier
from skpref.data import from_choices, from_rankings, from_results, from_tasks, from_winners
from skpref.exceptions import DataError, DataWarning
from tests.policies import set_policy
from tests.unit.data.stages import choice_of, choices_of, stages

BATTLES = {
    "model_a": ["gpt", "llama", "claude", "gpt"],
    "model_b": ["llama", "claude", "gpt", "claude"],
    "winner": ["model_a", "model_b", "tie", "tie (bothbad)"],
    "judge": ["ann", "bob", "ann", "cleo"],
    "length_a": [100, 20, 30, 40],
    "length_b": [50, 20, 60, 10],
    "weight": [1.0, 2.0, 1.0, 0.5],
}


def frames(columns):
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    arrays = {name: np.array(cells) for name, cells in columns.items()}
    return [columns, arrays, pd.DataFrame(columns), pa.table(columns), pd.DataFrame(columns).convert_dtypes()]


def test_a_remark_in_brackets_does_not_change_a_tie():
    answers = ["tie (inconsistent)", "tie_(bothbad)", "Tie (both good)", "gpt"]
    assert from_winners({**BATTLES, "winner": answers}, "model_a", "model_b").y.tolist() == [0.5, 0.5, 0.5, 1.0]


def test_minus_one_for_the_worst_item_is_asked_for_a_column_of_its_own():
    shown = {"task": [1, 1, 1], "person": ["ann"] * 3, "item": ["tea", "milk", "water"], "answer": [1, 0, -1]}
    with pytest.raises(DataError, match=r"row 2: .* got -1; if -1 is the worst item, make it the 1 of a column"):
        from_tasks(shown, item="item", chosen="answer")


def test_shares_from_1_to_2_are_explained():
    with pytest.raises(DataError, match=r"label from 0 .right won. to 1 .left won.; if 1 is the left item .* 2 minus"):
        from_winners({**BATTLES, "winner": [1.73, 1.02, 1.5, 2.0]}, "model_a", "model_b")


def test_an_arena_table_is_read_from_any_frame():
    for frame in frames(BATTLES):
        rows = from_winners(
            frame,
            "model_a",
            "model_b",
            user="judge",
            sample_weight="weight",
            covariates=["weight", ("length_a", "length_b")],
        )
        assert rows.X.tolist() == [
            ["ann", "gpt", "llama"],
            ["bob", "llama", "claude"],
            ["ann", "claude", "gpt"],
            ["cleo", "gpt", "claude"],
        ]
        assert rows.y.tolist() == [1.0, 0.0, 0.5, 0.5]
        assert rows.sample_weight.tolist() == [1.0, 2.0, 1.0, 0.5]
        assert rows.covariates is not None
        assert rows.covariates.tolist() == [[1.0, 50.0], [2.0, 0.0], [1.0, -30.0], [0.5, 30.0]]


def test_estimators_take_the_rows():
    rows = from_winners(BATTLES, "model_a", "model_b")
    assert GPPLClassifier().fit(rows.X, rows.y, rows.sample_weight).item_ids_.tolist() == ["claude", "gpt", "llama"]
    triples = from_winners(BATTLES, "model_a", "model_b", user="judge")
    assert CrowdGPPL(n_factors=0).fit(triples.X, triples.y, triples.sample_weight).user_ids_.size == 3


def test_an_item_may_be_called_as_a_side_is():
    table = {"left": ["b", "a", "a"], "right": ["a", "b", "x"], "winner": ["a", "a", "x"]}
    assert from_winners(table).y.tolist() == [0.0, 1.0, 0.0]  # x is no side
    two = {name: cells[:2] for name, cells in table.items()}
    with pytest.raises(DataError, match=r"row 0: .a. has two readings: ids of items, or a and b\. Write left, right"):
        from_winners(two)
    assert from_winners(two | {"winner": ["right", "left"]}).y.tolist() == [0.0, 1.0]


def test_ids_that_are_numbers_name_winners():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"left": [7, 8], "right": [8, 9], "winner": [8.0, 8.0]})
    rows = from_winners(frame)
    assert rows.y.tolist() == [0.0, 1.0]
    assert rows.X.dtype == np.int64


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"winner": ["x", "gpt-9"]}, r"column 'winner', row 1: winner 'gpt-9' is neither of the items 'y' and 'z'"),
        ({"winner": ["x", "?"]}, "replace it by one of them, or empty the cell and leave such rows out by"),
        ({"winner": ["2-1", "0:3"]}, "row 0: winner '2-1' is a score; skpref.data.from_results reads scores"),
        ({"winner": ["x", None]}, "row 1: the winner is missing; if nobody won, write tie; leave such rows out"),
        ({"winner": ["x", float("nan")]}, "row 1: the winner is missing"),
        ({"winer": ["x", "y"]}, r"there is no column 'winner'; did you mean 'winer'\? Name yours by winner=\."),
        ({"left": ["x", None], "winner": ["x", "y"]}, "column 'left', row 1: an item id is missing"),
        ({"winner": [-1, 3]}, "row 1: winner 3 is neither"),
        ({"winner": [["x"], ["y"]]}, r"column 'winner': winners must be ids or words; got \['x'\]"),
        ({"winner": ["x"]}, "the columns of frame have different lengths: {'left': 2, 'right': 2, 'winner': 1}"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_line(columns, message):
    with pytest.raises(DataError, match=message) as error:
        from_winners({"left": ["x", "y"], "right": ["y", "z"]} | columns)
    assert "\n" not in str(error.value)


def test_frames_that_are_none_are_refused():
    with pytest.raises(DataError, match="frame must be a data frame or a dict of columns; got list"):
        from_winners([["x", "y", "x"]])
    pd = pytest.importorskip("pandas")
    twice = pd.DataFrame([["x", "y", "x"]], columns=["left", "left", "winner"])
    with pytest.raises(DataError, match="frame has more than one column 'left'"):
        from_winners(twice)
    with pytest.raises(DataError, match="covariates must be a list of columns"):
        from_winners({"left": ["x"], "right": ["y"], "winner": ["x"]}, covariates="left")


def test_winners_and_losers_need_no_sides():
    matches = {"winner_name": ["ann", "bob"], "loser_name": ["bob", "cleo"], "minutes": [90, 60]}
    rows = from_winners(matches, winner="winner_name", loser="loser_name", covariates=["minutes"])
    assert rows.X.tolist() == [["ann", "bob"], ["bob", "cleo"]]
    assert rows.y.tolist() == [1.0, 1.0]


def test_times_with_a_zone_are_ids_in_polars():
    pl = pytest.importorskip("polars")
    times = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2)]
    rows = from_winners(pl.DataFrame({"left": times, "right": times[::-1], "winner": times[:1] * 2}))
    assert rows.X.tolist() == [times, times[::-1]]
    assert rows.y.tolist() == [1.0, 0.0]


def test_scores_decide_by_their_sign():
    games = {"home": ["a", "b", "c"], "away": ["b", "c", "a"], "hg": [3, 0, 1], "ag": ["1", "0", "2"], "d": [2, 0, -1]}
    assert from_results(games, "home", "away", ("hg", "ag")).y.tolist() == [1.0, 0.5, 0.0]
    assert from_results(games, "home", "away", "d").y.tolist() == [1.0, 0.5, 0.0]
    message = r"column 'home', row 0: expected a number \(a score\), got 'a'; who won.* is read by from_winners"
    with pytest.raises(DataError, match=message):
        from_results(games, "home", "away", "home")


def test_both_scores_may_stand_in_one_cell():
    games = {"left": [*"abc"], "right": [*"bca"], "score": ["10-2", "0:1", " 2 \u2013 2 "]}
    assert from_results(games).y.tolist() == [1.0, 0.0, 0.5]
    assert from_results(games | {"score": ["2-1", None, "1-1"]}, missing="drop").y.tolist() == [1.0, 0.5]
    assert from_results(games | {"score": ["-2", "3", "0"]}).y.tolist() == [0.0, 1.0, 0.5]
    with pytest.raises(DataError, match="column 'score', row 1: a score is missing; leave such rows out by missing="):
        from_results(games | {"score": ["2-1", None, "1-1"]})
    for bad, got in (("3", "'3'"), ("2-1 aet", "'2-1 aet'")):
        message = f"column 'score', row 1: expected the left and the right score, such as 2-1 or 2:1, got {got}"
        with pytest.raises(DataError, match=f"{re.escape(message)}$"):
            from_results(games | {"score": ["2-1", bad, "1-1"]})


def test_missing_cells_of_pandas_are_items_that_were_not_offered():
    pd = pytest.importorskip("pandas")
    menus = pd.DataFrame({"a": ["tea", "milk"], "b": ["milk", "tea"], "c": ["water", None], "chosen": ["c", "a"]})
    for frame in (menus, menus.convert_dtypes()):
        rows = from_choices(frame, ["a", "b", "c"])
        assert rows.X.tolist() == [["tea", "milk", "water"], ["milk", "tea", None]]
        assert rows.y.tolist() == ["water", "milk"]
        np.testing.assert_array_equal(from_rankings(frame, ["a", "b", "c"]).y, [[1, 2, 3], [1, 2, np.nan]])


def test_rankings_are_read_from_wide_and_long_tables():
    wide = from_rankings(
        {"u": ["ann"], "1": ["x"], "2": ["y"], "3": ["z"], "4": [None]}, ["1", "2", "3", "4"], user="u"
    )
    assert wide.X.tolist() == [["ann", "x", "y", "z"]]
    assert wide.y.tolist() == [[1.0, 2.0, 3.0]]
    long = {"race": ["p", "p", "q", "p", "q"], "item": ["z", "x", "x", "y", "z"], "rank": [3, 1, 2, 2, 2]}
    rows = from_rankings(long, by="race")
    assert rows.X.tolist() == [["z", "x", "y"], ["x", "z", None]]
    np.testing.assert_array_equal(rows.y, [[3, 1, 2], [1, 1, np.nan]])
    assert rows.sample_weight.tolist() == [1.0, 1.0]
    for arguments in ({}, {"columns": ["item", "race"], "by": "race"}):
        with pytest.raises(DataError, match="needs one of columns"):
            from_rankings(long, **arguments)


def test_the_worst_item_is_a_choice_among_the_others():
    sets = {
        "a": ["x", "x"],
        "b": ["y", "y"],
        "c": ["z", None],
        "d": ["w", None],
        "best": ["y", "b"],
        "worst": ["d", "x"],
    }
    rows = from_choices(sets, ["a", "b", "c", "d"], "best", worst="worst")
    assert rows.X.tolist() == [[*"xyzw"], ["x", "y", None, None]]
    assert rows.y.tolist() == [["y", "w"], ["y", "x"]]
    found = [(item, items, which) for _, _, item, items, which in stages(rows.X, rows.y, sides=("left", "right"))[1]]
    assert found == [("y", {*"xyzw"}, "best"), ("w", {*"xzw"}, "worst"), ("y", {*"xy"}, "best")]
    with pytest.raises(
        DataError, match=r"row 0: 'x' is both the best and the worst item \(columns 'best' and 'worst'\)"
    ):
        from_choices(sets | {"best": ["x", "x"], "worst": ["a", "b"]}, ["a", "b", "c", "d"], "best", worst="worst")
    with pytest.raises(DataError, match="column 'worst', row 1: 'v' is none of the items offered"):
        from_choices(sets | {"worst": ["d", "v"]}, ["a", "b", "c", "d"], "best", worst="worst")


def test_surveys_have_a_column_of_ranks_for_each_item():
    survey = {"Q_x": [1, 3, 2], "Q_y": [2, 1, None], "Q_z": [3, 1, 1], "who": ["ann", "bob", "cleo"]}
    rows = from_rankings(survey, item_ranks={"Q_x": "x", "Q_y": "y", "Q_z": "z"}, user="who")
    assert rows.X.tolist() == [["ann", *"xyz"], ["bob", *"xyz"], ["cleo", "x", "z", None]]
    np.testing.assert_array_equal(rows.y, [[1, 2, 3], [2, 1, 1], [2, 1, np.nan]])
    assert rows.sample_weight.tolist() == [1.0] * 3
    assert from_rankings(survey, item_ranks=["Q_x", "Q_z"], unranked=[]).X[0].tolist() == ["Q_x", "Q_z"]
    with pytest.raises(DataError, match=r"column 'who', row 0: expected a number \(a rank\), got 'ann'"):
        from_rankings(survey, item_ranks=["Q_x", "who"])
    with pytest.raises(DataError, match="two columns of items at least are needed; got 'Q_x'"):
        from_rankings(survey, item_ranks="Q_x")


def test_tasks_of_too_many_pairs_are_refused_before_they_are_made(monkeypatch):
    races = {"race": [1, 1, 1, 1, 2, 2], "item": ["x", "y", "z", "w", "x", "y"], "rank": [1, 2, 3, 4, 1, 2]}
    rows = from_rankings(races, by="race")  # a choice among four, among three, and two among two
    set_policy(monkeypatch, "data", most_pairs=11)
    assert len(choices_of(rows)) == 4
    set_policy(monkeypatch, "data", most_pairs=10)
    with pytest.raises(DataError, match="choices have 11 pairs of items, and may have 10: fit to some of the tasks"):
        choices_of(rows)


def test_positions_in_the_place_of_items_are_noticed():
    sets = {"a": [3, 1], "b": [1, 3], "c": [2, 2], "best": [1, 2], "worst": ["c", "c"]}
    advice = "if it has positions, write the names of the columns, such as 'a' for 1"
    with pytest.warns(DataWarning, match=f"column 'best' is read as items, not as positions; {advice}"):
        rows = from_choices(sets, [*"abc"], "best")
    assert rows.X.tolist() == [[3, 1, 2], [1, 3, 2]]
    assert chosen(rows) == [1, 2]
    assert chosen(from_choices(sets | {"best": ["a", "b"]}, [*"abc"], "best")) == [3, 3]
    assert from_choices(sets | {"best": ["a", "b"]}, [*"abc"], "best", worst="worst").y.tolist() == [[3, 2], [3, 2]]
    assert chosen(from_choices(sets | {"a": [9, 9], "best": [9, 3]}, [*"abc"], "best")) == [9, 3]
    words = {"1": ["x", "y"], "2": ["y", "z"], "best": ["2", "1"]}
    assert chosen(from_choices(words, ["1", "2"], "best")) == ["y", "y"]  # "2" is a name
    words = sets | {"a": ["x", "y"], "b": ["y", "z"], "c": ["z", "x"]}
    assert chosen(from_choices(words, [*"abc"], "best")) == ["x", "z"]
    letters = words | {"a": ["x", "y"], "best": ["C", "A"]}
    assert chosen(from_choices(letters, ["a", "b", "c"], "best")) == ["z", "y"]


def chosen(rows):
    """Return the items chosen."""
    return [item for _, _, item, *_ in stages(rows.X, rows.y, sides=("left", "right"))[1]]


def test_a_column_is_given_by_its_name():
    for column in (BATTLES["judge"], np.array(BATTLES["judge"])):
        with pytest.raises(
            DataError, match=r"a column is given by its name; got a (list|ndarray): put it into the table"
        ):
            from_winners(BATTLES, "model_a", "model_b", column)


def test_ranks_in_the_place_of_items_are_noticed():
    survey = {"x": [1, 3], "y": [2, 1], "z": [3, 2]}
    with pytest.warns(DataWarning, match="are 1 to 3 in every row"):
        from_rankings(survey, ["x", "y", "z"])


@pytest.mark.parametrize("empty", [None, float("nan")])
def test_incomplete_rows_are_left_out_on_request(empty):
    battles = {name: [*cells, cells[0]] for name, cells in BATTLES.items()}
    for row, name in enumerate(("winner", "model_b", "length_a", "judge")):
        battles[name] = [empty if place == row else cell for place, cell in enumerate(battles[name])]
    rows = from_winners(
        battles, "model_a", "model_b", user="judge", covariates=[("length_a", "length_b")], missing="drop"
    )
    assert rows.X.tolist() == [["ann", "gpt", "llama"]]
    assert rows.covariates is not None
    assert rows.covariates.tolist() == [[50.0]]
    with pytest.raises(
        DataError, match="column 'model_b', row 1: an item id is missing; leave such rows out by missing='drop'"
    ):
        from_winners(battles, "model_a", "model_b")
    with pytest.raises(DataError, match="missing must be 'raise' or 'drop'; got 'omit'"):
        from_winners(battles, missing="omit")


def test_advice_on_incomplete_rows_of_a_fit_works():
    columns = {"a": [*"xyzxy"], "b": [*"yzxzx"], "won": [1, 1, 0, 1, 0], "home": [1.0, 0.0, None, -1.0, 1.0]}
    frame = pytest.importorskip("pandas").DataFrame(columns)
    model = GPPLClassifier(left="a", right="b", covariates=["home"])
    missing = (
        "row 2, column 'home': a number is missing (a covariate); leave such rows out of X and y, such as by X[keep]"
    )
    with pytest.raises(DataError, match=re.escape(missing)):
        model.fit(frame, frame["won"])
    keep = frame["home"].notna()
    model.fit(frame[keep], frame["won"][keep])
    model.fit(frame[keep], frame["won"].to_numpy()[keep])
    with pytest.raises(DataError, match=r"X, row 0, column 'a': an item id is missing; leave such rows out of X and y"):
        model.fit(frame.assign(a=[None, *"yzxy"], home=1.0), frame["won"])


def test_every_reader_leaves_incomplete_rows_out():
    games = {"left": ["a", None, "b"], "right": ["b", None, "a"], "hg": [1.0, 2.0, np.nan], "ag": [0.0, 2.0, 1.0]}
    assert from_results(games, score=("hg", "ag"), missing="drop").X.tolist() == [["a", "b"]]
    menus = {"a": ["x", "x"], "b": ["y", "y"], "best": ["x", None]}
    rows = from_choices(menus, ["a", "b"], "best", missing="drop")
    assert (rows.X.tolist(), rows.y.tolist(), rows.origin.tolist()) == ([["x", "y"]], ["x"], [0])
    with pytest.raises(DataError, match="column 'best', row 1: the choice is missing; leave such rows out"):
        from_choices(menus, ["a", "b"], "best")
    races = {"race": [1, 1, 1], "item": ["x", "y", "z"], "rank": ["2", "DNF", "1"]}
    rows = from_rankings(races, by="race", missing="drop")
    assert (rows.X.tolist(), rows.y.tolist()) == ([["x", "z"]], [[2.0, 1.0]])
    with pytest.raises(
        DataError, match=r"row 1: expected a rank, which is a number; got 'DNF'\. Write a number larger"
    ):
        from_rankings(races, by="race")


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (
            lambda: from_choices({"a": ["x", "x"], "b": ["y", "z"], "c": ["z", "z"], "chosen": ["x"] * 2}, [*"abc"]),
            "row 1: item 'z' occurs twice",
        ),
        (lambda: from_rankings({"1": ["x", "y"], "2": ["y", "y"]}, ["1", "2"]), "row 1: item 'y' occurs twice"),
        (
            lambda: from_rankings({"a": [1], "b": [2]}, item_ranks={"a": "x", "b": "x"}),
            r"two different items at least are needed, a column for each; got \['x', 'x'\]",
        ),
        (
            lambda: from_rankings({"r": [1, 2, 2], "item": ["x", "y", "y"], "rank": [1, 2, 3]}, by="r"),
            "row 1: item 'y' occurs twice in one choice or ranking",
        ),
    ],
)
def test_an_item_that_occurs_twice_is_refused(read, message):
    with pytest.raises(DataError, match=message):
        read()


@pytest.mark.parametrize("text", ["NA", "nan", "N/A", "", " null ", "#N/A", "None"])
def test_text_for_a_missing_number_is_one(text):
    games = {"left": ["a", "b", "a"], "right": ["b", "a", "b"], "goals": ["1", text, "2"], "weight": ["1", "1", text]}
    read = partial(from_results, games, score="goals", sample_weight="weight")
    assert read(missing="drop").X.tolist() == [["a", "b"]]
    got = f", got {text!r}" if text.strip() else ""
    message = f"column 'goals', row 1: a number is missing (a score){got}; leave such rows out by missing='drop'"
    with pytest.raises(DataError, match=re.escape(message)):
        read()
    with pytest.raises(DataError, match=r"row 1: expected a number \(a score\), got 'many'"):
        from_results(games | {"goals": ["1", "many", "2"]}, score="goals", missing="drop")
    assert from_results(games | {"goals": [1, 2, 3]}, score="goals", covariates=["weight"], missing="drop").y.size == 2


def test_a_winner_may_be_called_na():
    battles = {"left": ["NA", "NA", "B"], "right": ["B", "B", "NA"], "winner": ["NA", "B", "NA"]}
    assert from_winners(battles, missing="drop").y.tolist() == [1.0, 0.0, 0.0]
    battles = {"left": ["A", "A"], "right": ["B", "B"], "winner": ["n/a", "B"]}
    assert from_winners(battles, missing="drop").y.tolist() == [0.0]
    with pytest.raises(DataError, match="column 'winner', row 0: the winner is missing, got 'n/a'; if nobody won"):
        from_winners(battles)


def test_complaints_count_the_rows_that_were_left_out():
    columns = {"left": [None, "a", "a"], "right": ["b"] * 3, "winner": ["b", "a", "c"], "weight": [1, 2, "heavy"]}
    with pytest.raises(DataError, match="column 'winner', row 2: winner 'c'"):
        from_winners(columns, missing="drop")
    columns |= {"winner": ["b", "a", "a"]}
    with pytest.raises(DataError, match=r"row 2: expected a number \(a weight\), got 'heavy'"):
        from_winners(columns, sample_weight="weight", missing="drop")
    with pytest.raises(DataError, match="row 2: 'c' is none of the items offered"):
        from_choices(columns | {"chosen": [None, "a", "c"]}, ["left", "right"], missing="drop")


def test_tied_pairs_are_worth_what_their_weights_say():
    # Fisher information of a ranking of k alike items with normal noise: the variance of the expected order statistics
    # (Thurstone scores), against k pairs an item with the information 1 / pi each. Each pair of tied items has it.
    for k in (2, 3, 6):
        scores = np.sort(np.random.default_rng(k).standard_normal((40_000, k)), axis=1).mean(axis=0)
        worth = np.pi / (k * (k - 1)) * np.sum(scores**2)
        names = [f"i{place}" for place in range(k)]
        tied = from_rankings({name: [1] for name in names} | {"last": [2]}, item_ranks=[*names, "last"])
        found = choices_of(tied)
        pair = found[choice_of("i0", ["i1"])] + found[choice_of("i1", ["i0"])]
        assert pair == pytest.approx(3 / (k + 1))
        assert worth == pytest.approx(pair, rel=0.03)


@pytest.mark.parametrize(
    ("words", "expected"),
    {
        "left right tie": [1.0, 0.0, 0.5],
        "A B both": [1.0, 0.0, 0.5],
        "first second draw": [1.0, 0.0, 0.5],
        "1 2 X": [1.0, 0.0, 0.5],
        "1 0 0.5": [1.0, 0.0, 0.5],
        "True False tied": [1.0, 0.0, 0.5],
        "home away equal": [1.0, 0.0, 0.5],
        "home_win away_win draw": [1.0, 0.0, 0.5],
        "Left_wins Right_wins Tie": [1.0, 0.0, 0.5],
        "Home_Team Away_Team Draw": [1.0, 0.0, 0.5],
        "model_a_won model_b_won neither": [1.0, 0.0, 0.5],
        "H A D": [1.0, 0.0, 0.5],
        "white black same": [1.0, 0.0, 0.5],
        "W L D": [1.0, 0.0, 0.5],
        "win loss neither": [1.0, 0.0, 0.5],
        "1-0 0-1 1/2-1/2": [1.0, 0.0, 0.5],
    }.items(),
    ids=str,
)
def test_every_word_for_a_side(words, expected):
    table = {"a": ["x", "y", "z"], "b": ["u", "v", "w"], "result": words.split()}
    assert from_winners(table, "a", "b", "result").y.tolist() == expected
    # The last words alone decide nothing else.
    two = {name: cells[:2] for name, cells in table.items()}
    assert from_winners(two, "a", "b", "result").y.tolist() == expected[:2]
