"""What `GPOrdinalRegressor` does by default: kernels and likelihoods chosen by evidence at samples of rows."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from skpref import LBFGS, GPOrdinalRegressor
from skpref.exceptions import DataError
from skpref.likelihoods import OrdinalLogit, OrdinalRobust
from tests.policies import set_policy

_rng = np.random.default_rng(7)
X = _rng.standard_normal((40, 2))
Y = np.digitize(X[:, 0] + 0.4 * np.sin(2.0 * X[:, 1]) + 0.3 * _rng.standard_normal(40), [-0.8, 0.0, 0.8])
NEW = _rng.standard_normal((9, 2))
KERNEL = RBF([1.2, 1.2])


@pytest.fixture(scope="module")
def many():
    """Rows that the default searches in samples of."""
    rng = np.random.default_rng(11)
    rows = rng.standard_normal((60, 2))
    return rows, np.digitize(np.sin(2.0 * rows[:, 0]) + 0.3 * rng.standard_normal(60), [-0.5, 0.5])


def test_the_default_searches_samples_and_fits_thresholds_to_all_rows(many, monkeypatch):
    rows, y = many
    set_policy(monkeypatch, "gp.ordinal", few_rows=25, more_rows=40)
    model = GPOrdinalRegressor(random_state=0).fit(rows, y)
    assert model.posterior_.alpha.shape == (60,)
    assert model.converged_
    shuffled = np.random.default_rng(0).permutation(60)
    other = GPOrdinalRegressor(random_state=0).fit(rows[shuffled], y[shuffled])
    assert_allclose(model.predict_proba(NEW), other.predict_proba(NEW), atol=1e-12)
    # The sum of what each row's level is given by the other rows has no slope in thresholds and noise.
    theta = np.r_[model.kernel_.theta, model.likelihood_.theta]
    _, slope = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert np.all(np.abs(slope[model.kernel_.n_dims :]) < 1.5)


def test_a_default_through_inducing_points_learns_its_kernel_at_rows(many):
    rows, y = many
    sparse_model = GPOrdinalRegressor(n_max_exact=50, inducing=30, random_state=0).fit(rows, y)
    assert sparse_model.inference_ == "vb"
    exact = GPOrdinalRegressor(random_state=0, likelihood="probit").fit(rows, y)
    assert_allclose(sparse_model.predict_proba(rows), exact.predict_proba(rows), atol=0.1)


@pytest.mark.parametrize(("name", "kind"), [("logit", OrdinalLogit), ("robust", OrdinalRobust)])
@pytest.mark.parametrize("kernel", ["auto", "linear", KERNEL])
def test_likelihoods(name, kind, kernel):
    model = GPOrdinalRegressor(kernel, likelihood=name, optimizer=LBFGS(0), random_state=0).fit(X, Y)
    assert all(isinstance(member.likelihood, kind) for member in model.ensemble_)
    assert isinstance(pickle.loads(pickle.dumps(model)).likelihood_, kind)
    assert clone(model).likelihood == name
    p = model.predict_proba(NEW)
    assert_allclose(p.sum(axis=1), 1.0)
    probit = GPOrdinalRegressor(kernel, likelihood="probit", optimizer=LBFGS(0), random_state=0).fit(X, Y)
    assert_allclose(p, probit.predict_proba(NEW), atol=0.2)


@pytest.mark.parametrize("inference", ["ep", "laplace"])
@pytest.mark.parametrize("name", ["logit", "robust"])
def test_gradients_of_the_evidence_of_likelihoods(name, inference):
    model = GPOrdinalRegressor(KERNEL, likelihood=name, inference=inference, optimizer=None, max_iter=500).fit(X, Y)
    theta = np.r_[KERNEL.theta, model.likelihood_.theta] + 0.1
    _, slope = model.log_marginal_likelihood(theta, eval_gradient=True)
    for k, step in enumerate(1e-3 * np.eye(theta.size)):
        ends = [model.log_marginal_likelihood(theta + sign * step) for sign in (-1.0, 1.0)]
        assert slope[k] == pytest.approx((ends[1] - ends[0]) / 2e-3, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("inference", ["vb", "svi"])
def test_other_likelihoods_need_exact_inference(inference):
    with pytest.raises(DataError, match=r"likelihood='logit' needs inference='ep' or 'laplace'; got '(vb|svi)'"):
        GPOrdinalRegressor(likelihood="logit", inference=inference).fit(X, Y)
