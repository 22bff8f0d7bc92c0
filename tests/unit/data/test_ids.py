"""Ids of any kind to rows: bad inputs, rows 9, 22, 23, 28, 30, 35-37."""

from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skpref.data import Vocabulary, as_ids
from skpref.data.columns import read_ids
from skpref.data.ids import encoding_of, objects, shorten, single_id
from skpref.exceptions import DataError, UnknownIdError
from tests.policies import set_policy

INT64_MAX, UINT64_MAX = 2**63 - 1, 2**64 - 1

plain_ids = st.one_of(
    st.integers(-(2**70), 2**70),
    st.text(max_size=6),
    st.binary(max_size=4),
    st.tuples(st.integers(), st.text(max_size=2)),
)


# ------------------------------------------------------------------------------------------------------- one column


@pytest.mark.parametrize(
    ("column", "dtype", "expected"),
    [
        ([3, 1], np.int64, [3, 1]),
        ([3.0, -1.0], np.int64, [3, -1]),
        ([np.int8(3), np.float32(1.0)], np.int64, [3, 1]),
        ([True, False], np.int64, [1, 0]),
        (np.array([3, 1], dtype=np.uint8), np.int64, [3, 1]),
        (np.array([True, False]), np.int64, [1, 0]),
        (np.array([2.0, 5.0], dtype=np.float32), np.int64, [2, 5]),
        (np.array([INT64_MAX, -(2**63)]), np.int64, [INT64_MAX, -(2**63)]),
        ([INT64_MAX + 1, 0], object, [INT64_MAX + 1, 0]),
        (np.array([UINT64_MAX, 1], dtype=np.uint64), object, [UINT64_MAX, 1]),
        ([UINT64_MAX + 1, -1], object, [UINT64_MAX + 1, -1]),
        ([2.0**63, 0.0], object, [2**63, 0]),
        (np.array([2.0**63, 0.0]), object, [2**63, 0]),
        (np.array([1e30]), object, [int(1e30)]),
        (["b", "a"], object, ["b", "a"]),
        (np.array(["b", "a"]), object, ["b", "a"]),
        (np.array([b"b", b"a"]), object, [b"b", b"a"]),
        (["a", 1, b"c", 2.0], object, ["a", 1, b"c", 2]),
        ([(1, 2), (3, 4)], object, [(1, 2), (3, 4)]),
        (np.array(["a", 1.0], dtype=object), object, ["a", 1]),
        ([], object, []),
    ],
)
def test_as_ids_keeps_one_of_two_forms(column, dtype, expected):
    ids = as_ids(column)
    assert ids.dtype == dtype
    assert ids.tolist() == expected
    assert [type(value) for value in ids.tolist()] == [type(value) for value in expected]


def test_dates_are_ids():
    days = np.array(["2026-01-01", "2026-01-02"], dtype="M8[D]")
    assert Vocabulary(days).encode(days[::-1]).tolist() == [1, 0]
    with pytest.raises(DataError, match="missing item id in comparison 1"):
        as_ids(np.array(["2026-01-01", "NaT"], dtype="M8[D]"))


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, np.float32("nan"), np.datetime64("NaT", "s")])
@pytest.mark.parametrize("others", [["a", "b"], [1, 2], ["a", 1]])
def test_row_37_missing_id(missing, others):
    with pytest.raises(DataError, match="missing item id in comparison 1 of X"):
        as_ids([others[0], missing, others[1]])
    with pytest.raises(DataError, match="missing item id in row 2 of ids"):
        as_ids(np.array([*others, missing], dtype=object), "ids", "row")


@pytest.mark.parametrize(
    "column",
    [
        np.ma.masked_array([3, 1, 2], mask=[0, 1, 0]),
        np.ma.masked_array([3.0, 1.0, 2.0], mask=[0, 1, 0]),
        np.ma.masked_array(["a", "b", "c"], mask=[0, 1, 1]),
        [3, np.ma.masked, 2],
        [3, Decimal("nan"), 2],
        np.array(["2026-01-01", "NaT", "2026-01-03"], dtype="M8[s]"),
        np.array([1, "NaT", 2], dtype="m8[s]"),
    ],
    ids=lambda column: str(getattr(column, "dtype", type(column[1]).__name__)),
)
def test_row_64_missing_ids_are_no_numbers(column):
    with pytest.raises(DataError, match="missing item id in comparison 1 of X"):
        as_ids(column)


