"""Factorization machines on MovieLens and the elicitation task of [VRK22], tables III and IV.

    python benchmarks/factorization.py ratings RATINGS SPLIT [--n-factors 5 10] [--n-epochs 100] [--posterior full]
    python benchmarks/factorization.py ratings RATINGS SPLIT --implicit
    python benchmarks/factorization.py ratings RATINGS SPLIT --rivals VENV/bin/python   (with myFM: pip install myfm)
    python benchmarks/factorization.py scale --n-epochs 3
    python benchmarks/factorization.py elicit FOLDER [--n-factors 5]
    python benchmarks/factorization.py duolingo SAMPLE [--n-factors 0 5]

RATINGS is `ratings.csv.gz` (user,item,rating) or `u.data`, SPLIT one of `movielens/splits/*_8020_seed*` of the data;
FOLDER holds `movie10k_seed*.csv`, SAMPLE is `fr_en_sample_7933.csv.gz`. `movielens/README.md` of the data says how they
are made. One thread, CPU seconds.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import resource
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, average_precision_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder

from skpref import VariationalFM, VariationalFMClassifier
from skpref.data import OneHotDesign, feature_groups
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


def read_ratings(path: Path) -> IntArray:
    """User, item, rating, ..."""
    if path.name == "u.data":
        return np.loadtxt(path, dtype=np.int64)
    return pd.read_csv(path).to_numpy(dtype=np.int64)


def ratings(path: Path, split: Path, options: dict[str, Any], *, implicit: bool) -> None:
    """Regression, and classification of ratings of 4 and more."""
    table, test = read_ratings(path), np.loadtxt(split, dtype=int) == 2
    y = table[:, 2]
    design = OneHotDesign(implicit=implicit).fit(table[~test, :2])
    train, held = (design.transform(table[rows, :2]) for rows in (~test, test))
    options |= {"groups": design.groups_, "random_state": 0}
    name = f"{split.name.removesuffix('.txt.gz')} {options['posterior']} rank {options['n_factors']}"
    name += " implicit" if implicit else ""
    # Compiled and read from disk before the clock runs.
    for make in (VariationalFM, VariationalFMClassifier):
        make(**options | {"max_iter": 1}).fit(train[:200], y[~test][:200] >= 4)
    began = time.process_time()
    model = VariationalFM(**options).fit(train, y[~test])
    seconds = time.process_time() - began
    mean, std = model.predict(held, return_std=True)
    found = {"RMSE": float(np.sqrt(np.mean((np.clip(mean, 1, 5) - y[test]) ** 2)))}
    for level in (0.5, 0.8, 0.95):
        found[f"in {level:.0%}"] = float(np.mean(np.abs(y[test] - mean) < norm.ppf(0.5 + level / 2) * std))
    show(f"{name} regression", found, seconds, model.n_iter_)
    likes, began = (y >= 4).astype(int), time.process_time()
    classifier = VariationalFMClassifier(**options).fit(train, likes[~test])
    seconds = time.process_time() - began
    p = classifier.predict_proba(held)[:, 1]
    show(f"{name} binary", classification(likes[test], p), seconds, classifier.n_iter_)
    bins = np.minimum((10 * p).astype(int), 9)
    rows = [f"{p[bins == b].mean():.2f}->{likes[test][bins == b].mean():.2f}" for b in np.unique(bins)]
    print(f"{name} probability->frequency: {' '.join(rows)}", flush=True)


def rivals(path: Path, split: Path, n_factors: int, python: str) -> None:
    """MyFM in its own environment, and logistic regression without factors."""
    table, test = read_ratings(path), np.loadtxt(split, dtype=int) == 2
    (users, u), (items, i) = (np.unique(table[:, c], return_inverse=True) for c in (0, 1))
    X, y = one_hot(u, i, users.size, items.size), table[:, 2]
    name, likes, began = f"{split.name.removesuffix('.txt.gz')}", (y >= 4).astype(int), time.process_time()
    logistic = LogisticRegression(max_iter=200).fit(X[~test], likes[~test])
    seconds = time.process_time() - began
    p = logistic.predict_proba(X[test])[:, 1]
    show(f"{name} logistic regression binary", classification(likes[test], p), seconds, int(logistic.n_iter_[0]))
    with TemporaryDirectory() as folder:
        data, out = Path(folder, "data.npz"), Path(folder, "out.npz")
        np.savez(data, u=u, i=i, y=y, test=test)
        script = Path(__file__).with_name("_factorization_myfm.py")
        for kind in ("variational", "gibbs"):
            subprocess.run([python, str(script), str(data), str(out), kind, str(n_factors)], check=True)
            found = np.load(out)
            rmse = {"RMSE": float(np.sqrt(np.mean((np.clip(found["mean"], 1, 5) - y[test]) ** 2)))}
            show(f"{name} myFM {kind} rank {n_factors} regression", rmse, *found["cost"][0])
            if "p" in found:
                what = classification(likes[test], found["p"])
                show(f"{name} myFM {kind} rank {n_factors} binary", what, *found["cost"][1])


def scale(n_factors: int, max_iter: int) -> None:
    """Seconds a pass and memory beyond X for up to 20 million rows and 150 thousand columns."""
    for n in (1_250_000, 5_000_000, 20_000_000):
        rng = np.random.default_rng(0)
        u, i = np.sort(rng.integers(0, 130_000, n)), (20_000 * rng.random(n) ** 2).astype(np.int64)
        X, y = one_hot(u, i, 130_000, 20_000), rng.standard_normal(n)
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        del u, i
        size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes) / 2**30
        began, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        VariationalFM(n_factors, max_iter=max_iter, random_state=0).fit(X, y)
        seconds = time.process_time() - began
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{n:,} rows rank {n_factors}: {seconds:.1f} s, {max_iter} passes; X and y {size:.2f} GiB, peak before fit"
            f" {peak:.2f}, after {grown:.2f}",
            flush=True,
        )


def show(what: str, found: dict[str, float], seconds: float, n_iter: float) -> None:
    """One line."""
    numbers = "  ".join(f"{name} {value:.4f}" for name, value in found.items())
    print(f"{what}: {numbers}  {seconds:.1f} s, {n_iter:.0f} passes", flush=True)


def duolingo(path: Path, n_factors: int) -> None:
    """Probability that a learner gets a word right, from learner, word and format; mean (sd) over ten splits."""
    table = pd.read_csv(path)
    encoder = OneHotEncoder(handle_unknown="ignore").fit(table[["user_id", "token", "format"]])
    X, y = encoder.transform(table[["user_id", "token", "format"]]), 1 - table["label"].to_numpy()
    machine = VariationalFMClassifier(n_factors, groups=feature_groups(encoder), random_state=0)
    models = {f"rank {n_factors}": machine, "logistic regression": LogisticRegression(max_iter=500)}
    for name, model in models.items():
        found, began = [], time.process_time()
        for seed in range(10):
            parts = train_test_split(X, y, test_size=0.2, random_state=seed, stratify=y)
            p = model.fit(parts[0], parts[2]).predict_proba(parts[1])[:, 1]
            found.append([*classification(parts[3], p).values(), log_loss(parts[3], p)])
        mean, sd = np.mean(found, axis=0), np.std(found, axis=0)
        named = zip(("accuracy", "AUC", "MAP", "log-loss"), mean, sd, strict=True)
        numbers = "  ".join(f"{what} {m:.4f} ({s:.4f})" for what, m, s in named)
        print(f"duolingo sample {name}: {numbers}  {(time.process_time() - began) / 10:.2f} s", flush=True)


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
    parser.add_argument("task", choices=["ratings", "elicit", "scale", "duolingo"])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--n-factors", nargs="+", type=int, default=[5])
    parser.add_argument("--n-epochs", type=int, default=100)
    parser.add_argument("--posterior", default="full")
    parser.add_argument("--implicit", action="store_true")
    parser.add_argument("--rivals", metavar="PYTHON")
    args = parser.parse_args()
    for n_factors in args.n_factors:
        if args.task == "ratings":
            options = {"n_factors": n_factors, "max_iter": args.max_iter, "posterior": args.posterior}
            ratings(*args.paths, options, implicit=args.implicit)
            if args.rivals:
                rivals(*args.paths, n_factors, args.rivals)
            continue
        if args.task == "scale":
            scale(n_factors, args.max_iter)
            continue
        if args.task == "duolingo":
            duolingo(*args.paths, n_factors)
            continue
        runs = [elicit(path, n_factors) for path in sorted(args.paths[0].glob("movie10k_seed*.csv"))]
        for strategy in STRATEGIES:
            auc = np.array([run[strategy] for run in runs])
            steps = "  ".join(f"{m:.3f}+-{s:.3f}" for m, s in zip(auc.mean(axis=0), auc.std(axis=0), strict=True))
            print(f"rank {n_factors} {strategy:12s} AUC after 0, 4, ..., 20: {steps}", flush=True)


if __name__ == "__main__":
    main()
