"""`GibbsM3F`'s chain against posteriors that were computed without its augmentation (`shared/reference/m3f`).

The small problem is put into one table of ratings many times over, with users and items of its own each time: as many
independent chains, so that standard errors are those of independent numbers. With some 100 correlated statistics, five
standard errors are a false alarm in about 1e-4 of runs.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from skpref.data.ratings import Ratings
from skpref.factorization._m3f_fit import Prior, problem_of, start_state, step_of

COPIES, BURN_IN, SWEEPS = 1000, 300, 300


@pytest.fixture(scope="module", params=["unit", "paper_scale"])
def case(request, shared):
    return json.loads((shared / "reference/m3f/fixed_k.json").read_text("utf-8"))["cases"][request.param]


def copied(config, copies):
    """The problem, many times over."""
    table = np.array([[0 if y is None else y for y in row] for row in config["ratings"]])
    user, item = np.nonzero(table)
    level = table[user, item] - 1
    n_users, n_items = table.shape
    copy = np.arange(copies)[:, None]
    columns = (copy * n_users + user).ravel(), (copy * n_items + item).ravel(), np.tile(level, copies)
    ratings = Ratings(*columns, np.ones(columns[0].size), copies * n_users, copies * n_items, config["L"]).merged()
    prior = Prior(config["sigma"], np.array(config["rho"]), config["varsigma"], own=True)
    return problem_of(ratings, config["C"], prior, config["K"], config["ell"], np.float64), table


def statistics(state, table, config, copies):
    """All that the file lists, of every copy."""
    n_users, n_items = table.shape
    X = state["users"].reshape(copies, n_users, -1) @ state["items"].reshape(copies, n_items, -1).transpose(0, 2, 1)
    theta = state["thresholds"].reshape(copies, n_users, -1)
    r = np.arange(1, config["L"])
    T = np.where(r >= table[..., None], 1.0, -1.0)
    loss = np.maximum(0.0, config["ell"] - T * (theta[:, :, None] - X[..., None])) * (table > 0)[..., None]
    risk = loss.sum(axis=(1, 2, 3))
    level = (X[..., None] >= theta[:, :, None]).sum(axis=-1)
    highest = np.where(X[..., None] >= theta[:, :, None], r, 0).max(axis=-1)
    delta = config["C"] / 2 * (config["ell"] - T * (theta[:, :, None] - X[..., None]))
    return {
        "X_mean": X,
        "X_second": X**2,
        "theta_mean": theta,
        "theta_second": theta**2,
        "rating_probabilities_count_rule": (level[..., None] == np.arange(config["L"])).astype(float),
        "expected_rating_max_rule": 1.0 + highest,
        "risk_mean": risk,
        "risk_second": risk**2,
        "sum_of_E_lambda": ((np.abs(delta) + 1.0) * (table > 0)[..., None]).sum(axis=(1, 2, 3)),
    }


@pytest.mark.slow
def test_posterior(case):
    config = case["config"]
    problem, table = copied(config, COPIES)
    state, step = start_state(problem, 5), step_of(problem)
    total = {}
    for sweep in range(1, BURN_IN + SWEEPS + 1):
        state, info = step(state, sweep)
        if sweep > BURN_IN:
            for name, value in statistics(state, table, config, COPIES).items():
                total[name] = total.get(name, 0.0) + value / SWEEPS
    worst = 0.0
    for name, value in total.items():
        wanted, se = np.array(case["ess"][name]), np.array(case["ess_mcse"][name])
        ours = value.mean(axis=0), value.std(axis=0, ddof=1) / np.sqrt(COPIES)
        worst = max(worst, float(np.max(np.abs(ours[0] - wanted) / np.maximum(np.hypot(ours[1], se), 1e-12))))
        assert worst < 5.0, name
    assert info.trace["risk"] > 0.0
