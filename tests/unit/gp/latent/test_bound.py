"""The bound of the Bayesian GPLVM, its gradient, and the inference of the input of a row."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from skpref.gp.latent.bound import (
    Inputs,
    LatentHyper,
    bound_and_gradient,
    gradients,
    kernel_matrix,
    mapping_of,
    moments_of,
    whitening,
)
from skpref.inference.collapsed import collapse
from tests.examples import examples

seeds = st.integers(0, 2**32 - 1)
few = examples(25)


def draw(seed):
    rng = np.random.default_rng(seed)
    n, M, Q, D = rng.integers(1, 12), rng.integers(1, 6), rng.integers(1, 4), rng.integers(1, 4)
    inputs = Inputs(rng.normal(size=(n, Q)), np.exp(rng.normal(-1.0, 1.0, (n, Q))))
    hyper = LatentHyper(rng.normal(size=(M, Q)), rng.normal(-1.0, 1.0, Q), float(rng.normal()), float(rng.normal()))
    return rng, rng.normal(size=(n, D)), inputs, hyper


def derivative(function, step=1e-2, n_steps=10):
    """f'(0) by central differences of halved steps, extrapolated to 0 (Ridders 1982), at the least estimated error.

    No single step serves all draws: where two inducing points nearly coincide the bound varies within 1e-3.
    """
    best, least_error = np.nan, np.inf
    last = []
    for h in step / 2.0 ** np.arange(n_steps):
        row = [(function(h) - function(-h)) / (2.0 * h)]
        for order, coarser in enumerate(last, start=1):
            row.append(row[-1] + (row[-1] - coarser) / (4.0**order - 1.0))
            error = max(abs(row[-1] - row[-2]), abs(row[-1] - coarser))
            if error < least_error:
                best, least_error = row[-1], error
        last = row
    return best


@few
@given(seed=seeds)
def test_the_gradient_is_the_slope(seed):
    rng, Y, inputs, hyper = draw(seed)
    _, in_inputs, in_hyper = bound_and_gradient(Y, inputs, hyper)
    there = [inputs.mu, np.log(inputs.s), *hyper]
    slopes = [in_inputs.mu, in_inputs.s * inputs.s, *in_hyper]
    direction = [rng.normal(size=np.shape(x)) for x in there]

    def value(t):
        mu, log_s, *hyper_parts = (x + t * u for x, u in zip(there, direction, strict=True))
        return bound_and_gradient(Y, Inputs(mu, np.exp(log_s)), LatentHyper(*hyper_parts))[0]

    parts = [float(np.sum(g * u)) for g, u in zip(slopes, direction, strict=True)]
    # 1.2e-7 at most over seeds 0 to 5,000 and 3,000 random ones.
    assert abs(sum(parts) - derivative(value)) < 1e-5 * (1.0 + sum(map(abs, parts)))


@few
@given(seed=seeds)
def test_certain_inputs_among_the_inducing_ones_give_the_exact_evidence(seed):
    _, Y, inputs, hyper = draw(seed)
    n = Y.shape[0]
    certain = Inputs(inputs.mu, np.full_like(inputs.s, 1e-12))
    hyper = hyper._replace(Z=certain.mu)
    value = bound_and_gradient(Y, certain, hyper)[0] + certain.divergence()
    a, beta = np.exp(hyper.log_a), np.exp(hyper.log_beta)
    K = kernel_matrix(hyper) - 1e-6 * a * np.eye(n) + np.eye(n) / beta
    exact = sum(multivariate_normal(np.zeros(n), K).logpdf(y) for y in Y.T)
    # The inducing variables' own noise leaves 1e-6 a of every variance open.
    slack = 1e-6 * a * beta * Y.size * (1.0 + beta * np.abs(Y).max() ** 2)
    assert value <= exact + 1e-8 * (1.0 + abs(exact))
    assert value >= exact - slack - 1e-6


@few
@given(seed=seeds)
def test_rows_and_functions_make_up_the_bound(seed):
    _, Y, inputs, hyper = draw(seed)
    mapping, bound = mapping_of(Y, inputs, hyper)
    same, rows = mapping.infer(Y, inputs, max_iter=0, tol=0.0)
    assert_allclose(same.mu, inputs.mu)
    # F = sum of the rows' bounds - KL(q(u) || p(u)), a divergence in closed form for each column.
    K = kernel_matrix(hyper)
    S = K - K @ mapping.gap @ K
    mean = K @ mapping.V
    M, D = mapping.V.shape
    share = np.linalg.slogdet(K)[1] - np.linalg.slogdet(S)[1]
    divergence = 0.5 * (D * (np.trace(np.linalg.solve(K, S)) - M + share) + np.sum(mean * mapping.V))
    value = bound_and_gradient(Y, inputs, hyper)[0]
    assert_allclose(bound, value, rtol=1e-12)
    assert_allclose(rows.sum() - divergence, value, rtol=1e-5, atol=1e-3)
    moved, better = mapping.infer(Y, inputs, max_iter=50, tol=1e-8)
    assert np.all(better >= rows - 1e-9)
    assert bound_and_gradient(Y, moved, hyper)[0] >= value - 1e-8


@few
@given(seed=seeds)
def test_gradients_of_batches_add_up(seed):
    _, Y, inputs, hyper = draw(seed)
    whitened = whitening(hyper)
    moments = moments_of(Y, inputs, hyper, whitened[1])
    best = collapse(moments, float(np.exp(hyper.log_beta)))
    whole, in_hyper = gradients(Y, inputs, hyper, whitened, moments, best)
    total, size = [np.zeros(np.shape(part)) for part in in_hyper], Y.shape[0]
    for i in range(size):
        row = Inputs(inputs.mu[i : i + 1], inputs.s[i : i + 1])
        of_row = moments_of(Y[i : i + 1], row, hyper, whitened[1])
        scaled = replace(moments, gram=size * of_row.gram, cross=size * of_row.cross)
        in_row, estimate = gradients(Y[i : i + 1], row, hyper, whitened, scaled, best, share=1.0 / size)
        assert_allclose(in_row.mu, whole.mu[i : i + 1], rtol=1e-9, atol=1e-9)
        total = [so_far + part / size for so_far, part in zip(total, estimate, strict=True)]
    for so_far, part in zip(total, in_hyper, strict=True):
        assert_allclose(so_far, part, rtol=1e-7, atol=1e-7 * (1.0 + np.abs(part).max()))


@few
@given(seed=seeds)
def test_moments_are_those_of_samples(seed):
    rng, Y, inputs, hyper = draw(seed)
    mapping, _ = mapping_of(Y, inputs, hyper)
    mean, variance = mapping.moments(inputs)
    assert_allclose(mean, mapping.mean(inputs), rtol=1e-10, atol=1e-12)
    n_draws = 4000
    x = inputs.mu[0] + np.sqrt(inputs.s[0]) * rng.standard_normal((n_draws, inputs.mu.shape[1]))
    a = np.exp(hyper.log_a)
    k = a * np.exp(-0.5 * np.einsum("q,nmq->nm", np.exp(hyper.log_w), (x[:, None] - hyper.Z) ** 2))
    f = k @ mapping.V
    inner = a - np.einsum("nm,ml,nl->n", k, mapping.gap, k)
    assert np.all(np.abs(f.mean(axis=0) - mean[0]) < 6.0 * f.std(axis=0) / np.sqrt(n_draws) + 1e-9)
    square = inner[:, None] + (f - mean[0]) ** 2
    assert np.all(np.abs(square.mean(axis=0) - variance[0]) < 6.0 * square.std(axis=0) / np.sqrt(n_draws) + 1e-9 * a)
