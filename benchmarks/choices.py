"""Choices among several items: known people and new people, against pairs and the models that are used for this.

::

    python benchmarks/choices.py                       # three simulated panels
    python benchmarks/choices.py --table panel.csv --task chid --person id --chosen choice --features pf,cl,loc

A table has one row for each alternative. Of each person two tasks are held out ("known"), and a fifth of the people are
left out whole ("new"). Methods: CrowdGPPL, also with a smooth kernel ("smooth tasks", asked for by --methods, for few
distinct products); the multinomial logit with one utility for all; LightGBM's lambdarank with
the person as a category. The table has the mean log-loss in nats, the difference to the first method with a standard
error clustered by person, hits, and CPU seconds of a fit.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from skpref import CrowdGPPL
from skpref.data import from_tasks
from skpref.metrics import choice_log_loss

if TYPE_CHECKING:
    from skpref._typing import Array, BoolArray

_FLOOR = 1e-9


class Panel:
    """Tasks as arrays: attributes (n, K, d), who was asked, which positions are there, and what was chosen."""

    def __init__(self, frame: pd.DataFrame, task: str, person: str, chosen: str, features: list[str]) -> None:
        columns = {"task": task, "user": person, "chosen": chosen}
        self.X, y, self.items = from_tasks(frame, **columns, features=features)
        assert self.items is not None  # noqa: S101 - there are features
        rows = {name: k for k, name in enumerate(self.items.ids.tolist())}
        self.shown = np.array([[rows.get(name, -1) for name in row] for row in self.X[:, 1:].tolist()])
        self.y = np.argmax(self.X[:, 1:] == y[:, None], axis=1)
        self.present = self.shown >= 0
        self.attributes = np.where(self.present[:, :, None], np.asarray(self.items.features)[self.shown], 0.0)
        self.person = np.unique(self.X[:, 0].astype(str), return_inverse=True)[1]

    def split(self, seed: int) -> tuple[BoolArray, BoolArray, BoolArray]:
        """Return masks of the tasks to learn from, of held-out tasks of known people, and of new people."""
        rng, n = np.random.default_rng(seed), self.person.max() + 1
        new = np.isin(self.person, rng.permutation(n)[: n // 5])
        held = np.zeros(len(self.y), dtype=bool)
        for person in range(n):
            held[rng.permutation(np.flatnonzero(self.person == person))[:2]] = True
        return ~new & ~held, ~new & held, new


def on_tasks(panel: Panel, train: BoolArray, tests: list[BoolArray], kernel: str | None = None) -> list[Array]:
    """Fit `CrowdGPPL` to tasks."""
    model = CrowdGPPL(panel.items, likelihood="luce", kernel=kernel, random_state=0)
    model.fit(panel.X[train], panel.y[train])
    return [model.predict_proba(panel.X[test]) for test in tests]


def multinomial_logit(panel: Panel, train: BoolArray, tests: list[BoolArray]) -> list[Array]:
    """Fit one utility for all by maximum likelihood with a slight ridge."""
    scale = panel.attributes[panel.present].std(axis=0)
    X = panel.attributes / np.where(scale > 0.0, scale, 1.0)
    absent = np.where(panel.present, 0.0, -np.inf)

    def loss(beta: Array) -> tuple[float, Array]:
        z = X[train] @ beta + absent[train]
        p = softmax(z, axis=1)
        rows = np.arange(len(z))
        value = logsumexp(z, axis=1) - z[rows, panel.y[train]]
        chosen = X[train][rows, panel.y[train]]
        return value.sum() + 5e-3 * beta @ beta, np.einsum("nk,nkd->d", p, X[train]) - chosen.sum(axis=0) + 1e-2 * beta

    beta = minimize(loss, np.zeros(X.shape[2]), jac=True, method="L-BFGS-B").x
    return [softmax(X[test] @ beta + absent[test], axis=1) for test in tests]


def lambdarank(panel: Panel, train: BoolArray, tests: list[BoolArray]) -> list[Array]:
    """Fit LightGBM's ranker, with the person as a category, and calibrate its scores on the last fifth of tasks."""
    import lightgbm

    def flat(rows: BoolArray) -> tuple[Array, Array]:
        task, place = np.nonzero(panel.present & rows[:, None])
        return np.column_stack([panel.attributes[task, place], panel.person[task]]), (place == panel.y[task]).astype(
            int
        )

    def scores(model: lightgbm.LGBMRanker, rows: BoolArray) -> Array:
        z = np.full(panel.present[rows].shape, -np.inf)
        z[panel.present[rows]] = model.predict(flat(rows)[0])
        return z

    last = np.cumsum(train) > 0.8 * train.sum()
    fitted = {}
    for name, rows in (("part", train & ~last), ("all", train)):
        X, y = flat(rows)
        model = lightgbm.LGBMRanker(n_estimators=200, learning_rate=0.05, num_leaves=15, verbose=-1, n_jobs=1)
        fitted[name] = model.fit(X, y, group=panel.present[rows].sum(axis=1), categorical_feature=[X.shape[1] - 1])
    z, place = scores(fitted["part"], train & last), panel.y[train & last]
    steps = np.geomspace(0.05, 5.0, 30)
    losses = [choice_log_loss(place, softmax(step * z, axis=1)) for step in steps]
    best = steps[int(np.argmin(losses))]
    return [softmax(best * scores(fitted["all"], test), axis=1) for test in tests]


