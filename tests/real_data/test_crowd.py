"""Real comparisons by many users: one split as a guard; the full tables are in benchmarks/."""

import csv
import gzip

import numpy as np
import pytest

from skpref import CrowdGPPL, GPPLClassifier
from skpref.metrics import cross_entropy, pair_accuracy

pytestmark = pytest.mark.usefixtures("all_candidates")


def test_llmfao_people_differ(shared):
    folder = shared / "data" / "llmfao"
    with gzip.open(folder / "comparisons.csv.gz", "rt", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with np.load(folder / "splits" / "random80.npz") as splits:
        test = splits["rep00_test"]
    X = np.array([(row["worker"], row["left"], row["right"]) for row in rows], dtype=object)
    y = np.array([float(row["label"]) for row in rows])
    train, decided = np.setdiff1d(np.arange(y.size), test), test[y[test] != 0.5]
    options = {"likelihood": "probit-ties", "order_effect": True, "random_state": 0}
    crowd = CrowdGPPL(**options).fit(X[train], y[train])
    pooled = GPPLClassifier(**options).fit(X[train, 1:], y[train])
    personal, same = crowd.predict_proba(X[decided])[:, 1], pooled.predict_proba(X[decided, 1:])[:, 1]
    # Over five splits: .769 / .495 against .710 / .570 of pooled GPPL and .707 / .574 of crowd-kit's Bradley-Terry.
    assert pair_accuracy(y[decided], personal) > 0.74 > pair_accuracy(y[decided], same)
    assert cross_entropy(y[decided], personal) < 0.53 < cross_entropy(y[decided], same)
    assert crowd.factor_scales_[0] > 0.0
    factorised = CrowdGPPL(inference="vb", **options).fit(X[train], y[train])
    assert 1 <= np.count_nonzero(factorised.factor_scales_) < 20
