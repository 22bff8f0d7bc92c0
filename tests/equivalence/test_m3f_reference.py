"""`GibbsM3F`'s chain against posteriors that were computed without its augmentation (`$SKPREF_SHARED/reference/m3f`).

The small problem is put into one table of ratings many times over, with users and items of its own each time: as many
independent chains, so that standard errors are those of independent numbers. With some 100 correlated statistics, five
standard errors are a false alarm in about 1e-4 of runs. The long run is nightly (a million sweeps); a short one, at
every push, would notice a bias of a tenth of a standard deviation. Users and items are numbered in another order there:
what is theirs must go with them.
"""

import json

import numpy as np
import pytest

from skpref.data.ratings import Ratings
from skpref.factorization.max_margin.m3f_chain import MarginPrior, problem_of, start_state, step_of

COPIES, BURN_IN = 1000, 300


@pytest.fixture(scope="module", params=["unit", "paper_scale"])
def case(request, shared):
    return json.loads((shared / "reference/m3f/fixed_k.json").read_text("utf-8"))["cases"][request.param]


def copied(config, copies, users=slice(None), items=slice(None)):
    """The problem, many times over, users and items in the order wanted."""
    table = np.array([[0 if y is None else y for y in row] for row in config["ratings"]])[users][:, items]
    user, item = np.nonzero(table)
    level = table[user, item] - 1
    n_users, n_items = table.shape
    copy = np.arange(copies)[:, None]
    columns = (copy * n_users + user).ravel(), (copy * n_items + item).ravel(), np.tile(level, copies)
    ratings = Ratings(*columns, np.ones(columns[0].size), copies * n_users, copies * n_items, config["L"]).merged()
    prior = MarginPrior(config["sigma"], np.array(config["rho"]), config["varsigma"], own=True)
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


def means(problem, table, config, copies, burn_in, sweeps):
    """Means of all statistics and their standard errors."""
    state, step = start_state(problem, 5), step_of(problem)
    total = {}
    for sweep in range(1, burn_in + sweeps + 1):
        state, info = step(state, sweep)
        # What is averaged is the state: the mean of 1/lambda is infinite, and no sum of it is kept anywhere.
        assert set(info.estimate) == {"users", "items", "thresholds"}
        if sweep > burn_in:
            for name, value in statistics(state, table, config, copies).items():
                total[name] = total.get(name, 0.0) + value / sweeps
    return {name: (x.mean(axis=0), x.std(axis=0, ddof=1) / np.sqrt(copies)) for name, x in total.items()}


def require_near(ours, case, limit=5.0):
    """Within so many standard errors of the file's numbers."""
    for name, (mean, error) in ours.items():
        wanted, se = np.array(case["ess"][name]), np.array(case["ess_mcse"][name])
        assert np.max(np.abs(mean - wanted) / np.maximum(np.hypot(error, se), 1e-12)) < limit, name


@pytest.mark.statistical
def test_posterior(case):
    config = case["config"]
    problem, table = copied(config, COPIES)
    require_near(means(problem, table, config, COPIES, BURN_IN, 1000), case)


def test_posterior_whatever_the_order_of_users_and_items(case):
    config, users, items = case["config"], np.array([2, 0, 3, 1]), np.array([1, 2, 0])
    problem, table = copied(config, 300, users, items)
    ours = means(problem, table, config, 300, 100, 60)
    for name, value in ours.items():
        if value[0].ndim:
            of_items = value[0].ndim > 1 and "theta" not in name
            back = np.ix_(np.argsort(users), np.argsort(items)) if of_items else np.argsort(users)
            ours[name] = value[0][back], value[1][back]
    require_near(ours, case)
    # The test has power: the other order is refuted.
    with pytest.raises(AssertionError):
        require_near({"X_mean": tuple(part[users] for part in ours["X_mean"])}, case)
