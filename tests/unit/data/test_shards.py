"""Files as batches: in their order, with all columns, and no more of them in memory than is needed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from skpref.data import shards

if TYPE_CHECKING:
    from pathlib import Path

pyarrow = pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")
parquet = pytest.importorskip("pyarrow.parquet")
compute = pytest.importorskip("pyarrow.compute")


def test_files_are_not_read_ahead(tmp_path: Path) -> None:
    table = pyarrow.table({"x": np.random.default_rng(0).normal(size=200_000)})
    for number in range(10):
        parquet.write_table(table, tmp_path / f"{number}.parquet", row_group_size=100_000)
    before = pyarrow.total_allocated_bytes()
    runs = shards._runs(shards.open_dataset(tmp_path), ["x"], 200_000)
    first = next(runs)
    time.sleep(0.2)  # in which a scan of all files would decode 16 MB
    assert len(first) == 200_000
    assert pyarrow.total_allocated_bytes() - before < 3 * table.nbytes
    assert sum(len(run) for run in runs) == 1_800_000


def test_any_dataset_gives_its_rows_in_order(tmp_path: Path) -> None:
    table = pyarrow.table({"x": np.arange(300), "part": np.arange(300) % 3})
    parts = dataset.partitioning(pyarrow.schema([("part", pyarrow.int64())]), flavor="hive")
    dataset.write_dataset(table, tmp_path, format="parquet", partitioning=parts)
    folders = dataset.dataset(tmp_path, format="parquet", partitioning="hive")
    for stored in (
        folders,  # a column in the names of folders
        shards.open_dataset(tmp_path),
        dataset.dataset(table),
        dataset.dataset([folders, folders]),
        folders.filter(compute.field("x") > 100),
    ):
        rows = pyarrow.concat_tables(list(shards._runs(stored, ["x", "part"], 70)))
        assert rows.equals(stored.to_table(columns=["x", "part"]))


def test_runs_of_whole_groups() -> None:
    group = np.repeat([5, 2, 9, 1], [3, 8, 1, 2])
    stored = dataset.dataset(pyarrow.table({"group": group, "x": np.arange(14)}))
    runs = list(shards._whole_groups(shards._runs(stored, ["group", "x"], 4), "group"))
    assert [sorted(set(run["group"].to_pylist())) for run in runs] == [[5], [2], [9], [1]]
    assert pyarrow.concat_tables(runs).equals(stored.to_table())