def test_row_64_missing_ids_of_pandas():
    pd = pytest.importorskip("pandas")
    for column in (
        pd.Series([1, None], dtype="Int64"),
        pd.Series([1, None], dtype="category"),
        pd.Categorical(["a", None]),
        pd.Series(pd.to_datetime(["2026-01-01", None])),
        pd.Series(pd.to_datetime(["2026-01-01", None], utc=True)),
        [pd.Timestamp("2026"), pd.NaT],
        [1, pd.NA],
    ):
        with pytest.raises(DataError, match="missing item id in comparison 1 of X"):
            as_ids(column)


def test_row_64_the_message_names_column_and_row():
    pd = pytest.importorskip("pandas")
    pairs = np.ma.masked_array([[1, 2], [2, 3]], mask=[[0, 0], [0, 1]])
    with pytest.raises(DataError, match=r"missing item id in comparison 1 of X\[:, 1\]"):
        read_pairs(pairs)
    with pytest.raises(DataError, match=r"missing item id in comparison 1 of X\['loser'\]"):
        read_pairs(pd.DataFrame({"winner": [1, 2], "loser": [2, None]}))
    assert [column.tolist() for column in read_pairs(np.ma.masked_array([[1, 2]]))] == [[1], [2]]


@pytest.mark.parametrize(
    ("known", "asked", "text"),
    [
        ([1, 2], ["7", "1"], r"unknown user '1' in row 1: user ids of X are strings, .* such as 1, are integers"),
        ([1, 2], ["1.0"], "'1.0'.* such as 1, are integers; convert"),
        ([1, 2], [b"2"], "user ids of X are bytes, .* such as 2, are integers"),
        (["1", "2"], [2], "unknown user 2 in row 0: user ids of X are integers, .* such as '2', are strings"),
        (["1.0", "2.0"], [2], "such as '2.0', are strings"),
        (["a"], [b"a"], "are bytes, .* such as 'a', are strings"),
        ([b"a", 3], ["a"], "are strings, .* such as b'a', are bytes"),
    ],
)
def test_row_64_ids_of_another_kind(known, asked, text):
    for unknown in ("raise", "mark"):
        with pytest.raises(UnknownIdError, match=text):
            Vocabulary(known).encode(asked, noun="row", kind="user", unknown=unknown)


def test_row_64_unseen_ids_may_be_of_any_kind():
    assert Vocabulary([1, 2]).encode(["ann", "7", (1,), 2.0], unknown="mark").tolist() == [-1, -1, -1, 1]
    assert Vocabulary(["a", 1]).encode([1.0, "b", b"c"], unknown="mark").tolist() == [1, -1, -1]
    assert Vocabulary([2**70]).encode(["9" * 5000], unknown="mark").tolist() == [-1]


def test_one_id():
    assert single_id(3.0, "user").tolist() == [3]
    with pytest.raises(DataError, match=r"user must be the id of one user, got list \[0\]: call the method once"):
        single_id([0], "user")


def test_row_37_missing_float_id():
    with pytest.raises(DataError, match="missing item id in comparison 1"):
        as_ids(np.array([1.0, np.nan]))


@pytest.mark.parametrize(
    "column", [[1, 1.5], np.array([1.0, 1.5]), ["a", 1.5], [1.0, np.inf], np.array([1.0, -np.inf])]
)
def test_row_35_fractional_ids(column):
    with pytest.raises(DataError, match=r"must be integers, got (1\.5|-?inf) in comparison 1"):
        as_ids(column)


def test_as_ids_refuses_what_cannot_be_an_id():
    with pytest.raises(DataError, match=r"must be hashable, got \[1\] in comparison 0"):
        as_ids([[1], [2]])
    view = memoryview(bytearray(b"x"))  # its hash raises ValueError, not TypeError
    with pytest.raises(DataError, match=r"must be hashable, got <memory"):
        as_ids([view, view])
    with pytest.raises(DataError, match=r"item must be the id of one item, got memoryview"):
        single_id(view, "item")
    with pytest.raises(DataError, match="Complex data not supported"):
        as_ids(np.array([1j]))
    with pytest.raises(DataError, match="one-dimensional columns of ids, got 2"):
        as_ids(np.ones((2, 2)))


def test_input_is_not_modified_and_not_kept():
    column = np.array([5, 3, 5])
    words = Vocabulary(np.unique(column))
    ids = words.ids
    column[:] = 0
    assert ids.tolist() == [3, 5]
    assert not ids.flags.writeable
    given = np.array(["a", "b"], dtype=object)
    words = Vocabulary(given)
    given[0] = "z"
    assert words.encode(["a", "b"]).tolist() == [0, 1]
    assert given.flags.writeable


@given(st.text(min_size=0, max_size=300))
def test_shorten_fits_a_message(text):
    assert len(shorten(text)) <= 80 * 10 + 5  # one character may be written as \U0001f600
    assert shorten(np.str_("x9")) == "'x9'"
    assert shorten(np.int64(3)) == "3"
    assert len(shorten(tuple(range(1000)))) == 83


