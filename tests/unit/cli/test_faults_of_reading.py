"""Files that were once read wrongly in silence: each has the right value, or is refused or asked about."""

from pathlib import Path

import numpy as np
import pytest

from skpref.cli import main
from skpref.cli.options import parse
from skpref.cli.tasks import comparisons
from skpref.cli.tasks import rows as row_tasks
from skpref.exceptions import DataError
from tests.unit.cli.answers import answers

FRUITS = ("fig,lime,plum,kiwi", "1,2,0,0", "2,1,3,0", "0,0,1,2")
RACES = ("race,item,rank", "1,a,1", "1,b,2", "1,c,99", "2,a,1", "2,b,99")
BALLOTS = ("first,second", *["X,"] * 6, *["Y,X"] * 4)
FLAGS = ("model_a,model_b,winner_model_a,winner_model_b,winner_tie", "x,y,1,0,0", "y,z,0,0,1", "z,x,0,1,0")
COUNTS = ("player1,player2,win1,win2", "x,y,7,3", "y,z,1,0", "z,x,0,0")
MENUS = ("o1,o2,o3,chosen", "x,y,z,{}", "y,z,x,{}")
PLAYERS = ("--left", "player1", "--right", "player2")


def read(*lines, options=()):
    """Read a file as a command does."""
    Path("data.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return comparisons.read(parse(["fit", "data.csv", *options]))


def pairs(task):
    """Return the weight of each pair, the winner first, where a tie counts half for each; or of each answer."""
    if task.data.roles.several:
        return answers(task)
    found = {}
    first = task.data.first
    for row, y, weight in zip(task.rows.X.tolist(), task.rows.y, task.rows.weight, strict=True):
        left, right = row[first : first + 2]
        for pair, share in (((left, right), y), ((right, left), 1.0 - y)):
            if share:
                found[pair] = round(found.get(pair, 0.0) + share * weight, 9)
    return found


def mirrored(n=12):
    """Return games with a row for each team: team, opponent, points of both, home, judge."""
    lines = []
    for k in range(n):
        a, b, own, other = f"t{k % 4}", f"t{(k + 1 + k % 3) % 4}", 90 + 7 * k % 11, 90 + 5 * k % 13
        home = 1 - 2 * (k % 2)
        lines += [f"{a},{b},{own},{other},{home},j{k % 3}", f"{b},{a},{other},{own},{-home},j{k % 3}"]
    return lines


GAMES = ("team,opponent,pts,opp_pts,home,judge", *mirrored())
SCORES = ("--left", "team", "--right", "opponent", "--score", "pts,opp_pts")


# ---------------------------------------------------------------------------------------------------------- is refused
@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (
            ("model_a,model_b,winner,label", "x,y,model_a,0", "y,z,model_a,0"),
            (),
            "'label' or 'winner' may say who won; name it by --label or --winner",
        ),
        (FLAGS, (), r"there is no column 'label'\. A file of comparisons has the columns"),
        (
            ("left,right,model_a,model_b,label", "a,b,c,d,1"),
            (),
            "left and right, or model_a and model_b, may be the items; name them by --left and --right",
        ),
        (
            ("rater,judge,left,right,label", "r,j,a,b,1"),
            ("--model", "crowd"),
            "'rater' or 'judge' may be the column of users; name it by --user",
        ),
        (("a,b,1", "a,c,0"), (), "line 1: looks like data and not like names of columns.*by --columns"),
        (("left,right,winner_b,label", "a,b,1,0"), ("--winner", "winner_a"), r"no column 'winner_a'\. A file"),
        (COUNTS, (*PLAYERS, "--counts", "win1"), "counts are two or three columns.*got 1"),
        (("x,y,z", "a,b,1"), (), "there is no column 'left'"),  # and not 'label' by chance
        (("left,right,label,home", "a,b,1,True", "b,a,0,maybe"), ("--covariates", "home"), "expected a number"),
    ],
)
def test_it_is_refused_or_asked_about(lines, options, message):
    with pytest.raises(DataError, match=message) as error:
        read(*lines, options=options)
    assert "\n" not in str(error.value)


# ------------------------------------------------------------------------------------------------------------- is read
CHOSEN = {"x | y z": 1.0, "z | x y": 1.0}


