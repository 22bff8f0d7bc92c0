"""
Did the model get worse?
========================

A leaderboard of language models covers two years. In the second spring, the provider of one model changed it behind its
name, and it got worse. One fit to all battles finds out when, with intervals. The battles are simulated.
"""

# %%
# Each row is one battle: two models, the day, and which answer was better. Six models, each better than the next one by
# 0.3 in units of the noise of a vote; ``sonnet`` loses 1.2 on 1 April 2025.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpref import GPPLClassifier
from skpref.plots import SkillCurvesDisplay

rng = np.random.default_rng(0)
models = np.array(["opus", "sonnet", "ballad", "haiku", "rondo", "limerick"])
n, change = 6000, pd.Timestamp("2025-04-01")
left = rng.integers(0, 6, n)
right = (left + rng.integers(1, 6, n)) % 6
day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 731, n)), "D")
worse = np.asarray(day >= change)


def strength(number):
    return -0.3 * number - 1.2 * worse * (number == 1)


p = 1.0 / (1.0 + np.exp(strength(right) - strength(left)))
battles = pd.DataFrame({"model_a": models[left], "model_b": models[right], "day": day})
a_won = rng.random(n) < p
battles.assign(a_won=a_won).head()

# %%
# Name the column of the days. The evidence says that strengths move, and how.
model = GPPLClassifier(left="model_a", right="model_b", time="day", likelihood="logit")
model.fit(battles, a_won)
print(
    f"{model.dynamics_.name}: form with a standard deviation of {model.dynamics_.form_sd:.2f}"
)
pd.Series(model.dynamics_.log_posteriors).round(1)

# %%
# Skills over time with 90 % intervals. Dashed lines are the true strengths. The line of the last battle is where the
# forecast begins: intervals fan out.
fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
times = pd.date_range("2024-01-01", "2026-07-01", periods=150)
SkillCurvesDisplay.from_estimator(
    model, items=["opus", "sonnet", "haiku"], times=times, ax=ax
)
truth = np.array(
    [[-0.3 * k - 1.2 * (k == 1) * (t >= change) for k in range(6)] for t in times]
)
for k in (0, 1, 3):
    ax.plot(times, truth[:, k] - truth.mean(axis=1), "k--", linewidth=0.8)
plt.show()

# %%
# The difference between two dates, with an interval: utilities at both dates are nearly independent where they are a
# year apart.
before, after = (
    model.utility(["sonnet"], at=date, return_std=True)
    for date in ("2025-02-01", "2025-10-01")
)
fall = after[0][0] - before[0][0]
std = np.hypot(after[1][0], before[1][0])
print(f"sonnet fell by {-fall:.2f} +- {1.645 * std:.2f}")

# %%
# A ranking at any day; and of the models that took part in the last 90 days.
", ".join(model.rank(at="2025-02-01").id), ", ".join(model.rank(active="90D").id)

# %%
# A model that does not move averages over both years, and its intervals do not contain today's strength.
still = GPPLClassifier(left="model_a", right="model_b", likelihood="logit").fit(
    battles, a_won
)
today = strength(1)[-1] - np.mean([strength(k)[-1] for k in range(6)])
for name, one in (("moves", model), ("does not move", still)):
    utility, std = one.utility(["sonnet"], return_std=True)
    print(f"{name:14} {utility[0]:.2f} +- {1.645 * std[0]:.2f}   truth {today:.2f}")

# %%
# **Next:** :ref:`drift` has all options. Evaluate on later rows, with :class:`~skpref.search.TimeBlocks`.
