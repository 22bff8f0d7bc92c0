"""Draw the picture of README.md and of the first page: leaderboards with and without style control, simulated.

::

    python docs/first_picture.py               # writes docs/_static/leaderboard.png
    python docs/first_picture.py --draws 100   # instead, prints the share of intervals that hold the truth

Judges of the arena like long answers. Without the lengths, models that write much are ranked too high. With them as a
covariate, the intervals hold the truth.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpref import GPPLClassifier
from skpref.datasets import make_arena

NAMES = make_arena().names
PANELS = {"Votes as they are": None, "Length of the answers controlled": [("words_a", "words_b")]}
HELD, MISSED = "#1f6fb4", "#d1495b"


def simulate(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return battles and the true strengths of the models in Elo points."""
    arena = make_arena(random_state=seed)
    return pd.DataFrame(arena.battles), 1500.0 + 400.0 / np.log(10.0) * arena.utilities


def leaderboard(battles: pd.DataFrame, covariates: Any) -> np.ndarray:
    """Return Elo points and the ends of their 90 % intervals, a column for each model."""
    model = GPPLClassifier(left="model_a", right="model_b", covariates=covariates, likelihood="logit")
    ranking = model.fit(battles, battles["winner"] == battles["model_a"]).rank(scale="elo")
    order = np.argsort(ranking.id)
    return np.array([ranking.utility, ranking.utility_low, ranking.utility_high])[:, order]


def count(draws: int) -> None:
    """Print the share of intervals that hold the truth, over draws other than that of the picture."""
    for title, covariates in PANELS.items():
        held = []
        for seed in range(100, 100 + draws):
            battles, truth = simulate(seed)
            _, low, high = leaderboard(battles, covariates)
            held.append(np.mean((low <= truth) & (truth <= high)))
        print(f"{title}: {np.mean(held):.1%} of the 90 % intervals hold the truth")


def draw() -> None:
    """Write the picture."""
    battles, truth = simulate(seed=3)
    mpl.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.9), sharey=True, sharex=True, layout="constrained")
    places = np.arange(NAMES.size)
    for ax, (title, covariates) in zip(axes, PANELS.items(), strict=True):
        elo, low, high = leaderboard(battles, covariates)
        held = (low <= truth) & (truth <= high)
        colours = np.where(held, HELD, MISSED)
        ax.hlines(places, low, high, color=colours, linewidth=6, alpha=0.45)
        ax.scatter(elo, places, color=colours, s=34, zorder=3)
        ax.scatter(truth, places, marker="|", color="black", s=190, linewidth=1.6, zorder=4)
        ax.set_title(title, loc="left", fontsize=12)
        ax.set_xlabel("Elo points")
        ax.grid(axis="x", color="0.92")
        ax.set_axisbelow(True)
        ax.tick_params(length=0)
        print(f"{title}: {held.sum()} of {held.size} intervals hold the truth")
    axes[0].set_yticks(places, NAMES)
    axes[0].invert_yaxis()
    figure.savefig(Path(__file__).resolve().parent / "_static" / "leaderboard.png", dpi=110, facecolor="white")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=0)
    options = parser.parse_args()
    count(options.draws) if options.draws else draw()
