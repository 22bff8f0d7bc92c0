"""Files as batches: in their order, with all columns, and no more of them in memory than is needed."""

import re
import sys
import time

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skpref.data import TaskRows, from_choices, from_rankings, from_tasks, from_winners
from skpref.data import stored as files
from skpref.exceptions import DataError, MissingExtraError
from tests.policies import set_policy

pyarrow = pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")
parquet = pytest.importorskip("pyarrow.parquet")
compute = pytest.importorskip("pyarrow.compute")


def test_files_are_not_read_ahead(tmp_path):
    table = pyarrow.table({"x": np.random.default_rng(0).normal(size=200_000)})
    for number in range(10):
        parquet.write_table(table, tmp_path / f"{number}.parquet", row_group_size=100_000)
    before = pyarrow.total_allocated_bytes()
    runs = files._tables(files.open_dataset(tmp_path), ["x"], 200_000)
    first = next(runs)
    time.sleep(0.2)  # in which a scan of all files would decode 16 MB
    assert len(first) == 200_000
    assert pyarrow.total_allocated_bytes() - before < 3 * table.nbytes
    assert sum(len(run) for run in runs) == 1_800_000


def test_any_dataset_gives_its_rows_in_order(tmp_path):
    table = pyarrow.table({"x": np.arange(300), "part": np.arange(300) % 3})
    parts = dataset.partitioning(pyarrow.schema([("part", pyarrow.int64())]), flavor="hive")
    dataset.write_dataset(table, tmp_path, format="parquet", partitioning=parts)
    folders = dataset.dataset(tmp_path, format="parquet", partitioning="hive")
    for stored in (
        folders,  # a column in the names of folders
        files.open_dataset(tmp_path),
        dataset.dataset(table),
        dataset.dataset([folders, folders]),
        folders.filter(compute.field("x") > 100),
    ):
        rows = pyarrow.concat_tables(list(files._tables(stored, ["x", "part"], 70)))
        assert rows.equals(stored.to_table(columns=["x", "part"]))


def test_runs_of_whole_groups():
    group = np.repeat([5, 2, 9, 1], [3, 8, 1, 2])
    stored = dataset.dataset(pyarrow.table({"group": group, "x": np.arange(14)}))
    runs = list(files._whole_groups(files._tables(stored, ["group", "x"], 4), "group"))
    assert [sorted(set(run["group"].to_pylist())) for run in runs] == [[5], [2], [9], [1]]
    assert pyarrow.concat_tables(runs).equals(stored.to_table())


def two_files(folder, first, second):
    for number, (column, note) in enumerate(((first, "a"), (second, 1))):
        table = pyarrow.table({"x": column, "note": [note] * len(column)})
        parquet.write_table(table, folder / f"{number}.parquet")
    return folder


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("int32", "int64", "int64"),
        ("uint8", "int32", "int32"),
        ("int64", "float64", "double"),
        ("float32", "int64", "double"),
        ("null", "int64", "int64"),
        ("string", "null", "string"),
        ("string", "large_string", "large_string"),
    ],
)
def test_types_of_files_that_differ_are_unified_where_no_value_changes(first, second, kind, tmp_path):
    values = {"null": [None, None], "int64": [2**40, -3]} | {name: ["01", "b"] for name in ("string", "large_string")}
    columns = [pyarrow.array(values.get(name, [1, 2]), getattr(pyarrow, name)()) for name in (first, second)]
    rows = pyarrow.concat_tables(files._tables(files.open_dataset(two_files(tmp_path, *columns)), ["x"], 70))
    assert str(rows["x"].type) == kind
    assert rows["x"].to_pylist() == [*columns[0].to_pylist(), *columns[1].to_pylist()]


def test_types_that_other_columns_have_do_not_matter(tmp_path):
    stored = files.open_dataset(two_files(tmp_path, [1, 2], [3, 4]))
    assert [run["x"].to_pylist() for run in files._tables(stored, ["x"], 70)] == [[1, 2, 3, 4]]
    with pytest.raises(
        DataError, match=r"column 'note' of X holds string in .*0\.parquet, and int64 in .*1\.parquet: "
    ):
        list(files._tables(stored, ["note"], 70))


UTC = pyarrow.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pyarrow.array([1, 2]), pyarrow.array(["1", "02"])),
        (pyarrow.array(["1", "02"]), pyarrow.array([1, 2])),
        (pyarrow.array(["1", "02"]).dictionary_encode(), pyarrow.array([1, 2])),
        (pyarrow.array([True, False]), pyarrow.array([1, 2])),
        (pyarrow.array(["a", "b"]), pyarrow.array([b"a", b"b"])),
        (pyarrow.array([1, 2], pyarrow.timestamp("us")), pyarrow.array([1, 2], UTC)),
    ],
)
def test_types_of_files_that_have_nothing_in_common_are_refused(first, second, tmp_path):
    stored = files.open_dataset(two_files(tmp_path, first, second))
    message = (
        f"column 'x' of X holds {first.type} in {tmp_path}/0.parquet, and {second.type} in {tmp_path}/1.parquet: write"
    )
    with pytest.raises(DataError, match=re.escape(message)):
        list(files._tables(stored, ["x"], 70))


