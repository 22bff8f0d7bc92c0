"""Comparisons beyond memory: time and memory of fits in memory, to Parquet files and on a Dask cluster.

::

    python benchmarks/scale.py files --rows 10_000_000 --items 100_000        # memory, CPU time a pass
    python benchmarks/scale.py files --rows 100_000 1_000_000 --where memory disk cluster --out docs/examples/scale.json
    python benchmarks/scale.py cluster --rows 1_000_000 --items 10_000        # equality, and overhead of a round
    python benchmarks/scale.py files --items 100 --users 50_000 --where memory disk cluster          # a crowd
    python benchmarks/scale.py machine --rows 1_000_000 4_000_000 --users 50_000     # a factorization machine
    python benchmarks/scale.py machine --price --users 50_000                        # with a column of numbers
    python benchmarks/scale.py choices --rows 10_000 100_000        # people who chose ten times among four

Comparisons are simulated, with string ids, of users with tastes of their own where there are `--users`, and written to
a temporary folder in files of a million rows. Each fit of `files` runs in a process of its own, on one thread, and
stops after `--passes` passes; "cluster" is Dask with two worker processes. `machine` fits ratings of items by users,
whose prices, with `--price`, are a third column. `choices` reads a conjoint study, a row for each product of each task,
by `from_tasks` and fits it until it converges. Peak memory is that of the whole process,
with about 250 MB for the interpreter and its libraries, and of a cluster that of the largest worker. `--out` adds the
figures to a file, in place of those of the same rows.
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
import pandas as pd

from skpref import CrowdGPPL, GPPLClassifier, OneHotDesign, VariationalFM
from skpref.data import from_tasks
from skpref.factorization.machine import base as machine_base
from skpref.gp.pairwise import base

FILE_ROWS = 1_000_000
# Dask has its workers return memory at once, and the kernel must clear each new array's pages.
_ALLOCATOR = {
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**28,
}


def write(folder: Path, n_rows: int, n_items: int, n_users: int = 0) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    ids, utility = pa.array([f"item {k:07d}" for k in range(n_items)]), rng.normal(size=n_items)
    users, tastes = pa.array([f"user {k:07d}" for k in range(n_users)]), rng.normal(size=(n_users, 3))
    directions = rng.normal(size=(n_items if n_users else 0, 3))
    for number, start in enumerate(range(0, n_rows, FILE_ROWS)):
        n = min(FILE_ROWS, n_rows - start)
        left = rng.integers(0, n_items, n)
        right = (left + rng.integers(1, n_items, n)) % n_items
        difference, of_users = utility[left] - utility[right], {}
        if n_users:
            user = rng.integers(0, n_users, n)
            difference += np.einsum("pk,pk->p", tastes[user], directions[left] - directions[right])
            of_users = {"user": users.take(pa.array(user))}
        y = (difference + rng.normal(size=n) > 0).astype(np.int8)
        columns = of_users | {"left": ids.take(pa.array(left)), "right": ids.take(pa.array(right)), "y": y}
        pq.write_table(pa.table(columns), folder / f"{number:05d}.parquet")


def write_ratings(folder: Path, n_rows: int, n_items: int, n_users: int, *, price: bool) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = [pa.array([f"{kind} {k:07d}" for k in range(n)]) for kind, n in (("user", n_users), ("item", n_items))]
    tastes, directions = rng.normal(size=(n_users, 4)), rng.normal(size=(n_items, 4))
    for number, start in enumerate(range(0, n_rows, FILE_ROWS)):
        n = min(FILE_ROWS, n_rows - start)
        user, item = rng.integers(0, n_users, n), rng.integers(0, n_items, n)
        columns: dict[str, Any] = {"user": names[0].take(pa.array(user)), "item": names[1].take(pa.array(item))}
        y = 3.0 + tastes[user, 0] + directions[item, 0] + np.einsum("na,na->n", tastes[user], directions[item])
        if price:
            columns["price"] = rng.normal(size=n)
            y -= columns["price"] * (1.0 + tastes[user, 1])
        columns["y"] = (y + rng.normal(size=n)).astype(np.float32)
        pq.write_table(pa.table(columns), folder / f"{number:05d}.parquet")


def write_choices(folder: Path, n_people: int, n_tasks: int = 10, n_shown: int = 4) -> None:
    """Write a study of products of four brands, seven prices and three sizes, by people with tastes of their own."""
    rng, n = np.random.default_rng(0), n_people * n_tasks
    brand, price, size = (rng.integers(0, levels, (n, n_shown)) for levels in (4, 7, 3))
    person = np.repeat(np.arange(n_people), n_tasks)[:, None]
    of_brand = rng.normal([0.0, 0.5, 1.0, -0.5], 0.7, (n_people, 4))
    z = of_brand[person, brand] + rng.normal(0.0, 0.5, (n_people, 3))[person, size]
    z += rng.normal(-0.5, 0.3, n_people)[person] * price + rng.gumbel(size=z.shape)
    columns = {"person": person, "task": np.arange(n)[:, None], "brand": np.array(list("wxyz"))[brand], "price": price}
    columns |= {"size": np.array(["S", "M", "L"])[size], "chosen": np.arange(n_shown) == z.argmax(axis=1)[:, None]}
    frame = pd.DataFrame({name: np.broadcast_to(column, z.shape).ravel() for name, column in columns.items()})
    frame.assign(chosen=frame["chosen"].astype(int)).to_parquet(folder / "study.parquet")


def fit_choices(folder: str) -> dict[str, Any]:
    """Read and fit a study in this process."""
    warnings.simplefilter("ignore")
    marks = [time.process_time()]
    X, y, items = from_tasks(folder, features=["brand", "price", "size"])
    marks.append(time.process_time())
    read = {"CPU s to read": round(marks[1] - marks[0], 1), "peak MB to read": round(peak())}
    model = CrowdGPPL(items, random_state=0).fit(X, y)
    seconds, part_worths = time.process_time() - marks[1], model.part_worths()
    found = dict(zip(part_worths["feature"], part_worths["mean"].round(3), strict=True))
    return read | {"CPU s": round(seconds, 1), "peak MB": round(peak()), "passes": model.n_iter_, "part-worths": found}


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def columns_of(n_users: int) -> list[str]:
    return ["user", "left", "right"] if n_users else ["left", "right"]


def fit_on_cluster(folder: str, passes: int, n_users: int) -> dict[str, Any]:
    """Fit on two workers and return the CPU time of all processes and the memory of the largest worker."""
    import dask.dataframe
    from distributed import Client, LocalCluster

    from skpref import CrowdGPPL, GPPLClassifier, VariationalFM

    warnings.simplefilter("ignore")
    dask.config.set(_ALLOCATOR)
    kind: Any = CrowdGPPL if n_users else GPPLClassifier
    model = (kind if n_users >= 0 else VariationalFM)(max_iter=passes, tol=0.0, random_state=0)
    started = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
    with started as workers, Client(workers) as client:
        frame = dask.dataframe.read_parquet(folder)

        def seconds() -> float:
            return time.process_time() + sum(client.run(time.process_time).values())

        start = seconds()
        model.fit(frame if n_users < 0 else frame[columns_of(n_users)], frame["y"] if n_users >= 0 else "y")
        total, largest = seconds() - start, max(client.run(peak).values())
    return {"CPU s": round(total, 1), "peak MB": round(largest), "bound": model.lower_bound_}


def fit(where: str, folder: str, passes: int, n_users: int) -> dict[str, Any]:
    """Fit in this process and return times, memory and a few numbers of the result."""
    if where == "cluster":
        return fit_on_cluster(folder, passes, n_users)
    if where == "choices":
        return fit_choices(folder)
    if n_users < 0:
        return fit_machine(where, folder, passes)
    warnings.simplefilter("ignore")
    seconds: list[float] = []
    model: Any = (CrowdGPPL if n_users else GPPLClassifier)(max_iter=passes, tol=0.0, random_state=0)
    base.iteration_callback = lambda _: lambda _: seconds.append(time.process_time())
    start = time.process_time()
    if where == "memory":
        import pyarrow.parquet as pq

        frame = pq.read_table(folder).to_pandas()
        model.fit(frame[columns_of(n_users)], frame["y"])
    else:
        model.fit(folder)
    total, steps = time.process_time() - start, np.diff(seconds)
    return {
        "CPU s": round(total, 1),
        "CPU s a pass": round(float(np.median(steps)), 2),
        "peak MB": round(peak()),
        "bound": model.lower_bound_,
        "utilities": model.utility()[:3].tolist(),
    }


def fit_machine(where: str, folder: str, passes: int) -> dict[str, Any]:
    """Fit a factorization machine in this process and return times, memory and a few numbers of the result."""
    from sklearn.compose import make_column_transformer

    seconds: list[float] = []
    machine_base.iteration_callback = lambda _: lambda _: seconds.append(time.process_time())
    model = VariationalFM(max_iter=passes, tol=0.0, random_state=0)
    start = time.process_time()
    if where == "memory":
        import pyarrow.parquet as pq

        frame = pq.read_table(folder).to_pandas()
        encoder = make_column_transformer((OneHotDesign(), ["user", "item"]), remainder="passthrough")
        X, y = encoder.fit_transform(frame.drop(columns="y")), frame["y"]
        del frame
        design = encoder.named_transformers_["onehotdesign"].groups_
        model.set_params(groups=[*design, *["price"] * (X.shape[1] - design.size)]).fit(X, y)
    else:
        model.fit(folder)
    total = time.process_time() - start
    return {
        "CPU s": round(total, 1),
        "CPU s a pass": round(float(np.median(np.diff(seconds))), 2),
        "peak MB": round(peak()),
        "bound": model.lower_bound_,
        "weights": model.weights_[:3].tolist(),
    }


def files(options: argparse.Namespace) -> None:
    for n_rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            if options.command == "choices":
                write_choices(Path(folder), n_rows)
            elif options.command == "machine":
                write_ratings(Path(folder), n_rows, options.items, options.users, price=options.price)
            else:
                write(Path(folder), n_rows, options.items, options.users)
            for where in options.where:
                kind = "-1" if options.command == "machine" else str(options.users)
                command = [sys.executable, __file__, "one", where, folder, str(options.passes), kind]
                answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                measured = {"rows": n_rows, "where": where} | json.loads(answer.strip().splitlines()[-1])
                print(json.dumps(measured), flush=True)
                if options.out is not None:
                    record(options.out, measured)


def record(path: Path, measured: dict[str, Any]) -> None:
    """Put a row of figures into a file, in place of that of the same rows at the same place."""
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    kept = ("rows", "where", "CPU s", "peak MB")
    rows = [row for row in rows if any(row[name] != measured[name] for name in kept[:2])]
    rows.append({name: measured[name] for name in kept})
    rows.sort(key=lambda row: (row["where"], row["rows"]))
    path.write_text(json.dumps(rows, indent=0) + "\n", "utf-8")


def cluster(options: argparse.Namespace) -> None:
    (n_rows,) = options.rows
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), n_rows, options.items)
        compare_workers(options, Path(folder))


def critical_path(marks: list[Any]) -> float:
    """Return the CPU time of a pass in this process and in the busiest worker, without the first pass."""
    (here, workers), (end, workers_end) = marks[0], marks[-1]
    return (end - here + float((workers_end - workers).max())) / (len(marks) - 1)


def compare_workers(options: argparse.Namespace, folder: Path) -> None:
    import dask.dataframe
    from distributed import Client, LocalCluster

    from skpref import GPPLClassifier
    from skpref.dask.shards import OnDask

    warnings.simplefilter("ignore")
    dask.config.set(_ALLOCATOR)
    marks: list[Any] = []
    clients: list[Any] = []

    def mark(_: object) -> None:
        workers = [second for client in clients for second in client.run(time.process_time).values()]
        marks.append((time.process_time(), np.array(workers or [0.0])))

    base.iteration_callback = lambda _: mark
    frame = dask.dataframe.read_parquet(folder).repartition(npartitions=8)
    local = frame.compute()
    plain = GPPLClassifier(max_iter=options.passes, tol=0.0).fit(local[["left", "right"]], local["y"])
    print(f"in memory: {critical_path(marks):.2f} CPU s a pass")
    utilities = []
    for n_workers in (1, 2):
        started = LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0")
        with started as workers, Client(workers) as client:
            marks.clear()
            clients[:] = [client]
            model = GPPLClassifier(max_iter=options.passes, tol=0.0).fit(frame[["left", "right"]], frame["y"])
            seconds = critical_path(marks)
            shards, column = OnDask(client), [np.zeros(1)] * 8
            start = time.perf_counter()
            for _ in range(50):
                list(shards.collect(np.sum, column))
            overhead = (time.perf_counter() - start) / 50
        utilities.append(model.utility())
        error = np.abs(utilities[-1] - plain.utility()).max()
        print(f"{n_workers} workers: {seconds:.2f} CPU s a pass in the client and the busiest worker")
        print(f"  {1e3 * overhead:.0f} ms an empty round, error {error:.1e}")
    print("equal bits for 1 and 2 workers:", np.array_equal(*utilities))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("one")
    for name in ("where", "folder", "passes", "users"):
        one.add_argument(name)
    for name in ("files", "machine", "cluster", "choices"):
        command = commands.add_parser(name)
        command.add_argument("--rows", nargs="+", type=int, default=[1_000_000])
        command.add_argument("--items", type=int, default=10_000)
        command.add_argument("--users", type=int, default=50_000 if name == "machine" else 0)  # not of `cluster`
        command.add_argument("--price", action="store_true")  # of `machine` only
        command.add_argument("--passes", type=int, default=5)
        command.add_argument("--where", nargs="+", default=["choices"] if name == "choices" else ["memory", "disk"])
        command.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.command == "one":
        print(json.dumps(fit(options.where, options.folder, int(options.passes), int(options.users))))
        return
    {"files": files, "machine": files, "choices": files, "cluster": cluster}[options.command](options)


if __name__ == "__main__":
    main()
