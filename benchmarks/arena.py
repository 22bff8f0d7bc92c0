"""An arena with a bias for long answers: `GPPLClassifier` beside evalica, choix and statsmodels, on simulated battles.

::

    python benchmarks/arena.py                # five arenas of 40 models and 50,000 battles, about two minutes
    python benchmarks/arena.py --arenas 2 --battles 10000

Models differ in what they are worth and, whatever that is, in how long their answers are; judges answer by Bradley and
Terry, and favour length. Each row of the table is the mean over the arenas: CPU seconds of the fit with its intervals;
log loss of as many further battles, in expectation over their answers, minus that of the truth (thousandths of a nat);
Spearman's correlation of the utilities with the truth; and the share of the models whose 90 % interval holds the truth,
both measured from the mean. evalica's intervals are its percentile bootstrap with 100 resamples, arena-rank's its
sandwich estimator; choix has none. arena-rank penalises effects of covariates by ``reg=1``, whatever the number of
battles: one row is as it comes, one without that penalty. Only those that take covariates know of length. Packages that
are not installed are skipped. Leave SCIPY_ARRAY_API unset: evalica's bootstrap needs SciPy's arrays of objects.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit
from scipy.stats import spearmanr

from skpref import GPPLClassifier

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[Any]
N_MODELS, EFFECT = 40, 0.5  # of a difference in length of one standard deviation
Z90 = 1.6449


class Arena(NamedTuple):
    """Battles, half of them to learn from."""

    truth: Array
    left: Array
    right: Array
    length: Array  # of the left answer minus the right one
    z: Array
    won: Array  # of the first half


class Fit(NamedTuple):
    """Utilities measured from their mean, with the ends of their intervals, and the effect of length."""

    utility: Array
    low: Array
    high: Array
    effect: float


def arena(n_battles: int, seed: int) -> Arena:
    """Simulate an arena."""
    rng = np.random.default_rng(seed)
    truth, verbosity = rng.normal(0.0, 0.6, N_MODELS), rng.normal(0.0, 0.6, N_MODELS)
    left = rng.integers(0, N_MODELS, 2 * n_battles)
    right = (left + rng.integers(1, N_MODELS, left.size)) % N_MODELS
    length = verbosity[left] - verbosity[right] + rng.normal(0.0, 0.8, left.size)
    z = truth[left] - truth[right] + EFFECT * length
    won = (rng.random(n_battles) < expit(z[:n_battles])).astype(int)
    return Arena(truth, left, right, length, z, won)


def ours(data: Arena, *, covariate: bool) -> Fit:
    """Bradley-Terry with a learnt prior, with or without length."""
    n = data.won.size
    X = np.column_stack([data.left[:n], data.right[:n], data.length[:n]])
    model = GPPLClassifier(left=0, right=1, covariates=[2] if covariate else None, likelihood="logit")
    ranking = model.fit(X, data.won).rank()
    order = np.argsort(ranking.id)
    effect = float(model.coef_[0]) if covariate else 0.0
    return Fit(ranking.utility[order], ranking.utility_low[order], ranking.utility_high[order], effect)


def fit_statsmodels(data: Arena, *, covariate: bool) -> Fit:
    """Logistic regression on differences of dummies by maximum likelihood, with Wald's intervals."""
    from statsmodels.api import Logit

    n = data.won.size
    design = np.zeros((n, N_MODELS))
    design[np.arange(n), data.left[:n]] = 1.0
    design[np.arange(n), data.right[:n]] = -1.0
    columns = np.column_stack([design[:, 1:], data.length[:n]]) if covariate else design[:, 1:]
    result = Logit(data.won, columns).fit(disp=0)
    centre = np.eye(N_MODELS)[:, 1:] - 1.0 / N_MODELS
    utility = centre @ result.params[: N_MODELS - 1]
    covariance = centre @ result.cov_params()[: N_MODELS - 1, : N_MODELS - 1] @ centre.T
    half = Z90 * np.sqrt(np.diagonal(covariance))
    return Fit(utility, utility - half, utility + half, float(result.params[-1]) if covariate else 0.0)


def fit_evalica(data: Arena) -> Fit:
    """Bradley-Terry by evalica, bootstrapped."""
    import evalica

    n = data.won.size
    winners = [evalica.Winner.X if won else evalica.Winner.Y for won in data.won]
    arguments = data.left[:n].tolist(), data.right[:n].tolist(), winners
    scores = np.log(evalica.bradley_terry(*arguments).scores.sort_index().to_numpy())
    drawn = evalica.bootstrap(
        evalica.bradley_terry,
        *arguments,
        n_resamples=100,
        confidence_level=0.9,
        bootstrap_method="percentile",
        random_state=0,
    )
    low, high = (np.log(ends.sort_index().to_numpy()) for ends in (drawn.low, drawn.high))
    return Fit(scores - scores.mean(), low - scores.mean(), high - scores.mean(), 0.0)


