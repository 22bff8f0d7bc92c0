"""
Handwritten digits in two coordinates
=====================================

An image of 64 pixels becomes a point with two coordinates, without the help of its label. Principal components (PCA)
mix the ten digits, because they are straight. The curved coordinates of :class:`skpref.BayesianGPLVM` separate most of
them. The data are real: 1,797 images of handwritten digits, which come with scikit-learn.
"""

# %%
# Both methods see seven images in ten, without labels. Labels are used afterwards, to colour the picture and to measure
# it: a new image gets the label that most of its five nearest neighbours have.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patheffects import withStroke
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.manifold import Isomap
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from skpref import BayesianGPLVM

HALO = withStroke(linewidth=3, foreground="white")  # around the digits in the picture

X, digit = load_digits(return_X_y=True)
X_train, X_new, train, new = train_test_split(
    X, digit, test_size=0.3, random_state=0, stratify=digit
)
pca = PCA(2).fit(X_train)
model = BayesianGPLVM(2, random_state=0).fit(X_train)


def right(method):
    """Share of new images that get the right label from their neighbours."""
    neighbours = KNeighborsClassifier(5).fit(method.transform(X_train), train)
    return neighbours.score(method.transform(X_new), new)


fig, axes = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained")
for ax, method in zip(axes, (pca, model), strict=True):
    place = method.transform(X_new)
    ax.scatter(*place.T, c=new, cmap="tab10", s=12)
    for k in range(10):
        dots = place[new == k]
        middle = np.argmin(np.linalg.norm(dots - np.median(dots, axis=0), axis=1))
        ax.text(*dots[middle], str(k), size=14, weight="bold", path_effects=[HALO])
    ax.set(title=f"{type(method).__name__}: {right(method):.0%} right")
    ax.set(xlabel="coordinate 1", xticks=[], yticks=[])
axes[0].set_ylabel("coordinate 2")
fig.suptitle("New images, coloured by digit")
plt.show()

# %%
# This is about two coordinates. If ten are allowed, PCA is as good, and it is much faster. Isomap also bends its
# coordinates, but it cannot go back from coordinates to images.
for name, method in {
    "PCA, 2 coordinates": pca,
    "Isomap, 2 coordinates": Isomap(n_neighbors=10, n_components=2).fit(X_train),
    "BayesianGPLVM, 2 coordinates": model,
    "PCA, 10 coordinates": PCA(10).fit(X_train),
}.items():
    print(f"{name:28s} {right(method):.1%} right")

# %%
# New images get coordinates with a standard deviation: how exactly a coordinate is known, near the best place. It does
# not say that the image could be somewhere else. ``score_samples`` is low for images unlike those of the fit. Most of
# the wrong labels are among these.
mean, std = model.transform(X_new, return_std=True)
for k in range(3):
    print(f"a {new[k]} is at {mean[k].round(2)}, standard deviations {std[k].round(2)}")
score = model.score_samples(X_new)
label = KNeighborsClassifier(5).fit(model.embedding_, train).predict(mean)
unlike = score < np.quantile(score, 0.1)
wrong = label != new
print(f"wrong labels, tenth of lowest scores: {np.mean(wrong[unlike]):.0%}")
print(f"wrong labels, all others:             {np.mean(wrong[~unlike]):.0%}")

# %%
# The way back: ``inverse_transform`` draws an image for every pair of coordinates. Here are images on a grid.
low, high = np.quantile(model.embedding_, [0.02, 0.98], axis=0)
across, down = np.linspace(low[0], high[0], 12), np.linspace(high[1], low[1], 12)
places = [(a, b) for b in down for a in across]
fig, axes = plt.subplots(12, 12, figsize=(5.5, 5.5))
for ax, image in zip(axes.flat, model.inverse_transform(places), strict=True):
    ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16, interpolation="bilinear")
    ax.axis("off")
fig.subplots_adjust(0.07, 0.07, 0.99, 0.99, wspace=0.05, hspace=0.05)
fig.supxlabel("coordinate 1")
fig.supylabel("coordinate 2")
plt.show()

# %%
# How many coordinates are needed? Here are 178 wines with thirteen chemical measurements, which also come with
# scikit-learn. The shares of variance of PCA have no clear end. ``BayesianGPLVM`` may use ten coordinates and uses
# four. The other six keep the standard deviation of the prior, which is 1: no measurement depends on them.
# ``relevance_`` is large where the measurements are curved functions of a coordinate.
wines, cultivar = load_wine(return_X_y=True)
wines = StandardScaler().fit_transform(wines)
latent, linear = BayesianGPLVM(random_state=0).fit(wines), PCA(10).fit(wines)
bars = {
    "PCA: share of variance": linear.explained_variance_ratio_,
    "relevance_": latent.relevance_,
    "embedding_std_": latent.embedding_std_.mean(axis=0),
}
fig, axes = plt.subplots(1, 3, figsize=(9, 2.4), layout="constrained")
for ax, (title, heights) in zip(axes, bars.items(), strict=True):
    ax.bar(np.arange(1, 11), heights, color="0.6" if title.startswith("PCA") else "#1f6fb4")
    ax.set(title=title, xlabel="coordinate", xticks=np.arange(1, 11))
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# On these wines PCA is as good: with two coordinates each, neighbours find the cultivar about as often. Look at PCA
# first, and use the latent variable model where straight lines fail.
for name, place in (("PCA", linear.transform(wines)), ("BayesianGPLVM", latent.embedding_)):
    shares = cross_val_score(KNeighborsClassifier(5), place[:, :2], cultivar, cv=10)
    print(f"{name:14s} {shares.mean():.0%} right")

# %%
# **Next:** :doc:`/user_guide/reduce` is the guide, with reconstruction, outliers and computing time.
