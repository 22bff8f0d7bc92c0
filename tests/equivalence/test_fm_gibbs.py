"""Gibbs sampling of the factorization machine of ordered levels against importance sampling of a tiny problem."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import ndtr

from skpref.factorization.machine.chain import ChainOptions, sample_chain
from skpref.factorization.machine.model import Bias, Machine, Prior
from skpref.factorization.machine.posterior import FMPosterior
from skpref.likelihoods import OrdinalProbit


@pytest.mark.statistical  # moments from many draws
def test_the_posterior_of_a_tiny_problem_is_that_of_importance_sampling():
    u, i = np.array([0, 0, 0, 1, 1, 1, 2, 2]), np.array([0, 1, 2, 0, 1, 2, 0, 2])
    level = np.array([0, 2, 1, 1, 2, 2, 0, 1])
    rows = sparse.csr_array(np.hstack([np.eye(3)[u], np.eye(3)[i]]))
    prior = Prior(np.array([[0.2, 0.5], [-0.3, 0.4]]), np.array([[5.0, 3.0], [4.0, 4.0]]), np.repeat([0, 1], 3))
    unit = Bias(0.0, 1.0)
    machine = Machine(unit, np.zeros((6, 2)), np.ones((6, 2)), unit, prior, OrdinalProbit((-1.0, 1.0)))
    start = FMPosterior(machine, machine, 0.0, 1.0)
    posterior = sample_chain(start, rows, level, ChainOptions(4000, 100, 3900), 5)
    mean, variance = posterior.moments(rows)
    thresholds = np.array(posterior.machine.likelihood.thresholds)

    rng, n = np.random.default_rng(0), 200_000
    theta = prior.nu[prior.group] + rng.standard_normal((n, 6, 2)) / np.sqrt(prior.lam[prior.group])
    user, item = theta[:, :3][:, u], theta[:, 3:][:, i]
    z = rng.standard_normal((n, 1)) + user[..., 0] + item[..., 0] + user[..., 1] * item[..., 1]
    b = rng.normal(-0.8, 1.5, (n, 1)) + np.column_stack([np.zeros(n), gap := rng.exponential(2.0, n)])
    log_q = -0.5 * ((b[:, 0] + 0.8) / 1.5) ** 2 - gap / 2.0
    below = ndtr(np.column_stack([np.full(n, -np.inf), b, np.full(n, np.inf)])[:, None, :] - z[..., None])
    p = np.diff(below)[:, np.arange(8), level]
    weight = np.prod(p, axis=1) * np.exp(-log_q)
    weight /= weight.sum()
    assert 1.0 / (weight**2).sum() > 500.0
    centred, spread = z - b.mean(axis=1, keepdims=True), weight @ np.diff(b, axis=1)[:, 0]
    expected = weight @ centred
    assert_allclose(mean - thresholds.mean(), expected, atol=0.12)
    assert_allclose(np.sqrt(variance), np.sqrt(weight @ (centred - expected) ** 2), rtol=0.12)
    assert_allclose(np.diff(thresholds), spread, rtol=0.1)
