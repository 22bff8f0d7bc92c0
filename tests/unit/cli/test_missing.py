"""Cells that hold nothing: an error that names column, line and remedy, or rows that are left out and counted."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from skpref import load
from skpref.cli import main

VOTES = [("left", "right", "label", "weight", "home", "user")] + [
    (f"i{k % 5}", f"i{(k + 1 + k % 3) % 5}", k % 2, 1 + k % 3, k % 4 - 1, f"u{k % 3}") for k in range(20)
]
STARS = [("user", "item", "rating", "weight")] + [
    (f"u{u}", f"i{i}", (u + i) % 3 % 2, 1 + u % 2) for u in range(5) for i in range(5)
]
ROWS = [("size", "colour", "label", "weight")] + [(k, k % 7, k % 2, 1 + k % 2) for k in range(20)]
ITEMS = [("id", "size", "colour")] + [(f"i{k}", k, k % 2) for k in range(5)]
USERS = [("user", "age")] + [(f"u{k}", k) for k in range(3)]
TABLES = {"votes": VOTES, "stars": STARS, "rows": ROWS, "items": ITEMS, "users": USERS}

FAST = ("--set", "max_iter=2", "--set", "tol=1.0")
COVARIATES = ("fit", "votes.csv", "--covariates", "home", *FAST)
SCORES = ("fit", "votes.csv", "--score", "home", *FAST)
CROWD = ("fit", "votes.csv", "--items", "items.csv", "--users", "users.csv", "--model", "crowd", *FAST)
WEIGHT = ("--weight", "weight")
SHORT = ("--set", "max_iter=4", "--set", "burn_in=0", "--set", "n_factors=2")
M3F = ("fit", "stars.csv", "--model", "m3f", *WEIGHT, *SHORT)
GRADES = ("fit", "rows.csv", "--model", "ordinal", *WEIGHT, "--set", "optimizer=None", *FAST)
NUMBERS = ("fit", "rows.csv", "--model", "svgp", *WEIGHT, *FAST)
MACHINE = ("fit", "stars.csv", "--model", "fm", "--set", "max_iter=2")
# The command, the file, the column of numbers, and what is said of its second row.
PLACES = {
    "weight of a comparison": (("fit", "votes.csv", *WEIGHT, *FAST), "votes", "weight"),
    "label of a comparison": (("fit", "votes.csv", *FAST), "votes", "label"),
    "covariate": (COVARIATES, "votes", "home"),
    "score": (SCORES, "votes", "home"),
    "feature of an item": (CROWD, "items", "colour"),
    "feature of a user": (CROWD, "users", "age"),
    "rating": (M3F, "stars", "rating"),
    "weight of a rating": (M3F, "stars", "weight"),
    "number by user and item": (MACHINE, "stars", "rating"),
    "feature": (NUMBERS, "rows", "colour"),
    "feature of a grade": (GRADES, "rows", "size"),
    "grade": (GRADES, "rows", "label"),
    "grade in words": ((*GRADES, "--levels", "0,1,2,x"), "rows", "label"),
    "rating in words": ((*M3F, "--levels", "0,1,2,x"), "stars", "rating"),
    "target": (NUMBERS, "rows", "label"),
}


def write(name, row=None, column="", text=""):
    """Write a file, perhaps with another text in a cell."""
    table = [list(cells) for cells in TABLES[name]]
    if row is not None:
        table[row][table[0].index(column)] = text
    with Path(f"{name}.csv").open("w", newline="") as file:
        csv.writer(file).writerows(table)


@pytest.fixture(autouse=True)
def files(tmp_path):
    for name in TABLES:
        write(name)


@pytest.mark.parametrize("place", PLACES)
def test_a_missing_number_is_refused_with_column_line_and_remedy(place, capsys):
    command, name, column = PLACES[place]
    write(name, 2, column, "NA")
    assert main(list(command)) == 2
    message = capsys.readouterr().err
    assert re.search(rf"{name}\.csv, line 3, column '{column}': (a|the) (number|level|winner) is missing", message)
    assert message.strip().endswith("; --missing drop leaves such rows out")
    assert ", got 'NA'" in message or place == "label of a comparison"


def test_error_is_the_default_and_a_word():
    assert main([*PLACES["covariate"][0], "--missing", "error"]) == 0
    write("votes", 2, "home", "NA")
    assert main([*PLACES["covariate"][0], "--missing", "error"]) == 2


WRITTEN = [(place, "NA") for place in PLACES]
WRITTEN += [("score", text) for text in ("NaN", "n/a", " ", "#N/A", "None")]


@pytest.mark.parametrize(("place", "text"), WRITTEN)
def test_rows_without_a_number_are_left_out_and_counted(place, text, capsys):
    command, name, column = PLACES[place]
    write(name, 2, column, text)
    assert main([*command, "--missing", "drop"]) == 0
    assert "note: 1 row " in capsys.readouterr().err


def test_text_that_is_no_missing_number_is_never_left_out(refuses):
    write("rows", 2, "size", "tall")
    refuses(
        [*NUMBERS, "--missing", "drop"],
        "line 3, column 'size': expected a number (features are numeric; choose by --features), got 'tall'",
    )


def test_rows_left_out_are_as_if_they_were_not_there():
    lines = Path("rows.csv").read_text().splitlines(keepends=True)
    Path("rows.csv").write_text("".join(lines[:2] + lines[3:]))
    assert main([*NUMBERS, "--out", "without"]) == 0
    write("rows", 2, "size", "NA")
    assert main([*NUMBERS, "--out", "dropped", "--missing", "drop"]) == 0
    without, dropped = (load(name).posterior_.mean for name in ("without", "dropped"))
    np.testing.assert_array_equal(without, dropped)


def test_comparisons_of_items_and_users_without_features_go_too(capsys):
    write("items", 2, "size", "NA")
    write("users", 2, "age", "n/a")
    assert main([*CROWD, "--missing", "drop"]) == 0
    notes = capsys.readouterr().err
    of_item = [row for row in VOTES[1:] if "i1" in row[:2]]
    of_user = [row for row in VOTES[1:] if row[-1] == "u1" and row not in of_item]
    assert "note: 1 row of items.csv is incomplete and left out" in notes
    assert f"note: {len(of_item)} comparisons are of items without features and left out" in notes
    assert f"note: {len(of_user)} comparisons are of users without features and left out" in notes
    assert load("model.skpref").posterior_ is not None


def test_ids_that_pandas_wrote_as_fractions_are_those_of_the_comparisons(capsys):
    Path("items.csv").write_text("id,size\n1.0,1\n2.0,2\n3.0,\n4.0,5\n")
    Path("votes.csv").write_text("left,right,label\n" + "1,2,1\n2,3,0\n4,2,1\n4,1,1\n" * 5)
    assert main(["fit", "votes.csv", "--items", "items.csv", *FAST, "--missing", "drop"]) == 0
    assert "note: 5 comparisons are of items without features and left out" in capsys.readouterr().err
    assert load("model.skpref").items.ids.tolist() == ["1", "2", "4"]


def test_a_level_may_be_called_none(capsys):
    levels = [("size", "label")] + [(k, ("None", "some")[k % 2]) for k in range(20)] + [(3, "NA")]
    Path("rows.csv").write_text("".join(f"{size},{label}\n" for size, label in levels))
    assert main([*GRADES[:4], *GRADES[6:], "--levels", "None,some", "--missing", "drop"]) == 0
    assert "note: 1 row of rows.csv is incomplete and left out" in capsys.readouterr().err


def test_a_winner_written_na_is_missing(refuses):
    votes = [("left", "right", "winner")] + [("A", "B", "left" if k % 2 else "right") for k in range(12)]
    Path("battles.csv").write_text("".join(",".join(row) + "\n" for row in [*votes, ("A", "B", "NA")]))
    refuses(
        ["fit", "battles.csv", *FAST],
        "line 14, column 'winner': the winner is missing, got 'NA'; if nobody won, write tie; --missing drop",
    )
    assert main(["fit", "battles.csv", *FAST, "--missing", "drop"]) == 0


def test_dates_may_be_missing(refuses):
    rows = [(*VOTES[0], "day")] + [(*row, f"2026-01-{k + 1:02}") for k, row in enumerate(VOTES[1:])]
    rows[4] = (*rows[4][:-1], "NA")
    Path("votes.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    command = ["fit", "votes.csv", "--time-split", "day", *FAST]
    refuses(command, "line 5, column 'day': ")
    assert main([*command, "--missing", "drop"]) == 0


def test_every_row_may_lack_a_cell(refuses):
    Path("rows.csv").write_text("size,label\nNA,1\n,2\n")
    refuses([*NUMBERS, "--missing", "drop"], "rows.csv: at least 1 row is required: every row lacks a cell that is")


@pytest.mark.parametrize("command", ["predict"])
def test_rows_of_a_model_of_features(command, capsys):
    assert main(list(NUMBERS)) == 0
    Path("asked.csv").write_text("id,size,colour\na,1,2\nb,NA,2\nc,2,\nd,4,3\n")
    capsys.readouterr()
    assert main([command, "model.skpref", "asked.csv", "--json"]) == 2
    message = "asked.csv, line 3, column 'size': a number is missing (features are numeric), got 'NA'; --missing drop"
    assert message in capsys.readouterr().err
    assert main([command, "model.skpref", "asked.csv", "--json", "--missing", "drop"]) == 0
    captured = capsys.readouterr()
    assert {row["id"] for row in json.loads(captured.out)} == {"a", "d"}
    assert "note: 2 rows of asked.csv are incomplete and left out" in captured.err


def test_a_note_is_printed_once(capsys):
    assert main(["fit", "votes.csv", *FAST]) == 0
    Path("asked.csv").write_text("left,right\ni9,i0\ni1,\n,i2\n")
    capsys.readouterr()
    assert main(["predict", "model.skpref", "asked.csv", "--missing", "drop"]) == 0
    notes = capsys.readouterr().err
    assert notes.count("the model knows no item 'i9'") == 1
    assert "note: 2 rows of asked.csv are incomplete and left out" in notes


def test_items_of_a_ranking(capsys):
    assert main(["fit", "votes.csv", "--items", "items.csv", *FAST]) == 0
    write("items", 3, "size", "nan")
    capsys.readouterr()
    assert main(["rank", "model.skpref", "items.csv", "--json", "--missing", "drop"]) == 0
    captured = capsys.readouterr()
    assert {row["id"] for row in json.loads(captured.out)} == {"i0", "i1", "i3", "i4"}
    assert "note: 1 row of items.csv is incomplete and left out" in captured.err


def test_an_experiment_in_a_file_takes_missing_for_every_model():
    write("rows", 2, "size", "NA")
    sections = {"data": 'file = "rows.csv"\nmissing = "drop"', "model": 'name = "svgp"'}
    sections |= {"search": "trials = 1\nfolds = 2", "tracking": "mlflow = false"}
    Path("it.toml").write_text("".join(f"[{name}]\n{keys}\n" for name, keys in sections.items()))
    assert main(["run", "it.toml"]) == 0
