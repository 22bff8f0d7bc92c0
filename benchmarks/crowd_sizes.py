"""Where features, a learnt covariance of tastes, factors, logistic regression or one utility for all predict best.

Crowds of `make_crowd`: utilities are a consensus plus three factors of taste, smooth functions of two features of the
items. One thing changes at a time, from 200 users, 20 items, 15 answers of each user and tastes as large as the
consensus. Printed and written is the excess log-loss: how many millinats more than the true probabilities the
predictions lose on pairs that are drawn anew, 20 of each user, and its standard error over repeats. One thread::

    python benchmarks/crowd_sizes.py --repeats 3 --out docs/examples/crowd_sizes.json
    python benchmarks/crowd_sizes.py --vary answers
"""

from __future__ import annotations

import os

# Read by the pools when they are loaded, hence before the first import of numpy.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.special import ndtr, xlogy
from sklearn.linear_model import LogisticRegression

from skpref import CrowdGPPL, GPPLClassifier
from skpref.datasets import make_crowd

if TYPE_CHECKING:
    from collections.abc import Callable

    from _data import FloatArray, IntArray

BASE = {"users": 200, "items": 20, "answers": 15, "tastes": 1.0}
#: Values of what changes; "tastes" is the standard deviation of tastes over that of the consensus.
VALUES: dict[str, tuple[float, ...]] = {
    "answers": (3, 5, 10, 20, 50),
    "users": (20, 50, 200, 1000, 5000),
    "items": (5, 10, 20, 50, 100),
    "tastes": (0.0, 0.25, 0.5, 1.0, 2.0),
}
N_FACTORS, N_TEST = 3, 20

Rows = tuple["IntArray", "IntArray"]  # (user, left, right) (n, 3), and labels


def ours(data: Any, rows: Rows, test: IntArray, **params: Any) -> FloatArray:  # noqa: ANN401 - a Bunch, parameters
    """Probabilities of `CrowdGPPL`; ``items=True`` lets it know the items' features."""
    if params.pop("items", False):
        params["items"] = data.table
    return np.asarray(CrowdGPPL(random_state=0, **params).fit(*rows).predict_proba(test)[:, 1])


def pooled(_: Any, rows: Rows, test: IntArray) -> FloatArray:  # noqa: ANN401 - a Bunch
    """Probabilities of `GPPLClassifier`, which does not know who answered."""
    return np.asarray(GPPLClassifier(random_state=0).fit(rows[0][:, 1:], rows[1]).predict_proba(test[:, 1:])[:, 1])


def logistic(data: Any, rows: Rows, test: IntArray) -> FloatArray:  # noqa: ANN401 - a Bunch
    """Probabilities of logistic regression on one-hot differences of items, shared and of each user."""
    n_users, n_items = data.utilities.shape

    def design(triples: IntArray) -> sparse.csr_array:
        user, left, right = triples.T
        at, own = np.arange(len(triples)), n_items * (1 + user)
        columns, n = np.concatenate([left, right, own + left, own + right]), len(triples)
        values = np.tile(np.repeat([1.0, -1.0], n), 2)
        return sparse.coo_array((values, (np.tile(at, 4), columns)), shape=(n, n_items * (1 + n_users))).tocsr()

    model = LogisticRegression(fit_intercept=False, max_iter=1000).fit(design(rows[0]), rows[1])
    return np.asarray(model.predict_proba(design(test))[:, 1])


MODELS: dict[str, Callable[[Any, Rows, IntArray], FloatArray]] = {
    "CrowdGPPL": ours,
    "CrowdGPPL, features": lambda *arguments: ours(*arguments, items=True),
    "CrowdGPPL, vb": lambda *arguments: ours(*arguments, inference="vb"),
    "GPPLClassifier": pooled,
    "logistic regression": logistic,
}


def simulate(seed: int, users: int, items: int, answers: int, tastes: float) -> tuple[Any, Rows]:
    """Draw a crowd and its answers."""
    data = make_crowd(
        users,
        items,
        n_factors=N_FACTORS,
        n_features=2,
        n_user_features=0,
        factor_scale=N_FACTORS / max(tastes, 1e-6) ** 2,
        comparisons_per_user=answers,
        random_state=seed,
    )
    return data, (data.comparisons, data.y)


def excess(data: Any, predict: Callable[..., FloatArray], rows: Rows, seed: int) -> float:  # noqa: ANN401 - a Bunch
    """Millinats by which predictions lose more than the truth on pairs drawn anew."""
    rng, (n_users, n_items) = np.random.default_rng([18, seed]), data.utilities.shape
    user = np.repeat(np.arange(n_users), N_TEST)
    left = rng.integers(n_items, size=user.size)
    right = (left + rng.integers(1, n_items, size=user.size)) % n_items
    p = ndtr(data.utilities[user, left] - data.utilities[user, right])
    q = np.clip(predict(data, rows, np.column_stack([user, left, right])), 1e-9, 1.0 - 1e-9)
    return float(1e3 * np.mean(xlogy(p, p) + xlogy(1.0 - p, 1.0 - p) - p * np.log(q) - (1.0 - p) * np.log(1.0 - q)))


def measure(vary: str, value: float, repeats: int, first_seed: int) -> list[dict[str, Any]]:
    """Return a row of results for each model."""
    settings: dict[str, Any] = {**BASE, vary: value if vary == "tastes" else int(value)}
    losses: dict[str, list[float]] = {name: [] for name in MODELS}
    seconds = dict.fromkeys(MODELS, 0.0)
    for seed in range(first_seed, first_seed + repeats):
        data, rows = simulate(seed, **settings)
        for name, predict in MODELS.items():
            begin = time.process_time()
            losses[name].append(excess(data, predict, rows, seed))
            seconds[name] += (time.process_time() - begin) / repeats
    result = []
    for name, values in losses.items():
        error = float(np.std(values, ddof=1) / np.sqrt(repeats)) if repeats > 1 else 0.0
        row = {"vary": vary, "value": value, "model": name, "excess": round(float(np.mean(values)), 2)}
        result.append(row | {"error": round(error, 2), "seconds": round(seconds[name], 2)})
        print(f"{vary:8}{value:7g}  {name:22}{row['excess']:8.1f} ({error:.1f}){seconds[name]:8.2f} s", flush=True)
    return result


def main() -> None:
    """Print a table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vary", default=",".join(VALUES), help="what changes, comma-separated")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="JSON file of the results; rows of others are kept")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = json.loads(options.out.read_text("utf-8")) if options.out is not None and options.out.exists() else []
    for vary in options.vary.split(","):
        kept = [row for row in kept if row["vary"] != vary]
        for value in VALUES[vary]:
            kept += measure(vary, value, options.repeats, options.first_seed)
            if options.out is not None:
                options.out.write_text(json.dumps(kept, indent=0) + "\n", "utf-8")


if __name__ == "__main__":
    main()
