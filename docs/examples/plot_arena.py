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
code = rng.integers(0, 30, size=(2, 50_000))  # lines of code, which judges do not care about
z = truth.to_numpy()[a] - truth.to_numpy()[b] + 0.002 * (words[0] - words[1])
battles = pd.DataFrame({"model_a": names[a], "model_b": names[b], "words_a": words[0], "words_b": words[1]})
battles = battles.assign(code_a=code[0], code_b=code[1])
a_won = rng.random(50_000) < 1.0 / (1.0 + np.exp(-z))
battles.head()

# %%
# The constructor names the columns of ids and the pairs of columns whose differences may matter. The data frame is
# passed as it is.
plain = GPPLClassifier(left="model_a", right="model_b", likelihood="logit").fit(battles, a_won)
style = [("words_a", "words_b"), ("code_a", "code_b")]
controlled = GPPLClassifier(covariates=style, left="model_a", right="model_b", likelihood="logit").fit(battles, a_won)
controlled.covariate_table().round(4)

# %%
# One more word adds 0.002 units of utility, as simulated. Lines of code have no effect. The units differ, so the plot
# shows both effects for a typical difference.
CovariateEffectsDisplay.from_estimator(controlled)
plt.show()

# %%
# How much better is the leaderboard? We compare the rank correlation with the truth, and the share of models whose 90 %
# interval contains the truth. This share varies between simulations: with the seeds 0 to 15 it was 88 % on average, and
# between 75 % and 98 %.
for title, model in (("without covariates", plain), ("style controlled", controlled)):
    ranking = model.rank()
    true = truth[ranking.id].to_numpy() - truth.mean()
    covered = np.mean((true >= ranking.utility_low) & (true <= ranking.utility_high))
    print(f"{title:20s} Spearman {spearmanr(true, ranking.utility)[0]:.3f}   covered {covered:.0%}")

# %%
# Utilities with and without style control. Verbose models (red) fall, brief ones (blue) rise.
fig, ax = plt.subplots(figsize=(6, 5), layout="constrained")
points = ax.scatter(plain.utility(names), controlled.utility(names), c=verbosity, cmap="RdBu_r", edgecolor="grey")
ax.axline((0, 0), slope=1, color="grey", linewidth=0.8)
fig.colorbar(points, label="verbosity")
ax.set(xlabel="utility without covariates", ylabel="utility, style controlled")
plt.show()

# %%
# Rows of ids alone are predicted for answers of the same style. Rows of the table are predicted with the style of their
# answers.
pair = battles[:1]
print(f"with these answers {controlled.predict_proba(pair)[0, 1]:.3f}")
print(f"of the same style  {controlled.predict_proba(pair[['model_a', 'model_b']])[0, 1]:.3f}")

# %%
# **Next:** :ref:`covariates` has the options, :ref:`tables` reads your own table, and
# :ref:`sphx_glr_auto_examples_plot_league.py` adds home advantage and ties.
