"""Which columns of X hold what."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from skpref import CrowdGPPL, GPPLClassifier, GPPLRegressor, Table
from skpref.data import Comparisons
from skpref.exceptions import DataError, DataWarning
from skpref.gp.pairwise.columns import PairColumns, has_columns

NOTHING = {"left": None, "right": None}
SIDES = tuple(NOTHING)


def test_no_parameters_name_no_columns():
    assert PairColumns.from_parameters(NOTHING, None, None).is_empty
    assert PairColumns.from_parameters(NOTHING, [], None).is_empty


def test_the_first_two_columns_are_ids():
    rows = PairColumns.from_parameters(NOTHING, [2, (3, 2)], None).read([["a", "b", 1, 5], ["b", "c", 2, 2]])
    assert rows.left.tolist() == ["a", "b"]
    assert rows.right.tolist() == ["b", "c"]
    assert rows.covariates.tolist() == [[1.0, 4.0], [2.0, 0.0]]
    assert rows.weight is None


def test_ids_that_are_not_named_are_asked_for_where_others_are_and_several_columns_are_left():
    frame = pd.DataFrame({"date": ["2026-01-01"], "a": ["x"], "b": ["y"], "judge": ["ann"], "home": [1]})
    named = PairColumns.from_parameters({"user": None, "left": "a", "right": "b"}, ["home"], None)
    with pytest.raises(DataError, match=r"user= names no column of X.* name all of user, left, right. Found: date, a"):
        named.read(frame)  # not the first column, the dates
    assert named.read(frame[["judge", "a", "b", "home"]]).user.tolist() == ["ann"]


def test_names_of_differences():
    columns = PairColumns.from_parameters({"left": "a", "right": "b"}, ["home", ("p", "q")], None)
    assert columns.names == ["home", "p - q"]
    assert columns.are_named
    assert not PairColumns.from_parameters({"left": "a", "right": "b"}, [("p", 3)], None).are_named


def test_a_dict_names_effects():
    columns = PairColumns.from_parameters(NOTHING, {"length": (3, 2), 7: 2}, None)
    assert columns.names == ["length", "7"]
    assert columns.read([["a", "b", 1, 5]]).covariates.tolist() == [[4.0, 1.0]]


def test_empty_rows_are_refused():
    with pytest.raises(DataError, match="0 sample"):
        PairColumns.from_parameters(NOTHING, [2], None).read(np.empty((0, 3)))


@pytest.mark.parametrize(
    ("X", "pairs"),
    [
        ([["a", "b"]], True),
        (np.zeros((3, 2)), True),
        (np.zeros((3, 3)), False),
        ([["a", "b", 1]], False),
        ("ab", False),
    ],
)
def test_rows_of_two_ids(X, pairs):
    assert has_columns(X, 2) == pairs


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"left": b"x"}, "left must be a column of X, by name or by position; got b'x'"),
        ({"right": 1.5}, "right must be a column of X"),
        ({"weight": True}, "weight must be a column of X"),
        *(({"covariates": value}, "covariates must be columns") for value in (True, b"x", "auto", [True], np.array(2))),
    ],
)
def test_what_is_no_column_is_refused_after_the_fit(params, message):
    rows = [("a", "b", 1.0), ("b", "c", 2.0)]
    model = GPPLClassifier(weight=2).fit(rows, [1, 0]).set_params(**params)
    with pytest.raises(DataError, match=re.escape(message)):
        model.predict_proba(rows)


def test_weights_are_numbers():
    rows = [("a", "b", 1.0), ("b", "c", 2.0)]
    model = GPPLClassifier(weight=2).fit(rows, [1, 0]).set_params(weight=0)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(DataError, match="weight=0: column 0 of X holds the ids of left; name a column of numbers"):
            learn(rows, [1, 0])


@pytest.mark.parametrize(
    ("covariates", "message"),
    [
        (["home", "home"], "covariates: 'home' and 'home' are the same column of X; leave one of them out"),
        (["home", 2], "covariates: 'home' and '2' are the same column of X"),
        ([("home", "size"), ("home", "size")], "covariates: 'home - size' and 'home - size' are the same"),
        ({"up": ("home", "size"), "down": ("size", "home")}, "covariates: 'up' and 'down' are the same column"),
        ([("home", "home")], "covariate 'home - home' names a column twice; of two sides, the difference would be 0"),
    ],
)
def test_repeated_covariates_are_refused(covariates, message):
    rows = pd.DataFrame({"a": ["x", "y"], "b": ["y", "z"], "home": [1, -1], "size": [2, 3]})
    with pytest.raises(DataError, match=re.escape(message)):
        GPPLClassifier(covariates=covariates).fit(rows, [1, 0])


def test_one_column_cannot_be_both_sides():
    rows = pd.DataFrame({"a": ["x", "y"], "b": ["y", "z"]})
    with pytest.raises(DataError, match=r"left and right are the same column of X, 'b' \(left='b', right=1\)"):
        GPPLClassifier(left="b").fit(rows, [1, 0])


@pytest.mark.parametrize("estimator", [GPPLClassifier(), CrowdGPPL(), GPPLRegressor(), Table])
def test_columns_of_one_name_are_named(estimator):
    width = 3 if isinstance(estimator, CrowdGPPL) else 2
    rows = pd.DataFrame(np.arange(2.0 * width).reshape(2, width), columns=["b", "a", "a"][-width:])
    with pytest.raises(DataError, match="X has more than one column 'a'"):
        estimator(rows) if estimator is Table else estimator.fit(rows, [1, 0])


@pytest.mark.parametrize(
    ("size", "allowed"), [(1e150, True), (1.01e150, False), (1.0 / 1e150, True), (0.99e-150, False), (0.0, True)]
)
def test_limits_of_the_size_of_covariates(size, allowed):
    columns, rows = PairColumns.from_parameters(NOTHING, [2], None), [["a", "b", size], ["b", "c", -size]]
    if allowed:
        assert columns.read(rows).covariates.ravel().tolist() == [size, -size]
        return
    with pytest.raises(
        DataError, match=r"covariate '2': its largest number is .*, which must be from 1e-150 to 1e\+150"
    ):
        columns.read(rows)


@pytest.mark.parametrize(
    ("named", "wanted"),
    [
        ({"left": 2}, ({"left": 2, "right": None}, (), None)),
        ({"right": 2}, ({"left": None, "right": 2}, (), None)),
        ({"weight": 2}, ({"left": None, "right": None}, (), 2)),
        ({"covariates": [2]}, ({"left": None, "right": None}, (2,), None)),
    ],
)
def test_one_named_column_is_enough(named, wanted):
    ids = {side: named.get(side) for side in NOTHING}
    columns = PairColumns.from_parameters(ids, named.get("covariates"), named.get("weight"))
    assert columns is not None
    ids = {side: getattr(columns.roles, side) for side in columns.sides}
    assert (ids, columns.roles.covariates, columns.roles.weight) == wanted
    assert not columns.are_named


@pytest.mark.parametrize(("position", "text"), [(4, "no column 4 in X, which has 4"), (-1, "no column -1 in X")])
def test_positions_end_with_the_columns(position, text):
    rows = [["a", "b", 1, 5]]
    assert PairColumns.from_parameters(NOTHING, [3], None).read(rows).covariates.tolist() == [[5.0]]
    with pytest.raises(DataError, match=rf"{text}.*positions start at 0"):
        PairColumns.from_parameters(NOTHING, [position], None).read(rows)


def test_missing_cells_are_refused_where_they_are_read():
    rows = np.ma.masked_equal([[0, 1, 5, 8], [1, 2, 6, 7]], 8)
    assert PairColumns.from_parameters(NOTHING, [2], None).read(rows).covariates.tolist() == [[5.0], [6.0]]
    with pytest.raises(DataError, match=r"X, row 0, column 3: a number is missing \(a covariate\)"):
        PairColumns.from_parameters(NOTHING, [3], None).read(rows)


def test_rows_of_two_named_columns_are_ids_by_their_names():
    columns = PairColumns.from_parameters({"left": "a", "right": "b"}, ["home"], "worth")
    rows = columns.read_ids(pd.DataFrame({"b": ["x"], "a": ["y"]}), SIDES)
    assert (rows.left.tolist(), rows.right.tolist()) == (["y"], ["x"])
    other = columns.read_ids(pd.DataFrame({"d": ["x"], "c": ["y"]}), SIDES)  # by position
    assert (other.left.tolist(), other.right.tolist()) == (["x"], ["y"])
    for frame in ({"a": ["x"], "home": [1]}, {"a": ["x"], "worth": [1]}):
        with pytest.raises(DataError, match=r"there is no column '(b|home)'"):
            columns.read_ids(pd.DataFrame(frame), SIDES)


def test_covariates_that_vary_only_in_rows_without_weight_are_constant():
    columns, weight = PairColumns.from_parameters(NOTHING, {"home": 2, "away": 3}, None), np.array([1.0, 2.0, 0.0])
    comparisons = Comparisons([0, 1, 2], [1, 2, 0], [1.0, 0.0, 1.0], weight, 3, covariates=[[2, 0], [2, 1], [3, 0]])
    with pytest.warns(DataWarning, match="covariate 'home' is 2 in every comparison") as record:
        columns.check_varying(comparisons)
    assert len(record) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        columns.check_varying(replace(comparisons, weight=np.ones(3)))
        columns.check_varying(replace(comparisons, weight=np.zeros(3)))
        columns.check_varying(replace(comparisons, covariates=None))


def test_frames_of_three_dimensions_hold_no_pairs():
    assert not has_columns(np.zeros((2, 2, 2)), 2)
    assert not has_columns(np.zeros(2), 2)
    assert has_columns([np.array(["a", "b"]), ("b", "c")], 2)
    assert not has_columns([["a", "b"], ["a", "b", 1]], 2)
    assert not has_columns(["ab", "cd"], 2)
    with pytest.raises(DataError, match="Found array with dim 3"):
        PairColumns.from_parameters(NOTHING, [2], None).read(np.zeros((2, 3, 3)))


@pytest.mark.parametrize(
    "model", [GPPLClassifier(left="b", right="a"), CrowdGPPL(n_factors=1, left="b", right="a", user="u")]
)
def test_ids_alone_need_no_names_after_a_fit_of_named_columns(model):
    names = ["a", "b", "u"] if isinstance(model, CrowdGPPL) else ["a", "b"]
    frame = pd.DataFrame([["y", "x", "ann"], ["z", "y", "bob"], ["z", "x", "ann"]], columns=["a", "b", "u"])[names]
    model.fit(frame)
    in_order = frame[["u", "b", "a"][-len(names) :]].to_numpy()
    np.testing.assert_array_equal(model.predict_proba(in_order), model.predict_proba(frame))
    model.partial_fit(in_order)
    with pytest.raises(DataError, match="there is no column 'b'"):
        model.predict_proba(frame.rename(columns={"b": "c"}))


def test_ids_that_no_parameter_names_are_the_first_columns_even_where_names_are_integers():
    frame = pd.DataFrame([["a", "b", 2.0], ["b", "c", 3.0]], columns=[1, 0, 2])
    rows = PairColumns.from_parameters(NOTHING, None, 2).read(frame)
    assert (rows.left.tolist(), rows.right.tolist()) == (["a", "b"], ["b", "c"])
    rows = PairColumns.from_parameters({"left": 0, "right": 1}, None, 2).read(frame)
    assert (rows.left.tolist(), rows.right.tolist()) == (["b", "c"], ["a", "b"])


@pytest.mark.parametrize("names", [["judge", "a"], ["a", "date"], ["b", "judge"]])
def test_frames_with_some_of_the_named_ids_are_not_read_by_position(names):
    columns = PairColumns.from_parameters({"user": "judge", "left": "a", "right": "b"}, None, "votes")
    with pytest.raises(DataError, match="there is no column"):
        columns.read_ids(pd.DataFrame([["x", "y"]], columns=names), SIDES)
    assert columns.read_ids(pd.DataFrame([["x", "y"]]), SIDES).left.tolist() == ["x"]
    assert columns.read_ids(pd.DataFrame([["x", "y"]], columns=["p", "q"]), SIDES).left.tolist() == ["x"]


@pytest.mark.parametrize(
    ("covariates", "weight", "named"),
    [
        ([2], None, "covariate '2': column 2"),
        ([(3, 1)], None, "covariate '3 - 1': column 1"),
        (None, 0, "weight=0: column 0"),
    ],
)
def test_columns_of_ids_are_no_numbers(covariates, weight, named):
    rows = np.arange(8).reshape(2, 4)
    columns = PairColumns.from_parameters({"user": None, **NOTHING}, covariates, weight)
    with pytest.raises(DataError, match=f"{named} of X holds the ids of (user|left|right); name a column of numbers"):
        columns.read(rows)


def test_sparse_rows_and_names_of_one_text_are_refused():
    with pytest.raises(TypeError, match="Sparse data was passed for X, but dense data is required"):
        PairColumns.from_parameters(NOTHING, [2], None).read(csr_array(np.eye(3)))
    with pytest.raises(DataError, match=r"covariates has two equal names: .*1, '1'.*; use different names"):
        PairColumns.from_parameters(NOTHING, {1: "home", "1": "away"}, None)


@pytest.mark.parametrize("names", [["left", "right", "user", "x"], ["user", "loser", "winner", "x"]])
def test_ids_read_by_place_are_refused_where_their_names_say_another_order(names):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.random.default_rng(0).integers(0, 4, (30, 4)), columns=names).astype(str)
    frame["x"] = np.linspace(0.0, 1.0, 30)
    roles = ("user", "left", "right")
    with pytest.raises(DataError, match=r"would be read as the (user|left) ids: the order of columns is user, left"):
        PairColumns.from_parameters(dict.fromkeys(roles), ["x"], None).read(frame)
    by_name = dict(zip(roles, names, strict=False))  # the user knows better than the names
    assert PairColumns.from_parameters(by_name, ["x"], None).read(frame).user.tolist() == frame[names[0]].tolist()
