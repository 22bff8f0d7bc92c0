"""Tables of choices and rankings as tasks: long and wide ones, profiles of attributes, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import CrowdGPPL, GPPLClassifier
from skpref.data import from_choices, from_rankings, from_tasks
from skpref.data.choices import encode_profile
from skpref.exceptions import DataError, DataWarning
from tests.unit.data.stages import choice_of, choices_of

LONG = {
    "task": [1, 1, 1, 2, 2, 2],
    "person": ["ann"] * 6,
    "brand": ["x", "y", "none", "x", "y", "none"],
    "price": [3, 2, 0, 2, 3, 0],
    "item": ["p", "q", "r"] * 2,
    "chosen": [0, 1, 0, 1, 0, 0],
    "worst": [1, 0, 0, 0, 0, 1],
    "rank": [3, 1, 2, 1, None, None],
}
TWO = ["brand", "price"]


def long(**columns):
    return LONG | columns


def read(table, **options):
    """Return tasks, answers and features of a long table as lists."""
    X, y, items = from_tasks(table, **options)
    return X.tolist(), y.tolist(), None if items is None else dict(zip(items.ids, items.features.tolist(), strict=True))


# --------------------------------------------------------------------------------------------------------- long tables
@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_profiles_are_levels_and_numbers(make):
    X, y, items = from_tasks(make(LONG), features=TWO, none="none")
    assert X.tolist() == [
        ["ann", "brand=x, price=3", "brand=y, price=2", "none"],
        ["ann", "brand=x, price=2", "brand=y, price=3", "none"],
    ]
    assert y.tolist() == ["brand=y, price=2", "brand=x, price=2"]
    assert items.feature_names == ("brand=x", "brand=y", "price", "none")
    rows = items.rows(["brand=x, price=3", "brand=y, price=2", "none"])
    assert items.features[rows].tolist() == [[1, 0, 3, 0], [0, 1, 2, 0], [0, 0, 0, 1]]


def test_ids_of_items():
    assert read(LONG, item="item") == ([["ann", "p", "q", "r"]] * 2, ["q", "p"], None)
    X, y, _ = from_tasks(long(item=[1, 2, 3] * 2), item="item")  # numbers may be labels: ranks are none
    assert (X.tolist(), y.tolist()) == ([["ann", 1, 2, 3]] * 2, [[2, 1, 2], [1, 2, 2]])


def test_best_and_worst_and_ranks():
    assert read(LONG, item="item", worst="worst")[1] == [["q", "p"], ["p", "r"]]
    assert_array_equal(from_tasks(LONG, item="item", rank="rank").y, [[3, 1, 2], [1, np.nan, np.nan]])


def test_users_have_tasks_of_the_same_numbers_and_rows_any_order():
    table = {"item": list("pqqrpq"), "chosen": [1, 0, 0, 1, 0, 1]}
    table |= {"task": [1, 1, 1, 1, 2, 2], "person": ["a", "b", "a", "b", "b", "b"]}
    X, y, _ = read(table, item="item")
    assert X == [["a", "p", "q"], ["b", "q", "r"], ["b", "p", "q"]]
    assert y == ["p", "r", "q"]


def test_tasks_of_several_sizes_end_with_none():
    X, _, _ = read(
        {"task": [1, 1, 1, 2, 2], "person": ["a"] * 5, "item": list("pqrpq"), "chosen": [1, 0, 0, 1, 0]}, item="item"
    )
    assert X == [["a", "p", "q", "r"], ["a", "p", "q", None]]


def test_equal_profiles_in_a_task_are_one_item():
    X, y, features = read(long(brand=["x", "x", "y", "x", "y", "y"], price=[1] * 6), features=TWO)
    assert X[0][1:] == ["brand=x, price=1", "brand=x, price=1", "brand=y, price=1"]
    assert X[1][1:] == ["brand=x, price=1", "brand=y, price=1", "brand=y, price=1"]
    assert y == ["brand=x, price=1", "brand=x, price=1"]
    assert list(features) == ["brand=x, price=1", "brand=y, price=1"]


@pytest.mark.parametrize("prices", [[1234567, 1234568], [1.0000001, 1.0000002], [1e300, 2e300], [0.1 + 0.2, 0.3]])
def test_numbers_that_are_nearly_equal_are_different_profiles(prices):
    table = {"task": [1, 1, 2, 2], "person": ["a"] * 4, "price": [prices[0], 5, prices[1], 5], "chosen": [1, 0, 1, 0]}
    _, y, features = read(table, features="price")
    assert [features[name] for name in y] == [[price] for price in prices]


def test_numbers_as_text_and_booleans_are_numbers():
    wanted = read(LONG, features="price")
    assert read(long(price=list("320230")), features="price") == wanted
    X, _, _ = read(long(price=[True, False, True] * 2), features=["brand", "price"], none="none")
    assert X[0][1:] == ["brand=x, price=1", "brand=y, price=0", "none"]
    assert read(long(price=[-0.0, 1, 2, 0.0, 1, 2]), features="price")[0][0][1] == "price=0"


def test_numbers_that_may_be_codes_of_levels_give_a_warning():
    tasks = {"task": np.repeat(range(15), 2), "person": ["ann"] * 30, "chosen": [1, 0] * 15}
    coded, priced = np.tile([1, 2, 2, 3, 1, 3], 5), np.tile([1, 2, 2, 4, 1, 4], 5)
    with pytest.warns(DataWarning, match="column 'brand' has the numbers 1 to 3, and is read as a number"):
        read(tasks | {"brand": coded}, features="brand")
    read(tasks | {"price": priced}, features="price")
    read(pd.DataFrame(tasks | {"brand": pd.Categorical(coded)}), features="brand")


@pytest.mark.parametrize(("name", "flags"), [("avail", [1, 1, 0] * 2), ("Availability", [True, False, True] * 2)])
def test_columns_of_availability_that_are_not_read_give_a_warning(name, flags):
    table = long(**{name: flags})
    with pytest.warns(DataWarning, match=f"column '{name}' is not read: alternatives .* is 0 count as shown"):
        read(table, item="item")
    for column, values in ((name, [1] * 6), (name, [1, 2, 0] * 2), ("average", flags)):
        read(long(**{column: values}), item="item")  # no warning, which would be an error
    wide = {"person": ["ann"], "p_1": [3], "p_2": [2], "av_1": [1], "TRAIN_AV": [0], "chosen": [1]}
    with pytest.warns(DataWarning, match="column 'TRAIN_AV' is not read"):
        from_tasks(wide, features={"price": ["p_1", "p_2"]})


def test_attributes_of_none_may_be_empty():
    empty = long(price=[3, 2, None, 2, 3, float("nan")])
    assert read(empty, features=TWO, none="none") == read(LONG, features=TWO, none="none")
    by_item = long(brand=["x", "y", None] * 2, item=["p", "q", "opt out"] * 2)
    assert read(by_item, features=TWO, item="item", none="opt out")[0][0][3] == "none"
    by_number = long(brand=["x", "y", None] * 2, item=[1, 2, 0] * 2)
    assert read(by_number, features=TWO, item="item", none=0)[0][0][3] == "none"


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (None, {"features": TWO}, "Expected 2D array"),
        (pd.DataFrame(columns=list(LONG)), {"features": TWO}, r"Found array with 0 sample\(s\)"),
        (LONG, {}, "from_tasks needs task="),
        (LONG, {"item": "item", "user": None}, "from_tasks needs task="),
        (LONG, {"item": "item", "task": []}, "from_tasks needs task="),
        (LONG, {"item": "item", "chosen": None}, "from_tasks needs chosen"),
        (LONG, {"item": "item", "rank": "rank", "worst": "worst"}, "from_tasks needs chosen"),
        (LONG, {"item": "item", "task": None}, "task must be a column or a list of columns; got None"),
        (LONG, {"features": None}, "features must be a column or a list of columns; got None"),
        (LONG, {"features": ["pric"]}, "there is no column 'pric'; did you mean 'price'"),
        (LONG, {"features": TWO, "none": "none", "chosen": "won"}, "there is no column 'won'.* Found: .* worst, rank$"),
        (LONG, {"item": "item", "user": "who"}, "there is no column 'who'. Found: task, person,"),
        (LONG, {"item": "item", "user": ["person"]}, "a column is given by its name; got a list"),
        (LONG, {"features": ["price", "chosen"]}, "column 'chosen': this is a column of tasks, users or answers"),
        (LONG, {"features": ["person"]}, "column 'person': this is a column of tasks"),
        (LONG, {"item": "item", "none": "r"}, r"none=... belongs to features"),
        (LONG, {"features": TWO, "none": "nix"}, "none='nix' stands in no cell of"),
        (LONG, {"features": TWO, "none": 0}, "none=0 is a number, as attributes are; write a word such as none"),
        (LONG, {"features": TWO, "none": ["none"]}, r"none=\['none'\] stands in no cell of"),
        (long(brand=[" ", "y", "z"] * 2), {"features": TWO}, "column 'brand', row 0: an attribute is missing"),
        (long(none=[1] * 6), {"features": ["brand", "none"], "none": "none"}, "two features would be named 'none'"),
        (long(**{"brand=x": [1] * 6}), {"features": ["brand", "brand=x"]}, "two features would be named 'brand=x'"),
        (long(price=[3, 2, 0, None, 3, 0]), {"features": TWO}, "column 'price', row 3: an attribute is missing"),
        (long(brand=["x", "", "z"] * 2), {"features": TWO}, "column 'brand', row 1: an attribute is missing"),
        (
            long(brand=["x", "y", ""] * 2, price=[3, 2, None] * 2),
            {"features": TWO},
            "column 'brand', row 2: one alternative of each task has no attributes; if it is to choose none",
        ),
        (long(price=[3, 2, 0, np.inf, 3, 0]), {"features": TWO}, "column 'price', row 3: expected a finite number"),
        (long(price=[3, "cheap", 0, 2, 3, 0]), {"features": TWO}, "column 'price', row 1: 'cheap' is no number, and"),
        (long(price=["3,5", "2", "0"] * 2), {"features": TWO}, "column 'price', row 0: '3,5' is no number, and '2'"),
        (long(person=[None] * 6), {"item": "item"}, "column 'person', row 0: a person id is missing"),
        (long(item=["p", None, "r"] * 2), {"item": "item"}, "column 'item', row 1: an item id is missing"),
        (long(item=["p", "p", "r"] * 2), {"item": "item"}, "row 0: item 'p' occurs twice"),
        (long(item=["p", "p", "r"] * 2), {"item": "item", "rank": "rank"}, "row 0: item 'p' occurs twice"),
        (long(chosen=[0] * 6), {"item": "item"}, "row 0: no row of task ann, 1 has a 1 in 'chosen'"),
        (long(chosen=[1] * 6), {"item": "item"}, "column 'chosen', row 1: task ann, 1 has a second 1"),
        (long(chosen=[2, 0, 0] * 2), {"item": "item"}, "column 'chosen', row 0: expected 1 .* got 2"),
        (long(chosen=["no", "yes", "no"] * 2), {"item": "item"}, "row 0: expected a number .* got 'no'"),
        (long(worst=LONG["chosen"]), {"item": "item", "worst": "worst"}, "row 0: 'q' is both the best and the worst"),
        (long(rank=[0, 1, 2] * 2), {"item": "item", "rank": "rank"}, "column 'rank', row 0: 0 is no rank"),
        (long(rank=[1, 2, 3, *[None] * 3]), {"item": "item", "rank": "rank"}, "row 3: no row of task ann, 2 has a"),
        (long(rank=["first", 2, 3] * 2), {"item": "item", "rank": "rank"}, "row 0: expected a number .* got 'first'"),
    ],
)
def test_long_tables_that_are_refused(table, options, message):
    with pytest.raises(DataError, match=message):
        from_tasks(table, **options)


def test_levels_that_would_make_one_id_of_two_profiles():
    table = {"task": [1, 1], "person": ["a"] * 2, "b": ["x, c=y", "x"], "c": ["z", "y, c=z"], "chosen": [1, 0]}
    with pytest.raises(DataError, match=r"two different profiles would have the id 'b=x, c=y, c=z'"):
        from_tasks(table, features=["b", "c"])


# ------------------------------------------------------------------------------------------------------------ products
NAMES = ("brand=x", "brand=y", "price", "none")


@pytest.mark.parametrize(
    ("profile", "row"),
    [
        ({"brand": "x", "price": 3}, [1, 0, 3, 0]),
        ({"price": "3", "brand": "y", "none": 0}, [0, 1, 3, 0]),
        ({"brand=x": 0, "brand=y": 1, "price": 0.5}, [0, 1, 0.5, 0]),
        ({"none": 1}, [0, 0, 0, 1]),
        ({"none": True, "brand": None, "price": np.nan}, [0, 0, 0, 1]),
    ],
)
def test_products_by_attributes(profile, row):
    assert encode_profile(NAMES, profile, "product 'a'").tolist() == row


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({"brand": "x"}, "product 'a': the attribute 'price' is missing; the model has"),
        ({"brand": "x", "price": None}, "the attribute 'price' is missing"),
        ({"price": 1}, "the attribute 'brand' is missing"),
        ({"brand=x": 1, "price": 1}, "the attribute 'brand' is missing"),
        ({"brand": "z", "price": 1}, r"'brand=z' is no level that fit has seen; those of brand are \['x', 'y'\]"),
        ({"brand": "x", "brand=y": 1, "price": 1}, "the attribute 'brand' is given twice"),
        ({"brand": "x", "price": 1, "colour": "red"}, "'colour' is no attribute of the model"),
        ({"brand": "x", "price": np.inf}, "'price' must be a number of at most 1e[+]100; got inf"),
        ({"brand": "x", "price": "nan"}, "'price' must be a number"),
        ({"brand": "x", "price": "cheap"}, "'price' must be a number .* got 'cheap'"),
        ({"none": 2}, "'none' must be 0 or 1; got 2"),
        ({"none": 1, "price": 3}, "'none' is 1, so the product is to choose none, and has no attributes"),
    ],
)
def test_products_that_are_none(profile, message):
    with pytest.raises(DataError, match=message):
        encode_profile(NAMES, profile, "product 'a'")


# --------------------------------------------------------------------------------------------------------- wide tables
WIDE = {
    "who": ["u", "v"],
    "a": ["p", "q"],
    "b": ["q", "r"],
    "c": ["r", None],
    "chosen": ["p", "r"],
    "worst": ["r", "q"],
    "w": [1.0, 2.5],
}


def choices(table, **options):
    return from_choices(table, ["a", "b", "c"], **({"user": "who"} | options))


@pytest.mark.parametrize("chosen", [["p", "r"], ["a", "b"], [1, 2], ["A", "B"]])
def test_wide_choices(chosen):
    rows = choices(WIDE | {"chosen": chosen}, sample_weight="w")
    assert rows.X.tolist() == [["u", "p", "q", "r"], ["v", "q", "r", None]]
    assert (rows.y.tolist(), rows.sample_weight.tolist()) == (["p", "r"], [1.0, 2.5])
    assert str(rows.read_) == "offered = a, b, c, chosen = chosen, user = who, weights = w, not used: worst"


def test_wide_choices_of_the_best_and_the_worst_and_without_users():
    assert choices(WIDE, worst="worst").y.tolist() == [["p", "r"], ["r", "q"]]
    assert choices(WIDE, user=None).X.tolist() == [["p", "q", "r"], ["q", "r", None]]


@pytest.mark.parametrize("written", [["r", "q"], ["c", "a"], [3, 1]])
def test_the_worst_may_be_known_alone(written):
    assert choices(WIDE | {"worst": written}, chosen=None, worst="worst").y.tolist() == [[None, "r"], [None, "q"]]
    mixed = WIDE | {"chosen": ["p", None], "worst": [None, written[1]]}
    assert choices(mixed, worst="worst").y.tolist() == [["p", None], [None, "q"]]
    table = long(chosen=[0, 1, 0, 0, 0, 0], worst=[0, 0, 0, 0, 0, 1])
    options = {"task": "task", "user": "person", "item": "item", "worst": "worst"}
    assert read(table, chosen="chosen", **options)[1] == [["q", None], [None, "r"]]
    assert read(long(), chosen=None, **options)[1] == [[None, "p"], [None, "r"]]


def test_incomplete_rows_may_be_left_out():
    table = WIDE | {"chosen": ["p", None], "worst": ["r", None]}
    assert choices(table, worst="worst", missing="drop").read_.left_out == {"incomplete": 1}
    rows = choices(WIDE | {"chosen": ["p", None]}, missing="drop")
    assert (rows.X.tolist(), rows.read_.left_out) == ([["u", "p", "q", "r"]], {"incomplete": 1})


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({name: [] for name in WIDE}, {}, "at least 1 row is required"),
        ({"chosen": ["p", None]}, {}, "column 'chosen', row 1: the choice is missing"),
        ({"chosen": ["p", "p"]}, {}, "column 'chosen', row 1: 'p' is none of the items offered"),
        ({"b": ["p", "r"]}, {}, "row 0: item 'p' occurs twice"),
        ({}, {"worst": "chosen"}, "row 0: 'p' is both the best and the worst item"),
        (
            {},
            {"chosen": None},
            "a choice needs the column of the item that was chosen, the best one, or that of the worst",
        ),
        ({"chosen": ["p", None], "worst": ["r", None]}, {"worst": "worst"}, "row 1: the choice is missing: neither"),
        ({"w": [-1, 1]}, {"sample_weight": "w"}, "column 'w', row 0: -1 is outside the range"),
        ({"who": [None, "v"]}, {}, "column 'who', row 0: a user id is missing"),
    ],
)
def test_wide_choices_that_are_refused(columns, options, message):
    with pytest.raises(DataError, match=message):
        choices(WIDE | columns, **options)


ITEMS = {"p": [1, 2, None], "q": [2, 1, 1], "r": [3, None, None]}


@pytest.mark.parametrize(
    ("table", "options", "X", "y"),
    [
        (WIDE, {"columns": ["a", "b", "c"]}, [list("pqr"), ["q", "r", None]], [[1, 2, 3], [1, 2, np.nan]]),
        (WIDE, {"columns": ["a", "b", "c"], "rest": "lost"}, [list("pqr"), list("qrp")], [[1, 2, 3], [1, 2, np.nan]]),
        (
            ITEMS,
            {"item_ranks": [*"pqr"], "rest": "unknown"},
            [list("pqr"), ["p", "q", None]],
            [[1, 2, 3], [2, 1, np.nan]],
        ),
        (
            ITEMS,
            {"item_ranks": [*"pqr"], "rest": "lost"},
            [list("pqr"), list("pqr"), list("qpr")],
            [[1, 2, 3], [2, 1, np.nan], [1, np.nan, np.nan]],
        ),
        (
            {"p": [5, 1], "q": [5, 9], "r": [7, 4]},
            {"item_ratings": [*"pqr"]},
            [list("pqr")] * 2,
            [[2, 2, 1], [3, 1, 2]],
        ),
        (
            {"race": [1, 1, 2, 2, 2], "item": list("pqrqp"), "rank": [2, 1, 1, 3, 7]},
            {"by": "race"},
            [["p", "q", None], list("rqp")],
            [[2, 1, np.nan], [1, 2, 3]],
        ),
    ],
)
def test_rankings(table, options, X, y):
    rows = from_rankings(table, **options)
    assert rows.X.tolist() == X
    assert_array_equal(rows.y, y)


@pytest.mark.parametrize(
    ("table", "options", "y"),
    [
        ({"p": [7, 1], "q": [5, 9], "r": [5, 9]}, {"item_ratings": [*"pqr"]}, [[1, 2, 2], [2, 1, 1]]),
        ({"p": [1, 2], "q": [2, 1], "r": [2, 1]}, {"item_ranks": [*"pqr"]}, [[1, 2, 2], [2, 1, 1]]),
        (
            {"p": [1, None], "q": [None, 1], "r": [None, 1]},
            {"item_ranks": [*"pqr"], "rest": "lost"},
            [[1, np.nan, np.nan], [1, 1, np.nan]],
        ),
    ],
)
def test_ties_before_the_last_place_are_read(table, options, y):
    rows = from_rankings(table, **options)
    assert_array_equal(rows.y, y)
    ties = {choice_of("q", "r"): 0.5, choice_of("r", "q"): 0.5}
    assert choices_of(rows) == {choice_of("p", "qr"): 1.0, choice_of("q", "p"): 1.0, choice_of("r", "p"): 1.0} | ties


@pytest.mark.parametrize("ids", [(0, 1), ("left", "right"), (5, 6, 7), ("left", "Right", "tie")])
@pytest.mark.parametrize("user", [None, "who"])
def test_chosen_ids_are_not_taken_for_labels(ids, user):
    """The first item always wins, wherever it is shown: its id as a label would say that a side won."""
    orders = [list(np.roll(ids, k)) for k in range(len(ids))] * 8
    table = {f"c{k}": [order[k] for order in orders] for k in range(len(ids))}
    table |= {"chosen": [ids[0]] * len(orders), "who": [f"u{k % 4}" for k in range(len(orders))]}
    rows = from_choices(table, list(table)[: len(ids)], user=user)
    model = (GPPLClassifier if user is None else CrowdGPPL)(random_state=0).fit(rows.X, rows.y)
    assert model.score(rows.X, rows.y) == 1.0
    assert model.rank().id[0] == ids[0]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"covariates": ["x"]}, "a covariate of tasks has a column for each of the 4 positions.*got the column 'x'"),
        ({"covariates": [("0", "x")]}, "covariate '0 - x': column '0' of X holds the ids of user"),
        ({"covariates": [("x", "z")]}, "a column for each of the 3 positions.*got 2 columns"),
        ({"likelihood": "logit-ties"}, "likelihood='logit-ties' is not for tasks.* use likelihood='luce' or 'auto' or"),
    ],
)
def test_parameters_of_pairs_are_refused(more, message):
    rows = choices(WIDE)
    frame = pd.DataFrame(rows.X).assign(x=1.0, z=2.0).rename(columns=str)
    with pytest.raises(DataError, match=message):
        CrowdGPPL(**more).fit(frame, rows.y)


@pytest.mark.parametrize(
    ("more", "columns"),
    [({"groups": ["x"]}, "x"), ({"time": "x"}, "x"), ({"covariates": {"price": ["x", "z", "u"]}}, "xzu")],
)
def test_tables_that_are_read_may_get_further_columns(more, columns):
    rows = choices(WIDE, user=None if "time" in more else "who")
    frame = pd.DataFrame(rows.X).assign(**{name: [1, 2 + k] for k, name in enumerate(columns)}).rename(columns=str)
    model = (GPPLClassifier if "time" in more else CrowdGPPL)(optimizer=None, **more).fit(frame, rows.y)
    assert_allclose(model.predict_proba(frame).sum(axis=1), 1.0)


def test_rankings_of_one_item():
    one = {"a": ["p", "q"], "b": ["q", None]}
    with pytest.raises(DataError, match="row 1: 1 ranking names one item"):
        from_rankings(one, ["a", "b"])
    rows = from_rankings(one, ["a", "b"], rest="unknown")
    assert (rows.X.tolist(), rows.read_.left_out) == ([["p", "q"]], {"of one item": 1})
    with pytest.raises(DataError, match="at least 1 ranking of two items or more is required"):
        from_rankings({"a": ["p"], "b": [None]}, ["a", "b"], rest="unknown")


def test_prices_as_text_are_asked_about_and_categories_are_levels():
    shown = {"task": [1, 1], "person": ["u"] * 2, "price": ["$2", "$3"], "chosen": [1, 0]}
    with pytest.raises(DataError, match="two readings: a number, or the name of a level"):
        from_tasks(shown, features=["price"])
    frame = pd.DataFrame(shown | {"price": [2, 3]}).astype({"price": "category"})
    assert from_tasks(frame, features=["price"]).items.feature_names == ("price=2", "price=3")
