"""
Are the probabilities right on real data?
=========================================

If a model says 70 %, the event should happen in 70 of 100 cases. A reliability diagram shows the predicted
probabilities on the horizontal axis and the observed shares on the vertical one. Points on the diagonal are right. The
figure compares seven classifiers with logistic regression and a random forest, on three data sets each.
"""

# %%
# Nothing was tuned on these data: the sets were selected before the first run, and all settings are defaults. Each row
# was predicted once, in three-fold cross-validation. ``python benchmarks/reliability.py FOLDER --out
# docs/examples/reliability.json`` measures it again; comments in that script say where the data are from. The area of a
# dot is the number of predictions.
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

measured = json.loads(Path("reliability.json").read_text("utf-8"))
STYLES = {"ours": ("#d62728", "skpref"), "logistic regression": ("#4c78a8", "logistic regression"),
          "random forest": ("#54a24b", "random forest")}  # fmt: skip

models = list(dict.fromkeys(row["model"] for row in measured))
figure, axes = plt.subplots(
    len(models), 3, figsize=(8, 2.6 * len(models)), sharex=True, sharey=True
)
for line, model in zip(axes, models, strict=True):
    for axis, row in zip(
        line, [row for row in measured if row["model"] == model], strict=False
    ):
        axis.plot([0, 1], [0, 1], color="0.5", linestyle=":", linewidth=1)
        for name, (colour, label) in STYLES.items():
            curve = row["models"][name]
            area = 60 * np.sqrt(np.array(curve["count"]) / np.sum(curve["count"]))
            axis.plot(
                curve["predicted"], curve["observed"], color=colour, linewidth=1, alpha=0.7
            )
            axis.scatter(
                curve["predicted"],
                curve["observed"],
                s=area,
                color=colour,
                alpha=0.7,
                label=label,
            )
        axis.set_title(f"{model}, {row['set']}", fontsize=8)
        axis.set_aspect("equal")
axes[0, 0].legend(fontsize=7, loc="upper left")
figure.supxlabel("predicted probability")
figure.supylabel("observed share")
figure.tight_layout()
plt.show()

# %%
# Calibration alone is not enough: a model that always predicts the share of the training data is calibrated, and
# useless. The log-loss also measures how informative probabilities are. To the left of the line skpref is better than
# the other model. Bars are two standard errors.
figure, axis = plt.subplots(figsize=(8, 0.3 * len(measured) + 1), layout="constrained")
for place, row in enumerate(measured):
    for shift, (name, (colour, label)) in zip(
        (-0.15, 0.15), list(STYLES.items())[1:], strict=True
    ):
        rival = row["models"][name]
        gap, error = rival["ours_minus_this"], 2 * rival["standard_error"]
        axis.errorbar(gap, place + shift, xerr=error, fmt="o", markersize=4, color=colour,
                      label=f"to {label}" if place == 0 else None)  # fmt: skip
axis.axvline(0, color="0.5", linestyle=":", linewidth=1)
axis.set_yticks(range(len(measured)), [f"{row['model']}, {row['set']}" for row in measured])
axis.set(
    ylim=(len(measured) - 0.4, -0.6),
    xlabel="log-loss of skpref minus that of the other model",
)
axis.spines[["top", "right"]].set_visible(False)
axis.legend(fontsize=8)
plt.show()

# %%
# Where a simple model has a lower log-loss, by more than two standard errors:
for row in measured:
    for name, rival in row["models"].items():
        if name != "ours" and rival["ours_minus_this"] > 2 * rival["standard_error"]:
            gap = rival["ours_minus_this"]
            print(f"{row['model']}, {row['set']}: {name} is better by {gap:.3f} nats a row")

# %%
# **Next:** :ref:`trust` says how to check your own model.
