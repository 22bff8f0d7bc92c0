"""Personal predictions on the Sushi rankings, by the protocol of [SG20], ours and plain rivals side by side in one run.

Users ranked ten kinds of sushi. Of each user some pairs are learnt from and others tested:

========  ======================================================================  =====
name      what                                                                    draws
========  ======================================================================  =====
small     100 users drawn, of each 5 pairs of the 10 kinds of set A, 25 to test      25
A         the same with 20 pairs                                                     25
small-k   1,000 users, 5 pairs                                                        5
A-k       1,000 users, 20 pairs                                                       5
B         5,000 users, 10 pairs of the 100 kinds of set B, 1 to test                  3
========  ======================================================================  =====

Printed: accuracy and cross entropy of the tested pairs, Kendall's tau of each user's ten kinds, CPU seconds of a fit;
and how much lower the cross entropy of the first model is than that of each other, with the standard error over draws.

The data may not be redistributed: FOLDER holds sushi3a.5000.10.order, sushi3b.5000.10.order, sushi3.idata and
sushi3.udata (https://www.kamishima.net/sushi, also in UKPLab/tacl2018-preference-convincing)::

    python benchmarks/sushi.py FOLDER
    python benchmarks/sushi.py FOLDER --sets small,A --models 'ours,of users' --draws 5
"""

from __future__ import annotations

import os

# Read by the pools when they are loaded, hence before the first import of numpy.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from skpref import CrowdGPPL

if TYPE_CHECKING:
    from collections.abc import Callable

    from _data import FloatArray, IntArray

#: Kinds of set A by their number in the table of kinds, which is that of set B.
A_IN_B = [0, 1, 2, 3, 4, 6, 7, 8, 26, 29]
#: set, users, pairs to learn from, pairs to test, draws
SETS = {
    "small": ("a", 100, 5, 25, 25),
    "A": ("a", 100, 20, 25, 25),
    "small-k": ("a", 1000, 5, 25, 5),
    "A-k": ("a", 1000, 20, 25, 5),
    "B": ("b", 5000, 10, 1, 3),
}


class Draw(NamedTuple):
    """Rows (user, left, right, whether left is preferred), rankings (U, 10) with the best first, and features."""

    learn: IntArray
    test: IntArray
    rankings: IntArray
    items: FloatArray
    users: FloatArray


class Prediction(NamedTuple):
    """P(left) of the tested rows, and utilities (U, N)."""

    p: FloatArray
    utilities: FloatArray


def rankings(folder: Path, letter: str) -> IntArray:
    """Read the rankings of a set, shape (5000, 10)."""
    lines = (folder / f"sushi3{letter}.5000.10.order").read_text().splitlines()[1:]
    return np.array([[int(word) for word in line.split()[2:]] for line in lines])


def item_features(folder: Path, letter: str) -> FloatArray:
    """Style, kind, heaviness, frequency, price and how often it is sold."""
    table = np.loadtxt(folder / "sushi3.idata", delimiter="\t", usecols=range(2, 9), encoding="utf-8")
    return table[A_IN_B] if letter == "a" else table


def user_features(folder: Path) -> FloatArray:
    """Gender, age, and one column for each region of today."""
    table = np.loadtxt(folder / "sushi3.udata", delimiter="\t")
    return np.column_stack([table[:, 1:3], np.eye(int(table[:, 8].max()) + 1)[table[:, 8].astype(int)]])


def draw(folder: Path, name: str, seed: int) -> Draw:
    """Draw users and their pairs."""
    letter, n_users, n_learn, n_test, _ = SETS[name]
    rng, of_all = np.random.default_rng([18, seed]), rankings(folder, letter)
    chosen = rng.choice(len(of_all), n_users, replace=False)
    places = np.array([(i, j) for i in range(10) for j in range(i + 1, 10)])
    parts: tuple[list[IntArray], list[IntArray]] = [], []
    for number, user in enumerate(chosen):
        pairs = places[rng.permutation(len(places))[: n_learn + n_test]]
        flip = rng.random(len(pairs)) < 0.5
        better, worse = of_all[user][pairs.T]
        rows = np.column_stack(
            [np.full(len(pairs), number), np.where(flip, worse, better), np.where(flip, better, worse), ~flip]
        ).astype(np.int64)
        parts[0].append(rows[:n_learn])
        parts[1].append(rows[n_learn:])
    learn, test = (np.vstack(part) for part in parts)
    return Draw(learn, test, of_all[chosen], item_features(folder, letter), user_features(folder)[chosen])


