"""Effects of single items beside part-worths: where items were shown often, and their attributes do not say all."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import CrowdGPPL
from skpref.data import Table
from skpref.exceptions import DataWarning
from skpref.search import default_space
from tests.conftest import USUAL, choosing

N, N_USERS, K = 12, 60, 4


@cache
def panel(effects, seed=0):
    """Return products with two attributes, tasks, choices, and utilities with effects of products, shape (U, n)."""
    rng = np.random.default_rng(seed)
    F = rng.integers(0, 3, size=(N, 2)).astype(float)
    utility = (np.array([0.7, -0.5]) + 0.4 * rng.normal(size=(N_USERS, 2))) @ F.T
    utility += effects * (rng.normal(size=N) + 0.5 * rng.normal(size=(N_USERS, N)))
    user = np.repeat(np.arange(N_USERS), 12)
    shown = np.argsort(rng.random((user.size, N)), axis=1)[:, :K]
    chosen = np.argmax(utility[user[:, None], shown] + rng.gumbel(size=shown.shape), axis=1)
    names = np.array([f"product {k}" for k in range(N)], dtype=object)
    table = Table(F, names, feature_names=["size", "price"])
    return table, np.column_stack([user.astype(object), names[shown]]), chosen, utility


@pytest.fixture(scope="module")
def model():
    table, X, y, _ = panel(1.0)
    return CrowdGPPL(table, likelihood="luce", random_state=0).fit(X, y)


def test_products_differ_by_more_than_their_attributes():
    table, X, y, utility = panel(1.0)
    with choosing(USUAL):  # as for users: intervals depend on it
        model, alone = (
            CrowdGPPL(table, likelihood="luce", random_state=0, **more).fit(X, y)
            for more in ({}, {"item_effects": False})
        )
    truth = utility.mean(axis=0) - utility.mean()
    errors = [np.sqrt(np.mean((m.utility(table.ids) - truth) ** 2)) for m in (model, alone)]
    assert errors[0] < 0.5 * errors[1]
    mean, std = model.utility(table.ids, np.arange(N_USERS), return_std=True)
    own = utility - utility.mean(axis=1, keepdims=True)
    assert 0.84 < np.mean(np.abs(mean - mean.mean(axis=1, keepdims=True) - own) < 1.645 * std) < 0.96


def test_effects_that_nothing_shows_are_left_out():
    table, X, y, _ = panel(0.0)
    with_effects = CrowdGPPL(table, likelihood="luce", random_state=0).fit(X, y)
    alone = CrowdGPPL(table, likelihood="luce", item_effects=False, random_state=0).fit(X, y)
    assert_array_equal(with_effects.predict_proba(X), alone.predict_proba(X))


def test_reports_are_about_attributes_and_new_products_have_no_effect(model):
    assert model.part_worths()["feature"].tolist() == ["size", "price"]
    assert model.part_worths([0, 1])["feature"].tolist() == ["size", "price"] * 2
    assert set(model.importances()["attribute"]) == {"size", "price"}
    assert model.willingness_to_pay("price")["feature"].tolist() == ["size"]
    shares = model.shares({"new": {"size": 1, "price": 1}, "old": "product 3"}, n_samples=50)
    assert shares["share"].sum() == pytest.approx(1.0)
    features = np.asarray(panel(1.0)[0].features)
    assert not np.allclose(model.utility(features), model.utility(model.item_ids_))
    assert_allclose(model.utility(panel(1.0)[0]), model.utility(model._items.vocabulary.ids))


def test_a_new_product_may_differ_from_its_attributes_as_others_do(model):
    table, _, _, _ = panel(1.0)
    users, new = (
        np.arange(N_USERS),
        Table(table.features, [f"new {k}" for k in range(N)], feature_names=table.feature_names),
    )
    (of_new, std_new), (_, std) = (model.utility(each, users, return_std=True) for each in (new, table))
    assert_allclose(of_new, model.utility(np.asarray(table.features), users))
    assert std_new.min() > 0.8
    assert std.max() < 0.8
    # The same for pairs, on which choices depend.
    one, other, posterior = np.array([0]), np.array([1]), model.posterior_
    user, seen = model._users.rows(one), model._items.rows(np.arange(2))
    unseen = model._items.described(table.features[:2], np.array([-1, -1]))
    for asked, is_wide in ((seen, False), (unseen, True)):
        _, variance = posterior.pairs((user, one), asked, one, other)
        assert_allclose(variance, posterior.pair_covariance(user, asked, one, other)[0], rtol=1e-6)
        assert (variance[0] > 2.0 * 0.8**2) == is_wide


def test_new_products_differ_as_those_that_were_shown_do():
    """A new product's effect has the variance of the others, for the consensus, and all people share it."""
    table, X, y, _ = panel(1.0)
    few, known = table.features[:-1], (X[:, 1:] != "product 11").all(axis=1)
    shown = Table(few, table.ids[:-1], feature_names=table.feature_names)
    model = CrowdGPPL(shown, likelihood="luce", random_state=0).fit(X[known], y[known])
    posterior, features = model.posterior_, model._items.described(few, np.full(N - 1, -2))
    mean, _ = posterior.consensus.utility(model._items.rows(np.arange(N - 1)))
    without, _ = posterior.consensus.utility(features)
    half = posterior.consensus.half_rows(model._items.rows(np.arange(N - 1))) - posterior.consensus.half_rows(features)
    effects = np.mean((mean - without) ** 2 + np.sum(half**2, axis=1))
    (_, bare), (_, new) = (
        posterior.consensus.utility(each) for each in (features, features._replace(position=features.position + 1))
    )
    assert_allclose(new - bare, effects, rtol=1e-3)
    assert 0.3 < effects < 3.0  # the truth is 1
    std = model.utility(table, return_std=True)[1]
    assert std[-1] ** 2 > effects
    assert std[:-1].max() < 0.6 * std[-1]
    ranking = model.rank(table, n_samples=500)
    assert np.argmax(ranking["rank_high"] - ranking["rank_low"]) == ranking["id"].tolist().index("product 11")
    # The share of a new product is as uncertain as if each draw of its effect held for all people.
    scenario = {"new": {"size": 1, "price": 1}, "old": "product 3"}
    shares = model.shares(scenario, n_samples=400)["std"][0]
    rng = np.random.default_rng(0)
    _, items = model._products(list(scenario.items()), 0, none=False)
    means = posterior.utility(model._seen(model._users), items)[0]
    moved = means[:, 0] - means[:, 1] + np.sqrt(effects) * rng.standard_normal((400, 1))
    assert shares > 0.8 * np.std(np.mean(1.0 / (1.0 + np.exp(-moved)), axis=1))
    curve = model.sensitivity("price", [0.0, 1.0, 2.0], {**scenario, "old": {"size": 1, "price": 1}}, n_samples=50)
    assert curve[curve["product"] == "new"]["share"].is_monotonic_decreasing


