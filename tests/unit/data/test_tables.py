"""The holder of features and ids: bad inputs, rows 1-8, 13, 14, 20 and 37."""

import copy
import pickle
import re

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.base import BaseEstimator, clone

from skpref.data import Table, tables, unique_rows
from skpref.exceptions import DataError, UnknownIdError

VALUES = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])


class Holder(BaseEstimator):
    def __init__(self, items=None):
        self.items = items


# ----------------------------------------------------------------------------------------------------------- reading


def forms():
    frozen = VALUES.copy()
    frozen.flags.writeable = False
    return [
        VALUES,
        frozen,
        np.asfortranarray(VALUES),
        np.repeat(VALUES, 2, axis=0)[::2],
        VALUES.tolist(),
        VALUES.astype(object),
        VALUES.astype(np.float32),
        VALUES.astype(np.int8),
    ]


@pytest.mark.parametrize("features", forms())
def test_rows_7_13_20_every_form_of_features(features):
    table = Table(features)
    np.testing.assert_array_equal(table.features, VALUES)
    assert table.features.dtype == np.float64
    assert table.features.flags.c_contiguous
    assert not table.features.flags.writeable
    assert (table.n_items, table.n_features) == (3, 2)
    assert table.ids.tolist() == [0, 1, 2]
    assert table.digest == Table(VALUES).digest


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_features_stay_sparse(kind):
    table = Table(kind(VALUES))
    assert sparse.issparse(table.features)
    assert table.features.format == "csr"
    np.testing.assert_array_equal(table.features.toarray(), VALUES)
    for part in (table.features.data, table.features.indices, table.features.indptr):
        assert not part.flags.writeable
    assert repr(table) == "Table(n_items=3, n_features=2, sparse)"
    np.testing.assert_array_equal(table.features[np.array([2, 0])].toarray(), VALUES[[2, 0]])


def test_sparse_input_is_copied_and_brought_into_canonical_form():
    raw = sparse.csr_array((np.array([1.0, 2.0, 0.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    table = Table(raw)
    assert table.features.nnz == 1
    assert raw.nnz == 3
    raw.data[:] = 7.0
    np.testing.assert_array_equal(table.features.toarray(), [[0.0, 3.0], [0.0, 0.0]])


def test_row_14_input_is_neither_modified_nor_kept():
    features = VALUES.copy()
    table = Table(features)
    digest = table.digest
    features[:] = -1.0
    np.testing.assert_array_equal(table.features, VALUES)
    assert features.flags.writeable
    assert Table(VALUES).digest == digest


def test_read_only_memmap_is_not_copied(tmp_path):
    np.save(tmp_path / "x.npy", VALUES)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    table = Table(mapped)
    assert np.shares_memory(table.features, mapped)
    assert type(table.features) is np.ndarray


def test_frame_gives_names_and_its_index_is_not_used():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(VALUES.copy(), columns=["mass", "length"], index=["x", "y", "z"])
    table = Table(frame, ids=frame.index)
    assert table.feature_names == ("mass", "length")
    assert table.ids.tolist() == ["x", "y", "z"]
    assert Table(frame).ids.tolist() == [0, 1, 2]
    with pytest.raises(DataError, match=r"could not convert string to float: 'x' in column 'name' of X. Features are"):
        Table(frame.assign(name=["x", "y", "z"]))
    assert Table(frame.set_axis([0, 1], axis=1)).feature_names is None
    assert Table(VALUES).feature_names is None
    frame.iloc[:] = 0.0
    np.testing.assert_array_equal(table.features, VALUES)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[1.0, np.nan]], "Input X contains NaN"),
        ([[1.0, np.inf]], "Input X contains infinity or a value too large"),
        (np.array([["1e309"]], dtype=object), "Input X contains infinity or a value too large"),
        (np.empty((0, 2)), r"Found array with 0 sample\(s\)"),
        (np.empty((2, 0)), r"Found array with 0 feature\(s\)"),
        ([1.0, 2.0], "Expected 2D array, got 1D array"),
        (np.zeros((2, 2, 2)), "Found array with dim 3"),
        ([["a", "b"]], "could not convert string to float: 'a' in column 0 of X. Features are numbers: encode"),
        ("people.csv", "X is 'people.csv', but an array or a data frame is required: read a file first"),
        (np.array([["a", 1.0]], dtype=object), "could not convert string to float"),
        ([[1j]], "Complex data not supported"),
        (sparse.csr_array([[np.nan]]), "Input X contains NaN"),
    ],
)
def test_rows_1_to_8_bad_features(features, message):
    with pytest.raises(ValueError, match=message):
        Table(features)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b"], "inconsistent numbers of samples: 2 ids for 3 rows"),
        (["a", "b", "a"], "duplicate item id 'a' in ids: rows 0 and 2"),
        ([1, 2, 1.0], "duplicate item id 1 in ids"),
        (["a", None, "b"], "missing item id in row 1 of ids"),
        ([1.0, np.nan, 2.0], "missing item id in row 1 of ids"),
        ([1.0, 1.5, 2.0], "must be integers"),
        ([[1], [2], [3]], "must be hashable"),
        (np.ones((3, 1)), "one-dimensional"),
        ("abc", "sequence of 3 ids, one per row of features, got str"),
        (7, "sequence of 3 ids, one per row of features, got int"),
    ],
)
def test_bad_ids(ids, message):
    with pytest.raises(DataError, match=message):
        Table(VALUES, ids)


