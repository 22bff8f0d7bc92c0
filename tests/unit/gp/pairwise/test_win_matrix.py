"""Matrices of wins, predicted and observed."""

import numpy as np
import pytest

from skpref import GPPLClassifier


@pytest.fixture(scope="module")
def model():
    pairs = [["a", "b"], ["b", "a"], ["a", "b"], ["b", "c"], ["c", "b"], ["c", "d"]]
    return GPPLClassifier(order_effect=True).fit(pairs, [1, 0, 0.5, 1, 1, 0], [1, 1, 2, 1, 1, 1])


def test_predicted_shares_are_probabilities_without_the_order_effect(model):
    ids = ["c", "a", "b"]
    wins = model.win_matrix(ids)
    assert wins.id.tolist() == ids
    assert np.isnan(np.diagonal(wins.predicted)).all()
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose((wins.predicted + wins.predicted.T)[off], 1.0)
    mean, covariance = model.utility(["c", "a"], return_cov=True)
    variance = covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1]
    expected = model.likelihood_.predict(mean[:1] - mean[1:], np.array([variance]))[0]
    assert wins.predicted[0, 1] == pytest.approx(expected)


def test_observed_shares_are_those_of_the_comparisons(model):
    wins = model.win_matrix(["a", "b", "c", "d"])
    assert wins.n_comparisons.tolist() == [[0, 4, 0, 0], [4, 0, 2, 0], [0, 2, 0, 1], [0, 0, 1, 0]]
    assert wins.observed[0, 1] == pytest.approx(3 / 4)  # a win, a win on the right, a tie of weight 2
    assert wins.observed[1, 0] == pytest.approx(1 / 4)
    assert wins.observed[1, 2] == pytest.approx(0.5)
    assert wins.observed[2, 3] == 0.0
    assert np.isnan(wins.observed[0, 2])


def test_items_come_from_best_to_worst_and_may_be_unseen(model):
    assert model.win_matrix().id.tolist() == model.rank().id.tolist()
    pd = pytest.importorskip("pandas")
    frame = model.win_matrix(["a", "c"]).to_frame("n_comparisons")
    assert isinstance(frame, pd.DataFrame)
    assert frame.loc["a", "c"] == 0.0


def test_repeated_items_are_refused(model):
    with pytest.raises(ValueError, match="items must be distinct in a win_matrix; got 3, 2 distinct"):
        model.win_matrix(["a", "b", "a"])
    with pytest.raises(ValueError, match="win_matrix needs at least 1 item; got none"):
        model.win_matrix([])


def test_a_notebook_shows_the_predictions():
    wins = GPPLClassifier().fit([["<tea>", "coffee"], ["coffee", "<tea>"], ["<tea>", "coffee"]], [1, 1, 1]).win_matrix()
    text = wins._repr_html_()
    assert text is not None
    assert "&lt;tea&gt;" in text
    assert f"{wins.predicted[0, 1]:.3f}".rstrip("0") in text


def test_a_matrix_prints_as_a_table_of_the_first_items(model):
    text = repr(model.win_matrix(["a", "b"]))
    p = model.win_matrix(["a", "b"]).predicted
    assert text == (
        "WinMatrix of 2 items: predicted P(row wins over column)\n"
        f"      a     b\na   nan  {p[0, 1]:.2f}\nb  {p[1, 0]:.2f}   nan"
    )
    names = [f"a name of many letters {i}" for i in range(40)]
    many = repr(GPPLClassifier().fit([[names[0], name] for name in names[1:]]).win_matrix()).splitlines()
    assert many[0] == "WinMatrix of 40 items: predicted P(row wins over column), of the first 8"
    assert len(many) == 10
    assert max(map(len, many)) <= 125