def ours(data: Draw, **params: Any) -> Prediction:  # noqa: ANN401 - parameters of CrowdGPPL
    """Fit `CrowdGPPL` and predict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CrowdGPPL(random_state=0, **params).fit(data.learn[:, :3], data.learn[:, 3])
    utilities = np.zeros((len(data.rankings), len(data.items)))
    known = np.isin(data.test[:, 1:3], model.item_ids_).all(axis=1)
    p = np.full(len(data.test), 0.5)
    p[known] = model.predict_proba(data.test[known, :3])[:, 1]
    utilities[:, model.item_ids_] = model.utility(model.item_ids_, users=np.arange(len(utilities)))
    return Prediction(p, utilities)


def logistic(data: Draw, *, personal: bool = True) -> Prediction:
    """Logistic regression on one-hot item differences, and the same for each user."""
    n_users, n_items = len(data.rankings), len(data.items)

    def design(rows: IntArray) -> sparse.csr_array:
        at, width = np.arange(len(rows)), n_items * (1 + n_users * personal)
        columns = [np.zeros(len(rows), np.int64)] + ([n_items * (1 + rows[:, 0])] if personal else [])
        parts = [(rows[:, side] + offset, sign) for offset in columns for side, sign in ((1, 1.0), (2, -1.0))]
        values = np.concatenate([np.full(len(rows), sign) for _, sign in parts])
        place = np.tile(at, len(parts)), np.concatenate([column for column, _ in parts])
        return sparse.coo_array((values, place), shape=(len(rows), width)).tocsr()

    model = LogisticRegression(fit_intercept=False, max_iter=1000).fit(design(data.learn), data.learn[:, 3])
    weights = model.coef_[0]
    utilities = np.tile(weights[:n_items], (n_users, 1))
    if personal:
        utilities += weights[n_items:].reshape(n_users, n_items)
    return Prediction(model.predict_proba(design(data.test))[:, 1], utilities)


def hierarchical_probit(data: Draw, n_iter: int = 160) -> Prediction:
    """Fit utilities N(m, S) of users, S nearly free: expectation propagation for the users, EM for m and S."""
    n_users, n_items = len(data.rankings), len(data.items)
    one_hot = np.eye(n_items)
    rows = data.learn.reshape(n_users, -1, 4)  # users have equally many pairs, one after another
    A, sign = one_hot[rows[:, :, 1]] - one_hot[rows[:, :, 2]], 2.0 * rows[:, :, 3] - 1.0
    m, S, tau, nu = np.zeros(n_items), np.eye(n_items), np.zeros(sign.shape), np.zeros(sign.shape)
    for iteration in range(n_iter):
        reach, root = A @ S, np.sqrt(tau)[:, :, None]
        P = reach @ A.transpose(0, 2, 1)
        W = root * np.linalg.inv(np.eye(A.shape[1]) + root * P * root.transpose(0, 2, 1)) * root.transpose(0, 2, 1)
        residual = nu - tau * (A @ m)
        alpha = residual - np.squeeze(W @ (P @ residual[:, :, None]), -1)
        u = m + np.einsum("ukn,uk->un", reach, alpha)
        if iteration == n_iter - 1:
            break
        covariance = n_users * S + (u - m).T @ (u - m) - np.einsum("ukn,ukm->nm", reach, W @ reach, optimize=True)
        z, C = np.einsum("ukn,un->uk", A, u), P - P @ W @ P
        for j in range(z.shape[1]):  # one pair of every user after another
            variance = C[:, j, j].copy()
            v = 1.0 / (1.0 / variance - tau[:, j])
            mu = v * (z[:, j] / variance - nu[:, j])
            by_noise = sign[:, j] / np.sqrt(1.0 + v)
            ratio = np.exp(norm.logpdf(by_noise * mu) - norm.logcdf(by_noise * mu))
            slope, curvature = by_noise * ratio, ratio * (by_noise * mu + ratio) / (1.0 + v)
            new = curvature / (1.0 - curvature * v)
            of_tau, of_nu = new - tau[:, j], slope + new * (mu + slope * v) - nu[:, j]
            tau[:, j] += of_tau
            nu[:, j] += of_nu
            gain = C[:, :, j] / (1.0 + of_tau * variance)[:, None]
            z += gain * (of_nu - of_tau * z[:, j])[:, None]
            C -= of_tau[:, None, None] * gain[:, :, None] * C[:, None, :, j]
        m, S = u.mean(axis=0), (0.5 * (covariance + covariance.T) + 2.0 * one_hot) / (n_users + 2.0)
    user, a = data.test[:, 0], one_hot[data.test[:, 1]] - one_hot[data.test[:, 2]]
    known = np.einsum("pkn,pn->pk", reach[user], a)
    variance = np.sum(a @ S * a, axis=1) - np.einsum("pi,pij,pj->p", known, W[user], known, optimize=True)
    return Prediction(norm.cdf(np.sum(a * u[user], axis=1) / np.sqrt(1.0 + variance)), u)


MODELS: dict[str, Callable[[Draw], Prediction]] = {
    "ours": ours,
    "ours, features of both": lambda data: ours(data, items=data.items, users=data.users),
    "ours, features of users": lambda data: ours(data, users=data.users),
    "ours, factorised (vb)": lambda data: ours(data, inference="vb"),
    "ours, consensus": lambda data: ours(data, n_factors=0),
    "hierarchical probit": hierarchical_probit,
    "logistic, user x item": logistic,
    "logistic, consensus": lambda data: logistic(data, personal=False),
}


def scores(data: Draw, prediction: Prediction) -> tuple[float, float, float]:
    """Accuracy, cross entropy (nats) and mean Kendall's tau."""
    p, y = np.clip(prediction.p, 1e-9, 1.0 - 1e-9), data.test[:, 3]
    right = np.where(p == 0.5, 0.5, (p > 0.5) == (y == 1))
    ordered = np.take_along_axis(prediction.utilities, data.rankings, axis=1)
    first, second = np.triu_indices(ordered.shape[1], 1)
    tau = np.sign(ordered[:, first] - ordered[:, second]).mean()
    return float(right.mean()), float(-np.log(np.where(y == 1, p, 1.0 - p)).mean()), float(tau)