# ------------------------------------------------------------------------------------------------------- two columns


def read_pairs(X, name="X"):
    return read_ids(X, ("left", "right"), name)


def read_triples(X, name="X"):
    return read_ids(X, ("user", "left", "right"), name)


def test_read_pairs_of_every_container():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"left": ["a", "b", "a"], "right": [7, 8, 9]})
    for X in (
        [("a", 7), ("b", 8), ("a", 9)],
        (("a", 7), ["b", 8], np.array(["a", 9], dtype=object)),
        np.array([["a", 7], ["b", 8], ["a", 9]], dtype=object),
        frame,
        frame.astype({"left": "category", "right": "category"}),
        frame.astype({"left": "string", "right": "Int64"}),
        frame.astype(object),
    ):
        left, right = read_pairs(X)
        assert left.tolist() == ["a", "b", "a"]
        assert right.tolist() == [7, 8, 9]
        assert right.dtype == np.int64


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float32, np.float64, object])
def test_read_pairs_of_every_dtype(order, dtype):
    X = np.array([[0, 1], [1, 2], [2, 0]]).astype(dtype, order=order)
    X.flags.writeable = False
    left, right = read_pairs(X)
    assert (left.dtype, right.dtype) == (np.int64, np.int64)
    assert left.tolist() == [0, 1, 2]
    assert right.tolist() == [1, 2, 0]


def test_read_pairs_of_memmap(tmp_path):
    np.save(tmp_path / "pairs.npy", np.array([[0, 1], [1, 2]]))
    left, right = read_pairs(np.load(tmp_path / "pairs.npy", mmap_mode="r"))
    assert left.tolist() == [0, 1]
    assert right.tolist() == [1, 2]


def test_frame_with_missing_ids_names_the_row():
    pd = pytest.importorskip("pandas")
    for dtype in ("str", "string", "category", object):
        frame = pd.DataFrame({"a": pd.Series(["x", None, "y"], dtype=dtype), "b": ["x", "y", "z"]})
        with pytest.raises(DataError, match="missing item id in comparison 1 of X"):
            read_pairs(frame)
    frame = pd.DataFrame({"a": pd.Series([1, None, 2], dtype="Int64"), "b": [1, 2, 3]})
    with pytest.raises(DataError, match="missing item id in comparison 1 of X"):
        read_pairs(frame)


def test_categories_that_are_fractions_name_their_own_row():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 1.0, 1.5], "b": [1, 2, 3]}).astype({"a": "category"})
    with pytest.raises(DataError, match=r"must be integers, got 1\.5 in comparison 2"):
        read_pairs(frame)


@pytest.mark.parametrize("frame", ["pandas", "polars", "pyarrow"])
def test_categories_that_do_not_occur_are_no_ids(frame):
    pd, pa, pl = (pytest.importorskip(name) for name in ("pandas", "pyarrow", "polars"))
    codes, names = [2, 0, 2], ["a", "b", "c"]
    column = {
        "pandas": lambda: pd.Series(pd.Categorical.from_codes(codes, names)),
        "polars": lambda: pl.Series(["c", "a", "c"], dtype=pl.Enum(names)),
        "pyarrow": lambda: pa.DictionaryArray.from_arrays(codes, names),
    }[frame]()
    assert as_ids(column).tolist() == ["c", "a", "c"]
    assert Vocabulary.from_columns(column).ids.tolist() == ["a", "c"]


def test_categories_of_several_kinds():
    column = pytest.importorskip("pandas").Series(objects(["b", 1, "b"])).astype("category")
    assert as_ids(column).tolist() == ["b", 1, "b"]
    assert Vocabulary.from_columns(column).size == 2


FORMS = *("list", "object", "str", "string[pyarrow]", "category"), *("polars", "polars Enum", "pyarrow", "dictionary")


@pytest.mark.parametrize("form", FORMS)
def test_strings_are_encoded_once(form):
    words = ["b", "a", "b", "c"]
    distinct, codes = encoding_of(ids := as_ids(in_form(words, form)))
    assert (sorted(distinct.tolist()), ids.tolist()) == (["a", "b", "c"], words)
    assert distinct[codes].tolist() == words
    assert as_ids(ids) is ids
    assert encoding_of(ids) is encoding_of(ids)
    assert sorted(encoding_of(ids[2:])[0].tolist()) == ["b", "c"]  # what is cut out is encoded anew
    vocabulary = Vocabulary.from_columns(ids, ["d"])
    assert vocabulary.ids.tolist() == ["a", "b", "c", "d"]
    assert vocabulary.encode(ids).tolist() == [1, 0, 1, 2]
    with pytest.raises(DataError, match="unknown item 'c' in comparison 3"):
        Vocabulary(["a", "b"]).encode(ids)


