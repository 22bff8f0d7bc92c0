"""
Gaussian process regression with few inducing points
====================================================

Twenty inducing points represent two thousand noisy measurements of a function. Their positions are learnt. A likelihood
with heavy tails is robust against outliers. The data are simulated.
"""

# %%
# The function changes quickly on the left and slowly on the right.
import matplotlib.pyplot as plt
import numpy as np

from skpref import SVGPRegressor

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 10.0, (2000, 1))


def truth(x):
    return np.sin(12.0 / (1.0 + x)) + 0.1 * x


y = truth(X[:, 0]) + 0.15 * rng.normal(size=2000)
line = np.linspace(-0.5, 11.0, 400)[:, None]

# %%
# First, inducing points stay where k-means++ placed them. Then their positions are learnt by the gradient of the lower
# bound. A higher bound is better.
fixed = SVGPRegressor(n_inducing=20, learn_inducing=False, random_state=0).fit(X, y)
learnt = SVGPRegressor(n_inducing=20, learn_inducing=True, random_state=0).fit(X, y)
print(f"bound: fixed {fixed.lower_bound_:.1f}, learnt {learnt.lower_bound_:.1f}")
print(f"noise: {learnt.noise_:.3f} (truth 0.150)")

fig, axes = plt.subplots(2, 1, sharex=True, sharey=True, figsize=(7, 6), constrained_layout=True)
for axis, model, name in zip(axes, (fixed, learnt), ("fixed", "learnt"), strict=True):
    mean, std = model.predict(line, return_std=True)
    axis.plot(X[:, 0], y, ".", color="0.8", markersize=2)
    axis.plot(line[:, 0], mean)
    axis.fill_between(line[:, 0], mean - 2.0 * std, mean + 2.0 * std, alpha=0.3)
    axis.plot(model.inducing_points_[:, 0], np.full(20, -1.8), "^", color="black")
    axis.set(ylabel="y", title=f"{name} inducing points")

# %%
# Now one measurement in fifty is an outlier. Gaussian noise follows the outliers, Student's t mostly ignores them.
y_outliers = y + 8.0 * (rng.random(2000) < 0.02)
for likelihood in ("gaussian", "student-t"):
    model = SVGPRegressor(likelihood=likelihood, n_inducing=20, random_state=0).fit(X, y_outliers)
    error = np.sqrt(np.mean((model.predict(X) - truth(X[:, 0])) ** 2))
    print(f"{likelihood:10} RMSE to the true function {error:.3f}")

# %%
# **Next:** :ref:`regression` says how many inducing points are enough, and how to fit streams and files.
