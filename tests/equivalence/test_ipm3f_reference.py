"""`GibbsIPM3F`'s chain against posteriors by importance sampling from the exact prior (`shared/reference/m3f`).

Standard errors are those of means of 50 batches of one chain. Of some 60 correlated statistics, six of them (Student's
t, 49 degrees of freedom) are a false alarm in about 1e-5 of runs.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from skpref.data.ratings import Ratings
from skpref.factorization._ipm3f_fit import problem_of, start_state, step_of
from skpref.factorization._m3f_fit import Prior

BURN_IN, SWEEPS = 300, 20_000


def statistics(state, table, config):
    """All that the file lists."""
    Z, theta = state["users"].astype(float), state["thresholds"]
    X, r = Z @ state["items"].T, np.arange(1, config["L"])
    T = np.where(r >= table[..., None], 1.0, -1.0)
    apart = config["ell"] - T * (theta[:, None] - X[..., None])
    known = (table > 0)[..., None]
    risk = (np.maximum(0.0, apart) * known).sum()
    level = (X[..., None] >= theta[:, None]).sum(axis=-1)
    return {
        "X_mean": X,
        "X_second": X**2,
        "theta_mean": theta,
        "theta_second": theta**2,
        "expected_rating_max_rule": 1.0 + np.where(X[..., None] >= theta[:, None], r, 0).max(axis=-1),
        "rating_probabilities_count_rule": (level[..., None] == np.arange(config["L"])).astype(float),
        "risk_mean": risk,
        "risk_second": risk**2,
        "sum_of_E_lambda": ((np.abs(config["C"] / 2 * apart) + 1.0) * known).sum(),
        "K_plus_mean": Z.shape[1],
        "nnz_Z_mean": Z.sum(),
        "P_K_plus": (Z.shape[1] == np.arange(7)).astype(float),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prior_C0", "C05"])
def test_posterior(shared, name):
    case = json.loads((shared / "reference/m3f/ibp.json").read_text("utf-8"))["cases"][name]
    config = case["config"]
    table = np.array([[0 if y is None else y for y in row] for row in config["ratings"]])
    user, item = np.nonzero(table)
    ratings = Ratings(user, item, table[user, item] - 1, np.ones(user.size), *table.shape, config["L"]).merged()
    prior = Prior(config["sigma"], np.array(config["rho"]), config["varsigma"], own=True)
    problem = problem_of(ratings, config["C"], prior, config["ell"], config["alpha"], 10)
    state, step, batches = start_state(problem, 5), step_of(problem), {}
    for sweep in range(BURN_IN + SWEEPS):
        state, _ = step(state, sweep + 1)
        if sweep >= BURN_IN:
            batch = (sweep - BURN_IN) * 50 // SWEEPS
            for key, value in statistics(state, table, config).items():
                batches.setdefault(key, np.zeros((50, *np.shape(value))))[batch] += np.asarray(value) * 50 / SWEEPS
    for key, means in batches.items():
        file, errors = (case, case) if key in case else (case["estimates"], case["standard_errors"])
        wanted = np.array(file[key][:7] if key == "P_K_plus" else file[key])
        se = errors.get(f"{key}_se", errors.get(key.replace("P_K_plus", "P_K_plus_se"), 0.0))
        se = np.array(se[:7] if key == "P_K_plus" else se)
        error = np.hypot(means.std(axis=0, ddof=1) / np.sqrt(50), se)
        z = np.abs(means.mean(axis=0) - wanted) / np.maximum(error, 1e-9)
        assert z.max() < 6.0, key
