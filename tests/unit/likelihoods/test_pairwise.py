import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import log_ndtr

from skpref.exceptions import SkprefError
from skpref.likelihoods import Gaussian, PairwiseLikelihood, PairwiseLogit, PairwiseProbit
from skpref.likelihoods.pairwise import beta_binomial_variance

PROBIT, LOGIT = PairwiseProbit(), PairwiseLogit()
BOTH = pytest.mark.parametrize("likelihood", [PROBIT, LOGIT])
LABEL = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.0, 1.0))


class Reference:
    """One file of reference/gppl_probit, with the Gaussian algebra it leaves to the reader."""

    def __init__(self, path):
        self.numbers = json.loads(path.read_text("utf-8"))
        config = self.config = self.numbers["config"]
        left, right = np.array(config["pairs"]).T
        self.y = np.array(config["y"], dtype=float)
        self.differences = np.eye(len(config["X"]))[left] - np.eye(len(config["X"]))[right]
        self.prior = self.kernel("X", "X") / config["s"]

    def kernel(self, rows, columns):
        a, b = np.array(self.config[rows]), np.array(self.config[columns])
        r = np.abs(a[:, None] - b) / np.array(self.config["lengthscales"])
        if self.config["kernel"] == "rbf":
            return np.exp(-0.5 * (r * r).sum(-1))
        return ((1.0 + np.sqrt(3.0) * r) * np.exp(-np.sqrt(3.0) * r)).prod(-1)

    def projections(self, mean, covariance):
        d = self.differences
        return d @ mean, np.einsum("pi,ij,pj->p", d, covariance, d)

    def dense_q(self):
        chol = np.array(self.config["q_chol"])
        return self.projections(np.array(self.config["q_mean"]), chol @ chol.T)

    def sparse_q(self):
        config, kmm = self.config, self.kernel("Z", "Z")
        a = np.linalg.solve(kmm, self.kernel("Z", "X")).T
        chol = np.array(config["sparse_q_chol"])
        covariance = self.prior + a @ (chol @ chol.T - kmm / config["s"]) @ a.T
        return self.projections(a @ np.array(config["sparse_q_mean"]), covariance)


@pytest.fixture(params=["rbf_n4_p6", "matern32_product_n4_p6"])
def reference(shared, request):
    return Reference(shared / "reference" / "gppl_probit" / f"{request.param}.json")


# ----------------------------------------------------------------------------------------------------------- reference
def test_expected_log_likelihood_of_the_reference(reference):
    value, _, _ = PROBIT.expectation(reference.y, *reference.dense_q())
    assert_allclose(value, reference.numbers["elbo_at_given_q"]["expected_loglik_terms"], rtol=1e-11)


def test_expectation_and_derivatives_of_the_sparse_reference(reference):
    value, d_mu, d_v = PROBIT.expectation(reference.y, *reference.sparse_q())
    sparse = reference.numbers["sparse"]
    step = sparse["natural_gradient_step_exact_likelihood"]
    assert_allclose(value, sparse["elbo_at_given_q"]["expected_loglik_terms"], rtol=1e-10)
    assert_allclose(d_mu, step["alpha"], rtol=1e-9)
    assert_allclose(-2.0 * d_v, step["lam"], rtol=1e-9)


def test_beta_binomial_variance_of_the_reference(reference):
    _, v = reference.projections(np.zeros(4), reference.prior)
    wanted = reference.numbers["linearised_fixed_points"]["phi_beta_binomial"]
    assert_allclose(beta_binomial_variance(v), wanted["Q"], rtol=1e-12)
    gamma = np.array(wanted["gamma0"])
    assert_allclose(1.0 / (4.0 * (2.0 * gamma + 1.0)), np.arcsin(v / (1.0 + v)) / (2.0 * np.pi), rtol=1e-10)


# ------------------------------------------------------------------------------------------------------------ one pair
@BOTH
def test_one_comparison_with_a_symmetric_prior_has_log_one_half(likelihood):
    # Test programme G2.
    log_z, _, _ = likelihood.tilted([0.0, 1.0, 1.0], 0.0, [0.0, 2.0, 300.0])
    assert_allclose(log_z, np.log(0.5), rtol=1e-9)


