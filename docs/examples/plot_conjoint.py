"""
A conjoint study: shares and price curves
=========================================

People choose among offers of three brands at several prices, or none of them. What would they choose if a price
changed? :class:`skpref.CrowdGPPL` learns the part-worths of each person, and predicts the shares of products that
compete, with intervals. The study is simulated: 120 people, eight tasks each.
"""

# %%
# The table has one row for each offer. Words are levels of an attribute, and "none" is the answer "none of these".
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpref import CrowdGPPL
from skpref.data import from_tasks
from skpref.datasets import make_choices

study = make_choices(n_users=120, n_tasks=8, none=True, random_state=0)
table = pd.DataFrame(study.shown)
table.head(4)

# %%
X, y, items = from_tasks(table, features=["brand", "price"], none="none")
model = CrowdGPPL(items, random_state=0).fit(X, y)
model.part_worths().round(2)

# %%
# Two offers compete. The share of each, and of none of them, as our price changes: bands are 90 % intervals.
offers = {"ours": {"brand": "x", "price": 2.5}, "theirs": {"brand": "y", "price": 2.0}}
prices = np.linspace(1.0, 4.0, 13)
curves = model.sensitivity("price", prices, offers, none=True)

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for product, curve in curves.groupby("product", sort=False):
    left.plot(curve["price"], curve["share"], label=product)
    left.fill_between(curve["price"], curve["share_low"], curve["share_high"], alpha=0.25)
left.set(
    xlabel="our price",
    ylabel="share",
    title="Shares of two offers and none",
    ylim=(0.0, 1.0),
)
left.legend()

# People differ: the part-worth of the price of each person, with the true values of the simulation.
people = [f"person {u}" for u in range(120)]
own = model.part_worths(people).query("feature == 'price'")
order = np.argsort(own["mean"].to_numpy())
own, truth = own.iloc[order], study.part_worths[order, 3]
place = np.arange(120)
right.vlines(place, own["low"], own["high"], alpha=0.4)
right.plot(place, own["mean"], ".", label="estimate, 90 % interval")
right.plot(place, truth, "x", ms=4, label="truth")
right.set(xlabel="person", ylabel="effect of the price", title="People differ")
right.legend()

# %%
# What is a brand worth, in units of the price? Ratios of uncertain numbers have no mean, so these are medians and
# quartiles over people, and the share of people whose effect of the price has the wrong sign.
model.willingness_to_pay("price").round(2)

# %%
# **Next:** :ref:`choices` has more: segments, new people, best and worst, rankings.
