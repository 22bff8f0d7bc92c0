"""What CrowdGPPL recovers from simulated crowds, against noise and against the number of labels, with a plot.

Three simulations, after those of Simpson, De Cao, Hu & Gurevych, "Scalable Bayesian preference learning for crowds"
(Machine Learning 2020): items on a 20 x 20 grid, 20 users with two features, half of the items held out of training.

(a) Tau of the consensus on held-out items; the consensus grows fainter beside the users' tastes from point to point.
    Its noise is the share of the training labels that contradict the consensus.
(b) Tau of each user's own utilities on held-out items; tastes grow fainter beside the noise of an answer.  Its noise
    is the share of the training labels that contradict the user's own utilities.
(c) Correlation of true and fitted item factors on the training items against the number of labels, for 1, 3, 10 and 20
    true factors and 20 fitted ones: the strongest pair of factors is matched first, then the strongest of the rest.
    Factors are known up to a rotation only, so the last column, the correlation of the users' true and
    fitted departures from the consensus, which no rotation changes, says what is recovered.

(a) and (b) compare CrowdGPPL with GPPL that pools all users and with a GPPL for each user, all with at most 50 inducing
points and defaults otherwise.  One thread::

    python benchmarks/crowd_simulations.py --repeats 25 --out crowd_simulations.png --json crowd_simulations.json
"""

from __future__ import annotations

import os

# Read by the pools when they are loaded, hence before the first import of numpy.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import _crowd_ours
import numpy as np
from _crowd_data import Answers, CrowdFitPredict, CrowdSplit, CrowdTask, Ranked, score
from _crowd_rivals import RIVALS
from threadpoolctl import threadpool_limits

from skpref.datasets import make_crowd

if TYPE_CHECKING:
    from _data import FloatArray, IntArray

SIDE, N_USERS, LENGTH_SCALE = 20, 20, 5.0
#: Inverse scales of the consensus (a) and of the item factors (b): the noise of each point of the curves.
CONSENSUS_SCALES = (0.02, 0.2, 0.6, 2.0, 20.0, 200.0)
FACTOR_SCALES = (0.002, 0.02, 0.2, 1.0, 10.0, 100.0)
N_TRUE = (1, 3, 10, 20)
N_LABELS = (40, 80, 160, 320, 640, 1280, 2560)

MODELS: dict[str, tuple[CrowdFitPredict, dict[str, Any]]] = {
    "CrowdGPPL": (_crowd_ours.fit_predict, {"inducing": 50}),
    "pooled GPPL": (RIVALS["pooled"], {"inducing": 50}),
    "GPPL per user": (RIVALS["per-user"], {"least": 1, "inducing": 50}),
}

Row = dict[str, Any]


