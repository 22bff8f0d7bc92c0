"""
Compared with other packages
============================

Speed, errors and intervals of skpref and of other packages on the same data. The numbers were measured by the scripts
in ``benchmarks/``; the text above each figure names the script.
"""

# %%
# The numbers are in a file next to this script. Times are CPU seconds on one core of a busy machine: compare their
# ratios.
import json
from pathlib import Path

import matplotlib.pyplot as plt

measured = {
    name: part["rows"]
    for name, part in json.loads(Path("peers.json").read_text("utf-8")).items()
}
OURS, OTHERS, THIRD, FOURTH = "#1f6fb4", "#9a9a9a", "#e0a030", "#123f66"
plt.rcParams.update(
    {"axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True}
)

# %%
# Leaderboards (``python benchmarks/arena.py``): five simulated arenas of 40 models, 50,000 battles each, judges who
# like long answers. Left: time of a fit with its intervals. Right: share of the models whose 90 % interval contains the
# truth. choix has no intervals. arena-rank penalises the effect of length by default (``reg=1``).
rows = measured["arena"]
labels = [f"{row['package']}{', with length' if row['length'] else ''}" for row in rows]
colours = [OURS if row["package"] == "skpref" else OTHERS for row in rows]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
axes[0].barh(labels, [row["seconds"] for row in rows], color=colours)
axes[0].set(xscale="log", xlabel="CPU seconds (log scale)")
axes[1].barh(labels, [100 * (row["covered"] or 0) for row in rows], color=colours)
axes[1].axvline(90, color="black", linewidth=0.8, linestyle="--")
axes[1].set(xlabel="% of 90 % intervals that contain the truth", xlim=(0, 100))
axes[0].invert_yaxis()
plt.show()

# %%
# Gaussian process regression (``python benchmarks/regression.py``): 300 inducing points, one split, a tenth of the
# rows held out. Left: error relative to that of ``SVGPRegressor``; to the right of 1 is worse. Right: time.
# GPyTorch's SVGP has the same kernel and number of points; the exact model is scikit-learn's and was run up to 1,500
# rows.
rows = measured["regression"]
figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True, layout="constrained")
names = [f"{row['set']} ({row['n']:,})" for row in rows]
for model, colour in (("SVGPRegressor", OURS), ("GPyTorch", OTHERS), ("exact", THIRD)):
    places = [place for place, row in enumerate(rows) if model in row]
    relative = [
        rows[place][model]["error"] / rows[place]["SVGPRegressor"]["error"]
        for place in places
    ]
    axes[0].scatter(
        [min(value, 1.5) for value in relative], places, color=colour, label=model, zorder=3
    )
    axes[1].scatter(
        [rows[place][model]["seconds"] for place in places], places, color=colour, zorder=3
    )
    for value, place in zip(relative, places, strict=True):
        if value > 1.5:
            error = rows[place][model]["error"], rows[place]["SVGPRegressor"]["error"]
            label = "{} against {}".format(*error)
            axes[0].annotate(
                label, (1.5, place), (-90, -3), textcoords="offset points", fontsize=8
            )
axes[0].set_yticks(range(len(names)), names)
axes[0].set(xlabel="error / error of SVGPRegressor", xlim=(0.75, 1.55))
axes[1].set(xscale="log", xlabel="CPU seconds (log scale)")
for ax in axes:
    ax.grid(color="0.92")
axes[0].invert_yaxis()
figure.legend(loc="outside upper center", ncols=3, frameon=False)
plt.show()

# %%
# Ratings as levels (``python benchmarks/rating_levels.py``): a fifth of the ratings held out. Log-loss, relative to
# that of a baseline that predicts the shares of the levels for everybody. Lower is better.
rows = measured["ratings"]
sets = list(dict.fromkeys(row["set"] for row in rows))
shares = {
    row["set"]: row["log_loss"] for row in rows if row["model"] == "shares of the levels"
}
figure, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
models = "VariationalFMOrdinal", "GibbsM3F", "GibbsIPM3F", "myFM, ordered probit"
for model, colour in zip(models, (OURS, FOURTH, THIRD, OTHERS), strict=True):
    losses = {row["set"]: row["log_loss"] for row in rows if row["model"] == model}
    ax.scatter(
        [losses[name] / shares[name] for name in sets],
        sets,
        color=colour,
        label=model,
        zorder=3,
        s=50,
    )
ax.grid(color="0.92")
ax.set(xlabel="log-loss / log-loss of the shares of the levels")
ax.invert_yaxis()
figure.legend(loc="outside upper center", ncols=2, frameon=False)
plt.show()

# %%
# Ratings of MovieLens-1M by the protocol of the paper of ``GibbsM3F`` (``python benchmarks/ratings.py nmae``):
# normalised mean absolute error, mean of three partitions; the standard errors of one partition are 0.006 and 0.013.
rows = measured["movielens"]
figure, axes = plt.subplots(1, 2, figsize=(8, 2.6), sharey=True, layout="constrained")
for ax, part, title in zip(
    axes, ("weak", "strong"), ("users in training", "new users, folded in"), strict=True
):
    colours = [
        OTHERS if "paper" in row["model"] or "myFM" in row["model"] else OURS
        for row in rows
    ]
    ax.scatter(
        [row[part] for row in rows],
        [row["model"] for row in rows],
        color=colours,
        zorder=3,
        s=50,
    )
    ax.set(title=title, xlabel="NMAE, lower is better", xlim=(0.385, 0.425))
    ax.grid(color="0.92")
axes[0].invert_yaxis()
plt.show()

# %%
# Searches for hyperparameters (``python benchmarks/samplers.py``): mean best loss of five seeds after 25 trials,
# without pruning, in per cent above the best of the three samplers.
rows = measured["search"]
figure, ax = plt.subplots(figsize=(8, 2.8), layout="constrained")
for sampler, colour in (("default", OURS), ("TPE", OTHERS), ("random", THIRD)):
    above = [
        100 * (row["trials"][sampler] / min(row["trials"].values()) - 1) for row in rows
    ]
    ax.scatter(
        above, [row["task"] for row in rows], color=colour, label=sampler, zorder=3, s=50
    )
ax.set(xlabel="loss above the best, % (square root scale)")
ax.set_xscale("function", functions=(lambda x: abs(x) ** 0.5, lambda x: x**2))
ax.set_xticks([0, 0.1, 1, 5, 15])
ax.grid(color="0.92")
ax.invert_yaxis()
figure.legend(loc="outside upper center", ncols=3, frameon=False)
plt.show()

# %%
# **Next:** :doc:`/benchmarks` explains the figures, and :doc:`/user_guide/choosing` says when to use something else.
