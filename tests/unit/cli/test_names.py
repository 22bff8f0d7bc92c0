"""Usual names of columns, as people write them: in capitals, with spaces, underscores or hyphens."""

from pathlib import Path

import pytest

from skpref.cli import main
from skpref.cli.files import USERS
from skpref.cli.options import parse
from skpref.cli.tasks import comparisons
from skpref.cli.tasks import rows as row_tasks
from skpref.data.columns import Columns

PAIRS = ["ann,a,b,1,0", "bob,b,c,1,1", "cleo,c,a,0,0"] * 4


def write(names, *rows):
    Path("data.csv").write_text("\n".join([names, *rows]) + "\n", "utf-8")
    return "data.csv"


def test_usual_names_have_any_case_and_spaces():
    sheet = Columns({name: [] for name in ("Respondent ID", "LEFT", "left", "Model-A")}, [], "line")
    assert sheet.usual(*USERS) == "Respondent ID"
    assert sheet.usual("left") == "left"
    assert sheet.usual("model_a") == "Model-A"
    assert sheet.usual("label") == "label"


@pytest.mark.parametrize("name", ["Respondent ID", "respondent_id", "RespondentID", "respondent-id", "User", "Judge"])
def test_users_of_a_crowd_are_found(name, capsys):
    file = write(f"{name},Left,Right,Label,x", *PAIRS)
    data = comparisons.read(parse(["fit", file, "--model", "crowd"])).data
    assert (data.roles.user, data.roles.sides, data.n_users) == (name, ("Left", "Right"), 3)
    assert main(["fit", file, "--model", "crowd", "--set", "max_iter=2", "--set", "tol=1.0"]) == 0
    read = f"Read: left = Left, right = Right, answer = Label, user = {name}, weights = none, not used: x\n"
    assert read in capsys.readouterr().out
    assert main(["predict", "model.skpref", write(f"{name},left,RIGHT", "ann,a,b")]) == 0
    assert main(["predict", "model.skpref", write("Person ID,left,RIGHT", "ann,a,b")]) == 0


@pytest.mark.parametrize(
    ("names", "rows", "options"),
    [
        ("Model A,Model B,Winner", ["a,b,Model A", "b,c,model_b"], ()),
        ("Winner,Loser", ["a,b", "c,a"], ()),
        ("winner,loser,Label", ["a,b,cup", "c,a,league"], ()),
        ("Left,Right,Label,winner", ["a,b,cup,a", "c,a,league,tie"], ("--winner", "winner")),
        ("race,Item,Rank", ["1,a,1", "1,b,2", "2,c,1", "2,a,2"], ("--contest", "race")),
        ("x,y,Chosen", ["a,b,x", "b,c,c"], ("--offered", "x,y")),
    ],
)
def test_layouts_of_comparisons_are_found(names, rows, options):
    assert comparisons.read(parse(["fit", write(names, *rows), *options])).data.n_items == 3


def test_other_files_have_such_names_too():
    file = write("User ID,Product-ID,Rating", *(f"u{k % 4},i{k % 3},{k % 5}" for k in range(12)))
    columns = row_tasks.read(parse(["fit", file, "--model", "m3f"])).columns
    assert columns == {"user": "User ID", "item": "Product-ID"}
    file = write("ID,size,Label", *(f"r{k},{k},{k % 3}" for k in range(12)))
    assert row_tasks.read(parse(["fit", file, "--model", "ordinal"])).names == ("size",)
    Path("items.csv").write_text("ID,size\na,1\nb,2\nc,4\n", "utf-8")
    assert main(["fit", write("user,left,right,label,x", *PAIRS), "--items", "items.csv"]) == 0
    assert main(["rank", "model.skpref", "items.csv"]) == 0
