"""Rankings of several items: one utility for all, or each person's own, against choix and shares.

::

    python benchmarks/rankings.py                                # simulated
    python benchmarks/rankings.py --table races.csv --columns rank1,rank2,...
    python benchmarks/rankings.py --table sushi.csv --columns rank1,...,rank10 --own 5 --people 500

Columns hold the items of a ranking, the best first; cells at the end may be empty. A fifth of the rankings is held out.
With --own N each row is a person, of whom the order of N items is learnt from, and that of the others is predicted. The
measure is the log-loss of a stage in nats: the best of those that are left. Standard errors are clustered by ranking.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skpref import CrowdGPPL, GPPLClassifier

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from skpref._typing import Array

    Rankings = list[tuple[str, list[str]]]  # person, and items with the best first


def as_tasks(rankings: Rankings, *, users: bool) -> tuple[NDArray[Any], Array]:
    """Return the items of rankings as rows, in a random order, and their ranks."""
    rng, width = np.random.default_rng(0), max(len(items) for _, items in rankings)
    X = np.full((len(rankings), width), None, dtype=object)
    ranks = np.full(X.shape, np.nan)
    for row, (_, items) in enumerate(rankings):
        order = rng.permutation(len(items))
        X[row, : len(items)], ranks[row, : len(items)] = np.array(items, dtype=object)[order], order + 1.0
    return (np.column_stack([np.array([who for who, _ in rankings], dtype=object), X]) if users else X), ranks


def stages(rankings: Rankings) -> tuple[Rankings, Array]:
    """Return what was left at each stage, the best of it first, and the number of the ranking."""
    left = [(who, items[k:]) for who, items in rankings for k in range(len(items) - 1)]
    return left, np.repeat(np.arange(len(rankings)), [len(items) - 1 for _, items in rankings])


def _first(shown: Rankings, predict: Callable[[NDArray[Any]], Array], *, users: bool) -> Array:
    """Return the probabilities of the first item of each set."""
    width = max(len(items) for _, items in shown)
    X = np.full((len(shown), width + users), None, dtype=object)
    for row, (who, items) in enumerate(shown):
        X[row, users : users + len(items)] = items
        if users:
            X[row, 0] = who
    return np.asarray(predict(X)[:, 0])


def pooled(train: Rankings, test: Rankings) -> Array:
    """Fit one utility for all."""
    X, ranks = as_tasks(train, users=False)
    model = GPPLClassifier(likelihood="luce", random_state=0).fit(X, ranks)
    return _first(test, model.predict_proba, users=False)


def personal(train: Rankings, test: Rankings) -> Array:
    """Fit each person's own utilities."""
    model = CrowdGPPL(likelihood="luce", random_state=0).fit(*as_tasks(train, users=True))
    return _first(test, model.predict_proba, users=True)


def _strengths(utility: dict[str, float], test: Rankings) -> Array:
    """Return the probabilities of the first items by utilities; those that are not known are average."""
    values = [np.array([utility.get(item, 0.0) for item in items]) for _, items in test]
    return np.array([np.exp(own[0] - own.max()) / np.exp(own - own.max()).sum() for own in values])


def by_choix(train: Rankings, test: Rankings) -> Array:
    """Fit choix's maximum a posteriori, with the better of four ridges on a fifth of the rankings."""
    import choix

    items = sorted({item for _, own in train for item in own}, key=str)
    number = {item: k for k, item in enumerate(items)}

    def fit(rankings: Rankings, alpha: float) -> dict[str, float]:
        data = [[number[item] for item in own] for _, own in rankings]
        utility = choix.opt_rankings(len(items), data, alpha=alpha, method="Newton-CG")
        return dict(zip(items, utility - utility.mean(), strict=True))

    cut = len(train) // 5
    check, _ = stages(train[:cut])
    loss = {alpha: -np.log(_strengths(fit(train[cut:], alpha), check)).mean() for alpha in (0.01, 0.1, 1.0, 10.0)}
    return _strengths(fit(train, min(loss, key=lambda alpha: loss[alpha])), test)


