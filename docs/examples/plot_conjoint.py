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
from skpref.plots import PartWorthsDisplay, ShareCurvesDisplay, SharesDisplay

study = make_choices(n_users=120, n_tasks=8, none=True, random_state=0)
table = pd.DataFrame(study.shown)
table.head(4)

# %%
X, y, items = from_tasks(table, features=["brand", "price"], none="none")
model = CrowdGPPL(items, random_state=0).fit(X, y)
model.part_worths().round(2)

# %%
# Two offers compete. The share of each, and of none of them, as our price changes: bands are 90 % intervals. People
# differ: half of them are where the thick bars are, nine of ten where the thin ones are. Points are estimates of
# people, which lie closer together: eight answers leave an estimate near the mean.
offers = {"ours": {"brand": "x", "price": 2.5}, "theirs": {"brand": "y", "price": 2.0}}
prices = np.linspace(1.0, 4.0, 13)

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
ShareCurvesDisplay.from_sensitivity(
    model.sensitivity("price", prices, offers, none=True), ax=left
)
left.set(xlabel="our price", title="Shares of two offers and none")
PartWorthsDisplay.from_part_worths(model.part_worths(model.user_ids_), ax=right)
right.set_title("People differ")

# %%
# Would it help to sell the other brand, or to cut the price? Scenarios are predicted at once, and may be named.
scenarios = {
    "as it is": offers,
    "brand y": {**offers, "ours": {"brand": "y", "price": 2.5}},
    "price cut": {**offers, "ours": {"brand": "x", "price": 1.5}},
}
shares = model.shares(list(scenarios.values()), none=True)
shares["scenario"] = [list(scenarios)[k] for k in shares["scenario"]]
SharesDisplay.from_shares(shares)

# %%
# What is a brand worth, in units of the price? Ratios of uncertain numbers have no mean, so these are medians and
# quartiles over people, and the share of people whose effect of the price has the wrong sign.
model.willingness_to_pay("price").round(2)

# %%
# **Next:** :ref:`choices` has more: segments, new people, best and worst, rankings.