@pytest.mark.parametrize(
    ("first", "second"), [([2**53 + 1], [0.5]), (pyarrow.array([1]), pyarrow.array([2**63], pyarrow.uint64()))]
)
def test_numbers_that_would_change_are_refused(first, second, tmp_path):
    stored = files.open_dataset(two_files(tmp_path, first, second))
    with pytest.raises(DataError, match=r"X cannot be read: Integer value .* must fit into one type of each column"):
        list(files._tables(stored, ["x"], 70))


def test_times_of_other_precision_are_the_same_times(tmp_path):
    columns = [pyarrow.array([5], pyarrow.timestamp("s")), pyarrow.array([5_000_000], pyarrow.timestamp("us"))]
    (run,) = files._tables(files.open_dataset(two_files(tmp_path, *columns)), ["x"], 70)
    assert len(set(run["x"].to_pylist())) == 1


def test_text_and_categories_of_text_are_text(tmp_path):
    columns = [pyarrow.array(["a", "b"]).dictionary_encode(), pyarrow.array(["b", "c"])]
    for order in (columns, columns[::-1]):
        (run,) = files._tables(files.open_dataset(two_files(tmp_path, *order)), ["x"], 70)
        assert run["x"].to_pylist() == [*order[0].to_pylist(), *order[1].to_pylist()]


def test_a_filtered_dataset_has_one_type_in_all_files_or_is_refused(tmp_path):
    some = compute.field("note") != "b"
    for number, kind in enumerate(("int64", "float64")):
        table = pyarrow.table({"x": pyarrow.array([1, 2], getattr(pyarrow, kind)()), "note": ["a", "b"]})
        parquet.write_table(table, tmp_path / f"{number}.parquet")
    stored = files.open_dataset(tmp_path)
    for filtered in (stored.filter(some), dataset.dataset([stored, stored]).filter(some)):
        with pytest.raises(
            DataError, match=r"column 'x' of X, a filtered dataset, holds double in .* state the type double"
        ):
            list(files._tables(filtered, ["x"], 70))
        (run, *_) = files._tables(filtered, ["note"], 70)
        assert run["note"].to_pylist()[:2] == ["a", "a"]
    stated = pyarrow.schema([("x", pyarrow.float64()), ("note", pyarrow.string())])
    filtered = dataset.dataset(tmp_path, schema=stated).filter(some)
    (run,) = files._tables(filtered, ["x"], 70)
    assert run["x"].type == pyarrow.float64()
    assert run["x"].to_pylist() == [1.0, 1.0]


def test_a_filtered_dataset_of_types_that_have_nothing_in_common_is_refused(tmp_path):
    filtered = files.open_dataset(two_files(tmp_path, ["1", "02"], [1, 2])).filter(compute.field("x") != "1")
    with pytest.raises(DataError, match=r"column 'x' of X holds string in .*0\.parquet, and int64 in .*1\.parquet: "):
        list(files._tables(filtered, ["x"], 70))


@pytest.mark.parametrize("kind", ["string", "float32", "int32"])
def test_the_schema_of_the_caller_is_kept(kind, tmp_path):
    columns = pyarrow.array([1, 2]), pyarrow.array([3.0, 4.0])
    stated = getattr(pyarrow, kind)()
    stored = dataset.dataset(two_files(tmp_path, *columns), schema=pyarrow.schema([("x", stated)]))
    (run,) = files._tables(stored, ["x"], 70)
    assert run["x"].type == stated
    assert run["x"].cast(pyarrow.float64()).to_pylist() == [1.0, 2.0, 3.0, 4.0]


def ordered(levels, index="int8", value="string"):
    values = pyarrow.array(levels, getattr(pyarrow, value)())
    codes = pyarrow.array(range(len(levels)), getattr(pyarrow, index)())
    return pyarrow.DictionaryArray.from_arrays(codes, values, ordered=True)


@pytest.mark.parametrize("others", [{"index": "int16"}, {"value": "large_string"}, {"index": "int32"}])
def test_ordered_categories_of_files_keep_their_order(others, tmp_path):
    levels = ["poor", "fair", "good", "best"]
    stored = files.open_dataset(two_files(tmp_path, ordered(levels[1:3]), ordered(levels, **others)))
    (run,) = files._tables(stored, ["x"], 70)
    assert run["x"].type.ordered
    assert [chunk.dictionary.to_pylist() for chunk in run["x"].chunks] == [levels[1:3], levels]
    assert run["x"].to_pylist() == [*levels[1:3], *levels]


