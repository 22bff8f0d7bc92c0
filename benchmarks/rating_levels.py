"""Ratings as levels: errors and probabilities of every estimator of ratings beside plain ones, in one run.

::

    python benchmarks/rating_levels.py ratings.csv other.csv [--splits 3] [--most 100000] [--rivals PYTHON]

A file has columns user, item and rating, with a line of names, any separator that pandas finds, and further columns
that are not read. Of each split a fifth of the ratings are tested, drawn at random. "shares" are the shares of the
levels in training, "user median" the median of the user's ratings. Median and mean are the absolute errors of the
median level and of the expected rating, in the unit of the ratings; a regression's probabilities are those of its
normal distribution between the middles of the levels. Seconds are of CPU, on one thread, without compilation. PYTHON is
the interpreter of an environment that has myFM: its ordered probit then runs too, 200 sweeps with 20 factors.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import norm
from sklearn.pipeline import make_pipeline

from skpref import GibbsIPM3F, GibbsM3F, OneHotDesign, VariationalFM, VariationalFMOrdinal

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[np.float64]
Data = tuple[npt.NDArray[Any], Array, npt.NDArray[Any]]  # pairs and ratings of training, pairs of test


def shares(data: Data) -> Array:
    """Shares of the levels, whoever rates what."""
    X, y, X_test = data
    _, count = np.unique(y, return_counts=True)
    return np.tile(count / len(X), (len(X_test), 1))


def user_median(data: Data) -> Array:
    """The median of the user's ratings, with certainty."""
    X, y, X_test = data
    median = pd.Series(y).groupby(X[:, 0]).median().reindex(X_test[:, 0]).fillna(np.median(y)).to_numpy()
    levels = np.unique(y)
    nearest = np.abs(median[:, None] - levels).argmin(axis=1)
    return np.eye(levels.size)[nearest]


def regression(data: Data) -> Array:
    """The normal distribution of a factorization machine, cut at the middles between the levels."""
    X, y, X_test = data
    mean, std = make_pipeline(OneHotDesign(), VariationalFM(random_state=0)).fit(X, y).predict(X_test, return_std=True)
    levels = np.unique(y)
    below = norm.cdf((0.5 * (levels[1:] + levels[:-1]) - mean[:, None]) / std[:, None])
    return np.diff(np.column_stack([np.zeros(len(mean)), below, np.ones(len(mean))]))


def classifier(model: Any) -> Callable[[Data], Array]:  # noqa: ANN401 - an estimator
    """Probabilities of an estimator."""
    return lambda data: model.fit(*data[:2]).predict_proba(data[2])


def ordered_probit(python: Path) -> Callable[[Data], Array]:
    """MyFM's ordered probit in its own environment; its seconds include the start of Python there."""
    script = Path(__file__).with_name("_ratings_rivals.py")

    def predict(data: Data) -> Array:
        with tempfile.TemporaryDirectory() as folder:
            given, out = Path(folder) / "given.npz", Path(folder) / "out.npz"
            np.savez(given, **dict(zip(("X", "y", "X_test"), data, strict=True)))
            subprocess.run([python, script, given, out, "myfm"], check=True, capture_output=True)
            return np.asarray(np.load(out)["p"])

    return predict


MODELS: dict[str, Callable[[Data], Array]] = {
    "shares": shares,
    "user median": user_median,
    "VariationalFM": regression,
    "VariationalFMOrdinal": classifier(make_pipeline(OneHotDesign(), VariationalFMOrdinal(random_state=0))),
    "VariationalFMOrdinal, 5, variational": classifier(
        make_pipeline(OneHotDesign(), VariationalFMOrdinal(5, inference="variational", random_state=0))
    ),
    "VariationalFMOrdinal, 10, variational": classifier(
        make_pipeline(OneHotDesign(), VariationalFMOrdinal(10, inference="variational", random_state=0))
    ),
    "VariationalFMOrdinal, 20, Gibbs": classifier(
        make_pipeline(OneHotDesign(), VariationalFMOrdinal(20, inference="gibbs", random_state=0))
    ),
    "GibbsM3F": classifier(GibbsM3F(random_state=0)),
    "GibbsM3F, C=0.1": classifier(GibbsM3F(C=0.1, random_state=0)),
    "GibbsIPM3F": classifier(GibbsIPM3F(random_state=0)),
}


def cpu_seconds() -> float:
    """CPU seconds of this process and of those that it started and that have ended."""
    usage = os.times()
    return usage.user + usage.system + usage.children_user + usage.children_system


def measures(p: Array, levels: Array, y: Array) -> dict[str, float]:
    """Errors of median and mean, log-loss, ranked probability score, and what the mean probabilities are off by."""
    place, row = np.searchsorted(levels, y), np.arange(y.size)
    below, mean = np.cumsum(p, axis=1), p @ levels
    median = levels[(below >= 0.5 - 1e-12).argmax(axis=1)]
    rps = ((below[:, :-1] - (place[:, None] <= np.arange(levels.size - 1))) ** 2).sum(axis=1)
    frequency = np.bincount(place, minlength=levels.size) / y.size
    rank = below[row, place] - np.random.default_rng(0).random(y.size) * p[row, place]
    return {
        "median": np.abs(median - y).mean(),
        "mean": np.abs(mean - y).mean(),
        "RMSE": np.sqrt(np.mean((mean - y) ** 2)),
        "log-loss": -np.log(np.maximum(p[row, place], 1e-300)).mean(),
        "RPS": rps.mean(),
        "off": 0.5 * np.abs(p.mean(axis=0) - frequency).sum(),
        "in 95 %": np.mean(np.abs(rank - 0.5) <= 0.475),
    }


def main() -> None:
    """Print a line for every file and model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument(
        "--most", type=int, default=100_000, help="ratings of each file, those of users drawn at random"
    )
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--rivals", type=Path, metavar="PYTHON", help="interpreter of an environment that has myFM")
    args = parser.parse_args()
    models = MODELS if args.rivals is None else {**MODELS, "myFM, ordered probit": ordered_probit(args.rivals)}
    warnings.simplefilter("ignore")  # of short chains
    for path in args.files:
        table = pd.read_csv(path, sep=None, engine="python").iloc[:, :3].set_axis(["user", "item", "rating"], axis=1)
        table = table.drop_duplicates(["user", "item"], keep="last")
        if len(table) > args.most:
            users = np.random.default_rng(0).permutation(table["user"].unique())
            total = table.groupby("user").size().loc[users].cumsum()
            table = table[table["user"].isin(total.index[total <= args.most])]
        X = np.column_stack([pd.factorize(table[column])[0] for column in ("user", "item")])
        y = table["rating"].to_numpy(dtype=np.float64)
        print(f"{path.name}: {y.size} ratings, {np.unique(X[:, 0]).size} users, {np.unique(X[:, 1]).size} items")
        for name in [*args.models, *list(models)[len(MODELS) :]]:
            results, seconds = [], 0.0
            models[name]((X[:500], y[:500], X[:5]))  # compiles
            for split in range(args.splits):
                test = np.random.default_rng(1000 + split).random(y.size) < 0.2
                levels = np.unique(y[~test])
                test &= np.isin(y, levels)
                start = cpu_seconds()
                p = models[name]((X[~test], y[~test], X[test]))
                seconds += (cpu_seconds() - start) / args.splits
                results.append(measures(p, levels, y[test]))
            line = "  ".join(f"{key} {np.mean([one[key] for one in results]):.4f}" for key in results[0])
            print(f"  {name:34s} {line}  {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
