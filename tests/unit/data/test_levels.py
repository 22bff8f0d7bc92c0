"""Ordered labels: which levels there are, and which is which."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from skpref.data.levels import (
    as_labels,
    encode_levels,
    levels_of_parts,
    numbers_of_levels,
    ordered_levels,
    stated_order,
    with_levels_of,
)
from skpref.data.ratings import rating_levels
from skpref.exceptions import DataError, DataWarning

labels = st.one_of(
    st.lists(st.integers(-(2**62), 2**62), min_size=2, max_size=20),
    st.lists(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=5), min_size=2),
    st.lists(st.integers(-1000, 1000).map(float), min_size=2, max_size=20),
    st.lists(st.booleans(), min_size=2, max_size=20),
).filter(lambda y: len(set(y)) > 1)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.filterwarnings("ignore:y holds strings")
@given(y=labels, seed=st.integers(0, 2**32 - 1))
def test_levels_come_back(y, seed):
    if isinstance(y[0], str) and len(set(y)) > 3:
        with pytest.raises(DataError, match=r"state the order of the levels: class_order=\["):
            ordered_levels(y)
        classes, level = ordered_levels(y, sorted(set(y)))
    else:
        classes, level = ordered_levels(y)
    assert classes.tolist() == sorted(set(y))
    assert classes[level].tolist() == y
    # In any order, and with more levels than there are.
    shuffled = np.random.default_rng(seed).permutation(len(classes))
    again, other = ordered_levels(y, [classes.tolist()[k] for k in shuffled])
    assert again[other].tolist() == y
    assert_array_equal(encode_levels(y, classes), level)
    assert_array_equal(np.argsort(shuffled)[level], other)


@pytest.mark.filterwarnings("error")
def test_levels_of_parts():
    parts = [np.arange(20, 50), np.arange(30), np.empty(0, dtype=np.int64)]
    classes, levels = levels_of_parts(parts, [], None)
    assert classes.tolist() == list(range(50))
    assert [level.tolist() for level in levels] == [part.tolist() for part in parts]
    words = [np.array(part, dtype=object) for part in (["b", "d"], ["a"], ["c", "d"])]
    stated = np.array(["d", "a", "c", "b"], dtype=object)
    for orders in ([stated], [stated[:1], stated, stated[2:]]):
        classes, levels = levels_of_parts(words, orders, None)
        assert classes.tolist() == stated.tolist()
        assert [level.tolist() for level in levels] == [[3, 0], [1], [2, 0]]
    with pytest.raises(DataError, match="order differs between parts of the data: 'd', 'a', 'c', 'b' and 'b', 'd';"):
        levels_of_parts(words, [stated, np.array(["b", "d"], dtype=object)], None)
    with pytest.raises(DataError, match="categories, and no part of the data has all of them: 'b', 'a' and 'a', 'd';"):
        levels_of_parts(words, [np.array(order, dtype=object) for order in (["b", "a"], ["a", "d"])], None)
    with pytest.raises(DataError, match="y holds 'c', which is not among the levels 'a', 'b', 'd'"):
        levels_of_parts(words, [stated], ["a", "b", "d"])
    with pytest.raises(DataError, match="y mixes labels of several types"):
        levels_of_parts([np.arange(2), words[0]], [], None)


def test_levels_that_do_not_occur():
    classes, level = ordered_levels([3, 1, 3], [1, 2, 3, 4])
    assert classes.tolist() == [1, 2, 3, 4]
    assert level.tolist() == [2, 0, 2]
    assert level.dtype == np.int64
    assert encode_levels([], classes).tolist() == []


def test_numbers_are_equal_across_types():
    for dtype in ("int8", "uint64", "float32", "bool", "object"):
        y = np.array([0, 1, 1], dtype=dtype)
        assert encode_levels(y, np.array([0.0, 1.0, 2.0])).tolist() == [0, 1, 1]
    big = [2**62, 2**62 + 1]  # equal as floats
    assert ordered_levels(big)[1].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("y", "text"),
    [
        ([0.5, 1.0, 2.0], "Unknown label type: continuous"),
        ([0.0, np.nan, 1.0], r"Input y contains NaN \(row 1\)"),
        (["low", None, "high"], r"Input y contains NaN \(row 1\)"),
        (["low", "high", np.nan], r"Input y contains NaN \(row 2\)"),
        (np.array(["low", float("nan")], dtype=object), r"Input y contains NaN \(row 1\)"),
        ([1, "low", 2], "Unknown label type"),
        ([[1, 2], [2, 1]], "should be a 1d array"),
        ([1, 1, 1], r"at least 2 classes \(levels\); got 1 class: 1 "),
        (["a"] * 3, "at least 2 classes.*got 1 class: 'a' "),
    ],
    ids=str,
)
def test_what_are_no_levels(y, text):
    with pytest.raises(ValueError, match=text):
        ordered_levels(y)


@pytest.mark.parametrize("order", [[1, 2, 1], [], 3, [[1, 2]], [1, 2, None], [1.0, 2.0, np.nan], "12"], ids=str)
def test_what_is_no_order(order):
    with pytest.raises(DataError, match="class_order must list every level once, low to high"):
        ordered_levels([1, 2, 1], order)


@pytest.mark.parametrize(
    ("y", "order", "text"),
    [
        ([1, 3, 2], [1, 2], r"y holds 3 \(row 1\), which is not among the levels 1, 2\. Name all levels in"),
        (["a", "c"], ["a", "b"], r"y holds 'c' \(row 1\), which is not among the levels 'a', 'b'"),
        ([1, 2], ["1", "2"], r"y holds 1 \(row 0, and 1 more\), which is not among the levels '1', '2'"),
        (["1", "2"], [1, 2], r"y holds '1' \(row 0, and 1 more\), which is not among the levels 1, 2"),
        ([0, 99], range(50), r"levels 0\.\.49\."),
        ([0, 99], range(0, 50, 2), r"levels 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, \.\.\."),
        (["a", "z" * 10_000], ["a", "b"], r"y holds 'z{79} \(row 1\)"),
    ],
    ids=str,
)
def test_labels_beside_the_levels_are_named(y, order, text):
    with pytest.raises(DataError, match=text) as caught:
        ordered_levels(y, order)
    assert len(str(caught.value)) < 400


def test_names_need_an_order():
    with pytest.raises(DataError, match=r"\('b', 'f', 'g', 'x{79}.*state the order of the levels") as caught:
        ordered_levels(["g", "x" * 10_000, "b", "f"])
    assert len(str(caught.value)) < 400


def test_levels_that_training_rows_lack_are_added_where_their_order_is_natural():
    assert with_levels_of(np.array([1, 4]), [2, 4]).tolist() == [1, 2, 4]
    assert with_levels_of(np.array(["a", "c"]), ["b"]).tolist() == ["a", "b", "c"]
    for declared, y in ((["low", "high"], ["middle"]), ([2, 1], [3]), ([1, 2], ["1"]), ([1, 2, 3], [2])):
        assert with_levels_of(np.array(declared), y).tolist() == declared


def test_strings_and_numbers_in_one_order():
    classes = np.array([0, "none", 1], dtype=object)
    assert encode_levels(np.array(["none", 1, 0], dtype=object), classes).tolist() == [1, 2, 0]
    with pytest.raises(DataError, match=r"y holds 'all' \(row 1\)"):
        encode_levels(np.array([0, "all"], dtype=object), classes)


def test_lists_of_strings_and_others_stay_what_they_are():
    assert as_labels(["a", float("nan")]).tolist()[0] == "a"
    assert as_labels(["a", 1]).tolist() == ["a", 1]
    assert as_labels(("a", "b")).dtype.kind == "U"
    given_ = np.array([1.0, 2.0])
    assert as_labels(given_) is given_


def test_categories_of_pandas():
    pd = pytest.importorskip("pandas")
    grades = pd.Categorical(["low", "high", "low"], categories=["low", "middle", "high"], ordered=True)
    for y in (grades, pd.Series(grades), pd.CategoricalIndex(grades)):
        classes, level = ordered_levels(y)
        assert classes.tolist() == ["low", "middle", "high"]
        assert level.tolist() == [0, 2, 0]
    # class_order speaks louder.
    assert ordered_levels(grades, ["high", "low"])[1].tolist() == [1, 0, 1]
    unordered = pd.Series(["low", "high"], dtype=pd.CategoricalDtype(["high", "low", "middle"]))
    with pytest.raises(DataError, match=r"unordered Categorical.*'high', 'low'\); state the order"):
        ordered_levels(unordered)
    assert ordered_levels(unordered, ["low", "high"])[1].tolist() == [0, 1]
    missing = pd.Categorical(["low", None, "high"], categories=["low", "high"], ordered=True)
    with pytest.raises(DataError, match=r"Input y contains NaN \(row 1\)"):
        ordered_levels(missing)
    assert ordered_levels(pd.Series([3, 1, 3], dtype="Int64"))[1].tolist() == [1, 0, 1]
    assert ordered_levels(pd.Series(["low", "high"], dtype="string"), ["low", "high"])[1].tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "array of pyarrow"])
def test_ordered_categories_of_polars_and_pyarrow(kind):
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    codes, names = pa.array([0, 2, 0]), ["low", "middle", "high"]

    def column(*, ordered):
        if kind == "polars":
            return pl.Series(["low", "high", "low"], dtype=pl.Enum(names) if ordered else pl.Categorical)
        array = pa.DictionaryArray.from_arrays(codes, names, ordered=ordered)
        return array if kind == "array of pyarrow" else pa.chunked_array([array, array[:0]])

    classes, level = ordered_levels(column(ordered=True))
    assert (classes.tolist(), level.tolist()) == (names, [0, 2, 0])
    ids = np.arange(3)
    classes, level = rating_levels(column(ordered=True), None, ids, ids)
    assert (classes.tolist(), level.tolist()) == (names, [0, 2, 0])
    with pytest.raises(DataError, match=r"unordered Categorical.*; state the order"):
        ordered_levels(column(ordered=False))
    assert ordered_levels(column(ordered=False), ["low", "high"])[1].tolist() == [0, 1, 0]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_the_order_of_a_column_of_a_frame_is_kept(library):
    pd = pytest.importorskip("pandas")
    y = pd.DataFrame({"y": pd.Categorical(["low", "high"], ["low", "high"], ordered=True)})
    frame = {
        "pandas": lambda: y,
        "polars": lambda: pytest.importorskip("polars").DataFrame({"y": ["low", "high"]}, schema={"y": enum()}),
        "pyarrow": lambda: pytest.importorskip("pyarrow").Table.from_pandas(y),
    }[library]()
    order, categorical = stated_order(frame)
    assert order is not None
    assert order.tolist() == ["low", "high"]
    assert categorical
    assert stated_order(np.array(["low", "high"])) == (None, False)


def enum():
    return pytest.importorskip("polars").Enum(["low", "high"])


def test_three_names_are_taken_in_alphabetical_order_and_four_are_not():
    with pytest.warns(DataWarning, match="alphabetical order is used, low to high: 'a', 'b', 'c'"):
        assert ordered_levels(["b", "a", "c"])[1].tolist() == [1, 0, 2]
    with pytest.raises(DataError, match=r"whose order is unknown \('a', 'b', 'c', 'd'\)"):
        ordered_levels(["b", "a", "c", "d"])
    with pytest.raises(DataError, match=r"\('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'\)"):
        ordered_levels(list("abcdefgh"))
    with pytest.raises(DataError, match=r"'h', \.\.\.\)"):
        ordered_levels(list("abcdefghi"))


def test_collections_of_dask_are_refused_as_labels_and_as_their_order():
    collection = type("Series", (list,), {"__module__": "dask.dataframe"})(["low", "high"])
    for read in (
        as_labels,
        lambda y: encode_levels(y, np.array(["low", "high"])),
        lambda y: ordered_levels(["low"], y),
    ):
        with pytest.raises(TypeError, match=r"^y is a collection of Dask \(Series\), but data in memory are required"):
            read(collection)


def test_numbers_with_fractions_are_levels_while_they_are_few():
    half = np.repeat(np.arange(100) + 0.5, 2)
    assert ordered_levels(half)[0].size == 100
    assert ordered_levels(np.repeat(np.arange(120.0), 2))[0].size == 120
    with pytest.raises(DataError, match=r"101 numbers with fractions, and at most 100 .* Round them"):
        ordered_levels(np.append(half, 0.0))


def test_few_rows_with_fractions_are_levels_where_they_recur_or_an_order_says_so():
    assert ordered_levels([0.5, 1.0, 0.5, 1.0])[1].tolist() == [0, 1, 0, 1]
    assert ordered_levels([0.5, 1.0, 2.0], [0.5, 1.0, 1.5, 2.0])[1].tolist() == [0, 1, 3]
    pd = pytest.importorskip("pandas")
    stated = pd.Series(pd.Categorical([0.5, 2.0, 1.0], [0.5, 1.0, 2.0], ordered=True))
    assert ordered_levels(stated)[1].tolist() == [0, 2, 1]
    with pytest.raises(ValueError, match=r"3 numbers with fractions, and at most 2 .*class_order"):
        ordered_levels([0.5, 1.0, 0.5, 2.0, 1.0])


@pytest.mark.parametrize(("y", "levels"), [([2, 1], ["1", "2"]), (["2", "1"], [1, 2])])
def test_levels_of_another_type_are_said_to_be(y, levels):
    with pytest.raises(DataError, match=r"not among the levels .* They are of another type: convert one of them"):
        encode_levels(y, np.array(levels, dtype=object))


@pytest.mark.parametrize(
    ("levels", "numbers"),
    [([0.5, 2], [0.5, 2.0]), ([False, True], [0.0, 1.0]), ([2, 1], None), (["1", "2"], None), ([1, "2"], None)],
)
def test_numbers_of_levels(levels, numbers):
    found = numbers_of_levels(levels)
    assert (None if found is None else found.tolist()) == numbers


@pytest.mark.parametrize("order", [["low", "mid", "top"], ["mid", "top", "low"], np.array(["low", "mid", "top"])])
def test_names_that_cross_validation_has_numbered_are_read_by_the_order_of_names(order):
    y = ["mid", "low", "top", "low"]
    numbered = np.unique(y, return_inverse=True)[1]
    assert {0, 2} <= set(numbered.tolist())  # both ends of the numbers
    expected = ordered_levels(y, order)
    for values in (numbered, numbered.astype(np.uint8), numbered[numbered > 0]):
        assert_array_equal(ordered_levels(values, order)[1], expected[1][np.isin(numbered, values)])
    for beside in ([-1, 0, 1], [0, 1, 3], [0.0, 1.0, 2.0]):
        with pytest.raises(DataError):
            ordered_levels(beside, order)
    with pytest.raises(DataError):  # numbers are levels themselves
        ordered_levels([0, 1], [1, 2, 3])