@pytest.mark.parametrize("mu", [-3.0, 0.4, 6.0])
@pytest.mark.parametrize("v", [0.02, 0.9, 7.0])
def test_logistic_prediction_against_adaptive_quadrature(mu, v):
    def integrand(x):
        return np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi) / (1.0 + np.exp(-mu - np.sqrt(v) * x))

    wanted, _ = quad(integrand, -12.0, 12.0, epsabs=1e-13, epsrel=1e-13, limit=200)
    assert_allclose(LOGIT.predict(mu, v), wanted, atol=1e-10)


@BOTH
@given(v=st.floats(0.0, 100.0), mu=st.floats(-20.0, 20.0), step=st.floats(0.01, 5.0))
def test_predictions_rise_with_the_mean_and_flatten_with_the_variance(likelihood, v, mu, step):
    p = float(likelihood.predict(mu, v))
    assert likelihood.predict(mu + step, v) >= p - 1e-9
    assert abs(likelihood.predict(mu, v + step) - 0.5) <= abs(p - 0.5) + 1e-9


# -------------------------------------------------------------------------------------------------------------- tilted
# ---------------------------------------------------------------------------------------------------------- linearised
@given(v=st.floats(0.0, 1e4))
def test_beta_binomial_variance_is_a_variance_of_an_answer(v):
    assert 0.0 < beta_binomial_variance(v) <= 0.25


@given(y=LABEL, mu=st.floats(-100.0, 100.0), v=st.floats(0.0, 100.0), prior=st.floats(0.0, 100.0))
def test_the_linearised_site_is_linear_in_the_label(y, mu, v, prior):
    won, lost, mixed = (np.array(PROBIT.linearised(label, mu, v, prior)) for label in (1.0, 0.0, y))
    assert_allclose(mixed, y * won + (1.0 - y) * lost, rtol=1e-12, atol=1e-12)
    weight, gradient = PROBIT.linearised(1.0 - y, -mu, v, prior)  # the sides exchanged
    assert_allclose([weight, -gradient], mixed, rtol=1e-9, atol=1e-12)


@given(y=LABEL, mu=st.floats(-100.0, 100.0), v=st.floats(0.0, 100.0), prior=st.floats(0.0, 100.0))
def test_linearised_site_pulls_towards_the_answer(y, mu, v, prior):
    weight, gradient = PROBIT.linearised(y, mu, v, prior)
    assert np.isfinite(weight)
    assert weight >= 0.0
    assert gradient * (y - PROBIT.predict(mu, v)) >= 0.0


def test_linearised_matches_its_formula():
    y, mu, v, prior = 1.0, 0.7, 0.5, 1.2
    z_hat = mu / np.sqrt(1.0 + v)
    g = np.exp(-0.5 * z_hat**2) / np.sqrt(2.0 * np.pi)
    weight, gradient = PROBIT.linearised(y, mu, v, prior)
    target = mu + (y - np.exp(log_ndtr(z_hat))) / g
    assert_allclose(weight, g * g / beta_binomial_variance(prior), rtol=1e-14)
    assert_allclose(gradient, weight * (target - mu), rtol=1e-13)


@pytest.mark.parametrize("likelihood", [LOGIT, Gaussian()])
def test_only_the_probit_can_be_linearised(likelihood):
    with pytest.raises(SkprefError, match=f"{type(likelihood).__name__} has no linearised rule.*inference"):
        likelihood.linearised(1.0, 0.0, 1.0, 1.0)


# ------------------------------------------------------------------------------------------------------------- the rest


@BOTH
def test_memory_does_not_hold_all_nodes(likelihood):
    tracemalloc = pytest.importorskip("tracemalloc")
    n = 200_000
    y, mu, v = np.ones(n), np.zeros(n), np.full(n, 4.0)
    likelihood.expectation(y[:10], mu[:10], v[:10])
    tracemalloc.start()
    likelihood.expectation(y, mu, v)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 51 nodes an observation would be 82 MB an array.
    assert peak < 12 * y.nbytes


def test_likelihoods_are_values():
    assert PairwiseProbit() == PROBIT
    assert PROBIT != LOGIT
    assert repr(LOGIT) == "PairwiseLogit()"
    with pytest.raises(TypeError, match="abstract"):
        PairwiseLikelihood()
    assert_array_equal(PROBIT.predict([], []), [])
