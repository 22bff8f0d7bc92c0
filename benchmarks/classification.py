"""Gaussian-process classification on the two-class sets of ``shared/data/gp`` (their splits), side by side in one run.

For each set and model: share of wrong classes and mean negative log probability of the test rows of the first splits,
CPU seconds of the fit, one thread::

    python benchmarks/classification.py --sets pima,banana5300 --models gpytorch,ours
    SKPREF_GPYTORCH_STEPS=1000 python benchmarks/classification.py --splits 1 --out classification.json

``gpytorch`` is its SVGP behind a probit in an environment of its own (``_gpytorch.py``), ``exact`` scikit-learn's
`GaussianProcessClassifier` (Laplace; fewer than 1,000 training rows), ``logistic`` its `LogisticRegression`, ``ours``
`SVGPClassifier` as it comes.  Gaussian processes have an amplitude times the squared exponential with a length-scale a
feature, the sparse ones the same number of inducing points.  ``letter`` is A-M against N-Z.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import regression  # isort: skip  # it sets the number of threads, hence before numpy
import numpy as np
from regression import DATA, GPYTORCH_PYTHON, GPYTORCH_STEPS, Array, Split, table
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression

if TYPE_CHECKING:
    from skpref import SVGPClassifier

#: Sets, and how many of their splits are run.
SETS = {"banana400": 3, "pima": 3, "ionosphere": 3, "banana5300": 1, "letter": 1}
MOST_EXACT = 1000
#: Letters up to M are one class.
_HALF = 13


class Said(NamedTuple):
    """Probabilities of class 1 and CPU seconds."""

    probability: Array
    cpu_seconds: float


def load(name: str, number: int) -> Split:
    """One split of one set, features standardised by the training rows, y in {0, 1}."""
    rows = table(DATA / name / "data.csv.gz")
    test = table(DATA / name / "splits.csv.gz").reshape(len(rows), -1)[:, number] == 1.0
    X, y = rows[:, :-1], rows[:, -1]
    y = (y >= _HALF).astype(float) if name == "letter" else y
    mean, scale = X[~test].mean(axis=0), X[~test].std(axis=0)
    X = (X - mean) / np.where(scale > 0.0, scale, 1.0)
    return Split(X[~test].copy(), y[~test].copy(), X[test].copy(), y[test].copy())


# ------------------------------------------------------------------------------ models
def _fitted(model: SVGPClassifier | GaussianProcessClassifier | LogisticRegression, split: Split) -> Said:
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # a constant column
        model.fit(split.X, split.y)
    cpu_seconds = time.process_time() - start
    return Said(model.predict_proba(split.X_test)[:, 1], cpu_seconds)


def ours(split: Split, n_inducing: int) -> Said:
    from skpref import SVGPClassifier

    return _fitted(SVGPClassifier(n_inducing=n_inducing, random_state=0), split)


def exact(split: Split, n_inducing: int) -> Said | None:
    del n_inducing
    n, d = split.X.shape
    if n > MOST_EXACT:
        return None
    kernel = ConstantKernel(1.0, (1e-4, 1e4)) * RBF(np.full(d, d**0.5), (1e-2, 1e4))
    return _fitted(GaussianProcessClassifier(kernel), split)


def logistic(split: Split, n_inducing: int) -> Said:
    del n_inducing
    return _fitted(LogisticRegression(max_iter=1000), split)


def gpytorch(split: Split, n_inducing: int) -> Said | None:
    if not GPYTORCH_PYTHON.exists():
        return None
    said = regression.ask_gpytorch(split, n_inducing, GPYTORCH_STEPS, classes=True)
    return Said(said["mean"], float(said["cpu_seconds"]))


MODELS = {"logistic": logistic, "gpytorch": gpytorch, "exact": exact, "ours": ours}


# ------------------------------------------------------------------------------ scores
def run(rows: list[dict[str, Any]], name: str, number: int, model: str, n_inducing: int) -> None:
    """Fit and score what the rows have not got."""
    key = {"set": name, "split": number, "model": model, "n_inducing": n_inducing}
    if any(key.items() <= row.items() for row in rows):
        return
    split = load(name, number)
    said = MODELS[model](split, n_inducing)
    if said is None:
        return
    right = np.where(split.y_test == 1.0, said.probability, 1.0 - said.probability)
    row = key | {
        "n": len(split.y),
        "error": float(np.mean((said.probability > 0.5) != (split.y_test == 1.0))),
        "log_loss": -float(np.mean(np.log(right))),
        "cpu_seconds": said.cpu_seconds,
    }
    rows.append(row)
    print(f"# {name} {number} {model}: {row['error']:.4f} {row['log_loss']:.4f} {said.cpu_seconds:.1f} s", flush=True)


def show(rows: list[dict[str, Any]]) -> None:
    """Means over the splits that all models of a set have."""
    print(f"\n{'set':12} {'n':>6} {'model':10} {'splits':>6} {'error':>8} {'-log p':>8} {'CPU s':>8}")
    for name in SETS:
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
    parser.add_argument("--out", type=Path, help="file that keeps the results")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = json.loads(given.out.read_text()) if given.out and given.out.exists() else []
    for name in given.sets.split(","):
        for number in range(given.splits or SETS[name]):
            for model in given.models.split(","):
                run(rows, name, number, model, given.inducing)
                if given.out:
                    given.out.write_text(json.dumps(rows, indent=1) + "\n")
    show(rows)


if __name__ == "__main__":
    main()
