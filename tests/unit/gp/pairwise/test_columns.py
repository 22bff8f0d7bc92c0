"""Which columns of X hold what."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skpref import CrowdGPPL, GPPLClassifier, GPPLRegressor, Table
from skpref.exceptions import DataError
from skpref.gp.pairwise.columns import PairColumns, has_columns

NOTHING = {"left": None, "right": None}


def test_no_parameters_name_no_columns():
    assert PairColumns.of(NOTHING, None, None) is None
    assert PairColumns.of(NOTHING, [], None) is None


def test_the_first_two_columns_are_ids():
    rows = PairColumns.of(NOTHING, [2, (3, 2)], None).read([["a", "b", 1, 5], ["b", "c", 2, 2]])
    assert rows.left.tolist() == ["a", "b"]
    assert rows.right.tolist() == ["b", "c"]
    assert rows.covariates.tolist() == [[1.0, 4.0], [2.0, 0.0]]
    assert rows.weight is None


def test_names_of_differences():
    columns = PairColumns.of({"left": "a", "right": "b"}, ["home", ("p", "q")], None)
    assert columns.names == ["home", "p - q"]
    assert columns.by_name
    assert not PairColumns.of({"left": "a", "right": "b"}, [("p", 3)], None).by_name


def test_a_dict_names_effects():
    columns = PairColumns.of(NOTHING, {"length": (3, 2), 7: 2}, None)
    assert columns.names == ["length", "7"]
    assert columns.read([["a", "b", 1, 5]]).covariates.tolist() == [[4.0, 1.0]]


def test_empty_rows_are_refused():
    with pytest.raises(DataError, match="0 sample"):
        PairColumns.of(NOTHING, [2], None).read(np.empty((0, 3)))


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
def test_what_is_no_column_is_refused_after_the_fit(params: dict[str, object], message: str) -> None:
    rows = [("a", "b", 1.0), ("b", "c", 2.0)]
    model = GPPLClassifier(weight=2).fit(rows, [1, 0]).set_params(**params)
    with pytest.raises(DataError, match=re.escape(message)):
        model.predict_proba(rows)


def test_weights_are_numbers() -> None:
    rows = [("a", "b", 1.0), ("b", "c", 2.0)]
    model = GPPLClassifier(weight=2).fit(rows, [1, 0]).set_params(weight=0)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(DataError, match="weight=0 of X: column 0 must hold finite numbers; got 'a' in row 0"):
            learn(rows, [1, 0])


@pytest.mark.parametrize(
    ("covariates", "message"),
    [
        (["home", "home"], "covariates: 'home' and 'home' are the same column of X; leave one of them out"),
        (["home", 2], "covariates: 'home' and '2' are the same column of X"),
        ([("home", "size"), ("home", "size")], "covariates: 'home - size' and 'home - size' are the same"),
        ({"up": ("home", "size"), "down": ("size", "home")}, "covariates: 'up' and 'down' are the same column"),
        ([("home", "home")], "covariate 'home - home' is the difference of a column and itself, which is 0"),
    ],
)
def test_repeated_covariates_are_refused(covariates: object, message: str) -> None:
    rows = pd.DataFrame({"a": ["x", "y"], "b": ["y", "z"], "home": [1, -1], "size": [2, 3]})
    with pytest.raises(DataError, match=re.escape(message)):
        GPPLClassifier(covariates=covariates).fit(rows, [1, 0])


def test_one_column_cannot_be_both_sides() -> None:
    rows = pd.DataFrame({"a": ["x", "y"], "b": ["y", "z"]})
    with pytest.raises(DataError, match=r"left and right are the same column of X, 'b' \(left='b', right=1\)"):
        GPPLClassifier(left="b").fit(rows, [1, 0])


def test_frames_without_rows_are_refused() -> None:
    rows = pd.DataFrame({"a": [], "b": [], "home": []})
    with pytest.raises(DataError, match=r"Found array with 0 sample\(s\) while a minimum of 1 is required for X"):
        GPPLClassifier(covariates=["home"]).fit(rows, [])


@pytest.mark.parametrize("estimator", [GPPLClassifier(), CrowdGPPL(), GPPLRegressor(), Table])
def test_columns_of_one_name_are_named(estimator: Any) -> None:
    width = 3 if isinstance(estimator, CrowdGPPL) else 2
    rows = pd.DataFrame(np.arange(2.0 * width).reshape(2, width), columns=["b", "a", "a"][-width:])
    with pytest.raises(DataError, match="X has more than one column 'a'"):
        estimator(rows) if estimator is Table else estimator.fit(rows, [1, 0])
