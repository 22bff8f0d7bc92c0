"""Vocabularies: ids to rows and back, packed and pickled."""

import pickle
import time

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from skpref.data import Vocabulary, as_ids
from skpref.data import ids as vocabularies
from skpref.data.ids import in_other_kinds, kinds_of, pack_ids, shorten, unpack_ids
from skpref.exceptions import DataError, UnknownIdError
from tests.policies import set_policy

INT64_MAX, UINT64_MAX = 2**63 - 1, 2**64 - 1

plain_ids = st.one_of(
    st.integers(-(2**70), 2**70),
    st.text(max_size=6),
    st.binary(max_size=4),
    st.tuples(st.integers(), st.text(max_size=2)),
)


# -------------------------------------------------------------------------------------------------------- vocabulary


@given(st.lists(plain_ids, min_size=1, max_size=30), st.lists(plain_ids, max_size=30), st.randoms())
@example([0, 2**63, -1], [2**64, 2**63], None)
@example([2**63, 2**64 - 1], [-1, 2**63], None)
def test_encode_finds_every_id_and_marks_every_other(known, other, random):
    known = list(dict.fromkeys(known))
    words = Vocabulary(known)
    assume(not any(same in known for value in other if value not in known for same in in_other_kinds(value)))
    asked = known + other
    if random is not None:
        random.shuffle(asked)
    rows = words.encode(asked, unknown="mark")
    table = {value: row for row, value in enumerate(known)}
    assert rows.tolist() == [table.get(value, -1) for value in asked]


@given(
    st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=20, unique=True),
    st.lists(st.integers(-(2**63), 2**64 - 1), max_size=20),
    st.integers(0, 2**62),
)
def test_integers_of_every_span(known, other, shift):
    # Close together and far apart, signed beside unsigned: three indices, one answer.
    for ids in (known, [value % 1000 + shift for value in range(len(known))]):
        words = Vocabulary(ids)
        asked = [*ids, *other]
        table = {value: row for row, value in enumerate(ids)}
        assert words.encode(asked, unknown="mark").tolist() == [table.get(value, -1) for value in asked]


@given(st.lists(plain_ids, min_size=1), st.lists(plain_ids, min_size=1))
def test_from_columns_holds_each_id_once(left, right):
    kinds = [set(map(type, column)) for column in (left, right)]
    if not kinds[0] & kinds[1]:
        with pytest.raises(DataError, match="ids of the same items must be of one kind"):
            Vocabulary.from_columns(left, right)
        return
    words = Vocabulary.from_columns(left, right)
    assert sorted(map(repr, words.ids.tolist())) == sorted(map(repr, dict.fromkeys([*left, *right])))
    for column in (left, right):
        assert words.ids[words.encode(column)].tolist() == column


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ((["b", "c"], ["a", "b"]), ["a", "b", "c"]),
        (([3, 1], [2, 1]), [1, 2, 3]),
        (([3 * 10**12, 1], [-(10**17), 1]), [-(10**17), 1, 3 * 10**12]),
        (([2**63, 1], [-5, 1]), [-5, 1, 2**63]),
        ((np.array([2**63], dtype=np.uint64), [2**63 + 1]), [2**63, 2**63 + 1]),
        ((["b", 1], ["a", "b"]), ["b", 1, "a"]),  # no common order: by first appearance
    ],
)
def test_from_columns_sorts_where_it_can(columns, expected):
    assert Vocabulary.from_columns(*columns).ids.tolist() == expected


def test_row_23_unknown_id():
    words = Vocabulary(["a", "b", "c", "d"])
    with pytest.raises(
        UnknownIdError, match=r"unknown item 'x9' in comparison 3; in X, known ids are 'a', 'b', 'c', \.\.\."
    ):
        words.encode(["a", "b", "a", "x9"])
    with pytest.raises(UnknownIdError, match=r"unknown item 'x9' in row 0 \(and 1 more\); in items"):
        words.encode(["x9", "x8"], "items", noun="row")
    with pytest.raises(UnknownIdError, match="unknown item 7 in comparison 0"):
        words.encode([7])
    with pytest.raises(UnknownIdError, match="unknown item 'a' in comparison 0"):
        Vocabulary([1, 2]).encode(["a"])


def test_row_37_very_long_ids():
    long = "x" * 10**7
    words = Vocabulary([long, "b"])
    assert words.encode(["b", long]).tolist() == [1, 0]
    with pytest.raises(UnknownIdError) as caught:
        words.encode(["y" * 10**7])
    assert "unknown item '" + "y" * 80 + "'... in comparison 0" in str(caught.value)
    assert len(str(caught.value)) < 500
    assert len(repr(words)) < 200


