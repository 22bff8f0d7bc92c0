"""Entities: ids and features, which of them were seen, new ones, and what a caller may choose."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from skpref import CrowdGPPL, GPPLClassifier, Table
from skpref.data import Vocabulary
from skpref.exceptions import DataError, DataWarning, UnknownIdError
from skpref.gp.entities import Entities, holds_features, read_table
from skpref.kernels import Linear

FEATURES = np.arange(8.0).reshape(4, 2)
TABLE = Table(FEATURES, ids=list("abcd"), feature_names=["x", "y"])


def read(table, *columns, kind="item", estimator=None):
    return Entities.read(table, *columns, estimator=estimator or CrowdGPPL(), kind=kind)


def test_of_a_table_and_of_columns():
    entities = read(TABLE, ["zzz"])
    assert entities.vocabulary.ids.tolist() == list("abcd")
    assert entities.n_features == 2
    assert entities.feature_names == ("x", "y")
    entities = read(None, ["b", "a"], ["c", "a"])
    assert entities.vocabulary.ids.tolist() == ["a", "b", "c"]
    assert (entities.features, entities.feature_names, entities.n_features) == (None, None, 0)
    assert entities.seen_features is None
    assert read(FEATURES, kind="user").vocabulary.positional
    with pytest.raises(DataError, match=r"^users: Expected 2D array, got 1D array"):
        read(FEATURES[0], kind="user")


@given(batches=st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=5))
def test_seen_entities_keep_their_positions(batches):
    entities = read(None, np.arange(10))
    for batch in batches:
        before = entities.seen.tolist()
        entities = entities.with_seen(np.array(batch, dtype=np.int64))
        assert entities.seen[: len(before)].tolist() == before
        assert set(entities.seen.tolist()) == set(before) | set(batch)
        position = entities.position
        assert position.shape == (11,)
        assert position[-1] == -1  # of an unknown id
        np.testing.assert_array_equal(position[entities.seen], np.arange(entities.seen.size))
        assert np.count_nonzero(position >= 0) == entities.seen.size
        np.testing.assert_array_equal(entities.seen_ids, entities.seen)


def test_new_ids_follow_the_old_ones():
    entities = read(None, ["b", "d"]).with_seen(np.array([1]))
    extended = entities.with_new(None, ["c", "b"], ["a", "a"])
    assert extended.vocabulary.ids.tolist() == ["b", "d", "a", "c"]
    assert extended.seen_ids.tolist() == ["d"]
    assert entities.vocabulary.ids.tolist() == ["b", "d"]
    assert entities.with_new(None, ["b"]) is entities
    assert entities.with_new(None, [7, ("t",)]).vocabulary.ids.tolist() == ["b", "d", 7, ("t",)]
    numbers = read(None, [3, 1], kind="user").with_new(None, [2**63 + 1])
    assert numbers.vocabulary.ids.tolist() == [1, 3, 2**63 + 1]
    assert numbers.vocabulary.encode(np.array([2**63 + 1], dtype=np.uint64)).tolist() == [2]


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_new_features_follow_the_old_ones(wrap):
    entities = read(Table(wrap(FEATURES), ids=list("abcd"))).with_seen(np.array([2, 0]))
    extended = entities.with_new(Table([[9.0, 8.0]], ids=["e"]), ["a", "e"])
    assert extended.vocabulary.ids.tolist() == list("abcde")
    assert extended.seen.tolist() == entities.seen.tolist() == [0, 2]
    dense = extended.features.toarray() if sparse.issparse(extended.features) else extended.features
    np.testing.assert_array_equal(dense, np.vstack([FEATURES, [9.0, 8.0]]))
    assert entities.with_new(None, ["a"]) is entities


def test_what_does_not_fit_is_refused():
    items, users, bare = read(TABLE), read(TABLE, kind="user"), read(None, ["a"])
    for text, call in {
        "unknown item 'e' in comparison 1: this model has features": lambda: items.with_new(None, ["a", "e"]),
        "unknown item 'f' in comparison 0": lambda: items.with_new(None, ["a", "e"], ["f", "a"]),
        "unknown user 'e' in comparison 0.*users=Table": lambda: users.with_new(None, ["e"]),
        "item 'b' in row 1 of items has features already": lambda: items.with_new(Table(FEATURES[:2], ids=["e", "b"])),
        "items has 1 features, but CrowdGPPL is expecting 2 features": lambda: items.with_new(
            Table([[1.0]], ids=["e"])
        ),
        "is expecting 0 features: it was fitted without items": lambda: bare.with_new(TABLE),
        "items: the feature names should match": lambda: items.with_new(
            Table([[1.0, 2.0]], ids=["e"], feature_names=["y", "x"])
        ),
        "new items need ids": lambda: items.with_new([[1.0, 2.0]]),
        "items: could not convert string to float": lambda: items.with_new([["red", "blue"]]),
    }.items():
        with pytest.raises(DataError, match=text):
            call()
    with pytest.raises(DataError, match="new items need ids"):
        read(FEATURES).with_new(Table([[1.0, 2.0]], ids=[9]))
    with pytest.raises(UnknownIdError):
        items.with_new(None, ["e"])


@pytest.mark.parametrize("estimator", [CrowdGPPL(), GPPLClassifier()], ids=lambda model: type(model).__name__)
def test_messages_name_the_estimator(estimator):
    with pytest.raises(DataError, match=f"but {type(estimator).__name__} is expecting 2 features"):
        read(TABLE, estimator=estimator).select(np.zeros((2, 3)))


def test_what_a_caller_may_choose():
    entities = read(TABLE).with_seen(np.array([3, 1]))
    ids, everything = entities.select(None)
    assert ids.tolist() == list("abcd")
    assert everything.position.tolist() == [-1, 0, -1, 1]
    ids, named = entities.select(["d", "a", "d"])
    assert ids.tolist() == ["d", "a", "d"]
    assert named.position.tolist() == [1, -1, 1]
    np.testing.assert_array_equal(named.features, FEATURES[[3, 0, 3]])
    # Known ids of a table keep their positions; row numbers of an array are no ids.
    ids, by_table = entities.select(Table(FEATURES[:2] + 0.5, ids=["b", "new"]))
    assert ids.tolist() == ["b", "new"]
    assert by_table.position.tolist() == [0, -1]
    np.testing.assert_array_equal(by_table.features, FEATURES[:2] + 0.5)
    for rows in (FEATURES, FEATURES.tolist(), list(FEATURES), sparse.csr_array(FEATURES)):
        ids, new = entities.select(rows)
        assert ids.tolist() == [0, 1, 2, 3]
        assert new.position.tolist() == [-1] * 4
    for kind in ("item", "user"):
        entities, name = read(TABLE, kind=kind), f"{kind}s"
        with pytest.raises(UnknownIdError, match=f"unknown {kind} 'e' in row 1; in {name}"):
            entities.select(["a", "e"])
        with pytest.raises(DataError, match=f"missing {kind} id in row 1 of {name}"):
            entities.select(["a", None])
        with pytest.raises(DataError, match=f"{name} must hold one-dimensional .*; for one {kind}, give a list with"):
            entities.select("a")
        with pytest.raises(DataError, match=f"{name} has 3 features, but CrowdGPPL is expecting 2 features"):
            entities.select(np.zeros((2, 3)))


def test_pairs_of_unknown_ids_are_two_items():
    items, left, right = read(None, ["a", "b"]).with_seen(np.array([0, 1])).pairs(["a", "x", "x"], ["b", "y", "a"])
    assert items.position[left].tolist() == [0, -1, -1]
    assert items.position[right].tolist() == [1, -1, 0]
    assert left[1] != right[1]


def test_rows_of_features_are_distinguished_from_ids():
    rows = [FEATURES, FEATURES.tolist(), list(FEATURES), sparse.csr_array(FEATURES), TABLE]
    names = [list("ab"), [1, 2], [("a", 1), ("b", 2)], np.array(["a"]), [], range(3), "ab", ("a", "b")]
    assert [holds_features(chosen) for chosen in rows] == [True] * len(rows)
    assert [holds_features(chosen) for chosen in names] == [False] * len(names)


def test_tables_are_read_and_named():
    assert read_table(TABLE, "items") is TABLE
    assert isinstance(read_table([[1.0]], "items"), Table)
    for features in ([[np.nan]], [[1j]], 3, [], sparse.coo_array((0, 2))):
        with pytest.raises(DataError, match=r"^users: "):
            read_table(features, "users")


def test_vocabularies_name_what_they_hold():
    rows = Vocabulary.range(3)
    for kind in ("item", "user"):
        for text, column in {
            f"comparison 1 refers to {kind} 7, but there are 3 {kind}s": [0, 7],
            f"negative {kind} index -1 in comparison 0": [-1, 0],
            f"unknown {kind} 'x' in comparison 1; .*pass `ids` to the Table if {kind}s have names": [0, "x"],
            f"missing {kind} id in comparison 1": [0, None],
            f"numeric {kind} ids must be integers": [0.5],
        }.items():
            with pytest.raises(DataError, match=text):
                rows.encode(column, kind=kind)


@pytest.mark.parametrize(("odd", "other"), [("b ", "the item 'b'"), ("", "a missing id"), ("\t", "a missing id")])
def test_ids_that_differ_in_spaces_alone_are_noticed(odd, other):
    pairs = [("a", "b"), ("b", odd), (odd, "a")]
    with pytest.warns(DataWarning, match=f"Of the item ids, 1 differ from others only in spaces.* is not {other}"):
        GPPLClassifier(random_state=0).fit(pairs)
    GPPLClassifier(random_state=0).fit([("a", "b "), ("b ", "c d"), ("c d", "a")])  # no warning: there is no "b"


def few_answers(k):
    """Return features, pairs and answers in which item k meets others six times only."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    utility = X @ [1.0, -0.7]
    left = rng.integers(0, 30, 900)
    right = (left + rng.integers(1, 30, 900)) % 30
    y = (utility[left] - utility[right] + 0.7 * rng.normal(size=900) > 0.0).astype(float)
    of_k = np.flatnonzero((left == k) | (right == k))
    keep = np.setdiff1d(np.arange(900), of_k[6:])
    ids = [f"i{row}" for row in range(30)]
    return X, [(ids[a], ids[b]) for a, b in zip(left[keep], right[keep], strict=True)], y[keep], ids


