"""The log loss of choices."""

import numpy as np
import pytest
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skpref import GPPLClassifier
from skpref.exceptions import DataError
from skpref.metrics import choice_log_loss, choice_log_loss_scorer

P = np.array([[0.5, 0.3, 0.2], [0.25, 0.25, 0.5], [1.0, 0.0, 0.0]])


def test_it_is_the_log_loss_of_positions():
    assert choice_log_loss([0, 2, 0], P) == pytest.approx(log_loss([0, 2, 0], P, labels=[0, 1, 2]))
    assert choice_log_loss([0, 2, 0], P, sample_weight=[1, 0, 0]) == pytest.approx(np.log(2.0))
    assert choice_log_loss([0, 2, 1], P) == pytest.approx((np.log(2.0) * 2 + 36.04) / 3, abs=1e-2)


@pytest.mark.parametrize(
    ("y", "p", "weight", "text"),
    [
        ([0, 3, 0], P, None, "positions from 0 to 2"),
        ([0, 1], P, None, "3 positions"),
        ([0.0, 1.0, 0.0], P, None, "positions"),
        ([0, 1, 0], 2.0 * P, None, "sum to 1"),
        ([0, 1, 0], P, [0, 0, 0], "all weights are 0"),
    ],
)
def test_bad_input_is_refused(y, p, weight, text):
    with pytest.raises(DataError, match=text):
        choice_log_loss(y, p, sample_weight=weight)


def test_the_scorer_takes_answers_of_all_forms():
    X = np.array([["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"]] * 5)
    model = GPPLClassifier().fit(X, np.array(["a", "a", "b"] * 5))
    wanted = -choice_log_loss(np.array([0, 1, 0] * 5), model.predict_proba(X))
    for y in (["a", "a", "b"], [0, 1, 0], [[1, 2, np.nan], [2, 1, 3], [1, 3, 2]]):
        assert choice_log_loss_scorer(model, X, np.array(y * 5)) == pytest.approx(wanted)
    piped = make_pipeline(FunctionTransformer(), GPPLClassifier()).fit(X, np.array(["a", "a", "b"] * 5))
    assert choice_log_loss_scorer(piped, X, np.array(["a", "a", "b"] * 5)) == pytest.approx(wanted)
    pairs = GPPLClassifier().fit(X[:, :2], np.ones(15))
    with pytest.raises(DataError, match="fitted to tasks"):
        choice_log_loss_scorer(pairs, X[:, :2], np.ones(15))