METHODS = {
    "tasks": on_tasks,
    "smooth tasks": partial(on_tasks, kernel="product-matern-3/2"),  # of few distinct products
    "multinomial logit": multinomial_logit,
    "lambdarank": lambdarank,
}


def simulated(n_people: int, n_tasks: int, spread: float, seed: int) -> pd.DataFrame:
    """Return a long table of four alternatives with six attributes; part-worths are normal and correlated."""
    rng = np.random.default_rng(seed)
    root = spread * rng.standard_normal((6, 6)) / np.sqrt(6.0)
    beta = rng.standard_normal(6) + rng.standard_normal((n_people, 6)) @ root.T
    X = rng.integers(0, 3, size=(n_people, n_tasks, 4, 6)).astype(float)
    z = np.einsum("ptkd,pd->ptk", X, beta) + rng.gumbel(size=X.shape[:3])
    person, task, _ = np.indices(z.shape).reshape(3, -1)
    frame = pd.DataFrame(X.reshape(-1, 6), columns=list("abcdef")).assign(person=person, task=task)
    return frame.assign(chosen=(z == z.max(axis=2, keepdims=True)).ravel().astype(int))


def compare(name: str, panel: Panel, methods: list[str], n_splits: int) -> None:
    """Print the table of one panel."""
    print(f"\n{name}: {panel.person.max() + 1} people, {len(panel.y)} tasks of {panel.present.shape[1]}")
    losses: dict[str, list[list[Array]]] = {method: [[], []] for method in methods}
    seconds, hits, people = dict.fromkeys(methods, 0.0), dict.fromkeys(methods, 0.0), [[], []]
    for seed in range(n_splits):
        train, *tests = panel.split(seed)
        for part, test in zip(people, tests, strict=True):
            part.append(panel.person[test])
        for method in methods:
            begin = time.process_time()
            shares = METHODS[method](panel, train, tests)
            seconds[method] += (time.process_time() - begin) / n_splits
            hits[method] += float(np.mean(shares[0].argmax(axis=1) == panel.y[tests[0]])) / n_splits
            for kept, share, test in zip(losses[method], shares, tests, strict=True):
                chosen = share[np.arange(len(share)), panel.y[test]]
                kept.append(-np.log(np.maximum(chosen, _FLOOR)))
    for method in methods:
        cells = []
        for part in range(2):
            own, first = (np.concatenate(losses[which][part]) for which in (method, methods[0]))
            who, gap = np.concatenate(people[part]), own - first
            sums = np.bincount(who, gap - gap.mean())
            error = np.sqrt(np.sum(sums**2)) / gap.size
            cells.append(f"{own.mean():.4f} {gap.mean():+.4f} +- {error:.4f}")
        print(f"{method:18} known {cells[0]}   hits {hits[method]:.3f}   new {cells[1]}   {seconds[method]:6.1f} s")


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", help="CSV with a row for each alternative")
    for name, usual in (("task", "task"), ("person", "person"), ("chosen", "chosen"), ("features", "")):
        parser.add_argument(f"--{name}", default=usual)
    parser.add_argument("--methods", default="tasks,multinomial logit,lambdarank")
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args()
    methods = options.methods.split(",")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options.table:
            frame, columns = pd.read_csv(options.table), (options.task, options.person, options.chosen)
            compare(options.table, Panel(frame, *columns, options.features.split(",")), methods, options.splits)
            return
        for people, tasks, spread in ((200, 7, 0.5), (200, 7, 1.5), (100, 22, 1.0)):
            panel = Panel(simulated(people, tasks, spread, 1), "task", "person", "chosen", list("abcdef"))
            compare(f"simulated, spread {spread}", panel, methods, options.splits)


if __name__ == "__main__":
    main()