@pytest.mark.parametrize("item_effects", [True, False])
def test_an_item_without_features_keeps_an_effect_of_its_own(item_effects):
    best = 24
    X, pairs, y, ids = few_answers(best)
    gap = X.copy()
    gap[best, 0] = np.nan
    model = GPPLClassifier(items=Table(X, ids), item_effects=item_effects).fit(pairs, y)
    mean, sd = model.utility(ids, return_std=True)
    again = GPPLClassifier(items=Table(gap, ids, missing="item effect"), item_effects=item_effects).fit(pairs, y)
    new_mean, new_sd = again.utility(ids, return_std=True)
    others = np.arange(30) != best
    assert np.isfinite(new_mean).all()
    assert new_sd[best] > 1.5 * sd[best]
    assert abs(new_mean[best] - mean[best]) < 2.0 * new_sd[best]
    assert np.abs(new_mean - mean)[others].max() < 0.2
    assert np.abs(new_sd - sd)[others].max() < 0.1


def test_where_items_without_features_are_refused():
    X, pairs, y, ids = few_answers(0)
    X[0, 0] = np.nan
    table = Table(X, ids, missing="item effect")
    for wrong in (GPPLClassifier(items=table, kernel=Linear()), CrowdGPPL(items=table)):
        rows = pairs if isinstance(wrong, GPPLClassifier) else [("ann", *pair) for pair in pairs]
        with pytest.raises(DataError, match=r"items: 'i0' lacks features .* only with a stationary kernel"):
            wrong.fit(rows, y)
    with pytest.raises(DataError, match="users: 'i0' lacks features"):
        CrowdGPPL(users=table).fit([("i0", *pair) for pair in pairs], y)
    model = GPPLClassifier(items=Table(X[1:], ids[1:])).fit([pair for pair in pairs if "i0" not in pair][:50], None)
    with pytest.raises(DataError, match=r"items: 'i0' lacks features .* name items of the fit by their ids"):
        model.utility(table)
