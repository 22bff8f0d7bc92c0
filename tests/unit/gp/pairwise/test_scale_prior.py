"""Scales of utilities that are known: scale_prior=Fixed(value)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from skpref import SVI, CrowdGPPL, Fixed, Gamma, GPPLClassifier, GPPLRegressor, Table, load, save
from skpref.inference.scale import FixedScale
from skpref.search import default_space

RNG = np.random.default_rng(4)
X = RNG.normal(size=(6, 2))
LEFT = RNG.integers(0, 6, 60)
RIGHT = (LEFT + RNG.integers(1, 6, 60)) % 6
Y = (X[LEFT, 0] - X[RIGHT, 0] + RNG.normal(size=60) > 0.0).astype(int)
PAIRS, USERS = np.column_stack([LEFT, RIGHT]), RNG.integers(0, 5, 60)
HOME = {"left": 0, "right": 1, "covariates": {"home": 2}}
WITH_HOME = np.column_stack([PAIRS, RNG.integers(-1, 2, 60)])
KERNEL = {"optimizer": None, "random_state": 0}


def classifier(**options):
    return GPPLClassifier(Table(X), **KERNEL, **HOME, order_effect=True, **options).fit(WITH_HOME, Y)


def regressor(**options):
    winners = np.where(Y[:, None] == 1, PAIRS, PAIRS[:, ::-1])
    return GPPLRegressor(**KERNEL, **options).fit(X, comparisons=winners)


def crowd(**options):
    model = CrowdGPPL(Table(X), n_factors=1, inference="vb", order_effect=True, **KERNEL, **options)
    return model.fit(np.column_stack([USERS, PAIRS]), Y)


def personal(**options):
    model = CrowdGPPL(Table(X), n_factors=1, inference="ep", **KERNEL, **options)
    return model.fit(np.column_stack([USERS, PAIRS]), Y)


def moments(model):
    of_items = (X,) if isinstance(model, GPPLRegressor) else ()
    return np.array(model.predict(*of_items, return_std=True) if of_items else model.utility(return_std=True))


@pytest.mark.parametrize("value", [0.25, 4.0])
@pytest.mark.parametrize("fitted", [classifier, regressor, crowd, personal])
def test_a_known_scale_is_the_limit_of_narrow_gamma_priors(fitted, value):
    known = fitted(scale_prior=Fixed(value))
    narrow = fitted(scale_prior=Gamma(1e6 * min(value, 1.0), 1e6 * min(value, 1.0) / value))
    other = fitted(scale_prior=Fixed(16.0 * value))
    assert_allclose(moments(known), moments(narrow), atol=2e-3)
    assert np.max(np.abs(moments(known) - moments(other))) > 0.02
    scales = {name: s for name, s in known.posterior_.scales.items() if name != "order" and name[0] not in "vw"}
    assert set(scales.values()) == {FixedScale(value)}
    wanted = {classifier: {"f", "offset", "covariate"}, regressor: {"f"}, crowd: {"f", "offset", "bias"}}
    assert scales.keys() >= wanted.get(fitted, {"f", "offset"})


@pytest.mark.parametrize("inference", ["vb", "svi", "laplace", "linearised"])
def test_every_inference_keeps_the_scale(inference):
    model = GPPLClassifier(
        inference=SVI(20) if inference == "svi" else inference, scale_prior=Fixed(2.0), tol=1e-2, random_state=0
    )
    model.fit(PAIRS, Y)
    assert model.scale_ == FixedScale(2.0)
    assert np.isfinite(model.lower_bound_)
    model.partial_fit(PAIRS[:5], Y[:5])
    assert model.scale_ == FixedScale(2.0)


def test_it_is_a_parameter_like_others(tmp_path):
    model = classifier(scale_prior=Fixed(2.0))
    assert clone(model).get_params()["scale_prior"] == Fixed(2.0)
    assert "scale_prior=Fixed(value=2.0)" in repr(model)
    assert model.set_params(scale_prior=Fixed(2.0)).scale_prior == Fixed(2.0)
    save(model, tmp_path / "model.skpref")
    again = load(tmp_path / "model.skpref")
    assert (again.scale_prior, again.scale_) == (Fixed(2.0), FixedScale(2.0))
    assert np.array_equal(moments(again), moments(model))


def test_a_search_leaves_a_known_scale_alone():
    names = {"scale_prior__shape", "scale_prior__rate"}
    assert names <= default_space(GPPLClassifier()).keys()
    assert not names & default_space(GPPLClassifier(scale_prior=Fixed(1.0))).keys()


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "1", None])
def test_a_scale_is_a_positive_number(value):
    with pytest.raises(InvalidParameterError, match="'value' parameter of Fixed must be a float in the range"):
        GPPLClassifier(scale_prior=Fixed(value)).fit(PAIRS, Y)


@pytest.mark.parametrize("value", [1e-6, 1e6])
@pytest.mark.parametrize("fitted", [classifier, regressor, crowd, personal])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scales_at_the_limits_give_finite_numbers(fitted, value):
    assert np.isfinite(moments(fitted(scale_prior=Fixed(value), max_iter=20))).all()
