"""Gaussian-process classification on the sets of ``$SKPREF_SHARED/data/gp`` (their splits), side by side in one run.

For each set and model: share of wrong classes and mean negative log probability of the test rows of the first splits,
CPU seconds of the fit, processes started for it included, one thread each::

    python benchmarks/classification.py --sets pima,banana5300 --models gpytorch,ours
    python benchmarks/classification.py --sets letter --models neighbours,svc,boosting,ours --jobs 2
    python benchmarks/classification.py --folder FOLDER --sets vowel,ecoli --models logistic,svc,boosting,ours
    SKPREF_GPYTORCH_STEPS=1000 python benchmarks/classification.py --splits 1 --out classification.json

``gpytorch`` is its SVGP behind a probit in an environment of its own (``_gpytorch.py``; two classes), ``exact``
scikit-learn's `GaussianProcessClassifier` (Laplace; fewer than 1,000 training rows), ``ours`` `SVGPClassifier` as it
comes; yardsticks of scikit-learn are ``logistic`` regression, five nearest ``neighbours``, a support-vector machine
with calibrated probabilities (``svc``) and gradient ``boosting``.  Gaussian processes have an amplitude times the
squared exponential with a length-scale a feature, the sparse ones the same number of inducing points.  ``letter`` has
26 classes; ``letter-halves`` is A-M against N-Z, ``letter-H`` (or another one) that letter against all others.

With ``--folder`` sets are tables in CSV or ARFF files there, whose last column is the class, or `iris`, `wine` and
`digits` of scikit-learn, split at random with the same shares of the classes into at most 1,000 training rows (seven
tenths) and at most 2,000 test rows. At the end stand differences to ``ours`` in error and log-loss with standard errors
over the test rows of all splits. ``CLASSES`` were named before any model saw them, and the defaults were fixed before
their only run: vehicle to seeds from Haifei-ZHANG/Probability-Sets-Model, page-blocks and pendigits from
genyang/datasets, both on GitHub. Calibration is the expected error of the confidence in ten bins.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import regression  # isort: skip  # it sets the number of threads, hence before numpy
import numpy as np
import pandas as pd
from joblib.externals.loky import get_reusable_executor
from regression import DATA, GPYTORCH_PYTHON, GPYTORCH_STEPS, Array, Split, table
from sklearn import datasets
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.base import ClassifierMixin

#: Sets, and how many of their splits are run.
SETS = {"banana400": 3, "pima": 3, "ionosphere": 3, "banana5300": 3, "letter-H": 1, "letter-halves": 1, "letter": 1}
#: Sets of more than two classes in a folder.
CLASSES = (
    *("vehicle", "vowel", "segment", "glass", "ecoli", "yeast", "dermatology", "optdigits", "libras", "forest"),
    *("seeds", "page-blocks", "pendigits"),
)
MOST_ROWS, MOST_TEST_ROWS, LEAST_OF_A_CLASS = 1000, 2000, 5
MOST_EXACT = 1000
#: Letters up to M are one class.
_HALF = 13


class Said(NamedTuple):
    """Probabilities of the classes, shape (n, n_classes), and CPU seconds."""

    probability: Array
    cpu_seconds: float


def load_file(name: str, number: int, folder: Path) -> Split:
    """One random split of one set of a folder or of scikit-learn, features standardised by the training rows."""
    path = next((folder / f"{name}{end}" for end in (".csv", ".arff") if (folder / f"{name}{end}").exists()), None)
    if path is None:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    else:
        lines = [line.strip() for line in path.read_text().splitlines() if line.strip() and line[0] not in "%@"]
        rows = pd.DataFrame([line.split(",") for line in lines])
        header = path.suffix == ".csv" and not lines[0][0].isdigit()
        X, y = rows.iloc[int(header) :, :-1].to_numpy(dtype=float), rows.iloc[int(header) :, -1].str.strip().to_numpy()
    _, y, counts = np.unique(y, return_inverse=True, return_counts=True)
    often = counts[y] >= LEAST_OF_A_CLASS  # a split needs some rows of every class
    X, y = X[often], np.unique(y[often], return_inverse=True)[1]
    size = min(MOST_ROWS, int(0.7 * len(y)))
    train, test = train_test_split(np.arange(len(y)), train_size=size, stratify=y, random_state=number)
    mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - mean) / np.where(scale > 0.0, scale, 1.0)
    return Split(X[train], y[train].astype(float), X[test[:MOST_TEST_ROWS]], y[test[:MOST_TEST_ROWS]].astype(float))


def load(name: str, number: int, folder: Path | None = None) -> Split:
    """One split of one set, features standardised by the training rows, y in {0, 1, ...}."""
    if folder is not None:
        return load_file(name, number, folder)
    home, _, part = name.partition("-")
    rows = table(DATA / home / "data.csv.gz")
    test = table(DATA / home / "splits.csv.gz").reshape(len(rows), -1)[:, number] == 1.0
    X, y = rows[:, :-1], rows[:, -1]
    if part:
        y = (y >= _HALF if part == "halves" else y == ord(part) - ord("A")).astype(float)
    mean, scale = X[~test].mean(axis=0), X[~test].std(axis=0)
    X = (X - mean) / np.where(scale > 0.0, scale, 1.0)
    return Split(X[~test].copy(), y[~test].copy(), X[test].copy(), y[test].copy())


# ------------------------------------------------------------------------------ models
def _cpu_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _fitted(model: ClassifierMixin, split: Split) -> Said:
    start = _cpu_seconds()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # a constant column
        model.fit(split.X, split.y)
    if getattr(model, "n_jobs", None):
        get_reusable_executor().shutdown()  # its processes' seconds count once they have ended
    cpu_seconds = _cpu_seconds() - start
    return Said(model.predict_proba(split.X_test), cpu_seconds)


def ours(split: Split, n_inducing: int | str, n_jobs: int) -> Said:
    from skpref import SVGPClassifier

    return _fitted(SVGPClassifier(inducing=n_inducing, random_state=0, n_jobs=n_jobs), split)


def one_vs_rest(split: Split, n_inducing: int | str, n_jobs: int) -> Said:
    from skpref import SVGPClassifier

    model = SVGPClassifier(multi_class="one_vs_rest", inducing=n_inducing, random_state=0, n_jobs=n_jobs)
    return _fitted(model, split)


def exact(split: Split, n_inducing: int | str, n_jobs: int) -> Said | None:
    del n_inducing, n_jobs
    n, d = split.X.shape
    if n > MOST_EXACT:
        return None
    kernel = ConstantKernel(1.0, (1e-4, 1e4)) * RBF(np.full(d, d**0.5), (1e-2, 1e4))
    return _fitted(GaussianProcessClassifier(kernel), split)


def yardstick(model: ClassifierMixin) -> Callable[[Split, int | str, int], Said]:
    """Fit a classifier of scikit-learn."""
    return lambda split, n_inducing, n_jobs: _fitted(clone(model), split)  # noqa: ARG005


def gpytorch(split: Split, n_inducing: int | str, n_jobs: int) -> Said | None:
    del n_jobs
    if not GPYTORCH_PYTHON.exists() or split.y.max() > 1.0:
        return None
    n_inducing = 300 if isinstance(n_inducing, str) else n_inducing
    said = regression.ask_gpytorch(split, n_inducing, GPYTORCH_STEPS, classes=True)
    return Said(np.column_stack([1.0 - said["mean"], said["mean"]]), float(said["cpu_seconds"]))


MODELS = {
    "logistic": yardstick(LogisticRegression(max_iter=1000)),
    "neighbours": yardstick(KNeighborsClassifier()),
    "svc": yardstick(CalibratedClassifierCV(SVC(C=10.0), ensemble=False)),
    "boosting": yardstick(HistGradientBoostingClassifier(random_state=0)),
    "gpytorch": gpytorch,
    "exact": exact,
    "one-vs-rest": one_vs_rest,
    "ours": ours,
}


# ------------------------------------------------------------------------------ scores
def calibration_error(probability: Array, label: Array) -> float:
    """Mean difference between confidence and share of right answers in ten bins of the confidence."""
    confidence, right = probability.max(axis=1), probability.argmax(axis=1) == label
    place = np.minimum((10.0 * confidence).astype(int), 9)
    sums = [np.bincount(place, values, 10) for values in (confidence, right)]
    return float(np.abs(sums[0] - sums[1]).sum() / len(label))


def run(
    rows: list[dict[str, Any]],
    name: str,
    number: int,
    model: str,
    sizes: tuple[int | str, int],
    folder: Path | None = None,
) -> None:
    """Fit and score what the rows have not got."""
    key = {"set": name, "split": number, "model": model, "n_inducing": sizes[0]}
    if any(key.items() <= row.items() for row in rows):
        return
    split = load(name, number, folder)
    start = time.perf_counter()
    said = MODELS[model](split, *sizes)
    if said is None:
        return
    label = split.y_test.astype(int)
    right = said.probability[np.arange(len(label)), label]
    wrong = (said.probability.argmax(axis=1) != label).astype(float)
    losses = -np.log(np.maximum(right, np.finfo(float).tiny))  # neighbours may be sure and wrong
    row = key | {
        "n": len(split.y),
        "classes": said.probability.shape[1],
        "error": float(wrong.mean()),
        "log_loss": float(losses.mean()),
        "calibration": calibration_error(said.probability, label),
        "cpu_seconds": said.cpu_seconds,
        "seconds": time.perf_counter() - start,
    }
    if folder is not None:
        row |= {"wrong": wrong.tolist(), "losses": losses.round(5).tolist()}
    rows.append(row)
    print(f"# {name} {number} {model}: {row['error']:.4f} {row['log_loss']:.4f} {said.cpu_seconds:.1f} s", flush=True)


def show(rows: list[dict[str, Any]]) -> None:
    """Means over the splits that all models of a set have."""
    heads = ("splits", "error", "-log p", "calibr.", "CPU s")
    print(f"\n{'set':12} {'n':>6} {'model':11} " + " ".join(f"{head:>8}" for head in heads))
    for name in dict.fromkeys(row["set"] for row in rows):
        here = [row for row in rows if row["set"] == name]
        models = [model for model in MODELS if any(row["model"] == model for row in here)]
        shared = set.intersection(*({r["split"] for r in here if r["model"] == m} for m in models)) if models else set()
        for model in models:
            own = [row for row in here if row["model"] == model and row["split"] in shared]
            if own:
                keys = ("error", "log_loss", "calibration", "cpu_seconds")
                means = [statistics.fmean(row.get(k, np.nan) for row in own) for k in keys]
                text = "{:8.4f} {:8.4f} {:8.4f} {:8.1f}".format(*means)
                print(f"{name:12} {own[0]['n']:6d} {model:11} {len(own):8d} {text}")


def compare(rows: list[dict[str, Any]]) -> None:
    """Differences of the other models to ours with their standard errors, and where ours is behind by more than one."""
    print(f"\n{'set':12} {'model':11} {'error':>18} {'log-loss':>18}")
    models = [model for model in MODELS if model != "ours"]
    for name in dict.fromkeys(row["set"] for row in rows):
        own = {row["split"]: row for row in rows if row["set"] == name and row["model"] == "ours"}
        for model in models:
            pairs = [(row, own[row["split"]]) for row in rows if (row["set"], row["model"]) == (name, model)]
            parts = []
            for key in ("wrong", "losses") if pairs else ():
                d = np.concatenate([np.subtract(other[key], ours_[key]) for other, ours_ in pairs])
                mean, error = d.mean(), d.std() / np.sqrt(len(d))
                parts.append(f"{mean:+8.4f} ({error:.4f}){'*' if mean < -error else ' '}")
            if parts:
                print(f"{name:12} {model:11} {parts[0]:>18} {parts[1]:>18}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS), help="sets, separated by commas")
    parser.add_argument("--models", default=",".join(MODELS), help="models, separated by commas")
    parser.add_argument("--splits", type=int, help="splits a set; the default differs between sets")
    parser.add_argument("--inducing", default="auto", help="inducing points, a number or auto")
    parser.add_argument("--folder", type=Path, help="folder of sets in files")
    parser.add_argument("--jobs", type=int, default=1, help="processes for many classes (ours)")
    parser.add_argument("--out", type=Path, help="file that keeps the results")
    given = parser.parse_args()
    n_inducing = given.inducing if given.inducing == "auto" else int(given.inducing)
    rows: list[dict[str, Any]] = json.loads(given.out.read_text()) if given.out and given.out.exists() else []
    for name in given.sets.split(","):
        for number in range(given.splits or (3 if given.folder else SETS.get(name, 1))):
            for model in given.models.split(","):
                run(rows, name, number, model, (n_inducing, given.jobs), given.folder)
                if given.out:
                    given.out.write_text(json.dumps(rows, indent=1) + "\n")
    show(rows)
    if given.folder:
        compare(rows)


if __name__ == "__main__":
    main()
