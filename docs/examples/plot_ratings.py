"""
Recommend films from ratings
============================

Sixty people rated some of forty films. How would they rate the others? :class:`skpref.GibbsM3F` learns factors of users
and films from the ratings alone. :class:`skpref.GibbsIPM3F` also learns how many there are. The data are simulated.
"""

# %%
# Each user has some of four tastes. Each film suits a taste well or badly. Users differ in how easily they give stars.
# Each user rated about six in ten films.
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
print("always the median:", np.abs(np.median(y[~test]) - y[test]).mean().round(3), "stars off")

# %%
# ``C`` is the weight of the loss. With fewer ratings, a larger ``C`` is better.
options = {"n_sweeps": 80, "burn_in": 30, "random_state": 0}
factors = GibbsM3F(n_factors=4, C=0.2, **options).fit(X[~test], y[~test])
features = GibbsIPM3F(C=0.2, sigma=5.0, **options).fit(X[~test], y[~test])
for model in (factors, features):
    print(type(model).__name__, round(-model.score(X[test], y[test]), 3), "stars off")

# %%
# The risk falls during the burn-in of the chain, and the number of features becomes stable.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), constrained_layout=True)
for model in (factors, features):
    left.plot(model.risks_[0], label=type(model).__name__)
left.set(xlabel="sweep", ylabel="regularised risk", yscale="log")
left.legend()
right.plot(features.n_factors_[0])
right.set(xlabel="sweep", ylabel="features")
plt.show()

# %%
# Recommendations for a user, with their uncertainty. ``fold_in`` learns a new user and leaves the films unchanged.
print(factors.recommend(0, 3).round(1))
factors.fold_in([("new", 3), ("new", 5), ("new", 7)], [5, 1, 4])
print("for the new user:", factors.recommend("new", 3)["item"].tolist())

# %%
# **Next:** :ref:`ratings` is the guide. :ref:`factorization` is for features of users and films.
