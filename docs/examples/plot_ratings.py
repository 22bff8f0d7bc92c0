"""
Recommend films from ratings
============================

Sixty people rated some of forty films. How would they rate the others? :class:`skpref.GibbsM3F` learns factors of users
and films from the ratings alone. :class:`skpref.GibbsIPM3F` also learns how many features to use. The picture shows
ratings that the models have not seen. The data are simulated.
"""

# %%
# Each user has some of four tastes. Each film suits a taste well or badly. Users differ in how easily they give stars.
# Each user rated about six in ten films. A fifth of these ratings are held out.
import matplotlib.pyplot as plt
import numpy as np

from skpref import GibbsIPM3F, GibbsM3F

rng = np.random.default_rng(0)
tastes, films = rng.random((60, 4)) < 0.5, 9.0 * rng.normal(size=(40, 4))
X = np.argwhere(rng.random((60, 40)) < 0.6)
score = (tastes @ films.T)[X[:, 0], X[:, 1]] + 2.0 * rng.normal(size=len(X))
bar = np.array([-20.0, -6.0, 6.0, 20.0]) + 3.0 * rng.normal(size=(60, 1))
y = 1 + (score[:, None] >= bar[X[:, 0]]).sum(axis=1)
test = rng.random(len(y)) < 0.2

# %%
# ``C`` is the weight of the loss. With fewer ratings, a larger ``C`` is better. Expected stars lean to the middle where
# a level is rare: one star and five stars.
options = {"max_iter": 120, "burn_in": 60, "random_state": 0}
factors = GibbsM3F(n_factors=4, C=0.2, **options).fit(X[~test], y[~test])
features = GibbsIPM3F(C=0.2, sigma=5.0, **options).fit(X[~test], y[~test])

median = np.abs(np.median(y[~test]) - y[test]).mean()
fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
jitter = rng.uniform(-0.25, 0.25, test.sum())
for ax, model in zip(axes, (factors, features), strict=True):
    expected = model.predict_proba(X[test]) @ model.classes_
    ax.scatter(y[test] + jitter, expected, s=10, alpha=0.5)
    ax.hlines(
        model.classes_,
        model.classes_ - 0.35,
        model.classes_ + 0.35,
        color="black",
        linewidth=1,
    )
    error = -model.score(X[test], y[test])
    ax.set(
        title=f"{type(model).__name__}: {error:.2f} stars off",
        xlabel="true stars",
        xticks=model.classes_,
    )
axes[0].set(ylabel="expected stars", ylim=(0.7, 5.3))
fig.suptitle(f"Held-out ratings (the median of all ratings is {median:.2f} stars off)")
plt.show()

# %%
# The risk falls during the burn-in of the chain. ``GibbsIPM3F`` also learns how many features to use; there are more of
# them than tastes, because several features describe one taste. The number of features falls during the burn-in.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
for model in (factors, features):
    left.plot(model.risks_[0], label=type(model).__name__)
left.set(xlabel="sweep", ylabel="regularised risk", yscale="log")
left.legend()
right.plot(features.n_factors_[0], color="C1")
right.set(xlabel="sweep", ylabel="features", ylim=(0, None))
for ax in (left, right):
    ax.axvspan(0, options["burn_in"], color="0.93", zorder=0)
plt.show()

# %%
# **A new user** rates three films. ``fold_in`` learns this user in a moment and leaves the films unchanged. This user
# has the first taste and the fourth, which the model does not know.
wanted = films[:, 0] + films[:, 3]
stars = 1 + (wanted[:, None] >= [-20.0, -6.0, 6.0, 20.0]).sum(axis=1)
rated = [3, 5, 7]
factors.fold_in([("new", film) for film in rated], stars[rated])
best = factors.recommend("new", 5)
best.round(1)

# %%
# Five recommendations: expected stars, the interval that contains the stars with at least 90 % probability, and the
# stars that the user would give.
items = best["item"].to_numpy()
p = factors.predict_proba([("new", film) for film in items])
below = p.cumsum(axis=1)
low, high = (factors.classes_[np.argmax(below >= level, axis=1)] for level in (0.05, 0.95))
fig, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
ax.hlines(
    range(5), low, high, color="#1f6fb4", linewidth=7, alpha=0.35, label="90 % interval"
)
ax.plot(p @ factors.classes_, range(5), "o", color="#1f6fb4", label="expected stars")
ax.plot(stars[items], range(5), "|", color="black", markersize=14, label="true stars")
ax.set_yticks(range(5), [f"film {film}" for film in items])
ax.set(xlabel="stars", xlim=(0.8, 5.2), xticks=factors.classes_)
ax.margins(y=0.15)
ax.invert_yaxis()
fig.legend(loc="outside right center", frameon=False)
plt.show()

# %%
# **Next:** :ref:`ratings` is the guide. :ref:`factorization` is for features of users and films.
