"""Tasks and their answers: what is read, what is the same, and what is refused in words."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skpref.data import Vocabulary
from skpref.data.tasks import ID, POSITION, RANKS, are_tasks
from skpref.exceptions import DataError
from tests.unit.data.stages import stages, tasks_of

ROWS = [["u", "a", "b", "c"], ["v", "b", "c", "d"]]
GAPS = [["u", "a", None, "b"], ["v", None, "c", "d"]]
NAN = np.nan


def choice(user, chosen, items, kind="best", weight=1.0):
    return user, weight, chosen, frozenset(items), kind


# ---------------------------------------------------------------------------------------------------- forms of answers
@pytest.mark.parametrize(
    ("y", "form"),
    [
        (["a", "d"], ID),
        ([[0], [2]], POSITION),
        ([0.0, 2.0], POSITION),
        (pd.Series(["a", "d"], index=[9, 9]), ID),
        (pd.Categorical(["a", "d"]), ID),
        (pl.Series(["a", "d"]), ID),
        (pa.array(["a", "d"]), ID),
        (np.array(["a", "d"]), ID),
        ([[1, NAN, NAN], [NAN, NAN, 1]], RANKS),
        ([[1, 2, 2], [7, 7, 1]], RANKS),
        (pd.DataFrame({"x": [1, None], "y": [None, None], "z": [None, 3]}, dtype="Int64"), RANKS),
    ],
)
def test_a_choice_has_many_forms(y, form):
    wanted = [choice("u", "a", "abc"), choice("v", "d", "bcd")]
    assert stages(ROWS, y) == (form, wanted)


@pytest.mark.parametrize("y", [[["a", "b"], ["d", "c"]], [[0, 1], [2, 1]]])
def test_best_and_worst_of_three_are_two_choices(y):
    form, found = stages(ROWS, y)
    wanted = [choice("u", "a", "abc"), choice("u", "b", "bc", "worst")]
    # Of two items left, the choice of the worst is the choice of the other one.
    assert form == (ID if isinstance(y[0][0], str) else POSITION)
    assert found[0] == wanted[0]
    assert found[1] in (wanted[1], choice("u", "c", "bc"))
    assert found[2] == choice("v", "d", "bcd")


def test_best_and_worst_of_four():
    _, found = stages([["u", *"abcd"]], [["c", "a"]])
    assert found == [choice("u", "c", "abcd"), choice("u", "a", "abd", "worst")]


@pytest.mark.parametrize("y", [[[None, "c"], ["d", None]], [[NAN, 2], [2, NAN]]])
def test_the_best_or_the_worst_may_be_alone(y):
    _, found = stages(ROWS, y)
    assert found == [choice("u", "c", "abc", "worst"), choice("v", "d", "bcd")]


@given(st.permutations("abcde"), st.integers(1, 5))
def test_a_ranking_is_its_exploded_choices(order, n_ranked):
    items = "abcde"
    ranks = [[order.index(item) + 1.0 if order.index(item) < n_ranked else NAN for item in items]]
    _, found = stages([["u", *items]], ranks)
    assert found == [choice("u", order[k], order[k:]) for k in range(min(n_ranked, 4))]
    tied = np.where(np.isnan(ranks), 9.0, ranks)  # at the bottom
    if n_ranked < 5:
        assert stages([["u", *items]], tied)[1] == found


@given(st.permutations(range(4)))
def test_the_order_of_columns_changes_nothing(order):
    X, ranks = np.array([["a", None, "b", "c"]], dtype=object), np.array([[2.0, NAN, 1.0, 3.0]])
    wanted = stages(np.column_stack([["u"], X]), ranks)
    assert stages(np.column_stack([["u"], X[:, order]]), ranks[:, order]) == wanted


def test_absent_cells_anywhere():
    wanted = [choice("u", "b", "ab"), choice("v", "c", "cd")]
    assert stages(GAPS, ["b", "c"]) == (ID, wanted)
    assert stages(GAPS, [2, 1]) == (POSITION, wanted)
    assert stages(GAPS, [[2, NAN, 1], [NAN, 1, NAN]]) == (RANKS, wanted)


@pytest.mark.parametrize(
    ("y", "form"), [(["b"], ID), ([1], POSITION), ([["b", "a"]], ID), ([[2, 1]], RANKS), ([[np.nan, 1]], RANKS)]
)
def test_two_items(y, form):
    assert stages([["u", "a", "b"]], y) == (form, [choice("u", "b", "ab")])


def test_tasks_without_information_are_left_out():
    X = [*ROWS, ["w", "a", None, None]]
    assert stages(X, ["a", "d", "a"]) == stages(ROWS, ["a", "d"])
    assert stages(X, [["a", "b"], ["d", "c"], ["a", "a"]]) == stages(ROWS, [["a", "b"], ["d", "c"]])
    assert stages(ROWS, [[1, 1, 1], [2, 2, 1]])[1] == [choice("v", "d", "bcd")]


def test_weights_are_those_of_tasks():
    _, found = stages(ROWS, [[1, 2, 3], [3, 2, 1]], weight=[2.0, 0.0])
    assert [weight for _, weight, *_ in found] == [2.0, 2.0, 0.0, 0.0]


# ------------------------------------------------------------------------------------------------------ tables and ids
FRAME = {"user": ["u", "v"], "i": ["a", "b"], "j": ["b", "c"], "k": ["c", None]}


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table, lambda frame: pd.DataFrame(frame).astype("category")]
)
def test_frames(make):
    assert stages(make(FRAME), ["a", "c"]) == (ID, [choice("u", "a", "abc"), choice("v", "c", "bc")])


@pytest.mark.parametrize("user", ["user", 3])
def test_the_user_may_be_any_column(user):
    frame = pd.DataFrame(FRAME)[["i", "j", "k", "user"]]
    assert stages(frame, ["a", "c"], user=user) == stages(pd.DataFrame(FRAME), ["a", "c"])


@pytest.mark.parametrize("ids", [np.array([10, 11, 12, 13]), np.array([10.0, 11.0, 12.0, 13.0]), [2**70, 5, 6, 7]])
def test_integers_are_ids_or_positions(ids):
    X = np.array([[1, *ids[:3]], [2, *ids[1:]]], dtype=object)
    assert stages(X, [ids[0], ids[3]]) == (ID, stages(X, [0, 2])[1])


def test_missing_numbers_are_absent_items():
    X = np.array([[1, 10, 11, NAN], [2, 10, 11, 12]])
    assert stages(X, [11, 12])[1] == [choice(1, 11, {10, 11}), choice(2, 12, {10, 11, 12})]


def test_positions_and_ids_are_asked_about():
    X = [[9, 1, 2, 3], [9, 2, 3, 4]]
    with pytest.raises(DataError, match="two readings: 1 in task 0 is the id of an item shown, or the position"):
        stages(X, [1, 2])
    assert stages(X, [0, 0])[0] == POSITION
    assert stages(X, [3, 4])[0] == ID
    assert stages([[9, 0, 1, 2], [9, 0, 1, 3]], [1, 0])[0] == ID  # both readings say the same
    with pytest.raises(DataError, match="two readings: 1 in task 0"):  # words beside integers
        stages([["u", 1, "b", 2], ["u", "b", 1, 2]], [1, 1])
    assert stages(np.array(X).astype(str), [2, 2])[0] == POSITION


def test_two_numbers_of_two_items_are_asked_about():
    with pytest.raises(DataError, match="two readings: ranks of the two items in each task, or ids"):
        stages([["u", 1, 2]], [[1, 2]])
    with pytest.raises(DataError, match="two readings: flags of the items chosen, or positions of the best"):
        stages([["u", "a", "b"]], [[1, 0]])


@pytest.mark.parametrize(
    ("X", "y", "wanted"),
    [
        (ROWS, ["a", "b"], True),
        (ROWS, ["left", "right"], False),
        ([["u", "a", "b"]], ["b"], True),
        ([["u", "a", "b"]], ["c"], False),
        ([["u", "a", "b"]], [1], False),
        ([["u", "a", "b"]], [["b", "a"]], True),
        ([["u", "a", "b"]], [[1, 2]], True),
        ([["u", "a", "b"]], [[1, 0]], False),
        (pl.DataFrame(FRAME), ["a", "c"], True),
        (pa.table(FRAME), ["a", "c"], True),
        (ROWS, [0, 2], True),
        (ROWS, [0.0, 2.0], True),
        (ROWS, [[1, 2, 3], [3, 2, 1]], True),
        (ROWS, None, False),
        (FRAME, ["a", "c"], False),
        ([1, 2], ["a", "c"], False),
        ([], [], False),
    ],
)
def test_what_is_taken_for_tasks(X, y, wanted):
    assert are_tasks(X, y, 3) is wanted


# -------------------------------------------------------------------------------------------------------------- faults
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.empty((0, 4)), r"Found array with 0 sample\(s\).* required for X"),
        ([["u"]], "a task shows 2 to 50 items; the columns of items in X are 0"),
        ([["u", *map(str, range(51))]], "a task shows 2 to 50 items; the columns of items in X are 51"),
        ([["u", "a", "b"], ["v", None, ""]], "task 1 of X shows no item"),
        ([["u", "a", "b"], [None, "b", "a"]], "X, row 1, column 0: a user id is missing"),
        ([["u", "a", "b"], ["v", ["c"], "d"]], r"item ids must be hashable, got \['c'\] in task 1 of column 1 of X"),
        ([["u", 1, 2], ["v", 1.5, 2]], "numeric item ids must be integers, got 1.5 in task 1 of column 1 of X"),
        (["u", "a", "b"], "Expected 2D array, got 1D array instead: X must be a table whose rows are tasks"),
        (pd.DataFrame([["u", "a", "b"]], columns=["user", "i", "i"]), "X has more than one column 'i'"),
    ],
)
def test_tables_that_are_no_tasks(X, message):
    with pytest.raises(DataError, match=message):
        tasks_of(X)


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ("who", "there is no column 'who'"),
        (7, "there is no column 7 in X, which has 4; positions start at 0"),
        (["user"], r"user must be a column of X, by name or by position; got \['user'\]"),
        (1.5, "by name or by position; got 1.5"),
        (True, "by name or by position; got True"),
    ],
)
def test_users_that_are_no_column(user, message):
    with pytest.raises(DataError, match=message):
        tasks_of(pd.DataFrame(FRAME), user)


def test_items_shown_twice():
    with pytest.raises(DataError, match=r"task 1 shows an item twice \(1 such tasks\)"):
        stages([["u", "a", "b", "c"], ["v", "a", "c", "a"]], ["a", "a"])
    known = Vocabulary(["a"])
    assert tasks_of([["u", "x", "a", "y"]]).numbers(known, "mark").tolist() == [[-2, 0, -2]]
    with pytest.raises(DataError, match="task 0 shows an item twice"):
        tasks_of([["u", "x", "a", "x"]]).numbers(known, "mark")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "y is None"),
        ("a", "y must be an array with an answer for each of 2 tasks; got 'a'"),
        ({"a", "d"}, "y must be an array with an answer"),
        (["a"], "inconsistent numbers of samples: 2 tasks and 1 answers"),
        ([["a", "b"], ["d"]], "the rows of y have different lengths"),
        (np.ones((2, 4)), r"y has the shape \(2, 4\); of 2 tasks with 3 positions it is \(2,\), one choice each"),
        (np.ones((2, 3, 1)), r"y has the shape \(2, 3, 1\)"),
        ([True, False], "y has booleans"),
        (np.eye(3, dtype=bool)[:2], r"y has booleans; .* y.argmax\(axis=1\)"),
        (["a", None], "Input y contains NaN: task 1 has no answer"),
        ([0, NAN], "Input y contains NaN: task 1"),
        (np.ma.array([0, 2], mask=[False, True]), "Input y contains NaN: task 1"),
        ([["a", "b"], [None, None]], "Input y contains NaN: task 1"),
        ([[0, 1], [NAN, NAN]], "Input y contains NaN: task 1"),
        (["a", "z"], r"y: 'z' in task 1 is none of the items shown \(1 such answers\)"),
        (["a", "a"], "'a' in task 1 is none of the items shown"),
        (["u", "d"], "'u' in task 0 is none of the items shown .* this is the user of the task"),
        ([b"a", b"d"], "b'a' in task 0 .* answers are bytes, and ids in X are strings such as"),
        ([0, 1.5], "numeric item ids must be integers, got 1.5 in task 1 of y"),
        ([0, -1], "y: -1 in task 1 is no position of an item shown, from 0 to 2"),
        ([1, 3], "3 in task 1 is no position .* positions start at 0, not at 1"),
        ([0, 1j], "Complex data not supported"),
        ([["a", "b"], ["d", "d"]], "in task 1 the best item is also the worst"),
        ([["a", "b"], ["d", "a"]], "'a' in task 1 is none of the items shown"),
        ([[1, 2, 3], [0, 1, 2]], "y: 0 in task 1 is no rank: ranks are numbers from 1, the best"),
        ([[1, 0, 0], [0, 1, 0]], r"0 in task 0 is no rank.* Flags .* y.argmax\(axis=1\)"),
        ([[1, 2, 3], [1, -1, 2]], "-1 in task 1 is no rank"),
        ([[1, 2, 3], [1, np.inf, 2]], "inf in task 1 is no rank"),
        ([["a", "b", "c"], ["b", "c", "d"]], "'a' in task 0 is no rank.* lists of items in order"),
        (np.array([[1, 2, 3], [1, 2, 3]], dtype="datetime64[s]"), "in task 0 is no rank"),
        (np.array([[1, 2, 3], [1, 2, 3j]]), "in task 0 is no rank"),
        ([[1, 2, 3], [NAN, NAN, NAN]], "y: task 1 has no rank"),
        ([[1, 1, 1], [2, 2, 2]], "at least 1 task must show two items or more and put one of them before another"),
    ],
)
def test_answers_that_are_none(y, message):
    with pytest.raises(DataError, match=message):
        stages(ROWS, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 2], "1 in task 0 is no position of an item shown"),
        ([[1, 2, 3], [NAN, 1, 2]], "task 0 has a rank at a position where X shows no item"),
    ],
)
def test_answers_at_positions_without_an_item(y, message):
    with pytest.raises(DataError, match=message):
        stages(GAPS, y)


def test_ids_of_another_kind():
    with pytest.raises(DataError, match=r"'3' in task 0 .* answers are strings, and ids in X are integers such as"):
        stages([[9, 1, 2, 3]], ["3"])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1], "sample_weight must be numbers, one per row"),
        ([-1, 1], "Negative values .* -1 in row 0"),
        ([NAN, 1], "sample_weight contains NaN"),
        ([0, 0], "at least 1 task must have a weight above 0"),
    ],
)
def test_weights_that_are_none(weight, message):
    with pytest.raises(DataError, match=message):
        stages(ROWS, ["a", "d"], weight)
