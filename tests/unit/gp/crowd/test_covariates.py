"""CrowdGPPL learns effects of covariates that all users share."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skpref import CrowdGPPL, Gamma, GPPLClassifier
from skpref.exceptions import DataError
from skpref.plots import CovariateEffectsDisplay, offscreen_axes

NAMES = {"user": "judge", "left": "a", "right": "b"}
COVARIATES = ["home", ("length_a", "length_b")]


@pytest.fixture(scope="module")
def battles():
    rng = np.random.default_rng(0)
    n, n_items, n_users = 1200, 6, 20
    user, a = rng.integers(0, n_users, n), rng.integers(0, n_items, n)
    b = (a + rng.integers(1, n_items, n)) % n_items
    worth = np.linspace(-1.0, 1.0, n_items) + 1.0 * np.outer(rng.normal(size=n_users), rng.normal(size=n_items))
    home, length = rng.choice([-1, 1], n), 100.0 * rng.normal(size=(2, n))
    z = worth[user, a] - worth[user, b] + 0.5 * home + 0.004 * (length[0] - length[1])
    frame = pd.DataFrame({"judge": user, "a": a, "b": b, "home": home, "length_a": length[0], "length_b": length[1]})
    return frame, (rng.random(n) < ndtr(z)).astype(int)


def quick(**options):
    return CrowdGPPL(**{"n_factors": 2, "random_state": 0, "tol": 0.1, **NAMES, **options})


@pytest.fixture(scope="module")
def model(battles):
    return quick(covariates=COVARIATES).fit(*battles)


def test_effects_are_learnt_beside_tastes(battles, model):
    X, y = battles
    assert model.covariate_names_.tolist() == ["home", "length_a - length_b"]
    assert (np.abs(model.coef_ - [0.5, 0.004]) < 3.0 * model.coef_std_).all()
    assert model.coef_std_ == pytest.approx([0.06, 0.0005], rel=0.5)
    assert model.covariate_table()["name"].tolist() == model.covariate_names_.tolist()
    # Without tastes, effects are too small: differences of taste look like noise.
    pooled = GPPLClassifier(covariates=COVARIATES, left="a", right="b").fit(X, y)
    assert (pooled.coef_ < model.coef_).all()
    assert model.score(X, y) > quick().fit(X, y).score(X, y) + 0.03


def test_without_factors_it_is_the_model_of_all(battles):
    X, y = battles
    crowd = quick(covariates=COVARIATES, n_factors=0, scale_prior=Gamma(1.0, 1.0), tol=1e-6).fit(X, y)
    pooled = GPPLClassifier(covariates=COVARIATES, left="a", right="b", scale_prior=Gamma(1.0, 1.0), tol=1e-6).fit(X, y)
    assert_allclose(crowd.coef_, pooled.coef_, rtol=1e-4)
    assert_allclose(crowd.coef_std_, pooled.coef_std_, rtol=1e-4)
    assert_allclose(crowd.predict_proba(X), pooled.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("options", [{"consensus": False}, {"order_effect": True}, {"likelihood": "logit"}])
def test_kinds_of_models(battles, options):
    X, y = battles
    fitted = quick(covariates=COVARIATES, **options).fit(X, y)
    assert (fitted.coef_ > 0.0).all()
    assert len(fitted.covariate_table()) == 2 + ("order_effect" in options)


def test_predictions_with_and_without_covariates(battles, model):
    X = battles[0][:20]
    ids = X[["judge", "a", "b"]]
    controlled = model.latent_mean_and_variance(ids)[0]
    values = np.column_stack([X["home"], X["length_a"] - X["length_b"]])
    assert_allclose(model.latent_mean_and_variance(X)[0], controlled + values @ model.coef_)
    assert_allclose(model.predict_proba(ids), model.predict_proba(X.assign(home=0, length_a=0, length_b=0)))
    assert_allclose(model.predict_preference(X), model.predict_preference(ids))
    mine = X[X["judge"] == X["judge"].iloc[0]]
    variance = np.diagonal(model.latent_covariance(mine))
    assert_allclose(variance, model.latent_mean_and_variance(mine)[1], rtol=1e-6)
    unseen = X.assign(judge=99)
    shift = model.latent_mean_and_variance(unseen)[0] - model.latent_mean_and_variance(unseen[["judge", "a", "b"]])[0]
    assert_allclose(shift, values @ model.coef_)


def test_tools_take_the_frame(battles, model):
    X, y = battles
    grid = {"covariates": [None, COVARIATES]}
    search = GridSearchCV(quick(n_factors=0), grid, cv=2, scoring="neg_log_loss", error_score="raise").fit(X, y)
    assert search.best_params_ == {"covariates": COVARIATES}
    assert len(CovariateEffectsDisplay.from_estimator(model, ax=offscreen_axes()).ax_.get_yticks()) == 2


def test_later_comparisons(battles):
    X, y = battles
    parts = quick(covariates=["home"], n_factors=0, tol=1e-6).partial_fit(X[:600], y[:600])
    parts.partial_fit(X[600:], y[600:])
    whole = quick(covariates=["home"], n_factors=0, tol=1e-6).fit(X, y)
    assert_allclose(parts.coef_, whole.coef_, rtol=1e-3)
    parts.partial_fit([[0, 1, 2]], [1])  # a row of ids has covariates of 0
    with pytest.raises(DataError, match=r"covariates differs from that of the fit, which had \['home'\]; got \[\]"):
        parts.set_params(covariates=None).partial_fit(X, y)
    with pytest.raises(DataError, match="covariates differs from that of the fit"):
        parts.predict(X)


def test_a_damaged_model_has_other_covariates(model):
    damaged = clone(model)
    damaged.__dict__.update(model.__dict__)
    damaged.covariate_names_ = model.covariate_names_[:1]
    with pytest.raises(DataError, match="covariate_names_ must be the names of the covariates"):
        damaged._check_fitted()
