"""`decision_function` of all classifiers of two classes is positive where the second is likelier, and sorts alike."""

import numpy as np
import pytest
from scipy.special import expit, ndtr

from skpref import GPPLClassifier, VariationalFMClassifier

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = (X[:, 0] + 0.3 * RNG.normal(size=40) > 0.0).astype(int)
PAIRS = RNG.permuted(np.tile(np.arange(5), (40, 1)), axis=1)[:, :2]
CASES = {
    "machine, probit": (VariationalFMClassifier(max_iter=5, random_state=0), X, ndtr),
    "machine, logit": (VariationalFMClassifier(link="logit", max_iter=5, random_state=0), X, expit),
    "pairs, probit": (GPPLClassifier(), PAIRS, None),
    "pairs, logit": (GPPLClassifier(likelihood="logit"), PAIRS, None),
}


@pytest.mark.parametrize("case", CASES)
def test_decisions_agree_with_probabilities(case):
    model, rows, link = CASES[case]
    model.fit(rows, Y)
    decision, p = model.decision_function(rows), model.predict_proba(rows)[:, 1]
    np.testing.assert_array_equal(decision > 0.0, p > 0.5)
    if link is not None:  # the decision of a pair is its mean, whatever its variance
        order = np.argsort(decision, kind="stable")
        assert np.all(np.diff(p[order]) >= -1e-12)
        np.testing.assert_allclose(link(decision), p, rtol=1e-9)
