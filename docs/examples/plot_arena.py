"""
Style control: when judges like long answers
============================================

Judges of an arena may like long answers, whatever the answers say. The leaderboard then ranks style and not quality. If
the table has the lengths of both answers, the effect of length can be learnt and removed. The data are simulated: 40
models, 50,000 battles.
"""

# %%
# Models differ in quality (``truth``) and, independently of it, in how much they write.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from skpref import GPPLClassifier
from skpref.plots import CovariateEffectsDisplay

rng = np.random.default_rng(0)
names = np.array([f"model-{k:02d}" for k in range(40)])
truth = pd.Series(rng.normal(0.0, 0.6, 40), names)
verbosity = 0.4 * rng.normal(size=40)

a = rng.integers(40, size=50_000)
b = (a + rng.integers(1, 40, size=50_000)) % 40
words = np.exp(5.5 + verbosity[[a, b]] + 0.5 * rng.normal(size=(2, 50_000))).round()
code = rng.integers(0, 30, size=(2, 50_000))  # lines of code; judges do not care
z = truth.to_numpy()[a] - truth.to_numpy()[b] + 0.002 * (words[0] - words[1])
battles = pd.DataFrame(
    {"model_a": names[a], "model_b": names[b], "words_a": words[0], "words_b": words[1]}
)
battles = battles.assign(code_a=code[0], code_b=code[1])
a_won = rng.random(50_000) < 1.0 / (1.0 + np.exp(-z))
battles.head()

# %%
# The constructor names the columns of ids and the pairs of columns whose differences may matter. The data frame is
# passed as it is.
ids = {"left": "model_a", "right": "model_b", "likelihood": "logit"}
plain = GPPLClassifier(**ids).fit(battles, a_won)
style = [("words_a", "words_b"), ("code_a", "code_b")]
controlled = GPPLClassifier(covariates=style, **ids).fit(battles, a_won)
controlled.covariate_table().round(4)

# %%
# One more word adds 0.002 units of utility, as simulated. Lines of code have no effect. The units differ, so the plot
# shows both effects for a typical difference.
fig, ax = plt.subplots(figsize=(6, 1.6), layout="constrained")
CovariateEffectsDisplay.from_estimator(controlled, ax=ax)
ax.margins(y=0.5)
plt.show()

# %%
# How much better is the leaderboard? We compare the rank correlation with the truth, and the share of models whose 90 %
# interval contains the truth. This share varies between simulations: with the seeds 0 to 15 it was 88 % on average, and
# between 75 % and 98 %.
models = {"without covariates": plain, "style controlled": controlled}
for title, model in models.items():
    ranking = model.rank()
    true = truth[ranking.id].to_numpy() - truth.mean()
    covered = np.mean((true >= ranking.utility_low) & (true <= ranking.utility_high))
    correlation = spearmanr(true, ranking.utility)[0]
    print(f"{title:20s} Spearman {correlation:.3f}   covered {covered:.0%}")

# %%
# Estimated utilities with their 90 % intervals, against the true ones. Without covariates, verbose models (red) are
# above the diagonal and brief ones (blue) below it. Style control moves both to the diagonal.
fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True, layout="constrained")
for ax, (title, model) in zip(axes, models.items(), strict=True):
    ranking = model.rank()
    true = truth[ranking.id].to_numpy() - truth.mean()
    ax.axline((0, 0), slope=1, color="grey", linewidth=0.8)
    ax.vlines(true, ranking.utility_low, ranking.utility_high, color="grey", linewidth=1.5)
    colours = pd.Series(verbosity, names)[ranking.id]
    look = {"cmap": "RdBu_r", "vmin": -1, "vmax": 1, "edgecolor": "grey", "zorder": 3}
    points = ax.scatter(true, ranking.utility, c=colours, **look)
    ax.set(title=title, xlabel="true utility")
axes[0].set_ylabel("estimated utility, 90 % interval")
fig.colorbar(points, label="verbosity (logarithm of words)")
plt.show()
# sphinx_gallery_thumbnail_number = 2

# %%
# Rows of ids alone are predicted for answers of the same style. Rows of the table are predicted with the style of their
# answers.
pair = battles[:1]
print(f"with these answers {controlled.predict_proba(pair)[0, 1]:.3f}")
by_id = controlled.predict_proba(pair[["model_a", "model_b"]])
print(f"of the same style  {by_id[0, 1]:.3f}")

# %%
# **Next:** :ref:`covariates` has the options, :ref:`reading` reads your own table, and
# :ref:`sphx_glr_auto_examples_plot_league.py` adds home advantage and ties.
