"""Choices among several items: known people and new people, against pairs and the models that are used for this.

::

    python benchmarks/choices.py                       # three simulated panels
    python benchmarks/choices.py --table panel.csv --task chid --person id --chosen choice --features pf,cl,loc
    python benchmarks/choices.py --methods "tasks,xlogit,conditional logit,choix"    # of packages that are installed

A table has one row for each alternative. Of each person two tasks are held out ("known"), and a fifth of the people are
left out whole ("new"). Methods: CrowdGPPL, also with a smooth kernel ("smooth tasks", asked for by --methods, for few
distinct products); the multinomial logit with one utility for all; LightGBM's lambdarank with
the person as a category; a mixed logit of independent normal tastes by simulated likelihood (xlogit), whose draws are
weighted by the answers of each person; the conditional logit of statsmodels; one utility for each product (choix).
Packages that are not installed are left out. The table has the mean log-loss in nats, the difference to the first
method with a standard error clustered by person, hits, and CPU seconds of a fit.
"""

from __future__ import annotations

import argparse
import importlib.util
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


def mixed_logit(panel: Panel, train: BoolArray, tests: list[BoolArray], n_draws: int = 500) -> list[Array]:
    """Fit xlogit's `MixedLogit`, and weight draws of tastes by how well they predict what a person chose."""
    from scipy.stats import norm, qmc
    from xlogit import MixedLogit

    K, d, rows = panel.present.shape[1], panel.attributes.shape[2], np.flatnonzero(train)
    rows = rows[np.argsort(panel.person[rows], kind="stable")]  # tasks of a person must stand together
    names, place, model = [f"x{k}" for k in range(d)], np.tile(np.arange(K), rows.size), MixedLogit()
    model.fit(
        panel.attributes[rows].reshape(-1, d),
        (place == np.repeat(panel.y[rows], K)).astype(int),
        varnames=names,
        alts=place,
        ids=np.repeat(np.arange(rows.size), K),
        randvars=dict.fromkeys(names, "n"),
        panels=np.repeat(panel.person[rows], K),
        avail=panel.present[rows].ravel().astype(int),
        n_draws=n_draws,
        verbose=0,
    )
    found = dict(zip(model.coeff_names, model.coeff_, strict=True))
    mean, spread = (np.array([found[prefix + name] for name in names]) for prefix in ("", "sd."))
    tastes = mean + spread * norm.ppf(qmc.Sobol(d, rng=0).random(1024))

    def shares(mask: BoolArray) -> Array:
        z = np.where(panel.present[mask][:, :, None], panel.attributes[mask] @ tastes.T, -np.inf)
        return softmax(z, axis=1)  # (n, K, draws)

    log_weight = np.zeros((panel.person.max() + 1, len(tastes)))
    np.add.at(log_weight, panel.person[train], np.log(shares(train)[np.arange(rows.size), panel.y[train]]))
    weight = softmax(log_weight, axis=1)
    return [np.einsum("nks,ns->nk", shares(test), weight[panel.person[test]]) for test in tests]


def conditional_logit(panel: Panel, train: BoolArray, tests: list[BoolArray]) -> list[Array]:
    """Fit the conditional logit of statsmodels, with one utility for all."""
    from statsmodels.discrete.conditional_models import ConditionalLogit

    task, place = np.nonzero(panel.present & train[:, None])
    chosen = (place == panel.y[task]).astype(int)
    beta = ConditionalLogit(chosen, panel.attributes[task, place], groups=task).fit(disp=False).params
    z = np.where(panel.present, panel.attributes @ beta, -np.inf)
    return [softmax(z[test], axis=1) for test in tests]


def of_products(panel: Panel, train: BoolArray, tests: list[BoolArray]) -> list[Array]:
    """Fit choix, with a utility for each product and a slight ridge."""
    import choix

    shown = [
        (row[place], *np.delete(row, place)) for row, place in zip(panel.shown[train], panel.y[train], strict=True)
    ]
    data = [(first, [other for other in others if other >= 0]) for first, *others in shown]
    utility = choix.opt_top1(int(panel.shown.max()) + 1, data, alpha=0.1)
    z = np.where(panel.present, utility[panel.shown], -np.inf)
    return [softmax(z[test], axis=1) for test in tests]


METHODS = {
    "tasks": on_tasks,
    "smooth tasks": partial(on_tasks, kernel="product-matern-3/2"),  # of few distinct products
    "multinomial logit": multinomial_logit,
    "lambdarank": lambdarank,
    "xlogit": mixed_logit,
    "conditional logit": conditional_logit,
    "choix": of_products,
}
PACKAGES = {"lambdarank": "lightgbm", "xlogit": "xlogit", "conditional logit": "statsmodels", "choix": "choix"}


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
    parser.add_argument("--methods", default="tasks,multinomial logit,lambdarank,xlogit,conditional logit,choix")
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args()
    methods = []
    for method in options.methods.split(","):
        if importlib.util.find_spec(PACKAGES.get(method, "skpref")) is None:
            print(f"{method} is left out: pip install {PACKAGES[method]}")
        else:
            methods.append(method)
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