def in_form(words, form):
    if form == "list":
        return words
    if form.startswith("polars"):
        pl = pytest.importorskip("polars")
        return pl.Series(words, dtype=pl.String if form == "polars" else pl.Enum(sorted(set(words))))
    if form in {"pyarrow", "dictionary"}:
        column = pytest.importorskip("pyarrow").chunked_array([words[:1], words[1:]])
        return column if form == "pyarrow" else column.dictionary_encode()
    return pytest.importorskip("pandas").Series(words).astype(form)


@pytest.mark.parametrize("other", [None, b"a", 1, ("a", 1), "\ud800"])
def test_long_columns_have_the_same_encoding_with_and_without_pyarrow(other, monkeypatch):
    rng = np.random.default_rng(0)
    words = objects(["b", "", "a\0", "a", "\U0001f600", "\uffff", "Z", "\xe9", "e\u0301", "aa"])
    column = rng.choice(words, 100)
    if other is not None:
        column[50] = other
    short = encoding_of(as_ids(column))
    set_policy(monkeypatch, "data", long_column=1)
    long = encoding_of(as_ids(column))
    assert short[0].tolist() == long[0].tolist() == list(dict.fromkeys(column.tolist()))
    assert short[1].tolist() == long[1].tolist()
    assert long[0][long[1]].tolist() == column.tolist()
    vocabulary = Vocabulary.from_columns(column)
    assert vocabulary.ids[vocabulary.encode(column)].tolist() == column.tolist()


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_dates_and_times_are_the_same_ids_in_every_frame(zone):
    pd, pa, pl = (pytest.importorskip(name) for name in ("pandas", "pyarrow", "polars"))
    times = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2)]
    cells = [time.date() for time in times] if zone is None else times
    columns = {"a": cells, "b": cells[::-1]}
    table = pa.table(columns)
    encoded = pa.table({name: table[name].dictionary_encode() for name in "ab"})
    wanted = read_pairs(pd.DataFrame(columns))[0].tolist()
    assert wanted == cells
    arrow = table.to_pandas(types_mapper=pd.ArrowDtype)
    for frame in (table, encoded, table.to_batches()[0], pl.DataFrame(columns), arrow):
        assert read_pairs(frame)[0].tolist() == wanted
    with pytest.raises(DataError, match=r"missing item id in comparison 1 of X\['b'\]"):
        read_pairs(pa.table({"a": cells, "b": [cells[0], None]}))
    for column in (table["a"], encoded["a"]):
        assert encoding_of(as_ids(column))[0].tolist() == wanted


def test_read_pairs_and_triples_of_polars():
    frame = pytest.importorskip("polars").DataFrame({"user": [4, 4], "left": ["a", "b"], "right": [1, 2]})
    assert [column.tolist() for column in read_triples(frame)] == [[4, 4], ["a", "b"], [1, 2]]
    left, right = read_pairs(frame.drop("user"))
    assert (left.tolist(), right.tolist()) == (["a", "b"], [1, 2])


@pytest.mark.parametrize("X", [[np.array(1), np.array(2)], [[1, 2], 3], ["ab", "cd"]])
def test_rows_that_are_no_rows_are_refused(X):
    with pytest.raises(DataError, match="Expected 2D array, got 1D array instead"):
        read_pairs(X)


@pytest.mark.parametrize("X", [np.arange(4), ["ab", "cd"], [1, 2], "ab", 7, {"a": 1}])
def test_row_5_not_two_dimensional(X):
    with pytest.raises(DataError, match=r"Expected 2D array, got (1D array|scalar array|a dict)"):
        read_pairs(X)


# ------------------------------------------------------------------------------------------------------ three columns


@given(st.lists(st.tuples(plain_ids, plain_ids, plain_ids), min_size=1, max_size=20))
def test_read_triples_keeps_every_id(rows):
    assert list(zip(*(column.tolist() for column in read_triples(rows)), strict=True)) == rows


def test_a_table_with_more_columns_is_told_how_to_name_them():
    pandas = pytest.importorskip("pandas")
    battles = pandas.DataFrame({"model_a": ["x"], "model_b": ["y"], "winner": ["x"]})
    with pytest.raises(DataError, match=r"of its columns \(model_a, model_b, winner\), pass .* by left=, right=$"):
        read_pairs(battles)


def test_words_of_numpy_become_plain_strings():
    words = [np.str_("x"), "y"]  # of rows that mix entries of an array with others
    for column in (words, np.array(words, dtype=object)):
        assert {type(value) for value in as_ids(column).tolist()} == {str}
