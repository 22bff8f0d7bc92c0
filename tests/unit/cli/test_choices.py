"""The command with choices and rankings: what it learns, predicts and says, against the estimators; and bad files."""

import csv
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref import CrowdGPPL, GPPLClassifier, Table, load, save
from skpref.cli import main
from skpref.cli.options import parse
from skpref.cli.tasks import comparisons
from skpref.data import from_tasks
from tests.unit.cli.answers import answers

UTILITY = {"tea": 1.5, "milk": 0.5, "cola": 0.0, "wine": -1.0}
ITEMS = list(UTILITY)
QUICK = ("--set", "max_iter=30")


def simulated(n=40):
    """Return choices of three of four drinks in wide and long rows, and of brands at prices in wide and long rows."""
    rng = np.random.default_rng(7)
    shown = np.array([rng.choice(ITEMS, 3, replace=False) for _ in range(n)])
    price = rng.integers(1, 6, (n, 3))
    order = np.argsort(-np.array([[UTILITY[i] for i in row] for row in shown]) + 0.5 * price - rng.gumbel(size=(n, 3)))
    rank = 1 + np.argsort(order, axis=1)
    who, kind, year = ([f"{letter}{k % m}" for k in range(n)] for letter, m in (("p", 8), ("k", 2), ("200", 5)))
    wide = {"person": who, "task": list(range(n)), "kind": kind, "year": year}
    wide |= {name: shown[:, k].tolist() for k, name in enumerate("abc")}
    wide |= {f"price_{k + 1}": price[:, k].tolist() for k in range(3)}
    wide |= {name: shown[np.arange(n), order[:, end]].tolist() for name, end in (("best", 0), ("worst", 2))}
    long = {name: np.repeat(wide[name], 3).tolist() for name in ("person", "task", "kind", "year")}
    long |= {"item": shown.ravel().tolist(), "price": price.ravel().tolist(), "rank": rank.ravel().tolist()}
    long |= {
        name: (long["rank"] == np.array(place)).astype(int).tolist() for name, place in (("best", 1), ("worst", 3))
    }
    brand, cost = rng.choice(["x", "y", "z"], (n, 2)), rng.integers(1, 4, (n, 2))
    value = np.where(brand == "x", 1.0, 0.0) - 0.6 * cost + rng.gumbel(size=(n, 2))
    chosen = np.argmax(np.column_stack([value, rng.gumbel(size=n) - 1.0]), axis=1)
    offers = {"person": who, "chosen": ["none" if k == 2 else k + 1 for k in chosen.tolist()]}
    offers |= {f"brand_{k + 1}": brand[:, k].tolist() for k in range(2)}
    offers |= {f"price_{k + 1}": cost[:, k].tolist() for k in range(2)}
    rows = {"person": np.repeat(who, 3).tolist(), "task": np.repeat(np.arange(n), 3).tolist()}
    rows["brand"] = np.column_stack([brand, np.full(n, "none")]).ravel().tolist()
    rows["price"] = np.column_stack([cost, np.zeros(n, dtype=int)]).ravel().tolist()
    rows["chosen"] = (np.arange(3) == chosen[:, None]).astype(int).ravel().tolist()
    return wide, long, offers, rows


WIDE, LONG, OFFERS, PROFILES = simulated()
X = np.column_stack([WIDE[name] for name in "abc"]).astype(object)
PRICES = np.column_stack([WIDE[f"price_{k}"] for k in (1, 2, 3)])


def write(name, columns):
    with Path(name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])


def changed(columns, **cells):
    """Return columns with another cell in the first row."""
    return columns | {name: [cell, *columns[name][1:]] for name, cell in cells.items()}


@pytest.fixture(autouse=True)
def _folder(tmp_path):
    for name, columns in {"wide": WIDE, "long": LONG, "offers": OFFERS, "profiles": PROFILES}.items():
        write(f"{name}.csv", columns)
    write("items.csv", {"id": ITEMS, "size": [1, 2, 4, 3], "hot": [1, 0, 0, 0]})
    write("people.csv", {"person": [f"p{k}" for k in range(8)], "age": [20 + 3 * k for k in range(8)]})


