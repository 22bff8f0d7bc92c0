"""Utilities that depend on a number of each comparison: excess log-loss and coverage, on simulated comparisons.

::

    python benchmarks/context.py              # two minutes
    python benchmarks/context.py --seeds 50
    python benchmarks/context.py --crowd      # answers by people with tastes of their own, in `CrowdGPPL`

Items have slopes of their own on a number, or on a vector of 16 numbers, or curves, or none. Methods leave the number
out, cut it at quartiles into groups, fit the rows of each quartile alone, take the number as context, or take a spline
of it as context. The table has the mean excess over the log-loss of the truth in 1e-4 nats, differences to leaving the
number out with their standard errors over seeds, and the share of utilities at three numbers that 90 % intervals hold.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, xlogy
from sklearn.preprocessing import SplineTransformer

from skpref import CrowdGPPL, GPPLClassifier

_TESTED, _WIDTH = 4_000, 16
_SIZES = (12, 240), (12, 2_400), (60, 1_200)  # items and comparisons
_OF_CROWDS, _ANSWERS, _TASTE = ((12, 600), (12, 2_400)), 30, 0.5  # answers of a person, and sizes of two directions
_WITHIN = 1.645


class Data(NamedTuple):
    """Comparisons, and the utilities of all items at rows of numbers."""

    frame: pd.DataFrame
    y: np.ndarray
    p: np.ndarray
    utility: Any


def simulated(kind: str, n_items: int, n: int, seed: int, n_users: int) -> Data:
    """Return comparisons, of which the last ones are for testing; people of a crowd have tastes."""
    rng = np.random.default_rng(seed)
    total, width = n + _TESTED, _WIDTH if kind == "vector" else 1
    x = rng.uniform(-1.7, 1.7, (total, 1)) if kind == "curve" else rng.normal(size=(total, width))
    u, phase = rng.normal(size=n_items), rng.uniform(0.0, 2.0 * np.pi, n_items)
    slope = rng.normal(size=(n_items, width)) * {"none": 0.0, "slope": 0.6, "vector": 0.25, "curve": 0.8}[kind]

    def utility(numbers: np.ndarray) -> np.ndarray:
        if kind == "curve":
            return u + slope[:, 0] * np.sin(1.2 * numbers + phase)
        return u + numbers @ slope.T

    left = rng.integers(n_items, size=total)
    right = (left + rng.integers(1, n_items, total)) % n_items
    user, row = rng.integers(max(n_users, 1), size=total), np.arange(total)
    taste = (
        rng.normal(size=(n_users, 2)) @ (_TASTE * rng.normal(size=(2, n_items))) if n_users else np.zeros((1, n_items))
    )
    of_all = utility(x) + taste[user]
    p = expit(of_all[row, left] - of_all[row, right])
    frame = pd.DataFrame({"user": user, "left": left, "right": right}).join(
        pd.DataFrame(x, columns=range(width)).add_prefix("x_")
    )
    cuts = np.quantile(x[:n, 0], [0.25, 0.5, 0.75])
    spline = SplineTransformer(6, include_bias=False).fit(x[:n, :1]).transform(x[:, :1])
    frame = frame.join(pd.DataFrame(spline, columns=range(spline.shape[1])).add_prefix("s_"))
    return Data(frame.assign(part=np.searchsorted(cuts, x[:, 0])), (rng.random(total) < p).astype(float), p, utility)


def methods(data: Data) -> dict[str, dict[str, Any]]:
    """Return the parameters of each method."""
    x, s = ([name for name in data.frame if str(name).startswith(letter)] for letter in "xs")
    found: dict[str, dict[str, Any]] = {"left out": {}, "context": {"context": [x]}}
    if len(x) == 1:
        found |= {"groups": {"groups": ["part"]}, "separate": {"part": True}, "spline": {"context": [*x, s]}}
    return found


def measured(data: Data, n: int, more: dict[str, Any], *, crowd: bool) -> tuple[float, float]:
    """Return the mean excess log-loss, and the share of utilities that 90 % intervals hold."""
    options = {"left": "left", "right": "right", "likelihood": "logit", **more}
    separate, q = options.pop("part", False), np.empty(len(data.frame))
    part = data.frame["part"].to_numpy() * separate
    for number in np.unique(part):
        model: Any = CrowdGPPL(user="user", random_state=0, **options) if crowd else GPPLClassifier(**options)
        rows = np.flatnonzero(part == number)
        model.fit(data.frame.iloc[rows[rows < n]], data.y[rows[rows < n]])
        q[rows] = model.predict_proba(data.frame.iloc[rows])[:, 1]
    p, q = data.p[n:], q[n:]
    loss = xlogy(p, p / q) + xlogy(1.0 - p, (1.0 - p) / (1.0 - q))
    inside = []
    if len(more.get("context", ())) == 1:
        names = more["context"][0]
        for number in (-1.0, 0.0, 1.0):
            true = data.utility(np.full((1, len(names)), number))[0]
            given = dict.fromkeys(names, number)
            mean, std = model.utility(np.arange(true.size), context=given, return_std=True)
            inside.append(np.abs(mean - true + true.mean()) < _WITHIN * std)
    return float(loss.mean()), float(np.mean(inside)) if inside else np.nan


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--crowd", action="store_true")
    options = parser.parse_args()
    seeds, crowd = range(options.seeds), options.crowd
    warnings.simplefilter("ignore")
    for kind in ("none", "slope", "vector", "curve"):
        for n_items, n in _OF_CROWDS if crowd else _SIZES:
            found: dict[str, list[tuple[float, float]]] = {}
            for seed in seeds:
                data = simulated(kind, n_items, n, seed, n // _ANSWERS if crowd else 0)
                for name, more in methods(data).items():
                    found.setdefault(name, []).append(measured(data, n, more, crowd=crowd))
            print(f"{kind}, {n_items} items, {n} comparisons")
            first = np.array(found["left out"])[:, 0]
            for name, each in found.items():
                loss, inside = np.array(each).T
                error = (loss - first).std() / np.sqrt(len(seeds))
                numbers = f"{1e4 * loss.mean():6.0f}  {1e4 * (loss - first).mean():+6.1f} +- {1e4 * error:.1f}"
                print(f"  {name:10} {numbers}  {inside.mean():.3f}", flush=True)


if __name__ == "__main__":
    main()