@pytest.mark.parametrize("ids", [[5, 3, 9], ["a", "b", "c"], [b"a", "a", 1], [2**63, 0, 2**64 - 1], [(1, 2), "x", 3]])
def test_rows_finds_ids_of_every_kind(ids):
    table = Table(VALUES, ids)
    assert table.rows([ids[2], ids[0], ids[2]]).tolist() == [2, 0, 2]
    assert table.ids.tolist() == ids
    with pytest.raises(UnknownIdError, match="unknown item 'x9' in comparison 1"):
        table.rows([ids[0], "x9"])
    with pytest.raises(UnknownIdError, match="unknown item 'x9' in row 0; in items"):
        table.rows(["x9"], "items", noun="row")


def test_row_21_positional_table():
    with pytest.raises(UnknownIdError, match="comparison 1 refers to item 3, but there are 3 items"):
        Table(VALUES).rows([0, 3])
    # Integers given as ids are names, not positions.
    with pytest.raises(UnknownIdError, match="unknown item 0 in comparison 0"):
        Table(VALUES, [1, 2, 3]).rows([0])


# ------------------------------------------------------------------------------------------------------------ holder


def test_clone_and_copies_are_the_table_itself():
    table = Table(VALUES, ["a", "b", "c"])
    assert clone(Holder(table)).items is table
    assert copy.copy(table) is table
    assert copy.deepcopy(table) is table
    assert copy.deepcopy({"items": table})["items"] is table
    assert Holder(table).get_params()["items"] is table


def test_nothing_to_slice_and_nothing_to_print():
    table = Table(np.zeros((10_000, 30)))
    assert not hasattr(table, "__len__")
    assert not hasattr(table, "shape")
    assert not hasattr(table, "__getitem__")
    assert not hasattr(table, "__array__")
    assert repr(table) == "Table(n_items=10000, n_features=30)"
    assert "Table(n_items=10000" in repr(Holder(table))


def test_frozen():
    table = Table(VALUES)
    for name in ("features", "ids", "digest", "extra"):
        with pytest.raises(AttributeError, match="frozen"):
            setattr(table, name, None)
    with pytest.raises(AttributeError, match="frozen"):
        del table.features
    with pytest.raises(ValueError, match="read-only"):
        table.features[0, 0] = 9.0