def test_part_worths_are_without_effects_of_products(model):
    d, users = 2, np.arange(N_USERS)
    posterior, of_users = model.posterior_, model.part_worths(users)["std"].to_numpy().reshape(N_USERS, d)
    weights = posterior._weights(model._featured(np.eye(d)))[0]
    prior = np.sqrt(
        np.einsum("ij,jk,ik->i", weights, posterior.S, weights)
        + posterior.consensus.utility(model._featured(np.eye(d)))[1]
    )
    assert (of_users < prior).all()
    draws = model._part_worth_draws(300, 0)
    assert_allclose(draws.std(axis=1), of_users, rtol=0.3)


def test_later_answers_keep_the_effects(model):
    table, X, y, _ = panel(1.0)
    known = X[:, 1:] != "product 11"
    old = known.all(axis=1)
    parts = Table(table.features[:-1], table.ids[:-1], feature_names=table.feature_names)
    later = CrowdGPPL(parts, likelihood="luce", random_state=0).fit(X[old], y[old])
    new = Table(table.features[-1:], table.ids[-1:], feature_names=table.feature_names)
    later.partial_fit(X[~old], y[~old], items=new)
    assert_allclose(later.utility(table.ids), model.utility(table.ids), atol=0.15)


def test_a_kernel_by_name_makes_utilities_smooth():
    table, X, y, _ = panel(0.0)
    bent = table.features[:, 0] == 1.0  # only the middle size is liked, which no straight line says
    numbers = {name: k for k, name in enumerate(table.ids.tolist())}
    shown = np.array([[numbers[name] for name in row] for row in X[:, 1:].tolist()])
    y = np.argmax(3.0 * bent[shown] + np.random.default_rng(1).gumbel(size=shown.shape), axis=1)
    train = np.arange(y.size) % 2 == 0
    losses = []
    for kernel in (None, "product-matern-3/2"):
        model = CrowdGPPL(table, likelihood="luce", item_effects=False, kernel=kernel, random_state=0)
        p = model.fit(X[train], y[train]).predict_proba(X[~train])
        losses.append(-np.mean(np.log(p[np.arange(len(p)), y[~train]])))
    assert losses[1] < losses[0] - 0.1
    with pytest.raises(ValueError, match="no part-worths"):
        model.part_worths()
    assert default_space(CrowdGPPL(table, likelihood="luce"))["kernel"] == [None, "product-matern-3/2"]
    assert "kernel" not in default_space(CrowdGPPL(table, likelihood="luce", kernel="squared-exponential"))


@pytest.mark.filterwarnings("ignore:.*show an item more than once")
@pytest.mark.parametrize("K", [2, 3])
def test_a_profile_that_a_task_shows_twice_is_one_item(K):
    rng = np.random.default_rng(5)
    features, n = rng.normal(size=(6, 2)), 90
    shown, users = rng.integers(6, size=(n, K)), rng.integers(8, size=n)
    y = np.argmax((features @ [1.0, -1.0])[shown] + rng.gumbel(size=(n, K)), axis=1)
    assert (shown[:, 0] == shown[:, 1]).any()
    copies = shown + 6 * np.arange(K)  # of each profile for each position
    options = {"likelihood": "luce", "order_effect": True, "item_effects": False, "random_state": 0}
    once = CrowdGPPL(Table(features), **options).fit(np.column_stack([users, shown]), y)
    apart = CrowdGPPL(Table(np.vstack([features] * K)), **options).fit(np.column_stack([users, copies]), y)
    got, wanted = (model.predict_proba(np.column_stack([users, X])) for model, X in ((once, shown), (apart, copies)))
    assert_allclose(got, wanted, atol=1e-9)
    different = sum(len(set(row)) > 1 for row in shown.tolist())
    ranking = once.rank(n_samples=50)
    assert sorted(ranking.id) == list(range(6))
    assert K > 2 or ranking.n_comparisons.sum() == 2 * different
    assert np.nansum(once.win_matrix().n_comparisons) > 0


def test_a_repeated_item_is_told():
    table, X, y, _ = panel(0.0)
    X, y = X[:60].copy(), y[:60]
    X[[1, 5], 2] = X[[1, 5], 1]
    with pytest.warns(DataWarning, match="2 tasks show an item more than once, first task 1: each copy counts"):
        CrowdGPPL(table, likelihood="luce", random_state=0).fit(X, y)
