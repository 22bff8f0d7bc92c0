"""The factorization machine's bound, moments and gradients against `$SKPREF_SHARED/reference/variational_fm` (V1, V2).

In classification the file's expectations are over y(x) itself, a sum of products of normals; ours are over the normal
distribution with its moments (docs/maths section 9), 0.002 away at most here. The sampled bound is that of the file.
"""

import json
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

from skpref.factorization.machine.fit_batches import Sizes, batch_of, estimate
from skpref.factorization.machine.model import Bias, Machine, Prior, compress
from skpref.likelihoods import Gaussian, PairwiseLogit

CASES = "dense_d1", "onehot_d2", "onehot_logistic_d2"


@pytest.fixture(scope="module", params=CASES)
def case(request, shared):
    return json.loads((shared / "reference/variational_fm/cases.json").read_text("utf-8"))["cases"][request.param]


def problem(config):
    """Machine, X and y of a case."""
    q, p = config["q"], config["prior"]
    mean = np.column_stack([q["w_mean"], q["v_mean"]])
    variance = np.column_stack([q["w_sd"], q["v_sd"]]) ** 2
    nu = np.column_stack([p["w_mean"], p["v_mean"]])
    lam = np.column_stack([p["w_prec"], p["v_prec"]])
    likelihood = Gaussian(config["alpha"]) if config["task"] == "regression" else PairwiseLogit()
    bias, bias_prior = Bias(q["w0_mean"], q["w0_sd"] ** 2), Bias(p["w0_mean"], 1.0 / p["w0_prec"])
    machine = Machine(bias, mean, variance, bias_prior, Prior(nu, lam, np.array(config["group"])), likelihood)
    return machine, sparse.csr_array(np.array(config["X"], dtype=float)), np.array(config["y"], dtype=float)


def evidence_bound(machine, X, y):
    """The bound without hyper-priors."""
    mu, v = machine.moments(compress(X))
    return machine.bound(machine.slopes(y, mu, v, np.ones(y.size))[0]) - machine.log_hyper_prior()


def test_moments_and_bound(case):
    machine, X, y = problem(case["config"])
    mu, v = machine.moments(compress(X))
    np.testing.assert_allclose(mu, case["predictive_mean"], rtol=1e-10)
    np.testing.assert_allclose(v, case["predictive_var_of_f"], rtol=1e-10)
    rtol = 1e-10 if case["config"]["task"] == "regression" else 3e-3
    np.testing.assert_allclose(machine.likelihood.expectation(y, mu, v)[0], case["expected_loglik_terms"], rtol=rtol)
    divergences = machine.divergences()
    np.testing.assert_allclose(machine.bias_divergence(), case["kl_w0"], rtol=1e-10)
    np.testing.assert_allclose(divergences[:, 0], case["kl_w"], rtol=1e-10)
    np.testing.assert_allclose(divergences[:, 1:].sum(axis=1), case["kl_v"], rtol=1e-10)
    np.testing.assert_allclose(evidence_bound(machine, X, y), case["elbo"], rtol=rtol)


def test_predictive_probability(case):
    if case["config"]["task"] == "regression":
        pytest.skip("of classification")
    machine, X, _ = problem(case["config"])
    p = machine.likelihood.predict(*machine.moments(compress(X)))
    np.testing.assert_allclose(p, case["predictive_probability"], rtol=3e-3)


def test_sampled_bound(case):
    machine, X, y = problem(case["config"])
    n, rng = y.size, np.random.default_rng(0)
    batch, sizes = batch_of(X, y, np.ones(n)), Sizes(n, np.bincount(X.indices, minlength=X.shape[1]))
    found = [estimate(machine, batch, sizes, rng, n_samples=50) for _ in range(400)]
    for draws, wanted in (
        ([e.value for e in found], case["elbo"]),
        *([([e.in_mean for e in found], estimate(machine, batch, sizes).in_mean)] if "gradient" in case else []),
        *([([e.in_log_sd for e in found], estimate(machine, batch, sizes).in_log_sd)] if "gradient" in case else []),
        *([([e.in_bias for e in found], estimate(machine, batch, sizes).in_bias)] if "gradient" in case else []),
    ):
        se = np.std(draws, axis=0) / 20.0
        assert np.all(np.abs(np.mean(draws, axis=0) - wanted) <= 5.0 * se + 1e-10)


def test_gradients(case):
    if "gradient" not in case:
        pytest.skip("the file has none for this case")
    machine, X, y = problem(case["config"])
    n, gradient = y.size, case["gradient"]
    batch = batch_of(X, y, np.ones(n))
    found = estimate(machine, batch, Sizes(n, np.bincount(X.indices, minlength=X.shape[1])))
    sd = np.sqrt(machine.variance)
    tight = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(found.in_mean, np.column_stack([gradient["w_mean"], gradient["v_mean"]]), **tight)
    wanted = np.column_stack([gradient["w_sd"], gradient["v_sd"]]) * sd
    np.testing.assert_allclose(found.in_log_sd, wanted, **tight)
    bias_sd = np.sqrt(machine.bias.variance)
    np.testing.assert_allclose(found.in_bias, [gradient["w0_mean"], gradient["w0_sd"] * bias_sd], **tight)


def test_minibatch_estimates(case):
    if "minibatch" not in case:
        pytest.skip("of one case")
    machine, X, y = problem(case["config"])
    n, counts = y.size, np.bincount(X.indices, minlength=X.shape[1])
    found = []
    for rows in combinations(range(n), case["config"]["batch_size"]):
        chosen = list(rows)
        found.append(estimate(machine, batch_of(X[chosen], y[chosen], np.ones(len(chosen))), Sizes(n, counts)).value)
    np.testing.assert_allclose(found, case["minibatch"]["estimates"]["horvitz_thompson"], rtol=1e-10)
    np.testing.assert_allclose(np.mean(found), case["elbo"], rtol=1e-12)