@pytest.mark.parametrize("ids", [None, ["a", "b", "c"], [3, "a", b"x"], [(1, 2), 3, 4]])
@pytest.mark.parametrize("as_features", [np.asarray, sparse.csr_array])
def test_pickle_round_trip(ids, as_features):
    table = Table(as_features(VALUES), ids)
    again = pickle.loads(pickle.dumps(table))
    assert again.digest == table.digest
    assert again.ids.tolist() == table.ids.tolist()
    assert again.rows(again.ids).tolist() == [0, 1, 2]
    assert again.feature_names == table.feature_names
    data = again.features.data if sparse.issparse(again.features) else again.features
    assert not data.flags.writeable
    assert not again.ids.flags.writeable


def test_processes_share_a_table():
    table = Table(VALUES, ["a", "b", "c"])
    found = joblib.Parallel(n_jobs=2, backend="threading")(joblib.delayed(table.rows)(["b"]) for _ in range(8))
    assert [rows.tolist() for rows in found] == [[1]] * 8


@pytest.mark.parametrize("ids", [None, ["a", "b", "c"], [3, "a", b"x"]])
def test_skops_saves_a_table(ids):
    io = pytest.importorskip("skops.io")
    pd = pytest.importorskip("pandas")
    for features in (pd.DataFrame(VALUES, columns=["p", "q"]), sparse.csr_array(VALUES)):
        table = Table(features, ids)
        file = io.dumps(table)
        again = io.loads(file, trusted=io.get_untrusted_types(data=file))
        assert again.digest == table.digest
        assert again.feature_names == table.feature_names
        assert again.rows(table.ids[::-1]).tolist() == [2, 1, 0]
        assert all(kind.startswith(("skpref.", "scipy.")) for kind in io.get_untrusted_types(data=file))


def test_digest_tells_contents_apart():
    tables_ = [
        Table(VALUES),
        Table(VALUES + 1e-9),
        Table(VALUES.T @ VALUES),
        Table(VALUES, ["0", "1", "2"]),
        Table(VALUES, [0, 1, 3]),
        Table(VALUES, ["01", "", "2"]),
        Table(VALUES, [b"0", b"1", b"2"]),
        Table(sparse.csr_array(VALUES)),
        Table(VALUES[::-1]),
        Table(VALUES.reshape(2, 3)),
    ]
    digests = [table.digest for table in tables_]
    assert len(set(digests)) == len(digests)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)


def test_digest_is_fixed():
    # Written down on 2026-11-21: a stored run must find its data again.
    assert Table([[1.0, 2.0]], ["a"]).digest == "99eb59da127ffd3fac2e572bfe4d27f92dfcc9f0d519662f464e6b313a215b65"


# ------------------------------------------------------------------------------------------------------- unique rows


matrices = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.sampled_from([0.0, -0.0, 1.0, 2.0, 1e-300])
)


@given(matrices, st.booleans())
def test_unique_rows_agrees_with_numpy(X, as_sparse):
    canonical = Table(sparse.csr_array(X)).features if as_sparse else X
    first, inverse = unique_rows(canonical)
    assert first.size == np.unique(X + 0.0, axis=0).shape[0]
    np.testing.assert_array_equal(X[first][inverse], X)
    # The first row with each content.
    assert all(np.flatnonzero(inverse == group)[0] == row for group, row in enumerate(first))


@given(matrices, st.randoms(use_true_random=False))
def test_order_of_unique_rows_depends_on_contents_alone(X, random):
    order = list(range(X.shape[0]))
    random.shuffle(order)
    first, _ = unique_rows(X)
    moved, _ = unique_rows(X[order])
    np.testing.assert_array_equal(X[order][moved], X[first])


@pytest.mark.parametrize("as_features", [np.asarray, sparse.csr_array])
def test_rounding_errors_do_not_change_the_order_of_unique_rows(as_features):
    X = np.random.default_rng(0).normal(size=(50, 3))
    first, _ = unique_rows(as_features(X))
    assert abs(np.corrcoef(X[first[1:], 0], X[first[:-1], 0])[0, 1]) < 0.5  # neighbours have nothing in common
    assert unique_rows(as_features(X * (1.0 + 1e-12)))[0].tolist() == first.tolist()


