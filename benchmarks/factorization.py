"""Factorization machines on MovieLens and the elicitation task of [VRK22], tables III and IV.

    python benchmarks/factorization.py ratings RATINGS SPLIT [--n-factors 5 10] [--n-epochs 100]
    python benchmarks/factorization.py elicit FOLDER [--n-factors 5]

RATINGS is `ratings.csv.gz` (user,item,rating) or `u.data`, SPLIT one of `shared/data/movielens/splits/*_8020_seed*`;
FOLDER holds `movie10k_seed*.csv`. `shared/data/movielens/README.md` says how they are made. One thread, CPU seconds.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from scipy.stats import norm
from sklearn.metrics import accuracy_score, average_precision_score, roc_auc_score

from skpref import VariationalFM, VariationalFMClassifier
from skpref.elicitation import STRATEGIES, Session

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def one_hot(u: IntArray, i: IntArray, n_users: int, n_items: int) -> sparse.csr_array:
    """A column a user and a column an item."""
    n = u.size
    entries = np.ones(2 * n), np.column_stack([u, n_users + i]).ravel(), np.arange(0, 2 * n + 1, 2)
    return sparse.csr_array(entries, (n, n_users + n_items))


def classification(y: IntArray, p: Array) -> dict[str, float]:
    """The paper's three measures."""
    return {
        "accuracy": accuracy_score(y, p > 0.5),
        "AUC": roc_auc_score(y, p),
        "MAP": average_precision_score(y, p),
    }


def ratings(path: Path, split: Path, n_factors: int, n_epochs: int) -> None:
    """Regression, and classification of ratings of 4 and more."""
    if path.name == "u.data":
        table = np.loadtxt(path, dtype=np.int64)
    else:
        table = pd.read_csv(path).to_numpy(dtype=np.int64)
    (users, u), (items, i) = (np.unique(table[:, c], return_inverse=True) for c in (0, 1))
    X, y = one_hot(u, i, users.size, items.size), table[:, 2]
    test, groups = np.loadtxt(split, dtype=int) == 2, np.repeat([0, 1], [users.size, items.size])
    options = {"n_factors": n_factors, "n_epochs": n_epochs, "groups": groups, "random_state": 0}
    began = time.process_time()
    model = VariationalFM(**options).fit(X[~test], y[~test])
    seconds = time.process_time() - began
    mean, std = model.predict(X[test], return_std=True)
    found = {"RMSE": float(np.sqrt(np.mean((np.clip(mean, 1, 5) - y[test]) ** 2)))}
    for level in (0.5, 0.8, 0.95):
        found[f"in {level:.0%}"] = float(np.mean(np.abs(y[test] - mean) < norm.ppf(0.5 + level / 2) * std))
    show(f"{split.name} rank {n_factors} regression", found, seconds, model.n_iter_)
    likes, began = (y >= 4).astype(int), time.process_time()
    classifier = VariationalFMClassifier(**options).fit(X[~test], likes[~test])
    seconds = time.process_time() - began
    found = classification(likes[test], classifier.predict_proba(X[test])[:, 1])
    show(f"{split.name} rank {n_factors} binary", found, seconds, classifier.n_iter_)


def show(what: str, found: dict[str, float], seconds: float, n_iter: int) -> None:
    """One line."""
    numbers = "  ".join(f"{name} {value:.4f}" for name, value in found.items())
    print(f"{what}: {numbers}  {seconds:.1f} s, {n_iter} passes", flush=True)


def elicit(path: Path, n_factors: int) -> dict[str, Array]:
    """AUC on the validation items after 0, 4, ..., 20 questions to each of 20 people, by strategy."""
    table = pd.read_csv(path)
    valid = table.iloc[0, 2:].to_numpy(dtype=int) == 1
    people, R = table.iloc[1:, 1].to_numpy(dtype=int) == 1, table.iloc[1:, 2:].to_numpy(dtype=int)
    n_users, n_items = R.shape
    u, i = np.indices(R.shape).reshape(2, -1)
    X, y = one_hot(u, i, n_users, n_items), R.ravel()
    groups = np.repeat(["user", "item"], [n_users, n_items])
    model = VariationalFMClassifier(n_factors=n_factors, groups=groups, random_state=0)
    model.fit(X[~people[u]], y[~people[u]])
    found: dict[str, Array] = {}
    for strategy in STRATEGIES:
        p, truth = np.empty((6, people.sum(), valid.sum())), R[people][:, valid]
        for row, person in enumerate(np.flatnonzero(people)):
            pool, held = person * n_items + np.flatnonzero(~valid), person * n_items + np.flatnonzero(valid)
            session = Session(model, X[pool], strategy, freeze="item", random_state=person)
            p[0, row] = session.model_.predict_proba(X[held])[:, 1]
            for batch in range(1, 6):
                session.tell({int(q): y[pool[q]] for q in session.ask(4)})
                p[batch, row] = session.model_.predict_proba(X[held])[:, 1]
        found[strategy] = np.array([roc_auc_score(truth.ravel(), step.ravel()) for step in p])
    return found


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["ratings", "elicit"])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--n-factors", nargs="+", type=int, default=[5])
    parser.add_argument("--n-epochs", type=int, default=100)
    args = parser.parse_args()
    for n_factors in args.n_factors:
        if args.task == "ratings":
            ratings(*args.paths, n_factors, args.n_epochs)
            continue
        runs = [elicit(path, n_factors) for path in sorted(args.paths[0].glob("movie10k_seed*.csv"))]
        for strategy in STRATEGIES:
            auc = np.array([run[strategy] for run in runs])
            steps = "  ".join(f"{m:.3f}+-{s:.3f}" for m, s in zip(auc.mean(axis=0), auc.std(axis=0), strict=True))
            print(f"rank {n_factors} {strategy:12s} AUC after 0, 4, ..., 20: {steps}", flush=True)


if __name__ == "__main__":
    main()
