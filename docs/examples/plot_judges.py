"""
Reliability and position bias of judges
=======================================

Forty judges, people or language models, see two answers side by side and say which is better. Some prefer the answer
that is shown first, some have a taste of their own, and a few answer at random. :class:`skpref.CrowdGPPL` learns all
this together with the consensus. The data are simulated, so the results can be compared with the truth.
"""

# %%
# Fifteen models, 2,400 answers. Judges favour the left answer by 0.4 on average, with a standard deviation of 0.5 (in
# units of the noise of an answer). They differ in one taste, and four of them answer at random. :ref:`judges` shows how
# to read a file of verdicts.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpref import CrowdGPPL
from skpref.datasets import make_crowd

data = make_crowd(
    n_users=40,
    n_items=15,
    n_comparisons=2400,
    n_factors=1,
    n_features=0,
    n_user_features=0,
    factor_scale=2.0,
    order_effect=(0.4, 0.5),
    share_random=0.1,
    random_state=3,
)
print(data.comparisons[:3], data.y[:3])  # judge, left, right; 1 = left is better

# %%
# Five factors are more than needed. ``factor_scales_`` is the variance that each adds to the utilities: two are in use.
# One is the taste. The other is nearly parallel to the consensus, and describes judges who do not follow it.
model = CrowdGPPL(n_factors=5, order_effect=True, random_state=0).fit(
    data.comparisons, data.y
)
print("variance by factor", model.factor_scales_.round(3))
print("advantage of the left side, shared: {:.2f} +- {:.2f}".format(*model.order_effect_))

# %%
# Position bias of every judge, with its 90 % credible interval. The last line prints how many of these intervals
# contain the truth. Over ten such crowds it is 90 %.
judges = model.annotators(random_state=0)
order = np.argsort(judges["bias"].to_numpy())
bias, low, high = (
    judges[name].to_numpy()[order] for name in ("bias", "bias_low", "bias_high")
)
truth = data.position_bias[judges["user"].to_numpy()[order]]
at_random = data.random_users[judges["user"].to_numpy()[order]]
place = np.arange(len(order))
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.errorbar(
    place,
    bias,
    yerr=[bias - low, high - bias],
    fmt="o",
    markersize=4,
    label="posterior mean, 90 % interval",
)
ax.plot(place[~at_random], truth[~at_random], "k_", markersize=9, label="truth")
ax.axhline(0.0, color="grey", linewidth=0.8)
ax.set(
    xlabel="judges, sorted", ylabel="advantage of the left answer", title="Position bias"
)
ax.legend()
plt.show()
inside = ((low < truth) & (truth < high))[~at_random]
print(f"{np.mean(inside):.0%} of the intervals contain the truth")

# %%
# Accuracy: the probability that an answer of the judge agrees with the consensus, without the effect of position. With
# some sixty answers each, judges who answer at random have the lowest values here. With fewer answers, or with models
# of similar quality, they cannot be distinguished from judges with another taste. Look at what such judges prefer
# before you leave them out.
order = np.argsort(judges["accuracy"].to_numpy())
accuracy, low, high = (
    judges[name].to_numpy()[order] for name in ("accuracy", "accuracy_low", "accuracy_high")
)
at_random = data.random_users[judges["user"].to_numpy()[order]]
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for group, colour, label in (
    (~at_random, "C0", "judges"),
    (at_random, "C3", "judges who answer at random"),
):
    reach = [(accuracy - low)[group], (high - accuracy)[group]]
    ax.errorbar(
        place[group],
        accuracy[group],
        yerr=reach,
        fmt="o",
        markersize=4,
        color=colour,
        label=label,
    )
ax.axhline(0.5, color="grey", linewidth=0.8)
ax.set(xlabel="judges, sorted", ylabel="agreement with the consensus", title="Reliability")
ax.legend(loc="lower right")
plt.show()

# %%
# The models are ranked by the consensus, without biases and tastes.
mean, std = model.utility(return_std=True)
truth = data.consensus[model.item_ids_]
fig, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.errorbar(truth - truth.mean(), mean, yerr=2 * std, fmt="o", markersize=4)
ax.axline((0.0, 0.0), slope=1.0, color="grey", linewidth=0.8)
ax.set(xlabel="true consensus", ylabel="posterior, two standard deviations", title="Models")
plt.show()
pd.DataFrame(model.rank().columns()).head(5).round(2)

# %%
# Two models of similar quality, and the judge with the strongest bias: what will the judge answer, in either order? And
# which of the two *is* better, for that judge and for all?
judge = judges["user"].to_numpy()[np.argmax(judges["bias"].to_numpy())]
order = np.argsort(-mean)
closest = np.argmin(-np.diff(mean[order]))
first, second = model.item_ids_[order[closest : closest + 2]]
shown = [(judge, first, second), (judge, second, first)]
print("left is preferred:", model.predict_proba(shown)[:, 1].round(2))
print("the first is better, for the judge:", model.predict_preference(shown[:1]).round(2))
print("the first is better, for all:", model.predict_preference([(first, second)]).round(2))

# %%
# **Next:** :ref:`crowd` explains every column of the report.
