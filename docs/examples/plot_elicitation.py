"""
Choose questions for a new user
===============================

A recommender knows nothing about a new user (cold start). Which few films should it ask the user to rate first?
:mod:`skpref.elicitation` has five strategies. This example compares them on twenty new people. The data are simulated.
"""

# %%
# The likes of 120 people depend on two tastes, and on how easily a person likes anything. The model learns from one
# hundred people; the other twenty are new.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline

from skpref import VariationalFMClassifier
from skpref.data import OneHotDesign
from skpref.elicitation import STRATEGIES, Session, replay

rng = np.random.default_rng(1)
tastes, films = rng.normal(size=(120, 2)), 1.5 * rng.normal(size=(2, 30))
likes = (
    rng.normal(size=(120, 1)) + tastes @ films + rng.normal(size=(120, 30)) > 0.0
).astype(int)
pairs = np.argwhere(np.ones((100, 30)))
design = OneHotDesign()
machine = VariationalFMClassifier(
    n_factors=2, groups=design.fit(pairs).groups_, random_state=0
)
model = make_pipeline(design, machine).fit(pairs, likes[:100].ravel())

# %%
# One person, question by question. Each answer changes which question is best next.
session = Session(model)
for _ in range(5):
    film = int(session.ask()[0])
    session.tell({film: likes[100, film].item()})
    answer, variance = "yes" if likes[100, film] else "no", session.belief_.variance.mean()
    print(f"film {film:2d}: {answer:3s}  mean variance of all films {variance:.2f}")

# %%
# Predictions for films that the person was not asked about, with 90 % intervals.
found = session.estimates()
rest = [film for film in np.argsort(-found.value) if film not in session.answers_][:12]
fig, axes = plt.subplots(figsize=(7, 3.5), constrained_layout=True)
axes.vlines(range(12), found.low[rest], found.high[rest], color="lightgray", lw=6)
axes.scatter(
    range(12),
    found.value[rest],
    c=["tab:green" if likes[100, film] else "tab:red" for film in rest],
    zorder=2,
)
axes.set(
    xlabel="film",
    ylabel="probability of a like",
    xticks=range(12),
    xticklabels=rest,
    title="green: liked",
)
plt.show()


# %%
# All twenty people, with each strategy. The measure is the area under the ROC curve (AUC) on fifteen films that are
# never asked about. With so few people, the strategies hardly differ.
def start(person: int, strategy: str, seed: int) -> Session:
    return session.fresh(strategy, random_state=100 * seed + person)


run = replay(start, likes[100:], np.arange(30) >= 15, n_questions=8, batch=2)
fig, axes = plt.subplots(figsize=(7, 3.5), constrained_layout=True)
for strategy in STRATEGIES:
    axes.plot(run.asked, run.mean()[strategy], marker="o", label=strategy)
axes.set(xlabel="questions to each person", ylabel="AUC")
axes.legend()
plt.show()

# %%
# **Next:** :ref:`elicitation` shows a session with a real person, and ``skpref elicit MODEL`` asks the questions in a
# terminal.
