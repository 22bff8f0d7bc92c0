"""Names of columns that say other ids than those that the columns are read as."""

import re

import pytest

from skpref.data.columns import read_ids
from skpref.exceptions import DataError

pd = pytest.importorskip("pandas")


def read_pairs(X, name="X"):
    return read_ids(X, ("left", "right"), name)


def read_triples(X, name="X"):
    return read_ids(X, ("user", "left", "right"), name)


def read_rated(X):
    return read_ids(X, ("user", "item"), noun="rating")


@pytest.mark.parametrize(
    ("read", "names", "column", "role", "order"),
    [
        (read_pairs, ["right", "left"], "right", "left", "left, right"),
        (read_pairs, ["Loser", "Winner"], "Loser", "left", "left, right"),
        (read_pairs, ["a", "left"], "left", "right", "left, right"),
        (read_triples, ["left", "right", "user"], "left", "user", "user, left, right"),
        (read_triples, ["winner", "loser", "user"], "winner", "user", "user, left, right"),
        (read_triples, ["user", "right", "left"], "right", "left", "user, left, right"),
        (read_rated, ["item", "user"], "item", "user", "user, item"),
        (read_rated, ["film", "user"], "user", "item", "user, item"),
    ],
)
def test_names_that_say_another_order_are_refused(read, names, column, role, order):
    wanted = (
        f"column '{column}' of X would be read as the {role} ids: the order of columns is {order}, whatever their "
        f"names. Put them in this order, or rename column '{column}'"
    )
    frame = pd.DataFrame([range(len(names))], columns=names)
    with pytest.raises(DataError, match=re.escape(wanted)):
        read(frame)
    assert [int(ids[0]) for ids in read(frame.to_numpy())] == list(range(len(names)))


@pytest.mark.parametrize(
    ("read", "names"),
    [
        (read_pairs, ["left", "right"]),
        (read_pairs, ["winner", "loser"]),
        (read_pairs, ["user", "item"]),  # no roles of pairs
        (read_pairs, ["a", "b"]),
        (read_triples, ["user", "Left", "Right"]),
        (read_triples, ["judge", "winner", "loser"]),
        (read_rated, ["user", "item"]),
        (read_rated, ["left", "right"]),
        (read_rated, [0, 1]),
    ],
)
def test_names_that_say_the_order_or_nothing_are_read(read, names):
    frame = pd.DataFrame([range(len(names))], columns=names)
    assert [int(ids[0]) for ids in read(frame)] == list(range(len(names)))
