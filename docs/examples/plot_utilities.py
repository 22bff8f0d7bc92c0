"""
Learn a utility function from comparisons
=========================================

Someone compares 60 pairs of 30 items, with a few errors. :class:`skpref.GPPLRegressor` finds the utility function
behind the answers, up to a constant, and says where it is uncertain.
"""

# %%
# The person prefers items near 0.7. The probability of an answer is the normal distribution function of the difference
# of the two utilities.
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from skpref import GPPLRegressor

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(size=(30, 1)), axis=0)


def utility(x):
    """What the person would say if asked for a number."""
    return 4 * np.exp(-0.5 * ((x - 0.7) / 0.15) ** 2)


pairs = np.array([rng.choice(30, size=2, replace=False) for _ in range(60)])
left, right = utility(X[pairs[:, 0], 0]), utility(X[pairs[:, 1], 0])
answers = rng.uniform(size=60) < norm.cdf(left - right)
comparisons = np.where(answers[:, None], pairs, pairs[:, ::-1])  # the preferred one first

# %%
# The length-scale is learnt by maximising the evidence lower bound.
model = GPPLRegressor(optimizer="l-bfgs-b", random_state=0).fit(X, comparisons=comparisons)
grid = np.linspace(0, 1, 200)[:, None]
mean, std = model.predict(grid, return_std=True)
print(f"kernel {model.kernel_}, lower bound {model.lower_bound_:.2f}")

# %%
# A constant added to all utilities changes no answer, so the true curve is shown shifted to the same mean.
truth = utility(grid[:, 0])
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.fill_between(
    grid[:, 0], mean - 2 * std, mean + 2 * std, alpha=0.2, label="two standard deviations"
)
ax.plot(grid[:, 0], mean, label="posterior mean")
ax.plot(grid[:, 0], truth - truth.mean() + mean.mean(), "k--", label="truth, shifted")
ax.plot(X[:, 0], np.full(30, ax.get_ylim()[0]), "k|", label="items")
ax.set(xlabel="feature", ylabel="utility", title="60 comparisons of 30 items")
ax.legend()
plt.show()

# %%
# The same as a probability: how often the person would prefer an item at 0.7 to one elsewhere.
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
best = np.full_like(grid, 0.7)
ax.plot(grid[:, 0], model.predict_preference(best, grid), label="predicted")
ax.plot(grid[:, 0], norm.cdf(utility(0.7) - truth), "k--", label="true")
ax.set(xlabel="feature of the other item", ylabel="p(0.7 preferred)")
ax.legend()
plt.show()

# %%
# **Next:** :ref:`pairwise` is the guide of models of comparisons.