def fit(*options):
    assert main(["fit", *options, *QUICK]) == 0
    return load("model.skpref")


@cache
def learnt(*options):
    fit(*options)
    return Path("model.skpref").read_bytes()


def predicted(file, *options, model="model.skpref"):
    """Return the columns that the command writes, numbers as numbers."""
    assert main(["predict", model, file, *options, "--out", "predicted.csv"]) == 0
    with Path("predicted.csv").open(encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    return {n: [float(r[n]) if n[:2] == "p_" or n == "probability" else r[n] for r in rows] for n in rows[0]}


def shares(found):
    return np.column_stack([column for name, column in found.items() if name.startswith("p_")])


WIDE_FIT = ("wide.csv", "--offered", "a,b,c", "--chosen", "best")
LONG_FIT = ("long.csv", "--contest", "person,task", "--chosen", "best")
CROWD = ("--model", "crowd", "--user", "person")


# ------------------------------------------------------------------------------------------------ fit, predict and rank
def test_choices_are_learnt_and_predicted_as_by_the_estimator():
    model = fit(*WIDE_FIT)
    direct = GPPLClassifier(likelihood="luce", random_state=0, max_iter=30).fit(X, np.array(WIDE["best"], dtype=object))
    assert_allclose(model.utility(ITEMS), direct.utility(ITEMS), rtol=1e-9)
    found = predicted("wide.csv")
    assert list(found)[-4:] == ["choice", "p_a", "p_b", "p_c"]
    assert_allclose(shares(found), direct.predict_proba(X), rtol=1e-9)
    assert found["choice"] == direct.predict(X).tolist()


def test_rows_of_items_say_the_same_as_rows_of_tasks():
    assert_allclose(fit(*LONG_FIT).utility(ITEMS), fit(*WIDE_FIT).utility(ITEMS), rtol=1e-9)
    by_task = shares(predicted("wide.csv"))
    assert_allclose(predicted("long.csv", "--contest", "task")["probability"], by_task.ravel(), rtol=1e-9)
    model = fit(*LONG_FIT)  # which knows the columns of tasks
    assert_allclose(predicted("long.csv")["probability"], model.predict_proba(X).ravel(), rtol=1e-9)
    order = np.random.default_rng(0).permutation(len(LONG["task"]))
    write("mixed.csv", {name: [column[row] for row in order] for name, column in LONG.items()})
    assert_allclose(np.sum(predicted("mixed.csv")["probability"]), len(X))
    assert_allclose(shares(predicted("wide.csv", "--offered", "a,b,c")), model.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize("more", [(), ("--worst", "worst")])
def test_prices_have_effects_in_both_layouts(more):
    wide = fit(*WIDE_FIT, "--covariates", "price_*", *more)
    p = shares(predicted("wide.csv"))
    assert_allclose(p, wide.predict_proba(np.column_stack([X, PRICES.astype(object)])), rtol=1e-9)
    assert_allclose(predicted("long.csv", "--contest", "task")["probability"], p.ravel(), rtol=1e-9)
    long = fit(*LONG_FIT, "--covariates", "price", *more)
    assert long.coef_[0] < 0.0
    assert_allclose(long.coef_, wide.coef_, rtol=1e-9)
    assert_allclose(predicted("long.csv")["probability"], p.ravel(), rtol=1e-9)
    write("dear.csv", changed(WIDE, price_1=9))
    dear = shares(predicted("dear.csv", "--offered", "a,b,c", model=saved(wide)))
    assert dear[0, 0] < p[0, 0]
    assert_allclose(dear[1:], p[1:], rtol=1e-9)


def saved(model):
    save(model, "other.skpref")
    return "other.skpref"


def test_an_item_that_was_not_shown_needs_no_price():
    gaps = changed(WIDE, best=WIDE["a"][0], b="", price_2="")
    write("wide.csv", gaps)
    fit(*WIDE_FIT, "--covariates", "price_*")
    first = shares(predicted("wide.csv"))[0]
    assert first[1] == 0.0
    assert first.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "file", "expected"),
    [
        (
            ("ranked.csv", "--ranking", "1st,2nd,3rd"),
            {"1st": ["x", "y", "x"], "2nd": ["y", "x", ""], "3rd": ["z", "", ""]},
            {"x > y > z": 1.0, "y > x": 1.0},
        ),
        (
            ("ranked.csv", "--item-ranks", "x,y,z", "--unranked", "9", "--rest", "lost"),
            {"x": [1, 2, 9], "y": [2, 2, 1], "z": [3, 1, 9]},
            {"x > y > z": 1.0, "z > x = y": 1.0, "y | x z": 1.0},
        ),
        (
            ("ranked.csv", "--contest", "race"),
            {"race": [1, 1, 1, 2, 2], "item": [*"xyzzx"], "rank": [1, 1, 3, 2, 1]},
            {"x = y > z": 1.0, "x > z": 1.0},
        ),
    ],
)
def test_rankings_are_read(options, file, expected):
    write("ranked.csv", file)
    more = ("--rest", "unknown") if "--ranking" in options else ()
    assert answers(comparisons.read(parse(["fit", *options, *more]))) == expected
    fit(*options, *more)
    write("asked.csv", {"u": ["x", "z"], "v": ["y", ""]})
    found = predicted("asked.csv", "--offered", "u,v")
    assert_allclose(shares(found)[1], [1.0, 0.0])
    assert found["choice"][1] == "z"


