"""
A survey: preferences and features of people
============================================

Students compare six business schools, two at a time, and may be undecided. Some speak French, and some want to work in
finance. Both influence what they prefer. R's BradleyTerry2 and prefmod take such tables, with one row for each
comparison. So does :class:`skpref.CrowdGPPL`, which also learns the personal taste of each student. The survey is
simulated: 300 students, eight of the fifteen pairs each.
"""

# %%
# There is one row for each answer, and a table of the students. Features of the students shift the utilities of some
# schools: those who speak French like Paris, those in finance like London and St. Gallen.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpref import CrowdGPPL, Table
from skpref.data import from_winners
from skpref.plots import RankingDisplay

rng = np.random.default_rng(0)
schools = np.array(["London", "Paris", "Milano", "St. Gallen", "Barcelona", "Stockholm"])
worth = np.array([0.9, 0.3, -0.1, 0.0, -0.3, -0.8])
students = pd.DataFrame(
    {"french": rng.random(300) < 0.4, "finance": rng.random(300) < 0.5}
).astype(float)
effect = np.array([[0.0, 1.2, 0.0, 0.0, 0.0, 0.0], [0.8, 0.0, 0.0, 0.5, -0.3, 0.0]])
utility = worth + students.to_numpy() @ effect + 0.4 * rng.normal(size=(300, 6))

pairs = np.array(np.triu_indices(6, 1)).T
rows = [
    (student, *pair)
    for student in range(300)
    for pair in pairs[rng.choice(15, 8, replace=False)]
]
student, first, second = np.array(rows).T
z = utility[student, first] - utility[student, second] + rng.logistic(size=len(rows))
answer = np.where(
    np.abs(z) < 0.3, "undecided", np.where(z > 0.0, schools[first], schools[second])
)
survey = pd.DataFrame(
    {
        "student": student,
        "school_1": schools[first],
        "school_2": schools[second],
        "answer": answer,
    }
)
survey.head()

# %%
# Name the columns of the table in the constructor. An undecided answer is a tie; with ``likelihood="logit-ties"`` ties
# are answers of their own. With the table of students, the model learns an effect of each feature on each school.
answers = from_winners(survey.replace("undecided", "tie"), "school_1", "school_2", "answer")
model = CrowdGPPL(
    users=Table(students),
    user="student",
    left="school_1",
    right="school_2",
    likelihood="logit-ties",
    n_factors=2,
    random_state=0,
).fit(survey, answers.y)
model.rank().to_frame().round(2)

# %%
# Predictions for students who are not in the survey, from their features. Paris is worth 1.2 more to those who speak
# French, and London 0.8 more to those in finance, as simulated. (The average over the schools is zero, so the other
# schools move a little in the opposite direction.)
kinds = pd.DataFrame(
    {"french": [0.0, 1.0, 0.0], "finance": [0.0, 0.0, 1.0]},
    index=["neither", "French", "finance"],
)
mean, std = model.utility(schools, users=kinds.to_numpy(), return_std=True)
true = worth + kinds.to_numpy() @ effect
fig, axes = plt.subplots(1, 3, sharey=True, figsize=(10.0, 3.2), layout="constrained")
for ax, kind, value, spread, truth in zip(axes, kinds.index, mean, std, true, strict=True):
    RankingDisplay(schools, value, spread).plot(ax=ax)
    ax.plot(truth - truth.mean(), np.arange(6), "kx", label="truth, on average")
    ax.set(title=kind, xlabel="utility, 90 % interval")
axes[2].legend(loc="upper left", fontsize="small")
plt.show()

# %%
# These are intervals for one student, whose personal taste is unknown. They are wider than the uncertainty about the
# average of such students. A student who answered has narrower intervals, which combine the answers with the student's
# features.
one = model.rank(user=0)
print(students.loc[0].to_dict())
one.to_frame()[["id", "utility", "std", "rank_low", "rank_high", "n_comparisons"]].round(2)

# %%
# **Next:** :ref:`crowd` has more about features of people and about new people, MaxDiff and conjoint analysis.
