"""The default likelihood has ties as answers where there are ties."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skpref import CrowdGPPL, GPPLClassifier
from skpref.exceptions import DataError
from skpref.likelihoods import PairwiseProbit, PairwiseProbitTies
from skpref.metrics import log_loss_scorer

BOTH = pytest.mark.parametrize("cls", [GPPLClassifier, CrowdGPPL])


def answers(n=240, threshold=0.6, taste=1.5, n_users=12, n_items=6, seed=0):
    """Rows of user, left and right, and labels with ties."""
    rng = np.random.default_rng(seed)
    utilities = rng.normal(size=n_items) + taste * rng.normal(size=(n_users, n_items))
    user, left = rng.integers(n_users, size=n), rng.integers(n_items, size=n)
    right = (left + rng.integers(1, n_items, size=n)) % n_items
    z = utilities[user, left] - utilities[user, right] + rng.normal(size=n)
    return np.column_stack([user, left, right]), np.where(np.abs(z) < threshold, 0.5, z > 0.0)


def fitted(cls, X, y, **params):
    return cls(random_state=0, **params).fit(X if cls is CrowdGPPL else X[:, 1:], y)


def proba(model, X):
    return model.predict_proba(X if isinstance(model, CrowdGPPL) else X[:, 1:])


@BOTH
@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda y: y, "probit-ties"),
        (lambda y: (y > 0.5).astype(float), "probit"),
        (lambda y: np.where(y == 1.0, 0.9, y), "probit"),  # shares
        (lambda y: np.where(y == 0.5, 0.4, y), "probit"),
        (lambda y: np.full(y.size, 0.5), "probit"),
    ],
    ids=["ties", "none", "shares", "other shares", "ties alone"],
)
def test_the_default_is_the_likelihood_of_the_answers(cls, change, name):
    X, y = answers(90)
    model, named = (fitted(cls, X, change(y), **more) for more in ({}, {"likelihood": name}))
    assert type(model.likelihood_) is {"probit": PairwiseProbit, "probit-ties": PairwiseProbitTies}[name]
    assert_allclose(proba(model, X), proba(named, X), rtol=1e-9)


@BOTH
def test_the_linearised_rule_has_no_ties(cls):
    X, y = answers()
    assert type(fitted(cls, X, y, inference="linearised").likelihood_) is PairwiseProbit


@BOTH
def test_the_first_ties_may_come_later(cls):
    X, y = answers()
    first = np.sort(np.flatnonzero(y != 0.5)[:60])
    later = np.setdiff1d(np.arange(y.size), first)
    model = fitted(cls, X[first], y[first])
    assert not model.likelihood_.ties_are_answers
    model.partial_fit(X[later] if cls is CrowdGPPL else X[later, 1:], y[later])
    whole = fitted(cls, X, y)
    assert_allclose(model.likelihood_.threshold, whole.likelihood_.threshold, rtol=0.1)
    assert_allclose(proba(model, X), proba(whole, X), atol=0.05)


@BOTH
def test_ties_on_disk_are_those_in_memory(cls, tmp_path):
    X, y = answers()
    frame = pd.DataFrame(X, columns=["user", "left", "right"]).assign(y=y)
    if cls is GPPLClassifier:
        frame = frame.drop(columns="user")
    frame[:100].to_parquet(tmp_path / "a.parquet")
    frame[100:].to_parquet(tmp_path / "b.parquet")
    on_disk = cls(random_state=0).fit(tmp_path, "y")
    assert isinstance(on_disk.likelihood_, PairwiseProbitTies)
    rows = frame.drop(columns="y")
    assert_allclose(on_disk.predict_proba(rows), cls(random_state=0).fit(rows, y).predict_proba(rows), atol=1e-8)


def test_tastes_keep_their_size_where_many_answers_are_ties():
    """As halves of both answers, ties would contradict every strong taste."""
    X, y = answers(1500, threshold=1.0, taste=2.0, n_users=60, n_items=10)
    fresh = np.random.default_rng(1).random(y.size) < 0.25
    scores = [
        log_loss_scorer(CrowdGPPL(likelihood=name, random_state=0).fit(X[~fresh], y[~fresh]), X[fresh], y[fresh])
        for name in ("auto", "probit")
    ]
    assert scores[0] > scores[1] + 0.02


def test_shares_are_merged(tmp_path):
    """Soft labels have no ties among them, so that a model of a million of them keeps one row for each pair."""
    X, y = answers(600)
    frame = pd.DataFrame(X[:, 1:], columns=["left", "right"]).assign(y=0.8 * y + 0.1)
    frame[:300].to_parquet(tmp_path / "a.parquet")
    frame[300:].to_parquet(tmp_path / "b.parquet")
    rows, shares = frame.drop(columns="y"), frame.y.to_numpy()
    auto, probit = (GPPLClassifier(likelihood=name).fit(rows, shares) for name in ("auto", "probit"))
    assert auto._comparisons.n_pairs == probit._comparisons.n_pairs == 15
    on_disk = GPPLClassifier().fit(tmp_path, "y")
    for model in (auto, on_disk):
        assert_allclose(model.predict_proba(rows), probit.predict_proba(rows), rtol=1e-9)


@BOTH
def test_the_mean_of_two_shares_is_no_tie(cls):
    X = np.array([("u", "a", "b"), ("u", "a", "b"), ("u", "a", "c")])
    model = fitted(cls, X, [0.3, 0.7, 1.0])
    assert type(model.likelihood_) is PairwiseProbit
    more = X[[1, 2]] if cls is CrowdGPPL else X[[1, 2], 1:]
    assert type(model.partial_fit(more, [0.5, 0.0]).likelihood_) is PairwiseProbit


@BOTH
def test_without_ties_there_is_no_probability_of_a_tie(cls):
    X, y = answers(90)
    model = fitted(cls, X, y >= 0.5)
    with pytest.raises(DataError, match="or with 'auto' and a y of wins and ties"):
        model.predict_proba(X if cls is CrowdGPPL else X[:, 1:], ties=True)
