"""What inducing points, batch size, initialisation and the method of inference do to GPPL and CrowdGPPL, with a plot.

Simulated crowds of 20 users with two features, 60 items with two features, 2,000 comparisons to learn from and 2,000
of the same users and items to predict. `GPPLClassifier` sees the comparisons without the users, and predicts what most
users would say: its answers are those of the consensus. Both learn by stochastic variational inference ("svi") in
the first three sweeps, at 30 inducing points, batches of 200 and k-means++ where nothing else is said:

(a) the number of inducing points of the items;
(b) the comparisons of a mini-batch; the last is all of them ("vb");
(c) how inducing points are chosen, with a seed of its own at each repetition: the standard deviation over seeds of
    the same data is that of the initialisation;
(d) the method of inference: log-loss against CPU seconds.

Log-losses of data sets differ by far more than those of settings, so each is given less the one of the start ("svi", 30
points, batches of 200) on the same data.

``python benchmarks/crowd_sweeps.py --out crowd_sweeps.png --json crowd_sweeps.json`` takes minutes on one thread.
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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref import SVI, CrowdGPPL, GPPLClassifier, Inducing
from skpref.datasets import make_crowd

if TYPE_CHECKING:
    from numpy.typing import NDArray

N_USERS, N_ITEMS, N_TRAIN = 20, 60, 2000
DEFAULT: dict[str, Any] = {"inference": SVI(200), "inducing": Inducing(30, "kmeans++")}
SWEEPS: dict[str, list[dict[str, Any]]] = {
    "inducing points": [{"inducing": m} for m in (3, 6, 12, 30, 60)],
    "comparisons of a batch": [*({"inference": SVI(b)} for b in (25, 50, 100, 200, 500)), {"inference": "vb"}],
    "inducing points chosen by": [{"inducing": way} for way in ("kmeans++", "kmeans", "random", "variance")],
    "inference": [{"inference": way} for way in ("svi", "vb", "linearised", "ep")],
}
MODELS = "GPPLClassifier", "CrowdGPPL"

Row = dict[str, Any]


class Crowd(NamedTuple):
    """Rows (user, left, right) and answers to learn from and to predict."""

    tables: tuple[Any, Any]  # features of the items, of the users
    X: NDArray[np.int64]
    y: NDArray[np.float64]
    X_test: NDArray[np.int64]
    y_test: NDArray[np.float64]


def simulate(seed: int) -> Crowd:
    """Draw a crowd."""
    data = make_crowd(N_USERS, N_ITEMS, 2 * N_TRAIN, n_factors=3, scale=0.5, factor_scale=2.0, random_state=seed)
    X, y = data.comparisons, data.y
    return Crowd((data.table, data.user_table), X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:])


def scores(name: str, crowd: Crowd, seed: int, params: dict[str, Any]) -> Row:
    """Fit one model, and say how it predicts held-out answers."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "CrowdGPPL":
            model = CrowdGPPL(*crowd.tables, n_factors=5, random_state=seed, **params).fit(crowd.X, crowd.y)
            X = crowd.X_test
        else:
            model = GPPLClassifier(crowd.tables[0], random_state=seed, **params).fit(crowd.X[:, 1:], crowd.y)
            X = crowd.X_test[:, 1:]
    seconds = time.process_time() - start
    p = model.predict_proba(X)[np.arange(len(X)), crowd.y_test.astype(int)]
    return {"accuracy": float(np.mean(p > 0.5)), "log_loss": float(-np.mean(np.log(p))), "cpu_seconds": seconds}


def sweep(title: str, repeats: int) -> list[Row]:
    """Measure every value of one sweep; initialisations have seeds of their own on one set of data."""
    rows: list[Row] = []
    same_data = "chosen" in title
    crowds = [simulate(0 if same_data else repeat) for repeat in range(repeats)]
    start = {(name, k): scores(name, crowd, 0, DEFAULT) for name in MODELS for k, crowd in enumerate(crowds)}
    for change in SWEEPS[title]:
        for name in MODELS:
            params = DEFAULT | change
            if name == "GPPLClassifier" and params["inference"] == "ep":
                continue  # of CrowdGPPL only
            (value,) = change.values()
            if value == "vb" and title != "inference":
                value = "all"
            for repeat, crowd in enumerate(crowds):
                row = {"sweep": title, "value": value, "model": name, "repeat": repeat}
                row |= scores(name, crowd, repeat if same_data else 0, params)
                rows.append(row | {"difference": row["log_loss"] - start[name, repeat]["log_loss"]})
            report(rows[-repeats:])
    return rows


def report(rows: list[Row]) -> None:
    """Print mean and standard deviation over the repetitions."""
    cells = [f"{rows[0]['sweep']:26s} {rows[0]['value']!s:>10s} {rows[0]['model']:15s}"]
    for key, digits in (("accuracy", 3), ("log_loss", 3), ("difference", 4), ("cpu_seconds", 2)):
        values = [row[key] for row in rows]
        cells.append(f"{key} {np.mean(values):.{digits}f} ({np.std(values, ddof=1):.{digits}f})")
    print("  ".join(cells), flush=True)


def draw(rows: list[Row], path: Path) -> None:
    """Save the four panels: differences of log-loss with two standard errors (deviations, of initialisations)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 7.0), layout="constrained")
    for panel, title in zip(figure.subplots(2, 2).ravel(), SWEEPS, strict=True):
        for name, colour, marker in zip(MODELS, ("#d1661c", "#0b5fa5"), ("s", "o"), strict=True):
            some = [row for row in rows if row["sweep"] == title and row["model"] == name]
            values = list(dict.fromkeys(row["value"] for row in some))
            groups = [[row for row in some if row["value"] == value] for value in values]
            loss = np.array([[row["difference"] for row in group] for group in groups])
            error = 2.0 * loss.std(axis=1, ddof=1) / (1.0 if "chosen" in title else np.sqrt(loss.shape[1]))
            style = {"color": colour, "marker": marker, "capsize": 2, "label": name}
            if title == "inference":
                x = [float(np.mean([row["cpu_seconds"] for row in group])) for group in groups]
                panel.errorbar(x, loss.mean(axis=1), error, linestyle="none", **style)
                for value, at, y in zip(values, x, loss.mean(axis=1), strict=True):
                    panel.annotate(value, (at, y), xytext=(5, 4), textcoords="offset points", fontsize=8)
                panel.set_xscale("log")
            else:
                panel.errorbar([str(value) for value in values], loss.mean(axis=1), error, **style)
        panel.set(xlabel="CPU seconds" if title == "inference" else title, ylabel="log-loss, less that of the start")
        panel.axhline(0.0, color="0.6", linewidth=0.8)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


def main(arguments: list[str] | None = None) -> int:
    """Sweep, print, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3, help="repetitions a point")
    parser.add_argument("--only", default="", help="words; a sweep runs if its name has one of them")
    parser.add_argument("--out", type=Path, default=Path("crowd_sweeps.png"), help="the plot")
    parser.add_argument("--json", type=Path, help="every repetition")
    options = parser.parse_args(arguments)
    for name in MODELS:
        scores(name, simulate(0), 0, DEFAULT)  # everything is compiled
    titles = [title for title in SWEEPS if any(word in title for word in options.only.split(","))]
    rows = [row for title in titles for row in sweep(title, options.repeats)]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    if len(titles) == len(SWEEPS):
        draw(rows, options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
