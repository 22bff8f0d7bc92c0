"""
Predict grades
==============

Wines are graded poor, fair, good or superb. Nobody can say how much better *good* is than *fair*.
:class:`skpref.GPOrdinalRegressor` learns where each grade begins together with what makes a wine good, and predicts
a probability for each grade. The data are simulated.
"""

# %%
# There are two hundred wines with two measurements. Quality rises with the first one up to a point. The second one has
# no effect. Few wines are superb.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_predict, cross_val_score

from skpref import GPOrdinalRegressor
from skpref.metrics import ordinal_mae, ranked_probability_score

grades = ["poor", "fair", "good", "superb"]
rng = np.random.default_rng(0)
X = rng.uniform(0.0, 10.0, (200, 2))
quality = np.sin(0.35 * X[:, 0]) + 0.25 * rng.normal(size=200)
y = np.array(grades)[np.digitize(quality, [0.0, 0.7, 1.1])]
print({grade: int(np.sum(y == grade)) for grade in grades})

# %%
# Names have no order of their own, so ``class_order`` gives it. ``kernel="auto"`` weights several kernels by their
# evidence. The best ones here use hardly more than the first measurement.
model = GPOrdinalRegressor("auto", class_order=grades, random_state=0).fit(X, y)
for member in model.ensemble_:
    print(f"{member.weight:.2f}  {type(member.latent.kernel).__name__}")
print("relevance of the measurements", model.relevance_.round(3))
print("thresholds", model.thresholds_.round(2), "noise", round(model.noise_, 2))

# %%
# Probabilities of the grades along the first measurement. They change from grade to grade at the thresholds. A grade
# with a narrow range never becomes certain.
line = np.column_stack([np.linspace(0.0, 10.0, 200), np.full(200, 5.0)])
p = model.predict_proba(line)
fig, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(7, 6), constrained_layout=True)
top.stackplot(line[:, 0], p.T, labels=grades, colors=plt.get_cmap("viridis")(np.linspace(0.1, 0.9, 4)))
top.set(ylabel="probability", ylim=(0, 1))
top.legend(loc="lower right")
mean, std = model.predict_latent(line, return_std=True)
bottom.plot(line[:, 0], mean)
bottom.fill_between(line[:, 0], mean - 2 * std, mean + 2 * std, alpha=0.3)
for threshold in model.thresholds_:
    bottom.axhline(threshold, linestyle=":", color="black", linewidth=1)
bottom.set(xlabel="first measurement", ylabel="f, with thresholds")
plt.show()

# %%
# The score is minus the mean absolute error of the median grade, in grades. Probabilities are measured by proper
# scoring rules, which are best when the probabilities are right.
print("error in grades:", -cross_val_score(model, X, y, cv=5).round(3))
out = cross_val_predict(model, X, y, cv=5, method="predict_proba")
print("ranked probability score:", round(ranked_probability_score(y, out, labels=grades), 4))
print("error in grades of always 'fair':", ordinal_mae(y, np.full(200, "fair"), labels=grades))

# %%
# **Next:** :ref:`ordinal` is the guide, and :doc:`/user_guide/choosing` says when boosting is better.
