"""`BayesianGPLVM` on the oil-flow data: nearest-neighbour errors in the latent space beside principal components.

::

    python benchmarks/latent.py                    # one thread; set NUMBA_NUM_THREADS for more
    python benchmarks/latent.py --seeds 0,1,2

A row is an error if its nearest other row is of another kind of flow. Labels are not used by the fit.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.neighbors import NearestNeighbors

from skpref import BayesianGPLVM

SHARED = Path(os.environ.get("SKPREF_SHARED") or Path(__file__).resolve().parents[2] / "shared")


def errors(points: npt.NDArray[np.float64], label: npt.NDArray[np.int64]) -> int:
    """Rows whose nearest other row has another label."""
    nearest = NearestNeighbors(n_neighbors=1).fit(points).kneighbors(return_distance=False)[:, 0]
    return int(np.sum(label[nearest] != label))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--inducing", type=int, default=50)
    parser.add_argument("--max-iter", type=int, default=1000)
    args = parser.parse_args()
    table = pd.read_csv(SHARED / "data/gp/oilflow/data.csv.gz")
    label, X = table.pop("label").to_numpy(), table.to_numpy()
    Y = X - X.mean(axis=0)
    left, size, _ = np.linalg.svd(Y, full_matrices=False)
    print(
        f"principal components: {[errors(left[:, :q] * size[:q], label) for q in (1, 2, 3, 12)]} errors in 1, 2, 3, all"
    )
    for seed in map(int, args.seeds.split(",")):
        start, work = time.perf_counter(), time.process_time()
        model = BayesianGPLVM(10, inducing=args.inducing, max_iter=args.max_iter, random_state=seed).fit(X)
        seconds, work = time.perf_counter() - start, time.process_time() - work
        found = [errors(model.embedding_[:, :q], label) for q in (1, 2, 3)]
        scaled = errors(model.embedding_ / model.length_scale_, label)
        print(
            f"seed {seed}: {found} errors in 1, 2, 3, {scaled} in all by length-scale; bound {model.lower_bound_:.0f}, "
            f"{model.n_iter_} iterations, {seconds:.0f} s ({work:.0f} s of CPU); noise {model.noise_:.4f}, "
            f"relevance {model.relevance_.round(5)}, median deviation {np.median(model.embedding_std_, 0).round(4)}",
            flush=True,
        )
