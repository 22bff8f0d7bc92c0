"""Leagues with ties and home advantage: `GPPLClassifier` beside Davidson's model with covariates, on simulated data.

::

    python benchmarks/ties.py                 # 40 leagues of each truth, about a minute
    python benchmarks/ties.py --leagues 5
    python benchmarks/ties.py --seed 10000 --spread 0.3     # other leagues, whose teams differ by less

Each league has 20 teams who meet twice; one covariate, the difference of the days of rest, counts, too. Matches follow
Davidson (1970), Rao and Kupper (1967) or Glenn and David (1960). Half of the matches are learnt from. The figure is the
mean log loss of the other half, in expectation over its answers, minus that of the truth, in nats a match. The rival
maximises the likelihood with a ridge, since teams may lose all, chosen among five by cross-validation in five folds.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, ndtr

from skpref import Gamma, GPPLClassifier

Array = npt.NDArray[Any]
N_TEAMS, HOME, REST, TIES = 20, 0.4, 0.15, 0.5
BROAD = {"scale_prior": Gamma(0.25, 0.25)}  # teams differ by less than the noise of a match
OURS: dict[str, dict[str, Any]] = {
    "logit-ties": {"likelihood": "logit-ties"},
    "logit-ties, broad prior": {"likelihood": "logit-ties", **BROAD},
    "davidson": {"likelihood": "davidson"},
    "davidson, broad prior": {"likelihood": "davidson", **BROAD},
    "probit-ties": {"likelihood": "probit-ties"},
    "probit-ties, broad prior": {"likelihood": "probit-ties", **BROAD},
    # The same prior as that of the logit in its unit, which is 1 / 1.7 of the probit's.
    "probit-ties, its unit": {"likelihood": "probit-ties", "scale_prior": Gamma(0.25, 0.25 / 1.7**2)},
}
RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0)


def probabilities(truth: str, z: Array) -> Array:
    """Return the probabilities of left, tie and right, shape (n, 3)."""
    if truth == "davidson":
        return np.asarray(np.exp(log_softmax(davidson_logits(z, np.log(0.8)), axis=1)))
    cdf = expit if truth == "rao-kupper" else lambda x: ndtr(x / 1.7)
    left, right = cdf(z - TIES), cdf(-z - TIES)
    return np.column_stack([left, 1.0 - left - right, right])


def davidson_logits(z: Array, log_nu: float) -> Array:
    """Return unnormalised log probabilities of left, tie and right."""
    return np.column_stack([0.5 * z, np.full(z.size, log_nu), -0.5 * z])


def fit_davidson(design: Array, y: Array, ridge: float) -> Array:
    """Return teams, covariates and log nu by penalised likelihood; `y` is 0 (left), 1 (tie) or 2 (right)."""
    answers = np.eye(3)[y]

    def loss(v: Array) -> tuple[float, Array]:
        logits = davidson_logits(design @ v[:-1], v[-1])
        log_p = log_softmax(logits, axis=1)
        excess = np.exp(log_p) - answers
        gradient = np.append(design.T @ (0.5 * (excess[:, 0] - excess[:, 2])), excess[:, 1].sum())
        gradient[:N_TEAMS] += ridge * v[:N_TEAMS]
        return -float((answers * log_p).sum()) + 0.5 * ridge * float(v[:N_TEAMS] @ v[:N_TEAMS]), gradient

    return np.asarray(minimize(loss, np.zeros(design.shape[1] + 1), jac=True, method="L-BFGS-B").x)


def chosen_ridge(design: Array, y: Array, rng: np.random.Generator) -> float:
    """Return the ridge with the lowest log loss in five folds."""
    fold = rng.permutation(y.size) % 5
    losses = []
    for ridge in RIDGES:
        losses.append(0.0)
        for k in range(5):
            v = fit_davidson(design[fold != k], y[fold != k], ridge)
            log_p = log_softmax(davidson_logits(design[fold == k] @ v[:-1], v[-1]), axis=1)
            losses[-1] -= float(log_p[np.arange(log_p.shape[0]), y[fold == k]].sum())
    return RIDGES[int(np.argmin(losses))]


def league(truth: str, seed: int, spread: float = 0.7) -> dict[str, float]:
    """Return the excess log loss of each model, and seconds of CPU of ours."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(0.0, spread, N_TEAMS)
    left, right = (side.ravel() for side in np.nonzero(~np.eye(N_TEAMS, dtype=bool)))
    rest = rng.integers(-3, 4, left.size)
    p = probabilities(truth, strength[left] - strength[right] + HOME + REST * rest)
    answer = np.array([rng.choice(3, p=row) for row in p])
    train = rng.permutation(left.size) < left.size // 2
    floor = -(p * np.log(p)).sum(axis=1)[~train].mean()
    design = np.zeros((left.size, N_TEAMS + 2))
    design[np.arange(left.size), left] += 1.0
    design[np.arange(left.size), right] -= 1.0
    design[:, -2], design[:, -1] = 1.0, rest
    excess: dict[str, float] = {}
    v = fit_davidson(design[train], answer[train], chosen_ridge(design[train], answer[train], rng))
    log_p = log_softmax(davidson_logits(design @ v[:-1], v[-1]), axis=1)
    excess["Davidson"] = -(p * log_p).sum(axis=1)[~train].mean() - floor
    X = np.column_stack([left, right, rest])
    for name, options in OURS.items():
        start = time.process_time()
        model = GPPLClassifier(covariates=[2], order_effect=True, **options)
        model.fit(X[train], 1.0 - 0.5 * answer[train])
        log_p = np.log(model.predict_proba(X[~train], ties=True))
        excess[name] = -(p[~train] * log_p).sum(axis=1).mean() - floor
        excess["seconds"] = time.process_time() - start
    return excess


def main() -> None:
    """Print a table of means and of paired differences to Davidson's model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leagues", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0, help="of the first league")
    parser.add_argument("--spread", type=float, default=0.7, help="standard deviation of the teams' strengths")
    options = parser.parse_args()
    n = options.leagues
    for truth in ("davidson", "rao-kupper", "glenn-david"):
        runs = [league(truth, options.seed + k, options.spread) for k in range(n)]
        columns = {name: np.array([run[name] for run in runs]) for name in runs[0]}
        print(f"truth {truth}: Davidson {columns['Davidson'].mean():.4f}")
        for name in OURS:
            difference = columns[name] - columns["Davidson"]
            error = difference.std(ddof=1) / np.sqrt(n)
            print(f"  {name:24s} {columns[name].mean():.4f}, difference {difference.mean():+.4f} +- {error:.4f}")
        print(f"  seconds of a fit of ours {columns['seconds'].mean():.2f}")


if __name__ == "__main__":
    main()
