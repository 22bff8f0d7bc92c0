"""What the readers of choices and rankings make of ties, covariates, incomplete rows, and wide tables of attributes."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from skpref import GPPLClassifier
from skpref.data import from_choices, from_rankings, from_tasks
from skpref.data.columns import Columns
from skpref.data.roles import Roles, read
from skpref.exceptions import DataError
from tests.unit.data.stages import stages

NAN = np.nan


# ---------------------------------------------------------------------------------------------------- ties in rankings
def exploded(ranks, weight=1.0):
    """Return the choices of a ranking of a, b, c, ... and their weights."""
    items = list("abcdef"[: len(ranks)])
    found = {}
    for _, share, item, shown, which in stages([["u", *items]], [ranks], weight=[weight])[1]:
        assert which == "best"
        key = item, "".join(sorted(shown - {item}))
        found[key] = found.get(key, 0.0) + share
    return found


@pytest.mark.parametrize(
    ("ranks", "wanted"),
    [
        ([1, 2, 2, 3], {"a bcd": 1, "b d": 1, "c d": 1, "b c": 0.5, "c b": 0.5}),
        ([1, 1, 2], {"a c": 1, "b c": 1, "a b": 0.5, "b a": 0.5}),
        ([2, 1, 1], {"b a": 1, "c a": 1, "b c": 0.5, "c b": 0.5}),
        ([1, 1, NAN], {"a c": 1, "b c": 1, "a b": 0.5, "b a": 0.5}),
        ([NAN, 1, 1, NAN], {"b ad": 1, "c ad": 1, "b c": 0.5, "c b": 0.5}),
        ([1, 2, 2], {"a bc": 1}),
        ([1, NAN, NAN], {"a bc": 1}),
        ([5, 9, 9, 7], {"a bcd": 1, "d bc": 1}),
        (
            [1, 1, 1, 2],
            {"a d": 1, "b d": 1, "c d": 1}
            | dict.fromkeys(("a b", "b a", "a c", "c a", "b c", "c b"), 3 / 8),  # 3 / (3 + 1) for each pair
        ),
        ([1, 1, 2, 2, 3], {"a cde": 1, "b cde": 1, "a b": 0.5, "b a": 0.5, "c e": 1, "d e": 1, "c d": 0.5, "d c": 0.5}),
    ],
)
def test_tied_items_are_chosen_each_before_those_behind(ranks, wanted):
    found = {" ".join(key): weight for key, weight in exploded(ranks).items()}
    assert found == pytest.approx(wanted)
    assert exploded(ranks, weight=3.0) == pytest.approx({key: 3.0 * weight for key, weight in exploded(ranks).items()})


@pytest.mark.parametrize("ranks", [[1, 1], [2, 2, 2], [1, 1, 1, 1]])
def test_items_that_are_all_tied_say_nothing(ranks):
    with pytest.raises(DataError, match="at least 1 task must show two items or more and put one of them before"):
        exploded(ranks)


@given(st.permutations("abcdef"), st.integers(1, 6))
def test_rankings_without_ties_have_whole_weights(order, n_ranked):
    ranks = [order.index(item) + 1.0 if order.index(item) < n_ranked else NAN for item in "abcdef"]
    wanted = {(order[k], "".join(sorted(order[k + 1 :]))): 1.0 for k in range(min(n_ranked, 5))}
    assert exploded(ranks) == wanted


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0, NAN]), min_size=4, max_size=4), st.permutations(range(4)))
def test_the_order_of_tied_items_changes_nothing(ranks, order):
    if len(set(np.nan_to_num(ranks))) < 2:
        return
    X, y = np.array([[*"abcd"]], dtype=object), np.array([ranks])
    one, other = (stages(X[:, to], y[:, to], sides=("left", "right"))[1] for to in (range(4), order))
    assert sorted(map(str, map(sorted_items, one))) == sorted(map(str, map(sorted_items, other)))


def sorted_items(choice):
    """Return a choice whose items stand in order."""
    user, weight, item, items, which = choice
    return user, weight, item, sorted(items), which


def test_two_tied_items_are_alike_and_ahead_of_a_third():
    rows = from_rankings({"a": [1] * 20, "b": [1] * 20, "c": [2] * 20}, item_ranks=[*"abc"])
    model = GPPLClassifier(random_state=0).fit(rows.X, rows.y)
    p = model.predict_proba([["a", "b"], ["a", "c"], ["b", "c"]])[:, 0]
    assert p[0] == pytest.approx(0.5, abs=1e-6)
    assert p[1] == pytest.approx(p[2], abs=1e-6)
    assert p[1] > 0.9


# ---------------------------------------------------------------------------------------------------------- covariates
MENUS = {
    "a": ["x", "y", "x"],
    "b": ["y", None, "z"],
    "c": ["z", "x", None],
    "chosen": ["x", "x", "z"],
    "price_a": [1, 2, 3],
    "price_b": [4, None, 5],
    "price_c": [6, 7, "sold out"],
    "new_a": [True, False, False],
    "new_b": ["0", "", "1"],
    "new_c": [0, 1, 0],
}
PRICE = {"price": ["price_a", "price_b", "price_c"]}
NEW = {"new": ["new_a", "new_b", "new_c"]}


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_covariates_of_choices_stand_by_position(make):
    table = make(MENUS | {"price_c": [6, 7, None], "new_a": [1, 0, 0]})
    rows = from_choices(table, [*"abc"], covariates=PRICE | NEW)
    assert rows.X.tolist() == [["x", "y", "z"], ["y", None, "x"], ["x", "z", None]]
    assert_array_equal(rows.covariates, [[1, 4, 6, 1, 0, 0], [2, 0, 7, 0, 0, 1], [3, 5, 0, 0, 1, 0]])
    columns = "covariates = price_a/price_b/price_c, new_a/new_b/new_c"
    assert columns in str(rows.read_)


def test_cells_of_items_that_were_not_offered_are_not_read():
    rows = from_choices(MENUS, [*"abc"], covariates=PRICE)  # the price of c is a word where c was not offered
    assert_array_equal(rows.covariates, [[1, 4, 6], [2, 0, 7], [3, 5, 0]])
    missing = MENUS | {"price_a": [1, None, 3]}
    with pytest.raises(DataError, match=r"column 'price_a', row 1: a number is missing \(a covariate\); leave such"):
        from_choices(missing, [*"abc"], covariates=PRICE)
    rows = from_choices(missing, [*"abc"], covariates=PRICE, missing="drop")
    assert (rows.y.tolist(), rows.origin.tolist(), rows.read_.left_out) == (["x", "z"], [0, 2], {"incomplete": 1})
    with pytest.raises(DataError, match=r"column 'price_b', row 2: expected a number \(a covariate\), got 'dear'"):
        from_choices(MENUS | {"price_b": [4, None, "dear"]}, [*"abc"], covariates=PRICE)


def test_a_position_where_nothing_was_ever_offered_has_covariates_of_zero():
    empty = MENUS | {"c": [None] * 3, "chosen": ["x", "y", "z"]}
    rows = from_choices(empty, [*"abc"], covariates=PRICE)
    assert rows.X.shape == rows.covariates.shape == (2, 3)  # one item is no choice
    assert_array_equal(rows.covariates, [[1, 4, 0], [3, 5, 0]])
    assert rows.origin.tolist() == [0, 2]


BALLOTS = {"1st": ["x", "y", "z"], "2nd": ["y", None, "x"], "3rd": ["z", "x", None]}
COSTS = {"c1": [1, 2, 3], "c2": [4, None, 5], "c3": [6, 7, None]}
RANKS = {"x": [2, 1, None], "y": [1, None, 2], "z": [3, 2, 1]}
RACES = {"race": [1, 1, 2, 2, 2], "item": [*"xyyxz"], "rank": [2, 1, 3, 1, 2], "grid": [5, 6, 7, 8, 9]}


def test_covariates_of_rankings_go_with_the_items():
    rows = from_rankings(BALLOTS | COSTS, [*BALLOTS], covariates={"cost": [*COSTS]})
    assert rows.X.tolist() == [["x", "y", "z"], ["y", "x", None], ["z", "x", None]]
    assert_array_equal(rows.covariates, [[1, 4, 6], [2, 7, 0], [3, 5, 0]])


@pytest.mark.parametrize("layout", ["item_ranks", "item_ratings"])
def test_covariates_of_columns_of_items(layout):
    costs = {"c_x": [1, 2, None], "c_y": [3, None, 4], "c_z": [5, 6, 7]}
    rows = from_rankings(RANKS | costs, **{layout: [*"xyz"]}, covariates={"cost": [*costs]})
    assert rows.X.tolist() == [["x", "y", "z"], ["x", "z", None], ["y", "z", None]]
    assert_array_equal(rows.covariates, [[1, 3, 5], [2, 6, 0], [4, 7, 0]])
    with pytest.raises(DataError, match="column 'c_y', row 0: a number is missing"):
        from_rankings(RANKS | costs | {"c_y": [None, None, 4]}, **{layout: [*"xyz"]}, covariates={"cost": [*costs]})


def test_covariates_of_rows_of_items():
    rows = from_rankings(RACES, by="race", covariates=["grid", ("grid", "rank")])
    assert rows.X.tolist() == [["x", "y", None], ["y", "x", "z"]]
    assert_array_equal(rows.covariates, [[5, 6, 0, 3, 5, 0], [7, 8, 9, 4, 7, 7]])
    assert "covariates = grid, grid - rank" in str(rows.read_)
    gap = RACES | {"grid": [5, 6, None, 8, 9]}
    with pytest.raises(DataError, match=r"column 'grid', row 2: a number is missing \(a covariate\)"):
        from_rankings(gap, by="race", covariates=["grid"])
    kept = from_rankings(gap, by="race", covariates=np.array(["grid"]), missing="drop")
    assert kept.X.tolist() == [["x", "y"], ["x", "z"]]
    assert kept.origin.tolist() == [0, 3]
    left = gap | {"rank": [2, 1, "DNF", 1, 2]}  # that item is not in the ranking
    assert_array_equal(
        from_rankings(left, by="race", covariates=["grid"], unranked=["DNF"]).covariates, [[5, 6], [8, 9]]
    )


WIDE_DICT = r'covariates must be a dict such as \{"price"'


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: from_choices(MENUS, [*"abc"], covariates=["price_a"]), WIDE_DICT),
        (lambda: from_choices(MENUS, [*"abc"], covariates="price_a"), WIDE_DICT),
        (lambda: from_choices(MENUS, [*"abc"], covariates=3), WIDE_DICT + ".*; got 3"),
        (
            lambda: from_choices(MENUS, [*"abc"], covariates={"price": ["price_a", "price_b"]}),
            r"covariates must have a column for each of a, b, c, as in .*; got \('price_a', 'price_b'\)",
        ),
        (lambda: from_choices(MENUS, [*"abc"], covariates={"price": "price_a"}), "for each of a, b, c.*got 'price_a'"),
        (lambda: from_choices(MENUS, [*"abc"], covariates={"price": None}), "for each of a, b, c.*got None"),
        (
            lambda: from_choices(MENUS, [*"abc"], covariates={"price": ["price_a", "price_a", "price_c"]}),
            "for each of a, b, c",
        ),
        (lambda: from_choices(MENUS, [*"abc"], covariates={"p": ["price_a", "price_b", "d"]}), "no column 'd'"),
        (
            lambda: from_rankings(BALLOTS | COSTS, [*BALLOTS], covariates={"cost": [*COSTS]}, rest="lost"),
            "covariates are of the items that a ranking names, and rest='lost' adds others",
        ),
        (lambda: from_rankings(RACES, by="race", covariates={"grid": ["grid"]}), "must be a list of columns, with by"),
        (lambda: from_rankings(RACES, by="race", covariates=3), "must be a list of columns"),
        (lambda: from_rankings(RACES, by="race", covariates="grid"), "must be a list of columns"),
        (lambda: from_rankings(RACES, by="race", unranked=0), r"must be a list, such as unranked=\[0\]; got 0"),
        (lambda: from_rankings(RACES, by="race", unranked="DNF"), r"such as unranked=\['DNF'\]"),
        (lambda: from_rankings(RANKS, item_ranks=["x", "x"]), r"a column is named twice .*\['x', 'x'\]"),
        (lambda: from_choices(MENUS, ["a", "a"]), r"a column is named twice among those of items: \['a', 'a'\]"),
        (lambda: from_choices(MENUS | {"a": [["x"], "y", "x"]}, [*"abc"]), r"column 'a', row 0: an item is a word or"),
        (lambda: from_choices(MENUS | {"chosen": ["x", {}, "z"]}, [*"abc"]), "column 'chosen', row 1: an item is a w"),
        (lambda: from_rankings(BALLOTS | {"2nd": ["y", None, ["x"]]}, [*BALLOTS]), "column '2nd', row 2: an item is"),
    ],
)
def test_covariates_and_columns_that_are_none(read, message):
    with pytest.raises(DataError, match=message):
        read()


# ------------------------------------------------------------------------------------------- rows that are left out
def test_origin_is_of_the_table_before_rows_were_left_out():
    table = {"a": [*"xyxy"], "b": ["y", "x", None, "x"], "chosen": [None, "x", "x", "y"], "day": [1, 2, 3, 4]}
    rows = from_choices(table, ["a", "b"], missing="drop")
    assert rows.read_.left_out == {"incomplete": 1, "with one item to choose from": 1}
    assert np.array(table["day"])[rows.origin].tolist() == [2, 4]
    races = RACES | {"rank": [None, 1, None, 1, 2]}
    rows = from_rankings(races, by="race", missing="drop")
    assert (rows.X.tolist(), rows.origin.tolist()) == ([["x", "z"]], [3])
    assert rows.read_.left_out == {"incomplete": 2, "of one item": 1}
    assert rows.read_.n_rows == 5


def test_a_choice_with_a_row_for_each_item_needs_one_that_is_marked():
    table = {"task": [1, 1, 2, 2, 3], "item": [*"xyyxx"], "chosen": [0, 1, 0, 0, 1]}
    roles = Roles(task=("task",), item=("item",), chosen="chosen")
    with pytest.raises(DataError, match="row 2: no row of task 2 has a 1 in 'chosen'; if it means that none was"):
        read(table, roles, None)
    tasks = read(table, roles, "drop")
    assert ([column.tolist() for column in tasks.items], tasks.y.tolist(), tasks.origin.tolist()) == (
        [["x"], ["y"]],
        ["y"],
        [0],
    )
    assert tasks.read_.left_out == {"incomplete": 2, "with one item to choose from": 1}


@pytest.mark.parametrize("role", ["weight", "time", "groups", "once"])
def test_what_belongs_to_a_task_is_the_same_in_its_rows(role):
    table = {"task": [1, 1, 2, 2], "item": [*"xyyx"], "chosen": [0, 1, 0, 1], "w": [1, 1, 2, 3]}
    roles = {role: "w" if role in {"weight", "time"} else ("w",)}
    with pytest.raises(DataError, match="column 'w', row 3: 3 differs from 2 on row 2, but task 2 has one value"):
        read(table, Roles(task=("task",), item=("item",), chosen="chosen", **roles), None)


def test_tasks_of_one_alternative_are_left_out_of_choices_and_ranks():
    table = {"task": [1, 1, 2], "person": ["u"] * 3, "price": [1, 2, 3], "chosen": [1, 0, 1], "rank": [1, 2, 1]}
    for options in ({}, {"rank": "rank"}):
        X, y, items = from_tasks(table, features="price", **options)
        assert X.tolist() == [["u", "price=1", "price=2"]]
        assert len(y) == 1
        assert items.n_items == 3
        one = {name: cells[2:] for name, cells in table.items()}
        with pytest.raises(DataError, match=r"at least 1 (choice|ranking).* two items or more is required"):
            from_tasks(one, features="price", **options)


# --------------------------------------------------------------------------------------- wide tables of attributes
OFFERS = {
    "person": ["ann", "ann", "bob"],
    "price_1": [1, 2, 3],
    "price_2": [2, 3, None],
    "price_3": [3, 1, 2],
    "brand_1": ["p", "q", "p"],
    "brand_2": ["q", "p", None],
    "brand_3": ["p", "p", "q"],
    "chosen": [1, 2, 3],
    "worst": [3, 1, 1],
}
WIDE = {"price": [f"price_{k}" for k in (1, 2, 3)], "brand": [f"brand_{k}" for k in (1, 2, 3)]}
FIRST = ["ann", "price=1, brand=p", "price=2, brand=q", "price=3, brand=p"]


def offers(columns=None, **options):
    """Read the wide table with other columns."""
    return from_tasks(OFFERS | (columns or {}), features=WIDE, **options)


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("chosen", [[1, 2, 3], ["1", "2 ", "3"], ["A", "b", "C"], [1.0, 2.0, 3.0]])
def test_wide_tables_have_positions_or_letters(make, chosen):
    X, y, items = from_tasks(make(OFFERS | {"chosen": chosen}), features=WIDE)
    assert X.tolist() == [
        FIRST,
        ["ann", "price=2, brand=q", "price=3, brand=p", "price=1, brand=p"],
        ["bob", "price=3, brand=p", "price=2, brand=q", None],  # one was not shown
    ]
    assert y.tolist() == ["price=1, brand=p", "price=3, brand=p", "price=2, brand=q"]
    assert items.feature_names == ("price", "brand=p", "brand=q")
    assert items.features[items.rows(["price=2, brand=q"])[0]].tolist() == [2, 0, 1]


def test_a_wide_table_is_its_long_table():
    long = {name: [] for name in ("task", "person", "price", "brand", "chosen", "worst")}
    for row, k in [(row, k) for row in range(3) for k in (1, 2, 3)]:
        if OFFERS[f"price_{k}"][row] is not None:
            for name in ("price", "brand"):
                long[name].append(OFFERS[f"{name}_{k}"][row])
            long["task"].append(row)
            long["person"].append(OFFERS["person"][row])
            for name in ("chosen", "worst"):
                long[name].append(int(OFFERS[name][row] == k))
    for worst in (None, "worst"):
        wide, tall = offers(worst=worst), from_tasks(long, features=["price", "brand"], worst=worst)
        assert (wide.X.tolist(), wide.y.tolist()) == (tall.X.tolist(), tall.y.tolist())
        assert wide.items.digest == tall.items.digest


def test_the_worst_of_a_wide_table():
    assert offers(worst="worst").y.tolist()[0] == ["price=1, brand=p", "price=3, brand=p"]
    with pytest.raises(DataError, match="row 0: 'price=1, brand=p' is both the best and the worst item"):
        offers(worst="chosen")


@pytest.mark.parametrize("none", [0, 4, "none", "-"])
def test_none_of_a_wide_table_is_an_option_of_each_task(none):
    X, y, items = offers({"chosen": [1, none, 3]}, none=none)
    assert X[:, -1].tolist() == ["none", "none", None]
    assert X[2].tolist() == ["bob", "price=3, brand=p", "price=2, brand=q", "none", None]
    assert y.tolist() == ["price=1, brand=p", "none", "price=2, brand=q"]
    assert items.feature_names == ("price", "brand=p", "brand=q", "none")
    assert items.features[items.rows(["none"])[0]].tolist() == [0, 0, 0, 1]
    assert offers(none=none).X.tolist() == X.tolist()  # though nobody chose it


def test_equal_profiles_in_a_wide_task():
    X, y, items = offers({"price_3": [1, 1, 2], "chosen": [3, 2, 3]})
    assert X[0].tolist() == ["ann", "price=1, brand=p", "price=2, brand=q", "price=1, brand=p"]
    assert y[0] == "price=1, brand=p"
    assert len(set(items.ids)) == len({tuple(row) for row in items.features.tolist()})


def test_an_attribute_may_be_called_as_a_column_that_is_made():
    X, _, items = from_tasks(OFFERS, features={"option": WIDE["price"], "profile": WIDE["brand"]}, none="none")
    assert X[0].tolist() == ["ann", "option=1, profile=p", "option=2, profile=q", "option=3, profile=p", "none"]
    assert items.feature_names == ("option", "profile=p", "profile=q", "none")


def test_a_task_of_a_wide_table_that_shows_one_is_left_out():
    one = {"price_3": [3, 1, None], "brand_3": ["p", "p", None], "chosen": [1, 2, 1]}
    assert offers(one).X[:, 0].tolist() == ["ann", "ann"]
    assert offers(one, none="none").X[:, 0].tolist() == ["ann", "ann", "bob"]  # or none


def test_columns_may_come_from_generators_and_indexes():
    frame = pd.DataFrame(OFFERS)
    named = {"price": (f"price_{k}" for k in (1, 2, 3)), "brand": frame.filter(like="brand_").columns}
    assert from_tasks(frame, features=named).X[0].tolist() == FIRST


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({}, {"features": {"price": ["price_1", "price_2"], "brand": WIDE["brand"]}}, "got {'price': 2, 'brand': 3}"),
        ({}, {"features": {"price": ["price_1"]}}, "two columns or more of each attribute, and as many of each; got"),
        ({}, {"features": {"price": "price_1"}}, "two columns or more of each attribute, and as many of each; got"),
        ({}, {"features": {}}, "two columns or more of each attribute, and as many of each; got {}"),
        ({}, {"features": {"price": None}}, "features must be a column or a list of columns; got None"),
        ({}, {"features": {"price": ["price_1", "price_9"]}}, "no column 'price_9'; did you mean 'price_3'"),
        ({}, {"features": {"price": ["price_1", "price_1"]}}, "column 'price_1': this is named twice, and cannot be"),
        ({}, {"features": {"price": WIDE["price"], "cost": WIDE["price"]}}, "column 'price_1': this is named twice"),
        ({}, {"features": {"price": ["price_1", "chosen"]}}, "column 'chosen': this is a column of tasks, users or an"),
        ({}, {"features": {"chosen": WIDE["price"]}}, "column 'chosen': this is a column of tasks, users or answers"),
        ({}, {"item": "price_1"}, r"a wide table, which features={...} names, has chosen=..., and neither item nor"),
        ({}, {"rank": "price_1"}, r"has chosen=..., and neither item nor rank"),
        ({}, {"user": None}, "from_tasks needs task=..., user=..., and"),
        ({}, {"user": "who"}, "there is no column 'who'. Found: person, price_1"),
        ({}, {"chosen": None}, "from_tasks needs chosen"),
        ({"person": ["ann", None, "bob"]}, {}, "column 'person', row 1: a person id is missing; fill it in, or leave"),
        ({"chosen": [1, None, 3]}, {}, "column 'chosen', row 1: the choice is missing; leave such tasks out"),
        ({"chosen": [1, 0, 2]}, {}, r"row 1: expected the position .* 1 to 3, or its letter; got 0; if positions st"),
        ({"chosen": [1, 2, 4]}, {}, "column 'chosen', row 2: expected the position of an alternative .*; got 4"),
        ({"chosen": [1, 2, 2]}, {}, "row 2: expected the position of an alternative that was shown, .*got 2"),
        ({"chosen": [True, False, True]}, {}, "row 0: expected the position .*got True"),
        ({"chosen": ["price_1", "a", "c"]}, {}, "row 0: expected the position .*got 'price_1'"),
        ({"chosen": [1, "nix", 3]}, {"none": "none"}, "row 1: expected the position .*got 'nix'$"),
        ({}, {"none": 1}, "none=1 is also the position of an alternative"),
        ({}, {"none": "A"}, "none='A' is also the position of an alternative"),
        ({"price_2": [2, None, None]}, {}, "column 'price', row 1: an attribute is missing"),
        ({"price_2": [2, "cheap", None]}, {}, "column 'price', row 1: 'cheap' is no number, and 1 is one"),
        ({"price_1": [1, np.inf, 3]}, {}, "column 'price', row 1: expected a finite number"),
    ],
)
def test_wide_tables_that_are_refused(columns, options, message):
    with pytest.raises(DataError, match=message):
        from_tasks(OFFERS | columns, **({"features": WIDE} | options))


def test_categories_of_wide_tables_are_refused():
    frame = pd.DataFrame(OFFERS).astype({"brand_2": "category"})
    with pytest.raises(DataError, match="column 'brand_2': a wide table has words for levels"):
        from_tasks(frame, features=WIDE)
    assert from_tasks(frame.astype({"brand_2": object}), features=WIDE).X[0].tolist() == FIRST
    words = pl.DataFrame(OFFERS).with_columns(pl.col("brand_2").cast(pl.Categorical))
    with pytest.raises(DataError, match="column 'brand_2': a wide table has words for levels"):
        from_tasks(words, features=WIDE)


def test_a_long_feature_that_is_named_twice_is_refused():
    table = {"task": [1, 1], "person": ["u"] * 2, "price": [1, 2], "chosen": [1, 0]}
    with pytest.raises(DataError, match="column 'price': this is named twice, and cannot be a feature"):
        from_tasks(table, features=["price", "price"])


def test_alternatives_that_are_all_none():
    table = {"task": [1, 1], "person": ["u"] * 2, "brand": ["none"] * 2, "chosen": [1, 0]}
    X, y, items = from_tasks(table, features="brand", none="none")
    assert (X.tolist(), y.tolist()) == ([["u", "none", "none"]], ["none"])
    assert items.features[:, -1].tolist() == [1.0]


def test_a_task_of_many_rows_is_read_in_time_that_grows_with_them():
    n = 20_000
    table = {"task": [1] * n, "person": ["u"] * n, "price": [1] * n, "chosen": [1] + [0] * (n - 1)}
    assert from_tasks(table, features="price").X.shape == (1, n + 1)


@pytest.mark.parametrize(
    ("chosen", "span"), [(["B", "A"], "A for 'a' to B for 'b'"), ([2, 1], "1 for 'a' to 2 for 'b'")]
)
def test_positions_are_told_in_a_note(chosen, span):
    columns = Columns.of({"a": ["x", "x"], "b": ["y", "z"], "chosen": chosen})
    assert read(columns, Roles(offered=("a", "b"), chosen="chosen"), None).y.tolist() == ["y", "x"]
    assert columns.notes == [f"column 'chosen' has positions, {span}"]
