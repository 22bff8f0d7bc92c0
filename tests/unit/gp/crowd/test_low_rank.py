"""Crowds that compare many items: tastes along few directions, if held-out comparisons show them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from skpref import CrowdGPPL
from skpref.gp.crowd import fit_hierarchy, held_out
from skpref.gp.crowd.tastes import curvature_of_scale, log_curvature
from tests.policies import set_policy
from tests.unit.gp.crowd.test_hierarchy import crowd_model

N_ITEMS, N_USERS = 40, 60


@pytest.fixture
def few_are_many(monkeypatch):
    set_policy(monkeypatch, "gp.crowd", several_items=30, many_items=30)


def crowd(taste, n_answers=25, seed=0):
    """Return answers, the true personal utilities, and the probabilities of the answers."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=N_ITEMS) + taste * rng.normal(size=(N_USERS, 2)) @ rng.normal(size=(2, N_ITEMS)) / np.sqrt(2.0)
    user = np.repeat(np.arange(N_USERS), n_answers)
    left = rng.integers(N_ITEMS, size=user.size)
    right = (left + 1 + rng.integers(N_ITEMS - 1, size=user.size)) % N_ITEMS
    p = norm.cdf(f[user, left] - f[user, right])
    return np.column_stack([user, left, right]), (rng.random(user.size) < p).astype(int), f


def losses(model, f):
    """Return the mean cross-entropy of all personal probabilities of pairs of neighbours."""
    user, item = (x.ravel() for x in np.indices((N_USERS, N_ITEMS - 1)))
    p = norm.cdf(f[user, item] - f[user, item + 1])
    q = model.predict_proba(np.column_stack([user, item, item + 1]))[:, 1]
    return -np.mean(p * np.log(q) + (1.0 - p) * np.log1p(-q))


def covered(model, f):
    users = np.arange(N_USERS)
    mean, sd = model.utility(np.arange(N_ITEMS), users=users, return_std=True)
    centre = f.mean()
    return np.mean(np.abs(mean - mean.mean() - f + centre) < 1.645 * sd)


@pytest.mark.usefixtures("few_are_many")
def test_strong_directions_are_found_and_what_is_beside_them_stays_uncertain(monkeypatch):
    X, y, f = crowd(1.2)
    model = CrowdGPPL(random_state=0).fit(X, y)
    sizes = np.linalg.eigvalsh(model.posterior_.S)
    assert sizes[-2] > 3.0 * sizes[-3]
    assert 0.8 <= covered(model, f) <= 0.98
    set_policy(monkeypatch, "gp.crowd", factor_shares=())
    alone = CrowdGPPL(random_state=0).fit(X, y)
    assert_allclose(alone.posterior_.S, alone.posterior_.S[0, 0] * np.eye(N_ITEMS), atol=1e-12)
    assert losses(model, f) < losses(alone, f) - 0.01


@pytest.mark.usefixtures("few_are_many")
def test_where_all_agree_tastes_have_no_directions():
    X, y, _ = crowd(0.0)
    S = CrowdGPPL(random_state=0).fit(X, y).posterior_.S
    assert_allclose(S, S[0, 0] * np.eye(N_ITEMS), atol=1e-12)
    assert S[0, 0] < 0.1


def test_factors_are_compared_with_what_few_items_have(monkeypatch):
    X, y, f = crowd(1.2)
    plain = CrowdGPPL(random_state=0).fit(X, y)
    set_policy(monkeypatch, "gp.crowd", several_items=30)
    monkeypatch.setattr(fit_hierarchy, "choose_factors", lambda *_: (0.1, -1e9))
    same = CrowdGPPL(random_state=0).fit(X, y)
    assert_array_equal(same.posterior_.S, plain.posterior_.S)
    monkeypatch.setattr(fit_hierarchy, "choose_factors", lambda *_: (0.1, 0.0))
    other = CrowdGPPL(random_state=0).fit(X, y)
    assert [part.own for part in other._state] == [0.1]
    assert losses(other, f) < losses(plain, f) + 0.02


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize("options", [{"order_effect": True}, {"groups": ["topic"]}, {"likelihood": "logit-ties"}])
def test_everything_beside_tastes_is_learnt_as_for_few_items(options):
    pandas = pytest.importorskip("pandas")
    X, y, f = crowd(1.2)
    rows = pandas.DataFrame(X, columns=["user", "left", "right"]).assign(topic=np.arange(len(X)) % 2)
    model = CrowdGPPL(**{"user": "user", "left": "left", "right": "right", "random_state": 0} | options).fit(rows, y)
    S, apart = model.posterior_.S[:N_ITEMS, :N_ITEMS], ~np.eye(N_ITEMS, dtype=bool)
    assert np.corrcoef(S[apart], np.cov(f.T)[apart])[0, 1] > 0.7


@pytest.mark.usefixtures("few_are_many")
def test_files_and_later_answers_are_those_of_memory(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    set_policy(monkeypatch, "gp.crowd", most_choice=600)
    set_policy(monkeypatch, "data", batch_rows=400)
    X, y, _ = crowd(1.2)
    rows = pandas.DataFrame(X, columns=["user", "left", "right"])
    names = {"user": "user", "left": "left", "right": "right"}
    rows.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    memory = CrowdGPPL(**names, random_state=0).fit(rows, y)
    stored = CrowdGPPL(**names, random_state=0).fit(tmp_path / "rows.parquet", "y")
    assert_allclose(stored.predict_proba(rows), memory.predict_proba(rows), atol=1e-6)
    later = pandas.DataFrame({"user": [0, 1], "left": [0, N_ITEMS], "right": [N_ITEMS, 3]})
    memory.partial_fit(later, [1, 0])
    assert memory.posterior_.S.shape == (N_ITEMS + 1, N_ITEMS + 1)
    assert np.isfinite(memory.predict_proba(later)).all()


@pytest.mark.parametrize("share", [0.1, 0.4])
@pytest.mark.parametrize("size", [0.0, 0.2, 5.0])
def test_a_mixture_keeps_the_scale_and_a_share_of_the_shape(share, size):
    model, _ = crowd_model(penalty=None)
    rows = np.random.default_rng(0).normal(size=(model.shape.shape[0], 2))
    factors = size * rows @ rows.T
    S = 0.7 * model.shape
    mixed = held_out._mixed(model, factors, S, share)
    assert model.item_scale(mixed) == pytest.approx(0.7)
    assert np.linalg.eigvalsh(mixed)[0] >= share * 0.7 * np.linalg.eigvalsh(model.shape)[0] - 1e-12
    if size == 0.0:
        assert_array_equal(mixed, S)


def test_the_curvature_of_the_scale_is_that_of_a_free_covariance_along_it():
    model, _ = crowd_model(penalty=None)
    S = 0.7 * model.shape
    information = np.random.default_rng(1).normal(size=S.shape)
    information = model.n_users * 0.05 * information @ information.T / len(S)
    penalised = replace(model, penalty=1e-300, prior_weight=1e-300)
    *_, free = log_curvature(penalised, S, information, 0.0, np.linalg.cholesky(model.shape))
    share = 1.0 / (1.0 + 1.0 / model.item_scale(S))
    prior = 2.0 * 1.5 * share * (1.0 - share)
    assert curvature_of_scale(model, S, information, 0.0) - prior == pytest.approx(np.trace(free), rel=1e-6)
