"""Gaussian-process classification on the sets of ``$SKPREF_SHARED/data/gp`` (their splits), side by side in one run.

For each set and model: share of wrong classes and mean negative log probability of the test rows of the first splits,
CPU seconds of the fit, processes started for it included, one thread each::

    python benchmarks/classification.py --sets pima,banana5300 --models gpytorch,ours
    python benchmarks/classification.py --sets letter --models neighbours,svc,boosting,ours --jobs 2
    SKPREF_GPYTORCH_STEPS=1000 python benchmarks/classification.py --splits 1 --out classification.json

``gpytorch`` is its SVGP behind a probit in an environment of its own (``_gpytorch.py``; two classes), ``exact``
scikit-learn's `GaussianProcessClassifier` (Laplace; fewer than 1,000 training rows), ``ours`` `SVGPClassifier` as it
comes; yardsticks of scikit-learn are ``logistic`` regression, five nearest ``neighbours``, a support-vector machine
with calibrated probabilities (``svc``) and gradient ``boosting``.  Gaussian processes have an amplitude times the
squared exponential with a length-scale a feature, the sparse ones the same number of inducing points.  ``letter`` has
26 classes; ``letter-halves`` is A-M against N-Z, ``letter-H`` (or another one) that letter against all others.
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
from joblib.externals.loky import get_reusable_executor
from regression import DATA, GPYTORCH_PYTHON, GPYTORCH_STEPS, Array, Split, table
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.base import ClassifierMixin

#: Sets, and how many of their splits are run.
SETS = {"banana400": 3, "pima": 3, "ionosphere": 3, "banana5300": 3, "letter-H": 1, "letter-halves": 1, "letter": 1}
MOST_EXACT = 1000
#: Letters up to M are one class.
_HALF = 13


class Said(NamedTuple):
    """Probabilities of the classes, shape (n, n_classes), and CPU seconds."""

    probability: Array
    cpu_seconds: float


def load(name: str, number: int) -> Split:
    """One split of one set, features standardised by the training rows, y in {0, 1, ...}."""
    folder, _, part = name.partition("-")
    rows = table(DATA / folder / "data.csv.gz")
    test = table(DATA / folder / "splits.csv.gz").reshape(len(rows), -1)[:, number] == 1.0
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


def ours(split: Split, n_inducing: int, n_jobs: int) -> Said:
    from skpref import SVGPClassifier

    return _fitted(SVGPClassifier(n_inducing=n_inducing, random_state=0, n_jobs=n_jobs), split)


def exact(split: Split, n_inducing: int, n_jobs: int) -> Said | None:
    del n_inducing, n_jobs
    n, d = split.X.shape
    if n > MOST_EXACT:
        return None
    kernel = ConstantKernel(1.0, (1e-4, 1e4)) * RBF(np.full(d, d**0.5), (1e-2, 1e4))
    return _fitted(GaussianProcessClassifier(kernel), split)


def yardstick(model: ClassifierMixin) -> Callable[[Split, int, int], Said]:
    """Fit a classifier of scikit-learn."""
    return lambda split, n_inducing, n_jobs: _fitted(clone(model), split)  # noqa: ARG005


def gpytorch(split: Split, n_inducing: int, n_jobs: int) -> Said | None:
    del n_jobs
    if not GPYTORCH_PYTHON.exists() or split.y.max() > 1.0:
        return None
    said = regression.ask_gpytorch(split, n_inducing, GPYTORCH_STEPS, classes=True)
    return Said(np.column_stack([1.0 - said["mean"], said["mean"]]), float(said["cpu_seconds"]))


MODELS = {
    "logistic": yardstick(LogisticRegression(max_iter=1000)),
    "neighbours": yardstick(KNeighborsClassifier()),
    "svc": yardstick(CalibratedClassifierCV(SVC(C=10.0), ensemble=False)),
    "boosting": yardstick(HistGradientBoostingClassifier(random_state=0)),
    "gpytorch": gpytorch,
    "exact": exact,
    "ours": ours,
}


# ------------------------------------------------------------------------------ scores
def run(rows: list[dict[str, Any]], name: str, number: int, model: str, sizes: tuple[int, int]) -> None:
    """Fit and score what the rows have not got."""
    key = {"set": name, "split": number, "model": model, "n_inducing": sizes[0]}
    if any(key.items() <= row.items() for row in rows):
        return
    split = load(name, number)
    start = time.perf_counter()
    said = MODELS[model](split, *sizes)
    if said is None:
        return
    label = split.y_test.astype(int)
    right = said.probability[np.arange(len(label)), label]
    row = key | {
        "n": len(split.y),
        "error": float(np.mean(said.probability.argmax(axis=1) != label)),
        # Neighbours may be sure and wrong.
        "log_loss": -float(np.mean(np.log(np.maximum(right, np.finfo(float).tiny)))),
        "cpu_seconds": said.cpu_seconds,
        "seconds": time.perf_counter() - start,
    }
    rows.append(row)
    print(f"# {name} {number} {model}: {row['error']:.4f} {row['log_loss']:.4f} {said.cpu_seconds:.1f} s", flush=True)


def show(rows: list[dict[str, Any]]) -> None:
    """Means over the splits that all models of a set have."""
    print(f"\n{'set':12} {'n':>6} {'model':10} {'splits':>6} {'error':>8} {'-log p':>8} {'CPU s':>8}")
    for name in dict.fromkeys(row["set"] for row in rows):
        here = [row for row in rows if row["set"] == name]
        models = [model for model in MODELS if any(row["model"] == model for row in here)]
        shared = set.intersection(*({r["split"] for r in here if r["model"] == m} for m in models)) if models else set()
        for model in models:
            own = [row for row in here if row["model"] == model and row["split"] in shared]
            if own:
                means = [statistics.fmean(row[k] for row in own) for k in ("error", "log_loss", "cpu_seconds")]
                text = "{:8.4f} {:8.4f} {:8.1f}".format(*means)
                print(f"{name:12} {own[0]['n']:6d} {model:10} {len(own):6d} {text}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS), help="sets, separated by commas")
    parser.add_argument("--models", default=",".join(MODELS), help="models, separated by commas")
    parser.add_argument("--splits", type=int, help="splits a set; the default differs between sets")
    parser.add_argument("--inducing", type=int, default=300, help="inducing points")
    parser.add_argument("--jobs", type=int, default=1, help="processes for many classes (ours)")
    parser.add_argument("--out", type=Path, help="file that keeps the results")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(given.out.read_text()) if given.out and given.out.exists() else []
    for name in given.sets.split(","):
        for number in range(given.splits or SETS.get(name, 1)):
            for model in given.models.split(","):
                run(rows, name, number, model, (given.inducing, given.jobs))
                if given.out:
                    given.out.write_text(json.dumps(rows, indent=1) + "\n")
    show(rows)


if __name__ == "__main__":
    main()
