"""Ties in proportion to the geometric mean of the wins, and parameters of ties that are known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import cross_val_score

from skpref import CrowdGPPL, Fixed, GPPLClassifier, load, save
from skpref.elicitation import Session
from skpref.exceptions import DataError
from skpref.likelihoods import PairwiseDavidson, PairwiseLogitTies
from skpref.metrics import answers_log_loss_scorer

N_ITEMS = 6
UTILITIES = np.linspace(-1.5, 1.5, N_ITEMS)


def answers(n=400, seed=0, nu=0.8, n_users=0, utilities=UTILITIES):
    """Return pairs, or pairs of users, and answers."""
    rng = np.random.default_rng(seed)
    left = rng.integers(utilities.size, size=n)
    right = (left + rng.integers(1, utilities.size, size=n)) % utilities.size
    p = PairwiseDavidson(nu).predict_answers(utilities[left] - utilities[right], np.zeros(n))
    y = 1.0 - 0.5 * (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return np.column_stack([left, right] if not n_users else [rng.integers(n_users, size=n), left, right]), y


@pytest.mark.parametrize("cls", [GPPLClassifier, CrowdGPPL])
def test_nu_is_learnt_with_the_utilities(cls):
    X, y = answers(3000, n_users=10 * (cls is CrowdGPPL))
    model = cls(likelihood="davidson").fit(X, y)
    p = PairwiseDavidson(0.8).predict_answers(np.subtract(*UTILITIES[X[:, -2:].T]), np.zeros(len(y)))
    assert abs(np.log(model.likelihood_.nu / 0.8)) < 4.0 / np.sqrt(p[:, 1] @ (1.0 - p[:, 1]))
    predicted = model.predict_proba(X, ties=True)
    assert_allclose(predicted.sum(axis=1), 1.0)
    assert np.abs(predicted - p).mean() < 0.03
    sides = model.predict_proba(X)[:, 1]
    assert_allclose(sides, predicted[:, 0] + 0.5 * predicted[:, 1], rtol=1e-9)


def test_it_predicts_answers_of_its_own_kind_better_than_other_ties():
    losses = {
        name: -cross_val_score(
            GPPLClassifier(likelihood=name), *answers(4000, seed=3, nu=3.0), scoring=answers_log_loss_scorer, cv=4
        ).mean()
        for name in ("davidson", "logit-ties")
    }
    assert losses["davidson"] < losses["logit-ties"]


def test_known_parameters_stay(tmp_path):
    X, y = answers()
    for known in (PairwiseDavidson(2.0, learn=False), PairwiseLogitTies(0.1, learn=False)):
        assert GPPLClassifier(likelihood=known).fit(X, y).likelihood_ == known
        crowd = CrowdGPPL(likelihood=known).fit(*answers(200, n_users=4))
        assert crowd.likelihood_ == known
        groups = np.column_stack([X, np.arange(len(X)) % 3])
        in_groups = GPPLClassifier(likelihood=known, groups=[2]).fit(groups, y)
        assert in_groups.likelihood_ == known
        assert in_groups.tie_thresholds_ is None
        save(crowd, tmp_path / "crowd")
        restored = load(tmp_path / "crowd")
        assert restored.likelihood_ == known
        assert_allclose(restored.predict_proba([[0, 1, 2]], ties=True), crowd.predict_proba([[0, 1, 2]], ties=True))


def test_it_goes_with_times_groups_and_sessions():
    X, y = answers()
    rows = np.column_stack([X, np.arange(len(X)) / 100.0, np.arange(len(X)) % 3])
    model = GPPLClassifier(likelihood="davidson", time=2, groups=[3]).fit(rows, y)
    assert 0.3 < model.likelihood_.nu < 2.0
    assert_allclose(model.predict_proba(rows[:5], ties=True).sum(axis=1), 1.0)
    session = Session(GPPLClassifier(likelihood="davidson").fit(X, y), [(0, 1), (2, 3), (0, 5)])
    asked = int(session.ask()[0])
    before = session.belief_.gain[asked]
    session.tell({asked: 0.5})
    assert session.belief_.gain[asked] < before


def test_tasks_refuse_it():
    with pytest.raises(DataError, match="likelihood"):
        GPPLClassifier(likelihood="davidson").fit([("a", "b", "c"), ("a", "b", "d")], ["a", "b"])


@pytest.mark.statistical
@pytest.mark.parametrize("nu", [0.5, 3.0])
def test_intervals_cover(nu):
    # 60 simulations of 10 utilities; their errors are correlated, so that a coverage of .9 has a standard error of .02.
    inside = []
    for seed in range(60):
        utilities = np.random.default_rng(seed).normal(size=10)
        X, y = answers(60, seed, nu, utilities=utilities)
        model = GPPLClassifier(likelihood="davidson", scale_prior=Fixed(1.0)).fit(X, y)
        ids = model.item_ids_.astype(int)
        mean, std = model.utility(return_std=True)
        inside.append(np.abs(utilities[ids] - utilities[ids].mean() - mean) < 1.645 * std)
    assert 0.84 < np.concatenate(inside).mean() < 0.96
