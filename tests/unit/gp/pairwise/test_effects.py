"""The table of effects."""

import importlib.util
from statistics import NormalDist

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref import GPPLClassifier
from skpref.gp.pairwise.effects import CovariateEffects


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = np.column_stack([*np.array([rng.permutation(4)[:2] for _ in range(200)]).T, rng.normal(size=200)])
    return GPPLClassifier(covariates=[2], likelihood="logit", order_effect=True).fit(X, rng.integers(0, 2, 200))


def test_columns_follow_from_mean_and_std(model):
    table = model.covariate_table(credibility=0.8)
    assert list(table["name"]) == ["2", "left side"]
    effect, std = np.asarray(table["effect"]), np.asarray(table["std"])
    assert_allclose(effect, [model.coef_[0], model.order_effect_[0]])
    assert_allclose(std, [model.coef_std_[0], model.order_effect_[1]])
    width = NormalDist().inv_cdf(0.9) * std
    assert_allclose(table["effect_high"], effect + width)
    assert_allclose(table["effect_low"], effect - width)
    assert_allclose(table["odds_ratio"], np.exp(effect))
    assert_allclose(table["probability_positive"], [NormalDist().cdf(z) for z in effect / std])


@pytest.mark.parametrize("likelihood", ["probit-ties", "logit-ties", "davidson"])
def test_odds_are_those_of_answers_that_are_no_ties(likelihood):
    X, y = [("x", "y"), ("y", "x"), ("x", "y"), ("y", "x")] * 10, [1, 0.5, 0.5, 1] * 10
    model = GPPLClassifier(likelihood=likelihood, order_effect=True).fit(X, y)
    effect = np.array([model.order_effect_[0]])
    left, _, right = model.likelihood_.predict_answers(effect, np.zeros(1))[0]
    assert_allclose(model.covariate_table()["odds_ratio"], left / right)


def test_typical_sizes_are_those_of_the_comparisons_and_one_of_the_side():
    X = [["x", "y", 3.0], ["y", "z", -4.0], ["z", "x", 0.0], ["x", "z", 5.0]]
    for order_effect, side in ((False, []), (True, [1.0])):
        model = GPPLClassifier(covariates=[2], order_effect=order_effect).fit(X, [1, 0, 0, 1])
        typical = np.asarray(model.covariate_table()["typical"])
        assert_allclose(typical, [np.sqrt(50.0 / 3.0), *side])  # of those that are not 0


def test_no_effects_make_an_empty_table():
    assert len(GPPLClassifier().fit([["a", "b"], ["b", "c"]]).covariate_table()) == 0


def test_coefficients_go_with_the_covariates():
    X = [["x", "y", 3.0], ["y", "z", -4.0], ["z", "x", 0.0], ["x", "z", 5.0]]
    model = GPPLClassifier(covariates=[2], random_state=0).fit(X, [1, 0, 0, 1])
    assert model.coef_.shape == model.coef_std_.shape == (1,)
    model.set_params(covariates=None).fit([row[:2] for row in X], [1, 0, 0, 1])
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "coef_std_")


def test_without_pandas_the_record_is_returned(model, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    table = model.covariate_table()
    assert isinstance(table, CovariateEffects)
    assert len(table) == 2
    assert list(table.columns()) == [
        *("name", "effect", "std", "effect_low", "effect_high"),
        *("odds_ratio", "probability_positive", "typical"),
    ]


def test_credibility_is_checked(model):
    with pytest.raises(ValueError, match="credibility"):
        model.covariate_table(credibility=1.5)
