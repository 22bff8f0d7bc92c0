"""
Are the intervals right?
========================

A 95 % interval should contain the truth 95 times in 100. For every estimator, data sets were simulated from known
parameters, and a model with default settings was fitted to each. We count how many of the true values are inside its
intervals.
"""

# %%
# The numbers are in a file next to this script. ``python benchmarks/coverage.py --out docs/examples/coverage.json``
# measures them again, and ``--only crowd`` only some of them. A dot on its dotted line shows intervals that are right.
# A red dot is to the left of the line by more than chance: these intervals are too narrow, and the model is
# overconfident.
import json
from pathlib import Path

import matplotlib.pyplot as plt

measured = {
    (row["name"], row["quantity"]): row
    for row in json.loads(Path("coverage.json").read_text("utf-8"))
}
BLUE, RED, GREEN = "#4c78a8", "#d62728", "#54a24b"


def colour(coverage, error, level):
    """Red if too narrow, green if too wide, by two points and two standard errors."""
    if coverage + max(0.02, 2 * error) < level:
        return RED
    return GREEN if coverage - max(0.02, 2 * error) > level else BLUE


def draw(groups, title):
    """Draw a panel for each group of rows (label, estimator, quantity)."""
    heights = [len(rows) for rows in groups.values()]
    figure, axes = plt.subplots(
        len(groups), 1, sharex=True, layout="constrained",
        figsize=(8, 0.33 * sum(heights) + 0.45 * len(groups) + 1),
        height_ratios=[height + 0.6 for height in heights],
    )  # fmt: skip
    for axis, (group, rows) in zip(axes, groups.items(), strict=True):
        for place, (_, *key) in enumerate(rows):
            row = measured[tuple(key)]
            for level, coverage, error in zip(
                (0.5, 0.8, 0.95), row["coverage"], row["error"], strict=True
            ):
                shade = colour(coverage, error, level)
                axis.errorbar(
                    100 * coverage,
                    place,
                    xerr=200 * error,
                    fmt="o",
                    markersize=5,
                    color=shade,
                )
        for level in (50, 80, 95):
            axis.axvline(level, color="0.5", linestyle=":", linewidth=1, zorder=0)
        axis.set_yticks(range(len(rows)), [label for label, *_ in rows])
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.set_title(group, loc="left", fontsize=10, fontweight="bold")
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set(
        xlabel="truths inside the interval, %",
        xlim=(25, 101),
        xticks=(30, 40, 50, 60, 70, 80, 90, 95),
    )
    figure.suptitle(title)
    plt.show()


# %%
# **With default settings.** Probabilities of observed quantities, such as the next answer, are right everywhere. They
# can be checked on held-out data. Intervals of latent quantities, such as utilities, are harder.
observed = [
    ("GPPLClassifier: the next answer", "GPPLClassifier", "answer"),
    ("CrowdGPPL: a user's next answer", "CrowdGPPL", "answer"),
    ("GPOrdinalRegressor: a grade", "GPOrdinalRegressor", "level"),
    ("SVGPRegressor: y", "SVGPRegressor", "y"),
    ("SVGPRegressor: negative binomial counts", "SVGPRegressor, negative-binomial", "y"),
    ("SVGPClassifier: a class", "SVGPClassifier", "class"),
    ("GibbsM3F: a rating", "GibbsM3F", "rating"),
    ("GibbsIPM3F: a rating", "GibbsIPM3F", "rating"),
    ("VariationalFMClassifier: known users", "VariationalFMClassifier", "class, known users"),
    ("VariationalFMClassifier: new users", "VariationalFMClassifier", "class, new users"),
    ("VariationalFMOrdinal: a level, known users", "VariationalFMOrdinal", "level, known users"),
    ("VariationalFMOrdinal: a level, new users", "VariationalFMOrdinal", "level, new users"),
]  # fmt: skip
latent = [
    ("GPPLClassifier: utilities", "GPPLClassifier", "utility"),
    ("GPPLClassifier without features: utilities", "GPPLClassifier of ids", "utility"),
    ("GPPLClassifier, ties: utilities", "GPPLClassifier, ties and covariates", "utility"),
    ("GPPLClassifier without features, ties: utilities",
     "GPPLClassifier of ids, ties", "utility"),
    ("GPPLClassifier: effects of covariates", "GPPLClassifier, ties and covariates", "effect"),
    ("GPPLRegressor from scores: utilities", "GPPLRegressor from scores", "utility"),
    ("CrowdGPPL: the consensus", "CrowdGPPL", "consensus"),
    ("CrowdGPPL: personal utilities", "CrowdGPPL", "personal utility"),
    ("CrowdGPPL, ties: personal utilities", "CrowdGPPL, ties", "personal utility"),
    ("CrowdGPPL, ties: thresholds of users", "CrowdGPPL, ties", "tie threshold"),
    ("CrowdGPPL, 12 users: personal utilities",
     "CrowdGPPL, 12 users, 10 answers each", "personal utility"),
    ("CrowdGPPL, 3 answers: the consensus", "CrowdGPPL, 200 users, 3 answers each", "consensus"),
    ("CrowdGPPL, 3 answers: personal utilities",
     "CrowdGPPL, 200 users, 3 answers each", "personal utility"),
    ("CrowdGPPL: accuracy of users", "CrowdGPPL", "accuracy of users"),
    ("CrowdGPPL: position biases", "CrowdGPPL, 40 users, 60 answers each", "position bias"),
    ("CrowdGPPL, 12 answers: position biases",
     "CrowdGPPL, 200 users, 12 answers each", "position bias"),
    ("CrowdGPPL, careless users: reliability", "CrowdGPPL, careless users", "reliability of users"),
    ("CrowdGPPL, careless users: accuracy", "CrowdGPPL, careless users", "accuracy of users"),
    ("GPOrdinalRegressor: the latent function", "GPOrdinalRegressor", "latent"),
    ("SVGPRegressor: the function", "SVGPRegressor", "f"),
    ("VariationalFM: y(x) of known users", "VariationalFM", "y(x), known users"),
    ("VariationalFM: y(x) of new users", "VariationalFM", "y(x), new users"),
    ("VariationalFMOrdinal: y(x) of known users", "VariationalFMOrdinal", "y(x), known users"),
]  # fmt: skip
draw(
    {"Observed quantities": observed, "Latent quantities": latent},
    "With default settings",
)

