"""Files of PrefLib as columns of ranks."""

import pytest

from skpref.data import from_rankings
from skpref.data.frames import read_preflib
from skpref.exceptions import DataError
from tests.unit.data.stages import choice_of, choices_of

NAMES = ["# FILE NAME: 1.toi\n", "# ALTERNATIVE NAME 1: tea\r\n", "# ALTERNATIVE NAME 2: milk: cold\n", "\n"]


def test_ties_are_equal_ranks_and_items_without_a_rank_are_none():
    columns, lines = read_preflib([*NAMES, "# ALTERNATIVE NAME 3: cola", "7: 2,{1, 3}\n", "\n", " 12 : 3\r\n"])
    assert columns == {"tea": [2, None], "milk: cold": [1, None], "cola": [2, 1], "count": [7, 12]}
    assert lines == [6, 8]


def test_columns_are_what_from_rankings_reads():
    columns, _ = read_preflib([*NAMES, "3: 2,1\n", "4: {1,2}\n"])
    rows = from_rankings(columns, item_ranks=["tea", "milk: cold"], sample_weight="count")
    assert rows.X.tolist() == [["tea", "milk: cold"]] * 2
    assert rows.y.tolist() == [[2.0, 1.0], [1.0, 1.0]]  # milk won, then a tie, which says nothing
    assert rows.sample_weight.tolist() == [3.0, 4.0]
    assert choices_of(rows) == {choice_of("milk: cold", ["tea"]): 3.0}


@pytest.mark.parametrize("name", ["count", "tea", ""])
def test_a_name_that_is_no_column_is_refused(name):
    with pytest.raises(DataError, match=f"alternative 3: the name '{name}' is empty, or has another meaning"):
        read_preflib([*NAMES, f"# ALTERNATIVE NAME 3: {name}\n", "1: 1\n"])


@pytest.mark.parametrize("order", ["1: 1,,2", "1: 1,2,", "1 1,2", "x: 1", "1.5: 1,2", "1:", "1: {1,{2}}", "1, 2, 0.5"])
def test_what_is_no_order_is_refused(order):
    with pytest.raises(DataError, match="line 5: expected a number of voters and their order"):
        read_preflib([*NAMES, order])