def test_rankings_of_some_of_the_columns_are_predicted():
    write("ranked.csv", {"1st": ["x", "y"] * 3, "2nd": ["y", "z"] * 3, "3rd": ["", ""] * 3})
    model = fit("ranked.csv", "--ranking", "1st,2nd,3rd")
    write("asked.csv", {"1st": [""], "2nd": ["z"], "3rd": ["x"]})
    found = predicted("asked.csv")
    assert_allclose(shares(found), [[0.0, *model.predict_proba(np.array([["z", "x"]], dtype=object))[0]]])
    assert found["choice"] == ["x"]


def test_people_groups_and_tables_have_their_say():
    crowd = fit(*WIDE_FIT, *CROWD)
    tasks = np.column_stack([np.array(WIDE["person"], dtype=object), X])
    assert_allclose(shares(predicted("wide.csv")), crowd.predict_proba(tasks), rtol=1e-9)
    grouped = fit(*LONG_FIT, *CROWD, "--groups", "kind", "--covariates", "price")
    with_kind = np.column_stack([tasks, PRICES.astype(object), np.array(WIDE["kind"], dtype=object)])
    p = np.array(predicted("long.csv")["probability"])
    assert_allclose(p, grouped.predict_proba(with_kind).ravel(), rtol=1e-9)
    write("other.csv", LONG | {"kind": ["k1" if kind == "k0" else "k0" for kind in LONG["kind"]]})
    assert np.abs(np.array(predicted("other.csv")["probability"]) - p).max() > 1e-6
    tables = fit(*WIDE_FIT, *CROWD, "--items", "items.csv", "--users", "people.csv")
    assert tables.items.feature_names == ("size", "hot")
    assert tables.users.feature_names == ("age",)
    assert_allclose(shares(predicted("wide.csv")), tables.predict_proba(tasks), rtol=1e-9)
    write("new.csv", {"id": ["cocoa"], "size": [2], "hot": [1]})
    assert main(["rank", "model.skpref", "new.csv", "--user", "p1"]) == 0
    assert main(["shares", "model.skpref", "items.csv"]) == 0


