"""
Predict ordered answers
=======================

In 1996 American voters said where they stand between the two parties: one of seven answers, from *strong Democrat* to
*strong Republican*. The answers have an order, but nobody can say how far apart they are.
:class:`skpref.GPOrdinalRegressor` learns where each answer begins together with what the answer depends on. It predicts
a probability for each answer. The data are real: 944 voters of the American National Election Study, in the public
domain. They come with the package statsmodels.
"""

# %%
# The table has six columns about each voter. ``selfLR`` is where they place themselves between left (1) and right (7).
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from statsmodels.datasets import anes96

from skpref import GPOrdinalRegressor
from skpref.metrics import ordinal_mae, ranked_probability_score

answers = [
    "strong Democrat",
    "weak Democrat",
    "leans Democrat",
    "independent",
    "leans Republican",
    "weak Republican",
    "strong Republican",
]
voters = anes96.load_pandas().data
X = voters[["selfLR", "educ", "income", "age", "TVnews", "logpopul"]]
y = np.array(answers)[voters["PID"].astype(int)]
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.3, random_state=0, stratify=y
)
X_train.describe().loc[["mean", "std", "min", "max"]].round(1)

# %%
# Words have no order of their own, so ``class_order`` gives it. The fit weights several kernels by their evidence, and
# learns a length-scale for each column. ``relevance_`` says how much the latent function depends on each: most on the
# place between left and right, then on education.
model = GPOrdinalRegressor(class_order=answers, random_state=0).fit(X_train, y_train)
for name, relevance in zip(X.columns, model.relevance_, strict=True):
    print(f"{name:9s} {relevance:.3f}")

# %%
# Probabilities of the answers by the place between left and right, for a voter who is average otherwise. At both ends
# one answer stands out. In the middle all seven are possible, and the model says so.
places = np.linspace(1.0, 7.0, 61)
line = X_train.iloc[[0] * 61].assign(**X_train.median()).assign(selfLR=places)
fig, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(7, 6.5), layout="constrained")
colors = plt.get_cmap("coolwarm")(np.linspace(0.0, 1.0, 7))
top.stackplot(places, model.predict_proba(line).T, labels=answers, colors=colors)
top.set(ylabel="probability", ylim=(0, 1))
top.legend(bbox_to_anchor=(1.0, 1.0), fontsize="small")
mean, std = model.predict_latent(line, return_std=True)
bottom.plot(places, mean)
bottom.fill_between(
    places, mean - 1.64 * std, mean + 1.64 * std, alpha=0.3, label="90 % interval"
)
for threshold in model.thresholds_:
    bottom.axhline(threshold, linestyle=":", color="black", linewidth=1)
bottom.set(xlabel="left (1) to right (7)", ylabel="latent function, with thresholds")
bottom.legend(loc="upper left")
plt.show()

# %%
# Here are three scores on voters whom the fit has not seen. The log loss and the ranked probability score measure the
# probabilities. The error is that of the median answer, in answers. Smaller is better.
logistic = make_pipeline(StandardScaler(), LogisticRegression()).fit(X_train, y_train)
to_order = [list(logistic.classes_).index(answer) for answer in answers]
shares = np.tile([np.mean(y_train == answer) for answer in answers], (len(X_test), 1))
predicted = {
    "GPOrdinalRegressor": model.predict_proba(X_test),
    "logistic regression": logistic.predict_proba(X_test)[:, to_order],
    "shares of the answers": shares,
}
given = np.array([answers.index(answer) for answer in y_test])
for name, p in predicted.items():
    log_loss = -np.mean(np.log(p[np.arange(len(p)), given]))
    middle = np.array(answers)[np.argmax(np.cumsum(p, axis=1) >= 0.5, axis=1)]
    rps = ranked_probability_score(y_test, p, labels=answers)
    error = ordinal_mae(y_test, middle, labels=answers)
    print(f"{name:22s} log loss {log_loss:.3f}", end="  ")
    print(f"ranked probability score {rps:.3f}  error {error:.2f}")

# %%
# **Next:** :ref:`ordinal` is the guide, and :doc:`/user_guide/choosing` says when boosting is better.
