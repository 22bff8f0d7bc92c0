"""What third cumulants add to the evidence of expectation propagation, and the scale of tastes that follows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from skpref import CrowdGPPL
from skpref.gp.crowd import fit_hierarchy as fitting
from skpref.gp.crowd.hierarchy import Hierarchy, HierarchyFit, fit_hierarchy, hold_still, start_state
from skpref.gp.crowd.places import Places
from skpref.gp.crowd.spread import correction_of_scale, log_ratio
from skpref.gp.crowd.users import UserRows
from skpref.inference.scale import FixedScale
from skpref.likelihoods import PairwiseProbit
from tests.policies import set_policy

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray


def crowd(n_users: int, n_items: int, n_each: int, taste: float, seed: int = 0) -> tuple[IntArray, Array]:
    """Users, left and right items (P, 3), and answers of users without anything in common."""
    rng = np.random.default_rng(seed)
    f = taste * rng.standard_normal((n_users, n_items))
    user = np.repeat(np.arange(n_users), n_each)
    left = rng.integers(0, n_items, user.size)
    right = (left + rng.integers(1, n_items, user.size)) % n_items
    y = (rng.random(user.size) < ndtr(f[user, left] - f[user, right])).astype(float)
    return np.column_stack([user, left, right]), y


def fitted(X: IntArray, y: Array, S: Array, weight: Array | None = None) -> tuple[Hierarchy, HierarchyFit]:
    """Return a model whose consensus is known to be 0, and its fit at S."""
    n = len(S)
    users = UserRows.from_comparisons(*X.T, np.ones((len(X), 0)), (int(X[:, 0].max()) + 1, n))
    weight = np.ones(len(X)) if weight is None else weight
    places, settings = Places.from_items(n, 0, order=False), (np.eye(n), None, 1.0, 1.0, None, n)
    model = Hierarchy(users, y, weight, np.eye(n), (("offset", n),), places, *settings)
    start = replace(start_state(model, {"offset": FixedScale(1e8)}, PairwiseProbit(), 1.0), S=S)
    return model, fit_hierarchy(hold_still(model), start, max_iter=200, tol=1e-10)


def test_the_evidence_is_nearly_that_of_the_exact_integral() -> None:
    X, y = crowd(12, 4, 4, 3.0)
    S = 9.0 * (0.7 * np.eye(4) + 0.3)
    exact = 0.0
    for u in range(12):
        own = X[:, 0] == u
        rows = (2.0 * y[own] - 1.0)[:, None] * (np.eye(4)[X[own, 1]] - np.eye(4)[X[own, 2]])
        exact += np.log(multivariate_normal.cdf(np.zeros(4), cov=np.eye(4) + rows @ S @ rows.T, rng=0))
    model, fit = fitted(X, y, S)
    missing = exact - fit.evidence
    assert missing > 0.1
    assert abs(missing - log_ratio(model, fit)) < 0.3 * missing


def test_equal_answers_are_one_with_their_weight() -> None:
    X, y = crowd(5, 4, 4, 2.0)
    pairs, index = np.unique(np.column_stack([X, y]), axis=0, return_index=True)
    twice = np.repeat(np.arange(len(pairs)), 2)
    separate = fitted(X[index][twice], y[index][twice], 4.0 * np.eye(4))
    merged = fitted(X[index], y[index], 4.0 * np.eye(4), np.full(len(pairs), 2.0))
    assert merged[1].evidence == pytest.approx(separate[1].evidence, abs=1e-3)
    assert log_ratio(*merged) == pytest.approx(log_ratio(*separate), rel=1e-3)
    assert log_ratio(*merged) > 0.0
    one_each, y = crowd(5, 4, 1, 2.0)
    assert log_ratio(*fitted(one_each, y, 4.0 * np.eye(4), np.full(5, 0.5))) == pytest.approx(0.0, abs=1e-12)


def test_strong_tastes_are_found_to_be_stronger_and_weak_ones_stay() -> None:
    strong = correction_of_scale(*fitted(*crowd(80, 6, 12, 3.0), 6.0 * np.eye(6)))
    assert 0.1 < strong < 0.8
    assert abs(correction_of_scale(*fitted(*crowd(80, 6, 6, 0.5), 0.25 * np.eye(6)))) < 0.05


def test_the_scale_of_a_fit_is_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = crowd(60, 5, 10, 3.0)
    right = CrowdGPPL(order_effect=True, random_state=0).fit(X, y).posterior_
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "correction_of_scale", lambda *_: 0.0)
        plain = CrowdGPPL(order_effect=True, random_state=0).fit(X, y).posterior_
    ratio = right.S[:-1, :-1] / plain.S[:-1, :-1]
    assert np.ptp(ratio) < 1e-9  # its shape stays
    assert 1.05 < ratio[0, 0] < 2.0


def test_some_users_tell_the_correction_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = crowd(60, 5, 10, 3.0)
    set_policy(monkeypatch, "gp.crowd", most_choice=300)
    seen: list[int] = []
    correct = fitting.correction_of_scale
    monkeypatch.setattr(
        fitting, "correction_of_scale", lambda model, fit: (seen.append(model.n_users), correct(model, fit))[1]
    )
    CrowdGPPL(random_state=0).fit(X, y)
    assert seen[0] < 60
