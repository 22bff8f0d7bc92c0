"""What tasks say: each answer as the choices that a fit learns from."""

import numpy as np

from skpref.data import Vocabulary
from skpref.data.tasks import as_comparisons, read_answers
from skpref.gp.pairwise.columns import PairColumns

SIDES = "user", "left", "right"


def tasks_of(X, user=None, sides=SIDES, **columns):
    """Read tasks as estimators do, whose parameters name columns."""
    ids = dict.fromkeys(sides) | ({"user": user} if "user" in sides else {})
    parameters = {name: columns.get(name) for name in ("covariates", "weight", "groups", "time")}
    return PairColumns.from_parameters(ids, **parameters).read_tasks(X, weighted="weight" in columns)


def stages(X, y, weight=None, user=None, sides=SIDES):
    """Return the form of the answers, and their choices: (user, weight, best or worst item, all items, which)."""
    tasks = tasks_of(X, user, sides)
    vocabulary, users = Vocabulary.from_columns(*tasks.shown), Vocabulary.from_columns(tasks.user)
    answers, numbers = read_answers(y, tasks), tasks.numbers(vocabulary)
    pairs = as_comparisons(answers, numbers, vocabulary.size, weight, user=users.encode(tasks.user), n_users=users.size)
    ids, found = vocabulary.ids, []
    for stage in range(pairs.stage.max() + 1):
        own = pairs.take(pairs.stage == stage)
        k = round(0.5 + np.sqrt(0.25 + 2 * own.n_pairs))
        is_best = (own.left[: k - 1] == own.left[0]).all()
        first = own.left[0] if is_best else own.right[0]
        items = frozenset(ids[own.left].tolist() + ids[own.right].tolist())
        found.append((users.ids[own.user[0]], own.weight[0], ids[first], items, "best" if is_best else "worst"))
    return answers.form, found


def choices_of(rows):
    """Return the weight of each choice of rows without users: (the item, those behind it)."""
    total = {}
    for _, weight, item, items, kind in stages(rows.X, rows.y, rows.sample_weight, sides=SIDES[1:])[1]:
        assert kind == "best"
        total[item, items - {item}] = total.get((item, items - {item}), 0.0) + weight
    return total


def choice_of(item, behind):
    """Return a choice as `choices_of` does."""
    return item, frozenset(behind)
