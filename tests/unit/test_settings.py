"""Parameters that have parameters: SVI, Inducing, priors, optimizers, checkpoints."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skpref
from skpref import (
    LBFGS,
    SVI,
    Adam,
    Checkpoint,
    CrowdGPPL,
    FactorPrior,
    Fixed,
    Gamma,
    GPOrdinalRegressor,
    GPPLClassifier,
    GPPLRegressor,
    Inducing,
    SVGPClassifier,
    SVGPRegressor,
    load,
    save,
)
from skpref.exceptions import DataError

SETTINGS = [
    SVI(5, 2.0, 0.7),
    Inducing(7, "random"),
    Gamma(2.0, 3.0),
    Fixed(0.5),
    FactorPrior(item_scale=Gamma(2.0, 3.0)),
    LBFGS(2),
    Adam(0.1),
    Checkpoint("run.ckpt", 3.0),
]
ESTIMATORS = [GPPLClassifier, GPPLRegressor, CrowdGPPL, GPOrdinalRegressor, SVGPRegressor, SVGPClassifier]
X = np.random.default_rng(0).normal(size=(40, 2))
Y = X[:, 0] > 0.0


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: type(s).__name__)
def test_settings_are_values(settings):
    for copy in (clone(settings), pickle.loads(pickle.dumps(settings)), type(settings)(**settings.get_params(False))):
        assert copy == settings
        assert hash(copy) == hash(settings)
        assert repr(copy) == repr(settings)
    assert settings != SVI(6)
    assert settings != "svi"


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_parameters_of_settings_are_parameters_of_the_estimator(cls):
    model = cls()
    params = model.get_params()
    assert (params["inference__delay"], params["inducing__method"]) == (1.0, "kmeans++")
    assert model.set_params(**params).get_params() == params  # what is by default makes no settings
    assert model.inference == "auto"
    model.set_params(inference__batch_size=9, inducing__n=5)
    assert (model.inference, model.inducing) == (SVI(9), Inducing(5))
    assert model.get_params()["inference__batch_size"] == 9
    assert cls().get_params() == params  # the defaults themselves are not changed
    again = clone(model)
    assert again.inference == model.inference
    assert again.inference is not model.inference
    assert model.set_params(inference="svi", inference__delay=2.0).inference == SVI(delay=2.0)
    with pytest.raises(ValueError, match="Invalid parameter 'size'"):
        model.set_params(inference__size=3)


def test_a_number_of_points_is_kept():
    model = GPPLClassifier(inducing=50)
    assert model.get_params()["inducing__n"] == 50
    assert model.set_params(inducing__method="random").inducing == Inducing(50, "random")


@pytest.mark.parametrize(
    ("model", "params", "message"),
    [
        (GPPLClassifier(inference="laplace"), {"inference__batch_size": 9}, r"inference='laplace' has no .*pass SVI"),
        (GPPLClassifier(), {"inference": "vb", "inference__batch_size": 9}, r"inference='vb' has no .*pass SVI"),
        (GPPLClassifier(inducing=X[:3]), {"inducing__n": 5}, r"(?s)inducing=array.* has no .*pass Inducing"),
        (GPOrdinalRegressor(optimizer=None), {"optimizer__n_restarts": 1}, r"optimizer=None has no .*pass LBFGS"),
        (SVGPRegressor(), {"optimizer__learning_rate": 0.1}, r"optimizer='l-bfgs-b' has no .*pass Adam"),
    ],
)
def test_what_stands_for_no_settings_has_no_parameters(model, params, message):
    before = model.get_params(deep=False)
    with pytest.raises(DataError, match=message):
        model.set_params(**params)
    assert {name: value is before[name] for name, value in model.get_params(deep=False).items()} == dict.fromkeys(
        before, True
    )


def test_nested_settings_are_reached():
    model = CrowdGPPL().set_params(factor_prior__item_scale__rate=4.0)
    assert model.factor_prior == FactorPrior(item_scale=Gamma(2.0, 4.0), user_scale=Gamma(2.0, 0.2))
    assert model.get_params()["factor_prior__item_scale__rate"] == 4.0


def test_a_grid_reaches_settings_through_a_pipeline():
    model = make_pipeline(StandardScaler(), SVGPClassifier(optimizer=None, random_state=0, tol=1e-2))
    grid = {"svgpclassifier__inducing": [3, Inducing(4, "random")], "svgpclassifier__inference__batch_size": [10, 20]}
    search = GridSearchCV(model, grid, cv=2).fit(X, Y)
    assert search.best_estimator_[-1].inference.batch_size in {10, 20}
    assert search.best_estimator_[-1].inference_ == "svi"


def test_settings_are_saved(tmp_path):
    model = SVGPRegressor(inducing=Inducing(6), inference=SVI(20), optimizer=Adam(0.05), tol=0.5, random_state=0)
    model.fit(X, X[:, 0])
    save(model, tmp_path / "model.skpref")
    again = load(tmp_path / "model.skpref")
    assert again.get_params() == model.get_params()
    assert np.array_equal(again.predict(X), model.predict(X))


def test_numbers_of_parameters():
    # The budget of the redesign: what a user means is a parameter, what one method needs is in its settings. The column
    # of times, what moves, groups, context and teams came later: the issues on time and choices ask for these by name.
    assert len(GPPLClassifier().get_params(deep=False).keys() - {"time", "dynamics", "groups", "context", "team"}) <= 20
    assert len(CrowdGPPL().get_params(deep=False).keys() - {"time", "context"}) <= 27
    assert all(hasattr(skpref, type(settings).__name__) for settings in SETTINGS)