@pytest.mark.parametrize("fitted", [(*WIDE_FIT, "--covariates", "price_*"), (*LONG_FIT, "--covariates", "price")])
def test_utilities_of_choices_move_in_time(fitted, capsys):
    model = fit(*fitted, "--time", "year", "--set", "dynamics=drift")
    rows = np.column_stack([X, PRICES.astype(object), np.array(WIDE["year"], dtype=float).astype(object)])
    found = predicted(fitted[0])
    p = found["probability"] if "probability" in found else shares(found).ravel()
    assert_allclose(p, model.predict_proba(rows).ravel(), rtol=1e-9)
    assert main(["rank", "model.skpref", "--at", "2001"]) == 0
    capsys.readouterr()


# ------------------------------------------------------------------------------------------------- products of features
ATTRIBUTES = ("--features", "brand,price", "--none", "none")
PATTERNS = ("offers.csv", "--features", "brand_*,price_*", "--none", "none")


@pytest.mark.filterwarnings("ignore:column 'price' has the numbers 1 to 3", "ignore:.*show an item more than once")
def test_attributes_in_both_layouts_are_those_of_from_tasks(capsys):
    rows, y, items = from_tasks(PROFILES, features=["brand", "price"], none="none")
    direct = CrowdGPPL(items, random_state=0, n_factors=8, max_iter=30).fit(rows, y)
    long = fit("profiles.csv", "--contest", "task", *ATTRIBUTES, *CROWD)
    assert "Part-worths of the population" in capsys.readouterr().out
    assert_allclose(long.part_worths()["mean"], direct.part_worths()["mean"], rtol=1e-9)
    p = direct.predict_proba(rows)
    assert_allclose(predicted("profiles.csv")["probability"], p.ravel(), rtol=1e-9)
    wide = fit(*PATTERNS, *CROWD)
    out = capsys.readouterr().out
    assert "features = brand, price, user = person, weights = none\n" in out  # and no column that is made here
    assert_allclose(wide.part_worths()["mean"], direct.part_worths()["mean"], rtol=1e-9)
    found = predicted("offers.csv")
    assert list(found)[-4:] == ["choice", "p_1", "p_2", "p_none"]
    assert_allclose(shares(found), p, rtol=1e-9)
    assert found["choice"] == [["1", "2", "none"][k] for k in np.argmax(p, axis=1)]
    assert_allclose(predicted("profiles.csv", "--contest", "task")["probability"], p.ravel(), rtol=1e-9)
    write("products.csv", {"id": ["new", "old"], "brand": ["x", "y"], "price": [2.5, 1]})
    capsys.readouterr()
    assert main(["shares", "model.skpref", "products.csv", "--none", "--json"]) == 0
    assert [row["product"] for row in json.loads(capsys.readouterr().out)] == ["new", "old", "none"]
    assert main(["rank", "model.skpref", "products.csv", "--json"]) == 0  # which has no column none
    assert {row["id"] for row in json.loads(capsys.readouterr().out)} == {"new", "old"}


def test_an_alternative_of_empty_cells_is_not_shown():
    fit(*PATTERNS, *CROWD)
    write("few.csv", changed(OFFERS, brand_1="", price_1=""))
    first = shares(predicted("few.csv"))[0]
    assert first[0] == 0.0
    assert first.sum() == pytest.approx(1.0)


def test_a_file_in_which_nobody_may_choose_none():
    fit("profiles.csv", "--contest", "task", *ATTRIBUTES, *CROWD)
    real = [row for row, brand in enumerate(PROFILES["brand"]) if brand != "none"]
    write("real.csv", {name: [column[row] for row in real] for name, column in PROFILES.items()})
    p = np.array(predicted("real.csv")["probability"])
    assert_allclose(p[::2] + p[1::2], 1.0)


