"""Roster: who is known, who was seen, who joins later, and what a caller may name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from skpref import Table
from skpref.data import Vocabulary
from skpref.exceptions import DataError, UnknownIdError
from skpref.gp.entities import Roster, holds_features, read_table

FEATURES = np.arange(8.0).reshape(4, 2)
TABLE = Table(FEATURES, ids=list("abcd"), feature_names=["x", "y"])


def test_of_a_table_and_of_columns() -> None:
    roster = Roster.of(TABLE, "items", ["zzz"])
    assert roster.vocabulary.ids.tolist() == list("abcd")
    assert roster.n_features == 2
    assert roster.names == ("x", "y")
    roster = Roster.of(None, "items", ["b", "a"], ["c", "a"])
    assert roster.vocabulary.ids.tolist() == ["a", "b", "c"]
    assert (roster.features, roster.names, roster.n_features, roster.seen_features) == (None, None, 0, None)
    assert Roster.of(FEATURES, "users").vocabulary.positional
    with pytest.raises(DataError, match=r"^users: Expected 2D array, got 1D array"):
        Roster.of(FEATURES[0], "users")


@given(
    batches=st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=5),
)
def test_those_seen_keep_their_places(batches: list[list[int]]) -> None:
    roster = Roster.of(None, "items", np.arange(10))
    for batch in batches:
        before = roster.seen.tolist()
        roster = roster.with_seen(np.array(batch, dtype=np.int64))
        assert roster.seen[: len(before)].tolist() == before
        assert set(roster.seen.tolist()) == set(before) | set(batch)
        position = roster.position
        assert position.shape == (11,)
        assert position[-1] == -1  # of an unknown id
        np.testing.assert_array_equal(position[roster.seen], np.arange(roster.seen.size))
        assert np.count_nonzero(position >= 0) == roster.seen.size
        np.testing.assert_array_equal(roster.seen_ids, roster.seen)


def test_new_ids_join_behind_the_old_ones() -> None:
    roster = Roster.of(None, "items", ["b", "d"]).with_seen(np.array([1]))
    grown = roster.extended(None, "items", ["c", "b"], ["a", "a"])
    assert grown.vocabulary.ids.tolist() == ["b", "d", "a", "c"]
    assert grown.seen_ids.tolist() == ["d"]
    assert roster.vocabulary.ids.tolist() == ["b", "d"]
    assert roster.extended(None, "items", ["b"]) is roster
    assert roster.extended(None, "items", [7, ("t",)]).vocabulary.ids.tolist() == ["b", "d", 7, ("t",)]
    numbers = Roster.of(None, "users", [3, 1]).extended(None, "users", [2**63 + 1])
    assert numbers.vocabulary.ids.tolist() == [1, 3, 2**63 + 1]
    assert numbers.vocabulary.encode(np.array([2**63 + 1], dtype=np.uint64)).tolist() == [2]


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_new_features_join_behind_the_old_ones(wrap) -> None:
    roster = Roster.of(Table(wrap(FEATURES), ids=list("abcd")), "items").with_seen(np.array([2, 0]))
    grown = roster.extended(Table([[9.0, 8.0]], ids=["e"]), "items", ["a", "e"])
    assert grown.vocabulary.ids.tolist() == list("abcde")
    assert grown.seen.tolist() == roster.seen.tolist() == [0, 2]
    dense = grown.features.toarray() if sparse.issparse(grown.features) else grown.features
    np.testing.assert_array_equal(dense, np.vstack([FEATURES, [9.0, 8.0]]))
    assert roster.extended(None, "items", ["a"]) is roster


def test_what_does_not_fit_is_refused() -> None:
    roster, bare = Roster.of(TABLE, "items"), Roster.of(None, "items", ["a"])
    for text, call in {
        "unknown item 'e' in comparison 1: items have features": lambda: roster.extended(None, "items", ["a", "e"]),
        "unknown item 'f' in comparison 0": lambda: roster.extended(None, "items", ["a", "e"], ["f", "a"]),
        "unknown user 'e' in comparison 0.*as users=Table": lambda: roster.extended(None, "users", ["e"]),
        "item 'b' in row 1 of items has features already": lambda: roster.extended(
            Table(FEATURES[:2], ids=["e", "b"]), "items"
        ),
        "items has 1 features, but CrowdGPPL is expecting 2 features": lambda: roster.extended(
            Table([[1.0]], ids=["e"]), "items"
        ),
        "is expecting 0 features: it was fitted without a table of items": lambda: bare.extended(TABLE, "items"),
        "feature names of items should match": lambda: roster.extended(
            Table([[1.0, 2.0]], ids=["e"], feature_names=["y", "x"]), "items"
        ),
        "can be added to a Table with ids only": lambda: roster.extended([[1.0, 2.0]], "items"),
        "items: could not convert string to float": lambda: roster.extended([["red", "blue"]], "items"),
    }.items():
        with pytest.raises(DataError, match=text):
            call()
    with pytest.raises(DataError, match="can be added to a Table with ids only"):
        Roster.of(FEATURES, "items").extended(Table([[1.0, 2.0]], ids=[9]), "items")
    with pytest.raises(UnknownIdError):
        roster.extended(None, "items", ["e"])


def test_what_a_caller_may_name() -> None:
    roster = Roster.of(TABLE, "items").with_seen(np.array([3, 1]))
    ids, everybody = roster.select(None, "items")
    assert ids.tolist() == list("abcd")
    assert everybody.seen.tolist() == [-1, 0, -1, 1]
    ids, some = roster.select(["d", "a", "d"], "items")
    assert ids.tolist() == ["d", "a", "d"]
    assert some.seen.tolist() == [1, -1, 1]
    np.testing.assert_array_equal(some.features, FEATURES[[3, 0, 3]])
    # A table's ids that are known keep their places; rows of numbers name nobody.
    ids, known = roster.select(Table(FEATURES[:2] + 0.5, ids=["b", "new"]), "items")
    assert ids.tolist() == ["b", "new"]
    assert known.seen.tolist() == [0, -1]
    np.testing.assert_array_equal(known.features, FEATURES[:2] + 0.5)
    for rows in (FEATURES, FEATURES.tolist(), list(FEATURES), sparse.csr_array(FEATURES)):
        ids, new = roster.select(rows, "items")
        assert ids.tolist() == [0, 1, 2, 3]
        assert new.seen.tolist() == [-1] * 4
    for name, kind in (("items", "item"), ("users", "user")):
        with pytest.raises(UnknownIdError, match=f"unknown {kind} 'e' in row 1; in {name}"):
            roster.select(["a", "e"], name)
        with pytest.raises(DataError, match=f"missing {kind} id in row 1 of {name}"):
            roster.select(["a", None], name)
        with pytest.raises(DataError, match=f"{name} must hold one-dimensional .*; for one {kind}, give a list with"):
            roster.select("a", name)
        with pytest.raises(DataError, match=f"{name} has 3 features, but CrowdGPPL is expecting 2 features"):
            roster.select(np.zeros((2, 3)), name)


def test_rows_of_features_are_told_from_ids() -> None:
    rows = [FEATURES, FEATURES.tolist(), list(FEATURES), sparse.csr_array(FEATURES), TABLE]
    names = [list("ab"), [1, 2], [("a", 1), ("b", 2)], np.array(["a"]), [], range(3), "ab", ("a", "b")]
    assert [holds_features(given) for given in rows] == [True] * len(rows)
    assert [holds_features(given) for given in names] == [False] * len(names)


def test_tables_are_read_and_named() -> None:
    assert read_table(TABLE, "items") is TABLE
    assert isinstance(read_table([[1.0]], "items"), Table)
    for given_ in ([[np.nan]], [[1j]], 3, [], sparse.coo_array((0, 2))):
        with pytest.raises(DataError, match=r"^users: "):
            read_table(given_, "users")


def test_vocabularies_name_what_they_hold() -> None:
    rows = Vocabulary.range(3)
    for kind in ("item", "user"):
        for text, column in {
            f"comparison 1 refers to {kind} 7, but there are 3 {kind}s": [0, 7],
            f"negative {kind} index -1 in comparison 0": [-1, 0],
            f"unknown {kind} 'x' in comparison 1; .*give `ids` to the Table if {kind}s have names": [0, "x"],
            f"missing {kind} id in comparison 1": [0, None],
            f"numeric {kind} ids must be integers": [0.5],
        }.items():
            with pytest.raises(DataError, match=text):
                rows.encode(column, kind=kind)