@pytest.mark.parametrize("kind", ["Scanner", "RecordBatchReader"])
def test_rows_that_can_be_read_only_once_are_refused(kind, tmp_path):
    rows = files.open_dataset(two_files(tmp_path, [1], [2])).scanner()
    if kind == "RecordBatchReader":
        rows = rows.to_reader()
    assert files.is_stored(rows)
    with pytest.raises(DataError, match=rf"a {kind} of pyarrow, .* pass its dataset.*write_dataset"):
        files.open_dataset(rows)


def test_a_csv_file_is_refused_where_pyarrow_is_not_installed_too(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="Parquet files need pyarrow"):
        files.open_dataset("votes.parquet")
    with pytest.raises(DataError, match=r"no Parquet file: read it by pandas\.read_csv, pass the frame"):
        files.open_dataset("votes.csv")


def test_a_parquet_file_that_was_made_of_a_csv_file_is_read(tmp_path):
    parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "votes.csv.parquet")
    assert files.open_dataset(tmp_path / "votes.csv.parquet").count_rows() == 1


# --------------------------------------------------------------------------------------------------- tables of readers
LONG = {
    "task": [1, 1, 1, 2, 2, 2] * 2,
    "person": ["ann"] * 6 + ["bob"] * 6,
    "brand": ["x", "y", "none", "y", "x", "none"] * 2,
    "price": [3.0, 2.0, None, 2.0, 3.0, None] * 2,
    "size": pd.Categorical(["2", "1", None, "1", "2", None] * 2),
    "chosen": [0, 1, 0, 1, 0, 0] * 2,
}
WIDE = {
    "who": ["ann", "bob", "ann", "bob"],
    "a": ["tea", "milk", "tea", "water"],
    "b": ["milk", "water", "juice", "tea"],
    "c": [None, "tea", "milk", "juice"],
    "price_a": [1.0, 2.0, 1.5, 1.0],
    "price_b": [2.0, 2.5, 1.0, 1.0],
    "best": ["tea", "tea", "juice", "juice"],
    "worst": [None, "milk", "milk", "water"],
    "choice": ["A", "none", "B", "A"],
    "side": ["a", "b", None, "tie"],
}


PRICES = {"price": ["price_a", "price_b"]}


@pytest.mark.parametrize(
    ("table", "read"),
    [
        (LONG, lambda frame: from_tasks(frame, features=["brand", "price", "size"], none="none")),
        (WIDE, lambda frame: from_tasks(frame, user="who", features=PRICES, chosen="choice", none="none")),
        (WIDE, lambda frame: from_choices(frame, list("abc"), "best", worst="worst", user="who")),
        (WIDE, lambda frame: from_rankings(frame, ["a", "b", "c"])),
        (WIDE, lambda frame: from_winners(frame, "a", "b", "side", missing="drop")),
    ],
    ids=["attributes, long", "attributes, wide", "MaxDiff", "rankings", "winners"],
)
def test_readers_take_files_as_frames(tmp_path, table, read):
    """The rows of a task are in two files."""
    frame = pd.DataFrame(table)
    for number, part in enumerate((frame[:2], frame[2:])):
        part.to_parquet(tmp_path / f"{number}.parquet")
    wanted = read(frame)
    for stored in (tmp_path, str(tmp_path), dataset.dataset(tmp_path)):
        found = read(stored)
        assert_array_equal(found.X, wanted.X)
        assert_array_equal(found.y, wanted.y)
        if isinstance(wanted, TaskRows):
            assert_array_equal(found.items.features, wanted.items.features)
            assert_array_equal(found.items.ids, wanted.items.ids)
            assert found.items.feature_names == wanted.items.feature_names
        else:
            assert_array_equal(found.sample_weight, wanted.sample_weight)
            assert found.read_ == wanted.read_


def test_readers_refuse_files_that_are_none_or_too_large(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("a,b,best\n")
    for path, message in (("a.csv", r"read it by pandas\.read_csv, pass the frame"), ("b.parquet", "does not exist")):
        for read in (lambda frame: from_choices(frame, ["a", "b"], "best"), lambda frame: from_tasks(frame, item="a")):
            with pytest.raises(DataError, match=message):
                read(tmp_path / path)
    pd.DataFrame(WIDE)[:0].to_parquet(tmp_path / "none.parquet")
    with pytest.raises(DataError, match="at least 1 row"):
        from_choices(tmp_path / "none.parquet", ["a", "b"], "best")
    pd.DataFrame(WIDE).to_parquet(tmp_path / "many.parquet")
    set_policy(monkeypatch, "data", most_stored=3)
    with pytest.raises(DataError, match=r"X has 4 rows; tables of files .* at most 3"):
        from_choices(tmp_path / "many.parquet", ["a", "b"], "best")
