"""The mode of the softmax: gradients, the conditions of an optimum, two classes as one difference."""

import numpy as np
from numpy.testing import assert_allclose

from skpref.inference.laplace import laplace
from skpref.inference.softmax import log_joint, softmax_covariance, softmax_mode
from skpref.inference.terms.base import RowTerm, Segment
from skpref.likelihoods import PairwiseLogit

RNG = np.random.default_rng(0)
N, M = 30, 6
ROWS = RNG.standard_normal((N, M))
COUNTS = np.eye(4)[np.arange(N) % 4] * RNG.uniform(0.5, 2.0, (N, 1))
TERM = RowTerm(ROWS, (Segment("f", M),))


def mode(counts=COUNTS, start=None, max_iter=500):
    return softmax_mode(TERM, counts, start, max_iter, 1e-12)


def test_gradient_is_that_of_differences():
    mean, along, h = RNG.standard_normal((M, 4)), RNG.standard_normal((M, 4)), 1e-5
    ends = [log_joint(ROWS, COUNTS, mean + s * h * along)[0] for s in (1.0, -1.0)]
    assert_allclose(np.vdot(log_joint(ROWS, COUNTS, mean)[1], along), (ends[0] - ends[1]) / (2.0 * h), rtol=1e-7)


def test_the_gradient_vanishes_at_the_mode_from_any_start():
    result = mode()
    value, gradient = log_joint(ROWS, COUNTS, result.mean)
    assert result.converged
    assert_allclose(result.value, value, rtol=1e-12)
    assert np.abs(gradient).max() < 1e-3
    assert_allclose(result.mean.sum(axis=1), 0.0, atol=1e-4)  # the level that all classes share has no evidence
    assert_allclose(mode(start=RNG.standard_normal((M, 4))).mean, result.mean, atol=1e-3)
    assert mode(start=result.mean).n_iter < result.n_iter
    assert not mode(max_iter=1).converged


def test_weights_count_rows():
    copies = np.repeat(np.arange(N), 2)
    twice = softmax_mode(RowTerm(ROWS[copies], TERM.segments), COUNTS[copies], None, 500, 1e-12)
    assert_allclose(mode(2.0 * COUNTS).mean, twice.mean, atol=1e-4)


def test_two_classes_are_one_difference_under_the_logit():
    counts = np.column_stack([np.arange(N) % 2, (np.arange(N) + 1) % 2]).astype(float)
    result = mode(counts)
    K = 2.0 * (ROWS @ ROWS.T) + 1e-9 * np.eye(N)
    posterior = laplace(K, PairwiseLogit(), counts[:, 0], np.ones(N))
    difference = ROWS @ (result.mean[:, 0] - result.mean[:, 1])
    assert_allclose(difference, K @ posterior.alpha, atol=1e-4)
    half = softmax_covariance(TERM, counts, result.mean)
    assert_allclose(2.0 * np.sum((ROWS @ half.T) ** 2, axis=1), posterior.variance, rtol=1e-4)