def fit_choix(data: Arena) -> Fit:
    """Bradley-Terry by choix, I-LSR."""
    import choix

    n = data.won.size
    pairs = np.where(data.won[:, None] == 1, np.c_[data.left[:n], data.right[:n]], np.c_[data.right[:n], data.left[:n]])
    utility = choix.ilsr_pairwise(N_MODELS, pairs.tolist(), alpha=1e-6)
    nothing = np.full(N_MODELS, np.nan)
    return Fit(utility - utility.mean(), nothing, nothing, 0.0)


def fit_arena_rank(data: Arena, *, covariate: bool, penalty: float = 1.0) -> Fit:
    """Bradley-Terry by arena-rank, with its sandwich intervals."""
    import pandas as pd
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.models.contextual_bradley_terry import ContextualBradleyTerry
    from arena_rank.utils.data_utils import ContextualPairDataset, PairDataset

    n = data.won.size
    winner = np.where(data.won == 1, "model_a", "model_b")
    frame = pd.DataFrame({"model_a": data.left[:n], "model_b": data.right[:n], "winner": winner})
    if covariate:
        rows = ContextualPairDataset.from_pandas(frame.assign(length=data.length[:n]), ["length"], reweighted=False)
        model = ContextualBradleyTerry(N_MODELS, 1, scale=1.0, base=np.e, init_rating=0.0, reg=penalty)
    else:
        rows = PairDataset.from_pandas(frame)
        model = BradleyTerry(N_MODELS, scale=1.0, base=np.e, init_rating=0.0)
    result = model.compute_ratings_and_cis(rows, significance_level=0.1)
    utility, low, high = (np.asarray(result[name]) for name in ("ratings", "rating_lower", "rating_upper"))
    mean = utility.mean()
    effect = float(result["coeffs"][0]) / data.length[:n].std() if covariate else 0.0
    return Fit(utility - mean, low - mean, high - mean, effect)


MODELS: dict[str, Callable[[Arena], Fit]] = {
    "skpref, length": lambda data: ours(data, covariate=True),
    "statsmodels, length": lambda data: fit_statsmodels(data, covariate=True),
    "arena-rank, length": lambda data: fit_arena_rank(data, covariate=True),
    "  without penalty": lambda data: fit_arena_rank(data, covariate=True, penalty=0.0),
    "skpref": lambda data: ours(data, covariate=False),
    "statsmodels": lambda data: fit_statsmodels(data, covariate=False),
    "arena-rank": lambda data: fit_arena_rank(data, covariate=False),
    "evalica": fit_evalica,
    "choix": fit_choix,
}


def figures(model: Callable[[Arena], Fit], data: Arena) -> tuple[float, float, float, float]:
    """Return CPU seconds, excess log loss, Spearman's correlation and coverage."""
    start = time.process_time()
    fit = model(data)
    seconds = time.process_time() - start
    test = slice(data.won.size, None)
    z, p = data.z[test], expit(data.z[test])
    predicted = fit.utility[data.left[test]] - fit.utility[data.right[test]] + fit.effect * data.length[test]
    excess = np.mean(p * (log_expit(z) - log_expit(predicted)) + (1.0 - p) * (log_expit(-z) - log_expit(-predicted)))
    truth = data.truth - data.truth.mean()
    covered = np.nan if np.isnan(fit.low).any() else np.mean((fit.low <= truth) & (truth <= fit.high))
    return seconds, 1000.0 * float(excess), float(spearmanr(truth, fit.utility)[0]), float(covered)


def main() -> None:
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arenas", type=int, default=5)
    parser.add_argument("--battles", type=int, default=50_000)
    options = parser.parse_args()
    small = arena(1000, 99)
    arenas = [arena(options.battles, seed) for seed in range(options.arenas)]
    print(f"{'':20s} {'CPU s':>7s} {'excess':>7s} {'Spearman':>9s} {'covered':>8s}")
    for name, fit in MODELS.items():
        try:
            fit(small)  # imports and compiled code are loaded once
            rows = np.array([figures(fit, data) for data in arenas])
        except ImportError as error:
            print(f"{name:20s} skipped: {error}")
            continue
        seconds, excess, correlation, covered = rows.mean(axis=0)
        print(f"{name:20s} {seconds:7.2f} {excess:7.2f} {correlation:9.4f} {covered:8.1%}", flush=True)


if __name__ == "__main__":
    main()
