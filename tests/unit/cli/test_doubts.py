"""Data that can be read but look like a mistake: a note, or a refusal that says what to write."""

from pathlib import Path

import numpy as np
import pytest

from skpref._text import other_side
from skpref.cli import main
from skpref.cli.options import parse
from skpref.cli.tasks import comparisons
from skpref.cli.tasks import rows as row_tasks

FAST = ("--set", "max_iter=2", "--set", "tol=1.0")


def write(names, *rows, encoding="utf-8"):
    Path("data.csv").write_text("\n".join([names, *rows]) + "\n", encoding)
    return "data.csv"


def pairs(*more, n=12):
    """Return rows of left, right and label, with further cells that depend on the row."""
    return [
        ",".join([f"i{k % 4}", f"i{(k + 1 + k % 3) % 4}", str(k % 2), *(m.format(k) for m in more)]) for k in range(n)
    ]


# -------------------------------------------------------------------------------------------------------------- weights
@pytest.mark.parametrize(
    ("read", "model", "names", "row"),
    [
        (comparisons.read, "gppl", "left,right,label,{}", "i{k},i{m},{h},{w}"),
        (row_tasks.read, "m3f", "user,item,rating,{}", "u{k},i{m},{h},{w}"),
        (row_tasks.read, "m3f", "user,Q1,Q2,{}", "u{k},{h},{m},{w}"),
        (row_tasks.read, "fm", "user,item,rating,{}", "u{k},i{m},{h},{w}"),
        (row_tasks.read, "svgp", "label,size,{}", "{h},{k},{w}"),
        (row_tasks.read, "ordinal", "label,size,{}", "{h},{k},{w}"),
    ],
)
def test_weights_are_named_and_never_guessed(read, model, names, row):
    rows = [row.format(k=k, m=k + 1, h=k % 2, w=1 + k) for k in range(12)]
    command = ["fit", write(names.format("weight"), *rows), "--model", model]
    command += ("--item-ratings", "Q1,Q2") if "Q1" in names else ()
    plain = read(parse(command))
    assert plain.rows.weight.tolist() == [1.0] * plain.rows.size
    where = "features = size, weight, weights = none" if "size" in names else "weights = none, not used: weight"
    assert where in plain.headline or "Q1" in names
    named = read(parse([*command, "--weight", "weight"]))
    assert np.unique(named.rows.weight).size == 12
    assert "weights = weight" in named.headline


# ---------------------------------------------------------------------------------------------------------------- users
@pytest.mark.parametrize(("in_data", "in_table"), [("id", "Respondent ID"), ("user", "person"), ("judge", "id")])
def test_a_table_of_people_has_a_usual_name_for_its_ids(in_data, in_table, capsys):
    Path("people.csv").write_text(f"{in_table},age\n" + "".join(f"p{k},{20 + k}\n" for k in range(3)), "utf-8")
    file = write(f"left,right,label,{in_data}", *(f"{row},p{k % 3}" for k, row in enumerate(pairs())))
    options = ["fit", file, "--model", "crowd", "--user", in_data, "--users", "people.csv"]
    assert comparisons.read(parse(options)).data.users.feature_names == ("age",)
    assert ("people.csv: users from" in capsys.readouterr().err) == (in_table != "id")


def test_a_table_of_people_without_ids(capsys):
    Path("people.csv").write_text("name,age\np0,20\n", "utf-8")
    file = write("left,right,label,id", *(f"{row},p0" for row in pairs()))
    assert main(["fit", file, "--model", "crowd", "--user", "id", "--users", "people.csv"]) == 2
    said = capsys.readouterr().err
    assert "A file of users has numeric features and a column of ids: id, as in the data, or one such as user" in said


# --------------------------------------------------------------------------------------------------------------- scores
def test_the_score_of_one_side_is_no_margin(capsys, refuses):
    rows = [f"i{k % 4},i{(k + 1) % 4},{k % 3},{k % 2}" for k in range(12)]
    sides = ("--left", "home", "--right", "away", *FAST)
    assert main(["fit", write("home,away,home_goals,away_goals", *rows), *sides, "--score", "home_goals"]) == 2
    said = capsys.readouterr().err
    assert "column 'home_goals': this column is read as the left score minus the right one" in said
    assert said.strip().endswith("name the scores of both sides: home_goals, away_goals")
    assert main(["fit", "data.csv", *sides, "--score", "home_goals,away_goals"]) == 0
    refuses(
        ["fit", write("home,away,goals,x", *rows), *sides, "--score", "goals"],
        "name the scores of both sides: goals, OTHER_COLUMN",
    )
    rows[3] = "i3,i0,-1,0"
    assert main(["fit", write("home,away,margin,x", *rows), *sides, "--score", "margin"]) == 0


@pytest.mark.parametrize(
    ("column", "other"),
    [("home_goals", "away_goals"), ("len_b", "len_a"), ("Score 1", "Score 2"), ("FTHG", "FTAG"), ("left", None)],
)
def test_the_column_of_the_other_side(column, other):
    names = "home_goals", "away_goals", "home_shots", "len_a", "len_b", "Score 1", "Score 2", "FTHG", "FTAG", "left"
    assert other_side(names, column) == other


