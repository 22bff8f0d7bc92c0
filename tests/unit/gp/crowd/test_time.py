"""A crowd whose consensus moves in time."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref import CrowdGPPL
from skpref.exceptions import DataError, DataWarning
from skpref.gp.crowd.blocks import UserBlocks, integrate_out, marginals
from skpref.gp.crowd.timeline import Timeline
from skpref.gp.crowd.users import UserRows
from skpref.plots import SkillCurvesDisplay
from tests.policies import set_policy

pd = pytest.importorskip("pandas")
ITEMS = [f"m{k}" for k in range(6)]
COLUMNS = {"user": "user", "left": "left", "right": "right"}


def answers(n=1500, *, fall=2.0, seed=0, n_users=15):
    """Return answers of a year, in the middle of which item m0 becomes worse, their labels and the utilities."""
    rng = np.random.default_rng(seed)
    utility, taste = rng.normal(size=6), 0.4 * rng.normal(size=(n_users, 6))
    day, user, a = np.sort(rng.integers(0, 365, n)), rng.integers(0, n_users, n), rng.integers(0, 6, n)
    b = (a + 1 + rng.integers(0, 5, n)) % 6
    fallen = np.where(day > 180, fall, 0.0)
    z = utility[a] - utility[b] + taste[user, a] - taste[user, b] - fallen * (a == 0) + fallen * (b == 0)
    columns = {
        "user": [f"u{k}" for k in user],
        "left": [f"m{k}" for k in a],
        "right": [f"m{k}" for k in b],
        "day": day.astype(float),
        "date": pd.Timestamp("2025-01-01") + pd.to_timedelta(day, unit="D"),
        "kind": np.where(day % 2, "odd", "even"),
    }
    return pd.DataFrame(columns), (z + rng.normal(size=n) > 0.0).astype(int), utility + taste.mean(axis=0)


def fitted(X, y, **parameters):
    """Return a crowd that was fitted to answers."""
    return CrowdGPPL(**{**COLUMNS, "time": "date", "random_state": 0, **parameters}).fit(X, y)


@pytest.fixture(scope="module", autouse=True)
def _few_steps():
    """Cut times into few steps, which is faster."""
    with pytest.MonkeyPatch.context() as patch:
        set_policy(patch, "gp.crowd", most_steps=14, few_steps=6)
        yield


@pytest.fixture(scope="module")
def data():
    """Return answers about items of which one becomes worse."""
    return answers()


@pytest.fixture(scope="module")
def model(data):
    """Return a crowd over time."""
    return fitted(*data[:2])


def test_an_item_that_becomes_worse_is_found(data, model):
    X, y, truth = data
    before, after = (model.utility(["m0"], at=at, return_std=True) for at in ("2025-03-01", "2025-11-01"))
    fall, deviation = (before[0] - after[0])[0], np.hypot(before[1], after[1])[0]
    # The average of six items is 0 at each time.
    assert abs(fall - 2.0 * 5.0 / 6.0) < 3.0 * deviation < 1.5
    others = model.utility(ITEMS[1:], at="2025-03-01") - model.utility(ITEMS[1:], at="2025-11-01")
    assert np.abs(others - others.mean()).max() < 0.5 * fall
    last = truth - 2.0 * (np.arange(6) == 0)
    assert_allclose(model.utility(ITEMS), last - last.mean(), atol=0.5)
    static = fitted(X, y, time=None)
    late = X["day"] > 300
    assert model.score(X[late], y[late]) > static.score(X[late], y[late])
    own = model.utility(ITEMS, users=["u0"], at="2025-03-01") - model.utility(ITEMS, users=["u0"], at="2025-11-01")
    both = model.utility(ITEMS, at="2025-03-01") - model.utility(ITEMS, at="2025-11-01")
    assert_allclose(own[0], both, atol=1e-9)  # tastes stay


def test_uncertainty_grows_after_the_last_comparison(model):
    deviations = [
        model.utility(["m0"], at=at, return_std=True)[1][0] for at in ("2025-12-31", "2026-06-01", "2028-01-01")
    ]
    assert deviations[0] < 0.8 * deviations[1] < 0.8 * deviations[2]
    curves = model.curves(["m1", "m0"], times=["2025-03-01", "2026-06-01"])
    assert curves["id"].tolist() == ["m1", "m1", "m0", "m0"]
    assert_allclose(curves["std"][3], deviations[1])
    assert_allclose(
        model.curves(["m0"], user="u1", times=["2025-03-01"])["utility"],
        model.utility(["m0"], ["u1"], at="2025-03-01")[0],
    )
    assert model.rank(at="2025-11-01").id.tolist() != model.rank(at="2025-02-01").id.tolist()
    shown = SkillCurvesDisplay.from_estimator(model, items=["m0", "m1"])
    assert shown.utility.shape[0] == 2


def test_where_nothing_moves_it_is_the_model_without_time():
    X, y, _ = answers(fall=0.0, seed=1)
    model, static = fitted(X[:1200], y[:1200]), fitted(X[:1200], y[:1200], time=None)
    assert np.abs(model.predict_proba(X[1200:]) - static.predict_proba(X[1200:])).mean() < 0.03


@pytest.mark.parametrize("column", ["day", "hour"])
def test_unit_of_time_and_order_of_rows_do_not_matter(column, data, model):
    X, y, _ = data
    rows = np.random.default_rng(0).permutation(len(X))
    other = fitted(X.assign(hour=24.0 * X["day"]).iloc[rows], y[rows], time=column)
    assert_allclose(other.predict_proba(X.assign(hour=24.0 * X["day"])), model.predict_proba(X), atol=1e-6)


def test_files_are_the_same_fit(data, model, tmp_path):
    X, y, _ = data
    X.assign(y=y).to_parquet(tmp_path / "answers.parquet")
    assert_allclose(fitted(tmp_path / "answers.parquet", "y").predict_proba(X), model.predict_proba(X), atol=1e-10)


def test_many_answers_in_a_file_are_those_in_memory(tmp_path, monkeypatch):
    set_policy(monkeypatch, "gp.crowd", most_choice=1000)
    X, y, _ = answers(1100, n_users=60)
    X.assign(y=y).to_parquet(tmp_path / "answers.parquet", row_group_size=300)
    of_file = fitted(tmp_path / "answers.parquet", "y", tol=1e-2)
    assert_allclose(of_file.predict_proba(X[:200]), fitted(X, y, tol=1e-2).predict_proba(X[:200]), atol=1e-10)


def test_more_answers_continue_the_steps(data, model):
    X, y, _ = data
    early = X["day"] < 250
    grown = fitted(X[early], y[early]).partial_fit(X[~early], y[~early])
    assert_allclose(grown.predict_proba(X), model.predict_proba(X), atol=0.15)
    assert grown.utility(["m0"], at="2025-12-01") < grown.utility(["m0"], at="2025-03-01")
    with pytest.raises(DataError, match="before those of fit"):
        fitted(X[~early], y[~early]).partial_fit(X[early], y[early])
    with pytest.raises(DataError, match="Call fit with all comparisons"):
        fitted(X[early], y[early]).partial_fit(X[:5].assign(date=pd.Timestamp("3000-01-01")), y[:5])


def test_groups_covariates_and_order_go_with_time(data):
    X, y, _ = data
    X = X.assign(length=np.random.default_rng(0).normal(size=len(X)))
    model = fitted(X, y, groups=["kind"], covariates=["length"], order_effect=True, likelihood="logit-ties")
    in_group = model.utility(ITEMS, groups={"kind": "odd"}, at="2025-11-01")
    assert_allclose(in_group, model.utility(ITEMS, at="2025-11-01"), atol=0.4)
    assert len(model.group_scales_) == len(model.group_ids_) == 1
    assert len(model.annotators()) == 15
    proba = model.predict_proba(X[:5])
    assert_allclose(proba.sum(axis=1), 1.0)


def test_choices_move_in_time():
    rng = np.random.default_rng(0)
    n, utility = 600, np.array([1.5, 0.0, 0.0, -0.5])
    day = rng.integers(0, 100, n)
    z = utility - 3.0 * (day > 50)[:, None] * (np.arange(4) == 0) + rng.gumbel(size=(n, 4))
    X = pd.DataFrame({"user": rng.integers(0, 20, n), **dict.fromkeys("abcd", 0)}).astype(dict.fromkeys("abcd", object))
    for k, name in enumerate("abcd"):
        X[name] = f"m{k}"
    X["day"] = day
    model = CrowdGPPL(user="user", time="day", likelihood="luce", random_state=0).fit(X, z.argmax(axis=1))
    early, late = (model.utility(["m0"], at=at)[0] for at in (10, 90))
    assert early - late > 1.2
    shares = [model.shares(["m0", "m1"], at=at)["share"][0] for at in (10, 90)]
    assert shares[0] > 0.6
    assert shares[1] < 0.4


@pytest.mark.parametrize("walk", [1.0, 0.3, 0.0])
def test_times_after_and_between_steps_are_those_of_the_gaussian_process(walk):
    timeline = replace(Timeline.cut(np.array([0.0, 10.0]), 100, 1, is_dated=False), walk=walk, length=3.0)
    steps = np.arange(timeline.n_steps)
    assert_allclose(timeline.root @ timeline.root.T, timeline._covariance(steps, steps), atol=1e-9)
    fine = np.linspace(0.0, timeline.span, 2001)
    assert_allclose(np.diag(timeline._covariance(fine, fine)).mean(), 1.0, atol=1e-3)
    for level in (2.5, timeline.n_steps + 3.0):
        weights, rest, variance = timeline.reach(level)
        cross = timeline._covariance(np.array([level]), steps)[0]
        assert_allclose(weights @ timeline.root.T, cross, atol=1e-9)
        assert_allclose(weights @ weights + rest, variance, rtol=1e-9)
        assert rest > 0.0
    assert timeline.reach(3.0).rest == 0.0


def test_places_of_an_item_share_the_users_own_part():
    # Six places of three items: what is common differs by place, what is the user's own by item.
    rng, item = np.random.default_rng(0), np.array([0, 1, 2, 0, 1, 2])
    user = np.repeat([0, 1, 2], [10, 3, 1])
    left = np.array([0, 0, 1, 3, 3, 4, 0, 3, 0, 1, 0, 4, 5, 2])
    right = np.array([1, 2, 2, 4, 5, 5, 4, 1, 5, 5, 2, 3, 3, 0])
    of_place, of_item = (
        root @ root.T + np.eye(len(root)) for root in (rng.normal(size=(6, 6)), rng.normal(size=(3, 3)))
    )
    tau, nu = rng.uniform(0.5, 2.0, user.size), rng.normal(size=user.size)
    contrasts = np.eye(6)[left] - np.eye(6)[right]
    rows = np.zeros((user.size, 6 + 9))
    rows[:, :6] = contrasts
    for p, u in enumerate(user):
        rows[p, 6 + 3 * u : 9 + 3 * u] = contrasts[p] @ np.eye(3)[item]
    prior = np.zeros((15, 15))
    prior[:6, :6] = of_place
    for u in range(3):
        prior[6 + 3 * u : 9 + 3 * u, 6 + 3 * u : 9 + 3 * u] = of_item
    covariance = np.linalg.inv(np.linalg.inv(prior) + rows.T @ (tau[:, None] * rows))
    mean = covariance @ rows.T @ nu

    users = UserRows.from_comparisons(user, left, right, np.ones((user.size, 0)), (3, 6), item)
    assert not users.by_pairs[0]
    assert users.by_pairs[2]
    assert users.part[: users.starts[1]].max() == 2
    blocks = UserBlocks(users, of_item[np.ix_(item, item)], tau, nu)
    shift = np.zeros(users.first.size)
    information, linear, log_det, _ = integrate_out(blocks, shift)
    V = np.linalg.inv(np.linalg.inv(of_place) + information)
    assert_allclose(V, covariance[:6, :6], rtol=1e-9)
    assert_allclose(V @ linear, mean[:6], rtol=1e-9)
    alone = [
        np.linalg.slogdet(np.eye(3) + of_item @ own.T @ (tau[user == u][:, None] * own))[1]
        for u, own in ((u, rows[user == u][:, 6 + 3 * u : 9 + 3 * u]) for u in range(3))
    ]
    assert_allclose(log_det, sum(alone), rtol=1e-9)
    got = marginals(blocks, mean[:6], V, shift)
    assert_allclose(got[0], rows @ mean, rtol=1e-9)
    assert_allclose(got[1], np.diag(rows @ covariance @ rows.T), rtol=1e-9)
    # E[alpha alpha^T - W] by item: (E[b b^T] - S summed over users, in the coordinates of S^-1.
    second = sum(covariance[s, s] + np.outer(mean[s], mean[s]) for s in (slice(6 + 3 * u, 9 + 3 * u) for u in range(3)))
    expected = np.linalg.inv(of_item) @ (second - 3.0 * of_item) @ np.linalg.inv(of_item)
    to_items = np.eye(3)[item]
    assert_allclose(to_items.T @ got[2] @ to_items, expected, atol=1e-9)


def test_what_cannot_be_is_refused(data, model):
    X, y, _ = data
    small = X[:100], y[:100]
    for faulty, message in (
        (lambda: model.utility(at=3), "must be dates"),
        (lambda: model.utility(at=["2025-03-01"] * 2), "one time"),
        (lambda: model.predict_proba(X.drop(columns="date")), "no column 'date'"),
        (lambda: fitted(*small, time=None).utility(at="2025-03-01"), "fit with time="),
        (lambda: fitted(*small, time=None).curves(), "fit with time="),
        (lambda: fitted(*small, inference="vb"), "inference='vb'"),
        (lambda: fitted(*small, warm_start=True), "warm_start=True"),
        (lambda: model.predict_proba(X.assign(date=X["day"])), "are numbers"),
        (lambda: model.curves(times=[["2025-03-01"]]), "one list"),
    ):
        with pytest.raises(DataError, match=message):
            faulty()
    with pytest.warns(DataWarning, match="same time"):
        of_one_time = fitted(X[:100].assign(date=X["date"].iloc[0]), y[:100])
    with pytest.raises(DataError, match="fit with time="):
        of_one_time.utility(at="2025-03-01")
    of_one_time.partial_fit(X[100:400], y[100:400])
    assert of_one_time.dynamics_.name in {"drift", "form"}