@pytest.mark.parametrize("as_features", [np.asarray, sparse.csr_array])
def test_unique_rows_survives_a_collision_of_hashes(monkeypatch, as_features):
    monkeypatch.setattr(tables, "_row_hashes", lambda X: np.zeros(X.shape[0], dtype=np.uint64))
    X = np.array([[0.0, 1.0], [1.0, 0.0], [-0.0, 1.0], [1.0, 0.0]])
    first, inverse = unique_rows(as_features(X))
    assert sorted(first.tolist()) == [0, 1]
    np.testing.assert_array_equal(X[first][inverse], X)


def test_binary_features_do_not_collide():
    bits = (np.arange(4096)[:, None] >> np.arange(12)) & 1
    assert np.unique(tables._row_hashes(bits.astype(np.float64))).size == 4096


def test_sparse_and_dense_hashes_agree():
    X = np.random.default_rng(0).integers(0, 2, (50, 7)) * 1.5
    np.testing.assert_array_equal(tables._row_hashes(X), tables._row_hashes(sparse.csr_array(X)))


def test_feature_names_may_be_given():
    table = Table([[1.0, 2.0]], feature_names=["a", "b"])
    assert table.feature_names == ("a", "b")
    for wrong in (["a"], "ab"):
        with pytest.raises(DataError, match="feature_names must be 2 names"):
            Table([[1.0, 2.0]], feature_names=wrong)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_hashes_lose_no_bit_of_a_value(form):
    values = np.random.default_rng(0).standard_normal(60)
    # A value times an odd number modulo 2**64 keeps its lowest bit; times an even one, values may meet.
    np.testing.assert_array_equal(tables._row_hashes(form(np.diag(values))) % 2, tables._mix(values) % 2)


@pytest.mark.parametrize("form", ["array", "pandas", "nullable", "polars", "pyarrow"])
def test_a_missing_feature_is_named_by_item_and_column(form):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"mass": [1.0, 2.0, 3.0, 4.0], "size": [1.0, None, 5.0, 3.0]})
    features = {
        "array": frame.to_numpy,
        "pandas": lambda: frame,
        "nullable": lambda: frame.astype("Int64"),
        "polars": lambda: pytest.importorskip("polars").from_pandas(frame),
        "pyarrow": lambda: pytest.importorskip("pyarrow").Table.from_pandas(frame),
    }[form]()
    column = r"column 1\. Fill" if form == "array" else r"column 1, 'size'\. Fill"
    with pytest.raises(DataError, match=r"Input X contains NaN: item 'b' \(row 1\) has no value in " + column):
        Table(features, ids=list("abcd"))
    table = Table(features, ids=list("abcd"), missing="item effect")
    assert table.incomplete.tolist() == [1]
    assert table.features[[0, 2, 3]].tolist() == frame.iloc[[0, 2, 3]].to_numpy().tolist()
    assert table.feature_names == (None if form == "array" else ("mass", "size"))
    others = np.delete(table.features, 1, axis=0)
    assert (table.features[1] - others.mean(axis=0) > 100.0 * others.std(axis=0)).all()
    again = pickle.loads(pickle.dumps(table))
    assert again.incomplete.tolist() == [1]
    again.validate()


def test_what_cannot_have_effects_of_its_own():
    gap = np.array([[1.0, 2.0], [np.nan, 1.0], [np.nan, np.nan], [3.0, 1.0]])
    for features, text in ((gap, "and 1 more items lack one"), (sparse.csr_array(gap[:2]), "to a dense Table")):
        with pytest.raises(DataError, match=text):
            Table(features, missing="item effect")
    with pytest.raises(DataError, match="missing must be 'raise' or 'item effect'; got 'drop'"):
        Table(gap, missing="drop")
    assert not Table([[1.0]], missing="item effect").incomplete.size