@pytest.mark.parametrize(
    ("lines", "options", "found"),
    [
        (
            FRUITS,
            ("--item-ranks", FRUITS[0], "--unranked", "0"),
            {"fig > lime": 1.0, "lime > fig > plum": 1.0, "plum > kiwi": 1.0},
        ),
        (RACES, ("--contest", "race", "--unranked", "99"), {"a > b": 1.0}),
        (BALLOTS, ("--ranking", "first,second", "--rest", "lost"), {"X | Y": 6.0, "Y > X": 4.0}),
        (BALLOTS, ("--ranking", "first,second", "--rest", "unknown"), {"Y > X": 4.0}),
        (FLAGS, ("--counts", FLAGS[0][16:]), {("x", "y"): 1.0, ("y", "z"): 0.5, ("z", "y"): 0.5, ("x", "z"): 1.0}),
        (COUNTS, (*PLAYERS, "--counts", "win1,win2"), {("x", "y"): 7.0, ("y", "x"): 3.0, ("y", "z"): 1.0}),
        (("winner,loser,weight", "A,B,57", "C,B,91"), ("--weight", "weight"), {("A", "B"): 57.0, ("C", "B"): 91.0}),
        (("a,b,1", "a,c,0"), ("--columns", "left,right,label"), {("a", "b"): 1.0, ("c", "a"): 1.0}),
        ((MENUS[0], MENUS[1].format("o1"), MENUS[2].format("o2")), ("--offered", "o1,o2,o3"), CHOSEN),
        (
            ("task,item,chosen", "1,x,True", "1,y,False", "2,z,FALSE", "2,x,TRUE"),
            ("--contest", "task", "--chosen", "chosen"),
            {"x | y": 1.0, "x | z": 1.0},
        ),
    ],
)
def test_it_is_read(lines, options, found):
    assert pairs(read(*lines, options=options)) == found


def test_a_feature_called_weight_is_a_feature():
    Path("cars.csv").write_text(
        "mpg,power,weight\n" + "".join(f"{k},{90 - k},{1500 + k}\n" for k in range(12)), "utf-8"
    )
    task = row_tasks.read(parse(["fit", "cars.csv", "--model", "svgp", "--label", "mpg"]))
    assert task.names == ("power", "weight")
    assert task.rows.weight.tolist() == [1.0] * 12
    assert task.facts["data.read"] == "label = mpg, features = power, weight, weights = none"


# ----------------------------------------------------------------------------------------------------- what was read
@pytest.mark.parametrize(
    ("lines", "options", "line"),
    [
        (
            ("id,ann,bob", "1,3,4", "2,5,", "3,,"),
            ("--item-ratings", "ann,bob"),
            (
                "ratings of items = ann, bob, weights = none, not used: id; 2 rows left out: 1 without a ranking, "
                "1 of one item"
            ),
        ),
        (
            GAMES,
            (*SCORES, "--mirrored", "drop", "--covariates", "home", "--missing", "drop"),
            (
                "left = team, right = opponent, answer = the higher of pts, opp_pts, covariates = home, "
                "weights = none, not used: judge; 2 rows are ties, a third answer with likelihood=auto; 12 rows left "
                "out: 12 that list a game a second time"
            ),
        ),
        (
            ("left,right,label,x_a,x_b", "a,b,1,2,1", "b,b,0,1,1", "b,c,,1,1", "c,a,1,0,1"),
            ("--covariates", "x_a-x_b", "--missing", "drop", "--on-self", "drop"),
            (
                "left = left, right = right, answer = label, covariates = x_a - x_b, weights = none; 2 rows left out: "
                "1 incomplete, 1 with one item twice"
            ),
        ),
    ],
)
def test_what_was_read_is_said(lines, options, line):
    assert read(*lines, options=options).facts["data.read"] == line


def test_the_command_prints_what_was_read(capsys):
    read("winner,loser,weight", "A,B,57", "C,B,91")
    assert main(["fit", "data.csv", "--set", "max_iter=2", "--set", "tol=1.0"]) == 0
    assert "\nRead: winner = winner, loser = loser, weights = none, not used: weight\n" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------------- mirrored games
@pytest.mark.parametrize("user", [(), ("--model", "crowd", "--user", "judge")])
def test_both_rows_of_a_game_are_in_one_fold(user):
    task = read(*GAMES, options=(*SCORES, "--mirrored", "keep", *user))
    games = np.arange(task.rows.size) // 2
    assert task.rows.groups is not None
    assert task.rows.groups.tolist() == (2 * games).tolist()
    for train, test in [task.hold_out(0.3, 0), *task.folds(task.rows, 3, 0)]:
        assert train.size
        assert test.size
        assert not set(games[train]) & set(games[test])
