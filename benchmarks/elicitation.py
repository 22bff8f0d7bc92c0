"""Elicitation on the 100 x 100 task of [VRK22]: which films has a person rated? Asked about four others at a time.

usage: elicitation.py FOLDER [--n-factors 5 10] [--models 3] [--more 20 --ratings ratings.csv.gz]

FOLDER holds `movie10k_seed*.csv`; `movielens/README.md` of the data says how they and `ratings.csv.gz` are made. --more
draws further matrices by the same rule, of which the paired differences to random are told. One thread.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.pipeline import make_pipeline

from skpref import VariationalFMClassifier
from skpref.data import OneHotDesign
from skpref.elicitation import STRATEGIES, Session, replay

Array = npt.NDArray[np.float64]


class Matrix(NamedTuple):
    """Who rated what; people to ask; items to predict."""

    rated: npt.NDArray[np.int64]
    people: npt.NDArray[np.bool_]
    held: npt.NDArray[np.bool_]


def read(path: Path) -> Matrix:
    """One of the five."""
    table = pd.read_csv(path)
    people = table.iloc[1:, 1].to_numpy(dtype=int) == 1
    return Matrix(table.iloc[1:, 2:].to_numpy(dtype=int), people, table.iloc[0, 2:].to_numpy(dtype=int) == 1)


def drawn(ratings: Path, seed: int) -> Matrix:
    """Another one: 100 users with at least one, but not all, of the 100 films rated most."""
    given = pd.read_csv(ratings)[["user", "item"]].to_numpy()
    count = np.bincount(given[:, 1])
    items = np.sort(np.lexsort((np.arange(len(count)), -count))[:100])
    given = given[np.isin(given[:, 1], items)]
    number = np.bincount(given[:, 0])
    rng = np.random.default_rng(seed)
    users = np.sort(rng.choice(np.flatnonzero((number >= 1) & (number < 100)), 100, replace=False))
    given = given[np.isin(given[:, 0], users)]
    rated = np.zeros((100, 100), dtype=np.int64)
    rated[np.searchsorted(users, given[:, 0]), np.searchsorted(items, given[:, 1])] = 1
    people, held = np.zeros(100, dtype=bool), np.zeros(100, dtype=bool)
    people[rng.choice(100, 20, replace=False)] = True
    held[rng.choice(100, 50, replace=False)] = True
    return Matrix(rated, people, held)


def run(matrix: Matrix, n_factors: int, seed: int) -> dict[str, Array]:
    """AUC after 0, 4, ..., 20 questions, by strategy."""
    known = np.flatnonzero(~matrix.people)
    pairs = np.column_stack([np.repeat(known, 100), np.tile(np.arange(100), known.size)])
    design = OneHotDesign()
    groups = design.fit(pairs).groups_
    machine = VariationalFMClassifier(n_factors, groups=groups, random_state=seed)
    model = make_pipeline(design, machine).fit(pairs, matrix.rated[known].ravel())

    session = Session(model)

    def start(person: int, strategy: str, of_run: int) -> Session:
        return session.fresh(strategy, random_state=1000 * of_run + person)

    found = replay(start, matrix.rated[matrix.people], matrix.held, seeds=(seed,))
    return {strategy: scores[0] for strategy, scores in found.scores.items()}


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--n-factors", nargs="+", type=int, default=[5])
    parser.add_argument("--models", type=int, default=1, help="starts of the machine for each matrix (default: 1)")
    parser.add_argument("--more", type=int, default=0, help="further matrices")
    parser.add_argument("--ratings", type=Path, help="ratings.csv.gz of ML-1M, for --more")
    args = parser.parse_args()
    matrices = [read(path) for path in sorted(args.folder.glob("movie10k_seed*.csv"))]
    if args.more:
        matrices = [drawn(args.ratings, seed) for seed in range(5, 5 + args.more)]
    for n_factors in args.n_factors:
        began = time.process_time()
        runs = [[run(matrix, n_factors, seed) for seed in range(args.models)] for matrix in matrices]
        auc = {s: np.array([[one[s] for one in of_one] for of_one in runs]).mean(axis=1) for s in STRATEGIES}
        print(
            f"rank {n_factors}, {len(matrices)} matrices, {args.models} starts, {time.process_time() - began:.0f} s CPU"
        )
        for strategy, table in auc.items():
            steps = "  ".join(f"{m:.3f}+-{s:.3f}" for m, s in zip(table.mean(axis=0), table.std(axis=0), strict=True))
            apart = table - auc["random"]
            error = apart.std(axis=0, ddof=1) / np.sqrt(len(table))
            print(f"  {strategy:12s} AUC after 0, 4, ..., 20: {steps}")
            print(
                f"  {'':12s} less random, after 4 and 20: {apart[:, 1].mean():+.3f} ({error[1]:.3f})"
                f"  {apart[:, 5].mean():+.3f} ({error[5]:.3f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