# ----------------------------------------------------------------------------------------------------------------- tune
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((*WIDE_FIT, "--covariates", "price_*"), "price_*"),
        ((*LONG_FIT, *CROWD, "--worst", "worst"), "each user also has choices to learn from"),
        ((*PATTERNS, *CROWD), "Part-worths of the population"),
        (("long.csv", "--contest", "person,task", "--time", "year", "--time-split", "year"), ", the latest"),
    ],
)
def test_tune_scores_what_was_chosen(options, said, capsys):
    assert main(["tune", *options, "--trials", "1", "--folds", "2", "--no-mlflow"]) == 0
    out = capsys.readouterr().out
    assert said in out
    found = {line[0]: line for line in re.findall(r"^  (tuned|equal shares) +(\S+) +(\S+)", out, re.MULTILINE)}
    assert found["equal shares"][1:] == ("0.333", "1.0986")  # wherever the best item stands
    assert float(found["tuned"][2]) < np.log(3.0)
    assert main(["predict", "skpref-out/model.skpref", options[0]]) == 0


def test_shares_when_shown_are_counts():
    task = comparisons.read(parse(["fit", *WIDE_FIT]))
    baseline = task.report.baselines(task.rows, task.rows)["shares when shown"]
    counts = {item: (np.sum(np.array(WIDE["best"]) == item) + 1) / (np.sum(item == X) + 2) for item in ITEMS}
    p = np.array([[counts[item] for item in row] for row in X])
    chosen = p[np.array(WIDE["best"])[:, None] == X] / p.sum(axis=1)
    assert baseline.values["log_loss"] == pytest.approx(-np.mean(np.log(chosen)))


# ------------------------------------------------------------------------------------------------------------ bad input
def test_items_are_read_without_spaces_and_as_pandas_writes_numbers():
    write("wide.csv", changed(WIDE, a=f" {WIDE['a'][0]} "))
    assert set(fit(*WIDE_FIT).item_ids_) == set(ITEMS)
    number = {item: str(k + 1) for k, item in enumerate(ITEMS)}
    coded = {name: [number[item] for item in WIDE[name]] for name in ("a", "b", "c", "best")}
    write("coded.csv", coded | {"b": [f"{cell}.0" for cell in coded["b"]]})
    assert set(fit("coded.csv", *WIDE_FIT[1:]).item_ids_) == {"1", "2", "3", "4"}
    assert predicted("coded.csv")["choice"][0] in {coded[name][0] for name in "abc"}


