"""More answers by some users: near one fit with all answers, sites of the others unmoved, an exact posterior."""

import copy
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from skpref import CrowdGPPL
from skpref.datasets import make_crowd
from skpref.gp.crowd import hierarchy
from tests.policies import set_policy
from tests.unit.gp.crowd.test_hierarchy import joint

pytestmark = pytest.mark.usefixtures("all_candidates")

DATA = make_crowd(80, 8, n_factors=2, n_user_features=2, comparisons_per_user=40, random_state=3)
ROWS, Y = DATA.comparisons, DATA.y
ORDER = np.argsort(ROWS[:, 0], kind="stable")
OLD, NEW = ORDER[ROWS[ORDER, 0] < 78], ORDER[ROWS[ORDER, 0] >= 78]  # two users are new,
OLD, NEW = OLD[20:], np.concatenate([NEW, OLD[:20]])  # and one says more
LAYOUTS = {  # and how far means may be apart, in standard deviations
    "ids": ({}, 0.05),
    "order": ({"order_effect": True}, 0.05),
    "items": ({"items": DATA.table}, 0.05),
    "ties": ({"likelihood": "probit-ties"}, 0.1),
    # What all users share moves more here: effects of features, or tastes that hold the consensus as well.
    "users": ({"users": DATA.user_table}, 0.15),
    "no consensus": ({"consensus": False}, 0.3),
}


@pytest.fixture(autouse=True)
def _known_covariance(monkeypatch):
    """Take S for known, so that the posterior is one joint normal distribution."""
    set_policy(monkeypatch, "gp.crowd", largest_spread=0.0, spread_passes=1)  # sites stay


@cache
def earlier(layout="ids", **params):
    """A fit to the earlier answers."""
    return CrowdGPPL(random_state=0, **LAYOUTS[layout][0], **params).fit(ROWS[OLD], Y[OLD])


def learnt(patch, *layout, **params):
    """A model that learnt more answers, all again or (with a patch) those of some users, and its earlier posterior."""
    if patch is not None:
        set_policy(patch, "gp.crowd", few_comparisons=0)
    model = copy.deepcopy(earlier(*layout, **params))
    before = model.posterior_
    return model.partial_fit(ROWS[NEW], Y[NEW]), before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_update_is_near_all_learnt_again(layout, monkeypatch):
    whole = learnt(None, layout)[0]
    model, before = learnt(monkeypatch, layout)
    after, same = model.posterior_, (model.posterior_.user > 0) & (model.posterior_.user < 78)
    np.testing.assert_array_equal(after.S, before.S)
    np.testing.assert_array_equal(after.tau[same], before.tau[before.user > 0])
    assert model.converged_
    assert after.n_learnt == before.n_learnt < whole.posterior_.n_learnt == after.tau.size
    got, wanted = (m.utility(np.arange(8), users=[0, 1, 20, 78, 79], return_std=True) for m in (model, whole))
    assert np.mean(np.abs(got[0] - wanted[0]) / wanted[1]) < LAYOUTS[layout][1]
    np.testing.assert_allclose(got[1], wanted[1], rtol=0.2)


def test_an_update_is_the_exact_posterior_given_its_sites(monkeypatch):
    set_policy(monkeypatch, "gp.crowd", few_comparisons=0)
    model = CrowdGPPL(random_state=0).fit(ROWS[OLD[:600]], Y[OLD[:600]]).partial_fit(ROWS[NEW], Y[NEW])
    mean, covariance, rows = joint(posterior := model.posterior_)
    K, n, u = posterior.consensus.mean.size, posterior.n_seen, posterior.n_users - 1
    assert posterior.n_learnt < posterior.tau.size
    T = np.zeros(len(mean))
    T[:K], T[K + u * n + 2], T[K + u * n + 5] = rows[2] - rows[5], 1.0, -1.0
    got = model.latent_mean_and_variance([[model.user_ids_[u], model.item_ids_[2], model.item_ids_[5]]])
    np.testing.assert_allclose(np.ravel(got), [T @ mean, T @ covariance @ T], rtol=1e-9)


def test_sites_of_the_users_that_changed_are_stationary(monkeypatch):
    model, _ = learnt(monkeypatch, tol=1e-8)
    before = model.posterior_
    after = model.partial_fit(ROWS[NEW], Y[NEW], sample_weight=np.full(NEW.size, 1e-9)).posterior_
    np.testing.assert_allclose(after.tau, before.tau, rtol=1e-3)
    np.testing.assert_allclose(after.alpha, before.alpha, atol=1e-4)


def test_new_items_and_no_answers(monkeypatch):
    model, before = learnt(monkeypatch)
    utility = model.utility()
    model.partial_fit([[0, 0, 1]], [1], sample_weight=[0.0])
    np.testing.assert_allclose(model.utility(), utility, atol=1e-12)
    model.partial_fit([[100, 0, 20], [100, 1, 20]], [1, 1])
    assert model.posterior_.n_learnt == before.n_learnt
    assert model.utility([20], users=[100])[0, 0] < -0.1


def test_new_items_beside_features_of_users_let_all_be_learnt_again(monkeypatch):
    model, _ = learnt(monkeypatch, "users")
    model.partial_fit([[1, 0, 20]], [1])
    assert model.posterior_.n_learnt == model.posterior_.tau.size


def test_all_is_learnt_again_when_answers_have_grown(monkeypatch):
    set_policy(monkeypatch, "gp.crowd", few_comparisons=0)
    model = copy.deepcopy(earlier())
    model.partial_fit(np.vstack([ROWS[NEW], ROWS[OLD] + [[50, 0, 0]]]), np.append(Y[NEW], Y[OLD]))
    assert model.posterior_.n_learnt == model.posterior_.tau.size


@pytest.mark.parametrize(
    ("n", "n_learnt", "n_changed", "n_effects", "new_items", "is_update"),
    [
        (20_000, 20_000, 1, 0, False, False),  # so few that all is learnt again
        (25_000, 20_000, 1, 0, False, True),
        (25_001, 20_000, 1, 0, False, False),  # grown by more than a quarter
        (25_000, 20_000, 12_500, 0, False, True),
        (25_000, 20_000, 12_501, 0, False, False),  # more than half are of users that changed
        (25_000, 20_000, 1, 0, True, True),
        (25_000, 20_000, 1, 2, False, True),
        (25_000, 20_000, 1, 2, True, False),  # effects of features on items that they were not learnt of
    ],
)
def test_which_answers_leave_what_users_share(n, n_learnt, n_changed, n_effects, new_items, is_update):
    rows = SimpleNamespace(user=np.repeat([0, 1], [n_changed, n - n_changed]))
    model = SimpleNamespace(y=np.zeros(n), users=rows, shape=np.eye(3 + new_items))
    old = SimpleNamespace(n_learnt=n_learnt, B=np.zeros((3, n_effects)), S=np.eye(3))
    assert hierarchy.is_update(model, old, np.array([True, False])) is is_update
    assert not hierarchy.is_update(model, old, None)
