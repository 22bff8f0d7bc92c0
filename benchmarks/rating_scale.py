"""Ratings beyond memory: time and memory of `GibbsM3F` in memory, on Parquet files and on a Dask cluster.

::

    python benchmarks/rating_scale.py --ratings 1_000_000 --where memory disk cluster
    python benchmarks/rating_scale.py --ratings 10_000_000

There are 50 ratings of each user and ten times as many users as items, in files of a million ratings. Each fit runs in
a process of its own, on one thread. Peak memory is above that of the same process after a tiny fit; of the cluster (two
worker processes) it is that of the client and of the largest worker. Equal digests are equal bits.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import argparse
import hashlib
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

from skpref import GibbsM3F
from skpref.factorization.max_margin import base

OF_USER, FILE_USERS = 50, 20_000
SETTINGS: dict[str, Any] = {"max_iter": 8, "burn_in": 4, "n_samples": 2, "random_state": 0}


def write(folder: Path, n_ratings: int) -> None:
    """Write ratings with two tastes and noise, in random order within a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, n_users = np.random.default_rng(0), n_ratings // OF_USER
    n_items = n_users // 10
    for number, first in enumerate(range(0, n_users, FILE_USERS)):
        users = np.arange(first, min(first + FILE_USERS, n_users))
        begin, step = rng.integers(0, n_items, users.size), rng.integers(1, max(2, n_items // OF_USER), users.size)
        item = (begin[:, None] + step[:, None] * np.arange(OF_USER)).ravel() % n_items
        user = np.repeat(users, OF_USER)
        score = np.sin(0.7 * user) * np.cos(0.3 * item) + 0.5 * rng.normal(size=user.size)
        order = rng.permutation(user.size)
        columns = {"user": user, "item": item, "y": np.digitize(score, [-1.0, -0.3, 0.3, 1.0]) + 1}
        pq.write_table(pa.table({k: column[order] for k, column in columns.items()}), folder / f"{number:05d}.parquet")


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fit(where: str, folder: str, n_factors: int) -> dict[str, Any]:
    """Fit in this process and return times, memory and a digest of the result."""
    warnings.simplefilter("ignore")
    settings = SETTINGS | {"n_factors": n_factors}
    pairs = np.argwhere(np.ones((8, 8)))
    GibbsM3F(**settings).fit(pairs, pairs.sum(axis=1))
    seconds: list[float] = []
    base.iteration_callback = lambda *_, **__: lambda _: seconds.append(time.process_time())
    before, start, wall, workers = peak(), time.process_time(), time.perf_counter(), {}
    if where == "memory":
        import pyarrow.parquet as pq

        frame = pq.read_table(folder).to_pandas()
        model = GibbsM3F(**settings).fit(frame[["user", "item"]], frame["y"])
    elif where == "disk":
        model = GibbsM3F(**settings).fit(folder)
    else:
        model, workers = fit_on_cluster(settings, folder)
    posterior, total = model.posterior_, hashlib.sha256()
    for table in (*posterior.samples, posterior.calibration.log_weights, model.risks_):
        total.update(np.ascontiguousarray(table).tobytes())
    return {
        "where": where,
        "CPU s": round(time.process_time() - start, 1),
        "CPU s a sweep": round(float(np.median(np.diff(seconds))), 2),
        "s": round(time.perf_counter() - wall, 1),
        "peak MB": round(peak() - before),
        **workers,
        "digest": total.hexdigest()[:12],
    }


def fit_on_cluster(settings: dict[str, Any], folder: str) -> tuple[Any, dict[str, Any]]:
    """Fit on two workers and return the model, and CPU time and memory of the workers."""
    import dask.dataframe
    from distributed import Client, LocalCluster

    from skpref import GibbsM3F

    started = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
    with started as workers, Client(workers) as client:
        rows = dask.dataframe.read_parquet(folder)
        before, start = client.run(peak), sum(client.run(time.process_time).values())
        model = GibbsM3F(**settings).fit(rows)
        seconds = sum(client.run(time.process_time).values()) - start
        largest = max(value - before[worker] for worker, value in client.run(peak).items())
    return model, {"workers' CPU s": round(seconds, 1), "largest worker MB": round(largest)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ratings", nargs="+", type=int, default=[1_000_000])
    parser.add_argument("--factors", type=int, default=20)
    parser.add_argument("--where", nargs="+", default=["memory", "disk"])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(fit(*options.one, options.factors)))
        return
    for n_ratings in options.ratings:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), n_ratings)
            for where in options.where:
                command = [sys.executable, __file__, "--factors", str(options.factors), "--one", where, folder]
                answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                print(json.dumps({"ratings": n_ratings} | json.loads(answer.strip().splitlines()[-1])), flush=True)


if __name__ == "__main__":
    main()
