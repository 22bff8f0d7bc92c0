"""Rows of the table of bad inputs that are accepted: unusual comparisons give finite and equal results.

Pairs of items are compared by a `GPPLClassifier`; a `CrowdGPPL` gets users before them.
"""

from functools import partial

import numpy as np
import pytest

from skpref import Table
from skpref.exceptions import DataWarning
from tests.unit.bad_inputs import places as at
from tests.unit.bad_inputs.places import ITEMS, NAMED_PAIRS, PEOPLE, PREFERRED, USER_NAMES, USERS, P, U, X, fitted

MODELS = ["GPPLClassifier", "CrowdGPPL"]


def asked(name, pairs=NAMED_PAIRS):
    """Return the rows that the estimator reads for pairs of items."""
    return at.with_users(pairs) if name == "CrowdGPPL" else pairs


def learn(name, pairs=NAMED_PAIRS, y=PREFERRED, weight=None, **params):
    return at.MAKERS[name](**params).fit(asked(name, pairs), y, weight)


def tables(name):
    return {"items": ITEMS, **({"users": USERS} if name == "CrowdGPPL" else {})}


# ---------------------------------------------------------------------------------------------------------- both models
@pytest.mark.parametrize("name", MODELS)
def test_row_24_comparisons_with_itself_can_be_dropped(name):
    pairs = [[*pair] for pair in NAMED_PAIRS]
    pairs[9] = ["x5", "x5"]
    keep = [i for i in range(P) if i != 9]
    rows = asked(name)
    wanted = at.MAKERS[name]().fit([rows[i] for i in keep], PREFERRED[keep])
    model = learn(name, pairs, on_self="drop")
    np.testing.assert_array_equal(model.predict_proba(rows), wanted.predict_proba(rows))


@pytest.mark.parametrize(
    ("name", "likelihood"),
    [*((name, likelihood) for name in MODELS for likelihood in ("probit", "logit")), ("CrowdGPPL", "probit-ties")],
)
@pytest.mark.parametrize("with_tables", [False, True])
def test_row_32_all_ties(name, likelihood, with_tables):
    model = learn(name, y=np.full(P, 0.5), likelihood=likelihood, **(tables(name) if with_tables else {}))
    np.testing.assert_allclose(model.predict_proba(asked(name)), 0.5, atol=1e-3)
    np.testing.assert_allclose(model.utility(), 0.0, atol=1e-3)
    if name == "CrowdGPPL":
        np.testing.assert_allclose(model.utility(users=USER_NAMES), 0.0, atol=0.05)


@pytest.mark.parametrize("name", MODELS)
def test_row_34_pieces(name):
    with pytest.warns(DataWarning, match="2 connected components"):
        model = learn(
            name, [["a", "b"], ["c", "d"], ["b", "a"]], [1, 0, 1], **({"n_factors": 1} if name[0] == "C" else {})
        )
    assert model.components_.tolist() == [0, 0, 1, 1]
    assert np.all(np.isfinite(model.predict_proba(asked(name, [["a", "c"]]))))


@pytest.mark.filterwarnings("ignore:n_factors=2 is more")
@pytest.mark.parametrize("name", MODELS)
def test_row_37_ids_of_any_kind(name):
    ids = ["x" * 10_000_000, b"bytes", 3, ("a", 1), "3", frozenset({1})]
    around = [[ids[i], ids[(i + 1) % 6]] for i in range(6)]
    users = [[ids[i % 3]] for i in range(6)] if name == "CrowdGPPL" else [[]] * 6
    model = at.MAKERS[name]().fit(
        [[*user, *pair] for user, pair in zip(users, around, strict=True)], [1, 1, 1, 1, 1, 0]
    )
    assert model.item_ids_.size == 6
    assert model.predict_proba([[*users[0], ids[0], ids[5]]])[0, 1] > 0.5
    assert model.predict_proba([[*users[0], 3, "3"]])[0, 1] != 0.5
    if name == "CrowdGPPL":
        assert model.user_ids_.size == 3
        assert model.utility(users=[ids[0], ids[1]]).shape == (2, 6)


# ----------------------------------------------------------------------------------------------------------- one roster
def test_row_35_integral_floats_of_a_regressor():
    wanted = at.regressor().fit(X, comparisons=at.PAIRS).predict(X)
    np.testing.assert_array_equal(at.regressor().fit(X, comparisons=at.PAIRS.astype(float)).predict(X), wanted)


