"""The command with ratings: levels, hold-outs of users' ratings, recommendations."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from skpref import GibbsIPM3F, GibbsM3F, load
from skpref.cli import main
from skpref.cli.options import parse
from skpref.cli.tasks.base import Rows
from skpref.cli.tasks.figures import score_levels
from skpref.cli.tasks.rows import _medians
from skpref.cli.tune import read_task
from tests.unit.cli.answers import assert_refused, rows_of, write

FEW = ("--set", "max_iter=10", "--set", "burn_in=2")
QUICK = ("--model", "m3f", "--trials", "2", *FEW, "--set", "n_factors=3", "--no-mlflow")
N_USERS, N_ITEMS = 24, 16


def ratings_text(header="user,item,rating", levels=("1", "2", "3", "4", "5")):
    """Even users like high items, odd users low ones; everybody rates thirteen of sixteen."""
    rng = np.random.default_rng(0)
    lines = [header]
    for u in range(N_USERS):
        for i in np.sort(rng.choice(N_ITEMS, 13, replace=False)):
            liking = (i if u % 2 == 0 else N_ITEMS - 1 - i) / (N_ITEMS - 1)
            lines.append(f"u{u},i{i},{levels[int(np.clip(round(4 * liking + rng.normal(0, 0.2)), 0, 4))]}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "stars.csv", ratings_text())
    return tmp_path


# -------------------------------------------------------------------------------------------------------- the whole way
def test_tune_then_recommend(folder, capsys, refuses):
    # Of two trials the better one is luck; of eight, any seed's has .2 to .4 on the hold-out.
    assert main(["tune", "stars.csv", *QUICK, "--trials", "8", "--out", "out"]) == 0
    out, err = capsys.readouterr()
    for expected in (
        r"stars\.csv: 312 ratings by 24 users of 16 items, levels 1\.\.5; sha256 [0-9a-f]{12}",
        r"best: trial [0-7], cross-validated MAE \d\.\d{4}",
        r"Hold-out \(72 ratings, 240 to learn from; each user also has ratings to learn from\)",
        r"tuned +0\.[0-5]\d{3} +0\.\d{4} +[01]\.\d{3}",
        r"mean of user's and item's median +\d\.\d{4}",
        r"global median +1\.\d{4}",
        r"level +given +predicted +MAE where given",
        r"Final model: 10 sweeps",
        r"Recommend items:  skpref rank out.model.skpref --user ID",
    ):
        assert re.search(expected, out), expected
    assert "score -0." in err
    names = {path.name for path in (folder / "out").iterdir()}
    assert names == {"model.skpref", "trials.csv"}
    model = load(folder / "out" / "model.skpref")
    assert isinstance(model, GibbsM3F)
    assert model.classes_.tolist() == [1, 2, 3, 4, 5]
    assert set(model.user_ids_) == {f"u{u}" for u in range(N_USERS)}
    trials = rows_of(folder / "out" / "trials.csv")
    assert list(trials[0])[:5] == ["trial", "state", "mae", "folds", "seconds"]
    assert (trials[0]["C"], trials[0]["n_factors"], trials[0]["margin"]) == ("0.075", "3", "9.0")  # the default

    assert main(["rank", "out/model.skpref", "--user", "u1", "--out", "u1.csv"]) == 0
    assert "Recommended to user 'u1'" in capsys.readouterr().out
    assert len(rows_of(folder / "u1.csv")) == 3  # everybody has left out three of sixteen
    write(folder / "some.csv", "id\ni0\ni15\n")  # both may have been rated
    for user, best in (("u1", "i0"), ("u2", "i15")):
        assert main(["rank", "out/model.skpref", "some.csv", "--user", user, "--out", "some-ranked.csv"]) == 0
        assert rows_of(folder / "some-ranked.csv")[0]["item"] == best
    capsys.readouterr()
    for more, message in (([], "name it by --user"), (["--user", "U3"], "unknown user 'U3'; did you mean 'u3'?")):
        refuses(["rank", "out/model.skpref", *more], message)


def test_equal_seeds_give_equal_files(folder):
    for out in ("a", "b"):
        assert main(["tune", "stars.csv", *QUICK, "--trials", "1", "--out", out]) == 0
    assert Path("a", "model.skpref").read_bytes() == Path("b", "model.skpref").read_bytes()


def test_other_names_levels_and_model(folder, capsys):
    words = ("bad", "poor", "fair", "good", "best")
    write(folder / "words.csv", ratings_text("userId,movieId,grade", words))
    asked = ["tune", "words.csv", "--model", "ipm3f", "--trials", "1", *FEW, "--no-mlflow"]
    assert main([*asked, "--levels", "bad, poor, fair, good, best, divine", "--holdout", "one", "--folds", "2"]) == 0
    out, _ = capsys.readouterr()
    assert "levels bad, poor, fair, good, best, divine" in out
    assert "Hold-out (24 ratings, 288 to learn from" in out
    model = load(folder / "skpref-out" / "model.skpref")
    assert isinstance(model, GibbsIPM3F)
    assert model.classes_.tolist() == [*words, "divine"]
    (trial,) = rows_of(folder / "skpref-out" / "trials.csv")
    assert trial["folds"] == "2"
    assert "n_factors" not in trial


def test_ratings_are_tracked_without_themselves(folder, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    write(folder / "stars.csv", GOOD + FIRST + "\n")
    assert main(["tune", "stars.csv", *QUICK[:-1], "--trials", "1"]) == 0
    assert ": 312 ratings by 24 users" in capsys.readouterr().out  # one that is given again is no new one
    (spool,) = (folder / "skpref-out" / "spool").glob("*.jsonl")
    raw = spool.read_text("utf-8")
    events = [json.loads(line) for line in raw.splitlines()]
    metrics = {point[0] for event in events if event["op"] == "metrics" for point in event["points"]}
    assert metrics >= {"fold_score", "risk", "holdout.tuned.nmae", "holdout.global_median.mae"}
    assert {'"data.n_ratings"', '"job.settings"', '"best.C"'} <= set(re.findall(r'"[\w.]+"', raw))
    assert "u10" not in raw


def test_the_last_of_several_ratings_is_taken_where_that_is_asked_for(folder):
    write(folder / "stars.csv", GOOD + OTHER + "\n")
    assert (
        ": 312 ratings by 24 users" in read_task(parse(["tune", "stars.csv", *QUICK, "--duplicates", "last"])).headline
    )


# ----------------------------------------------------------------------------------------------------------- complaints
GOOD = ratings_text()
FIRST = GOOD.splitlines()[1]
OTHER = FIRST[:-1] + ("1" if FIRST[-1] != "1" else "2")
BAD = {
    "no rating": (
        ratings_text("user,item,ratng"),
        (),
        r"stars\.csv: there is no column 'rating'; did you mean 'ratng'\?.*Found: user, item, ratng",
    ),
    "one column twice": (GOOD, ("--item", "user"), "user, item, rating must be different columns; got user, user"),
    "user missing": (GOOD + ",i1,3\n", (), "line 314, column 'user': a user id is missing"),
    "a word": (GOOD + "u99,i1,good\n", (), "line 314, column 'rating': expected a number .*--levels.*got 'good'"),
    "not a level": (GOOD + "u99,i1,6\n", ("--levels", "1,2,3,4,5"), "line 314, column 'rating': '6' is none of the"),
    "not a word": (GOOD, ("--levels", "a,b"), "line 2, column 'rating': '[1-5]' is none of the levels a, b"),
    "differently": (
        GOOD + OTHER + "\n",
        (),
        r"stars\.csv: duplicate ratings that differ: user 'u0' rated item .* 2 times: .*, or set --duplicates mean or ",
    ),
    "too few": ("user,item,rating\nu,i,1\nu,j,2\n", (), "2 ratings of positive weight; at least 10 are needed"),
    "one level": ("user,item,rating\n" + "".join(f"u{k},i,3\n" for k in range(12)), (), "at least 2 levels"),
    "one each": (
        "user,item,rating\n" + "".join(f"u{k},i,{k % 2}\n" for k in range(12)),
        (),
        "every user has one rating; a hold-out needs users with two",
    ),
    "an option of others": (GOOD, ("--items", "x.csv"), "--items is for --model gppl or crowd, not for m3f"),
}


@pytest.mark.parametrize("case", BAD)
def test_complaints_name_file_line_and_column(folder, case, capsys):
    text, more, message = BAD[case]
    write(folder / "stars.csv", text)
    assert_refused(["tune", "stars.csv", *QUICK, *more], message, capsys)


def test_options_of_ratings_are_refused_elsewhere(folder, refuses):
    refuses(
        ["tune", "stars.csv", "--levels", "1,2", "--no-mlflow"],
        "--levels is for --model m3f, ipm3f, ordinal or fm-ordinal, not for gppl",
    )
    refuses(["tune", "stars.csv", "--holdout", "one", "--no-mlflow"], "--holdout one is for ratings")


# ---------------------------------------------------------------------------------------------------------------- parts
def test_figures_by_hand():
    rows = Rows(np.zeros((3, 2)), np.array([0, 4, 2]), np.array([1.0, 1.0, 2.0]))
    figures = score_levels(rows, np.array([0, 2, 3]), 5).values
    assert figures["mae"] == pytest.approx((0 + 2 + 2 * 1) / 4)
    assert figures["nmae"] == pytest.approx(1.0 / 1.6)  # 1.6 levels apart are two of five drawn at random
    assert figures["accuracy"] == pytest.approx(0.25)


def test_medians_of_owners():
    rng = np.random.default_rng(0)
    owner, level = rng.integers(0, 9, 60), rng.integers(0, 5, 60)
    expected = [np.median(level[owner == k]) if (owner == k).any() else np.nan for k in range(11)]
    np.testing.assert_array_equal(_medians(owner, level, 11), expected)
