"""The command of shares: products in, shares of a saved model of tasks out; and predictions of such a model."""

import csv
import json

import pytest

from skpref import CrowdGPPL, GPPLClassifier, load, save
from skpref.cli import main
from skpref.data import from_choices, from_tasks
from skpref.datasets import make_choices

PRODUCTS = {"product": ["ours", "theirs"] * 2, "brand": [*"xyxy"], "price": [2, 3, 4, 3.5]}
MARKETS = PRODUCTS | {"scenario": ["now"] * 2 + ["later"] * 2}
DRINKS = {"product": ["7", "5"]}  # numbers in the model, text in a file


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    X, y, items = from_tasks(
        make_choices(n_users=12, n_tasks=6, none=True, random_state=0).shown, features=["brand", "price"], none="none"
    )
    save(CrowdGPPL(items, random_state=0).fit(X, y), folder / "market")
    menus = {"who": [f"u{k % 4}" for k in range(24)], "a": [5, 6, 7] * 8, "b": [6, 7, 5] * 8, "chosen": [6, 7, 7] * 8}
    rows = from_choices(menus, ["a", "b"], user="who")
    save(CrowdGPPL(random_state=0).fit(rows.X, rows.y), folder / "drinks")
    save(GPPLClassifier().fit([("a", "b")]), folder / "gppl")
    save(CrowdGPPL().fit([("u", "a", "b"), ("v", "b", "a")]), folder / "pairs")
    return folder


def written(path, columns):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    return path


def shares(folder, model, columns, tmp_path, *more):
    return main(["shares", str(folder / model), str(written(tmp_path / "products.csv", columns)), *more])


def test_shares_are_those_of_the_model(models, tmp_path, capsys):
    out = tmp_path / "shares.csv"
    options = ["--none", "--rule", "first choice", "--credibility", "0.5"]
    assert shares(models, "market", MARKETS, tmp_path, *options, "--out", str(out)) == 0
    text = capsys.readouterr().out
    ours, theirs = {"brand": "x", "price": 2.0}, {"brand": "y", "price": 3.0}
    scenarios = [{"ours": ours, "theirs": theirs}, {"ours": ours | {"price": 4}, "theirs": theirs | {"price": 3.5}}]
    frame = load(models / "market").shares(scenarios, none=True, rule="first choice", credibility=0.5)
    with out.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["scenario"] for row in rows] == ["now"] * 3 + ["later"] * 3
    assert [row["product"] for row in rows] == ["ours", "theirs", "none"] * 2
    for name in ("share", "std", "share_low", "share_high"):
        assert [float(row[name]) for row in rows] == pytest.approx(frame[name].tolist())
    assert "the average over 12 people" in text
    assert "50 % interval" in text
    assert f"{frame['share'][0]:.4f} ± {frame['std'][0]:.4f}" in text


def test_products_without_names_and_a_decimal_comma(models, tmp_path, capsys):
    columns = {"brand": ["x", "y"], "price": ["2,5", "3"], "notes": ["", "any"]}
    assert shares(models, "market", columns, tmp_path, "--decimal", ",", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["product"] for row in rows] == ["brand=x, price=2,5", "brand=y, price=3"]
    frame = load(models / "market").shares({"a": {"brand": "x", "price": 2.5}, "b": {"brand": "y", "price": 3}})
    assert [row["share"] for row in rows] == pytest.approx(frame["share"].tolist())


def test_columns_that_are_not_used_are_listed(models, tmp_path, capsys):
    products = {name: cells for name, cells in PRODUCTS.items() if name != "product"}
    assert shares(models, "market", products | {"name": list("abcd"), "note": list("efgh")}, tmp_path) == 0
    assert "not used: name, note" in "".join(capsys.readouterr())
    assert shares(models, "market", MARKETS, tmp_path) == 0
    assert "not used" not in "".join(capsys.readouterr())


def test_items_without_features_are_named(models, tmp_path, capsys):
    assert shares(models, "drinks", DRINKS, tmp_path, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["share"] for row in rows] == pytest.approx(load(models / "drinks").shares([7, 5])["share"].tolist())
    assert rows[0]["share"] > 0.5  # 7 was always chosen


def test_rows_that_lack_an_attribute_may_be_left_out(models, tmp_path, capsys):
    columns = MARKETS | {"price": [2, 3, "", 3]}
    assert shares(models, "market", columns, tmp_path, "--missing", "drop", "--json") == 0
    told = capsys.readouterr()
    assert [row["product"] for row in json.loads(told.out)] == ["ours", "theirs", "theirs"]
    assert "1 row of" in told.err


@pytest.mark.parametrize(
    ("model", "columns", "options", "message"),
    [
        ("gppl", DRINKS, [], "gppl: shares are for a CrowdGPPL that was fitted to tasks"),
        ("pairs", DRINKS, [], "pairs: shares are for a CrowdGPPL that was fitted to tasks"),
        ("drinks", DRINKS, ["--none"], "--none needs the answer 'none' in the data of the model"),
        ("drinks", {"brand": ["x"]}, [], "there is no column 'id'"),
        ("drinks", {"id": ["5", "9"]}, [], "line 3, column 'id': the model knows no item '9'"),
        ("drinks", {"id": ["5", "5"]}, [], "line 3, column 'id': product '5' occurs twice (first on line 2)"),
        ("market", DRINKS, [], "there is no column 'brand'"),
        ("market", PRODUCTS, [], "line 4, column 'product': product 'ours' occurs twice (first on line 2)"),
        ("market", {"brand": ["x"] * 2, "price": [1, 1]}, [], "line 3: product 'brand=x, price=1' occurs twice"),
        ("market", MARKETS | {"brand": [*"xqxy"]}, [], "line 3, column 'brand': 'q' is no level of the model"),
        ("market", MARKETS | {"brand": [*"xyx", ""]}, [], "line 5, column 'brand': an attribute is missing"),
        ("market", MARKETS | {"price": [1, 2, 3, "x"]}, [], "line 5, column 'price': expected a number"),
        ("market", MARKETS | {"price": [1, 2, 3, 1e300]}, [], "'price' must be a number of at most"),
        ("market", MARKETS | {"product": ["none", *"abc"]}, ["--none"], "must have different names"),
    ],
)
def test_what_cannot_be_used_is_refused(models, tmp_path, refuses, model, columns, options, message):
    refuses(["shares", models / model, written(tmp_path / "products.csv", columns), *options], message)


def test_predictions_of_two_items_are_of_the_left_one(models, tmp_path, capsys):
    data = written(tmp_path / "rows.csv", {"user": ["u1", "u1"], "left": [7, 5], "right": [5, 7]})
    assert main(["predict", str(models / "drinks"), str(data), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["choice"] for row in rows] == ["7", "7"]
    better, worse = (row["p_left"] for row in rows)
    assert better > 0.5 > worse
    assert better + worse == pytest.approx(1.0)
    assert [row["p_left"] + row["p_right"] for row in rows] == pytest.approx([1.0, 1.0])