@pytest.mark.filterwarnings("ignore:.*did not converge")  # "linearised" need not
@pytest.mark.parametrize("inference", ["vb", "svi", "laplace", "linearised"])
def test_row_33_one_item_always_wins(inference):
    won = [["best", f"other {i}"] for i in range(5)] * 40
    model = at.classifier(inference=inference, max_iter=300).fit(won, np.ones(200))
    mean, std = model.utility(return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0.0)
    assert model.rank().id[0] == "best"


# --------------------------------------------------------------------------------------------------------------- crowds
def test_row_24_a_user_of_dropped_comparisons_is_unseen():
    rows = [["u0", "x5", "x5"], *at.NAMED_TRIPLES, ["another user", "x0", "x0"]]
    model = at.crowd(on_self="drop").fit(rows, [1, *PREFERRED, 0])
    wanted = fitted("CrowdGPPL").predict_proba(at.NAMED_TRIPLES)
    np.testing.assert_array_equal(model.predict_proba(at.NAMED_TRIPLES), wanted)
    assert model.user_ids_.tolist() == USER_NAMES


def test_rows_17_18_constant_and_equal_users():
    users = partial(at.crowd, None)
    twins = Table(np.vstack([PEOPLE[:3], PEOPLE[:3]]), ids=USER_NAMES)
    for inference in ("vb", "auto"):
        with pytest.warns(DataWarning, match="2 of 2 features are constant over the users who compared"):
            same = users(Table(np.ones((U, 2)), ids=USER_NAMES), inference=inference).fit(at.NAMED_TRIPLES, PREFERRED)
        equal = users(twins, inference=inference).fit(at.NAMED_TRIPLES, PREFERRED)
        # By "vb" users are their features; by default those with equal features keep tastes of their own beside them.
        asked, people = (USER_NAMES, USER_NAMES) if inference == "vb" else (np.ones((U, 2)), twins.features)
        personal = same.utility(users=asked)
        np.testing.assert_allclose(personal, np.tile(personal[:1], (U, 1)), atol=1e-9)
        personal = equal.utility(users=people)
        np.testing.assert_allclose(personal[:3], personal[3:], atol=1e-9)


@pytest.mark.filterwarnings("ignore:unknown user")
@pytest.mark.filterwarnings("ignore:.*did not converge", "ignore:n_factors")
@pytest.mark.parametrize("inference", ["vb", "svi", "linearised"])
def test_row_33_separation_in_a_crowd(inference):
    # "best" wins always; and each user contradicts the other about the other items, always.
    rows = [[u, "best", f"other {i}"] for u in "ab" for i in range(4)] * 20
    rows += [["a" if sign else "b", f"other {i}", f"other {i + 1}"] for i in range(3) for sign in (0, 1)] * 20
    model = at.crowd(inference=inference, max_iter=100).fit(rows, [1.0] * 160 + [0.0, 1.0] * 60)
    mean, std = model.utility(users=["a", "b", "unseen"], return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0.0)
    assert model.rank().id[0] == "best"
    assert np.all(np.isfinite(model.annotators(n_samples=20).drop(columns="user").to_numpy()))


@pytest.mark.filterwarnings("ignore:unknown user")
def test_row_40_users_without_comparisons():
    users = Table(np.vstack([PEOPLE, [[40.0, -40.0]]]), ids=[*USER_NAMES, "silent"])
    silent = at.crowd(None, users).fit(at.NAMED_TRIPLES, PREFERRED)
    plain = at.crowd(None, USERS).fit(at.NAMED_TRIPLES, PREFERRED).predict_proba(at.NAMED_TRIPLES)
    np.testing.assert_allclose(silent.predict_proba(at.NAMED_TRIPLES), plain, atol=1e-9)
    # Far from all others: linear effects reach there, and say that they do not know.
    std = silent.utility(users=["silent", "unseen"], return_std=True)[1]
    assert std[0].min() > std[1].max()
    # By a kernel nothing is known of the user: the consensus.
    distant = at.crowd(None, users, inference="vb").fit(at.NAMED_TRIPLES, PREFERRED)
    np.testing.assert_allclose(distant.utility(users=["silent"])[0], distant.utility(), atol=1e-3)
    weighted = at.crowd().fit([*at.NAMED_TRIPLES, ["silent", "x0", "x1"]], [*PREFERRED, 1], [1.0] * P + [0.0])
    wanted = fitted("CrowdGPPL").predict_proba(at.NAMED_TRIPLES)
    np.testing.assert_array_equal(weighted.predict_proba(at.NAMED_TRIPLES), wanted)
    np.testing.assert_allclose(weighted.utility(users=["silent"])[0], weighted.utility(), atol=1e-12)
