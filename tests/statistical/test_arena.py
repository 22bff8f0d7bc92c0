"""Arenas whose judges like long answers: what covariates give, on simulated battles."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from skpref import GPPLClassifier

pytestmark = pytest.mark.statistical
N_ARENAS, N_MODELS, N_BATTLES, EFFECT = 10, 40, 50_000, 0.002


def arena(seed):
    """Battles (left, right, length of either answer), who won, and what the models are worth."""
    rng = np.random.default_rng(seed)
    truth, verbosity = rng.normal(0.0, 0.8, N_MODELS), 0.4 * rng.normal(size=N_MODELS)
    a = rng.integers(N_MODELS, size=N_BATTLES)
    b = (a + rng.integers(1, N_MODELS, size=N_BATTLES)) % N_MODELS
    length = np.exp(5.5 + verbosity[[a, b]] + 0.5 * rng.normal(size=(2, N_BATTLES)))
    z = truth[a] - truth[b] + EFFECT * (length[0] - length[1])
    return np.column_stack([a, b, *length]), rng.random(N_BATTLES) < 1.0 / (1.0 + np.exp(-z)), truth - truth.mean()


def figures(covariates):
    """Rank correlations, coverages of utilities and of ranks, and standardised errors of the effects."""
    rows = []
    for seed in range(N_ARENAS):
        X, y, truth = arena(seed)
        model = GPPLClassifier(covariates=covariates, left=0, right=1, likelihood="logit").fit(X, y)
        ranking = model.rank()
        ids = ranking.id.astype(int)
        place = (1 + np.argsort(np.argsort(-truth)))[ids]
        covered = (truth[ids] >= ranking.utility_low) & (truth[ids] <= ranking.utility_high)
        in_ranks = (place >= ranking.rank_low) & (place <= ranking.rank_high)
        error = (model.coef_[0] - EFFECT) / model.coef_std_[0] if covariates else np.nan
        rows.append((spearmanr(truth[ids], ranking.utility)[0], covered.mean(), in_ranks.mean(), error))
    return np.transpose(rows)


def test_style_control_makes_intervals_honest():
    correlation, covered, in_ranks, error = figures([(2, 3)])
    assert correlation.mean() > 0.994
    assert abs(covered.mean() - 0.9) < 0.04  # two standard errors: models of an arena share its errors
    assert in_ranks.mean() > 0.9  # intervals of whole numbers hold more
    assert (np.abs(error) < 3.5).all()
    assert np.sqrt(np.mean(error**2)) < 1.8


def test_without_covariates_intervals_are_too_narrow():
    correlation, covered, in_ranks, _ = figures(None)
    assert correlation.mean() < 0.98
    assert covered.mean() < 0.6
    assert in_ranks.mean() < 0.75
