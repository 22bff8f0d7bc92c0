"""`GibbsIPM3F`'s chain against posteriors by importance sampling from the exact prior (`$SKPREF_SHARED/reference/m3f`).

Standard errors are those of means of 50 batches of one chain. Of some 60 correlated statistics, six of them (Student's
t, 49 degrees of freedom) are a false alarm in about 1e-5 of runs. The long run is nightly.
"""

import json

import numpy as np
import pytest

from skpref.data.ratings import Ratings
from skpref.factorization.max_margin.ipm3f_chain import problem_of, start_state, step_of
from skpref.factorization.max_margin.m3f_chain import MarginPrior

BURN_IN = 300


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


def problem_and_table(config, max_new=10):
    """The problem of the file."""
    table = np.array([[0 if y is None else y for y in row] for row in config["ratings"]])
    user, item = np.nonzero(table)
    ratings = Ratings(user, item, table[user, item] - 1, np.ones(user.size), *table.shape, config["L"]).merged()
    prior = MarginPrior(config["sigma"], np.array(config["rho"]), config["varsigma"], own=True)
    return problem_of(ratings, config["C"], prior, config["ell"], config["alpha"], max_new), table


@pytest.fixture(scope="module", params=["prior_C0", "C05"])
def case(request, shared):
    return json.loads((shared / "reference/m3f/ibp.json").read_text("utf-8"))["cases"][request.param]


@pytest.mark.parametrize("n_sweeps", [3000, pytest.param(20_000, marks=pytest.mark.statistical)])
def test_posterior(case, n_sweeps):
    config = case["config"]
    problem, table = problem_and_table(config)
    state, step, batches = start_state(problem, 5), step_of(problem), {}
    for sweep in range(BURN_IN + n_sweeps):
        state, _ = step(state, sweep + 1)
        if sweep >= BURN_IN:
            batch = (sweep - BURN_IN) * 50 // n_sweeps
            for key, value in statistics(state, table, config).items():
                batches.setdefault(key, np.zeros((50, *np.shape(value))))[batch] += np.asarray(value) * 50 / n_sweeps
    for key, means in batches.items():
        file, errors = (case, case) if key in case else (case["estimates"], case["standard_errors"])
        wanted = np.array(file[key][:7] if key == "P_K_plus" else file[key])
        se = errors.get(f"{key}_se", errors.get(key.replace("P_K_plus", "P_K_plus_se"), 0.0))
        se = np.array(se[:7] if key == "P_K_plus" else se)
        error = np.hypot(means.std(axis=0, ddof=1) / np.sqrt(50), se)
        z = np.abs(means.mean(axis=0) - wanted) / np.maximum(error, 1e-9)
        assert z.max() < 6.0, key


def test_the_limit_of_new_features_changes_nothing(case):
    """A user of these has more than five features to itself once in a million draws: the chains are the same."""

    def chain(max_new):
        problem, _ = problem_and_table(case["config"], max_new)
        state, step, risks = start_state(problem, 3), step_of(problem), []
        for sweep in range(1, 151):
            state, info = step(state, sweep)
            risks.append(info.trace["risk"])
        return state["users"], state["items"], np.array(risks)

    wanted = chain(10)
    for max_new in (5, 20):
        for a, b in zip(chain(max_new), wanted, strict=True):
            np.testing.assert_array_equal(a, b)
    assert (chain(1)[2] != wanted[2]).any()
