"""
A leaderboard from a table of battles
=====================================

An arena shows two answers side by side, and people say which is better. The table has the usual columns. The battles
are simulated: 20 models, 4,000 battles, one in eight a tie.
"""

# %%
# The table looks like a downloaded one: winners are words for sides, and ties have two names.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpref import GPPLClassifier
from skpref.data import from_winners
from skpref.plots import RankingDisplay, WinMatrixDisplay

rng = np.random.default_rng(0)
names = np.array([f"model-{letter}" for letter in "abcdefghijklmnopqrst"])
truth = rng.normal(size=names.size)
left = rng.integers(names.size, size=4000)
right = (left + rng.integers(1, names.size, size=4000)) % names.size
left_wins = rng.random(4000) < 1.0 / (1.0 + np.exp(truth[right] - truth[left]))
winner = np.where(left_wins, "model_a", "model_b").astype(object)
winner[::8] = "tie"
winner[::16] = "tie (bothbad)"
battles = pd.DataFrame({"model_a": names[left], "model_b": names[right], "winner": winner})
battles.head()

# %%
# Bradley-Terry with a posterior. Elo points are those of chess: a lead of 400 points means odds of ten to one, and the
# average model has 1500. Models that the battles cannot tell apart share the same ``tied_rank``.
rows = from_winners(battles, "model_a", "model_b")
model = GPPLClassifier(likelihood="logit").fit(rows.X, rows.y, rows.sample_weight)
leaderboard = model.rank(scale="elo")
leaderboard[:8].to_frame().round(1)

# %%
# Points with their 90 % intervals. A tie counts as half a win for each side. ``likelihood="logit-ties"`` makes it an
# answer of its own.
fig, ax = plt.subplots(figsize=(7, 6), layout="constrained")
RankingDisplay.from_ranking(leaderboard, ax=ax)
plt.show()

# %%
# How often does each model beat each other one? Left: predicted. Right: observed, with empty cells where two models
# never met.
fig, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
for ax, which in zip(axes, ("predicted", "observed"), strict=True):
    WinMatrixDisplay.from_estimator(model, which=which, n_items=12, ax=ax)
plt.show()

# %%
# A new model wins its first ten battles. ``partial_fit`` gives the result of one fit to all battles.
model.partial_fit([("model-new", name) for name in leaderboard.id[:5]] * 2)
newest = model.rank(scale="elo")
newest[newest.id == "model-new"].to_frame().round(1)

# %%
# **Next:** :ref:`sphx_glr_auto_examples_plot_arena.py` corrects for the length of answers.
