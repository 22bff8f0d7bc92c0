"""Which inference a crowd gets, which unknown users are named, and who is near whom."""

from dataclasses import replace

import numpy as np
import pytest

from skpref import CrowdGPPL
from skpref.data import Comparisons
from skpref.datasets import make_crowd
from skpref.exceptions import DataError, UnknownIdError
from skpref.gp.crowd.base import comparisons_of_seen, mark_seen, refuse_unknown_users

ROWS = [
    ["ann", "a", "b"],
    ["ann", "b", "c"],
    ["bob", "c", "a"],
    ["bob", "d", "a"],
    ["cid", "d", "b"],
    ["cid", "a", "b"],
]
DATA = make_crowd(n_users=12, n_items=6, n_comparisons=200, n_factors=1, random_state=2)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, -1, 2], r"^unknown user 'zoe' in pair 1: it was not seen by fit; use unknown_user='consensus'"),
        ([-1, 1, -1], r"^unknown user 'amy' in pair 0 \(and 1 more\): it"),
        ([-1, -1, -1], r"^unknown user 'amy' in pair 0 \(and 2 more\): it"),
    ],
)
def test_the_first_unknown_user_is_named(rows, message):
    users = CrowdGPPL(n_factors=1, random_state=0).fit(ROWS)._users
    ids = np.array(["amy", "zoe", "eve"])
    with pytest.raises(UnknownIdError, match=message):
        refuse_unknown_users(users, ids, np.array(rows), "pair")
    refuse_unknown_users(users, ids, np.array([0, 1, 2]), "pair")
    refuse_unknown_users(users, ids[:0], np.zeros(0, dtype=np.int64), "pair")


@pytest.mark.parametrize(
    ("options", "n_items", "hierarchical"),
    [
        ({}, 2000, True),
        ({}, 2001, False),
        ({"n_factors": 0}, 5, False),
        ({"optimizer": "l-bfgs-b"}, 5, False),
        ({"inference": "ep"}, 2001, True),
        ({"inference": "ep", "n_factors": 0}, 5, True),
        ({"inference": "vb"}, 5, False),
        ({"inference": "svi"}, 5, False),
    ],
)
def test_users_have_posteriors_of_their_own_where_items_are_few(options, n_items, *, hierarchical):
    model = CrowdGPPL(**options)
    assert model._is_hierarchical(n_items) is hierarchical


def test_factors_are_numbered_as_those_of_the_posterior():
    data = make_crowd(20, 8, n_factors=2, n_features=0, n_user_features=0, comparisons_per_user=30, random_state=1)
    model = CrowdGPPL(n_factors=3, inference="vb", tol=0.1, random_state=0).fit(data.comparisons, data.y)
    alive = model._alive
    n = len(alive)
    assert n >= 1
    model._check_alive(model.posterior_, 3)
    for wrong in (list(alive), alive[:-1], (*alive[:-1], 3), (*alive[:-1], -1), (*alive[:-1], 1.0), (*alive, alive[0])):
        model._alive = wrong
        with pytest.raises(DataError, match=f"_alive must name {n} of 3 factors|posterior_ must hold the scales"):
            model._check_alive(model.posterior_, 3)


def test_item_effects_are_those_of_the_first_fit_where_items_have_features():
    model = CrowdGPPL(items=DATA.table, n_factors=1, item_effects=False, random_state=0).fit(DATA.comparisons, DATA.y)
    model._refuse_other_model()
    model.set_params(item_effects=True)
    with pytest.raises(DataError, match="item_effects differs from that of the fit, which had False; got True"):
        model._refuse_other_model()


def test_answers_without_weight_name_nobody():
    model = CrowdGPPL(n_factors=1, random_state=0).fit(ROWS)
    users, items = (replace(entities, seen=np.zeros(0, dtype=np.int64)) for entities in (model._users, model._items))
    weight = np.array([0.0, 1.0, 0.0, 2.0, 1e-300])
    left, right, user = np.array([[0, 1, 0, 2, 1], [3, 2, 1, 1, 2], [0, 2, 0, 1, 2]])
    covariates, group = np.arange(10.0).reshape(5, 2), np.arange(5)[:, None]
    rows = Comparisons(
        left, right, np.linspace(0.0, 1.0, 5), weight, 4, user=user, n_users=3, covariates=covariates, group=group
    )
    users, items = mark_seen(rows, users, items)
    assert (users.seen.tolist(), items.seen.tolist()) == ([1, 2], [1, 2])
    users = replace(users, seen=users.seen[::-1])
    seen, kept = comparisons_of_seen(rows, users, items), [1, 3, 4]
    assert (seen.left.tolist(), seen.right.tolist(), seen.user.tolist()) == ([0, 1, 0], [1, 0, 1], [0, 1, 0])
    for name in ("y", "weight", "covariates", "group"):
        np.testing.assert_array_equal(getattr(seen, name), getattr(rows, name)[kept])
    assert (seen.n_items, seen.n_users) == (2, 2)
