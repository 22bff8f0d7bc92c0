"""
Gaussian process regression: intervals, inducing points, outliers
=================================================================

An interval of 90 % should contain 90 % of the targets. On a small real data set those of :class:`skpref.SVGPRegressor`
do, and those of gradient boosting are too narrow. The data are real: how far diabetes had progressed in 442 patients a
year after ten measurements (they come with scikit-learn). The rest of the page is about inducing points and outliers,
with simulated data.
"""

# %%
# Each patient is predicted once, in five-fold cross-validation. Boosting needs a fit for each quantile, and one for the
# mean. The picture shows the patients of one fold; red targets are outside their interval.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpref import SVGPRegressor

X, y = load_diabetes(return_X_y=True)
QUANTILES = {"low": 0.05, "median": 0.5, "high": 0.95}


def gaussian_process(X, y, X_new):
    """Return mean and quantiles of new patients. The mean is the median, too."""
    model = make_pipeline(StandardScaler(), SVGPRegressor(inducing=40, random_state=0))
    mean, std = model.fit(X, y).predict(X_new, return_std=True)
    return {
        "mean": mean,
        "low": mean - 1.645 * std,
        "median": mean,
        "high": mean + 1.645 * std,
    }


def boosting(X, y, X_new, **settings):
    """Return mean and quantiles of new patients from four fits."""
    model = HistGradientBoostingRegressor(random_state=0, **settings)
    predicted = {"mean": model.fit(X, y).predict(X_new)}
    for name, quantile in QUANTILES.items():
        model.set_params(loss="quantile", quantile=quantile)
        predicted[name] = model.fit(X, y).predict(X_new)
    return predicted


def small_trees(X, y, X_new):
    """Return the predictions of boosting with trees of depth two."""
    return boosting(X, y, X_new, max_depth=2, learning_rate=0.05)


methods = {
    "SVGPRegressor": gaussian_process,
    "boosting, default settings": boosting,
    "boosting, small trees": small_trees,
}
folds = list(KFold(5, shuffle=True, random_state=0).split(X))
predicted = {
    name: [method(X[train], y[train], X[test]) for train, test in folds]
    for name, method in methods.items()
}

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for ax, name in zip(axes, methods, strict=False):
    fold, targets = predicted[name][0], y[folds[0][1]]
    order = np.argsort(fold["median"])
    low, median, high = (fold[key][order] for key in QUANTILES)
    outside = (targets[order] < low) | (targets[order] > high)
    place = np.arange(order.size)
    ax.vlines(
        place, low, high, color="#1f6fb4", alpha=0.3, linewidth=2.5, label="90 % interval"
    )
    ax.plot(place, median, color="#1f6fb4", label="median")
    ax.scatter(
        place, targets[order], s=12, c=np.where(outside, "#d1495b", "black"), zorder=3
    )
    ax.set(
        xlabel="patients, by prediction", title=f"{name}: {np.mean(~outside):.0%} inside"
    )
axes[0].set_ylabel("progression")
axes[0].legend(loc="upper left", frameon=False)
plt.show()

# %%
# Here are all patients: the share of targets inside the 90 % interval, its mean width, the root mean squared error of
# the mean, and the mean pinball loss of the three quantiles. For both errors, lower is better. Small trees help
# boosting, but its intervals remain too narrow. Boosting can be better on large tables, where effects jump, and where
# values are missing: see :doc:`/user_guide/choosing`.
for name, parts in predicted.items():
    whole = {key: np.empty(len(y)) for key in parts[0]}
    for (_, test), part in zip(folds, parts, strict=True):
        for key, values in part.items():
            whole[key][test] = values
    inside = np.mean((whole["low"] <= y) & (y <= whole["high"]))
    rmse = np.sqrt(np.mean((whole["mean"] - y) ** 2))
    losses = [mean_pinball_loss(y, whole[q], alpha=alpha) for q, alpha in QUANTILES.items()]
    pinball = np.mean(losses)
    width = np.mean(whole["high"] - whole["low"])
    print(f"{name:26s} inside {inside:.0%}, width {width:.0f}", end=", ")
    print(f"RMSE {rmse:.1f}, pinball loss {pinball:.2f}")

# %%
# **Inducing points.** Twenty points represent two thousand noisy measurements of a function that changes quickly on the
# left and slowly on the right. It is simulated, so that the truth is known.
rng = np.random.default_rng(0)
X = rng.uniform(0.0, 10.0, (2000, 1))


def truth(x):
    return np.sin(12.0 / (1.0 + x)) + 0.1 * x


y = truth(X[:, 0]) + 0.15 * rng.normal(size=2000)
line = np.linspace(-0.5, 11.0, 400)[:, None]

# %%
# First, inducing points stay where k-means++ placed them. Then their positions are learnt by the gradient of the lower
# bound. A higher bound is better.
fixed = SVGPRegressor(inducing=20, learn_inducing=False, random_state=0).fit(X, y)
learnt = SVGPRegressor(inducing=20, learn_inducing=True, random_state=0).fit(X, y)
print(f"bound: fixed {fixed.lower_bound_:.1f}, learnt {learnt.lower_bound_:.1f}")
print(f"noise: {learnt.noise_:.3f} (truth 0.150)")

fig, axes = plt.subplots(
    2, 1, sharex=True, sharey=True, figsize=(7, 6), layout="constrained"
)
for axis, model, name in zip(axes, (fixed, learnt), ("fixed", "learnt"), strict=True):
    mean, std = model.predict(line, return_std=True)
    axis.plot(X[:, 0], y, ".", color="0.8", markersize=2, label="data")
    axis.plot(line[:, 0], mean, label="mean")
    axis.fill_between(
        line[:, 0],
        mean - 2.0 * std,
        mean + 2.0 * std,
        alpha=0.3,
        label="two standard deviations",
    )
    axis.plot(
        model.inducing_points_[:, 0],
        np.full(20, -1.8),
        "^",
        color="black",
        label="inducing points",
    )
    axis.set(ylabel="y", ylim=(-3.2, 3.2), title=f"{name} inducing points")
axes[0].legend(loc="lower right", ncols=2, fontsize=8)
plt.show()

# %%
# **Outliers.** Now one measurement in fifty is an outlier. Gaussian noise follows the outliers, Student's t mostly
# ignores them.
y_outliers = y + 8.0 * (rng.random(2000) < 0.02)
for likelihood in ("gaussian", "student-t"):
    model = SVGPRegressor(likelihood=likelihood, inducing=20, random_state=0).fit(
        X, y_outliers
    )
    error = np.sqrt(np.mean((model.predict(X) - truth(X[:, 0])) ** 2))
    print(f"{likelihood:10} RMSE to the true function {error:.3f}")

# %%
# **Next:** :ref:`regression` says how many inducing points are enough, and how to fit streams and files.
