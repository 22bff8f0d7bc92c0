"""Comparisons beyond memory: time and memory of fits in memory, to Parquet files and on a Dask cluster.

::

    python benchmarks/scale.py files --rows 10_000_000 --items 100_000        # memory, CPU time a pass
    python benchmarks/scale.py cluster --rows 1_000_000 --items 10_000        # equality, and overhead of a round

Comparisons are simulated, with string ids, and written to a temporary folder in files of a million rows. Each fit of
`files` runs in a process of its own, on one thread, and stops after `--passes` passes. Peak memory is that of the whole
process, with about 250 MB for the interpreter and its libraries.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from skpref import GPPLClassifier
from skpref.gp.pairwise import base

FILE_ROWS = 1_000_000


def write(folder: Path, n_rows: int, n_items: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    ids, utility = pa.array([f"item {k:07d}" for k in range(n_items)]), rng.normal(size=n_items)
    for number, start in enumerate(range(0, n_rows, FILE_ROWS)):
        n = min(FILE_ROWS, n_rows - start)
        left = rng.integers(0, n_items, n)
        right = (left + rng.integers(1, n_items, n)) % n_items
        y = (utility[left] - utility[right] + rng.normal(size=n) > 0).astype(np.int8)
        columns = {"left": ids.take(pa.array(left)), "right": ids.take(pa.array(right)), "y": y}
        pq.write_table(pa.table(columns), folder / f"{number:05d}.parquet")


def fit(where: str, folder: str, passes: int) -> dict[str, Any]:
    """Fit in this process and return times, memory and a few numbers of the result."""
    warnings.simplefilter("ignore")
    seconds: list[float] = []
    model = GPPLClassifier(max_iter=passes, tol=0.0)
    base.on_iteration = lambda _: lambda _: seconds.append(time.process_time())
    start = time.process_time()
    if where == "memory":
        import pyarrow.parquet as pq

        frame = pq.read_table(folder).to_pandas()
        model.fit(frame[["left", "right"]], frame["y"])
    else:
        model.fit(folder)
    total, steps = time.process_time() - start, np.diff(seconds)
    return {
        "where": where,
        "CPU s": round(total, 1),
        "CPU s a pass": round(float(np.median(steps)), 2),
        "peak MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "bound": model.lower_bound_,
        "utilities": model.utility()[:3].tolist(),
    }


def files(options: argparse.Namespace, folder: Path) -> None:
    for where in options.where:
        command = [sys.executable, __file__, "one", where, str(folder), str(options.passes)]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


def cluster(options: argparse.Namespace, folder: Path) -> None:
    import dask.dataframe
    from distributed import Client, LocalCluster

    from skpref.dask import DaskGPPLClassifier
    from skpref.dask.shards import OnDask

    warnings.simplefilter("ignore")
    frame = dask.dataframe.read_parquet(folder).repartition(npartitions=8)
    local = frame.compute()
    start = time.perf_counter()
    plain = GPPLClassifier(max_iter=options.passes, tol=0.0).fit(local[["left", "right"]], local["y"])
    print(f"in memory: {time.perf_counter() - start:.1f} s")
    utilities = []
    for n_workers in (1, 2):
        started = LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None)
        with started as workers, Client(workers) as client:
            start = time.perf_counter()
            model = DaskGPPLClassifier(max_iter=options.passes, tol=0.0).fit(frame[["left", "right"]], frame["y"])
            seconds = time.perf_counter() - start
            shards, column = OnDask(client), [np.zeros(1)] * 8
            start = time.perf_counter()
            for _ in range(50):
                list(shards.collect(np.sum, column))
            overhead = (time.perf_counter() - start) / 50
        utilities.append(model.utility())
        error = np.abs(utilities[-1] - plain.utility()).max()
        print(f"{n_workers} workers: {seconds:.1f} s, {1e3 * overhead:.0f} ms an empty round, error {error:.1e}")
    print("equal bits for 1 and 2 workers:", np.array_equal(*utilities))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("one")
    for name in ("where", "folder", "passes"):
        one.add_argument(name)
    for name in ("files", "cluster"):
        command = commands.add_parser(name)
        command.add_argument("--rows", type=int, default=1_000_000)
        command.add_argument("--items", type=int, default=10_000)
        command.add_argument("--passes", type=int, default=5)
        command.add_argument("--where", nargs="+", default=["memory", "disk"])
    options = parser.parse_args()
    if options.command == "one":
        print(json.dumps(fit(options.where, options.folder, int(options.passes))))
        return
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), options.rows, options.items)
        {"files": files, "cluster": cluster}[options.command](options, Path(folder))


if __name__ == "__main__":
    main()