BAD = {
    "no choice": (changed(WIDE, best=""), WIDE_FIT[1:], "line 2, column 'best': the choice is missing; --miss"),
    "column twice": (WIDE, ("--offered", "a,a,b", "--chosen", "best"), "--offered names a column twice"),
    "no column": (WIDE, ("--offered", "a,b,c"), "no column 'chosen'. Choices are named by --offered A,B,... an"),
    "worst alone": (WIDE, ("--offered", "a,b,c", "--worst", "worst"), "there is no column 'chosen'."),
    "one price": (
        WIDE,
        (*WIDE_FIT[1:], "--covariates", "price_1"),
        '--covariates price_1: expected a pattern of 3 columns, one for each of a, b, c, such as "price_*"; got 1',
    ),
    "four prices": (WIDE, (*WIDE_FIT[1:], "--covariates", "p*"), "--covariates p*: expected a pattern of 3 colu"),
    "one match": (WIDE, (*WIDE_FIT[1:], "--covariates", "price_1*"), "1 column with a name such as price_1*; two"),
    "no price": (changed(WIDE, price_2=""), (*WIDE_FIT[1:], "--covariates", "price_*"), "error: bad.csv, line 2"),
    "patterns of rows": (LONG, (*LONG_FIT[1:], "--covariates", "*r*"), "--covariates *r*: patterns are for rows of"),
    "constant": (
        LONG,
        (*LONG_FIT[1:], "--covariates", "year"),
        "covariate 'year' is the same for all items of each row: it has no effect to learn",
    ),
    "group varies": (
        changed(LONG, kind="other"),
        (*LONG_FIT[1:], *CROWD, "--groups", "kind"),
        "but task p0, 0 has one value of this column",
    ),
    "time varies": (changed(LONG, year="1999"), (*LONG_FIT[1:], "--time", "year"), "but task p0, 0 has one value of"),
    "time of features": (
        {**PROFILES, "day": PROFILES["task"]},
        ("--contest", "task", *ATTRIBUTES, *CROWD, "--time", "day"),
        "part-worths of features are the same in all groups, in any context and at all times",
    ),
    "groups of features": (
        PROFILES,
        ("--contest", "task", *ATTRIBUTES, *CROWD, "--groups", "person"),
        "part-worths of features are the same in all groups",
    ),
    "features of items": (LONG, (*LONG_FIT[1:], "--item", "item", "--features", "price"), "and no --item or --items"),
    "an unknown item": (
        changed(WIDE, a="gin", best="gin"),
        (*WIDE_FIT[1:], "--items", "items.csv"),
        "bad.csv, line 2: unknown item 'gin', not in items.csv",
    ),
    "an unknown user": (
        WIDE | {"person": [*WIDE["person"][:-1], "eve"]},
        (*WIDE_FIT[1:], *CROWD, "--users", "people.csv"),
        "bad.csv, line 41, column 'person': unknown user 'eve', not in people.csv",
    ),
    "all columns": (OFFERS, ("--features", "*"), "--features *: a pattern has the name of an attribute"),
    "an answer": (OFFERS, ("--features", "*o*,brand_*"), "column 'chosen': this is a column of tasks, users or"),
    "a person": (OFFERS, ("--features", "p*", *CROWD), "'person': this is a column of tasks, users or answers"),
    "uneven": (
        OFFERS | {"price_3": OFFERS["price_1"]},
        (*PATTERNS[1:], *CROWD),
        "--features has two columns or more of each attribute, and as many of each; got",
    ),
    "no none": (OFFERS, ("--features", "brand_*,price_*"), "none was chosen, --none WORD says so"),
    "drop": (OFFERS, (*PATTERNS[1:], "--missing", "drop"), "--missing drop leaves rows of tasks out, and a wide"),
    "a gap": (changed(OFFERS, brand_1=""), PATTERNS[1:], "an attribute is missing; fill it in, or leave its line"),
    "positions of ranks": (
        LONG | {"1st": LONG["item"], "2nd": LONG["person"]},
        ("--ranking", "1st,2nd", "--set", "order_effect=True"),
        "are no positions in which items were shown",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_in_a_line(case, refuses):
    columns, options, message = BAD[case]
    write("bad.csv", columns)
    refuses(["fit", "bad.csv", *options], message)


ASKED = {
    "four items": (
        WIDE_FIT,
        {name: [item] for name, item in zip("abcd", ITEMS, strict=True)},
        "asked.csv, line 2: 4 items are shown; the model was learnt from at most 3",
        "--offered",
        "a,b,c,d",
    ),
    "twice": (WIDE_FIT, {"a": ["tea"], "b": ["tea"], "c": [""]}, "asked.csv, line 2: item 'tea' occurs twice"),
    "nothing": (WIDE_FIT, {"a": [""], "b": [""], "c": [""], "x": [1]}, "line 2: no item is shown; --missing drop"),
    "other columns": (WIDE_FIT, {"left": ["tea"], "right": ["milk"]}, "there is no column 'a'. The model was learnt"),
    "no person": ((*WIDE_FIT, *CROWD), {"a": ["tea"], "b": ["milk"], "c": [""]}, "there is no column 'user'. The"),
    "both": (WIDE_FIT, WIDE, "--offered is of rows that show several items", "--offered", "a,b", "--contest", "task"),
    "no item": (LONG_FIT, LONG, "there is no column 'itm'; did you mean 'item'?", "--contest", "task", "--item", "itm"),
    "no price": (
        (*WIDE_FIT, "--covariates", "price_*"),
        changed(WIDE, price_2=""),
        "line 2, column 'price_2': a number is missing (a covariate); -",
    ),
    "no price of a row": (
        (*LONG_FIT, "--covariates", "price"),
        LONG | {"price": ["", *LONG["price"][1:]]},
        "line 2, column 'price': a number is missing (a covariate); --missing drop",
    ),
    "two prices": (
        (*WIDE_FIT, "--covariates", "price_*"),
        {n: c for n, c in WIDE.items() if n != "price_3"},
        "price_* has 2 columns; one for each of a, b, c is needed",
    ),
    "times differ": ((*LONG_FIT, "--time", "year"), changed(LONG, year="1999"), "but task p0, 0 has one value of"),
    "not in the table": (
        (*WIDE_FIT, "--items", "items.csv"),
        {"a": ["gin"], "b": ["tea"], "c": [""]},
        "asked.csv, line 2: the model knows no item 'gin'",
    ),
    "a new product": ((*PATTERNS, *CROWD), changed(OFFERS, brand_1="q"), "line 2: the model knows no profile"),
    "shares": (
        (*PATTERNS, *CROWD),
        changed(OFFERS, brand_1="q"),
        "(`skpref shares` predicts the shares of new products)",
    ),
    "rank": (PATTERNS, changed(OFFERS, brand_1="q"), "(`skpref rank` ranks new products)"),
    "a gap": ((*PATTERNS, *CROWD), changed(OFFERS, brand_1=""), "line 2, column 'brand': an attribute is missing"),
}


@pytest.mark.parametrize("case", ASKED)
def test_rows_to_predict_are_refused_in_a_line(case, refuses):
    fitted, columns, message, *options = ASKED[case]
    Path("model.skpref").write_bytes(learnt(*fitted))
    write("asked.csv", columns)
    refuses(["predict", "model.skpref", "asked.csv", *options], message)


def test_rows_without_a_price_may_be_left_out(capsys):
    fit(*LONG_FIT, "--covariates", "price")
    write("asked.csv", changed(LONG, price=""))
    found = predicted("asked.csv", "--missing", "drop")
    assert len(found["item"]) == len(LONG["item"]) - 1
    assert found["item"][:2] == LONG["item"][1:3]  # the row alone, not its task
    assert "1 row of asked.csv is incomplete and left out" in capsys.readouterr().err


def test_notes_of_predictions(capsys):
    fit(*WIDE_FIT)
    capsys.readouterr()
    write("asked.csv", {"a": ["tea"], "b": ["gin"], "c": [""], "choice": ["gin"]})
    assert predicted("asked.csv")["choice"] == ["tea"]
    error = capsys.readouterr().err
    assert "asked.csv, line 2: the model knows no item 'gin'; the prediction is that for an unseen item" in error
    assert "predictions stand in the place of the columns choice of asked.csv" in error


def test_shares_need_neither_groups_nor_prices(capsys):
    fit(*WIDE_FIT, *CROWD, "--covariates", "price_*")
    assert main(["shares", "model.skpref", "items.csv"]) == 0
    assert "note: shares are for products that do not differ in price_*" in capsys.readouterr().err
    fit(*WIDE_FIT, *CROWD, "--groups", "kind")
    assert main(["shares", "model.skpref", "items.csv"]) == 0
    assert "note: shares are for the consensus of all groups" in capsys.readouterr().err


def test_models_of_frames_are_for_python(refuses):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(WIDE)[[*"abc", "price_1", "price_2", "price_3"]]
    model = GPPLClassifier(Table(np.eye(4), ITEMS), covariates={"price": ["price_1", "price_2", "price_3"]})
    save(model.fit(frame, WIDE["best"]), "frame.skpref")
    refuses(
        ["predict", "frame.skpref", "wide.csv", "--offered", "a,b,c"],
        "was fitted to a data frame with named columns; predict with it in Python",
    )