# %%
# **With other settings.** Faster approximations have intervals that are too narrow. With outliers, normal noise becomes
# too wide; a likelihood with heavy tails corrects this. The variational posterior of a factorization machine is too
# narrow; Gibbs sampling corrects this.
settings = {
    "GPPLClassifier: utilities": [
        ("the true kernel", "GPPLClassifier, kernel known", "utility"),
        ("item_effects=False", "GPPLClassifier, no offsets", "utility"),
        ('and inference="laplace"', "GPPLClassifier, laplace", "utility"),
        ('and inference="linearised"', "GPPLClassifier, linearised", "utility"),
        ('and inference="svi", inducing=15', "GPPLClassifier, svi, 15 inducing points", "utility"),
        ("2,000 items without features", "GPPLClassifier of 2,000 ids", "utility"),
    ],
    "GPPLRegressor from scores: utilities": [
        ("the true kernel and scale", "GPPLRegressor from scores, all known", "utility"),
        ("scaled to the truth", "GPPLRegressor from scores, scaled", "utility"),
        ("strong signal, scaled", "GPPLRegressor from scores, strong signal, scaled", "utility"),
    ],
    "GPOrdinalRegressor: the latent function": [
        ("default", "GPOrdinalRegressor", "latent"),
        ("scaled to the truth", "GPOrdinalRegressor, scaled", "latent"),
    ],
    "SVGPRegressor": [
        ("the function; 40 inducing points", "SVGPRegressor, 40 inducing points", "f"),
        ('the function; and optimizer="adam"', "SVGPRegressor, adam, 40 inducing points", "f"),
        ("y; 5 % outliers", "SVGPRegressor, 5 % outliers", "y"),
        ('y; 5 % outliers, likelihood="student-t"', "SVGPRegressor, 5 % outliers, student-t", "y"),
        ("the function; 5 % outliers", "SVGPRegressor, 5 % outliers", "f"),
        ('the function; 5 % outliers, "student-t"', "SVGPRegressor, 5 % outliers, student-t", "f"),
    ],
    'VariationalFMOrdinal, inference="variational"': [
        ("a level, known users", "VariationalFMOrdinal, variational", "level, known users"),
        ("a level, new users", "VariationalFMOrdinal, variational", "level, new users"),
        ("y(x) of known users", "VariationalFMOrdinal, variational", "y(x), known users"),
    ],
}  # fmt: skip
draw(settings, "With other settings")

# %%
# Bars are two standard errors over data sets. The slowest fit took this long, in seconds of CPU:
slowest = max(measured.values(), key=lambda row: row["seconds"])
n_data_sets = sum(row["n_data_sets"] for row in measured.values())
print(f"{slowest['name']}: {slowest['seconds']} s; {n_data_sets} data sets")

# %%
# **Next:** :ref:`trust` says what to do about each red dot.