def shares(train: Rankings, test: Rankings) -> Array:
    """Take how often an item was the best of those left, one answer more of either kind."""
    won, shown = dict[str, float](), dict[str, float]()
    for _, items in stages(train)[0]:
        won[items[0]] = won.get(items[0], 0.0) + 1.0
        for item in items:
            shown[item] = shown.get(item, 0.0) + 1.0
    return _strengths({item: float(np.log((won.get(item, 0.0) + 1.0) / (n + 2.0))) for item, n in shown.items()}, test)


METHODS = {"GPPLClassifier": pooled, "CrowdGPPL": personal, "choix": by_choix, "shares": shares}


def split(rankings: Rankings, own: int | None, seed: int) -> tuple[Rankings, Rankings]:
    """Return rankings to learn from and to predict: others, or of the other items of each person."""
    rng = np.random.default_rng(seed)
    if own is None:
        held = rng.random(len(rankings)) < 0.2
        return [r for r, out in zip(rankings, held, strict=True) if not out], [
            r for r, out in zip(rankings, held, strict=True) if out
        ]
    train, test = [], []
    for who, items in rankings:
        known = set(rng.permutation(len(items))[:own].tolist())
        train.append((who, [item for k, item in enumerate(items) if k in known]))
        test.append((who, [item for k, item in enumerate(items) if k not in known]))
    return train, test


def simulated(n: int = 200, k: int = 8, spread: float = 1.0, seed: int = 0) -> Rankings:
    """Return rankings by people whose utilities differ."""
    rng = np.random.default_rng(seed)
    utility = rng.normal(size=k) + spread * rng.normal(size=(n, 2)) @ rng.normal(size=(2, k))
    order = np.argsort(-(utility + rng.gumbel(size=(n, k))), axis=1)
    return [(f"person {row}", [f"item {item}" for item in items]) for row, items in enumerate(order.tolist())]


def compare(name: str, rankings: Rankings, own: int | None, n_splits: int, seed: int) -> None:
    """Print the table of one set."""
    print(f"\n{name}: {len(rankings)} rankings")
    methods = [method for method in METHODS if own is not None or method != "CrowdGPPL"]
    losses: dict[str, list[Array]] = {method: [] for method in methods}
    seconds, clusters, first = dict.fromkeys(methods, 0.0), [], 0
    for k in range(n_splits):
        train, test = split(rankings, own, seed + k)
        asked, cluster = stages([ranking for ranking in test if len(ranking[1]) > 1])
        clusters.append(first + cluster)
        first += len(rankings)
        for method in methods:
            begin = time.process_time()
            losses[method].append(-np.log(np.maximum(METHODS[method](train, asked), 1e-9)))
            seconds[method] += (time.process_time() - begin) / n_splits
    number = np.unique(np.concatenate(clusters), return_inverse=True)[1]
    base = "CrowdGPPL" if own is not None else "GPPLClassifier"
    for method in methods:
        value = np.concatenate(losses[method])
        gap = value - np.concatenate(losses[base])
        error = np.sqrt(np.sum(np.bincount(number, gap - gap.mean()) ** 2)) / gap.size
        print(f"{method:15} {value.mean():.4f}  {gap.mean():+.4f} +- {error:.4f}   {seconds[method]:6.1f} s")


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table")
    parser.add_argument("--columns", type=lambda text: text.split(","))
    parser.add_argument("--count", help="column of how often a ranking was given")
    parser.add_argument("--own", type=int)
    parser.add_argument("--people", type=int)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.table is None:
        compare("simulated, one utility", simulated(spread=0.0), None, options.splits, options.seed)
        compare("simulated, people differ", simulated(), 4, options.splits, options.seed)
        return
    frame = pd.read_csv(options.table)
    frame = frame if options.people is None else frame.sample(options.people, random_state=options.seed)
    times = np.ones(len(frame), dtype=int) if options.count is None else frame[options.count].to_numpy()
    rows = frame[options.columns].astype(object).where(frame[options.columns].notna(), None).to_numpy()
    kept = [[str(item) for item in row if item is not None] for row in np.repeat(rows, times, axis=0)]
    rankings = [(f"person {k}", items) for k, items in enumerate(kept) if len(items) > 1]
    compare(options.table, rankings, options.own, options.splits, options.seed)


if __name__ == "__main__":
    main()
