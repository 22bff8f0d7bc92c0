"""Real comparisons: a few splits as a guard; the full tables are in benchmarks/."""

import csv
import gzip

import numpy as np
import pytest

from skpref import GPPLClassifier, Table
from skpref.exceptions import DataWarning
from skpref.kernels import ProductMatern, median_length_scales
from skpref.metrics import cross_entropy, pair_accuracy


def columns(path, *names):
    with gzip.open(path, "rt", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [np.array([float(row[name]) for row in rows]) for name in names]


def test_nba_home_advantage(shared):
    folder = shared / "data" / "nba"
    home, away, won = columns(folder / "comparisons.csv.gz", "home", "away", "home_wins")
    with np.load(folder / "splits" / "splits.npz") as splits:
        test = splits["rep00_test"]
    train = np.setdiff1d(np.arange(won.size), test)
    pairs = np.column_stack([home, away]).astype(int)
    model = GPPLClassifier(order_effect=True, random_state=0)
    with pytest.warns(DataWarning, match="4 connected components"):  # the four seasons
        model.fit(pairs[train], won[train])
    p = model.predict_proba(pairs[test])[:, 1]
    plain = np.full(test.size, won[train].mean())
    # A constant scores .583 / .679 here; logistic regression with one-hot teams .668 / .608.
    assert cross_entropy(won[test], p) < cross_entropy(won[test], plain) - 0.05
    assert pair_accuracy(won[test], p) > 0.64
    mean, std = model.order_effect_
    assert mean > 5 * std


def test_ukpconvarg_unseen_topic(shared):
    folder = shared / "data" / "ukpconvarg"
    fold, left, right, label = columns(folder / "comparisons.csv.gz", "fold", "left", "right", "label")
    gold = np.column_stack(columns(folder / "gold_pairs.csv.gz", "fold", "left", "right", "label", "strict"))
    gold = gold[(gold[:, 0] == 8) & (gold[:, 4] == 1)]
    with np.load(folder / "features.npz") as stored:
        table = Table(stored["X"].astype(np.float64))
    train = fold != 8
    pairs = np.column_stack([left, right]).astype(int)[train]
    kernel = ProductMatern(100.0 * median_length_scales(table.features, np.random.default_rng(0)))
    model = GPPLClassifier(table, kernel, likelihood="probit-ties", random_state=0)
    with pytest.warns(DataWarning, match="31 connected components"):
        model.fit(pairs, label[train])
    p = model.predict_preference(gold[:, 1:3].astype(int))
    assert pair_accuracy(gold[:, 3], p) > 0.75
    assert cross_entropy(gold[:, 3], p) < 0.50
