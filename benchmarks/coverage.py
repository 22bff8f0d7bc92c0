"""Do the intervals hold? Coverage of nominal 50, 80 and 95 % for every estimator, on data simulated from known truths.

::

    python benchmarks/coverage.py                          # every row
    python benchmarks/coverage.py --only crowd,gibbs       # rows whose "name: quantity" contains one of these
    python benchmarks/coverage.py --only "CrowdGPPL: accuracy,SVGPClassifier" --data-sets 5
    python benchmarks/coverage.py --plot coverage.png
    python benchmarks/coverage.py --only crowd --out docs/examples/coverage.json  # new figures for the guide

Each row of the table simulates data sets, fits a model to each and asks for the rank of the truth in its posterior or
predictive distribution (the probability integral transform, with random ranks within a level where the truth is a
level). An interval of level c covers the truth where the rank is within c / 2 of one half. Standard errors are over
data sets, since errors within a data set are correlated. Rows "scaled" first multiply the estimates by the factor that
fits them best to the truth: for quantities whose unit the data do not fix.

docs/examples/plot_coverage.py draws the file of ``--out``. A run replaces the rows that it measured and keeps the
others, and each row says at which commit it was measured.
"""

from __future__ import annotations

if __name__ == "coverage":
    # Every benchmark imports numba, which looks for the package of this name and must not take this script for it.
    raise ImportError("benchmarks/coverage.py is not the package coverage")

import argparse
import json
import subprocess
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax
from scipy.stats import nbinom, norm
from scipy.stats import t as student_t
from sklearn.gaussian_process.kernels import RBF

from skpref import (
    CrowdGPPL,
    Gamma,
    GibbsIPM3F,
    GibbsM3F,
    GPOrdinalRegressor,
    GPPLClassifier,
    GPPLRegressor,
    SVGPClassifier,
    SVGPRegressor,
    VariationalFM,
    VariationalFMClassifier,
    VariationalFMOrdinal,
)
from skpref.data import OneHotDesign
from skpref.datasets import make_crowd
from skpref.kernels import ProductMatern

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

LEVELS = (0.5, 0.8, 0.95)
KNOWN = 1e6  # shape and rate of a prior of a scale that is known to be 1


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    quantity: str
    simulate: Callable[[np.random.Generator], FloatArray]  # ranks of the truths of one data set
    n_data_sets: int = 60


# ------------------------------------------------------------------------------------------------------------- helpers
def normal_ranks(truth: FloatArray, mean: FloatArray, std: FloatArray, *, scaled: bool = False) -> FloatArray:
    """Return the ranks of truths in normal distributions."""
    if scaled:
        by = float(mean @ truth / max(mean @ mean, 1e-300))
        mean, std = by * mean, abs(by) * std
    return norm.cdf((truth - mean) / np.maximum(std, 1e-300))