def test_row_37_integers_that_python_cannot_write():
    with pytest.raises(DataError, match="an id is an integer of 16610 bits, which Python cannot write"):
        as_ids([10**5000, 1])
    with pytest.raises(DataError, match="an id is an integer of 16610 bits"):
        as_ids(np.array([-(10**5000), 1], dtype=object))
    assert shorten(10**5000) == "an integer of 16610 bits"


def test_rows_21_and_22_positions():
    rows = Vocabulary.range(30)
    assert rows.encode([29, 0.0]).tolist() == [29, 0]
    with pytest.raises(UnknownIdError, match=r"comparison 1 \(and 2 more\) refers to item 42, but there are 30 items"):
        Vocabulary.range(30).encode([0, 42, 43, 44])
    with pytest.raises(UnknownIdError, match="comparison 17 refers to item 42, but there are 30 items"):
        rows.encode([0] * 17 + [42])
    with pytest.raises(UnknownIdError, match="negative item index -1 in comparison 3"):
        rows.encode([0, 1, 2, -1])
    with pytest.raises(UnknownIdError, match="unknown item 'a' in comparison 1"):
        rows.encode([0, "a"])


@pytest.mark.parametrize("huge", [INT64_MAX, 2**63, UINT64_MAX, 2**100])
def test_row_36_huge_positions_and_ids(huge):
    with pytest.raises(UnknownIdError, match=f"comparison 1 refers to item {huge}, but there are 3 items"):
        Vocabulary.range(3).encode([0, huge])
    assert Vocabulary([0, huge, "a"]).encode([huge, 0]).tolist() == [1, 0]
    assert Vocabulary([0, huge]).encode([huge, 0]).tolist() == [1, 0]
    assert Vocabulary.from_columns([huge, -huge], [0, huge]).ids.tolist() == [-huge, 0, huge]


@pytest.mark.parametrize("ids", [["a", "b", "a"], [1, 2, 1], [1, "a", 1.0], [True, "x", 1]])
def test_duplicate_ids(ids):
    with pytest.raises(DataError, match=r"duplicate item id .* in ids: rows 0 and 2"):
        Vocabulary(ids)


def test_empty_vocabulary_knows_nothing():
    words = Vocabulary([])
    assert words.size == 0
    assert words.encode([1, "a"], unknown="mark").tolist() == [-1, -1]
    assert words.encode([]).tolist() == []


def test_vocabulary_is_frozen():
    words = Vocabulary([1, 2])
    with pytest.raises(AttributeError, match="frozen"):
        words.ids = [3]
    with pytest.raises(AttributeError, match="frozen"):
        del words.size
    with pytest.raises(ValueError, match="read-only"):
        words.ids[0] = 5
    assert repr(words) == "Vocabulary(2 ids: 1, 2)"


@pytest.mark.parametrize("ids", [[3, 1], ["a", "\udc80é\0"], [1, "1", b"1", 2**80], [(1, 2), "a"], [2**63, 1]])
def test_pickle(ids):
    words = Vocabulary(ids)
    again = pickle.loads(pickle.dumps(words))
    assert again.ids.tolist() == ids
    assert again.ids.dtype == words.ids.dtype
    assert not again.ids.flags.writeable
    assert again.encode(ids[::-1]).tolist() == [1, 0] if len(ids) == 2 else True
    assert not again.positional
    assert pickle.loads(pickle.dumps(Vocabulary.range(3))).positional


def test_state_holds_no_python_objects():
    for ids in (["a", "b"], [1, 2], [1, "a", b"c"]):
        for value in Vocabulary(ids).__getstate__().values():
            assert isinstance(value, bool) or value.dtype != object


@given(st.lists(st.one_of(st.integers(-(2**70), 2**70), st.text(max_size=8), st.binary(max_size=8)), unique=True))
def test_pack_ids_round_trip(values):
    ids = as_ids(values)
    again = unpack_ids(pack_ids(ids))
    assert again.tolist() == ids.tolist()
    assert pack_ids(ids).dtype == np.uint8


def test_ids_of_other_kinds_are_not_packed():
    assert pack_ids(as_ids([(1, 2), "a"])) is None
    assert Vocabulary([(1, 2), "a"]).__getstate__()["ids"].tolist() == [(1, 2), "a"]