def test_a_word_among_scores_is_answered_with_what_to_do(capsys, refuses):
    rows = [f"i{k % 4},i{(k + 1) % 4},{k % 3},{k % 2}" for k in range(12)]
    rows[5] = "i0,i1,postponed,"
    assert main(["fit", write("left,right,a,b", *rows), "--score", "a,b"]) == 2
    said = capsys.readouterr().err
    assert "got 'postponed'; empty such cells, then --missing drop leaves such rows out" in said
    rows[5] = "i0,i1,,"
    assert main(["fit", write("left,right,a,b", *rows), "--score", "a,b", "--missing", "drop", *FAST]) == 0
    refuses(
        ["fit", write("left,right,label,x", *(f"i{k},i{k + 1},yes,no" for k in range(12)))],
        "line 2, column 'label': winner 'yes' is neither of the items 'i0' and 'i1'",
    )


# ----------------------------------------------------------------------------------------------------------- covariates
@pytest.mark.parametrize(
    ("cells", "covariate", "said"),
    [
        (("{0}", "7"), "len_a", "is never negative, and a positive value favours the left side; did you mean the "),
        (("{0}", "7"), "x_len", "is never negative, and a positive value favours the left side; --covariates A-B"),
        (("{0}", "7"), "len_a-len_b", ""),
        (("-{0}", "7"), "len_a", ""),
    ],
)
def test_a_covariate_of_one_side_gets_a_note(cells, covariate, said, capsys):
    names = "x_len,other" if covariate == "x_len" else "len_a,len_b"
    assert main(["fit", write(f"left,right,label,{names}", *pairs(*cells)), "--covariates", covariate, *FAST]) == 0
    err = capsys.readouterr().err
    assert err.count("is never negative") == bool(said)
    assert said in err
    if covariate == "len_a" and said:
        assert "--covariates len_a-len_b?" in err


def test_a_covariate_of_zeros_and_ones_gets_no_note(capsys):
    rows = [f"{row},{k // 2 % 2}" for k, row in enumerate(pairs())]
    assert main(["fit", write("left,right,label,home", *rows), "--covariates", "home", *FAST]) == 0
    assert "never negative" not in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------------ ids
def test_ids_that_differ_in_case_are_named(capsys):
    rows = [f"{row},{('Ann', 'ann', 'bob')[k % 3]},{('Code', 'code')[k % 2]}" for k, row in enumerate(pairs())]
    rows += [f"{a},{b},1,bob,Code" for a, b in (("GPT-5", "gpt-5"), ("x", "X"), ("y", "Y"), ("z", "Z"), ("i1", "I1"))]
    file = write("left,right,label,user,kind", *rows)
    comparisons.read(parse(["fit", file, "--model", "crowd", "--groups", "kind"]))
    err = capsys.readouterr().err
    shown = "'GPT-5', 'gpt-5'; 'I1', 'i1'; 'X', 'x'; and 2 more"
    assert f"note: data.csv: items whose names differ only in case are different items: {shown}\n" in err
    assert "users whose names differ only in case are different users: 'Ann', 'ann'\n" in err
    assert "groups whose names differ only in case are different groups: 'Code', 'code'\n" in err


@pytest.mark.parametrize(("read", "model"), [(row_tasks.read, "m3f"), (row_tasks.read, "fm")])
def test_ids_of_ratings_are_looked_at(read, model, capsys):
    rows = [f"u{k},{('Tea', 'tea', 'milk')[k % 3]},{k % 2}" for k in range(12)]
    read(parse(["fit", write("user,item,rating", *rows), "--model", model]))
    assert "items whose names differ only in case are different items: 'Tea', 'tea'\n" in capsys.readouterr().err


def test_letters_of_another_encoding_are_noted(capsys):
    file = write("left,right,label,x", *pairs("x"), "Šibenik,i1,1,x", encoding="cp1250")
    comparisons.read(parse(["fit", file, "--encoding", "latin-1"]))
    assert r"item '\x8aibenik' has a control character" in (said := capsys.readouterr().err)
    assert "try --encoding cp1252 or cp1250" in said
    task = comparisons.read(parse(["fit", file, "--encoding", "cp1250"]))
    assert "Šibenik" in task.rows.X[:, 0].tolist()
    assert capsys.readouterr().err == ""


def test_items_that_are_on_one_side_only_are_noted(capsys):
    rows = [f"p{k % 4},q{k % 3},{k % 2}" for k in range(12)]
    comparisons.read(parse(["fit", write("left,right,label", *rows)]))
    assert "note: data.csv: no item is in both columns, 'left' and 'right'" in capsys.readouterr().err
    comparisons.read(parse(["fit", write("left,right,label", *rows, "q0,p0,1")]))
    assert capsys.readouterr().err == ""
