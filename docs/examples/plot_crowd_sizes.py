"""
Which model for which crowd?
============================

People agree only in part. How much you can learn about each person depends on the number of people, of answers and of
items, and on how much tastes differ. This example varies each of them on simulated crowds.
"""

# %%
# The numbers are in a file next to this script. ``python benchmarks/crowd_sizes.py --out
# docs/examples/crowd_sizes.json`` measures them again. Where they are not varied, there are 200 users with 15 answers
# each about 20 items, and tastes vary as much as the consensus does. The lines show excess log-loss on new pairs of the
# same users: the log-loss of a model minus that of the true probabilities, per answer, in thousandths of a nat. Lower
# is better.
import json
from pathlib import Path

import matplotlib.pyplot as plt

measured = json.loads(Path("crowd_sizes.json").read_text("utf-8"))
STYLES = {
    "CrowdGPPL": ("CrowdGPPL", "#4c78a8", "-"),
    "CrowdGPPL, features": ("CrowdGPPL, features of the items", "#54a24b", "-"),
    "CrowdGPPL, vb": ('CrowdGPPL, inference="vb"', "#4c78a8", ":"),
    "GPPLClassifier": ("GPPLClassifier: one utility for all", "#e45756", "--"),
    "logistic regression": ("logistic regression, user x item", "0.5", "--"),
}
TITLES = {
    "answers": "answers of each user",
    "users": "users",
    "items": "items",
    "tastes": "standard deviation of tastes / of the consensus",
}

figure, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
for axis, (vary, title) in zip(axes.flat, TITLES.items(), strict=True):
    values = sorted({row["value"] for row in measured if row["vary"] == vary})
    for model, (label, colour, line) in STYLES.items():
        rows = {
            row["value"]: row
            for row in measured
            if row["vary"] == vary and row["model"] == model
        }
        excess, error = (
            [rows[value][name] for value in values] for name in ("excess", "error")
        )
        axis.errorbar(range(len(values)), excess, yerr=error, color=colour, linestyle=line, marker="o",
                      markersize=4, elinewidth=0.7, label=label)  # fmt: skip
    axis.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    axis.set(xlabel=title, ylim=(0, None))
    axis.spines[["top", "right"]].set_visible(False)
for axis in axes[:, 0]:
    axis.set_ylabel("loss above the truth's, nats / 1000")
figure.legend(
    *axes[0, 0].get_legend_handles_labels(),
    loc="outside upper center",
    ncols=2,
    frameon=False,
)
plt.show()

# %%
# - **Features of the items** help most where each user compared few of the items: with few answers, few users or many
#   items. With five items, or where users nearly agree, they do not help.
# - **The learnt covariance** (the default) needs no features. Where tastes vary as much as the consensus, it is better
#   than one utility for all from about ten answers per user. Where tastes are weak, it falls back to the consensus.
# - **Factors** (``inference="vb"``) predict as well or a little better here, because the simulated tastes have three
#   factors. With few answers the factors are dropped, and one utility for all remains. On real rankings of sushi the
#   learnt covariance is far better.
# - **One utility for all** is best where users agree. With three answers per user it is the best model without
#   features.
# - **Logistic regression** of users and items does not share tastes between users, and is noisy where they agree.
#
# Bars are standard errors over three crowds. The models were fitted to the same crowds, so differences between lines
# are more certain than the bars suggest.

# %%
# **Next:** :ref:`crowd` is the guide, and :ref:`sphx_glr_auto_examples_plot_judges.py` shows how reliable each judge
# is.