@pytest.mark.parametrize(
    "damage",
    [b'["a", "b"', b'{"a": 1}', b"7", b"[1.5]", b"[null]", b"[true]", b'[["fg"]]', b"[[1]]", b"\xff", b"[" * 10**6],
)
def test_unpack_ids_checks_what_it_reads(damage):
    with pytest.raises(DataError, match="damaged ids"):
        unpack_ids(np.frombuffer(damage, dtype=np.uint8))


@pytest.mark.parametrize("factor", [1, 10**12])
def test_a_million_integer_ids_take_a_fraction_of_a_second(factor):
    rng = np.random.default_rng(0)
    words = Vocabulary(rng.permutation(100_000) * factor)
    column = words.ids[rng.integers(0, 100_000, 1_000_000)]
    words.encode(column[:1])  # makes the index
    start = time.process_time()
    np.argsort(column)
    sort = time.process_time() - start
    start = time.process_time()
    rows = words.encode(column)
    # 0.01 and 0.13 s measured, 0.3 and 3 sorts: a sort in the same run makes the bound independent of the machine.
    assert time.process_time() - start < 10 * sort
    np.testing.assert_array_equal(words.ids[rows], column)


def test_ids_far_apart_are_looked_up_in_blocks(monkeypatch):
    set_policy(monkeypatch, "data", rows_at_once=3)
    for ids in ([10**15, 5, -(10**15)], ["b", "a", "c"]):
        asked = [ids[k % 3] for k in range(8)]
        assert Vocabulary(ids).encode(asked).tolist() == [0, 1, 2, 0, 1, 2, 0, 1]


def test_kinds_of_ids_have_the_first_as_their_example():
    assert kinds_of(as_ids([3, 1, 2])) == {"integers": 3}
    assert kinds_of(as_ids(["b", "a"])) == {"strings": "b"}
    assert kinds_of(as_ids([("a", 1), "b", ("c", 2), "a"])) == {"tuples": ("a", 1), "strings": "b"}
    assert kinds_of(as_ids(np.zeros(0, dtype=int))) == {}


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([2**63 - 1, -(2**63)], np.int64),
        ([2**63, 1], object),
        ([2**64 - 1, 0], object),
        ([2**64, 0], object),
        ([2**63, -1], object),
        ([-(2**63) - 1, 0], object),
    ],
)
def test_integers_take_the_type_that_holds_them(values, dtype):
    ids = as_ids(values)
    assert ids.tolist() == values
    assert ids.dtype == dtype


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int16])
@pytest.mark.parametrize("is_dense", [True, False])
def test_integers_are_looked_up_whatever_their_type_and_size(is_dense, dtype, monkeypatch):
    set_policy(monkeypatch, "data", small_span=20 if is_dense else 0)
    words = Vocabulary(np.array([7, 3, 1200, 5] if not is_dense else [7, 3, 12, 5], dtype=dtype))
    last = int(words.ids[2])
    for other in (np.int64, np.uint64, np.int16, np.uint16):
        limits = np.iinfo(other)
        wanted = np.array([3, 4, last, 13, 2, 7, 5, limits.max, limits.min], dtype=other)
        assert words.encode(wanted, unknown="mark").tolist() == [1, -1, 2, -1, -1, 0, 3, -1, -1]
        assert words.encode(wanted[[5, 0]]).tolist() == [0, 1]
    assert words.encode(np.array([], dtype=np.int64)).tolist() == []


def test_columns_of_the_same_items_are_of_one_kind():
    columns = [as_ids(part) for part in (["tea", "water"], [3, 4], ["tea", 5])]
    vocabularies._refuse_columns_of_other_kinds([columns[0], columns[0][:1], columns[2]], "X")
    with pytest.raises(DataError) as caught:
        vocabularies._refuse_columns_of_other_kinds([columns[0], columns[2], columns[1]], "X")
    assert str(caught.value) == (
        "ids of the same items must be of one kind: in X, one column holds strings such as 'tea', another integers "
        "such as 3; convert one of them, for example with astype(str) or astype(int)"
    )


def test_a_column_of_pandas_in_several_chunks():
    pd = pytest.importorskip("pandas")
    column = pd.concat([pd.Series(["b", "a"]), pd.Series(["b", "c"])])
    assert as_ids(column).tolist() == ["b", "a", "b", "c"]
    assert Vocabulary.from_columns(column).encode(column).tolist() == [1, 0, 1, 2]