def level_ranks(y: NDArray[Any], probabilities: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return random ranks of levels 0, 1, ... in their predictive distributions."""
    cumulative = np.column_stack([np.zeros(len(y)), np.cumsum(probabilities, axis=1)])
    row = np.arange(len(y))
    return cumulative[row, y] + rng.random(len(y)) * probabilities[row, y]


def function(rng: np.random.Generator, X: FloatArray, length_scale: float, amplitude: float = 1.0) -> FloatArray:
    """Draw a Gaussian process with the default kernel."""
    K = ProductMatern(np.full(X.shape[1], length_scale))(X) + 1e-10 * np.eye(len(X))
    return amplitude * np.linalg.cholesky(K) @ rng.standard_normal(len(X))


def pairs_of(rng: np.random.Generator, f: FloatArray, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw comparisons and their answers by pairwise probit."""
    left = rng.integers(0, f.size, n)
    right = (left + rng.integers(1, f.size, n)) % f.size
    return np.column_stack([left, right]), (f[left] - f[right] + rng.standard_normal(n) > 0.0).astype(int)


# --------------------------------------------------------------------------------------------------------- comparisons
def gppl(quantity: str, n_items: int = 40, n_pairs: int = 300, **params: object) -> Callable[..., FloatArray]:
    """Comparisons of items with two features and no offsets."""

    def simulate(rng: np.random.Generator) -> FloatArray:
        X = rng.standard_normal((n_items, 2))
        f = function(rng, X, 1.5)
        pairs, y = pairs_of(rng, f, n_pairs)
        model = GPPLClassifier(items=X, random_state=0, **params).fit(pairs, y)
        if quantity == "utility":
            return normal_ranks(f - f.mean(), *model.utility(np.arange(n_items), return_std=True))
        new, answers = pairs_of(rng, f, 500)
        return level_ranks(answers, model.predict_proba(new), rng)

    return simulate


def answered(rng: np.random.Generator, z: FloatArray, threshold: FloatArray | float) -> FloatArray:
    """Draw answers to differences of utilities: ties where a difference with its noise is below the threshold."""
    noisy = z + rng.standard_normal(z.shape)
    return np.where(np.abs(noisy) < threshold, 0.5, noisy > 0.0)


def gppl_ids(n_items: int, n_pairs: int, *, ties: float = 0.0, **params: object) -> Callable[..., FloatArray]:
    """Comparisons of items without features."""

    def simulate(rng: np.random.Generator) -> FloatArray:
        f = rng.standard_normal(n_items)
        pairs, y = pairs_of(rng, f, n_pairs)
        y = answered(rng, f[pairs[:, 0]] - f[pairs[:, 1]], ties) if ties else y
        model = GPPLClassifier(random_state=0, **params).fit(pairs, y)
        seen = np.unique(pairs)
        return normal_ranks(f[seen] - f[seen].mean(), *model.utility(seen, return_std=True))

    return simulate


def scores(*, scaled: bool, amplitude: float = 1.0, **params: object) -> Callable[..., FloatArray]:
    """Noisy scores of items: the noise of a difference is 1."""

    def simulate(rng: np.random.Generator) -> FloatArray:
        X = rng.standard_normal((50, 2))
        f = function(rng, X, 1.5, amplitude)
        model = GPPLRegressor(random_state=0, **params).fit(X, f + np.sqrt(0.5) * rng.standard_normal(f.size))
        return normal_ranks(f - f.mean(), *model.predict(X, return_std=True), scaled=scaled)

    return simulate


def covariates(quantity: str) -> Callable[..., FloatArray]:
    """Comparisons of ids with ties, a home side and a number of each comparison."""

    def simulate(rng: np.random.Generator) -> FloatArray:
        f, effects = rng.standard_normal(20), np.array([0.4, 0.3]) * rng.standard_normal(2)
        left, n = rng.integers(0, 20, 400), 400
        right = (left + rng.integers(1, 20, n)) % 20
        C = np.column_stack([rng.choice([-1.0, 0.0, 1.0], n), rng.standard_normal(n)])
        z = f[left] - f[right] + C @ effects + rng.standard_normal(n)
        y = np.where(np.abs(z) < 0.4, 0.5, z > 0.0)
        model = GPPLClassifier(covariates=[2, 3], likelihood="probit-ties", random_state=0)
        model.fit(np.column_stack([left, right, C]), y)
        if quantity == "effect":
            return normal_ranks(effects, model.coef_, model.coef_std_)
        seen = np.unique([left, right])
        return normal_ranks(f[seen] - f[seen].mean(), *model.utility(seen, return_std=True))

    return simulate


# --------------------------------------------------------------------------------------------------------------- crowd
def graded(quantity: str, n_users: int = 1) -> Callable[..., FloatArray]:
    """Comparisons of ids in five grades, by one person or by people with tastes and scales of their own."""

    def simulate(rng: np.random.Generator) -> FloatArray:
        n_items, n = 15, 300 if n_users == 1 else 40 * n_users
        consensus, tastes = rng.standard_normal(n_items), 0.5 * rng.standard_normal((n_users, n_items))
        f = consensus + (tastes if n_users > 1 else 0.0 * tastes)
        scale = np.exp(0.3 * rng.standard_normal(n_users)) if n_users > 1 else np.ones(1)

        def asked(n: int) -> tuple[NDArray[Any], NDArray[Any]]:
            user, left = rng.integers(n_users, size=n), rng.integers(n_items, size=n)
            right = (left + rng.integers(1, n_items, n)) % n_items
            noisy = (f[user, left] - f[user, right] + rng.logistic(size=n)) / scale[user]
            return np.column_stack([user, left, right]), np.digitize(noisy, [-1.2, -0.4, 0.4, 1.2]) - 2

        X, y = asked(n)
        estimator, columns = (CrowdGPPL, slice(0, 3)) if n_users > 1 else (GPPLClassifier, slice(1, 3))
        model = estimator(likelihood="logit-graded", random_state=0).fit(X[:, columns], y)
        if quantity == "answer":
            new, answers = asked(1000)
            return level_ranks(answers + 2, model.predict_proba(new[:, columns]), rng)
        users = {"users": np.arange(n_users)} if n_users > 1 else {}
        mean, std = model.utility(np.arange(n_items), **users, return_std=True)
        truth = (f - f.mean(axis=1, keepdims=True)).reshape(mean.shape)
        return normal_ranks(truth.ravel(), mean.ravel(), std.ravel())

    return simulate


def moving(when: float) -> Callable[..., FloatArray]:
    """Comparisons over ten years of ids whose utilities have a level, a drift and a form; utilities at a time."""

    def simulate(rng: np.random.Generator) -> FloatArray:
        grid, n_items, n = np.linspace(0.0, 12.0, 601), 40, 4_000
        phi, noise = np.exp(-0.02 / 1.5), rng.standard_normal((2, n_items, grid.size))
        form = noise[0].copy()
        for k in range(1, grid.size):
            form[:, k] = phi * form[:, k - 1] + np.sqrt(1.0 - phi**2) * noise[0][:, k]
        f = 0.8 * rng.standard_normal((n_items, 1)) + 0.6 * form + 0.1 * np.sqrt(0.02) * np.cumsum(noise[1], axis=1)
        time, left = rng.uniform(0.0, 10.0, n), rng.integers(0, n_items, n)
        right = (left + rng.integers(1, n_items, n)) % n_items
        at = np.searchsorted(grid, time)
        y = f[left, at] - f[right, at] + rng.standard_normal(n) > 0.0
        model = GPPLClassifier(time=2, random_state=0).fit(np.column_stack([left, right, time]), y)
        truth = f[:, np.searchsorted(grid, when)]
        return normal_ranks(truth - truth.mean(), *model.utility(np.arange(n_items), at=when, return_std=True))

    return simulate


def choices(
    quantity: str, n_tasks: int, n_people: int = 200, n_shown: int = 4, d: int = 6
) -> Callable[..., FloatArray]:
    """Choices among products with attributes by people with correlated normal part-worths."""

    def simulate(rng: np.random.Generator) -> FloatArray:
        root = rng.standard_normal((d, d)) / np.sqrt(d)
        beta = rng.standard_normal(d) + rng.standard_normal((n_people, d)) @ root.T
        items = rng.standard_normal((n_people * n_tasks * n_shown, d))
        tasks = np.arange(len(items)).reshape(-1, n_shown)
        user = np.repeat(np.arange(n_people), n_tasks)
        z = np.einsum("tkd,td->tk", items[tasks], beta[user]) + rng.gumbel(size=tasks.shape)
        model = CrowdGPPL(items, random_state=0).fit(np.column_stack([user, tasks]), z.argmax(axis=1))
        if quantity == "part-worth":
            table = model.part_worths(np.arange(n_people))
            return normal_ranks(beta.ravel(), table["mean"].to_numpy(), table["std"].to_numpy())
        ranks, titles = [], [f"x{k}" for k in range(d)]
        for _ in range(10):
            offers = rng.standard_normal((3, d))
            table = model.shares(
                {name: dict(zip(titles, row, strict=True)) for name, row in zip("abc", offers, strict=True)}
            )
            truth = softmax(beta @ offers.T, axis=1).mean(axis=0)
            ranks.append(normal_ranks(truth, table["share"].to_numpy(), table["std"].to_numpy()))
        return np.concatenate(ranks)

    return simulate


def crowd(
    quantity: str,
    *,
    features: bool = False,
    sizes: tuple[int, int, int] = (40, 25, 40),
    ties: float = 0.0,
    **params: object,
) -> Callable[..., FloatArray]:
    """Comparisons by users with personal tastes; sizes are users, items and answers of each user.

    With ties, users have thresholds of their own, whose logarithms have a standard deviation of 0.3.
    """
    n_known, n_items, n_answers = sizes

    def simulate(rng: np.random.Generator) -> FloatArray:
        width = {"n_features": 2, "n_user_features": 2} if features else {"n_features": 0, "n_user_features": 0}
        n_users = n_known * (2 if quantity == "newcomers" else 1)
        seed = int(rng.integers(2**31))
        data = make_crowd(
            n_users, n_items, n_answers * n_users, n_factors=2, factor_scale=2.0, random_state=seed, **width
        )
        table = {"items": data.table, "users": data.user_table} if features else {}
        asked, y = data.comparisons[:, 0] < n_known, data.y
        if ties:
            user, left, right = data.comparisons.T
            threshold = ties * np.exp(0.3 * rng.standard_normal(n_users))
            y = answered(rng, data.utilities[user, left] - data.utilities[user, right], threshold[user])
        model = CrowdGPPL(random_state=0, **table, **params).fit(data.comparisons[asked], y[asked])
        items, users = np.arange(n_items), np.arange(n_known)
        if quantity == "consensus":
            # The mean taste of these users belongs to what they agree on.
            truth = data.consensus + data.item_factors @ data.user_factors.mean(axis=0)
            return normal_ranks(truth - truth.mean(), *model.utility(items, return_std=True))
        if quantity == "personal":
            truth = data.utilities - data.utilities.mean(axis=1, keepdims=True)
            mean, std = model.utility(items, users=users, return_std=True)
            return normal_ranks(truth.ravel(), mean.ravel(), std.ravel())
        if quantity == "newcomers":
            truth = data.utilities[n_known:] - data.utilities[n_known:].mean(axis=1, keepdims=True)
            mean, std = model.utility(items, users=np.arange(n_known, n_users), return_std=True)
            return normal_ranks(truth.ravel(), mean.ravel(), std.ravel())
        if quantity == "accuracy":
            return _accuracy_ranks(model, data)
        if quantity == "threshold":
            return _report_ranks(model, "tie_threshold", threshold)
        user = rng.integers(0, n_known, 1000)
        left = rng.integers(0, n_items, 1000)
        right = (left + rng.integers(1, n_items, 1000)) % n_items
        z = data.utilities[user, left] - data.utilities[user, right]
        y = (z + rng.standard_normal(1000) > 0.0).astype(int)
        return level_ranks(y, model.predict_proba(np.column_stack([user, left, right])), rng)

    return simulate


def _accuracy_ranks(model: CrowdGPPL, data: Any) -> FloatArray:  # noqa: ANN401 - a Bunch
    """Return stand-ins for the ranks of the users' true accuracies."""
    _, left, right = data.comparisons.T
    mean = data.item_factors @ data.user_factors.mean(axis=0) + data.consensus
    z = data.utilities[:, left] - data.utilities[:, right]
    return _report_ranks(model, "accuracy", norm.cdf(np.sign(mean[left] - mean[right]) * z).mean(axis=1))


def _report_ranks(model: CrowdGPPL, column: str, truth: FloatArray) -> FloatArray:
    """Return the middle of the smallest level whose interval in `annotators()` covers the truth."""
    ranks = np.full(truth.size, 0.99)
    for level, rank in zip(LEVELS[::-1], (0.95, 0.85, 0.6), strict=True):
        report = model.annotators(credibility=level)
        ranks[(truth >= report[f"{column}_low"]) & (truth <= report[f"{column}_high"])] = rank
    return ranks


def judges(column: str, *, tastes: bool) -> Callable[..., FloatArray]:
    """Users who follow the consensus more or less sharply, a tenth of them at random, with or without own tastes.

    The true reliability is the slope of a user's utilities on the consensus, 1 on average as in the estimator.
    """

    def simulate(rng: np.random.Generator) -> FloatArray:
        n_users, n_items, n = 40, 25, 1600
        t, rho = rng.standard_normal(n_items), np.exp(0.5 * rng.standard_normal(n_users))
        rho[rng.random(n_users) < 0.1] = 0.0
        own = 0.5 * rng.standard_normal((n_users, n_items)) if tastes else np.zeros((n_users, n_items))
        f = rho[:, None] * t + own
        user, left = rng.integers(0, n_users, n), rng.integers(0, n_items, n)
        right = (left + rng.integers(1, n_items, n)) % n_items
        y = (f[user, left] - f[user, right] + rng.standard_normal(n) > 0.0).astype(int)
        model = CrowdGPPL(random_state=0).fit(np.column_stack([user, left, right]), y)
        consensus = f.mean(axis=0) - f.mean()
        seen = np.isin(np.arange(n_users), user)
        if column == "accuracy":
            gap = np.sign(consensus[left] - consensus[right]) * (f[:, left] - f[:, right])
            return _report_ranks(model, column, norm.cdf(gap).mean(axis=1)[seen])
        return _report_ranks(model, column, (f @ consensus / (consensus @ consensus))[seen])

    return simulate


def biases(n_users: int, n_answers: int) -> Callable[..., FloatArray]:
    """Users with tastes who favour the left side by 0.4 on average, with a standard deviation of 0.5."""

    def simulate(rng: np.random.Generator) -> FloatArray:
        data = make_crowd(
            n_users,
            25,
            n_answers * n_users,
            n_factors=1,
            n_features=0,
            n_user_features=0,
            order_effect=(0.4, 0.5),
            random_state=int(rng.integers(2**31)),
        )
        model = CrowdGPPL(order_effect=True, random_state=0).fit(data.comparisons, data.y)
        return _report_ranks(model, "bias", data.position_bias[model.user_ids_])

    return simulate


def two_kinds(column: str, *, others: bool) -> Callable[..., FloatArray]:
    """Answers of 25 people and five judges of another kind, whose biases or thresholds of ties are far from theirs."""

    def simulate(rng: np.random.Generator) -> FloatArray:
        n_items, user = 20, np.repeat(np.arange(30), 50)
        f = rng.standard_normal(n_items) + 0.5 * rng.standard_normal((30, n_items))
        ties = column == "tie_threshold"
        own = (0.15 if ties else 0.2) * rng.standard_normal(30)
        own[25:] = (0.8 if ties else 1.5) * rng.choice([-1.0, 1.0], 5)
        left = rng.integers(0, n_items, user.size)
        right = (left + rng.integers(1, n_items, user.size)) % n_items
        truth = 0.5 * np.exp(own) if ties else 0.3 + own
        z, seen = f[user, left] - f[user, right], slice(25, 30) if others else slice(25)
        y = answered(rng, z, truth[user]) if ties else answered(rng, z + truth[user], 0.0)
        model = CrowdGPPL(order_effect=not ties, random_state=0).fit(np.column_stack([user, left, right]), y)
        return _report_ranks(model, column, truth)[seen]

    return simulate


# --------------------------------------------------------------------------------------------- grades, numbers, classes
def ordinal(quantity: str, *, n: int = 120, scaled: bool = False, **params: object) -> Callable[..., FloatArray]:
    """Four levels of a function of two features, with probit noise."""

    def simulate(rng: np.random.Generator) -> FloatArray:
        X = rng.standard_normal((2 * n, 2))
        f = function(rng, X, 1.5, 1.5)
        y = np.digitize(f + 0.5 * rng.standard_normal(f.size), [-1.0, 0.0, 1.0])
        model = GPOrdinalRegressor(class_order=range(4), random_state=0, **params).fit(X[:n], y[:n])
        if quantity == "levels":
            return level_ranks(y[n:], model.predict_proba(X[n:]), rng)
        mean, std = model.predict_latent(X[n:], return_std=True)
        truth = f[n:] - f[n:].mean()
        return normal_ranks(truth, mean - mean.mean(), std, scaled=scaled)

    return simulate


def regression(
    quantity: str, n: int = 500, n_features: int = 2, outliers: float = 0.0, **params: object
) -> Callable[..., FloatArray]:
    """A smooth function of features with noise, ten times as large in a share of the rows."""

    def simulate(rng: np.random.Generator) -> FloatArray:
        X = rng.uniform(-2.0, 2.0, (n + 200, n_features))
        K = RBF(np.sqrt(0.5 * n_features))(X) + 1e-8 * np.eye(len(X))
        f = np.linalg.cholesky(K) @ rng.standard_normal(len(X))
        y = f + np.where(rng.random(f.size) < outliers, 3.0, 0.3) * rng.standard_normal(f.size)
        model = SVGPRegressor(random_state=0, **params).fit(X[:n], y[:n])
        if quantity == "y" and params.get("likelihood") == "student-t":
            mean, std = model.predict(X[n:], return_std=True, noise=False)
            nodes, weight = np.polynomial.hermite_e.hermegauss(20)  # over f, which is normal
            gap = (y[n:] - mean)[:, None] - std[:, None] * nodes
            return student_t.cdf(gap, model.likelihood_.df, scale=model.noise_) @ weight / weight.sum()
        noise = quantity == "y"
        return normal_ranks((y if noise else f)[n:], *model.predict(X[n:], return_std=True, noise=noise))

    return simulate


def counts(n: int = 300, rate: float = 3.0, dispersion: float = 0.0, quantity: str = "log rate") -> Callable[..., Any]:
    """Counts whose log rate is a smooth function of two features: log rates of new rows, or their counts."""
    likelihood = "negative-binomial" if dispersion else "poisson"

    def simulate(rng: np.random.Generator) -> FloatArray:
        X = rng.uniform(-2.0, 2.0, (n + 200, 2))
        f = 0.7 * np.linalg.cholesky(RBF(1.0)(X) + 1e-8 * np.eye(len(X))) @ rng.standard_normal(len(X))
        extra = rng.gamma(1.0 / dispersion, dispersion, len(X)) if dispersion else 1.0
        y = rng.poisson(rate * np.exp(f) * extra)
        model = SVGPRegressor(likelihood=likelihood, random_state=0).fit(X[:n], y[:n])
        mean, std = model.predict_latent(X[n:], return_std=True)
        mean += np.log(model.likelihood_.rate)
        if quantity == "log rate":
            return normal_ranks(np.log(rate) + f[n:], mean, std)
        nodes, weights = np.polynomial.hermite_e.hermegauss(30)
        size = 1.0 / getattr(model.likelihood_, "dispersion", 1e-9)
        chance = size / (size + np.exp(mean[:, None] + std[:, None] * nodes))
        below, above = (nbinom.cdf(y[n:, None] - k, size, chance) @ weights / weights.sum() for k in (1, 0))
        return below + rng.random(len(below)) * (above - below)

    return simulate


def classes(n: int = 300, **params: object) -> Callable[..., FloatArray]:
    """Two classes by the probit of a function of three features."""

    def simulate(rng: np.random.Generator) -> FloatArray:
        X = rng.standard_normal((n + 300, 3))
        y = (function(rng, X, 2.0, 1.5) + rng.standard_normal(len(X)) > 0.0).astype(int)
        model = SVGPClassifier(random_state=0, **params).fit(X[:n], y[:n])
        return level_ranks(y[n:], model.predict_proba(X[n:]), rng)

    return simulate


# ---------------------------------------------------------------------------------------------- factorization machines
def machine(users: str, *, binary: bool = False, levels: str = "", **params: object) -> Callable[..., FloatArray]:
    """Users and items with three factors: targets of known or of new users; of levels, these or y(x)."""

    def simulate(rng: np.random.Generator) -> FloatArray:
        n_users, n_items, n = 60, 40, 1200
        bias = rng.standard_normal(n_users), rng.standard_normal(n_items)
        U, V = 0.6 * rng.standard_normal((n_users, 3)), rng.standard_normal((n_items, 3))
        user, item = rng.integers(0, n_users, 2 * n), rng.integers(0, n_items, 2 * n)
        z = bias[0][user] + bias[1][item] + np.einsum("nk,nk->n", U[user], V[item])
        y = z + rng.standard_normal(2 * n)
        new = user >= 50
        train = np.flatnonzero(~new)[:n]
        test = np.flatnonzero(new) if users == "new" else np.flatnonzero(~new)[n:]
        design = OneHotDesign().fit(np.column_stack([user, item])[train])
        X = design.transform(np.column_stack([user, item]))
        if binary:
            label = (y > 0.0).astype(int)
            classifier = VariationalFMClassifier(random_state=0, **params).fit(X[train], label[train])
            return level_ranks(label[test], classifier.predict_proba(X[test]), rng)
        if levels:
            cuts = np.array([-2.0, -0.5, 0.5, 2.0])
            level = np.searchsorted(cuts, y)
            machine = VariationalFMOrdinal(class_order=range(5), random_state=0, **params).fit(X[train], level[train])
            if levels == "level":
                return level_ranks(level[test], machine.predict_proba(X[test]), rng)
            mean, variance = machine.latent_mean_and_variance(X[test])
            return normal_ranks(z[test] - cuts.mean(), mean - machine.thresholds_.mean(), np.sqrt(variance))
        model = VariationalFM(random_state=0, **params).fit(X[train], y[train])
        mean, variance = model.latent_mean_and_variance(X[test])
        return normal_ranks(z[test], mean, np.sqrt(variance))

    return simulate


# ------------------------------------------------------------------------------------------------------------- ratings
def ratings(model: Callable[[], Any], *, noise: float = 1.0, n_ratings: int = 4000) -> Callable[..., FloatArray]:
    """Stars by ordinal probit of five factors with thresholds of each user: not the model's own pseudo-likelihood."""

    def simulate(rng: np.random.Generator) -> FloatArray:
        n_users, n_items = 100, 80
        U, V = rng.standard_normal((n_users, 5)), rng.standard_normal((n_items, 5)) / np.sqrt(5.0)
        cell = rng.permutation(n_users * n_items)[: n_ratings + 1000]
        user, item = cell // n_items, cell % n_items
        shift = 0.4 * rng.standard_normal((n_users, 1))
        z = np.einsum("nk,nk->n", U[user], V[item]) + 0.7 * rng.standard_normal(n_items)[item]
        cuts = np.array([-1.8, -0.6, 0.4, 1.6]) + shift[user]
        y = ((z + noise * rng.standard_normal(z.size))[:, None] > cuts).sum(axis=1)
        X = np.column_stack([user, item])
        fitted = model().fit(X[:n_ratings], y[:n_ratings])
        place = np.searchsorted(fitted.classes_, y[n_ratings:])
        return level_ranks(place, fitted.predict_proba(X[n_ratings:]), rng)

    return simulate


def rows() -> list[Row]:
    """Return every row of the table."""
    kernel, known = ProductMatern([1.5, 1.5]), {"scale_prior": Gamma(KNOWN, KNOWN)}
    variational = {"inference": "variational"}
    return [
        Row("GPPLClassifier, kernel and scale known", "utility",
            gppl("utility", kernel=kernel, item_effects=False, **known)),
        Row("GPPLClassifier, kernel known", "utility", gppl("utility", kernel=kernel, item_effects=False)),
        Row("GPPLClassifier, no offsets", "utility", gppl("utility", item_effects=False)),
        Row("GPPLClassifier", "utility", gppl("utility")),
        Row("GPPLClassifier", "answer", gppl("answer")),
        Row("GPPLClassifier, svi, 15 inducing points", "utility",
            gppl("utility", item_effects=False, inference="svi", inducing=15)),
        Row("GPPLClassifier, laplace", "utility", gppl("utility", item_effects=False, inference="laplace")),
        Row("GPPLClassifier, linearised", "utility", gppl("utility", item_effects=False, inference="linearised")),
        Row("GPPLClassifier of ids", "utility", gppl_ids(50, 400)),
        Row("GPPLClassifier of ids, ties", "utility", gppl_ids(50, 400, ties=0.5)),
        Row("GPPLClassifier of 2,000 ids", "utility", gppl_ids(2000, 16000), 5),
        Row("GPPLClassifier, ties and covariates", "utility", covariates("utility")),
        Row("GPPLClassifier, ties and covariates", "effect", covariates("effect"), 300),
        Row("GPPLClassifier, five grades", "utility", graded("utility")),
        Row("GPPLClassifier, five grades", "answer", graded("answer")),
        Row("CrowdGPPL, five grades", "personal utility", graded("utility", 25), 10),
        Row("CrowdGPPL, five grades", "answer", graded("answer", 25), 10),
        Row("GPPLClassifier over time", "utility in the past", moving(5.0), 20),
        Row("GPPLClassifier over time", "utility now", moving(10.0), 20),
        Row("GPPLClassifier over time", "utility two years ahead", moving(12.0), 20),
        Row("CrowdGPPL, 5 choices each", "part-worth", choices("part-worth", 5), 20),
        Row("CrowdGPPL, 10 choices each", "part-worth", choices("part-worth", 10), 20),
        Row("CrowdGPPL, 20 choices each", "part-worth", choices("part-worth", 20), 20),
        Row("CrowdGPPL, 12 choices of 15 attributes", "part-worth", choices("part-worth", 12, 300, 5, 15), 10),
        Row("CrowdGPPL, 5 choices each", "share", choices("share", 5), 20),
        Row("CrowdGPPL, 10 choices each", "share", choices("share", 10), 20),
        Row("CrowdGPPL, 20 choices each", "share", choices("share", 20), 20),
        Row("GPPLRegressor from scores, all known", "utility", scores(scaled=False, kernel=kernel, **known)),
        Row("GPPLRegressor from scores", "utility", scores(scaled=False)),
        Row("GPPLRegressor from scores, scaled", "utility", scores(scaled=True)),
        Row("GPPLRegressor from scores, strong signal, scaled", "utility", scores(scaled=True, amplitude=3.0)),
        Row("CrowdGPPL", "consensus", crowd("consensus"), 30),
        Row("CrowdGPPL", "personal utility", crowd("personal"), 30),
        Row("CrowdGPPL", "utility of new users", crowd("newcomers"), 30),
        Row("CrowdGPPL", "accuracy of users", crowd("accuracy"), 30),
        Row("CrowdGPPL, careless users", "accuracy of users", judges("accuracy", tastes=False), 30),
        Row("CrowdGPPL, careless users", "reliability of users", judges("reliability", tastes=False), 30),
        Row("CrowdGPPL, careless users with tastes", "accuracy of users", judges("accuracy", tastes=True), 30),
        Row("CrowdGPPL, careless users with tastes", "reliability of users", judges("reliability", tastes=True), 30),
        Row("CrowdGPPL, 40 users, 60 answers each", "position bias", biases(40, 60), 30),
        Row("CrowdGPPL, 200 users, 12 answers each", "position bias", biases(200, 12), 30),
        Row("CrowdGPPL, 25 people and 5 others", "bias of people", two_kinds("bias", others=False), 30),
        Row("CrowdGPPL, 25 people and 5 others", "bias of others", two_kinds("bias", others=True), 30),
        Row("CrowdGPPL, 25 people and 5 others", "threshold of people", two_kinds("tie_threshold", others=False), 30),
        Row("CrowdGPPL, 25 people and 5 others", "threshold of others", two_kinds("tie_threshold", others=True), 30),
        Row("CrowdGPPL", "answer", crowd("answer"), 30),
        Row("CrowdGPPL, ties", "consensus", crowd("consensus", ties=0.5), 30),
        Row("CrowdGPPL, ties", "personal utility", crowd("personal", ties=0.5), 30),
        Row("CrowdGPPL, ties", "tie threshold", crowd("threshold", ties=0.5), 30),
        Row("CrowdGPPL, features", "personal utility", crowd("personal", features=True), 30),
        Row("CrowdGPPL, 200 users, 3 answers each", "consensus", crowd("consensus", sizes=(200, 20, 3)), 30),
        Row("CrowdGPPL, 200 users, 3 answers each", "personal utility", crowd("personal", sizes=(200, 20, 3)), 30),
        Row("CrowdGPPL, 1,000 users, 5 answers each", "consensus", crowd("consensus", sizes=(1000, 20, 5)), 20),
        Row("CrowdGPPL, 1,000 users, 5 answers each", "personal utility", crowd("personal", sizes=(1000, 20, 5)), 20),
        Row("CrowdGPPL, 12 users, 10 answers each", "consensus", crowd("consensus", sizes=(12, 8, 10)), 30),
        Row("CrowdGPPL, 12 users, 10 answers each", "personal utility", crowd("personal", sizes=(12, 8, 10)), 30),
        Row("GPOrdinalRegressor", "latent", ordinal("latent"), 30),
        Row("GPOrdinalRegressor, scaled", "latent", ordinal("latent", scaled=True), 30),
        Row("GPOrdinalRegressor", "level", ordinal("levels"), 30),
        Row("GPOrdinalRegressor, kernel=None", "latent", ordinal("latent", kernel=None), 30),
        Row("GPOrdinalRegressor, kernel=None, scaled", "latent", ordinal("latent", scaled=True, kernel=None), 30),
        Row("GPOrdinalRegressor, kernel=None", "level", ordinal("levels", kernel=None), 30),
        Row("SVGPRegressor", "f", regression("f"), 30),
        Row("SVGPRegressor", "y", regression("y"), 30),
        Row("SVGPRegressor, 60 rows of 10 features", "y", regression("y", n=60, n_features=10), 60),
        Row("SVGPRegressor, 5 % outliers", "f", regression("f", outliers=0.05), 30),
        Row("SVGPRegressor, 5 % outliers", "y", regression("y", outliers=0.05), 30),
        Row("SVGPRegressor, 5 % outliers, student-t", "f", regression("f", outliers=0.05, likelihood="student-t"), 30),
        Row("SVGPRegressor, 5 % outliers, student-t", "y", regression("y", outliers=0.05, likelihood="student-t"), 30),
        Row("SVGPRegressor, poisson", "log rate", counts(), 30),
        Row("SVGPRegressor, negative-binomial", "log rate", counts(dispersion=0.5), 30),
        Row("SVGPRegressor, negative-binomial", "y", counts(dispersion=0.5, quantity="y"), 30),
        Row("SVGPRegressor, adam, 40 inducing points", "f", regression("f", optimizer="adam", inducing=40), 30),
        Row("SVGPRegressor, 40 inducing points", "f", regression("f", inducing=40), 30),
        Row("SVGPClassifier", "class", classes(), 30),
        Row("VariationalFM", "y(x), known users", machine("known"), 30),
        Row("VariationalFM", "y(x), new users", machine("new"), 30),
        Row("VariationalFMClassifier", "class, known users", machine("known", binary=True), 30),
        Row("VariationalFMClassifier", "class, new users", machine("new", binary=True), 30),
        Row("VariationalFMOrdinal", "level, known users", machine("known", levels="level")),
        Row("VariationalFMOrdinal", "level, new users", machine("new", levels="level")),
        Row("VariationalFMOrdinal", "y(x), known users", machine("known", levels="y(x)")),
        Row("VariationalFMOrdinal, variational", "level, known users", machine("known", levels="level", **variational)),
        Row("VariationalFMOrdinal, variational", "level, new users", machine("new", levels="level", **variational)),
        Row("VariationalFMOrdinal, variational", "y(x), known users", machine("known", levels="y(x)", **variational)),
        Row("GibbsM3F", "rating", ratings(lambda: GibbsM3F(random_state=0)), 6),
        Row("GibbsM3F, little noise", "rating", ratings(lambda: GibbsM3F(random_state=0), noise=0.3), 6),
        Row("GibbsIPM3F", "rating", ratings(lambda: GibbsIPM3F(random_state=0)), 6),
    ]  # fmt: skip


def measure(row: Row, seed: int) -> dict[str, Any]:
    """Simulate, fit and count."""
    start, covered = time.process_time(), []
    for k in range(row.n_data_sets):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ranks = row.simulate(np.random.default_rng([seed, k]))
        covered.append([np.mean(np.abs(ranks - 0.5) <= 0.5 * level) for level in LEVELS])
    error = np.std(covered, axis=0, ddof=1) / np.sqrt(row.n_data_sets)
    seconds = (time.process_time() - start) / row.n_data_sets
    return {"name": row.name, "quantity": row.quantity, "coverage": np.mean(covered, axis=0).round(4).tolist(),
            "error": error.round(4).tolist(), "n_data_sets": row.n_data_sets, "seed": seed,
            "seconds": round(seconds, 3)}  # fmt: skip


def keep(results: list[dict[str, Any]], path: Path) -> None:
    """Put measured rows into a file in the order of the table, in place of older ones."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout
    place = {(row.name, row.quantity): k for k, row in enumerate(rows())}
    old = json.loads(path.read_text("utf-8")) if path.exists() else []
    new = [{**result, "commit": commit.strip()} for result in results]
    merged = {(result["name"], result["quantity"]): result for result in [*old, *new]}
    ordered = sorted((key for key in merged if key in place), key=place.__getitem__)
    path.write_text("[\n" + ",\n".join(json.dumps(merged[key]) for key in ordered) + "\n]\n", "utf-8")


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Draw coverage of nominal 95 and 50 % as points with two standard errors."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    height = np.arange(len(results))[::-1]
    figure, axes = plt.subplots(figsize=(8.0, 0.27 * len(results) + 1.0), layout="constrained")
    for k, (level, colour) in enumerate(zip(LEVELS, ("#8c8c8c", "#4c78a8", "#d62728"), strict=True)):
        at = [100.0 * result["coverage"][k] for result in results]
        width = [200.0 * result["error"][k] for result in results]
        axes.errorbar(at, height, xerr=width, fmt="o", ms=4.0, color=colour, label=f"nominal {100.0 * level:.0f} %")
        axes.axvline(100.0 * level, color=colour, lw=0.8, ls=":")
    axes.set_yticks(height, [f"{result['name']}: {result['quantity']}" for result in results], fontsize=7)
    axes.set(xlabel="share of truths within the interval, %", xlim=(0.0, 101.0))
    axes.legend(loc="lower left", fontsize=7)
    figure.savefig(path, dpi=150)


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help='rows whose "name: quantity" has one of these words')
    parser.add_argument("--data-sets", type=int, help="data sets a row, in place of the default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file of the results")
    parser.add_argument("--plot", type=Path, help="PNG file of the plot")
    options = parser.parse_args(arguments)
    words = [word.lower() for word in options.only.split(",")]
    results = []
    print(f"{'':58s} {'quantity':20s}   50 %  80 %  95 %   (error)  data sets  CPU s")
    for row in rows():
        if any(word in f"{row.name}: {row.quantity}".lower() for word in words):
            result = measure(replace(row, n_data_sets=options.data_sets or row.n_data_sets), options.seed)
            results.append(result)
            cover = " ".join(f"{100.0 * share:5.1f}" for share in result["coverage"])
            print(f"{row.name:58s} {row.quantity:20s} {cover}   ({100.0 * result['error'][2]:.1f})"
                  f"  {result['n_data_sets']:4d}  {result['seconds']:.2f}", flush=True)  # fmt: skip
            if options.out:
                keep([result], options.out)
    if options.plot:
        draw(results, options.plot)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
