"""The command with files of surveys: grids of ratings, MaxDiff tasks, and choice tasks of one item in a row."""

import json
from pathlib import Path

import numpy as np
import pytest

from skpref import load
from skpref.cli import main
from skpref.cli.options import parse
from skpref.cli.tasks import comparisons
from skpref.cli.tasks import rows as row_tasks
from tests.unit.cli.answers import answers

GRID = [("ann", 31, "f", 5, 1, "", 2), ("bob", 44, "m", 4, "NA", 3, 1), ("cleo", 58, "f", 1, 5, 4, ""),
        *((f"p{k}", 20 + k, "fm"[k % 2], 1 + k % 5, 5 - k % 5, 3, 1 + k % 2) for k in range(12))]  # fmt: skip
NAMES = "person,age,sex,Q3_tea,Q3_milk,Q3_cola,Q3_water"
ITEMS = ("--item-ratings", "Q3_*")
ORDINAL = ("--model", "fm-ordinal")


def write(names, rows, name="survey.csv"):
    lines = [names.split(","), *rows]
    Path(name).write_text("".join(",".join(map(str, line)) + "\n" for line in lines), "utf-8")


@pytest.fixture(autouse=True)
def _folder(tmp_path):
    write(NAMES, GRID)


def triples(*options):
    """Return user, item and rating of every row that the command reads."""
    task = row_tasks.read(parse(["fit", "survey.csv", "--model", "fm", *options]))
    return [(*pair, y) for pair, y in zip(task.rows.X.tolist(), task.rows.y.tolist(), strict=True)]


# --------------------------------------------------------------------------------------------------------------- grids
def test_a_grid_gives_the_rows_of_the_long_table(capsys):
    long = [(row[0], name, y) for row in GRID for name, y in zip(NAMES.split(",")[3:], row[3:], strict=True)
            if y not in {"", "NA"}]  # fmt: skip
    assert triples("--user", "person", *ITEMS) == long
    assert "survey.csv: 3 of 60 cells have no rating" in capsys.readouterr().err
    grid = row_tasks.read(parse(["fit", "survey.csv", "--model", "fm", *ITEMS]))
    assert grid.reading == (
        "user = person, items = Q3_tea, Q3_milk, Q3_cola, Q3_water, weights = none, not used: age, sex"
    )
    assert triples(*ITEMS) == long  # `person` is a usual name
    assert triples("--item-ratings", "Q3_tea,Q3_m*") == [row for row in long if row[1] in {"Q3_tea", "Q3_milk"}]
    write("person,item,rating", long, "long.csv")
    tasks = [row_tasks.read(parse(["fit", *words, "--model", "m3f"]))
             for words in (["survey.csv", *ITEMS], ["long.csv", "--user", "person"])]  # fmt: skip
    assert tasks[0].facts["data.sha256"] == tasks[1].facts["data.sha256"]
    assert tasks[0].columns == {"user": "person"}


def test_people_without_ids_are_numbered_by_rows():
    grid = [row[3:] for row in GRID]
    grid[1] = ("NA", "", "", "")
    write("tea,milk,cola,water", grid)
    rows = triples("--item-ratings", "*")
    assert [user for user, item, _ in rows if item == "cola"][:2] == ["3", "4"]
    task = row_tasks.read(parse(["fit", "survey.csv", "--model", "fm", "--item-ratings", "*"]))
    assert task.reading.startswith("user = number of the row, items = tea, ")
    assert task.reading.endswith("; 1 row left out: 1 without a rating")


def test_weights_and_words_and_columns_with_the_names_of_roles():
    write("item,rating,Q1,Q2,weight", [(f"p{k}", "x", "ok", ("bad", "")[k % 2], 1 + k) for k in range(3)])
    task = row_tasks.read(parse(["fit", "survey.csv", *ORDINAL, "--user", "item", "--item-ratings", "Q*", "--levels",
                              "bad,ok", "--weight", "weight"]))  # fmt: skip
    assert task.rows.X.tolist() == [["p0", "Q1"], ["p0", "Q2"], ["p1", "Q1"], ["p2", "Q1"], ["p2", "Q2"]]
    assert task.rows.weight.tolist() == [1, 1, 2, 3, 3]
    assert task.rows.y.tolist() == [1, 0, 1, 1, 0]
    assert task.columns == {"user": "item"}


