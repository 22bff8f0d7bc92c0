"""`CrowdGPPL` and `GPPLClassifier` on tasks: choices, best-worst, rankings, and scikit-learn's tools."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

from skpref import CrowdGPPL, GPPLClassifier, load, save
from skpref.data import Table
from skpref.datasets import make_choices
from skpref.exceptions import DataError, DataWarning, UnknownIdError
from skpref.likelihoods import Luce
from skpref.search import default_space
from tests.policies import set_policy

DATA = make_choices(n_users=12, n_tasks=6, none=True, random_state=0)
K = DATA.X.shape[1] - 1


@pytest.fixture(scope="module")
def model():
    return CrowdGPPL(DATA.table, random_state=0).fit(DATA.X, DATA.y)


def items_only(n=8, n_users=20, n_tasks=6, k=4, seed=0):
    """Return tasks, choices by ids, and the utilities of each user."""
    rng = np.random.default_rng(seed)
    utility = rng.standard_normal(n) + 0.7 * rng.standard_normal((n_users, n))
    shown = np.array([rng.permutation(n)[:k] for _ in range(n_users * n_tasks)])
    user = np.repeat(np.arange(n_users), n_tasks)
    z = utility[user[:, None], shown] + rng.gumbel(size=shown.shape)
    names = np.char.add("i", shown.astype(str)).astype(object)
    X = np.column_stack([np.char.add("u", user.astype(str)).astype(object), names])
    return X, names[np.arange(user.size), z.argmax(axis=1)], z


def test_choices_are_learnt_and_predicted(model):
    P = model.predict_proba(DATA.X)
    assert (P.shape, model.likelihood_, model.converged_) == ((72, K), Luce(), True)
    assert_allclose(P.sum(axis=1), 1.0)
    assert_array_equal(model.classes_, np.arange(K))
    assert_array_equal(model.predict(DATA.X), DATA.X[np.arange(72), 1 + P.argmax(axis=1)])
    assert model.score(DATA.X, DATA.y) == pytest.approx(np.mean(model.predict(DATA.X) == DATA.y))
    chance = np.log(K)
    assert -np.log(P[DATA.X[:, 1:] == DATA.y[:, None]]).mean() < chance - 0.2


def test_positions_and_ids_are_the_same_answers(model):
    place = np.argmax(DATA.X[:, 1:] == DATA.y[:, None], axis=1)
    other = CrowdGPPL(DATA.table, random_state=0).fit(DATA.X, place)
    assert_array_equal(other.predict_proba(DATA.X), model.predict_proba(DATA.X))
    assert_array_equal(other.predict(DATA.X), other.predict_proba(DATA.X).argmax(axis=1))


def test_the_order_of_alternatives_and_of_tasks_changes_nothing():
    X, y, _ = items_only()
    first = CrowdGPPL(random_state=0).fit(X, y)
    rng = np.random.default_rng(1)
    columns = np.array([np.concatenate([[0], 1 + rng.permutation(X.shape[1] - 1)]) for _ in X])
    rows = rng.permutation(len(X))
    second = CrowdGPPL(random_state=0).fit(np.take_along_axis(X, columns, axis=1)[rows], y[rows])
    moved = second.predict_proba(np.take_along_axis(X, columns, axis=1))
    assert_allclose(moved, np.take_along_axis(first.predict_proba(X), columns[:, 1:] - 1, axis=1), atol=1e-4)


def test_fewer_items_at_prediction_and_unknown_ones():
    X, y, _ = items_only()
    fitted = CrowdGPPL(random_state=0).fit(X, y)
    rows = [
        ["u0", "i0", "i1", None],
        ["u0", "i1", None, "i0"],
        ["new", "i0", "i1", "unknown"],
        ["u0", "i2", None, None],
    ]
    P = fitted.predict_proba(rows)
    assert_allclose(P.sum(axis=1), 1.0)
    assert_allclose(P[0, :2], P[1, [2, 0]], atol=1e-9)
    assert_array_equal(P[3], [1.0, 0.0, 0.0])
    of_pair = fitted.win_matrix(["i0", "i1"], "u0").predicted[0, 1]
    assert P[0, 0] == pytest.approx(of_pair, abs=1e-6)
    with pytest.raises(DataError, match="5 items in a task"):
        fitted.predict_proba([["u0", "i0", "i1", "i2", "i3", "i4"]])


def test_one_utility_for_all_is_near_the_exact_posterior_of_few_choices():
    rng = np.random.default_rng(0)
    X, y = np.array([list("abcd"), list("abdc"), list("bcda")]), np.array(["a", "a", "c"])
    model = GPPLClassifier(scale_prior=None).fit(X, y)
    s = model.scale_.mean
    u = rng.standard_normal((400_000, 4)) / np.sqrt(s)
    places = np.array([["abcd".index(i) for i in row] for row in X])
    log_p = sum(
        u[:, "abcd".index(c)] - np.logaddexp.reduce(u[:, row], axis=1) for row, c in zip(places, y, strict=True)
    )
    w = np.exp(log_p - log_p.max())
    exact = w @ (u - u.mean(axis=1, keepdims=True)) / w.sum()
    spread = np.sqrt(w @ (u - u.mean(axis=1, keepdims=True) - exact) ** 2 / w.sum())
    mean, std = model.utility(list("abcd"), return_std=True)
    assert_allclose(mean, exact, atol=0.03)
    assert_allclose(std, spread, rtol=0.06)
    assert np.diff(model.lower_bounds_).min() > -1e-8


def test_two_items_shown_are_a_comparison():
    X, y, _ = items_only(k=2)
    won = (X[:, 1] == y).astype(int)
    of_pairs = GPPLClassifier(likelihood="logit", tol=1e-10, max_iter=500).fit(X[:, 1:], won)
    of_tasks = GPPLClassifier(likelihood="luce", tol=1e-10, max_iter=500).fit(X[:, 1:], y)
    assert_allclose(of_tasks.utility(), of_pairs.utility(), atol=1e-6)
    assert of_tasks.lower_bound_ == pytest.approx(of_pairs.lower_bound_, abs=1e-6)
    assert_allclose(of_tasks.predict_proba(X[:, 1:])[:, 0], of_pairs.predict_proba(X[:, 1:])[:, 1], atol=1e-6)
    crowd = CrowdGPPL(random_state=0).fit(X, y)  # ids of items are no sides
    assert (crowd.likelihood_, crowd.predict(X[:3]).dtype.kind) == (Luce(), "U")


def test_rankings_say_more_than_their_first_places():
    X, _, z = items_only(k=5, n_tasks=3)
    ranks = 1.0 + np.argsort(np.argsort(-z, axis=1), axis=1)
    whole = CrowdGPPL(random_state=0).fit(X, ranks)
    top = CrowdGPPL(random_state=0).fit(X, np.where(ranks == 1.0, 1.0, np.nan))
    best = CrowdGPPL(random_state=0).fit(X, np.argmin(ranks, axis=1))
    assert_array_equal(top.predict_proba(X), best.predict_proba(X))
    std = [fitted.utility(return_std=True)[1].mean() for fitted in (whole, best)]
    assert std[0] < 0.8 * std[1]
    assert whole.score(X, ranks) == whole.score(X, np.argmin(ranks, axis=1))


def test_best_and_worst():
    X, _, z = items_only(k=5)
    both = np.column_stack([z.argmax(axis=1), z.argmin(axis=1)])
    names = np.take_along_axis(X[:, 1:], both, axis=1)
    fits = [CrowdGPPL(random_state=0).fit(X, y) for y in (both, names)]
    assert_array_equal(fits[0].predict_proba(X), fits[1].predict_proba(X))
    one = CrowdGPPL(random_state=0).fit(X, both[:, 0])
    assert fits[0].utility(return_std=True)[1].mean() < one.utility(return_std=True)[1].mean()
    scores = fits[0].scores()
    assert scores["score"].sum() == pytest.approx(100.0)
    assert scores["item"].tolist() == fits[0].rank().id.tolist() or scores["score"].is_monotonic_decreasing


def test_a_weight_of_two_is_the_same_answer_twice():
    X, y, _ = items_only(n_users=6)
    weighted = GPPLClassifier(tol=1e-9).fit(X[:, 1:], y, sample_weight=np.full(len(y), 2.0))
    twice = GPPLClassifier(tol=1e-9).fit(np.vstack([X, X])[:, 1:], np.concatenate([y, y]))
    assert_allclose(weighted.utility(), twice.utility(), atol=1e-5)
    assert weighted.rank().n_comparisons.sum() == 2 * 2 * (X.shape[1] - 2) * len(X)


def test_later_tasks(model):
    X, y, _ = items_only()
    whole = CrowdGPPL(random_state=0).fit(X, y)
    parts = CrowdGPPL(random_state=0).fit(X[:80], y[:80]).partial_fit(X[80:], y[80:])
    assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=0.05)
    pooled = GPPLClassifier().fit(X[:80, 1:], y[:80]).partial_fit(X[80:, 1:], y[80:])
    assert_allclose(pooled.utility(), GPPLClassifier().fit(X[:, 1:], y).utility(pooled.item_ids_), atol=0.01)


def test_later_tasks_of_products_with_attributes(model):
    first = CrowdGPPL(DATA.table, random_state=0).fit(DATA.X[:48], DATA.y[:48])
    more = first.partial_fit(DATA.X[48:], DATA.y[48:])
    assert_allclose(more.predict_proba(DATA.X), model.predict_proba(DATA.X), atol=0.02)


def test_a_warm_start_from_other_answers_is_a_cold_one():
    rows = [[u, a, b] for u in range(4) for a, b in ("pq", "qr", "pr")]
    table = Table(np.eye(3)[:, :2], ids=list("pqr"))
    warm = CrowdGPPL(table, warm_start=True, random_state=0).fit(rows, np.arange(12) % 2).fit(rows, list("pqr") * 4)
    cold = CrowdGPPL(table, random_state=0).fit(rows, list("pqr") * 4)
    assert_array_equal(warm.predict_proba(rows), cold.predict_proba(rows))


def test_weights_as_large_as_counts_of_buyers():
    data = make_choices(n_users=25, n_tasks=6, none=True, random_state=0)
    heavy = CrowdGPPL(data.table, item_effects=False, random_state=0).fit(data.X, data.y, np.full(150, 500.0))
    assert heavy.converged_
    P = heavy.predict_proba(data.X)
    # As likely as under maximum likelihood of each person alone.
    assert np.log(P[data.X[:, 1:] == data.y[:, None]]).mean() == pytest.approx(-0.762, abs=0.01)
    with pytest.raises(DataError, match="sample_weight"):
        CrowdGPPL(DATA.table).fit(DATA.X, DATA.y, np.full(72, 1e10))


def test_rankings_of_many_items():
    inside = []
    for seed in range(3):  # with one ranking each, only the prior tells strong tastes from noise
        rng = np.random.default_rng(seed)
        utility = rng.standard_normal(15) + rng.standard_normal((20, 15))
        X = np.array([[f"u{u}", *rng.permutation(15)] for u in range(20)], dtype=object)
        shown = X[:, 1:].astype(int)
        z = np.take_along_axis(utility, shown, axis=1) + rng.gumbel(size=shown.shape)
        fitted = CrowdGPPL(random_state=0).fit(X, 1.0 + np.argsort(np.argsort(-z, axis=1), axis=1))
        mean, std = fitted.utility(np.arange(15), [f"u{u}" for u in range(20)], return_std=True)
        inside.append(np.abs(mean - utility + utility.mean(axis=1, keepdims=True)) < 1.645 * std)
    assert np.mean(inside) > 0.8


def test_a_column_that_shares_no_item_is_asked_about():
    X, y, _ = items_only()
    with pytest.warns(DataWarning, match="Column 0 of X has ids"):
        GPPLClassifier().fit(X, y)


def test_features_of_people():
    rng = np.random.default_rng(0)
    people, shown = rng.standard_normal((40, 1)), rng.standard_normal((60, 2))
    tasks = rng.integers(60, size=(40 * 6, 3))
    tasks = tasks[[len(set(row)) == 3 for row in tasks.tolist()]]
    user = rng.integers(40, size=len(tasks))
    effect = np.column_stack([2.0 * people[:, 0], np.zeros(40)])  # people differ in the first attribute by the feature
    z = np.einsum("tkd,td->tk", shown[tasks], effect[user]) + rng.gumbel(size=tasks.shape)
    X = np.column_stack([user, tasks])
    fitted = CrowdGPPL(shown, people, random_state=0).fit(X, z.argmax(axis=1))
    mean = fitted.part_worths(np.arange(40))["mean"].to_numpy().reshape(40, 2)
    assert np.corrcoef(mean[:, 0], people[:, 0])[0, 1] > 0.8
    between = fitted.part_worths()["between_people"].to_numpy()
    assert 0.6 * mean[:, 0].std() < between[0] < 1.5 * mean[:, 0].std() + 0.5


@pytest.mark.filterwarnings("ignore:The least populated class")
def test_tools_of_scikit_learn_take_tasks(model):
    copy = clone(model)
    assert copy.get_params().keys() == model.get_params().keys()
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(DATA.X), model.predict(DATA.X))
    by_person = GroupKFold(2)
    scores = cross_val_score(copy, DATA.X, DATA.y, groups=DATA.X[:, 0], cv=by_person)
    assert scores.min() > 1.0 / K
    place = np.argmax(DATA.X[:, 1:] == DATA.y[:, None], axis=1)
    search = GridSearchCV(copy, {"n_factors": [0, 20]}, cv=2, scoring="neg_log_loss").fit(DATA.X, place)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    frame = pd.DataFrame(DATA.X[:, [1, 0, 2, 3, 4]], columns=["a", "person", *"bcd"])
    named = CrowdGPPL(DATA.table, user="person", random_state=0).fit(frame, DATA.y)
    assert_array_equal(named.predict_proba(frame), model.predict_proba(DATA.X))
    with pytest.raises(DataError, match="expected shape"):  # 0 and 1 are labels of comparisons
        CrowdGPPL(DATA.table).fit(DATA.X, place > 0)


def test_files_keep_models_of_tasks(model, tmp_path):
    X, y, _ = items_only()
    for fitted, rows in ((model, DATA.X), (CrowdGPPL(random_state=0).fit(X, y), X)):
        save(fitted, tmp_path / "model.skpref")
        assert_array_equal(load(tmp_path / "model.skpref").predict_proba(rows), fitted.predict_proba(rows))
    pooled = GPPLClassifier().fit(X[:, 1:], y)
    save(pooled, tmp_path / "model.skpref")
    assert_array_equal(load(tmp_path / "model.skpref").predict(X[:, 1:]), pooled.predict(X[:, 1:]))


def test_what_belongs_to_comparisons_is_refused_in_words(model):
    wrong = [{"left": 1}, {"covariates": [1]}, {"groups": [1]}, {"likelihood": "probit-ties"}]
    for options in [*wrong, {"inference": "vb"}]:
        with pytest.raises(DataError, match=next(iter(options))):
            CrowdGPPL(DATA.table, **({"likelihood": "luce"} | options)).fit(DATA.X, DATA.y)
    for call in (
        lambda: model.latent_covariance(DATA.X),
        model.annotators,
        lambda: model.predict_preference(DATA.X),
        lambda: model.decision_function(DATA.X),
    ):
        with pytest.raises(DataError, match="fitted to tasks"):
            call()
    with pytest.raises(DataError, match="ties=True"):
        model.predict_proba(DATA.X, ties=True)


@pytest.mark.parametrize("model", [CrowdGPPL(likelihood="luce"), GPPLClassifier(likelihood="luce")])
def test_files_of_tasks_are_brought_into_memory(model, tmp_path, monkeypatch):
    first = 0 if isinstance(model, CrowdGPPL) else 1
    X, y, _ = items_only()
    frame = pd.DataFrame(X[:, first:]).rename(columns=str)
    frame.assign(chosen=y).to_parquet(tmp_path / "tasks.parquet")
    stored = clone(model).fit(tmp_path / "tasks.parquet", "chosen")
    assert_array_equal(stored.predict_proba(frame), clone(model).fit(frame, y).predict_proba(frame))
    with pytest.raises(DataError, match="there is no column 'best'"):
        clone(model).fit(tmp_path / "tasks.parquet", "best")
    set_policy(monkeypatch, "data", most_stored=3)
    with pytest.raises(DataError, match=f"X has {len(y)} rows; tasks, grades.* at most 3: fit to a part"):
        clone(model).fit(tmp_path / "tasks.parquet", "chosen")
    assert {"likelihood", "order_effect"}.isdisjoint(default_space(model))


def test_tasks_of_one_item_are_left_out_with_a_warning():
    X, y, _ = items_only()
    more = np.vstack([X, [["u0", "i0", None, None, None]]])
    with pytest.warns(DataWarning, match="1 tasks"):
        fitted = CrowdGPPL(random_state=0).fit(more, np.append(y, "i0"))
    assert_allclose(fitted.predict_proba(X), CrowdGPPL(random_state=0).fit(X, y).predict_proba(X), atol=1e-9)


def test_a_shift_of_all_features_changes_nothing(model):
    table = Table(DATA.table.features + np.array([0.0, 0.0, 0.0, 7.0, 0.0]), ids=DATA.table.ids)
    shifted = CrowdGPPL(table, random_state=0).fit(DATA.X, DATA.y)
    assert_allclose(shifted.predict_proba(DATA.X), model.predict_proba(DATA.X), atol=1e-6)


@pytest.mark.statistical  # coverage over simulations
def test_intervals_of_part_worths_and_utilities_hold_the_truth():
    inside = []
    for seed in range(4):
        data = make_choices(n_users=60, n_tasks=10, random_state=seed)
        fitted = CrowdGPPL(data.table, random_state=0).fit(data.X, data.y)
        users = [f"person {u}" for u in range(60)]
        table = fitted.part_worths(users)
        truth = data.part_worths.copy()
        truth[:, :3] -= truth[:, :3].mean(axis=1, keepdims=True)
        inside.append((table["low"] <= truth.ravel()) & (truth.ravel() <= table["high"]))
    assert 0.84 < np.mean(inside) < 0.96


def test_an_unknown_user_is_one_of_a_task():
    data = make_choices(n_users=5, random_state=0)
    model = CrowdGPPL(data.table, unknown_user="raise", random_state=0).fit(data.X, data.y)
    asked = data.X[:2].copy()
    asked[1, 0] = 99
    with pytest.raises(UnknownIdError, match="unknown user 99 in task 1"):
        model.predict(asked)


def test_a_product_of_another_table_is_refused_with_advice(model):
    X = DATA.X[:1].copy()
    X[0, 1] = "brand=x, price=99"
    with pytest.raises(UnknownIdError, match=r"unknown item 'brand=x, price=99' in row 0; .* one call of from_tasks"):
        model.predict(X)


def test_features_of_users_have_effects_without_factors_as_in_a_multinomial_logit():
    rng = np.random.default_rng(1)
    income = rng.uniform(1.0, 9.0, 1500)
    slope = np.array([-0.3, 0.0, 0.3])  # of the utilities of three ways to travel
    chosen = np.argmax(income[:, None] * slope + rng.gumbel(size=(1500, 3)), axis=1)
    X = np.column_stack([np.arange(1500).astype(object), np.tile(np.array(["bus", "car", "train"], object), (1500, 1))])
    model = CrowdGPPL(users=income[:, None], n_factors=0, random_state=0).fit(X, X[np.arange(1500), chosen + 1])
    poor, rich = model.utility(["bus", "car", "train"], users=[[2.0], [8.0]])
    assert_allclose(rich - poor, 6.0 * slope, atol=0.25)
