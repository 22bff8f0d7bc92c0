"""Columns of ids and numbers as features."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skpref.data import Vocabulary
from skpref.data.design import ColumnDesign
from skpref.data.shards import design_of_shards, read_rows, row_columns
from skpref.data.stored import open_dataset, shared_schema
from skpref.exceptions import DataError, DataWarning

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pandas = pytest.importorskip("pandas")
DESIGN = ColumnDesign(("user", "price"), (Vocabulary(["ann", "bob"]), None))


def test_ids_are_one_hot_with_a_feature_for_unseen_ones():
    wanted = [[1.0, 0.0, 0.0, 2.5], [0.0, 0.0, 1.0, 0.0]]
    frame = pandas.DataFrame({"price": [2.5, 0.0], "user": ["ann", "cleo"]})
    for X in (frame, {"user": ["ann", "cleo"], "price": [2.5, 0.0]}, [["ann", 2.5], ["cleo", 0.0]]):
        features = DESIGN.transform(X)
        assert_array_equal(features.toarray(), wanted)
        assert features.nnz == 3
    assert DESIGN.get_feature_names_out().tolist() == ["user_ann", "user_bob", "user (unseen)", "price"]
    assert DESIGN.groups.tolist() == [0, 0, 0, 1]
    assert DESIGN.starts.tolist() == [0, 3, 4]
    assert DESIGN.matrix([None, np.array([1.0, 2.0])]).toarray().tolist() == [[0, 0, 0, 1], [0, 0, 0, 2]]


def test_equal_designs():
    assert DESIGN.same_as(ColumnDesign(DESIGN.names, (Vocabulary(["ann", "bob"]), None)))
    for other in (
        None,
        ColumnDesign(("person", "price"), DESIGN.ids),
        ColumnDesign(DESIGN.names, (Vocabulary(["ann", "bo"]), None)),
        ColumnDesign(DESIGN.names, (None, None)),
    ):
        assert not DESIGN.same_as(other)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([["ann", 1.0, 2.0]], r"X must have the 2 columns of the files of fit; got the shape \(1, 3\)"),
        ([["ann", "dear"]], "column 'price' holds numbers: could not convert string to float: 'dear'"),
        ([["ann", np.inf]], "column 'price' holds numbers: Input X contains infinity"),
        ([[None, 1.0]], "missing user id in row 0 of column 'user'"),
        ("rows/", "fit takes files, and other methods take rows in memory"),
    ],
)
def test_what_cannot_be_read_is_said(X, message):
    with pytest.raises(DataError, match=message):
        DESIGN.transform(X)


@pytest.mark.parametrize(
    ("kind", "is_id"),
    [
        (pa.string(), True),
        (pa.int16(), True),
        (pa.date32(), True),
        (pa.dictionary(pa.int8(), pa.string()), True),
        (pa.float32(), False),
        (pa.decimal128(5, 2), False),
        (pa.bool_(), False),
    ],
)
def test_types_tell_ids_from_numbers(kind, is_id):
    assert row_columns(pa.schema([("a", kind)]), ["a"], None).is_id == (is_id,)
    assert row_columns(pa.schema([("a", kind)]), ["a"], "a").is_id == (True,)


@pytest.mark.parametrize("kinds", [("int64", "float64"), ("float64", "int64")])
def test_the_order_of_files_does_not_tell_ids_from_numbers(kinds, tmp_path):
    for name, kind in zip("ab", kinds, strict=True):
        pq.write_table(pa.table({"user": pa.array([1, 2], kind), "y": [0.5, 1.5]}), tmp_path / f"{name}.parquet")
    assert row_columns(shared_schema(open_dataset(tmp_path), ["user"]), ["user"], None).is_id == (False,)


def test_shards_share_their_ids_and_rows_without_weight_do_not_count():
    columns = row_columns(pa.schema([("user", pa.string()), ("price", pa.float64())]), ["user", "price"], None)
    tables = pa.table({"user": ["b", "c", "a"], "price": [1.0, 2.0, 3.0]}), pa.table({"user": ["d"], "price": [0.5]})
    weights = np.array([2.0, 1.0, 0.0]), None
    read = [
        read_rows(table, np.arange(len(table)), weight, 0, columns, False)
        for table, weight in zip(tables, weights, strict=True)
    ]
    first, second = (summary for summary, _ in read)
    assert (first.n_rows, first.weight, first.squares) == (2, 3.0, 3.0 + 2.0 + 4.0)
    assert read[0][1].columns[1].tolist() == [1.0, 2.0]
    design, places = design_of_shards(columns, [first, second])
    assert design.ids[0] is not None
    assert design.ids[0].ids.tolist() == ["b", "c", "d"]
    assert [None if place is None else place.tolist() for place in (*places[0], *places[1])] == [
        [0, 1],
        None,
        [2],
        None,
    ]
    with pytest.raises(DataError, match=r"Found array with 0 sample\(s\)"):
        design_of_shards(columns, [])


def test_a_column_of_times_that_is_taken_for_ids_is_warned_of():
    schema = pa.schema([("user", pa.string()), ("time", pa.int64())])
    table = pa.table({"user": [f"user {k}" for k in range(1200)], "time": np.arange(1200)})
    columns, named = (row_columns(schema, ["user", "time"], names) for names in (None, ["user", "time"]))
    summary, _ = read_rows(table, np.zeros(1200), None, 0, columns, False)
    design_of_shards(named, [summary])
    with pytest.warns(DataWarning, match="column 'time' has 1200 different values in 1200 rows, and each is an id"):
        design_of_shards(columns, [summary])