def main() -> None:
    """Print a table for each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument(
        "--models", default="ours,hierarchical,logistic", help="names of models, or words that their names contain"
    )
    parser.add_argument("--draws", type=int, default=None)
    options = parser.parse_args()
    words = options.models.split(",")
    models = {
        name: fit
        for name, fit in MODELS.items()
        if any(name == word if word in MODELS else word in name for word in words)
    }
    for fit in models.values():
        fit(draw(options.folder, "small", 99))  # compiles what is compiled at the first call
    for name in options.sets.split(","):
        n_draws = options.draws or SETS[name][4]
        results: dict[str, list[tuple[float, ...]]] = {model: [] for model in models}
        for seed in range(n_draws):
            data = draw(options.folder, name, seed)
            for model, fit in models.items():
                begin = time.process_time()
                prediction = fit(data)
                results[model].append((*scores(data, prediction), time.process_time() - begin))
        first = np.array(next(iter(results.values())))[:, 1]
        print(f"\n{name}: {n_draws} draws\n{'':28}accuracy  cross entropy    tau  CPU s   ours is lower by (error)")
        for model, rows in results.items():
            accuracy, entropy, tau, seconds = np.mean(rows, axis=0)
            gap = np.array(rows)[:, 1] - first
            error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
            print(
                f"{model:28}{accuracy:8.3f}{entropy:15.4f}{tau:7.3f}{seconds:7.2f}   {gap.mean():+.4f} ({error:.4f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