# -------------------------------------------------------------------------------- data
def simulate(n_labels: int, seed: int, **scales: Any) -> tuple[CrowdTask, Any]:  # noqa: ANN401 - a Bunch
    """Draw a crowd and split its items in halves; `n_labels` comparisons are of training items."""
    rng = np.random.default_rng([7, seed])
    grid = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij"), axis=-1).reshape(-1, 2)
    # The users stand on a line in two groups, as in the authors' simulation.
    place = np.arange(N_USERS) + np.where(np.arange(N_USERS) < N_USERS // 2, -0.2, 0.2)
    data = make_crowd(
        n_comparisons=6 * n_labels + 1000,
        item_features=grid.astype(np.float64),
        user_features=np.column_stack([place, place]),
        length_scale=LENGTH_SCALE,
        user_length_scale=LENGTH_SCALE,
        random_state=seed,
        **{"n_users": N_USERS, "n_items": SIDE**2, "n_factors": 5} | scales,
    )
    held = rng.permutation(SIDE**2) < SIDE**2 // 2
    answers = Answers(*data.comparisons.T, data.y)
    train = answers.take(~held[answers.left] & ~held[answers.right])
    test = answers.take(held[answers.left] & held[answers.right])
    if train.y.size < n_labels:
        message = f"n_labels: wanted {n_labels}, drew {train.y.size}; draw more comparisons"
        raise RuntimeError(message)
    return _task(data, train.take(slice(n_labels)), test, np.flatnonzero(held)), data


def _task(data: Any, train: Answers, test: Answers, held: IntArray) -> CrowdTask:  # noqa: ANN401 - a Bunch
    gold = test._replace(y=(data.consensus[test.left] > data.consensus[test.right]).astype(np.float64))
    split = CrowdSplit(
        name="simulated",
        train=train,
        train_group=np.zeros(train.y.size, dtype=np.int64),
        consensus=gold,
        personal=test,
        aggregated=True,
        gold=((held, data.consensus[held]),),
        ranked=tuple(Ranked(u, held, data.utilities[u, held]) for u in range(len(data.utilities))),
    )
    features, group = data.table.features, np.zeros(data.consensus.size, dtype=np.int64)
    return CrowdTask(
        "simulated", features, len(data.utilities), (split,), True, group, user_features=data.user_table.features
    )


def noise_rate(train: Answers, utilities: FloatArray) -> float:
    """Share of labels that contradict utilities, of shape (n_items,) or (n_users, n_items)."""
    u = (
        np.broadcast_to(utilities, (int(train.user.max()) + 1, utilities.shape[-1]))
        if utilities.ndim == 1
        else utilities
    )
    right = u[train.user, train.left] > u[train.user, train.right]
    return float(np.mean(right != (train.y > 0.5)))


# ------------------------------------------------------------------------- simulations
def against_noise(view: str, settings: list[dict[str, Any]], options: argparse.Namespace) -> list[Row]:
    """(a) and (b): every model at every setting and repetition."""
    rows: list[Row] = []
    for number, scales in enumerate(settings):
        for repeat in range(options.repeats):
            task, data = simulate(options.comparisons, 1000 * number + repeat, **scales)
            split = task.splits[0]
            noise = noise_rate(split.train, data.consensus if view == "consensus" else data.utilities)
            for name, (fit_predict, params) in MODELS.items():
                said = fit_predict(task, split, params)
                scores = score(split, said)[view]
                rows.append(
                    {
                        "simulation": view,
                        "setting": number,
                        "model": name,
                        "repeat": repeat,
                        "noise": noise,
                        "tau": scores.tau,
                        "log_loss": scores.log_loss,
                        "cpu_seconds": said.cpu_seconds,
                    }
                )
        report(view, [row for row in rows if row["setting"] == number])
    return rows


def report(view: str, rows: list[Row]) -> None:
    """One line a setting: noise, then tau of each model with its standard error."""
    cells = [f"{view:10} noise {np.mean([row['noise'] for row in rows]):.3f}"]
    for name in MODELS:
        tau, error = mean_and_error([row["tau"] for row in rows if row["model"] == name])
        seconds = np.mean([row["cpu_seconds"] for row in rows if row["model"] == name])
        cells.append(f"{name} {tau:+.3f} +- {error:.3f} ({seconds:.1f} s)")
    print("  ".join(cells), flush=True)


def factor_recovery(options: argparse.Namespace) -> list[Row]:
    """(c): fitted against true factors."""
    rows: list[Row] = []
    for n_true in N_TRUE:
        for n_labels in N_LABELS:
            several = [recovered(n_true, n_labels, repeat) for repeat in range(options.repeats)]
            rows += several
            factor, departure = (np.mean([row[key] for row in several]) for key in ("factors", "departures"))
            print(
                f"factors    {n_true:2d} true, {n_labels:5d} labels: matched {factor:.3f}, departures {departure:.3f}"
            )
            sys.stdout.flush()
    return rows


def recovered(n_true: int, n_labels: int, repeat: int) -> Row:
    """Correlations of one fit with the truth on the items and users that it saw."""
    scales = {"n_factors": n_true, "scale": 1.0, "factor_scale": 0.2}
    task, data = simulate(n_labels, 10_000 * n_true + repeat, **scales)
    model = _crowd_ours.fit(task, task.splits[0], {"inducing": 50, "n_factors": 20})
    v, w = data.item_factors[model.item_ids_], data.user_factors[model.user_ids_]
    return {
        "simulation": "factors",
        "n_true": n_true,
        "n_labels": n_labels,
        "repeat": repeat,
        "factors": matched(v, model.item_factors_),
        "departures": alike(w @ v.T, model.user_factors_ @ model.item_factors_.T),
    }


def _standard(columns: FloatArray) -> FloatArray:
    """Columns of mean 0 and norm 1; a constant one is all zeros."""
    centred = columns - columns.mean(axis=0)
    norm = np.sqrt(np.sum(centred**2, axis=0))
    return centred / np.where(norm > 0.0, norm, 1.0)


def matched(true: FloatArray, found: FloatArray) -> float:
    """Mean absolute correlation of factors (columns), the most alike matched first; one left alone counts as 0."""
    r = np.abs(_standard(true).T @ _standard(found))
    total = 0.0
    for _ in range(min(r.shape)):
        a, b = np.unravel_index(int(np.argmax(r)), r.shape)
        total += max(float(r[a, b]), 0.0)
        r[a, :] = r[:, b] = -1.0
    return total / true.shape[1]


def alike(true: FloatArray, found: FloatArray) -> float:
    """Correlation of users' departures (rows); what a user adds to all items alike is no preference."""
    a, b = (m - m.mean(axis=1, keepdims=True) for m in (true, found))
    norm = np.sqrt(np.sum(a**2) * np.sum(b**2))
    return float(np.sum(a * b) / norm) if norm > 0.0 else 0.0


# -------------------------------------------------------------------------------- plot
def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    several = np.asarray(values)
    several = several[np.isfinite(several)]
    error = several.std(ddof=1) / np.sqrt(several.size) if several.size > 1 else 0.0
    return (float(several.mean()), float(error)) if several.size else (float("nan"), 0.0)


def curve(rows: list[Row], x: str, y: str, at: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Points (mean x, mean y, standard error) for each value of `at`, in the order of x."""
    points = []
    for value in sorted({row[at] for row in rows}):
        several = [row for row in rows if row[at] == value]
        points.append((np.mean([row[x] for row in several]), *mean_and_error([row[y] for row in several])))
    xs, ys, errors = np.array(sorted(points)).T
    return xs, ys, errors


def draw(rows: list[Row], path: Path) -> None:
    """Save the three panels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 4.0), layout="constrained")
    panels = figure.subplots(1, 3)
    styles = (("#0b5fa5", "o", "-"), ("#d1661c", "s", "--"), ("#5b8c2a", "^", ":"), ("#7a3e9d", "D", "-."))
    titles = ("(a) consensus", "(b) personal", "(c) item factors")
    for panel, view, title in zip(panels, ("consensus", "personal"), titles, strict=False):
        for name, (colour, marker, line) in zip(MODELS, styles, strict=False):
            some = [row for row in rows if row["simulation"] == view and row.get("model") == name]
            if some:
                x, y, error = curve(some, "noise", "tau", "setting")
                panel.errorbar(x, y, error, color=colour, marker=marker, linestyle=line, label=name, capsize=2)
        panel.set(title=title, xlabel="noise rate of the training labels", ylabel="tau on held-out items")
    for n_true, (colour, marker, line) in zip(N_TRUE, styles, strict=True):
        some = [row for row in rows if row["simulation"] == "factors" and row["n_true"] == n_true]
        if some:
            x, y, error = curve(some, "n_labels", "factors", "n_labels")
            panels[2].errorbar(
                x, y, error, color=colour, marker=marker, linestyle=line, label=f"{n_true} true", capsize=2
            )
    panels[2].set(title=titles[2], xlabel="training labels", ylabel="mean |r| of matched factors", xscale="log")
    for panel in panels:
        panel.grid(axis="y", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        if panel.get_legend_handles_labels()[0]:
            panel.legend(frameon=False)
    figure.savefig(path, dpi=150)


# ------------------------------------------------------------------------ command line
def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=25, help="repetitions a point, new data each time")
    parser.add_argument("--comparisons", type=int, default=1000, help="training labels of (a) and (b)")
    parser.add_argument("--only", default="a,b,c", help="which simulations")
    parser.add_argument("--out", type=Path, default=Path("crowd_simulations.png"), help="the plot")
    parser.add_argument("--json", type=Path, default=None, help="every repetition")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Simulate, print, draw."""
    options = parsed(arguments)
    rows: list[Row] = []
    with threadpool_limits(limits=1):
        _crowd_ours.warm()
        if "a" in options.only:
            rows += against_noise("consensus", [{"scale": s} for s in CONSENSUS_SCALES], options)
        if "b" in options.only:
            rows += against_noise("personal", [{"scale": 10.0, "factor_scale": s} for s in FACTOR_SCALES], options)
        if "c" in options.only:
            rows += factor_recovery(options)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    draw(rows, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