def test_a_model_of_a_grid_ranks_predicts_and_asks(capsys, monkeypatch):
    assert main(["fit", "survey.csv", "--model", "fm", *ITEMS, "--user", "person"]) == 0
    capsys.readouterr()
    assert main(["rank", "model.skpref", "--user", "p3", "--json"]) == 0
    assert {row["id"] for row in json.loads(capsys.readouterr().out)} == set(NAMES.split(",")[3:])
    write("person,item", [("ann", "Q3_cola"), ("new", "Q3_tea")], "new.csv")
    assert main(["predict", "model.skpref", "new.csv", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    monkeypatch.setattr("sys.stdin.readline", lambda: "q")
    assert main(["elicit", "model.skpref", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["next_question"].startswith("Q3_")


def test_incomplete_people_are_left_out(capsys, refuses):
    rows = [("", *GRID[0][1:]), *GRID[1:]]
    write(NAMES, rows)
    refuses(["fit", "survey.csv", *ORDINAL, *ITEMS], "survey.csv, line 2, column 'person': a user id is missing")
    assert triples(*ITEMS, "--missing", "drop")[0] == ("bob", "Q3_tea", 4.0)
    assert "1 row of survey.csv is incomplete and left out" in capsys.readouterr().err


def changed(row, column, cell):
    """Return the grid with another cell."""
    rows = [list(line) for line in GRID]
    rows[row][column] = cell
    return rows


BAD_GRIDS = {
    "age": (GRID, (*ORDINAL, "--item-ratings", "*"), "column 'age': its numbers are 20 to 58, unlike those of other"),
    "ids": (
        [(k, *row[3:]) for k, row in enumerate(GRID * 2)],
        (*ORDINAL, "--columns", "nr,a,b,c,d", "--item-ratings", "*"),
        "column 'nr': its numbers are 0 to 29",
    ),
    "a word": (changed(2, 4, "great"), (*ORDINAL, *ITEMS), "survey.csv, line 4, column 'Q3_milk': expected a number"),
    "a code": (
        changed(2, 4, 99),
        ("--model", "ipm3f", *ITEMS),
        "line 4, column 'Q3_milk': 99 is far from the other ratings, 1 to 5 (1 such cells); if it stands for no answer",
    ),
    "not binary": (GRID, ("--model", "fm-classifier", *ITEMS), "line 2, column 'Q3_tea': 5 is outside the range 0 to"),
    "no pattern": (GRID, (*ORDINAL, "--item-ratings", "Q4_*"), "no column has a name like 'Q4_*'"),
    "one item": (GRID, (*ORDINAL, "--item-ratings", "Q3_t*"), "wants the columns of two items at least; got 'Q3_tea'"),
    "two roles": (
        GRID,
        (*ORDINAL, "--item-ratings", "Q3_*,person"),
        "column 'person': this column has another meaning; --item-ratings must name others",
    ),
    "twice": (
        changed(3, 0, "bob"),
        (*ORDINAL, *ITEMS),
        "line 5, column 'person': user 'bob' occurs twice (first on li",
    ),
    "no user": (GRID, (*ORDINAL, *ITEMS, "--user", "persn"), "no column 'persn'; did you mean 'person'? It was asked"),
    "rating": (GRID, (*ORDINAL, *ITEMS, "--rating", "age"), "reads ratings from columns of items; leave --rating out"),
    "other model": (GRID, ("--model", "ordinal", *ITEMS), "--item-ratings is for --model gppl, crowd, m3f"),
    "empty": ([(*row[:3], "", "", "", "") for row in GRID], (*ORDINAL, *ITEMS), "no rating is in the columns of --it"),
    "crowd": (changed(2, 4, "?"), ("--model", "crowd", "--user", "person", *ITEMS), "line 4, column 'Q3_milk': expect"),
    "two layouts": (GRID, (*ITEMS, "--label", "age"), "--item-ratings says what a row holds; leave --label out"),
}


@pytest.mark.parametrize("case", BAD_GRIDS)
def test_bad_grids_are_refused_by_column(case, refuses):
    rows, options, message = BAD_GRIDS[case]
    write(NAMES, rows)
    if "--columns" in options:
        Path("survey.csv").write_text(Path("survey.csv").read_text("utf-8").split("\n", 1)[1], "utf-8")
    refuses(["fit", "survey.csv", *options], message)


def test_numbers_of_any_size_are_ratings_with_a_note(capsys):
    write(NAMES, changed(2, 4, 99))
    assert ("cleo", "Q3_milk", 99.0) in triples(*ITEMS)
    assert "note: survey.csv, line 4, column 'Q3_milk': 99 is far from the other ratings" in capsys.readouterr().err


@pytest.mark.parametrize(("code", "noted"), [(9, True), (-1, True), (6, False)])
def test_a_number_beyond_a_gap_has_a_note(code, noted, capsys):
    write(NAMES, changed(2, 4, code))
    row_tasks.read(parse(["fit", "survey.csv", *ORDINAL, "--user", "person", *ITEMS]))
    note = (
        f"line 4, column 'Q3_milk': {code} is apart from the other ratings, 1 to 5 (1 such cells); if it stands for no"
    )
    assert (note in capsys.readouterr().err) == noted


def test_ratings_of_a_person_are_a_ranking():
    task = comparisons.read(parse(["fit", "survey.csv", "--model", "crowd", "--user", "person", *ITEMS]))
    said = answers(task)
    assert len(said) == len(GRID)
    assert said["ann", "Q3_tea > Q3_water > Q3_milk"] == 1.0
    assert said["p2", "Q3_cola = Q3_milk = Q3_tea > Q3_water"] == 1.0
    assert f"{len(GRID)} rankings by {len(GRID)} users among 4 items, up to 4 at a time" in task.headline


def test_an_experiment_names_the_columns(refuses):
    text = '[data]\nfile = "survey.csv"\nitem_ratings = ["Q4_*", "Q5_*"]\n[model]\nname = "{}"\n'
    for name, message in (("fm", "no column has a name like 'Q4_*'"), ("svgp", "--item-ratings is for --model")):
        Path("e.toml").write_text(text.format(name), "utf-8")
        refuses(["run", "e.toml"], message)


# --------------------------------------------------------------------------------------------------------------- tasks
SHOWN = ["tea", "milk", "cola", "water", "wine"]  # the best first
# Each of three people does four tasks, in each of which one of three items is chosen.
TASKS = [(f"p{p}", t, k, SHOWN[(p + t + 2 * k) % 5]) for p in range(3) for t in range(1, 5) for k in range(3)]
FIRST = {(p, t): min(SHOWN.index(i) for q, s, _, i in TASKS if (p, t) == (q, s)) for p, t, _, _ in TASKS}
LAST = {(p, t): max(SHOWN.index(i) for q, s, _, i in TASKS if (p, t) == (q, s)) for p, t, _, _ in TASKS}
LONG = [(*row, "hot" if row[3] == "tea" else "cold", len(row[3]), int(SHOWN.index(row[3]) == FIRST[row[:2]]),
         int(SHOWN.index(row[3]) == LAST[row[:2]])) for row in TASKS]  # fmt: skip
LONG_NAMES = "person,task,place,drink,kind,size,best,worst"
WIDE = [(*LONG[n][:2], *(LONG[n + k][3] for k in range(3)), SHOWN[FIRST[LONG[n][:2]]], SHOWN[LAST[LONG[n][:2]]])
        for n in range(0, len(LONG), 3)]  # fmt: skip
WIDE_NAMES = "person,task,a,b,c,best,worst"
OFFERED = ("--offered", "a,b,c", "--chosen", "best", "--worst", "worst")
CONTEST = ("--contest", "person,task", "--item", "drink", "--chosen", "best")


def answers_of(*options):
    """Return the weights of the answers that the command reads."""
    return answers(comparisons.read(parse(["fit", "tasks.csv", *options])))


def test_rows_of_tasks_and_rows_of_items_are_the_same_choices(capsys):
    write(WIDE_NAMES, WIDE, "tasks.csv")
    assert (
        ": 12 choices among 5 items, up to 3 at a time, "
        in comparisons.read(parse(["fit", "tasks.csv", *OFFERED])).headline
    )
    expected = answers_of(*OFFERED)
    assert sum(expected.values()) == 12.0
    assert expected["tea | cola | wine"] == 2.0  # the best, the middle one, the worst
    places = [(*row[:5], *(1 + row[2:5].index(choice) for choice in row[5:])) for row in WIDE]
    write(WIDE_NAMES, places, "tasks.csv")
    capsys.readouterr()
    assert answers_of(*OFFERED) == expected
    assert "note: tasks.csv: column 'best' has positions, 1 for 'a' to 3 for 'c'" in capsys.readouterr().err
    write(LONG_NAMES, LONG, "tasks.csv")
    assert answers_of(*CONTEST, "--worst", "worst") == expected
    crowd = ("--contest", "task", *CONTEST[2:], "--worst", "worst", "--model", "crowd", "--user", "person")
    found = answers_of(*crowd)  # each person has tasks 1 to 4
    assert {user for user, _ in found} == {"p0", "p1", "p2"}
    assert {text: sum(n for (_, other), n in found.items() if other == text) for _, text in found} == expected


def test_features_of_shown_items(capsys, refuses):
    options = ("--contest", "person,task", "--chosen", "best", "--features", "kind,size")
    write(LONG_NAMES, LONG, "tasks.csv")
    items = comparisons.read(parse(["fit", "tasks.csv", *options])).data.items
    assert items is not None
    assert items.feature_names == ("kind=cold", "kind=hot", "size")
    features = dict(zip(items.ids, np.asarray(items.features).tolist(), strict=True))
    assert features["kind=hot, size=3"] == [0.0, 1.0, 3.0]
    assert features["kind=cold, size=4"] == [1.0, 0.0, 4.0]  # milk and cola, in one task
    rows = [row for row in LONG if row[3] not in {"milk", "cola"}]
    write(LONG_NAMES, [(*row[:6], int(row[3] == "tea"), 0) for row in rows], "tasks.csv")
    assert main(["fit", "tasks.csv", *options, "--missing", "drop", "--set", "max_iter=3"]) == 0
    model = load("model.skpref")
    assert set(model.item_ids_) == {"kind=hot, size=3", "kind=cold, size=5", "kind=cold, size=4"}
    assert "8 rows left out: 8 incomplete" in capsys.readouterr().out
    rank = ["rank", "model.skpref", "new.csv", "--json"]
    write("id,kind=cold,kind=hot,size", [("iced", 1, 0, 3), ("soup", 0, 1, 4)], "new.csv")
    capsys.readouterr()
    assert main(rank) == 0
    ranking = capsys.readouterr().out
    write("id,size,kind", [("iced", 3, "cold"), ("soup", 4, "hot")], "new.csv")  # coded as in the fit
    assert main(rank) == 0
    assert capsys.readouterr().out == ranking
    for kind, message in (("warm", "line 2, column 'kind': 'warm' is no level of the model, which has cold, hot"),
                          ("", "line 2, column 'kind': an attribute is missing; --missing drop")):  # fmt: skip
        write("id,size,kind", [("iced", 3, kind), ("soup", 4, "hot")], "new.csv")
        refuses(rank, message)
    assert main([*rank, "--missing", "drop"]) == 0


def test_people_have_choices_on_both_sides_of_splits():
    write(WIDE_NAMES, WIDE, "tasks.csv")
    crowd = ("--model", "crowd", "--user", "person")
    task = comparisons.read(parse(["tune", "tasks.csv", *OFFERED, *crowd]))
    assert task.split_note == "; each user also has choices to learn from"
    for train, test in (task.hold_out(0.2, 0), *task.folds(task.rows, 3, 0)):
        assert {*task.rows.X[test, 0]} <= {*task.rows.X[train, 0]}
        assert len(train) + len(test) == task.rows.size
    write(WIDE_NAMES, WIDE[::4], "tasks.csv")  # one task each: there is nothing else to learn from
    single = comparisons.read(parse(["fit", "tasks.csv", *OFFERED, *crowd]))
    assert single.rows.groups.tolist() == single.rows.X[:, 0].tolist()
    assert single.split_note == ", split by person"


def test_tasks_whose_names_hold_commas_stay_apart():
    rows = [(f'"{person}"', f'"{task}"', item, int(item == "x")) for person, task in (("a, b", "c"), ("a", "b, c"))
            for item in "xy"]  # fmt: skip
    write("person,task,item,chosen", rows, "tasks.csv")
    options = ("--contest", "person,task", "--chosen", "chosen")
    assert len(comparisons.read(parse(["fit", "tasks.csv", *options])).data.rows.y) == 2


def relabelled(row, column, cell):
    """Return the rows of items with another cell."""
    rows = [list(line) for line in LONG]
    rows[row][column] = cell
    return rows


CHOSEN = next(row for row, line in enumerate(LONG[:3]) if line[6])


BAD_TASKS = {
    "same numbers": (LONG, ("--contest", "task", *CONTEST[2:]), "then the columns of person and task name it together"),
    "few features": (
        [(*line[:4], "same", *line[5:]) for line in LONG],
        (*CONTEST[:2], *CONTEST[4:], "--features", "kind"),
        "tasks.csv: all items shown have the same 'kind': it has no effect to learn; leave it out of --features",
    ),
    "no feature": (
        relabelled(1, 4, ""),
        (*CONTEST[:2], *CONTEST[4:], "--features", "kind"),
        "line 3, column 'kind': an attribute is missing; --missing drop leaves such rows out",
    ),
    "rank": (LONG, (*CONTEST, "--rank", "place"), "--rank is of rankings, and --chosen and --worst are of choices"),
    "group": (LONG, (*CONTEST, "--group", "place"), "column 'place': '1' differs from '0' on line 2, but task p0, 1"),
    "features": (LONG, (*CONTEST, "--features", "size"), "and no --item or --items"),
    "no contest": (LONG, ("--features", "size"), "they need --contest, where a row is one item, or patterns such as"),
    "single": (LONG[CHOSEN : CHOSEN + 1], CONTEST, "at least 1 choice among two items or more is required"),
    "no id": (relabelled(1, 1, ""), CONTEST, "line 3, column 'task': a task id is missing; --missing drop leaves"),
}


@pytest.mark.parametrize("case", BAD_TASKS)
def test_bad_tasks_are_refused_by_row(case, refuses):
    rows, options, message = BAD_TASKS[case]
    write(LONG_NAMES, rows, "tasks.csv")
    refuses(["fit", "tasks.csv", *options], message)
