"""Which columns of X hold what."""

from __future__ import annotations

import re

import numpy as np
import pytest

from skpref import GPPLClassifier
from skpref.exceptions import DataError
from skpref.gp.pairwise.columns import PairColumns, is_pairs


def test_no_parameters_name_no_columns():
    assert PairColumns.of(None, None, None, None) is None
    assert PairColumns.of(None, None, [], None) is None


def test_the_first_two_columns_are_ids():
    rows = PairColumns.of(None, None, [2, (3, 2)], None).read([["a", "b", 1, 5], ["b", "c", 2, 2]])
    assert rows.left.tolist() == ["a", "b"]
    assert rows.right.tolist() == ["b", "c"]
    assert rows.covariates.tolist() == [[1.0, 4.0], [2.0, 0.0]]
    assert rows.weight is None


def test_names_of_differences():
    columns = PairColumns.of("a", "b", ["home", ("p", "q")], None)
    assert columns.names == ["home", "p - q"]
    assert columns.by_name
    assert not PairColumns.of("a", "b", [("p", 3)], None).by_name


def test_a_dict_names_effects():
    columns = PairColumns.of(None, None, {"length": (3, 2), 7: 2}, None)
    assert columns.names == ["length", "7"]
    assert columns.read([["a", "b", 1, 5]]).covariates.tolist() == [[4.0, 1.0]]


def test_empty_rows_are_refused():
    with pytest.raises(DataError, match="0 sample"):
        PairColumns.of(None, None, [2], None).read(np.empty((0, 3)))


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
    assert is_pairs(X) == pairs


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
